"""Law of the ratio for persons: a person more, with more rows than are used, cannot be told.

Every kind of release that protects persons with several rows is a black box here, run from the
table to the numbers that are paid for and stored (what is read off them tells no more), on tables
that differ by a person whose rows are all extreme. See ``test_told_apart.py``, where tables differ
by a row, for what such an audit sees.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from enrolled import schema

import tightdp as tdp
from tightdp.audit import audit
from tightdp.data.persons import FewRows
from tightdp.plans.request import request
from tightdp.randomness import source

FAMILY = 1e-6
QUICK, LONG = 240, 4_000
MOST_ROWS = 5  # of a person that are used
ROWS = 80  # at most, of both tables

KINDS: dict[str, dict[str, Any]] = {
    "mean": {"columns": ["x", "y"]},
    "mean of persons": {"columns": ["x", "y"], "per": "person"},
    "mean of persons who are there": {"columns": ["x"], "per": "person", "missing": "drop"},
    "mean by k": {"columns": ["x"], "by": "k", "missing": "drop"},
    "sum": {"columns": ["x"]},
    "variance": {"columns": ["x"]},
    "variance of persons": {"columns": ["x"], "per": "person"},
    "share": {"column": "x", "low": 3},
    "missing_rate": {"columns": ["x", "k"]},
    "count": {"columns": ["k", "t"]},
    "histogram": {"column": "x", "bins": 4},
    "median": {"column": "x"},
    "quantiles": {"column": "x", "taus": [0.25, 0.5]},
    "find_rows_per_person": {"most": 9, "share": 0.5},
    "linear_regression": {"features": ["x"], "target": "y"},
    "linear_regression of rows that are there": {
        "features": ["x"], "target": "y", "missing": "drop",
    },
    "ridge": {"features": ["x"], "target": "y"},
    "tables": {"tables": ["t", ["k", "t"]]},
}  # fmt: skip


def facts(most: int = MOST_ROWS) -> tdp.Schema:
    columns = schema("add-remove").columns
    return tdp.Schema(columns, ROWS, neighbors="add-remove", person="who", rows_per_person=most)


def tables(seed: int, rows: int = 9) -> tuple[Any, Any]:
    """Persons of one to seven rows, and the same without one of nine, all at the bounds."""
    rng = np.random.default_rng(seed)
    who = np.repeat(np.arange(12), rng.integers(1, 8, 12))[: ROWS - rows]
    common = {
        "x": rng.uniform(0, 10, len(who)).tolist(),
        "y": rng.uniform(-1, 1, len(who)).tolist(),
        "k": rng.choice(["a", "b"], len(who)).tolist(),
        "t": rng.choice(["no", "yes"], len(who)).tolist(),
        "who": who.tolist(),
    }
    more = {"x": 10.0, "y": 1.0, "k": "b", "t": "yes", "who": 99}
    return {name: [*cells, *[more[name]] * rows] for name, cells in common.items()}, common


def release_of(name: str, seed: int) -> Callable[[Any], Any]:
    asked, rng = request(name.split()[0], facts(), epsilon=1, **KINDS[name]), source(seed)
    drawn = asked.mechanism.source.draw
    return lambda table: np.asarray(drawn(table, rng, 0.95, False).integers, dtype=float)


def audited(name: str, releases: int, seed: int) -> Any:
    alpha = FAMILY / len(KINDS)
    pair = tables(seed)
    options = {"epsilon": 1.0, "delta": 1e-3, "releases": releases, "alpha": alpha}
    return audit(release_of(name, seed), *pair, rng=seed, **options)


@pytest.mark.parametrize("name", ["mean of persons", "find_rows_per_person"])
def test_a_person_is_not_told(name, seed):
    assert not audited(name, QUICK, seed).violated


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_person_is_not_told_at_length(name, seed):
    assert not audited(name, LONG, seed).violated


@pytest.mark.slow_for("*mean of persons*")
@pytest.mark.parametrize("name", ["mean of persons", "sum"])
def test_rows_that_nobody_bounds_are_noticed(name, seed, monkeypatch):
    """The fault: all rows of a person count, each as the noise allows for one of few."""
    first = FewRows.__init__

    def unbounded(self: Any, limit: int, width: int, **options: Any) -> None:
        first(self, 1 << 20, width, **options)

    monkeypatch.setattr(FewRows, "__init__", unbounded)
    monkeypatch.setattr(FewRows, "means", FewRows.rows)
    pair = tables(seed, rows=60)
    report = audit(
        release_of(name, seed), *pair, epsilon=1.0, delta=1e-3, releases=QUICK, alpha=1e-6, rng=seed
    )
    assert report.violated
