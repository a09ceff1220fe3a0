"""The image of one row: what a single record can contribute to an additive statistic.

For ``T(X) = sum_i phi(row_i)`` all that matters is the set ``P = conv phi(domain)``. Replacing one
row moves T by an element of ``phi - phi``, whose hull is ``P - P``; adding or removing a row moves
it by ``+-phi``, whose hull is ``conv(P u -P)``. Each class here describes one kind of P and knows
both bodies, exactly where structure allows and as a labelled outer body otherwise. Nothing here
ever samples differences and takes their hull: that would be an inner body and would not be private.
"""

from __future__ import annotations

import itertools
import math
from abc import ABC, abstractmethod
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.errors import DegenerateBodyError, FloatArray, check_choice, fail
from tightdp.geometry.combine import Product
from tightdp.geometry.counting_balls import HistogramBall
from tightdp.geometry.moment_bodies import KINDS, MomentBody, MomentLayout, regression_moments
from tightdp.geometry.moment_hulls import K2, farthest_on_arcs
from tightdp.geometry.moment_true_hull import MomentHull
from tightdp.geometry.norm_balls import LpBall, NormBall, lp_norm
from tightdp.geometry.polytopes import QHULL_DIM, Polytope
from tightdp.geometry.units import column_scales
from tightdp.geometry.zonotopes import Zonotope
from tightdp.randomness import RandomSource

_MOST_POINTS = 400  # pairwise differences of more points are too many for a hull
_MOST_PROGRAMS = 100  # so many points are told from vertices by linear programs, in seconds
_DEPENDENT = 1e-13  # singular values below this share of the largest come from rounding
_STILL_EXACT = 1e-9  # a hull enlarged by no more than this to cover rounding is called exact


@dataclass(frozen=True, slots=True, eq=False)
class Hull:
    """A norm ball around a sensitivity space and whether it is the hull or an outer body."""

    ball: NormBall
    exact: bool
    reason: str


class RowImage(ABC):
    """``phi(domain)`` for one row."""

    names: tuple[str, ...]

    @property
    def dim(self) -> int:
        """Number of entries of the statistic."""
        return len(self.names)

    @property
    def symmetric(self) -> bool:
        """Whether ``P = -P``; then the two neighbour relations differ by a factor 2 only."""
        return False

    @abstractmethod
    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        """The image and the row (a public one) at which ``c . phi`` is large; largest if it can."""

    @abstractmethod
    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        """Images of random rows, for plots and searches only."""

    @abstractmethod
    def replace_hull(self) -> Hull:
        """A body around ``P - P``."""

    @abstractmethod
    def add_hull(self) -> Hull:
        """A body around ``conv(P u -P)``."""

    def corners(self) -> FloatArray | None:
        """Finitely many points whose hull is P, if there are few enough to enumerate."""
        return None

    def lp_sensitivity(self, p: float) -> tuple[float, bool] | None:
        """Proved replace-one sensitivity in the l_p norm, and whether it is exact; or None."""
        return None

    def lp_norm_of_row(self, p: float) -> tuple[float, bool] | None:
        """The same under add-remove: the largest l_p norm of what one row adds."""
        return None


