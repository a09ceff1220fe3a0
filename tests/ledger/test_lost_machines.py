"""A release whose machine is gone can be given up: the charge stays, the key is burned."""

from __future__ import annotations

import json
from fractions import Fraction

import pytest

import tightdp as tdp
from tightdp.cli import main
from tightdp.errors import BurnedError, LedgerError, ParameterError, PendingError
from tightdp.ledger import Ledger, charges


@pytest.fixture
def lost(tmp_path, monkeypatch):
    """A ledger in which a container with another host name has paid and is gone."""
    monkeypatch.setattr(charges, "this_process", lambda: "container-1/77/123")
    with Ledger(1, path=tmp_path / "l.db", timeout=0.05) as ledger:
        receipt = ledger.spend(0.25, key="means")
        ledger.spend(0.25)
    monkeypatch.undo()
    return tmp_path / "l.db", receipt


def test_it_is_in_progress_until_somebody_gives_it_up(lost):
    place, receipt = lost
    with Ledger.open(place, timeout=0.05) as ledger:
        with pytest.raises(PendingError, match="tightdp ledger burn"):
            ledger.spend(0.25, key="means")
        assert ledger.give_up("means") == receipt.entry.counter
        with pytest.raises(BurnedError):
            ledger.spend(0.25, key="means")
        assert ledger.give_up(entry=3) == 3
        assert [row.state for row in ledger.history()] == ["burned", "burned"]
        assert ledger.spent.epsilon == Fraction(1, 2)
        ledger.verify(receipt)


def test_who_still_computes_cannot_publish_afterwards(lost):
    place, receipt = lost
    with Ledger.open(place) as ledger:
        ledger.give_up("means")
        with pytest.raises(LedgerError, match="has ended"):
            ledger.store(receipt, {"value": 1})
        with pytest.raises(BurnedError):
            ledger.find("means")


def test_only_what_is_in_progress_can_be_given_up(lost):
    with Ledger.open(lost[0]) as ledger:
        with ledger.charge(tdp.Guarantee(epsilon=0.25), key="done") as charge:
            charge.store({"value": 1})
        with pytest.raises(LedgerError, match="has ended"):
            ledger.give_up("done")
        assert ledger.find("done") == {"value": 1}
        for wrong in (
            {"key": "no such"},
            {"entry": 99},
            {"entry": 1},
            {},
            {"key": "a", "entry": 2},
        ):
            with pytest.raises(ParameterError, match=r"no spend|one of them"):
                ledger.give_up(**wrong)


def test_the_command(lost, capsys):
    place = str(lost[0])
    assert main(["ledger", "burn", place, "--key", "means", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["burned"] == 2
    assert main(["ledger", "burn", place, "--key", "means"]) == 4
    assert main(["ledger", "burn", place, "--entry", "3"]) == 0
    assert main(["ledger", "burn", place]) == 2
    assert main(["ledger", "burn", place, "--key", "other"]) == 2
