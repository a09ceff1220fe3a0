"""Ledgers that keep rho or mu**2: exact caps, what may not be mixed, and files of both formats."""

from __future__ import annotations

import shutil
import sqlite3
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tightdp as tdp
from tightdp.accounting import Cost
from tightdp.accounting.conversions import (
    gaussian_dp_delta,
    gaussian_dp_mu_squared,
    pure_mu_squared,
    zcdp_delta,
    zcdp_rho,
)
from tightdp.errors import BudgetError, LedgerError, ParameterError
from tightdp.ledger import Ledger
from tightdp.ledger.amounts import Budget

OLD = Path(__file__).parent / "files" / "ledger_0.2.0.db"
MILLIONTH = Fraction(1, 10**6)


def counts(std: int) -> Cost:
    return Cost.gaussian(Fraction(1, std**2), delta=1e-6)


# --- old files ------------------------------------------------------------------------------------


def test_a_file_of_the_version_before_opens_verifies_and_goes_on(tmp_path):
    path = tmp_path / "old.db"
    shutil.copy(OLD, path)
    with Ledger.open(path) as ledger:
        head = ledger.verify()
        assert head.hash == "0a922a5a875eb59fd08bf9ea90aa3e3d49ecacd80728a67431271733d3dbe679"
        assert ledger.accountant == "sum"
        assert ledger.spent == Budget(Fraction(11, 6), Fraction(1, 10**7))
        assert ledger.find("sums")["names"] == ["x"]
        ledger.spend(Cost.of(Fraction(1, 6)), key="new")
        assert ledger.remaining.epsilon == 1
        ledger.verify(head)
    # what was asked for then is asked for again: the same release, for nothing
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=100)
    with Ledger(epsilon=3, delta=1e-6, path=path) as ledger:
        mechanism = tdp.AdditiveMechanism(tdp.Sums(schema), epsilon=Fraction(1, 3))
        again = mechanism.release({"x": np.linspace(0, 1, 100)}, ledger=ledger, key="sums")
        assert again.to_dict() == ledger.find("sums")
        # noise="gaussian" has another law since: the stored release is kept, as it was
        assert ledger.find("gaussian")["guarantee"]["delta"] == 1e-7
        assert ledger.remaining.epsilon == 1


def test_a_ledger_of_epsilons_writes_the_same_table_as_before(tmp_path):
    tables = []
    Ledger(epsilon=1, path=tmp_path / "new.db").close()
    for path in (OLD, tmp_path / "new.db"):
        connection = sqlite3.connect(f"{path.as_uri()}?mode=ro&immutable=1", uri=True)
        tables.append(set(connection.execute("SELECT name, sql FROM sqlite_master")))
        connection.close()
    assert tables[0] == tables[1]


# --- caps -----------------------------------------------------------------------------------------


def test_caps_are_what_the_conversions_say():
    rho = Ledger(epsilon=3, delta=1e-6, accountant="zcdp")
    assert rho.remaining.amount == zcdp_rho(Fraction(3), MILLIONTH)
    assert zcdp_delta(Fraction(3), rho.remaining.rho) <= MILLIONTH
    mu = Ledger(epsilon=3, delta=1e-6, accountant="gaussian", slack=5e-7)
    assert mu.remaining.amount == gaussian_dp_mu_squared(Fraction(3), MILLIONTH / 2)
    assert gaussian_dp_delta(Fraction(3), mu.remaining.mu_squared) <= MILLIONTH / 2
    assert mu.caps == Budget(Fraction(3), MILLIONTH)
    assert Ledger(rho=0.5).caps == Budget(Fraction(1, 2), unit="rho")


@pytest.mark.parametrize("accountant", ["zcdp", "gaussian"])
@pytest.mark.parametrize("epsilon", [1e-6, 1, 50, 2**20])
@pytest.mark.parametrize("delta", [5e-324, 1e-100, 1e-12, 0.9])
def test_caps_at_the_ends_of_what_can_be_stated(accountant, epsilon, delta):
    """A cap that is made can be opened again: it is worth no more than it says."""
    with Ledger(epsilon=epsilon, delta=delta, accountant=accountant) as ledger:
        left = ledger.remaining
        assert left.amount > 0
        assert ledger.how_many(Cost.gaussian(left.mu_squared, delta=1e-6, epsilon=1)) == 1