class BoxImage(RowImage):
    """Sums of numeric columns: ``phi`` is the identity on a box."""

    def __init__(self, low: FloatArray, high: FloatArray, names: Sequence[str]) -> None:
        self.low, self.high, self.names = low, high, tuple(names)

    @property
    def symmetric(self) -> bool:
        return bool(np.array_equal(self.low, -self.high))

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        row = np.where(c >= 0, self.high, self.low)
        return row, dict(zip(self.names, row.tolist(), strict=True))

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return self.low + (self.high - self.low) * rng.uniform((size, self.dim))

    def corners(self) -> FloatArray | None:
        if self.dim > QHULL_DIM:
            return None
        return np.array(list(itertools.product(*zip(self.low, self.high, strict=True))))

    def replace_hull(self) -> Hull:
        return Hull(LpBall(self.dim, np.inf, self.high - self.low), True, "differences of a box")

    def add_hull(self) -> Hull:
        if self.symmetric:
            return Hull(LpBall(self.dim, np.inf, self.high), True, "a symmetric box")
        # conv(Q u -Q) of a box Q with centre m and half-widths h is the box h plus the segment +-m
        centre, half = (self.low + self.high) / 2, (self.high - self.low) / 2
        return Hull(Zonotope(np.vstack([np.diag(half), centre])), True, "a box and its mirror")

    def lp_sensitivity(self, p: float) -> tuple[float, bool]:
        return float(lp_norm((self.high - self.low)[None, :], p)[0]), True

    def lp_norm_of_row(self, p: float) -> tuple[float, bool]:
        farthest = np.maximum(np.abs(self.low), np.abs(self.high))
        return float(lp_norm(farthest[None, :], p)[0]), True


class OneHotImage(RowImage):
    """Counts of the levels of one category: exactly one indicator is 1."""

    def __init__(self, name: str, levels: Sequence[Any]) -> None:
        self.name, self.levels = name, tuple(levels)
        self.names = tuple(f"{name}[{level}]" for level in levels)

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        level = int(c.argmax())
        return np.eye(self.dim)[level], {self.name: self.levels[level]}

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return np.eye(self.dim)[rng.integers(self.dim, size)]

    def corners(self) -> FloatArray | None:
        return np.eye(self.dim)

    def replace_hull(self) -> Hull:
        return Hull(HistogramBall(self.dim), True, "indicators of one category exclude each other")

    def add_hull(self) -> Hull:
        return Hull(LpBall(self.dim, 1), True, "one indicator appears or disappears")

    def lp_sensitivity(self, p: float) -> tuple[float, bool] | None:
        return 2 ** (1 / p), True  # one indicator goes, another comes

    def lp_norm_of_row(self, p: float) -> tuple[float, bool] | None:
        return 1.0, True


class FiniteImage(RowImage):
    """Finitely many images whose hull is P: a finite domain, or the vertices of a multi-affine map.

    A multi-affine ``phi`` maps a box into the hull of the images of its vertices (it is affine in
    each coordinate, so a maximum of ``c . phi`` can be moved to a vertex one coordinate at a time).
    """

    def __init__(self, points: FloatArray, rows: Sequence[Any], names: Sequence[str]) -> None:
        # differences must not overflow either
        if not (np.abs(points) < np.finfo(np.float64).max / 2).all():
            fail("The statistic overflows on this domain: state bounds of moderate size.")
        self.points, keep = np.unique(points, axis=0, return_index=True)
        self.rows, self.names = [rows[i] for i in keep], tuple(names)

    @property
    def symmetric(self) -> bool:
        known = {row.tobytes() for row in self.points + 0.0}
        return all(row.tobytes() in known for row in 0.0 - self.points)

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        i = int((self.points @ c).argmax())
        return self.points[i], self.rows[i]

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return self.points[rng.integers(len(self.points), size)]

    def corners(self) -> FloatArray | None:
        return self.points

    def replace_hull(self) -> Hull:
        if self._one_hot():
            return OneHotImage("cell", range(self.dim)).replace_hull()
        if len(self.points) > _MOST_POINTS:
            fail(
                f"The row image has {len(self.points)} vertices, too many for the hull of their "
                "differences. Split the statistic, or drop interactions."
            )
        i, j = np.triu_indices(len(self.points), 1)
        halves = self.points[i] - self.points[j]
        return _hull_in_span(halves, "differences of vertices")

    def add_hull(self) -> Hull:
        if self._one_hot():
            return OneHotImage("cell", range(self.dim)).add_hull()
        return _hull_in_span(self.points, "vertices +-phi")

    def _one_hot(self) -> bool:
        """Whether the points are the unit vectors: a joint table of categories is a histogram."""
        ones = self.points == 1.0
        return bool(
            self.points.shape == (self.dim, self.dim) != (1, 1)
            and ((self.points == 0.0) | ones).all()
            and (ones.sum(axis=0) == 1).all()
            and (ones.sum(axis=1) == 1).all()
        )


