"""Plans that want to hang, crash, look elsewhere or spend unseen: one line each, unpaid."""

from __future__ import annotations

import os
import random
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from tightdp.cli import main
from tightdp.cli.output import Exit
from tightdp.data.sources import from_sql
from tightdp.errors import ParameterError
from tightdp.ledger import Ledger
from tightdp.options import amount

from .conftest import HEAD, MEAN

PATIENCE = 20  # seconds; the machine may be busy
UNPAID = {Exit.WRONG, Exit.BUDGET}


@contextmanager
def within(seconds: int = PATIENCE) -> Iterator[None]:
    """Fail, instead of waiting for ever."""

    def late(*_: Any) -> None:
        raise TimeoutError

    before = signal.signal(signal.SIGALRM, late)
    signal.alarm(seconds)
    try:
        yield
    finally:
        signal.alarm(0)
        signal.signal(signal.SIGALRM, before)


def spent(folder: Path) -> float:
    if not (folder / "ledger.db").exists():
        return 0.0
    with Ledger.open(folder / "ledger.db") as ledger:
        return float(ledger.spent.epsilon)


def refused(path: Any, capsys: pytest.CaptureFixture[str]) -> str:
    """What a plan is refused with: in time, in lines of ours, without a traceback."""
    with within():
        assert main(["release", str(path)]) in UNPAID
    said = capsys.readouterr()
    assert said.out == ""
    assert "Traceback" not in said.err
    assert "fault of tightdp" not in said.err
    assert len(said.err) < 20_000
    return said.err


# --- numbers and texts ----------------------------------------------------------------------------

HUGE = {
    "a huge exponent": '"1e999999999"',
    "a tiny exponent": '"1e-999999999"',
    "many digits": f'"{"1" * 50_000}"',
    "a long fraction": f'"1/{"3" * 5000}"',
    "a long integer": "1" * 5000,
    "a long hexadecimal": "0x" + "f" * 5000,
    "infinity": "inf",
    "no number": "nan",
    "zero": "0",
    "less than nothing": "-1",
    "nothing": '"0/0"',
    "a list": "[[[1]]]",
    "a date": "1979-05-27",
    "a table": "{a = 1}",
    "NUL": '"\\u0000"',
    "true": "true",
}


@pytest.mark.parametrize("name", HUGE)
@pytest.mark.parametrize("place", ["budget", "epsilon", "weight", "rows", "high", "confidence"])
def test_no_number_hangs_or_crashes(name, place, folder, plan, capsys):
    head, release = HEAD, MEAN
    if place == "budget":
        head = HEAD.replace("epsilon = 4", f"epsilon = {HUGE[name]}")
    elif place in ("epsilon", "weight"):
        release = MEAN.replace("weight = 1", f"{place} = {HUGE[name]}")
    elif place == "rows":
        head = HEAD.replace("rows = 200", f"rows = {HUGE[name]}")
    elif place == "high":
        head = HEAD.replace("high = 100", f"high = {HUGE[name]}")
    else:
        head = HEAD.replace("epsilon = 4", f"epsilon = 4\nconfidence = {HUGE[name]}")
    assert "plan.toml:" in refused(plan(release, head), capsys)
    assert not (folder / "ledger.db").exists()


def test_numbers_of_plans_are_still_read():
    assert [str(amount("x", text)) for text in ("1e-3", " 0.1 ", "1/3", "2")] == [
        "1/1000", "1/10", "1/3", "2",
    ]  # fmt: skip
    with pytest.raises(ParameterError, match="must be a number"):
        amount("x", "1e999999999")
    with pytest.raises(ParameterError, match="of moderate size"):
        amount("x", 1 << 5000)


SHAPES = {
    "deep arrays": "a = " + "[" * 3000 + "]" * 3000,
    "deep tables": "a = " + "{b = " * 3000 + "1" + "}" * 3000,
    "deep keys": ".".join("a" * 3000) + " = 1",
    "NUL": "a = \0",
    "an escape": 'a = "\x1b[2J"',
    "half a pair": 'a = "\\ud800"',
    "nothing": "",
    "one line without end": "a" * 100_000,
    "a long name": f"{'a' * 100_000} = 1\n{HEAD}{MEAN}",
    "an escape in a key": f'"\\u001b[2J" = 1\n{HEAD}{MEAN}',
}


@pytest.mark.parametrize("name", SHAPES)
def test_no_text_hangs_or_crashes(name, folder, capsys):
    (folder / "plan.toml").write_text(SHAPES[name])
    assert "\x1b" not in refused(folder / "plan.toml", capsys)


