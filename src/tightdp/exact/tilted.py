r"""Exact draws from laws :math:`P(i) \propto w_i\,e^{-r k_i}` with integers w, k and a rational r.

This is the form of every exponential mechanism on a finite set. A draw proposes i from **integers**
:math:`h_i = w_i T_i`, where :math:`T_i \ge 2^{30} e^{-r k_i}` comes from a small table, and keeps i
with probability :math:`2^{30} e^{-r k_i} / T_i`, a coin that is settled by enclosures of the
exponential, drawn bit by bit. What is kept has exactly the law, whatever the table; the table only
decides how often a proposal is kept. Nothing underflows: k is measured from its least value, a
weight that is too small for the table has the bound 1, and its coin is exact all the same.

How many proposals a draw takes, and so its time, depends on the weights: see the documentation of
the mechanisms on timing.
"""

from __future__ import annotations

import math
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import DimensionError, WideIntegers, fail
from tightdp.exact.discrete_draws import collect
from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.rejection import until_accepted
from tightdp.exact.undecided_bits import below_exp
from tightdp.randomness import RandomSource

PLACES = 30
_GUARD = 34  # further places of the recurrences behind the tables
_STEP = Fraction(1, 256)  # levels are grouped while r times the group is at most this
_LEADING = 2 * PLACES + _GUARD  # places of a wide bound beyond its leading zeros, at least
_MOST_WEIGHT = 1 << 31  # above it, int64 sums of w * T could overflow


class ExpTable:
    r"""Integers around :math:`2^P e^{-r k}` for arrays of levels k >= 0.

    Levels are grouped by ``2**shift`` so that one table of a few thousand entries serves any k: the
    upper bound is that of the first level of the group, the lower bound that of the first level of
    the next one. Beyond the table the bounds are 1 and 0.

    Proof: let F = P + 34. With :math:`a \ge 2^F e^{-r 2^s}`, ``t -> ceil(t * a / 2**F)`` keeps
    :math:`t_j \ge 2^F e^{-r 2^s j}`, and with the lower enclosure and floors the other side.

    >>> table = ExpTable(Fraction(1, 2))
    >>> table.upper(np.array([0, 2, 10**6])).tolist(), math.ceil(2**30 / math.e)
    ([1073741824, 395007543, 1], 395007543)
    """

    def __init__(self, rate: Fraction, places: int = PLACES, step: Fraction = _STEP) -> None:
        if not rate > 0:
            fail("`rate` must be > 0.")
        fine = places + _GUARD
        self.shift = max(0, math.floor(step / rate).bit_length() - 1)
        low, high = exp_minus_bounds(rate * 2**self.shift, fine)
        uppers, lowers = [], []
        t = b = 1 << fine
        while t >> _GUARD:  # falls by a constant factor: the groups are not too small
            uppers.append(-(-t >> _GUARD))
            lowers.append(b >> _GUARD)
            t, b = -(-t * high >> fine), b * low >> fine
        kind: Any = np.int64 if places <= PLACES else object
        self._upper = np.array([*uppers, 1], dtype=kind)
        follow = lowers if self.shift == 0 else [*lowers[1:], 0]
        self._lower = np.array([*follow, 0], dtype=kind)

    def _cells(self, levels: WideIntegers) -> NDArray[np.int64]:
        cells = np.minimum(levels >> self.shift, len(self._upper) - 1)
        return np.asarray(cells, dtype=np.int64)

    def upper(self, levels: WideIntegers) -> WideIntegers:
        """Integers at least 1, and at least ``2**places * exp(-rate * level)``."""
        return self._upper[self._cells(levels)]

    def lower(self, levels: WideIntegers) -> WideIntegers:
        """Integers at most ``2**places * exp(-rate * level)``."""
        return self._lower[self._cells(levels)]


@lru_cache(maxsize=16)
def exp_table(rate: Fraction, places: int = PLACES, step: Fraction = _STEP) -> ExpTable:
    """The table of a rate; those of the last few rates are kept."""
    return ExpTable(rate, places, step)


