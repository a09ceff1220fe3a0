"""Numbers known from elsewhere, and the enclosures that rounding rests on."""

from __future__ import annotations

import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from scipy import stats
from scipy.integrate import quad

from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.exact.undecided_bits import coins
from tightdp.noise import steps as steps_module
from tightdp.noise.gaussian_laws import AnalyticGaussian, Gaussian, gaussian_delta
from tightdp.noise.line_laws import Laplace, Staircase, TruncatedLaplace, Tulap
from tightdp.noise.steps import Steps
from tightdp.privacy import float_up
from tightdp.randomness import SeededSource

# --- reference numbers ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("epsilon", "delta", "sensitivity", "bound", "height", "first", "second"),
    [
        (1, 0.2, 1, 1.66689603, 0.61639534, 0.61196213, 0.57710549),
        (0.1, 1e-6, 2, 217.40427866, 0.02500048, 19.99586570, 798.93581244),
        (5, 0.4, 1, 1.04435901, 2.51356731, 0.19433234, 0.07181387),
    ],
)
def test_truncated_laplace_numbers(epsilon, delta, sensitivity, bound, height, first, second):
    law = TruncatedLaplace(epsilon=epsilon, delta=delta, sensitivity=sensitivity)
    got = [law.bound, law.density(0.0), law.expected_loss(1), law.expected_loss(2)]
    assert got == pytest.approx([bound, height, first, second], abs=6e-9, rel=1e-7)
    uncovered = quad(law.density, law.bound - sensitivity, law.bound)[0]
    assert uncovered == pytest.approx(delta, rel=1e-7)
    assert law.delta(epsilon, sensitivity) == pytest.approx(delta, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-6, 1e-3])
@pytest.mark.parametrize("delta", [1e-6, 0.1, 0.5])
def test_truncated_laplace_at_small_epsilon(epsilon, delta):
    law = TruncatedLaplace(epsilon=epsilon, delta=delta)
    with localcontext() as context:
        context.prec = 60
        exact = (1 + (Decimal(epsilon).exp() - 1) / (2 * Decimal(delta))).ln() / Decimal(epsilon)
        assert law.bound == pytest.approx(float(exact), rel=1e-13)
    assert law.delta(epsilon, 1.0) == pytest.approx(delta, rel=1e-9)
    p = np.linspace(1e-6, 1 - 1e-6, 1001)
    assert np.allclose(law.cdf(law.quantile(p)), p, atol=1e-12)
    if epsilon * law.bound < 1e-6:  # nearly uniform on the bound
        assert law.expected_loss(1) == pytest.approx(law.bound / 2, rel=1e-6)
        assert law.expected_loss(2) == pytest.approx(law.bound**2 / 3, rel=1e-6)


@pytest.mark.parametrize(
    ("epsilon", "value"), [(0.5, 1.97932), (1, 0.95952), (2, 0.42546), (5, 0.08264)]
)
def test_staircase_numbers(epsilon, value):
    law = Staircase(epsilon=epsilon)
    assert law.expected_loss(1) == pytest.approx(value, abs=6e-6)
    closed = math.exp(epsilon / 2) / (math.exp(epsilon) - 1)
    assert law.expected_loss(1) == pytest.approx(closed, rel=1e-12)
    assert Laplace(epsilon=epsilon).expected_loss(1) == pytest.approx(1 / epsilon)
    for share in (0.9, 1.1):
        other = Staircase(epsilon=epsilon, core_share=share * law.core_share)
        assert other.expected_loss(1) > law.expected_loss(1)


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 0.5, 1.0, 10.0])
@pytest.mark.parametrize("delta", [1e-12, 1e-5, 0.1, 0.9])
def test_analytic_gaussian_is_tight(epsilon, delta):
    law = AnalyticGaussian(epsilon=epsilon, delta=delta, sensitivity=3.0)

    def oracle(sigma):
        r = 3.0 / sigma
        first = stats.norm.cdf(r / 2 - epsilon / r)
        return first - math.exp(epsilon) * stats.norm.cdf(-r / 2 - epsilon / r)

    assert oracle(law.sigma) <= delta * (1 + 1e-9) + 1e-15
    assert oracle(law.sigma * 0.999) > delta * (1 - 1e-9)
    if epsilon < 1 and delta < 0.5:
        assert law.sigma < Gaussian(epsilon=epsilon, delta=delta, sensitivity=3.0).sigma


