"""The directive ``public-names TASK``: the names in ``tightdp.__all__`` that are for a task.

The pages grow with the package by themselves: a name that is exported is documented.
"""

from __future__ import annotations

import inspect
import re
from pathlib import Path
from typing import Any

from docutils import nodes
from sphinx.application import Sphinx
from sphinx.util.docutils import SphinxDirective

import tightdp

ALIAS = re.compile(r"TypeAliasForwardRef\('(\w+)'\)")


def exported() -> dict[str, list[str]]:
    """Public names by task, as the comments in ``__all__`` group them."""
    source = Path(tightdp.__file__).read_text().partition("__all__ = [")[2]
    tasks: dict[str, list[str]] = {}
    for line in source.splitlines():
        if found := re.match(r"    # (.+)$", line):
            tasks[found[1]] = names = []
        elif found := re.match(r'    "([A-Za-z]\w*)",$', line):
            names.append(found[1])
    return tasks


def entry(name: str) -> str:
    """The autodoc directive of one name."""
    thing = getattr(tightdp, name)
    if inspect.isclass(thing):
        options = ["members", "undoc-members"] if issubclass(thing, tuple) else ["members"]
        if not issubclass(thing, Exception):
            options.append("show-inheritance")
        lines = [f".. autoclass:: tightdp.{name}", *(f"   :{option}:" for option in options)]
    elif inspect.isroutine(thing):
        lines = [f".. autofunction:: tightdp.{name}"]
    else:
        lines = [f".. autodata:: tightdp.{name}"]
    return "\n".join(lines)


def page(task: str) -> str:
    """The public names of a task, as MyST: what they are called, then each of them."""
    names = exported()[task]
    links = ", ".join(f"[{name}](#tightdp.{name})" for name in names)
    body = "\n\n".join(entry(name) for name in names)
    return f"{links}\n\n```{{eval-rst}}\n{body}\n```\n"


class PublicNames(SphinxDirective):
    """Expands to the documentation of the public names of a task."""

    required_arguments = 1
    final_argument_whitespace = True

    def run(self) -> list[nodes.Node]:
        return self.parse_text_to_nodes(page(self.arguments[0]), allow_section_headings=True)


def keep_colons(app: Sphinx, what: str, *context: Any) -> None:
    """An empty comment stops napoleon from reading ``word: text`` of a property as its type."""
    if what in ("attribute", "data", "property"):
        context[-1][:0] = ["..", ""]


def plain_aliases(app: Sphinx, what: str, *context: Any) -> tuple[str | None, ...]:
    """Type aliases in unions by their name, as everywhere else."""
    return tuple(text and ALIAS.sub(r"\1", text) for text in context[-2:])


def setup(app: Sphinx) -> dict[str, Any]:
    app.add_directive("public-names", PublicNames)
    app.connect("autodoc-process-docstring", keep_colons, priority=400)
    app.connect("autodoc-process-signature", plain_aliases)
    return {"parallel_read_safe": True, "parallel_write_safe": True}
