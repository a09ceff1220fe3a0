"""What public rows add to a statistic, measured as data are: how far a row can move it, by names.

The sensitivity space of a statistic is mathematics; this is the other side. Rows at the ends of
their public bounds pass through :meth:`~tightdp.data.statistics.Statistic.contributions`, the code
that measures data, and come out as integers that stand entry by entry where those of a release
stand. No data are read, and the choice of rows is seeded, so that it is the same for all.
"""

from __future__ import annotations

import itertools
import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightdp.data.blocks import Block
from tightdp.data.histograms import Bins
from tightdp.data.statistics import Reducer, Statistic
from tightdp.errors import WideIntegers
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.randomness import RandomSource, SeededSource
from tightdp.schema import Interval

_MOST_ROWS = 512  # of a block that is listed in full
_MOST_CELLS = 1 << 18  # integers of a list of images
_FEW, _SOME = 8, 16  # rows of which all pairs are taken


@dataclass(frozen=True, slots=True, eq=False)
class Images:
    """What rows add to some entries of a statistic.

    Attributes
    ----------
    entries : integers
        Places of the entries in the statistic.
    values : integers, shape (rows, entries)
    complete : bool
        Whether no row at all adds a point outside of the convex hull of the values.
    """

    entries: NDArray[np.intp]
    values: WideIntegers
    complete: bool


def independent_images(statistic: Statistic, bits: int) -> list[Images]:
    """The extreme rows of every block of entries that has columns of its own.

    The contributions of rows are all combinations of one of each block.

    >>> from tightdp.data.statistics import Products
    >>> from tightdp.schema import Category, Schema
    >>> schema = Schema({"x": Interval(0, 9), "k": Category(["a", "b"], other="a")}, rows=9, bits=2)
    >>> [(i.values.tolist(), i.complete) for i in independent_images(Products(schema), bits=2)]
    [([[-4], [4]], True), ([[4, 0], [0, 4]], True)]
    """
    still = {name: statistic.extreme_cells(name)[:1] for name in statistic.columns}
    blocks, rows = [], 1
    for entries, columns in statistic.independent_blocks():
        ends = [statistic.extreme_cells(name) for name in columns]
        count = math.prod(map(len, ends))
        listed = count <= _MOST_ROWS and count * len(entries) <= _MOST_CELLS
        if listed:  # one row may serve all blocks at once
            cells = np.array(list(itertools.product(*ends)), dtype=np.int64)
            still |= {name: cells[:, j] for j, name in enumerate(columns)}
        blocks.append((np.array(entries, dtype=np.intp), count if listed else 1, listed))
        rows = max(rows, blocks[-1][1])
    values = _measured(
        statistic, np.column_stack([np.resize(still[n], rows) for n in statistic.columns]), bits
    )
    return [
        Images(entries, values[:count, entries], listed and statistic.multi_affine)
        for entries, count, listed in blocks
    ]


def sampled_images(statistic: Statistic, bits: int) -> WideIntegers:
    """Images of a seeded choice of rows, few enough to take all pairs of them."""
    room = math.isqrt(2 * _MOST_CELLS // len(statistic))
    count = max(_FEW, min(_SOME, room))
    return _measured(statistic, _chosen(statistic, count, SeededSource(MEASURING_SEED)), bits)


def swept_images(statistic: Statistic, bits: int) -> WideIntegers:
    """Images of rows in which every end of every column occurs, as far as memory allows."""
    ends = [statistic.extreme_cells(name) for name in statistic.columns]
    room = max(2, min(_MOST_CELLS // len(statistic), _MOST_ROWS))
    turns = np.arange(min(max(map(len, ends)), room))
    rows = np.column_stack([cells[turns % len(cells)] for cells in ends])
    return _measured(statistic, rows, bits)


def cell_rows(statistic: Statistic) -> NDArray[np.int64]:
    """A row for every combination of cells: all there are, where columns are bins or levels."""
    ends = [statistic.extreme_cells(name) for name in statistic.columns]
    places = np.unravel_index(np.arange(math.prod(map(len, ends))), tuple(map(len, ends)))
    return np.column_stack([cells[at] for cells, at in zip(ends, places, strict=True)])


def measured_at_once(statistic: Statistic, rows: NDArray[np.int64], bits: int) -> WideIntegers:
    """The contributions of all rows together."""
    cells = rows.T.astype(np.float64)
    block = Block.of_columns(statistic.columns, cells, statistic.schema.row_units)
    return np.asarray(Reducer(statistic, bits)(block))


def _chosen(statistic: Statistic, count: int, rng: RandomSource) -> NDArray[np.int64]:
    """Random public rows: three in four cells at an end, the others anywhere on the grid."""
    out = []
    for name in statistic.columns:
        ends = statistic.extreme_cells(name)
        cells = ends[rng.integers(len(ends), count)]
        rule = statistic.reading[name]
        if isinstance(rule, Interval) and not isinstance(rule, Bins):
            top = 1 << statistic.schema.bits
            anywhere = rng.integers(2 * top + 1, count) - top
            anywhere[rng.integers(2, count) == 0] = 0  # where squares are least
            cells = np.where(rng.integers(4, count) == 0, anywhere, cells)
        out.append(cells)
    return np.column_stack(out)


def _measured(statistic: Statistic, rows: NDArray[np.int64], bits: int) -> WideIntegers:
    """The contributions of every row on its own, with the whole weight of a person."""
    measure, times = Reducer(statistic, bits), statistic.schema.row_units
    cells = rows.T.astype(np.float64)  # grid integers and codes are doubles, exactly
    one_by_one = (cells[:, i : i + 1] for i in range(len(rows)))
    blocks = (Block.of_columns(statistic.columns, row, times) for row in one_by_one)
    return np.array([measure(block) for block in blocks])
