"""K-norm gradients in one dimension: quantiles and means, their laws, losses and intervals."""

from __future__ import annotations

import itertools
import math
import runpy
import time
from fractions import Fraction
from operator import itemgetter
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from scipy.stats import norm

import tightdp as tdp
from tightdp.errors import BudgetError, ParameterError
from tightdp.mechanisms.dyadic_bounds import BoundsFinder
from tightdp.mechanisms.exponential.pieces import PieceLaw
from tightdp.mechanisms.gradient import mean_noise
from tightdp.mechanisms.joint_quantiles import JointLaw
from tightdp.mechanisms.ranks import Ranks
from tightdp.mechanisms.squared_loss import SquaredLossMean
from tightdp.privacy import Numerics
from tightdp.randomness import source

ORACLES = runpy.run_path(str(Path(__file__).with_name("laws.py")))
fit, largest_loss, violates = itemgetter("fit", "largest_loss", "violates")(ORACLES)

TENTH = Fraction(1, 10)
TAUS = [TENTH, Fraction(1, 2), 9 * TENTH, Fraction(99, 100)]
HALF = Fraction(1, 2)


def schema(low: float = 0.0, high: float = 1.0, rows: int = 10, **options: Any) -> tdp.Schema:
    return tdp.Schema({"x": tdp.Interval(low, high)}, rows=rows, **options)


def ranks(rows: Any, facts: tdp.Schema) -> Ranks:
    return Ranks.of({"x": np.asarray(rows, dtype=float)}, facts, "x")


def law_of(rows: Any, tau: Any, epsilon: Any = 1, facts: tdp.Schema | None = None) -> PieceLaw:
    given = schema(rows=max(1, len(rows))) if facts is None else facts
    return tdp.KNormQuantile(given, "x", tau, epsilon=epsilon).law_on(ranks(rows, given))


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


def some_rows(rng: Any, count: int) -> Any:
    """Rows with ties, points at the ends and points outside the range."""
    pool = np.array([-3.0, 0.0, 0.25, 0.5, 0.5, 1.0, 7.0, np.nan])
    return np.where(rng.random(count) < 0.5, rng.choice(pool, count), rng.random(count))


@pytest.mark.parametrize("tau", TAUS)
def test_replacing_a_row_costs_at_most_epsilon(tau: Fraction, seed: int) -> None:
    rng, most = np.random.default_rng(seed), 0.0
    for _ in range(120):
        rows = some_rows(rng, int(rng.integers(1, 12)))
        moved = rows.copy()
        moved[rng.integers(len(rows))] = some_rows(rng, 1)[0]
        most = max(most, largest_loss(law_of(rows, tau), law_of(moved, tau)))
    assert 0.3 < most <= 1 + 1e-12


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
        assert np.isfinite(release.interval).all()
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


# --- several quantiles ---------------------------------------------------------------------------

THREE = [Fraction(1, 4), HALF, 9 * TENTH]


def enumerated(law: JointLaw) -> tuple[list[tuple[int, ...]], Any]:
    """All ordered tuples and their chances."""
    line = range(law.start, law.end)
    tuples = list(itertools.combinations_with_replacement(line, len(law.taus)))
    logs = np.array([-float(law.rate) * law.score(np.array(t)) for t in tuples])
    weights = np.exp(logs - logs.max())
    return tuples, weights / weights.sum()


@pytest.mark.parametrize("rate", [HALF, Fraction(1, 10**6), Fraction(5), Fraction(300)])
@pytest.mark.parametrize("rows", [[1, 1, 4, 6, 7], [3], [], [2] * 6])
def test_joint_draws_follow_the_law(rate: Fraction, rows: list[int], seed: int) -> None:
    law = JointLaw(np.array(rows, dtype=np.int64), 0, 9, THREE, rate)
    tuples, p = enumerated(law)
    place, bits = {t: i for i, t in enumerate(tuples)}, source(seed)
    found = [place[tuple(law.draw(bits).tolist())] for _ in range(1200)]
    assert fit(np.bincount(found, minlength=len(tuples)), p) > 1e-4
    if rate == HALF and len(rows) == 5:
        wrong = p**0.5 / (p**0.5).sum()
        assert fit(np.bincount(found, minlength=len(tuples)), wrong) < 1e-4


def joint_loss(rows: Any, moved: Any, rate: Fraction) -> float:
    laws = [
        JointLaw(np.sort(np.array(r, dtype=np.int64)), 0, 7, THREE, rate) for r in (rows, moved)
    ]
    one, two = (enumerated(law)[1] for law in laws)
    return float(np.abs(np.log(one / two)).max())


