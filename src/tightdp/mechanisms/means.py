"""Sums, means and variances of numeric columns, and shares of rows, in their own units."""

from __future__ import annotations

from abc import abstractmethod
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.data.blocks import Block
from tightdp.data.column_moments import SumsAndRows, SumsAndSquares
from tightdp.data.histograms import Histogram
from tightdp.data.statistics import Counts, Statistic, Sums
from tightdp.errors import FloatArray, Integers, check_real, fail
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.mechanism import Reading
from tightdp.preview import MEAN_AT_BOUND, Preview, of_rows
from tightdp.privacy import Neighbors
from tightdp.release import Release
from tightdp.schema import Category, Date, Interval, Schema, check_schema, require_public_rows
from tightdp.values import exact_value, plain_cell


class ColumnMechanism(Reading):
    """Base: numbers for every column, made of a noisy additive statistic.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`: the noisy statistic is what is paid
    for and stored, and what is made of it costs nothing.
    """

    def __init__(
        self,
        schema: Schema,
        columns: Iterable[str],
        *,
        noise: object = "best",
        epsilon: Number | None = None,
        delta: Number = 0,
    ) -> None:
        self.schema, self.statistic = check_schema(schema), self._statistic(schema, columns)
        self.sums = AdditiveMechanism(self.statistic, noise=noise, epsilon=epsilon, delta=delta)
        self._take_price()
        self.names = self.statistic.columns

    @property
    def source(self) -> AdditiveMechanism:
        return self.sums

    @staticmethod
    @abstractmethod
    def _statistic(schema: Schema, columns: Iterable[str]) -> Statistic:
        """What is summed."""


class SumMechanism(ColumnMechanism):
    """Releases sums of numeric columns; see :func:`tightdp.sum`.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`.

    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(0, 10)}, rows=4)
    >>> SumMechanism(schema, ["x"], epsilon=1).preview().std.round(1)
    array([13.9])
    """

    @staticmethod
    def _statistic(schema: Schema, columns: Iterable[str]) -> Statistic:
        return mean_statistic(schema, columns)

    def read(self, release: Release) -> Release:
        """Sums in the units of their columns."""
        return sums_of(self.sums, release)

    def preview(self, confidence: float = 0.95) -> Preview:
        return foresee_sums(self.sums, self.sums.preview(confidence))


class MeanMechanism(ColumnMechanism):
    """Releases means of numeric columns; see :func:`tightdp.mean`.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`.

    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(0, 10)}, rows=400)
    >>> MeanMechanism(schema, ["x"], epsilon=1).preview().std.round(4)
    array([0.0346])
    """

    located = "{} |"

    @staticmethod
    def _statistic(schema: Schema, columns: Iterable[str]) -> Statistic:
        return mean_statistic(schema, columns)

    picture = "range"

    def read(self, release: Release) -> Release:
        """Means from the noisy sums."""
        return means_of(self.sums, release)

    def preview(self, confidence: float = 0.95) -> Preview:
        return foresee_means(self.sums, self.sums.preview(confidence))


class VarianceMechanism(ColumnMechanism):
    """Releases variances of numeric columns; see :func:`tightdp.variance`.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`, under replace-one.

    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(0, 10)}, rows=400)
    >>> VarianceMechanism(schema, ["x"], epsilon=1).names
    ('x',)
    """

    @staticmethod
    def _statistic(schema: Schema, columns: Iterable[str]) -> Statistic:
        return variance_statistic(schema, columns)

    def read(self, release: Release) -> Release:
        """Variances from the noisy sums and sums of squares."""
        return variances_of(self.sums, release)

    def preview(self, confidence: float = 0.95) -> Preview:
        return foresee_variances(self.sums, self.sums.preview(confidence))


# --- the statistics, and what is made of them -----------------------------------------------------


def mean_statistic(schema: Schema, columns: Iterable[str]) -> Sums | SumsAndRows:
    """What sums and means are made of: sums, and the number of rows where it is private."""
    public = check_schema(schema).neighbors is Neighbors.REPLACE_ONE
    return Sums(schema, columns) if public else SumsAndRows(schema, columns)


def variance_statistic(schema: Schema, columns: Iterable[str]) -> SumsAndSquares:
    """What a variance is made of."""
    require_public_rows(check_schema(schema), "`variance`")
    return SumsAndSquares(schema, columns)


