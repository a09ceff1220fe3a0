"""Means, variances and geometric medians as estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.estimators.location import GeometricMedian, Mean, Variance

CELLS = "an error about a cell would tell that the cell is there; the schema's public rule maps it"
FEW = "a geometric median takes up to four columns"


@parametrize_with_checks(
    [Mean(bounds=(-5, 5)), Variance(bounds=(-5, 5))],
    expected_failed_checks=lambda estimator: {"check_dtype_object": CELLS},
    xfail_strict=False,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


@pytest.mark.slow
@parametrize_with_checks(
    [GeometricMedian(bounds=(-5, 5))],
    expected_failed_checks=lambda estimator: {
        "check_dtype_object": FEW,
        "check_fit2d_1sample": FEW,
    },
    xfail_strict=False,
)
def test_scikit_learn_checks_of_the_median(estimator, check):
    check(estimator)


def rows(seed, n=2000):
    return np.random.default_rng(seed).normal([1.0, 4.0], [0.5, 1.0], (n, 2))


@pytest.mark.parametrize(
    ("estimator", "expected"),
    [(Mean, [1, 4]), (Variance, [0.25, 1]), (GeometricMedian, [1, 4])],
)
def test_many_rows_give_the_location(estimator, expected, seed):
    model = estimator(epsilon=50, bounds=(-5, 10), random_state=seed).fit(rows(seed))
    assert model.location_ == pytest.approx(expected, abs=0.15)
    assert str(model.guarantee_.numerics) == "exact"
    assert model.n_features_in_ == 2


def test_outliers_move_the_mean_and_not_the_median(seed):
    X = rows(seed)
    X[:300] = 1e9
    options = {"epsilon": 20, "bounds": (-5, 10), "random_state": seed}
    assert Mean(**options).fit(X).location_[0] > 2
    assert abs(GeometricMedian(**options).fit(X).location_[0] - 1) < 0.5


@pytest.mark.parametrize("estimator", [Mean, GeometricMedian])
def test_schemas_tables_ledger_and_clones(estimator, seed):
    X, ledger = rows(seed, 200), tdp.Ledger(epsilon=3)
    schema = tdp.Schema({"a": tdp.Interval(-5, 10), "b": tdp.Interval(-5, 10)}, rows=200)
    table = {"a": X[:, 0], "b": X[:, 1]}
    model = estimator(1, schema, ledger=ledger).fit(table, key="m")
    assert model.fit(table, key="m").release_.integers == model.release_.integers
    assert clone(model).fit(X).release_.integers != model.release_.integers
    assert model.release_.names == ("a", "b")
    assert ledger.spent.epsilon == 2


@pytest.mark.parametrize("estimator", [Mean, Variance, GeometricMedian])
def test_bad_input_costs_nothing(estimator, seed):
    ledger = tdp.Ledger(epsilon=1)
    levels = tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=3)
    for options, X in (
        ({"bounds": None}, rows(seed, 5)),
        ({"bounds": [(0, 1)]}, rows(seed, 5)),
        ({"bounds": (0, 1), "epsilon": -1}, rows(seed, 5)),
        ({"bounds": levels}, {"k": ["a", "b", "a"]}),
        ({"bounds": (0, 1)}, "table.csv"),
    ):
        with pytest.raises(ParameterError):
            estimator(ledger=ledger, **options).fit(X)
    assert ledger.spent.epsilon == 0


# --- populations ----------------------------------------------------------------------------------


def hoeffding(rows: int, width: float) -> float:
    """The half-width that sampling alone had, for one column at 97.5 %."""
    return width * np.sqrt(np.log(2 / 0.025) / (2 * rows))


def test_population_intervals_adapt_to_the_spread(seed):
    """Hoeffding on the bounds was up to 26 and, for variances, 103 times too wide."""
    X = np.random.default_rng(seed).normal(50, 2, (100_000, 1))
    bounds = {"bounds": (0, 100), "random_state": seed}
    bought = Mean(epsilon=1, interval_share=0.1, **bounds).fit(X)
    half = np.diff(bought.conf_int())[0, 0] / 2
    assert half <= hoeffding(100_000, 100) / 8
    assert half <= 5 * 1.96 * 2 / np.sqrt(100_000)
    spread = Variance(epsilon=1, **bounds).fit(X)
    low, high = spread.conf_int()[0]
    assert low <= 4 <= high
    assert high - low <= 2 * 100**2 * np.sqrt(np.log(4 / 0.025) / (2 * 100_000)) / 10


def test_means_near_a_bound_need_no_share(seed):
    X = np.random.default_rng(seed).exponential(1.0, (20_000, 1))
    low, high = Mean(epsilon=1, bounds=(0, 200), random_state=seed).fit(X).conf_int()[0]
    assert low <= 1 <= high
    assert high - low <= 2 * hoeffding(20_000, 200) / 4


@pytest.mark.slow
@pytest.mark.parametrize("share", [0.0, 0.1])
def test_population_intervals_cover(share, seed):
    """100 samples of a skewed population: a level of 95 % misses more than 14 in 4 errors' time."""
    rng, missed = np.random.default_rng(seed), {"mean": 0, "variance": 0}
    for i in range(100):
        X = np.minimum(rng.exponential(1.0, (400, 1)), 10)
        options = {"epsilon": 2, "bounds": (0, 10), "random_state": i}
        low, high = Mean(interval_share=share, **options).fit(X).conf_int()[0]
        missed["mean"] += not low <= 1 - np.exp(-10) <= high
        low, high = Variance(**options).fit(X).conf_int()[0]
        missed["variance"] += not low <= 1 - 20 * np.exp(-10) - np.exp(-20) <= high
    assert max(missed.values()) <= 5 + 4 * np.sqrt(100 * 0.05 * 0.95)


def test_shares_are_paid_once_and_refused_where_they_buy_nothing(seed):
    ledger = tdp.Ledger(epsilon=1)
    X = rows(seed, 200)
    model = Mean(epsilon=1, bounds=(-5, 10), interval_share=0.1, ledger=ledger).fit(X)
    assert ledger.spent.epsilon == 1
    assert model.release_.names == ("x0", "x1")
    assert model.conf_int(covers="sample").shape == (2, 2)
    for share in (1, -0.1, "0.1x"):
        with pytest.raises(ParameterError):
            Mean(bounds=(-5, 10), interval_share=share).fit(X)
    private = tdp.Schema({"a": tdp.Interval(0, 1)}, rows=200, neighbors="add-remove")
    with pytest.raises(ParameterError, match="replace-one"):
        Mean(bounds=private, interval_share=0.1).fit({"a": X[:, 0]})
