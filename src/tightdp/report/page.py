"""A report as one HTML file: styles and pictures inside, no script, nothing loaded from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tightdp.answer import Answer
from tightdp.printed import escaped, html_facts, html_table, in_brackets, whole
from tightdp.privacy import text_up
from tightdp.report import checklist, pictures, words
from tightdp.report.look import COLOURS, PARTS, STYLE
from tightdp.report.sections import Section
from tightdp.schema import Schema

if TYPE_CHECKING:
    from tightdp.report.report import Report

_LONG = 15


def page(report: Report) -> str:
    """The whole file."""
    body = "\n".join(
        [
            _header(report),
            *[sheet(section) for section in report.sections],
            _lost(report),
            _guarantee(report),
            _meaning(report),
            _public(report),
            _receipt(report),
            _checklist(report),
            _cite(report),
        ]
    )
    return (
        '<!doctype html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        f"<title>{escaped(report.title)}</title><style>{STYLE}</style></head>"
        f"<body><main>{body}"
        f"<footer>Made with tightdp {escaped(report.version)}. This file is complete: it loads "
        "nothing.</footer></main></body></html>\n"
    )


def fragment(report: Report) -> str:
    """The releases alone, for a notebook."""
    sheets = "".join(
        f"<h3>{escaped(part.name)}</h3>{picture(part)}{tables(part.answer, part.schema)}"
        for part in report.sections
    )
    sheets = "".join(f"<p><b>{h}</b> {r}</p>" for h, r in words.warnings(report.total)) + sheets
    said = escaped(report.guarantee_words())
    return f'<style>{COLOURS}{PARTS}</style><div class="tightdp">{sheets}<p>{said}</p></div>'


# --- parts, for all that shows answers ------------------------------------------------------------


def picture(section: Section) -> str:
    """The pictures of a release; they need the styles ``look.PARTS``."""
    return pictures.draw(section.answer, section.schema, bars=section.bars)


def tables(answer: Answer, schema: Schema | None = None) -> str:
    """The tables of an answer, with units; long ones are folded."""
    found = []
    for name, rows in answer.tables():
        crossed = len(rows[0]) > 2 and not rows[0][-1].endswith(")") and "%" not in rows[0][-1]
        said = in_brackets(answer.confidence, answer.covers)
        inside = crossed and any("[" in cell for row in rows[1:] for cell in row[1:])
        caption = ": ".join(part for part in (name, said if inside else "") if part)
        table = scroll(html_table(_with_units(rows, schema), caption=caption))
        if len(rows) - 1 > _LONG:
            many = f"All {whole(len(rows) - 1)} rows"
            table = f"<details><summary>{many}</summary>{table}</details>"
        found.append(table)
    return "".join(found)


def _with_units(rows: list[tuple[str, ...]], schema: Schema | None) -> list[tuple[str, ...]]:
    head, *body = rows
    named = tuple(pictures.with_unit(cell, schema) for cell in head)
    if head[0] == "entry":
        body = [(pictures.with_unit(row[0], schema), *row[1:]) for row in body]
    return [named, *body]


def scroll(table: str, kind: str = "") -> str:
    """A table that scrolls by itself where it is wider than its place."""
    return f'<div class="tdp-scroll{kind}" tabindex="0">{table}</div>'


def experts(section: Section) -> str:
    """Why this noise, how others compare, and its exact law: folded away."""
    compared = ""
    if section.comparison is not None:
        compared = (
            f"{pictures.comparison(section.comparison)}"
            '<p class="note">Standard errors of the noise at the same guarantee, relative to the '
            "least.</p>"
        )
    law = escaped(section.release.noise)
    return (
        f"<details><summary>For experts</summary><h3>Why this noise</h3>"
        f"<p>{escaped(section.why)}</p>{compared}"
        f"<h3>The exact law of the noise</h3><p>{law}</p></details>"
    )


# --- the page -------------------------------------------------------------------------------------


def _header(report: Report) -> str:
    total = report.total
    cards = [
        (text_up(total.epsilon), f"epsilon of this report, per {total.unit}"),
        (str(len(report.sections)), "releases" if len(report.sections) != 1 else "release"),
        (total.unit, "is what is protected"),
        (str(total.numerics), "is how the proof covers the program"),
    ]
    if total.delta:
        cards.insert(1, (text_up(total.delta), "delta of this report"))
    shown = "".join(
        f'<div class="card"><b>{escaped(value)}</b><span>{escaped(label)}</span></div>'
        for value, label in cards
    )
    warning = "".join(
        f'<div class="warn"><b>{escaped(head)}</b> {escaped(reason)}</div>'
        for head, reason in words.warnings(total)
    )
    return (
        f"<header><h1>{escaped(report.title)}</h1><p>Statistics under differential privacy: what "
        f'was released, how sure it is, and what it reveals</p></header><div class="cards">{shown}'
        f"</div>{warning}"
    )


def sheet(section: Section) -> str:
    """One release: its picture, its table, and for experts its noise."""
    about = section.about[:1].upper() + section.about[1:]
    return "".join(
        [
            '<section class="sheet"><span class="badge">'
            f"{escaped(section.release.guarantee.amount)}</span><h2>{escaped(section.name)}</h2>",
            f'<p class="about">{escaped(about)}</p>' if about else "",
            picture(section),
            tables(section.answer, section.schema),
            f'<p class="note">{escaped(section.note)}.</p>',
            f'<p class="note">{escaped(section.clamping)}</p>' if section.clamping else "",
            experts(section),
            "</section>",
        ]
    )


def _lost(report: Report) -> str:
    if not report.lost:
        return ""
    return (
        '<section class="sheet"><h2>Without an answer</h2><p class="about">Paid for and lost '
        f"before it was stored.</p>{scroll(html_facts(report.lost.items()), ' tdp-left')}"
        "</section>"
    )


def _guarantee(report: Report) -> str:
    total = report.total
    slack = f"<mo>+</mo><mn>{text_up(total.delta)}</mn>" if total.delta else ""
    law = "<mi>P</mi><mo>(</mo><mi>M</mi><mo>(</mo>{}<mo>)</mo><mo>&#8712;</mo><mi>A</mi><mo>)</mo>"
    other = "<msup><mi>X</mi><mo>&#8242;</mo></msup>"
    formula = (
        f'<math display="block">{law.format("<mi>X</mi>")}<mo>&#8804;</mo>'
        f"<msup><mi>e</mi><mn>{text_up(total.epsilon)}</mn></msup>{law.format(other)}{slack}</math>"
    )
    return (
        '<section class="sheet"><h2>The guarantee</h2>'
        f"<p>{escaped(report.guarantee_words())}</p>"
        f'<div class="formula">{formula}</div>'
        f'<p class="note">for every set A of possible releases and all neighbouring tables X, '
        f"X&#8242;. {escaped(words.NUMERICS[total.numerics])}</p></section>"
    )


def _meaning(report: Report) -> str:
    total = report.total
    return (
        '<section class="sheet"><h2>What somebody can learn about you</h2><div class="two"><div>'
        f"<p>{escaped(report.meaning_words())}</p>"
        '<p class="note">The curve bounds every test: nobody can be above it, whatever they '
        f"compute.</p></div>{pictures.power(total)}</div></section>"
    )


def _public(report: Report) -> str:
    if report.schema is None:
        return ""
    return (
        '<section class="sheet"><h2>What was public</h2><p class="about">Stated in advance, never '
        "read off the table. Cells were moved into these bounds before anything was computed."
        f"</p>{scroll(report.schema._repr_html_(), ' tdp-left')}</section>"
    )


def _receipt(report: Report) -> str:
    if not report.payments:
        return (
            '<section class="sheet"><h2>Receipt</h2><p>No ledger was charged: nothing but care '
            "keeps this release from being repeated.</p></section>"
        )
    balance = f"<p>{escaped(report.balance)}</p>" if report.balance else ""
    return (
        '<section class="sheet"><h2>Receipt</h2><p class="about">Entries of ledger '
        f"{escaped(report.payments[0].ledger)}</p>{balance}"
        f"{scroll(html_table(report.receipt_rows(), kind='receipt'), ' tdp-left')}"
        '<p class="note">A ledger that no longer holds these hashes was changed or put back: <code>'
        f"{escaped(report.check_command())}</code></p></section>"
    )


def _checklist(report: Report) -> str:
    return (
        '<section class="sheet"><h2>Checklist</h2><p class="about">What the guidelines for '
        f"evaluating such guarantees ask: after {escaped(checklist.SOURCE)}.</p>"
        f"<details><summary>All questions</summary>"
        f"{scroll(html_table(report.checklist_rows()), ' tdp-left')}</details></section>"
    )


def _cite(report: Report) -> str:
    return (
        '<section class="sheet"><h2>How to cite</h2>'
        f"<blockquote>{escaped(report.citation())}</blockquote></section>"
    )
