"""Lines whose cells have stated widths, in characters, as statistical offices write their files.

Widths are public facts. A line is cut by itself: no mark, quote or other line says where a cell
ends. Nothing here opens a file.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, Protocol

from tightdp.errors import fail

_MOST = 1 << 20  # characters of a line that can be asked for
_PIECE = 1 << 20  # what is read of a line at a time


class Lines(Protocol):
    """Text that is read line by line."""

    def readline(self, size: int, /) -> str:
        """Up to a line feed, or so many characters; nothing at the end."""


def check_widths(widths: object, names: Sequence[str] | None) -> tuple[int, ...]:
    """The widths of the named columns, or a clear error.

    >>> check_widths([2, 0], ["a", "b"])
    Traceback (most recent call last):
    tightdp.errors.ParameterError: `widths` must be a list of positive integers: ...
    """
    plain = isinstance(widths, Iterable) and not isinstance(widths, (str, bytes))
    listed: list[Any] = list(widths) if plain else []  # type: ignore[call-overload]
    if not listed or not all(type(width) is int and width > 0 for width in listed):
        fail(
            "`widths` must be a list of positive integers: how many characters of a line each "
            "column has, from the left."
        )
    if sum(listed) > _MOST:
        fail(f"`widths` must add up to at most {_MOST} characters. Got {sum(listed)}.")
    if names is None or len(names) != len(listed):
        fail(
            "`widths` and `names` must have one entry for every column: a file of fixed widths "
            f"has no header. Got {len(listed)} and {len(names or ())}."
        )
    return tuple(listed)


def cut_lines(file: Lines, widths: Sequence[int]) -> Iterator[tuple[list[str], int]]:
    r"""The cells of all lines, without the blanks around them, and the lengths of the lines.

    A line ends at a line feed, and at a carriage return before it. What it lacks is cut as empty
    cells; what is beyond the last width is left out; a line without a letter has no cells.

    >>> import io
    >>> list(cut_lines(io.StringIO("41 north\n 7\n\n"), [3, 6]))
    [(['41', 'north'], 8), (['7', ''], 2), ([], 0)]
    """
    ends = list(itertools.accumulate(widths))
    spans = [slice(end - width, end) for end, width in zip(ends, widths, strict=True)]
    most, line = ends[-1] + 2, ""  # and the line's end
    while piece := file.readline(_PIECE):
        line = (line + piece)[:most]  # of a line without end, no more is kept
        if piece[-1] != "\n":
            continue
        yield _cut(line.removesuffix("\n").removesuffix("\r"), spans)
        line = ""
    if line:
        yield _cut(line, spans)


def _cut(line: str, spans: Sequence[slice]) -> tuple[list[str], int]:
    return [line[span].strip(" ") for span in spans] if line else [], len(line)
