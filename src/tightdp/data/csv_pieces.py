r"""The rows of CSV files as cells: every cell is text, whatever it holds.

No line can stop the reading, and none decides how another is read, or how much memory is used: of a
cell that is longer than any text that is read, only so much is kept that it is known to be too
long. Readers of libraries raise on such lines, which tells that the table has one, and so that a
person is in it; and the limit of the standard library's reader belongs to the whole process. A
carriage return within a line is part of its cell: writers such as pandas leave it without quotes,
and a row that ended there would be two rows of one person.

A file is read in pieces that end with a line. Arrow, where it is installed, splits the pieces about
which it cannot be of another opinion than :mod:`~tightdp.data.csv_files`; all others are split
there. Of which kind a piece is moves time alone, never a cell. A piece is Arrow's if

- every carriage return is followed by a line feed,
- of its quotes, in their order, each first one follows a mark or a line's end, and each second one
  comes before one, with no line feed between the two. So a first quote begins a cell: by induction
  nothing is open before it; and the second, which is not doubled, ends the same cell;
- all its lines have as many cells as the header.
"""

from __future__ import annotations

import codecs
import importlib
import io
from collections.abc import Iterable, Iterator, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.columns import Chunk, ListedCells, Part
from tightdp.data.csv_files import CsvFile, OpenedCsv, TextLines, records
from tightdp.data.fixed_widths import Lines, cut_lines
from tightdp.data.library_columns import batch_cells

_PIECE = 1 << 22  # bytes that are split at a time
_SMALL = 1 << 20  # files that are read before Arrow would be loaded
_PART = 1 << 24  # about so many characters of kept cells at a time
_QUOTE, _FEED, _RETURN = b'"'[0], b"\n"[0], b"\r"[0]


def read_parts(source: CsvFile, rows: int, names: Sequence[str]) -> Iterator[Part]:
    """The cells of these columns in the lines below the header, at most ``rows`` lines at a time.

    Where the file has no header, all lines are read. A blank line is no row, except in a file of
    one column: there it is an empty cell. An empty cell, and one that a short line lacks, is
    missing.
    """
    opened = OpenedCsv.open(source, names)
    with opened.file as file:
        own = opened.mark == " " or opened.widths is not None  # of which Arrow knows nothing
        arrow = None if own else _arrow(source.path)
        if arrow is None:
            text = io.TextIOWrapper(file, "utf-8", errors="surrogateescape", newline="\n")
            yield from _ready(_listed(text, opened, names, rows))
            return
        pieces = _Pieces(file)
        while pieces.next():
            if pieces.whole and _plain(pieces.piece, opened.mark):
                yield partial(_split, arrow, pieces.piece, opened, names, rows)
            else:
                yield from _ready(_listed(TextLines(pieces), opened, names, rows, pieces))


def _ready(chunks: Iterator[Chunk]) -> Iterator[Part]:
    return (partial(iter, (chunk,)) for chunk in chunks)


def _arrow(path: Path) -> Any:
    """Arrow's reader of CSV; None if it is not installed, or would take longer to load."""
    packed = 4 if path.suffix.lower() in (".gz", ".bz2", ".xz") else 1
    if path.stat().st_size * packed < _SMALL:
        return None
    try:
        importlib.import_module("pyarrow.csv")
        return importlib.import_module("pyarrow")
    except ImportError:
        return None


# --- by the rules ---------------------------------------------------------------------------------


def _listed(
    lines: Lines, opened: OpenedCsv, names: Sequence[str], rows: int, pieces: _Pieces | None = None
) -> Iterator[Chunk]:
    """All records; of a piece its own, and the rest of one that goes on in the next."""
    part: list[list[str | None]] = []
    size = 0
    if opened.widths is None:
        found = records(lines, opened.mark, opened.width)
    else:
        found = cut_lines(lines, opened.widths)
    for cells, length in found:
        if cells or opened.width == 1:
            part.append([(cells[j] or None) if j < len(cells) else None for j in opened.places])
            size += length
        if len(part) == rows or size > _PART:
            yield _side_by_side(part, names)
            part, size = [], 0
        if pieces is not None and not pieces.left:
            break
    if part:
        yield _side_by_side(part, names)


