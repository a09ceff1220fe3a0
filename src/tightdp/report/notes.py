"""A report as Markdown."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import TYPE_CHECKING

from tightdp.errors import visible
from tightdp.report import checklist, words
from tightdp.report.sections import Section

if TYPE_CHECKING:
    from tightdp.report.report import Report


def markdown(report: Report) -> str:
    """The whole report, without pictures."""
    parts = [f"# {_cell(report.title)}", ""]
    for headline, reason in words.warnings(report.total):
        parts += [f"**{headline}** {reason}", ""]
    for section in report.sections:
        parts += _section(section)
    if report.lost:
        parts += ["## Without an answer", ""]
        parts += [f"- **{_cell(name)}**: {_cell(why)}" for name, why in report.lost.items()] + [""]
    parts += ["## The guarantee", "", report.guarantee_words(), ""]
    parts += [f"    {words.formula(report.total)}", ""]
    parts += [words.NUMERICS[report.total.numerics], ""]
    parts += ["## What somebody can learn about you", "", report.meaning_words(), ""]
    if report.schema is not None:
        parts += ["## What was public", "", *_table(report.schema._lines())]
        parts += ["", _cell(report.schema._facts()), ""]
    parts += ["## Receipt", "", *_receipt(report), ""]
    parts += ["## Checklist", "", f"After {checklist.SOURCE}.", ""]
    parts += [*_table(report.checklist_rows()), ""]
    parts += _experts(report.sections)
    parts += ["## How to cite", "", f"> {report.citation()}", ""]
    return "\n".join(parts)


def _section(section: Section) -> list[str]:
    answer = section.answer
    about = [section.about[:1].upper() + section.about[1:] + ".", ""] if section.about else []
    tables: list[str] = []
    for name, rows in answer.tables():
        tables += [*([f"**{_cell(name)}**", ""] if name else []), *_table(rows), ""]
    clamping = [_cell(section.clamping), ""] if section.clamping else []
    return [
        f"## {_cell(section.name)}",
        "",
        *about,
        *tables,
        f"{_cell(section.note)}. {section.release.guarantee}.",
        "",
        *clamping,
    ]


def _experts(sections: Sequence[Section]) -> list[str]:
    """Why each noise, and its exact law, for all releases at the end."""
    lines = ["## For experts", ""]
    for section in sections:
        law = f"Law: {_cell(section.release.noise)}."
        lines += [f"**{_cell(section.name)}**. {_cell(section.why)}", "", law, ""]
    return lines


def _receipt(report: Report) -> list[str]:
    if not report.payments:
        return ["No ledger was charged."]
    lines = [f"Ledger {_cell(report.payments[0].ledger)}.", ""]
    if report.balance:
        lines += [_cell(report.balance), ""]
    return [*lines, *_table(report.receipt_rows()), "", f"    {report.check_command()}"]


def _table(rows: Sequence[Sequence[str]]) -> list[str]:
    head, *body = rows
    lines = ["| " + " | ".join(map(_cell, head)) + " |", "|" + "---|" * len(head)]
    return lines + ["| " + " | ".join(map(_cell, row)) + " |" for row in body]


_MARKS = re.compile(r"[\\`*_\[\]<>|~&!#@]|:(?=//)|(?<=www)\.", re.IGNORECASE)


def _cell(text: str) -> str:
    """A text that cannot break a table, nor smuggle in markup, a link or an escape.

    >>> print(_cell("[a](https://b) www.c | <d>"))
    \\[a\\](https\\://b) www\\.c \\| \\<d\\>
    """
    return " ".join(_MARKS.sub(r"\\\g<0>", visible(text)).split())
