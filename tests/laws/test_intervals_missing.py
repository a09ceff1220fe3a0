"""Intervals hold where a fifth of the cells is missing, and for persons with up to five rows."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.mechanisms.groups import GroupMeans, GroupSums, GroupVariances
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.randomness import source

Table = dict[str, Any]
COLUMNS: dict[str, Any] = {"x": tdp.Interval(0, 10), "k": tdp.Category(["a", "b"], other="b")}
LINE = np.array([0.5, 1.0, -0.7])
MISSING = 0.2
MOST_ROWS = 5


def persons(rng: np.random.Generator, rows: int) -> Any:
    """Whose rows they are: one to five of each."""
    return np.repeat(np.arange(rows), rng.integers(1, MOST_ROWS + 1, rows))[:rows]


def schema(columns: Table, rows: int, whom: str) -> tdp.Schema:
    """Rows that are replaced, or persons that are added or removed."""
    if whom == "rows":
        return tdp.Schema(columns, rows)
    return tdp.Schema(
        columns, rows, neighbors="add-remove", person="who", rows_per_person=MOST_ROWS
    )


# --- statistics of the rows -----------------------------------------------------------------------


def skewed(rng: np.random.Generator, rows: int, missing: float) -> Table:
    """A skewed column whose larger cells are missing more often."""
    x = np.minimum(rng.lognormal(0.5, 0.8, rows), 10.0)
    gone = rng.random(rows) < 2 * missing * x.argsort().argsort() / rows
    k = rng.choice(["a", "b"], rows, p=[0.8, 0.2])
    return {"x": np.where(gone, np.nan, x), "k": k, "who": persons(rng, rows)}


TRUTHS = {GroupMeans: np.mean, GroupSums: np.sum, GroupVariances: np.var}


def held(kind: Any, whom: str, by: str | None, rows: int, tables: int, seed: int) -> float:
    """The share of tables of which every interval holds what it is for."""
    missing = MISSING if rows > 100 else 0.8
    rng, bits = np.random.default_rng(seed), source(seed)
    alike = {"per": "person"} if whom == "persons alike" else {}
    mechanism = kind(schema(COLUMNS, rows, whom), "x", by, epsilon=1, missing="drop", **alike)
    count = 0
    for _ in range(tables):
        table = skewed(rng, rows, missing)
        there = ~np.isnan(table["x"])
        groups = [there] if by is None else [there & (table["k"] == level) for level in "ab"]
        truth = []
        for group in groups:
            cells = table["x"][group]
            if alike:  # the means of persons who are there, in each group by itself
                who = table["who"][group]
                _, place = np.unique(who, return_inverse=True)
                cells = np.bincount(place, cells) / np.bincount(place)
            truth += [len(cells), TRUTHS[kind](cells) if len(cells) else np.nan]
        low, high = mechanism.release(table, rng=bits).interval.T
        wanted = np.array(truth)
        count += bool(np.all((low <= wanted) & (wanted <= high) | np.isnan(wanted)))
    return count / tables


CASES = [
    (kind, whom, by, rows)
    for kind in TRUTHS
    for whom in ("rows", "persons")
    for by in (None, "k")
    for rows in (30, 400)
]
CASES += [
    (kind, "persons alike", by, rows) for kind in TRUTHS for by in (None, "k") for rows in (30, 400)
]


@pytest.mark.parametrize(
    ("kind", "whom", "by", "rows"),
    [
        (GroupMeans, "rows", None, 400),
        (GroupMeans, "persons", None, 30),
        (GroupVariances, "rows", None, 400),
    ],
)
def test_intervals_of_rows_that_are_there(kind, whom, by, rows, seed):
    assert held(kind, whom, by, rows, 150, seed) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 150)


@pytest.mark.slow
@pytest.mark.parametrize(("kind", "whom", "by", "rows"), CASES)
def test_the_coverage_of_rows_that_are_there(kind, whom, by, rows, seed):
    assert held(kind, whom, by, rows, 1000, seed) >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 1000)


def test_an_exact_number_of_rows_is_noticed(seed, monkeypatch):
    """The planted fault: intervals of the sum alone, as if the divisor had no noise."""

    whole = GroupMeans._ratio_reach

    def sum_alone(self: Any, column: int, confidence: float, each: int) -> Any:
        form = np.zeros((1, self.statistic.layout.width))
        form[0, column] = 0.25  # nor all of the sum
        alone = self._reach(form, confidence, each)
        return np.broadcast_to(alone, whole(self, column, confidence, each).shape)

    monkeypatch.setattr(GroupMeans, "_ratio_reach", sum_alone)
    assert held(GroupMeans, "rows", None, 400, 150, seed) < 0.8


# --- coefficients of a population -----------------------------------------------------------------

FACTS: dict[str, Any] = {
    "a": tdp.Interval(-1, 1),
    "b": tdp.Interval(-1, 1),
    "y": tdp.Interval(-4, 4),
}


def line(rng: np.random.Generator, rows: int, whom: str) -> Table:
    """Rows of a line; those of a person share features and errors, which is the worst case, and
    whoever has more rows has a steeper line, so that persons alike are not rows alike."""
    who = np.arange(rows) if whom == "rows" else persons(rng, rows)
    people = int(who.max()) + 1
    own = rng.uniform(-1, 1, (people, 2))[who]
    error = rng.normal(0, 0.5, people)[who]
    steeper = STEEPER * (np.bincount(who)[who] - 3) * (whom != "rows")
    y = LINE[0] + own @ LINE[1:] + steeper * own[:, 0] + error
    table = {"a": own[:, 0], "b": own[:, 1], "y": y, "who": who}
    for name in FACTS:
        table[name] = np.where(rng.random(rows) < MISSING / 2, np.nan, table[name])
    return table


STEEPER = 0.3  # the slope of whoever has a row more


def true_line(whom: str, ridge: float = 0.0) -> Any:
    """The coefficients of the population: of its rows, or of persons of whom some row is there."""
    numbers = np.arange(1, MOST_ROWS + 1)
    weights = numbers * 1.0  # of rows, all alike
    if whom == "persons alike":
        weights = 1 - (1 - (1 - MISSING / 2) ** len(FACTS)) ** numbers
    steeper = 0.0 if whom == "rows" else STEEPER * float(weights @ (numbers - 3) / weights.sum())
    slopes = LINE[1:] + np.array([steeper, 0.0])
    return np.array([LINE[0], *slopes / (1 + 3 * ridge)])  # features have the variance 1/3


def line_held(whom: str, rows: int, tables: int, seed: int, **options: Any) -> Any:
    """The share of tables that hold each coefficient, and all of them at once."""
    rng, bits = np.random.default_rng(seed), source(seed)
    facts, stated = schema(FACTS, rows, whom), {"missing": "drop"} | options
    stated |= {"per": "person"} if whom == "persons alike" else {}
    mechanism = LeastSquares(facts, ["a", "b"], "y", epsilon=2, **stated)
    each, together = np.zeros(3), 0
    for _ in range(tables):
        table = line(rng, rows, whom)
        there = ~np.isnan([table[name] for name in FACTS]).any(axis=0)
        many = len(set(table["who"][there].tolist())) if whom == "persons alike" else there.sum()
        truth = true_line(whom, options.get("alpha", 0.0) / many)
        release = mechanism.release(table, rng=bits)
        fit = mechanism.fit(release)
        low, high = fit.intervals(0.05).T
        each += (low <= truth) & (high >= truth)
        low, high = mechanism.answer(release).interval.T
        together += bool(((low <= truth) & (high >= truth)).all())
    return each / tables, together / tables


@pytest.mark.parametrize("whom", ["persons", "persons alike"])
def test_lines_of_persons_are_held(whom, seed):
    """A few tables at every change: 1 in 20 misses, and 4 of 30 are 3 standard errors more."""
    each, together = line_held(whom, 1000, 30, seed)
    assert min(each.min(), together) >= 26 / 30


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.0, 100.0])
@pytest.mark.parametrize("rows", [60, 1000, 10_000])
@pytest.mark.parametrize("whom", ["rows", "persons", "persons alike"])
def test_the_coverage_of_lines(whom, rows, alpha, seed):
    each, together = line_held(whom, rows, 500, seed, alpha=alpha)
    slack = 3 * np.sqrt(0.93 * 0.07 / 500)
    assert each.min() >= 0.93 - slack
    assert together >= 0.93 - slack


@pytest.mark.slow
def test_middles_of_bounds_bias_a_line_and_are_noticed(seed):
    """Why rows are left out: as public values, missing cells pull a slope out of its interval."""
    each, _ = line_held("rows", 10_000, 60, seed, missing=None)
    assert each.min() < 0.5
