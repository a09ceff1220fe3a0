"""What the rules of a schema make of a table, counted for the curator's eyes: **not private**.

A release says nothing of cells that it could not use: they take public values in silence, because
their number tells about persons. Somebody who may see the table should look before paying. What is
counted here is shown and nothing else: it has no form that a report, a ledger or a file takes.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from datetime import date
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import TableLike
from tightdp.data.blocks import Block, Scan
from tightdp.data.columns import Cells, Chunk, Engine
from tightdp.data.engines import CsvTable
from tightdp.data.one_pass import BLOCK_ROWS, scan_sums
from tightdp.data.table import Table, check_frame
from tightdp.errors import FloatArray, Integers, TightdpError, fail
from tightdp.printed import html_table, short, text_table, whole
from tightdp.privacy import NOT_PRIVATE, Neighbors
from tightdp.schema import DOORS, Category, Date, Interval, Schema

_OTHER_MARKS = ((",", "."), (".", ","))  # 1.234,5 and 1,234.5
_OTHER_FORMATS = ("%d.%m.%Y", "%m/%d/%Y", "%d/%m/%Y")
_COUNTS = ("missing", "unreadable", "clamped", "unseen", *(f"written {i}" for i in range(3)))


_UNDIVIDED = (
    "All cells beyond the first of each line are missing: other marks seem to divide the lines of "
    "the file than those by which it is read. State `delimiter` (of a table, tdp.CsvFile)."
)


class ColumnCheck:
    """How many cells of a column a schema cannot take as they are. **Not private.**

    Attributes
    ----------
    missing : int
        Empty cells, and objects that are neither a number nor a text.
    unreadable : int
        Texts that are no number, or no date, as the schema writes them.
    clamped : int
        Numbers and dates outside the bounds, which are moved to them.
    unseen : int
        Values that are no level, which count as `other`.
    """

    __slots__ = ("_written", "clamped", "missing", "name", "rule", "unreadable", "unseen")

    def __init__(self, name: str, rule: Interval | Category, counts: Iterable[int]) -> None:
        self.name, self.rule = name, rule
        self.missing, self.unreadable, self.clamped, self.unseen, *self._written = counts

    @property
    def hint(self) -> str:
        """What would read the cells that are not read now; nothing where that is not known."""
        if isinstance(self.rule, Category) and self._written[0]:
            return (
                f"{self.name}: with loose = true, {self._written[0]:,} of its unseen cells are "
                "levels: case and the blanks around a text do not count then."
            )
        if not self.unreadable:
            return ""
        best = max(range(len(self._written)), key=lambda i: self._written[i])
        if isinstance(self.rule, Date):
            return self._date_hint(best)
        if not self._written[best]:
            return (
                f"{self.name}: its unreadable cells count as missing, as marks such as '?' should. "
                "Numbers with units and other texts are to be cleaned first."
            )
        if best == len(_OTHER_MARKS):
            return (
                f"{self.name}: {self._written[best]} of its unreadable cells are dates: a Date in "
                "the schema, with dates as `low` and `high`, reads them."
            )
        decimal, thousands = _OTHER_MARKS[best]
        return (
            f"{self.name}: with decimal = {decimal!r} and thousands = {thousands!r}, "
            f"{self._written[best]} of its unreadable cells are numbers."
        )

    def _date_hint(self, best: int) -> str:
        if not self._written[best]:
            return (
                f"{self.name}: its unreadable cells are no dates as {self.rule.format!r} writes "  # type: ignore[union-attr]
                "them, or days that do not exist: state `format`, such as '%d.%m.%Y %H:%M'."
            )
        return (
            f"{self.name}: with format = {_OTHER_FORMATS[best]!r}, {self._written[best]} of its "
            "unreadable cells are dates."
        )

    def __repr__(self) -> str:
        shown = ", ".join(f"{kind} {getattr(self, kind)}" for kind in _COUNTS[:4])
        return f"<{NOT_PRIVATE}. {self.name}: {shown}>"

    def __reduce__(self) -> NoReturn:
        _refuse_to_be_stored()


class TableCheck:
    """What a schema makes of a table: for the curator's eyes only, **not private**.

    Prints as a table. It cannot be pickled or written as JSON, and a ledger refuses its text.

    Attributes
    ----------
    rows : int
        The number of rows.
    by_column : dict from names to ColumnCheck
    problems : dict from names to texts
        Columns that cannot be read at all, with the reason.
    undivided : bool
        Whether no line of a text file has more than one cell, although it has several columns.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 9)}, rows=3)
    >>> found = schema.check({"x": [1, 20, None]})
    >>> found
    <NOT PRIVATE: for the curator's eyes only. 1 columns, 3 rows: print it>
    >>> found["x"].missing, found["x"].clamped
    (1, 1)
    """

    __slots__ = ("by_column", "problems", "rows", "schema", "undivided")

    def __init__(
        self,
        schema: Schema,
        rows: int,
        columns: list[ColumnCheck],
        problems: dict[str, str],
        undivided: bool = False,
    ) -> None:
        self.schema, self.rows, self.undivided = schema, rows, undivided
        self.by_column, self.problems = {found.name: found for found in columns}, problems

    def __getitem__(self, name: str) -> ColumnCheck:
        return self.by_column[name]

    def _rows(self) -> list[tuple[str, ...]]:
        head = ("column", "rule", *_COUNTS[:4])
        body = []
        for name, found in self.by_column.items():
            interval = isinstance(found.rule, Interval)
            counted = ("missing", "unreadable", "clamped") if interval else ("missing", "unseen")
            cells = [self._share(getattr(found, k)) if k in counted else "" for k in _COUNTS[:4]]
            body.append((name, found.rule.describe(), *cells))
        return [head, *body]

    def _share(self, count: int) -> str:
        return f"{whole(count)} ({short(100 * count / max(self.rows, 1))} %)" if count else "0"

    def _notes(self) -> list[str]:
        least = self.schema.neighbors is Neighbors.REPLACE_ONE
        stated = f"{'' if least else 'at most '}{whole(self.schema.rows)}"
        notes = [f"{whole(self.rows)} rows; the schema says {stated}."]
        notes += [_UNDIVIDED] if self.undivided else []
        notes += [found.hint for found in self.by_column.values() if found.hint]
        return [*notes, *self.problems.values()]

    def __str__(self) -> str:
        table = text_table(self._rows(), left=(0, 1))
        return "\n".join([NOT_PRIVATE, "", *table, "", *self._notes(), NOT_PRIVATE])

    def __repr__(self) -> str:
        return f"<{NOT_PRIVATE}. {len(self.by_column)} columns, {self.rows} rows: print it>"

    def _repr_html_(self) -> str:
        return f"<p><b>{NOT_PRIVATE}</b></p>{html_table(self._rows(), *self._notes())}"

    def __reduce__(self) -> NoReturn:
        _refuse_to_be_stored()


def _refuse_to_be_stored() -> NoReturn:
    fail(f"{NOT_PRIVATE}. It is not stored, copied or sent: look at it, and check again.")


def check_table(schema: Schema, frame: TableLike, *, progress: bool = False) -> TableCheck:
    """Count the cells of a table, in one pass, that a schema cannot take as they are.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 9), "k": Category(["a", "b"], other="b")}, rows=4)
    >>> print(check_table(schema, {"x": ["1", "2,5", "12", ""], "k": ["a", "c", None, "b"]}))
    NOT PRIVATE: for the curator's eyes only
    <BLANKLINE>
    column  rule                         missing  unreadable   clamped    unseen
    ----------------------------------------------------------------------------
    x       [0 to 9], missing -> 4.5    1 (25 %)    1 (25 %)  1 (25 %)
    k       a, b; missing, unseen -> b  1 (25 %)                        1 (25 %)
    <BLANKLINE>
    4 rows; the schema says 4.
    x: with decimal = ',' and thousands = '.', 1 of its unreadable cells are numbers.
    NOT PRIVATE: for the curator's eyes only
    """
    table = Table.open(frame, schema)
    problems = _problems(schema, table)
    names = tuple(name for name in schema if name not in problems)
    if not names:
        fail(next(iter(problems.values())))
    # all rows are looked at, whoever's they are: the column of persons plays no part
    facts = Schema(schema.select(names), schema.rows, bits=schema.bits, neighbors=schema.neighbors)
    look = Look.of([(facts, names)], BLOCK_ROWS)
    width = len(look.counted)
    *sums, _ = scan_sums(table, look, _add_up, width, progress=progress)
    counts = np.reshape(sums[1:], (len(names), len(_COUNTS))).tolist()
    found = [ColumnCheck(name, schema[name], row) for name, row in zip(names, counts, strict=True)]
    undivided = _undivided(table.engine(schema), found, sums[0])
    return TableCheck(schema, sums[0], found, problems, undivided)


def _undivided(engine: Engine, found: list[ColumnCheck], rows: int) -> bool:
    """Whether the cells of a text file beyond the first of every line are missing, all of them."""
    if not isinstance(engine, CsvTable):
        return False
    later = [column for column in found if column.name != engine.names()[0]]
    return rows > 0 and bool(later) and all(column.missing == rows for column in later)


DOORS["check"] = check_table


def _problems(schema: Schema, table: Table) -> dict[str, str]:
    """Why columns cannot be read, by name; each is asked alone, if not all can."""
    plain = Schema(schema.columns, schema.rows)
    try:
        check_frame(table, plain, list(schema))
        return {}
    except TightdpError:
        pass
    problems = {}
    for name in schema:
        try:
            check_frame(table, plain, [name])
        except TightdpError as error:
            problems[name] = str(error)
    return problems


def _add_up(block: Block) -> Integers:
    return np.asarray(block.matrix().sum(axis=0))


@dataclass(frozen=True)
class Look(Scan):
    """A scan that counts cells instead of quantising them: one row of counts for every chunk."""

    @property
    def counted(self) -> tuple[str, ...]:
        """The names of the counts."""
        return ("rows", *(f"{name} {kind}" for name in self.names for kind in _COUNTS))

    def blocks(self, chunks: Iterable[Chunk]) -> Iterator[Block]:
        rules = self.schema.select(self.names)
        for chunk in chunks:
            counts = [float(len(chunk[self.names[0]]))]
            for name, rule in rules.items():
                if isinstance(rule, Category):
                    counts += _category(chunk[name], rule)
                else:
                    counts += _interval(chunk[name], rule)
            yield Block.of_columns(self.counted, np.array([counts]).T)


def _interval(cells: Cells, rule: Interval) -> list[float]:
    numbers = cells.numbers(rule)
    lost = np.isnan(numbers)
    with np.errstate(invalid="ignore"):
        clamped = (numbers < rule.low) | (numbers > rule.high)
    text = lost & ~cells.empty(lost)
    written = [
        float((text & ~np.isnan(as_read)).sum()) for as_read in _otherwise(cells, rule, text)
    ]
    return [float((lost & ~text).sum()), float(text.sum()), float(clamped.sum()), 0.0, *written]


def _otherwise(cells: Cells, rule: Interval, text: NDArray[np.bool_]) -> Iterator[FloatArray]:
    """The numbers that cells are if they are written in another way."""
    others: list[Interval] = []
    if isinstance(rule, Date):
        others += [Date(rule.first, rule.last, format=form) for form in _OTHER_FORMATS]
    else:
        for decimal, thousands in _OTHER_MARKS:
            others.append(Interval(rule.low, rule.high, decimal=decimal, thousands=thousands))
        others.append(Date(date.min, date.max))
    for other in others:
        yield cells.numbers(other) if text.any() else np.full(len(cells), np.nan)


def _category(cells: Cells, rule: Category) -> list[float]:
    lost = cells.no_level(rule, loose=rule.loose)
    empty = cells.empty(lost)
    unseen = lost & ~empty
    loosely = unseen & ~cells.no_level(rule, loose=True) if _can_be_loose(rule) else empty & False
    return [*map(float, (empty.sum(), 0, 0, unseen.sum(), loosely.sum(), 0, 0))]


def _can_be_loose(rule: Category) -> bool:
    """Whether levels are still told apart without case and blanks."""
    keys = {v.strip().casefold() if isinstance(v, str) else v for v in rule.levels}
    return len(keys) == len(rule.levels)
