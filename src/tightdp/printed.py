"""Numbers and tables for people: a printed interval holds what the exact one holds, at its level.

Digits come from the width: two of the half-width, however large the value beside it is. Ends are
rounded outwards, levels of confidence downwards; commas divide thousands. A float stands for its
shortest decimal. Tables are rows of cells, as text and as HTML; no other module draws one, and no
other module writes numbers for people.
"""

from __future__ import annotations

import html
import itertools
import math
from collections.abc import Iterable, Sequence
from datetime import date
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

_OF_WIDTH = 2  # digits of a half-width: an end moves outwards by a tenth of it at most
_OF_ERROR = 3  # digits of an error that stands by itself
_BARE = 6  # digits of a number without a width
_PLAIN = range(-4, 12)  # powers of ten that are written out
_LEVEL = 6  # digits of a level of confidence
_EXACT = Context(prec=40)  # a float has 17 digits
_NOTEBOOK = (
    ".tightdp table{border-collapse:collapse;font-variant-numeric:tabular-nums}"
    ".tightdp caption{text-align:left;font-weight:600;color:inherit}"
    ".tightdp th,.tightdp td{padding:3px 12px 3px 0;text-align:right;white-space:nowrap}"
    ".tightdp th[scope=row]{text-align:left;font-weight:400}"
    ".tightdp th[scope=col]{border-bottom:1px solid currentColor}"
    ".tightdp th:first-child{text-align:left}.tightdp p{opacity:.8;margin:.4em 0}"
)
_COL, _ROW = 'th scope="col"', 'th scope="row"'


def bare(value: float) -> str:
    """A number of which no width is known: six digits, and never fewer than all whole ones.

    >>> bare(1332412.4), bare(0.123456789), bare(float("nan"))
    ('1,332,412', '0.123457', '-')
    """
    return "-" if math.isnan(value) else _written(_rounded(value, min(_unit(value, _BARE), 0)))


def short(value: float, digits: int = _OF_ERROR) -> str:
    """A number in so many digits: an error, a ratio, a probability.

    >>> short(1240.612), short(0.04512), short(2.0), short(float("nan"))
    ('1,240', '0.0451', '2', '-')
    """
    return "-" if math.isnan(value) else _written(_rounded(value, _unit(value, digits)))


def all_digits(value: float) -> str:
    """A number that is stated and not estimated, with all its digits.

    >>> all_digits(200000.0), all_digits(0.1), all_digits(1e-30)
    ('200,000', '0.1', '1e-30')
    """
    return _written(_rounded(value, None))


def whole(count: int) -> str:
    """A whole number, with all its digits.

    >>> whole(45211), whole(-3)
    ('45,211', '-3')
    """
    return f"{count:,}"


def estimate(value: float, low: float, high: float) -> tuple[str, str, str]:
    """A value and the ends of its interval; the printed ends hold the exact ones and the value.

    >>> estimate(1332412.4, 1332408.71, 1332416.09)
    ('1,332,412.4', '1,332,408.7', '1,332,416.1')
    >>> estimate(1986.99755, 1986.99512, 1986.99998)
    ('1,986.9976', '1,986.9951', '1,987.0000')
    >>> estimate(2 / 3, 1 / 3, 1.0)
    ('0.67', '0.33', '1.00')
    >>> estimate(24.0, 21.0, 27.0)
    ('24', '21', '27')
    >>> estimate(2 / 3, -math.inf, math.inf)
    ('0.666667', '-inf', 'inf')
    """
    if math.isnan(low) or math.isnan(high):
        return bare(value), "-", "-"
    half = high / 2 - low / 2
    unit = _unit(half, _OF_WIDTH) if 0 < half < math.inf else None
    if half == math.inf:  # digits of the numbers themselves, of those that have some
        unit = min(0, *(_unit(z, _BARE) for z in (value, low, high) if math.isfinite(z)), 0)
    middle = _rounded(value, unit)
    least, most = _rounded(low, unit, ROUND_FLOOR), _rounded(high, unit, ROUND_CEILING)
    places = max(map(_places, (middle, least, most)))
    return _written(middle, places), _written(least, places), _written(most, places)


