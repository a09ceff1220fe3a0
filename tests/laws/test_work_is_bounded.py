"""Law: a release that is paid for ends, whatever the rows.

Every mechanism of the table is released on rows that break samplers: all equal, two values, all at
a bound, on a line, one row, none, far more than was stated. Each has twenty seconds of computing
before a clock interrupts it; nearly all take milliseconds.
"""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest
from enrolled import MECHANISMS, RELATED, ROWS, Case, mapping, mechanisms

import tightdp as tdp
from tightdp.geometry.sensitivity import certify_contains

SECONDS = 20


class TooLongError(BaseException):
    """The clock has run down; nobody who withholds the errors of a user's function withholds it."""


@contextmanager
def clock(seconds: int) -> Iterator[None]:
    """Interrupts what computes for longer, however busy the machine is."""

    def ring(*_: Any) -> None:
        raise TooLongError

    before = signal.signal(signal.SIGPROF, ring)
    signal.setitimer(signal.ITIMER_PROF, seconds)
    try:
        yield
    finally:
        signal.setitimer(signal.ITIMER_PROF, 0)
        signal.signal(signal.SIGPROF, before)


def row(x: float, y: float, k: str = "a", t: str = "no") -> dict[str, Any]:
    return {"x": x, "y": y, "k": k, "t": t}


