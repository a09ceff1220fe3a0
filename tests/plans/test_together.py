"""Sums, means and counts of a plan as one vector: one payment, one entry, each under its name."""

from __future__ import annotations

import runpy

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import BurnedError, ParameterError
from tightdp.mechanisms import additive
from tightdp.mechanisms.vector_part import VectorPart
from tightdp.plans.python_text import to_python

HEAD = """\
[data]
file = "table.csv"
[schema]
rows = 200
{facts}
[schema.columns.age]
low = 0
high = 100
[schema.columns.pay]
low = 0
high = 10
[schema.columns.region]
levels = ["north", "south"]
other = "north"
[budget]
epsilon = {epsilon}
ledger = "ledger.db"
{budget}
"""
RELEASES = """
[[releases]]
name = "means"
kind = "mean"
columns = ["age", "pay"]
weight = 1
[[releases]]
name = "sums"
kind = "sum"
columns = ["age"]
weight = 1
[[releases]]
name = "regions"
kind = "count"
weight = 1
[[releases]]
name = "middle"
kind = "median"
column = "age"
epsilon = {middle}
"""


@pytest.fixture
def write(tmp_path):
    cells = "\n".join(f"{i / 2},{i % 10}.5,{'north' if i % 4 else 'south'}" for i in range(200))
    (tmp_path / "table.csv").write_text(f"age,pay,region\n{cells}\n")

    def plan(budget="together = true", *, epsilon="1", middle="0.25", facts="", more=RELEASES):
        head = HEAD.format(epsilon=epsilon, budget=budget, facts=facts)
        (tmp_path / "plan.toml").write_text(head + more.format(middle=middle))
        return tmp_path / "plan.toml"

    return plan


def test_one_payment_is_read_under_all_names(write, tmp_path):
    plan = tdp.Plan.read(write())
    first = plan.release()
    assert sorted(first.fresh) == ["means", "middle", "regions", "sums"]
    assert first.spent.epsilon == 1
    again = tdp.Plan.read(write()).release(one_pass=True)
    assert not again.fresh
    for name, answer in first.answers.items():
        np.testing.assert_array_equal(again.answers[name].value, answer.value)
    means, sums = first.answers["means"], first.answers["sums"]
    assert means.names == ("age", "pay")
    assert first.answers["regions"].names == ("region[north]", "region[south]")
    if 0 < means.value[0] < 100:
        assert sums.value[0] == pytest.approx(200 * means.value[0])  # one noise, read twice
    with tdp.Ledger.open(tmp_path / "ledger.db") as ledger:
        keys = [row.key for row in ledger.history()]
        ledger.verify()
    assert sorted(keys) == ["middle", "together: means, sums, regions"]
    assert tdp.Report.of_plan(plan, first).total.epsilon == 1
    program = tmp_path / "program.py"
    program.write_text(to_python(plan))
    asked = runpy.run_path(str(program))["answers"]
    np.testing.assert_array_equal(asked["sums"].value, sums.value)


def test_a_vector_has_less_error_and_the_preview_shows_both(write):
    found = tdp.Plan.read(write()).preview()
    alone = tdp.Plan.read(write("")).preview()
    for name in ("means", "sums", "regions"):
        assert (found.previews[name].half_width < 0.75 * alone.previews[name].half_width).all()
        np.testing.assert_array_equal(found.alone[name].half_width, alone.previews[name].half_width)
    text = str(found)
    assert "error one by one" in text
    assert "means + sums + regions" in text
    assert "all releases: epsilon = 1 of epsilon = 1" in text
    assert "alone" in found.to_dict()["releases"][0]
    assert "error one by one" in found._repr_html_()


def test_answers_are_those_of_the_table(write):
    """With next to no noise: the units of sums, means and counts."""
    found = tdp.Plan.read(write(epsilon="1000", middle="1")).release().answers
    np.testing.assert_allclose(found["means"].value, [49.75, 5.0], atol=0.05)
    np.testing.assert_allclose(found["sums"].value, [9950], atol=10)
    np.testing.assert_allclose(found["regions"].value, [150, 50], atol=0.1)


def test_intervals_cover(write, seed):
    plan = tdp.Plan.read(write())
    truth = {"means": [49.75, 5.0], "sums": [9950.0], "regions": [150.0, 50.0]}
    inside = dict.fromkeys(truth, 0)
    parts = {p.name: p.request.mechanism for p in plan.releases if p.name in truth}
    for i in range(200):
        release = parts["means"].source.release(plan.frame, rng=seed + i)
        for name, part in parts.items():
            low, high = part.read(release).interval.T
            inside[name] += bool(((low <= truth[name]) & (truth[name] <= high)).all())
    assert min(inside.values()) > 200 * 0.95 - 5 * (200 * 0.05 * 0.95) ** 0.5


def test_a_lost_payment_is_lost_for_all_of_them(write, monkeypatch):
    plan = tdp.Plan.read(write())

    def broken(*_: object, **__: object) -> None:
        raise KeyboardInterrupt

    with monkeypatch.context() as planted:
        planted.setattr(additive.AdditiveMechanism, "exact", broken)
        with pytest.raises(KeyboardInterrupt):
            plan.release()
    found = plan.release()
    assert sorted(found.lost) == ["means", "regions", "sums"]
    assert "middle" in found.answers
    assert found.spent.epsilon == 1
    assert plan.states() | {"middle": "stored"} == {
        "means": "burned",
        "sums": "burned",
        "regions": "burned",
        "middle": "stored",
    }
    with tdp.Ledger.open(plan.ledger) as ledger, pytest.raises(BurnedError):
        ledger.find("together: means, sums, regions")


ONE = """
[[releases]]
kind = "mean"
weight = 1
[[releases]]
kind = "median"
column = "age"
epsilon = {middle}
"""


@pytest.mark.parametrize(
    ("given", "words"),
    [
        ({"budget": "together = 1"}, "`together` must be True or False|`together` must be"),
        ({"more": ONE}, "at least two releases"),
        ({"facts": 'neighbors = "add-remove"'}, "public number of rows"),
        ({"budget": 'together = true\naccountant = "zcdp"\ndelta = 1e-6'}, "add epsilons"),
    ],
    ids=["no flag", "one release", "private rows", "rho"],
)
def test_what_cannot_be_one_vector_is_refused_with_its_line(write, tmp_path, given, words):
    with pytest.raises(ParameterError, match=words) as refused:
        tdp.Plan.read(write(**given))
    assert "plan.toml:" in str(refused.value)
    assert not (tmp_path / "ledger.db").exists()


def test_a_mean_of_levels_is_refused_before_it_is_paid_for():
    columns = {"x": tdp.Interval(0, 1), "k": tdp.Category(["a", "b"], other="a")}
    with pytest.raises(ParameterError, match="must be numeric"):
        VectorPart(tdp.Schema(columns, rows=9), ["x", "k"], ["k"], "mean", epsilon=1)
