"""Ordered points with a weight that falls with the rows between them, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import (
    FloatArray,
)
from tightdp.exact.enclosures import exp_up
from tightdp.exact.level_sums import LevelSums
from tightdp.exact.rejection import WEIGHT_PLACES, choose, keeps, until_accepted
from tightdp.randomness import RandomSource

Vector = NDArray[np.int64]

_CHUNK = 4096  # pieces whose runs are summed together


class JointLaw:
    r"""The law of ordered points with weight :math:`\exp\{-r \sum_j \lvert c_{j+1} - c_j - n_j
    \rvert\}`.

    Here :math:`c_j` counts the rows at or below the j-th point, :math:`c_0 = 0`,
    :math:`c_{m+1} = n`, and the :math:`n_j` are given. The rows cut the line into n + 1 pieces, on
    each of which the count is constant; a **run** of k points in a piece of length L can lie in
    :math:`\binom{L+k-1}{k}` ways. Let :math:`G_j(p)` be the weight of all ways to place the points
    after the j-th one behind piece p, in which the j-th one lies, and :math:`E_j(q)` that of a run
    in q and all that follows it:

    .. math:: E_j(q) = \sum_{k \ge 1} \binom{L_q+k-1}{k}\, e^{-r(n_{j+1} + \dots + n_{j+k-1})}
              G_{j+k}(q), \qquad
              G_j(p) = \sum_{q > p} e^{-r \lvert q - p - n_j \rvert} E_j(q).

    These sums are made once, backwards, as whole levels and logarithms
    (:mod:`~tightdp.exact.level_sums`). A draw goes forwards: a piece with weight
    :math:`e^{-r\lvert q - p - n_j\rvert} E_j(q)`, the length of the run in it, uniform points in
    order, and so on. Every step is taken with integer weights, so the probability of a proposal is
    a ratio of integers that is known exactly; it is kept with probability (weight of the points) /
    (probability of the proposal) / (a bound of this ratio), a coin settled by enclosures. What is
    kept has the law, whatever the sums. The bound: were the sums exact, the ratio would be the sum
    of all weights for every tuple; it is raised by more than all roundings can add up to.

    **Work.** The sums take of the order of :math:`n m^2` operations and a proposal n m, whatever
    the rows: equal rows are as quick as any. Nearly every proposal is kept.

    Parameters
    ----------
    rows : sorted integers, shape (n,)
    start, end : int
        Points are the integers ``start <= o < end``; rows lie among them.
    taus : increasing Fractions
    rate : Fraction

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> law = JointLaw(np.arange(100), 0, 100, [Fraction(1, 4), Fraction(3, 4)], Fraction(2))
    >>> bool((abs(law.draw(source(1)) - [24, 74]) < 8).all())
    True
    """

    def __init__(
        self, rows: Vector, start: int, end: int, taus: Sequence[Fraction], rate: Fraction
    ) -> None:
        self.rows, self.start, self.end, self.taus = rows, start, end, list(taus)
        self.den = math.lcm(*(tau.denominator for tau in taus))
        self.rate = rate / self.den  # per unit of den * counts
        self._slope = float(self.rate)
        levels = [Fraction(0), *self.taus, Fraction(1)]
        self.wanted = [int((b - a) * self.den) * len(rows) for a, b in pairwise(levels)]
        self._edges = np.concatenate([[start], rows, [end]])
        # Python integers where 64 bits might not do
        kind: Any = np.int64 if 8 * self.den * (len(rows) + 1) < 1 << 63 else np.object_
        self._pieces = np.arange(len(rows) + 1)
        self._counts: Any = self._pieces.astype(kind) * self.den
        self._skipped = np.cumsum(np.array([0, *self.wanted], dtype=kind))
        self._behind, self._runs = self._sums()
        total = self._runs[0].raised(self._term(0, self._counts)).total()
        self._least = int(total.levels)  # the least score of all
        self._bound = exp_up(float(total.logs) + rounding(len(rows), len(taus)))

    def score(self, points: ArrayLike) -> int:
        """den times the sum of the terms."""
        counts = np.searchsorted(self.rows, points, side="right")
        ends = [0, *(int(c) for c in counts), len(self.rows)]
        terms = zip(pairwise(ends), self.wanted, strict=True)
        return sum(abs(self.den * (b - a) - wanted) for (a, b), wanted in terms)

    # --- the sums ---------------------------------------------------------------------------

    def _sums(self) -> tuple[LevelSums, LevelSums]:
        """G and E for all numbers of points and all pieces, shapes (m + 1, n + 1), (m, n + 1)."""
        levels, pieces = len(self.taus), len(self._pieces)
        ways = self._ways(np.diff(self._edges), levels)
        last = LevelSums(self._term(levels, self._counts[::-1]), np.zeros(pieces), self._slope)
        behind = LevelSums.nothing(last, (levels + 1, pieces))
        runs = LevelSums.nothing(last, (levels, pieces))
        behind[levels] = last
        for j in range(levels - 1, -1, -1):
            for at in range(0, pieces, _CHUNK):
                part = slice(at, at + _CHUNK)
                runs[j, part] = self._runs_of(j, behind[j + 1 :, part], ways[:, part]).total()
            behind[j] = self._before(j, runs[j])
        return behind, runs

    def _runs_of(self, j: int, behind: LevelSums, ways: FloatArray) -> LevelSums:
        """The weights of runs of 1, 2, .. points after the j-th one, and of all that follows."""
        left = len(self.taus) - j
        skipped = self._skipped[j + 1 : j + left + 1] - self._skipped[j + 1]
        found = behind.raised(skipped[:, None])
        return LevelSums(found.levels, found.logs + ways[:left], self._slope)

    @staticmethod
    def _ways(lengths: Vector, levels: int) -> FloatArray:
        """Log of the numbers of runs of 1, 2, .. points in every piece."""
        with np.errstate(divide="ignore"):  # empty pieces hold no run
            logs = np.array([np.log((lengths + k) / (k + 1.0)) for k in range(levels)])
        return np.asarray(np.cumsum(logs, axis=0))

    def _term(self, j: int, counts: Any) -> Any:
        """The j-th term of the score, for so many rows (times den) between two points."""
        return np.abs(counts - self.wanted[j])

    def _before(self, j: int, runs: LevelSums) -> LevelSums:
        """The sum over all later pieces q of :math:`e^{-r |q - p - n_j|}` times the run."""
        count, counts, wanted = len(self._pieces), self._counts, self.wanted[j]
        out = LevelSums.nothing(runs, (count,))
        reach = min(wanted // self.den, count)
        if reach:  # pieces up to the wanted gap
            near = runs.raised(-counts).windows(reach)[1:]
            out[:-1] = near.raised(counts[:-1] + wanted)
        if reach + 1 < count:  # and beyond it
            last = count - reach - 1
            far = runs.raised(counts).tails()[reach + 1 :]
            out[:last] = out[:last].plus(far.raised(-counts[:last] - wanted))
        return out

    # --- draws --------------------------------------------------------------------------------

    def draw(self, rng: RandomSource) -> Vector:
        """Ordered points, shape (m,)."""
        return until_accepted(lambda: self._trial(rng))

    def _trial(self, rng: RandomSource) -> Vector | None:
        points, above, below = self._propose(rng)
        x = self.rate * (self.score(points) - self._least)
        return points if keeps(x, above, below, self._bound, rng) else None

    def _propose(self, rng: RandomSource) -> tuple[Vector, int, int]:
        """Ordered points, and one over their probability as a fraction."""
        points: list[int] = []
        above, below, here, first = 1, 1, 0, 0  # the first point can lie before all rows
        while (j := len(points)) < len(self.taus):
            gaps = self._counts[first:] - self._counts[here]
            ends = self._runs[j, first:].raised(self._term(j, gaps))
            at, total, weight = choose(ends.above(ends.least()), rng)
            above, below, here = above * total, below * weight, first + at
            first = here + 1
            start, length = int(self._edges[here]), int(self._edges[here + 1] - self._edges[here])
            k, total, weight = self._run(j, here, length, rng)
            above, below = above * total * math.comb(length + k - 1, k), below * weight
            points += [start + place for place in any_run(length, k, rng)]
        return np.array(points, dtype=np.int64), above, below

    def _run(self, j: int, piece: int, length: int, rng: RandomSource) -> tuple[int, int, int]:
        """How many points lie in a piece, and the integer weights of all numbers and of this."""
        ways = self._ways(np.array([length]), len(self.taus) - j)
        ends = self._runs_of(j, self._behind[j + 1 :, piece : piece + 1], ways)[:, 0]
        at, total, weight = choose(ends.above(ends.least()), rng)
        return at + 1, total, weight


def rounding(rows: int, levels: int) -> float:
    r"""More than the roundings of :class:`JointLaw` can add up to in a ratio, as a logarithm.

    Levels are exact. Logs are those of numbers of tuples, at most ``largest`` in size together with
    the distance of levels that still count. Windows and tails add up at most twice the root of n of
    them one by one, a run m; each addition and each term is rounded by less than
    ``(largest + 1) * 2**-51``. Integer weights are rounded up by ``2**-WEIGHT_PLACES`` of the
    largest or, where there are many, by one in 2**62 / (2 pieces). Together below 1 up to 10**8
    rows, whatever the rate: a table far larger than was stated costs no proposals.

    >>> rounding(10**8, 9) < 1
    True
    """
    largest = 64.0 * (levels + 3)
    additions = (levels + 1) * (2.0 * math.sqrt(rows) + levels + 32)
    weights = 2.0 * (levels + 1) * (rows + levels + 1.0)
    return (
        additions * (largest + 1) * 2.0**-50
        + weights * 2.0**-WEIGHT_PLACES
        + weights * (rows + 2.0) * 2.0**-60
    )


def any_run(length: int, count: int, rng: RandomSource) -> list[int]:
    """``count`` numbers from 0 to length - 1 in order, every such list as likely (Floyd).

    A list in order is a set of ``count`` of ``length + count - 1`` numbers, less 0, 1, 2, ...
    """
    found: set[int] = set()
    for most in range(length - 1, length + count - 1):
        place = rng.below(most + 1)
        found.add(most if place in found else place)
    return [place - i for i, place in enumerate(sorted(found))]