def test_joint_losses(seed: int) -> None:
    """Sensitivity 2 when a row is replaced; with 1 (a broken twin) pairs beyond epsilon appear."""
    rng, most, broken, added = np.random.default_rng(seed), 0.0, 0.0, 0.0
    steps = 1 - min(Fraction(1, 10), Fraction(1, 4))
    for _ in range(40):
        rows = rng.integers(0, 7, 6)
        moved = rows.copy()
        moved[0] = rng.integers(0, 7)
        most = max(most, joint_loss(rows, moved, Fraction(1, 4)))
        broken = max(broken, joint_loss(rows, moved, Fraction(1, 2)))
        added = max(added, joint_loss(rows, rows[1:], 1 / (4 * steps)))
    assert most <= 1 + 1e-9
    assert added <= 1 + 1e-9
    assert broken > 1
    facts = schema(rows=6, neighbors="add-remove")
    assert tdp.KNormQuantiles(facts, "x", THREE, epsilon=1).budget.rate == 1 / (4 * steps)


def test_joint_laws_of_long_denominators(seed: int) -> None:
    """Counts times denominators that exceed 64 bits are Python integers, with the same law."""
    long = [tau + Fraction(1, 10**30) for tau in THREE]
    law = JointLaw(np.array([1, 1, 4, 6, 7]), 0, 9, long, HALF)
    tuples, p = enumerated(JointLaw(law.rows, 0, 9, THREE, HALF))
    place, bits = {t: i for i, t in enumerate(tuples)}, source(seed)
    found = [place[tuple(law.draw(bits).tolist())] for _ in range(600)]
    assert fit(np.bincount(found, minlength=len(tuples)), p) > 1e-4


def test_names_are_short_and_distinct() -> None:
    taus = [0.1234567, 0.1234568, 1 / 3]
    names = tdp.KNormQuantiles(schema(rows=3), "x", taus, epsilon=1).names
    assert len(set(names)) == 3
    assert names[2] == "x[1/3]"


def test_one_joint_quantile_is_the_quantile() -> None:
    rows = np.array([1, 3, 3, 8, 12])
    joint = JointLaw(rows, 0, 16, [Fraction(3, 10)], Fraction(1, 4))
    _, p = enumerated(joint)
    counts = np.searchsorted(rows, np.arange(16), side="right")
    q = np.exp(-0.5 * np.abs(counts - 1.5))
    np.testing.assert_allclose(p, q / q.sum(), atol=1e-14)


