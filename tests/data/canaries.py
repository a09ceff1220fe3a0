"""Cells that must never be seen in an error or on a screen."""

from __future__ import annotations

import datetime
import traceback
from typing import Any

from tightdp.data.blocks import Block
from tightdp.schema import Category, Interval, Schema

# --- errors: names and types, never cells --------------------------------------------------------

CANARY, CANARY_TEXT = 31415926.5, "canary-7f3a"
MARKS = ("31415926", CANARY_TEXT, "1943-02-17")


def canary_table(rows: int = 3) -> dict[str, list[Any]]:
    return {
        "x": [CANARY] * rows,
        "t": [CANARY_TEXT] * rows,
        "k": [CANARY_TEXT] * rows,
        "day": [datetime.date(1943, 2, 17)] * rows,
    }


CANARY_SCHEMA = Schema(
    {
        "x": Interval(0, 1),
        "t": Interval(0, 1),
        "k": Category(["a", "b"], other="a"),
        "day": Interval(0, 1),
        "absent": Interval(0, 1),
    },
    rows=3,
)


def loud(block: Block) -> Any:
    raise ValueError(f"{CANARY_TEXT} {CANARY} {block['x']}")


def quiet(error: BaseException, *texts: str) -> None:
    """No cell in the words of an error, of its causes, or in anything printed."""
    told = ["".join(traceback.format_exception(error)), str(error), repr(error), *texts]
    assert error.__cause__ is None
    assert error.__context__ is None
    for mark in MARKS:
        for text in told:
            lines = [line for line in text.splitlines() if not line.startswith("    ")]
            assert mark not in "\n".join(lines)  # indented lines are source, not cells
