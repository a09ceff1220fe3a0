"""The linear programs of noise that depends on the interval of the true value.

Columns are the tables p_g(i); rows ask ``p_g(i) - exp(epsilon) p_h(i - j) <= s`` for the cells i of
a window and ``sum of s <= delta``, for triples (g, h, j). Triples enter when they are violated:
a relaxation on the way, the whole program in the end. What comes out are floats, to be proved
elsewhere.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from tightdp.design.programs import solve
from tightdp.errors import FloatArray

Triple = tuple[int, int, int]
_TIGHT = 1e-10
_ROUNDS = 60


@dataclass
class RangeProgram:
    """Tables of ``cells`` entries, of which the first and last ``padding`` are never tested.

    ``costs`` has shape (tables, cells) and counts in the objective; with ``most`` the cell losses
    ``losses``, shape (cells,), have a mean <= most in every table. ``monotone`` tables fall on both
    sides of the middle; ``ordered`` ones have distribution functions that rise with their number.
    ``mirrored`` takes table g as the mirror image of table G - 1 - g.
    """

    costs: FloatArray
    losses: FloatArray
    factor: float
    delta: float
    padding: int = 0
    most: float | None = None
    monotone: bool = False
    ordered: bool = False
    mirrored: bool = False
    active: list[Triple] = field(default_factory=list)

    @property
    def tables(self) -> int:
        return len(self.costs)

    @property
    def cells(self) -> int:
        return int(self.costs.shape[1])

    def solve(self, triples: Sequence[Triple]) -> RangeSolution:
        """The optimum under all triples, found with those that matter."""
        kept = [t for t in triples if not self.mirrored or t <= self.mirror(t)]
        reach = max(abs(j) for _, _, j in kept)
        self.active = [t for t in kept if abs(t[2]) == reach] or kept
        for _ in range(_ROUNDS):
            found = self._solve_active()
            short = self.shortfalls(found.tables, kept)
            worst = [k for k in np.argsort(-short) if short[k] > self.delta + _TIGHT]
            known = set(self.active)
            fresh = [kept[k] for k in worst if kept[k] not in known][: 2 * self.tables + 8]
            if not fresh:
                break
            self.active += fresh
        return found

    def mirror(self, triple: Triple) -> Triple:
        """The same condition on the mirror image."""
        g, h, j = triple
        return self.tables - 1 - g, self.tables - 1 - h, -j

    def shortfalls(self, tables: FloatArray, triples: Sequence[Triple]) -> FloatArray:
        """Shortfalls of float tables."""
        out = []
        for g, h, j in triples:
            met = moved(tables[h], j)
            inside = slice(self.padding, self.cells - self.padding)
            out.append(float(np.maximum(tables[g] - self.factor * met, 0.0)[inside].sum()))
        return np.array(out)

    # --- one solve ----------------------------------------------------------------------------

    def _columns(self) -> Any:
        """Column of every table entry, shape (tables, cells)."""
        own = np.arange(self.tables * self.cells).reshape(self.tables, self.cells)
        return np.minimum(own, own[::-1, ::-1]) if self.mirrored else own

    def _solve_active(self) -> RangeSolution:
        from scipy.sparse import coo_matrix

        entries, columns = self.tables * self.cells, self._columns()
        window = np.arange(self.padding, self.cells - self.padding)
        size, count = len(window), len(self.active)
        rows, cols, values = [], [], []

        def add(r: Any, c: Any, v: Any) -> None:
            r, c, v = np.broadcast_arrays(r, c, np.asarray(v, dtype=np.float64))
            rows.append(r.ravel())
            cols.append(c.ravel())
            values.append(v.ravel())

        for k, (g, h, j) in enumerate(self.active):
            at, slack = k * size + np.arange(size), entries + k * size + np.arange(size)
            met = window - j
            inside = (met >= 0) & (met < self.cells)
            add(at, columns[g][window], 1.0)
            add(at[inside], columns[h][met[inside]], -self.factor)
            add(at, slack, -1.0)
            add(count * size + k, slack, 1.0)
        upper = [0.0] * (count * size) + [self.delta] * count
        for coefficients, where, limit in self._side_rows(columns):
            add(len(upper), where, coefficients)
            upper.append(limit)
        matrix = coo_matrix(
            (np.concatenate(values), (np.concatenate(rows), np.concatenate(cols))),
            shape=(len(upper), entries + count * size),
        ).tocsr()
        cost = np.zeros(matrix.shape[1])
        np.add.at(cost, columns.ravel(), self.costs.ravel())
        found = solve(cost, matrix, np.array(upper), **self._totals(columns, matrix.shape[1]))
        duals = found.row_duals
        first = (size + 1) * count
        return RangeSolution(
            tables=np.maximum(found.x[columns], 0.0),
            value=found.value,
            triples=list(self.active),
            rows=duals[: count * size].reshape(count, size),
            sums=duals[count * size : first],
            limits=duals[first : first + self.tables] if self.most is not None else None,
        )

    def _side_rows(self, columns: Any) -> list[tuple[Any, Any, float]]:
        """Rows of the mean losses, one for each table, then those of the shapes."""
        rows: list[tuple[Any, Any, float]] = []
        if self.most is not None:
            rows += [(self.losses, columns[g], self.most) for g in range(self.tables)]
        if self.monotone:
            middle = self.cells // 2
            for g in range(self.tables):
                for i in range(self.cells - 1):
                    if i != middle - 1:
                        sign = 1.0 if i < middle else -1.0
                        rows.append((np.array([sign, -sign]), columns[g][[i, i + 1]], 0.0))
        if self.ordered:
            for g in range(self.tables - 1):
                for i in range(1, self.cells):
                    signs = np.repeat([1.0, -1.0], i)
                    rows.append((signs, np.append(columns[g][:i], columns[g + 1][:i]), 0.0))
        return rows

    def _totals(self, columns: Any, width: int) -> dict[str, Any]:
        from scipy.sparse import coo_matrix

        at = np.repeat(np.arange(self.tables), self.cells)
        half = (self.tables + 1) // 2 if self.mirrored else self.tables
        keep = at < half  # mirror images have the same total
        ones = np.ones(int(keep.sum()))
        matrix = coo_matrix((ones, (at[keep], columns.ravel()[keep])), shape=(half, width))
        return {"equal": matrix.tocsr(), "equal_to": np.ones(half)}


@dataclass(frozen=True)
class RangeSolution:
    """Tables, shape (tables, cells), and the multipliers of the triples that were active."""

    tables: FloatArray
    value: float
    triples: list[Triple]
    rows: FloatArray
    sums: FloatArray
    limits: FloatArray | None


def moved(table: FloatArray, j: int) -> FloatArray:
    """The table whose entry i is ``table[i - j]``, zero where there is none."""
    out = np.zeros_like(table)
    if abs(j) < len(table):
        out[max(j, 0) : len(table) + min(j, 0)] = table[max(-j, 0) : len(table) - max(j, 0)]
    return out
