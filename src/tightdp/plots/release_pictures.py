"""Pictures of releases: what was published and how far off it can be, and what was expected."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING

import numpy as np

from tightdp.errors import DimensionError, check_choice, fail
from tightdp.plots.canvas import INK, SPACE, axes_for, legend_below, styles_for
from tightdp.preview import Preview
from tightdp.printed import percent
from tightdp.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_release(
    release: Release, ax: Axes | None = None, *, entries: Sequence[str] | None = None
) -> Axes:
    """Released values as bars with their simultaneous intervals.

    Entries share one axis, so choose ``entries`` of one unit: the cells of a histogram, the means
    of comparable columns. The intervals are for the statistic without noise; entries whose error
    depends on the data have none.

    Examples
    --------
    >>> from tightdp import Guarantee
    >>> release = Release(
    ...     names=("a", "b"), value=np.array([7.0, 9.0]), integers=(7, 9), resolution=1,
    ...     guarantee=Guarantee(epsilon=1.0), noise="discrete Laplace",
    ...     covariance=2 * np.eye(2), half_width=np.array([4.0, 4.0]), confidence=0.95,
    ... )
    >>> plot_release(release).get_xlabel()
    'released value, 95% intervals for all entries at once'
    """
    names = release.names if entries is None else tuple(entries)
    rows = [release.names.index(check_choice("entries", name, release.names)) for name in names]
    if not rows:
        fail("`entries` must name at least one entry.", DimensionError)
    ax = axes_for(ax, (7.6, 2.1 + 0.42 * len(rows)))
    places = np.arange(len(rows))
    ax.barh(places, release.value[rows], 0.62, color=SPACE, alpha=0.8, label="released")
    ax.errorbar(
        release.value[rows],
        places,
        xerr=np.nan_to_num(np.abs(release.interval[rows] - release.value[rows, None])).T,
        fmt="o",
        color=INK,
        markersize=4,
        capsize=4,
        linewidth=1.4,
        label="interval for the value without noise",
    )
    ax.set_yticks(places, names)
    ax.set_ylim(len(rows) - 0.5, -0.5)
    ax.set_ylabel("entry")
    ax.tick_params(axis="y", length=0)
    ax.axvline(0.0, color=INK, linewidth=0.6)
    ax.set_xlabel(
        f"released value, {percent(release.confidence)} intervals for all entries at once"
    )
    ax.set_title(str(release.guarantee), pad=12, fontsize=11)
    ax.spines[["top", "right", "left"]].set_visible(False)
    legend_below(ax, 2)
    return ax


def plot_previews(previews: Mapping[str, Preview], ax: Axes | None = None) -> Axes:
    """The error to expect from several noises on one statistic, relative to the least.

    Examples
    --------
    >>> from tightdp import AdditiveMechanism, Category, Counts, Schema
    >>> counts = Counts(Schema({"k": Category(["a", "b", "c"], other="a")}, rows=100))
    >>> names = ["hull", "l1"]
    >>> made = {n: AdditiveMechanism(counts, noise=n, epsilon=1.0).preview() for n in names}
    >>> plot_previews(made).get_xlabel()
    'noise std, relative to the least'
    """
    if not previews:
        fail("`previews` must hold at least one preview.", DimensionError)
    first, *others = previews.values()
    if any(other.names != first.names for other in others):
        fail("`previews` must be of one statistic: their entries differ.", DimensionError)
    errors = np.array([preview.std for preview in previews.values()])
    least = errors.min(axis=0)
    ax = axes_for(ax, (7.6, 2.0 + 0.24 * len(errors) * len(first.names)))
    height, places = 0.8 / len(errors), np.arange(len(first.names))
    for i, (name, preview) in enumerate(previews.items()):
        shift = (i - (len(errors) - 1) / 2) * height
        colour, _ = styles_for(list(previews))[name]
        ax.barh(places + shift, preview.std / least, 0.9 * height, color=colour, label=name)
    ax.axvline(1.0, color=INK, linewidth=0.8, linestyle="--")
    ax.set_yticks(places, first.names)
    ax.set_ylim(len(places) - 0.5, -0.5)
    ax.tick_params(axis="y", length=0)
    ax.set_ylabel("entry")
    ax.set_xlabel("noise std, relative to the least")
    ax.set_title(str(first.guarantee), pad=12, fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(ax, len(errors))
    return ax
