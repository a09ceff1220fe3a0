"""Errors speak of names and types, never of cells."""

from __future__ import annotations

import datetime
import logging
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from canaries import CANARY, CANARY_SCHEMA, CANARY_TEXT, MARKS, canary_table, loud, quiet
from engine_tables import ENGINES, in_duckdb

from tightdp.data.columns import ListedCells, array_cells
from tightdp.data.one_pass import blocks, integer_sums, quantized_matrix
from tightdp.data.table import check_frame
from tightdp.errors import DataError, DimensionError, ParameterError
from tightdp.schema import Category, Interval, Schema

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")


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
    relation = in_duckdb(pa.table(table))
    cast = relation.project("t::INTEGER AS t, x, k")
    twice = pd.DataFrame([[CANARY, CANARY]], columns=["x", "x"])
    return {
        "reducer": lambda: integer_sums(table, CANARY_SCHEMA, ["x"], loud, width=1),
        "width": lambda: integer_sums(table, CANARY_SCHEMA, ["x"], lambda b: b["x"], width=1),
        "kind": lambda: integer_sums(table, CANARY_SCHEMA, ["x"], lambda b: [CANARY], width=1),
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


@pytest.mark.parametrize("what", [
    "reducer", "width", "kind", "polars", "duckdb", "reader", "parquet",
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
    for thing in (made, block, cells, ListedCells([CANARY_TEXT])):
        assert not any(mark in repr(thing) for mark in MARKS)
    assert repr(block) == "Block(x, k)"


def test_messages_name_the_column_and_the_remedy(to_engine):
    table = pa.table({"incom": [1.0], "when": [datetime.datetime(2020, 1, 1)]})
    schema = Schema({"income": Interval(0, 1), "when": Interval(0, 1)}, rows=1)
    # the first line of a CSV file may be a record: nothing of it is told
    header = (
        r" If its first line is no header, say what columns are named: CsvFile\(path, names\)\.$"
    )
    hint = header if to_engine.kind == "csv" else r" Did you mean 'incom'\?"
    with pytest.raises(ParameterError, match=r"no column 'income'\." + hint):
        check_frame(to_engine(table), schema, ["income"])
    if to_engine.kind not in ("csv", "mapping", "structured", "pandas-object"):
        with pytest.raises(
            ParameterError, match=r"Column 'when' has the type .*state it as a Date"
        ):
            check_frame(to_engine(table), schema, ["when"])


def test_types_that_cannot_be_read_are_refused():
    schema = Schema({"x": Interval(0, 1), "k": Category([0, 1], other=0)}, rows=1)
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
            check_frame(frame, Schema({"x": Category([0, 1], other=0)}, rows=1), ["x"])


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
    (tmp_path / "t.doc").write_text("x\n1\n")
    with pytest.raises(ParameterError, match="must end in"):
        check_frame(tmp_path / "t.doc", schema, ["x"])
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
