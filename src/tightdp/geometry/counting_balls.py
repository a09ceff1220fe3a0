"""Sensitivity hulls of sums, counts and histograms: the smallest norm balls for these releases.

K-norm noise in the hull of all changes one record can cause is the least that pure differential
privacy allows among K-norm mechanisms. The balls here are closed forms: gauge, support, volume,
second moment and uniform points are exact, without rejection, in hundreds of dimensions.
[Joseph & Yu, 2024] found exact samplers for the first two; the ones here need no case distinction
over faces and O(dim) work a point.
"""

from __future__ import annotations

import math
from abc import abstractmethod
from itertools import combinations
from typing import Any

import numpy as np

from tightdp.errors import MOST_DIM, FloatArray, check_count
from tightdp.geometry.cube_corner import CubeCorner
from tightdp.geometry.norm_balls import NormBall, SecondMoment, Volume, exact_moment, half_signs
from tightdp.geometry.units import ROUNDING
from tightdp.randomness import RandomSource

# A vector counts as lying in the hyperplane sum = 0 up to this share of its l1 norm.
_FLATNESS = ROUNDING


class CornerBall(NormBall):
    """What balls made of corners {0 <= x <= 1, sum x <= k} share."""

    def __init__(self, dim: int, bound: int) -> None:
        self.dim = check_count("dim", dim, most=MOST_DIM)
        self.bound = check_count("bound", bound, most=self.dim)
        self._corner = CubeCorner(self.dim, self.bound)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim}, bound={self.bound})"

    def bounding_box(self) -> FloatArray:
        return np.ones(self.dim)

    def lies_inside(self, other: NormBall) -> bool:
        if not isinstance(other, CornerBall) or type(other) is not type(self):
            return False
        return (other.dim, other.bound) == (self.dim, self.bound)


class SumBall(CornerBall):
    r"""The ball :math:`\{\|x\|_\infty \le 1, \|x\|_1 \le k\}`.

    Sensitivity hull of a sum of vectors in [-1, 1]^dim whose entries add up to at most k in size,
    when one vector is added or removed (:class:`~tightdp.CappedSums`); the vectors with at most k
    entries that are not zero have the same hull. ``bound=1`` is the l1 ball, ``bound=dim`` the
    cube.

    Parameters
    ----------
    dim : int
        Number of coordinates.
    bound : int
        Largest sum k of the sizes of the entries of one vector, 1..dim.

    References
    ----------
    [Joseph & Yu, 2024] "Some constructions of private, efficient, and optimal K-norm and elliptic
    Gaussian noise"; [Stanley, 1977] for the volume.

    Examples
    --------
    >>> ball = SumBall(dim=3, bound=2)
    >>> ball.gauge([0.5, -1.0, 1.0]), ball.support([3.0, -2.0, 1.0])
    (1.25, 5.0)
    >>> round(ball.volume(), 12)  # 8 * (1 + 4) / 3!
    6.666666666667
    """

    @property
    def unconditional(self) -> bool:
        return True

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        d, k = self.dim, self.bound
        if math.comb(d, k) * 2 ** (k - 1) > most:
            return None
        signs = half_signs(k)
        out = np.zeros((math.comb(d, k), len(signs), d))
        for block, places in zip(out, combinations(range(d), k), strict=True):
            block[:, places] = signs
        return out.reshape(-1, d)

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        d, k = self.dim, self.bound
        if k == d:
            return np.eye(d)
        if d + 2 ** (d - 1) > most:
            return None
        planes = half_signs(d) / k
        return planes if k == 1 else np.vstack([np.eye(d), planes])

    def _gauge(self, x: FloatArray) -> FloatArray:
        return _corner_gauge(np.abs(x), self.bound)

    def _normals(self, x: FloatArray) -> FloatArray:
        return np.where(x >= 0, 1.0, -1.0) * _corner_normals(np.abs(x), self.bound)

    def _support_points(self, c: FloatArray) -> FloatArray:
        return np.where(c >= 0, 1.0, -1.0) * _largest(np.abs(c), self.bound)

    def _volume(self) -> Volume:
        return Volume(self.dim * math.log(2) + float(self._corner.log_volumes[self.dim]))

    def _second_moment(self) -> SecondMoment:
        return exact_moment(self._corner.moments(self.dim)[1] * np.eye(self.dim))

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        points = self._corner.points(np.full(size, self.dim), rng)
        return rng.signs((size, self.dim)) * points


class OrthantBall(CornerBall):
    """A ball that is known orthant by orthant, by the number j of positive signs."""

    @abstractmethod
    def _log_weights(self) -> FloatArray:
        """Log volume of all orthants with j positive signs, j from 0 to d."""

    def _volume(self) -> Volume:
        return Volume(float(np.logaddexp.reduce(self._log_weights())))

    def _by_signs(self) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
        """By j: the share of its orthants, and the moments of a corner of j coordinates."""
        chance = np.exp(self._log_weights() - self.log_volume())
        corners = (self._corner.moments(n) for n in range(1, self.dim + 1))
        first, square, cross = np.array([(0.0, 0.0, 0.0), *corners]).T
        return chance, first, square, cross


