"""Exact noise on the integers: geometric and staircase laws, whole or cut off.

One family holds them all (:class:`LatticeSteps`); its members differ in how wide a step is and
where the law ends. Every number that privacy rests on is a rational, or an exponential enclosed by
rationals; floats describe the laws (moments, tails), they do not decide.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import FloatArray, WideIntegers, check_count, exact_amount
from tightdp.exact.discrete_draws import SAFE, collect, discrete_laplaces, geometrics, rate
from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.lattice_body import box_points
from tightdp.exact.undecided_bits import coins
from tightdp.noise.law import LatticeLaw, check_delta, check_shift
from tightdp.noise.steps import Steps
from tightdp.parameters import tells_arguments
from tightdp.privacy import float_up
from tightdp.randomness import RandomSource

_BITS = 512


@lru_cache(maxsize=256)  # laws are few, and every draw begins with this
def _heart_missed(eta: Fraction, core: int, width: int, bits: int) -> tuple[int, int]:
    places = bits + width.bit_length() + 8
    heart, run, one = 2 * core - 1, 2 * width, 1 << places
    low, high = exp_minus_bounds(eta, places)
    low_part = (run * low << bits) // (heart * (one - low) + run * low)
    return low_part, -(-(run * high << bits) // (heart * (one - high) + run * high))


class LatticeSteps(LatticeLaw):
    r"""Integers z with :math:`P(z) \propto e^{-\eta\,\ell(z)}`, :math:`|z| \le M`.

    The level :math:`\ell(z) = \lfloor (|z| + w - r)/w \rfloor` is 0 for :math:`|z| < r` and one
    more for every w; :math:`\eta = \epsilon / \lceil L/w \rceil` is rational; M may be infinite.

    **Privacy.**
    Statement: adding Z to an integer statistic that moves by at most L is epsilon-DP when M is
    infinite, and else (epsilon, delta)-DP with delta = :math:`P(Z > M - L)`, the least possible at
    this epsilon.
    Needs: [P1] integers, :math:`|t(X) - t(X')| \le L`; [P2] Z has the law above.
    Proof: (1) for integers :math:`|s| \le L`, :math:`|z - s| \le |z| + L`, so
    :math:`\ell(z - s) \le \lfloor (|z| + w\lceil L/w \rceil + w - r)/w \rfloor
    = \ell(z) + \lceil L/w \rceil`, hence :math:`P(z) \le e^{\epsilon} P(z - s)` wherever
    :math:`|z - s| \le M`. (2) The normaliser does not depend on the statistic. (3) What is left is
    the mass where :math:`|z - s| > M \ge |z|`: the last :math:`|s|` points on one side,
    :math:`P(Z > M - |s|)`, largest for :math:`|s| = L`.
    M is the least integer for which :math:`P(Z > M - L) \le \delta` is proved with rational bounds
    of :math:`e^{-\eta n}` [P3]; a rational epsilon with a very long denominator is rounded down.
    Numerics: ``exact``.

    Parameters
    ----------
    epsilon : float
        In [2**-40, 2**10], taken as the exact rational it is.
    sensitivity : int
        L >= 1.
    width : int
        w >= 1.
    core : int
        r in 1..w.
    delta : float
        0 for the whole law.

    Examples
    --------
    >>> law = LatticeSteps(epsilon=1.0, sensitivity=4, width=4, core=2, delta=0.01)
    >>> law.reach, round(law.guarantee().delta, 10)
    (17, 0.009677323)
    """

    reach: int | None
    """M, or None for the whole line."""

    def __init__(
        self, *, epsilon: Number, sensitivity: int, width: int, core: int, delta: float = 0.0
    ) -> None:
        self.sensitivity = check_count("sensitivity", sensitivity, most=1 << 60)
        self.width = check_count("width", width, most=1 << 60)  # twice as much is 64 bits long
        self.core = check_count("core", core, most=self.width)
        self.rate = rate(epsilon, -(-self.sensitivity // self.width))
        self._eta = Fraction(*self.rate)
        self.epsilon = float_up(self._eta * -(-self.sensitivity // self.width))
        self.reach = None
        if delta != 0:
            self.reach = self._least_reach(exact_amount("delta", check_delta(delta)))  # [P3]
        cut = math.inf if self.reach is None else self.reach + 0.5
        self._steps = Steps(float(self._eta), float(self.width), self.core - 0.5, cut, lattice=True)

    # --- exact --------------------------------------------------------------------------------

    def uncovered(self, sensitivity: int, bits: int = _BITS) -> tuple[Fraction, Fraction]:
        """Rational bounds of P(Z > M - s), the delta of a shift by s; zero for the whole law."""
        if self.reach is None:
            return Fraction(0), Fraction(0)
        return self._uncovered(self.reach, check_count("sensitivity", sensitivity), bits)

    def _uncovered(self, reach: int, shift: int, bits: int) -> tuple[Fraction, Fraction]:
        """By symmetry P(Z > k) = (1 - P(|Z| <= k))/2 for k >= 0, and P(Z > -j) = 1 - P(Z >= j)."""
        k = reach - shift
        if k < -reach:
            return Fraction(1), Fraction(1)
        inner = k if k >= 0 else -k - 1
        low, high = self._weight(inner, bits)
        least, most = self._weight(reach, bits)
        share_low = Fraction(low, most)
        share_high = min(Fraction(1), Fraction(high, least))
        if k >= 0:
            return (1 - share_high) / 2, (1 - share_low) / 2
        return (1 + share_low) / 2, (1 + share_high) / 2

    def _weight(self, k: int, bits: int) -> tuple[int, int]:
        r"""Bounds of :math:`2^{b} (1 - q) \sum_{|z| \le k} q^{\ell(z)}`, :math:`q = e^{-\eta}`.

        The sum is :math:`2r - 1 + 2w\,(q - q^{n+1})/(1 - q) + 2e\,q^{n+1}` with n full levels and e
        further points a side; below r it is 2k + 1.
        """
        one = 1 << bits
        q_low, q_high = exp_minus_bounds(self._eta, bits)
        if k < self.core:
            return (2 * k + 1) * (one - q_high), (2 * k + 1) * (one - q_low)
        n, e = divmod(k - self.core + 1, self.width)
        p_low, p_high = exp_minus_bounds(self._eta * (n + 1), bits)
        heart, run = 2 * self.core - 1, 2 * self.width
        low = heart * (one - q_high) + run * (q_low - p_high)
        high = heart * (one - q_low) + run * (q_high - p_low)
        low += 2 * e * p_low * (one - q_high) >> bits
        return max(low, 1), high - (-2 * e * p_high * (one - q_low) >> bits)

    def _least_reach(self, delta: Fraction) -> int:
        """The least M at which the delta is proved, by bisection; M >= r - 1."""
        low, high = self.core - 2, max(self.core, self.sensitivity)
        while not self._fits(high, delta):
            low, high = high, 2 * high
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self._fits(middle, delta) else (middle, high)
        return high

    def _fits(self, reach: int, delta: Fraction) -> bool:
        bits = _BITS + 2 * self.width.bit_length()
        for factor in (1, 2, 4):  # an answer that stays open counts as no
            low, high = self._uncovered(reach, self.sensitivity, bits * factor)
            if high <= delta or low > delta:
                return high <= delta
        return False

    def _heart_missed(self, bits: int) -> tuple[int, int]:
        r"""Bounds of :math:`P(\ell \ge 1) = 2wq/((2r-1)(1-q) + 2wq)`, which rises with q."""
        return _heart_missed(self._eta, self.core, self.width, bits)

    # --- draws --------------------------------------------------------------------------------

    def _sample(self, count: int, bits: RandomSource) -> WideIntegers:
        if self.reach is None:
            return self._draw_whole(count, bits)
        # Either rejection leaves the cut law; the surer one is taken. One of them keeps more than
        # half: 1 - exp(-a) from the whole law, (1 - exp(-a))/a from the box, a = eta level(M).
        whole = Steps(self._steps.rate, self._steps.width, self._steps.core)
        kept_whole = 1 - 2 * float(whole.tail(self.reach + 0.5))
        kept_box = 1 / (self._steps.height * (2 * self.reach + 1))
        draw = self._draw_box if kept_box > kept_whole else self._draw_whole

        def propose(size: int) -> WideIntegers:
            z = draw(size, bits)
            return z[np.abs(z) <= self.reach]

        return collect(propose, count, max(kept_box, kept_whole))

    def _draw_box(self, count: int, bits: RandomSource) -> WideIntegers:
        """Uniform on -M..M, kept with probability exp(-eta level): a geometric must reach it."""
        reach = self.reach or 0
        sides = np.full(count, reach, dtype=object if reach >= SAFE // 4 else np.int64)
        z = box_points(-sides, sides, bits)
        level = (np.abs(z) + (self.width - self.core)) // self.width
        return z[geometrics(*self.rate, count, bits) >= level]

    def _draw_whole(self, count: int, bits: RandomSource) -> WideIntegers:
        """Level 0 or not by an exact coin; a geometric level beyond; uniform on the level."""
        if self.width == 1:
            return discrete_laplaces(*self.rate, count, bits)
        out = bits.integers_below(np.full(count, 2 * self.core - 1)) - (self.core - 1)
        outer = np.flatnonzero(coins(self._heart_missed, count, bits))
        level = geometrics(*self.rate, outer.size, bits)
        pick = bits.integers_below(np.full(outer.size, 2 * self.width, dtype=np.int64))
        if outer.size and int(level.max()) >= SAFE // (2 * self.width):
            level, out = level.astype(object), out.astype(object)
        size = level * self.width + self.core + (pick >> 1)
        out[outer] = np.where(pick & 1 == 1, -size, size)
        return out

    # --- the law in floats --------------------------------------------------------------------

    def _log_pmf(self, z: FloatArray) -> FloatArray:
        return self._steps.log_density(z)

    def _at_least(self, k: FloatArray) -> FloatArray:
        tail = self._steps.tail(np.abs(k - 0.5))
        return np.where(k > 0, tail, 1 - tail)

    def _near_quantile(self, p: FloatArray) -> FloatArray:
        size = self._steps.size_of(np.minimum(2 * np.minimum(p, 1 - p), 1.0))
        return np.ceil(np.where(p < 0.5, -size, size) - 0.5)

    def _moment(self, p: int) -> float:
        return self._steps.moment(p)

    def _shortfall(self, epsilon: float, shift: float) -> float:
        return self._steps.shortfall(epsilon, check_shift(shift))

    def _worst_shortfall(self, epsilon: float, sensitivity: float) -> float:
        return self._steps.worst_shortfall(epsilon, sensitivity)

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        moved = int(sensitivity)
        spent = float_up(self._eta * -(-moved // self.width))
        return spent, float_up(self.uncovered(moved)[1])

    def _shown(self) -> dict[str, Any]:
        shown = super()._shown()
        return shown if self.reach is None else {**shown, "reach": self.reach}


@tells_arguments
class Geometric(LatticeSteps):
    r"""The two-sided geometric law: integers with :math:`P(z) \propto e^{-|z|\epsilon/L}`.

    **Privacy.**
    Statement: adding Z to an integer statistic that moves by at most L is epsilon-DP.
    Needs: integers; the exact sampler (:func:`tightdp.exact.discrete_draws.discrete_laplaces`).
    Proof: :class:`LatticeSteps` with w = r = 1, where the level of z is :math:`|z|`.
    Numerics: ``exact``.
    References: A. Ghosh, T. Roughgarden and M. Sundararajan (2009), Universally utility-maximizing
    privacy mechanisms, *STOC*; Canonne and others (2020).

    Examples
    --------
    >>> law = Geometric(epsilon=1.0, sensitivity=2)
    >>> round(law.variance(), 6), law.guarantee().epsilon
    (7.835396, 1.0)
    """

    def __init__(self, *, epsilon: Number, sensitivity: int = 1) -> None:
        super().__init__(epsilon=epsilon, sensitivity=sensitivity, width=1, core=1)


class TruncatedGeometric(LatticeSteps):
    r"""The two-sided geometric law on :math:`|z| \le M`: bounded exact noise.

    With :math:`q = e^{-\epsilon/L}`, M is the least integer with

    .. math:: \frac{q^{M-L+1}(1 - q^L)}{1 + q - 2q^{M+1}} \le \delta .

    **Privacy.**
    Statement: adding Z to an integer statistic that moves by at most L is (epsilon, delta)-DP.
    Needs: integers; delta <= 1/2, as for the continuous law.
    Proof: :class:`LatticeSteps` with w = r = 1; the fraction is :math:`P(Z > M - L)`.
    Numerics: ``exact``.
    References: the continuous law is Definition 3 of Q. Geng, W. Ding, R. Guo and S. Kumar (2020),
    Tight analysis of privacy and utility tradeoff in approximate differential privacy, *AISTATS*;
    Selvi and others (2025).

    Examples
    --------
    >>> law = TruncatedGeometric(epsilon=1.0, delta=1e-6)
    >>> law.reach, law.guarantee().delta <= 1e-6
    (14, True)
    """

    def __init__(self, *, epsilon: Number, delta: float, sensitivity: int = 1) -> None:
        check_delta(delta, "1/2]")
        super().__init__(epsilon=epsilon, sensitivity=sensitivity, width=1, core=1, delta=delta)


class DiscreteStaircase(LatticeSteps):
    r"""The staircase law on the integers: steps of width L, the first of half-width r.

    **Privacy.**
    Statement: adding Z to an integer statistic that moves by at most L is epsilon-DP.
    Needs: integers.
    Proof: :class:`LatticeSteps` with w = L, so that one step is crossed at most.
    Numerics: ``exact``.
    References: Q. Geng and P. Viswanath (2016), The optimal noise-adding mechanism in differential
    privacy, *IEEE Transactions on Information Theory* 62(2) (this family is optimal
    among all noise on the integers); Geng and others (2015).

    Parameters
    ----------
    epsilon : float
    sensitivity : int
        L.
    core : int, optional
        r in 1..L; by default the one with the least :math:`E|Z|`.

    Examples
    --------
    >>> law = DiscreteStaircase(epsilon=1.0, sensitivity=8)
    >>> law.core, law.expected_loss(1) < Geometric(epsilon=1.0, sensitivity=8).expected_loss(1)
    (4, True)
    """

    def __init__(self, *, epsilon: Number, sensitivity: int = 1, core: int | None = None) -> None:
        width = check_count("sensitivity", sensitivity, most=1 << 60)
        best = _best_core(float(Fraction(*rate(epsilon))), width) if core is None else core
        super().__init__(epsilon=epsilon, sensitivity=width, width=width, core=best)


class DiscreteTulap(LatticeSteps):
    r"""The Tulap law on the integers: :math:`r = \lceil L/2 \rceil` and steps of width L.

    For odd L and delta = 0 it is LN + U with N two-sided geometric of ratio :math:`e^{-\epsilon}`
    and U uniform on the L integers next to 0: the Tulap law with the uniform part on the lattice.

    **Privacy.**
    Statement: adding Z to an integer statistic that moves by at most L is (epsilon, delta)-DP.
    Needs: integers.
    Proof: :class:`LatticeSteps` with w = L.
    Numerics: ``exact``.
    References: see :class:`~tightdp.noise.line_laws.Tulap`.

    Examples
    --------
    >>> DiscreteTulap(epsilon=1.0, delta=0.01, sensitivity=101).reach
    445
    """

    def __init__(self, *, epsilon: Number, delta: float = 0.0, sensitivity: int = 1) -> None:
        width = check_count("sensitivity", sensitivity, most=1 << 60)
        super().__init__(
            epsilon=epsilon, sensitivity=width, width=width, core=-(-width // 2), delta=delta
        )


def _best_core(epsilon: float, width: int) -> int:
    """The r with the least E |Z|: next to width/(1 + exp(epsilon/2)), the continuous optimum."""
    near = math.floor(width / (1 + math.exp(min(epsilon / 2, 700))))
    options = [r for r in range(near - 1, near + 3) if 1 <= r <= width]
    return min(options, key=lambda r: Steps(epsilon, float(width), r - 0.5, lattice=True).moment(1))
