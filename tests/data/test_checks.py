"""The curator's eyes: what a schema makes of a table, counted, shown, and stored nowhere."""

from __future__ import annotations

import copy
import json
import pickle
import sys
from pathlib import Path

import pytest

import tightdp as tdp
from tightdp.cli.main import main
from tightdp.errors import ParameterError, TightdpError
from tightdp.plans import Plan
from tightdp.privacy import NOT_PRIVATE
from tightdp.report import Report

sys.path.insert(0, str(Path(__file__).parents[1] / "laws"))
from containers import CONTAINERS

SCHEMA = tdp.Schema(
    {"x": tdp.Interval(0, 10), "k": tdp.Category(["a", "b"], other="b")},
    rows=9,
    neighbors="add-remove",
)
NUMBERS = [1.0, 2.5, None, -3.0, 11.0, float("inf"), None, 10.0, 0.0]
TEXTS = ["1", "2,5", None, "-3", "11", "many", "2020-01-02", "10", "1.234,5"]
LEVELS = ["a", "b", None, "A", "c", "a", "b", " a ", "a"]


def counts(found, name):
    column = found[name]
    return column.missing, column.unreadable, column.clamped, column.unseen


@pytest.mark.parametrize("name", [n for n, c in CONTAINERS.items() if "text" in c.holds])
def test_any_container_is_counted_in_one_pass(name, tmp_path):
    """Streams among them, which can be read once."""
    container = CONTAINERS[name]
    rows = [{"x": x, "k": k} for x, k in zip(NUMBERS, LEVELS, strict=True)]
    kinds = {"x": "real", "k": "text"}
    found = SCHEMA.check(container.build(rows, kinds, tmp_path))
    assert counts(found, "x") == (2, 0, 3, 0)
    assert counts(found, "k") == (1, 0, 0, 3)
    assert found.rows == 9


@pytest.mark.parametrize("name", ["csv", "pandas", "lists", "Parquet", "polars", "DuckDB"])
def test_texts_that_are_no_numbers_are_seen(name, tmp_path):
    rows = [{"x": x, "k": k} for x, k in zip(TEXTS, LEVELS, strict=True)]
    found = SCHEMA.check(CONTAINERS[name].build(rows, {"x": "text", "k": "text"}, tmp_path))
    assert counts(found, "x") == (1, 4, 2, 0)
    assert "with decimal = ',' and thousands = '.', 2 of its unreadable cells" in str(found)
    facts = {"x": tdp.Interval(0, 10, decimal=",", thousands="."), "k": SCHEMA["k"]}
    better = tdp.Schema(facts, rows=9).check(
        CONTAINERS[name].build(rows, {"x": "text", "k": "text"}, tmp_path)
    )
    assert counts(better, "x") == (1, 2, 3, 0)


def test_a_column_of_dates_is_seen_before_its_middle_is_published():
    table = {"x": ["2020-01-02", "2021-05-06", "2019-11-30"]}
    schema = tdp.Schema({"x": tdp.Interval(0, 9)}, rows=3)
    found = schema.check(table)
    assert found["x"].unreadable == 3
    assert "3 of its unreadable cells are dates" in str(found)
    released = tdp.mean(table, ["x"], schema=schema, epsilon=1000, rng=1)
    assert released.value == pytest.approx([4.5], abs=0.1)  # and the release says nothing of it


def test_columns_that_cannot_be_read_are_named_and_the_others_counted():
    schema = tdp.Schema({"x": tdp.Interval(0, 9), "gone": tdp.Interval(0, 9)}, rows=2)
    found = schema.check({"x": [1, 99]})
    assert found["x"].clamped == 1
    assert "no column 'gone'" in str(found)
    with pytest.raises(ParameterError, match="no column"):
        schema.check({"other": [1, 2]})


def test_all_rows_of_all_persons_are_looked_at():
    schema = tdp.Schema({"x": tdp.Interval(0, 9)}, rows=9, neighbors="add-remove", person="id")
    found = schema.check({"x": [99, 99, 99, 1], "id": [1, 1, 1, None]})
    assert (found.rows, found["x"].clamped) == (4, 3)


def test_it_bears_its_mark_and_cannot_be_stored(tmp_path):
    found = SCHEMA.check({"x": [1, 99], "k": ["a", "z"]})
    for text in (str(found), repr(found), found._repr_html_(), repr(found["x"])):
        assert NOT_PRIVATE in text
    for what in (found, found["x"]):
        for store in (pickle.dumps, copy.copy, copy.deepcopy, json.dumps):
            with pytest.raises((TightdpError, TypeError)):
                store(what)
        assert not hasattr(what, "to_dict")
        assert not hasattr(what, "__dict__")
    ledger = tdp.Ledger(1, path=tmp_path / "ledger.db", neighbors="add-remove")
    for text in (str(found), repr(found), f"seen: {found!r}"):
        with pytest.raises(TightdpError):
            ledger.spend(0.1, label=text)
        with pytest.raises(TightdpError):
            ledger.spend(0.1, key=text)
    with pytest.raises(TightdpError), ledger.charge(0.5, key="k") as charge:
        charge.store({"note": str(found)})
    with pytest.raises((TightdpError, TypeError, AttributeError)):
        Report.of(found)
    ledger.close()
    assert "curator" not in (tmp_path / "ledger.db").read_bytes().decode("latin-1")


PLAN = """
title = "t"
[data]
file = "t.csv"
[schema]
rows = 3
columns.x = { low = 0, high = 10 }
[budget]
epsilon = 1
ledger = "t.ledger"
[[releases]]
name = "m"
kind = "mean"
columns = ["x"]
weight = 1
"""


def test_the_command_shows_and_writes_nothing(tmp_path, capsys):
    (tmp_path / "t.csv").write_text('x\n"1,5"\n"2,5"\n3\n')
    path = tmp_path / "plan.toml"
    path.write_text(PLAN)
    before = sorted(tmp_path.iterdir())
    assert main(["check", str(path)]) == 0
    shown = capsys.readouterr().out
    assert shown.startswith(NOT_PRIVATE)
    assert "2 (66.7 %)" in shown
    assert main(["check", str(path), "--json"]) == 2
    assert "66.7" not in capsys.readouterr().out
    assert sorted(tmp_path.iterdir()) == before
    assert main(["preview", str(path)]) == 0
    assert "`tightdp check`" in capsys.readouterr().out
    plan = Plan.read(path)
    report = Report.of_plan(plan, plan.release())
    assert plan.check()["x"].unreadable == 2
    for text in (report.html(), report.markdown(), json.dumps(report.to_dict())):
        assert "unreadable" not in text
        assert NOT_PRIVATE not in text


def test_blanks_around_levels_are_said(tmp_path):
    """A file divided by ", " had every cell unseen, and no word of what mends it."""
    cells = [" a", " b", "B", "zzz", None, "a"]
    found = tdp.Schema({"k": tdp.Category(["a", "b"])}, rows=6).check({"k": cells})
    assert found["k"].unseen == 4
    assert "k: with loose = true, 3 of its unseen cells are levels" in str(found)
    loose = tdp.Schema({"k": tdp.Category(["a", "b"], loose=True)}, rows=6).check({"k": cells})
    assert loose["k"].unseen == 1
    assert not loose["k"].hint
    cased = tdp.Schema({"k": tdp.Category(["a", "A"], other="A")}, rows=6).check({"k": cells})
    assert not cased["k"].hint  # a loose rule could not tell the levels apart
