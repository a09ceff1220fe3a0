"""Samplers of all laws follow them, on the line and on lattices, at extreme parameters too."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest
from law_cases import CONTINUOUS, DRAWS, LATTICE, LAWS, LEVEL, each
from scipy import stats

from tightdp.noise.gaussian_laws import AnalyticGaussian, DiscreteGaussian
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    DiscreteTulap,
    Geometric,
    TruncatedGeometric,
)
from tightdp.noise.line_laws import Laplace, Staircase, TruncatedLaplace, Tulap
from tightdp.privacy import Numerics
from tightdp.randomness import SeededSource

# --- samplers -------------------------------------------------------------------------------------


def cells_of(mass, draws, most=40):
    """Edges of up to ``most`` runs of integers that expect at least 20 of the draws each."""
    step, run, edges = max(1 / most, 20 / draws), 0.0, []
    for z in sorted(mass):
        if run >= step:
            edges.append(z)
            run = 0.0
        run += float(mass[z])
    if run * draws < 20:
        edges = edges[:-1]
    return edges


def p_value(draws, mass):
    """Chi-square of integers against exact masses, by runs and by the points next to zero."""
    edges = sorted({*cells_of(mass, draws.size), *(z for z in (-1, 0, 1, 2))})
    keys = np.array(sorted(mass))
    p = np.array([float(mass[int(k)]) for k in keys])
    expected = np.array(
        [p[np.searchsorted(edges, keys, side="right") == i].sum() for i in range(len(edges) + 1)]
    )
    seen = np.bincount(np.searchsorted(edges, draws, side="right"), minlength=len(edges) + 1)
    keep = expected * draws.size >= 5
    assert seen[~keep].sum() <= 50
    seen, expected = seen[keep], expected[keep]
    return stats.chisquare(seen, expected / expected.sum() * seen.sum()).pvalue


@each(LATTICE)
def test_the_exact_sampler_has_its_law_and_a_wrong_scale_is_seen(case, seed):
    law, mass = LAWS[case.name], case.oracle(LAWS[case.name])
    count = DRAWS if "wide" not in case.name else DRAWS // 10
    draws = law.sample(count, rng=SeededSource(seed))
    assert draws.dtype == np.int64
    assert draws.min() >= min(mass)
    assert draws.max() <= max(mass)
    assert p_value(draws, mass) > LEVEL
    wrong = case.make(9).sample(count, rng=SeededSource(seed))
    assert p_value(wrong, mass) < LEVEL


@each(CONTINUOUS)
def test_the_lattice_of_a_law_is_exact_and_near_it(case, seed):
    law = LAWS[case.name]
    grid = Fraction(1, 4 * 25)
    exact = law.lattice(grid)
    assert exact.numerics is Numerics.EXACT
    assert exact.sensitivity == 100
    own, promise = law.guarantee(), exact.guarantee()
    assert promise.epsilon <= own.epsilon
    assert promise.delta <= own.delta
    assert math.isclose(exact.variance(), law.variance() * 1e4, rel_tol=0.03)
    draws = law.sample_lattice(DRAWS, grid=grid, rng=SeededSource(seed))
    reach = int(np.abs(draws).max())
    mass = {z: exact.pmf(z) for z in range(-reach, reach + 1)}
    mass[-reach] += exact.cdf(-reach - 1)
    mass[reach] += 1 - exact.cdf(reach)
    assert p_value(draws, mass) > LEVEL
    assert isinstance(law.sample_lattice(grid=grid), int)
    assert isinstance(exact.sample_lattice(), int)


@pytest.mark.parametrize(
    ("sensitivity", "grid", "steps"),
    [
        (1.0, 0.25, 4),
        (1.0, 0.3, 4),
        (1, Fraction(1, 3), 3),
        (0.3, 0.1, 3),
        (0.7, 0.1, 7),
        (1, 5, 1),
    ],
)
def test_grid_steps_are_rounded_to_the_private_side(sensitivity, grid, steps):
    """0.3 / 0.1 is a little below 3 in doubles, 0.7 / 0.1 too: never fewer steps than meant."""
    for law in (
        Laplace(epsilon=1.0, sensitivity=sensitivity),
        Staircase(epsilon=1.0, sensitivity=sensitivity),
        AnalyticGaussian(epsilon=1.0, delta=0.1, sensitivity=sensitivity),
    ):
        exact = law.lattice(grid)
        assert exact.sensitivity == steps
        assert exact.guarantee().epsilon <= 1.0


@each(CONTINUOUS)
def test_the_continuous_sampler_has_its_law(case, seed):
    law, oracle = LAWS[case.name], case.oracle(LAWS[case.name])
    draws = law.sample(100_000, rng=SeededSource(seed))
    if getattr(law, "atom", 0):
        zeros = int((draws == 0).sum())
        share = law.atom_share
        assert abs(zeros - 1e5 * share) < 5 * math.sqrt(1e5 * share * (1 - share))
        return
    assert stats.kstest(draws, oracle).pvalue > LEVEL
    assert stats.kstest(draws * 0.9, oracle).pvalue < LEVEL
    assert isinstance(law.sample(rng=1), float)


def test_a_fresh_source_never_repeats():
    law = TruncatedGeometric(epsilon=2.0**-20, delta=1e-6, sensitivity=1 << 20)
    assert len(set(law.sample(50).tolist())) > 45


@pytest.mark.parametrize("epsilon", [2.0**-40, 1e-9, 30.0, 1024.0])
@pytest.mark.parametrize("sensitivity", [1, 1 << 16, 1 << 50])
def test_extreme_parameters_still_draw(epsilon, sensitivity):
    for law in (
        Geometric(epsilon=epsilon, sensitivity=sensitivity),
        TruncatedGeometric(epsilon=epsilon, delta=2.0**-60, sensitivity=sensitivity),
        TruncatedGeometric(epsilon=epsilon, delta=0.5, sensitivity=sensitivity),
        DiscreteStaircase(epsilon=epsilon, sensitivity=sensitivity),
        DiscreteTulap(epsilon=epsilon, delta=1e-9, sensitivity=sensitivity),
        DiscreteGaussian(epsilon=epsilon, delta=1e-9, sensitivity=sensitivity),
    ):
        draws = law.sample(50, rng=1)
        assert draws.shape == (50,)
        if getattr(law, "reach", None) is not None:
            assert max(abs(int(z)) for z in draws) <= law.reach
        spread = math.sqrt(law.variance())
        assert np.isfinite(spread)
        assert max(abs(int(z)) for z in draws) <= 40 * spread + 1
        promise = law.guarantee()
        assert promise.epsilon <= epsilon


@pytest.mark.parametrize("epsilon", [2.0**-40, 1e-9, 30.0, 1024.0])
@pytest.mark.parametrize("delta", [2.0**-256, 1e-9, 0.5])
def test_extreme_parameters_on_the_line(epsilon, delta):
    for law in (
        Laplace(epsilon=epsilon, sensitivity=1e100),
        TruncatedLaplace(epsilon=epsilon, delta=delta, sensitivity=1e100),
        Staircase(epsilon=epsilon, sensitivity=1e100),
        Tulap(epsilon=epsilon, delta=delta, sensitivity=1e100),
        AnalyticGaussian(epsilon=epsilon, delta=delta, sensitivity=1e100),
    ):
        assert 0 < law.density(0.0) < math.inf
        spread = [law.expected_loss(1), law.variance(), law.sample(100, rng=1)]
        assert all(np.isfinite(value).all() for value in spread)
        assert epsilon > 1000 or spread[0] ** 2 <= spread[1] * (1 + 1e-6)
        p = np.array([1e-12, 0.01, 0.3, 0.6, 0.999])
        if epsilon < 1000 or not isinstance(law, (Staircase, Tulap)):
            assert np.allclose(law.cdf(law.quantile(p)), p, rtol=1e-4, atol=1e-13)
        if epsilon < 1000 or not isinstance(law, (Staircase, Tulap)):
            # 10**14 steps away from zero a double resolves a few hundredths of a step
            slack = 0.03 if epsilon * delta < 1e-80 else 1e-6
            assert law.delta(epsilon, 1e100) <= law.guarantee().delta * (1 + slack)
