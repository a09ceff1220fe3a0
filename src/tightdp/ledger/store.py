"""Entries on disk: written and synchronised before anything is released.

One SQLite table, in a file (write-ahead log, every commit synchronised to the disk) or in memory.
This module knows nothing of privacy: it appends, it reads, and it fails without a trace.
"""

from __future__ import annotations

import os
import sqlite3
import threading
import time as clock
import weakref
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, NoReturn

from tightdp.accounting.caps import UNITS
from tightdp.errors import LedgerError, fail
from tightdp.ledger import files
from tightdp.ledger.amounts import Budget, from_text, nothing, to_text
from tightdp.ledger.entries import (
    APPLICATION,
    FIELDS,
    NO_HASH,
    Entry,
    Head,
    canonical,
    columns,
    statements,
)

_CAUSES = {
    "SQLITE_BUSY": "another process keeps it locked; try again",
    "SQLITE_LOCKED": "another connection keeps it locked; try again",
    "SQLITE_FULL": "the disk is full; make room",
    "SQLITE_READONLY": "it cannot be written; check the permissions of the file and its folder",
    "SQLITE_CANTOPEN": "it cannot be opened; check the permissions of the file and its folder",
    "SQLITE_PERM": "access is denied; check the permissions of the file and its folder",
    "SQLITE_IOERR": "the disk does not read or write reliably; check it",
    "SQLITE_CORRUPT": "the file is damaged; restore it and verify it against the receipts",
    "SQLITE_NOTADB": "the file is not a ledger, or damaged; name another one",
    "SQLITE_CONSTRAINT": "an entry was refused",
}


def _checkpoint(name: str) -> None:
    """A named point of the protocol. It does nothing; fault tests put something in its place."""


WRITE = "BEGIN IMMEDIATE"
_NAP, _SHORTEST_NAP = 0.004, 0.0005  # seconds between two tries to get the lock
_COST = 7  # the column of costs, which is named by their unit
_COUNT = """SELECT 1 + (SELECT count(*) FROM entries WHERE kind = 'spend')
  + (SELECT count(*) FROM entries WHERE ends IS NOT NULL)
  + (SELECT count(*) FROM entries WHERE kind = 'partition')"""


class Store:
    """A connection to the entries, for the process that opened it and no other."""

    def __init__(
        self, connection: sqlite3.Connection, place: Path | None, *, read_only: bool = False
    ) -> None:
        self.place, self.read_only = place, read_only
        self._connection, self._pid = connection, os.getpid()
        self._lock = threading.RLock()
        self._closed = False
        self._identity = None if place is None else files.identify(place)
        self._unit = unit_of(connection)
        self.seen, self._schema = Head(0, NO_HASH), 0
        self._finalizer = weakref.finalize(self, _close, connection, self._pid)
        with self.read() as look:
            self.seen, self._schema = look.last().head, look.schema()

    # --- transactions -----------------------------------------------------------------------------

    @contextmanager
    def write(self) -> Iterator[Transaction]:
        """A transaction that holds the write lock from its first read to its commit."""
        if self.read_only:
            fail(
                "This ledger was opened to be read only: open it without `read_only` to spend.",
                LedgerError,
            )
        with self._transaction(WRITE) as change:
            if change.schema() != self._schema:
                fail(
                    "A table or a trigger of the ledger was changed while it was open. Close it in "
                    "every process, then open it again and verify it. Nothing may be released.",
                    LedgerError,
                )
            yield change

    @contextmanager
    def read(self) -> Iterator[Transaction]:
        """A transaction that sees one moment."""
        with self._transaction("BEGIN") as look:
            yield look

    @contextmanager
    def _transaction(self, begin: str) -> Iterator[Transaction]:
        self.check_usable()
        with self._lock, explained(self.place):
            if self._identity is not None and self.place is not None:
                files.check_same(self.place, self._identity)
            take_lock(self._connection) if begin == WRITE else self._connection.execute(begin)
            try:
                transaction = Transaction(self._connection, self._unit)
                transaction.check_holds(self.seen)
                yield transaction
                self._connection.execute("COMMIT")
            except BaseException:
                self._rollback()
                raise
            self.seen = transaction.written or self.seen

    def _rollback(self) -> None:
        try:
            if self._connection.in_transaction:
                self._connection.execute("ROLLBACK")
        except sqlite3.Error:
            self.close()  # in an unknown state: better no ledger than a wrong one

    def check_usable(self) -> None:
        """Refuse after a fork and after closing."""
        if self._pid != os.getpid():
            where = (
                "An in-memory ledger belongs to one process: its copy here would spend the same "
                "budget again. Keep the ledger in a file (`path=`) to share it."
                if self.place is None
                else f"Open it again in this process: Ledger.open({str(self.place)!r})."
            )
            fail(f"This ledger was opened by another process, before a fork. {where}", LedgerError)
        if self._closed:
            fail("This ledger is closed: open it again.", LedgerError)

    def close(self) -> None:
        """Close the connection, if this process opened it."""
        self._closed = True
        self._finalizer()


