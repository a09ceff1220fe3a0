"""Exact lattice noise: its law by enumeration, its privacy by enumeration, its mutants caught."""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.errors import InfeasibleSamplingError, ParameterError, WideIntegers
from tightdp.exact.discrete_draws import discrete_laplaces, geometric_sums
from tightdp.exact.lattice_bodies import (
    CountBody,
    DiamondBody,
    DiamondBound,
    PolytopeBody,
    ReplacedCountBody,
    RoundBody,
    SumBody,
)
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody, TestedBody, ceil_sqrt
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.lattice_moments import MomentLatticeBody, RecordBody, SquareBody
from tightdp.exact.lattice_optional import OptionalRecordBody
from tightdp.exact.lattice_posets import PosetBody
from tightdp.geometry.poset_ball import PosetBall, ReplacedPosetBall
from tightdp.noise import lattice
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import default_resolution, lattice_body, lattice_noise
from tightdp.privacy import Numerics
from tightdp.randomness import SeededSource

DRAWS = 400_000
HEXAGON = PolytopeBody(np.array([[1, 0], [0, 1], [1, 1]]), np.array([1, 1, 1]), [1, 1])

# Each body with an awkward rate and the level up to which its law is enumerated.
EXAMPLES: dict[type[LatticeBody], list[tuple[LatticeBody, str, int]]] = {
    BoxBody: [
        (BoxBody([1]), "2/3", 30),
        (BoxBody([1, 1]), "4/5", 20),
        (BoxBody([3, 5], 2), "9/10", 12),
        (BoxBody([1, 2, 1]), "3/2", 9),
    ],
    DiamondBody: [(DiamondBody(2), "7/9", 25), (DiamondBody(3), "6/5", 15)],
    RoundBody: [(RoundBody(2), "1/2", 25), (RoundBody(3), "4/5", 14), (RoundBody(4), "1/2", 8)],
    SquareBody: [(SquareBody(), "1", 14), (SquareBody(), "3/7", 25)],
    SumBody: [(SumBody(3, 4, 2), "9/10", 9), (SumBody(3, 2), "1", 12), (SumBody(4, 1), "2", 7)],
    CountBody: [(CountBody(3, 2), "1", 12), (CountBody(2, 1), "2/3", 18)],
    ReplacedCountBody: [(ReplacedCountBody(3, 1), "1", 9), (ReplacedCountBody(4, 2), "2", 5)],
    PosetBody: [
        (PosetBody(PosetBall(3, [(0, 1), (1, 2)])), "1", 10),
        (PosetBody(PosetBall(4, [(0, 2), (1, 2), (1, 3)])), "2", 6),
        (PosetBody(ReplacedPosetBall(3, [(0, 2), (1, 2)])), "1", 9),
        (PosetBody(ReplacedPosetBall(4, [(0, 1), (1, 2)])), "2", 5),
    ],
    PolytopeBody: [(HEXAGON, "4/5", 20)],
    HistogramBody: [
        (HistogramBody(2), "7/9", 25),
        (HistogramBody(3), "1", 18),
        (HistogramBody(4), "6/5", 10),
    ],
    MomentLatticeBody: [
        (MomentLatticeBody(1, "cylinder"), "3/2", 4),
        (MomentLatticeBody(1, "triples"), "3/2", 4),
        (MomentLatticeBody(1, "triangle"), "3/2", 4),
    ],
    RecordBody: [(RecordBody(1), "1", 12)],
    OptionalRecordBody: [
        (OptionalRecordBody(BoxBody([1, 1])), "1", 14),
        (OptionalRecordBody(RecordBody(1)), "3/2", 8),
    ],
    ProductBody: [
        (ProductBody([BoxBody([1]), HistogramBody(3)]), "3/2", 9),
        (ProductBody([DiamondBody(2), BoxBody([2])]), "6/5", 9),
        (ProductBody([HistogramBody(2), RoundBody(2)]), "3/2", 8),
    ],
}
CASES = [case for cases in EXAMPLES.values() for case in cases]


def subclasses(base: type) -> set[type]:
    found = set(base.__subclasses__())
    return found.union(*(subclasses(child) for child in found))


def test_every_body_is_tested() -> None:
    ours = {c for c in subclasses(LatticeBody) if c.__module__.startswith("tightdp.")}
    assert ours - {TestedBody, DiamondBound} == set(EXAMPLES)


