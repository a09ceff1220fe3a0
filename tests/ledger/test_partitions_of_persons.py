"""Cells count by their maximum only for those who are in one cell: never too little is charged."""

from __future__ import annotations

from fractions import Fraction
from itertools import product

import pytest

import tightdp as tdp
from tightdp.errors import LedgerError, ParameterError
from tightdp.ledger import Ledger
from tightdp.ledger.composition import Partition

HALF = Fraction(1, 2)
PERSONS = "persons in column 'id'"
CELLS = ["north", "south"]


def test_persons_with_rows_in_several_cells_do_not_compose_in_parallel(place):
    """Somebody with a row in each region pays in each: 1/2 and 1/2 is 1, not 1/2."""
    with Ledger(1, path=place, neighbors="add-remove") as ledger:
        ledger.declare_partition("region", CELLS, fixed=False)
        per_person = tdp.Guarantee(epsilon=0.5, neighbors="add-remove", rows_per_person=3)
        with (
            pytest.raises(ParameterError, match=r"tells rows apart.*pay in each"),
            ledger.charge(per_person, protects=PERSONS, partition=("region", "north")),
        ):
            pass
        with (
            pytest.raises(ParameterError, match=r"`protects` must say which persons"),
            ledger.charge(per_person, partition=("region", "north")),
        ):
            pass
        assert ledger.spent.epsilon == 0


@pytest.mark.parametrize("first", ["partition", "persons"])
def test_the_order_of_spends_does_not_matter(first):
    """Rows in cells first and persons later would leave the cells counted by their maximum."""
    ledger = Ledger(4, neighbors="add-remove")
    ledger.declare_partition("region", CELLS, fixed=False)
    steps = {
        "partition": lambda: ledger.spend(HALF, partition=("region", "north")),
        "persons": lambda: ledger.spend(HALF, protects=PERSONS),
    }
    steps.pop(first)()
    (other,) = steps.values()
    with pytest.raises(ParameterError, match=r"persons in column 'id'.*|.*protect"):
        other()
    assert ledger.spent.epsilon == HALF


def test_cells_that_hold_all_rows_of_a_person_count_by_their_maximum(place):
    with Ledger(1, path=place, neighbors="add-remove") as ledger:
        ledger.declare_partition("born", ["odd", "even"], fixed=False, person="id")
        for cell in ("odd", "even"):
            ledger.spend(HALF, partition=("born", cell), protects=PERSONS)
        assert (ledger.spent.epsilon, ledger.protects) == (HALF, PERSONS)
        for other in ("rows", "persons in column 'house'"):
            with pytest.raises(ParameterError, match="do not add"):
                ledger.spend(HALF, partition=("born", "odd"), protects=other)
        with (
            pytest.raises(ParameterError, match="do not add"),  # it is about rows, and says so
            ledger.charge(
                tdp.Guarantee(epsilon=0.5, neighbors="add-remove"), partition=("born", "odd")
            ),
        ):
            pass
        ledger.verify()
    with Ledger.open(place or ":memory:") if place else Ledger(1) as again:
        assert place is None or again.spent.epsilon == HALF


def test_a_split_by_row_number_is_refused_where_rows_can_be_removed():
    with pytest.raises(ParameterError, match=r"`fixed` must be False in an add-remove ledger"):
        Ledger(1, neighbors="add-remove").declare_partition("half", [1, 2], fixed=True)


def test_a_partition_cannot_become_one_of_persons():
    ledger = Ledger(1, neighbors="add-remove")
    ledger.declare_partition("region", CELLS, fixed=False)
    with pytest.raises(ParameterError, match="cannot change"):
        ledger.declare_partition("region", CELLS, fixed=False, person="id")


# --- the rule against an enumeration --------------------------------------------------------------


def losses(spends, moves):
    """The largest sum of epsilons over what one neighbour can change; an oracle without a ledger.

    ``spends`` are (cell, epsilon) under add-remove; a move is the set of the cells that it touches,
    with the number of units more or less in each.
    """
    return max(sum(e * move.get(cell, 0) for cell, e in spends) for move in moves)


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_what_is_charged_covers_every_move(neighbors):
    one = [{0: 1}, {1: 1}, {2: 1}]
    moves = one if neighbors == "add-remove" else [
        {a: 2} if a == b else {a: 1, b: 1} for a, b in product(range(3), repeat=2)
    ]  # fmt: skip
    sizes = [Fraction(1), Fraction(1, 3), Fraction(2, 5)]
    for order in product(range(3), repeat=4):
        ledger = Ledger(100, neighbors=neighbors)
        ledger.declare_partition("cell", range(3), fixed=False)
        spends = [(cell, sizes[i % 3]) for i, cell in enumerate(order)]
        for cell, epsilon in spends:
            ledger.spend(epsilon, partition=("cell", cell), neighbors="add-remove")
        assert ledger.spent.epsilon >= losses(spends, moves)
        # the rule is not only safe: a neighbour that costs so much exists
        assert ledger.spent.epsilon == losses(spends, moves)


def test_the_enumeration_catches_persons_in_two_cells():
    """A planted fault: the maximum over cells for somebody who is in both."""
    spends = [(0, HALF), (1, HALF)]
    assert losses(spends, [{0: 1, 1: 1}]) > max(e for _, e in spends)


def test_a_ledger_that_let_it_happen_does_not_verify(monkeypatch):
    ledger = Ledger(4, neighbors="add-remove")
    ledger.declare_partition("region", CELLS, fixed=False)
    monkeypatch.setattr(Partition, "check_use", lambda self, cell, given, protects: None)
    monkeypatch.setattr(Partition, "unit", PERSONS)
    ledger.spend(HALF, partition=("region", "north"), protects=PERSONS)
    monkeypatch.undo()
    with pytest.raises(LedgerError, match="does not verify"):
        ledger.verify()
