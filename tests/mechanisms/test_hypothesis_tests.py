"""Tests of hypotheses: type I error, p-values that everybody finds again, power, bad input."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import partial

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.inference import moment_nulls, table_nulls
from tightdp.inference import monte_carlo_tests as simulated
from tightdp.plans import request
from tightdp.randomness import SeededSource

FACTS = {
    "k": tdp.Category(["a", "b", "c"], other="a"),
    "t": tdp.Category(["no", "yes"], other="no"),
    "x": tdp.Interval(0, 10),
    "y": tdp.Interval(-1, 1),
}


def facts(rows: int = 200) -> tdp.Schema:
    return tdp.Schema(FACTS, rows=rows)


TESTS = {
    "fit": lambda f: tdp.GoodnessOfFit(f, "k", null=[0.5, 0.3, 0.2], epsilon=1),
    "fit, kolmogorov": lambda f: tdp.GoodnessOfFit(
        f, "x", bins=4, statistic="kolmogorov", epsilon=1
    ),
    "independence": lambda f: tdp.IndependenceTest(f, ["k", "t"], epsilon=1),
    "kolmogorov": lambda f: tdp.KolmogorovTest(f, "x", "t", bins=4, epsilon=1),
    "ranks": lambda f: tdp.RankTest(f, "x", "k", bins=4, epsilon=1),
    "ranks, one side": lambda f: tdp.RankTest(
        f, "x", "t", bins=4, alternative="greater", epsilon=1
    ),
    "means": lambda f: tdp.MeansTest(f, "x", "k", epsilon=1),
    "means, trend": lambda f: tdp.MeansTest(
        f, "x", "k", pattern="trend", alternative="less", epsilon=1
    ),
    "correlation": lambda f: tdp.CorrelationTest(f, ["x", "y"], epsilon=1),
}


def rows_of(rng: np.random.Generator, rows: int) -> dict[str, object]:
    """Independent columns, shares of k those that are stated above."""
    return {
        "k": rng.choice(["a", "b", "c"], rows, p=[0.5, 0.3, 0.2]),
        "t": rng.choice(["no", "yes"], rows),
        "x": rng.uniform(0, 10, rows),
        "y": rng.uniform(-1, 1, rows),
    }


@pytest.mark.parametrize("name", TESTS)
def test_whoever_has_a_release_finds_its_p_value(name, seed):
    """Only integers and public facts enter, through a ledger and back."""
    test, table = TESTS[name](facts()), rows_of(np.random.default_rng(seed), 200)
    ledger = tdp.Ledger(1, allow_seeded=True)
    first = test.release(table, ledger=ledger, key="one", rng=seed)
    again = TESTS[name](facts()).release(table, ledger=ledger, key="one", rng=seed)
    stored = tdp.Release.from_dict(ledger.find("one"))
    assert first["p-value"] == again["p-value"] == test.p_value(stored)
    assert 0 < first["p-value"] <= 1
    assert np.isnan(first.interval[-1]).all()
    assert "p-value" in first.unknown
    assert test.read(first) is first


@pytest.mark.parametrize("name", TESTS)
def test_another_level_or_label_gives_the_same_p_value(name, seed):
    """Nothing that a curator may choose after the release moves it."""
    test = TESTS[name](facts())
    release = test.source.release(rows_of(np.random.default_rng(seed), 200), rng=seed)
    other = replace(release, confidence=0.5, receipt={"note": "again"}, noise="other words")
    assert test.p_value(release) == test.p_value(other)


# --- type I error -------------------------------------------------------------------------------


def rejected(test: object, tables: np.ndarray, seed: int, alpha: float) -> float:
    """The share of releases of drawn tables whose p-value is at most alpha."""
    noise = np.asarray(test.source.noise.sample(len(tables), rng=seed))
    drawn = [
        [int(t) + int(z) for t, z in zip(*row, strict=True)]
        for row in zip(tables, noise, strict=True)
    ]
    found = [
        simulated.p_value(
            z,
            np.array([v / test.source.resolution for v in z]),
            lambda bits, z=z: test.null_points(
                np.array([v / test.source.resolution for v in z]), bits
            ),
            test.noise_draws,
            partial(test.test_statistic, rows=test.schema.rows),
        )
        for z in drawn
    ]
    return float(np.mean(np.array(found) <= alpha))


def test_p_values_of_a_simple_hypothesis_are_exact_by_enumeration():
    """Two cells, five rows, noise of known law: the true tail lies within its simulated one."""
    schema = tdp.Schema({"t": FACTS["t"]}, rows=5)
    test = tdp.GoodnessOfFit(schema, "t", null=[0.3, 0.7], noise="laplace", epsilon=2)
    points = test.null_points(np.zeros(2), SeededSource(1))
    statistic = partial(test.test_statistic, rows=5)
    reach = range(-12, 13)
    weights = np.exp(-1.0 * np.abs(np.array(reach)))  # epsilon 2 is shared by two cells
    weights /= weights.sum()
    table = np.array(list(itertools.product(range(6), reach, reach)))
    chance = stats.binom.pmf(table[:, 0], 5, 0.3)
    chance = chance * weights[table[:, 1] + 12] * weights[table[:, 2] + 12]
    released = np.column_stack([table[:, 0] + table[:, 1], 5 - table[:, 0] + table[:, 2]])
    seen = statistic(released.astype(float))
    assert "Geometric(epsilon=1" in test.law
    for z in ([2, 3], [6, -1], [9, 2], [-3, 11]):
        own = float(statistic(np.array(z, dtype=float)))
        tail = float(chance[seen >= own * (1 - 1e-9)].sum())
        entries = np.array(z, dtype=float)
        found = simulated.p_value(z, entries, lambda _: points, test.noise_draws, statistic)
        error = simulated.monte_carlo_error(tail, 2)
        assert abs(found - tail) < 5 * error + 2 / simulated.FIRST


@pytest.mark.slow
@pytest.mark.parametrize("alpha", [0.05, 0.01])
@pytest.mark.parametrize(
    ("shape", "rows", "epsilon"), [((2, 2), 40, 1), ((3, 3), 60, 4), ((2, 6), 80, 0.5)]
)
def test_sparse_tables_are_not_rejected_too_often(shape, rows, epsilon, alpha, seed):
    names = [
        [f"{letter}{i}" for i in range(size)] for letter, size in zip("ab", shape, strict=True)
    ]
    sides = {
        side: tdp.Category(levels, other=levels[0])
        for side, levels in zip("ab", names, strict=True)
    }
    test = tdp.IndependenceTest(tdp.Schema(sides, rows=rows), ["a", "b"], epsilon=epsilon)
    r, c = (0.5 ** np.arange(size) / (0.5 ** np.arange(size)).sum() for size in shape)
    tables = np.random.default_rng(seed).multinomial(rows, np.outer(r, c).ravel(), size=300)
    share = rejected(test, tables, seed, alpha)
    assert share <= alpha + 3 * np.sqrt(alpha * (1 - alpha) / 300)


def test_noise_left_out_of_the_null_law_is_noticed(seed):
    """The planted fault: the naive test, without noise in its null law, rejects far too often."""
    test = tdp.GoodnessOfFit(facts(100), "k", null=[0.5, 0.3, 0.2], epsilon=0.1)
    tables = np.random.default_rng(seed).multinomial(100, [0.5, 0.3, 0.2], size=100)
    right = rejected(test, tables, seed, 0.05)
    test.noise_draws = lambda bits, size: np.zeros((size, 3))  # type: ignore[method-assign]
    naive = rejected(test, tables, seed, 0.05)
    assert right <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / 100)
    assert naive > 0.5


# --- power --------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", TESTS)
def test_power_grows_with_rows_epsilon_and_effect(name):
    test = TESTS[name](facts(400))
    sign = -1 if test.alternative == "less" else 1
    least = test.detects()
    assert 0.77 < tdp.power(test, sign * least) < 0.84
    assert tdp.power(test, sign * least, rows=1600) > 0.9
    assert tdp.power(test, sign * least, epsilon=0.1) < 0.7
    assert tdp.power(test, 0.0) < 0.08
    needed = tdp.sample_size(test, sign * least)
    assert 340 < needed < 460
    assert "80% power" in test.preview().note


def test_power_of_much_data_is_that_of_the_textbook():
    """With next to no noise: Cohen's w, by the noncentral chi-square law."""
    test = tdp.GoodnessOfFit(facts(500), "k", epsilon=100)
    bar = stats.chi2.ppf(0.95, 2)
    for w in (0.1, 0.15):
        exact = stats.ncx2.sf(bar, 2, 500 * w**2)
        assert abs(test.power(w) - exact) < 5 * np.sqrt(exact * (1 - exact) / 1000) + 0.01


