"""A number of rows that is public and wrong: refused where it is known, said where it is counted.

Under replace-one neighbours all tables have the same number of rows, so neither tells anything.
"""

from __future__ import annotations

import warnings
from pathlib import Path
from typing import Any

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset as ds
import pytest

import tightdp as tdp
from tightdp.data import engines
from tightdp.data.one_pass import blocks, quantized_matrix

TABLE = pa.table({"x": np.arange(5.0)})


def schema(rows: int, neighbors: str = "replace-one") -> tdp.Schema:
    return tdp.Schema({"x": tdp.Interval(0, 4)}, rows=rows, neighbors=neighbors)


def csv(folder: Path) -> Path:
    TABLE.to_pandas().to_csv(folder / "t.csv", index=False)
    return folder / "t.csv"


def parquet(folder: Path) -> Path:
    pl.from_arrow(TABLE).write_parquet(folder / "t.parquet")  # type: ignore[union-attr]
    return folder / "t.parquet"


def relation(folder: Path) -> Any:
    return duckdb.connect().sql(f"SELECT * FROM '{parquet(folder)}'")


KNOWN = {
    "numpy": lambda folder: np.arange(5.0).reshape(-1, 1),
    "pandas": lambda folder: pd.DataFrame({"x": np.arange(5.0)}),
    "polars": lambda folder: pl.from_arrow(TABLE),
    "pyarrow": lambda folder: TABLE,
    "parquet": parquet,
}
COUNTED = {
    "csv": csv,
    "polars lazy": lambda folder: pl.scan_parquet(parquet(folder)),
    "duckdb": relation,
    "dataset": lambda folder: ds.dataset(parquet(folder)),
    "reader": lambda folder: TABLE.to_reader(),
}


@pytest.mark.parametrize("engine", KNOWN)
def test_what_is_known_before_is_refused_unpaid(engine: str, tmp_path: Path) -> None:
    ledger, frame = tdp.Ledger(1), KNOWN[engine](tmp_path)
    with pytest.raises(tdp.ParameterError, match="has 5 rows and the schema says 4"):
        tdp.sum(frame, ["x"], schema=schema(4), epsilon=1, ledger=ledger)
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize("engine", COUNTED)
def test_what_is_counted_in_the_pass_is_said_after_it(engine: str, tmp_path: Path) -> None:
    ledger = tdp.Ledger(2)
    for rows in (4, 6):
        with pytest.warns(tdp.PublicFactWarning, match=f"5 rows and the schema says {rows}"):
            tdp.sum(COUNTED[engine](tmp_path), ["x"], schema=schema(rows), epsilon=1, ledger=ledger)
    assert [row.state for row in ledger.history()] == ["stored", "stored"]
    with pytest.warns(tdp.PublicFactWarning):
        quantized_matrix(COUNTED[engine](tmp_path), schema(4), ["x"])


@pytest.mark.parametrize("engine", [*KNOWN, *COUNTED])
def test_right_numbers_and_private_ones_are_not_spoken_of(engine: str, tmp_path: Path) -> None:
    make = (KNOWN | COUNTED)[engine]
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for facts in (schema(5), schema(9, "add-remove")):
            tdp.sum(make(tmp_path), ["x"], schema=facts, epsilon=1)
            assert len(quantized_matrix(make(tmp_path), facts, ["x"])) == 5


def test_a_pass_that_is_broken_off_says_nothing(tmp_path: Path) -> None:
    next(blocks(csv(tmp_path), schema(4), ["x"], block_rows=2))


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The count comes back with the sums, and no job runs before the payment."""

    def test_nothing_runs_before_the_payment(self, spark: Any, monkeypatch: Any) -> None:
        frame = spark.createDataFrame(TABLE).repartition(2)

        def opened(frame: Any) -> Any:
            raise AssertionError("the rows were asked for")

        monkeypatch.setattr(engines, "_stream", opened)
        with pytest.raises(tdp.BudgetError):
            tdp.sum(frame, ["x"], schema=schema(5), epsilon=1, ledger=tdp.Ledger(0.5))
        with pytest.warns(tdp.PublicFactWarning, match="5 rows and the schema says 4"):
            tdp.sum(frame, ["x"], schema=schema(4), epsilon=1)
        with pytest.warns(tdp.PublicFactWarning):
            quantized_matrix(frame, schema(4), ["x"])
