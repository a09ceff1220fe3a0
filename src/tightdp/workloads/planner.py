r"""The variances of residuals that make a total least for what they cost, with a certificate.

With :math:`u_A = 1/s_A` the plan minimises :math:`\sum_A v_A/u_A`, the weighted total variance,
among all u >= 0 with :math:`\sum_A c_A(D) u_A \le 1` for every set D of columns in which a row that
is replaced may differ. This is convex, and every law :math:`\lambda` on sets D bounds it below:

.. math:: \min_u \ge \Bigl(\sum_A \sqrt{v_A\, q_A}\Bigr)^2, \qquad q_A = \sum_D \lambda_D c_A(D),

since :math:`\sum_A q_A u_A \le 1`, and by the inequality of Cauchy and Schwarz. The law that is
best among the sets in hand gives the plan :math:`u_A \propto \sqrt{v_A/q_A}`; the sets that this
plan violates are added, until it is as good as its bound. The plan is then scaled by a certified
upper bound of its cost, so that it is private whatever the search has missed, and ``gap`` says by
how much its total can exceed the least one.

If a row is added or removed, there is one constraint, :math:`\sum_A u_A \prod_{j \in A} a_j \le 1`,
the residual of the empty set (the number of rows) included, and the plan has a closed form (Xiao,
He, Zhang and Kifer, 2023).
"""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass

import numpy as np

from tightdp.errors import FloatArray
from tightdp.privacy import Neighbors
from tightdp.workloads.public_tables import NOTHING, PublicTables
from tightdp.workloads.replaced_rows import ReplacedRow, Sets
from tightdp.workloads.residuals import Columns, Workload

GAP = 1e-3
_ROUNDS, _ASCENTS = 40, 600
_SAFE = 1 + 1e-9
_FRESH = 0.05  # weight of a set that is new, before it is normed


@dataclass(frozen=True, slots=True, eq=False)
class NoisePlan:
    """Variances of residuals for noise whose squared move, in standard deviations, is at most 1.

    Attributes
    ----------
    variances : mapping from sets of columns to numbers
        s_A, in every direction of the residual. Multiplied by 1/(2 rho) they are those of
        zero-concentrated noise.
    total : float
        The weighted total variance of all cells.
    bound : float
        No plan of this kind has a smaller total.
    """

    variances: dict[Columns, float]
    total: float
    bound: float

    @property
    def gap(self) -> float:
        """By which share the total may exceed the least one."""
        return self.total / self.bound - 1 if self.bound > 0 else 0.0


_REMEMBERED = 32
_FOUND: dict[object, NoisePlan] = {}  # of equal public facts


def plan(work: Workload, neighbors: Neighbors, public: PublicTables = NOTHING) -> NoisePlan:
    """The plan of a workload; found once.

    Residuals of ``public`` tables are known and need no noise. A row that is replaced differs in no
    frozen column; where neighbours differ in two rows, the plan is for the move of one of them.

    >>> found = plan(Workload([2, 2], [(0,), (0, 1)]), Neighbors.REPLACE_ONE)
    >>> found.gap < 0.001, sorted(found.variances)
    (True, [(0,), (0, 1), (1,)])
    """
    key = (work.key, neighbors, public.tables)
    found = _FOUND.get(key)
    if found is None:
        found = _planned(work, neighbors, public)
        for oldest in list(_FOUND)[: max(0, len(_FOUND) - _REMEMBERED + 1)]:
            _FOUND.pop(oldest, None)  # another thread may have been quicker
        _FOUND[key] = found
    return found


def _planned(work: Workload, neighbors: Neighbors, public: PublicTables) -> NoisePlan:
    if neighbors is Neighbors.ADD_REMOVE:
        return _added_row(work)
    parts = [part for part in work.residuals if not public.holds(part)]
    kinds = _numbered([(kind, *public.kind(j)) for j, kind in enumerate(exchangeable(work))])
    return _PlanSearch(work, parts, kinds, public.frozen).found()


def _added_row(work: Workload) -> NoisePlan:
    value = np.array([work.importance[part] for part in work.residuals])
    move = np.array([math.prod(1 - 1 / n for n in work.shape(part)) for part in work.residuals])
    root = np.sqrt(value * move)
    variances = np.sqrt(move / value) * root.sum() * _SAFE
    total = float(value @ variances)
    found = dict(zip(work.residuals, variances.tolist(), strict=True))
    return NoisePlan(found, total, min(total, float(root.sum()) ** 2))


