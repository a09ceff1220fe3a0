"""Gaussian noise: classical, analytic, and discrete with its exact sampler."""

from __future__ import annotations

import math
from abc import abstractmethod
from collections.abc import Callable
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.errors import FloatArray, WideIntegers, check_count, exact_fraction, fail, shown
from tightdp.exact.discrete_draws import discrete_gaussians
from tightdp.noise.law import LatticeLaw, SymmetricLaw, check_delta
from tightdp.parameters import tells_arguments
from tightdp.privacy import check_epsilon, float_up
from tightdp.randomness import RandomSource

_MARGIN = 2.0**-46  # of the larger term: some forty times what the special functions lose
_ROUNDING = 2.0**-50  # of an exponent: eight roundings
_ENUMERATED = 512.0  # below this sigma the law on the integers is written out
_WINDOW = 45.0  # in sigmas; beyond it lies less than exp(-1000)


def gaussian_delta(epsilon: float, ratio: float) -> float:
    r"""The delta of N(0, sigma**2) moved by ratio * sigma, rounded up ([BW18], Theorem 8).

    .. math:: \delta = \Phi(r/2 - \epsilon/r) - e^{\epsilon}\,\Phi(-r/2 - \epsilon/r)

    Both terms are a normal density times a Mills ratio, and the densities agree. Where the argument
    x of the density is a small difference, it is lowered by what its rounding can have added.

    >>> round(gaussian_delta(1.0, 0.5), 10)
    0.006829595
    """
    if ratio <= 0:
        return 0.0
    x, y = epsilon / ratio - ratio / 2, epsilon / ratio + ratio / 2
    x -= _ROUNDING * y
    if x > 0:
        first, second = (
            float(scipy.special.erfcx(x / math.sqrt(2))),
            float(scipy.special.erfcx(y / math.sqrt(2))),
        )
        scale = 0.5 * math.exp(-x * x / 2) if x < 1e3 else 0.0
        return scale * (first - second + _MARGIN * first)
    first, log_second = (
        float(scipy.special.ndtr(-x)),
        float(scipy.special.log_ndtr(-(y * (1 + _ROUNDING)))),
    )
    lost = _MARGIN + _ROUNDING * (epsilon - log_second)
    return first - math.exp(epsilon + log_second) + lost * first


def _least(fits: Callable[[float], bool], start: float) -> float:
    """A number that fits, the least one up to rounding, if all larger ones fit; checked."""
    high = start
    while not fits(high):
        high *= 2
    low = high / 2
    while fits(low):
        low, high = low / 2, low
    for _ in range(60):
        middle = math.sqrt(low * high)
        low, high = (low, middle) if fits(middle) else (middle, high)
    return high


class NormalLaw(SymmetricLaw):
    """A normal law with its standard deviation ``sigma``, fixed by a subclass."""

    sigma: float

    def __init__(self, *, epsilon: Number, delta: Number, sensitivity: Number = 1.0) -> None:
        super().__init__(epsilon, sensitivity)
        self._delta = check_delta(delta)
        self.sigma = self.sensitivity * self._sigma_at_one()

    @abstractmethod
    def _sigma_at_one(self) -> float:
        """Sigma for sensitivity 1."""

    def lattice(self, grid: Number) -> DiscreteGaussian:
        """The discrete Gaussian on the grid with at least this sigma, (epsilon, delta)-DP."""
        steps = self._steps_of(grid)
        law = DiscreteGaussian(epsilon=self._exact_epsilon, delta=self._delta, sensitivity=steps)
        own = Fraction(self.sigma) ** 2 * (steps / self._exact_sensitivity) ** 2
        if law.sigma2 >= own:
            return law
        return DiscreteGaussian(
            epsilon=self._exact_epsilon,
            delta=self._delta,
            sensitivity=steps,
            sigma2=Fraction(math.nextafter(float(own), math.inf)),
        )

    def _log_density(self, x: FloatArray) -> FloatArray:
        return -0.5 * (x / self.sigma) ** 2 - math.log(self.sigma * math.sqrt(2 * math.pi))

    def _tail(self, y: FloatArray) -> FloatArray:
        return np.asarray(scipy.special.ndtr(-y / self.sigma))

    def _size_of(self, t: FloatArray) -> FloatArray:
        return np.asarray(-self.sigma * scipy.special.ndtri(t / 2))

    def _moment(self, p: int) -> float:
        return self.sigma * math.sqrt(2 / math.pi) if p == 1 else self.sigma**2

    def _shortfall(self, epsilon: float, shift: float) -> float:
        return gaussian_delta(epsilon, shift / self.sigma)


