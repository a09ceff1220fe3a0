"""The search for a grid on which the two sides of the sandwich meet."""

from __future__ import annotations

import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any, TypeVar

from tightdp.design.bounds import (
    Lower,
    Upper,
    lower_bound,
    statement,
    upper_bound,
)
from tightdp.design.certificate import Certificate, relative_gap
from tightdp.design.closed_forms import LISTED, SLOW, noise_at_once
from tightdp.design.cutting_planes import partition_bound
from tightdp.design.known_bounds import bound_at_once, core_bound, core_cells
from tightdp.design.losses import CallableLoss
from tightdp.design.problem import NoiseProblem, degree_near_zero
from tightdp.design.programs import InfeasibleError, OutOfTimeError, ShiftProgram
from tightdp.design.staircase import staircase
from tightdp.errors import UndecidedError, fail

B = TypeVar("B", Lower, Upper)

_MOST_CELLS = 20_000
_MOST_ROUNDS = 12
_REMEDY = "Give a wider support, a larger bound or a larger delta."
_WIDE = 128  # sensitivities on each side from which a step of the proof stands for many of them
_STEEP = 4  # the epsilon from which nearly all mass lies in a narrow core
_MOST_STEEP = 1500  # cells of a program that knows all of the core
_GIVEN_UP = 64  # and cells for the core bound from which programs for the whole law are hopeless
_TABLE_SECONDS, _SHORT_TABLE = 3.0, 4000  # for a function in many cells; cells if there is less
_LONG = 30.0  # seconds that leave time for the longer proofs
_FEW = 1000  # nodes whose proof takes no time to speak of
_NODE_SECONDS = 3e-4  # what the costs and the proof take for a node, about
_NODES = 100  # of the first coarse proof, on each side
_EDGE = 0.01  # a larger share of delta in the outermost cells asks for a wider support


@dataclass(frozen=True)
class Searched:
    """A certificate, and whether the gap that was asked for is met."""

    certificate: Certificate
    met: bool


