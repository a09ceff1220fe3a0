r"""Comparisons with the exponential in integers: what an exact verdict is made of.

For a rational epsilon > 0 the number :math:`e^{\epsilon}` is irrational, so that a comparison of a
rational with a rational multiple of it is never a tie and is settled by bounds that are sharp
enough. No float takes part in a comparison.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache

from tightdp.errors import amount_within
from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.privacy import EPSILON_CEILING


def check_exponent(name: str, value: object) -> Fraction:
    """A rational in [0, 2**10], taken exactly."""
    return amount_within(name, value, "[0, 2**10]")


def check_delta(value: object) -> Fraction:
    """A rational in [0, 1), taken exactly."""
    return amount_within("delta", value, "[0, 1)")


@lru_cache(maxsize=256)
def _bounds(x: Fraction, bits: int) -> tuple[int, int]:
    """Integers around e**-x * 2**bits; the same ones are asked for again and again."""
    return exp_minus_bounds(x, bits)


def exp_between(x: Fraction, width: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals around e**x, less than ``width`` apart, for a rational x >= 0.

    >>> low, high = exp_between(Fraction(1), Fraction(1, 10**30))
    >>> float(low), high - low < Fraction(1, 10**30), exp_between(Fraction(0), Fraction(1))
    (2.718281828459045, True, (Fraction(1, 1), Fraction(1, 1)))
    """
    bits = 128 + 4 * math.ceil(x)
    while True:
        low, high = _bounds(x, bits)
        if (high - low) << bits < width * low * high:
            return Fraction(1 << bits, high), Fraction(1 << bits, low)
        bits *= 2


def exceeds(a: int, b: int, x: Fraction) -> bool:
    """Whether a > e**x b, decided exactly, for integers a and b >= 0 and a rational x >= 0.

    >>> exceeds(271828182845904523536, 10**20, Fraction(1))
    False
    >>> exceeds(271828182845904523537, 10**20, Fraction(1))
    True
    """
    if a <= 0 or b == 0 or x == 0:
        return a > b
    bits = 64
    while True:
        low, high = _bounds(x, bits)
        if a * low > b << bits:
            return True
        if a * high <= b << bits:
            return False
        bits *= 2


def log_down(a: int, b: int) -> float:
    """A float at most ln(a/b), and close to it, for integers a >= b >= 0, a > 0; inf if b = 0.

    The float is a guess, at most 2**10, that is lowered until e**guess < a/b is proved.

    >>> log_down(3, 1), log_down(1, 1), log_down(1, 0)
    (1.09861228866810..., 0.0, inf)
    """
    if b == 0:
        return math.inf
    if a < 2 * b:
        guess = math.log1p((a - b) / b)  # no cancellation next to 0
    else:
        spare = max(0, a.bit_length() - b.bit_length() - 64)
        guess = min(math.log((a >> spare) / b) + spare * math.log(2), float(EPSILON_CEILING))
    while guess > 0 and not exceeds(a, b, Fraction(guess)):
        guess = guess * (1 - 2**-50) if guess > 2**-1000 else 0.0
    return guess
