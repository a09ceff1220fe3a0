r"""Exponentials between integers, and exact coins whose odds are only known that way.

Privacy conditions of exact laws compare numbers such as :math:`e^{-\eta}` with rationals. Here they
are enclosed by integers from both sides, to any number of bits, so that a comparison is either
proved or asked again with more bits. No float is used.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import exact_amount, fail
from tightdp.randomness import RandomSource

Bounds = Callable[[int], tuple[int, int]]
"""From a number of bits b to integers low <= x * 2**b <= high around one real x."""


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
    if x < 0:
        fail("`x` must be >= 0.")
    if x >= bits:
        return 0, 1
    halvings = max(0, math.ceil(2 * x).bit_length())
    # bits of e^-x above 2^-bits: 1.4426 < 1/ln 2
    places = max(0, bits - math.floor(x * Fraction(14426, 10000))) + halvings + 32
    num, den = x.numerator, x.denominator << halvings
    one = 1 << places
    term, sums, j = (one, one), (one, one), 0
    while term[1] > 1:
        j += 1
        term = term[0] * num // (den * j), -(-term[1] * num // (den * j))
        if j % 2:
            sums = sums[0] - term[1], sums[1] - term[0]
        else:
            sums = sums[0] + term[0], sums[1] + term[1]
    low, high = sums[0] - term[1], min(sums[1] + term[1], one)
    shift = places - bits
    for _ in range(halvings):
        low, high, shift = low * low, high * high, 2 * shift + bits
        spare = high.bit_length() - places
        low, high, shift = low >> spare, -(-high >> spare), shift - spare
    return (low >> shift, -(-high >> shift)) if shift > 0 else (low << -shift, high << -shift)


def float_up(x: Fraction) -> float:
    """What a guarantee may print for an exact epsilon or delta: a double that means at least x.

    It is the least double whose shortest decimal, which is how privacy parameters are read, is not
    below x.

    >>> float_up(Fraction(3, 10)), float_up(Fraction(1, 3))
    (0.3, 0.33333333333333337)
    """
    near = float(x)
    while exact_amount("x", near) < x:
        near = math.nextafter(near, math.inf)
    return near


def coins(bounds: Bounds, count: int, rng: RandomSource) -> NDArray[np.bool_]:
    """Independent bools, True with exactly the probability p that ``bounds`` encloses.

    Proof: True means U < p for a uniform U whose first 64 bits are one random word. A word that
    does not settle the question gets further bits of the same U, against sharper bounds of p.

    >>> from tightdp.randomness import source
    >>> third = lambda bits: ((1 << bits) // 3, (1 << bits) // 3 + 1)
    >>> bool(280 < coins(third, 1000, source(1)).sum() < 390)
    True
    """
    low, high = bounds(64)
    words = rng.words(count)
    if low >= 1 << 64:
        return np.ones(count, dtype=np.bool_)
    answers = words < np.uint64(max(low, 0))
    open_cells = ~answers if high >= 1 << 64 else ~answers & (words < np.uint64(high))
    for i in np.flatnonzero(open_cells):
        value, bits = int(words[i]), 64
        while True:
            low, high = bounds(bits)
            if value < low or value >= high:
                answers[i] = value < low
                break
            value, bits = value << 64 | int(rng.words(1)[0]), bits + 64
    return answers
