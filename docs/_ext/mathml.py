"""Formulas as MathML, which browsers draw by themselves: no script, nothing from outside."""

from __future__ import annotations

from typing import Any

from docutils import nodes
from latex2mathml.converter import convert
from sphinx.application import Sphinx
from sphinx.util import logging
from sphinx.util.math import get_node_equation_number
from sphinx.writers.html5 import HTML5Translator

logger = logging.getLogger(__name__)

# The converter makes these relations identifiers, without the space around a relation.
RELATIONS = {"<mi>&#x0007E;</mi>": "<mo>&#x0223C;</mo>", "<mi>:</mi>": "<mo>:</mo>"}


def mathml(node: nodes.Element, display: str) -> str:
    """The formula of a node; what the converter does not know is a warning, hence an error."""
    latex = node.astext()
    markup = convert(latex, display=display)
    if "\\" in markup or "<mi>&</mi>" in markup:
        logger.warning("formula not understood: %s", latex, location=node)
    for plain, relation in RELATIONS.items():
        markup = markup.replace(plain, relation)
    return markup


def visit_inline(translator: HTML5Translator, node: nodes.math) -> None:
    translator.body.append(mathml(node, "inline"))
    raise nodes.SkipNode


def visit_block(translator: HTML5Translator, node: nodes.math_block) -> None:
    translator.body.append(translator.starttag(node, "div", CLASS="math"))
    if node.get("number"):
        number = get_node_equation_number(translator, node)
        translator.body.append(f'<span class="eqno">({number})</span>')
    translator.body.append(mathml(node, "block") + "</div>\n")
    raise nodes.SkipNode


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_html_math_renderer("mathml", (visit_inline, None), (visit_block, None))
    return {"parallel_read_safe": True, "parallel_write_safe": True}
