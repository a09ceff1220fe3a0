"""Sums, means and variances of numeric columns, in their own units."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Iterable
from dataclasses import replace

import numpy as np

from tightdp.accepted import Number
from tightdp.data.column_moments import SumsAndRows, SumsAndSquares
from tightdp.data.statistics import Statistic, Sums
from tightdp.errors import FloatArray
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.mechanism import Reading
from tightdp.person_means import rows_that_count
from tightdp.preview import MEAN_AT_BOUND, Preview, of_rows
from tightdp.privacy import Neighbors
from tightdp.release import Release
from tightdp.schema import Interval, Schema, check_schema, require_public_rows
from tightdp.shaping.reach import possible_values


class ColumnMechanism(Reading):
    """Base: numbers for every column, made of a noisy additive statistic.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`: the noisy statistic is what is paid
    for and stored, and what is made of it costs nothing. With ``per="person"`` a person is one row,
    the mean of its rows: see :class:`~tightdp.person_means.PersonMeans`.
    """

    later = ("per",)

    def __init__(
        self,
        schema: Schema,
        columns: Iterable[str],
        *,
        noise: object = "best",
        epsilon: Number | None = None,
        delta: Number = 0,
        per: str | None = None,
    ) -> None:
        facts = check_schema(schema) if per is None else rows_that_count(schema, per=per)
        self.schema = schema = facts
        self.statistic = self._statistic(schema, columns)
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

    summed = "{} |"

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
    low, high, noisy = middle - half, middle + half, release.value / rows
    # a mean lies within the bounds: nothing is lost by moving it there
    value, reach = np.clip(noisy, low, high), release.half_width / rows
    return replace(
        release,
        value=value,
        units="",
        covariance=release.covariance / rows**2,
        half_width=reach,
        ends=possible_values(noisy, reach, low, high, value),
    )


def _ratio(mechanism: AdditiveMechanism, release: Release) -> Release:
    sums, rows = release.value[:-1], float(release.value[-1])
    scaled = np.clip(sums / max(rows, 1.0), -1.0, 1.0)
    slope = np.column_stack([np.eye(len(sums)), -scaled]) / max(rows, 1.0)
    level = 1 - (1 - release.confidence) / len(sums)
    ends = np.array(
        [fieller(mechanism, _form(j, len(sums)), sums[j], rows, level) for j in range(len(sums))]
    )
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


def _form(j: int, sums: int) -> Callable[[float], FloatArray]:
    """The noise of a sum without that of so many times the number of rows, which stands last."""

    def at(mean: float) -> FloatArray:
        slope = np.zeros(sums + 1)
        slope[j], slope[-1] = 1.0, -mean
        return slope

    return at


def fieller(
    mechanism: AdditiveMechanism,
    form: Callable[[float], FloatArray],
    total: float,
    rows: float,
    level: float,
) -> tuple[float, float]:
    r"""The scaled means m that the released sum S and number of rows N leave (Fieller, 1954).

    At the true mean the sum is m times the number of rows, so that S - m N is a mixture of noises
    of known law, :math:`z_S - m z_N`, whose weights ``form`` gives. The m for which
    :math:`|S - mN|` is within its reach r(m) are an interval that holds the true one with the
    stated confidence. r grows with the size of m.
    """

    def reach(low: float, high: float) -> float:
        slopes = [form(float(mean)) for mean in np.linspace(low, high, 3)]
        return max(float(mechanism.reach(slope[None], level)[0]) for slope in slopes)

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
        rounding=mechanism.rounding_words(slope),
    )


def _units(statistic: Statistic) -> tuple[FloatArray, FloatArray]:
    """Half-widths and middles of the numeric columns."""
    intervals = [statistic.schema[name] for name in statistic.columns]
    pairs = [(c.half, c.middle) for c in intervals if isinstance(c, Interval)]
    return np.array([h for h, _ in pairs]), np.array([m for _, m in pairs])
