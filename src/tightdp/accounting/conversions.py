r"""Conversions between (epsilon, delta), rho-zCDP and mu-Gaussian DP, each to the private side.

With P and Q for the laws of a release on neighbouring tables:

* *(epsilon, delta)*: :math:`P(A) \le e^{\epsilon} Q(A) + \delta` for all events A.
* *rho* (zero-concentrated): :math:`D_\alpha(P \Vert Q) \le \rho\alpha` for all orders
  :math:`\alpha > 1` (Bun and Steinke, 2016).
* *mu* (Gaussian): telling P from Q is no easier than telling N(0, 1) from N(mu, 1) (Dong and
  others, 2022). It is kept as :math:`\mu^2`, which adds, and is rational where the variance is.

Numbers in and out are exact rationals; what is irrational is rounded so that a promise is never
larger than what holds: epsilon, delta and mu up, what a budget buys down.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.accounting.normal_bounds import (
    FAR,
    beside,
    density_bounds,
    log_bounds,
    mills_bounds,
    tail_above,
    tail_below,
)
from tightdp.exact.enclosures import exp_minus_bounds

_BITS = 128
_LARGE = 2048  # beyond it nothing is protected, and bounds need not be tight
_GRID = 1 << 96  # results are multiples of 1/_GRID where they are irrational


# --- rho ------------------------------------------------------------------------------------------


def zcdp_delta(epsilon: Fraction, rho: Fraction) -> Fraction:
    r"""A delta for which rho-zCDP implies (epsilon, delta)-DP, at most 1.

    .. math:: \delta = \inf_{\alpha > 1} \frac{e^{(\alpha-1)(\alpha\rho-\epsilon)}}{\alpha - 1}
              \Bigl(1 - \frac1\alpha\Bigr)^{\alpha}

    (Canonne, Kamath and Steinke, 2020, Corollary 13). Every order gives a valid delta: one close
    to the best is looked for, and the formula there is evaluated upwards with integers.

    >>> 8.9e-5 < zcdp_delta(Fraction(1), Fraction(1, 25)) < 9e-5
    True
    """
    if rho <= 0:
        return Fraction(0)

    def slope(step: Fraction) -> Fraction:  # of the log of delta, at the order 1 + step
        return (2 * step + 1) * rho - epsilon + _log(step / (1 + step))

    step = _root(slope)
    order = 1 + step
    power = step * (order * rho - epsilon)
    power += step * log_bounds(step, _BITS)[1] - order * log_bounds(order, _BITS)[0]
    return min(Fraction(1), _exp_up(power))


def zcdp_epsilon(rho: Fraction, delta: Fraction) -> Fraction:
    r"""An epsilon for which rho-zCDP implies (epsilon, delta)-DP.

    The same formula solved for epsilon:
    :math:`\alpha\rho + \ln(1 - 1/\alpha) + (\ln(1/\delta) - \ln\alpha)/(\alpha - 1)`, whose least
    value is where :math:`\rho(\alpha-1)^2 = \ln(1/(\alpha\delta))`.

    >>> 0.89 < zcdp_epsilon(Fraction(1, 50), Fraction(1, 10**6)) < 0.9
    True
    """
    if rho <= 0:
        return Fraction(0)

    def slope(step: Fraction) -> Fraction:
        return rho * step * step + _log(delta * (1 + step))

    step = _root(slope)
    order = 1 + step
    odds = log_bounds(step / order, _BITS)[1]
    far = log_bounds(1 / delta, _BITS)[1] - log_bounds(order, _BITS)[0]
    return _up(max(Fraction(0), order * rho + odds + far / step))


def zcdp_rho(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A rho that implies (epsilon, delta)-DP, the largest by the formula up to rounding down.

    >>> rho = zcdp_rho(Fraction(3), Fraction(1, 10**6))
    >>> zcdp_delta(Fraction(3), rho) <= Fraction(1, 10**6), 0.185 < rho < 0.186
    (True, True)
    """

    def slope(step: Fraction) -> Fraction:
        rate = -_log(delta * (1 + step)) / step**2
        return epsilon - (2 * step + 1) * rate - _log(step / (1 + step))

    step = _root(slope)
    order = 1 + step
    odds = log_bounds(step / order, _BITS)[1]
    far = log_bounds(1 / delta, _BITS)[1] - log_bounds(order, _BITS)[0]
    return _down(max(Fraction(0), (epsilon - odds - far / step) / order))


# --- mu -------------------------------------------------------------------------------------------


