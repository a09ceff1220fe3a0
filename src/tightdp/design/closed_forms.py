r"""Noise that is known without a program, certified like any other: an answer at once.

A search that runs out of time has it to fall back on, and at the corners it is all but the best:
for large epsilon staircases lose within a share of :math:`e^{-\epsilon}` of the optimum, for small
ones truncated Laplace noise does within a share of :math:`\epsilon^2`.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tightdp.design import exact_numbers, verifier
from tightdp.design.bounds import Costs, Upper, cell_costs, proved_noise, statement
from tightdp.design.losses import CallableLoss, Loss
from tightdp.design.problem import NoiseProblem, degree_near_zero
from tightdp.design.programs import Lattice
from tightdp.design.rounding import Weights, exponential, filled, weight_bits
from tightdp.design.staircase import staircase
from tightdp.errors import FloatArray, ParameterError

_MOST_CELLS, LISTED = 4000, 16_000  # of a law; of one whose loss has no formula, or of integers
QUICK, SLOW = 400_000, 2_500_000  # steps of the verifier, cells times shifts: about 1 and 6 s
_WORTH = 1e-3  # a finer grid must gain so much
_STEEP = 4  # from this epsilon on a staircase is worth a look beside the steps
_MOST_WHOLE = 5000  # a larger sensitivity in integers has no staircase at once


def noise_at_once(
    problem: NoiseProblem, most_steps: int = QUICK, most_listed: int = LISTED
) -> Upper | None:
    """The best of the laws that are known; None where none meets the side constraints.

    ``most_steps`` bounds the work of the verifier, ``most_listed`` the cells of a loss without a
    formula.

    >>> found = noise_at_once(NoiseProblem.of(epsilon=0.001, delta=1e-6))
    >>> round(float(found.value), 3), found.kind
    (987.572, 'truncated-laplace')
    """
    found = [*_steps(problem, most_steps, most_listed)] or [*_laplace(problem)]
    if not found or problem.epsilon >= _STEEP:
        found += [*_staircase(problem)]
    return min(found, key=lambda law: law.value, default=None)


# --- steps, cut off, with an atom -----------------------------------------------------------------


@dataclass(frozen=True)
class _Steps:
    r"""Cells of weight :math:`e^{-\epsilon n}` at level n, ``core`` of them at level 0.

    Each further level is a sensitivity wide, ``cells`` cells, on both sides. A move by a
    sensitivity changes the level by one at most, so that only the last level of one side is lost,
    and what delta has left goes to an atom at zero; integers have none.
    """

    cells: int
    core: int
    levels: int
    loss: float


def _steps(problem: NoiseProblem, most_steps: int, most_listed: int) -> Iterator[Upper]:
    """The truncated staircase with the least loss on a few grids, if any is allowed."""
    grids = _grids(problem) if problem.delta else []
    tried = (_least(problem, cells, most_steps, most_listed) for cells in grids)
    found = [steps for steps in tried if steps is not None]
    if not found:
        return
    good = (1 + _WORTH) * min(steps.loss for steps in found)
    law = _weights(problem, next(steps for steps in found if steps.loss <= good))
    tables: tuple[Costs, Costs] = _table(problem, problem.loss, law), ([], Fraction(0))
    if problem.second is not None:
        tables = tables[0], _table(problem, problem.second[0], law)
    try:
        yield proved_noise(problem, law, *tables)
    except exact_numbers.Refuted:  # a side constraint that the steps do not meet
        return


def _table(problem: NoiseProblem, loss: Loss, law: Weights) -> Costs:
    """Costs that a certificate must list: those of a function; a formula needs none."""
    if not isinstance(loss, CallableLoss):
        return [], Fraction(0)
    return cell_costs(problem, loss, _lattice(problem, len(law.weights) // 2, law.cells), law.cells)


def _lattice(problem: NoiseProblem, reach: int, cells: int) -> Lattice:
    last = reach + (1 if problem.integer else 0)
    return Lattice(-reach, last, (-reach, last), 0 if problem.integer else -1, cells)


def _grids(problem: NoiseProblem) -> list[int]:
    """Cells a sensitivity: the best core, e**(-epsilon/(p+1)) or so, is a whole number of them."""
    if problem.integer:
        return [int(problem.sensitivity)]
    epsilon, degree = float(problem.epsilon), max(degree_near_zero(problem), 1.0)
    core = 1 + math.exp(epsilon / (degree + 1))
    times = (1, 2, 3) if degree < 1.5 else (2, 5)
    return sorted({1, *(round(core * t) for t in times)})


def _levels(problem: NoiseProblem, cells: int, core: int) -> int:
    """The fewest levels of which the last has a mass of delta at most (see ``_least``)."""
    epsilon, delta = float(problem.epsilon), float(problem.delta)
    tail = 2 * cells / math.expm1(epsilon)  # all further levels, in cells of the core
    most = delta * (2 * core + tail) / (cells + delta * tail)
    return math.ceil(max(-math.log(most), 0.0) / epsilon)


def _least(problem: NoiseProblem, cells: int, most_steps: int, most_listed: int) -> _Steps | None:
    """The core and the number of levels with the least loss, in floats."""
    most = max(_levels(problem, cells, core=1), 1) + 1
    no_formula = problem.integer or problem.loss.description["kind"] != "sides"
    listed = most_listed if no_formula else _MOST_CELLS  # a law with a formula stands in
    listed = min(listed, most_steps // cells)
    if 2 * cells * (most - 1) > listed:  # not even the fewest levels
        return None
    reach = cells * (most + 1)
    outward, at_zero = _outward(problem, reach, cells)
    epsilon, delta = float(problem.epsilon), float(problem.delta)
    best: _Steps | None = None
    for core in range(1, cells + 1):
        fewest = max(_levels(problem, cells, core), 1)
        for levels in (fewest, fewest + 1):
            ends = core + cells * np.arange(levels + 1)
            reached = int(ends[-1])
            if 2 * reached > listed or levels > most or not _fits(problem, reached, cells):
                continue
            weight = np.exp(-epsilon * np.arange(levels + 1))
            spent = float(np.diff(outward[ends], prepend=0.0) @ weight)
            whole = float(np.diff(ends, prepend=0) @ weight) * 2 - problem.integer
            last = cells * float(weight[-1])
            if problem.integer:
                loss = spent / whole if last <= delta * whole else math.inf
            else:
                atom = delta - (1 - delta) * last / (whole - last)
                loss = (1 - delta) * spent / (whole - last) + atom * at_zero
                loss = loss if atom >= 0 else math.inf
            if loss < (math.inf if best is None else best.loss):
                best = _Steps(cells, core, levels, loss)
    return best


def _outward(problem: NoiseProblem, reach: int, cells: int) -> tuple[FloatArray, float]:
    """Costs of all cells up to a distance from zero, both sides together, and of the atom."""
    each, at_zero = _float_costs(problem, reach, cells)
    right, left = each[reach:], each[reach::-1] if problem.integer else each[reach - 1 :: -1]
    both = right + left
    if problem.integer:  # zero itself counts once
        both[0] /= 2
    return np.concatenate([[0.0], np.cumsum(both)]), at_zero


def _float_costs(problem: NoiseProblem, reach: int, cells: int) -> tuple[FloatArray, float]:
    """Costs of the cells from -reach on, and of the atom: good enough to choose by."""
    shape, width = problem.loss.description, float(problem.sensitivity) / cells
    if isinstance(problem.loss, CallableLoss) and not problem.integer:
        middles = width * (np.arange(-reach, reach) + 0.5)
        return np.array([problem.loss.function(x) for x in middles.tolist()], dtype=float), 0.0
    if shape["kind"] != "sides":
        lattice = _lattice(problem, reach, cells)
        costs, at_zero = cell_costs(problem, problem.loss, lattice, cells)
        return np.array([float(c) for c in costs]), float(at_zero)
    sides = []
    for side in (shape["left"], shape["right"]):
        rates = [float(Fraction(c)) for c in side]
        if problem.integer:
            sides.append(np.polyval(rates[::-1], np.arange(reach + 1.0)))
            continue
        whole = [0.0, *(c / (j + 1) for j, c in enumerate(rates))]
        sides.append(np.diff(np.polyval(whole[::-1], width * np.arange(reach + 1.0))) / width)
    left = sides[0][:0:-1] if problem.integer else sides[0][::-1]
    return np.concatenate([left, sides[1]]), float(Fraction(shape["right"][0]))


def _fits(problem: NoiseProblem, reach: int, cells: int) -> bool:
    if problem.support is None:
        return True
    if problem.integer:
        return reach - 1 <= problem.support
    return reach * problem.sensitivity <= cells * problem.support


def _weights(problem: NoiseProblem, steps: _Steps) -> Weights:
    """The steps in integers, each level at least its share of the one before: private exactly."""
    low = exponential(problem.epsilon)[0]
    total, epsilon = 1 << weight_bits(problem.delta), float(problem.epsilon)
    allowed = math.floor(problem.delta * total)
    shares = np.exp(-epsilon * np.arange(steps.levels + 1))
    cells_of = [steps.core, *[steps.cells] * steps.levels]
    size = 2 * float(np.array(cells_of) @ shares) - problem.integer
    spent = 0.0 if problem.integer else steps.cells * float(shares[-1])
    first = int((1 - (0.0 if problem.integer else float(problem.delta))) / (size - spent) * total)
    while True:
        weight = [first]
        for _ in range(steps.levels):
            weight.append(-(-weight[-1] * low.denominator // low.numerator))
        side = [w for w, count in zip(weight, cells_of, strict=True) for _ in range(count)]
        both = [*side[::-1], *(side[1:] if problem.integer else side)]
        rest = total - sum(both)
        if problem.integer and rest < 0:
            first -= math.ceil(-rest / size)
        elif not problem.integer and rest + steps.cells * weight[-1] > allowed:
            first += math.ceil((rest + steps.cells * weight[-1] - allowed) / size)
        else:
            break
    start = -(len(side) - 1 if problem.integer else len(side))
    atom = 0 if problem.integer else rest
    return filled(both, atom, cells=steps.cells, start=start, total=total)


# --- laws with a formula --------------------------------------------------------------------------


def _laplace(problem: NoiseProblem) -> Iterator[Upper]:
    """Truncated Laplace noise: for laws too wide for a list of cells."""
    polynomial = problem.loss.description["kind"] == "sides"
    if not polynomial or problem.integer or not problem.plain or not 0 < 2 * problem.delta <= 1:
        return
    odds = (exact_numbers.exp_bounds(problem.epsilon)[0] - 1) / (2 * problem.delta)
    noise = {"log": str(_log_below(1 + odds))}
    whole = statement(problem, {}, {}, kind="truncated-laplace", noise=noise)
    value = verifier.check_noise(whole, Fraction(whole["exp_low"]))
    yield Upper(noise, value, 0.0, {}, {}, "truncated-laplace")


def _log_below(number: Fraction) -> Fraction:
    """A rational below log(number), number > 1, to about 100 bits: Newton's steps from a float."""
    log = Fraction(math.log1p(float(number - 1)))
    for _ in range(3):
        log += number / exact_numbers.exp_bounds(log)[0] - 1
        log = Fraction(math.floor(log * (1 << 160)), 1 << 160)
    log = max(log - Fraction(1, 1 << 150), Fraction(0))
    return log if exact_numbers.exp_bounds(log)[1] <= number else Fraction(0)


def _staircase(problem: NoiseProblem) -> Iterator[Upper]:
    """The staircase, which needs no delta at all."""
    if problem.integer and problem.sensitivity > _MOST_WHOLE:
        return
    try:
        yield staircase(problem)
    except ParameterError:  # not for this loss, or not within these constraints
        return
