"""The best noise at delta = 0: a staircase whose core is searched."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

from tightdp.design import verifier
from tightdp.design.bounds import Upper, statement
from tightdp.design.problem import NoiseProblem
from tightdp.errors import fail

_STEPS = 60


def staircase(problem: NoiseProblem) -> Upper:
    """The staircase law with the least expected loss, certified.

    Geng and Viswanath (2015): for symmetric losses that grow outward the best epsilon-private noise
    is of this family. Nothing rests on that here: the lattice bound proves how good it is.
    """
    if problem.loss.description["kind"] != "sides" or not problem.loss.symmetric:
        fail("`delta` must be > 0 for this loss: delta = 0 needs l1, l2 or an integer power.")
    if not problem.plain:
        fail("`delta` must be > 0 with `support` or `second_loss`: at 0 the noise is unbounded.")

    def cost(noise: dict[str, Any]) -> Fraction:
        whole = statement(problem, {}, {}, kind="staircase", noise=noise)
        return verifier.check_noise(whole, Fraction(whole["exp_low"]))

    noise: dict[str, Any]
    if problem.integer:
        noise = {"core": _least_core(problem, lambda core: cost({"core": core}))}
    else:
        noise = {"core_share": str(_least_share(cost))}
    return Upper(noise, cost(noise), 0.0, {}, {}, "staircase")


def _least_core(problem: NoiseProblem, cost: Any) -> int:
    """Ternary search: the loss falls, then rises, with the core."""
    low, high = 1, int(problem.sensitivity)
    while high - low > 2:
        third = (high - low) // 3
        left, right = low + third, high - third
        low, high = (low, right) if cost(left) <= cost(right) else (left, high)
    return min(range(low, high + 1), key=cost)


def _least_share(cost: Any) -> Fraction:
    """Golden section on a float; any share gives a valid bound."""
    golden = (math.sqrt(5) - 1) / 2
    low, high = 1e-9, 1 - 1e-9

    def at(share: float) -> Fraction:
        return cost({"core_share": str(Fraction(share))})

    left, right = high - golden * (high - low), low + golden * (high - low)
    cost_left, cost_right = at(left), at(right)
    for _ in range(_STEPS):
        if cost_left <= cost_right:
            high, right, cost_right = right, left, cost_left
            left = high - golden * (high - low)
            cost_left = at(left)
        else:
            low, left, cost_left = left, right, cost_right
            right = low + golden * (high - low)
            cost_right = at(right)
    return Fraction((low + high) / 2)
