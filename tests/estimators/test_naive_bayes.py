"""Naive Bayes: the scikit-learn contract, hard tables, calibration, engines, money."""

from __future__ import annotations

import pickle

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest
from sklearn.base import clone
from sklearn.naive_bayes import CategoricalNB as PlainCategorical
from sklearn.naive_bayes import GaussianNB as Plain
from sklearn.utils.estimator_checks import check_estimator

import tightdp as tdp
from tightdp.errors import BudgetError, ParameterError

EXPECTED_FAILURES = {
    "check_dtype_object": "a cell that is not a number follows the schema's public rule for "
    "missing cells: an error would tell that the cell is there",
}
MODELS = {
    "numbers": lambda **given: tdp.GaussianNB(bounds=(-6, 8), **given),
    "levels": lambda **given: tdp.CategoricalNB(bounds=3, **given),
}


def gaussian_rows(seed, n=2000, classes=3):
    rng = np.random.default_rng(seed)
    y = rng.integers(classes, size=n)
    return rng.normal(size=(n, 4)) * [1, 0.5, 1, 2] + np.outer(y, [1, 0.5, 0, 0]), y


def level_rows(seed, n=2000):
    rng = np.random.default_rng(seed)
    y = rng.integers(2, size=n)
    return np.where(rng.uniform(size=(n, 4)) < 0.6, 2 * y[:, None], rng.integers(3, size=(n, 4))), y


def mixed_table(seed, n=3000):
    X, y = gaussian_rows(seed, n, classes=2)
    k, _ = level_rows(seed + 1, n)
    return pd.DataFrame(
        {
            "x": X[:, 0],
            "j": np.array(["a", "b", "c"])[(k[:, 0] + y) % 3],
            "k": np.where(np.random.default_rng(seed + 2).uniform(size=n) < 0.8, y, 1 - y),
            "y": np.array(["no", "yes"])[y],
        }
    )


MIXED = {
    "x": tdp.Interval(-5, 6),
    "j": tdp.Category(["a", "b", "c"], other="a"),
    "k": tdp.Category([0, 1], other=0),
    "y": tdp.Category(["no", "yes"], other="no"),
}


@pytest.mark.parametrize("name", MODELS)
def test_the_scikit_learn_contract(name):
    bounds = {"numbers": (-10, 10), "levels": 8}[name]
    kind = {"numbers": tdp.GaussianNB, "levels": tdp.CategoricalNB}[name]
    model = kind(epsilon=200.0, bounds=bounds, classes="observed", random_state=0)
    results = check_estimator(
        model, expected_failed_checks=EXPECTED_FAILURES, on_fail=None, on_skip=None
    )
    assert {r["check_name"] for r in results if r["status"] == "failed"} == set()
    xfailed = {r["check_name"] for r in results if r["status"] == "xfail"}
    assert xfailed == set(EXPECTED_FAILURES)  # a reason that no longer holds must go


# --- estimates -----------------------------------------------------------------------------------


def test_a_large_budget_gives_the_estimate_without_noise(seed):
    X, y = gaussian_rows(seed, 20_000)
    plain = Plain().fit(X, y)
    bounds = list(zip(X.min(axis=0), X.max(axis=0), strict=True))
    model = tdp.GaussianNB(epsilon=500, bounds=bounds, classes=[0, 1, 2], random_state=seed)
    model.fit(X, y)
    np.testing.assert_allclose(model.theta_, plain.theta_, atol=2e-3)
    np.testing.assert_allclose(model.var_, plain.var_, rtol=5e-3)
    np.testing.assert_allclose(model.class_prior_, plain.class_prior_, atol=1e-3)
    assert np.mean(model.predict(X) == plain.predict(X)) > 0.998
    K, z = level_rows(seed)
    levels = tdp.CategoricalNB(epsilon=500, bounds=3, classes=[0, 1], random_state=seed).fit(K, z)
    exact = PlainCategorical(min_categories=3).fit(K, z)
    np.testing.assert_allclose(levels.predict_proba(K), exact.predict_proba(K), atol=2e-2)


def test_every_noise_learns(seed):
    X, y = gaussian_rows(seed, 5000)
    design = tdp.design_noise(epsilon=0.3, delta=1e-6)
    for noise, delta in [
        ("hull", 0),
        ("laplace", 0),
        ("laplace", 1e-4),
        ("staircase", 0),
        ("tulap", 1e-4),
        ("truncated-laplace", 1e-4),
        ("gaussian", 1e-4),
        ("designed", 1e-4),
        (design, 1e-4),
    ]:
        model = tdp.GaussianNB(
            epsilon=6, delta=delta, bounds=(-6, 8), noise=noise, classes=[0, 1, 2], random_state=1
        ).fit(X, y)
        assert model.score(X, y) > Plain().fit(X, y).score(X, y) - 0.05, noise
        assert model.guarantee_.delta == delta


