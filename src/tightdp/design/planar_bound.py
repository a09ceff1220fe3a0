r"""A lower bound on the loss of every planar noise, with its proof in integers.

**Statement.** Let :math:`\gamma` be any noise that makes a planar query (epsilon, delta)-DP for
changes in the ball. Then :math:`E\,c(X) \ge \theta - \delta \sum_m \lambda_m`, for every choice of
numbers :math:`0 \le z_{m,r} \le \mu_{m,r} \lambda_m` and

.. math:: \theta = \min_o\; a_o + \frac1{n_o}\Bigl(\sum_{m,\,r:\,own=o} z_{m,r}
          - e^{\epsilon} \sum_{m,\,r:\,met=o} z_{m,r}\Bigr),

over the orbits o of :math:`n_o` lattice cells. **Proof.** (1) Sum :math:`\gamma` over the cells of
a lattice of width b with offset s and average over s: :math:`p_j = E\,t(X_1/b - j_1) t(X_2/b -
j_2)`, t the tent function. DP for shifts by lattice vectors and unions of cells is convex, so p has
:math:`V_m(p) \le \delta`; and :math:`E\,c(X) \ge \sum a_j p_j`, because the interpolation of the
node values :math:`a_j` by tents is at most c. (2) Averaging p over the symmetries of the square
keeps both. (3) Add to the sum z times each row ``p_own - exp(epsilon) p_met``, whose total for a
shift is at most :math:`\lambda_m V_m \le \lambda_m \delta`; the coefficient of :math:`p_o` is then
at least :math:`n_o \theta`. Lattice cells outside the square meet no row and cost at least as much
as the nearest of them. References: Selvi and others (2025) for the problem; the averaging over
offsets is an addition.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from fractions import Fraction
from functools import cached_property
from typing import Any

import numpy as np

from tightdp.design.planar_balls import lattice_shifts
from tightdp.design.planar_grid import PlanarGrid, Shift, node_loss
from tightdp.design.planar_programs import Bound
from tightdp.errors import UndecidedError, fail
from tightdp.exact.enclosures import exp_above

_SCALE = 1 << 48


@dataclass(frozen=True)
class PlanarBound:
    """Multipliers, as integers over 2**48, of a lattice with ``resolution`` cells per radius."""

    resolution: int
    half: int
    window: int
    shifts: tuple[Shift, ...]
    multipliers: tuple[int, ...]
    row_multipliers: tuple[tuple[int, ...], ...]

    @classmethod
    def rounded(cls, proposal: Bound, resolution: int) -> PlanarBound:
        """The proposal of the solver, rounded so that all conditions hold."""
        most = [round(x * _SCALE) for x in np.maximum(proposal.multipliers, 0.0)]
        rows = [
            tuple(
                min(int(x * _SCALE), lam * int(t))
                for x, t in zip(np.maximum(z, 0.0), proposal.grid.rows(shift).times, strict=True)
            )
            for z, lam, shift in zip(proposal.row_multipliers, most, proposal.shifts, strict=True)
        ]
        grid = proposal.grid
        return cls(
            resolution, grid.half, grid.window, tuple(proposal.shifts), tuple(most), tuple(rows)
        )

    def value(self, *, epsilon: Fraction, delta: Fraction, ball: str, loss: str) -> Fraction:
        """The bound for a ball of radius 1, proved on the way; an error where the proof fails."""
        if self.resolution < 1 or self.half < self.window + self.resolution or self.window < 0:
            fail("The lower bound needs a square that pads its window.", UndecidedError)
        if min(self.multipliers, default=0) < 0:
            fail("A multiplier of the lower bound is negative.", UndecidedError)
        allowed = set(lattice_shifts(ball, Fraction(self.resolution)))
        if len(set(self.shifts)) < len(self.shifts) or not set(self.shifts) <= allowed:
            fail("The lower bound uses a shift that is not in the ball.", UndecidedError)
        grid, factor = self._grid, exp_above(epsilon)
        own, met = self._totals()
        losses = grid.node_losses(loss)
        theta = node_loss(grid.outside, loss) + node_loss(0, loss)
        for o, size in enumerate(grid.sizes):
            gain = (int(own[o]) - factor * int(met[o])) / (_SCALE * int(size))
            theta = min(theta, losses[o] + gain)
        value = theta - delta * Fraction(sum(self.multipliers), _SCALE)
        power = 1 if loss == "l1" else 2
        return max(value / self.resolution**power, Fraction(0))

    @cached_property
    def _grid(self) -> PlanarGrid:
        return PlanarGrid(self.half, window=self.window)

    def _totals(self) -> tuple[Any, Any]:
        """Sums of the row multipliers by own and by met orbit, after the check of their range."""
        own = np.zeros(len(self._grid), dtype=object)
        met = np.zeros(len(self._grid), dtype=object)
        triples = zip(self.shifts, self.multipliers, self.row_multipliers, strict=True)
        for shift, most, given in triples:
            rows, z = self._grid.rows(shift), np.array(given, dtype=object)
            if len(z) != len(rows.own) or (z < 0).any() or (z > most * rows.times).any():
                fail("A multiplier of the lower bound is out of its range.", UndecidedError)
            np.add.at(own, rows.own, z)
            inside = rows.met >= 0
            np.add.at(met, rows.met[inside], z[inside])
        return own, met

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "resolution": self.resolution,
            "half": self.half,
            "window": self.window,
            "shifts": [list(shift) for shift in self.shifts],
            "multipliers": list(self.multipliers),
            "row_multipliers": [list(z) for z in self.row_multipliers],
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> PlanarBound:
        """The bound in a dictionary."""
        return cls(
            int(record["resolution"]),
            int(record["half"]),
            int(record["window"]),
            tuple((int(i), int(j)) for i, j in record["shifts"]),
            tuple(map(int, record["multipliers"])),
            tuple(tuple(map(int, z)) for z in record["row_multipliers"]),
        )


NO_BOUND = PlanarBound(1, 1, 0, (), (), ())
"""Proves that losses are at least 0."""
