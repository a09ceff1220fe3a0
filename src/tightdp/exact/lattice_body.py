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
from collections import Counter
from collections.abc import Callable, Sequence
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
from tightdp.exact.rejection import LEAST_SHARE, by_weight
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.randomness import RandomSource, SeededSource

Rows = NDArray[np.intp]
_PILOT, _PILOT_LEVEL = 50_000, 1 << 20
_PILOT_ENTRIES = 1 << 21  # of a batch: it takes some ten arrays of that size
MOST_SUMMED = 1 << 20  # entries of a sum over levels
_LONGEST = 1 << 60  # half-widths and their denominators: twice as much is still a 64-bit integer
WORD = 1 << 62


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
    key: tuple[Any, ...]
    """What tells the body from others of its class."""
    safe_level: int = 1 << 29
    safe_entry: int = 1 << 29

    @property
    def rank(self) -> int:
        """Dimension of the lattice the noise lives on: ``dim`` unless the body is flat."""
        return self.dim

    @property
    def blocks(self) -> tuple[LatticeBody, ...]:
        """Bodies of which this is the product: itself, unless it was made of several."""
        return (self,)

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
        # z is uniform in l B for a level l of weight q^l N(l), N(l) the number of its points, as in
        # the sampler; and given the level every block is on its own
        reach = tail(self.rank, rate)
        if reach > MOST_SUMMED // self.dim:
            return None
        parts = [body.uniform(reach) for body in self.blocks]
        known = [part for part in parts if part is not None]
        if len(known) < len(parts):
            return None
        logs = np.sum([part.log_count for part in known], axis=0) - rate * np.arange(reach + 1)
        weight = np.exp(logs - logs.max())
        weight /= weight.sum()
        out, start = np.zeros((self.dim, self.dim)), 0
        for part in known:
            variance = weight @ part.variance
            places, size = np.arange(start, start + len(variance)), np.sqrt(variance)
            if part.shared:
                out[np.ix_(places, places)] = part.shared * np.outer(size, size)
            out[places, places] = variance
            start += len(variance)
        return out

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
        return type(self) is type(other) and self.key == getattr(other, "key", None)

    def __hash__(self) -> int:
        return hash((type(self), *self.key))

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
    levels, rng = np.full(_PILOT, _PILOT_LEVEL, dtype=kind), SeededSource(MEASURING_SEED)
    batch = max(1, _PILOT_ENTRIES // body.dim)
    parts = [levels[start : start + batch] for start in range(0, _PILOT, batch)]
    return sum(len(body.propose(part, 0, rng)[1]) for part in parts) / _PILOT


class TestedBody(LatticeBody):
    """A body inside a box with rational half-widths, tested point by point."""

    __test__ = False  # not a test class, whatever its name suggests to a test runner

    def __init__(self, half_widths: Sequence[int], den: int = 1) -> None:
        sides = [check_count("half_widths", h, least=0, most=_LONGEST) for h in half_widths]
        self.half, self.den = np.array(sides), check_count("den", den, most=_LONGEST)
        self.dim = check_count("number of half_widths", len(sides))
        self.key = (*sides, self.den)
        self.safe_level = (1 << 61) // (2 * max(*sides, self.den) + 2)

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
        steps = roomy(steps, WORD // int(self._widths.max()))
        half = levels[:, None] * self.half // self.den
        u = rng.integers_below(steps * self._widths)
        rows = np.flatnonzero((u <= 2 * half).all(axis=1))
        z = u[rows] - half[rows]
        keep = self.inside(z, levels[rows])
        return z[keep], rows[keep]


class BoxBody(TestedBody):
    """The box |z_i| <= a_i l with rational a_i = half_i / den: noise of the linf norm."""

    def __init__(self, half_widths: Sequence[int], den: int = 1) -> None:
        super().__init__(half_widths, den)
        if int(self.half.min()) < 1:
            fail("`half_widths` must be integers >= 1: a box must not be flat.")
        self.safe_entry = (1 << 62) // self.den

    @property
    def share(self) -> float:
        sides = 2 * self.half / self.den
        return float(np.prod(sides / np.maximum(1, np.ceil(sides))))

    def _level(self, z: WideIntegers) -> WideIntegers:
        return largest(-(-np.abs(z) * self.den // self.half))

    def uniform(self, reach: int) -> Uniform:
        # |z_i| <= h_i = floor(a_i l); uniform on -h..h has the variance h (h + 1) / 3
        level = roomy(np.arange(reach + 1), WORD // int(self.half.max()))[:, None]
        half = (level * self.half // self.den).astype(np.float64)
        return Uniform(np.log1p(2 * half).sum(axis=1), half * (half + 1) / 3)

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        return np.ones(len(z), dtype=bool)


class ProductBody(LatticeBody):
    """A product of bodies: the level of a point is the largest level of its blocks."""

    def __init__(self, bodies: Sequence[LatticeBody]) -> None:
        self.bodies = self.key = tuple(bodies)
        self.dim = check_count("dim", sum(body.dim for body in self.bodies))
        self.safe_level = min(body.safe_level for body in self.bodies)
        self.safe_entry = 1 << 62  # every body looks after its own block

    @property
    def blocks(self) -> tuple[LatticeBody, ...]:
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

    def _level(self, z: WideIntegers) -> WideIntegers:
        cuts = np.cumsum([body.dim for body in self.bodies])[:-1]
        blocks = np.split(z, cuts, axis=1)
        parts = [body.level(block) for body, block in zip(self.bodies, blocks, strict=True)]
        return largest(np.column_stack(parts))

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        before = accumulate((body.rank for body in self.bodies), initial=offset)
        return self._in_turn(levels, lambda body, part: body.propose(part, next(before), rng))

    def cells(self, level: int) -> int:
        return math.prod(body.cells(level) for body in self.bodies)

    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        return self._in_turn(levels, lambda body, part: body.scatter(part, rng))

    def _in_turn(
        self,
        levels: WideIntegers,
        draw: Callable[[LatticeBody, WideIntegers], tuple[WideIntegers, Rows]],
    ) -> tuple[WideIntegers, Rows]:
        """Points of one body after the other, for the rows that are left."""
        rows = np.arange(len(levels))
        blocks: list[WideIntegers] = []
        for body in self.bodies:
            block, kept = draw(body, levels[rows])
            rows, blocks = rows[kept], [done[kept] for done in blocks] + [block]
        return np.hstack(blocks), rows


def tail(rank: int, rate: float) -> int:
    """A level beyond which next to nothing lies, by the tail of a Gamma law."""
    powers = rank + 3
    return math.ceil((powers + 10 * math.sqrt(powers) + 60) / rate)


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


def picks(
    levels: WideIntegers, weights: Callable[[int], Sequence[int]], rng: RandomSource
) -> NDArray[np.int64]:
    """For every row an index, by the integer weights that belong to its level."""
    out = np.zeros(len(levels), dtype=np.int64)
    for level in set(levels.tolist()):
        rows = np.flatnonzero(levels == level)
        out[rows] = by_weight(weights(int(level)), rows.size, rng)
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


def largest(columns: WideIntegers) -> WideIntegers:
    return np.asarray(columns.max(axis=1))


def box_points(low: ArrayLike, high: ArrayLike, rng: RandomSource) -> WideIntegers:
    """Independent uniform integers with low <= z <= high, entry by entry (arrays broadcast).

    >>> from tightdp.randomness import source
    >>> levels = np.array([1, 10, 100])
    >>> box_points(-levels[:, None] * [1, 2], levels[:, None] * [1, 2], source(1)).shape
    (3, 2)
    """
    a, b = np.broadcast_arrays(*roomy_all(low, high))
    return a + rng.integers_below(b - a + 1)


def roomy_all(*arrays: ArrayLike) -> list[WideIntegers]:
    """Integer arrays as int64 where sums cannot overflow, else all as Python integers."""
    given = [np.asarray(array) for array in arrays]
    if any(a.size and a.dtype.kind not in "iuO" for a in given):
        fail("Sizes of lattice boxes and simplices must be integers.")
    wide = any(a.size and (a.max() >= WORD // 2 or a.min() <= -WORD // 2) for a in given)
    return [a.astype(object if wide else np.int64) for a in given]


def roomy(z: WideIntegers, limit: int) -> WideIntegers:
    """Integers as int64, or all as Python integers when one of them reaches ``limit``."""
    if z.dtype == object or z.size == 0:
        return z
    far = max(-int(z.min()), int(z.max()))
    return z.astype(object if far >= limit else np.int64)
