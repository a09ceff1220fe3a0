"""Moment bodies: closed forms, containment of every sensitivity vector, and exact laws of draws.

Tolerances are k = 5 combined standard errors; p-values are compared with ALPHA, divided by the
number of tests looked at together. Each statistical check is also shown to catch a planted failure.
"""

from __future__ import annotations

import math
from itertools import combinations, pairwise

import numpy as np
import pytest
from scipy import stats

import tightdp.geometry.moment_sampling as sampling
from tightdp.errors import DimensionError, InfeasibleSamplingError, ParameterError
from tightdp.geometry.linear_programs import gauge_of_hull, support_by_cuts
from tightdp.geometry.moment_bodies import (
    K2,
    K3,
    KINDS,
    MomentBody,
    MomentLayout,
    regression_moments,
)
from tightdp.geometry.moment_sampling import FREE, CoupledSampler, SplitSampler
from tightdp.geometry.moment_true_hull import MomentHull
from tightdp.randomness import SeededSource

ALPHA = 1e-4
SIGMAS = 5.0


# --- references ---------------------------------------------------------------------------------


def cube_rejection(body, size, rng):
    """The papers' Algorithm 8 (with its box and radius mended), as an oracle."""
    points, tried = np.empty((0, body.dim)), 0
    while len(points) < size:
        cube = rng.uniform(-2, 2, (20_000, body.dim))
        points = np.vstack([points, cube[body.contains(cube)]])
        tried += len(cube)
    return points[:size], len(points) / tried


def rejection(larger, smaller, size, seed):
    points, rng = np.empty((0, larger.dim)), SeededSource(seed)
    while len(points) < size:
        draws = larger.sample(2 * size, rng=rng)
        points = np.vstack([points, draws[smaller.contains(draws)]])
    return points[:size]