class ProductImage(RowImage):
    """Blocks of entries that depend on disjoint sets of columns: ``P`` is a product."""

    def __init__(self, blocks: Sequence[RowImage]) -> None:
        self.blocks = tuple(blocks)
        self.names = tuple(itertools.chain.from_iterable(block.names for block in blocks))
        self._cuts = np.cumsum([block.dim for block in blocks])[:-1]

    @property
    def symmetric(self) -> bool:
        return all(block.symmetric for block in self.blocks)

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        found = [b.best(part) for b, part in zip(self.blocks, np.split(c, self._cuts), strict=True)]
        row: dict[str, Any] = {}
        for _, part in found:
            row |= part
        return np.concatenate([image for image, _ in found]), row

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return np.hstack([block.sample(size, rng) for block in self.blocks])

    def replace_hull(self) -> Hull:
        # conv(A x B - A x B) = (conv A - conv A) x (conv B - conv B)
        hulls = [block.replace_hull() for block in self.blocks]
        return Hull(
            Product([hull.ball for hull in hulls]),
            all(hull.exact for hull in hulls),
            "independent blocks multiply",
        )

    def corners(self) -> FloatArray | None:
        parts = [block.corners() for block in self.blocks]
        found = [part for part in parts if part is not None]
        if len(found) < len(parts) or math.prod(map(len, found)) > _MOST_POINTS:
            return None
        return np.array([np.concatenate(choice) for choice in itertools.product(*found)])

    def add_hull(self) -> Hull:
        hulls = [block.add_hull() for block in self.blocks]
        product = Product([hull.ball for hull in hulls])
        if sum(not block.symmetric for block in self.blocks) <= 1:
            # all blocks but one are symmetric: +-(A x B) = A x (+-B), so the hull is a product
            exact = all(hull.exact for hull in hulls)
            return Hull(product, exact, "independent blocks, all but one symmetric")
        points = self.corners() if self.dim <= QHULL_DIM else None
        if points is not None:
            return _hull_in_span(points, "vertices +-phi")
        return Hull(product, False, "outer: product of the blocks' hulls")


class SquareImage(RowImage):
    """``(x, 2 x^2)`` of one column in [-1, 1] (Example 2.10 of Awan and Slavković, 2021)."""

    _unit: FloatArray = np.eye(2)  # from differences of (z, 2 z^2), z in [-1, 1], to those of phi

    def __init__(self, name: str = "x") -> None:
        self.name = name
        self.names = (name, f"2*{name}^2")

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        stationary = -c[0] / (4 * c[1]) if c[1] else 0.0
        x = np.array([-1.0, 1.0, np.clip(stationary, -1.0, 1.0)])
        images = np.column_stack([x, 2 * x**2])
        i = int((images @ c).argmax())
        return images[i], {self.name: float(x[i])}

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        x = 2 * rng.uniform(size) - 1
        return np.column_stack([x, 2 * x**2])

    def replace_hull(self) -> Hull:
        return Hull(K2(), True, "closed form K2")

    def add_hull(self) -> Hull:
        # (+-1, +-2) are all attained and |x| <= 1, |2x^2| <= 2: the box is the hull.
        return Hull(LpBall(2, np.inf, [1.0, 2.0]), True, "the box of all four extreme points")

    def lp_sensitivity(self, p: float) -> tuple[float, bool]:
        """The largest norm on the two arcs of K2, bounded and met to rounding."""
        bound, _ = farthest_on_arcs(lambda u: lp_norm(u @ self._unit.T, p))
        return bound, True


