"""The laws of every norm ball. A new ball must appear in EXAMPLES, or the first test fails."""

from __future__ import annotations

import inspect

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.errors import DimensionError, FloatArray, ParameterError
from tightdp.geometry.combine import Intersection, LinearImage, Product, Scaled
from tightdp.geometry.norm_balls import NormBall
from tightdp.randomness import SeededSource

_CROSS = np.vstack([np.eye(3), -np.eye(3)]) * [1.0, 2.0, 0.5]
_CUT = np.vstack([np.eye(3), np.ones((1, 3))])

EXAMPLES: dict[type[NormBall], list[NormBall]] = {
    tdp.LpBall: [
        tdp.LpBall(1, 3.0, 2.0),
        tdp.LpBall(2, 1),
        tdp.LpBall(3, 2, 0.5),
        tdp.LpBall(3, 1.5, [1.0, 2.0, 3.0]),
        tdp.LpBall(4, np.inf, 2.0),
        tdp.LpBall(2, 7.5),
    ],
    tdp.Ellipsoid: [tdp.Ellipsoid([[2.0, 0.5, 0.0], [0.5, 1.0, 0.2], [0.0, 0.2, 3.0]])],
    tdp.Polytope: [
        tdp.Polytope.from_vertices(_CROSS),
        tdp.Polytope.hull_of([[2, 1], [-2, -1], [0, 1], [0, -1], [1, 0], [-1, 0]]),
        tdp.Polytope.from_inequalities(
            np.vstack([np.eye(3), -np.eye(3), [[1, 1, 1]], [[-1, -1, -1]]]),
            [1, 1, 1, 1, 1, 1, 2, 2],
        ),
        tdp.Polytope.from_vertices([[3.0], [-3.0]]),
    ],
    tdp.Zonotope: [
        tdp.Zonotope([[1, 0], [0, 1], [1, 1]]),
        tdp.Zonotope(np.vstack([np.eye(3), [[1, 2, 0.5]]])),
    ],
    Product: [Product([tdp.LpBall(2, 2, 2.0), tdp.LpBall(1, 1), tdp.HistogramBall(3)])],
    Intersection: [
        Intersection([tdp.LpBall(3, np.inf), tdp.LpBall(3, 2, 1.2)]),
        Intersection([tdp.LpBall(3, np.inf, 2.0), tdp.LpBall(3, 1, 4.0)]),
    ],
    LinearImage: [
        LinearImage(tdp.LpBall(2, 4), [[1.0, 1.0], [0.0, 2.0]]),
        LinearImage(tdp.LpBall(2, 1), [[1.0, 1.0], [2.0, 0.0], [0.0, 1.0]]),
    ],
    Scaled: [tdp.K2().scaled([2.0, 3.0]), tdp.HistogramBall(3).scaled(2.0)],
    tdp.K2: [tdp.K2()],
    tdp.K3: [tdp.K3()],
    tdp.MomentBody: [
        tdp.MomentBody(1, kind="cylinder"),
        tdp.MomentBody(1, kind="triangle"),
        tdp.MomentBody(2, kind="triples"),
        tdp.MomentBody(1, kind="nuclear"),
    ],
    tdp.MomentHull: [tdp.MomentHull(1)],
    tdp.SumBall: [tdp.SumBall(3, 2), tdp.SumBall(4, 1)],
    tdp.CountBall: [tdp.CountBall(3, 2), tdp.CountBall(2, 2)],
    tdp.VoteBall: [tdp.VoteBall(3), tdp.VoteBall(4)],
    tdp.PosetBall: [tdp.PosetBall(3, [(0, 2), (1, 2)]), tdp.PosetBall(4, [(0, 1), (0, 2)])],
    tdp.ReplacedCountBall: [tdp.ReplacedCountBall(3, 1), tdp.ReplacedCountBall(4, 2)],
    tdp.ReplacedPosetBall: [
        tdp.ReplacedPosetBall(3, [(0, 2), (1, 2)]),
        tdp.ReplacedPosetBall(4, [(0, 1), (0, 2)]),
    ],
    tdp.HistogramBall: [tdp.HistogramBall(2), tdp.HistogramBall(4)],
    tdp.NuclearBall: [
        tdp.NuclearBall(1, 2.0),
        tdp.NuclearBall(2),
        tdp.NuclearBall(3, 2.0, [1, 2, 3]),
    ],
}
SLOW = (tdp.MomentHull, tdp.MomentBody, Intersection)
BALLS = [ball for balls in EXAMPLES.values() for ball in balls]


def affordable(ball: NormBall, draws: int) -> int:
    """Fewer draws for the one body whose gauge is a linear program per point."""
    return draws // 200 if isinstance(ball, tdp.MomentHull) else draws


