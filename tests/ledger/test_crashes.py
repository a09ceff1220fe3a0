"""Many processes on one cap, and processes killed at every point: the invariants of a ledger.

I1  The sum of the spends is at most the cap.
I2  Every published release has a committed spend and is the stored one.
I3  A key has one spend and one release.
I4  The chain of entries is whole, and no entry that was seen is ever undone.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections import Counter, defaultdict
from fractions import Fraction
from pathlib import Path

import pytest

from tightdp.errors import LedgerError
from tightdp.ledger import Ledger

WORKERS = Path(__file__).with_name("workers.py")
POINTS = {"begun", "inserted", "committed", "computed", "storing", "stored", "published"}

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def run(*tasks: tuple[object, ...]) -> None:
    """Run the workers at once, and wait for all."""
    commands = [[sys.executable, str(WORKERS), *map(str, task)] for task in tasks]
    running = [subprocess.Popen(command, stderr=subprocess.PIPE) for command in commands]
    for process in running:
        error = process.communicate()[1]
        assert process.returncode == 0, error.decode()


def lines(board: Path) -> list[dict]:
    return [json.loads(line) for line in board.read_text().splitlines()]


def price(cost: Fraction, unit: str) -> Fraction:
    """What pure noise of this epsilon costs in the unit of a ledger."""
    return cost if unit == "epsilon" else cost**2 / 2


def race(folder: Path, processes: int, releases: int, unit: str = "epsilon") -> None:
    path, board = folder / "ledger.db", folder / "board"
    cost = Fraction(1, 7)
    each = price(cost, unit)
    Ledger(**{unit: each * releases + each / 2}, path=path).close()
    run(*[("spend", path, board, cost)] * processes)
    published = [line["receipt"] for line in lines(board)]
    with Ledger.open(path) as ledger:
        assert len(published) == releases
        assert ledger.spent.amount == each * releases
        assert len({receipt["hash"] for receipt in published}) == releases
        ledger.verify(*published)


def test_four_processes_publish_exactly_the_cap(tmp_path):
    race(tmp_path, 4, 60)


@pytest.mark.slow
@pytest.mark.parametrize("unit", ["epsilon", "rho"])
def test_sixteen_processes_publish_exactly_the_cap(tmp_path, unit):
    race(tmp_path, 16, 1000, unit)


def invariants(ledger: Ledger, board: list[dict], cost: Fraction) -> Counter:
    """Assert I1 to I4; the states of the spends come back."""
    history = ledger.history()
    assert ledger.spent.amount == cost * len(history) <= ledger.caps.amount  # I1
    keys = [row.key for row in history]
    assert len(keys) == len(set(keys))  # I3
    spends = {row.key: row for row in history}
    values = defaultdict(set)
    published = [line for line in board if "value" in line]
    for line in published:
        values[line["key"]].add(line["value"])
        assert spends[line["key"]].state == "stored"  # I2
        assert ledger.find(line["key"]) == {"value": line["value"]}
        assert line["receipt"]["entry"] == spends[line["key"]].entry
    assert all(len(seen) == 1 for seen in values.values())  # I3
    ledger.verify(*[line["receipt"] for line in published])  # I4
    return Counter(row.state for row in history)


def killed(
    folder: Path, processes: int, kills: int, cap: Fraction, seed: int, unit: str = "epsilon"
) -> None:
    path, board = folder / "ledger.db", folder / "board"
    Ledger(**{unit: cap}, path=path).close()
    run(*[("crash", path, board, 100 * seed + i, kills) for i in range(processes)])
    told = lines(board)
    points = Counter(line["killed"] for line in told if "killed" in line)
    assert sum(points.values()) == processes * kills
    assert set(points) == POINTS
    with Ledger.open(path) as ledger:
        states = invariants(ledger, told, price(Fraction(1, 100), unit))
    assert states["stored"] > 0
    assert states["burned"] > 0
    assert states["pending"] == 0


def test_kills_at_every_point_break_nothing(tmp_path, seed):
    killed(tmp_path, 4, 25, Fraction(1), seed)


@pytest.mark.slow
@pytest.mark.parametrize("cap", [Fraction(2), Fraction(1000)], ids=["tight cap", "wide cap"])
def test_more_than_two_thousand_kills_break_nothing(tmp_path, seed, cap):
    killed(tmp_path, 8, 150, cap, seed)


@pytest.mark.slow
def test_sixteen_processes_and_five_hundred_kills_break_no_cap_on_rho(tmp_path, seed):
    killed(tmp_path, 16, 32, 200 * price(Fraction(1, 100), "rho"), seed, "rho")


def test_the_invariants_catch_planted_faults(tmp_path):
    path = tmp_path / "ledger.db"
    with Ledger(1, path=path) as ledger:
        receipt = ledger.spend(Fraction(1, 100), key="a")
        ledger.store(receipt, {"value": 1})
        good = {"key": "a", "value": 1, "receipt": receipt.to_dict()}
        invariants(ledger, [good], Fraction(1, 100))
        with pytest.raises(AssertionError):
            invariants(ledger, [good | {"value": 2}], Fraction(1, 100))
        with pytest.raises(KeyError):
            invariants(ledger, [good | {"key": "b"}], Fraction(1, 100))
        with pytest.raises(LedgerError, match="not the one on the receipt"):
            ledger.verify(receipt.to_dict() | {"hash": "0" * 64})


def test_a_lock_holder_that_sleeps_is_refused_cleanly(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger(1, path=path).close()
    code = (
        "import os, signal, sys; from tightdp.ledger import Ledger\n"
        "with Ledger.open(sys.argv[1])._store.write():\n"
        "    print('held', flush=True); os.kill(os.getpid(), signal.SIGSTOP)"
    )
    holder = subprocess.Popen([sys.executable, "-c", code, path], stdout=subprocess.PIPE)
    try:
        assert holder.stdout is not None
        holder.stdout.readline()
        with pytest.raises(LedgerError, match="locked"):
            Ledger.open(path, timeout=0.2)
    finally:
        holder.send_signal(signal.SIGCONT)
        holder.communicate()
    with Ledger.open(path) as ledger:
        assert ledger.spend(Fraction(1)).entry.counter == 2


def test_two_processes_with_one_key_spend_once(tmp_path):
    path = tmp_path / "ledger.db"
    Ledger(1, path=path).close()
    code = (
        "import os, sys, time; from tightdp.ledger import Ledger\n"
        "from tightdp.privacy import Guarantee\n"
        "with Ledger.open(sys.argv[1]).charge(Guarantee(epsilon=0.5), key='k') as charge:\n"
        "    if charge.stored is None:\n"
        "        time.sleep(0.3); charge.store({'by': os.getpid()})\n"
        "        print(os.getpid())\n"
        "    else:\n"
        "        print(charge.stored['by'])"
    )
    command = [sys.executable, "-c", code, path]
    racers = [subprocess.Popen(command, stdout=subprocess.PIPE) for _ in range(4)]
    assert len({racer.communicate()[0] for racer in racers}) == 1
    with Ledger.open(path) as ledger:
        assert ledger.spent.epsilon == Fraction(1, 2)
