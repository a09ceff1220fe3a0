"""Sums of numeric columns beside the number of rows or the squares: for means and variances."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from tightdp.data.blocks import Block, Grid, product_rounding
from tightdp.data.statistics import UNIT, Statistic, columns_of_kind, distinct, sums_and_gram
from tightdp.errors import FloatArray, Integers, fail
from tightdp.geometry.row_images import ProductImage, SquareImage
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.privacy import Neighbors
from tightdp.schema import Interval, Schema, check_schema


class SumsAndRows(Statistic):
    """Sums of numeric columns and the number of rows, for means when that number is private.

    Under add-remove a row moves (sums, rows) by +-(x, 1), x in [-1, 1]^d, whose hull is the cube.

    Examples
    --------
    >>> SumsAndRows(Schema({"x": Interval(0, 1)}, rows=9, neighbors="add-remove")).names
    ('x', 'rows')
    """

    def __init__(self, schema: Schema, columns: Iterable[str] | None = None) -> None:
        self.schema = check_schema(schema)
        if schema.neighbors is Neighbors.REPLACE_ONE:
            fail("Under replace-one the number of rows is public: use Sums.")
        self.columns = tuple(columns_of_kind(schema, columns, Interval))
        self.names = (*self.columns, "number of rows" if "rows" in self.columns else "rows")

    @property
    def degree(self) -> int:
        return 1

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        cells = grid.cells(block, self.columns)
        return np.array([*cells.sum(axis=1), len(block) * grid.points], dtype=np.int64)

    def row_rounding(self, grid: Grid) -> FloatArray:
        return np.array([*map(grid.rounding, self.columns), 0.0])

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace.of(dict.fromkeys(self.names, UNIT), neighbors="add-remove")

    def independent_blocks(self) -> list[tuple[Sequence[int], Sequence[str]]]:
        sums = [([j], [name]) for j, name in enumerate(self.columns)]
        return [*sums, ([len(self.columns)], [])]


class SumsAndSquares(Statistic):
    """(sum x, 2 sum x^2) of every column, scaled to [-1, 1]: what variances are made of.

    Examples
    --------
    >>> SumsAndSquares(Schema({"x": Interval(0, 1)}, rows=9)).names
    ('x', '2*x^2')
    """

    def __init__(self, schema: Schema, columns: Iterable[str] | None = None) -> None:
        self.schema = check_schema(schema)
        self.columns = tuple(columns_of_kind(schema, columns, Interval))
        self._images = [SquareImage(name) for name in self.columns]
        names = itertools.chain.from_iterable(image.names for image in self._images)
        self.names = distinct(tuple(names))

    multi_affine = False

    @property
    def degree(self) -> int:
        return 2

    def independent_blocks(self) -> list[tuple[Sequence[int], Sequence[str]]]:
        return [([2 * j, 2 * j + 1], [name]) for j, name in enumerate(self.columns)]

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        sums, gram = sums_and_gram(block, self.columns, grid)
        return np.stack([sums * grid.points, 2 * np.diag(gram)], axis=1).ravel().astype(np.int64)

    def row_rounding(self, grid: Grid) -> FloatArray:
        errors = np.array([grid.rounding(name) for name in self.columns])
        squares = [2 * product_rounding([error, error]) for error in errors]
        return np.column_stack([errors, squares]).ravel()

    def sensitivity_space(self) -> SensitivitySpace:
        whole = self._images[0] if len(self._images) == 1 else ProductImage(self._images)
        return SensitivitySpace(whole, self.schema.neighbors)
