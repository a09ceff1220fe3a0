"""Quantiles by the K-norm gradient mechanism: privacy in exact arithmetic, the law, releases."""

from __future__ import annotations

import math
import time
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from laws import fit, largest_loss, violates
from quantile_laws import HALF, TAUS, TENTH, law_of, ranks, schema, some_rows

import tightdp as tdp
from tightdp.errors import BudgetError, ParameterError
from tightdp.mechanisms.ranks import Ranks
from tightdp.privacy import Numerics
from tightdp.randomness import source

# --- privacy -------------------------------------------------------------------------------------

PAIR = [0.0] * 9 + [0.999], [0.0] * 8 + [0.999, 1.0]


def test_the_pair_that_breaks_the_published_constant() -> None:
    """A16: corrected .9990 of epsilon; with the printed eps n/(4(1-tau)) it is 4.988 (E21)."""
    one, two = (law_of(rows, 9 * TENTH) for rows in PAIR)
    assert largest_loss(one, two) == pytest.approx(0.9990, abs=1e-4)
    assert not violates(one, two, 1)
    facts = schema()
    printed = [ranks(rows, facts).law(9, HALF / (2 * TENTH)) for rows in PAIR]
    assert largest_loss(*printed) == pytest.approx(4.988, abs=1e-3)
    assert violates(*printed, 1)
    cut = [ranks(rows, facts).law(9, HALF * Fraction(5, 4)) for rows in PAIR]
    assert violates(*cut, 1)  # noise cut by a fifth


@pytest.mark.slow_for("tau[12]")
@pytest.mark.parametrize("tau", TAUS)
def test_replacing_a_row_costs_at_most_epsilon(tau: Fraction, seed: int) -> None:
    rng, most = np.random.default_rng(seed), 0.0
    for _ in range(120):
        rows = some_rows(rng, int(rng.integers(1, 12)))
        moved = rows.copy()
        moved[rng.integers(len(rows))] = some_rows(rng, 1)[0]
        most = max(most, largest_loss(law_of(rows, tau), law_of(moved, tau)))
    assert 0.3 < most <= 1 + 1e-12


@pytest.mark.slow_for("tau[12]")
@pytest.mark.parametrize("tau", TAUS)
def test_adding_a_row_costs_at_most_epsilon(tau: Fraction, seed: int) -> None:
    rng, most = np.random.default_rng(seed), 0.0
    facts = schema(rows=20, neighbors="add-remove")
    for _ in range(120):
        rows = some_rows(rng, int(rng.integers(0, 12)))
        more = np.append(rows, some_rows(rng, 1))
        laws = [law_of(r, tau, facts=facts) for r in (rows, more)]
        most = max(most, largest_loss(*laws))
    assert 0.3 < most <= 1 + 1e-12


def test_adding_a_row_can_cost_epsilon() -> None:
    """A row at the top turns the balance between a long gap and a short one: the bound is tight."""
    facts = schema(rows=9, neighbors="add-remove")
    rows = [0.0, 0.999, 1.0]
    one, two = (law_of(r, HALF, facts=facts) for r in (rows, [*rows, 1.0]))
    assert 0.99 < largest_loss(one, two) <= 1
    cut = [ranks(r, facts).law(HALF * len(r), Fraction(5, 4)) for r in (rows, [*rows, 1.0])]
    assert violates(*cut, 1)  # noise cut by a fifth


def test_several_rows_per_person_divide_the_rate() -> None:
    plain = schema(rows=9, neighbors="add-remove")
    several = schema(rows=9, neighbors="add-remove", person="id", rows_per_person=3)
    rates = [tdp.KNormQuantile(f, "x", 0.75, epsilon=1).budget.rate for f in (plain, several)]
    assert rates == [Fraction(2, 3), Fraction(2, 9)]


@pytest.mark.slow
def test_four_thousand_random_pairs(seed: int) -> None:
    """A16 in full: 1000 pairs for each of four taus."""
    rng = np.random.default_rng(seed)
    for tau in TAUS:
        for _ in range(1000):
            rows = some_rows(rng, int(rng.integers(1, 30)))
            moved = rows.copy()
            moved[rng.integers(len(rows))] = some_rows(rng, 1)[0]
            assert not violates(law_of(rows, tau), law_of(moved, tau), 1)


# --- the law -------------------------------------------------------------------------------------

