"""The checks of parameters: what they let through, and what they say of the rest."""

from __future__ import annotations

import re
from decimal import Decimal
from fractions import Fraction

import numpy as np
import pytest

from tightdp import errors
from tightdp.errors import DimensionError, ParameterError
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.privacy import Neighbors
from tightdp.schema import (
    Category,
    Interval,
    Schema,
    check_schema,
    column_of_two_levels,
    numeric_column,
    require_public_rows,
)

READERS = (errors.check_within, errors.amount_within, errors.fraction_within)
INSIDE = {
    "(0, 1)": [0.5, 1e-9, Fraction(1, 3), Decimal("0.25"), np.float64(0.75)],
    "[0, 1)": [0, 0.0, 0.999],
    "(0, 1]": [1, np.int64(1), 1.0],
    "[1e-7, 1]": [1, 0.5, 1e-6],
    "(0, 2**20]": [1 << 20, 1],
    "[0, inf)": [0, 1e300],
    "(0, inf)": [1e-300, 5],
}
OUTSIDE = {
    "(0, 1)": ([0, 1, -0.5, 2], "must lie strictly between 0 and 1"),
    "[0, 1)": ([1, -1e-12], "must lie in [0, 1)"),
    "(0, 1]": ([0, 1.5], "must lie in (0, 1]"),
    "[1e-7, 1]": ([1e-8, 2], "must lie in [1e-7, 1]"),
    "(0, 2**20]": ([0, (1 << 20) + 1], "must lie in (0, 2**20]"),
    "[0, inf)": ([-1, -1e-300], "must be >= 0"),
    "(0, inf)": ([0, -3], "must be a finite number > 0"),
}
BAD = [True, "1", None, float("nan"), float("inf"), [1]]


@pytest.mark.parametrize("check", READERS)
@pytest.mark.parametrize("allowed", INSIDE)
def test_numbers_of_an_interval_pass(check, allowed):
    for value in INSIDE[allowed]:
        if check is errors.check_within and isinstance(value, Decimal):
            continue  # a decimal is for exact amounts
        assert float(check("x", value, allowed)) == pytest.approx(float(value), rel=1e-15)


@pytest.mark.parametrize("check", READERS)
@pytest.mark.parametrize("allowed", OUTSIDE)
def test_other_numbers_are_refused_with_the_interval(check, allowed):
    values, words = OUTSIDE[allowed]
    for value in values:
        with pytest.raises(ParameterError, match=re.escape(f"`x` {words}. Got ")):
            check("x", value, allowed)
        with pytest.raises(ParameterError, match=r": take another\.$"):
            check("x", value, allowed, "take another")


@pytest.mark.parametrize("check", READERS)
@pytest.mark.parametrize("value", BAD, ids=repr)
def test_what_is_no_number_is_refused(check, value):
    with pytest.raises(ParameterError, match="`x` must be"):
        check("x", value, "(0, 10)")


def test_ends_are_exact():
    third = Fraction(1, 3)
    assert errors.amount_within("x", third, "[1/3, 1]") == third
    with pytest.raises(ParameterError):
        errors.amount_within("x", third, "(1/3, 1]")


@pytest.mark.parametrize("check", READERS)
def test_doubles_reach_the_ends_that_are_stated(check):
    for allowed in ("[1e-6, 1e12]", "[1e-12, 0.1]", "[0.3, 0.7]"):
        for end in map(float, allowed[1:-1].split(", ")):
            assert float(check("x", end, allowed)) == end
            open_at = f"({allowed[1:-1]})"
            with pytest.raises(ParameterError):
                check("x", end, open_at)


def test_classes_and_functions():
    ball = LpBall(2, 2)
    assert errors.check_instance("ball", ball, NormBall) is ball
    with pytest.raises(ParameterError, match=r"`ball` must be a NormBall\. Got int: make one\."):
        errors.check_instance("ball", 3, NormBall, "make one")
    with pytest.raises(ParameterError, match=r"`rule` must be an Interval\. Got str\."):
        errors.check_instance("rule", "x", Interval)
    assert errors.check_function("norm", abs) is abs
    with pytest.raises(ParameterError, match=r"`norm` must be a function of the table\. Got int"):
        errors.check_function("norm", 3)


def test_lengths():
    errors.check_length("names", 2, 2)
    errors.check_most("bins", 3, 3, "cells", "take fewer")
    errors.check_filled("balls", [1])
    errors.check_increasing("taus", [1, 2, 3])
    with pytest.raises(DimensionError, match=r"`names` must have 2 entries\. Got 3\."):
        errors.check_length("names", 3, 2)
    with pytest.raises(ParameterError, match=r"`bins` must have at most 3 cells\. Got 4: fewer\."):
        errors.check_most("bins", 4, 3, "cells", "fewer")
    with pytest.raises(DimensionError, match=r"`balls` must not be empty\."):
        errors.check_filled("balls", ())
    with pytest.raises(DimensionError, match=r"`taus` must hold at least one number\."):
        errors.check_filled("taus", [], "number")
    for wrong in ([2, 1], [1, 1], []):
        with pytest.raises(ParameterError, match=r"`taus` must increase\."):
            errors.check_increasing("taus", wrong)


def test_columns():
    columns = {"x": Interval(0, 1), "k": Category(["a", "b"], other="a")}
    schema = Schema({**columns, "m": Category(["a", "b", "c"], other="a")}, rows=9)
    assert check_schema(schema) is schema
    with pytest.raises(ParameterError, match=r"`schema` must be a Schema\. Got dict"):
        check_schema(columns)
    assert numeric_column(schema, "x") is schema["x"]
    with pytest.raises(ParameterError, match=r"'k' must be an Interval \(numeric\): code its"):
        numeric_column(schema, "k")
    assert column_of_two_levels(schema, "k") is schema["k"]
    for wrong in ("x", "m"):
        with pytest.raises(ParameterError, match="exactly two levels"):
            column_of_two_levels(schema, wrong)
    require_public_rows(schema, "A mean")
    private = Schema(columns, rows=9, neighbors="add-remove")
    with pytest.raises(ParameterError, match="A mean needs neighbors='replace-one'"):
        require_public_rows(private, "A mean")


def test_rows_between_neighbours():
    assert [relation.rows_apart for relation in Neighbors] == [2, 1]
