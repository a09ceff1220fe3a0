"""Additive statistics: what is summed over rows, and how far one row can move it, in one object.

A :class:`Statistic` turns a block of quantised rows into integers and knows its sensitivity space
from the same facts, so that the formula and the bound on its change cannot drift apart. All numeric
cells are integers on a grid (:mod:`~tightdp.data.grids`), scaled to [-1, 1]; all entries of one
statistic share one ``resolution``, so that one lattice noise serves them all.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.accepted import TableLike
from tightdp.data.blocks import Block, gram_of_doubles, grouped_sums, rows_that_fit
from tightdp.data.frames import integer_sums
from tightdp.data.grids import Grid, product_rounding
from tightdp.data.shared_pass import IntegerSum
from tightdp.errors import (
    DimensionError,
    FloatArray,
    Integers,
    check_array,
    check_choice,
    check_count,
    fail,
    quoted,
    shown,
)
from tightdp.geometry.combine import Product
from tightdp.geometry.moment_sampling import MomentLayout as Layout
from tightdp.geometry.norm_balls import NormBall
from tightdp.geometry.row_images import ProductImage, SquareImage
from tightdp.geometry.row_terms import read_term, read_terms
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.parameters import Recorded
from tightdp.privacy import Neighbors
from tightdp.schema import Category, Interval, Schema, decimal_value

UNIT = Interval(-1.0, 1.0)

_SCALED = "numeric columns are scaled so that their bounds are -1 and 1"
MOST_ENTRIES = 4096  # of a statistic: covariances are matrices
_MOST_BINS = 1 << 16

_LONGEST_LIST = 300  # characters of names in a repr, which labels spends in ledgers


class Statistic(Recorded, ABC):
    """A sum over rows of a public function of the quantised row.

    Attributes
    ----------
    schema : Schema
    names : tuple of str
        Names of the entries.
    columns : tuple of str
        The columns that are read.
    """

    schema: Schema
    names: tuple[str, ...]
    columns: tuple[str, ...]

    @property
    def units(self) -> str:
        """What must be said about the units of the entries; nothing where they are the user's."""
        return ""

    @property
    @abstractmethod
    def degree(self) -> int:
        """How many numeric cells are multiplied at most; 0 for counts."""

    @abstractmethod
    def contributions(self, block: Block, bits: int) -> Integers:
        """Sums over the rows of a block, in units of ``1 / resolution(bits)``."""

    @abstractmethod
    def sensitivity_space(self) -> SensitivitySpace:
        """The space of changes of the scaled statistic, one row per person."""

    def outer_balls(self) -> list[NormBall]:
        """Further balls around the sensitivity space, for where noise cannot have its shape."""
        return []

    # --- which rows move it furthest, for the proof that noise covers what it measures ---------

    multi_affine: bool = True
    """Whether every entry is affine in every numeric cell, so that rows of ends are extreme."""

    def extreme_cells(self, column: str) -> Integers:
        """Cells of a column, on the grid of the schema, between which all others lie."""
        facts = self.schema[column]
        if isinstance(facts, Interval):
            return np.array([-1, 1], dtype=np.int64) << self.schema.bits
        return np.arange(len(facts.levels), dtype=np.int64)

    def independent_blocks(self) -> list[tuple[Sequence[int], Sequence[str]]]:
        """Places of entries, and the columns on which these and no other entries depend."""
        return [(range(len(self.names)), self.columns)]

    def touched(self) -> int:
        """How many entries one row can move at most."""
        return len(self.names)

    def recover(self, values: FloatArray) -> FloatArray:
        """Scaled entries in the units of the user; public facts only."""
        return values

    @property
    def reading(self) -> Schema:
        """The rules by which rows are read; those of the schema, unless a row is put into bins."""
        return self.schema

    def grid(self, bits: int) -> Grid:
        """The grid of the cells that are multiplied; only steps make it finer than ``2**-bits``."""
        return Grid.of(self.schema, self.columns, bits, self.degree)

    def resolution(self, bits: int) -> int:
        """Lattice points per unit of the scaled statistic."""
        return int(self.grid(bits).points ** self.degree)

    def bits_within(self, resolution: int) -> int:
        """The finest grid, at most that of the schema, whose lattice is not finer than asked.

        Only for noise whose tables cannot count more: other noise uses the grid of the schema.
        """
        grids = range(self.schema.bits, 1, -1)
        return next((bits for bits in grids if self.resolution(bits) <= resolution), 1)

    def rounding(self, bits: int) -> FloatArray:
        """How far all rows together can be from the exact statistic, entry by entry, scaled.

        This is a public number: every cell is rounded by so much at most, and there are so many
        rows. What has a public step is not rounded.
        """
        return self.schema.rows * self.row_rounding(self.grid(bits))

    def row_rounding(self, grid: Grid) -> FloatArray:
        """The same for one row: the change of its contribution when its cells are rounded."""
        return np.zeros(len(self.names))

    def measure(
        self, frame: TableLike, *, bits: int | None = None, progress: bool = False
    ) -> list[int]:
        """The exact integer vector of a table, from any engine. **Not private.**"""
        fine = (
            self.schema.bits if bits is None else check_count("bits", bits, most=self.schema.bits)
        )
        wanted = self.integer_sum(fine)
        return integer_sums(
            frame,
            wanted.schema,
            wanted.columns,
            wanted.reducer,
            width=wanted.width,
            degree=wanted.degree,
            cell_bits=wanted.cell_bits,
            progress=progress,
        )

    def integer_sum(self, bits: int) -> IntegerSum:
        """What :meth:`measure` sums, to be announced where several statistics share a pass."""
        return IntegerSum(
            self.reading,
            self.columns,
            Reducer(self, bits),
            width=len(self.names),
            degree=max(1, self.degree),
            cell_bits=self.grid(bits).cell_bits,
        )

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        text = ", ".join(self.names)
        if len(text) > _LONGEST_LIST:  # cut, with a mark that tells long lists apart
            mark = hashlib.sha256("\n".join(self.names).encode()).hexdigest()[:8]
            text = f"{text[:_LONGEST_LIST]}... {len(self.names)} entries, {mark}"
        return f"{type(self).__name__}({text})"


