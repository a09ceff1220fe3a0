"""Sensitivity spaces: exact values, exact hulls, nothing ever too small, witnesses that violate."""

from __future__ import annotations

import itertools
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import DegenerateBodyError, DimensionError, FloatArray, ParameterError
from tightdp.geometry.containment import largest_gauge
from tightdp.geometry.row_images import MomentImage
from tightdp.geometry.sensitivity import _farthest_pair

S = tdp.SensitivitySpace
UNIT = tdp.Interval(-1, 1)
MIXED = {
    "a": UNIT,
    "b": tdp.Interval(-1, 1),
    "c": tdp.Interval(-1, 1),
    "k": tdp.Category(["w", "x", "y", "z"], other="w"),
}

SPACES = {
    f"{name}, {neighbors}": build(neighbors)
    for neighbors in ("replace-one", "add-remove")
    for name, build in {
        "sum and squares": lambda n: S.sum_and_squares(neighbors=n),
        "histogram": lambda n: S.histogram(5, neighbors=n),
        "box": lambda n: S.of({"x": tdp.Interval(0, 3), "y": tdp.Interval(-2, 1)}, neighbors=n),
        "mixed": lambda n: S.of(MIXED, neighbors=n),
        "lopsided": lambda n: S.of(
            {"x": tdp.Interval(1, 3), "k": tdp.Category(["a", "b"], other="a")}, neighbors=n
        ),
        "two categories": lambda n: S.of(
            {"j": tdp.Category([1, 2, 3], other=1), "k": tdp.Category([1, 2], other=1)}, neighbors=n
        ),
        "products": lambda n: S.of({"x": UNIT, "y": UNIT}, ["x", "y", "x:y"], neighbors=n),
        "within levels": lambda n: S.of(
            {"x": tdp.Interval(0, 2), "k": tdp.Category(["a", "b"], other="a")},
            ["k", "x:k"],
            neighbors=n,
        ),
        "affine": lambda n: S.affine(
            [[1.0, 2.0, 0.0], [0.0, 1.0, -1.0]], [UNIT, UNIT, tdp.Interval(0, 2)], neighbors=n
        ),
        "affine square": lambda n: S.affine(
            [[1.0, 2.0], [0.0, 1.0]], [UNIT, UNIT], offset=[1.0, 0.0], neighbors=n
        ),
        "finite": lambda n: S.from_points([[0, 0], [1, 2], [3, -1], [2, 2]], neighbors=n),
        "moments": lambda n: S.moments(2, neighbors=n),
    }.items()
}


@pytest.fixture(params=SPACES, ids=list(SPACES))
def space(request: pytest.FixtureRequest) -> tdp.SensitivitySpace:
    return SPACES[request.param]


def on_span(space: tdp.SensitivitySpace, seed: int, count: int = 30) -> FloatArray:
    return space.sample(count, rng=seed)


def test_the_hull_contains_every_difference(space: tdp.SensitivitySpace, seed: int) -> None:
    assert (space.hull().gauge(space.sample(5_000, rng=seed)) <= 1 + 1e-9).all()
    assert tdp.certify_contains(space.hull(), space)


def test_the_hull_is_not_larger_than_the_space(space: tdp.SensitivitySpace, seed: int) -> None:
    """Exact hulls: in every direction the space itself reaches the support of the hull."""
    if not space.exact:
        assert "outer" in repr(space)
        return
    hull = space.hull()
    for c in np.vstack([on_span(space, seed), np.eye(space.dim)]):
        u, _ = space.extreme_pair(c)
        assert c @ u == pytest.approx(hull.support(c), rel=1e-7, abs=1e-9)


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, np.inf])
def test_sensitivity_is_never_exceeded(space: tdp.SensitivitySpace, p: float, seed: int) -> None:
    delta = space.sensitivity(p=p)
    differences = space.sample(20_000, rng=seed)
    norms = tdp.LpBall(space.dim, p).gauge(differences)
    assert norms.max() <= delta * (1 + 1e-9)
    found, pair = space.search(tdp.LpBall(space.dim, p))
    assert found <= delta * (1 + 1e-9)
    assert pair is not None
    if delta.exact:
        assert found >= 0.99 * delta


