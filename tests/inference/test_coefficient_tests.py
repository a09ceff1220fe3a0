"""Tests about coefficients: they agree with intervals, and look at nothing but the release."""

from __future__ import annotations

import time

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.inference.coefficient_intervals import Wanted, candidates
from tightdp.inference.coefficient_tests import equations, p_value
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.randomness import source

NAMES = ("intercept", "x0", "x1")


@pytest.fixture(scope="module")
def fitted():
    rng = np.random.default_rng(3)
    X = rng.uniform(-1, 1, (800, 2))
    y = 0.5 + X[:, 0] + rng.normal(0, 0.5, 800)
    bounds = [(-1, 1), (-1, 1), (-3, 3)]
    return tdp.LinearRegression(epsilon=2, bounds=bounds, random_state=3).fit(X, y)


@pytest.mark.parametrize("assume", [None, "equal variance"])
@pytest.mark.parametrize("level", [0.8, 0.95, 0.99])
def test_a_test_rejects_what_the_interval_leaves_out(fitted, assume, level):
    ends = fitted.conf_int(confidence=level, intercept=True, assume=assume)
    for name, (low, high) in zip(NAMES, ends, strict=True):
        for null in np.linspace(low - 0.5, high + 0.5, 41):
            kept = fitted.test(name, null, assume=assume).p_value > 1 - level
            assert kept == (low <= null <= high), (name, null)


def test_contrasts_are_tests_of_one_number(fitted):
    same = fitted.test({"x0": 2.0}, 2.2).p_value, fitted.test("x0", 1.1).p_value
    assert same[0] == same[1]
    assert fitted.test({"x0": 1, "x1": -1}).p_value < 0.01 < fitted.test("x1").p_value


def test_nested_models(fitted):
    both = fitted.test(["x0", "x1"])
    assert both.hypothesis == "x0 = 0 and x1 = 0"
    assert both.p_value < 0.01
    assert fitted.test(["x0", "x1"], both.estimate).p_value > 0.2
    # equations in another basis say the same to an ellipsoid, but for where candidates are cut off
    equal = {"assume": "equal variance"}
    turned = fitted.test([{"x0": 1, "x1": 1}, {"x0": 1, "x1": -1}], [1.1, 1.1], **equal).p_value
    assert abs(turned - fitted.test(["x0", "x1"], [1.1, 0.0], **equal).p_value) < 0.05
    # without it each has its share of the level
    each = min(fitted.test("x0", 1.1).p_value, fitted.test("x1", 0.1).p_value)
    assert fitted.test(["x0", "x1"], [1.1, 0.1]).p_value == min(1.0, 2 * each)


def uneven_moments(share: float, far: float) -> np.ndarray:
    """Of (1, b, c, y): one row in six at (b, c) = +-(1, -1), with all errors, and +-(1, 1)."""
    return np.diag([1.0, 2 * share, 2 * share, share * far**2])


@pytest.mark.parametrize("combined", [[[0, 1, -1]], [[0, 1, 0]], [[1, 1, -1]]])
def test_a_contrast_has_the_largest_error_that_bounds_allow(combined, seed):
    """Errors where the contrast is most sensitive: sums of candidates are short by a root of 2."""
    rows, share, far = 10**6, 1 / 6, 0.3
    weights, asked = np.array(combined, dtype=float), []
    for own in (weights, None):
        facts = {"shift": None, "ridge": np.zeros(2), "origin": np.zeros(2)}
        wanted = Wanted(**facts, equal_variance=False, combined=own)
        found = candidates(
            uneven_moments(share, far),
            lambda count: np.zeros((count, 4, 4)),
            rows,
            source(seed),
            wanted,
        )
        asked.append(float(np.std(found.values if own is not None else found.values @ weights.T)))
    level, *slopes = weights[0]
    corners = np.array([[1.0, -1.0], [-1.0, 1.0]])  # where the errors are
    influence = level + corners @ np.array(slopes) / (2 * share)
    worst = np.sqrt(share * far**2 * np.mean(influence**2) / rows)
    if level:  # errors of one sign at one corner alone are worse still
        assert asked[0] >= 0.98 * worst
    else:
        assert asked[0] == pytest.approx(worst, rel=0.03)
    if np.count_nonzero(weights) > 1:
        assert asked[1] < 0.8 * asked[0]  # the fault of earlier versions


@pytest.mark.slow
def test_contrasts_at_uneven_errors_at_length(seed):
    """No noise; errors at (b, c) = +-(1, -1) alone: 13 % were rejected at level 0.05."""
    rng, rows, tables, hits = np.random.default_rng(seed), 2_000, 200, np.zeros(3)
    hypotheses = [[[0, 1, -1]], [[0, 1, 0], [0, 0, 1]]]
    for _ in range(tables):
        kind, sign = rng.random(rows), rng.choice([-1.0, 1.0], rows)
        first = np.where(kind < 1 / 3, sign, 0.0)
        second = np.where(kind < 1 / 6, -first, first)
        y = np.where(kind < 1 / 6, 0.1 * rng.standard_normal(rows), 0.0)
        z = np.column_stack([np.ones(rows), first, second, y])
        for k, combined in enumerate([*hypotheses, None]):
            wanted = Wanted(
                shift=None,
                ridge=np.zeros(2),
                origin=np.zeros(2),
                equal_variance=False,
                combined=None if combined is None else np.array(combined, dtype=float),
            )
            found = candidates(
                z.T @ z / rows, lambda count: np.zeros((count, 4, 4)), rows, source(1), wanted
            ).values
            if combined is None:
                found = found @ np.array([[0.0], [1.0], [-1.0]])
            middle = np.median(found, axis=0)
            null = np.zeros(found.shape[1])
            hits[k] += p_value(found, middle, null, len(found), ellipsoid=False) <= 0.05
    assert (hits[:2] / tables <= 0.05 + 4 * np.sqrt(0.05 * 0.95 / tables)).all()
    assert hits[2] - hits[0] > 0.02 * tables  # the fault: errors of the terms