class Reducer:
    """The contributions of a statistic at one grid, as a function that can be sent to workers."""

    def __init__(self, statistic: Statistic, bits: int) -> None:
        self.statistic, self.bits = statistic, bits

    def __call__(self, block: Block) -> Integers:
        return self.statistic.contributions(block, self.bits)

    def __eq__(self, other: object) -> bool:
        """Whether it is about the same statistic, the very object, at the same grid."""
        if not isinstance(other, Reducer):
            return NotImplemented
        return self.statistic is other.statistic and self.bits == other.bits

    def __hash__(self) -> int:
        return hash((id(self.statistic), self.bits))


class Products(Statistic):
    """Sums of products of columns, written as in a model formula.

    ``"x"`` sums a numeric column, ``"k"`` counts the levels of a category, ``"x:y"`` sums products
    and ``"x:k"`` sums x within each level (see :meth:`~tightdp.SensitivitySpace.of`). Numeric
    columns enter scaled to [-1, 1].

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 10), "k": Category(["a", "b"], other="a")}, rows=100)
    >>> Products(schema, ["x", "x:k"]).names
    ('x', 'x:k[a]', 'x:k[b]')
    """

    def __init__(self, schema: Schema, terms: Iterable[str] | None = None) -> None:
        self.schema = check_schema(schema)
        if isinstance(terms, str):
            fail(f"`terms` must be a list of terms. Got one string: write [{terms!r}].")
        if terms is not None and not isinstance(terms, Iterable):
            fail(f"`terms` must be a list of terms. Got {type(terms).__name__}.")
        self._terms = list(schema) if terms is None else list(terms)
        domain = {
            name: UNIT if isinstance(column, Interval) else column
            for name, column in schema.columns.items()
        }
        factors = read_terms(domain, self._terms)
        _check_size(factors, schema)
        self._space = SensitivitySpace.of(domain, self._terms, neighbors=schema.neighbors)
        self._factors, self._domain = factors, domain
        self.names = distinct(self._space.names)
        self._entries = {
            label: choice for term in factors for label, choice in _entries(term, schema)
        }
        self.columns = tuple(dict.fromkeys(itertools.chain.from_iterable(factors)))
        self._degree = max(sum(level is None for _, level in e) for e in self._entries.values())
        check_fits(self)
        self._groups = [self._group(term) for term in factors]

    def _group(self, term: tuple[str, ...]) -> tuple[list[str], list[str], NDArray[np.intp]]:
        """Numeric columns and categories of a term, and the places of its entries."""
        numeric = [name for name in term if isinstance(self.schema[name], Interval)]
        place = {name: j for j, name in enumerate(self.names)}
        places = np.array([place[label] for label, _ in _entries(term, self.schema)])
        return numeric, [name for name in term if name not in numeric], places

    @property
    def degree(self) -> int:
        return self._degree

    @property
    def units(self) -> str:
        numeric = {name for name in self.names if any(f[1] is None for f in self._entries[name])}
        return _SCALED if numeric - {self.names[i] for i, _, _ in self._restored()} else ""

    def contributions(self, block: Block, bits: int) -> Integers:
        names = [name for name in self.columns if isinstance(self.schema[name], Interval)]
        place = {name: j for j, name in enumerate(names)}
        grid = self.grid(bits)
        cells = grid.cells(block, names)
        pairs = any(len(numeric) == 2 and not levels for numeric, levels, _ in self._groups)
        gram = gram_of_doubles(cells, grid.cell_bits) if pairs else None
        out = np.zeros(len(self.names), dtype=np.int64)
        for numeric, levels, places in self._groups:
            at = [place[name] for name in numeric]
            if gram is not None and len(at) == 2 and not levels:
                sums = gram[at[0], at[1]]
            else:
                sums = grouped_sums(cells[at], *self._codes(block, levels), grid.cell_bits)
            # entries of lower degree are lifted to the common resolution
            out[places] = sums * grid.points ** (self.degree - len(at))
        return out

    def row_rounding(self, grid: Grid) -> FloatArray:
        errors = [
            [grid.rounding(name) for name, level in self._entries[entry] if level is None]
            for entry in self.names
        ]
        return np.array([product_rounding(each) for each in errors])

    def _codes(self, block: Block, levels: list[str]) -> tuple[Integers | None, int]:
        """The cell of each row in the table of some categories, and the number of cells."""
        codes, count = None, 1
        for name in levels:
            column = self.schema[name]
            assert isinstance(column, Category)
            width = len(column.levels)
            codes = block[name] if codes is None else codes * width + block[name]
            count *= width
        return codes, count

    def sensitivity_space(self) -> SensitivitySpace:
        return self._space

    def outer_balls(self) -> list[NormBall]:
        """The product of the hulls of the terms, as if they did not hang together.

        Its factors stand where the entries of their terms stand, which is not in general the order
        in which the terms were given.
        """
        if len(self._factors) < 2:
            return []
        relation, balls, place = self.schema.neighbors, [], 0
        for (_, _, places), term in sorted(
            zip(self._groups, self._factors, strict=True), key=lambda pair: int(pair[0][2][0])
        ):
            space = SensitivitySpace.of(self._domain, [":".join(term)], neighbors=relation)
            if self.names[place : place + len(places)] != space.names:
                return []  # the entries of a term are not side by side: there is no product
            balls.append(space.hull())
            place += len(places)
        return [Product(balls)]

    def independent_blocks(self) -> list[tuple[Sequence[int], Sequence[str]]]:
        blocks: list[tuple[list[int], set[str]]] = []
        for (_, _, places), term in zip(self._groups, self._factors, strict=True):
            shared = [block for block in blocks if block[1] & set(term)]
            blocks = [block for block in blocks if block not in shared]
            entries = list(itertools.chain(places, *(block[0] for block in shared)))
            blocks.append((sorted(entries), set(term).union(*(block[1] for block in shared))))
        return [(entries, [c for c in self.columns if c in used]) for entries, used in blocks]

    def touched(self) -> int:
        """A row is in one cell of each term; a replaced row leaves one and enters another."""
        ends = 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1
        cells = [len(list(_entries(term, self.schema))) for term in self._factors]
        return sum(min(ends, count) for count in cells)

    def recover(self, values: FloatArray) -> FloatArray:
        """Sums in the units of the columns; products of numeric columns stay scaled.

        A sum is ``half * S + middle * n``; within a level n is the count of the level, if it is
        among the entries, and otherwise the entry stays scaled too.
        """
        out = np.array(values, dtype=np.float64)
        for i, column, counted in self._restored():
            rows = self.schema.rows if counted is None else values[counted]
            out[i] = column.half * values[i] + column.middle * rows
        return out

    def _restored(self) -> Iterator[tuple[int, Interval, int | None]]:
        """Entries that come back in user units, their column, and the entry that counts rows."""
        place = {frozenset(self._entries[name]): i for i, name in enumerate(self.names)}
        for factors, i in place.items():
            numeric = [factor for factor in factors if factor[1] is None]
            levels = factors - set(numeric)
            if len(numeric) != 1 or (levels and levels not in place):
                continue
            if not levels and self.schema.neighbors is not Neighbors.REPLACE_ONE:
                continue  # the number of rows is private
            column = self.schema[numeric[0][0]]
            assert isinstance(column, Interval)
            yield i, column, place[levels] if levels else None


