"""A table is opened once, keeps nothing that it reads, and is read once for what was announced."""

from __future__ import annotations

import copy
import pickle
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.parquet
import pytest
from engine_tables import ENGINES

import tightdp as tdp
from tightdp.data import csv_files, one_pass
from tightdp.data.one_pass import SharedTable, blocks, quantized_matrix, share_pass
from tightdp.data.spark import SparkTable
from tightdp.data.table import Table, check_frame
from tightdp.errors import DataError, ParameterError

N = 300


def table_of(rows: int = N) -> pa.Table:
    rng = np.random.default_rng(5)
    return pa.table(
        {
            "x": rng.uniform(-1, 11, rows),
            "y": rng.uniform(-2, 2, rows),
            "k": rng.choice(["a", "b", "c", "other"], rows),
            "id": rng.integers(0, 40, rows),
        }
    )


def facts(**more: Any) -> tdp.Schema:
    columns = {
        "x": tdp.Interval(0, 10),
        "y": tdp.Interval(-1, 1),
        "k": tdp.Category(["a", "b", "c"], other="c"),
    }
    if "person" in more:
        more["neighbors"] = "add-remove"
    return tdp.Schema(columns, N, **more)


def statistics(schema: tdp.Schema) -> list[tdp.Statistic]:
    return [
        tdp.Sums(schema, ["x", "y"]),
        tdp.Counts(schema, ["k"]),
        tdp.Moments(schema.only(["y", "x"]), ["y"], "x"),
        tdp.Products(schema, ["x", "x:k", "x:y"]),
        tdp.Histogram(schema, "x", bins=7),
    ]


@pytest.fixture
def openings(monkeypatch: pytest.MonkeyPatch) -> list[Path]:
    """The CSV files that are opened."""
    opened: list[Path] = []
    real = csv_files._open

    def counting(path: Path) -> Any:
        opened.append(path)
        return real(path)

    monkeypatch.setattr(csv_files, "_open", counting)
    return opened


@pytest.mark.filterwarnings("ignore::ResourceWarning")
def test_shared_sums_are_those_of_single_passes(to_engine):
    schema = facts()
    frame, wanted = to_engine(table_of()), statistics(schema)
    alone = [one.measure(table_of()) for one in wanted]
    with share_pass(frame, schema, [one.integer_sum(schema.bits) for one in wanted]) as table:
        assert [one.measure(table) for one in wanted] == alone