@pytest.mark.parametrize("p", [1.0, 1.5, 2.0, 3.0, np.inf])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_the_closed_form_of_a_box_is_met_at_its_corners(neighbors: str, p: float) -> None:
    sides = [(0.1, 3.7), (-2.0, 1.0), (-0.5, 0.5)]
    columns = {name: tdp.Interval(*side) for name, side in zip("xyz", sides, strict=True)}
    box = S.of(columns, neighbors=neighbors)
    corners = np.array(list(itertools.product(*sides)))
    moves = [a - b for a in corners for b in corners] if neighbors == "replace-one" else corners
    farthest = max(np.linalg.norm(move, p) for move in moves)
    assert box.sensitivity(p=p) == pytest.approx(farthest, rel=1e-12)
    assert box.sensitivity(p=p).exact
    upper = largest_gauge(box.hull(), tdp.LpBall(3, p)).upper
    assert box.sensitivity(p=p) <= upper * (1 + 1e-12)


@pytest.mark.slow_for("moments, replace-one")
def test_any_ball_gives_a_sensitivity(space: tdp.SensitivitySpace, seed: int) -> None:
    ball = tdp.LpBall(space.dim, 2, np.linspace(1, 2, space.dim))
    delta = space.sensitivity(ball=ball)
    assert (ball.gauge(space.sample(5_000, rng=seed)) <= delta * (1 + 1e-9)).all()
    assert tdp.certify_contains(ball.scaled(float(delta) * (1 + 1e-9)), space)


def test_a_ball_cut_by_a_fifth_is_caught_with_a_pair(space: tdp.SensitivitySpace) -> None:
    """The broken twin of every hull: 20 % smaller, refuted by two rows of the public domain."""
    cut = tdp.certify_contains(space.hull().scaled(0.8), space)
    assert not cut
    assert cut.violated
    assert cut.difference is not None
    assert space.hull().gauge(cut.difference) > 0.8
    assert cut.pair is not None
    assert all(row is None or isinstance(row, dict) for row in cut.pair)


def test_example_2_10() -> None:
    space = S.sum_and_squares()
    exact = {1: 25 / 8, 2: np.sqrt(71 + 8 * np.sqrt(2)) / 4, np.inf: 2.0}
    for p, value in exact.items():
        assert space.sensitivity(p=p) == pytest.approx(value, rel=1e-12)
        assert space.sensitivity(p=p).exact
    assert space.hull().volume() == pytest.approx(40 / 3, rel=1e-12)
    d = np.linspace(1, 2, 101)
    arc = np.column_stack([d, 2 - 2 * (d - 1) ** 2])
    np.testing.assert_allclose(space.hull().gauge(arc), 1.0, rtol=1e-9)
    # the region itself has area 32/3 and is not convex: Monte Carlo on the box [-2, 2]^2, 5 s.e.
    u = np.random.default_rng(1).uniform(-2, 2, size=(400_000, 2))
    inside = np.abs(u[:, 1]) <= 2 - 2 * (1 - np.abs(u[:, 0])) ** 2
    assert 16 * inside.mean() == pytest.approx(32 / 3, abs=5 * 16 * 0.5 / np.sqrt(400_000))


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6, 7, 12])
def test_regression_moments(p: int, seed: int) -> None:
    space = S.moments(p)
    n = p + 2
    assert space.dim == (p * p + 5 * p + 2) // 2
    assert space.sensitivity(p=1) == (p * p + 7 * p + 4) / 2
    square = {1: 10, 2: 17, 3: 25}.get(p, n * n - n % 2)
    assert space.sensitivity(p=2) == pytest.approx(np.sqrt(square), rel=1e-14)
    assert space.sensitivity(p=np.inf) == 2.0
    assert all(space.sensitivity(p=q).exact for q in (1, 2, np.inf))
    assert not space.sensitivity(p=3).exact
    assert not space.exact


