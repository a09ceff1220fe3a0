"""A table to try the page with: made up, of nobody, and with the public facts that go with it."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightdp.errors import fail
from tightdp.paths import read_file, write_whole
from tightdp.randomness import source
from tightdp.web.workspace import Workspace

_ROWS, _SEED = 2000, 20
_REGIONS = ("north", "east", "south", "west")
_TABLE, _PLAN = "demo.csv", "demo.toml"

DEMO: dict[str, Any] = {
    "title": "A made-up survey",
    "data": {"file": _TABLE},
    "schema": {
        "rows": _ROWS,
        "neighbors": "replace-one",
        "columns": {
            "age": {"low": 18, "high": 98},
            "hours": {"low": 0, "high": 60},
            "pay": {"low": 0, "high": 6000},
            "region": {"levels": list(_REGIONS), "other": "north"},
            "smoker": {"levels": ["no", "yes"], "other": "no"},
        },
    },
    "budget": {"epsilon": 2, "ledger": "demo.ledger", "confidence": 0.95},
    "releases": [],
}


def write_demo(space: Workspace) -> dict[str, Any]:
    """Write the table beside the plan, and give the plan with its public facts."""
    place, text = space.place(_TABLE, "file"), demo_table()
    if not place.exists():
        write_whole("demo", place, text)
    elif read_file("demo", place) != text:
        fail(f"There is a file {_TABLE} already, and it is not the demo: rename it first.")
    plan = space.place(_PLAN, "plan")  # that of another time may be written over
    base = space.opened(_PLAN)["base"] if plan.exists() else None
    return {"file": _PLAN, "plan": DEMO, "base": base}


def demo_table() -> str:
    """The rows of a survey that nobody answered.

    >>> demo_table().splitlines()[0], len(demo_table().splitlines())
    ('age,hours,pay,region,smoker', 2001)
    """
    rng = source(_SEED)
    age = np.clip(np.round(47 + 17 * rng.normal(_ROWS)), 18, 98).astype(int)
    hours = np.clip(np.round(34 + 10 * rng.normal(_ROWS)), 0, 60).astype(int)
    pay = 18 * age + 55 * hours + 420 * rng.normal(_ROWS)
    pay = np.clip(np.round(pay, -1), 0, 6000).astype(int)
    region = np.array(_REGIONS)[rng.categorical(np.array([4.0, 3.0, 2.0, 1.0]), _ROWS)]
    smoker = np.where(rng.uniform(_ROWS) < 0.12 + 0.0015 * age, "yes", "no")
    rows = zip(age, hours, pay, region, smoker, strict=True)
    return "\n".join(["age,hours,pay,region,smoker", *(",".join(map(str, r)) for r in rows)]) + "\n"
