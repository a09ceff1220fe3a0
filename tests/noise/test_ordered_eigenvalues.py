"""Eigenvalues of nuclear noise, one after the other: closed forms, another sampler, faults."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import pairwise

import numpy as np
import pytest
from scipy import integrate, stats

import tightdp as tdp
from tightdp.exact import nuclear_draws, ordered_eigenvalues
from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.fixed_point import Fixed, UnsettledError
from tightdp.exact.ordered_eigenvalues import Eigenvalues, Tails, enclosed, pfaffian
from tightdp.exact.undecided_normals import Uniforms
from tightdp.geometry.nuclear_spectrum import draw_spectra
from tightdp.randomness import RandomSource, SeededSource, source

ENOUGH = 1e-6  # least p-value


def spectra(size: int, count: int, rng: RandomSource) -> np.ndarray:
    """Ordered eigenvalues of so many matrices, rounded to doubles."""
    out = []
    for _ in range(count):
        numbers = Uniforms.draw((size,), rng).longer(rng)
        while True:
            try:
                x = enclosed(numbers)
                break
            except UnsettledError:
                numbers = numbers.longer(rng)
        out.append([int(v) / (1 << x.places) for v in x.middle])
    return np.array(out)


# --- integrals ------------------------------------------------------------------------------------


def ratio(size: int, known: list[float], x: float) -> float:
    """P(next > x) by the Pfaffians, for doubles, which are dyadic."""
    tails = Tails(size, 256)
    points = [int(Fraction(z) * (1 << 256)) for z in known]
    given = tails.given(points)
    whole = tails.above(points[-1] if points else None, given)
    above = tails.above(int(Fraction(x) * (1 << 256)), given)
    return int(above.middle) / int(whole.middle)


@pytest.mark.parametrize("x", [-3.0, -0.25, 0.0, 1.5])
def test_chances_of_two_rows_are_those_of_quadrature(x: float) -> None:
    def density(v: float, u: float) -> float:
        return (v - u) * math.exp(-abs(u) - abs(v))

    def total(low: float) -> float:
        cuts = [low, 0.0, 40.0] if low < 0 else [low, 40.0]
        found = 0.0
        for a, b in pairwise(cuts):
            for c, d in [(a, b)] if b == 40.0 else [(a, b), (0.0, 40.0)]:
                start = (lambda u: u) if (c, d) == (a, b) else c
                found += integrate.dblquad(density, a, b, start, d)[0]
        return found

    assert ratio(2, [], x) == pytest.approx(total(x) / total(-40.0), rel=1e-6)


@pytest.mark.parametrize(("low", "x"), [(-2.0, -1.25), (-0.5, 0.75), (1.0, 3.0)])
def test_chances_given_a_point_are_those_of_quadrature(low: float, x: float) -> None:
    def above(start: float) -> float:
        f = lambda u: (u - low) * math.exp(-abs(u))  # noqa: E731
        return integrate.quad(f, start, 60.0, points=[0.0] if start < 0 else None)[0]

    assert ratio(2, [low], x) == pytest.approx(above(x) / above(low), rel=1e-9)


def test_three_rows_agree_with_a_sum_over_a_grid() -> None:
    grid = np.arange(-22, 22, 0.05) + 0.025
    v, w = np.meshgrid(grid, grid, indexing="ij")
    low, x = -1.0, 0.5
    density = (v - low) * (w - low) * (w - v) * np.exp(-np.abs(v) - np.abs(w)) * (w > v) * (v > low)
    assert ratio(3, [low], x) == pytest.approx(density[v > x].sum() / density.sum(), rel=4e-3)


def test_enclosures_hold_beside_many_more_places() -> None:
    """The same integrals with 2,000 places: within the bounds, for points on both sides of 0."""
    for size, known, x in (
        (4, [-2.5], -1.0),
        (7, [-6.0, -3.5, -1.0], 0.5),
        (9, [-9.0, -4.5, -4.25, 0.0, 3.0], 7.5),
        (6, [20.0, 30.0], 31.0),
    ):
        few, many = 320, 2000
        found = []
        for places in (few, many):
            tails = Tails(size, places)
            given = tails.given([int(Fraction(z) * (1 << places)) for z in known])
            found.append(tails.above(int(Fraction(x) * (1 << places)), given))
        off = abs((int(found[0].middle) << many - few) - int(found[1].middle))
        assert off <= (found[0].error << many - few) + found[1].error
        assert found[0].error << 60 < int(found[0].middle)  # and they are of use


@pytest.mark.parametrize("y", [0, 1 << 90, 3 << 95, 40 << 96])
def test_integrals_of_monomials_err_by_no_more_than_is_said(y: int) -> None:
    """Beside 300 more places. Floors do lose something where y is not 0: no bound is noticed."""
    fine = 300
    double, single, slack = Tails(12, 96)._monomials(y)
    exact_double, exact_single, _ = Tails(12, 96 + fine)._monomials(y << fine)
    for rough, exact in ((double, exact_double), (single, exact_single)):
        off = np.abs((rough << fine) - exact)
        assert int(off.max()) <= slack << fine


@pytest.mark.parametrize("steps", [-3, 3])
def test_a_wrong_guess_is_refused_on_either_side(
    steps: int, monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    """What is guessed has to be proved: a point that is too low or too high is not returned."""
    right = ordered_eigenvalues._guess
    rng = source(seed)
    numbers = Uniforms.draw((3,), rng).longer(rng, 4)
    enclosed(numbers)  # settles with the right guess

    def wrong(tails: Tails, places: int, chain: list[int], u: Fraction, fine: int) -> int:
        return right(tails, places, chain, u, fine) + steps * fine

    monkeypatch.setattr(ordered_eigenvalues, "_guess", wrong)
    with pytest.raises(UnsettledError):
        enclosed(numbers)


def test_a_pfaffian_is_the_root_of_the_determinant(seed: int) -> None:
    rng = np.random.default_rng(seed)
    A = np.triu(rng.uniform(0.5, 1.0, (6, 6)), 1)
    A = A - A.T
    A[0, 1], A[1, 0], A[2, 3], A[3, 2], A[4, 5], A[5, 4] = 9, -9, 9, -9, 9, -9
    scaled = np.array([[int(a * 2.0**60) for a in row] for row in A], dtype=object)
    found = pfaffian(Fixed(scaled, 1, 60))
    assert (int(found.middle) / 2.0**60) ** 2 == pytest.approx(np.linalg.det(A), rel=1e-9)
    with pytest.raises(UnsettledError):
        pfaffian(Fixed(np.zeros((2, 2), dtype=object), 1, 60))


# --- the chain ------------------------------------------------------------------------------------


def test_more_bits_give_the_same_eigenvalues(seed: int) -> None:
    rng = SeededSource(seed)
    for size in (2, 5, 8):
        numbers = Uniforms.draw((size,), rng).longer(rng)
        x, y = (Eigenvalues(numbers).longer(rng, depth).numbers for depth in (2, 4))
        y = Uniforms(np.concatenate([x.words, y.words[2:]]))
        one, two = enclosed(x), enclosed(y).rounded(4096)
        gap = np.abs(one.rounded(4096).middle - two.middle)
        assert gap.max() <= one.rounded(4096).error + two.error
        assert one.error < 1 << one.places - 60


def test_eigenvalues_grow_with_those_before_and_by_no_more(seed: int) -> None:
    """Steps 2 and 3 of the proof: chances do not fall, and a shift of all is not exceeded."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        size = int(rng.integers(2, 7))
        known = sorted(float(z) for z in (rng.normal(0, 4, size - 1) * 64).round() / 64)
        if min(np.diff(known), default=1) <= 0:
            continue
        x, c = known[-1] + 0.75, 0.25
        at = int(rng.integers(0, size - 1))
        raised = [*known]
        raised[at] += min(0.125, (raised[at + 1] - raised[at]) / 2 if at + 2 < size else 0.125)
        assert ratio(size, raised, x) >= ratio(size, known, x)
        assert ratio(size, [z + c for z in known], x + c) <= ratio(size, known, x) * (1 + 1e-12)


