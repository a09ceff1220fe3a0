"""Lines of a CSV file, read by the standard library: every cell is text, whatever it holds.

No line can stop the reading: bytes that are no UTF-8 are replaced, and cells may have any length.
Faster readers raise on such lines, which tells that the table has one, and so that a person is in
it. A line ends at a line feed. A carriage return within one is part of its cell: writers such as
pandas leave it without quotes, and a row that ended there would be two rows of one person.

What divides cells is read off the header, which is public: a comma if one stands outside quotes
there, else a semicolon, a tab or a bar.
"""

from __future__ import annotations

import csv
import gzip
import itertools
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from tightdp.errors import fail

_LONGEST_CELL = 2**31 - 1  # what a C long holds everywhere
_RETURN = "\udc0d"  # stands for a carriage return; no decoded text has it
_MARKS = ",;\t|"


def read_names(path: Path) -> list[str]:
    """The cells of the header.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_text("age,region\\n1,north")
    ...     read_names(Path(folder, "a.csv"))
    ['age', 'region']
    """
    with _open(path) as lines:
        names = next(_reader(lines), [])
    if any(_RETURN in name for name in names):
        fail(
            f"The header of {path.name!r} has carriage returns: save the file with line feeds at "
            "the ends of its lines."
        )
    return names


def read_rows(path: Path, rows: int) -> Iterator[list[list[str]]]:
    """The lines below the header, at most ``rows`` at a time, as lists of cells.

    A blank line is no row, except in a file of one column: there it is an empty cell.
    """
    with _open(path) as lines:
        reader = _reader(lines)
        single = len(next(reader, [])) == 1
        full = (line for line in reader if line or single)
        while part := _take(full, rows):
            yield part


def text_cell(line: list[str], place: int) -> str | None:
    """The cell at that place; an empty one, or one that a short line lacks, is missing."""
    return (line[place].replace(_RETURN, "\r") or None) if place < len(line) else None


def _open(path: Path) -> Any:
    opener: Any = gzip.open if path.suffix.lower() == ".gz" else open
    return opener(path, "rt", encoding="utf-8-sig", errors="replace", newline="\n")


def _reader(lines: Iterable[str]) -> Iterator[list[str]]:
    """All lines as cells, divided as the header is; nothing below it has a say."""
    full = _lines(lines)
    header = next(full, "")
    return csv.reader(itertools.chain([header], full), delimiter=_mark(header))


def _mark(header: str) -> str:
    """What divides the cells of a header; a name in quotes may hold any mark.

    >>> _mark('"income, yearly";age'), _mark("age")
    (';', ',')
    """
    bare = "".join(header.split('"')[::2])
    return next((mark for mark in _MARKS if mark in bare), ",")


def _lines(lines: Iterable[str]) -> Iterator[str]:
    for line in lines:
        if "\r" not in line:
            yield line
            continue
        text = line.removesuffix("\r\n")
        yield text.replace("\r", _RETURN) + line[len(text) :]


def _take(reader: Iterator[list[str]], rows: int) -> list[list[str]]:
    """The next lines, with cells of any length."""
    before = csv.field_size_limit(_LONGEST_CELL)
    try:
        return list(itertools.islice(reader, rows))
    finally:
        csv.field_size_limit(before)
