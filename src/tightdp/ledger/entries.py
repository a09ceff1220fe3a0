"""Entries: the rows of a ledger, chained by hashes, and the table that keeps them.

An entry is never changed or deleted; triggers see to it, and to totals that stay within the caps.
"""

from __future__ import annotations

import hashlib
import json
import sqlite3
from dataclasses import dataclass, fields
from typing import Any

from tightdp.ledger.amounts import Budget, from_text
from tightdp.ledger.charges import Head

APPLICATION = 0x74646C31  # "tdl1"
NO_HASH = "0" * 64

TABLE = """
CREATE TABLE entries (
  number INTEGER PRIMARY KEY CHECK (number > 0),
  kind TEXT NOT NULL CHECK (kind IN ('open', 'partition', 'spend', 'release', 'burn')),
  time TEXT NOT NULL,
  key TEXT CHECK (key IS NULL OR kind = 'spend'),
  ends INTEGER CHECK ((ends IS NOT NULL) = (kind IN ('release', 'burn'))),
  partition TEXT,
  cell TEXT,
  epsilon TEXT NOT NULL CHECK (epsilon GLOB '[0-9]*/[1-9]*'),
  delta TEXT NOT NULL CHECK (delta GLOB '[0-9]*/[1-9]*'),
  cell_epsilon TEXT NOT NULL,
  cell_delta TEXT NOT NULL,
  partition_epsilon TEXT NOT NULL,
  partition_delta TEXT NOT NULL,
  total_epsilon TEXT NOT NULL CHECK (total_epsilon GLOB '[0-9]*/[1-9]*'),
  total_delta TEXT NOT NULL CHECK (total_delta GLOB '[0-9]*/[1-9]*'),
  body TEXT NOT NULL,
  previous TEXT NOT NULL CHECK (length(previous) = 64),
  hash TEXT NOT NULL CHECK (length(hash) = 64)
);
CREATE UNIQUE INDEX one_spend_of_a_key ON entries (key) WHERE key IS NOT NULL;
CREATE UNIQUE INDEX one_end_of_a_spend ON entries (ends) WHERE ends IS NOT NULL;
CREATE UNIQUE INDEX one_partition_of_a_name ON entries (partition) WHERE kind = 'partition';
CREATE INDEX spends_of_a_cell ON entries (partition, cell, number) WHERE kind = 'spend';
CREATE INDEX spends_of_a_partition ON entries (partition, number) WHERE kind = 'spend';
CREATE TRIGGER entries_are_not_changed BEFORE UPDATE ON entries
BEGIN SELECT RAISE(ABORT, 'entries are never changed'); END;
CREATE TRIGGER entries_are_not_deleted BEFORE DELETE ON entries
BEGIN SELECT RAISE(ABORT, 'entries are never deleted'); END;
CREATE TRIGGER entries_follow_each_other BEFORE INSERT ON entries
WHEN NEW.number IS NOT 1 + coalesce((SELECT max(number) FROM entries), 0)
  OR (NEW.kind = 'open') IS NOT (NEW.number = 1)
  OR NEW.previous IS NOT coalesce(
    (SELECT hash FROM entries ORDER BY number DESC LIMIT 1), printf('%064d', 0))
BEGIN SELECT RAISE(ABORT, 'entries follow each other'); END;
CREATE TRIGGER nothing_is_replaced BEFORE INSERT ON entries
WHEN EXISTS (SELECT 1 FROM entries WHERE key = NEW.key)
  OR EXISTS (SELECT 1 FROM entries WHERE ends = NEW.ends)
  OR (NEW.kind = 'partition' AND EXISTS (
    SELECT 1 FROM entries WHERE kind = 'partition' AND partition = NEW.partition))
BEGIN SELECT RAISE(ABORT, 'nothing is replaced'); END;
CREATE TRIGGER totals_stay_within_the_caps BEFORE INSERT ON entries
WHEN NEW.number > 1 AND NOT (
  ledger_at_most(NEW.total_epsilon, (SELECT epsilon FROM entries WHERE number = 1)) AND
  ledger_at_most(NEW.total_delta, (SELECT delta FROM entries WHERE number = 1)))
BEGIN SELECT RAISE(ABORT, 'totals stay within the caps'); END;
"""


def statements() -> list[str]:
    """The statements that make the table, its indices and its triggers."""
    found, part = [], ""
    for line in TABLE.strip().splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part.strip().rstrip(";"))
            part = ""
    return found


@dataclass(frozen=True, slots=True)
class Entry:
    """One row. The running amounts after it make every decision a look at the last rows.

    ``epsilon`` and ``delta`` are the cost of a spend, and the caps in the first entry. ``cell_*``
    is the sum of the cell, ``partition_*`` the largest cell of the partition, ``total_*`` all.
    """

    number: int
    kind: str
    time: str
    key: str | None
    ends: int | None
    partition: str | None
    cell: str | None
    epsilon: str
    delta: str
    cell_epsilon: str
    cell_delta: str
    partition_epsilon: str
    partition_delta: str
    total_epsilon: str
    total_delta: str
    body: str
    previous: str
    hash: str

    @property
    def head(self) -> Head:
        """Number and hash."""
        return Head(self.number, self.hash)

    def amount(self, of: str = "") -> Budget:
        """The cost, or the running amount of ``"cell"``, ``"partition"`` or ``"total"``."""
        prefix = of and f"{of}_"
        return Budget(
            from_text(getattr(self, f"{prefix}epsilon")), from_text(getattr(self, f"{prefix}delta"))
        )

    def facts(self) -> dict[str, Any]:
        """The body as plain values."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    def digest(self) -> str:
        """SHA-256 of everything in the row but the hash itself."""
        row = {name: getattr(self, name) for name in COLUMNS if name != "hash"}
        return hashlib.sha256(canonical(row).encode()).hexdigest()


COLUMNS = tuple(field.name for field in fields(Entry))


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, no NaN."""
    return json.dumps(value, sort_keys=True, separators=(",", ":"), allow_nan=False)
