"""One writer of tables: nothing from outside is mark-up, moves a cursor or breaks a line."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tightdp.estimators.coefficient_tables import CoefficientTable
from tightdp.printed import html_facts, html_notes, html_table, text_facts, text_table

SOURCE = Path(__file__).parents[1] / "src" / "tightdp"
HOSTILE = "<b>\x1b[31m\n\ud800&"
DRAWN = {
    "text table": lambda cell: "\n".join(text_table([("head", "x"), (cell, "1")])),
    "text heading": lambda cell: "\n".join(text_table([(cell, "x"), ("a", "1")])),
    "text facts": lambda cell: "\n".join(text_facts([(cell, cell)])),
    "cell": lambda cell: html_table([("head",), (cell,)]),
    "heading": lambda cell: html_table([(cell,), ("a",)]),
    "caption": lambda cell: html_table([("head",), ("a",)], caption=cell),
    "note": lambda cell: html_table([("head",), ("a",)], cell),
    "facts": lambda cell: html_facts([(cell, cell)]),
    "notes": lambda cell: html_notes(cell, bold=True),
}


@pytest.mark.parametrize("drawn", DRAWN)
def test_what_comes_from_outside_is_spelt_out(drawn):
    text = DRAWN[drawn](HOSTILE)
    text.encode()
    assert "\x1b" not in text
    if not drawn.startswith("text"):
        assert "<b>\\" not in text
        assert "&lt;b&gt;" in text
        assert "&amp;" in text
        assert text.isprintable()
    else:
        assert len(text.splitlines()) == len(DRAWN[drawn]("cell").splitlines())


def test_columns_end_flush_or_begin_flush():
    rows = [("a", "b", "c"), ("long", "1", "x"), ("l", "100", "xyz")]
    assert text_table(rows, left=(0, 2)) == [
        "a       b  c",
        "--------------",
        "long    1  x",
        "l     100  xyz",
    ]
    assert text_facts([]) == []
    with pytest.raises(ValueError, match="zip"):
        text_table([("a", "b"), ("c",)])


def test_html_has_its_caption_its_class_and_its_notes():
    page = html_table([("a",), ("b",)], "one", "", "two\nlines", caption="c", kind="left")
    assert page == (
        '<table class="left"><caption>c</caption><tr><th scope="col">a</th></tr>'
        '<tr><th scope="row">b</th></tr></table>'
        "<p>one</p><p>two lines</p>"
    )


def test_summaries_of_estimators_are_spelt_out():
    table = CoefficientTable(HOSTILE, ("", "coef"), ((HOSTILE, "1"),), (HOSTILE,))
    page = table._repr_html_()
    assert page.isprintable()
    assert page.count("&lt;b&gt;") == 3
    assert "<b>" not in page


def test_no_other_module_draws_a_table():
    """Neither cells of HTML, nor columns of text made even by hand."""
    drawing = re.compile(r"<(?:tr|th|td)\b|\.[lr]just\(")
    loud = {
        str(path.relative_to(SOURCE))
        for path in SOURCE.rglob("*.py")
        if drawing.search(path.read_text())
    }
    assert loud == {"printed.py"}
