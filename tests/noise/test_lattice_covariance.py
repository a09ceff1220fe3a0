"""Covariances of integer noise: closed forms and sums over levels against every lattice point."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.exact.lattice_bodies import DiamondBody, RoundBody
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.lattice_moments import SquareBody
from tightdp.noise import knorm
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import lattice_noise

BODIES = [
    (HistogramBody(2), 60),
    (HistogramBody(3), 40),
    (HistogramBody(4), 20),
    (DiamondBody(1), 60),
    (DiamondBody(3), 30),
    (BoxBody([1]), 60),
    (BoxBody([1, 2]), 80),
    (BoxBody([3, 2], 2), 80),  # sides that are not whole at every level
    (BoxBody([1, 1, 1]), 40),
    (RoundBody(1), 60),
    (RoundBody(2), 60),
    (RoundBody(3), 40),
]


def enumerated(body: LatticeBody, rate: float, reach: int) -> np.ndarray:
    """By the definition, over all points of a box outside of which less than 1e-8 lies."""
    free = body.dim - 1 if isinstance(body, HistogramBody) else body.dim
    z = np.array(list(itertools.product(range(-reach, reach + 1), repeat=free)))
    if free < body.dim:
        z = np.column_stack([z, -z.sum(axis=1)])
    weight = np.exp(-rate * body.level(z).astype(np.float64))
    return (z * weight[:, None]).T @ z / weight.sum()


@pytest.mark.parametrize(("body", "reach"), BODIES)
@pytest.mark.parametrize("rate", [1.5, 4.0])
def test_the_stated_covariance_is_that_of_the_points(body, reach, rate):
    exact = body.covariance(rate)
    np.testing.assert_allclose(exact, enumerated(body, rate, reach), rtol=1e-6, atol=1e-12)
    np.testing.assert_array_equal(exact, exact.T)


@pytest.mark.parametrize(
    ("bodies", "reach"),
    [
        ([HistogramBody(3), HistogramBody(2)], 16),
        ([HistogramBody(3), DiamondBody(1)], 16),
        ([DiamondBody(2), BoxBody([3], 2)], 26),
        ([BoxBody([2]), HistogramBody(2), DiamondBody(1)], 34),
    ],
)
@pytest.mark.parametrize("rate", [2.0, 5.0])
def test_products_state_that_of_their_points(bodies, reach, rate):
    body, parts = ProductBody(bodies), []
    free = sum(factor.rank for factor in bodies)
    points = np.array(list(itertools.product(range(-reach, reach + 1), repeat=free)))
    for factor in bodies:
        block, points = points[:, : factor.rank], points[:, factor.rank :]
        flat = factor.rank < factor.dim  # what the others leave is taken away from the last
        parts.append(np.column_stack([block, -block.sum(axis=1)]) if flat else block)
    z = np.hstack(parts)
    weight = np.exp(-rate * body.level(z).astype(np.float64))
    exact = (z * weight[:, None]).T @ z / weight.sum()
    np.testing.assert_allclose(body.covariance(rate), exact, rtol=1e-6, atol=1e-10)


@pytest.mark.parametrize("body", [HistogramBody(4), DiamondBody(3), BoxBody([3, 2], 2)])
def test_uniform_points_of_every_level(body):
    """And what is summed over levels is the closed form."""
    known, rate = body.uniform(200), 1.5
    for level in range(4):
        side = range(-2 * level - 1, 2 * level + 2)
        z = np.array(list(itertools.product(side, repeat=body.dim)))
        if isinstance(body, HistogramBody):
            z = z[z.sum(axis=1) == 0]
        z = z[body.level(z) <= level]
        assert math.exp(known.log_count[level]) == pytest.approx(len(z))
        np.testing.assert_allclose(known.variance[level], (z**2).mean(axis=0), atol=1e-12)
        shared = known.shared * known.variance[level][0]
        assert (z[:, 0] * z[:, 1]).mean() == pytest.approx(shared, abs=1e-12)
    one_factor = ProductBody([body]).covariance(rate)
    np.testing.assert_allclose(one_factor, body.covariance(rate), rtol=1e-9, atol=1e-15)


def test_the_continuous_law_would_be_caught():
    """It is what was stated for counts: a tenth too much at rate 1."""
    ball = knorm.covariance(tdp.HistogramBall(2), 1.0).value
    assert ball[0, 0] == pytest.approx(2.0)
    assert HistogramBody(2).covariance(1.0)[0, 0] == pytest.approx(1.84134719)
    assert not np.allclose(ball, enumerated(HistogramBody(2), 1.0, 60), rtol=0.05)


@pytest.mark.parametrize("cells", [2, 3, 7, 40, 1000])
def test_at_small_rates_histograms_have_the_continuous_law(cells):
    """A part of the order of the square of the rate remains."""
    rate = 1e-3
    found = HistogramBody(cells).covariance(rate)[0, 0] * rate**2
    limit = 4 * (cells - 1) * (2 * cells - 1) / (cells * (cells + 1))
    assert found == pytest.approx(limit, rel=rate**2)
    assert np.abs(HistogramBody(cells).covariance(1.0).sum(axis=1)).max() < 1e-9 * cells


def test_at_small_rates_boxes_are_left_to_the_continuous_law():
    assert BoxBody([1, 1]).covariance(1e-6) is None
    found = BoxBody([1, 1]).covariance(1e-3)
    assert found[0, 0] * 1e-6 == pytest.approx(4.0, rel=1e-3)  # 3 * 4 / 3


def test_large_rates_leave_no_noise_and_no_overflow():
    for body in (HistogramBody(3), DiamondBody(2), BoxBody([1, 2])):
        assert body.covariance(1000.0).max() < 1e-300
        assert np.isfinite(body.covariance(5000.0)).all()


@pytest.mark.parametrize("body", [HistogramBody(3), HistogramBody(6), DiamondBody(2), BoxBody([2])])
def test_the_sampler_has_the_stated_covariance(body, seed):
    noise = LatticeNoise(body, epsilon=1.0, sensitivity=1)
    z = np.asarray(noise.sample(20_000, rng=seed), dtype=np.float64)
    squares, stated = z**2, np.diag(noise.covariance())
    error = squares.std(axis=0) / math.sqrt(len(z))
    assert (np.abs(squares.mean(axis=0) - stated) < 5 * error).all()
    assert (np.abs(0.64 * squares.mean(axis=0) - stated) > 5 * error).all()  # a fifth less noise


def test_what_is_not_known_is_not_stated():
    assert SquareBody().covariance(1.0) is None
    assert ProductBody([SquareBody(), DiamondBody(1)]).covariance(1.0) is None
    assert LatticeNoise(DiamondBody(2), 1, 2, staircase=Fraction(1, 2)).covariance() is None
    assert LatticeNoise(DiamondBody(2), 61, 1).covariance() is None  # it would be nothing
    assert (np.diag(LatticeNoise(DiamondBody(2), 60, 1).covariance()) > 0).all()


@pytest.mark.parametrize(
    ("cells", "epsilon", "neighbors"),
    [(2, 1, "replace-one"), (5, 0.5, "replace-one"), (4, 2, "add-remove")],
)
def test_releases_of_counts_state_the_law_that_is_drawn(cells, epsilon, neighbors, seed):
    levels = [f"k{i}" for i in range(cells)]
    schema = tdp.Schema({"k": tdp.Category(levels, other="k0")}, rows=60, neighbors=neighbors)
    mechanism = tdp.AdditiveMechanism(tdp.Counts(schema), epsilon=epsilon)
    release = mechanism.release({"k": levels * (60 // cells)}, rng=seed)
    z = np.asarray(mechanism.noise.sample(20_000, rng=seed), dtype=np.float64)
    error = (z**2).std(axis=0) / math.sqrt(len(z))
    assert (np.abs((z**2).mean(axis=0) - release.noise_std**2) < 5 * error).all()


def test_fine_lattices_keep_the_continuous_law():
    noise = lattice_noise(tdp.LpBall(3, 1, 2.0), epsilon=1.0, resolution=1 << 16)
    exact = noise.covariance() / float(1 << 16) ** 2
    np.testing.assert_allclose(exact, np.eye(3) * 8, rtol=1e-8, atol=1e-12)


@pytest.mark.slow_for("1-*-l2")
@pytest.mark.parametrize("noise", ["l1", "l2", "linf", "hull", "best"])
@pytest.mark.parametrize("terms", [["k"], ["j", "k"], ["j:k", "k"]], ids=",".join)
@pytest.mark.parametrize("epsilon", [1, 4])
def test_previews_of_counts_state_the_law_that_is_drawn(noise, terms, epsilon, seed):
    """On the integers the continuous law is another: at epsilon 10 its l2 noise was 27 times it."""
    columns = {"j": tdp.Category(["u", "v"]), "k": tdp.Category(["a", "b", "c"])}
    statistic = tdp.Counts(tdp.Schema(columns, rows=60), terms)
    try:
        mechanism = tdp.AdditiveMechanism(statistic, noise=noise, epsilon=epsilon)
    except tdp.InfeasibleSamplingError:
        assert (noise, terms) == ("hull", ["j:k", "k"])
        return
    squares = np.asarray(mechanism.noise.sample(20_000, rng=seed), dtype=np.float64) ** 2
    error = 5 * squares.std(axis=0) / math.sqrt(len(squares))
    stated = mechanism.preview().std ** 2
    assert (np.abs(squares.mean(axis=0) - stated) < error).all()


@pytest.mark.parametrize("epsilon", [8, 10])
def test_l2_noise_on_counts_is_not_many_times_too_large(epsilon, seed):
    columns = {"k": tdp.Category(["a", "b", "c"])}
    counts = tdp.Counts(tdp.Schema(columns, rows=60))
    mechanism = tdp.AdditiveMechanism(counts, noise="l2", epsilon=epsilon)
    squares = np.asarray(mechanism.noise.sample(50_000, rng=seed), dtype=np.float64) ** 2
    stated = mechanism.preview().std ** 2
    error = 5 * squares.std(axis=0) / math.sqrt(len(squares))
    assert (np.abs(squares.mean(axis=0) - stated) < error).all()
    continuous = knorm.covariance(mechanism.ball, float(epsilon)).value
    assert (np.diag(continuous) > squares.mean(axis=0) + error).all()  # planted: what was stated
