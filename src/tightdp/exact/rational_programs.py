r"""Linear programs of a few variables in exact integers: a vertex that is best, and proved to be.

Solvers that round are fast and decide nothing that privacy rests on. Here a polytope of up to five
dimensions or so, given by integer inequalities, is walked from vertex to vertex without rounding.
Nothing here knows about data or budgets.
"""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from itertools import combinations
from math import lcm

from tightdp.errors import DataError, fail
from tightdp.exact.integer_matrices import Matrix, Vector, adjugate, dot

Rational = tuple[Fraction, ...]


class SmallPolytope:
    r"""The bounded set of x with :math:`a_i \cdot x \le b_i`, and its best vertices.

    The rule of Bland (1977), the first row that improves leaves and the first that blocks enters,
    visits no basis twice: a program over m rows in d variables ends after at most
    :math:`\binom{m}{d}` steps, whatever the numbers.

    Parameters
    ----------
    rows : list of lists of int
    right : list of int
    inside : sequence of Fraction
        A point of the set.

    Examples
    --------
    >>> square = SmallPolytope([[1, 0], [-1, 0], [0, 1], [0, -1]], [3, 0, 5, 1], [Fraction(1)] * 2)
    >>> [str(x) for x in square.best([1, 1])], [str(x) for x in square.best([-2, 1])]
    (['3', '5'], ['0', '5'])
    """

    def __init__(self, rows: Matrix, right: Vector, inside: Sequence[Fraction]) -> None:
        self.rows, self.right, self.dim = rows, right, len(rows[0])
        self._basis = self._first(list(inside))

    def best(self, goal: Vector) -> Rational:
        """A vertex at which ``goal . x`` is largest."""
        while True:
            basis = self._basis
            inverse, det = adjugate([self.rows[i] for i in basis])
            prices = [dot(goal, column) for column in zip(*inverse, strict=True)]
            worse = [(basis[k], k) for k in range(self.dim) if prices[k] < 0]
            active = [self.right[i] for i in basis]
            place = [dot(row, active) for row in inverse]  # times det
            if not worse:
                return tuple(Fraction(p, det) for p in place)
            leaving = min(worse)[1]
            way = [-row[leaving] for row in inverse]
            entering = self._blocking(place, det, way)[1]
            self._basis = [entering if k == leaving else i for k, i in enumerate(basis)]

    def _blocking(self, place: Vector, det: int, way: Vector) -> tuple[Fraction, int]:
        """How far one can go from place / det, and the first row that stops it."""
        steps = [
            (Fraction(b * det - dot(row, place), speed), i)
            for i, (row, b) in enumerate(zip(self.rows, self.right, strict=True))
            if (speed := dot(row, way)) > 0
        ]
        if not steps:
            fail("The polytope is not bounded.", DataError)
        return min(steps)

    def _first(self, x: list[Fraction]) -> list[int]:
        """The rows of a vertex: from a point, along what is free, until nothing is."""
        basis: list[int] = []
        while len(basis) < self.dim:
            way = free_direction([self.rows[i] for i in basis], self.dim)
            den = lcm(*(v.denominator for v in x))
            step, row = self._blocking([int(v * den) for v in x], den, way)
            x = [v + step / den * w for v, w in zip(x, way, strict=True)]
            basis.append(row)
        return basis


def free_direction(rows: Matrix, dim: int) -> Vector:
    """An integer vector, not zero, that is orthogonal to fewer than ``dim`` independent rows.

    >>> free_direction([[1, 1, 0], [0, 1, 1]], 3)
    [1, -1, 1]
    """
    missing = dim - len(rows)
    for axes in combinations(range(dim), missing):
        units = [[int(j == axis) for j in range(dim)] for axis in axes]
        inverse, det = adjugate([*rows, *units])
        if det:
            return [row[-1] for row in inverse]
    fail("The rows are not independent.", DataError)
