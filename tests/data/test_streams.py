"""Streams are read once: what this process has read is refused before it is paid for again."""

from __future__ import annotations

import gc
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data import engines, one_pass
from tightdp.data.one_pass import blocks, quantized_matrix
from tightdp.data.table import check_frame
from tightdp.mechanisms.joint_release import Together

pa = pytest.importorskip("pyarrow")

TABLE = pa.table({"x": np.arange(5.0), "y": np.arange(5.0) / 5})


def schema(**other: Any) -> tdp.Schema:
    facts = {"x": tdp.Interval(0, 5), "y": tdp.Interval(0, 1)}
    return tdp.Schema(facts, **({"rows": 9, "neighbors": "add-remove"} | other))


def ledger() -> tdp.Ledger:
    return tdp.Ledger(9, neighbors="add-remove")


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_a_reader_that_was_read_here_is_refused_unpaid(neighbors: str) -> None:
    book = tdp.Ledger(9, neighbors=neighbors)
    facts, reader = schema(neighbors=neighbors, rows=5), TABLE.to_reader()
    tdp.sum(reader, ["x"], schema=facts, epsilon=1, ledger=book)
    for _ in range(2):
        with pytest.raises(tdp.ParameterError, match="can be read only once"):
            tdp.sum(reader, ["x"], schema=facts, epsilon=1, ledger=book)
    assert book.spent.epsilon == 1


def test_so_is_one_that_was_begun_or_measured() -> None:
    begun, measured = TABLE.to_reader(max_chunksize=2), TABLE.to_reader()
    next(blocks(begun, schema(), ["x"], block_rows=1))
    tdp.Sums(schema(), ["x"]).measure(measured)
    for reader in (begun, measured):
        with pytest.raises(tdp.ParameterError, match="read before"):
            check_frame(reader, schema(), ["x"])


def test_checks_and_stored_answers_do_not_count_as_reading() -> None:
    book, reader = ledger(), TABLE.to_reader()
    for _ in range(3):
        check_frame(reader, schema(), ["x"])
    with pytest.raises(tdp.ParameterError):
        tdp.sum(reader, ["z"], schema=schema(), epsilon=1, ledger=book)
    with pytest.raises(tdp.BudgetError):
        tdp.sum(reader, ["x"], schema=schema(), epsilon=10, ledger=book)
    first = tdp.sum(reader, ["x"], schema=schema(), epsilon=1, ledger=book, key="k")
    again = tdp.sum(reader, ["x"], schema=schema(), epsilon=1, ledger=book, key="k")
    assert again.integers == first.integers


def test_an_empty_stream_is_a_table_like_any_other() -> None:
    """Whether a table has rows is private: it must not decide about an error."""
    book = ledger()
    tdp.sum(TABLE.slice(0, 0).to_reader(), ["x"], schema=schema(), epsilon=1, ledger=book)
    assert book.spent.epsilon == 1


def test_readers_that_are_gone_are_forgotten() -> None:
    before = len(engines._READ)
    for _ in range(5):
        quantized_matrix(TABLE.to_reader(), schema(), ["x"])
    gc.collect()
    assert len(engines._READ) <= before


class Stream:
    """Gives streams: one, or as many as are asked for."""

    def __init__(self, most: int) -> None:
        self.left = most

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        if not self.left:
            raise ValueError("the stream was given away")
        self.left -= 1
        return TABLE.__arrow_c_stream__(requested_schema)


@pytest.mark.parametrize("neighbors", ["add-remove", "replace-one"])
def test_an_object_with_one_stream_is_asked_for_it_once(neighbors: str) -> None:
    book, frame = tdp.Ledger(9, neighbors=neighbors), Stream(1)
    facts = schema(neighbors=neighbors, rows=5)
    tdp.sum(frame, ["x"], schema=facts, epsilon=1, ledger=book)
    with pytest.raises(tdp.DataError):
        tdp.sum(frame, ["x"], schema=facts, epsilon=1, ledger=book)
    assert book.spent.epsilon == 1  # asked before the payment, and refused


def test_an_object_with_many_streams_is_read_as_often_as_wanted() -> None:
    frame = Stream(9)
    for _ in range(3):
        assert len(quantized_matrix(frame, schema(), ["x"])) == 5
    before = len(engines._OPEN)
    del frame
    gc.collect()
    assert len(engines._OPEN) == before - 1


def test_joint_releases_want_a_table() -> None:
    book = ledger()
    both = Together([tdp.KNormMedian(schema(), name, epsilon=1) for name in ("x", "y")])
    for frame in (TABLE.to_reader(), Stream(9)):
        with pytest.raises(tdp.ParameterError, match="reads it 2 times: pass a table"):
            both.release(frame, ledger=book)
    assert book.spent.epsilon == 0
    both.release(TABLE, ledger=book)
    Together(both.parts[:1]).release(TABLE.to_reader(), ledger=book)
    assert book.spent.epsilon == 3


@pytest.mark.parametrize("cores", [1, 2, 3])
def test_whoever_reads_ahead_leaves_a_core_to_the_reader(cores, monkeypatch, tmp_path):
    """Two cores that read and reckon at once are faster than three threads that share them."""
    pl = pytest.importorskip("polars")
    monkeypatch.setattr(one_pass, "_cores", lambda: cores)
    monkeypatch.setattr(one_pass, "BLOCK_ROWS", 1_000)
    made: list[int] = []
    pool = one_pass.ThreadPoolExecutor
    monkeypatch.setattr(one_pass, "ThreadPoolExecutor", lambda n: made.append(n) or pool(n))
    x = np.linspace(0, 1, 20_000)
    frame = pl.DataFrame({"x": x, "y": x**2})
    frame.write_parquet(tmp_path / "t.parquet")
    facts = {"x": tdp.Interval(0, 1), "y": tdp.Interval(0, 1)}
    total = tdp.Moments(tdp.Schema(facts, rows=20_000), ["x"], "y")

    def threads(table: Any) -> int:
        made.clear()
        found.append(total.measure(table))
        return made[0] if made else 1

    found: list[list[int]] = []
    assert threads(frame) == threads(frame.to_numpy()) == cores
    assert threads(tmp_path / "t.parquet") == threads(frame.lazy()) == max(1, cores - 1)
    assert found[0] == found[1] == found[2] == found[3]