def test_power_of_requests_and_proportions():
    asked = request("means_test", facts(), epsilon=1, column="x", by="t")
    assert tdp.power(asked, 3) == tdp.power(tdp.MeansTest(facts(), "x", "t", epsilon=1), 3)
    share = tdp.ProportionTest(facts(), "x", low=5, epsilon=1)
    assert tdp.power(share, 0.5 + tdp.detectable(share)) >= 0.8
    with pytest.raises(ParameterError, match="test"):
        tdp.power(tdp.AdditiveMechanism(tdp.Sums(facts(), ["x"]), epsilon=1), 1)


# --- what is looked at ----------------------------------------------------------------------------


def test_without_noise_statistics_are_those_of_textbooks(seed):
    table = np.array([[30.0, 30.0, 40.0], [20.0, 40.0, 40.0], [9.0, 21.0, 50.0]])
    n = int(table.sum())
    found = table_nulls.table_statistic(table.ravel(), n, (3, 3), 0.0, "chi-square")
    assert np.isclose(found, stats.chi2_contingency(table, correction=False).statistic)
    groups = [np.repeat([0, 1, 2], row.astype(int)) for row in table]
    found = table_nulls.table_statistic(table.ravel(), n, (3, 3), 0.0, "ranks")
    assert np.isclose(found * (n - 1) / n, stats.kruskal(*groups).statistic)
    two = table[:2]
    far = table_nulls.table_statistic(two.ravel(), 200, (2, 3), 0.0, "kolmogorov")
    assert np.isclose(far * np.sqrt(200 / 100**2), stats.ks_2samp(*groups[:2]).statistic)
    x, y = np.random.default_rng(seed).uniform(-1, 1, (2, 100))
    sums = np.array([x.sum(), 2 * x @ x, y.sum(), x @ y, 2 * y @ y])
    found = moment_nulls.correlation_statistic(sums, 100, np.zeros((5, 5)), "greater")
    assert np.isclose(found / 10, np.corrcoef(x, y)[0, 1])


