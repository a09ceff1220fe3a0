"""Plans whose ledger adds rho or mu**2: previews in every unit, weights, and what is refused."""

from __future__ import annotations

from fractions import Fraction
from pathlib import Path

import pytest

import tightdp as tdp
from tightdp.errors import BudgetError, LedgerError, ParameterError

HEAD = """
title = "A year"
[data]
file = "ages.csv"
[schema]
rows = 200
columns.age = {{low = 0, high = 100}}
[budget]
{budget}
ledger = "year.db"
"""
RELEASE = """
[[releases]]
kind = "{kind}"
name = "{name}"
column = "age"
{how}
"""
ZCDP = 'epsilon = 3\ndelta = 1e-6\naccountant = "zcdp"'


def write(folder: Path, budget: str, *releases: tuple[str, str, str]) -> Path:
    rows = "\n".join(str(k % 100) for k in range(200))
    (folder / "ages.csv").write_text(f"age\n{rows}\n")
    parts = [RELEASE.format(kind=kind, name=name, how=how) for kind, name, how in releases]
    path = folder / "plan.toml"
    path.write_text(HEAD.format(budget=budget) + "".join(parts))
    return path


def test_a_plan_names_its_accountant_and_pays_in_its_unit(tmp_path):
    path = write(
        tmp_path,
        ZCDP,
        ("median", "middle", "epsilon = 0.4"),
        ("histogram", "ages", "bins = 4\nepsilon = 0.2"),
    )
    plan = tdp.Plan.read(path)
    found = plan.preview()
    assert found.costs["middle"].rho == Fraction(2, 100)  # bounded range: 0.4^2/8
    assert found.costs["ages"].rho == Fraction(2, 100)
    assert found.share("middle") == found.share("ages") == 0.109
    text = str(found)
    assert "share of the budget" in text
    assert "10.9 %" in text
    assert "rho = 0.04 of 0.185069" in text
    assert "worth epsilon = 3" in text
    assert found.to_dict()["releases"][0]["rho"] == "1/50"
    result = plan.release()
    assert result.spent.rho == Fraction(4, 100)
    again = tdp.Plan.read(path)
    assert set(again.states().values()) == {"stored"}
    assert not again.release().fresh
    report = tdp.Report.of_plan(plan, result)
    assert "rho = 0.04" in report.balance
    assert report.receipt_rows()[0][2] == "rho"
    assert report.to_registry()
    with tdp.Ledger(epsilon=3, delta=1e-6, accountant="zcdp", path=tmp_path / "year.db") as ledger:
        ledger.verify()
    with pytest.raises(LedgerError, match="cannot change"):
        tdp.Plan.read(write(tmp_path, "epsilon = 3", ("median", "middle", "epsilon = 0.4")))


def test_more_fits_than_epsilons_would_add_up_to(tmp_path):
    many = [("median", f"m{k}", "epsilon = 0.3") for k in range(16)]
    tdp.Plan.read(write(tmp_path, ZCDP, *many))
    with pytest.raises(BudgetError, match="over budget"):
        tdp.Plan.read(write(tmp_path, "epsilon = 3", *many))
    with pytest.raises(BudgetError, match=r"over budget\. The releases ask for rho = 0\.18"):
        tdp.Plan.read(write(tmp_path, "rho = 0.17", *many))


def test_few_releases_that_fit_where_epsilons_are_added_are_told_so(tmp_path):
    few = [("median", "one", "epsilon = 1.4"), ("median", "two", "epsilon = 1.4")]
    tdp.Plan.read(write(tmp_path, "epsilon = 3", *few))
    with pytest.raises(BudgetError, match="fit where epsilons are added"):
        tdp.Plan.read(write(tmp_path, ZCDP.replace("zcdp", "gaussian"), *few))


@pytest.mark.parametrize("budget", [ZCDP, ZCDP.replace("zcdp", "gaussian"), "rho = 0.2"])
def test_weights_share_the_cap(tmp_path, budget):
    plan = tdp.Plan.read(
        write(
            tmp_path,
            budget,
            ("histogram", "one", "bins = 2\nweight = 1"),
            ("histogram", "two", "bins = 2\nweight = 2"),
        )
    )
    one, two = (planned.request.epsilon for planned in plan.releases)
    assert abs(two / one - 2) < Fraction(1, 10**6)
    found = plan.preview()
    assert plan.cap is not None
    spent = sum(plan.cap.booked(cost)[0] for cost in found.costs.values())
    assert Fraction(999, 1000) < spent / plan.cap.amount <= 1
    plan.release()


@pytest.mark.parametrize(
    ("budget", "words"),
    [
        ('epsilon = 3\naccountant = "zcdp"', "`delta` must be above"),
        ('epsilon = 3\ndelta = 1e-6\naccountant = "renyi"', "`accountant`"),
        ("rho = 1\nepsilon = 3", "stated alone"),
        ("rho = -1", "`rho`"),
        ("delta = 1e-6", "needs `epsilon`"),
    ],
)
def test_bad_budgets_are_refused_with_their_line(tmp_path, budget, words):
    with pytest.raises(ParameterError, match=words):
        tdp.Plan.read(write(tmp_path, budget, ("median", "middle", "epsilon = 0.4")))
    assert not (tmp_path / "year.db").exists()


def test_a_budget_is_split_over_all_releases_jointly():
    schema = tdp.Schema({name: tdp.Interval(0, 1) for name in "abcd"}, rows=5000)
    sums = {name: tdp.Sums(schema, [name]) for name in schema}
    wish = dict.fromkeys(sums, 20)
    split = tdp.split_budget(sums, epsilon=1, errors=wish)
    assert split.as_one is not None
    assert split.as_one < split.ratio
    assert "as one vector" in str(split)
    joint = tdp.AdditiveMechanism(tdp.Sums(schema), noise="best", epsilon=1)
    assert split.as_one == pytest.approx(joint.preview().half_width.max() / 20)

    monthly = dict.fromkeys([f"month {k}" for k in range(30)], sums["a"])
    wish = dict.fromkeys(monthly, 100)
    under = tdp.split_budget(monthly, epsilon=1, delta=1e-6, accountant="zcdp", errors=wish)
    plain = tdp.split_budget(monthly, epsilon=1, errors=wish)
    assert under.ratio < 0.85 * plain.ratio
    with tdp.Ledger(epsilon=1, delta=1e-6, accountant="zcdp") as ledger:
        for epsilon in under.epsilon.values():
            ledger.spend(epsilon)  # all of them fit, and hardly more would
        assert ledger.remaining.rho < ledger.spent.rho / 100
