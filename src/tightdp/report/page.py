"""A report as one HTML file: styles and pictures inside, no script, nothing loaded from outside."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tightdp.plots.canvas import ACCENT, COOL
from tightdp.printed import escaped, html_facts, html_table
from tightdp.privacy import text_up
from tightdp.report import checklist, pictures, words
from tightdp.report.sections import Section

if TYPE_CHECKING:
    from tightdp.report.report import Report

_LONG = 15

STYLE = (
    f""":root{{--accent:{ACCENT};--cool:{COOL}}}"""
    + """
:root{--paper:#fff;--ground:#f5f7f9;--ink:#1f2933;--muted:#66727f;--soft:#e4e9ee;--line:#dde3e8}
@media (prefers-color-scheme:dark){:root{--paper:#1b2129;--ground:#12161b;--ink:#e8edf2;
--muted:#9aa7b4;--soft:#323c47;--line:#323c47;--accent:#ff8a3c;--cool:#5db5ee}}
*{box-sizing:border-box}
body{margin:0;background:var(--ground);color:var(--ink);
font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,sans-serif}
main{max-width:880px;margin:0 auto;padding:40px 20px 64px}
header h1{font-size:32px;line-height:1.2;margin:0 0 6px;letter-spacing:-.01em}
header p{margin:0;color:var(--muted)}
.cards{display:grid;grid-template-columns:repeat(auto-fit,minmax(180px,1fr));gap:12px;
margin:24px 0 28px}
.card,.sheet{background:var(--paper);border:1px solid var(--line);border-radius:12px}
.card{padding:14px 18px}
.card b{display:block;font-size:22px;line-height:1.3;font-variant-numeric:tabular-nums}
.card span{color:var(--muted);font-size:13.5px}
.sheet{padding:24px 28px;margin:0 0 20px}
h2{font-size:21px;margin:0 0 4px;letter-spacing:-.005em}
h3{font-size:15px;margin:22px 0 6px}
.about{color:var(--muted);margin:0 0 16px}
.badge{float:right;background:var(--soft);border-radius:999px;padding:3px 12px;font-size:13px;
font-variant-numeric:tabular-nums}
.warn{background:#b00020;color:#fff;border-radius:12px;padding:12px 18px;margin:0 0 20px}
svg{display:block;width:100%;height:auto;margin:8px 0}
svg text{font-variant-numeric:tabular-nums}
table{border-collapse:collapse;width:100%;font-size:14.5px;font-variant-numeric:tabular-nums}
th{color:var(--muted);font-weight:600;text-align:right;border-bottom:2px solid var(--line)}
th,td{padding:6px 10px}
td{text-align:right;border-bottom:1px solid var(--line)}
th:first-child,td:first-child{text-align:left;padding-left:0}
table.left th,table.left td,.left th,.left td{text-align:left}
details{margin-top:12px}summary{cursor:pointer;color:var(--cool)}
.note{color:var(--muted);font-size:14px}
.formula{text-align:center;font-size:20px;margin:16px 0;padding:4px 0;overflow:auto hidden}
.two{display:grid;grid-template-columns:minmax(0,1fr) 300px;gap:28px;align-items:center}
@media (max-width:700px){.two{grid-template-columns:1fr}.badge{float:none;display:inline-block}}
code,pre{font-family:ui-monospace,SFMono-Regular,Menlo,Consolas,monospace;font-size:13px}
pre,blockquote{background:var(--ground);border-radius:8px;padding:12px 16px;margin:10px 0;
overflow-x:auto}
.receipt td:last-child{overflow-wrap:anywhere;font-size:11.5px;
font-family:ui-monospace,Menlo,Consolas,monospace}
footer{color:var(--muted);font-size:13px;text-align:center;margin-top:28px}
@media print{body{background:#fff}.sheet,.card{break-inside:avoid}}
"""
)


def page(report: Report) -> str:
    """The whole file."""
    body = "\n".join(
        [
            _header(report),
            *[_sheet(section) for section in report.sections],
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
        f"<h3>{escaped(section.name)}</h3>{pictures.draw(section)}{_table(section)}"
        for section in report.sections
    )
    sheets = "".join(f"<p><b>{h}</b> {r}</p>" for h, r in words.warnings(report.total)) + sheets
    return f'<div style="max-width:760px">{sheets}<p>{escaped(report.guarantee_words())}</p></div>'


def _header(report: Report) -> str:
    total = report.total
    cards = [
        (text_up(total.epsilon), f"epsilon of this report, per {total.unit}"),
        (str(len(report.sections)), "releases" if len(report.sections) != 1 else "release"),
        (str(total.neighbors), "neighbours"),
        (str(total.numerics), "numerics of the proof"),
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


def _sheet(section: Section) -> str:
    parts = [
        f'<section class="sheet"><span class="badge">{escaped(section.release.guarantee.amount)}'
        "</span>"
        f"<h2>{escaped(section.name)}</h2>",
        f'<p class="about">{escaped(section.about)}</p>' if section.about else "",
        pictures.draw(section),
        f'<p class="note">{escaped(section.note)}.</p>',
        _table(section),
        f"<h3>Why this noise</h3><p>{escaped(section.why)}</p>",
    ]
    if section.comparison is not None:
        parts += [
            pictures.comparison(section.comparison),
            '<p class="note">Standard errors of the noise at the same guarantee, relative to the '
            "least.</p>",
        ]
    law = escaped(section.release.noise)
    law = f"<details><summary>The exact law</summary><p>{law}</p></details>"
    return "".join([*parts, law, "</section>"])


def _table(section: Section) -> str:
    rows = section.answer.rows()
    table = html_table(rows)
    if len(rows) - 1 <= _LONG:
        return table
    return f"<details><summary>All {len(rows) - 1} values</summary>{table}</details>"


def _lost(report: Report) -> str:
    if not report.lost:
        return ""
    return (
        '<section class="sheet"><h2>Without an answer</h2><p class="about">Paid for and lost '
        f"before it was stored.</p>{html_facts(report.lost.items(), kind='left')}</section>"
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
        f'</p><div class="left">{report.schema._repr_html_()}</div></section>'
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
        f"{html_table(report.receipt_rows(), kind='left receipt')}"
        '<p class="note">A ledger that no longer holds these hashes was changed or put back: <code>'
        f"{escaped(report.check_command())}</code></p></section>"
    )


def _checklist(report: Report) -> str:
    return (
        '<section class="sheet"><h2>Checklist</h2><p class="about">What the guidelines for '
        f"evaluating such guarantees ask: after {escaped(checklist.SOURCE)}.</p>"
        f"<details><summary>All questions</summary>"
        f"{html_table(report.checklist_rows(), kind='left')}</details></section>"
    )


def _cite(report: Report) -> str:
    return (
        '<section class="sheet"><h2>How to cite</h2>'
        f"<blockquote>{escaped(report.citation())}</blockquote></section>"
    )
