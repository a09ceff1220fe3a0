"""Gaussian vectors on the lattice: the price of the lattice, the law, a cut sigma is caught."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

from tightdp.noise.gaussian_laws import gaussian_delta
from tightdp.noise.gaussian_vectors import GaussianVector


@pytest.mark.parametrize("epsilon", [0.01, 1.0, 8.0, 100.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.2])
def test_sigma_is_the_analytic_one_and_a_fifth_less_is_caught(epsilon, delta):
    noise = GaussianVector(epsilon=epsilon, delta=delta, square=Fraction(9), entries=50)
    sigma = float(noise.sigma)
    assert gaussian_delta(epsilon, 3 / sigma) <= delta
    if epsilon < 32:
        assert gaussian_delta(epsilon, 3 / (0.8 * sigma)) > delta
        assert gaussian_delta(epsilon, 3 / (0.999 * sigma)) > delta * 0.999


@pytest.mark.parametrize("sigma", [1.0, 2.5, 7.0])
def test_the_distance_to_rounded_gaussians(sigma):
    """Total variation between the discrete and the rounded law, against the proof's bound."""
    z = np.arange(-80, 81)
    discrete = np.exp(-(z**2) / (2 * sigma**2))
    discrete /= discrete.sum()
    rounded = np.diff(stats.norm.cdf(np.append(z - 0.5, z[-1] + 0.5), scale=sigma))
    distance = np.abs(discrete - rounded).sum() / 2
    assert 1 / (80 * sigma**2) < distance <= 1 / (8 * sigma**2)


def test_draws(seed):
    noise = GaussianVector(epsilon=1.0, delta=1e-5, square=Fraction(4), entries=3)
    draws = np.array(noise.sample(20_000, noise.resolution, rng=seed), dtype=float)
    draws /= noise.resolution * float(noise.sigma)
    assert stats.kstest(draws, "norm").pvalue > 1e-6
    assert stats.kstest(1.2 * draws, "norm").pvalue < 1e-6
    assert noise.sigma * noise.resolution >= 1 << 48
    inside = np.abs(draws).reshape(-1, 5).max(axis=1) * float(noise.sigma) <= noise.reach(0.9, 5)[0]
    assert abs(inside.mean() - 0.9) < 5 * math.sqrt(0.09 / len(inside))


@pytest.mark.parametrize(("epsilon", "delta"), [(1.0, 1e-30), (1000.0, 1e-15), (1e-6, 1e-60)])
def test_the_lattice_is_finer_for_tiny_deltas(epsilon, delta):
    noise = GaussianVector(epsilon=epsilon, delta=delta, square=Fraction(1), entries=100)
    points = float(noise.sigma) * noise.resolution  # in a sigma
    lost = (1 + math.exp(min(epsilon, 32.0))) * 100 / (8 * points**2)
    assert gaussian_delta(epsilon, 1 / float(noise.sigma)) + lost <= delta
    assert lost > 0
    assert len(noise.sample(3, noise.resolution, rng=1)) == 3
