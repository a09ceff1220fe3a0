"""Pictures of audits: what the events show, beside what was claimed."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

from tightdp.audit.audit_report import KINDS, AuditReport
from tightdp.errors import DimensionError, fail
from tightdp.plots.canvas import INK, NAMED, axes_for, legend_below, write_value
from tightdp.privacy import text_down, text_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_LONGEST = 44


def plot_audit(report: AuditReport, ax: Axes | None = None) -> Axes:
    """The events of an audit as bars: the epsilon each shows, and the claim as a line.

    Circles are the estimates without a margin; where the other input never gave the event, there is
    no finite one and an arrow stands at the end. The title is the verdict.

    Examples
    --------
    >>> from tightdp.audit import audit_pmf
    >>> plot_audit(audit_pmf([3, 1], [1, 3], epsilon=1.0)).get_title()
    'violated: epsilon = 1 claimed, at least 1.098 shown'
    """
    if not report.findings:
        fail("`report` must hold findings to be drawn.", DimensionError)
    shown = [found.epsilon_lower for found in report.findings]
    seen = [found.epsilon_seen for found in report.findings]
    top = 1.25 * max([report.epsilon, *(v for v in [*shown, *seen] if math.isfinite(v))])
    ax = axes_for(ax, (8.4, 1.9 + 0.5 * len(shown)))
    red, blue = NAMED["hull"][0], NAMED["l1"][0]
    for i, (bar, dot) in enumerate(zip(shown, seen, strict=True)):
        colour = red if report.violated and bar >= report.epsilon else blue
        ax.barh(i, min(bar, top), 0.6, color=colour, alpha=0.75, label="_" if i else "shown")
        ax.plot(
            min(dot, 0.985 * top), i, ">" if math.isinf(dot) else "o", color="white", mec=INK, ms=7
        )
        write_value(ax, min(max(bar, dot), top) + 0.012 * top, i, text_down(bar, 3), bold=i == 0)
    ax.plot([], [], "o", color="white", mec=INK, label="estimate")
    ax.axvline(report.epsilon, color=INK, linestyle="--", linewidth=1.6, label="claimed")
    ax.set_xlim(0.0, 1.12 * top)
    ax.set_yticks(range(len(shown)), [_label(found.event) for found in report.findings])
    ax.set_ylim(len(shown) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    given = [f"at delta = {text_up(report.delta)}"] if report.delta else []
    given += [f"confidence {text_down(report.confidence)}"] if report.confidence < 1 else []
    ax.set_xlabel(" ".join(["epsilon", *(f"({text})" for text in given)]))
    ax.set_ylabel(f"event\n({report.checked:,} {KINDS[report.kind]})")
    least = text_down(report.epsilon_lower, 4)
    claim = f"epsilon = {text_up(report.epsilon)} claimed, at least {least} shown"
    ax.set_title(f"{report.verdict}: {claim}", pad=12)
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(ax, 3)
    return ax


def _label(event: str) -> str:
    """An event in two lines at most."""
    if len(event) <= _LONGEST:
        return event
    cut = event.rfind(" ", 0, _LONGEST)
    cut = cut if cut > 0 else _LONGEST
    rest = event[cut:].strip()
    return f"{event[:cut]}\n{rest if len(rest) <= _LONGEST else rest[: _LONGEST - 3] + '...'}"
