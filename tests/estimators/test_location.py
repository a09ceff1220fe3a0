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