def sums_of(mechanism: AdditiveMechanism, release: Release) -> Release:
    """Sums in the units of their columns: ``half * S + middle * rows`` of scaled ones."""
    statistic = mechanism.statistic
    if isinstance(statistic, Sums):
        return release  # the number of rows is public, so they are
    slope = _sum_slope(statistic)
    return replace(
        release,
        names=statistic.columns,
        value=slope @ release.value,
        units="",
        covariance=slope @ release.covariance @ slope.T,
        half_width=mechanism.reach(slope, release.confidence),
    )


def _sum_slope(statistic: Statistic) -> FloatArray:
    units, middles = _units(statistic)
    return np.column_stack([np.diag(units), middles])


def means_of(mechanism: AdditiveMechanism, release: Release) -> Release:
    """Means from released sums."""
    statistic = mechanism.statistic
    if isinstance(statistic, SumsAndRows):
        return _ratio(mechanism, release)
    rows, (half, middle) = statistic.schema.rows, _units(statistic)
    # a mean lies within the bounds: nothing is lost by moving it there
    value = np.clip(release.value / rows, middle - half, middle + half)
    return replace(
        release,
        value=value,
        units="",
        covariance=release.covariance / rows**2,
        half_width=release.half_width / rows,
    )


def _ratio(mechanism: AdditiveMechanism, release: Release) -> Release:
    sums, rows = release.value[:-1], float(release.value[-1])
    scaled = np.clip(sums / max(rows, 1.0), -1.0, 1.0)
    slope = np.column_stack([np.eye(len(sums)), -scaled]) / max(rows, 1.0)
    ends = np.array([_fieller(mechanism, j, sums[j], rows, release) for j in range(len(sums))])
    ends[:, 0], ends[:, 1] = np.minimum(ends[:, 0], scaled), np.maximum(ends[:, 1], scaled)
    units, middles = _units(mechanism.statistic)
    return replace(
        release,
        names=mechanism.statistic.columns,
        value=units * scaled + middles,
        units="",
        covariance=np.outer(units, units) * (slope @ release.covariance @ slope.T),
        half_width=units * np.abs(ends - scaled[:, None]).max(axis=1),
        ends=units[:, None] * ends + middles[:, None],
    )


def _fieller(
    mechanism: AdditiveMechanism, j: int, total: float, rows: float, release: Release
) -> tuple[float, float]:
    r"""The scaled means m that the released sum S and number of rows N leave (Fieller, 1954).

    At the true mean the sum is m times the number of rows, so that S - m N is a mixture of noises
    of known law, :math:`z_S - m z_N`. The m for which :math:`|S - mN|` is within its reach r(m) are
    an interval that holds the true one with the stated confidence. r grows with the size of m.
    """
    level = 1 - (1 - release.confidence) / (len(release.value) - 1)

    def reach(low: float, high: float) -> float:
        slope = np.zeros((3, len(release.value)))
        slope[:, j], slope[:, -1] = 1.0, -np.linspace(low, high, 3)
        return max(float(mechanism.reach(row[None], level)[0]) for row in slope)

    low, high = -1.0, 1.0
    for _ in range(2):  # from all means to those that are left
        most = reach(low, high)
        if rows <= 0:
            return -1.0, 1.0
        low = max(-1.0, (total - most) / rows)
        high = min(1.0, (total + most) / rows)
        if low > high:  # noise beyond its reach: the nearest mean
            low = high = float(np.clip(total / rows, -1.0, 1.0))
    return low, high


def variances_of(mechanism: AdditiveMechanism, release: Release) -> Release:
    """Variances from released sums and sums of squares."""
    statistic = mechanism.statistic
    n, columns = statistic.schema.rows, len(statistic.columns)
    first, second = release.value[0::2] / n, release.value[1::2] / (2 * n)
    value = np.clip(second - first**2, 0.0, 1.0)
    slope = np.vstack([_variance_slope(j, columns, first[j], n) for j in range(columns)])
    ends = np.array(
        [_variance_ends(mechanism, j, first[j], second[j], release) for j in range(columns)]
    )
    units, _ = _units(statistic)
    return replace(
        release,
        names=statistic.columns,
        value=units**2 * value,
        units="",
        covariance=np.outer(units**2, units**2) * (slope @ release.covariance @ slope.T),
        half_width=units**2 * np.abs(ends - value[:, None]).max(axis=1),
        ends=units[:, None] ** 2 * ends,
    )


def _variance_slope(j: int, columns: int, mean: float, n: int) -> FloatArray:
    """How the noise of the moments moves a variance where the scaled mean is this."""
    row = np.zeros(2 * columns)
    row[2 * j : 2 * j + 2] = -2 * mean / n, 1 / (2 * n)
    return row