# --- paths ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("place", ["plan", "file", "folder", "schema", "ledger", "database"])
@pytest.mark.parametrize(
    "path",
    ["pipe", "/dev/zero", "loop", "a" * 400, "a/" * 3000 + "a", "\\u0000", "", "pipe.csv"],
)
def test_no_path_hangs_or_crashes(place, path, folder, plan, capsys):
    for name in ("pipe", "pipe.csv"):
        os.mkfifo(folder / name)
    (folder / "loop").symlink_to(folder / "loop")
    head = {
        "plan": HEAD,
        "file": HEAD.replace('"table.csv"', f'"{path}"'),
        "folder": HEAD.replace('file = "table.csv"', f'folder = "{path}"'),
        "schema": HEAD.partition("[schema]")[0]
        + f'[schema]\nfile = "{path}"\n[budget]'
        + HEAD.partition("[budget]")[2],
        "ledger": HEAD.replace('"ledger.db"', f'"{path}"'),
        "database": HEAD.replace(
            'file = "table.csv"', f'sql = "SELECT 1 AS age"\ndatabase = "{path}"'
        ),
    }[place]
    if place != "plan":
        refused(plan(head=head), capsys)
    else:
        at = path.encode().decode("unicode_escape")
        refused(at if at in ("", "\0") else folder / at, capsys)


# --- queries --------------------------------------------------------------------------------------

OPTIONS = "header = true, auto_detect = false, strict_mode = false, ignore_errors = true"
STATED = f"{OPTIONS}, columns = {{'age': 'VARCHAR'}}"
_CSV = STATED.replace("{", "{{").replace("}", "}}")
ELSEWHERE = {
    "another file": f"SELECT * FROM read_csv('{{outside}}/secret.csv', {_CSV})",
    "another file by dots": f"SELECT * FROM read_csv('{{folder}}/../secret.csv', {_CSV})",
    "a link to it": f"SELECT * FROM read_csv('{{folder}}/link.csv', {_CSV})",
    "a text": "SELECT * FROM read_text('/etc/hostname')",
    "a listing": "SELECT * FROM glob('/etc/*')",
    "the network": "SELECT * FROM 'https://example.org/a.parquet'",
    "a bucket": "SELECT * FROM 's3://bucket/a.parquet'",
    "an extension": "SELECT * FROM sqlite_scan('{folder}/ledger.db', 'entries')",
    "another extension": "SELECT ST_Point(1, 2) AS age",
    "a variable of the program": "SELECT * FROM SHAPES",
    "settings": "SET enable_external_access = true",
    "an installation": "INSTALL httpfs",
    "a copy": "COPY (SELECT 1) TO '{folder}/out.csv'",
    "an attachment": "ATTACH '{outside}/secret.db'",
}


@pytest.mark.parametrize("name", ELSEWHERE)
@pytest.mark.parametrize("database", [False, True])
def test_a_query_sees_what_the_plan_states_and_nothing_else(
    name, database, folder, plan, capsys, monkeypatch
):
    """Before: extensions were fetched from the network, and any file was read."""
    duckdb = pytest.importorskip("duckdb")
    inside = folder / "inside"
    inside.mkdir()
    (folder / "secret.csv").write_text("age\n1\n")
    (inside / "link.csv").symlink_to(folder / "secret.csv")
    (inside / "table.csv").write_text((folder / "table.csv").read_text())
    home = folder / "home"
    monkeypatch.setenv("HOME", str(home))
    with duckdb.connect(str(inside / "base.duckdb")) as base:
        base.sql("CREATE TABLE t AS SELECT 1 AS age")
    query = ELSEWHERE[name].format(outside=folder.as_posix(), folder=inside.as_posix())
    data = f'sql = "{query}"' + ('\ndatabase = "base.duckdb"' if database else "")
    path = inside / "plan.toml"
    path.write_text(HEAD.replace('file = "table.csv"', data) + MEAN)
    said = refused(path, capsys)
    assert "plan.toml:2: " in said
    assert not (inside / "out.csv").exists()
    assert not home.exists()