@pytest.mark.parametrize("p", [1, 2, 3, 4, 5, 6])
def test_l2_sensitivity_of_moments_by_optimisation(p: int, seed: int) -> None:
    """The closed form is reached and never exceeded by local search over pairs of rows."""
    from scipy.optimize import minimize

    image, delta = MomentImage(p), float(S.moments(p).sensitivity(p=2))
    rng = np.random.default_rng(seed)

    def loss(z: FloatArray) -> float:
        pair = image.images(z.reshape(2, p + 1))
        return -float(np.sum((pair[0] - pair[1]) ** 2))

    box = [(-1.0, 1.0)] * (2 * p + 2)
    starts = [rng.choice([-1.0, 0.0, 1.0], size=2 * p + 2) + 0.01 for _ in range(40)]
    starts.append(np.concatenate([np.ones(p + 1), np.zeros(p), [-1.0]]))
    alternating = np.where(np.arange(p + 1) % 2, 1.0, -1.0)
    starts.append(np.concatenate([np.ones(p + 1), alternating]))
    best = max(-minimize(loss, np.clip(z, -1, 1), bounds=box).fun for z in starts)
    assert np.sqrt(best) <= delta * (1 + 1e-9)
    assert np.sqrt(best) >= delta * (1 - 1e-6)


def test_moment_entries_are_dominated_by_a_row_of_ones(seed: int) -> None:
    """Step of the proof: every difference is dominated entrywise by phi(1) - phi(1 - |x - x'|)."""
    rng = np.random.default_rng(seed)
    for p in (1, 3, 6):
        image = MomentImage(p)
        x, y = rng.uniform(-1, 1, size=(2, 2_000, p + 1))
        gap = image.images(np.ones((2_000, p + 1))) - image.images(1 - np.abs(x - y))
        assert (np.abs(image.images(x) - image.images(y)) <= gap + 1e-12).all()


def test_the_published_linf_claim_rests_on_a_loose_l1() -> None:
    assert S.moments(5).sensitivity(p=1) == 32.0  # not 2 d = 52
    assert S.moments(12).sensitivity(p=1) == 116.0


def test_structure_of_categories_is_used() -> None:
    mixed = S.of(MIXED)
    assert mixed.names == ("a", "b", "c", "k[w]", "k[x]", "k[y]", "k[z]")
    assert mixed.hull().rank == 6  # the counts sum to the public n
    assert mixed.sensitivity(p=1) == 2 * 3 + 2
    assert mixed.sensitivity(p=np.inf) == 2.0
    assert mixed.sensitivity(p=2) == pytest.approx(np.sqrt(4 * 3 + 2))
    added = S.of(MIXED, neighbors="add-remove")
    assert added.hull().rank == 7
    assert added.sensitivity(p=1) == 3 + 1
    assert S.histogram(6).sensitivity(p=1) == 2.0
    assert S.histogram(6, neighbors="add-remove").sensitivity(p=1) == 1.0


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_product_form_equals_enumeration(neighbors: str, seed: int) -> None:
    """The closed forms agree with the hull of all differences of all domain vertices."""
    domain = {
        "x": tdp.Interval(-1, 1),
        "y": tdp.Interval(0, 2),
        "k": tdp.Category(["a", "b", "c"], other="a"),
    }
    closed = S.of(domain, neighbors=neighbors)
    corners = [
        [x, y, *np.eye(3)[k]] for x, y, k in itertools.product([-1.0, 1.0], [0.0, 2.0], range(3))
    ]
    listed = S.from_points(corners, neighbors=neighbors)
    assert closed.exact
    assert closed.hull().rank == listed.hull().rank
    x = closed.sample(200, rng=seed)
    np.testing.assert_allclose(closed.hull().gauge(x), listed.hull().gauge(x), rtol=1e-7)
    assert closed.hull().log_volume() == pytest.approx(listed.hull().log_volume(), abs=1e-9)


