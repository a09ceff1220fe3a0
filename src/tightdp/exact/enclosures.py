r"""Exponentials and logarithms between integers, to any number of bits.

Privacy conditions of exact laws compare numbers such as :math:`e^{-\eta}` with rationals. Here they
are enclosed by integers from both sides, so that a comparison is either proved or asked again with
more bits. No float decides.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from tightdp.errors import fail

LOG_SLACK = 2  # |minus_log - truth| in units of the last place, proved there
_GUARD_BITS = 64
_FACTOR_BITS = 128  # of exp(epsilon), which multiplies integers
_LN2 = Fraction(0xB17217F7D1CF79ABC9E3B39803F2F6AF, 1 << 128)  # to its last place


def exp_minus_bounds(x: Fraction, bits: int) -> tuple[int, int]:
    r"""Integers ``low <= exp(-x) * 2**bits <= high`` for a rational x >= 0.

    Proof: :math:`e^{-x} = (e^{-y})^{2^k}` with :math:`y = x/2^k \le 1/2`. The terms
    :math:`y^j/j!` fall, so the alternating sums enclose :math:`e^{-y}`; each term, sum and square
    is kept as a pair of integers, the lower one rounded down, the upper one up, in units that
    shrink with the squares: of a small :math:`e^{-x}` the digits asked for are few. For
    :math:`x \ge` bits, :math:`e^{-x} < 2^{-\text{bits}}`.

    >>> low, high = exp_minus_bounds(Fraction(1), 60)
    >>> high - low <= 2, abs(low / 2**60 - 0.36787944117144233) < 1e-15
    (True, True)
    """
    num, den = x.numerator, x.denominator  # integers alone: many draws begin here
    if num < 0:
        fail("`x` must be >= 0.")
    if num >= bits * den:
        return 0, 1
    halvings = (-(-2 * num // den)).bit_length()
    # bits of e^-x above 2^-bits: 1.4426 < 1/ln 2
    places = max(0, bits - num * 14426 // (den * 10000)) + halvings + 32
    twos = (den & -den).bit_length() - 1  # shifts are faster than divisions, and floors of floors
    den, twos = den >> twos, twos + halvings
    one = 1 << places
    lower = upper = low = high = one  # a term, and the sum up to it
    below, step = True, den
    while upper > 1:
        lower, upper = (lower * num >> twos) // step, -((-upper * num >> twos) // step)
        low, high = (low - upper, high - lower) if below else (low + lower, high + upper)
        below, step = not below, step + den
    low, high = low - upper, min(high + upper, one)
    shift = places - bits
    for _ in range(halvings):
        low, high, shift = low * low, high * high, 2 * shift + bits
        spare = high.bit_length() - places
        low, high, shift = low >> spare, -(-high >> spare), shift - spare
    return (low >> shift, -(-high >> shift)) if shift > 0 else (low << -shift, high << -shift)


def exp_below(epsilon: Fraction) -> tuple[int, int]:
    """Integers with ``top / high <= exp(epsilon)``: the safe side for shortfalls."""
    bits = _FACTOR_BITS + math.ceil(2 * epsilon)
    return 1 << bits, exp_minus_bounds(epsilon, bits)[1]


def exp_above(epsilon: Fraction) -> Fraction:
    """A rational >= exp(epsilon): the safe side for lower bounds.

    >>> float(exp_above(Fraction(1))) - 2.718281828459045 < 1e-15
    True
    """
    bits = _FACTOR_BITS + math.ceil(2 * epsilon)
    return Fraction(1 << bits, exp_minus_bounds(epsilon, bits)[0])


def exp_up(x: float, places: int = 0) -> Fraction:
    """A rational a little above ``exp(x) * 2**places``, for any double below ``2**60`` in size.

    >>> float(exp_up(1.0)) >= math.e, float(exp_up(-800.0, 1200)) > 0
    (True, True)
    """
    power = math.floor(x / math.log(2))
    # the difference is exact: what is rounded is at most about 1, whatever x
    mantissa = Fraction(math.exp(float(Fraction(x) - power * _LN2)) * (1 + 1e-9))
    power += places
    return mantissa * (Fraction(1 << power) if power >= 0 else Fraction(1, 1 << -power))


def whole_up(x: Fraction) -> int:
    """The least integer >= x."""
    return -(-x.numerator // x.denominator)


def minus_log(value: int, bits: int, shift: int) -> int:
    r"""-ln(value / 2**bits) * 2**shift within ``LOG_SLACK``, for 1 <= value <= 2**bits.

    Write value = 2^e (i/64)(1 + d) with i in 64..127 and 0 <= d < 1/64, so that
    -ln(value/2^n) = (n - e) ln 2 - ln(i/64) - 2 artanh(z), z = d/(2 + d) < 2^-7.

    Error: let P = shift + 64 be the internal places. Each of the three logarithms is low by less
    than 4P units (:func:`_double_artanh`), the first is multiplied by n - e <= P, so the sum errs
    by less than 4P^2 + 8P < 2^62 internal units as long as shift < 2^29; that is a quarter of a
    unit of the result, and the last floor loses less than one.

    >>> abs(minus_log(1, 1, 60) / 2**60 - 0.6931471805599453) < 1e-15
    True
    """
    places = shift + _GUARD_BITS
    e = value.bit_length() - 1
    i = (value << 6) >> e
    top, bottom = (value << 6) - (i << e), (value << 6) + (i << e)
    total = (bits - e) * _log_of_64ths(128, places) - _log_of_64ths(i, places)
    return (total - _double_artanh(top, bottom, places)) >> _GUARD_BITS


@lru_cache(maxsize=1 << 10)
def _log_of_64ths(i: int, places: int) -> int:
    """ln(i/64) * 2**places for i in 64..128, from ln(a) = 2 artanh((a - 1)/(a + 1))."""
    return _double_artanh(i - 64, i + 64, places)


def _double_artanh(top: int, bottom: int, places: int) -> int:
    r"""2 artanh(top/bottom) * 2**places for 0 <= top/bottom <= 1/3, low by less than 4*places.

    Series: artanh(z) = z + z^3/3 + z^5/5 + ... With floors, z is low by less than 1 unit and z^2
    by less than 2; if z^k is low by less than 2, then z^(k+2) is low by less than
    2/9 + 2/3 + 1 < 2. So every z^k/k is low by less than 3, there are at most places/3 + 2 of
    them, and those left out, from a true z^k < 3 on, add up to less than 4.
    """
    z = (top << places) // bottom
    square = z * z >> places
    total, power, k = z, z, 1
    while power:
        power, k = power * square >> places, k + 2
        total += power // k
    return 2 * total
