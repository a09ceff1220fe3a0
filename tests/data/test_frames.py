"""One pass over any engine: the same integers everywhere."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from engine_tables import ENGINES, NAMES, SCHEMA, expected, gram, in_file, million, nasty
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tightdp.data.one_pass import blocks, integer_sums, quantized_matrix
from tightdp.schema import Category, Interval, Schema
from tightdp.values import nearest_double

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")


def test_every_engine_gives_the_integers_that_the_rules_say(to_engine):
    names = [name for name in NAMES if name != "digit"] if to_engine.kind == "pandas" else NAMES
    np.testing.assert_array_equal(
        quantized_matrix(to_engine(nasty()), SCHEMA, names), expected(names)
    )


def test_order_of_rows_and_size_of_blocks_do_not_matter(to_engine, seed):
    order = np.random.default_rng(seed).permutation(12)
    names = [name for name in NAMES if name != "digit"]
    truth = expected(names)
    total = [int(v) for v in np.concatenate([[12], truth.sum(axis=0)])]
    sums = integer_sums(
        to_engine(nasty(order)),
        SCHEMA,
        names,
        lambda block: np.array([len(block), *block.matrix(names).sum(axis=0)]),
        width=len(names) + 1,
    )
    assert sums == total
    for size in (1, 5, 7):
        parts = list(blocks(to_engine(nasty(order)), SCHEMA, names, block_rows=size))
        assert max(map(len, parts)) <= size
        rows = np.concatenate([part.matrix(names) for part in parts])
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(truth, axis=0))


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of any size
@pytest.mark.parametrize("rows", [0, 1])
def test_no_row_and_one_row(to_engine, rows):
    names = [name for name in NAMES if name != "digit"]
    matrix = quantized_matrix(to_engine(nasty().slice(0, rows)), SCHEMA, names)
    np.testing.assert_array_equal(matrix, expected(names)[:rows])
    count = integer_sums(
        to_engine(nasty().slice(0, rows)), SCHEMA, ["float"], lambda b: np.array([len(b)]), width=1
    )
    assert count == [rows]


def test_files_and_pandas_are_read_without_pyarrow(monkeypatch, tmp_path):
    path = in_file(nasty(), tmp_path, "t.csv")
    columns = ["word", "text", "whole", "coded"]
    levels = pd.Index(["zz", "b", "a"], dtype=object)
    kinds = {"word": object, "text": pd.StringDtype("python"), "coded": pd.CategoricalDtype(levels)}
    frame = nasty().to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get).astype(kinds)
    for module in ("library_columns", "engines"):
        monkeypatch.setattr(f"tightdp.data.{module}.pyarrow", lambda: pytest.fail("not there"))
    monkeypatch.setitem(sys.modules, "pyarrow.csv", None)  # as if it were not installed
    np.testing.assert_array_equal(quantized_matrix(path, SCHEMA, NAMES), expected())
    np.testing.assert_array_equal(quantized_matrix(frame, SCHEMA, columns), expected(columns))


def test_csv_with_quotes_commas_and_line_breaks(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text('k,"x, y"\n"a,b",1\n"say ""hi""","2"\n"two\nlines",""\n,3\n', encoding="utf-8")
    schema = Schema(
        {
            "k": Category(["none", "a,b", 'say "hi"', "two\nlines"], other="none"),
            "x, y": Interval(0, 4),
        },
        rows=4,
        bits=1,
    )
    want = [[1, -1], [2, 0], [3, 0], [0, 1]]
    assert quantized_matrix(path, schema, list(schema)).tolist() == want


