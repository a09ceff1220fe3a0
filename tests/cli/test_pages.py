"""The pages on the command line and on plans: files and commands in them do what they say."""

from __future__ import annotations

import doctest
import re
import shlex
from pathlib import Path

import pytest

from tightdp.cli import main
from tightdp.cli.output import MEANINGS
from tightdp.plans import KINDS

DOCS = Path(__file__).parents[2] / "docs"
FENCE = re.compile(r"^```(\w+)\n(.*?)^```$", re.M | re.S)


def said(capsys, command: str) -> str:
    """What a command prints, with its exit code where that is not 0."""
    words = shlex.split(command)
    assert words[0] == "tightdp"
    code = main(words[1:])
    out, err = capsys.readouterr()
    return out + (f"{err}exit {int(code)}\n" if code else "")


def run_console(text: str, capsys) -> None:
    for part in re.split(r"^\$ ", text, flags=re.M)[1:]:
        command, _, wanted = part.partition("\n")
        got = said(capsys, command)
        flags = doctest.ELLIPSIS | doctest.NORMALIZE_WHITESPACE
        assert doctest.OutputChecker().check_output(wanted, got, flags), f"{command}\n{got}"


def test_the_page_on_the_command_line(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    ran = 0
    for language, text in FENCE.findall((DOCS / "cli.md").read_text()):
        if language == "python" and not text.startswith(">>>"):
            exec(text, {})
        elif language == "toml":
            (tmp_path / text.splitlines()[0].removeprefix("# ")).write_text(text)
        elif language == "console":
            run_console(text, capsys)
            ran += text.count("$ ")
    assert ran >= 10


def test_a_planted_fault_is_caught(tmp_path, monkeypatch, capsys):
    monkeypatch.chdir(tmp_path)
    with pytest.raises(AssertionError):
        run_console("$ tightdp kinds median\nsomething else\n", capsys)
    with pytest.raises(AssertionError):
        run_console("$ tightdp preview none.toml\n", capsys)


def test_exit_codes_are_those_of_the_page():
    page = (DOCS / "cli.md").read_text()
    for code, meaning in MEANINGS.items():
        assert f"| {int(code)} | {meaning} |" in page


def test_every_kind_is_on_the_page():
    page = (DOCS / "plans.md").read_text()
    for name, kind in KINDS.items():
        assert f"| `{name}` | {kind.about} |" in page
