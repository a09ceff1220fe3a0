"""Polytopes and combinations: descriptions, exact values in small cases, refusals."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightdp as tdp
from tightdp.errors import (
    DegenerateBodyError,
    DimensionError,
    InfeasibleSamplingError,
    ParameterError,
    UndecidedError,
)
from tightdp.geometry.linear_programs import gauge_of_hull, maximize, support_by_cuts

CUBE = np.array(list(itertools.product([-1.0, 1.0], repeat=3)))


def test_cube_both_ways() -> None:
    by_corners = tdp.Polytope.from_vertices(CUBE)
    by_faces = tdp.Polytope.from_inequalities(np.vstack([np.eye(3), -np.eye(3)]), np.ones(6))
    for cube in (by_corners, by_faces):
        assert cube.volume() == pytest.approx(8.0, rel=1e-12)
        assert len(cube.vertices()) == 4
        assert len(cube.facets()) == 3
        np.testing.assert_allclose(cube.second_moment.value, np.eye(3) / 3, atol=1e-12)
        assert cube.second_moment.exact
        assert cube.volume_info.exact


def test_redundant_inequalities_are_dropped() -> None:
    rows = np.vstack([np.eye(2), -np.eye(2), [[1, 1]], [[-1, -1]]])
    assert len(tdp.Polytope.from_inequalities(rows, [1, 1, 1, 1, 5, 5]).facets()) == 2


@given(st.integers(0, 10_000), st.integers(2, 4))
def test_gauge_from_facets_equals_linear_program(seed: int, dim: int) -> None:
    points = np.random.default_rng(seed).normal(size=(dim + 4, dim))
    ball = tdp.Polytope.hull_of(np.vstack([points, -points]))
    x = np.random.default_rng(seed + 1).normal(size=(5, dim))
    np.testing.assert_allclose(ball.gauge(x), gauge_of_hull(x, points), rtol=1e-7)


def test_high_dimension_goes_through_linear_programs(seed: int) -> None:
    dim = 10
    corners = np.vstack([np.eye(dim), -np.eye(dim), [np.ones(dim) / 2], [-np.ones(dim) / 2]])
    by_corners = tdp.Polytope.hull_of(corners)
    assert by_corners.facets() is None
    x = np.random.default_rng(seed).normal(size=(3, dim))
    a = by_corners.normal(x)
    np.testing.assert_allclose(np.sum(a * x, axis=1), by_corners.gauge(x), rtol=1e-7)
    np.testing.assert_allclose(by_corners.support(a), 1.0, rtol=1e-7)
    with pytest.raises(InfeasibleSamplingError, match="rejection"):
        by_corners.sample(1, rng=seed)
    rows = np.vstack([np.eye(dim), -np.eye(dim)])
    by_faces = tdp.Polytope.from_inequalities(rows, np.ones(2 * dim))
    assert by_faces.vertices() is None
    assert by_faces.support(np.ones(dim)) == pytest.approx(10.0)
    assert by_faces.volume() == pytest.approx(2.0**dim)
    assert (by_faces.gauge(by_faces.sample(20, rng=seed)) <= 1).all()


def test_interior_points_are_dropped_by_hull_of_in_high_dimension() -> None:
    dim = 9
    points = np.vstack([np.eye(dim), -np.eye(dim), [np.full(dim, 0.01)], [np.full(dim, -0.01)]])
    assert len(tdp.Polytope.hull_of(points).vertices()) == dim


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (
            lambda: tdp.Polytope.from_vertices([[1, 0], [0, 1], [-1, 0]]),
            DegenerateBodyError,
            "symm",
        ),
        (
            lambda: tdp.Polytope.from_vertices([[1, 1], [-1, -1]]),
            DegenerateBodyError,
            "Drop the lin",
        ),
        (lambda: tdp.Polytope.from_vertices([[0.0, 0.0]]), DegenerateBodyError, "flat"),
        (
            lambda: tdp.Polytope.from_vertices([*CUBE, [0.1, 0, 0], [-0.1, 0, 0]]),
            ParameterError,
            "convex position",
        ),
        (lambda: tdp.Polytope.from_vertices([[np.nan, 1], [1, 1]]), ParameterError, "finite"),
        (lambda: tdp.Polytope.from_vertices([1.0, 2.0]), DimensionError, "2 axes"),
        (lambda: tdp.Polytope.from_vertices([]), DimensionError, "2 axes"),
        (lambda: tdp.Polytope.from_inequalities([[1, 0]], [1, 1]), DimensionError, "`b`"),
        (
            lambda: tdp.Polytope.from_inequalities([[1, 0], [-1, 0]], [1, 1]),
            DegenerateBodyError,
            "unbounded",
        ),
        (
            lambda: tdp.Polytope.from_inequalities(
                np.vstack([np.eye(2), -np.eye(2)]), [1, 1, 2, 1]
            ),
            DegenerateBodyError,
            "mirror",
        ),
        (
            lambda: tdp.Polytope.from_inequalities([[1.0], [-1.0]], [1, 0]),
            DegenerateBodyError,
            "`b`",
        ),
        (lambda: tdp.Polytope(vertices=None, facets=None), ParameterError, "from_vertices"),
        (lambda: tdp.LpBall(2, 0.5), ParameterError, "not convex"),
        (lambda: tdp.LpBall(2, float("nan")), ParameterError, "`p`"),
        (lambda: tdp.LpBall(2, "2"), ParameterError, "`p`"),
        (lambda: tdp.LpBall(2, True), ParameterError, "`p`"),
        (lambda: tdp.LpBall(0, 2), ParameterError, "`dim`"),
        (lambda: tdp.LpBall(2.0, 2), ParameterError, "`dim`"),
        (lambda: tdp.LpBall(2, 2, 0.0), ParameterError, "`radius`"),
        (lambda: tdp.LpBall(2, 2, -1.0), ParameterError, "`radius`"),
        (lambda: tdp.LpBall(2, 2, np.inf), ParameterError, "`radius`"),
        (lambda: tdp.LpBall(2, 2, [1.0, 0.0]), ParameterError, "zero width"),
        (lambda: tdp.LpBall(2, 2, [1.0, 1.0, 1.0]), DimensionError, "`radius`"),
        (lambda: tdp.Ellipsoid([[1, 2], [2, 1]]), DegenerateBodyError, "positive definite"),
        (lambda: tdp.Ellipsoid([[1, 2, 3]]), DimensionError, "square"),
        (lambda: tdp.Zonotope([[1.0, 1.0], [2.0, 2.0]]), DegenerateBodyError, "flat"),
        (lambda: tdp.Zonotope(np.ones((40, 20)) + np.eye(40, 20)), ParameterError, "too many"),
        (lambda: tdp.Product([]), DimensionError, "empty"),
        (lambda: tdp.Intersection([]), DimensionError, "empty"),
        (
            lambda: tdp.Intersection([tdp.LpBall(2, 1), tdp.LpBall(3, 1)]),
            DimensionError,
            "one dimension",
        ),
        (
            lambda: tdp.Intersection([tdp.HistogramBall(3), tdp.LpBall(3, 1)]),
            ParameterError,
            "flat",
        ),
        (lambda: tdp.LpBall(2, 1).image([[1, 1], [1, 1]]), DegenerateBodyError, "Drop the lin"),
        (lambda: tdp.LpBall(2, 1).image([[1, 1, 1]]), DimensionError, "`matrix`"),
        (lambda: tdp.HistogramBall(3).image(np.eye(3)), ParameterError, "flat"),
        (lambda: tdp.HistogramBall(3).scaled([1, 2, 3]), ParameterError, "flat"),
    ],
)
def test_degenerate_bodies_are_refused(build, error, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=text):
        build()


def test_hopeless_intersection_is_refused_before_sampling() -> None:
    # two crossed slabs in 12 dimensions: each holds almost nothing of the other
    wide = np.repeat([1.0, 60.0], 6)
    hopeless = (
        tdp.LpBall(12, 2, 2.0).scaled(wide).intersection(tdp.LpBall(12, 2).scaled(wide[::-1]))
    )
    with pytest.raises(InfeasibleSamplingError, match="refused"):
        hopeless.sample(1)
    with pytest.raises(InfeasibleSamplingError):
        hopeless.volume()


def test_intersection_of_nested_balls_keeps_the_smaller_volume() -> None:
    nested = tdp.LpBall(3, 2).intersection(tdp.LpBall(3, np.inf))
    assert nested.log_volume() == pytest.approx(tdp.LpBall(3, 2).log_volume(), abs=1e-12)
    assert not nested.volume_info.exact  # that it is nested was seen, not proved


def test_solver_failures_are_ours() -> None:
    with pytest.raises(DegenerateBodyError, match="unbounded"):
        maximize(np.ones(2), np.array([[1.0, 0.0]]), np.ones(1))
    with pytest.raises(UndecidedError):
        maximize(np.ones(1), np.array([[1.0], [-1.0]]), np.array([-1.0, -1.0]))
    ball = tdp.LpBall(6, 2)
    with pytest.raises(UndecidedError, match="converge"):
        support_by_cuts(np.ones((1, 6)), ball._gauge, ball._normals, rounds=2)
