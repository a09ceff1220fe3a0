"""Counts of several columns at once, in the cells of public bins and levels."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.blocks import Block
from tightdp.data.statistics import Histogram, Statistic, check_schema
from tightdp.errors import DimensionError, FloatArray, check_choice, check_list, fail
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.privacy import Neighbors
from tightdp.schema import Category, Interval, Schema

_MOST = 1 << 20  # names alone would fill memory


class JointHistogram(Statistic):
    """Counts in the cells of a table of columns: bins of numbers, levels of categories.

    A row is in one cell, so the sensitivity space is that of any histogram: under replace-one a
    row leaves a cell and enters another, and the total is public; under add-remove one cell moves.

    Parameters
    ----------
    schema : Schema
    columns : sequence of str
    bins : int, or one entry per column
        A number of equal bins for every numeric column; or for each column in turn a number or
        increasing edges (None for a category).

    Attributes
    ----------
    edges : tuple
        The edges of each column; None for a category.
    shape : tuple of int
        Bins or levels of each column. Entries are in the order of ``numpy.ravel``.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 10), "k": Category(["a", "b"], other="a")}, rows=9)
    >>> cells = JointHistogram(schema, ["x", "k"], bins=2)
    >>> cells.shape, cells.names[1]
    ((2, 2), 'x[0, 5):k[b]')
    """

    def __init__(self, schema: Schema, columns: Sequence[str], bins: object) -> None:
        self.schema = check_schema(schema)
        self.columns = tuple(check_list("columns", columns))
        if not self.columns or not all(isinstance(name, str) for name in self.columns):
            fail("`columns` must be a list of at least one name.")
        if len(set(self.columns)) < len(self.columns):
            fail("`columns` must be distinct.")
        self._axes = [
            Histogram(schema, name, given) if isinstance(schema[name], Interval) else None
            for name, given in zip(self.columns, self._per_column(bins), strict=True)
        ]
        labels = [
            axis.names if axis is not None else self._levels(name)
            for name, axis in zip(self.columns, self._axes, strict=True)
        ]
        self.shape = tuple(len(part) for part in labels)
        if math.prod(self.shape) < 2:
            fail("There must be at least two cells.")
        if math.prod(self.shape) > _MOST:
            fail(f"`bins` must make at most {_MOST} cells: take fewer bins or columns.")
        self.names = tuple(":".join(parts) for parts in itertools.product(*labels))

    def _per_column(self, bins: Any) -> list[Any]:
        if isinstance(bins, (int, np.integer)):
            return [bins] * len(self.columns)
        given = list(bins) if isinstance(bins, (list, tuple, np.ndarray)) else [bins]
        if len(self.columns) == 1 and (len(given) != 1 or np.ndim(given[0]) == 0):
            # the edges of the one column, not wrapped up
            return [given if len(given) > 1 else given[0]]
        if len(given) != len(self.columns):
            fail(
                f"`bins` must be a number, or one entry for each of the {len(self.columns)} "
                f"columns. Got {len(given)}.",
                DimensionError,
            )
        return given

    def _levels(self, name: str) -> tuple[str, ...]:
        column = self.schema[check_choice("columns", name, self.schema)]
        assert isinstance(column, Category)
        return tuple(f"{name}[{level}]" for level in column.levels)

    @property
    def edges(self) -> tuple[FloatArray | None, ...]:
        return tuple(None if axis is None else axis.edges for axis in self._axes)

    @property
    def degree(self) -> int:
        return 0

    def extreme_cells(self, column: str) -> NDArray[np.int64]:
        axis = self._axes[self.columns.index(column)]
        return super().extreme_cells(column) if axis is None else axis.extreme_cells(column)

    @property
    def reading(self) -> Schema:
        rules = {
            name: self.schema[name] if axis is None else axis.bins
            for name, axis in zip(self.columns, self._axes, strict=True)
        }
        return self.schema.ruled({**self.schema.columns, **rules})

    def contributions(self, block: Block, bits: int) -> NDArray[np.int64]:
        places = [block[name] for name in self.columns]
        cells = np.ravel_multi_index(tuple(p.astype(np.int64) for p in places), self.shape)
        return np.bincount(cells, minlength=len(self.names)).astype(np.int64)

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace.histogram(len(self.names), neighbors=self.schema.neighbors)

    def touched(self) -> int:
        """The cell that a row leaves and the one that it enters."""
        return 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1
