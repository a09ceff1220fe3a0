"""A table of canaries: no error, release or ledger says a word of it.

That neighbours fail alike, whatever reads them, is a law: ``tests/laws/test_silence.py``.
"""

from __future__ import annotations

import json
import math
import traceback
from collections.abc import Callable
from decimal import Decimal
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as tdp
from tightdp.errors import DataError, ParameterError, TightdpError

CANARY = 271828182
WORD = "canary-Xq7Zt"
MARKS = (str(CANARY), WORD)
ROWS = 3

SCHEMA = tdp.Schema(
    {
        "x": tdp.Interval(0, 1),
        "k": tdp.Category(["a", "b"], other="a"),
        "absent": tdp.Interval(0, 1),
    },
    rows=ROWS,
)
ADDED = tdp.Schema(SCHEMA.columns, rows=ROWS, neighbors="add-remove")
MECHANISMS = {
    "sum": tdp.AdditiveMechanism(tdp.Sums(SCHEMA, ["x"]), epsilon=1),
    "count": tdp.AdditiveMechanism(tdp.Counts(SCHEMA, ["k"]), epsilon=1),
    "both": tdp.AdditiveMechanism(tdp.Products(SCHEMA, ["x", "k"]), epsilon=1),
    "absent": tdp.AdditiveMechanism(tdp.Sums(SCHEMA, ["absent"]), epsilon=1),
    "added": tdp.AdditiveMechanism(tdp.Products(ADDED, ["x", "k"]), epsilon=1),
}


def loud(*_: Any) -> Any:
    raise RuntimeError(f"{WORD} {CANARY}")


class LoudFloat(float):
    __float__ = __int__ = __str__ = __repr__ = __eq__ = __gt__ = __hash__ = loud  # type: ignore[assignment]


class LoudText(str):
    __slots__ = ()
    __str__ = __repr__ = __eq__ = __hash__ = strip = lower = loud  # type: ignore[assignment]


class LoudObject:
    __float__ = __int__ = __index__ = __str__ = __repr__ = __eq__ = __hash__ = loud  # type: ignore[assignment]
    __array__ = __len__ = __iter__ = loud

    @property
    def __class__(self) -> Any:  # type: ignore[override]
        return loud()


def objects(*cells: Any) -> Any:
    """An object column; numpy would look inside cells that it is not told to leave alone."""
    column = np.empty(len(cells), dtype=object)
    for i, cell in enumerate(cells):
        column[i] = cell
    return column


def canary_table() -> dict[str, list[Any]]:
    return {"x": [CANARY] * ROWS, "k": [WORD] * ROWS}


# --- tables that cannot be read -------------------------------------------------------------------


def broken_parquet(folder: Path) -> Any:
    path = folder / "t.parquet"
    path.write_bytes(b"PAR1" + f"{WORD}{CANARY}".encode() * 40 + b"PAR1")
    return path


def cut_parquet(folder: Path) -> Any:
    pa, pq = pytest.importorskip("pyarrow"), pytest.importorskip("pyarrow.parquet")
    path = folder / "t.parquet"
    pq.write_table(pa.table(canary_table()), path, compression="none")
    whole = bytearray(path.read_bytes())
    whole[4:60] = b"\xff" * 56  # the pages, not the footer: it fails in the middle of the scan
    path.write_bytes(whole)
    return path


def strict_cast(_: Path) -> Any:
    pl = pytest.importorskip("polars")
    frame = pl.DataFrame({"x": [WORD] * ROWS, "k": [WORD] * ROWS})
    return frame.lazy().with_columns(pl.col("x").str.to_integer(strict=True))


def cast_in_sql(_: Path) -> Any:
    duckdb, pa = pytest.importorskip("duckdb"), pytest.importorskip("pyarrow")
    connection = duckdb.connect()
    connection.register("t", pa.table({"x": [WORD] * ROWS, "k": [WORD] * ROWS}))
    return connection.sql("SELECT x::INTEGER AS x, k FROM t")


def broken_stream(_: Path) -> Any:
    pa = pytest.importorskip("pyarrow")
    table = pa.table(canary_table())

    def batches() -> Any:
        yield table.to_batches()[0]
        loud()

    return pa.RecordBatchReader.from_batches(table.schema, batches())


def dates(_: Path) -> Any:
    return {"x": np.full(ROWS, "1828-04-27", dtype="M8[D]"), "k": [WORD] * ROWS}


class LoudMapping(dict[str, Any]):
    items = loud


UNREADABLE: dict[str, Callable[[Path], Any]] = {
    "broken parquet": broken_parquet,
    "cut parquet": cut_parquet,
    "strict cast": strict_cast,
    "cast in sql": cast_in_sql,
    "broken stream": broken_stream,
    "dates": dates,
    "ragged": lambda _: canary_table() | {"x": [CANARY]},
    "no column": lambda _: {"k": [WORD] * ROWS},
    "list": lambda _: [CANARY, WORD],
    "text": lambda _: WORD,
    "two axes": lambda _: {"x": np.full((ROWS, 2), CANARY), "k": [WORD] * ROWS},
    "matrix": lambda _: np.full((ROWS, 7), CANARY),
    "complex": lambda _: {"x": np.full(ROWS, CANARY * 1j), "k": [WORD] * ROWS},
    "bytes": lambda _: {"x": np.array([WORD.encode()] * ROWS), "k": [WORD] * ROWS},
    "loud mapping": lambda _: LoudMapping(canary_table()),
    "nothing": lambda _: None,
}
PUBLIC = {"text": WORD}  # what a caller names in words is public: a path that is not there


