r"""Which coordinates to measure where delta is 0, by the variance that each choice would have.

Noise in the shape of a product of bodies :math:`K_1 \times K_2 \times \dots` of m dimensions
together has the covariance :math:`(m+1)(m+2)\epsilon^{-2}` times that of a uniform point of each
body. A part of the measured vector brings a body with it:

- *cells* of a table with N cells: the hull of :math:`e_i - e_j` (a row is replaced), isotropic with
  second moment :math:`4(2N-1)/(N(N+1)^2)` in N - 1 dimensions, or of :math:`\pm e_i` (added or
  removed), :math:`2/((N+1)(N+2))` in N. It tells the residuals of all subsets of its columns.
- *contrasts* of a residual: the box of what each can move, w, with :math:`w^2/3`. For columns of
  two levels these are the Walsh coordinates, and the box is a cube.

Parts in different *groups* do not share a body but the budget: their epsilons add. Residuals that
several parts tell are combined by the inverse of their variances.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Literal

import numpy as np

from tightdp.errors import FloatArray
from tightdp.privacy import Neighbors
from tightdp.workloads.public_tables import NOTHING, PublicTables
from tightdp.workloads.residuals import Columns, Workload, contrasts, spread_over, subsets

Part = tuple[Literal["cells", "contrasts"], Columns]
_MOST_TRIED = 48  # residuals whose coordinates are chosen one by one
_PASSES = 3
_REMEMBERED = 32
_FOUND: dict[object, list[Strategy]] = {}  # of equal public facts


@dataclass(frozen=True, slots=True)
class Strategy:
    """What is measured, and which parts share a body.

    Attributes
    ----------
    name : str
    parts : tuple of (coordinates, columns)
    groups : tuple of (places of parts, share of epsilon)
        The shares add up to 1.
    total : float
        The weighted total variance at epsilon = 1, for continuous noise.
    """

    name: str
    parts: tuple[Part, ...]
    groups: tuple[tuple[tuple[int, ...], Fraction], ...]
    total: float


def reaches(
    work: Workload, columns: Columns, neighbors: Neighbors, frozen: Columns = ()
) -> FloatArray:
    """How far a row can move each contrast of a residual; it keeps the columns that are frozen.

    >>> reaches(Workload([2, 3], [(0, 1)]), (0, 1), Neighbors.REPLACE_ONE)
    array([[2., 4.]])
    """
    low, high, kept = np.ones(()), np.ones(()), np.ones(())
    for j, n in zip(columns, work.shape(columns), strict=True):
        least, most = contrasts(n).min(axis=1), contrasts(n).max(axis=1)
        size = np.maximum(most, -least)
        if j in frozen:  # the same factor in both rows
            least = most = np.ones(n - 1)
        else:
            size = np.ones(n - 1)
        kept = spread_over(kept, size)
        sides = [spread_over(a, b) for a in (low, high) for b in (least, most)]
        low, high = np.minimum.reduce(sides), np.maximum.reduce(sides)
    reach = high - low if neighbors is Neighbors.REPLACE_ONE else np.maximum(high, -low)
    return np.asarray(kept * reach)


def squares(work: Workload, columns: Columns) -> FloatArray:
    """Squared lengths of the contrasts of a residual."""
    out = np.ones(())
    for n in work.shape(columns):
        out = spread_over(out, (contrasts(n) ** 2).sum(axis=1))
    return out


def rank(work: Workload, part: Part, neighbors: Neighbors) -> int:
    """Dimensions that the body of a part adds."""
    kind, columns = part
    if kind == "contrasts":
        return work.directions(columns)
    return work.cells(columns) - (neighbors is Neighbors.REPLACE_ONE)


def told(
    work: Workload, part: Part, neighbors: Neighbors, frozen: Columns = ()
) -> Iterable[tuple[Columns, float]]:
    """Residuals, and the mean second moment of their directions in the body of the part."""
    kind, columns = part
    if kind == "contrasts":
        each = reaches(work, columns, neighbors, frozen) ** 2 / 3 / squares(work, columns)
        yield columns, float(each.mean())
        return
    n = work.cells(columns)
    if neighbors is Neighbors.REPLACE_ONE:
        moment = 4 * (2 * n - 1) / (n * (n + 1) ** 2)
    else:
        moment = 2 / ((n + 1) * (n + 2))
    for some in subsets(columns):
        if some or neighbors is Neighbors.ADD_REMOVE:
            yield some, moment * n / work.cells(some)


def strategies(
    work: Workload, neighbors: Neighbors, public: PublicTables = NOTHING
) -> list[Strategy]:
    """All strategies for a workload, by their predicted totals; found once."""
    key = (work.key, neighbors, public.tables)
    found = _FOUND.get(key)
    if found is None:
        found = Chooser(work, neighbors, public).ranked()
        for oldest in list(_FOUND)[: max(0, len(_FOUND) - _REMEMBERED + 1)]:
            _FOUND.pop(oldest, None)  # another thread may have been quicker
        _FOUND[key] = found
    return list(found)


class Chooser:
    """Strategies for a workload, the best first.

    >>> pairs = [(0, 1), (0, 2), (0, 3), (1, 2), (1, 3), (2, 3)]
    >>> best = Chooser(Workload([2] * 4, pairs), Neighbors.REPLACE_ONE).ranked()
    >>> best[0].name, len(best[0].parts)
    ('cube', 10)
    """

    def __init__(
        self, work: Workload, neighbors: Neighbors, public: PublicTables = NOTHING
    ) -> None:
        self.work, self.neighbors, self.frozen = work, neighbors, public.frozen
        known = neighbors is Neighbors.REPLACE_ONE  # so is the number of rows
        self.residuals = [a for a in work.residuals if not (known and public.holds(a))]
        self._told: dict[Part, list[tuple[Columns, float]]] = {}

    def ranked(self) -> list[Strategy]:
        """All strategies, by their predicted totals."""
        maximal = [some for some in self.work.maximal if some in self.residuals]
        tables: list[Part] = [("cells", some) for some in maximal]
        found = [self._split(tables)]
        if len(maximal) == 1:
            found = [self._one_body("hull", tables)]
        else:
            found.append(self._one_body("tables", tables))
        cube: list[Part] = [("contrasts", some) for some in self.residuals]
        found.append(self._one_body("cube", cube))
        single: list[Part] = [
            ("cells" if len(some) == 1 and self.work.sizes[some[0]] > 2 else "contrasts", some)
            for some in self.residuals
        ]
        found.append(self._one_body("mixed", single))
        if len(self.residuals) <= _MOST_TRIED:
            start = min(found[-3:], key=lambda strategy: strategy.total)
            found.append(self._one_body("mixed", self._improved(list(start.parts))))
        found = [strategy for strategy in found if math.isfinite(strategy.total)]
        alike: dict[tuple[object, ...], Strategy] = {}
        for strategy in found:
            alike.setdefault((frozenset(strategy.parts), len(strategy.groups)), strategy)
        return sorted(alike.values(), key=lambda strategy: strategy.total)

    # --- what a choice would have -------------------------------------------------------------

    def _known(self, part: Part) -> list[tuple[Columns, float]]:
        if part not in self._told:
            self._told[part] = list(told(self.work, part, self.neighbors, self.frozen))
        return self._told[part]

    def _total(self, parts: Sequence[Part], scale: Callable[[int], float]) -> float:
        """The weighted total for parts whose second moments are multiplied by a scale."""
        precision = dict.fromkeys(self.residuals, 0.0)
        for k, part in enumerate(parts):
            for some, moment in self._known(part):
                if some in precision:
                    precision[some] += 1 / (moment * scale(k))
        value = self.work.importance
        return sum(value[a] / p if p else math.inf for a, p in precision.items())

    def _radial(self, parts: Iterable[Part]) -> float:
        m = sum(rank(self.work, part, self.neighbors) for part in parts)
        return float((m + 1) * (m + 2))

    def _one_body(self, name: str, parts: Sequence[Part]) -> Strategy:
        radial = self._radial(parts)
        total = self._total(parts, lambda _: radial)
        return Strategy(name, tuple(parts), ((tuple(range(len(parts))), Fraction(1)),), total)

    def _split(self, parts: Sequence[Part]) -> Strategy:
        """A share of epsilon for each table: v/e^2 is least, for a given sum, at e ~ v^(1/3)."""
        alone = [
            self._radial([part])
            * sum(self.work.importance.get(a, 0.0) * moment for a, moment in self._known(part))
            for part in parts
        ]
        weight = np.cbrt(alone)
        shares = [Fraction(int(w), 1 << 20) for w in np.floor(weight / weight.sum() * (1 << 20))]
        shares = [max(share, Fraction(1, 1 << 20)) for share in shares]
        shares[0] += 1 - sum(shares)
        if min(shares) <= 0:
            shares = [Fraction(1, len(parts))] * len(parts)
        total = self._total(parts, lambda k: self._radial([parts[k]]) / float(shares[k]) ** 2)
        groups = tuple(((k,), share) for k, share in enumerate(shares))
        return Strategy("split", tuple(parts), groups, total)

    def _improved(self, parts: list[Part]) -> list[Part]:
        """Coordinates of single residuals exchanged, added or left out, while that gains."""

        def total(tried: list[Part]) -> float:
            radial = self._radial(tried)
            return self._total(tried, lambda _: radial)

        best = total(parts)
        for _ in range(_PASSES):
            before = best
            for some in self.residuals:
                others = [part for part in parts if part[1] != some]
                tries: list[list[Part]] = [others, [*others, ("contrasts", some)]]
                if some:
                    tries.append([*others, ("cells", some)])
                for tried in tries:
                    value = total(tried) if tried else math.inf
                    if value < best * (1 - 1e-9):
                        best, parts = value, tried
            if best == before:
                break
        return sorted(parts, key=lambda part: (len(part[1]), part[1], part[0]))
