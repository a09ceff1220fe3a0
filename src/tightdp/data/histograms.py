"""Counts of rows in public cells: bins of one column, or of several with levels of categories."""

from __future__ import annotations

import itertools
import math
from abc import abstractmethod
from collections.abc import Sequence
from dataclasses import replace
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.cell_dates import Clock
from tightdp.column_rules import decimal_value
from tightdp.data.blocks import Block
from tightdp.data.group_queries import GroupQuery
from tightdp.data.statistics import Statistic
from tightdp.date_rule import UNITS, Date
from tightdp.errors import (
    DimensionError,
    FloatArray,
    Integers,
    check_array,
    check_choice,
    check_count,
    check_list,
    fail,
    quoted,
    shown,
)
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.printed import Axis
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema, check_schema

_MOST_BINS = _MOST_CELLS = 1 << 20  # names alone would fill memory


class Bins(Interval):
    """A rule that puts cells into the bins of an interval instead of on its grid.

    Bin i holds the values from edge i to edge i + 1, the right one excluded but for the last; a
    cell is compared with the edges themselves, after the clamp and, where there is a step, after
    it has been rounded to a step.

    >>> Bins(Interval(0, 10), [0, 5, 10]).to_grid(np.array([4.9, 5, 99, np.nan]), 16, np.empty(4))
    array([0., 1., 1., 1.])
    """

    __slots__ = ("edges", "inner_edges", "interval")
    interval: Interval
    edges: FloatArray
    inner_edges: FloatArray

    def __init__(self, interval: Interval, edges: ArrayLike) -> None:
        super().__init__(
            interval.low, interval.high, interval.missing, interval.decimal, interval.thousands
        )
        object.__setattr__(self, "interval", interval)
        object.__setattr__(self, "edges", np.asarray(edges, dtype=np.float64))
        inner = self.edges[1:-1]
        if interval.step is not None:  # the first value of a bin, for values come in steps
            inner = interval.at_least(inner)
        object.__setattr__(self, "inner_edges", inner)

    def __reduce__(self) -> Any:
        return Bins, (self.interval, self.edges)

    @property
    def clock(self) -> Clock | None:
        return self.interval.clock

    def to_grid(self, cells: FloatArray, bits: int, out: FloatArray) -> FloatArray:
        values = self.interval.clamp(np.asarray(cells, dtype=np.float64))
        out[...] = np.searchsorted(self.inner_edges, values, side="right")
        return out

    @property
    def stated(self) -> Any:
        """What makes the same bins of the same column again."""
        return self.edges.tolist()

    @property
    def labels(self) -> tuple[str, ...]:
        """What the bins are called: where they begin and end."""
        if isinstance(self.interval, Date):
            dates = [*self.inner_edges, self.interval.high]
            texts = [self.interval.day_text(day) for day in (self.interval.low, *dates)]
        else:
            texts = _texts(self.edges)
        ends = [f"{low}, {high}" for low, high in itertools.pairwise(texts)]
        closing = [")"] * (len(ends) - 1) + ["]"]
        return tuple(f"[{e}{c}" for e, c in zip(ends, closing, strict=True))

    def names(self, column: str, labels: Sequence[str] | None = None) -> tuple[str, ...]:
        """What the counts of the bins are called; ``labels``, if they are known already."""
        return tuple([column + label for label in labels or self.labels])

    def cell_in(self, i: int) -> Any:
        """A cell that lies in a bin."""
        return self.interval.cells(np.append(self.edges[0], self.inner_edges)[i : i + 1])[0]

    def draw_cells(self, places: Integers, rng: RandomSource) -> NDArray[Any]:
        """Cells spread evenly over these bins, or over the steps in them."""
        low, high, rule = self.edges[places], self.edges[places + 1], self.interval
        if rule.steps is None:
            return np.asarray(np.clip(low + (high - low) * rng.uniform(len(places)), low, high))
        # the steps of each bin, counted from the lower bound; only the last bin has its right edge
        starts = np.append(rule.at_least(self.edges[:-1]), rule.high)
        first = np.rint((starts - rule.low) * (rule.steps / rule.width)).astype(np.int64)
        first[-1] += 1
        many = np.maximum(first[1:] - first[:-1], 1)
        step = first[:-1][places] + (rng.uniform(len(places)) * many[places]).astype(np.int64)
        return rule.cells(rule.clamp(rule.low + step * (rule.width / rule.steps)))


