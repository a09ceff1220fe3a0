"""What a ridge took is given back: where, how much of it, and that nothing else changes."""

from __future__ import annotations

from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.convex.objective_calibration import best_share
from tightdp.convex.ridge_pull import restore, ridge_left
from tightdp.errors import ParameterError
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.mechanisms.objective_model import PublicModel
from tightdp.registry import KINDS

STRONG = np.array([0.0, 4.0, -4.0, 2.0])


def schema(rows: int, width: int = 3) -> tdp.Schema:
    columns = {f"x{j}": tdp.Interval(-1, 1) for j in range(width)}
    return tdp.Schema({**columns, "y": tdp.Category([0, 1], other=0)}, rows=rows)


def table(rows: int, truth: np.ndarray, rng: np.random.Generator) -> dict[str, np.ndarray]:
    x = rng.uniform(-1, 1, (rows, len(truth) - 1))
    chance = 1 / (1 + np.exp(-truth[0] - x @ truth[1:]))
    y = (rng.random(rows) < chance).astype(int)
    return {**{f"x{j}": column for j, column in enumerate(x.T)}, "y": y}


@pytest.fixture
def random_case(seed):
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(200, 4, 4)) * rng.uniform(0.1, 10, (200, 1, 1))
    return rng.normal(size=(200, 4)) * 3, root @ root.transpose(0, 2, 1), rng


def test_it_lies_between_the_minimiser_and_the_one_without_a_ridge(random_case):
    theta, hessian, rng = random_case
    ridge, variance = 3.0, float(rng.uniform(0, 50))
    found = restore(theta, hessian, ridge=ridge, variance=variance)
    values, along = np.linalg.eigh(hessian)

    def parts(at: np.ndarray) -> np.ndarray:
        return np.einsum("nab,na->nb", along, at)

    grown = parts(found) / parts(theta)
    assert (grown >= 1 - 1e-9).all()
    assert (grown <= (1 + ridge / values) * (1 + 1e-6)).all()


def test_it_is_the_minimiser_for_the_ridge_that_is_left(seed):
    """On a parabola, exactly: the tilted minimiser with the smaller ridge and the same tilt."""
    rng = np.random.default_rng(seed)
    root = rng.normal(size=(3, 3))
    hessian, truth, tilt = 50 * root @ root.T + 20 * np.eye(3), rng.normal(size=3), rng.normal(3)

    def minimum(ridge: float) -> np.ndarray:
        return np.linalg.solve(hessian + ridge * np.eye(3), hessian @ truth - tilt)

    found = restore(minimum(8.0), hessian, ridge=8.0, variance=1.0)
    tried = [np.linalg.norm(minimum(g) - found) for g in np.linspace(0.08, 8.0, 4001)]
    assert min(tried) < 1e-3


def test_what_is_not_told_from_noise_stays_and_long_parameters_get_back_nearly_all():
    theta, eye = np.array([0.3, -0.2]), np.eye(2)
    assert np.allclose(restore(theta, 10 * eye, ridge=5.0, variance=1e4), theta)
    long = restore(100 * theta, 1e4 * eye, ridge=100.0, variance=1.0)
    assert np.allclose(long, 100 * theta * 1.01, rtol=2e-4)
    nothing = np.zeros((2, 2))  # no curvature is left: it says nothing, and nothing breaks
    assert np.allclose(restore(theta, nothing, ridge=5.0, variance=1.0), theta)
    left = ridge_left(eye, np.array([1e300, 1e-300]), ridge=2.0, variance=1.0)
    assert np.allclose(left, [0.02, 2.0])


def test_a_long_intercept_does_not_make_slopes_of_noise_longer():
    """Of a rare class it is long, and they were as if they stood out of the noise with it."""
    hessian, slopes = np.diag([30.0, 10.0, 10.0]), [0.3, -0.2]
    given = {"ridge": 50.0, "variance": 1e4, "apart": 1}
    found = [restore(np.array([c, *slopes]), hessian, **given) for c in (0.0, -7.0, 90.0)]
    assert np.allclose(np.array(found)[:, 1:], slopes)
    assert found[2][0] > 100  # which has a ridge of its own
    alone = restore(np.array([-7.0]), np.eye(1), ridge=5.0, variance=1.0, apart=1)
    assert np.allclose(alone, restore(np.array([-7.0]), np.eye(1), ridge=5.0, variance=1.0))
    noisy = ObjectivePerturbation(schema(20_000), epsilon=0.5, noise_share=0.9, post="restore")
    # slopes about as long as their noise grow by a half; with one ridge for all, by nine tenths
    theta = np.array([-6.0, 0.5, -0.4, 0.3])
    assert np.linalg.norm(PublicModel(noisy).restore(theta)[1:]) < 1.7 * np.linalg.norm(theta[1:])


def test_the_release_is_the_minimiser_whatever_is_made_of_it(seed):
    frame = table(2000, STRONG, np.random.default_rng(seed))
    given = {"epsilon": 1.0, "noise_share": 0.9}
    plain = ObjectivePerturbation(schema(2000), **given)
    made = ObjectivePerturbation(schema(2000), **given, post="restore")
    first, second = plain.release(frame, rng=seed), made.release(frame, rng=seed)
    assert first.value.tolist() == second.value.tolist()
    assert plain.law == made.law
    assert plain.coefficients(first).tolist() == first.value.tolist()
    found = made.coefficients(second)
    assert np.linalg.norm(found) > np.linalg.norm(second.value)
    assert made.answer(second).value.tolist() == found.tolist()


