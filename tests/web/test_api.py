"""What the page asks, and what it is told: a view of a plan, nothing more."""

from __future__ import annotations

import threading
import tomllib
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from copy import deepcopy
from datetime import date

import pytest
from tests.web.conftest import COUNT, MEAN, plan

import tightdp as tdp
from tightdp.data import sources
from tightdp.ledger import Ledger
from tightdp.plans import KINDS, Plan
from tightdp.plans.toml_text import to_toml
from tightdp.web import releases, workspace


def spent(folder):
    with Ledger.open(folder / "survey.ledger", read_only=True) as ledger:
        ledger.verify()
        return float(ledger.spent.epsilon), [row.key for row in ledger.history()]


def test_all_registered_kinds_appear_with_their_options(ask):
    shown = {kind["name"]: kind for kind in ask("start")["kinds"]}
    assert set(shown) == set(KINDS)
    for name, kind in KINDS.items():
        assert [o["name"] for o in shown[name]["options"]] == list(kind.options)


def test_only_names_are_read_and_nothing_is_prefilled(ask):
    columns = ask("header", data={"file": "survey.csv"})["columns"]
    assert columns == [{"name": n, "kind": ""} for n in ("age", "pay", "answer", "region")]


def test_a_first_line_of_cells_is_not_shown(ask, folder):
    (folder / "bare.csv").write_text("41,Berlin\n42,Paris\n")
    assert "Berlin" not in ask("header", 422, data={"file": "bare.csv"})["error"]
    for quoted in ('"age,town\nforty,Berlin\n', '"age,town\nforty,Berlin\n",b\n'):
        (folder / "quote.csv").write_text(quoted)  # a quote that nobody closed, or much later
        for more in ({}, {"delimiter": ";"}):
            said = ask("header", 422, data={"file": "quote.csv", **more})["error"]
            assert "Berlin" not in said
    stated = {"names": ["age", "town"], "delimiter": " ", "encoding": "latin-1"}
    named = ask("header", data={"file": "bare.csv", **stated})  # the line is not looked at
    assert [c["name"] for c in named["columns"]] == ["age", "town"]
    ask("header", 422, data={"file": "bare.csv", "names": ["age", "age"]})
    ask("header", 422, data={"file": "bare.csv", **stated, "encoding": "utf-16"})


def test_a_first_line_is_told_unasked_only_where_the_plan_names_what_stands_there(ask, folder):
    """Before: a page that was loaded again showed a record whose place nobody had been asked."""
    (folder / "bare.csv").write_text("Alice,Berlin\nBob,Paris\n")
    for stated in ([], ["age"], ["Alice", "age"], "Alice", {"Alice": 1}, [["Alice"]], [None]):
        assert ask("header", data={"file": "bare.csv"}, stated=stated)["columns"] is None
    known = ask("header", data={"file": "survey.csv"}, stated=["pay", "answer"])["columns"]
    assert [column["name"] for column in known] == ["age", "pay", "answer", "region"]


def test_a_query_shows_names_and_types(ask, folder):
    pytest.importorskip("duckdb")
    pq = pytest.importorskip("pyarrow.parquet")
    pa = pytest.importorskip("pyarrow")
    pq.write_table(pa.table({"x": [1.5], "k": ["a"]}), folder / "t.parquet")
    place = folder / "t.parquet"
    found = ask("header", data={"sql": f"SELECT x, k FROM '{place}'"})["columns"]
    assert found == [{"name": "x", "kind": "number"}, {"name": "k", "kind": "text"}]
    assert (
        "refused"
        in ask("header", 422, data={"sql": "SELECT * FROM read_text('/etc/passwd')"})["error"]
    )


def test_every_problem_comes_with_its_key(ask):
    wrong = plan({"name": "a", "kind": "maen", "epsilon": 1}, {**MEAN, "columns": ["agee"]})
    wrong["schema"] = {"rows": 400, "columns": {"age": {"low": 0}, "pay": {"low": 0, "high": 1}}}
    places = {tuple(p["place"]): p["message"] for p in ask("check", plan=wrong)["problems"]}
    assert "high" in places["schema", "columns", "age"]
    assert "mean" in places["releases", 0, "kind"]