class Periods(Bins):
    """The periods of a column of dates as bins: all of them, and "no date" where that is one.

    >>> quarters = Periods(Date("2014-01-01", "2014-12-31"), "quarter")
    >>> quarters.labels[:2], quarters.names("sold")[4]
    (('2014-Q1', '2014-Q2'), 'sold[no date]')
    >>> quarters.to_grid(np.array([0.0, 99.0, 1e9, np.nan]), 16, np.empty(4))
    array([0., 1., 3., 4.])
    """

    __slots__ = ("unit",)
    interval: Date
    unit: str

    def __init__(self, interval: Date, unit: str) -> None:
        super().__init__(interval, [interval.low, interval.high])
        many = interval.count(check_choice("bins", unit, UNITS))
        if many > _MOST_BINS:  # naming them all would take minutes
            fail(
                f"Dates from {interval.first} to {interval.last} have {many} groups by {unit}, "
                f"and at most {_MOST_BINS} are possible: take a longer unit, or nearer bounds."
            )
        object.__setattr__(self, "unit", unit)

    def __reduce__(self) -> Any:
        return Periods, (self.interval, self.unit)

    @property
    def clock(self) -> Clock:
        return replace(self.interval.clock, hours=self.unit == "hour")

    @property
    def stated(self) -> str:
        return self.unit

    @property
    def labels(self) -> tuple[str, ...]:
        return self.interval.labels(self.unit)

    def names(self, column: str, labels: Sequence[str] | None = None) -> tuple[str, ...]:
        return tuple(f"{column}[{label}]" for label in labels or self.labels)

    def to_grid(self, cells: FloatArray, bits: int, out: FloatArray) -> FloatArray:
        out[...] = self.interval.codes(np.asarray(cells, dtype=np.float64), self.unit)
        return out

    def cell_in(self, i: int) -> str | None:
        return self.interval.starts(self.unit)[i]

    def draw_cells(self, places: Integers, rng: RandomSource) -> NDArray[Any]:
        return self.interval.spread(places, self.unit, rng.uniform(len(places)))


class CellTable(Statistic):
    """Counts in the cells of a table: every row is in one cell.

    Under replace-one a row leaves a cell and enters another, and the total is public; under
    add-remove one cell moves.
    """

    counts_rows = one_cell = True

    shape: tuple[int, ...]
    """Bins or levels of each column; entries are in the order of ``numpy.ravel``."""

    @property
    @abstractmethod
    def bins_of(self) -> dict[str, Bins]:
        """The bins of the numeric columns."""

    labels: tuple[tuple[str, ...], ...]
    """What the bins or levels of each column are called."""

    @property
    def degree(self) -> int:
        return 0

    @property
    def axes(self) -> tuple[Axis, ...]:
        return tuple(zip(self.columns, self.labels, strict=True))

    def places(self, block: Block) -> Integers:
        """The cell of each row of a block."""
        return np.ravel_multi_index(tuple(block[name] for name in self.columns), self.shape)

    def row_in(self, cell: int) -> dict[str, Any]:
        """A row that lies in a cell: a level, or the lower end of a bin, for each column."""
        row: dict[str, Any] = {}
        for name, i in zip(self.columns, map(int, np.unravel_index(cell, self.shape)), strict=True):
            rule = self.schema[name]
            row[name] = self.bins_of[name].cell_in(i) if name in self.bins_of else rule.levels[i]  # type: ignore[union-attr]
        return row

    @cached_property
    def reading(self) -> Schema:
        # with all other columns: those of a matrix are told by their order
        return self.schema.ruled({**self.schema.columns, **self.bins_of})

    def extreme_cells(self, column: str) -> Integers:
        """All bins and levels: rows are read into them."""
        return np.arange(self.shape[self.columns.index(column)])

    def contributions(self, block: Block, bits: int) -> Integers:
        return np.bincount(self.places(block), minlength=len(self.names)).astype(np.int64)

    def group_query(self, bits: int) -> GroupQuery:
        return GroupQuery(self.columns, self.shape, (), self.grid(bits), lambda rows, sums: rows)

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace.histogram(len(self.names), neighbors=self.schema.neighbors)

    def touched(self) -> int:
        """The cell that a row leaves and the one that it enters."""
        return 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1


