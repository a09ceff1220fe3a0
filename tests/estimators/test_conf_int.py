"""One call for intervals, whatever the estimator: its level and what it covers, by name."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from sklearn.base import clone

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.printed import Covers

X = np.random.default_rng(1).uniform(0, 1, (2000, 2))
LABELS = (X[:, 0] > np.random.default_rng(2).uniform(0, 1, 2000)).astype(int)
VISITS = np.random.default_rng(3).binomial(10, 0.2 + 0.4 * X[:, 0])
SEEDED = {"bounds": (0, 1), "random_state": 1}
COUNTED = {"bounds": [(0, 1), (0, 1), (0, 10)], "random_state": 1, "interval_share": 0.5}
FITS = {
    "LinearRegression": lambda: tdp.LinearRegression(epsilon=9, **SEEDED).fit(X, X[:, 0]),
    "Ridge": lambda: tdp.Ridge(epsilon=9, **SEEDED).fit(X, X[:, 0]),
    "LogisticRegression": lambda: tdp.LogisticRegression(
        epsilon=40, classes=[0, 1], interval_share=0.5, **SEEDED
    ).fit(X, LABELS),
    "PoissonRegression": lambda: tdp.PoissonRegression(epsilon=40, **COUNTED).fit(X, VISITS),
    "NegativeBinomialRegression": lambda: tdp.NegativeBinomialRegression(
        epsilon=40, dispersion=0.5, **COUNTED
    ).fit(X, VISITS),
    "Mean": lambda: tdp.Mean(epsilon=9, **SEEDED).fit(X),
    "Variance": lambda: tdp.Variance(epsilon=9, **SEEDED).fit(X),
    "Median": lambda: tdp.Median(epsilon=9, interval="population", **SEEDED).fit(X),
    "Quantile": lambda: tdp.Quantile(epsilon=9, interval="sample", **SEEDED).fit(X),
    "Quantiles": lambda: tdp.Quantiles(epsilon=9, interval="sample", **SEEDED).fit(X),
    "GeometricMedian": lambda: tdp.GeometricMedian(epsilon=9, interval="sample", **SEEDED).fit(X),
    "Covariance": lambda: tdp.Covariance(epsilon=9, **SEEDED).fit(X),
    "PCA": lambda: tdp.PCA(epsilon=9, **SEEDED).fit(X),
}
KNOWS: dict[str, tuple[Covers, ...]] = {
    "Mean": ("noise", "sample", "population"),
    "Variance": ("noise", "sample", "population"),
    "Quantile": ("sample",),
    "Quantiles": ("sample",),
    "GeometricMedian": ("sample",),
    "Covariance": ("sample",),
    "PCA": ("sample",),
}
DRAWN = ("Median", "Quantile", "Quantiles", "GeometricMedian")


def test_every_estimator_with_intervals_is_here():
    classes = [getattr(tdp, name) for name in tdp.__all__]
    found = {kind.__name__ for kind in classes if hasattr(kind, "conf_int")}
    fitted = {name for name in found if hasattr(getattr(tdp, name), "get_params")}
    assert fitted == {*FITS, "HuberRegression"}


def test_a_robust_regression_says_that_it_has_none():
    with pytest.raises(ParameterError, match="none for the huber loss"):
        tdp.HuberRegression(epsilon=9, **SEEDED).fit(X, X[:, 0]).conf_int()


@pytest.mark.parametrize("name", FITS)
def test_the_level_and_what_is_covered_are_said_by_name(name):
    given = list(inspect.signature(getattr(tdp, name).conf_int).parameters.values())[1:]
    assert [one.name for one in given[:2]] == ["confidence", "covers"]
    assert all(one.kind is one.KEYWORD_ONLY and one.default in (None, False) for one in given)


@pytest.mark.parametrize("name", FITS)
def test_a_fit_says_what_it_can_cover_and_by_default_covers_the_widest(name):
    model, known = FITS[name](), KNOWS.get(name, ("population",))
    np.testing.assert_array_equal(model.conf_int(), model.conf_int(covers=known[-1]))
    for covers in ("noise", "sample", "population", "everything"):
        if covers not in known:
            with pytest.raises(ParameterError, match="`covers` must be one of"):
                model.conf_int(covers=covers)


@pytest.mark.parametrize("name", FITS)
def test_levels_nest_or_are_those_that_were_paid_for(name):
    model = FITS[name]()
    np.testing.assert_array_equal(model.conf_int(), model.conf_int(confidence=0.95))
    with pytest.raises(ParameterError, match="`confidence`"):
        model.conf_int(confidence=1.5)
    assert model.mechanism_.draws_level() is (name in DRAWN)  # then it is part of the request
    if name in DRAWN:
        with pytest.raises(ParameterError, match=r"that of the fit, 0\.95"):
            model.conf_int(confidence=0.5)
        return
    for covers in KNOWS.get(name, ("population",)):
        narrow, wide = (model.conf_int(confidence=c, covers=covers) for c in (0.5, 0.99))
        assert (wide[:, 0] <= narrow[:, 0]).all()
        assert (narrow[:, 1] <= wide[:, 1]).all()
        assert (np.diff(narrow) < np.diff(wide)).all()


def test_a_mean_that_bought_its_spread_has_every_level():
    model = tdp.Mean(epsilon=9, interval_share=0.2, **SEEDED).fit(X)
    for covers in ("sample", "population"):
        narrow, wide = (model.conf_int(confidence=c, covers=covers) for c in (0.5, 0.99))
        assert (np.diff(narrow) < np.diff(wide)).all()


@pytest.mark.parametrize("name", ["Mean", "Variance"])
def test_the_number_without_noise_is_that_of_the_rows(name):
    model = FITS[name]()
    np.testing.assert_array_equal(model.conf_int(covers="noise"), model.conf_int(covers="sample"))
    fitted = type(model)(epsilon=9, confidence=0.8, **SEEDED).fit(X)
    for covers in ("sample", "population"):
        np.testing.assert_array_equal(
            fitted.conf_int(covers=covers), model.conf_int(confidence=0.8, covers=covers)
        )


TARGETS = {"LinearRegression": X[:, 0], "Ridge": X[:, 0], "LogisticRegression": LABELS}
TARGETS |= {"PoissonRegression": VISITS, "NegativeBinomialRegression": VISITS}
ALIKE = np.clip(X[:, :1] + 0.05 * np.random.default_rng(3).normal(size=(2000, 2)), 0, 1)


@pytest.mark.parametrize("epsilon", [0.1, 1.0, 40.0])
@pytest.mark.parametrize("name", FITS)
def test_no_number_lies_outside_the_interval_beside_it(name, epsilon):
    """The law of all faces: an estimate lies in the interval that is printed beside it."""
    model = clone(FITS[name]()).set_params(epsilon=epsilon)
    for rows in (X, ALIKE):
        model.fit(rows, *([TARGETS[name]] if name in TARGETS else []))
        answer = model.mechanism_.answer(model.release_)
        low, high = np.asarray(answer.interval).T
        known = np.isfinite(low)
        assert (low[known] <= answer.value[known]).all()
        assert (answer.value[known] <= high[known]).all()