def _check_size(factors: Sequence[tuple[str, ...]], schema: Schema) -> None:
    """Refuse tables of so many cells that memory would end before the release."""
    levels = [[getattr(schema[name], "levels", (None,)) for name in term] for term in factors]
    count = sum(math.prod(map(len, of_term)) for of_term in levels)
    if count > MOST_ENTRIES:
        fail(
            f"`terms` must make at most {MOST_ENTRIES} entries. Got {count}: take fewer categories "
            "at once, or fewer levels."
        )


class Sums(Products):
    """Sums of numeric columns.

    Under replace-one the number of rows is public and sums come back in the units of the columns;
    under add-remove they stay scaled to [-1, 1] (the sum needs the private number of rows).

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 10)}, rows=100)
    >>> Sums(schema, ["x"]).recover(np.array([-100.0]))
    array([0.])
    """

    def __init__(self, schema: Schema, columns: Iterable[str] | None = None) -> None:
        super().__init__(schema, _named(schema, columns, Interval))


class Counts(Products):
    """Counts of the levels of categories: marginals, or a joint table for ``"j:k"``.

    Indicators of one category exclude each other, and under replace-one their total is public: no
    noise is spent on it.

    Examples
    --------
    >>> facts = {"j": Category([1, 2], other=1), "k": Category(["a", "b"], other="a")}
    >>> schema = Schema(facts, rows=9)
    >>> Counts(schema, ["j:k"]).names
    ('j[1]:k[a]', 'j[1]:k[b]', 'j[2]:k[a]', 'j[2]:k[b]')
    """

    def __init__(self, schema: Schema, columns: Iterable[str] | None = None) -> None:
        super().__init__(schema, _named(schema, columns, Category, joint=True))


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
        self.columns = tuple(_named(schema, columns, Interval))
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
        self.columns = tuple(_named(schema, columns, Interval))
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


