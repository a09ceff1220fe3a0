"""Adversarial units and shapes: nothing may be flattened, dropped or rounded to the unsafe side."""

from __future__ import annotations

import itertools

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tightdp as tdp
from tightdp.errors import DegenerateBodyError, FloatArray, ParameterError
from tightdp.geometry.containment import largest_gauge
from tightdp.geometry.linear_programs import gauge_of_hull, maximize
from tightdp.geometry.units import ROUNDING, column_scales, frame

S = tdp.SensitivitySpace
BIG, SMALL = tdp.Interval(0, 1e9), tdp.Interval(0, 1e-6)
NEIGHBORS = ["replace-one", "add-remove"]


def wide_and_narrow(neighbors: str) -> dict[str, tdp.SensitivitySpace]:
    levels = tdp.Category(["u", "v", "w"], other="u")
    return {
        "products": S.of({"a": BIG, "b": SMALL}, ["a", "b", "a:b"], neighbors=neighbors),
        "levels": S.of({"a": BIG, "b": SMALL, "k": levels}, ["a:k", "b:k"], neighbors=neighbors),
        "box": S.of({"a": BIG, "b": SMALL, "c": tdp.Interval(1, 2)}, neighbors=neighbors),
        "tiny": S.of(
            {"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1e-11)},
            ["a", "b", "a:b"],
            neighbors=neighbors,
        ),
        "points": S.from_points([[0, 0], [1, 0], [1, 1e-11]], neighbors=neighbors),
        "affine": S.affine([[1.0, 0.0], [0.0, 7e-16]], [BIG, SMALL], neighbors=neighbors),
    }


@pytest.mark.parametrize("neighbors", NEIGHBORS)
@pytest.mark.parametrize("name", list(wide_and_narrow("replace-one")))
def test_no_entry_goes_without_noise(name: str, neighbors: str) -> None:
    """A narrow entry beside a wide one was taken for a linear dependence and got no noise at all:
    an infinite privacy loss."""
    space = wide_and_narrow(neighbors)[name]
    hull = space.hull()
    assert hull.rank == space.dim
    axes = [abs(space.extreme_pair(c)[0] @ c) for c in np.eye(space.dim)]
    np.testing.assert_allclose(hull.bounding_box(), axes, rtol=1e-9)
    assert (hull.gauge(space.sample(2_000, rng=1)) <= 1 + ROUNDING).all()
    assert tdp.certify_contains(hull, space)
    spread = hull.sample(2_000, rng=1).std(axis=0) / hull.bounding_box()
    assert (spread > 0.1).all()


@given(
    st.lists(st.integers(-40, 40), min_size=3, max_size=3),
    st.sampled_from(NEIGHBORS),
    st.integers(0, 1000),
)
def test_hulls_do_not_depend_on_units(powers: list[int], neighbors: str, seed: int) -> None:
    rng = np.random.default_rng(seed)
    low, high = np.sort(rng.normal(size=(3, 2)), axis=1).T
    terms = ["x:k", "y", "x:y", "z"]

    def build(unit: FloatArray) -> tdp.SensitivitySpace:
        columns = {
            name: tdp.Interval(a * u, b * u)
            for name, a, b, u in zip("xyz", low, high, unit, strict=True)
        }
        domain = {**columns, "k": tdp.Category(["a", "b"], other="a")}
        return S.of(domain, terms, neighbors=neighbors)

    unit = 2.0 ** np.array(powers)
    plain, scaled = build(np.ones(3)), build(unit)
    factor = {"x:k[a]": unit[0], "x:k[b]": unit[0], "y": unit[1], "x:y": unit[0] * unit[1]}
    factor["z"] = unit[2]
    stretch = np.array([factor[name] for name in plain.names])
    x = plain.sample(50, rng=seed)
    np.testing.assert_allclose(
        plain.hull().gauge(x), scaled.hull().gauge(x * stretch), rtol=1e-9, atol=1e-12
    )
    assert plain.hull().rank == scaled.hull().rank


@pytest.mark.parametrize("neighbors", NEIGHBORS)
def test_thin_slanted_hulls_are_rounded_outwards_and_say_so(neighbors: str) -> None:
    """b in [1, 1 + 1e-11] makes a and a:b nearly, but not, dependent."""
    domain = {"a": tdp.Interval(0, 1), "b": tdp.Interval(1, 1 + 1e-11)}
    space = S.of(domain, ["a", "a:b"], neighbors=neighbors)
    assert space.hull().rank == 2
    assert not space.exact
    assert "to cover rounding" in space.how
    assert (space.hull().gauge(space.sample(2_000, rng=1)) <= 1).all()
    assert (space.hull().bounding_box() >= 1).all()


def test_what_rounding_would_decide_is_refused() -> None:
    points = [[0, 0], [1, 1], [1, 1 + 2e-12]]
    with pytest.raises(DegenerateBodyError, match="rounding decides"):
        S.from_points(points).hull()
    with pytest.raises(DegenerateBodyError, match="Drop the lin"):
        S.affine([[1, 1], [1, 1 + 1e-12]], [tdp.Interval(0, 1)] * 2).hull()
    with pytest.raises(DegenerateBodyError, match="flat"):
        tdp.Zonotope([[1, 1], [1, 1 + 1e-12]])


def test_true_dependence_is_still_seen() -> None:
    domain = {"a": BIG, "k": tdp.Category(["u", "v", "w"], other="u")}
    space = S.of(domain, ["a", "a:k", "k"])
    assert (space.dim, space.hull().rank) == (7, 5)
    constant = S.from_points([[0, 5, 1e-9], [1, 5, 1e-9], [3, 5, 0]])
    assert constant.hull().rank == 2
    assert constant.hull().gauge([1.0, 0.0, 0.0]) == pytest.approx(1.0)
    assert constant.hull().gauge([1.0, 1e-300, 0.0]) == np.inf


def test_near_duplicates_lose_nothing() -> None:
    """Points closer than 1e-8 were merged and the survivor need not be the outer one."""
    points = np.array([[0, 0], [1, 0], [1 + 4e-9, 1e-9], [0, 1], [0, 1], [1e-10, 1]])
    space = S.from_points(points)
    every = np.array([a - b for a, b in itertools.product(points, points)])
    assert (space.hull().gauge(every) <= 1 + ROUNDING).all()
    assert space.hull().bounding_box()[0] >= 1 + 4e-9


def test_no_facet_of_a_thin_box_is_merged_away() -> None:
    corners = np.array(list(itertools.product([-1e-9, 1e-9], [-1, 1], [-1, 1])))
    rows = np.diag([1e9, 1.0, 1.0])
    for box in (
        tdp.Polytope.from_vertices(corners),
        tdp.Polytope.from_inequalities(np.vstack([rows, -rows]), np.ones(6)),
        tdp.Zonotope(np.diag([1e-9, 1.0, 1.0])),
    ):
        assert len(box.facets()) == 3
        np.testing.assert_allclose(box.gauge(np.eye(3)), [1e9, 1, 1], rtol=1e-12)
        assert box.volume() == pytest.approx(8e-9, rel=1e-12)


@pytest.mark.parametrize("scales", [[1e9, 1e-4, 1e-4], [1e9, 1e-2, 1.0], [1e-150, 1.0, 1e150]])
def test_zonotopes_of_generators_of_very_different_size(scales: list[float]) -> None:
    """Facets and tiles were dropped by tolerances in the user's units: gauges of 0."""
    units = np.array(scales)
    plain = tdp.Zonotope([[1, 0, 0], [0, 1, 0], [0, 0, 1], [1, 1, 1], [2, 0, 0]])
    scaled = tdp.Zonotope(plain.generators * units)
    x = np.random.default_rng(1).normal(size=(500, 3))
    np.testing.assert_allclose(scaled.gauge(x * units), plain.gauge(x), rtol=1e-9)
    assert scaled.log_volume() == pytest.approx(plain.log_volume() + np.log(units).sum())
    np.testing.assert_allclose(scaled.sample(50, rng=3) / units, plain.sample(50, rng=3), rtol=1e-9)


@pytest.mark.parametrize("size", [1e-300, 1e-9, 1e9, 1e300])
def test_polytopes_of_any_size(size: float) -> None:
    diamond = tdp.Polytope.from_vertices(size * np.array([[1, 0], [-1, 0], [0, 1], [0, -1]]))
    assert diamond.gauge([size, size]) == pytest.approx(2.0)
    assert diamond.log_volume() == pytest.approx(np.log(2.0) + 2 * np.log(size))
    assert (diamond.gauge(diamond.sample(100, rng=1)) <= 1 + ROUNDING).all()


@pytest.mark.parametrize("size", [1e-9, 1.0, 1e9, 1e15])
def test_supports_by_cuts_do_not_depend_on_size(size: float) -> None:
    """The search was confined to a box of 1e6: larger bodies came out too small."""
    body = tdp.LpBall(2, 2, size).intersection(tdp.LpBall(2, 1, 1.2 * size))
    for c in np.array([[1.0, 2.0], [1.0, 1.0], [1.0, 0.3]]):
        # on the arc, or at its end, where the line |x| + |y| = 1.2 cuts it
        end = np.array([0.6 + np.sqrt(0.14), 0.6 - np.sqrt(0.14)])
        arc = c / np.linalg.norm(c)
        best = np.linalg.norm(c) if arc.sum() <= 1.2 else np.sort(c) @ np.sort(end)
        assert body.support(c) == pytest.approx(best * size, rel=2e-8)
    l1 = largest_gauge(body, tdp.LpBall(2, 1))
    assert l1.upper >= 1.2 * size
    assert l1.upper == pytest.approx(1.2 * size, rel=3e-8)


def test_a_slanted_body_longer_than_the_first_box_is_searched_to_its_end() -> None:
    turn = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-8]])
    body = tdp.LpBall(2, 2).image(turn).intersection(tdp.LpBall(2, 2, 1e9))
    exact = tdp.LpBall(2, 2).image(turn).support([1.0, 1.0])
    assert body.support([1.0, 1.0]) == pytest.approx(exact, rel=1e-6)


