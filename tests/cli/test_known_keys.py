"""What a preview and a release say of keys that the ledger knows, also from an earlier version."""

from __future__ import annotations

import pytest

from tightdp.cli.output import Exit
from tightdp.ledger import Ledger, store
from tightdp.mechanisms.mechanism import Mechanism

from .conftest import PLAN


@pytest.fixture
def from_before(tightdp, monkeypatch):
    """Both releases of the plan are stored, with the fingerprints of version 0.1.0."""
    now = Mechanism.fingerprint
    with monkeypatch.context() as earlier:
        earlier.setattr(Mechanism, "fingerprint", lambda *a: now(*a).partition(":")[2])
        assert tightdp("release", "plan.toml").code == 0


def test_a_release_of_an_earlier_version_is_not_paid_for_again(here, tightdp, from_before):
    """Before: 'choose a new key', which pays again, and of the first release only."""
    said = tightdp("release", "plan.toml")
    assert said.code == Exit.WRONG
    for name in ("means", "answers"):
        assert f"ledger.find('{name}')" in said.err
    assert said.err.count("made by an earlier version") == 2
    with Ledger.open(here / "survey.ledger") as ledger:
        assert ledger.spent.epsilon == 2
        kept = ledger.find("means")
    shown = tightdp("ledger", "show", "survey.ledger", "--key", "means", "--json")
    assert shown.json["release"] == kept
    assert tightdp("ledger", "show", "survey.ledger", "--key", "none").code == Exit.WRONG


def test_a_preview_says_free_of_what_is(here, tightdp, from_before):
    said = tightdp("preview", "plan.toml")
    assert said.code == 0
    assert "free" not in said.err
    assert said.err.count("will be refused") == 2


def test_a_changed_request_is_not_free(here, tightdp):
    assert tightdp("release", "plan.toml").code == 0
    assert (
        "free from now on: means (stored), answers (stored)" in tightdp("preview", "plan.toml").err
    )
    changed = PLAN.replace('kind = "mean"', 'kind = "mean"\ncolumns = ["age"]')
    (here / "plan.toml").write_text(changed)
    said = tightdp("preview", "plan.toml")
    assert "free from now on: answers (stored)\n" in said.err
    assert "will be refused: plan.toml:" in said.err
    assert tightdp("preview", "plan.toml", "--json").json["states"]["means"] == "changed"


def test_a_lost_release_is_not_free(here, tightdp, monkeypatch):
    def stopped(point):
        if point == "storing":
            raise KeyboardInterrupt

    with monkeypatch.context() as context:
        context.setattr(store, "_checkpoint", stopped)
        assert tightdp("release", "plan.toml").code == Exit.PAID
    said = tightdp("preview", "plan.toml").err
    assert "free" not in said
    assert "paid for and lost" in said


def test_a_plan_may_begin_with_a_mark(here, tightdp):
    """Before: a plan from some editors was no TOML."""
    (here / "plan.toml").write_text(PLAN, encoding="utf-8-sig")
    assert tightdp("preview", "plan.toml").code == 0