def _side_by_side(part: list[list[str | None]], names: Sequence[str]) -> Chunk:
    return {name: ListedCells([line[j] for line in part]) for j, name in enumerate(names)}


class _Pieces:
    """The pieces of a file: each ends with a line, except the last, and parts of a huge line."""

    def __init__(self, file: Any) -> None:
        self._file, self._rest, self._ended = file, b"", False
        self.piece, self.whole = b"", True
        self._lines = io.BytesIO()

    def next(self) -> bool:
        """Go to the next piece; False if there is none."""
        new = b"" if self._ended else self._file.read(_PIECE)
        self._ended = not new
        data = self._rest + new
        end = len(data) if self._ended else data.rfind(b"\n") + 1 or len(data)
        self.piece, self._rest = data[:end], data[end:]
        self.whole = self._ended or self.piece[-1:] == b"\n"
        self._lines = io.BytesIO(self.piece)
        return bool(self.piece)

    def readline(self, size: int, /) -> bytes:
        """The next line of the piece, and of the next where a record goes on there."""
        line = self._lines.readline(size)
        return self._lines.readline(size) if not line and self.next() else line

    @property
    def left(self) -> bool:
        """Whether the piece has lines that were not asked for."""
        return self._lines.tell() < len(self.piece)


# --- by Arrow -------------------------------------------------------------------------------------


def _split(
    arrow: Any, piece: bytes, opened: OpenedCsv, names: Sequence[str], rows: int
) -> Iterable[Chunk]:
    """The columns of a piece: by Arrow, unless a line has more or fewer cells than the header."""
    csv, places = arrow.csv, [str(place) for place in opened.places]
    try:
        table = csv.read_csv(
            io.BytesIO(piece),
            csv.ReadOptions(
                use_threads=False,
                block_size=len(piece) + 1,
                column_names=[str(place) for place in range(opened.width)],
            ),
            csv.ParseOptions(delimiter=opened.mark, ignore_empty_lines=opened.width > 1),
            csv.ConvertOptions(
                check_utf8=False,
                column_types=dict.fromkeys(places, arrow.string()),
                include_columns=list(dict.fromkeys(places)),
                strings_can_be_null=True,
                null_values=[""],
            ),
        )
    except arrow.ArrowInvalid:
        return _listed(TextLines(io.BytesIO(piece)), opened, names, rows)
    found = batch_cells(table.to_batches(), places, rows)
    return (dict(zip(names, cells.values(), strict=True)) for cells in found)


def _plain(piece: bytes, mark: str) -> bool:
    r"""Whether quotes and carriage returns leave no doubt; see the top of this module.

    >>> [_plain(line, ",") for line in (b'a,"b,c"\r\n', b'5" pipe\n', b'"a""b"\n', b"a\rb\n")]
    [True, False, False, False]
    """
    if piece.startswith(codecs.BOM_UTF8):  # of a file, for Arrow
        return False
    if b"\r" in piece and piece.count(b"\r") != piece.count(b"\r\n"):
        return False
    return b'"' not in piece or _quotes_are_plain(np.frombuffer(piece, np.uint8), ord(mark))


def _quotes_are_plain(letters: NDArray[np.uint8], mark: int) -> bool:
    places = np.flatnonzero(letters == _QUOTE)
    if len(places) % 2:
        return False
    first, second = places[0::2], places[1::2]
    before = np.where(first > 0, letters[first - 1], _FEED)
    after = np.append(letters, _FEED)[second + 1]
    # a carriage return is followed by a line feed here
    fits = ((before == mark) | (before == _FEED)).all() and (
        (after == mark) | (after == _FEED) | (after == _RETURN)
    ).all()
    if not fits:
        return False
    feeds = np.flatnonzero(letters == _FEED)
    return bool((np.searchsorted(feeds, first) == np.searchsorted(feeds, second)).all())