def test_multi_affine_terms_against_a_grid(seed: int) -> None:
    """Interior rows never leave the hull of the vertex differences, and it is reached."""
    space = S.of({"x": UNIT, "y": UNIT}, ["x", "y", "x:y"])
    z = np.random.default_rng(seed).uniform(-1, 1, size=(2, 20_000, 2))
    images = np.dstack([z[..., 0], z[..., 1], z[..., 0] * z[..., 1]])
    assert (space.hull().gauge(images[0] - images[1]) <= 1 + 1e-9).all()
    x = np.random.default_rng(seed).normal(size=(200, 3))
    np.testing.assert_allclose(space.hull().gauge(x), tdp.K3().gauge(x), rtol=1e-9)


def test_large_domains_use_structure_not_enumeration() -> None:
    domain: dict[str, Any] = {f"x{i}": UNIT for i in range(60)}
    domain["k"] = tdp.Category(range(200), other=0)
    space = S.of(domain)
    assert space.dim == 260
    assert space.sensitivity(p=1) == 2 * 60 + 2
    assert space.hull().sample(3, rng=0).shape == (3, 260)


def test_the_default_body_of_moments_is_the_smallest_with_a_sampler() -> None:
    """Erratum on "copies of K2 and K3": cylinders hold all changes, and much that is none."""
    for features in (1, 2, 4):
        found = tdp.SensitivitySpace.moments(features).hull()
        assert isinstance(found, tdp.MomentBody)
        assert found.kind == tdp.MomentBody(features).kind == "triangle"
        loose = tdp.MomentBody(features, "cylinder")
        assert (loose.gauge(found.sample(500, rng=1)) <= 1 + 1e-12).all()
        assert (found.gauge(loose.sample(500, rng=1)) > 1).any()  # cylinders stick out
    edge, beyond = (tdp.SensitivitySpace.moments(p).hull() for p in (12, 13))
    assert isinstance(edge, tdp.MomentBody)
    assert edge.kind == "triangle"
    assert isinstance(beyond, tdp.MomentBody)
    assert beyond.kind == "cylinder"
    schema = tdp.Schema({c: tdp.Interval(-1, 1) for c in "abcd"}, rows=50)
    mechanism = tdp.AdditiveMechanism(tdp.Moments(schema, list("abc"), "d"), epsilon=1.0)
    assert isinstance(mechanism.ball, tdp.MomentBody)
    assert mechanism.ball.kind == "triangle"


def test_an_outer_body_is_labelled() -> None:
    domain = {f"x{i}": tdp.Interval(0, 1) for i in range(9)} | {
        "k": tdp.Category(["a", "b"], other="a")
    }
    space = S.of(domain, neighbors="add-remove")
    assert not space.exact
    assert space.how.startswith("outer")
    assert not space.sensitivity(p=1).exact
    assert "upper bound" in repr(space.sensitivity(p=1))


def test_neither_proved_nor_violated_is_said() -> None:
    space = S.moments(2)
    unit = tdp.LpBall(space.dim, 3)
    reached, bound = space.search(unit)[0], float(space.sensitivity(ball=unit))
    assert reached < bound
    answer = tdp.certify_contains(unit.scaled((reached + bound) / 2), space)
    assert not answer.holds
    assert not answer.violated
    assert answer.bound > 1


def test_the_true_hull_of_moments_is_smaller_and_exact(seed: int) -> None:
    true, outer = S.moments(1, kind="hull"), S.moments(1, kind="cylinder")
    u = np.array([0.0, 2.0, 2.0, 2.0])
    assert outer.hull().gauge(u) == pytest.approx(1.0, rel=1e-12)
    assert true.hull().gauge(u) == pytest.approx(4 / 3, rel=1e-6)
    assert true.exact
    assert (true.hull().gauge(true.sample(50, rng=seed)) <= 1 + 1e-6).all()