@tells_arguments
class AnalyticGaussian(NormalLaw):
    r"""Gaussian noise with the least variance that (epsilon, delta) allows.

    .. math:: X \sim N(0, \sigma^2), \qquad
       \Phi\bigl(\tfrac{\Delta}{2\sigma} - \tfrac{\epsilon\sigma}{\Delta}\bigr)
       - e^{\epsilon}\, \Phi\bigl(-\tfrac{\Delta}{2\sigma} - \tfrac{\epsilon\sigma}{\Delta}\bigr)
       = \delta

    **Privacy.**
    Statement: adding X to a real statistic that moves by at most :math:`\Delta` is
    (epsilon, delta)-DP. For a vector with independent X and l2-sensitivity :math:`\Delta`, too.
    Needs: [P1] the sensitivity; [P2] the left side is at most delta at the sigma used; [P3] real
    arithmetic.
    Proof: the normal law is log-concave, so half-lines are the best events and the largest shift
    the worst (:class:`~tightdp.noise.law.NoiseLaw`); the left side is the value of the best
    half-line ([BW18], Theorem 8). The search for sigma ends on the private side: the left side is
    rounded up and checked once more [P2].
    Numerics: ``idealized-numerics``; :meth:`lattice` gives :class:`DiscreteGaussian`.
    References: [BW18] B. Balle and Y.-X. Wang (2018), Improving the Gaussian mechanism for
    differential privacy: analytical calibration and optimal denoising, *ICML*.

    Parameters
    ----------
    epsilon : float
        In [2**-40, 2**10].
    delta : float
        In [2**-256, 1).
    sensitivity : float
        :math:`\Delta` > 0.

    Examples
    --------
    >>> law = AnalyticGaussian(epsilon=1.0, delta=1e-5)
    >>> round(law.sigma, 4), law.delta(1.0, 1.0) <= 1e-5
    (3.7306, True)
    """

    def _sigma_at_one(self) -> float:
        def fits(sigma: float) -> bool:
            return gaussian_delta(self.epsilon, 1 / sigma) <= self._delta  # [P2]

        return _least(fits, 1.0)


@tells_arguments
class Gaussian(NormalLaw):
    r"""Gaussian noise by the classical formula, for epsilon < 1.

    .. math:: X \sim N(0, \sigma^2), \qquad \sigma = \Delta \sqrt{2 \ln(1.25/\delta)} / \epsilon

    It is kept for comparison: :class:`AnalyticGaussian` gives the same guarantee with less noise.

    **Privacy.**
    Statement: adding X to a real statistic that moves by at most :math:`\Delta` is
    (epsilon, delta)-DP.
    Needs: [P1] the sensitivity; [P2] epsilon < 1; [P3] real arithmetic.
    Proof: Dwork and Roth (2014), Theorem A.1; moreover the exact delta of :class:`AnalyticGaussian`
    is computed at this sigma and must not exceed the promised one. Numerics:
    ``idealized-numerics``; :meth:`lattice` gives :class:`DiscreteGaussian`. References: Dwork and
    Roth (2014), Theorem A.1.

    Examples
    --------
    >>> law = Gaussian(epsilon=0.5, delta=1e-5)
    >>> round(law.sigma, 4), round(AnalyticGaussian(epsilon=0.5, delta=1e-5).sigma, 4)
    (9.6896, 7.0318)
    """

    def _sigma_at_one(self) -> float:
        if not self.epsilon < 1:
            fail(
                f"`epsilon` must be < 1 for the classical Gaussian. Got {self.epsilon}. "
                "Use AnalyticGaussian."
            )
        sigma = math.sqrt(2 * math.log(1.25 / self._delta)) / self.epsilon
        if gaussian_delta(self.epsilon, 1 / sigma) > self._delta:  # [P2]
            fail("The classical formula does not hold here. Use AnalyticGaussian.")
        return sigma


