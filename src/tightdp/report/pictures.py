"""Pictures of answers as HTML with small SVGs: no library, no script, nothing to load.

Lengths across are percentages and text has its own size, so that a picture is as wide as its place
and its text is never shrunk. Colours are the variables of the page, with fallbacks.
"""

from __future__ import annotations

import itertools
import math
import re
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from tightdp.answer import Answer
from tightdp.compare import Comparison
from tightdp.meaning import power_curve
from tightdp.plots import canvas
from tightdp.printed import Axis, axis_mark, escaped, short, whole
from tightdp.privacy import Guarantee
from tightdp.schema import Date, Interval, Schema

MOST_ROWS = 30
_FLOOR = 190  # where the columns of a histogram stand
_BIN = re.compile(r"\[(-?[\d.e+-]+), (-?[\d.e+-]+)[\])]")
ACCENT, COOL = f"var(--accent, {canvas.ACCENT})", f"var(--cool, {canvas.COOL})"
SOFT, INK, MUTED = "var(--soft, #e8edf2)", "var(--ink, #1f2933)", "var(--muted, #5c6875)"


class Drawn(NamedTuple):
    """An entry of a picture: its label, its numbers, and what is printed of them."""

    label: str
    value: float
    low: float
    high: float
    said: tuple[str, str]


def draw(answer: Answer, schema: Schema | None = None, *, bars: bool | None = None) -> str:
    """The pictures of an answer: bars of counts, columns of bins, or values at their own scale.

    ``schema`` tells the units; ``bars`` says whether the entries are counts, which is else taken
    from the table that they form.
    """
    if not answer.names:  # no key was safe to show
        return _figure([_plain_line("Nothing appears: no key has enough rows.")], "No values")
    found = []
    same = answer.names == answer.release.names and answer.axes == answer.release.axes
    sheets = answer.release.sheets() if same else [("", answer.axes, slice(None))]
    for name, axes, part in sheets:
        rows = [_row(answer, i) for i in range(len(answer.names))[part]]
        found.append(_sheet(name, axes, rows, schema, bars))
    return "".join(found)


def _row(answer: Answer, i: int) -> Drawn:
    value, (low, high) = float(answer.value[i]), np.asarray(answer.interval, dtype=np.float64)[i]
    if answer.names[i] in answer.unknown:
        low = high = math.nan
    return Drawn(answer.names[i], value, float(low), float(high), answer.cells(i))


def _sheet(
    name: str, axes: tuple[Axis, ...], rows: list[Drawn], schema: Schema | None, bars: bool | None
) -> str:
    """The picture of one table."""
    labels = [", ".join(cell) for cell in itertools.product(*(side for _, side in axes if _))]
    if axes and not axes[-1][0]:  # several numbers of every group
        measures = axes[-1][1]
        panels = [
            _panel(
                with_unit(measure, schema),
                [row._replace(label=g) for row, g in zip(rows[j :: len(measures)], labels)],  # noqa: B905
            )
            for j, measure in enumerate(measures)
        ]
        return "".join(panels)
    if axes:
        rows = [row._replace(label=label) for row, label in zip(rows, labels, strict=True)]
    title = name or ", ".join(with_unit(side, schema) for side, _ in axes)
    edges = bin_edges(axes)
    if edges is not None:
        return _columns(with_unit(axes[0][0], schema), edges, rows)
    if bars or (bars is None and axes):
        return _bars(title, rows)
    return "".join(_panel("", [_named(row, schema)]) for row in rows[:MOST_ROWS]) + _more(rows)


def _named(row: Drawn, schema: Schema | None) -> Drawn:
    return row._replace(label=with_unit(row.label, schema))


def unit_of(name: str, schema: Schema | None) -> str:
    """The unit of the column that an entry is named after; nothing where none was stated.

    Dates are printed as dates and periods.
    """
    rule = None if schema is None else schema.columns.get(name.partition("[")[0])
    return rule.unit if isinstance(rule, Interval) and not isinstance(rule, Date) else ""


