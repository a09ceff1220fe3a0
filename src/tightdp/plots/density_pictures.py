"""Pictures of private densities, and of how errors fall with the number of rows."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

import numpy as np

from tightdp.errors import DimensionError, FloatArray, fail
from tightdp.plots.canvas import INK, NAMED, OTHERS, SPACE, axes_for, legend_below

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = [NAMED["hull"], NAMED["l1"], NAMED["l2"], NAMED["linf"], *OTHERS]


def plot_density(
    model: Any, ax: Axes | None = None, *, truth: Callable[[FloatArray], FloatArray] | None = None
) -> Axes:
    """A private density of one numeric column, over the consistent counts that it smooths.

    Parameters
    ----------
    model : Density
        Fitted to one numeric column.
    truth : callable, optional
        Another density to draw, of public origin; rows of the table are never drawn.

    Examples
    --------
    >>> from tightdp import Density
    >>> model = Density(bounds=(0, 1)).fit(np.linspace(0, 1, 500)[:, None] ** 2)
    >>> plot_density(model).get_ylabel()
    'density'
    """
    edges = getattr(model, "edges_", None)
    if edges is None or len(edges) != 1 or edges[0] is None:
        fail("`model` must be a Density, fitted to one numeric column.", DimensionError)
    (bins,), (name,) = edges, model.schema_
    ax = axes_for(ax, (7.2, 4.6))
    heights = model.probabilities_ / np.diff(bins)
    ax.stairs(heights, bins, fill=True, color=SPACE, alpha=0.45, label="counts, made consistent")
    x = np.linspace(bins[0], bins[-1], 1001)
    drawn = np.exp(model.score_samples(x[:, None]))
    ax.plot(x, drawn, color=NAMED["hull"][0], linewidth=2, label="density")
    if truth is not None:
        ax.plot(x, truth(x), color=INK, linewidth=1.2, linestyle="--", label="truth")
    ax.set_ylim(bottom=0.0)
    ax.set_xlabel(name)
    ax.set_ylabel("density")
    ax.set_title(str(model.guarantee_), pad=12)
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(ax, 3)
    return ax


def plot_rates(
    errors: Mapping[str, Mapping[int, float]], ax: Axes | None = None, *, label: str = "mean error"
) -> Axes:
    """Errors against the number of rows on logarithmic axes, each with its fitted power of n.

    Parameters
    ----------
    errors : mapping
        From the name of a method to its error at each number of rows.
    label : str
        What the errors are.

    Examples
    --------
    >>> ax = plot_rates({"mean": {100: 0.1, 10_000: 0.01}, "median": {100: 0.2, 10_000: 0.02}})
    >>> ax.get_legend().get_texts()[0].get_text()
    'mean, $n^{-0.50}$'
    """
    if not errors or len(errors) > len(_STYLES) or any(len(row) < 2 for row in errors.values()):
        fail(
            f"`errors` must hold one to {len(_STYLES)} methods with two numbers of rows each.",
            DimensionError,
        )
    ax = axes_for(ax, (7.2, 5.2))
    for (name, row), (colour, style) in zip(errors.items(), _STYLES, strict=False):
        rows = np.array(sorted(row), dtype=np.float64)
        values = np.array([row[n] for n in sorted(row)])
        slope = np.polyfit(np.log(rows), np.log(values), 1)[0]
        text = f"{name}, $n^{{{slope:.2f}}}$"
        ax.plot(rows, values, "o", linestyle=style, color=colour, label=text)
    ax.set_xscale("log")
    ax.set_yscale("log")
    ax.set_xlabel("rows")
    ax.set_ylabel(label)
    ax.set_title("How errors fall with the number of rows", pad=12)
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(ax, 2)
    return ax
