"""The keys that a release of a plan may have, and the checks of their values."""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from dataclasses import dataclass
from decimal import Decimal
from fractions import Fraction
from typing import Any

from tightdp.errors import check_choice, check_count, check_real, exact_amount, fail, visible
from tightdp.schema import Category, Interval, Schema

_LONGEST = 200  # characters of a number
_WORDS = {
    Interval: "a numeric column, with `low` and `high`",
    Category: "a category, with `levels`",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One key: what its value must be, whether it must be there, and what it is for.

    ``takes`` is "column", "columns", "terms", "number", "numbers", "integer", "bins", "labels",
    "flag" or "text"; ``of`` is the kind of column; ``choices`` limits texts.
    """

    takes: str
    about: str
    required: bool = False
    of: type | None = None
    choices: tuple[str, ...] = ()

    def check(self, name: str, value: Any, schema: Schema) -> Any:
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
                fail(f"`{name}` must be true or false. Got {value!r}.")
            return value
        if self.choices:
            return check_choice(name, value, self.choices)
        if not isinstance(value, str):
            fail(f"`{name}` must be a text. Got {value!r}.")
        return value

    def _column(self, name: str, value: Any, schema: Schema) -> str:
        if not isinstance(value, str):
            fail(f"`{name}` must be the name of a column. Got {value!r}.")
        if value not in schema.columns:
            near = difflib.get_close_matches(value, list(schema), n=1)
            hint = f" Did you mean {near[0]!r}?" if near else f" It has {', '.join(schema)}."
            fail(f"`{name}`: the schema has no column {value!r}.{hint}")
        if self.of is not None and not isinstance(schema[value], self.of):
            fail(f"`{name}`: column {value!r} must be {_WORDS[self.of]}.")
        return value

    def _columns(self, name: str, value: Any, schema: Schema) -> list[str]:
        terms = _listed(name, value)
        if not terms:
            fail(f"`{name}` must name at least one column.")
        for term in terms:
            if not isinstance(term, str):
                fail(f"`{name}` must be a list of texts. Got {term!r}.")
            for part in term.split(":") if self.takes == "terms" else [term]:
                self._column(name, part, schema)
        return terms


def amount(name: str, value: Any) -> Fraction:
    """A number of a plan, exactly: a float means its decimal, a text may be a fraction.

    >>> amount("epsilon", 0.1), amount("epsilon", "1/3")
    (Fraction(1, 10), Fraction(1, 3))
    """
    if not isinstance(value, str):
        return exact_amount(name, value)
    try:
        if len(value) <= _LONGEST and "/" in value:
            return Fraction(value)
        if len(value) <= _LONGEST:  # never by way of an integer with as many digits as 1e999999999
            return exact_amount(name, Decimal(value))
    except (ValueError, ArithmeticError):
        pass
    fail(f'`{name}` must be a number, or a fraction such as "1/3". Got {visible(value, 40)!r}.')


def check_keys(given: Sequence[str], allowed: Sequence[str], where: str) -> list[tuple[str, str]]:
    """The keys that are not allowed, each with a sentence that suggests the right one."""
    found = []
    for key in given:
        if key not in allowed:
            near = difflib.get_close_matches(key, list(allowed), n=1)
            hint = f"Did you mean `{near[0]}`?" if near else f"It may have: {', '.join(allowed)}."
            found.append((key, f"`{key}` is no key of {where}. {hint}"))
    return found


def _bins(name: str, value: Any) -> int | list[float]:
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)):
        fail(f"`{name}` must be a number of bins, or a list of their edges. Got {value!r}.")
    return [check_real(name, edge) for edge in value]


def _listed(name: str, value: Any) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        fail(f"`{name}` must be a list. Got {value!r}.")
    return list(value)