DATA = [0.1, 0.2, 0.4, 0.7, 0.9]
REFERENCE = [
    (
        HALF,
        1,
        [0.04869125, 0.08027829, 0.26471305, 0.39706958, 0.16055658, 0.04869125],
        0.4869804412,
        0.0599594627,
    ),
    (
        Fraction(1, 4),
        1,
        [0.11383801, 0.18768714, 0.29234179, 0.26597139, 0.10754653, 0.03261514],
        0.3848533786,
        0.0650336771,
    ),
    (
        9 * TENTH,
        1,
        [0.02288459, 0.03773032, 0.12441355, 0.30768490, 0.33819109, 0.16909555],
        0.6445481809,
        0.0628277958,
    ),
    (
        HALF,
        10,
        [9.04e-6, 0.00134214, 0.39838220, 0.59757330, 0.00268428, 9.04e-6],
        0.4505377600,
        0.0212121891,
    ),
]


@pytest.mark.parametrize(("tau", "epsilon", "cells", "mean", "variance"), REFERENCE)
def test_reference_laws(
    tau: Fraction, epsilon: int, cells: Any, mean: float, variance: float, seed: int
) -> None:
    """The reference cells, and 1e5 draws (A18)."""
    facts = schema(rows=5, bits=20)
    law = law_of(DATA, tau, epsilon, facts)
    edge = facts.resolution
    middles = (law.starts + (law.lengths - 1) / 2 + edge) / (2 * edge)
    p = law.probabilities()
    where = np.searchsorted(np.array(DATA) - 1e-4 / 2, middles)
    atol = 1e-5 if epsilon == 1 else 2e-4  # the five points themselves, at a high epsilon
    np.testing.assert_allclose(np.bincount(where, p, minlength=6), cells, atol=atol)
    first = float(p @ middles)
    second = float(p @ (middles**2 + (law.lengths / edge / 2) ** 2 / 12))
    assert first == pytest.approx(mean, abs=2e-5)
    assert second - first**2 == pytest.approx(variance, abs=2e-5)
    points = (law.sample(100_000, source(seed)) + edge) / (2 * edge)
    counts = np.bincount(np.searchsorted(DATA, points, side="right"), minlength=6)
    assert fit(counts, np.array(cells) / sum(cells)) > 1e-4


def test_ties_have_the_reference_law_and_better() -> None:
    facts = schema(-1, 2, rows=5, bits=20)
    law = law_of([0, 0, 0, 1, 1], HALF, 1, facts)
    gaps = law.probabilities()[law.lengths > 1]
    np.testing.assert_allclose(gaps, [0.2119415576, 0.5761168848, 0.2119415576], atol=2e-6)
    same = law_of([0.25] * 400, HALF, 1, schema(rows=400))
    assert same.probabilities()[same.lengths == 1].max() > 1 - 1e-15


@pytest.mark.parametrize(
    ("tau", "mean", "sd"),
    [(HALF, 0.5, 0.02802058), (TENTH, 0.10419665, 0.02706922), (9 * TENTH, 0.89580335, 0.02706922)],
)
def test_even_rows(tau: Fraction, mean: float, sd: float) -> None:
    facts = schema(rows=101, bits=24)
    law = law_of(np.arange(1, 102) / 102, tau, 1, facts)
    edge = facts.resolution
    middles, p = (law.starts + (law.lengths - 1) / 2 + edge) / (2 * edge), law.probabilities()
    assert float(p @ middles) == pytest.approx(mean, abs=1e-6)
    square = float(p @ (middles**2 + (law.lengths / edge / 2) ** 2 / 12))
    assert math.sqrt(square - mean**2) == pytest.approx(sd, abs=1e-6)


def test_cells_outside_the_range_count_at_its_ends() -> None:
    inside, outside = ([0.0, 0.2, 1.0, 1.0], [-9.0, 0.2, 5.0, np.inf])
    one, two = (law_of(rows, HALF) for rows in (inside, outside))
    np.testing.assert_array_equal(one.probabilities(), two.probabilities())
    np.testing.assert_array_equal(one.starts, two.starts)


@pytest.mark.parametrize("bits", [3, 16, 22])
def test_draws_follow_the_law_on_every_grid(bits: int, seed: int) -> None:
    """Counted grids (up to 18 bits) and sorted ones give draws of the stated law."""
    rng = np.random.default_rng(seed)
    facts = schema(rows=40, bits=bits)
    law = law_of(some_rows(rng, 40), Fraction(3, 10), 2, facts)
    places = np.searchsorted(law.starts, law.sample(20_000, source(seed)), side="right") - 1
    assert fit(np.bincount(places, minlength=len(law.starts)), law.probabilities()) > 1e-4
    wrong = ranks(some_rows(rng, 40), facts).law(12, law.tilted.rate * Fraction(1, 2))
    assert len(wrong.starts)


