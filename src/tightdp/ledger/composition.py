r"""How spends add up.

*Sums.* Releases with (epsilon_i, delta_i) cost together at most (sum of epsilon_i, sum of
delta_i), also when each is chosen after seeing the answers before it. A product of epsilons is the
cost of nothing (erratum E36).

*Disjoint parts.* If the cells of a public partition share no row, a neighbour changes one cell, and
spends inside cells cost together the largest sum of a cell. Who may use that depends on how rows
come to their cells:

- ``fixed=True``: the cell of a row is public and cannot change (a split by row number). A replaced
  row stays in its cell.
- ``fixed=False``: the cell is read off the row (a region, an age group). Removing or adding a row
  touches one cell. *Replacing* one may touch two, each with one row more or less, about which a
  replace-one guarantee says nothing: such spends must be add-remove. In a replace-one ledger each
  is charged as removing and adding, which covers both cells.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from tightdp.errors import BudgetError, fail
from tightdp.ledger.amounts import NOTHING, Budget
from tightdp.ledger.entries import Entry, canonical
from tightdp.ledger.terms import check_text
from tightdp.privacy import Neighbors


@dataclass(frozen=True, slots=True)
class Partition:
    """A declared public partition."""

    name: str
    cells: frozenset[str]
    fixed: bool

    @classmethod
    def declared(cls, name: Any, cells: Any, fixed: Any) -> Partition:
        """The partition that a caller declares."""
        if not check_text("name", name):
            fail("`name` must be a non-empty text.")
        if isinstance(cells, (str, bytes)) or not isinstance(cells, Iterable):
            fail(f"`cells` must be a list of cells. Got {type(cells).__name__}.")
        listed = [_cell(cell) for cell in cells]
        if len(listed) < 2 or len(set(listed)) != len(listed):
            fail(f"`cells` must be at least 2 distinct cells. Got {len(set(listed))} distinct.")
        if not isinstance(fixed, bool):
            fail(f"`fixed` must be True or False. Got {type(fixed).__name__}.")
        return cls(name, frozenset(listed), fixed)

    @classmethod
    def of(cls, entry: Entry) -> Partition:
        """The partition in an entry."""
        facts = entry.facts()
        return cls(str(entry.partition), frozenset(facts["cells"]), bool(facts["fixed"]))

    def body(self) -> dict[str, Any]:
        """The body of the entry."""
        return {"cells": sorted(self.cells), "fixed": self.fixed}

    def check_same(self, asked: Partition) -> None:
        """Refuse another declaration under the same name."""
        if self != asked:
            fail(f"A partition cannot change. Declared was {self}; asked for was {asked}.")

    def check_use(self, cell: str, given: Neighbors) -> None:
        """Refuse an undeclared cell, and a guarantee that does not compose over the cells."""
        if cell not in self.cells:
            fail(f"`partition` must name a cell of {self}. Got {cell}.")
        if not self.fixed and given == Neighbors.REPLACE_ONE:
            fail(
                f"`partition` {self.name!r} was declared with fixed=False: a replaced row may "
                "leave one cell and enter another, so replace-one guarantees of cells do not count "
                "by their maximum. Use add-remove guarantees, spend without `partition`, or "
                "declare a partition with fixed=True if the cell of every row is public."
            )

    def __str__(self) -> str:
        some = sorted(self.cells)
        cells = ", ".join(some[:5]) + (f", ... ({len(some)} cells)" if len(some) > 5 else "")
        return f"{self.name!r} {{{cells}}}, fixed={self.fixed}"


def check_place(value: Any) -> tuple[str, str] | tuple[None, None]:
    """Name and cell of a ``partition=(name, cell)`` argument."""
    if value is None:
        return None, None
    if not isinstance(value, tuple) or len(value) != 2:
        fail('`partition` must be None or a pair ("name", cell).')
    return check_text("partition", value[0]), _cell(value[1])


def _cell(value: Any) -> str:
    if isinstance(value, bool) or not isinstance(value, (str, int)):
        fail(f"A cell must be a text or an integer. Got {type(value).__name__}.")
    if isinstance(value, str):
        return json.dumps(check_text("cell", value), ensure_ascii=False)
    return canonical(value)


def advance(
    total: Budget, cost: Budget, cell: Budget | None = None, largest: Budget | None = None
) -> dict[str, Budget]:
    """The running amounts after a spend.

    Parameters
    ----------
    total, cost : Budget
    cell, largest : Budget, optional
        For a spend in a partition: what its cell and the largest cell had before.
    """
    if cell is None or largest is None:
        return {"": cost, "total": total + cost}
    fuller = cell + cost
    now = largest.join(fuller)
    return {"": cost, "cell": fuller, "partition": now, "total": total + (now - largest)}


def refuse(requested: Budget, remaining: Budget) -> NoReturn:
    """Say what was asked for, what is left, and what is missing."""
    over = (requested - remaining).join(NOTHING)
    hint = ""
    if 0 < over.epsilon < requested.epsilon / 10**9 or 0 < over.delta < requested.delta / 10**9:
        hint = (
            "\nThe difference is a rounding of floats: 0.1 + 0.2 is 0.30000000000000004. "
            'Compute amounts with Fraction(1, 10) or Decimal("0.1").'
        )
    fail(
        "The budget does not cover the request. Nothing was spent.\n"
        f"  Requested:  {requested}\n  Remaining:  {remaining.text(left=True)}\n"
        f"  Difference: {over}\n"
        f"Ask for less, or reuse a stored release by its key.{hint}",
        BudgetError,
    )
