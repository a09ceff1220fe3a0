r"""Bodies of moments on the lattice: of a column and its square, of regressions, of one record.

A record that is added or removed contributes :math:`\psi(x) = (1, x_1, T(x_1), ..., x_p, T(x_p))`
with x in [-1, 1]^p and :math:`T(x) = 2x^2 - 1`: a count, columns and their squares.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import cached_property, lru_cache
from itertools import combinations, pairwise

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, WideIntegers, check_choice, check_count
from tightdp.exact.first_moments import FirstMoments, product_room, square_room
from tightdp.exact.lattice_body import LatticeBody, Rows, TestedBody, box_points
from tightdp.geometry.moment_bodies import MomentLayout
from tightdp.randomness import RandomSource

Draw = Callable[[WideIntegers, int], WideIntegers]
"""From levels and a place 1, 2, ... to one candidate a row."""

_MANY = 4  # columns: with fewer the cube is quicker to draw from
_MOST = {"cylinder": 80, "triples": 10, "triangle": 8}  # columns: with more too few are kept
_NODES = 96  # of a quadrature of polynomials and their pieces, for stated errors only

LATTICE_KINDS = ("cylinder", "triples", "triangle")


class SquareBody(TestedBody):
    """K2, the hull of the differences of (x, 2 x^2)."""

    def __init__(self) -> None:
        super().__init__([2, 2])
        self.safe_level = 1 << 29

    @property
    def share(self) -> float:
        return 5 / 6  # area 40/3 of 16

    def _level(self, z: WideIntegers) -> WideIntegers:
        side, height = np.abs(z).T
        return curved_level(side, height)

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        side, height = np.abs(z).T
        return under_curve(side, height, levels)


def curved_level(side: WideIntegers, height: WideIntegers) -> WideIntegers:
    """The level in K2 of points (+-side, +-height)."""
    # gauge height/2 if height >= 2 side, else 2 side^2 / (4 side - height)
    curved = height < 2 * side
    bottom = np.where(curved, 4 * side - height, 2)
    return -(-np.where(curved, 2 * side * side, height) // bottom)


def under_curve(
    side: WideIntegers, height: WideIntegers, levels: WideIntegers
) -> NDArray[np.bool_]:
    """Whether (side, height) lies in l K2, for side <= 2 l, height <= 2 l."""
    # l height <= 2 l^2 - 2 (side - l)_+^2
    over = np.maximum(side - levels, 0)
    return np.asarray(levels * height <= 2 * levels * levels - 2 * over * over)


class MomentLatticeBody(LatticeBody):
    """The moment bodies "cylinder", "triples" and "triangle" of :class:`~tightdp.MomentBody`.

    All lie in the cylinder body. From 4 columns on its first moments are proposed where its points
    are (:mod:`~tightdp.exact.first_moments`), products and squares uniformly on what these leave
    them, node after node; a row is dropped as soon as it leaves the body. With fewer columns, and
    at coarse rates, every coordinate is drawn on the box side [-2l, 2l], one after the other, and a
    row is dropped as soon as one exceeds the bound that the earlier ones leave it. The same rows
    survive as if whole points were tested at the end.
    """

    safe_level = safe_entry = 1 << 30  # the greatest product of two integers is 2 level**2

    def __init__(self, p: int, kind: str) -> None:
        self.p, self.kind = check_count("p", p), check_choice("kind", kind, LATTICE_KINDS)
        self.layout = MomentLayout(self.p)
        self.dim, self.key = self.layout.dim, (self.p, self.kind)
        self._triangles = self.layout.triangles(through_constant=kind == "cylinder")
        self._stars = self.layout.stars(through_constant=kind != "triangle")

    def __repr__(self) -> str:
        return f"MomentLatticeBody(p={self.p}, kind={self.kind!r})"

    @property
    def factor(self) -> Fraction:
        return Fraction(4**self.dim)

    def _level(self, z: WideIntegers) -> WideIntegers:
        size = np.abs(z)
        worst = np.maximum(-(-size.max(axis=1) // 2), 0)
        sums = size[:, self._triangles].sum(axis=2).max(axis=1)
        worst = np.maximum(worst, -(-sums // 4))
        for star, square in zip(self._stars, self.layout.square, strict=True):
            worst = np.maximum(worst, curved_level(size[:, star].max(axis=1), size[:, square]))
        return np.asarray(worst)

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        if self.p < _MANY:

            def draw(level: WideIntegers, place: int) -> WideIntegers:
                # uniform below 4 (l + step), shifted by 2l: covers [-2l, 2l], the rest is refused
                return rng.integers_below(4 * (level + (offset + place))) - 2 * level

            return self._walk(levels, draw)
        u, rows = self._first.propose(levels, offset, rng)
        level, pair = levels[rows, None], self.layout.pair
        z = np.zeros((len(rows), self.dim), dtype=levels.dtype)
        z[:, pair[0, 1:]] = u
        for j in range(2, self.layout.nodes):
            room = product_room(np.abs(u[:, : j - 1]), np.abs(u[:, j - 1 : j]), level)
            z[:, pair[1:j, j]] = box_points(-room, room, rng)
            trios = self._inner[j]
            if len(trios):
                keep = (np.abs(z[:, trios]).sum(axis=2) <= 4 * level).all(axis=1)
                z, u, level, rows = z[keep], u[keep], level[keep], rows[keep]
        room = square_room(np.abs(u[:, :-1]), level)
        z[:, self.layout.square] = box_points(-room, room, rng)
        if self.kind == "triangle":  # its squares also heed the products
            sides = [np.abs(z[:, star]).max(axis=1) for star in self._stars]
            squares = np.abs(z[:, self.layout.square])
            keep = under_curve(np.column_stack(sides), squares, level).all(axis=1)
            z, rows = z[keep], rows[keep]
        return z, rows

    @property
    def share(self) -> float:
        return super().share if self.p <= _MOST[self.kind] else 0.0

    @cached_property
    def _first(self) -> FirstMoments:
        return FirstMoments(self.p)

    @cached_property
    def _inner(self) -> list[NDArray[np.int64]]:
        """For every node, the sides of the triangles whose greatest node it is, not through 0."""
        pair, none = self.layout.pair, np.zeros((0, 3), dtype=np.int64)
        if self.kind == "cylinder":
            return [none] * self.layout.nodes
        return [
            np.array(
                [(pair[h, i], pair[h, j], pair[i, j]) for h, i in combinations(range(1, j), 2)]
            )
            if j > 2
            else none
            for j in range(self.layout.nodes)
        ]

    def cells(self, level: int) -> int:
        return (4 * level + 1) ** self.dim

    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        def draw(level: WideIntegers, place: int) -> WideIntegers:
            return box_points(-2 * level, 2 * level, rng).astype(levels.dtype)

        return self._walk(levels, draw)

    def _walk(self, levels: WideIntegers, draw: Draw) -> tuple[WideIntegers, Rows]:
        z = np.zeros((self.dim, len(levels)), dtype=levels.dtype)
        rows = np.arange(len(levels))
        place = 0
        for j in range(1, self.layout.nodes):
            for i in range(j):
                place += 1
                bound = self._side_bound(z, rows, i, j, levels)
                drawn = draw(levels[rows], place)
                rows = self._keep(z, self.layout.pair[i, j], rows, drawn, np.abs(drawn) <= bound)
        for star, square in zip(self._stars, self.layout.square, strict=True):
            place += 1
            side = np.abs(z[star][:, rows]).max(axis=0)
            drawn, level = draw(levels[rows], place), levels[rows]
            # |s| <= 2 l only matters at l = 0
            fits = (np.abs(drawn) <= 2 * level) & under_curve(side, np.abs(drawn), level)
            rows = self._keep(z, square, rows, drawn, fits)
        return np.ascontiguousarray(z[:, rows].T), rows

    @staticmethod
    def _keep(
        z: WideIntegers, column: int, rows: Rows, drawn: WideIntegers, keep: NDArray[np.bool_]
    ) -> Rows:
        z[column, rows[keep]] = drawn[keep]
        return rows[keep]

    def _side_bound(
        self, z: WideIntegers, rows: Rows, i: int, j: int, levels: WideIntegers
    ) -> WideIntegers:
        """What the triangles (k, i, j), k < i, leave to the side (i, j)."""
        bound = 2 * levels[rows]
        for k in range(min(i, 1) if self.kind == "cylinder" else i):
            first, second = self.layout.pair[k, i], self.layout.pair[k, j]
            used = np.abs(z[first, rows]) + np.abs(z[second, rows])
            bound = np.minimum(bound, 4 * levels[rows] - used)
        return np.asarray(bound)


class RecordBody(TestedBody):
    r"""K = conv(:math:`\pm\psi`): points :math:`(s, u_1, v_1, ..., u_p, v_p)`, tested in integers.

    **Lemma.** With :math:`a = (l+s)/2`, :math:`b = (l-s)/2`, z lies in l K exactly when
    :math:`|s| \le l`, :math:`|u_j| \le l` and for every j

    .. math:: -l + 2(|u_j|-b)_+^2/a \;\le\; v_j \;\le\; l - 2(|u_j|-a)_+^2/b .

    Proof: (1) Let Q be the hull of the points (x, T(x)); the hull of :math:`\psi` is
    :math:`\{1\} \times Q^p`, because the hull of a product is the product of the hulls. Points of
    conv(P u -P) are a q - b q' with a + b <= 1, so those of l K with first entry s have
    a - b = s, a + b <= l; raising a and b alike adds a multiple of Q - Q, which contains 0, so
    a + b = l without loss. (2) For these a and b the other entries fill
    :math:`(aQ - bQ)^p`. (3) a Q is :math:`2u^2/a - a \le v \le a`, -b Q is
    :math:`-b \le v \le b - 2u^2/b`. Their sum at u reaches up to a + b minus the least
    :math:`2u_2^2/b` with :math:`u = u_1 + u_2`, :math:`|u_1| \le a`: at
    :math:`|u_2| = (|u|-a)_+`; likewise down.

    Multiplied by b and a the inequalities hold between integers. The level is their solution: where
    :math:`w = 2|u| - s` exceeds every one of :math:`|s|, |u|, |v|`, the upper one says
    :math:`l \ge (w^2 - sv)/(2w - s - v)`; the lower one is the upper one of (-s, u, -v).

    Examples
    --------
    >>> body = RecordBody(1)
    >>> body.level(np.array([[16, 8, -8], [16, 16, 16], [0, 16, 16], [0, 32, 0]])).tolist()
    [16, 16, 22, 32]
    """

    def __init__(self, columns: int) -> None:
        self.columns = check_count("columns", columns)
        super().__init__([1] * (2 * self.columns + 1))
        self.key, self.safe_level, self.safe_entry = (self.columns,), 1 << 28, 1 << 28

    def _level(self, z: WideIntegers) -> WideIntegers:
        s = z[:, :1]
        u, v = np.abs(z[:, 1::2]), z[:, 2::2]
        box = np.maximum(np.maximum(np.abs(s), u), np.abs(v))
        out = box
        for side, height in ((s, v), (-s, -v)):
            w = 2 * u - side
            bottom = np.where(w > box, 2 * w - side - height, 1)
            curved = -(-(w * w - side * height) // bottom)
            out = np.maximum(out, np.where(w > box, curved, 0))
        return np.asarray(out.max(axis=1))

    def inside(self, z: WideIntegers, levels: WideIntegers) -> NDArray[np.bool_]:
        level, s = levels[:, None], z[:, :1]
        u, v = 2 * np.abs(z[:, 1::2]), z[:, 2::2]
        above = np.maximum(u - level - s, 0)
        below = np.maximum(u - level + s, 0)
        fits = (level - s) * (level - v) >= above * above
        fits &= (level + s) * (level + v) >= below * below
        return np.asarray(fits.all(axis=1))

    # --- sizes, in floats ---------------------------------------------------------------------

    @property
    def share(self) -> float:
        """Volume over that of the box: the mean over s of (2/3 + (1 - s^2)/6)^p."""
        return float(self._slices[1].sum())

    @cached_property
    def _slices(self) -> tuple[FloatArray, FloatArray]:
        """Nodes s in [-1, 1] and the volume of K there, as shares of the box."""
        s, weight = _quadrature()
        return s, weight / 2 * self.section_share(s)

    def section_share(self, s: FloatArray) -> FloatArray:
        """The volume of K where its first entry is s, as a share of that of the box."""
        return np.asarray((2 / 3 + (1 - s * s) / 6) ** self.columns)

    def section_moment(self, s: float) -> FloatArray:
        """E z z' of a uniform point of K where its first entry is s."""
        u2, v2, v1 = _column_moments(s)
        out = np.diag([s * s, *[u2, v2] * self.columns])
        heights = np.arange(2, self.dim, 2)
        out[np.ix_(heights, heights)] = v1 * v1  # independent given s
        out[heights, heights] = v2
        out[0, heights] = out[heights, 0] = s * v1
        return out

    @cached_property
    def second_moment(self) -> FloatArray:
        """E z z' of a uniform point of K, by quadrature; for stated errors."""
        s, weight = self._slices
        sections = np.array([self.section_moment(float(t)) for t in s])
        return np.asarray(np.tensordot(weight / weight.sum(), sections, axes=1))


@lru_cache(maxsize=1)
def _quadrature() -> tuple[FloatArray, FloatArray]:
    nodes, weights = np.polynomial.legendre.leggauss(_NODES)
    return nodes, weights


@lru_cache(maxsize=128)
def _column_moments(s: float) -> tuple[float, float, float]:
    """E u^2, E v^2 and E v of a uniform (u, v) in the section of K at s, l = 1."""
    a, b = (1 + s) / 2, (1 - s) / 2
    t, weight = _quadrature()
    edges = sorted({0.0, a, b, 1.0})
    u = np.concatenate([(x + y) / 2 + (y - x) / 2 * t for x, y in pairwise(edges)])
    weight = np.concatenate([(y - x) / 2 * weight for x, y in pairwise(edges)])
    top = 1 - 2 * np.maximum(u - a, 0) ** 2 / b
    low = -1 + 2 * np.maximum(u - b, 0) ** 2 / a
    area = weight @ (top - low)
    return (
        float(weight @ (u * u * (top - low)) / area),
        float(weight @ (top**3 - low**3) / 3 / area),
        float(weight @ (top**2 - low**2) / 2 / area),
    )