def gaussian_dp_delta(epsilon: Fraction, mu_squared: Fraction, bits: int = _BITS) -> Fraction:
    r"""The least delta for which mu-Gaussian DP implies (epsilon, delta)-DP, rounded up.

    .. math:: \delta = \Phi\bigl(\tfrac{\mu}{2} - \tfrac{\epsilon}{\mu}\bigr)
              - e^{\epsilon} \Phi\bigl(-\tfrac{\mu}{2} - \tfrac{\epsilon}{\mu}\bigr)

    (Balle and Wang, 2018; Dong and others, 2022, Corollary 2.13). It grows with mu: a rational
    above the root is taken, the rest are enclosures.

    >>> 0.00682959 < gaussian_dp_delta(Fraction(1), Fraction(1, 4)) < 0.0068296
    True
    """
    if mu_squared <= 0:
        return Fraction(0)
    mu = root_up(mu_squared, bits)
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    grid = 1 << bits
    close, beyond = (Fraction(math.ceil(x * grid), grid) for x in (near, far))
    if beyond >= FAR:  # e^epsilon phi(far) = phi(near), and both fall on their way outwards
        place = abs(close) if near >= 0 else abs(near)
        behind = density_bounds(place, bits)[0] * mills_bounds(beyond, beside(place, bits))[0]
    else:
        behind = tail_below(far, bits) / Fraction(exp_minus_bounds(epsilon, bits)[1], grid)
    return max(Fraction(0), tail_above(near, bits) - behind)


def gaussian_dp_epsilon(mu_squared: Fraction, delta: Fraction) -> Fraction:
    """An epsilon for which mu-Gaussian DP implies (epsilon, delta)-DP; the least, but for 2**-40.

    >>> spent = gaussian_dp_epsilon(Fraction(1, 4), Fraction("0.006829596"))
    >>> 0.9999 < spent < 1.0001
    True
    """
    bits = bits_for(delta)
    if gaussian_dp_delta(Fraction(0), mu_squared, bits) <= delta:
        return Fraction(0)
    mu, log_delta = math.exp(_log_float(mu_squared) / 2), _log_float(delta)
    near = _crossing(lambda epsilon: log_delta - _log_delta(epsilon, mu))
    return _end(lambda e: gaussian_dp_delta(e, mu_squared, bits) <= delta, near, largest=False)


@lru_cache(maxsize=256)
def gaussian_dp_mu_squared(epsilon: Fraction, delta: Fraction) -> Fraction:
    """A mu**2 that implies (epsilon, delta)-DP: the largest, but for a part in 2**40.

    >>> 0.2499 < gaussian_dp_mu_squared(Fraction(1), Fraction("0.006829596")) < 0.2501
    True
    """
    bits, spent, log_delta = bits_for(delta), float(epsilon), _log_float(delta)
    near = _crossing(lambda mu: _log_delta(spent, mu) - log_delta) ** 2
    return _end(lambda m: gaussian_dp_delta(epsilon, m, bits) <= delta, near, largest=True)


@lru_cache(maxsize=1024)
def pure_mu_squared(epsilon: Fraction) -> Fraction:
    r"""A mu**2 such that every epsilon-DP release is mu-Gaussian DP; the least, but for 2**-40.

    .. math:: \mu = 2\,\Phi^{-1}\bigl(e^{\epsilon}/(1 + e^{\epsilon})\bigr)

    **Proof.** The trade-off of an epsilon-DP release lies above that of randomised response, which
    is straight from (0, 1) to :math:`(p, p)`, :math:`p = 1/(1 + e^{\epsilon})`, and on to (1, 0).
    That of the Gaussian, :math:`G(a) = \Phi(\Phi^{-1}(1 - a) - \mu)`, is convex and goes through
    (0, 1) and (1, 0). So it lies below both lines if it does at p, which is
    :math:`\Phi(-\mu/2) \le p`. No smaller mu does, for randomised response itself.

    >>> 1.5179 < pure_mu_squared(Fraction(1)) < 1.518  # about epsilon^2 * pi / 2 for small epsilon
    True
    """
    if epsilon <= 0:
        return Fraction(0)
    if epsilon > _LARGE:  # Phi(-x) <= exp(-x^2/2)/2, so 8 ln((1 + e^epsilon)/2) is enough
        return 8 * epsilon
    bits = _BITS + max(math.ceil(epsilon * Fraction(3, 2)), -_exponent(epsilon))  # 1/ln 2 < 3/2
    odds = exp_minus_bounds(epsilon, bits)[0]
    least = Fraction(odds, (1 << bits) + odds)  # p = e^-epsilon / (1 + e^-epsilon), rounded down
    spent = float(epsilon)
    far = -float(scipy.special.ndtri_exp(-spent - math.log1p(math.exp(-spent))))
    half = far if spent > 1e-3 else spent * math.sqrt(math.pi / 8)
    return _end(
        lambda m: tail_above(root_down(m / 4, bits), bits) <= least, 4 * half**2, largest=False
    )


