"""Symmetric polytopes from their vertices or from their inequalities."""

from __future__ import annotations

import math
from functools import cached_property
from typing import NoReturn, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import (
    DegenerateBodyError,
    FloatArray,
    InfeasibleSamplingError,
    check_array,
    check_length,
    fail,
)
from tightdp.geometry.combine import rejection
from tightdp.geometry.linear_programs import LP_SLACK, gauge_of_hull, maximize
from tightdp.geometry.norm_balls import (
    MEASURING_SEED,
    NormBall,
    SecondMoment,
    Volume,
    exact_moment,
)
from tightdp.geometry.units import ROUNDING, frame, rounding_error
from tightdp.randomness import RandomSource, SeededSource

QHULL_DIM = 8  # above this, facets are counted in hundreds of thousands
_TOLERANCE = 1e-9
_SAME = 1e-12  # rows closer than this, in their own frame, are one row
_MOST_OUTWARD = 1e-3


class Polytope(NormBall):
    """A symmetric polytope, by :meth:`from_vertices`, :meth:`hull_of` or :meth:`from_inequalities`.

    In up to 8 dimensions both descriptions are computed, the volume and the second moment are
    exact (triangulation into cones from the origin), and samples need no rejection. In higher
    dimensions the missing description is replaced by linear programs and samples are drawn by
    rejection from the bounding box while that is practical.

    A hull is never smaller than its points: where rounding could make it so (very thin, slanted
    bodies), it is enlarged by :attr:`outward`, 0 for all others.

    Examples
    --------
    >>> diamond = Polytope.from_vertices([[1, 0], [-1, 0], [0, 1], [0, -1]])
    >>> diamond.gauge([0.5, 1.0]), diamond.volume()
    (1.5, 2.0)
    """

    def __init__(self, *, vertices: FloatArray | None, facets: FloatArray | None) -> None:
        # Each array holds one of every pair +-row; the named constructors check them.
        given = vertices if vertices is not None else facets
        if given is None:
            fail("Use Polytope.from_vertices, Polytope.hull_of or Polytope.from_inequalities.")
        self._given_vertices, self._given_facets = vertices, facets
        self.dim = given.shape[1]
        #: The relative enlargement that covers rounding.
        self.outward = 0.0

    # --- constructors -----------------------------------------------------------------------

    @classmethod
    def from_vertices(cls, vertices: ArrayLike) -> Self:
        """The polytope with exactly these vertices (both of each pair +-v)."""
        points = check_array("vertices", vertices, 2)
        ball = cls.hull_of(points)
        extreme = ball._given_vertices
        assert extreme is not None
        if 2 * len(extreme) < len(np.unique(points, axis=0)):
            fail(
                "`vertices` are not in convex position: some lie inside the hull of the others. "
                "Use Polytope.hull_of(points) to take the hull."
            )
        return ball

    @classmethod
    def hull_of(cls, points: ArrayLike) -> Self:
        """The convex hull of a symmetric set of points; points inside the hull are dropped."""
        array = np.unique(check_array("points", points, 2), axis=0)
        _check_symmetric(array @ _frame(array))
        return cls.hull_of_pairs(array)

    @classmethod
    def hull_of_pairs(cls, points: FloatArray, *, most: float = np.inf) -> Self:
        """The convex hull of the points and their mirror images.

        In many dimensions every point takes a linear program to tell whether it is a vertex. Of
        more than ``most`` points all are kept: the hull is the same.
        """
        if not 1 < points.shape[1] <= QHULL_DIM:
            half = _one_of_each_pair(points, _frame(points))
            sifted = half[_extreme(half)] if points.shape[1] == 1 or len(half) <= most else half
            return cls(vertices=sifted, facets=None)
        vertices, facets, reach = _hull(points)
        ball = cls(vertices=vertices, facets=facets)
        excess = max(reach - 1.0, 0.0) + ball._rounding
        if excess > _MOST_OUTWARD:
            _refuse_flat()
        if excess > ROUNDING:
            ball = cls(vertices=vertices * (1 + excess), facets=facets / (1 + excess))
            ball.outward = excess
        return ball

    @classmethod
    def from_inequalities(cls, A: ArrayLike, b: ArrayLike) -> Self:
        """The polytope ``{x : A x <= b}``, which must be bounded and symmetric."""
        rows, right = check_array("A", A, 2), check_array("b", b, 1)
        check_length("b", len(right), len(rows))
        if not (right > 0).all():
            fail(
                "`b` must be positive: otherwise the origin is not inside and the set is not "
                "absorbing.",
                DegenerateBodyError,
            )
        unit = rows / right[:, None]
        ones = np.ones(len(unit))
        for axis in np.vstack([np.eye(rows.shape[1]), -np.eye(rows.shape[1])]):
            maximize(axis, unit, ones)  # raises if the body is unbounded
        reach = np.array([maximize(-row, unit, ones)[0] for row in unit])
        if (reach > 1 + _TOLERANCE).any():
            fail(
                "The inequalities describe an asymmetric set: add the mirror image -A x <= b.",
                DegenerateBodyError,
            )
        return cls.from_facets(unit)

    @classmethod
    def from_facets(cls, rows: FloatArray) -> Self:
        """The polytope ``{x : |a . x| <= 1 for every row a}``; redundant rows are dropped."""
        half = _one_of_each_pair(rows, _frame(rows))
        # A row is a facet iff it is a vertex of the polar body conv(+-rows).
        return cls(vertices=None, facets=half[_extreme(half)])

    @property
    def gauge_slack(self) -> float:
        return self._slack

    @property
    def support_slack(self) -> float:
        return self._slack

    @cached_property
    def _slack(self) -> float:
        if self.dim > QHULL_DIM:
            return LP_SLACK
        return self._rounding if self._rounding > ROUNDING else 0.0

    @cached_property
    def _rounding(self) -> float:
        """What rounding of ``a . x`` can do to gauge and support: much if thin and slanted."""
        assert self._vertices is not None
        assert self._facets is not None
        return rounding_error(np.abs(self._facets) * np.abs(self._vertices).max(axis=0))

    # --- descriptions -----------------------------------------------------------------------

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        found = self._vertices
        return found if found is not None and len(found) <= most else None

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        found = self._facets
        return found if found is not None and len(found) <= most else None

    @cached_property
    def _vertices(self) -> FloatArray | None:
        if self._given_vertices is not None:
            return self._given_vertices
        assert self._given_facets is not None
        # Polar duality: the vertices of K are the facet normals of the hull of its facet normals.
        return _facets_of_hull(self._given_facets) if self.dim <= QHULL_DIM else None

    @cached_property
    def _facets(self) -> FloatArray | None:
        if self._given_facets is not None:
            return self._given_facets
        assert self._given_vertices is not None
        return _facets_of_hull(self._given_vertices) if self.dim <= QHULL_DIM else None

    @cached_property
    def _cones(self) -> tuple[FloatArray, FloatArray, float] | None:
        """Simplices (origin, facet) that tile the body: their matrices, their volumes in the units
        of the body's frame, and the log volume of that unit."""
        if self._vertices is None or self.dim > QHULL_DIM:
            return None
        units = _frame(self._vertices)
        corners = _simplices(self._vertices)
        volumes = np.abs(np.linalg.det(corners @ units)) / math.factorial(self.dim)
        return corners, volumes, -float(np.linalg.slogdet(units)[1])

    # --- the questions ----------------------------------------------------------------------

    def _gauge(self, x: FloatArray) -> FloatArray:
        if self._facets is not None:
            return _largest(x, self._facets)[0]
        assert self._vertices is not None
        return gauge_of_hull(x, self._vertices)

    def _normals(self, x: FloatArray) -> FloatArray:
        if self._facets is not None:
            return _signed_row(x, self._facets)
        assert self._vertices is not None
        both = np.vstack([self._vertices, -self._vertices])
        ones = np.ones(len(both))
        return np.array([maximize(row, both, ones)[1] for row in x])

    def _support_points(self, c: FloatArray) -> FloatArray:
        if self._vertices is not None:
            return _signed_row(c, self._vertices)
        assert self._facets is not None
        both = np.vstack([self._facets, -self._facets])
        ones = np.ones(len(both))
        return np.array([maximize(row, both, ones)[1] for row in c])

    def _volume(self) -> Volume:
        if self._cones is not None:
            return Volume(float(np.log(self._cones[1].sum())) + self._cones[2])
        share = self._share
        self._refuse(share)
        box = float(np.log(2 * self.bounding_box()).sum())
        return Volume(box + math.log(share), math.sqrt((1 - share) / (share * self._pilot)))

    def _second_moment(self) -> SecondMoment:
        if self._cones is None:
            return super()._second_moment()
        # Over the simplex (0, v_1..v_m): E x x^T = (sum v_i v_i^T + s s^T) / ((m+1)(m+2))
        corners, weights, _ = self._cones
        total = corners.sum(axis=1)
        squares = np.einsum("n,nij,nik->jk", weights, corners, corners)
        squares += np.einsum("n,nj,nk->jk", weights, total, total)
        return exact_moment(squares / weights.sum() / ((self.dim + 1) * (self.dim + 2)))

    @property
    def _pilot(self) -> int:
        return 20_000 if self._facets is not None else 1_000  # then every gauge is an LP

    @cached_property
    def _share(self) -> float:
        rng, box = SeededSource(MEASURING_SEED), self.bounding_box()
        draws = (2 * rng.uniform((self._pilot, self.dim)) - 1) * box
        return float(np.mean(self._gauge(draws) <= 1.0))

    def _refuse(self, share: float) -> None:
        if share * self._pilot < 10:
            fail(
                f"A polytope in more than {QHULL_DIM} dimensions is sampled by rejection, and here "
                "practically nothing would be accepted. Use a structured body, or a product of "
                "polytopes of fewer dimensions.",
                InfeasibleSamplingError,
            )

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        if self._cones is not None:
            corners, weights, _ = self._cones
            chosen = corners[rng.categorical(weights, size)]
            parts = rng.exponential((size, self.dim + 1))
            parts /= parts.sum(axis=1, keepdims=True)  # the last part belongs to the origin
            return np.einsum("ni,nij->nj", parts[:, :-1], chosen)
        share, box = self._share, self.bounding_box()
        self._refuse(share)
        return rejection(
            size,
            lambda count: (2 * rng.uniform((count, self.dim)) - 1) * box,
            lambda x: self._gauge(x) <= 1.0,
            share,
            self.dim,
        )


