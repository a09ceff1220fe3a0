"""Additive statistics: what is summed over rows, and how far one row can move it, in one object.

A :class:`Statistic` turns a block of quantised rows into integers and knows its sensitivity space
from the same facts, so that the formula and the bound on its change cannot drift apart. All numeric
cells are integers on a :class:`~tightdp.data.blocks.Grid`, scaled to [-1, 1]; all entries of one
statistic share one ``resolution``, so that one lattice noise serves them all.
"""

from __future__ import annotations

import hashlib
import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from functools import cache, cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import TableLike
from tightdp.data.blocks import (
    Block,
    Grid,
    column_sums,
    gram_of_doubles,
    grouped_sums,
    product_rounding,
    rows_that_fit,
)
from tightdp.data.group_queries import GroupQuery
from tightdp.data.one_pass import IntegerSum
from tightdp.errors import (
    DimensionError,
    FloatArray,
    Integers,
    check_choice,
    check_count,
    fail,
    quoted,
)
from tightdp.geometry.combine import Product
from tightdp.geometry.norm_balls import NormBall
from tightdp.geometry.row_terms import connected_terms, read_term, read_terms
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.parameters import Recorded
from tightdp.printed import Axis
from tightdp.privacy import Neighbors
from tightdp.schema import Category, Interval, Schema, check_schema

UNIT = Interval(-1.0, 1.0)

SCALED = "numeric columns are scaled so that their bounds are -1 and 1"
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
    def axes(self) -> tuple[Axis, ...]:
        """The sides of the table that the entries form; none where they form no table."""
        return ()

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

    counts_rows: bool = False
    """Whether every entry is a number of rows, so that none is below 0 or above all rows."""

    one_cell: bool = False
    """Whether every row counts 1 in one entry and 0 in all others."""

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
        """Scaled entries in the units of the user; public facts only. An affine function."""
        return values

    def recovery(self) -> tuple[FloatArray, FloatArray]:
        """The same as a matrix and an origin: ``origin + matrix @ values``."""
        zero = np.zeros(len(self))
        origin = self.recover(zero)
        return np.column_stack([self.recover(e) - origin for e in np.eye(len(zero))]), origin

    @property
    def reading(self) -> Schema:
        """The rules by which rows are read; those of the schema, unless a row is put into bins."""
        return self.schema

    def grid(self, bits: int) -> Grid:
        """The grid of the cells that are multiplied; only steps make it finer than ``2**-bits``."""
        if bits not in self._grids:
            self._grids[bits] = Grid.of(self.schema, self.columns, bits, self.degree)
        return self._grids[bits]

    @cached_property
    def _grids(self) -> dict[int, Grid]:
        """Grids that were asked for: public facts, the same whoever asks first."""
        return {}

    def resolution(self, bits: int) -> int:
        """Lattice points per unit of the scaled statistic: of a row, or of a person's rows that
        share one row's weight."""
        return int(self.grid(bits).points ** self.degree) * self.schema.row_units

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
        return self.integer_sum(fine).read(frame, progress=progress)

    def integer_sum(self, bits: int) -> IntegerSum:
        """What :meth:`measure` sums, to be announced where several statistics share a pass."""
        return IntegerSum(
            self.reading,
            self.columns,
            Reducer(self, bits),
            width=len(self.names),
            degree=max(1, self.degree),
            cell_bits=self.grid(bits).cell_bits,
            query=self.group_query(bits) if _says_both(type(self)) else None,
        )

    def group_query(self, bits: int) -> GroupQuery | None:
        """The same integers as counts and sums by group, where they are no more than that."""
        return None

    def __len__(self) -> int:
        return len(self.names)

    def __repr__(self) -> str:
        text = ", ".join(self.names)
        if len(text) > _LONGEST_LIST:  # cut, with a mark that tells long lists apart
            mark = hashlib.sha256("\n".join(self.names).encode()).hexdigest()[:8]
            text = f"{text[:_LONGEST_LIST]}... {len(self.names)} entries, {mark}"
        return f"{type(self).__name__}({text})"


