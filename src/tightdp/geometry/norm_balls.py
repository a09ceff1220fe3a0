"""Norm balls: convex, bounded, absorbing, symmetric sets, each the unit ball of a norm.

A ball answers the same questions whatever it is made of: how long a vector is in its norm
(:meth:`~NormBall.gauge`), how far it reaches in a direction (:meth:`~NormBall.support`), how large
it is (:meth:`~NormBall.volume`), and what a uniform point of it looks like
(:meth:`~NormBall.sample`). The radius is part of the set. A subclass writes only the hooks
``_gauge``, ``_normals``, ``_support_points``, ``_volume``, ``_second_moment`` and ``_sample``.

A ball may be flat on purpose: ``rank`` is the dimension of the subspace it spans. Only bodies that
say so (differences of histograms, images under tall matrices) have ``rank < dim``; any other flat
set is refused.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from dataclasses import dataclass
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import (
    MOST_DIM,
    DegenerateBodyError,
    DimensionError,
    FloatArray,
    check_array,
    check_count,
    check_instance,
    check_positive,
    check_real,
    fail,
    shown,
)
from tightdp.geometry.linear_programs import support_by_cuts
from tightdp.parameters import tells_arguments
from tightdp.randomness import RandomLike, RandomSource, SeededSource, source

# Public geometry may be measured by simulation with a fixed seed: no data are involved, and the
# same body must always report the same volume.
MEASURING_SEED = 20_26
_MOMENT_DRAWS = 200_000


@dataclass(frozen=True, slots=True)
class Volume:
    """Volume of a body, on the log scale; ``standard_error`` (of the log) is 0 when exact."""

    log_value: float
    standard_error: float = 0.0

    @property
    def exact(self) -> bool:
        """True for closed forms and triangulations, False for Monte Carlo estimates."""
        return self.standard_error == 0.0

    def __str__(self) -> str:
        value = f"{math.exp(self.log_value):.6g}" if self.log_value < 700 else "inf"
        if self.exact:
            return f"{value} (exact)"
        return f"{value} (estimate, relative standard error {self.standard_error:.2g})"


@dataclass(frozen=True, slots=True)
class SecondMoment:
    """``E[u u^T]`` of a uniform point, with entrywise standard errors that are 0 when exact."""

    value: FloatArray
    standard_error: FloatArray

    @property
    def exact(self) -> bool:
        """True when the value comes from a closed form or a triangulation."""
        return not self.standard_error.any()


class NormBall(ABC):
    """A norm ball in ``dim`` coordinates.

    All methods take one vector or an array of vectors along the last axis, and answer with a float
    or an array accordingly.
    """

    dim: int

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        tells_arguments(cls)

    @property
    def rank(self) -> int:
        """Dimension of the span: ``dim``, unless the ball is flat on purpose."""
        return self.dim

    @property
    def unconditional(self) -> bool:
        """Whether the ball stays the same when any coordinate changes its sign."""
        return False

    @property
    def gauge_slack(self) -> float:
        """How much :meth:`gauge` may fall short of the truth (relative): 0 for closed forms.

        Positive where it comes from an iteration or from ill-conditioned arithmetic. Every proof of
        containment adds it, so that the proof errs on the private side.
        """
        return 0.0

    @property
    def support_slack(self) -> float:
        """How much :meth:`support` may fall short of the truth, as :attr:`gauge_slack`."""
        return 0.0

    # --- the questions ----------------------------------------------------------------------

    def gauge(self, x: ArrayLike) -> Any:
        """The norm of ``x``: the least c >= 0 with x in c K (infinite off the span)."""
        return self._rowwise("x", x, self._gauge)

    def contains(self, x: ArrayLike, *, tolerance: float = 0.0) -> Any:
        """Whether the gauge of ``x`` is at most 1 (+ ``tolerance``)."""
        inside = np.asarray(self.gauge(x)) <= 1.0 + tolerance
        return bool(inside) if inside.ndim == 0 else inside

    def support(self, c: ArrayLike) -> Any:
        """The largest value of ``c . x`` over the ball: the dual norm of ``c``."""
        return self._rowwise("c", c, lambda rows: np.sum(rows * self._support_points(rows), axis=1))

    def support_point(self, c: ArrayLike) -> FloatArray:
        """A point of the ball at which ``c . x`` is largest."""
        rows, lead = self._rows("c", c)
        return self._support_points(rows).reshape(*lead, self.dim)

    def normal(self, x: ArrayLike) -> FloatArray:
        """A vector ``a`` of dual norm 1 with ``a . x = gauge(x)`` (a subgradient of the norm)."""
        rows, lead = self._rows("x", x)
        return self._normals(rows).reshape(*lead, self.dim)

    @cached_property
    def volume_info(self) -> Volume:
        """Volume with its standard error (in the span, if the ball is flat)."""
        return self._volume()

    def log_volume(self) -> float:
        """Logarithm of the volume; see :attr:`volume_info` for whether it is exact."""
        return self.volume_info.log_value

    def volume(self) -> float:
        """The volume; see :attr:`volume_info` for whether it is exact."""
        return float(np.exp(self.log_volume()))

    @cached_property
    def second_moment(self) -> SecondMoment:
        """``E[u u^T]`` of a uniform point of the ball."""
        return self._second_moment()

    def entry_moments(self) -> FloatArray:
        """``E[u_j^2]`` of every entry: the diagonal of :attr:`second_moment`."""
        return np.diag(self.second_moment.value)

    def bounding_box(self) -> FloatArray:
        """Half-widths ``b_j = max |x_j|`` of the smallest box around the ball."""
        return np.asarray(self.support(np.eye(self.dim))) * (1.0 + self.support_slack)

    def cube_gauge(self) -> float:
        """No vector with entries of at most 1 in size has a larger gauge: gauges are subadditive.

        >>> LpBall(3, 2).cube_gauge() == 3**0.5
        True
        """
        return float(np.sum(self.gauge(np.eye(self.dim))))

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> FloatArray:
        """Uniform points of the ball, drawn exactly (in real arithmetic).

        ``size=None`` gives one vector, an integer gives that many rows.
        """
        count = 1 if size is None else check_count("size", size, least=0)
        points = self._sample(count, source(rng))
        return points[0] if size is None else points

    # --- new balls from old ones ------------------------------------------------------------

    def scaled(self, factor: ArrayLike) -> NormBall:
        """The ball stretched by a positive factor, or by one factor per axis."""
        from tightdp.geometry.combine import Scaled

        return Scaled(self, factor)

    def image(self, matrix: ArrayLike) -> NormBall:
        """The image ``A K``; ``A`` is square and invertible, or tall with independent columns.

        A tall matrix gives a ball that is flat on purpose: it lives in the column space.
        """
        from tightdp.geometry.combine import LinearImage

        return LinearImage(self, matrix)

    def product(self, *others: NormBall) -> NormBall:
        """The Cartesian product with other balls."""
        from tightdp.geometry.combine import Product

        return Product([self, *others])

    def intersection(self, *others: NormBall) -> NormBall:
        """The intersection with other balls of the same dimension."""
        from tightdp.geometry.combine import Intersection

        return Intersection([self, *others])

    # --- known relations ----------------------------------------------------------------------

    def lies_inside(self, other: NormBall) -> bool:
        """Whether this ball is known, by construction, to lie inside ``other`` and to touch it."""
        return self is other

    # --- finite descriptions, where there is one --------------------------------------------

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        """One of each pair +-v of vertices, or None if there are none or more than ``most``."""
        return None

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        """Rows ``a`` with ``K = {x : |a . x| <= 1 for all a}``, or None (see ``vertices``)."""
        return None

    # --- hooks ------------------------------------------------------------------------------

    @abstractmethod
    def _gauge(self, x: FloatArray) -> FloatArray:
        """Gauge of each row."""

    @abstractmethod
    def _normals(self, x: FloatArray) -> FloatArray:
        """A subgradient of the gauge at each non-zero row."""

    def _support_points(self, c: FloatArray) -> FloatArray:
        """Maximisers of ``c . x``, by cutting planes unless a closed form is given."""
        return support_by_cuts(c, self._gauge, self._normals)

    @abstractmethod
    def _volume(self) -> Volume: ...

    @abstractmethod
    def _sample(self, size: int, rng: RandomSource) -> FloatArray: ...

    def _second_moment(self) -> SecondMoment:
        """Monte Carlo with a fixed seed, unless a closed form is given."""
        points, draws = self.measuring_points, self.measuring_draws
        value = points.T @ points / draws
        square = (points**2).T @ points**2 / draws
        return SecondMoment(value, np.sqrt(np.maximum(square - value**2, 0.0) / draws))

    @cached_property
    def measuring_points(self) -> FloatArray:
        """One seeded uniform sample, shared by all properties that have to be simulated."""
        return self._sample(self.measuring_draws, SeededSource(MEASURING_SEED))

    @property
    def measuring_draws(self) -> int:
        """How many points are drawn when a property of the ball has to be simulated."""
        return max(2_000, min(_MOMENT_DRAWS, 4_000_000 // self.dim))

    # --- shapes -----------------------------------------------------------------------------

    def _rows(self, name: str, x: ArrayLike) -> tuple[FloatArray, tuple[int, ...]]:
        try:
            array = np.asarray(x, dtype=np.float64)
        except (TypeError, ValueError):
            fail(f"`{name}` must be an array of real numbers. Got {type(x).__name__}.")
        if array.ndim == 0 or array.shape[-1] != self.dim:
            got = "a scalar" if array.ndim == 0 else str(array.shape[-1])
            fail(
                f"`{name}` must have {self.dim} entries along its last axis. Got {got}.",
                DimensionError,
            )
        if not np.isfinite(array).all():
            fail(f"`{name}` must hold finite numbers only (no NaN, no infinity).")
        return np.ascontiguousarray(array.reshape(-1, self.dim)), array.shape[:-1]

    def _rowwise(self, name: str, x: ArrayLike, function: Any) -> Any:
        rows, lead = self._rows(name, x)
        values = np.asarray(function(rows))
        return float(values[0]) if lead == () else values.reshape(lead)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(dim={self.dim})"


def exact_moment(value: FloatArray) -> SecondMoment:
    """A second moment known in closed form."""
    return SecondMoment(value, np.zeros_like(value))


def check_exponent(p: object) -> float:
    """The exponent of an l_p norm: a number in [1, inf]."""
    if isinstance(p, (bool, np.bool_)) or not isinstance(p, (int, float, np.integer, np.floating)):
        fail(f"`p` must be a number in [1, inf]. Got {type(p).__name__}.")
    if not p >= 1:
        fail(f"`p` must be a number in [1, inf]: below 1 the set is not convex. Got {shown(p)}.")
    return check_real("p", p) if isinstance(p, int) else float(p)


class LpBall(NormBall):
    r"""The ball :math:`\{x : \| x / r \|_p \le 1\}`, p in [1, inf].

    Parameters
    ----------
    dim : int
        Number of coordinates.
    p : float
        Exponent; ``numpy.inf`` for the cube.
    radius : float or sequence of ``dim`` floats
        Radius, or one radius per axis.

    Examples
    --------
    >>> cube = LpBall(dim=2, p=np.inf, radius=2.0)
    >>> cube.gauge([1.0, -3.0]), round(cube.volume(), 9), cube.support([1, 1])
    (1.5, 16.0, 4.0)
    """

    def __init__(self, dim: int, p: float, radius: ArrayLike = 1.0) -> None:
        self.dim = check_count("dim", dim, most=MOST_DIM)
        self.p = check_exponent(p)
        self.radius = check_radius(radius, self.dim)

    @property
    def unconditional(self) -> bool:
        return True

    def __repr__(self) -> str:
        same = np.ptp(self.radius) == 0
        radius = f"{self.radius[0]:g}" if same else f"[{', '.join(f'{r:g}' for r in self.radius)}]"
        return f"LpBall(dim={self.dim}, p={self.p:g}, radius={radius})"

    def scaled(self, factor: ArrayLike) -> LpBall:
        return LpBall(self.dim, self.p, self.radius * check_radius(factor, self.dim, "factor"))

    def bounding_box(self) -> FloatArray:
        return self.radius.copy()

    def cube_gauge(self) -> float:
        return float(self.gauge(np.ones(self.dim)))  # it grows with the size of every entry

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        if self.p == 1 or self.dim == 1:
            return np.diag(self.radius)
        if self.p == np.inf and 2 ** (self.dim - 1) <= most:
            return half_signs(self.dim) * self.radius
        return None

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        if self.p == np.inf or self.dim == 1:
            return np.diag(1.0 / self.radius)
        if self.p == 1 and 2 ** (self.dim - 1) <= most:
            return half_signs(self.dim) / self.radius
        return None

    def _gauge(self, x: FloatArray) -> FloatArray:
        return lp_norm(x / self.radius, self.p)

    def _normals(self, x: FloatArray) -> FloatArray:
        return lp_dual_point(x / self.radius, self.p) / self.radius

    def _support_points(self, c: FloatArray) -> FloatArray:
        dual = 1.0 if self.p == np.inf else np.inf if self.p == 1 else self.p / (self.p - 1)
        return lp_dual_point(c * self.radius, dual) * self.radius

    def _volume(self) -> Volume:
        # Wang (2005), Proposition 3.21 of Awan and Slavković (2021): vol = (2 Gamma(1+1/p))^m /
        # Gamma(1+m/p)
        m, inverse = self.dim, 0.0 if self.p == np.inf else 1.0 / self.p
        unit = m * (math.log(2) + math.lgamma(1 + inverse)) - math.lgamma(1 + m * inverse)
        return Volume(unit + float(np.log(self.radius).sum()))

    def _second_moment(self) -> SecondMoment:
        return exact_moment(np.diag(self.entry_moments()))

    def entry_moments(self) -> FloatArray:
        # E u_i^2 = Gamma(3/p) Gamma(1+m/p) / (Gamma(1/p) Gamma(1+(m+2)/p))
        m, p = self.dim, self.p
        if p == np.inf:
            unit = 1.0 / 3.0
        else:
            unit = math.exp(
                math.lgamma(3 / p)
                + math.lgamma(1 + m / p)
                - math.lgamma(1 / p)
                - math.lgamma(1 + (m + 2) / p)
            )
        return unit * self.radius**2

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        m, p = self.dim, self.p
        if p == np.inf:
            return (2.0 * rng.uniform((size, m)) - 1.0) * self.radius
        # Barthe et al. (2005): |g|^p ~ Gamma(1/p), E ~ Exp; g / (|g|_p^p + E)^(1/p) is uniform.
        if p == 2:
            g = rng.normal((size, m))
            powers = 0.5 * g**2
            g /= math.sqrt(2.0)
        elif p == 1:
            powers = rng.exponential((size, m))
            g = rng.signs((size, m)) * powers
        else:
            # |g| = Gamma(1 + 1/p)^(1/p) U; a power of Gamma(1/p) would underflow to 0 for large p
            g = rng.gamma(1 + 1 / p, (size, m)) ** (1 / p) * rng.uniform((size, m))
            powers = g**p
            g *= rng.signs((size, m))
        total = powers.sum(axis=1) + rng.exponential(size)
        return g / total[:, None] ** (1 / p) * self.radius


class Ellipsoid(NormBall):
    r"""The ball :math:`\{x : x^T M^{-1} x \le 1\}` of a symmetric positive definite matrix M.

    Examples
    --------
    >>> Ellipsoid([[4.0, 0.0], [0.0, 1.0]]).gauge([2.0, 0.0])
    1.0
    """

    def __init__(self, matrix: ArrayLike) -> None:
        m = check_array("matrix", matrix, 2)
        if m.shape[0] != m.shape[1] or not np.allclose(m, m.T, rtol=1e-12, atol=0.0):
            fail("`matrix` must be square and symmetric.", DimensionError)
        try:
            self._root: FloatArray = np.asarray(np.linalg.cholesky(m), dtype=np.float64)
        except np.linalg.LinAlgError:
            fail(
                "`matrix` must be positive definite: drop the linearly dependent entries.",
                DegenerateBodyError,
            )
        self.matrix, self.dim = m, m.shape[0]

    def bounding_box(self) -> FloatArray:
        return np.sqrt(np.diag(self.matrix))

    def _gauge(self, x: FloatArray) -> FloatArray:
        return np.linalg.norm(np.linalg.solve(self._root, x.T).T, axis=1)

    def _normals(self, x: FloatArray) -> FloatArray:
        gauge = self._gauge(x)[:, None]
        return np.linalg.solve(self.matrix, x.T).T / np.where(gauge > 0, gauge, 1.0)

    def _support_points(self, c: FloatArray) -> FloatArray:
        length = np.linalg.norm(c @ self._root, axis=1)[:, None]
        return c @ self.matrix / np.where(length > 0, length, 1.0)

    def _volume(self) -> Volume:
        return Volume(LpBall(self.dim, 2).log_volume() + float(np.log(np.diag(self._root)).sum()))

    def _second_moment(self) -> SecondMoment:
        return exact_moment(self.matrix / (self.dim + 2))

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        return LpBall(self.dim, 2)._sample(size, rng) @ self._root.T


# --- shared arithmetic ----------------------------------------------------------------------


def lp_norm(x: FloatArray, p: float) -> FloatArray:
    """l_p norm of each row, safe against overflow."""
    top = np.abs(x).max(axis=1)
    if p == np.inf:
        return top
    scale = np.where((top > 0) & np.isfinite(top), top, 1.0)
    return np.sum(np.abs(x / scale[:, None]) ** p, axis=1) ** (1 / p) * scale


def lp_dual_point(x: FloatArray, p: float) -> FloatArray:
    """Row by row the vector a of dual norm 1 with ``a . x = ||x||_p``."""
    if p == 1:
        return np.where(x >= 0, 1.0, -1.0)
    size = np.abs(x)
    if p == np.inf:
        out = np.zeros_like(x)
        rows, best = np.arange(len(x)), size.argmax(axis=1)
        out[rows, best] = np.where(x[rows, best] >= 0, 1.0, -1.0)
        return out
    norm = lp_norm(x, p)[:, None]
    return np.sign(x) * (size / np.where(norm > 0, norm, 1.0)) ** (p - 1)


def half_signs(dim: int) -> FloatArray:
    """One of each pair +-s of sign vectors: first entry +1."""
    codes = np.arange(2 ** (dim - 1))[:, None] >> np.arange(dim - 1)[None, :] & 1
    return np.hstack([np.ones((len(codes), 1)), 1.0 - 2.0 * codes])


def check_balls(name: str, *balls: object) -> None:
    """Refuse anything that is not a norm ball."""
    for ball in balls:
        check_instance(name, ball, NormBall)


def check_radius(radius: ArrayLike, dim: int, name: str = "radius") -> FloatArray:
    """A positive radius, or one per axis, as a vector."""
    try:
        axes = np.ndim(radius)
    except ValueError:  # lists of several lengths
        axes = 1
    if axes == 0:
        return np.full(dim, check_positive(name, np.asarray(radius)[()]))
    vector = check_array(name, radius, 1, dim)
    if not (vector > 0).all():
        fail(
            f"`{name}` must be positive on every axis. Got {vector.min():g}: "
            "drop axes of zero width."
        )
    return vector
