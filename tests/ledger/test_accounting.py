"""Tight accounting: never below the optimum, and near it."""

from __future__ import annotations

import importlib.util
import itertools
import math
from fractions import Fraction

import pytest

from tightdp.ledger import Ledger

TENTH = Fraction(1, 10)


# --- tight accounting -----------------------------------------------------------------------------

accounting = pytest.mark.skipif(
    importlib.util.find_spec("dp_accounting") is None, reason="needs the extra `accounting`"
)


@accounting
def test_many_small_spends_are_worth_less_than_their_sum():
    ledger = Ledger(100)
    for _ in range(100):
        ledger.spend(TENTH)
    assert 0 < ledger.tight_epsilon(1e-6) < 6 < ledger.spent.epsilon
    assert ledger.tight_epsilon(0) == 10
    assert Ledger(1).tight_epsilon(1e-6) == 0


@accounting
@pytest.mark.parametrize(
    ("epsilon", "delta", "count"), [(0.3, 0, 4), (1.0, 1e-3, 3), (0.05, 0, 20)]
)
def test_tight_epsilon_is_above_the_optimal_composition(epsilon, delta, count):
    """Oracle: the exact delta of k-fold randomised response (Kairouz, Oh and Viswanath)."""
    ledger = Ledger(100, 0.5)
    for _ in range(count):
        ledger.spend(epsilon, delta)
    target = 0.01
    found = ledger.tight_epsilon(target)
    e = math.exp(epsilon)
    share = sum(
        math.comb(count, i) * max(0.0, e**i - math.exp(found) * e ** (count - i)) / (1 + e) ** count
        for i in range(count + 1)
    )
    assert 1 - (1 - delta) ** count * (1 - share) <= target
    assert found <= count * epsilon


@accounting
def test_tight_epsilon_counts_a_partition_once_and_needs_delta_for_deltas():
    ledger = Ledger(10, 0.1)
    ledger.declare_partition("p", [1, 2], fixed=True)
    for cell in (1, 2, 1):
        ledger.spend(1, 0.01, partition=("p", cell))
    assert 1.9 < ledger.tight_epsilon(0.02) <= 2
    assert ledger.tight_epsilon(1e-3) == math.inf


def optimal_delta(epsilons: list[float], at: float) -> float:
    """The delta of composed randomised responses, by enumeration of all their answers."""
    total = 0.0
    for signs in itertools.product((0, 1), repeat=len(epsilons)):
        p = math.prod(
            math.exp(e * s) / (1 + math.exp(e)) for e, s in zip(epsilons, signs, strict=True)
        )
        q = math.prod(
            math.exp(e * (1 - s)) / (1 + math.exp(e)) for e, s in zip(epsilons, signs, strict=True)
        )
        total += max(0.0, p - math.exp(at) * q)
    return total


@accounting
@pytest.mark.parametrize("epsilons", [[0.1, 0.7, 1.3], [0.5, 0.25, 0.125, 2.0], [0.3] * 5 + [1.0]])
def test_tight_epsilon_of_unequal_spends_is_above_the_optimum_and_near_it(epsilons):
    ledger = Ledger(100)
    for epsilon in epsilons:
        ledger.spend(epsilon)
    for delta in (1e-5, 1e-2, 0.1):
        found = ledger.tight_epsilon(delta)
        assert optimal_delta(epsilons, found) <= delta
        assert optimal_delta(epsilons, found - 0.01) > delta or found >= sum(epsilons) - 1e-9
    assert ledger.tight_epsilon(0) >= sum(epsilons) - 1e-12


def test_spends_below_one_are_added_and_never_multiplied():
    """Erratum E36: a product of epsilons would make the second of two spends of 1/2 cost -1/4."""
    ledger = Ledger(2)
    for cell in (None, ("p", 1), ("p", 1)):
        if cell and not ledger.history()[1:]:
            ledger.declare_partition("p", [1, 2], fixed=True)
        before = ledger.spent.epsilon
        ledger.spend(Fraction(1, 2), partition=cell)
        assert ledger.spent.epsilon - before == Fraction(1, 2)
    assert ledger.spent.epsilon == Fraction(3, 2)
