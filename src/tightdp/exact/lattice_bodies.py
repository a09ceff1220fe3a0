r"""Norm balls on the integer lattice: exact levels and exact proposals, integers only.

A body B answers two questions without a float. ``level(z)`` is the least integer l >= 0 with z in
l B, that is the gauge rounded up. ``propose(levels, offset, rng)`` draws for every row one
candidate point and returns those that lie in l B, such that **every lattice point z of l B comes
out with the same probability**

.. math:: P(z) = \frac{c}{(l + o + 1)(l + o + 2) \cdots (l + o + r)},

where r is the ``rank``, o the ``offset`` and c a constant of the body, free of l. These are the
only facts the sampler of :mod:`~tightdp.noise.lattice` needs. Products follow by giving every
factor the offset that the ranks before it leave.

At coarse rates levels are low and most of these candidates would lie outside l B. There the levels
come from a table (:mod:`~tightdp.exact.level_tables`), and ``scatter(levels, rng)`` draws uniformly
from a set of ``cells(l)`` candidates, at most ``factor * (l + 1) ... (l + r)``, that contains l B.

Integers are 64-bit while levels stay below ``safe_level`` and entries below ``safe_entry``; beyond,
the same code runs on arrays of Python integers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from bisect import bisect_right
from collections import Counter
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import accumulate
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import (
    DimensionError,
    FloatArray,
    InfeasibleSamplingError,
    WideIntegers,
    check_count,
    fail,
)
from tightdp.exact.lattice_points import box_points, roomy, simplex_points
from tightdp.exact.rejection import LEAST_SHARE
from tightdp.geometry.counting_balls import CountBall
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.randomness import RandomSource, SeededSource

Rows = NDArray[np.intp]
_PILOT, _PILOT_LEVEL = 50_000, 1 << 20
_MOST_SUMMED = 1 << 20  # entries of a sum over levels
_LONGEST = 1 << 60  # half-widths and their denominators: twice as much is still a 64-bit integer
_WORD = 1 << 62


class Uniform(NamedTuple):
    """Uniform lattice points of l B for l = 0, 1, ...: for stated errors, in floats."""

    log_count: FloatArray
    """The logarithm of their number, shape (levels,)."""
    variance: FloatArray
    """Second moments of the entries, shape (levels, dim)."""
    shared: float = 0.0
    """The correlation of two entries, the same for all pairs and levels."""


class LatticeBody(ABC):
    """A symmetric convex body with an exact integer membership test.

    Bodies with the same description are equal, so that what is measured or tabulated for one serves
    all of them.
    """

    dim: int
    safe_level: int = 1 << 29
    safe_entry: int = 1 << 29

    @property
    def rank(self) -> int:
        """Dimension of the lattice the noise lives on: ``dim`` unless the body is flat."""
        return self.dim

    @property
    @abstractmethod
    def key(self) -> tuple[Any, ...]:
        """What tells the body from others of its class."""

    @property
    @abstractmethod
    def factor(self) -> Fraction:
        """A with cells(l) <= A (l + 1) ... (l + rank)."""

    def level(self, z: ArrayLike) -> WideIntegers:
        """The least l >= 0 with z in l B, for each row; exact for integers of any size."""
        points = np.asarray(z)
        if points.ndim != 2 or points.shape[1] != self.dim:
            fail(f"`z` must be an array with {self.dim} columns.", DimensionError)
        if points.dtype.kind not in "iuO":
            fail("`z` must hold integers.")
        return self._level(roomy(points, self.safe_entry))

    @abstractmethod
    def _level(self, z: WideIntegers) -> WideIntegers: ...

    @abstractmethod
    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        """Points of l B for some of the rows, and which rows (see the module)."""

    @abstractmethod
    def cells(self, level: int) -> int:
        """How many candidates :meth:`scatter` has at a level."""

    @abstractmethod
    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        """One uniform candidate a row, those in l B, and which rows."""

    def covariance(self, rate: float) -> FloatArray | None:
        """Covariance of integers z with weight exp(-rate * level(z)); None where it is not known.

        At small rates that of the continuous law, from which it differs by a part of the order of
        the square of the rate, stands for it.
        """
        return None

    def uniform(self, reach: int) -> Uniform | None:
        """What uniform points of l B are like for l = 0..reach; None where it is not known."""
        return None

    @property
    def share(self) -> float:
        """Share of candidates that are kept, at a high level; measured once with a fixed seed."""
        return measured_share(self)

    def check_feasible(self) -> None:
        """Refuse before sampling what would practically never end."""
        if self.share < LEAST_SHARE:
            fail(
                f"Exact lattice noise for {self!r} would accept fewer than one proposal in "
                f"{round(1 / LEAST_SHARE):,}. Use a larger body with its own sampler (the "
                "'linf' or 'l1' ball, or kind='cylinder'), or split the statistic.",
                InfeasibleSamplingError,
            )

    def __eq__(self, other: object) -> bool:
        return isinstance(other, LatticeBody) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    @property
    def _identity(self) -> tuple[Any, ...]:
        return (type(self), *self.key)

    def facts(self) -> str:
        """The body to the last digit, for fingerprints of requests."""
        parts = tuple(p.facts() if isinstance(p, LatticeBody) else p for p in self.key)
        return f"{type(self).__name__}{parts!r}"

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"


@lru_cache(maxsize=256)
def measured_share(body: LatticeBody) -> float:
    """Share of proposals that are kept, at a high level, with a fixed seed."""
    kind: Any = np.int64 if body.safe_level > _PILOT_LEVEL else object
    levels = np.full(_PILOT, _PILOT_LEVEL, dtype=kind)
    return len(body.propose(levels, 0, SeededSource(MEASURING_SEED))[1]) / _PILOT


class TestedBody(LatticeBody):
    """A body inside a box with rational half-widths, tested point by point."""

    __test__ = False  # not a test class, whatever its name suggests to a test runner

    def __init__(self, half_widths: Sequence[int], den: int = 1) -> None:
        sides = [check_count("half_widths", h, least=0, most=_LONGEST) for h in half_widths]
        self.half, self.den = np.array(sides), check_count("den", den, most=_LONGEST)
        self.dim = check_count("number of half_widths", len(sides))

    @property
    def key(self) -> tuple[Any, ...]:
        return (*self.half.tolist(), self.den)

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        return (1 << 61) // (2 * max(int(self.half.max()), self.den) + 2)

    @cached_property
    def _widths(self) -> WideIntegers:
        """w_i = ceil(2 a_i), at least 1."""
        return np.maximum(1, -(-2 * self.half // self.den))

    @cached_property
    def _sides(self) -> Counter[int]:
        return Counter(self.half.tolist())

    @property
    def factor(self) -> Fraction:
        return Fraction(math.prod(int(width) for width in self._widths))

    def cells(self, level: int) -> int:
        return math.prod((2 * (h * level // self.den) + 1) ** n for h, n in self._sides.items())

    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        half = levels[:, None] * self.half // self.den
        z = box_points(-half, half, rng).astype(levels.dtype)  # Python integers stay such
        rows = np.flatnonzero(self.inside(z, levels))
        return z[rows], rows

    @abstractmethod
    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        """Whether z lies in l B, for rows z that lie in the box."""

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        # u_i uniform below w_i (l + o + i) with w_i = ceil(2 a_i) >= 1 covers the 2 h_i + 1
        # integers of the box side, h_i = floor(a_i l), because w_i (l + 1) >= 2 a_i l + 1.
        # Levels are safe, but the offset of a product with many parts may take a wide side further.
        steps = levels[:, None] + (offset + 1 + np.arange(self.dim))
        steps = roomy(steps, _WORD // int(self._widths.max()))
        half = levels[:, None] * self.half // self.den
        u = rng.integers_below(steps * self._widths)
        rows = np.flatnonzero((u <= 2 * half).all(axis=1))
        z = u[rows] - half[rows]
        keep = self.inside(z, levels[rows])
        return z[keep], rows[keep]


class BoxBody(TestedBody):
    """The box |z_i| <= a_i l with rational a_i = half_i / den: noise of the linf norm."""

    @property
    def share(self) -> float:
        sides = 2 * self.half / self.den
        return float(np.prod(sides / np.maximum(1, np.ceil(sides))))

    def __init__(self, half_widths: Sequence[int], den: int = 1) -> None:
        super().__init__(half_widths, den)
        if int(self.half.min()) < 1:
            fail("`half_widths` must be integers >= 1: a box must not be flat.")

    @property
    def safe_entry(self) -> int:  # type: ignore[override]
        return (1 << 62) // self.den

    def _level(self, z: WideIntegers) -> WideIntegers:
        return _largest(-(-np.abs(z) * self.den // self.half))

    def covariance(self, rate: float) -> FloatArray | None:
        # z is uniform in l B for a level l of weight q^l N(l), N(l) = prod (2 h_i + 1) and
        # h_i = floor(a_i l), as in the sampler; uniform on -h..h has the variance h (h + 1) / 3.
        reach = _tail(self.dim, rate)
        if reach > _MOST_SUMMED // self.dim:
            return None
        known = self.uniform(reach)
        return np.diag(_level_weights(known.log_count, rate) @ known.variance)

    def uniform(self, reach: int) -> Uniform:
        level = roomy(np.arange(reach + 1), _WORD // int(self.half.max()))[:, None]
        half = (level * self.half // self.den).astype(np.float64)
        return Uniform(np.log1p(2 * half).sum(axis=1), half * (half + 1) / 3)

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.ones(len(z), dtype=bool)


class DiamondBody(LatticeBody):
    """The l1 ball sum |z_i| <= l."""

    def __init__(self, dim: int) -> None:
        self.dim = check_count("dim", dim)
        self.safe_level = 1 << 58
        self.safe_entry = (1 << 62) // self.dim

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.dim,)

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

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        return math.isqrt((1 << 61) // self.dim)

    @property
    def safe_entry(self) -> int:  # type: ignore[override]
        return math.isqrt((1 << 61) // self.dim)

    @property
    def share(self) -> float:
        d = self.dim
        return math.exp(d / 2 * math.log(math.pi) - math.lgamma(d / 2 + 1) - d * math.log(2))

    def _level(self, z: WideIntegers) -> WideIntegers:
        return ceil_sqrt((z * z).sum(axis=1))

    def covariance(self, rate: float) -> FloatArray | None:
        # r_m(k), the number of points with squared length k, is that of one dimension less at
        # k - j^2, over all integers j; and E z_i^2 = E |z|^2 / m
        reach = _tail(self.dim, rate)
        if self.dim * reach**3 > _MOST_SUMMED << 6:
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


class SquareBody(TestedBody):
    """K2, the hull of the differences of (x, 2 x^2)."""

    def __init__(self) -> None:
        super().__init__([2, 2])

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        return 1 << 29

    @property
    def share(self) -> float:
        return 5 / 6  # area 40/3 of 16

    def _level(self, z: WideIntegers) -> WideIntegers:
        a, b = np.abs(z).T
        # gauge |b|/2 if |b| >= 2|a|, else 2 a^2 / (4|a| - |b|)
        curved = b < 2 * a
        bottom = np.where(curved, 4 * a - b, 2)
        top = np.where(curved, 2 * a * a, b)
        return -(-top // bottom)

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        a, b = np.abs(z).T
        over = np.maximum(a - levels, 0)
        return np.asarray(levels * b <= 2 * levels * levels - 2 * over * over)


class SumBody(TestedBody):
    """The ball max |z_i| <= a l, sum |z_i| <= k l: the sum ball (a = 1), and K3 (a = 2, k = 4)."""

    def __init__(self, dim: int, bound: int, half: int = 1) -> None:
        super().__init__([check_count("half", half)] * check_count("dim", dim))
        self.bound = check_count("bound", bound)

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.dim, self.bound, int(self.half[0]))

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        return min(super().safe_level, (1 << 61) // max(self.bound, self.dim * int(self.half[0])))

    @property
    def safe_entry(self) -> int:  # type: ignore[override]
        return (1 << 62) // self.dim

    @property
    def share(self) -> float:
        return _sum_share(*self.key)

    @property
    def diamond_share(self) -> float:
        """The volume of the ball as a share of that of the l1 ball sum |z_i| <= k around it."""
        log_ratio = math.lgamma(self.dim + 1) + self.dim * math.log(self.half[0] / self.bound)
        return _exp(log_ratio + _log(self.share))

    def _level(self, z: WideIntegers) -> WideIntegers:
        size = np.abs(z)
        return np.maximum(-(-_largest(size) // self.half[0]), -(-size.sum(axis=1) // self.bound))

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.asarray(np.abs(z).sum(axis=1) <= self.bound * levels)


class CountBody(TestedBody):
    """The count ball conv(C u -C), C = {z >= 0, max z <= 1, sum z <= k}."""

    def __init__(self, dim: int, bound: int) -> None:
        super().__init__([1] * check_count("dim", dim))
        self.bound = check_count("bound", bound)

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.dim, self.bound)

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        return (1 << 60) // max(self.bound, self.dim)

    @property
    def safe_entry(self) -> int:  # type: ignore[override]
        return (1 << 61) // max(self.bound, self.dim)

    @cached_property
    def _log_share(self) -> float:
        ball = CountBall(self.dim, min(self.bound, self.dim))
        return ball.log_volume() - self.dim * math.log(2)

    @property
    def share(self) -> float:
        return _exp(self._log_share)

    @property
    def diamond_share(self) -> float:
        """As for :class:`SumBody`."""
        return _exp(self._log_share + math.lgamma(self.dim + 1) - self.dim * math.log(self.bound))

    def _length(self, z: WideIntegers) -> WideIntegers:
        """k times the gauge: that of the positive part plus that of the negative part."""
        up, down = np.maximum(z, 0), np.maximum(-z, 0)
        return sum(np.maximum(self.bound * _largest(part), part.sum(axis=1)) for part in (up, down))

    def _level(self, z: WideIntegers) -> WideIntegers:
        return -(-self._length(z) // self.bound)

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.asarray(self._length(z) <= self.bound * levels)


class PolytopeBody(TestedBody):
    """The points of a rational box with |a . z| <= b l, for integer rows a and right sides b."""

    def __init__(
        self, rows: WideIntegers, right: WideIntegers, half_widths: Sequence[int], den: int = 1
    ) -> None:
        super().__init__(half_widths, den)
        self.rows, self.right = np.asarray(rows, dtype=np.int64), np.asarray(right, dtype=np.int64)
        if int(self.half.min()) < 1 or int(self.right.min(initial=1)) < 1:
            fail("A polytope must not be flat: `half_widths` and `right` must be integers >= 1.")

    @property
    def key(self) -> tuple[Any, ...]:
        return (*super().key, self.rows.tobytes(), self.right.tobytes())

    @cached_property
    def _reach(self) -> int:
        return max(1, max((sum(map(abs, row)) for row in self.rows.tolist()), default=1))

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        most = max(self._reach * -(-int(self.half.max()) // self.den), int(self.right.max()))
        return min(super().safe_level, (1 << 61) // most)

    @property
    def safe_entry(self) -> int:  # type: ignore[override]
        return (1 << 62) // max(self._reach, self.den)

    def _level(self, z: WideIntegers) -> WideIntegers:
        box = _largest(-(-np.abs(z) * self.den // self.half))
        return np.maximum(box, _largest(-(-np.abs(z @ self.rows.T) // self.right)))

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.asarray((np.abs(z @ self.rows.T) <= self.right * levels[:, None]).all(axis=1))


class ProductBody(LatticeBody):
    """A product of bodies: the level of a point is the largest level of its blocks."""

    def __init__(self, bodies: Sequence[LatticeBody]) -> None:
        self.bodies = tuple(bodies)
        self.dim = check_count("dim", sum(body.dim for body in self.bodies))
        self.safe_level = min(body.safe_level for body in self.bodies)
        self.safe_entry = 1 << 62  # every body looks after its own block

    @property
    def key(self) -> tuple[Any, ...]:
        return self.bodies

    @property
    def factor(self) -> Fraction:
        return math.prod((body.factor for body in self.bodies), start=Fraction(1))

    @property
    def share(self) -> float:
        return math.prod(body.share for body in self.bodies)

    @property
    def rank(self) -> int:
        return sum(body.rank for body in self.bodies)

    def covariance(self, rate: float) -> FloatArray | None:
        # as for a box: a level of weight q^l N(l), and then every factor on its own
        reach = _tail(self.rank, rate)
        if reach > _MOST_SUMMED // self.dim:
            return None
        parts = [body.uniform(reach) for body in self.bodies]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        counts = np.sum([part.log_count for part in known], axis=0)
        weight = _level_weights(counts, rate)
        out, start = np.zeros((self.dim, self.dim)), 0
        for part in known:
            variance = weight @ part.variance
            stop, size = start + len(variance), np.sqrt(variance)
            block = part.shared * np.outer(size, size)
            out[start:stop, start:stop] = block + np.diag((1 - part.shared) * variance)
            start = stop
        return out

    def _level(self, z: WideIntegers) -> WideIntegers:
        cuts = np.cumsum([body.dim for body in self.bodies])[:-1]
        blocks = np.split(z, cuts, axis=1)
        parts = [body.level(block) for body, block in zip(self.bodies, blocks, strict=True)]
        return _largest(np.column_stack(parts))

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        rows = np.arange(len(levels))
        blocks: list[WideIntegers] = []
        for body in self.bodies:
            block, kept = body.propose(levels[rows], offset, rng)
            rows, blocks = rows[kept], [done[kept] for done in blocks] + [block]
            offset += body.rank
        return np.hstack(blocks), rows

    def cells(self, level: int) -> int:
        return math.prod(body.cells(level) for body in self.bodies)

    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        rows = np.arange(len(levels))
        blocks: list[WideIntegers] = []
        for body in self.bodies:
            block, kept = body.scatter(levels[rows], rng)
            rows, blocks = rows[kept], [done[kept] for done in blocks] + [block]
        return np.hstack(blocks), rows


def _tail(rank: int, rate: float) -> int:
    """A level beyond which next to nothing lies, by the tail of a Gamma law."""
    powers = rank + 3
    return math.ceil((powers + 10 * math.sqrt(powers) + 60) / rate)


def _level_weights(log_count: FloatArray, rate: float) -> FloatArray:
    """Probabilities of the levels l, in proportion to exp(-rate l) N(l)."""
    logs = log_count - rate * np.arange(len(log_count))
    weight = np.exp(logs - logs.max())
    return np.asarray(weight / weight.sum())


def series(first: FloatArray, *, plus: int = 0, over: int) -> FloatArray:
    """Coefficients of ``first(x) (1 + x)^plus (1 - x)^-over``; all terms are positive."""
    out = first.copy()
    with np.errstate(over="ignore"):
        for _ in range(plus):
            out[1:] += out[:-1].copy()
        for _ in range(over):
            out = np.cumsum(out)
    return out


def uniform_of(
    points: FloatArray, squares: FloatArray, dim: int, shared: float = 0.0
) -> Uniform | None:
    """From the numbers of points up to each level and their sums of squares of an entry."""
    if not (np.isfinite(points).all() and np.isfinite(squares).all()):
        return None
    each = np.repeat((squares / points)[:, None], dim, axis=1)
    return Uniform(np.log(points), each, shared)


def geometric_variance(rate: float) -> float:
    """Variance 2 q / (1 - q)^2 of integers with weights q^|z|, q = exp(-rate)."""
    return 2 * math.exp(-rate) / math.expm1(-rate) ** 2


def picks(levels: WideIntegers, weights: Any, rng: RandomSource) -> NDArray[np.int64]:
    """For every row an index, by the integer weights that belong to its level."""
    out = np.zeros(len(levels), dtype=np.int64)
    for level in set(levels.tolist()):
        rows = np.flatnonzero(levels == level)
        edges = list(accumulate(weights(int(level))))
        if edges[-1] < 1 << 62:
            u = rng.integers(edges[-1], rows.size)
            out[rows] = np.searchsorted(np.array(edges, dtype=np.int64), u, side="right")
        else:
            out[rows] = [bisect_right(edges, rng.below(edges[-1])) for _ in rows]
    return out


def ceil_sqrt(square: WideIntegers) -> WideIntegers:
    """The least integer r with r^2 >= square, exactly."""
    if square.dtype == object:
        return np.array([math.isqrt(int(s) - 1) + 1 if s > 0 else 0 for s in square], dtype=object)
    # The float root is off by less than one below 2^62, so two integer comparisons settle it.
    root = np.sqrt(square.astype(np.float64)).astype(np.int64)
    root += root * root < square
    root -= (root > 0) & ((root - 1) * (root - 1) >= square)
    return root


def _largest(columns: WideIntegers) -> WideIntegers:
    return np.asarray(columns.max(axis=1))


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


def _log(x: float) -> float:
    return math.log(x) if x > 0 else -math.inf
