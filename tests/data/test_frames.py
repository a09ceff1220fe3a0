"""One pass over any engine: the same integers everywhere, and not a word about cells."""

from __future__ import annotations

import datetime
import logging
import math
import pickle
import subprocess
import sys
import traceback
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tightdp.data import engines
from tightdp.data.blocks import Totals
from tightdp.data.cells import CodedCells, NumberCells, array_cells, exact_value, nearest_double
from tightdp.data.frames import (
    Block,
    blocks,
    check_frame,
    distributed_sums,
    exact_gram,
    integer_sums,
    quantized_matrix,
)
from tightdp.errors import DataError, DimensionError, ParameterError
from tightdp.schema import Category, Interval, Schema

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
ds = pytest.importorskip("pyarrow.dataset")
pq = pytest.importorskip("pyarrow.parquet")

NAN, INF = math.nan, math.inf
BIG = 2**53 + 1

# --- a table with everything in it, and what the rules make of it --------------------------------
# name: (Arrow type, cells, rule, what the cells are read as: doubles, or levels)

NASTY: dict[str, tuple[Any, list[Any], Interval | Category, list[Any]]] = {
    "float": (
        pa.float64(),
        [0.5, NAN, None, INF, -INF, -0.0, 1e308, 5e-324, -2.0, 5.0, 0.1, 4.9999],
        Interval(-2, 5, missing=0.25),
        [0.5, NAN, NAN, INF, -INF, 0.0, 1e308, 5e-324, -2.0, 5.0, 0.1, 4.9999],
    ),
    "single": (
        pa.float32(),
        [0.5, NAN, None, INF, -INF, -0.0, 1.5, 0.25, -2.0, 5.0, 0.125, 4.75],
        Interval(-2, 5),
        [0.5, NAN, NAN, INF, -INF, 0.0, 1.5, 0.25, -2.0, 5.0, 0.125, 4.75],
    ),
    "whole": (
        pa.int64(),
        [0, None, BIG, -BIG, 2**63 - 1, -(2**63), 7, 8, 9, 10, -1, None],
        Interval(-(2.0**54), 2.0**54, missing=3.0),
        [0, NAN, 2.0**53, -(2.0**53), 2.0**63, -(2.0**63), 7, 8, 9, 10, -1, NAN],
    ),
    "bool": (
        pa.bool_(),
        [True, False, None] * 4,
        Interval(-1, 1, missing=1.0),
        [1, 0, NAN] * 4,
    ),
    "decimal": (
        pa.decimal128(12, 3),
        [Decimal("0.100"), None, *(Decimal(i) / 8 for i in range(-5, 5))],
        Interval(-1, 1),
        [0.1, NAN, *(i / 8 for i in range(-5, 5))],
    ),
    "long_decimal": (
        pa.decimal128(38, 10),
        [Decimal("1234567890123456789.0123456789"), None, Decimal("0.1"), *[Decimal(-3)] * 9],
        Interval(-2e18, 2e18),
        [float(Fraction("1234567890123456789.0123456789")), NAN, 0.1, *[-3] * 9],
    ),
    "text": (
        pa.string(),
        ["1.5", " 2 ", "many", None, "nan", "-inf", "1e400", "TRUE", "1_0", "٣", "0x1", "+.5e1"],
        Interval(-20, 20, missing=-7.0),
        [1.5, 2, NAN, NAN, NAN, -INF, INF, 1, 10, 3, NAN, 5],
    ),
    "plain_text": (
        pa.string(),
        ["1.5", "2", "-3e-1", None, "nan", "-inf", "0.1", "1", "9007199254740993", "4", ".5", "5."],
        Interval(-20, 20, missing=-7.0),
        [1.5, 2, -0.3, NAN, NAN, -INF, 0.1, 1, BIG, 4, 0.5, 5],
    ),
    "nothing": (pa.null(), [None] * 12, Interval(0, 1, missing=0.75), [NAN] * 12),
    "word": (
        pa.string(),
        ["a", "b", None, "A", " a", "rest", "1", "b", "a", "zz", "é", "nan"],
        Category(["a", "b", "é", "rest"], other="rest"),
        ["a", "b", "rest", "rest", "rest", "rest", "rest", "b", "a", "rest", "é", "rest"],
    ),
    "coded": (
        pa.dictionary(pa.int8(), pa.string()),
        ["a", None, "b", "zz"] * 3,
        Category(["a", "b"]),
        ["a", "a", "b", "a"] * 3,
    ),
    "coded_number": (
        pa.dictionary(pa.int8(), pa.int64()),
        [5, None, 7, 99] * 3,
        Interval(0, 10),
        [5, NAN, 7, 99] * 3,
    ),
    "digit": (
        pa.int64(),
        [0, 1, 2, BIG, BIG - 1, None, -1, 1, 0, 2, 2**63 - 1, 1],
        Category([0, 1.0, 2, BIG], other=2),
        [0, 1, 2, BIG, 2, 2, 2, 1, 0, 2, 2, 1],
    ),
    "ratio": (
        pa.float64(),
        [0.5, 1.0, -0.0, NAN, None, INF, 0.1, 2.5, 1.0, 0.0, 0.5, -INF],
        Category([0, True, 0.5, 0.1]),
        [0.5, 1, 0, 0, 0, 0, 0.1, 0, 1, 0, 0.5, 0],
    ),
    "answer": (
        pa.bool_(),
        [True, False, None] * 4,
        Category([False, True]),
        [True, False, False] * 4,
    ),
    "price": (
        pa.decimal128(6, 2),
        [Decimal("0.10"), Decimal("2.00"), None, Decimal("7.50")] * 3,
        Category([0.1, 2, 7]),
        [0.1, 2, 0.1, 0.1] * 3,
    ),
    "digit_text": (
        pa.string(),
        ["1", "1.0", "01", " 2", "true", "x", None, "0", "2", "two", "1e0", "9007199254740993"],
        Category([0, 1, 2, "two", BIG]),
        [1, 1, 1, 2, 1, 0, 0, 0, 2, "two", 1, BIG],
    ),
}
SCHEMA = Schema({name: rule for name, (_, _, rule, _) in NASTY.items()}, rows=12, bits=16)
NAMES = list(SCHEMA)


