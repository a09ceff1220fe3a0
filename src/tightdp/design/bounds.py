"""Both sides of the sandwich on one grid: solved in floats, proved in integers."""

from __future__ import annotations

import math
import time
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.design import verifier
from tightdp.design.losses import Loss
from tightdp.design.problem import NoiseProblem
from tightdp.design.programs import InfeasibleError, Lattice, ShiftProgram
from tightdp.design.rounding import (
    PRICE_BITS,
    Weights,
    exponential,
    multipliers,
    repaired,
    rounded,
    weight_bits,
)
from tightdp.errors import FloatArray, fail

SMALL_DELTA = Fraction(1, 10**4)  # below it masses are counted in the size that is expected
_STEP_SECONDS = 2e-6  # what a proof takes for a cell and a shift, about
MARGIN = 1e-8  # and the solver, whose tolerance is not small against delta, is kept this far away


@dataclass(frozen=True)
class Upper:
    """A noise, its exact expected loss, and the mass of its outermost cells in units of delta."""

    noise: dict[str, Any]
    value: Fraction
    outer: float
    tables: dict[str, Any]
    second_tables: dict[str, Any]
    kind: str = "cells"


@dataclass(frozen=True)
class Lower:
    """A proof, what it proves, and the mass that the program left in the padding."""

    proof: dict[str, Any]
    value: Fraction
    padding: float
    tables: dict[str, Any]
    second_tables: dict[str, Any]


def constraints(problem: NoiseProblem, tables: dict[str, Any]) -> dict[str, Any]:
    """The side constraints as a certificate states them."""
    second = None
    if problem.second is not None:
        loss, bound = problem.second
        second = {"loss": loss.described(tables), "bound": str(bound)}
    return {
        "monotone": problem.monotone,
        "symmetric": problem.symmetric,
        "support": None if problem.support is None else str(problem.support),
        "second_loss": second,
    }


def statement(
    problem: NoiseProblem,
    tables: dict[str, Any],
    second_tables: dict[str, Any],
    *,
    kind: str = "cells",
    **parts: object,
) -> dict[str, Any]:
    """The problem as a certificate states it, with further parts."""
    low, high = exponential(problem.epsilon)
    return {
        "format": verifier.FORMAT,
        "kind": kind,
        "integer": problem.integer,
        "epsilon": str(problem.epsilon),
        "delta": str(problem.delta),
        "sensitivity": str(problem.sensitivity),
        "loss": problem.loss.described(tables),
        "constraints": constraints(problem, second_tables),
        "exp_low": str(low),
        "exp_high": str(high),
        **parts,
    }


def _before(deadline: float | None, begun: float, steps: int) -> float | None:
    """When the solver must stop, so that the proof ends in time.

    The verifier computes the costs that were computed since ``begun`` once more, and takes
    ``steps`` further ones, a few times over while a law is repaired.
    """
    if deadline is None:
        return None
    return deadline - 2 * (time.monotonic() - begun) - _STEP_SECONDS * steps


# --- the upper bound ------------------------------------------------------------------------------


