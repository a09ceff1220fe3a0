"""What all pictures share, those of reports included: colours, labels, legends and axes.

Nothing here needs matplotlib before something is drawn with it: reports are made without.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightdp.errors import DimensionError, FloatArray, fail, require
from tightdp.printed import axis_mark

if TYPE_CHECKING:
    from matplotlib.axes import Axes

# Okabe and Ito's colours, told apart by every common kind of sight; lines also differ in style.
SPACE, INK = "#56B4E9", "#333333"
NAMED = {
    "l1": ("#0072B2", "--"),
    "l2": ("#009E73", "-."),
    "linf": ("#CC79A7", ":"),
    "hull": ("#D55E00", "-"),
}
OTHERS = [("#E69F00", (0, (5, 1))), ("#882255", "--"), ("#999933", "-."), ("#000000", ":")]
ACCENT, COOL = NAMED["hull"][0], NAMED["l1"][0]  # what is shown, and what it is seen against
STYLES = [NAMED["hull"], NAMED["l1"], NAMED["l2"], NAMED["linf"], *OTHERS]  # for lines in a row
_LONG_TITLE = 56
SYMBOLS = {"l1": r"$\ell_1$", "l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}


def check_planar(name: str, dim: int) -> None:
    """Refuse what does not lie in the plane."""
    if dim != 2:
        fail(f"`{name}` must have dimension 2 to be drawn. Got {dim}.", DimensionError)


def axes_for(ax: Axes | None, size: tuple[float, float]) -> Axes:
    """The given axes, or those of a new figure."""
    if ax is not None:
        return ax
    return require("matplotlib.pyplot", "plots").subplots(figsize=size, layout="constrained")[1]


def panels_for(axes: Sequence[Axes] | None, count: int, size: tuple[float, float]) -> Any:
    """The given axes, which must be ``count``, or a new row of them."""
    if axes is None:
        pyplot = require("matplotlib.pyplot", "plots")
        figure, panels = pyplot.subplots(1, count, figsize=size, layout="constrained")
        figure.get_layout_engine().set(wspace=0.08)
        return panels
    if len(axes) != count:
        fail(f"`axes` must be {count} axes. Got {len(axes)}.", DimensionError)
    return np.asarray(axes, dtype=object)


def styles_for(names: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """A colour and a line style for every name: fixed for the known ones."""
    strangers = [name for name in names if name not in NAMED]
    return {**NAMED, **{name: OTHERS[i % len(OTHERS)] for i, name in enumerate(strangers)}}


def finish(
    ax: Axes, x: str, y: str, title: str, columns: int = 2, *, legend_title: str | None = None
) -> Axes:
    """Labels, title and the legend below; no lines above and to the right. The axes come back."""
    ax.set_xlabel(x)
    ax.set_ylabel(y)
    ax.set_title(title, pad=12, fontsize=11 if len(title) > _LONG_TITLE else None)
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(ax, columns, legend_title)
    return ax


def name_rows(ax: Axes, names: Sequence[str]) -> None:
    """Rows from the top, each with its name, and numbers below as reports write them."""
    if ax.get_xscale() == "linear":
        ax.xaxis.set_major_formatter(lambda value, _: axis_mark(value))
    ax.set_yticks(range(len(names)), names)
    ax.set_ylim(len(names) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)


def shortened(name: str, most: int) -> str:
    """A name that is not longer than so many letters: what is cut is its middle.

    >>> shortened("P(region=North | smoker=yes)", 20)
    'P(region=N…oker=yes)'
    """
    if len(name) <= most:
        return name
    return f"{name[: most // 2]}…{name[len(name) - (most - most // 2 - 1) :]}"


def finish_plane(ax: Axes) -> None:
    """Equal units on both axes where that is readable, the origin marked, the legend below."""
    ax.margins(0.06)
    width, height = (np.ptp(limits) for limits in (ax.get_xlim(), ax.get_ylim()))
    if 0.25 <= height / width <= 4:
        shared = len(ax.get_shared_x_axes().get_siblings(ax)) > 1
        ax.set_aspect("equal", adjustable="box" if shared else "datalim")
    for line in (ax.axhline, ax.axvline):
        line(0.0, color=INK, linewidth=0.6, alpha=0.5, zorder=0)
    legend_below(ax, 2)


def legend_below(ax: Axes, columns: int, title: str | None = None) -> None:
    """A legend under the label of the x axis, where it hides nothing."""
    shift = require("matplotlib.transforms", "plots").ScaledTranslation
    legend = ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + shift(0.0, -0.55, ax.figure.dpi_scale_trans),
        ncols=columns,
        frameon=False,
        title=title,
    )
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_markersize"):  # plain even if it is faint
            handle.set_markersize(6)
            handle.set_alpha(0.9)


def closed_at_flat(edge: FloatArray) -> FloatArray:
    """The same closed polygon, begun where it is flattest, so that no corner is left open."""
    if len(edge) < 4:
        return edge
    ring = edge[:-1] / np.abs(edge).max(axis=0)
    side = np.roll(ring, -1, axis=0) - ring
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    straight = np.sum(side * np.roll(side, 1, axis=0), axis=1)
    ring = np.roll(edge[:-1], -int(straight.round(6).argmax()), axis=0)
    return np.vstack([ring, ring[:1]])


def write_value(ax: Axes, x: float, y: float, text: str, *, bold: bool) -> None:
    """A value to the right of the end of its bar."""
    ax.annotate(
        text,
        (x, y),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=9.5,
        fontweight="bold" if bold else "normal",
    )
