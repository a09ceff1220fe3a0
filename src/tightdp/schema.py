"""Public facts about a table, stated by the caller: columns, rows, persons, neighbours, the grid.

A :class:`Schema` says for every column its interval or its levels (:mod:`tightdp.column_rules`),
the neighbour relation, a public bound on the number of rows, how many rows one person may have, and
the grid. Cells are clamped, scaled to [-1, 1] and rounded to the grid ``2**-bits`` row by row,
before any sum. A rounded row is a row of the same domain, so sensitivity spaces do not change, and
every additive statistic is from then on a vector of integers. This module never reads data to
choose anything: it only applies the rules it was given.
"""

from __future__ import annotations

import json
import re
import tomllib
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from fractions import Fraction
from functools import partial
from pathlib import Path
from types import MappingProxyType
from typing import Any, ClassVar, Self

from tightdp.accepted import TableLike
from tightdp.column_rules import MOST_BITS, OTHER_HELP, Category, Interval
from tightdp.date_rule import Date
from tightdp.errors import check_choice, check_count, check_instance, fail, quoted
from tightdp.parameters import tells_arguments
from tightdp.paths import read_file
from tightdp.printed import html_table, text_table, whole
from tightdp.privacy import Neighbors

__all__ = [
    "DEFAULT_BITS",
    "DOORS",
    "MISSING",
    "MISSING_WORDS",
    "Category",
    "CompleteRows",
    "Date",
    "Interval",
    "Schema",
    "check_bits",
    "check_schema",
    "column_of_two_levels",
    "complete_rows",
    "finest_bits",
    "has_groups",
    "numeric_column",
    "require_public_rows",
]

DEFAULT_BITS = 16
_SUM_BITS = 62
_MOST_ROWS = 10**15  # counts up to it, and their sums of products, are doubles
DOORS: dict[str, Callable[..., Any]] = {}  # to rooms above that read tables; they fill it
_LARGEST = 1e60  # fourth powers of widths, which errors of variances have, are finite, not zero


