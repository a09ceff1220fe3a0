r"""Shifts of a planar query: lattice points of a ball, and its whole boundary, certified.

Inside a grid cell the shortfall is bilinear in the shift: with corner values V_c,
:math:`V(i + u, j + v) = (1-u)(1-v)V_{ij} + u(1-v)V_{i+1,j} + (1-u)vV_{i,j+1} + uvV_{i+1,j+1}`.
Such a function is harmonic, so over the part of a cell in the ball it is largest on the boundary of
that part: at a lattice point in the ball or on the curved boundary. The boundary is covered by
boxes with dyadic corners; a bilinear function on a box is largest at a corner, so the corner values
bound V on the boundary from above, exactly, and boxes are halved until the bound is proved.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import pairwise

from tightdp.design.planar_grid import Shift

BALLS = ("l1", "l2", "linf")
_PLACES = 40  # binary places of the corners of the boxes
_FINEST = 18  # binary places of the smallest box tried
_GROWTH = {"l1": Fraction(2), "l2": Fraction(99, 70), "linf": Fraction(0)}  # 99/70 > sqrt(2)


def lattice_shifts(ball: str, radius: Fraction) -> list[Shift]:
    """Lattice points (i, j), i >= j >= 0, of a ball, without the origin.

    >>> lattice_shifts("l2", Fraction(2)), lattice_shifts("linf", Fraction(1))
    ([(1, 0), (1, 1), (2, 0)], [(1, 0), (1, 1)])
    """
    most = math.floor(radius)
    pairs = ((i, j) for i in range(1, most + 1) for j in range(i + 1))
    return [(i, j) for i, j in pairs if _inside(ball, i, j, radius)]


def _inside(ball: str, i: int, j: int, radius: Fraction) -> bool:
    if ball == "l2":
        return i * i + j * j <= radius**2
    return i + j <= radius if ball == "l1" else True


def rounded_radius(ball: str, cells: int, points: int) -> Fraction:
    r"""Radius, in cells, that holds the changes of a query rounded to ``points`` steps a cell.

    Rounding each coordinate to the grid changes a difference by less than one step along each axis,
    so it stays within radius + 2 steps (l1) or + sqrt(2) steps (l2). In the cube nothing is added:
    rounding commutes with whole steps and does not reverse the order.
    """
    return cells + _GROWTH[ball] / points


def boundary_samples(ball: str, cells: int, count: int) -> list[tuple[float, float]]:
    """Points of the boundary with x >= y >= 0, ``count`` steps for each cell that it crosses."""
    if ball == "linf":
        return []
    if ball == "l1":
        steps = [t / count for t in range(count * cells // 2 + 1)]
        return [(cells - y, y) for y in [*steps, cells / 2]]
    cuts = {0.0, math.pi / 4}
    for i in range(cells + 1):
        cuts |= {math.acos(i / cells), math.asin(i / cells)}
    angles = sorted(a for a in cuts if a <= math.pi / 4 + 1e-12)
    steps = [
        low + (high - low) * t / count
        for low, high in pairwise(angles)
        if high - low > 1e-9
        for t in range(count + 1)
    ]
    return [(cells * math.cos(a), cells * math.sin(a)) for a in steps]


def bilinear(x: float, y: float) -> Iterator[tuple[Shift, float]]:
    """Corners (i, j), i >= j >= 0, of the cell around a point and their weights."""
    i, j = math.floor(x + 1e-9), math.floor(y + 1e-9)
    u, v = max(x - i, 0.0), max(y - j, 0.0)
    for di, dj, weight in ((0, 0, (1 - u) * (1 - v)), (1, 0, u * (1 - v)), (0, 1, (1 - u) * v)):
        if weight > 1e-12:
            yield ordered(i + di, j + dj), weight
    if u * v > 1e-12:
        yield ordered(i + 1, j + 1), u * v


def ordered(i: int, j: int) -> Shift:
    """The representative of a shift under the symmetries of the square."""
    i, j = abs(i), abs(j)
    return (i, j) if i >= j else (j, i)


class BoundaryCover:
    """Proves ``V <= most`` on the boundary of a ball, from the values at lattice points."""

    def __init__(self, ball: str, radius: Fraction) -> None:
        self.ball, self.one = ball, 1 << _PLACES
        self.radius = math.ceil(radius * self.one)
        self.boxes = 0

    def holds(self, value: Callable[[Shift], int], most: int) -> bool:
        """Whether the shortfall, ``value`` at lattice points, is proved to be <= most."""
        if self.ball == "linf":
            return True  # straight edges on grid lines: affine between lattice points
        end = self.radius // 2 if self.ball == "l1" else math.isqrt(self.radius**2 // 2)
        end += 1  # the boundary with y <= x has y <= end
        rows = [*range(0, end, self.one), end]
        todo = list(pairwise(rows))
        scaled = most * self.one * self.one
        while todo:
            low, high = todo.pop()
            self.boxes += 1
            if self._top(low, high, value) <= scaled:
                continue
            if high - low <= self.one >> _FINEST:
                return False
            middle = (low + high) // 2
            todo += [(low, middle), (middle, high)]
        return True

    def _across(self, y: int) -> tuple[int, int]:
        """x on the boundary at y, rounded down and up."""
        if self.ball == "l1":
            return self.radius - y, self.radius - y
        x = math.isqrt(max(self.radius**2 - y * y, 0))
        return x, x + 1

    def _top(self, low: int, high: int, value: Callable[[Shift], int]) -> int:
        """The largest corner value of the box of one piece, cut at the grid lines inside it."""
        left, right = self._across(high)[0], self._across(low)[1]
        lines = range(left // self.one + 1, -(-right // self.one))
        cuts = [left, *(i * self.one for i in lines), right]
        row = low // self.one
        return max(self._at(x, y, row, value) for x in cuts for y in (low, high))

    def _at(self, x: int, y: int, row: int, value: Callable[[Shift], int]) -> int:
        column = x // self.one
        u, v = x - column * self.one, y - row * self.one
        total = 0
        for di, along in ((0, self.one - u), (1, u)):
            for dj, up in ((0, self.one - v), (1, v)):
                if along and up:
                    total += along * up * value(ordered(column + di, row + dj))
        return total
