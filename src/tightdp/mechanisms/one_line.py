"""Sums, means, variances, counts and histograms in one line each."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.data.statistics import (
    Counts,
    Histogram,
    Statistic,
    Sums,
    SumsAndRows,
    SumsAndSquares,
    check_schema,
)
from tightdp.errors import FloatArray, fail
from tightdp.mechanisms.additive import AdditiveMechanism, Preview, of_rows
from tightdp.privacy import Neighbors
from tightdp.release import Release
from tightdp.schema import Interval, Schema

MEAN_AT_BOUND = "a mean at a bound, where errors are largest"
"""What the preview of a variance assumes: the worst case, so that it is a promise."""


def sum(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private sums of numeric columns, drawn exactly with the least noise.

    Sums are in the units of the columns. Under add-remove, where a sum of scaled cells says little
    without the number of rows, a noisy number of rows of the same release puts them there.

    Options are those of :meth:`AdditiveMechanism.release` (``ledger``, ``key``, ``confidence``,
    ``rng``, ``progress``), and ``noise`` and ``delta``.

    >>> schema = Schema({"x": Interval(0, 10)}, rows=4)
    >>> release = sum({"x": np.array([1.0, 2.0, 3.0, 99.0])}, ["x"], schema=schema, epsilon=1.0)
    >>> release.names, release.guarantee.epsilon
    (('x',), 1.0)
    """
    mechanism = _mechanism(mean_statistic(schema, columns), epsilon, options)
    return sums_of(mechanism, mechanism.release(frame, **options))


def count(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private counts of the levels of categories: marginals, or a joint table for ``"j:k"``.

    >>> from tightdp import Category
    >>> schema = Schema({"k": Category(["a", "b"], other="a")}, rows=3)
    >>> release = count({"k": np.array(["a", "b", "a"])}, ["k"], schema=schema, epsilon=1.0)
    >>> release.names, int(release.value.sum())  # the total is public
    (('k[a]', 'k[b]'), 3)
    """
    return _mechanism(Counts(schema, columns), epsilon, options).release(frame, **options)


def histogram(
    frame: Any,
    column: str,
    *,
    schema: Schema,
    epsilon: Any,
    bins: int | ArrayLike = 10,
    **options: Any,
) -> Release:
    """A private histogram of a numeric column with public bins.

    >>> schema = Schema({"x": Interval(0, 10)}, rows=4)
    >>> release = histogram({"x": np.arange(4.0)}, "x", schema=schema, epsilon=1.0, bins=2)
    >>> release.names
    ('x[0, 5)', 'x[5, 10]')
    """
    return _mechanism(Histogram(schema, column, bins), epsilon, options).release(frame, **options)


def mean(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private means of numeric columns.

    Under replace-one the noisy sum is divided by the public number of rows. Under add-remove the
    noisy sum is divided by a noisy number of rows of the same release; standard errors are then of
    first order, and the intervals are those of Fieller (1954), for the law of the noise.

    >>> schema = Schema({"x": Interval(0, 10)}, rows=400)
    >>> mean({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=10.0)["x"].__round__(1)
    1.5
    """
    mechanism = _mechanism(mean_statistic(schema, columns), epsilon, options)
    return means_of(mechanism, mechanism.release(frame, **options))


def variance(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private variances (divisor n) of numeric columns, from noisy sums and sums of squares.

    Values are moved into the range that a variance can have; standard errors are of first order,
    and the intervals hold for the law of the noise, second order included.

    >>> schema = Schema({"x": Interval(0, 10)}, rows=400)
    >>> variance({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=50.0)["x"].__round__(0)
    1.0
    """
    mechanism = _mechanism(variance_statistic(schema, columns), epsilon, options)
    return variances_of(mechanism, mechanism.release(frame, **options))


# --- the statistics, and what is made of them -----------------------------------------------------


def mean_statistic(schema: Schema, columns: Iterable[str]) -> Sums | SumsAndRows:
    """What sums and means are made of: sums, and the number of rows where it is private."""
    public = check_schema(schema).neighbors is Neighbors.REPLACE_ONE
    return Sums(schema, columns) if public else SumsAndRows(schema, columns)


def variance_statistic(schema: Schema, columns: Iterable[str]) -> SumsAndSquares:
    """What a variance is made of."""
    if check_schema(schema).neighbors is not Neighbors.REPLACE_ONE:
        fail("`variance` needs replace-one neighbours: the number of rows must be public.")
    return SumsAndSquares(schema, columns)


def _mechanism(statistic: Statistic, epsilon: Any, options: dict[str, Any]) -> AdditiveMechanism:
    shape = {"noise": options.pop("noise", "best"), "delta": options.pop("delta", 0)}
    return AdditiveMechanism(statistic, epsilon=epsilon, **shape)


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
    assumes = of_rows(mechanism.statistic.schema)
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
    )


def _units(statistic: Statistic) -> tuple[FloatArray, FloatArray]:
    """Half-widths and middles of the numeric columns."""
    intervals = [statistic.schema[name] for name in statistic.columns]
    pairs = [(c.half, c.middle) for c in intervals if isinstance(c, Interval)]
    return np.array([h for h, _ in pairs]), np.array([m for _, m in pairs])