def least_p_value(first, second, seed=0, projections=40):
    """Least KS p-value over random projections and four nonlinear statistics, Bonferroni."""
    d = first.shape[1]
    directions = np.random.default_rng(seed).normal(size=(d, projections))
    directions[:, : min(d, projections // 2)] = np.eye(d)[:, : min(d, projections // 2)]

    def statistics(x):
        a = np.abs(x)
        extra = [a.max(axis=1), a.sum(axis=1), (x**2).sum(axis=1), np.median(a, axis=1)]
        return np.column_stack([x @ directions, *extra]).T

    pairs = zip(statistics(first), statistics(second), strict=True)
    values = [stats.ks_2samp(a, b).pvalue for a, b in pairs]
    return min(values) * len(values)


def random_records(p, count, rng):
    """Records in [-1, 1]^(p+1): interior points, corners, and mixtures with zeros."""
    inside = rng.uniform(-1, 1, (count, p + 1))
    special = rng.choice([-1.0, 0.0, 1.0], (count, p + 1), p=[0.45, 0.1, 0.45])
    z = np.where(rng.random((count, p + 1)) < rng.random((count, 1)), special, inside)
    return regression_moments(z[:, :-1], z[:, -1])


def holds(u, p, kind):
    """Membership by the definition, one inequality at a time (the nuclear norm by SVD)."""
    layout = MomentLayout(p)
    names = layout.names
    label = ["1", *(f"x{j}" for j in range(1, p + 1)), "y"]

    def w(i, j):
        name = label[max(i, j)] if min(i, j) == 0 else f"{label[min(i, j)]}*{label[max(i, j)]}"
        return u[names.index(name)]

    ok = bool((np.abs(u) <= 2).all())
    for i, j, k in combinations(range(p + 2), 3):
        if i == 0 or kind != "cylinder":
            ok &= abs(w(i, j)) + abs(w(i, k)) + abs(w(j, k)) <= 4
    for j in range(1, p + 1):
        s = u[names.index(f"2*x{j}^2")]
        for k in range(p + 2):
            if k != j and (k == 0 or kind in ("triangle", "nuclear")):
                a = abs(w(j, k))
                ok &= abs(s) <= (2 if a <= 1 else 2 - 2 * (a - 1) ** 2)
    if kind == "nuclear":
        M = [[0 if i == j else w(i, j) for j in range(p + 2)] for i in range(p + 2)]
        ok &= np.linalg.svd(np.array(M), compute_uv=False).sum() <= 2 * (p + 2)
    return ok


# --- K2 and K3 ----------------------------------------------------------------------------------


def test_k2_numbers():
    body = K2()
    points = [(1, 1), (1.5, 1.5), (1, 2), (0.3, -2), (2, 2)]
    assert body.gauge(points) == pytest.approx([2 / 3, 1, 1, 1, 4 / 3], rel=1e-12)
    assert body.gauge([0.0, 0.0]) == 0.0
    assert body.volume() == pytest.approx(40 / 3, rel=1e-12)
    covariance = 3 * 4 * body.second_moment.value
    assert covariance == pytest.approx(np.diag([11.76, 13.9885714286]), abs=1e-9)
    t = np.linspace(1, 2, 101)
    assert body.gauge(np.column_stack([t, 2 - 2 * (t - 1) ** 2])) == pytest.approx(1.0, rel=1e-12)


def test_k3_numbers():
    body = K3()
    assert body.volume() == pytest.approx(160 / 3, rel=1e-12)
    assert 4 * 5 * body.second_moment.value == pytest.approx(22.4 * np.eye(3), abs=1e-12)
    x = np.random.default_rng(0).normal(size=(50, 3))
    assert body.gauge(x) == pytest.approx(np.abs(x @ body.facets().T).max(axis=1), rel=1e-12)
    assert body.gauge(x) == pytest.approx(gauge_of_hull(x, body.vertices()), rel=1e-8)
    corners = np.array([(x, y, x * y) for x in (-1, 1) for y in (-1, 1)])
    assert max(body.gauge(a - b) for a in corners for b in corners) == 1.0


@pytest.mark.slow_for("K2")
@pytest.mark.parametrize("body", [K2(), K3()], ids=["K2", "K3"])
def test_small_hulls_support_normals_and_draws(body):
    rng = np.random.default_rng(1)
    c, x = rng.normal(size=(40, body.dim)), rng.normal(size=(40, body.dim))
    cuts = support_by_cuts(c, body._gauge, body._normals)
    assert body.support(c) == pytest.approx(np.sum(c * cuts, axis=1), rel=1e-7)
    assert body.gauge(body.support_point(c)) == pytest.approx(1.0, rel=1e-12)
    assert np.sum(body.normal(x) * x, axis=1) == pytest.approx(body.gauge(x), rel=1e-12)
    assert body.support(body.normal(x)) == pytest.approx(1.0, rel=1e-12)
    assert body.support(np.eye(body.dim)) == pytest.approx(body.bounding_box())
    draws = body.sample(50_000, rng=2)
    assert stats.kstest(body.gauge(draws) ** body.dim, "uniform").pvalue > ALPHA
    cube, share = cube_rejection(body, 50_000, rng)
    assert least_p_value(draws, cube) > ALPHA
    assert share == pytest.approx(body.volume() / 4**body.dim, abs=SIGMAS * 0.5 / math.sqrt(60_000))
    error = np.std(draws**2, axis=0) / math.sqrt(len(draws))
    exact = np.diag(body.second_moment.value)
    assert (np.abs(np.mean(draws**2, axis=0) - exact) < SIGMAS * error).all()


# --- the moments and their bodies ---------------------------------------------------------------


def test_names_and_dimensions():
    assert MomentBody(1).names == ("x1", "2*x1^2", "y", "x1*y")
    assert MomentBody(2).names == ("x1", "x2", "2*x1^2", "2*x2^2", "x1*x2", "y", "x1*y", "x2*y")
    assert [MomentBody(p).dim for p in (1, 5, 12)] == [4, 26, 103]
    z = np.random.default_rng(3).uniform(-1, 1, (5, 4))
    values = {"x1": z[:, 0], "x2": z[:, 1], "x3": z[:, 2], "y": z[:, 3]}
    expected = [eval(name.replace("^", "**"), {}, values) for name in MomentBody(3).names]
    assert regression_moments(z[:, :3], z[:, 3]) == pytest.approx(np.array(expected).T)


@pytest.mark.parametrize("nodes", range(3, 9))
def test_matchings_cover_every_pair_once(nodes):
    rounds = MomentLayout(nodes - 2).matchings()
    pairs = [
        (int(i), int(j)) for first, second in rounds for i, j in zip(first, second, strict=True)
    ]
    assert sorted(pairs) == list(combinations(range(nodes), 2))
    assert all(len({*i, *j}) == 2 * len(i) for i, j in rounds)


def test_bad_arguments():
    with pytest.raises(ParameterError, match="kind"):
        MomentBody(2, kind="triangel")
    with pytest.raises(ParameterError, match="`p`"):
        MomentBody(0)
    with pytest.raises(DimensionError, match="`y`"):
        regression_moments([[0.0]], [0.0, 1.0])


def test_hopeless_draws_are_refused(monkeypatch):
    with pytest.raises(InfeasibleSamplingError, match="triangle"):
        MomentBody(11, kind="nuclear").sample(rng=0)
    monkeypatch.setattr(sampling, "_PILOT_SWEEPS", 4)
    with pytest.raises(InfeasibleSamplingError, match="cylinder"):
        MomentBody(12).sample(rng=0)


@pytest.mark.parametrize("p", range(1, 13))
def test_every_sensitivity_vector_is_inside(p):
    # A22's containment: 240,000 pairs in all; nuclear is the smallest kind, so it decides
    rng = np.random.default_rng(p)
    u = random_records(p, 20_000, rng) - random_records(p, 20_000, rng)
    gauges = [MomentBody(p, kind).gauge(u) for kind in KINDS]
    assert gauges[-1].max() <= 1 + 1e-12
    assert gauges[-1].max() > 0.99
    assert all((small >= large).all() for large, small in pairwise(gauges))


def test_containment_check_has_power():
    # a body with the parabola at 1.9 instead of 2 would leave vectors outside
    u = random_records(2, 20_000, np.random.default_rng(0)) - random_records(
        2, 20_000, np.random.default_rng(1)
    )
    u[:, 2:4] *= 2 / 1.9
    assert MomentBody(2).gauge(u).max() > 1.01


def test_hull_strictness_at_one_feature():
    # A23: in the true hull the gauge is 4/3; the triangle body reaches it, the cylinders do not
    u = [0.0, 2.0, 2.0, 2.0]
    gauges = [MomentBody(1, kind).gauge(u) for kind in KINDS]
    assert gauges == pytest.approx([1.0, 1.0, 4 / 3, 4 / 3], abs=1e-12)


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [1, 2, 4])
def test_gauge_is_the_definition(p, kind):
    body = MomentBody(p, kind)
    for x in np.random.default_rng(p).normal(size=(25, body.dim)):
        size = body.gauge(x)
        assert holds(x / size * (1 - 1e-9), p, kind)
        assert not holds(x / size * (1 + 1e-9), p, kind)
        assert body.gauge(-3 * x) == pytest.approx(3 * size, rel=1e-12)
    assert body.gauge(np.zeros(body.dim)) == 0.0


@pytest.mark.slow_for("3-nuclear", "2-triples", "2-nuclear")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [1, 2, 3])
def test_support_and_normals(p, kind):
    body = MomentBody(p, kind)
    rng = np.random.default_rng(p)
    x, c = rng.normal(size=(200, body.dim)), rng.normal(size=(3, body.dim))
    x[:, p : 2 * p] *= 2
    normals = body.normal(x)
    assert np.sum(normals * x, axis=1) == pytest.approx(body.gauge(x), rel=1e-10)
    assert body.support(normals[:3]) == pytest.approx(1.0, rel=1e-7)
    # a subgradient: gauge(z) >= normal . z everywhere
    z = rng.normal(size=(200, body.dim))
    assert (normals @ z.T <= body.gauge(z) * (1 + 1e-9)).all()
    reach, points = body.support(c), body.support_point(c)
    assert body.gauge(points) == pytest.approx(1.0, rel=1e-9)
    assert np.sum(points * c, axis=1) == pytest.approx(reach, rel=1e-9)
    if p < 3 and kind != "nuclear":
        cuts = support_by_cuts(c, body._gauge, body._normals)
        assert reach == pytest.approx(np.sum(c * cuts, axis=1), rel=1e-6)
    assert body.support(np.eye(body.dim)[:2]) == pytest.approx(2.0, rel=1e-7)
    assert body.bounding_box() == pytest.approx(2.0)
    assert body.support(np.zeros(body.dim)) == 0.0