def test_a_query_reads_the_files_beside_its_plan_or_those_that_are_stated(folder, plan, capsys):
    pytest.importorskip("duckdb")
    query = f"SELECT age FROM read_csv('{(folder / 'table.csv').as_posix()}', {STATED})"
    head = HEAD.replace('file = "table.csv"', f'sql = "{query}"')
    assert main(["preview", str(plan(head=head))]) == 0
    (folder / "plans").mkdir()
    for files, code in (("..", 0), ("../table.csv", 0), ("../ledger.db", 2), (".", 2)):
        stated = head.replace("[schema]\n", f'files = "{files}"\n[schema]\n', 1)
        assert main(["preview", str(plan(head=stated, name="plans/p.toml"))]) == code, files
    capsys.readouterr()
    beside = HEAD.replace("[schema]\n", 'files = ".."\n[schema]\n', 1)
    assert "`files` goes with `sql`" in refused(plan(head=beside), capsys)


GUESSING = {
    "a file by its name": "SELECT * FROM '{folder}/table.csv'",
    "a call": "SELECT * FROM read_csv('{folder}/table.csv')",
    "all as text": "SELECT * FROM read_csv('{folder}/table.csv', all_varchar = true)",
    "options in a comment": f"SELECT * FROM read_csv('{{folder}}/table.csv' /* {OPTIONS} */)",
    "one of two": (
        f"SELECT * FROM read_csv('{{folder}}/table.csv', {_CSV}) "
        "UNION ALL SELECT age FROM read_csv('{folder}/table.csv')"
    ),
    "automatic": f"SELECT * FROM read_csv_auto('{{folder}}/table.csv', {_CSV})",
    "a query in a text": "SELECT * FROM query('FROM ''{folder}/table.csv''')",
    "no rows of it": "SELECT * FROM '{folder}/table.csv' LIMIT 0",
    "none of its rows": "SELECT * FROM read_csv_auto('{folder}/table.csv') WHERE false",
    "a name in quotes beside a call": (
        f"SELECT age FROM read_csv('{{folder}}/table.csv', {_CSV}) "
        "UNION ALL SELECT age FROM \\\"read_csv\\\"('{folder}/table.csv')"
    ),
    "a query in a text beside a call": (
        f"SELECT age FROM read_csv('{{folder}}/table.csv', {_CSV}) "
        "UNION ALL SELECT age FROM query('FROM read_csv(''{folder}/table.csv'')')"
    ),
    "JSON that is none": "SELECT * FROM read_json('{folder}/table.csv')",
    "the guess itself": "SELECT 1 AS age FROM sniff_csv('{folder}/table.csv')",
    "a common table": "WITH t AS (FROM '{folder}/table.csv') SELECT a.age FROM t a, t b",
    "JSON": "SELECT * FROM '{folder}/table.json'",
    "JSON by a call": "SELECT * FROM read_json('{folder}/table.json')",
    "lines of JSON": "SELECT * FROM read_ndjson_auto('{folder}/table.json')",
}


@pytest.mark.parametrize("name", GUESSING)
def test_a_query_does_not_guess_from_cells(name, folder, plan, capsys):
    """Before: one person's cell made the types of a column, and so the cells of all others."""
    pytest.importorskip("duckdb")
    (folder / "table.json").write_text('{"age": 1}\n')
    query = GUESSING[name].format(folder=folder.as_posix())
    said = refused(plan(head=HEAD.replace('file = "table.csv"', f'sql = "{query}"')), capsys)
    assert "would guess types" in said


def test_a_query_of_names_and_types_is_none_of_rows(folder, plan, capsys):
    """What DESCRIBE says of a file was guessed from its cells."""
    pytest.importorskip("duckdb")
    for query in ("DESCRIBE FROM '{}'", "SELECT * FROM (DESCRIBE '{}')"):
        asked = query.format((folder / "table.csv").as_posix())
        said = refused(plan(head=HEAD.replace('file = "table.csv"', f'sql = "{asked}"')), capsys)
        assert "one SELECT of rows" in said


def test_a_table_that_is_stated_once_may_be_named_twice(folder):
    pytest.importorskip("duckdb", minversion="1.5")  # older ones write it into the plan twice
    table = f"read_csv('{(folder / 'table.csv').as_posix()}', {STATED})"
    query = f"WITH t AS (FROM {table}) SELECT a.age FROM t a, t b UNION ALL SELECT age FROM {table}"
    assert from_sql(query, files=folder).columns == ["age"]


