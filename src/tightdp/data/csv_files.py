"""CSV files: their headers, and the cells of their records, whatever stands in them.

What divides cells is read off the header, which is public: a comma if one stands outside quotes
there, else a semicolon, a tab or a bar. Cells are written as RFC 4180 says. Beyond it, a quote
within a cell that does not begin with one is a letter, and what follows a closing quote belongs to
the cell. A line ends at a line feed. How whole files are read is in
:mod:`~tightdp.data.csv_pieces`.
"""

from __future__ import annotations

import codecs
import gzip
import re
import zlib
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from tightdp.accepted import PathLike
from tightdp.errors import DataError, check_choice, fail
from tightdp.paths import check_path
from tightdp.values import LONGEST_TEXT

_PIECE = 1 << 20  # what is read of a line at a time
_KEPT = LONGEST_TEXT + 1  # characters of a cell: one more shows that it is too long
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
        return _header(TextLines(file), path, stated)[0]


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
class OpenedCsv:
    """A file that is open below its header, with the places of the columns that are asked for.

    The header is that of the file which is read now, whatever was found when names were checked:
    columns are found by their names, or nothing is read.
    """

    file: Any
    mark: str
    width: int
    places: tuple[int, ...]

    @classmethod
    def open(cls, path: Path, names: Sequence[str], stated: Stated | None) -> OpenedCsv:
        """Open the file; where it has no header, its names and marks are stated."""
        file = _open(path)
        try:
            header, mark = _header(TextLines(file), path) if stated is None else stated
            return cls(file, mark, len(header), tuple(_place(n, header, path) for n in names))
        except BaseException:
            file.close()
            raise


class TextLines:
    """The lines of a binary file; bytes that are no UTF-8 stay what they are, as escapes.

    >>> import io
    >>> TextLines(io.BytesIO(b"a\\rb\\xff\\nc")).readline(100)
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
    first = file.readline(_PIECE)
    mark, size = stated or _mark(first), len(first)
    record = _Record(mark, most=_PIECE)
    record.feed(first)
    while not record.done and size < _PIECE and (more := file.readline(_PIECE)):
        size += len(more)
        record.feed(more)
    if size >= _PIECE:
        fail(f"The header of {path.name!r} has more than {_PIECE - 1} characters: is it a table?")
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


# --- records --------------------------------------------------------------------------------------


class Lines(Protocol):
    """Text that is read line by line."""

    def readline(self, size: int, /) -> str:
        """Up to a line feed, or so many characters; nothing at the end."""


def records(file: Lines, mark: str, width: int) -> Iterator[tuple[list[str], int]]:
    """All records as cells, with about their length; cells beyond the header's are left out."""
    record = None
    while piece := file.readline(_PIECE):
        if record is None and '"' not in piece and piece[-1] == "\n":  # nearly every line
            line = piece[:-2] if piece[-2:-1] == "\r" else piece[:-1]
            yield (line.split(mark, width)[:width] if line else []), len(piece)
            continue
        record = record or _Record(mark, most=width)
        record.feed(piece)
        if record.done:
            yield record.cells(), record.length
            record = None
    if record is not None:
        yield record.cells(), record.length


class _Record:
    """The cells of one record, from pieces of any length; of each cell a bounded part is kept.

    >>> record = _Record(",", most=3)
    >>> for piece in ('a,"b,', '""c""', '",d,e'):
    ...     record.feed(piece)
    >>> record.done, record.cells()
    (False, ['a', 'b,"c"', 'd'])
    """

    def __init__(self, mark: str, most: int) -> None:
        self.done, self.length = False, 0
        self._most, self._mark = most, mark
        self._end = re.compile(f"[{re.escape(mark)}\n]")
        self._cells: list[str] = []
        self._parts: list[str] = []  # of the cell that is being read
        self._kept = 0
        self._blank = True  # nothing was read of the record
        self._begun = self._quoted = self._closing = self._return = False

    def feed(self, piece: str) -> None:
        """Take in the next piece, which has a line feed at its end, if at all."""
        at = 0
        if self._return and piece[:1] != "\n":
            self._keep("\r")
        self._return = False
        while at < len(piece):
            at = self._quotes(piece, at) if self._quoted else self._plain(piece, at)

    def cells(self) -> list[str]:
        """The cells; a blank line has none."""
        if not self.done:  # the file ends here
            self._keep("\r" if self._return else "")
            self._close()
        return [] if self._blank else self._cells

    def _quotes(self, piece: str, at: int) -> int:
        """Read on within quotes, up to the next one; two of them are a letter."""
        if self._closing:
            self._closing = False
            if piece[at] != '"':
                self._quoted = False
                return at
            self._keep('"')
            return at + 1
        end = piece.find('"', at)
        self._keep(piece[at:] if end < 0 else piece[at:end])
        self._closing = end >= 0
        return len(piece) if end < 0 else end + 1

    def _plain(self, piece: str, at: int) -> int:
        """Read on up to the end of the cell, unless it begins with a quote."""
        if not self._begun and piece[at] == '"':
            self._begun = self._quoted = True
            self._blank = False
            return at + 1
        if len(self._cells) >= self._most:
            return self._skip(piece, at)
        found = self._end.search(piece, at)
        end = found.start() if found else len(piece)
        text, last = piece[at:end], piece[end : end + 1]
        if text.endswith("\r") and last in ("\n", ""):  # part of the line's end, if one follows
            text, self._return = text[:-1], not last
        self._keep(text)
        if found:
            self.done = last == "\n"
            self._blank = self._blank and self.done
            self._close()
        return end + 1

    def _skip(self, piece: str, at: int) -> int:
        """Pass over cells that the header does not have, up to a quoted one or the line's end."""
        line, quote = piece.find("\n", at), piece.find(self._mark + '"', at)
        if quote >= 0 and (line < 0 or quote < line):
            self._begun = False
            return quote + 1
        self._begun, self.done = piece[-1] != self._mark, line >= 0
        return len(piece)

    def _keep(self, text: str) -> None:
        if not text:
            return
        self._begun, self._blank = True, False
        if len(self._cells) < self._most and self._kept < _KEPT:
            self._parts.append(text[: _KEPT - self._kept])
            self._kept += len(self._parts[-1])
            self.length += len(self._parts[-1])

    def _close(self) -> None:
        if len(self._cells) < self._most:
            self._cells.append("".join(self._parts))
        self._parts, self._kept, self._begun = [], 0, False
