"""The scikit-learn contract, every kind of table, and who pays for what."""

from __future__ import annotations

import pickle
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from sklearn.base import clone
from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.impute import SimpleImputer
from sklearn.model_selection import GridSearchCV, cross_val_score
from sklearn.pipeline import make_pipeline
from sklearn.preprocessing import FunctionTransformer, MinMaxScaler, StandardScaler
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightdp as tdp
from tightdp.data.one_pass import quantized_matrix
from tightdp.errors import BudgetError, DimensionError, ParameterError, PrivacyWarning
from tightdp.estimators.linear import LinearRegression, Ridge

WIDE = (-1000.0, 1000.0)

CELLS = "an error about a cell would tell that the cell is there; the schema's public rule maps it"
EXPECTED = {
    "check_dtype_object": CELLS,
    "check_supervised_y_no_nan": CELLS,
}


@parametrize_with_checks(
    [
        LinearRegression(epsilon=20, bounds=WIDE, random_state=0),
        Ridge(epsilon=20, bounds=WIDE, random_state=0),
        LinearRegression(epsilon=20, bounds=WIDE),
    ],
    expected_failed_checks=lambda estimator: EXPECTED,
    xfail_strict=False,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(seed, n=300):
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (n, 2))
    return X, X @ [1.0, -1.0] + rng.normal(0, 0.1, n)