def test_upper_ends_are_never_below_the_truth() -> None:
    """Values found by iteration fall short; the upper end must not."""
    body = tdp.LpBall(3, 2).intersection(tdp.LpBall(3, np.inf, 0.7))
    assert largest_gauge(body, tdp.LpBall(3, 1)).upper >= np.sqrt(3)
    assert (body.bounding_box() >= 0.7).all()
    moments = tdp.MomentBody(2)
    assert largest_gauge(moments, tdp.LpBall(8, np.inf)).upper >= 2
    true = S.moments(1, kind="hull")
    u = np.array([[0.0, 2.0, 2.0, 2.0]])  # gauge 4/3
    point = tdp.Polytope.hull_of(np.vstack([np.eye(4) * 0.01, u, -np.eye(4) * 0.01, -u]))
    assert largest_gauge(point, true.hull()).upper >= 4 / 3


def test_programs_are_brought_to_unit_size() -> None:
    """The solver drops coefficients below 1e-9."""
    rows = np.diag([1e-10, 1.0])
    value, x = maximize(np.array([1.0, 0.0]), np.vstack([rows, -rows]), np.ones(4))
    assert value == pytest.approx(1e10)
    assert x[0] == pytest.approx(1e10)
    np.testing.assert_allclose(gauge_of_hull(np.full((1, 2), 1e-10), np.diag([1e-10, 1.0])), 1.0)


