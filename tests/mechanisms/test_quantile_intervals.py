"""Intervals for quantiles, and bounds for columns of unknown size: coverage and privacy."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from laws import largest_loss
from quantile_laws import schema
from scipy.stats import norm

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms.group_quantiles import GroupQuantiles
from tightdp.mechanisms.ranks import BoundsFinder, Ranks

# --- intervals and bounds ------------------------------------------------------------------------


def covered(facts: tdp.Schema, draws: Any, truth: Any, seed: int, **options: Any) -> float:
    mechanism = tdp.KNormQuantile(facts, "x", **options)
    hits = []
    for i in range(400):
        rows = draws(i)
        release = mechanism.release({"x": rows}, confidence=0.8, rng=seed + i)
        low, high = mechanism.conf_int(release)
        wanted = truth(rows)
        hits.append(low <= wanted <= high)
        assert release.interval[0, 0] <= low
        assert release.interval[0, 1] >= high
    return float(np.mean(hits))


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_sample_intervals_cover(neighbors: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = rng.exponential(size=300)
    facts = schema(0, 10, rows=300, neighbors=neighbors)
    share = covered(
        facts,
        lambda i: rows,
        lambda r: np.quantile(r, 0.7),
        seed,
        tau=0.7,
        epsilon=2,
        interval="sample",
    )
    assert share >= 0.8 - 5 * 0.4 / 20


def test_population_intervals_cover(seed: int) -> None:
    facts = schema(-5, 5, rows=400)
    share = covered(
        facts,
        lambda i: np.random.default_rng(seed + i).normal(size=400),
        lambda r: norm.ppf(0.25),
        seed,
        tau=0.25,
        epsilon=2,
        interval="population",
    )
    assert share >= 0.8 - 5 * 0.4 / 20


def test_intervals_are_paid_from_the_same_epsilon() -> None:
    facts = schema(rows=9)
    plain, wide = (tdp.KNormMedian(facts, "x", epsilon=3, interval=i) for i in ("none", "sample"))
    assert wide.walk.noise.epsilon + 4 * wide.walk.rate == 3
    assert wide.guarantee().epsilon == 3
    with pytest.raises(ParameterError, match="interval"):
        tdp.KNormQuantile.conf_int(plain.release({"x": np.zeros(9)}))


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_bounds_hold_all_but_a_few_rows(neighbors: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.normal(0, 300, 2000), [1e9, -np.inf, np.nan]])
    options: dict[str, Any] = {"rows": len(rows), "neighbors": neighbors, "epsilon": 1.0}
    finder = BoundsFinder("x", smallest=2.0**-20, largest=2.0**40, **options)
    most_cut = 2 * finder._reach(0.95) + 1
    good = []
    for i in range(200):
        release = tdp.find_bounds({"x": rows}, "x", rng=seed + i, **options)
        low, high = release.value
        cut = max(np.sum(rows < low), np.sum(rows > high))
        good.append(cut <= most_cut and -2048 <= low < high <= 2048)
    assert np.mean(good) >= 0.95 - 5 * 0.22 / math.sqrt(200)
    assert most_cut < 100


def test_bounds_protect_persons_with_several_rows(seed: int) -> None:
    options: dict[str, Any] = {"rows": 400, "neighbors": "add-remove", "epsilon": 1.0}
    given: dict[str, Any] = {"person": "id", "rows_per_person": 2, "smallest": 1, "largest": 100}
    plain = BoundsFinder("x", smallest=1, largest=100, **options)
    assert BoundsFinder("x", **given, **options).rate * 2 == plain.rate
    table = {"x": np.linspace(1, 50, 400), "id": np.arange(400) // 4}
    release = tdp.find_bounds(table, "x", rng=seed, **given, **options)
    assert release["low"] < release["high"] <= 64


def test_bounds_cost_at_most_epsilon(seed: int) -> None:
    """Each of the two bins spends half: exact losses on dyadic grids, extreme rows included."""
    rng = np.random.default_rng(seed)
    finder = BoundsFinder(
        "x", rows=8, neighbors="replace-one", epsilon=1, smallest=0.25, largest=4.0
    )
    pool = np.array([0.0, 0.3, -0.3, 1.0, 1e300, -np.inf, np.nan, 3.0, -2.0])
    for target in (0, 3, 7, -4, 12):
        for _ in range(30):
            rows = rng.choice(pool, 8)
            moved = np.append(rows[1:], rng.choice(pool))
            both = [Ranks.of({"x": r}, finder.schema, "x") for r in (rows, moved)]
            laws = [r.law(Fraction(target), finder.rate) for r in both]
            assert largest_loss(*laws) <= 0.5 + 1e-12


# --- the grid -------------------------------------------------------------------------------------


def skewed(bits: int | None, **options: Any) -> tuple[tdp.Schema, dict[str, Any]]:
    """Rows that crowd at a thousandth of their bounds."""
    rows = np.exp(norm.ppf((np.arange(200_000) + 0.5) / 200_000)) / 10
    stated = {} if bits is None else {"bits": bits}
    columns = {"x": tdp.Interval(0, 100), "k": tdp.Category(["a", "b"], other="a")}
    table = {"x": np.minimum(rows, 100), "k": ["a", "b"] * 100_000}
    return tdp.Schema(columns, rows=len(rows), **stated, **options), table


def test_the_step_of_the_grid_is_a_small_part_of_the_error(seed: int) -> None:
    """A median on 2**-16 was off by a step, many times what privacy asks for."""
    errors = {}
    for bits in (None, 17, 26):
        facts, table = skewed(bits)
        median = tdp.KNormMedian(facts, "x", epsilon=1)
        drawn = [median.release(table, rng=seed + i).value[0] for i in range(6)]
        errors[bits] = np.abs(np.subtract(drawn, np.median(table["x"]))).mean()
    assert errors[None] < 3 * errors[26]
    assert errors[17] > 10 * errors[26]  # a grid that is stated is kept


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_groups_are_read_on_the_grid_of_their_quantiles(neighbors: str, seed: int) -> None:
    facts, table = skewed(None, neighbors=neighbors)
    for shares in ([0.5], [0.25, 0.5, 0.75]):
        groups = GroupQuantiles(facts, "x", shares, "k", epsilon=4)
        assert groups.schema.bits == groups.one.bits == groups.one.schema.bits > 16
        release = groups.release(table, rng=seed)
        truth = np.tile(np.quantile(table["x"], shares), 2)
        assert release.value == pytest.approx(truth, rel=1e-3)


def test_steps_and_many_rows_limit_the_grid() -> None:
    facts = tdp.Schema({"x": tdp.Interval(0, 100, step=1)}, rows=10**6)
    assert tdp.KNormMedian(facts, "x", epsilon=1).schema is facts
    many = tdp.Schema({"x": tdp.Interval(0, 100)}, rows=10**9)
    assert tdp.KNormMedian(many, "x", epsilon=1).schema.bits == 18


def test_many_rows_are_counted_where_they_are(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """The finest grid of many rows was one point too long to be counted: all were fetched."""
    monkeypatch.delattr("tightdp.mechanisms.ranks.quantized_matrix")
    many = tdp.Schema({"x": tdp.Interval(0, 100)}, rows=10**9, neighbors="add-remove")
    release = tdp.KNormMedian(many, "x", epsilon=100).release({"x": [50.0] * 9}, rng=seed)
    assert release.value == pytest.approx([50], abs=0.001)
