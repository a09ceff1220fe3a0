"""Several quantiles of one column at once, with one payment, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.accepted import Number, TableLike
from tightdp.answer import NO_INTERVAL, Answer
from tightdp.data.table import check_frame, check_public_rows
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    check_confidence,
    check_filled,
    check_increasing,
    check_list,
    fail,
)
from tightdp.exact.enclosures import exp_up
from tightdp.exact.lattice_body import subsets
from tightdp.exact.level_sums import LevelSums
from tightdp.exact.rejection import WEIGHT_PLACES, choose, keeps, until_accepted
from tightdp.mechanisms.exponential.box_grids import on_grid
from tightdp.mechanisms.gradient import KNormGradient
from tightdp.mechanisms.quantiles import UNORDERED, check_tau, share_name
from tightdp.mechanisms.ranks import Ranks
from tightdp.preview import ORDERED_ROWS, Preview, of_rows
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource, source
from tightdp.release import Draft, Release
from tightdp.schema import Schema, check_schema, numeric_column

Vector = NDArray[np.int64]

MOST_NUMBERS = 1 << 25  # rows times levels, of which five tables are held
MOST_WORK = 1 << 31  # rows times the square of the levels: seconds, not minutes
_SHARES = "numbers strictly between 0 and 1"
_CHUNK = 4096  # pieces whose runs are summed together
_WORD = 1 << 60
_WALKS, _SEED = 20_001, 20_260_101  # of a public model, simulated for previews


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
    """``count`` numbers from 0 to length - 1 in order, every such list as likely.

    A list in order is a set of ``count`` of ``length + count - 1`` numbers, less 0, 1, 2, ...
    """
    places = subsets(np.array([length + count - 1]), count, rng)[0]
    return [int(place) - i for i, place in enumerate(np.sort(places))]


class KNormQuantiles(KNormGradient):
    r"""Releases several quantiles in order, jointly, with one payment [36].

    Ordered points :math:`o_1 \le \dots \le o_m` have the weight
    :math:`\exp\{-\frac{\epsilon}{2\Delta} \sum_{j=0}^m \lvert N(o_{j+1}) - N(o_j) -
    n(\tau_{j+1} - \tau_j)\rvert\}`, with N(o) rows at or below o, :math:`N(o_0) = 0`,
    :math:`N(o_{m+1}) = n`. In terms of the gradients :math:`g_j = N(o_j) - n\tau_j` the sum is
    :math:`\sum \lvert g_{j+1} - g_j \rvert`: the quantiles share their error instead of paying for
    it m times. For m = 1 it is the law of one quantile between rows.

    Ties are broken at random: every row is moved by an independent uniform amount within its grid
    cell, and what is released is the cell.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: the schema's clamp and grid.
    Proof: 1. Fix how much each row is moved: neighbours stay neighbours, and a mixture of
    epsilon-DP mechanisms with the same weights is epsilon-DP. 2. Replacing a row changes at most
    two of the counts between points, by one each: :math:`\Delta = 2`. Adding a row between
    :math:`o_j` and :math:`o_{j+1}` changes term j by at most
    :math:`1 - (\tau_{j+1} - \tau_j)` and each other term by at most its
    :math:`\tau_{i+1} - \tau_i`, in sum :math:`2(1 - (\tau_{j+1} - \tau_j))`:
    :math:`\Delta = 2k(1 - \min_j (\tau_{j+1} - \tau_j))` for k rows per person. 3. This is the
    exponential mechanism on finitely many tuples, drawn exactly (:class:`JointLaw`). 4. Taking
    cells is post-processing.
    Numerics: ``exact``.

    **Work.** Of the order of n m^2 operations for n rows and m levels, whatever the rows: 99 levels
    of ten thousand rows take seconds. What would take minutes is refused before it is paid for.

    Parameters
    ----------
    schema : Schema
    column : str
    taus : increasing numbers strictly between 0 and 1
    epsilon : float, Fraction or Decimal

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1001)
    >>> mechanism = KNormQuantiles(schema, "age", [0.25, 0.5, 0.75], epsilon=5.0)
    >>> release = mechanism.release({"age": np.linspace(0, 100, 1001)})
    >>> release.names, bool((abs(release.value - [25, 50, 75]) < 5).all())
    (('age[0.25]', 'age[0.5]', 'age[0.75]'), True)
    """

    why = (
        "Points of a public grid are drawn with a weight that falls with their distances in "
        "ranks from the wanted ones. No noise is added to values, so the error does not grow "
        "with the range of the column."
    )

    picture = "range"

    def __init__(
        self, schema: Schema, column: str, taus: Sequence[Any], *, epsilon: Number
    ) -> None:
        self.schema, self.column, self.taus = check_schema(schema), column, check_taus(taus)
        steps = [b - a for a, b in pairwise([Fraction(0), *self.taus, Fraction(1)])]
        if math.lcm(*(tau.denominator for tau in self.taus)) * schema.rows >= _WORD:
            fail("`taus` must have a smaller common denominator: round them to a few digits.")
        largest = Fraction(2)
        if schema.neighbors is Neighbors.ADD_REMOVE:
            largest = 2 * schema.rows_per_person * (1 - min(steps))
        self._set_up(
            numeric_column(schema, column, UNORDERED),
            largest,
            epsilon,
            schema.neighbors,
            schema.bits,
        )
        self.finer = finer_bits(schema)
        check_work(schema.rows, len(self.taus))

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(share_name(self.column, tau) for tau in self.taus)

    @property
    def law(self) -> str:
        return (
            f"ordered grid points with weight exp(-{self.budget.rate} * s), s the sum over gaps of "
            f"the distance of the rows in them from their share"
        )

    def label(self) -> str:
        return f"KNormQuantiles({self.column!r}, [{', '.join(map(str, self.taus))}])"

    def law_on(self, ranks: Ranks, rng: RandomSource) -> JointLaw:
        """The law of the points, given how the rows are moved in their cells; **not private**."""
        rows = np.repeat(ranks.values, np.diff(ranks.upto, prepend=0)) << self.finer
        moved = np.sort(rows + rng.integers(1 << self.finer, len(rows)))
        edge = ranks.edge
        return JointLaw(
            moved,
            -edge << self.finer,
            (edge + 1) << self.finer,
            self.taus,
            self.budget.rate,
        )

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.schema, [self.column])
        check_public_rows(frame, self.schema)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        ranks = Ranks.of(frame, self.schema, self.column, progress=progress)
        points = self.law_on(ranks, rng).draw(rng) >> self.finer
        places = [int(t) for t in points]
        return on_grid(self.names, places, self.domain * len(places), self.bits)

    def preview(self, confidence: float = 0.95) -> Preview:
        """Even rows: the errors of the ranks are a walk with Laplace steps that returns to zero."""
        level, width = check_confidence(confidence), self.domain[0].width
        taus = np.array(self.taus, dtype=np.float64)
        shape, bits = (_WALKS, len(taus)), source(_SEED)
        # Draw walks and weight them by the density of the step that closes them.
        walks = np.cumsum(bits.exponential(shape) - bits.exponential(shape), axis=1)
        weight = np.exp(-np.abs(walks[:, -1]))
        weight /= weight.sum()
        scale = self.schema.rows * float(self.budget.rate)
        errors = np.clip(walks / scale, -taus, 1 - taus)  # nothing is released beyond the bounds
        std = np.sqrt(weight @ errors**2)
        worst = np.abs(errors / std).max(axis=1)
        order = np.argsort(worst)
        place = int(np.searchsorted(np.cumsum(weight[order]), level))
        half = np.minimum(std * worst[order][min(place, _WALKS - 1)], np.maximum(taus, 1 - taus))
        said = (level, self.guarantee(), self.law, of_rows(self.schema, ORDERED_ROWS))
        return Preview(self.names, width * std, width * half, *said)

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The quantiles: no interval comes with them."""
        self._level(release, confidence)
        return replace(Answer.of(release), about=NO_INTERVAL)


def check_taus(taus: object) -> list[Fraction]:
    """Increasing shares strictly between 0 and 1."""
    shares = [check_tau(tau) for tau in check_list("taus", taus, _SHARES)]
    check_filled("taus", shares, "number")
    check_increasing("taus", shares)
    return shares


def check_work(rows: int, levels: int) -> None:
    """Refuse what would take too long or too much memory, from public facts alone."""
    if levels * rows > MOST_NUMBERS or levels**2 * rows > MOST_WORK:
        most = max(1, min(MOST_NUMBERS // rows, math.isqrt(MOST_WORK // rows)))
        fail(
            f"`taus` must hold at most {most} levels for {rows} rows: a joint draw works with all "
            "rows at every level. Release fewer levels, or each by itself (KNormQuantile).",
            InfeasibleSamplingError,
        )


def finer_bits(schema: Schema) -> int:
    """Bits within a grid cell: so many that rows of one cell are seldom tied again."""
    return min(60 - schema.bits, schema.rows.bit_length() + 4)