@pytest.mark.parametrize("p", [30.0, 1000.0, 1e5])
def test_lp_draws_for_large_exponents(p: float, seed: int) -> None:
    """Gamma(1/p) underflows: half of all coordinates came out as 0 at p = 1000."""
    from scipy.stats import kstest

    ball = tdp.LpBall(3, p)
    u = ball.sample(20_000, rng=seed)
    assert (u != 0).all()
    # the cube cut at its edges: each coordinate is nearly uniform on [-1, 1]
    assert kstest(u.ravel(), "uniform", args=(-1, 2)).statistic < 3 / p + 5 / np.sqrt(u.size)
    assert kstest(ball.gauge(u) ** 3, "uniform").statistic < 5 / np.sqrt(len(u))


def test_certificates_grant_rounding_only() -> None:
    """A ball too small by 5e-10 used to pass; what is granted now is stated and is rounding."""
    space = S.histogram(3)
    short = tdp.certify_contains(tdp.LpBall(3, 1, 2 * (1 - 5e-10)), space)
    assert not short
    assert short.violated
    assert short.bound == pytest.approx(1 + 5e-10, rel=1e-12)
    for p in (1, 1.5, 2, np.inf):
        for each in (
            space,
            S.sum_and_squares(),
            S.moments(3),
            wide_and_narrow("add-remove")["box"],
        ):
            ball = tdp.LpBall(each.dim, p, float(each.sensitivity(p=p)))
            assert tdp.certify_contains(ball, each)
            assert not tdp.certify_contains(ball.scaled(1 - 1e-11), each).holds


def test_a_tilt_out_of_a_flat_ball_is_seen() -> None:
    """Differences that leave the plane by 1e-10 have infinite gauge: no noise covers them."""
    tilted = S.from_points([[1, 0, 1e-10], [0, 1, 0], [0, 0, 1]])
    assert tdp.certify_contains(tdp.HistogramBall(3).scaled(1.1), tilted).violated
    plane = tdp.LpBall(2, 1, 3.0).image([[1, 0], [0, 1], [0, 0]])
    lifted = S.from_points([[0, 0, 0], [1, 0, 1e-10], [0, 1, 0]])
    assert tdp.certify_contains(plane, lifted).violated
    assert tdp.certify_contains(plane, S.from_points([[0, 0, 0], [1, 0, 0], [0, 1, 0]]))


def test_flat_bodies_never_give_nan() -> None:
    first = tdp.LpBall(2, 2).image([[1, 0], [0, 1], [0, 0]])
    second = tdp.LpBall(2, 2).image([[1, 0], [0, 1], [0, 0]])
    reach = largest_gauge(first, second)
    assert reach.lower == pytest.approx(1.0)
    assert np.isfinite(reach.upper)


