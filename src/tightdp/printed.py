"""Numbers and tables for people: a printed interval holds what the exact one holds, at its level.

Digits come from the width: three of the half-width, however large the value beside it is. Ends are
rounded outwards, levels of confidence downwards. A float stands for its shortest decimal, which is
what a reader of its digits types back. Tables are rows of cells, as text and as HTML; no other
module draws one.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Sequence
from decimal import ROUND_CEILING, ROUND_FLOOR, ROUND_HALF_EVEN, Context, Decimal
from typing import Literal

from tightdp.errors import visible

Rows = Sequence[Sequence[str]]
Facts = Iterable[tuple[str, str]]
Axis = tuple[str, tuple[str, ...]]
"""A side of a table: its name, and its labels."""
Covers = Literal["noise", "sample", "population", ""]
"""What an interval is for: the value without noise, that of the table where the release is no sum
of both, or that of the population whose sample the rows are; "" is several of them, or nothing."""

_OF_WIDTH = 3  # digits of a half-width: an end moves outwards by a hundredth of it at most
_BARE = 6  # digits of a number without a width
_PLAIN = range(-4, 12)  # powers of ten that are written out
_LEVEL = 6  # digits of a level of confidence
_EXACT = Context(prec=40)  # a float has 17 digits


def bare(value: float) -> str:
    """A number of which no width is known: six digits, and never fewer than all whole ones.

    >>> bare(1332412.4), bare(0.123456789), bare(float("nan"))
    ('1332412', '0.123457', '-')
    """
    if math.isnan(value):
        return "-"
    return _rounded(value, min(_power(value) + 1 - _BARE, 0), ROUND_HALF_EVEN)


def estimate(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value and the ends of its interval; the printed ends hold the exact ones and the value.

    >>> estimate(1332412.4, 1332408.71, 1332416.09)
    ('1332412.4', '1332408.71', '1332416.09')
    >>> estimate(1986.99755, 1986.99512, 1986.99998)
    ('1986.99755', '1986.99512', '1986.99998')
    >>> estimate(2 / 3, 1 / 3, 1.0)
    ('0.667', '0.333', '1')
    """
    if math.isnan(low) or math.isnan(high):
        return bare(value), "-", "-"
    half = high / 2 - low / 2
    unit = _power(half) + 1 - _OF_WIDTH if 0 < half < math.inf else None
    roundings = (ROUND_HALF_EVEN, ROUND_FLOOR, ROUND_CEILING)
    middle, least, most = (
        _rounded(number, unit, rounding)
        for number, rounding in zip((value, low, high), roundings, strict=True)
    )
    return middle, least, most


def value_and_interval(value: float, ends: Sequence[float]) -> tuple[str, str]:
    """The cells of a value and of its interval; a dash where there is none.

    >>> value_and_interval(41.53817, [41.4, 41.7]), value_and_interval(7.0, [math.nan] * 2)
    (('41.538', '[41.4, 41.7]'), ('7', '-'))
    """
    middle, low, high = estimate(float(value), float(ends[0]), float(ends[1]))
    return middle, "-" if low == "-" else f"[{low}, {high}]"


def most(width: float) -> str:
    """A half-width in five digits, never less than it is; a dash where none is known.

    >>> most(1240.612), most(0.5), most(3101469.2)
    ('1240.7', '0.5', '3101500')
    """
    if math.isnan(width):
        return "-"
    return _rounded(width, _power(width) - 4, ROUND_CEILING)


def percent(level: float) -> str:
    """A level of confidence, never more than it is.

    >>> percent(0.95), percent(0.995), percent(0.9995), percent(1 - 1e-9), percent(2 / 3)
    ('95%', '99.5%', '99.95%', '99.9999%', '66.6666%')
    """
    share = _share(level).scaleb(2, _EXACT)
    return f"{_rounded(share, share.adjusted() + 1 - _LEVEL, ROUND_FLOOR)}%"


