"""A sampler that only approaches its law is not booked as if it had been proved."""

from __future__ import annotations

import json

import numpy as np
import pytest

import tightdp as tdp
from tightdp.cli import main
from tightdp.errors import LedgerError, ParameterError
from tightdp.ledger import Ledger, book
from tightdp.privacy import Numerics

MARK = "APPROXIMATE: epsilon is not proved"
ROWS = np.linspace(0, 1, 60).reshape(30, 2)


def chain(ledger: Ledger) -> tdp.Release:
    """A release by a Markov chain."""
    schema = tdp.Schema({"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1)}, rows=30)
    median = tdp.KNormGeometricMedian(schema, epsilon=1, sampler="mcmc", steps=100)
    return median.release(ROWS, ledger=ledger)


def test_chains_are_refused_before_payment_unless_let_in():
    ledger = Ledger(9)
    with pytest.raises(ParameterError, match=r"`approximate` must be False.*allow_approximate"):
        chain(ledger)
    assert ledger.spent.epsilon == 0
    assert not ledger.history()
    with pytest.raises(ParameterError, match="`allow_approximate` must be True or False"):
        Ledger(9, allow_approximate=1)


def test_what_is_let_in_is_marked_wherever_it_is_seen(tmp_path, capsys):
    place = tmp_path / "rough.ledger"
    with Ledger(9, path=place, allow_approximate=True) as ledger:
        release = chain(ledger)
        assert ledger.allow_approximate
        assert ledger.history()[0].approximate
        for text in (str(release), release._repr_html_(), str(ledger), ledger._repr_html_()):
            assert MARK in text
        assert "NOT PROVED" in str(ledger)
        ledger.verify()
    report = tdp.Report.of(release)
    assert "<b>Not proved.</b>" in report.html()
    assert "**Not proved.**" in report.markdown()
    assert "Not proved." in report._repr_html_()
    assert MARK in report.citation()
    assert report.to_dict()["guarantee"]["approximate"] is True
    assert main(["ledger", "show", str(place)]) == 0
    assert MARK in capsys.readouterr().out
    assert main(["ledger", "show", str(place), "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["history"][0]["approximate"] is True


def test_exact_releases_have_no_mark():
    ledger = Ledger(9, allow_approximate=True)
    ledger.spend(1)
    assert MARK not in str(ledger)
    assert MARK not in str(tdp.Guarantee(epsilon=1.0, numerics=Numerics.EXACT))


def test_a_file_keeps_its_permission(tmp_path):
    place = tmp_path / "l.db"
    Ledger(1, path=place).close()
    with pytest.raises(LedgerError, match="allow_approximate = False; asked for"):
        Ledger(1, path=place, allow_approximate=True)


def test_a_key_names_one_request():
    ledger = Ledger(9, allow_approximate=True)
    with ledger.charge(tdp.Guarantee(epsilon=1.0), key="k") as charge:
        charge.store({})
    rough = tdp.Guarantee(epsilon=1.0, numerics=Numerics.APPROXIMATE)
    with pytest.raises(ParameterError, match="another approximate"), ledger.charge(rough, key="k"):
        pass


def test_a_ledger_that_let_it_in_unasked_does_not_verify(monkeypatch):
    ledger = Ledger(9)
    monkeypatch.setattr(book.Terms, "check_allowed", lambda *_: None)
    ledger.spend(1, approximate=True)
    with pytest.raises(LedgerError, match="approximate sampler was let in"):
        ledger.verify()
