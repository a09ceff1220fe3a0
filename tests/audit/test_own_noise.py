"""The package's own lattice noise, audited: exactly where it can be, and from its draws."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

import tightdp as tdp
from tightdp.audit import audit, audit_exact
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import lattice_noise
from tightdp.randomness import source

BALLS = {
    "l1": tdp.LpBall(2, 1),
    "l2": tdp.LpBall(2, 2),
    "linf": tdp.LpBall(3, np.inf),
    "box": tdp.LpBall(2, np.inf, [1.0, 2.0]),
    "K2": tdp.K2(),
    "K3": tdp.K3(),
    "polytope": tdp.Polytope.from_vertices([[2, 1], [-2, -1], [0, 1], [0, -1]]),
}


def moves(noise, reach):
    """The integer vectors that one record may cause, up to a size."""
    around = np.array(list(itertools.product(range(-reach, reach + 1), repeat=noise.dim)))
    return around[noise.body.level(around) <= noise.sensitivity]


@pytest.mark.slow_for("K3-*")
@pytest.mark.parametrize("staircase", [None, 0.3])
@pytest.mark.parametrize("name", BALLS)
def test_every_body_holds_its_epsilon_exactly(name, staircase):
    noise = lattice_noise(BALLS[name], epsilon=0.75, resolution=3, staircase=staircase)
    shifts = moves(noise, 7)
    report = audit_exact(noise.exponent, shifts, 12, epsilon=noise.epsilon, rate=noise.unit)
    assert report.verdict == "holds"
    assert report.checked >= 5_000


@pytest.mark.parametrize("name", ["l1", "l2", "linf", "K2", "K3"])
def test_a_sensitivity_too_small_by_one_is_caught(name):
    noise = lattice_noise(BALLS[name], epsilon=0.75, resolution=3)
    planted = LatticeNoise(noise.body, noise.epsilon, noise.sensitivity - 1)
    shifts = moves(noise, 7)
    assert audit_exact(
        planted.exponent, shifts, 12, epsilon=planted.epsilon, rate=planted.unit
    ).violated


@pytest.mark.parametrize("name", ["l1", "linf", "K3"])
def test_draws_hold_and_smaller_ones_do_not(name, seed):
    ball, rng, points = BALLS[name], source(seed), 1 << 10
    vertex = (ball.vertices()[0] * points).astype(np.int64)
    inputs = [np.zeros(ball.dim, dtype=np.int64), vertex]
    for claimed, caught in ((1.0, False), (0.7, True)):  # noise for epsilon = 1
        noise = lattice_noise(ball, 1.0, resolution=points)
        report = audit(
            lambda x, size, noise=noise: x + noise.sample(size, rng=rng),
            *inputs,
            epsilon=claimed,
            alpha=1e-6,
            ball=ball.scaled(points),
            centers=inputs,
            releases=20_000,
            rng=rng,
        )
        assert report.violated == caught


def test_low_bits_of_lattice_noise_say_nothing(seed):
    rng, noise = source(seed), lattice_noise(tdp.K3(), 1.0)
    inputs = [np.zeros(3, dtype=np.int64), np.array([2, 2, 0]) << 20]
    report = audit(
        lambda x, size: x + noise.sample(size, rng=rng),
        *inputs,
        epsilon=1.0,
        alpha=1e-6,
        events=["low bits"],
        rng=rng,
    )
    assert report.epsilon_lower < 0.05