def test_an_unfinished_plan_is_previewed_without_a_table(ask):
    draft = plan(MEAN)
    del draft["data"]
    assert ask("preview", plan=draft, name="means", epsilon=1)["half_width"][0] > 0
    assert ask("check", plan=draft)["budget"]["asked"] == 0.5


def test_the_error_follows_epsilon_and_back(ask):
    record = plan(MEAN, COUNT)
    halves = [
        ask("preview", plan=record, name="answers", epsilon=e)["half_width"][0] for e in (0.5, "1")
    ]
    assert halves[0] > 1.8 * halves[1]
    wish = {"error": halves[1], "unit": "error"}
    needed = ask("needed", plan=record, name="answers", epsilon=1, **wish)["epsilon"]
    assert 0.8 < float(needed) <= 1
    reached = ask("preview", plan=record, name="answers", epsilon=needed)["half_width"][0]
    assert reached <= halves[1]


def test_pictures_are_of_made_up_rows_and_comparisons_are_drawn(ask, folder):
    (folder / "survey.csv").write_text("age,pay,answer,region\n")  # nothing to be read
    record = plan(MEAN, COUNT)
    assert ask("picture", plan=record, name="answers", epsilon=1)["svg"].startswith(
        '<div class="tdp-chart"'
    )
    assert "used" in ask("compare", plan=record, name="means", epsilon=1)["svg"]


def test_keys_that_nobody_listed_have_no_picture(ask):
    keys = {"name": "k", "kind": "count", "by": ["town"], "keys": "private", "delta": "1e-6"}
    record = plan({**keys, "epsilon": 1})
    record["schema"] = {**record["schema"], "neighbors": "add-remove"}
    assert "cannot be made up" in ask("picture", 422, plan=record, name="k", epsilon=1)["error"]


def test_a_budget_in_rho_is_previewed_at_the_epsilon_of_the_slider(ask):
    book = {"name": "b", "kind": "tables", "tables": [["answer"]], "rho": "0.1"}
    record = plan(book, epsilon=9)
    record["budget"]["delta"] = "1e-6"
    assert ask("check", plan=record)["problems"] == []
    assert ask("preview", plan=record, name="b", epsilon=1)["epsilon"] == 1


def test_a_release_is_paid_for_once_however_often_it_is_asked_for(release, folder):
    first = release(plan(MEAN, COUNT))
    assert first["state"] == "done", first["message"]
    assert first["fresh"] == ["answers", "means"]
    second = release(plan(MEAN, COUNT))
    assert second["fresh"] == []
    assert [s["html"] for s in second["sheets"]] == [s["html"] for s in first["sheets"]]
    assert spent(folder) == (1.0, ["means", "answers"])


def test_somebody_agrees_to_what_the_ledger_adds_up(ask, release, folder):
    record = plan(MEAN)
    record["budget"] |= {"epsilon": 3, "delta": "1e-6", "accountant": "zcdp"}
    assert ask("offer", plan=record)["amount"] == "rho = 0.125"
    assert release(record)["spent"] == "rho = 0.125, delta = 0"
    noisy = plan({**MEAN, "noise": "gaussian", "delta": "1e-7"}, ledger="other.ledger")
    noisy["budget"]["delta"] = "1e-6"
    assert ask("offer", plan=noisy)["amount"] == "epsilon = 0.5, delta = 1e-07"


def test_what_was_released_is_the_plan_on_disk(release, folder):
    release(plan(MEAN))
    assert Plan.read(folder / "plan.toml").states() == {"means": "stored"}


def test_of_two_tabs_that_save_at_once_the_second_is_told_of_the_first(folder, monkeypatch):
    """Both found the file as they had opened it, and the last to write won without a word."""
    space = workspace.Workspace([folder])
    base = space.save(plan(MEAN), "plan.toml", None)
    write, gate = workspace.write_whole, threading.Barrier(2)

    def slowly(*given: object) -> object:
        with suppress(threading.BrokenBarrierError):
            gate.wait(0.5)  # until the other is here, too
        return write(*given)

    monkeypatch.setattr(workspace, "write_whole", slowly)

    def save(record: object) -> bool:
        try:
            space.save(record, "plan.toml", base)
        except tdp.ParameterError as error:
            return "was changed since it was opened" not in str(error)
        return True

    with ThreadPoolExecutor(2) as pool:
        told = [*pool.map(save, [plan(COUNT), plan(MEAN, COUNT)])]
    assert sorted(told) == [False, True]


