"""Tables that are read row by row as Python objects: sheets of Excel, tables of SQLite.

Every cell is an object, whatever stands beside it, and is read as in a list. Names and places are
public; what a row holds is asked for when a release has been paid for.
"""

from __future__ import annotations

import itertools
import math
import os
import re
import sqlite3
import urllib.parse
import warnings
from collections.abc import Callable, Generator, Iterable, Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, TypeVar

from tightdp.accepted import PathLike
from tightdp.data.columns import Chunk, Engine, ListedCells
from tightdp.data.engines import DuckTable
from tightdp.data.sources import from_sql
from tightdp.errors import DataError, check_choice, check_instance, fail, quoted, require
from tightdp.paths import check_file, check_path

ADDRESSES = ("sqlite", "duckdb")
_ADDRESS = re.compile(r"([a-z][a-z0-9+]*)://(.*)", re.DOTALL)
_BOOKS = (".xlsx", ".xlsm")

_ROWS = 1000  # of a sheet that are read at a time

Row = Sequence[Any]
T = TypeVar("T")


class RowTable(Engine):
    """Rows that somebody gives one after the other, with the names of their cells."""

    def __init__(
        self,
        names: Sequence[str],
        rows: Callable[[Sequence[str]], Iterable[Row]],
        *,
        caseless: bool = False,
    ) -> None:
        self._names, self._rows, self.caseless = list(names), rows, caseless

    def names(self) -> list[Any]:
        return [*self._names]

    def unreadable(self, name: str) -> str | None:
        return None

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        found = iter(self._rows(names))
        while part := list(itertools.islice(found, rows)):
            yield {name: ListedCells([row[j] for row in part]) for j, name in enumerate(names)}


# --- Excel ----------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, init=False)
class ExcelFile:
    """A sheet of an Excel file, whose first row has the names of the columns; it is only read.

    A cell is what Excel last stored in it: of a formula its result. Dates are what Excel shows as
    dates, errors such as #DIV/0! are missing, and of merged cells the first has the value and the
    others are missing. Every row counts down to the last one in which anything stands, in whatever
    column: somebody of whom nothing is known is a row of missing cells, as in a list. Behind that
    row there is none: if all cells of the last one may be empty, give it something, such as a
    number, or state add-remove neighbours, under which the number of rows is private.

    Parameters
    ----------
    path : path
        A file that ends in .xlsx or .xlsm.
    sheet : str
        Its name, as on the tab.
    names : sequence of str, optional
        The names of the columns of a sheet whose first row is a record.

    Examples
    --------
    >>> from tightdp import ExcelFile
    >>> ExcelFile("survey.xlsx", "Answers", names=["age", "region"]).sheet
    'Answers'
    >>> ExcelFile("survey.xls", "Answers")
    Traceback (most recent call last):
    tightdp.errors.ParameterError: `path` must end in .xlsx or .xlsm. Got 'survey.xls'.
    """

    path: Path
    sheet: str
    names: tuple[str, ...] | None

    def __init__(self, path: PathLike, sheet: str, names: Sequence[str] | None = None) -> None:
        place = check_path("path", path)
        if not is_excel_file(place):
            fail(f"`path` must end in {' or '.join(_BOOKS)}. Got {place.name!r}.")
        object.__setattr__(self, "path", place)
        object.__setattr__(self, "sheet", check_instance("sheet", sheet, str, words="a text"))
        object.__setattr__(self, "names", None if names is None else _checked_names(names))

    def __fspath__(self) -> str:
        return str(self.path)


def is_excel_file(path: Path) -> bool:
    """Whether a name is that of an Excel file that can be read."""
    return path.suffix.lower() in _BOOKS


def excel_table(file: ExcelFile) -> RowTable:
    """The sheet as a table; its name and the header are looked at, and no other row."""
    check_file("path", file.path)
    excel = require("openpyxl", "excel")
    stated = file.names
    header = _excel_header(excel, file) if stated is None else [*stated]

    def rows(names: Sequence[str]) -> Iterator[Row]:
        if stated is None and _excel_header(excel, file) != header:
            fail("The header of the sheet has changed since its names were checked.", DataError)
        places = [header.index(name) for name in names]
        empty = 0
        for row in itertools.islice(_excel_rows(excel, file), 1 if stated is None else 0, None):
            if all(cell is None for cell in row):
                empty += 1  # a row, if another one follows
                continue
            yield from itertools.repeat([None] * len(places), empty)
            yield [row[place] if place < len(row) else None for place in places]
            empty = 0

    return RowTable(header, rows)


def _excel_rows(excel: Any, file: ExcelFile) -> Generator[list[Any], None, None]:
    """The cells of the rows, each by itself; nothing of them is warned about.

    An error is NaN, which is missing, but something: nothing is None.
    """
    try:
        book = _quietly(lambda: excel.load_workbook(file.path, read_only=True, data_only=True))
    except Exception:  # of a zip file, of XML, of openpyxl itself
        fail(f"{str(file.path)!r} is no Excel file that can be read: open and save it again.")
    with closing(book):
        if file.sheet not in book.sheetnames:
            fail(f"{file.path.name!r} has no sheet {quoted(file.sheet)}: name it as on its tab.")
        rows = book[file.sheet].iter_rows()
        while part := _quietly(lambda: list(itertools.islice(rows, _ROWS))):
            for row in part:
                yield [math.nan if cell.data_type == "e" else cell.value for cell in row]


def _quietly(step: Callable[[], T]) -> T:
    """Do a step of a library whose warnings may quote cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return step()


def _excel_header(excel: Any, file: ExcelFile) -> list[str]:
    with closing(_excel_rows(excel, file)) as rows:
        first = next(rows, [])
    while first and first[-1] is None:
        first.pop()
    if not first or not all(isinstance(name, str) and name for name in first):
        fail(
            f"The first row of sheet {quoted(file.sheet)} must have the names of its columns, as "
            "texts, one in every cell and none merged: if it is a record, state `names`."
        )
    return first


def _checked_names(names: object) -> tuple[str, ...]:
    listed = list(names) if isinstance(names, (list, tuple)) else []
    if not listed or not all(isinstance(name, str) and name for name in listed):
        fail("`names` must be a list of texts: the names of the columns, from the left.")
    if len(set(listed)) != len(listed):
        fail("`names` must differ: rename one.")
    return tuple(listed)


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
    except sqlite3.Error:
        fail(f"{str(file)!r} is no SQLite database that can be read.")
    return RowTable([column[0] for column in found], rows, caseless=True)


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