# --- descriptions of symmetric point sets, one of each pair ----------------------------------


def _frame(rows: FloatArray) -> FloatArray:
    """The frame of the rows, which must not be flat."""
    found = frame(rows)
    return _refuse_flat() if found is None else found


def _refuse_flat() -> NoReturn:
    fail(
        "The points are flat, or so thin that rounding decides: they span fewer dimensions than "
        "they have coordinates. Drop the linearly dependent entries.",
        DegenerateBodyError,
    )


def _check_symmetric(points: FloatArray) -> None:
    from scipy.spatial import KDTree

    away, _ = KDTree(points).query(-points)
    if away.max() > _TOLERANCE * np.abs(points).max():
        fail(
            "The points are not symmetric about the origin: with every v, -v must be given too.",
            DegenerateBodyError,
        )


def _one_of_each_pair(rows: FloatArray, units: FloatArray) -> FloatArray:
    """Distinct rows up to sign: those whose first non-zero entry, in these units, is positive."""
    inner = rows @ units
    grid = np.round(inner / (np.abs(inner).max() * _SAME)).astype(np.int64)
    first = np.argmax(grid != 0, axis=1)
    flip = np.where(grid[np.arange(len(grid)), first] < 0, -1, 1)[:, None]
    _, index = np.unique(grid * flip, axis=0, return_index=True)
    return rows[index] * flip[index]