def nasty(order: Any = None) -> Any:
    table = pa.table(
        {name: pa.array(cells, type=kind) for name, (kind, cells, *_) in NASTY.items()}
    )
    return table if order is None else table.take(pa.array(order))


def expected(names: list[str] = NAMES) -> np.ndarray:
    """The quantised nasty table, from the column of readings and plain rationals."""
    columns = []
    for name in names:
        _, _, rule, readings = NASTY[name]
        if isinstance(rule, Category):
            columns.append([rule.levels.index(reading) for reading in readings])
            continue
        cells = [
            rule.missing if math.isnan(v) else min(max(v, rule.low), rule.high) for v in readings
        ]
        scaled = [(cell - rule.middle) / rule.half for cell in cells]
        columns.append([math.floor(Fraction(v) * 2**16 + Fraction(1, 2)) for v in scaled])
    return np.array(columns, dtype=np.int64).T


# --- engines -------------------------------------------------------------------------------------


def _file(table: Any, folder: Path, name: str) -> Path:
    path = folder / name
    plain = table.cast(
        pa.schema(
            [
                (f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
                for f in table.schema
            ]
        )
    )
    if name.endswith(".parquet"):
        pq.write_table(plain, path, row_group_size=max(5, table.num_rows // 4))
    else:
        pl.from_arrow(plain).write_csv(path)
    return path


def _folder(table: Any, folder: Path) -> Path:
    path = folder / "parts"
    (path / "deep").mkdir(parents=True, exist_ok=True)
    half = table.num_rows // 2
    pq.write_table(table.slice(0, half), path / "a.parquet")
    pq.write_table(table.slice(half), path / "deep" / "b.parquet")
    return path


def _structured(table: Any) -> np.ndarray:
    out = np.empty(table.num_rows, dtype=[(name, object) for name in table.column_names])
    for name in table.column_names:
        out[name] = table.column(name).to_pylist()
    return out


def _relation(table: Any) -> Any:
    connection = duckdb.connect()
    connection.register("whole_table", table)
    return connection.sql("SELECT * FROM whole_table")


ENGINES = {
    "mapping": lambda table, folder: table.to_pydict(),
    "structured": lambda table, folder: _structured(table),
    "pandas": lambda table, folder: table.to_pandas(),
    "pandas-arrow": lambda table, folder: table.to_pandas(types_mapper=pd.ArrowDtype),
    "pandas-object": lambda table, folder: pd.DataFrame(table.to_pydict(), dtype=object),
    "polars": lambda table, folder: pl.from_arrow(table),
    "polars-lazy": lambda table, folder: pl.from_arrow(table).lazy(),
    "polars-scan": lambda table, folder: pl.scan_parquet(_file(table, folder, "s.parquet")),
    "arrow": lambda table, folder: table,
    "arrow-chunked": lambda table, folder: pa.concat_tables(
        [table.slice(0, 1), table.slice(1, 0), table.slice(1, 6), table.slice(7)]
    ),
    "arrow-reader": lambda table, folder: table.to_reader(max_chunksize=5),
    "arrow-dataset": lambda table, folder: ds.dataset(table),
    "duckdb": lambda table, folder: _relation(table),
    "parquet": lambda table, folder: _file(table, folder, "t.parquet"),
    "parquet-folder": lambda table, folder: str(_folder(table, folder)),
    "parquet-pattern": lambda table, folder: str(_folder(table, folder) / "**" / "[ab].parquet"),
    "csv": lambda table, folder: _file(table, folder, "t.csv"),
}
EXACT_WHOLE = [name for name in ENGINES if name != "pandas"]  # its integers with nulls are floats


@pytest.fixture(params=ENGINES)
def engine(request: pytest.FixtureRequest, tmp_path: Path) -> Any:
    """A function from an Arrow table to the same table on an engine."""
    build = ENGINES[request.param]

    def make(table: Any) -> Any:
        return build(table, tmp_path)

    make.kind = request.param  # type: ignore[attr-defined]
    return make


def gram(block: Block) -> np.ndarray:
    """Counts, sums and products of all columns."""
    ones = np.ones((len(block), 1), dtype=np.int64)
    return exact_gram(np.concatenate([ones, block.matrix()], axis=1), 16).ravel()


def test_every_engine_gives_the_integers_that_the_rules_say(engine):
    names = [name for name in NAMES if name != "digit"] if engine.kind == "pandas" else NAMES
    np.testing.assert_array_equal(quantized_matrix(engine(nasty()), SCHEMA, names), expected(names))


def test_order_of_rows_and_size_of_blocks_do_not_matter(engine, seed):
    order = np.random.default_rng(seed).permutation(12)
    names = [name for name in NAMES if name != "digit"]
    truth = expected(names)
    total = [int(v) for v in np.concatenate([[12], truth.sum(axis=0)])]
    sums = integer_sums(
        engine(nasty(order)),
        SCHEMA,
        names,
        lambda block: np.array([len(block), *block.matrix(names).sum(axis=0)]),
        width=len(names) + 1,
    )
    assert sums == total
    for size in (1, 5, 7):
        parts = list(blocks(engine(nasty(order)), SCHEMA, names, block_rows=size))
        assert max(map(len, parts)) <= size
        rows = np.concatenate([part.matrix(names) for part in parts])
        np.testing.assert_array_equal(np.sort(rows, axis=0), np.sort(truth, axis=0))


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of any size
@pytest.mark.parametrize("rows", [0, 1])
def test_no_row_and_one_row(engine, rows):
    names = [name for name in NAMES if name != "digit"]
    matrix = quantized_matrix(engine(nasty().slice(0, rows)), SCHEMA, names)
    np.testing.assert_array_equal(matrix, expected(names)[:rows])
    count = integer_sums(
        engine(nasty().slice(0, rows)), SCHEMA, ["float"], lambda b: np.array([len(b)]), width=1
    )
    assert count == [rows]


@pytest.mark.parametrize("gone", [("duckdb",), ("duckdb", "pyarrow")])
def test_files_are_read_the_same_without_duckdb(monkeypatch, tmp_path, gone):
    there = engines._installed
    monkeypatch.setattr(engines, "_installed", lambda name: name not in gone and there(name))
    csv = quantized_matrix(_file(nasty(), tmp_path, "t.csv"), SCHEMA, NAMES)
    np.testing.assert_array_equal(csv, expected())
    columns = ["word", "text", "whole", "coded"]
    frame = nasty().to_pandas(types_mapper={pa.int64(): pd.Int64Dtype()}.get)
    matrix = quantized_matrix(frame, SCHEMA, columns)
    np.testing.assert_array_equal(matrix, expected(columns))


def test_csv_with_quotes_commas_and_line_breaks(tmp_path):
    path = tmp_path / "q.csv"
    path.write_text('k,"x, y"\n"a,b",1\n"say ""hi""","2"\n"two\nlines",""\n,3\n', encoding="utf-8")
    schema = Schema(
        {"k": Category(["none", "a,b", 'say "hi"', "two\nlines"]), "x, y": Interval(0, 4)},
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
    schema = Schema({"x": Interval(0, 4), "k": Category(["a", "b"])}, rows=3, bits=1)
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
        "k": Category(["x", 1, 2.5, "true", -3], other="true"),
        "j": Category([0, 1, -2.0]),
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
            rule.codes([cell if cell in rule.levels else exact_value(cell)])[0]
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


# --- a million rows ------------------------------------------------------------------------------


def million() -> tuple[Any, Schema]:
    draw = np.random.default_rng(5)
    n = 1_000_000
    x = draw.normal(size=n)
    x[::97], x[5::101], x[7::103] = np.nan, np.inf, -np.inf
    table = pa.table(
        {
            "x": pa.array(x, mask=draw.random(n) < 0.01),
            "y": pa.array(draw.normal(size=n).astype(np.float32)),
            "i": pa.array(draw.integers(-(2**62), 2**62, size=n)),
            "k": pa.array(draw.integers(0, 6, size=n)),
            "w": pa.array(np.array(["a", "b", "c", "dd"])[draw.integers(0, 4, size=n)]),
        }
    )
    schema = Schema(
        {
            "x": Interval(-1, 2),
            "y": Interval(-1, 1),
            "i": Interval(-1e18, 2e18),
            "k": Category(range(5)),
            "w": Category(["a", "b", "c", "d"]),
        },
        rows=n,
    )
    return table, schema


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


# --- clamp and sensitivity -----------------------------------------------------------------------

EXTREMES = st.sampled_from([NAN, INF, -INF, -0.0, 0.0, 1e308, -1e308, 5e-324, 2.0**63])


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-6, 1e9),
    bits=st.integers(1, 26),
    cells=st.lists(st.floats() | EXTREMES, min_size=1, max_size=20),
    extreme=st.floats() | EXTREMES,
)
def test_one_record_moves_a_sum_by_at_most_the_interval(low, width, bits, cells, extreme):
    schema = Schema({"x": Interval(low, low + width)}, rows=20, bits=bits)
    table, neighbor = np.array(cells)[:, None], np.array([*cells[:-1], extreme])[:, None]

    def total(array):
        return integer_sums(array, schema, ["x"], lambda b: np.array([b["x"].sum()]), width=1)[0]

    matrix = quantized_matrix(table, schema, ["x"])
    assert np.abs(matrix).max() <= schema.resolution
    assert abs(total(table) - total(neighbor)) <= 2 * schema.resolution
    rows = quantized_matrix(neighbor, schema, ["x"])
    assert total(table) - total(neighbor) == matrix[-1, 0] - rows[-1, 0]


@pytest.mark.parametrize("largest", [3, 2**33, 2**61, 2**62])
def test_totals_are_exact_at_every_size(largest: int, seed: int) -> None:
    rng, totals, expected = np.random.default_rng(seed), Totals(5), [0] * 5
    for _ in range(9):
        vector = rng.integers(-largest, largest, 5)
        totals.add(vector)
        expected = [a + int(b) for a, b in zip(expected, vector, strict=True)]
        assert totals.values() == expected
    totals.add(np.array([2**70] * 5, dtype=object))
    assert totals.values() == [a + 2**70 for a in expected]


def test_totals_do_not_overflow():
    schema = Schema({"x": Interval(0, 1)}, rows=5, bits=26)
    table = {"x": np.ones(5000)}
    most = integer_sums(table, schema, ["x"], lambda b: 2 * (b.matrix().T @ b.matrix())[0], width=1)
    assert most == [2 * 5000 * 2**52]  # 2**65.3
    peak = np.iinfo(np.int64).max
    top = distributed_sums(table, schema, ["x"], lambda rows: np.full((len(rows), 1), peak), 1)
    low = distributed_sums(table, schema, ["x"], lambda rows: np.full((len(rows), 1), -peak - 1), 1)
    assert (top, low) == ([5000 * peak], [-5000 * (peak + 1)])
    totals = Totals(2)
    totals.add(np.array([2**64 - 1, 1], dtype=np.uint64))
    totals.add(np.array([-(10**30), 5], dtype=object))
    assert totals.values() == [2**64 - 1 - 10**30, 6]


@pytest.mark.parametrize("degree", [0, 1, 2, 3])
def test_blocks_are_small_enough_for_the_degree(degree):
    schema = Schema({"x": Interval(0, 1)}, rows=5, bits=20)
    seen = []

    def reducer(block):
        seen.append(len(block))
        return np.array([2 * (block["x"] ** degree).sum()])

    n = 100_000
    sums = integer_sums({"x": np.ones(n)}, schema, ["x"], reducer, width=1, degree=degree)
    assert sums == [2 * n * 2 ** (20 * degree)]
    assert max(seen) * 2 * 2 ** (20 * degree) <= 2**62
    with pytest.raises(ParameterError, match="do not fit 64 bits"):
        integer_sums({"x": np.ones(1)}, schema, ["x"], reducer, width=1, degree=4)


@pytest.mark.parametrize(
    ("bits", "rows"), [(1, 1), (16, 70_000), (20, 8192), (20, 8193), (24, 300), (26, 2), (26, 5000)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_gram_is_exact(bits, rows, sign, seed):
    draw = np.random.default_rng(seed)
    matrix = draw.integers(-(2**bits), 2**bits, size=(rows, 3), endpoint=True)
    matrix[:, 0] = sign * 2**bits - sign * (np.arange(rows) % 2)  # the largest odd and even squares
    found = exact_gram(matrix, bits)
    want = matrix.astype(object).T @ matrix.astype(object)
    assert found.tolist() == want.tolist()


def test_a_gram_that_rounds_is_caught():
    matrix = np.full((65_536, 1), 2**24 - 1)
    rounded = matrix.astype(np.float64).T @ matrix.astype(np.float64)
    assert int(rounded[0, 0]) != 65_536 * (2**24 - 1) ** 2
    assert exact_gram(matrix, 24)[0, 0] == 65_536 * (2**24 - 1) ** 2
    large = exact_gram(np.full((3, 1), 2**26), 26)
    assert large.dtype == np.int64
    assert large[0, 0] == 3 * 2**52
    assert exact_gram(np.empty((0, 2), dtype=np.int64), 16).tolist() == [[0, 0], [0, 0]]


# --- forms of numpy ------------------------------------------------------------------------------


def test_forms_of_numpy():
    schema = Schema({"x": Interval(0, 4), "k": Category([1, 2])}, rows=2, bits=1)
    want = [[-1, 0], [1, 1]]
    forms = [
        np.array([[1.0, 1], [3, 2]]),
        np.array([[1, 1], [3, 2]], dtype=np.int8),
        np.array([[1, "1"], [3, "2"]], dtype=object),
        np.array([["1", "1"], ["3.0", "2"]]),
        np.array([(1.0, 1), (3.0, 2)], dtype=[("x", np.float16), ("k", np.uint8)]),
        {"x": np.array([1, 3], dtype=np.longdouble), "k": (True, 2.0)},
        {"x": np.ma.array([1, 3]), "k": np.ma.array([7, 2], mask=[True, False])},
    ]
    for form in forms:
        assert quantized_matrix(form, schema, ["x", "k"]).tolist() == want
    one = Schema({"x": Interval(0, 4)}, rows=2, bits=1)
    masked = np.ma.array([0, 4.0], mask=[True, False])
    assert quantized_matrix(masked, one, ["x"]).tolist() == [[0], [2]]
    assert quantized_matrix(np.array([0, 4.0]), one, ["x"]).tolist() == [[-2], [2]]


def test_integers_of_many_bits():
    schema = Schema({"x": Interval(0, 2.0**128), "k": Category([1, 2**127 - 1])}, rows=1, bits=16)
    number = 2**127 - 1
    frames = [
        {"x": [number], "k": [number]},
        pl.DataFrame({"x": [number], "k": [number]}, schema={"x": pl.Int128, "k": pl.Int128}),
        duckdb.sql(f"SELECT {number}::HUGEINT AS x, {number}::UHUGEINT AS k"),
    ]
    for frame in frames:
        assert quantized_matrix(frame, schema, ["x", "k"]).tolist() == [[0, 1]]
    unsigned = Schema({"x": Interval(0, 2.0**64), "k": Category([0, 2**64 - 1])}, rows=1, bits=16)
    column = np.array([2**64 - 1, 5], dtype=np.uint64)
    want = [[2**16, 1], [-(2**16), 0]]
    for frame in ({"x": column, "k": column}, pl.DataFrame({"x": column, "k": column})):
        assert quantized_matrix(frame, unsigned, ["x", "k"]).tolist() == want


def test_objects_that_are_no_numbers_are_missing():
    odd = [
        object(), b"1", [1], {"a": 1}, datetime.date(2020, 1, 1), np.timedelta64(1, "ns"), 1j,
        np.datetime64("2020"), Decimal("sNaN"), pd.NA, pd.NaT, Decimal("1e999999"), 10**5000,
        Fraction(1, 2), np.float32(0.5), np.True_,
    ]  # fmt: skip
    cells = array_cells(np.fromiter(odd, dtype=object, count=len(odd)))
    numbers = cells.numbers()
    assert np.isnan(numbers[:11]).all()
    assert numbers[11:].tolist() == [INF, INF, 0.5, 0.5, 1.0]
    codes = cells.codes(Category([9, 1, 0.5]))
    assert codes.tolist() == [0] * 13 + [2, 2, 1]
    assert (cells.keys()[:11][[0, 2, 3, 4, 5, 6, 7, 8, 9, 10]] == -1).all()


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of any size
def test_other_arrow_types():
    kinds = [pa.float16(), pa.int8(), pa.uint32(), pa.decimal32(5, 1), pa.decimal64(9, 2)]
    kinds += [pa.decimal256(40, 3), pa.large_string(), pa.string_view()]
    schema = Schema({"x": Interval(0, 4), "k": Category([1, 3])}, rows=3, bits=1)
    for kind in kinds:
        text = pa.types.is_large_string(kind) or kind == pa.string_view()
        cells = ["1", "3", None] if text else [1, 3, None]
        if pa.types.is_float16(kind):
            cells = [np.float16(1), np.float16(3), None]
        if pa.types.is_decimal(kind):
            cells = [Decimal(1), Decimal(3), None]
        array = pa.array(cells, type=kind)
        table = pa.table({"x": array, "k": array})
        want = [[-1, 0], [1, 1], [0, 0]]
        assert quantized_matrix(table, schema, ["x", "k"]).tolist() == want, kind
    runs = pa.RunEndEncodedArray.from_arrays([2, 3], [1.0, 3.0])
    assert quantized_matrix(pa.table({"x": runs}), schema, ["x"]).tolist() == [[-1], [-1], [1]]
    table = pa.table({"x": [1.0, 3.0]})
    assert quantized_matrix(table.to_batches()[0], schema, ["x"]).tolist() == [[-1], [1]]

    class Stream:
        def __arrow_c_stream__(self, requested_schema=None):
            return table.__arrow_c_stream__(requested_schema)

    assert quantized_matrix(Stream(), schema, ["x"]).tolist() == [[-1], [1]]


def test_pandas_types():
    schema = Schema({"x": Interval(0, 4), "k": Category([1, 3])}, rows=3, bits=1)
    kinds = ["Int8", "UInt64", "Float32", "int64[pyarrow]", "string", "str", "category", object]
    for kind in kinds:
        frame = pd.DataFrame({"x": pd.Series([1, 3, None], dtype="Int64").astype(kind)})
        frame["k"] = frame["x"]
        assert quantized_matrix(frame, schema, ["x", "k"]).tolist() == [[-1, 0], [1, 1], [0, 0]]
    sparse = pd.DataFrame({"x": pd.arrays.SparseArray([1.0, 3.0, NAN])}, index=[7, 7, 7])
    assert quantized_matrix(sparse, schema, ["x"]).tolist() == [[-1], [1], [0]]


# --- persons -------------------------------------------------------------------------------------


def visits(person_kind: Any = None) -> Any:
    draw = np.random.default_rng(3)
    person = [None if p == 0 else int(p) for p in draw.integers(0, 40, size=300)]
    return pa.table(
        {
            "person": pa.array(person, type=person_kind or pa.int64()),
            "x": draw.normal(size=300).round(1),
            "k": draw.integers(0, 3, size=300),
        }
    )


def person_schema(limit: int) -> Schema:
    columns = {"x": Interval(-1, 1), "k": Category([0, 1, 2])}
    return Schema(columns, rows=300, person="person", neighbors="add-remove", rows_per_person=limit)


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_few_rows_of_a_person_on_every_engine(engine, limit):
    schema, table = person_schema(limit), visits()
    order = np.random.default_rng(9).permutation(300)
    first = quantized_matrix(table, schema, ["x", "k"])
    counts = np.bincount(table.column("person").drop_null().to_numpy())
    assert len(first) == np.minimum(counts, limit).sum()
    moved = engine(table.take(pa.array(order)))
    np.testing.assert_array_equal(quantized_matrix(moved, schema, ["x", "k"]), first)


@pytest.mark.parametrize("limit", [1, 2])
def test_only_the_rows_of_the_changed_person_change(limit, seed):
    schema, table = person_schema(limit), visits()
    person = np.array(table.column("person").to_pylist(), dtype=float)
    draw = np.random.default_rng(seed)
    old = quantized_matrix(table, schema, ["x", "k"]).tolist()
    for who in range(1, 40, 5):
        x = table.column("x").to_numpy().copy()
        x[person == who] = draw.choice([9.0, -9.0, NAN, 0.5], size=int((person == who).sum()))
        changed = table.set_column(1, "x", pa.array(x))
        new = quantized_matrix(changed, schema, ["x", "k"]).tolist()
        removed = table.filter(pa.array(person != who))
        rest = quantized_matrix(removed, schema, ["x", "k"]).tolist()
        gone = list(old)
        for row in new:
            if row in gone:
                gone.remove(row)
        assert len(gone) <= limit
        assert len(new) == len(old)
        assert len(old) - len(rest) <= limit
        assert all(rest.count(row) <= old.count(row) for row in rest)


def test_no_value_is_preferred_among_the_rows_of_a_person():
    n = 20_000  # two rows each: 0 and 1; the one kept is a fair coin over persons
    table = {"person": np.repeat(np.arange(n), 2), "k": np.tile([0, 1], n)}
    schema = Schema({"k": Category([0, 1])}, rows=2 * n, person="person", neighbors="add-remove")
    kept = quantized_matrix(table, schema, ["k"])
    assert len(kept) == n
    assert abs(kept.sum() - n / 2) < 5 * math.sqrt(n / 4)  # 5 standard errors


def test_names_of_persons_compare_by_value():
    rows = [1, 1.0, "1", "01", 2**70, 2**70, "b", "b", None, NAN, 0.5, 0.5, INF, -1, -2, b"q", b"q"]
    table = {"person": rows, "x": np.arange(len(rows))}
    schema = Schema({"x": Interval(0, 100)}, rows=20, person="person", neighbors="add-remove")
    assert len(quantized_matrix(table, schema, ["x"])) == 9
    cells = NumberCells(np.array([1.0, NAN, 0.5, 2.0**70, -1.0]))
    words = CodedCells([1, None, 0.5, 2**70, -1]).keys()
    np.testing.assert_array_equal(cells.keys(), words)
    large = np.array([2**64 - 1, 3], dtype=np.uint64)
    np.testing.assert_array_equal(NumberCells(large).keys(), CodedCells([2**64 - 1, 3]).keys())


def test_many_rows_of_persons_are_settled_on_the_way(monkeypatch):
    from tightdp.data import persons

    schema, table = person_schema(2), visits()
    first = quantized_matrix(table, schema, ["x", "k"])
    monkeypatch.setattr(persons, "_LEAST_BUFFER", 10)
    parts = blocks(table, schema, ["x", "k"], block_rows=7)
    rows = np.concatenate([part.matrix() for part in parts])
    np.testing.assert_array_equal(rows, first)


# --- errors: names and types, never cells --------------------------------------------------------

CANARY, CANARY_TEXT = 31415926.5, "canary-7f3a"
MARKS = ("31415926", CANARY_TEXT, "1943-02-17")


def canary_table(rows: int = 3) -> dict[str, list[Any]]:
    return {
        "x": [CANARY] * rows,
        "t": [CANARY_TEXT] * rows,
        "k": [CANARY_TEXT] * rows,
        "day": [datetime.date(1943, 2, 17)] * rows,
    }


CANARY_SCHEMA = Schema(
    {
        "x": Interval(0, 1),
        "t": Interval(0, 1),
        "k": Category(["a", "b"]),
        "day": Interval(0, 1),
        "absent": Interval(0, 1),
    },
    rows=3,
)


def loud(block: Block) -> Any:
    raise ValueError(f"{CANARY_TEXT} {CANARY} {block['x']}")


def broken_reader() -> Any:
    table = pa.table(canary_table())

    def batches():
        yield table.to_batches()[0]
        raise ValueError(CANARY_TEXT)

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def corrupt(path: Path) -> Path:
    path.write_bytes(b"PAR1" + CANARY_TEXT.encode() * 50 + b"PAR1")
    return path


def _failures(folder: Path) -> dict[str, Any]:
    table = canary_table()
    lazy = pl.DataFrame(table).lazy().with_columns(pl.col("t").str.to_integer(strict=True))
    relation = _relation(pa.table(table))
    cast = relation.project("t::INTEGER AS t, x, k")
    twice = pd.DataFrame([[CANARY, CANARY]], columns=["x", "x"])
    return {
        "reducer": lambda: integer_sums(table, CANARY_SCHEMA, ["x"], loud, width=1),
        "width": lambda: integer_sums(table, CANARY_SCHEMA, ["x"], lambda b: b["x"], width=1),
        "kind": lambda: integer_sums(table, CANARY_SCHEMA, ["x"], lambda b: [CANARY], width=1),
        "row function": lambda: distributed_sums(
            table, CANARY_SCHEMA, ["x"], lambda rows: rows + CANARY, 1
        ),
        "polars": lambda: quantized_matrix(lazy, CANARY_SCHEMA, ["t"]),
        "duckdb": lambda: quantized_matrix(cast, CANARY_SCHEMA, ["t"]),
        "reader": lambda: quantized_matrix(broken_reader(), CANARY_SCHEMA, ["x"]),
        "parquet": lambda: quantized_matrix(corrupt(folder / "c.parquet"), CANARY_SCHEMA, ["x"]),
        "absent": lambda: quantized_matrix(table, CANARY_SCHEMA, ["absent"]),
        "not in schema": lambda: quantized_matrix(table, CANARY_SCHEMA, ["xx"]),
        "twice": lambda: quantized_matrix(twice, CANARY_SCHEMA, ["x"]),
        "lengths": lambda: quantized_matrix(table | {"x": [CANARY]}, CANARY_SCHEMA, ["x"]),
        "shape": lambda: quantized_matrix(np.full((2, 3), CANARY), CANARY_SCHEMA, ["x"]),
        "frame": lambda: quantized_matrix([CANARY], CANARY_SCHEMA, ["x"]),
        **{
            f"date in {kind}": lambda kind=kind: quantized_matrix(
                ENGINES[kind](pa.table(table), folder), CANARY_SCHEMA, ["day"]
            )
            for kind in ("pandas-arrow", "polars", "polars-lazy", "arrow", "duckdb", "parquet")
        },
    }


def quiet(error: BaseException, *texts: str) -> None:
    """No cell in the words of an error, of its causes, or in anything printed."""
    told = ["".join(traceback.format_exception(error)), str(error), repr(error), *texts]
    assert error.__cause__ is None
    assert error.__context__ is None
    for mark in MARKS:
        for text in told:
            lines = [line for line in text.splitlines() if not line.startswith("    ")]
            assert mark not in "\n".join(lines)  # indented lines are source, not cells


@pytest.mark.parametrize("what", [
    "reducer", "width", "kind", "row function", "polars", "duckdb", "reader", "parquet",
    "absent", "not in schema", "twice", "lengths", "shape", "frame", "date in pandas-arrow",
    "date in polars", "date in polars-lazy", "date in arrow", "date in duckdb", "date in parquet",
])  # fmt: skip
def test_errors_say_nothing_about_cells(what, tmp_path, capfd, caplog):
    caplog.set_level(logging.DEBUG)
    failures = _failures(tmp_path)
    with pytest.raises((DataError, ParameterError)) as caught:
        failures[what]()
    printed = capfd.readouterr()
    quiet(caught.value, printed.out, printed.err, caplog.text)


def test_no_repr_shows_a_cell(tmp_path):
    table = canary_table()
    made = blocks(table, CANARY_SCHEMA, ["x", "k"])
    block = next(made)
    cells = array_cells(np.array([CANARY]))
    for thing in (made, block, cells, CodedCells([CANARY_TEXT])):
        assert not any(mark in repr(thing) for mark in MARKS)
    assert repr(block) == "Block(x, k)"


def test_messages_name_the_column_and_the_remedy(engine):
    table = pa.table({"incom": [1.0], "when": [datetime.datetime(2020, 1, 1)]})
    schema = Schema({"income": Interval(0, 1), "when": Interval(0, 1)}, rows=1)
    with pytest.raises(ParameterError, match=r"no column 'income'. Did you mean 'incom'\?"):
        check_frame(engine(table), schema, ["income"])
    if engine.kind not in ("csv", "mapping", "structured", "pandas-object"):
        with pytest.raises(ParameterError, match=r"Column 'when' has the type .*convert it"):
            check_frame(engine(table), schema, ["when"])


def test_types_that_cannot_be_read_are_refused():
    schema = Schema({"x": Interval(0, 1), "k": Category([0, 1])}, rows=1)
    frames = [
        {"x": np.array([1j])},
        {"x": np.array([b"1"])},
        {"x": np.array(["2020"], dtype="M8[D]")},
        {"x": np.array([1], dtype="m8[s]")},
        pd.DataFrame({"x": pd.period_range("2020", periods=1)}),
        pd.DataFrame({"x": pd.interval_range(0, 1)}),
        pd.DataFrame({"x": pd.to_datetime(["2020"]).tz_localize("UTC")}),
        pd.DataFrame({"x": pd.Categorical(pd.to_datetime(["2020"]))}),
        pd.DataFrame({"x": [1j]}),
        pl.DataFrame({"x": [[1]]}),
        pl.DataFrame({"x": [b"1"]}),
        pl.DataFrame({"x": [datetime.timedelta(1)]}),
        pl.DataFrame({"x": [object()]}),
        pa.table({"x": [{"a": 1}]}),
        pa.table({"x": pa.array([b"1"])}),
        pa.table({"x": pa.array(["a"]).dictionary_encode(), "k": [1]}).set_column(
            0, "x", pa.array([datetime.date(2020, 1, 1)]).dictionary_encode()
        ),
        duckdb.sql("SELECT '101'::BIT AS x"),
        duckdb.sql("SELECT INTERVAL 1 DAY AS x"),
    ]
    for frame in frames:
        with pytest.raises(ParameterError, match="Column 'x' has the type"):
            check_frame(frame, schema, ["x"])
        with pytest.raises(ParameterError, match="Column 'x' has the type"):
            check_frame(frame, Schema({"x": Category([0, 1])}, rows=1), ["x"])


def test_parameters_are_checked():
    schema = Schema({"x": Interval(0, 1)}, rows=1)
    table = {"x": [1.0]}
    for columns in ([], "x"):
        with pytest.raises(ParameterError, match="`columns` must be"):
            quantized_matrix(table, schema, columns)
    with pytest.raises(ParameterError, match="`column` must be one of 'x'"):
        quantized_matrix(table, schema, ["y"])
    with pytest.raises(ParameterError, match="`schema` must be"):
        quantized_matrix(table, {"x": (0, 1)}, ["x"])
    with pytest.raises(ParameterError, match="`block_rows`"):
        blocks(table, schema, ["x"], block_rows=0)
    with pytest.raises(ParameterError, match="no column 'who'"):
        quantized_matrix(
            table,
            Schema({"x": Interval(0, 1)}, rows=1, person="who", neighbors="add-remove"),
            ["x"],
        )
    with pytest.raises(ParameterError, match="There is no file"):
        quantized_matrix("nowhere.parquet", schema, ["x"])
    with pytest.raises(DimensionError, match="one column for each of the 1"):
        quantized_matrix(np.ones((1, 2)), schema, ["x"])
    with pytest.raises(DimensionError, match="must return 2 integers"):
        integer_sums(table, schema, ["x"], lambda b: b["x"], width=2)
    with pytest.raises(ParameterError, match="smallest float"):
        Interval(0, 5e-324)


def test_paths_that_are_no_tables(tmp_path):
    schema = Schema({"x": Interval(0, 1)}, rows=1)
    (tmp_path / "t.txt").write_text("x\n1\n")
    with pytest.raises(ParameterError, match="must end in"):
        check_frame(tmp_path / "t.txt", schema, ["x"])
    with pytest.raises(ParameterError, match="no Parquet file"):
        check_frame(tmp_path, schema, ["x"])
    with pytest.raises(ParameterError, match="no Parquet file in"):
        check_frame(tmp_path / "*.parquet", schema, ["x"])
    with pytest.raises(ParameterError, match="There is no file"):
        check_frame(str(tmp_path / "*.csv"), schema, ["x"])
    with pytest.raises(ParameterError, match="The table must be"):
        check_frame(7, schema, ["x"])


def test_a_file_whose_name_looks_like_a_pattern(tmp_path):
    path = tmp_path / "part[1].parquet"
    pq.write_table(pa.table({"x": [1.0]}), path)
    pq.write_table(pa.table({"x": [0.0, 0.0]}), tmp_path / "part1.parquet")
    schema = Schema({"x": Interval(0, 1)}, rows=1, bits=1)
    assert quantized_matrix(path, schema, ["x"]).tolist() == [[2]]


def test_columns_with_odd_names(engine):
    names = ['a"b', "a b", "SELECT", "ünï.code", "`tick`"]
    table = pa.table({name: [1.0, 0.5] for name in names})
    schema = Schema({name: Interval(0, 1) for name in names}, rows=2, bits=1)
    assert quantized_matrix(engine(table), schema, names).tolist() == [[2] * 5, [0] * 5]


def test_the_bar_is_as_long_as_the_declared_rows(capsys):
    pytest.importorskip("tqdm")
    schema = Schema({"x": Interval(0, 1)}, rows=40 * 65_536, neighbors="add-remove")
    integer_sums(
        {"x": np.ones(70_000)}, schema, ["x"], lambda b: b["x"][:1] * 0, width=1, progress=True
    )
    shown = capsys.readouterr().err
    assert " 0/40 [" in shown
    assert " 40/40 [" in shown


def test_reading_imports_no_engine():
    code = (
        "import sys, numpy as np; from tightdp.data.frames import quantized_matrix;"
        "from tightdp.schema import Schema, Interval;"
        "quantized_matrix(np.ones((3, 1)), Schema({'x': Interval(0, 1)}, rows=3), ['x']);"
        "heavy = {'pandas', 'polars', 'pyarrow', 'duckdb', 'pyspark', 'narwhals', 'tqdm'};"
        "sys.exit(len(heavy & set(sys.modules)))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


# --- Spark: one session, few tests ---------------------------------------------------------------


def on_spark(session: Any, table: Any, parts: int = 3) -> Any:
    """An Arrow table as a Spark frame in several partitions; Spark has no dictionaries."""
    plain = table.cast(
        pa.schema(
            [
                (f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
                for f in table.schema
            ]
        )
    )
    return session.createDataFrame(plain).repartition(parts)


def by_rows(matrix: np.ndarray) -> list[list[int]]:
    return sorted(matrix.tolist())


def steps(rows: np.ndarray) -> np.ndarray:
    return np.maximum(rows, 0)


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The nasty table, a million rows, persons and errors on a real local session."""

    def test_integers(self, spark):
        names = [name for name in NAMES if name != "nothing"]
        frame = on_spark(spark, nasty().select(names))
        want = expected(names)
        assert by_rows(quantized_matrix(frame, SCHEMA, names)) == by_rows(want)
        gram_of = exact_gram(np.concatenate([np.ones((12, 1), dtype=int), want], axis=1), 16)
        width = (len(names) + 1) ** 2
        assert integer_sums(frame, SCHEMA, names, gram, width=width) == gram_of.ravel().tolist()
        positive = steps(want).sum(axis=0).tolist()
        assert distributed_sums(frame, SCHEMA, names, steps, len(names)) == positive
        empty = frame.limit(0)
        assert integer_sums(empty, SCHEMA, names, gram, width=width) == [0] * width
        assert quantized_matrix(empty, SCHEMA, names).shape == (0, len(names))
        odd = on_spark(spark, pa.table({"a.`b": [1.0]}))
        schema = Schema({"a.`b": Interval(0, 1)}, rows=1, bits=1)
        assert quantized_matrix(odd, schema, ["a.`b"]).tolist() == [[2]]

    def test_a_million_rows(self, spark, tmp_path):
        table, schema = million()
        path = ENGINES["parquet-folder"](table, tmp_path)
        frame = spark.read.option("recursiveFileLookup", "true").parquet(path)
        names = list(schema)
        want = integer_sums(table, schema, names, gram, width=36)
        assert integer_sums(frame, schema, names, gram, width=36) == want

    @pytest.mark.parametrize("kind", ["int64", "string", "float64"])
    def test_persons(self, spark, kind):
        table = visits()
        if kind != "int64":
            table = table.set_column(0, "person", table.column("person").cast(kind))
        schema = person_schema(2)
        frame = on_spark(spark, table)
        want = quantized_matrix(table, schema, ["x", "k"])
        assert by_rows(quantized_matrix(frame, schema, ["x", "k"])) == by_rows(want)
        sums = distributed_sums(frame, schema, ["x", "k"], steps, 2)
        assert sums == steps(want).sum(axis=0).tolist()

    def test_errors_say_nothing_about_cells(self, spark, capfd):
        frame = on_spark(spark, pa.table(canary_table()))
        tries = [
            lambda: integer_sums(frame, CANARY_SCHEMA, ["x"], loud, width=1),
            lambda: quantized_matrix(frame, CANARY_SCHEMA, ["absent"]),
            lambda: quantized_matrix(frame, CANARY_SCHEMA, ["day"]),
            lambda: integer_sums(
                frame,
                Schema({"x": Interval(0, 1)}, rows=3, person="k", neighbors="add-remove"),
                ["x"],
                loud,
                width=1,
            ),
        ]
        for attempt in tries:
            with pytest.raises((DataError, ParameterError)) as caught:
                attempt()
            printed = capfd.readouterr()
            quiet(caught.value, printed.out, printed.err)
        pickle.loads(pickle.dumps(CANARY_SCHEMA))


# --- larger than memory --------------------------------------------------------------------------

MEMORY = """
import resource, sys
import duckdb
import polars as pl
from tightdp.data.frames import exact_gram, integer_sums
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