def upper_bound(
    problem: NoiseProblem,
    *,
    cells: int,
    reach: int,
    centred: bool,
    tolerance: float,
    deadline: float | None,
    solver: type[ShiftProgram] = ShiftProgram,
    groups: object = None,
) -> Upper:
    """The best noise with ``cells`` cells a sensitivity, out to ``reach`` of them on each side.

    ``centred`` puts the middle of a cell at zero instead of an edge; integers are centred.
    ``groups`` numbers the cells of a coarser partition, whose mass is spread evenly.
    """
    begun = time.monotonic()
    lattice = Lattice(
        first=-reach,
        last=reach + (1 if centred else 0),
        window=(-reach, reach + (1 if centred else 0)),
        mirror=0 if centred else -1,
        shifts=cells,
    )
    costs, at_zero = cell_costs(problem, problem.loss, lattice, cells)
    seconds = (
        cell_costs(problem, problem.second[0], lattice, cells) if problem.second else ([], at_zero)
    )
    rows, upper, atom_rows = _side_rows(problem, lattice, seconds, lower=False)
    margin = MARGIN if problem.delta < SMALL_DELTA else 0.0
    program = solver(
        lattice,
        factor=math.exp(problem.epsilon) * (1 - margin),
        delta=float(problem.delta) * (1 - margin),
        cost=_per_position(costs, lattice),
        groups=groups,
        folded=problem.folded,
        atom_cost=None if problem.integer else float(at_zero),
        rows=rows,
        upper=upper,
        atom_rows=atom_rows,
        scale=_scale(problem, lattice, cells),
    )
    deadline = _before(deadline, begun, 2 * reach * cells)
    answer = program.solve(tolerance=tolerance, deadline=deadline)
    law = _integers(problem, lattice, answer.masses, answer.atom, cells)
    spare = _spare(problem, program, lattice, cells, wide=groups is None, deadline=deadline)
    law_found = repaired(problem, law, spare, (seconds[0], seconds[1]))
    if law_found is None:
        fail("The noise could not be repaired on this grid.", InfeasibleError)
    edge = max(cells // 2, 1)
    outer = float(answer.masses[:edge].sum() + answer.masses[-edge:].sum()) / float(problem.delta)
    return proved_noise(problem, law_found, (costs, at_zero), (seconds[0], seconds[1]), outer)


Costs = tuple[list[Fraction], Fraction]
"""Of the cells, and of the atom."""


def proved_noise(
    problem: NoiseProblem, law: Weights, costs: Costs, seconds: Costs, outer: float = 0.0
) -> Upper:
    """What the verifier reads off a law; it raises :class:`exact_numbers.Refuted` where it must."""
    tables, second_tables = (
        {"cells": [str(c) for c in each], "at_zero": str(zero)} for each, zero in (costs, seconds)
    )
    whole = statement(problem, tables, second_tables, noise=law.document())
    value = verifier.check_noise(whole, Fraction(whole["exp_low"]))
    return Upper(law.document(), value, outer, tables, second_tables)


def cell_costs(
    problem: NoiseProblem, loss: Loss, lattice: Lattice, cells: int
) -> tuple[list[Fraction], Fraction]:
    """Exact costs of the cells of the noise (halves when centred), and of the atom."""
    at_zero = loss.values(Fraction(1), 0, 1, up=True)[0]
    if problem.integer:
        return loss.values(Fraction(1), lattice.first, lattice.last, up=True), at_zero
    width = problem.sensitivity / cells
    if lattice.mirror == 0:
        return loss.means(width / 2, 2 * lattice.first - 1, 2 * lattice.last - 1), at_zero
    return loss.means(width, lattice.first, lattice.last), at_zero


def _per_position(costs: list[Fraction], lattice: Lattice) -> FloatArray:
    each = np.array([float(c) for c in costs])
    return each if len(each) == lattice.size else each.reshape(-1, 2).mean(axis=1)


def _integers(
    problem: NoiseProblem, lattice: Lattice, masses: FloatArray, atom: float, cells: int
) -> Weights:
    halved = lattice.mirror == 0 and not problem.integer
    return rounded(
        np.repeat(masses / 2, 2) if halved else masses,
        atom,
        cells=2 * cells if halved else cells,
        start=2 * lattice.first - 1 if halved else lattice.first,
        bits=weight_bits(problem.delta),
        monotone=problem.monotone,
    )


def _spare(
    problem: NoiseProblem,
    program: ShiftProgram,
    lattice: Lattice,
    cells: int,
    *,
    wide: bool,
    deadline: float | None,
) -> Weights:
    """A law that loses less than delta: Laplace masses, or the program's own most private ones."""
    if problem.plain and wide:
        at = np.abs(np.arange(lattice.first, lattice.last) - lattice.mirror / 2)
        masses = np.exp(-float(problem.epsilon) * at / cells)
        return _integers(problem, lattice, masses, 0.0, cells)
    masses, atom = program.most_private(deadline)
    return _integers(problem, lattice, masses, atom, cells)


# --- the lower bound ------------------------------------------------------------------------------


def lower_bound(
    problem: NoiseProblem,
    *,
    cells: int,
    window: int,
    tolerance: float,
    deadline: float | None,
    solver: type[ShiftProgram] = ShiftProgram,
    group: int = 1,
) -> Lower:
    """What no noise can beat, from a lattice of ``cells`` steps a sensitivity.

    Events lie within ``window`` steps of zero; the masses may lie a sensitivity further out, or
    within the support when that is bounded. With a ``group`` a step is so many sensitivities
    (``cells`` is 1), and the guarantee is that of so many moves.
    """
    begun = time.monotonic()
    sides = problem if group == 1 else replace(problem, monotone=False)
    edges = by_edges(problem)
    if problem.support is None:
        reach = window + cells
    else:
        reach = window = _support_reach(problem, cells)
    last = 0 if edges else 1
    lattice = Lattice(-reach, reach + last, (-window, window + last), last - 1, cells)
    values = node_values(problem, problem.loss, reach, cells, edges=edges, group=group)
    seconds = (
        node_values(problem, problem.second[0], reach, cells, edges=edges) if problem.second else []
    )
    rows, upper, _ = _side_rows(sides, lattice, (seconds, Fraction(0)), lower=True)
    factor, delta = _moves(problem, group)
    program = solver(
        lattice,
        factor=factor,
        delta=delta,
        cost=np.array([float(a) for a in values]),
        folded=problem.folded,
        rows=rows,
        upper=upper,
    )
    deadline = _before(deadline, begun, window * cells)
    answer = program.solve(tolerance=tolerance, deadline=deadline)
    unit = 2.0 ** math.ceil(math.log2(max(abs(float(values[-1])), abs(float(values[0])), 1e-300)))
    proof = {
        **no_prices(problem, cells, reach, group),
        "unit": str(Fraction(unit)),
        "shifts": multipliers(answer.prices, -reach, unit),
        "steps": _steps(sides, answer.row_prices, reach, window, unit),
        "second_price": str(_second_price(problem, answer.row_prices)),
    }
    outside = reach - window
    padding = float(answer.masses[:outside].sum() + answer.masses[len(values) - outside :].sum())
    return proved_bound(problem, proof, values, seconds, padding)


def no_prices(problem: NoiseProblem, cells: int, reach: int, group: int = 1) -> dict[str, Any]:
    """A proof without multipliers."""
    return {
        "cells": cells,
        "reach": reach,
        "group": group,
        "edges": by_edges(problem),
        "mirrored": problem.folded,
        "bits": PRICE_BITS,
        "unit": "1",
        "shifts": [],
        "steps": None,
        "second_price": "0",
    }


def proved_bound(
    problem: NoiseProblem,
    proof: dict[str, Any],
    values: list[Fraction],
    seconds: list[Fraction],
    padding: float,
) -> Lower:
    """What the verifier reads off a proof."""
    tables = {"nodes": [str(a) for a in values]}
    second_tables = {"nodes": [str(a) for a in seconds]}
    whole = statement(problem, tables, second_tables, proof=proof)
    value = verifier.check_bound(whole, Fraction(whole["exp_high"]))
    return Lower(proof, value, padding, tables, second_tables)


def _support_reach(problem: NoiseProblem, cells: int) -> int:
    """Steps on each side that hold the support."""
    step = Fraction(1) if problem.integer else problem.sensitivity / cells
    assert problem.support is not None
    wide = problem.support / step
    return max(math.floor(wide) + 1 if by_edges(problem) else math.ceil(wide), 1)


def _moves(problem: NoiseProblem, group: int) -> tuple[float, float]:
    """The factor and the delta of a number of moves, one after the other."""
    if group == 1:
        return math.exp(problem.epsilon), float(problem.delta)
    grown = math.expm1(group * problem.epsilon)
    return 1 + grown, float(problem.delta) * grown / math.expm1(problem.epsilon)


def by_edges(problem: NoiseProblem) -> bool:
    """Whether the lower bound counts cells instead of tents: where the loss jumps."""
    if problem.integer or problem.monotone or problem.loss.jumps is None:
        return False
    return problem.second is None or problem.second[0].description["kind"] != "table"


def node_values(
    problem: NoiseProblem, loss: Loss, reach: int, cells: int, *, edges: bool, group: int = 1
) -> list[Fraction]:
    """Values at the nodes -reach..reach below the loss, or on the cells between them (edges)."""
    if problem.integer and group == 1:
        return loss.values(Fraction(1), -reach, reach + 1, up=False)
    step = group * problem.sensitivity / cells
    return loss.floors(step, reach) if edges else loss.minorant(step, reach)


# --- side constraints as rows ---------------------------------------------------------------------


def _side_rows(
    problem: NoiseProblem,
    lattice: Lattice,
    second: tuple[list[Fraction], Fraction],
    *,
    lower: bool,
) -> tuple[Any, FloatArray | None, FloatArray | None]:
    """Rows ``rows @ p <= upper``: the second loss first, then the steps outward."""
    from scipy import sparse

    blocks, upper, atoms = [], [], []
    if problem.second is not None:
        size = max(float(abs(problem.second[1])), 1e-300)
        blocks.append(sparse.csr_array(_per_position(second[0], lattice)[None, :] / size))
        upper.append(float(problem.second[1]) / size)
        atoms.append(float(second[1]) / size)
    if problem.monotone:
        steps = _step_rows(problem, lattice, lower=lower)
        blocks.append(steps)
        upper.extend([0.0] * steps.shape[0])
        atoms.extend([0.0] * steps.shape[0])
    if not blocks:
        return None, None, None
    return sparse.vstack(blocks, format="csr"), np.array(upper), np.array(atoms)


def _step_rows(problem: NoiseProblem, lattice: Lattice, *, lower: bool) -> Any:
    """p_{j+1} - p_j <= 0 to the right of zero and, unless folded, its mirror.

    A lower bound on the line replaces the middle ones by p_1 + p_{-1} - 2 p_0 <= 0.
    """
    from scipy import sparse

    joined = lower and not problem.integer
    last = lattice.window[1] - 1
    right = np.arange(1 if joined else 0, last)
    pairs = [(right, right + 1)]
    if not problem.folded:
        pairs.append((lattice.mirror - right, lattice.mirror - right - 1))
    inner = np.concatenate([a for a, _ in pairs]) - lattice.first
    outer = np.concatenate([b for _, b in pairs]) - lattice.first
    row, one = np.arange(len(inner)), np.ones(len(inner))
    shape = (len(inner), lattice.size)
    rows = sparse.csr_array((one, (row, outer)), shape=shape)
    rows = rows - sparse.csr_array((one, (row, inner)), shape=shape)
    if joined:
        middle = np.zeros((1, lattice.size))
        middle[0, np.array([-1, 0, 1]) - lattice.first] = (1.0, -2.0, 1.0)
        rows = sparse.vstack([sparse.csr_array(middle), rows], format="csr")
    return rows


def _steps(
    problem: NoiseProblem, prices: FloatArray, reach: int, window: int, unit: float
) -> dict[str, list[int]] | None:
    """Multipliers of the step rows, as a certificate stores them."""
    if not problem.monotone:
        return None
    paid = [max(int(math.ldexp(g / unit, PRICE_BITS)), 0) for g in prices.tolist()]
    paid = paid[1:] if problem.second is not None else paid
    right, left = [0] * reach, [0] * reach
    if not problem.integer:  # the middle is one constraint of both sides
        right[0] = left[0] = paid.pop(0)
    first = 0 if problem.integer else 1
    count = window - first
    right[first:window] = paid[:count]
    if not problem.folded:
        left[first:window] = paid[count : 2 * count]
    return {"right": right, "left": left}


def _second_price(problem: NoiseProblem, prices: FloatArray) -> Fraction:
    if problem.second is None:
        return Fraction(0)
    size = max(float(abs(problem.second[1])), 1e-300)
    return max(Fraction(float(prices[0]) / size), Fraction(0))


def _scale(problem: NoiseProblem, lattice: Lattice, cells: int) -> FloatArray | None:
    """The expected size of the masses when delta is small: a Laplace law, down to delta."""
    if problem.delta >= SMALL_DELTA:
        return None
    at = np.abs(np.arange(lattice.first, lattice.last) - lattice.mirror / 2)
    floor = float(problem.delta) / 10 if problem.delta else 1e-13
    return np.maximum(np.exp(-float(problem.epsilon) * at / cells), floor)
