"""What is printed beside an interval lies in it, whatever the noise, for all that is enrolled.

Rows are all alike, so that counts are 0 or all rows: there noise takes every other count beyond
what can be, and intervals are cut.
"""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
from enrolled import RELATED, ROWS, mapping, plain_rows

import tightdp as tdp
from tightdp.errors import FloatArray
from tightdp.inference import coefficient_intervals
from tightdp.mechanisms import additive, linear_fit
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.plans.request import request
from tightdp.printed import value_and_interval

DRAWS = 3  # a count of 0 or all rows is beyond what can be in half of them
ENDS = re.compile(r"\[(\S+) to (\S+)\]")


def alike() -> dict[str, list[Any]]:
    """The first of the common rows, over and over."""
    return mapping(plain_rows(np.random.default_rng(0), 1) * ROWS)


def outside(names: Any, values: Any, ends: Any, unknown: Any) -> list[str]:
    """The entries whose printed value is not in their printed interval."""
    found = []
    for name, value, interval in zip(names, values, np.asarray(ends), strict=True):
        if name in unknown or np.isnan(interval).any():
            continue
        shown, printed = value_and_interval(float(value), interval)
        low, high = (float(end.replace(",", "")) for end in ENDS.search(printed).groups())
        if not (
            interval[0] <= value <= interval[1] and low <= float(shown.replace(",", "")) <= high
        ):
            found.append(f"{name}: {shown} {printed}")
    return found


def told(mechanism: Any, frame: Any, draws: int, seed: int) -> list[str]:
    """What a release and the answer made of it say, where a value is not in its interval."""
    found = []
    for draw in range(draws):
        release = mechanism.release(frame, rng=np.random.default_rng([seed, draw]))
        for made in (release, mechanism.answer(release)):
            found += outside(made.names, made.value, made.interval, made.unknown)
    return found


@pytest.mark.parametrize(("case", "relation"), RELATED, ids=lambda part: str(part))
def test_a_printed_value_lies_in_its_printed_interval(case, relation, seed):
    mechanism = case.build(relation)
    assert not told(mechanism, alike(), DRAWS if case.quick else 1, seed)


BOOK = {
    "whole": {"whole": True},
    "whole, in rho": {"whole": True, "rho": 0.1},
    "alone": {},
}


@pytest.mark.parametrize("options", BOOK.values(), ids=BOOK)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_cells_of_books_lie_in_their_intervals(options, relation, seed):
    """Rounded counts, and the intervals of each cell for itself."""
    facts = {
        "k": tdp.Category(["a", "b", "c"], other="a"),
        "t": tdp.Category(["u", "v"], other="u"),
    }
    schema = tdp.Schema(facts, ROWS, neighbors=relation)
    budget = {} if "rho" in options else {"epsilon": 1}
    book = tdp.Tables(schema, [["k", "t"], ["t"]], **options, **budget)
    for draw in range(20):
        release = book.release({"k": ["b"] * ROWS, "t": ["u"] * ROWS}, rng=seed + draw)
        for together in (True, False):
            for sides in (("k", "t"), ("t",)):
                found = release.table(*sides, simultaneous=together)
                assert not outside(found.names, found.value, found.interval, found.unknown)


@pytest.mark.parametrize("bounds", [(100, 101), (-101, -100)])
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_sums_of_a_book_lie_in_their_intervals(bounds, relation, seed):
    """Of numbers far from 0 in empty groups: counts were cut for the ends, not for the value."""
    facts = {"k": tdp.Category(list("abcdef"), other="a"), "x": tdp.Interval(*bounds)}
    schema = tdp.Schema(facts, ROWS, neighbors=relation)
    book = tdp.Tables(schema, [["k"]], sums=[("x", ["k"])], epsilon=0.5)
    assert not told(book, {"k": ["a"] * ROWS, "x": [bounds[0] + 0.5] * ROWS}, 10, seed)
    release = book.release({"k": ["a"] * ROWS, "x": [bounds[0]] * ROWS}, rng=seed)
    alone = release.table("k", "sum", simultaneous=False)
    assert not outside(alone.names, alone.value, alone.interval, alone.unknown)


CUT = {
    "mean": ({"columns": ["x"]}, (0, 10)),
    "mean per person": ({"columns": ["x"], "per": "person"}, (0, 10)),
    "mean of rows that are there": ({"columns": ["x"], "missing": "drop"}, (0, 10)),
    "missing_rate": ({"columns": ["x"]}, (0, 1)),
    "share": ({"column": "x", "high": 5}, (0, 1)),
}


