"""The l2 mechanism at delta > 0: its curve, its integers, and the best of all noises."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from scipy import special, stats

import tightdp as tdp
from tightdp.errors import ParameterError, UncoveredMoveError
from tightdp.noise.l2_curve import l2_delta, l2_scale
from tightdp.plans import request
from tightdp.shaping.ball_noise import BallNoise
from tightdp.shaping.coordinate_noise import CoordinateNoise
from tightdp.shaping.gaussian_noise import GaussianNoise
from tightdp.shaping.l2_moves import L2Moves
from tightdp.shaping.l2_noise import L2Noise, one_entry_reach

LEVEL = 1e-6


def facts(bits: int = 16, relation: str = "replace-one") -> tdp.Schema:
    columns = {
        **{f"x{i}": tdp.Interval(0, 1) for i in range(100)},
        "k": tdp.Category(list("abc"), other="a"),
        "t": tdp.Category(["no", "yes"], other="no"),
    }
    return tdp.Schema(columns, 100, bits=bits, neighbors=relation)


def sums(count: int, bits: int = 16) -> tdp.Sums:
    return tdp.Sums(facts(bits), [f"x{i}" for i in range(count)])


# --- the curve ------------------------------------------------------------------------------------


def brute_delta(dim: int, epsilon: float, scale: float) -> float:
    """E (1 - exp(epsilon - loss))_+ by a fine grid of lengths and cosines, with no trick at all."""
    r = (np.arange(20_000) + 0.5) / 20_000 * (dim + 40 + 8 * math.sqrt(dim))
    mass = stats.gamma.pdf(r, dim) * (r[1] - r[0])
    angle = (np.arange(1_500) + 0.5) / 1_500 * math.pi
    weight = np.sin(angle) ** (dim - 2)
    weight /= weight.sum()
    total = 0.0
    for cosine, w in zip(np.cos(angle), weight, strict=True):
        if w > 1e-18:
            v = r * scale
            loss = (np.sqrt(v * v - 2 * v * cosine + 1) - v) / scale
            total += w * float(mass @ -np.expm1(np.minimum(epsilon - loss, 0.0)))
    return total


@pytest.mark.parametrize(
    ("dim", "epsilon", "scale"),
    [(2, 1.0, 0.5), (3, 0.5, 1.6), (5, 1.0, 0.8), (10, 1.0, 0.9), (20, 2.0, 0.35)],
)
def test_the_curve_is_the_divergence(dim, epsilon, scale):
    brute = brute_delta(dim, epsilon, scale)
    found = l2_delta(dim, epsilon, scale)
    assert found == pytest.approx(brute, rel=3e-4)
    assert l2_delta(dim, epsilon, 0.8 * scale) > 1.5 * brute  # planted: a fifth less noise


def test_the_curve_of_one_number_is_that_of_laplace_noise():
    for scale in (0.3, 0.9):
        law = tdp.Laplace(epsilon=1 / scale)
        assert l2_delta(1, 1.0, scale) == pytest.approx(law.delta(1.0, 1.0), rel=1e-9)


@pytest.mark.parametrize("dim", [2, 3, 4, 7, 30, 300])
def test_the_curve_falls_and_ends_at_pure_privacy(dim):
    scales = np.geomspace(0.05, 0.999, 25)
    losses = [l2_delta(dim, 1.0, float(s)) for s in scales]
    assert all(a >= b * (1 - 1e-9) for a, b in pairwise(losses))
    assert l2_delta(dim, 1.0, 1.0 + 1e-9) == 0.0
    assert l2_delta(dim, 0.9, 0.5) >= l2_delta(dim, 1.0, 0.5) >= l2_delta(dim, 1.1, 0.5)


def test_variances_over_the_analytic_gaussian():
    """The figures of the literature at (1, 1e-6), here with a certified delta."""
    sigma = tdp.AnalyticGaussian(epsilon=1, delta=1e-6).sigma
    for dim, ratio in {2: 0.17, 5: 0.33, 10: 0.52, 20: 0.70, 50: 0.86}.items():
        scale = l2_scale(dim, 1.0, 1e-6)
        assert l2_delta(dim, 1.0, scale) <= 1e-6
        assert (dim + 1) * scale**2 / sigma**2 == pytest.approx(ratio, abs=0.005)


@pytest.mark.parametrize(
    ("dim", "epsilon", "delta"), [(3, 1.0, 1e-60), (2, 1e-9, 1e-6), (9, 40.0, 1e-3), (4, 1.0, 0.9)]
)
def test_scales_at_the_ends_of_budgets(dim, epsilon, delta):
    scale = l2_scale(dim, epsilon, delta)
    assert l2_delta(dim, epsilon, scale) <= delta
    assert 0 < scale <= (1 + 1e-9) / epsilon


# --- integers -------------------------------------------------------------------------------------


def test_the_loss_of_the_lattice_law_is_at_most_delta():
    """The exact law on a coarse lattice in the plane: every point, both directions, a planted cut.

    On a lattice so coarse that its price is seen, the bound e^kappa delta(epsilon - 2 kappa) holds
    and is not far.
    """
    rate, square, epsilon = Fraction(1, 40), 2178, 1.0
    z = np.arange(-800, 801)
    level = np.ceil(np.sqrt((z[:, None] ** 2 + z[None, :] ** 2).astype(float)))
    mass = np.exp(-float(rate) * level)
    mass /= mass.sum()
    moves = [(46, 7), (33, 33), (-7, 46), (0, 46), (20, 20)]
    assert all(x * x + y * y <= square for x, y in moves)
    worst = 0.0
    for x, y in moves:
        moved = np.roll(mass, (x, y), (0, 1))
        worst = max(worst, float(np.maximum(mass - math.exp(epsilon) * moved, 0).sum()))
        worst = max(worst, float(np.maximum(moved - math.exp(epsilon) * mass, 0).sum()))
    price = float(rate) * (1 + math.sqrt(2))
    scale = 1 / (float(rate) * math.sqrt(square))
    bound = math.exp(price) * l2_delta(2, epsilon - 2 * price, scale)
    assert worst <= bound
    assert worst > 0.9 * l2_delta(2, epsilon, scale)
    cut = math.exp(price) * l2_delta(2, epsilon - 2 * price, 1.25 * scale)
    assert worst > cut  # planted: what noise that is a quarter wider would promise


@pytest.mark.parametrize("statistic", [lambda: sums(10), lambda: tdp.Counts(facts(), ["k", "t"])])
def test_the_stated_rate_keeps_delta(statistic):
    noise = L2Noise(statistic(), 1, 1e-6)
    dim, rate = len(noise.roots), float(noise.rate)
    price = rate * (1 + math.sqrt(dim))
    scale = 1 / (rate * math.sqrt(noise.moves.square))
    assert math.exp(price) * l2_delta(dim, 1 - 2 * price, scale) <= 1e-6
    assert l2_delta(dim, 1.0, 0.999 * scale) > 1e-6  # and nothing is given away
    assert all(root % 2 for root in noise.roots)


def radial_p_value(noise: L2Noise, draws: Any) -> float:
    """Chi-square of lengths, which the law alone decides: Gamma(m) where the lattice is fine."""
    length = np.linalg.norm(draws.astype(float) * np.array(noise.roots), axis=1) * float(noise.rate)
    edges = special.gammaincinv(len(noise.roots), np.arange(1, 24) / 24)
    seen = np.bincount(np.searchsorted(edges, length), minlength=24)
    return float(stats.chisquare(seen).pvalue)


def test_draws_have_the_law(seed):
    """4,000 draws of ten sums: lengths, directions without a preference; a planted cut of 5 %."""
    noise = L2Noise(sums(10), 1, 1e-6)
    draws = np.asarray(noise.sample(4_000, rng=seed))
    assert radial_p_value(noise, draws) > LEVEL
    assert radial_p_value(noise, 0.95 * draws) < LEVEL
    scaled = draws / noise.resolution
    spread = np.sqrt(np.diag(noise.covariance()))
    np.testing.assert_allclose(scaled.std(axis=0), spread, rtol=5 * 0.75 / math.sqrt(4_000))
    cosines = draws / np.linalg.norm(draws.astype(float), axis=1, keepdims=True)
    for column in cosines.T:
        assert stats.kstest(column**2, stats.beta(0.5, 4.5).cdf).pvalue > LEVEL
    off = np.corrcoef(draws.T.astype(float)) - np.eye(10)
    assert np.abs(off).max() < 5.5 / math.sqrt(4_000)


def test_rounded_draws_have_the_law(seed):
    """Counts: integers whose law is that of the continuous noise, rounded, for fine lattices."""
    noise = L2Noise(tdp.Counts(facts(), ["k", "t"]), 1, 1e-6)
    draws = np.asarray(noise.sample(20_000, rng=seed))
    assert draws.dtype == np.int64
    spread = np.sqrt(np.diag(noise.covariance()))
    np.testing.assert_allclose(draws.std(axis=0), spread, rtol=5 / math.sqrt(20_000))
    assert np.abs(draws.mean(axis=0) / spread).max() < 5 / math.sqrt(20_000)


@pytest.mark.parametrize("dim", [1, 2, 10, 60])
def test_the_reach_of_one_entry(dim, seed):
    rng = np.random.default_rng(seed)
    direction = rng.normal(size=(200_000, dim))
    direction /= np.linalg.norm(direction, axis=1, keepdims=True)
    size = np.abs(direction[:, 0]) * rng.gamma(dim, size=len(direction))
    for miss in (0.1, 1e-3):
        beyond = float((size > one_entry_reach(dim, miss)).mean())
        error = 5 * math.sqrt(miss / len(size))
        assert miss * 0.97 - error <= beyond <= miss + error


@pytest.mark.parametrize("statistic", [lambda: sums(8), lambda: tdp.Counts(facts(), ["k", "t"])])
def test_intervals_hold(statistic, seed):
    noise = L2Noise(statistic(), 1, 1e-6)
    draws = np.asarray(noise.sample(6_000, rng=seed), dtype=float) / noise.resolution
    linear = np.vstack([np.eye(len(noise.roots)), np.ones(len(noise.roots))])
    half = noise.reach(linear, 0.9)
    error = 5 * 0.3 / math.sqrt(len(draws))
    assert (np.abs(draws @ linear.T) <= half).all(axis=1).mean() > 0.9 - error
    assert (np.abs(draws @ linear.T) <= 0.7 * half).all(axis=1).mean() < 0.9  # planted


# --- covers, and refusals -------------------------------------------------------------------------


@pytest.mark.parametrize("share", [0.9, 0.64])
def test_a_shorter_length_is_refused(share, monkeypatch):
    """Planted: the square of the longest move, cut."""
    measured = L2Moves.of.__func__

    def cut(cls: Any, *given: Any) -> L2Moves:
        found = measured(cls, *given)
        return L2Moves(found.statistic, found.bits, found.weights, int(found.square * share))

    monkeypatch.setattr(L2Moves, "of", classmethod(cut))
    for noise in ("l2", "gaussian", "discrete-gaussian"):
        with pytest.raises(UncoveredMoveError):
            tdp.AdditiveMechanism(sums(3), noise=noise, epsilon=1, delta=1e-6)


def test_a_shape_without_use_for_a_delta_says_so():
    with pytest.raises(ParameterError, match="`delta` must be 0 for noise shaped like this ball"):
        tdp.AdditiveMechanism(sums(3), noise="linf", epsilon=1, delta=1e-6)


# --- the best -------------------------------------------------------------------------------------


def total(mechanism: Any) -> float:
    return float(np.trace(mechanism._choice.covariance()))


@pytest.mark.parametrize("count", [1, 2, 5, 20, 50])
def test_the_best_is_the_least_of_all(count):
    statistic, budget = sums(count), {"epsilon": 1, "delta": 1e-6}
    best = tdp.AdditiveMechanism(statistic, noise="best", **budget)
    pure = [
        tdp.AdditiveMechanism(statistic, noise=name, epsilon=1) for name in ("hull", "l1", "l2")
    ]
    spending = [
        tdp.AdditiveMechanism(statistic, noise=name, **budget) for name in ("gaussian", "l2")
    ]
    assert total(best) <= min(map(total, [*pure, *spending])) * (1 + 1e-5)
    sigma = tdp.AnalyticGaussian(**budget, sensitivity=2 * math.sqrt(count)).sigma
    round_one = (count + 1) * l2_scale(count, 1.0, 1e-6) ** 2 * 4 * count
    limits = [total(pure[0]), count * sigma**2, count * round_one]
    assert total(best) <= min(limits) * 1.0005
    assert best.delta == (0 if count < 50 else Fraction(1, 10**6))


def test_kinds_of_noise_that_are_the_best():
    """Every kind wins somewhere: they are worth having."""
    found = {
        type(tdp.AdditiveMechanism(sums(n), noise="best", epsilon=1, delta=d)._choice)
        for n, d in ((1, 1e-2), (2, 1e-6), (60, 1e-6), (60, 1e-1))
    }
    assert found == {
        CoordinateNoise,
        BallNoise,
        L2Noise,
        GaussianNoise,
    }


def test_comparisons_show_noise_with_and_without_delta():
    asked = request("sum", facts(), epsilon=1, delta=1e-6, columns=["x0", "x1", "x2"])
    names = ["hull", "l1", "l2", "gaussian", "discrete-gaussian"]
    found = tdp.compare_noise(asked, noises=names)
    assert set(names) <= set(found.previews)
    assert found.previews["hull"].guarantee.delta == 0
    assert found.previews["gaussian"].guarantee.delta == 1e-6
    assert found.relative("hull") == found.relative("best") == 1
    assert found.relative("l2") < found.relative("gaussian")


def test_comparisons_are_complete_where_the_best_noise_spends_no_delta():
    """The choice then has delta = 0, and the mechanism was given one all the same."""
    sums = tdp.Sums(facts(), ["x0", "x1"])
    mechanism = tdp.AdditiveMechanism(sums, noise="best", epsilon=1, delta=1e-6)
    assert mechanism.delta == 0
    found = tdp.compare_noise(mechanism)
    assert not found.refused
    assert {"hull", "laplace", "gaussian", "l2"} <= set(found.previews)
    assert found.previews["gaussian"].guarantee.delta == 1e-6
