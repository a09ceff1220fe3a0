"""Options of a release: what a value must be, its check against the schema, and what it is for.

The kinds of releases in the registry are made of them, and plans check every value by them.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import date
from decimal import Decimal
from fractions import Fraction
from typing import Any, NamedTuple

from tightdp.data.histograms import group_cells, group_names
from tightdp.date_rule import UNITS, Date
from tightdp.design.designs import Design
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
from tightdp.geometry.norm_balls import NormBall
from tightdp.noise.law import NoiseLaw
from tightdp.person_means import PER, PER_WORDS
from tightdp.schema import MISSING, MISSING_WORDS, Category, Interval, Schema, has_groups

Amount = float | Fraction | Decimal  # what ``help`` says of a number
Edges = int | str | Sequence[float | str | date]  # of numbers; of dates also a unit, and dates
By = str | Sequence[str | tuple[str, Edges]]  # names of columns, numbers with their bins

_LONGEST, _MOST_BITS = 200, 4096  # characters of a number, and bits
_DATE = re.compile("[0-9]{4}-[0-9]{2}-[0-9]{2}")
GROUPS = (Category, Date)
_WORDS: dict[Any, str] = {
    GROUPS: "a category, with `levels`, or a date",
    Interval: "a numeric column, with `low` and `high`",
    Category: "a category, with `levels`",
}


@dataclass(frozen=True, slots=True)
class Option:
    """One key: what its value must be, whether it must be there, and what it is for.

    ``takes`` is a name of ``TAKES``; ``of`` is the kind of column; ``choices`` limits texts;
    ``default`` is what holds where nothing is said, None where that depends; ``form`` is the type
    that a function takes, where that is more than a plan can say.
    """

    takes: str
    about: str
    required: bool = False
    of: type | tuple[type, ...] | None = None
    choices: tuple[str, ...] = ()
    default: Any = None
    form: Any = None

    def fits(self, column: Interval | Category) -> bool:
        """Whether a column is of the kind that is asked for."""
        return self.of is None or isinstance(column, self.of)

    def check(self, name: str, value: object, schema: Schema) -> Any:
        """The value, or an error that names the key."""
        return TAKES[self.takes].check(self, name, value, schema)

    @property
    def type_form(self) -> Any:
        """The type of the argument of a function."""
        plain = TAKES[self.takes].form if self.form is None else self.form
        return plain if self.required or self.default is not None else plain | None

    def parts(self, term: str) -> list[str]:
        """The columns of a term: ``"x:y"`` is a product of two."""
        return term.split(":") if self.takes == "terms" else [term]

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
        terms = [value] if isinstance(value, str) else _listed(name, value)
        if not terms:
            fail(f"`{name}` must name at least one column.")
        for term in terms:
            if not isinstance(term, str):
                fail(f"`{name}` must be a list of texts. Got {quoted(term)}.")
            for part in self.parts(term):
                self._column(name, part, schema)
        return terms

    def _by(self, name: str, value: object, schema: Schema) -> Any:
        if not self.choices:
            group_cells(schema, value)
        group_names(value)  # what has choices may be columns that nobody listed: these come later
        return value

    def _tables(self, name: str, value: object, schema: Schema) -> Any:
        for column in table_names(value, schema):
            self._column(name, column, schema)
        return value

    def _bins_of(self, name: str, value: object, schema: Schema) -> dict[str, Any]:
        if not isinstance(value, Mapping):
            fail(f"`{name}` must say the bins of columns by their names. Got {quoted(value)}.")
        for column in value:
            Option("column", "", of=Interval)._column(name, column, schema)
        return {column: _bins(name, bins) for column, bins in value.items()}

    def _group_tables(self, name: str, value: object, schema: Schema) -> list[tuple[Any, Any]]:
        pairs = _pairs(name, value)
        for columns, groups in pairs:
            for column in [columns] if isinstance(columns, str) else _listed(name, columns):
                self._column(name, column, schema)
            for column in group_names(groups):
                Option("column", "")._column(name, column, schema)
        return pairs

    def _counts_of(self, name: str, value: object, schema: Schema) -> list[tuple[Any, Any]]:
        pairs = list(value.items()) if isinstance(value, Mapping) else _pairs(name, value)
        for columns, counts in pairs:
            for column in [columns] if isinstance(columns, str) else _listed(name, columns):
                self._column(name, column, schema)
            _listed(name, counts)
        return pairs

    def _shares_of(self, name: str, value: object, schema: Schema) -> Any:
        if not isinstance(value, Mapping):
            return float(amount(name, value))
        for column in value:
            self._column(name, column, schema)
        return {column: float(amount(name, share)) for column, share in value.items()}

    def _equations(self, name: str, value: object, schema: Schema) -> Any:
        parts = [value] if isinstance(value, (str, Mapping)) else _listed(name, value)
        for part in parts:
            if not isinstance(part, (str, Mapping)):
                fail(f"`{name}` must be texts, or weights of coefficients. Got {quoted(part)}.")
        return [
            {key: float(amount(name, weight)) for key, weight in part.items()}
            if isinstance(part, Mapping)
            else part
            for part in parts
        ]

    def _text(self, name: str, value: object, schema: Schema) -> str:
        if self.choices:
            return check_choice(name, value, self.choices)
        if not isinstance(value, str):
            fail(f"`{name}` must be a text. Got {quoted(value)}.")
        return value


class Taken(NamedTuple):
    """What an option takes: the type of a function's argument, and the check of a plan's value."""

    form: Any
    check: Callable[[Option, str, object, Schema], Any]


def _bound_or_amount(name: str, value: object) -> Any:
    """A number of a plan, or a date that stands for one."""
    return str(value)[:10] if _is_day(value) else amount(name, value)


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


def _bins(name: str, value: object) -> int | str | list[Any]:
    if isinstance(value, str) and value in UNITS:
        return value
    if isinstance(value, int) and not isinstance(value, bool):
        return value
    if not isinstance(value, (list, tuple)):
        fail(
            f"`{name}` must be a number of bins, a list of their edges, or a unit of dates such as "
            f"'month'. Got {quoted(value)}."
        )
    return [str(edge)[:10] if _is_day(edge) else check_real(name, edge) for edge in value]


def _is_day(value: object) -> bool:
    """Whether a value is a date that stands for a number of days."""
    return isinstance(value, date) or (isinstance(value, str) and bool(_DATE.fullmatch(value)))


def _listed(name: str, value: object) -> list[Any]:
    if not isinstance(value, (list, tuple)):
        fail(f"`{name}` must be a list. Got {quoted(value)}.")
    return list(value)


def _pairs(name: str, value: object) -> list[tuple[Any, Any]]:
    pairs = [_listed(name, pair) for pair in _listed(name, value)]
    for pair in pairs:
        if len(pair) != 2:
            fail(f"`{name}` must be a list of pairs. Got {quoted(pair)}.")
    return [(first, second) for first, second in pairs]


def _flag(name: str, value: object) -> bool:
    if not isinstance(value, bool):
        fail(f"`{name}` must be true or false. Got {quoted(value)}.")
    return value


def table_names(tables: object, schema: Schema, bins: Mapping[str, Any] | None = None) -> list[str]:
    """The columns of all tables; a number of columns stands for all that have levels or bins."""
    if isinstance(tables, (list, tuple)):
        return [name for table in tables for name in group_names(table)]
    known = {} if bins is None else bins
    return [n for n, rule in schema.columns.items() if n in known or has_groups(rule)]


TAKES = {
    "column": Taken(str, Option._column),
    "columns": Taken(Sequence[str], Option._columns),
    "terms": Taken(Sequence[str], Option._columns),
    "number": Taken(Amount, lambda _, name, value, __: amount(name, value)),
    "bound": Taken(Amount | str | date, lambda _, name, value, __: _bound_or_amount(name, value)),
    "numbers": Taken(
        Sequence[Amount],
        lambda _, name, value, __: [amount(name, item) for item in _listed(name, value)],
    ),
    "integer": Taken(int, lambda _, name, value, __: check_count(name, value)),
    "bins": Taken(Edges, lambda _, name, value, __: _bins(name, value)),
    "labels": Taken(Sequence[str | float], lambda _, name, value, __: _listed(name, value)),
    "pairs": Taken(Sequence[Sequence[str]], lambda _, name, value, __: _pairs(name, value)),
    "by": Taken(By, Option._by),
    "lists": Taken(
        Sequence[Sequence[str]],
        lambda _, name, value, __: [_listed(name, item) for item in _listed(name, value)],
    ),
    "tables": Taken(int | Sequence[By], Option._tables),
    "bins of columns": Taken(Mapping[str, Edges], Option._bins_of),
    "group tables": Taken(Sequence[tuple[str | Sequence[str], By]], Option._group_tables),
    "counts of columns": Taken(
        Mapping[str | tuple[str, ...], Sequence[Any]] | Sequence[tuple[Any, Any]],
        Option._counts_of,
    ),
    "equations": Taken(
        str | Mapping[str, float] | Sequence[str | Mapping[str, float]], Option._equations
    ),
    "shares of columns": Taken(Amount | Mapping[str, Amount], Option._shares_of),
    "flag": Taken(bool, lambda _, name, value, __: _flag(name, value)),
    "text": Taken(str, Option._text),
}

SHAPE = {
    "noise": Option(
        "text",
        "the shape or law of the noise, by default the best",
        default="best",
        form=str | NormBall | NoiseLaw | Design,
    ),
    "delta": Option("number", "for the laws that spend a delta", default=0),
}
"""Of releases with noise of a shape or a law."""

MISSING_CELLS = Option("text", MISSING_WORDS, choices=MISSING, default=MISSING[0])
PER_WHOM = Option("text", PER_WORDS, choices=PER, default=PER[0])
