"""Paths that people name: read only if they are files, written whole or not at all.

A path can be a folder, a pipe that never ends, a device, a loop of links, too long, or no path at
all. Each is one clear error here, before anything is opened; nothing waits and nothing is spent.
"""

from __future__ import annotations

import errno
import itertools
import os
import stat
import threading
from collections.abc import Iterable
from pathlib import Path
from typing import NoReturn

from tightdp.errors import fail, visible

_MOST_BYTES = 1 << 28
_DATABASE = b"SQLite format 3\0"
_BESIDE = ("-wal", "-shm", "-journal")  # what SQLite keeps beside a file


def check_path(name: str, path: object) -> Path:
    """A path that the system can be asked about; ``name`` is the argument.

    >>> check_path("plan", "a" * 400)
    Traceback (most recent call last):
    tightdp.errors.ParameterError: `plan`: 'aaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaaa...
    """
    if not isinstance(path, (str, os.PathLike)) or isinstance(os.fspath(path), bytes):
        fail(f"`{name}` must be a path. Got {type(path).__name__}.")
    text = os.fspath(path)
    if not text or "\0" in text:
        fail(f"`{name}` must be a path: a text without the character NUL, and not empty.")
    place = Path(text)
    try:
        os.stat(place)
    except (FileNotFoundError, NotADirectoryError, PermissionError):
        pass  # who reads or writes there says it better
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "it is no path"
        fail(f"`{name}`: {visible(text, 80)!r} cannot be used: {reason.lower()}.")
    return place


def check_file(name: str, path: object) -> Path:
    """The path of a file that is there: no folder, and nothing that could be read for ever."""
    place = check_path(name, path)
    try:
        mode = place.stat().st_mode
    except OSError as error:
        if isinstance(error, FileNotFoundError):
            fail(f"`{name}`: there is no file {str(place)!r}.")
        _refuse(name, place, "read", error)
    if not stat.S_ISREG(mode):
        what = "a folder" if stat.S_ISDIR(mode) else "a pipe, a socket or a device"
        fail(f"`{name}`: {str(place)!r} must be a file. It is {what}.")
    return place


def read_file(name: str, path: object) -> str:
    """The text of a file."""
    place = check_file(name, path)
    if place.stat().st_size > _MOST_BYTES:
        fail(f"`{name}`: {str(place)!r} must have at most {_MOST_BYTES} bytes.")
    try:
        return place.read_text(encoding="utf-8-sig")  # editors mark the start
    except OSError as error:
        _refuse(name, place, "read", error)
    except UnicodeDecodeError:
        fail(f"`{name}`: {str(place)!r} is not UTF-8 text.")


def check_target(name: str, path: object, keep: Iterable[Path] = ()) -> Path:
    """The path of a file that may be written: none of those to ``keep``, and no ledger.

    What is there already must be a plain file. A database of SQLite, which ledgers are, and the
    files that SQLite keeps beside one, are never written over, whatever name leads there.
    """
    place = check_path(name, path)
    if not place.parent.is_dir():
        fail(f"`{name}`: there is no folder {str(place.parent)!r}.")
    if not os.access(place.parent, os.W_OK | os.X_OK):
        fail(f"`{name}`: the folder {str(place.parent)!r} cannot be written.")
    if place.exists():
        check_file(name, place)
    for other in keep:
        kept = [other, *(Path(f"{other}{ending}") for ending in _BESIDE)]
        if any(_same(place, part) for part in kept) or _inside(place, other):
            fail(f"`{name}`: {str(place)!r} is {str(other)!r} or belongs to it: name another file.")
    if any(_is_database(part) for part in (place, *_owners(place))):
        fail(
            f"`{name}`: {str(place)!r} is a database, such as a ledger, or belongs to one, and is "
            "not written over: name another file."
        )
    return place


def write_whole(name: str, path: object, text: str) -> Path:
    """Write a file whole or not at all, under a name of its own until it is complete.

    Who reads the file meanwhile sees the one that was there. A link is replaced, never followed,
    and of several writers the last one wins.
    """
    place = check_target(name, path)
    try:
        part, handle = _fresh(place.parent)
    except OSError as error:
        _refuse(name, place, "written", error)
    try:
        with os.fdopen(handle, "w", encoding="utf-8", errors="backslashreplace") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, place)
    except OSError as error:
        _refuse(name, place, "written", error)
    finally:
        part.unlink(missing_ok=True)
    return place


def _refuse(name: str, place: Path, done: str, error: OSError) -> NoReturn:
    fail(f"`{name}`: {str(place)!r} cannot be {done}: {said_by_system(error).lower()}.")


def said_by_system(error: OSError) -> str:
    """Why the system refuses, with the remedy where the disk is full.

    >>> said_by_system(OSError(errno.ENOSPC, "No space left on device"))
    'No space left on device; the disk is full: make room'
    """
    reason = error.strerror or "the system does not say why"
    full = error.errno in (errno.ENOSPC, errno.EDQUOT)
    return f"{reason}; the disk is full: make room" if full else reason


def _fresh(folder: Path) -> tuple[Path, int]:
    """A new file in the folder, open for writing: never one that is there, nor a link."""
    for number in itertools.count():
        name = f".tightdp-{os.getpid()}-{threading.get_ident()}-{number}.part"
        try:
            flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | getattr(os, "O_NOFOLLOW", 0)
            return folder / name, os.open(folder / name, flags, 0o666)
        except FileExistsError:  # left by a process of that number which was killed
            continue
    raise AssertionError  # the numbers do not end


def _same(place: Path, other: Path) -> bool:
    """Whether two names lead to one file, or would if it were there."""
    try:
        return place.samefile(other)
    except OSError:
        return os.path.realpath(place) == os.path.realpath(other)


def _inside(place: Path, folder: Path) -> bool:
    """Whether a file lies in a folder of data, where the next reading would find it."""
    real = Path(os.path.realpath(place))
    found = real.suffix.lower() == ".parquet" and folder.is_dir()
    return found and Path(os.path.realpath(folder)) in real.parents


def _owners(place: Path) -> list[Path]:
    """The databases that a file belongs to by its name."""
    real = Path(os.path.realpath(place))
    names = {real.name.removesuffix(ending) for ending in _BESIDE} - {real.name, ""}
    return [real.with_name(name) for name in names]


def _is_database(place: Path) -> bool:
    try:
        if not place.is_file():
            return False
        with open(place, "rb") as file:
            return file.read(len(_DATABASE)) == _DATABASE
    except OSError:
        return False
