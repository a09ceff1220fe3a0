"""Statistics of rows of which a public fact is known: few flags, implied flags, bounded sums.

A fact about rows makes the hull of their moves smaller, and so the noise less. It is stated by the
caller, and enforced as bounds are: a row that breaks it is read, from itself alone and by a public
rule, as a row that obeys it. So nobody has to be believed, and the noise is never too little.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence

import numpy as np

from tightdp.accepted import Number
from tightdp.column_rules import OTHER_HELP, decimal_value
from tightdp.data.blocks import Block, Grid
from tightdp.data.statistics import Statistic, check_fits, columns_of_kind, distinct
from tightdp.errors import (
    FloatArray,
    Integers,
    check_count,
    check_list,
    exact_amount,
    fail,
    quoted,
    shown,
)
from tightdp.geometry.fact_images import CappedImage, FilterImage
from tightdp.geometry.poset_ball import strictly_below
from tightdp.geometry.row_images import RowImage
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.privacy import Neighbors
from tightdp.schema import Category, Interval, Schema, check_schema


class FactStatistic(Statistic):
    """Sums of rows that obey a public fact."""

    _image: RowImage

    @abstractmethod
    def obeying(self, block: Block, bits: int) -> Integers:
        """The rows as they are counted, shape (entries, rows), in units of ``1 / resolution``.

        A row that obeys the fact stays as it is; what becomes of another depends on it alone.
        """

    def contributions(self, block: Block, bits: int) -> Integers:
        return np.asarray(self.obeying(block, bits).sum(axis=1), dtype=np.int64)

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace(self._image, self.schema.neighbors)


class Flags(FactStatistic):
    """How many rows have each of several flags, when a public fact about the flags of a row helps.

    A flag is a category of two levels, and counts where it is the second one. Two facts can be
    stated, each of which leaves less noise than flags that know nothing of each other:

    - ``at_most=3``: nobody has more than three of the flags. Of a row with more, the first three
      count, in the order of ``columns``.
    - ``implies=[("phd", "msc")]``: whoever has the first has the second. Where a row has the first
      alone, it counts as having both.

    Parameters
    ----------
    schema : Schema
    columns : list of str, optional
        Categories of two levels; all categories by default.
    at_most : int, optional
        The largest number of flags of one row.
    implies : list of pairs of columns, optional
        Pairs (flag, flag that it implies); what follows from several pairs need not be said.

    Notes
    -----
    Under add-remove the hull of the moves is a :class:`~tightdp.CountBall` or a
    :class:`~tightdp.PosetBall`, under replace-one a :class:`~tightdp.ReplacedCountBall` or a
    :class:`~tightdp.ReplacedPosetBall`. The two facts together have no known hull.

    Examples
    --------
    >>> yes = Category(["no", "yes"], other="no")
    >>> schema = Schema({"asthma": yes, "copd": yes, "gout": yes}, rows=3)
    >>> few = Flags(schema, at_most=2)
    >>> few.names
    ('asthma[yes]', 'copd[yes]', 'gout[yes]')
    >>> rows = {"asthma": ["yes", "no", "no"], "copd": ["yes", "no", "yes"], "gout": ["yes"] * 3}
    >>> few.measure(rows)  # the third flag of the first row is one too many
    [1, 2, 2]
    >>> Flags(schema, implies=[("gout", "copd")]).measure(rows)
    [1, 3, 3]
    """

    counts_rows = True

    def __init__(
        self,
        schema: Schema,
        columns: Iterable[str] | None = None,
        *,
        at_most: int | None = None,
        implies: Iterable[tuple[str, str]] = (),
    ) -> None:
        self.schema = check_schema(schema)
        self.columns = tuple(columns_of_kind(schema, columns, Category))
        self.names = distinct(tuple(_entry(schema, name) for name in self.columns))
        relations = _relations(self.columns, implies)
        if relations and at_most is not None:
            fail(
                "Give one of `at_most` and `implies`: the shape of both facts together is not "
                "known. Leave out the one that says less."
            )
        width = len(self.columns)
        self.at_most = width if at_most is None else check_count("at_most", at_most, most=width)
        self._image: RowImage = CappedImage(self.names, self.at_most)
        self._setting: Integers | None = None  # [q, p]: whether p sets q
        if relations:
            below = strictly_below(width, relations, "implies")
            self._setting = (below.T | np.eye(width, dtype=bool)).astype(np.int64)
            self._image = FilterImage(self.names, relations)

    @property
    def degree(self) -> int:
        return 0

    def obeying(self, block: Block, bits: int) -> Integers:
        flags = block.matrix(self.columns).T
        if self._setting is not None:
            return np.minimum(self._setting @ flags, 1)
        return capped(flags, self.at_most)

    def independent_blocks(self) -> list[tuple[Sequence[int], Sequence[str]]]:
        if self._setting is None and self.at_most == len(self.columns):
            return [([j], [name]) for j, name in enumerate(self.columns)]
        return super().independent_blocks()

    def touched(self) -> int:
        """As many as a row may have; a replaced row loses them and gets others."""
        ends = 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1
        return min(ends * self.at_most, len(self.columns))


class CappedSums(FactStatistic):
    """Sums of numeric columns of which a row has a limited total.

    The columns have the bounds [0, h], or all of them [-h, h], and the public fact is that the
    sizes of the entries of a row add up to at most ``at_most``: a budget, hours of a day, doses.
    From a row with a larger total the columns take what is left of it in the order of ``columns``:
    the first ones as they are, then a part of one, then 0. Sums are in the units of the columns
    under both relations of neighbours.

    Parameters
    ----------
    schema : Schema
    columns : list of str, optional
        Numeric columns with the same bounds; all numeric columns by default.
    at_most : float, Fraction or Decimal
        The largest total of a row, a multiple k h of the bound h of one column, k = 1, 2, ....
        Rows with at most k entries that are not 0 always have it.

    Notes
    -----
    A missing cell becomes what its :class:`~tightdp.Interval` says, by default its middle, and uses
    up a part of the total: state ``missing=0`` for amounts.
    The hull of the moves is, in units of h, a :class:`~tightdp.CountBall` under add-remove, a
    :class:`~tightdp.ReplacedCountBall` under replace-one; for signed columns a
    :class:`~tightdp.SumBall`, or twice it.

    Examples
    --------
    >>> hours = Interval(0, 8, missing=0)
    >>> schema = Schema({"work": hours, "school": hours, "care": hours}, rows=2)
    >>> capped = CappedSums(schema, at_most=16)
    >>> rows = {"work": [8, 2], "school": [6, 0], "care": [7, 3]}
    >>> sums = np.array(capped.measure(rows)) / capped.resolution(schema.bits)
    >>> capped.recover(sums)  # of the first row's 21 hours 8 + 6 + 2 count
    array([10.,  6.,  5.])
    """

    def __init__(
        self, schema: Schema, columns: Iterable[str] | None = None, *, at_most: Number
    ) -> None:
        self.schema = check_schema(schema)
        self.columns = self.names = tuple(columns_of_kind(schema, columns, Interval))
        self.high, self.signed = _common_bounds(schema, self.columns)
        self.bound = _multiple(at_most, self.high, len(self.columns))
        self._image = CappedImage(self.names, self.bound, signed=self.signed)
        check_fits(self)

    @property
    def degree(self) -> int:
        return 1

    def resolution(self, bits: int) -> int:
        """Steps of h: cells of [0, h] are on the grid of [-1, 1], twice as long."""
        return super().resolution(bits) * (1 if self.signed else 2)

    def extreme_cells(self, column: str) -> Integers:
        # the corners of the capped rows have entries -h, 0 and h: rows of these are extreme
        ends = super().extreme_cells(column)
        return np.array([ends[0], 0, ends[1]], dtype=np.int64) if self.signed else ends

    def obeying(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        # cells are below 2**27 in size, and there are at most 4096 columns: sums fit 64 bits
        cells = grid.cells(block, self.columns).astype(np.int64)
        most = self.bound * self.resolution(bits)
        if self.signed:
            return np.sign(cells) * capped(np.abs(cells), most)
        return capped(cells + grid.points, most)

    def row_rounding(self, grid: Grid) -> FloatArray:
        # an entry is a difference of two capped running sums, each off by what its cells are
        cells = np.array([grid.rounding(name) for name in self.columns])
        sums = np.cumsum(cells) * (1.0 if self.signed else 0.5)
        return sums + np.concatenate([[0.0], sums[:-1]])

    def recover(self, values: FloatArray) -> FloatArray:
        return self.high * values


def capped(sizes: Integers, most: int) -> Integers:
    """Entries >= 0, shape (entries, rows), of which the first ones up to a total of ``most`` stay.

    >>> capped(np.array([[3, 0], [2, 1], [4, 1]]), 6).T
    array([[3, 2, 1],
           [0, 1, 1]])
    """
    totals = np.minimum(np.cumsum(sizes, axis=0), most)
    return np.diff(totals, axis=0, prepend=0)


def _entry(schema: Schema, name: str) -> str:
    column = schema[name]
    if not isinstance(column, Category) or len(column.levels) != 2:
        fail(
            f"`columns`: the flag {name!r} must be a Category with exactly two levels, of which "
            f"the second one counts. {OTHER_HELP}."
        )
    return f"{name}[{column.levels[1]}]"


def _relations(columns: Sequence[str], implies: object) -> list[tuple[int, int]]:
    """Pairs of places of columns."""
    found = []
    for pair in check_list("implies", implies, "pairs of columns"):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            fail("`implies` must hold pairs (flag, flag that it implies) of columns.")
        for name in pair:
            if not isinstance(name, str) or name not in columns:
                fail(f"`implies`: {quoted(name)} must be one of the columns that are counted.")
        found.append((columns.index(pair[0]), columns.index(pair[1])))
    return found


def _common_bounds(schema: Schema, columns: Sequence[str]) -> tuple[float, bool]:
    """The bound h that all columns share, and whether they are [-h, h]."""
    rules = [schema[name] for name in columns]
    ends = {(rule.low, rule.high) for rule in rules if isinstance(rule, Interval)}
    low, high = next(iter(ends))
    if len(ends) > 1 or low not in (0, -high):
        fail(
            "`columns` must all have the bounds [0, h], or all [-h, h], with one h. State the "
            "largest bound for all of them."
        )
    return high, low < 0


def _multiple(at_most: Number, high: float, width: int) -> int:
    """The k with at_most = k h."""
    count = exact_amount("at_most", at_most) / decimal_value(high)
    if count.denominator != 1 or not 1 <= count <= width:
        fail(
            f"`at_most` must be 1, 2, ... or {width} times {high:g}, the bound of one column. Got "
            f"{shown(at_most)}: take the next multiple, or other bounds."
        )
    return int(count)
