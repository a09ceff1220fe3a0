"""Both sides of the sandwich on one grid: solved in floats, proved in integers."""

from __future__ import annotations

import math
from dataclasses import dataclass
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
MARGIN = 1e-8  # and the solver, whose tolerance is not small against delta, is kept this far away


@dataclass(frozen=True)
class Upper:
    """A noise, its exact expected loss, and the mass of its outermost cells in units of delta."""

    noise: dict[str, Any]
    value: Fraction
    outer: float
    tables: dict[str, Any]
    second_tables: dict[str, Any]


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
    lattice = Lattice(
        first=-reach,
        last=reach + (1 if centred else 0),
        window=(-reach, reach + (1 if centred else 0)),
        mirror=0 if centred else -1,
        shifts=cells,
    )
    costs, at_zero = _costs(problem, problem.loss, lattice, cells)
    seconds = (
        _costs(problem, problem.second[0], lattice, cells) if problem.second else ([], at_zero)
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
    answer = program.solve(tolerance=tolerance, deadline=deadline)
    law = _integers(problem, lattice, answer.masses, answer.atom, cells)
    spare = _spare(problem, program, lattice, cells, wide=groups is None)
    law_found = repaired(problem, law, spare, (seconds[0], seconds[1]))
    if law_found is None:
        fail("The noise could not be repaired on this grid.", InfeasibleError)
    tables = {"cells": [str(c) for c in costs], "at_zero": str(at_zero)}
    second_tables = {"cells": [str(c) for c in seconds[0]], "at_zero": str(seconds[1])}
    whole = statement(problem, tables, second_tables, noise=law_found.document())
    value = verifier.check_noise(whole, Fraction(whole["exp_low"]))
    edge = max(cells // 2, 1)
    outer = float(answer.masses[:edge].sum() + answer.masses[-edge:].sum()) / float(problem.delta)
    return Upper(law_found.document(), value, outer, tables, second_tables)


def _costs(
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
    problem: NoiseProblem, program: ShiftProgram, lattice: Lattice, cells: int, *, wide: bool
) -> Weights:
    """A law that loses less than delta: Laplace masses, or the program's own most private ones."""
    if problem.plain and wide:
        at = np.abs(np.arange(lattice.first, lattice.last) - lattice.mirror / 2)
        masses = np.exp(-float(problem.epsilon) * at / cells)
        return _integers(problem, lattice, masses, 0.0, cells)
    masses, atom = program.most_private()
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
) -> Lower:
    """What no noise can beat, from a lattice of ``cells`` steps a sensitivity.

    Events lie within ``window`` steps of zero; the masses may lie a sensitivity further out, or
    within the support when that is bounded.
    """
    edges = by_edges(problem)
    if problem.support is None:
        reach = window + cells
    else:
        step = Fraction(1) if problem.integer else problem.sensitivity / cells
        wide = problem.support / step
        reach = window = max(math.floor(wide) + 1 if edges else math.ceil(wide), 1)
    last = 0 if edges else 1
    lattice = Lattice(-reach, reach + last, (-window, window + last), last - 1, cells)
    values = _node_values(problem, problem.loss, reach, cells)
    seconds = _node_values(problem, problem.second[0], reach, cells) if problem.second else []
    rows, upper, _ = _side_rows(problem, lattice, (seconds, Fraction(0)), lower=True)
    program = solver(
        lattice,
        factor=math.exp(problem.epsilon),
        delta=float(problem.delta),
        cost=np.array([float(a) for a in values]),
        folded=problem.folded,
        rows=rows,
        upper=upper,
    )
    answer = program.solve(tolerance=tolerance, deadline=deadline)
    unit = 2.0 ** math.ceil(math.log2(max(abs(float(values[-1])), abs(float(values[0])), 1e-300)))
    tables = {"nodes": [str(a) for a in values]}
    second_tables = {"nodes": [str(a) for a in seconds]}
    proof = {
        "cells": cells,
        "reach": reach,
        "edges": edges,
        "mirrored": problem.folded,
        "bits": PRICE_BITS,
        "unit": str(Fraction(unit)),
        "shifts": multipliers(answer.prices, -reach, unit),
        "steps": _steps(problem, answer.row_prices, reach, window, unit),
        "second_price": str(_second_price(problem, answer.row_prices)),
    }
    whole = statement(problem, tables, second_tables, proof=proof)
    value = verifier.check_bound(whole, Fraction(whole["exp_high"]))
    outside = reach - window
    padding = float(answer.masses[:outside].sum() + answer.masses[len(values) - outside :].sum())
    return Lower(proof, value, padding, tables, second_tables)


def by_edges(problem: NoiseProblem) -> bool:
    """Whether the lower bound counts cells instead of tents: where the loss jumps."""
    if problem.integer or problem.monotone or problem.loss.jumps is None:
        return False
    return problem.second is None or problem.second[0].description["kind"] != "table"


def _node_values(problem: NoiseProblem, loss: Loss, reach: int, cells: int) -> list[Fraction]:
    if problem.integer:
        return loss.values(Fraction(1), -reach, reach + 1, up=False)
    if by_edges(problem):
        return loss.floors(problem.sensitivity / cells, reach)
    return loss.minorant(problem.sensitivity / cells, reach)


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
