r"""Null laws of noisy moments: groups with one mean, and columns that are independent.

Columns are scaled to [-1, 1]. If groups have the mean m in common, sums over the rows of a group,
:math:`S_g - mN_g`, have expectation 0 and are uncorrelated, whatever the sizes of the groups and
the laws within; their variances :math:`n\tau_g`, :math:`\tau_g = E[1_g(x - m)^2]`, are told by the
released squares. Of independent columns the same holds for the sum of
:math:`(x - m_x)(y - m_y)`, of variance :math:`n v_x v_y`.

Rows are drawn from two points each, with mean and variance as given, so that all sums follow from
counts. Noise is exact; the sampling part is so up to the law of the rows. Rare rows far away carry
much of a mean, and where few were drawn the variance looks small. So :data:`RARE` such rows are
added to every variance that a sum is divided by, as Agresti and Coull (1998) do for shares; and
three laws are tried: with the skewness of the beta law on these bounds, and with the largest and
the least that there can be, where one of the points is a bound; with variances from what
they look like to the most that rows which were not drawn can add.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from tightdp.errors import FloatArray
from tightdp.inference.monte_carlo_tests import ellipsoid_points, one_sided
from tightdp.inference.whole_counts import on_simplex
from tightdp.randomness import SeededSource

ANY, TREND = "any", "trend"
POINTS = 8  # of the set of nuisance parameters, beside those on the way to its widest corner
RARE = 4.0  # rows at the far bound, as if they had been seen, in variances of statistics
_WAY = (0.0, 0.2, 1.0)  # on which variances grow, and rare rows become likely
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


def skewness(mean: FloatArray, variance: FloatArray, sides: FloatArray) -> FloatArray:
    """Of laws on [-1, 1]: the largest (side 1), the least (-1), or that of the beta law (0).

    The largest is that of two points of which the upper one is 1.

    >>> skewness(np.zeros(3), np.full(3, 0.25), np.array([-1.0, 0.0, 1.0]))
    array([-1.5,  0. ,  1.5])
    """
    reach = np.maximum(1 - sides * mean, 1e-9)
    scale = np.sqrt(np.clip(variance, 1e-12, None))
    return np.where(
        sides == 0, beta_skewness(mean, variance), sides * (reach / scale - scale / reach)
    )


def _patterns(count: int) -> list[FloatArray]:
    """Sides on which columns or groups are skewed: all on one, or the later ones on the other."""
    turned = np.where(np.arange(count) < count / 2, 1.0, -1.0)
    return [np.ones(count), -np.ones(count), turned, -turned]


def _widest(
    variance: FloatArray, bound: float | FloatArray, noise: FloatArray, rows: int
) -> FloatArray:
    """The largest mean square that is likely, after Wilson (1927): rows that were not drawn count.

    Squares are at most ``bound``, and ``noise`` is the variance of what was added to their mean.
    """
    step = _TAIL**2 * bound / (2 * rows)
    return np.asarray(
        variance + step + np.sqrt(step**2 + _TAIL**2 * (variance * bound / rows + noise))
    )


# --- groups ---------------------------------------------------------------------------------------


class Groups(NamedTuple):
    """Nuisance parameters of groups: the mean, shares of the rows, and variances times shares.

    ``sides`` are those on which groups are as skewed as can be, 0 for the beta law.
    """

    mean: float
    shares: FloatArray
    spread: FloatArray
    sides: FloatArray | None = None

    def fitted(self) -> Groups:
        """The nearest parameters that rows within the bounds can have."""
        mean = float(np.clip(self.mean, -1.0, 1.0))
        shares = on_simplex(self.shares, 1.0)
        return self._replace(
            mean=mean, shares=shares, spread=np.clip(self.spread, 0.0, shares * (1 - mean**2))
        )

    def laws(self) -> TwoPoints:
        """The laws of deviations within groups."""
        most = max(1 - self.mean**2, _LEAST)
        inner = np.clip(self.spread / np.maximum(self.shares, _LEAST), _LEAST, most)
        sides = np.zeros(len(inner)) if self.sides is None else self.sides
        return TwoPoints.of(inner, skewness(np.full(len(inner), self.mean), inner, sides))


def group_sums(
    rows: int, groups: Groups, means: FloatArray, bits: SeededSource, size: int
) -> FloatArray:
    """Entries of groups without noise: rows, sums, and those of 2 x^2 - 1; (size, 3 groups)."""
    counts = bits.multinomial(rows, groups.shares, size)
    law = groups.laws()
    up = bits.binomial(counts.astype(np.int64), law.chance, counts.shape)
    high, low = means + law.upper, means + law.lower
    sums = up * high + (counts - up) * low
    squares = up * high**2 + (counts - up) * low**2
    return np.stack([counts, sums, 2 * squares - counts], axis=2).reshape(size, -1)


def means_statistic(
    entries: FloatArray,
    rows: int,
    noise: FloatArray,
    look: str,
    alternative: str = "two-sided",
    *,
    rare: float = 0.0,
) -> FloatArray:
    """How far means of groups are apart; ``noise`` is the covariance of the entries of a group.

    ``rare`` rows at the far bound count in the variance of every group.

    "any" is the weighted sum of squares that is left when the best common mean is taken out,
    "trend" a line over the groups in their order.
    """
    table = entries.reshape(*entries.shape[:-1], -1, 3)
    counts, sums, double = (table[..., k] for k in range(3))
    mean = np.clip(sums.sum(axis=-1, keepdims=True) / rows, -1.0, 1.0)
    squares = (double + counts) / 2 - 2 * mean * sums + mean**2 * counts
    wobble = noise[1, 1] - 2 * mean * noise[0, 1] + mean**2 * noise[0, 0]
    counted = np.clip(counts, 0.0, None)
    spread = np.clip(squares, 0.0, counted) + np.maximum(wobble, _LEAST)
    spread = spread + rare * (1 + np.abs(mean)) ** 2
    away = sums - mean * counts
    if look == ANY:
        slope, inner = (away * counted / spread).sum(axis=-1), (counted**2 / spread).sum(axis=-1)
        return np.asarray((away**2 / spread).sum(axis=-1) - slope**2 / np.maximum(inner, _LEAST))
    line = np.arange(table.shape[-2], dtype=float)
    total = np.maximum(counted.sum(axis=-1, keepdims=True), _LEAST)
    line = line - (counted * line).sum(axis=-1, keepdims=True) / total
    scale = np.sqrt(np.maximum((line**2 * spread).sum(axis=-1), _LEAST))
    return one_sided((line * away).sum(axis=-1) / scale, alternative)


def group_points(
    entries: FloatArray, rows: int, noise: FloatArray, bits: SeededSource
) -> list[Groups]:
    """Nuisance parameters that released moments leave: the likely ones, then others of their set.

    Variances grow to the largest that are likely, with all laws.
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
    bound = (1 + abs(mean)) ** 2  # E (x - m)^4 is at most that times the square
    wide = (first.spread + 1 / rows) * bound / rows
    shares = np.diag(first.shares + 1 / rows) / rows
    covariance = linear @ noise @ linear.T / rows**2
    widest = _widest(first.spread, bound, np.diag(covariance)[count + 1 :], rows)
    covariance[0, 0] += float(first.spread.sum() + 1 / rows) / rows
    covariance[1 : count + 1, 1 : count + 1] += shares
    covariance[count + 1 :, count + 1 :] += np.diag(wide)
    found = ellipsoid_points(centre, covariance, bits, POINTS, 2 * count)
    patterns = _patterns(count)
    tried = [first, first._replace(spread=widest)]
    for part in _WAY:
        spread = first.spread + part * (widest - first.spread)
        tried += [first._replace(spread=spread, sides=sides) for sides in patterns]
    for k, row in enumerate(found[1:]):
        sides = patterns[k % len(patterns)]
        tried.append(Groups(float(row[0]), row[1 : count + 1], row[count + 1 :], sides))
    return [groups.fitted() for groups in tried]