def test_images_of_badly_scaled_matrices() -> None:
    turned = tdp.LpBall(2, np.inf).image([[1, 0], [0, 7e-16]])
    assert turned.gauge([0.0, 7e-16]) == pytest.approx(1.0)  # it was 0
    skewed = tdp.LpBall(2, np.inf).image([[1, 1], [1, 1 + 2.0**-30]])
    assert skewed.gauge_slack > 1e-8
    # the inverse is 2^30 [[1 + 2^-30, -1], [-1, 1]]
    assert largest_gauge(tdp.LpBall(2, 1), skewed).upper >= 2.0**30 + 1
    assert skewed.gauge([1.0, 0.0]) == pytest.approx(2.0**30 + 1, rel=1e-6)


def test_moment_bodies_are_known_to_be_nested() -> None:
    for p in (1, 2):
        for kind in ("cylinder", "triples", "triangle"):
            assert tdp.certify_contains(tdp.MomentBody(p, kind), S.moments(p))
        assert not tdp.certify_contains(tdp.MomentBody(p, "nuclear"), S.moments(p)).holds
        assert tdp.certify_contains(tdp.MomentBody(p, "nuclear"), S.moments(p, kind="hull"))
        assert not tdp.certify_contains(tdp.MomentBody(p).scaled(0.999), S.moments(p)).holds


def test_moments_of_many_features_and_extreme_exponents() -> None:
    assert 2 <= S.moments(2).sensitivity(p=5000) <= 2.01
    difference, pair = S.moments(70).extreme_pair(np.ones(S.moments(70).dim))
    assert np.isfinite(difference).all()
    assert set(pair[0]) == {f"x{j + 1}" for j in range(70)} | {"y"}


def test_frames() -> None:
    np.testing.assert_array_equal(column_scales(np.array([[3.0, 0.0], [-5.0, 0.0]])), [4.0, 1.0])
    assert frame(np.array([[1.0, 1.0], [2.0, 2.0]])) is None
    assert frame(np.zeros((0, 2))) is None
    rows = np.array([[1.0, 1.0], [1.0, 1.0 + 1e-6]]) * [1e9, 1e-6]
    units = frame(rows)
    assert units is not None
    assert np.linalg.cond(rows @ units) == pytest.approx(1.0, rel=1e-6)


def test_rankings_of_ties_and_of_tiny_units() -> None:
    one = tdp.rank_norms(S.of({"x": tdp.Interval(0, 1)}), 1.0)
    assert one.recommendation == "hull"
    assert not any("prefers" in note for note in one.notes)  # four names of one ball
    tiny = S.of({"x": tdp.Interval(0, 1e-7), "y": tdp.Interval(0, 1e-7)})
    ranking = tdp.rank_norms(tiny, 1.0, ["hull", "l1", "l2"], by="variance")
    assert [row.name for row in ranking] == sorted(
        (row.name for row in ranking), key=lambda name: ranking[name].variance.value
    )


@pytest.mark.parametrize(
    ("build", "text"),
    [
        (lambda: tdp.LpBall(2, 1).gauge("ab"), "`x` must be an array"),
        (lambda: tdp.K2().gauge([np.inf, 1.0]), "finite"),
        (lambda: tdp.LpBall(2, 2).support([np.inf, 1.0]), "finite"),
        (lambda: S.of({"x": BIG, "y": BIG, "xy": BIG}, "xy"), "not one string"),
        (lambda: S.affine([[1.0]], [(0, 1)]), "list of Interval"),
        (lambda: S.affine([[1.0]], None), "list of Interval"),
        (lambda: tdp.rank_norms(tdp.LpBall(2, 1), 1.0), "`space`"),
        (lambda: tdp.rank_norms(S.histogram(3), 1.0, tdp.LpBall(3, 1)), "list of names"),
        (lambda: tdp.certify_contains(tdp.LpBall(2, 1), tdp.LpBall(2, 1)), "`space`"),
        (lambda: S.histogram(3).sensitivity(ball="l1"), "`ball`"),
        (lambda: tdp.Product([1, 2]), "`balls`"),
        (lambda: tdp.Intersection([1, 2]), "`balls`"),
        (lambda: largest_gauge("a", "b"), "`inner`"),
        (
            lambda: S.of({"a": tdp.Interval(0, 1e200), "b": tdp.Interval(0, 1e200)}, ["a:b", "a"]),
            "overflows",
        ),
        (lambda: S.from_points([[-1.7e308], [1.7e308]]), "overflows"),
    ],
)
def test_bad_input_is_refused_in_our_words(build, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=text):
        build()
