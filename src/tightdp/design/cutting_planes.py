r"""Noise from one row for each pair of a shift and an event, for comparison.

This is the formulation of Selvi and others (2025).

Algorithm 1: solve with the rows known so far, look for the worst event of every shift, add the
violated ones, repeat. There are exponentially many events, so the extended program
(:class:`~tightdp.design.programs.ShiftProgram`) is the default; this one shows what it replaces.

The lower bound for non-uniform partitions (Corollary 1 of Selvi and others, 2025) is not offered:
it forces mass to be uniform in coarse cells, which restricts a minimisation. With :math:`\Delta =
\beta = 1`, epsilon 5, delta 0.05 and the partition (-40, -1, 0, 1, 40) it claims 0.188, and noise
of 0.081 exists.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from itertools import pairwise

import numpy as np

from tightdp.design.bounds import Upper, upper_bound
from tightdp.design.problem import NoiseProblem
from tightdp.design.programs import (
    NoiseSolution,
    OutOfTimeError,
    ShiftProgram,
    Solution,
    solve,
)
from tightdp.errors import FloatArray, fail

_STOP = 1e-8  # the excess at which [5] stops
_ADDED = 5  # events that join in a round, the most violated ones


class CutProgram(ShiftProgram):
    """The same program with a row for each violated event instead of slacks.

    When time is up the rows found so far are answered: a relaxation, hence still a lower bound; an
    upper bound is repaired afterwards like any other.
    """

    _events: list[tuple[int, FloatArray]]

    def solve(self, *, tolerance: float, deadline: float | None = None) -> NoiseSolution:
        """Algorithm 1 of Selvi and others (2025)."""
        k = self.lattice.shifts
        signs = (1,) if self.folded else (1, -1)
        shifts = [sign * m for m in range(1, k + 1) for sign in signs]
        low, high = (edge - self.lattice.first for edge in self.lattice.window)
        everything = np.zeros(self.lattice.size)
        everything[low:high] = 1.0
        self._events = [(m, everything) for m in shifts if abs(m) == k]
        allowed = max(tolerance * self.delta, _STOP)
        left = None  # the first relaxation is small, and always ends
        while True:
            try:
                answer = self._solve_events(left)
            except OutOfTimeError:
                return answer
            found = [(*self.worst_event(answer.masses, m), m) for m in shifts]
            excess = max(lost for lost, _, _ in found) + answer.atom - self.delta
            answer = NoiseSolution(**{**answer.__dict__, "excess": excess})
            left = None if deadline is None else deadline - time.monotonic()
            if excess <= allowed or (left is not None and left <= 0):
                return answer
            found.sort(key=lambda entry: -entry[0])
            self._events += [
                (m, event)
                for lost, event, m in found[:_ADDED]
                if lost + answer.atom - self.delta > allowed
            ]

    def worst_event(self, masses: FloatArray, shift: int) -> tuple[float, FloatArray]:
        """The largest shortfall of a shift, and its event (Algorithm 2 on the lattice)."""
        here, there, covered = self._pairs(shift)
        lost = masses[here].copy()
        lost[covered] -= self.factor * masses[there[covered]]
        event = np.zeros(self.lattice.size)
        event[here[lost > 0]] = 1.0
        return float(lost[lost > 0].sum()), event

    def _solve_events(self, seconds: float | None) -> NoiseSolution:
        from scipy import sparse

        rows = []
        for shift, event in self._events:
            there = np.zeros(self.lattice.size)
            at = np.flatnonzero(event)
            moved = at - shift
            inside = moved[(moved >= 0) & (moved < self.lattice.size)]
            there[inside] = 1.0
            rows.append(event - self.factor * there)
        matrix = sparse.csr_array(np.array(rows)) @ self._fold
        upper = np.full(len(rows), self.delta)
        cost, total = self._cost, self._mass
        if self._side is not None:
            matrix = sparse.vstack([matrix, self._side], format="csr")
            upper = np.concatenate([upper, self._side_upper])
        if self.has_atom:
            column = np.concatenate([np.ones(len(rows)), self._atom_rows])
            matrix = sparse.hstack([matrix, sparse.csr_array(column[:, None])], format="csr")
            cost, total = np.append(cost, self._atom_cost), np.append(total, 1.0)
        found = solve(
            cost, matrix, upper, equal=total[None, :], equal_to=np.ones(1), seconds=seconds
        )
        return self._answer_events(found)

    def _answer_events(self, found: Solution) -> NoiseSolution:
        prices: dict[int, tuple[float, FloatArray]] = {}
        for (shift, event), paid in zip(self._events, found.row_duals, strict=False):
            price, each = prices.get(shift, (0.0, np.zeros(self.lattice.size)))
            share = float(paid) * self._unit
            prices[shift] = (price + share, each + share * event)
        return NoiseSolution(
            masses=np.asarray(self._fold @ np.maximum(found.x[: self._count], 0.0)),
            atom=max(float(found.x[self._count]), 0.0) if self.has_atom else 0.0,
            value=found.value * self._unit,
            prices=prices,
            row_prices=found.row_duals[len(self._events) :] * self._unit,
            excess=0.0,
        )


def partition_bound(
    problem: NoiseProblem,
    edges: Sequence[int],
    *,
    cells: int,
    solver: type[ShiftProgram] = CutProgram,
    seconds: float | None = None,
) -> Upper:
    r"""The best noise that is uniform in each cell of a partition.

    Problem P(pi, beta) of Selvi and others (2025).

    Cell j is :math:`[\pi_j \beta, \pi_{j+1} \beta)`, :math:`\beta` = sensitivity/cells. A partition
    is a grid whose cells share their mass, so the verifier checks it like any other noise.

    Parameters
    ----------
    problem : NoiseProblem
    edges : increasing integers
        :math:`\pi`, from -L to L, with mirror images for a symmetric problem.
    cells : int

    Examples
    --------
    >>> problem = NoiseProblem.of(epsilon=5, delta=0.25)
    >>> coarse = partition_bound(problem, [-20, -10, -2, -1, 0, 1, 2, 10, 20], cells=10)
    >>> 0.06 < coarse.value < 0.12
    True
    """
    if any(a >= b for a, b in pairwise(edges)) or len(edges) < 2:
        fail("`edges` must increase.")
    if edges[0] != -edges[-1] or (problem.folded and [-e for e in edges[::-1]] != list(edges)):
        fail("`edges` must run from -L to L, and mirror each other for a symmetric problem.")
    owner = np.repeat(np.arange(len(edges) - 1), np.diff(np.asarray(edges)))
    if problem.folded:
        owner = np.minimum(owner, len(edges) - 2 - owner)
    return upper_bound(
        problem,
        cells=cells,
        reach=int(edges[-1]),
        centred=False,
        tolerance=1e-7,
        deadline=None if seconds is None else time.monotonic() + seconds,
        solver=solver,
        groups=owner,
    )
