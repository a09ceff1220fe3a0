r"""Shifts of a query with several entries: lattice points of a ball, and all of it, certified.

Inside a unit cell of shifts the shortfall is *multilinear*: the mean of its values at the corners
with the weights :math:`\prod_a u_a` or :math:`1 - u_a`. Such a function is harmonic on the cell and
on each of its faces, so over the part of a cell in the ball it is largest at a lattice point in the
ball or on the curved boundary.

The boundary is covered by boxes. Let B be one, n a direction and s at least the largest
:math:`n \cdot \phi` over the ball. For any :math:`\mu \ge 0` the function
:math:`V(\phi) - \mu (n \cdot \phi - s)` is at least V on the ball, and it is multilinear: over B it
is largest at a corner. So V is at most a bound on all of B within the ball if there is one
:math:`\mu` with which all corners are; the error is of second order in the size of the box, which
is halved until the bound is proved. Standard library only, integers only.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from itertools import combinations, combinations_with_replacement, product

Shift = tuple[int, ...]
Box = tuple[tuple[int, int], ...]

BALLS = ("l1", "l2", "linf")
_PLACES = 40  # binary places of the corners of the boxes
_FINEST = 18  # binary places of the smallest box tried
_MOST_BOXES = 1 << 17  # a proof that needs more is given up
_NORMAL = 12  # binary places of a direction


def gauge_within(ball: str, point: Sequence[int | Fraction], radius: int | Fraction) -> bool:
    """Whether a point with entries >= 0 lies in a ball.

    >>> gauge_within("l2", (2, 2, 1), 3), gauge_within("l1", (2, 2, 1), 3)
    (True, False)
    """
    if ball == "l2":
        return sum(x * x for x in point) <= radius * radius
    return (sum(point) if ball == "l1" else max(point)) <= radius


def lattice_shifts(ball: str, radius: Fraction, dim: int = 2) -> list[Shift]:
    """Lattice points of a ball, without the origin, whose entries fall and are >= 0.

    >>> lattice_shifts("l2", Fraction(2)), lattice_shifts("linf", Fraction(1), 3)
    ([(1, 0), (1, 1), (2, 0)], [(1, 0, 0), (1, 1, 0), (1, 1, 1)])
    """
    most = math.floor(radius)
    points = combinations_with_replacement(range(most, -1, -1), dim)
    return sorted(p for p in points if p[0] and gauge_within(ball, p, radius))


def rounded_radius(ball: str, cells: int, points: int, dim: int = 2) -> Fraction:
    r"""Radius, in cells, that holds the changes of a query rounded to ``points`` steps a cell.

    Rounding each entry to the grid changes a difference by less than one step along each axis, so
    it stays within radius + dim steps (l1) or + sqrt(dim) steps (l2). In the cube nothing is added:
    rounding commutes with whole steps and does not reverse the order. What is added is rounded up
    to a binary fraction.
    """
    if ball == "linf":
        return Fraction(cells)
    one = 1 << _PLACES
    steps = dim * one if ball == "l1" else math.isqrt(dim * one * one) + 1
    return cells + Fraction(-(-steps // points), one)


def ordered(point: Sequence[int]) -> Shift:
    """The representative of a shift under the symmetries of the cube.

    >>> ordered((-1, 3, 0))
    (3, 1, 0)
    """
    return tuple(sorted(map(abs, point), reverse=True))


class BoundaryCover:
    """Proves ``V <= most`` on the boundary of a ball, from the values at lattice points.

    ``symmetric`` says that the order of the entries does not matter: then points with falling
    entries are enough.
    """

    def __init__(
        self, ball: str, radius: Fraction, dim: int = 2, *, symmetric: bool = True
    ) -> None:
        self.ball, self.dim, self.symmetric = ball, dim, symmetric
        self.one = 1 << _PLACES
        self.radius = math.ceil(radius * self.one)
        self.boxes = 0

    def holds(self, value: Callable[[Shift], int], most: int) -> bool:
        """Whether the shortfall, ``value`` at lattice points, is proved to be <= most."""
        if self.ball == "linf":
            return True  # faces on grid lines: multilinear between lattice points
        todo = list(self._cells())
        while todo:
            cell, box = todo.pop()
            self.boxes += 1
            if not self._meets(box) or self._below(cell, box, value, most):
                continue
            longest = max(range(self.dim), key=lambda a: box[a][1] - box[a][0])
            low, high = box[longest]
            if high - low <= self.one >> _FINEST or self.boxes > _MOST_BOXES:
                return False
            middle = (low + high) // 2
            before, after = box[:longest], box[longest + 1 :]
            todo += [(cell, (*before, part, *after)) for part in ((low, middle), (middle, high))]
        return True

    def _cells(self) -> Iterator[tuple[Shift, Box]]:
        """The unit cells up to the radius."""
        for cell in product(range(-(-self.radius // self.one)), repeat=self.dim):
            box = tuple((i * self.one, (i + 1) * self.one) for i in cell)
            if self._meets(box):
                yield cell, box

    def _meets(self, box: Box) -> bool:
        """Whether a box may hold points of the boundary, with falling entries if that is enough."""
        if self.symmetric and any(a[1] < b[0] for a, b in combinations(box, 2)):
            return False
        low, high = [a[0] for a in box], [a[1] for a in box]
        inside = gauge_within(self.ball, high, self.radius - 1)
        return gauge_within(self.ball, low, self.radius) and not inside

    def _normal(self, box: Box) -> tuple[Sequence[int], int]:
        """A direction n, and at least the largest n . phi over the ball."""
        if self.ball == "l1":
            return (1,) * self.dim, self.radius
        n = [(low + high) >> (_PLACES + 1 - _NORMAL) for low, high in box]
        return n, math.isqrt(self.radius**2 * sum(x * x for x in n)) + 1

    def _below(self, cell: Shift, box: Box, value: Callable[[Shift], int], most: int) -> bool:
        """Whether some mu proves V <= most on the part of the box in the ball."""
        n, s = self._normal(box)
        scaled = most * self.one**self.dim
        least, largest = Fraction(0), None  # what mu must lie between
        for corner in product(*box):
            spare = scaled - self._at(cell, corner, value)
            beyond = sum(a * x for a, x in zip(n, corner, strict=True)) - s
            if beyond > 0:
                least = max(least, Fraction(-spare, beyond))
            elif spare < 0:
                return False
            elif beyond < 0:
                room = Fraction(spare, -beyond)
                largest = room if largest is None else min(largest, room)
        return largest is None or least <= largest

    def _at(self, cell: Shift, corner: Shift, value: Callable[[Shift], int]) -> int:
        """The interpolated value at a point of a cell, times one**dim."""
        total = 0
        parts = [x - i * self.one for i, x in zip(cell, corner, strict=True)]
        for step in product((0, 1), repeat=self.dim):
            weight = math.prod(u if d else self.one - u for d, u in zip(step, parts, strict=True))
            if weight:
                point = tuple(i + d for i, d in zip(cell, step, strict=True))
                total += weight * value(ordered(point) if self.symmetric else point)
        return total
