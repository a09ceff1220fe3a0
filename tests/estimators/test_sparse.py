"""Sparse logistic regression: the scikit-learn contract, penalties, every noise, money."""

from __future__ import annotations

import pickle
import warnings

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from reliability import excess, limit
from sklearn.base import clone
from sklearn.linear_model import LogisticRegression as Plain
from sklearn.utils.estimator_checks import check_estimator

import tightdp as tdp
from tightdp.errors import BudgetError, ParameterError

BETA = np.array([3.0, -2.0, 1.0, 0, 0, 0])
EXPECTED_FAILURES = {
    "check_dtype_object": "a cell that is not a number follows the schema's public rule for "
    "missing cells: an error would tell that the cell is there",
}


def rows(seed, n=4000):
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (n, 6))
    return X, (rng.uniform(size=n) < 1 / (1 + np.exp(-X @ BETA - 0.5))).astype(int)


def sparse(epsilon=1.0, **options):
    given = {"bounds": (-1, 1), "classes": [0, 1], "random_state": 1} | options
    return tdp.SparseLogisticRegression(epsilon, **given)


def test_the_scikit_learn_contract():
    model = tdp.SparseLogisticRegression(
        epsilon=500.0, bounds=(-10, 10), classes="observed", passes=12, random_state=0
    )
    results = check_estimator(
        model, expected_failed_checks=EXPECTED_FAILURES, on_fail=None, on_skip=None
    )
    assert {r["check_name"] for r in results if r["status"] == "failed"} == set()
    assert {r["check_name"] for r in results if r["status"] == "xfail"} == set(EXPECTED_FAILURES)


@pytest.mark.parametrize(("l1", "l2"), [(0.0, 0.0), (0.01, 0.0), (0.0, 0.02), (0.01, 0.01)])
def test_a_large_budget_solves_the_elastic_net(l1, l2, seed):
    """Against scikit-learn, whose sum of losses is weighed by C against the same penalties."""
    X, y = rows(seed, 3000)
    model = sparse(1000, l1=l1, l2=l2, passes=120).fit(X, y)
    total = l1 + l2
    options = {"C": np.inf, "l1_ratio": 0.0}
    if total:
        options = {"C": 1 / (len(X) * total), "l1_ratio": l1 / total, "solver": "saga"}
    plain = Plain(tol=1e-7, max_iter=5000, **options).fit(X, y)
    assert np.abs(model.coef_ - plain.coef_).max() < 0.08
    assert np.abs(model.intercept_ - plain.intercept_).max() < 0.05
    if l1:
        np.testing.assert_array_equal(model.coef_ == 0, plain.coef_ == 0)


def test_penalties_make_coefficients_sparse(seed):
    X, y = rows(seed)
    counts = [np.count_nonzero(sparse(8, l1=l1).fit(X, y).coef_) for l1 in (0.0, 0.03, 0.5)]
    assert counts[0] == 6
    assert 2 <= counts[1] <= 4
    assert counts[2] == 0


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of a large delta
def test_every_noise_learns(seed):
    X, y = rows(seed)
    best = Plain(C=np.inf).fit(X, y).score(X, y)
    design = tdp.design_noise(epsilon=0.5, delta=1e-4)
    parts = tdp.design_data_dependent_noise(
        epsilon=1.0,
        delta=0.01,
        sensitivity=1,
        query_range=(-3, 3),
        resolution=2,
        partition=(-3, -1, 0, 1, 3),
    )
    for noise, epsilon, delta in [
        ("best", 3, 0),
        ("laplace", 3, 0),
        ("laplace", 3, 1e-3),
        ("staircase", 3, 0),
        ("tulap", 3, 1e-3),
        ("truncated-laplace", 3, 1e-3),
        ("gaussian", 3, 1e-3),
        ("designed", 3, 1e-3),
        ("designed", 3, 0),
        (design, 14, 0.01),
        (parts, 28, 0.3),
    ]:
        model = sparse(epsilon, delta=delta, noise=noise, passes=4).fit(X, y)
        assert model.score(X, y) > best - 0.05, noise
        assert model.guarantee_.delta == delta
        assert str(model.guarantee_.numerics) == "exact"