class CountBall(OrthantBall):
    r"""The hull of C and -C, :math:`C = \{x \in [0,1]^d : \sum_i x_i \le k\}`.

    Sensitivity hull of column counts of a 0/1 table whose rows hold at most k ones, when one row
    is added or removed (:class:`~tightdp.Flags`). ``bound=1`` is the l1 ball.

    Parameters
    ----------
    dim : int
        Number of columns d.
    bound : int
        Largest number k of ones in a row, 1..dim.

    Notes
    -----
    Since 0 lies in C and C contains, with x, every 0 <= y <= x, the gauge splits into that of the
    positive and the negative part: gauge(x) = gauge_C(x+) + gauge_C(x-).

    References
    ----------
    [Joseph & Yu, 2024], as for :class:`SumBall`.

    Examples
    --------
    >>> ball = CountBall(dim=3, bound=2)
    >>> ball.gauge([1.0, 1.0, -0.5]), ball.support([3.0, -2.0, 1.0])
    (1.5, 4.0)
    >>> round(CountBall(dim=4, bound=4).volume(), 12)  # dim + 1
    5.0
    """

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        sizes = range(1, self.bound + 1)
        total = sum(math.comb(self.dim, size) for size in sizes)
        if total > most:
            return None
        rows = (places for size in sizes for places in combinations(range(self.dim), size))
        out = np.zeros((total, self.dim))
        for row, places in zip(out, rows, strict=True):
            row[list(places)] = 1.0
        return out

    def _gauge(self, x: FloatArray) -> FloatArray:
        up, down = _parts(x)
        return _corner_gauge(up, self.bound) + _corner_gauge(down, self.bound)

    def _normals(self, x: FloatArray) -> FloatArray:
        up, down = _parts(x)
        return (x > 0) * _corner_normals(up, self.bound) - (x < 0) * _corner_normals(
            down, self.bound
        )

    def _support_points(self, c: FloatArray) -> FloatArray:
        up, down = ((part > 0) * _largest(part, self.bound) for part in _parts(c))
        better = np.sum(c * up, axis=1) >= -np.sum(c * down, axis=1)
        return np.where(better[:, None], up, -down)

    def _log_weights(self) -> FloatArray:
        """Log volume of all orthants with j positive signs: binom(d,j) j!(d-j)!/d! V_j V_(d-j)."""
        return self._corner.log_volumes + self._corner.log_volumes[::-1]

    def _second_moment(self) -> SecondMoment:
        # K-norm noise V = Gamma(d+1) U has E V V^T = (d+1)(d+2) E U U^T, and given j positive signs
        # it splits into independent parts Gamma(j+1) U(C_j) and -Gamma(d-j+1) U(C_(d-j)).
        d, j = self.dim, np.arange(self.dim + 1.0)
        chance, first, square, cross = self._by_signs()
        gamma = (j + 1) * (j + 2)
        # Positive and negative parts contribute alike, j and d-j being equally likely.
        diagonal = 2 * np.sum(chance * j * gamma * square) / d
        mixed = (j * (j + 1) * first) * (j * (j + 1) * first)[::-1]
        pairs = 2 * np.sum(chance * (j * (j - 1) * gamma * cross - mixed)) / max(d * (d - 1), 1)
        value = np.full((d, d), pairs)
        np.fill_diagonal(value, diagonal)
        return exact_moment(value / ((d + 1) * (d + 2)))

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        d, rows, log = self.dim, np.arange(size), self._log_weights()
        positives = rng.categorical(np.exp(log - log.max()), size)
        parts = self._corner.points(np.concatenate([positives, d - positives]), rng)
        up, down = parts[:size], parts[size:]
        # With r = gauge_C(x-), s = gauge_C(x+): (s, r, 1-s-r) ~ Dirichlet(j, d-j, 1). So
        # r ~ Beta(d-j, j+1), and s / (1-r) ~ Beta(j, 1) is the gauge of a uniform point of C_j.
        sums = np.zeros((size, d + 2))
        np.cumsum(rng.exponential((size, d + 1)), axis=1, out=sums[:, 1:])
        share = (sums[rows, d - positives] / sums[:, -1])[:, None]
        gauge = _corner_gauge(down, self.bound)[:, None]
        down *= share / np.where(gauge > 0, gauge, 1.0)
        up *= 1.0 - share
        # The two parts fill the row from both ends; then every sign pattern is equally likely.
        return np.take_along_axis(up - down[:, ::-1], rng.permutations(size, d), axis=1)


