r"""Tails of the normal law and logarithms of rationals between rationals, to any number of bits.

Conversions between units of privacy compare such numbers with a delta. Both sides are enclosed, so
that a comparison is proved. No float decides.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from tightdp.exact.enclosures import LOG_SLACK, exp_minus_bounds, minus_log

_GUARD = 64
FAR = 4  # standard deviations, from which on a continued fraction takes fewer steps


def log_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Rationals around ln(x), for a rational x > 0, less than 2**-bits apart.

    ln(n/d) = -minus_log(n / 2^b) + minus_log(d / 2^c) + (b - c) ln 2, each term within
    ``LOG_SLACK`` of its last place; the last is multiplied by b - c.

    >>> low, high = log_bounds(Fraction(3, 2), 60)
    >>> low < Fraction(0.4054651081081644) + Fraction(1, 10**15), 0 < high - low < 2**-60
    (True, True)
    """
    above, below = x.numerator.bit_length(), x.denominator.bit_length()
    shift = bits + 8 + (2 + abs(above - below)).bit_length()
    near = minus_log(x.denominator, below, shift) - minus_log(x.numerator, above, shift)
    near += (above - below) * minus_log(1, 1, shift)
    slack = LOG_SLACK * (2 + abs(above - below))
    return Fraction(near - slack, 1 << shift), Fraction(near + slack, 1 << shift)


def tail_above(x: Fraction, bits: int) -> Fraction:
    """A rational above P(N > x), by less than 2**-bits or so, for a standard normal N.

    >>> 0 < tail_above(Fraction(1), 60) - Fraction(0.15865525393145705) < Fraction(1, 10**15)
    True
    """
    near = Fraction(math.floor(x * (1 << bits)), 1 << bits)  # less far out: more
    return _tail(near, bits)[1] if near >= 0 else 1 - _tail(-near, bits)[0]


def tail_below(x: Fraction, bits: int) -> Fraction:
    """A rational below P(N > x), by less than 2**-bits or so.

    >>> tail_below(Fraction(-1), 60) < tail_above(Fraction(-1), 60)
    True
    """
    far = Fraction(math.ceil(x * (1 << bits)), 1 << bits)
    return _tail(far, bits)[0] if far >= 0 else 1 - _tail(-far, bits)[1]


def mills_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    r"""Rationals around :math:`P(N > x)/\varphi(x)` for x >= ``FAR``, 2**-bits apart.

    Laplace's fraction :math:`1/(x + 1/(x + 2/(x + 3/(x + \dots))))`. The part of it behind the n-th
    line lies in :math:`[x, x + (n+1)/x]`; going back, :math:`d \mapsto x + k/d` falls in d, so that
    the ends change places, each rounded to its own side.

    >>> low, high = mills_bounds(Fraction(5), 60)
    >>> low < Fraction(0.19280810471531575) + Fraction(1, 10**15), 0 < high - low < 2**-60
    (True, True)
    """
    places, lines = bits + 16, 16
    fixed_low = math.floor(x * (1 << places))
    fixed_high = math.ceil(x * (1 << places))
    while True:
        low = fixed_low
        high = fixed_high - (-((lines + 1) << (2 * places)) // fixed_low)
        for k in range(lines, 0, -1):
            top = k << (2 * places)
            low, high = fixed_low + top // high, fixed_high - (-top // low)
        ends = (1 << (2 * places)) // high, -(-(1 << (2 * places)) // low)
        if ends[1] - ends[0] <= 1 << 15:
            return Fraction(ends[0], 1 << places), Fraction(ends[1], 1 << places)
        lines *= 2


def beside(x: Fraction, bits: int) -> int:
    """Bits of a factor that leave ``bits`` of its product with the normal density at x.

    The density is below 2**-(x**2 / (2 ln 2)), and 1/(2 ln 2) is above 0.72.

    >>> beside(Fraction(30), 1000)
    352
    """
    return max(_GUARD, bits - math.floor(x * x * 18 / 25))


def density_bounds(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Rationals around the normal density at x, 2**-bits apart or so."""
    weight, root = exp_minus_bounds(x * x / 2, bits), _inverse_root(bits)
    ends = (Fraction(w * r, 1 << (2 * bits)) for w, r in zip(weight, root, strict=True))
    low, high = ends
    return low, high


def _tail(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    """Rationals around P(N > x) for x >= 0: a fraction far out, a series near 0."""
    if x < FAR:
        return _near_tail(x, bits)
    ends = zip(mills_bounds(x, beside(x, bits)), density_bounds(x, bits), strict=True)
    low, high = (ratio * density for ratio, density in ends)
    return low, high


def _near_tail(x: Fraction, bits: int) -> tuple[Fraction, Fraction]:
    r"""The same for x below ``FAR``.

    :math:`P(N > x) = \tfrac12 - \varphi(x) \sum_{k \ge 0} x^{2k+1}/(2k+1)!!`. The terms are kept as
    pairs of integers, rounded down and up; each is :math:`x^2/(2k+1)` times the one before, so that
    those after a term with a factor below 1/2 add up to less than it.
    """
    square, places = x * x, bits + _GUARD
    weight, root = exp_minus_bounds(square / 2, places), _inverse_root(places)
    num, den = x.numerator, x.denominator
    low = weight[0] * root[0] * num // (den << places)
    high = -(-weight[1] * root[1] * num // (den << places))
    sums, k = [low, high], 1
    num, den = square.numerator, square.denominator
    while high > 1 or 2 * num > (2 * k + 1) * den:
        k, step = k + 1, den * (2 * k + 1)
        low, high = low * num // step, -(-high * num // step)
        sums[0], sums[1] = sums[0] + low, sums[1] + high
    half = 1 << (places - 1)
    least, most = max(0, half - sums[1] - high), half - sums[0]
    return Fraction(least, 1 << places), Fraction(most, 1 << places)


@lru_cache(maxsize=64)
def _inverse_root(places: int) -> tuple[int, int]:
    r"""Integers around :math:`2^{places}/\sqrt{2\pi}`.

    By Machin's formula :math:`\pi = 16 \arctan(1/5) - 4 \arctan(1/239)`; every term of either
    series is rounded down by less than 1, and their number is below ``inner``.
    """
    inner = places + _GUARD
    slack = 20 * inner
    near = 16 * _arctan_inverse(5, inner) - 4 * _arctan_inverse(239, inner)
    low, high = (near - slack) >> _GUARD, ((near + slack) >> _GUARD) + 1
    whole = 1 << (3 * places)
    return math.isqrt(whole // (2 * high)), math.isqrt(-(-whole // (2 * low))) + 1


def _arctan_inverse(x: int, places: int) -> int:
    term = (1 << places) // x
    total, k = term, 1
    while term:
        term, k = term // (x * x), k + 2
        total += term // k if k % 4 == 1 else -(term // k)
    return total
