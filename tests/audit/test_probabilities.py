"""Exact audits of tables: the verdict flips where the truth does, to the last unit."""

from __future__ import annotations

import itertools
import math
from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightdp.audit import audit_pmf, hockey_stick
from tightdp.audit.rationals import exceeds, exp_between, log_down
from tightdp.errors import DimensionError, ParameterError

TINY = Fraction(1, 10**40)


def log_of(number: int) -> Fraction:
    """ln(number) to 60 digits."""
    with localcontext() as context:
        context.prec = 60
        return Fraction(Decimal(number).ln())


# --- bounds of the exponential ------------------------------------------------------------------


@pytest.mark.parametrize("x", ["0", "1e-30", "0.1", "1", "7/3", "50", "1024"])
@pytest.mark.parametrize("digits", [0, 20, 300])
def test_the_exponential_is_enclosed(x, digits):
    number, width = Fraction(x), Fraction(1, 10**digits)
    low, high = exp_between(number, width)
    with localcontext() as context:
        context.prec = 1200
        truth = Fraction((Decimal(number.numerator) / number.denominator).exp())
    margin = truth / 10**1100
    assert low - margin <= truth <= high + margin
    assert high - low < width
    assert (high == low) == (number == 0)


@pytest.mark.parametrize(
    ("a", "b"), [(3, 1), (8, 3), (19, 7), (87, 32), (1264, 465), (566827, 208524)]
)
def test_convergents_of_e_are_told_from_e(a, b):
    # |e - a/b| < 1/b^2: the closest fractions there are
    assert exceeds(a, b, Fraction(1)) == (a / b > math.e)
    scale = 10**50
    with localcontext() as context:
        context.prec = 80
        digits = int(Decimal(1).exp() * scale)
    assert not exceeds(digits, scale, Fraction(1))
    assert exceeds(digits + 1, scale, Fraction(1))


def test_degenerate_comparisons():
    assert not exceeds(0, 0, Fraction(1))
    assert exceeds(1, 0, Fraction(1000))
    assert not exceeds(5, 5, Fraction(0))
    assert exceeds(6, 5, Fraction(0))
    assert not exceeds(-1, 0, Fraction(1))


@given(st.integers(1, 10**40), st.integers(1, 10**40))
def test_logarithms_are_rounded_down_and_close(a, b):
    a, b = max(a, b), min(a, b)
    value = log_down(a, b)
    assert value == 0 or exceeds(a, b, Fraction(value))  # e^value < a/b
    assert not exceeds(a, b, Fraction(value) * (1 + Fraction(1, 2**46)) + Fraction(1, 2**1000))


# --- verdicts -----------------------------------------------------------------------------------


@pytest.mark.parametrize("odds", [2, 3, 10, 10**9])
def test_randomised_response_has_epsilon_ln_odds(odds):
    p, q, truth = [odds, 1], [1, odds], log_of(odds)
    assert audit_pmf(p, q, epsilon=truth + TINY).verdict == "holds"
    report = audit_pmf(p, q, epsilon=truth - TINY)
    assert report.verdict == "violated"
    assert report.epsilon_lower == pytest.approx(math.log(odds), rel=1e-14)
    assert Fraction(report.epsilon_lower) <= truth
    assert report.confidence == 1.0
    assert report.checked == 2


def test_one_unit_of_weight_is_seen():
    half = 2**60
    p, q = [half + 1, half - 1], [half, half]
    assert audit_pmf(q, q, epsilon=0).verdict == "holds"
    assert audit_pmf(p, q, epsilon=0).verdict == "violated"
    needed = Fraction(1, 2**61)
    assert hockey_stick(p, q, 0) == (needed, needed)
    assert audit_pmf(p, q, epsilon=0, delta=needed).verdict == "holds"
    assert audit_pmf(p, q, epsilon=0, delta=needed - TINY).verdict == "violated"


weights = st.lists(st.integers(0, 50), min_size=2, max_size=6).filter(any)


@given(st.data())
def test_every_subset_is_covered(data):
    p = data.draw(weights)
    q = data.draw(st.lists(st.integers(0, 50), min_size=len(p), max_size=len(p)).filter(any))
    epsilon = data.draw(st.fractions(0, 3, max_denominator=64))
    delta = data.draw(st.fractions(0, Fraction(1, 2), max_denominator=64))
    report = audit_pmf(p, q, epsilon=epsilon, delta=delta)
    excess, least = 0.0, 0.0
    for size in range(1, len(p) + 1):
        for event in itertools.combinations(range(len(p)), size):
            for a, b in ((p, q), (q, p)):
                P = Fraction(sum(a[i] for i in event), sum(a))
                Q = Fraction(sum(b[i] for i in event), sum(b))
                excess = max(excess, float(P) - math.exp(epsilon) * float(Q))
                if P - delta > Q:
                    ratio = float((P - delta) / Q) if Q else math.inf
                    least = max(least, math.log(ratio))
    assert report.epsilon_lower == pytest.approx(least, rel=1e-12, abs=1e-12)
    assert report.delta_needed == pytest.approx(excess, abs=1e-12)
    if abs(excess - delta) > 1e-9:
        assert report.violated == (excess > delta)


