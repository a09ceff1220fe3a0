"""Sheets of Excel files: a zip of XML, of which only rows and cells are looked at.

The archive as a whole is checked before anything is paid for: that it is no larger than a public
bound, that its parts are there and whole, and that they are XML. From then on no cell can stop the
reading: what is none, by the rules of the format, is missing.
"""

from __future__ import annotations

import itertools
import math
import re
import warnings
import zipfile
from collections.abc import Callable, Generator, Iterator, Mapping, Sequence
from contextlib import closing
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, TypeVar
from xml.etree import ElementTree
from xml.parsers import expat

from tightdp.accepted import PathLike
from tightdp.data.columns import Engine
from tightdp.data.csv_files import checked_names
from tightdp.data.row_tables import Row, Rows, RowTable
from tightdp.errors import DataError, TightdpError, check_instance, fail, quoted, require
from tightdp.parameters import tells_arguments
from tightdp.paths import check_file, check_path
from tightdp.privacy import Neighbors

_BOOKS = (".xlsx", ".xlsm")
_XML = (".xml", ".rels")
_SHEETS = "xl/worksheets/"
_BRACE = "}"  # between a namespace and a name, as in _ROW
_ROW = "{http://schemas.openxmlformats.org/spreadsheetml/2006/main}row"
_PLACE = re.compile("([A-Z]{1,3})[0-9]{1,7}")
_COLUMNS = 1 << 14  # of a sheet, by the format
_LINES = 1 << 20  # rows, by the format
_ROWS = 1000  # that are read at a time
MOST_BYTES = 1 << 32  # of the unpacked parts of a file: a packed one can say that it has more

T = TypeVar("T")