class TiltedLaw:
    r"""The law :math:`P(i) \propto w_i e^{-r k_i}` on 0..n-1, drawn exactly.

    Parameters
    ----------
    weights : integers >= 0, shape (n,), not all 0
    levels : integers, shape (n,)
    rate : Fraction > 0

    Examples
    --------
    >>> law = TiltedLaw(np.array([1, 2, 1]), np.array([0, 1, 7]), Fraction(1, 2))
    >>> law.probabilities().round(4)
    array([0.4458, 0.5408, 0.0135])
    >>> from tightdp.randomness import source
    >>> law.sample(1000, source(1)).max() <= 2
    np.True_
    """

    def __init__(self, weights: WideIntegers, levels: WideIntegers, rate: Fraction) -> None:
        if weights.ndim != 1 or weights.shape != levels.shape or not len(weights):
            fail("`weights` and `levels` must be two vectors of one length.", DimensionError)
        present = weights > 0
        if not present.any():
            fail("`weights` must not all be 0.")
        self.weights, self.rate = weights, rate
        self.levels = np.where(present, levels - levels[present].min(), 0)
        self._wide = int(weights.astype(object).sum()) >= _MOST_WEIGHT
        if self._wide:
            self._places = int(weights.astype(object).sum()).bit_length() + PLACES
            self._bounds: WideIntegers = self._exact_bounds()
        else:
            self._places = PLACES
            self._table = exp_table(rate)
            self._bounds = self._table.upper(self.levels)
        self._edges = np.cumsum(weights * self._bounds)
        self._total = int(self._edges[-1])

    def _exact_bounds(self) -> WideIntegers:
        """Upper bounds with more places than the sum of the weights has bits."""
        known: dict[int, int] = {}
        for level in self.levels:
            if int(level) not in known:
                x = self.rate * int(level)
                places = min(self._places, math.ceil(x * 3 / 2) + _LEADING)
                bound = exp_minus_bounds(x, places)[1] << (self._places - places)
                known[int(level)] = max(1, bound)
        return np.array([known[int(level)] for level in self.levels], dtype=object)

    def draw(self, rng: RandomSource) -> int:
        """One index."""
        if self._wide:
            return until_accepted(lambda: self._wide_trial(rng))
        return int(self.sample(1, rng)[0])

    def sample(self, size: int, rng: RandomSource) -> NDArray[np.int64]:
        """Independent indices, shape (size,)."""
        if self._wide:
            return np.array([self.draw(rng) for _ in range(size)], dtype=np.int64)

        def propose(count: int) -> NDArray[np.int64]:
            found = np.searchsorted(self._edges, rng.integers(self._total, count), side="right")
            return found[self._coins(found, rng)]

        return collect(propose, size)

    def _wide_trial(self, rng: RandomSource) -> int | None:
        i = int(np.searchsorted(self._edges, rng.below(self._total), side="right"))
        return i if self._kept(i, int(rng.words(1)[0]), rng) else None

    def _coins(self, found: NDArray[np.intp], rng: RandomSource) -> NDArray[np.bool_]:
        """Which proposals are kept; few of them need more than a word and a table."""
        words = rng.words(len(found))
        bound = self._bounds[found].astype(np.uint64)
        lower = self._table.lower(self.levels[found]).astype(np.uint64)
        # U < lower/bound is sure when (top 30 bits of U, plus 1) * bound <= lower * 2**30
        top = words >> np.uint64(64 - PLACES)
        kept = (top + np.uint64(1)) * bound <= lower << np.uint64(PLACES)
        for j in np.flatnonzero(~kept):
            kept[j] = self._kept(int(found[j]), int(words[j]), rng)
        return kept

    def _kept(self, i: int, word: int, rng: RandomSource) -> bool:
        x = self.rate * int(self.levels[i])
        return below_exp(word, x, rng, num=1 << self._places, den=int(self._bounds[i]))

    def probabilities(self) -> NDArray[np.float64]:
        """The law as doubles, for tests and plots; a draw never uses them."""
        logs = -float(self.rate) * self.levels.astype(np.float64)
        mass = self.weights.astype(np.float64) * np.exp(logs)
        return np.asarray(mass / mass.sum(), dtype=np.float64)


def permute_and_flip(levels: WideIntegers, rate: Fraction, rng: RandomSource) -> int:
    r"""An index by permute-and-flip: in random order, the first i whose coin
    :math:`e^{-r (k_i - \min k)}` says yes.

    All coins are thrown at once and compared with a table; those that can say yes are settled
    exactly, in the random order, until one does.

    >>> from tightdp.randomness import source
    >>> permute_and_flip(np.array([5, 900, 905]), Fraction(1), source(1))
    0
    """
    above = levels - levels.min()
    order = rng.permutations(1, len(above))[0]
    words = rng.words(len(above))
    possible = (words >> np.uint64(64 - PLACES)).astype(np.int64) < exp_table(rate).upper(above)
    for i in order[possible[order]]:
        if below_exp(int(words[i]), rate * int(above[i]), rng):
            return int(i)
    raise AssertionError("the best candidate always says yes")
