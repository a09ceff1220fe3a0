"""Time of a spend that is synchronised to the disk, on an empty and on a long ledger.

    python benchmarks/ledger.py [--out FILE]

The rows before the measured ones are written many to a transaction, which changes nothing in the
file. The last column counts the calls above 10 ms: outliers of the disk, of the merging of the log,
or of a busy machine. ``sync`` is one bare write and fdatasync of 4 KiB on the same disk, for
comparison. Nothing is written without ``--out``.
"""

from __future__ import annotations

import argparse
import os
import platform
import sqlite3
import statistics
import tempfile
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

from tightdp.ledger import Ledger
from tightdp.ledger.amounts import Budget
from tightdp.ledger.entries import Asked

LENGTHS = (0, 1_000, 100_000, 1_000_000)
COST = Fraction(1, 1000)


def times(act: Callable[[int], Any], count: int) -> list[float]:
    """Milliseconds of every call, sorted."""
    taken = []
    for i in range(count):
        before = time.perf_counter()
        act(i)
        taken.append(1e3 * (time.perf_counter() - before))
    return sorted(taken)


def fill(ledger: Ledger, rows: int) -> None:
    """Spend until there are so many entries, ten thousand to a transaction."""
    price = Budget(COST, Fraction(0))
    request = Asked(price, ledger.neighbors, False, "count", "", None, None)
    for start in range(0, rows, 10_000):
        with ledger._store.write() as change:
            for i in range(start, min(rows, start + 10_000)):
                ledger._pay(change, request, price, f"earlier {i}")


def line(name: str, taken: list[float]) -> str:
    quick = f"{statistics.median(taken):.2f}", f"{taken[int(0.95 * len(taken))]:.2f}"
    slow = sum(t > 10 for t in taken)
    return f"| {name} | {' | '.join(quick)} | {taken[-1]:.2f} | {slow} of {len(taken)} |"


def bare_sync(folder: Path, count: int) -> list[float]:
    """The disk alone."""
    handle = os.open(folder / "bare", os.O_WRONLY | os.O_CREAT)
    block = bytes(4096)

    def act(_: int) -> None:
        os.write(handle, block)
        os.fdatasync(handle)

    try:
        return times(act, count)
    finally:
        os.close(handle)


def measure(count: int) -> list[str]:
    """The lines of the table."""
    found = []
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        found.append(line("sync", bare_sync(folder, count)))
        for rows in LENGTHS:
            with Ledger(10**6, path=folder / f"{rows}.db") as ledger:
                fill(ledger, rows)
                receipts: list[Any] = []
                spends = times(
                    lambda i, ledger=ledger, receipts=receipts: receipts.append(
                        ledger.spend(COST, key=f"measured {i}", label="count")
                    ),
                    count,
                )
                found.append(line(f"spend after {rows} rows", spends))
                stores = times(
                    lambda i, ledger=ledger, receipts=receipts: ledger.store(
                        receipts[i], {"value": [i] * 10}
                    ),
                    count,
                )
                found.append(line(f"store after {rows} rows", stores))
                again = times(
                    lambda i, ledger=ledger: ledger.spend(COST, key=f"measured {i}", label="count"),
                    count,
                )
                found.append(line(f"known key after {rows} rows", again))
        memory = Ledger(10**6)
        found.append(line("spend in memory", times(lambda _: memory.spend(COST), count)))
    return found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--count", type=int, default=300, help="calls per line")
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    text = "\n".join(
        [
            "# Time of a spend\n",
            f"Python {platform.python_version()}, SQLite {sqlite3.sqlite_version}, "
            f"{os.cpu_count()} cores, {given.count} calls per line, write-ahead log, "
            "synchronous = FULL.\n",
            "| milliseconds | median | 95 % | largest | above 10 ms |",
            "|---|---:|---:|---:|---:|",
            *measure(given.count),
            "",
        ]
    )
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
