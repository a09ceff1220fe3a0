"""CSV files: their headers, and the cells of their records, whatever stands in them.

What divides cells is stated, or read off the header, which is public: a comma if one stands outside
quotes there, else a semicolon, a tab or a bar. Cells are written as RFC 4180 says. Beyond it, a
quote within a cell that does not begin with one is a letter, and what follows a closing quote
belongs to the cell. A line ends at a line feed. How whole files are read is in
:mod:`~tightdp.data.csv_pieces`.
"""

from __future__ import annotations

import bz2
import codecs
import gzip
import io
import lzma
import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightdp.accepted import PathLike
from tightdp.data.fixed_widths import Lines, check_widths
from tightdp.errors import DataError, check_choice, fail, quoted
from tightdp.parameters import tells_arguments
from tightdp.paths import check_path
from tightdp.values import LONGEST_TEXT

_PIECE = 1 << 20  # what is read of a line at a time
_KEPT = LONGEST_TEXT + 1  # characters of a cell: one more shows that it is too long
_SHOWN = (",", ";", "\t", "|")  # marks that a header shows
DELIMITERS = (*_SHOWN, " ")
_WIDE = ("\udcff\udcfe", "\udcfe\udcff")  # marks of UTF-16 before a header, which are no UTF-8
_ENDINGS = (".csv", ".tsv", ".txt", ".data", ".dat", ".test", ".train")
_OPENERS: dict[str, Callable[[Path], Any]] = {
    ".gz": gzip.open,
    ".bz2": bz2.open,
    ".xz": lzma.open,
}
TEXT_FILES = ".csv, .tsv, .txt, .data, .dat, .test or .train, packed (.gz, .bz2, .xz) or not"


def is_text_file(path: Path) -> bool:
    """Whether a name is that of a text file with a record on every line.

    >>> is_text_file(Path("a.TSV.gz")), is_text_file(Path("a.parquet"))
    (True, False)
    """
    return _unpacked_name(path).endswith(_ENDINGS)


def usual_delimiter(path: Path) -> str | None:
    """What divides the cells of a file by its name: commas or tabs; None if that says nothing.

    >>> [usual_delimiter(Path(name)) for name in ("a.csv.gz", "a.tsv", "a.dat")]
    [',', '\\t', None]
    """
    return {".csv": ",", ".tsv": "\t"}.get(_unpacked_name(path)[-4:])


def find_delimiter(option: str, path: Path) -> str:
    """The usual delimiter of a file without a header, or an error that names what states it."""
    mark = usual_delimiter(path)
    if mark is None:
        ends = "." + _unpacked_name(path).rpartition(".")[2]
        fail(
            f"`{option}` must be stated for a {ends} file without a header: no line but a header "
            "may show what divides its cells, such as a comma, a tab or a blank. Files that end in "
            ".csv and .tsv have commas and tabs."
        )
    return mark


def _unpacked_name(path: Path) -> str:
    name = path.name.lower()
    return name.rpartition(".")[0] if path.suffix.lower() in _OPENERS else name


