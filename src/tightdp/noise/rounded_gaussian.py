"""The rounded Gaussian: exactly Gaussian differential privacy, and integers out."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.accounting.conversions import gaussian_dp_epsilon
from tightdp.errors import (
    FloatArray,
    WideIntegers,
    check_count,
    exact_amount,
    exact_fraction,
    fail,
    shown,
)
from tightdp.exact.discrete_draws import rounded_gaussians
from tightdp.noise.gaussian_laws import gaussian_delta
from tightdp.noise.law import LatticeLaw, check_delta
from tightdp.parameters import tells_arguments
from tightdp.privacy import EPSILON_CEILING, EPSILON_FLOOR, float_up
from tightdp.randomness import RandomSource

READ_AT = 1e-6
"""The delta at which the epsilon of Gaussian noise is read, unless another one is named."""

_ENUMERATED = 512.0  # below this sigma moments are summed
_DIGITS = 11
_WINDOW = 45.0  # in sigmas; beyond it lies less than exp(-1000)
_LEAST, _MOST = Fraction(1, 1 << 200), 1 << 300


def check_variance(value: object, name: str = "sigma2") -> Fraction:
    """A variance that can be drawn with, as an exact rational."""
    exact = exact_fraction(name, value)
    if not _LEAST < exact < _MOST:
        fail(f"`{name}` must be a finite number > 0 of moderate size. Got {shown(value)}.")
    return exact


def read_epsilon(mu2: Fraction, delta: Number) -> Fraction:
    """The epsilon of mu-Gaussian DP at a delta, never too small, as a short decimal.

    >>> read_epsilon(Fraction(1, 900), 1e-6) < Fraction("0.12266")
    True
    """
    spent = max(EPSILON_FLOOR, gaussian_dp_epsilon(mu2, exact_amount("delta", delta)))
    if spent > EPSILON_CEILING:
        fail(
            "`sigma2` must be larger, or `rho` smaller: so little noise has no epsilon of at most "
            f"2**10 at delta = {delta}."
        )
    return short_up(spent)


def short_up(epsilon: Fraction) -> Fraction:
    """A decimal of twelve digits or so, not below an epsilon, and not above its own double.

    >>> float(short_up(Fraction(1, 3))), short_up(Fraction(1, 2))
    (0.333333333334, Fraction(1, 2))
    """
    digits = _DIGITS - math.floor(math.log10(epsilon))
    steps = math.ceil(epsilon * Fraction(10) ** digits)
    while (found := steps / Fraction(10) ** digits) > Fraction(float(found)):
        steps += 1
    return found


def rounded_moment(variance: float, p: int) -> float:
    """The mean of abs(Z)**p, p = 1 or 2, of a normal variable rounded to integers.

    >>> round(rounded_moment(900.0, 2), 6)
    900.083333
    """
    sigma = math.sqrt(variance)
    if sigma < _ENUMERATED:
        k = np.arange(1, math.ceil(_WINDOW * sigma) + 2, dtype=np.float64)
        tails = 2 * np.asarray(scipy.special.ndtr((0.5 - k) / sigma))
        return float((tails * (2 * k - 1) if p == 2 else tails).sum())
    if p == 2:
        return variance + 1 / 12  # Euler and Maclaurin: the series ends
    return sigma * math.sqrt(2 / math.pi) - 1 / (12 * sigma * math.sqrt(2 * math.pi))


@tells_arguments
class RoundedGaussian(LatticeLaw):
    r"""A normal variable of variance ``sigma2``, rounded to the nearest integer.

    .. math:: P(z) = \Phi\Bigl(\frac{z + 1/2}{\sigma}\Bigr) - \Phi\Bigl(\frac{z - 1/2}{\sigma}\Bigr)

    **Privacy.**
    Statement: adding Z to an integer statistic that moves by at most L is :math:`\mu`-Gaussian DP,
    :math:`\mu = L/\sigma`, hence :math:`\mu^2/2`-zero-concentrated DP and
    :math:`(\epsilon, \delta(\epsilon))`-DP on the whole curve of the Gaussian. For a vector of
    independent draws the same holds with :math:`\mu^2 = \sum_j d_j^2/\sigma_j^2`.
    Needs: [P1] integers, :math:`|t(X) - t(X')| \le L`; [P2] exact draws
    (:func:`~tightdp.exact.discrete_draws.rounded_gaussians`); [P3] numbers of the curve that are
    rounded to the private side (:mod:`tightdp.accounting.conversions`).
    Proof: for an integer t, t + round(V) = round(t + V): what is released is a function of t + V,
    the Gaussian mechanism, which is :math:`\mu`-GDP (Dong and others, 2022, Theorem 2.7) and
    :math:`\mu^2/2`-zCDP (Bun and Steinke, 2016, Proposition 1.6). Numerics: ``exact``: V is never
    written down; of its bits only those are drawn that decide the rounding.
    References: J. Dong, A. Roth and W. Su (2022), Gaussian differential privacy, *JRSS B* 84(1);
    B. Balle and Y.-X. Wang (2018).

    Given to :class:`~tightdp.AdditiveMechanism`, ``sigma2`` is in the units of the release, for all
    entries or one for each, and the privacy is that of the exact length of a move of the whole
    vector, :math:`\mu^2 = \max_d \sum_j d_j^2/\sigma_j^2`; ``sensitivity`` is not used.

    Parameters
    ----------
    sigma2 : rational, or a list of them
        The variance before rounding, taken exactly. A list is for vectors only.
    sensitivity : int
        L >= 1.
    delta : float
        Where the epsilon of :meth:`guarantee` is read off.

    Attributes
    ----------
    rho, mu2 : Fraction
        :math:`\mu^2/2` and :math:`\mu^2`, exact.

    Examples
    --------
    >>> law = RoundedGaussian(sigma2=900)
    >>> print(law.guarantee())
    epsilon = 0.122652, delta = 1e-06, replace-one neighbours, exact
    >>> law.mu2, law.rho
    (Fraction(1, 900), Fraction(1, 1800))
    """

    def __init__(self, *, sigma2: object, sensitivity: int = 1, delta: Number = READ_AT) -> None:
        given: Sequence[object] = [sigma2]
        if isinstance(sigma2, (list, tuple)) or (isinstance(sigma2, np.ndarray) and sigma2.ndim):
            given = list(sigma2)
        if len(given) == 0:
            fail("`sigma2` must be a number, or a number for each entry. Got an empty list.")
        self.variances = tuple(check_variance(value) for value in given)
        """One for all entries, or one for each."""
        self.sensitivity = check_count("sensitivity", sensitivity, most=1 << 60)
        self._delta = check_delta(delta)
        self.sigma2 = min(self.variances)
        self._variance = float(self.sigma2)
        self._sigma = math.sqrt(self._variance)

    @cached_property
    def epsilon(self) -> float:  # type: ignore[override]
        """What mu implies at ``delta``, for one number; an error where it is above 2**10."""
        return float_up(read_epsilon(self.mu2, self._delta))

    @property
    def mu2(self) -> Fraction:
        """The square of the mu of Gaussian differential privacy, for one number."""
        return Fraction(self.sensitivity**2) / self.sigma2

    @property
    def rho(self) -> Fraction:
        """The rho of zero-concentrated differential privacy, for one number."""
        return self.mu2 / 2

    @property
    def cost(self) -> Cost:
        """Its mu is exact, and so is rho; epsilon is read off at delta."""
        return Cost.gaussian(self.mu2, delta=self._delta, epsilon=self.epsilon)

    def _shown(self) -> dict[str, Any]:
        texts = [f"{variance}" for variance in self.variances]
        text = texts[0] if len(texts) == 1 else f"[{', '.join(texts)}]"
        return {"sigma2": _Plain(text), "sensitivity": self.sensitivity, "delta": self._delta}

    # --- privacy --------------------------------------------------------------------------------

    def _shortfall(self, epsilon: float, shift: float) -> float:
        """The best half-line ends at a half-integer: next to the best one of the Gaussian."""
        if not shift:
            return 0.0
        whole = gaussian_delta(epsilon, shift / self._sigma * (1 + 2.0**-50))
        if self._variance > _ENUMERATED**2:
            return whole  # an upper bound, and near: rounding hides next to nothing
        sigma = self._sigma
        best = math.floor(epsilon * self._variance / shift + shift / 2)
        ends = [best - 0.5, best + 0.5, best + 1.5]
        near = np.array([(shift - end) / sigma for end in ends])
        far = np.array([-end / sigma for end in ends])
        log_far = np.asarray(scipy.special.log_ndtr(far)) + epsilon
        first = np.asarray(scipy.special.ndtr(near))
        found = first * (1 + 2.0**-40) - np.exp(log_far) * (1 - 2.0**-40)
        return min(whole, max(0.0, float(found.max())))

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        if sensitivity == self.sensitivity:
            return self.epsilon, self._delta
        moved = Fraction(sensitivity) ** 2 / self.sigma2
        return float_up(read_epsilon(moved, self._delta)), self._delta

    # --- the law in floats ----------------------------------------------------------------------

    def _log_pmf(self, z: FloatArray) -> FloatArray:
        # the difference of tails, of which the second is the smaller one
        far, near = -(np.abs(z) + 0.5) / self._sigma, -(np.abs(z) - 0.5) / self._sigma
        log_near = np.asarray(scipy.special.log_ndtr(near))
        log_far = np.asarray(scipy.special.log_ndtr(far))
        with np.errstate(divide="ignore"):
            return np.asarray(log_near + np.log(-np.expm1(log_far - log_near)))

    def _at_least(self, k: FloatArray) -> FloatArray:
        return np.asarray(scipy.special.ndtr(-(k - 0.5) / self._sigma))

    def _near_quantile(self, p: FloatArray) -> FloatArray:
        return np.ceil(self._sigma * np.asarray(scipy.special.ndtri(p)) - 0.5)

    def _moment(self, p: int) -> float:
        return rounded_moment(self._variance, p)

    def _sample(self, count: int, bits: RandomSource) -> WideIntegers:
        return rounded_gaussians(self.sigma2, count, bits)


class _Plain(str):
    """A text that shows itself without quotes."""

    __slots__ = ()

    def __repr__(self) -> str:
        return str(self)
