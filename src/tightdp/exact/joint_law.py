"""Ordered points with a weight that falls with the rows between them, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import (
    FloatArray,
)
from tightdp.exact.enclosures import exp_minus_bounds, exp_up
from tightdp.exact.level_sums import LevelSums
from tightdp.exact.rejection import WEIGHT_PLACES, choose, keeps, until_accepted
from tightdp.exact.undecided_bits import coin_exp
from tightdp.randomness import RandomSource

Vector = NDArray[np.int64]

_CHUNK = 4096  # pieces whose runs are summed together
_WHOLE = 1 << 64  # the weight of proposals from the windows


class JointLaw:
    r"""The law of ordered points with weight :math:`\exp\{-r \min(s, S)\}`,
    :math:`s = \sum_j \lvert c_{j+1} - c_j - n_j \rvert`.

    Here :math:`c_j` counts the rows at or below the j-th point, :math:`c_0 = 0`,
    :math:`c_{m+1} = n`, and the :math:`n_j` are given; S is infinite, or a **cap** on the score.
    The rows cut the line into n + 1 pieces, on each of which the count is constant; a **run** of k
    points in a piece of length L can lie in :math:`\binom{L+k-1}{k}` ways. Let :math:`G_j(p)` be
    the weight of all ways to place the points after the j-th one behind piece p, in which the j-th
    one lies, and :math:`E_j(q)` that of a run in q and all that follows it:

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

    **The cap.** A score below S leads each point away from its rank by less than S/2, for the terms
    of the score are a walk from 0 to 0: the j-th point lies in a **window** of pieces, and the sums
    run over windows only. What is left of the weights is the same for all tuples:
    :math:`e^{-r\min(s,S)} = (e^{-rs} - e^{-rS})_+ + e^{-rS}`. The first part is drawn from the
    windows, and kept with probability :math:`1 - e^{-r(S-s)}` besides; the second is a uniform
    tuple, whose proposals have at least its share of all weights. Both parts go through one
    rejection.

    **Work.** For windows of w pieces the sums take of the order of :math:`w m^2` operations and a
    proposal w m, whatever the rows: equal rows are as quick as any. Without a cap w is n + 1.
    Nearly every proposal is kept.

    Parameters
    ----------
    rows : sorted integers, shape (n,)
    start, end : int
        Points are the integers ``start <= o < end``; rows lie among them.
    taus : increasing Fractions
    rate : Fraction
    cap : int, optional
        S.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> law = JointLaw(np.arange(100), 0, 100, [Fraction(1, 4), Fraction(3, 4)], Fraction(2))
    >>> bool((abs(law.draw(source(1)) - [24, 74]) < 8).all())
    True
    """

    def __init__(
        self,
        rows: Vector,
        start: int,
        end: int,
        taus: Sequence[Fraction],
        rate: Fraction,
        cap: int | None = None,
    ) -> None:
        self.rows, self.start, self.end, self.taus = rows, start, end, list(taus)
        self.den = math.lcm(*(tau.denominator for tau in taus))
        self.rate = rate / self.den  # per unit of den * counts
        self.cap = None if cap is None else cap * self.den
        self._slope = float(self.rate)
        levels = [Fraction(0), *self.taus, Fraction(1)]
        self.wanted = [int((b - a) * self.den) * len(rows) for a, b in pairwise(levels)]
        self._edges = np.concatenate([[start], rows, [end]])
        # Python integers where 64 bits might not do
        kind: Any = np.int64 if 8 * self.den * (len(rows) + 1) < 1 << 63 else np.object_
        self._counts: Any = np.arange(len(rows) + 1).astype(kind) * self.den
        self._skipped = np.cumsum(np.array([0, *self.wanted], dtype=kind))
        self._windows = self._all_windows()
        self._behind, self._runs = self._sums()
        total = self._runs[0].raised(self._term(0, self._counts[self._windows[0]])).total()
        self._least = int(total.levels)  # the least score of all
        log = float(total.logs)
        some = log > -math.inf  # tuples in the windows
        self._bound = exp_up(log + rounding(len(rows), len(taus))) if some else Fraction(1)
        self._uniform = self._weight_of_all(some)

    def score(self, points: ArrayLike) -> int:
        """den times the sum of the terms, or the cap."""
        found = self._walked(points)
        return found if self.cap is None else min(found, self.cap)

    def _walked(self, points: ArrayLike) -> int:
        counts = np.searchsorted(self.rows, points, side="right")
        ends = [0, *(int(c) for c in counts), len(self.rows)]
        terms = zip(pairwise(ends), self.wanted, strict=True)
        return sum(abs(self.den * (b - a) - wanted) for (a, b), wanted in terms)

    # --- windows ------------------------------------------------------------------------------

    def _all_windows(self) -> list[slice]:
        """The pieces in which each point can lie if the score is below the cap."""
        pieces = len(self._counts)
        if self.cap is None:
            return [slice(0, pieces)] * len(self.taus)
        found = []
        for wanted in self._skipped[1:-1]:
            low = max(0, -((self.cap // 2 - int(wanted)) // self.den))
            high = min(pieces - 1, (int(wanted) + self.cap // 2) // self.den)
            found.append(slice(min(low, pieces - 1), max(high, min(low, pieces - 1)) + 1))
        return found

    def _weight_of_all(self, some: bool) -> int:
        """The integer weight of a uniform tuple among proposals, beside ``_WHOLE`` of the windows.

        At least (number of tuples) times exp(-r(S - least)) over the bound, in proportion.
        """
        if self.cap is None:
            return 0
        if not some or self.cap <= self._least:
            return -1  # nothing is below the cap: all weights are equal
        many = self._tuples()
        places = many.bit_length() + 128
        high = exp_minus_bounds(self.rate * (self.cap - self._least), places)[1]
        return math.ceil(Fraction(many * high * _WHOLE, 1 << places) / self._bound) + 1

    def _tuples(self) -> int:
        """How many ordered tuples there are."""
        return math.comb(self.end - self.start + len(self.taus) - 1, len(self.taus))

    # --- the sums ---------------------------------------------------------------------------

    def _sums(self) -> tuple[list[LevelSums], list[LevelSums]]:
        """G_1, .., G_m on the windows of the points before, and E_0, .., E_{m-1} on their own."""
        levels, here = len(self.taus), self._windows
        gap = self._counts[-1] - self._counts[here[-1]]
        last = LevelSums(self._term(levels, gap), np.zeros(len(gap)), self._slope)
        behind, runs = {levels: last}, {}
        for j in range(levels - 1, -1, -1):
            size = here[j].stop - here[j].start
            runs[j] = LevelSums.nothing(last, (size,))
            for at in range(here[j].start, here[j].stop, _CHUNK):
                part = slice(at, min(at + _CHUNK, here[j].stop))
                inside = slice(part.start - here[j].start, part.stop - here[j].start)
                runs[j][inside] = self._runs_of(j, part, behind).total()
            if j:
                behind[j] = self._before(j, runs[j])
        return [behind[j] for j in range(1, levels + 1)], [runs[j] for j in range(levels)]

    def _runs_of(self, j: int, pieces: slice, behind: Mapping[int, LevelSums]) -> LevelSums:
        """The weights of runs of 1, 2, .. points after the j-th one, and of all that follows."""
        here = self._windows
        most = sum(window.start < pieces.stop for window in here[j:])
        ways = self._ways(np.diff(self._edges[pieces.start : pieces.stop + 1]), most)
        out = LevelSums.nothing(behind[len(here)], (most, pieces.stop - pieces.start))
        for k in range(most):  # the last point of the run is the (j + k)-th, counted from 0
            own = here[j + k]
            low, high = max(pieces.start, own.start), min(pieces.stop, own.stop)
            if low < high:
                found = behind[j + k + 1][low - own.start : high - own.start]
                skipped = self._skipped[j + k + 1] - self._skipped[j + 1]
                into = slice(low - pieces.start, high - pieces.start)
                logs = found.logs + ways[k, into]
                out[k, into] = LevelSums(found.levels + skipped, logs, self._slope)
        return out

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
        """The sum over all later pieces q of :math:`e^{-r |q - p - n_j|}` times the run.

        p is in the window of the point before. Up to the wanted gap the sum goes over
        p + 1, .., p + reach, or from the first piece of the window on; beyond it over the rest.
        """
        own, wanted = self._windows[j], self.wanted[j]
        pieces = np.arange(self._windows[j - 1].start, self._windows[j - 1].stop)
        counts, levels = self._counts[own], self._counts[self._windows[j - 1]]
        size, reach = own.stop - own.start, wanted // self.den
        out = LevelSums.nothing(runs, (len(pieces),))
        if reach:
            rising = runs.raised(-counts)
            whole = pieces + 1 >= own.start  # the window begins behind p
            at = pieces[whole] + 1 - own.start
            kept = at < size
            if kept.any():
                near = rising.windows(min(reach, size))[at[kept]]
                out[np.flatnonzero(whole)[kept]] = near
            end = np.minimum(pieces[~whole] + reach, own.stop - 1) - own.start
            kept = end >= 0
            if kept.any():
                first = rising.reshape(1, -1).running().reshape(-1)
                out[np.flatnonzero(~whole)[kept]] = first[end[kept]]
            out = out.raised(levels + wanted)
        start = np.maximum(pieces + reach + 1 - own.start, 0)
        kept = start < size
        if kept.any():
            far = runs.raised(counts).tails()[start[kept]].raised(-levels[kept] - wanted)
            out[kept] = out[kept].plus(far)
        return out

    # --- draws --------------------------------------------------------------------------------

    def draw(self, rng: RandomSource) -> Vector:
        """Ordered points, shape (m,)."""
        return until_accepted(lambda: self._trial(rng))

    def _trial(self, rng: RandomSource) -> Vector | None:
        if self._uniform < 0 or (self._uniform and rng.below(_WHOLE + self._uniform) >= _WHOLE):
            return self._any_tuple(rng)
        points, above, below = self._propose(rng)
        score = self._walked(points)
        if self.cap is not None and score >= self.cap:
            return None
        if not keeps(self.rate * (score - self._least), above, below, self._bound, rng):
            return None
        # what all tuples have is left to the uniform ones
        capped = self.cap is not None and coin_exp(self.rate * (self.cap - score), rng)
        return None if capped else points

    def _any_tuple(self, rng: RandomSource) -> Vector | None:
        """A uniform tuple, kept as often as its weight asks for."""
        assert self.cap is not None
        if self._uniform > 0:
            above = self._tuples() * _WHOLE * self._bound.denominator
            below = self._uniform * self._bound.numerator
            if not coin_exp(self.rate * (self.cap - self._least), rng, num=above, den=below):
                return None
        found = any_run(self.end - self.start, len(self.taus), rng)
        return np.array([self.start + place for place in found], dtype=np.int64)

    def _propose(self, rng: RandomSource) -> tuple[Vector, int, int]:
        """Ordered points, and one over their probability as a fraction."""
        points: list[int] = []
        above, below, here, first = 1, 1, 0, 0  # the first point can lie before all rows
        while (j := len(points)) < len(self.taus):
            own = self._windows[j]
            first = max(first, own.start)
            gaps = self._counts[first : own.stop] - self._counts[here]
            ends = self._runs[j][first - own.start :].raised(self._term(j, gaps))
            at, total, weight = choose(ends.above(ends.least()), rng)
            above, below, here = above * total, below * weight, first + at
            first = here + 1
            start, length = int(self._edges[here]), int(self._edges[here + 1] - self._edges[here])
            k, total, weight = self._run(j, here, rng)
            above, below = above * total * math.comb(length + k - 1, k), below * weight
            points += [start + place for place in any_run(length, k, rng)]
        return np.array(points, dtype=np.int64), above, below

    def _run(self, j: int, piece: int, rng: RandomSource) -> tuple[int, int, int]:
        """How many points lie in a piece, and the integer weights of all numbers and of this."""
        behind = dict(enumerate(self._behind, start=1))
        ends = self._runs_of(j, slice(piece, piece + 1), behind)[:, 0]
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
