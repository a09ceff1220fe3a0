"""Noise whose law depends on where in its public range the true value lies, kept exactly."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from fractions import Fraction
from itertools import accumulate, pairwise

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.errors import DimensionError, FloatArray, check_count, check_probability, fail
from tightdp.exact.enclosures import exp_below
from tightdp.noise.table_noise import shifted_shortfall
from tightdp.parameters import tells_arguments
from tightdp.privacy import check_epsilon, text_up
from tightdp.randomness import RandomSource


@tells_arguments
class RangeNoise:
    r"""One table of integer weights for each interval of the range of an integer query.

    The range 0..K*points of the query t is cut at ``edges`` (in cells of ``points`` integers) into
    groups; a query in group g is released as t + Z with
    :math:`P(Z = ir + u) = p_g(i)/r`, r = ``points``, u in 0..r-1.

    **Privacy.**
    Statement: for queries that move by at most ``reach * points`` the release is
    (epsilon, delta)-DP with delta the largest of
    :math:`V_{g,h,j} = \sum_i (p_g(i) - e^\epsilon p_h(i - j))_+` over ordered pairs of groups and
    all whole j between :math:`\lambda_h - \lambda_{g+1}` and :math:`\lambda_{h+1} - \lambda_g` that
    lie in [-reach, reach]; :meth:`exact_delta` is a rational upper bound of it.
    Needs: [P1] an integer query, clamped to the range; [P2] tables of equal total, below which the
    sampler draws.
    Proof: (1) Let t lie in group g, t' in group h and t' - t = (j + s) r, 0 <= s < 1. Cell i of the
    first release meets the cells i - j and i - j - 1 of the second on parts 1 - s and s of it, so
    the shortfall is :math:`(1-s) V_{g,h,j} + s V_{g,h,j+1}`. (2) t' - t lies strictly between
    the two ends above, times r, or at the closed end of the last group, so j and (for s > 0) j + 1
    are among those tested; a pair of groups whose ends leave a single j is never met. (3) Clamping
    brings queries no further apart.
    Numerics: ``exact``.
    References: Selvi and others (2025), problem P' with all three shifts of a pair of intervals.
    Erratum: Algorithm G.1 as printed compares only the last shift of each pair of groups with the
    worst so far; here every shift is compared.

    Parameters
    ----------
    tables : sequence of sequences of int
        Weights, one table for each group, all of the same length and the same total.
    start : int
        Index of the first cell.
    edges : sequence of int
        :math:`0 = \lambda_0 < \dots < \lambda_G = K`, in cells.
    reach : int
        Sensitivity in cells.
    points : int
        Integers in a cell.
    epsilon : float, Fraction or Decimal

    Examples
    --------
    >>> noise = RangeNoise([[1, 2, 1], [2, 1, 1]], start=-1, edges=[0, 1, 2], reach=1, epsilon=1.0)
    >>> float(noise.exact_delta())
    0.5
    >>> noise.group(1), noise.group(2)
    (1, 1)
    """

    def __init__(
        self,
        tables: Sequence[Sequence[int]],
        *,
        start: int,
        edges: Sequence[int],
        reach: int,
        epsilon: Number,
        points: int = 1,
    ) -> None:
        self.tables = tuple(tuple(check_count("tables", w, least=0) for w in t) for t in tables)
        self.start = check_count("start", start, least=-(1 << 40), most=1 << 40)
        self.edges = tuple(check_count("edges", e, least=0) for e in edges)
        self.reach = check_count("reach", reach)
        self.points = check_count("points", points, most=1 << 60)
        self.epsilon = check_epsilon(epsilon)
        self._check()
        self.total = sum(self.tables[0])
        self._ends = [list(accumulate(table)) for table in self.tables]

    def _check(self) -> None:
        if not self.tables or len({len(t) for t in self.tables}) > 1 or not self.tables[0]:
            fail("`tables` must be tables of one length >= 1.", DimensionError)
        if len({sum(t) for t in self.tables}) > 1 or sum(self.tables[0]) == 0:
            fail("`tables` must have one and the same total > 0.")  # [P2]
        increasing = all(a < b for a, b in pairwise(self.edges))
        if len(self.edges) != len(self.tables) + 1 or self.edges[0] or not increasing:
            fail("`edges` must rise from 0 and enclose one group for each table.", DimensionError)

    # --- the query ----------------------------------------------------------------------------

    @property
    def last(self) -> int:
        """The largest value of the query; the smallest is 0."""
        return self.edges[-1] * self.points

    def clamp(self, query: int) -> int:
        """The nearest value in the range."""
        return min(max(int(query), 0), self.last)

    def group(self, query: int) -> int:
        """Index of the table used for a query. **Not private.**"""
        cell = min(self.clamp(query) // self.points, self.edges[-1] - 1)
        return int(np.searchsorted(self.edges, cell, side="right")) - 1

    # --- privacy ------------------------------------------------------------------------------

    def triples(self) -> Iterator[tuple[int, int, int]]:
        """All (g, h, j) of the statement."""
        return needed_shifts(self.edges, self.reach)

    def shortfall(self, g: int, h: int, j: int) -> Fraction:
        """An upper bound of one shortfall, exact up to that of exp(epsilon)."""
        top, high = exp_below(self.epsilon)
        mine, others = (np.array(self.tables[i], dtype=object) for i in (g, h))
        return Fraction(shifted_shortfall(mine * high, others * top, j), high * self.total)

    def exact_delta(self) -> Fraction:
        """The delta of the statement, as a rational that is never too small."""
        return max((self.shortfall(*t) for t in self.triples()), default=Fraction(0))

    # --- draws --------------------------------------------------------------------------------

    def prepare(self, bits: RandomSource, count: int = 1) -> list[tuple[int, int]]:
        """Random integers for ``count`` draws, made before the query is known."""
        return [(bits.below(self.total), bits.below(self.points)) for _ in range(count)]

    def noise(self, query: int, drawn: tuple[int, int]) -> int:
        """The noise that prepared integers mean for a query; the query is read here only."""
        ends = self._ends[self.group(query)]
        # every table is searched from end to end: the time taken does not tell which one it was
        cell = sum(end <= drawn[0] for end in ends)
        return (self.start + cell) * self.points + drawn[1]

    # --- moments ------------------------------------------------------------------------------

    def second_moments(self) -> FloatArray:
        """E Z**2 of every table, in squared integers."""
        r = self.points
        # doubles: start times r is up to 2**100
        middle = (self.start + np.arange(float(len(self.tables[0])))) * r + (r - 1) / 2
        each = middle**2 + (r * r - 1) / 12
        return np.array([np.dot(np.array(t) / self.total, each) for t in self.tables])

    def half_width(self, confidence: float) -> int:
        """A distance that no table exceeds with more than the remaining probability."""
        level = check_probability("confidence", confidence)
        cells: NDArray[np.int64] = self.start + np.arange(len(self.tables[0]))
        far = np.maximum(np.abs(cells), np.abs(cells + 1))
        widest = 0
        order = np.argsort(far, kind="stable")
        for table in self.tables:
            inside = np.cumsum(np.array(table)[order] / self.total)
            place = min(int(np.searchsorted(inside, level - 1e-12)), len(order) - 1)
            widest = max(widest, int(far[order][place]))
        return widest * self.points

    def __repr__(self) -> str:
        size = f"{len(self.tables)} tables of {len(self.tables[0])} cells"
        return f"RangeNoise({size}, epsilon={text_up(self.epsilon)})"


def needed_shifts(edges: Sequence[int], reach: int) -> Iterator[tuple[int, int, int]]:
    """The triples (g, h, j) that decide about privacy, for groups cut at ``edges``.

    >>> list(needed_shifts([0, 1, 2], 1))[:4]
    [(0, 0, -1), (0, 0, 1), (0, 1, 0), (0, 1, 1)]
    """
    groups = list(pairwise(edges))
    for g, (low_g, high_g) in enumerate(groups):
        for h, (low_h, high_h) in enumerate(groups):
            first, last = max(low_h - high_g, -reach), min(high_h - low_g, reach)
            if first < last:
                yield from ((g, h, j) for j in range(first, last + 1) if g != h or j)
