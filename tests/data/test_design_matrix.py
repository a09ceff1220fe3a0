"""The one map from a schema to the columns of a regression: both ways, with and without zero."""

import itertools

import numpy as np
import pytest

from tightdp import Category, Interval, LinearRegression, Schema
from tightdp.data.design_matrix import DesignMatrix
from tightdp.errors import ParameterError
from tightdp.mechanisms.coordinate_descent import CoordinateDescent

FACTS = {
    "k": Category(["u", "v", "w"], other="u"),
    "a": Interval(3, 8),
    "b": Interval(-3, 1),
    "y": Interval(-2, 30),
    "z": Category([0, 1], other=0),
}
SCHEMA = Schema(FACTS, rows=50)
CELLS = np.array(list(itertools.product([0, 1, 2], [-1.0, 0.25, 1.0], [-1.0, 0.5])))


def user_rows():
    """Rows in user units, written out by hand."""
    k, a, b = CELLS.T
    return np.column_stack([k == 1, k == 2, 5.5 + 2.5 * a, -1 + 2 * b])


@pytest.mark.parametrize("target", ["y", "z"])
@pytest.mark.parametrize("intercept", [True, False])
def test_a_plane_is_the_same_plane_in_user_units(intercept, target, seed):
    rng = np.random.default_rng(seed)
    design = DesignMatrix(SCHEMA, ["k", "a", "b"], target, intercept=intercept)
    assert design.names == (("intercept",) if intercept else ()) + design.design
    assert design.design == ("k[v]", "k[w]", "a", "b")
    x = design.rows(CELLS)
    assert (np.abs(x) <= 1).all()
    theta = rng.normal(size=(7, len(design.names)))
    beta = design.to_user(theta)
    np.testing.assert_allclose(beta, theta @ design.linear.T + design.offset, rtol=1e-12)
    np.testing.assert_allclose(design.to_user(theta[0]), beta[0], rtol=1e-12)
    np.testing.assert_allclose(design.from_user(beta), theta, rtol=1e-9)
    unit, middle = (1.0, 0.0) if target == "z" else (16.0, 14.0) if intercept else (30.0, 0.0)
    expected = middle + unit * x @ theta.T
    rows = user_rows()
    found = beta[:, 0] + rows @ beta[:, 1:].T if intercept else rows @ beta.T
    np.testing.assert_allclose(found, expected, atol=1e-12)
    whole = DesignMatrix(SCHEMA, ["k", "a", "b"], target)
    np.testing.assert_allclose(whole.user_rows(CELLS), rows)


def test_columns_are_distinct():
    for features in (["a", "a"], ["a", "y"]):
        with pytest.raises(ParameterError, match="distinct columns"):
            DesignMatrix(SCHEMA, features, "y")


def test_a_wide_map_holds_no_square_matrix():
    wide = {f"x{j}": Interval(0, 2) for j in range(30_000)}
    design = DesignMatrix(Schema({**wide, "y": FACTS["z"]}, rows=9), list(wide), "y")
    beta = design.to_user(np.ones(30_001))
    assert beta[0] == 1 - 30_000
    assert (beta[1:] == 1).all()


def test_descent_without_an_intercept_keeps_the_users_zero():
    schema = Schema({"a": Interval(-1, 3), "z": FACTS["z"]}, rows=4, bits=8)
    mechanism = CoordinateDescent(schema, epsilon=1, passes=1, fit_intercept=False)
    table = {"a": [0.0, 3.0, -1.0, 0.0], "z": [0, 0, 1, 1]}
    assert mechanism.rows(table).tolist() == [[0, 256, 85, 0]]
    assert mechanism.design.to_user(np.array([3.0])).tolist() == [1.0]
    centred = CoordinateDescent(schema, epsilon=1, passes=1)
    assert centred.rows(table).tolist() == [[256, 256, -256, -256], [-128, 256, 256, 128]]


def test_a_feature_may_be_called_intercept():
    """A name says which coefficient it is: the other one gets brackets."""
    schema = Schema({"intercept": Interval(0, 1), "y": Interval(0, 1)}, rows=9)
    assert DesignMatrix(schema, ["intercept"], "y").names == ("(intercept)", "intercept")
    assert DesignMatrix(schema, ["intercept"], "y", intercept=False).names == ("intercept",)
    line = LinearRegression(epsilon=1, bounds=schema, random_state=1)
    table = {"intercept": np.linspace(0, 1, 9)}
    assert line.fit(table, np.linspace(0, 1, 9)).coef_names_ == ("intercept",)


def test_two_coefficients_do_not_share_a_name():
    columns = {"k": Category(["a", "b"], other="a"), "k[b]": Interval(0, 1), "y": Interval(0, 1)}
    with pytest.raises(ParameterError, match="Two entries would have the name"):
        DesignMatrix(Schema(columns, rows=9), ["k", "k[b]"], "y")
