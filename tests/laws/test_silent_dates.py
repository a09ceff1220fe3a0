"""Law: whatever stands in one cell of a column of dates, a release succeeds and says nothing."""

from __future__ import annotations

import warnings
from typing import Any

import pytest
from containers import KINDS

import tightdp as tdp
from tightdp.date_rule import UNITS
from tightdp.plans import request

ROWS = 12
CELLS = [
    cell for kind in ("object", "instant", "time", "date", "text") for cell in KINDS[kind].cells
]
CELLS += ["13 \u017fep 2014", "13 SEP 2014", "13 sept 2014"]  # a long s, which is an s to some
RULES = {
    "as written": tdp.Date("2014-01-01", "2014-03-31"),
    "in words": tdp.Date("2014-01-01", "2014-03-31", "day", format="%d %b %Y"),
    "stated": tdp.Date("2014-01-01", "2014-03-31", "week", format="%d.%m.%Y", zone="Asia/Tokyo"),
}


def schema(rule: tdp.Date) -> tdp.Schema:
    return tdp.Schema({"d": rule, "x": tdp.Interval(0, 1)}, ROWS)


ASKED: dict[str, dict[str, Any]] = {
    "mean": {"columns": ["d"]},
    "median": {"column": "d"},
    "count": {"columns": ["d"]},
    "histogram": {"column": "d", "bins": 3},
    "share": {"column": "d", "low": "2014-02-01"},
    "tables": {"tables": [["d"]]},
}


@pytest.mark.parametrize("rule", RULES)
@pytest.mark.parametrize("kind", ASKED)
def test_no_cell_of_a_date_stops_a_release_or_is_spoken_of(kind, rule):
    made = request(kind, schema(RULES[rule]), epsilon=1, **ASKED[kind]).mechanism
    plain = {"d": ["2014-02-03"] * ROWS, "x": [0.5] * ROWS}
    names = made.release(plain).names
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for cell in CELLS:
            frame = {**plain, "d": [cell, *plain["d"][1:]]}
            assert made.release(frame).names == names


@pytest.mark.parametrize("unit", UNITS)
def test_one_cell_moves_one_count_of_a_period_and_no_other(unit):
    """The exact move of neighbours, for every odd cell: one group loses the row, one has it."""
    counts = tdp.data.histograms.Histogram(schema(RULES["as written"]), "d", unit)
    rest = ["2014-02-03"] * (ROWS - 1)
    plain = counts.measure({"d": ["2014-02-03", *rest]})
    for cell in CELLS:
        moved = [a - b for a, b in zip(counts.measure({"d": [cell, *rest]}), plain, strict=True)]
        assert sorted(filter(None, moved)) in ([], [-1, 1])
