"""Norm balls on the integer lattice: l1, l2, sum and count balls, polytopes."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import (
    FloatArray,
    WideIntegers,
    check_count,
    fail,
)
from tightdp.exact.lattice_body import (
    MOST_SUMMED,
    LatticeBody,
    Rows,
    TestedBody,
    Uniform,
    ceil_sqrt,
    geometric_variance,
    largest,
    picks,
    series,
    tail,
    uniform_of,
)
from tightdp.exact.uniform_points import simplex_points
from tightdp.geometry.counting_balls import CountBall, ReplacedCountBall
from tightdp.randomness import RandomSource


class DiamondBody(LatticeBody):
    """The l1 ball sum |z_i| <= l."""

    def __init__(self, dim: int) -> None:
        self.dim = check_count("dim", dim)
        self.key, self.safe_level, self.safe_entry = (self.dim,), 1 << 58, (1 << 62) // self.dim

    @property
    def factor(self) -> Fraction:
        # the ball lies in 2^m simplices with binom(l + m, m) points each
        return Fraction(1 << self.dim, math.factorial(self.dim))

    @property
    def share(self) -> float:
        return 1.0

    def _level(self, z: WideIntegers) -> WideIntegers:
        return np.abs(z).sum(axis=1)

    def covariance(self, rate: float) -> FloatArray:
        return np.eye(self.dim) * geometric_variance(rate)

    def uniform(self, reach: int) -> Uniform | None:
        # f = (1 + x)/(1 - x) counts integers by size, g = 2x(1 + x)/(1 - x)^3 adds up squares
        points, squares = np.zeros((2, reach + 1))
        points[0], squares[1:] = 1.0, np.where(np.arange(reach) == 0, 2.0, 0.0)
        points = series(points, plus=self.dim, over=self.dim + 1)
        squares = series(squares, plus=self.dim, over=self.dim + 3)
        return uniform_of(points, squares, self.dim)

    def _weights(self, level: int) -> list[int]:
        """2^k binom(m, k) binom(l, k): points of l B with k entries that are not zero."""
        out = [1]
        for k in range(min(self.dim, level)):
            out.append(out[-1] * 2 * (self.dim - k) * (level - k) // (k + 1) ** 2)
        return out

    def cells(self, level: int) -> int:
        return sum(self._weights(level))

    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        count = picks(levels, self._weights, rng)
        z = np.zeros((len(levels), self.dim), dtype=levels.dtype)
        order = rng.permutations(len(levels), self.dim)
        for k in range(1, int(count.max(initial=0)) + 1):
            rows = np.flatnonzero(count == k)
            if rows.size:
                size = 1 + simplex_points(levels[rows] - k, k, rng, at_most=True)
                minus = rng.signs(size.shape) < 0
                z[rows[:, None], order[rows, :k]] = np.where(minus, -size, size)
        return z, np.arange(len(levels))

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        # {v >= 0, sum v <= l + o} has binom(l + o + m, m) points; with signs, z has one pre-image
        # if minus zero is refused.
        v = simplex_points(levels + offset, self.dim, rng, at_most=True)
        minus = rng.signs(v.shape) < 0
        rows = np.flatnonzero((v.sum(axis=1) <= levels) & ~(minus & (v == 0)).any(axis=1))
        return np.where(minus[rows], -v[rows], v[rows]), rows


class RoundBody(TestedBody):
    """The l2 ball sum z_i^2 <= l^2."""

    def __init__(self, dim: int) -> None:
        super().__init__([1] * check_count("dim", dim))
        self.safe_level = self.safe_entry = math.isqrt((1 << 61) // self.dim)

    @property
    def share(self) -> float:
        d = self.dim
        return math.exp(d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1) - d * math.log(2))

    def _level(self, z: WideIntegers) -> WideIntegers:
        return ceil_sqrt((z * z).sum(axis=1))

    def covariance(self, rate: float) -> FloatArray | None:
        # r_m(k), the number of points with squared length k, is that of one dimension less at
        # k - j^2, over all integers j; and E z_i^2 = E |z|^2 / m
        reach = tail(self.dim, rate)
        if self.dim * reach**3 > MOST_SUMMED << 6:
            return None
        points = np.zeros(reach * reach + 1)
        points[0] = 1.0
        for _ in range(self.dim):
            fewer, points = points, points.copy()
            for j in range(1, reach + 1):
                points[j * j :] += 2 * fewer[: len(points) - j * j]
            points /= points.max()
        length = np.arange(len(points), dtype=np.float64)
        weight = points * np.exp(-rate * np.ceil(np.sqrt(length)))
        return np.eye(self.dim) * float(weight @ length / weight.sum() / self.dim)

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.asarray((z * z).sum(axis=1) <= levels * levels)


class DiamondBound(LatticeBody):
    """A body with level(z) >= sum |y_i| / D, y = z or other integer coordinates of the lattice.

    Independent discrete Laplace noise on y, thinned, has its law (:mod:`~tightdp.noise.lattice`).
    """

    diamond: int
    """The radius D of the l1 ball around the body."""

    @property
    @abstractmethod
    def diamond_share(self) -> float:
        """The volume of the body as a share of that of the l1 ball."""

    @property
    def best_share(self) -> float:
        """Share of candidates that are kept, by the better one of the two ways."""
        return max(self.share, self.diamond_share)

    def from_diamond(self, y: WideIntegers) -> WideIntegers:
        """The points z with these coordinates y."""
        return y

    def to_diamond(self, z: WideIntegers) -> WideIntegers:
        """The coordinates y of points z."""
        return z


class SumBody(DiamondBound, TestedBody):
    """The ball max |z_i| <= a l, sum |z_i| <= k l: the sum ball (a = 1), and K3 (a = 2, k = 4)."""

    def __init__(self, dim: int, bound: int, half: int = 1) -> None:
        super().__init__([check_count("half", half)] * check_count("dim", dim))
        self.bound = self.diamond = check_count("bound", bound)
        self.key = (self.dim, self.bound, int(self.half[0]))
        self.safe_level = min(self.safe_level, (1 << 61) // max(self.bound, self.dim * self.key[2]))
        self.safe_entry = (1 << 62) // self.dim

    @property
    def share(self) -> float:
        return _sum_share(*self.key)

    @property
    def diamond_share(self) -> float:
        log_ratio = math.lgamma(self.dim + 1) + self.dim * math.log(self.half[0] / self.bound)
        return _exp(log_ratio + math.log(self.share)) if self.share > 0 else 0.0

    def _level(self, z: WideIntegers) -> WideIntegers:
        size = np.abs(z)
        return np.maximum(-(-largest(size) // self.half[0]), -(-size.sum(axis=1) // self.bound))

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.asarray(np.abs(z).sum(axis=1) <= self.bound * levels)


class CountBody(DiamondBound, TestedBody):
    """The count ball conv(C u -C), C = {z >= 0, max z <= 1, sum z <= k}.

    Candidates are the points z with max z+ + max z- <= l, those of l B for k = dim: either all
    entries are 0..l; or the first one of the least entries is a = -l..-1, those before it are
    a+1..a+l and those after it a..a+l. Every point is listed once.
    """

    def __init__(self, dim: int, bound: int) -> None:
        super().__init__([1] * check_count("dim", dim))
        self.bound = self.diamond = check_count("bound", bound)
        self.key = (self.dim, self.bound)
        self.safe_level = (1 << 60) // max(self.key)
        self.safe_entry = (1 << 61) // max(self.key)

    @cached_property
    def _log_volume(self) -> float:
        return CountBall(self.dim, min(self.bound, self.dim)).log_volume()

    @property
    def share(self) -> float:
        return _exp(self._log_volume) / (self.dim + 1)

    @property
    def diamond_share(self) -> float:
        log = self._log_volume + math.lgamma(self.dim + 1)
        return _exp(log - self.dim * math.log(2 * self.bound))

    @property
    def factor(self) -> Fraction:
        return Fraction(self.dim + 1)  # as l ((l+1)^m - l^m) <= m (l+1)^m

    def _weights(self, level: int) -> list[int]:
        """Candidates without negative entries, and by the place of the first least entry."""
        d = self.dim
        least = [level ** (i + 1) * (level + 1) ** (d - 1 - i) for i in range(d)]
        return [(level + 1) ** d, *least]

    def cells(self, level: int) -> int:
        return (level + 1) ** self.dim * (level + 1) - level ** (self.dim + 1)

    def _sizes(self, levels: WideIntegers, which: NDArray[np.int64]) -> WideIntegers:
        """How many values each entry may take: l before the first least entry and at it."""
        before = np.arange(self.dim) < which[:, None]
        return np.asarray(levels[:, None] + np.where(before, 0, 1))

    def _listed(
        self, u: WideIntegers, levels: WideIntegers, which: NDArray[np.int64], rows: Rows
    ) -> tuple[WideIntegers, Rows]:
        """Points from the numbers of their entries among the values that these may take."""
        at = which - 1  # the place of the first least entry; -1 for none
        lines = np.arange(len(u))
        least = np.where(at >= 0, -1 - u[lines, at], 0)
        z = u + least[:, None] + (np.arange(self.dim) < at[:, None])
        z[lines[at >= 0], at[at >= 0]] = least[at >= 0]
        keep = self.inside(z, levels)
        return z[keep], rows[keep]

    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        which = picks(levels, self._weights, rng)
        u = rng.integers_below(self._sizes(levels, which)).astype(levels.dtype)
        return self._listed(u, levels, which, np.arange(len(levels)))

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        # each of the m + 1 kinds alike, and entry i by a number below l + o + i: at least as many
        # as it has values
        which = np.asarray(rng.integers(self.dim + 1, len(levels)))
        u = rng.integers_below(levels[:, None] + (offset + 1 + np.arange(self.dim)))
        rows = np.flatnonzero((u < self._sizes(levels, which)).all(axis=1))
        return self._listed(u[rows], levels[rows], which[rows], rows)

    def _length(self, z: WideIntegers) -> WideIntegers:
        """k times the gauge: that of the positive part plus that of the negative part."""
        up, down = np.maximum(z, 0), np.maximum(-z, 0)
        return sum(np.maximum(self.bound * largest(part), part.sum(axis=1)) for part in (up, down))

    def _level(self, z: WideIntegers) -> WideIntegers:
        return -(-self._length(z) // self.bound)

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.asarray(self._length(z) <= self.bound * levels)


class ReplacedCountBody(DiamondBound, TestedBody):
    """The ball C - C of replaced counts: both parts of z lie in C, as for :class:`CountBody`."""

    def __init__(self, dim: int, bound: int) -> None:
        super().__init__([1] * check_count("dim", dim))
        self.bound = check_count("bound", bound)
        self.diamond = min(2 * self.bound, self.dim)
        self.key = (self.dim, self.bound)
        self.safe_level = (1 << 60) // max(self.key)
        self.safe_entry = (1 << 61) // max(self.key)

    @cached_property
    def _log_share(self) -> float:
        ball = ReplacedCountBall(self.dim, min(self.bound, self.dim))
        return ball.log_volume() - self.dim * math.log(2)

    @property
    def share(self) -> float:
        return _exp(self._log_share)

    @property
    def diamond_share(self) -> float:
        return _exp(self._log_share + math.lgamma(self.dim + 1) - self.dim * math.log(self.diamond))

    def _sums(self, z: WideIntegers) -> WideIntegers:
        """The larger one of the sums of the positive and the negative part."""
        up, down = np.maximum(z, 0).sum(axis=1), np.maximum(-z, 0).sum(axis=1)
        return np.asarray(np.maximum(up, down))

    def _level(self, z: WideIntegers) -> WideIntegers:
        return np.asarray(np.maximum(largest(np.abs(z)), -(-self._sums(z) // self.bound)))

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.asarray(self._sums(z) <= self.bound * levels)


class PolytopeBody(TestedBody):
    """The points of a rational box with |a . z| <= b l, for integer rows a and right sides b."""

    def __init__(
        self, rows: WideIntegers, right: WideIntegers, half_widths: Sequence[int], den: int = 1
    ) -> None:
        super().__init__(half_widths, den)
        self.rows, self.right = np.asarray(rows, dtype=np.int64), np.asarray(right, dtype=np.int64)
        if int(self.half.min()) < 1 or int(self.right.min(initial=1)) < 1:
            fail("A polytope must not be flat: `half_widths` and `right` must be integers >= 1.")
        self.key = (*self.key, self.rows.tobytes(), self.right.tobytes())
        reach = max([1, *(sum(map(abs, row)) for row in self.rows.tolist())])
        most = max(reach * -(-int(self.half.max()) // self.den), int(self.right.max(initial=1)))
        self.safe_level = min(self.safe_level, (1 << 61) // most)
        self.safe_entry = (1 << 62) // max(reach, self.den)

    def _level(self, z: WideIntegers) -> WideIntegers:
        box = largest(-(-np.abs(z) * self.den // self.half))
        return np.maximum(box, largest(-(-np.abs(z @ self.rows.T) // self.right)))

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.asarray((np.abs(z @ self.rows.T) <= self.right * levels[:, None]).all(axis=1))


@lru_cache(maxsize=256)
def _sum_share(dim: int, bound: int, half: int) -> float:
    """P(U_1 + ... + U_d <= k / a) for uniform U_i, exactly: sum (-1)^j binom(d, j) (t-j)^d / d!."""
    t = Fraction(bound, half)
    if t >= dim:
        return 1.0
    terms = ((-1) ** j * math.comb(dim, j) * (t - j) ** dim for j in range(math.floor(t) + 1))
    return float(sum(terms) / math.factorial(dim))


def _exp(x: float) -> float:
    return math.exp(x) if x > -700 else 0.0
