r"""Rejection: proposals until one is kept, one at a time or in arrays.

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

from tightdp.errors import FloatArray, Integers, WideIntegers
from tightdp.exact.undecided_bits import coin_exp
from tightdp.randomness import RandomSource

Value = TypeVar("Value")

LEAST_SHARE = 2e-5
"""Share of proposals that are kept, below which sampling would practically never end."""

WEIGHT_PLACES = 52
"""Bits of integer weights, less where there are many."""

_MOST_CELLS = 1 << 21


def until_accepted(propose: Callable[[], Value | None]) -> Value:
    """The first proposal that is not refused, that is, not None."""
    while (found := propose()) is None:
        pass
    return found


def collect(
    propose: Callable[[int], WideIntegers],
    size: int,
    share: float | None = None,
    *,
    width: int = 1,
    cells: int = _MOST_CELLS,
) -> WideIntegers:
    """The first ``size`` rows that are kept of batches of proposals.

    ``propose(n)`` makes n proposals and gives those that are kept, in their order. Batches are cut
    by a fixed number of rows, never by what came out of them, so the law of a row is that of a kept
    proposal; ``share``, about the share that is kept (None for nearly all), only sets the size of
    batches, which are of at most ``cells / width`` rows.

    >>> collect(lambda n: np.arange(n)[::2], 3, 0.5)
    array([0, 2, 4])
    """
    found: list[WideIntegers] = []
    missing = size
    while missing > 0 or not found:
        batch = missing if share is None else int(missing / max(share, LEAST_SHARE) * 1.05) + 8
        found.append(propose(min(batch, max(1024, cells // width)))[:missing])
        missing -= len(found[-1])
    return found[0] if len(found) == 1 else np.concatenate(found)


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
