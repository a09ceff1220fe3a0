"""From a norm ball to exact lattice noise: which integer body stands for which ball."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import (
    DegenerateBodyError,
    InfeasibleSamplingError,
    check_count,
    check_flag,
    fail,
)
from tightdp.exact.lattice_bodies import (
    CountBody,
    DiamondBody,
    PolytopeBody,
    ReplacedCountBody,
    RoundBody,
    SumBody,
)
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.lattice_moments import LATTICE_KINDS, MomentLatticeBody, SquareBody
from tightdp.exact.lattice_posets import PosetBody
from tightdp.geometry.combine import Product, Scaled
from tightdp.geometry.containment import largest_gauge
from tightdp.geometry.counting_balls import (
    CountBall,
    HistogramBall,
    ReplacedCountBall,
    SumBall,
)
from tightdp.geometry.moment_bodies import MomentBody
from tightdp.geometry.moment_hulls import K2, K3
from tightdp.geometry.norm_balls import LpBall, NormBall, check_balls, half_signs
from tightdp.geometry.poset_ball import PosetBall, ReplacedPosetBall
from tightdp.noise.lattice import LatticeNoise
from tightdp.parameters import tells_arguments
from tightdp.privacy import check_epsilon

Shape = tuple[LatticeBody, Fraction]
"""A body B and a radius: the ball lies inside radius * B, and usually is it."""

_FINEST = 1 << 20
_COARSEST_SIDE = 32
_ROW_BITS = 20
_BOX_DEN = 1 << 16
_FLOAT_SLACK = 2.0**-30  # granted to supports and widths that were computed with floats
_DENOMINATORS = 720_720  # multiple of 1..16: gauges of corners are rational and often simple


@tells_arguments
def lattice_noise(
    ball: NormBall,
    epsilon: Number,
    *,
    resolution: int | None = None,
    rounded: bool = False,
    staircase: Number | None = None,
) -> LatticeNoise:
    """Exact noise for a statistic on the grid of multiples of ``1 / resolution``.

    Neighbours move the statistic within ``ball``; in grid units they move it by an integer vector
    inside ``resolution * ball``, whose level is at most L = ceil(resolution * radius). Radii that
    are not on the grid are rounded outwards, to the private side.

    Parameters
    ----------
    ball : NormBall
        Contains the sensitivity space of the statistic, in user units.
    epsilon : float, Fraction or Decimal
    resolution : int, optional
        Grid points per unit; the default is the finest power of two up to 2**20 that keeps levels
        within fast 64-bit integers.
    rounded : bool
        True if whole contributions phi(row) are rounded to the grid, rather than the cells of the
        row: then a difference can leave the scaled ball by less than 1 in every coordinate, and L
        grows by the largest gauge of such a vector.
    staircase : float or Fraction, optional
        See :class:`~tightdp.LatticeNoise`.

    Examples
    --------
    >>> lattice_noise(LpBall(2, 1, 2.0), epsilon=1.0, resolution=1024)
    LatticeNoise(DiamondBody(dim=2), epsilon=1, sensitivity=2048)
    """
    check_balls("ball", ball)
    check_flag("rounded", rounded)
    if resolution is None:
        resolution = default_resolution(ball.rank, epsilon, lattice_body(ball)[1])
    body, radius = lattice_body(ball, check_count("resolution", resolution))
    reach = radius * resolution
    if rounded:
        reach += _corner(ball, body, radius)
    return LatticeNoise(body, epsilon, math.ceil(reach), staircase=staircase)


def _corner(ball: NormBall, body: LatticeBody, radius: Fraction) -> Fraction:
    """The largest gauge in B of a vector of (-1, 1)^m: of a sign vector, rounded up."""
    if ball.rank < ball.dim:
        fail("`rounded` contributions leave the span of a flat ball: round the cells instead.")
    if ball.dim <= 12:
        signs = half_signs(ball.dim).astype(np.int64)
        return Fraction(int(body.level(_DENOMINATORS * signs).max()), _DENOMINATORS)
    return Fraction(largest_gauge(LpBall(ball.dim, np.inf), ball).upper * (1 + 1e-12)) * radius


def default_resolution(rank: int, epsilon: Number, radius: Fraction = Fraction(1)) -> int:
    """The finest power of two, at most 2**20, whose typical levels stay below 2**28.

    >>> default_resolution(10, 1.0), default_resolution(100, 0.001)
    (1048576, 2048)
    """
    limit = check_epsilon(epsilon) * (1 << 28) / (rank + 1) / max(radius, Fraction(1))
    return max(1, min(_FINEST, 1 << max(0, math.floor(limit).bit_length() - 1)))


def lattice_body(ball: NormBall, resolution: int | Fraction | None = None) -> Shape:
    """The integer body of a norm ball, and the radius by which it must be scaled.

    Boxes and polytopes are made to fit a grid of ``resolution`` points per unit, so that nothing is
    lost to rounding L up; without it they are made for any fine grid.

    >>> lattice_body(LpBall(3, 2, 0.5))
    (RoundBody(dim=3), Fraction(1, 2))
    """
    if isinstance(ball, Scaled) and np.ptp(ball.factor) == 0:
        factor = Fraction(float(ball.factor[0]))
        body, radius = lattice_body(ball.ball, None if resolution is None else resolution * factor)
        return body, radius * factor
    if isinstance(ball, LpBall):
        return _lp_body(ball, resolution)
    if isinstance(ball, Product):
        return _product_body(ball, resolution)
    build = _BODIES.get(type(ball))
    return build(ball) if build is not None else _polytope_body(ball, resolution)


def _lp_body(ball: LpBall, resolution: int | Fraction | None) -> Shape:
    if ball.p == np.inf and np.ptp(ball.radius) > 0:
        return _box_body(ball, resolution)
    body = {1.0: DiamondBody, 2.0: RoundBody}.get(ball.p)
    if np.ptp(ball.radius) > 0 or (body is None and ball.p != np.inf):
        fail(
            f"There is no exact lattice sampler for {ball!r}. Use p = 1 or 2 with one radius, "
            "p = inf, or rescale the entries of the statistic so that one radius serves.",
            InfeasibleSamplingError,
        )
    shape = BoxBody([1] * ball.dim) if body is None else body(ball.dim)
    return shape, Fraction(float(ball.radius[0]))


def _box_body(ball: NormBall, resolution: int | Fraction | None) -> Shape:
    """A box with several half-widths, enlarged so that few proposals miss its sides."""
    scale = _enlarged(ball, resolution)
    return _box(Fraction(float(b)) * scale for b in ball.bounding_box()), 1 / scale


def _box(sides: Iterable[Fraction]) -> BoxBody:
    """The box with these half-widths, rounded up to multiples of 2**-16."""
    halves = [math.ceil(side * _BOX_DEN) for side in sides]
    _check_widths(halves)
    common = math.gcd(*halves, _BOX_DEN)
    return BoxBody([half // common for half in halves], _BOX_DEN // common)


def _product_body(ball: Product, resolution: int | Fraction | None) -> Shape:
    """Boxes take any radius; the other factors must agree on one."""
    if all(_is_box(part) for part in ball.balls):
        return _box_body(ball, resolution)
    parts = [None if _is_box(part) else lattice_body(part, resolution) for part in ball.balls]
    radii = {part[1] for part in parts if part is not None}
    if len(radii) > 1:
        fail(
            "The factors of the product have different radii: rescale the entries of the "
            "statistic so that all factors but boxes have one radius.",
            InfeasibleSamplingError,
        )
    radius = radii.pop()
    bodies: list[LatticeBody] = [
        _box(Fraction(float(b)) / radius for b in factor.bounding_box())
        if part is None
        else part[0]
        for factor, part in zip(ball.balls, parts, strict=True)
    ]
    return ProductBody(bodies), radius


def _check_widths(widths: Iterable[int]) -> None:
    if max(widths) >= 1 << 60:  # 64-bit integers hold them, doubled
        fail(
            "The ball of the noise is too elongated for an exact lattice sampler: rescale the "
            "entries of the statistic so that its widths are of one order.",
            InfeasibleSamplingError,
        )


def _is_box(ball: NormBall) -> bool:
    return isinstance(ball, LpBall) and (ball.p == np.inf or ball.dim == 1)


def _polytope_body(ball: NormBall, resolution: int | Fraction | None) -> Shape:
    """Any polytope: facets with integer entries, rounded outwards."""
    facets = ball.facets(most=4096) if ball.rank == ball.dim else None
    if facets is None:
        fail(
            f"There is no exact lattice sampler for {ball!r}. Use an l1, l2, linf, K2, K3, "
            "moment, sum, count, poset or histogram ball, or a polytope with few facets.",
            InfeasibleSamplingError,
        )
    box, scale = ball.bounding_box(), _enlarged(ball, resolution)
    # |a.x| <= 1 on K gives |A.x| <= S + sum |A_i - S a_i| b_i <= S + sum b_i / 2, A = round(S a).
    # Facets may come from a hull code, in floats: what K itself says about A.x is heeded, too.
    unit = float(1 << _ROW_BITS) / np.abs(facets).max(axis=1)
    rows = np.rint(facets * unit[:, None]).astype(np.int64)
    by_facet = unit * (1 + 1e-12) + box.sum() * (0.5 + 1e-9)
    most = np.maximum(by_facet, ball.support(rows.astype(np.float64)) * (1 + _FLOAT_SLACK))
    right = [math.ceil(Fraction(float(m)) * scale) + 1 for m in most]
    sides = [math.ceil(Fraction(float(b) * (1 + _FLOAT_SLACK)) * scale * _BOX_DEN) for b in box]
    _check_widths([*right, *sides])
    return PolytopeBody(rows, np.array(right), sides, _BOX_DEN), 1 / scale


def _enlarged(ball: NormBall, resolution: int | Fraction | None) -> Fraction:
    """The c for which c K is about 32 wide where it is narrowest; resolution / c is an integer."""
    narrow = float(2 * ball.bounding_box().min())
    if not narrow > 0:
        fail("The ball is flat: drop the entries of zero width.", DegenerateBodyError)
    if resolution is None:
        return Fraction(2) ** math.ceil(math.log2(_COARSEST_SIDE / narrow))
    steps = math.floor(resolution * Fraction(narrow) / _COARSEST_SIDE)
    return Fraction(resolution) / max(steps, 1)


def _moment_body(ball: MomentBody) -> Shape:
    if ball.kind not in LATTICE_KINDS:
        fail(
            f"There is no exact lattice sampler for the {ball.kind!r} moment body: use "
            "kind='triangle' or kind='cylinder'.",
            InfeasibleSamplingError,
        )
    return MomentLatticeBody(ball.p, ball.kind), Fraction(1)


_BODIES: dict[type[NormBall], Callable[[Any], Shape]] = {
    K2: lambda ball: (SquareBody(), Fraction(1)),
    K3: lambda ball: (SumBody(3, 4, 2), Fraction(1)),
    SumBall: lambda ball: (SumBody(ball.dim, ball.bound), Fraction(1)),
    CountBall: lambda ball: (CountBody(ball.dim, ball.bound), Fraction(1)),
    ReplacedCountBall: lambda ball: (ReplacedCountBody(ball.dim, ball.bound), Fraction(1)),
    PosetBall: lambda ball: (PosetBody(ball), Fraction(1)),
    ReplacedPosetBall: lambda ball: (PosetBody(ball), Fraction(1)),
    HistogramBall: lambda ball: (HistogramBody(ball.dim), Fraction(1)),
    MomentBody: _moment_body,
}
