r"""Exact draws from :math:`P(z) \propto e^{-r \lVert T - Sz \rVert_\infty}` on a bounded lattice.

S is an integer matrix and T an integer vector, in any dimension. Several proposals take turns; each
keeps a lattice point z with a chance that is a constant times its weight, so what is kept first has
the law whichever proposal made it. Integers and lazily settled coins only. Where the law crowds at
the edge of the lattice neither proposal is kept often, and boxes that are cut where the mass is
take over.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from itertools import cycle, islice
from math import ceil, comb

import numpy as np

from tightdp.errors import FloatArray
from tightdp.exact.box_sampling import BoxLevels, BoxSampler, Point
from tightdp.exact.lattice_bodies import BoxBody
from tightdp.exact.tilted import below_exp
from tightdp.noise.lattice import LatticeNoise
from tightdp.randomness import RandomSource

Vector = list[int]
Matrix = list[list[int]]

_BATCHES = (2, 16)  # a first draw needs few
_COARSE = Fraction(1, 64)  # what rounding the proposal's matrix may cost, in the exponent
_ROUNDING = 2.0**-48  # per entry of a product of matrices, with room for all roundings
_CERTAIN = 2.0**-20  # a float inverse that is worse than this is not used
_TURNS = (True, True, True, False)  # mapped noise is cheaper than uniform points
_PATIENCE = 256  # refused proposals before boxes take over
MOST_BOXED = 4  # coefficients: boxes multiply with the dimension


class Lattice:
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


class Proposal(ABC):
    """Proposes a point, and a number x >= 0 such that it is to be kept with chance exp(-x)."""

    @abstractmethod
    def propose(self, rng: RandomSource) -> tuple[Vector, Fraction] | None:
        """A point of the lattice and its number, or None for a point outside."""


class Mapped(Proposal):
    r"""Maps exact noise of the gradient back to coefficients.

    Let A be an integer matrix with det A > 0, B an integer vector and q > 0 a rational with
    :math:`\lVert (T - Sz) - q(B - A\varphi) \rVert_\infty \le \kappa` for every lattice point z and
    all phi of the half-open cube around it. Draw V on the integers with weight
    :math:`e^{-s\lVert V\rVert_\infty}`, :math:`s \le rq`, let :math:`\varphi = A^{-1}(B - V)`, z
    the point whose cube contains phi, and keep z with probability
    :math:`e^{-r(\kappa + k(z)) + s\lVert V\rVert_\infty}`.

    Proof. That is at most 1, by the choice of kappa. Since A maps integers to integers, the set of
    all phi is invariant under integer shifts, so every cube holds the same number of them, det A;
    each contributes :math:`e^{-r(\kappa + k(z))}`.
    """

    def __init__(self, lattice: Lattice, ridge: Fraction) -> None:
        self.lattice = lattice
        dim, edge, rate = lattice.dim, lattice.edge, lattice.rate
        self.unit = Fraction(max(1, int(_COARSE / (rate * (dim * edge + 1)))))
        if rate * edge > ridge > 0:  # units in which the ridge is not zero: the law is steep
            self.unit = Fraction(1, ceil(rate * edge / ridge))
        added = int(ridge / (rate * edge) / self.unit)
        rounded = [[_nearest(s, self.unit) for s in row] for row in lattice.matrix]
        self._a = [[s + added * (i == j) for j, s in enumerate(r)] for i, r in enumerate(rounded)]
        self._b = [_nearest(t, self.unit) for t in lattice.target]
        self._solver = _Rounder(self._a)
        self.regular = self._solver.regular
        self._slack = self._largest_gap()
        steep = rate * self.unit
        share = max(1, min(1 << 10, int(steep)))
        self._noise = LatticeNoise(BoxBody([1] * dim), share, ceil(share / steep))
        self._waiting: list[Vector] = []
        self._batch = _BATCHES[0]

    def _largest_gap(self) -> int:
        """kappa: what rounding, the ridge and the size of a cube can change."""
        lattice, gaps = self.lattice, []
        for row, mine, t, b in zip(lattice.matrix, self._a, lattice.target, self._b, strict=True):
            off = [abs(s - self.unit * a) for s, a in zip(row, mine, strict=True)]
            far = lattice.edge * (max(off) if lattice.l1 else sum(off))
            half = self.unit * sum(map(abs, mine)) / 2
            gaps.append(ceil(abs(t - self.unit * b) + far + half))
        return max(gaps)

    def propose(self, rng: RandomSource) -> tuple[Vector, Fraction] | None:
        if not self._waiting:
            self._waiting = self._noise.sample(self._batch, rng=rng).tolist()
            self._batch = _BATCHES[1]
        noise = self._waiting.pop()
        w = [b - v for b, v in zip(self._b, noise, strict=True)]
        z = self._solver.nearest(w)
        if not self.lattice.inside(z):
            return None
        above = self.lattice.rate * (self._slack + self.lattice.level(z))
        return z, above - self._noise.rate * max(map(abs, noise))


class Uniform(Proposal):
    """Proposes all points of the lattice alike: for few rows or little budget."""

    def __init__(self, lattice: Lattice) -> None:
        self.lattice, self._floor = lattice, lattice.floor()
        edge = lattice.edge
        # points of the l1 ball with m nonzero entries: places, signs, and m ordered partial sums
        self._sorts = [comb(lattice.dim, m) * 2**m * comb(edge, m) for m in range(lattice.dim + 1)]

    def propose(self, rng: RandomSource) -> tuple[Vector, Fraction] | None:
        z = self._in_ball(rng) if self.lattice.l1 else self._in_box(rng)
        return z, self.lattice.rate * (self.lattice.level(z) - self._floor)

    def _in_box(self, rng: RandomSource) -> Vector:
        edge = self.lattice.edge
        return [rng.below(2 * edge + 1) - edge for _ in range(self.lattice.dim)]

    def _in_ball(self, rng: RandomSource) -> Vector:
        dim, value, m = self.lattice.dim, rng.below(sum(self._sorts)), 0
        while value >= self._sorts[m]:
            value, m = value - self._sorts[m], m + 1
        places = rng.permutations(1, dim)[0][:m].tolist()
        chosen: set[int] = set()  # m of 1..edge, all subsets alike (Floyd)
        for top in range(self.lattice.edge - m + 1, self.lattice.edge + 1):
            pick = 1 + rng.below(top)
            chosen.add(top if pick in chosen else pick)
        sums = [0, *sorted(chosen)]
        z = [0] * dim
        for place, a, b in zip(places, sums, sums[1:], strict=False):
            z[place] = (b - a) * (1 - 2 * rng.below(2))
        return z


class LinearLevels(BoxLevels[None]):
    """The levels of a lattice, with bounds on boxes by the triangle inequality."""

    def __init__(self, lattice: Lattice) -> None:
        self.lattice = lattice
        self.low, self.high = (-lattice.edge,) * lattice.dim, (lattice.edge,) * lattice.dim
        self.radius = lattice.edge if lattice.l1 else None

    def start(self) -> None:
        return None

    def bounds(self, known: None, low: Point, high: Point) -> tuple[int, int, None]:
        least = most = 0
        for row, t in zip(self.lattice.matrix, self.lattice.target, strict=True):
            # twice the entry at the middle of the box, and twice how far it strays from that
            middle = 2 * t - sum(s * (a + b) for s, a, b in zip(row, low, high, strict=True))
            away = sum(abs(s) * (b - a) for s, a, b in zip(row, low, high, strict=True))
            least = max(least, -((away - abs(middle)) // 2))
            most = max(most, (abs(middle) + away + 1) // 2)
        return least, most, None

    def stretch(self) -> FloatArray:
        return np.abs(np.array(self.lattice.matrix, dtype=np.float64)).max(axis=0)


class LinearNormSampler:
    """Draws from the law of the module.

    Parameters
    ----------
    matrix : list of lists of int, d x d
    target : list of int
    edge : int
    l1 : bool
        Whether the sizes together, or each of them, are at most ``edge``.
    rate : Fraction

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> sampler = LinearNormSampler([[5, 1], [1, 4]], [60, 50], edge=40, l1=True, rate=Fraction(1))
    >>> sampler.draw(source(1))
    (10, 10)
    """

    def __init__(
        self, matrix: Matrix, target: Vector, *, edge: int, l1: bool, rate: Fraction
    ) -> None:
        self.lattice = Lattice(matrix, target, edge=edge, l1=l1, rate=rate)
        self._mapped = self._map()
        self._uniform: Uniform | None = None
        self._boxes: BoxSampler[None] | None = None

    def _map(self) -> Mapped:
        mapped = Mapped(self.lattice, Fraction(0))
        # a singular matrix gets a ridge, at least 1 in its units, that costs a factor e at most
        return mapped if mapped.regular else Mapped(self.lattice, Fraction(1))

    def draw(self, rng: RandomSource) -> tuple[int, ...]:
        """One lattice point."""
        boxed = self.lattice.dim <= MOST_BOXED
        for mapped in islice(cycle(_TURNS), _PATIENCE if boxed else None):
            found = (self._mapped if mapped else self._flat()).propose(rng)
            if found is not None and below_exp(int(rng.words(1)[0]), found[1], rng):
                return tuple(found[0])
        if self._boxes is None:
            self._boxes = BoxSampler(LinearLevels(self.lattice), self.lattice.rate)
        return self._boxes.draw(rng)

    def _flat(self) -> Uniform:
        """Made when its turn first comes, which is seldom."""
        if self._uniform is None:
            self._uniform = Uniform(self.lattice)
        return self._uniform


class _Rounder:
    r"""The lattice point in whose half-open cube :math:`A^{-1} w` lies, exactly.

    A float inverse F guesses z, and integers give the rest :math:`R = w - Az` without rounding.
    With :math:`E = I - FA`, :math:`A^{-1}R = (I - E)^{-1} F R` differs from :math:`FR` by at most
    :math:`\lVert E\rVert_\infty/(1 - \lVert E\rVert_\infty)` times its largest entry. If FR is that
    far inside the cube, z is proved; else the adjugate, made when it is first needed, decides.
    """

    def __init__(self, matrix: Matrix) -> None:
        self._matrix = matrix
        self._exact: tuple[Matrix, int] | None = None
        self._floats = np.array(matrix, dtype=np.float64)
        self._margin = 1.0
        try:
            self._inverse = np.linalg.inv(self._floats)
        except np.linalg.LinAlgError:
            self._inverse = np.zeros_like(self._floats)
        if np.isfinite(self._inverse).all():
            off = np.abs(np.eye(len(matrix)) - self._inverse @ self._floats).sum(axis=1).max()
            size = (np.abs(self._inverse) @ np.abs(self._floats)).sum(axis=1).max()
            error = float(off + size * len(matrix) * _ROUNDING)
            self._margin = error / (1 - error) if error < 1 else 1.0

    @property
    def regular(self) -> bool:
        """Whether the matrix has an inverse."""
        return self._margin < _CERTAIN or self._adjugate()[1] > 0

    def nearest(self, w: Vector) -> Vector:
        """The point z with all entries of A^-1 w - z in [-1/2, 1/2)."""
        if self._margin < _CERTAIN:
            with np.errstate(all="ignore"):
                guess = np.rint(self._inverse @ np.array(w, dtype=np.float64))
            if np.isfinite(guess).all():
                z = [int(v) for v in guess]
                rest = [
                    v - sum(a * b for a, b in zip(row, z, strict=True))
                    for row, v in zip(self._matrix, w, strict=True)
                ]
                place = np.abs(self._inverse @ np.array(rest, dtype=np.float64)).max()
                if place < 0.5 - 2 * self._margin:
                    return z
        adjugate, det = self._adjugate()
        return [
            (2 * sum(a * v for a, v in zip(row, w, strict=True)) + det) // (2 * det)
            for row in adjugate
        ]

    def _adjugate(self) -> tuple[Matrix, int]:
        if self._exact is None:
            self._exact = _adjugate(self._matrix)
        return self._exact


def _nearest(value: int, unit: Fraction) -> int:
    return (2 * value + unit) // (2 * unit)


def _adjugate(matrix: Matrix) -> tuple[Matrix, int]:
    """The adjugate and the determinant, made positive together, by fraction-free elimination.

    For a singular matrix the determinant is 0 and the adjugate is not made.
    """
    dim = len(matrix)
    rows = [[*row, *(int(i == j) for j in range(dim))] for i, row in enumerate(matrix)]
    last, sign = 1, 1
    for k in range(dim):
        pivot = next((i for i in range(k, dim) if rows[i][k]), None)
        if pivot is None:
            return [], 0
        if pivot != k:
            rows[k], rows[pivot], sign = rows[pivot], rows[k], -sign
        head = rows[k]
        lead = head[k]
        for i in range(dim):
            if i != k:
                row, factor = rows[i], rows[i][k]
                rows[i] = [(lead * a - factor * b) // last for a, b in zip(row, head, strict=True)]
        last = lead
    # now the left half is last * I, last = sign * det, and the right half last * inverse
    turn = 1 if last > 0 else -1
    return [[turn * v for v in row[dim:]] for row in rows], turn * last
