"""A page that is stopped while it releases: what is paid for is finished, nothing more is paid."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
import time
import urllib.request
from pathlib import Path

import pytest
from tests.web.conftest import COUNT, MEAN, plan

from tightdp.ledger import Ledger

PROGRAM = Path(__file__).with_name("killed_page.py")


def is_paid(place: Path) -> bool:
    """Whether something is written into a ledger that another process makes."""
    if not place.exists():
        return False
    with Ledger.open(place, read_only=True) as book:
        return bool(book.history())


@pytest.mark.parametrize("sent", [signal.SIGTERM, signal.SIGINT])
def test_a_request_to_stop_loses_nothing_that_is_paid_for(folder, sent):
    with subprocess.Popen(
        [sys.executable, str(PROGRAM), "slow", str(folder / "plan.toml")],
        stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True,
    ) as program:  # fmt: skip
        address, _, token = program.stdout.readline().strip().partition("#token=")
        body = {"file": "plan.toml", "plan": plan(MEAN, COUNT), "agreed": ["means", "answers"]}
        asked = urllib.request.Request(
            f"{address}api/release", json.dumps(body).encode(), {"x-tightdp": token}
        )
        urllib.request.urlopen(asked).close()
        ledger = folder / "survey.ledger"
        end = time.monotonic() + 60
        while not is_paid(ledger) and time.monotonic() < end:
            time.sleep(0.02)
        program.send_signal(sent)  # paid for, and not released yet
        assert program.wait(20) == 0
    with Ledger.open(ledger, read_only=True) as book:
        assert [(row.key, row.state) for row in book.history()] == [("means", "stored")]