@pytest.mark.parametrize(
    ("build", "error", "text"),
    [
        (lambda: S.of({}), ParameterError, "non-empty"),
        (lambda: S.of({"x": (0, 1)}), ParameterError, "Interval or a Category"),
        (lambda: S.of({"x": UNIT}, []), DimensionError, "terms"),
        (lambda: S.of({"x": UNIT}, ["z"]), ParameterError, "'z'"),
        (lambda: S.of({"price": UNIT}, ["pric"]), ParameterError, "Did you mean 'price'"),
        (lambda: S.of({"x": UNIT}, ["x:x"]), ParameterError, "twice"),
        (lambda: S.of({"x": UNIT}, ["x", "x"]), ParameterError, "distinct"),
        (lambda: S.of({"x": UNIT}, [1]), ParameterError, "string"),
        (lambda: S.of({"x": UNIT}, neighbors="both"), ParameterError, "neighbors"),
        (
            lambda: S.of(
                {f"x{i}": UNIT for i in range(20)}, [":".join(f"x{i}" for i in range(20))]
            ),
            ParameterError,
            "vertices",
        ),
        (lambda: S.histogram(1), ParameterError, "cells"),
        (lambda: S.moments(0), ParameterError, "features"),
        (lambda: S.moments(2, kind="cylindre"), ParameterError, "Did you mean 'cylinder'"),
        (lambda: S.from_points([[1.0, 2.0]]).hull(), DegenerateBodyError, "single point"),
        (lambda: S.from_points([]), DimensionError, "axes"),
        (lambda: S.from_points([[np.nan]]), ParameterError, "finite"),
        (lambda: S.from_points([[1.0], [2.0]], names=["a", "b"]), DimensionError, "names"),
        (lambda: S.from_points(np.arange(1000.0)[:, None] ** 2).hull(), ParameterError, "Split"),
        (lambda: S.affine([[1.0]], [UNIT, UNIT]), DimensionError, "matrix"),
        (lambda: S.affine([[1.0], [2.0]], [UNIT]).hull(), DegenerateBodyError, "Drop"),
        (lambda: S.histogram(3).sensitivity(), ParameterError, "exactly one"),
        (lambda: S.histogram(3).sensitivity(p=1, ball=tdp.LpBall(3, 1)), ParameterError, "exactly"),
        (lambda: S.histogram(3).sensitivity(p=0.5), ParameterError, "`p`"),
        (lambda: S.histogram(3).sensitivity(ball=tdp.LpBall(2, 1)), DimensionError, "dimension 3"),
        (lambda: tdp.certify_contains("l1", S.histogram(3)), ParameterError, "NormBall"),
        (lambda: tdp.Interval(2, 1), ParameterError, "swap"),
        (lambda: tdp.Interval(1, 1), ParameterError, "smaller"),
        (lambda: tdp.Interval(float("nan"), 1), ParameterError, "low"),
        (lambda: tdp.Interval(0, float("inf")), ParameterError, "high"),
        (lambda: tdp.Interval("0", 1), ParameterError, "low"),
        (lambda: tdp.Category([]), ParameterError, "levels"),
        (lambda: tdp.Category(["a"]), ParameterError, "2 levels"),
        (lambda: tdp.Category(["a", "a"]), ParameterError, "distinct"),
        (lambda: tdp.Category("ab"), ParameterError, "one string"),
    ],
)
def test_bad_input(build, error, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(error, match=text):
        build()


def test_the_farthest_pair_of_corners_is_that_of_all_pairs(seed):
    rng = np.random.default_rng(seed)
    for _ in range(50):
        corners = rng.integers(-3, 4, (int(rng.integers(2, 12)), 3)).astype(float)
        wanted = max(np.abs(a - b).sum() for a in corners for b in corners)
        assert _farthest_pair(corners, np.abs(corners).sum(axis=1)) == wanted
