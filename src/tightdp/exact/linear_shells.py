r"""Exact draws from :math:`e^{-r\lVert T - Sz\rVert_\infty}` in a bounded number of proposals.

The exponent is convex, so a law of any shape, however thin and at whatever angle, fits into nested
parallelepipeds that are not much larger than it: how much larger depends on the dimension alone.
Programs in exact integers find them; points of them are proposed and kept by a coin. Nothing here
knows about data or budgets, and nothing rounds.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import product
from math import ceil, e, exp, factorial, floor, inf, lcm, log

import numpy as np

from tightdp.errors import WideIntegers
from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.integer_matrices import CubeRounder, Matrix, Vector, adjugate
from tightdp.exact.rational_programs import Rational, SmallPolytope, free_direction
from tightdp.exact.rejection import until_accepted
from tightdp.exact.undecided_bits import coin_exp
from tightdp.randomness import RandomSource

MOST_PROPOSALS = 1 << 20  # expected, at worst: about a minute
_GROWTH = Fraction(17, 16)  # a corner of the simplex is exchanged for one so much farther away
_FINE = 1 << 12  # rounding the coordinates to integers costs one part in so many
_GUARD = 24


class CoefficientLattice:
    """Integer points of size at most ``edge`` each (box) or together (l1), with their levels."""

    def __init__(
        self, matrix: Matrix, target: Vector, *, edge: int, l1: bool, rate: Fraction
    ) -> None:
        self.matrix, self.target, self.edge, self.l1, self.rate = matrix, target, edge, l1, rate
        self.dim = len(target)

    def level(self, z: Vector) -> int:
        """The largest entry of T - S z."""
        return max(
            abs(t - sum(s * v for s, v in zip(row, z, strict=True)))
            for row, t in zip(self.matrix, self.target, strict=True)
        )

    def inside(self, z: Vector) -> bool:
        """Whether a point can be drawn."""
        sizes = [abs(v) for v in z]
        return (sum(sizes) if self.l1 else max(sizes)) <= self.edge

    def floor(self) -> int:
        """A lower bound of all levels, by weak duality.

        For every integer vector y and all z of the lattice, ``|y|_1 level(z) >= y.(T - S z)``,
        which is at least y.T - edge * (the dual norm of S y).
        """
        best = 0
        trials = [[int(i == j) for j in range(self.dim)] for i in range(self.dim)]
        trials.append(self.target)
        for y in trials:
            size = sum(map(abs, y))
            image = [
                abs(sum(s * v for s, v in zip(column, y, strict=True)))
                for column in zip(*self.matrix, strict=True)
            ]
            cost = self.edge * (max(image) if self.l1 else sum(image))
            value = abs(sum(t * v for t, v in zip(self.target, y, strict=True))) - cost
            best = max(best, value // size if size else 0)
        return best

    def steepness(self) -> Fraction:
        """How much the exponent can change from the middle of a unit cube to its side."""
        return self.rate * self.dim * max(abs(s) for row in self.matrix for s in row) / 2

    def all_points(self) -> WideIntegers:
        """All points of a small lattice, shape (points, d)."""
        side = np.arange(-self.edge, self.edge + 1)
        cube = np.stack([a.ravel() for a in np.meshgrid(*[side] * self.dim)], axis=1)
        return cube[np.abs(cube).sum(axis=1) <= self.edge] if self.l1 else cube

    def levels(self, points: WideIntegers) -> WideIntegers:
        """The levels of many points."""
        entries = [abs(s) for row in self.matrix for s in row]
        most = max(map(abs, self.target)) + self.dim * self.edge * max(entries)
        kind = np.int64 if most < 1 << 62 else object
        image = points.astype(kind) @ np.array(self.matrix, dtype=kind).T
        return np.asarray(np.abs(np.array(self.target, dtype=kind) - image).max(axis=1))


def most_proposals(dim: int, edge: int, steep: Fraction, rate: Fraction) -> float:
    r"""A bound on the expected number of proposals of a draw, from public facts.

    Let :math:`t(z) = r(k(z) - k_0)`, k the level and :math:`k_0` its least value on the set K of
    real planes; d the dimension and e the edge of K. ``steep`` bounds
    :math:`\kappa = \frac{rd}2 \max |S_{ij}|`, how much t can change from the middle of a unit cube
    to its side. Let :math:`L = \{t \le 1\}`. (Its threshold is rounded up to an integer level,
    which costs a factor of at most :math:`e^r`.)

    1. *What is proposed.* A simplex in L, none of whose corners can be exchanged for a point of L
       that is g = 17/16 times as far from the opposite side, has coordinates in [-g, g] on L, so
       L lies in a parallelepiped of at most :math:`(2g)^d d!` times its volume. Its multiple j is
       proposed with weight :math:`e^{-(j-1)} - e^{-j}`: on average
       :math:`(2g)^d d!\,|L|\,\mathrm{E}\,G^d`, G geometric with success :math:`1 - 1/e`. Half a
       unit cube is added on every side. L contains the planes of K within
       :math:`\rho = 1/(2\kappa)` of its best one in every coordinate, hence
       :math:`\min(1, \rho/(2e))` of K, drawn towards it: its width along any a is at least
       :math:`\min(\rho, 2e)\,|a|_1/d`. So cubes multiply the volume by at most
       :math:`(1 + \max\{2d\kappa, d/(2e)\})^d`. Integer coordinates add less than 1/16 to a
       width, and what lies beyond the last shell less than 1/16 to the whole.
    2. *What is kept.* :math:`\sum_z e^{-t(z)} \ge e^{-\kappa}\int e^{-t}` over the cubes of all
       points of the set, which hold K or, for the sum of sizes, K shrunk by :math:`1 - d/(2e)`. To
       shrink moves a plane by at most d/2 in all, and t by at most :math:`\kappa`. So the sum is
       at least :math:`e^{-2\kappa} (1 - d/(2e))^d\,|L|/e`.
    3. The ratio of both is the expected number. Proposals are independent, so more than 30 times as
       many have a chance of less than :math:`10^{-12}`.

    >>> [round(most_proposals(d, 1 << 20, Fraction(1, 1000), Fraction(1, 10**9))) for d in (2, 4)]
    [96, 67718]
    """
    shrunk = 1 - dim / (2 * edge)
    if shrunk <= 0 or steep > 64:
        return inf
    kappa, far = float(steep), float(_GROWTH)
    moment = sum(j**dim * exp(1 - j) for j in range(1, 200)) * (1 - 1 / e)
    widths = 2 * far + 1 / 16
    return float(
        (widths * (1 + dim * max(2 * kappa, 1 / (2 * edge))) / shrunk) ** dim
        * factorial(dim)
        * moment
        * exp(1 + float(rate) + 2 * kappa)
        * (1 + 1 / 16)
    )


class ShellSampler:
    r"""Draws from the law of a :class:`CoefficientLattice` by shells around its best plane.

    Let :math:`\varphi_0` be a real plane of the set with the least level :math:`k_0`, and
    :math:`k_1 \ge k_0 + 1/r` an integer. If a plane has level
    :math:`k_0 + \tau(k_1 - k_0)`, :math:`\tau \ge 1`, the plane a :math:`1/\tau` of the way from
    :math:`\varphi_0` to it has at most level :math:`k_1`, by convexity. So if the coordinates
    :math:`A\varphi` of planes up to level :math:`k_1` lie between l and h, those of z lie between
    :math:`a - \tau(a - l)` and :math:`a + \tau(h - a)`, :math:`a = A\varphi_0`; the shell
    :math:`B_j` has these ends for :math:`\tau = j`, and half a unit cube of planes more. A is a
    regular integer matrix.

    A draw: a shell with integer weight :math:`|B_j| (\Omega_j - \Omega_{j+1})`, where
    :math:`\Omega_j \ge 2^P e^{-r(j-1)(k_1-k_0)}` falls in j; a uniform integer point w of it; the
    lattice point z in whose unit cube :math:`A^{-1}w` lies; it is kept with probability
    :math:`2^P e^{-r(k(z)-k_0)}/\Omega_{j(w)}`, :math:`j(w)` the first shell that holds w.

    Proof. w is proposed with weight :math:`\sum_{j \ge j(w)} (\Omega_j - \Omega_{j+1}) =
    \Omega_{j(w)}`, so that each w of the cube of z contributes :math:`2^P e^{-r(k(z)-k_0)}`, and
    there are det A of them in every cube. The chance is at most 1: with
    :math:`\tau` as above, w lies in shell :math:`\lceil\max(\tau, 1)\rceil`, and
    :math:`\lceil\max(\tau, 1)\rceil - 1 \le \tau`. The last shell holds the cubes of all points.

    How many proposals this takes: :func:`most_proposals`.

    Examples
    --------
    >>> from tightdp.mechanisms.linear_norms import CoefficientLattice
    >>> from tightdp.randomness import source
    >>> lattice = CoefficientLattice(
    ...     [[5, 1], [1, 4]], [60, 50], edge=40, l1=True, rate=Fraction(1))
    >>> ShellSampler(lattice).draw(source(1))
    (10, 10)
    """

    def __init__(self, lattice: CoefficientLattice) -> None:
        self.lattice = lattice
        best, self.least = _best_plane(lattice)
        self._unit = ceil(self.least + 1 / lattice.rate) - self.least  # k_1 - k_0
        low = _low_planes(lattice, int(self.least + self._unit), best)
        self._matrix = _coordinates(_large_simplex(low), lattice.edge)
        self._solver = CubeRounder(self._matrix)
        self._measure(low, best)
        self._weigh()

    def _measure(self, low: SmallPolytope, best: Rational) -> None:
        """Where the planes up to the threshold lie, and where all do."""
        self._ways, self._all = [], []
        for row in self._matrix:
            low_end, high_end = (
                sum((a * x for a, x in zip(row, low.best(goal), strict=True)), Fraction(0))
                for goal in ([-a for a in row], row)
            )
            middle = sum((a * x for a, x in zip(row, best, strict=True)), Fraction(0))
            sizes, half = [abs(a) for a in row], Fraction(sum(map(abs, row)), 2)
            reach = self.lattice.edge * (max(sizes) if self.lattice.l1 else sum(sizes)) + half
            self._ways.append((middle, middle - low_end, high_end - middle, half))
            self._all.append((-ceil(reach), ceil(reach)))

    def _box(self, j: int) -> list[tuple[int, int]]:
        """The ends of shell j, both included."""
        return [
            (max(a, floor(m - j * down - half)), min(b, ceil(m + j * up + half)))
            for (m, down, up, half), (a, b) in zip(self._ways, self._all, strict=True)
        ]

    def _weigh(self) -> None:
        whole, first = _points(self._all), _points(self._box(1))
        shells = 2 + ceil(log(64 * whole / first))  # what is beyond weighs next to nothing
        self.places = (whole // first).bit_length() + _GUARD
        self._boxes = [*(self._box(j) for j in range(1, shells)), self._all]
        step = self.lattice.rate * self._unit
        self._covers = [max(1, exp_minus_bounds(step * j, self.places)[1]) for j in range(shells)]
        steps = [a - b for a, b in zip(self._covers, [*self._covers[1:], 0], strict=True)]
        self._weights = [s * _points(box) for s, box in zip(steps, self._boxes, strict=True)]
        self.total = sum(self._weights)

    def draw(self, rng: RandomSource) -> tuple[int, ...]:
        """One lattice point."""
        return until_accepted(lambda: self.propose(rng))

    def propose(self, rng: RandomSource) -> tuple[int, ...] | None:
        """A lattice point, or None where it is not kept."""
        value, j = rng.below(self.total), 0
        while value >= self._weights[j]:
            value, j = value - self._weights[j], j + 1
        w = [a + rng.below(b - a + 1) for a, b in self._boxes[j]]
        z = self._solver.nearest(w)
        if not self.lattice.inside(z):
            return None
        first = next(i for i, box in enumerate(self._boxes) if _holds(box, w))
        above = self.lattice.rate * (self.lattice.level(z) - self.least)
        kept = coin_exp(above, rng, num=1 << self.places, den=self._covers[first])
        return tuple(z) if kept else None


def _points(box: list[tuple[int, int]]) -> int:
    size = 1
    for a, b in box:
        size *= b - a + 1
    return size


def _holds(box: list[tuple[int, int]], w: Vector) -> bool:
    return all(a <= v <= b for (a, b), v in zip(box, w, strict=True))


def _sides(lattice: CoefficientLattice) -> Matrix:
    """Integer rows a with a . z <= edge on the set of planes."""
    if lattice.l1:
        return [list(signs) for signs in product((1, -1), repeat=lattice.dim)]
    units = [[int(i == j) for j in range(lattice.dim)] for i in range(lattice.dim)]
    return [[s * u for u in unit] for unit in units for s in (1, -1)]


def _best_plane(lattice: CoefficientLattice) -> tuple[Rational, Fraction]:
    """A real plane of the set with the least level, and that level."""
    rows = [[*side, 0] for side in _sides(lattice)]
    right = [lattice.edge] * len(rows)
    top = max(map(abs, lattice.target)) + 1
    rows, right = [*rows, [0] * lattice.dim + [1]], [*right, top]
    for row, t in zip(lattice.matrix, lattice.target, strict=True):
        rows += [[*row, -1], [*(-s for s in row), -1]]
        right += [t, -t]
    start = [Fraction(0)] * lattice.dim + [Fraction(top)]
    *plane, level = SmallPolytope(rows, right, start).best([0] * lattice.dim + [-1])
    return tuple(plane), level


def _low_planes(lattice: CoefficientLattice, most: int, inside: Rational) -> SmallPolytope:
    """The real planes of the set up to a level."""
    rows = _sides(lattice)
    right = [lattice.edge] * len(rows)
    for row, t in zip(lattice.matrix, lattice.target, strict=True):
        rows += [list(row), [-s for s in row]]
        right += [most + t, most - t]
    return SmallPolytope(rows, right, inside)


def _large_simplex(body: SmallPolytope) -> list[Rational]:
    """Corners of a simplex that no exchange of one corner enlarges by more than ``_GROWTH``."""
    corners = [body.best([1] + [0] * (body.dim - 1))]
    while len(corners) <= body.dim:
        way = free_direction(_whole(_edges(corners)), body.dim)
        ends = [body.best(way), body.best([-w for w in way])]
        corners.append(max(ends, key=lambda x: abs(_along(way, x) - _along(way, corners[0]))))
    while True:
        found = max(_exchanges(body, corners), key=lambda found: found[0])
        if found[0] <= _GROWTH:
            return corners
        corners[found[1]] = found[2]


def _exchanges(
    body: SmallPolytope, corners: list[Rational]
) -> list[tuple[Fraction, int, Rational]]:
    """For every corner the point farthest from the other corners' plane, in units of the corner."""
    out = []
    for i, corner in enumerate(corners):
        others = [x for k, x in enumerate(corners) if k != i]
        way = free_direction(_whole(_edges(others)), body.dim)
        level = _along(way, others[0])
        unit = _along(way, corner) - level
        for goal in (way, [-w for w in way]):
            found = body.best(goal)
            out.append((abs((_along(way, found) - level) / unit), i, found))
    return out


def _coordinates(corners: list[Rational], edge: int) -> Matrix:
    """Integers near the coordinates in which the corners are the origin and the unit vectors."""
    dim = len(corners) - 1
    edges = _edges(corners)
    scale = lcm(*(x.denominator for row in edges for x in row))
    inverse, det = adjugate([[int(x * scale) for x in row] for row in zip(*edges, strict=True)])
    fine = _FINE * dim * edge  # errors of a half in every entry are a small part of the unit
    return [[round(Fraction(fine * scale * v, det)) for v in row] for row in inverse]


def _edges(corners: list[Rational]) -> list[Rational]:
    return [tuple(a - b for a, b in zip(x, corners[0], strict=True)) for x in corners[1:]]


def _whole(rows: list[Rational]) -> Matrix:
    """The rows, each times its denominator."""
    scales = [lcm(*(x.denominator for x in row)) for row in rows]
    return [[int(x * s) for x in row] for row, s in zip(rows, scales, strict=True)]


def _along(way: Vector, x: Rational) -> Fraction:
    return sum((w * v for w, v in zip(way, x, strict=True)), Fraction(0))
