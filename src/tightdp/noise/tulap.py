"""Tulap noise: the law that loses nothing at sensitivity one, whole or cut off."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tightdp.accepted import Number
from tightdp.errors import check_real
from tightdp.exact.enclosures import float_up
from tightdp.exact.rates import check_epsilon
from tightdp.noise.lattice_laws import DiscreteTulap
from tightdp.noise.law import SteppedLaw, check_delta, check_sensitivity
from tightdp.noise.steps import Steps


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
        self._exact_epsilon = check_epsilon(epsilon)
        self.epsilon = float_up(self._exact_epsilon)
        self.sensitivity, self._exact_sensitivity = check_sensitivity(sensitivity)
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

    def _shown(self) -> dict[str, Any]:
        return {"epsilon": self.epsilon, "delta": self._delta, "sensitivity": self.sensitivity}