def _log_delta(epsilon: float, mu: float) -> float:
    """The log of delta in floats: a guess that a search starts from."""
    near, far = epsilon / mu - mu / 2, epsilon / mu + mu / 2
    first, second = (float(scipy.special.log_ndtr(-x)) for x in (near, far))
    gap = second + epsilon - first
    return first + math.log(-math.expm1(gap)) if gap < 0 else -math.inf


# --- rounding -------------------------------------------------------------------------------------


def root_up(x: Fraction, bits: int) -> Fraction:
    """A rational above the root of x > 0, close to ``bits`` bits of it."""
    shift = bits + max(0, -_exponent(x))
    return Fraction(math.isqrt(-(-(x.numerator << (2 * shift)) // x.denominator)) + 1, 1 << shift)


def root_down(x: Fraction, bits: int) -> Fraction:
    """A rational below the root of x > 0."""
    shift = bits + max(0, -_exponent(x))
    return Fraction(math.isqrt((x.numerator << (2 * shift)) // x.denominator), 1 << shift)


def _exponent(x: Fraction) -> int:
    return x.numerator.bit_length() - x.denominator.bit_length()


def bits_for(delta: Fraction) -> int:
    """Bits with which a tail is told from such a delta."""
    return _BITS + max(0, -_exponent(delta))


def _exp_up(power: Fraction) -> Fraction:
    """A rational above exp(power), or 1 where that is at least 1."""
    if power >= 0:
        return Fraction(1)
    bits = _BITS + min(math.ceil(-power * Fraction(3, 2)), 1 << 14)
    short = Fraction(math.floor(-power * (1 << bits)), 1 << bits)
    return Fraction(exp_minus_bounds(short, bits)[1], 1 << bits)


def _up(x: Fraction) -> Fraction:
    grid = _GRID << max(0, -_exponent(x)) if x else _GRID
    return Fraction(-(-x.numerator * grid // x.denominator), grid)


def _down(x: Fraction) -> Fraction:
    grid = _GRID << max(0, -_exponent(x)) if x else _GRID
    return Fraction(x.numerator * grid // x.denominator, grid)


def _log_float(x: Fraction) -> float:
    return math.log(x.numerator) - math.log(x.denominator)


def _log(x: Fraction) -> Fraction:
    """The log of x to some forty bits: where to look, the same on all machines."""
    return log_bounds(x, 40)[0]


def _root(slope: Callable[[Fraction], Fraction]) -> Fraction:
    """A positive number at which an increasing function changes its sign, to 24 bits.

    In integers: a ledger that was written on one machine must verify on another.
    """
    low, high = -128, 128  # of the exponent
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if slope(_power(middle)) < 0 else (low, middle)
    grid = _power(low - 24)
    least, most = 1 << 24, 1 << 25
    while most - least > 1:
        middle = (least + most) // 2
        least, most = (middle, most) if slope(middle * grid) < 0 else (least, middle)
    return least * grid


def _crossing(rising: Callable[[float], float]) -> float:
    """The same in floats: a guess that a search starts from."""
    low, high = -100.0, 100.0
    for _ in range(60):
        middle = (low + high) / 2
        low, high = (middle, high) if rising(2.0**middle) < 0 else (low, middle)
    return float(2.0**low)


def _end(fits: Callable[[Fraction], bool], near: float, *, largest: bool) -> Fraction:
    """The largest or the least positive number of 41 bits that fits; what is given back does fit.

    All smaller ones fit, or all larger ones do. The search starts around ``near``; where it ends
    does not depend on that.
    """
    start = Fraction(near) if 0 < near < math.inf else Fraction(1)
    grid = _power(_exponent(start) - 40)
    low = high = round(start / grid)
    step = 1
    while low > 0 and fits(low * grid) != largest:
        low, step = low - step, 16 * step
    step = 1
    while high <= 0 or fits(high * grid) == largest:
        high, step = high + step, 16 * step
    low = max(low, 0)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if fits(middle * grid) == largest else (low, middle)
    return (low if largest else high) * grid


def _power(exponent: int) -> Fraction:
    return Fraction(1 << exponent) if exponent >= 0 else Fraction(1, 1 << -exponent)
