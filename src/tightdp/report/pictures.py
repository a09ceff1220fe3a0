"""Pictures of a report as inline SVG: no library, no script, nothing to load.

Colours are the variables of the page, with fallbacks for a picture that stands alone.
"""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np

from tightdp.compare import Comparison
from tightdp.meaning import power_curve
from tightdp.plots import canvas
from tightdp.plots.canvas import shortened
from tightdp.printed import axis_mark, escaped
from tightdp.privacy import Guarantee
from tightdp.report.sections import Section

_WIDTH = 760
_LEFT, _RIGHT = 190, 560
_FARTHEST_LEFT = 340  # where long names push the axis
_LETTER = 8.6  # the width of a bold letter, on the safe side
_MOST_ROWS = 30
ACCENT, COOL = f"var(--accent, {canvas.ACCENT})", f"var(--cool, {canvas.COOL})"
SOFT, INK, MUTED = "var(--soft, #e8edf2)", "var(--ink, #1f2933)", "var(--muted, #66727f)"


def draw(section: Section) -> str:
    """The picture of a release: bars for counts, rows for values with units of their own."""
    if not section.answer.names:  # no key was safe to show
        said = "Nothing appears: no key has enough rows."
        return _svg(40, [_text(_LEFT, 24, said, fill=MUTED)], f"Values of {section.name}")
    if section.layout == "bars":
        few = len(section.answer.names) <= _MOST_ROWS
        return _bars(section) if few else _columns(section)
    return _rows(section)


def _svg(height: float, body: Sequence[str], about: str, width: int = _WIDTH) -> str:
    said = escaped(about)
    return (
        f'<svg viewBox="0 0 {width} {height:.0f}" role="img" aria-label="{said}" '
        f'xmlns="http://www.w3.org/2000/svg" font-family="inherit" font-size="13">'
        f"{''.join(body)}</svg>"
    )


def _text(
    x: float, y: float, text: str, anchor: str = "start", fill: str = INK, **more: str
) -> str:
    extra = "".join(f' {key.replace("_", "-")}="{value}"' for key, value in more.items())
    return (
        f'<text x="{x:.1f}" y="{y:.1f}" text-anchor="{anchor}" fill="{fill}"{extra}>'
        f"{escaped(text)}</text>"
    )


def _line(x1: float, y1: float, x2: float, y2: float, stroke: str, width: float = 1.0) -> str:
    return (
        f'<line x1="{x1:.1f}" y1="{y1:.1f}" x2="{x2:.1f}" y2="{y2:.1f}" stroke="{stroke}" '
        f'stroke-width="{width}" stroke-linecap="round"/>'
    )


def _box(x: float, y: float, width: float, height: float, fill: str, radius: float = 3) -> str:
    return (
        f'<rect x="{x:.1f}" y="{y:.1f}" width="{max(width, 0):.1f}" height="{max(height, 0):.1f}" '
        f'rx="{radius}" fill="{fill}"/>'
    )


def _margin(names: Sequence[str]) -> float:
    """Where the axis starts, so that names to its left are whole as far as there is room."""
    return min(max(_LEFT, 16 + _LETTER * max(map(len, names))), _FARTHEST_LEFT)


def _fitting(name: str, left: float) -> str:
    return shortened(name, math.floor((left - 16) / _LETTER + 1e-6))


# --- values --------------------------------------------------------------------------------------


def _rows(section: Section) -> str:
    """A track for every entry, with its own axis: the interval, and the value as a dot."""
    answer, step = section.answer, 46
    body: list[str] = []
    shown = list(range(len(answer.names)))[:_MOST_ROWS]
    left = _margin([answer.names[i] for i in shown])
    for place, i in enumerate(shown):
        y = 24 + step * place
        bounds = None if answer.names[i] in answer.unknown else answer.interval[i]
        body += _track(y, left, answer.names[i], float(answer.value[i]), bounds, section.ranges[i])
        body += _beside(y, *answer.cells(i))
    height = 24 + step * len(shown)
    if len(shown) < len(answer.names):
        body.append(_text(left, height, f"and {len(answer.names) - len(shown)} more", fill=MUTED))
        height += 20
    return _svg(height, body, f"Values and intervals of {section.name}")


