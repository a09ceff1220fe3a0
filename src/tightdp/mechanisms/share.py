"""The share of rows that satisfy a public condition."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.data.blocks import Block
from tightdp.data.statistics import Counts, Histogram, Statistic, check_schema
from tightdp.errors import Integers, check_real, fail
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.reading import Reading
from tightdp.preview import Preview, of_rows
from tightdp.privacy import Neighbors
from tightdp.release import Release
from tightdp.schema import Category, Interval, Schema
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
        *,
        levels: Sequence[Any] | None = None,
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


def _chosen(rule: Category, levels: object) -> list[Any]:
    """The levels of the rule that are meant: 1, 1.0 and "1" are one level, as in a cell."""
    listed = list(levels) if isinstance(levels, (list, tuple)) else []
    numbers = {exact_value(level): level for level in rule.levels}
    numbers.pop(None, None)  # texts that are no numbers are themselves alone
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

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`, whose count of such rows is divided by
    the public number of rows: replace-one neighbours are needed.

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
        if check_schema(schema).neighbors is not Neighbors.REPLACE_ONE:
            fail("`share` needs replace-one neighbours: the number of rows must be public.")
        self.schema = schema
        self.statistic = RowsWhere(schema, column, levels=levels, low=low, high=high)
        self.rows = AdditiveMechanism(self.statistic, noise=noise, epsilon=epsilon, delta=delta)
        self.names = self.statistic.names
        self._take_price()

    @property
    def source(self) -> AdditiveMechanism:
        return self.rows

    def read(self, release: Release) -> Release:
        """The count divided by the number of rows, and moved between 0 and 1."""
        n = self.schema.rows
        return replace(
            release,
            value=np.clip(release.value / n, 0.0, 1.0),
            covariance=release.covariance / n**2,
            half_width=release.half_width / n,
            ends=np.clip(release.interval / n, 0.0, 1.0),
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        found, n = self.rows.preview(confidence), self.schema.rows
        halves = np.minimum(found.half_width / n, 1.0)
        return replace(found, std=found.std / n, half_width=halves, assumes=of_rows(self.schema))
