"""Caps hold against analysts who choose the next question by the last answer.

The world is one bit: under P it is there, under Q it is not. A Gaussian answer of cost mu**2 adds
N(mu**2/2, mu**2) to the privacy loss under P. What an adversary gains beyond epsilon is the mean of
(1 - exp(epsilon - loss))_+, plus the chance that a release failed openly: at most delta.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction

import numpy as np
import pytest

from tightdp.accounting import Cost
from tightdp.accounting.caps import Cap
from tightdp.accounting.conversions import gaussian_dp_delta, gaussian_dp_mu_squared
from tightdp.errors import BudgetError
from tightdp.ledger import Ledger

EPSILON, DELTA = 1.0, 0.1
RUNS = 40_000
STEPS = 12
FAR = 4.0  # standard errors: a fair cap fails once in 30,000 tests, and the fault is 20 away


def gained(loss: np.ndarray, failed: np.ndarray) -> tuple[float, float]:
    """What an adversary gains on average, and its standard error."""
    each = np.maximum(0.0, 1 - np.exp(EPSILON - loss))
    each = failed + (1 - failed) * each
    return float(each.mean()), float(each.std() / np.sqrt(len(each)))


Analyst = Callable[[np.ndarray, np.ndarray], np.ndarray]


def steady(loss: np.ndarray, left: np.ndarray) -> np.ndarray:
    return np.full_like(loss, 1 / STEPS)


def greedy(loss: np.ndarray, left: np.ndarray) -> np.ndarray:
    """All that is left where the loss is near epsilon, little elsewhere."""
    return np.where(np.abs(loss - EPSILON) < 0.5, left, 0.02)


def patient(loss: np.ndarray, left: np.ndarray) -> np.ndarray:
    """Stops where it has won, presses on where it has not."""
    return np.where(loss > 2 * EPSILON, 0.0, left / 2)


@pytest.mark.parametrize("analyst", [steady, greedy, patient])
@pytest.mark.parametrize("accountant", ["zcdp", "gaussian"])
def test_no_analyst_gains_more_than_delta(analyst: Analyst, accountant: str, seed):
    rng = np.random.default_rng(seed)
    cap = Cap.stated(accountant, epsilon=EPSILON, delta=DELTA)
    most = float(cap.amount) * (2 if accountant == "zcdp" else 1)  # in mu**2
    loss, left = np.zeros(RUNS), np.ones(RUNS)
    for _ in range(STEPS):
        share = np.minimum(analyst(loss, left), left)
        square = share * most
        loss += square / 2 + np.sqrt(square) * rng.standard_normal(RUNS)
        left -= share
    mean, error = gained(loss, np.zeros(RUNS))
    assert mean <= DELTA + FAR * error
    if accountant == "gaussian" and analyst is steady:
        assert mean > DELTA - FAR * error  # all of it is used up: the cap is not loose


def test_a_slack_that_shrinks_the_cap_as_it_is_spent_is_no_filter(seed):
    """The planted fault: delta(epsilon, m) + d <= delta at every moment, d chosen on the way."""
    rng = np.random.default_rng(seed)
    whole = float(gaussian_dp_mu_squared(Fraction(EPSILON), Fraction(DELTA)))
    half = whole / 3
    loss = half / 2 + np.sqrt(half) * rng.standard_normal(RUNS)
    low = loss < 0.3
    spare = DELTA - float(gaussian_dp_delta(Fraction(EPSILON), Fraction(half)))
    rest = whole - half
    more = rest / 2 + np.sqrt(rest) * rng.standard_normal(RUNS)
    failed = np.where(low, spare, 0.0)
    mean, error = gained(np.where(low, loss, loss + more), failed)
    assert mean > DELTA + FAR * error

    # with the slack fixed beforehand the same analyst gains no more than delta
    slack = DELTA / 2
    cap = Cap.stated("gaussian", epsilon=EPSILON, delta=DELTA, slack=slack)
    first = float(cap.amount) / 3
    loss = first / 2 + np.sqrt(first) * rng.standard_normal(RUNS)
    low = loss < 0.3
    rest = float(cap.amount) - first
    more = rest / 2 + np.sqrt(rest) * rng.standard_normal(RUNS)
    mean, error = gained(loss + more, np.where(low, slack, 0.0))
    assert mean <= DELTA + FAR * error


def test_the_odometer_holds_at_all_times_at_once(seed):
    """Read where the loss is highest above it, by an analyst who spends more where it is high."""
    rng = np.random.default_rng(seed)
    cap = Cap.stated("zcdp", epsilon=4, delta=0.05)
    most, runs = float(cap.amount), 4000
    lines = [
        float(cap.odometer(cap.amount * k / 64, Fraction(0), Fraction(1, 20))) for k in range(65)
    ]
    loss, spent = np.zeros(runs), np.zeros(runs, dtype=int)
    broken = np.zeros(runs, dtype=bool)
    for _ in range(64):
        step = np.where(loss > 0.5, 2, 1)
        step = np.minimum(step, 64 - spent)
        square = 2 * most * step / 64
        loss += square / 2 + np.sqrt(square) * rng.standard_normal(runs)
        spent += step
        broken |= loss > np.array(lines)[spent]
    chance = broken.mean()
    assert chance <= 0.05 + FAR * np.sqrt(0.05 * 0.95 / runs)


def analyst_with_a_ledger(draw: np.random.Generator, terms: dict) -> None:
    """Asks for what the last answer suggests until it is refused three times."""
    with Ledger(**terms) as ledger:
        cap = ledger.remaining
        total, delta, refused, answer = Fraction(0), Fraction(0), 0, 0.0
        while refused < 3:
            size = abs(answer) + 0.05
            pure = round(min(size, 2.0), 3)
            square = Fraction(round(size, 3)).limit_denominator(1000) ** 2
            cost = (
                lambda: Cost.of(pure),  # noqa: B023
                lambda: Cost.gaussian(square, delta=1e-6, epsilon=1),  # noqa: B023
                lambda: Cost.of(pure, 1e-8),  # noqa: B023
                lambda: Cost.concentrated(square / 2, delta=1e-8, epsilon=1),  # noqa: B023
            )[int(draw.integers(4))]()
            try:
                receipt = ledger.spend(cost)
            except BudgetError:
                refused += 1
                answer = answer / 2
                continue
            total, delta = total + receipt.cost.amount, delta + receipt.cost.delta
            answer = float(draw.normal(0, 0.5))
        assert ledger.spent.amount == total <= cap.amount
        assert ledger.spent.delta == delta <= cap.delta
        ledger.verify()


@pytest.mark.parametrize("runs", [40, pytest.param(10_000, marks=pytest.mark.slow)])
def test_an_analyst_never_gets_past_the_cap(runs, seed):
    draw = np.random.default_rng(seed)
    kinds = [
        {"epsilon": 3, "delta": 1e-6, "accountant": "gaussian", "slack": 1e-7},
        {"epsilon": 3, "delta": 1e-6, "accountant": "zcdp", "slack": 1e-7},
        {"epsilon": 3, "delta": 1e-6},
        {"rho": 0.5, "slack": 2e-8},
    ]
    for run in range(runs):
        analyst_with_a_ledger(draw, kinds[run % len(kinds)])
