"""Tests of coefficients as a release: they agree with the model's own, and know their power."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.inference.coefficient_tests import equations
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.plans import request

NAMES = [*"abc"]
SCHEMA = tdp.Schema({name: tdp.Interval(-1, 1) for name in "abcy"}, rows=900)


def table(seed: int, effect: float = 0.4) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    X = rng.uniform(-1, 1, (900, 3))
    y = np.clip(effect * X[:, 0] + rng.uniform(-0.6, 0.6, 900), -1, 1)
    return dict(zip("abcy", [*X.T, y], strict=True))


def built(tested: object = "a", **options: object) -> tdp.RegressionTest:
    return tdp.RegressionTest(SCHEMA, NAMES, "y", tested, **({"epsilon": 4} | options))


@pytest.fixture(scope="module")
def line():
    return built()


@pytest.mark.parametrize(
    ("tested", "null"), [("a", 0), ("a - b", [0.1]), (["b", "c"], 0), ({"a": 2, "c": 1}, 0.5)]
)
def test_it_says_what_the_fitted_model_says(tested, null):
    rows, test = table(1), built(tested, null=null)
    release = test.release(rows, rng=3)
    model = tdp.LinearRegression(epsilon=4, bounds=SCHEMA, random_state=3)
    model.fit(np.column_stack([rows[name] for name in NAMES]), rows["y"])
    found = model.test(tested, null)
    assert release["p-value"] == found.p_value
    assert release.value[:-1] == pytest.approx(found.estimate)
    assert release.covers == "population"
    low, high = release.interval[:-1].T
    assert ((low <= found.estimate) & (found.estimate <= high)).all()


@pytest.mark.parametrize("assume", [None, "equal variance"])
def test_a_slope_that_noise_hides_is_not_known_to_a_test_either(assume):
    rows = table(1)
    rows["a"] = 0.01 * rows["a"]
    test = built(["a", "b"], null=[0, 0], epsilon=1, assume=assume)
    release = test.release(rows, rng=3)
    assert np.isinf(release.interval[0]).all()
    assert np.isinf(tdp.Release.from_json(release.to_json()).interval[0]).all()
    model = tdp.LinearRegression(epsilon=1, bounds=SCHEMA, random_state=3)
    model.fit(np.column_stack([rows[name] for name in NAMES]), rows["y"])
    assert release["p-value"] == model.test(["a", "b"], assume=assume).p_value


def test_tests_of_one_regression_share_its_release(line):
    ledger = tdp.Ledger(epsilon=4, allow_seeded=True)
    first = line.release(table(1), ledger=ledger, key="line", rng=1)
    second = built("b - c").release(table(1), ledger=ledger, key="line", rng=1)
    assert ledger.spent.epsilon == 4
    assert first.integers == second.integers


def test_power_grows_with_effect_rows_and_epsilon(line):
    assert line.power(0.0) <= 0.05
    found = [line.power(effect) for effect in (0.05, 0.1, 0.2)]
    assert found == sorted(found)
    assert line.power(0.1, rows=9_000) > line.power(0.1) > line.at(0.2).power(0.1)
    least = tdp.detectable(line)
    assert abs(line.power(least) - 0.8) < 0.05
    assert f"{least:.3g}" in line.preview().note


@pytest.mark.slow
def test_the_rows_for_what_is_just_detected_are_those_there_are(line):
    assert 800 < tdp.sample_size(line, tdp.detectable(line)) < 1_000


def test_planned_power_is_what_releases_have(line, seed):
    """On rows that fill their bounds, as power says; the equation of the third column is true."""
    rng, effect, many = np.random.default_rng(seed), 0.15, 24
    rejected = []
    for k in range(many):
        X = rng.uniform(-1, 1, (900, 3))
        sigma = np.sqrt(1 / 3 - effect**2 / 3)
        error = sigma * np.sqrt(3) * rng.uniform(-1, 1, 900)
        rows = dict(zip("abcy", [*X.T, effect * X[:, 0] + error], strict=True))
        rejected.append(line.release(rows, rng=int(seed) + k)["p-value"] <= 0.05)
    planned = line.power(effect)
    assert abs(np.mean(rejected) - planned) < 4 * np.sqrt(0.25 / many)


def test_equations_in_words_and_weights():
    names = ["intercept", "hours a week", "age", "k=a"]
    same = ["hours a week - 0.5 age", {"hours a week": 1, "age": -0.5}]
    first, second = (equations(each, names)[0] for each in same)
    assert (first == second).all()
    assert equations("2*age+k=a", names)[0].tolist() == [[0, 0, 2, 1]]
    for wrong in ("age -", "ages", "age age", "age + age", "", "- - age", 3, [], [["age"]]):
        with pytest.raises(ParameterError, match="tested"):
            equations(wrong, names)


def test_bad_questions_are_refused():
    for wrong in ({"null": [1, 2]}, {"null": float("nan")}, {"assume": "nothing"}):
        with pytest.raises(ParameterError):
            built(**wrong)
    with pytest.raises(ParameterError, match="effect"):
        built().power(5.0)
    columns = {"a": tdp.Interval(0, 1), "y": tdp.Interval(0, 1)}
    private = tdp.Schema(columns, rows=50, neighbors="add-remove")
    with pytest.raises(ParameterError, match="coefficient_test"):
        tdp.RegressionTest(private, ["a"], "y", "a", epsilon=1)


# --- previews for what is public of the columns ---------------------------------------------------


def test_previews_are_for_the_spread_that_was_stated(seed):
    """Errors on rows that fill so much of their bounds, and hang together so much."""
    options = {"spread": {"a": 0.5, "b": 0.5}, "correlation": 0.6}
    line = LeastSquares(
        SCHEMA.with_rows(50_000), ["a", "b"], "y", epsilon=4, post="none", **options
    )
    rng = np.random.default_rng(seed)
    covariance = 0.25 / 3 * np.array([[1, 0.6], [0.6, 1]])
    X = np.clip(rng.multivariate_normal([0, 0], covariance, 50_000), -1, 1)
    y = X @ [0.2, -0.2]
    M = np.column_stack([np.ones(len(X)), X, y])
    exact = M.T @ M / len(X)
    drawn = line.moments.simulate(400, rng=seed) / 50_000
    noisy = exact + line.statistic.noise_matrices(drawn)
    G, c = noisy[:, :-1, :-1], noisy[:, :-1, -1:]
    found = np.linalg.solve(G, c)[:, 1:, 0].std(axis=0)
    assert found == pytest.approx(line.preview().std[1:], rel=0.25)
    assert "as stated (a 50%, b 50%), correlated 0.6" in line.preview().note


def test_stated_spreads_change_no_release():
    plain, told = (
        request("linear_regression", SCHEMA, epsilon=1, target="y", **more).mechanism
        for more in ({}, {"spread": {"a": 0.2}, "correlation": 0.5})
    )
    assert plain.fingerprint() == told.fingerprint()
    assert told.preview().std[1] > 2 * plain.preview().std[1]
    for wrong in ({"spread": 0}, {"spread": 2}, {"spread": {"y": 0.5}}, {"correlation": 1}):
        with pytest.raises(ParameterError):
            LeastSquares(SCHEMA, NAMES, "y", epsilon=1, **wrong)


def test_a_coefficient_that_is_called_like_the_p_value_is_refused():
    """release["p-value"] was the coefficient."""
    schema = tdp.Schema({name: tdp.Interval(-1, 1) for name in ("a", "p-value", "y")}, rows=90)
    for tested in ("p-value", ["a", "p-value"]):
        with pytest.raises(ParameterError, match="Two entries would have the name 'p-value'"):
            tdp.RegressionTest(schema, ["a", "p-value"], "y", tested, epsilon=1)
    others = tdp.RegressionTest(schema, ["a", "p-value"], "y", "a - p-value", epsilon=1)
    assert others.names == ("a - p-value", "p-value")
