"""Continuous K-norm noise: its law, its radius, its directions, its privacy, and broken twins."""

from __future__ import annotations

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.errors import FloatArray, ParameterError
from tightdp.privacy import Numerics

S = tdp.SensitivitySpace
DRAWS = 100_000

REFERENCE = {
    f"l{p:g}, m={m}": (tdp.LpBall(m, p, r), v)
    for m in (1, 2, 7, 26)
    for p, r, v in (
        (1, m, 2 * m**2),
        (2, np.sqrt(m), m * (m + 1)),
        (np.inf, 1.0, (m + 1) * (m + 2) / 3),
    )
}
REFERENCE |= {"K2": (tdp.K2(), [11.76, 13.9885714286]), "K3": (tdp.K3(), 22.4)}
BALLS = {
    "l1": tdp.LpBall(3, 1),
    "l3": tdp.LpBall(2, 3),
    "K2": tdp.K2(),
    "K3": tdp.K3(),
    "rectangle": tdp.LpBall(2, np.inf, [100, 1]),
    "histogram": tdp.HistogramBall(4),
    "zonotope": tdp.Zonotope([[1, 0], [0, 1], [1, 1]]),
}


def moments_agree(draws: FloatArray, variance: object) -> bool:
    """Variances and zero covariances within 5 standard errors."""
    expected = np.diag(np.broadcast_to(np.asarray(variance, dtype=float), draws.shape[1]))
    found = draws.T @ draws / len(draws)
    spread = (draws**2).T @ draws**2 / len(draws) - found**2
    return bool((np.abs(found - expected) <= 5 * np.sqrt(spread / len(draws))).all())


@pytest.mark.parametrize("name", REFERENCE)
def test_sampler_moments(name: str, seed: int) -> None:
    ball, variance = REFERENCE[name]
    draws = tdp.KNormNoise(ball, 1.0).sample(DRAWS, rng=seed)
    assert moments_agree(draws, variance)
    assert not moments_agree(0.9 * draws, variance)  # planted failure: noise cut by 10 %


@pytest.mark.parametrize("name", BALLS)
def test_radial_law(name: str, seed: int) -> None:
    """gauge(V) epsilon ~ Gamma(m), independent of the direction."""
    ball = BALLS[name]
    draws = tdp.KNormNoise(ball, 0.5).sample(DRAWS, rng=seed)
    gauge = ball.gauge(draws)
    assert stats.kstest(0.5 * gauge, stats.gamma(ball.rank).cdf).pvalue > 1e-4
    assert stats.kstest(0.9 * 0.5 * gauge, stats.gamma(ball.rank).cdf).pvalue < 1e-4  # planted
    directions = np.abs(draws / gauge[:, None])
    for j in range(ball.dim):
        if np.ptp(directions[:, j]) > 1e-9:
            assert abs(np.corrcoef(gauge, directions[:, j])[0, 1]) < 5 / np.sqrt(DRAWS)


def face_share(draws: FloatArray) -> float:
    """Share of directions through the faces |x| = 100 of the rectangle [-100,100] x [-1,1]."""
    return float(np.mean(np.abs(draws[:, 0]) / 100 > np.abs(draws[:, 1])))


def test_cone_measure_not_surface_measure(seed: int) -> None:
    ball = BALLS["rectangle"]
    share = face_share(tdp.KNormNoise(ball, 1.0).sample(DRAWS, rng=seed))
    error = 0.5 / np.sqrt(DRAWS)
    assert abs(share - 0.5) < 5 * error
    # the broken twin: a uniform point of the boundary (by length) as direction
    rng = np.random.default_rng(seed)
    on_side = rng.uniform(size=DRAWS) < 4 / 404
    x = np.where(on_side, 100.0, rng.uniform(-100, 100, DRAWS))
    y = np.where(on_side, rng.uniform(-1, 1, DRAWS), 1.0)
    twin = np.column_stack([x, y])
    assert face_share(twin) == pytest.approx(0.0099, abs=0.002)
    assert abs(face_share(twin) - 0.5) > 5 * error