@cache
def _says_both(kind: type[Statistic]) -> bool:
    """Whether whoever wrote the contributions of a row also wrote the query, or a heir of them."""
    homes = [
        next(base for base in kind.mro() if name in vars(base))
        for name in ("group_query", "contributions")
    ]
    return issubclass(*homes)


@dataclass(frozen=True)
class Reducer:
    """The contributions of a statistic, the very object, at one grid; it can be sent to workers."""

    statistic: Statistic
    bits: int

    def __call__(self, block: Block) -> NDArray[Any]:
        once = self.statistic.contributions(block, self.bits)
        # sums of a block have 62 bits: more often than once they may need more
        return once if block.times == 1 else once.astype(object) * block.times


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
        self._numeric = [name for name in self.columns if isinstance(schema[name], Interval)]
        self._places = {name: j for j, name in enumerate(self.names)}
        self._column_places = {name: j for j, name in enumerate(self._numeric)}
        self._groups = [self._group(term) for term in factors]
        self._alone = [(at[0], to[0]) for at, levels, to in self._groups if _is_sum(at, levels)]
        self._others = [group for group in self._groups if not _is_sum(*group[:2])]
        self._restored = list(self._find_restored())

    def _group(self, term: tuple[str, ...]) -> tuple[list[int], list[str], NDArray[np.intp]]:
        """Places of the numeric columns of a term, its categories, and places of its entries."""
        numeric = [self._column_places[name] for name in term if name in self._column_places]
        places = [self._places[label] for label, _ in _entries(term, self.schema)]
        levels = [name for name in term if name not in self._column_places]
        return numeric, levels, np.array(places)

    @property
    def degree(self) -> int:
        return self._degree

    @property
    def one_cell(self) -> bool:  # type: ignore[override]
        return len(self._factors) == 1 and self.degree == 0

    @property
    def units(self) -> str:
        numeric = {name for name in self.names if any(f[1] is None for f in self._entries[name])}
        return SCALED if numeric - {self.names[i] for i, _, _ in self._restored} else ""

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        cells = grid.cells(block, self._numeric)
        pairs = any(len(at) == 2 and not levels for at, levels, _ in self._others)
        gram = gram_of_doubles(cells, grid.cell_bits) if pairs else None
        out = np.zeros(len(self.names), dtype=np.int64)
        if self._alone:  # sums of columns, all at once
            columns, entries = np.array(self._alone).T
            found = column_sums(cells, grid.cell_bits)[columns]
            out[entries] = found * grid.points ** (self.degree - 1)
        for at, levels, places in self._others:
            if gram is not None and len(at) == 2 and not levels:
                sums = gram[at[0], at[1]]
            else:
                some = cells[at[0] : at[0] + 1] if len(at) == 1 else cells[at]  # without a copy
                sums = grouped_sums(some, *self._codes(block, levels), grid.cell_bits)
            # entries of lower degree are lifted to the common resolution
            out[places] = sums * grid.points ** (self.degree - len(at))
        return out

    def group_query(self, bits: int) -> GroupQuery | None:
        """Where all terms divide the rows in the same way, or not at all."""
        keys, grid = self._groups[0][1], self.grid(bits)
        if any(levels != keys for _, levels, _ in self._groups):
            return None
        shape = [len(self.schema[name].levels) for name in keys]  # type: ignore[union-attr]
        summed = [(at, places) for at, _, places in self._groups if at]

        def finish(rows: Integers, sums: list[NDArray[Any]]) -> NDArray[Any]:
            out = np.zeros(len(self.names), dtype=rows.dtype)
            for at, _, places in self._groups:
                if not at:
                    out[places] = rows * grid.points**self.degree
            for (at, places), found in zip(summed, sums, strict=True):
                out[places] = found * grid.points ** (self.degree - len(at))
            return out

        products = tuple(tuple(self._numeric[j] for j in at) for at, _ in summed)
        return GroupQuery(tuple(keys), tuple(shape), products, grid, finish)

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
            own = {name: self._domain[name] for name in term}
            space = SensitivitySpace.of(own, [":".join(term)], neighbors=relation)
            if self.names[place : place + len(places)] != space.names:
                return []  # the entries of a term are not side by side: there is no product
            balls.append(space.hull())
            place += len(places)
        return [Product(balls)]

    def independent_blocks(self) -> list[tuple[Sequence[int], Sequence[str]]]:
        places = {term: group[2] for term, group in zip(self._factors, self._groups, strict=True)}
        order = {name: j for j, name in enumerate(self.columns)}
        return [
            (
                sorted(itertools.chain.from_iterable(places[term] for term in terms)),
                sorted(set(itertools.chain.from_iterable(terms)), key=order.__getitem__),
            )
            for terms in connected_terms(self._factors)
        ]

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
        at, half, middle, counted = self._in_units
        rows = np.where(counted < 0, self.schema.rows, out[counted])
        out[at] = half * out[at] + middle * rows
        return out

    def recovery(self) -> tuple[FloatArray, FloatArray]:
        linear, origin = np.eye(len(self)), np.zeros(len(self))
        at, half, middle, counted = self._in_units
        linear[at, at] = half
        private = counted >= 0
        linear[at[private], counted[private]] = middle[private]
        origin[at[~private]] = middle[~private] * self.schema.rows
        return linear, origin

    @cached_property
    def _in_units(self) -> tuple[Integers, FloatArray, FloatArray, Integers]:
        """Entries that come back in user units, halves and middles of their columns, and the
        entries that count their rows: -1 where their number is public."""
        at = np.array([i for i, _, _ in self._restored], dtype=np.intp)
        half = np.array([column.half for _, column, _ in self._restored])
        middle = np.array([column.middle for _, column, _ in self._restored])
        counted = [-1 if place is None else place for _, _, place in self._restored]
        return at, half, middle, np.array(counted, dtype=np.intp)

    def _find_restored(self) -> Iterator[tuple[int, Interval, int | None]]:
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


