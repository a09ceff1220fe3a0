"""Uniform lattice points: every point of a box or simplex is equally likely, at any size."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy.stats import chisquare

from tightdp.errors import ParameterError
from tightdp.exact.lattice_body import box_points
from tightdp.exact.uniform_points import simplex_points
from tightdp.randomness import SeededSource, source

LEVEL = 1e-6


def uniform_p(points, count):
    _, seen = np.unique(np.asarray(points, dtype=np.int64), axis=0, return_counts=True)
    assert seen.size == count  # every point is met, and no other
    return chisquare(seen).pvalue


@pytest.mark.parametrize(("total", "dim"), [(4, 3), (7, 2), (2, 5), (0, 3), (3, 1)])
@pytest.mark.parametrize("at_most", [False, True])
def test_simplex_points_are_uniform(total, dim, at_most, seed):
    parts = dim + at_most
    count = math.comb(total + parts - 1, parts - 1)
    rows = simplex_points(np.full(100_000, total), dim, SeededSource(seed), at_most=at_most)
    sums = rows.sum(axis=1)
    assert rows.min() >= 0
    assert (sums <= total).all() if at_most else (sums == total).all()
    if count > 1:
        assert uniform_p(rows, count) > LEVEL


def test_a_simplex_by_normalised_draws_is_refused(seed):
    """Independent uniform coordinates with the last as the rest: a common wrong sampler."""
    rng = SeededSource(seed)
    first = rng.integers(5, 100_000)
    second = rng.integers_below(5 - first)
    assert uniform_p(np.stack([first, second], axis=1), 15) < LEVEL


def test_simplices_of_any_size():
    big = 10**40
    for at_most in (False, True):
        point = simplex_points([big], 5, SeededSource(1), at_most=at_most)[0].tolist()
        assert len(point) == 5
        assert min(point) >= 0
        assert sum(point) < big if at_most else sum(point) == big
    rows = simplex_points([3, 1 << 61, 10**30], 3, SeededSource(1))
    assert rows.dtype == object
    assert [sum(row) for row in rows.tolist()] == [3, 1 << 61, 10**30]


def test_box_points_are_uniform(seed):
    rng = SeededSource(seed)
    rows = box_points(np.tile([-1, 0, 5], (60_000, 1)), np.tile([1, 4, 5], (60_000, 1)), rng)
    assert uniform_p(rows, 15) > LEVEL
    wide = box_points([-(10**30)], [10**30], rng)
    assert abs(wide[0]) <= 10**30


def test_an_empty_box_is_refused():
    for call in (
        lambda: box_points([1], [0], source(1)),
        lambda: box_points([1.5], [2], source(1)),
        lambda: simplex_points([-1], 2, source(1)),
    ):
        with pytest.raises(ParameterError):
            call()
