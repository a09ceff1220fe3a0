"""The body of one record: the hull and nothing but the hull, its sampler, its moments."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.optimize import linprog

from tightdp.exact.lattice_moments import RecordBody
from tightdp.noise.lattice import LatticeNoise


def images(columns: int, cells: int) -> np.ndarray:
    """psi of all rows whose columns lie on a grid of so many cells."""
    x = np.linspace(-1, 1, cells)
    rows = np.array(list(itertools.product(x, repeat=columns)))
    pairs = np.stack([rows, 2 * rows**2 - 1], axis=2).reshape(len(rows), -1)
    return np.hstack([np.ones((len(rows), 1)), pairs])


def gauge_in_hull(z: np.ndarray, points: np.ndarray) -> float:
    """The least l with z in l conv(+-points), by a linear program."""
    both = np.vstack([points, -points])
    return float(linprog(np.ones(len(both)), A_eq=both.T, b_eq=z, bounds=(0, None)).fun)


@pytest.mark.parametrize("columns", [1, 2])
def test_levels_are_gauges_of_the_hull(columns, seed):
    """Against linear programs over a fine grid of rows, which lie inside the hull."""
    points = images(columns, 65 if columns == 1 else 17)
    body = RecordBody(columns)
    z = np.random.default_rng(seed).integers(-4000, 4000, size=(40, body.dim))
    level = body.level(z)
    gauges = np.array([gauge_in_hull(v.astype(float), points) for v in z])
    assert (level <= np.ceil(gauges * (1 + 1e-9))).all()  # rows of the grid are rows
    assert (level >= gauges * (1 - 0.02)).all()  # and a finer grid changes little


@pytest.mark.parametrize("columns", [1, 2, 3])
def test_every_record_has_level_one_and_the_box_is_not_needed(columns):
    body, unit = RecordBody(columns), 1 << 10
    x = np.array([-32, -17, 0, 5, 32])  # on a grid of 1/32, so that squares are on that of 1/1024
    rows = np.array(list(itertools.product(x, repeat=columns)))
    pairs = np.stack([rows * 32, 2 * rows**2 - unit], axis=2).reshape(len(rows), -1)
    psi = np.hstack([np.full((len(rows), 1), unit), pairs])
    assert (body.level(psi) == unit).all()
    assert (body.level(-psi) == unit).all()
    changes = (psi[:, None] - psi[None]).reshape(-1, body.dim)
    assert int(body.level(changes).max()) == 2 * unit
    corner = np.array([[unit, *[unit, -unit] * columns]])
    assert int(body.level(corner)[0]) > unit  # in the box around the hull, not in the hull


def test_membership_is_the_level(seed):
    body = RecordBody(2)
    rng = np.random.default_rng(seed)
    z = rng.integers(-60, 61, size=(20_000, 5))
    levels = rng.integers(np.abs(z).max(axis=1), 90)
    np.testing.assert_array_equal(body.inside(z, levels), body.level(z) <= levels)
    assert 0.1 < body.inside(z, levels).mean() < 0.9


def test_draws_of_two_columns_follow_the_enumerated_law(seed):
    body = RecordBody(2)
    noise = LatticeNoise(body, Fraction(3, 2), 1)
    grid = np.array(list(itertools.product(range(-3, 4), repeat=5)))
    grid = grid[body.level(grid) <= 3]
    weights = np.exp(-1.5 * body.level(grid).astype(float))
    draws = noise.sample(60_000, rng=seed)
    inside = draws[body.level(draws) <= 3]

    def p_value(expected_weights: np.ndarray) -> float:
        seen = np.zeros(len(grid))
        place = {tuple(point): i for i, point in enumerate(grid.tolist())}
        for point in inside.tolist():
            seen[place[tuple(point)]] += 1
        expected = expected_weights / expected_weights.sum() * len(inside)
        common = expected >= 8
        o, e = seen[common], expected[common]
        o, e = np.append(o, seen[~common].sum()), np.append(e, expected[~common].sum())
        return float(stats.chi2.sf(((o - e) ** 2 / e).sum(), len(o) - 1))

    assert p_value(weights) > 1e-6
    assert p_value(weights**1.2) < 1e-6  # the law of noise that is a fifth too small


@pytest.mark.parametrize("columns", [1, 2, 4])
def test_share_and_second_moments(columns, seed):
    """Against uniform points of the box, tested by the body itself."""
    body, unit = RecordBody(columns), 1 << 20
    rng = np.random.default_rng(seed)
    z = rng.integers(-unit, unit + 1, size=(200_000, body.dim))
    kept = z[body.inside(z, np.full(len(z), unit))] / unit
    share = len(kept) / len(z)
    assert abs(share - body.share) < 5 * np.sqrt(share / len(z))
    found = kept.T @ kept / len(kept)
    assert np.abs(found - body.second_moment).max() < 5 * 0.5 / np.sqrt(len(kept))
    assert body.second_moment[0, 2] == pytest.approx(body.second_moment[2, 0])
