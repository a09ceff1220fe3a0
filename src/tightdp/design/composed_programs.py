r"""The linear programs of two noises that are private together: one against the other, and both.

With the second law fixed, the shortfall of both is a convex function of the first. For a move n of
the second law let (A, B) run through the masses that an event and the moved event have under it, in
the order of their ratios: the corners of a curve. Cells of masses x and y of the first law then
lose :math:`G_n(x, y) = \max_{(A, B)} (A x - e^\epsilon B y)_+`, so that

.. math:: V(m, n) = a + \sum_i G_n(p_i, p_{i-m})

is a maximum of linear functions of p and of its atom a: a linear program, whose lines join when
they are violated. The joint problem is *not* convex. A joint step replaces V(p', q') by
:math:`V(p', q) + V(p, q') - V(p, q)` near (p, q), which is exact to first order.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cache
from itertools import pairwise
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.design.programs import Triplets, solve
from tightdp.design.vector_verifier import OrbitCells, mean_loss
from tightdp.errors import FloatArray

Pair = tuple[int, int]
Point = dict[Pair, float]  # moves and their weights: an interpolated shortfall

_EXCESS = 1e-7  # relative excess over delta that is left to the share spared for proofs
_ENTERING = 8  # points that enter at once
_LEAST = 0.02  # of an even share: how far a mass may move that is nearly zero


class Line:
    """The cells of one law, from zero outwards, in groups that share one density.

    ``groups`` gives the group of each cell by its distance from zero. Masses are per cell.
    """

    def __init__(
        self, cells: int, half: int, *, centred: bool, groups: Sequence[int], loss: str
    ) -> None:
        self.cells, self.half, self.centred = cells, half, centred
        self.orbits = OrbitCells(1, half, centred=centred)
        self.group = np.array(groups)
        sizes = np.array(self.orbits.sizes, dtype=np.float64)
        costs = np.array([float(mean_loss(far[0], loss)) for far in self.orbits.middles])
        self.sizes = np.bincount(self.group, sizes)
        power = 1 if loss == "l1" else 2
        self.costs = np.bincount(self.group, sizes * costs) / self.sizes / cells**power
        self.meetings = cache(self._meetings)

    def __len__(self) -> int:
        return len(self.sizes)

    def _meetings(self, move: int) -> tuple[Any, Any, FloatArray]:
        """Pairs of groups that meet under a move, and how often; the last group is outside."""
        every = self.orbits.meetings((move,)).items()
        group = np.append(self.group, len(self))
        keys = np.array([group[own] * (len(self) + 1) + group[met] for (own, met), _ in every])
        pairs, place = np.unique(keys, return_inverse=True)
        times = np.bincount(place, np.array([t for _, t in every], dtype=np.float64))
        return pairs // (len(self) + 1), pairs % (len(self) + 1), times.astype(np.float64)


@dataclass(frozen=True)
class Masses:
    """Mass per cell of each group, and the atom."""

    each: FloatArray
    atom: float

    def loss(self, line: Line) -> float:
        """The expected loss, for sensitivity 1."""
        return float(self.each @ (line.sizes * line.costs))


def curve(line: Line, law: Masses, move: int) -> FloatArray:
    """The corners (A, B) of a law under a move, from the most telling event to all outcomes."""
    own, met, times = line.meetings(move)
    outside = np.append(law.each, 0.0)
    a, b = outside[own] * times, outside[met] * times
    ratio = np.divide(a, b, out=np.full(len(a), np.inf), where=b > 0)
    ratio[a <= 0] = 0.0
    order = np.argsort(-ratio, kind="stable")
    ratio = ratio[order]
    ends = np.append(ratio[1:] < ratio[:-1] * (1 - 1e-9), True)
    corners = np.column_stack([law.atom + np.cumsum(a[order]), np.cumsum(b[order])])[ends]
    start = np.array([[law.atom, 0.0]])
    return np.concatenate([start, corners])


NOTHING: dict[int, FloatArray] = {0: np.array([[1.0, 1.0]])}
"""The curve of no second release."""


class Side:
    """One law as the unknown; ``curves`` of the other, by its moves, are the coefficients."""

    def __init__(
        self, line: Line, curves: dict[int, FloatArray], factor: float, *, place: int
    ) -> None:
        self.line, self.curves, self.factor, self.place = line, curves, factor, place

    @classmethod
    def against(cls, lines: Sequence[Line], laws: Sequence[Any], factor: float, place: int) -> Side:
        """The law at ``place`` as the unknown, against the other."""
        other, law = lines[1 - place], laws[1 - place]
        curves = {move: curve(other, law, move) for move in range(other.cells + 2)}
        return cls(lines[place], curves, factor, place=place)

    def values(self, law: Masses, pair: Pair) -> NDArray[np.float64]:
        """A x - e**epsilon B y for each pair of groups that meet, and each corner."""
        own, met, _ = self.line.meetings(pair[self.place])
        outside = np.append(law.each, 0.0)
        corners = self.curves[pair[1 - self.place]]
        gains = np.multiply.outer(outside[own], corners[:, 0])
        return np.asarray(gains - self.factor * np.multiply.outer(outside[met], corners[:, 1]))

    def shortfall(self, law: Masses, pair: Pair) -> float:
        """V at a pair of moves."""
        times = self.line.meetings(pair[self.place])[2]
        return float(law.atom + np.maximum(self.values(law, pair).max(axis=1), 0.0) @ times)


class ComposedProgram:
    """The program of one law, or of both near a pair that is known.

    ``points`` are the moves, or means of moves, at which the shortfall must stay below delta. It
    begins with the points and lines that matter at the laws ``around``, if there are any.
    """

    def __init__(
        self, sides: Sequence[Side], points: Sequence[Point], around: Sequence[Masses] | None = None
    ) -> None:
        self.sides, self.points, self.around = sides, points, around
        pairs = dict.fromkeys(pair for point in points for pair in point)
        self._known = dict.fromkeys(pairs, 0.0)
        if around is not None:
            self._known = {pair: sides[0].shortfall(around[0], pair) for pair in pairs}
        self._lines: dict[tuple[int, Pair], Any] = {}
        self._active: list[int] = []

    def solve(
        self, delta: float, importance: Sequence[float], radius: float | None = None
    ) -> tuple[list[Masses], float]:
        """The laws with the least loss, and that loss; within ``radius`` of what is known."""
        self._enter(self._first())
        while True:
            laws, value = self._solved(delta, importance, radius)
            short = {pair: self._model(laws, pair) for pair in self._known}
            excess = [sum(w * short[pair] for pair, w in p.items()) - delta for p in self.points]
            worst = np.argsort(excess)[::-1][:_ENTERING]
            violated = [int(k) for k in worst if excess[k] > _EXCESS * delta]
            if not violated or not (self._enter(violated) | self._sharpen(violated, laws)):
                return laws, value

    def _model(self, laws: Sequence[Masses], pair: Pair) -> float:
        parts = (side.shortfall(law, pair) for side, law in zip(self.sides, laws, strict=True))
        return sum(parts) - self._known[pair] * (len(self.sides) - 1)

    def _first(self) -> list[int]:
        """The points to begin with: those that are nearly violated, or the farthest moves."""
        if self.around is None:
            far = max(range(len(self.points)), key=lambda k: max(map(sum, self.points[k])))
            return [far]
        short = [sum(w * self._known[pair] for pair, w in p.items()) for p in self.points]
        return [k for k, v in enumerate(short) if v >= max(short) * (1 - 1e-5)]

    def _enter(self, points: Sequence[int]) -> bool:
        """Take points into the program; whether one is new."""
        fresh = [k for k in points if k not in self._active]
        self._active += fresh
        for k, side in ((k, side) for k in fresh for side in range(len(self.sides))):
            for pair in self.points[k]:
                if (side, pair) not in self._lines:
                    own = self.sides[side].line.meetings(pair[self.sides[side].place])[0]
                    corners = self.sides[side].curves[pair[1 - self.sides[side].place]]
                    lines = np.zeros((len(own), len(corners)), dtype=bool)
                    lines[:, [0, -1]] = True
                    self._lines[side, pair] = lines
        if self.around is not None and fresh:
            self._sharpen(fresh, self.around)
        return bool(fresh)

    def _sharpen(self, points: Sequence[int], laws: Sequence[Masses]) -> bool:
        """Add the lines that say most at these laws; whether one was missing."""
        added = False
        for (k, pair), lines in self._lines.items():
            if any(pair in self.points[point] for point in points):
                values = self.sides[k].values(laws[k], pair)
                best = values.argmax(axis=1)
                rows = np.arange(len(best))
                known = np.where(lines, values, -np.inf).max(axis=1)
                missing = values[rows, best] > np.maximum(known, 0.0) + 1e-13
                lines[rows[missing], best[missing]] = True
                added = added or bool(missing.any())
        return added

    def _solved(
        self, delta: float, importance: Sequence[float], radius: float | None
    ) -> tuple[list[Masses], float]:
        """The optimum of the program with the lines and points so far."""
        starts = np.concatenate([[0], np.cumsum([len(side.line) + 1 for side in self.sides])])
        entries, columns, rows = Triplets(), int(starts[-1]), 0
        sums: dict[Pair, list[int]] = {}
        for (k, pair), lines in self._lines.items():
            side = self.sides[k]
            own, met, times = side.line.meetings(pair[side.place])
            corners = side.curves[pair[1 - side.place]]
            i, j = np.nonzero(lines)
            at, slack = rows + np.arange(len(i)), columns + np.arange(len(own))
            entries.add(at, starts[k] + own[i], corners[j, 0])
            inside = met[i] < len(side.line)
            again = corners[j, 1][inside] * -side.factor
            entries.add(at[inside], starts[k] + met[i][inside], again)
            entries.add(at, slack[i], -1.0)
            total, rows = rows + len(i), rows + len(i) + 1  # the sum of the slacks: one column
            entries.add(total, slack, times)
            entries.add(total, starts[k] + len(side.line), 1.0)  # the atom is lost
            entries.add(total, slack[-1] + 1, -1.0)
            sums.setdefault(pair, []).append(int(slack[-1]) + 1)
            columns = int(slack[-1]) + 2
        upper = np.zeros(rows + len(self._active))
        for row, k in enumerate(self._active, rows):
            for pair, weight in self.points[k].items():
                entries.add(row, np.array(sums[pair]), weight)
                upper[row] += weight * self._known[pair] * (len(self.sides) - 1)
            upper[row] += delta
        return self._answer(entries, upper, columns, starts, importance, radius)

    def _answer(
        self,
        entries: Triplets,
        upper: FloatArray,
        columns: int,
        starts: Any,
        importance: Sequence[float],
        radius: float | None,
    ) -> tuple[list[Masses], float]:
        cost, total = np.zeros(columns), np.zeros((len(self.sides), columns))
        for k, side in enumerate(self.sides):
            here = slice(starts[k], starts[k + 1] - 1)
            cost[here] = importance[k] * side.line.costs * side.line.sizes
            total[k, here], total[k, starts[k + 1] - 1] = side.line.sizes, 1.0
        if self.around is not None and radius is not None:
            upper = np.concatenate([upper, self._near(entries, len(upper), starts, radius)])
        found = solve(
            cost,
            entries.matrix((len(upper), columns)),
            upper,
            equal=total,
            equal_to=np.ones(len(self.sides)),
        )
        parts = [np.maximum(found.x[a:b], 0.0) for a, b in pairwise(starts)]
        return [Masses(part[:-1], float(part[-1])) for part in parts], found.value

    def _near(self, entries: Triplets, first: int, starts: Any, radius: float) -> FloatArray:
        """Rows that keep every mass near what it was."""
        assert self.around is not None
        bounds = []
        for k, law in enumerate(self.around):
            now = np.append(law.each, law.atom)
            even = 1 / np.append(self.sides[k].line.sizes, 1.0) / len(now)
            step = radius * np.maximum(now, _LEAST * even)
            for sign in (1.0, -1.0):
                entries.add(first + np.arange(len(now)), starts[k] + np.arange(len(now)), sign)
                bounds.append(sign * now + step)
                first += len(now)
        return np.concatenate(bounds)