def test_without_noise_means_are_compared_as_by_welch(seed):
    """Two groups: the squared difference over its standard error, variances by n."""
    rng = np.random.default_rng(seed)
    groups = rng.uniform(-1, 1, 400), rng.uniform(-0.4, 0.5, 300)
    entries = np.concatenate([[len(x), x.sum(), 2 * x @ x - len(x)] for x in groups])
    found = moment_nulls.means_statistic(entries, 700, np.zeros((3, 3)), "any")
    welch = stats.ttest_ind(*groups, equal_var=False).statistic ** 2
    assert abs(found / welch - 1) < 0.1  # squares are taken around the common mean


def test_two_points_have_the_moments_that_are_asked_for():
    law = moment_nulls.TwoPoints.of(np.array([0.2]), np.array([1.5]))
    low, high, q = float(law.lower[0]), float(law.upper[0]), float(law.chance[0])
    moments = [q * high**k + (1 - q) * low**k for k in (1, 2, 3)]
    assert np.allclose(moments, [0, 0.2, 1.5 * 0.2**1.5])
    for mean, variance in ((0.3, 0.1), (-0.8, 0.2)):
        a, total = (1 + mean) / 2, (1 - mean**2) / variance - 1
        exact = stats.beta.stats(a * total, (1 - a) * total, moments="s")
        found = moment_nulls.beta_skewness(np.array(mean), np.array(variance))
        assert np.isclose(found, exact)


def test_no_law_within_the_bounds_is_more_skewed_than_those_that_are_tried(seed):
    rng, points = np.random.default_rng(seed), np.linspace(-1, 1, 9)
    for chances in rng.dirichlet(np.full(9, 0.3), 200):
        mean = float(chances @ points)
        second, third = (float(chances @ (points - mean) ** k) for k in (2, 3))
        if second < 1e-6:
            continue
        least, most = moment_nulls.skewness(
            np.full(2, mean), np.full(2, second), np.array([-1.0, 1.0])
        )
        assert least - 1e-6 <= third / second**1.5 <= most + 1e-6
        law = moment_nulls.TwoPoints.of(np.full(2, second), np.array([least, most]))
        assert np.allclose([mean + law.lower[0], mean + law.upper[1]], [-1, 1], atol=1e-5)


