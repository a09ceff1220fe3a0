"""Convex penalties and parameter sets, each given by its proximal map."""

from __future__ import annotations

import itertools
from abc import ABC, abstractmethod
from collections.abc import Callable

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import (
    DimensionError,
    FloatArray,
    check_function,
    check_instance,
    check_positive,
    check_within,
    fail,
)
from tightdp.geometry.norm_balls import LpBall


class Penalty(ABC):
    """A convex function ``r`` given by its proximal map, or a smooth one by its gradient."""

    strength: float = 0.0  # its strong convexity, which counts towards the ridge that privacy needs
    smooth: bool = False  # whether the proximal map is the identity, the penalty being smooth
    reach: float = np.inf  # a bound on the Euclidean length of parameters

    def gradient(self, theta: FloatArray) -> FloatArray:
        """Gradient of the smooth part."""
        return np.zeros_like(theta)

    def hessian(self, theta: FloatArray) -> FloatArray:
        """Hessian of the smooth part; serves the speed of the search only."""
        return np.zeros((len(theta), len(theta)))

    def error(self, p: FloatArray) -> float:
        """A bound on the Euclidean floating-point error of :meth:`prox`, which may depend on p."""
        return (len(p) + 8) * float(np.finfo(p.dtype).eps) * float(np.linalg.norm(p))

    @abstractmethod
    def prox(self, p: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
        """``argmin c r(theta) + |theta - p|^2 / 2`` for the rest, and its derivative (m, m)."""


class NoPenalty(Penalty):
    """The whole space, nothing added."""

    smooth = True

    def prox(self, p: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
        return p, np.eye(len(p))

    def __repr__(self) -> str:
        return "no penalty"


class Lasso(Penalty):
    """``weight * sum |theta_j|``: together with the ridge, the elastic net."""

    def __init__(self, weight: float) -> None:
        self.weight = weight

    def prox(self, p: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
        cut = c * self.weight
        return p - np.clip(p, -cut, cut), np.diag((np.abs(p) > cut).astype(np.float64))

    def __repr__(self) -> str:
        return f"l1 penalty {self.weight!r}"


class Within(Penalty):
    """Parameters in a ball around zero with p = 1, 2 or inf: projections in closed form."""

    def __init__(self, ball: LpBall) -> None:
        self.ball = ball
        radius = ball.radius
        self.reach = float(np.linalg.norm(radius) if ball.p == np.inf else radius[0])

    def prox(self, p: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
        radius = self.ball.radius
        if self.ball.p == np.inf:
            return np.clip(p, -radius, radius), np.diag((np.abs(p) < radius).astype(np.float64))
        eye, r = np.eye(len(p)), float(radius[0])
        if self.ball.p == 2.0:
            length = np.linalg.norm(p)
            if length <= r:
                return p, eye
            unit = p / length
            return r * unit, r / length * (eye - np.outer(unit, unit))
        if np.abs(p).sum() <= r:
            return p, eye
        sizes = np.sort(np.abs(p))[::-1]
        cuts = (np.cumsum(sizes) - r) / np.arange(1, len(p) + 1)
        cut = cuts[np.flatnonzero(sizes > cuts)[-1]]
        sign = np.where(np.abs(p) > cut, np.sign(p), 0.0)
        return p - np.clip(p, -cut, cut), np.diag(np.abs(sign)) - np.outer(sign, sign) / (
            sign @ sign
        )

    def error(self, p: FloatArray) -> float:
        inside = float(self.ball.gauge(p.astype(np.float64))) < 1.0 - 1e-9
        return 0.0 if inside else super().error(p)  # points of the set stay what they are

    def __repr__(self) -> str:
        radius = self.ball.radius.tolist()
        sides = radius[0] if len(set(radius)) == 1 else radius
        return f"parameters in the l{self.ball.p:g} ball of radius {sides!r}"


class ConvexSet(Penalty):
    """Parameters in a bounded closed convex set of one's own, given by its projection.

    Parameters
    ----------
    project : callable
        A point (m,) to the nearest point (m,) of the set. Taken on trust: the guarantee rests on
        its being the projection onto a convex set.
    reach : float
        A bound on ``sum |theta_j|`` over the set, which bounds the margins of rows.
    accuracy : float
        Error of the projection relative to the lengths of the two points.
    name : str
        Enters the fingerprint of a request: the same key must mean the same set.

    Examples
    --------
    >>> positive = ConvexSet(lambda p: np.clip(p, 0, 2), reach=4.0, name="[0, 2]^2")
    >>> positive.prox(np.array([-1.0, 1.5]), 1.0)[0]
    array([0. , 1.5])
    """

    def __init__(
        self,
        project: Callable[[FloatArray], FloatArray],
        *,
        reach: float,
        accuracy: float = 2.0**-50,
        name: str = "convex set",
    ) -> None:
        check_function("project", project, "from a point to the nearest point of the set")
        self._project, self._name = project, str(name)
        self.reach = check_positive("reach", reach)
        self.accuracy = max(check_positive("accuracy", accuracy), 2.0**-52)  # points are doubles

    def prox(self, p: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
        point = np.asarray(p, dtype=np.float64)
        step = 1e-6 * max(1.0, float(np.abs(point).max()))
        sides = [self._at(point + step * e) - self._at(point - step * e) for e in np.eye(len(p))]
        slope = np.column_stack(sides) / (2.0 * step)  # serves the direction of the search only
        return self._at(point).astype(p.dtype), slope

    def _at(self, point: FloatArray) -> FloatArray:
        return np.asarray(self._project(point.copy()), dtype=np.float64)

    def error(self, p: FloatArray) -> float:
        return 2.0 * self.accuracy * (float(np.linalg.norm(p)) + self.reach)

    def check(self, width: int) -> None:
        """Raise if this cannot be a projection in so many dimensions; looks at public points."""
        sides = (-2.0, -0.01, 0.01, 2.0)
        points = [np.zeros(width), *(s * self.reach * e for e in np.eye(width) for s in sides)]
        ends = []
        for point in points:
            end = self._at(point)
            if end.shape != (width,):
                fail(f"`theta_set` must project points of dimension {width}.", DimensionError)
            if not np.isfinite(end).all() or np.abs(end).sum() > self.reach * (1.0 + 1e-9):
                fail("`theta_set` must be a non-empty convex set within its `reach`.")
            if np.linalg.norm(self._at(end) - end) > 1e-9 * self.reach:
                fail("`theta_set` must leave the points of the set where they are.")
            ends.append(end)
        for first, second in itertools.combinations(range(len(points)), 2):
            near = np.linalg.norm(ends[first] - ends[second])
            if near > np.linalg.norm(points[first] - points[second]) * (1.0 + 1e-9):
                fail("`theta_set` must not move points apart: no projection on a convex set does.")

    def __repr__(self) -> str:
        return f"parameters in {self._name}, within {self.reach!r}"


class Smooth(Penalty):
    """A differentiable convex penalty of one's own.

    Parameters
    ----------
    gradient : callable
        Parameters (m,) to the gradient (m,).
    hessian : callable, optional
        To the Hessian (m, m); serves speed only.
    strength : float
        A lower bound on the eigenvalues of the Hessian, taken on trust: the guarantee rests on it.
    name : str
        Enters the fingerprint of a request: the same key must mean the same penalty.
    """

    smooth = True

    def __init__(
        self,
        gradient: Callable[[FloatArray], FloatArray],
        hessian: Callable[[FloatArray], FloatArray] | None = None,
        *,
        strength: float = 0.0,
        name: str = "smooth penalty",
    ) -> None:
        check_function("gradient", gradient, "of the parameters")
        self._gradient, self._hessian, self._name = gradient, hessian, name
        self.strength = check_within("strength", strength, "[0, inf)", "a penalty is convex")

    def gradient(self, theta: FloatArray) -> FloatArray:
        return np.asarray(self._gradient(theta), dtype=np.float64)

    def hessian(self, theta: FloatArray) -> FloatArray:
        if self._hessian is None:
            return self.strength * np.eye(len(theta))
        return np.asarray(self._hessian(theta), dtype=np.float64)

    def prox(self, p: FloatArray, c: float) -> tuple[FloatArray, FloatArray]:
        return p, np.eye(len(p))

    def __repr__(self) -> str:
        return self._name


def read_penalty(l1: Number, penalty: object, theta_set: object, width: int) -> Penalty:
    """The one penalty that these parameters ask for, in ``width`` dimensions."""
    weight = check_within("l1", l1, "[0, inf)")
    if (weight > 0) + (penalty is not None) + (theta_set is not None) > 1:
        fail("Give at most one of `l1`, `penalty` and `theta_set`.")
    if penalty is not None:
        return check_instance("penalty", penalty, Penalty, "such as Smooth")
    if theta_set is None:
        return Lasso(weight) if weight > 0 else NoPenalty()
    if isinstance(theta_set, ConvexSet):
        theta_set.check(width)
        return theta_set
    if not isinstance(theta_set, LpBall) or theta_set.p not in (1.0, 2.0, np.inf):
        fail(
            "`theta_set` must be an LpBall with p = 1, 2 or inf, or a ConvexSet, which is given by "
            "its projection."
        )
    if theta_set.p != np.inf and np.ptp(theta_set.radius) > 0:
        fail("`theta_set` must have one radius unless p is inf.")
    if theta_set.dim != width:
        fail(
            f"`theta_set` must have one dimension for each of the {width} parameters. Got "
            f"{theta_set.dim}.",
            DimensionError,
        )
    return Within(theta_set)
