r"""Exact draws from :math:`P(z) \propto e^{-r k(z)}` on the lattice points of a box.

The levels k are exact numbers with certified bounds on boxes, in few dimensions. The box is cut
where the law has its mass; every cell carries what is already known there, so that bounds of small
cells are cheap. Nothing here knows about data or budgets, and no float decides about a draw: floats
only choose which cell is cut next.
"""

from __future__ import annotations

import heapq
import math
from abc import ABC, abstractmethod
from fractions import Fraction
from itertools import product
from typing import Generic, TypeVar

import numpy as np

from tightdp.errors import DataError, FloatArray, fail
from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.listed_points import ListedLaw
from tightdp.exact.listed_points import Point as Point
from tightdp.exact.undecided_bits import coin_exp
from tightdp.randomness import RandomSource

Level = Fraction | int
State = TypeVar("State")

_KEPT = 0.03  # cut until at least this share is kept, as bounds tell: one draw needs no more cuts
_MOST_CELLS = 1 << 13  # cut ahead of the draw; later only where a proposal is refused
_GUARD = 24


class BoxLevels(ABC, Generic[State]):
    """Exact levels of the lattice points of a box, with bounds on every box inside it.

    Attributes
    ----------
    low, high : tuples of int
        Corners of the box, both included.
    radius : int, optional
        If given, only points whose absolute values add up to at most ``radius`` can be drawn.
    """

    low: Point
    high: Point
    radius: int | None = None

    @abstractmethod
    def start(self) -> State:
        """What is known on the whole box."""

    @abstractmethod
    def bounds(self, known: State, low: Point, high: Point) -> tuple[Level, Level, State]:
        """Numbers around all levels on a box, and what is known there.

        ``known`` belongs to a box around it. On a box of one point both numbers are its level.
        """

    def stretch(self) -> FloatArray:
        """How fast the level changes along every axis: which sides are cut first."""
        return np.ones(len(self.low))

    def level(self, point: Point) -> Level:
        """The level of one point."""
        return self.bounds(self.start(), point, point)[0]

    def inside(self, point: Point) -> bool:
        """Whether a point can be drawn."""
        return self.radius is None or sum(map(abs, point)) <= self.radius

    def empty(self, low: Point, high: Point) -> bool:
        """Whether no point of a box can be drawn; False where that is not seen at once."""
        if self.radius is None:
            return False
        return sum(max(0, a, -b) for a, b in zip(low, high, strict=True)) > self.radius

    def whole(self, low: Point, high: Point) -> bool:
        """Whether all points of a box can be drawn; False where that is not seen at once."""
        if self.radius is None:
            return True
        return sum(max(-a, b) for a, b in zip(low, high, strict=True)) <= self.radius

    def points(self) -> list[Point]:
        """All points that can be drawn, for tests on small lattices."""
        sides = [range(a, b + 1) for a, b in zip(self.low, self.high, strict=True)]
        return [point for point in product(*sides) if self.inside(point)]


class Cell(Generic[State]):
    """A box of lattice points with bounds of its levels, and its two halves once it is cut."""

    __slots__ = (
        "cover", "empty", "halves", "high", "known", "least", "low", "most", "size", "weight",
        "whole",
    )  # fmt: skip

    def __init__(
        self,
        levels: BoxLevels[State],
        low: Point,
        high: Point,
        known: State,
        ends: tuple[Level, Level],
    ) -> None:
        self.low, self.high, self.known, (self.least, self.most) = low, high, known, ends
        self.empty, self.whole = levels.empty(low, high), levels.whole(low, high)
        self.size = math.prod(b - a + 1 for a, b in zip(low, high, strict=True))
        self.halves: tuple[Cell[State], Cell[State]] | None = None
        self.cover = self.weight = 0


