r"""Rejection: proposals until one is kept.

In arrays: :func:`~tightdp.exact.discrete_draws.collect`.

Proposals are independent, so what is kept first has the law of a kept proposal. Most proposals here
are made by floats: they choose among **integer weights**, so that the probability of a proposal is
a ratio of integers, known exactly, whatever the floats (:func:`choose`). It is kept with
probability (weight) / (probability) / (a bound of this ratio), a coin that is settled by enclosures
(:func:`keeps`). What is kept has exactly the law; floats only decide how long it takes.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Callable, Sequence
from fractions import Fraction
from itertools import accumulate
from typing import TypeVar

import numpy as np

from tightdp.errors import FloatArray, Integers
from tightdp.exact.undecided_bits import coin_exp, settle
from tightdp.randomness import RandomSource

Value = TypeVar("Value")

LEAST_SHARE = 2e-5
"""Share of proposals that are kept, below which sampling would practically never end."""

WEIGHT_PLACES = 52
"""Bits of integer weights, less where there are many."""


def until_accepted(propose: Callable[[], Value | None]) -> Value:
    """The first proposal that is not refused, that is, not None."""
    while (found := propose()) is None:
        pass
    return found


def integer_weights(logs: FloatArray) -> Integers:
    """Integers >= 1 in proportion to exp(logs), rounded up; 0 where a log is minus infinity.

    >>> integer_weights(np.array([0.0, -1e9, -np.inf])).tolist() == [2**52, 1, 0]
    True
    """
    places = min(WEIGHT_PLACES, 62 - len(logs).bit_length())  # the sum of all fits 63 bits
    scaled = np.ceil(np.exp(logs - logs.max()) * float(1 << places))
    return np.where(logs > -np.inf, np.maximum(scaled, 1.0), 0.0).astype(np.int64)


def by_weight(weights: Sequence[int], count: int, rng: RandomSource) -> Integers:
    """Independent indices drawn by integer weights, exactly.

    >>> from tightdp.randomness import source
    >>> by_weight([0, 10**30, 0], 3, source(1))
    array([1, 1, 1])
    """
    edges = list(accumulate(weights))
    if edges[-1] < 1 << 62:
        drawn = rng.integers(edges[-1], count)
        return np.searchsorted(np.array(edges, dtype=np.int64), drawn, side="right")
    wide = (rng.below(edges[-1]) for _ in range(count))
    return np.array([bisect_right(edges, value) for value in wide], dtype=np.int64)


def halvings(rng: RandomSource) -> int:
    """j = 0, 1, ... with probability 2**-(j + 1).

    >>> from tightdp.randomness import source
    >>> halvings(source(1)) >= 0
    True
    """
    total = 0
    while (word := int(rng.words(1)[0])) == 0:
        total += 64
    return total + (word & -word).bit_length() - 1


class WeightTable:
    """Indices by integer weights of any size, exactly, a 64-bit word for nearly every draw.

    >>> from tightdp.randomness import source
    >>> WeightTable([0, 10**30, 0]).draw(3, source(1))
    array([1, 1, 1])
    """

    def __init__(self, weights: Sequence[int]) -> None:
        self._edges = list(accumulate(weights))
        total = self._edges[-1]
        below = [edge for edge in self._edges if edge < total]
        self._firsts = np.array([(edge << 64) // total for edge in below], dtype=np.uint64)

    def draw(self, count: int, rng: RandomSource) -> Integers:
        """Independent indices: the number of edges at or below U times the total."""
        words = rng.words(count)
        out = np.searchsorted(self._firsts, words, side="right")
        # a word below or above the first 64 bits of an edge tells on which side of it U lies
        before = np.concatenate([np.zeros(1, np.uint64), self._firsts])[out]  # the last edge passed
        for i in np.flatnonzero((out > 0) & (before == words)):
            out[i] = settle(int(words[i]), self._ask, rng)
        return out.astype(np.int64)

    def _ask(self, value: int, bits: int) -> int | None:
        total = self._edges[-1]
        low, high = (bisect_right(self._edges, at * total >> bits) for at in (value, value + 1))
        return min(low, len(self._edges) - 1) if low == high else None


def choose(logs: FloatArray, rng: RandomSource) -> tuple[int, int, int]:
    """An index with an integer weight in proportion to exp(logs): it, all weights, its weight."""
    weights = integer_weights(logs)
    edges = np.cumsum(weights)
    total = int(edges[-1])
    at = int(np.searchsorted(edges, rng.below(total), side="right"))
    return at, total, int(weights[at])


def keeps(x: Fraction, above: int, below: int, bound: Fraction, rng: RandomSource) -> bool:
    r"""Whether a proposal of probability ``below / above`` and weight :math:`e^{-x}` is kept.

    ``bound`` is at least the ratio of weight to probability, of all proposals.
    """
    return coin_exp(x, rng, num=above * bound.denominator, den=below * bound.numerator)