class Transaction:
    """Reads and appends between BEGIN and COMMIT."""

    def __init__(self, connection: sqlite3.Connection, unit: str) -> None:
        self._connection, self.unit = connection, unit
        self._select = f"SELECT {', '.join(columns(unit))} FROM entries"
        self.written: Head | None = None

    def _entry(self, row: Iterable[Any]) -> Entry:
        return Entry(*(*row, self.unit))

    def _one(self, where: str, *values: object) -> Entry | None:
        row = self._connection.execute(f"{self._select} {where}", values).fetchone()
        return None if row is None else _whole(self._entry(row))

    def entry(self, number: int) -> Entry | None:
        """The entry of that number."""
        return self._one("WHERE number = ?", number)

    def last(self) -> Entry:
        """The last entry."""
        found = self._one("ORDER BY number DESC LIMIT 1")
        if found is None:
            fail("The ledger is empty: the file is damaged.", LedgerError)
        return found

    def with_key(self, key: str) -> Entry | None:
        """The spend of a key."""
        return self._one("WHERE key = ?", key)

    def end_of(self, number: int) -> Entry | None:
        """The release or the burn that ends a spend."""
        return self._one("WHERE ends = ?", number)

    def partition(self, name: str) -> Entry | None:
        """The declaration of a partition."""
        return self._one("WHERE kind = 'partition' AND partition = ?", name)

    def last_in(self, partition: str, cell: str | None = None) -> Entry | None:
        """The last spend in a partition, or in one cell of it."""
        latest = "ORDER BY number DESC LIMIT 1"
        if cell is None:
            return self._one(f"WHERE kind = 'spend' AND partition = ? {latest}", partition)
        where = f"WHERE kind = 'spend' AND partition = ? AND cell = ? {latest}"
        return self._one(where, partition, cell)

    def protects(self) -> str | None:
        """Whom the spends protect: each says it once one has."""
        spend = self._one("WHERE kind = 'spend' ORDER BY number DESC LIMIT 1")
        return None if spend is None else spend.facts().get("protects")

    def all(self) -> Iterator[Entry]:
        """Every entry, first to last, whole or not."""
        for row in self._connection.execute(f"{self._select} ORDER BY number"):
            yield self._entry(row)

    def selected(self, where: str, *values: object) -> list[Entry]:
        """The entries that a clause selects."""
        rows = self._connection.execute(f"{self._select} {where}", values)
        return [_whole(self._entry(row)) for row in rows]

    def pragma(self, text: str) -> list[tuple[Any, ...]]:
        """The rows of a pragma or of a look at the schema."""
        return self._connection.execute(text).fetchall()

    def schema(self) -> int:
        """A number that changes with every table, index or trigger."""
        ((version,),) = self.pragma("PRAGMA schema_version")
        return int(version)

    def check_complete(self) -> None:
        """Refuse a file from between whose entries some are gone: their numbers have no gaps.

        Spends, ends and partitions are counted in their indices, without reading an entry.
        """
        ((found,),) = self.pragma(_COUNT)
        written = self.last().number
        if found != written:
            fail(
                f"The ledger has lost entries: {written} were written, and {found} are there. Go "
                "back to a copy that verifies; to look at this one, open it with `read_only`.",
                LedgerError,
            )

    def check_holds(self, head: Head) -> None:
        """Refuse a file that no longer holds an entry which this process has seen."""
        if head.counter == 0:
            return
        found = self.entry(head.counter)
        if found is None or found.hash != head.hash:
            fail(
                f"The ledger went back in time: entry {head.counter} is not the one that was seen. "
                "An old copy was put in its place; restore the newest one.",
                LedgerError,
            )

    def append(
        self,
        kind: str,
        time: str,
        body: object,
        *,
        amounts: dict[str, Budget],
        key: str | None = None,
        ends: int | None = None,
        partition: str | None = None,
        cell: str | None = None,
    ) -> Entry:
        """Write the next entry of the chain; ``amounts`` that are not named are 0."""
        row: dict[str, Any] = {"kind": kind, "time": time, "body": canonical(body)}
        row |= {"key": key, "ends": ends, "partition": partition, "cell": cell}
        for of in ("", "cell_", "partition_", "total_"):
            amount = amounts.get(of.rstrip("_"), nothing(self.unit))
            if amount.unit != self.unit:
                fail(f"The ledger keeps {self.unit}. Got {amount.unit}.", LedgerError)
            row |= {f"{of}cost": to_text(amount.amount), f"{of}delta": to_text(amount.delta)}
        last = self._one("ORDER BY number DESC LIMIT 1")
        row["number"], row["previous"] = (last.number + 1, last.hash) if last else (1, NO_HASH)
        row["hash"] = Entry(**row, hash="", unit=self.unit).digest()
        entry = Entry(**row, unit=self.unit)
        places = ", ".join("?" * len(FIELDS))
        values = [getattr(entry, name) for name in FIELDS]
        self._connection.execute(f"INSERT INTO entries VALUES ({places})", values)
        self.written = entry.head
        return entry


