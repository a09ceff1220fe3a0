"""A ledger is for rows, or for the persons in one column: epsilons of the two do not add."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import LedgerError, ParameterError
from tightdp.ledger import book

TABLE = {"x": np.arange(6.0), "id": np.arange(6) // 2, "house": np.arange(6) // 3}


def schema(**unit: Any) -> tdp.Schema:
    return tdp.Schema({"x": tdp.Interval(0, 6)}, rows=9, neighbors="add-remove", **unit)


ROWS, PERSONS = schema(), schema(person="id", rows_per_person=2)


def pay(ledger: tdp.Ledger, facts: tdp.Schema, **options: Any) -> Any:
    return tdp.sum(TABLE, ["x"], schema=facts, epsilon=1, ledger=ledger, **options)


@pytest.mark.parametrize(
    ("first", "second"),
    [
        (ROWS, PERSONS),
        (PERSONS, ROWS),
        (PERSONS, schema(person="house", rows_per_person=2)),
    ],
)
def test_another_unit_is_refused_unpaid(first, second, place):
    with tdp.Ledger(9, path=place, neighbors="add-remove") as ledger:
        pay(ledger, first)
        with pytest.raises(ParameterError, match=r"^`ledger`: its releases protect .* do not add"):
            pay(ledger, second)
        pay(ledger, first)
        assert ledger.spent.epsilon == 2
        ledger.verify()


def test_persons_with_more_or_fewer_rows_are_the_same_persons(place):
    with tdp.Ledger(9, path=place, neighbors="add-remove") as ledger:
        pay(ledger, PERSONS)
        pay(ledger, schema(person="id", rows_per_person=1))
        assert ledger.protects == "persons in column 'id'"
        assert "for persons in column 'id'" in str(ledger)


def test_what_says_nothing_fits_and_does_not_make_the_ledger_forget(place):
    with tdp.Ledger(9, path=place, neighbors="add-remove") as ledger:
        ledger.spend(Fraction(1, 2))
        assert ledger.protects is None
        pay(ledger, PERSONS)
        ledger.spend(Fraction(1, 2))
        assert ledger.protects == "persons in column 'id'"
        with pytest.raises(ParameterError, match="do not add"):
            pay(ledger, ROWS)
        ledger.verify()


def test_a_file_remembers_and_a_stored_answer_is_given(tmp_path):
    with tdp.Ledger(9, path=tmp_path / "l.db", neighbors="add-remove") as ledger:
        first = pay(ledger, PERSONS, key="k")
    with tdp.Ledger.open(tmp_path / "l.db") as ledger:
        assert pay(ledger, PERSONS, key="k").integers == first.integers
        with pytest.raises(ParameterError, match="do not add"):
            pay(ledger, ROWS)


def test_a_mixed_ledger_does_not_verify(monkeypatch):
    """A broken twin that lets both in is found out by its entries."""
    ledger = tdp.Ledger(9, neighbors="add-remove")
    pay(ledger, PERSONS)
    monkeypatch.setattr(book, "agreed_unit", lambda kept, asked: {"protects": asked})
    pay(ledger, ROWS)
    with pytest.raises(LedgerError, match="protects something else"):
        ledger.verify()


def test_bad_words_are_refused():
    with pytest.raises(ParameterError, match=r"^`protects` must be a text"):
        tdp.Ledger(1).spend(1, protects=3)
