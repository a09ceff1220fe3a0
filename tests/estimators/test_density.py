"""Private densities: exact noise, consistent counts, densities that are densities."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import kstest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightdp as tdp
from tightdp.audit import audit
from tightdp.data.public_bins import public_bins
from tightdp.errors import BudgetError, ParameterError
from tightdp.estimators.cell_laws import Flat, Levels, Linear
from tightdp.estimators.density import Density
from tightdp.mechanisms.counts import on_simplex
from tightdp.noise.lattice import LatticeNoise
from tightdp.randomness import source

CELLS = "an error about a cell would tell that the cell is there; the schema's public rule maps it"
DRAWS = 20_000


@pytest.mark.slow_for("*-check_dtype_object")
@parametrize_with_checks(
    [Density(bounds=(-5, 5), bins=2)],
    expected_failed_checks=lambda estimator: {"check_dtype_object": CELLS},
    xfail_strict=False,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


# --- the noise -----------------------------------------------------------------------------------


def levels(m: int, most: int) -> tuple[np.ndarray, np.ndarray]:
    """All differences of histograms up to a level, and their levels; by brute force."""
    free = np.array(list(itertools.product(range(-most, most + 1), repeat=m - 1)))
    points = np.column_stack([free, -free.sum(axis=1)])
    level = np.abs(points).sum(axis=1) // 2
    return points[level <= most], level[level <= most]


def integer_variance(m: int, epsilon: float = 1.0) -> float:
    """Per cell, by composing gains and losses; checked against brute force below."""
    total, weighted = 1.0, 0.0
    for s, k in itertools.product(range(1, 80), range(1, m)):
        many = math.comb(m, k) * math.comb(s - 1, k - 1) * math.comb(s + m - k - 1, m - k - 1)
        up = (s - k) * (2 * (s - k) + k - 1) / (k + 1) + 2 * (s - k) + k
        down = s * (2 * s + m - k - 1) / (m - k + 1)
        total += many * math.exp(-epsilon * s)
        weighted += many * math.exp(-epsilon * s) * (up + down)
    return weighted / total / m


def test_the_variance_on_integers_is_that_of_all_points():
    for m, most in ((2, 60), (3, 40), (4, 22)):
        points, level = levels(m, most)
        weight = np.exp(-level.astype(float) * 2)
        brute = (weight @ (points**2).mean(axis=1)) / weight.sum()
        assert integer_variance(m, 2.0) == pytest.approx(brute, rel=1e-9)


@pytest.mark.parametrize(
    ("m", "reference"), [(2, 2.0), (3, 10 / 3), (4, 4.2), (6, 4 * 5 * 11 / 42)]
)
def test_noise_has_the_variance_of_the_hull_and_sums_to_nothing(m, reference, seed):
    """The reference table has 2, 3.333, 4.205 and 5.214; the last two are simulated."""
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=100)
    mechanism = tdp.AdditiveMechanism(tdp.JointHistogram(schema, ["x"], m), epsilon=1.0)
    assert mechanism.preview().std == pytest.approx(np.full(m, math.sqrt(integer_variance(m))))
    noise = np.asarray(mechanism.noise.sample(DRAWS, rng=seed), dtype=float)
    assert (noise.sum(axis=1) == 0).all()
    squares = (noise**2).mean(axis=1)
    off = (squares.mean() - integer_variance(m)) / (squares.std() / math.sqrt(DRAWS))
    assert abs(off) < 5
    assert integer_variance(m) <= reference
    # the continuous law has the reference itself
    smooth = tdp.KNormNoise(tdp.HistogramBall(m), epsilon=1.0).sample(DRAWS, rng=seed)
    squares = (smooth**2).mean(axis=1)
    assert abs(squares.mean() - reference) < 5 * squares.std() / math.sqrt(DRAWS)


def test_add_remove_is_the_discrete_laplace(seed):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=100, neighbors="add-remove")
    mechanism = tdp.AdditiveMechanism(tdp.JointHistogram(schema, ["x"], 6), epsilon=1.0)
    noise = np.asarray(mechanism.noise.sample(DRAWS, rng=seed), dtype=float)
    q = math.exp(-1)
    squares = noise**2
    spread = squares.std() / math.sqrt(squares.size)
    assert abs(squares.mean() - 2 * q / (1 - q) ** 2) < 5 * spread
    assert abs(np.corrcoef(noise.T)[0, 1]) < 5 / math.sqrt(DRAWS)


def histogram_mechanism(relation: str, m: int = 3) -> tdp.AdditiveMechanism:
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=100, neighbors=relation)
    return tdp.AdditiveMechanism(tdp.JointHistogram(schema, ["x"], m), epsilon=1.0)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_counts_are_private_and_less_noise_is_not(relation):
    """Log ratios of the law at all points, for all moves of a row; the twin has a fifth less."""
    noise = histogram_mechanism(relation).noise
    if relation == "replace-one":
        points, moves = levels(3, 14)[0], np.array([[1, -1, 0], [1, 0, -1], [0, 1, -1]])
    else:
        points, moves = (
            np.array(list(itertools.product(range(-8, 9), repeat=3))),
            np.eye(3, dtype=int),
        )
    for law, private in ((noise, True), (LatticeNoise(noise.body, 1.25, noise.sensitivity), False)):
        ratios = [law.exponent(points) - law.exponent(points - move) for move in moves]
        worst = Fraction(law.unit) * max(abs(int(r)) for r in np.ravel(ratios))
        assert (worst <= 1) is private
        assert worst == law.epsilon  # nothing is wasted


def test_draws_of_counts_hold_their_epsilon_and_a_smaller_claim_is_caught(seed):
    bits, noise = source(seed), histogram_mechanism("replace-one").noise
    inputs = [np.array([60, 40, 0]), np.array([59, 41, 0])]
    for claimed, caught in ((1.0, False), (0.7, True)):
        report = audit(
            lambda x, size: x + noise.sample(size, rng=bits),
            *inputs,
            epsilon=claimed,
            alpha=1e-6,
            releases=20_000,
            centers=inputs,
            rng=bits,
        )
        assert report.violated == caught


def test_a_fit_draws_that_law(seed):
    """Two cells: the first noisy count is off by z with weight exp(-|z|)."""
    X = np.array([[0.1]] * 6 + [[0.9]] * 4)
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=10)
    mechanism = tdp.AdditiveMechanism(tdp.JointHistogram(schema, ["x"], 2), epsilon=1.0)
    bits = source(seed)
    seen = [Density(1.0, (0, 1), 2, random_state=bits).fit(X).release_.integers for _ in range(100)]
    assert all(sum(counts) == 10 for counts in seen)
    off = np.array(seen)[:, 0] - 6
    assert abs(off.mean()) < 5 * off.std() / 10
    assert off.std() == pytest.approx(math.sqrt(integer_variance(2)), abs=5 * 1.4 / 10)
    assert mechanism.exact({"x": X[:, 0]}) == [6, 4]


# --- consistency ---------------------------------------------------------------------------------


def test_the_projection_is_the_nearest_consistent_point(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        v = rng.normal(0, 5, 6)
        x = on_simplex(v, 7.0)
        assert x.min() >= 0
        assert x.sum() == pytest.approx(7)
        for _ in range(20):
            y = rng.dirichlet(np.ones(6)) * 7
            assert (v - x) @ (y - x) <= 1e-9  # the angle of a projection on a convex set


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_counts_are_consistent(relation, seed):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=40, neighbors=relation)
    model = Density(0.2, schema, 12, random_state=seed).fit({"x": np.full(40, 0.05)})
    assert model.release_.value.min() < 0  # what was released stays
    assert model.counts_.min() >= 0
    assert model.probabilities_.sum() == pytest.approx(1)
    if relation == "replace-one":
        assert model.counts_.sum() == pytest.approx(40)
    else:
        assert 1 <= model.counts_.sum() <= 40


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("epsilon", [2.0**-40, 1e-6, 1024])
def test_extreme_budgets_give_densities(epsilon, relation, seed):
    schema = tdp.Schema({"x": tdp.Interval(-1e6, 1e6)}, rows=50, neighbors=relation)
    model = Density(epsilon, schema, 9, random_state=seed).fit({"x": np.zeros(50)})
    assert model.probabilities_.min() >= 0
    assert model.probabilities_.sum() == pytest.approx(1)
    assert np.isfinite(model.sample(5)).all()
    if epsilon == 1024:
        assert model.counts_.round(9).tolist() == [0, 0, 0, 0, 50, 0, 0, 0, 0]


def test_an_empty_table_gives_a_density(seed):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=40, neighbors="add-remove")
    model = Density(1.0, schema, 5, random_state=seed).fit({"x": np.array([])})
    assert np.isfinite(model.cdf({"x": [0.5]})).all()
    assert model.sample(4).shape == (4, 1)


# --- the density ---------------------------------------------------------------------------------

EDGES = np.array([-1.0, -0.5, 0.2, 0.3, 2.0])


@pytest.mark.parametrize("law", [Flat(EDGES), Linear(EDGES)], ids=["flat", "linear"])
def test_every_part_of_an_axis_is_a_density(law, seed):
    x = np.linspace(-1, 2, 30_001)
    density, cdf = law.density(x), law.cdf(x)
    steps = (density[1:] + density[:-1]) / 2 * np.diff(x)[:, None]
    np.testing.assert_allclose(np.cumsum(steps, axis=0), cdf[1:], atol=2e-3)
    assert cdf[0] == pytest.approx(np.zeros(cdf.shape[1]), abs=1e-12)
    assert cdf[-1] == pytest.approx(np.ones(cdf.shape[1]))
    outside = np.array([-1.1, 2.1])
    assert (law.density(outside) == 0).all()
    np.testing.assert_allclose(
        law.cdf(outside), [[0] * cdf.shape[1], [1] * cdf.shape[1]], atol=1e-9
    )
    for part in range(cdf.shape[1]):
        drawn = law.draw(np.full(4000, part), source(seed))
        assert kstest(drawn, lambda v, j=part: law.cdf(v)[:, j]).pvalue > 1e-4


def test_linear_interpolation_hits_the_heights_and_lines():
    law, shares = Linear(np.linspace(0, 1, 6)), np.array([0.1, 0.15, 0.2, 0.25, 0.3])
    masses = law.masses(shares, 0)
    assert masses.sum() == pytest.approx(1)  # a linear density is found again
    x = np.linspace(0, 1, 50)
    np.testing.assert_allclose(law.density(x) @ masses, 0.5 + (x - 0.1) * 1.25, atol=1e-12)
    cut = law.masses(np.array([0.0, 1.0, 0.0, 0.0, 0.0]), 0)
    assert cut.min() >= 0


@pytest.mark.parametrize("smoothing", ["linear", "none"])
@pytest.mark.parametrize("bins", [7, [0, 0.1, 0.5, 0.55, 1.0]])
def test_it_integrates_to_one_and_cdf_and_samples_agree(smoothing, bins, seed):
    X = np.random.default_rng(seed).beta(2, 5, (500, 1))
    model = Density(1.0, (0, 1), bins, smoothing, random_state=seed).fit(X)
    x = np.linspace(0, 1, 100_001)[:, None]
    density = np.exp(model.score_samples(x))
    assert np.trapezoid(density, x[:, 0]) == pytest.approx(1, abs=1e-3)
    assert model.cdf([[-1.0], [0.0], [1.0], [3.0]]) == pytest.approx([0, 0, 1, 1])
    drawn = model.sample(4000, random_state=seed)[:, 0]
    assert kstest(drawn, lambda v: model.cdf(v[:, None])).pvalue > 1e-4
    assert model.score_samples([[-0.1], [1.1]]).tolist() == [-np.inf, -np.inf]
    assert model.score(x[:9]) == pytest.approx(model.score_samples(x[:9]).sum())


def test_two_columns_and_a_category(seed):
    rng = np.random.default_rng(seed)
    k = rng.choice(["a", "b"], 3000, p=[0.25, 0.75])
    x = np.where(k == "a", rng.beta(2, 8, 3000), rng.beta(8, 2, 3000))
    schema = tdp.Schema(
        {"x": tdp.Interval(0, 1), "k": tdp.Category(["a", "b"], other="a")}, rows=3000
    )
    model = Density(5.0, schema, random_state=seed).fit({"x": x, "k": k})
    assert model.bins_[1] == 2
    grid = np.linspace(0, 1, 2001)
    mass = {
        level: np.trapezoid(
            np.exp(model.score_samples({"x": grid, "k": [level] * len(grid)})), grid
        )
        for level in "ab"
    }
    assert mass["a"] + mass["b"] == pytest.approx(1, abs=1e-3)
    assert mass["a"] == pytest.approx(0.25, abs=0.05)
    rows = model.sample(2000, random_state=seed)
    assert set(rows[:, 1]) == {"a", "b"}
    assert np.mean(rows[rows[:, 1] == "a", 0]) < 0.35 < np.mean(rows[rows[:, 1] == "b", 0])
    with pytest.raises(ParameterError, match="no order"):
        model.cdf({"x": [0.5], "k": ["a"]})


def test_a_joint_cdf_is_that_of_its_samples(seed):
    X = np.random.default_rng(seed).normal([1, 4], 0.7, (2000, 2))
    X[:, 1] += X[:, 0]
    model = Density(2.0, [(-2, 4), (1, 9)], [6, 9], random_state=seed).fit(X)
    drawn = model.sample(20_000, random_state=seed)
    points = np.array([[1.0, 5.0], [0.5, 6.0], [4.0, 5.0], [-2.0, 9.0], [9.0, 99.0]])
    share = [(drawn <= point).all(axis=1).mean() for point in points]
    assert model.cdf(points) == pytest.approx(share, abs=5 * 0.5 / math.sqrt(20_000))


def test_missing_and_wild_cells_follow_public_rules(seed):
    X = np.array([[np.nan], [np.inf], [-np.inf], [0.3]] * 10)
    model = Density(50.0, (0, 1), 4, "none", random_state=seed).fit(X)
    # NaN to the middle, infinities to the bounds
    assert model.probabilities_ == pytest.approx([0.25, 0.25, 0.25, 0.25], abs=0.03)
    assert np.isfinite(model.score_samples([[np.nan]])).all()


# --- the number of bins --------------------------------------------------------------------------


def test_more_rows_and_more_epsilon_allow_more_bins():
    found = [
        [public_bins(n, epsilon) for epsilon in (0.01, 0.1, 1.0)] for n in (100, 10_000, 10**6)
    ]
    assert (np.diff(found, axis=0) > 0).all()
    assert (np.diff(found, axis=1) >= 0).all()
    assert public_bins(10**6, 1.0, smoothing="none") > public_bins(10**6, 1.0)
    assert public_bins(1000, 0.1, neighbors="add-remove") >= public_bins(1000, 0.1)
    assert public_bins(1000, 1.0, levels=50) <= public_bins(1000, 1.0)


@pytest.mark.parametrize(("smoothing", "power"), [("none", 1 / 3), ("linear", 1 / 5)])
def test_without_noise_the_classical_rates_come_back(smoothing, power):
    few, many = (public_bins(n, 1024, smoothing=smoothing) for n in (10**4, 10**7))
    assert math.log(many / few) / math.log(1000) == pytest.approx(power, abs=0.02)


def test_the_predicted_error_is_measured(seed):
    """Normal rows, bounds at three deviations: the reference itself, at the rule's bins."""
    n, epsilon, found = 2000, 0.2, []
    v = public_bins(n, epsilon)
    x = np.linspace(0, 1, 1001)
    truth = np.exp(-((6 * (x - 0.5)) ** 2) / 2) * 6 / math.sqrt(2 * math.pi)
    rng = np.random.default_rng(seed)
    for i in range(40):
        rows = rng.normal(0.5, 1 / 6, (n, 1))
        model = Density(epsilon, (0, 1), v, random_state=i).fit(rows)
        found.append(np.trapezoid((np.exp(model.score_samples(x[:, None])) - truth) ** 2, x))
    plain = 6 / (2 * math.sqrt(math.pi))
    bias = 49 / 2880 * 3 * plain / 4 * 6**4 / v**4
    noise = v**2 * 4 * (v - 1) * (2 * v - 1) / (v * (v + 1)) / (n * epsilon) ** 2
    predicted = bias + (v / n + noise) * 2 / 3
    # consistency takes away part of the noise: cells without rows are cut at zero
    assert 0.4 * predicted < np.mean(found) < 1.1 * predicted


