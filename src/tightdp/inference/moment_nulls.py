r"""Null laws of noisy moments: groups with one mean, and columns that are independent.

Columns are scaled to [-1, 1]. If groups have the mean m in common, sums over the rows of a group,
:math:`S_g - mN_g`, have expectation 0 and are uncorrelated, whatever the sizes of the groups and
the laws within; their variances :math:`n\tau_g`, :math:`\tau_g = E[1_g(x - m)^2]`, are told by the
released squares. Of independent columns the same holds for the sum of
:math:`(x - m_x)(y - m_y)`, of variance :math:`n v_x v_y`.

How such sums are drawn for a null law: as n rows of two points each, with mean and variance as
given and the skewness of the beta law that has them on these bounds. Noise is exact; the sampling
part is so up to the law of the rows, and up to nothing if they are 0 or 1.
"""

from __future__ import annotations

import math
from functools import partial
from typing import NamedTuple

import numpy as np

from tightdp.errors import FloatArray
from tightdp.inference.monte_carlo_tests import (
    NullPoint,
    centred,
    ellipsoid_points,
    orthogonal_to,
    whitened,
)
from tightdp.inference.whole_counts import on_simplex
from tightdp.randomness import SeededSource

ANY, TREND = "any", "trend"
POINTS = 8  # of the set of nuisance parameters, beside its centre and its widest corner
_TAIL = 3.1  # standard errors beyond which a normal estimate is once in a thousand times
_LEAST = 1e-9  # of variances, so that nothing is divided by 0


class TwoPoints(NamedTuple):
    """Deviations from the mean, and the chance of the upper one; arrays of one shape."""

    upper: FloatArray
    lower: FloatArray
    chance: FloatArray

    @classmethod
    def of(cls, variance: FloatArray, skewness: FloatArray) -> TwoPoints:
        """The law with these moments: the skewness is (1 - 2q) / sqrt(q (1 - q))."""
        chance = (1 - skewness / np.sqrt(4 + skewness**2)) / 2
        chance = np.clip(chance, 1e-12, 1 - 1e-12)
        spread = np.sqrt(variance)
        odds = np.sqrt((1 - chance) / chance)
        return cls(spread * odds, -spread / odds, chance)

    def sums(self, counts: FloatArray, bits: SeededSource) -> FloatArray:
        """Sums of as many deviations as are counted."""
        up = bits.binomial(counts.astype(np.int64), self.chance, counts.shape)
        return np.asarray(up * self.upper + (counts - up) * self.lower)


def beta_skewness(mean: FloatArray, variance: FloatArray) -> FloatArray:
    """Of the beta law on [-1, 1] with this mean and variance; that of two points at the bounds.

    >>> beta_skewness(np.array([0.0, 0.5]), np.array([0.3, 0.75])).round(4)
    array([ 0.    , -1.1547])
    """
    middle = np.clip((1 + mean) / 2, 1e-9, 1 - 1e-9)
    inner = middle * (1 - middle)
    share = np.clip(variance / 4 / inner, 1e-12, 1.0)  # 1 / (alpha + beta + 1)
    total = 1 / share - 1
    return np.asarray(2 * (1 - 2 * middle) * np.sqrt(total + 1) / ((total + 2) * np.sqrt(inner)))


# --- groups ---------------------------------------------------------------------------------------


class Groups(NamedTuple):
    """Nuisance parameters of groups: the mean, shares of the rows, and variances times shares."""

    mean: float
    shares: FloatArray
    spread: FloatArray

    def fitted(self) -> Groups:
        """The nearest parameters that rows within the bounds can have."""
        mean = float(np.clip(self.mean, -1.0, 1.0))
        shares = on_simplex(self.shares, 1.0)
        return Groups(mean, shares, np.clip(self.spread, 0.0, shares * (1 - mean**2)))

    def laws(self) -> TwoPoints:
        """The laws of deviations within groups."""
        most = max(1 - self.mean**2, _LEAST)
        inner = np.clip(self.spread / np.maximum(self.shares, _LEAST), _LEAST, most)
        return TwoPoints.of(inner, beta_skewness(np.full(len(inner), self.mean), inner))


def equal_means(rows: int, groups: Groups, noise: FloatArray, look: str) -> NullPoint:
    """Groups with one mean; entries of a group are its rows, the sum, and that of 2 x^2 - 1."""
    count = len(groups.shares)
    noisy = np.kron(np.eye(count), [[-groups.mean, 1.0, 0.0]])  # S - m N of every group
    covariance = np.diag(rows * groups.spread) + noisy @ noise @ noisy.T
    if look == ANY:
        forms = whitened(orthogonal_to(groups.shares), covariance)
    else:
        line = centred(np.arange(count, dtype=float), groups.shares)[None]
        forms = line / math.sqrt(max(float((line @ covariance @ line.T)[0, 0]), _LEAST))
    draw = partial(group_sums, rows, groups, np.full(count, groups.mean))
    return NullPoint(draw, partial(mean_residuals, rows), forms)


def mean_residuals(rows: int, entries: FloatArray) -> FloatArray:
    """S - m N of every group, m the mean of all rows."""
    table = entries.reshape(*entries.shape[:-1], -1, 3)
    counts, sums = table[..., 0], table[..., 1]
    return np.asarray(sums - counts * (sums.sum(axis=-1, keepdims=True) / rows))


