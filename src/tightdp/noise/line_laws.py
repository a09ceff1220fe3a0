"""Laplace, staircase and Tulap noise on the line, whole or cut off, each with its lattice law."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import FloatArray, check_probability, check_real
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    DiscreteTulap,
    Geometric,
    LatticeSteps,
    TruncatedGeometric,
)
from tightdp.noise.law import (
    SteppedLaw,
    SymmetricLaw,
    check_delta,
    grid_steps,
)
from tightdp.noise.steps import Steps
from tightdp.parameters import tells_arguments


@tells_arguments
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
    References: Dwork and others (2006), Example 1; Dwork and Roth (2014), Theorem 3.6.

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
        super().__init__(epsilon, sensitivity)
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


@tells_arguments
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
    Erratum (E41): the formulas of Selvi and others (2025) are right; "/2 delta" means /(2 delta),
    and delta <= 1/2 is needed. They are computed with ``expm1`` and ``log1p``: at epsilon = 1e-9
    nothing is lost. References: Selvi and others (2025), "Truncated Laplace distribution"; Q. Geng,
    W. Ding, R. Guo and S. Kumar (2020), Tight analysis of privacy and utility tradeoff in
    approximate differential privacy, *AISTATS*, Definition 3.

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
        super().__init__(epsilon, sensitivity)
        self._delta = check_delta(delta, "1/2]", "the bound A must reach the sensitivity")  # [P2]
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


@tells_arguments
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
    References: Geng and others (2015): for :math:`E|X|` the best :math:`\gamma` is
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
        super().__init__(epsilon, sensitivity)
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


@tells_arguments
class Tulap(SteppedLaw):
    r"""Truncated uniform-Laplace noise, the canonical noise of (epsilon, delta)-DP.

    X is :math:`\Delta(G_1 - G_2 + U)` given that its distribution function lies in
    :math:`[q/2, 1 - q/2]`; :math:`G_i` geometric with ratio :math:`b = e^{-\epsilon}`, U uniform on
    (-1/2, 1/2), :math:`q = 2\delta b/(1 - b + 2\delta b)`. So the density is a staircase with steps
    at :math:`\pm\Delta/2, \pm 3\Delta/2, \dots`, cut off at A with :math:`P(X > A) = q/2` before
    the cut.

    **Privacy.**
    Statement: adding X to a statistic that moves by at most :math:`\Delta` is (epsilon, delta)-DP.
    Of a movement by exactly :math:`\Delta` every test has the power that (epsilon, delta) allows,
    no less: the noise is canonical.
    Needs: [P1] :math:`|T(X) - T(X')| \le \Delta`; [P2] real arithmetic.
    Proof: (1) on the common support the levels differ by one at most, as for the staircase. (2) The
    upper tail of the whole law obeys :math:`P(X > x - \Delta) = P(X > x)/b` for
    :math:`x \ge \Delta/2`, and :math:`A \ge \Delta/2` because :math:`q/2 \le b/(1+b)` for
    :math:`\delta \le 1`. So the mass that is not covered is
    :math:`(q/2)(1/b - 1)/(1 - q) = \delta`; smaller movements uncover less.
    Numerics: ``idealized-numerics``; :meth:`lattice` gives the exact law
    :class:`~tightdp.noise.lattice_laws.DiscreteTulap`.
    References: J. Awan and A. Slavković (2018), Differentially private uniformly most powerful
    tests for binomial data, *NeurIPS* 31; J. Awan and S. Vadhan (2023), Canonical
    noise distributions and private hypothesis tests, *Annals of Statistics* 51(2).

    Parameters
    ----------
    epsilon : float
        In [2**-40, 2**10].
    delta : float
        0, or in [2**-256, 1).
    sensitivity : float
        :math:`\Delta` > 0.

    Examples
    --------
    >>> law = Tulap(epsilon=1.0, delta=0.01)
    >>> round(law.delta(1.0, 1.0), 12), round(law.bound, 6)
    (0.01, 4.402295)
    """

    def __init__(self, *, epsilon: Number, delta: Number = 0.0, sensitivity: Number = 1.0) -> None:
        super().__init__(epsilon, sensitivity)
        self._delta = 0.0 if check_real("delta", delta) == 0 else check_delta(delta)
        width = self.sensitivity
        whole = Steps(self.epsilon, width, width / 2)
        self.bound = math.inf
        if self._delta > 0:
            # q = 2 delta b / (1 - b + 2 delta b)
            twice = 2 * self._delta
            share = twice / (math.expm1(min(self.epsilon, 700.0)) + twice)
            self.bound = float(whole.size_of(share)) * (1 + 2.0**-50)  # to the private side
        self._steps = Steps(self.epsilon, width, width / 2, self.bound)

    def lattice(self, grid: Number) -> DiscreteTulap:
        """The Tulap law on the grid, exactly (epsilon, delta)-DP."""
        return DiscreteTulap(
            epsilon=self._exact_epsilon, delta=self._delta, sensitivity=self._steps_of(grid)
        )

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        if sensitivity == self.sensitivity:
            return self.epsilon, self._delta
        spent = self.epsilon * math.ceil(Fraction(sensitivity) / Fraction(self.sensitivity))
        return spent, self._worst_shortfall(spent, sensitivity)
