"""Disks that fail under an open ledger, kills inside a checkpoint, and ledgers of a million rows.

The failures are real ones of the system, made by putting another file under a descriptor of SQLite:
``/dev/full`` refuses to write for want of room, ``/proc/self/mem`` with an I/O error, and
``/dev/zero`` writes but cannot be synchronised. Loss of power is not simulated.
"""

from __future__ import annotations

import os
import random
import resource
import signal
import statistics
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from fractions import Fraction
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tightdp as tdp
from tightdp.errors import BurnedError, LedgerError
from tightdp.ledger import Ledger, store
from tightdp.privacy import Guarantee

COST = Fraction(1, 10**6)
DESCRIPTORS = Path("/proc/self/fd")
FAILURES = {
    "no room": ("/dev/full", "disk is full"),
    "input-output error": ("/proc/self/mem", "not read or write reliably"),
    "no synchronisation": ("/dev/zero", "not read or write reliably"),
}

pytestmark = pytest.mark.skipif(not DESCRIPTORS.exists(), reason="needs /proc")


def descriptors(path: Path) -> list[int]:
    """The descriptors of this process that are open on a file."""
    found = []
    for name in os.listdir(DESCRIPTORS):
        try:
            if os.readlink(DESCRIPTORS / name) == str(path):
                found.append(int(name))
        except FileNotFoundError:
            continue
    return found


@contextmanager
def replaced(path: Path, by: str) -> Iterator[None]:
    """Let every write to a file go to another one, and fail there."""
    handles = descriptors(path)
    assert handles
    kept = [(handle, os.dup(handle)) for handle in handles]
    other = os.open(by, os.O_RDWR)
    try:
        for handle in handles:
            os.dup2(other, handle)
        yield
    finally:
        for handle, copy in kept:
            os.dup2(copy, handle)
            os.close(copy)
        os.close(other)


@pytest.fixture
def path(tmp_path: Path) -> Path:
    place = tmp_path / "ledger.db"
    with Ledger(1, path=place) as ledger:
        ledger.store(ledger.spend(COST, key="old"), {"value": 1})
    return place


def answer(ledger: Ledger, key: str, published: list[object], fails: str | None = None) -> None:
    """Pay, compute, store on a disk that may fail, and only then publish."""
    with ledger.charge(Guarantee(epsilon=float(COST)), key=key) as charge:
        if fails is None:
            published.append(charge.store({"value": 2}))
            return
        with replaced(ledger.path.with_name("ledger.db-wal"), fails):
            published.append(charge.store({"value": 2}))