class ParabolaImage(SquareImage):
    """``(x, x^2)`` of one column in [low, high], as it is.

    Example 3.5 of the preprint of Awan and Slavković (2018) has a column between 0 and 1.

    With ``x = m + h z`` a difference is ``h dz`` and ``2 m h dz + h^2/2 d(2 z^2)``: the hull is a
    linear image of K2.
    """

    def __init__(self, low: float, high: float, name: str = "x") -> None:
        self.name, self.low, self.high = name, low, high
        self.names = (name, f"{name}^2")
        middle, half = (low + high) / 2, (high - low) / 2
        self._unit = np.array([[half, 0.0], [2 * middle * half, half**2 / 2]])

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        stationary = -c[0] / (2 * c[1]) if c[1] else self.low
        x = np.array([self.low, self.high, np.clip(stationary, self.low, self.high)])
        images = np.column_stack([x, x**2])
        i = int((images @ c).argmax())
        return images[i], {self.name: float(x[i])}

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        x = self.low + (self.high - self.low) * rng.uniform(size)
        return np.column_stack([x, x**2])

    def replace_hull(self) -> Hull:
        return Hull(K2().image(self._unit), True, "a linear image of K2")

    def add_hull(self) -> Hull:
        most = max(abs(self.low), abs(self.high))
        box = LpBall(2, np.inf, [most, most**2])
        if self.low == -self.high:
            return Hull(box, True, "the box of all four extreme points")
        return Hull(box, False, "outer: the box of extreme values")

    def lp_norm_of_row(self, p: float) -> tuple[float, bool]:
        most = max(abs(self.low), abs(self.high))
        return float(lp_norm(np.array([[most, most**2]]), p)[0]), True


class MomentImage(RowImage):
    """First and second moments of p features and a target in [-1, 1]: linear regression."""

    def __init__(self, features: int, kind: str | None = None) -> None:
        self.features = features
        kind = kind or ("triangle" if features <= 12 else "cylinder")
        check_choice("kind", kind, [*KINDS, "hull"])
        self.body = MomentHull(features) if kind == "hull" else MomentBody(features, kind)
        self.names = tuple(self.body.names)

    def images(self, rows: FloatArray) -> FloatArray:
        """phi of each row (x_1, ..., x_p, y)."""
        return regression_moments(rows[:, :-1], rows[:, -1])

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        """Coordinate ascent from the corners: each step maximises a parabola on [-1, 1]."""
        layout = MomentLayout(self.features)
        products = np.where(layout.pair >= 0, c[layout.pair], 0.0)
        bends = np.append(2.0 * c[layout.square], 0.0)  # the target has no square
        rows = _corners(self.features + 1)
        value = self.images(rows) @ c
        for _ in range(10):
            for j, bend in enumerate(bends):
                slope = products[0, j + 1] + rows @ products[1:, j + 1]
                if bend < 0:
                    rows[:, j] = np.clip(-slope / (2 * bend), -1.0, 1.0)
                else:
                    rows[:, j] = np.where(slope >= 0, 1.0, -1.0)
            before, value = value, self.images(rows) @ c
            if (value <= before + 1e-12 * np.abs(before)).all():
                break
        images = self.images(rows)
        i = int((images @ c).argmax())
        names = [f"x{j + 1}" for j in range(self.features)] + ["y"]
        return images[i], dict(zip(names, rows[i].tolist(), strict=True))

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return self.images(2 * rng.uniform((size, self.features + 1)) - 1)

    def replace_hull(self) -> Hull:
        if isinstance(self.body, MomentBody):
            return Hull(self.body, False, f"outer: {self.body.kind} body")
        return Hull(self.body, True, "the hull, by linear programs")

    def add_hull(self) -> Hull:
        squares = [2.0 if name.startswith("2*") else 1.0 for name in self.names]
        return Hull(LpBall(self.dim, np.inf, squares), False, "outer: the box of extreme values")

    def lp_sensitivity(self, p: float) -> tuple[float, bool]:
        r"""Exact for p = 1, 2, inf; otherwise interpolated between them (an upper bound).

        With d = |x - x'| and |x + x'| <= 2 - d, every entry of a difference is at most the same
        entry of phi(1, ..., 1) - phi(a), a = 1 - d in [-1, 1]; so the largest norm is found there.
        Entries: 1 - a_i a_k for the pairs of nodes (a_0 = 1), and 2(1 - a_j^2) for the squares.

        l1: (p^2 + 7p + 4) / 2. l2: with N = p + 2 nodes, L = sum a, B = sum_x a^2, C = sum_x a^4,
        the square is binom(N,2) + 3 + 4p + B^2/2 - 5B + 7C/2 - L^2, and C <= B gives at most
        binom(N,2) + 3 + 4p + (B^2 - 3B)/2, convex in B. B = 0 is attained (a_y = -1); B = p gives
        N^2, attained with L = 0 for even N. For odd N >= 7 put tau = p - B: |L| >= 1 - tau for
        tau <= 1, so the square is at most N^2 - 1 - tau(p - 7/2) - tau^2/2 <= N^2 - 1; for
        tau > 1 the loss tau(p - 3/2) - tau^2/2 alone is at least 1. N^2 - 1 is attained.
        """
        f = self.features
        nodes = f + 2
        one, top = (f * f + 7 * f + 4) / 2, 2.0
        flat = nodes * (nodes - 1) / 2 + 3 + 4 * f
        two = np.sqrt(max(flat, nodes**2 - nodes % 2 if f >= 4 else 0))
        if p in (1, 2, np.inf):
            return float(one if p == 1 else two if p == 2 else top), True
        if p > 2:  # ||u||_p^p <= ||u||_2^2 ||u||_inf^(p-2)
            return float(two ** (2 / p) * top ** (1 - 2 / p)), False
        t = 2 / p - 1  # 1/p = t/1 + (1-t)/2: log-convexity of the l_p norms
        return float(one**t * two ** (1 - t)), False


