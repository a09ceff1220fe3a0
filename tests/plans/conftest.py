"""A table of 200 rows with messy cells, and plans on it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

HEAD = """\
[data]
file = "table.csv"
[schema]
rows = 200
[schema.columns.age]
low = 0
high = 100
[schema.columns.pay]
low = 0
high = 10
[schema.columns.region]
levels = ["north", "south", "west"]
other = "north"
[schema.columns.answer]
levels = ["no", "yes"]
other = "no"
[budget]
epsilon = 4
ledger = "ledger.db"
"""

MEAN = """\
[[releases]]
name = "means"
kind = "mean"
columns = ["age"]
weight = 1
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    """A folder with the table."""
    regions = ["north", "south", "west", " North", "", "moon"]
    messy = ["", "n/a", "1e9", '"12,5"', "-7"]
    rows = [
        f"{messy[i % 5] if i % 11 == 0 else i / 2},{i % 10}.5,{regions[i % 6]},"
        f"{'yes' if i % 3 else 'no'},p{i % 70}"
        for i in range(200)
    ]
    (tmp_path / "table.csv").write_text("age,pay,region,answer,who\n" + "\n".join(rows) + "\n")
    return tmp_path


@pytest.fixture
def plan(folder: Path) -> Callable[..., Path]:
    """Writes a plan; its path comes back."""

    def write(releases: str = MEAN, head: str = HEAD, name: str = "plan.toml") -> Path:
        (folder / name).write_text(head + releases)
        return folder / name

    return write