class Bins(Interval):
    """A rule that puts cells into the bins of an interval instead of on its grid.

    Bin i holds the values from edge i to edge i + 1, the right one excluded but for the last; a
    cell is compared with the edges themselves, after the clamp and, where there is a step, after
    it has been rounded to a step.

    >>> Bins(Interval(0, 10), [0, 5, 10]).to_grid(np.array([4.9, 5, 99, np.nan]), 16, np.empty(4))
    array([0., 1., 1., 1.])
    """

    __slots__ = ("_inner", "edges", "interval")
    interval: Interval
    edges: FloatArray
    _inner: FloatArray

    def __init__(self, interval: Interval, edges: ArrayLike) -> None:
        super().__init__(
            interval.low, interval.high, interval.missing, interval.decimal, interval.thousands
        )
        object.__setattr__(self, "interval", interval)
        object.__setattr__(self, "edges", np.asarray(edges, dtype=np.float64))
        inner = self.edges[1:-1]
        if interval.step is not None:  # the first value of a bin, for values come in steps
            inner = interval.at_least(inner)
        object.__setattr__(self, "_inner", inner)

    def __reduce__(self) -> Any:
        return Bins, (self.interval, self.edges)

    def to_grid(self, cells: FloatArray, bits: int, out: FloatArray) -> FloatArray:
        values = self.interval.clamp(np.asarray(cells, dtype=np.float64))
        out[...] = np.searchsorted(self._inner, values, side="right")
        return out


