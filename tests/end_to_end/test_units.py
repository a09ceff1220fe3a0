"""Whom a guarantee protects, a row or a person, is said wherever a guarantee is printed."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.cli.main import main
from tightdp.data.histograms import JointHistogram
from tightdp.mechanisms.coordinate_descent import CoordinateDescent
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.kolmogorov import JointKolmogorov
from tightdp.mechanisms.ranks import BoundsFinder
from tightdp.plans import Plan
from tightdp.release import Release
from tightdp.report import Report

SAID = "per person with at most 3 rows used"
FACTS = {"x": tdp.Interval(0, 10), "y": tdp.Interval(0, 1), "k": tdp.Category([0, 1], other=0)}
UNIT = {"rows": 60, "neighbors": "add-remove", "person": "id", "rows_per_person": 3}
TABLE = {
    "x": np.linspace(0, 10, 60),
    "y": np.linspace(0, 1, 60),
    "k": np.arange(60) % 2,
    "id": np.arange(60) // 3,
}
MECHANISMS: dict[str, Callable[[tdp.Schema], Any]] = {
    "sums": lambda s: tdp.AdditiveMechanism(tdp.Sums(s, ["x"]), epsilon=1),
    "counts, laws": lambda s: tdp.AdditiveMechanism(tdp.Counts(s), noise="laplace", epsilon=1),
    "quantile": lambda s: tdp.KNormQuantile(s, "x", 0.3, epsilon=1),
    "quantiles": lambda s: tdp.KNormQuantiles(s, "x", [0.3, 0.6], epsilon=1),
    "together": lambda s: Together([tdp.KNormMedian(s, c, epsilon=0.5) for c in ("x", "y")]),
    "geometric median": lambda s: tdp.KNormGeometricMedian(s.only(["x", "y"]), epsilon=1),
    "planes": lambda s: tdp.KNormQuantileRegression(s, features=["x"], target="y", epsilon=1),
    "descent": lambda s: CoordinateDescent(s, ["x"], "k", epsilon=1),
    "logistic": lambda s: tdp.ObjectivePerturbation(s, ["x"], "k", epsilon=1),
    "sample": lambda s: tdp.KolmogorovSample(s, "x", epsilon=1),
    "joint sample": lambda s: JointKolmogorov(JointHistogram(s, ["x", "y"], 2), 2, epsilon=1),
    "bounds": lambda s: BoundsFinder("x", epsilon=1, smallest=1, largest=9, **UNIT),
}


def schema(**other: Any) -> tdp.Schema:
    return tdp.Schema(FACTS, **(UNIT | other))


@pytest.mark.parametrize("name", MECHANISMS)
def test_every_mechanism_on_a_schema_says_it(name: str) -> None:
    guarantee = MECHANISMS[name](schema()).guarantee()
    assert guarantee.rows_per_person == 3
    assert str(guarantee).startswith(f"epsilon = 1 {SAID}, add-remove neighbours")


def test_one_row_of_a_person_and_one_row_read_differently() -> None:
    person = MECHANISMS["sums"](schema(rows_per_person=1)).guarantee()
    row = MECHANISMS["sums"](tdp.Schema(FACTS, 60, neighbors="add-remove")).guarantee()
    assert (person.unit, row.unit) == ("person with at most 1 row used", "row")
    assert "person" not in str(row)


def test_releases_previews_and_models_say_it(seed: int) -> None:
    mechanism = MECHANISMS["sums"](schema())
    release = mechanism.release(TABLE, rng=seed)
    for text in (str(release), release._repr_html_(), str(mechanism.preview())):
        assert SAID in text
    again = Release.from_json(release.to_json())
    assert again.guarantee == release.guarantee
    model = tdp.Mean(epsilon=1, bounds=schema().only(["x"]), random_state=seed).fit(TABLE)
    assert SAID in str(model.guarantee_)


PLAN = """
[data]
file = "table.csv"
[schema]
rows = 60
neighbors = "add-remove"
person = "id"
rows_per_person = 3
columns.x = {low = 0, high = 10}
columns.k = {levels = [0, 1], other = 0}
[budget]
epsilon = 2
ledger = "ledger.db"
[[releases]]
name = "mean"
kind = "mean"
columns = ["x"]
weight = 1
[[releases]]
name = "odds"
kind = "logistic_regression"
target = "k"
features = ["x"]
weight = 1
"""


@pytest.fixture
def plan(tmp_path: Path) -> Path:
    rows = zip(TABLE["x"], TABLE["k"], TABLE["id"], strict=True)
    (tmp_path / "table.csv").write_text("x,k,id\n" + "\n".join(f"{x},{k},{i}" for x, k, i in rows))
    (tmp_path / "plan.toml").write_text(PLAN)
    return tmp_path / "plan.toml"


def test_plans_say_it_before_and_after(plan: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["preview", str(plan)]) == 0
    text = capsys.readouterr().out
    assert f"mean: epsilon = 1 {SAID}\n" in text
    assert f"odds: epsilon = 1 {SAID}\n" in text
    assert any(line.endswith(SAID) for line in text.splitlines()[-3:])
    main(["preview", "--json", str(plan)])
    found = json.loads(capsys.readouterr().out)["releases"]
    assert {part["protects"] for part in found} == {"person with at most 3 rows used"}
    assert Plan.read(plan).preview()._repr_html_().count(SAID) == 5  # two heads, tables, the total
    main(["compare", str(plan)])
    assert SAID in capsys.readouterr().out
    main(["release", str(plan)])
    assert capsys.readouterr().out.count(SAID) == 2


def test_reports_say_it_in_every_form(plan: Path) -> None:
    read = Plan.read(plan)
    report = Report.of_plan(read, read.release())
    for text in (report.markdown(), report.html(), report._repr_html_(), report.citation()):
        assert SAID in text
    assert "one has a person more" in report.guarantee_words()
    facts = report.to_dict()["guarantee"]
    assert (facts["protects"], facts["rows_per_person"]) == ("person with at most 3 rows used", 3)


def test_a_report_about_rows_says_so(seed: int) -> None:
    rows = tdp.AdditiveMechanism(
        tdp.Sums(tdp.Schema(FACTS, 60, neighbors="add-remove"), ["x"]), epsilon=1
    )
    report = Report.of(rows.release(TABLE, rng=seed))
    assert "one has a row more" in report.guarantee_words()
    assert "one row: a person only if nobody has more than one" in report.guarantee_words()
    assert "per person" not in report.markdown()
    assert report.to_dict()["guarantee"]["protects"] == "row"