# --- published numbers --------------------------------------------------------------------------


def within(value, error, published, published_error):
    return abs(value - published) < SIGMAS * math.hypot(error, published_error)


def test_cylinder_numbers_at_five_features():
    # A22, from 2a of the reference numbers: Var = (d+1)(d+2) E u^2 at epsilon = 1
    body = MomentBody(5, kind="cylinder")
    volume = body.volume_info
    share = math.exp(volume.log_value - 26 * math.log(4))
    assert within(share, share * volume.standard_error, 0.1461, 0.0004)
    squares = 27 * 28 * body.sample(200_000, rng=5) ** 2
    published = [
        (slice(0, 26), 856.6, 0.4),
        (slice(0, 5), 514.3, 0.6),
        (slice(5, 10), 953.4, 1.2),
        (slice(10, 20), 960.2, 0.8),
        (slice(20, 21), 611.8, 1.9),
        (slice(21, 26), 943.8, 1.2),
    ]
    for columns, value, error in published:
        mean = squares[:, columns].mean(axis=1)
        own = mean.std() / math.sqrt(len(mean))
        assert within(mean.mean(), own, value, error), columns
    assert 27 * 28 * np.diag(body.second_moment.value).mean() == pytest.approx(856.6, abs=4)
    off = body.second_moment.value - np.diag(np.diag(body.second_moment.value))
    assert not off.any()