def test_the_shape_of_a_record_beats_laws_for_entries(seed):
    X, y = gaussian_rows(seed, 500)
    spread = {
        noise: tdp.GaussianNB(bounds=(-6, 8), noise=noise, classes=[0, 1, 2], random_state=1)
        .fit(X, y)
        .release_.noise_std.mean()
        for noise in ("hull", "laplace", "staircase")
    }
    assert spread["hull"] < 0.6 * spread["laplace"]
    assert spread["hull"] < 0.6 * spread["staircase"]


def test_mixed_columns_use_both_kinds(seed):
    table = mixed_table(seed)
    model = tdp.GaussianNB(epsilon=2, bounds=tdp.Schema(MIXED, rows=3000), random_state=1)
    whole = model.fit(table, "y").score(table.drop(columns="y"), table["y"])
    for left_out in ("x", "j", "k"):
        names = [name for name in MIXED if name != left_out]
        schema = tdp.Schema({name: MIXED[name] for name in names}, rows=3000)
        part = clone(model).set_params(bounds=schema).fit(table[names], "y")
        assert part.score(table[names[:-1]], table["y"]) < whole - 0.01
    assert set(model.level_prob_) == {"j", "k"}
    assert model.theta_.shape == (2, 1)
    assert model.predict(table.drop(columns="y")).dtype.kind == "U"


# --- hard tables ---------------------------------------------------------------------------------


@pytest.mark.parametrize("epsilon", [1e-9, 1.0, 1000.0])
@pytest.mark.parametrize("name", MODELS)
@pytest.mark.parametrize(
    "case", ["a class without rows", "one row", "constant features", "not a number", "outside"]
)
def test_probabilities_are_finite_whatever_the_table(name, case, epsilon, seed):
    X, y = (gaussian_rows if name == "numbers" else level_rows)(seed, 60)
    X, y = X.astype(float), np.minimum(y, 1)
    if case == "one row":
        X, y = X[:1], y[:1]
    elif case == "constant features":
        X = np.ones_like(X)
    elif case == "not a number":
        X[::2] = np.nan
    elif case == "outside":
        X *= 1e30
    model = MODELS[name](epsilon=epsilon, classes=[0, 1, 7], random_state=seed).fit(X, y)
    proba = model.predict_proba(X)
    assert proba.shape == (len(X), 3)
    assert np.isfinite(proba).all()
    assert (proba >= 0).all()  # the smallest may underflow; their logarithms do not
    np.testing.assert_allclose(proba.sum(axis=1), 1.0)
    assert np.isfinite(model.predict_log_proba(X)).all()
    assert set(model.predict(X)) <= {0, 1, 7}
    assert model.class_prior_.sum() == pytest.approx(1)


def test_a_class_without_rows_is_released_like_any_other(seed):
    """No leak by omission: its entries carry noise of the same law, and their number is public."""
    X, y = gaussian_rows(seed, 300, classes=2)
    draws = []
    for i in range(80):
        model = tdp.GaussianNB(bounds=(-6, 8), classes=[0, 1, 2], random_state=i).fit(X, y)
        draws.append(model.release_.value.reshape(3, -1)[2])
    spread = model.release_.noise_std.reshape(3, -1)
    assert (spread == spread[0]).all()
    ratio = np.std(draws, axis=0) / spread[2]
    assert np.abs(ratio - 1).max() < 5 * 0.12


def calibration(model, X, y):
    """Mean distance between the stated and the true share of hits, in ten classes of confidence."""
    proba = model.predict_proba(X)
    sure, hit = proba.max(axis=1), proba.argmax(axis=1) == y
    cells = np.minimum((10 * sure).astype(int), 9)
    return sum(abs(hit[cells == c].sum() - sure[cells == c].sum()) for c in range(10)) / len(X)


FITS = 40
CALIBRATION = {0.01: (0.061, 0.055), 0.3: (0.066, 0.042), 5: (0.023, 0.015), 100: (0.0158, 0.0047)}
"""Mean and standard deviation of :func:`calibration` over 80 tables, each with its own noise."""