def test_sweeps_may_end_at_their_mean(seed):
    X, y = rows(seed)
    last, mean = (sparse(100, average=average, passes=20).fit(X, y) for average in (False, True))
    assert not np.allclose(last.coef_, mean.coef_)
    assert mean.score(X, y) > 0.75
    short = sparse(100, average=True, sweep=2, passes=20).fit(X, y)
    assert short.score(X, y) > 0.75


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 1000.0])
@pytest.mark.parametrize("case", ["one class", "one row", "constant", "not a number", "outside"])
def test_probabilities_are_finite_whatever_the_table(case, epsilon, seed):
    X, y = rows(seed, 60)
    if case == "one class":
        y = np.zeros(60, dtype=int)
    elif case == "one row":
        X, y = X[:1], y[:1]
    elif case == "constant":
        X = np.ones_like(X)
    elif case == "not a number":
        X[::2] = np.nan
    else:
        X = X * 1e30
    model = sparse(epsilon).fit(X, y)
    proba = model.predict_proba(X)
    assert np.isfinite(proba).all()
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(model.predict_log_proba(X)).all()


def test_user_units_and_the_intercept(seed):
    X, y = rows(seed)
    wide = sparse(50, bounds=(8, 12), passes=10).fit(2 * X + 10, y)
    unit = sparse(50, passes=10).fit(X, y)
    np.testing.assert_allclose(wide.coef_ * 2, unit.coef_, atol=1e-3)
    np.testing.assert_allclose(
        wide.decision_function(2 * X + 10), unit.decision_function(X), atol=1e-2
    )
    without = sparse(50, passes=10, fit_intercept=False).fit(X, y)
    assert without.intercept_.tolist() == [0.0]
    assert without.mechanism_.steps == 60


def test_every_engine_gives_the_same_release(seed):
    X, y = rows(seed, 300)
    names = [f"x{j}" for j in range(6)]
    frame = pd.DataFrame(X, columns=names).assign(y=np.where(y == 1, "yes", "no"))
    columns = {name: tdp.Interval(-1, 1) for name in names}
    schema = tdp.Schema({**columns, "y": tdp.Category(["no", "yes"], other="no")}, rows=300)
    arrow = pa.Table.from_pandas(frame)
    tables = [frame, pl.from_pandas(frame), arrow, duckdb.from_arrow(arrow)]
    released = {
        tdp.SparseLogisticRegression(bounds=schema, random_state=3).fit(t, "y").release_.integers
        for t in tables
    }
    assert len(released) == 1
    shuffled = frame.sample(frac=1, random_state=1)  # exact sums do not know the order of rows
    again = tdp.SparseLogisticRegression(bounds=schema, random_state=3).fit(shuffled, "y")
    assert again.release_.integers in released


def test_rows_of_persons_and_a_private_number_of_rows(seed):
    """Under add-remove neighbours half as much noise; persons with two rows pay for both."""
    X, y = rows(seed)
    frame = pd.DataFrame(X, columns=[f"x{j}" for j in range(6)]).assign(y=y, who=np.arange(4000))
    columns = {f"x{j}": tdp.Interval(-1, 1) for j in range(6)}
    columns["y"] = tdp.Category([0, 1], other=0)
    facts = {"rows": 4500, "neighbors": "add-remove"}
    model = tdp.SparseLogisticRegression(
        4.0, bounds=tdp.Schema(columns, **facts), passes=6, random_state=1
    ).fit(frame, "y")
    features = frame[list(columns)[:-1]]
    assert model.score(features, y) > Plain(C=np.inf).fit(X, y).score(X, y) - 0.03
    assert str(model.guarantee_.neighbors) == "add-remove"
    person = tdp.Schema(columns, **facts, person="who", rows_per_person=2)
    twice = tdp.SparseLogisticRegression(4.0, bounds=person, passes=6, random_state=1)
    twice.fit(frame, "y")
    assert twice.guarantee_.rows_per_person == 2
    start = np.zeros(7, dtype=np.int64)
    one, two = (m.mechanism_.sensitivity(start, 0) for m in (model, twice))
    assert two == 2 * one == sparse(passes=6).fit(X, y).mechanism_.sensitivity(start, 0)


@pytest.mark.parametrize(("delta", "said"), [(0.006, True), (0.005, False)])
def test_a_delta_above_one_in_n_is_spoken_of(delta, said, seed):
    X, y = rows(seed, 200)
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        sparse(delta=delta).fit(X, y)
    assert [w.category for w in caught] == [tdp.PublicFactWarning] * said


# --- money ---------------------------------------------------------------------------------------


