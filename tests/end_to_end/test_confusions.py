"""What new users stumbled over, each cured: one test for every stumble."""

from __future__ import annotations

import inspect
import json
import re
from fractions import Fraction
from importlib import metadata

import numpy as np
import pytest

import tightdp as tdp
from tightdp.cli.main import main
from tightdp.cli.output import Exit
from tightdp.errors import MissingDependencyError, ParameterError, install_command, require
from tightdp.plans import Plan, request
from tightdp.report import Report

SCHEMA = tdp.Schema({"x": tdp.Interval(0, 10), "k": tdp.Category(["a", "b"], other="a")}, rows=100)
TABLE = {"x": np.full(100, 9.0), "k": ["a", "b"] * 50}
PLAN = """
[data]
file = "t.csv"
[schema]
rows = 100
columns.x = {low = 0, high = 10}
columns.k = {levels = ["a", "b"], other = "a"}
[budget]
epsilon = 3
ledger = "l.db"
[[releases]]
name = "sums"
kind = "sum"
columns = "x"
weight = 1
[[releases]]
name = "counts"
kind = "count"
columns = ["k"]
weight = 1
[[releases]]
name = "means"
kind = "mean"
columns = ["x"]
weight = 1
"""


@pytest.fixture
def plan(tmp_path):
    (tmp_path / "t.csv").write_text("x,k\n" + "9,a\n9,b\n" * 50)
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def test_sums_by_group_are_in_the_units_of_the_column():
    release = tdp.sum(TABLE, "x", by="k", schema=SCHEMA, epsilon=50)
    assert abs(release["x | k=a"] - 450) < 40
    assert release.units == ""


def test_scaled_numbers_say_so_wherever_they_are_printed():
    mechanism = tdp.AdditiveMechanism(tdp.Products(SCHEMA, ["x:k"]), epsilon=1)
    release = mechanism.release(TABLE)
    stored = tdp.Release.from_dict(release.to_dict())
    for said in (release, stored, mechanism.preview(), mechanism.answer(release)):
        assert "scaled so that their bounds are -1 and 1" in str(said)
        assert "scaled so that their bounds are -1 and 1" in said._repr_html_()


@pytest.mark.parametrize("function", [tdp.mean, tdp.sum, tdp.variance])
def test_one_column_is_its_name(function, tmp_path):
    ledger = tdp.Ledger(epsilon=1)
    options = {"schema": SCHEMA, "epsilon": 1, "ledger": ledger, "key": "one"}
    first = function(TABLE, "x", **options)
    again = function(TABLE, ["x"], **options)  # the same request
    np.testing.assert_array_equal(first.value, again.value)
    assert tdp.count(TABLE, "k", schema=SCHEMA, epsilon=1).names == ("k[a]", "k[b]")


def test_rank_norms_takes_statistics_and_mechanisms():
    statistic = tdp.Products(SCHEMA, ["x", "k"])
    mechanism = tdp.AdditiveMechanism(statistic, epsilon=1)
    by_space = tdp.rank_norms(statistic.sensitivity_space(), 1)
    assert str(tdp.rank_norms(statistic, 1)) == str(tdp.rank_norms(mechanism)) == str(by_space)
    with pytest.raises(ParameterError, match="epsilon"):
        tdp.rank_norms(statistic)
    with pytest.raises(ParameterError, match="SensitivitySpace"):
        tdp.rank_norms("x", 1)


def test_compare_noise_takes_statistics_and_mechanisms():
    statistic = tdp.Products(SCHEMA, ["x", "k"])
    mechanism = tdp.AdditiveMechanism(statistic, noise="best", epsilon=1)
    found = tdp.compare_noise(mechanism, noises=["l1"])
    asked = request("products", SCHEMA, epsilon=1, terms=["x", "k"], noise="best")
    assert found.to_dict() == tdp.compare_noise(asked, noises=["l1"]).to_dict()
    assert tdp.compare_noise(statistic, epsilon=1, noises=["l1"]).relative("l1") > 1
    for wrong in (lambda: tdp.compare_noise(statistic), lambda: tdp.compare_noise(3)):
        with pytest.raises(ParameterError):
            wrong()
    with pytest.raises(ParameterError, match="for a statistic"):
        tdp.compare_noise(mechanism, epsilon=1)


def test_epsilon_for_takes_what_users_hold():
    statistic = tdp.Counts(SCHEMA)
    mechanism = tdp.AdditiveMechanism(statistic, noise="best", epsilon=1)
    asked = request("count", SCHEMA, epsilon=1, columns=["k"])
    assert len({tdp.epsilon_for(what, error=5) for what in (statistic, mechanism, asked)}) == 1


