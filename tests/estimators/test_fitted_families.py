"""Poisson, negative binomial, Huber and multi-class logistic regression as estimators."""

from __future__ import annotations

import numpy as np
import pytest
from sklearn.linear_model import LogisticRegression as Plain
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.plans.request import request

CELLS = "an error about a cell would tell that the cell is there; the schema's public rule maps it"
EXPECTED = {"check_dtype_object": CELLS, "check_supervised_y_no_nan": CELLS}


@parametrize_with_checks(
    [
        tdp.PoissonRegression(epsilon=20, bounds=(-1000, 1000), largest_count=9, random_state=0),
        tdp.HuberRegression(epsilon=20, bounds=(-1000, 1000), random_state=0),
        tdp.LogisticRegression(
            epsilon=20, bounds=(-1000, 1000), classes="observed", random_state=0
        ),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
    xfail_strict=False,
)
@pytest.mark.slow
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(seed, n=4000):
    rng = np.random.default_rng(seed)
    return rng, rng.uniform(-1, 1, (n, 2))


def test_counts_have_means_intervals_and_names(seed):
    rng, x = rows(seed, 20_000)
    y = rng.poisson(np.exp(0.5 + x @ [1.0, -0.5]))
    model = tdp.PoissonRegression(
        epsilon=8.0, bounds=(-1, 1), largest_count=15, interval_share=0.25, random_state=1
    ).fit(x, y)
    assert np.allclose(model.coef_, [1.0, -0.5], atol=0.1)
    assert model.predict([[0.0, 0.0]])[0] == pytest.approx(np.exp(0.5), rel=0.1)
    found = model.conf_int(intercept=True, confidence=0.999)
    truth = np.array([0.5, 1.0, -0.5])
    assert ((found[:, 0] < truth) & (truth < found[:, 1])).all()
    assert (found[:, 1] - found[:, 0] < 0.5).all()
    assert "log means are linear" in str(model.summary())
    with pytest.raises(ParameterError, match="starts at 0"):
        tdp.PoissonRegression(bounds=(-1, 1)).fit(x, y)
    bare = tdp.PoissonRegression(bounds=(-1, 1), largest_count=15, random_state=1).fit(x, y)
    assert "interval_share" in str(bare.summary())
    wide = tdp.NegativeBinomialRegression(8.0, [(-1, 1), (-1, 1), (0, 15)], dispersion=0.3)
    assert np.allclose(wide.fit(x, y).coef_, [1.0, -0.5], atol=0.2)


def test_several_classes_agree_with_scikit_learn_at_a_large_epsilon(seed):
    rng, x = rows(seed)
    odds = x @ rng.normal(size=(2, 3)) + rng.gumbel(size=(4000, 3))
    y = np.array(["a", "b", "c"])[odds.argmax(axis=1)]
    model = tdp.LogisticRegression(
        epsilon=500.0, bounds=(-1, 1), classes=["a", "b", "c"], random_state=1
    ).fit(x, y)
    plain = Plain(C=np.inf, tol=1e-8).fit(x, y)
    assert model.coef_.shape == (3, 2)
    assert np.allclose(model.coef_, plain.coef_, atol=0.02)
    assert np.allclose(model.predict_proba(x), plain.predict_proba(x), atol=0.01)
    assert (model.predict(x) == plain.predict(x)).mean() > 0.99
    assert model.decision_function(x).shape == (4000, 3)
    assert "No intervals" in str(model.summary())
    with pytest.raises(ParameterError, match="softmax"):
        model.conf_int()
    schema = tdp.Schema(
        {"x": tdp.Interval(-1, 1), "k": tdp.Category(["a", "b", "c"], other="a")}, rows=4000
    )
    plan = request("logistic_regression", schema, epsilon=500, target="k", features=["x"])
    released = plan.mechanism.release({"x": x[:, 0], "k": y}, rng=1)
    assert len(released.value) == 6
    assert np.isfinite(plan.preview().std).all()
    assert np.isnan(plan.mechanism.answer(released).interval).all()


@pytest.mark.parametrize(
    "options", [{"l1": 1.0}, {"noise": "l2"}, {"tune": [{"ridge": 1.0}]}, {"interval_share": 0.2}]
)
def test_what_is_for_two_classes_is_refused_for_three(options):
    x, y, ledger = np.zeros((9, 2)), np.arange(9) % 3, tdp.Ledger(epsilon=1)
    name = next(iter(options))
    given = {"bounds": (-1, 1), "classes": [0, 1, 2], "ledger": ledger, **options}
    with pytest.raises(ParameterError, match=f"`{name}` is for two classes"):
        tdp.LogisticRegression(**given).fit(x, y)
    assert ledger.spent.epsilon == 0


def test_outliers_do_not_pull_a_robust_regression(seed):
    rng, x = rows(seed, 10_000)
    y = 1 + x @ [2.0, 0.0] + rng.normal(0, 0.3, 10_000)
    y[::20] = -10
    bounds = [(-1, 1), (-1, 1), (-10, 10)]
    model = tdp.HuberRegression(epsilon=2.0, bounds=bounds, threshold=0.5, random_state=1)
    assert np.allclose(model.fit(x, y).coef_, [2.0, 0.0], atol=0.1)
    assert model.intercept_ == pytest.approx(1.0, abs=0.1)
    assert np.allclose(model.predict(x[:3]), model.intercept_ + x[:3] @ model.coef_)
    assert "No intervals" in str(model.summary())
    with pytest.raises(ParameterError, match="huber"):
        model.conf_int()


def test_a_ridge_path_is_near_fits_with_those_ridges_and_costs_nothing(seed):
    rng, x = rows(seed, 20_000)
    y = (rng.random(20_000) < 1 / (1 + np.exp(-x @ [1.0, -0.5]))).astype(int)
    ledger = tdp.Ledger(epsilon=1000, allow_seeded=True)
    given = {"bounds": (-1, 1), "classes": [0, 1], "random_state": 1}
    paid = tdp.LogisticRegression(epsilon=500, interval_share=0.5, ledger=ledger, **given).fit(x, y)
    ridges = [0.0, 50.0, 300.0]
    path = paid.ridge_path(ridges)
    assert ledger.spent.epsilon == 500
    for row, ridge in zip(path, ridges, strict=True):
        fitted = tdp.LogisticRegression(epsilon=500, ridge=ridge, **given).fit(x, y)
        assert np.allclose(row, [*fitted.intercept_, *fitted.coef_[0]], atol=0.02)
    assert np.linalg.norm(path[2]) < 0.9 * np.linalg.norm(path[0])
    with pytest.raises(ParameterError, match="interval_share"):
        tdp.LogisticRegression(epsilon=500, **given).fit(x, y).ridge_path([1.0])
    for bad in ([], [-1.0], 3):
        with pytest.raises(ParameterError, match="ridges"):
            paid.ridge_path(bad)