@tells_arguments
@dataclass(frozen=True, slots=True, init=False)
class CsvFile:
    """A text file with a record on every line, and what must be known to read it, as a table.

    Names of columns, their number, what divides cells and how letters are stored are public facts.
    Where no header states them, they are given here and never read off a record, which is private.

    Parameters
    ----------
    path : path
        A file that ends in .csv, .tsv, .txt, .data, .dat, .test or .train, packed (.gz, .bz2, .xz)
        or not.
    names : sequence of str, optional
        The names of the columns of a file without a header, from the left; further cells of a line
        are left out, and cells that it lacks are missing.
    delimiter : {",", ";", tab, "|", " "}, optional
        What divides the cells of a line; a blank stands for one or more of them. By default a tab
        in a .tsv file, else what the header shows. With ``names`` there is none that shows it: then
        a comma in a .csv file, and in all others it must be stated.
    encoding : str
        How letters are stored: "utf-8", or an encoding with one byte for every letter, such as
        "latin-1" and "cp1252". In others, such as UTF-16, one byte may change how all that follow
        are read.
    widths : sequence of int, optional
        How many characters of a line each column has, in a file whose cells nothing divides; with
        ``names``. A character is a letter after decoding, or a byte that is none. Blanks around a
        cell are left out.

    Examples
    --------
    >>> import tempfile
    >>> from tightdp import CsvFile, Interval, Schema
    >>> schema = Schema({"age": Interval(0, 100)}, rows=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.txt").write_text("41;north\\n37;south\\n")
    ...     found = schema.check(CsvFile(f"{folder}/a.txt", ["age", "region"], delimiter=";"))
    >>> found.rows, found["age"].unreadable
    (2, 0)
    """

    path: Path
    names: tuple[str, ...] | None
    delimiter: str | None
    encoding: str
    widths: tuple[int, ...] | None

    def __init__(
        self,
        path: PathLike,
        names: Any = None,
        delimiter: str | None = None,
        encoding: str = "utf-8",
        *,
        widths: Any = None,
    ) -> None:
        place = check_path("path", path)
        if not is_text_file(place):
            fail(f"`path` must end in {TEXT_FILES}. Got {place.name!r}.")
        if widths is not None and delimiter is not None:
            fail("`delimiter` must be left out with `widths`: nothing divides the cells.")
        known = None if names is None else checked_names(names)
        cut = None if widths is None else check_widths(widths, known)
        mark = delimiter
        if delimiter is not None:
            check_choice("delimiter", delimiter, DELIMITERS)
        elif known is not None and cut is None:
            mark = find_delimiter("delimiter", place)
        elif usual_delimiter(place) == "\t":  # of a .csv file the header shows it
            mark = "\t"
        object.__setattr__(self, "path", place)
        object.__setattr__(self, "names", known)
        object.__setattr__(self, "delimiter", mark)
        object.__setattr__(self, "encoding", _checked_encoding(encoding))
        object.__setattr__(self, "widths", cut)

    def __fspath__(self) -> str:
        return str(self.path)


def checked_names(names: object) -> tuple[str, ...]:
    """Names of columns, each once."""
    plain = isinstance(names, Iterable) and not isinstance(names, (str, bytes))
    listed: list[Any] = list(names) if plain else []  # type: ignore[call-overload]
    if not listed or not all(isinstance(name, str) and name for name in listed):
        fail("`names` must be a list of texts: the names of the columns, from the left.")
    if len(set(listed)) != len(listed):
        fail("`names` must differ: rename one.")
    return tuple(listed)


def _checked_encoding(encoding: object) -> str:
    """The name that Python has for it; every byte below 128 is a letter of ASCII, by itself."""
    every = bytes(range(256))
    with suppress(LookupError, TypeError, ValueError):
        name = codecs.lookup(encoding).name  # type: ignore[arg-type]
        if name == "utf-8":
            return name
        letters = [every[j : j + 1].decode(name, "replace") for j in range(256)]
        alone = "".join(letters) == every.decode(name, "replace") and {*map(len, letters)} == {1}
        if alone and "".join(letters[:128]).encode("ascii", "replace") == every[:128]:
            return name
    fail(
        '`encoding` must be "utf-8" or one with a byte for every letter, such as "latin-1" or '
        f'"cp1252". Got {quoted(encoding)}: convert the file to UTF-8, for instance with iconv.'
    )


def read_names(file: CsvFile) -> list[str]:
    """The names that are stated, or else the cells of the header.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_text("age,region\\n1,north")
    ...     read_names(CsvFile(f"{folder}/a.csv"))
    ['age', 'region']
    """
    return [*file.names] if file.names is not None else read_first(file)


def read_first(file: CsvFile) -> list[str]:
    """The cells of the first line: of the header, or of a record whose cells may be counted."""
    with _open(file) as opened:
        return _header(TextLines(opened), file)[0]


def check_whole(file: CsvFile) -> None:
    """Raise if a file cannot be opened, or not be unpacked to its end, whatever stands in it.

    A packed file that was cut off, or damaged on its way, would else be found out after a payment.
    """
    unpack = _OPENERS.get(file.path.suffix.lower())
    try:
        with file.path.open("rb") if unpack is None else unpack(file.path) as opened:
            while opened.read(_PIECE) and unpack is not None:
                pass
    except (OSError, EOFError, zlib.error, lzma.LZMAError):
        remedy = "open the file and check it" if unpack is None else "it is cut off or damaged"
        fail(f"{str(file.path)!r} cannot be read: {remedy}.")


