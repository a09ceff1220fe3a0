"""Closed forms of the K-norm law and the orders, against the reference values."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.geometry import orders
from tightdp.geometry.containment import containment
from tightdp.noise import knorm

S = tdp.SensitivitySpace
RECTANGLE = tdp.LpBall(2, np.inf, [100.0, 1.0])
DIAMOND = tdp.LpBall(2, 1, [110.0, 11.0])


def example_balls() -> dict[str, tdp.NormBall]:
    space = S.sum_and_squares()
    lp = {f"l{p}": tdp.LpBall(2, p, float(space.sensitivity(p=p))) for p in (1, 2, np.inf)}
    return lp | {"hull": space.hull()}


def test_example_volumes_entropies_and_covariances() -> None:
    balls = example_balls()
    volume = {"l1": 19.53125, "l2": 16.162258869384, "linf": 16.0, "hull": 40 / 3}
    entropy = {"l1": 5.6651629275, "l2": 5.4758260054, "linf": 5.4657359028, "hull": 5.2834143460}
    trace = {"l1": 39.0625, "l2": 30.867641, "linf": 32.0, "hull": 25.748571}
    for name, ball in balls.items():
        assert ball.volume() == pytest.approx(volume[name], rel=1e-9)
        assert knorm.entropy(ball, 1.0).value == pytest.approx(entropy[name], rel=1e-9)
        covariance = knorm.covariance(ball, 1.0)
        assert covariance.exact
        assert np.trace(covariance.value) == pytest.approx(trace[name], abs=1e-6)
    hull = knorm.covariance(balls["hull"], 1.0).value
    np.testing.assert_allclose(hull, np.diag([11.76, 13.9885714286]), rtol=1e-9, atol=1e-12)
    assert tdp.LpBall(2, 1, 4).volume() == pytest.approx(32)
    assert tdp.LpBall(2, 2, np.sqrt(8)).volume() == pytest.approx(25.132741228718, rel=1e-9)


def test_regression_variances() -> None:
    space = S.moments(5)
    for p, radius, value in [(1, 52, 5408), (1, space.sensitivity(p=1), 2048), (np.inf, 2, 1008)]:
        covariance = knorm.covariance(tdp.LpBall(26, p, float(radius)), 1.0).value
        assert np.diag(covariance).mean() == pytest.approx(value, rel=1e-9)


@pytest.mark.parametrize("m", [1, 2, 3, 5, 7, 10, 26])
def test_variances_of_lp_noise(m: int) -> None:
    expected = {1: 2 * m**2, 2: m * (m + 1), np.inf: (m + 1) * (m + 2) / 3}
    radius = {1: m, 2: np.sqrt(m), np.inf: 1.0}
    for p, value in expected.items():
        covariance = knorm.covariance(tdp.LpBall(m, p, radius[p]), 1.0).value
        np.testing.assert_allclose(np.diag(covariance), value, rtol=1e-9)


@pytest.mark.parametrize(
    ("m", "epsilon", "values"),
    [
        (1, 1, (1.6931471806, 1.6931471806, 1.6931471806)),
        (2, 1, (4.7725887222, 4.5310242470, 4.0794415417)),
        (2, 0.1, (9.3777589082, 9.1361944330, 8.6846117277)),
        (7, 0.5, (30.3254315712, 28.7406951763, 25.2292218889)),
        (26, 1, (128.7323366831, 121.9462814182, 105.2835284556)),
    ],
)
def test_entropies(m: int, epsilon: float, values: tuple[float, ...]) -> None:
    for p, radius, value in zip((1, 2, np.inf), (m, np.sqrt(m), 1), values, strict=True):
        found = knorm.entropy(tdp.LpBall(m, p, radius), epsilon)
        assert found.value == pytest.approx(value, rel=1e-9)
        assert found.exact


@pytest.mark.parametrize(
    ("m", "radii"),
    [
        (1, (0.6931471806, 2.3025850930, 2.9957322736, 4.6051701860)),
        (2, (1.6783469900, 3.8897201699, 4.7438645184, 6.6383520680)),
        (3, (2.6740603137, 5.3223203378, 6.2957936219, 8.4059469149)),
        (7, (6.6696370745, 10.5320721065, 11.8423956524, 14.5706188703)),
        (12, (11.6683631530, 16.5981221443, 18.2075142509, 21.4899100697)),
        (26, (25.6674371030, 32.7112067072, 34.9160801699, 39.3078778575)),
    ],
)
def test_concentration_radii(m: int, radii: tuple[float, ...]) -> None:
    ball = tdp.LpBall(m, 2)
    for alpha, radius in zip((0.5, 0.9, 0.95, 0.99), radii, strict=True):
        assert knorm.concentration_radius(ball, 1.0, alpha) == pytest.approx(radius, rel=1e-8)
        assert knorm.concentration_radius(ball, 0.5, alpha) == pytest.approx(2 * radius, rel=1e-8)


def test_cautionary_example_exactly() -> None:
    """Containment, volume and conditional variance prefer K; every marginal loss prefers H."""
    table = {
        RECTANGLE: (40000, 4, 150.005, 150.030658, 151.5, 400, 8.684612),
        DIAMOND: (24200, 242, 111, 112.377178, 121, 2420, 10.484670),
    }
    for ball, (var_x, var_y, linf, l2, l1, area, entropy) in table.items():
        np.testing.assert_allclose(
            np.diag(knorm.covariance(ball, 1.0).value), [var_x, var_y], rtol=1e-9
        )
        for p, value in ((np.inf, linf), (2, l2), (1, l1)):
            loss = knorm.expected_loss(ball, 1.0, p)
            assert loss.exact
            assert loss.value == pytest.approx(value, abs=1e-6)
        assert ball.volume() == pytest.approx(area)
        assert knorm.entropy(ball, 1.0).value == pytest.approx(entropy, abs=1e-6)
    assert containment(RECTANGLE, DIAMOND)  # stochastically tighter, by Theorem 3.6 of [1]
    assert not containment(DIAMOND, RECTANGLE)
    assert orders.volume_order(RECTANGLE, DIAMOND) == -1
    for angle in np.linspace(0, np.pi, 50):
        e = [np.cos(angle), np.sin(angle)]
        for reading in ("slab", "cone"):
            small = knorm.conditional_variance(RECTANGLE, 1.0, e, reading=reading)
            assert small <= knorm.conditional_variance(DIAMOND, 1.0, e, reading=reading) * (
                1 + 1e-9
            )


def test_conditional_variance_both_readings(seed: int) -> None:
    """l1, m = 2, e = (.6, .8): slab 1.0204, cone 3.0612, each seen in simulated noise."""
    ball, e = tdp.LpBall(2, 1), np.array([0.6, 0.8])
    slab = knorm.conditional_variance(ball, 1.0, e)
    cone = knorm.conditional_variance(ball, 1.0, 5 * e, reading="cone")
    assert slab == pytest.approx(1 / 0.98, rel=1e-12)
    assert cone == pytest.approx(6 / 1.96, rel=1e-12)
    v = tdp.KNormNoise(ball, 1.0).sample(4_000_000, rng=seed)
    along, across = v @ e, v @ [-0.8, 0.6]
    in_slab = along[np.abs(across) < 0.01]
    in_cone = along[np.abs(across) < 0.01 * np.abs(along)]
    for draws, value in ((in_slab, slab), (in_cone, cone)):
        error = np.std(draws**2) / np.sqrt(len(draws))
        assert abs(np.mean(draws**2) - value) < 5 * error + 0.01 * value  # 5 s.e. + finite width


def test_depth_is_one_minus_the_probability_inside(seed: int) -> None:
    ball = tdp.K3()
    noise = tdp.KNormNoise(ball, 2.0)
    assert noise.depth(np.zeros(3)) == 1.0
    # the depth of a draw is uniform, and depth regions are the concentration sets
    assert stats.kstest(noise.depth(noise.sample(20_000, rng=seed)), "uniform").pvalue > 1e-4
    radius = noise.concentration_radius(0.9)
    edge = ball.support_point([1.0, 0.3, 0.2])
    assert noise.depth(radius * edge / ball.gauge(edge)) == pytest.approx(0.1)


def test_expected_loss_by_simulation_and_quadrature(seed: int) -> None:
    for ball in (tdp.K3(), tdp.LpBall(4, 2), tdp.HistogramBall(4)):
        draws = tdp.KNormNoise(ball, 0.5).sample(100_000, rng=seed)
        for p in (1, 2, np.inf):
            loss = knorm.expected_loss(ball, 0.5, p)
            norms = np.linalg.norm(draws, ord=p, axis=1)
            error = np.hypot(norms.std() / np.sqrt(len(norms)), loss.standard_error)
            assert abs(norms.mean() - loss.value) < 5 * error
    # in one dimension, and for the ball's own norm, the loss is a formula: E gauge = m / epsilon
    assert knorm.expected_loss(tdp.LpBall(1, 2, 3.0), 1.0, 1).value == pytest.approx(3.0)
    own = knorm.expected_loss(tdp.LpBall(4, 2), 0.5, 2)
    assert own.value == pytest.approx(8.0, abs=5 * own.standard_error)


def test_volume_order_is_honest_about_estimates_and_flat_bodies() -> None:
    ball = tdp.LpBall(3, np.inf).intersection(tdp.LpBall(3, 2, 1.2))
    assert orders.volume_order(ball, ball.scaled(1.0001)) == 0  # within its standard error
    assert orders.volume_order(ball, ball.scaled(1.1)) == -1
    assert orders.volume_order(tdp.HistogramBall(3).scaled(100.0), tdp.LpBall(3, 1)) == -1


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda b: knorm.entropy(b, 0.0), "epsilon"),
        (lambda b: knorm.entropy(b, float("nan")), "epsilon"),
        (lambda b: knorm.entropy(b, float("inf")), "epsilon"),
        (lambda b: knorm.entropy(b, True), "epsilon"),
        (lambda b: knorm.entropy(b, "1"), "epsilon"),
        (lambda b: knorm.concentration_radius(b, 1.0, 1.0), "alpha"),
        (lambda b: knorm.concentration_radius(b, 1.0, 0.0), "alpha"),
        (lambda b: knorm.conditional_variance(b, 1.0, [0.0, 0.0]), "zero vector"),
        (lambda b: knorm.conditional_variance(b, 1.0, [1.0]), "direction"),
        (lambda b: knorm.conditional_variance(b, 1.0, [1.0, 0.0], reading="line"), "reading"),
        (lambda b: knorm.expected_loss(b, 1.0, 0.5), "`p`"),
    ],
)
def test_bad_input(call, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=text):
        call(tdp.LpBall(2, 1))
