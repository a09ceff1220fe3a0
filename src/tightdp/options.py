"""The typed options of a kind of release, and the checks of their values."""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tightdp.errors import (
    check_choice,
    check_count,
    check_real,
    exact_amount,
    fail,
    quoted,
    shown,
    suggestion,
)
from tightdp.schema import Category, Interval, Schema

_LONGEST, _MOST_BITS = 200, 4096  # characters of a number, and bits
_WORDS = {
    Interval: "a numeric column, with `low` and `high`",
    Category: "a category, with `levels`",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One key: what its value must be, whether it must be there, and what it is for.

    ``takes`` is "column", "columns", "terms", "number", "numbers", "integer", "bins", "labels",
    "flag" or "text"; ``of`` is the kind of column; ``choices`` limits texts; ``default`` is what
    holds where nothing is said, None where that depends.
    """

    takes: str
    about: str
    required: bool = False
    of: type | None = None
    choices: tuple[str, ...] = ()
    default: Any = None

    def fits(self, column: Interval | Category) -> bool:
        """Whether a column is of the kind that is asked for."""
        return self.of is None or isinstance(column, self.of)

    def check(self, name: str, value: object, schema: Schema) -> Any:
        """The value, or an error that names the key."""
        if self.takes == "column":
            return self._column(name, value, schema)
        if self.takes in ("columns", "terms"):
            return self._columns(name, value, schema)
        if self.takes == "integer":
            return check_count(name, value)
        if self.takes == "number":
            return amount(name, value)
        if self.takes == "numbers":
            return [amount(name, item) for item in _listed(name, value)]
        if self.takes == "bins":
            return _bins(name, value)
        if self.takes == "labels":
            return _listed(name, value)
        if self.takes == "flag":
            if not isinstance(value, bool):
                fail(f"`{name}` must be true or false. Got {quoted(value)}.")
            return value
        if self.choices:
            return check_choice(name, value, self.choices)
        if not isinstance(value, str):
            fail(f"`{name}` must be a text. Got {quoted(value)}.")
        return value

    def _column(self, name: str, value: object, schema: Schema) -> str:
        if not isinstance(value, str):
            fail(f"`{name}` must be the name of a column. Got {quoted(value)}.")
        if value not in schema.columns:
            hint = suggestion(value, list(schema)) or f" It has {shown(', '.join(schema))}."
            fail(f"`{name}`: the schema has no column {quoted(value)}.{hint}")
        if self.of is not None and not self.fits(schema[value]):
            fail(f"`{name}`: column {quoted(value)} must be {_WORDS[self.of]}.")
        return value

    def _columns(self, name: str, value: object, schema: Schema) -> list[str]:
        terms = _listed(name, value)
        if not terms:
            fail(f"`{name}` must name at least one column.")
        for term in terms:
            if not isinstance(term, str):
                fail(f"`{name}` must be a list of texts. Got {quoted(term)}.")
            for part in term.split(":") if self.takes == "terms" else [term]:
                self._column(name, part, schema)
        return terms


def amount(name: str, value: object) -> Fraction:
    """A number of a plan, exactly: a float means its decimal, a text may be a fraction.

    >>> amount("epsilon", 0.1), amount("epsilon", "1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    number = None
    if not isinstance(value, str):
        number = exact_amount(name, value)
    elif len(value) <= _LONGEST:
        with suppress(ValueError, ArithmeticError):
            # a decimal keeps its exponent: the integer 1e999999999 would fill memory
            number = Fraction(value) if "/" in value else _moderate(Decimal(value))
    if number is None:
        fail(f'`{name}` must be a number, or a fraction such as "1/3". Got {quoted(value)}.')
    if max(number.numerator.bit_length(), number.denominator.bit_length()) > _MOST_BITS:
        fail(f"`{name}` must be a number of moderate size. Got {quoted(value)}.")
    return number


def _moderate(number: Decimal) -> Fraction | None:
    return Fraction(number) if number.is_finite() and abs(number.adjusted()) <= 1000 else None


def check_keys(given: Sequence[str], allowed: Sequence[str], where: str) -> list[tuple[str, str]]:
    """The keys that are not allowed, each with a sentence that suggests the right one."""
    found = []
    for key in given:
        if key not in allowed:
            hint = suggestion(key, allowed).replace("'", "`")
            hint = hint or f" It may have: {', '.join(allowed)}."
            found.append((key, f"`{shown(key)}` is no key of {where}.{hint}"))
    return found


def _bins(name: str, value: object) -> int | list[float]:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)):
        fail(f"`{name}` must be a number of bins, or a list of their edges. Got {quoted(value)}.")
    return [check_real(name, edge) for edge in value]


def _listed(name: str, value: object) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        fail(f"`{name}` must be a list. Got {quoted(value)}.")
    return list(value)
