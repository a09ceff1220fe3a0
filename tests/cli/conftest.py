"""A folder with a table, its schema and a plan, in which commands are run."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from tightdp.cli import main

SCHEMA = """\
rows = 100
[columns.age]
low = 0
high = 100
[columns."pay (EUR)"]
low = 0
high = 10
[columns.answer]
levels = ["no", "yes"]
other = "no"
"""

PLAN = """\
title = "A survey"
[data]
file = "survey.csv"
[schema]
file = "schema.toml"
[budget]
epsilon = 2
ledger = "survey.ledger"
[[releases]]
name = "means"
kind = "mean"
weight = 1
[[releases]]
name = "answers"
kind = "count"
columns = ["answer"]
weight = 1
"""


class Said(NamedTuple):
    """What a command printed, and its exit code."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return json.loads(self.out)


@pytest.fixture
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder, as the current one."""
    rows = [f"{i},{i / 10:.1f},{'yes' if i % 3 else 'no'}" for i in range(100)]
    (tmp_path / "survey.csv").write_text("age,pay (EUR),answer\n" + "\n".join(rows) + "\n")
    (tmp_path / "schema.toml").write_text(SCHEMA)
    (tmp_path / "plan.toml").write_text(PLAN)
    monkeypatch.chdir(tmp_path)
    return tmp_path


@pytest.fixture
def tightdp(here: Path, capsys: pytest.CaptureFixture[str]) -> Callable[..., Said]:
    """Runs the command in the folder."""

    def run(*words: str) -> Said:
        code = main(words)
        return Said(int(code), *capsys.readouterr())

    return run