class Histogram(Statistic):
    """Counts of a numeric column in public bins.

    Parameters
    ----------
    schema : Schema
    column : str
    bins : int or increasing edges
        So many equal bins of the interval, or the inner and outer edges; the first and the last
        edge are moved to the bounds of the column. Cells are compared with the edges themselves:
        counts are exact however narrow the bins are.

    Examples
    --------
    >>> Histogram(Schema({"x": Interval(0, 10)}, rows=9), "x", bins=2).names
    ('x[0, 5)', 'x[5, 10]')
    """

    def __init__(self, schema: Schema, column: str, bins: int | ArrayLike) -> None:
        self.schema = check_schema(schema)
        interval = schema[column]
        if not isinstance(interval, Interval):
            fail(f"`column` must be numeric: {column!r} is a category, use Counts.")
        self.columns, self.edges = (column,), _edges(interval, column, bins)
        self.bins = Bins(interval, self.edges)
        ends = [f"{low}, {high}" for low, high in itertools.pairwise(_texts(self.edges))]
        closing = [")"] * (len(ends) - 1) + ["]"]
        self.names = tuple(f"{column}[{e}{c}" for e, c in zip(ends, closing, strict=True))

    @property
    def degree(self) -> int:
        return 0

    @property
    def reading(self) -> Schema:
        # with all other columns: those of a matrix are told by their order
        return self.schema.ruled({**self.schema.columns, self.columns[0]: self.bins})

    def extreme_cells(self, column: str) -> Integers:
        """All bins: rows are read into them."""
        return np.arange(len(self.names))

    def contributions(self, block: Block, bits: int) -> Integers:
        return np.bincount(block[self.columns[0]], minlength=len(self.names)).astype(np.int64)

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace.histogram(len(self.names), neighbors=self.schema.neighbors)

    def touched(self) -> int:
        """The cell that a row leaves and the one that it enters."""
        return 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1


def _edges(interval: Interval, column: str, bins: int | ArrayLike) -> FloatArray:
    """The edges of the bins, from bound to bound."""
    if isinstance(bins, (int, np.integer)):
        count = check_count("bins", bins, least=2)
        if count > _MOST_BINS:
            fail(f"`bins` must be at most {_MOST_BINS}. Got {shown(count)}: take fewer bins.")
        low, high = decimal_value(interval.low), decimal_value(interval.high)
        # in decimals: the third of ten bins of [0, 1] begins at 0.3, not beside it
        edges = np.array([float(low + (high - low) * i / count) for i in range(count + 1)])
    else:
        edges = check_array("bins", bins, 1)
        if len(edges) > _MOST_BINS:
            fail(f"`bins` must have at most {_MOST_BINS} edges. Got {len(edges)}.")
        if len(edges) < 3 or not (np.diff(edges) > 0).all():
            fail("`bins` must be at least 3 increasing edges, or a number of bins >= 2.")
    edges[[0, -1]] = interval.low, interval.high
    if not (np.diff(edges) > 0).all():
        fail(
            f"`bins` must have their inner edges within the bounds of {column!r}, and so far apart "
            "that doubles tell them apart: use fewer bins."
        )
    return edges


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
        x = _named(schema, features, Interval, "features")
        self.columns = (*x, *_named(schema, [target], Interval, "target"))
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
        return _SCALED

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


