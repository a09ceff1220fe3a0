r"""Exact draws of paths with weight :math:`\prod_j \frac{1}{c_j!}\, e^{-r Q}`, Q their distance.

The exponential is a sum of levels, :math:`e^{-rQ} \propto \sum_{q \ge Q} e^{-rq}`. So a path may be
drawn together with a level q, with joint weight :math:`\prod 1/c_j! \cdot e^{-rq}` on
:math:`Q \le q`, and the level forgotten. Levels come in blocks; within a block the band of its last
level serves all, and what lies above the level is rejected. The last block has no end and no band:
its proposals are independent uniform points. Every decision is an exact coin, so what is accepted
has exactly the law; floats only choose the blocks, that is, how long it takes.

Blocks end just before a distance that some path can have: between two such distances all levels
have the same paths, however many there are, and a block of them wastes nothing.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightdp.exact.band_paths import Band, BandPaths, any_sample, ratio_bound
from tightdp.exact.rejection import until_accepted
from tightdp.exact.tilted import TiltedLaw
from tightdp.exact.undecided_bits import coin_exp
from tightdp.randomness import RandomSource

_TAIL = 30.0  # nats below the heaviest block at which the tail may begin
_REJECTED = 40.0  # proposals for a draw, at most about this many; a third of it is common
_BLOCKS = 4000
_KEPT = 8  # bands for further proposals
_BITS = 100  # of the weight of the heaviest block


class BandLevels:
    """The law of (level, path) for one table.

    Parameters
    ----------
    paths : BandPaths
    rate : Fraction
        r > 0.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> levels = BandLevels(BandPaths(np.array([1, 3, 4]), size=2), Fraction(1, 2))
    >>> int(levels.draw(source(1)).sum())
    2
    """

    def __init__(self, paths: BandPaths, rate: Fraction) -> None:
        self.paths, self.rate = paths, rate
        self._known: dict[int, float] = {}
        self._ends = self._refined(self._doubled())
        self._starts = [paths.least, *(end + 1 for end in self._ends)]
        self._reach = max(1, math.ceil(1 / rate))  # blocks of the tail: r times it is at least ln 2
        self._bands: dict[int, Band] = {}
        self._law = self._weigh()

    # --- choosing blocks: floats, for speed only ----------------------------------------------

    def _log_weight(self, level: int) -> float:
        """Log of the weight of all paths within a level."""
        if level not in self._known:
            self._known[level] = self.paths.band(level).log_total
        return self._known[level]

    def _upper(self, start: int, end: int) -> float:
        """Log of the weight of all proposals in a block."""
        drop = float(self.rate * (start - self.paths.least))
        spread = -math.expm1(-float(self.rate * (end - start + 1)))
        return self._log_weight(end) + math.log(spread / -math.expm1(-float(self.rate))) - drop

    def _lower(self, start: int, end: int) -> float:
        """Log of the weight of what is accepted, from below or, in a short block, about."""
        upper = self._upper(start, end)
        if self._flat(start, end):
            return upper
        rise = self._log_weight(end) - self._log_weight(max(start - 1, self.paths.least))
        if self.rate * (end - start + 1) > 1:
            return upper - rise
        # wherever the paths come in, about one level in 2 to 4 + rise has them
        return upper - min(rise, math.log(4 + max(rise, 0.0)))

    def _flat(self, start: int, end: int) -> bool:
        return self.paths.next_distance(start) > end

    def _doubled(self) -> list[int]:
        """Ends of blocks that double, until what follows weighs next to nothing."""
        least, last = self.paths.least, self.paths.rows * self.paths.size
        total = self.paths.log_total()
        width, best = max(1, math.floor(1 / self.rate)), -math.inf
        ends: list[int] = []
        while True:
            start = ends[-1] + 1 if ends else least
            end = min(self.paths.next_distance(start + width - 1) - 1, last)
            ends.append(end)
            # from below: blocks of this length are far lighter than their bounds
            best = max(best, self._lower(start, end))
            beyond = total - float(self.rate * (end + 1 - least)) - math.log(float(self.rate))
            if end == last or beyond < best - _TAIL:
                return ends
            width *= 2

    def _refined(self, ends: list[int]) -> list[int]:
        """Split the blocks that waste most until few proposals are wasted."""
        while len(ends) < _BLOCKS:
            starts = [self.paths.least, *(end + 1 for end in ends[:-1])]
            pairs = list(zip(starts, ends, strict=True))
            upper = np.array([self._upper(*pair) for pair in pairs])
            lower = np.array([self._lower(*pair) for pair in pairs])
            top = upper.max()
            waste = np.exp(upper - top) - np.exp(lower - top)
            if np.exp(upper - top).sum() <= _REJECTED * np.exp(lower - top).sum():
                break
            # no waste, no cut: what is split has paths that come in on the way
            worst = np.flatnonzero((waste > 0) & (waste >= waste.max() / 8))
            if not len(worst):
                break
            ends = sorted({*ends, *(self._cut(*pairs[i]) for i in worst)})
        return ends

    def _cut(self, start: int, end: int) -> int:
        """The end of the first of two blocks: near the middle, where paths come in next."""
        cut = self.paths.next_distance((start + end) // 2) - 1
        if cut < end:
            return cut
        # none in the second half: just before the last that comes in within the first
        return self.paths.last_distance((start + end) // 2) - 1

    # --- the law: integers --------------------------------------------------------------------

    def _weigh(self) -> TiltedLaw:
        """Integer bounds of every block, in units so small that none is coarse."""
        top = max(
            self._upper(start, end) for start, end in zip(self._starts, self._ends, strict=False)
        )
        self._places = _BITS - math.floor(top / math.log(2))
        self._bounds = [ratio_bound(self._log_weight(end), self._places) for end in self._ends]
        tail = ratio_bound(self.paths.log_total(), self._places)
        # the levels of a block are drawn from so many of weight 1
        spans = zip(self._bounds, self._starts, self._ends, strict=False)
        weights = [b * min(end - start + 1, 2 * self._reach) for b, start, end in spans]
        weights.append(2 * self._reach * tail)
        self._bounds.append(tail)
        levels = np.array([s - self.paths.least for s in self._starts], dtype=object)
        return TiltedLaw(np.array(weights, dtype=object), levels, self.rate)

    def _band(self, i: int) -> Band:
        if i not in self._bands:
            if len(self._bands) >= _KEPT:  # bands are large; those in use come again and again
                self._bands.pop(next(iter(self._bands)))
            self._bands[i] = self.paths.band(self._ends[i])
        return self._bands[i]

    def draw(self, rng: RandomSource) -> NDArray[np.int64]:
        """The counts of one sample."""
        return until_accepted(lambda: self._trial(rng))

    def _trial(self, rng: RandomSource) -> NDArray[np.int64] | None:
        i = self._law.draw(rng)
        level = self._level(i, rng)
        if level is None:
            return None
        counts, above, below = self._propose(i, rng)
        if self.paths.distance(counts) > level:
            return None
        above <<= max(self._places, 0)
        below = self._bounds[i] * below << max(-self._places, 0)
        if above > below:  # never, by the lemma; if it were wrong, no other law is drawn
            raise AssertionError("the bound of a band was computed wrongly")
        return counts if rng.below(below) < above else None

    def _level(self, i: int, rng: RandomSource) -> int | None:
        """A level of the block with weight exp(-rate * level), or None when the coin says no."""
        ends = i < len(self._ends)
        width, jump = self._ends[i] - self._starts[i] + 1 if ends else 0, 0
        if not ends or width > 2 * self._reach:
            # parts of one length: the j-th with chance 2**-(j+1), kept with (2 e^{-r reach})^j
            width = self._reach
            while rng.below(2):
                jump += 1
            x = self.rate * self._reach * jump
            if not coin_exp(x, rng, num=1 << jump):
                return None
        inside = rng.below(width)
        if not coin_exp(self.rate * inside, rng):
            return None
        level = self._starts[i] + jump * width + inside
        return None if ends and level > self._ends[i] else level

    def _propose(self, i: int, rng: RandomSource) -> tuple[NDArray[np.int64], int, int]:
        if i < len(self._ends):
            return self.paths.propose(self._band(i), rng)
        return any_sample(self.paths.cells, self.paths.size, rng), *self.paths.total()