# --- two columns ----------------------------------------------------------------------------------


class Pair(NamedTuple):
    """Nuisance parameters of two columns: means and variances; ``sides`` as for groups."""

    means: FloatArray
    variances: FloatArray
    sides: FloatArray | None = None

    def fitted(self) -> Pair:
        """The nearest parameters that rows within the bounds can have."""
        means = np.clip(self.means, -1.0, 1.0)
        most = np.maximum(1 - means**2, _LEAST)
        return self._replace(means=means, variances=np.clip(self.variances, _LEAST, most))


def pair_sums(
    rows: int, pair: Pair, correlation: float, bits: SeededSource, size: int
) -> FloatArray:
    """Entries of two columns without noise: sums of x, 2 x^2, y, x y and 2 y^2; (size, 5)."""
    sides = np.zeros(2) if pair.sides is None else pair.sides
    law = TwoPoints.of(pair.variances, skewness(pair.means, pair.variances, sides))
    x, y = (pair.means[k] + np.array([law.upper[k], law.lower[k]]) for k in (0, 1))
    p, q = (np.array([chance, 1 - chance]) for chance in law.chance)
    tie = correlation * np.sqrt(p.prod() * q.prod()) * np.array([[1.0, -1.0], [-1.0, 1.0]])
    shares = np.clip(np.outer(p, q) + tie, 0.0, None).ravel()
    counts = bits.multinomial(rows, shares / shares.sum(), size)
    first, second = np.repeat(x, 2), np.tile(y, 2)
    each = [first, 2 * first**2, second, first * second, 2 * second**2]
    return np.asarray(counts @ np.column_stack(each))


