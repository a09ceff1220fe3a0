"""The exact laws of the K-norm gradient mechanism, and how fast errors fall with the rows.

A law depends on the rows: pictures of it are **not private**. Draw them for simulated rows.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightdp.accepted import TableLike
from tightdp.errors import DimensionError, FloatArray, fail
from tightdp.exact.box_sampling import BoxSampler
from tightdp.mechanisms.quantile_regression import KNormQuantileRegression
from tightdp.mechanisms.quantiles import KNormQuantile
from tightdp.mechanisms.ranks import Ranks
from tightdp.plots.canvas import (
    ACCENT,
    INK,
    NAMED,
    OTHERS,
    STYLES,
    axes_for,
    check_planar,
    finish,
    legend_below,
)
from tightdp.privacy import text_up
from tightdp.randomness import source
from tightdp.schema import Interval, Schema

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_ACROSS = 121  # points along each side of a picture of planes
_DRAWS, _SEED = 60, 1
_SEEN = 0.998  # mass that the picture of a quantile shows


def plot_quantile_law(
    mechanisms: KNormQuantile | Sequence[KNormQuantile], frame: TableLike, ax: Axes | None = None
) -> Axes:
    """The exact density of a private quantile, for one mechanism or several, over its column.

    Steps between rows, and the quantile of the rows as a line. **Not private.**

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 1)}, rows=5)
    >>> table = {"x": [0.1, 0.2, 0.4, 0.7, 0.9]}
    >>> ax = plot_quantile_law(KNormQuantile(schema, "x", 0.5, epsilon=1), table)
    >>> ax.get_xlabel()
    'x'
    """
    given = [mechanisms] if isinstance(mechanisms, KNormQuantile) else list(mechanisms)
    if not 1 <= len(given) <= len(NAMED):
        fail(f"`mechanisms` must be one to {len(NAMED)} quantiles.", DimensionError)
    ax = axes_for(ax, (7.2, 4.6))
    for mechanism, (colour, style) in zip(given, NAMED.values(), strict=False):
        ranks = Ranks.of(frame, mechanism.schema, mechanism.column)
        edges, density = _steps(mechanism, ranks)
        label = f"tau = {float(mechanism.tau):g}, epsilon = {text_up(mechanism.epsilon)}"
        ax.stairs(density, edges, color=colour, linestyle=style, linewidth=1.8, label=label)
        ax.axvline(_user(mechanism, ranks.quantile(mechanism.tau)), color=INK, linewidth=0.8)
    title = "Where a private quantile falls; lines: the quantiles of the rows"
    return finish(ax, given[0].column, "density of the release", title)


def _user(mechanism: KNormQuantile, t: object) -> Any:
    interval = mechanism.domain[0]
    return interval.middle + interval.half * np.asarray(t) / mechanism.schema.resolution


def _steps(mechanism: KNormQuantile, ranks: Ranks) -> tuple[FloatArray, FloatArray]:
    """Edges and heights, single grid points joined to the gap above them, tails left out."""
    law = mechanism.law_on(ranks)
    mass, starts = law.probabilities(), law.starts
    wide = np.flatnonzero(law.lengths > 1)
    if not len(wide):
        wide = np.array([0])
    edges = np.append(starts[wide], law.end)
    edges[0] = starts[0]
    heights = np.add.reduceat(mass, np.append(0, wide[1:]))
    places = _user(mechanism, edges)
    upto = np.cumsum(heights)
    first = int(np.searchsorted(upto, (1 - _SEEN) / 2))
    last = min(int(np.searchsorted(upto, (1 + _SEEN) / 2)) + 1, len(heights))
    return places[first : last + 1], heights[first:last] / np.diff(places[first : last + 1])


def plot_plane_law(
    mechanism: KNormQuantileRegression, frame: TableLike, ax: Axes | None = None
) -> Axes:
    """The exact law of two coefficients of a regression quantile, in scaled columns.

    Weights relative to the best plane, on an even part of the lattice around it, and some exact
    draws. **Not private.**
    """
    check_planar("mechanism", mechanism.rows.dim)
    levels = mechanism.levels(*mechanism.rows.read(frame))
    rate, edge, centre = float(mechanism.rate), mechanism.edge, (0, 0)
    step = max(1, 2 * edge // (_ACROSS - 1))
    while True:  # look at the whole set, then closer around the best plane
        ends = [
            np.clip(c + step * np.arange(-(_ACROSS // 2), _ACROSS // 2 + 1), -edge, edge)
            for c in centre
        ]
        level = np.array([[_level(levels, (int(a), int(b))) for a in ends[0]] for b in ends[1]])
        best = np.unravel_index(int(np.nanargmin(level)), level.shape)
        weight = np.exp(-rate * (level - level[best]))
        if step == 1 or np.nansum(weight) > _ACROSS:
            break
        centre, step = (int(ends[0][best[1]]), int(ends[1][best[0]])), max(1, step // 8)
    ax = axes_for(ax, (6.4, 5.4))
    scale = 1 << mechanism.grid
    image = ax.pcolormesh(
        ends[0] / scale, ends[1] / scale, weight, cmap="viridis", shading="nearest", rasterized=True
    )
    ax.figure.colorbar(image, ax=ax, label="weight, relative to the best plane")
    sampler, bits = BoxSampler(levels, mechanism.rate), source(_SEED)
    drawn = np.array([sampler.draw(bits) for _ in range(_DRAWS)]) / scale
    frame_of = ax.axis()
    ax.plot(*drawn.T, ".", color=OTHERS[0][0], markersize=4, label=f"{_DRAWS} draws")
    top = ends[0][best[1]] / scale, ends[1][best[0]] / scale
    ax.plot(*top, "x", color=ACCENT, markersize=8, label="the best plane")
    ax.axis(frame_of)
    legend_below(ax, 2)
    ax.set_xlabel(f"{mechanism.names[0]}, scaled")
    ax.set_ylabel(f"{mechanism.names[1]}, scaled")
    ax.set_title(f"Where a private plane falls, tau = {float(mechanism.tau):g}", pad=10)
    return ax


def _level(levels: Any, point: tuple[int, int]) -> float:
    return float(levels.level(point)) if levels.inside(point) else math.nan


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
    if not errors or len(errors) > len(STYLES) or any(len(row) < 2 for row in errors.values()):
        fail(
            f"`errors` must hold one to {len(STYLES)} methods with two numbers of rows each.",
            DimensionError,
        )
    ax = axes_for(ax, (7.2, 5.2))
    for (name, row), (colour, style) in zip(errors.items(), STYLES, strict=False):
        rows = np.array(sorted(row), dtype=np.float64)
        values = np.array([row[n] for n in sorted(row)])
        slope = np.polyfit(np.log(rows), np.log(values), 1)[0]
        text = f"{name}, $n^{{{slope:.2f}}}$"
        ax.plot(rows, values, "o", linestyle=style, color=colour, label=text)
    ax.set_xscale("log")
    ax.set_yscale("log")
    return finish(ax, "rows", label, "How errors fall with the number of rows")


def plot_median_rates(epsilon: float = 1.0, ax: Axes | None = None) -> Axes:
    r"""How the error of a private median falls with the number of rows: exact laws, no simulation.

    Rows are the quantiles of a standard normal law within [-8, 8]. The K-norm gradient mechanism
    adds an error of order 1/n; the exponential mechanism with the absolute loss, which is flat at
    its best point, one of order :math:`n^{-1/2}`, as sampling does (Reimherr and Awan, 2019,
    Theorem 3.2).

    Examples
    --------
    >>> plot_median_rates().get_xscale()
    'log'
    """
    from scipy.special import ndtri  # slow to import

    sizes = [round(10 ** (k / 2)) for k in range(2, 12)]
    gradient, loss = [], []
    for n in sizes:
        rows = ndtri((np.arange(n) + 0.5) / n)
        schema = Schema({"x": Interval(-8, 8)}, rows=n, bits=22)
        mechanism = KNormQuantile(schema, "x", 0.5, epsilon=epsilon)
        law = mechanism.law_on(Ranks.of({"x": rows}, schema, "x"))
        places = _user(mechanism, law.starts + (law.lengths - 1) / 2)
        spread = (16 / schema.resolution / 2 * law.lengths) ** 2 / 12
        gradient.append(math.sqrt(float(law.probabilities() @ (places**2 + spread))))
        loss.append(_loss_error(rows, epsilon))
    ax = axes_for(ax, (6.8, 5.0))
    sampling = [1.2533 / math.sqrt(n) for n in sizes]
    curves = {
        "exponential mechanism, absolute loss": loss,
        "sampling error of the median": sampling,
        "K-norm gradient mechanism": gradient,
    }
    for (label, values), (colour, style) in zip(curves.items(), NAMED.values(), strict=False):
        ax.plot(sizes, values, color=colour, linestyle=style, linewidth=1.8, label=label)
    ax.set_xscale("log")
    ax.set_yscale("log")
    title = f"Error of a private median, epsilon = {text_up(epsilon)}"
    return finish(ax, "rows", "root mean squared error", title, 1)


def _loss_error(rows: FloatArray, epsilon: float) -> float:
    """For density exp(-epsilon sum|x - t| / (2 * 16)) on [-8, 8]; symmetric around 0."""
    t = np.concatenate([[0.0], np.geomspace(1e-5, 8.0, 4000)])
    upto = np.concatenate([[0.0], np.cumsum(rows)])
    below = np.searchsorted(rows, t)
    sums = t * (2 * below - len(rows)) + upto[-1] - 2 * upto[below]
    weight = np.exp(-epsilon * (sums - sums[0]) / 32)
    return math.sqrt(float(np.trapezoid(weight * t**2, t) / np.trapezoid(weight, t)))
