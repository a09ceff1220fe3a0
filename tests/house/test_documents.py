"""README and docs: every Python block runs, and setting up takes two commands."""

from __future__ import annotations

import doctest
import re
import warnings
from pathlib import Path
from typing import Any, NamedTuple

import matplotlib
import matplotlib.pyplot as plt
import pytest

ROOT = Path(__file__).parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").glob("*.md"))]
FENCE = re.compile(
    r"^(?P<fence>`{3,})(?P<language>[\w{}-]*)[^\n]*\n(?P<text>.*?)^(?P=fence)$", re.M | re.S
)
FLAGS = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE


class Block(NamedTuple):
    """A fenced block: its language, the line of its first row, its text."""

    language: str
    line: int
    text: str


def blocks(page: str) -> list[Block]:
    return [
        Block(found["language"], page.count("\n", 0, found.start("text")), found["text"])
        for found in FENCE.finditer(page)
    ]


def run_block(block: Block, namespace: dict[str, Any], where: str) -> None:
    """Run a block; one that starts with ``>>>`` must also print what it says."""
    if block.text.lstrip().startswith(">>>"):
        test = doctest.DocTestParser().get_doctest(block.text, namespace, where, where, block.line)
        try:
            doctest.DebugRunner(optionflags=FLAGS).run(test, clear_globs=False)
        except doctest.DocTestFailure as failure:
            example, line = failure.example, block.line + failure.example.lineno + 1
            raise AssertionError(
                f"{where}:{line}: {example.source}says {example.want}but prints {failure.got}"
            ) from None
        namespace.update(test.globs)
    else:
        exec(compile("\n" * block.line + block.text, where, "exec"), namespace)


# the pictures of the gallery are drawn by its blocks, once, for the site: see test_site.py
RUN_HERE = [page for page in PAGES if page.name != "gallery.md"]


@pytest.mark.parametrize("page", RUN_HERE, ids=lambda page: page.name)
def test_python_blocks_run(page, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    matplotlib.use("Agg")
    plt.close("all")  # what the pages before have drawn
    namespace: dict[str, Any] = {"__name__": "__main__"}
    with warnings.catch_warnings():
        warnings.simplefilter("error")
        for block in blocks(page.read_text()):
            if block.language in ("python", "pycon"):
                run_block(block, namespace, str(page))


@pytest.mark.parametrize(
    "text",
    [
        "```python\nassert False\n```\n",
        "```python\n>>> 1 + 1\n3\n```\n",
        "```pycon\n>>> 1/0\n```\n",
    ],
)
def test_a_planted_fault_is_caught(text):
    (block,) = blocks(text)
    with pytest.raises((AssertionError, doctest.UnexpectedException)):
        run_block(block, {}, "planted.md")


def test_blocks_share_one_namespace_and_keep_their_lines():
    first, second = blocks("Title\n\n```python\nx = 2\n```\n\n```python\n>>> x\n2\n```\n")
    namespace: dict[str, Any] = {}
    run_block(first, namespace, "page.md")
    run_block(second, namespace, "page.md")
    assert (first.line, second.line) == (3, 7)


def test_every_way_in_is_one_command():
    readme = (ROOT / "README.md").read_text()
    shell = [block.text for block in blocks(readme) if block.language in ("sh", "bash", "shell")]
    commands = [line.split("#")[0].strip() for text in shell for line in text.splitlines()]
    assert [command for command in commands if command] == ["make demo", "make web", "make test"]
