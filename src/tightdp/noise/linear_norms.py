r"""Exact draws from :math:`P(z) \propto e^{-r \lVert T - Sz \rVert_\infty}` on a bounded lattice.

S is an integer matrix and T an integer vector, in any dimension. Several proposals take turns; each
keeps a lattice point z with a chance that is a constant times its weight, so what is kept first has
the law whichever proposal made it. Integers and lazily settled coins only. Where the law crowds at
the edge of the lattice neither proposal is kept often, and shells around its best plane take over,
whose number of proposals has a bound (:mod:`tightdp.exact.linear_shells`); on a
lattice too coarse for them all points are gone through. Boxes that are cut where the mass is are
left for tables with many times the rows that were stated.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from fractions import Fraction
from itertools import count, cycle, islice
from math import ceil, comb

import numpy as np

from tightdp.errors import FloatArray, WideIntegers
from tightdp.exact.box_sampling import BoxLevels, BoxSampler, Point
from tightdp.exact.integer_matrices import CubeRounder, Matrix, Vector, adjugate
from tightdp.exact.lattice_body import BoxBody
from tightdp.exact.linear_shells import (
    MOST_PROPOSALS,
    CoefficientLattice,
    ShellSampler,
    most_proposals,
)
from tightdp.exact.tilted import TiltedLaw
from tightdp.exact.undecided_bits import below_exp
from tightdp.noise.lattice import LatticeNoise
from tightdp.randomness import RandomSource

_BATCHES = (2, 16)  # a first draw needs few
_COARSE = Fraction(1, 64)  # what rounding the proposal's matrix may cost, in the exponent
_TURNS = (True, True, True, False)  # mapped noise is cheaper than uniform points
_MOST_STEPS, _MOST_ROUNDS = 1000, 10_000  # of a reduction, of an ellipsoid: tens, thousands
_FEW_POINTS = 64.0
_TRIES = 256  # refused proposals of the first boxes, twice as many of the next
_PATIENCE = 256  # refused proposals before others take over
MOST_COEFFICIENTS = 4  # the bound on proposals grows a hundredfold with every one
MOST_POINTS = 1 << 21  # of a cube that is gone through


def work_is_bounded(dim: int, edge: int, steep: Fraction, rate: Fraction) -> bool:
    """Whether shells, or going through all points, end a draw from such a lattice in time.

    Parameters
    ----------
    dim, edge, rate :
        Of the lattice.
    steep : Fraction
        A bound on its :meth:`CoefficientLattice.steepness`.
    """
    by_shells = most_proposals(dim, edge, steep, rate) <= MOST_PROPOSALS
    return dim <= MOST_COEFFICIENTS and (by_shells or (2 * edge + 1) ** dim <= MOST_POINTS)


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

    def __init__(self, lattice: CoefficientLattice, ridge: Fraction) -> None:
        self.lattice = lattice
        dim, edge, rate = lattice.dim, lattice.edge, lattice.rate
        self.unit = Fraction(max(1, int(_COARSE / (rate * (dim * edge + 1)))))
        if rate * edge > ridge > 0:  # units in which the ridge is not zero: the law is steep
            self.unit = Fraction(1, ceil(rate * edge / ridge))
        added = int(ridge / (rate * edge) / self.unit)
        rounded = [[_nearest(s, self.unit) for s in row] for row in lattice.matrix]
        self._a = [[s + added * (i == j) for j, s in enumerate(r)] for i, r in enumerate(rounded)]
        self._b = [_nearest(t, self.unit) for t in lattice.target]
        self._solver = CubeRounder(self._a)
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


class UniformProposal(Proposal):
    """Proposes all points of the lattice alike: for few rows or little budget."""

    def __init__(self, lattice: CoefficientLattice) -> None:
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
    r"""The levels of a lattice, with bounds on boxes by the triangle inequality.

    Points are :math:`z = Uc` with integers c and a unimodular U, in which the law is not much
    longer in one direction than in another (see :func:`_short_basis`): along the axes themselves a
    law of few distinct rows is a thin sheet at an angle, which takes boxes without number.
    """

    def __init__(self, lattice: CoefficientLattice, form: FloatArray) -> None:
        self.lattice = lattice
        self.basis, self._lengths = _short_basis(form)
        inverse, _ = adjugate(self.basis)  # of determinant 1 or -1
        reach = [max(map(abs, row)) if lattice.l1 else sum(map(abs, row)) for row in inverse]
        self.low = tuple(-lattice.edge * r for r in reach)
        self.high = tuple(lattice.edge * r for r in reach)
        self._matrix = _product(lattice.matrix, self.basis)

    def start(self) -> None:
        return None

    def point(self, c: Point) -> Point:
        """The lattice point z = U c."""
        return tuple(sum(u * v for u, v in zip(row, c, strict=True)) for row in self.basis)

    def inside(self, point: Point) -> bool:
        return self.lattice.inside(list(self.point(point)))

    def bounds(self, known: None, low: Point, high: Point) -> tuple[int, int, None]:
        least = most = 0
        for row, t in zip(self._matrix, self.lattice.target, strict=True):
            # twice the entry at the middle of the box, and twice how far it strays from that
            middle = 2 * t - sum(s * (a + b) for s, a, b in zip(row, low, high, strict=True))
            away = sum(abs(s) * (b - a) for s, a, b in zip(row, low, high, strict=True))
            least = max(least, -((away - abs(middle)) // 2))
            most = max(most, (abs(middle) + away + 1) // 2)
        return least, most, None

    def _sizes(self, low: Point, high: Point) -> tuple[int, int]:
        """Bounds of twice the norm of z that the edge bounds, over a box of c."""
        near, far = [], []
        for row in self.basis:
            middle = abs(sum(u * (a + b) for u, a, b in zip(row, low, high, strict=True)))
            away = sum(abs(u) * (b - a) for u, a, b in zip(row, low, high, strict=True))
            near.append(max(0, middle - away))
            far.append(middle + away)
        return (sum(near), sum(far)) if self.lattice.l1 else (max(near), max(far))

    def empty(self, low: Point, high: Point) -> bool:
        return self._sizes(low, high)[0] > 2 * self.lattice.edge

    def whole(self, low: Point, high: Point) -> bool:
        return self._sizes(low, high)[1] <= 2 * self.lattice.edge

    def stretch(self) -> FloatArray:
        return self._lengths


def _product(left: Matrix, right: Matrix) -> Matrix:
    columns = list(zip(*right, strict=True))
    return [[sum(a * b for a, b in zip(row, c, strict=True)) for c in columns] for row in left]


def _by_gradient(lattice: CoefficientLattice) -> FloatArray:
    """The norm |r S z|^2 + |z / e|^2: that of the law where its best point is inside the set."""
    matrix = float(lattice.rate) * np.array(lattice.matrix, dtype=np.float64)
    return np.vstack([matrix, np.eye(lattice.dim) / lattice.edge])


def _by_ellipsoid(lattice: CoefficientLattice) -> FloatArray:
    r"""The norm of :math:`\{Bu : |u| \le 1\}`, about as long as the law in every direction.

    The ellipsoid method on the exponent: it ends when the centre is within 1 of the least one, or
    when no more than a few lattice points are left. Floats, which decide nothing but the speed.
    """
    dim, edge = lattice.dim, float(lattice.edge)
    if dim == 1:
        return np.eye(1)
    matrix = float(lattice.rate) * np.array(lattice.matrix, dtype=np.float64)
    target = float(lattice.rate) * np.array(lattice.target, dtype=np.float64)
    centre, shape = np.zeros(dim), edge * np.sqrt(dim) * np.eye(dim)
    for _ in range(_MOST_ROUNDS):
        sizes, rest = np.abs(centre), target - matrix @ centre
        i, j = int(np.abs(rest).argmax()), int(sizes.argmax())
        out = (sizes.sum() if lattice.l1 else sizes.max()) > edge
        side = np.sign(centre) if lattice.l1 else np.sign(centre[j]) * np.eye(dim)[j]
        cut = shape.T @ (side if out else -np.sign(rest[i]) * matrix[i])
        length = float(np.sqrt(cut @ cut))
        few = abs(float(np.linalg.det(shape))) <= _FEW_POINTS
        if not np.isfinite(length) or length == 0 or (not out and length <= 1) or few:
            break
        cut /= length
        centre = centre - shape @ cut / (dim + 1)
        squeezed = np.eye(dim) - (1 - np.sqrt((dim - 1) / (dim + 1))) * np.outer(cut, cut)
        shape = dim / np.sqrt(dim * dim - 1) * shape @ squeezed
    return np.asarray(np.linalg.pinv(shape))


_FORMS = (_by_ellipsoid, _by_gradient)


def _short_basis(form: FloatArray) -> tuple[Matrix, FloatArray]:
    r"""A unimodular matrix whose columns u have short images F u, and the lengths of these.

    By the steps of Lenstra, Lenstra and Lovasz (1982). Every step is one of integers, which keeps
    the determinant at 1 or -1: floats choose the steps, and any choice is right.
    """
    dim = form.shape[1]
    basis = [[int(i == j) for j in range(dim)] for i in range(dim)]  # vectors as rows here
    k, steps = 1, 0
    while k < dim and steps < _MOST_STEPS:
        steps += 1
        for j in reversed(range(k)):
            share = _shares(form, basis)[k, j]
            turn = round(float(share)) if np.isfinite(share) else 0
            basis[k] = [a - turn * b for a, b in zip(basis[k], basis[j], strict=True)]
        shares = _shares(form, basis)
        sizes = np.diag(shares)
        if sizes[k] >= (0.75 - shares[k, k - 1] ** 2) * sizes[k - 1]:
            k += 1
        else:
            basis[k], basis[k - 1] = basis[k - 1], basis[k]
            k = max(1, k - 1)
    lengths = np.linalg.norm(np.array(basis, dtype=np.float64) @ form.T, axis=1)
    return [list(column) for column in zip(*basis, strict=True)], np.asarray(lengths)


def _shares(form: FloatArray, basis: Matrix) -> FloatArray:
    """Gram and Schmidt: the shares, and on the diagonal the squared lengths of what is left."""
    rest = np.array(basis, dtype=np.float64) @ form.T
    out = np.zeros((len(basis), len(basis)))
    for i in range(len(basis)):
        for j in range(i):
            out[i, j] = (rest[i] @ rest[j]) / max(out[j, j], 1e-300)
            rest[i] = rest[i] - out[i, j] * rest[j]
        out[i, i] = rest[i] @ rest[i]
    return out


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
        self.lattice = CoefficientLattice(matrix, target, edge=edge, l1=l1, rate=rate)
        self._mapped = self._map()
        self._uniform: UniformProposal | None = None
        self._shells: ShellSampler | None = None
        self._points: tuple[WideIntegers, TiltedLaw] | None = None
        self._boxes: list[BoxSampler[None]] = []

    def _map(self) -> Mapped:
        mapped = Mapped(self.lattice, Fraction(0))
        # a singular matrix gets a ridge, at least 1 in its units, that costs a factor e at most
        return mapped if mapped.regular else Mapped(self.lattice, Fraction(1))

    def draw(self, rng: RandomSource) -> tuple[int, ...]:
        """One lattice point."""
        bounded = self.lattice.dim <= MOST_COEFFICIENTS
        for mapped in islice(cycle(_TURNS), _PATIENCE if bounded else None):
            found = (self._mapped if mapped else self._flat()).propose(rng)
            if found is not None and below_exp(int(rng.words(1)[0]), found[1], rng):
                return tuple(found[0])
        lattice = self.lattice
        steep = lattice.steepness()
        if most_proposals(lattice.dim, lattice.edge, steep, lattice.rate) <= MOST_PROPOSALS:
            return self._by_shells(rng)
        if (2 * lattice.edge + 1) ** lattice.dim <= MOST_POINTS:
            return self._by_points(rng)
        return self._boxed(rng)

    def _by_shells(self, rng: RandomSource) -> tuple[int, ...]:
        if self._shells is None:  # kept for later draws
            self._shells = ShellSampler(self.lattice)
        return self._shells.draw(rng)

    def _by_points(self, rng: RandomSource) -> tuple[int, ...]:
        if self._points is None:
            points = self.lattice.all_points()
            alike = np.ones(len(points), dtype=np.int64)
            self._points = points, TiltedLaw(alike, self.lattice.levels(points), self.lattice.rate)
        points, law = self._points
        return tuple(int(v) for v in points[law.draw(rng)])

    def _boxed(self, rng: RandomSource) -> tuple[int, ...]:
        """Boxes along two bases take turns; one of them fits the law, whatever the rows."""
        for turn in count():
            if turn < len(_FORMS) and turn == len(self._boxes):  # kept for later draws
                levels = LinearLevels(self.lattice, _FORMS[turn](self.lattice))
                self._boxes.append(BoxSampler(levels, self.lattice.rate))
            boxes = self._boxes[turn % len(_FORMS)]
            found = boxes.attempt(rng, _TRIES << turn)
            if found is not None:
                assert isinstance(boxes.levels, LinearLevels)
                return boxes.levels.point(found)
        raise AssertionError  # turns do not run out

    def _flat(self) -> UniformProposal:
        """Made when its turn first comes, which is seldom."""
        if self._uniform is None:
            self._uniform = UniformProposal(self.lattice)
        return self._uniform


def _nearest(value: int, unit: Fraction) -> int:
    return (2 * value + unit) // (2 * unit)
