"""Epsilon and delta are printed rounded up, what is left of a budget rounded down; on all faces."""

from __future__ import annotations

import ast
import re
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tightdp as tdp
from tightdp.audit.audit_report import AuditReport
from tightdp.budget_split import BudgetSplit
from tightdp.cli.main import main
from tightdp.errors import BudgetError
from tightdp.ledger.amounts import Budget, shown
from tightdp.plans import Plan
from tightdp.privacy import Guarantee, text_down, text_up
from tightdp.report import Report
from tightdp.report.words import together

SOURCE = Path(tdp.__file__).parent
JUST_ABOVE = "1.0000004"  # six digits, to the nearest, would print 1
SPENT = re.compile(r"epsilon(?:\*\*)? (?:= |of )?([0-9][0-9.e-]*[0-9]|[0-9])")


def test_few_digits_never_say_less(seed):
    rng = np.random.default_rng(seed)
    numbers = [*rng.uniform(0, 1, 500), *10 ** rng.uniform(-300, 6, 500), 0.1, 0.3, 1e-6, 0.1 + 0.2]
    for number in map(float, numbers):
        up, down = Fraction(text_up(number)), Fraction(text_down(number))
        assert down <= Fraction(repr(number)) <= up
        assert up - down <= Fraction(repr(number)) / 10**4
    assert [text_up(x) for x in (1, 0.1, 0.3, 1e-6, 1e6, 0)] == [
        "1",
        "0.1",
        "0.3",
        "1e-06",
        "1e+06",
        "0",
    ]
    assert text_up(0.1 + 0.2) == "0.300001"
    assert text_up(float("inf")) == "inf"


def test_a_guarantee_says_no_less_than_it_is():
    text = str(Guarantee(epsilon=float(JUST_ABOVE), delta=1.0000001e-6))
    assert text.startswith("epsilon = 1.00001, delta = 1.00001e-06,")
    total = together([Guarantee(epsilon=0.1), Guarantee(epsilon=0.2)])
    assert total.epsilon == 0.3
    third = Guarantee(epsilon=0.33333333333333337)
    assert Fraction(repr(together([third] * 3).epsilon)) >= 3 * Fraction(repr(third.epsilon))


def test_a_ledger_rounds_what_is_spent_up_and_what_is_left_down():
    ledger = tdp.Ledger(2)
    ledger.spend(Fraction(1) + Fraction(1, 3**200))
    spent, left = re.findall(r"epsilon = ([0-9.]+)", ledger.table())[1:3]
    assert Fraction(spent) >= ledger.spent.epsilon
    assert Fraction(left) <= ledger.remaining.epsilon
    assert Fraction(ledger.history()[0].cells()[4]) >= ledger.spent.epsilon
    with pytest.raises(BudgetError) as caught:
        ledger.spend(Fraction(1))
    asked, left, over = re.findall(r"epsilon = ([0-9.]+)", str(caught.value))
    assert Fraction(asked) == 1
    assert Fraction(left) <= ledger.remaining.epsilon
    assert Fraction(over) > 0
    assert Fraction(shown(Fraction(2, 3**200))) > Fraction(2, 3**200)
    assert Fraction(shown(Fraction(2, 3**200), left=True)) < Fraction(2, 3**200)
    assert Budget(Fraction(1, 2)).text(left=True) == str(Budget(Fraction(1, 2)))


def test_an_audit_shows_no_more_than_it_found():
    report = tdp.audit(int, 0, 1, epsilon=float(JUST_ABOVE), releases=2000, rng=1)
    assert isinstance(report, AuditReport)
    assert "claimed epsilon = 1.00001," in report.summary()
    assert Fraction(re.findall(r">= ([0-9.]+)", report.summary())[0]) <= Fraction(
        report.epsilon_lower
    )


def test_shares_of_a_budget_are_rounded_up():
    split = BudgetSplit({"a": Fraction(1, 3)}, 2.0, 1.0000049)
    assert "0.333334" in str(split)
    assert "they need 1.001 in all" in str(split)


PLAN = f"""
title = "t"
[data]
file = "t.csv"
[schema]
rows = 4
columns.x = {{ low = 0, high = 1 }}
[budget]
epsilon = 3
ledger = "t.ledger"
[[releases]]
name = "m"
kind = "mean"
columns = ["x"]
epsilon = "{JUST_ABOVE}"
"""


def test_plans_commands_and_reports_say_no_less(tmp_path, capsys):
    (tmp_path / "t.csv").write_text("x\n0\n1\n0\n1\n")
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    plan = Plan.read(path)
    texts = {"preview": str(plan.preview()), "page": plan.preview()._repr_html_()}
    for command in ("preview", "compare", "release"):
        assert main([command, str(path)]) == 0
        texts[f"tightdp {command}"] = capsys.readouterr().out
    result = plan.release()
    report = Report.of_plan(plan, result)
    texts |= {"report": report.markdown(), "html": report.html()}
    exact = Fraction(JUST_ABOVE)
    for name, text in texts.items():
        said = [Fraction(number) for number in SPENT.findall(text)]
        near = [number for number in said if 0.9 < number < 1.1]
        assert near, name
        assert all(number >= exact for number in near), name
        assert "exp(1)" not in text, name


def formats(source: str) -> list[str]:
    """Amounts of privacy that a source formats itself, rounded to the nearest."""
    found = []
    for node in ast.walk(ast.parse(source)):
        if isinstance(node, ast.FormattedValue) and node.format_spec is not None:
            spec, value = ast.unparse(node.format_spec), ast.unparse(node.value)
            if re.search(r"[gfe]'*$", spec) and re.search(r"\b(epsilon|delta)\b(?!_seen)", value):
                found.append(value)
    return found


def test_no_module_rounds_an_amount_by_itself():
    loud = {
        str(path.relative_to(SOURCE)): found
        for path in sorted(SOURCE.rglob("*.py"))
        if (found := formats(path.read_text()))
    }
    assert loud == {"plots/shape_pictures.py": ["float(delta)"]}
    assert formats('f"epsilon = {float(self.epsilon):g}"') == ["float(self.epsilon)"]  # planted
