"""Covariance and PCA: the scikit-learn contract, what they say, and what they do not release."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.base import clone
from sklearn.pipeline import make_pipeline
from sklearn.utils.estimator_checks import parametrize_with_checks

import tightdp as tdp
from tightdp.data.second_moments import MOST_COLUMNS
from tightdp.errors import ParameterError
from tightdp.estimators.covariance import PCA, Covariance
from tightdp.geometry.nuclear_ball import MOST_SIZE

CELLS = "an error about a cell would tell that the cell is there; the schema's public rule maps it"


@parametrize_with_checks(
    [
        PCA(epsilon=20, bounds=(-1000, 1000), norm=1, random_state=0),
    ],
    expected_failed_checks=lambda estimator: {"check_dtype_object": CELLS},
    xfail_strict=False,
)
def test_scikit_learn_checks(estimator, check):
    check(estimator)


def rows(seed, n=4000):
    rng = np.random.default_rng(seed)
    return rng.normal(0, 0.3, (n, 1)) * [0.6, 0.8, 0.0] + rng.normal(0, 0.03, (n, 3))


def test_covariance_and_components(seed):
    X = rows(seed)
    model = PCA(n_components=2, epsilon=20, bounds=(-1, 1), norm=1).fit(X)
    assert model.covariance_ == pytest.approx(np.cov(X.T, bias=True), abs=0.01)
    assert model.components_.shape == (2, 3)
    assert abs(model.components_[0] @ [0.6, 0.8, 0.0]) > 0.99
    assert model.components_[0].max() == np.abs(model.components_[0]).max()
    assert model.explained_variance_[0] == pytest.approx(0.09, abs=0.02)
    assert (np.diff(model.explained_variance_) <= 0).all()
    assert model.explained_variance_ratio_.sum() <= 1 + 1e-12
    assert np.array_equal(model.mean_, model.location_)
    assert list(model.get_feature_names_out()) == ["pca0", "pca1"]


def test_scores_are_of_the_given_rows_and_go_back(seed):
    X = rows(seed, 500)
    model = PCA(epsilon=20, bounds=(-1, 1), norm=1).fit(X)
    scores = model.transform(X)
    assert scores == pytest.approx((X - model.mean_) @ model.components_.T, abs=1e-4)
    assert model.inverse_transform(scores) == pytest.approx(X, abs=1e-4)
    assert model.transform(X[:1]).shape == (1, 3)
    with pytest.raises(ParameterError, match="columns of scores"):
        model.inverse_transform(scores[:, :2])


def test_one_payment_and_one_key(seed):
    ledger = tdp.Ledger(epsilon=2)
    X = rows(seed, 300)
    first = Covariance(epsilon=1, bounds=(-1, 1), norm=1, ledger=ledger).fit(X, key="a")
    second = PCA(epsilon=1, bounds=(-1, 1), norm=1, ledger=ledger).fit(X, key="a")
    assert ledger.spent.epsilon == 1
    assert np.array_equal(first.covariance_, second.covariance_)
    PCA(epsilon=1, bounds=(-1, 1), norm=1, ledger=ledger).fit(X).transform(X)
    assert ledger.spent.epsilon == 2


def test_summary_and_preview_say_the_body(seed):
    model = Covariance(epsilon=1, bounds=(-1, 1), norm=1)
    foreseen = model.preview(rows(seed, 300))
    assert "matrices" in foreseen.note
    assert not hasattr(model, "release_")
    text = str(model.fit(rows(seed, 300)).summary())
    assert model.mechanism_.bodies in text
    assert "cov(x0, x1)" in text
    assert model.conf_int().shape == (9, 2)
    assert (model.conf_int(confidence=0.5)[:, 1] <= model.conf_int()[:, 1]).all()


def test_a_private_step_is_no_step_that_learned_without_noise(seed, recwarn):
    X = rows(seed, 300)
    first = PCA(n_components=2, epsilon=5, bounds=(-1, 1), norm=1)
    pipe = make_pipeline(first, tdp.Mean(epsilon=5, bounds=(-2, 2))).fit(X)
    assert pipe[-1].location_.shape == (2,)
    assert not recwarn.list


@pytest.mark.parametrize("count", [0, 4, 1.5, "mle", True])
def test_a_number_of_components_that_cannot_be(count, seed):
    ledger = tdp.Ledger(epsilon=1)
    model = PCA(n_components=count, epsilon=1, bounds=(-1, 1), ledger=ledger)
    with pytest.raises(ParameterError, match="n_components"):
        model.fit(rows(seed, 50))
    assert ledger.spent.epsilon == 0


def test_categories_are_refused():
    schema = tdp.Schema({"a": tdp.Interval(0, 1), "k": tdp.Category(["u", "v"])}, rows=3)
    with pytest.raises(ParameterError, match="Interval"):
        Covariance(bounds=schema).fit({"a": [0, 1, 0], "k": ["u", "v", "u"]})


def test_clones_draw_their_own_noise(seed):
    model = PCA(epsilon=1, bounds=(-1, 1), norm=1)
    X = rows(seed, 100)
    assert clone(model).fit(X).release_.integers != clone(model).fit(X).release_.integers


def test_the_page_knows_how_wide_a_matrix_can_be():
    page = (Path(__file__).parents[2] / "docs" / "covariance.md").read_text(encoding="utf-8")
    assert f"| up to {MOST_SIZE} columns |" in page
    assert f"matrices of up to {MOST_SIZE} rows" in page
    assert f"From {MOST_SIZE + 1} columns on" in page
    assert f"up to {MOST_COLUMNS} columns |" in page
    assert f"More than {MOST_COLUMNS} are refused" in page


@pytest.mark.parametrize("width", [MOST_SIZE, MOST_SIZE + 1])
def test_wide_matrices_say_what_their_noise_costs(width):
    X = np.zeros((10, width))
    said = Covariance(bounds=(-1, 1), norm=1).preview(X).assumes
    assert ("nuclear ball" in said) == (width <= MOST_SIZE)
    assert (f"not drawn for more than {MOST_SIZE} columns" in said) == (width > MOST_SIZE)


def test_more_columns_than_can_be_drawn_are_refused_before_payment():
    ledger = tdp.Ledger(epsilon=1)
    with pytest.raises(ParameterError, match=f"at most {MOST_COLUMNS}, .* drawn in seconds"):
        Covariance(bounds=(-1, 1), norm=1, ledger=ledger).fit(np.zeros((10, MOST_COLUMNS + 1)))
    assert ledger.spent.epsilon == 0
