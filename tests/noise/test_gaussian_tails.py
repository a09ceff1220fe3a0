"""Reach of sums of discrete Gaussians: never missed more often than said, by exact enumeration."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tightdp.noise.gaussian_tails import sure_multiple


def law(variance: float) -> tuple[np.ndarray, np.ndarray]:
    reach = math.ceil(14 * math.sqrt(variance) + 3)
    z = np.arange(-reach, reach + 1)
    weight = np.exp(-(z**2) / (2 * variance))
    return z.astype(float), weight / weight.sum()


def missed(variances: list[float], factors: list[float], multiple: float) -> float:
    """P(|T| > multiple sqrt(V)) of a sum with these factors, on all points."""
    points, chances = np.zeros(1), np.ones(1)
    for variance, factor in zip(variances, factors, strict=True):
        z, p = law(variance)
        points = np.round((points[:, None] + factor * z[None, :]).ravel(), 9)
        points, place = np.unique(points, return_inverse=True)
        chances = np.bincount(place, (chances[:, None] * p[None, :]).ravel())
    size = multiple * math.sqrt(np.dot(variances, np.square(factors)))
    return float(chances[np.abs(points) > size].sum())


CASES = [
    ([0.05], [1.0]),
    ([0.4, 0.4], [1.0, 1.0]),
    ([1.0], [1.0]),
    ([2.5, 4.0], [1.0, 0.5]),
    ([16.0], [1.0]),
    ([16.0, 16.0], [1.0, -1.0]),
    ([20.0, 5.0, 5.0], [1.0, 0.5, 0.25]),
    ([100.0], [1.0]),
    ([400.0], [0.1]),
]


@pytest.mark.parametrize(("variances", "factors"), CASES)
@pytest.mark.parametrize("miss", [0.3, 0.05, 0.01, 1e-4, 1e-8])
def test_sums_are_missed_no_more_often_than_said(variances, factors, miss):
    multiple = sure_multiple(min(variances), len(variances), miss)
    assert missed(variances, factors, multiple) <= miss * (1 + 1e-9)


def test_a_normal_quantile_alone_misses_more():
    """Planted: what a normal law would say is too short on a coarse lattice."""
    found = [missed([v], [1.0], 1.959963985) for v in np.linspace(0.3, 6, 40)]
    assert max(found) > 0.06


def test_fine_lattices_reach_as_far_as_a_normal_law():
    assert sure_multiple(2.0**80, 10**6, 0.05) == pytest.approx(1.959963985, rel=1e-6)
    assert sure_multiple(1e-30, 10, 0.05) == pytest.approx(math.sqrt(2 * math.log(40)))
