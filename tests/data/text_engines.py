"""A column ``x`` of texts on every engine."""

from __future__ import annotations

import csv
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

duckdb = pytest.importorskip("duckdb")
pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
parquet = pytest.importorskip("pyarrow.parquet")


def in_csv(cells: list[str], folder: Path) -> Path:
    with (folder / "cells.csv").open("w", newline="", encoding="utf-8") as file:
        lines = csv.writer(file, lineterminator="\n")
        lines.writerows([["x"], *([cell] for cell in cells)])
    return folder / "cells.csv"


def in_parquet(cells: list[str], folder: Path) -> Path:
    parquet.write_table(pa.table({"x": cells}), folder / "cells.parquet")
    return folder / "cells.parquet"


ENGINES: dict[str, Callable[[list[str], Path], Any]] = {
    "csv": in_csv,
    "parquet": in_parquet,
    "list": lambda cells, _: {"x": cells},
    "numpy": lambda cells, _: {"x": np.array(cells)},
    "pandas": lambda cells, _: pd.DataFrame({"x": cells}),
    "pandas objects": lambda cells, _: pd.DataFrame({"x": pd.Series(cells, dtype=object)}),
    "pandas categories": lambda cells, _: pd.DataFrame({"x": pd.Categorical(cells)}),
    "polars": lambda cells, _: pl.DataFrame({"x": cells}),
    "polars lazy": lambda cells, _: pl.LazyFrame({"x": cells}),
    "polars categories": lambda cells, _: pl.DataFrame({"x": cells}).cast(pl.Categorical),
    "arrow": lambda cells, _: pa.table({"x": cells}),
    "arrow dictionary": lambda cells, _: pa.table({"x": pa.array(cells).dictionary_encode()}),
    "duckdb": lambda cells, _: duckdb.from_arrow(pa.table({"x": cells})),
}