@tells_arguments
@dataclass(frozen=True, slots=True, init=False)
class ExcelFile:
    """A sheet of an Excel file, whose first row has the names of the columns; it is only read.

    A cell is what Excel last stored in it: of a formula its result. Dates are what Excel shows as
    dates, errors such as #DIV/0! are missing, and so is a cell that is damaged; of merged cells the
    first has the value and the others are missing. Under replace-one every row counts down to the
    last one in which anything stands, in whatever column: somebody of whom nothing is known is a
    row of missing cells, as in a list. Behind that row there is none: if all cells of the last one
    may be empty, give it something, such as a number. Under add-remove a row in which nothing
    stands is nobody's, wherever it is: whether it is there would depend on the rows below it.

    Parameters
    ----------
    path : path
        A file that ends in .xlsx or .xlsm, with at most 4 GiB of unpacked parts.
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
        object.__setattr__(self, "names", None if names is None else checked_names(names))

    def __fspath__(self) -> str:
        return str(self.path)


def is_excel_file(path: Path) -> bool:
    """Whether a name is that of an Excel file that can be read."""
    return path.suffix.lower() in _BOOKS


class SheetTable(RowTable):
    """A sheet; ``filled`` has its rows without those in which nothing stands.

    Whether such a row is there depends on whether anything stands below it, which is another
    person's. Where rows are replaced their number is public, and it is kept. Where they come and
    go nobody's presence may decide on the rows of others: there it is no row, by itself.
    """

    def __init__(self, names: Sequence[str], rows: Rows, filled: Rows) -> None:
        super().__init__(names, rows)
        self._filled = RowTable(names, filled)

    def under(self, neighbors: Neighbors) -> Engine:
        return self if neighbors is Neighbors.REPLACE_ONE else self._filled


def excel_table(file: ExcelFile) -> SheetTable:
    """The sheet as a table; its name and the header are looked at, and no other row."""
    check_file("path", file.path)
    require("openpyxl", "excel")
    _check_archive(file.path)
    with closing(_rows(file)) as found:
        first = next(found, [])
    header = _header(first, file) if file.names is None else [*file.names]

    def rows(names: Sequence[str], empty_too: bool) -> Iterator[Row]:
        places = [header.index(name) for name in names]
        with closing(_rows(file)) as found:
            if file.names is None and _names(next(found, [])) != header:
                fail("The header of the sheet has changed since its names were checked.", DataError)
            empty = 0
            for row in found:
                if all(cell is None for cell in row):
                    empty += empty_too  # a row, if another one follows
                    continue
                yield from itertools.repeat([None] * len(places), empty)
                yield [row[place] if place < len(row) else None for place in places]
                empty = 0

    return SheetTable(header, partial(rows, empty_too=True), partial(rows, empty_too=False))


def _header(first: Row, file: ExcelFile) -> list[str]:
    names = _names(first)
    if not names or not all(isinstance(name, str) and name for name in names):
        fail(
            f"The first row of sheet {quoted(file.sheet)} must have the names of its columns, as "
            "texts, one in every cell and none merged: if it is a record, state `names`."
        )
    return names


def _names(first: Row) -> list[Any]:
    """The cells of a header, up to the last that has something in it."""
    known = [place for place, cell in enumerate(first) if cell is not None]
    return list(first[: known[-1] + 1]) if known else []


# --- the archive ----------------------------------------------------------------------------------


def _check_archive(path: Path) -> None:
    """Raise if the parts are too large, damaged, or no plain XML; what they say does not matter.

    Their sizes are those that the archive states: of a part no more is ever unpacked.
    """
    try:
        with zipfile.ZipFile(path) as archive:
            parts = [part for part in archive.infolist() if part.filename.endswith(_XML)]
            _check_sizes(path, parts)
            for part in parts:
                parser = expat.ParserCreate(namespace_separator=_BRACE)
                parser.StartDoctypeDeclHandler = _no_entities
                if part.filename.startswith(_SHEETS):
                    parser.StartElementHandler = RowNumbers().take
                with archive.open(part) as opened:
                    parser.ParseFile(opened)
    except TightdpError:
        raise
    except Exception:  # of a zip file, of its packing, of XML
        fail(_no_book(path))


def _check_sizes(path: Path, parts: Sequence[zipfile.ZipInfo]) -> None:
    if sum(part.file_size for part in parts) > MOST_BYTES:
        fail(
            f"{path.name!r} has more than {MOST_BYTES} bytes of unpacked parts: save the sheet as "
            "a CSV or Parquet file."
        )


class RowNumbers:
    """The numbers of the rows of a sheet, which must rise: a damaged one would move those after it.

    >>> numbers = RowNumbers()
    >>> for stated in ({"r": "1"}, {}, {"r": "7"}):
    ...     numbers.take(_ROW.lstrip("{"), stated)
    >>> numbers.take(_ROW.lstrip("{"), {"r": "7"})
    Traceback (most recent call last):
    ValueError
    """

    def __init__(self) -> None:
        self._last = 0

    def take(self, name: str, stated: Mapping[str, str]) -> None:
        """Look at an element as it begins."""
        if name != _ROW[1:]:
            return
        number = _number(stated.get("r"), self._last + 1)
        if "r" in stated and str(number) != stated["r"]:
            raise ValueError
        self._last = number


def _no_entities(*_: object) -> None:
    raise ValueError  # names for text that unfold when they are read: no such file has them


def _no_book(path: Path) -> str:
    return f"{str(path)!r} is no Excel file that can be read: open and save it again."


# --- rows -----------------------------------------------------------------------------------------


def _rows(file: ExcelFile) -> Generator[list[Any], None, None]:
    """The cells of the rows, each by itself; nothing of them is warned about."""
    excel = require("openpyxl", "excel")
    try:
        with zipfile.ZipFile(file.path) as archive:
            _check_sizes(file.path, archive.infolist())
        book = _quietly(lambda: excel.load_workbook(file.path, read_only=True, data_only=True))
    except TightdpError:
        raise
    except Exception:
        fail(_no_book(file.path))
    with closing(book):
        if file.sheet not in book.sheetnames:
            fail(f"{file.path.name!r} has no sheet {quoted(file.sheet)}: name it as on its tab.")
        with book[file.sheet]._get_source() as source:
            rows = _parsed(book[file.sheet], source)
            while part := _quietly(lambda: list(itertools.islice(rows, _ROWS))):
                yield from part


def _parsed(sheet: Any, source: Any) -> Iterator[list[Any]]:
    """All rows, those between two that the file leaves out among them."""
    book = sheet.parent
    reader = require("openpyxl.worksheet._reader", "excel").WorkSheetParser(
        source,
        sheet._shared_strings,
        data_only=True,
        epoch=book.epoch,
        date_formats=book._date_formats,
        timedelta_formats=book._timedelta_formats,
    )
    last = 0
    for _, element in ElementTree.iterparse(source):
        if element.tag == _ROW:
            number = _number(element.get("r"), last + 1)
            yield from itertools.repeat([], number - last - 1)
            yield _cells(reader, element)
            last = number
            element.clear()


def _number(stated: str | None, following: int) -> int:
    """The number of a row, from 1; of one without, or beyond the format, that after the last.

    >>> _number("7", 3), _number("2", 3), _number(None, 3), _number("9999999", 3)
    (7, 3, 3, 3)
    """
    plain = stated is not None and stated.isascii() and stated.isdigit() and len(stated) < 8
    number = int(stated) if plain and stated is not None else 0
    return number if following <= number <= _LINES else following


def _cells(reader: Any, row: Any) -> list[Any]:
    """The cells of a row, each at its place; one without a place stands beside the last."""
    cells: list[Any] = []
    place = -1
    for element in row:
        place = _place(element.get("r"), place + 1)
        if place < _COLUMNS:
            cells += [None] * (place + 1 - len(cells))
            cells[place] = _cell(reader, element)
    return cells


def _place(coordinate: str | None, following: int) -> int:
    """The number of the column, from 0.

    >>> _place("AB7", 0), _place("7", 3), _place(None, 4)
    (27, 3, 4)
    """
    found = _PLACE.fullmatch(coordinate or "")
    if found is None:
        return following
    number = 0
    for letter in found[1]:
        number = 26 * number + ord(letter) - ord("A") + 1
    return number - 1


def _cell(reader: Any, element: Any) -> Any:
    """What is stored in a cell; NaN of an error, and of what cannot be: no cell stops a release.

    NaN is missing, but something: nothing is None. The mistakes of a cell, such as a number that is
    none or a text that is not in the list of texts, are those of one person.
    """
    try:
        found = reader.parse_cell(element)
    except Exception:
        return math.nan
    return math.nan if found["data_type"] == "e" else found["value"]


def _quietly(step: Callable[[], T]) -> T:
    """Do a step of a library whose warnings may quote cells."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return step()