def test_the_least_delta_is_enclosed_and_decides():
    p, q, epsilon = [5, 3, 2], [2, 4, 5], Fraction(1, 2)
    low, high = (
        max(ends)
        for ends in zip(hockey_stick(p, q, epsilon), hockey_stick(q, p, epsilon), strict=True)
    )
    assert 0 < high - low < Fraction(1, 2**90)
    assert audit_pmf(p, q, epsilon=epsilon, delta=high).verdict == "holds"
    report = audit_pmf(p, q, epsilon=epsilon, delta=low - TINY)
    assert report.verdict == "violated"
    assert report.delta_needed >= high
    assert report.delta_needed == pytest.approx(float(high), rel=1e-15)


def test_an_outcome_of_one_input_only_is_infinite():
    report = audit_pmf({"a": 1, "b": 99}, {"b": 1}, epsilon=5)
    assert report.epsilon_lower == math.inf
    assert report.event == "outcome = a"
    assert report.delta_needed == pytest.approx(0.01)
    assert audit_pmf({"a": 1, "b": 99}, {"b": 1}, epsilon=5, delta=Fraction(1, 100)).verdict == (
        "holds"
    )


def test_truncated_geometric_noise():
    # weights r^|z| on -4..4, shifted by one: ratio r inside, and mass at both ends to pay for
    r, inside = Fraction(1, 2), {z: Fraction(1, 2 ** abs(z)) for z in range(-4, 5)}
    shifted = {z + 1: weight for z, weight in inside.items()}
    end = inside[4] / sum(inside.values())
    epsilon = log_of(2) + TINY
    assert audit_pmf(inside, shifted, epsilon=epsilon, delta=end).verdict == "holds"
    assert audit_pmf(inside, shifted, epsilon=epsilon, delta=end - TINY).verdict == "violated"
    planted = {**inside, 0: inside[0] * Fraction(101, 100)}  # zero drawn 1 % too often
    shifted = {z + 1: weight for z, weight in planted.items()}
    assert audit_pmf(planted, shifted, epsilon=epsilon, delta=end).verdict == "violated"
    assert r == inside[1]


def test_floats_are_taken_as_they_are():
    p, q = np.array([0.1, 0.9]), np.array([0.2, 0.8])
    exact = audit_pmf(
        [Fraction(v) for v in p.tolist()], [Fraction(v) for v in q.tolist()], epsilon=1
    )
    assert audit_pmf(p, q, epsilon=1.0) == exact


# --- refusals -----------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("change", "error", "match"),
    [
        ({"epsilon": math.nan}, ParameterError, "`epsilon` must be finite"),
        ({"epsilon": -1}, ParameterError, r"`epsilon` must lie in \[0, 2\*\*10\]"),
        ({"epsilon": "1"}, ParameterError, "`epsilon` must be an int"),
        ({"epsilon": 2000}, ParameterError, "`epsilon`"),
        ({"delta": 1}, ParameterError, r"`delta` must lie in \[0, 1\)"),
        ({"delta": -0.1}, ParameterError, "`delta`"),
        ({"p": [1, -1]}, ParameterError, "`p` must hold numbers >= 0"),
        ({"p": [0, 0]}, ParameterError, "not all 0"),
        ({"p": [1, math.nan]}, ParameterError, "`p` must be finite"),
        ({"p": [1, 2, 3]}, DimensionError, "same length"),
        ({"p": []}, DimensionError, "same length"),
        ({"p": "ab"}, ParameterError, "`p` must be a sequence or a mapping"),
        ({"p": 3}, ParameterError, "`p` must be a sequence or a mapping"),
        ({"p": np.ones((2, 2))}, DimensionError, "`p` must have 1 axis"),
        ({"p": {0: 1}}, ParameterError, "both be mappings"),
    ],
)
def test_bad_tables_are_refused(change, error, match):
    with pytest.raises(error, match=match):
        audit_pmf(**{"p": [1, 2], "q": [2, 1], "epsilon": 1, **change})
