"""Tables that are read row by row as Python objects, such as those of SQLite.

Every cell is an object, whatever stands beside it, and is read as in a list. Names and places are
public; what a row holds is asked for when a release has been paid for.
"""

from __future__ import annotations

import itertools
import os
import re
import sqlite3
import urllib.parse
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import closing
from pathlib import Path
from typing import Any

from tightdp.data.columns import Chunk, Engine, ListedCells
from tightdp.data.engines import DuckTable
from tightdp.data.sources import from_sql
from tightdp.errors import check_choice, fail, quoted
from tightdp.paths import check_file

ADDRESSES = ("sqlite", "duckdb")
_VIRTUAL = 2  # a column that is generated when it is read; 3 is stored
_ADDRESS = re.compile(r"([a-z][a-z0-9+]*)://(.*)", re.DOTALL)

Row = Sequence[Any]
Rows = Callable[[Sequence[str]], Iterable[Row]]


class RowTable(Engine):
    """Rows that somebody gives one after the other, with the names of their cells."""

    def __init__(
        self,
        names: Sequence[str],
        rows: Rows,
        *,
        caseless: bool = False,
        computed: Collection[str] = (),
    ) -> None:
        self._names, self._rows, self.caseless = list(names), rows, caseless
        self._computed = frozenset(computed)

    def names(self) -> list[Any]:
        return [*self._names]

    def unreadable(self, name: str) -> str | None:
        return None

    def check_ready(self, names: Sequence[str]) -> None:
        """What is computed from a row when it is read may fail on a cell: that is known before."""
        for name in names:
            if name in self._computed:
                fail(
                    f"Column {name!r} is computed whenever a row is read, which one cell can stop: "
                    "store it, as a STORED column or a column of a table of its own."
                )

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        found = iter(self._rows(names))
        while part := list(itertools.islice(found, rows)):
            yield {name: ListedCells([row[j] for row in part]) for j, name in enumerate(names)}


# --- databases ------------------------------------------------------------------------------------


def is_address(frame: object) -> bool:
    """Whether a text is the address of a table in a database, such as "sqlite:///a.db?table=t"."""
    found = _ADDRESS.fullmatch(frame) if isinstance(frame, str) else None
    return found is not None


def database_table(address: str, folder: Path = Path()) -> Engine:
    """The table of an address ``KIND:///FILE?table=NAME``, opened to be read only.

    >>> database_table("mysql://host/base?table=t")
    Traceback (most recent call last):
    tightdp.errors.ParameterError: `address` must be one of 'sqlite', 'duckdb'. Got 'mysql'.
    """
    found = _ADDRESS.fullmatch(address)
    if found is None:
        fail(f"An address must be KIND:///FILE?table=NAME. Got {quoted(address)}.")
    kind = check_choice("address", found[1], ADDRESSES)
    place, _, query = found[2].partition("?")
    asked = urllib.parse.parse_qs(query)
    if not place.startswith("/") or set(asked) != {"table"} or len(asked["table"]) != 1:
        fail(f"An address must be {kind}:///FILE?table=NAME. Got {quoted(address)}.")
    file = check_file("address", folder / urllib.parse.unquote(place[1:]))
    table = asked["table"][0]
    if kind == "duckdb":
        return DuckTable(from_sql(f"SELECT * FROM {_name(table)}", file))
    return _sqlite_table(file, table)


def absolute_address(address: str, folder: Path) -> str:
    """The same address with its file seen from a folder; it is opened once, to see that it can be.

    >>> absolute_address("sqlite:///a.db?table=t", Path("/none"))
    Traceback (most recent call last):
    tightdp.errors.ParameterError: `address`: there is no file '/none/a.db'.
    """
    database_table(address, folder)
    kind, _, rest = address.partition(":///")
    place, _, query = rest.partition("?")
    whole = os.path.abspath(folder / urllib.parse.unquote(place))
    return f"{kind}:///{urllib.parse.quote(whole)}?{query}"


def _sqlite_table(file: Path, table: str) -> RowTable:
    def rows(names: Sequence[str]) -> Iterator[Row]:
        # with the table before it, a name that is gone is an error and never a text
        wanted = ", ".join(f"{_name(table)}.{_name(name)}" for name in names)
        with closing(_connected(file)) as base:
            yield from base.execute(f"SELECT {wanted} FROM {_name(table)}")

    try:
        with closing(_connected(file)) as base:
            known = base.execute("SELECT name FROM sqlite_master WHERE type = 'table'").fetchall()
            if (table,) not in known:
                fail(f"{file.name!r} has no table {quoted(table)}.")
            found = base.execute(f"SELECT * FROM {_name(table)} LIMIT 0").description
            about = base.execute(f"PRAGMA table_xinfo({_name(table)})").fetchall()
    except sqlite3.Error:
        fail(f"{str(file)!r} is no SQLite database that can be read.")
    names = [column[0] for column in found]
    return RowTable(names, rows, caseless=True, computed=_computed(about))


def _computed(about: Iterable[Row]) -> list[str]:
    """The columns that SQLite does not store; see its ``PRAGMA table_xinfo``."""
    return [column[1] for column in about if column[6] == _VIRTUAL]


def _connected(file: Path) -> sqlite3.Connection:
    base = sqlite3.connect(
        f"file:{urllib.parse.quote(os.path.abspath(file))}?mode=ro",
        uri=True,
        timeout=5,
        check_same_thread=False,  # threads take turns to read one table
    )
    base.text_factory = lambda raw: raw.decode("utf-8", "surrogateescape")
    return base


def _name(text: str) -> str:
    return '"' + text.replace('"', '""') + '"'
