"""Laws on the integers and tables of weights: privacy in exact arithmetic."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from law_cases import gaussian_mass, hockey_stick, table_mass

from tightdp.errors import ParameterError
from tightdp.noise.gaussian_laws import DiscreteGaussian
from tightdp.noise.lattice_laws import (
    DiscreteStaircase,
    DiscreteTulap,
    Geometric,
    TruncatedGeometric,
)
from tightdp.noise.line_laws import Laplace, Staircase
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.noise.table_noise import TableNoise

# --- exact privacy on the integers ----------------------------------------------------------------


def decimal_shortfall(law, epsilon, shift, reach):
    """The hockey-stick divergence to 50 digits, from the definition of the law."""
    eta = Decimal(law._eta.numerator) / Decimal(law._eta.denominator)

    def weight(z):
        if abs(z) > reach:
            return Decimal(0)
        return (-eta * ((abs(z) + law.width - law.core) // law.width)).exp()

    masses = {z: weight(z) for z in range(-reach - shift, reach + shift + 1)}
    factor, total = (Decimal(epsilon)).exp(), sum(masses.values())
    excess = (masses[z] - factor * masses.get(z - shift, Decimal(0)) for z in masses)
    return sum(max(x, Decimal(0)) for x in excess) / total


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity"),
    [(1.0, 1e-6, 1), (0.1, 1e-3, 3), (3.0, 0.5, 2), (0.5, 2.0**-40, 7), (8.0, 0.3, 5)],
)
@pytest.mark.parametrize("cls", [TruncatedGeometric, DiscreteTulap])
def test_the_bound_of_a_cut_law_is_the_least_that_is_private(cls, epsilon, delta, sensitivity):
    law = cls(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    with localcontext() as context:
        context.prec = 50
        slack = Decimal("1e-45")
        for shift in range(1, sensitivity + 1):
            lost = decimal_shortfall(law, epsilon, shift, law.reach)
            assert lost <= Decimal(delta) + slack
        low, high = law.uncovered(sensitivity)
        assert abs(Decimal(low.numerator) / Decimal(low.denominator) - lost) < slack
        assert low <= high <= low + Fraction(1, 1 << 300)
        if law.reach > law.core - 1:
            assert decimal_shortfall(law, epsilon, sensitivity, law.reach - 1) > Decimal(delta)


@pytest.mark.parametrize(("width", "core"), [(1, 1), (10, 1), (10, 4), (10, 10), (4, 3), (3, 2)])
def test_levels_of_integers_differ_by_the_steps_at_most(width, core):
    """[P1] of the lattice laws in integers, over a window that holds every residue."""
    for sensitivity in (1, 4, 10):
        most = -(-sensitivity // width)
        level = [(abs(z) + width - core) // width for z in range(-60, 61)]
        gaps = [
            level[z - s] - level[z]
            for s in range(-sensitivity, sensitivity + 1)
            for z in range(20, 100)
        ]
        assert max(gaps) == most


@pytest.mark.parametrize("sensitivity", [1, 2, 5, 8, 13])
@pytest.mark.parametrize("epsilon", [0.05, 1.0, 4.0, 12.0])
def test_the_core_of_the_discrete_staircase_is_the_best(epsilon, sensitivity):
    best = DiscreteStaircase(epsilon=epsilon, sensitivity=sensitivity).expected_loss(1)
    others = [
        DiscreteStaircase(epsilon=epsilon, sensitivity=sensitivity, core=r).expected_loss(1)
        for r in range(1, sensitivity + 1)
    ]
    assert best == min(others)
    assert best <= Geometric(epsilon=epsilon, sensitivity=sensitivity).expected_loss(1) * (
        1 + 1e-12
    )


@pytest.mark.parametrize("sigma", [0.6, 3.0, 63.0, 511.0, 513.0, 3000.0])
@pytest.mark.parametrize(("epsilon", "ratio"), [(1.0, 0.3), (0.1, 0.05), (4.0, 1.0)])
def test_the_bound_of_the_discrete_gaussian_is_above_the_sum_and_near(sigma, epsilon, ratio):
    """The closed bound for large sigma against the sum it bounds."""
    shift = max(1, round(ratio * sigma))
    z = np.arange(-60 * math.ceil(sigma), 60 * math.ceil(sigma) + 1)
    mass = np.exp(-(z**2) / (2 * sigma**2))
    truth = hockey_stick(mass / mass.sum(), epsilon, shift)
    bound = DiscreteGaussian._upper(epsilon, shift, sigma**2)
    assert truth <= bound * (1 + 1e-13)
    assert bound <= truth * (1 + 120 / sigma**2 + 1e-9) + 1e-300


@pytest.mark.parametrize("sigma", [60.0, 511.0, 513.0])
def test_large_discrete_gaussians_are_described_well(sigma):
    """Written out below sigma = 512, by Euler and Maclaurin above."""
    law = DiscreteGaussian(epsilon=1.0, delta=0.9, sensitivity=1, sigma2=sigma**2)
    mass = gaussian_mass(float(law.sigma2), 30_000)
    z = np.array(sorted(mass), dtype=float)
    p = np.array([mass[int(k)] for k in z])
    assert np.allclose(law.cdf(z), np.cumsum(p), rtol=1e-10, atol=1e-13)
    assert np.allclose(law.pmf(z), p, rtol=1e-10, atol=1e-300)
    assert math.isclose(law.expected_loss(1), np.sum(p * np.abs(z)), rel_tol=1e-11)
    assert math.isclose(law.expected_loss(2), np.sum(p * z * z), rel_tol=1e-11)
    assert law.concentrated(3) == Fraction(9) / (2 * law.sigma2)


def test_an_unsafe_variance_is_refused():
    with pytest.raises(ParameterError, match="`sigma2` must be larger"):
        DiscreteGaussian(epsilon=1.0, delta=1e-5, sigma2=9)
    assert DiscreteGaussian(epsilon=1.0, delta=1e-5, sigma2=25).sigma2 == 25


# --- tables ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("points", [1, 2, 5])
@pytest.mark.parametrize("dithered", [False, True])
@pytest.mark.parametrize("atom", [0, 7])
def test_the_delta_of_a_table_bounds_every_shift(points, dithered, atom):
    weights = [2, 0, 5, 9, 9, 4, 1]
    law = TableNoise(
        weights, start=-4, points=points, dithered=dithered, atom=atom, epsilon=0.7, sensitivity=6
    )
    mass = table_mass(weights, -4, points, dithered, atom)
    with localcontext() as context:
        context.prec = 40
        factor = Fraction(Decimal(str(law.epsilon)).exp())
    worst = Fraction(0)
    for shift in range(-6, 7):
        moved = {z + shift: p for z, p in mass.items()}
        worst = max(
            worst,
            sum(max(p - factor * moved.get(z, Fraction(0)), Fraction(0)) for z, p in mass.items()),
        )
    assert worst <= law.exact_delta() + Fraction(1, 10**30)
    if points == 1 and not dithered:
        assert float(worst) == pytest.approx(float(law.exact_delta()), abs=1e-15)


def test_a_smaller_weight_in_the_tail_is_seen():
    """The planted fault of a designed noise: one weight moved outward by a unit."""
    good = TableNoise([1, 2, 4, 2, 1], start=-2, epsilon=0.75)
    bad = TableNoise([2, 2, 3, 2, 1], start=-2, epsilon=0.75)
    assert good.exact_delta() < bad.exact_delta()


def test_the_monotone_law_of_the_errata():
    """E42: delta * atom + (1 - delta) * staircase has E|X| = .164375 at (3, 0.3)."""
    best = Staircase(epsilon=3.0)
    assert math.isclose(0.7 * best.expected_loss(1), 0.164375, abs_tol=1e-6)
    per, scale = 250, 10**15
    edges = np.arange(-4 * per, 4 * per + 1) / per
    weights = [round(scale * m) for m in np.diff(best.cdf(edges))]
    noise = PiecewiseNoise(
        weights,
        start=-4 * per,
        cell_width=Fraction(1, per),
        epsilon=3.0,
        atom=sum(weights) * 3 // 7,
    )
    assert math.isclose(noise.expected_loss(1), 0.164979, abs_tol=7e-4)
    assert 0.3 - 1e-9 <= noise._shortfall(3.0, 1.0) <= 0.3001


def test_a_table_of_two_thousand_cells_is_verified_in_seconds():
    law = Laplace(epsilon=1.0)
    weights = [int(w * 2.0**62) for w in np.diff(law.cdf(np.arange(-1000, 1001) / 100))]
    noise = PiecewiseNoise(weights, start=-1000, cell_width=Fraction(1, 100), epsilon=1.0)
    assert 0 < noise.exact_delta() < Fraction(1, 10**3)