def test_a_view_does_not_guess_from_cells(folder, plan, capsys):
    duckdb = pytest.importorskip("duckdb")
    table = (folder / "table.csv").as_posix()
    with duckdb.connect(str(folder / "base.duckdb")) as base:
        base.sql(f"CREATE VIEW v AS SELECT * FROM read_csv('{table}')")
        base.sql(f"CREATE VIEW w AS SELECT * FROM '{table}'")
    for view in "vw":
        data = f'sql = "SELECT * FROM {view}"\ndatabase = "base.duckdb"\nfiles = "."'
        said = refused(plan(head=HEAD.replace('file = "table.csv"', data)), capsys)
        assert "would guess types" in said


# --- random changes -------------------------------------------------------------------------------

RELEASES = (
    MEAN
    + """\
[[releases]]
name = "counts"
kind = "count"
columns = ["region"]
noise = "l1"
epsilon = "1/2"
[[releases]]
name = "bins"
kind = "histogram"
column = "pay"
bins = [0, 2, 5, 10]
weight = 2
"""
)

PIECES = [
    "", "0", "-1", "1e308", '"1e999999"', "nan", "inf", "true", "[]", "{}", '""', '"\\u0000"',
    '"\\u001b[2J"', '"é工"', "[1, 2]", '"age"', '"mean"', "9" * 30, "0.1", '"1/3"', "1e-300",
    "[[releases]]", "[budget]", "=", "#", "\n", '"', "'''", "\ud7ff", "\x00", "a.b.c = 1\n",
    "kind = \"median\"\n", "weight = 0\n", "epsilon = 5\n", "1979-05-27", "[\"age\", \"age\"]",
    "[\"region\"]", "[0, 0]", "[inf]", "\"linf\"", "\"designed\"", "delta = 0.5\n",
]  # fmt: skip


def mutated(text: str, bits: random.Random) -> str:
    """A plan with a few random changes: values, lines and characters."""
    lines = text.splitlines()
    for _ in range(bits.choice([1, 1, 1, 2, 3])):
        at = bits.randrange(len(lines))
        what = bits.randrange(6)
        if what == 0 and "=" in lines[at]:
            lines[at] = f"{lines[at].partition('=')[0]}= {bits.choice(PIECES)}"
        elif what == 1:
            del lines[at]
        elif what == 2:
            lines.insert(at, lines[bits.randrange(len(lines))])
        elif what == 3:
            lines[at] = lines[at].replace(bits.choice("aeimn=[]\"'.0123456789"), "", 1)
        elif what == 4:
            place = bits.randrange(len(lines[at]) + 1)
            lines[at] = lines[at][:place] + bits.choice(PIECES) + lines[at][place:]
        else:
            other = bits.randrange(len(lines))
            lines[at], lines[other] = lines[other], lines[at]
        lines = lines or [""]
    return "\n".join(lines) + "\n"


def fuzz(folder: Path, count: int, seed: int, capsys: pytest.CaptureFixture[str]) -> int:
    """How many of ``count`` mutated plans were released; each exit code says what was spent."""
    bits, released = random.Random(seed), 0
    known = {path.name for path in folder.iterdir()} | {"plan.toml"}
    for _ in range(count):
        text = mutated(HEAD + RELEASES, bits)
        (folder / "plan.toml").write_text(text, encoding="utf-8", errors="replace")
        with within(60):
            code = main(["release", str(folder / "plan.toml"), "--report", str(folder / "r.md")])
        said = capsys.readouterr()
        assert code in (Exit.DONE, Exit.PAID, *UNPAID, Exit.LEDGER), (code, said.err, text)
        # a wrong number of rows is the one mistake that only reading, which is paid for, finds
        assert code != Exit.PAID or "and the schema says" in said.err, (said.err, text)
        assert "Traceback" not in said.err, text
        assert "\x1b" not in said.out + said.err, text
        made = [path for path in folder.iterdir() if path.name not in known]
        paid = 0.0
        for path in made:
            if path.suffix not in (".md",) and not path.name.endswith(("-wal", "-shm")):
                with Ledger.open(path) as ledger:
                    ledger.verify()
                    paid += float(ledger.spent.epsilon)
        assert (paid > 0) == (code in (Exit.DONE, Exit.PAID)), (code, said.err, text)
        released += code == Exit.DONE
        for path in made:
            path.unlink()
    return released


def test_mutated_plans_never_crash_and_never_spend_unseen(folder, capsys, seed):
    assert fuzz(folder, 40, seed, capsys) > 3


@pytest.mark.slow
def test_many_mutated_plans_never_crash_and_never_spend_unseen(folder, capsys, seed):
    assert fuzz(folder, 2000, seed, capsys) > 100