@tells_arguments
class DiscreteGaussian(LatticeLaw):
    r"""The discrete Gaussian: integers with :math:`P(z) \propto e^{-z^2/(2\sigma^2)}`.

    **Privacy.**
    Statement: adding Z to an integer statistic that moves by at most L is (epsilon, delta)-DP, and
    exactly :math:`L^2/(2\sigma^2)`-zero-concentrated DP (:meth:`concentrated`).
    Needs: [P1] integers, :math:`|t(X) - t(X')| \le L`; [P2] the upper bound U below is at most
    delta at the rational :math:`\sigma^2` used; [P3] ``erfcx``, ``ndtr`` and ``exp`` err by less
    than 2**-46 of the larger term, which U adds, beside the rounding of their arguments.
    Proof: (1) The law is log-concave, so the shift L is the worst and
    :math:`\delta = \frac1Z \sum_{z > c} g(z)`, :math:`g(x) = f(x - L) - e^{\epsilon} f(x)`,
    :math:`c = \epsilon\sigma^2/L + L/2` the zero of g (Canonne and others, 2020, Theorem 7). (2)
    For sigma < 512 U is this sum, all of whose terms are positive. (3) Else, by Taylor's formula
    with a kernel in [0, 1/8] on cells of width 1 around the integers, :math:`\sum_{z>c} g(z) \le
    \int_c^\infty g + \frac18 \int_{c-1/2}^\infty |g''|`, since the integral of g from any point is
    at most that from c; Poisson summation gives :math:`Z \ge \sigma\sqrt{2\pi}`; and with
    :math:`|f''| \le f\,(1 + x^2/\sigma^2)/\sigma^2` the second integral is at most
    :math:`Z\,(h(\tfrac{c-L-1/2}{\sigma}) + e^{\epsilon} h(\tfrac{c-1/2}{\sigma}))/\sigma^2`,
    :math:`h(a) = a\varphi(a) + 2\Phi(-a)`. So U exceeds the continuous delta by a part in
    :math:`\sigma^2` only. Numerics: ``exact`` sampler; the constant :math:`\sigma^2` is found with
    floats and checked. References: Canonne and others (2020), Theorems 4 and 7.

    Parameters
    ----------
    epsilon : float
        In [2**-40, 2**10].
    delta : float
        In [2**-256, 1).
    sensitivity : int
        L >= 1.
    sigma2 : rational, optional
        A variance parameter of your own, refused when U exceeds delta; the least by default.

    Examples
    --------
    >>> law = DiscreteGaussian(epsilon=1.0, delta=1e-5)
    >>> round(float(law.sigma2) ** 0.5, 4), law.guarantee().delta
    (3.7405, 1e-05)
    """

    def __init__(
        self, *, epsilon: Number, delta: Number, sensitivity: int = 1, sigma2: Number | None = None
    ) -> None:
        self.epsilon = float_up(check_epsilon(epsilon))
        self._delta = check_delta(delta)
        self.sensitivity = check_count("sensitivity", sensitivity, most=1 << 60)
        if sigma2 is None:

            def fits(sigma: float) -> bool:
                return self._upper(self.epsilon, self.sensitivity, sigma * sigma) <= self._delta

            sigma = _least(fits, float(self.sensitivity))
            self.sigma2 = Fraction(sigma * sigma)
        else:
            self.sigma2 = exact_fraction("sigma2", sigma2)
            if not Fraction(1, 1 << 200) < self.sigma2 < 1 << 300:
                fail(f"`sigma2` must be a finite number > 0 of moderate size. Got {shown(sigma2)}.")
        self._variance = float(self.sigma2)
        if not self._upper(self.epsilon, self.sensitivity, self._variance) <= self._delta:  # [P2]
            fail("`sigma2` must be larger for this `epsilon` and `delta`.")

    def concentrated(self, sensitivity: int | None = None) -> Fraction:
        r"""The exact :math:`\rho = L^2/(2\sigma^2)` of zero-concentrated DP."""
        moved = self.sensitivity if sensitivity is None else self._check_moved(sensitivity)
        return Fraction(int(moved) ** 2) / (2 * self.sigma2)

    @property
    def cost(self) -> Cost:
        """Its rho is exact; epsilon and delta are what it was made for."""
        given = self.guarantee()
        return Cost.concentrated(self.concentrated(), delta=given.delta, epsilon=given.epsilon)

    @staticmethod
    def _upper(epsilon: float, shift: float, sigma2: float) -> float:
        """The bound U of the proof."""
        sigma = math.sqrt(sigma2)
        c = epsilon * sigma2 / shift + shift / 2
        if sigma < _ENUMERATED:
            reach = math.ceil(_WINDOW * sigma) + 2
            first = max(math.floor(c * (1 - _ROUNDING)) - shift, -reach)
            # Doubles: |u| <= 2**28 is exact, and a shift of 2**60, squared, is beyond 64 bits.
            u = first + np.arange(2.0 * reach + 3)
            # Exponents err by a few roundings: each is moved to the side that adds to the sum.
            size, fall = u**2 / (2 * sigma2), shift * (2 * u + shift) / (2 * sigma2)
            weights = np.exp(-size * (1 - _ROUNDING))
            gain = epsilon - fall - _ROUNDING * (epsilon + np.abs(fall))
            excess = -np.expm1(np.minimum(gain, 0.0))
            total = 1 + 2 * float(np.exp(-(np.arange(1, reach) ** 2) / (2 * sigma2)).sum())
            return float((weights * excess).sum()) / total * (1 + _MARGIN) + 1e-300
        near = _h((c - shift - 0.5) / sigma, 0.0)
        far = _h((c - 0.5) / sigma, epsilon)
        return gaussian_delta(epsilon, shift / sigma) + (near + far) / (8 * sigma2) * (1 + _MARGIN)

    # --- the law in floats --------------------------------------------------------------------

    @cached_property
    def _table(self) -> tuple[FloatArray, FloatArray]:
        """For z = 0, 1, ...: P(z) and P(Z >= z), written out when sigma < 512."""
        reach = math.ceil(_WINDOW * math.sqrt(self._variance)) + 2
        weights = np.exp(-(np.arange(reach) ** 2) / (2 * self._variance))
        mass = weights / (2 * weights[1:].sum() + 1)
        return mass, np.append(np.cumsum(mass[::-1])[::-1], 0.0)

    @property
    def _enumerated(self) -> bool:
        return self._variance < _ENUMERATED**2

    def _log_pmf(self, z: FloatArray) -> FloatArray:
        if self._enumerated:
            at_zero = math.log(self._table[0][0])
        else:
            at_zero = -0.5 * math.log(2 * math.pi * self._variance)  # up to exp(-2 pi^2 sigma^2)
        return at_zero - z * z / (2 * self._variance)

    def _at_least(self, k: FloatArray) -> FloatArray:
        if self._enumerated:
            tails = self._table[1]
            return tails[np.clip(k, 0, len(tails) - 1).astype(np.int64)]
        # Euler and Maclaurin: the integral from a = k - 1/2, + f'(a)/24 - 7 f'''(a)/5760 + ...
        sigma = math.sqrt(self._variance)
        u = (k - 0.5) / sigma
        density = np.exp(-u * u / 2) / math.sqrt(2 * math.pi)
        first, third = -u * density, (3 * u - u**3) * density
        fifth = (-15 * u + 10 * u**3 - u**5) * density
        ends = first / (24 * sigma**2) - 7 * third / (5760 * sigma**4)
        return np.asarray(scipy.special.ndtr(-u) + ends + 31 * fifth / (967680 * sigma**6))

    def _near_quantile(self, p: FloatArray) -> FloatArray:
        if not self._enumerated:
            return np.ceil(math.sqrt(self._variance) * np.asarray(scipy.special.ndtri(p)) - 0.5)
        t = np.minimum(p, 1 - p)
        size = len(self._table[1]) - np.searchsorted(self._table[1][::-1], t, side="left")
        return np.where(p < 0.5, -size, size).astype(np.float64)

    def _moment(self, p: int) -> float:
        if self._enumerated:
            mass = self._table[0]
            return float(2 * np.sum(np.arange(len(mass)) ** p * mass))
        if p == 2:
            return self._variance
        # The sum of z f(z): sigma^2 - 1/12 - 1/(240 sigma^2) by Euler and Maclaurin.
        half = self._variance - 1 / 12 - 1 / (240 * self._variance)
        return 2 * half / math.sqrt(2 * math.pi * self._variance)

    def _shortfall(self, epsilon: float, shift: float) -> float:
        return self._upper(epsilon, shift, self._variance) if shift else 0.0

    def _sample(self, count: int, bits: RandomSource) -> WideIntegers:
        return discrete_gaussians(self.sigma2, count, bits)


def _h(a: float, epsilon: float) -> float:
    """exp(epsilon) (a phi(a) + 2 Phi(-a))."""
    density = math.exp(epsilon - a * a / 2) / math.sqrt(2 * math.pi) if abs(a) < 1e3 else 0.0
    return a * density + 2 * math.exp(epsilon + float(scipy.special.log_ndtr(-a)))