BOUNDS = [(0, 1), (0, 1), (-2, 2)]
SCHEMA = tdp.Schema(
    {"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1), "y": tdp.Interval(-2, 2)}, rows=300
)


# --- noise and money -----------------------------------------------------------------------------


def test_two_clones_never_share_noise(seed):
    X, y = rows(seed)
    model = LinearRegression(bounds=BOUNDS)
    releases = [clone(model).fit(X, y).release_.integers for _ in range(3)]
    releases += [model.fit(X, y).release_.integers for _ in range(2)]
    assert len(set(releases)) == 5
    assert not model.guarantee_.seeded
    seeded = LinearRegression(bounds=BOUNDS, random_state=3)
    assert seeded.fit(X, y).guarantee_.seeded


def test_states_that_move_on_give_new_noise(seed):
    X, y = rows(seed)
    model = LinearRegression(bounds=BOUNDS, random_state=np.random.RandomState(seed))
    first = model.fit(X, y).release_
    assert first.integers != model.fit(X, y).release_.integers
    assert first.guarantee.seeded


def test_cross_validation_and_search_pay_for_every_fit(seed):
    X, y = rows(seed)
    ledger = tdp.Ledger(epsilon=100)
    model = LinearRegression(epsilon=1, bounds=BOUNDS, ledger=ledger)
    cross_val_score(model, X, y, cv=4)
    assert ledger.spent.epsilon == 4
    assert clone(model).ledger is ledger
    search = GridSearchCV(
        Ridge(epsilon=0.5, bounds=BOUNDS, ledger=ledger), {"alpha": [0.1, 1.0]}, cv=3
    ).fit(X, y)
    assert ledger.spent.epsilon == 4 + 0.5 * (2 * 3 + 1)
    assert search.best_estimator_.ledger is ledger


LEARNED = {
    "a scaler": lambda last: make_pipeline(StandardScaler(), last),
    "a scaler two steps before": lambda last: make_pipeline(
        MinMaxScaler(), FunctionTransformer(), last
    ),
    "an inner pipeline": lambda last: make_pipeline(
        StandardScaler(), make_pipeline(FunctionTransformer(), last)
    ),
    "some columns": lambda last: make_pipeline(
        ColumnTransformer([("a", StandardScaler(), [0])], remainder="passthrough"), last
    ),
    "the target": lambda last: TransformedTargetRegressor(last, transformer=StandardScaler()),
}


@pytest.mark.parametrize("case", LEARNED)
def test_what_a_pipeline_learns_is_not_private_and_said(case, seed):
    """The guarantee printed behind a fitted scaler was the exact one of the estimator alone."""
    X = np.random.default_rng(seed).uniform(-1, 1, (200, 2))
    last = tdp.LinearRegression(bounds=(-5, 5), random_state=1)
    with pytest.warns(PrivacyWarning, match="learned from the rows before LinearRegression"):
        LEARNED[case](last).fit(X, X[:, 0])


def test_the_warning_about_a_pipeline_does_not_depend_on_the_rows():
    said = []
    for X in (np.zeros((50, 2)), np.full((50, 2), np.nan), np.arange(100.0).reshape(50, 2)):
        pipe = make_pipeline(SimpleImputer(keep_empty_features=True), LinearRegression())
        pipe.set_params(linearregression__bounds=(-5, 5), linearregression__random_state=1)
        with pytest.warns(PrivacyWarning) as caught:
            pipe.fit(X, np.zeros(50))
        said.append([str(one.message) for one in caught])
    assert said[0] == said[1] == said[2]


def test_a_pipeline_fits_and_pays(seed):
    X, y = rows(seed)
    ledger = tdp.Ledger(epsilon=3)
    step = LinearRegression(epsilon=1, bounds=[(0, 2), (0, 2), (-2, 2)], ledger=ledger)
    pipe = make_pipeline(FunctionTransformer(lambda X: 2 * X), step).fit(X, y)
    assert pipe.predict(X).shape == (300,)
    assert ledger.spent.epsilon == 1


def test_the_ledger_stops_a_search_that_is_too_dear(seed):
    X, y = rows(seed)
    ledger = tdp.Ledger(epsilon=2)
    model = LinearRegression(epsilon=1, bounds=BOUNDS, ledger=ledger)
    with pytest.raises(BudgetError):
        cross_val_score(model, X, y, cv=5, error_score="raise")
    assert ledger.spent.epsilon == 2


def test_a_key_gives_the_stored_release_again(seed):
    X, y = rows(seed)
    ledger = tdp.Ledger(epsilon=2)
    model = LinearRegression(epsilon=1, bounds=BOUNDS, ledger=ledger)
    first = model.fit(X, y, key="march")
    coefficients, intervals = first.coef_, first.conf_int()
    again = clone(model).fit(X, y, key="march")
    assert ledger.spent.epsilon == 1
    np.testing.assert_array_equal(again.coef_, coefficients)
    np.testing.assert_array_equal(again.conf_int(), intervals)
    with pytest.raises(ParameterError, match="another"):
        model.set_params(epsilon=0.5).fit(X, y, key="march")
    with pytest.raises(ParameterError, match="ledger"):
        LinearRegression(bounds=BOUNDS).fit(X, y, key="march")


def test_a_fit_that_fails_leaves_the_last_one_whole(seed):
    X, y = rows(seed)
    model = LinearRegression(epsilon=1, bounds=BOUNDS, ledger=tdp.Ledger(epsilon=1)).fit(X, y)
    facts, predicted, intervals = model.schema_, model.predict(X), model.conf_int()
    with pytest.raises(BudgetError):
        model.fit(X[:200], y[:200])
    assert model.schema_ is facts
    np.testing.assert_array_equal(model.predict(X), predicted)
    np.testing.assert_array_equal(model.conf_int(), intervals)


def test_a_fit_of_fewer_columns_that_fails_leaves_the_last_one_whole(seed):
    X, y = rows(seed)
    bounds = [(-1, 1)] * (X.shape[1] + 1)
    model = LinearRegression(epsilon=1, bounds=bounds, ledger=tdp.Ledger(epsilon=1)).fit(X, y)
    before, predicted = dict(model.__dict__), model.predict(X)
    model.bounds = bounds[1:]
    with pytest.raises(BudgetError):
        model.fit(X[:, 1:], y)
    assert model.__dict__.keys() == before.keys()
    assert model.n_features_in_ == X.shape[1]
    np.testing.assert_array_equal(model.predict(X), predicted)


def test_a_preview_leaves_the_columns_of_a_fit(seed):
    X, y = rows(seed)
    model = LinearRegression(epsilon=1, bounds=(-2, 2)).fit(X, y)
    predicted = model.predict(X)
    model.preview(X[:, :1], y)
    np.testing.assert_array_equal(model.predict(X), predicted)


class Prepared(LinearRegression):
    """An estimator of a user's, whose constructor decides what it spends."""

    def __init__(self, share=Fraction(1, 10), ledger=None):
        self.share = share
        super().__init__(share * 5, (-1, 1), fit_intercept=False, ledger=ledger)


def test_a_constructor_of_ones_own_decides_what_is_spent(seed):
    X, y = rows(seed)
    ledger = tdp.Ledger(epsilon=3)
    model = Prepared(Fraction(1, 5), ledger=ledger).fit(X, y)
    assert model.guarantee_.epsilon == 1
    assert model.intercept_ == 0
    assert model.mechanism_.fit_intercept is False
    again = clone(model).fit(X, y)
    assert again.share == Fraction(1, 5)
    assert again.guarantee_.epsilon == 1
    assert ledger.spent.epsilon == 2


ESTIMATORS = {
    "linear": lambda schema, **g: (LinearRegression(bounds=schema, **g), "y"),
    "ridge": lambda schema, **g: (Ridge(bounds=schema, **g), "y"),
    "quantile": lambda schema, **g: (tdp.QuantileRegression(bounds=schema, **g), "y"),
    "logistic": lambda schema, **g: (tdp.LogisticRegression(bounds=schema, **g), "k"),
    "sparse": lambda schema, **g: (tdp.SparseLogisticRegression(bounds=schema, **g), "k"),
    "bayes": lambda schema, **g: (tdp.GaussianNB(bounds=schema, **g), "k"),
    "density": lambda schema, **g: (tdp.Density(bounds=schema, bins=2, **g), None),
}


@pytest.mark.parametrize("name", ESTIMATORS)
@pytest.mark.parametrize("rows", [20, 40])
def test_a_table_of_another_length_is_refused_before_payment(name, rows):
    """Estimators took the length of the table in silence, where releases of means refused it."""
    facts = {"x": tdp.Interval(0, 1), "y": tdp.Interval(0, 1)}
    table = {"x": np.linspace(0, 1, rows), "y": np.linspace(0, 1, rows)}
    if name in ("logistic", "sparse", "bayes"):
        facts = {"x": facts["x"], "k": tdp.Category([0, 1], other=0)}
        table = {"x": table["x"], "k": np.arange(rows) % 2}
    ledger = tdp.Ledger(epsilon=1)
    model, target = ESTIMATORS[name](tdp.Schema(facts, rows=30), ledger=ledger)
    with pytest.raises(ParameterError, match=f"has {rows} rows and the schema says 30"):
        model.fit(table, target)
    assert ledger.spent.epsilon == 0


def test_folds_have_bounds_without_a_number_of_rows(seed):
    X, y = rows(seed)
    model = LinearRegression(epsilon=9, bounds=list(SCHEMA.columns.values()))
    assert len(cross_val_score(model, X, y, cv=3, error_score="raise")) == 3


def test_a_fitted_model_can_be_pickled(seed):
    X, y = rows(seed)
    model = LinearRegression(bounds=BOUNDS, random_state=seed).fit(X, y)
    copy = pickle.loads(pickle.dumps(model))
    np.testing.assert_array_equal(copy.conf_int(), model.conf_int())
    np.testing.assert_array_equal(copy.predict(X), model.predict(X))


def test_weights_are_refused_with_the_reason(seed):
    X, y = rows(seed)
    with pytest.raises(ParameterError, match="multiplies what one row can change"):
        LinearRegression(bounds=BOUNDS).fit(X, y, sample_weight=np.ones(300))
    LinearRegression(bounds=BOUNDS).fit(X, y, sample_weight=None)


# --- tables --------------------------------------------------------------------------------------


def tables(X, y, folder):
    frame = pd.DataFrame({"a": X[:, 0], "b": X[:, 1], "y": y})
    frame.to_csv(folder / "rows.csv", index=False)
    pq.write_table(pa.Table.from_pandas(frame), folder / "rows.parquet")
    arrow, polars = pa.Table.from_pandas(frame), pl.from_pandas(frame)
    return {
        "lists": (X.tolist(), y.tolist()),
        "pandas": (frame[["a", "b"]], frame["y"]),
        "pandas, named": (frame, "y"),
        "polars": (polars.select("a", "b"), polars["y"]),
        "polars, named": (polars, "y"),
        "polars, lazy": (polars.lazy(), "y"),
        "pyarrow": (arrow.select(["a", "b"]), y),
        "pyarrow, named": (arrow, "y"),
        "mapping": ({"a": X[:, 0], "b": X[:, 1]}, y),
        "duckdb": (duckdb.from_arrow(arrow), "y"),
        "csv": (str(folder / "rows.csv"), "y"),
        "parquet": (folder / "rows.parquet", "y"),
    }


def test_every_table_gives_the_same_release(tmp_path, seed):
    X, y = rows(seed)
    expected = LinearRegression(bounds=BOUNDS, random_state=seed).fit(X, y)
    for name, (table, target) in tables(X, y, tmp_path).items():
        model = LinearRegression(bounds=SCHEMA, random_state=seed).fit(table, target)
        assert model.release_.integers == expected.release_.integers, name
        assert model.n_features_in_ == 2, name
        if name != "lists":
            assert list(model.feature_names_in_) == ["a", "b"], name


@pytest.mark.parametrize("kind", ["pandas", "polars", "pyarrow", "mapping"])
def test_predictions_by_name(kind, tmp_path, seed):
    X, y = rows(seed)
    table, target = tables(X, y, tmp_path)[kind]
    model = LinearRegression(epsilon=5, bounds=BOUNDS, random_state=seed).fit(table, target)
    expected = X @ model.coef_ + model.intercept_
    np.testing.assert_allclose(model.predict(table), expected, atol=1e-5)


@pytest.mark.parametrize("cell", ["x", None, 2 + 3j, b"1", 10**400, float("nan"), "0.5"], ids=repr)
def test_one_cell_of_a_list_changes_its_own_row_only(cell):
    def read(estimator, X, y):
        problem = estimator._problem(X, y)
        return quantized_matrix(problem.frame, problem.schema, problem.columns)

    X, y, labels = [[0.1], [1 / 3], [True], [-0.7], [0.5]], [0.1, 0.2, True, 0, 1], [0, 1, 0, 1, 1]
    linear = LinearRegression(bounds=(-1, 1))
    logistic = tdp.LogisticRegression(bounds=(-1, 1), classes=[0, 1])
    for estimator, target in ((linear, y), (logistic, labels)):
        plain = read(estimator, X, target)
        for features, targets in (([*X[:-1], [cell]], target), (X, [*target[:-1], cell])):
            changed = (read(estimator, features, targets) != plain).any(axis=1)
            assert not changed[:-1].any()


def test_no_message_prints_the_table():
    X = np.array([[0.123456], [0.5]])
    for features, target in ((X * 1j, X[:, 0]), (X, X[:, 0] * 1j)):
        with pytest.raises(ParameterError, match="Complex data not supported") as caught:
            LinearRegression(bounds=(-1, 1)).fit(features, target)
        assert "1234" not in str(caught.value)


def test_what_is_not_in_memory_needs_names_and_a_schema(tmp_path, seed):
    X, y = rows(seed)
    relation = tables(X, y, tmp_path)["duckdb"][0]
    with pytest.raises(ParameterError, match="name of the target"):
        LinearRegression(bounds=SCHEMA).fit(relation, y)
    with pytest.raises(ParameterError, match="Schema"):
        LinearRegression(bounds=(0, 1)).fit(relation, "y")
    with pytest.raises(ParameterError, match="no column"):
        LinearRegression(bounds=SCHEMA).fit(pd.DataFrame(X, columns=["a", "zzz"]), y)


def test_a_body_that_needs_a_public_number_of_rows_is_refused_before_it_costs():
    ledger = tdp.Ledger(epsilon=1, neighbors="add-remove")
    schema = tdp.Schema(SCHEMA.columns, rows=300, neighbors="add-remove")
    with pytest.raises(ParameterError, match="where the number of rows is private"):
        LinearRegression(bounds=schema, ledger=ledger, noise="hull").fit(*rows(0))
    assert ledger.spent.epsilon == 0


# --- lists of rows --------------------------------------------------------------------------------

PRIVATE_ROWS = {"rows": 40, "neighbors": "add-remove"}
NUMBERS = {"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1)}
LABELS = {"y": tdp.Category(["no", "yes"], other="no")}
OF_NUMBERS = tdp.Schema(NUMBERS, **PRIVATE_ROWS)
OF_LABELS = tdp.Schema(NUMBERS | LABELS, **PRIVATE_ROWS)
LISTED = {
    "mean": lambda: tdp.Mean(epsilon=1, bounds=OF_NUMBERS, random_state=1),
    "median": lambda: tdp.Median(epsilon=1, bounds=OF_NUMBERS, random_state=1),
    "geometric median": lambda: tdp.GeometricMedian(epsilon=1, bounds=OF_NUMBERS, random_state=1),
    "logistic": lambda: tdp.LogisticRegression(epsilon=1, bounds=OF_LABELS, random_state=1),
    "classes": lambda: tdp.GaussianNB(
        epsilon=1, bounds=OF_NUMBERS, classes=["no", "yes"], random_state=1
    ),
    "naive Bayes": lambda: tdp.GaussianNB(epsilon=1, bounds=OF_LABELS, random_state=1),
}


def fitted(name, X):
    return LISTED[name]().fit(X, None if "me" in name else ["yes"] * len(X))


@pytest.mark.parametrize("name", LISTED)
def test_no_rows_in_a_list_are_a_table_as_its_neighbour_is(name):
    """Whether somebody is there is private: a list without rows fits as a list of one does."""
    none, one = fitted(name, []), fitted(name, [[0.5, 0.25]])
    assert none.n_features_in_ == one.n_features_in_ == 2
    assert none.release_.names == one.release_.names
    empty = fitted(name, np.empty((0, 2)))
    np.testing.assert_array_equal(none.release_.value, empty.release_.value)


@pytest.mark.parametrize("X", [[[1, 2], [3]], [[], [3]], [[]], [1, 2], [[1, 2, 3]]])
@pytest.mark.parametrize("name", LISTED)
def test_a_list_that_is_no_table_has_one_error_of_ours(name, X):
    with pytest.raises(DimensionError):
        fitted(name, X)
    with pytest.raises(DimensionError):
        tdp.Mean(epsilon=1, bounds=[(0, 1)] * 2).fit(X)
