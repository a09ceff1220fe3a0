"""Noise under hostile sizes and parameters: no silent overflow, no foreign error, no waste."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import DimensionError, InfeasibleSamplingError, ParameterError, TightdpError
from tightdp.exact.lattice_bodies import CountBody, DiamondBody, PolytopeBody, RoundBody, SumBody
from tightdp.exact.lattice_body import BoxBody, ProductBody
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.lattice_moments import MomentLatticeBody, SquareBody
from tightdp.noise import lattice
from tightdp.noise.gaussian_laws import DiscreteGaussian, gaussian_delta
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import lattice_noise
from tightdp.randomness import RandomSource, SeededSource

# --- integers of any size -------------------------------------------------------------------------

BODIES = [
    BoxBody([3, 5], 2),
    DiamondBody(3),
    RoundBody(3),
    SquareBody(),
    SumBody(4, 3, 2),
    CountBody(4, 3),
    CountBody(3, 10**12),
    SumBody(3, 10**12, 10**11),
    PolytopeBody(
        np.array([[1 << 20, -(1 << 19)]]), np.array([1 << 24]), [1 << 20, 1 << 20], 1 << 16
    ),
    HistogramBody(3),
    MomentLatticeBody(1, "triangle"),
    ProductBody([RoundBody(2), DiamondBody(2)]),
]


@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_levels_are_exact_at_every_size_and_type(body, seed):
    """The same points as Python integers, as int64, and in narrower types."""
    rng = np.random.default_rng(seed)
    for bits in (5, 20, 30, 31, 40, 52, 61, 62):
        z = rng.integers(-(1 << bits), 1 << bits, size=(200, body.dim))
        if isinstance(body, HistogramBody):
            z[:, -1] = 0
            z[:, 0] //= 2
            z[:, 1] = -z[:, 0]
        truth = body._level(z.astype(object))
        assert (body.level(z) == truth).all()
        if bits == 5:
            for kind in (np.int8, np.int16, np.int32):
                assert (body.level(z.astype(kind)) == truth).all()


@pytest.mark.parametrize("body", BODIES, ids=repr)
def test_tests_do_not_overflow_below_the_safe_level(body):
    """Corners of the box at the last safe level, in 64 bits and in Python integers."""
    if isinstance(body, (DiamondBody, HistogramBody, MomentLatticeBody, ProductBody)):
        return
    level = np.array([body.safe_level - 1])
    half = np.array([int(h) * int(level[0]) // body.den for h in body.half], dtype=object)
    corners = np.array(list(itertools.product((-1, 0, 1), repeat=body.dim)), dtype=object) * half
    small = body.inside(corners.astype(np.int64), np.repeat(level, len(corners)))
    big = body.inside(corners, np.repeat(level, len(corners)).astype(object))
    assert (small == big).all()
    assert (big == (body.level(corners) <= int(level[0]))).all()


@pytest.mark.parametrize(
    ("dim", "bits"),
    [
        (40, 59),
        pytest.param(200, 53, marks=pytest.mark.slow),
        pytest.param(200, 57, marks=pytest.mark.slow),
    ],
)
def test_thinning_does_not_overflow(dim, bits):
    """Sums of so many entries pass 2**63 before the entries pass 2**62."""
    body, n = SumBody(dim, dim // 4), 50
    z = lattice.under_diamond(body, Fraction(1, 1 << bits))(n, SeededSource(3))
    level = np.array([float(value) for value in body.level(z.astype(object))]) / 2.0**bits
    assert abs(level.mean() - dim) < 5 * math.sqrt(dim / n)  # Gamma(dim)


@pytest.mark.slow_for("*-57", "*-58")
@pytest.mark.parametrize("bits", [40, 57, 58, 59])
@pytest.mark.parametrize(
    "body",
    [DiamondBody(30), RoundBody(1), RoundBody(2), SquareBody(), MomentLatticeBody(1, "triples")],
    ids=repr,
)
def test_staircases_do_not_overflow(body, bits):
    """The law scales with L: mean levels over L agree with those of a small L."""
    n = 2000
    for epsilon in (Fraction(1, 5), Fraction(1)):  # by tilting, by a table
        means = []
        for length in (1 << 20, 1 << bits):
            z = LatticeNoise(body, epsilon, length, staircase=0.5).sample(n, rng=5)
            level = np.array([float(v) for v in body.level(z.astype(object))]) / length
            means.append((level.mean(), level.std() / math.sqrt(n)))
        assert abs(means[0][0] - means[1][0]) < 5 * math.hypot(means[0][1], means[1][1])


def test_table_noise_does_not_overflow():
    far = tdp.TableNoise([1, 1, 1], start=1 << 30, points=1 << 40, epsilon=1.0).sample(50, rng=1)
    assert all(1 << 70 <= z < 3 * 2**40 + (1 << 70) for z in far)
    edge = tdp.TableNoise([1, 1], start=(1 << 60) - 1, points=16, epsilon=1.0, dithered=True)
    assert all(16 * ((1 << 60) - 1) <= z <= 16 * ((1 << 60) + 1) for z in edge.sample(50, rng=1))
    with pytest.raises(ParameterError, match="start"):
        tdp.TableNoise([1], start=1 << 60, epsilon=1.0, atom=1)


def test_levels_of_something_else_are_refused():
    with pytest.raises(DimensionError):
        BoxBody([1, 1]).level(np.array([[1, 2, 3]]))
    with pytest.raises(ParameterError, match="integers"):
        LatticeNoise(BoxBody([1, 1]), 1, 1).exponent(np.array([[0.5, 1.0]]))
    for call in (lambda: BoxBody([0, 1]), lambda: BoxBody([]), lambda: BoxBody([1.5])):
        with pytest.raises(ParameterError):
            call()


# --- no more noise than the grid needs ------------------------------------------------------------

SHAPES = {
    "box": lambda r: tdp.LpBall(2, np.inf, [r, 2.5 * r]),
    "boxes": lambda r: tdp.LpBall(1, 1, r).product(tdp.LpBall(1, np.inf, 3 * r)),
    "polytope": lambda r: tdp.Polytope.from_vertices(
        r * np.array([[2, 1], [0, 1], [-2, -1], [0, -1]])
    ),
    "scaled": lambda r: tdp.Zonotope([[1, 0], [0, 1], [1, 1]]).scaled(r),
}


@pytest.mark.parametrize("name", SHAPES)
@pytest.mark.parametrize("radius", [1e-9, 1e-3, 1.0, 1e6, 1e17])
@pytest.mark.parametrize("points", [1, 3, 1000])
def test_boxes_and_polytopes_are_tight_on_every_grid(name, radius, points):
    """L B, the ball that the noise is made for, is the ball in grid units, hardly larger."""
    ball = SHAPES[name](radius)
    scale = points if points * radius >= 1 else math.ceil(points / radius)
    noise = lattice_noise(ball, 1.0, resolution=scale)
    away = np.array([[3, 1], [1, 0], [0, 1], [-1, 2], [1, 1]], dtype=object) * 10**24
    level = np.array([float(v) for v in noise.body.level(away)])
    gauge = np.asarray(ball.gauge(away.astype(float))) * 1.0 / scale
    grown = noise.sensitivity * gauge / level
    assert (grown >= 1 - 1e-9).all()  # never smaller than the ball: private
    assert (grown <= 1.001).all()


def test_every_difference_in_the_ball_is_paid_for():
    rng = np.random.default_rng(7)
    cloud = rng.normal(size=(6, 3))
    balls = [
        *(tdp.LpBall(2, p, r) for p in (1, 2, np.inf) for r in (0.1, 1 / 3, 0.7)),
        tdp.LpBall(2, np.inf, [0.1, 1 / 3]),
        tdp.K2().scaled(1 / 3),
        tdp.K3().scaled([0.7, 1.0, 2.0]),
        tdp.SumBall(3, 2).scaled(0.7),
        tdp.CountBall(3, 2).scaled(0.1),
        tdp.VoteBall(3).scaled(1 / 3),
        tdp.Polytope.hull_of(np.vstack([cloud, -cloud])),
        tdp.K2().scaled(0.7).product(tdp.LpBall(1, np.inf, 0.1)),
    ]
    for ball, points in itertools.product(balls, (1, 3, 10, 30, 97)):
        noise = lattice_noise(ball, 1.0, resolution=points)
        tips = np.asarray(ball.support_point(rng.normal(size=(300, ball.dim)))) * points
        corners = itertools.product((0, 1), repeat=ball.dim)
        z = np.unique(np.vstack([np.floor(tips + c) for c in corners]).astype(np.int64), axis=0)
        inside = z[np.asarray(ball.gauge(z / points)) <= 1]
        assert (noise.body.level(inside) <= noise.sensitivity).all()


def test_what_no_grid_can_carry_is_refused():
    long = tdp.Polytope.from_vertices([[1e16, 1.0], [-1e16, -1.0], [0.0, 1.0], [0.0, -1.0]])
    with pytest.raises(InfeasibleSamplingError, match="elongated"):
        lattice_noise(long, 1.0, resolution=1 << 40)
    with pytest.raises(ParameterError, match="sensitivity"):
        lattice_noise(tdp.LpBall(2, np.inf), 1.0, resolution=1 << 300)


# --- deltas are upper bounds ----------------------------------------------------------------------


def discrete_delta(epsilon, shift, sigma2):
    """The delta of the discrete Gaussian, to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        s2 = Decimal(sigma2.numerator) / Decimal(sigma2.denominator)
        reach = int(60 * float(sigma2) ** 0.5) + shift + 5
        total = 1 + 2 * sum((-(Decimal(z) ** 2) / (2 * s2)).exp() for z in range(1, reach))
        factor, lost = Decimal(epsilon).exp(), Decimal(0)
        for z in range(shift // 2, reach + shift):
            gain = (-(Decimal(z - shift) ** 2) / (2 * s2)).exp()
            lost += max(Decimal(0), gain - factor * (-(Decimal(z) ** 2) / (2 * s2)).exp())
        return Fraction(lost / total)


@pytest.mark.parametrize(
    ("epsilon", "shift", "delta"),
    [
        (100, 1, 4.380585108410746e-37),  # the sum hangs on a difference of 1e-15 in an exponent
        (100, 1, 5.54313731075022e-44),
        (700, 2, 1.6044050760615773e-41),
        (700, 1, 4.565657984624151e-50),
        (1024, 17, 1.0986997507962627e-67),
        (40, 1, 1e-16),
        (2, 1, 4.6025368154495205e-74),
        (1, 1, 1e-6),
    ],
)
def test_the_discrete_gaussian_keeps_its_delta(epsilon, shift, delta):
    law = DiscreteGaussian(epsilon=epsilon, delta=delta, sensitivity=shift)
    assert discrete_delta(epsilon, shift, law.sigma2) <= Fraction(delta)


def test_the_continuous_gaussian_delta_is_rounded_up():
    """Against the integral of the hockey-stick by a series of 50 digits."""

    def tail(x):  # P(N > x), x > 3, by the continued fraction of the Mills ratio
        ratio = Decimal(0)
        for k in range(400, 0, -1):
            ratio = k / (x + ratio)
        two_pi = 2 * Decimal("3.14159265358979323846264338327950288419716939937510582097494459")
        return (-x * x / 2).exp() / two_pi.sqrt() / (x + ratio)

    with localcontext() as context:
        context.prec = 60
        for epsilon, ratio in itertools.product((5.0, 100.0, 1024.0), (0.5, 1.0, 6.0, 25.0)):
            r, e = Decimal(ratio), Decimal(epsilon)
            x, y = e / r - r / 2, e / r + r / 2
            if not 3 < x < 35:
                continue
            truth = tail(x) - e.exp() * tail(y)
            got = Decimal(gaussian_delta(epsilon, ratio))
            assert truth <= got <= truth * (1 + Decimal(2) ** -30)


# --- foreign errors -------------------------------------------------------------------------------

VALUES = [
    *(math.nan, math.inf, -math.inf, 0, -1, True, "1", None, 1j, b"1", [], {}, object()),
    *(10**400, -(10**400), 10**5000, -(10**5000), Fraction(10**400, 3), Fraction(-(10**5000), 3)),
    *(Decimal("NaN"), Decimal("1e900"), np.array([1.0]), 5e-324, 1e-300, 1e300),
]
LAWS = {
    "Laplace": (tdp.Laplace, {}),
    "TruncatedLaplace": (tdp.TruncatedLaplace, {"delta": 0.1}),
    "Staircase": (tdp.Staircase, {"core_share": 0.5}),
    "Gaussian": (tdp.Gaussian, {"delta": 0.1}),
    "AnalyticGaussian": (tdp.AnalyticGaussian, {"delta": 0.1}),
    "DiscreteGaussian": (tdp.DiscreteGaussian, {"delta": 0.1, "sigma2": 100}),
    "Tulap": (tdp.Tulap, {"delta": 0.1}),
    "Geometric": (tdp.Geometric, {}),
    "KNormNoise": (lambda sensitivity, **k: tdp.KNormNoise(tdp.LpBall(2, 2), **k), {}),
    "PiecewiseNoise": (
        lambda **k: tdp.PiecewiseNoise([1, 2, 1], start=-1, **k),
        {"cell_width": 0.5, "atom": 1},
    ),
    "LatticeNoise": (lambda **k: LatticeNoise(BoxBody([1]), **k), {"staircase": 0.5}),
}


@pytest.mark.parametrize("name", LAWS)
def test_bad_parameters_raise_our_errors_only(name):
    make, extra = LAWS[name]
    good = {"epsilon": 0.5, "sensitivity": 2, **extra}
    for field, value in itertools.product(good, VALUES):
        if value is None and field in ("core_share", "sigma2", "staircase"):
            continue
        try:
            law = make(**{**good, field: value})
        except TightdpError:
            continue
        assert all(math.isfinite(x) for x in np.ravel(law.sample(3, rng=1)))


# --- permutations ---------------------------------------------------------------------------------


class Ties(RandomSource):
    """Two equal words first, then seeded ones."""

    seeded = True

    def __init__(self):
        self.rest, self.calls = SeededSource(1), 0

    def words(self, count):
        self.calls += 1
        return np.zeros(count, np.uint64) if self.calls == 1 else self.rest.words(count)


def test_equal_words_do_not_favour_a_permutation():
    source = Ties()
    rows = source.permutations(2000, 3)
    assert source.calls >= 2
    assert not (rows == [0, 1, 2]).all()
    assert (np.sort(rows, axis=1) == [0, 1, 2]).all()
    _, counts = np.unique(rows, axis=0, return_counts=True)
    assert len(counts) == 6
    assert np.abs(counts - 2000 / 6).max() < 5 * math.sqrt(2000 / 6)


# --- the sensitivity of a guarantee ---------------------------------------------------------------


def test_a_sensitivity_just_beyond_a_step_costs_the_next_one():
    """Quotients that round to a whole number in floats are taken exactly."""
    for law in (
        tdp.Staircase(epsilon=1.0, sensitivity=0.1),
        tdp.Tulap(epsilon=1.0, sensitivity=0.1),
    ):
        width = Fraction(0.1)
        for k in range(1, 40):
            just_over = math.nextafter(float(k * width), math.inf)
            if Fraction(just_over) > k * width:
                assert law.guarantee(just_over).epsilon == k + 1
    assert tdp.Staircase(epsilon=1.0, sensitivity=Fraction(1, 10)).guarantee().epsilon == 1


def test_tables_of_one_size_have_names_of_their_own():
    """Requests are told apart by the words for their noise."""
    given = {"start": -1, "cell_width": 1, "epsilon": 1}
    laws = [tdp.PiecewiseNoise(w, **given) for w in ([1, 2, 1], [1, 3, 1])]
    assert repr(laws[0]) != repr(laws[1])
    assert repr(laws[0].lattice(1)) != repr(laws[1].lattice(1))
