"""Sums of products of features with the residuals of a line that is public by then."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tightdp.data.blocks import Block, Grid, product_rounding
from tightdp.data.regression_moments import Group, RegressionMoments
from tightdp.errors import FloatArray, Integers, check_count, check_length, fail
from tightdp.schema import Schema

STEEPEST = 4
"""The largest size of a coefficient of a line, for scaled columns."""


class ResidualSums(RegressionMoments):
    r"""Sums of :math:`(1, d_1, ..., d_q)\,r`, r the clamped residual of a public line.

    With columns scaled to [-1, 1], :math:`r = (y - l_0 - l \cdot d)/c` moved to [-1, 1], where c is
    the ``reach`` of the line. A row decides its own residual, whatever the line is: to every line
    belongs one function of rows, with values between -1 and 1. So these sums move as those of any
    target do, and the body of their changes is the part "target" of
    :class:`~tightdp.data.regression_moments.RegressionMoments`.

    One more sum, "moved", tells what the clamp has done: of :math:`2 m - 1`, where m is how far the
    clamp moves a residual over how far it could, :math:`f - c` with :math:`f = 1 + \sum |l_j|` the
    largest residual that bounds allow. It is between -1 and 1, too, and one more side of the box.

    On the grid with P points per unit, cells, line and reach are integers, and so is
    :math:`P^2 (y - l_0 - l \cdot d)`. Its quotient by the reach is rounded to the nearest integer,
    half up, which is P r, before anything is summed. So is 2 P m.

    Parameters
    ----------
    schema : Schema
        With a public number of rows.
    features : sequence of str
    target : str
    line : sequence of int, optional
        Intercept and slopes of the scaled columns, in units of 1/P; 0 by default.
    reach : int, optional
        In units of 1/P; P, half of the bounds of the target, by default.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-1, 1)}, rows=2, bits=4)
    >>> sums = ResidualSums(schema, ["x"], "y", line=(0, 8), reach=8)  # y = x / 2, and 1/2 each way
    >>> sums.names, [z / sums.resolution(4) for z in sums.measure({"x": [1, -1], "y": [0.75, 1]})]
    (('residual', 'x*residual', 'moved'), [1.5, -0.5, 0.0])
    """

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        line: Sequence[int] | None = None,
        reach: int | None = None,
    ) -> None:
        super().__init__(schema, features, target, square=False)
        points, size = self.points, self.outcome
        self.line = tuple(int(z) for z in line) if line is not None else (0,) * size
        check_length("line", len(self.line), size)
        steepest = self.steepest
        if max(map(abs, self.line)) > steepest * points:
            fail(f"`line` must have coefficients of at most {steepest}, for scaled columns.")
        # of slopes of at most s a residual is at most P^2 (1 + s (q + 1)) in size, and is doubled
        # before it is divided
        most = 2 * points**2 * (1 + steepest * size)
        far = points * (1 + steepest * size)
        self.reach = points if reach is None else check_count("reach", reach, most=far)
        if most + self.reach >= 1 << 62:
            fail("`features` are too many, or `bits` too fine, for residuals in 64-bit integers.")

    def _lay_out(self) -> dict[str, tuple[Group, ...]]:
        box, *others = super()._lay_out()["target"]
        return {"target": (Group((*box.entries, (self.outcome, self.outcome, 1)), "box"), *others)}

    def grid(self, bits: int) -> Grid:
        """As fine as without steps: lines and residuals lie between the steps of columns."""
        found = super().grid(bits)
        return replace(found, points=found.points * max(1, (1 << bits) // found.points))

    @property
    def points(self) -> int:
        """Of the grid, per unit of a scaled column: the inverse of the unit of line and reach."""
        return self.grid(self.schema.bits).points

    @property
    def steepest(self) -> int:
        """The largest size of a coefficient of a line, for scaled columns."""
        return STEEPEST

    @property
    def farthest(self) -> int:
        """The largest residual that bounds allow, in units of 1/P."""
        return self.points + sum(map(abs, self.line))

    def _label(self, i: int, j: int, factor: int) -> str:
        if i == self.outcome:
            return "moved"
        return "residual" if i == 0 else f"{self.design[i - 1]}*residual"

    def along(self, line: Sequence[int], reach: int) -> ResidualSums:
        """The same sums for another line."""
        return self.rebuilt(line=line, reach=reach)

    def contributions(self, block: Block, bits: int) -> Integers:
        grid = self.grid(bits)
        design, residual = self._residuals(block, grid)
        scaled = np.floor_divide(2 * residual + self.reach, 2 * self.reach)
        np.clip(scaled, -grid.points, grid.points, out=scaled)
        moved = self._moved(np.abs(residual) - self.reach * grid.points, grid.points)
        # see `rows_that_fit`
        sums = np.array([scaled.sum() * grid.points, *(design @ scaled), moved * grid.points])
        return np.asarray(sums[self.entries[:, 0]])

    def _residuals(self, block: Block, grid: Grid) -> tuple[Integers, Integers]:
        """Columns of the design on the grid, and residuals in units of 1/P times that of cells.

        The grid of cells may be coarser than 1/P.
        """
        cells = self._design_rows(block, grid).astype(np.int64)
        design, residual = cells[:-1], cells[-1] * self.points
        residual -= self.line[0] * grid.points
        for slope, column in zip(self.line[1:], design, strict=True):
            if slope:
                residual -= slope * column
        return design, residual

    def _moved(self, beyond: Integers, points: int) -> int:
        """The sum of 2 m - 1, where residuals exceed the reach by so much."""
        room = self.farthest - self.reach
        if room <= 0:
            return -points * len(beyond)
        # less than the doubled residuals, of at most 62 bits, and of at most 2 P: no sum wraps
        steps = np.floor_divide(2 * np.maximum(beyond, 0) + room // 2, room)
        return int(np.minimum(steps, 2 * points).sum()) - points * len(beyond)

    def _cell_rounding(self, grid: Grid) -> FloatArray:
        """Of the constant and the columns of the design."""
        cell = np.zeros(self.outcome)
        for name in self._numeric:
            cell[self.places[name]] = grid.rounding(name)
        return cell

    def _residual_rounding(self, grid: Grid, cell: FloatArray) -> float:
        return float(grid.rounding(self.target) + np.abs(self.line) @ cell / self.points)

    def row_rounding(self, grid: Grid) -> FloatArray:
        cell = self._cell_rounding(grid)
        moved = self._residual_rounding(grid, cell)
        off = moved * self.points / self.reach + 0.5 / grid.points
        room = max(self.farthest - self.reach, 1)
        share = 2 * moved * self.points / room + 0.5 / grid.points
        products = [product_rounding([each, off]) for each in cell] + [
            product_rounding([0.0, share])
        ]
        return np.array(products)[self.entries[:, 0]]


class MovedSum(ResidualSums):
    """How far a reach would move residuals, alone: the last sum of :class:`ResidualSums`."""

    def _lay_out(self) -> dict[str, tuple[Group, ...]]:
        return {"target": (Group(((self.outcome, self.outcome, 1),), "box"),)}
