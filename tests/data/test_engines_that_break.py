"""Files and workers that go while an engine reads: the charge is kept, nothing is said of cells.

On both ways: groups that the engine adds up itself, and rows that are read in blocks.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tightdp as tdp
from tightdp.data import engine_groups
from tightdp.data.table import Table
from tightdp.errors import DataError, TightdpError

CANARY = "shibboleth"
ROWS = 20_000
SCHEMA = tdp.Schema(
    {"x": tdp.Interval(0, 8), "k": tdp.Category([0, 1, 2])}, ROWS, neighbors="add-remove"
)
WAYS: dict[str, dict[str, Any]] = {"groups": {"by": "k"}, "blocks": {}}
ENGINES: dict[str, Callable[[Path], Any]] = {
    "DuckDB": lambda path: duckdb.connect().sql(f"SELECT * FROM read_parquet('{path}')"),
    "polars": lambda path: pl.scan_parquet(path),
    "Arrow": lambda path: str(path),
}


def written(path: Path, **columns: Any) -> Path:
    plain = {"x": np.linspace(0, 8, ROWS), "k": np.arange(ROWS) % 3}
    pq.write_table(pa.table(plain | columns), path, row_group_size=ROWS // 10)
    return path


def cut(path: Path) -> None:
    """Half of the file is gone, with its directory."""
    os.truncate(path, path.stat().st_size // 2)


def spoiled(path: Path) -> None:
    """The directory is there, and the pages that it speaks of are rubbish."""
    raw = bytearray(path.read_bytes())
    raw[4 : len(raw) // 2] = (CANARY.encode() * len(raw))[: len(raw) // 2 - 4]
    path.write_bytes(raw)


def of_texts(path: Path) -> None:
    """Another file is there, whose columns have other types."""
    written(path, x=[CANARY] * ROWS, k=[CANARY] * ROWS)


def of_other_names(path: Path) -> None:
    pq.write_table(pa.table({CANARY: [1.0]}), path)


CHANGES = (cut, spoiled, of_texts, of_other_names, Path.unlink)


def failed(table: Any, way: str) -> tuple[TightdpError, float]:
    """The error of a release, and what it cost."""
    ledger = tdp.Ledger(epsilon=1, neighbors="add-remove")
    with pytest.raises(TightdpError) as caught:
        tdp.sum(table, "x", **WAYS[way], schema=SCHEMA, epsilon=1, ledger=ledger, key="once")
    return caught.value, float(ledger.spent.epsilon)


def says_nothing(error: BaseException) -> bool:
    chain = [error, error.__cause__, error.__context__]
    return not any(CANARY in f"{link!r}{link}" for link in chain)


@pytest.mark.parametrize("change", CHANGES, ids=lambda change: change.__name__)
@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_file_that_is_another_after_it_was_checked(engine, way, change, tmp_path, capfd):
    path = written(tmp_path / "t.parquet")
    table = Table.open(ENGINES[engine](path), SCHEMA)
    table.columns(SCHEMA, ["x", "k"])
    change(path)
    if change is of_texts and way == "blocks" and engine == "DuckDB":
        assert tdp.sum(table, "x", schema=SCHEMA, epsilon=1).names == ("x",)  # texts can be read
        return
    error, spent = failed(table, way)
    # what is seen by a look at the file, without a row, is seen before payment
    assert spent == 0 or isinstance(error, DataError)
    assert spent == (0 if engine == "Arrow" and change is not spoiled else 1)
    printed = capfd.readouterr()
    assert says_nothing(error)
    assert CANARY not in printed.out + printed.err


@pytest.mark.parametrize("engine", ["DuckDB", "polars"])
def test_groups_are_really_asked_of_the_engine(engine, tmp_path):
    """The way through the engine that the test above breaks."""
    frame = ENGINES[engine](written(tmp_path / "t.parquet"))
    wanted = tdp.data.class_moments.GroupMoments(SCHEMA, ["x"], "k").integer_sum(SCHEMA.bits)
    found = Table.open(frame, SCHEMA).engine(SCHEMA)
    assert engine_groups.answer_inside(found, wanted.schema, wanted.query) is not None


@pytest.mark.parametrize("way", WAYS)
@pytest.mark.parametrize("engine", ["DuckDB", "polars"])
def test_a_folder_of_other_types_in_an_engine_says_nothing_of_cells(engine, way, tmp_path):
    """How its files are put together is the engine's own; where it cannot, the release fails."""
    written(tmp_path / "a.parquet")
    written(tmp_path / "b.parquet", x=[CANARY] * ROWS)
    try:
        frame = ENGINES[engine](tmp_path / "*.parquet")
        table = Table.open(frame, SCHEMA)
    except (TightdpError, duckdb.Error, pl.exceptions.PolarsError):
        return  # before anything is asked for
    error, spent = failed(table, way)
    assert spent == 0 or isinstance(error, DataError)
    assert says_nothing(error)


# --- Spark ----------------------------------------------------------------------------------------


def die(batches: Iterator[Any]) -> Iterator[Any]:
    """Runs in a worker, which is gone after its first rows."""
    for batch in batches:
        yield pa.RecordBatch.from_pydict({"x": [1.0] * len(batch), "k": [1] * len(batch)})
        os._exit(7)


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """Workers of a real local session."""

    @pytest.mark.parametrize("way", WAYS)
    def test_a_worker_that_dies_keeps_the_charge(self, way, spark):
        frame = spark.range(ROWS).mapInArrow(die, "x double, k long")
        error, spent = failed(frame, way)
        assert (type(error), spent) == (DataError, 1)
        assert "withheld" in str(error)