def test_money_comes_first_and_refused_calls_cost_nothing(seed):
    X, y = rows(seed, 200)
    ledger = tdp.Ledger(epsilon=1.0)
    model = sparse(0.4, ledger=ledger, random_state=None)
    for change, text in [
        ({"noise": "cube"}, "noise"),
        ({"noise": "gaussian"}, "delta"),
        ({"bounds": None}, "bounds"),
        ({"classes": [1]}, "classes"),
        ({"classes": [0, 1, 2]}, "binary"),
        ({"classes": None}, "classes"),
        ({"l1": -1}, "l1"),
        ({"passes": 0}, "passes"),
        ({"step_size": 9}, "step_size"),
        ({"epsilon": -1}, "epsilon"),
    ]:
        with pytest.raises(ParameterError, match=text):
            clone(model).set_params(**change).fit(X, y)
    assert ledger.spent.epsilon == 0
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    assert float(ledger.spent.epsilon) == 0.8  # one charge for all steps
    assert first.release_.integers != second.release_.integers
    with pytest.raises(BudgetError):
        clone(model).fit(X, y)


def test_what_fails_after_the_charge_stays_paid_for(seed, monkeypatch):
    X, y = rows(seed, 200)
    ledger, spent = tdp.Ledger(epsilon=1.0), []

    def fails(*args, **options):
        spent.append(float(ledger.spent.epsilon))
        raise RuntimeError

    monkeypatch.setattr("tightdp.mechanisms.coordinate_descent.quantized_matrix", fails)
    with pytest.raises(RuntimeError):
        sparse(0.4, ledger=ledger, random_state=None).fit(X, y)
    assert spent == [0.4]  # charged before rows are read
    assert float(ledger.spent.epsilon) == 0.4


def test_a_key_gives_the_stored_fit_again(seed):
    X, y = rows(seed, 200)
    ledger = tdp.Ledger(epsilon=1.0)
    model = sparse(ledger=ledger, random_state=None)
    first = model.fit(X, y, key="march").coef_
    np.testing.assert_array_equal(clone(model).fit(X, y, key="march").coef_, first)
    assert ledger.spent.epsilon == 1
    with pytest.raises(ParameterError, match="another"):
        clone(model).set_params(l1=0.1).fit(X, y, key="march")
    copy = pickle.loads(pickle.dumps(model.set_params(ledger=None)))
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))


# --- calibration ---------------------------------------------------------------------------------

TABLES = 48


def logistic_tables(seed):
    """Tables whose log odds are nearly constant, moderate or large, and new rows of each."""
    for number in range(TABLES):
        rng = np.random.default_rng([seed, number])
        width, n = (2, 5, 12)[number % 3], (300, 3000)[number % 2]
        size = np.exp(rng.uniform(np.log(0.1), np.log(8))) / np.sqrt(width)
        slopes, start = size * rng.normal(size=width), rng.normal() / 2
        fill = rng.uniform(0.5, 1, width)  # columns do not quite fill their bounds

        def rows(many, rng=rng, slopes=slopes, start=start, fill=fill):
            X = fill * rng.uniform(-1, 1, (many, len(slopes)))
            return X, (rng.uniform(size=many) < 1 / (1 + np.exp(-X @ slopes - start))).astype(int)

        yield number, rows(n), rows(1000)


def differences(epsilon, seed, **options):
    """Stated less true hits, summed in ten classes of confidence: shape (tables, 10), per row."""
    out = []
    for number, (X, y), (fresh, truth) in logistic_tables(seed):
        model = tdp.SparseLogisticRegression(
            epsilon,
            delta=(0, 1e-6)[number // 2 % 2],
            bounds=(-1, 1),
            classes=[0, 1],
            random_state=TABLES * seed + number,
            **options,
        )
        proba = model.fit(X, y).predict_proba(fresh)
        out.append(excess(proba, truth))
    return np.array(out)


@pytest.mark.slow_for("2.0", "0.001", "0.3")
@pytest.mark.parametrize("epsilon", [0.001, 0.03, 0.3, 2.0])
def test_probabilities_can_be_taken_at_their_word(epsilon, seed):
    """Of predictions that are said to be right with probability p, a share of p is."""
    found = differences(epsilon, seed)
    assert np.abs(found.mean(axis=0)).sum() < limit(found)


def test_long_steps_on_noise_are_too_sure(seed):
    """The broken twin: steps of the size that is right without noise."""
    found = differences(0.03, seed, step_size=4.0, passes=1)
    assert found.mean(axis=0).sum() > limit(found)