@pytest.mark.slow
def test_triples_numbers_at_five_features():
    body = MomentBody(5, kind="triples")
    volume = body.volume_info
    share = math.exp(volume.log_value - 26 * math.log(4))
    assert within(share, share * volume.standard_error, 0.0226, 0.0002)
    mean = 27 * 28 * (body.sample(15_000, rng=6) ** 2).mean(axis=1)
    assert within(mean.mean(), mean.std() / math.sqrt(len(mean)), 697.6, 0.8)


@pytest.mark.slow
def test_triangle_needs_less_noise_at_five_features():
    length = {kind: (MomentBody(5, kind).sample(8_000, rng=7) ** 2).sum(axis=1) for kind in KINDS}
    mean = {kind: value.mean() for kind, value in length.items()}
    error = {kind: value.std() / math.sqrt(len(value)) for kind, value in length.items()}
    assert mean["triangle"] + SIGMAS * error["triangle"] < 0.75 * mean["cylinder"]
    assert mean["nuclear"] + SIGMAS * error["nuclear"] < 0.71 * mean["cylinder"]
    assert mean["nuclear"] < mean["triangle"] < mean["triples"] < mean["cylinder"]


@pytest.mark.slow_for("2-nuclear")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [1, 2])
def test_volume_against_the_cube(p, kind):
    body = MomentBody(p, kind)
    volume = body.volume_info
    assert volume.exact == (p == 1)
    share = body.contains(np.random.default_rng(8).uniform(-2, 2, (200_000, body.dim))).mean()
    error = math.sqrt((1 - share) / share / 200_000)
    difference = volume.log_value - math.log(share) - body.dim * math.log(4)
    assert abs(difference) < SIGMAS * math.hypot(error, volume.standard_error)


@pytest.mark.slow
def test_volume_by_stages_at_five_features():
    # one jump from the cylinder against the staged estimate
    body, cylinder = MomentBody(5), MomentBody(5, "cylinder")
    share = body.contains(cylinder.sample(200_000, rng=9)).mean()
    error = math.sqrt((1 - share) / share / 200_000)
    volume = body.volume_info
    difference = volume.log_value - cylinder.log_volume() - math.log(share)
    assert abs(difference) < SIGMAS * math.hypot(error, volume.standard_error)
    assert volume.standard_error < 0.05


# --- laws of the draws --------------------------------------------------------------------------


@pytest.mark.slow_for("5-nuclear", "5-triples")
@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("p", [1, 2, 5])
def test_radial_law(p, kind):
    body = MomentBody(p, kind)
    draws = body.sample(8_000, rng=10)
    assert stats.kstest(body.gauge(draws) ** body.dim, "uniform").pvalue > ALPHA
    # planted: the same draws shrunk by 3 percent
    shrunk = body.gauge(0.97 * draws) ** body.dim
    assert stats.kstest(shrunk, "uniform").pvalue < ALPHA


@pytest.mark.parametrize(("p", "size"), [(2, 20_000), (5, 20_000)])
def test_split_agrees_with_the_cube(p, size):
    body = MomentBody(p, "cylinder")
    cube, _ = cube_rejection(body, size, np.random.default_rng(11))
    split = body.sample(size, rng=12)
    assert least_p_value(split, cube) > ALPHA
    # planted: squares spread over the whole of [-2, 2], and the draws shrunk by 3 percent
    wrong = split.copy()
    wrong[:, p : 2 * p] = np.random.default_rng(13).uniform(-2, 2, (size, p))
    assert least_p_value(wrong, cube) < ALPHA
    assert least_p_value(0.97 * split, cube) < ALPHA


def test_split_mass_is_the_closed_form_at_one_feature():
    sampler = SplitSampler(MomentLayout(1))
    share, error = sampler.acceptance(200_000, SeededSource(14))
    mass = math.exp(sampler.log_envelope)
    assert abs(share * mass - 2.925) < SIGMAS * error * mass


