"""Real files that nobody prepared, from the command line: schema, check, plan, release, report."""

from __future__ import annotations

import html
from dataclasses import dataclass
from pathlib import Path

import pytest

from tightdp.cli.main import main

DATA = Path(__file__).parents[3] / "shared" / "data"


@dataclass(frozen=True)
class Given:
    """A file as it lies, how it is written, and what is known about it without a look."""

    path: str
    options: tuple[str, ...]
    schema: str
    releases: str
    shown: str


LABELS = "age,work,weight,education,years,marital,job,relation,race,sex,gain,loss,hours,land,income"
FILES = {
    "sales with dates, packed": Given(
        "housing/seattle_sales.csv.gz",
        (),
        """
        rows = 43_313
        [columns.sale_price]
        low = 0
        high = 3_000_000
        unit = "USD"
        [columns.sale_date]
        low = 1999-01-01
        high = 2023-12-31
        unit = "year"
        """,
        """
        [[releases]]
        name = "prices by year"
        kind = "mean"
        columns = ["sale_price"]
        by = "sale_date"
        [[releases]]
        name = "by weekday"
        kind = "histogram"
        column = "sale_date"
        bins = "weekday"
        [[releases]]
        name = "half were sold by"
        kind = "median"
        column = "sale_date"
        """,
        "2014",
    ),
    "blanks between cells, no header": Given(
        "uci/ecoli.data",
        ("--names", "name,mcg,gvh,lip,chg,aac,alm1,alm2,site", "--delimiter", "blank"),
        """
        rows = 336
        columns.mcg = {low = 0, high = 1}
        columns.gvh = {low = 0, high = 1}
        columns.site = {levels = ["cp", "im", "pp"]}
        """,
        """
        [[releases]]
        kind = "mean"
        columns = ["mcg", "gvh"]
        by = "site"
        """,
        "other",
    ),
    "a blank behind every comma, no header": Given(
        "uci/adult-train.csv",
        ("--names", LABELS),
        """
        rows = 32_561
        columns.age = {low = 17, high = 90, step = 1, unit = "years"}
        columns.work = {levels = ["Private", "State-gov", "?"], other = "?", loose = true}
        columns.income = {levels = ["<=50K", ">50K"], other = "<=50K", loose = true}
        """,
        """
        [[releases]]
        kind = "mean"
        columns = ["age"]
        by = ["income"]
        [[releases]]
        kind = "count"
        columns = ["work"]
        """,
        ">50K",
    ),
    "a header, levels in words": Given(
        "uci/bank-full.csv",
        (),
        """
        rows = 45_211
        columns.age = {low = 18, high = 98}
        columns.balance = {low = -5000, high = 50_000, unit = "EUR"}
        columns.month = {levels = ["may", "jun", "jul", "aug"]}
        columns.y = {levels = ["no", "yes"], other = "no"}
        """,
        """
        [[releases]]
        kind = "linear_regression"
        target = "balance"
        features = ["age"]
        [[releases]]
        kind = "count"
        columns = ["month:y"]
        """,
        "may",
    ),
    "numbers with thousands, names with blanks": Given(
        "uci/Absenteeism_at_work.csv",
        (),
        """
        rows = 740
        [columns."Work_load_Average/day "]
        low = 200_000
        high = 400_000
        thousands = ","
        [columns.Reason_for_absence]
        low = 0
        high = 28
        step = 1
        """,
        """
        [[releases]]
        kind = "median"
        column = "Work_load_Average/day "
        [[releases]]
        kind = "histogram"
        column = "Reason_for_absence"
        bins = 4
        """,
        "Work_load",
    ),
    "question marks, no header": Given(
        "uci/anneal.data",
        ("--no-header", "--delimiter", ","),
        """
        rows = 798
        columns.c33 = {low = 0, high = 5}
        columns.c3 = {levels = ["A", "R", "?"], other = "?"}
        """,
        """
        [[releases]]
        kind = "mean"
        columns = ["c33"]
        by = "c3"
        """,
        "A",
    ),
}


def run(capsys: pytest.CaptureFixture[str], *words: object) -> str:
    code = main([str(word) for word in words])
    said = capsys.readouterr()
    assert code == 0, said.err
    return said.out


@pytest.mark.parametrize("name", FILES)
def test_a_file_as_it_lies_becomes_a_report(name, tmp_path, capsys):
    given = FILES[name]
    path = DATA / given.path
    if not path.exists():
        pytest.skip("the data are not here")
    schema, plan = tmp_path / "schema.toml", tmp_path / "plan.toml"
    run(capsys, "schema", "init", path, "--out", schema, *given.options)
    schema.write_text(given.schema)
    run(capsys, "schema", "check", schema)
    run(capsys, "plan", "init", path, "--schema", schema, "--out", plan, *given.options)
    head = plan.read_text().partition("[[releases]]")[0]
    plan.write_text(head + given.releases.replace("[[releases]]", "[[releases]]\nweight = 1"))
    checked = run(capsys, "check", plan)
    assert "unreadable cells" not in checked
    run(capsys, "preview", plan)
    assert given.shown in run(capsys, "release", plan)
    (ledger,) = tmp_path.glob("*.ledger")
    run(capsys, "report", ledger, tmp_path / "report.html")
    assert html.escape(given.shown) in (tmp_path / "report.html").read_text()
