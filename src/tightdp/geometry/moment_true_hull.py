"""The smallest body of all for regression moments: the hull of the sensitivity vectors itself.

Exact for up to three features, where the support function can be had by enumerating faces. Every
question but the support needs a linear program per vector, so this body is slow; it shows how much
noise the closed-form bodies of :mod:`~tightdp.geometry.moment_bodies` leave to be saved.
"""

from __future__ import annotations

import math
from functools import cached_property
from itertools import product

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, UndecidedError, check_count, fail
from tightdp.geometry.linear_programs import maximize
from tightdp.geometry.moment_bodies import MomentBody, regression_moments
from tightdp.geometry.norm_balls import MEASURING_SEED, NormBall, Volume
from tightdp.randomness import RandomSource, SeededSource

_DRAWS = 2_000
_GAUGE_SLACK = 1e-6


class MomentHull(NormBall):
    r"""Hull of all changes of the regression moments, coordinates as in :class:`MomentBody`.

    With :math:`\phi(x, y)` the moments of a record, the hull is P - P, P the hull of the image of
    [-1, 1]^(p+1), and its support function :math:`\max c\cdot\phi - \min c\cdot\phi`. The target
    enters linearly, so it is at a corner. A maximiser x in the smallest possible face of the cube
    is a stationary point of that face at which the Hessian is negative definite (along any other
    direction one could move to a smaller face without loss), so solving one linear system per face
    finds it. Points that leave the cube are clipped: they are only candidates.

    The gauge of u is :math:`\max c \cdot u` over :math:`\max c\cdot\phi - \min c\cdot\phi \le 1`,
    a linear program over finitely many records that grows by those it leaves out, until bounds from
    both sides agree to 1e-6 (relative). Draws are those of the triangle body that lie inside.

    Parameters
    ----------
    p : int
        Number of features, at most 3.

    Examples
    --------
    >>> round(MomentHull(1).gauge([0.0, 2.0, 2.0, 2.0]), 6)
    1.333333
    """

    def __init__(self, p: int) -> None:
        self.p = check_count("p", p, most=3)
        self._outer = MomentBody(self.p, "triangle")
        self.dim, self.names = self._outer.dim, self._outer.names

    def __repr__(self) -> str:
        return f"MomentHull(p={self.p})"

    def bounding_box(self) -> FloatArray:
        return np.full(self.dim, 2.0)

    @property
    def gauge_slack(self) -> float:
        return _GAUGE_SLACK

    def lies_inside(self, other: NormBall) -> bool:
        # every moment body is an outer body of this one
        return isinstance(other, (MomentBody, MomentHull)) and other.p == self.p

    # --- support: faces of the cube ------------------------------------------------------------

    def _support_points(self, c: FloatArray) -> FloatArray:
        return self._best_moments(c) - self._best_moments(-c)

    def _best_moments(self, c: FloatArray) -> FloatArray:
        """The moments of a record at which c . phi is largest, for each row c."""
        candidates = self._candidates(c)
        best = np.einsum("fnd,nd->fn", candidates, c).argmax(axis=0)
        return candidates[best, np.arange(len(c))]

    def _candidates(self, c: FloatArray) -> FloatArray:
        """Moments (face, row, coordinate) of one record per face, the best one among them."""
        faces = product((-1.0, 1.0), *[(-1.0, 0.0, 1.0)] * self.p)
        return np.stack(
            [
                regression_moments(self._stationary(c, y, np.array(pattern)), np.full(len(c), y))
                for y, *pattern in faces
            ]
        )

    def _stationary(self, c: FloatArray, y: float, pattern: FloatArray) -> FloatArray:
        """Stationary points on the face whose free coordinates are the zeros of ``pattern``."""
        p, layout = self.p, self._outer.moments
        free = np.flatnonzero(pattern == 0)
        x = np.tile(pattern, (len(c), 1))
        if free.size:
            hessian = np.zeros((len(c), p, p))
            for j in range(p):
                for k in range(p):
                    place = layout.square[j] if j == k else layout.pair[j + 1, k + 1]
                    hessian[:, j, k] = (4.0 if j == k else 1.0) * c[:, place]
            slope = c[:, layout.pair[0, 1:-1]] + y * c[:, layout.pair[1:-1, -1]] + hessian @ pattern
            inner = hessian[:, free][:, :, free]
            bent = np.abs(np.linalg.det(inner)) > 1e-30
            step = -np.linalg.solve(inner[bent], slope[bent][:, free, None])[:, :, 0]
            x[np.ix_(bent, free)] = np.clip(step, -1.0, 1.0)
        return x

    # --- gauge: a linear program that grows ----------------------------------------------------

    def _gauge(self, x: FloatArray) -> FloatArray:
        return np.array([self._dual(row)[0] for row in x])

    def _normals(self, x: FloatArray) -> FloatArray:
        return np.array([self._dual(row)[1] for row in x]).reshape(x.shape)

    @cached_property
    def _grid(self) -> FloatArray:
        """Moments of the records with features in {-1, 0, 1} and target +-1."""
        z = np.array(list(product(*[(-1.0, 0.0, 1.0)] * self.p, (-1.0, 1.0))))
        return regression_moments(z[:, :-1], z[:, -1])

    def _dual(
        self,
        u: FloatArray,
        tolerance: float = _GAUGE_SLACK,
        *,
        decide: bool = False,
        rounds: int = 300,
    ) -> tuple[float, FloatArray]:
        """Gauge of u and the normal that proves it; ``decide``: only which side of 1 it is on.

        The program over some records bounds the gauge from above; its solution, divided by its true
        dual norm, bounds it from below. Variables: c, then bounds on max c.phi and max -c.phi.
        """
        scale = float(np.abs(u).max())
        if scale == 0.0:
            return 0.0, np.zeros(self.dim)
        records, lower, normal = self._grid, 0.0, np.zeros(self.dim)
        objective = np.append(u / scale, [0.0, 0.0])
        for _ in range(rounds):
            one, zero = np.ones((len(records), 1)), np.zeros((len(records), 1))
            A = np.vstack([np.hstack([records, -one, zero]), np.hstack([-records, zero, -one])])
            A = np.vstack([A, np.append(np.zeros(self.dim), [1.0, 1.0])])
            upper, solution = maximize(objective, A, np.append(np.zeros(len(A) - 1), 1.0))
            c = solution[: self.dim]
            faces = self._candidates(c[None])[:, 0]
            score = faces @ c
            dual_norm = float(score.max() - score.min())
            if upper / dual_norm > lower:
                lower, normal = upper / dual_norm, c / dual_norm
            decided = decide and (scale * upper <= 1.0 or scale * lower > 1.0)
            if decided or upper <= lower * (1 + tolerance):
                return scale * (upper if decided and scale * upper <= 1.0 else lower), normal
            outside = (score > solution[-2]) | (-score > solution[-1])
            records = np.vstack([records, faces[outside]])
        fail("The gauge of the hull did not converge: use MomentBody.", UndecidedError)

    def _inside(self, x: FloatArray) -> NDArray[np.bool_]:
        return np.array([self._dual(row, decide=True)[0] <= 1.0 for row in x], dtype=bool)

    # --- draws and size ------------------------------------------------------------------------

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        points = np.empty((0, self.dim))
        while len(points) < size:
            draws = self._outer._sample(2 * (size - len(points)), rng)
            points = np.vstack([points, draws[self._inside(draws)]])
        return points[:size]

    @property
    def measuring_draws(self) -> int:
        return _DRAWS

    def _volume(self) -> Volume:
        share = float(
            self._inside(self._outer._sample(_DRAWS, SeededSource(MEASURING_SEED))).mean()
        )
        outer = self._outer.volume_info
        error = math.sqrt((1 - share) / (share * _DRAWS))
        return Volume(outer.log_value + math.log(share), math.hypot(outer.standard_error, error))