def correlation_statistic(
    entries: FloatArray, rows: int, noise: FloatArray, alternative: str, *, rare: float = 0.0
) -> FloatArray:
    """The sum of (x - m) (y - m), in standard deviations of rows and noise.

    ``rare`` rows with both columns at the far bound count, too.
    """
    x, x2, y, xy, y2 = (entries[..., k] / rows for k in range(5))
    x, y = np.clip(x, -1.0, 1.0), np.clip(y, -1.0, 1.0)
    inner = [np.clip(s / 2 - m**2, 0.0, 1 - m**2) for s, m in ((x2, x), (y2, y))]
    wobble = (
        noise[3, 3] + y**2 * noise[0, 0] + x**2 * noise[2, 2] + 2 * x * y * noise[0, 2]
    ) - 2 * (y * noise[0, 3] + x * noise[2, 3])
    spread = rows * inner[0] * inner[1] + np.maximum(wobble, _LEAST)
    spread = spread + rare * ((1 + np.abs(x)) * (1 + np.abs(y))) ** 2
    return one_sided(rows * (xy - x * y) / np.sqrt(spread), alternative)


def pair_points(
    entries: FloatArray, rows: int, noise: FloatArray, bits: SeededSource
) -> list[Pair]:
    """Means and variances that released moments leave; the likely ones first."""
    scaled = entries / rows
    centre = scaled[[0, 2, 1, 4]] / [1, 1, 2, 2]
    linear = np.zeros((4, 5))
    linear[[0, 1, 2, 3], [0, 2, 1, 4]] = 1.0, 1.0, 0.5, 0.5
    squares = np.clip(centre[2:], 1 / rows, 1.0)
    covariance = linear @ noise @ linear.T / rows**2
    means = np.clip(centre[:2], -1.0, 1.0)
    first = Pair(means, centre[2:] - means**2).fitted()
    own = np.diag(covariance)
    wobble = own[2:] + 4 * means**2 * own[:2]
    widest = _widest(first.variances, (1 + np.abs(means)) ** 2, wobble, rows)
    covariance += np.diag(np.concatenate([squares, squares])) / rows  # E x^4 <= E x^2
    found = ellipsoid_points(centre, covariance, bits, POINTS, 4)
    patterns = _patterns(2)
    tried = [first, first._replace(variances=widest)]
    for part in _WAY:
        variances = first.variances + part * (widest - first.variances)
        tried += [first._replace(variances=variances, sides=sides) for sides in patterns]
    for k, row in enumerate(found[1:]):
        variances = row[2:] - np.clip(row[:2], -1, 1) ** 2
        tried.append(Pair(row[:2], variances, patterns[k % len(patterns)]))
    return [pair.fitted() for pair in tried]