BAD_LINES = {
    "short": (b"2", 1),
    "long": (b"2,b,c,d", 1),
    "empty": (b"", 0),
    "only a comma": (b",", 1),
    "no UTF-8": (b"2,\xff\xfe", 1),
    "zero": (b"2,b\0b", 1),
    "long cell": (b"2," + b"q" * 3_000_000, 1),
    "quote inside": (b'2,b"b', 1),
    "after the quote": (b'2,"b"b', 1),
    "carriage return": (b"2,b\r", 1),
    "carriage return inside": (b"2,b\rb", 1),
    "carriage returns": (b"2\r\r,b\r3,a\r\r", 1),
}


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of any size
@pytest.mark.parametrize("what", BAD_LINES)
def test_no_line_of_a_csv_file_stops_the_reading(tmp_path, what):
    """An error would tell that the line is there; it is one row, or none, by a rule of its own."""
    line, rows = BAD_LINES[what]
    path = tmp_path / "t.csv"
    path.write_bytes(b"x,k\n1,a\n" + line + b"\n3,b\n")
    schema = Schema({"x": Interval(0, 4), "k": Category(["a", "b"], other="a")}, rows=3, bits=1)
    matrix = quantized_matrix(path, schema, ["x", "k"]).tolist()
    assert len(matrix) == 2 + rows
    assert [matrix[0], matrix[-1]] == [[-1, 0], [1, 1]]


def test_a_blank_line_of_one_column_is_an_empty_cell(tmp_path):
    path = tmp_path / "t.csv"
    path.write_text("x\n0\n\n4\n")
    schema = Schema({"x": Interval(0, 4)}, rows=3, bits=1)
    assert quantized_matrix(path, schema, ["x"]).tolist() == [[-2], [0], [2]]


# --- small tables, drawn ------------------------------------------------------------------------

WORDS = ["1", "2.5", "-3", "x", "", " 4", "1e999", "nan", "Infinity", "true", "1e-3", "0x10", "٣"]
SMALL = {
    "x": (pa.float64(), st.none() | st.floats()),
    "s": (pa.float32(), st.none() | st.floats(width=32)),
    "i": (pa.int64(), st.none() | st.integers(-(2**63), 2**63 - 1)),
    "d": (
        pa.decimal128(20, 4),
        st.none() | st.decimals(-(10**15), 10**15, places=4),
    ),
    "t": (pa.string(), st.none() | st.sampled_from(WORDS) | st.floats().map(str)),
    "k": (pa.string(), st.none() | st.sampled_from(WORDS)),
    "j": (pa.int8(), st.none() | st.integers(-3, 3)),
}
SMALL_SCHEMA = Schema(
    {
        "x": Interval(-1, 3, missing=0.1),
        "s": Interval(-1e30, 1e30),
        "i": Interval(-1e17, 2e18),
        "d": Interval(-1e9, 1e14, missing=7),
        "t": Interval(-5, 5),
        "k": Category(["x", 1, 2.5, "yes", -3], other="yes"),
        "j": Category([0, 1, -2.0], other=0),
    },
    rows=8,
)


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of any size
@settings(max_examples=60, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    rows=st.lists(st.tuples(*(cells for _, cells in SMALL.values())), max_size=8),
    size=st.integers(1, 9),
)
def test_all_engines_agree_on_small_tables(tmp_path, rows, size):
    table = pa.table(
        {
            name: pa.array([row[j] for row in rows], type=kind)
            for j, (name, (kind, _)) in enumerate(SMALL.items())
        }
    )
    names = list(SMALL_SCHEMA)
    truth = [
        [
            rule.codes([cell])[0]
            if isinstance(rule, Category)
            else rule.quantize(np.array([nearest_double(cell)]), SMALL_SCHEMA.bits)[0]
            for cell, rule in zip(row, SMALL_SCHEMA.columns.values(), strict=True)
        ]
        for row in rows
    ]
    for kind in ("mapping", "pandas", "pandas-object", "polars", "polars-lazy", "arrow", "duckdb"):
        parts = blocks(ENGINES[kind](table, tmp_path), SMALL_SCHEMA, names, block_rows=size)
        found = [row for part in parts for row in part.matrix(names).tolist()]
        assert found == truth, kind


def test_a_million_rows_give_the_same_sums_on_every_engine(tmp_path):
    table, schema = million()
    names = list(schema)
    kinds = ("pandas", "polars", "polars-lazy", "arrow", "duckdb", "parquet", "parquet-folder")
    sums = {
        kind: integer_sums(ENGINES[kind](table, tmp_path), schema, names, gram, width=36)
        for kind in kinds
    }
    matrix = quantized_matrix(table, schema, names)
    whole = np.concatenate([np.ones((len(matrix), 1), dtype=np.int64), matrix], axis=1)
    shuffled = np.random.default_rng(1).permutation(len(matrix))
    sums["numpy, all at once"] = [int(v) for v in (whole.T @ whole).ravel()]
    sums["shuffled"] = integer_sums(table.take(pa.array(shuffled)), schema, names, gram, width=36)
    first = sums["pandas"]
    assert first[0] == 1_000_000
    assert all(found == first for found in sums.values())


