"""Exact composition: against enumeration of randomised responses, and never on the wrong side."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy import special

from tightdp.exact.enclosures import exp_above, exp_minus_bounds
from tightdp.shaping.shared_costs import (
    composed_delta,
    group_budget,
    group_cost,
    most_each,
)


def enumerated(each: float, lost: float, times: int, epsilon: float) -> float:
    """The delta of so many worst (each, lost)-DP releases, outcome by outcome."""
    odds = math.exp(each)
    one = {  # fails one way, answers, fails the other way
        "x": (lost, 0.0),
        "0": ((1 - lost) * odds / (1 + odds), (1 - lost) / (1 + odds)),
        "1": ((1 - lost) / (1 + odds), (1 - lost) * odds / (1 + odds)),
        "y": (0.0, lost),
    }
    total = 0.0
    for outcome in itertools.product(one.values(), repeat=times):
        p, q = (math.prod(side) for side in zip(*outcome, strict=True))
        total += max(p - math.exp(epsilon) * q, 0.0)
    return total


@pytest.mark.parametrize("times", [1, 2, 5])
@pytest.mark.parametrize(("each", "lost"), [("1/2", "0"), ("1/3", "1/50"), ("2", "1/10")])
@pytest.mark.parametrize("epsilon", ["0", "1/2", "3/2", "4"])
def test_the_theorem_by_enumeration(each, lost, times, epsilon):
    each, lost, epsilon = Fraction(each), Fraction(lost), Fraction(epsilon)
    found = composed_delta(each, lost, times, epsilon)
    truth = enumerated(float(each), float(lost), times, float(epsilon))
    assert float(found) == pytest.approx(truth, abs=1e-12)
    assert float(found) >= truth - 1e-14


@pytest.mark.parametrize("times", [1, 3, 40])
@pytest.mark.parametrize("delta", ["0", "1/1000000", "1/10"])
@pytest.mark.parametrize("lossy", [True, False])
def test_what_each_may_spend_is_covered_and_nearly_all(times, delta, lossy):
    epsilon, delta = Fraction(1), Fraction(delta)
    each, lost = most_each(epsilon, delta, times, lossy=lossy)
    assert each >= epsilon / times
    assert composed_delta(each, lost, times, epsilon) <= delta
    if delta and times > 1:
        assert composed_delta(each * Fraction(5, 4), lost, times, epsilon) > delta


def test_steps_of_a_group():
    epsilon, delta = Fraction(1), Fraction(1, 100)
    each, lost = group_budget(epsilon, delta, 3)
    back = group_cost(each, lost, 3)
    assert back[0] == epsilon
    assert delta <= back[1] <= delta * (1 + Fraction(1, 10**30)) or back[1] == delta
    assert group_cost(each, Fraction(1, 2), 9)[1] == 1  # a delta is at most 1
    for x in (Fraction(0), Fraction(1, 3), Fraction(20)):
        assert math.exp(x) * (1 - 1e-12) <= exp_above(x) <= math.exp(x) * (1 + 1e-12)


def test_many_steps_against_binomials_in_logarithms():
    """20,000 steps: mantissas instead of whole binomials keep it fast."""
    times, each, epsilon = 20_000, Fraction(1, 600), Fraction(1)
    j = np.arange(times + 1)
    logs = special.gammaln(times + 1) - special.gammaln(j + 1) - special.gammaln(times - j + 1)
    logs -= times * np.log1p(np.exp(-float(each)))
    gains = np.exp(-j / 600) - np.exp(1 - (times - j) / 600)
    plain = float(np.sum(np.exp(logs) * np.maximum(gains, 0)))
    found = composed_delta(each, Fraction(0), times, epsilon)
    assert float(found) == pytest.approx(plain, rel=1e-6)


def test_rounded_mantissas_never_promise_too_much():
    """The same sum in whole integers, with the same enclosures: at most 2**-140 less."""
    for each, times, epsilon in [
        (Fraction(1, 5), 60, Fraction(2)),
        (Fraction(2), 9, Fraction(5)),
    ]:
        bits = 400
        low, high = exp_minus_bounds(each, bits)
        base = Fraction(low + high, 2 << bits)
        factor = 1 / Fraction(sum(exp_minus_bounds(epsilon, bits)), 2 << bits)
        gains = [base**j - factor * base ** (times - j) for j in range(times + 1)]
        exact = sum(math.comb(times, j) * max(gain, 0) for j, gain in enumerate(gains))
        exact /= (1 + base) ** times
        found = composed_delta(each, Fraction(0), times, epsilon)
        assert 0 <= found - exact < Fraction(1, 1 << 140)