def test_split_acceptance_at_thirty_features():
    share, error = SplitSampler(MomentLayout(30)).acceptance(40_000, SeededSource(15))
    assert share - SIGMAS * error > 0.80


@pytest.mark.slow_for("3-nuclear", "3-triples")
@pytest.mark.parametrize("kind", ["triples", "triangle", "nuclear"])
@pytest.mark.parametrize("p", [2, 3])
def test_coupling_agrees_with_rejection_from_the_cylinder(p, kind):
    body = MomentBody(p, kind)
    reference = rejection(MomentBody(p, "cylinder"), body, 20_000, 16)
    assert least_p_value(body.sample(20_000, rng=17), reference) > ALPHA


def test_relaxed_coupling_is_the_cylinder():
    relaxed = CoupledSampler(MomentLayout(4), FREE, FREE).sample(15_000, SeededSource(18))
    assert least_p_value(relaxed, MomentBody(4, "cylinder").sample(15_000, rng=19)) > ALPHA


def test_long_streams_of_few_chains_are_independent_draws(monkeypatch):
    monkeypatch.setattr(sampling, "_BATCH", 16)
    body = MomentBody(2)
    draws = body.sample(8_000, rng=20)
    monkeypatch.undo()
    assert least_p_value(draws, body.sample(8_000, rng=21)) > ALPHA
    length = (draws**2).sum(axis=1).reshape(16, 500)
    lagged = np.corrcoef(length[:, :-1].ravel(), length[:, 1:].ravel())[0, 1]
    assert abs(lagged) < SIGMAS / math.sqrt(8_000)


def _lengths(state, layout):
    i, j = np.array(layout.edges).T
    w, s = state
    return (w[i, j, 0] ** 2).sum(axis=0) + (s[:, 0] ** 2).sum(axis=0)


def test_a_chain_cut_short_is_caught():
    sampler, rng = CoupledSampler(MomentLayout(5)), SeededSource(22)
    exact = (sampler.sample(8_000, rng) ** 2).sum(axis=1)
    state = sampler._bounds(8_000, 1)
    state[0][:] = np.minimum(state[0], 0.0)
    state[1][:] = 0.0
    sampler.sweep(state, rng)
    assert stats.ks_2samp(_lengths(state, sampler.moments), exact).pvalue < ALPHA
    # and run long enough, the same forward chain does agree: the update is the right one
    for _ in range(30):
        sampler.sweep(state, rng)
    assert stats.ks_2samp(_lengths(state, sampler.moments), exact).pvalue > ALPHA


def test_a_coupling_cut_short_is_caught():
    # the bounds stopped after three sweeps whether or not they met, and the lower one returned
    sampler, rng = CoupledSampler(MomentLayout(5)), SeededSource(23)
    exact = (sampler.sample(8_000, rng) ** 2).sum(axis=1)
    state = sampler._bounds(8_000)
    for _ in range(3):
        sampler.sweep(state, rng)
    assert stats.ks_2samp(_lengths(state, sampler.moments), exact).pvalue < ALPHA


def test_bounds_enclose_the_state():
    sampler, rng = CoupledSampler(MomentLayout(6), 1.2, 1.1), SeededSource(24)
    w, s = sampler._bounds(200, 3)
    w[:, :, 1], s[:, 1] = np.minimum(w[:, :, 2], 0.0), 0.0
    for _ in range(20):
        sampler.sweep((w, s), rng)
        assert (np.diff(w, axis=2) >= 0).all()
        assert (np.diff(s, axis=1) >= 0).all()


def test_update_is_uniform_and_monotone():
    b = np.array([0.05, 0.5, 1.3, 2.0])
    bound = np.broadcast_to(b[::-1, None], (1, 4, 50_000))
    draws = sampling._settle(np.array(bound), SeededSource(25))[0]
    for value, width in zip(draws, b, strict=True):
        assert stats.kstest(value / width, "uniform").pvalue > ALPHA
    assert (np.diff(draws, axis=0) >= 0).all()
    # nearly maximal: f(1.3) = f(2) with probability 1.3 / 2 up to the records left out
    assert (draws[2] == draws[3]).mean() == pytest.approx(0.65, abs=0.02)