def test_columns_with_odd_names(to_engine):
    names = ['a"b', "a b", "SELECT", "ünï.code", "`tick`"]
    table = pa.table({name: [1.0, 0.5] for name in names})
    schema = Schema({name: Interval(0, 1) for name in names}, rows=2, bits=1)
    assert quantized_matrix(to_engine(table), schema, names).tolist() == [[2] * 5, [0] * 5]


def shown_bar(capsys, count: int, **facts) -> str:
    schema = Schema({"x": Interval(0, 1)}, **facts)
    table = {"x": np.ones(count)}
    integer_sums(table, schema, ["x"], lambda b: b["x"][:1] * 0, width=1, progress=True)
    return str(capsys.readouterr().err)


def test_the_bar_shows_rows_that_are_public(capsys):
    pytest.importorskip("tqdm")
    shown = shown_bar(capsys, 200_000, rows=200_000)
    assert "0.00/200k" in shown


def test_no_bar_shows_rows_that_are_private(capsys):
    """It once stopped where the table ended, and then jumped to its end."""
    pytest.importorskip("tqdm")
    facts = {"rows": 40 * 65_536, "neighbors": "add-remove"}
    shown = {count: shown_bar(capsys, count, **facts) for count in (1, 70_000, 400_000)}
    assert len(set(shown.values())) == 1
    assert "reading the table" in shown[1]
    assert not any(letter.isdigit() for letter in shown[1].replace("\x1b[A", ""))


def test_reading_imports_no_engine():
    code = (
        "import sys, numpy as np; from tightdp.data.one_pass import quantized_matrix;"
        "from tightdp.schema import Schema, Interval;"
        "quantized_matrix(np.ones((3, 1)), Schema({'x': Interval(0, 1)}, rows=3), ['x']);"
        "heavy = {'pandas', 'polars', 'pyarrow', 'duckdb', 'pyspark', 'narwhals', 'tqdm'};"
        "sys.exit(len(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- larger than memory --------------------------------------------------------------------------

MEMORY = """
import resource, sys
import duckdb
import polars as pl
from tightdp.data.blocks import exact_gram
from tightdp.data.one_pass import integer_sums
from tightdp.schema import Interval, Schema

def gram(block):
    return exact_gram(block.matrix(), 16).ravel()

def peak():
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024

schema = Schema({f"x{j}": Interval(-2, 2) for j in range(6)}, rows=20_000_000)
kinds = {"path": str, "duckdb": duckdb.read_parquet, "polars": pl.scan_parquet}
read = kinds[sys.argv[1]]
integer_sums(read(sys.argv[2]), schema, list(schema), gram, width=36)
before = peak()
integer_sums(read(sys.argv[3]), schema, list(schema), gram, width=36)
print(peak() - before)
"""


@pytest.mark.slow
def test_a_file_larger_than_the_room_it_gets(tmp_path, seed):
    draw = np.random.default_rng(seed)
    kind = pa.schema([(f"x{j}", pa.float64()) for j in range(6)])
    small, large = tmp_path / "small.parquet", tmp_path / "large.parquet"
    for path, parts in ((small, 1), (large, 40)):  # 2e7 rows, 960 MB
        with pq.ParquetWriter(path, kind) as writer:
            for _ in range(parts):
                columns = draw.normal(size=(6, 500_000))
                writer.write_table(pa.table(dict(zip(kind.names, columns, strict=True))), 122_880)
    for kind in ("path", "duckdb", "polars"):
        out = subprocess.run(
            [sys.executable, "-c", MEMORY, kind, str(small), str(large)],
            capture_output=True,
            text=True,
            check=True,
        )
        growth = float(out.stdout.split()[-1])  # DuckDB shows a bar of its own before it
        assert growth < 300, kind  # MB