ONE, TWO = row(3.0, 0.25), row(7.5, -0.5, "b", "yes")
FIXED = {
    "equal": [ONE] * ROWS,
    "two": [ONE] * (ROWS // 2) + [TWO] * (ROWS - ROWS // 2),
    "one against many": [TWO] + [ONE] * (ROWS - 1),
    "low": [row(0.0, -1.0)] * ROWS,
    "high": [row(10.0, 1.0, "c", "yes")] * ROWS,
    "ends": [row(0.0, 1.0), row(10.0, -1.0, "c", "yes")] * (ROWS // 2),
    "line": [row(10 * i / ROWS, 2 * i / ROWS - 1) for i in range(ROWS)],
    "missing": [row(float("nan"), float("nan"), "?", "?")] * ROWS,
}
OTHER_NUMBERS = {"none": [], "single": [ONE], "far more": [ONE, TWO] * (20 * ROWS)}


def tables(relation: str) -> dict[str, list[dict[str, Any]]]:
    """Under add-remove the number of rows is private, so any may come."""
    return FIXED | OTHER_NUMBERS if relation == "add-remove" else FIXED


def late(mechanism: Any, rows: dict[str, list[dict[str, Any]]], seed: int) -> list[str]:
    """The tables on which a release does not end in time."""
    found = []
    for name, table in rows.items():
        try:
            with clock(SECONDS):
                mechanism.release(mapping(table), rng=seed)
        except TooLongError:
            found.append(name)
    return found


def test_every_mechanism_is_looked_at() -> None:
    assert mechanisms() == set(MECHANISMS)
    assert {case.name for case, _ in RELATED} == {
        case.name for cases in MECHANISMS.values() for case in cases if case.relations
    }


def marked() -> list[Any]:
    """Noise that is added is drawn before the rows are read: one shape of each is quick enough."""
    plain = [case for case in MECHANISMS[tdp.AdditiveMechanism] if not case.name.endswith("best")]
    return [
        pytest.param(case, relation, marks=pytest.mark.slow if case in plain else [])
        for case, relation in RELATED
    ]


@pytest.mark.parametrize(("case", "relation"), marked(), ids=str)
def test_every_release_ends(case: Case, relation: str, seed: int) -> None:
    assert late(case.build(relation), tables(relation), seed) == []


def test_a_planted_endless_draw_is_caught(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A sampler that waits for two equal rows to differ."""
    monkeypatch.setattr(f"{__name__}.SECONDS", 1)

    def waits(frame: Any) -> list[int]:
        while len(set(frame["x"])) < 2:
            pass
        return [0, 1]

    mechanism = tdp.ExponentialMechanism(["a", "b"], waits, sensitivity=1, epsilon=1)
    assert late(mechanism, {k: FIXED[k] for k in ("equal", "two")}, seed) == ["equal"]


HARD = {
    "99 quantiles": lambda facts: tdp.KNormQuantiles(
        facts, "x", [i / 100 for i in range(1, 100)], epsilon=1
    ),
    "regression quantile": lambda facts: tdp.KNormQuantileRegression(
        facts, features=["x"], target="y", epsilon=10, tau=0.1
    ),
    "geometric median": lambda facts: tdp.KNormGeometricMedian(
        facts, columns=["x", "y"], epsilon=10
    ),
    "radius": lambda facts: tdp.KNormGeometricMedian(
        facts, columns=["x", "y"], epsilon=10, interval="sample"
    ),
}


@pytest.mark.slow
@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("name", HARD)
def test_large_requests_end(name: str, relation: str, seed: int) -> None:
    """With default grids, many levels and forty times the rows."""
    facts = tdp.Schema(
        {"x": tdp.Interval(0, 10), "y": tdp.Interval(-1, 1)}, rows=40 * ROWS, neighbors=relation
    )
    rng = np.random.default_rng(seed)
    wide = {kind: rows * 40 for kind, rows in FIXED.items() if kind != "missing"}
    wide["atoms"] = [row(float(x), float(y)) for x, y in rng.integers(0, 2, (40 * ROWS, 2))]
    assert late(HARD[name](facts), wide, seed) == []


@pytest.mark.parametrize("noise", ["best", "laplace", "l2"])
def test_a_margin_beside_a_table_is_measured_at_once(noise: str) -> None:
    """One linear program for each of 2016 differences took minutes; none of them is needed."""
    levels = tdp.Category(list("abcd"), other="d")
    facts = tdp.Schema(dict.fromkeys("pqr", levels), rows=100)
    with clock(8):
        counts = tdp.Counts(facts, ["q", "q:p:r"])
        tdp.AdditiveMechanism(counts, noise=noise, epsilon=1)
    space = counts.sensitivity_space()
    np.testing.assert_allclose(space.hull().support(np.eye(space.dim)), 1.0, rtol=1e-9)
    assert [float(space.sensitivity(p=p)) for p in (1, 2, np.inf)] == pytest.approx([4, 2, 1])


def test_a_margin_beside_a_table_of_512_cells_has_a_best_noise() -> None:
    """Its diamond of radius 2 was measured by floats, found too small by 5e-10, and refused."""
    levels = tdp.Category(list("abcdefgh"), other="h")
    facts = tdp.Schema(dict.fromkeys("pqr", levels), rows=1000, neighbors="add-remove")
    with clock(8):
        mechanism = tdp.AdditiveMechanism(
            tdp.Counts(facts, ["q", "q:p:r"]), noise="best", epsilon=1
        )
    assert mechanism.certified == "by structure"
    space = mechanism.statistic.sensitivity_space()
    for radius, inside in ((2.0, True), (2.0 - 1e-9, False)):
        assert bool(certify_contains(tdp.LpBall(space.dim, 1, radius), space)) == inside


def test_a_steep_geometric_median_of_a_hundred_times_the_rows_ends(seed: int) -> None:
    """Directions truncated more coarsely than the grid left thousands of points to tell apart."""
    facts = tdp.Schema(
        {"x": tdp.Interval(0, 1), "y": tdp.Interval(0, 1)}, rows=300, neighbors="add-remove"
    )
    mechanism = tdp.KNormGeometricMedian(facts, epsilon=1024, interval="sample")
    x, y = np.random.default_rng(seed).uniform(0, 1, (2, 30_000))
    with clock(SECONDS):
        mechanism.release({"x": x, "y": y}, rng=seed)


def median_tables(rows: int, columns: int, seed: int) -> dict[str, Any]:
    """Where the sum of distances is flat along a line, or has its least value in a corner."""
    rng = np.random.default_rng(seed)
    way, half = rng.normal(size=columns), (np.arange(rows) % 2 == 0)[:, None]
    way /= np.abs(way).max()
    along = np.outer(rng.uniform(-1, 1, rows), way)
    two = np.where(half, 0.83 * way, -0.71 * way)
    three = np.array([0.83 * way, -0.71 * way, rng.uniform(-1, 1, columns)])
    even = rng.uniform(-1, 1, (rows, columns))
    return {
        "line": 0.9 * along,
        "near a line": 0.9 * along + rng.normal(0, 1e-4, (rows, columns)),
        "two values": two,
        "two tight heaps": two + rng.normal(0, 1e-5, (rows, columns)),
        "three values": three[np.arange(rows) % 3],
        "more than half in one place": np.where(rng.random((rows, 1)) < 0.6, 0.3 * way, even),
        "even": even,
    }


@pytest.mark.slow_for("1000000-*", "100000-*", "20000-*")
@pytest.mark.parametrize(
    ("rows", "columns", "epsilon"),
    [(4_000, 3, 1), (20_000, 3, 1), (100_000, 2, 1), (100_000, 3, 1), (20_000, 4, 1),
     (100_000, 3, 100), (1_000_000, 2, 1)],
)  # fmt: skip
def test_medians_of_many_rows_on_thin_sets_end(
    rows: int, columns: int, epsilon: int, seed: int
) -> None:
    """All rows on a line in three columns took 10 s for 20,000 rows, and minutes for 100,000."""
    names = [f"c{j}" for j in range(columns)]
    facts = tdp.Schema({name: tdp.Interval(-1, 1) for name in names}, rows=rows)
    mechanism = tdp.KNormGeometricMedian(facts, epsilon=epsilon)
    tables = {
        kind: dict(zip(names, cells.T, strict=True))
        for kind, cells in median_tables(rows, columns, seed).items()
    }
    with clock(SECONDS * 2 + rows * columns // 10_000):
        for table in tables.values():
            mechanism.release(table, rng=seed)


@pytest.mark.parametrize("high", [0.11, 1.0])
def test_a_steep_regression_on_two_rows_ends(high: float, seed: int) -> None:
    """Its law is a thin sheet at an angle to the axes, inside the set of planes or at its edge."""
    facts = tdp.Schema({c: tdp.Interval(-1, 1) for c in "abcy"}, rows=300, neighbors="add-remove")
    mechanism = tdp.KNormLinearRegression(facts, epsilon=1024)
    rows = np.tile([[0.3, -0.62, 0.81, high], [-0.45, 0.2, -0.13, -0.9 * high]], (15_000, 1))
    with clock(SECONDS):
        mechanism.release(dict(zip("abcy", rows.T, strict=True)), rng=seed)


@pytest.mark.slow
def test_a_hundred_times_the_rows_on_a_line_end(seed: int) -> None:
    """Boxes are given up later where there are more lines and rows to go through instead."""
    facts = tdp.Schema(
        {"x": tdp.Interval(0, 10), "y": tdp.Interval(-1, 1)}, rows=300, neighbors="add-remove"
    )
    mechanism = tdp.KNormQuantileRegression(facts, features=["x"], target="y", epsilon=1)
    line = {"x": np.linspace(0, 10, 30_000), "y": np.linspace(-1, 1, 30_000)}
    with clock(90):
        mechanism.release(line, rng=seed)


@pytest.mark.slow
def test_joint_quantiles_of_far_more_rows_end(seed: int) -> None:
    """Rounded logarithms of the weights let one in e**19 proposals pass here."""
    facts = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=40_000, neighbors="add-remove")
    mechanism = tdp.KNormQuantiles(facts, "x", [0.25, 0.5, 0.75], epsilon=1000)
    with clock(90):
        mechanism.release({"x": np.linspace(0, 10, 4_000_000)}, rng=seed)
