"""How far one body reaches in the norm of another, and whether it lies inside.

``largest_gauge(K, H)`` is ``sup {gauge_H(x) : x in K}``: the sensitivity of a statistic with hull K
in the norm H, and K lies inside H exactly when it is at most 1. Maximising a convex function is
hard in general, so the answer is a range: ``upper`` is always proved, ``lower`` is attained at
``point``, and the two meet for the pairs of bodies that have a closed form or finitely many
vertices or facets.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from tightdp.errors import DimensionError, FloatArray, UndecidedError, fail
from tightdp.geometry.combine import Intersection, LinearImage, Product, Scaled
from tightdp.geometry.moment_hulls import K2, farthest_on_arcs
from tightdp.geometry.norm_balls import (
    MEASURING_SEED,
    Ellipsoid,
    LpBall,
    NormBall,
    check_balls,
    lp_norm,
)
from tightdp.parameters import tells_arguments
from tightdp.randomness import SeededSource

EQUAL = 1e-9  # two values closer than this (relative) are one value computed twice
_STARTS, _ROUNDS = 8, 20


@dataclass(frozen=True, slots=True, eq=False)
class GaugeRange:
    """``lower <= sup gauge <= upper``; ``point`` attains ``lower``."""

    lower: float
    upper: float
    point: FloatArray

    @property
    def exact(self) -> bool:
        """Whether both ends agree."""
        return bool(self.upper <= self.lower * (1 + EQUAL))


def largest_gauge(inner: NormBall, outer: NormBall, *, enough: float | None = np.inf) -> GaugeRange:
    """The range of ``sup {gauge_outer(x) : x in inner}``.

    Where no exact rule applies, ``lower`` is found by climbing, which stops once it exceeds
    ``enough`` and is left out for ``enough=None``.

    Examples
    --------
    >>> reach = largest_gauge(LpBall(3, 2), LpBall(3, 1))
    >>> round(float(reach.upper), 9), reach.exact
    (1.732050808, True)
    """
    check_balls("inner", inner)
    check_balls("outer", outer)
    if inner.dim != outer.dim:
        fail(
            f"Both bodies must have one dimension. Got {inner.dim} and {outer.dim}.", DimensionError
        )
    if inner.rank > outer.rank:  # a flat body holds nothing that is less flat
        axes = inner._support_points(np.eye(inner.dim))
        return GaugeRange(np.inf, np.inf, axes[int(outer._gauge(axes).argmax())])
    found = _reduced(inner, outer, None if enough is None else np.inf)
    if found is not None:
        return found
    for rule in (_lp_in_lp, _ellipsoids, _by_arcs, _unconditional, _by_facets, _by_vertices):
        found = rule(inner, outer)
        if found is not None:
            return found
    upper = _upper(inner, outer)
    if enough is None or upper <= 1 + EQUAL:
        return GaugeRange(0.0, upper, np.zeros(inner.dim))
    lower, point = climb(inner, outer, enough)
    return GaugeRange(lower, max(lower, upper), point)


@dataclass(frozen=True, slots=True, eq=False)
class Containment:
    """Whether K lies inside H: a proof, a witness against it, or neither.

    ``verdict`` is "inside", "outside" (then ``witness`` is a point of K outside H) or "undecided".
    """

    verdict: str
    reach: GaugeRange

    @property
    def witness(self) -> FloatArray | None:
        """A point of K that lies outside H, if one was found."""
        return self.reach.point if self.verdict == "outside" else None

    def __bool__(self) -> bool:
        if self.verdict == "undecided":
            fail(
                "Containment could not be decided for this pair of bodies: look at `.verdict` "
                "and `.reach`.",
                UndecidedError,
            )
        return self.verdict == "inside"


@tells_arguments
def containment(inner: NormBall, outer: NormBall) -> Containment:
    """Decide whether ``inner`` lies inside ``outer`` (touching is inside).

    Examples
    --------
    >>> bool(containment(LpBall(2, 1), LpBall(2, np.inf)))
    True
    >>> containment(LpBall(2, np.inf), LpBall(2, 1)).witness
    array([1., 1.])
    """
    return verdict(largest_gauge(inner, outer, enough=1 + EQUAL))


def verdict(reach: GaugeRange) -> Containment:
    """The verdict that follows from a range of gauges."""
    if reach.upper <= 1 + EQUAL:
        return Containment("inside", reach)
    return Containment("outside" if reach.lower > 1 + EQUAL else "undecided", reach)


# --- exact rules ------------------------------------------------------------------------------


def _reduced(inner: NormBall, outer: NormBall, enough: float | None) -> GaugeRange | None:
    """Peel structure off the outer body, or split both into blocks."""
    if inner.lies_inside(outer):
        return GaugeRange(1.0, 1.0, inner._support_points(np.eye(inner.dim)[:1])[0])
    if isinstance(outer, Intersection):
        return _maximum([largest_gauge(inner, part, enough=enough) for part in outer.balls])
    if isinstance(outer, Scaled) and np.ptp(outer.factor) == 0:
        reach = largest_gauge(inner, outer.ball, enough=enough)
        factor = outer.factor[0]
        return GaugeRange(reach.lower / factor, reach.upper / factor, reach.point)
    if isinstance(inner, Scaled) and np.ptp(inner.factor) == 0:
        reach = largest_gauge(inner.ball, outer, enough=enough)
        factor = inner.factor[0]
        return GaugeRange(reach.lower * factor, reach.upper * factor, reach.point * factor)
    if isinstance(outer, LinearImage) and outer.rank == outer.dim and inner.rank == inner.dim:
        reach = largest_gauge(inner.image(outer._inverse), outer.ball, enough=enough)
        upper = reach.upper * (1 + outer.rounding)
        return GaugeRange(reach.lower, upper, outer.matrix @ reach.point)
    if isinstance(inner, Product):
        return _blockwise(inner, outer, enough)
    return None


def _blockwise(inner: Product, outer: NormBall, enough: float | None) -> GaugeRange | None:
    """Products in products are compared block by block, in l_p balls by adding p-th powers."""
    dims = [ball.dim for ball in inner.balls]
    if isinstance(outer, Product) and [ball.dim for ball in outer.balls] == dims:
        pairs = zip(inner.balls, outer.balls, strict=True)
        parts = [largest_gauge(k, h, enough=enough) for k, h in pairs]
        best = int(np.argmax([part.lower for part in parts]))
        point = np.concatenate(
            [part.point if i == best else 0 * part.point for i, part in enumerate(parts)]
        )
        upper = max(part.upper for part in parts)
        return GaugeRange(parts[best].lower, upper, point)
    if isinstance(outer, LpBall):
        radii = np.split(outer.radius, np.cumsum(dims)[:-1])
        parts = [
            largest_gauge(k, LpBall(k.dim, outer.p, r), enough=enough)
            for k, r in zip(inner.balls, radii, strict=True)
        ]
        lower = lp_norm(np.array([[part.lower for part in parts]]), outer.p)[0]
        upper = lp_norm(np.array([[part.upper for part in parts]]), outer.p)[0]
        return GaugeRange(
            float(lower), float(upper), np.concatenate([part.point for part in parts])
        )
    return None


def _lp_in_lp(inner: NormBall, outer: NormBall) -> GaugeRange | None:
    # sup ||x/s||_q over ||x/r||_p <= 1 is ||r/s||_t, 1/t = (1/q - 1/p)_+  (Hoelder)
    if not (isinstance(inner, LpBall) and isinstance(outer, LpBall)):
        return None
    ratio, gap = inner.radius / outer.radius, 1 / outer.p - 1 / inner.p
    if gap <= 0:
        best = int(ratio.argmax())
        point = np.where(np.arange(inner.dim) == best, inner.radius, 0.0)
        return GaugeRange(ratio[best], ratio[best], point)
    value = lp_norm(ratio[None, :], 1 / gap)[0]
    share = (ratio / value) ** (1 / (gap * inner.p)) if inner.p < np.inf else np.ones(inner.dim)
    return GaugeRange(value, value, inner.radius * share)


def _ellipsoids(inner: NormBall, outer: NormBall) -> GaugeRange | None:
    roots = [_root(ball) for ball in (inner, outer)]
    if roots[0] is None or roots[1] is None:
        return None
    _, values, right = np.linalg.svd(np.linalg.solve(roots[1], roots[0]))
    return GaugeRange(values[0], values[0], roots[0] @ right[0])


def _root(ball: NormBall) -> FloatArray | None:
    """R with ball = R (unit l2 ball), if it is an ellipsoid."""
    if isinstance(ball, Ellipsoid):
        return ball._root
    if isinstance(ball, LpBall) and ball.p == 2:
        root: FloatArray = np.diag(ball.radius)
        return root
    return None


def _by_arcs(inner: NormBall, outer: NormBall) -> GaugeRange | None:
    """K2 and its linear images have curved boundaries, along two arcs."""
    matrix = inner.matrix if isinstance(inner, LinearImage) else np.eye(2)
    body = inner.ball if isinstance(inner, LinearImage) else inner
    if not isinstance(body, K2) or matrix.shape != (2, 2):
        return None
    bound, point = farthest_on_arcs(lambda u: outer._gauge(u @ matrix.T))
    return _outward(inner, outer, bound, matrix @ point)


def _by_facets(inner: NormBall, outer: NormBall) -> GaugeRange | None:
    rows = outer.facets(most=4096) if outer.rank == outer.dim else None
    if rows is None:
        return None
    points = inner._support_points(rows)
    values = np.sum(rows * points, axis=1)
    best = int(values.argmax())
    return _outward(inner, outer, values[best], points[best])


def _by_vertices(inner: NormBall, outer: NormBall) -> GaugeRange | None:
    points = inner.vertices()
    if points is None:
        return None
    values = outer._gauge(points)
    best = int(values.argmax())
    return _outward(inner, outer, values[best], points[best])


def _outward(inner: NormBall, outer: NormBall, value: float, point: FloatArray) -> GaugeRange:
    """A value computed at ``point``, with an upper end that covers what it may fall short by."""
    return GaugeRange(value, value * (1 + inner.support_slack) * (1 + outer.gauge_slack), point)


def _unconditional(inner: NormBall, outer: NormBall) -> GaugeRange | None:
    """In a body without preferred signs the largest l1 norm is the support of (1, ..., 1)."""
    if not (inner.unconditional and isinstance(outer, LpBall) and outer.p == 1):
        return None
    direction = 1.0 / outer.radius
    point = inner._support_points(direction[None, :])[0]
    return _outward(inner, outer, float(direction @ point), point)


# --- bounds when no rule applies ----------------------------------------------------------------


def climb(inner: NormBall, outer: NormBall, enough: float = np.inf) -> tuple[float, FloatArray]:
    """A local maximum of gauge_outer over inner: x <- argmax {normal(x) . u : u in inner}."""
    rng = SeededSource(MEASURING_SEED)
    starts = np.vstack([np.eye(inner.dim)[:_STARTS], rng.normal((_STARTS, inner.dim))])
    x = inner._support_points(starts)
    value = outer._gauge(x)
    rising, rounds = np.arange(len(x)), 0
    while rising.size and rounds < _ROUNDS and value.max() <= enough:
        moved = inner._support_points(outer._normals(x[rising]))
        gain = outer._gauge(moved)
        better = gain > value[rising] * (1 + EQUAL)
        rising, rounds = rising[better], rounds + 1
        x[rising], value[rising] = moved[better], gain[better]
    best = int(value.argmax())
    return float(value[best]), x[best]


def _upper(inner: NormBall, outer: NormBall) -> float:
    box = inner.bounding_box()  # rounded outwards
    if isinstance(outer, LpBall):
        # ||x||_q <= ||x||_1^(1/q) ||x||_inf^(1-1/q), after dividing by the radii
        top = float((box / outer.radius).max())
        one = LpBall(outer.dim, 1, outer.radius)
        total = float((box / outer.radius).sum())
        if outer.p > 1:
            total = min(total, largest_gauge(inner, one).upper)
        return total ** (1 / outer.p) * top ** (1 - 1 / outer.p)
    # triangle inequality over the axes
    wide = box > 0
    gauges = outer._gauge(np.eye(outer.dim)[wide])
    return float(box[wide] @ gauges) * (1 + outer.gauge_slack)


def _maximum(parts: list[GaugeRange]) -> GaugeRange:
    best = max(parts, key=lambda part: part.lower)
    return GaugeRange(best.lower, max(part.upper for part in parts), best.point)
