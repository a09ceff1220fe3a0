"""Where a ledger may live: one local file that nobody moves, links or half-writes.

Nothing here knows what a ledger says. A file appears under its name only when it is complete.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import NamedTuple

from tightdp.errors import LedgerError, fail
from tightdp.paths import check_path, said_by_system
from tightdp.randomness import SecureSource

# SQLite's write-ahead log needs memory shared by all processes and locks that work.
_NETWORK = re.compile(
    r"(nfs\d?|cifs|smb\w*|9p|afs|ncpfs?|ceph|glusterfs|lustre|gpfs|beegfs|davfs\d?|vboxsf|virtiofs"
    r"|fuse\.(?!(fuseblk|overlay\w*|fuse-overlayfs)$).+)"
)
_MOUNTS = Path("/proc/self/mountinfo")
_ROOM = 1 << 20  # bytes: a payment and its release, twice, in the log and in the file
_ROOM_OF_ENTRY = 512  # bytes of a name, a value, its variance and its interval, twice


class Identity(NamedTuple):
    """Device and inode of the file, of its log and of its shared memory."""

    ledger: tuple[int, int]
    log: tuple[int, int] | None
    shared: tuple[int, int] | None


def check_place(path: str | os.PathLike[str]) -> Path:
    """The real path of a ledger file in an existing folder on a local file system."""
    place = Path(os.path.realpath(_home(check_path("path", path))))
    check_path("path", place)
    if not place.parent.is_dir():
        fail(f"`path` must lie in an existing folder. Got {place}: make {place.parent} first.")
    if place.exists() and not place.is_file():
        fail(f"`path` must name a file. Got {place}, which is not one.")
    kind = file_system(place.parent)
    if kind is not None and _NETWORK.fullmatch(kind):
        fail(
            f"`path` must lie on a local file system. Got {place} on '{kind}', where locks between "
            "machines cannot be trusted: keep the ledger on a local disk.",
            LedgerError,
        )
    return place


def _home(place: Path) -> Path:
    try:
        return place.expanduser()
    except RuntimeError:
        fail(f"`path`: there is no home of {place.parts[0]!r}.")


def file_system(folder: Path, mounts: str | None = None) -> str | None:
    """The kind of file system that holds a folder, or None where that cannot be told.

    >>> file_system(Path("/data/a"), "1 0 0:1 / / rw - ext4 x rw\\n2 1 0:2 / /data rw - nfs4 y rw")
    'nfs4'
    """
    if mounts is None:
        try:
            mounts = _MOUNTS.read_text(encoding="utf-8", errors="replace")
        except OSError:
            return None
    best: tuple[int, str] | None = None
    for line in mounts.splitlines():
        left, _, right = line.partition(" - ")
        parts, kinds = left.split(" "), right.split(" ")
        if len(parts) < 5 or not kinds[0]:
            continue
        point = Path(re.sub(r"\\(\d{3})", lambda code: chr(int(code[1], 8)), parts[4]))
        depth = len(point.parts)
        if (point == folder or point in folder.parents) and (best is None or depth >= best[0]):
            best = (depth, kinds[0])
    return None if best is None else best[1]


def create(place: Path, fill: Callable[[Path], None]) -> None:
    """Make the file with ``fill`` under another name, then give it its own, unless it has one.

    Of several processes that do this at once, one wins; a failure leaves nothing behind.
    """
    for ending in ("-wal", "-journal"):
        left = place.with_name(place.name + ending)
        if left.exists() and not place.exists():  # it would be merged into the new file
            fail(
                f"The ledger {place} is gone, its log {left.name} is still there. Put the ledger "
                "back, or name another file: a new one would forget what was spent.",
                LedgerError,
            )
    token = SecureSource().words(2).tobytes().hex()
    draft = place.with_name(f".{place.name}.{token}.new")
    try:
        os.close(os.open(draft, os.O_CREAT | os.O_EXCL | os.O_RDWR, 0o600))
        fill(draft)
        os.link(draft, place)  # fails if the name is taken: a ledger is never overwritten
    except FileExistsError:
        pass
    except OSError as error:
        fail(f"The ledger {place} could not be made: {said_by_system(error)}.", LedgerError)
    finally:
        for ending in ("", "-wal", "-shm", "-journal"):
            draft.with_name(draft.name + ending).unlink(missing_ok=True)
    _sync_folder(place.parent)


def _sync_folder(folder: Path) -> None:
    if os.name != "posix":
        return
    handle = os.open(folder, os.O_RDONLY)
    try:
        os.fsync(handle)
    except OSError as error:
        fail(
            f"The folder {folder} could not be synchronised: {said_by_system(error)}.", LedgerError
        )
    finally:
        os.close(handle)


def check_writable(place: Path) -> None:
    """Refuse before SQLite leaves a log that nobody can write."""
    for what in (place, place.parent):
        if not os.access(what, os.W_OK):
            fail(
                f"The ledger {place} cannot be written: check the permissions of {what}. Nothing "
                "may be released.",
                LedgerError,
            )


def is_writable(place: Path) -> bool:
    """Whether the file and its folder can be written."""
    return os.access(place, os.W_OK) and os.access(place.parent, os.W_OK)


def has_log(place: Path) -> bool:
    """Whether there are entries beside the file, in a log that is not merged yet."""
    log = place.with_name(place.name + "-wal")
    return log.exists() and log.stat().st_size > 0


def has_room(place: Path, entries: int = 0) -> bool:
    """Whether the disk has room for a release of so many entries, or does not say."""
    disk = os.statvfs(place.parent) if hasattr(os, "statvfs") else None
    if disk is None or not disk.f_blocks:  # a file system that does not say how large it is
        return True
    return disk.f_bavail * disk.f_frsize >= _ROOM + entries * _ROOM_OF_ENTRY


def check_room(place: Path, entries: int = 0) -> None:
    """Refuse to pay where the release that is paid for might not fit on the disk."""
    if not has_room(place, entries):
        size = -(-(_ROOM + entries * _ROOM_OF_ENTRY) // _ROOM)
        fail(
            f"The disk of the ledger {place} is full but for less than {size} MiB: a release might "
            "not fit after its payment. Nothing was paid for it; make room.",
            LedgerError,
        )


def check_one_name(place: Path) -> None:
    """Refuse a file with a second name: each name would get a log of its own."""
    here = place.stat()
    if here.st_nlink < 2:
        return
    for draft in place.parent.glob(f".{place.name}.*.new"):  # left by a process that was killed
        try:
            if os.path.samestat(draft.stat(), here):
                draft.unlink()
        except FileNotFoundError:
            continue
    if place.stat().st_nlink > 1:
        fail(
            f"The ledger {place} has more than one name (hard links). Spends under different names "
            "would not see each other: keep one name.",
            LedgerError,
        )


def identify(place: Path) -> Identity:
    """Which files the ledger consists of now."""
    main = _inode(place)
    if main is None:
        fail(
            f"The ledger {place} is gone: it was moved or deleted while open. Put it back, then "
            "open it again; a new file would forget what was spent.",
            LedgerError,
        )
    names = (place.with_name(place.name + ending) for ending in ("-wal", "-shm"))
    log, shared = (_inode(name) for name in names)
    return Identity(main, log, shared)


def check_same(place: Path, known: Identity) -> None:
    """Refuse to go on when one of the files was deleted or replaced while open."""
    now = identify(place)
    for what, before, after in zip(("", "-wal", "-shm"), known, now, strict=True):
        if before is not None and before != after:
            fail(
                f"The file {place.name}{what} was deleted or replaced while the ledger was open. "
                "Close the ledger in every process, then open it again and verify it.",
                LedgerError,
            )


def _inode(path: Path) -> tuple[int, int] | None:
    try:
        facts = path.stat()
    except FileNotFoundError:
        return None
    return facts.st_dev, facts.st_ino
