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
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.privacy import Neighbors
from tightdp.release import Release
from tightdp.schema import Interval, Schema


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
    statistic = mean_statistic(schema, columns)
    return sums_of(statistic, _released(statistic, frame, epsilon, options))


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
    return _released(Counts(schema, columns), frame, epsilon, options)


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
    return _released(Histogram(schema, column, bins), frame, epsilon, options)


def mean(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private means of numeric columns.

    Under replace-one the noisy sum is divided by the public number of rows. Under add-remove the
    noisy sum is divided by a noisy number of rows of the same release; standard errors are then of
    first order, and the intervals take the worst ratio within both intervals.

    >>> schema = Schema({"x": Interval(0, 10)}, rows=400)
    >>> mean({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=10.0)["x"].__round__(1)
    1.5
    """
    statistic = mean_statistic(schema, columns)
    return means_of(statistic, _released(statistic, frame, epsilon, options))


def variance(
    frame: Any, columns: Iterable[str], *, schema: Schema, epsilon: Any, **options: Any
) -> Release:
    """Private variances (divisor n) of numeric columns, from noisy sums and sums of squares.

    Values are moved into the range that a variance can have; standard errors are of first order,
    and the intervals take the worst values of both moments.

    >>> schema = Schema({"x": Interval(0, 10)}, rows=400)
    >>> variance({"x": np.arange(400) % 4}, ["x"], schema=schema, epsilon=50.0)["x"].__round__(0)
    1.0
    """
    statistic = variance_statistic(schema, columns)
    return variances_of(statistic, _released(statistic, frame, epsilon, options))


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


def sums_of(statistic: Sums | SumsAndRows, release: Release) -> Release:
    """Sums in the units of their columns: ``half * S + middle * rows`` of scaled ones."""
    if isinstance(statistic, Sums):
        return release  # the number of rows is public, so they are
    units, middles = _units(statistic)
    slope = np.column_stack([np.diag(units), middles])
    return replace(
        release,
        names=statistic.columns,
        value=slope @ release.value,
        covariance=slope @ release.covariance @ slope.T,
        half_width=np.abs(slope) @ release.half_width,
    )


def means_of(statistic: Sums | SumsAndRows, release: Release) -> Release:
    """Means from released sums."""
    if isinstance(statistic, SumsAndRows):
        return _ratio(statistic, release)
    rows, (half, middle) = statistic.schema.rows, _units(statistic)
    # a mean lies within the bounds: nothing is lost by moving it there
    value = np.clip(release.value / rows, middle - half, middle + half)
    return replace(
        release,
        value=value,
        covariance=release.covariance / rows**2,
        half_width=release.half_width / rows,
    )


def _released(statistic: Statistic, frame: Any, epsilon: Any, options: dict[str, Any]) -> Release:
    shape = {"noise": options.pop("noise", "best"), "delta": options.pop("delta", 0)}
    return AdditiveMechanism(statistic, epsilon=epsilon, **shape).release(frame, **options)


def _ratio(statistic: SumsAndRows, release: Release) -> Release:
    sums, rows = release.value[:-1], max(float(release.value[-1]), 1.0)
    half, spare = release.half_width[:-1], float(release.half_width[-1])
    scaled = np.clip(sums / rows, -1.0, 1.0)
    slope = np.column_stack([np.eye(len(sums)) / rows, -scaled / rows])
    covariance = slope @ release.covariance @ slope.T
    # the worst of the four corners of (sum, rows), rows at least 1
    ends = np.array([max(rows - spare, 1.0), rows + spare])
    corners = np.array([(sums + s * half) / e for s in (-1.0, 1.0) for e in ends])
    reach = np.abs(np.clip(corners, -1.0, 1.0) - scaled).max(axis=0)
    units, middles = _units(statistic)
    return replace(
        release,
        names=statistic.columns,
        value=units * scaled + middles,
        covariance=np.outer(units, units) * covariance,
        half_width=units * reach,
    )


def variances_of(statistic: SumsAndSquares, release: Release) -> Release:
    """Variances from released sums and sums of squares."""
    n = statistic.schema.rows
    first, second = release.value[0::2] / n, release.value[1::2] / (2 * n)
    a, b = release.half_width[0::2] / n, release.half_width[1::2] / (2 * n)
    value = np.clip(second - first**2, 0.0, 1.0)
    units, _ = _units(statistic)
    slope = np.zeros((len(first), len(release.value)))
    for j in range(len(first)):
        slope[j, 2 * j : 2 * j + 2] = [-2 * first[j] / n, 1 / (2 * n)]
    covariance = slope @ release.covariance @ slope.T
    least = np.maximum(np.abs(first) - a, 0.0) ** 2
    most = np.minimum(np.abs(first) + a, 1.0) ** 2
    top, bottom = np.clip(second + b - least, 0, 1), np.clip(second - b - most, 0, 1)
    return replace(
        release,
        names=statistic.columns,
        value=units**2 * value,
        covariance=np.outer(units**2, units**2) * covariance,
        half_width=units**2 * np.maximum(top - value, value - bottom),
    )


def _units(statistic: Statistic) -> tuple[FloatArray, FloatArray]:
    """Half-widths and middles of the numeric columns."""
    intervals = [statistic.schema[name] for name in statistic.columns]
    pairs = [(c.half, c.middle) for c in intervals if isinstance(c, Interval)]
    return np.array([h for h, _ in pairs]), np.array([m for _, m in pairs])