def with_unit(name: str, schema: Schema | None) -> str:
    """A name, and the unit of its numbers where one was stated."""
    unit = unit_of(name, schema)
    return f"{name} ({unit})" if unit else name


def bin_edges(axes: Sequence[Axis]) -> list[float] | None:
    """The edges of bins beside each other, if that is what the entries are."""
    if len(axes) != 1 or len(axes[0][1]) < 2:
        return None
    found = [_BIN.fullmatch(label) for label in axes[0][1]]
    ends = [(float(match[1]), float(match[2])) for match in found if match is not None]
    if len(ends) < len(found) or any(a[1] != b[0] for a, b in itertools.pairwise(ends)):
        return None
    return [ends[0][0], *(end for _, end in ends)]


# --- pieces ---------------------------------------------------------------------------------------


def _figure(lines: Sequence[str], about: str, title: str = "") -> str:
    head = f'<p class="tdp-title">{escaped(title)}</p>' if title else ""
    return (
        f'<div class="tdp-chart" role="img" aria-label="{escaped(about)}">{head}'
        f"{''.join(lines)}</div>"
    )


def _line_of(label: str, said: str, body: Sequence[str], height: int = 24) -> str:
    """A row of a picture: its name, its numbers, and its drawing, which stands between them."""
    return (
        f'<span class="tdp-name">{escaped(label)}</span><span class="tdp-said">{said}</span>'
        f"{_svg(body, height)}"
    )


def _plain_line(text: str) -> str:
    return f'<p class="tdp-title">{escaped(text)}</p>'


def _more(rows: Sequence[Drawn]) -> str:
    left = len(rows) - MOST_ROWS
    return _figure([_plain_line(f"and {whole(left)} more, in the table")], "") if left > 0 else ""


def _said(row: Drawn) -> str:
    value, ends = map(escaped, row.said)
    return f"<b>{value}</b>" + ("" if ends == "-" else f" <small>{ends}</small>")


def _svg(body: Sequence[str], height: int, kind: str = "tdp-track") -> str:
    return (
        f'<svg class="{kind}" width="100%" height="{height}" aria-hidden="true" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="inherit" font-size="12">'
        f"{''.join(body)}</svg>"
    )


def _line(a: float, b: float, y1: float, y2: float, stroke: str, width: float = 1.0) -> str:
    return (
        f'<line x1="{a:.2f}%" x2="{b:.2f}%" y1="{y1:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
        f'stroke-width="{width}"/>'
    )


def _box(x: float, width: float, y: float, height: float, fill: str, radius: float = 2) -> str:
    return (
        f'<rect x="{x:.2f}%" width="{max(width, 0):.2f}%" y="{y:.1f}" '
        f'height="{max(height, 0):.1f}" rx="{radius}" fill="{fill}"/>'
    )


def _mark(x: float, y: float, text: str, fill: str = MUTED) -> str:
    """A text at a place across, which stays inside at both ends."""
    anchor = "start" if x < 4 else "end" if x > 96 else "middle"
    return f'<text x="{x:.2f}%" y="{y}" text-anchor="{anchor}" fill="{fill}">{escaped(text)}</text>'


def _whisker(a: float, b: float, y: float) -> list[str]:
    """An interval: however narrow it is, its ends are seen."""
    ends = [_line(x, x, y - 6, y + 6, ACCENT, 2) for x in (a, b)]
    return [_line(a, b, y, y, ACCENT, 2), *ends]


class _Scale:
    """Round marks between two numbers, and where a number stands across, in percent."""

    def __init__(self, low: float, high: float) -> None:
        span = high - low if high > low else max(abs(high), 1.0)
        unit = 10.0 ** math.floor(math.log10(span / 3))
        self.step = next(s * unit for s in (1.0, 2.0, 2.5, 5.0, 10.0) if span / (s * unit) <= 4)
        first, last = math.floor(low / self.step + 1e-9), math.ceil(high / self.step - 1e-9)
        if last == first:
            last = first + 1
        self.low, self.high = first * self.step, last * self.step
        self.marks = [round(i * self.step, 12) for i in range(first, last + 1)]

    def at(self, value: float) -> float:
        share = (value - self.low) / (self.high - self.low)
        return 100 * min(max(share, 0.0), 1.0)

    def grid(self, height: int) -> list[str]:
        return [_line(self.at(mark), self.at(mark), 0, height, SOFT) for mark in self.marks]

    def foot(self) -> str:
        marks = [_mark(self.at(mark), 12, axis_mark(mark)) for mark in self.marks]
        return _line_of("", "", marks, 16)


