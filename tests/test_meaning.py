"""What an epsilon means: no test is better than the bound, and one is as good."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp import plots
from tightdp.errors import ParameterError
from tightdp.meaning import explain, guess_bound, power_bound

BUDGETS = [(0.1, 0.0), (1.0, 0.0), (1.0, 0.05), (0.01, 0.3), (3.0, 1e-6), (20.0, 0.0)]
LEVELS = np.linspace(0, 1, 201)


def most_powerful(here: np.ndarray, there: np.ndarray, alpha: float) -> float:
    """The power of the Neyman-Pearson test of a finite law against another."""
    with np.errstate(divide="ignore", invalid="ignore"):
        order = np.argsort(-np.where(here > 0, there / here, np.inf), kind="stable")
    size, power = 0.0, 0.0
    for i in order:
        share = 1.0 if here[i] == 0 else min(1.0, max(0.0, alpha - size) / here[i])
        size, power = size + share * here[i], power + share * there[i]
    return power


def canonical(epsilon: float, delta: float) -> tuple[np.ndarray, np.ndarray]:
    """Truth told openly with chance delta, else right with odds exp(epsilon)."""
    right = (1 - delta) / (1 + math.exp(-epsilon))
    wrong = (1 - delta) / (1 + math.exp(epsilon))
    return np.array([delta, 0, right, wrong]), np.array([0, delta, wrong, right])


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_bound_is_attained(epsilon, delta) -> None:
    here, there = canonical(epsilon, delta)
    best = [most_powerful(here, there, alpha) for alpha in LEVELS]
    np.testing.assert_allclose(power_bound(LEVELS, epsilon, delta), best, atol=1e-12)


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_no_test_of_a_private_release_exceeds_it(epsilon, delta, seed) -> None:
    """Random laws, their delta computed exactly at epsilon."""
    rng = np.random.default_rng(seed)
    for _ in range(20):
        here, there = rng.dirichlet(np.full(6, 0.5), 2)
        spent = max(
            np.maximum(p - math.exp(epsilon) * q, 0).sum()
            for p, q in ((here, there), (there, here))
        )
        bound = power_bound(LEVELS, epsilon, min(spent, 1 - 1e-12))
        best = [most_powerful(here, there, alpha) for alpha in LEVELS]
        assert (np.array(best) <= bound + 1e-9).all()


def test_a_noisy_count_stays_below_and_comes_close() -> None:
    noise = np.exp(-np.abs(np.arange(-60, 61)) * 1.0)
    noise /= noise.sum()
    here, there = np.append(noise, 0), np.insert(noise, 0, 0)
    for alpha in (0.01, 0.05, 0.2, 0.5):
        best = most_powerful(here, there, alpha)
        assert best <= power_bound(alpha, 1.0) + 1e-9
        assert best <= most_powerful(*canonical(1.25, 0.0), alpha)
        # the same noise sold at a smaller epsilon is caught
        assert alpha > 0.3 or best > power_bound(alpha, 0.8)


def test_both_directions_and_where_the_printed_bound_is_loose() -> None:
    epsilon = 1.0
    knee = 1 / (1 + math.e)
    below, above = np.linspace(0, knee, 50), np.linspace(knee + 1e-9, 1, 50)
    np.testing.assert_allclose(power_bound(below, epsilon), below * math.e, rtol=1e-14)
    assert (power_bound(above, epsilon) < np.minimum(1, above * math.e))[above < 1].all()
    # tables exchanged: errors of the two kinds change places, the curve is its own mirror
    power = power_bound(LEVELS, epsilon)
    np.testing.assert_allclose(power_bound(1 - power, epsilon), 1 - LEVELS, atol=1e-12)


def test_rows_that_depend_on_the_person_break_the_printed_statement() -> None:
    """Two equal rows, each told with odds e: together odds e squared."""
    right = 1 / (1 + math.exp(-1))
    one = np.array([right, 1 - right])
    here, there = np.outer(one, one).ravel(), np.outer(one[::-1], one[::-1]).ravel()
    assert most_powerful(here, there, 0.05) > power_bound(0.05, 1.0)
    assert most_powerful(here, there, 0.05) <= power_bound(0.05, 2.0) + 1e-12


@pytest.mark.parametrize(("epsilon", "delta"), BUDGETS)
def test_the_best_guess_is_the_best_point_of_the_curve(epsilon, delta) -> None:
    fine = np.append(np.linspace(0, 1, 100_001), (1 - delta) / (1 + math.exp(epsilon)))
    best = (1 - fine + power_bound(fine, epsilon, delta)).max() / 2
    assert guess_bound(epsilon, delta) == pytest.approx(best, rel=1e-12)


@pytest.mark.parametrize("epsilon", [1e-300, 1e-9, 700.0, 1e6])
def test_extreme_budgets(epsilon) -> None:
    power = power_bound(np.array([0.0, 1e-300, 0.5, 1.0]), epsilon)
    assert power[0] == 0
    assert power[-1] == 1
    assert ((power >= [0, 1e-300, 0.5, 1]) & (power <= 1)).all()
    assert 0.5 <= guess_bound(epsilon) <= 1


def test_words_name_the_numbers_rounded_upwards() -> None:
    text = explain(1.0)
    assert "73.2 %" in text
    assert "13.6 %" in text
    assert "weak" not in text
    assert "weak" in explain(5.0)
    assert "1e-06" in explain(1.0, 1e-6)
    assert "in the data at all" in explain(1.0, neighbors="add-remove")
    # never rounded to certainty, nor below the truth
    assert "100 %" not in explain(12.0)
    assert "62.3 %" in explain(0.5)


@pytest.mark.parametrize(
    ("given", "text"),
    [
        ((1.5, 1.0, 0.0), "alpha"),
        ((float("nan"), 1.0, 0.0), "alpha"),
        (("x", 1.0, 0.0), "alpha"),
        ((0.05, 0.0, 0.0), "epsilon"),
        ((0.05, float("inf"), 0.0), "epsilon"),
        ((0.05, 1.0, 1.0), "delta"),
        ((0.05, 1.0, -0.1), "delta"),
    ],
)
def test_bad_input(given, text) -> None:
    with pytest.raises(ParameterError, match=text):
        power_bound(*given)


def test_bad_words() -> None:
    with pytest.raises(ParameterError, match="alpha"):
        explain(1.0, alpha=0.0)
    with pytest.raises(ParameterError, match="neighbors"):
        explain(1.0, neighbors="replace")
    with pytest.raises(ParameterError, match="epsilon"):
        guess_bound(-1.0)
    assert tdp.power_bound is power_bound


def test_the_picture_shows_the_bound() -> None:
    ax = plots.plot_power([0.5, 2.0], delta=0.1)
    for drawn, epsilon in zip(ax.lines, (0.5, 2.0), strict=False):
        x, y = drawn.get_data()
        np.testing.assert_allclose(
            np.interp(LEVELS, x, y), power_bound(LEVELS, epsilon, 0.1), atol=1e-12
        )
    with pytest.raises(ParameterError, match="epsilons"):
        plots.plot_power([])


def test_exact_budgets_are_explained_like_floats():
    assert explain(Fraction(1, 2), Fraction(1, 10**6)) == explain(0.5, 1e-6)


# --- in rho and mu --------------------------------------------------------------------------------


def test_the_bound_in_mu_is_the_trade_off_of_the_gaussian() -> None:
    rng = np.random.default_rng(3)
    draws = rng.standard_normal(400_000)
    for mu, alpha in ((0.5, 0.05), (1.0, 0.2), (2.0, 0.01)):
        cut = np.quantile(draws, 1 - alpha)
        assert power_bound(alpha, mu=mu) == pytest.approx((draws + mu > cut).mean(), abs=0.01)
    assert guess_bound(mu=1.0) == pytest.approx(0.5 + (power_bound(0.30854, mu=1.0) - 0.30854) / 2)


@pytest.mark.parametrize("rho", [0.001, 0.05, 0.5, 3.0])
def test_the_bound_in_rho_holds_for_laws_that_reach_it(rho) -> None:
    """Gaussians and randomised response with exactly this rho: one is close, neither above."""
    mu = math.sqrt(2 * rho)
    levels = np.array([1e-3, 0.05, 0.3, 0.7])
    bound = power_bound(levels, rho=rho)
    assert (power_bound(levels, mu=mu) <= bound).all()
    low, high = 0.0, 40.0  # the rho of randomised response is epsilon tanh(epsilon / 2), at order 1
    for _ in range(60):
        epsilon = (low + high) / 2
        enough = epsilon * math.tanh(epsilon / 2) > rho
        low, high = (low, epsilon) if enough else (epsilon, high)
    guess = guess_bound(epsilon)
    assert guess <= guess_bound(rho=rho) * (1 + 1e-6)
    assert guess >= guess_bound(rho=rho) * 0.97
    assert guess_bound(mu=mu) <= guess_bound(rho=rho)


def test_the_bound_in_rho_is_below_what_every_epsilon_says() -> None:
    """It is the whole content of rho: no (epsilon, delta) that rho implies is sharper."""
    from tightdp.accounting.conversions import zcdp_delta

    for rho in (0.02, 0.5):
        for alpha in (0.01, 0.2):
            bound = power_bound(alpha, rho=rho)
            for epsilon in (0.1, 0.5, 1.0, 2.0):
                delta = float(zcdp_delta(Fraction(epsilon), Fraction(rho)))
                if delta < 1:
                    assert bound <= power_bound(alpha, epsilon, delta) + 1e-6


def test_a_guarantee_is_stated_in_one_unit() -> None:
    for given in ({}, {"epsilon": 1.0, "rho": 0.1}, {"rho": 0.1, "mu": 0.1}):
        with pytest.raises(ParameterError, match="one of them"):
            explain(**given)
    with pytest.raises(ParameterError, match="rho"):
        guess_bound(rho=-1.0)
    assert "implies epsilon" in explain(mu=0.5, delta=1e-9)
    assert "delta = 1e-09" in explain(mu=0.5, delta=1e-9)


def test_curves_of_all_units_can_be_drawn_together() -> None:
    ax = plots.plot_power(1.0, rhos=[0.1, 0.5], mus=0.5)
    assert len(ax.get_lines()) == 5
    curve = plots.plot_conversions(rhos=0.1, mus=math.sqrt(0.2)).get_lines()
    rho, mu = (np.asarray(line.get_ydata(), dtype=float) for line in curve)
    assert (np.diff(rho) > 0).all()
    assert (mu < rho).all()  # an exactly Gaussian release costs less
    with pytest.raises(ParameterError, match="rhos"):
        plots.plot_conversions()
