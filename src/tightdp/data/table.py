"""A table of any engine, opened once: what holds it is recognised, names and types are checked.

All that is checked before a payment and all that is read after it goes through one
:class:`Table`, so that a file is not opened again for every question. Nothing here reads a row, and
a table keeps nothing that was read. What can go wrong depends on the schema, on names and on types,
never on cells; what an engine says of a failure is withheld, because it may quote cells.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from tightdp.accepted import TableLike
from tightdp.data.columns import ColumnTable, DateType, Engine
from tightdp.data.engines import CsvTable, recognise_engine
from tightdp.data.excel_sheets import ExcelFile, excel_table
from tightdp.data.row_tables import database_table
from tightdp.data.sources import looks_like_data
from tightdp.data.spark import SparkTable
from tightdp.errors import DataError, TightdpError, fail
from tightdp.privacy import Neighbors
from tightdp.schema import Interval, Schema, check_schema

T = TypeVar("T")


class Table:
    """A table that is open; made by :meth:`open`, and taken wherever a table is.

    Attributes
    ----------
    frame : table
        What it was opened from.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=2)
    >>> table = Table.open({"x": [0.5, 1], "y": [0, 1]}, schema)
    >>> Table.open(table, schema) is table
    True
    >>> table.columns(schema, ["y"])[1]
    ('y',)
    """

    __slots__ = ("__weakref__", "_checked", "_engine", "_places", "frame")

    frame: Any
    _engine: Engine
    _places: tuple[str, ...] | None  # the names of the columns of a matrix, which has none itself
    _checked: dict[tuple[int, tuple[str, ...]], Schema]  # what was asked for and is there

    @classmethod
    def open(cls, frame: TableLike, schema: Schema) -> Table:
        """The table behind whatever the user passed, or a clear error; what is open stays so.

        The schema names the columns of a matrix, and plays no other part.
        """
        if isinstance(frame, Table):
            return frame
        check_schema(schema)
        table = cls.__new__(cls)
        table.frame, table._engine = frame, guard(lambda: recognise(frame, schema))
        table._places = tuple(schema) if isinstance(frame, np.ndarray) else None
        table._checked = {}
        return table

    def engine(self, schema: Schema) -> Engine:
        """The adaptor of the engine that holds the rows."""
        if self._places is None or self._places == tuple(schema):
            return self._engine.under(schema.neighbors)
        return guard(lambda: recognise(self.frame, schema))  # a matrix, under other names

    def columns(self, schema: Schema, columns: Sequence[str]) -> tuple[Engine, tuple[str, ...]]:
        """The engine, and the columns to read, after all checks that need no row.

        What is asked for again is not checked again, but for a file that is another by now.
        """
        check_schema(schema)
        if isinstance(columns, str) or not list(columns):
            fail("`columns` must be a non-empty list of names.")
        names = tuple(dict.fromkeys(columns))
        known = (id(schema), names) in self._checked
        if not known:
            schema.select(names)
        engine = self.engine(schema)
        wanted = names if schema.person is None else (*names, schema.person)
        if not known:
            _check_columns(engine, wanted, schema)
            self._checked[id(schema), names] = schema
        guard(lambda: engine.check_ready(wanted))
        return engine, names

    def persons(self, schema: Schema) -> tuple[Engine, str]:
        """The engine, and the column that names persons, after all checks that need no row."""
        person = check_schema(schema).person
        assert person is not None
        engine = self.engine(schema)
        _check_columns(engine, [person], schema)
        guard(lambda: engine.check_ready([person]))
        return engine, person

    def __repr__(self) -> str:  # neither cells nor their number
        return f"<{type(self).__name__} of {type(self.frame).__name__}>"

    def __reduce__(self) -> NoReturn:
        fail("A table that is open is not stored, copied or sent: open it where it is read.")


def recognise(frame: Any, schema: Schema) -> Engine:
    """The adaptor for what the user passed: columns side by side, an engine, or a file."""
    if isinstance(frame, np.ndarray):
        return ColumnTable.of_array(frame, schema)
    if isinstance(frame, Mapping) and frame:
        return ColumnTable(frame)
    homes = [base.__module__ for base in type(frame).mro() if base.__name__ == "DataFrame"]
    if any(home.startswith("pyspark.pandas") for home in homes):
        return SparkTable(frame.to_spark())
    if any(home.startswith("pyspark.sql") for home in homes):
        return SparkTable(frame)
    if isinstance(frame, ExcelFile):
        return excel_table(frame)
    if isinstance(frame, str) and "://" in frame:
        return database_table(frame)
    return recognise_engine(frame)


# --- checks that read no row ----------------------------------------------------------------------


def check_frame(frame: TableLike, schema: Schema, columns: Sequence[str]) -> None:
    """Raise if the table lacks a column or has one of a type that cannot be read; reads no row.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"income": Interval(0, 1e5)}, rows=3)
    >>> check_frame({"incom": np.zeros(3)}, schema, ["income"])
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The table has no column 'income'. Did you mean 'incom'?
    """
    Table.open(frame, schema).columns(schema, columns)


def check_public_rows(frame: TableLike, schema: Schema) -> None:
    """Raise if the number of rows is public, known without reading one, and not what was said.

    Under replace-one neighbours sums and means rely on it. Where the engine would have to read the
    table to count (CSV, lazy frames, relations, Spark), the rows are counted in the one pass, and a
    :class:`~tightdp.PublicFactWarning` says afterwards that the number is another.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> check_public_rows({"x": np.zeros(3)}, Schema({"x": Interval(0, 1)}, rows=4))
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The table has 3 rows and the schema says 4. ...
    """
    if schema.neighbors is not Neighbors.REPLACE_ONE:
        return
    rows = guard(Table.open(frame, schema).engine(schema).known_rows)
    if rows is not None and rows != schema.rows:
        fail(other_rows(rows, schema))


def check_read_again(frame: TableLike, schema: Schema, times: int) -> None:
    """Raise if the rows can be read once only and are wanted more often; reads no row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from tightdp.schema import Interval
    >>> reader = pa.table({"x": [1.0]}).to_reader()
    >>> check_read_again(reader, Schema({"x": Interval(0, 1)}, rows=1), times=2)
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The table is a stream, which can be read once, and ...
    """
    if times > 1 and Table.open(frame, schema).engine(schema).once:
        fail(
            f"The table is a stream, which can be read once, and this release reads it {times} "
            "times: pass a table, such as `reader.read_all()`."
        )


def other_rows(rows: int, schema: Schema) -> str:
    """What is said of a table with another number of rows than is stated."""
    return (
        f"The table has {rows} rows and the schema says {schema.rows}. Under replace-one "
        "neighbours the number of rows is a public fact that sums and means rely on: correct "
        "`rows`, or use neighbors='add-remove' if it is private."
    )


def _check_columns(engine: Engine, names: Sequence[str], schema: Schema) -> None:
    present = guard(engine.names)
    for name in names:
        _check_present(name, present, in_words=not isinstance(engine, CsvTable))
        if engine.caseless:
            _check_case(name, present)
        kind = guard(lambda name=name: engine.unreadable(name))  # type: ignore[misc]
        if kind is not None and not (isinstance(kind, DateType) and _is_date(schema, name)):
            remedy = "convert it to a number or to text first"
            if isinstance(kind, DateType) and name != schema.person:
                remedy = "state it as a Date in the schema, with `low` and `high`"
            fail(
                f"Column {name!r} has the type {kind}, which is neither numeric nor text: {remedy}."
            )


def _is_date(schema: Schema, name: str) -> bool:
    rule = schema.columns.get(name)
    return isinstance(rule, Interval) and rule.clock is not None


def _check_present(name: str, present: Sequence[Any], *, in_words: bool) -> None:
    """Raise unless the column is there once; names that may be a record are not put in words."""
    found = sum(1 for other in present if isinstance(other, str) and other == name)
    if found == 1:
        return
    if found:
        fail(f"The table has {found} columns named {name!r}: rename them.")
    # a file without a header has a record there, which no error may quote
    texts = [other for other in present if isinstance(other, str) and not looks_like_data(other)]
    if not in_words:
        texts = [other for other in texts if _bare(other) == _bare(name)]
    near = difflib.get_close_matches(name, texts, n=1, cutoff=0.6 if in_words else 0)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    if not in_words and not near:
        hint = " If its first line is no header, say what columns are named: CsvFile(path, names)."
    fail(f"The table has no column {name!r}.{hint}")


def _bare(name: str) -> str:
    """A name without its case and the blanks around it."""
    return name.strip().casefold()


def _check_case(name: str, present: Sequence[str]) -> None:
    if sum(other.casefold() == name.casefold() for other in present) > 1:
        fail(
            f"The table has another column whose name differs from {name!r} in its case only, "
            "and its engine takes the two for one: rename one."
        )


# --- what may be said of a failure ---------------------------------------------------------------


def guard(step: Callable[[], T]) -> T:
    """Do a step of an engine; if it fails, say that it failed and nothing else.

    The error is raised outside the handler, so that the engine's exception, with the cells that it
    may quote, is not even its context.
    """
    known: TightdpError | None = None
    try:
        with np.errstate(all="ignore"):  # whatever is set, no cell is worth a warning
            return step()
    except (KeyboardInterrupt, SystemExit):
        raise
    except TightdpError as error:
        known = type(error)(*error.args)
    except BaseException:  # polars panics outside Exception
        pass
    if known is not None:
        raise known
    raise DataError(UNREAD)


UNREAD = (
    "The table could not be read to its end: it is damaged, or was changed while it was read. What "
    "the engine said is withheld, because it may quote cells: read the table with the engine "
    "itself. (On Spark: executors may have died; PYSPARK_PYTHON must name an interpreter that has "
    "this package, and the statistic must be one that can be pickled.)"
)