class ReplacedCountBall(OrthantBall):
    r"""The ball C - C, :math:`C = \{x \in [0,1]^d : \sum_i x_i \le k\}`.

    Sensitivity hull of column counts of a 0/1 table whose rows hold at most k ones, when one row
    is replaced (:class:`~tightdp.Flags`). ``bound=dim`` is the cube.

    Parameters
    ----------
    dim : int
        Number of columns d.
    bound : int
        Largest number k of ones in a row, 1..dim.

    Notes
    -----
    Since C contains, with x, every 0 <= y <= x, a vector u lies in C - C exactly if its positive
    and its negative part lie in C: gauge(u) = max(gauge_C(u+), gauge_C(u-)). Given its signs a
    uniform point has independent parts, each uniform in a corner of as many dimensions.

    Examples
    --------
    >>> ball = ReplacedCountBall(dim=3, bound=1)
    >>> ball.gauge([1.0, 1.0, -0.5]), ball.support([3.0, -2.0, 1.0])
    (2.0, 5.0)
    >>> round(ball.volume(), 12)  # the difference body of a simplex: binom(6, 3) / 3!
    3.333333333333
    """

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        d, k = self.dim, self.bound
        # c . u is largest at +1 on the k largest positive c_i and -1 on the k least negative ones
        sizes = {(min(k, p), min(k, d - p)) for p in range(d + 1)}
        if sum(math.comb(d, a) * math.comb(d - a, b) for a, b in sizes) > 2 * most:
            return None
        out = []
        for a, b in sorted(sizes):
            for ups in combinations(range(d), a):
                rest = [i for i in range(d) if i not in ups]
                for downs in combinations(rest, b):
                    row = np.zeros(d)
                    row[list(ups)], row[list(downs)] = 1.0, -1.0
                    out.append(row)
        points = np.array(out)
        first = points[np.arange(len(points)), np.abs(points).argmax(axis=1)]
        return points[first > 0]

    def _gauge(self, x: FloatArray) -> FloatArray:
        up, down = _parts(x)
        return np.maximum(_corner_gauge(up, self.bound), _corner_gauge(down, self.bound))

    def _normals(self, x: FloatArray) -> FloatArray:
        up, down = _parts(x)
        upper = _corner_gauge(up, self.bound) >= _corner_gauge(down, self.bound)
        return np.where(
            upper[:, None],
            (x > 0) * _corner_normals(up, self.bound),
            (x < 0) * -_corner_normals(down, self.bound),
        )

    def _support_points(self, c: FloatArray) -> FloatArray:
        up, down = ((part > 0) * _largest(part, self.bound) for part in _parts(c))
        return np.asarray(up - down)

    def _log_weights(self) -> FloatArray:
        """Log volume of all orthants with j positive signs: binom(d,j) V_j V_(d-j)."""
        from scipy.special import gammaln

        j = np.arange(self.dim + 1.0)
        choices = gammaln(self.dim + 1.0) - gammaln(j + 1) - gammaln(self.dim - j + 1)
        return np.asarray(choices + self._corner.log_volumes + self._corner.log_volumes[::-1])

    def _second_moment(self) -> SecondMoment:
        d, j = self.dim, np.arange(self.dim + 1.0)
        chance, first, square, cross = self._by_signs()
        # Positive and negative parts contribute alike, j and d-j being equally likely.
        mixed = j * first * (j * first)[::-1]
        pairs = 2 * np.sum(chance * (j * (j - 1) * cross - mixed)) / max(d * (d - 1), 1)
        value = np.full((d, d), pairs)
        np.fill_diagonal(value, 2 * np.sum(chance * j * square) / d)
        return exact_moment(value)

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        d, log = self.dim, self._log_weights()
        positives = rng.categorical(np.exp(log - log.max()), size)
        parts = self._corner.points(np.concatenate([positives, d - positives]), rng)
        # The two parts fill the row from both ends; then every sign pattern is equally likely.
        points = parts[:size] - parts[size:, ::-1]
        return np.take_along_axis(points, rng.permutations(size, d), axis=1)