def test_as_many_counts_fit_as_the_mathematics_allows():
    """Spent one by one, until the ledger refuses."""
    for std, least in ((10, 41), (30, 370)):
        with Ledger(epsilon=3, delta=1e-6, accountant="gaussian") as ledger:
            foreseen = ledger.how_many(counts(std))
            assert foreseen >= least
            for _ in range(foreseen):
                ledger.spend(counts(std))
            with pytest.raises(BudgetError, match="does not cover"):
                ledger.spend(counts(std))
            assert ledger.how_many(counts(std)) == 0
            ledger.verify()
    assert Ledger(epsilon=3, delta=1e-6, accountant="gaussian").how_many_counts(30) >= 370
    assert Ledger(epsilon=3, delta=1e-6, accountant="zcdp").how_many_counts(10) == 37
    assert Ledger(epsilon=3, accountant="sum").how_many_counts(10) == 21


def test_counts_with_gaussian_integers_are_released_until_the_cap():
    """From the table to the ledger: standard deviation 10, each chosen after the last answer."""
    yes = tdp.Category(["no", "yes"], other="no")
    schema = tdp.Schema({"flag": yes}, rows=100)
    table = {"flag": ["no", "yes"] * 50}
    rho = 1 / (2 * (Fraction(100) - Fraction(1, 12)))
    mechanism = tdp.AdditiveMechanism(
        tdp.Flags(schema, ["flag"]), noise="gaussian", rho=rho, delta=1e-6
    )
    assert mechanism.preview().std[0] == pytest.approx(10, rel=1e-3)
    with Ledger(epsilon=3, delta=1e-6, accountant="gaussian") as ledger:
        assert ledger.how_many(mechanism.cost) == ledger.how_many_counts(10) >= 41
        released = 0
        while True:
            try:
                answer = mechanism.release(table, ledger=ledger)
            except BudgetError:
                break
            released += 1
            assert answer.integers[0] == round(answer.value[0])
        assert released >= 41
        ledger.verify()


def test_a_cap_is_reached_exactly_and_never_passed(place):
    with Ledger(rho=Fraction(1, 2), path=place) as ledger:
        for _ in range(100):
            ledger.spend(0.1)  # 1/200 each
        assert ledger.remaining.rho == 0
        with pytest.raises(BudgetError, match="rho = 5e-13, delta = 0"):
            ledger.spend(1e-6)
        ledger.verify()


def test_every_kind_of_release_is_booked_in_the_unit_of_the_ledger(place):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=100)
    table = {"x": np.linspace(0, 1, 100)}
    median = tdp.KNormMedian(schema, "x", epsilon=0.1)
    noisy = tdp.AdditiveMechanism(tdp.Sums(schema), epsilon=0.2, delta=1e-9, noise="gaussian")
    with Ledger(rho=1, path=place) as ledger:
        median.release(table, ledger=ledger, key="median")
        noisy.release(table, ledger=ledger, key="sum")
        assert ledger.spent.rho == Fraction(1, 800) + noisy.cost.rho
        assert ledger.spent.delta == 0
        receipt = ledger.history()[0]
        assert receipt.cost == Budget(Fraction(1, 800), unit="rho")
        assert "rho" in str(ledger)
    with Ledger(epsilon=3, delta=1e-6, accountant="gaussian", slack=1e-7) as ledger:
        noisy.release(table, ledger=ledger)
        assert ledger.spent.mu_squared == noisy.cost.mu_squared == 2 * noisy.cost.rho
        # zCDP says nothing of mu: it counts as the (epsilon, delta) that it implies
        ledger.spend(Cost.concentrated(Fraction(1, 10**4), epsilon=0.2, delta=1e-9))
        assert ledger.spent.mu_squared == noisy.cost.mu_squared + pure_mu_squared(Fraction(1, 5))
        assert ledger.spent.delta == Fraction(1, 10**9)


def test_a_delta_of_its_own_needs_slack():
    truncated = Cost.of(0.1, 1e-9)
    for terms in ({"rho": 1}, {"epsilon": 3, "delta": 1e-6, "accountant": "gaussian"}):
        ledger = Ledger(**terms)
        with pytest.raises(BudgetError, match="slack"):
            ledger.spend(truncated)
        assert ledger.spent.amount == 0
        Ledger(**terms, slack=1e-8).spend(truncated)


# --- what may not be mixed ------------------------------------------------------------------------


