"""Several quantiles of one column at once, with one payment, drawn exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from itertools import pairwise
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightdp.data.frames import check_frame, check_public_rows
from tightdp.errors import fail
from tightdp.mechanisms.exponential.grids import on_grid
from tightdp.mechanisms.gradient import KNormGradient
from tightdp.mechanisms.quantiles import check_schema, check_tau, numeric, share_name
from tightdp.mechanisms.ranks import Ranks
from tightdp.noise.tilted import below_exp, exp_table
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.schema import Schema

Vector = NDArray[np.int64]

_PARTS = 64  # cells of equal length in every partition: order is then seldom broken by chance
_WIDTH = Fraction(1, 4)  # cells near a quantile are this wide, in units of 1/rate
_GROWTH = 8  # and farther away an eighth of the distance
_SPARE = 40  # bits by which cells beyond the tables are too small to matter
_COARSE = Fraction(1, 64)
_WORD = 1 << 60


class Cells(NamedTuple):
    """Consecutive cells ``start <= o < end`` of the line, and the counts of rows over each."""

    start: Vector
    end: Vector
    least: Vector  # rows at or below the first point
    most: Vector  # rows at or below the last point


class JointLaw:
    r"""The law of ordered points with weight :math:`\exp\{-r \sum_j \lvert c_{j+1} - c_j - n_j
    \rvert\}`.

    Here :math:`c_j` counts the rows at or below the j-th point, :math:`c_0 = 0`,
    :math:`c_{m+1} = n`, and the :math:`n_j` are given. For each j the line is cut into a few
    hundred cells. A chain of cells is proposed with integer weights: the product of the lengths
    and of upper bounds of :math:`2^P e^{-r\,\text{gap}}`, the gap being the least value of a term
    over two cells; the sums over chains are exact integers, by dynamic programming. Then points
    are drawn uniformly in the cells, and kept with probability
    :math:`\prod 2^P e^{-r\,\text{term}} / \text{bound}` if they are ordered.

    Proof: a point tuple o is proposed with probability (product of the bounds) / (their sum over
    all tuples), so what is kept has a probability proportional to the stated weight, exactly. The
    partition only decides how often a proposal is kept.

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
        levels = [Fraction(0), *self.taus, Fraction(1)]
        self.wanted = [int((b - a) * self.den) * len(rows) for a, b in pairwise(levels)]
        self._places = self._precision()
        self._table = exp_table(self.rate, self._places, _COARSE)
        self.cells = [self._partition(tau) for tau in self.taus]
        self._forward = self._sums()

    # --- the weight of a tuple ----------------------------------------------------------------

    def score(self, points: Any) -> int:
        """den times the sum of the terms."""
        counts = np.searchsorted(self.rows, points, side="right")
        ends = [0, *(int(c) for c in counts), len(self.rows)]
        terms = zip(pairwise(ends), self.wanted, strict=True)
        return sum(abs(self.den * (b - a) - wanted) for (a, b), wanted in terms)

    def _precision(self) -> int:
        """Places P so that tuples with a bound at the floor of the table do not matter.

        All tuples together number ``(end - start)**m``; the rows at the wanted ranks are a tuple
        that is worth comparing with.
        """
        n = len(self.rows)
        ranks = [min(n - 1, int(tau * n)) for tau in self.taus]
        good = self.score(self.rows[ranks]) if n else 0
        bits = len(self.taus) * (self.end - self.start).bit_length()
        return bits + _SPARE + math.ceil(Fraction(3, 2) * self.rate * good)

    # --- the partition and the sums over chains -----------------------------------------------

    def _partition(self, tau: Fraction) -> Cells:
        n = len(self.rows)
        middle, step = int(tau * n), max(1, int(_WIDTH / (self.rate * self.den)))
        offsets, at = [0], 0
        while at <= n:
            at += max(step, at // _GROWTH)
            offsets.append(at)
        away = np.array(offsets)
        counts = np.concatenate([middle - away, middle + 1 + away])
        inner = self.rows[counts[(counts >= 1) & (counts <= n)] - 1]
        length = self.end - self.start
        even = np.array([self.start + length * i // _PARTS for i in range(_PARTS)])
        starts = np.unique(np.concatenate([inner, even]))
        ends = np.append(starts[1:], self.end)
        kind: Any = np.int64 if self.den * n < _WORD else object  # more rows than were declared
        least = np.searchsorted(self.rows, starts, side="right").astype(kind)
        most = np.searchsorted(self.rows, ends - 1, side="right").astype(kind)
        return Cells(starts, ends, least, most)

    def _bounds(self, j: int, before: Cells, after: Cells) -> Any:
        """Bounds between every cell before and every cell after, 0 where the order forbids it."""
        high = self.den * (after.most[None, :] - before.least[:, None])
        low = self.den * (after.least[None, :] - before.most[:, None])
        gap = np.maximum(np.maximum(low - self.wanted[j], self.wanted[j] - high), 0)
        bounds = self._table.upper(gap)
        return np.where(after.end[None, :] > before.start[:, None], bounds, 0)

    def _sums(self) -> list[Any]:
        """For every j and cell, the weight of all chains that end in the cell."""
        before, weights = self._first(), np.array([1], dtype=object)
        forward = []
        for j, after in enumerate(self.cells):
            weights = weights @ self._bounds(j, before, after)
            weights = weights * (after.end - after.start).astype(object)
            forward.append(weights)
            before = after
        return forward

    def _first(self) -> Cells:
        """Where chains start: before all rows."""
        at, none = np.array([self.start]), np.zeros(1, dtype=np.int64)
        return Cells(at, at + 1, none, none)

    def _last(self) -> Cells:
        """Where chains end: behind all rows."""
        at, all_rows = np.array([self.end]), np.array([len(self.rows)])
        return Cells(at - 1, at, all_rows, all_rows)

    # --- draws --------------------------------------------------------------------------------

    def draw(self, rng: RandomSource) -> Vector:
        """Ordered points, shape (m,)."""
        while True:
            points, bound = self._propose(rng)
            if (np.diff(points) < 0).any():
                continue
            x = self.rate * self.score(points)
            num = 1 << self._places * len(self.wanted)
            if below_exp(int(rng.words(1)[0]), x, rng, num=num, den=bound):
                return points

    def _propose(self, rng: RandomSource) -> tuple[Vector, int]:
        """Points in a chain of cells, and the product of the bounds of the chain."""
        after, product, points = self._last(), 1, []
        for j in range(len(self.cells), 0, -1):
            cells = self.cells[j - 1]
            bounds = self._bounds(j, cells, after)[:, 0]
            edges = np.cumsum(self._forward[j - 1] * bounds)
            b = int(np.searchsorted(edges, rng.below(int(edges[-1])), side="right"))
            product *= int(bounds[b])
            after = Cells(*(part[b : b + 1] for part in cells))
            points.append(int(after.start[0]) + rng.below(int(after.end[0] - after.start[0])))
        product *= int(self._bounds(0, self._first(), after)[0, 0])
        return np.array(points[::-1], dtype=np.int64), product


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
    Numerics: ``exact``. The running time depends on the rows.

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

    def __init__(self, schema: Schema, column: str, taus: Sequence[Any], *, epsilon: Any) -> None:
        self.schema, self.column, self.taus = check_schema(schema), column, check_taus(taus)
        steps = [b - a for a, b in pairwise([Fraction(0), *self.taus, Fraction(1)])]
        if math.lcm(*(tau.denominator for tau in self.taus)) * schema.rows >= _WORD:
            fail("`taus` must have a smaller common denominator: round them to a few digits.")
        largest = Fraction(2)
        if schema.neighbors is Neighbors.ADD_REMOVE:
            largest = 2 * schema.rows_per_person * (1 - min(steps))
        self._set_up(numeric(schema, column), largest, epsilon, schema.neighbors, schema.bits)
        self.finer = finer_bits(schema)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(share_name(self.column, tau) for tau in self.taus)

    @property
    def law(self) -> str:
        return (
            f"ordered grid points with weight exp(-{self.budget.rate} * s), s the sum over gaps of "
            f"the distance of the rows in them from their share"
        )

    def _label(self) -> str:
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

    def _check(self, frame: Any) -> None:
        check_frame(frame, self.schema, [self.column])
        check_public_rows(frame, self.schema)

    def _publish(
        self, frame: Any, rng: RandomSource, confidence: float, progress: bool
    ) -> dict[str, Any]:
        ranks = Ranks.of(frame, self.schema, self.column, progress=progress)
        points = self.law_on(ranks, rng).draw(rng) >> self.finer
        drawn = on_grid([int(t) for t in points], self.domain * len(points), self.bits)
        return {"names": self.names, "noise": self.law, "unknown": self.names} | drawn


def check_taus(taus: Any) -> list[Fraction]:
    """Increasing shares strictly between 0 and 1."""
    if isinstance(taus, (str, bytes)) or not hasattr(taus, "__iter__"):
        fail("`taus` must be a list of numbers strictly between 0 and 1.")
    shares = [check_tau(tau) for tau in taus]
    if not shares:
        fail("`taus` must hold at least one number.")
    if any(b <= a for a, b in pairwise(shares)):
        fail("`taus` must increase.")
    return shares


def finer_bits(schema: Schema) -> int:
    """Bits within a grid cell: so many that rows of one cell are seldom tied again."""
    return min(60 - schema.bits, schema.rows.bit_length() + 4)