# --- money and bad input -------------------------------------------------------------------------


def test_a_key_gives_the_same_density_and_post_processing_is_free(seed):
    X = np.random.default_rng(seed).uniform(0, 1, (50, 1))
    ledger = tdp.Ledger(epsilon=2)
    model = Density(1.5, (0, 1), 4, ledger=ledger).fit(X, key="ages")
    again = clone(model).fit(X, key="ages")
    assert again.release_.integers == model.release_.integers
    np.testing.assert_array_equal(again.counts_, model.counts_)
    model.sample(100)
    model.cdf(X)
    assert ledger.spent.epsilon == 1.5
    with pytest.raises(BudgetError):
        clone(model).fit(X)
    assert ledger.spent.epsilon == 1.5


def test_a_fit_is_paid_before_the_data_are_touched(monkeypatch):
    """The ledger stands at its new sum when rows are read, and none are read unpaid."""
    ledger, seen = tdp.Ledger(epsilon=1), []
    read = tdp.JointHistogram.measure

    def watched(self, frame, **options):
        seen.append(ledger.spent.epsilon)
        return read(self, frame, **options)

    monkeypatch.setattr(tdp.JointHistogram, "measure", watched)
    model = Density(0.75, (0, 1), 4, ledger=ledger)
    model.fit(np.zeros((10, 1)))
    with pytest.raises(BudgetError):
        model.fit(np.zeros((10, 1)))
    assert seen == [0.75]
    assert ledger.spent.epsilon == 0.75