def group_sums(
    rows: int, groups: Groups, means: FloatArray, bits: SeededSource, size: int
) -> FloatArray:
    """Entries of groups without noise, shape (size, 3 groups); squares are left at 0."""
    counts = bits.multinomial(rows, groups.shares, size)
    sums = counts * means + groups.laws().sums(counts, bits)
    return np.stack([counts, sums, np.zeros_like(sums)], axis=2).reshape(size, -1)


def group_points(
    entries: FloatArray, rows: int, noise: FloatArray, bits: SeededSource
) -> list[Groups]:
    """Nuisance parameters that released moments leave: the likely ones, then others of their set.

    The last has all variances as large as they may be.
    """
    table = entries.reshape(-1, 3)
    count = len(table)
    mean = float(np.clip(table[:, 1].sum() / rows, -1.0, 1.0))
    square = np.kron(np.eye(count), [[0.5 + mean**2, -2 * mean, 0.5]])  # sum of (x - m)^2
    linear = np.vstack(
        [np.tile([0.0, 1.0, 0.0], count), np.kron(np.eye(count), [[1.0, 0.0, 0.0]]), square]
    )
    centre = linear @ entries / rows
    first = Groups(mean, centre[1 : count + 1], centre[count + 1 :]).fitted()
    # E (x - m)^4 is at most (1 + |m|)^2 times the square
    wide = (first.spread + 1 / rows) * (1 + abs(mean)) ** 2 / rows
    shares = np.diag(first.shares + 1 / rows) / rows
    covariance = linear @ noise @ linear.T / rows**2
    covariance[0, 0] += float(first.spread.sum() + 1 / rows) / rows
    covariance[1 : count + 1, 1 : count + 1] += shares
    covariance[count + 1 :, count + 1 :] += np.diag(wide)
    found = ellipsoid_points(centre, covariance, bits, POINTS, 2 * count)
    corner = centre.copy()
    corner[count + 1 :] += _TAIL * np.sqrt(np.diag(covariance)[count + 1 :])
    return [
        Groups(float(row[0]), row[1 : count + 1], row[count + 1 :]).fitted()
        for row in [*found, corner]
    ]


# --- two columns ----------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Nuisance parameters of two columns: means and variances."""

    means: FloatArray
    variances: FloatArray

    def fitted(self) -> Pair:
        """The nearest parameters that rows within the bounds can have."""
        means = np.clip(self.means, -1.0, 1.0)
        most = np.maximum(1 - means**2, _LEAST)
        return Pair(means, np.clip(self.variances, _LEAST, most))


def uncorrelated(rows: int, pair: Pair, noise: FloatArray) -> NullPoint:
    """Independent columns; entries are sums of x, 2 x^2, y, x y and 2 y^2."""
    x, y = map(float, pair.means)
    form = np.array([[-y, 0.0, -x, 1.0, 0.0]])
    variance = rows * float(pair.variances.prod()) + float((form @ noise @ form.T)[0, 0])
    scale = np.array([[1 / math.sqrt(max(variance, _LEAST))]])
    return NullPoint(partial(pair_sums, rows, pair, 0.0), partial(product_residual, rows), scale)


def product_residual(rows: int, entries: FloatArray) -> FloatArray:
    """The sum of (x - m) (y - m), means those of all rows; one entry."""
    return np.asarray(entries[..., 3:4] - entries[..., 0:1] * entries[..., 2:3] / rows)


def pair_sums(
    rows: int, pair: Pair, correlation: float, bits: SeededSource, size: int
) -> FloatArray:
    """Entries of two columns without noise; squares are left at 0."""
    x, y = map(float, pair.means)
    skewness = beta_skewness(pair.means, pair.variances).prod(keepdims=True)
    product = pair.variances.prod(keepdims=True)
    law = TwoPoints.of(product * (1 + correlation**2), skewness)
    mean = rows * (x * y + correlation * math.sqrt(float(product[0])))
    sums = mean + law.sums(np.full(size, float(rows)), bits)
    out = np.tile([rows * x, 0.0, rows * y, 0.0, 0.0], (size, 1))
    out[:, 3] = sums
    return out


def pair_points(
    entries: FloatArray, rows: int, noise: FloatArray, bits: SeededSource
) -> list[Pair]:
    """Means and variances that released moments leave; the last has the largest variances."""
    scaled = entries / rows
    centre = scaled[[0, 2, 1, 4]] / [1, 1, 2, 2]
    linear = np.zeros((4, 5))
    linear[[0, 1, 2, 3], [0, 2, 1, 4]] = 1.0, 1.0, 0.5, 0.5
    squares = np.clip(centre[2:], 1 / rows, 1.0)
    covariance = linear @ noise @ linear.T / rows**2
    covariance += np.diag(np.concatenate([squares, squares])) / rows  # E x^4 <= E x^2
    found = ellipsoid_points(centre, covariance, bits, POINTS, 4)
    corner = centre.copy()
    corner[2:] += _TAIL * np.sqrt(np.diag(covariance)[2:])
    return [
        Pair(row[:2], row[2:] - np.clip(row[:2], -1, 1) ** 2).fitted() for row in [*found, corner]
    ]