@pytest.mark.slow_for("0.01", "5")
@pytest.mark.parametrize("epsilon", CALIBRATION)
def test_probabilities_are_calibrated(epsilon, seed):
    """Rows from the model itself: what is said to be likely happens, as far as noise lets know.

    What to expect: with three classes the probabilities of perfect predictions fill seven of the
    ten classes of confidence. Hits among k rows deviate by at most sqrt(k) / 2, so for n = 3000
    rows chance alone gives at most sqrt(2 / pi) * sqrt(7 / (4 n)) = 0.019 in the mean (Cauchy and
    Schwarz); the true probabilities have 0.013. The errors of a single fit come on top, which
    calibration over tables and noises (test_class_tables.py) does not rule out: without chance, on
    30,000 rows, 0.008 at epsilon = 100 (sampling), 0.019 at 5, 0.064 at 0.3, and 0.062 at 0.01,
    where a count of 1000 has noise of 1075. The limit is five standard errors above the mean: one
    run in three million for normal errors. Every fit has rows and noise of its own; fits to the
    same rows would share their chance, and be no mean of forty.
    """
    errors, harsh = [], []
    for i in range(FITS):
        X, y = gaussian_rows((seed, i, 0), 3000)
        fresh, truth = gaussian_rows((seed, i, 1), 3000)
        model = tdp.GaussianNB(
            epsilon, bounds=(-6, 8), classes=[0, 1, 2], random_state=FITS * seed + i
        )
        errors.append(calibration(model.fit(X, y), fresh, truth))
        naive = Plain().fit(X, y)
        values = model.release_.value.reshape(3, -1)
        counts = np.maximum(values[:, :1], 1)
        naive.theta_ = 1 + 7 * np.clip(values[:, 1::2] / counts, -1, 1)
        naive.var_ = np.full((3, 4), 0.1)
        harsh.append(calibration(naive, fresh, truth))
    mean, deviation = CALIBRATION[epsilon]
    limit = mean + 5 * deviation / np.sqrt(FITS)
    assert np.mean(errors) < limit
    assert np.mean(harsh) > limit  # noise taken at its word is caught: it is overconfident


def test_tiny_budgets_fall_back_to_equal_odds(seed):
    X, y = gaussian_rows(seed, 100)
    for i in range(20):
        model = tdp.GaussianNB(1e-6, bounds=(-6, 8), classes=[0, 1, 2], random_state=i).fit(X, y)
        assert model.predict_proba(X) == pytest.approx(np.full((100, 3), 1 / 3), abs=0.01)


# --- tables and money ----------------------------------------------------------------------------


def test_every_engine_gives_the_same_release(seed):
    frame = mixed_table(seed, 500)
    schema = tdp.Schema(MIXED, rows=500)
    arrow = pa.Table.from_pandas(frame)
    tables = {
        "pandas": frame,
        "polars": pl.from_pandas(frame),
        "lazy": pl.from_pandas(frame).lazy(),
        "arrow": arrow,
        "duckdb": duckdb.from_arrow(arrow),
        "mapping": {name: frame[name].to_numpy() for name in frame},
    }
    released = {
        name: tdp.GaussianNB(bounds=schema, random_state=3).fit(table, "y").release_.integers
        for name, table in tables.items()
    }
    assert len(set(released.values())) == 1
    split = tdp.GaussianNB(bounds=schema, random_state=3).fit(frame.drop(columns="y"), frame["y"])
    assert split.release_.integers == released["pandas"]


def test_money_comes_first_and_refused_calls_cost_nothing(seed):
    X, y = gaussian_rows(seed, 200)
    ledger = tdp.Ledger(epsilon=1.0)
    model = tdp.GaussianNB(0.4, bounds=(-6, 8), classes=[0, 1, 2], ledger=ledger)
    for change, text in [
        ({"noise": "cube"}, "noise"),
        ({"delta": 0.1}, "delta"),
        ({"noise": "gaussian"}, "delta"),
        ({"bounds": None}, "bounds"),
        ({"classes": [1]}, "classes"),
        ({"classes": None}, "classes"),
        ({"alpha": 0}, "alpha"),
        ({"var_smoothing": -1}, "var_smoothing"),
        ({"epsilon": -1}, "epsilon"),
        ({"noise": "laplace", "count_share": 2}, "count_share"),
    ]:
        with pytest.raises(ParameterError, match=text):
            clone(model).set_params(**change).fit(X, y)
    with pytest.raises(ParameterError, match="sample_weight"):
        model.fit(X, y, sample_weight=np.ones(200))
    assert ledger.spent.epsilon == 0
    first, second = clone(model).fit(X, y), clone(model).fit(X, y)
    assert first.release_.integers != second.release_.integers
    assert float(ledger.spent.epsilon) == 0.8
    with pytest.raises(BudgetError):
        clone(model).fit(X, y)