def subclasses(base: type) -> set[type]:
    found = set(base.__subclasses__())
    return found.union(*(subclasses(child) for child in found))


def test_every_ball_obeys_the_laws() -> None:
    ours = {
        c
        for c in subclasses(NormBall)
        if c.__module__.startswith("tightdp.") and not inspect.isabstract(c)
    }
    assert ours == set(EXAMPLES)
    assert all(EXAMPLES.values())


@pytest.fixture(params=BALLS, ids=[f"{type(b).__name__}-{i}" for i, b in enumerate(BALLS)])
def ball(request: pytest.FixtureRequest) -> NormBall:
    return request.param


def span(ball: NormBall) -> FloatArray:
    """Orthonormal basis of the span, one vector a row."""
    if ball.rank == ball.dim:
        return np.eye(ball.dim)
    return np.linalg.svd(ball.sample(50, rng=0))[2][: ball.rank]


def directions(ball: NormBall, seed: int, count: int = 40) -> FloatArray:
    """Vectors in the span, axes of the span included; fewer where each costs linear programs."""
    basis = span(ball)
    count = min(count, 6) if isinstance(ball, SLOW) else count
    return np.vstack([basis, SeededSource(seed).normal((count, ball.rank)) @ basis])


def boxed(ball: NormBall, seed: int, count: int) -> tuple[FloatArray, float]:
    """Uniform points of a box around the ball (within its span), and the box's log volume."""
    basis = span(ball)
    half = np.asarray(ball.support(basis))
    cube = (2 * SeededSource(seed).uniform((count, ball.rank)) - 1) * half
    return cube @ basis, float(np.log(2 * half).sum())


@pytest.mark.slow_for("MomentHull-26")
def test_gauge_is_a_norm(ball: NormBall, seed: int) -> None:
    x, y = directions(ball, seed), directions(ball, seed + 1)
    g = ball.gauge(x)
    assert ball.gauge(np.zeros(ball.dim)) == 0.0
    assert (g > 0).all()
    np.testing.assert_allclose(ball.gauge(-2.5 * x), 2.5 * g, rtol=1e-9)
    assert (ball.gauge(x + y) <= (g + ball.gauge(y)) * (1 + 1e-9)).all()


@pytest.mark.slow_for("MomentHull-26")
def test_contains_means_gauge_at_most_one(ball: NormBall, seed: int) -> None:
    x = directions(ball, seed)
    np.testing.assert_array_equal(ball.contains(x), ball.gauge(x) <= 1)
    assert ball.contains(np.zeros(ball.dim)) is True
    assert not ball.contains(x / ball.gauge(x)[:, None] * (1 + 1e-6)).any()


@pytest.mark.slow_for("Intersection-14", "MomentBody-23", "MomentBody-24")
def test_support_and_gauge_are_polar(ball: NormBall, seed: int) -> None:
    c = directions(ball, seed)
    reach, points = ball.support(c), ball.support_point(c)
    assert (ball.gauge(points) <= 1 + 1e-7).all()
    np.testing.assert_allclose(np.sum(c * points, axis=1), reach, rtol=1e-9)
    inside = ball.sample(affordable(ball, 20_000), rng=seed)
    assert (inside @ c.T <= reach * (1 + 1e-7)).all()
    a = ball.normal(c)
    np.testing.assert_allclose(np.sum(a * c, axis=1), ball.gauge(c), rtol=1e-7)
    np.testing.assert_allclose(ball.support(a), 1.0, rtol=1e-6)
    # the bipolar theorem: a long gauge is seen by some direction
    np.testing.assert_allclose(ball.bounding_box(), ball.support(np.eye(ball.dim)), rtol=1e-7)


@pytest.mark.slow_for("MomentHull-26")
def test_volume_against_monte_carlo(ball: NormBall, seed: int) -> None:
    draws = affordable(ball, 40_000)
    points, box = boxed(ball, seed, draws)
    share = float(np.mean(ball.gauge(points) <= 1))
    error = np.hypot(np.sqrt((1 - share) / (share * draws)), ball.volume_info.standard_error)
    assert abs(ball.log_volume() - box - np.log(share)) <= 5 * error + 1e-9  # 5 s.e.
    assert ball.volume() == pytest.approx(np.exp(ball.log_volume()))


def uniform_p_value(ball: NormBall, points: FloatArray) -> float:
    """gauge(U)**rank is uniform on (0, 1) for a uniform point of the ball."""
    return float(stats.kstest(ball.gauge(points) ** ball.rank, "uniform").pvalue)


