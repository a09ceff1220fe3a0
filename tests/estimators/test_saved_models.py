"""Fitted models are saved without their ledger, and no fit is unpaid for that."""

from __future__ import annotations

import copy
import io
import pickle
from typing import Any

import joblib
import numpy as np
import pytest
from sklearn.base import clone
from sklearn.model_selection import cross_val_score

import tightdp as tdp
from tightdp.errors import BudgetError, LedgerError

X = np.linspace(0, 1, 60).reshape(30, 2)
Y = {"number": X[:, 0], "label": np.arange(30) % 2, "nothing": None}
MODELS: dict[str, tuple[Any, str]] = {
    "linear": (lambda **g: tdp.LinearRegression(bounds=(0, 1), **g), "number"),
    "ridge": (lambda **g: tdp.Ridge(bounds=(0, 1), **g), "number"),
    "quantile": (lambda **g: tdp.QuantileRegression(bounds=(0, 1), **g), "number"),
    "logistic": (lambda **g: tdp.LogisticRegression(bounds=(0, 1), classes=[0, 1], **g), "label"),
    "bayes": (lambda **g: tdp.GaussianNB(bounds=(0, 1), classes=[0, 1], **g), "label"),
    "density": (lambda **g: tdp.Density(bounds=(0, 1), bins=2, **g), "nothing"),
}


def _joblib(model: Any) -> Any:
    held = io.BytesIO()
    joblib.dump(model, held)
    held.seek(0)
    return joblib.load(held)


WAYS = {
    "pickle": lambda model: pickle.loads(pickle.dumps(model)),
    "joblib": _joblib,
    "deepcopy": copy.deepcopy,
}


@pytest.mark.parametrize("name", MODELS)
def test_a_paid_model_is_saved_without_its_ledger(name):
    make, target = MODELS[name]
    ledger = tdp.Ledger(epsilon=10)
    model = make(ledger=ledger, epsilon=1).fit(X, Y[target])
    spent = ledger.spent.epsilon
    for way in WAYS.values():
        found = way(way(model))
        assert found.release_.integers == model.release_.integers
        if hasattr(model, "predict"):
            np.testing.assert_array_equal(found.predict(X), model.predict(X))
        for lost in (found, clone(found), copy.copy(found)):
            with pytest.raises(LedgerError, match=r"set_params\(ledger="):
                lost.fit(X, Y[target])
        assert "not saved" in repr(found)
    assert ledger.spent.epsilon == spent
    assert model.ledger is ledger
    found.set_params(ledger=ledger).fit(X, Y[target])
    assert ledger.spent.epsilon == 2 * spent
    assert found.set_params(ledger=None).fit(X, Y[target]).release_ is not None


def test_shallow_copies_and_clones_share_the_ledger():
    ledger = tdp.Ledger(epsilon=10)
    model = tdp.LinearRegression(bounds=(0, 1), ledger=ledger).fit(X, Y["number"])
    assert copy.copy(model).ledger is ledger
    assert clone(model).ledger is ledger


def test_what_could_still_pay_from_memory_is_not_copied():
    ledger = tdp.Ledger(epsilon=10)
    model = tdp.LinearRegression(bounds=(0, 1), ledger=ledger)
    for way in WAYS.values():
        with pytest.raises(LedgerError, match=r"n_jobs=1, or `joblib.parallel_config"):
            way(model)
    with joblib.parallel_config(backend="threading"):
        cross_val_score(model, X, Y["number"], cv=2, n_jobs=2)
    assert ledger.spent.epsilon == 2


def test_two_processes_share_a_file_and_never_a_memory(tmp_path):
    memory = tdp.LinearRegression(bounds=(0, 1), ledger=tdp.Ledger(epsilon=10))
    with pytest.raises(pickle.PicklingError) as refused:
        cross_val_score(memory, X, Y["number"], cv=2, n_jobs=2)
    assert "A ledger in memory cannot be" in str(refused.value.__cause__)
    assert memory.ledger.spent.epsilon == 0
    ledger = tdp.Ledger(epsilon=3, path=tmp_path / "ledger.db")
    model = tdp.LinearRegression(bounds=(0, 1), ledger=ledger)
    cross_val_score(model, X, Y["number"], cv=2, n_jobs=2, error_score="raise")
    assert ledger.spent.epsilon == 2
    with pytest.raises(BudgetError):
        cross_val_score(model, X, Y["number"], cv=2, n_jobs=2, error_score="raise")
    assert ledger.spent.epsilon == 3
