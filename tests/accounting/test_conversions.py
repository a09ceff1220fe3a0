"""Conversions between units of privacy: never on the wrong side, and hardly off the best."""

from __future__ import annotations

import math
import time
from fractions import Fraction

import mpmath
import numpy as np
import pytest
import scipy.optimize

from tightdp.accounting import conversions as convert
from tightdp.accounting.normal_bounds import log_bounds, mills_bounds, tail_above, tail_below

CASES = 500
CLOSE = 1e-9  # relative distance of a proved bound from the best one


def cases(seed: int, count: int = CASES) -> list[tuple[Fraction, Fraction, Fraction]]:
    """Random epsilons, deltas and amounts, over many orders of magnitude."""
    rng = np.random.default_rng(seed)
    epsilon = 10 ** rng.uniform(-3, 1.5, count)
    delta = 10 ** rng.uniform(-20, -0.5, count)
    amount = 10 ** rng.uniform(-6, 2, count)
    return [tuple(map(Fraction, each)) for each in zip(epsilon, delta, amount, strict=True)]


def as_mp(x: Fraction) -> mpmath.mpf:
    return mpmath.mpf(x.numerator) / x.denominator


def mp_gaussian_delta(epsilon: Fraction, square: Fraction) -> mpmath.mpf:
    e, mu = as_mp(epsilon), mpmath.sqrt(as_mp(square))

    def upper(x: mpmath.mpf) -> mpmath.mpf:
        return mpmath.erfc(x / mpmath.sqrt(2)) / 2

    return upper(e / mu - mu / 2) - mpmath.exp(e) * upper(e / mu + mu / 2)


def mp_zcdp_log_delta(epsilon: Fraction, rho: Fraction, step: float) -> mpmath.mpf:
    """The log of the delta of one order, as Canonne, Kamath and Steinke print it."""
    a = 1 + mpmath.mpf(step)
    power = (a - 1) * (a * as_mp(rho) - as_mp(epsilon))
    return power - mpmath.log(a - 1) + a * mpmath.log(1 - 1 / a)


@pytest.fixture(autouse=True)
def digits():
    with mpmath.workdps(80):
        yield


def test_tails_and_logarithms_lie_between_their_bounds(seed):
    rng = np.random.default_rng(seed)
    for x in map(Fraction, [0.0, 1e-12, 3.999, 4.0, 4.001, 12.0, 45.0, *rng.uniform(0, 9, 60)]):
        truth = mpmath.erfc(as_mp(x) / mpmath.sqrt(2)) / 2
        for sign in (1, -1):
            tail = truth if sign == 1 else 1 - truth
            low, high = tail_below(sign * x, 150), tail_above(sign * x, 150)
            assert as_mp(low) <= tail <= as_mp(high)
            assert high - low < Fraction(1, 1 << 140)
    for x in map(Fraction, [4.0, 5.5, 30.0, 1000.0]):
        ratio = mpmath.erfc(as_mp(x) / mpmath.sqrt(2)) / 2 / mpmath.npdf(as_mp(x))
        low, high = mills_bounds(x, 150)
        assert as_mp(low) <= ratio <= as_mp(high)
    for x in [Fraction(7, 3), Fraction(1, 10**40), Fraction(2) ** 300 + 1, Fraction(1)]:
        low, high = log_bounds(x, 120)
        assert as_mp(low) <= mpmath.log(as_mp(x)) <= as_mp(high)
        assert high - low < Fraction(1, 1 << 120)


def test_the_delta_of_a_gaussian_is_its_delta_rounded_up(seed):
    for epsilon, _, square in cases(seed):
        found = convert.gaussian_dp_delta(epsilon, square, 200)
        truth = mp_gaussian_delta(epsilon, square)
        assert as_mp(found) >= truth
        assert as_mp(found) <= truth * (1 + CLOSE) + mpmath.mpf(2) ** -180


def test_deltas_far_out_are_enclosed_and_found_at_once():
    with mpmath.workdps(400):
        for epsilon in (Fraction(1, 10**9), Fraction(1, 10**4), Fraction(1), Fraction(50)):
            delta = Fraction(1, 10**300)
            began = time.process_time()
            square = convert.gaussian_dp_mu_squared.__wrapped__(epsilon, delta)
            assert time.process_time() - began < 2.0  # 0.1; nine seconds once
            truth = mp_gaussian_delta(epsilon, square)
            assert truth <= as_mp(delta) <= truth * (1 + mpmath.mpf(2) ** -24)
            found = convert.gaussian_dp_delta(epsilon, square, convert.bits_for(delta))
            assert truth <= as_mp(found) <= truth * (1 + mpmath.mpf(2) ** -60)


def test_epsilon_and_mu_of_a_gaussian_are_inverse_and_private(seed):
    for epsilon, delta, square in cases(seed + 1, 60):
        spent = convert.gaussian_dp_epsilon(square, delta)
        assert mp_gaussian_delta(spent, square) <= as_mp(delta)
        if spent:
            assert mp_gaussian_delta(spent * (1 - Fraction(CLOSE)), square) > as_mp(delta)
        bought = convert.gaussian_dp_mu_squared(epsilon, delta)
        assert mp_gaussian_delta(epsilon, bought) <= as_mp(delta)
        assert mp_gaussian_delta(epsilon, bought * (1 + Fraction(CLOSE))) > as_mp(delta)