def value_and_interval(value: float, ends: Sequence[float]) -> tuple[str, str]:
    """The cells of a value and of its interval; a dash where there is none.

    >>> value_and_interval(41.53817, [41.4, 41.7]), value_and_interval(7.0, [math.nan] * 2)
    (('41.54', '[41.40 to 41.70]'), ('7', '-'))
    """
    middle, low, high = estimate(float(value), float(ends[0]), float(ends[1]))
    return middle, "-" if low == "-" else f"[{low} to {high}]"


def date_and_interval(value: float, ends: Sequence[float], first: date) -> tuple[str, str]:
    """The same of numbers of days since a date: the days that they lie in.

    >>> date_and_interval(2.5, [0.1, 4.9], date(2014, 1, 30))
    ('2014-02-01', '[2014-01-30 to 2014-02-03]')
    """
    middle, low, high = (day_text(first, float(number)) for number in (value, *ends))
    return middle, "-" if "-" in (low, high) else f"[{low} to {high}]"


def day_text(first: date, number: float) -> str:
    """The date that lies so many days after another; a dash where there is none.

    >>> day_text(date(2014, 1, 31), 1.9), day_text(date(2014, 1, 31), math.nan)
    ('2014-02-01', '-')
    """
    if math.isnan(number):
        return "-"
    least, last = (day.toordinal() - first.toordinal() for day in (date.min, date.max))
    days = math.floor(min(max(number, least), last))
    return str(date.fromordinal(first.toordinal() + days))


def most(width: float) -> str:
    """A half-width in three digits, never less than it is; a dash where none is known.

    >>> most(1240.612), most(0.5), most(3101469.2)
    ('1,250', '0.5', '3,110,000')
    """
    if math.isnan(width):
        return "-"
    return _written(_rounded(width, _unit(width, _OF_ERROR), ROUND_CEILING))


def percent(level: float) -> str:
    """A level of confidence, never more than it is.

    >>> percent(0.95), percent(0.995), percent(0.9995), percent(1 - 1e-9), percent(2 / 3)
    ('95%', '99.5%', '99.95%', '99.9999%', '66.6666%')
    """
    share = _share(level).scaleb(2, _EXACT)
    return f"{_written(_rounded(share, share.adjusted() + 1 - _LEVEL, ROUND_FLOOR))}%"


def axis_mark(value: float) -> str:
    """A mark of an axis.

    >>> axis_mark(12345.678), axis_mark(0.00012), axis_mark(-0.5)
    ('12,346', '0.00012', '-0.5')
    """
    return short(value, 5 if abs(value) >= 1e4 else 4)


def in_brackets(level: float, covers: Covers) -> str:
    """What is said of a table whose cells have their intervals beside them.

    >>> in_brackets(0.95, "noise")
    'In brackets: 95% interval (without noise)'
    """
    return f"In brackets: {interval_head(level, covers)}"


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


def _unit(value: float, digits: int) -> int:
    """The power of ten of the last of so many digits."""
    finite = math.isfinite(value) and value != 0
    return (Decimal(repr(float(value))).adjusted() if finite else 0) + 1 - digits


def _rounded(
    value: float | Decimal, unit: int | None, rounding: str = ROUND_HALF_EVEN
) -> float | Decimal:
    """A whole multiple of ``10**unit``, or all digits; what is not finite stays."""
    if not math.isfinite(value):
        return value
    number = value if isinstance(value, Decimal) else Decimal(repr(float(value)))
    exponent = number.as_tuple().exponent
    if unit is not None and isinstance(exponent, int) and exponent < unit:
        number = number.quantize(Decimal((0, (1,), unit)), rounding, _EXACT)
    return number.normalize(_EXACT)


def _places(number: float | Decimal) -> int:
    """Digits behind the point of a number that is written out."""
    if not isinstance(number, Decimal) or not number or number.adjusted() not in _PLAIN:
        return 0
    return max(0, -int(number.as_tuple().exponent))


def _written(number: float | Decimal, places: int = 0) -> str:
    """With at least so many places behind the point; short, as ``format(..., "g")`` is."""
    if not isinstance(number, Decimal):
        return "-" if math.isnan(number) else f"{number:g}"
    power = number.adjusted() if number else 0
    if power in _PLAIN:
        return f"{number:,.{max(places, _places(number))}f}"
    return f"{number.scaleb(-power, _EXACT):f}e{power:+03d}"


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


