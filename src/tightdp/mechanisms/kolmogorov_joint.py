"""The Kolmogorov-Smirnov sample of several columns, where all samples can be listed."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.data.frames import check_frame
from tightdp.data.joint_histograms import JointHistogram
from tightdp.errors import InfeasibleSamplingError, Integers, check_count, fail
from tightdp.mechanisms.exponential import ExponentialMechanism
from tightdp.preview import Preview
from tightdp.schema import Schema

MOST_SAMPLES = 20_000
_WORD = 1 << 62


class KolmogorovScores:
    r"""Scores of all samples of k points on a small grid, as counts of its cells.

    The score of a sample is :math:`-\max_t \lvert n S(t) - k M(t) \rvert` with the numbers of
    sample points and rows in the orthants :math:`\{x \le t\}`.

    Examples
    --------
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=6)
    >>> scores = KolmogorovScores(JointHistogram(schema, ["x", "y"], 2), size=3)
    >>> len(scores.counts)  # 3 points in 4 cells
    20
    """

    def __init__(self, cells: JointHistogram, size: int) -> None:
        self.cells, self.size = cells, check_count("size", size)
        if any(edges is None for edges in cells.edges):
            fail("A Kolmogorov-Smirnov distance needs numeric columns: levels have no order.")
        many = math.comb(size + len(cells) - 1, size)
        if many > MOST_SAMPLES:
            fail(
                f"{size} points in {len(cells)} cells of {len(cells.columns)} columns can lie in "
                f"{many} ways, and at most {MOST_SAMPLES} can be listed. In several dimensions "
                "orthants form no chain, so no recursion replaces the list: take fewer points or "
                "bins, one column, or method='histogram'.",
                InfeasibleSamplingError,
            )
        self.counts = _compositions(size, len(cells))
        self._below = self._orthants(self.counts)

    def _orthants(self, counts: Integers) -> Integers:
        """Points in every orthant of the grid, for rows of counts."""
        table = counts.reshape(-1, *self.cells.shape)
        for axis in range(1, table.ndim):
            table = np.cumsum(table, axis=axis)
        return table.reshape(len(counts), -1)

    def __call__(self, frame: TableLike) -> Integers:
        table = np.array([self.cells.measure(frame)], dtype=np.int64)
        rows = int(table.sum())
        kind: Any = np.int64 if rows * self.size < _WORD else object  # however many rows there are
        inside, rowwise = self._below.astype(kind), self._orthants(table).astype(kind)
        return -np.abs(rows * inside - self.size * rowwise).max(axis=1)

    def multiplicities(self) -> list[int]:
        """Of how many ordered samples each vector of counts stands."""
        whole = math.factorial(self.size)
        return [whole // math.prod(math.factorial(int(c)) for c in row) for row in self.counts]


class JointKolmogorov(ExponentialMechanism):
    r"""The law of :class:`~tightdp.KolmogorovSample` for several columns, by listing all samples.

    **Privacy.** Statement: a release is epsilon-DP under the neighbour relation of the schema.
    Needs: public cells. Proof: replacing a row changes :math:`k M(t)` by at most k for every
    orthant; adding one changes :math:`n S(t) - k M(t)` by :math:`S(t)` or :math:`S(t) - k`, at most
    k too. So the score has sensitivity k, times the rows of a person, and
    :class:`~tightdp.ExponentialMechanism` draws exactly.

    Parameters
    ----------
    cells : JointHistogram
        Of numeric columns.
    size : int
        k; at most 20,000 vectors of counts can be listed.
    epsilon : float, Fraction or Decimal

    Examples
    --------
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=6)
    >>> mechanism = JointKolmogorov(JointHistogram(schema, ["x", "y"], 2), 3, epsilon=1.0)
    >>> release = mechanism.release({"x": np.zeros(6), "y": np.ones(6)})
    >>> sum(mechanism.candidate(release))
    3
    """

    def __init__(self, cells: JointHistogram, size: int, *, epsilon: Number) -> None:
        self.scores = KolmogorovScores(cells, size)
        super().__init__(
            [tuple(map(int, row)) for row in self.scores.counts],
            self.scores,
            sensitivity=self.scores.size * cells.schema.rows_per_person,
            epsilon=epsilon,
            neighbors=cells.schema.neighbors,
            base_measure=self.scores.multiplicities(),
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        """Nothing: what is released is the place of a sample in a list, which has no error."""
        return self._silent(confidence, "the place of a sample in a list has none")

    def public_facts(self) -> Schema:
        return self.scores.cells.schema

    def label(self) -> str:
        return f"JointKolmogorov({self.scores.cells!r})"

    def check(self, frame: TableLike) -> None:
        check_frame(frame, self.scores.cells.schema, self.scores.cells.columns)


def listed_size(cells: int, most: int) -> int:
    """The largest sample up to a size that can be listed; 0 if not even one point can.

    >>> listed_size(9, 100)
    8
    """
    size = 0
    while size < most and math.comb(size + cells, size + 1) <= MOST_SAMPLES:
        size += 1
    return size


def _compositions(total: int, parts: int) -> Integers:
    """All vectors of non-negative integers with a sum, one per row."""
    bars = itertools.combinations(range(total + parts - 1), parts - 1)
    places = np.array(list(bars), dtype=np.int64).reshape(-1, parts - 1)
    ends = np.full((len(places), 1), total + parts - 1)
    return np.diff(np.hstack([np.full_like(ends, -1), places, ends]), axis=1) - 1