def test_add_remove_costs_four_times_the_rho_under_replace_one(place):
    with Ledger(rho=1, path=place) as ledger:
        ledger.spend(counts(10), neighbors="add-remove")
        assert ledger.spent.rho == 4 * counts(10).rho
        ledger.spend(0.1, neighbors="add-remove")
        assert ledger.spent.rho == 4 * counts(10).rho + Fraction(1, 50)
        ledger.verify()
    with pytest.raises(ParameterError, match="add-remove"):
        Ledger(rho=1, neighbors="add-remove").spend(0.1, neighbors="replace-one")


def test_much_rho_under_add_remove_needs_no_delta_under_replace_one(place):
    with Ledger(rho=1000, path=place) as ledger:
        ledger.spend(Cost.concentrated(100, delta=1e-6), neighbors="add-remove")
        assert ledger.spent.rho == 400
        ledger.verify()
        with pytest.raises(ParameterError, match=r"1 \+ e\^epsilon .* neighbors='add-remove'"):
            ledger.spend(100, 1e-6, neighbors="add-remove")


def test_rows_and_persons_do_not_add():
    ledger = Ledger(rho=1)
    ledger.spend(0.1, protects="rows")
    with pytest.raises(ParameterError, match="do not add"):
        ledger.spend(0.1, protects="persons in column 'id'")


def test_disjoint_parts_cost_the_largest_rho():
    ledger = Ledger(rho=1, neighbors="add-remove")
    ledger.declare_partition("region", ["north", "south"], fixed=False)
    ledger.spend(0.2, partition=("region", "north"))
    ledger.spend(0.1, partition=("region", "south"))
    assert ledger.spent.rho == Fraction(1, 50)
    ledger.verify()


@pytest.mark.parametrize(
    ("terms", "words"),
    [
        ({}, "`epsilon` must"),
        ({"epsilon": 1, "accountant": "zcdp"}, "`delta` must be above"),
        ({"epsilon": 1, "delta": 1e-6, "accountant": "gaussian", "slack": 1e-6}, "above `slack`"),
        ({"epsilon": 1, "rho": 1}, "stated alone"),
        ({"rho": 1, "delta": 1e-6}, "stated alone"),
        ({"rho": 1, "accountant": "gaussian"}, "stated alone"),
        ({"rho": 1, "accountant": "sum"}, "stated alone"),
        ({"rho": 0}, "`rho`"),
        ({"rho": float("nan")}, "`rho`"),
        ({"epsilon": 1, "slack": 0.1}, "`slack` must be 0"),
        ({"epsilon": 1, "delta": 1e-6, "accountant": "renyi"}, "`accountant`"),
        ({"epsilon": 1, "delta": 1e-6, "accountant": "pld"}, "it is no cap"),
        ({"epsilon": 1, "delta": 1e-6, "accountant": ""}, "`accountant`"),
        ({"epsilon": 1, "delta": 1e-6, "accountant": np.array(["zcdp", "sum"])}, "`accountant`"),
        ({"epsilon": 1, "delta": 1e-6, "slack": np.zeros(2)}, "`slack`"),
    ],
)
def test_bad_terms_are_refused_and_leave_no_file(terms, words, tmp_path):
    with pytest.raises(ParameterError, match=words):
        Ledger(**terms, path=tmp_path / "ledger.db")
    assert not (tmp_path / "ledger.db").exists()


# --- files ----------------------------------------------------------------------------------------


def test_terms_are_kept_and_cannot_change(tmp_path):
    path = tmp_path / "ledger.db"
    terms = {"epsilon": 3, "delta": 1e-6, "accountant": "gaussian", "slack": 1e-8}
    with Ledger(**terms, path=path) as ledger:
        ledger.spend(counts(30), key="a")
    with Ledger(**terms, path=path) as ledger:
        assert ledger.accountant == "gaussian"
        assert ledger.spent.mu_squared == Fraction(1, 900)
        with pytest.raises(ParameterError, match="another asked"):
            ledger.spend(counts(31), key="a")
    for other in ({"accountant": "zcdp"}, {"slack": 0}, {"epsilon": 2}):
        with pytest.raises(LedgerError, match="cannot change"):
            Ledger(**{**terms, **other}, path=path)


def test_a_changed_cap_amount_or_cost_is_noticed(tmp_path):
    path = tmp_path / "ledger.db"
    with Ledger(epsilon=1, delta=1e-6, accountant="zcdp", path=path) as ledger:
        ledger.spend(0.01)
    for column in ("rho", "total_rho"):
        copy = tmp_path / f"{column}.db"
        shutil.copy(path, copy)
        connection = sqlite3.connect(copy)
        connection.execute("DROP TRIGGER entries_are_not_changed")
        connection.execute(f"UPDATE entries SET {column} = '1/99999999' WHERE number = 2")
        connection.commit()
        connection.close()
        with pytest.raises(LedgerError):
            Ledger.open(copy).verify()


