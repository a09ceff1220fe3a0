"""From a solver's floats to integers that prove something.

Weights are rounded down and what is missing goes to the centre; if the rounded law loses more than
delta, it is mixed with a law that loses less, until integers say that it fits. Multipliers are
rounded down and clipped: whatever they are, the bound they give holds.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.design import exact_numbers, verifier
from tightdp.design.problem import NoiseProblem
from tightdp.errors import FloatArray

FAST_BITS = 61  # totals below 2**62 are drawn by whole arrays
PRICE_BITS = 60


@dataclass(frozen=True)
class Weights:
    """Integer weights of cells (or of integers), ``cells`` of them to a sensitivity."""

    cells: int
    start: int
    weights: tuple[int, ...]
    atom: int
    total: int

    def document(self) -> dict[str, Any]:
        """As a certificate stores it."""
        return {
            "cells": self.cells,
            "start": self.start,
            "atom": self.atom,
            "total": self.total,
            "weights": list(self.weights),
        }


def exponential(epsilon: Fraction) -> tuple[Fraction, Fraction]:
    """Rationals with denominator 2**64 below and above e**epsilon."""
    below, above = exact_numbers.exp_bounds(epsilon)
    one = 1 << 64
    return Fraction(math.floor(below * one), one), Fraction(math.ceil(above * one), one)


def weight_bits(delta: Fraction) -> int:
    """Enough bits that rounding is small against delta."""
    extra = 0 if delta == 0 else max(0, math.ceil(math.log2(1 / delta)) - 10)
    return FAST_BITS if extra <= 10 else FAST_BITS + extra


def rounded(
    masses: FloatArray, atom: float, *, cells: int, start: int, bits: int, monotone: bool
) -> Weights:
    """Floors over 2**bits; the rest goes to the middle, evenly when the masses are symmetric."""
    whole = (float(masses.sum()) + atom) * (1 + 2.0**-44)  # floats round: never above the total
    if monotone:
        masses = falling(masses, start, cells)
    floor = [int(math.ldexp(p / whole, bits)) for p in masses.tolist()]
    heavy = 2 * int(math.ldexp(atom / whole, bits - 1))  # even, so that the rest is
    return filled(floor, heavy, cells=cells, start=start, total=1 << bits)


def filled(floor: list[int], atom: int, *, cells: int, start: int, total: int) -> Weights:
    """Weights that sum to the total: the rest goes to the cells (or the integer) at zero."""
    rest = total - atom - sum(floor)
    right = min(max(-start, 0), len(floor) - 1)
    centred = 2 * start + len(floor) == 1  # integers: one of them is zero
    left = right if centred or right == 0 else right - 1
    floor[left] += rest - rest // 2
    floor[right] += rest // 2
    return Weights(cells, start, tuple(floor), atom, total)


def falling(masses: FloatArray, start: int, cells: int) -> FloatArray:
    """The largest masses below the given ones that do not rise away from zero."""
    del cells
    middle = min(max(-start, 0), len(masses))
    one = 2 * start + len(masses) == 1
    right = np.minimum.accumulate(masses[middle:])
    left = np.minimum.accumulate(masses[: middle + one][::-1])[::-1]
    return np.concatenate([left[: len(left) - one], right])


def mixed(law: Weights, other: Weights, share: Fraction) -> Weights:
    """(1 - share) law + share other, rounded down and filled up; the same cells and total."""
    top, bottom = share.numerator, share.denominator
    keep = bottom - top
    floor = [
        (a * keep + b * top) // bottom for a, b in zip(law.weights, other.weights, strict=True)
    ]
    atom = (law.atom * keep + other.atom * top) // (2 * bottom) * 2
    return filled(floor, atom, cells=law.cells, start=law.start, total=law.total)


def lost(law: Weights, factor: Fraction) -> Fraction:
    """The atom and the worst shortfall of shifts up to the sensitivity."""
    weights = list(law.weights)
    most = min(law.cells, len(weights))
    worst = max(verifier.shortfall(weights, m, factor) for m in range(1, most + 1))
    return (worst + law.atom) / law.total


def repaired(
    problem: NoiseProblem, law: Weights, spare: Weights, second: tuple[list[Fraction], Fraction]
) -> Weights | None:
    """The law, mixed with as little of ``spare`` as makes it private; None if spare is not.

    ``second`` holds the second loss of the cells and of the atom, when there is one.
    Both sides are convex: a share of (V - delta)/(V - V(spare)) is enough but for rounding.
    """
    factor = exponential(problem.epsilon)[0]

    def spent(at: Weights) -> list[tuple[Fraction, Fraction]]:
        out = [(lost(at, factor), problem.delta)]
        if problem.second is not None:
            each = sum((w * c for w, c in zip(at.weights, second[0], strict=True)), Fraction(0))
            out.append(((each + at.atom * second[1]) / at.total, problem.second[1]))
        return out

    here = spent(law)
    if all(value <= most for value, most in here):
        return law
    there = spent(spare)
    if any(value >= most for value, most in there):
        return None
    share = max(
        (value - most) / (value - other)
        for (value, most), (other, _) in zip(here, there, strict=True)
        if value > most
    )
    while share < 1:
        share = Fraction(math.ceil(share * (1 << 80)) + (1 << 12), 1 << 80)
        found = mixed(law, spare, min(share, Fraction(1)))
        if all(value <= most for value, most in spent(found)):
            return found
        share *= Fraction(3, 2)
    return spare


def multipliers(
    prices: dict[int, tuple[float, FloatArray]], first: int, unit: float
) -> list[dict[str, Any]]:
    """Integers over 2**60, in a unit: prices rounded up, multipliers down and clipped."""
    out = []
    for shift, (price, each) in sorted(prices.items()):
        paid = [max(int(math.ldexp(y / unit, PRICE_BITS)), 0) for y in each.tolist()]
        most = max(math.ceil(math.ldexp(price / unit, PRICE_BITS)), 0)
        used = [i for i, y in enumerate(paid) if y]
        if not used or most == 0:
            continue
        low, high = used[0], used[-1] + 1
        out.append(
            {
                "shift": int(shift),
                "price": most,
                "start": first + low,
                "multipliers": [min(y, most) for y in paid[low:high]],
            }
        )
    return out