def test_scale_equivariance(seed: int) -> None:
    for ball in BALLS.values():
        draws = tdp.KNormNoise(ball, 1.0).sample(100, rng=seed)
        scaled = tdp.KNormNoise(ball.scaled(1e-4), 1.0).sample(100, rng=seed)
        np.testing.assert_allclose(scaled, 1e-4 * draws, rtol=1e-12, atol=1e-18)
        faster = tdp.KNormNoise(ball, 2.0).sample(100, rng=seed)
        np.testing.assert_allclose(faster, draws / 2, rtol=1e-12)


def outside_twice(ball: tdp.NormBall, draws: FloatArray) -> float:
    return float(np.mean(ball.gauge(draws) > 2))


def test_the_radius_is_used(seed: int) -> None:
    """P(V outside 2K) = P(Gamma(2) > 2) = 3 e^-2 at epsilon = 1, m = 2."""
    ball, expected = tdp.K2(), 3 * np.exp(-2)
    draws = tdp.KNormNoise(ball, 1.0).sample(DRAWS, rng=seed)
    error = np.sqrt(expected * (1 - expected) / DRAWS)
    assert abs(outside_twice(ball, draws) - expected) < 5 * error
    assert outside_twice(ball, ball.sample(DRAWS, rng=seed)) == 0.0  # the twin that forgets it


def test_box_of_the_wrong_statistic_is_not_private(seed: int) -> None:
    """Broken twin of the rejection sampler: its box must bound K, not the statistic's range.

    With K = Delta_2 B_2 in Example 2.10 a box of half-width Delta_inf = 2 cuts off part of K.
    """
    ball = tdp.LpBall(2, 2, float(S.sum_and_squares().sensitivity(p=2)))
    assert (ball.bounding_box() > 2).all()
    lost = np.mean(np.abs(ball.sample(DRAWS, rng=seed)).max(axis=1) > 2)
    assert lost == pytest.approx(0.096, abs=5 * np.sqrt(0.096 * 0.904 / DRAWS) + 5e-4)


def test_cautionary_example_by_simulation(seed: int) -> None:
    table = {
        tdp.LpBall(2, np.inf, [100, 1]): ((40000, 4), (150.005, 150.030658, 151.5)),
        tdp.LpBall(2, 1, [110, 11]): ((24200, 242), (111, 112.377178, 121)),
    }
    for ball, (variances, losses) in table.items():
        draws = tdp.KNormNoise(ball, 1.0).sample(DRAWS, rng=seed)
        assert moments_agree(draws, variances)
        for p, value in zip((np.inf, 2, 1), losses, strict=True):
            norms = np.linalg.norm(draws, ord=p, axis=1)
            assert abs(norms.mean() - value) < 5 * norms.std() / np.sqrt(DRAWS)


@pytest.mark.slow_for("moments", "mixed")
@pytest.mark.parametrize("name", ["sum and squares", "histogram", "mixed", "box", "moments"])
def test_privacy_audit(name: str, seed: int) -> None:
    """Exact log density ratios over neighbours: at most epsilon, attained for exact hulls.

    The ratio over all outputs t is largest at t = T(X), where it is epsilon * gauge(u).
    """
    space = {
        "sum and squares": S.sum_and_squares(),
        "histogram": S.histogram(5),
        "mixed": S.of({"x": tdp.Interval(0, 2), "k": tdp.Category(["a", "b", "c"], other="a")}),
        "box": S.of({"x": tdp.Interval(0, 2), "y": tdp.Interval(-5, 5)}, neighbors="add-remove"),
        "moments": S.moments(2),
    }[name]
    epsilon = 0.7
    extreme = [space.extreme_pair(c)[0] for c in space.sample(200, rng=seed)]
    u = np.vstack([space.sample(2_000, rng=seed), extreme])

    def worst(noise: tdp.KNormNoise) -> float:
        t = np.vstack([np.zeros(space.dim), noise.sample(200, rng=seed)])
        return max(float((noise.log_density(t) - noise.log_density(t - v)).max()) for v in u)

    loss = worst(tdp.KNormNoise(space.hull(), epsilon))
    assert loss <= epsilon * (1 + 1e-12)
    if space.exact:
        assert loss >= epsilon * (1 - 1e-9)
    # broken twin: the noise cut by 20 %
    assert worst(tdp.KNormNoise(space.hull().scaled(0.8), epsilon)) > epsilon