def points_up_to(body: LatticeBody, top: int) -> WideIntegers:
    """All lattice points of level <= top."""
    if isinstance(body, ProductBody):
        blocks = [points_up_to(part, top) for part in body.bodies]
        return np.array([np.concatenate(choice) for choice in itertools.product(*blocks)])
    half = np.ones(body.dim, dtype=np.int64)
    if isinstance(body, TestedBody):
        half = -(-body.half // body.den)
    if isinstance(body, MomentLatticeBody):
        half = 2 * half
    sides = [np.arange(-h * top, h * top + 1) for h in half]
    z = np.stack(np.meshgrid(*sides, indexing="ij"), axis=-1).reshape(-1, body.dim)
    if isinstance(body, HistogramBody):
        z = z[z.sum(axis=1) == 0]
    return z[body.level(z) <= top]


def chi_square(observed: WideIntegers, weights: np.ndarray) -> float:
    """p-value of counts against weights, rare cells pooled."""
    expected = weights / weights.sum() * observed.sum()
    common = expected >= 8
    o = np.append(observed[common], observed[~common].sum())
    e = np.append(expected[common], expected[~common].sum())
    if e[-1] < 8:
        o, e = o[:-1], e[:-1]
        e *= o.sum() / e.sum()
    return float(stats.chi2.sf(np.sum((o - e) ** 2 / e), len(o) - 1))


def law_p_values(noise: LatticeNoise, z: WideIntegers, top: int) -> tuple[float, float]:
    """Points and levels of draws, given a level of at most ``top``, against the enumerated law."""
    grid = points_up_to(noise.body, top)
    exponent = noise.exponent(grid).astype(float)
    weights = np.exp(-float(noise.unit) * exponent)
    inside = z[noise.body.level(z) <= top].astype(np.int64)
    base = 2 * int(np.abs(grid).max()) + 1
    code = (base ** np.arange(noise.dim)).astype(np.int64)
    order = np.argsort(grid @ code)
    place = order[np.searchsorted((grid @ code)[order], inside @ code)]
    points = chi_square(np.bincount(place, minlength=len(grid)), weights)
    levels = noise.body.level(grid)
    mass = np.bincount(levels, weights=weights, minlength=top + 1)
    seen = np.bincount(noise.body.level(inside), minlength=top + 1)
    return points, chi_square(seen[mass > 0], mass[mass > 0])


@pytest.mark.slow_for(
    "ProductBody(dim=4)-3/2_1",
    "RoundBody(dim=[23])-*",
    "SumBody(dim=3)-*",
    "HistogramBody(dim=[23])-*",
    "*'cylinder')-3/2",
    "*'triples')-3/2",
    "CountBody(dim=2)-2/3",
    "BoxBody(dim=2)-*",
)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]!r}-{c[1]}")
def test_law(case: tuple[LatticeBody, str, int], seed: int) -> None:
    body, rate, top = case
    noise = LatticeNoise(body, Fraction(rate), 1)
    z = noise.sample(DRAWS, rng=seed)
    points, levels = law_p_values(noise, z, top)
    assert points > 1e-6
    assert levels > 1e-6
    # the share beyond the window is right too: total mass by extending the window geometrically
    weak = LatticeNoise(body, Fraction(rate) * Fraction(10, 9), 1)
    assert min(law_p_values(noise, weak.sample(DRAWS, rng=seed), top)) < 1e-6  # noise x 0.9