def check_names(file: CsvFile, names: Sequence[str]) -> None:
    """Raise if these columns are not in the file."""
    header = read_names(file)
    for name in names:
        _place(name, header, file.path)


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
    widths: tuple[int, ...] | None = None  # of cells that no mark divides

    @classmethod
    def open(cls, file: CsvFile, names: Sequence[str]) -> OpenedCsv:
        """Open the file; where it has no header, its names and marks are stated."""
        opened = _open(file)
        try:
            if file.names is None:
                header, mark = _header(TextLines(opened), file)
            else:
                header, mark = [*file.names], file.delimiter or ","
            places = tuple(_place(name, header, file.path) for name in names)
            return cls(opened, mark, len(header), places, file.widths)
        except BaseException:
            opened.close()
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


def _open(file: CsvFile) -> Any:
    """The file as bytes of UTF-8, without the mark that may stand before them."""
    unpack = _OPENERS.get(file.path.suffix.lower())
    opened = file.path.open("rb") if unpack is None else unpack(file.path)
    try:
        if file.encoding != "utf-8":
            return io.BufferedReader(_Recoded(opened, file.encoding), _PIECE)
        if opened.peek(3)[:3] == codecs.BOM_UTF8:
            opened.read(3)
    except BaseException:
        opened.close()
        raise
    return opened


class _Recoded(io.RawIOBase):
    """A file in an encoding with a byte for every letter, as UTF-8; what is no letter becomes one.

    >>> _Recoded(io.BytesIO(b"caf\\xe9"), "latin-1").readall().decode()
    'café'
    """

    def __init__(self, file: Any, encoding: str) -> None:
        self._file, self._encoding, self._left = file, encoding, b""

    def readable(self) -> bool:
        return True

    def readinto(self, buffer: Any) -> int:
        if not self._left:
            raw = self._file.read(_PIECE)
            self._left = raw.decode(self._encoding, "replace").encode()
        size = min(len(buffer), len(self._left))
        buffer[:size], self._left = self._left[:size], self._left[size:]
        return size

    def close(self) -> None:
        self._file.close()
        super().close()


def _place(name: str, header: Sequence[str], path: Path) -> int:
    if header.count(name) != 1:  # when it was checked, it was there once
        fail(f"The header of {path.name!r} has changed since its names were checked.", DataError)
    return header.index(name)


def _header(lines: Lines, file: CsvFile) -> tuple[list[str], str]:
    """The names, and what divides them; not a letter beyond is read."""
    first, path = lines.readline(_PIECE), file.path
    if first.startswith(_WIDE):
        fail(
            f"{path.name!r} is written in UTF-16, in which one byte may change how all that follow "
            "are read: convert it to UTF-8, for instance with iconv."
        )
    mark, size = file.delimiter or _mark(first), len(first)
    record = _Record(mark, most=_PIECE)
    record.feed(first)
    while not record.done and size < _PIECE and (more := lines.readline(_PIECE)):
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
    return next((mark for mark in _SHOWN if mark in bare), ",")


# --- records --------------------------------------------------------------------------------------


def records(file: Lines, mark: str, width: int) -> Iterator[tuple[list[str], int]]:
    """All records as cells, with about their length; cells beyond the header's are left out."""
    record = None
    while piece := file.readline(_PIECE):
        if record is None and '"' not in piece and piece[-1] == "\n":  # nearly every line
            line = piece[:-2] if piece[-2:-1] == "\r" else piece[:-1]
            yield (_cells(line, mark, width) if line else []), len(piece)
            continue
        record = record or _Record(mark, most=width)
        record.feed(piece)
        if record.done:
            yield record.cells(), record.length
            record = None
    if record is not None:
        yield record.cells(), record.length


def _cells(line: str, mark: str, width: int) -> list[str]:
    """The cells of a line without quotes; several blanks divide as one does.

    >>> _cells(" 1  2 ", " ", 3), _cells("1,,2,3", ",", 3)
    (['1', '2'], ['1', '', '2'])
    """
    if mark == " ":
        return [cell for cell in line.split(" ") if cell][:width]
    return line.split(mark, width)[:width]


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
        between = self._mark == " " and not self._begun  # nothing stands between two blanks
        if len(self._cells) < self._most and not between:
            self._cells.append("".join(self._parts))
        self._parts, self._kept, self._begun = [], 0, False