# --- values at their own scale --------------------------------------------------------------------


def _panel(title: str, rows: list[Drawn]) -> str:
    """Values on one axis, as far as their intervals reach; zero is on it if it is near."""
    shown = rows[:MOST_ROWS]
    numbers = [n for row in shown for n in (row.value, row.low, row.high) if math.isfinite(n)]
    low, high = (min(numbers), max(numbers)) if numbers else (0.0, 1.0)
    room = (high - low) * 0.04
    low, high = low - room, high + room
    if abs(low) <= 1.5 * (high - low) and low > 0:
        low = 0.0
    if abs(high) <= 1.5 * (high - low) and high < 0:
        high = 0.0
    scale = _Scale(low, high)
    lines = []
    for row in shown:
        body = [*scale.grid(24), _line(0, 100, 12, 12, SOFT, 1)]
        if math.isfinite(row.low) and math.isfinite(row.high):
            at = scale.at(row.low)
            body += [_box(at, scale.at(row.high) - at, 7, 10, COOL)]
            body += [_line(x, x, 7, 17, COOL, 2) for x in (at, scale.at(row.high))]
        if math.isfinite(row.value):
            at = scale.at(row.value)
            body.append(_line(at, at, 3, 21, ACCENT, 3))
        lines.append(_line_of(row.label, _said(row), body))
    about = f"Values and intervals: {title or ', '.join(row.label for row in shown)}"
    return _figure([*lines, scale.foot()], about, title) + (_more(rows) if title else "")


# --- counts ---------------------------------------------------------------------------------------


def _bars(title: str, rows: list[Drawn]) -> str:
    shown = rows[:MOST_ROWS]
    tops = [max(row.value, row.high if math.isfinite(row.high) else row.value) for row in shown]
    scale = _Scale(0.0, max([t for t in tops if math.isfinite(t)], default=1.0) or 1.0)
    lines = []
    for row in shown:
        body = scale.grid(24)
        if math.isfinite(row.value) and row.said[0] != "-":  # what is not printed has no bar
            body.append(_box(0, scale.at(row.value), 5, 14, COOL))
            if math.isfinite(row.low) and math.isfinite(row.high):
                body += _whisker(scale.at(row.low), scale.at(row.high), 12)
        lines.append(_line_of(row.label, _said(row), body))
    return _figure([*lines, scale.foot()], f"Counts and intervals: {title}", title) + _more(rows)