class Histogram(CellTable):
    """Counts of a numeric column in public bins.

    Parameters
    ----------
    schema : Schema
    column : str
    bins : int or increasing edges
        So many equal bins of the interval, or the inner and outer edges; the first and the last
        edge are moved to the bounds of the column. Cells are compared with the edges themselves:
        counts are exact however narrow the bins are. Of dates, a unit such as "month": its periods.

    Examples
    --------
    >>> Histogram(Schema({"x": Interval(0, 10)}, rows=9), "x", bins=2).names
    ('x[0, 5)', 'x[5, 10]')
    """

    def __init__(self, schema: Schema, column: str, bins: Any) -> None:
        self.schema = check_schema(schema)
        interval = schema[column]
        if not isinstance(interval, Interval):
            fail(f"`column` must be numeric: {column!r} is a category, use Counts.")
        self.columns, self.bins = (column,), _bins(interval, column, bins)
        self.edges = None if isinstance(self.bins, Periods) else self.bins.edges
        self.labels = (self.bins.labels,)
        self.names = self.bins.names(column, self.labels[0])
        self.shape = (len(self.names),)
        if len(self.names) < 2:
            fail(f"`bins`: all dates of {column!r} lie in one period: take a finer unit.")

    @property
    def bins_of(self) -> dict[str, Bins]:
        return {self.columns[0]: self.bins}


def _bins(interval: Interval, column: str, bins: Any) -> Bins:
    if isinstance(interval, Date):
        if bins is None or isinstance(bins, str):
            return Periods(interval, interval.period if bins is None else bins)
        if isinstance(bins, (list, tuple)):
            bins = [interval.days("bins", edge) for edge in bins]
    elif isinstance(bins, str):
        fail(f"`bins`: units such as {bins!r} are for dates, and {column!r} is a number.")
    elif bins is None:
        fail(f"`bins` must say how many bins {column!r} has, or where they begin and end.")
    return Bins(interval, _edges(interval, column, bins))


def _edges(interval: Interval, column: str, bins: int | ArrayLike) -> FloatArray:
    """The edges of the bins, from bound to bound."""
    if isinstance(bins, (int, np.integer)):
        count = check_count("bins", bins, least=2)
        if count > _MOST_BINS:
            fail(f"`bins` must be at most {_MOST_BINS}. Got {shown(count)}: take fewer bins.")
        low, high = decimal_value(interval.low), decimal_value(interval.high)
        # in decimals: the third of ten bins of [0, 1] begins at 0.3, not beside it. A quotient of
        # integers is rounded once, as that of a fraction is
        start, step = low * count, high - low
        common = math.lcm(start.denominator, step.denominator)
        first, more = int(start * common), int(step * common)
        edges = np.array([(first + more * i) / (count * common) for i in range(count + 1)])
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


def _texts(edges: FloatArray) -> list[str]:
    """The edges in as few digits, from six on, as tell them apart."""
    size = np.maximum(np.abs(edges[1:]), np.abs(edges[:-1]))
    near = int((np.diff(edges) / size).argmin())  # the two that are told apart last, or nearly so
    low, high = edges[near : near + 2]
    enough = [digits for digits in range(6, 18) if f"{low:.{digits}g}" != f"{high:.{digits}g}"]
    texts = ([f"{edge:.{digits}g}" for edge in edges.tolist()] for digits in enough)
    return next(found for found in texts if len(set(found)) == len(edges))