class Search:
    """The state of a search: what is asked, what is proved so far, how much time is left."""

    def __init__(
        self,
        problem: NoiseProblem,
        *,
        gap: float,
        cells: int | None,
        deadline: float | None,
        progress: bool,
        solver: type[ShiftProgram] = ShiftProgram,
        partition: Sequence[Fraction] | None = None,
    ) -> None:
        self.problem, self.gap, self.cells, self.solver = problem, gap, cells, solver
        self.partition = partition
        self.deadline, self.progress = deadline, progress
        self.upper: Upper | None = None
        self.lower: Lower | None = None
        self.reach_units = support_units(problem)
        self.widening = 1.0 if problem.epsilon >= Fraction(1, 2) else 2.3
        rises = problem.loss.degree is not None or problem.loss.near() == 0  # from zero on
        self.steep = problem.epsilon >= _STEEP and rises and not problem.integer
        self.wide_enough = False
        self.centred = problem.delta > Fraction(1, 4)

    # --- the ways -----------------------------------------------------------------------------

    def run(self) -> Searched:
        """Bounds on finer and finer grids until they meet, or time is up."""
        if self.partition is not None:
            return self._given_partition(self.partition)
        if self.problem.delta == 0:
            return self._pure()
        if self._corner() or self.deadline is not None:
            self._at_once()
        if self.problem.integer:
            return self._integers()
        if self.cells is not None:
            return self._given_cells(self.cells)
        if self._corner():
            self._refine_corner()
        if self._gap() <= self.gap or self._hopeless():
            return self._found()
        return self._refine(self._first_cells(), self._round, self._finer)

    def _corner(self) -> bool:
        """Whether known laws are all but optimal, and the lower bound is what takes the work."""
        plain = self.problem.plain and self.cells is None and self.solver is ShiftProgram
        return plain and (self.steep or self.reach_units > _WIDE)

    def _hopeless(self) -> bool:
        """Whether a program for the whole law would be too large to help."""
        fine = self.steep and core_cells(self.problem) > _GIVEN_UP
        return (fine and self._corner()) or 2 * self.reach_units > _MOST_CELLS

    def _at_once(self) -> None:
        """Bounds on both sides without a program, so that there is an answer at any time."""
        slow = isinstance(self.problem.loss, CallableLoss) and self._left() < _TABLE_SECONDS
        most = _SHORT_TABLE if slow else LISTED
        self.upper = noise_at_once(self.problem, most_listed=most)
        self.lower = bound_at_once(self.problem)

    def _refine_corner(self) -> None:
        """Better lower bounds only, on grids made for the corner."""
        if self.reach_units > _WIDE:
            self._coarse()
        elif self.steep:
            whole, self.widening = self.widening, self._core() / self.reach_units
            self._steeper()
            self.widening = whole

    def _steeper(self) -> None:
        """The core bound at its best, then programs that know more of the core, while they help."""
        if self._left() > _LONG:
            self._keep_upper(noise_at_once(self.problem, SLOW))
        cells = core_cells(self.problem)
        if self._left() > 2 * cells * _NODE_SECONDS:
            self._keep(core_bound(self.problem, cells))
        degree = degree_near_zero(self.problem)
        for times in (1, 2, 3) if degree < 1.5 else (2, 4, 8):
            cells = math.ceil(times * (1 + math.exp(self.problem.epsilon / (degree + 1))))
            if cells > _MOST_STEEP or self._gap() <= self.gap or self._late():
                return
            before = self.lower
            if not self._tried(self._improve_lower, cells):
                return
            if times > 2 and before is self.lower:
                return

    def _coarse(self) -> None:
        """Steps of many sensitivities, finer until the bounds meet or a step is one of them."""
        group = math.ceil(self.reach_units / _NODES)
        while self._gap() > self.gap and group > 1 and not self._late():
            if not self._tried(self._group_bound, group):
                break
            group //= 3

    def _group_bound(self, group: int) -> None:
        window = math.ceil(2.3 * self.reach_units / group)
        begun = time.monotonic()
        found = self._solve(lower_bound, self.gap / 100, cells=1, window=window, group=group)
        self._say("lower", f"steps of {group} sensitivities", float(found.value), begun)
        self._keep(found)

    def _tried(self, step: Callable[[int], None], cells: int) -> bool:
        """Whether a step ended; one that is out of time proves nothing."""
        try:
            step(cells)
        except OutOfTimeError:
            return False
        return True

    def _refine(
        self, cells: int, step: Callable[[int], None], finer: Callable[[int, float], int | None]
    ) -> Searched:
        """Take a step on grids that ``finer`` tells, until the bounds meet or time is up."""
        for _ in range(_MOST_ROUNDS):
            if not self._tried(step, cells):
                break
            now = self._gap()
            more = None if now <= self.gap or self._late() else finer(cells, now)
            if more is None:
                break
            cells = more
        return self._found()

    def _finer(self, cells: int, now: float) -> int | None:
        growth = math.sqrt(min(now, 10.0) / self.gap) * 1.1
        more = self._aligned(math.ceil(cells * min(max(growth, 1.25), 3.0)))
        return None if 2 * more * self.reach_units > _MOST_CELLS else more

    def _given_cells(self, count: int) -> Searched:
        """One grid; with a time limit there is a law that is known to fall back on."""
        known, self.upper = self.upper, None
        ended = self._tried(self._round, self._first_cells())
        self.upper = self.upper or known
        found = self._found()
        return found if ended else Searched(found.certificate, False)

    def _given_partition(self, edges: Sequence[Fraction]) -> Searched:
        """Noise that is uniform between given edges; the lower bound is that of all noise."""
        cells = math.lcm(*(edge.denominator for edge in edges))
        left = None if self.deadline is None else self.deadline - time.monotonic()
        whole = [int(edge * cells) for edge in edges]
        try:
            self.upper = partition_bound(
                self.problem, whole, cells=cells, solver=self.solver, seconds=left
            )
        except InfeasibleError:
            fail("`partition` must be wider or finer: no private noise is uniform on its cells.")
        self._improve_lower(cells)
        return self._found()

    def _round(self, cells: int) -> None:
        self._improve_lower(cells)
        first = self.upper is None
        for centred in (self.centred, not self.centred):
            if self._gap() <= self.gap:
                return
            before = self.upper
            self._improve_upper(cells, centred)
            if self.upper is not before:
                self.centred = centred
            if not first:  # the layout that was better on the first grid is kept
                return

    def _integers(self) -> Searched:
        """No grid to refine: only the window and the support grow."""
        cells = int(self.problem.sensitivity)
        if self._corner() and self.reach_units > _WIDE:
            self._coarse()
        for _ in range(_MOST_ROUNDS):
            if not self._tried(self._both, cells):
                break
            if self._gap() <= self.gap or self._late() or self.problem.support is not None:
                break
            self.widening, self.reach_units = self.widening * 1.5, self.reach_units * 1.25
            if 2 * cells * self.reach_units > _MOST_CELLS:
                break
        return self._found()

    def _both(self, cells: int) -> None:
        self._improve_lower(cells)
        self._improve_upper(cells, centred=True)

    def _pure(self) -> Searched:
        """delta = 0: the staircase is the best, its core is searched; the lattice proves it."""
        self.upper, self.lower = staircase(self.problem), bound_at_once(self.problem)
        if self._corner():
            self._refine_corner()
            if self._gap() <= self.gap or self._late() or self._hopeless():
                return self._found()
        cells = int(self.problem.sensitivity) if self.problem.integer else self._first_cells()
        return self._refine(cells, self._improve_lower, self._finer_or_wider)

    def _finer_or_wider(self, cells: int, now: float) -> int:
        if self.problem.integer:
            self.widening *= 1.5
            return cells
        return math.ceil(cells * min(max(math.sqrt(now / self.gap) * 1.1, 1.25), 3.0))

    # --- one bound ----------------------------------------------------------------------------

    def _solve(self, bound: Callable[..., B], tolerance: float, **grid: Any) -> B:
        nodes = 2 * (grid.get("reach", 0) or grid["window"] + grid["cells"])
        if nodes > _FEW and self._left() < nodes * _NODE_SECONDS:
            fail("No time is left for the proof.", OutOfTimeError)
        given = {"deadline": self.deadline, "solver": self.solver, **grid}
        return bound(self.problem, tolerance=max(tolerance, 1e-8), **given)

    def _improve_lower(self, cells: int) -> None:
        wider_than: Fraction | None = None
        while True:
            window = math.ceil(self.widening * self.reach_units * cells)
            begun = time.monotonic()
            try:
                found = self._solve(lower_bound, self.gap / 100, cells=cells, window=window)
            except InfeasibleError:
                fail(self._impossible(cells, window))
            self._say("lower", f"{cells} cells", float(found.value), begun)
            self._keep(found)
            if found.padding <= self.gap / 1000 or self._late():
                return
            if wider_than is not None and not _rose(wider_than, found.value, self.gap / 50):
                self.widening /= 1.5  # what lies in the padding does not matter
                return
            self.widening, wider_than = self.widening * 1.5, found.value

    def _keep(self, found: Lower) -> None:
        if self.lower is None or found.value > self.lower.value:
            self.lower = found

    def _keep_upper(self, found: Upper | None) -> None:
        if found is not None and (self.upper is None or found.value < self.upper.value):
            self.upper = found

    def _improve_upper(self, cells: int, centred: bool) -> None:
        reach, narrow = self._reach(cells, centred), None
        while True:
            begun = time.monotonic()
            try:
                grid: dict[str, Any] = {"cells": cells, "reach": reach, "centred": centred}
                found = self._solve(upper_bound, self.gap / 1000, **grid)
            except InfeasibleError:
                if self.problem.plain and self.cells is None:
                    reach = math.ceil(1.5 * reach) + 1
                    continue
                self._say("upper", f"{cells} cells", math.inf, begun)
                return
            self._say("upper", f"{cells} cells", float(found.value), begun)
            self._keep_upper(found)
            if narrow is not None and not _rose(found.value, narrow, self.gap / 20):
                self.wide_enough = True
                return
            self.reach_units = max(self.reach_units, reach / cells)
            if found.outer <= _EDGE or self.wide_enough or not self._may_widen() or self._late():
                return
            reach, narrow = math.ceil(1.5 * reach), found.value

    def _core(self) -> float:
        """Half the width of the core of a staircase, in sensitivities, or a little more."""
        return 1.5 * math.exp(-float(self.problem.epsilon) / (degree_near_zero(self.problem) + 1))

    def _may_widen(self) -> bool:
        return self.problem.support is None and self.cells is None

    def _reach(self, cells: int, centred: bool) -> int:
        """Cells on each side (centred: beyond the middle one)."""
        problem = self.problem
        if problem.support is not None:
            step = Fraction(1) if problem.integer else problem.sensitivity / cells
            half = Fraction(1, 2) if centred and not problem.integer else Fraction(0)
            return max(math.floor(problem.support / step - half), 1)
        if self.cells is not None:
            return max(self.cells // 2, 1)
        return math.ceil(self.reach_units * cells)

    def _first_cells(self) -> int:
        if self.cells is not None:
            return max(1, int(self.cells / (2 * self.reach_units)))
        epsilon = float(self.problem.epsilon)
        start = 2 if epsilon <= 0.2 else 4 if epsilon <= 1 else 8 if epsilon <= 2.5 else 16
        return self._aligned(start)

    def _aligned(self, cells: int) -> int:
        """At least so many cells; the support and a jump of the loss on the grid, if it can be."""
        lengths = (self.problem.support, self.problem.loss.jumps)
        ratios = [length / self.problem.sensitivity for length in lengths if length is not None]
        unit = math.lcm(1, *(ratio.denominator for ratio in ratios if ratio.denominator <= 64))
        return math.ceil(cells / unit) * unit

    # --- the end ------------------------------------------------------------------------------

    def _gap(self) -> float:
        if self.upper is None or self.lower is None:
            return math.inf
        return relative_gap(self.lower.value, self.upper.value)

    def _left(self) -> float:
        return math.inf if self.deadline is None else self.deadline - time.monotonic()

    def _late(self) -> bool:
        return self._left() < 0

    def _found(self) -> Searched:
        if self.upper is None and self.cells is not None:
            fail(f"`cells` must be larger here. Got {self.cells}: no private noise has so few.")
        if self.upper is None and self.problem.plain:
            size = 2 * self.reach_units * (self.problem.sensitivity if self.problem.integer else 1)
            fail(
                f"No noise was found in time: with this epsilon, delta and sensitivity it takes "
                f"about {float(size):.0f} cells, which an integer query or a loss without a "
                "formula needs one by one. Give a longer `time_limit`, a larger epsilon or delta, "
                "a loss of powers (`losses.power`, `losses.asymmetric`), or leave out `integer`.",
                UndecidedError,
            )
        if self.upper is None:
            fail(
                f"No noise within {_joined(self._sides())} was found on grids as fine as time and "
                f"memory allow, and none was proved impossible. {_REMEDY}"
            )
        if self.lower is None:
            fail("No bound was found in time. Give a longer `time_limit`.", UndecidedError)
        upper, lower = self.upper, self.lower
        document = statement(
            self.problem,
            {**upper.tables, **lower.tables},
            {**upper.second_tables, **lower.second_tables},
            kind=upper.kind,
            noise=upper.noise,
            proof=lower.proof,
            upper=str(upper.value),
            lower=str(lower.value),
        )
        return Searched(Certificate.seal(document), self._gap() <= self.gap)

    def _sides(self) -> list[str]:
        """The side constraints in use, by the names of their arguments."""
        used = {
            "support": self.problem.support is not None,
            "second_loss": self.problem.second is not None,
            "monotone": self.problem.monotone,
        }
        return [name for name, is_used in used.items() if is_used]

    def _impossible(self, cells: int, window: int) -> str:
        """Which constraint cannot be met: those that fail alone, or else all of them together."""
        sides = self._sides()
        alone = [
            name for name in sides if len(sides) > 1 and self._fails_alone(name, cells, window)
        ]
        together = " together" if len(sides) > 1 and not alone else ""
        return (
            f"No noise with this epsilon and delta meets {_joined(alone or sides)}{together}. "
            f"{_REMEDY}"
        )

    def _fails_alone(self, name: str, cells: int, window: int) -> bool:
        problem = replace(
            self.problem,
            support=self.problem.support if name == "support" else None,
            second=self.problem.second if name == "second_loss" else None,
            monotone=name == "monotone",
        )
        try:
            lower_bound(problem, cells=cells, window=window, tolerance=1e-3, deadline=None)
        except InfeasibleError:
            return True
        return False

    def _say(self, which: str, grid: str, value: float, begun: float) -> None:
        if self.progress:
            took = time.monotonic() - begun
            print(f"{which} bound, {grid}: {value:.6g} ({took:.2f} s)", file=sys.stderr)


def _rose(before: Fraction, after: Fraction, share: float) -> bool:
    return after - before > abs(before) * Fraction(share)


def support_units(problem: NoiseProblem) -> float:
    """Sensitivities on each side that a truncated Laplace law needs, rounded up, and one more."""
    epsilon = float(problem.epsilon)
    if problem.delta == 0:
        return math.ceil(16 / epsilon) + 1
    odds = math.expm1(epsilon) / (2 * float(problem.delta))
    units = math.ceil(math.log1p(odds) / epsilon) + 1
    growth = problem.loss.near() / problem.sensitivity
    return float(max(units, math.ceil(growth) + 1))


def _joined(names: list[str]) -> str:
    return " and ".join(f"`{name}`" for name in names) or "these constraints"
