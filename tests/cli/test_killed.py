"""Killing a release at any point and running it again never spends twice nor answers twice."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections import defaultdict
from fractions import Fraction
from pathlib import Path

import pytest

from tightdp.ledger import Ledger

PROGRAM = Path(__file__).with_name("killed.py")
# at these points the payment is not yet, or the release is already, in the ledger
HARMLESS = ("begun", "inserted", "stored")

pytestmark = pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")


def run(*arguments: object) -> list[dict]:
    done = subprocess.run(
        [sys.executable, str(PROGRAM), *map(str, arguments)],
        capture_output=True,
        text=True,
        timeout=300,
    )
    assert done.returncode == 0, done.stderr
    return [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]


def printed(line: dict) -> dict | None:
    """The document that a child printed whole."""
    text = Path(line["out"]).read_text()
    try:
        return json.loads(text)
    except ValueError:
        return None


def check(lines: list[dict], place: str, releases: int) -> dict:
    """The invariants of all children on one ledger; the last document comes back."""
    answers = defaultdict(set)
    for line in lines:
        document = printed(line)
        if document is None:
            assert line["killed"]  # only who was killed prints half a document, or none
            continue
        for answer in document["answers"]:
            kept = {key: answer[key] for key in answer if key != "state"}
            answers[answer["name"]].add(json.dumps(kept, sort_keys=True))
    assert all(len(different) == 1 for different in answers.values())  # never two answers
    with Ledger.open(Path(place, "ledger.db")) as ledger:
        history = ledger.history()
        ledger.verify()
        spent = ledger.spent.epsilon
    keys = [row.key for row in history]
    assert len(keys) == len(set(keys)) == releases  # never two payments
    assert spent == sum((row.cost.epsilon for row in history), Fraction(0))
    last = printed(lines[-1])
    assert last is not None
    states = {row.key: row.state for row in history}
    assert {a["name"] for a in last["answers"]} == {k for k in keys if states[k] == "stored"}
    assert {a["name"] for a in last["lost"]} == {k for k in keys if states[k] == "burned"}
    return last


def test_killed_at_every_point(tmp_path):
    lines = run("points", tmp_path)
    places = defaultdict(list)
    for line in lines:
        places[line["place"]].append(line)
    assert len(places) == 10
    for place, (first, second, third) in places.items():
        assert first["killed"]
        last = check([first, second, third], place, 3)
        lost = 0 if first["point"] in HARMLESS else 1
        assert len(last["lost"]) == lost
        assert second["code"] == third["code"] == (1 if lost else 0)
        assert "another key" in "".join(item["reason"] for item in last["lost"]) or not lost


def test_together_they_pay_once_and_say_the_same(tmp_path):
    lines = run("together", tmp_path)
    assert [line["code"] for line in lines] == [0, 0, 0]
    check(lines, lines[0]["place"], 6)


def kill_at_times(folder: Path, seed: int, kills: int) -> None:
    lines = run("times", folder, seed, kills)
    killed = sum(line["killed"] for line in lines)
    assert killed >= kills // 2
    last = check(lines, lines[0]["place"], 36)
    assert len(last["lost"]) <= killed  # a kill loses one release at most


@pytest.mark.slow
def test_killed_at_random_times(tmp_path, seed):
    kill_at_times(tmp_path, seed, 8)


@pytest.mark.slow
def test_killed_at_many_random_times(tmp_path, seed):
    kill_at_times(tmp_path, seed, 100)