def _track(
    y: float,
    left: float,
    name: str,
    value: float,
    bounds: Sequence[float] | None,
    span: Sequence[float],
) -> list[str]:
    first, last = float(span[0]), float(span[1])

    def at(x: float) -> float:
        share = (min(max(x, first), last) - first) / (last - first)
        return left + (_RIGHT - left) * share

    body = [
        _text(left - 14, y + 4, _fitting(name, left), "end", font_weight="600"),
        _line(left, y, _RIGHT, y, SOFT, 6),
        _text(left, y + 20, axis_mark(first), "start", MUTED, font_size="10.5"),
        _text(_RIGHT, y + 20, axis_mark(last), "end", MUTED, font_size="10.5"),
    ]
    if first < 0 < last:
        body += [
            _line(at(0), y - 9, at(0), y + 9, MUTED, 1),
            _text(at(0), y + 20, "0", "middle", MUTED, font_size="10.5"),
        ]
    if bounds is not None:
        low, high = float(bounds[0]), float(bounds[1])
        wide = max(at(high) - at(low), 5.0)
        body.append(_box((at(low) + at(high)) / 2 - wide / 2, y - 6, wide, 12, COOL, 4))
    dot = f'r="4.5" fill="{ACCENT}" stroke="var(--paper, #fff)" stroke-width="1.5"'
    return [*body, f'<circle cx="{at(value):.1f}" cy="{y:.1f}" {dot}/>']


def _beside(y: float, value: str, interval: str) -> list[str]:
    """What a track shows, in figures; long ones are set smaller, so that they are whole."""
    size = min(11.5, (_WIDTH - _RIGHT - 16) / (0.6 * len(interval)))
    said = _text(_RIGHT + 16, y + 16, interval, fill=MUTED, font_size=f"{size:.1f}")
    return [_text(_RIGHT + 16, y + 1, value, font_weight="600"), *([said] * (interval != "-"))]


# --- counts --------------------------------------------------------------------------------------


def _scale(values: np.ndarray) -> tuple[float, list[float]]:
    """A round largest value, and the ticks up to it."""
    top = max(float(np.max(values)), 1e-12)
    unit = 10.0 ** math.floor(math.log10(top))
    step = next(s * unit for s in (0.25, 0.5, 1.0, 2.0) if top / (s * unit) <= 5.0001)
    count = math.ceil(top / step - 1e-9)
    return step * count, [step * i for i in range(count + 1)]


def _bars(section: Section) -> str:
    answer, step = section.answer, 30
    shown = np.nan_to_num(answer.value)  # a count that is not printed has no bar
    known = [name not in answer.unknown for name in answer.names] & ~np.isnan(answer.value)
    low, high = np.where(known, np.asarray(answer.interval).T, shown)
    top, ticks = _scale(np.maximum(high, shown))
    left, right = _margin(answer.names), _RIGHT + 60
    per = (right - left) / top
    bottom = 10 + step * len(answer.names)
    body = []
    for tick in ticks:
        x = left + per * tick
        body += [
            _line(x, 6, x, bottom, SOFT, 1),
            _text(x, bottom + 16, axis_mark(tick), "middle", MUTED, font_size="11"),
        ]
    for i, name in enumerate(answer.names):
        y = 10 + step * i + step / 2
        value, a, b = (max(float(v), 0.0) for v in (shown[i], low[i], high[i]))
        body += [
            _text(left - 12, y + 4, _fitting(name, left), "end"),
            _box(left, y - 9, per * value, 18, COOL),
            *(_whisker(left + per * a, left + per * b, y) if known[i] else []),
            _text(right + 14, y + 4, answer.cells(i)[0], font_weight="600"),
        ]
    return _svg(bottom + 26, body, f"Counts and intervals of {section.name}")