@pytest.mark.parametrize("base", [-0.8, -0.5, 0.0])
@pytest.mark.parametrize("alternative", ["less", "two-sided"])
def test_rows_that_were_not_drawn_are_no_proof(base, alternative, seed):
    """One row in 50 is at the bound, in both groups: 100 rows have none with a chance of 0.13."""
    schema = tdp.Schema({"x": tdp.Interval(-1, 1), "t": FACTS["t"]}, rows=1000)
    test = tdp.MeansTest(schema, "x", "t", alternative=alternative, epsilon=10)
    table = {"x": [1.0] * 18 + [base] * 982, "t": ["no"] * 900 + ["yes"] * 100}
    found = [test.release(table, rng=seed + k)["p-value"] for k in range(3)]
    assert np.median(found) > 0.05


@pytest.mark.parametrize("alternative", ["greater", "two-sided"])
def test_one_row_is_no_proof_of_a_correlation(alternative, seed):
    """Five rows of 500 are at the bound of either column: one is at both with a chance of 0.05."""
    schema = tdp.Schema({"x": tdp.Interval(-1, 1), "y": tdp.Interval(-1, 1)}, rows=500)
    test = tdp.CorrelationTest(schema, ["x", "y"], alternative=alternative, epsilon=20)
    table = {"x": [1.0] * 5 + [0.0] * 495, "y": [0.0] * 4 + [1.0] * 5 + [0.0] * 491}
    found = [test.release(table, rng=seed + k)["p-value"] for k in range(3)]
    assert np.median(found) > 0.04  # the chance of such a row is 0.05


def test_a_statistic_that_is_not_a_number_proves_nothing():
    def point(bits, size):
        return np.zeros((size, 2))

    found = simulated.p_value(
        [1, 2], np.array([1.0, 2.0]), lambda bits: [point], point, lambda x: np.sum(x, -1) * np.nan
    )
    assert found == 1


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: tdp.GoodnessOfFit(facts(), "k", null=[0.5, 0.5], epsilon=1), "3 shares"),
        (lambda: tdp.GoodnessOfFit(facts(), "k", null=[2, -1, 0], epsilon=1), "not negative"),
        (lambda: tdp.GoodnessOfFit(facts(), "x", bins=500, epsilon=1), "fewer"),
        (lambda: tdp.IndependenceTest(facts(), ["k"], epsilon=1), "two columns"),
        (lambda: tdp.RankTest(facts(), "x", "k", alternative="less", epsilon=1), "two-sided"),
        (lambda: tdp.MeansTest(facts(), "x", "k", alternative="less", epsilon=1), "two-sided"),
        (lambda: tdp.CorrelationTest(facts(), ["x"], epsilon=1), "two numeric"),
        (lambda: tdp.MeansTest(facts().with_rows(3), "k", "t", epsilon=1), "k"),
        (
            lambda: tdp.MeansTest(
                tdp.Schema(FACTS, rows=9, neighbors="add-remove"), "x", "k", epsilon=1
            ),
            "replace-one",
        ),
    ],
)
def test_bad_requests_are_refused(make, words):
    with pytest.raises(tdp.TightdpError, match=words):
        make()


def test_effects_that_cannot_be_are_refused():
    with pytest.raises(ParameterError, match="negative"):
        TESTS["independence"](facts()).power(5.0)
    with pytest.raises(ParameterError, match="bounds"):
        TESTS["means"](facts()).power(30)
    with pytest.raises(ParameterError, match="between -1 and 1"):
        TESTS["correlation"](facts()).power(1.5)
    with pytest.raises(ParameterError, match="means of 3 groups"):
        TESTS["means"](facts()).power([1, 2])


@pytest.mark.parametrize("name", TESTS)
@pytest.mark.parametrize("size", [1, 2])
def test_hardly_any_rows_and_wild_noise_still_give_a_p_value(name, size, seed):
    test = TESTS[name](facts(size)).at(0.001)
    release = test.release(rows_of(np.random.default_rng(seed), size), rng=seed)
    assert 0 < release["p-value"] <= 1
