r"""A lower bound on the loss of every data-dependent noise, with its proof in integers.

**Statement.** Cut the range of the query into K intervals of width b, :math:`w_k` the public weight
of interval k, uniform inside. Let the noise be any family of laws, one for each value of the query,
that is (epsilon, delta)-DP. Then, for every choice of :math:`0 \le y_{km,i} \le \lambda_{km}` and
:math:`\nu_k \ge 0`, its weighted mean loss is at least
:math:`\sum_k (\theta_k - \nu_k o) - \delta \sum_{km} \lambda_{km}` with

.. math:: \theta_k = \min_x\; (w_k + \nu_k) a_x + \sum_m y_{km,x}
          - e^\epsilon \sum_m y_{mk,\,x + k - m},

o the largest mean loss allowed for any value (no :math:`\nu` without it). **Proof.** (1) Average
over the values q of interval k and over the offset s of a lattice of width b:
:math:`p_k(x) = E\,t(X_q/b - x)`, t the tent function. The value :math:`q + (m-k)b` runs through
interval m, and the two outputs see the same lattice, moved by m - k cells; DP for unions of its
cells is convex, so :math:`\sum_i (p_k(i) - e^\epsilon p_m(i - (m - k)))_+ \le \delta`. (2) Node
values :math:`a_x` whose interpolation is at most c give :math:`\sum a_x p_k(x) \le E c`, averaged.
(3) Weak duality, as the sum of y times the rows is at most :math:`\lambda \delta` for each pair.
Nodes outside the table meet no row and cost at least as much as the first of them.
The published bound D' takes the least loss in each cell instead of (2): it is lower.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.design.planar_grid import node_loss
from tightdp.design.range_programs import RangeProgram, RangeSolution
from tightdp.errors import UndecidedError, fail
from tightdp.exact.enclosures import exp_above

_SCALE = 1 << 48


@dataclass(frozen=True)
class RangeBound:
    """Multipliers, integers over 2**48, of pairs (k, m) of intervals of the range."""

    half: int
    padding: int
    pairs: tuple[tuple[int, int], ...]
    multipliers: tuple[int, ...]
    row_multipliers: tuple[tuple[int, ...], ...]
    limits: tuple[int, ...]

    @classmethod
    def rounded(cls, program: RangeProgram, found: RangeSolution) -> RangeBound:
        """The proposal of the solver, unfolded and rounded so that all conditions hold."""
        kept: dict[tuple[int, int], tuple[int, list[int]]] = {}
        for triple, most, rows in zip(found.triples, found.sums, found.rows, strict=True):
            copies = [(triple, rows)]
            if program.mirrored:
                copies.append((program.mirror(triple), rows[::-1]))
            for (k, m, _), y in copies:
                cap = int(most * _SCALE) // len(copies)
                part = [min(int(v * _SCALE) // len(copies), cap) for v in y]
                held, row = kept.get((k, m), (0, [0] * len(part)))
                kept[k, m] = held + cap, [a + b for a, b in zip(row, part, strict=True)]
        limits = np.zeros(program.tables) if found.limits is None else found.limits
        if program.mirrored:
            limits = (limits + limits[::-1]) / 2
        used = {pair: v for pair, v in kept.items() if v[0]}
        return cls(
            (program.cells - 1) // 2,
            program.padding,
            tuple(used),
            tuple(v[0] for v in used.values()),
            tuple(tuple(v[1]) for v in used.values()),
            tuple(int(v * _SCALE) for v in limits),
        )

    def value(
        self,
        *,
        epsilon: Fraction,
        delta: Fraction,
        reach: int,
        weights: Sequence[Fraction],
        loss: str,
        most: Fraction | None,
    ) -> Fraction:
        """The bound, in cells, proved on the way; an error where the proof fails."""
        self._check(len(weights), reach, most)
        factor, nodes = exp_above(epsilon), range(-self.half, self.half + 1)
        own, met = self._totals(len(weights))
        losses = [node_loss(2 * abs(x), loss) for x in nodes]
        losses_out = node_loss(2 * self.half + 2, loss)
        bound = -delta * Fraction(sum(self.multipliers), _SCALE)
        for k, weight in enumerate(weights):
            share = weight + Fraction(self.limits[k], _SCALE)
            gains = (
                share * a + (int(y) - factor * int(z)) / _SCALE
                for a, y, z in zip(losses, own[k], met[k], strict=True)
            )
            bound += min(share * losses_out, *gains)
            if most is not None:
                bound -= Fraction(self.limits[k], _SCALE) * most
        return max(bound, Fraction(0))

    def _check(self, count: int, reach: int, most: Fraction | None) -> None:
        apart = all(
            0 <= k < count and 0 <= m < count and 0 < abs(k - m) <= reach for k, m in self.pairs
        )
        if self.half < 0 or min(self.multipliers, default=0) < 0:
            fail("The lower bound needs nodes, and multipliers >= 0.", UndecidedError)
        if not apart or len(set(self.pairs)) < len(self.pairs) or self.padding < reach:
            fail("The lower bound uses pairs of values that are no neighbours.", UndecidedError)
        idle = most is not None or not any(self.limits)
        if len(self.limits) != count or min(self.limits) < 0 or not idle:
            fail("The lower bound uses a limit that was not asked for.", UndecidedError)

    def _totals(self, count: int) -> tuple[Any, Any]:
        """Sums of row multipliers by own and by met node, after the check of their range."""
        nodes = 2 * self.half + 1
        size = nodes - 2 * self.padding
        own, met = (np.zeros((count, nodes), dtype=object) for _ in range(2))
        for (k, m), most, given in zip(
            self.pairs, self.multipliers, self.row_multipliers, strict=True
        ):
            y = np.array(given, dtype=object)
            if len(y) != size or (y < 0).any() or (y > most).any():
                fail("A multiplier of the lower bound is out of its range.", UndecidedError)
            own[k, self.padding : nodes - self.padding] += y
            first = self.padding - (m - k)
            met[m, first : first + size] += y
        return own, met

    def to_dict(self) -> dict[str, Any]:
        """Plain values."""
        return {
            "half": self.half,
            "padding": self.padding,
            "pairs": [list(pair) for pair in self.pairs],
            "multipliers": list(self.multipliers),
            "row_multipliers": [list(y) for y in self.row_multipliers],
            "limits": list(self.limits),
        }

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> RangeBound:
        """The bound in a dictionary."""
        return cls(
            int(record["half"]),
            int(record["padding"]),
            tuple((int(k), int(m)) for k, m in record["pairs"]),
            tuple(map(int, record["multipliers"])),
            tuple(tuple(map(int, y)) for y in record["row_multipliers"]),
            tuple(map(int, record["limits"])),
        )