def test_explain_takes_what_users_hold():
    mechanism = tdp.AdditiveMechanism(tdp.Counts(SCHEMA), epsilon=1)
    release = mechanism.release(TABLE)
    said = tdp.explain(1.0)
    for what in (release.guarantee, release, mechanism, mechanism.answer(release)):
        assert tdp.explain(what) == said
    other = tdp.Guarantee(epsilon=1.0, neighbors=tdp.Neighbors.ADD_REMOVE)
    assert tdp.explain(other) == tdp.explain(1.0, neighbors="add-remove") != said


def test_every_public_class_has_a_repr():
    silent = [
        name
        for name in tdp.__all__
        if inspect.isclass(found := getattr(tdp, name))
        and not issubclass(found, Exception)
        and found.__repr__ is object.__repr__
    ]
    assert silent == []


def test_reprs_are_short_and_say_the_guarantee():
    mechanism = tdp.AdditiveMechanism(tdp.Products(SCHEMA, ["x", "k"]), epsilon=1)
    release = mechanism.release(TABLE)
    asked = request("mean", SCHEMA, epsilon=Fraction(1, 3), columns=["x"])
    for what in (mechanism, release, mechanism.preview(), mechanism.answer(release)):
        assert re.fullmatch(
            r"<\w+ of 3 entries \(x, k\[a\], k\[b\]\): epsilon = 1, .*>", repr(what)
        )
    assert repr(asked) == "<Request mean(columns=['x']) at epsilon = 0.333334>"
    assert len(repr(tdp.compare_noise(mechanism))) < 200
    assert "0x" not in repr(tdp.KNormMedian(SCHEMA, "x", epsilon=1))


def test_a_share_that_shifted_is_said(plan):
    Plan.read(plan).release()
    plan.write_text(PLAN.partition('[[releases]]\nname = "means"')[0])
    with pytest.raises(ParameterError) as refused:
        Plan.read(plan).release()
    assert "paid for with epsilon = 1 and asks for 1.5 now: weights share" in str(refused.value)
    assert "write epsilon = 1 in the place of its weight" in str(refused.value)
    plan.write_text(plan.read_text().replace("weight = 1", "epsilon = 1"))
    assert Plan.read(plan).release().fresh == frozenset()


def test_a_wished_error_withholds_no_other_answer(plan, capsys):
    assert main(["preview", str(plan), "--error", "sums=50"]) == Exit.DONE
    said = capsys.readouterr().out
    assert "share of the budget" in said
    assert re.search(r"sums +epsilon = 0\.\d+", said)
    assert "means: epsilon = 1" in said
    assert main(["preview", str(plan), "--error", "sums=50", "--json"]) == Exit.DONE
    record = json.loads(capsys.readouterr().out)
    assert set(record["needed"]) == {"sums"}
    assert len(record["releases"]) == 3


def test_a_report_that_fails_after_payment_says_what_was_spent(plan, tmp_path, monkeypatch, capsys):
    def full(self, path):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Report, "save", full)
    argv = ["release", str(plan), "--report", str(tmp_path / "r.html")]
    assert main(argv) == Exit.PAID
    said = capsys.readouterr()
    assert "the budget is spent" in said.err
    assert "sums (released now)" in said.out  # the numbers are not lost with their report
    monkeypatch.undo()
    assert main(argv) == Exit.DONE
    assert main(["report", str(tmp_path / "l.db"), str(tmp_path / "s.html")]) == Exit.DONE
    assert (tmp_path / "s.html").read_text().count("</section>") >= 3
    assert main(["report", str(tmp_path / "l.db"), str(tmp_path / "l.db")]) == Exit.WRONG
    assert main(["report", str(tmp_path / "none.db"), str(tmp_path / "s.html")]) == Exit.WRONG


@pytest.mark.parametrize(
    ("origin", "said"),
    [
        (None, 'pip install "tightdp[plots]"'),
        ({"url": "file:///a%20b/tightdp", "dir_info": {}}, 'pip install "/a b/tightdp[plots]"'),
        (
            {"url": "file:///src", "dir_info": {"editable": True}},
            'pip install -e "/src[plots]"',
        ),
    ],
)
def test_what_is_missing_is_installed_from_where_the_package_came(origin, said, monkeypatch):
    class Installed:
        def read_text(self, name):
            return None if origin is None else json.dumps(origin)

    monkeypatch.setattr(metadata, "distribution", lambda name: Installed())
    assert install_command("plots") == said
    with pytest.raises(MissingDependencyError, match="Install it with: pip install"):
        require("no_such_package_at_all", "plots")