class BoxSampler(Generic[State]):
    r"""Draws lattice points with :math:`P(z) \propto e^{-r k(z)}`, exactly.

    A cell c is proposed with the integer weight :math:`|c| T_c`,
    :math:`T_c \ge 2^P e^{-r(\underline k_c - \underline k)}`, and a uniform point z of it is kept
    with probability :math:`2^P e^{-r(k(z) - \underline k)}/T_c`, a coin settled by enclosures. A
    cell whose point was refused is cut.

    Proof. Given the partition, the chance to propose and keep z is
    :math:`|c| T_c / W \cdot 1/|c| \cdot 2^P e^{-r(k(z) - \underline k)}/T_c`, which is
    :math:`e^{-r k(z)}` times a number that does not depend on z. The partition of a trial depends
    on refused trials only. So whatever came before, a point that is kept has the law.

    Parameters
    ----------
    levels : BoxLevels
    rate : Fraction > 0
    ahead : int, optional
        Cells into which the box is cut, at most, before the first draw; some thousands by default.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> class Distance(BoxLevels[None]):  # k(z) = |z|, from 0 at the origin
    ...     low, high = (-1000,), (1000,)
    ...     def start(self): return None
    ...     def bounds(self, known, low, high):
    ...         far = max(-low[0], high[0])
    ...         return (0 if low[0] <= 0 <= high[0] else min(abs(low[0]), abs(high[0]))), far, None
    >>> sampler = BoxSampler(Distance(), Fraction(1))
    >>> max(abs(sampler.draw(source(1))[0]) for _ in range(20)) < 20
    True
    """

    def __init__(
        self, levels: BoxLevels[State], rate: Fraction, *, ahead: int | None = None
    ) -> None:
        if not rate > 0:
            fail("`rate` must be > 0.")
        self.levels, self.rate, self._slope = levels, rate, float(rate)
        self._stretch = [max(float(s), 1e-12) for s in levels.stretch()]
        least, most, known = levels.bounds(levels.start(), levels.low, levels.high)
        self.root = Cell(levels, levels.low, levels.high, known, (least, most))
        self._cut_ahead(_MOST_CELLS if ahead is None else ahead)
        self._refused, self._next_look = 0, 16
        self._list: ListedLaw | None = None
        self._reference = self._lowest()
        # cells too light for this many places have weights below 2**-_GUARD of the best point's
        self._places = self.root.size.bit_length() + _GUARD
        self._weigh_all()

    # --- the partition ------------------------------------------------------------------------

    def _leaves(self) -> list[Cell[State]]:
        found, open_cells = [], [self.root]
        while open_cells:
            cell = open_cells.pop()
            if cell.halves is None:
                found.append(cell)
            else:
                open_cells.extend(cell.halves)
        return found

    def _lowest(self) -> Level:
        return min(cell.least for cell in self._leaves() if not cell.empty)

    def _cut(self, cell: Cell[State]) -> tuple[Cell[State], Cell[State]]:
        """The two halves of a cell across its longest side, in units of the change of levels."""
        sides = [
            (b - a) * s if b > a else -1.0
            for a, b, s in zip(cell.low, cell.high, self._stretch, strict=True)
        ]
        axis = sides.index(max(sides))
        middle = (cell.low[axis] + cell.high[axis]) // 2
        left = (*cell.high[:axis], middle, *cell.high[axis + 1 :])
        right = (*cell.low[:axis], middle + 1, *cell.low[axis + 1 :])
        cell.halves = self._inside(cell, cell.low, left), self._inside(cell, right, cell.high)
        del cell.known  # only leaves remember
        return cell.halves

    def _inside(self, cell: Cell[State], low: Point, high: Point) -> Cell[State]:
        least, most, known = self.levels.bounds(cell.known, low, high)
        # bounds of the larger cell hold, too
        ends = max(least, cell.least), min(most, cell.most)
        return Cell(self.levels, low, high, known, ends)

    def _cut_ahead(self, ahead: int) -> None:
        """Cut the heaviest cells until most proposals are kept."""
        heap: list[tuple[float, int, Cell[State]]] = []
        self._offer(heap, self.root, 0)
        count, check = 1, 2
        while heap and count < ahead:
            if count >= check:
                if self._share() >= _KEPT:
                    return
                check = count + count // 3 + 1
            _, _, cell = heapq.heappop(heap)
            for half in self._cut(cell):
                count += 1
                self._offer(heap, half, count)

    def _offer(
        self, heap: list[tuple[float, int, Cell[State]]], cell: Cell[State], order: int
    ) -> None:
        settled = cell.least == cell.most and cell.whole
        if cell.size > 1 and not settled and not cell.empty:
            weight = math.log(cell.size) - float(cell.least) * self._slope
            heapq.heappush(heap, (-weight, order, cell))

    def _share(self) -> float:
        """The share of proposals that is kept, at least, apart from cells across the radius."""
        cells = [cell for cell in self._leaves() if not cell.empty]
        lowest = min(cell.least for cell in cells)
        size = np.log(np.array([float(cell.size) for cell in cells]))
        known = np.array([0.0 if cell.whole else math.log(2.0) for cell in cells])
        least, most = (
            np.array([float(end - lowest) for end in ends]) * self._slope
            for ends in ([c.least for c in cells], [c.most for c in cells])
        )
        top = (size - least).max()
        kept = np.exp(np.maximum(size - known - most - top, -700.0)).sum()
        return float(kept / np.exp(np.maximum(size - least - top, -700.0)).sum())

    # --- weights ------------------------------------------------------------------------------

    def _weigh(self, cell: Cell[State]) -> None:
        if cell.halves is not None:
            cell.weight = cell.halves[0].weight + cell.halves[1].weight
        elif cell.empty:
            cell.cover = cell.weight = 0
        else:
            above = self.rate * max(0, cell.least - self._reference)
            cell.cover = max(1, exp_minus_bounds(above, self._places)[1])
            cell.weight = cell.size * cell.cover

    def _weigh_all(self) -> None:
        order = [self.root]
        for cell in order:
            order.extend(cell.halves or ())
        for cell in reversed(order):
            self._weigh(cell)

    # --- a draw -------------------------------------------------------------------------------

    def draw(self, rng: RandomSource, patience: float = math.inf) -> Point:
        """One lattice point; all are gone through once after so many refused proposals."""
        found = self.attempt(rng, patience)
        if found is None:
            if self._list is None:
                self._list = ListedLaw(self.levels.low, self.levels.high, self._exponent)
            found = self._list.draw(rng)
        return found

    def attempt(self, rng: RandomSource, most: float) -> Point | None:
        """One lattice point, or None after ``most`` refused proposals.

        Whoever stops here and draws in another way still has the law: refusals tell nothing of it.
        """
        refused = 0
        while refused < most:
            point = self._trial(rng)
            if point is not None:
                return point
            refused += 1
        return None

    def _exponent(self, point: Point) -> Fraction | None:
        if not self.levels.inside(point):
            return None
        return self.rate * (self._level(self.root, self.levels.level(point)) - self.root.least)

    def _trial(self, rng: RandomSource) -> Point | None:
        value, cell, path = rng.below(self.root.weight), self.root, [self.root]
        while cell.halves is not None:
            left, right = cell.halves
            cell, value = (left, value) if value < left.weight else (right, value - left.weight)
            path.append(cell)
        point = tuple(a + rng.below(b - a + 1) for a, b in zip(cell.low, cell.high, strict=True))
        if self.levels.inside(point) and self._keeps(cell, point, rng):
            return point
        self._refused += 1
        if cell.size > 1:
            path.extend(self._cut(cell))
        for part in reversed(path):
            self._weigh(part)
        if self._refused >= self._next_look:  # the least level may be known better by now
            self._next_look *= 2
            lowest = self._lowest()
            if lowest > self._reference:
                self._reference = lowest
                self._weigh_all()
        return None

    def _keeps(self, cell: Cell[State], point: Point, rng: RandomSource) -> bool:
        level = self._level(cell, self.levels.bounds(cell.known, point, point)[0])
        above = self.rate * (level - self._reference)
        return coin_exp(above, rng, num=1 << self._places, den=cell.cover)

    @staticmethod
    def _level(cell: Cell[State], level: Level) -> Level:
        """The level of a point of a cell, which must keep what the bounds of the cell promise."""
        if level < cell.least:
            fail("The bounds of the levels do not hold: a point lies below its box.", DataError)
        return level