def test_an_input_output_error_on_a_full_disk_is_for_want_of_room(
    path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """SQLite calls a log that cannot grow an input-output error: the remedy is room."""
    with Ledger.open(path) as ledger:
        receipt = ledger.spend(COST, key="new")
        monkeypatch.setattr(store.files, "has_room", lambda *facts: False)
        with (
            replaced(path.with_name("ledger.db-wal"), "/proc/self/mem"),
            pytest.raises(LedgerError, match="disk is full; make room"),
        ):
            ledger.store(receipt, {"value": 1})


def test_room_is_asked_for_all_entries_before_they_are_paid_for(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A megabyte was asked for, whatever the size: 100,000 groups were paid for and lost."""
    levels = list(range(50_000))
    schema = tdp.Schema({"k": tdp.Category(levels, other=0)}, rows=2)
    disk = os.statvfs(tmp_path)
    free = 8 << 20
    small = SimpleNamespace(f_blocks=disk.f_blocks, f_bavail=free, f_frsize=1)
    with Ledger(2, path=tmp_path / "ledger.db") as ledger:
        monkeypatch.setattr(os, "statvfs", lambda place: small)
        options: dict[str, Any] = {"by": "k", "epsilon": 1, "ledger": ledger}
        with pytest.raises(LedgerError, match="less than 26 MiB"):
            tdp.count({"k": [1, 2]}, schema=schema, **options)
        assert ledger.spent.epsilon == 0
        few = tdp.Schema({"k": tdp.Category(levels[:9], other=0)}, rows=2)
        tdp.count({"k": [1, 2]}, schema=few, **options)
        before = sum(file.stat().st_size for file in tmp_path.iterdir())
        monkeypatch.undo()
        tdp.count({"k": [1, 2]}, schema=schema, **options)
        ledger.close()  # the log is merged: what it holds is there twice before
        grown = sum(file.stat().st_size for file in tmp_path.iterdir()) - before
    assert 2 * grown < 25 << 20  # the room that is asked for is enough


def test_a_ledger_that_does_not_reach_the_disk_is_not_made(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: a file without its table, 'malformed' for ever, in the place of the ledger."""
    build = store.build

    def then_full(connection: object, *facts: object) -> None:
        build(connection, *facts)
        (draft,) = tmp_path.glob(".ledger.db.*.new")
        full = os.open("/dev/full", os.O_RDWR)
        for handle in descriptors(draft):  # SQLite closes them
            os.dup2(full, handle)
        os.close(full)

    monkeypatch.setattr(store, "build", then_full)
    with pytest.raises(LedgerError, match="disk is full"):
        Ledger(1, path=tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []
    monkeypatch.undo()
    with Ledger(1, path=tmp_path / "ledger.db") as ledger:
        assert ledger.verify().counter == 1


@pytest.mark.parametrize("what", FAILURES)
def test_a_spend_that_does_not_reach_the_disk_is_refused(path: Path, what: str) -> None:
    device, words = FAILURES[what]
    published: list[object] = []
    ledger = Ledger.open(path)
    ledger.spend(COST, key="before")
    failing = replaced(path.with_name("ledger.db-wal"), device)
    with failing, pytest.raises(LedgerError, match=words) as caught:
        answer(ledger, "failed", published)
    assert "Nothing may be released" in str(caught.value)
    assert not published
    ledger.spend(COST, key="after")  # the disk is well again
    ledger.close()
    with Ledger.open(path) as again:  # what was there is there, and nothing else
        assert again.verify().counter == 5
        assert again.spent.epsilon == 3 * COST
        assert again.find("old") == {"value": 1}
        assert again.find("failed") is None


@pytest.mark.parametrize("what", FAILURES)
def test_a_release_that_does_not_reach_the_disk_is_not_published(path: Path, what: str) -> None:
    device, words = FAILURES[what]
    published: list[object] = []
    ledger = Ledger.open(path)
    with pytest.raises(LedgerError, match=words):
        answer(ledger, "failed", published, fails=device)
    assert not published
    ledger.close()
    with Ledger.open(path) as again:
        again.verify()
        assert again.spent.epsilon == 2 * COST  # paid for, burned, never a second draw
        with pytest.raises(BurnedError):
            again.find("failed")


def test_a_file_that_may_not_grow_is_refused(path: Path) -> None:
    """The limit of the system on the size of files, in a process of its own."""
    code = (
        "import resource, signal, sys; from tightdp.ledger import Ledger\n"
        "ledger = Ledger.open(sys.argv[1])\n"
        "signal.signal(signal.SIGXFSZ, signal.SIG_IGN)\n"
        "resource.setrlimit(resource.RLIMIT_FSIZE, (65536, resource.RLIM_INFINITY))\n"
        "done = 0\n"
        "try:\n"
        "    while done < 1000:\n"
        "        ledger.spend(1e-6, label='x' * 900)\n"
        "        done += 1\n"
        "except Exception as error:\n"
        "    print(done, type(error).__name__)\n"
    )
    said = subprocess.run(
        [sys.executable, "-c", code, path], capture_output=True, text=True, check=True
    ).stdout.split()
    assert said[1] == "LedgerError"
    with Ledger.open(path) as ledger:
        ledger.verify()
        assert ledger.spent.epsilon == (1 + int(said[0])) * COST
    assert resource.getrlimit(resource.RLIMIT_FSIZE)[0] == resource.RLIM_INFINITY


# --- kills inside a checkpoint --------------------------------------------------------------------

SPENDER = """
import sys
from tightdp.ledger import Ledger
ledger = Ledger.open(sys.argv[1])
ledger._store._connection.execute("PRAGMA wal_autocheckpoint = 1")  # merge after every commit
while True:
    receipt = ledger.spend(1e-6)
    print(receipt.entry.counter, receipt.entry.hash, flush=True)
"""


def killed_in_checkpoints(path: Path, kills: int, seed: int) -> int:
    """Kill a process that merges its log all the time; how many spends it told of."""
    draw, told = random.Random(seed), 0
    for _ in range(kills):
        spender = subprocess.Popen(
            [sys.executable, "-c", SPENDER, path], stdout=subprocess.PIPE, text=True
        )
        assert spender.stdout is not None
        lines = [spender.stdout.readline()]  # it runs now
        time.sleep(0.05 * draw.random())
        spender.send_signal(signal.SIGKILL)
        lines += spender.stdout.read().splitlines(keepends=True)
        spender.stdout.close()
        spender.wait()
        heads = [line.split() for line in lines if line.endswith("\n")]
        told += len(heads)
        with Ledger.open(path) as ledger:
            receipts = [{"entry": int(n), "hash": h, "ledger": ledger.identity} for n, h in heads]
            last = ledger.verify(*receipts)  # nothing that was told is undone
            assert ledger.spent.epsilon == (last.counter - 2) * COST
            assert ledger.spent.epsilon >= told * COST
    return told


def test_kills_inside_a_checkpoint_undo_nothing(path: Path, seed: int) -> None:
    assert killed_in_checkpoints(path, 4, seed) > 4


@pytest.mark.slow
def test_many_kills_inside_a_checkpoint_undo_nothing(path: Path, seed: int) -> None:
    assert killed_in_checkpoints(path, 150, seed) > 150


# --- long ledgers ---------------------------------------------------------------------------------


def lengthen(ledger: Ledger, rows: int) -> None:
    """So many spends in few transactions; the entries are those of single spends."""
    from tightdp.ledger.amounts import Budget
    from tightdp.ledger.entries import Asked

    price = Budget(COST, Fraction(0))
    request = Asked(price, ledger.neighbors, False, "count", "", None, None)
    for start in range(0, rows, 10_000):
        with ledger._store.write() as change:
            for i in range(start, min(rows, start + 10_000)):
                ledger._pay(change, request, price, f"earlier {i}")


def long_ledger(path: Path, rows: int) -> float:
    """Median seconds of a spend behind so many rows."""
    with Ledger(10, path=path) as ledger:
        lengthen(ledger, rows)
    before = time.perf_counter()
    with Ledger.open(path) as ledger:
        opened = time.perf_counter() - before
        assert ledger.spent.epsilon == rows * COST
        taken = []
        for i in range(50):
            before = time.perf_counter()
            receipt = ledger.spend(COST, key=f"new {i}", label="count")
            taken.append(time.perf_counter() - before)
        ledger.store(receipt, {"value": 1})
        assert ledger.find("new 49") == {"value": 1}
    assert opened < 5.0
    return statistics.median(taken)


def test_a_long_ledger_is_a_ledger(tmp_path: Path) -> None:
    path = tmp_path / "ledger.db"
    long_ledger(path, 2_000)
    with Ledger.open(path) as ledger:
        assert ledger.verify().counter == 2_000 + 52


@pytest.mark.slow
def test_a_million_rows_do_not_slow_a_spend(tmp_path: Path) -> None:
    """Behind a million rows a spend takes no more than 5 times what it takes behind a hundred."""
    short = long_ledger(tmp_path / "short.db", 100)
    assert long_ledger(tmp_path / "long.db", 1_000_000) < 5 * short + 0.01