def test_joint_releases_are_ordered_and_better_than_split_ones(seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows, deciles = rng.normal(size=2000), [i / 10 for i in range(1, 10)]
    facts = schema(-5, 5, rows=2000)
    truth = np.quantile(rows, deciles)
    joint = tdp.KNormQuantiles(facts, "x", deciles, epsilon=1)
    law = joint.law_on(ranks(rows, facts), source(seed))
    bits = source(seed + 1)
    values = np.array([law.draw(bits) >> joint.finer for _ in range(150)]) / facts.resolution * 5
    assert (np.diff(values, axis=1) >= 0).all()
    split = [tdp.KNormQuantile(facts, "x", tau, epsilon=1 / 9) for tau in deciles]
    apart = [q.law_on(ranks(rows, facts)).sample(150, bits) / facts.resolution * 5 for q in split]
    error, other = np.abs(values - truth).mean(), np.abs(np.transpose(apart) - truth).mean()
    assert error < 0.5 * other


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
    assert wide._rate() + 2 * wide._end_rate() == plain._rate()
    assert wide.guarantee().epsilon == 3
    with pytest.raises(ParameterError, match="interval"):
        tdp.KNormQuantile.conf_int(plain.release({"x": np.zeros(9)}))


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_bounds_hold_all_but_a_few_rows(neighbors: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    rows = np.concatenate([rng.normal(0, 300, 2000), [1e9, -np.inf, np.nan]])
    options: dict[str, Any] = {"rows": len(rows), "neighbors": neighbors, "epsilon": 1.0}
    finder = BoundsFinder("x", smallest=2.0**-20, largest=2.0**40, **options)
    good = []
    for i in range(200):
        release = tdp.find_bounds({"x": rows}, "x", rng=seed + i, **options)
        low, high = release.value
        cut = max(np.sum(rows < low), np.sum(rows > high))
        good.append(cut <= finder.rows_cut(0.95) and -2048 <= low < high <= 2048)
    assert np.mean(good) >= 0.95 - 5 * 0.22 / math.sqrt(200)
    assert finder.rows_cut(0.95) < 100


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


# --- other gradients in one dimension ------------------------------------------------------------


def test_linear_regression_on_one_feature(seed: int) -> None:
    """A20 in one dimension: the constant is 4(1+B), not 8(1+B) (E22)."""
    x, y = [1, Fraction(-1, 2), Fraction(1, 4)], [Fraction(1, 2), Fraction(-1, 5), Fraction(1, 10)]
    square = sum(a * a for a in x)
    cross = sum(a * b for a, b in zip(x, y, strict=True))
    edge = 1 << 10

    def norm_of_gradient(rows: Any) -> Any:
        def on_box(low: Any, high: Any) -> tuple[Fraction, Fraction]:
            ends = [2 * (square * Fraction(t[0], edge) - cross) for t in (low, high)]
            near = 0 if ends[0] <= 0 <= ends[1] else min(map(abs, ends))
            return Fraction(near), max(map(abs, ends))

        return on_box

    mechanism = tdp.KNormGradient(
        tdp.Interval(-1, 1), norm_of_gradient, sensitivity=8, epsilon=1, bits=10
    )
    theta = np.arange(-edge, edge + 1) / edge
    weights = np.exp(-np.abs(2 * (float(square) * theta - float(cross))) / 16)
    p = weights / weights.sum()
    mean = float(p @ theta)
    assert mean == pytest.approx(0.0354380584, abs=1e-4)
    assert float(p @ theta**2) - mean**2 == pytest.approx(0.3242752895, abs=1e-3)
    assert float(p[theta < 0].sum()) == pytest.approx(0.4704817472, abs=1e-3)
    law = mechanism.law_for(norm_of_gradient(None))
    bits = source(seed)
    points = np.array([law.draw(bits)[0] for _ in range(3000)])
    cells = np.minimum((points + edge) // 128, 15)
    expected = np.bincount(np.minimum(np.arange(2 * edge + 1) // 128, 15), p)
    assert fit(np.bincount(cells, minlength=16), expected) > 1e-4


def quantile_regression_loss(tau: Fraction, printed: bool) -> float:
    """The pair of E20 on Theta = [-1, 1], the law as a step function of theta."""
    t = 1 - 1e-6
    pair = [[(0.9, 0.9 * t), (-0.9, -0.9 * t), last] for last in ((1, 1), (-1, 1))]
    delta = 2 * (1 - float(tau) if printed else max(float(tau), 1 - float(tau)))
    cuts = np.array([-1, t, 1])
    logs = []
    for rows in pair:
        middles = (cuts[1:] + cuts[:-1]) / 2
        norms = [
            abs(sum(x * (float(y <= x * theta) - float(tau)) for x, y in rows)) for theta in middles
        ]
        score = -np.array(norms) / (2 * delta)
        logs.append(score - np.log(np.diff(cuts) @ np.exp(score)))
    return float(np.abs(logs[0] - logs[1]).max())


@pytest.mark.parametrize(("tau", "broken"), [(HALF, 1.0), (Fraction(3, 4), 3.0), (9 * TENTH, 9.0)])
def test_quantile_regression_sensitivity(tau: Fraction, broken: float) -> None:
    """A17: 1.0000 epsilon with 2 max(tau, 1 - tau), 3 and 9 times it as printed."""
    assert quantile_regression_loss(tau, printed=False) == pytest.approx(1.0, abs=1e-4)
    assert quantile_regression_loss(tau, printed=False) <= 1 + 1e-9
    assert quantile_regression_loss(tau, printed=True) == pytest.approx(broken, abs=1e-3)


def test_sensitivity_may_depend_on_theta(seed: int) -> None:
    def norm_of_gradient(rows: Any) -> Any:
        return lambda low, high: (2, 2)

    def steps(low: Any, high: Any) -> tuple[int, int]:
        values = [1 if t < 0 else 4 for t in range(low[0], high[0] + 1)]
        return min(values), max(values)

    mechanism = tdp.KNormGradient(
        tdp.Interval(-1, 1), norm_of_gradient, sensitivity=steps, epsilon=2, bits=2
    )
    weights = np.exp([-2.0] * 4 + [-0.5] * 5)
    law, bits = mechanism.law_for(norm_of_gradient(None)), source(seed)
    counts = np.bincount([law.draw(bits)[0] + 4 for _ in range(3000)], minlength=9)
    assert fit(counts, weights / weights.sum()) > 1e-4


def test_mean_by_gradient_is_k_norm_noise() -> None:
    noise = mean_noise(tdp.LpBall(3, np.inf), rows=50, epsilon=1)
    np.testing.assert_allclose(noise.covariance(), np.eye(3) * 0.0106666667, atol=1e-9)
    one = mean_noise(tdp.LpBall(1, 1, 0.5), rows=100, epsilon=0.5)  # data in [0, 1]
    assert one.covariance()[0, 0] == pytest.approx(0.0008)  # Laplace, 2/(n epsilon)^2


# --- squared and absolute loss for a mean --------------------------------------------------------


@pytest.mark.parametrize("n", [1, 10, 100])
@pytest.mark.parametrize("epsilon", [0.1, 1.0, 4.0])
def test_truncated_normal_loss(n: int, epsilon: float) -> None:
    """A26: below epsilon on the data range; the reference values at n = 100."""
    facts = schema(rows=n, bits=12)
    mechanism = SquaredLossMean(facts, "x", epsilon=epsilon)
    edge = facts.resolution
    most = 0.0
    for total in {n, 1, n // 2 + 1}:  # sums of n rows, one of which moves from one end to the other
        both = [mechanism.law_on((2 * s - n) * edge).probabilities() for s in (total, total - 1)]
        most = max(most, float(np.abs(np.log(both[0]) - np.log(both[1])).max()))
    assert most <= epsilon
    if n == 100:
        reference = {0.1: 0.07472, 1.0: 0.91836, 4.0: 3.83286}[epsilon]
        assert most == pytest.approx(reference, abs=2e-4 * max(1, epsilon))


def test_truncated_normal_needs_the_data_range() -> None:
    """On [-1, 2] the same law has the loss 1.995 at epsilon 1: another range is refused."""
    facts = schema(rows=100)
    with pytest.raises(ParameterError, match="range"):
        SquaredLossMean(facts, "x", epsilon=1, output=tdp.Interval(-1, 2))
    with pytest.raises(ParameterError, match="replace-one"):
        SquaredLossMean(schema(rows=9, neighbors="add-remove"), "x", epsilon=1)
    line = np.linspace(-1, 2, 30_001)
    logs = [-50 * (line - mean) ** 2 for mean in (1.0, 0.99)]
    laws = [log - np.log(np.exp(log).sum()) for log in logs]
    assert np.abs(laws[0] - laws[1]).max() == pytest.approx(1.995, abs=0.01)


@pytest.mark.parametrize(
    ("rows", "epsilon", "centre", "error"),
    [
        (1, 1, 0.5, 0.08058915),
        (10, 1, 0.5, 0.05921195),
        (100, 1, 0.5, 0.009999851),
        (1000, 1, 0.5, 0.001),
        (100, 0.5, 0.3, 0.01818510),
        (100, 0.25, 0.3, 0.03153958),
    ],
)
def test_truncated_normal_error(rows: int, epsilon: float, centre: float, error: float) -> None:
    """Mean squared errors of the reference (2i)."""
    facts = schema(rows=rows, bits=12)
    edge = facts.resolution
    law = SquaredLossMean(facts, "x", epsilon=epsilon).law_on(round((2 * centre - 1) * edge * rows))
    points = np.arange(2 * edge + 1) / (2 * edge)
    found = float(law.probabilities() @ (points - centre) ** 2)
    assert found == pytest.approx(error, rel=1e-3)


def test_absolute_loss_has_four_times_the_variance() -> None:
    """E32: exp(-n epsilon |mean - l| / 2) against Laplace; 8/(n epsilon)^2 = .0032 at 100, 1/2."""
    mechanism = tdp.ExponentialMechanism.on_interval(
        tdp.Interval(-4, 4), len, sensitivity=Fraction(1, 100), epsilon=0.5, bits=12
    )
    points = np.arange(-(1 << 12), (1 << 12) + 1) * 4 / (1 << 12)
    utilities = [-abs(Fraction(float(t))) for t in points]
    cuts = np.arange(-(1 << 12) + 1, (1 << 12) + 1)
    p = mechanism.law_for(cuts, utilities).probabilities()
    assert float(p @ points**2) == pytest.approx(0.0032, rel=1e-3)


def test_squared_loss_releases(seed: int) -> None:
    release = SquaredLossMean(schema(rows=10**6), "x", epsilon=1.0).release(
        {"x": np.full(10**6, 0.25)}, rng=seed
    )
    assert abs(release["x"] - 0.25) < 0.01


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
            lambda: tdp.KNormMedian(tdp.Schema({"k": tdp.Category(["a", "b"])}, 3), "k", epsilon=1),
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
