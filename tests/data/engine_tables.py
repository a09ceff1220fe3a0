"""Tables with everything in them, what the rules make of it, and every engine."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tightdp.data.blocks import Block, exact_gram
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
        Category(["a", "b"], other="a"),
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
        Category([0, True, 0.5, 0.1], other=0),
        [0.5, 1, 0, 0, 0, 0, 0.1, 0, 1, 0, 0.5, 0],
    ),
    "answer": (
        pa.bool_(),
        [True, False, None] * 4,
        Category([False, True], other=False),
        [True, False, False] * 4,
    ),
    "price": (
        pa.decimal128(6, 2),
        [Decimal("0.10"), Decimal("2.00"), None, Decimal("7.50")] * 3,
        Category([0.1, 2, 7], other=0.1),
        [0.1, 2, 0.1, 0.1] * 3,
    ),
    "digit_text": (
        pa.string(),
        ["1", "1.0", "01", " 2", "true", "x", None, "0", "2", "two", "1e0", "9007199254740993"],
        Category([0, 1, 2, "two", BIG], other=0),
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


def in_file(table: Any, folder: Path, name: str) -> Path:
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


def in_duckdb(table: Any) -> Any:
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
    "polars-scan": lambda table, folder: pl.scan_parquet(in_file(table, folder, "s.parquet")),
    "arrow": lambda table, folder: table,
    "arrow-chunked": lambda table, folder: pa.concat_tables(
        [table.slice(0, 1), table.slice(1, 0), table.slice(1, 6), table.slice(7)]
    ),
    "arrow-reader": lambda table, folder: table.to_reader(max_chunksize=5),
    "arrow-dataset": lambda table, folder: ds.dataset(table),
    "duckdb": lambda table, folder: in_duckdb(table),
    "parquet": lambda table, folder: in_file(table, folder, "t.parquet"),
    "parquet-folder": lambda table, folder: str(_folder(table, folder)),
    "parquet-pattern": lambda table, folder: str(_folder(table, folder) / "**" / "[ab].parquet"),
    "csv": lambda table, folder: in_file(table, folder, "t.csv"),
}
EXACT_WHOLE = [name for name in ENGINES if name != "pandas"]  # its integers with nulls are floats


def gram(block: Block) -> np.ndarray:
    """Counts, sums and products of all columns."""
    ones = np.ones((len(block), 1), dtype=np.int64)
    return exact_gram(np.concatenate([ones, block.matrix()], axis=1), 16).ravel()


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
            "k": Category(range(5), other=0),
            "w": Category(["a", "b", "c", "d"], other="a"),
        },
        rows=n,
    )
    return table, schema


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
    columns = {"x": Interval(-1, 1), "k": Category([0, 1, 2], other=0)}
    return Schema(columns, rows=300, person="person", neighbors="add-remove", rows_per_person=limit)
