r"""Exact draws of paths with weight :math:`\prod_j \frac{1}{c_j!}\, e^{-r Q}`, Q their distance.

The exponential is a sum of levels, :math:`e^{-rQ} \propto \sum_{q \ge Q} e^{-rq}`. So a path may be
drawn together with a level q, with joint weight :math:`\prod 1/c_j! \cdot e^{-rq}` on
:math:`Q \le q`, and the level forgotten. Levels come in blocks; within a block the band of its last
level serves all, and what lies above the level is rejected. The last block has no end and no band:
its proposals are independent uniform points. Every decision is an exact coin, so what is accepted
has exactly the law; floats only choose the blocks, that is, how long it takes.

Blocks end just before a distance that some path can have: between two such distances all levels
have the same paths, however many there are, and a block of them wastes nothing.

How many proposals these blocks take is foreseen by floats, and not proved for every table. So after
a fixed number of refusals the same law is drawn by even blocks, whose number is proved.

**Even.** Let N(q) be the weight of the paths within q, and blocks :math:`[a_i, a_{i+1})` of length
:math:`l = \lfloor 1/r \rfloor`, or 1, with bands in full, whose proposals weigh N at the last level
of the block, up to rounding. What block i proposes is at most :math:`N(a_{i+1})\,e^{-ra_i}s`,
:math:`s = \sum_{0 \le j < l} e^{-rj}`, as N does not fall. What block i + 1 keeps is at least
:math:`N(a_{i+1})\,e^{-ra_{i+1}}s`, and :math:`a_{i+1} = a_i + l` with :math:`rl \le 1` (where r > 1
every level is a block, and wastes nothing). So all blocks but the last propose at most e times what
is kept. The last one and the tail: at the largest distance there is, the tail keeps what it has;
after :math:`k \ln m + 31` nats all paths together weigh less than :math:`e^{-30}` of the first
block, which holds one of at most :math:`m^k` samples. Levels keep at least :math:`(1 - 1/e)/2` of
their coins, and the law of the blocks one proposal in three: 30 proposals on average, at most, for
every table. There are :math:`k \ln m + 33` blocks at most, and a band in full takes (states)**2
steps for each of m cells (:func:`most_steps`).
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
_PATIENCE = 4000  # refused proposals, a hundred times those foreseen
_KEPT = 8  # bands for further proposals
_BITS = 100  # of the weight of the heaviest block


def most_steps(size: int, cells: int, rate: Fraction, rows: int, *, known: bool) -> float:
    r"""A bound on the steps of all bands in full [Even], from public facts.

    Levels reach up to :math:`n/2` and the blocks beyond, and states are levels divided by n. If the
    number of rows is only a bound, bands may be as wide as the sample is large.

    >>> most_steps(100, 50, Fraction(1, 200), 10_000, known=True) < 10**8
    True
    """
    blocks = min(size * math.log(cells) + 33, float(rate * rows * size) + 2)
    wide = 3 + 2 * blocks * max(1.0, float(1 / rate)) / rows
    return blocks * cells * (min(size + 1, wide) if known else size + 1) ** 2


class BandLevels:
    """The law of (level, path) for one table.

    Parameters
    ----------
    paths : BandPaths
    rate : Fraction
        r > 0.
    even : bool
        Blocks of one length, and bands in full: slower, with a proved bound on proposals.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> levels = BandLevels(BandPaths(np.array([1, 3, 4]), size=2), Fraction(1, 2))
    >>> int(levels.draw(source(1)).sum())
    2
    """

    def __init__(self, paths: BandPaths, rate: Fraction, *, even: bool = False) -> None:
        self.paths, self.rate, self._even = paths, rate, even
        self._make = paths.full_band if even else paths.band
        self._known: dict[int, float] = {}
        self._ends = self._short() if even else self._refined(self._doubled())
        self._starts = [paths.least, *(end + 1 for end in self._ends)]
        self._reach = max(1, math.ceil(1 / rate))  # blocks of the tail: r times it is at least ln 2
        self._bands: dict[int, Band] = {}
        self._law = self._weigh()

    # --- choosing blocks: floats, for speed only ----------------------------------------------

    def _log_weight(self, level: int) -> float:
        """Log of the weight of all paths within a level."""
        if self._even:  # all levels between two distances have the same paths
            level = self.paths.last_distance(level)
        if level not in self._known:
            self._known[level] = self._make(level).log_total
        return self._known[level]

    def _short(self) -> list[int]:
        """Ends of blocks of length 1/r, up to where what follows weighs next to nothing [Even]."""
        last, length = self.paths.rows * self.paths.size, max(1, math.floor(1 / self.rate))
        nats = self.paths.size * math.log(self.paths.cells) + _TAIL + 1
        count = math.ceil(nats / (float(self.rate) * length))
        ends = [self.paths.least + length * (i + 1) - 1 for i in range(count)]
        inside = [end for end in ends if end < last]
        return inside if len(inside) == count else [*inside, last]

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
            if len(self._bands) >= (
                1 if self._even else _KEPT
            ):  # bands are large; those in use come again and again
                self._bands.pop(next(iter(self._bands)))
            self._bands[i] = self._make(self._ends[i])
        return self._bands[i]

    def draw(self, rng: RandomSource) -> NDArray[np.int64]:
        """The counts of one sample.

        After many refusals the same law is drawn by even blocks: refusals tell nothing of it.
        """
        if self._even:
            return until_accepted(lambda: self._trial(rng))
        for _ in range(_PATIENCE):
            if (counts := self._trial(rng)) is not None:
                return counts
        return BandLevels(self.paths, self.rate, even=True).draw(rng)

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