@pytest.mark.parametrize("kind", KINDS)
def test_shapes_and_seeds(kind):
    body = MomentBody(3, kind)
    assert body.sample(rng=1).shape == (body.dim,)
    assert body.sample(0, rng=1).shape == (0, body.dim)
    assert (body.sample(7, rng=1) == body.sample(7, rng=1)).all()
    assert body.contains(body.sample(300), tolerance=1e-12).all()


# --- the true hull -----------------------------------------------------------------------------


def test_hull_gauge_at_one_feature():
    # A23
    assert MomentHull(1).gauge([0.0, 2.0, 2.0, 2.0]) == pytest.approx(4 / 3, abs=1e-6)
    with pytest.raises(ParameterError, match="`p`"):
        MomentHull(4)


@pytest.mark.slow_for("3", "2")
@pytest.mark.parametrize("p", [1, 2, 3])
def test_hull_support_is_the_search_and_the_gauge_its_polar(p):
    hull, rng = MomentHull(p), np.random.default_rng(33)
    c = rng.normal(size=(4, hull.dim))
    z = np.linspace(-1, 1, {1: 2001, 2: 201, 3: 41}[p])
    grid = np.stack(np.meshgrid(*[z] * p, [-1.0, 1.0]), axis=-1).reshape(-1, p + 1)
    scores = regression_moments(grid[:, :-1], grid[:, -1]) @ c.T
    found = scores.max(axis=0) - scores.min(axis=0)
    # the grid is h wide, so it loses at most (h/2)^2 times a sum of second-order coefficients
    loss = 2 * (z[1] - z[0]) ** 2 / 4 * np.abs(2 * c).sum(axis=1)
    assert (hull.support(c) >= found - 1e-12).all()
    assert (hull.support(c) <= found + loss).all()
    assert hull.support(np.eye(hull.dim)) == pytest.approx(2.0)
    normals = hull.normal(c)
    assert np.sum(normals * c, axis=1) == pytest.approx(hull.gauge(c), rel=1e-6)
    assert hull.support(normals) == pytest.approx(1.0, rel=1e-9)
    assert (hull.gauge(c) >= MomentBody(p, "nuclear").gauge(c) * (1 - 1e-6)).all()
    u = random_records(p, 10, rng) - random_records(p, 10, rng)
    assert hull.gauge(u).max() <= 1 + 1e-6


@pytest.mark.slow
def test_hull_volume_and_draws_at_one_feature():
    hull = MomentHull(1)
    volume = hull.volume_info
    ratio = math.exp(volume.log_value) / 187.2
    assert within(ratio, ratio * volume.standard_error, 0.808, 0.004)
    draws = hull.sample(300, rng=34)
    radial = hull.gauge(draws) ** 4
    assert stats.kstest(radial, "uniform").pvalue > ALPHA
    assert stats.kstest(0.9**4 * radial, "uniform").pvalue < ALPHA


# --- long runs ----------------------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("p", "size"), [(8, 20_000), (12, 2_000)])
def test_split_agrees_with_the_cube_long(p, size):
    body = MomentBody(p, "cylinder")
    cube, _ = cube_rejection(body, size, np.random.default_rng(26))
    assert least_p_value(body.sample(20_000, rng=27), cube) > ALPHA


@pytest.mark.slow
def test_relaxed_coupling_is_the_cylinder_long():
    relaxed = CoupledSampler(MomentLayout(12), FREE, FREE).sample(20_000, SeededSource(28))
    assert (
        least_p_value(relaxed, SplitSampler(MomentLayout(12)).sample(20_000, SeededSource(29)))
        > ALPHA
    )


@pytest.mark.slow
@pytest.mark.parametrize("p", [4, 5])
def test_coupling_agrees_with_rejection_from_the_cylinder_long(p):
    body = MomentBody(p)
    reference = rejection(MomentBody(p, "cylinder"), body, 20_000, 30)
    assert least_p_value(body.sample(40_000, rng=31), reference) > ALPHA


@pytest.mark.slow
@pytest.mark.parametrize(("p", "size"), [(8, 10_000), (12, 1_500)])
def test_radial_law_long(p, size):
    body = MomentBody(p)
    draws = body.sample(size, rng=32)
    assert stats.kstest(body.gauge(draws) ** body.dim, "uniform").pvalue > ALPHA


@pytest.mark.slow
def test_hull_volume_at_two_features():
    hull, cylinder = MomentHull(2), MomentBody(2, "cylinder")
    volume = hull.volume_info
    ratio = math.exp(volume.log_value - cylinder.log_volume())
    assert within(ratio, ratio * volume.standard_error, 0.282, 0.013)
