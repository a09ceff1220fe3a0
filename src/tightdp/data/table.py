"""A table of any engine, opened once: what holds it is recognised, names and types are known.

All that is checked before a payment and all that is read after it goes through one
:class:`Table`, so that a file is not opened again for every question. Nothing here reads a row, and
a table keeps nothing that was read.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Sequence
from typing import Any, NoReturn, TypeVar

import numpy as np

from tightdp.accepted import TableLike
from tightdp.data.engines import CsvTable, Engine, recognise
from tightdp.data.scan import Scan
from tightdp.data.sources import looks_like_data
from tightdp.data.spark import SparkTable
from tightdp.errors import DataError, TightdpError, fail
from tightdp.schema import Schema

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

    __slots__ = ("__weakref__", "_engine", "_places", "frame")

    frame: Any
    _engine: Engine
    _places: tuple[str, ...] | None  # the names of the columns of a matrix, which has none itself

    @classmethod
    def open(cls, frame: TableLike, schema: Schema) -> Table:
        """The table behind whatever the user passed, or a clear error; what is open stays so.

        The schema names the columns of a matrix, and plays no other part.
        """
        if isinstance(frame, Table):
            return frame
        if not isinstance(schema, Schema):
            fail(f"`schema` must be a Schema. Got {type(schema).__name__}.")
        table = cls.__new__(cls)
        table.frame, table._engine = frame, guard(lambda: _recognise(frame, schema))
        table._places = tuple(schema) if isinstance(frame, np.ndarray) else None
        return table

    def engine(self, schema: Schema) -> Engine:
        """The adaptor of the engine that holds the rows."""
        if self._places is None or self._places == tuple(schema):
            return self._engine
        return guard(lambda: _recognise(self.frame, schema))  # a matrix, under other names

    def columns(self, schema: Schema, columns: Sequence[str]) -> tuple[Engine, tuple[str, ...]]:
        """The engine, and the columns to read, after all checks that need no row."""
        if not isinstance(schema, Schema):
            fail(f"`schema` must be a Schema. Got {type(schema).__name__}.")
        if isinstance(columns, str) or not list(columns):
            fail("`columns` must be a non-empty list of names.")
        names = tuple(dict.fromkeys(columns))
        schema.select(names)
        engine = self.engine(schema)
        present = guard(engine.names)
        for name in Scan(schema, names, 1).wanted:
            _check_present(name, present, in_words=not isinstance(engine, CsvTable))
            if engine.caseless:
                _check_case(name, present)
            kind = guard(lambda name=name: engine.unreadable(name))  # type: ignore[misc]
            if kind is not None:
                fail(
                    f"Column {name!r} has the type {kind}, which is neither numeric nor text: "
                    "convert it to a number or to text first."
                )
        guard(engine.check_ready)
        return engine, names

    def __repr__(self) -> str:  # neither cells nor their number
        return f"<{type(self).__name__} of {type(self.frame).__name__}>"

    def __reduce__(self) -> NoReturn:
        fail("A table that is open is not stored, copied or sent: open it where it is read.")


def _recognise(frame: Any, schema: Schema) -> Engine:
    homes = [base.__module__ for base in type(frame).mro() if base.__name__ == "DataFrame"]
    if any(home.startswith("pyspark.pandas") for home in homes):
        frame = frame.to_spark()
    elif not any(home.startswith("pyspark.sql") for home in homes):
        return recognise(frame, schema)
    return SparkTable(frame)


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
        texts = [other for other in texts if other.casefold() == name.casefold()]
    near = difflib.get_close_matches(name, texts, n=1, cutoff=0.6 if in_words else 0)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    fail(f"The table has no column {name!r}.{hint}")


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
    "The table could not be read to its end. What the engine said is withheld, because it may "
    "quote cells: read the table with the engine itself. On Spark, check that PYSPARK_PYTHON "
    "names an interpreter that has this package, and that the statistic can be pickled."
)