@pytest.mark.slow_for(
    "SumBody(dim=4)-2",
    "*'triangle')-3/2",
    "*'cylinder')-3/2",
    "BoxBody(dim=[12])-*",
    "ProductBody(dim=4)-3/2_1",
)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]!r}-{c[1]}")
def test_fast_samplers_have_the_law_of_restarting(
    case: tuple[LatticeBody, str, int], seed: int
) -> None:
    body, rate, top = case
    noise = LatticeNoise(body, Fraction(rate), 1)
    z = lattice.restart(body, noise.rate)(DRAWS // 4, SeededSource(seed))
    assert min(law_p_values(noise, z, top)) > 1e-6


def test_halving_has_the_law(seed: int) -> None:
    """l2 noise by halves, at rates coarse enough to enumerate."""
    for dim, rate, top in ((2, "1/2", 25), (3, "4/5", 14), (4, "1", 8)):
        noise = LatticeNoise(RoundBody(dim), Fraction(rate), 1)
        z = lattice.halves(dim, noise.rate)(DRAWS // 4, SeededSource(seed))
        assert min(law_p_values(noise, z, top)) > 1e-6


def test_thinned_diamonds_have_the_law(seed: int) -> None:
    """Sum and count balls of low acceptance are thinned from l1 noise: same law."""
    thinned = (
        (SumBody(3, 2), 12),
        (CountBody(3, 2), 12),
        (ReplacedCountBody(3, 1), 9),
        (PosetBody(PosetBall(4, [(0, 1), (2, 3)])), 6),
        (PosetBody(ReplacedPosetBall(3, [(0, 1), (1, 2)])), 9),
    )
    for body, top in thinned:
        noise = LatticeNoise(body, 1, 1)
        z = lattice.under_diamond(body, noise.rate)(DRAWS, SeededSource(seed))
        assert min(law_p_values(noise, z, top)) > 1e-6


# --- mutants that must be caught -----------------------------------------------------------------


def keep_the_level(noise: LatticeNoise, size: int, rng: SeededSource) -> WideIntegers:
    """Mutant: a refused point is drawn again at the same level."""
    body = noise.body
    levels = geometric_sums(body.rank + 1, *noise.rate.as_integer_ratio(), size, rng)
    out, missing = np.zeros((size, body.dim), dtype=np.int64), np.arange(size)
    while missing.size:
        z, rows = body.propose(levels[missing], 0, rng)
        out[missing[rows]] = z
        missing = np.delete(missing, rows)
    return out


def zero_twice(noise: LatticeNoise, size: int, rng: SeededSource) -> WideIntegers:
    """Mutant: a sign and a geometric size, minus zero accepted."""
    levels = geometric_sums(1, *noise.rate.as_integer_ratio(), (size, noise.dim), rng)
    return levels * rng.signs(levels.shape).astype(np.int64)


def too_few_geometrics(noise: LatticeNoise, size: int, rng: SeededSource) -> WideIntegers:
    """Mutant: m geometrics instead of m + 1."""
    body = noise.body
    levels = geometric_sums(body.rank, *noise.rate.as_integer_ratio(), 3 * size, rng)
    return body.propose(levels, 0, rng)[0][:size]


def rounded_floats(noise: LatticeNoise, size: int, rng: SeededSource) -> WideIntegers:
    """Mutant: the continuous law rounded to integers."""
    continuous = tdp.KNormNoise(tdp.K2(), float(noise.rate))
    return np.rint(continuous.sample(size, rng=rng)).astype(np.int64)


@pytest.mark.slow_for("keep_the_level-body2-*", "keep_the_level-body3-*")
@pytest.mark.parametrize(
    ("mutant", "body", "rate", "top"),
    [
        (keep_the_level, SquareBody(), "1", 14),
        (keep_the_level, RoundBody(3), "4/5", 14),
        (keep_the_level, SumBody(3, 4, 2), "9/10", 9),
        (keep_the_level, HistogramBody(4), "6/5", 10),
        (zero_twice, DiamondBody(2), "7/9", 25),
        (too_few_geometrics, SquareBody(), "1", 14),
        (rounded_floats, SquareBody(), "1", 14),
    ],
)
def test_mutants_are_rejected(
    mutant: Callable[..., WideIntegers], body: LatticeBody, rate: str, top: int, seed: int
) -> None:
    noise = LatticeNoise(body, Fraction(rate), 1)
    assert min(law_p_values(noise, mutant(noise, DRAWS, SeededSource(seed)), top)) < 1e-6


def test_keeping_the_level_is_not_private() -> None:
    """Exact enumeration: the mutant's law on K2 at rate 1 violates epsilon = 1."""
    body, top = SquareBody(), 40
    grid = points_up_to(body, top)
    level = body.level(grid)
    count = np.cumsum(np.bincount(level, minlength=top + 1))
    j = np.arange(top + 1)
    weight = np.array([math.comb(int(k) + 2, 2) * math.exp(-int(k)) for k in j]) / count
    density = np.cumsum(weight[::-1])[::-1]  # P(z) by level, up to a constant
    loss = np.log(density[:-1] / density[1:])[:20].max()
    assert loss > 1.05


# --- privacy by enumeration ----------------------------------------------------------------------


def violations(
    level: Callable[[WideIntegers], WideIntegers], grid: WideIntegers, shifts: WideIntegers
) -> int:
    """How many pairs (z, u) break level(z - u) <= level(z) + level(u)."""
    at_z, at_u = level(grid), level(shifts)
    return sum(int(np.sum(level(grid - u) > at_z + lu)) for u, lu in zip(shifts, at_u, strict=True))


@pytest.mark.parametrize("body", [case[0] for case in CASES], ids=repr)
def test_levels_are_subadditive(body: LatticeBody, seed: int) -> None:
    """Privacy rests on it: half a million pairs in integers, vertices of the body included."""
    grid = points_up_to(body, 6 if body.dim <= 3 else 3)
    rng = np.random.default_rng(seed)
    shifts = grid[rng.choice(len(grid), size=min(len(grid), 600), replace=False)]
    far = grid[np.abs(grid).sum(axis=1) >= np.abs(grid).sum(axis=1).max()]
    shifts = np.vstack([shifts, far[:50]])
    sample = grid[rng.choice(len(grid), size=min(len(grid), 4000), replace=False)]
    repeats = max(1, 500_000 // (len(sample) * len(shifts)) + 1)
    checked = 0
    for scale in range(1, repeats + 1):
        assert violations(body.level, scale * sample, shifts) == 0
        checked += len(sample) * len(shifts)
        if checked >= 500_000:
            break
    assert checked >= 500_000


def test_floor_for_ceil_is_caught() -> None:
    """Mutant: gauges rounded down instead of up are not subadditive."""
    grid = points_up_to(RoundBody(2), 6)
    assert violations(lambda z: np.floor(np.hypot(*z.T)).astype(int), grid, grid) > 0


@pytest.mark.parametrize("body", [case[0] for case in CASES], ids=repr)
def test_level_is_the_gauge_rounded_up(body: LatticeBody, seed: int) -> None:
    balls: dict[str, tdp.NormBall] = {
        "BoxBody(dim=1)": tdp.LpBall(1, 1),
        "BoxBody(dim=2)": tdp.LpBall(2, np.inf),
        "DiamondBody(dim=2)": tdp.LpBall(2, 1),
        "RoundBody(dim=3)": tdp.LpBall(3, 2),
        "SquareBody(dim=2)": tdp.K2(),
        "CountBody(dim=3)": tdp.CountBall(3, 2),
        "ReplacedCountBody(dim=3)": tdp.ReplacedCountBall(3, 1),
        "ReplacedCountBody(dim=4)": tdp.ReplacedCountBall(4, 2),
        "HistogramBody(dim=4)": tdp.HistogramBall(4),
        "PolytopeBody(dim=2)": tdp.Polytope.from_facets(HEXAGON.rows.astype(float)),
        "MomentLatticeBody(p=1, kind='cylinder')": tdp.MomentBody(1, "cylinder"),
        "MomentLatticeBody(p=1, kind='triples')": tdp.MomentBody(1, "triples"),
        "MomentLatticeBody(p=1, kind='triangle')": tdp.MomentBody(1, "triangle"),
    }
    ball = body.ball if isinstance(body, PosetBody) else balls.get(repr(body))
    if ball is None or (isinstance(body, BoxBody) and body.den > 1):
        return
    z = np.random.default_rng(seed).integers(-1000, 1000, size=(5000, body.dim))
    if isinstance(body, HistogramBody):
        z[:, -1] = -z[:, :-1].sum(axis=1)
    gauge = ball.gauge(z.astype(float))
    level = body.level(z)
    assert (level >= gauge - 1e-9 * gauge).all()
    assert (level < gauge + 1 + 1e-9 * gauge).all()


# --- big integers --------------------------------------------------------------------------------


@pytest.mark.slow_for(
    "SumBody(dim=4)-2",
    "RoundBody(dim=4)-1/2",
    "RoundBody(dim=3)-4/5",
    "*'triangle')-3/2",
    "*'cylinder')-3/2",
    "CountBody(dim=3)-1",
    "SumBody(dim=3)-1",
)
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]!r}-{c[1]}")
def test_big_integers_continue_the_same_draw(
    case: tuple[LatticeBody, str, int], seed: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    """With a low safe level most rows run in Python integers; the law stays."""
    body, rate, top = case
    noise = LatticeNoise(body, Fraction(rate), 1)
    share = body.share  # measured before the patch
    assert 0 < share <= 1
    monkeypatch.setattr(type(body), "safe_level", 3, raising=False)
    body.__dict__.pop("safe_level", None)
    z = lattice.restart(body, noise.rate)(20_000, SeededSource(seed))
    assert z.dtype == object
    assert all(isinstance(value, int) for value in z[:50].ravel())
    assert min(law_p_values(noise, z, min(top, 8))) > 1e-6


def test_huge_levels_are_not_truncated() -> None:
    tiny = Fraction(1, 1 << 39)
    for body in (DiamondBody(2), RoundBody(3), SquareBody(), HistogramBody(3)):
        z = LatticeNoise(body, tiny, 1 << 30).sample(20, rng=1)
        assert z.dtype == object
        assert max(abs(int(value)) for value in z.ravel()) > 1 << 62
        assert body.level(z).dtype == object


def test_ceil_sqrt() -> None:
    near = np.array([k * k + d for k in (1, 2, 1000, 2**26, 2**30) for d in (-1, 0, 1)])
    expected = [math.isqrt(int(s) - 1) + 1 if s > 0 else 0 for s in near]
    np.testing.assert_array_equal(ceil_sqrt(near), expected)
    np.testing.assert_array_equal(
        ceil_sqrt(near.astype(object) * 2**80 * 2**80),
        [math.isqrt(int(s) * 2**160 - 1) + 1 if s else 0 for s in near],
    )
    assert ceil_sqrt(np.array([0]))[0] == 0


# --- the family of laws --------------------------------------------------------------------------


@pytest.mark.parametrize("body", [BoxBody([1, 1]), RoundBody(2), DiamondBody(1), SquareBody()])
@pytest.mark.parametrize("share", ["0", "1/4", "1/2", "3/4"])
def test_staircase_law(body: LatticeBody, share: str, seed: int) -> None:
    noise = LatticeNoise(body, Fraction(3, 2), 4, staircase=Fraction(share))
    z = noise.sample(DRAWS // 2, rng=seed)
    assert min(law_p_values(noise, z, 12)) > 1e-6
    grid = points_up_to(body, 12)
    u = grid[body.level(grid) <= 4]
    change = [np.abs(noise.exponent(grid - v) - noise.exponent(grid)).max() for v in u]
    assert max(change) == 1  # one unit, that is epsilon


def test_staircase_beats_laplace_in_one_dimension(seed: int) -> None:
    """E|z| / L against e^(epsilon/2) / (e^epsilon - 1) and 1 / epsilon at epsilon = 5."""
    length, epsilon = 256, 5.0
    best = 1 / (1 + math.exp(epsilon / 2))
    z = LatticeNoise(DiamondBody(1), epsilon, length, staircase=best).sample(DRAWS, rng=seed)
    mean = np.abs(z).mean() / length
    assert mean == pytest.approx(0.08264, rel=0.02)
    assert mean < 0.5 / epsilon


# --- from balls to noise -------------------------------------------------------------------------

BALLS: dict[str, tdp.NormBall] = {
    "l1": tdp.LpBall(4, 1, 2.5),
    "l2": tdp.LpBall(4, 2, 0.3),
    "linf": tdp.LpBall(4, np.inf, 2.0),
    "box": tdp.LpBall(3, np.inf, [1.0, 2.5, 0.3]),
    "K2": tdp.K2(),
    "K3 scaled": tdp.K3().scaled(1.7),
    "sum": tdp.SumBall(8, 2),
    "count": tdp.CountBall(8, 2),
    "replaced count": tdp.ReplacedCountBall(8, 2),
    "histogram": tdp.HistogramBall(5),
    "vote": tdp.VoteBall(3),
    "poset": tdp.Polytope.hull_of(
        np.vstack([tdp.PosetBall(3, [(0, 2)]).vertices(), -tdp.PosetBall(3, [(0, 2)]).vertices()])
    ),
    "chains": tdp.PosetBall(6, [(0, 1), (1, 2), (3, 4), (4, 5)]),
    "replaced tree": tdp.ReplacedPosetBall(5, [(0, 2), (1, 2), (2, 4), (3, 4)]),
    "zonotope": tdp.Zonotope([[1, 0], [0, 1], [1, 1]]),
    "mixed": tdp.LpBall(2, np.inf, 2.0).product(tdp.HistogramBall(3)),
    "cylinder": tdp.MomentBody(2, "cylinder"),
    "triangle": tdp.MomentBody(2, "triangle"),
}


@pytest.mark.slow_for("triangle", "cylinder")
@pytest.mark.parametrize("name", BALLS)
def test_lattice_noise_of_a_ball(name: str, seed: int) -> None:
    """Fine grids approach the continuous law; every integer difference in the ball is paid for."""
    ball, resolution = BALLS[name], 1 << 12
    noise = lattice_noise(ball, 1.0, resolution=resolution)
    assert noise.numerics is Numerics.EXACT
    z = noise.sample(60_000, rng=seed)
    assert z.dtype == np.int64
    values = z / resolution
    expected = tdp.KNormNoise(ball, 1.0).covariance_info()
    found = (values**2).mean(axis=0)
    error = (values**2).std(axis=0) / np.sqrt(len(values))
    target = np.diag(expected.value)
    slack = 5 * np.hypot(error, np.diag(expected.standard_error)) + 0.01 * target
    assert (np.abs(found - target) <= slack).all()
    inside = np.trunc(resolution * ball.sample(2_000, rng=seed)).astype(np.int64)
    if ball.rank < ball.dim:
        inside = inside[ball.contains(inside / resolution)]
    corners = ball.support_point(np.random.default_rng(seed).normal(size=(50, ball.dim)))
    exact = [u for u in np.rint(resolution * corners) if ball.contains(u / resolution)]
    for u in [*inside, *exact]:
        if ball.gauge(u / resolution) <= 1:
            assert noise.body.level(np.array([u], dtype=np.int64))[0] <= noise.sensitivity


def test_sensitivity_is_rounded_to_the_private_side() -> None:
    assert lattice_noise(tdp.LpBall(2, 1, 0.3), 1.0, resolution=10).sensitivity == 3
    assert lattice_noise(tdp.LpBall(2, 1, 0.31), 1.0, resolution=10).sensitivity == 4
    noise = lattice_noise(tdp.LpBall(2, 1, 1 / 3), 0.1, resolution=1000)
    assert noise.rate * noise.sensitivity <= Fraction(0.1)
    assert lattice_noise(tdp.LpBall(2, 1, 2.0), 1.0, resolution=8, rounded=True).sensitivity == 18


@pytest.mark.parametrize("k", [3, 5, 8])
def test_rounding_whole_contributions_needs_inflation(k: int) -> None:
    """Records (x, 2 x^2) rounded to 2^-k: levels reach 2^k + 1 on K2, not 2^k (brute force)."""
    scale = 1 << k
    x = np.linspace(-1, 1, 2001 if k < 8 else 4001)
    t = np.floor(np.column_stack([x, 2 * x**2]) * scale + 0.5).astype(np.int64)
    worst = max(int(SquareBody().level(t - row).max()) for row in np.unique(t, axis=0))
    assert worst == scale + 1
    assert lattice_noise(tdp.K2(), 1.0, resolution=scale, rounded=True).sensitivity == scale + 1
    assert lattice_noise(tdp.K2(), 1.0, resolution=scale).sensitivity == scale  # the mutant


@pytest.mark.parametrize("k", [2, 3])
def test_rounding_cells_needs_none(k: int) -> None:
    """Quantise the data, not the statistic: levels stay within 2^k, all pairs of grid rows."""
    side = np.arange(-(1 << k), (1 << k) + 1)
    for kind in ("cylinder", "triangle"):
        body = MomentLatticeBody(1, kind)
        x, y = (v.ravel() for v in np.meshgrid(side, side))
        t = np.column_stack([x << k, 2 * x * x, y << k, x * y])  # in units of 4^-k
        worst = max(int(body.level(t - row).max()) for row in t)
        assert worst == 1 << (2 * k)


def test_resolution_from_public_facts() -> None:
    assert default_resolution(1, 1.0) == 1 << 20
    assert default_resolution(100, 0.001) < 1 << 12
    assert default_resolution(1000, Fraction(1, 1 << 40)) == 1


@pytest.mark.parametrize(
    "ball",
    [
        tdp.LpBall(3, 3),
        tdp.LpBall(2, 1, [1, 2]),
        tdp.LpBall(2, 2, [1, 2]),
        tdp.Ellipsoid(np.eye(2)),
        tdp.MomentBody(2, "nuclear"),
        tdp.K2().product(tdp.K2().scaled(2.0)),
    ],
    ids=repr,
)
def test_bodies_without_a_sampler_are_refused(ball: tdp.NormBall) -> None:
    with pytest.raises(InfeasibleSamplingError):
        lattice_body(ball)


def test_hopeless_acceptance_is_refused_before_sampling() -> None:
    with pytest.raises(InfeasibleSamplingError, match="one proposal in"):
        LatticeNoise(MomentLatticeBody(12, "triangle"), 1.0, 1).sample(1)
    with pytest.raises(InfeasibleSamplingError, match="so coarse a rate"):
        LatticeNoise(MomentLatticeBody(25, "cylinder"), 1.0, 1).sample(1)


@pytest.mark.parametrize(
    "epsilon", [0, -1, float("nan"), float("inf"), True, "1", 5e-324, 1e6, None, 1j]
)
def test_bad_epsilon(epsilon: object) -> None:
    with pytest.raises(ParameterError, match="epsilon"):
        LatticeNoise(DiamondBody(2), epsilon, 1)


def test_large_epsilon_has_the_exact_law(seed: int) -> None:
    z = LatticeNoise(DiamondBody(1), 5, 1).sample(DRAWS, rng=seed)
    miss = np.mean(z != 0)
    expected = 2 * math.exp(-5) / (1 + math.exp(-5))
    assert abs(miss - expected) < 5 * math.sqrt(expected / DRAWS)
    assert not LatticeNoise(DiamondBody(1), 50, 1).sample(1000, rng=seed).any()


def test_bad_input() -> None:
    with pytest.raises(ParameterError, match="LatticeBody"):
        LatticeNoise(tdp.K2(), 1.0, 1)  # type: ignore[arg-type]
    for sensitivity in (0, -1, 1.5, True):
        with pytest.raises(ParameterError, match="sensitivity"):
            LatticeNoise(DiamondBody(1), 1.0, sensitivity)  # type: ignore[arg-type]
    for share in (1, -0.1, float("nan")):
        with pytest.raises(ParameterError, match="staircase"):
            LatticeNoise(DiamondBody(1), 1.0, 4, staircase=share)
    with pytest.raises(ParameterError, match="sum to 0"):
        HistogramBody(3).level(np.array([[1, 0, 0]]))
    with pytest.raises(ParameterError, match="resolution"):
        lattice_noise(tdp.K2(), 1.0, resolution=0)
    with pytest.raises(ParameterError, match="flat"):
        lattice_noise(tdp.HistogramBall(3), 1.0, resolution=4, rounded=True)


def test_shapes_and_sources(seed: int) -> None:
    noise = LatticeNoise(BoxBody([1, 2]), 0.5, 3)
    assert noise.sample(rng=seed).shape == (2,)
    assert noise.sample(0).shape == (0, 2)
    np.testing.assert_array_equal(noise.sample(5, rng=seed), noise.sample(5, rng=seed))
    assert not np.array_equal(noise.sample(50), noise.sample(50))
    assert "epsilon=0.5" in repr(noise)
    assert "staircase" in repr(LatticeNoise(BoxBody([1]), 1, 2, staircase=0.5))


def test_l1_is_independent_discrete_laplace(seed: int) -> None:
    noise = LatticeNoise(DiamondBody(3), Fraction(2, 3), 5)
    same = discrete_laplaces(*noise.rate.as_integer_ratio(), (10, 3), SeededSource(seed))
    np.testing.assert_array_equal(noise.sample(10, rng=seed), same)


@pytest.mark.slow
@pytest.mark.parametrize("case", CASES, ids=lambda c: f"{c[0]!r}-{c[1]}")
def test_law_with_six_million_draws(case: tuple[LatticeBody, str, int], seed: int) -> None:
    body, rate, top = case
    noise = LatticeNoise(body, Fraction(rate), 1)
    assert min(law_p_values(noise, noise.sample(6_000_000, rng=seed), top)) > 1e-6
