r"""The worst event of a noise on any partition, found exactly.

This is Algorithm 2 of Selvi and others (2025).

For a shift s the largest shortfall is reached on the set where the density exceeds
:math:`e^\epsilon` times the moved one. Between shifts at which break points meet it is affine in s,
so those shifts and the sensitivity itself are enough. No solver and no float takes part.
"""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import pairwise
from typing import Any

from tightdp.accepted import Number
from tightdp.design.rounding import exponential
from tightdp.errors import DimensionError, check_count, check_list, exact_fraction, fail
from tightdp.noise.law import check_sensitivity
from tightdp.parameters import tells_arguments
from tightdp.privacy import check_epsilon


@dataclass(frozen=True)
class WorstEvent:
    """A shift, an upper bound of its shortfall within 2**-60, and the intervals of its event.

    Made by :func:`worst_event`.

    >>> worst_event([0, 1], [1], epsilon=1, sensitivity=Fraction(1, 2)).intervals
    ((Fraction(1, 2), Fraction(1, 1)),)
    """

    shift: Fraction
    shortfall: Fraction
    intervals: tuple[tuple[Fraction, Fraction], ...]


@tells_arguments
def worst_event(
    edges: Sequence[Any],
    weights: Sequence[int],
    *,
    epsilon: Number,
    sensitivity: Number = 1,
    atom: int = 0,
) -> WorstEvent:
    """The shift up to the sensitivity that loses most, and where.

    Parameters
    ----------
    edges : increasing numbers
        Break points; cell j lies between edges j and j + 1.
    weights : sequence of int
        One for each cell, spread evenly over it.
    atom : int
        Weight of an atom at zero, which no other atom ever covers.

    Examples
    --------
    >>> found = worst_event([-1, 0, 1], [1, 1], epsilon=1, sensitivity=1)
    >>> found.shift, found.shortfall
    (Fraction(-1, 1), Fraction(1, 2))
    """
    points = [exact_fraction("edges", x) for x in check_list("edges", edges, "numbers")]
    masses = [
        check_count("weights", w, least=0) for w in check_list("weights", weights, "integers")
    ]
    if any(x >= y for x, y in pairwise(points)) or len(points) != len(masses) + 1:
        fail("`edges` must increase, one more than there are `weights`.", DimensionError)
    factor = exponential(check_epsilon(epsilon))[0]
    most = check_sensitivity(sensitivity)[1]
    differences = {a - b for a in points for b in points}
    shifts = sorted({s for s in differences if 0 < abs(s) < most} | {most, -most})
    total = sum(masses) + check_count("atom", atom, least=0)
    if not total:
        fail("`weights` and `atom` must not all be 0: there is no such law.")
    # Every shift is compared: the one that loses most may be any of them (E40).
    found = [_of_shift(points, masses, total, factor, shift) for shift in shifts]
    worst = max(found, key=lambda event: event.shortfall)
    if atom == 0:
        return worst
    at_zero = (Fraction(0), Fraction(0))
    lost = worst.shortfall + Fraction(atom, total)
    return WorstEvent(worst.shift, lost, (at_zero, *worst.intervals))


def _of_shift(
    points: list[Fraction], masses: list[int], total: int, factor: Fraction, shift: Fraction
) -> WorstEvent:
    """Merge the break points with the moved ones and keep the pieces that lose."""
    first, last = points[0], points[-1]
    moved = (x + shift for x in points)
    cuts = sorted({*points, *(x for x in moved if first < x < last)})
    lost, kept = Fraction(0), []
    for low, high in pairwise(cuts):
        excess = _density(points, masses, low) - factor * _density(points, masses, low - shift)
        if excess > 0:
            lost += excess * (high - low)
            kept.append((low, high))
    return WorstEvent(shift, lost / total, tuple(kept))


def _density(points: list[Fraction], masses: list[int], x: Fraction) -> Fraction:
    """Weight per length in the cell [edge, next edge) that holds x."""
    j = bisect_right(points, x) - 1
    if not 0 <= j < len(masses):
        return Fraction(0)
    return Fraction(masses[j]) / (points[j + 1] - points[j])