def test_what_is_refused_costs_nothing(seed):
    ledger = tdp.Ledger(epsilon=1)
    for options in (
        {"bounds": None},
        {"bounds": (1, 0)},
        {"epsilon": 0},
        {"epsilon": "1"},
        {"bins": "many"},
        {"bins": 1},
        {"bins": 2000},
        {"bins": [0.5, 0.2, 0.1]},
        {"bins": [0.0, 5.0, 9.0]},
        {"bins": [3, 4]},
        {"smoothing": "cubic"},
    ):
        with pytest.raises(ParameterError):
            Density(**{"bounds": (0, 1), "ledger": ledger, **options}).fit(np.zeros((10, 1)))
    with pytest.raises(ParameterError, match="1024"):
        Density(bounds=(0, 1), bins=4, ledger=ledger).fit(np.zeros((10, 6)))
    with pytest.raises(ParameterError, match="fewer columns"):
        Density(bounds=(0, 1), ledger=ledger).fit(np.zeros((10, 12)))
    assert ledger.spent.epsilon == 0
    fitted = Density(1.0, (0, 1), 4).fit(np.zeros((10, 1)))
    for call in (lambda: fitted.sample(0), lambda: fitted.score_samples({"y": [1.0]})):
        with pytest.raises(ParameterError):
            call()


