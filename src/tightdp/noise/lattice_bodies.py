r"""Norm balls on the integer lattice: exact levels and exact proposals, integers only.

A body B answers two questions without a float. ``level(z)`` is the least integer l >= 0 with z in
l B, that is the gauge rounded up. ``propose(levels, offset, rng)`` draws for every row one
candidate point and returns those that lie in l B, such that **every lattice point z of l B comes
out with the same probability**

.. math:: P(z) = \frac{c}{(l + o + 1)(l + o + 2) \cdots (l + o + r)},

where r is the ``rank``, o the ``offset`` and c a constant of the body, free of l. These are the
only facts the sampler of :mod:`~tightdp.noise.lattice` needs. Products follow by giving every
factor the offset that the ranks before it leave.

Integers are 64-bit while levels stay below ``safe_level``; beyond, the same code runs on arrays of
Python integers.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import InfeasibleSamplingError, check_count, fail
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.noise.lattice_points import Integers, simplex_points
from tightdp.randomness import RandomSource, SeededSource

Rows = NDArray[np.intp]
LEAST_SHARE = 2e-5
_PILOT, _PILOT_LEVEL = 50_000, 1 << 20


class LatticeBody(ABC):
    """A symmetric convex body with an exact integer membership test."""

    dim: int
    safe_level: int = 1 << 29

    @property
    def rank(self) -> int:
        """Dimension of the lattice the noise lives on: ``dim`` unless the body is flat."""
        return self.dim

    @abstractmethod
    def level(self, z: Integers) -> Integers:
        """The least l >= 0 with z in l B, for each row."""

    @abstractmethod
    def propose(self, levels: Integers, offset: int, rng: RandomSource) -> tuple[Integers, Rows]:
        """Points of l B for some of the rows, and which rows (see the module)."""

    @cached_property
    def share(self) -> float:
        """Share of proposals that are kept, at a high level; measured once with a fixed seed."""
        levels = np.full(_PILOT, _PILOT_LEVEL)
        return len(self.propose(levels, 0, SeededSource(MEASURING_SEED))[1]) / _PILOT

    def check_feasible(self) -> None:
        """Refuse before sampling what would practically never end."""
        if self.share < LEAST_SHARE:
            fail(
                f"Exact lattice noise for {self!r} would accept fewer than one proposal in "
                f"{round(1 / LEAST_SHARE):,}. Use a larger body with its own sampler (the "
                "'linf' or 'l1' ball, or kind='cylinder'), or split the statistic.",
                InfeasibleSamplingError,
            )

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"


class TestedBody(LatticeBody):
    """A body inside a box with rational half-widths, tested point by point."""

    __test__ = False  # not a test class, whatever its name suggests to a test runner

    def __init__(self, half_widths: Sequence[int], den: int = 1) -> None:
        self.half, self.den = np.array([int(h) for h in half_widths]), check_count("den", den)
        self.dim = len(self.half)

    @abstractmethod
    def inside(self, z: Integers, levels: Integers) -> NDArray[np.bool_]:
        """Whether z lies in l B, for rows z that lie in the box."""

    def propose(self, levels: Integers, offset: int, rng: RandomSource) -> tuple[Integers, Rows]:
        # u_i uniform below w_i (l + o + i) with w_i = ceil(2 a_i) >= 1 covers the 2 h_i + 1
        # integers of the box side, h_i = floor(a_i l), because w_i (l + 1) >= 2 a_i l + 1.
        widths = np.maximum(1, -(-2 * self.half // self.den))
        steps = levels[:, None] + (offset + 1 + np.arange(self.dim))
        half = levels[:, None] * self.half // self.den
        u = rng.integers_below(steps * widths)
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

    def level(self, z: Integers) -> Integers:
        return _largest(-(-np.abs(z) * self.den // self.half))

    def inside(self, z: Integers, levels: Integers) -> NDArray[np.bool_]:
        return np.ones(len(z), dtype=bool)

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        return (1 << 61) // (2 * max(1, int(self.half.max())) + 2)


class DiamondBody(LatticeBody):
    """The l1 ball sum |z_i| <= l."""

    def __init__(self, dim: int) -> None:
        self.dim = check_count("dim", dim)

    @property
    def share(self) -> float:
        return 1.0

    def level(self, z: Integers) -> Integers:
        return np.abs(z).sum(axis=1)

    def propose(self, levels: Integers, offset: int, rng: RandomSource) -> tuple[Integers, Rows]:
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

    def level(self, z: Integers) -> Integers:
        return ceil_sqrt((z * z).sum(axis=1))

    def inside(self, z: Integers, levels: Integers) -> NDArray[np.bool_]:
        return np.asarray((z * z).sum(axis=1) <= levels * levels)


class SquareBody(TestedBody):
    """K2, the hull of the differences of (x, 2 x^2)."""

    def __init__(self) -> None:
        super().__init__([2, 2])

    @property
    def share(self) -> float:
        return 5 / 6  # area 40/3 of 16

    def level(self, z: Integers) -> Integers:
        a, b = np.abs(z).T
        # gauge |b|/2 if |b| >= 2|a|, else 2 a^2 / (4|a| - |b|)
        curved = b < 2 * a
        bottom = np.where(curved, 4 * a - b, 2)
        top = np.where(curved, 2 * a * a, b)
        return -(-top // bottom)

    def inside(self, z: Integers, levels: Integers) -> NDArray[np.bool_]:
        a, b = np.abs(z).T
        over = np.maximum(a - levels, 0)
        return np.asarray(levels * b <= 2 * levels * levels - 2 * over * over)


class SumBody(TestedBody):
    """The ball max |z_i| <= a l, sum |z_i| <= k l: the sum ball (a = 1), and K3 (a = 2, k = 4)."""

    def __init__(self, dim: int, bound: int, half: int = 1) -> None:
        super().__init__([half] * check_count("dim", dim))
        self.bound = check_count("bound", bound)

    def level(self, z: Integers) -> Integers:
        size = np.abs(z)
        return np.maximum(-(-_largest(size) // self.half[0]), -(-size.sum(axis=1) // self.bound))

    def inside(self, z: Integers, levels: Integers) -> NDArray[np.bool_]:
        return np.asarray(np.abs(z).sum(axis=1) <= self.bound * levels)


class CountBody(TestedBody):
    """The count ball conv(C u -C), C = {z >= 0, max z <= 1, sum z <= k}."""

    def __init__(self, dim: int, bound: int) -> None:
        super().__init__([1] * check_count("dim", dim))
        self.bound = check_count("bound", bound)

    def _length(self, z: Integers) -> Integers:
        """k times the gauge: that of the positive part plus that of the negative part."""
        up, down = np.maximum(z, 0), np.maximum(-z, 0)
        return sum(np.maximum(self.bound * _largest(part), part.sum(axis=1)) for part in (up, down))

    def level(self, z: Integers) -> Integers:
        return -(-self._length(z) // self.bound)

    def inside(self, z: Integers, levels: Integers) -> NDArray[np.bool_]:
        return np.asarray(self._length(z) <= self.bound * levels)


class PolytopeBody(TestedBody):
    """A polytope |a . z| <= b l with integer rows a and right sides b, inside a rational box."""

    def __init__(
        self, rows: Integers, right: Integers, half_widths: Sequence[int], den: int = 1
    ) -> None:
        super().__init__(half_widths, den)
        self.rows, self.right = np.asarray(rows, dtype=np.int64), np.asarray(right, dtype=np.int64)

    @property
    def safe_level(self) -> int:  # type: ignore[override]
        reach = int(np.abs(self.rows).sum(axis=1).max()) * int(self.half.max() // self.den + 1)
        return (1 << 61) // max(reach, int(self.right.max()))

    def level(self, z: Integers) -> Integers:
        return _largest(-(-np.abs(z @ self.rows.T) // self.right))

    def inside(self, z: Integers, levels: Integers) -> NDArray[np.bool_]:
        return np.asarray((np.abs(z @ self.rows.T) <= self.right * levels[:, None]).all(axis=1))


class HistogramBody(LatticeBody):
    r"""{sum z = 0, sum |z| <= 2 l}: differences of histograms with a public total.

    A non-zero point of level l is a set A of k cells that gain, positive integers of sum l on A and
    non-negative integers of sum l off A: :math:`\binom{l-1}{k-1}\binom{l+m-k-1}{m-k-1}` of them.
    """

    def __init__(self, cells: int) -> None:
        self.dim = check_count("cells", cells, least=2)

    @property
    def rank(self) -> int:
        return self.dim - 1

    @property
    def share(self) -> float:
        return 1.0

    @cached_property
    def _weights(self) -> list[int]:
        """binom(m, k) binom(m-2, k-1), k = 1..m-1: how often k cells gain, at high levels."""
        m = self.dim
        return [math.comb(m, k) * math.comb(m - 2, k - 1) for k in range(1, m)]

    def level(self, z: Integers) -> Integers:
        if bool((z.sum(axis=1) != 0).any()):
            fail("`z` must sum to 0 in every row: the total of a histogram is public.")
        return np.abs(z).sum(axis=1) // 2

    def propose(self, levels: Integers, offset: int, rng: RandomSource) -> tuple[Integers, Rows]:
        # The sum s of a uniform point of {v >= 0 in m-1 cells, sum <= l + o} takes each value with
        # binom(s+m-2, m-2) chances; k is drawn by its weight W_k. A point of size s and gainers k
        # is kept with probability binom(s-1,k-1) binom(s+m-k-1,m-k-1) / (binom(m-2,k-1)
        # binom(s+m-2,m-2)) <= 1, so its count cancels; zero (s = 0) with probability 1 / sum W.
        m = self.dim
        size = simplex_points(levels + offset, m - 1, rng, at_most=True).sum(axis=1)
        gainers = self._gainers(len(levels), rng)
        keep = (size <= levels) & (size >= gainers) & self._thinned(size, gainers, rng)
        zero = (size == 0) & self._rare(len(levels), rng)
        rows = np.flatnonzero(keep | zero)
        return self._points(size[rows], gainers[rows], rng), rows

    def _gainers(self, count: int, rng: RandomSource) -> NDArray[np.int64]:
        edges = np.cumsum(np.array(self._weights, dtype=object))
        if edges[-1] < 1 << 62:
            u = rng.integers(int(edges[-1]), count)
            return 1 + np.searchsorted(edges.astype(np.int64), u, side="right").astype(np.int64)
        picks = [rng.below(int(edges[-1])) for _ in range(count)]
        return np.array([1 + int(np.searchsorted(edges, u, side="right")) for u in picks])

    def _rare(self, count: int, rng: RandomSource) -> NDArray[np.bool_]:
        total = sum(self._weights)
        if total < 1 << 62:
            return np.asarray(rng.integers(total, count) == 0)
        return np.array([rng.below(total) == 0 for _ in range(count)])

    def _thinned(
        self, size: Integers, gainers: NDArray[np.int64], rng: RandomSource
    ) -> NDArray[np.bool_]:
        # The ratio is prod_{i=1..m-2} top_i / (s + i) with tops s-k+1..s-1, s+1..s+m-k-1 ascending;
        # each factor is at most 1 and is realised by one uniform integer below s + i.
        keep = size > 0
        for i in range(1, self.dim - 1):
            top = np.where(i < gainers, size - gainers + i, size - gainers + i + 1)
            keep &= rng.integers_below(size + i) < top
        return np.asarray(keep, dtype=bool)

    def _points(self, size: Integers, gainers: NDArray[np.int64], rng: RandomSource) -> Integers:
        z = np.zeros((len(size), self.dim), dtype=size.dtype)
        order = rng.permutations(len(size), self.dim)
        for k in range(1, self.dim):
            rows = np.flatnonzero((gainers == k) & (size > 0))
            if rows.size:
                up = 1 + simplex_points(size[rows] - k, k, rng)
                down = simplex_points(size[rows], self.dim - k, rng)
                z[rows[:, None], order[rows]] = np.hstack([up, -down])
        return z


class ProductBody(LatticeBody):
    """A product of bodies: the level of a point is the largest level of its blocks."""

    def __init__(self, bodies: Sequence[LatticeBody]) -> None:
        self.bodies = tuple(bodies)
        self.dim = sum(body.dim for body in self.bodies)
        self.safe_level = min(body.safe_level for body in self.bodies)

    @property
    def rank(self) -> int:
        return sum(body.rank for body in self.bodies)

    def level(self, z: Integers) -> Integers:
        cuts = np.cumsum([body.dim for body in self.bodies])[:-1]
        blocks = np.split(z, cuts, axis=1)
        parts = [body.level(block) for body, block in zip(self.bodies, blocks, strict=True)]
        return _largest(np.column_stack(parts))

    def propose(self, levels: Integers, offset: int, rng: RandomSource) -> tuple[Integers, Rows]:
        rows = np.arange(len(levels))
        blocks: list[Integers] = []
        for body in self.bodies:
            block, kept = body.propose(levels[rows], offset, rng)
            rows, blocks = rows[kept], [done[kept] for done in blocks] + [block]
            offset += body.rank
        return np.hstack(blocks), rows


def ceil_sqrt(square: Integers) -> Integers:
    """The least integer r with r^2 >= square, exactly."""
    if square.dtype == object:
        return np.array([math.isqrt(int(s) - 1) + 1 if s > 0 else 0 for s in square], dtype=object)
    # The float root is off by less than one below 2^62, so two integer comparisons settle it.
    root = np.sqrt(square.astype(np.float64)).astype(np.int64)
    root += root * root < square
    root -= (root > 0) & ((root - 1) * (root - 1) >= square)
    return root


def _largest(columns: Integers) -> Integers:
    return np.asarray(columns.max(axis=1))
