"""Exact composition: against enumeration of randomised responses, and never on the wrong side."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import pytest

from tightdp.mechanisms.composition import (
    composed_delta,
    exp_up,
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
        assert math.exp(x) * (1 - 1e-12) <= exp_up(x) <= math.exp(x) * (1 + 1e-12)