def test_seeds_say_so_and_clones_do_not_share_noise(seed):
    X = np.random.default_rng(seed).uniform(0, 1, (50, 1))
    assert Density(bounds=(0, 1), random_state=3).fit(X).guarantee_.seeded
    model = Density(bounds=(0, 1), bins=8)
    releases = {clone(model).fit(X).release_.integers for _ in range(4)}
    assert len(releases) == 4
    assert not model.fit(X).guarantee_.seeded


def test_levels_draw_levels():
    law = Levels(["a", 2])
    assert law.draw(np.array([1, 0]), source(1)).tolist() == [2, "a"]
    assert law.cdf(np.array([0.0])).tolist() == [[1.0, 0.0]]


def test_no_cell_can_raise_an_error(seed):
    class Hostile:
        def __float__(self) -> float:
            raise RuntimeError("a cell spoke")

    cells = np.array([[Hostile()], ["12 %"], [None], [10**400], [0.5]], dtype=object)
    model = Density(1.0, (0, 1), 3, random_state=seed).fit(cells)
    assert model.counts_.sum() == pytest.approx(5)
    assert not np.isnan(model.score_samples(cells)).any()


@pytest.mark.parametrize("X", [np.array([0.1234, 0.5]), [0.1234, 0.5], np.array(0.1234)])
def test_a_table_with_one_axis_is_refused_without_a_word_about_its_cells(X):
    for model in (tdp.Density(1.0, (0, 1)), tdp.GaussianNB(bounds=(0, 1), classes=[0, 1])):
        with pytest.raises(ParameterError, match="Reshape your data") as caught:
            model.fit(X, [0, 1])
        assert "1234" not in str(caught.value)
    fitted = tdp.Density(1.0, (0, 1)).fit(np.full((9, 1), 0.5))
    with pytest.raises(ParameterError, match="Reshape your data") as caught:
        fitted.score_samples(X)
    assert "1234" not in str(caught.value)


def test_one_text_in_a_list_does_not_change_how_other_cells_are_read():
    given = {"epsilon": 1000, "bounds": (0, 4), "bins": 4, "random_state": 1}
    with_text = tdp.Density(**given).fit([[True], ["x"], [True], [0.1]]).release_
    without = tdp.Density(**given).fit([[True], [None], [True], [0.1]]).release_
    assert with_text.integers == without.integers
