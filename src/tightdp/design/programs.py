"""The only door of the designs to a linear-program solver.

A solver's answer is a proposal: nothing that leaves this module is believed before the certificates
have checked it in integers.
"""

from __future__ import annotations

import math
import time
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import FloatArray, UndecidedError, fail

TOLERANCE = 1e-10  # the least that the solver takes
_FIRST = 8  # shifts that a program starts with, evenly spread
_ADDED = 6  # shifts that join in a round
_IDLE = 0.01  # a shift that loses so much less than delta, in shares of it, leaves the program
_SLACK_RANGE = 1e6  # a slack whose share of delta would be larger is left out

_TIGHT = {
    "primal_feasibility_tolerance": TOLERANCE,
    "dual_feasibility_tolerance": TOLERANCE,
}


class InfeasibleError(UndecidedError):
    """No point meets all constraints of a linear program."""


class OutOfTimeError(UndecidedError):
    """The time limit came before the optimum."""


@dataclass(frozen=True)
class Solution:
    r"""An optimal point of ``min cost.x, matrix x <= upper, equal x = equal_to, x >= lower``.

    The multipliers :math:`y \ge 0` of the rows and z of the equations satisfy, up to the solver's
    tolerance and for lower = 0, :math:`c + A^T y - E^T z \ge 0` and value :math:`= z.f - y.b`.
    """

    x: FloatArray
    value: float
    row_duals: FloatArray
    equal_duals: FloatArray


def solve(
    cost: FloatArray,
    matrix: object,
    upper: FloatArray,
    *,
    equal: object = None,
    equal_to: FloatArray | None = None,
    lower: object = 0.0,
    interior: bool = False,
    seconds: float | None = None,
) -> Solution:
    """Solve a linear program with sparse or dense rows.

    Parameters
    ----------
    cost : array, shape (n,)
    matrix, upper : array or sparse matrix, shape (rows, n), and array, shape (rows,)
        ``matrix @ x <= upper``.
    equal, equal_to
        ``equal @ x = equal_to``.
    lower : float or array
        Least value of each variable; -inf for free ones.
    interior : bool
        Interior point with crossover instead of the simplex method: for large programs.
    seconds : float, optional
        Time limit; :class:`OutOfTimeError` when it comes first.

    Examples
    --------
    >>> found = solve(np.array([1.0, 2.0]), np.array([[-1.0, -1.0]]), np.array([-1.0]))
    >>> found.value, found.x.tolist(), found.row_duals.tolist()
    (1.0, [1.0, 0.0], [1.0])
    """
    begun = time.monotonic()
    from scipy.optimize import linprog

    least = np.broadcast_to(np.asarray(lower, dtype=np.float64), (len(cost),))
    bounds = np.column_stack([least, np.full(len(cost), np.inf)])
    ways = ["highs-ipm" if interior else "highs-ds", "highs", "highs-ipm"]
    for way, tight in [*((way, _TIGHT) for way in ways), ("highs-ds", {})]:
        left = None if seconds is None else seconds - (time.monotonic() - begun)
        if left is not None and left <= 0:
            fail(f"The program was not solved within {seconds:g} seconds.", OutOfTimeError)
        limit = {} if left is None else {"time_limit": left}
        found = linprog(
            cost,
            A_ub=matrix,
            b_ub=upper,
            A_eq=equal,
            b_eq=equal_to,
            bounds=bounds,
            method=way,
            options={**limit, **tight},
        )
        if found.status != 4:  # numerical trouble: another way
            break
    if found.status == 2:
        fail("No point meets all constraints of the program.", InfeasibleError)
    if found.status == 1 and seconds is not None:
        fail(f"The program was not solved within {seconds:g} seconds.", OutOfTimeError)
    if found.status != 0 or not math.isfinite(found.fun):
        fail(f"The solver stopped without an answer ({found.message}).", UndecidedError)
    return Solution(
        x=np.asarray(found.x, dtype=np.float64),
        value=float(found.fun),
        row_duals=np.maximum(-np.asarray(found.ineqlin.marginals, dtype=np.float64), 0.0),
        equal_duals=np.asarray(found.eqlin.marginals, dtype=np.float64),
    )


