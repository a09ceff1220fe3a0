"""Runs ``tightdp release`` in children that are killed; started by the tests as a program.

``killed.py points FOLDER``: children for every named point of the protocol, each on a ledger of its
own. ``killed.py times FOLDER SEED KILLS``: children on one ledger, killed after random times until
so many were. ``killed.py together FOLDER``: three at once, nobody killed. Every child writes what
it prints to a file of its own; a line of JSON says where it was to die, whether it did, and the
file.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sys
import time
from pathlib import Path

from tightdp.cli.main import main
from tightdp.ledger import store

POINTS = ("begun", "inserted", "committed", "storing", "stored")
RELEASES, COPIES = 3, 12
PLAN = """
[data]
file = "../table.csv"
[schema]
rows = 60
columns.age = {low = 0, high = 100}
columns.pay = {low = 0, high = 10}
columns.answer = {levels = ["no", "yes"], other = "no"}
[budget]
epsilon = "RELEASES"
ledger = "ledger.db"
"""
BODY = """
[[releases]]
name = "mean N"
kind = "mean"
weight = 1
[[releases]]
name = "answers N"
kind = "count"
weight = 1
[[releases]]
name = "median N"
kind = "median"
column = "age"
interval = "sample"
weight = 1
"""


def write(folder: Path, copies: int) -> str:
    """A plan with so many copies of three releases, and its table."""
    folder.mkdir()
    rows = [f"{i},{i / 7:.1f},{'yes' if i % 3 else 'no'}" for i in range(60)]
    (folder.parent / "table.csv").write_text("age,pay,answer\n" + "\n".join(rows) + "\n")
    text = PLAN.replace("RELEASES", str(copies)) + "".join(
        BODY.replace("N", str(i)) for i in range(copies)
    )
    (folder / "plan.toml").write_text(text)
    return str(folder / "plan.toml")


def child(plan: str, out: Path, point: str | None, turn: int) -> int:
    """Fork; the child releases, and dies when it arrives at the point for the turn-th time."""
    handle = os.open(out, os.O_WRONLY | os.O_CREAT)  # before: it may be killed at once
    pid = os.fork()
    if pid:
        os.close(handle)
        return pid
    seen = 0

    def arrive(name: str) -> None:
        nonlocal seen
        seen += name == point
        if name == point and seen == turn:
            os.kill(os.getpid(), signal.SIGKILL)

    store._checkpoint = arrive
    os.dup2(handle, 1)
    os._exit(main(["release", plan, "--json"]))


def end(pid: int, out: Path, **what: object) -> bool:
    _, status = os.waitpid(pid, 0)
    killed = os.WIFSIGNALED(status)
    code = None if killed else os.WEXITSTATUS(status)
    print(json.dumps({"out": str(out), "killed": killed, "code": code, **what}), flush=True)
    return killed


def together(folder: Path) -> None:
    """Three children at once."""
    place = folder / "together"
    plan = write(place, 2)
    outs = [place / f"out{i}" for i in range(3)]
    running = [(child(plan, out, None, 0), out) for out in outs]
    for pid, out in running:
        end(pid, out, place=str(place))


def points(folder: Path) -> None:
    for point in POINTS:
        for turn in (1, RELEASES):
            place = folder / f"{point}{turn}"
            plan = write(place, 1)
            for attempt, at in enumerate((point, None, None)):
                out = place / f"out{attempt}"
                end(child(plan, out, at, turn), out, place=str(place), point=point, turn=turn)


def times(folder: Path, seed: int, kills: int) -> None:
    rng, place = random.Random(seed), folder / "times"
    plan, killed, attempt, longest = write(place, COPIES), 0, 0, 0.25
    while killed < kills and attempt < 4 * kills:
        out = place / f"out{attempt}"
        pid = child(plan, out, None, 0)
        time.sleep(rng.uniform(0.02, longest))
        os.kill(pid, signal.SIGKILL)
        killed += end(pid, out, place=str(place))
        attempt += 1
    for _ in range(2):
        out = place / f"out{attempt}"
        end(child(plan, out, None, 0), out, place=str(place))
        attempt += 1


if __name__ == "__main__":
    main(["kinds", "--quiet"])  # what is imported late is imported before the forks
    import tightdp.report  # noqa: F401

    if sys.argv[1] == "points":
        points(Path(sys.argv[2]))
    elif sys.argv[1] == "together":
        together(Path(sys.argv[2]))
    else:
        times(Path(sys.argv[2]), int(sys.argv[3]), int(sys.argv[4]))