@pytest.mark.slow_for("MomentHull-26")
def test_samples_are_uniform(ball: NormBall, seed: int) -> None:
    size = affordable(ball, 20_000)
    points = ball.sample(size, rng=seed)
    assert points.shape == (size, ball.dim)
    slack = 1e-9 if size == 20_000 else 1e-6  # the gauge of the slow body is certified to 1e-6
    assert (ball.gauge(points) <= 1 + slack).all()
    assert uniform_p_value(ball, points) > 1e-4
    cut = 0.97 if size == 20_000 else 0.75
    assert uniform_p_value(ball, cut * points) < 1e-4  # planted failure
    proposals, _ = boxed(ball, seed + 1, affordable(ball, 60_000))
    reference = proposals[ball.gauge(proposals) <= 1]
    for c in directions(ball, seed + 2, 6):
        assert stats.ks_2samp(points @ c, reference @ c).pvalue > 1e-5


@pytest.mark.slow_for("MomentHull-26", "MomentBody-23", "MomentBody-24")
def test_second_moment(ball: NormBall, seed: int) -> None:
    points, info = ball.sample(affordable(ball, 40_000), rng=seed), ball.second_moment
    mean = points.T @ points / len(points)
    spread = (points**2).T @ points**2 / len(points) - mean**2
    error = np.sqrt(np.maximum(spread, 0) / len(points) + info.standard_error**2)
    assert (np.abs(mean - info.value) <= 5.5 * error + 1e-12).all()


@pytest.mark.slow_for("MomentHull-26", "MomentBody-23", "MomentBody-24")
def test_moments_of_entries_and_the_cube(ball: NormBall, seed: int) -> None:
    assert ball.entry_moments() == pytest.approx(np.diag(ball.second_moment.value), rel=1e-12)
    if ball.rank == ball.dim:
        cube = 2.0 * SeededSource(seed).uniform((200, ball.dim)) - 1
        most = np.concatenate([ball.gauge(cube), ball.gauge(np.sign(cube))]).max()
        assert most <= ball.cube_gauge() * (1 + 1e-9)


@pytest.mark.slow_for("Intersection-14", "MomentHull-26", "MomentBody-23", "MomentBody-24")
def test_scaling_is_equivariant(ball: NormBall, seed: int) -> None:
    big, x = ball.scaled(3.0), directions(ball, seed)
    np.testing.assert_allclose(big.gauge(x), ball.gauge(x) / 3.0, rtol=1e-9)
    np.testing.assert_allclose(big.support(x), ball.support(x) * 3.0, rtol=1e-7)
    assert big.log_volume() == pytest.approx(ball.log_volume() + ball.rank * np.log(3.0))
    np.testing.assert_allclose(
        big.sample(50, rng=seed), 3.0 * ball.sample(50, rng=seed), rtol=1e-12
    )


def test_vertices_and_facets_describe_the_ball(ball: NormBall, seed: int) -> None:
    x = directions(ball, seed)
    corners, faces = ball.vertices(), ball.facets()
    if corners is not None:
        np.testing.assert_allclose(ball.gauge(corners), 1.0, rtol=1e-7)
        np.testing.assert_allclose(np.abs(x @ corners.T).max(axis=1), ball.support(x), rtol=1e-7)
    if faces is not None:
        np.testing.assert_allclose(np.abs(x @ faces.T).max(axis=1), ball.gauge(x), rtol=1e-7)


def test_unconditional_means_no_preferred_signs(ball: NormBall, seed: int) -> None:
    if ball.unconditional:
        x = directions(ball, seed)
        np.testing.assert_allclose(ball.gauge(np.abs(x)), ball.gauge(x), rtol=1e-9)


def test_shapes_and_seeds(ball: NormBall, seed: int) -> None:
    one, many = ball.sample(rng=seed), ball.sample(3, rng=seed)
    assert one.shape == (ball.dim,)
    np.testing.assert_array_equal(many, ball.sample(3, rng=seed))
    assert not np.array_equal(ball.sample(3), ball.sample(3))
    assert isinstance(ball.gauge(one), float)
    assert ball.gauge(np.zeros((2, 5, ball.dim))).shape == (2, 5)
    assert ball.sample(0, rng=seed).shape == (0, ball.dim)


def test_bad_vectors_are_refused(ball: NormBall) -> None:
    with pytest.raises(DimensionError, match=f"must have {ball.dim} entries"):
        ball.gauge(np.zeros(ball.dim + 1))
    with pytest.raises(DimensionError):
        ball.support(1.0)
    with pytest.raises(ParameterError, match="NaN"):
        ball.gauge(np.full(ball.dim, np.nan))
    with pytest.raises(ParameterError, match="size"):
        ball.sample(-1)
    with pytest.raises(ParameterError, match="factor"):
        ball.scaled(0.0)
