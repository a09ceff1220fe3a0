"""Processes that use, race on and die in a ledger; started by the tests as a program.

``workers.py spend PATH BOARD COST``: spends without a key until the budget is empty, and publishes.
``workers.py crash PATH BOARD SEED KILLS``: forks children that ask for keys and are killed at named
points, until so many were killed. What is published goes to BOARD, a file of JSON lines.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
from fractions import Fraction

from tightdp.errors import BudgetError, BurnedError, PendingError
from tightdp.ledger import Ledger, store

POINTS = ("begun", "inserted", "committed", "computed", "storing", "stored", "published")
KEYS = 400
COST = Fraction(1, 100)
PATIENCE = 30.0  # seconds, as by default: nobody may wait longer, also on a busy machine


def publish(board: str, line: dict[str, object]) -> None:
    """One line, written at once."""
    handle = os.open(board, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(handle, (json.dumps(line) + "\n").encode())
    os.close(handle)


def spend(path: str, board: str, cost: Fraction) -> None:
    ledger = Ledger.open(path, timeout=PATIENCE)
    while True:
        try:
            receipt = ledger.spend(cost)
        except BudgetError:
            return
        ledger.store(receipt, {"value": receipt.entry.counter})
        publish(board, {"receipt": receipt.to_dict()})


def answer(path: str, board: str, key: str, point: str | None) -> None:
    """Ask for one key, and die at one point."""

    def arrive(name: str) -> None:
        if name == point:
            os.kill(os.getpid(), signal.SIGKILL)

    store._checkpoint = arrive
    ledger = Ledger.open(path, timeout=PATIENCE)
    try:
        receipt = ledger.spend(COST, key=key, label="a count")
    except (BudgetError, BurnedError, PendingError) as refusal:
        publish(board, {"key": key, "refused": type(refusal).__name__})
        return
    record = receipt.stored
    if record is None:
        drawn = {"value": int.from_bytes(os.urandom(8), "big")}
        arrive("computed")
        record = ledger.store(receipt, drawn)
    publish(board, {"key": key, "value": record["value"], "receipt": receipt.to_dict()})
    arrive("published")


def crash(path: str, board: str, seed: int, kills: int) -> None:
    draw = random.Random(seed)
    while kills:
        key = f"key {draw.randrange(KEYS)}" if draw.random() < 0.5 else f"{seed}/{draw.random()}"
        point = draw.choice([*POINTS, None])
        child = os.fork()
        if child == 0:
            answer(path, board, key, point)
            os._exit(0)
        status = os.waitpid(child, 0)[1]
        if os.WIFSIGNALED(status):
            publish(board, {"killed": point})
            kills -= 1
        elif status:
            sys.exit("a child failed")


if __name__ == "__main__":
    task, path, board, *rest = sys.argv[1:]
    if task == "spend":
        spend(path, board, Fraction(rest[0]))
    else:
        crash(path, board, int(rest[0]), int(rest[1]))
