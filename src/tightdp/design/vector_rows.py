"""The rows that a linear program of noise for several entries holds, out of very many.

A row says ``p_own - exp(epsilon) p_met <= s``. Near an optimum most rows hold with s = 0 whether
they are asked for or not; a program that holds the others alone is smaller by a factor of ten.
Rows enter when a solution breaks them and leave when they are idle. A lower bound is valid with
any set of rows; a noise is accepted when no row that is left out is broken.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightdp.design.vector_balls import Shift
from tightdp.design.vector_grid import Rows, VectorGrid
from tightdp.errors import FloatArray

_LEAST = 1e-12  # of a weight that counts as broken


class HeldRows:
    """Rows of shifts, all known, some held.

    >>> held = HeldRows(VectorGrid(1), 2.0)
    >>> lacks = held.lacks((1, 0), np.array([1.0, 0.0, 0.0]))
    >>> float(lacks.sum()), held.take((1, 0), lacks), held.of((1, 0)).times.tolist()
    (1.0, 1, [1])
    """

    def __init__(self, grid: VectorGrid, factor: float) -> None:
        self.grid, self.factor = grid, factor
        self._rows: dict[Shift, Rows] = {}
        self._held: dict[Shift, NDArray[np.bool_]] = {}

    @property
    def shifts(self) -> list[Shift]:
        """The shifts of which rows are held."""
        return [shift for shift, held in self._held.items() if held.any()]

    def all_of(self, shift: Shift) -> Rows:
        """Every row of a shift."""
        if shift not in self._rows:
            self._rows[shift] = self.grid.rows(shift)
            self._held[shift] = np.zeros(len(self._rows[shift].own), dtype=np.bool_)
        return self._rows[shift]

    def of(self, shift: Shift) -> Rows:
        """The rows of a shift that are held."""
        rows, held = self.all_of(shift), self._held[shift]
        return Rows(rows.own[held], rows.met[held], rows.times[held])

    def places(self, shift: Shift) -> NDArray[np.int64]:
        """Where the held rows stand among all rows of the shift."""
        return np.flatnonzero(self._held[shift])

    def lacks(self, shift: Shift, weights: FloatArray) -> FloatArray:
        """What falls short at every row; the sum is the shortfall of the shift."""
        return np.maximum(self._excess(shift, weights), 0.0) * self.all_of(shift).times

    def take(self, shift: Shift, lacks: FloatArray, share: float = 1.0) -> int:
        """Hold the rows that make up a share of what falls short unheld; how many are new."""
        fresh = np.where(self._held[shift] | (lacks <= _LEAST), 0.0, lacks)
        order = np.argsort(-fresh)
        needed = int(np.searchsorted(np.cumsum(fresh[order]), share * fresh.sum())) + 1
        chosen = order[:needed]
        chosen = chosen[fresh[chosen] > 0]
        self._held[shift][chosen] = True
        return len(chosen)

    def take_near(self, shift: Shift, radius: float) -> None:
        """Hold the rows of cells whose middle lies within a radius, in cells."""
        rows, near = self.all_of(shift), self.grid.distances() <= radius
        self._held[shift] |= near[rows.own]

    def take_tight(self, shift: Shift, weights: FloatArray, share: float) -> None:
        """Hold the rows of which a known noise needs at least a share of what is allowed."""
        rows = self.all_of(shift)
        counts = weights[rows.own] * rows.times > 1e-6
        tight = weights[rows.own] > share * self.factor * self._met(shift, weights)
        self._held[shift] |= counts & tight

    def drop_idle(self, shift: Shift, weights: FloatArray, duals: FloatArray) -> None:
        """Let go of held rows without a price that hold by themselves."""
        at = self.places(shift)
        idle = (duals <= _LEAST) & (self._excess(shift, weights)[at] < -1e-9)
        self._held[shift][at[idle]] = False

    def _met(self, shift: Shift, weights: FloatArray) -> FloatArray:
        met = self.all_of(shift).met
        return np.where(met >= 0, weights[met], 0.0)

    def _excess(self, shift: Shift, weights: FloatArray) -> FloatArray:
        return weights[self.all_of(shift).own] - self.factor * self._met(shift, weights)
