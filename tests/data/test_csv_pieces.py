"""CSV files are read the same whoever splits them: Arrow in pieces, or the rules line by line."""

from __future__ import annotations

import gzip
import random
import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data import csv_pieces, one_pass
from tightdp.data.engines import CsvTable
from tightdp.data.one_pass import integer_sums, quantized_matrix

NAMES = ["a", "b", "c"]
ODD = [b"a", b"1", b"2.5", b",", b",", b"\n", b"\n", b'"', b'""', b"\r", b"\r\n", b" ", b"\xff"]
ODD += [b"\xc3\xa9", b"\0", b";", b"\xef\xbb\xbf", b'"x"', b',"x,y",', b"\t"]
REGULAR = [b"a", b"1", b'"q"', b'""', b"", b'"x,y"', b"\xff"]


def drawn_file(rng: random.Random) -> tuple[int, bytes]:
    """A number of columns, and rows that are regular, odd, or first the one and then the other."""
    width = rng.choice([1, 2, 3])
    odd = b"".join(
        rng.choices(ODD, [rng.choice([0, 1, 4]) or 1 for _ in ODD], k=rng.randint(0, 50))
    )
    if rng.random() < 0.4:
        return width, odd
    rows = [
        b",".join(rng.choices(REGULAR, k=width)) + rng.choice([b"\n", b"\r\n"])
        for _ in range(rng.randint(0, 9))
    ]
    return width, b"".join(rows) + rng.choice([b"", odd])


def cells(path: Path, names: list[str]) -> list[tuple[Any, ...]]:
    return [
        row
        for chunk in CsvTable(tdp.CsvFile(path)).chunks(names, 3)
        for row in zip(*(chunk[name].values() for name in names), strict=True)
    ]


def differences(folder: Path, monkeypatch: pytest.MonkeyPatch, seed: int, times: int) -> int:
    """How many drawn files Arrow's way reads in another way than the rules."""
    rng, found, path = random.Random(seed), 0, folder / "t.csv"
    for _ in range(times):
        width, body = drawn_file(rng)
        path.write_bytes(",".join(NAMES[:width]).encode() + b"\n" + body)
        names = rng.sample(NAMES[:width], rng.randint(1, width))
        with monkeypatch.context() as patch:
            patch.setattr(csv_pieces, "_PIECE", rng.choice([1, 2, 3, 5, 8, 16, 64, 1000]))
            patch.setattr(csv_pieces, "_SMALL", 0)
            quick = cells(path, names)
            patch.setattr(csv_pieces, "_arrow", lambda path: None)
            found += quick != cells(path, names)
    return found


def test_both_ways_read_the_same_cells(seed, tmp_path, monkeypatch):
    assert differences(tmp_path, monkeypatch, seed, 700) == 0


@pytest.mark.slow
def test_both_ways_read_the_same_cells_at_length(seed, tmp_path, monkeypatch):
    assert differences(tmp_path, monkeypatch, seed, 100_000) == 0


@pytest.mark.parametrize("name", ["_plain", "_quotes_are_plain"])
def test_a_piece_that_arrow_reads_in_another_way_is_noticed(seed, tmp_path, monkeypatch, name):
    monkeypatch.setattr(csv_pieces, name, lambda *given: True)
    assert differences(tmp_path, monkeypatch, seed, 700) > 0


@pytest.mark.parametrize("packed", [False, True])
def test_large_files_go_to_arrow_in_threads_and_give_the_same_integers(
    tmp_path, monkeypatch, packed
):
    rng = np.random.default_rng(0)
    n = 300_000
    x, k = rng.normal(size=n), rng.choice(["u", "v"], n)
    text = "x,k\n" + "".join(f"{a!r},{b}\n" for a, b in zip(x.tolist(), k.tolist(), strict=True))
    path = tmp_path / ("t.csv.gz" if packed else "t.csv")
    path.write_bytes(gzip.compress(text.encode(), 1) if packed else text.encode())
    schema = tdp.Schema({"x": tdp.Interval(-2, 2), "k": tdp.Category(["u", "v"])}, rows=n)
    threads = set()

    def add(block: Any) -> Any:
        threads.add(threading.get_ident())
        return np.array([block["x"].sum(), block["k"].sum()])

    monkeypatch.setattr(csv_pieces, "_PIECE", 1 << 18)
    found = integer_sums(path, schema, ["x", "k"], add, width=2)
    assert found == integer_sums({"x": x, "k": k}, schema, ["x", "k"], add, width=2)
    assert len(threads) > 1
    rows = quantized_matrix(path, schema, ["k", "x"])  # in their order
    assert rows.tolist() == quantized_matrix({"x": x, "k": k}, schema, ["k", "x"]).tolist()


def test_what_breaks_in_a_thread_is_withheld_and_nothing_goes_on(monkeypatch):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=1_000_000)
    monkeypatch.setattr(one_pass, "BLOCK_ROWS", 1_000)
    calls = []

    def breaks(block: Any) -> Any:
        calls.append(1)
        if len(calls) > 20:
            raise ValueError("the cell 41.5")
        return np.array([len(block)])

    with pytest.raises(tdp.DataError, match="withheld") as caught:
        integer_sums({"x": np.zeros(1_000_000)}, schema, ["x"], breaks, width=1)
    assert "41.5" not in str(caught.value)
    assert len(calls) < 100


def test_warnings_of_numpy_about_cells_stay_silent_in_threads(monkeypatch):
    monkeypatch.setattr(one_pass, "BLOCK_ROWS", 1_000)
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=20_000)
    cells = np.full(20_000, np.inf)
    cells[::7] = -np.inf

    def odd(block: Any) -> Any:  # what a reducer of doubles may do
        np.float64(np.inf) - np.float64(np.inf)
        return np.array([len(block)])

    assert integer_sums({"x": cells}, schema, ["x"], odd, width=1) == [20_000]
