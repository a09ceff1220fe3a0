"""The linear programs of noise for several entries: proposals for the noise and for its bound.

Both say ``p_own - exp(epsilon) p_met <= s`` for every row of a shift and ``sum of times * s <= S``.
The noise bounds S plus the atom at lattice points of the ball and, by interpolation, at points of
its boundary; the lower bound asks S <= delta at lattice points alone, with cells outside the window
that cost but are never tested. What comes out are floats, to be rounded and proved elsewhere.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.design.programs import Triplets, solve
from tightdp.design.vector_balls import Shift, lattice_shifts
from tightdp.design.vector_grid import Rows, VectorGrid
from tightdp.design.vector_samples import boundary_samples, multilinear
from tightdp.errors import FloatArray

_TOLERATED = 1e-5  # relative excess over delta that the share spared for proofs absorbs
_ENTERING = 10  # shifts that enter at once
_RISE = 2e-4  # relative rise of a lower bound that is worth another solve


class VectorProgram:
    """Columns: weight per cell of each orbit, the atom, S of each shift, s of each row."""

    def __init__(self, grid: VectorGrid, shifts: list[Shift], factor: float) -> None:
        self.grid, self.shifts = grid, shifts
        self.rows: list[Rows] = [grid.rows(shift) for shift in shifts]
        sizes = [len(rows.own) for rows in self.rows]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self._short = len(grid) + 1  # column of the first S
        self._first = self._short + len(shifts)  # column of the first s
        self._entries = Triplets()
        for k, rows in enumerate(self.rows):
            at = np.arange(self.starts[k], self.starts[k + 1])
            met = rows.met >= 0
            self._entries.add(at, rows.own, 1.0)
            self._entries.add(at[met], rows.met[met], -factor)
            self._entries.add(at, self._first + at, -1.0)
            sums = self.starts[-1] + k
            self._entries.add(sums, self._first + at, rows.times)
            self._entries.add(sums, self._short + k, -1.0)
        self._limits: list[dict[int, float]] = []

    def limit(self, point: dict[Shift, float]) -> None:
        """Ask that the atom and the interpolated shortfall stay below delta at a point."""
        place = {shift: k for k, shift in enumerate(self.shifts)}
        self._limits.append({place[s]: w for s, w in point.items() if any(s)})

    def solve(self, losses: list[Fraction], delta: float, *, atom: bool) -> Any:
        """The solution with cost ``losses`` per cell, in units of the cell."""
        first = int(self.starts[-1]) + len(self.shifts)
        for k, point in enumerate(self._limits):
            for shift, weight in point.items():
                self._entries.add(first + k, self._short + shift, weight)
            if atom:
                self._entries.add(first + k, len(self.grid), 1.0)
        shape = first + len(self._limits), self._first + int(self.starts[-1])
        upper = np.zeros(shape[0])
        upper[first:] = delta
        total = np.zeros((1, shape[1]))
        total[0, : len(self.grid)] = self.grid.sizes
        total[0, len(self.grid)] = float(atom)
        cost = np.zeros(shape[1])
        cost[: len(self.grid)] = [
            float(c) * n for c, n in zip(losses, self.grid.sizes, strict=True)
        ]
        cost[len(self.grid)] = 0.0 if atom else 1.0  # without an atom its column stays empty
        return solve(
            cost, self._entries.matrix(shape), upper, equal=total, equal_to=np.array([1.0])
        )


@dataclass(frozen=True)
class Noise:
    """A proposal: weight per cell of each orbit, and the atom."""

    grid: VectorGrid
    weights: FloatArray
    atom: float


def propose_noise(
    grid: VectorGrid, *, cells: int, ball: str, loss: str, factor: float, delta: float, samples: int
) -> Noise:
    """The best noise on a grid whose shortfall is <= delta at lattice and sampled points.

    It starts with the lattice points around the boundary; others enter when they are violated.
    """
    points = [multilinear(point) for point in boundary_samples(ball, cells, samples, grid.dim)]
    inner = lattice_shifts(ball, Fraction(cells), grid.dim)
    around = (s for point in points for s in point if any(s))
    active = list(dict.fromkeys([*around, *_outermost(inner)]))
    while True:
        program = VectorProgram(grid, active, factor)
        for shift in set(active) & set(inner):
            program.limit({shift: 1.0})
        for point in points:
            program.limit(point)
        found = program.solve(grid.mean_losses(loss), delta, atom=True)
        weights, atom = np.maximum(found.x[: len(grid)], 0.0), max(float(found.x[len(grid)]), 0.0)
        fresh = _violated(grid, weights, factor, delta - atom, set(inner) - set(active))
        if not fresh:
            return Noise(grid, weights, atom)
        active += fresh


def _outermost(shifts: list[Shift]) -> list[Shift]:
    """Lattice points whose neighbour along the first axis is not in the ball."""
    known = set(shifts)
    return [shift for shift in shifts if (shift[0] + 1, *shift[1:]) not in known]


def _violated(
    grid: VectorGrid, weights: FloatArray, factor: float, most: float, shifts: set[Shift]
) -> list[Shift]:
    """The worst of the shifts whose shortfall exceeds a bound."""
    short: dict[Shift, float] = {}
    for shift in sorted(shifts):
        rows = grid.rows(shift)
        met = np.where(rows.met >= 0, weights[rows.met], 0.0)
        lacks = np.maximum(weights[rows.own] - factor * met, 0.0)
        short[shift] = float(lacks @ rows.times)
    worst = sorted(short, key=lambda shift: -short[shift])
    return [shift for shift in worst if short[shift] > most * (1 + _TOLERATED)][:_ENTERING]


@dataclass(frozen=True)
class Bound:
    """A proposal: for every shift a multiplier and one for each of its rows."""

    grid: VectorGrid
    shifts: list[Shift]
    multipliers: FloatArray
    row_multipliers: list[FloatArray]


def propose_bound(
    grid: VectorGrid, *, cells: int, ball: str, loss: str, factor: float, delta: float
) -> Bound:
    """Multipliers of the lattice problem: the best noise for an integer query.

    Any set of shifts gives a bound, so shifts enter only as long as they raise it.
    """
    inner = lattice_shifts(ball, Fraction(cells), grid.dim)
    active, before = _outermost(inner), -1.0
    while True:
        program = VectorProgram(grid, active, factor)
        for shift in active:
            program.limit({shift: 1.0})
        found = program.solve(grid.node_losses(loss), delta, atom=False)
        weights = np.maximum(found.x[: len(grid)], 0.0)
        fresh = _violated(grid, weights, factor, delta, set(inner) - set(active))
        if not fresh or found.value < before * (1 + _RISE):
            break
        active, before = active + fresh, found.value
    ends = int(program.starts[-1])
    pieces = [
        found.row_duals[program.starts[k] : program.starts[k + 1]] for k in range(len(active))
    ]
    return Bound(grid, active, found.row_duals[ends : ends + len(active)], pieces)