class Triplets:
    """A sparse matrix under construction: rows, columns and values, one broadcast to the others."""

    def __init__(self) -> None:
        self._parts: list[tuple[Any, Any, Any]] = []

    def add(self, rows: ArrayLike, columns: ArrayLike, values: ArrayLike) -> None:
        """Entries; several at one place add up."""
        numbers = np.atleast_1d(np.asarray(values, dtype=np.float64))
        parts = np.broadcast_arrays(np.atleast_1d(rows), np.atleast_1d(columns), numbers)
        self._parts.append((parts[0], parts[1], parts[2]))

    def matrix(self, shape: tuple[int, int]) -> Any:
        """The matrix of all entries."""
        from scipy.sparse import csr_matrix

        rows, columns, values = (np.concatenate(part) for part in zip(*self._parts, strict=True))
        return csr_matrix((values, (rows, columns)), shape=shape)


# --- the program of a noise -----------------------------------------------------------------------


@dataclass(frozen=True)
class Lattice:
    """Positions first..last-1, tested in ``window``; i and ``mirror`` - i are mirror images.

    Attributes
    ----------
    first, last : int
    window : (int, int)
        Events are made of positions in this range.
    mirror : int
        0 when a position lies at zero (a lattice, or cells centred on it), -1 when an edge does.
    shifts : int
        The sensitivity in steps, k.
    """

    first: int
    last: int
    window: tuple[int, int]
    mirror: int
    shifts: int

    @property
    def size(self) -> int:
        """Number of positions."""
        return self.last - self.first


@dataclass(frozen=True)
class NoiseSolution:
    """Masses at the positions, the atom, the value, and the multipliers.

    ``prices[m]`` is the multiplier of "the shortfall of shift m is at most delta" and the array of
    the multipliers of its rows, one for each position. ``excess`` is the largest shortfall over all
    shifts, minus delta.
    """

    masses: FloatArray
    atom: float
    value: float
    prices: dict[int, tuple[float, FloatArray]]
    row_prices: FloatArray
    excess: float


