"""Tests of shares: exact size by enumeration, the best power there is, intervals that cover."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import binom

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.inference import noisy_binomial
from tightdp.inference.noisy_binomial import NoisyBinomial
from tightdp.noise.lattice_laws import DiscreteTulap

FINE = 1 << 8  # coarse enough to enumerate


def count_of(rows: int, epsilon: float, delta: float = 0.0, fine: int = FINE) -> NoisyBinomial:
    return NoisyBinomial(rows, DiscreteTulap(epsilon=epsilon, delta=delta, sensitivity=fine), fine)


def enumerated(count: NoisyBinomial, chance: float) -> tuple[np.ndarray, np.ndarray]:
    """All releases that matter, and their probabilities: a convolution, by nobody's formula."""
    reach = int(-count.law.quantile(1e-14)) + 1
    noise = np.exp(np.asarray(count.law.log_pmf(np.arange(-reach, reach + 1))))
    whole = np.zeros(count.resolution * count.rows + 1)
    whole[:: count.resolution] = binom.pmf(np.arange(count.rows + 1), count.rows, chance)
    return np.arange(-reach, count.resolution * count.rows + reach + 1), np.convolve(whole, noise)


@pytest.mark.parametrize(("rows", "epsilon", "delta"), [(7, 1, 0), (12, 0.3, 0.02), (5, 4, 0)])
@pytest.mark.parametrize("chance", [0.0, 0.05, 0.5, 0.9, 1.0])
def test_tails_are_those_of_the_convolution(rows, epsilon, delta, chance):
    count = count_of(rows, epsilon, delta)
    points, mass = enumerated(count, chance)
    above = np.cumsum(mass[::-1])[::-1]

    def rounded_up(found: float, exact: float) -> bool:
        return exact - 1e-12 <= found <= exact * (1 + 1.1e-9) + 2e-12

    for place in range(0, len(points), 97):
        assert rounded_up(count.at_least(int(points[place]), chance), above[place])
        below = 1 - above[place] + mass[place]
        assert rounded_up(count.at_most(int(points[place]), chance), below)


