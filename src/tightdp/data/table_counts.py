"""Tables of several sets of columns, measured in integer coordinates, in one pass."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Literal, NamedTuple

import numpy as np

from tightdp.data.blocks import Block
from tightdp.data.histograms import Bins, Histogram
from tightdp.data.statistics import Statistic, distinct
from tightdp.date_rule import Date
from tightdp.errors import (
    FloatArray,
    Integers,
    check_choice,
    check_instance,
    fail,
    quoted,
    shown,
)
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.row_images import Hull, RowImage
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.printed import Axis
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema, check_schema, has_groups
from tightdp.workloads.residuals import Columns, Workload, along, centred, contrasts, spread_over

MOST_TABLE_CELLS = 1 << 20
"""Of all tables of a workload together: their names alone fill memory."""

Coordinates = Literal["cells", "contrasts", "centred"]
Measured = tuple[Coordinates, Columns]
"""A part of the measured vector: in which coordinates, and of which columns."""


class TableColumns:
    """Columns with public levels or bins: the sides of tables.

    Parameters
    ----------
    schema : Schema
    bins : mapping
        Of the numeric columns: how many bins, or their edges, by name.
    names : sequence of str

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"age": Interval(0, 90), "sex": Category(["f", "m"], other="f")}
    >>> sides = TableColumns(Schema(facts, rows=9), {"age": [0, 18, 90]}, ["sex", "age"])
    >>> sides.sizes, sides.axes[1]
    ((2, 2), ('age', ('[0, 18)', '[18, 90]')))
    """

    def __init__(self, schema: Schema, bins: Mapping[str, Any], names: Sequence[str]) -> None:
        self.schema, self.names = check_schema(schema), tuple(names)
        self.bins_of: dict[str, Bins] = {}
        axes: list[Axis] = []
        for name in self.names:
            rule = schema[check_choice("tables", name, schema.columns)]
            if isinstance(rule, Interval):
                if name not in bins and not isinstance(rule, Date):
                    fail(
                        f"`tables`: {name!r} is a number. Say where its groups begin and end: "
                        f"bins={{{name!r}: [{rule.low:g}, ..., {rule.high:g}]}}, or how many "
                        "there are."
                    )
                side = Histogram(schema, name, bins.get(name))
                self.bins_of[name] = side.bins
                axes.append((name, side.labels[0]))
            elif name in bins:
                fail(f"`bins`: {name!r} is a category, whose groups are its levels: leave it out.")
            else:
                axes.append((name, tuple(map(str, rule.levels))))
            if len(axes[-1][1]) < 2:
                fail(f"`tables`: {name!r} has one level, so that its table is the number of rows.")
        self.axes = tuple(axes)
        self.sizes = tuple(len(labels) for _, labels in axes)

    @cached_property
    def reading(self) -> Schema:
        """The rules by which rows are read: bins for the numbers of tables."""
        # with all other columns: those of a matrix are told by their order
        return self.schema.ruled({**self.schema.columns, **self.bins_of})


class BookTables(NamedTuple):
    """What a book is about: its sides, the tables of counts, and the groups of other numbers."""

    sides: TableColumns
    asked: list[Columns]
    groups: list[Columns]
    stated: int
    """How many of the tables were asked for as such: the first ones."""


def read_tables(schema: Schema, tables: object, bins: object) -> tuple[TableColumns, list[Columns]]:
    """The sides and the sets of columns that somebody asks for; see :func:`read_book`.

    >>> from tightdp import Category
    >>> facts = {"age": Interval(0, 90), "sex": Category(["f", "m"], other="f")}
    >>> sides, found = read_tables(Schema(facts, rows=9), [["sex", ("age", 3)], "sex"], None)
    >>> sides.names, found
    (('age', 'sex'), [(1, 0), (1,)])
    """
    found = read_book(schema, tables, bins, [])
    return found.sides, found.asked


def read_book(
    schema: Schema, tables: object, bins: object, groups: Sequence[Sequence[object]]
) -> BookTables:
    """The sides, the tables, and the groups whose other numbers are asked for.

    A table is a name or a list of names; a number comes with its bins, as a pair where it is named
    or in ``bins``. A whole number k stands for all tables of up to k columns. The counts of groups
    are asked for with them. Sides are in the order of the schema, so that books of the same columns
    agree on what a cell is.
    """
    check_schema(schema)
    given: dict[str, Any] = dict(
        check_instance("bins", {} if bins is None else bins, Mapping, words="a mapping")
    )
    for name in given:
        check_choice("bins", name, schema.columns)
    if _is_order(tables):
        wanted = _all_tables(schema, given, tables)
    else:  # nothing but groups may be asked for
        nothing = isinstance(tables, (list, tuple)) and not tables
        wanted = [] if groups and nothing else _listed(tables)
    named, by = ([[_named(item, given) for item in some] for some in of] for of in (wanted, groups))
    for table in [*named, *by]:
        for name in table:
            check_choice("tables", name, schema.columns)
        if len(set(table)) < len(table):
            fail(f"`tables`: a table must name distinct columns. Got {shown(', '.join(table))}.")
    every = set(itertools.chain.from_iterable([*named, *by]))
    names = [name for name in schema.columns if name in every]
    sides = TableColumns(schema, given, names)
    places = {name: j for j, name in enumerate(names)}
    found, divided = ([tuple(places[n] for n in some) for some in of] for of in (named, by))
    seen: set[Columns] = set()
    for places_of in found:
        if tuple(sorted(places_of)) in seen:
            fail(
                "`tables` must be distinct: a table that is asked for twice needs noise only once. "
                f"Twice: {shown(', '.join(names[j] for j in places_of))}."
            )
        seen.add(tuple(sorted(places_of)))
    for group in divided:
        if tuple(sorted(group)) not in seen:
            seen.add(tuple(sorted(group)))
            found.append(group)
    check_cells([[sides.sizes[j] for j in some] for some in found])
    return BookTables(sides, found, divided, len(named))


def check_cells(shapes: Sequence[Sequence[int]]) -> None:
    """Refuse more cells than memory holds, with their number."""
    count = sum(math.prod(shape) for shape in shapes)
    if count > MOST_TABLE_CELLS:
        largest = max(math.prod(shape) for shape in shapes)
        fail(
            f"`tables` must have at most {MOST_TABLE_CELLS} cells together. These have {count}, "
            f"the largest table {largest}: ask for fewer columns at once, or for fewer bins."
        )


def _is_order(tables: object) -> bool:
    return isinstance(tables, (int, np.integer)) and not isinstance(tables, bool)


def _all_tables(schema: Schema, bins: Mapping[str, Any], order: Any) -> list[list[Any]]:
    names = [n for n, rule in schema.columns.items() if n in bins or has_groups(rule)]
    if not 1 <= order <= len(names):
        fail(
            f"`tables` must be a list of tables, or a number of columns from 1 to {len(names)}. "
            f"Got {shown(order)}."
        )
    sizes = range(1, int(order) + 1)
    many = sum(math.comb(len(names), k) for k in sizes)
    if many > MOST_TABLE_CELLS // 2:
        fail(f"`tables` asks for {many} tables: take fewer columns at once.")
    return [list(some) for k in sizes for some in itertools.combinations(names, k)]


def _listed(tables: object) -> list[list[Any]]:
    if not isinstance(tables, (list, tuple)):
        fail(
            "`tables` must be a list of tables, each a list of columns, or a number of columns. "
            f"Got {quoted(tables)}."
        )
    found = list(tables)
    if not found:
        fail("`tables` must name at least one table.")
    out = []
    for table in found:
        if not isinstance(table, (str, list, tuple)) or not table:
            fail(f"`tables` must hold names of columns, and lists of them. Got {quoted(table)}.")
        out.append([table] if isinstance(table, str) else list(table))
    return out


def _named(item: object, bins: dict[str, Any]) -> str:
    """The column of an item, whose bins are put where all are."""
    name, own = item if isinstance(item, (list, tuple)) and len(item) == 2 else (item, None)
    if not isinstance(name, str):
        fail(f"`tables` must hold names of columns, or pairs of a name and bins: {quoted(item)}.")
    if own is None:
        return name
    if name in bins and not _same(bins[name], own):
        fail(f"`tables`: {name!r} must have the same bins in all tables.")
    bins[name] = own
    return name


def _same(first: object, second: object) -> bool:
    try:
        return np.array_equal(np.asarray(first), np.asarray(second))
    except ValueError:  # no arrays: what they are is said where bins are read
        return False


class TableCounts(Statistic):
    r"""Tables and residuals of tables, in integer coordinates (:mod:`tightdp.workloads.residuals`).

    *cells* are the counts of a table; *contrasts* compare a level with those before it, in every
    column at once; *centred* entries are sums over rows of
    :math:`\prod_j (n_j 1[x_j = i_j] - 1)`, or of :math:`\pm 1` for a column of two levels.

    Parameters
    ----------
    schema : Schema
    columns : sequence of str
    parts : sequence of (coordinates, names of columns)
        What is measured, in this order.
    bins : mapping, optional
        Of the numeric columns.
    frozen : mapping, optional
        Columns that rows keep, and at which place of their levels: for the gate.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"sex": Category(["f", "m"], other="f"), "k": Category(["a", "b", "c"], other="a")}
    >>> schema = Schema(facts, rows=4)
    >>> parts = [("cells", ["k"]), ("contrasts", ["sex", "k"])]
    >>> counts = TableCounts(schema, ["sex", "k"], parts)
    >>> counts.names
    ('k[a]', 'k[b]', 'k[c]', 'sex{f-m}:k{<b}', 'sex{f-m}:k{<c}')
    >>> counts.measure({"sex": ["f", "f", "m", "m"], "k": ["a", "b", "c", "c"]})
    [1, 1, 2, 0, 6]
    """

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str],
        parts: Sequence[tuple[str, Sequence[str]]],
        bins: Mapping[str, Any] | None = None,
        frozen: Mapping[str, int] | None = None,
    ) -> None:
        self.frozen = {} if frozen is None else dict(frozen)
        self.sides = TableColumns(schema, {} if bins is None else bins, columns)
        self.schema, self.columns = schema, self.sides.names
        place = {name: j for j, name in enumerate(self.columns)}
        self.parts: tuple[Measured, ...] = tuple(
            (kind, tuple(sorted(place[name] for name in names)))  # type: ignore[misc]
            for kind, names in parts
        )
        self.work = Workload(self.sides.sizes, [some for _, some in self.parts])
        check_cells([self.work.shape(some) for _, some in self.parts])
        lengths = [self.length(part) for part in self.parts]
        ends = list(itertools.accumulate(lengths))
        self.where = tuple(
            slice(end - length, end) for end, length in zip(ends, lengths, strict=True)
        )
        names = itertools.chain.from_iterable(map(self._part_names, self.parts))
        self.names = distinct_quickly(tuple(names))

    @property
    def degree(self) -> int:
        return 0

    def length(self, part: Measured) -> int:
        """Entries of a part."""
        return math.prod(self.shape(part))

    def shape(self, part: Measured) -> tuple[int, ...]:
        """Entries along each of its columns; they are in the order of ``numpy.ravel``."""
        return tuple(len(rows) for rows in self.maps(part))

    def maps(self, part: Measured) -> list[Integers]:
        """The matrix of each column, from its levels to coordinates."""
        kind, columns = part
        sizes = [self.sides.sizes[j] for j in columns]
        if kind == "cells":
            return [np.eye(n, dtype=np.int64) for n in sizes]
        return [contrasts(n) if kind == "contrasts" else centred(n) for n in sizes]

    def _part_names(self, part: Measured) -> list[str]:
        kind, columns = part
        if not columns:
            return ["rows"]
        return cell_names([self.sides.axes[j] for j in columns], kind)

    @property
    def reading(self) -> Schema:
        return self.sides.reading

    def extreme_cells(self, column: str) -> Integers:
        """All levels and bins: rows are read into them."""
        if column in self.frozen:
            return np.array([self.frozen[column]])
        return np.arange(self.sides.sizes[self.columns.index(column)])

    def contributions(self, block: Block, bits: int) -> Integers:
        # A coordinate of a row is at most the product of the sizes, 2^20; a block has fewer than
        # 2^31 rows, so that sums stay below 2^62.
        out = np.empty(len(self.names), dtype=np.int64)
        tables = {some: self._table(block, some) for some in self.work.maximal}
        for part, where in zip(self.parts, self.where, strict=True):
            table = _margin(part[1], tables)
            if part[0] == "contrasts":
                table = along(table, self.maps(part))
            elif part[0] == "centred":
                table = _centred(table)
            out[where] = table.ravel()
        return out

    def _table(self, block: Block, some: Columns) -> Integers:
        shape = self.work.shape(some)
        if not some:
            return np.array(len(block), dtype=np.int64)
        place = np.ravel_multi_index(tuple(block[self.columns[j]] for j in some), shape)
        counts = np.bincount(place, minlength=math.prod(shape))
        return counts.astype(np.int64).reshape(shape)

    # --- changes ------------------------------------------------------------------------------

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace(_TableImage(self), self.schema.neighbors)

    def ends(self, part: Measured) -> tuple[Integers, Integers]:
        """The least and the largest entry that a row can add, for each place of a part."""
        low = high = np.ones((), dtype=np.int64)
        for rows in self.maps(part):
            least, most = rows.min(axis=1), rows.max(axis=1)
            sides = [spread_over(a, b) for a in (low, high) for b in (least, most)]
            low, high = np.minimum.reduce(sides), np.maximum.reduce(sides)
        return low.ravel(), high.ravel()


def cell_names(axes: Sequence[Axis], kind: str = "cells") -> list[str]:
    """The names of all entries of a table, in the order of ``numpy.ravel``.

    >>> cell_names([("sex", ("f", "m")), ("age", ("[0, 18)", "[18, 90]"))])[:2]
    ['sex[f]:age[0, 18)', 'sex[f]:age[18, 90]']
    """
    factors = [_factor_names(kind, name, labels) for name, labels in axes]
    return [":".join(choice) for choice in itertools.product(*factors)]


def _centred(table: Integers) -> Integers:
    """The centred rows applied along every axis: n times the entry, less the sum.

    >>> _centred(np.array([3, 1, 0])), _centred(np.array([3, 1]))
    (array([ 5, -1, -4]), array([2]))
    """
    for axis, size in enumerate(table.shape):
        if size == 2:
            first, second = np.split(table, 2, axis=axis)
            table = first - second
        else:
            table = size * table - table.sum(axis=axis, keepdims=True)
    return table


def _factor_names(kind: str, name: str, labels: Sequence[str]) -> list[str]:
    if kind == "cells":
        bins = labels[0].startswith("[") and labels[-1].endswith("]")
        return [f"{name}{label}" if bins else f"{name}[{label}]" for label in labels]
    if len(labels) == 2:
        return [f"{name}{{{labels[0]}-{labels[1]}}}"]
    if kind == "contrasts":
        return [f"{name}{{<{label}}}" for label in labels[1:]]
    return [f"{name}{{{label}}}" for label in labels]


def distinct_quickly(names: tuple[str, ...]) -> tuple[str, ...]:
    """The names, each of which says which entry it is."""
    return names if len(set(names)) == len(names) else distinct(names)


def _margin(some: Columns, tables: Mapping[Columns, Integers]) -> Integers:
    """The table of some columns, from one that has them all."""
    whole = next(columns for columns in tables if set(some) <= set(columns))
    over = tuple(i for i, j in enumerate(whole) if j not in some)
    return np.asarray(tables[whole].sum(axis=over))


class _TableImage(RowImage):
    """What one row adds, for searches; its bodies here are boxes around it."""

    def __init__(self, counts: TableCounts) -> None:
        self.counts = counts
        self.names = counts.names

    def _image(self, levels: Sequence[int]) -> FloatArray:
        parts = []
        for part in self.counts.parts:
            out = np.ones((), dtype=np.int64)
            for j, rows in zip(part[1], self.counts.maps(part), strict=True):
                out = spread_over(out, rows[:, levels[j]])
            parts.append(out.ravel())
        return np.concatenate(parts).astype(np.float64)

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        """A row that no change of one column improves."""
        levels = [0] * len(self.counts.columns)
        while True:
            before = list(levels)
            for j, size in enumerate(self.counts.sides.sizes):
                tries = [[*levels[:j], i, *levels[j + 1 :]] for i in range(size)]
                levels = max(tries, key=lambda row: float(self._image(row) @ c))
            if levels == before:
                return self._image(levels), self._row(levels)

    def _row(self, levels: Sequence[int]) -> dict[str, Any]:
        sides, row = self.counts.sides, {}
        for name, i in zip(sides.names, levels, strict=True):
            binned = name in sides.bins_of
            row[name] = sides.bins_of[name].cell_in(i) if binned else sides.schema[name].levels[i]  # type: ignore[union-attr]
        return row

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        sizes = self.counts.sides.sizes
        rows = zip(*(rng.integers(n, size) for n in sizes), strict=True)
        return np.array([self._image([int(i) for i in row]) for row in rows])

    def _box(self, paired: bool) -> Hull:
        ends = [self.counts.ends(part) for part in self.counts.parts]
        low, high = (np.concatenate(side) for side in zip(*ends, strict=True))
        reach = high - low if paired else np.maximum(high, -low)
        if paired:  # where all rows add the same, as to the number of rows, none is moved
            reach = np.maximum(reach, 1)
        sides = reach.astype(np.float64)
        return Hull(LpBall(self.dim, np.inf, sides), False, "outer: the box of all entries")

    def replace_hull(self) -> Hull:
        return self._box(True)

    def add_hull(self) -> Hull:
        return self._box(False)
