"""Sheets of Excel, tables of databases, and files that break while somebody reads them."""

from __future__ import annotations

import bz2
import gzip
import lzma
import os
import re
import sqlite3
import time as time_of_day
import warnings
import zipfile
from datetime import date, datetime, time
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from tests.laws.containers import excel_cell, excel_file

import tightdp as tdp
from tightdp.cli.main import main
from tightdp.data import excel_sheets
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.table import Table, check_frame
from tightdp.errors import DataError, ParameterError

SCHEMA = tdp.Schema(
    {
        "x": tdp.Interval(0, 8),
        "k": tdp.Category(["a", "b"]),
        "d": tdp.Date("2014-01-01", "2014-12-31"),
    },
    rows=7,
    neighbors="add-remove",
)
ONE = tdp.Schema({"x": SCHEMA["x"]}, 9, neighbors="add-remove")
NAMES = ["x", "k", "d"]
ROWS: list[list[Any]] = [
    [1, "a", date(2014, 2, 3)],
    [2.5, "b", datetime(2014, 2, 3, 23, 59)],
    ["3", " a", "2014-02-03"],
    [None, None, None],
    ["many", 7, "2014-02-30"],
    [99, "c", 20140203],
]


def integers(frame: Any) -> list[list[int]]:
    return quantized_matrix(frame, SCHEMA, NAMES).tolist()


TRUTH = integers({name: [row[j] for row in ROWS] for j, name in enumerate(NAMES)})


# --- Excel ----------------------------------------------------------------------------------------


def workbook(path: Path, rows: list[list[Any]], *, merged: str | None = None) -> Path:
    excel = pytest.importorskip("openpyxl")
    book = excel.Workbook()
    book.create_sheet("Sales")
    for row in rows:
        book["Sales"].append(row)
    if merged is not None:
        book["Sales"].merge_cells(merged)
    book.save(path)
    return path


def test_a_sheet_gives_the_integers_of_its_cells(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [NAMES, *ROWS])
    bare = workbook(tmp_path / "b.xlsx", ROWS)
    replaced = tdp.Schema(SCHEMA.columns, len(ROWS))
    filled = [counted for counted, row in zip(TRUTH, ROWS, strict=True) if any(row)]
    assert len(filled) == len(TRUTH) - 1
    for sheet in (tdp.ExcelFile(path, "Sales"), tdp.ExcelFile(bare, "Sales", NAMES)):
        assert quantized_matrix(sheet, replaced, NAMES).tolist() == TRUTH
        assert integers(sheet) == filled


def test_somebody_of_whom_nothing_is_known_is_a_row_of_a_sheet(tmp_path):
    """Neighbours under replace-one: without noise on the total of counts, it must not move."""
    facts = tdp.Schema({"k": tdp.Category(["a", "b", "c"])}, rows=4)
    for cell in ("b", None, "#DIV/0!", ""):
        path = workbook(tmp_path / "a.xlsx", [["k"], ["a"], [cell], [None], ["a"], [None], [None]])
        with warnings.catch_warnings():
            warnings.simplefilter("error")  # that there are other rows than stated
            found = tdp.count(tdp.ExcelFile(path, "Sales"), ["k"], schema=facts, epsilon=1)
        assert found.value.sum() == 4


def test_nobodys_presence_decides_on_the_empty_rows_above(tmp_path):
    """Neighbours under add-remove: the last row took those with it that were empty before it."""
    facts = tdp.Schema({"k": tdp.Category(["a", "b"])}, rows=9, neighbors="add-remove")
    rows = [["k"], ["a"], *[[None]] * 5]
    with_it, without = (
        tdp.Counts(facts, ["k"]).measure(tdp.ExcelFile(workbook(tmp_path / f, each), "Sales"))
        for f, each in (("a.xlsx", [*rows, ["b"]]), ("b.xlsx", rows))
    )
    assert np.subtract(with_it, without).tolist() == [0, 1, 0]
    for relation, counted in (("add-remove", 2), ("replace-one", 7)):  # and so does the check
        own = tdp.Schema(facts.columns, rows=9, neighbors=relation)
        assert own.check(tdp.ExcelFile(tmp_path / "a.xlsx", "Sales")).rows == counted


def test_errors_formulas_times_and_merged_cells_follow_a_public_rule(tmp_path):
    rows = [["#DIV/0!", "a", time(12)], ["=1+1", "b", -5], [4, "a", None], [5, "b", None]]
    path = workbook(tmp_path / "a.xlsx", [NAMES, *rows], merged="A4:A5")
    nothing = [None, "a", None], [None, "b", None], [4, "a", None], [None, "b", None]
    expected = integers({name: [row[j] for row in nothing] for j, name in enumerate(NAMES)})
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        assert integers(tdp.ExcelFile(path, "Sales")) == expected


