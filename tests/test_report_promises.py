"""What reports promise: never more than the ledger has paid for, nor to others than those meant."""

from __future__ import annotations

from fractions import Fraction

import pytest

from tightdp import (
    AdditiveMechanism,
    Category,
    Counts,
    Interval,
    Ledger,
    Release,
    Schema,
    Tables,
    count,
)
from tightdp.errors import LedgerError
from tightdp.ledger.amounts import Budget
from tightdp.privacy import Guarantee, Neighbors, Numerics
from tightdp.report import Report
from tightdp.report.words import together

TWO = {"sex": Category(["f", "m"], other="f"), "k": Category(["a", "b"], other="a")}
SIX = {"sex": [*"ffmmmm"], "k": [*"ababab"]}


def test_promises_about_one_row_more_count_twice_beside_replaced_rows(tmp_path):
    """It said epsilon = 2 for a row more, of which the second release says nothing."""
    path = tmp_path / "a.ledger"
    with Ledger(10, path=path) as ledger:
        for neighbors in ("add-remove", "replace-one"):
            schema = Schema(TWO, rows=6, neighbors=neighbors)
            count(SIX, ["sex"], schema=schema, epsilon=1, ledger=ledger)
        assert ledger.spent.epsilon == 3
    total = Report.of_ledger(path).total
    assert (total.epsilon, str(total.neighbors)) == (3, "replace-one")


def test_totals_of_rho_and_of_persons_take_the_weakest_part():
    one_more = Guarantee(epsilon=1.0, delta=1e-6, rho=0.01, neighbors=Neighbors.ADD_REMOVE)
    replaced = Guarantee(epsilon=1.0, delta=1e-6, rho=0.01)
    both = together([one_more, replaced])
    assert both.neighbors is Neighbors.REPLACE_ONE
    assert both.rho == 0.05
    assert both.delta >= 1e-6 * (2 + 2.718)
    persons = [
        Guarantee(epsilon=1.0, neighbors=Neighbors.ADD_REMOVE, rows_per_person=most)
        for most in (2, 5)
    ]
    assert together(persons).rows_per_person == 5


def test_reports_say_between_which_tables_a_promise_holds(tmp_path):
    """They spoke of all neighbours; tables that differ in what is public are told apart surely."""
    path, only = tmp_path / "a.ledger", "between tables that agree in the public table of sex"
    mechanism = Tables(Schema(TWO, rows=6), [["sex", "k"]], public={"sex": [2, 4]}, epsilon=1)
    with Ledger(1, path=path) as ledger:
        book = mechanism.release(SIX, ledger=ledger)
    for report in (Report.of(book), Report.of_ledger(path)):
        assert report.given == only
        assert only in report.guarantee_words()
        assert only in report.citation()
        assert only in report.to_registry()
        assert any(only in row[-1] for row in report.checklist_rows())
        assert report.to_dict()["guarantee"]["given"] == only


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("epsilon", 0.5),
        ("neighbors", "add-remove"),
        ("seeded", False),
        ("numerics", "exact"),
        ("rows_per_person", 1),
        ("rho", 1e-9),
        ("entry", 3),
        ("hash", None),
        ("cost", {"epsilon": "1e999999999", "delta": "0/1"}),
        ("cost", {"epsilon": "1/1000", "delta": "0/1"}),
    ],
)
def test_a_stored_release_cannot_promise_more_than_was_paid_for(tmp_path, name, value):
    path = tmp_path / "a.ledger"
    paid = Guarantee(epsilon=1.0, seeded=True, numerics=Numerics.APPROXIMATE)
    record = AdditiveMechanism(Counts(Schema(TWO, rows=6)), epsilon=1).release(SIX).to_dict()
    record["guarantee"] |= {"seeded": True, "numerics": "approximate-sampler", "rho": 0.5}
    record["guarantee"] |= {"delta": 1e-6, "rows_per_person": None}
    record["receipt"] = {
        "entry": 2,
        "hash": "",
        "ledger": "",
        "cost": Budget(Fraction(1)).to_dict(),
    }
    record["guarantee" if name in record["guarantee"] else "receipt"][name] = value
    tests = Ledger(2, path=path, allow_seeded=True, allow_approximate=True)
    with tests as ledger, ledger.charge(paid) as charge:
        charge.store(record)
    with pytest.raises(LedgerError, match="Entry 2 of the ledger holds a release with another"):
        Report.of_ledger(path)


def test_payments_with_one_receipt_all_count_in_the_report_of_a_ledger(tmp_path):
    path = tmp_path / "a.ledger"
    mechanism = AdditiveMechanism(Counts(Schema(TWO, rows=6)), epsilon=1)
    with Ledger(2, path=path) as ledger:
        for entry in (2, 4):
            record = mechanism.release(SIX).to_dict()
            record["receipt"] = {"entry": entry, "hash": "same", "ledger": "x"}
            record["receipt"]["cost"] = Budget(Fraction(1)).to_dict()
            with ledger.charge(Guarantee(epsilon=1.0)) as charge:
                charge.store(record)
    assert Report.of_ledger(path).total.epsilon == 2


def test_a_promise_between_tables_that_agree_is_told_with_every_number(tmp_path):
    """Answers and previews of plans spoke of all neighbours; reports of means quoted their law."""
    facts = Schema({**TWO, "pay": Interval(0, 9)}, rows=6)
    only = "between tables that agree in the public tables of k; sex and differ in at most two rows"
    public = {"sex": [2, 4], "k": [3, 3]}
    book = Tables(facts, [["sex", "k"]], means=[("pay", "sex")], public=public, epsilon=1)
    release = book.release({**SIX, "pay": [1.0] * 6})
    again = Release.from_dict(release.to_dict())
    for text in (book.preview(), release, again.guarantee, again.guarantee.amount):
        assert str(text).count(only) == 1
    assert only in str(book.answer(release))
    assert Report.of(release).given == only
    assert Report.of(release).guarantee_words().count(only) == 1
    plain = AdditiveMechanism(Counts(facts), epsilon=1).release(SIX)
    assert "given" not in plain.to_dict()["guarantee"]