@tells_arguments
@dataclass(frozen=True, slots=True, init=False)
class Schema:
    """Public facts about a table.

    Parameters
    ----------
    columns : mapping from names to Interval, Date or Category
        Copied, and read-only from then on: facts that were checked stay as they were.
    rows : int
        The public number of rows (replace-one), or a public bound on it (add-remove).
    neighbors : {"replace-one", "add-remove"}
    bits : int, optional
        Numeric cells live on the grid ``2**-bits`` of the scaled column; the default is 16, or
        less where sums of products of ``rows`` rows would need more than 62 bits, or more where
        the steps of a column need it. Quantiles take a finer one than 16 where rows and epsilon
        are many (:func:`~tightdp.mechanisms.ranks.grid_for_ranks`).
    person : str, optional
        The column that identifies a person, if a person can have several rows; needs add-remove
        (a person more or fewer, with all their rows). Numbers of one value are one person, and so
        are texts of the same letters; a text is a number only as Python writes an integer, so that
        1, 1.0 and "1" are one person, and "01", " 1" and "1.0" are three others. **Somebody whose
        rows carry two identifiers is two persons**, and protected as such: with twice the rows,
        at twice the epsilon. Make identifiers one before, by a public rule that looks at one row
        at a time (strip blanks, drop leading zeros).
    rows_per_person : int
        At most so many rows of a person are used, and all sensitivities are multiplied by it.

    Examples
    --------
    >>> schema = Schema({"x": Interval(-2, 5), "k": Category(["a", "b"])}, rows=5000)
    >>> print(schema)
    column  kind      rule
    -------------------------------------------------------
    x       interval  [-2 to 5], missing -> 1.5
    k       category  a, b, other; missing, unseen -> other
    <BLANKLINE>
    replace-one neighbours, 5,000 rows, grid 2^-16, 1 row per person
    """

    columns: Mapping[str, Interval | Category]
    rows: int
    neighbors: Neighbors
    bits: int
    person: str | None
    rows_per_person: int

    drops: ClassVar[bool] = False
    """Whether rows with a missing cell are left out; if not, such a cell has a public value."""

    text_is_kept: ClassVar[bool] = True  # by `parameters`: a schema cannot change

    averages: ClassVar[bool] = False
    """Whether a person is one row, the mean of those that are used, in each of its groups."""

    row_units: ClassVar[int] = 1
    """Into how many parts a row's weight is divided, where the rows of a person share one."""

    def __init__(
        self,
        columns: Mapping[str, Interval | Category],
        rows: int,
        *,
        neighbors: str | Neighbors = "replace-one",
        bits: int | None = None,
        person: str | None = None,
        rows_per_person: int = 1,
    ) -> None:
        _check_columns(columns)
        count = check_count("rows", rows, most=_MOST_ROWS)
        chosen = (
            min(DEFAULT_BITS, finest_bits(count)) if bits is None else check_bits(columns, bits)
        )
        chosen = max(chosen, _least_bits(columns))
        _check_person(columns, person, rows_per_person, Neighbors.of(neighbors))
        object.__setattr__(self, "columns", MappingProxyType(dict(columns)))
        object.__setattr__(self, "rows", count)
        object.__setattr__(self, "neighbors", Neighbors.of(neighbors))
        object.__setattr__(self, "bits", chosen)
        object.__setattr__(self, "person", person)
        most = check_count("rows_per_person", rows_per_person, most=_MOST_ROWS)
        object.__setattr__(self, "rows_per_person", most)

    def __repr__(self) -> str:
        """What makes the same schema again."""
        columns = ", ".join(f"{name!r}: {rule!r}" for name, rule in self.columns.items())
        facts = [f"{name}={_plain(value)!r}" for name, value in self._options().items()]
        return f"{type(self).__name__}({{{columns}}}, {self.rows}, {', '.join(facts)})"

    def __hash__(self) -> int:
        columns = frozenset(self.columns.items())  # equal whatever their order, as mappings are
        return hash((columns, self.rows, *self._options().values()))

    def __reduce__(self) -> tuple[Any, ...]:
        """For copies and the workers of Spark: a read-only mapping cannot be pickled."""
        return partial(type(self), dict(self.columns), self.rows, **self._options()), ()

    def _options(self) -> dict[str, Any]:
        """What is stated beside columns and rows."""
        return {
            "neighbors": self.neighbors,
            "bits": self.bits,
            "person": self.person,
            "rows_per_person": self.rows_per_person,
        }

    def __getitem__(self, name: str) -> Interval | Category:
        if isinstance(name, str) and name in self.columns:
            return self.columns[name]
        return self.columns[check_choice("column", name, self.columns)]  # says what it is not

    def __iter__(self) -> Iterator[str]:
        return iter(self.columns)

    @property
    def resolution(self) -> int:
        """Grid points per unit of a scaled column: ``2**bits``."""
        return 1 << self.bits

    @property
    def protected_rows(self) -> int | None:
        """How many rows of a person are used, where a person is protected; None where a row is."""
        return None if self.person is None else self.rows_used

    @property
    def group_columns(self) -> tuple[str, ...]:
        """The columns that divide the rows of a person, where these become means."""
        return ()

    @property
    def counted_as(self) -> str:
        """How persons count, in words, where they count alike; nothing where rows do."""
        return ""

    @property
    def persons_alike(self) -> bool:
        """Whether every person counts as one row does, however many rows it has."""
        return self.averages or self.row_units > 1

    @property
    def rows_used(self) -> int:
        """How many rows of a person are read; ``rows_per_person`` of what is made of them count."""
        return self.rows_per_person

    def select(self, names: Iterable[str]) -> dict[str, Interval | Category]:
        """The named columns, in that order."""
        return {name: self[name] for name in names}

    @property
    def rows_known(self) -> bool:
        """Whether the number of rows that count is public."""
        return self.neighbors is Neighbors.REPLACE_ONE and not self.drops

    def with_rows(self, rows: int) -> Self:
        """The same facts about another number of rows.

        >>> Schema({"x": Interval(0, 1)}, rows=100).with_rows(5).rows
        5
        """
        return type(self)(self.columns, rows, **self._options())

    def only(self, names: Iterable[str]) -> Self:
        """The same facts for some of the columns, in that order: a model's features and target.

        >>> schema = Schema({"a": Interval(0, 1), "b": Interval(0, 2), "c": Interval(0, 3)}, rows=9)
        >>> list(schema.only(["c", "a"]))
        ['c', 'a']
        """
        if isinstance(names, str):
            fail("`names` must be a list of columns.")
        return self.ruled(self.select(names))

    def ruled(self, columns: Mapping[str, Interval | Category]) -> Self:
        """The same facts about rows and persons, with these rules for columns."""
        return type(self)(columns, self.rows, **self._options())

    def check(self, frame: TableLike, *, progress: bool = False) -> Any:
        """Count cells that are missing, unreadable, clamped or unseen, column by column.

        **Not private**, for the curator's eyes only: a release says nothing of such cells, so that
        a column of texts where numbers were expected is published as the middle of its bounds. It
        prints as a table, and cannot be stored in a report or a ledger.

        >>> from tightdp import Interval, Schema
        >>> schema = Schema({"x": Interval(0, 9)}, rows=3)
        >>> schema.check({"x": ["1,5", "2,5", ""]})["x"].unreadable
        2
        """
        return DOORS["check"](self, frame, progress=progress)

    # --- text and TOML ------------------------------------------------------------------------

    def _lines(self) -> list[tuple[str, str, str]]:
        return [
            ("column", "kind", "rule"),
            *(
                (name, type(column).__name__.lower(), column.describe())
                for name, column in self.columns.items()
            ),
        ]

    def _facts(self) -> str:
        each = "row" if self.rows_per_person == 1 else "rows"
        owner = f" (column {self.person!r})" if self.person else ""
        return (
            f"{self.neighbors} neighbours, {whole(self.rows)} rows, grid 2^-{self.bits}, "
            f"{self.rows_per_person} {each} per person{owner}"
        )

    def __str__(self) -> str:
        table = text_table(self._lines(), left=range(3))
        return "\n".join([*table, "", self._facts()])

    def _repr_html_(self) -> str:
        return html_table(self._lines(), self._facts())

    def to_dict(self) -> dict[str, Any]:
        """Plain values, the shape of the TOML file."""
        columns: dict[str, Any] = {}
        for name, column in self.columns.items():
            if isinstance(column, Date):
                columns[name] = column.to_dict()
            elif isinstance(column, Interval):
                columns[name] = {
                    "low": column.low,
                    "high": column.high,
                    "missing": column.missing,
                }
                if not column.plain:
                    columns[name] |= {"decimal": column.decimal, "thousands": column.thousands}
                if column.step is not None:
                    exact = isinstance(column.step, Fraction)
                    columns[name]["step"] = str(column.step) if exact else column.step
                if column.unit:
                    columns[name]["unit"] = column.unit
            else:
                columns[name] = {"levels": list(column.named)}
                if column.stated:
                    columns[name]["other"] = column.other
                if column.loose:
                    columns[name]["loose"] = True
        record: dict[str, Any] = {
            "rows": self.rows,
            "neighbors": str(self.neighbors),
            "bits": self.bits,
            "rows_per_person": self.rows_per_person,
        }
        if self.person is not None:
            record["person"] = self.person
        return record | {"columns": columns}

    def to_json(self) -> str:
        """All facts in one line of text; equal texts, equal schemas."""
        return json.dumps(self.to_dict(), default=repr)

    @classmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Schema:
        """The schema of a mapping such as :meth:`to_dict` gives; unknown keys are errors."""
        if not isinstance(record, Mapping):
            fail(f"The schema must be a table of keys. Got {type(record).__name__}.")
        keys = ("rows", "neighbors", "bits", "person", "rows_per_person", "columns")
        for key in record:
            check_choice("key", key, keys)
        for key in ("rows", "columns"):
            if key not in record:
                fail(f"The schema needs the key {key!r}.")
        if not isinstance(record["columns"], Mapping):
            fail("`columns` must be a table of columns.")
        columns = {name: _column(name, facts) for name, facts in record["columns"].items()}
        options = {key: record[key] for key in keys[1:-1] if key in record}
        return cls(columns, record["rows"], **options)

    @classmethod
    def from_toml(cls, path: str | Path) -> Schema:
        """Read a TOML file with ``rows``, options, and one table ``[columns.NAME]`` per column.

        A numeric column has ``low`` and ``high`` (and ``missing``, ``decimal``, ``thousands``,
        ``step``, ``unit``), a date has dates as ``low`` and ``high`` (and ``unit``, ``missing``,
        ``format``, ``zone``), a category has ``levels`` (and ``other``, ``loose``).
        """
        text = read_file("path", path)
        try:
            record = tomllib.loads(text)
        except tomllib.TOMLDecodeError as error:
            fail(f"The schema file is not valid TOML: {error}.")
        except (ValueError, RecursionError):
            fail("The schema file is not valid TOML: numbers too long, or nested too deeply.")
        return cls.from_dict(record)


