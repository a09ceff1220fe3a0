r"""How spends add up.

*Sums.* Releases with (epsilon_i, delta_i) cost together at most (sum of epsilon_i, sum of
delta_i), also when each is chosen after seeing the answers before it. A product of epsilons is the
cost of nothing (erratum E36).

*Disjoint parts.* Spends inside the cells of a public partition cost together the largest sum of a
cell, if a neighbour changes one cell only. A *unit* is what the guarantees protect: a row, or a
person with all rows of that person. Write (E_c, D_c) for the sum of the spends in cell c, as
guarantees of the table that cell c is.

1. *All of a unit lies in one cell.* Two tables that differ in one unit then differ in one cell, or
   in two if a replaced unit leaves one cell for another. A person with rows in the north and in the
   south changes both, and pays for both: cells that tell rows apart count by their sum for persons.
   So a partition says whom it tells apart (``person``), and a spend in it must protect just them.
2. *The cell is read off the unit* (``fixed=False``: a region, an age group). Removing or adding a
   unit changes one cell c, by one unit, which costs (E_c, D_c) under add-remove: at most the
   maximum over the cells. *Replacing* one removes it from cell a and adds it to cell b. If a = b,
   group privacy gives what :func:`tightdp.ledger.amounts.cost` charges for the cell. Otherwise
   cells a and b are different tables, each with one unit more or less, and composing their
   releases costs (E_a + E_b, D_a + D_b) <= (2 max E_c, 2 max D_c), which is at most the same
   charge of the fullest cell. A replace-one guarantee of a cell says nothing about a unit more or
   less: such spends are refused.
3. *The cell is public and a replacement keeps it* (``fixed=True``: a split by row number). A
   replaced unit stays in its cell, so one cell changes by one replacement: the maximum over the
   cells of (E_c, D_c) under replace-one. Under add-remove there is no such thing: who removes a row
   moves the numbers of those behind it, hence rows of every cell. What is left then is a cell that
   is read off the unit, and ``fixed=True`` is refused.
"""

from __future__ import annotations

import json
from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any, NoReturn

from tightdp.errors import BudgetError, fail
from tightdp.ledger.amounts import SYMBOLS, Budget, nothing
from tightdp.ledger.entries import Entry, canonical, check_text
from tightdp.privacy import Neighbors


@dataclass(frozen=True, slots=True)
class Partition:
    """A declared public partition."""

    name: str
    cells: frozenset[str]
    fixed: bool
    person: str | None = None

    @classmethod
    def declared(
        cls, name: Any, cells: object, fixed: Any, person: Any, neighbors: Neighbors
    ) -> Partition:
        """The partition that a caller declares, in a ledger with these neighbours."""
        if not check_text("name", name):
            fail("`name` must be a non-empty text.")
        if isinstance(cells, (str, bytes)) or not isinstance(cells, Iterable):
            fail(f"`cells` must be a list of cells. Got {type(cells).__name__}.")
        listed = [_cell(cell) for cell in cells]
        if len(listed) < 2 or len(set(listed)) != len(listed):
            fail(f"`cells` must be at least 2 distinct cells. Got {len(set(listed))} distinct.")
        if not isinstance(fixed, bool):
            fail(f"`fixed` must be True or False. Got {type(fixed).__name__}.")
        if person is not None and not check_text("person", person):
            fail("`person` must be the name of a column, or None.")
        if fixed and neighbors == Neighbors.ADD_REMOVE:
            fail(
                "`fixed` must be False in an add-remove ledger. Got True: who removes a row moves "
                "the numbers of the rows behind it, so no cell stays as it is. If the cell can be "
                "read off the row itself, declare the partition with fixed=False."
            )
        return cls(name, frozenset(listed), fixed, person)

    @classmethod
    def of(cls, entry: Entry) -> Partition:
        """The partition in an entry."""
        facts = entry.facts()
        cells, person = frozenset(facts["cells"]), facts.get("person")
        return cls(str(entry.partition), cells, bool(facts["fixed"]), person)

    def body(self) -> dict[str, Any]:
        """The body of the entry."""
        return {"cells": sorted(self.cells), "fixed": self.fixed, "person": self.person}

    @property
    def unit(self) -> str:
        """Whom the cells tell apart, as ledgers say it: nobody of them is in two cells."""
        return protected(self.person)

    def check_same(self, asked: Partition) -> None:
        """Refuse another declaration under the same name."""
        if self != asked:
            fail(f"A partition cannot change. Declared was {self}; asked for was {asked}.")

    def check_use(self, cell: str, given: Neighbors, protects: str | None) -> None:
        """Refuse an undeclared cell, and a guarantee that does not compose over the cells."""
        if cell not in self.cells:
            fail(f"`partition` must name a cell of {self}. Got {cell}.")
        if protects is not None and protects != self.unit:  # step 1 above
            fail(
                f"`partition` {self.name!r} tells {self.unit} apart; this release protects "
                f"{protects}, who may be in several cells and pay in each. Spend without "
                "`partition`; or, if all rows of a person lie in one cell, declare a partition "
                "with `person` = the column that names persons."
            )
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
        return f"{self.name!r} {{{cells}}} of {self.unit}, fixed={self.fixed}"


def protected(person: str | None) -> str:
    """Whom releases protect, as a ledger notes it: rows, or the persons in a column.

    >>> protected(None), protected("id")
    ('rows', "persons in column 'id'")
    """
    return "rows" if person is None else f"persons in column {person!r}"


def check_place(value: object) -> tuple[str, str] | tuple[None, None]:
    """Name and cell of a ``partition=(name, cell)`` argument."""
    if value is None:
        return None, None
    if not isinstance(value, tuple) or len(value) != 2:
        fail('`partition` must be None or a pair ("name", cell).')
    return check_text("partition", value[0]), _cell(value[1])


def _cell(value: object) -> str:
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


def agreed_unit(kept: str | None, asked: str | None) -> dict[str, str]:
    """Whom a spend protects, as its entry says it; refused if others protect somebody else."""
    if asked is not None and kept is not None and asked != kept:
        fail(
            f"`ledger`: its releases protect {kept}, this one protects {asked}. Epsilons for "
            "the two do not add: use another ledger, or a schema with the same `person`."
        )
    unit = asked if kept is None else kept
    return {} if unit is None else {"protects": unit}


def refuse(requested: Budget, remaining: Budget) -> NoReturn:
    """Say what was asked for, what is left, and what is missing."""
    over = (requested - remaining).join(nothing(requested.unit))
    hint = ""
    if 0 < over.amount < requested.amount / 10**9 or 0 < over.delta < requested.delta / 10**9:
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


def refuse_slack(price: Budget, left: Budget) -> NoReturn:
    """Say why a delta does not fit where rho or mu**2 is kept."""
    fail(
        f"The budget does not cover the request. Nothing was spent.\n  Requested:  {price}\n"
        f"  Remaining:  {left.text(left=True)}\n"
        f"A release whose {SYMBOLS[price.unit]} holds only but for its delta needs `slack`: a part "
        "of delta that was kept for such releases when the ledger was made. Ask for noise without "
        "a delta of its own (pure or Gaussian noise), or make a ledger with `slack`.",
        BudgetError,
    )