def _columns(title: str, edges: list[float], rows: list[Drawn]) -> str:
    """Columns as wide as their bins: an area is a count where bins differ in width."""
    widths = np.diff(edges)
    equal = bool(np.allclose(widths, widths[0]))
    per = np.ones_like(widths) if equal else widths
    values, lows, highs = (
        np.array([getattr(row, part) for row in rows]) / per for part in ("value", "low", "high")
    )
    shown = [n for n in (*values, *highs) if math.isfinite(n)]
    scale, across = _Scale(0.0, max(shown, default=1.0) or 1.0), edges[-1] - edges[0]

    def up(value: float) -> float:
        return _FLOOR - (_FLOOR - 10) * scale.at(value) / 100

    body = [_line(0, 100, up(mark), up(mark), SOFT) for mark in scale.marks]
    for value, low, high, a, b in zip(values, lows, highs, edges, edges[1:], strict=False):
        x, wide = 100 * (a - edges[0]) / across, 100 * (b - a) / across
        if math.isfinite(value):
            body.append(_box(x, 0.96 * wide, up(value), _FLOOR - up(value), COOL, 0))
        if math.isfinite(low) and math.isfinite(high):
            middle, cap = x + 0.48 * wide, min(0.8, 0.3 * wide)
            body.append(_line(middle, middle, up(low), up(high), ACCENT, 2))
            body += [
                _line(middle - cap, middle + cap, up(n), up(n), ACCENT, 1.5) for n in (low, high)
            ]
    ticks = [m for m in _Scale(edges[0], edges[-1]).marks if edges[0] <= m <= edges[-1]]
    for tick in ticks:
        x = 100 * (tick - edges[0]) / across
        body += [_line(x, x, _FLOOR, _FLOOR + 4, MUTED), _mark(x, _FLOOR + 17, axis_mark(tick))]
    side = "".join(
        f'<text x="100%" y="{up(mark) + 4:.1f}" text-anchor="end" fill="{MUTED}">'
        f"{escaped(axis_mark(mark))}</text>"
        for mark in scale.marks
    )
    height = "rows" if equal else f"rows per unit of {title}: areas are counts"
    plot = f"{_svg([side], _FLOOR + 22, 'tdp-side')}{_svg(body, _FLOOR + 22, 'tdp-plot')}"
    return (
        f'<div class="tdp-columns" role="img" aria-label="Counts and intervals: {escaped(title)}">'
        f'<p class="tdp-title">{escaped(height)}</p>{plot}'
        f'<p class="tdp-foot">{escaped(title)}</p></div>'
    )


# --- noise and meaning ----------------------------------------------------------------------------


def comparison(found: Comparison) -> str:
    """The error of every noise, relative to the least."""
    names = list(found.previews)
    ratios = [found.relative(name) for name in names]
    lines = []
    for name, ratio in zip(names, ratios, strict=True):
        used = name == found.chosen
        bar = _box(0, 100 * ratio / max(ratios), 5, 14, ACCENT if used else SOFT)
        number = f"<b>{short(ratio)}</b>" if used else short(ratio)
        lines.append(_line_of(f"{name} (used)" if used else name, number, [bar]))
    return _figure(lines, "Errors of other noises, relative to the least")


def power(total: Guarantee) -> str:
    """What the best test can do, between a blind guess and certainty."""
    size, left, top = 250.0, 58.0, 12.0
    if total.rho is None:
        curve = power_curve(total.epsilon, total.delta)
    else:
        curve = power_curve(rho=total.rho)
    points = [(left + size * a, top + size * (1 - p)) for a, p in zip(*curve, strict=True)]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    floor, end = top + size, left + size
    body = [
        f'<rect x="{left}" y="{top}" width="{size}" height="{size}" fill="{SOFT}"/>',
        f'<polygon points="{left},{floor} {path} {end},{floor}" fill="{COOL}" opacity="0.18"/>',
        f'<line x1="{left}" y1="{floor}" x2="{end}" y2="{top}" stroke="{MUTED}"/>',
        f'<polyline points="{path}" fill="none" stroke="{COOL}" stroke-width="2.5"/>',
        _text(left + size * 0.66, top + size * 0.56, "blind guess", "start"),
        _text(left + size / 2, floor + 36, "false alarms", "middle", INK),
        f'<text transform="translate(16 {top + size / 2:.0f}) rotate(-90)" text-anchor="middle" '
        f'fill="{INK}">cases noticed, at most</text>',
    ]
    for tick in (0.0, 0.5, 1.0):
        body.append(_text(left + size * tick, floor + 18, f"{tick:g}", "middle"))
        body.append(_text(left - 8, top + size * (1 - tick) + 4, f"{tick:g}", "end"))
    about = "The power of the best test against the false alarms"
    return (
        f'<svg class="tdp-power" width="320" height="{floor + 44:.0f}" role="img" '
        f'aria-label="{about}" xmlns="http://www.w3.org/2000/svg" font-family="inherit" '
        f'font-size="13">{"".join(body)}</svg>'
    )


def _text(x: float, y: float, text: str, anchor: str, fill: str = MUTED) -> str:
    return f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}">{text}</text>'
