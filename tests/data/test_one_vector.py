"""One table, one vector: every engine gives a statistic the same integers, whatever its types."""

from __future__ import annotations

import re
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.column_moments import SumsAndRows, SumsAndSquares
from tightdp.data.histograms import Histogram
from tightdp.data.statistics import Statistic

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
pc = pytest.importorskip("pyarrow.compute")
pq = pytest.importorskip("pyarrow.parquet")

ROWS = (0, 1, 2000)
COLUMNS = {
    "float": tdp.Interval(-1, 2, missing=0.3),
    "single": tdp.Interval(-1, 1),
    "whole": tdp.Interval(-1e18, 2e18),
    "bool": tdp.Interval(0, 1),
    "decimal": tdp.Interval(-50, 50, missing=-50),
    "word": tdp.Category(["a", "b", "é", "rest"], other="rest"),
    "coded": tdp.Category(["u", "v", "w"], other="u"),
    "digit": tdp.Category([0, 1, 2.0, 3], other=3),
}


def table(rows: int, seed: int) -> Any:
    """NaN, null, infinite and negative zero cells; integers, singles, bools, decimals, levels."""
    draw = np.random.default_rng(seed)
    x = draw.normal(size=rows)
    for value, step in ((np.nan, 7), (np.inf, 11), (-np.inf, 13), (-0.0, 5), (1e308, 17)):
        x[step // 2 :: step] = value
    thousandths = draw.integers(-60_000, 60_000, size=rows)
    words = np.stack([thousandths, thousandths >> 63], axis=1)  # 128 bits, low word first
    decimals = pa.Array.from_buffers(
        pa.decimal128(12, 3), rows, [None, pa.py_buffer(words.tobytes())]
    )
    columns = {
        "float": pa.array(x),
        "single": pa.array(np.where(np.isfinite(x), x, np.nan).clip(-3, 3).astype(np.float32)),
        "whole": pa.array(draw.integers(-(2**63), 2**63 - 1, size=rows)),
        "bool": pa.array(draw.integers(0, 2, size=rows).astype(bool)),
        "decimal": decimals,
        "word": pa.array(np.array(["a", "b", "é", "zz", " a"])[draw.integers(0, 5, size=rows)]),
        "coded": pa.array(np.array(["u", "v", "unseen"])[draw.integers(0, 3, size=rows)]),
        "digit": pa.array(draw.integers(-1, 5, size=rows)),
    }
    gone = {name: pa.array(draw.random(rows) < 0.05) for name in columns}
    columns = {
        name: pc.if_else(gone[name], pa.scalar(None, type=column.type), column)
        for name, column in columns.items()
    }
    columns["coded"] = columns["coded"].dictionary_encode()
    return pa.table(columns)


def arrays(data: Any) -> dict[str, np.ndarray]:
    """Numpy has no decimals and no nulls: doubles, masks and objects stand for them."""
    out: dict[str, Any] = {}
    for name in data.column_names:
        column = data.column(name).combine_chunks()
        if name == "decimal":
            column = column.cast(pa.float64())
        if name in ("word", "coded"):
            out[name] = np.array(column.to_pylist(), dtype=object)
        elif pa.types.is_floating(column.type):
            out[name] = column.to_numpy(zero_copy_only=False)
        else:
            plain = column.fill_null(False if name == "bool" else 0)
            mask = column.is_null().to_numpy(zero_copy_only=False)
            out[name] = np.ma.array(plain.to_numpy(zero_copy_only=False), mask=mask)
    return out


def relation(data: Any) -> Any:
    connection = duckdb.connect()
    connection.register("data", data)
    return connection.sql("SELECT * FROM data")


def parquet(data: Any, folder: Path) -> Path:
    path = folder / "t.parquet"
    pq.write_table(data, path, row_group_size=max(1, len(data) // 3))
    return path


NULLABLE = {pa.int64(): pd.Int64Dtype(), pa.bool_(): pd.BooleanDtype()}
ENGINES = {
    "numpy": lambda data, folder: arrays(data),
    "pandas": lambda data, folder: data.to_pandas(types_mapper=NULLABLE.get),
    "polars": lambda data, folder: pl.from_arrow(data),
    "polars-lazy": lambda data, folder: pl.from_arrow(data).lazy(),
    "duckdb": lambda data, folder: relation(data),
    "parquet": parquet,
}


def statistics(rows: int) -> list[Statistic]:
    facts = tdp.Schema(COLUMNS, rows=max(1, rows))
    free = tdp.Schema(COLUMNS, rows=max(1, rows), neighbors="add-remove")
    return [
        tdp.Moments(facts, ["float", "single", "whole", "bool"], "decimal"),
        tdp.Products(facts, ["float", "word:coded", "single:word", "float:decimal", "digit"]),
        SumsAndSquares(free, ["whole", "decimal"]),
        SumsAndRows(free),
        Histogram(facts, "float", 7),
    ]


def vector(frame: Any, rows: int, few: int | None = None) -> list[int]:
    return [number for statistic in statistics(rows)[:few] for number in statistic.measure(frame)]


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of any size
@pytest.mark.parametrize("rows", ROWS)
@pytest.mark.parametrize("engine", ENGINES)
def test_every_engine_gives_the_same_vector(engine, rows, seed, tmp_path):
    data = table(rows, seed)
    frame = ENGINES[engine](data, tmp_path)
    want = vector(data, rows)
    assert vector(frame, rows) == want
    order = np.random.default_rng(seed).permutation(rows)
    assert vector(ENGINES[engine](data.take(pa.array(order)), tmp_path), rows) == want


def test_the_vector_is_that_of_the_rows_one_by_one(seed):
    data = table(60, seed)
    parts = [vector(data.slice(i, 1), 60) for i in range(60)]
    assert vector(data, 60) == [sum(column) for column in zip(*parts, strict=True)]


def test_a_changed_cell_is_seen(seed):
    data = table(2000, seed)
    x = data.column("whole").to_pylist()
    x[1000] = 10**18 if x[1000] is None or x[1000] < 0 else -(10**18)
    changed = data.set_column(2, "whole", pa.array(x, type=pa.int64()))
    assert vector(changed, 2000) != vector(data, 2000)


@pytest.mark.slow
def test_a_million_rows_of_all_types(tmp_path):
    data = table(1_000_000, 3)
    want = vector(data, 1_000_000)
    for engine in ("numpy", "polars", "polars-lazy", "duckdb", "parquet"):
        assert vector(ENGINES[engine](data, tmp_path), 1_000_000) == want, engine
    plain = data.to_pandas(types_mapper=pd.ArrowDtype)  # objects of a million decimals are slow
    assert vector(plain, 1_000_000) == want


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The same on a real local session, and the words of the documents."""

    @pytest.mark.parametrize("rows", ROWS)
    def test_the_same_vector(self, spark, rows, seed, tmp_path):
        data = table(rows, seed)
        frame = spark.read.parquet(str(parquet(data, tmp_path)))
        assert vector(frame, rows, 2) == vector(data, rows, 2)
        if rows > 1:
            assert vector(frame.repartition(3, "digit"), rows, 1) == vector(data, rows, 1)

    @pytest.mark.slow
    def test_a_million_rows_of_all_types(self, spark, tmp_path):
        data = table(1_000_000, 3)
        frame = spark.read.parquet(str(parquet(data, tmp_path)))
        moments = statistics(1_000_000)[0]
        assert moments.measure(frame) == moments.measure(data)

    def test_the_bar_is_left_to_spark(self, spark, seed, tmp_path):
        data = table(200, seed)
        frame = spark.read.parquet(str(parquet(data, tmp_path)))
        sums = tdp.Sums(tdp.Schema(COLUMNS, rows=200), ["float"])
        assert sums.measure(frame, progress=True) == sums.measure(data)

    def test_the_page_on_tables_with_its_part_on_spark(self, spark, tmp_path, monkeypatch):
        """The house runs blocks of ``python``; here those of ``py`` run too, which need Spark."""
        monkeypatch.chdir(tmp_path)
        page = (Path(__file__).parents[2] / "docs" / "tables.md").read_text()
        names: dict[str, Any] = {}
        found = re.findall(r"^```(python|py)\n(.*?)^```$", page, re.M | re.S)
        for _, block in found:
            if not block.startswith(">>>"):
                exec(block, names)
        assert any("SparkSession" in block for kind, block in found if kind == "py")
        assert names["ledger"].spent.epsilon == 1
        assert names["from_spark"].names == names["release"].names


# --- the bar -------------------------------------------------------------------------------------


@pytest.mark.parametrize("engine", ENGINES)
def test_the_bar_is_shown_on_request(engine, seed, tmp_path, capfd):
    pytest.importorskip("tqdm")
    frame = ENGINES[engine](table(2000, seed), tmp_path)
    sums = tdp.Sums(tdp.Schema(COLUMNS, rows=2000), ["float"])
    assert sums.measure(frame, progress=True) == sums.measure(frame)
    assert "/2.00k [" in capfd.readouterr().err  # rows, whose number is public
    sums.measure(frame)
    assert capfd.readouterr().err == ""


def test_without_tqdm_there_is_no_bar_and_no_error(monkeypatch, seed, capfd):
    monkeypatch.setitem(sys.modules, "tqdm", None)
    data = table(200, seed)
    sums = tdp.Sums(tdp.Schema(COLUMNS, rows=200), ["float"])
    assert sums.measure(data, progress=True) == sums.measure(data)
    assert capfd.readouterr().err == ""
