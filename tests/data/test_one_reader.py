"""One reader of columns: no cell decides how another is read, and no text stops a release."""

from __future__ import annotations

import csv
import gzip
import subprocess
import sys
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.one_pass import quantized_matrix
from tightdp.errors import ParameterError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
pq = pytest.importorskip("pyarrow.parquet")

NULLABLE: dict[str, Any] = {
    "pandas Int64": lambda cells: pd.Series(cells, dtype="Int64"),
    "pandas Arrow": lambda cells: pd.Series(cells, dtype="int64[pyarrow]"),
    "pandas category": lambda cells: pd.Series(cells, dtype="Int64").astype("category"),
    "polars": pl.Series,
    "pyarrow": pa.array,
    "pyarrow chunks": lambda cells: pa.chunked_array([cells[:2], cells[2:]]),
}


# --- one missing cell -----------------------------------------------------------------------------


@pytest.mark.parametrize("column", NULLABLE.values(), ids=NULLABLE)
def test_a_missing_person_does_not_merge_the_others(column):
    """A null made doubles of all ids: of a thousand persons with close ids eight were left."""
    persons = [*range(2**62, 2**62 + 1000), None]
    facts = {"x": tdp.Interval(0, 1)}
    schema = tdp.Schema(facts, rows=1001, neighbors="add-remove", person="who")
    table = {"who": column(persons), "x": np.ones(1001)}
    assert len(quantized_matrix(table, schema, ["x"])) == 1000


def test_a_null_of_a_dictionary_is_missing():
    """It took the value of the last entry: one row moved the sum by 2,002 where 2 was claimed."""
    cells = pa.chunked_array([pa.array([0, None, 1000] * 4).dictionary_encode()])
    column = tdp.Interval(-1001, 1001, missing=0)
    facts = tdp.Schema({"x": column, "y": column}, rows=12, bits=10)
    want = [0, 0, round(1000 / 1001 * 1024)] * 4
    assert quantized_matrix({"x": cells}, facts, ["x"])[:, 0].tolist() == want
    problem = tdp.LinearRegression(epsilon=1, bounds=facts)._problem(pa.table({"x": cells}), cells)
    both = quantized_matrix(problem.frame, problem.schema, ["x", "y"])
    assert both.tolist() == [[cell, cell] for cell in want]