class _PlanSearch:
    """Plans for the sets of columns in hand; residuals that columns can exchange share a rate."""

    def __init__(
        self, work: Workload, parts: list[Columns], kinds: list[int], frozen: Columns
    ) -> None:
        self.work, self.parts, self.frozen = work, parts, frozen
        self.cost = ReplacedRow(work.sizes, parts, kinds, frozen)
        alike: dict[tuple[int, ...], int] = {}
        self.of = np.array(
            [alike.setdefault(tuple(sorted(kinds[j] for j in part)), len(alike)) for part in parts]
        )
        self.value = np.bincount(self.of, [work.importance[part] for part in parts])

    def found(self) -> NoisePlan:
        # a row that differs in one column moves all residuals of that column
        sets = np.eye(len(self.work.sizes), dtype=bool)[self._used()]
        rows = self._rows(sets)
        law = np.full(len(rows), 1 / len(rows))
        best, bound = (math.inf, np.empty(0)), 0.0
        for _ in range(_ROUNDS):
            law = self._ascended(rows, law)
            lower, rates = self._planned(law @ rows)
            bound = max(bound, lower)
            spread = rates[self.of]
            sets = self.cost.worst(spread)
            worst = float(self.cost.totals(sets[:1], spread)[0])
            total = float((self.value / rates).sum()) * worst
            if total < best[0]:
                best = total, rates / worst
            if best[0] <= bound * (1 + GAP):
                break
            more = self._rows(sets)
            rows, law = np.vstack([rows, more]), np.append(law, np.full(len(more), _FRESH))
        spread = best[1][self.of]
        spread = spread / (self.cost.most(spread) * _SAFE)  # certified, whatever was searched
        variances = dict(zip(self.parts, (1 / spread).tolist(), strict=True))
        total = self.work.total_variance(variances)
        return NoisePlan(variances, total, min(total, bound / _SAFE))

    def _used(self) -> list[int]:
        return sorted({j for part in self.parts for j in part if j not in self.frozen})

    def _rows(self, sets: Sets) -> FloatArray:
        """Moves of the residuals, those that share a rate added up."""
        moves = self.cost.moves(sets)
        out = np.zeros((len(sets), len(self.value)))
        np.add.at(out.T, self.of, moves.T)
        return out

    def _planned(self, q: FloatArray) -> tuple[float, FloatArray]:
        root = np.sqrt(self.value * q)
        return float(root.sum()) ** 2, np.sqrt(self.value / q) / root.sum()

    def _ascended(self, rows: FloatArray, law: FloatArray) -> FloatArray:
        """Multiplicative ascent of the sum of square roots."""
        law = law / law.sum()
        for _ in range(_ASCENTS):
            slope = rows @ np.sqrt(self.value / (law @ rows))
            law = law * slope
            law /= law.sum()
        return law


def exchangeable(work: Workload) -> list[int]:
    """Kinds of columns: those of one kind may change places in all tables, weights included.

    >>> exchangeable(Workload([2, 2, 3], [(0, 1), (0, 2), (1, 2)]))
    [0, 0, 1]
    >>> exchangeable(Workload([2, 2, 3], [(0, 1), (0, 2)]))
    [0, 1, 2]
    """
    parts = [part for part in work.residuals if part]
    kinds = _numbered([(n,) for n in work.sizes])
    alike: dict[tuple[int, ...], set[float]] = {}
    many: Counter[tuple[int, ...]] = Counter()
    for part in parts:
        key = tuple(sorted(kinds[j] for j in part))
        alike.setdefault(key, set()).add(float(f"{work.importance[part]:.12g}"))
        many[key] += 1
    columns = Counter(kinds)
    for key, values in alike.items():
        whole = math.prod(math.comb(columns[kind], k) for kind, k in Counter(key).items())
        if len(values) > 1 or many[key] != whole:
            return list(range(len(work.sizes)))
    return kinds


def _numbered(keys: list[tuple[int, ...]]) -> list[int]:
    place: dict[tuple[int, ...], int] = {}
    return [place.setdefault(key, len(place)) for key in keys]