@pytest.mark.parametrize("kind", [kind for kind in ENGINES if "park" not in str(kind)])
@pytest.mark.parametrize("limit", [1, 3])
def test_every_sum_chooses_the_rows_of_persons_as_it_does_alone(kind, limit, tmp_path):
    schema = facts(person="id", rows_per_person=limit)
    wanted = statistics(schema)
    alone = [one.measure(table_of()) for one in wanted]
    frame = ENGINES[kind](table_of(), tmp_path)
    with share_pass(frame, schema, [one.integer_sum(schema.bits) for one in wanted]) as table:
        assert [one.measure(table) for one in wanted] == alone


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The shared scan runs inside the workers."""

    @pytest.mark.parametrize("person", [None, "id"])
    def test_one_job_sums_all(self, spark, person, tmp_path, monkeypatch):
        pa.parquet.write_table(table_of(), tmp_path / "t.parquet")
        frame = spark.read.parquet(str(tmp_path / "t.parquet"))
        schema = facts(person=person, rows_per_person=2) if person else facts()
        wanted, jobs, real = statistics(schema), [], SparkTable.sums
        monkeypatch.setattr(SparkTable, "sums", lambda *a: jobs.append(1) or real(*a))
        with share_pass(frame, schema, [one.integer_sum(schema.bits) for one in wanted]) as table:
            found = [one.measure(table) for one in wanted]
        assert found == [one.measure(table_of()) for one in wanted]
        assert jobs == [1]


def test_a_coarser_grid_and_another_schema_are_told_apart():
    schema = facts()
    first, second = tdp.Sums(schema, ["x"]), tdp.Sums(schema.with_rows(N + 1), ["x"])
    sums = [first.integer_sum(8), first.integer_sum(schema.bits), second.integer_sum(schema.bits)]
    with share_pass(table_of(), schema, sums) as table:
        found = first.measure(table, bits=8), first.measure(table)
        assert second.measure(table) == found[1]
    assert found == (first.measure(table_of(), bits=8), first.measure(table_of()))
    assert found[0] != found[1]


def test_a_matrix_has_the_names_of_each_schema():
    schema = tdp.Schema({"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1)}, rows=2)
    turned = schema.only(["b", "a"])
    matrix = np.array([[0.0, 1.0], [0.0, 1.0]])
    wanted = [tdp.Sums(schema, ["a"]), tdp.Sums(turned, ["a"])]
    with share_pass(matrix, schema, [one.integer_sum(schema.bits) for one in wanted]) as table:
        assert [one.measure(table) for one in wanted] == [one.measure(matrix) for one in wanted]
    assert wanted[0].measure(matrix) != wanted[1].measure(matrix)


def test_eight_threads_read_once(tmp_path, openings):
    path = ENGINES["csv"](table_of(), tmp_path)
    schema = facts()
    wanted = statistics(schema)
    alone = [one.measure(table_of()) for one in wanted]
    table = Table.open(path, schema)
    openings.clear()
    with (
        share_pass(table, schema, [one.integer_sum(schema.bits) for one in wanted]) as shared,
        ThreadPoolExecutor(8) as pool,
    ):
        found = list(pool.map(lambda one: one.measure(shared), wanted * 4))
    assert found == alone * 4
    assert len(openings) == 1


def test_a_stream_serves_all_that_was_announced():
    schema = facts()
    wanted = statistics(schema)
    reader = table_of().to_reader(50)
    with share_pass(reader, schema, [one.integer_sum(schema.bits) for one in wanted]) as table:
        found = [one.measure(table) for one in wanted]
    assert found == [one.measure(table_of()) for one in wanted]
    with pytest.raises(ParameterError, match="read before"):
        wanted[0].measure(Table.open(reader, schema))


def test_nothing_is_kept_sent_or_tried_again(monkeypatch):
    schema = facts()
    one = tdp.Sums(schema, ["x"])
    table = share_pass(table_of(), schema, [one.integer_sum(schema.bits)])
    with table:
        one.measure(table)
        assert not any(map(str.isdigit, repr(table)))
        for send in (pickle.dumps, copy.copy, copy.deepcopy):
            with pytest.raises(ParameterError, match="not stored"):
                send(table)
    assert table._found is None
    with pytest.raises(DataError):
        one.measure(table)
    reads = []

    def fails(*given: Any) -> Any:
        reads.append(1)
        raise DataError("No.")

    monkeypatch.setattr(one_pass, "_read_together", fails)
    with SharedTable(table, [one.integer_sum(schema.bits)]) as broken:
        for _ in range(3):
            with pytest.raises(DataError):
                one.measure(broken)
    assert reads == [1]


def test_a_file_is_opened_once_for_questions_and_once_for_rows(tmp_path, openings):
    path, schema = ENGINES["csv"](table_of(), tmp_path), facts()
    mechanism = tdp.AdditiveMechanism(tdp.Sums(schema, ["x"]), epsilon=1)
    mechanism.release(path, rng=1)
    assert len(openings) == 2
    table = Table.open(path, schema)
    openings.clear()
    check_frame(table, schema, ["x"])
    assert openings == []
    quantized_matrix(table, schema, ["x"])
    assert len(openings) == 1


def test_a_csv_file_that_changes_is_read_by_its_names(tmp_path):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=1, bits=3)
    path = tmp_path / "a.csv"
    path.write_text("y,x\n0,1\n")
    table = Table.open(path, schema)
    path.write_text("x;z;y\n1;0;0\n")
    assert [block["x"].tolist() for block in blocks(table, schema, ["x"])] == [[8]]
    for header in ("z,y", "x,x"):
        path.write_text(f"{header}\n0.25,0.75\n")
        with pytest.raises(DataError, match="has changed") as caught:
            quantized_matrix(table, schema, ["x"])
        assert "0.25" not in str(caught.value)


def test_a_parquet_file_that_changes_its_types_is_not_read(tmp_path):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=2, bits=3)
    path = tmp_path / "a.parquet"
    pa.parquet.write_table(pa.table({"x": [0.0, 1.0]}), path)
    table = Table.open(path, schema)
    pa.parquet.write_table(pa.table({"x": [1.0, 1.0]}), path)
    assert quantized_matrix(table, schema, ["x"]).ravel().tolist() == [8, 8]
    pa.parquet.write_table(pa.table({"x": ["1", "no number"]}), path)
    with pytest.raises(DataError, match="has changed"):
        quantized_matrix(table, schema, ["x"])


def test_a_parquet_file_with_a_type_that_arrow_does_not_know_says_so(tmp_path):
    """It was said to be damaged, or changed while it was read."""
    pl = pytest.importorskip("polars")
    schema = tdp.Schema({"x": tdp.Interval(0, 8)}, rows=2, bits=3)
    path = tmp_path / "a.parquet"
    pl.DataFrame({"x": pl.Series([1, 8], dtype=pl.Int128)}).write_parquet(path)
    with pytest.raises(tdp.ParameterError, match="a type that Arrow does not know"):
        Table.open(path, schema)
    lazy = pl.scan_parquet(path)
    assert quantized_matrix(lazy, schema, ["x"]).ravel().tolist() == [-6, 8]