@pytest.mark.parametrize("rows", [2, 3, 40])
def test_dictionaries_of_views_are_read_whatever_the_rows(rows):
    """Whether the dictionary was longer than the table decided whether it could be read."""
    levels = pa.array(["a", "b", "c"]).cast(pa.string_view())
    places = pa.array([0, None] * (rows // 2) + [1] * (rows % 2))
    column = pa.DictionaryArray.from_arrays(places, levels)
    counts = tdp.Counts(tdp.Schema({"k": tdp.Category(["a", "b", "c"])}, rows=rows))
    assert counts.measure(pa.table({"k": column})) == [rows // 2, rows % 2, 0, rows // 2]


@pytest.mark.parametrize("odd", [0.5, 10**30, None, [1, 2], float("nan"), "text"], ids=str)
def test_one_cell_of_a_nested_list_leaves_the_others_alone(odd):
    levels = tdp.Category([2**53, 2**53 + 1, 2**53 + 2])
    facts = tdp.Schema({"k": levels, "x": tdp.Interval(0, 9), "y": levels}, rows=4)
    X = [[2**53, 1], [2**53 + 1, 2], [2**53 + 2, 3], [odd, odd]]
    model = tdp.GaussianNB(epsilon=1, bounds=facts)
    problem = model._problem(X, [2**53, 2**53 + 1, 2**53 + 2, odd])
    found = quantized_matrix(problem.frame, problem.schema, ["k", "y"])
    assert found.tolist() == [[0, 0], [1, 1], [2, 2], [3, 3]]


@pytest.mark.parametrize("column", [*NULLABLE.values(), list], ids=[*NULLABLE, "list"])
def test_observed_labels_are_told_apart(column):
    """Labels above 2**53 became one when one label was missing, or was read as a double."""
    y = column([2**53, 2**53 + 1, 2**53, 2**53 + 1])
    model = tdp.GaussianNB(epsilon=1, bounds=[(0, 1)], classes="observed")
    model.fit({"x": np.zeros(4)}, y)
    assert model.classes_.tolist() == [2**53, 2**53 + 1]
    with pytest.raises(ValueError, match="NaN"):
        model.fit({"x": np.zeros(3)}, column([2**53, 2**53 + 1, None]))


# --- texts that stop readers ----------------------------------------------------------------------


def not_utf8(cells: list[bytes | None]) -> Any:
    raw = pa.array(cells, type=pa.binary())
    return pa.Array.from_buffers(pa.string(), len(raw), raw.buffers(), raw.null_count)


@pytest.mark.parametrize("rule", [tdp.Interval(0, 9), tdp.Category(["a", "1"])], ids=repr)
def test_text_that_is_not_utf8_is_a_text_like_others(rule, tmp_path):
    column = not_utf8([b"a", b"\xff\xfe", None, b"1", b"a\xff"])
    pq.write_table(pa.table({"k": column}), tmp_path / "t.parquet")
    facts = tdp.Schema({"k": rule}, rows=5)
    want = quantized_matrix({"k": ["a", "zz", None, "1", "zz"]}, facts, ["k"]).tolist()
    coded = column.dictionary_encode()
    frames = [
        pa.table({"k": column}),
        pa.table({"k": coded}),
        {"k": column},
        pd.DataFrame({"k": pd.arrays.ArrowExtensionArray(pa.chunked_array([column]))}),
        tmp_path / "t.parquet",
        {"k": ["a", "\ud800", None, "1", "a\udfff"]},
        pd.DataFrame(
            {"k": pd.Series(["a", "\ud800", None, "1", "a\udfff"], dtype="string[python]")}
        ),
    ]
    for frame in frames:
        assert quantized_matrix(frame, facts, ["k"]).tolist() == want


def test_persons_whose_bytes_differ_are_two(tmp_path):
    """Bytes that are no UTF-8 were replaced by one and the same sign, in files."""
    (tmp_path / "t.csv").write_bytes(b"who,x\n\xff,1\n\xfe,1\n\xff,1\n")
    facts = tdp.Schema({"x": tdp.Interval(0, 1)}, 3, neighbors="add-remove", person="who")
    assert len(quantized_matrix(tmp_path / "t.csv", facts, ["x"])) == 2


def long_cells(path: Path, rows: int = 40) -> Path:
    path.write_text("x,k\n" + "".join(f"{i % 10},{'q' * 200_000}\n" for i in range(rows)))
    return path


def test_reads_at_the_same_time_do_not_stop_each_other(tmp_path):
    """The limit of a cell's length was the process's: whoever was done first put it back."""
    path = long_cells(tmp_path / "t.csv")
    facts = tdp.Schema({"x": tdp.Interval(0, 9), "k": tdp.Category(["a", "b"])}, rows=40)
    before, failures = csv.field_size_limit(), []

    def reads() -> None:
        for _ in range(6):
            try:
                quantized_matrix(path, facts, ["x", "k"])
            except Exception as error:
                failures.append(error)

    limits = set()
    threads = [threading.Thread(target=reads) for _ in range(4)]
    for thread in threads:
        thread.start()
    while any(thread.is_alive() for thread in threads):
        limits.add(csv.field_size_limit())
    assert not failures
    assert limits <= {before}


BOMB = """
import resource, sys
import tightdp as tdp
facts = tdp.Schema({"x": tdp.Interval(0, 9), "k": tdp.Category(["a", "b"])}, rows=3)
small, large = sys.argv[1:]
counts = tdp.Counts(facts, ["k"])
first = counts.measure(small)
before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
second = counts.measure(large)
print(resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before, first == second, second)
"""


@pytest.mark.slow_for("returns", "plain", "quoted")
@pytest.mark.parametrize("cell", ["plain", "quoted", "quoted lines", "many cells", "returns"])
def test_one_long_cell_takes_no_memory(cell, tmp_path):
    """A small file that expands to a hundred megabytes in one line."""
    size = 10**8
    part = {"quoted lines": b"q" * 99 + b"\n", "many cells": b",", "returns": b"\r"}.get(cell, b"q")
    quote = b'"' if cell.startswith("quoted") else b""
    for name, length in (("small", 100), ("large", size)):
        with gzip.open(tmp_path / f"{name}.csv.gz", "wb", compresslevel=1) as file:
            file.write(b"x,k\n1,a\n2," + quote)
            block = part * ((1 << 22) // len(part))
            for start in range(0, length, len(block)):
                file.write(block[: length - start])
            file.write(quote + b"\n3,b\n")
    files = [str(tmp_path / f"{name}.csv.gz") for name in ("small", "large")]
    done = subprocess.run(
        [sys.executable, "-c", BOMB, *files], capture_output=True, text=True, check=True
    )
    kilobytes, same, counts = done.stdout.split(maxsplit=2)
    assert int(kilobytes) < 32 * 1024
    assert (same, counts.strip()) == ("True", "[1, 1, 1]")


# --- lengths are private --------------------------------------------------------------------------


@pytest.mark.parametrize("form", ["arrays", "frame", "mapping", "lists", "two axes"])
def test_lengths_that_differ_are_not_told(form):
    """Under add-remove the number of rows is private, and errors once printed it."""
    facts = {"x": tdp.Interval(0, 1), "y": tdp.Interval(0, 1)}
    schema = tdp.Schema(facts, rows=10_000, neighbors="add-remove")
    X: Any = np.zeros((137, 1))
    if form in ("frame", "mapping"):
        X = {"frame": pd.DataFrame, "mapping": dict}[form]({"x": np.zeros(137)})
    y = np.zeros((138, 2)) if form == "two axes" else np.zeros(138)
    if form == "lists":
        X, y = X.tolist(), y.tolist()
    model = tdp.QuantileRegression(epsilon=1, bounds=schema)
    with pytest.raises(ParameterError) as caught:
        model.fit(X, y)
    assert not any(number in str(caught.value) for number in ("137", "138"))
    with pytest.raises(ParameterError) as caught:
        tdp.sum({"x": np.zeros(137), "y": np.zeros(138)}, ["x", "y"], schema=schema, epsilon=1)
    assert not any(number in str(caught.value) for number in ("137", "138"))


# --- columns of some libraries --------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["uint64", "int64", "float64", "bool"])
@pytest.mark.parametrize("fill", ["first", "other"])
def test_the_fill_value_of_a_sparse_column_is_one_cell_like_others(kind, fill):
    """One zero made doubles of all: two labels above 2**63 became one, and 99 persons became 1."""
    top = {"uint64": 2**63, "int64": 2**62, "float64": 2, "bool": 0}[kind]
    cells = np.array([top, top + 1, 0, top + 1, 0, 1], dtype=kind)
    value = (cells[2] if fill == "first" else cells[1]).item()
    levels = tdp.Category(sorted({int(cell) for cell in cells}))
    facts = {"k": levels, "x": tdp.Interval(0, 9)}
    schema = tdp.Schema(facts, rows=6, neighbors="add-remove", person="who")
    frames = [
        pd.DataFrame({"k": column, "who": column, "x": np.ones(6)})
        for column in (cells, pd.arrays.SparseArray(cells, fill_value=value))
    ]
    for whole in (tdp.Schema(facts, rows=6), schema):
        dense, sparse = (quantized_matrix(frame, whole, ["k", "x"]).tolist() for frame in frames)
        assert sorted(sparse) == sorted(dense)


PLAIN_PROCESS = """
import sys
class WithoutPandas:
    def find_spec(self, name, path=None, target=None):
        if name.split(".")[0] == "pandas":
            raise ModuleNotFoundError(name)
sys.meta_path.insert(0, WithoutPandas())
import polars, tightdp as tdp
schema = tdp.Schema({"n": tdp.Interval(0, 9), "t": tdp.Interval(0, 9)}, rows=2)
frame = polars.DataFrame({"n": [1, 2], "t": ["1", "2"]})
assert "pyarrow.compute" not in sys.modules
print(tdp.Sums(schema).measure(frame))
"""


def test_numbers_in_texts_need_nothing_that_another_library_has_loaded():
    """Without pandas, Arrow's functions were there only if a null had been met before."""
    done = subprocess.run(
        [sys.executable, "-c", PLAIN_PROCESS], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    frame = {"n": [1, 2], "t": [1, 2]}
    schema = tdp.Schema({"n": tdp.Interval(0, 9), "t": tdp.Interval(0, 9)}, rows=2)
    assert done.stdout.strip() == str(tdp.Sums(schema).measure(frame))


# --- what the process has set ---------------------------------------------------------------------

R_NA = np.array([0x7FF00000000007A2], dtype=np.uint64).view(np.float64)  # a signalling NaN


@pytest.mark.parametrize("rule", [tdp.Interval(-1e6, 1e6), tdp.Interval(0, 100, step=1)], ids=repr)
@pytest.mark.parametrize("cell", [0.0, 5e-324, 1e308, np.inf, np.nan, R_NA[0]], ids=repr)
@pytest.mark.parametrize("person", [None, "who"])
def test_no_number_is_worth_an_error_of_numpy(rule, cell, person):
    """Where numpy raises, a tiny number took the payment and gave nothing."""
    near = "replace-one" if person is None else "add-remove"
    schema = tdp.Schema({"x": rule}, rows=3, neighbors=near, person=person)
    table = {"x": np.append([1.0, 2.0], cell), "who": np.append([1.0, 2.0], cell)}
    table["x"][2:] = np.array([cell]) if cell == cell else R_NA
    table["who"][2:] = table["x"][2:]
    statistic = tdp.Sums(schema) if person is None else tdp.SumsAndRows(schema)
    want = statistic.measure(table)
    with np.errstate(all="raise"):
        assert statistic.measure(table) == want
        rule.clamp(table["x"])


# --- names that an engine takes for one -----------------------------------------------------------


def test_names_that_differ_in_case_are_refused_where_the_engine_takes_them_for_one():
    """The query was ambiguous, which came to light after the payment."""
    duckdb = pytest.importorskip("duckdb")
    relation = duckdb.sql("SELECT 7 AS A, 1 AS a, 2 AS b")
    ledger = tdp.Ledger(epsilon=1)
    for name in ("a", "A"):
        release = tdp.AdditiveMechanism(
            tdp.Sums(tdp.Schema({name: tdp.Interval(0, 9)}, rows=1)), epsilon=0.5
        ).release
        with pytest.raises(ParameterError, match="case only"):
            release(relation, ledger=ledger)
    assert ledger.spent.epsilon == 0
    assert quantized_matrix(relation, tdp.Schema({"b": tdp.Interval(0, 9)}, 1), ["b"]).size == 1
    both = tdp.Schema({"a": tdp.Interval(0, 9), "A": tdp.Interval(0, 9)}, rows=1, bits=3)
    assert len(quantized_matrix(pl.DataFrame({"a": [1], "A": [7]}), both, ["a", "A"])) == 1


@pytest.mark.parametrize("name", ["^a$", "^.*$", "*"])
@pytest.mark.parametrize("lazy", [False, True])
def test_no_name_of_a_column_is_a_pattern(name, lazy):
    """Polars took some names for patterns of names: the release failed after the payment."""
    frame = pl.DataFrame({name: [1], "a": [7], "b": [3]})
    schema = tdp.Schema({name: tdp.Interval(0, 8), "a": tdp.Interval(0, 8)}, rows=1, bits=2)
    found = quantized_matrix(frame.lazy() if lazy else frame, schema, ["a", name])
    assert found.tolist() == [[3, -3]]


def test_a_target_that_is_a_list_of_one_is_that_one():
    """All targets of a column in brackets were missing, without a word."""
    facts = tdp.Schema({"x": tdp.Interval(0, 8), "y": tdp.Interval(0, 8)}, rows=4, bits=2)
    model = tdp.LinearRegression(epsilon=1, bounds=facts)
    for y in ([[1], (7,), 6, [1, 2]], ([1], [7], [6], []), [1, 7, 6, None]):
        problem = model._problem(np.zeros((4, 1)), y)
        found = quantized_matrix(problem.frame, problem.schema, ["y"])[:, 0]
        assert found.tolist() == [-3, 3, 2, 0]
