r"""Uniform real numbers of which only as many bits are drawn as a question needs.

The number U lies in [v, v + 1] / 2^b; the bits that are not yet drawn are independent and fair, so
U is exactly uniform. A question about U is answered from bounds in integers; when they do not
settle it, more bits are drawn and **the same U** is asked again (:func:`settle`). It is never
redrawn: redrawing would condition the law on being easy.

Three questions are asked. Is U below a number that integers enclose (:func:`coins`), below
:math:`a e^{-x}` (:func:`below_exp`), or how large is :math:`-\ln U` (:func:`log_level`,
:func:`log_exceeds`)? Since :math:`P(-\ln U \ge jx) = P(U \le e^{-jx}) = e^{-jx}`, the level
:math:`k \le -\ln U / x < k + 1` is geometric with ratio :math:`e^{-x}`. For rational x > 0 the
numbers :math:`e^{-jx}`, j >= 1, are irrational, so U avoids them with certainty as its bits grow,
and every question is settled with probability 1.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from math import ceil
from typing import TypeVar

import numpy as np
from numpy.typing import NDArray

from tightdp.exact.enclosures import LOG_SLACK, exp_minus_bounds, minus_log
from tightdp.randomness import RandomSource

Answer = TypeVar("Answer")
Bounds = Callable[[int], tuple[int, int]]
"""From a number of bits b to integers low <= x * 2**b <= high around one real x."""


def settle(
    value: int, ask: Callable[[int, int], Answer | None], rng: RandomSource, bits: int = 64
) -> Answer:
    """The answer to a question about a uniform U whose leading ``bits`` are ``value``.

    ``ask(value, bits)`` answers for all U that begin so, or gives None. Then at least as many fresh
    bits as are known are drawn, and it is asked again.

    >>> from tightdp.randomness import source
    >>> settle(5, lambda value, bits: bits, source(1)), settle(
    ...     5, lambda value, bits: bits if bits > 200 else None, source(1))
    (64, 256)
    """
    while (answer := ask(value, bits)) is None:
        words = -(-bits // 64)
        fresh = int.from_bytes(rng.words(words).tobytes(), "little")
        value, bits = value << (64 * words) | fresh, bits + 64 * words
    return answer


def coins(bounds: Bounds, count: int, rng: RandomSource) -> NDArray[np.bool_]:
    """Independent bools, True with exactly the probability p that ``bounds`` encloses.

    >>> from tightdp.randomness import source
    >>> third = lambda bits: ((1 << bits) // 3, (1 << bits) // 3 + 1)
    >>> bool(280 < coins(third, 1000, source(1)).sum() < 390)
    True
    """

    def ask(value: int, bits: int) -> bool | None:
        low, high = bounds(bits)
        return value < low if value < low or value >= high else None

    low, high = bounds(64)
    words = rng.words(count)
    if low >= 1 << 64:
        return np.ones(count, dtype=np.bool_)
    answers = words < np.uint64(max(low, 0))
    undecided = ~answers if high >= 1 << 64 else ~answers & (words < np.uint64(high))
    for i in np.flatnonzero(undecided):
        answers[i] = settle(int(words[i]), ask, rng)
    return answers


def below_exp(word: int, x: Fraction, rng: RandomSource, *, num: int = 1, den: int = 1) -> bool:
    r"""Whether :math:`U < (\text{num}/\text{den})\, e^{-x}`, for a uniform U with leading ``word``.

    ``word`` holds the first 64 bits of U. For x other than 0 the right side is irrational, so that
    U avoids it; for x = 0 the bounds meet and settle it at once or, on a tie of the bits known, as
    soon as they differ. For x < 0 it is :math:`U e^{x}` that is compared with the fraction.

    >>> from tightdp.randomness import source
    >>> below_exp(0, Fraction(40), source(1)), below_exp(2**63, Fraction(1), source(1))
    (True, False)
    >>> below_exp(2**63, Fraction(-1), source(1), den=5)  # 0.5 against 0.54
    True
    """
    spare = max(0, num.bit_length() - den.bit_length()) + 8
    grown = max(0, ceil(-x * 2))  # bits by which e^x is smaller than 1, and more

    def ask(value: int, bits: int) -> bool | None:
        low, high = exp_minus_bounds(x, bits + spare)
        if ((value + 1) * den) << spare <= low * num:
            return True
        return False if (value * den) << spare >= high * num else None

    def ask_back(value: int, bits: int) -> bool | None:
        places = bits + spare + grown
        low, high = exp_minus_bounds(-x, places)
        if (value + 1) * high * den <= num << (bits + places):
            return True
        return False if value * low * den >= num << (bits + places) else None

    return settle(word, ask if x >= 0 else ask_back, rng)


def coin_exp(x: Fraction, rng: RandomSource, *, num: int = 1, den: int = 1) -> bool:
    r"""True with probability :math:`(\text{num}/\text{den})\, e^{-x}`, which is at most 1."""
    return below_exp(int(rng.words(1)[0]), x, rng, num=num, den=den)


def log_level(value: int, bits: int, num: int, den: int, rng: RandomSource) -> int:
    """floor(-ln U / (num/den)): geometric with ratio exp(-num/den).

    >>> from tightdp.randomness import source
    >>> log_level(1 << 62, 63, 1, 10, source(1)), log_exceeds(1 << 62, 63, 1, 2, source(1))
    (6, True)
    """

    def ask(value: int, bits: int) -> int | None:
        low, high, shift = minus_log_bounds(value, bits)
        least = low * den // (num << shift)
        return least if high is not None and least == high * den // (num << shift) else None

    return settle(value, ask, rng, bits)


def log_exceeds(value: int, bits: int, num: int, den: int, rng: RandomSource) -> bool:
    """Whether -ln U >= num/den: Bernoulli(exp(-num/den))."""

    def ask(value: int, bits: int) -> bool | None:
        low, high, shift = minus_log_bounds(value, bits)
        if low * den >= num << shift:
            return True
        return False if high is not None and high * den < num << shift else None

    return settle(value, ask, rng, bits)


def log_exceeds_at(
    value: int, place: int, exponent: Callable[[Fraction], Fraction], rng: RandomSource
) -> bool:
    """Whether -ln U >= exponent(W), of two uniform numbers and an increasing function.

    63 bits of U and 64 of W are known; of both more are drawn until it is settled.

    >>> from tightdp.randomness import source
    >>> log_exceeds_at(1 << 61, 1 << 63, lambda w: w, source(1))  # 2 ln 2 against 1/2
    True
    """
    bits, known = 63, 64
    while True:
        low, high, shift = minus_log_bounds(value, bits)
        if low >= exponent(Fraction(place + 1, 1 << known)) * (1 << shift):
            return True
        if high is not None and high < exponent(Fraction(place, 1 << known)) * (1 << shift):
            return False
        fresh = [int.from_bytes(rng.words(known // 64).tobytes(), "little") for _ in range(2)]
        value, place = value << known | fresh[0], place << known | fresh[1]
        bits, known = bits + known, 2 * known


def minus_log_bounds(value: int, bits: int) -> tuple[int, int | None, int]:
    """``(low, high, shift)``: low <= -ln U * 2**shift <= high, and high None for no bound.

    From U >= v/2^n comes the upper bound; ln(v + 1) <= ln(v) + 1/v gives the lower one without a
    second logarithm.
    """
    shift = bits + 16
    if value == 0:
        return minus_log(1, bits, shift) - LOG_SLACK, None, shift
    middle = minus_log(value, bits, shift)
    width = (1 << shift) // value + 1
    return max(0, middle - LOG_SLACK - width), middle + LOG_SLACK, shift
