"""Certified minimisers of strongly convex objectives: how far the answer is from the true one.

The objective is ``sum_i loss(theta . x_i, y_i) + (ridge / 2) |theta|^2 + V . theta + r(theta)``
with a convex ``r`` that may be a penalty, or infinite outside a convex set. The unknown is the
point ``p = theta + c * nu`` with ``nu`` in the subdifferential of ``r`` at ``theta``, so that
``theta = prox(p)``. The residual ``F(p) = G(theta) + (p - theta) / c`` is zero at the minimiser,
and a point with residual e minimises the objective for ``V - e`` exactly: its distance from the
true minimiser is at most ``|e| / ridge``. Floating-point error of ``F`` is counted in e.

What is minimised is a :class:`~tightdp.convex.objectives.RowObjective`.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal, localcontext
from typing import Any

import numpy as np

from tightdp.convex import decimals as wide
from tightdp.convex.objectives import Derivatives, Precision, RowObjective
from tightdp.convex.penalties import Penalty
from tightdp.errors import FloatArray, TightdpError, fail

_MOST_STEPS, _HALVINGS, _DESCENTS = 500, 4, 40
_MODEL_STEPS, _POLISHING = 10_000, 8
_WITHIN_ROUNDING = 64.0
_LEAST_CAUTION = 2.0**-40
_NEAR = 1e-3  # moves of every margin by less leave the Hessian as it is


class ConvergenceError(TightdpError):
    """No point within the promised distance of the minimiser was found."""


@dataclass(frozen=True, slots=True)
class Certified:
    """A minimiser, and a bound on its Euclidean distance from the exact one."""

    theta: FloatArray
    distance: float
    steps: int


def minimise(objective: RowObjective, tolerance: float) -> Certified:
    """Find a point whose residual, floating-point error included, is at most ``tolerance``.

    Newton's method on the residual where it shrinks fast; elsewhere the minimum of a parabola that
    is nowhere below the objective, which always leads down, whatever kinks there are. The gradient
    is taken in extended precision if doubles cannot certify the tolerance, and in as many digits as
    there must be for that many rows if extended precision cannot; so none are too many.
    """
    with localcontext(wide.context(len(objective.rows))):
        return _search(objective, tolerance)


def _search(objective: RowObjective, tolerance: float) -> Certified:
    search = _Search(objective, tolerance)
    for step in range(_MOST_STEPS):
        size, error = search.size, search.rounding()
        if size + error <= tolerance:
            return Certified(search.theta, (size + error) / objective.convexity, step)
        if error > 0.75 * tolerance and size <= 4.0 * error and search.refine():
            continue
        search.advance()
    fail(
        "The minimiser could not be certified to the promised distance; nothing was released. "
        "A larger `ridge` or a smaller `theta_set` makes the problem easier.",
        ConvergenceError,
    )


class _Search:
    """The current point p, with what is known there."""

    def __init__(self, objective: RowObjective, tolerance: float) -> None:
        self.objective, self.tolerance = objective, tolerance
        self.precision = Precision.FAST
        self.caution = 1.0
        self.moved = 0.0  # in p, since the Hessian was taken
        self.best = math.inf  # the least residual that a Newton step has led to
        start = np.zeros(objective.width)
        self.here = objective.derivatives(start)
        # one over a bound on the largest eigenvalue, so that proximal gradient steps converge
        bound = objective.loss.curvature * objective.rows.size + np.trace(self.here.hessian)
        self.c = 1.0 / float(bound)
        self._take(start, *self._at(start))

    def _at(self, p: FloatArray, *, near: bool = False) -> tuple[FloatArray, Derivatives, float]:
        """Parameters, derivatives and the size of the residual; ``near`` keeps the Hessian."""
        theta = self._prox(p)[0]
        if self.precision is Precision.DECIMAL:  # kinks are seen as finely as the point is known
            here = self.objective.in_decimals(theta)
            return theta, here, float(np.linalg.norm(self._residual(p, theta, here)))
        precise = self.precision is not Precision.FAST
        here = self.here
        if not (precise and near):
            here = self.objective.derivatives(theta.astype(np.float64))
        if precise:
            here = here._replace(gradient=self.objective.gradient(theta, self.precision))
        return theta, here, float(np.linalg.norm(self._residual(p, theta, here)))

    def _prox(self, p: FloatArray) -> tuple[FloatArray, FloatArray]:
        if self.precision is Precision.DECIMAL:
            return wide.prox(self.objective.penalty, p, Decimal(self.c))
        return self.objective.penalty.prox(p, self.c)

    def _residual(self, p: FloatArray, theta: FloatArray, here: Derivatives) -> FloatArray:
        c: Any = Decimal(self.c) if self.precision is Precision.DECIMAL else self.c
        return np.asarray(here.gradient + (p - theta) / c, dtype=np.float64)

    def _alike(self, values: FloatArray) -> FloatArray:
        """Numbers in the precision of the point."""
        if self.precision is Precision.DECIMAL:
            return wide.decimals(values)
        return values.astype(self.p.dtype)

    def _take(self, p: FloatArray, theta: FloatArray, here: Derivatives, size: float) -> None:
        self.p, self.theta, self.here, self.size = p, theta, here, size

    def rounding(self) -> float:
        """Floating-point error of the residual."""
        # the Hessian may be that of a nearby point: curvatures there differ by less than a tenth
        objective, theta = self.objective, self.theta
        exact = self.precision is Precision.DECIMAL
        theta = theta.astype(np.float64) if exact else theta
        found = objective.rounding(theta, 1.1 * self.here.bend, self.precision)
        if objective.penalty.smooth:
            return found
        # a proximal map is rounded, too: 1 / c bounds what that does to the gradient
        if exact:
            far = float(np.linalg.norm(self.p.astype(np.float64)))
            return found + (len(theta) + 8) * 2.0 * wide.unit(len(objective.rows)) * far / self.c
        return found + objective.penalty.error(self.p) / self.c

    def refine(self) -> bool:
        """Sum more precisely from here on; False if that is not possible."""
        if self.precision is Precision.DECIMAL or (
            self.precision is Precision.EXTENDED and not self._needs_decimals()
        ):
            return False
        self.precision = Precision(self.precision + 1)
        self.best = math.inf  # what was less may have been rounding
        p: Any = self.p  # the point itself gets finer
        if self.precision is Precision.EXTENDED:
            p = p.astype(np.longdouble)
        elif self.precision is Precision.DECIMAL:
            p = wide.decimals(p)
        self._take(p, *self._at(p, near=True))
        return True

    def _needs_decimals(self) -> bool:
        """Whether extended precision is too coarse, and more is to be had."""
        known = wide.has_decimals(self.objective.loss, self.objective.penalty)
        return known and self.rounding() > 0.5 * self.tolerance

    def advance(self) -> None:
        """A Newton step if it shrinks the residual well; else a step that is sure to lead down.

        The residual must fall below all that Newton steps have reached before: they may lead up in
        the objective, and would else undo what the sure steps gain, in circles.
        """
        slope = self._prox(self.p)[1].astype(np.float64)
        rest = (np.eye(len(self.p)) - slope) / self.c
        residual = self._residual(self.p, self.theta, self.here)
        newton = self.here.hessian @ slope + rest
        direction = np.asarray(np.linalg.solve(newton, residual), dtype=np.float64)
        moved = self.moved + float(np.abs(direction).sum())
        near = moved <= _NEAR
        for halving in range(_HALVINGS):
            trial = self.p - self._alike(direction / 2.0**halving)
            found = self._at(trial, near=near)
            if found[2] <= min(self.size, self.best) * (1.0 - 0.25 / 2.0**halving):
                self.best = found[2]
                kept = near and self.precision is not Precision.FAST
                self.moved = moved if kept else 0.0
                return self._take(trial, *found)
        if self.size <= _WITHIN_ROUNDING * self.rounding() and self.refine():
            return None  # nothing but rounding was left to shrink
        return self._descend()

    def _descend(self) -> None:
        """A move that is sure to lead down, then a proximal gradient step.

        The Hessian H of the model lies between that of the objective and that of a parabola above
        it. The minimum of the model makes -(gradient + H d) a subgradient of the penalty at its
        end, so along the move d the objective falls at least as fast as the integral of
        D(t) = (gradient(t) - gradient(0)) . d - d H d, which grows with t. If D(1/2) + D(1) is well
        below zero, the objective is lower at the end; for the parabola it is. The model leans to
        the objective after a success and to the parabola after a failure.
        """
        objective, theta = self.objective, self.theta.astype(np.float64)
        start, above = objective.derivatives(theta), objective.majorant(theta)
        for _ in range(_DESCENTS):
            hessian = start.hessian + self.caution * (above - start.hessian)
            move = _to_the_minimum(objective.penalty, theta, start.gradient, hessian)
            end, middle = (objective.derivatives(theta + t * move).gradient for t in (1.0, 0.5))
            drop = float(move @ hessian @ move)
            if (end + middle - 2.0 * start.gradient) @ move <= 1.8 * drop:
                self.caution = max(self.caution / 8.0, _LEAST_CAUTION)
                break
            self.caution *= 4.0  # beyond 1 where a smooth penalty or rounding asks for it
        step = self._alike(theta + move - self.c * end)  # as precise as before
        self.moved = 0.0
        self._take(step, *self._at(step))


def _to_the_minimum(
    penalty: Penalty, theta: FloatArray, gradient: FloatArray, hessian: FloatArray
) -> FloatArray:
    """The move to the minimum of ``gradient . d + d H d / 2`` plus the penalty; no row is read.

    Accelerated proximal gradient steps, restarted where they turn back, and now and then Newton
    steps, which finish once the right face of the penalty is found.
    """
    if penalty.smooth:
        return -np.asarray(np.linalg.solve(hessian, gradient))
    c = 1.0 / float(np.linalg.eigvalsh(hessian)[-1])
    here, ahead, speed = theta, theta, 1.0
    for k in range(_MODEL_STEPS):
        p = ahead - c * (gradient + hessian @ (ahead - theta))
        found = penalty.prox(p, c)[0]
        back = ahead - found
        if np.linalg.norm(back) <= 1e-6 * np.linalg.norm(found - theta):
            return found - theta
        finish = _polished(penalty, theta, gradient, hessian, p, c) if k % 32 == 0 else None
        if finish is not None:
            return finish - theta
        if back @ (found - here) > 0:
            here, ahead, speed = found, found, 1.0
            continue
        faster = (1.0 + math.sqrt(1.0 + 4.0 * speed * speed)) / 2.0
        here, ahead, speed = found, found + (speed - 1.0) / faster * (found - here), faster
    return here - theta


def _polished(
    penalty: Penalty,
    theta: FloatArray,
    gradient: FloatArray,
    hessian: FloatArray,
    p: FloatArray,
    c: float,
) -> FloatArray | None:
    """The minimum of the model by Newton steps from p, or None if they do not reach it."""
    small = 1e-9 * float(np.linalg.norm(gradient))
    for _ in range(_POLISHING):
        found, slope = penalty.prox(p, c)
        residual = gradient + hessian @ (found - theta) + (p - found) / c
        if np.linalg.norm(residual) <= small:
            return found
        p = p - np.linalg.solve(hessian @ slope + (np.eye(len(p)) - slope) / c, residual)
    return None