def _hull(rows: FloatArray) -> tuple[FloatArray, FloatArray, float]:
    """Vertices and facets of conv(+-rows), one of each pair, and the largest gauge of a row.

    That gauge exceeds 1 by what the hull lost to rounding and to near-duplicates.
    """
    units = _frame(rows)
    half = _one_of_each_pair(rows, units)
    hull = _qhull(half @ units)
    planes = hull.equations[:, :-1] / -hull.equations[:, -1:]  # normal . x + offset <= 0
    planes = _one_of_each_pair(planes, np.eye(planes.shape[1]))
    reach = float(_largest(rows @ units, planes)[0].max())
    facets = planes @ units.T
    return half[np.unique(hull.vertices % len(half))], facets, reach


def _extreme(half: FloatArray) -> NDArray[np.int64]:
    """Indices of the rows that are vertices of conv(+-half)."""
    dim = half.shape[1]
    if dim == 1:
        return np.array([np.abs(half[:, 0]).argmax()])
    if dim <= QHULL_DIM:
        hull = _qhull(half @ _frame(half))
        return np.unique(hull.vertices % len(half))
    keep = np.arange(len(half))
    for i in range(len(half)):
        others = half[keep[keep != i]]
        # only what is surely inside is dropped: a point on the boundary does no harm
        if gauge_of_hull(half[i : i + 1], others)[0] <= 1 - _TOLERANCE:
            keep = keep[keep != i]
    return keep


def _qhull(half: FloatArray):  # type: ignore[no-untyped-def]
    from scipy.spatial import ConvexHull, QhullError

    try:
        return ConvexHull(np.vstack([half, -half]))
    except QhullError:
        fail(
            "The hull could not be computed: the points are flat to machine precision. "
            "Drop the linearly dependent entries.",
            DegenerateBodyError,
        )


def _facets_of_hull(half: FloatArray) -> FloatArray:
    """Rows a, one of each pair, with conv(+-half) = {|a.x| <= 1}."""
    if half.shape[1] == 1:
        return 1.0 / np.abs(half).max(keepdims=True)
    return _hull(half)[1]


def _simplices(half: FloatArray) -> FloatArray:
    """The vertices of the simplicial facets of conv(+-half)."""
    if half.shape[1] == 1:
        return np.abs(half).max() * np.array([[[1.0]], [[-1.0]]])
    hull = _qhull(half @ _frame(half))
    both = np.vstack([half, -half])
    return both[hull.simplices]


def _largest(x: FloatArray, rows: FloatArray) -> tuple[FloatArray, NDArray[np.int64]]:
    """max_i |row_i . x| for each x, in blocks that fit in memory."""
    value, index = np.empty(len(x)), np.empty(len(x), dtype=np.int64)
    step = max(1, (1 << 24) // max(1, len(rows)))
    for start in range(0, len(x), step):
        block = np.abs(x[start : start + step] @ rows.T)
        index[start : start + step] = block.argmax(axis=1)
        value[start : start + step] = block.max(axis=1)
    return value, index


def _signed_row(x: FloatArray, rows: FloatArray) -> FloatArray:
    """For each x the row, with the sign that makes row . x largest."""
    chosen = rows[_largest(x, rows)[1]]
    return np.where(np.sum(chosen * x, axis=1, keepdims=True) >= 0, chosen, -chosen)