class JointHistogram(CellTable):
    """Counts in the cells of a table of columns: bins of numbers, levels of categories.

    Parameters
    ----------
    schema : Schema
    columns : sequence of str
    bins : int, or one entry per column
        A number of equal bins for every numeric column; or for each column in turn a number or
        increasing edges (None for a category); for dates also a unit, or None for their own.

    Attributes
    ----------
    edges : tuple
        The edges of each column; None for a category, and for periods of dates.
    shape : tuple of int
        Bins or levels of each column. Entries are in the order of ``numpy.ravel``.

    Examples
    --------
    >>> from tightdp import Category
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
        names: list[tuple[str, ...]] = []
        labels: list[tuple[str, ...]] = []
        self._bins: dict[str, Bins] = {}
        for name, given in zip(self.columns, self._per_column(bins), strict=True):
            column = schema[name]
            if isinstance(column, Interval):
                axis = Histogram(schema, name, given)
                self._bins[name] = axis.bins
                labels += axis.labels
                names.append(axis.names)
            else:
                labels.append(tuple(map(str, column.levels)))
                names.append(tuple(f"{name}[{level}]" for level in column.levels))
        self.labels = tuple(labels)
        self.shape = tuple(len(part) for part in labels)
        if math.prod(self.shape) < 2:
            fail("There must be at least two cells.")
        if math.prod(self.shape) > _MOST_CELLS:
            fail(
                f"The columns must make at most {_MOST_CELLS} cells together. Got "
                f"{math.prod(self.shape)}: take fewer columns or bins."
            )
        self.names = tuple(":".join(parts) for parts in itertools.product(*names))

    def _per_column(self, bins: Any) -> list[Any]:
        if isinstance(bins, (int, np.integer)):
            return [bins] * len(self.columns)
        given = list(bins) if isinstance(bins, (list, tuple, np.ndarray)) else [bins]
        wrapped = len(given) == 1 and isinstance(given[0], (list, tuple, np.ndarray))
        if len(self.columns) == 1 and not wrapped:
            # the edges of the one column, not wrapped up
            return [given if len(given) > 1 else given[0]]
        if len(given) != len(self.columns):
            fail(
                f"`bins` must be a number, or one entry for each of the {len(self.columns)} "
                f"columns. Got {len(given)}.",
                DimensionError,
            )
        return given

    @property
    def bins_of(self) -> dict[str, Bins]:
        return self._bins

    @property
    def edges(self) -> tuple[FloatArray | None, ...]:
        return tuple(
            None
            if name not in self._bins or isinstance(self._bins[name], Periods)
            else self._bins[name].edges
            for name in self.columns
        )


class AllRows:
    """The one cell that holds every row, where nothing divides the rows into groups.

    >>> len(AllRows(Schema({"x": Interval(0, 10)}, rows=9)))
    1
    """

    columns: tuple[str, ...] = ()
    labels: tuple[tuple[str, ...], ...] = ()
    axes: tuple[Axis, ...] = ()
    shape: tuple[int, ...] = ()

    def __init__(self, schema: Schema) -> None:
        self.reading = check_schema(schema)

    def __len__(self) -> int:
        return 1

    def places(self, block: Block) -> Integers:
        """The cell of each row of a block."""
        return np.zeros(len(block), dtype=np.int64)

    def row_in(self, cell: int) -> dict[str, Any]:
        """Nothing is asked of a row that lies in the cell."""
        return {}

    def extreme_cells(self, column: str) -> Integers:
        """Of no column: there is none."""
        fail(f"Column {column!r} does not divide the rows.")


def group_cells(schema: Schema, by: object) -> JointHistogram:
    """The groups that ``by`` asks for: a column, or several; numbers come with their bins, and
    dates with a unit if it is another than theirs.

    >>> from tightdp import Category
    >>> schema = Schema({"age": Interval(0, 90), "sex": Category(["f", "m"], other="f")}, rows=9)
    >>> group_cells(schema, ["sex", ("age", [0, 18, 65, 90])]).labels
    (('f', 'm'), ('[0, 18)', '[18, 65)', '[65, 90]'))
    """
    pairs = [_column_and_bins(check_schema(schema), item) for item in group_items(by)]
    if not pairs:
        fail("`by` must name at least one column.")
    if len({name for name, _ in pairs}) < len(pairs):
        fail("`by` must name distinct columns.")
    return JointHistogram(schema, [name for name, _ in pairs], [bins for _, bins in pairs])


def row_groups(schema: Schema, by: object) -> JointHistogram | AllRows:
    """The groups that ``by`` asks for, or the one group of all rows."""
    return AllRows(schema) if by is None else group_cells(schema, by)


def group_items(by: object) -> list[object]:
    """What divides the rows: nothing, one column, or several.

    >>> group_items(None), group_items("sex"), group_items(["sex", ("age", 3)])
    ([], ['sex'], ['sex', ('age', 3)])
    """
    if by is None or isinstance(by, str):
        return [] if by is None else [by]
    if not isinstance(by, (list, tuple)):
        fail(f"`by` must be a list of names of columns. Got {quoted(by)}.")
    return list(by)


def group_names(by: object) -> list[str]:
    """The columns that divide the rows, without their bins.

    >>> group_names(["sex", ("age", 3)])
    ['sex', 'age']
    """
    return [_name_and_bins(item)[0] for item in group_items(by)]


def _name_and_bins(item: object) -> tuple[str, Any]:
    name, bins = item if isinstance(item, (list, tuple)) and len(item) == 2 else (item, None)
    if not isinstance(name, str):
        fail(f"`by` must hold names of columns, or pairs of a name and bins. Got {quoted(item)}.")
    return name, bins


def _column_and_bins(schema: Schema, item: object) -> tuple[str, Any]:
    name, bins = _name_and_bins(item)
    rule = schema[check_choice("by", name, schema.columns)]
    if isinstance(rule, Interval) and bins is None and not isinstance(rule, Date):
        fail(
            f"`by`: {name!r} is a number. Say where its groups begin and end: "
            f"by=[({name!r}, [{rule.low:g}, ..., {rule.high:g}])], or how many there are."
        )
    if not isinstance(rule, Interval) and bins is not None:
        fail(f"`by`: {name!r} is a category, whose groups are its levels: leave the bins out.")
    return name, bins
