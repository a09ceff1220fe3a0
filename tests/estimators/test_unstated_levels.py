"""A level of unseen cells that nobody stated has no coefficient, and is counted all the same."""

from __future__ import annotations

import copy
import pickle

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import ParameterError

OWN, STATED = tdp.Category(["Male", "Female"]), tdp.Category(["Male", "Female"], other="Male")
ROWS = 4_000
SEX = {"unstated": OWN, "stated": STATED}


def _schema(sex: tdp.Category, target: object, **facts: object) -> tdp.Schema:
    columns = {"age": tdp.Interval(17, 90), "sex": sex, "y": target}
    return tdp.Schema(columns, rows=ROWS, **facts)


def _table() -> dict[str, np.ndarray]:
    rng = np.random.default_rng(1)
    sex = rng.choice(["Male", "Female"], ROWS).astype(object)
    sex[:40], age = "?", rng.integers(17, 91, ROWS)
    return {"age": age, "sex": sex, "y": 30 + 0.1 * age - 5 * (sex == "Female")}


@pytest.mark.parametrize("model", [tdp.LinearRegression, tdp.Ridge])
def test_a_regression_is_that_of_the_first_level(model):
    """The level had a coefficient that no row told of: intervals were ten times as wide."""
    table, found = _table(), {}
    for name, sex in SEX.items():
        given = model(epsilon=1, bounds=_schema(sex, tdp.Interval(0, 60)), random_state=1)
        found[name] = given.fit(table, "y")
        assert found[name].coef_names_ == ("age", "sex[Female]")
    plain, same = found["unstated"], found["stated"]
    assert np.array_equal(plain.coef_, same.coef_)
    assert np.array_equal(plain.conf_int(), same.conf_int())
    assert np.array_equal(plain.predict(table), same.predict(table))
    assert np.array_equal(plain.preview(table, "y").std, same.preview(table, "y").std)
    note = "count as the first level, where `other` is not stated: sex."
    assert note in str(plain.summary())
    assert note not in str(same.summary())


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_so_is_a_logistic_regression(neighbors):
    table = _table()
    table["y"] = np.where(table["y"] > 33, "yes", "no")
    label, found = tdp.Category(["no", "yes"], other="no"), []
    for sex in SEX.values():
        facts = _schema(sex, label, neighbors=neighbors)
        model = tdp.LogisticRegression(epsilon=1, bounds=facts, random_state=1).fit(table, "y")
        assert model.coef_names_ == ("age", "sex[Female]")
        found.append((model.coef_, model.predict_proba(table), str(model.summary())))
    assert all(np.array_equal(a, b) for a, b in zip(*(f[:2] for f in found), strict=True))
    assert "where `other` is not stated: sex." in found[0][2]


def test_cells_of_the_level_add_what_the_first_level_adds():
    moments = RegressionMoments(_schema(OWN, tdp.Interval(0, 60)), ["age", "sex"], "y")
    one = {"age": [40], "y": [7]}
    assert moments.measure(one | {"sex": ["?"]}) == moments.measure(one | {"sex": ["Male"]})
    assert moments.measure(one | {"sex": ["?"]}) != moments.measure(one | {"sex": ["Female"]})
    assert len(moments.sensitivity_space().names) == len(moments.names)


def test_counts_keep_the_level():
    assert tdp.Counts(tdp.Schema({"sex": OWN}, rows=9)).names[-1] == "sex[other]"


def test_a_category_remembers_what_was_stated(tmp_path):
    alike = tdp.Category(["Male", "Female", "other"])
    assert alike == tdp.Category(["Male", "Female", "other"], other="other") != OWN
    assert alike.levels == OWN.levels
    assert hash(alike) != hash(OWN)
    for rule in (OWN, STATED, alike, tdp.Category(["a", "b"], loose=True)):
        schema = tdp.Schema({"k": rule}, rows=9)
        again = [
            eval(repr(rule), {"Category": tdp.Category}),
            tdp.Schema.from_dict(schema.to_dict())["k"],
        ]
        again += [copy.deepcopy(rule), pickle.loads(pickle.dumps(rule))]
        assert all(found == rule and found.stated == rule.stated for found in again)


@pytest.mark.parametrize("model", [tdp.LogisticRegression, tdp.SparseLogisticRegression])
def test_a_label_without_other_is_refused_with_words_for_files(model):
    columns = {"x": tdp.Interval(0, 1), "y": tdp.Category(["no", "yes"])}
    given = model(epsilon=1, bounds=tdp.Schema(columns, rows=4))
    with pytest.raises(ParameterError, match=r'`other = "no"` below `levels` in TOML'):
        given.fit({"x": [0, 1, 0, 1], "y": ["no", "yes"] * 2}, "y")