def test_a_cap_that_is_worth_more_than_it_says_is_refused(tmp_path, monkeypatch):
    """A file whose author computed the cap wrongly, hashes and all."""
    from tightdp.accounting import caps

    monkeypatch.setattr(caps, "zcdp_rho", lambda epsilon, delta: zcdp_rho(epsilon, delta) * 2)
    with pytest.raises(LedgerError, match="above the epsilon and delta"):
        Ledger(epsilon=1, delta=1e-6, accountant="zcdp", path=tmp_path / "ledger.db")


@pytest.mark.parametrize(
    ("accountant", "epsilon", "delta"),
    [("gaussian", 1, 1e-60), ("gaussian", 3, 1e-31), ("zcdp", 1e-12, 1e-20), ("zcdp", 1, 1e-300)],
)
def test_a_cap_with_a_small_delta_can_be_opened_again(accountant, epsilon, delta, tmp_path):
    terms = {"epsilon": epsilon, "delta": delta, "accountant": accountant}
    with Ledger(**terms, path=tmp_path / "ledger.db") as made:
        made.spend(epsilon / 2**20)
    with Ledger(**terms, path=tmp_path / "ledger.db") as ledger:
        assert ledger.verify().counter == 2


# --- what is left, and what was lost --------------------------------------------------------------


@pytest.mark.parametrize("accountant", ["sum", "zcdp", "gaussian"])
def test_what_is_left_in_any_unit_can_be_spent_and_hardly_more(accountant):
    more = 1 + Fraction(1, 10**6)

    def ledger() -> Ledger:
        made = Ledger(epsilon=2, delta=1e-6, accountant=accountant)
        made.spend(0.125)
        return made

    left = ledger().remaining
    ledger().spend(left.epsilon)
    with pytest.raises(BudgetError):
        ledger().spend(left.epsilon * more)
    if accountant == "sum":
        ledger().spend(Cost.gaussian(left.mu_squared, delta=left.delta))
        with pytest.raises(BudgetError):
            ledger().spend(Cost.gaussian(left.mu_squared * more, delta=left.delta))
    else:
        ledger().spend(Cost.gaussian(left.mu_squared, delta=1e-6))
        with pytest.raises(BudgetError):
            ledger().spend(Cost.gaussian(left.mu_squared * more, delta=1e-6))


def test_the_odometer_is_above_the_plan_and_grows():
    for accountant in ("sum", "zcdp", "gaussian"):
        ledger = Ledger(epsilon=3, delta=1e-6, accountant=accountant)
        before = Fraction(-1)
        for _ in range(5):
            ledger.spend(0.05)
            now = ledger.odometer()
            assert now > before
            before = now
        if accountant == "sum":
            assert now == Fraction(1, 4)
        else:
            assert ledger.tight_epsilon(1e-6) < now
    with pytest.raises(ParameterError, match="`delta` must be given"):
        Ledger(rho=1).odometer()
    slack = Ledger(rho=1, slack=1e-6)
    slack.spend(Cost.of(0.1, 1e-9))
    with pytest.raises(ParameterError, match="`delta` must be above"):
        slack.odometer(1e-7)


def test_an_odometer_counts_the_slack_from_the_first_release_on():
    """Else who buys a failure only where the loss was low gets delta twice."""
    terms = {"epsilon": 3, "delta": 1e-6, "slack": 9e-7}
    for accountant in ("zcdp", "gaussian"):
        ledger = Ledger(**terms, accountant=accountant)
        ledger.spend(0.25)
        plain = Ledger(epsilon=3, delta=1e-6, accountant=accountant)
        plain.spend(0.25)
        assert ledger.odometer() > plain.odometer()
        before, spent = ledger.odometer(), ledger.spent.amount
        ledger.spend(Cost.of(Fraction(1, 10**9), 1e-9))
        assert ledger.odometer() - before < 10 * (ledger.spent.amount - spent) + Fraction(1, 10**9)
        with pytest.raises(ParameterError, match="`delta` must be above"):
            Ledger(**terms, accountant=accountant).odometer(9e-7)


def test_a_budget_in_one_unit_says_so_when_asked_for_another():
    with pytest.raises(ParameterError, match="kept as `rho`"):
        _ = Ledger(rho=1).spent.epsilon
