"""How large the errors of a public line are, and how far a threshold clips them."""

from __future__ import annotations

import numpy as np

from tightdp.data.blocks import Block, Grid, product_rounding
from tightdp.data.error_squares import upwards
from tightdp.data.regression_moments import Group
from tightdp.data.residual_sums import STEEPEST, ResidualSums
from tightdp.errors import FloatArray, Integers

_MOST_STEEP = 64
_RESIDUAL_BITS = 59  # of residuals, which are doubled: all stays below 2**62


class LineErrors(ResidualSums):
    r"""Sums of :math:`2\,(r/f)^2 - 1` and of :math:`2 m - 1`, r the residual of a public line.

    With columns scaled to [-1, 1], f is the largest residual that bounds allow,
    :math:`1 + \sum |l_j|` without categories, of whose indicators at most one is 1; and m is by how
    much a residual exceeds the ``reach`` c over by how much it could, :math:`f - c`. So both are
    numbers between -1 and 1 that a row decides alone, and each moves within an interval of its own.

    Lines may be up to 64 steep, where integers have room for it: those of columns that fill a small
    part of their bounds are steep, and what is cut off a line would count as if it moved residuals.

    On the grid r/f is rounded upwards before it is squared, and 2 P m to the nearest integer. Cells
    that :class:`~tightdp.data.residual_sums.ResidualSums` reads are read here in the same way.

    Examples
    --------
    >>> from tightdp import Interval, Schema
    >>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-1, 1)}, rows=2, bits=4)
    >>> sums = LineErrors(schema, ["x"], "y", line=(0, 0), reach=8)  # y = 0, 1/2 each way
    >>> sums.names, [z / sums.resolution(4) for z in sums.measure({"x": [1, 1], "y": [-0.5, 0.75]})]
    (('squared error', 'moved'), [-0.375, -1.0])
    """

    def _lay_out(self) -> dict[str, tuple[Group, ...]]:
        last = self.outcome
        return {
            "squares": (Group(((1, 1, 1),), "box"),),
            "moved": (Group(((last, last, 1),), "box"),),
        }

    @property
    def steepest(self) -> int:
        room = (1 << _RESIDUAL_BITS) // (self.points**2 * self.outcome)
        return max(STEEPEST, min(_MOST_STEEP, room))

    @property
    def farthest(self) -> int:
        most = least = self.line[0]
        sway, levels = 0, self.layout.levels
        for places in self.layout.places.values():
            own = self.line[places.start : places.stop]
            if places in levels:
                most, least = most + max(0, *own), least + min(0, *own)
            else:
                sway += abs(own[0])
        return self.points + max(most, -least) + sway

    def _label(self, i: int, j: int, factor: int) -> str:
        return "moved" if i == self.outcome else "squared error"

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        size = np.abs(self._residuals(block, grid)[1])
        squares = upwards(size, self.farthest) ** 2
        moved = self._moved(size - self.reach * grid.points, grid.points)
        return np.array([2 * int(squares.sum()) - len(size) * grid.points**2, moved * grid.points])

    def row_rounding(self, grid: Grid) -> FloatArray:
        off = self._residual_rounding(grid, self._cell_rounding(grid)) * self.points
        size = off / self.farthest + 1 / grid.points
        room = max(self.farthest - self.reach, 1)
        moved = product_rounding([0.0, 2 * off / room + 0.5 / grid.points])
        return np.array([2 * product_rounding([size, size]), moved])
