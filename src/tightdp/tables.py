"""Tables for people: rows of cells as text and as HTML.

No other module draws one.
"""

from __future__ import annotations

import html
from collections.abc import Iterable, Sequence

from tightdp.errors import visible

Rows = Sequence[Sequence[str]]
Facts = Iterable[tuple[str, str]]


def text_table(rows: Rows, *, left: Iterable[int] = (0,)) -> list[str]:
    """The lines of a table: a heading, a rule, and the body; columns not in ``left`` end flush.

    >>> print("\\n".join(text_table([("entry", "value"), ("age", "41.5")])))
    entry  value
    ------------
    age     41.5
    """
    lines = _aligned(rows, set(left))
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def text_facts(facts: Facts) -> list[str]:
    """Names and what there is to say of each, without a heading.

    >>> print("\\n".join(text_facts([("loss", "l1"), ("expected", "0.56")])))
    loss      l1
    expected  0.56
    """
    return _aligned(list(facts), {0, 1})


def html_table(rows: Rows, *notes: str, caption: str = "", kind: str = "") -> str:
    """The same for a notebook or a page, with notes below; ``kind`` is a class of its style.

    >>> html_table([("a",), ("<b>",)], "note")
    '<table><tr><th>a</th></tr><tr><td>&lt;b&gt;</td></tr></table><p>note</p>'
    """
    head, *body = rows
    lines = [_cells("th", head), *(_cells("td", row) for row in body)]
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return _table([title, *map(_row, lines)], kind) + html_notes(*notes)


def html_facts(facts: Facts, *, kind: str = "") -> str:
    """The same for a notebook or a page: every name heads its row.

    >>> html_facts([("loss", "l1")])
    '<table><tr><th>loss</th><td>l1</td></tr></table>'
    """
    lines = (_cells("th", [name]) + _cells("td", [said]) for name, said in facts)
    return _table(map(_row, lines), kind)


def html_notes(*notes: str, bold: bool = False) -> str:
    """A paragraph for every note that says something.

    >>> html_notes("a < b", "", bold=True)
    '<p><b>a &lt; b</b></p>'
    """
    texts = [" ".join(map(escaped, note.split("\n"))) for note in notes if note]
    return "".join(f"<p><b>{text}</b></p>" if bold else f"<p>{text}</p>" for text in texts)


def escaped(text: str) -> str:
    """A text from outside for one line of a page: neither mark-up nor what is not printable.

    >>> escaped("<b>\\x1b")
    '&lt;b&gt;\\\\x1b'
    """
    return html.escape(visible(text))


# --- pieces ---------------------------------------------------------------------------------------


def _aligned(rows: Rows, left: set[int]) -> list[str]:
    rows = [[visible(cell) for cell in row] for row in rows]
    widths = [max(map(len, column)) for column in zip(*rows, strict=True)]
    return [
        "  ".join(
            cell.ljust(width) if i in left else cell.rjust(width)
            for i, (cell, width) in enumerate(zip(row, widths, strict=True))
        ).rstrip()
        for row in rows
    ]


def _cells(mark: str, cells: Iterable[str]) -> str:
    return "".join(f"<{mark}>{escaped(cell)}</{mark}>" for cell in cells)


def _row(cells: str) -> str:
    return f"<tr>{cells}</tr>"


def _table(lines: Iterable[str], kind: str) -> str:
    opened = f'<table class="{kind}">' if kind else "<table>"
    return f"{opened}{''.join(lines)}</table>"
