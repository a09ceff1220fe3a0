r"""Counting paths in a band, and drawing them with exactly known probabilities.

A sample of k grid points is a path :math:`0 = S_0 \le S_1 \le \dots \le S_G = k` of cumulative
counts, and stands for :math:`k!/\prod c_j!` ordered samples, :math:`c_j = S_j - S_{j-1}`. Here
paths that stay within a distance q of a centre are weighed by :math:`\prod 1/c_j!` and proposed
step by step, backwards. Floats decide which proposals are made; the probability of every proposal
is a ratio of integers, known exactly, and its bound is proved:

**Lemma.** Let :math:`\hat V_0 = 1`, :math:`U_j(s) = \sum_{s'} \hat V_{j-1}(s') K_j(s - s')` over
the band, and :math:`\hat V_j \ge U_j` anything. The chain that goes from :math:`S_j = s` to s' with
probability :math:`\hat V_{j-1}(s')\,K_j(s-s')/U_j(s)` proposes a path with probability
:math:`\prod_j K_j(c_j) \cdot \frac{1}{U_G(k)} \prod_{0<j<G} \hat V_j(S_j)/U_j(S_j) \ge
\prod_j K_j(c_j) / U_G(k)`.
So :math:`U_G(k)` bounds the ratio of weight to proposal for every path at once. Rounding enters
with a relative ``2**-10``. On m cells it is at most ``m * k**2 * 2**-61`` from integer weights that
are rounded up, at most k of them per step, and ``m * k * 2**-43`` from logarithms up to 35 k, each
made by a dozen operations, and from sums of at most k terms, none negative: less than ``2**-13``
where :math:`m k \le 2^{29}` and :math:`m k^2 \le 2^{44}`. Larger samples are refused from public
facts (:class:`~tightdp.KolmogorovSample`).

**Skeleton.** The band is asked for at some of the grid points only. Of l cells between two of them,
the weights of all ways to place c points sum up to :math:`K(c) = l^c/c!`, and given c every point
lies in each of the cells with probability 1/l. The ratio of the weight of a path to the probability
of its proposal is that of the skeleton: the factorials of the cells cancel. Paths that leave the
band between the points are proposed too; whoever asks for the distance rejects them.

**Windows.** A row is kept as :math:`\hat V(s) = e^{\sigma - \tau s} A(s)`. With
:math:`\Lambda = l e^{\tau'}`, the retilted :math:`\tilde A(s) = e^{(\tau' - \tau)(s - s^*)} A(s)`,
:math:`s^*` the end of the band at which it is largest against A, and :math:`\pi` the Poisson law
of mean :math:`\Lambda`,

.. math:: U(s) = e^{\sigma + (\tau' - \tau) s^* + \Lambda - \tau' s}
          \sum_c \tilde A(s - c)\, \pi(c).

The sum is taken over the states of a body and the steps of a window around :math:`\Lambda`. The
states outside the body have at most a floor o, and what they add is at most o, because
:math:`\pi` sums to 1. The steps outside the window add at most the sum of the body times the
largest :math:`\pi` there, which is that next to the window, because :math:`\pi` rises up to
:math:`\Lambda` and falls from there. Both are added to every state, so :math:`\hat V \ge U` as the
lemma asks, whatever the shape of the rows. Means :math:`\Lambda` along the taut string keep the
states that matter far above the floor.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tightdp.errors import FloatArray, Integers, WideIntegers
from tightdp.exact.enclosures import exp_up, whole_up
from tightdp.exact.rejection import choose
from tightdp.exact.taut_strings import skeleton, taut_string
from tightdp.randomness import RandomSource

_WORD = 1 << 62
_SLACK = Fraction(1, 1 << 10)
_TAILS = 45.0, 150.0, 600.0  # steps and states of e^-45 of the heaviest are bounded, not summed
_REST = 1e-9  # where bounds have grown so large against the heaviest state, they are sharpened
_TINY = 1e-300  # far above the smallest doubles, whose rounding is not relative
_NARROW = 256  # states that are kept even where they weigh nothing
_CHUNK = 1 << 20  # pairs of states that are summed at a time
_FLATTEST = 0.1  # points that a string without slope is taken to gain on the whole grid


@dataclass(frozen=True, slots=True, eq=False)
class Row:
    """The weights of the paths to the states low..high of one point of the skeleton.

    They are ``exp(-tilt * s)`` times ``body`` for the states from ``first`` on and times ``floor``
    for all others, in units of their own.
    """

    low: int
    high: int
    first: int
    body: FloatArray
    floor: float
    tilt: float

    def logs(self, upto: int) -> FloatArray:
        """Log weights of the states low..upto."""
        out = np.full(upto - self.low + 1, math.log(self.floor) if self.floor else -np.inf)
        start, stop = self.first - self.low, min(self.first + len(self.body), upto + 1) - self.low
        if stop > start:
            out[start:stop] = np.log(self.body[: stop - start])
        return out - self.tilt * np.arange(len(out))

    def tilted(self, tilt: float) -> tuple[FloatArray, float, int]:
        """Body and floor under another tilt, and the state at which they are what they were."""
        change, stop = tilt - self.tilt, self.first + len(self.body)
        if not change:
            return self.body, self.floor, self.low
        if change > 0:  # all factors are at most 1
            pivot = self.high
            nearest = pivot if stop <= pivot else self.first - 1
        else:
            pivot = self.low
            nearest = pivot if self.first > pivot else stop
        body = self.body * np.exp(change * np.arange(self.first - pivot, stop - pivot))
        return body, self.floor * math.exp(change * (nearest - pivot)), pivot


@dataclass(frozen=True, slots=True, eq=False)
class PlainRow:
    """The log weights of all states low..high of one grid point, as they are."""

    low: int
    high: int
    values: FloatArray

    def logs(self, upto: int) -> FloatArray:
        """Log weights of the states low..upto."""
        return self.values[: upto - self.low + 1].copy()


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """The skeleton of a band: its points 0..G, the rows of all but the last, their steps."""

    points: Integers
    rows: tuple[Row | PlainRow, ...]
    log_total: float  # log of U_G(k): the weight of all paths in the band, hardly more


def ratio_bound(log_total: float, places: int) -> int:
    """What no ratio of weight to proposal exceeds, in units of ``2**-places``.

    From the log weight of a band, or of all paths.
    """
    return whole_up(exp_up(log_total, places) * (1 + _SLACK))


class BandPaths:
    """Paths around the scaled distribution function of a table.

    Parameters
    ----------
    cumulative : integers, shape (G,)
        Numbers of rows up to each grid point; the last is n.
    size : int
        k, the number of points in a sample.

    Examples
    --------
    >>> paths = BandPaths(np.array([1, 3]), size=2)
    >>> paths.distance(np.array([1, 1])), paths.least  # |3 * 1 - 2 * 1|
    (1, 1)
    >>> round(math.exp(paths.band(6).log_total), 6)  # 1/2! + 1/(1! 1!) + 1/2! = 2**2 / 2!
    2.0
    """

    def __init__(self, cumulative: Integers, size: int) -> None:
        self.rows, self.size = int(cumulative[-1]), size
        # Distances are at most size * rows: Python integers if there are so many rows.
        kind = np.int64 if size * self.rows < _WORD else object
        self.centre: WideIntegers = size * np.concatenate([[0], cumulative]).astype(kind)
        self.cells = len(cumulative)
        rest = self.centre % self.rows
        self.least = int(np.minimum(rest, self.rows - rest).max())
        self._rests = np.unique(np.concatenate([rest, (self.rows - rest) % self.rows]))
        self.log_factorials = np.array([math.lgamma(c + 1.0) for c in range(size + 1)])

    def distance(self, counts: Integers) -> int:
        """The largest distance n k sup |F_n - F_k| of the counts of a sample: an integer."""
        path = np.concatenate([[0], np.cumsum(counts)])
        return int(np.abs(self.rows * path.astype(self.centre.dtype) - self.centre).max())

    def next_distance(self, distance: int) -> int:
        """The least distance above this one that a path could have."""
        whole, rest = divmod(distance + 1, self.rows)
        place = int(np.searchsorted(self._rests, rest))
        if place == len(self._rests):
            whole, place = whole + 1, 0
        return whole * self.rows + int(self._rests[place])

    def last_distance(self, distance: int) -> int:
        """The largest distance not above this one that a path could have."""
        whole, rest = divmod(distance, self.rows)
        place = int(np.searchsorted(self._rests, rest, side="right")) - 1
        return whole * self.rows + int(self._rests[place])  # 0 is the first of the rests

    def band(self, distance: int) -> Band:
        """All paths within a distance that is not below ``least``, and some beyond."""
        low, high = self._edges(distance)
        knots, heights = taut_string(low, high)
        points = skeleton(low, high, knots, heights)
        cells = np.diff(points)
        means = np.diff(np.interp(points, knots, heights))
        means = np.maximum(means, cells * (_FLATTEST / self.cells))
        tilts = np.log(means / cells)
        columns = (low[points[1:]], high[points[1:]], means, tilts)
        steps = list(zip(*(column.tolist() for column in columns), strict=True))
        for tail in _TAILS:
            rows, log_total, worst = self._count(steps, tail)
            if worst < _REST:
                break
        return Band(points, rows, log_total)

    def full_band(self, distance: int) -> Band:
        """All paths within a distance and none beyond: every point, every state, every step.

        Slower, but nothing is bounded: its total is the weight of the paths, up to rounding, and
        all its proposals lie within the distance.
        """
        low, high = self._edges(distance)
        row, rows = PlainRow(0, 0, np.zeros(1)), []
        for first, last in zip(low[1:].tolist(), high[1:].tolist(), strict=True):
            rows.append(row)
            row = PlainRow(first, last, self._summed(row, first, last))
        return Band(np.arange(self.cells + 1), tuple(rows), float(row.values[0]))

    def _summed(self, row: PlainRow, low: int, high: int) -> FloatArray:
        """The log weights of the states low..high of the next point."""
        before, parts = np.arange(row.low, row.high + 1), []
        chunk = max(1, _CHUNK // len(before))
        for start in range(low, high + 1, chunk):
            states = np.arange(start, min(start + chunk, high + 1))
            steps = states[:, None] - before
            terms = np.where(
                steps >= 0, row.values - self.log_factorials[np.maximum(steps, 0)], -np.inf
            )
            top = terms.max(axis=1)
            safe = np.where(top > -np.inf, top, 0.0)
            with np.errstate(divide="ignore"):
                parts.append(safe + np.log(np.exp(terms - safe[:, None]).sum(axis=1)))
        return np.concatenate(parts)

    def _edges(self, distance: int) -> tuple[Integers, Integers]:
        """The least and the largest state of every point within a distance."""
        low = np.maximum(-((distance - self.centre) // self.rows), 0).astype(np.int64)
        high = np.minimum((self.centre + distance) // self.rows, self.size).astype(np.int64)
        low[0] = high[0] = 0
        low[-1] = high[-1] = self.size
        return low, high

    def _count(
        self, steps: list[tuple[int, int, float, float]], tail: float
    ) -> tuple[tuple[Row, ...], float, float]:
        """Rows from the band, mean and tilt of every step; the log total; the largest rest."""
        row, log_total, rows, worst = Row(0, 0, 0, np.ones(1), 0.0, steps[0][3]), 0.0, [], 0.0
        for low, high, mean, tilt in steps:
            rows.append(row)
            row, scale, rest = self._step(row, low, high, mean, tilt, tail)
            log_total, worst = log_total + scale, max(worst, rest)
        return tuple(rows), log_total + math.log(row.body[0]) - row.tilt * self.size, worst

    def _step(
        self, row: Row, low: int, high: int, mean: float, tilt: float, tail: float
    ) -> tuple[Row, float, float]:
        """The next row, how much its scale grows, and what was added to its states."""
        body, floor, pivot = row.tilted(tilt)
        last, whole = row.first + len(body) - 1, float(body.sum())
        window, left_out = self._window(mean, max(low - last, 0), high - row.first, tail)
        first = max(low, row.first + int(window[0]))
        law = np.exp(window * math.log(mean) - mean - self.log_factorials[window])
        sums = np.convolve(body, law)
        sums = sums[first - row.first - int(window[0]) :][: high - first + 1]
        top, least, left = float(sums.max()), math.exp(-tail), floor + whole * left_out
        tiny = top * least < _TINY  # too near to what underflows: the largest that sums can be
        if tiny or top < left:
            top = floor + whole if tiny else left
            sums = np.full_like(sums, top)
        rest = left / top + least  # [Windows]; at most 1 + least, so that nothing overflows
        new = sums / top + rest
        if high - low < _NARROW:  # all states are kept
            if len(new) <= high - low:
                reached, new = new, np.full(high - low + 1, rest)
                new[first - low : first - low + len(reached)] = reached
            following = Row(low, high, low, new, 0.0, tilt)
        else:  # states that weigh hardly more than the rest join those outside
            seen = np.flatnonzero(new > rest + least)
            start, stop = int(seen[0]), int(seen[-1]) + 1
            following = Row(low, high, first + start, new[start:stop], rest + least, tilt)
        return following, (tilt - row.tilt) * pivot + mean + math.log(top), rest

    def _window(self, mean: float, least: int, most: int, tail: float) -> tuple[Integers, float]:
        """Steps from ``least`` to ``most`` that matter, and a bound of the law of all others."""
        begin = math.ceil(mean - math.sqrt(2 * mean * tail))
        end = math.floor(mean + tail / 3 + math.sqrt(tail**2 / 9 + 2 * mean * tail))
        begin = max(least, min(begin, most))
        end = max(begin, min(end, most))
        outside = [
            math.exp(c * math.log(mean) - mean - float(self.log_factorials[c]))
            for c in (begin - 1, end + 1)
            if least <= c <= most
        ]
        return np.arange(begin, end + 1), max(outside, default=0.0)

    def propose(self, band: Band, rng: RandomSource) -> tuple[Integers, int, int]:
        """The counts of a path, and the ratio of its weight to the probability of its proposal.

        The ratio is exact, as the numerator and the denominator of a fraction.
        """
        counts = np.zeros(self.cells, dtype=np.int64)
        state, above, below = self.size, [1], [1]
        for i in range(len(band.rows) - 1, -1, -1):
            row, (begin, end) = band.rows[i], band.points[i : i + 2].tolist()
            logs = row.logs(min(row.high, state))
            steps = state - row.low - np.arange(len(logs))
            logs += steps * math.log(end - begin) - self.log_factorials[steps]
            at, total, weight = choose(logs, rng)
            step = int(steps[at])
            above += [total, (end - begin) ** step]
            below += [weight, math.factorial(step)]
            counts[begin:end] = any_sample(end - begin, step, rng)
            state -= step
        return counts, math.prod(above), math.prod(below)

    def total(self) -> tuple[int, int]:
        """The exact weight of all paths, by the multinomial theorem: a fraction.

        Not in lowest terms: of millions of digits they take minutes.
        """
        return self.cells**self.size, math.factorial(self.size)

    def log_total(self) -> float:
        """Log of the weight of all paths, rounded."""
        return math.log(self.cells) * self.size - float(self.log_factorials[-1])


def any_sample(cells: int, size: int, rng: RandomSource) -> Integers:
    """The counts of ``size`` independent uniform grid points."""
    return np.bincount(rng.integers(cells, size), minlength=cells)