def test_a_million_rows_at_epsilon_ten(seed: int) -> None:
    """A18: no underflow, and close to the median; cheaper than sorting (see the benchmark)."""
    rows = np.random.default_rng(seed).normal(size=1_000_000)
    facts = schema(-8, 8, rows=1_000_000, bits=24)
    mechanism = tdp.KNormMedian(facts, "x", epsilon=10)
    start = time.process_time()
    release = mechanism.release({"x": rows})
    assert time.process_time() - start < 3
    below = np.mean(rows <= release.value[0])
    assert abs(below - 0.5) * 1e6 < mechanism.rank_error(1 - 1e-9) + 2


@pytest.mark.parametrize("epsilon", [1e-6, 1e-3, 1.0, 1e3])
@pytest.mark.parametrize("rows", [[0.3], [0.3] * 50, [], list(np.linspace(0, 1, 50))])
def test_extremes_neither_underflow_nor_fail(epsilon: float, rows: Any, seed: int) -> None:
    facts = schema(rows=50, neighbors="add-remove")
    table = {"x": np.array(rows, dtype=float)}
    for mechanism in (
        tdp.KNormQuantile(facts, "x", 0.9, epsilon=epsilon, interval="sample"),
        tdp.KNormQuantiles(facts, "x", [0.1, 0.5, 0.9], epsilon=epsilon),
    ):
        release = mechanism.release(table, rng=seed)
        assert np.isfinite(release.value).all()
        assert ((release.value >= 0) & (release.value <= 1)).all()
        silent = [name in release.unknown for name in release.names]
        assert np.isnan(release.half_width).tolist() == silent
    if epsilon == 1e3 and len(set(rows)) == 1 and len(rows) > 1:
        assert release.value == pytest.approx([0.3] * 3, abs=1e-4)


def test_rank_error_holds(seed: int) -> None:
    """The public bound on ranks is kept, at every tau and with ties, and is not vacuous."""
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal(0.5, 0.2, 500), 2)
    facts = schema(rows=500)
    for tau in TAUS:
        mechanism = tdp.KNormQuantile(facts, "x", tau, epsilon=1)
        reach, found = mechanism.rank_error(0.9), ranks(rows, facts)
        points = mechanism.law_on(found).sample(4000, source(seed))
        i = np.searchsorted(found.values, points, side="right") - 1
        at = found.values[i] == points
        below = np.where(at, found.below[i], found.upto[i])
        off = np.maximum(0, np.maximum(below - 500 * tau, 500 * tau - found.upto[i]))
        assert (off <= reach).mean() >= 0.9 - 5 * 0.3 / math.sqrt(4000)
        assert reach < 40


# --- releases ------------------------------------------------------------------------------------


def test_releases_pay_first_and_remember() -> None:
    facts, table = schema(rows=100), {"x": np.linspace(0, 1, 100)}
    ledger = tdp.Ledger(epsilon=2)
    first = tdp.median(table, "x", schema=facts, epsilon=1, ledger=ledger, key="median")
    again = tdp.median(table, "x", schema=facts, epsilon=1, ledger=ledger, key="median")
    assert again.integers == first.integers
    assert first.guarantee.numerics is Numerics.EXACT
    assert ledger.spent.epsilon == 1
    with pytest.raises(ParameterError, match="'x'"):
        tdp.quantiles({"y": np.zeros(3)}, "x", [0.5], schema=facts, epsilon=1, ledger=ledger)
    assert ledger.spent.epsilon == 1  # names are public: refused, not paid
    with pytest.raises(BudgetError):
        tdp.quantile(table, "x", 0.9, schema=facts, epsilon=2, ledger=ledger)
    restored = tdp.Release.from_json(first.to_json())
    assert str(restored) == str(first)


def test_all_engines_give_the_same_law(seed: int) -> None:
    polars = pytest.importorskip("polars")
    rows = np.random.default_rng(seed).normal(size=1000)
    facts = schema(-2, 2, rows=1000)
    frame = polars.DataFrame({"x": rows})
    one, two = ranks(rows, facts), Ranks.of(frame.lazy(), facts, "x")
    np.testing.assert_array_equal(one.values, two.values)
    np.testing.assert_array_equal(one.upto, two.upto)