def test_log_density_is_normalised(seed: int) -> None:
    for ball in (tdp.K2(), tdp.LpBall(2, 1.5, [1, 3])):
        noise = tdp.KNormNoise(ball, 1.3)
        grid = np.linspace(-40, 40, 801)
        x, y = np.meshgrid(grid, grid)
        mass = np.exp(noise.log_density(np.dstack([x, y]))).sum() * 0.1**2
        assert mass == pytest.approx(1.0, abs=2e-3)
        draws = noise.sample(DRAWS, rng=seed)
        surprise = -noise.log_density(draws)
        assert abs(surprise.mean() - noise.entropy()) < 5 * surprise.std() / np.sqrt(DRAWS)
    flat = tdp.KNormNoise(tdp.HistogramBall(3), 1.0)
    assert flat.log_density([1.0, 0.0, 0.0]) == -np.inf
    assert np.isfinite(flat.log_density([1.0, -1.0, 0.0]))


def test_histogram_noise_keeps_the_total(seed: int) -> None:
    for m, variance in ((2, 2.0), (3, 10 / 3)):
        draws = tdp.KNormNoise(tdp.HistogramBall(m), 1.0).sample(DRAWS, rng=seed)
        np.testing.assert_allclose(draws.sum(axis=1), 0.0, atol=1e-9)
        cell = draws[:, 0] ** 2
        assert abs(cell.mean() - variance) < 5 * cell.std() / np.sqrt(DRAWS)


def test_intervals(seed: int) -> None:
    noise = tdp.KNormNoise(tdp.LpBall(3, np.inf, [1, 2, 3]), 1.0)
    half = noise.simultaneous_interval(alpha=0.1)
    covered = np.mean((np.abs(noise.sample(DRAWS, rng=seed)) <= half).all(axis=1))
    assert abs(covered - 0.9) < 5 * 0.3 / np.sqrt(DRAWS)  # exact for cubes
    diamond = tdp.KNormNoise(tdp.LpBall(3, 1), 1.0)
    inside = diamond.concentration_set(0.9).contains(diamond.sample(DRAWS, rng=seed))
    assert abs(inside.mean() - 0.9) < 5 * 0.3 / np.sqrt(DRAWS)
    box = np.abs(diamond.sample(DRAWS, rng=seed)) <= diamond.simultaneous_interval(0.1)
    assert box.all(axis=1).mean() >= 0.9  # conservative for other shapes


def test_face(seed: int) -> None:
    noise = tdp.KNormNoise(tdp.LpBall(2, 1), 1.0)
    assert noise.numerics is Numerics.IDEALIZED
    assert noise.sample(rng=seed).shape == (2,)
    assert noise.sample(0).shape == (0, 2)
    assert not np.array_equal(noise.sample(2), noise.sample(2))
    assert repr(noise) == "KNormNoise(LpBall(dim=2, p=1, radius=1), epsilon=1)"
    assert noise.covariance_info().exact
    assert noise.conditional_variance([1.0, 0.0]) == pytest.approx(2.0)
    assert noise.expected_loss(1).value == pytest.approx(2.0)
    assert noise.dim == 2
    exact = noise.on_lattice(resolution=64)
    assert exact.numerics is Numerics.EXACT
    assert exact.sensitivity == 64


@pytest.mark.parametrize("epsilon", [0, -1.0, float("nan"), float("inf"), True, "1", None])
def test_bad_epsilon(epsilon: object) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        tdp.KNormNoise(tdp.LpBall(2, 1), epsilon)  # type: ignore[arg-type]


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="NormBall"):
        tdp.KNormNoise("l1", 1.0)  # type: ignore[arg-type]
    noise = tdp.KNormNoise(tdp.LpBall(2, 1), 1.0)
    with pytest.raises(ParameterError, match="alpha"):
        noise.simultaneous_interval(0.0)
    with pytest.raises(ParameterError, match="rng"):
        noise.sample(1, rng="seed")
    with pytest.raises(ParameterError, match="size"):
        noise.sample(1.5)  # type: ignore[arg-type]
