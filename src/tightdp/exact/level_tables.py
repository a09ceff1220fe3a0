r"""Levels of coarse lattice noise, drawn by exact inversion.

At coarse rates a lattice noise has few levels, and the weights :math:`q^j N(j)`,
:math:`q = e^{-\eta}`, can be listed: N(j) is an integer, q is enclosed by integers, and the mass
beyond the list is bounded. The first 64 bits of a uniform U nearly always settle a level, and what
they leave open gets further bits of the **same** U against a sharper list
(:mod:`~tightdp.exact.undecided_bits`). No float decides.
"""

from __future__ import annotations

import math
from bisect import bisect_right
from collections.abc import Callable
from fractions import Fraction
from itertools import accumulate

import numpy as np
from numpy.typing import NDArray

from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.undecided_bits import settle
from tightdp.randomness import RandomSource, Words

_START_BITS = 128
_GUARD = 40  # bits that hold the roundings of up to 2**30 entries

Edges = tuple[list[int], list[int]]
"""Integers low[j] <= 2**bits * P(level <= j) <= high[j], for the levels that are listed."""


class LevelTable:
    r"""Integers j >= 0 with :math:`P(j) \propto e^{-\eta j} N(j)`.

    Parameters
    ----------
    eta : Fraction
        > 0.
    count : callable
        N, from j to an integer >= 1.
    degree : int
        r with :math:`N(j) \le A (j+1)(j+2)\cdots(j+r)` for all j.
    factor : Fraction
        A.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> table = LevelTable(Fraction(1), lambda j: 2 * j + 1, 1, Fraction(2))
    >>> table.draw(1000, source(1)).dtype
    dtype('int64')
    """

    def __init__(
        self, eta: Fraction, count: Callable[[int], int], degree: int, factor: Fraction
    ) -> None:
        self.eta, self.count, self.degree, self.factor = eta, count, degree, factor
        self._made: dict[int, Edges] = {}
        low, high = self.edges(_START_BITS)
        spare = _START_BITS - 64
        self._low: Words = np.array([edge >> spare for edge in low], dtype=np.uint64)
        # An upper edge of 2**64 does not fit; below it no word is decided to lie above it.
        tops = [min(-(-edge >> spare), (1 << 64) - 1) for edge in high]
        self._high: Words = np.array([0, *tops], dtype=np.uint64)

    def draw(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """``size`` independent levels."""
        words = rng.words(size)
        # U lies in [w, w + 1] / 2**64: j if w + 1 <= low[j] and w >= high[j - 1]
        out = np.searchsorted(self._low, words, side="right")
        settled = (out < self._low.size) & (words >= self._high[out])
        for i in np.flatnonzero(~settled):
            out[i] = settle(int(words[i]), self._ask, rng)
        return out.astype(np.int64)

    def _ask(self, value: int, bits: int) -> int | None:
        if bits < _START_BITS:
            return None  # asked for all words at once
        low, high = self.edges(bits)
        j = bisect_right(low, value)
        return j if j < len(low) and (j == 0 or value >= high[j - 1]) else None

    def edges(self, bits: int) -> Edges:
        """Bounds of the distribution function, up to a level beyond which 2**-bits is left."""
        if bits not in self._made:
            self._made[bits] = self._edges(bits)
        return self._made[bits]

    def _edges(self, bits: int) -> Edges:
        last, peak = self._extent(bits)
        # q**j in fixed point, fine enough for the last level; weights scaled to bits + guard.
        eta = float(self.eta)
        places = bits + _GUARD + math.ceil(1.4427 * eta * (last + 1)) + last.bit_length()
        shift = places + math.ceil(peak * 1.4427) - bits - _GUARD
        one = 1 << places
        q_low, q_high = exp_minus_bounds(self.eta, places)
        power_low, power_high = one, one
        low, high = [], []
        for j in range(last + 1):
            weight = self.count(j)
            low.append(_down(weight * power_low, shift))
            high.append(-_down(-weight * power_high, shift))
            power_low = power_low * q_low >> places
            power_high = -(-power_high * q_high >> places)
        # N(j) <= M(j) = A (j+1)...(j+r), and M(j+1)/M(j) = (j+1+r)/(j+1) falls: beyond the last
        # level the weights sum up to less than q**k M(k) / (1 - q (k+1+r)/(k+1)), k = last + 1.
        k = last + 1
        most = math.ceil(self.factor * math.prod(range(k + 1, k + 1 + self.degree)))
        room = one * (k + 1) - q_high * (k + 1 + self.degree)
        tail = -_down(-(most * power_high * (one * (k + 1)) // room + 1), shift)
        least, total = sum(low), sum(high) + tail
        return (
            [(edge << bits) // total for edge in accumulate(low)],
            [min(-(-(edge << bits) // least), 1 << bits) for edge in accumulate(high)],
        )

    def _extent(self, bits: int) -> tuple[int, float]:
        """The last level to list and the log of the total weight, roughly."""
        eta, peak, j = float(self.eta), -math.inf, 0
        log_most = math.lgamma(self.degree + 1) + log_of(self.factor)
        turn = self.degree / math.expm1(min(eta / 2, 700.0))  # there q (j+1+r)/(j+1) <= exp(-eta/2)
        while True:
            peak = max(peak, math.log(self.count(j)) - eta * j)
            log_most += math.log((j + 1 + self.degree) / (j + 1))  # of M(j + 1)
            beyond = log_most - eta * (j + 1) - math.log(-math.expm1(-eta / 2))
            if j >= turn and beyond < peak - bits * math.log(2):
                return j, peak + math.log(j + 1)
            j += 1


def _down(value: int, shift: int) -> int:
    return value >> shift if shift >= 0 else value << -shift


def log_of(number: Fraction) -> float:
    """The logarithm of a rational of any size."""
    return math.log(number.numerator) - math.log(number.denominator)