def test_a_further_question_is_paid_for_by_itself(release, folder):
    first = release(plan(MEAN))
    second = release(plan(MEAN, COUNT), base=first["base"])
    assert second["state"] == "done", second["message"]
    assert second["fresh"] == ["answers"]
    assert spent(folder) == (1.0, ["means", "answers"])


def test_clicks_at_once_are_one_job(ask, folder, monkeypatch):
    gate, real = threading.Event(), releases.Plan.of

    def slow(found):
        gate.wait(10)
        return real(found)

    monkeypatch.setattr(releases.Plan, "of", slow)
    asked = {"plan": plan(MEAN), "agreed": ["means"]}
    jobs = [ask("release", **asked)["id"] for _ in range(5)]
    gate.set()
    assert len(set(jobs)) == 1
    while ask("job", id=jobs[0])["state"] in ("checking", "running"):
        pass
    assert spent(folder) == (0.5, ["means"])


def test_cancelled_before_the_payment_costs_nothing(ask, folder, monkeypatch):
    gate, real = threading.Event(), releases.Plan.of

    def slow(found):
        gate.wait(10)
        return real(found)

    monkeypatch.setattr(releases.Plan, "of", slow)
    job = ask("release", plan=plan(MEAN), agreed=["means"])
    ask("cancel", id=job["id"])
    gate.set()
    while (job := ask("job", id=job["id"]))["state"] in ("checking", "running"):
        pass
    assert job["state"] == "cancelled"
    assert not (folder / "survey.ledger").exists() or spent(folder) == (0.0, [])


def test_nothing_is_paid_for_that_nobody_agreed_to(ask, release, folder):
    job = ask("release", plan=plan(MEAN, COUNT), agreed=["means"])
    while (job := ask("job", id=job["id"]))["state"] in ("checking", "running"):
        pass
    assert job["state"] == "failed"
    assert "agreed" in job["message"]
    assert not (folder / "survey.ledger").exists()


@pytest.mark.parametrize("agreed", [None, "means", [["means"]], {"means": 1}])
def test_an_agreement_that_is_none_leaves_no_job_behind(ask, release, agreed, folder):
    """A job without a thread would be given to everybody who asks, and never end."""
    ask("release", 422, plan=plan(MEAN), agreed=agreed)
    assert release(plan(MEAN))["state"] == "done"


def test_no_spark_session_is_started(ask):
    record = {**plan(MEAN), "data": {"spark": "people"}}
    assert "command line" in ask("check", 422, plan=record)["error"]


def test_a_release_beyond_the_cap_is_refused(ask, release, folder):
    release(plan(MEAN, COUNT, epsilon=1))
    more = plan(MEAN, COUNT, {**MEAN, "name": "again"}, epsilon=1)
    assert ask("offer", 422, plan=more)["kind"] == "BudgetError"
    assert spent(folder)[0] == 1.0


def test_a_fault_after_the_payment_says_what_was_spent(ask, release, folder, monkeypatch):
    def fail(*_):
        raise ValueError("cell 41 of Berlin")

    monkeypatch.setattr(releases.Report, "of_plan", fail)
    job = release(plan(MEAN))
    assert job["state"] == "failed"
    assert "budget is spent" in job["message"]
    assert "Berlin" not in job["message"]
    monkeypatch.undo()
    assert release(plan(MEAN))["state"] == "done"
    assert spent(folder) == (0.5, ["means"])


