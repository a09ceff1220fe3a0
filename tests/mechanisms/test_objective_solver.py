"""The minimiser of a perturbed objective: certified against another solver, and never stopped."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from objective_tables import algorithm_three, binary_schema
from scipy import optimize

from tightdp import Category, Interval, LpBall, ObjectivePerturbation, ParameterError, Schema
from tightdp.convex.margin_losses import HuberLoss, LogisticLoss, SquaredLoss
from tightdp.convex.minimiser import minimise
from tightdp.convex.objectives import Objective
from tightdp.convex.penalties import ConvexSet, Lasso, NoPenalty, Smooth, Within
from tightdp.randomness import source

# --- the solver ----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "penalty",
    [NoPenalty(), Lasso(40.0), Within(LpBall(7, 2, 1.0)), Within(LpBall(7, 1, 1.0)),
     Within(LpBall(7, np.inf, 0.5)), Smooth(lambda t: 3.0 * t, strength=3.0)],
    ids=repr,
)  # fmt: skip
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.3), SquaredLoss()], ids=repr)
def test_the_certificate_holds_against_another_solver(penalty, loss, seed):
    x, y = algorithm_three(400, source(seed))
    noise = 20.0 * source(seed + 1).normal(7)
    objective = Objective(x, y, loss, 3.0, noise, penalty)
    found = minimise(objective, 1e-8)
    assert found.distance <= 1e-8 / 3.0

    def smooth(theta):
        extra = 1.5 * theta @ theta if isinstance(penalty, Smooth) else 0.0
        value = loss.value(x @ theta, y).sum() + 1.5 * theta @ theta + noise @ theta + extra
        return value, objective.derivatives(theta).gradient

    # accelerated proximal gradient, a different algorithm
    step = 1.0 / (x.size * loss.curvature + 6.0)
    theta = momentum = np.zeros(7)
    for i in range(20_000):
        fresh = penalty.prox(momentum - step * smooth(momentum)[1], step)[0]
        momentum, theta = fresh + i / (i + 3) * (fresh - theta), fresh
        if i % 50 == 49 and np.linalg.norm(fresh - found.theta) < 1e-7:
            break
    assert np.linalg.norm(theta - found.theta) < 2e-6
    if isinstance(penalty, NoPenalty):
        other = optimize.minimize(smooth, np.zeros(7), jac=True, method="L-BFGS-B")
        assert np.allclose(other.x, found.theta, atol=1e-4)


@pytest.mark.parametrize(
    ("loss", "ball", "kind", "rows"),
    [
        ("logistic", LpBall(20, np.inf, 1.0), "uniform", 1),
        ("logistic", LpBall(7, 1, 100.0), "collinear", 5000),
        ("huber", LpBall(7, 1, 1e5), "signs", 5000),
        ("huber", None, "signs", 5000),
        ("squared", LpBall(7, 2, 1e-3), "collinear", 500),
    ],
    ids=str,
)
@pytest.mark.parametrize("share", [0.3, 0.9])
def test_kinks_do_not_stop_the_search(loss, ball, kind, rows, share, seed):
    # a search that stops for some tables only would tell which tables there are
    rng, width = source(seed), 7 if ball is None else ball.dim
    x = 2.0 * rng.uniform((rows, width)) - 1.0
    x = {"uniform": x, "collinear": np.repeat(x[:, :1], width, 1), "signs": np.sign(x)}[kind]
    y = (rng.uniform(rows) < 0.5) * 1.0
    target = Category([0, 1], other=0) if loss == "logistic" else Interval(-1, 1)
    facts = {**{f"x{j}": Interval(-1, 1) for j in range(width)}, "y": target}
    mechanism = ObjectivePerturbation(
        Schema(facts, rows=rows),
        loss=loss,
        epsilon=1000.0 if loss != "huber" else 30.0,
        noise_share=share,
        fit_intercept=False,
        theta_set=ball,
    )
    draws = mechanism.draw_noise(rng)
    tilt = np.array([int(z) / mechanism.noise_resolution for z in draws.noise])
    y = y if loss == "logistic" else 2.0 * y - 1.0
    ridge, penalty = mechanism.calibration.ridge, mechanism.penalty
    found = minimise(Objective(x, y, mechanism.loss, ridge, tilt, penalty), mechanism.tolerance)
    assert found.distance <= mechanism.distance
    assert found.steps <= 60


def test_sharp_kinks_do_not_send_the_search_in_circles():
    # narrow kinks at corners that many rows share: Newton steps and sure steps used to alternate
    steps = []
    for i in (57, 120, 159, *range(40)):
        rng = np.random.default_rng(i)
        width, rows = int(rng.integers(4, 9)), int(rng.choice([20, 40]))
        x = np.sign(rng.uniform(-1, 1, (rows, width)))
        y = np.sign(rng.uniform(-1, 1, rows))
        loss = HuberLoss(10.0 ** rng.uniform(-5, -3))
        noise = 8e-3 * rng.normal(size=width)
        objective = Objective(x, y, loss, 3e-4, noise, NoPenalty())
        steps.append(minimise(objective, 1e-15 * (width + 8) * rows).steps)
    assert max(steps) <= 100


@pytest.mark.parametrize("p", [1, 2, np.inf])
def test_a_projection_is_exact_within_its_set(p):
    # else a wide set would cost the precision of points far from its edge
    within = Within(LpBall(2, p, 1e4))
    assert within.error(np.array([900.0, -70.0])) == 0
    for edge in ([1e4, 0.0], [-9e9, 2.0], [0.0, 1e4 * (1 - 1e-12)]):
        assert within.error(np.array(edge)) >= 1e-13 * np.linalg.norm(edge) / 100


def test_a_convex_set_of_ones_own(seed):
    def simplex(p):  # {theta >= 0, sum <= 1}
        inside = np.maximum(p, 0.0)
        if inside.sum() <= 1.0:
            return inside
        sizes = np.sort(p)[::-1]
        cuts = (np.cumsum(sizes) - 1.0) / np.arange(1, len(p) + 1)
        return np.maximum(p - cuts[np.flatnonzero(sizes > cuts)[-1]], 0.0)

    x, y = algorithm_three(400, source(seed))
    given = {"epsilon": 2.0, "noise_share": 0.9, "fit_intercept": False}
    own = ConvexSet(simplex, reach=1.0, name="simplex")
    mechanism = ObjectivePerturbation(binary_schema(7, 400), theta_set=own, **given)
    ball = ObjectivePerturbation(binary_schema(7, 400), theta_set=LpBall(7, 1, 1.0), **given)
    assert mechanism.calibration.rate == pytest.approx(ball.calibration.rate, rel=1e-9)
    draws = mechanism.draw_noise(source(seed))
    tilt = np.array([int(z) / mechanism.noise_resolution for z in draws.noise])
    objective = Objective(x, y, mechanism.loss, mechanism.calibration.ridge, tilt, own)
    found = minimise(objective, mechanism.tolerance)
    assert found.distance <= mechanism.distance
    # optimality over the vertices of the set: the gradient points outwards
    gradient, theta = objective.derivatives(found.theta).gradient, found.theta
    corners = np.vstack([np.zeros(7), np.eye(7)])
    assert ((corners - theta) @ gradient).min() >= -1e-7
    assert np.allclose(mechanism.scaled(mechanism.perturbed(x, y, draws)), theta, atol=1e-4)


@pytest.mark.parametrize(
    ("project", "message"),
    [
        (lambda p: p[:1], "dimension"),
        (lambda p: p * np.nan, "non-empty"),
        (lambda p: p, "reach"),
        (lambda p: p / 4.0, "leave the points"),
        (lambda p: np.where(p > 0, 1.0, -1.0) * 0.4, "move points apart"),
    ],
)
def test_what_is_no_projection_is_refused(project, message):
    with pytest.raises(ParameterError, match=message):
        ObjectivePerturbation(
            binary_schema(2, 50), epsilon=1.0, fit_intercept=False,
            theta_set=ConvexSet(project, reach=1.0),
        )  # fmt: skip


@pytest.mark.parametrize(
    ("x", "y"),
    [
        (np.ones((50, 3)), np.ones(50)),  # separable, collinear, one class
        (np.column_stack([np.linspace(-1, 1, 40), np.zeros(40)]), (np.arange(40) >= 20) * 1.0),
        (np.eye(5)[:2], np.array([0.0, 1.0])),  # more columns than rows
        (np.ones((1, 1)), np.ones(1)),
        (np.empty((0, 2)), np.empty(0)),
    ],
    ids=["one class", "separable", "wide", "one row", "empty"],
)
@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 1000.0])
def test_hard_tables_are_certified_too(x, y, epsilon):
    mechanism = ObjectivePerturbation(
        binary_schema(x.shape[1], max(1, len(x))), epsilon=epsilon, fit_intercept=False
    )
    for key in range(3):
        value = mechanism.scaled(mechanism.perturbed(x, y, mechanism.draw_noise(source(key))))
        assert np.isfinite(value).all()


def test_every_release_differs_from_the_estimate_without_noise(seed):
    # a solver that starts at the estimate and stops at once would return it (erratum on argmin)
    x, y = algorithm_three(200_000, source(seed))
    mechanism = ObjectivePerturbation(
        binary_schema(7, 200_000), epsilon=1.0, noise_share=0.5, fit_intercept=False
    )
    plain = minimise(Objective(x, y, LogisticLoss(), 1e-6, np.zeros(7), NoPenalty()), 1e-4).theta
    output, tilted = [], []
    for key in range(5):
        draws = mechanism.draw_noise(source(key))
        found = mechanism.scaled(mechanism.perturbed(x, y, draws))
        assert (np.abs(found - plain) > 1e-9).all()
        tilt = draws.noise / mechanism.noise_resolution
        exact = minimise(
            Objective(x, y, LogisticLoss(), mechanism.calibration.ridge, tilt, NoPenalty()), 1e-6
        )
        output.append(np.abs(found - exact.theta).max())
        tilted.append(np.abs(exact.theta - plain).max())
    # the output noise is small beside the noise that gives privacy, single draws of which are not
    assert max(output) < 1e-2 * max(tilted)


@pytest.mark.slow
def test_a_million_rows_never_give_the_estimate_without_noise(seed):
    rows = 1_000_000
    x, y = algorithm_three(rows, source(seed))
    mechanism = ObjectivePerturbation(
        binary_schema(7, rows), epsilon=1.0, noise_share=0.5, fit_intercept=False
    )
    plain = minimise(Objective(x, y, LogisticLoss(), 1e-6, np.zeros(7), NoPenalty()), 1e-4).theta
    assert mechanism.tolerance / rows <= 1e-12
    stopped = 0
    for key in range(100):
        draws = mechanism.draw_noise(source(key))
        found = mechanism.scaled(mechanism.perturbed(x, y, draws))
        assert (found != plain).all()
        # the broken twin: a solver that starts at the estimate and stops at a gradient of 1e-4
        tilt = draws.noise / mechanism.noise_resolution + mechanism.calibration.ridge * plain
        stopped += np.abs(tilt).max() / rows <= 1e-4
    assert stopped >= 95


def test_the_output_noise_pays_for_the_tolerance():
    mechanism = ObjectivePerturbation(binary_schema(7, 10_000), epsilon=1.0)
    steps = mechanism.distance * mechanism.resolution + 1.0
    assert 2 * math.floor(steps) * mechanism.output.rate <= Fraction(1, 128)
    assert mechanism.distance * mechanism.calibration.ridge >= mechanism.tolerance
    used = mechanism.facts.privacy_loss(mechanism.calibration.rate, mechanism.calibration.ridge)
    assert used + 1 / 128 <= 1.0


def test_every_released_integer_carries_its_output_noise(seed):
    """[P4]: the same tilt with and without output noise differs by that noise, entry by entry."""
    x, y = algorithm_three(50, source(seed))
    mechanism = ObjectivePerturbation(
        binary_schema(7, 50), epsilon=1.0, noise_share=0.5, fit_intercept=False
    )
    draws = mechanism.draw_noise(source(seed))
    bare = draws._replace(output=np.zeros_like(draws.output))
    gaps = np.subtract(mechanism.perturbed(x, y, draws), mechanism.perturbed(x, y, bare))
    assert gaps.tolist() == draws.output.tolist()
    table = {name: x[:, j] for j, name in enumerate(mechanism.rows.columns[:-1])}
    table[mechanism.rows.columns[-1]] = y.astype(int)
    release = mechanism.release(table, rng=seed)
    assert release.integers == mechanism.perturbed(x, y, draws)  # a release draws it, too


def test_the_output_noise_has_the_rate_that_pays(seed):
    """Its largest entry, in units of 1 / rate, is nearly Gamma(7): mean 7 and variance 7."""
    mechanism = ObjectivePerturbation(binary_schema(7, 50), epsilon=1.0, fit_intercept=False)
    bits = source(seed)
    far = [int(np.abs(mechanism.draw_noise(bits).output).max()) for _ in range(1000)]
    size = np.array(far) * float(mechanism.output.rate)
    error = math.sqrt(7 / len(size))
    assert size.mean() == pytest.approx(7.0, abs=4.5 * error)
    assert 0.8 * size.mean() < 7.0 - 4.5 * error  # planted: noise cut by a fifth is seen
