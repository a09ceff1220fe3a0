"""Records of CSV files: the cells of one after the other, whatever stands in them.

Cells are written as RFC 4180 says. Beyond it, a quote within a cell that does not begin with one is
a letter, and what follows a closing quote belongs to the cell. A line ends at a line feed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Protocol

from tightdp.values import LONGEST_TEXT

PIECE = 1 << 20  # what is read of a line at a time
_KEPT = LONGEST_TEXT + 1  # characters of a cell: one more shows that it is too long


class Lines(Protocol):
    """Text that is read line by line."""

    def readline(self, size: int, /) -> str:
        """Up to a line feed, or so many characters; nothing at the end."""


def records(file: Lines, mark: str, width: int) -> Iterator[tuple[list[str], int]]:
    """All records as cells, with about their length; cells beyond the header's are left out."""
    record = None
    while piece := file.readline(PIECE):
        if record is None and '"' not in piece and piece[-1] == "\n":  # nearly every line
            line = piece[:-2] if piece[-2:-1] == "\r" else piece[:-1]
            yield (line.split(mark, width)[:width] if line else []), len(piece)
            continue
        record = record or Record(mark, most=width)
        record.feed(piece)
        if record.done:
            yield record.cells(), record.length
            record = None
    if record is not None:
        yield record.cells(), record.length


class Record:
    """The cells of one record, from pieces of any length; of each cell a bounded part is kept.

    >>> record = Record(",", most=3)
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
