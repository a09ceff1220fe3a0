"""Files as people have them: written by other programs, month by month, with other habits."""

from __future__ import annotations

import gzip
from pathlib import Path

import numpy as np
import pandas as pd
import pyarrow as pa
import pyarrow.dataset as ds
import pyarrow.parquet as pq
import pytest

import tightdp as tdp
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.sources import read_header
from tightdp.data.table import check_frame

SCHEMA = tdp.Schema(
    {"x": tdp.Interval(0, 8), "k": tdp.Category(["a", "b", "c"], other="c")}, rows=4, bits=2
)
STATISTIC = tdp.Products(SCHEMA, ["x", "k"])


# --- CSV ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("text", ["a\rb", "\ra", "b\r\r7,b", "a\r\nb", '"\r', "\r"])
def test_a_carriage_return_in_a_cell_makes_no_second_row(tmp_path: Path, text: str) -> None:
    """pandas leaves it without quotes: one person would count as two, beyond the body."""
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "k": ["a", text, "b", "c"]})
    frame.to_csv(tmp_path / "t.csv", index=False)
    assert STATISTIC.measure(tmp_path / "t.csv") == STATISTIC.measure(frame)


def test_a_level_with_a_carriage_return_is_found(tmp_path: Path) -> None:
    schema = tdp.Schema({"k": tdp.Category(["u\rv", "w"], other="w")}, rows=3)
    (tmp_path / "t.csv").write_bytes(b'k\r\nu\rv\r\n"u\rv"\r\nw\r\n')
    assert quantized_matrix(tmp_path / "t.csv", schema, ["k"]).ravel().tolist() == [0, 0, 1]


def test_lines_that_end_in_carriage_returns_alone_are_refused_without_a_cell(
    tmp_path: Path,
) -> None:
    """The whole file would be the header, and a suggestion would quote cells as names."""
    (tmp_path / "t.csv").write_bytes(b"x,k\r1,kk\r2,b\r")
    with pytest.raises(tdp.ParameterError, match="line feeds") as caught:
        check_frame(tmp_path / "t.csv", SCHEMA, ["x", "k"])
    assert "kk" not in str(caught.value)
    with pytest.raises(tdp.ParameterError, match="line feeds"):
        read_header(tmp_path / "t.csv")


def test_the_ending_of_a_zipped_file_may_be_in_capitals(tmp_path: Path) -> None:
    path = tmp_path / "T.CSV.GZ"
    path.write_bytes(gzip.compress(b"x,k\n1,a\n2,b\n3,b\n4,c\n"))
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "k": ["a", "b", "b", "c"]})
    assert STATISTIC.measure(path) == STATISTIC.measure(frame)


@pytest.mark.parametrize("mark", [";", "\t", "|"])
def test_the_header_says_what_divides_cells(tmp_path: Path, mark: str) -> None:
    frame = pd.DataFrame({"x": [1.0, 2.0, 3.0, 4.0], "k": ["a", "b", "b", "c"]})
    rows = [f"0,5{mark}{x}{mark}{k}\n" for x, k in zip(frame["x"], frame["k"], strict=True)]
    text = f'\ufeff"k, of all"{mark}x{mark}k\n' + "".join(rows)
    (tmp_path / "t.csv").write_text(text, encoding="utf-8")
    assert STATISTIC.measure(tmp_path / "t.csv") == STATISTIC.measure(frame)
    assert [c.name for c in read_header(tmp_path / "t.csv")] == ["k, of all", "x", "k"]


def test_no_row_has_a_say_in_what_divides_cells(tmp_path: Path) -> None:
    (tmp_path / "t.csv").write_text("x,k\n" + "1;a;b;c\n" * 4)
    frame = pd.DataFrame({"x": ["1;a;b;c"] * 4, "k": [None] * 4})
    assert STATISTIC.measure(tmp_path / "t.csv") == STATISTIC.measure(frame)


# --- Parquet --------------------------------------------------------------------------------------


def months(folder: Path, *tables: pa.Table) -> Path:
    for month, table in enumerate(tables):
        pq.write_table(table, folder / f"{month}.parquet")
    return folder


FIRST = pa.table({"x": pa.array([1, 2]), "k": ["a", "b"]})
LATER = {
    "missing cells made it a float": pa.table({"x": [7.25, None], "k": ["a", "z"]}),
    "text": pa.table({"x": ["7.25", "n/a"], "k": pa.array(["a", "z"]).dictionary_encode()}),
    "no category": pa.table({"x": pa.array([7.25, np.nan])}),
    "another order": pa.table({"k": ["a", "z"], "x": pa.array([7.25, None], pa.float32())}),
}


@pytest.mark.parametrize("later", LATER)
@pytest.mark.parametrize("turned", [False, True])
def test_every_file_of_a_folder_is_read_by_its_own_types(
    tmp_path: Path, later: str, turned: bool
) -> None:
    """With the types of the first file, Arrow casts, and stops at a cell after the payment."""
    tables = [FIRST, LATER[later]]
    folder = months(tmp_path, *(tables[::-1] if turned else tables))
    last = ["a", "z"] if "k" in LATER[later].column_names else [None, None]
    plain = {"x": [1, 2, 7.25, None], "k": ["a", "b", *last]}
    assert STATISTIC.measure(folder) == STATISTIC.measure(plain)


def test_large_integers_beside_floats_stay_exact(tmp_path: Path) -> None:
    schema = tdp.Schema({"k": tdp.Category([2**53, 2**53 + 1], other=2**53)}, rows=2)
    big = pa.table({"k": pa.array([2**53 + 1])})
    folder = months(tmp_path, big, pa.table({"k": [0.5]}))
    assert quantized_matrix(folder, schema, ["k"]).ravel().tolist() == [1, 0]


def test_a_type_that_cannot_be_read_is_refused_in_any_file(tmp_path: Path) -> None:
    dates = pa.table({"x": pa.array([0, 1], pa.date32()), "k": ["a", "b"]})
    with pytest.raises(tdp.ParameterError, match="'x' has the type date32"):
        check_frame(months(tmp_path, FIRST, dates), SCHEMA, ["x"])
    schema = tdp.Schema({"y": tdp.Interval(0, 1)}, rows=4)
    with pytest.raises(tdp.ParameterError, match="no column 'y'"):
        check_frame(tmp_path, schema, ["y"])


@pytest.mark.parametrize("kind", ["file", "dataset", "in memory"])
@pytest.mark.parametrize(
    "name", ["__filename", "__fragment_index", "__batch_index", "__last_in_fragment"]
)
def test_names_that_arrow_keeps_for_itself(tmp_path: Path, name: str, kind: str) -> None:
    """They stopped every scan, after payment, also of the other columns."""
    table = pa.table({name: [0.5, 1.0], "x": [0.25, 1.0]})
    path = tmp_path / "t.parquet"
    pq.write_table(table, path)
    frame = {"file": path, "dataset": ds.dataset(path), "in memory": ds.dataset(table)}[kind]
    facts = tdp.Schema({name: tdp.Interval(0, 1), "x": tdp.Interval(0, 1)}, rows=2)
    np.testing.assert_array_equal(
        quantized_matrix(frame, facts, ["x"]), quantized_matrix(table, facts, ["x"])
    )
    ledger = tdp.Ledger(epsilon=1)
    with pytest.raises(tdp.ParameterError, match=r"keeps for itself .* rename the column"):
        tdp.sum(frame, [name], schema=facts, epsilon=1, ledger=ledger)
    assert ledger.spent.epsilon == 0
    assert len(quantized_matrix(table, facts, [name])) == 2