class ShiftProgram:
    r"""The exact program of (epsilon, delta)-private masses on a lattice.

    .. math:: \min\; c.p + c_0 a \quad\text{s.t.}\quad
              a + \sum_{i \in W} (p_i - e^\epsilon p_{i-m})_+ \le \delta, \; m = 1..k

    with a slack for each positive part. Shifts join when they are violated, first with the rows at
    which mass falls away from the centre, then with all. Those that turn out slack leave it, once:
    30 % less time at 400 cells; all shifts are looked at before an answer is given, and again
    by the verifier. Any subset gives a valid lower bound.
    Symmetric programs are folded: one variable for i and its mirror image.

    Parameters
    ----------
    lattice : Lattice
    factor, delta : float
        e**epsilon and delta; delta = 0 asks for :math:`p_i \le e^\epsilon p_{i-m}`.
    cost : array, one entry for each position
    atom_cost : float, optional
        Cost of an atom at zero; none without it.
    rows, upper : array, shape (r, positions), and array, shape (r,)
        Side constraints ``rows @ p <= upper``; the atom takes part by ``atom_rows``.
    folded : bool
    scale : array, optional
        The size that masses are expected to have: variables and rows are counted in it, which
        keeps small masses accurate. Multipliers are accurate without it.
    groups : array of int, optional
        Positions of one number share their mass evenly: a partition coarser than the lattice.
    """

    def __init__(
        self,
        lattice: Lattice,
        *,
        factor: float,
        delta: float,
        cost: FloatArray,
        folded: bool,
        atom_cost: float | None = None,
        rows: object = None,
        upper: FloatArray | None = None,
        atom_rows: FloatArray | None = None,
        scale: FloatArray | None = None,
        groups: object = None,
    ) -> None:
        from scipy import sparse

        self.lattice, self.factor, self.delta = lattice, factor, delta
        self.folded, self.has_atom = folded, atom_cost is not None
        at = np.arange(lattice.first, lattice.last)
        self._variable = np.maximum(at, lattice.mirror - at) if folded else at - lattice.first
        if groups is not None:
            self._variable = np.asarray(groups)
        self._count = int(self._variable.max()) + 1
        self._scale = np.ones(lattice.size) if scale is None else scale
        self._whole = 1.0 if scale is None else delta  # what the sum of a shift is counted in
        self._fold = sparse.csr_array(
            (self._scale, (np.arange(lattice.size), self._variable)),
            shape=(lattice.size, self._count),
        )
        self._mass = np.asarray(self._fold.T @ np.ones(lattice.size))
        self._unit = float(np.abs(cost).max()) or 1.0
        self._cost = np.asarray(self._fold.T @ cost) / self._unit
        self._atom_cost = 0.0 if atom_cost is None else atom_cost / self._unit
        self._side = None if rows is None else sparse.csr_array(rows) @ self._fold
        self._side_upper = np.zeros(0) if upper is None else upper
        self._atom_rows = np.zeros(len(self._side_upper)) if atom_rows is None else atom_rows

    # --- solving ------------------------------------------------------------------------------

    def solve(self, *, tolerance: float, deadline: float | None = None) -> NoiseSolution:
        """The optimum, every shift met up to ``tolerance * delta`` (absolute for delta = 0)."""
        k = self.lattice.shifts
        signs = (1,) if self.folded else (1, -1)
        narrow = self._narrow()
        first = k if narrow else _FIRST
        active = {
            sign * max(1, round(k * part / first)): narrow
            for part in range(1, first + 1)
            for sign in signs
        }
        allowed = tolerance * (self.delta or 1.0)
        left_once: set[int] = set()
        while True:
            left = None if deadline is None else deadline - time.monotonic()
            answer = self._solve(active, left)
            excess = {
                m: self.shortfall(answer.masses, m) + answer.atom - self.delta
                for size in range(1, k + 1)
                for m in (size * sign for sign in signs)
            }
            answer = NoiseSolution(**{**answer.__dict__, "excess": max(excess.values())})
            violated = sorted((m for m in excess if excess[m] > allowed), key=lambda m: -excess[m])
            fresh = [m for m in violated if m not in active][:_ADDED]
            halves = [m for m in violated if active.get(m) is False]
            if not fresh and not halves:  # what is left is the solver's own tolerance
                return answer
            idle = [m for m in active if self.delta and excess[m] < -_IDLE * self.delta]
            idle = [] if narrow else idle
            for m in set(idle) - left_once:  # once only, so that the rounds end
                del active[m]
            left_once.update(idle)
            active |= dict.fromkeys(fresh, False) | dict.fromkeys(halves, True)

    def _narrow(self) -> bool:
        """Whether events span so little of a sensitivity that all shifts may take part at once."""
        low, high = self.lattice.window
        return 2 * (high - low) < self.lattice.shifts

    def most_private(self, deadline: float | None = None) -> tuple[FloatArray, float]:
        """Masses and atom that meet everything with room to spare, as much as there is."""
        delta, upper = self.delta, self._side_upper
        try:
            for halvings in range(1, 16):
                room = 0.5**halvings
                self.delta = delta * (1 - room)
                self._side_upper = upper - room / 8 * np.abs(upper)
                try:
                    answer = self.solve(tolerance=1e-6, deadline=deadline)
                except InfeasibleError:
                    continue
                return answer.masses, answer.atom
        finally:
            self.delta, self._side_upper = delta, upper
        fail("The side constraints leave no room for rounding.", InfeasibleError)

    def shortfall(self, masses: FloatArray, shift: int) -> float:
        """The sum of (p_i - factor p_{i-shift})_+ over the window."""
        here, there, covered = self._pairs(shift)
        lost = masses[here].copy()
        lost[covered] -= self.factor * masses[there[covered]]
        return float(np.maximum(lost, 0.0).sum())

    def _pairs(self, shift: int) -> tuple[Any, Any, Any]:
        """Indices of i in the window, of i - shift, and whether the latter is a position."""
        low, high = (edge - self.lattice.first for edge in self.lattice.window)
        here = np.arange(low, high)
        there = here - shift
        return here, there, (there >= 0) & (there < self.lattice.size)

    def _solve(self, active: dict[int, bool], seconds: float | None) -> NoiseSolution:
        from scipy import sparse

        parts = _Parts(columns=self._count + self.has_atom)
        places = {m: self._add_shift(parts, m, whole) for m, whole in active.items()}
        shape = (parts.rows, parts.columns)
        matrix = sparse.csr_array(
            (
                np.concatenate(parts.values),
                (np.concatenate(parts.row_index), np.concatenate(parts.column_index)),
            ),
            shape=shape,
        )
        upper = np.array(parts.upper)
        cost, total = np.zeros(parts.columns), np.zeros((1, parts.columns))
        cost[: self._count], total[0, : self._count] = self._cost, self._mass
        if self.has_atom:
            cost[self._count], total[0, self._count] = self._atom_cost, 1.0
        if self._side is not None:
            blocks = [self._side]
            if self.has_atom:
                blocks.append(sparse.csr_array(self._atom_rows[:, None]))
            spare = parts.columns - self._count - self.has_atom
            blocks.append(sparse.csr_array((len(self._side_upper), spare)))
            matrix = sparse.vstack([matrix, sparse.hstack(blocks)], format="csr")
            upper = np.concatenate([upper, self._side_upper])
        found = solve(cost, matrix, upper, equal=total, equal_to=np.ones(1), seconds=seconds)
        return self._answer(found, places, parts.rows)

    def _add_shift(self, parts: _Parts, shift: int, whole: bool) -> _Place:
        here, there, covered = self._pairs(shift)
        alone, i, j = here[~covered], here[covered], there[covered]
        keep = self._variable[i] != self._variable[j]
        if not whole:
            middle = self.lattice.mirror - 2 * self.lattice.first
            keep &= np.abs(2 * i - middle) < np.abs(2 * j - middle)
        i, j = i[keep], j[keep]
        if self.delta == 0:
            parts.add_rows(self._variable[alone], None, None, np.zeros(len(alone)))
            start = parts.add_rows(
                self._variable[i],
                self._variable[j],
                -self.factor * self._scale[j] / self._scale[i],
                np.zeros(len(i)),
            )
            return _Place(-1, alone, start - len(alone), i, start)
        top = parts.add_rows(None, None, None, np.array([self.delta / self._whole]))
        parts.put(top, self._variable[alone], self._scale[alone] / self._whole)
        if self.has_atom:
            parts.put(top, np.array([self._count]), np.array([1 / self._whole]))
        ratio = -self.factor * self._scale[j] / self._scale[i]
        start = parts.add_rows(self._variable[i], self._variable[j], ratio, np.zeros(len(i)))
        share = self._scale[i] / self._whole
        loose = np.flatnonzero(share <= _SLACK_RANGE)
        slack = parts.columns + np.arange(len(loose))
        parts.columns += len(loose)
        parts.put(start + loose, slack, np.full(len(loose), -1.0))
        parts.put(top, slack, share[loose])
        return _Place(top, alone, -1, i, start)

    def _answer(self, found: Solution, places: dict[int, _Place], rows: int) -> NoiseSolution:
        masses = np.asarray(self._fold @ np.maximum(found.x[: self._count], 0.0))
        prices = {}
        for shift, at in places.items():
            each = np.zeros(self.lattice.size)
            paid = found.row_duals[at.start : at.start + len(at.rows)]
            each[at.rows] = paid / self._scale[at.rows]
            if self.delta == 0:
                lonely = found.row_duals[at.alone_start : at.alone_start + len(at.alone)]
                each[at.alone] = lonely / self._scale[at.alone]
                price = float(each.max(initial=0.0))
            else:
                price = float(found.row_duals[at.top]) / self._whole
                each[at.alone] = price
            prices[shift] = (price * self._unit, each * self._unit)
        return NoiseSolution(
            masses=masses,
            atom=max(float(found.x[self._count]), 0.0) if self.has_atom else 0.0,
            value=found.value * self._unit,
            prices=prices,
            row_prices=found.row_duals[rows:] * self._unit,
            excess=0.0,
        )


@dataclass(frozen=True)
class _Place:
    """Where a shift sits among the rows: its sum, the uncovered positions, the covered ones."""

    top: int
    alone: Any
    alone_start: int
    rows: Any
    start: int


class _Parts:
    """A sparse matrix under construction."""

    def __init__(self, columns: int) -> None:
        self.rows, self.columns = 0, columns
        self.row_index: list[Any] = []
        self.column_index: list[Any] = []
        self.values: list[Any] = []
        self.upper: list[float] = []

    def put(self, row: Any, column: Any, value: object) -> None:
        """Entries; a single row is repeated."""
        self.row_index.append(np.broadcast_to(row, column.shape))
        self.column_index.append(column)
        self.values.append(value)

    def add_rows(self, first: object, second: object, value: object, upper: FloatArray) -> int:
        """Rows x[first] + value x[second] <= upper; the number of the first one."""
        start = self.rows
        self.rows += len(upper)
        self.upper.extend(upper.tolist())
        each = np.arange(start, self.rows)
        if first is not None:
            self.put(each, first, np.ones(len(each)))
        if second is not None:
            self.put(each, second, value)
        return start