class HistogramBall(NormBall):
    r"""The flat ball :math:`\{u : \sum_i u_i = 0, \|u\|_1 \le 2\}`, hull of the e_i - e_j.

    Sensitivity hull of a histogram when one record is replaced: it leaves one cell and enters
    another. It spans only the hyperplane sum = 0 (``rank = cells - 1``): the total is public, and
    no noise is spent on it.

    Parameters
    ----------
    cells : int
        Number of cells m, at least 2.

    Notes
    -----
    The ball is the difference body of the simplex. Volumes are (m-1)-dimensional, within the
    hyperplane, and :meth:`facets` describes the ball within it. K-norm noise at epsilon = 1 has
    variance 4(m-1)(2m-1) / (m(m+1)) per cell: 2 at m = 2, and below 8, that of Laplace noise
    of scale 2, for every m.

    References
    ----------
    [Rogers & Shephard, 1957] "The difference body of a convex body".

    Examples
    --------
    >>> ball = HistogramBall(cells=3)
    >>> ball.rank, ball.gauge([1.0, 0.5, -1.5]), ball.gauge([1.0, 0.0, 0.0])
    (2, 1.5, inf)
    >>> ball.support([3.0, -1.0, 0.0])
    4.0
    """

    def __init__(self, cells: int) -> None:
        self.dim = check_count("cells", cells, least=2, most=MOST_DIM)

    def __repr__(self) -> str:
        return f"HistogramBall(cells={self.dim})"

    def lies_inside(self, other: NormBall) -> bool:
        return isinstance(other, HistogramBall) and other.dim == self.dim

    @property
    def rank(self) -> int:
        return self.dim - 1

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        m = self.dim
        if m * (m - 1) // 2 > most:
            return None
        first, second = np.triu_indices(m, 1)
        unit = np.eye(m)
        return unit[first] - unit[second]

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        # On sum = 0, ||u||_1 / 2 is the largest u(S) over cells S, and u(S) = -u(not S).
        if 2 ** (self.dim - 1) > most:
            return None
        signs = half_signs(self.dim)
        planes = (signs[(signs < 0).any(axis=1)] + 1.0) / 2.0
        return planes - planes.mean(axis=1, keepdims=True)

    def _gauge(self, x: FloatArray) -> FloatArray:
        length = np.abs(x).sum(axis=1)
        return np.where(np.abs(x.sum(axis=1)) <= _FLATNESS * length, length / 2.0, np.inf)

    def _normals(self, x: FloatArray) -> FloatArray:
        return np.where(x > 0, 0.5, -0.5)

    def _support_points(self, c: FloatArray) -> FloatArray:
        out, rows = np.zeros_like(c), np.arange(len(c))
        out[rows, c.argmax(axis=1)] += 1.0
        out[rows, c.argmin(axis=1)] -= 1.0
        return out

    def _volume(self) -> Volume:
        # binom(2(m-1), m-1) times sqrt(m) / (m-1)!, the volume of the simplex
        m = self.dim
        return Volume(
            math.log(math.comb(2 * m - 2, m - 1)) + 0.5 * math.log(m) - math.lgamma(float(m))
        )

    def _second_moment(self) -> SecondMoment:
        # E u_i^2 = 4(m-1)(2m-1) / (m^2 (m+1)^2), by Vandermonde from the law of j in _sample;
        # rows of E u u^T sum to 0.
        m = self.dim
        variance = 4.0 * (m - 1) * (2 * m - 1) / (m * (m + 1)) ** 2
        return exact_moment(variance * (m * np.eye(m) - 1.0) / (m - 1))

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        # The face with j positive cells is a simplex times a simplex; the pyramids over all such
        # faces have volume proportional to binom(m, j) binom(m-2, j-1).
        m = self.dim
        weights = [math.comb(m, j) * math.comb(m - 2, j - 1) for j in range(1, m)]
        total = sum(weights)
        positives = 1 + rng.categorical(np.array([w / total for w in weights]), size)
        positive = rng.permutations(size, m) < positives[:, None]
        mass = rng.exponential((size, m))
        up, down = np.where(positive, mass, 0.0), np.where(positive, 0.0, mass)
        point = up / up.sum(axis=1, keepdims=True) - down / down.sum(axis=1, keepdims=True)
        return point * rng.uniform((size, 1)) ** (1.0 / (m - 1))


# --- shared arithmetic on the corner {0 <= x <= 1, sum x <= k} ----------------------------------


def _parts(x: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Positive and negative part."""
    return np.maximum(x, 0.0), np.maximum(-x, 0.0)


def _corner_gauge(x: FloatArray, bound: int) -> FloatArray:
    """Gauge of non-negative rows: max(largest entry, sum / k)."""
    return np.asarray(np.maximum(x.max(axis=1), x.sum(axis=1) / bound))


def _corner_normals(x: FloatArray, bound: int) -> FloatArray:
    """The active plane at non-negative rows: that of the largest entry, or that of the sum."""
    rows, best = np.arange(len(x)), x.argmax(axis=1)
    flat = x[rows, best] < x.sum(axis=1) / bound
    out = np.where(flat[:, None], 1.0 / bound, np.zeros_like(x))
    out[rows, best] = np.where(flat, 1.0 / bound, 1.0)
    return out


def _largest(c: FloatArray, count: int) -> FloatArray:
    """Indicator of the ``count`` largest entries of each row."""
    out = np.zeros_like(c)
    places: Any = np.argpartition(-c, count - 1, axis=1)[:, :count]
    np.put_along_axis(out, places, 1.0, axis=1)
    return out