@pytest.mark.parametrize("chance", [0.3, 1e-9, 0.999])
def test_chances_of_billions_of_rows_are_those_of_exact_arithmetic(chance):
    """Factorials of so many rows are doubles with an error of 1e-4."""
    mpmath = pytest.importorskip("mpmath")
    n = 1 << 33
    counts, weights = count_of(n, 1)._counts(chance)
    with mpmath.workdps(60):
        for place in (0, len(counts) // 3, len(counts) // 2, -1):
            x = int(counts[place])
            exact = mpmath.exp(
                mpmath.loggamma(n + 1) - mpmath.loggamma(x + 1) - mpmath.loggamma(n - x + 1)
                + x * mpmath.log(chance) + (n - x) * mpmath.log1p(-mpmath.mpf(chance))
            )  # fmt: skip
            assert float(weights[place]) == pytest.approx(float(exact), rel=1e-9)


def size(count: NoisyBinomial, null: float, alternative: str, alpha: float) -> float:
    points, mass = enumerated(count, null)
    rejects = [count.p_value(int(z), null, alternative) <= alpha for z in points]
    return float(mass[rejects].sum())


@pytest.mark.slow_for("9-0.1-less", "9-0.1-two-sided", "15-0.8-greater", "15-0.8-two-sided")
@pytest.mark.parametrize("alternative", ["greater", "less", "two-sided"])
@pytest.mark.parametrize(("rows", "null"), [(4, 0.5), (9, 0.1), (15, 0.8)])
def test_type_one_error_is_at_most_alpha_and_nearly_all_of_it(alternative, rows, null):
    count = count_of(rows, 0.7, fine=1 << 6)
    for alpha in (0.01, 0.05, 0.2):
        found = size(count, null, alternative, alpha)
        assert alpha - 2 / 64 * alpha - 1e-9 <= found <= alpha + 1e-12  # one atom is left out


def test_a_noise_that_is_smaller_than_stated_is_noticed():
    count = count_of(9, 0.7, fine=1 << 6)
    wide = NoisyBinomial(9, DiscreteTulap(epsilon=0.56, sensitivity=1 << 6), 1 << 6)
    points, mass = enumerated(wide, 0.3)  # what is drawn, 20 % wider than what the test assumes
    rejects = [count.p_value(int(z), 0.3, "greater") <= 0.05 for z in points]
    assert mass[rejects].sum() > 0.055


def best_power(rows: int, epsilon: float, delta: float, null: float, share: float) -> float:
    """Awan and Slavković (2018), Theorem 4.5: the largest sequence that privacy allows."""
    at_null, at_share = (binom.pmf(np.arange(rows + 1), rows, p) for p in (null, share))

    def chances(first: int, value: float) -> np.ndarray:
        found = np.zeros(rows + 1)
        found[first] = value
        for x in range(first, rows):
            p = found[x]
            up = math.exp(epsilon) * p + delta
            found[x + 1] = min(up, 1 - math.exp(-epsilon) * (1 - p - delta), 1.0)
        return found

    best = 0.0
    for first in range(rows + 1 if delta else 1):
        if at_null @ chances(first, 0.0) > 0.05:
            continue
        low, high = 0.0, delta if first else 1.0
        for _ in range(100):
            middle = (low + high) / 2
            fits = at_null @ chances(first, middle) <= 0.05
            low, high = (middle, high) if fits else (low, middle)
        best = max(best, float(at_share @ chances(first, low)))
    return best


@pytest.mark.parametrize(
    ("rows", "epsilon", "delta", "null", "share"),
    [
        (30, 1, 0, 0.4, 0.6),
        (30, 0.5, 0.01, 0.4, 0.6),
        (100, 0.1, 0, 0.5, 0.7),
        (10, 3, 0, 0.1, 0.5),
    ],
)
def test_no_private_test_has_more_power(rows, epsilon, delta, null, share):
    found = count_of(rows, epsilon, delta, fine=1 << 16).power(share, null, "greater", 0.05)
    best = best_power(rows, epsilon, delta, null, share)
    assert best - 2e-5 <= found <= best + 1e-9


@pytest.mark.parametrize("chance", [0.0, 0.02, 0.3, 0.5, 0.99, 1.0])
@pytest.mark.parametrize(("rows", "epsilon"), [(3, 0.5), (20, 1.0), (60, 5.0)])
def test_intervals_cover_by_enumeration(rows, epsilon, chance):
    count = count_of(rows, epsilon, fine=1 << 3)
    points, mass = enumerated(count, chance)
    likely = mass > 1e-6
    held = [a <= chance <= b for a, b in (count.interval(int(z), 0.9) for z in points[likely])]
    assert mass[likely][held].sum() >= 0.9 - mass[~likely].sum() - 1e-9


def test_a_test_of_a_table_from_function_to_report(tmp_path):
    rng = np.random.default_rng(1)
    schema = tdp.Schema({"sick": tdp.Category(["no", "yes"])}, rows=2000)
    table = {"sick": np.where(rng.random(2000) < 0.1, "yes", "no")}
    ledger = tdp.Ledger(epsilon=1, allow_seeded=True)
    told = {"levels": ["yes"], "null": 0.08, "alternative": "greater", "schema": schema}
    release = tdp.proportion_test(table, "sick", epsilon=1, ledger=ledger, key="q", rng=1, **told)
    assert release.unknown == ("p-value",)
    assert "-" in str(release)
    low, high = release.interval[0]
    assert low < release.value[0] < high
    again = tdp.proportion_test(table, "sick", epsilon=1, ledger=ledger, key="q", rng=1, **told)
    assert again.integers == release.integers
    assert ledger.spent.epsilon == 1


def test_power_is_that_of_releases(seed):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=200)
    test = tdp.ProportionTest(schema, "x", low=0.5, null=0.5, alternative="greater", epsilon=0.5)
    rng = np.random.default_rng(seed)
    found = [
        test.release({"x": (rng.random(200) < 0.58) * 1.0}, rng=seed * 1000 + j)["p-value"] <= 0.05
        for j in range(300)
    ]
    wanted = test.power(0.58)
    assert abs(np.mean(found) - wanted) < 4 * (wanted * (1 - wanted) / 300) ** 0.5


def test_rows_for_a_power():
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=10)
    test = tdp.ProportionTest(schema, "x", low=0.5, alternative="greater", epsilon=1)
    rows = test.rows_for(0.55)
    enough = tdp.ProportionTest(
        schema.with_rows(rows), "x", low=0.5, alternative="greater", epsilon=1
    )
    fewer = tdp.ProportionTest(
        schema.with_rows(rows - 20), "x", low=0.5, alternative="greater", epsilon=1
    )
    assert fewer.power(0.55) < 0.8 <= enough.power(0.55)
    with pytest.raises(ParameterError, match="`share` must differ"):
        test.rows_for(0.5)


def test_many_rows():
    count = NoisyBinomial(10**7, DiscreteTulap(epsilon=1, sensitivity=1 << 16), 1 << 16)
    low, high = count.interval((10**7 // 2) << 16, 0.95)
    assert high - low == pytest.approx(2 * 1.96 * 0.5 / math.sqrt(1e7), rel=0.01)


def test_what_cannot_be_tested_is_refused():
    facts = {"x": tdp.Interval(0, 1)}
    schema = tdp.Schema(facts, rows=10)
    for wrong, word in (
        ({"null": 0}, "null"), ({"null": 1.5}, "null"), ({"alternative": "up"}, "alternative"),
    ):  # fmt: skip
        with pytest.raises(ParameterError, match=f"`{word}`"):
            tdp.ProportionTest(schema, "x", low=0.5, epsilon=1, **wrong)
    with pytest.raises(ParameterError, match="replace-one"):
        tdp.ProportionTest(
            tdp.Schema(facts, rows=10, neighbors="add-remove"), "x", low=0.5, epsilon=1
        )
    test = tdp.ProportionTest(schema, "x", low=0.5, epsilon=1)
    for wrong in (0, 1, math.nan, "a"):
        with pytest.raises(ParameterError, match="`share`"):
            test.power(wrong)
    assert noisy_binomial.check_rows(5) == 5
