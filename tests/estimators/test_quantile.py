"""Quantile regression: limits, coverage, the reference simulation, the contract, bad input."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightdp as tdp
from tightdp.errors import BudgetError, InfeasibleSamplingError, ParameterError
from tightdp.estimators.quantile import QuantileRegression

BOUNDS = [(0, 10), (-10, 20)]

FEW = "exact quantile regression takes few coefficients"
CELLS = "an error about a cell would tell that the cell is there; the schema's public rule maps it"
EXPECTED = {
    "check_dtype_object": FEW,
    "check_estimators_dtypes": FEW,
    "check_fit2d_1sample": FEW,
    "check_n_features_in_after_fitting": FEW,
    "check_positive_only_tag_during_fit": FEW,
    "check_regressors_no_decision_function": FEW,
    "check_regressors_int": FEW,
    "check_regressors_train": FEW,
    "check_regressor_data_not_an_array": FEW,
    "check_supervised_y_no_nan": CELLS,
}


@pytest.mark.slow
@parametrize_with_checks(
    [QuantileRegression(bounds=(-5, 5), epsilon=2)],
    expected_failed_checks=lambda estimator: EXPECTED,
    xfail_strict=False,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def sample(seed, n=3000):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, n)
    return x[:, None], 1 + 0.5 * x + rng.normal(size=n)


@pytest.mark.parametrize("tau", [0.1, 0.5, 0.9])
def test_a_share_tau_of_the_rows_lies_below_the_plane(tau, seed):
    X, y = sample(seed)
    model = QuantileRegression(epsilon=5, bounds=BOUNDS, tau=tau, random_state=seed).fit(X, y)
    below = (y <= model.predict(X)).sum()
    assert abs(below - tau * len(y)) <= model.gradient_radius_ + 2
    assert model.gradient_radius_ < 60
    assert abs(model.coef_[0] - 0.5) < 0.1
    assert model.release_["x0"] == model.coef_[0]


def test_without_intercept_the_plane_passes_through_zero(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(1, 10, 2000)
    y = 0.5 * x * np.exp(rng.normal(0, 0.1, 2000))
    model = QuantileRegression(5, [(0, 10), (0, 10)], 0.5, fit_intercept=False)
    assert model.fit(x[:, None], y).intercept_ == 0
    assert abs(model.coef_[0] - 0.5) < 0.02
    assert model.predict([[0.0]])[0] == pytest.approx(0, abs=1e-4)


def test_tables_names_ledger_and_clones(seed):
    X, y = sample(seed, 400)
    ledger = tdp.Ledger(epsilon=3)
    schema = tdp.Schema({"x": tdp.Interval(0, 10), "y": tdp.Interval(-10, 20)}, rows=400)
    model = QuantileRegression(1, schema, 0.5, ledger=ledger)
    first = model.fit({"x": X[:, 0], "y": y}, "y", key="a").release_
    assert model.fit({"x": X[:, 0], "y": y}, "y", key="a").release_.integers == first.integers
    other = clone(model).fit({"x": X[:, 0], "y": y}, "y")
    assert other.release_.integers != first.integers
    assert ledger.spent.epsilon == 2
    with pytest.raises(BudgetError):
        QuantileRegression(2, schema, ledger=ledger).fit({"x": X[:, 0], "y": y}, "y")


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tau": 0}, "`tau`"),
        ({"tau": 1}, "`tau`"),
        ({"radius": None}, "normaliser"),
        ({"shape": "l3"}, "`shape`"),
        ({"sampler": "fast"}, "`sampler`"),
        ({"epsilon": 0}, "`epsilon`"),
        ({"bounds": None}, "`bounds`"),
        ({"fit_intercept": 1}, "`fit_intercept`"),
    ],
)
def test_bad_parameters_cost_nothing(change, words, seed):
    X, y = sample(seed, 50)
    ledger = tdp.Ledger(epsilon=1)
    options = {"epsilon": 1, "bounds": BOUNDS, "ledger": ledger, **change}
    with pytest.raises(ParameterError, match=words):
        QuantileRegression(**options).fit(X, y)
    assert ledger.spent.epsilon == 0


def test_too_many_features_are_refused_before_paying():
    ledger = tdp.Ledger(epsilon=1)
    with pytest.raises(InfeasibleSamplingError, match="up to 5 coefficients"):
        QuantileRegression(1, (-1, 1), ledger=ledger).fit(np.zeros((9, 7)), np.zeros(9))
    assert ledger.spent.epsilon == 0


def test_chains_are_for_those_who_ask(seed):
    X, y = np.zeros((60, 5)), np.linspace(-1, 1, 60)
    model = QuantileRegression(1, (-1, 1), sampler="mcmc", random_state=seed).fit(X, y)
    assert str(model.guarantee_.numerics) == "approximate-sampler"


# --- the reference simulation (2g): median regression, two coefficients, epsilon 1 ---------------

# mean distance to the truth and its standard error, responses divided by their largest size
REFERENCE = {
    10: (1.319, 0.023),
    100: (0.3803, 0.0096),
    1000: (0.07227, 0.00197),
    10_000: (0.02282, 0.00066),
    100_000: (0.00632, 0.00024),
}


def mean_distance(n, replicates, seed):
    """The papers' Algorithm 1, whose scaling by the largest response is not private."""
    rng, truth, distances = np.random.default_rng(seed), np.array([0.0, -1.0]), []
    for i in range(replicates):
        x = rng.uniform(-1, 1, n)
        y = truth[1] * x + rng.normal(size=n)
        largest = np.abs(y).max()
        model = QuantileRegression(1, [(-1, 1), (-1, 1)], random_state=seed + i)
        model.fit(x[:, None], y / largest)
        found = largest * np.append(model.intercept_, model.coef_)
        distances.append(np.linalg.norm(found - truth))
    return np.mean(distances), np.std(distances) / np.sqrt(replicates)


@pytest.mark.slow
def test_a24_the_reference_simulation_at_100_rows(seed):
    found, error = mean_distance(100, 60, seed)
    expected, their_error = REFERENCE[100]
    assert abs(found - expected) <= 4 * np.hypot(error, their_error)


@pytest.mark.slow
@pytest.mark.parametrize("n", REFERENCE)
def test_a24_the_reference_simulation(n, seed):
    found, error = mean_distance(n, 400 if n < 10_000 else 100, seed)
    expected, their_error = REFERENCE[n]
    assert abs(found - expected) <= 4 * np.hypot(error, their_error)
