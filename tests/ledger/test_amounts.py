"""Amounts are exact: bad ones are refused, sums are rational, roundings are recognised."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tightdp as tdp
from tightdp.errors import BudgetError, ParameterError
from tightdp.ledger import Budget, Ledger
from tightdp.ledger.amounts import DENOMINATOR_BITS, check_amount, from_text, to_text, unrounded
from tightdp.privacy import Guarantee, float_up

TENTH = Fraction(1, 10)
BAD = [math.nan, math.inf, -1, -math.inf, True, "1", None, 1j, Decimal("NaN"), 10**400]


# --- amounts ----------------------------------------------------------------------------------


@pytest.mark.parametrize("value", [*BAD, 0])
def test_a_bad_cap_is_refused_and_leaves_no_file(value, tmp_path):
    with pytest.raises(ParameterError, match="`epsilon` must"):
        Ledger(value, path=tmp_path / "ledger.db")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize("value", BAD)
def test_a_bad_spend_is_refused_and_costs_nothing(value):
    ledger = Ledger(1)
    with pytest.raises(ParameterError, match="`epsilon` must"):
        ledger.spend(value)
    with pytest.raises(ParameterError, match="`delta` must"):
        ledger.spend(TENTH, value)
    assert ledger.spent == Budget(Fraction(0))


@pytest.mark.parametrize("delta", [1, 1.5, -1e-9])
def test_delta_lies_in_the_unit_interval(delta):
    for make in (lambda: Ledger(1, delta), lambda: Ledger(1, 0.5).spend(TENTH, delta)):
        with pytest.raises(ParameterError, match="`delta` must lie in"):
            make()


def test_ten_tenths_are_one_and_eleven_are_not(place):
    ledger = Ledger(1, path=place)
    for _ in range(10):
        ledger.spend(TENTH)
    assert ledger.remaining == Budget(Fraction(0))
    with pytest.raises(BudgetError):
        ledger.spend(Fraction(1, 10**30))


def test_ten_float_tenths_are_one():
    ledger = Ledger(1.0)
    for _ in range(10):
        ledger.spend(0.1)
    assert ledger.remaining.epsilon == 0


def test_a_computed_float_that_is_a_little_too_much_is_explained():
    ledger = Ledger(0.3)
    with pytest.raises(BudgetError, match=r"rounding of floats.*Fraction\(1, 10\)"):
        ledger.spend(0.1 + 0.2)
    ledger.spend(Decimal("0.3"))


def test_the_refusal_names_all_three_amounts():
    ledger = Ledger(Fraction(1, 2), Fraction(1, 1000))
    ledger.spend(Fraction(1, 3))
    with pytest.raises(BudgetError) as refusal:
        ledger.spend(Fraction(1, 4))
    text = str(refusal.value)
    assert "Requested:  epsilon = 0.25, delta = 0" in text
    assert "Remaining:  epsilon = 1/6 (0.166666666666), delta = 0.001" in text
    assert "Difference: epsilon = 1/12 (0.0833333333334), delta = 0" in text
    with pytest.raises(BudgetError, match=r"Difference: epsilon = 0, delta = 0.001"):
        ledger.spend(0, Fraction(1, 500))
    assert ledger.spent.epsilon == Fraction(1, 3)


@settings(max_examples=30)
@given(st.lists(st.floats(0, 1) | st.fractions(0, 1), max_size=8))
def test_sums_are_exact(amounts):
    ledger = Ledger(100)
    for amount in amounts:
        if amount:
            ledger.spend(amount)
    assert ledger.spent.epsilon == sum(Fraction(str(amount)) for amount in amounts)
    ledger.verify()


@given(st.fractions(0, 1000))
def test_amounts_survive_their_text(number):
    assert from_text(to_text(number)) == number


@pytest.mark.parametrize("text", ["2/4", "1", "1/0", "0.5/1", "-0/1", "+1/2", "1/2 "])
def test_other_texts_are_refused(text):
    with pytest.raises((ValueError, ZeroDivisionError)):
        from_text(text)


@pytest.mark.parametrize("record", [None, 1, 0.5, ["1/2"], {"1/2": 1}])
def test_what_is_no_text_is_an_error_that_a_verification_reports(record):
    with pytest.raises(TypeError):
        from_text(record)


def test_endless_denominators_are_rounded_up():
    awkward = Fraction(1, 3**2000)
    kept = check_amount(awkward, 0).epsilon
    assert awkward < kept < awkward + Fraction(1, 1 << (DENOMINATOR_BITS - 1))
    total = Budget(kept) + Budget(Fraction(1, 3**1000))
    assert total.epsilon >= kept + Fraction(1, 3**1000)
    assert total.epsilon.denominator.bit_length() <= DENOMINATOR_BITS + 1


# --- what was rounded up to floats is paid for exactly --------------------------------------------


def test_three_releases_at_a_third_are_one():
    ledger = tdp.Ledger(1, delta=Fraction(3, 7 * 10**6))
    facts = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3)
    given = {"epsilon": Fraction(1, 3), "delta": Fraction(1, 7 * 10**6)}
    sums = tdp.AdditiveMechanism(tdp.Sums(facts), noise="gaussian", **given)
    for _ in range(3):
        release = sums.release({"x": [0.0, 0.5, 1.0]}, ledger=ledger)
        assert release.guarantee.epsilon > Fraction(1, 3)  # a float, and never below
    assert ledger.remaining == Budget(Fraction(0))
    ledger.verify()


@pytest.mark.parametrize(
    "exactly",
    [
        Budget(Fraction(1, 4)),
        Budget(Fraction(1, 3) - Fraction(1, 1 << 50)),
        Budget(Fraction(1, 2)),
        Budget(Fraction(1, 3), Fraction(1, 10**9)),
    ],
    ids=str,
)
def test_no_other_amount_passes_for_the_unrounded_one(exactly):
    ledger = Ledger(1, 0.5)
    with pytest.raises(ParameterError, match="`exactly`"):
        ledger.charge(Guarantee(epsilon=0.33333333333333337), exactly=exactly)
    assert ledger.spent == Budget(Fraction(0))


@given(st.floats(5e-324, 0.5), st.floats(2.0**-40, 2.0**10))
def test_every_rounding_up_is_recognised(delta, epsilon):
    for part in (1, 3, 7, 10):
        exact = Budget(Fraction(epsilon) / part, Fraction(delta) / part)
        rounded = Guarantee(epsilon=float_up(exact.epsilon), delta=float_up(exact.delta))
        assert unrounded(check_amount(rounded.epsilon, rounded.delta), exact) == exact
