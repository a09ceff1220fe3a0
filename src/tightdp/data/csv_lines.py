"""Lines of a CSV file, read by the standard library: every cell is text, whatever it holds.

No line can stop the reading: bytes that are no UTF-8 are replaced, and cells may have any length.
Faster readers raise on such lines, which tells that the table has one, and so that a person is in
it. A line ends at a line feed. A carriage return within one is part of its cell: writers such as
pandas leave it without quotes, and a row that ended there would be two rows of one person.
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


def read_names(path: Path) -> list[str]:
    """The cells of the header.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_text("age,region\\n1,north")
    ...     read_names(Path(folder, "a.csv"))
    ['age', 'region']
    """
    with _open(path) as lines:
        names = next(csv.reader(_lines(lines)), [])
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
        reader = csv.reader(_lines(lines))
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
