"""The body of replacing a record that may be left out is the hull of these moves."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from scipy.optimize import linprog
from scipy.spatial import ConvexHull

from tightdp.exact.lattice_body import BoxBody
from tightdp.exact.lattice_moments import RecordBody
from tightdp.exact.lattice_optional import OptionalRecordBody

UNIT = 1 << 10


def records(columns: int, squares: bool) -> np.ndarray:
    """What records add, their cells on a grid of 1/32, so that squares are on that of 1/1024."""
    x = np.arange(-32, 33, 4 if squares else 64)
    rows = np.array(list(itertools.product(x, repeat=columns)))
    parts = [rows * 32]
    if squares:
        parts.append(2 * rows**2 - UNIT)
    cells = np.stack(parts, axis=2).reshape(len(rows), -1)
    return np.hstack([np.full((len(rows), 1), UNIT), cells])


def moves(columns: int, squares: bool) -> np.ndarray:
    """A record becomes another one, comes, or goes."""
    points = records(columns, squares)
    both = (points[:, None] - points[None]).reshape(-1, points.shape[1])
    return np.vstack([both, points, -points])


def body(columns: int, squares: bool) -> OptionalRecordBody:
    return OptionalRecordBody(RecordBody(columns) if squares else BoxBody([1] * (columns + 1)))


SHAPES = [(1, False), (2, False), (3, False), (1, True), (2, True)]


@pytest.mark.parametrize(("columns", "squares"), SHAPES)
def test_every_move_is_inside_and_some_reach_the_surface(columns, squares):
    level = body(columns, squares).level(moves(columns, squares))
    assert int(level.max()) == UNIT


@pytest.mark.slow_for("2-True")
@pytest.mark.parametrize(("columns", "squares"), SHAPES)
def test_levels_are_gauges_of_the_hull(columns, squares, seed):
    """Against linear programs over moves of a fine grid, which lie inside the hull."""
    points = np.unique(moves(columns, squares), axis=0)
    z = np.random.default_rng(seed).integers(-4000, 4000, size=(25, points.shape[1]))
    level = body(columns, squares).level(z)
    for v, found in zip(z, level, strict=True):
        gauge = linprog(np.ones(len(points)), A_eq=points.T / UNIT, b_eq=v, bounds=(0, None)).fun
        assert found <= np.ceil(gauge * (1 + 1e-9))
        assert found >= gauge * (1 - 0.03 * squares) * (1 - 1e-9)


@pytest.mark.parametrize("columns", [1, 2, 3, 4])
def test_the_volume_is_that_of_the_hull(columns):
    hull = ConvexHull(moves(columns, False) / UNIT)
    box = 2 * 4.0**columns
    assert body(columns, False).share == pytest.approx(hull.volume / box, rel=1e-9)


@pytest.mark.parametrize(("columns", "squares"), SHAPES)
def test_membership_share_and_second_moments(columns, squares, seed):
    """Against uniform points of the box, tested by the body itself."""
    shape, unit = body(columns, squares), 1 << 16
    rng = np.random.default_rng(seed)
    sides = np.array([unit, *[2 * unit] * (shape.dim - 1)])
    z = rng.integers(-sides, sides + 1, size=(100_000, shape.dim))
    fits = shape.inside(z, np.full(len(z), unit))
    np.testing.assert_array_equal(fits, shape.level(z) <= unit)
    kept, share = z[fits] / unit, float(fits.mean())
    assert abs(share - shape.share) < 5 * np.sqrt(share / len(z))
    found = kept.T @ kept / len(kept)
    assert np.abs(found - shape.second_moment).max() < 5 * 2 / np.sqrt(len(kept))


def test_a_smaller_body_is_caught():
    """Half of the moves: the body of adding or removing a record does not hold replacing one."""
    level = RecordBody(1).level(moves(1, True))
    assert int(level.max()) == 2 * UNIT