def axis_mark(value: float) -> str:
    """A mark of an axis.

    >>> axis_mark(12345.678), axis_mark(0.00012), axis_mark(-0.5)
    ('12,346', '0.00012', '-0.5')
    """
    if value != 0 and (abs(value) >= 1e7 or abs(value) < 1e-3):
        return f"{value:.3g}"
    return f"{value:,.0f}" if abs(value) >= 1e4 else f"{value:.4g}"


def interval_head(level: float, covers: Covers) -> str:
    """What heads a column of intervals: their level, and what they are intervals for.

    >>> interval_head(0.95, "population"), interval_head(0.9, "")
    ('95% interval (population)', '90% interval')
    """
    words = {"noise": " (without noise)", "sample": " (table)", "population": " (population)"}
    return f"{percent(level)} interval{words.get(covers, '')}"


def _share(level: float) -> Decimal:
    """A level without the rounding of ``1 - alpha``, which is below the fifteenth place."""
    return Decimal(repr(round(float(level), 15)))


def _power(value: float) -> int:
    """The power of ten of the first digit."""
    return Decimal(repr(float(value))).adjusted() if math.isfinite(value) and value else 0


def _rounded(value: float | Decimal, unit: int | None, rounding: str) -> str:
    """Whole multiples of ``10**unit``, or all digits; short, as ``format(..., "g")`` is."""
    if not math.isfinite(value):
        return "-" if math.isnan(value) else f"{value:g}"
    number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    exponent = number.as_tuple().exponent
    if unit is not None and isinstance(exponent, int) and exponent < unit:
        number = number.quantize(Decimal((0, (1,), unit)), rounding, _EXACT)
    if not number:
        return "0"
    power, short = number.adjusted(), number.normalize(_EXACT)
    if power in _PLAIN:
        return f"{short:f}"
    return f"{short.scaleb(-power, _EXACT):f}e{power:+03d}"


# --- tables ---------------------------------------------------------------------------------------


def text_table(rows: Rows, *, left: Iterable[int] = (0,)) -> list[str]:
    """The lines of a table: a heading, a rule, and the body; columns not in ``left`` end flush.

    >>> print("\\n".join(text_table([("entry", "value"), ("age", "41.5")])))
    entry  value
    ------------
    age     41.5
    """
    lines = _aligned(rows, set(left))
    return [lines[0], "-" * max(map(len, lines)), *lines[1:]]


def long_labels(axes: Sequence[Axis]) -> dict[str, list[str]]:
    """For every side of a table the label of each cell, in the order of ``numpy.ravel``.

    >>> long_labels([("sex", ("f", "m")), ("", ("rows", "age"))])
    {'sex': ['f', 'f', 'm', 'm'], 'measure': ['rows', 'age', 'rows', 'age']}
    """
    cells = list(itertools.product(*(labels for _, labels in axes)))
    names = [name or "measure" for name, _ in axes]
    return {name: [cell[j] for cell in cells] for j, name in enumerate(names)}


def cross_table(axes: Sequence[Axis], cells: Sequence[str]) -> list[tuple[str, ...]]:
    """The rows of a table whose last side lies across; a side alone stands upright.

    >>> cross_table([("sex", ("f", "m")), ("job", ("a", "b"))], ["1", "2", "3", "4"])
    [('sex', 'job=a', 'job=b'), ('f', '1', '2'), ('m', '3', '4')]
    >>> cross_table([("sex", ("f", "m"))], ["1", "2"])
    [('sex', 'value'), ('f', '1'), ('m', '2')]
    """
    if len(axes) == 1 and axes[0][0]:
        axes = [*axes, ("", ("value",))]
    *down, (across, labels) = axes
    if not down:
        down = [("", ("",))]
    head = [f"{across}={label}" if across else label for label in labels]
    rows = list(itertools.product(*(side for _, side in down)))
    width = len(labels)
    lines = [(*row, *cells[i * width : (i + 1) * width]) for i, row in enumerate(rows)]
    return [(*(name for name, _ in down), *head), *lines]


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
