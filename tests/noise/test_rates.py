"""Privacy parameters: exact or refused, and never rounded to the spender's side."""

from __future__ import annotations

import math
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightdp.errors import ParameterError, exact_amount, exact_fraction
from tightdp.exact.discrete_draws import rate
from tightdp.privacy import check_epsilon


@pytest.mark.parametrize(
    "value",
    [
        *(math.nan, math.inf, -math.inf, 0, 0.0, -0.0, -1, True, np.True_, "1", None, 1j, b"1"),
        *(5e-324, 1e-300, 2.0**-41, 1024.0001, 1e6, 10**400, np.float64("nan"), np.float32("inf")),
        *(Decimal("NaN"), Decimal("sNaN"), Decimal("Infinity"), Decimal("1e999999"), Fraction(-1)),
    ],
)
def test_a_bad_epsilon_is_refused(value):
    with pytest.raises(ParameterError, match="`epsilon` must"):
        check_epsilon(value)


@given(st.floats() | st.decimals() | st.fractions() | st.integers())
def test_epsilon_is_exact_or_refused(value):
    try:
        number = check_epsilon(value)
    except ParameterError:
        return
    assert number == exact_amount("epsilon", value)
    assert float(number) == float(value)
    assert 2.0**-40 <= float(number) <= 1024


@given(
    st.floats(2.0**-40, 1024) | st.fractions(Fraction(1, 1 << 40), 1024),
    st.integers(1, 1 << 80),
)
def test_a_rate_never_spends_more_than_asked(epsilon, level):
    num, den = rate(epsilon, level)
    spent = Fraction(num, den) * level
    asked = exact_amount("epsilon", epsilon)
    assert spent <= asked
    assert spent >= asked * (1 - Fraction(1, 1 << 88))
    if isinstance(epsilon, float):
        assert spent == Fraction(str(epsilon))


def test_long_rationals_are_rounded_down():
    epsilon = Fraction(10**60 // 3, 10**60)
    num, den = rate(epsilon, 3)
    assert Fraction(num, den) * 3 < epsilon
    assert den.bit_length() < 140


def test_numpy_numbers_are_taken_exactly():
    assert exact_fraction("x", np.float32(0.1)) == Fraction(float(np.float32(0.1)))
    assert exact_fraction("x", np.int64(7)) == 7
    assert exact_fraction("x", np.longdouble(1) / 3) != Fraction(1, 3)
