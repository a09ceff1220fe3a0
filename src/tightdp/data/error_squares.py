"""Sums of squares of what rows do to coefficients, for a line and influences that are public."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tightdp.data.blocks import Block, Grid, product_rounding
from tightdp.data.regression_moments import Group
from tightdp.data.residual_sums import ResidualSums
from tightdp.errors import FloatArray, Integers, fail
from tightdp.schema import Schema


class ErrorSquares(ResidualSums):
    r"""Sums of :math:`2\,(u_k(d)\,r/f)^2 - 1`, r the residual of a public line.

    :math:`u_k(d) = \alpha_k + \beta_k \cdot d` is the influence of a row on a coefficient, with
    :math:`|\alpha_k| + \sum |\beta_{kj}| \le 1` by its scale, and :math:`f = 1 + \sum |l_j|` the
    largest residual that bounds allow. So every square is between 0 and 1, whatever the line and
    the influences are: to them belongs one function of rows, with values between -1 and 1, and the
    sums move within a box.

    On the grid with P points per unit, cells, lines and influences are integers. The sizes of
    influence and residual, and then their product, are rounded upwards to a multiple of 1/P before
    anything is squared: the sum of squares is never less than the exact one.

    Parameters
    ----------
    schema : Schema
        With a public number of rows.
    features : sequence of str
    target : str
    line : sequence of int, optional
        Intercept and slopes of the scaled columns, in units of 1/P; 0 by default.
    influences : sequence of sequences of int, optional
        A row for every coefficient: the constant and the factors of the scaled columns, in units of
        1/P. By default every column has one, of size 1.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-1, 1)}, rows=2, bits=4)
    >>> sums = ErrorSquares(schema, ["x"], "y", line=(0, 8), influences=[(0, 16)])
    >>> sums.names, [z / sums.resolution(4) for z in sums.measure({"x": [1, -1], "y": [1, 1]})]
    (('square 1',), [0.28125])
    """

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        line: Sequence[int] | None = None,
        influences: Sequence[Sequence[int]] | None = None,
    ) -> None:
        self._given_influences = influences
        super().__init__(schema, features, target, line=line)
        most = np.abs(self.influences).sum(axis=1).max()
        if self.influences.shape[1] != self.outcome or most > self.points:
            fail(
                f"`influences` must be rows of {self.outcome} integers, of a size of at most "
                f"{self.points} together."
            )

    @property
    def influences(self) -> Integers:
        """In units of 1/P, shape (sums, q + 1)."""
        if self._given_influences is None:
            return np.eye(self.outcome, dtype=np.int64) * self.points
        return np.array(self._given_influences, dtype=np.int64)

    def _lay_out(self) -> dict[str, tuple[Group, ...]]:
        given = self._given_influences
        many = self.outcome if given is None else len(given)
        squares = tuple((k, k, 1) for k in range(1, many + 1))
        return {"squares": (Group(squares, "box"),)}

    def _label(self, i: int, j: int, factor: int) -> str:
        return f"square {i}"

    def with_influences(
        self, line: Sequence[int], influences: Sequence[Sequence[int]]
    ) -> ErrorSquares:
        """The same sums for another line and other influences."""
        return self.rebuilt(line=line, influences=influences)

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        design, residual = self._residuals(block, grid)
        # of cells whose grid may be coarser: sizes of at most 1, in units of 1/points
        size = upwards(np.abs(residual), self.farthest)
        constant, *slopes = self.influences.T
        out = []
        for k in range(len(constant)):
            influence = np.full(len(size), int(constant[k]) * grid.points, dtype=np.int64)
            for slope, column in zip(slopes, design, strict=True):
                if slope[k]:
                    influence += slope[k] * column
            moved = upwards(upwards(np.abs(influence), self.points) * size, grid.points)
            out.append(2 * int((moved**2).sum()) - len(size) * grid.points**2)
        return np.array(out, dtype=np.int64)

    def row_rounding(self, grid: Grid) -> FloatArray:
        cell, step = self._cell_rounding(grid), 1 / grid.points
        residual = self._residual_rounding(grid, cell) * self.points / self.farthest + step
        influence = np.abs(self.influences) @ cell / self.points + step
        size = [product_rounding([float(each), residual]) + step for each in influence]
        return np.array([2 * product_rounding([each, each]) for each in size])


def upwards(values: Integers, divisor: int) -> Integers:
    """Quotients of values that are not negative, rounded upwards."""
    return np.asarray(-np.floor_divide(-values, divisor))