def test_downloads(ask, release):
    rows = {"name": "rows", "kind": "synthetic_rows", "columns": ["answer", "region"],
            "tables": [["answer", "region"]], "epsilon": 0.5}  # fmt: skip
    job = release(plan(MEAN, rows))
    assert job["state"] == "done", job["message"]
    html = ask("download", id=job["id"], form="html")
    assert html["text"].startswith("<!doctype html>")
    csv = ask("download", id=job["id"], form="csv")["text"].splitlines()
    assert csv[0].startswith("release,entry,value,low,high")
    assert csv[1].startswith("means,age,")
    assert "url_slug" in ask("download", id=job["id"], form="registry")["text"]
    assert ask("download", id=job["id"], form="json")["text"].startswith("{")
    made = ask("download", id=job["id"], form="rows", release="rows")["text"].splitlines()
    assert made[0] == "answer,region"
    assert len(made) > 300
    ask("download", 422, id=job["id"], form="../plan")
    ask("download", 422, id="no such job", form="csv")


def test_the_ledger_is_shown_and_verified(ask, release):
    assert ask("ledger", plan=plan(MEAN)) == {"exists": False}
    assert "no ledger" in ask("verify", 422, plan=plan(MEAN))["error"]
    release(plan(MEAN))
    found = ask("ledger", plan=plan(MEAN))
    assert found["stored"] == ["means"]
    units = [unit.split(",")[0] for unit, _ in found["units"]]
    assert units == ["epsilon", "rho", "mu squared"]
    assert "whole" in ask("verify", plan=plan(MEAN))["words"]
    assert "means" in ask("stored", plan=plan(MEAN), key="means")["html"]
    ask("stored", 422, plan=plan(MEAN), key="none")


def test_a_plan_of_disk_comes_back_as_it_was(ask, folder, release):
    text = '# with care\ntitle = "T"\n[schema]\nfile = "facts.toml"\n[budget]\nepsilon = 1.0\n'
    text += 'ledger = "survey.ledger"\n[data]\nfile = "survey.csv"\n'
    text += '[[releases]]\nkind = "sum"\nname = "s"\nepsilon = "1/3"\n'
    (folder / "plan.toml").write_text(text)
    (folder / "facts.toml").write_text("rows = 400\n[columns.age]\nlow = 0.0\nhigh = 100\n")
    opened = ask("open")
    assert opened["plan"]["schema"]["columns"]["age"]["high"] == 100
    assert ask("check", plan=opened["plan"])["problems"] == []
    assert release(opened["plan"], base=opened["base"])["state"] == "done"
    assert (folder / "plan.toml").read_text() == text  # comments and all
    changed = {**opened["plan"], "title": "Another"}
    ask("save", 422, plan=changed, base="of another time")
    ask("save", plan=changed, base=opened["base"])
    assert tomllib.loads((folder / "plan.toml").read_text())["title"] == "Another"


def test_exports(ask, release, folder):
    record = plan(MEAN, COUNT)
    exported = ask("export", plan=record, form="toml")
    assert tomllib.loads(exported["text"]) == record
    program = ask("export", plan=record, form="python")["text"]
    first = release(record)
    answers = {}
    exec(program.replace("print(", "str("), answers)
    assert spent(folder) == (1.0, ["means", "answers"])  # the program was given what was stored
    assert first["fresh"] == ["answers", "means"]
    assert list(answers["answers"]) == ["means", "answers"]


def test_days_of_a_plan_are_texts_to_a_browser_and_days_again(ask, folder):
    stated = deepcopy(plan(COUNT))
    stated["schema"]["columns"]["day"] = {"low": date(2014, 1, 1), "high": date(2014, 12, 31)}
    (folder / "plan.toml").write_text("# by hand\n" + to_toml(stated))
    opened = ask("open")
    assert opened["plan"]["schema"]["columns"]["day"]["low"] == "2014-01-01"
    assert ask("check", plan=opened["plan"])["problems"] == []
    ask("save", plan=opened["plan"], base=opened["base"])
    assert (folder / "plan.toml").read_text().startswith("# by hand\n")  # it says the same
    (folder / "plan.toml").write_text("at = 2014-01-01T10:00:00\n")
    assert "holds times" in ask("open", 422)["error"]