def _variance_ends(
    mechanism: AdditiveMechanism, j: int, first: float, second: float, release: Release
) -> tuple[float, float]:
    r"""The scaled variances that the released moments leave.

    With the true mean m and noise w = z_Q/(2n) - 2 m z_S/n the true variance is
    :math:`V + (m - M)^2 - w`, M the released mean and :math:`V = Q/(2n) - M^2`. A tenth of the
    risk is for m to be further from M than a, the rest for w to be beyond its reach at m.
    """
    n, columns = mechanism.statistic.schema.rows, len(mechanism.statistic.columns)
    miss = (1 - release.confidence) / columns
    one = np.zeros((1, 2 * columns))
    one[0, 2 * j] = 1 / n
    a = float(mechanism.reach(one, 1 - miss / 10)[0])
    means = np.clip(np.linspace(first - a, first + a, 3), -1.0, 1.0)
    slopes = [_variance_slope(j, columns, mean, n)[None] for mean in means]
    reach = max(float(mechanism.reach(slope, 1 - 0.9 * miss)[0]) for slope in slopes)
    middle, spread = second - first**2, min(a, abs(first) + 1.0) ** 2
    low, high = np.clip([middle - reach, middle + spread + reach], 0.0, 1.0)
    return float(low), float(high)


# --- before any release ---------------------------------------------------------------------------


def foresee_sums(mechanism: AdditiveMechanism, found: Preview) -> Preview:
    """The errors of sums in the units of their columns."""
    if isinstance(mechanism.statistic, Sums):
        return found
    return _foreseen(mechanism, found, _sum_slope(mechanism.statistic))


def foresee_means(mechanism: AdditiveMechanism, found: Preview) -> Preview:
    """The errors of means; where the number of rows is private, for as many as there may be."""
    rows, (units, _) = mechanism.statistic.schema.rows, _units(mechanism.statistic)
    if isinstance(mechanism.statistic, Sums):
        each = replace(found, std=found.std / rows, half_width=found.half_width / rows)
        return _capped(each, 2 * units)
    slope = np.column_stack([np.diag(units), units]) / rows  # a mean at a bound errs most
    assumes = of_rows(mechanism.statistic.schema, MEAN_AT_BOUND)
    return _capped(replace(_foreseen(mechanism, found, slope), assumes=assumes), 2 * units)


def foresee_variances(mechanism: AdditiveMechanism, found: Preview) -> Preview:
    """The errors of variances, for the means that leave the largest."""
    n, columns = mechanism.statistic.schema.rows, len(mechanism.statistic.columns)
    units, _ = _units(mechanism.statistic)
    slope = np.vstack([_variance_slope(j, columns, 1.0, n) for j in range(columns)])
    first = _foreseen(mechanism, found, units[:, None] ** 2 * slope)
    second = units**2 * (found.half_width[0::2] / n) ** 2
    both = replace(first, half_width=first.half_width + second, assumes=MEAN_AT_BOUND)
    return _capped(both, units**2)


def _capped(found: Preview, largest: FloatArray) -> Preview:
    """No more than the bounds leave: values are moved into the range that they can have."""
    return replace(
        found,
        std=np.minimum(found.std, largest),
        half_width=np.minimum(found.half_width, largest),
    )


def _foreseen(mechanism: AdditiveMechanism, found: Preview, slope: FloatArray) -> Preview:
    """The errors of a linear image of the scaled entries."""
    covariance = slope @ mechanism.scaled_covariance() @ slope.T
    return replace(
        found,
        names=mechanism.statistic.columns,
        std=np.sqrt(np.diag(covariance)),
        half_width=mechanism.reach(slope, found.confidence),
        units="",
    )


def _units(statistic: Statistic) -> tuple[FloatArray, FloatArray]:
    """Half-widths and middles of the numeric columns."""
    intervals = [statistic.schema[name] for name in statistic.columns]
    pairs = [(c.half, c.middle) for c in intervals if isinstance(c, Interval)]
    return np.array([h for h, _ in pairs]), np.array([m for _, m in pairs])


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
        require_public_rows(check_schema(schema), "`share`")
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
            units="",
            covariance=release.covariance / n**2,
            half_width=release.half_width / n,
            ends=np.clip(release.interval / n, 0.0, 1.0),
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        found, n = self.rows.preview(confidence), self.schema.rows
        halves = np.minimum(found.half_width / n, 1.0)
        return replace(found, std=found.std / n, half_width=halves, assumes=of_rows(self.schema))
