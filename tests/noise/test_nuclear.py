"""Nuclear noise: closed forms, the exact sampler against integrals, and faults that are noticed."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from scipy import stats

import tightdp as tdp
from tightdp.errors import InfeasibleSamplingError
from tightdp.exact import nuclear_draws, nuclear_proposals
from tightdp.exact.fixed_point import Fixed, UnsettledError, pivots
from tightdp.exact.nuclear_draws import (
    Layout,
    Proposals,
    fixed_factors,
    nuclear_integers,
    settled,
)
from tightdp.exact.rejection import WeightTable
from tightdp.exact.undecided_normals import Uniforms, normals
from tightdp.geometry.nuclear_spectrum import (
    draw_replaced,
    mixture,
    replaced_spectrum,
    spectrum,
)
from tightdp.noise.nuclear import matrices_like
from tightdp.randomness import SeededSource, source

ERRORS = 4.5  # standard errors
RATE = Fraction(7, 10)  # of the coarse lattice: few cells hold nearly everything


# --- sizes in closed form -------------------------------------------------------------------------


def test_integrals_are_those_of_quadrature() -> None:
    # N = 2: entries (a, b, c); eigenvalues (a + c)/2 +- sqrt((a - c)^2/4 + b^2)
    x = np.linspace(-30, 30, 1501)
    s, d = np.meshgrid(x, x[x > 0], indexing="ij")  # ordered eigenvalues m -+ r
    density = 2 * d * np.exp(-np.abs(s - d) - np.abs(s + d))  # difference 2r, dm dr times 2
    step = x[1] - x[0]
    log_ordered = spectrum(2).log_integral - (2 * math.log(math.pi) - _log_multigamma(2))
    assert math.exp(log_ordered) == pytest.approx(2 * density.sum() * step**2, rel=1e-3)
    squares = (2 * (s**2 + d**2) * density).sum() / density.sum()
    assert spectrum(2).squares == pytest.approx(squares, rel=1e-3)
    assert spectrum(2).trace == pytest.approx((4 * s**2 * density).sum() / density.sum(), rel=1e-3)


def _log_multigamma(n: int) -> float:
    return n * (n - 1) / 4 * math.log(math.pi) + sum(math.lgamma((n - i) / 2) for i in range(n))


@pytest.mark.parametrize("size", [2, 3, 5, 8])
def test_simulated_matrices_have_the_moments(size: int, seed: int) -> None:
    draws = matrices_like(size, 20_000, SeededSource(seed))
    ball = tdp.NuclearBall(size)
    wanted = (ball.dim + 1) * (ball.dim + 2) * ball.second_moment.value
    squares = draws**2
    off = (squares.mean(axis=0) - np.diag(wanted)) / (squares.std(axis=0) / math.sqrt(len(draws)))
    # beyond seven rows the spectra are a pool of 4,096, used several times each
    assert np.abs(off).max() < ERRORS * (1 if size < 8 else 2.5)


# --- the exact sampler ----------------------------------------------------------------------------


def coarse_law(replaced: bool = False) -> dict[tuple[int, int, int], float]:
    """Chances of the integers nearest to V, N = 2, by the midpoint rule in every cell."""
    rate, fine = float(RATE), 8
    inner = (np.arange(fine) + 0.5) / fine - 0.5
    a, b, c = (g.ravel() for g in np.meshgrid(inner, inner, inner, indexing="ij"))
    known = replaced_spectrum(2) if replaced else spectrum(2)
    log_all = known.log_integral - 3 * math.log(rate)
    out = {}
    for z in itertools.product(range(-4, 5), repeat=3):
        mean, half = (z[0] + a + z[2] + c) / 2, np.hypot((z[0] + a - z[2] - c) / 2, z[1] + b)
        norm = np.abs(mean + half) + np.abs(mean - half) + replaced * np.abs(2 * mean)
        out[z] = float(np.exp(-rate * norm).mean() * math.exp(-log_all))
    return out


def chi_square(draws: Any, replaced: bool = False) -> float:
    """The p-value of draws against the law of the coarse lattice; rare cells are one."""
    law = coarse_law(replaced)
    common = [z for z, chance in law.items() if chance * len(draws) >= 5]
    seen = [sum(1 for row in draws if tuple(row) == z) for z in common]
    expected = [law[z] * len(draws) for z in common]
    rest = len(draws) - sum(seen), len(draws) - sum(expected)
    return float(stats.chisquare([*seen, rest[0]], [*expected, rest[1]]).pvalue)


def coarse_draws(count: int, seed: int, replaced: bool = False) -> Any:
    entries = [(0, 0, 1), (0, 1, 1), (1, 1, 1)]
    noise = tdp.NuclearNoise(tdp.NuclearBall(2), RATE, 1, entries, replaced=replaced)
    return noise.sample(count, rng=seed)


def test_integers_have_the_law_of_the_cells(seed: int) -> None:
    assert chi_square(coarse_draws(1000, seed)) > 1e-5


def test_replaced_rows_have_the_law_of_the_cells(seed: int) -> None:
    assert chi_square(coarse_draws(600, seed, replaced=True), replaced=True) > 1e-5


def test_proposals_that_are_not_thinned_are_noticed(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(
        nuclear_draws,
        "thinned",
        lambda proposals, rng: (np.arange(len(proposals.kappa)), proposals),
    )
    assert chi_square(coarse_draws(600, seed, replaced=True), replaced=True) < 1e-5


def test_the_norm_of_replaced_rows_is_a_gamma_variable(seed: int) -> None:
    entries = [(i, j, 1) for i in range(3) for j in range(i, 3)]
    noise = tdp.NuclearNoise(tdp.NuclearBall(3), 1, 1 << 20, entries, replaced=True)
    draws = noise.sample(300, rng=seed).astype(np.float64) / (1 << 20)
    value = np.linalg.eigvalsh(tdp.NuclearBall(3).matrices(draws))
    norms = np.abs(value).sum(axis=1) + np.abs(value.sum(axis=1))
    assert stats.kstest(norms, stats.gamma(6).cdf).pvalue > 1e-6
    squares = (value**2).sum(axis=1)
    off = squares.mean() - replaced_spectrum(3).squares
    assert abs(off) < ERRORS * squares.std() / math.sqrt(len(draws))


def test_sizes_of_replaced_rows_are_those_of_quadrature(seed: int) -> None:
    x = np.linspace(-30, 30, 1501)
    s, d = np.meshgrid(x, x[x > 0], indexing="ij")
    density = 2 * d * np.exp(-np.abs(s - d) - np.abs(s + d) - np.abs(2 * s))
    squares = (2 * (s**2 + d**2) * density).sum() / density.sum()
    assert replaced_spectrum(2).squares == pytest.approx(squares, rel=2e-3)
    trace = (4 * s**2 * density).sum() / density.sum()
    assert replaced_spectrum(2).trace == pytest.approx(trace, rel=4e-3)
    whole = 2 * d * np.exp(-np.abs(s - d) - np.abs(s + d))
    left = math.exp(replaced_spectrum(2).log_integral - spectrum(2).log_integral)
    assert left == pytest.approx(density.sum() / whole.sum(), rel=2e-3)
    for size in (3, 4):
        drawn = draw_replaced(size, 20_000, SeededSource(seed))
        found = (drawn**2).sum(axis=1)
        # spectra come from a pool of 6,000, with weights
        assert found.mean() == pytest.approx(replaced_spectrum(size).squares, rel=0.06)


def test_doubles_and_integers_agree_on_traces(seed: int) -> None:
    rng = source(seed)
    for layout in (Layout(2, 2), Layout(3, 1), Layout(3, 0)):
        kappa = np.zeros((40, layout.k), dtype=np.int64)
        proposals = Proposals.draw(layout, kappa, rng)
        coin = Uniforms.draw((40,), rng)
        trace, off = nuclear_proposals._traces(proposals)
        for i in range(40):
            above = nuclear_proposals._above_trace(proposals.row(i), coin[i : i + 1], 128)
            assert above == (coin.minus_log()[0][i] > abs(trace[i])) or off[i] > 1e-9


@pytest.fixture
def no_rotation(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(nuclear_draws, "_reflected", lambda M, x, first: M)


@pytest.fixture
def wrong_weight(monkeypatch: pytest.MonkeyPatch) -> None:
    """A binomial coefficient forgotten: a part of the mixture has half its weight."""
    weights = list(mixture(2).weights)
    weights[0] //= 2
    table = WeightTable(weights)
    monkeypatch.setattr(nuclear_draws, "_table", lambda size: table)


def test_a_missing_rotation_is_noticed(no_rotation: None, seed: int) -> None:
    assert chi_square(coarse_draws(1000, seed)) < 1e-5


def definite(seed: int, count: int = 400) -> float:
    """The p-value of the share of definite matrices, a third where N = 2.

    Of ordered eigenvalues the integrals of (x - y) exp(-|x| - |y|) are 1/2 where both are positive,
    1/2 where both are negative, and 2 where they are not of one sign.
    """
    entries = [(0, 0, 1), (0, 1, 1), (1, 1, 1)]
    a, b, c = tdp.NuclearNoise(tdp.NuclearBall(2), 1, 1 << 20, entries).sample(count, rng=seed).T
    return float(stats.binomtest(int((a * c > b * b).sum()), count, 1 / 3).pvalue)


def test_a_third_of_small_matrices_is_definite(seed: int) -> None:
    assert definite(seed) > 1e-6


def test_a_wrong_weight_is_noticed(wrong_weight: None, seed: int) -> None:
    assert definite(seed) < 1e-6


def test_three_rows_have_the_moments_and_the_norm(seed: int) -> None:
    entries = [(i, j, 1) for i in range(3) for j in range(i, 3)]
    noise = tdp.NuclearNoise(tdp.NuclearBall(3), 1, 1 << 20, entries)
    draws = noise.sample(500, rng=seed).astype(np.float64) / (1 << 20)
    M = tdp.NuclearBall(3).matrices(draws)
    norms = np.abs(np.linalg.eigvalsh(M)).sum(axis=1)
    assert stats.kstest(norms, stats.gamma(6).cdf).pvalue > 1e-6
    wanted = np.diag(noise.covariance()) / 4.0**20
    square = draws**2
    off = (square.mean(axis=0) - wanted) / (square.std(axis=0) / math.sqrt(len(draws)))
    assert np.abs(off).max() < ERRORS


@pytest.mark.slow
@pytest.mark.parametrize("size", [4, 6, 9])
def test_larger_matrices_have_the_moments(size: int, seed: int) -> None:
    entries = [(0, 0, 1), (0, 1, 1), (size - 1, size - 1, 1), (1, size - 1, 1)]
    noise = tdp.NuclearNoise(tdp.NuclearBall(size), 1, 1 << 20, entries)
    draws = noise.sample(800, rng=seed).astype(np.float64)
    square = draws**2
    off = square.mean(axis=0) - np.diag(noise.covariance())
    assert np.abs(off / (square.std(axis=0) / math.sqrt(len(draws)))).max() < ERRORS


def test_more_bits_of_the_same_numbers_are_drawn(seed: int) -> None:
    places = [(0, 0), (0, 1), (2, 2)]
    for shift in (10, 60, 150):
        rough, fine = (
            nuclear_integers(3, [(i, j, Fraction(c)) for i, j in places], 1, source(seed))[0]
            for c in (1000, 1000 << shift)
        )
        nearest = [(2 * int(z) + (1 << shift)) >> shift + 1 for z in fine]
        assert np.abs(np.array(nearest) - rough).max() <= 1
        assert [n == r for n, r in zip(nearest, rough, strict=True)].count(True) >= 2


def test_doubles_and_integers_keep_the_same_proposals(seed: int) -> None:
    rng = source(seed)
    for k, other in ((2, 1), (3, 2)):
        kappa = mixture(k + other)
        rows = kappa.partitions[kappa.positive == k][:, :k]
        proposals = Proposals.draw(Layout(k, other), np.tile(rows, (8, 1))[:40], rng)
        yes, undecided = nuclear_draws._filter(proposals)
        assert undecided.mean() < 0.05
        for i in np.flatnonzero(~undecided):
            assert settled(proposals.row(int(i)), rng, nuclear_draws._accepts)[0] == yes[i]


def test_bounds_of_doubles_hold(seed: int) -> None:
    rng, layout = source(seed), Layout(4, 3)
    kappa = mixture(7)
    rows = kappa.partitions[kappa.positive == 4][:40, :4]
    proposals = Proposals.draw(layout, rows, rng)
    factors = nuclear_draws._Factors.of(proposals)
    for i in range(len(rows)):
        P, _, _ = fixed_factors(proposals.row(i), 128)
        exact = np.array([[Fraction(int(x), 1 << 128) for x in row] for row in P.middle])
        found = factors.P[i] @ factors.P[i].T
        off = max(
            abs(float(Fraction(float(f)) - e)) for f, e in zip(found.flat, exact.flat, strict=True)
        )
        assert off <= nuclear_draws._squared_off(factors.P, factors.p_off)[i]
        assert P.error < 1 << 86


def test_normals_are_normal(seed: int) -> None:
    drawn = normals(20_000, source(seed))
    values = drawn.minus_log()[0] * drawn.signs
    assert stats.kstest(values, stats.norm.cdf).pvalue > 1e-6


def test_weights_of_any_size_are_drawn(seed: int) -> None:
    weights = [10**40, 3 * 10**40, 0, 6 * 10**40, 1]
    drawn = np.bincount(WeightTable(weights).draw(20_000, source(seed)), minlength=5)
    assert drawn[2] == drawn[4] == 0
    assert stats.chisquare(drawn[[0, 1, 3]], [2000, 6000, 12000]).pvalue > 1e-6
    assert WeightTable(weights)._ask((1 << 64) // 10, 64) is None  # on an edge: more bits


# --- fixed point ----------------------------------------------------------------------------------


def test_fixed_point_holds_the_truth(seed: int) -> None:
    rng, places = np.random.default_rng(seed), 100

    def near(x: Fraction) -> Fixed:
        return Fixed(int(x * (1 << places)), 3, places)

    for _ in range(50):
        a, b = (Fraction(int(n), 997) for n in rng.integers(1, 10**6, 2))
        for found, exact in (
            (near(a) * near(b), a * b),
            (near(a) + near(b), a + b),
            (near(a) - near(b), a - b),
            (near(a).reciprocal(), 1 / a),
        ):
            assert (
                abs(Fraction(int(found.middle), 1 << places) - exact) * (1 << places) <= found.error
            )
        root = near(a * a).root()
        assert abs(Fraction(int(root.middle), 1 << places) - a) * (1 << places) <= root.error
    with pytest.raises(UnsettledError):
        near(Fraction(0)).reciprocal()
    A = Fixed.of([[4, 2], [2, 3]], places)
    assert [round(int(d.middle) / 2**places, 9) for d in pivots(A)] == [4.0, 2.0]


# --- arguments ------------------------------------------------------------------------------------


def test_large_matrices_are_refused_before_a_draw() -> None:
    noise = tdp.NuclearNoise(tdp.NuclearBall(33), 1, 1, [(0, 0, 1)])
    with pytest.raises(InfeasibleSamplingError, match="32 rows"):
        noise.check_feasible()
    with pytest.raises(InfeasibleSamplingError, match="14 rows"):
        tdp.NuclearBall(15).sample(1, rng=1)


def test_moves_are_covered_up_to_the_sensitivity() -> None:
    noise = tdp.NuclearNoise(tdp.NuclearBall(3), 1, 200, [(0, 0, 1), (0, 1, 1), (1, 1, 2)])
    moves = np.array([[100, 0, -200], [101, 0, -200], [0, 100, 0], [0, 101, 0]])
    assert noise.covers(moves).tolist() == [True, False, True, False]


# --- doubles that tell nothing --------------------------------------------------------------------


def test_numbers_whose_known_bits_are_all_zero_have_no_bound() -> None:
    """U may be 2**-200 then: -ln U is anything above 43."""
    y, off = Uniforms(np.array([[0, 1, 2]], dtype=np.uint64)).minus_log()
    assert np.isinf(off[:2]).all()
    assert off[2] < 1
    assert y[2] - off[2] <= -math.log(2 * 2.0**-63)
    assert y[2] + off[2] >= 63 * math.log(2)


@pytest.mark.parametrize("word", [0, 1, 2, 3, (1 << 64) - 1, (1 << 64) - 2, (1 << 64) - 300])
@pytest.mark.parametrize("layout", [Layout(2, 2), Layout(3, 2)], ids=["2+2", "3+2"])
def test_words_at_the_ends_are_left_to_integers(layout: Layout, word: int, seed: int) -> None:
    """One exponential after the other is 0 or endless, as far as doubles see, or all of them."""
    rng = SeededSource(seed)
    kappa = np.zeros((8, layout.k), dtype=np.int64)
    proposals = Proposals.draw(layout, kappa, rng)
    words = proposals.exponentials.words
    for place in range(words.shape[2]):
        words[0, place % 7, place] = np.uint64(word)
    words[0, 7, :] = np.uint64(word)
    yes, open_ones = nuclear_draws._filter(proposals)
    assert not (yes & open_ones).any()
    for i in np.flatnonzero(~open_ones):
        keep, _ = settled(proposals.row(int(i)), rng, nuclear_draws._accepts)
        assert keep == yes[i]
    if word < 2:  # no bits but zeros: everything is open
        assert open_ones[7]