def test_the_program_of_a_plan_reads_the_same_file(ask, release, folder):
    lines = (folder / "survey.csv").read_text().replace(",", " ").splitlines()
    (folder / "bare.data").write_text("\n".join(lines[1:]).replace("north", "n\xf6rd"), "latin-1")
    record = plan(MEAN, COUNT)
    record["data"] = {"file": "bare.data", "names": list(record["schema"]["columns"]),
                      "delimiter": " ", "encoding": "latin-1"}  # fmt: skip
    program = ask("export", plan=record, form="python")["text"]
    assert "delimiter=' ', encoding='latin-1'" in program
    del record["data"]["names"]
    (folder / "bare.data").write_text("\n".join(lines))
    assert "delimiter=' '" in ask("export", plan=record, form="python")["text"]


def test_a_database_is_asked_again_and_again(ask, folder):
    """Connections to one database share settings, which can be closed off once."""
    duckdb = pytest.importorskip("duckdb")
    with duckdb.connect(str(folder / "t.duckdb")) as base:
        base.execute("CREATE TABLE t AS SELECT 41 AS age, 10 AS pay, 'no' AS answer")
    held = [sources.from_sql("SELECT * FROM t", folder / "t.duckdb") for _ in range(2)]
    data = {"sql": "SELECT age, pay FROM t", "database": "t.duckdb"}
    assert ask("check", plan={**plan(MEAN), "data": data})["problems"] == []
    assert len(ask("header", data=data)["columns"]) == 2
    said = ask("header", 422, data={**data, "files": "."})["error"]
    assert "other `files`" in said  # what the first connection sees cannot grow
    assert [one.columns[0] for one in held] == ["age", "age"]


def test_a_folder_that_is_called_a_file_shows_no_links(ask, folder, tmp_path_factory):
    """Before: names of columns of a file elsewhere were told by way of a link."""
    away = tmp_path_factory.mktemp("away") / "away.parquet"
    pq = pytest.importorskip("pyarrow.parquet")
    pq.write_table(pytest.importorskip("pyarrow").table({"secret": [1]}), away)
    (folder / "links").mkdir()
    (folder / "links" / "a.parquet").symlink_to(away)
    for key in ("file", "folder"):
        assert "outside" in ask("header", 422, data={key: "links"})["error"]


def test_names_of_a_query_are_no_record_and_no_levels(ask, folder):
    """Before: the first record of a file stood as names where none of its rows was asked for."""
    duckdb = pytest.importorskip("duckdb")
    (folder / "bare.csv").write_text("Alice,Berlin\nBob,Paris\n")
    with duckdb.connect(str(folder / "t.duckdb")) as base:
        base.execute("CREATE TABLE t (s STRUCT(who ENUM('Alice', 'Bob')), x DECIMAL(9, 2))")
    bare = (folder / "bare.csv").as_posix()
    for query in (f"FROM '{bare}' LIMIT 0", f"SELECT * FROM '{bare}' WHERE false"):
        assert "Alice" not in ask("header", 422, data={"sql": query})["error"]
    found = ask("header", data={"sql": "FROM t", "database": "t.duckdb"})["columns"]
    assert [column["kind"] for column in found] == ["struct", "number"]


def test_a_long_preview_is_short(ask):
    wide = {"name": "h", "kind": "histogram", "column": "pay", "bins": 200, "epsilon": 1}
    found = ask("preview", plan=plan(wide), name="h", epsilon=1)
    wider = plan({**wide, "bins": 600})
    assert "at most 500" in ask("compare", 422, plan=wider, name="h", epsilon=1)["error"]
    assert (len(found["rows"]), found["more"], len(found["half_width"])) == (21, 180, 20)


def test_the_demo_is_a_plan_with_its_table(ask, folder):
    found = ask("demo")
    found["plan"]["releases"] = [{"kind": "mean", "weight": 1}]
    assert ask("check", plan=found["plan"], file=found["file"])["problems"] == []
    (folder / "demo.csv").write_text("mine\n")
    ask("demo", 422)
    assert (folder / "demo.csv").read_text() == "mine\n"


def test_the_curators_check_is_shown_and_marked(ask):
    assert "NOT PRIVATE" in ask("curator", plan=plan(MEAN))["html"]