def test_normal_candidates_have_the_law_of_chi_square(seed):
    from scipy.stats import chi2

    rng, root = np.random.default_rng(seed), np.array([[2.0, 0.0], [1.5, 0.3]])
    values, null = rng.normal(size=(40_000, 2)) @ root.T, np.array([3.0, 1.0])
    away = float(null @ np.linalg.solve(root @ root.T, null))
    # the covariance of candidates that are cut at 95 % is 0.90 of the whole, on all axes alike:
    # ranks do not notice, but for correlations that the cut changes
    found = p_value(values, np.zeros(2), null, 40_000, ellipsoid=True)
    assert abs(found - chi2.sf(away, 2)) < 0.02


def test_only_the_release_is_looked_at(fitted, monkeypatch):
    def canary(*arguments, **options):
        raise AssertionError("rows were read")

    monkeypatch.setattr(tdp.Statistic, "measure", canary)
    monkeypatch.setattr(tdp.Statistic, "integer_sum", canary)
    first, second = (fitted.test(["x0", "x1"], 0.9).p_value for _ in "ab")
    assert first == second


@pytest.mark.parametrize(
    ("tested", "null"),
    [
        ("z", 0.0),
        ([], 0.0),
        ({}, 0.0),
        (7, 0.0),
        ([7], 0.0),
        (["x0", {"x0": 2.0}], 0.0),
        ({"x0": 0.0}, 0.0),
        ({"x0": "one"}, 0.0),
        ("x0", [1.0, 2.0]),
        (["x0", "x1"], [1.0, 2.0, 3.0]),
        ("x0", "nothing"),
        ("x0", np.nan),
    ],
)
def test_what_does_not_fit_is_refused(fitted, tested, null):
    with pytest.raises(ParameterError):
        fitted.test(tested, null)


def test_a_model_without_intercept_has_none_to_test(fitted):
    rows = np.random.default_rng(1).uniform(-1, 1, (50, 2))
    model = tdp.LinearRegression(epsilon=2, bounds=(-1, 1), fit_intercept=False, random_state=1)
    model.fit(rows, rows[:, 0])
    assert 0 < model.test("x0").p_value <= 1
    with pytest.raises(ParameterError, match="without one"):
        model.test("intercept")


def test_equations_in_words():
    weights, words = equations(["a", {"b": -1, "c": 2.5}], ["a", "b", "c"])
    assert words == ["a", "-b + 2.5 c"]
    assert weights.tolist() == [[1, 0, 0], [0, -1, 2.5]]


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.25, 4])
def test_type_one_errors_at_length(epsilon, seed):
    columns = {name: tdp.Interval(-1, 1) for name in "abc"} | {"y": tdp.Interval(-3, 3)}
    squares = LeastSquares(tdp.Schema(columns, rows=600), [*"abc"], "y", epsilon=epsilon)
    rng, tables = np.random.default_rng(seed), 120
    hypotheses = [[0, 0, 1, 0]], [[0, 0, 1, -1]], [[0, 0, 1, 0], [0, 0, 0, 1]]
    rejected = np.zeros(3)
    for _ in range(tables):
        X = rng.uniform(-1, 1, (600, 3))
        y = X[:, 0] + rng.normal(0, 0.5, 600)
        release = squares.release({**dict(zip("abc", X.T, strict=True)), "y": y}, rng=rng)
        fit = squares.fit(release)
        for k, rows in enumerate(hypotheses):
            weights = np.array(rows, dtype=float)
            estimate = weights @ fit.coefficients
            rejected[k] += fit.tested(weights, estimate, np.zeros(len(weights)), None) <= 0.05
    assert (rejected / tables <= 0.05 + 3 * np.sqrt(0.05 * 0.95 / tables)).all()


@pytest.mark.parametrize("ellipsoid", [True, False])
@pytest.mark.parametrize("count", [1, 2])
def test_what_is_not_a_number_rejects_nothing(count, ellipsoid):
    """Sums of huge terms of both signs: the release is paid for, and says that it knows nothing."""
    unknown = np.full((100, count), np.nan)
    assert p_value(unknown, unknown[0], np.zeros(count), 100, ellipsoid=ellipsoid) == 1.0


def test_weights_are_numbers_whose_squares_are_doubles():
    for weight in (1e300, -1e31, 5e-324):
        with pytest.raises(ParameterError, match="weights of 1e-30 to 1e"):
            equations({"x0": weight, "x1": 1}, NAMES)
    assert equations({"x0": 1e30, "x1": 0}, NAMES)[0][0, 1] == 1e30


@pytest.mark.parametrize("text", ["x0 -{}!", "{}!", "x0{}!", "x0 + 2{}* !", "x0 + {}x1 !"])
def test_long_rows_of_blanks_are_read_at_once(text):
    """They were divided among four places, in as many ways as their third power."""
    start = time.process_time()
    with pytest.raises(ParameterError, match="tested"):
        equations(text.format(" " * 1000), NAMES)
    assert time.process_time() - start < 2  # it took twelve
