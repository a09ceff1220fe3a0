"""The linear programs of noise for several entries: proposals for the noise and for its bound.

Both say ``p_own - exp(epsilon) p_met <= s`` for every row of a shift and ``sum of times * s <= S``.
The noise bounds S plus the atom at lattice points of the ball and, by interpolation, at points of
its boundary; the lower bound asks S <= delta at lattice points alone, with cells outside the window
that cost but are never tested. What comes out are floats, to be rounded and proved elsewhere.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from tightdp.design.programs import Solution, Triplets, solve
from tightdp.design.vector_balls import Shift, lattice_shifts
from tightdp.design.vector_grid import Indices, Rows, VectorGrid
from tightdp.design.vector_rows import HeldRows
from tightdp.design.vector_samples import boundary_samples, multilinear
from tightdp.errors import FloatArray

_TOLERATED = 1e-5  # relative excess over delta that the share spared for proofs absorbs
_ENTERING, _RAISING = 60, 30  # shifts of which rows enter at once, for a noise and for a bound
_SMALL = 700  # orbits of a grid of which all rows of the first shifts are held
_NEAR, _LEAST_NEAR = 0.5, 4.0  # on a larger one: rows of cells within so many radii, or cells
_TIGHT = 0.9  # rows that a noise nearly as good needs: at least this share of what is allowed
_SHARE = 0.9  # of what falls short unheld, for a lower bound
_RISE = 2e-4  # relative rise of a lower bound that is worth another solve
_CLOSE = 1.5  # shortfalls, in deltas, of a solution that tells what a bound is worth


class VectorProgram:
    """Columns: weight per cell of each orbit, the atom, S of each shift, s of each held row."""

    def __init__(self, held: HeldRows) -> None:
        self.grid, self.shifts = held.grid, held.shifts
        self.rows: list[Rows] = [held.of(shift) for shift in self.shifts]
        sizes = [len(rows.own) for rows in self.rows]
        self.starts = np.concatenate([[0], np.cumsum(sizes)]).astype(int)
        self._place = {shift: k for k, shift in enumerate(self.shifts)}
        self._short = len(self.grid) + 1  # column of the first S
        self._first = self._short + len(self.shifts)  # column of the first s
        self._entries = Triplets()
        for k, rows in enumerate(self.rows):
            at = np.arange(self.starts[k], self.starts[k + 1])
            met = rows.met >= 0
            self._entries.add(at, rows.own, 1.0)
            self._entries.add(at[met], rows.met[met], -held.factor)
            self._entries.add(at, self._first + at, -1.0)
            sums = self.starts[-1] + k
            self._entries.add(sums, self._first + at, rows.times)
            self._entries.add(sums, self._short + k, -1.0)
        self._limits: list[dict[int, float]] = []

    def duals(self, found: Solution) -> list[FloatArray]:
        """The multipliers of the rows of each shift."""
        ends = self.starts[1:]
        return [found.row_duals[a:b] for a, b in zip(self.starts[:-1], ends, strict=True)]

    def limit(self, point: dict[Shift, float]) -> None:
        """Ask that the atom and the interpolated shortfall stay below delta at a point."""
        self._limits.append({self._place[s]: w for s, w in point.items() if s in self._place})

    def solve(self, losses: list[Fraction], delta: float, *, atom: bool) -> Solution:
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


class Wish(NamedTuple):
    """Little loss for changes in a ball, with odds ``factor`` and delta at the points sampled."""

    ball: str
    loss: str
    factor: float
    delta: float
    samples: int


def propose_noise(
    grid: VectorGrid,
    cells: int,
    wish: Wish,
    *,
    start: FloatArray | None = None,
    tolerated: float = _TOLERATED,
) -> Noise:
    """The best noise on a grid whose shortfall is <= delta at lattice and sampled points.

    Rows enter when they are broken. The first are those that ``start``, weights of a noise that is
    nearly as good, needs; without it those of the lattice points around the boundary.
    ``tolerated`` is the excess over delta, relative, that is left.
    """
    ball, loss, factor, delta, samples = wish
    sampled = (multilinear(point) for point in boundary_samples(ball, cells, samples, grid.dim))
    inner = lattice_shifts(ball, Fraction(cells), grid.dim)
    limits = [{s: w for s, w in point.items() if any(s)} for point in sampled]
    around = [shift for point in limits for shift in point]
    limits += [{shift: 1.0} for shift in inner]
    held = HeldRows(grid, factor)
    if start is None:
        _hold_first(held, dict.fromkeys([*around, *_outermost(inner)]), cells)
    else:
        _hold_needed(held, around, inner, start)
    while True:
        program = VectorProgram(held)
        for point in limits:
            program.limit(point)
        found = program.solve(grid.mean_losses(loss), delta, atom=True)
        weights, atom = np.maximum(found.x[: len(grid)], 0.0), max(float(found.x[len(grid)]), 0.0)
        lacks = {s: held.lacks(s, weights) for s in dict.fromkeys([*around, *inner])}
        short = {shift: float(lack.sum()) for shift, lack in lacks.items()}
        most = delta * (1 + tolerated) - atom
        worst = sorted(
            ((sum(w * short[s] for s, w in at.items()), k) for k, at in enumerate(limits)),
            reverse=True,
        )
        broken = [s for value, k in worst if value > most for s in limits[k]]
        if start is not None:
            for shift, duals in zip(program.shifts, program.duals(found), strict=True):
                held.drop_idle(shift, weights, duals)
        fresh = sum(held.take(s, lacks[s]) for s in list(dict.fromkeys(broken))[:_ENTERING])
        if not fresh:
            return Noise(grid, grid.spread(weights), atom)


def _hold_needed(
    held: HeldRows, around: Iterable[Shift], inner: list[Shift], start: FloatArray
) -> None:
    """The rows that a known noise needs: around the boundary, and where it falls most short."""
    short = {shift: float(held.lacks(shift, start).sum()) for shift in inner}
    least = _TIGHT * max(short.values())
    for shift in dict.fromkeys([*around, *(s for s in inner if short[s] >= least)]):
        held.take_tight(shift, start, _TIGHT)


def _outermost(shifts: list[Shift]) -> list[Shift]:
    """Lattice points whose neighbour along the first axis is not in the ball."""
    known = set(shifts)
    return [shift for shift in shifts if (shift[0] + 1, *shift[1:]) not in known]


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

    Any set of rows gives a bound, so rows enter only as long as they raise it.
    """
    inner = lattice_shifts(ball, Fraction(cells), grid.dim)
    held, before = HeldRows(grid, factor), -1.0
    _hold_first(held, _outermost(inner), cells)
    while True:
        program = VectorProgram(held)
        for shift in program.shifts:
            program.limit({shift: 1.0})
        found = program.solve(grid.node_losses(loss), delta, atom=False)
        weights = np.maximum(found.x[: len(grid)], 0.0)
        lacks = {shift: held.lacks(shift, weights) for shift in inner}
        short = {shift: float(lack.sum()) for shift, lack in lacks.items()}
        broken = sorted(
            (s for s in inner if short[s] > delta * (1 + _TOLERATED)), key=lambda s: -short[s]
        )
        where = [held.places(shift) for shift in program.shifts]
        pieces = program.duals(found)
        for shift, duals in zip(program.shifts, pieces, strict=True):
            held.drop_idle(shift, weights, duals)
        fresh = sum(held.take(s, lacks[s], _SHARE) for s in broken[:_RAISING])
        near = max(short.values()) <= _CLOSE * delta  # else the program knows too few rows
        if not fresh or (near and found.value < before * (1 + _RISE)):
            break
        before = found.value
    ends = int(program.starts[-1])
    prices = found.row_duals[ends : ends + len(where)]
    rows = [
        _filled(held.all_of(s), at, z)
        for s, at, z in zip(program.shifts, where, pieces, strict=True)
    ]
    return Bound(grid, program.shifts, prices, rows)


def _filled(rows: Rows, places: Indices, duals: FloatArray) -> FloatArray:
    """The multipliers of all rows of a shift: 0 for those that were not held."""
    every = np.zeros(len(rows.own))
    every[places] = duals
    return every


def _hold_first(held: HeldRows, shifts: Iterable[Shift], cells: int) -> None:
    """All rows of some shifts on a small grid, those of the inner cells on a large one."""
    for shift in shifts:
        held.take_near(
            shift, math.inf if len(held.grid) <= _SMALL else max(_NEAR * cells, _LEAST_NEAR)
        )
