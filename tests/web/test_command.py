"""``tightdp web``: what it refuses before anything is served."""

from __future__ import annotations

import socket

import pytest

from tightdp.cli.main import main


@pytest.fixture(autouse=True)
def here(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TIGHTDP_PASSWORD", raising=False)


@pytest.mark.parametrize(
    ("words", "said"),
    [
        ("--host 0.0.0.0", "needs a password"),
        ("--host 0.0.0.0 --password-file short", "12 characters"),
        ("--host 0.0.0.0 --password-file none", "no file"),
        ("--port 99999999", "no such port"),
        ("--folder none", "no folder"),
        ("none/plan.toml", "no folder"),
        ("plan.py", ".toml"),
        ("folder.toml", "must be a file"),
    ],
)
def test_what_cannot_be_served_is_said(words, said, tmp_path, capsys):
    (tmp_path / "short").write_text("short\n")
    (tmp_path / "folder.toml").mkdir()
    assert main(["web", "--no-browser", *words.split()]) == 2
    assert said in capsys.readouterr().err


def test_a_port_that_is_taken_is_said(capsys):
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = str(taken.getsockname()[1])
        assert main(["web", "--no-browser", "--port", port]) == 2
    assert "in use" in capsys.readouterr().err