def _whisker(a: float, b: float, y: float) -> list[str]:
    ends = [_line(x, y - 4, x, y + 4, ACCENT, 2) for x in (a, b)]
    return [_line(a, y, b, y, ACCENT, 2), *ends]


def _columns(section: Section) -> str:
    """Many cells: thin columns, named at the ends."""
    answer = section.answer
    value = np.maximum(np.nan_to_num(np.asarray(answer.value, dtype=np.float64)), 0.0)
    top, ticks = _scale(value)
    left, right, bottom = 60, _WIDTH - 10, 220
    width = (right - left) / len(value)
    body = []
    for tick in ticks:
        y = bottom - 200 * tick / top
        body += [
            _line(left, y, right, y, SOFT, 1),
            _text(left - 8, y + 4, axis_mark(tick), "end", MUTED, font_size="11"),
        ]
    body += [
        _box(left + width * i, bottom - 200 * v / top, 0.86 * width, 200 * v / top, COOL, 1)
        for i, v in enumerate(value)
    ]
    body += [
        _text(left, bottom + 18, shortened(answer.names[0], 40), "start", MUTED, font_size="11"),
        _text(right, bottom + 18, shortened(answer.names[-1], 40), "end", MUTED, font_size="11"),
    ]
    return _svg(bottom + 28, body, f"Counts of {section.name}")


# --- noise and meaning ---------------------------------------------------------------------------


def comparison(found: Comparison) -> str:
    """The error of every noise, relative to the least."""
    names = list(found.previews)
    ratios = [found.relative(name) for name in names]
    top, step = max(ratios), 26
    body = []
    for i, (name, ratio) in enumerate(zip(names, ratios, strict=True)):
        y = 14 + step * i
        used = name == found.chosen
        body += [
            _text(_LEFT - 12, y + 4, f"{name} (used)" if used else name, "end",
                  font_weight="600" if used else "400"),
            _box(_LEFT, y - 8, (_RIGHT - _LEFT) * ratio / top, 16, ACCENT if used else SOFT),
            _text(_LEFT + (_RIGHT - _LEFT) * ratio / top + 8, y + 4, f"{ratio:.2f}",
                  font_weight="600" if used else "400"),
        ]  # fmt: skip
    return _svg(14 + step * len(names), body, "Errors of other noises, relative to the least")


def power(total: Guarantee) -> str:
    """What the best test can do, between a blind guess and certainty."""
    size, left, top = 250.0, 58.0, 12.0
    if total.rho is None:
        curve = power_curve(total.epsilon, total.delta)
    else:
        curve = power_curve(rho=total.rho)
    corners = zip(*curve, strict=True)
    points = [(left + size * a, top + size * (1 - p)) for a, p in corners]
    path = " ".join(f"{x:.1f},{y:.1f}" for x, y in points)
    floor = top + size
    body = [
        _box(left, top, size, size, SOFT, 0),
        f'<polygon points="{left:.1f},{floor:.1f} {path} {left + size:.1f},{floor:.1f}" '
        f'fill="{COOL}" opacity="0.18"/>',
        _line(left, floor, left + size, top, MUTED, 1),
        f'<polyline points="{path}" fill="none" stroke="{COOL}" stroke-width="2.5"/>',
        _text(left + size * 0.66, top + size * 0.56, "blind guess", "start", MUTED, font_size="11"),
    ]
    for tick in (0.0, 0.5, 1.0):
        body += [
            _text(left + size * tick, floor + 16, f"{tick:g}", "middle", MUTED, font_size="11"),
            _text(left - 8, top + size * (1 - tick) + 4, f"{tick:g}", "end", MUTED, font_size="11"),
        ]
    body += [
        _text(left + size / 2, floor + 34, "false alarms", "middle"),
        f'<text transform="translate(18 {top + size / 2:.0f}) rotate(-90)" text-anchor="middle" '
        f'fill="{INK}">cases noticed, at most</text>',
    ]
    return _svg(floor + 42, body, "The power of the best test against the false alarms", 330)