def _corners(q: int, bits: int = 6) -> FloatArray:
    """Corners of [-1, 1]^q: all of them for up to 6 coordinates, else 64 with repeating signs."""
    used = min(q, bits)
    codes = np.arange(1 << used)[:, None] >> (np.arange(q) % used) & 1
    signs: FloatArray = 1.0 - 2.0 * codes.astype(np.float64)
    return signs


def _hull_in_span(points: FloatArray, reason: str) -> Hull:
    """Hull of the points and their mirror images, within the subspace they span."""
    if not points.any():
        fail(
            "The sensitivity space is a single point: the statistic does not depend on any row "
            "and needs no noise. Drop its entries.",
            DegenerateBodyError,
        )
    unit = column_scales(points)
    # the triangle has the same values and directions, and is quick to find for many points
    _, values, right = np.linalg.svd(np.linalg.qr(points / unit, mode="r"), full_matrices=False)
    # Below _DEPENDENT is rounding: the entries are linearly dependent. A direction between that and
    # FLAT may be thin or rounding; the hull below refuses it. Flattening it would be fatal.
    rank = int(np.sum(values > _DEPENDENT * values[0]))
    if rank == points.shape[1]:
        hull = Polytope.hull_of_pairs(points, most=_MOST_PROGRAMS)
        return _rounded_outward(hull, hull, reason)
    basis = right[:rank].T * np.abs(points).max(axis=0, keepdims=True).astype(bool).T
    hull = Polytope.hull_of_pairs(points / unit @ basis, most=_MOST_PROGRAMS)
    return _rounded_outward(hull, hull.image(unit[:, None] * basis), reason)


def _rounded_outward(hull: Polytope, ball: NormBall, reason: str) -> Hull:
    if hull.outward <= _STILL_EXACT:
        return Hull(ball, True, reason)
    return Hull(ball, False, f"outer: {reason}, enlarged by {hull.outward:.1g} to cover rounding")