def test_it_is_for_plain_log_odds_alone():
    classes = {"x": tdp.Interval(-1, 1), "y": tdp.Category([0, 1], other=0)}
    plain = tdp.Schema(classes, rows=1000)
    assert ObjectivePerturbation(plain, epsilon=1, post="restore").restores
    other = [{"ridge": 3.0}, {"l1": 1.0}, {"theta_set": tdp.LpBall(2, 2, radius=3.0)}]
    for options in other:
        assert not ObjectivePerturbation(plain, epsilon=1, post="restore", **options).restores
    assert not ObjectivePerturbation(schema(1000, 24), epsilon=1, post="restore").restores
    numbers = tdp.Schema({"x": tdp.Interval(-1, 1), "y": tdp.Interval(0, 1)}, rows=1000)
    huber = ObjectivePerturbation(numbers, loss="huber", epsilon=1, post="restore")
    assert not huber.restores
    with pytest.raises(ParameterError, match="post"):
        ObjectivePerturbation(plain, epsilon=1, post="shrink")


def test_the_share_knows_of_it():
    """The pull can be undone and noise cannot, so that more of epsilon is for less noise."""
    kept = ObjectivePerturbation(schema(50_000), epsilon=0.25)
    undone = ObjectivePerturbation(schema(50_000), epsilon=0.25, post="restore")
    assert undone.calibration.noise_share > kept.calibration.noise_share
    given = (undone.facts, undone.ball, 0.25, 50_000)
    assert best_share(*given, restored=True) == best_share(*given, restored=True)


def test_long_parameters_are_found_better_and_a_wrong_ridge_is_seen(seed):
    """The mean over tables is what is left of the pull: a tenth of it, and more if half as much
    ridge were taken for all of it."""
    rng = np.random.default_rng(seed)
    fit = ObjectivePerturbation(schema(50_000), epsilon=0.25, noise_share=0.9, post="restore")
    found = []
    for key in range(12):
        release = fit.release(table(50_000, STRONG, rng), rng=1000 * seed + key)
        half = release.value + (fit.coefficients(release) - release.value) / 2
        found.append((release.value, fit.coefficients(release), half))
    bare, restored, wrong = np.linalg.norm(np.mean(found, axis=0) - STRONG, axis=1)
    assert restored < 0.35 * bare  # a tenth, and noise of the mean of 12
    assert wrong > 0.35 * bare


@pytest.mark.parametrize("rows", [500, 20_000])
def test_the_printed_coefficient_lies_in_its_interval(rows, seed):
    frame = table(rows, STRONG / 2, np.random.default_rng(seed))
    x = np.column_stack([frame[f"x{j}"] for j in range(3)])
    model = tdp.LogisticRegression(
        epsilon=4, bounds=(-1, 1), classes=[0, 1], interval_share=0.25, random_state=seed
    ).fit(x, frame["y"])
    value = np.append(model.intercept_, model.coef_[0])
    assert value.tolist() == model.mechanism_.coefficients(model.release_).tolist()
    bounds, _ = model.known_intervals()
    if bounds is not None:
        assert (bounds[:, 0] <= value).all()
        assert (value <= bounds[:, 1]).all()


def test_the_estimator_and_the_plan_make_the_same_and_none_takes_the_minimiser(seed):
    frame = table(5000, STRONG, np.random.default_rng(seed))
    x = np.column_stack([frame[f"x{j}"] for j in range(3)])
    model = tdp.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=[0, 1], random_state=seed)
    model.fit(x, frame["y"])
    bare = model.release_.value[1:]
    assert np.linalg.norm(model.coef_[0]) > np.linalg.norm(bare)
    build = KINDS["logistic_regression"].build
    kind = build(schema(5000), {"target": "y"}, Fraction(1))
    assert isinstance(kind, ObjectivePerturbation)
    assert kind.post == "restore"
    assert kind.calibration == model.mechanism_.calibration
    model.set_params(post="none").fit(x, frame["y"])
    assert model.coef_[0].tolist() == model.release_.value[1:].tolist()


def test_rows_of_a_private_number_are_left_as_released():
    """With more rows than are stated the ridge pulled less than it seems."""
    facts = {"x": tdp.Interval(-1, 1), "y": tdp.Category([0, 1], other=0)}
    for neighbors, restores in (("replace-one", True), ("add-remove", False)):
        schema = tdp.Schema(facts, rows=1000, neighbors=neighbors)
        mechanism = tdp.ObjectivePerturbation(schema, epsilon=1.0, post="restore")
        assert mechanism.restores is restores
    rng = np.random.default_rng(1)
    x = rng.uniform(-1, 1, 2000)
    table = {"x": x, "y": (rng.random(2000) < 1 / (1 + np.exp(-2 * x))).astype(int)}
    release = mechanism.release(table, rng=1)
    np.testing.assert_array_equal(mechanism.coefficients(release), release.value[:2])


def test_nothing_overflows_where_noise_is_all_there_is():
    for square in (0.0, 1e-300, 1.0):
        found = restore(np.full(2, np.sqrt(square)), np.eye(2), ridge=1.0, variance=1e20)
        np.testing.assert_array_equal(found, np.full(2, np.sqrt(square)))


@pytest.mark.parametrize("classes", [[0, 1], [0, 1, 2]])
def test_a_post_that_is_none_is_refused_for_any_classes(classes):
    X, y = np.zeros((30, 1)), np.arange(30) % len(classes)
    with pytest.raises(tdp.ParameterError, match="post"):
        tdp.LogisticRegression(epsilon=1, bounds=(-1, 1), classes=classes, post="bogus").fit(X, y)
