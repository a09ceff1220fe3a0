"""Exact hulls of the changes of one parabola (x, 2x^2) and of one product (x, y, xy)."""

from __future__ import annotations

import math
from collections.abc import Callable

import numpy as np

from tightdp.errors import FloatArray
from tightdp.geometry.moment_sampling import square_room
from tightdp.geometry.norm_balls import (
    NormBall,
    SecondMoment,
    Volume,
    exact_moment,
    half_signs,
    lp_norm,
)
from tightdp.randomness import RandomSource


class K2(NormBall):
    r"""Hull of the differences of (x, 2x^2), x in [-1, 1].

    :math:`|u_2| \le h_2(|u_1|) = 2 - 2(|u_1| - 1)_+^2`: a move of x by a > 1 has both ends on
    different sides of 0, the nearer at least a - 1 away from it.

    Examples
    --------
    >>> K2().gauge([[1.0, 1.0], [2.0, 2.0]]), K2().volume()
    (array([0.66666667, 1.33333333]), 13.333333333333334)
    """

    dim = 2

    def lies_inside(self, other: NormBall) -> bool:
        return isinstance(other, K2)

    def bounding_box(self) -> FloatArray:
        return np.full(2, 2.0)

    def _gauge(self, x: FloatArray) -> FloatArray:
        return parabola_gauge(np.abs(x[:, 0]), np.abs(x[:, 1]))

    def _normals(self, x: FloatArray) -> FloatArray:
        # gradient of 2 a^2 / (4 a - b) where b < 2 a, of b / 2 elsewhere
        a, b = np.abs(x).T
        curved = b < 2 * a
        base = np.where(curved, 4 * a - b, 1.0)
        along = np.where(curved, 4 * a * (2 * a - b) / base**2, 0.0)
        across = np.where(curved, 2 * a**2 / base**2, 0.5)
        return np.column_stack([along, across]) * np.where(x >= 0, 1.0, -1.0)

    def _support_points(self, c: FloatArray) -> FloatArray:
        # on the arc (a, 2 - 2 (a-1)^2) the slope is c1 / c2 at a = 1 + c1 / (4 c2)
        c1, c2 = np.abs(c).T
        a = 1.0 + np.minimum(c1, 4 * c2) / np.where(c2 > 0, 4 * c2, 1.0)
        a = np.where(c1 < 4 * c2, a, 2.0)
        return np.column_stack([a, square_room(a)]) * np.where(c >= 0, 1.0, -1.0)

    def _volume(self) -> Volume:
        return Volume(math.log(40 / 3))

    def _second_moment(self) -> SecondMoment:
        return exact_moment(np.diag([49 / 50, 204 / 175]))

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        # 3/5 of the area has |u1| < 1; beyond, t = |u1| - 1 has cdf (3 t - t^3) / 2
        t = rng.uniform(size)
        tail = rng.uniform(size) < 0.4
        a = np.where(tail, 1.0 + 2.0 * np.sin(np.arcsin(t) / 3.0), t)
        return np.column_stack(
            [a * rng.signs(size), square_room(a) * (2.0 * rng.uniform(size) - 1.0)]
        )


def farthest_on_arcs(norm: Callable[[FloatArray], FloatArray]) -> tuple[float, FloatArray]:
    """A bound on a norm over K2, met to rounding, and the point of K2 that meets it.

    A convex function is largest on the two arcs ``(a, +-(2 - 2(a-1)^2))``, a in [1, 2] (and their
    mirror images). A piece of an arc lies in the triangle of its chord and its two tangents, so the
    largest norm of the three corners bounds it; pieces are halved until the best point and the
    best bound agree.
    """
    found = [_farthest_on_arc(norm, np.array([1.0, sign])) for sign in (1.0, -1.0)]
    return max(bound for bound, _ in found), max(found, key=lambda pair: pair[0])[1]


def _farthest_on_arc(
    norm: Callable[[FloatArray], FloatArray], sign: FloatArray
) -> tuple[float, FloatArray]:
    edges = np.linspace(1.0, 2.0, 65)
    for _ in range(60):
        a, b = edges[:-1], edges[1:]
        points = np.column_stack([edges, square_room(edges)]) * sign
        arc = norm(points)
        mid = (a + b) / 2  # tangents of a parabola cross above the middle of the piece
        height = 2 - 2 * (a - 1) ** 2 - 4 * (a - 1) * (mid - a)
        crossing = norm(np.column_stack([mid, height]) * sign)
        bound = np.maximum(crossing, np.maximum(arc[:-1], arc[1:]))
        best = arc.max()
        if bound.max() <= best * (1 + 1e-14):
            break
        still = bound > best
        edges = np.unique(np.concatenate([a[still], mid[still], b[still]]))
    return float(bound.max()), points[int(arc.argmax())]


class K3(NormBall):
    r"""Hull of the differences of (x, y, xy), x and y in [-1, 1]: a cuboctahedron.

    :math:`|u_j| \le 2` and :math:`\|u\|_1 \le 4`. (x, y, xy) is affine in x and in y, so its hull
    is the tetrahedron of its four values at corners; this is that minus itself.

    Examples
    --------
    >>> K3().gauge([2.0, 2.0, 1.0]), K3().support([1.0, 2.0, 3.0]), len(K3().vertices())
    (1.25, 10.0, 6)
    """

    dim = 3

    def bounding_box(self) -> FloatArray:
        return np.full(3, 2.0)

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        square = half_signs(2) * 2.0
        return np.vstack([np.insert(square, axis, 0.0, axis=1) for axis in range(3)])

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        return np.vstack([np.eye(3) / 2, half_signs(3) / 4])

    def _gauge(self, x: FloatArray) -> FloatArray:
        return np.maximum(lp_norm(x, np.inf) / 2, lp_norm(x, 1) / 4)

    def _normals(self, x: FloatArray) -> FloatArray:
        size, sign = np.abs(x), np.where(x >= 0, 1.0, -1.0)
        top = np.arange(3) == size.argmax(axis=1)[:, None]
        box = 2 * size.max(axis=1, keepdims=True) >= size.sum(axis=1, keepdims=True)
        return sign * np.where(box, top / 2, 0.25)

    def _support_points(self, c: FloatArray) -> FloatArray:
        least = np.arange(3) == np.abs(c).argmin(axis=1)[:, None]
        return np.where(least, 0.0, np.where(c >= 0, 2.0, -2.0))

    def _volume(self) -> Volume:
        return Volume(math.log(160 / 3))

    def _second_moment(self) -> SecondMoment:
        return exact_moment(1.12 * np.eye(3))

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        # rejection from the cube keeps 5 in 6
        points = np.empty((0, 3))
        while len(points) < size:
            cube = 4.0 * rng.uniform((2 * (size - len(points)) + 8, 3)) - 2.0
            points = np.vstack([points, cube[np.abs(cube).sum(axis=1) <= 4]])
        return points[:size]


def parabola_gauge(a: FloatArray, b: FloatArray) -> FloatArray:
    """Gauge of K2 at (a, b), both >= 0: b/2 where b >= 2a, else 2 a^2 / (4a - b)."""
    curved = b < 2 * a
    return np.where(curved, 2 * a**2 / np.where(curved, 4 * a - b, 1.0), b / 2)
