"""Pictures of tables: a heat map with its numbers, or bars for a table with one side."""

from __future__ import annotations

import itertools
import math
from typing import TYPE_CHECKING

import numpy as np

from tightdp.errors import check_most, fail
from tightdp.plots.canvas import INK, axes_for, finish, shortened
from tightdp.plots.release_pictures import plot_release
from tightdp.printed import most, percent, value_and_interval
from tightdp.release import Release

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST, _MOST_WRITTEN, _MOST_DRAWN = 22, 120, 10_000


def plot_table(table: Release, ax: Axes | None = None) -> Axes:
    """A released table as a heat map, its last side across; one with a single side as bars.

    Cells say their value and, where there is room, the half-width of their interval; those that
    are too uncertain to be printed are empty, with a dash.

    Examples
    --------
    >>> from tightdp import Category, Schema, Tables
    >>> facts = {"sex": Category(["f", "m"], other="f"), "k": Category(["a", "b"], other="a")}
    >>> book = Tables(Schema(facts, rows=40), 2, epsilon=1).release(
    ...     {"sex": ["f", "m"] * 20, "k": ["a", "a", "b", "b"] * 10}, rng=1)
    >>> plot_table(book.table("sex", "k")).get_xlabel()
    'k'
    """
    if not table.axes:
        fail("`table` must be a release of a table, such as `book.table(...)`: it has no sides.")
    if len(table.axes) == 1:
        return plot_release(table, ax)
    *down, (across, labels) = table.axes
    check_most("table", len(table.names), _MOST_DRAWN, "cells", "draw a smaller table")
    lines = [", ".join(line) for line in itertools.product(*(side for _, side in down))]
    value = np.where(table.hidden, np.nan, table.value).reshape(len(lines), len(labels))
    ax = axes_for(ax, (2.6 + 0.85 * min(len(labels), 14), 2.0 + 0.42 * min(len(lines), 24)))
    picture = ax.imshow(np.maximum(value, 0.0), cmap="Blues", aspect="auto", vmin=0.0)
    if value.size <= _MOST_WRITTEN:
        _write(ax, table, value)
    ax.set_xticks(range(len(labels)), [shortened(label, _LONGEST) for label in labels])
    ax.set_yticks(range(len(lines)), [shortened(line, _LONGEST) for line in lines])
    if max(map(len, labels)) > 8:
        ax.tick_params(axis="x", labelrotation=30)
    ax.tick_params(length=0)
    half = table.half_width[~(np.isnan(table.half_width) | table.hidden)]
    top = _largest(value)
    for share in (0.0, 1.0):  # the ends of the scale of colours
        colour = picture.cmap(share)
        said = f"{max(top, 0.0) * share:.0f}" if share else "0 or less"
        ax.plot([], [], "s", color=colour, markeredgecolor=INK, label=said)
    if half.size:
        said = f"all within {most(float(half.max()))} at {percent(table.confidence)}"
        ax.plot([], [], " ", label=said)
    finish(ax, across, ", ".join(name for name, _ in down), "released counts")
    return ax


def _write(ax: Axes, table: Release, value: np.ndarray) -> None:
    """The number of every cell, light where the cell is dark."""
    middle = max(_largest(value), 1.0) / 2
    for cell, (i, j) in enumerate(np.ndindex(*value.shape)):
        text = "-"
        if not table.hidden[cell]:
            text = value_and_interval(float(table.value[cell]), table.interval[cell])[0]
        dark = value[i, j] > middle and math.isfinite(middle)
        colour = "white" if dark else INK
        ax.text(j, i, text, ha="center", va="center", fontsize=9, color=colour)


def _largest(value: np.ndarray) -> float:
    """Of the cells that are shown."""
    return float(np.nanmax(value, initial=0.0))
