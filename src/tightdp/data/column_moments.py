"""Sums, squares and products of numeric columns: what means, variances and regressions are made of."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

import numpy as np

from tightdp.data.blocks import Block, Grid, product_rounding
from tightdp.data.statistics import SCALED, UNIT, Statistic, distinct, named_columns, sums_and_gram
from tightdp.errors import FloatArray, Integers, fail
from tightdp.geometry.moment_sampling import MomentLayout as Layout
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
        self.columns = tuple(named_columns(schema, columns, Interval))
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
        self.columns = tuple(named_columns(schema, columns, Interval))
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


class Moments(Statistic):
    """First and second moments of features and a target, all scaled to [-1, 1].

    The entries are those of :class:`~tightdp.MomentBody`: sums, twice the sums of squares, and sums
    of products, for linear regression.

    Examples
    --------
    >>> schema = Schema({"a": Interval(0, 1), "y": Interval(-5, 5)}, rows=100)
    >>> Moments(schema, ["a"], "y").names
    ('a', '2*a^2', 'y', 'a*y')
    """

    def __init__(
        self, schema: Schema, features: Sequence[str], target: str, *, kind: str | None = None
    ) -> None:
        self.schema = check_schema(schema)
        x = named_columns(schema, features, Interval, "features")
        self.columns = (*x, *named_columns(schema, [target], Interval, "target"))
        if len(set(self.columns)) < len(self.columns):
            fail("`features` and `target` must be distinct columns.")
        self._layout = Layout(len(self.columns) - 1)
        self._kind = kind
        label = ["1", *self.columns]
        names = ["" for _ in range(self._layout.dim)]
        for i, j in self._layout.edges:
            names[self._layout.pair[i, j]] = label[j] if i == 0 else f"{label[i]}*{label[j]}"
        for j, place in enumerate(self._layout.square):
            names[place] = f"2*{self.columns[j]}^2"
        self.names = distinct(tuple(names))
        self._ends = np.array(self._layout.edges).T
        self._places = self._layout.pair[tuple(self._ends)]

    @property
    def units(self) -> str:
        return SCALED

    multi_affine = False

    @property
    def degree(self) -> int:
        return 2

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        sums, gram = sums_and_gram(block, self.columns, grid)
        whole = np.zeros((len(sums) + 1,) * 2, dtype=np.int64)
        whole[0, 1:], whole[1:, 1:] = sums * grid.points, gram
        out = np.empty(self._layout.dim, dtype=np.int64)
        out[self._places] = whole[tuple(self._ends)]
        out[self._layout.square] = 2 * np.diag(gram)[:-1]  # the target is not squared
        return out

    def row_rounding(self, grid: Grid) -> FloatArray:
        cell = np.array([0.0, *map(grid.rounding, self.columns)])
        whole = np.array([[product_rounding([a, b]) for b in cell] for a in cell])
        out = np.empty(self._layout.dim)
        out[self._places] = whole[tuple(self._ends)]
        out[self._layout.square] = 2 * np.diag(whole)[1:-1]
        return out

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace.moments(
            len(self.columns) - 1, kind=self._kind, neighbors=self.schema.neighbors
        )