class CompleteRows(Schema):
    """The same facts about the rows in which no cell that a statistic reads is missing.

    A row is left out on account of its own cells alone. So tables that differ by a row that is
    added or removed differ by such a row, or not at all, once rows are left out; under replace-one
    they may differ by a row that is replaced, added or removed, and **the number of rows that are
    left is private**, while that of all rows is public. What is computed from such a schema must
    be private between all of these. Made by :func:`complete_rows` from the ``missing="drop"`` of a
    release, never by its user.
    """

    __slots__ = ()
    drops: ClassVar[bool] = True


MISSING = ("rule", "drop")
MISSING_WORDS = (
    "what becomes of missing cells: 'rule', the public value of the schema, which pulls results "
    "towards it; 'drop', rows with one are left out, and their number is a noisy result, too"
)


def finest_bits(rows: int) -> int:
    """The finest grid on which sums of products of so many rows have 62 bits."""
    return max(1, (_SUM_BITS - rows.bit_length()) // 2)


def complete_rows(schema: object, missing: object) -> Schema:
    """The facts for a statistic of all rows, or of those where its columns are there.

    >>> schema = Schema({"x": Interval(0, 1)}, rows=100)
    >>> complete_rows(schema, None) is schema, complete_rows(schema, "drop").rows_known
    (True, False)
    """
    facts = check_schema(schema)
    if missing is None or check_choice("missing", missing, MISSING) == "rule":
        return facts
    return CompleteRows(facts.columns, facts.rows, **facts._options())


def check_schema(schema: object) -> Schema:
    """A schema, not a dictionary of columns."""
    return check_instance("schema", schema, Schema, "write Schema(columns, rows=...)")


def check_column(name: object, rule: object) -> None:
    """Raise unless a column has a name, and bounds or levels.

    >>> check_column("age", (0, 120))  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: Column 'age' must be ... Got tuple: write Interval(low, high)...
    """
    if not isinstance(name, str):
        fail(f"The name of a column must be a text. Got {quoted(name)}.")
    if not isinstance(rule, (Interval, Category)):
        fail(
            f"Column {name!r} must be a Date, an Interval or a Category. Got "
            f"{type(rule).__name__}: write Interval(low, high) or Category(levels)."
        )


def numeric_column(
    schema: Schema, name: str, remedy: str = "code its levels as numbers"
) -> Interval:
    """The public bounds of a numeric column.

    >>> numeric_column(Schema({"k": Category(["a", "b"], other="a")}, rows=9), "k", "drop it")
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: Column 'k' must be an Interval (numeric): drop it.
    """
    column = schema[name]
    if not isinstance(column, Interval):
        fail(f"Column {name!r} must be an Interval (numeric): {remedy}.")
    return column


def column_of_two_levels(schema: Schema, name: str, why: str = "", more: str = "") -> Category:
    """The levels of a column that says which of two classes a row is in."""
    column = schema[name]
    if not isinstance(column, Category) or len(column.levels) != 2:
        fail(
            f"The target {name!r} must be a Category with exactly two levels{why}. "
            f"{OTHER_HELP}{more}."
        )
    return column


def has_groups(rule: Interval | Category) -> bool:
    """Whether a column divides rows into groups without further words: levels, or periods."""
    return isinstance(rule, (Category, Date))


def require_public_rows(schema: Schema, what: str, instead: str = "") -> None:
    """What divides by the number of rows, or does not count them, needs to know it."""
    if schema.drops:
        fail(f"{what} needs all rows, whose number is public: leave missing='drop' out.")
    if not schema.rows_known:
        words = f"{what} needs neighbors='replace-one': the number of rows must be public."
        fail(f"{words} {instead}".strip())


def _plain(value: object) -> Any:
    return str(value) if isinstance(value, Neighbors) else value


def _column(name: str, facts: object) -> Interval | Category:
    if not isinstance(facts, Mapping):
        fail(f"Column {name!r} must be a table with `low` and `high`, or with `levels`.")
    allowed = _KEYS["number"]
    if "levels" in facts:
        allowed = _KEYS["category"]
    elif _states_dates(facts):
        allowed = _KEYS["date"]
    for key in facts:
        check_choice(f"columns.{name}", key, allowed)
    if "levels" in facts:
        return Category(**facts)
    if not facts:
        fail(
            f"Column {name!r} is empty: it needs `low` and `high`, or `levels`; delete it, if no "
            "release reads it."
        )
    for key in ("low", "high"):
        if key not in facts:
            fail(f"Column {name!r} needs `{key}`: bounds are public facts, never read off data.")
    if _states_dates(facts):
        return Date(**facts)
    if re.fullmatch(r"[0-9]{1,20}/[0-9]{0,20}[1-9][0-9]{0,20}", str(facts.get("step"))):
        return Interval(**{**facts, "step": Fraction(facts["step"])})
    return Interval(**facts)


_KEYS = {
    "number": ("low", "high", "missing", "decimal", "thousands", "step", "unit"),
    "date": ("low", "high", "unit", "missing", "format", "zone"),
    "category": ("levels", "other", "loose"),
}


def _states_dates(facts: Mapping[str, Any]) -> bool:
    """Whether the bounds of a column are dates, of TOML or as texts."""
    return any(isinstance(facts.get(key), (str, date)) for key in ("low", "high"))


def _check_columns(columns: object) -> None:
    if not isinstance(columns, Mapping) or not columns:
        fail("`columns` must be a non-empty mapping from names to Interval or Category.")
    for name, column in columns.items():
        check_column(name, column)
        if not name.isprintable():
            fail(f"Column {name!r} must have a name of printable characters: rename it.")
        if isinstance(column, Interval):
            _check_size(name, column)


def _least_bits(columns: Mapping[str, Any]) -> int:
    """The coarsest grid that tells all steps of all columns apart, with room to spare."""
    steps = [column.steps or 1 for column in columns.values() if isinstance(column, Interval)]
    return max([1, *((count - 1).bit_length() for count in steps)])


def check_bits(columns: Mapping[str, Any], bits: object) -> int:
    """A grid that is fine enough for the steps of the columns."""
    given, least = check_count("bits", bits, most=MOST_BITS), _least_bits(columns)
    if given < least:
        fail(f"`bits` must be at least {least}, for the steps of the columns. Got {given}.")
    return given


def _check_size(name: str, column: Interval) -> None:
    """Noise and sums in the units of the column must be numbers that a double holds."""
    if max(abs(column.low), abs(column.high)) > _LARGEST or column.width < 1 / _LARGEST:
        fail(
            f"Column {name!r} must have bounds of at most {_LARGEST:g} in size, at least "
            f"{1 / _LARGEST:g} apart. Got [{column.low}, {column.high}]: use other units."
        )


def _check_person(
    columns: Mapping[str, Any], person: object, rows_per_person: object, neighbors: Neighbors
) -> None:
    if person is not None and (not isinstance(person, str) or person in columns):
        fail("`person` must name a column that is not among `columns`.")
    if person is not None and not (person and person.isprintable()):
        fail("`person` must be the name of a column, of printable characters: rename it.")
    if person is not None and neighbors is Neighbors.REPLACE_ONE:
        fail(
            '`person` needs neighbors="add-remove": another person may have another number of '
            "rows, so the number of rows that are used is not public."
        )
    if person is None and check_count("rows_per_person", rows_per_person, most=_MOST_ROWS) != 1:
        fail(
            "`rows_per_person` above 1 needs `person`, the column that says whose row it is: "
            "a bound that is not enforced protects nobody."
        )
