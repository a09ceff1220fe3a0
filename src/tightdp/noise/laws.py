"""Laplace, truncated Laplace and staircase noise on the line, each with its exact lattice law."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import FloatArray, check_probability
from tightdp.exact.enclosures import float_up
from tightdp.exact.rates import check_epsilon
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    Geometric,
    LatticeSteps,
    TruncatedGeometric,
)
from tightdp.noise.law import (
    SteppedLaw,
    SymmetricLaw,
    check_delta,
    check_sensitivity,
    grid_steps,
)
from tightdp.noise.steps import Steps


class Laplace(SymmetricLaw):
    r"""Laplace noise.

    .. math:: f(x) = \frac{1}{2\lambda} e^{-|x|/\lambda}, \qquad \lambda = \Delta/\epsilon

    **Privacy.**
    Statement: adding X to a real statistic that moves by at most :math:`\Delta` is epsilon-DP;
    at smaller epsilon', :math:`\delta(\epsilon', s) = 1 - e^{(\epsilon' - s/\lambda)/2}`.
    Needs: [P1] :math:`|T(X) - T(X')| \le \Delta`; [P2] real arithmetic.
    Proof: the log density moves by at most :math:`s/\lambda`. By the half-line lemma of
    :class:`~tightdp.noise.law.NoiseLaw` the best event ends at
    :math:`c = (s + \epsilon'\lambda)/2`, and
    :math:`P(X > c - s) - e^{\epsilon'} P(X > c)` is the stated number.
    Numerics: ``idealized-numerics``; :meth:`lattice` gives the exact law
    :class:`~tightdp.noise.lattice_laws.Geometric`, with rate epsilon over the sensitivity in grid
    steps, rounded up.
    References: [6], Example 1; [18], Theorem 3.6.

    Parameters
    ----------
    epsilon : float
        In [2**-40, 2**10].
    sensitivity : float
        :math:`\Delta` > 0.

    Examples
    --------
    >>> law = Laplace(epsilon=1.0, sensitivity=2.0)
    >>> law.scale, law.variance(), law.expected_loss(1)
    (2.0, 8.0, 2.0)
    >>> law.sample_lattice(3, grid=2**-10, rng=1).dtype
    dtype('int64')
    """

    def __init__(self, *, epsilon: Number, sensitivity: Number = 1.0) -> None:
        self._exact_epsilon = check_epsilon(epsilon)
        self.epsilon = float_up(self._exact_epsilon)
        self.sensitivity, self._exact_sensitivity = check_sensitivity(sensitivity)
        self.scale = self.sensitivity / self.epsilon

    def lattice(self, grid: Number) -> Geometric:
        """The discrete Laplace law on the grid, exactly epsilon-DP."""
        return Geometric(epsilon=self._exact_epsilon, sensitivity=self._steps_of(grid))

    def _log_density(self, x: FloatArray) -> FloatArray:
        return -np.abs(x) / self.scale - math.log(2 * self.scale)

    def _tail(self, y: FloatArray) -> FloatArray:
        return 0.5 * np.exp(-y / self.scale)

    def _size_of(self, t: FloatArray) -> FloatArray:
        return -self.scale * np.log(t)

    def _moment(self, p: int) -> float:
        return self.scale if p == 1 else 2 * self.scale**2

    def _shortfall(self, epsilon: float, shift: float) -> float:
        return max(0.0, -math.expm1(min(0.0, (epsilon - shift / self.scale) / 2)))

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        return self.epsilon * (sensitivity / self.sensitivity), 0.0


class TruncatedLaplace(SymmetricLaw):
    r"""Laplace noise cut off where only delta is lost.

    .. math:: f(x) = B e^{-|x|/\lambda}, \quad |x| \le A, \qquad
              A = \lambda \ln\Bigl(1 + \frac{e^{\epsilon} - 1}{2\delta}\Bigr), \quad
              B = \frac{1}{2\lambda(1 - e^{-A/\lambda})}, \quad \lambda = \Delta/\epsilon .

    **Privacy.**
    Statement: adding X to a real statistic that moves by at most :math:`\Delta` is
    (epsilon, delta)-DP, and delta is reached.
    Needs: [P1] :math:`|T(X) - T(X')| \le \Delta`; [P2] :math:`\delta \le 1/2`, so that
    :math:`A \ge \Delta`; [P3] real arithmetic.
    Proof: (1) where both densities are positive their log ratio is at most
    :math:`s/\lambda \le \epsilon`. (2) What is left is the mass that the moved law does not cover,
    :math:`P(X > A - s)`, largest at :math:`s = \Delta`. (3) With :math:`a = A/\lambda` and
    :math:`e^{a} = 1 + (e^\epsilon - 1)/(2\delta)`, :math:`P(X > A - \Delta) =
    (e^{\epsilon} - 1) / (2 (e^{a} - 1)) = \delta`.
    Numerics: ``idealized-numerics``; :meth:`lattice` gives the exact law
    :class:`~tightdp.noise.lattice_laws.TruncatedGeometric`.
    Erratum (E41): the formulas of [5] are right; "/2 delta" means /(2 delta), and delta <= 1/2 is
    needed. They are computed with ``expm1`` and ``log1p``: at epsilon = 1e-9 nothing is lost.
    References: [5], "Truncated Laplace distribution"; Q. Geng, W. Ding, R. Guo and S. Kumar (2020),
    Tight analysis of privacy and utility tradeoff in approximate differential privacy, *AISTATS*,
    Definition 3.

    Parameters
    ----------
    epsilon : float
        In [2**-40, 2**10].
    delta : float
        In [2**-256, 1/2].
    sensitivity : float
        :math:`\Delta` > 0.

    Examples
    --------
    >>> law = TruncatedLaplace(epsilon=1.0, delta=0.2)
    >>> round(law.bound, 8), round(law.expected_loss(1), 8), round(law.variance(), 8)
    (1.66689603, 0.61196213, 0.57710549)
    """

    def __init__(self, *, epsilon: Number, delta: Number, sensitivity: Number = 1.0) -> None:
        self._exact_epsilon = check_epsilon(epsilon)
        self.epsilon = float_up(self._exact_epsilon)
        self._delta = check_delta(delta, 0.5, " The bound A must reach the sensitivity.")  # [P2]
        self.sensitivity, self._exact_sensitivity = check_sensitivity(sensitivity)
        self.scale = self.sensitivity / self.epsilon
        # a = log(1 + expm1(epsilon)/(2 delta)), with log expm1(x) = x + log(-expm1(-x))
        log_odds = self.epsilon + math.log(-math.expm1(-self.epsilon)) - math.log(2 * self._delta)
        self._a = float(np.logaddexp(0.0, log_odds))
        self.bound = self.scale * self._a  # A

    def lattice(self, grid: Number) -> TruncatedGeometric:
        """The truncated discrete Laplace law on the grid, exactly (epsilon, delta)-DP."""
        return TruncatedGeometric(
            epsilon=self._exact_epsilon, delta=self._delta, sensitivity=self._steps_of(grid)
        )

    def _log_density(self, x: FloatArray) -> FloatArray:
        y = np.abs(x)
        inside = -y / self.scale - math.log(2 * self.scale * -math.expm1(-self._a))
        return np.where(y <= self.bound, inside, -np.inf)

    def _tail(self, y: FloatArray) -> FloatArray:
        # (exp(-y) - exp(-a)) / (2 (1 - exp(-a))) for y in units of the scale
        u = np.minimum(y / self.scale, self._a)
        return 0.5 * np.exp(-u) * np.expm1(u - self._a) / math.expm1(-self._a)

    def _size_of(self, t: FloatArray) -> FloatArray:
        # exp(-y) = exp(-a) + t (1 - exp(-a)) = 1 + (1 - t) expm1(-a)
        inner = np.log1p((1 - t) * math.expm1(-self._a))
        if self._a > 1:  # far out the first form is the sharper one
            outer = np.logaddexp(-self._a, np.log(t) + math.log(-math.expm1(-self._a)))
            inner = np.where(t < 0.5, outer, inner)
        return self.scale * np.minimum(-inner, self._a)

    def _moment(self, p: int) -> float:
        # scale**p times the integral of u**p exp(-u) over [0, a], over 1 - exp(-a)
        from scipy.special import gammainc

        whole = math.factorial(p) * float(gammainc(p + 1, self._a))
        return self.scale**p * whole / -math.expm1(-self._a)

    def _shortfall(self, epsilon: float, shift: float) -> float:
        # The best event is {X > c - shift}; the moved law keeps exp(epsilon) P(X > c) of it.
        moved = shift / self.scale
        rest = 0.0 if epsilon >= moved else max(0.0, self._a - (moved + epsilon) / 2)  # A - c
        return max(0.0, self._last(rest + moved, 0.0) - self._last(rest, epsilon))

    def _last(self, length: float, epsilon: float) -> float:
        """exp(epsilon) P(X > A - length * scale)."""
        if length > self._a:
            return 1.0 if length >= 2 * self._a else 1 - self._last(2 * self._a - length, 0.0)
        part = math.expm1(-length) / math.expm1(-self._a)
        return 0.5 * math.exp(epsilon + length - self._a) * part

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        if sensitivity == self.sensitivity:
            return self.epsilon, self._delta
        moved = sensitivity / self.scale
        return moved, self._shortfall(moved, sensitivity)

    def _shown(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self._delta, "sensitivity": self.sensitivity}


class Staircase(SteppedLaw):
    r"""Staircase noise, the law with the least :math:`E|X|` of all epsilon-DP noise on the line.

    .. math:: f(x) = a\,e^{-\epsilon \ell(x)}, \quad
              \ell(x) = \lfloor |x|/\Delta + 1 - \gamma \rfloor, \qquad
              a = \frac{1 - e^{-\epsilon}}{2\Delta(\gamma + e^{-\epsilon}(1 - \gamma))} .

    **Privacy.**
    Statement: adding X to a real statistic that moves by at most :math:`\Delta` is epsilon-DP.
    Needs: [P1] :math:`|T(X) - T(X')| \le \Delta`; [P2] real arithmetic.
    Proof: :math:`|x - s| \le |x| + \Delta` gives :math:`\ell(x - s) \le \ell(x) + 1`; the
    normaliser does not depend on the statistic.
    Numerics: ``idealized-numerics``; :meth:`lattice` gives the exact law
    :class:`~tightdp.noise.lattice_laws.DiscreteStaircase`.
    References: [17]: for :math:`E|X|` the best :math:`\gamma` is
    :math:`1/(1 + e^{\epsilon/2})`, and then :math:`E|X| = \Delta e^{\epsilon/2}/(e^\epsilon - 1)`.

    Parameters
    ----------
    epsilon : float
        In [2**-40, 2**10].
    sensitivity : float
        :math:`\Delta` > 0.
    core_share : float, optional
        :math:`\gamma` in (0, 1); the best for :math:`E|X|` by default.

    Examples
    --------
    >>> law = Staircase(epsilon=1.0)
    >>> round(law.expected_loss(1), 5), round(Laplace(epsilon=1.0).expected_loss(1), 5)
    (0.95952, 1.0)
    """

    def __init__(
        self, *, epsilon: Number, sensitivity: Number = 1.0, core_share: float | None = None
    ) -> None:
        self._exact_epsilon = check_epsilon(epsilon)
        self.epsilon = float_up(self._exact_epsilon)
        self.sensitivity, self._exact_sensitivity = check_sensitivity(sensitivity)
        self._best = core_share is None
        if core_share is None:
            half = math.exp(-self.epsilon / 2)
            core_share = half / (1 + half)
        self.core_share = check_probability("core_share", core_share)
        self._steps = Steps(self.epsilon, self.sensitivity, self.core_share * self.sensitivity)

    def lattice(self, grid: Number) -> LatticeSteps:
        """The discrete staircase law on the grid, exactly epsilon-DP."""
        width = grid_steps(self._exact_sensitivity, grid)
        core = None if self._best else min(max(round(self.core_share * width), 1), width)
        return DiscreteStaircase(epsilon=self._exact_epsilon, sensitivity=width, core=core)

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        return self.epsilon * math.ceil(Fraction(sensitivity) / Fraction(self.sensitivity)), 0.0

    def _shown(self) -> dict[str, Any]:
        return {**super()._shown(), "core_share": self.core_share}
