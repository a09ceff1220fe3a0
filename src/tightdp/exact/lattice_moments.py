"""Regression-moment bodies on the lattice, proposed side by side with early rejection."""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import WideIntegers, check_choice, check_count
from tightdp.exact.lattice_bodies import LatticeBody, Rows
from tightdp.exact.lattice_points import box_points
from tightdp.geometry.moment_sampling import MomentLayout
from tightdp.randomness import RandomSource

Draw = Callable[[WideIntegers, int], WideIntegers]
"""From levels and a place 1, 2, ... to one candidate a row."""

LATTICE_KINDS = ("cylinder", "triples", "triangle")


class MomentLatticeBody(LatticeBody):
    """The moment bodies "cylinder", "triples" and "triangle" of :class:`~tightdp.MomentBody`.

    Every coordinate has the box side [-2l, 2l]. Coordinates are proposed one after the other, each
    uniform on its box side, and a row is dropped as soon as a coordinate exceeds the bound that the
    earlier ones leave it. The same rows survive as if whole points were tested at the end.
    """

    safe_entry = 1 << 30

    def __init__(self, p: int, kind: str) -> None:
        self.p, self.kind = check_count("p", p), check_choice("kind", kind, LATTICE_KINDS)
        self.layout = MomentLayout(self.p)
        self.dim = self.layout.dim
        self._triangles = self.layout.triangles(through_constant=kind == "cylinder")
        self._stars = self.layout.stars(through_constant=kind != "triangle")

    def __repr__(self) -> str:
        return f"MomentLatticeBody(p={self.p}, kind={self.kind!r})"

    @property
    def key(self) -> tuple[Any, ...]:
        return (self.p, self.kind)

    @property
    def factor(self) -> Fraction:
        return Fraction(4**self.dim)

    def _level(self, z: WideIntegers) -> WideIntegers:
        size = np.abs(z)
        worst = np.maximum(-(-size.max(axis=1) // 2), 0)
        sums = size[:, self._triangles].sum(axis=2).max(axis=1)
        worst = np.maximum(worst, -(-sums // 4))
        for star, square in zip(self._stars, self.layout.square, strict=True):
            side, s = size[:, star].max(axis=1), size[:, square]
            curved = s < 2 * side
            bottom = np.where(curved, 4 * side - s, 2)
            top = np.where(curved, 2 * side * side, s)
            worst = np.maximum(worst, -(-top // bottom))
        return np.asarray(worst)

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        # Uniform below 4 (l + step), shifted by 2l: covers [-2l, 2l], the rest is refused.
        def draw(level: WideIntegers, place: int) -> WideIntegers:
            return rng.integers_below(4 * (level + (offset + place))) - 2 * level

        return self._walk(levels, draw)

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
            drawn = draw(levels[rows], place)
            rows = self._keep(z, square, rows, drawn, self._fits(side, drawn, levels[rows]))
        return np.ascontiguousarray(z[:, rows].T), rows

    @staticmethod
    def _keep(
        z: WideIntegers, column: int, rows: Rows, drawn: WideIntegers, keep: NDArray[np.bool_]
    ) -> Rows:
        z[column, rows[keep]] = drawn[keep]
        return rows[keep]

    @staticmethod
    def _fits(side: WideIntegers, drawn: WideIntegers, level: WideIntegers) -> NDArray[np.bool_]:
        # l |s| <= 2 l^2 - 2 (side - l)_+^2, and |s| <= 2 l, which only matters at l = 0
        over, size = np.maximum(side - level, 0), np.abs(drawn)
        room = 2 * level * level - 2 * over * over
        return np.asarray((size <= 2 * level) & (level * size <= room))

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
