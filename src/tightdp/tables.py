"""Tables for people: rows of cells as text and as HTML."""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from tightdp.errors import visible

Rows = Sequence[Sequence[str]]


def text_table(rows: Rows, *, left: Iterable[int] = (0,)) -> list[str]:
    """The lines of a table: a heading, a rule, and the body; columns not in ``left`` end flush.

    >>> print("\\n".join(text_table([("entry", "value"), ("age", "41.5")])))
    entry  value
    ------------
    age     41.5
    """
    flush, rows = set(left), [[visible(cell) for cell in row] for row in rows]
    widths = [max(len(row[i]) for row in rows) for i in range(len(rows[0]))]
    lines = [
        "  ".join(
            cell.ljust(width) if i in flush else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def html_table(rows: Rows, *notes: str) -> str:
    """The same for a notebook, with notes below.

    >>> html_table([("a",), ("<b>",)], "note")
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table><p>note</p>'
    """
    head, *body = [[html.escape(cell) for cell in row] for row in rows]
    lines = ["".join(f"<th>{cell}</th>" for cell in head)]
    lines += ["".join(f"<td>{cell}</td>" for cell in row) for row in body]
    said = "".join(f"<p>{html.escape(note)}</p>" for note in notes if note)
    return f"<table>{''.join(f'<tr>{line}</tr>' for line in lines)}</table>{said}"