def agree(one: np.ndarray, two: np.ndarray) -> float:
    """The least p-value of all ordered eigenvalues, and of their sums, in two samples."""
    sums = [a.sum(axis=1) for a in (one, two)]
    each = [stats.ks_2samp(a, b).pvalue for a, b in zip(one.T, two.T, strict=True)]
    return float(min(*each, stats.ks_2samp(*sums).pvalue))


@pytest.mark.parametrize(("size", "count"), [(2, 150), (3, 150), (6, 40)])
def test_both_samplers_have_one_law(size: int, count: int, seed: int) -> None:
    rng = SeededSource(seed)
    other = np.sort(draw_spectra(size, 20_000, rng), axis=1)
    assert agree(spectra(size, count, rng), other) > ENOUGH


@pytest.mark.slow
@pytest.mark.parametrize("size", [10, 12, 16])
def test_larger_matrices_have_the_norm_and_the_moments(size: int, seed: int) -> None:
    x = spectra(size, 300, SeededSource(seed))
    norm = np.abs(x).sum(axis=1)
    assert stats.kstest(norm, stats.gamma(size * (size + 1) / 2).cdf).pvalue > ENOUGH
    squares, known = (x**2).sum(axis=1), tdp.NuclearBall(size)
    m = known.dim
    own = np.diag(known.second_moment.value) * (m + 1) * (m + 2)
    i, j = known.upper
    wanted = float((own * np.where(i == j, 1, 2)).sum())
    assert abs(squares.mean() - wanted) < 4.5 * squares.std() / math.sqrt(len(x))