@pytest.mark.parametrize("bits", [4, 16, 22])
def test_counted_fetched_and_sorted_rows_are_the_same_ranks(
    bits: int, seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    rows = some_rows(np.random.default_rng(seed), 30_000)
    facts = schema(rows=30_000, bits=bits)
    fetched = ranks(rows, facts)
    monkeypatch.setattr("tightdp.mechanisms.ranks._MANY", 0)
    counted = ranks(rows, facts)
    monkeypatch.setattr("tightdp.mechanisms.ranks._DENSE", 0)
    ordered = ranks(rows, facts)
    for other in (counted, ordered):
        np.testing.assert_array_equal(fetched.values, other.values)
        np.testing.assert_array_equal(fetched.upto, other.upto)
        np.testing.assert_array_equal(fetched.below, other.below)


def release(**options: Any) -> Any:
    return tdp.KNormQuantile(schema(), "x", 0.5, epsilon=1).release({"x": np.zeros(10)}, **options)


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: tdp.KNormQuantile(schema(), "x", 0, epsilon=1), "tau"),
        (lambda: tdp.KNormQuantile(schema(), "x", 1, epsilon=1), "tau"),
        (lambda: tdp.KNormQuantile(schema(), "x", -0.1, epsilon=1), "tau"),
        (lambda: tdp.KNormQuantile(schema(), "x", math.nan, epsilon=1), "tau"),
        (lambda: tdp.KNormQuantile(schema(), "x", "half", epsilon=1), "tau"),
        (lambda: tdp.KNormQuantile(schema(), "x", 1e-9, epsilon=1), "tau"),
        (lambda: tdp.KNormQuantile(schema(), "y", 0.5, epsilon=1), "column"),
        (lambda: tdp.KNormQuantile(schema(), "x", 0.5, epsilon=0), "epsilon"),
        (lambda: tdp.KNormQuantile(None, "x", 0.5, epsilon=1), "schema"),
        (lambda: tdp.KNormQuantile(schema(), "x", 0.5, epsilon=1, interval="some"), "interval"),
        (
            lambda: tdp.KNormMedian(
                schema(neighbors="add-remove"), "x", epsilon=1, interval="population"
            ),
            "replace-one",
        ),
        (
            lambda: tdp.KNormMedian(
                tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, 3), "k", epsilon=1
            ),
            "order",
        ),
        (lambda: tdp.KNormQuantiles(schema(), "x", [], epsilon=1), "taus"),
        (lambda: tdp.KNormQuantiles(schema(), "x", 0.5, epsilon=1), "taus"),
        (lambda: tdp.KNormQuantiles(schema(), "x", [0.5, 0.5], epsilon=1), "increase"),
        (lambda: tdp.KNormQuantiles(schema(), "x", [0.5, 1], epsilon=1), "tau"),
        (
            lambda: tdp.KNormQuantiles(
                schema(), "x", [Fraction(k, 2**20 - k) for k in (1, 3, 5, 9)], epsilon=1
            ),
            "denominator",
        ),
        (lambda: release(key="k"), "ledger"),
        (lambda: release(confidence=0), "confidence"),
        (lambda: tdp.KNormGradient(None, len, sensitivity=1, epsilon=1), "unbounded"),
        (lambda: tdp.KNormGradient([(0, 1)], len, sensitivity=1, epsilon=1), "public bounds"),
        (lambda: tdp.KNormGradient(tdp.Interval(0, 1), 3, sensitivity=1, epsilon=1), "norm"),
        *(
            (
                lambda s=s: tdp.KNormGradient(tdp.Interval(0, 1), len, sensitivity=s, epsilon=1),
                "sensitivity",
            )
            for s in (math.inf, math.nan, None, 0, -1)
        ),
        (lambda: tdp.find_bounds({}, "x", epsilon=1, rows=3, smallest=0), "smallest"),
        (lambda: tdp.find_bounds({}, "x", epsilon=1, rows=3, smallest=2, largest=1), "smaller"),
        (lambda: tdp.find_bounds({}, "x", epsilon=1, rows=0), "rows"),
    ],
)
def test_bad_input(call: Any, text: str) -> None:
    """A19 among others: no bounds, no law."""
    with pytest.raises(ParameterError, match=text):
        call()


@pytest.mark.parametrize("bound", [math.inf, math.nan])
def test_unbounded_intervals_do_not_exist(bound: float) -> None:
    with pytest.raises(ParameterError):
        tdp.Interval(0, bound)
