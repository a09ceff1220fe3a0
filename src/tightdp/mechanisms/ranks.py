"""How the rows of one column lie on the public grid, and laws that depend on ranks alone."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import TableLike
from tightdp.data.frames import Block, integer_sums, quantized_matrix
from tightdp.mechanisms.exponential.pieces import PieceLaw
from tightdp.schema import Schema

_DENSE = 1 << 20  # grids up to this size are counted point by point if there are many rows
_MANY = 1 << 18  # fewer rows are cheaper to fetch than to count by blocks
_WORD = 1 << 62


class _Occupancy:
    """Rows on every grid point; picklable, for engines that count where the data are."""

    def __init__(self, column: str, edge: int) -> None:
        self.column, self.edge = column, edge

    def __call__(self, block: Block) -> NDArray[np.int64]:
        return np.bincount(block[self.column] + self.edge, minlength=2 * self.edge + 1)


class Ranks:
    """The distinct grid values of a column and how many rows lie at or below each of them.

    This is the ordered data itself: **not private**.

    Parameters
    ----------
    values : integers, increasing, shape (d,)
    counts : integers >= 1, shape (d,)
    edge : int
        The grid is -edge .. edge.

    Examples
    --------
    >>> ranks = Ranks(np.array([-3, 5]), np.array([2, 1]), edge=8)
    >>> ranks.rows, ranks.quantile(Fraction(1, 2))
    (3, -3)
    """

    def __init__(self, values: NDArray[np.int64], counts: NDArray[np.int64], edge: int) -> None:
        # both ends of the grid are always there, if need be with no row
        low = bool(not len(values) or values[0] > -edge)
        high = bool(not len(values) or values[-1] < edge)
        self.edge = edge
        self.values = np.concatenate([[-edge] * low, values, [edge] * high]).astype(np.int64)
        counted = np.concatenate([[0] * low, counts, [0] * high]).astype(np.int64)
        self.upto = np.cumsum(counted)
        self.below = self.upto - counted

    @classmethod
    def of(cls, frame: TableLike, schema: Schema, column: str, *, progress: bool = False) -> Ranks:
        """Read one column of a table, in one pass."""
        edge = schema.resolution
        dense = 2 * edge < min(_DENSE, 8 * schema.rows)
        if dense and schema.rows > _MANY:  # count where the rows are
            counts = integer_sums(
                frame,
                schema,
                [column],
                _Occupancy(column, edge),
                width=2 * edge + 1,
                degree=0,
                progress=progress,
            )
            return cls._counted(np.array(counts, dtype=np.int64), edge)
        cells = quantized_matrix(frame, schema, [column], progress=progress)[:, 0]
        if dense:
            return cls._counted(np.bincount(cells + edge, minlength=2 * edge + 1), edge)
        return cls(*np.unique(cells, return_counts=True), edge)

    @classmethod
    def _counted(cls, counts: NDArray[np.int64], edge: int) -> Ranks:
        """From the number of rows on every grid point."""
        places = np.flatnonzero(counts)
        return cls(places - edge, counts[places], edge)

    @property
    def rows(self) -> int:
        """Number of rows."""
        return int(self.upto[-1])

    def quantile(self, tau: Fraction) -> int:
        """The least grid value with at least a share tau of the rows at or below; not private."""
        need = -(-tau.numerator * self.rows // tau.denominator)
        return int(self.values[np.searchsorted(self.upto, need)])

    def law(self, target: Fraction, rate: Fraction) -> PieceLaw:
        r"""The law on the grid with weight :math:`e^{-r s(t)}`, s the distance of t from a rank.

        With :math:`N^-(t)` rows below t and :math:`N(t)` rows at or below t,
        :math:`s(t) = \max\{0, N^-(t) - \text{target}, \text{target} - N(t)\}`: the least size of
        a subgradient. The two ends of the grid stand for everything beyond them: at the lower end
        the first difference is dropped, at the upper end the second. So some point has the score
        0, whatever the target and the rows.
        """
        num, den = target.numerator, target.denominator
        kind: Any = np.int64 if den * max(self.rows, 1) + abs(num) < _WORD else object
        below, upto = den * self.below.astype(kind), den * self.upto.astype(kind)
        # pieces: the gap below every value (maybe empty), the value itself, ..., an empty gap
        starts = np.empty(2 * len(self.values) + 1, dtype=np.int64)
        starts[0], starts[1::2], starts[2::2] = -self.edge, self.values, self.values + 1
        levels = np.zeros(len(starts), dtype=kind)
        levels[0:-1:2] = abs(below - num)
        levels[1::2] = np.maximum(np.maximum(below - num, num - upto), 0)
        levels[1] = max(0, num - upto[0])
        levels[-2] = max(0, below[-1] - num)
        return PieceLaw(starts, self.edge + 1, levels, rate / den)