def test_what_is_wrong_with_a_sheet_is_said_before_payment(tmp_path):
    path = workbook(tmp_path / "a.xlsx", [NAMES, *ROWS], merged="A1:B1")
    ledger = tdp.Ledger(epsilon=1, neighbors="add-remove")
    broken = tmp_path / "broken.xlsx"
    broken.write_bytes(path.read_bytes()[:900])
    for frame, word in (
        (tdp.ExcelFile(path, "Sales"), "none merged"),
        (tdp.ExcelFile(path, "sales"), "no sheet"),
        (tdp.ExcelFile(broken, "Sales"), "no Excel file"),
        (tdp.ExcelFile(tmp_path / "no.xlsx", "Sales"), "no file"),
        (str(path), "the sheet must be named"),
    ):
        with pytest.raises(ParameterError, match=word):
            tdp.mean(frame, "x", by="k", schema=SCHEMA, epsilon=1, ledger=ledger)
    assert ledger.spent.epsilon == 0
    for path_, sheet, names in (("a.csv", "s", None), ("a.xlsx", 1, None), ("a.xlsx", "s", [""])):
        with pytest.raises(ParameterError):
            tdp.ExcelFile(path_, sheet, names)


DAMAGED = (
    "<c><v>many</v></c>",
    "<c><v></v></c>",
    f"<c><v>{'9' * 5000}</v></c>",
    '<c t="s"><v>7</v></c>',  # a text that is not in the list of texts
    '<c t="s"><v>x</v></c>',
    '<c t="b"><v>maybe</v></c>',
    '<c t="d"><v>2014-02-30</v></c>',
    '<c t="inlineStr"><is><odd/></is></c>',
    '<c t="unheard of"><v>1</v></c>',
    '<c s="none"><v>1</v></c>',
    '<c s="99"><v>1</v></c>',
    '<c r="A0"><v>1</v></c>',
    '<c r="ZZZ9"><v>1</v></c>',
    '<c r="??"><v>1</v></c>',
    '<c r="A99999999999999999999"><v>1</v></c>',
    "<other/>",
)


@pytest.mark.parametrize("cell", DAMAGED)
def test_a_damaged_cell_of_a_sheet_stops_nothing_and_moves_no_other_row(cell, tmp_path):
    pytest.importorskip("openpyxl")
    header = [excel_cell("x"), excel_cell("y")]
    plain = [[excel_cell(x), excel_cell(1)] for x in (3, 4, 5)]
    one = tdp.Schema({"x": SCHEMA["x"]}, 4, neighbors="add-remove")
    sums = tdp.Sums(one, ["x"])
    without, with_it, alone = (
        sums.measure(tdp.ExcelFile(excel_file(tmp_path / f"{i}.xlsx", [header, *rows]), "t"))[0]
        for i, rows in enumerate(([*plain], [*plain[:1], [cell], *plain[1:]], [[cell]]))
    )
    assert with_it == without + alone