def test_the_delta_of_zcdp_is_that_of_the_best_order_rounded_up(seed):
    for epsilon, _, rho in cases(seed + 2):

        def log_delta(log_step: float) -> float:
            step, spent, lost = math.exp(log_step), float(epsilon), float(rho)  # noqa: B023
            power = step * ((1 + step) * lost - spent) + step * log_step
            return power - (1 + step) * math.log1p(step)

        best = scipy.optimize.minimize_scalar(log_delta, bounds=(-60, 60), method="bounded")
        log_best = mp_zcdp_log_delta(epsilon, rho, math.exp(best.x))
        found = convert.zcdp_delta(epsilon, rho)
        # no order has a smaller delta than the best one, and ours is that of some order
        assert as_mp(found) >= min(mpmath.mpf(1), mpmath.exp(log_best) * (1 - mpmath.mpf(10) ** -6))
        assert as_mp(found) <= mpmath.exp(log_best) * (1 + 1e-6) + mpmath.mpf(10) ** -4000


def test_epsilon_and_rho_of_zcdp_are_inverse_and_private(seed):
    for epsilon, delta, rho in cases(seed + 3, 200):
        spent = convert.zcdp_epsilon(rho, delta)
        assert convert.zcdp_delta(spent, rho) <= delta * (1 + Fraction(1, 10**9))
        bought = convert.zcdp_rho(epsilon, delta)
        assert bought >= 0
        if bought:
            assert convert.zcdp_delta(epsilon, bought) <= delta * (1 + Fraction(1, 10**9))
            again = convert.zcdp_epsilon(bought, delta)
            assert again <= epsilon * (1 + Fraction(1, 10**9))
            assert again >= epsilon * (1 - Fraction(1, 10**6))


def test_no_conversion_promises_more_than_dp_accounting_finds(seed):
    """Its exact Gaussian and its conversion from Renyi divergences, on 500 random cases."""
    accounting = pytest.importorskip("dp_accounting")
    from dp_accounting.pld import privacy_loss_mechanism as mechanisms
    from dp_accounting.rdp import rdp_privacy_accountant as renyi

    orders = 1 + np.exp(np.linspace(-8, 9, 120))
    for epsilon, delta, amount in cases(seed + 4):
        sigma = 1 / math.sqrt(amount)
        theirs = mechanisms.GaussianPrivacyLoss(sigma).get_delta_for_epsilon(float(epsilon))
        ours = convert.gaussian_dp_delta(epsilon, amount)
        assert float(ours) >= theirs * (1 - 1e-6) - 1e-14
        theirs, _ = renyi.compute_epsilon(orders, orders * float(amount), float(delta))
        ours = convert.zcdp_epsilon(amount, delta)
        assert theirs * (1 + 1e-9) + 1e-9 >= float(ours) >= theirs * (1 - 0.02) - 1e-3
    assert accounting is not None


def test_pure_privacy_is_gaussian_at_the_corner_of_its_trade_off(seed):
    rng = np.random.default_rng(seed)
    for epsilon in map(Fraction, [2.0**-40, 1e-3, 1.0, 30.0, 700.0, *10 ** rng.uniform(-6, 2, 40)]):
        square = convert.pure_mu_squared(epsilon)
        corner = 1 / (1 + mpmath.exp(as_mp(epsilon)))
        half = mpmath.sqrt(as_mp(square)) / 2
        assert mpmath.erfc(half / mpmath.sqrt(2)) / 2 <= corner
        less = half * (1 - mpmath.mpf(10) ** -9)
        assert mpmath.erfc(less / mpmath.sqrt(2)) / 2 > corner
        if epsilon > 100:
            continue  # beyond the digits of the test
        # the trade-off of the Gaussian lies below that of randomised response everywhere
        for share in rng.uniform(0, 1, 5):
            level = corner * share
            level_of = mpmath.sqrt(2) * mpmath.erfinv(1 - 2 * level)
            missed = mpmath.ncdf(level_of - 2 * half)
            assert missed <= 1 - mpmath.exp(as_mp(epsilon)) * level + mpmath.mpf(10) ** -60
    assert convert.pure_mu_squared(Fraction(3000)) == 24000
    assert convert.pure_mu_squared(Fraction(0)) == 0


@pytest.mark.parametrize("fault", [0.9, 0.99])
def test_a_cut_noise_would_be_noticed(fault, seed):
    """The planted fault: a Gaussian whose variance is less than it says."""
    for epsilon, _, square in cases(seed, 50):
        truth = mp_gaussian_delta(epsilon, square)
        cut = convert.gaussian_dp_delta(epsilon, square * Fraction(fault), 200)
        assert as_mp(cut) < truth or truth < mpmath.mpf(2) ** -180