@pytest.mark.parametrize(
    ("what", "relation"),
    [
        (what, relation)
        for what in CUT
        for relation in ("replace-one", "add-remove")
        if "person" not in what or relation == "add-remove"  # persons come and go
    ],
)
def test_means_and_shares_end_at_their_bounds(what, relation, seed):
    """Of rows at a bound, where half of the noise is beyond it."""
    options, (least, most) = CUT[what]
    persons = {"person": "who"} if "person" in what else {}
    schema = tdp.Schema({"x": tdp.Interval(0, 10)}, ROWS, neighbors=relation, **persons)
    asked = request(what.split()[0], schema, epsilon=1, **options)
    for draw in range(20):
        release = asked.release({"x": [0] * ROWS, "who": [*range(ROWS)]}, rng=seed + draw)
        low, high = release.interval[-1]
        assert least <= low <= release.value[-1] <= high <= most
        assert low < high or release.value[-1] == low


REGRESSIONS: dict[str, dict[str, Any]] = {
    **{post: {"post": post} for post in ("shrink", "none", "published")},
    "ridge": {"alpha": 30.0},
    "no intercept": {"fit_intercept": False},
    "rows that are there": {"missing": "drop"},
}


def alike_columns(relation: str, seed: int) -> tuple[tdp.Schema, dict[str, Any]]:
    """Two features of correlation .95, with little to tell them apart, of persons with 2 rows."""
    rng = np.random.default_rng(seed)
    common, own = rng.normal(0, 0.3, 400), rng.normal(0, 0.07, (2, 400))
    table = {"a": common + own[0], "b": common + own[1], "y": 0.5 * own[0] / 0.07}
    persons = {"person": "who", "rows_per_person": 2} if relation == "add-remove" else {}
    facts = {name: tdp.Interval(-1, 1) for name in table}
    return tdp.Schema(facts, 400, neighbors=relation, **persons), {
        **table,
        "who": [*range(200)] * 2,
    }


def regression_outside(options: dict[str, Any], relation: str, seed: int) -> list[str]:
    schema, table = alike_columns(relation, seed)
    found = []
    for epsilon in (0.05, 2.0, 20.0):
        mechanism = LeastSquares(schema, ["a", "b"], "y", epsilon=epsilon, **options)
        for draw in range(3):
            fit = mechanism.fit(mechanism.release(table, rng=seed + draw))
            for assume, together in [(None, True), ("equal variance", False)]:
                ends = fit.intervals(0.05, simultaneous=together, assume=assume)
                found += outside(mechanism.design.names, fit.coefficients, ends, ())
    return found


@pytest.fixture
def few_candidates(monkeypatch):
    """As many as show an interval: the law is the same for more."""
    for name in ("_MOST", "_FEWEST"):
        monkeypatch.setattr(coefficient_intervals, name, 80)


@pytest.mark.parametrize("options", REGRESSIONS.values(), ids=REGRESSIONS)
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.usefixtures("few_candidates")
def test_coefficients_lie_in_their_intervals(options, relation, seed):
    """However much is shrunk, and however alike the columns are."""
    assert not regression_outside(options, relation, seed)


@pytest.mark.usefixtures("few_candidates")
def test_intervals_that_do_not_reach_to_their_coefficients_are_noticed(monkeypatch, seed):
    """The fault: intervals about the noise alone, beside shrunk coefficients."""
    monkeypatch.setattr(linear_fit, "holding", lambda values, bounds: bounds)
    assert regression_outside({"post": "published"}, "replace-one", seed)


def test_intervals_that_are_cut_without_their_value_are_noticed(monkeypatch, seed):
    """The fault: what was there before, intervals between 0 and all rows whatever the noise."""

    def cut(value: FloatArray, half: FloatArray, most: int, shown: Any = None) -> FloatArray:
        return np.clip(np.column_stack([value - half, value + half]), 0.0, float(most))

    monkeypatch.setattr(additive, "possible_counts", cut)
    schema = tdp.Schema({"k": tdp.Category(["a", "b", "c"], other="a")}, ROWS)
    counts = tdp.AdditiveMechanism(tdp.Counts(schema, ["k"]), epsilon=1)
    assert told(counts, {"k": ["b"] * ROWS}, 20, seed)