def test_what_fails_after_the_charge_stays_paid_for(seed, monkeypatch):
    X, y = gaussian_rows(seed, 200)
    ledger = tdp.Ledger(epsilon=1.0)
    spent = []

    def fails(self, *args, **options):
        spent.append(float(ledger.spent.epsilon))
        raise RuntimeError

    monkeypatch.setattr("tightdp.data.class_moments.ClassMoments.measure", fails)
    model = tdp.GaussianNB(0.4, bounds=(-6, 8), classes=[0, 1, 2], ledger=ledger)
    with pytest.raises(RuntimeError):
        model.fit(X, y)
    assert spent == [0.4]  # charged before rows are read
    assert float(ledger.spent.epsilon) == 0.4


def test_a_key_gives_the_stored_fit_again(seed):
    X, y = gaussian_rows(seed, 200)
    ledger = tdp.Ledger(epsilon=1.0)
    model = tdp.GaussianNB(bounds=(-6, 8), classes=[0, 1, 2], ledger=ledger)
    first = model.fit(X, y, key="march").predict_proba(X)
    again = clone(model).fit(X, y, key="march")
    np.testing.assert_array_equal(again.predict_proba(X), first)
    assert ledger.spent.epsilon == 1
    copy = pickle.loads(pickle.dumps(model.set_params(ledger=None)))
    np.testing.assert_array_equal(copy.predict_proba(X), first)


def test_labels_are_never_found_out_in_silence(seed):
    X, y = gaussian_rows(seed, 50)
    with pytest.raises(ParameterError, match="observed"):
        tdp.GaussianNB(bounds=(-6, 8)).fit(X, y)
    found = tdp.GaussianNB(bounds=(-6, 8), classes="observed", random_state=1).fit(X, y)
    assert found.classes_.tolist() == [0, 1, 2]


def test_categories_refuse_numbers(seed):
    X, y = level_rows(seed, 50)
    with pytest.raises(ParameterError, match="levels"):
        tdp.CategoricalNB(bounds=(0, 2), classes=[0, 1]).fit(X, y)
    lists = tdp.CategoricalNB(bounds=[3, 3, 3, tdp.Category([0, 1, 2], other=0)], classes=[0, 1])
    assert set(lists.fit(X, y).level_prob_) == {"x0", "x1", "x2", "x3"}


def test_add_remove_needs_no_public_number_of_rows(seed):
    table = mixed_table(seed, 2000)
    schema = tdp.Schema(MIXED, rows=5000, neighbors="add-remove")
    model = tdp.GaussianNB(epsilon=1, bounds=schema, random_state=1).fit(table, "y")
    assert model.class_count_.sum() == pytest.approx(2000, rel=0.1)
    assert str(model.guarantee_.neighbors) == "add-remove"
    assert model.score(table.drop(columns="y"), table["y"]) > 0.8


def test_a_table_without_rows_is_a_neighbour_under_add_remove():
    """Whether anybody is there is private then: no error, whatever holds the table."""
    names = ["x", "k", "y"]
    schema = tdp.Schema({n: MIXED[n] for n in names}, rows=50, neighbors="add-remove")
    model = tdp.GaussianNB(epsilon=1, bounds=schema)
    empty = np.empty((0, 2)), np.empty(0, dtype=object)
    tables = [empty, (pd.DataFrame(empty[0], columns=["x", "k"]), empty[1])]
    for X, y in tables:
        proba = clone(model).fit(X, y).predict_proba(np.zeros((1, 2)) if X is empty[0] else X[:0])
        assert np.isfinite(proba).all()
    with pytest.raises(ValueError, match="0 sample"):  # the number of rows is public here
        tdp.GaussianNB(bounds=(0, 1), classes=[0, 1]).fit(np.empty((0, 2)), np.empty(0))


def test_labels_of_several_types_stay_what_they_are(seed):
    X, y = gaussian_rows(seed, 300, classes=2)
    labels = np.array([0, "a"], dtype=object)[y]
    for kind in (tdp.GaussianNB, tdp.SparseLogisticRegression, tdp.LogisticRegression):
        model = kind(epsilon=100, bounds=(-6, 8), classes=[0, "a"], random_state=1)
        model.fit(X, labels)
        assert model.classes_.tolist() == [0, "a"]
        assert set(model.predict(X).tolist()) <= {0, "a"}