def test_gaussian_delta_has_no_jump_between_its_two_forms():
    for ratio in (0.1, 1.0, 3.0):
        middle = ratio * ratio / 2  # the first argument vanishes
        below, above = (
            gaussian_delta(middle * 0.9999999, ratio),
            gaussian_delta(middle * 1.0000001, ratio),
        )
        assert above == pytest.approx(below, rel=1e-5)


def test_tulap_is_canonical():
    """At its own epsilon and shift both kinds of loss are used up: F(x - 1) = b F(x) + ..."""
    law, whole = Tulap(epsilon=1.0, delta=0.05), Tulap(epsilon=1.0)
    assert law.delta(1.0, 1.0) == pytest.approx(0.05, rel=1e-12)
    x = np.linspace(-3, 0.5, 101)
    assert np.allclose(whole.cdf(x - 1), math.exp(-1) * whole.cdf(x))
    assert whole.variance() == pytest.approx(2 * math.exp(-1) / (1 - math.exp(-1)) ** 2 + 1 / 12)
    assert law.variance() < whole.variance()


# --- enclosures -----------------------------------------------------------------------------------


@pytest.mark.parametrize("x", [Fraction(0), Fraction(1, 3), Fraction(1), Fraction(1 << 60, 7), 50])
@pytest.mark.parametrize("bits", [8, 64, 400])
def test_exponentials_are_enclosed(x, bits):
    x = Fraction(x)
    low, high = exp_minus_bounds(x, bits)
    assert 0 <= low <= high <= low + 2
    with localcontext() as context:
        context.prec = 200
        value = (-Decimal(x.numerator) / Decimal(x.denominator)).exp()
        assert low <= value * 2**bits <= high


def test_floats_are_rounded_up():
    assert Fraction(float_up(Fraction(1, 3))) > Fraction(1, 3)
    assert float_up(Fraction(3, 8)) == 0.375


@pytest.mark.parametrize("share", [Fraction(1, 3), Fraction(1), Fraction(0), Fraction(1, 1 << 63)])
def test_coins_are_fair_to_their_odds(share, seed):
    def bounds(bits):
        scaled = share * 2**bits
        return math.floor(scaled), math.ceil(scaled)

    hits, n = int(coins(bounds, 100_000, SeededSource(seed)).sum()), 100_000
    assert abs(hits - n * share) <= 5 * math.sqrt(n * share * (1 - share)) + 1


def test_an_open_coin_draws_more_bits(seed):
    """Eight bits never settle a coin whose bounds are one word apart: the rest decides."""

    def bounds(bits):
        return (0, 1 << bits) if bits == 64 else ((1 << bits) // 4, (1 << bits) // 4)

    hits = int(coins(bounds, 4000, SeededSource(seed)).sum())
    assert abs(hits - 1000) < 5 * math.sqrt(750)


@pytest.mark.parametrize("rate", [1e-9, 1e-6, 2e-5, 1e-3])
@pytest.mark.parametrize("lattice", [False, True])
def test_moments_over_many_levels_agree_with_the_sum(rate, lattice, monkeypatch):
    """Beyond a million levels a formula takes over from the sum."""
    law = Steps(rate, 7.0, 3.5, 7.0 * (1 << 20) - 10.5, lattice=lattice)
    summed = [law.moment(1), law.moment(2)]
    monkeypatch.setattr(steps_module, "_DIRECT", 1000)
    assert [law.moment(1), law.moment(2)] == pytest.approx(summed, rel=1e-8)
