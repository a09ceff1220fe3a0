"""Several quantiles of one column at once, in order, drawn exactly from their joint law."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.answer import NO_INTERVAL, Answer
from tightdp.draft import Draft
from tightdp.errors import (
    InfeasibleSamplingError,
    check_confidence,
    check_filled,
    check_increasing,
    check_list,
    fail,
)
from tightdp.exact.joint_law import JointLaw
from tightdp.mechanisms.exponential_grids import on_grid
from tightdp.mechanisms.quantiles import ColumnGradient, check_tau, share_name
from tightdp.mechanisms.ranks import Ranks, finer_bits, score_cap
from tightdp.preview import ORDERED_ROWS, Preview, of_rows
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource, source
from tightdp.release import Release
from tightdp.schema import Schema

MOST_NUMBERS = 1 << 25  # rows times levels, of which five tables are held
MOST_WORK = 1 << 31  # rows times the square of the levels: seconds, not minutes
_SHARES = "numbers strictly between 0 and 1"
_WORD = 1 << 60
_WALKS, _SEED = 20_001, 20_260_101  # of a public model, simulated for previews


class KNormQuantiles(ColumnGradient):
    r"""Releases several quantiles in order, jointly, with one payment (Gillenwater and others,
    2021).

    Ordered points :math:`o_1 \le \dots \le o_m` have the weight
    :math:`\exp\{-\frac{\epsilon}{2\Delta} \sum_{j=0}^m \lvert N(o_{j+1}) - N(o_j) -
    n(\tau_{j+1} - \tau_j)\rvert\}`, with N(o) rows at or below o, :math:`N(o_0) = 0`,
    :math:`N(o_{m+1}) = n`. In terms of the gradients :math:`g_j = N(o_j) - n\tau_j` the sum is
    :math:`\sum \lvert g_{j+1} - g_j \rvert`: the quantiles share their error instead of paying for
    it m times. For m = 1 it is the law of one quantile between rows.

    Ties are broken at random: every row is moved by an independent uniform amount within its grid
    cell, and what is released is the cell. The sum counts up to a public cap, which is so high
    (:func:`score_cap`) that tuples beyond it have less than 2**-64 of all weight: what is far away
    need not be summed.

    **Privacy.**
    Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: the schema's clamp, and a grid that depends on public facts alone.
    Proof: 1. Fix how much each row is moved: neighbours stay neighbours, and a mixture of
    epsilon-DP mechanisms with the same weights is epsilon-DP. 2. Replacing a row changes at most
    two of the counts between points, by one each: :math:`\Delta = 2`. Adding a row between
    :math:`o_j` and :math:`o_{j+1}` changes term j by at most
    :math:`1 - (\tau_{j+1} - \tau_j)` and each other term by at most its
    :math:`\tau_{i+1} - \tau_i`, in sum :math:`2(1 - (\tau_{j+1} - \tau_j))`:
    :math:`\Delta = 2k(1 - \min_j (\tau_{j+1} - \tau_j))` for k rows per person. A row that is
    left out for a missing cell comes or goes so, which is less than 2. A cap makes no difference
    larger. 3. This is the exponential mechanism on finitely many tuples, drawn exactly
    (:class:`JointLaw`). 4. Taking cells is post-processing.
    Numerics: ``exact``.

    **Work.** Of the order of w m^2 operations for m levels and w = min(n, cap) of the n rows,
    whatever the rows: 99 levels of a million rows take seconds. What would take minutes is refused
    before it is paid for.

    Parameters
    ----------
    schema : Schema
    column : str
    taus : increasing numbers strictly between 0 and 1
    epsilon : float, Fraction or Decimal
    missing : {"rule", "drop"}, optional
        With "drop" the quantiles are those of the rows where the column is there.
    per : {"row", "person"}, optional
        With "person" those of persons, as for :class:`~tightdp.KNormQuantile`.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1001)
    >>> mechanism = KNormQuantiles(schema, "age", [0.25, 0.5, 0.75], epsilon=5.0)
    >>> release = mechanism.release({"age": np.linspace(0, 100, 1001)})
    >>> release.names, bool((abs(release.value - [25, 50, 75]) < 5).all())
    (('age[0.25]', 'age[0.5]', 'age[0.75]'), True)
    """

    located = "{}["

    why = (
        "Points of a public grid are drawn with a weight that falls with their distances in "
        "ranks from the wanted ones. No noise is added to values, so the error does not grow "
        "with the range of the column."
    )

    later = ("missing", "per")

    def __init__(
        self,
        schema: Schema,
        column: str,
        taus: Sequence[Any],
        *,
        epsilon: Number,
        missing: str | None = None,
        per: str | None = None,
    ) -> None:
        schema = self._take_column(schema, column, epsilon, missing, per)
        self.taus = check_taus(taus)
        steps = [b - a for a, b in pairwise([Fraction(0), *self.taus, Fraction(1)])]
        if math.lcm(*(tau.denominator for tau in self.taus)) * schema.rows >= _WORD:
            fail("`taus` must have a smaller common denominator: round them to a few digits.")
        largest = Fraction(2)
        if schema.neighbors is Neighbors.ADD_REMOVE:
            largest = 2 * schema.rows_per_person * (1 - min(steps))
        self._set_up_column(largest, epsilon)
        self.finer = finer_bits(schema)
        points = (2 * schema.resolution + 1) << self.finer
        self.cap = score_cap(points, len(self.taus), self.budget.rate)
        check_work(schema.rows, len(self.taus), self.cap)

    @property
    def names(self) -> tuple[str, ...]:
        return tuple(share_name(self.column, tau) for tau in self.taus)

    @property
    def law(self) -> str:
        return (
            f"ordered grid points with weight exp(-{self.budget.rate} * s), s the sum over gaps of "
            f"the distance of the rows in them from their share, at most {self.cap}"
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
            self.cap,
        )

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.drawn(
            Ranks.of(frame, self.schema, self.column, progress=progress), rng, confidence
        )

    def drawn(self, ranks: Ranks, rng: RandomSource, confidence: float) -> Draft:
        """A release for rows that were read."""
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


def check_work(rows: int, levels: int, cap: int) -> None:
    """Refuse what would take too long or too much memory, from public facts alone.

    At every level a draw works with the rows that are less than the half of ``cap`` ranks away.
    """
    pieces = min(rows, cap) + 1
    if levels * pieces > MOST_NUMBERS or levels**2 * pieces > MOST_WORK:
        most = max(1, min(MOST_NUMBERS // pieces, math.isqrt(MOST_WORK // pieces)))
        fail(
            f"`taus` must hold at most {most} levels for {rows} rows at this `epsilon`: a joint "
            f"draw works with {pieces} of the rows at every level. Release fewer levels, spend "
            "more, or release each by itself (KNormQuantile).",
            InfeasibleSamplingError,
        )
