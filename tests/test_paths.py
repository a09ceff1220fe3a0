"""Paths that people name: nothing waits, nothing is overwritten, no file is seen half-written."""

from __future__ import annotations

import os
import threading

import pytest

from tightdp.errors import ParameterError
from tightdp.ledger import Ledger
from tightdp.paths import check_file, check_path, check_target, read_file, write_whole


@pytest.fixture
def odd(tmp_path):
    """Paths that are no files, by what they are."""
    os.mkfifo(tmp_path / "pipe")
    (tmp_path / "loop").symlink_to(tmp_path / "loop")
    (tmp_path / "folder").mkdir()
    return {
        "a pipe": tmp_path / "pipe",
        "a device": "/dev/zero",
        "a loop of links": tmp_path / "loop",
        "a folder": tmp_path / "folder",
        "too long": "a" * 400,
        "too long a folder": "a/" * 5000,
        "NUL": "a\0b",
        "empty": "",
        "a number": 7,
        "bytes": b"a",
        "nothing": None,
        "half a pair": "\ud800",
        "not there": tmp_path / "none",
        "inside a file": "/etc/hostname/a",
    }


def test_what_is_no_file_is_refused_at_once(odd):
    for path in odd.values():
        for look in (check_file, read_file):
            with pytest.raises(ParameterError, match="`plan`"):
                look("plan", path)


def test_text_that_is_no_text_is_refused(tmp_path):
    (tmp_path / "bytes").write_bytes(b"\xff\xfe")
    with pytest.raises(ParameterError, match="not UTF-8"):
        read_file("plan", tmp_path / "bytes")


def test_what_cannot_be_written_is_refused(odd, tmp_path):
    for what in set(odd) - {"not there"}:
        with pytest.raises(ParameterError, match="`report`"):
            check_target("report", odd[what])
    assert write_whole("report", odd["not there"], "a").read_text() == "a"


# --- what must not be written over ----------------------------------------------------------------


@pytest.fixture
def ledger(tmp_path):
    """The file of an open ledger, with its log beside it."""
    with Ledger(1, path=tmp_path / "l.json") as made:
        made.spend(0.5)
        yield tmp_path / "l.json"
        made.verify()


@pytest.mark.parametrize("ending", ["", "-wal", "-shm", "-journal"])
@pytest.mark.parametrize("through", ["itself", "a link", "dots"])
def test_a_ledger_is_never_written_over(ledger, ending, through, tmp_path):
    target = ledger.with_name(ledger.name + ending)
    (tmp_path / "link").symlink_to(target)
    (tmp_path / "x").mkdir()
    names = {
        "itself": target,
        "a link": tmp_path / "link",
        "dots": tmp_path / "x" / ".." / target.name,
    }
    before = ledger.read_bytes()
    with pytest.raises(ParameterError, match=r"a database, such as a ledger"):
        write_whole("report", names[through], "{}")
    assert ledger.read_bytes() == before


@pytest.mark.parametrize("ending", ["", "-wal"])
def test_a_second_name_of_a_ledger_is_known(ledger, ending, tmp_path):
    (tmp_path / "hard").hardlink_to(ledger.with_name(ledger.name + ending))
    with pytest.raises(ParameterError, match="belongs to it"):
        check_target("report", tmp_path / "hard", keep=[ledger])
    (tmp_path / "hard").unlink()


def test_files_to_keep_are_known_by_any_name(tmp_path):
    (tmp_path / "data.json").write_text("1")
    (tmp_path / "link.json").symlink_to(tmp_path / "data.json")
    (tmp_path / "hard.json").hardlink_to(tmp_path / "data.json")
    (tmp_path / "parts").mkdir()
    keep = [tmp_path / "data.json", tmp_path / "not there yet.json", tmp_path / "parts"]
    for name in (
        "data.json",
        "link.json",
        "hard.json",
        "parts/../data.json",
        "not there yet.json",
        "not there yet.json-wal",
        "parts/more.parquet",
    ):
        with pytest.raises(ParameterError, match="name another file"):
            check_target("report", tmp_path / name, keep)
    assert check_target("report", tmp_path / "parts" / "report.html", keep)


# --- whole or not at all --------------------------------------------------------------------------


def test_readers_never_see_half_a_file(tmp_path):
    """Four writers, one reader: with one fixed name beside it, half the readings were broken."""
    place = tmp_path / "r.html"
    texts = {letter: letter * 2_000_000 for letter in "abcd"}
    write_whole("report", place, texts["a"])
    ended = threading.Event()

    def write(letter: str) -> None:
        for _ in range(12):
            write_whole("report", place, texts[letter])

    threads = [threading.Thread(target=write, args=(letter,)) for letter in texts]
    seen = []

    def read() -> None:
        while not ended.is_set():
            seen.append(place.read_text() in texts.values())

    reader = threading.Thread(target=read)
    reader.start()
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    ended.set()
    reader.join()
    assert len(seen) > 10
    assert all(seen)
    assert os.listdir(tmp_path) == ["r.html"]


def test_links_are_replaced_and_left_over_parts_are_not_followed(tmp_path):
    (tmp_path / "other").write_text("mine")
    (tmp_path / "r.html").symlink_to(tmp_path / "other")
    name = f".tightdp-{os.getpid()}-{threading.get_ident()}-0.part"
    (tmp_path / name).symlink_to(tmp_path / "other")
    (tmp_path / "r.html.part").symlink_to(tmp_path / "other")
    write_whole("report", tmp_path / "r.html", "new")
    assert (tmp_path / "other").read_text() == "mine"
    assert (tmp_path / "r.html").read_text() == "new"
    assert not (tmp_path / "r.html").is_symlink()


def test_a_failure_leaves_nothing_behind(tmp_path, monkeypatch):
    def full(handle: int) -> None:
        raise OSError(28, "No space left on device")

    (tmp_path / "r.md").write_text("old")
    monkeypatch.setattr(os, "fsync", full)
    with pytest.raises(ParameterError, match="no space left"):
        write_whole("report", tmp_path / "r.md", "new")
    assert os.listdir(tmp_path) == ["r.md"]
    assert (tmp_path / "r.md").read_text() == "old"


def test_the_rights_are_those_of_a_new_file(tmp_path):
    (tmp_path / "plain").write_text("")
    write_whole("report", tmp_path / "r.md", "é\ud800")
    assert (tmp_path / "r.md").stat().st_mode == (tmp_path / "plain").stat().st_mode
    assert (tmp_path / "r.md").read_text() == "é\\ud800"


def test_a_path_is_asked_about_once(tmp_path):
    assert check_path("plan", str(tmp_path / "none")) == tmp_path / "none"
