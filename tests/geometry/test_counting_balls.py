"""Hulls of sums, counts, histograms, votes and posets against linear programs, qhull, rejection."""

from __future__ import annotations

import math
from itertools import combinations, permutations

import numpy as np
import pytest
from scipy import stats
from scipy.spatial import ConvexHull

from tightdp.errors import InfeasibleSamplingError, ParameterError
from tightdp.geometry.counting_balls import CountBall, HistogramBall, ReplacedCountBall, SumBall
from tightdp.geometry.cube_corner import CubeCorner
from tightdp.geometry.forests import Forest
from tightdp.geometry.linear_programs import gauge_of_hull
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.poset_ball import PosetBall, ReplacedPosetBall, _count_splits
from tightdp.geometry.vote_ball import VoteBall
from tightdp.randomness import SeededSource

DRAWS = 20_000
ALPHA = 1e-5  # about 100 p-values in this file: one false alarm in 1000 seeds
SIGMAS = 5.0  # tolerance of Monte Carlo averages, in standard errors

SMALL = [
    SumBall(1, 1),
    SumBall(2, 1),
    SumBall(3, 2),
    SumBall(4, 2),
    SumBall(4, 4),
    CountBall(1, 1),
    CountBall(2, 2),
    CountBall(3, 1),
    CountBall(3, 2),
    CountBall(4, 2),
    CountBall(4, 3),
    VoteBall(2),
    VoteBall(3),
    VoteBall(4),
    HistogramBall(2),
    HistogramBall(3),
    HistogramBall(4),
    HistogramBall(5),
    PosetBall(2),
    PosetBall(3, [(0, 2)]),
    PosetBall(3, [(0, 2), (1, 2)]),
    PosetBall(4, [(0, 1), (1, 2), (2, 3), (0, 3)]),
    PosetBall(4, [(0, 2), (1, 2), (1, 3)]),
    PosetBall(4, [(0, 1), (0, 2), (1, 3), (2, 3)]),
    ReplacedCountBall(1, 1),
    ReplacedCountBall(2, 1),
    ReplacedCountBall(3, 1),
    ReplacedCountBall(4, 2),
    ReplacedCountBall(5, 2),
    ReplacedCountBall(4, 3),
    ReplacedPosetBall(2),
    ReplacedPosetBall(3, [(0, 2)]),
    ReplacedPosetBall(3, [(0, 2), (1, 2)]),
    ReplacedPosetBall(4, [(0, 1), (1, 2), (2, 3), (0, 3)]),
    ReplacedPosetBall(4, [(0, 2), (1, 2), (1, 3)]),
    ReplacedPosetBall(4, [(0, 1), (0, 2), (1, 3), (2, 3)]),
]
LARGE = [
    SumBall(500, 100),
    SumBall(500, 1),
    CountBall(500, 100),
    ReplacedCountBall(500, 100),
    VoteBall(500),
    HistogramBall(500),
    PosetBall(500, [(i, (i - 1) // 2) for i in range(1, 500)]),
]


def name(ball):
    return repr(ball) + (str(ball._below.sum()) if isinstance(ball, PosetBall) else "")


every_ball = pytest.mark.parametrize("ball", SMALL, ids=name)


def vectors(ball, count=40, seed=0):
    """Normal vectors in the span, with zeros and ties among them."""
    x = np.random.default_rng(seed).normal(size=(count, ball.dim))
    x[: count // 2] = np.round(x[: count // 2])
    if ball.rank < ball.dim:
        x -= x.mean(axis=1, keepdims=True)
    return x[np.abs(x).max(axis=1) > 1e-9]


def rejection(ball, count, seed):
    """Uniform points from the bounding box; flat balls are drawn without their last entry."""
    rng, found, total = np.random.default_rng(seed), [], 0
    while total < count:
        x = rng.uniform(-1, 1, (4 * count, ball.dim)) * ball.bounding_box()
        if ball.rank < ball.dim:
            x[:, -1] = -x[:, :-1].sum(axis=1)
        found.append(x[ball.gauge(x) <= 1])
        total += len(found[-1])
    return np.vstack(found)[:count]


def radial_p(ball, points):
    """gauge(U)^rank of a uniform point is uniform on (0, 1)."""
    return stats.kstest(ball.gauge(points) ** ball.rank, "uniform").pvalue


def shape_p(points, others):
    """Two-sample chi-square over cells of signs, place and size of the largest entry, spread."""
    both = np.vstack([points, others])
    cells = (both > 0) @ (1 << np.arange(both.shape[1]))
    cells = cells * 8 + np.abs(both).argmax(axis=1)
    size = np.abs(both).max(axis=1)
    spread = (both**2).sum(axis=1) / size**2
    cells = cells * 2 + (size > np.median(size))
    cells = cells * 4 + np.searchsorted(np.quantile(spread, [0.25, 0.5, 0.75]), spread)
    labels, index = np.unique(cells, return_inverse=True)
    table = np.stack(
        [
            np.bincount(index[: len(points)], minlength=len(labels)),
            np.bincount(index[len(points) :], minlength=len(labels)),
        ]
    )
    rare = table.sum(axis=0) < 40  # pooled, so that the chi-square law holds
    table = np.hstack([table[:, ~rare], table[:, rare].sum(axis=1, keepdims=True)])
    return stats.chi2_contingency(table[:, table.sum(axis=0) > 0]).pvalue


# --- gauge, support, facets, vertices --------------------------------------------------------


@every_ball
def test_gauge_is_that_of_the_hull_of_the_vertices(ball):
    x = vectors(ball)
    np.testing.assert_allclose(ball.gauge(x), gauge_of_hull(x, ball.vertices()), rtol=1e-7)


@every_ball
def test_support_is_the_largest_vertex(ball):
    c = vectors(ball, seed=1)
    reach = np.abs(c @ ball.vertices().T).max(axis=1)
    np.testing.assert_allclose(ball.support(c), reach, rtol=1e-12)
    np.testing.assert_allclose(ball.gauge(ball.support_point(c)), 1.0, rtol=1e-12)


@every_ball
def test_normals_are_polar_to_the_ball(ball):
    x = vectors(ball, seed=2)
    a = ball.normal(x)
    np.testing.assert_allclose(np.sum(a * x, axis=1), ball.gauge(x), rtol=1e-12)
    np.testing.assert_allclose(ball.support(a), 1.0, rtol=1e-12)


LISTED = [ball for ball in SMALL if ball.facets() is not None]  # the others have too many


@pytest.mark.parametrize("ball", LISTED, ids=name)
def test_facets_describe_the_ball_within_its_span(ball):
    facets = ball.facets()
    x = vectors(ball, seed=3)
    np.testing.assert_allclose(np.abs(x @ facets.T).max(axis=1), ball.gauge(x), rtol=1e-12)
    assert ball.facets(most=0) is None or len(facets) == ball.dim


@every_ball
def test_bounding_box_and_zero(ball):
    box = np.abs(ball.vertices()).max(axis=0)
    np.testing.assert_allclose(ball.bounding_box(), box)
    assert ball.gauge(np.zeros(ball.dim)) == 0.0
    assert ball.vertices(most=0) is None


def test_special_cases_are_known_balls():
    x = np.random.default_rng(0).normal(size=(50, 5))
    l1, cube = LpBall(5, 1), LpBall(5, np.inf)
    known_balls = [
        (SumBall(5, 1), l1),
        (CountBall(5, 1), l1),
        (SumBall(5, 5), cube),
        (ReplacedCountBall(5, 5), cube),
    ]
    for ball, known in known_balls:
        np.testing.assert_allclose(ball.gauge(x), known.gauge(x))
        assert ball.log_volume() == pytest.approx(known.log_volume(), abs=1e-12)
        np.testing.assert_allclose(
            ball.second_moment.value, known.second_moment.value, atol=1e-15, rtol=1e-12
        )
    np.testing.assert_allclose(PosetBall(5).gauge(x), CountBall(5, 5).gauge(x))
    np.testing.assert_allclose(ReplacedPosetBall(5).gauge(x), cube.gauge(x))


def test_histogram_ball_lives_on_its_hyperplane_only():
    ball = HistogramBall(3)
    assert ball.gauge([1.0, 0.0, -1.0 + 1e-12]) == pytest.approx(1.0)
    assert ball.gauge([1.0, 0.0, -1.0 + 1e-6]) == np.inf
    assert ball.support([5.0, 5.0, 5.0]) == 0.0
    assert np.abs(ball.sample(1000, rng=0).sum(axis=1)).max() < 1e-12


# --- volumes ---------------------------------------------------------------------------------


@every_ball
def test_volume_matches_qhull(ball):
    points = np.vstack([ball.vertices(), -ball.vertices()])
    flat = ball.rank < ball.dim
    points = points[:, :-1] if flat else points
    volume = np.ptp(points) if points.shape[1] == 1 else ConvexHull(points).volume
    # Dropping one coordinate of the hyperplane sum = 0 shrinks volumes by sqrt(m).
    assert ball.volume() == pytest.approx(volume * (math.sqrt(ball.dim) if flat else 1), rel=1e-9)
    assert ball.volume_info.exact


def test_large_volumes_match_exact_integers():
    n, k = 500, 100
    exact = sum((-1) ** i * math.comb(n, i) * (k - i) ** n for i in range(k))
    log = math.log(exact) - math.lgamma(n + 1)
    assert CubeCorner(n, k).log_volumes[n] == pytest.approx(log, abs=1e-9)


def splits_by_hand(below):
    """Sum over subsets of the product of the two numbers of linear extensions, by enumeration."""

    def extensions(part):
        orders = permutations(part)
        return sum(
            all(not below[later, now] for now, later in combinations(order, 2)) for order in orders
        )

    everyone, total = range(len(below)), 0
    for size in range(len(below) + 1):
        for part in combinations(everyone, size):
            total += extensions(part) * extensions([p for p in everyone if p not in part])
    return total


def test_poset_counts_match_enumeration():
    rng = np.random.default_rng(5)
    for _ in range(6):
        pairs = [pair for pair in combinations(range(5), 2) if rng.random() < 0.3]
        assert sum(_count_splits(PosetBall(5, pairs)._below)) == splits_by_hand(
            PosetBall(5, pairs)._below
        )
        parents = [int(rng.integers(p + 1, 6)) for p in range(5)]
        parents = [-1 if parent == 5 else parent for parent in parents]
        forest = PosetBall(5, [(p, q) for p, q in enumerate(parents) if q >= 0])
        assert Forest(parents).splits == splits_by_hand(forest._below)


def test_volume_of_a_large_knotted_poset_is_an_estimate(monkeypatch):
    zigzag = [(i, j % 12) for i in range(0, 12, 2) for j in (i + 1, i - 1)]
    exact = PosetBall(12, zigzag).volume_info
    monkeypatch.setattr("tightdp.geometry.poset_ball._EXACT_COUNT_DIM", 3)
    estimate = PosetBall(12, zigzag).volume_info
    assert exact.exact
    assert not estimate.exact
    assert abs(estimate.log_value - exact.log_value) < SIGMAS * estimate.standard_error


# --- uniform points --------------------------------------------------------------------------


@every_ball
def test_points_are_uniform(ball):
    points, others = ball.sample(DRAWS, rng=11), rejection(ball, DRAWS, seed=12)
    assert radial_p(ball, points) > ALPHA
    assert shape_p(points, others) > ALPHA


@every_ball
def test_the_uniformity_tests_catch_planted_failures(ball):
    points, others = ball.sample(DRAWS, rng=11), rejection(ball, DRAWS, seed=12)
    assert radial_p(ball, 0.97 * points) < ALPHA
    if ball.rank < 2:
        return  # no directions to get wrong
    # Right radii in wrong directions: cubed normals pushed to the radii of uniform points.
    x = np.random.default_rng(13).normal(size=points.shape) ** 3
    x -= x.mean(axis=1, keepdims=True) if ball.rank < ball.dim else 0.0
    x *= (np.random.default_rng(14).random(DRAWS) ** (1 / ball.rank) / ball.gauge(x))[:, None]
    assert radial_p(ball, x) > ALPHA
    assert shape_p(x, others) < ALPHA


@every_ball
def test_second_moments_match_rejection(ball):
    exact = ball.second_moment
    x = rejection(ball, 2 * DRAWS, seed=15)
    products = x[:, :, None] * x[:, None, :]
    error = np.hypot(products.std(axis=0) / math.sqrt(len(x)), exact.standard_error)
    assert exact.exact or isinstance(ball, PosetBall)
    assert (np.abs(products.mean(axis=0) - exact.value) <= SIGMAS * error + 1e-12).all()


@pytest.mark.parametrize(
    "ball",
    [SumBall(20, 4), CountBall(15, 5), ReplacedCountBall(15, 4), VoteBall(12), HistogramBall(30)],
    ids=name,
)
def test_second_moments_match_samples_in_higher_dimensions(ball):
    square = (ball.sample(DRAWS, rng=16) ** 2).mean(axis=1)
    exact = np.trace(ball.second_moment.value) / ball.dim
    assert abs(square.mean() - exact) < SIGMAS * square.std() / math.sqrt(DRAWS)


def tiling_points(dim, size, seed):
    """Permutohedron points from its regular tiling by spanning trees, an unrelated construction.

    The centred permutohedron is the sum of the segments from (e_j - e_i)/2 to (e_i - e_j)/2.
    Generic heights lift the segments; the lower faces of the lifted sum are one parallelepiped per
    spanning tree, all of volume 1: potentials that level the tree's segments tell for every other
    segment which end is lower.
    """
    rng = np.random.default_rng(seed)
    heights = np.triu(rng.random((dim, dim)), 1)
    pairs, trees = list(combinations(range(dim), 2)), []
    for tree in combinations(pairs, dim - 1):
        rows = np.zeros((dim, dim))
        rows[0, 0] = 1.0
        for r, (i, j) in enumerate(tree, 1):
            rows[r, [i, j]] = 1.0, -1.0
        if abs(np.linalg.det(rows)) < 0.5:
            continue
        potential = np.linalg.solve(rows, [0.0] + [-heights[e] for e in tree])
        corner = np.zeros(dim)
        for i, j in set(pairs) - set(tree):
            end = 0.5 if potential[i] - potential[j] + heights[i, j] < 0 else -0.5
            corner[[i, j]] += end, -end
        trees.append((corner, rows[1:]))
    assert len(trees) == dim ** (dim - 2)
    corners, sides = (np.array(part) for part in zip(*trees, strict=True))
    pick = rng.integers(len(trees), size=size)
    return corners[pick] + np.einsum("nr,nrd->nd", rng.random((size, dim - 1)) - 0.5, sides[pick])


def test_votes_match_the_tiling_by_spanning_trees():
    points = VoteBall(5).sample(DRAWS, rng=17)
    centred = points - points.mean(axis=1, keepdims=True)
    assert shape_p(centred, tiling_points(5, DRAWS, 18)) > ALPHA


def test_histogram_noise_has_the_reference_variance():
    for cells, variance, error in [(2, 2, 0), (3, 10 / 3, 0), (4, 4.205, 0.012), (6, 5.214, 0.011)]:
        # K-norm noise at epsilon = 1 is Gamma(rank + 1) times a uniform point
        exact = HistogramBall(cells).second_moment.value[0, 0] * cells * (cells + 1)
        assert abs(exact - variance) <= SIGMAS * error + 1e-12


# --- size, speed of setup, errors ------------------------------------------------------------


@pytest.mark.slow_for("PosetBall(dim=500)3498")
@pytest.mark.parametrize("ball", LARGE, ids=name)
def test_five_hundred_dimensions(ball):
    points = ball.sample(400, rng=19)
    assert np.isfinite(points).all()
    assert math.isfinite(ball.log_volume())
    assert radial_p(ball, points) > ALPHA


@pytest.mark.parametrize("ball", [SMALL[3], SMALL[9], SMALL[13], SMALL[16], SMALL[22]], ids=name)
def test_shapes_of_samples(ball):
    assert ball.sample(rng=1).shape == (ball.dim,)
    assert ball.sample(0, rng=1).shape == (0, ball.dim)
    assert ball.sample(3).shape == (3, ball.dim)
    np.testing.assert_array_equal(ball.sample(3, rng=4), ball.sample(3, rng=SeededSource(4)))


@pytest.mark.parametrize(
    "make",
    [
        lambda: SumBall(0, 1),
        lambda: SumBall(3, 0),
        lambda: SumBall(3, 4),
        lambda: SumBall(3, 1.5),
        lambda: CountBall(3, 4),
        lambda: CountBall(True, 1),
        lambda: VoteBall(1),
        lambda: HistogramBall(1),
        lambda: PosetBall(0),
        lambda: PosetBall(2, [(0, 2)]),
        lambda: PosetBall(2, [(0, 1), (1, 0)]),
        lambda: PosetBall(2, [(1, 1)]),
        lambda: PosetBall(2, [0, 1]),
        lambda: SumBall(3, 1).gauge([1.0, 2.0]),
    ],
)
def test_bad_input_is_refused(make):
    with pytest.raises(ParameterError):
        make()


def test_hopeless_rejection_is_refused():
    layers = [range(10 * i, 10 * i + 10) for i in range(3)]
    pairs = [(p, q) for i in range(2) for p in layers[i] for q in layers[i + 1]]
    with pytest.raises(InfeasibleSamplingError, match="Drop relations"):
        PosetBall(30, pairs).sample(1, rng=0)