def cross_labels(axes: Sequence[Axis]) -> tuple[dict[str, list[str]], str, list[str]]:
    """The labels of all lines of a table that is crossed, what lies across, and its labels.

    >>> cross_labels([("sex", ("f", "m")), ("job", ("a", "b"))])
    ({'sex': ['f', 'm']}, 'job', ['a', 'b'])
    """
    *down, (across, labels) = axes
    return long_labels(down), across or "measure", list(labels)


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


def entry_table(
    axes: Sequence[Axis], names: Sequence[str], heads: Sequence[str], cells: Rows
) -> list[tuple[str, ...]]:
    """Entries with their numbers: crossed, the first and the last of them, or one below another.

    >>> entry_table([], ["x"], ["value", "std", "interval"], [("7", "1", "[5 to 9]")])
    [('entry', 'value', 'std', 'interval'), ('x', '7', '1', '[5 to 9]')]
    >>> entry_table([("sex", ("f", "m"))], ["sex[f]", "sex[m]"], ["n"], [("3",), ("4",)])
    [('sex', 'n'), ('f', '3'), ('m', '4')]
    """
    if len(axes) > 1:
        said = [one[0] if one[-1] == "-" else f"{one[0]} {one[-1]}" for one in cells]
        return cross_table(axes, said)
    first, labels = axes[0] if axes and axes[0][0] else ("entry", names)
    return [(first, *heads), *((label, *one) for label, one in zip(labels, cells, strict=True))]


def in_one_cell(middle: str, around: str) -> str:
    """A value and its interval for a table that is crossed.

    >>> in_one_cell("7", "[5 to 9]"), in_one_cell("7", "-")
    ('7 [5 to 9]', '7')
    """
    return middle if around == "-" else f"{middle} {around}"


def in_short(what: object, names: Sequence[str], said: object) -> str:
    """The repr of what has many numbers: its class, its first entries, and one fact.

    >>> in_short(3.0, ["a", "b", "c", "d"], "epsilon = 1")
    '<float of 4 entries (a, b, c, ...): epsilon = 1>'
    """
    first = ", ".join(visible(name, 40) for name in names[:3]) + ", ..." * (len(names) > 3)
    count = f"{whole(len(names))} {'entry' if len(names) == 1 else 'entries'}"
    return f"<{type(what).__name__} of {count} ({first}): {said}>"


def text_facts(facts: Facts) -> list[str]:
    """Names and what there is to say of each, without a heading.

    >>> print("\\n".join(text_facts([("loss", "l1"), ("expected", "0.56")])))
    loss      l1
    expected  0.56
    """
    return _aligned(list(facts), {0, 1})


def html_table(rows: Rows, *notes: str, caption: str = "", kind: str = "") -> str:
    """The same for a notebook or a page, with notes below; ``kind`` is a class of its style.

    The first cell of a row heads it.

    >>> html_table([("a", "b"), ("<b>", "1")], "note")  # doctest: +ELLIPSIS
    '<table><tr><th scope="col">a</th>...<tr><th scope="row">&lt;b&gt;</th><td>1</td></tr>...'
    """
    head, *body = rows
    lines = [_cells(_COL, head), *(_cells(_ROW, r[:1]) + _cells("td", r[1:]) for r in body)]
    title = f"<caption>{escaped(caption)}</caption>" if caption else ""
    return _table([title, *map(_row, lines)], kind) + html_notes(*notes)


def notebook(*parts: str) -> str:
    """Tables and notes for a notebook, with a style of their own, light and dark.

    >>> notebook("<table></table>")[:21]
    '<div class="tightdp">'
    """
    return f'<div class="tightdp"><style>{_NOTEBOOK}</style>{"".join(parts)}</div>'


def html_facts(facts: Facts, *, kind: str = "") -> str:
    """The same for a notebook or a page: every name heads its row.

    >>> html_facts([("loss", "l1")])
    '<table><tr><th scope="row">loss</th><td>l1</td></tr></table>'
    """
    lines = (_cells(_ROW, [name]) + _cells("td", [said]) for name, said in facts)
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
    name = mark.partition(" ")[0]
    return "".join(f"<{mark}>{escaped(cell)}</{name}>" for cell in cells)


def _row(cells: str) -> str:
    return f"<tr>{cells}</tr>"


def _table(lines: Iterable[str], kind: str) -> str:
    opened = f'<table class="{kind}">' if kind else "<table>"
    return f"{opened}{''.join(lines)}</table>"