def test_wide_noise_has_the_norm_and_the_moments(seed: int) -> None:
    """The whole way to integers, of 13 rows: rotation and rounding, too."""
    size = 13
    entries = [(i, j, 1) for i in range(size) for j in range(i, size)]
    noise = tdp.NuclearNoise(tdp.NuclearBall(size), 1, 1 << 20, entries)
    noise.check_feasible()
    draws = noise.sample(12, rng=seed).astype(np.float64) / (1 << 20)
    norm = np.abs(np.linalg.eigvalsh(tdp.NuclearBall(size).matrices(draws))).sum(axis=1)
    assert stats.kstest(norm, stats.gamma(size * (size + 1) / 2).cdf).pvalue > ENOUGH
    scaled = draws.ravel() / np.sqrt(np.tile(np.diag(noise.covariance()), 12)) * (1 << 20)
    assert abs((scaled**2).mean() - 1) < 0.35


# --- faults that must be noticed ------------------------------------------------------------------


def test_a_wrong_binomial_weight_is_noticed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """A coefficient of the integrals of monomials."""
    made = Tails.__init__

    def wrong(self: Tails, size: int, places: int, *, proved: bool = True) -> None:
        made(self, size, places, proved=proved)
        self._binomials[1, 1] = 1  # 2
        self._from_zero, _, self._slack = self._monomials(0)

    monkeypatch.setattr(Tails, "__init__", wrong)
    ordered_eigenvalues._tails.cache_clear()
    try:
        grid = np.arange(-22, 22, 0.05) + 0.025
        v, w = np.meshgrid(grid, grid, indexing="ij")
        density = (v + 1) * (w + 1) * (w - v) * np.exp(-np.abs(v) - np.abs(w))
        density = density * (w > v) * (v > -1)
        off = ratio(3, [-1.0], 0.5) / (density[v > 0.5].sum() / density.sum())
        assert abs(off - 1) > 4e-3
    finally:
        ordered_eigenvalues._tails.cache_clear()


def test_a_missing_rotation_of_wide_noise_is_noticed(
    monkeypatch: pytest.MonkeyPatch, seed: int
) -> None:
    monkeypatch.setattr(nuclear_draws, "_reflected", lambda M, x, first: M)
    noise = tdp.NuclearNoise(tdp.NuclearBall(13), 1, 1 << 20, [(0, 0, 1), (0, 1, 1), (1, 1, 1)])
    draws = noise.sample(2, rng=seed)
    assert (draws[:, 1] == 0).all()  # off the diagonal there is nothing left
    assert (draws[:, 0] < draws[:, 2]).all()  # and eigenvalues stand in order


def test_points_without_a_factor_are_noticed(monkeypatch: pytest.MonkeyPatch, seed: int) -> None:
    """Points that do not repel those before them: the chain forgets what is known."""
    given = Tails.given
    monkeypatch.setattr(
        Tails, "given", lambda self, known: given(self, [known[-1]] * len(known) if known else [])
    )
    other = np.sort(draw_spectra(4, 20_000, SeededSource(seed)), axis=1)
    assert agree(spectra(4, 120, SeededSource(seed)), other) < ENOUGH


# --- ends -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("word", [0, 1, 2, (1 << 64) - 1])
def test_words_at_the_ends_are_asked_for_more(word: int, seed: int) -> None:
    """Numbers that begin with 63 zeros or ones: an eigenvalue far out, or on the one before."""
    rng = source(seed)
    for place in range(3):
        numbers = Uniforms.draw((3,), rng).longer(rng)
        numbers.words[:, place] = np.uint64(word)
        x: Fixed | None = None
        for _ in range(6):
            try:
                x = enclosed(numbers)
                break
            except UnsettledError:
                numbers = numbers.longer(rng)
        assert x is not None
        assert (np.diff(x.middle) > 0).all()


@pytest.mark.parametrize(
    ("size", "places", "ones", "depth"),
    [(1, slice(None), 5, 12), (2, slice(None), 5, 12), (1, slice(None), 17, 36), (2, 1, 17, 18)],
)
def test_no_number_is_asked_for_more_bits_without_end(
    size: int, places: slice | int, ones: int, depth: int, seed: int
) -> None:
    """Hundreds of ones: far below all others, or close to the one before; halves reach both."""
    words = SeededSource(seed).words(depth * size).reshape(depth, size)
    words[:ones, places] = np.uint64((1 << 64) - 1)
    x = enclosed(Uniforms(words))
    assert x.error < 1 << x.places - 32 * depth + 64
    if size == 1:  # of one row: U is e^x/2 below 1, for x < 0
        rest = (1 << 64 * depth - 1) - Uniforms(words).integers()[0][0]
        wanted = math.log(2 * rest) - (64 * depth - 1) * math.log(2)
        assert int(x.middle[0]) / (1 << x.places) == pytest.approx(wanted, rel=1e-12)


def test_powers_of_two_do_not_change_an_exponential() -> None:
    for x in (Fraction(3, 64), Fraction(7, 1 << 70), Fraction(5, 12), Fraction(40)):
        low, high = exp_minus_bounds(x, 200)
        finer = exp_minus_bounds(x, 400)
        assert low << 200 <= finer[1]
        assert finer[0] <= high << 200
        assert high - low <= 4
