"""CSV files and their headers: names of columns, and what divides the cells of a line.

What divides cells is read off the header, which is public: a comma if one stands outside quotes
there, else a semicolon, a tab or a bar. Lines below it are read by
:mod:`~tightdp.data.csv_pieces`; nothing here looks at one.
"""

from __future__ import annotations

import codecs
import gzip
import zlib
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightdp.accepted import PathLike
from tightdp.data.csv_records import PIECE, Lines, Record
from tightdp.errors import DataError, check_choice, fail
from tightdp.paths import check_path

DELIMITERS = (",", ";", "\t", "|")
Stated = tuple[Sequence[str], str]  # names of columns, and what divides them, of no header


@dataclass(frozen=True, slots=True, init=False)
class CsvFile:
    """A CSV file without a header, as a table.

    Names of columns, their number and what divides cells are public facts. Where no header states
    them, they are given here and never read off a record, which is private.

    Parameters
    ----------
    path : path
        A file that ends in .csv or .csv.gz.
    names : sequence of str
        The names of its columns, from the left; further cells of a line are left out, and cells
        that it lacks are missing.
    delimiter : {",", ";", tab, "|"}
        What divides the cells of a line.

    Examples
    --------
    >>> import tempfile
    >>> from tightdp import CsvFile, Interval, Schema
    >>> schema = Schema({"age": Interval(0, 100)}, rows=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_text("41;north\\n37;south\\n")
    ...     found = schema.check(CsvFile(f"{folder}/a.csv", ["age", "region"], delimiter=";"))
    >>> found.rows, found["age"].unreadable
    (2, 0)
    """

    path: Path
    names: tuple[str, ...]
    delimiter: str

    def __init__(self, path: PathLike, names: Any, delimiter: str = ",") -> None:
        place = check_path("path", path)
        if not place.name.lower().endswith((".csv", ".csv.gz")):
            fail(f"`path` must end in .csv or .csv.gz. Got {place.name!r}.")
        plain = isinstance(names, Iterable) and not isinstance(names, (str, bytes))
        listed = list(names) if plain else []
        if not listed or not all(isinstance(name, str) and name for name in listed):
            fail("`names` must be a list of texts: the names of the columns, from the left.")
        if len(set(listed)) != len(listed):
            fail("`names` must differ: rename one.")
        check_choice("delimiter", delimiter, DELIMITERS)
        object.__setattr__(self, "path", place)
        object.__setattr__(self, "names", tuple(listed))
        object.__setattr__(self, "delimiter", delimiter)


def read_names(path: Path, stated: str | None = None) -> list[str]:
    """The cells of the header, or of a first record, if it is stated what divides cells.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_text("age,region\\n1,north")
    ...     read_names(Path(folder, "a.csv"))
    ['age', 'region']
    """
    with _open(path) as file:
        return _header(Text(file), path, stated)[0]


def check_opens(path: Path) -> None:
    """Raise if a file cannot be read at all; what stands in it does not matter."""
    try:
        with _open(path) as file:
            file.read(1)
    except (OSError, EOFError, zlib.error):
        fail(f"{str(path)!r} cannot be read: open the file and check it.")


def check_names(path: Path, names: Sequence[str], stated: Stated | None = None) -> None:
    """Raise if the file cannot be read, or these columns are not in it."""
    check_opens(path)
    header = read_names(path) if stated is None else stated[0]
    for name in names:
        _place(name, header, path)


@dataclass(frozen=True, slots=True)
class Rows:
    """A file that is open below its header, with the places of the columns that are asked for.

    The header is that of the file which is read now, whatever was found when names were checked:
    columns are found by their names, or nothing is read.
    """

    file: Any
    mark: str
    width: int
    places: tuple[int, ...]

    @classmethod
    def open(cls, path: Path, names: Sequence[str], stated: Stated | None) -> Rows:
        """Open the file; where it has no header, its names and marks are stated."""
        file = _open(path)
        try:
            header, mark = _header(Text(file), path) if stated is None else stated
            return cls(file, mark, len(header), tuple(_place(n, header, path) for n in names))
        except BaseException:
            file.close()
            raise


class Text:
    """The lines of a binary file; bytes that are no UTF-8 stay what they are, as escapes.

    >>> import io
    >>> Text(io.BytesIO(b"a\\rb\\xff\\nc")).readline(100)
    'a\\rb\\udcff\\n'
    """

    def __init__(self, file: Any) -> None:
        self._file = file
        self._decoder = codecs.getincrementaldecoder("utf-8")("surrogateescape")

    def readline(self, size: int, /) -> str:
        """Up to a line feed, or so many bytes; nothing at the end."""
        while True:
            raw = self._file.readline(size)
            text = self._decoder.decode(raw, final=not raw)
            if text or not raw:  # a part of a letter is none yet
                return text


def _open(path: Path) -> Any:
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    file = opener(path, "rb")
    try:
        if file.peek(3)[:3] == codecs.BOM_UTF8:
            file.read(3)
    except BaseException:
        file.close()
        raise
    return file


def _place(name: str, header: Sequence[str], path: Path) -> int:
    if header.count(name) != 1:  # when it was checked, it was there once
        fail(f"The header of {path.name!r} has changed since its names were checked.", DataError)
    return header.index(name)


def _header(file: Lines, path: Path, stated: str | None = None) -> tuple[list[str], str]:
    """The names, and what divides them; not a letter beyond is read."""
    first = file.readline(PIECE)
    mark, size = stated or _mark(first), len(first)
    record = Record(mark, most=PIECE)
    record.feed(first)
    while not record.done and size < PIECE and (more := file.readline(PIECE)):
        size += len(more)
        record.feed(more)
    if size >= PIECE:
        fail(f"The header of {path.name!r} has more than {PIECE - 1} characters: is it a table?")
    raw = [name.encode("utf-8", "surrogateescape") for name in record.cells()]
    header = [name.decode("utf-8", "replace") for name in raw]
    if any("\r" in name for name in header):
        fail(
            f"The header of {path.name!r} has carriage returns: save the file with line feeds at "
            "the ends of its lines."
        )
    return header, mark


def _mark(header: str) -> str:
    """What divides the cells of a header; a name in quotes may hold any mark.

    >>> _mark('"income, yearly";age'), _mark("age")
    (';', ',')
    """
    bare = "".join(header.split('"')[::2])
    return next((mark for mark in DELIMITERS if mark in bare), ",")
