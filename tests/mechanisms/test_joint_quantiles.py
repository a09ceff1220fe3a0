"""Several quantiles at once: the joint law, its losses, its order."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from laws import fit
from quantile_laws import HALF, TENTH, ranks, schema

import tightdp as tdp
from tightdp.exact.joint_law import JointLaw
from tightdp.randomness import source

# --- several quantiles ---------------------------------------------------------------------------

THREE = [Fraction(1, 4), HALF, 9 * TENTH]


def enumerated(law: JointLaw) -> tuple[list[tuple[int, ...]], Any]:
    """All ordered tuples and their chances."""
    line = range(law.start, law.end)
    tuples = list(itertools.combinations_with_replacement(line, len(law.taus)))
    logs = np.array([-float(law.rate) * law.score(np.array(t)) for t in tuples])
    weights = np.exp(logs - logs.max())
    return tuples, weights / weights.sum()


@pytest.mark.slow_for(
    "rows0-rate[013]",
    "rows1-rate[12]",
    "rows2-rate[23]",
    "rows3-rate[02]",
    "rows1-rate3",
    "rows3-rate3",
)
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


@pytest.mark.parametrize("cap", [0, 1, 3, 5, 8, 40])
@pytest.mark.parametrize("rows", [[1, 1, 4, 6, 7], [], [2] * 6, [0, 1, 2, 3, 4, 5, 6, 7, 8, 8]])
def test_draws_with_a_cap_follow_the_law(cap: int, rows: list[int], seed: int) -> None:
    """Windows and uniform tuples together; without the uniform ones the law is another."""
    law = JointLaw(np.array(rows, dtype=np.int64), 0, 9, THREE, HALF, cap)
    tuples, p = enumerated(law)
    place, bits = {t: i for i, t in enumerate(tuples)}, source(seed)
    found = [place[tuple(law.draw(bits).tolist())] for _ in range(1200)]
    counts = np.bincount(found, minlength=len(tuples))
    assert fit(counts, p) > 1e-4
    if cap == 3 and len(rows) == 5:
        scores = np.array([law.score(np.array(t)) for t in tuples])
        wrong = np.where(scores < law.cap, p, p / 1000)
        assert fit(counts, wrong / wrong.sum()) < 1e-4


@pytest.mark.parametrize("cap", [30, 90, 400])
def test_windows_leave_out_nothing_below_the_cap(cap: int, seed: int) -> None:
    """The sums over windows against those over all pieces: the same but for what is beyond."""
    rng = np.random.default_rng(seed)
    rows, taus = np.sort(rng.integers(0, 4000, 300)), [Fraction(i, 8) for i in range(1, 8)]
    plain, capped = (JointLaw(rows, 0, 4000, taus, HALF, c) for c in (None, cap))
    assert capped._least == plain._least
    ratio = float(capped._bound / plain._bound)
    assert ratio < 1 + 1e-9
    assert ratio > 1 - 4000.0**7 * math.exp(-0.5 * (cap - plain._least / plain.den)) - 1e-9
    assert max(w.stop - w.start for w in capped._windows) <= cap + 1


def joint_loss(rows: Any, moved: Any, rate: Fraction, cap: int | None = None) -> float:
    laws = [
        JointLaw(np.sort(np.array(r, dtype=np.int64)), 0, 7, THREE, rate, cap)
        for r in (rows, moved)
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
        for cap in (None, 2, 4):
            most = max(most, joint_loss(rows, moved, Fraction(1, 4), cap))
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


# --- a draw always ends --------------------------------------------------------------------------


@pytest.mark.parametrize("rows", [[1], [0, 2], [1, 1, 1]])
def test_runs_of_points_between_two_rows_follow_the_law(rows: list[int], seed: int) -> None:
    """Five levels on four places: most tuples have several points in one piece."""
    five = [Fraction(i, 6) for i in range(1, 6)]
    law = JointLaw(np.array(rows, dtype=np.int64), 0, 4, five, Fraction(1, 3))
    tuples, p = enumerated(law)
    place, bits = {t: i for i, t in enumerate(tuples)}, source(seed)
    found = [place[tuple(law.draw(bits).tolist())] for _ in range(1500)]
    assert fit(np.bincount(found, minlength=len(tuples)), p) > 1e-4
    # planted: points that are put in order after an independent draw
    orders = [math.prod(map(math.factorial, np.bincount(t).tolist())) for t in tuples]
    wrong = p / np.array(orders)
    assert fit(np.bincount(found, minlength=len(tuples)), wrong / wrong.sum()) < 1e-4


@pytest.mark.parametrize(
    ("cells", "levels"),
    [
        (np.full(1000, 50.0), 20),
        (np.full(1000, 50.0), 49),
        (np.linspace(0, 100, 1000), 49),
        (np.repeat([0.0, 100.0], 500), 49),
        (np.zeros(1000), 99),
    ],
)
def test_many_levels_take_few_proposals_whatever_the_rows(
    cells: Any, levels: int, seed: int
) -> None:
    """Equal rows used to need a number of proposals that grows like the factorial of the levels."""
    facts = schema(0, 100, rows=len(cells))
    taus = [Fraction(i, levels + 1) for i in range(1, levels + 1)]
    joint, bits = tdp.KNormQuantiles(facts, "x", taus, epsilon=1), source(seed)
    law, proposals = joint.law_on(ranks(cells, facts), bits), 0
    propose = law._propose

    def counted(rng: Any) -> Any:
        nonlocal proposals
        proposals += 1
        assert proposals < 40  # of five draws: a chance below 1e-9 if half of them were kept
        return propose(rng)

    law._propose = counted  # type: ignore[method-assign]
    for _ in range(5):
        points = law.draw(bits)
        assert (np.diff(points) >= 0).all()


def test_ratios_stay_below_their_bound(seed: int) -> None:
    """The bound on weight / proposal holds for every proposal, and is hardly larger."""
    rng = np.random.default_rng(seed)
    law = JointLaw(np.sort(rng.integers(0, 1000, 50)), 0, 1000, THREE, Fraction(1, 3))
    bits = source(seed)
    bound = float(law._bound)
    for _ in range(300):
        points, above, below = law._propose(bits)
        excess = law.score(points) - law._least  # the bound is one of weights over the largest
        ratio = above / below * float(np.exp(-float(law.rate * excess)))
        assert ratio <= bound
        assert ratio >= bound * 0.999


def test_percentiles_of_a_large_table_take_windows_of_it(seed: int) -> None:
    """The errors of the ranks are a walk of 99 Laplace steps of mean 4 that returns to zero.

    Its standard deviation in the middle is 4 sqrt(50) = 28; the mean distance is about 18.
    """
    rows, bits = np.random.default_rng(seed).normal(size=60_000), source(seed)
    facts, taus = (
        schema(-10, 10, rows=len(rows), bits=20),
        [Fraction(i, 100) for i in range(1, 100)],
    )
    joint = tdp.KNormQuantiles(facts, "x", taus, epsilon=1)
    law = joint.law_on(ranks(rows, facts), bits)
    assert max(window.stop - window.start for window in law._windows) <= joint.cap + 1 < 12_000
    wanted = len(rows) * np.array(taus, dtype=float)
    off = [np.abs(np.searchsorted(law.rows, law.draw(bits)) - wanted).mean() for _ in range(12)]
    assert 10 < np.mean(off) < 27  # 18, and three standard errors of 9 / sqrt(12)


def test_what_would_not_end_is_refused_before_it_is_paid_for() -> None:
    ledger = tdp.Ledger(epsilon=1.0)
    taus = [i / 1000 for i in range(1, 1000)]
    with pytest.raises(tdp.errors.InfeasibleSamplingError, match=r"at most 1\d\d levels"):
        tdp.quantiles({"x": [1.0]}, "x", taus, schema=schema(rows=10**6), epsilon=1, ledger=ledger)
    assert ledger.spent.epsilon == 0


@pytest.mark.parametrize(("rate", "rows"), [(Fraction(10**9), 3000), (Fraction(333), 400_000)])
def test_large_tables_and_rates_cost_no_proposals(rate: Fraction, rows: int, seed: int) -> None:
    """Roundings used to grow like the rate times the square of the rows, and proposals like e**."""
    law = JointLaw(np.arange(rows), 0, rows, THREE, rate)
    assert 1 <= float(law._bound) < 1.001  # one tuple has all the weight
    assert law.draw(source(seed)).tolist() == [rows // 4 - 1, rows // 2 - 1, 9 * rows // 10 - 1]