def _whole(entry: Entry) -> Entry:
    """The entry, if its hash still fits: nothing is decided or released by a damaged one."""
    if entry.digest() != entry.hash:
        fail(
            f"Entry {entry.number} of the ledger was changed: its hash does not fit its content. "
            "Restore a copy that verifies. Nothing may be released.",
            LedgerError,
        )
    return entry


# --- opening --------------------------------------------------------------------------------------


def connect(place: Path | str, timeout: float, rights: str = "mode=rw") -> sqlite3.Connection:
    """A connection that synchronises every commit; the file must exist."""
    uri = isinstance(place, Path)
    name = f"{place.as_uri()}?{rights}" if isinstance(place, Path) else place
    connection = sqlite3.connect(
        name, timeout=timeout, isolation_level=None, check_same_thread=False, uri=uri
    )
    try:
        connection.create_function("ledger_at_most", 2, _at_most, deterministic=True)
        for setting in ("synchronous = FULL", "fullfsync = ON", "cell_size_check = ON"):
            connection.execute(f"PRAGMA {setting}")
        if connection.execute("PRAGMA synchronous").fetchone() != (2,):
            fail("The ledger needs a SQLite that can synchronise to the disk.", LedgerError)
    except BaseException:
        connection.close()
        raise
    return connection


def take_lock(connection: sqlite3.Connection) -> None:
    """Begin to write as soon as nobody else does, within the patience of the connection.

    Left to itself SQLite asks for a taken lock less and less often, down to ten times a second,
    while whoever had it last asks again at once: of sixteen busy processes one may wait for its
    turn for minutes. Here those who have waited longest ask most often.
    """
    (patience,) = connection.execute("PRAGMA busy_timeout").fetchone()
    start = clock.monotonic()
    connection.execute("PRAGMA busy_timeout = 0")
    try:
        while True:
            try:
                connection.execute(WRITE)
                return
            except sqlite3.OperationalError as error:
                waited = clock.monotonic() - start
                if not error.sqlite_errorname.startswith("SQLITE_BUSY") or waited > patience / 1e3:
                    raise
            clock.sleep(max(_SHORTEST_NAP, _NAP / (1 + waited)))
    finally:
        connection.execute(f"PRAGMA busy_timeout = {patience}")


def use_log(connection: sqlite3.Connection, place: Path) -> None:
    """Switch to the write-ahead log, or refuse."""
    (mode,) = connection.execute("PRAGMA journal_mode = WAL").fetchone()
    if mode != "wal":
        fail(
            f"The ledger {place} needs SQLite's write-ahead log, and this file system gives "
            f"journal mode '{mode}': keep it on a local disk.",
            LedgerError,
        )


def build(connection: sqlite3.Connection, time: str, caps: Budget, body: object) -> None:
    """The empty table and the first entry, in one transaction."""
    connection.execute("BEGIN IMMEDIATE")
    for statement in statements(caps.unit):
        connection.execute(statement)
    connection.execute(f"PRAGMA application_id = {APPLICATION}")
    Transaction(connection, caps.unit).append("open", time, body, amounts={"": caps})
    connection.execute("COMMIT")