def check_silence(error: BaseException, *more: str, but: str = "nothing") -> None:
    assert error.__cause__ is None
    assert error.__context__ is None
    told = ["".join(traceback.format_exception(error)), str(error), repr(error), repr(error.args)]
    for text in [*told, *more]:
        lines = [line for line in text.splitlines() if not line.startswith("    ")]
        spoken = "\n".join(lines).replace(but, "")  # indented lines are source, not cells
        assert not any(mark in spoken for mark in MARKS)


def ledger_bytes(folder: Path) -> str:
    files = [path for path in folder.iterdir() if path.name.startswith("ledger.db")]
    assert files
    return "".join(path.read_bytes().decode("latin-1") for path in files)


@pytest.mark.parametrize("what", UNREADABLE)
def test_errors_and_the_ledger_are_silent(
    what: str, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    frame = UNREADABLE[what](tmp_path)
    with tdp.Ledger(10, path=tmp_path / "ledger.db") as ledger:
        with pytest.raises(TightdpError) as caught:
            MECHANISMS["both"].release(frame, ledger=ledger, key="request")
        printed = capfd.readouterr()
        assert isinstance(caught.value, (DataError, ParameterError))
        book = ledger_bytes(tmp_path) + str(ledger) + ledger._repr_html_()
        check_silence(caught.value, printed.out, printed.err, book, but=PUBLIC.get(what, "nothing"))


def test_a_spark_worker_that_fails_is_silent() -> None:
    """What a worker says is dropped where it is said, before Spark can log it."""
    pa = pytest.importorskip("pyarrow")
    from tightdp.data.blocks import Scan
    from tightdp.data.spark import SumUp, Task

    batch = pa.record_batch(canary_table())
    task = Task(Scan.of([(SCHEMA, ("x", "k"))], 10), SumUp(loud, 1))
    (line,) = task.on_rows([batch])
    assert line.to_pydict() == {"word": ["failed"], "payload": [b""]}


def test_a_release_of_canaries_says_nothing(tmp_path: Path) -> None:
    """All cells are clamped or unseen: integers, JSON, tables and ledger hold none of them."""
    with tdp.Ledger(10, path=tmp_path / "ledger.db", allow_seeded=True) as ledger:
        release = MECHANISMS["both"].release(canary_table(), ledger=ledger, key="r", rng=1)
        texts = [
            release.to_json(),
            str(release),
            repr(release),
            release._repr_html_(),
            json.dumps(ledger.find("r")),
            ledger_bytes(tmp_path),
        ]
    for mark in MARKS:
        assert not any(mark in text for text in texts)


# --- cells that raise, and neighbours -------------------------------------------------------------

ODD: list[Any] = [
    0, 1, 0.5, math.nan, math.inf, -math.inf, None, "a", "b", "", WORD, CANARY, 10**400, True,
    Decimal("sNaN"), Decimal("Infinity"), b"a", [1], {}, (), 1j, object(), np.datetime64("NaT"),
    np.timedelta64(1), np.float16(0.5), np.longdouble(0.1), np.ma.masked, LoudFloat(0.5),
    LoudText("a"), LoudObject(), float, ..., np.array([1, 2]), "\ud800", "1" * 5000,
]  # fmt: skip


def outcome(mechanism: tdp.AdditiveMechanism, frame: Any) -> Any:
    """What anyone can see of a call, but for the noisy numbers."""
    relation = mechanism.statistic.schema.neighbors
    ledger = tdp.Ledger(10, neighbors=relation, allow_seeded=True)
    try:
        release = mechanism.release(frame, ledger=ledger, rng=1)
    except TightdpError as error:
        check_silence(error)
        return type(error), str(error), ledger.spent
    assert np.isfinite(release.value).all()
    return release.names, release.noise, str(release.guarantee), ledger.spent


@pytest.mark.parametrize("which", range(len(ODD)), ids=lambda i: type(ODD[i]).__name__)
def test_no_cell_can_raise(which: int) -> None:
    cell = ODD[which]
    tame = {"x": objects(0.5, 0, 1), "k": objects("a", "b", "b")}
    wild = {"x": objects(0.5, 0, cell), "k": objects("a", "b", cell)}
    assert outcome(MECHANISMS["both"], wild) == outcome(MECHANISMS["both"], tame)


@pytest.mark.parametrize("which", range(len(ODD)), ids=lambda i: type(ODD[i]).__name__)
def test_no_name_of_a_person_can_raise(which: int) -> None:
    cell = ODD[which]
    facts = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3, neighbors="add-remove", person="id")
    mechanism = tdp.AdditiveMechanism(tdp.Sums(facts, ["x"]), epsilon=1)
    tame = {"x": objects(0.5, 0, 1), "id": objects(1, 2, 3)}
    wild = {"x": objects(0.5, 0, 1), "id": objects(1, 2, cell)}
    assert outcome(mechanism, wild) == outcome(mechanism, tame)


TEXTS = st.text(alphabet='1a,." \n\r-e\x00é', max_size=12)


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of any size
@settings(max_examples=40)
@given(lines=st.lists(TEXTS, max_size=4), first=TEXTS, second=TEXTS)
def test_no_line_of_a_csv_file_can_raise(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], first: str, second: str
) -> None:
    path = tmp_path_factory.mktemp("csv") / "t.csv"
    seen = []
    for line in (first, second):
        path.write_text("\n".join(["x,k", *lines, line]), encoding="utf-8", newline="")
        seen.append(outcome(MECHANISMS["both"], path))
    assert seen[0] == seen[1]


def test_a_word_too_much_is_heard() -> None:
    """Planted faults: a cell in the text, in the arguments, or in an error behind the error."""
    chained = DataError("the table could not be read")
    chained.__context__ = ValueError(WORD)
    for error in (DataError(f"bad cell {CANARY}"), DataError("bad cell", WORD), chained):
        with pytest.raises(AssertionError):
            check_silence(error)
