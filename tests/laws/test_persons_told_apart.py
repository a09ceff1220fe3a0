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
from tightdp.data.person_rows import persons_by_rows
from tightdp.data.persons import FewRows
from tightdp.exact.joint_law import JointLaw
from tightdp.exact.tilted import TiltedLaw
from tightdp.mechanisms.ranks import Ranks
from tightdp.plans.request import request
from tightdp.randomness import source

FAMILY = 1e-6
QUICK, LONG, MANY = 240, 4_000, 40_000
MOST_ROWS = 5  # of a person that are used
ROWS = 80  # at most, of both tables

KINDS: dict[str, dict[str, Any]] = {
    "mean": {"columns": ["x", "y"]},
    "mean of persons": {"columns": ["x", "y"], "per": "person"},
    "mean of persons who are there": {"columns": ["x"], "per": "person", "missing": "drop"},
    "mean by k": {"columns": ["x"], "by": "k", "missing": "drop"},
    "mean of persons by k": {"columns": ["x"], "by": "k", "per": "person"},
    "sum": {"columns": ["x"]},
    "variance": {"columns": ["x"]},
    "variance of persons": {"columns": ["x"], "per": "person"},
    "share": {"column": "x", "low": 3},
    "missing_rate": {"columns": ["x", "k"]},
    "count": {"columns": ["k", "t"]},
    "histogram": {"column": "x", "bins": 4},
    "median": {"column": "x"},
    "median of persons": {"column": "x", "per": "person"},
    "quantiles": {"column": "x", "taus": [0.25, 0.5]},
    "find_rows_per_person": {"most": 30, "share": 0.5},
    "linear_regression": {"features": ["x"], "target": "y"},
    "linear_regression of rows that are there": {
        "features": ["x"], "target": "y", "missing": "drop",
    },
    "linear_regression of persons": {"features": ["x"], "target": "y", "per": "person"},
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


def one_sided(name: str) -> tuple[Any, Any]:
    """Tables that laws of ranks tell apart as well as they can.

    Where the released point is to the left of all rows its score falls by all that one person can
    move it, and to the right it rises by as much: nine rows of a person are added on the left, and
    the left is small, so that what it loses or gains leaves the sum of all weights as it is.
    """
    if name.startswith("find"):
        return {"who": [1, 1, 2]}, {"who": [1, 1]}
    return with_and_without({1: 1.0, 99: 0.0})


def with_and_without(places: dict[int, float]) -> tuple[Any, Any]:
    """Nine rows of each of some persons at one place each; and the same without the last."""
    rows = [(who, x) for who, x in places.items() for _ in range(9)]
    both = {"who": [who for who, _ in rows], "x": [x for _, x in rows]}
    return both, {name: column[:-9] for name, column in both.items()}


ONE_SIDED = {"median", "median of persons", "find_rows_per_person"}


def many_of(name: str, seed: int) -> Callable[..., Any]:
    """Many releases of one table, which is read once: the law of its ranks is drawn from."""
    asked, rng = request(name.split()[0], facts(), epsilon=1, **KINDS[name]), source(seed)
    mechanism: Any = asked.mechanism

    def numbers(table: Any, size: int) -> Any:
        if name.startswith("find"):
            persons = persons_by_rows(table, mechanism.schema, mechanism.most)
            return mechanism.law_on(persons).sample(size, rng)
        ranks = Ranks.of(table, mechanism.schema, "x")
        return mechanism.law_on(ranks).sample(size, rng)

    return numbers


def release_of(name: str, seed: int) -> Callable[..., Any]:
    if name in ONE_SIDED:
        return many_of(name, seed)
    asked, rng = request(name.split()[0], facts(), epsilon=1, **KINDS[name]), source(seed)
    drawn = asked.mechanism.source.draw
    return lambda table: np.asarray(drawn(table, rng, 0.95, False).integers, dtype=float)


def audited(name: str, releases: int, seed: int) -> Any:
    alpha = FAMILY / len(KINDS)
    pair = one_sided(name) if name in ONE_SIDED else tables(seed)
    delta = 0 if name in ONE_SIDED else 1e-3  # pure laws; others may be beyond what is counted
    options = {"epsilon": 1.0, "delta": delta, "releases": releases, "alpha": alpha}
    return audit(release_of(name, seed), *pair, rng=seed, **options)


@pytest.mark.parametrize("name", ["mean of persons", "find_rows_per_person"])
def test_a_person_is_not_told(name, seed):
    assert not audited(name, QUICK, seed).violated


@pytest.mark.slow
@pytest.mark.parametrize("name", KINDS)
def test_a_person_is_not_told_at_length(name, seed):
    assert not audited(name, LONG, seed).violated


@pytest.mark.parametrize("name", sorted(ONE_SIDED))
def test_laws_of_ranks_use_most_of_what_is_paid(name, seed):
    """So that to find no more than was paid for says something."""
    assert 0.5 < audited(name, MANY, seed).epsilon_lower <= 1


@pytest.mark.parametrize("name", sorted(ONE_SIDED))
def test_laws_of_ranks_that_are_too_sharp_are_noticed(name, seed, monkeypatch):
    """The fault: twice the rate, as if a person moved scores by half as much."""
    first = TiltedLaw.__init__
    monkeypatch.setattr(TiltedLaw, "__init__", lambda self, w, k, rate: first(self, w, k, 2 * rate))
    assert audited(name, MANY, seed).violated


def joint_loss(mechanism: Any, both: Any, fewer: Any, seed: int, times: int = 1) -> float:
    """The largest log ratio over all pairs of points, for rows moved alike in their cells."""
    rng, offsets, laws = np.random.default_rng(seed), {}, []
    for table in (both, fewer):
        ranks, moved = Ranks.of(table, mechanism.schema, "x"), []
        for place, rows in zip(ranks.values, np.diff(ranks.upto, prepend=0), strict=True):
            if place not in offsets:
                offsets[place] = rng.integers(0, 1 << mechanism.finer, rows)
            moved += [(int(place) << mechanism.finer) + int(by) for by in offsets[place][:rows]]
        ends = (-ranks.edge << mechanism.finer, (ranks.edge + 1) << mechanism.finer)
        stated = (mechanism.taus, times * mechanism.budget.rate, mechanism.cap)
        laws.append(JointLaw(np.sort(np.array(moved, dtype=np.int64)), *ends, *stated))
    ends, rows = (laws[0].start, laws[0].end), np.array([*laws[0].rows, *laws[1].rows])
    cuts = np.unique([*ends, *np.clip([*rows, *(rows + 1)], *ends)])
    first, long = cuts[:-1], np.diff(cuts).astype(float)
    i, j = np.triu_indices(len(first))
    ways = np.where(i == j, long[i] * (long[i] + 1) / 2, long[i] * long[j])
    logs = []
    for law in laws:
        scores = np.array(
            [law.score(first[[a, b]]) for a, b in zip(i, j, strict=True)], dtype=float
        )
        weights = -float(law.rate) * scores
        logs.append(weights - np.log(ways @ np.exp(weights)))
    return float(abs(logs[0] - logs[1]).max())


def test_quantiles_that_are_drawn_together_use_most_of_what_is_paid(seed):
    """By their exact law, for the worst of a search over persons at few places."""
    asked: Any = request("quantiles", facts(), epsilon=1, **KINDS["quantiles"]).mechanism
    pair = with_and_without({1: 0.0, 2: 3.0, 3: 10.0, 99: 1.0})
    assert 0.8 < joint_loss(asked, *pair, seed) <= 1
    assert joint_loss(asked, *pair, seed, times=2) > 1.2  # the fault, as above


@pytest.mark.slow_for("*mean of persons*")
@pytest.mark.parametrize("name", ["mean of persons", "sum"])
def test_rows_that_nobody_bounds_are_noticed(name, seed, monkeypatch):
    """The fault: all rows of a person count, each as the noise allows for one of few."""
    first = FewRows.__init__

    def unbounded(self: Any, limit: int, width: int, **options: Any) -> None:
        first(self, 1 << 20, width, **options)

    monkeypatch.setattr(FewRows, "__init__", unbounded)
    monkeypatch.setattr(FewRows, "means", lambda self, *_: self.rows())
    pair = tables(seed, rows=60)
    report = audit(
        release_of(name, seed), *pair, epsilon=1.0, delta=1e-3, releases=QUICK, alpha=1e-6, rng=seed
    )
    assert report.violated