def unit_of(connection: sqlite3.Connection) -> str:
    """The unit of the costs in the table."""
    names = [str(row[1]) for row in connection.execute("PRAGMA table_info(entries)")]
    unit = names[_COST] if len(names) > _COST else ""
    if unit not in UNITS.values():
        fail("The ledger was written by another version: use that one to read it.", LedgerError)
    return unit


def open_memory(time: str, caps: Budget, body: object) -> Store:
    """Entries in memory."""
    with explained(None):
        connection = connect(":memory:", 0.0)
        build(connection, time, caps, body)
        return Store(connection, None)


def make_file(place: Path, time: str, caps: Budget, body: object) -> None:
    """Make the file of a new ledger, unless somebody else just did."""

    def fill(draft: Path) -> None:
        connection = connect(draft, 0.0)
        try:
            # the log comes last: a table that is still in it is merged when the connection is
            # closed, and nobody hears if that fails
            build(connection, time, caps, body)
            use_log(connection, place)
            if connection.execute("PRAGMA quick_check").fetchone() != ("ok",):
                fail(f"The ledger {place} could not be made: the disk lost it.", LedgerError)
        finally:
            connection.close()

    with explained(place):
        files.create(place, fill)


def open_file(place: Path, timeout: float) -> Store:
    """Entries in an existing file that can be written."""
    with explained(place):
        files.check_writable(place)
        files.check_one_name(place)
        connection = connect(place, timeout)
        try:
            _check_ledger(connection, place)
            use_log(connection, place)
            take_lock(connection)  # shows that it can be written
            connection.execute("ROLLBACK")
            opened = Store(connection, place)
            with opened.read() as look:
                look.check_complete()
            return opened
        except BaseException:
            connection.close()
            raise


def open_to_read(place: Path, timeout: float) -> Store:
    """Entries in an existing file that need not be writable: nothing is written, nor can be."""
    with explained(place):
        connection = _reading(place, timeout)
        try:
            _check_ledger(connection, place)
            return Store(connection, place, read_only=True)
        except BaseException:
            connection.close()
            raise


def _reading(place: Path, timeout: float) -> sqlite3.Connection:
    """A connection that only reads, and leaves no file behind.

    Beside a log SQLite wants its shared memory, which it makes, and takes away again if it may
    write. Where it may not, a file without a log is whole, and is read as one that nobody changes.
    """
    if files.is_writable(place):
        connection = connect(place, timeout)
        connection.execute("PRAGMA query_only = ON")
        return connection
    if not files.has_log(place):
        return connect(place, timeout, "mode=ro&immutable=1")
    try:
        connection = connect(place, timeout, "mode=ro")
        connection.execute("PRAGMA schema_version").fetchone()
    except sqlite3.OperationalError as error:
        fail(
            f"The ledger {place} has a log with entries that only a writable folder can show "
            f"({error}). Copy {place.name} and {place.name}-wal together to one, and look there.",
            LedgerError,
        )
    return connection


def _check_ledger(connection: sqlite3.Connection, place: Path) -> None:
    if connection.execute("PRAGMA application_id").fetchone() != (APPLICATION,):
        fail(f"The file {place} is not a ledger: name another one.", LedgerError)


@contextmanager
def explained(place: Path | None) -> Iterator[None]:
    """Turn the errors of SQLite and of the system into ours."""
    try:
        yield
    except (sqlite3.Error, OSError, ValueError, TypeError, LookupError, ArithmeticError) as error:
        _explain(error, place)


def _explain(error: Exception, place: Path | None) -> NoReturn:
    if isinstance(error, LedgerError) or type(error).__module__.startswith("tightdp"):
        raise error
    where = "in memory" if place is None else str(place)
    code = getattr(error, "sqlite_errorname", "") or ""
    if code.startswith("SQLITE_IOERR") and place is not None and not files.has_room(place):
        code = "SQLITE_FULL"  # SQLite does not tell a full disk from a broken one everywhere
    cause = next((text for name, text in _CAUSES.items() if code.startswith(name)), str(error))
    detail = f" ({error})" if cause != str(error) else ""
    fail(f"The ledger {where} failed: {cause}{detail}. Nothing may be released.", LedgerError)


def _at_most(text: str, cap: str) -> bool:
    return 0 <= from_text(text) <= from_text(cap)


def _close(connection: sqlite3.Connection, pid: int) -> None:
    if pid == os.getpid():  # a connection must not be touched behind a fork
        connection.close()
