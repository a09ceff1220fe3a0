r"""Fine lattices that nobody has to list: a coarse look at a cube, then finer ones near its answer.

A lattice that is fine beside the noise of many rows has more points than a draw can go through.
So a point is drawn from a coarse lattice of the whole cube first, for a small part of epsilon, and
then from a finer lattice of a small cube around it, and so on. Each lattice has so few points that
all of them can be gone through once. The looks are planned from public facts alone.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

from tightdp.errors import InfeasibleSamplingError, fail
from tightdp.exact.listed_points import MOST_POINTS, Point, finest_bits

MOST_STEPS = 1 << 37  # points times rows, at worst, in one look
FEWEST_POINTS = 1 << 17  # a look at fewer says too little, however many rows there are
_COARSEST = 2  # bits of the first lattice, at least
_SHARE = Fraction(1, 3)  # of epsilon, at most, for all looks but the last
_FIRM = 600  # epsilon times rows with which a look tells shares of a few percent of the rows apart
_FIRST = Fraction(
    1, 10
)  # of epsilon, at least, for the first of several: it decides between places
_ROOM = 3  # errors of a look that its answer's cube has room for on every side


@dataclass(frozen=True, slots=True)
class LatticeLook:
    """One lattice: multiples of ``2**-grid`` within ``half`` of them of the answer before.

    The first look has the whole cube [-1, 1]^d, and no half.
    """

    grid: int
    half: int | None
    epsilon: Fraction

    def cube(
        self, dim: int, before: LatticeLook | None, answer: Point | None
    ) -> tuple[Point, Point]:
        """The corners of the cube, in steps of this lattice, cut at the ends of the whole one."""
        edge = 1 << self.grid
        if before is None or answer is None or self.half is None:
            return (-edge,) * dim, (edge,) * dim
        middle = [z << (self.grid - before.grid) for z in answer]
        low = tuple(max(-edge, z - self.half) for z in middle)
        return low, tuple(min(edge, z + self.half) for z in middle)


def default_points(rows: int) -> int:
    """How many points a look may have by default: fewer where every one has many rows to look at.

    >>> default_points(1000) == 1 << 23, default_points(10**5), default_points(10**9) == 1 << 17
    (True, 1374389, True)
    """
    return max(FEWEST_POINTS, min(MOST_POINTS, MOST_STEPS // rows))


def plan_looks(
    dim: int, rows: Fraction, epsilon: Fraction, *, grid: int | None, finest: int, most: int
) -> tuple[LatticeLook, ...]:
    r"""The looks for sums of unit vectors over rows, from public facts.

    The error of a look is about :math:`4d/(\kappa \epsilon n)` for a sum whose slope is
    :math:`\kappa n`; :math:`\kappa = 1` is that of rows that fill a cube of half-width 1. Each look
    but the last gets as much of epsilon as makes three such errors fit into the cube of the next.
    Looks are added while that takes no more than a third of epsilon and the lattice is coarse
    beside the error. The first of several looks gets a tenth at least: where rows have two centres
    far apart, it decides, and no later one can take it back.

    Parameters
    ----------
    rows : Fraction
        The public number of persons.
    grid : int, optional
        Bits of the last lattice; by default as many as make sense.
    finest : int
        The most bits there may be.
    most : int
        Points of every lattice, at most.

    Examples
    --------
    >>> [(look.grid, look.half) for look in plan_looks(
    ...     3, Fraction(10**5), Fraction(1), grid=None, finest=24, most=10**6)]
    [(5, None), (8, 32), (11, 32), (14, 32)]
    """
    first = finest_bits(dim, most, upto=finest)
    if first < _COARSEST:
        fail(
            f"`most_points` = {most} makes no lattice of {dim} columns: a draw may have to look at "
            f"each point, and the coarsest has {((1 << _COARSEST + 1) + 1) ** dim}. State so many, "
            "or name fewer columns.",
            InfeasibleSamplingError,
        )
    gain = max(1, first - (3 if first >= 6 else 2))  # the next cube has 4 to 8 steps of this one
    told = rows * epsilon
    needs = [
        max(Fraction(_FIRM), Fraction(4 * dim * _ROOM << gain * j)) for j in range(1, finest + 1)
    ]
    if grid is None:
        wanted, looks = math.ceil(told / 16).bit_length(), 1  # a step is a fraction of the error
        while first + gain * (looks - 1) < wanted and sum(needs[:looks]) <= told * _SHARE:
            looks += 1
        grid = min(max(wanted + 10, 10), first + gain * (looks - 1), finest)
    looks = 1 + max(0, -(-(grid - first) // gain))
    parts = [need / rows for need in needs[: looks - 1]]
    parts[:1] = [max(part, _FIRST * epsilon) for part in parts[:1]]
    if sum(parts) > epsilon * _SHARE:
        parts = [part * epsilon * _SHARE / sum(parts) for part in parts]
    parts.append(epsilon - sum(parts))  # epsilons add up
    grids = [min(first + gain * j, grid) for j in range(looks)]
    halves = [None, *(1 << (g - gain * j) for j, g in enumerate(grids[1:], 1))]
    return tuple(LatticeLook(*look) for look in zip(grids, halves, parts, strict=True))
