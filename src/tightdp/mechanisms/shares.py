"""Shares of rows that satisfy a public condition."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.data.blocks import Block
from tightdp.data.histograms import Histogram
from tightdp.data.statistics import Counts, Statistic
from tightdp.errors import FloatArray, Integers, check_real, fail
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.means import fieller
from tightdp.mechanisms.mechanism import Reading
from tightdp.preview import Preview, of_rows
from tightdp.release import Release
from tightdp.schema import Category, Date, Interval, Schema, check_schema
from tightdp.shaping.reach import possible_values
from tightdp.values import exact_value, plain_cell


class RowsWhere(Statistic):
    """How many rows have a level among some, or a number in ``[low, high)``.

    The last bound of the column counts as inside where ``high`` is left out.

    >>> from tightdp import Interval
    >>> young = RowsWhere(Schema({"age": Interval(0, 100)}, rows=3), "age", high=30)
    >>> young.names, list(young.measure({"age": [20, 29, 30]}))
    (('age in [0, 30)',), [2])
    """

    def __init__(
        self,
        schema: Schema,
        column: str,
        levels: object = None,
        low: object = None,
        high: object = None,
    ) -> None:
        self.schema = check_schema(schema)
        rule = schema[column]
        if isinstance(rule, Category):
            if low is not None or high is not None:
                fail(f"`low` and `high` are for numbers: {column!r} is a category, give `levels`.")
            cells: Statistic = Counts(schema, [column])
            inside = _chosen(rule, levels)
            shown = f"{column} in {{{', '.join(map(str, inside))}}}"
            self._inside = np.array([level in inside for level in rule.levels])
        else:
            if levels is not None:
                fail(f"`levels` are for categories: {column!r} is numeric, give `low` or `high`.")
            cells, place, shown = _between(schema, column, rule, low, high)
            self._inside = np.arange(len(cells)) == place
        self._cells, self.columns, self.names = cells, (column,), (shown,)

    @property
    def degree(self) -> int:
        return 0

    @property
    def reading(self) -> Schema:
        return self._cells.reading

    def extreme_cells(self, column: str) -> Integers:
        return self._cells.extreme_cells(column)

    def contributions(self, block: Block, bits: int) -> Integers:
        return self._cells.contributions(block, bits)[self._inside].sum(keepdims=True)

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace.from_points([[0.0], [1.0]], neighbors=self.schema.neighbors)

    def touched(self) -> int:
        return 1


class RowsInAndOut(RowsWhere):
    """How many rows satisfy the condition, and how many do not: where not even all are public.

    >>> facts = Schema({"age": Interval(0, 100)}, rows=9, neighbors="add-remove")
    >>> list(RowsInAndOut(facts, "age", high=30).measure({"age": [20, 29, 30]}))
    [2, 1]
    """

    counts_rows = True
    one_cell = True

    def __init__(self, schema: Schema, column: str, **condition: Any) -> None:
        if check_schema(schema).rows_known:
            fail("Under replace-one the number of rows is public: use RowsWhere.")
        super().__init__(schema, column, **condition)
        self.names = (*self.names, f"not {self.names[0]}")

    def contributions(self, block: Block, bits: int) -> Integers:
        cells = self._cells.contributions(block, bits)
        return np.array([cells[self._inside].sum(), cells[~self._inside].sum()])

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace.from_points(np.eye(2), neighbors=self.schema.neighbors)


def _chosen(rule: Category, levels: object) -> list[Any]:
    """The levels of the rule that are meant: 1, 1.0 and "1" are one level, as in a cell."""
    listed = list(levels) if isinstance(levels, (list, tuple)) else []
    values = [exact_value(level) for level in rule.levels]
    times = Counter(values)
    numbers = {
        value: level
        for value, level in zip(values, rule.levels, strict=True)
        if value is not None and times[value] == 1  # a number is neither "1" nor "01"
    }
    meant = [_same(level, rule.levels, numbers) for level in listed]
    if not meant or None in meant or not len(set(meant)) == len(meant) < len(rule.levels):
        shown = ", ".join(map(str, rule.levels))
        fail(f"`levels` must be a list of some of {shown}, each once, and not all of them.")
    return meant


def _same(level: object, levels: Sequence[Any], numbers: Mapping[Any, Any]) -> Any:
    if isinstance(level, str) and level in levels:
        return level
    return numbers.get(exact_value(plain_cell(level)))


def _between(
    schema: Schema, column: str, rule: Interval, low: object, high: object
) -> tuple[Statistic, int, str]:
    """Bins around the interval that is asked for, its place among them, and its name."""
    if isinstance(rule, Date):
        low, high = rule.days("low", low), rule.days("high", high)
    first = rule.low if low is None else check_real("low", low)
    last = rule.high if high is None else check_real("high", high)
    if not rule.low <= first < last <= rule.high or (first, last) == (rule.low, rule.high):
        fail(
            f"`low` and `high` must cut {column!r} within its bounds {rule.low:g} and "
            f"{rule.high:g}. Got {first:g} and {last:g}."
        )
    bins = Histogram(schema, column, sorted({rule.low, first, last, rule.high}))
    place = 0 if first == rule.low else 1
    return bins, place, bins.names[place].replace(column, f"{column} in ", 1)


class ShareMechanism(Reading):
    """Releases the share of rows that satisfy a public condition, with its interval.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`. Under replace-one the count of such
    rows is divided by the public number of rows. Under add-remove that number is private: such rows
    and the others are counted, a row is in one of the two counts, and the share is a ratio of noisy
    counts, with the interval of Fieller (1954).

    Parameters
    ----------
    schema : Schema
    column : str
    levels : list, for a category
    low, high : numbers, for a numeric column
        ``low`` is inside, ``high`` is not.
    noise, epsilon, delta :
        As for :class:`~tightdp.AdditiveMechanism`.

    Examples
    --------
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
    >>> adults = ShareMechanism(schema, "age", low=18, epsilon=1)
    >>> release = adults.release({"age": [10, 50] * 500}, rng=1)
    >>> release.names, bool(abs(release.value[0] - 0.5) < 0.02)
    (('age in [18, 100]',), True)
    """

    def __init__(
        self,
        schema: Schema,
        column: str,
        *,
        levels: Sequence[Any] | None = None,
        low: object = None,
        high: object = None,
        noise: object = "best",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        self.schema = check_schema(schema)
        kind = RowsWhere if schema.rows_known else RowsInAndOut
        self.statistic = kind(schema, column, levels=levels, low=low, high=high)
        self.rows = AdditiveMechanism(self.statistic, noise=noise, epsilon=epsilon, delta=delta)
        self.names = self.statistic.names[:1]
        self._take_price()

    @property
    def source(self) -> AdditiveMechanism:
        return self.rows

    def read(self, release: Release) -> Release:
        """The count divided by the number of rows, and moved between 0 and 1."""
        if not self.schema.rows_known:
            return self._ratio(release)
        n = self.schema.rows
        noisy, reach = release.value / n, release.half_width / n
        value = np.clip(noisy, 0.0, 1.0)
        return replace(
            release,
            value=value,
            units="",
            covariance=release.covariance / n**2,
            half_width=reach,
            ends=possible_values(noisy, reach, 0.0, 1.0, value),
        )

    def _ratio(self, release: Release) -> Release:
        r"""The share a / (a + b) of noisy counts: the mean of a column that is 1 or -1, halved.

        Its sum is S = a - b, and the noise of S - m (a + b) is that of (1 - m) a - (1 + m) b.
        """
        inside, outside = map(float, release.value)
        rows = max(inside + outside, 1.0)
        scaled = float(np.clip((inside - outside) / rows, -1.0, 1.0))
        ends = fieller(
            self.rows, _one_minus, inside - outside, inside + outside, release.confidence
        )
        low, high = min(ends[0], scaled), max(ends[1], scaled)
        slope = _one_minus(scaled)[None] / (2 * rows)
        value, interval = (1 + scaled) / 2, (1 + np.array([[low, high]])) / 2
        return replace(
            release,
            names=self.names,
            value=np.array([value]),
            units="",
            covariance=slope @ release.covariance @ slope.T,
            half_width=np.abs(interval - value).max(axis=1),
            ends=interval,
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        found, n = self.rows.preview(confidence), self.schema.rows
        if self.schema.rows_known:
            std, halves = found.std / n, found.half_width / n
        else:  # a share at 0 or 1 errs most
            slope = _one_minus(1.0)[None] / (2 * n)
            std = np.sqrt(np.diag(slope @ self.rows.scaled_covariance() @ slope.T))
            halves = self.rows.reach(slope, found.confidence)
        most, assumes = np.minimum(halves, 1.0), of_rows(self.schema)
        return replace(found, names=self.names, std=std, half_width=most, assumes=assumes)


def _one_minus(mean: float) -> FloatArray:
    return np.array([1.0 - mean, -1.0 - mean])
