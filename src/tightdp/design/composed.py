"""Two noises for two releases by optimisation, certified together."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

from tightdp.accepted import Number
from tightdp.design.composed_law import ComposedDesign
from tightdp.design.composed_programs import NOTHING, ComposedProgram, Line, Masses, Point, Side
from tightdp.design.composed_verifier import ReleaseLaw
from tightdp.design.designs import design_noise
from tightdp.design.programs import InfeasibleError
from tightdp.design.records import check_promise
from tightdp.design.vector import VectorTask, finer_lattice_for, lattice_bound, support_for
from tightdp.design.vector_balls import BALLS, gauge_within
from tightdp.design.vector_bound import NO_BOUND
from tightdp.design.vector_samples import boundary_samples, multilinear
from tightdp.design.vector_verifier import POWERS
from tightdp.errors import (
    UndecidedError,
    check_choice,
    check_count,
    check_flag,
    check_within,
    exact_fraction,
    fail,
)
from tightdp.parameters import tells_arguments

_WEIGHT_BITS = 44
_MOST_SIDE = 400  # cells on each side of zero
_SAMPLES = 12  # points of a curved boundary for each cell
_SPARED = (1e-6, 1e-5, 1e-4, 1e-3, 1e-2)  # shares of delta that rounding may take
_STARTS = ((0.5, 0.5), (0.3, 0.75), (0.7, 0.25), (0.5, 0.25), (0.5, 0.75))
_KEPT = 2  # starts that are followed to their end
_STEPS = 16  # of both laws
_WORTH = 3e-5  # relative gain of a step that is worth another


@tells_arguments
def design_composed_noise(
    *,
    epsilon: Number,
    delta: Number,
    sensitivities: Sequence[Number] = (1, 1),
    importance: Sequence[Number] = (1, 1),
    ball: str = "linf",
    loss: str = "l1",
    resolution: int | Sequence[int] = 4,
    growth: Number = 0,
    support: object = None,
    lower_resolution: int | None = None,
    progress: bool = False,
) -> ComposedDesign:
    """Two noises, which may differ, for two releases with the least loss that both may have.

    The laws are found together: whatever one of them leaves of the budget the other uses. The
    problem is not convex. From several ways to share the budget, each law is made the best against
    the other, then both move by small linear programs until no step leads down. What is found is
    certified private, and its loss is compared with a lower bound for all pairs of noises.

    Parameters
    ----------
    epsilon, delta : float, Fraction or Decimal
        Of both releases together; delta in (0, 1).
    sensitivities, importance : pairs of numbers
        How far each query moves; what one unit of each loss counts.
    ball : {"linf", "l2", "l1"}
        "linf": composition, both queries may move fully. "l2", "l1": the moves, in units of the
        sensitivities, lie together in a disc or a diamond.
    loss : {"l1", "l2"}
        Of each release, abs(x) or x**2; they are added.
    resolution : int or pair of ints
        Cells per sensitivity, for both laws or for each. "l2" and "l1" need the same for both.
    growth : float
        How fast cells grow beyond the sensitivity: at x sensitivities from zero their width is
        ``growth * (x - 1)`` sensitivities, rounded down to whole cells, and one cell at least.
    support : float, optional
        Half-width of the supports, in units of the sensitivities.
    lower_resolution : int, optional
        Resolution of the lower bound.
    progress : bool
        Print what is being solved.

    Returns
    -------
    ComposedDesign

    Examples
    --------
    >>> pair = design_composed_noise(epsilon=2.0, delta=0.2, importance=(1, 5), resolution=1)
    >>> first, second = pair.losses
    >>> second < first, pair.lower <= pair.upper == first + 5 * second
    (True, True)
    """
    asked, spare = check_promise(epsilon, delta)
    cells = _pair_of_counts(resolution)
    shape = check_choice("ball", ball, BALLS)
    if shape != "linf" and cells[0] != cells[1]:
        fail(f"`resolution` must be the same for both releases with ball={ball!r}.")
    widths = exact_fraction("growth", check_within("growth", growth, "[0, 1]"))
    reach = support_for(asked / 2, spare / 2)
    if support is not None:
        reach = check_within("support", support, "[1, 10000]", "1 is the sensitivity")
    if max(cells) * reach > _MOST_SIDE:
        fail(
            f"`resolution` must leave at most {_MOST_SIDE} cells on each side of zero. The support "
            f"is {reach:g} sensitivities: use a smaller `resolution` or `support`."
        )
    task = _PairTask(
        epsilon=asked,
        delta=spare,
        ball=shape,
        loss=check_choice("loss", loss, tuple(POWERS)),
        cells=cells,
        growth=widths,
        reach=reach,
        sensitivities=_pair_of_amounts("sensitivities", sensitivities),
        importance=_pair_of_amounts("importance", importance),
        say=print if check_flag("progress", progress) else _silent,
    )
    fine = finer_lattice_for(task.plane()) if lower_resolution is None else lower_resolution
    fine = check_count("lower_resolution", fine, most=64)
    design = _with_bound(_PairSearch(task).run(), task, fine)
    design.verify()
    return design


@dataclass(frozen=True)
class _PairTask:
    """What is asked."""

    epsilon: Fraction
    delta: Fraction
    ball: str
    loss: str
    cells: tuple[int, int]
    growth: Fraction
    reach: float
    sensitivities: tuple[Fraction, ...]
    importance: tuple[Fraction, ...]
    say: Callable[[str], None]

    @property
    def units(self) -> list[float]:
        """What one unit of each loss counts, for sensitivity 1."""
        pairs = zip(self.importance, self.sensitivities, strict=True)
        return [float(w * s ** POWERS[self.loss]) for w, s in pairs]

    def plane(self) -> VectorTask:
        """The same problem for any noise in the plane."""
        width = min(self.reach, 2 * support_for(self.epsilon, self.delta))
        asked = (self.epsilon, self.delta, self.ball, self.loss, max(self.cells), width)
        return VectorTask(2, *asked, widenings=0)

    def line(self, which: int, centred: bool) -> Line:
        """The cells of one law."""
        cells = self.cells[which]
        half = math.ceil(self.reach * cells)
        count = half + 1 if centred else half
        groups = cell_groups(count, cells, self.growth)
        return Line(cells, half, centred=centred, groups=groups, loss=self.loss)

    def points(self) -> list[Point]:
        """The moves, or means of moves, at which a program asks for privacy."""
        first, second = self.cells
        whole = [(m, n) for m, n in product(range(first + 1), range(second + 1)) if m or n]
        if self.ball == "linf":
            return [{move: 1.0} for move in whole]
        inside = [{move: 1.0} for move in whole if gauge_within(self.ball, move, first)]
        samples = boundary_samples(self.ball, first, _SAMPLES)
        turned = dict.fromkeys([*samples, *((y, x) for x, y in samples)])
        return [*inside, *(multilinear(point, symmetric=False) for point in turned)]  # type: ignore[list-item]


def cell_groups(count: int, cells: int, growth: Fraction) -> list[int]:
    """The group of each of ``count`` cells from zero outwards; groups grow with the distance.

    >>> cell_groups(12, 2, Fraction(1))
    [0, 1, 2, 3, 4, 4, 5, 5, 5, 5, 6, 6]
    """
    groups: list[int] = []
    while len(groups) < count:
        width = math.floor(growth * (len(groups) - cells))
        groups += [groups[-1] + 1 if groups else 0] * max(1, width)
    return groups[:count]


class _PairSearch:
    """From several starts: one law against the other, then both, until nothing is gained."""

    def __init__(self, task: _PairTask) -> None:
        self.task, self.points = task, task.points()
        self.factor, self.units = math.exp(task.epsilon), task.units

    def run(self) -> ComposedDesign:
        """The best pair that is proved private; its bound is empty."""
        best: ComposedDesign | None = None
        shares: Sequence[tuple[float, float]] = _STARTS
        for centred in (True, False):
            lines = [self.task.line(which, centred) for which in (0, 1)]
            starts = self._starts(lines, shares)[:_KEPT]
            shares = [share for share, _ in starts] or _STARTS
            for _, laws in starts:
                found = self._proved(lines, self._descend(lines, laws))
                if found is not None and (best is None or found.upper < best.upper):
                    best = found
        if best is None:
            fail(
                "No pair on these grids is proved private: use a larger `resolution` or `support`.",
                UndecidedError,
            )
        return best

    def _loss(self, lines: Sequence[Line], laws: Sequence[Masses]) -> float:
        parts = zip(self.units, laws, lines, strict=True)
        return sum(unit * law.loss(line) for unit, law, line in parts)

    def _starts(
        self, lines: Sequence[Line], shares: Sequence[tuple[float, float]]
    ) -> list[tuple[tuple[float, float], list[Masses]]]:
        """Pairs in which each law is nearly the best against the other, the best pair first."""
        found = []
        for share, part in shares:
            try:
                first = self._alone(lines[0], 1 - share, 1 - part)
                laws = [first, self._alone(lines[1], share, part)]
                for place in (0, 1):
                    laws = self._respond(lines, laws, place, _SPARED[0])
            except InfeasibleError:
                continue
            found.append(((share, part), laws))
            loss = self._loss(lines, laws)
            self.task.say(f"from {share:g} epsilon, {part:g} delta: {loss:.6g}")
        return sorted(found, key=lambda each: self._loss(lines, each[1]))

    def _alone(self, line: Line, share: float, part: float) -> Masses:
        """The best law of one release for a share of the budget."""
        rate = math.exp(share * float(self.task.epsilon))
        moves: list[Point] = [{(m, 0): 1.0} for m in range(1, line.cells + 1)]
        program = ComposedProgram([Side(line, NOTHING, rate, place=0)], moves)
        return program.solve(part * float(self.task.delta), [1.0])[0][0]

    def _respond(
        self, lines: Sequence[Line], laws: Sequence[Masses], place: int, spared: float
    ) -> list[Masses]:
        """The laws with the one at ``place`` made the best against the other."""
        side = Side.against(lines, laws, self.factor, place)
        delta = float(self.task.delta) * (1 - spared)
        program = ComposedProgram([side], self.points, around=[laws[place]])
        mine = program.solve(delta, [self.units[place]])[0][0]
        return [mine, laws[1]] if place == 0 else [laws[0], mine]

    def _descend(self, lines: Sequence[Line], laws: list[Masses]) -> list[Masses]:
        """Move both laws until no small step leads down."""
        radius, now = 0.3, self._loss(lines, laws)
        delta = float(self.task.delta) * (1 - _SPARED[0])
        for _ in range(_STEPS):
            sides = [Side.against(lines, laws, self.factor, place) for place in (0, 1)]
            program = ComposedProgram(sides, self.points, around=laws)
            try:
                near, model = program.solve(delta, self.units, radius)
                moved = self._respond(lines, near, 0, _SPARED[0])
                moved = self._respond(lines, moved, 1, _SPARED[0])
                then = self._loss(lines, moved)
            except InfeasibleError:
                model, then = -math.inf, math.inf
            if then < now * (1 - _WORTH):
                laws, now, radius = moved, then, min(1.0, 1.5 * radius)
                self.task.say(f"both moved: {now:.6g}")
            elif model >= now * (1 - 2 * _WORTH) or radius < 1e-3:
                break
            else:
                radius /= 4
        return laws

    def _proved(self, lines: Sequence[Line], laws: list[Masses]) -> ComposedDesign | None:
        """The pair as integers; a little more of delta is spared until it is proved."""
        task = self.task
        for spared in _SPARED:
            whole = tuple(map(_rounded, lines, laws))
            design = ComposedDesign(
                task.epsilon,
                task.delta,
                task.ball,
                task.loss,
                task.sensitivities,
                task.importance,
                whole,
                NO_BOUND,
            )
            if design.is_private(task.delta):
                return design
            try:
                laws = self._respond(lines, laws, 0, spared)
            except InfeasibleError:
                laws = self._respond(lines, laws, 1, spared)
        return None


def _rounded(line: Line, law: Masses) -> ReleaseLaw:
    """A law in integers, rounded down."""
    each = [int(mass * 2.0**_WEIGHT_BITS) for mass in law.each]
    weights = tuple(each[group] for group in line.group)
    return ReleaseLaw(
        line.cells, line.half, line.centred, weights, int(law.atom * 2.0**_WEIGHT_BITS)
    )


def _with_bound(found: ComposedDesign, task: _PairTask, fine: int) -> ComposedDesign:
    """The design with the lower bound of the plane and, if it helps, that of one release."""
    task.say(f"lower bound at resolution {fine}")
    plane, single = task.plane(), None
    if task.units[0] != task.units[1]:
        given: dict[str, Any] = {"epsilon": task.epsilon, "delta": task.delta, "loss": task.loss}
        single = dict(design_noise(**given).certificate.document)
    return ComposedDesign(
        found.epsilon,
        found.delta,
        found.ball,
        found.loss,
        found.sensitivities,
        found.importance,
        found.laws,
        lattice_bound(plane, fine, Fraction(plane.width)),
        single,
    )


def _pair_of_counts(resolution: object) -> tuple[int, int]:
    given = resolution if isinstance(resolution, (tuple, list)) else (resolution, resolution)
    if len(given) != 2:
        fail("`resolution` must be one whole number, or a pair of them.")
    first, second = (check_count("resolution", n, most=64) for n in given)
    return first, second


def _pair_of_amounts(name: str, given: object) -> tuple[Fraction, ...]:
    if not isinstance(given, (tuple, list)) or len(given) != 2:
        fail(f"`{name}` must be a pair of numbers, one for each release.")
    return tuple(exact_fraction(name, check_within(name, x, "(0, inf)")) for x in given)


def _silent(message: str) -> None:
    """Say nothing."""