def _is_sum(at: Sequence[int], levels: Sequence[str]) -> bool:
    """Whether a term is a numeric column alone."""
    return len(at) == 1 and not levels


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
        super().__init__(schema, columns_of_kind(schema, columns, Interval))


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

    counts_rows = True

    def __init__(self, schema: Schema, columns: Iterable[str] | None = None) -> None:
        super().__init__(schema, columns_of_kind(schema, columns, Category, joint=True))

    @property
    def axes(self) -> tuple[Axis, ...]:
        """The sides of the one table that is counted; marginals side by side form none."""
        if len(self._factors) != 1:
            return ()
        rules = [(name, self.schema[name]) for name in self._factors[0]]
        return tuple((name, tuple(map(str, getattr(rule, "levels", ())))) for name, rule in rules)


def sums_and_gram(
    block: Block, columns: Sequence[str], grid: Grid
) -> tuple[Integers, NDArray[Any]]:
    """Exact sums, shape (d,), and sums of products, shape (d, d), of cells on a grid."""
    cells = grid.cells(block, columns)
    return cells.sum(axis=1).astype(np.int64), gram_of_doubles(cells, grid.cell_bits)


def check_fits(statistic: Statistic) -> None:
    """Refuse, before any budget is spent, products that 64 bits do not hold."""
    rows_that_fit(statistic.grid(statistic.schema.bits).cell_bits, statistic.degree, 1)


def distinct(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names of the entries, if each says which one it is."""
    if len(set(names)) < len(names):
        twice = next(name for name in names if names.count(name) > 1)
        fail(
            f"Two entries would have the name {twice!r}: rename a column, or write the levels of "
            "a category so that no two look alike (1 and '1' do)."
        )
    return names


def columns_of_kind(
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
    flat = isinstance(columns, np.ndarray) and columns.ndim == 0  # which only looks like a list
    if not isinstance(columns, Iterable) or flat:
        fail(f"`{name}` must be a list of names, or one name. Got {quoted(columns)}.")
    names = [columns] if isinstance(columns, str) else list(columns)
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