def test_a_damaged_archive_is_refused_before_payment(tmp_path, monkeypatch):
    pytest.importorskip("openpyxl")
    path = excel_file(tmp_path / "a.xlsx", [[excel_cell("x")], *[[excel_cell(3)]] * 2000])
    whole = path.read_bytes()
    at = whole.index(b"s.xml") + 20  # within the packed sheet
    broken = {
        "flipped": whole[:at] + bytes([whole[at] ^ 255]) + whole[at + 1 :],
        "cut": whole[: len(whole) // 2],
        "unclosed": excel_file(tmp_path / "u.xlsx", [[excel_cell("x")], ["<c>"]]).read_bytes(),
    }
    for name, raw in broken.items():
        (tmp_path / f"{name}.xlsx").write_bytes(raw)
        error, spent = paid(tdp.ExcelFile(tmp_path / f"{name}.xlsx", "t"))
        assert (type(error), spent) == (ParameterError, 0), name
        assert "no Excel file" in str(error)
    with zipfile.ZipFile(path, "a") as archive:
        archive.writestr("more.xml", '<!DOCTYPE a [<!ENTITY b "c">]><a>&b;</a>')
    assert paid(tdp.ExcelFile(path, "t"))[1] == 0
    monkeypatch.setattr(excel_sheets, "MOST_BYTES", 1000)
    path.write_bytes(whole)
    error, spent = paid(tdp.ExcelFile(path, "t"))
    assert spent == 0
    assert "more than 1000 bytes" in str(error)


@pytest.mark.parametrize("number", ["2", "1", "0", "-3", "x", "", "03", "9999999", "1e3"])
def test_a_damaged_number_of_a_row_is_refused_before_payment(number, tmp_path):
    """It would move all rows that follow: what is one row's must not be another's."""
    pytest.importorskip("openpyxl")
    path = excel_file(tmp_path / "a.xlsx", [[excel_cell("x")], [excel_cell(3)], [excel_cell(4)]])
    numbered = numbered_rows(path, ["1", "2", "3"])
    assert len(quantized_matrix(tdp.ExcelFile(numbered, "t"), ONE, ["x"])) == 2
    error, spent = paid(tdp.ExcelFile(numbered_rows(path, ["1", "2", number]), "t"), ONE)
    assert (type(error), spent) == (ParameterError, 0)
    assert "no Excel file" in str(error)


def numbered_rows(path: Path, numbers: list[str]) -> Path:
    """The same file, with these numbers at its rows."""
    left = iter(numbers)
    made = path.with_name("numbered.xlsx")
    with zipfile.ZipFile(path) as old, zipfile.ZipFile(made, "w") as new:
        for part in old.namelist():
            text = old.read(part).decode()
            new.writestr(part, re.sub("<row>", lambda _: f'<row r="{next(left)}">', text))
    assert next(left, None) is None
    return made


def test_a_sheet_that_is_another_after_it_was_checked_keeps_the_charge(tmp_path):
    pytest.importorskip("openpyxl")
    path = excel_file(tmp_path / "a.xlsx", [[excel_cell("x")], [excel_cell(3)]])
    file = tdp.ExcelFile(path, "t")
    one = tdp.Schema({"x": SCHEMA["x"]}, 4, neighbors="add-remove")
    table = Table.open(file, one)
    for change in (
        lambda: excel_file(path, [[excel_cell("z")], [excel_cell(3)]]),
        lambda: path.write_bytes(path.read_bytes()[:300]),
    ):
        change()
        error, spent = paid(table, one)
        assert spent == 1
        assert isinstance(error, DataError | ParameterError)


# --- databases ------------------------------------------------------------------------------------


def sqlite_file(path: Path, rows: list[list[Any]] = ROWS) -> str:
    base = sqlite3.connect(path)
    base.execute('CREATE TABLE "my table" (x, k, d)')
    plain = [[str(c) if isinstance(c, date) else c for c in row] for row in rows]
    base.executemany('INSERT INTO "my table" VALUES (?, ?, ?)', plain)
    base.execute("INSERT INTO \"my table\" VALUES (8, CAST(x'61ff' AS TEXT), x'00')")
    base.commit()
    base.close()
    return f"sqlite:///{path}?table=my+table"


def test_a_table_of_sqlite_gives_the_integers_of_its_cells(tmp_path):
    odd = [8, b"a\xff".decode("utf-8", "surrogateescape"), None]
    expected = [*TRUTH, *integers({name: [cell] for name, cell in zip(NAMES, odd, strict=True)})]
    assert integers(sqlite_file(tmp_path / "my base.db")) == expected


def test_a_table_of_duckdb_is_read_by_its_address(tmp_path):
    base = duckdb.connect(str(tmp_path / "a.db"))
    base.execute("CREATE TABLE t AS SELECT 2 AS x, 'b' AS k, DATE '2014-02-03' AS d")
    base.close()
    expected = integers({"x": [2], "k": ["b"], "d": ["2014-02-03"]})
    assert integers(f"duckdb:///{tmp_path}/a.db?table=t") == expected


SMALLEST = -(2**63)  # whose absolute value SQLite cannot compute


def test_a_column_that_sqlite_computes_is_refused_before_payment_and_a_stored_one_is_read(tmp_path):
    base = sqlite3.connect(tmp_path / "a.db")
    base.execute("CREATE TABLE s (y, x AS (y + 1) STORED)")
    base.execute("CREATE TABLE v (y)")
    for name in "sv":
        base.executemany(f"INSERT INTO {name} (y) VALUES (?)", [[1], [SMALLEST]])
    base.execute("ALTER TABLE v ADD COLUMN x AS (abs(y))")
    base.commit()
    base.close()
    stored, computed = (f"sqlite:///{tmp_path / 'a.db'}?table={name}" for name in "sv")
    assert quantized_matrix(stored, ONE, ["x"]).tolist() == [[-(1 << 15)], [-(1 << 16)]]
    error, spent = paid(computed, ONE)
    assert (type(error), spent) == (ParameterError, 0)
    assert "Column 'x' is computed" in str(error)
    other = tdp.Schema({"y": SCHEMA["x"]}, 9, neighbors="add-remove")
    assert len(quantized_matrix(computed, other, ["y"])) == 2


def test_a_view_that_fails_on_a_cell_keeps_the_charge_and_tells_nothing_of_it(tmp_path):
    """SQLite's are no tables. DuckDB's are computed as they are read, like any query."""
    base = duckdb.connect(str(tmp_path / "a.duckdb"))
    base.execute("CREATE TABLE t AS SELECT * FROM (VALUES ('1'), ('secret')) AS u(x)")
    base.execute("CREATE VIEW v AS SELECT CAST(x AS INTEGER) AS x FROM t")
    base.close()
    error, spent = paid(f"duckdb:///{tmp_path / 'a.duckdb'}?table=v", ONE)
    assert (type(error), spent) == (DataError, 1)
    assert "secret" not in str(error)
    lite = sqlite3.connect(tmp_path / "a.db")
    lite.execute("CREATE TABLE t (x)")
    lite.execute("CREATE VIEW v AS SELECT abs(x) AS x FROM t")
    lite.close()
    error, spent = paid(f"sqlite:///{tmp_path / 'a.db'}?table=v", ONE)
    assert (type(error), spent) == (ParameterError, 0)


@pytest.mark.parametrize(
    ("address", "word"),
    [
        ("postgresql://host/base?table=t", "address"),
        ("sqlite:///{}/no.db?table=t", "no file"),
        ("sqlite:///{}/a.db?table=other", "no table"),
        ("sqlite:///{}/a.db", "table=NAME"),
        ("sqlite:///{}/a.db?table=t&mode=rw", "table=NAME"),
        ("sqlite://a.db?table=t", "table=NAME"),
        ("sqlite:///{}/text.db?table=t", "no SQLite database"),
    ],
)
def test_an_address_that_leads_nowhere_is_refused(address, word, tmp_path):
    sqlite_file(tmp_path / "a.db")
    (tmp_path / "text.db").write_text("x,k\n" * 400)
    with pytest.raises(ParameterError, match=word):
        check_frame(address.format(tmp_path), SCHEMA, NAMES)


def test_a_database_is_read_and_never_written(tmp_path):
    address = sqlite_file(tmp_path / "a.db")
    before = (tmp_path / "a.db").read_bytes()
    integers(address)
    assert (tmp_path / "a.db").read_bytes() == before
    assert [path.name for path in tmp_path.iterdir()] == ["a.db"]


def test_a_plan_on_an_address_comes_from_the_command_line(tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    sqlite_file(Path("people.db"))
    address = "sqlite:///people.db?table=my+table"
    assert main(["schema", "init", address]) == 0
    assert "[columns.d]" in Path("schema.toml").read_text()
    Path("schema.toml").write_text("rows = 7\ncolumns.x = {low = 0, high = 8}\n")
    assert main(["plan", "init", address]) == 0
    assert main(["release", "plan.toml"]) == 0
    assert "x" in capsys.readouterr().out


# --- files that break -----------------------------------------------------------------------------


def paid(frame: Any, schema: tdp.Schema = SCHEMA) -> tuple[Any, float]:
    """The error of a release, and what it cost."""
    ledger = tdp.Ledger(epsilon=1, neighbors="add-remove")
    with pytest.raises(tdp.TightdpError) as caught:
        tdp.sum(frame, "x", schema=schema, epsilon=1, ledger=ledger, key="once")
    return caught.value, float(ledger.spent.epsilon)


LINES = "x,k,d\n" + "".join(f"{i % 9},a{i},2014-01-01\n" for i in range(20_000))


@pytest.mark.parametrize(
    ("ending", "pack"), [(".gz", gzip.compress), (".bz2", bz2.compress), (".xz", lzma.compress)]
)
@pytest.mark.parametrize("kept", [12, 0.5, -9])  # up to its header, its middle, its last bytes
def test_a_packed_file_that_ends_too_early_is_refused_before_payment(ending, pack, kept, tmp_path):
    whole, path = pack(LINES.encode()), tmp_path / f"t.csv{ending}"
    path.write_bytes(whole[: int(kept * len(whole)) if kept == 0.5 else kept])
    for frame in (path, tdp.CsvFile(path, ["x", "k", "d"])):
        error, spent = paid(frame)
        assert (type(error), spent) == (ParameterError, 0)
        assert "cut off or damaged" in str(error)
        assert "a1" not in str(error)
    path.write_bytes(whole)  # copied again
    assert tdp.sum(path, "x", schema=SCHEMA, epsilon=1).value is not None


def test_a_packed_file_damaged_by_a_copy_that_keeps_size_and_time_is_refused(tmp_path):
    whole, path = gzip.compress(LINES.encode()), tmp_path / "t.csv.gz"
    path.write_bytes(whole)
    assert tdp.sum(path, "x", schema=SCHEMA, epsilon=1).value is not None  # now it is known
    seen = path.stat()
    time_of_day.sleep(0.02)  # clocks of files tick in hundredths
    path.write_bytes(whole[: len(whole) // 2].ljust(len(whole), b"\0"))
    os.utime(path, ns=(seen.st_atime_ns, seen.st_mtime_ns))
    error, spent = paid(path)
    assert (type(error), spent) == (ParameterError, 0)
    assert "cut off or damaged" in str(error)


def test_a_packed_file_that_is_cut_after_it_was_checked_keeps_the_charge(tmp_path, monkeypatch):
    whole, path = gzip.compress(LINES.encode()), tmp_path / "t.csv.gz"
    path.write_bytes(whole)
    real = tdp.data.engines.read_parts

    def cut(*given: Any) -> Any:
        path.write_bytes(whole[: len(whole) // 2])
        return real(*given)

    monkeypatch.setattr(tdp.data.engines, "read_parts", cut)
    error, spent = paid(path)
    assert (type(error), spent) == (DataError, 1)
    assert "a1" not in str(error)


def test_a_broken_file_of_a_folder_is_named_before_payment(tmp_path):
    pq.write_table(pa.table({"x": [1, 2], "k": ["a", "b"]}), tmp_path / "a.parquet")
    (tmp_path / "b.parquet").write_bytes(b"PAR1 secret")
    error, spent = paid(tmp_path)
    assert (type(error), spent) == (ParameterError, 0)
    assert "b.parquet" in str(error)
    assert "secret" not in str(error)


def test_a_header_in_utf_16_is_refused_with_its_remedy(tmp_path):
    for order in ("utf-16", "utf-16-be"):
        mark = "" if order == "utf-16" else "\ufeff"
        (tmp_path / "t.csv").write_bytes((mark + "x,k\n1,a\n").encode(order))
        error, spent = paid(tmp_path / "t.csv")
        assert (type(error), spent) == (ParameterError, 0)
        assert "iconv" in str(error)


def test_a_name_with_blanks_around_it_is_suggested(tmp_path):
    (tmp_path / "t.csv").write_text(" X ,k\n1,a\n")
    error, spent = paid(tmp_path / "t.csv")
    assert spent == 0
    assert "Did you mean ' X '?" in str(error)


def test_a_file_that_grows_while_it_is_read_is_read_to_some_line(tmp_path, monkeypatch):
    path = tmp_path / "t.csv"
    path.write_text("x,k,d\n" + "1,a,2014-01-01\n" * 50)
    facts = tdp.Schema(SCHEMA.columns, 200, neighbors="add-remove")
    counts = tdp.Counts(facts, ["k"])
    real, grown = tdp.data.csv_pieces.records, []

    def growing(*given: Any) -> Any:
        for record in real(*given):
            if not grown:
                with path.open("a") as file:
                    file.write("2,b,2014-01-01\n" * 3 + "2,b")
                grown.append(True)
            yield record

    monkeypatch.setattr(tdp.data.csv_pieces, "records", growing)
    a, b, other = counts.measure(path)
    assert (a, other) == (50, 0)
    assert 0 <= b <= 4


def test_a_folder_of_other_columns_and_types_is_one_table_or_an_error_before_payment(tmp_path):
    pq.write_table(pa.table({"x": [1, 2], "k": ["a", "b"]}), tmp_path / "a.parquet")
    pq.write_table(pa.table({"x": ["3", "no"], "z": [0, 0]}), tmp_path / "b.parquet")
    two = tdp.Schema({n: SCHEMA[n] for n in ("x", "k")}, 9, neighbors="add-remove")
    mixed = {"x": [1, 2, "3", "no"], "k": ["a", "b", None, None]}
    found = quantized_matrix(tmp_path, two, ["x", "k"]).tolist()
    assert found == quantized_matrix(mixed, two, ["x", "k"]).tolist()
    pq.write_table(pa.table({"x": [[1], [2]], "k": ["a", "b"]}), tmp_path / "c.parquet")
    error, spent = paid(tmp_path)
    assert (type(error), spent) == (ParameterError, 0)
    assert "list" in str(error)