def sums_and_gram(
    block: Block, columns: Sequence[str], grid: Grid
) -> tuple[Integers, NDArray[Any]]:
    """Exact sums, shape (d,), and sums of products, shape (d, d), of cells on a grid."""
    cells = grid.cells(block, columns)
    return cells.sum(axis=1).astype(np.int64), gram_of_doubles(cells, grid.cell_bits)


def check_fits(statistic: Statistic) -> None:
    """Refuse, before any budget is spent, products that 64 bits do not hold."""
    rows_that_fit(statistic.grid(statistic.schema.bits).cell_bits, statistic.degree, 1)


def check_schema(schema: object) -> Schema:
    """A Schema, or a clear error."""
    if not isinstance(schema, Schema):
        fail(f"`schema` must be a Schema. Got {type(schema).__name__}.")
    return schema


def _texts(edges: FloatArray) -> list[str]:
    """The edges in as few digits, from six on, as tell them apart."""
    texts = ([f"{edge:.{digits}g}" for edge in edges] for digits in range(6, 18))
    return next(found for found in texts if len(set(found)) == len(edges))


def distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the entries, if each says which one it is."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        fail(
            f"Two entries would have the name {twice!r}: rename a column, or write the levels of "
            "a category so that no two look alike (1 and '1' do)."
        )
    return names


def _named(
    schema: Schema,
    columns: Any,
    kind: type[Interval] | type[Category],
    name: str = "columns",
    *,
    joint: bool = False,
) -> list[str]:
    """The named columns (default: all of the kind), each of the kind and named once.

    ``name`` is the parameter that the caller wrote; ``joint`` ones may be ``"j:k"``.
    """
    check_schema(schema)
    if columns is None:
        columns = [column for column in schema if isinstance(schema[column], kind)]
        if not columns:
            fail(f"`{name}`: there is no {kind.__name__} column in the schema.")
    if isinstance(columns, str) or not isinstance(columns, Iterable):
        got = f"one string: write [{columns!r}]" if isinstance(columns, str) else quoted(columns)
        fail(f"`{name}` must be a list of names. Got {got}.")
    names = list(columns)
    if not names:
        fail(f"`{name}` must name at least one column.", DimensionError)
    read = read_term if joint else _one_column
    terms = [read(schema.columns, column, name) for column in names]
    for column in itertools.chain.from_iterable(terms):
        if not isinstance(schema[column], kind):
            words = "numeric, an Interval" if kind is Interval else "a Category"
            fail(f"`{name}`: column {column!r} must be {words}.")
    if len(set(map(frozenset, terms))) < len(terms):
        fail(f"`{name}` must be distinct: the same column twice needs noise only once.")
    return names


def _one_column(columns: Mapping[str, Any], column: object, name: str) -> tuple[str]:
    return (check_choice(name, column, columns),)


def _entries(
    term: tuple[str, ...], schema: Schema
) -> Iterable[tuple[str, tuple[tuple[str, int | None], ...]]]:
    """Labels of a term's entries and their factors: (column, level code or None if numeric)."""
    options: list[list[tuple[str, tuple[str, int | None]]]] = []
    for name in term:
        column = schema[name]
        if isinstance(column, Interval):
            options.append([(name, (name, None))])
        else:
            options.append([(f"{name}[{v}]", (name, i)) for i, v in enumerate(column.levels)])
    for choice in itertools.product(*options):
        yield ":".join(label for label, _ in choice), tuple(factor for _, factor in choice)
