"""Entries: the rows of a ledger, chained by hashes, the table that keeps them, and what they say:
what a ledger was opened for, and what each request asked of it.

An entry is never changed or deleted; triggers see to it, and to totals that stay within the caps.
"""

from __future__ import annotations

import hashlib
import json
import re
import sqlite3
from collections.abc import Mapping
from dataclasses import dataclass, fields
from datetime import UTC, datetime
from functools import cache
from operator import attrgetter
from typing import Any, NamedTuple

from tightdp.accepted import Number
from tightdp.accounting.caps import UNITS, Cap
from tightdp.accounting.conversions import bits_for, gaussian_dp_delta, zcdp_delta, zcdp_rho
from tightdp.accounting.costs import Cost
from tightdp.errors import LedgerError, check_instance, encodes, fail
from tightdp.ledger.amounts import (
    SYMBOLS,
    Budget,
    check_amount,
    cost,
    cost_in_full,
    from_text,
    short_cost,
    shown,
    to_text,
)
from tightdp.privacy import NOT_PRIVATE, Neighbors

APPLICATION = 0x74646C31  # "tdl1"
NO_HASH = "0" * 64
FORMAT = 1  # of ledgers that add epsilons
FORMAT_OF_UNITS = 2  # of those that keep rho or mu**2
FINGERPRINTS = "3:"  # begins a mechanism's fingerprint; raised when a request gets another one
_FINGERPRINT = re.compile(r"(\d+:)?[0-9a-f]{64}")
LONGEST_TEXT = 1000

TABLE = """
CREATE TABLE entries (
  number INTEGER PRIMARY KEY CHECK (number > 0),
  kind TEXT NOT NULL CHECK (kind IN ('open', 'partition', 'spend', 'release', 'burn')),
  time TEXT NOT NULL,
  key TEXT CHECK (key IS NULL OR kind = 'spend'),
  ends INTEGER CHECK ((ends IS NOT NULL) = (kind IN ('release', 'burn'))),
  partition TEXT,
  cell TEXT,
  UNIT TEXT NOT NULL CHECK (UNIT GLOB '[0-9]*/[1-9]*'),
  delta TEXT NOT NULL CHECK (delta GLOB '[0-9]*/[1-9]*'),
  cell_UNIT TEXT NOT NULL,
  cell_delta TEXT NOT NULL,
  partition_UNIT TEXT NOT NULL,
  partition_delta TEXT NOT NULL,
  total_UNIT TEXT NOT NULL CHECK (total_UNIT GLOB '[0-9]*/[1-9]*'),
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
  ledger_at_most(NEW.total_UNIT, (SELECT UNIT FROM entries WHERE number = 1)) AND
  ledger_at_most(NEW.total_delta, (SELECT delta FROM entries WHERE number = 1)))
BEGIN SELECT RAISE(ABORT, 'totals stay within the caps'); END;
"""


def statements(unit: str = "epsilon") -> list[str]:
    """The statements that make the table, its indices and its triggers, for amounts in a unit."""
    found, part = [], ""
    for line in TABLE.replace("UNIT", unit).strip().splitlines(keepends=True):
        part += line
        if sqlite3.complete_statement(part):
            found.append(part.strip().rstrip(";"))
            part = ""
    return found


class Head(NamedTuple):
    """The last entry of a ledger: its number and its hash, which covers everything before it.

    Examples
    --------
    >>> from tightdp.ledger import Ledger
    >>> Ledger(epsilon=1).head.counter
    1
    """

    counter: int
    hash: str


@dataclass(frozen=True, slots=True)
class Entry:
    """One row. The running amounts after it make every decision a look at the last rows.

    ``cost`` and ``delta`` are those of a spend, and the caps in the first entry. ``cell_*`` is the
    sum of the cell, ``partition_*`` the largest cell of the partition, ``total_*`` all. Columns of
    costs are named by the ``unit``: epsilon, rho or mu_squared.
    """

    number: int
    kind: str
    time: str
    key: str | None
    ends: int | None
    partition: str | None
    cell: str | None
    cost: str
    delta: str
    cell_cost: str
    cell_delta: str
    partition_cost: str
    partition_delta: str
    total_cost: str
    total_delta: str
    body: str
    previous: str
    hash: str
    unit: str = "epsilon"

    @property
    def head(self) -> Head:
        """Number and hash."""
        return Head(self.number, self.hash)

    def amount(self, of: str = "") -> Budget:
        """The cost, or the running amount of ``"cell"``, ``"partition"`` or ``"total"``."""
        prefix = of and f"{of}_"
        spent, lost = (from_text(getattr(self, f"{prefix}{part}")) for part in ("cost", "delta"))
        return Budget(spent, lost, self.unit)

    def facts(self) -> dict[str, Any]:
        """The body as plain values."""
        found: dict[str, Any] = json.loads(self.body)
        return found

    def digest(self) -> str:
        """SHA-256 of everything in the row but the hash itself."""
        row = dict(zip(columns(self.unit)[:-1], _contents(self), strict=True))
        return hashlib.sha256(canonical(row).encode()).hexdigest()


FIELDS = tuple(field.name for field in fields(Entry) if field.name != "unit")
_contents = attrgetter(*FIELDS[:-1])  # all but the hash


@cache
def columns(unit: str) -> tuple[str, ...]:
    """The names of the columns of the table, in the order of the fields."""
    return tuple(re.sub(r"\bcost$|(?<=_)cost$", unit, name) for name in FIELDS)


def canonical(value: object) -> str:
    """The one JSON text of a value: sorted keys, no spaces, no NaN."""
    return _CANONICAL.encode(value)


_CANONICAL = json.JSONEncoder(sort_keys=True, separators=(",", ":"), allow_nan=False)


# --- what was asked for ---------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Terms:
    """Caps, neighbour relation and which releases without a proof are let in: fixed for ever."""

    cap: Cap
    neighbors: Neighbors
    allow_seeded: bool = False
    allow_approximate: bool = False

    @property
    def caps(self) -> Budget:
        """The cap in the unit in which it is kept."""
        return Budget(self.cap.amount, self.cap.slack, UNITS[self.cap.accountant])

    def body(self, identity: str) -> dict[str, Any]:
        """The body of the first entry."""
        found: dict[str, Any] = {
            "format": FORMAT,
            "identity": identity,
            "neighbors": str(self.neighbors),
            "allow_seeded": self.allow_seeded,
            "allow_approximate": self.allow_approximate,
        }
        if self.cap.accountant != "sum":
            stated = (("epsilon", self.cap.epsilon), ("delta", self.cap.delta))
            found |= {"format": FORMAT_OF_UNITS, "accountant": self.cap.accountant}
            found |= {name: to_text(value) for name, value in stated if value is not None}
        return found

    @classmethod
    def of(cls, first: Entry) -> Terms:
        """The terms in the first entry of a ledger."""
        facts, caps = first.facts(), first.amount()
        accountant = str(facts.get("accountant", "sum"))
        known = {"sum": FORMAT, "zcdp": FORMAT_OF_UNITS, "gaussian": FORMAT_OF_UNITS}
        if facts.get("format") != known.get(accountant) or UNITS[accountant] != first.unit:
            fail("The ledger was written by another version: use that one to read it.", LedgerError)
        cap = Cap(accountant, caps.amount, caps.delta, caps.amount, caps.delta)
        if accountant != "sum":
            epsilon, delta = (
                from_text(facts[name]) if name in facts else None for name in ("epsilon", "delta")
            )
            cap = Cap(accountant, caps.amount, caps.delta, epsilon, delta)
            _check_worth(cap)
        neighbors = Neighbors.of(facts["neighbors"])
        seeded, approximate = facts["allow_seeded"], facts.get("allow_approximate", False)
        return cls(cap, neighbors, bool(seeded), bool(approximate))

    def asked(self, epsilon: Number | Cost, delta: Number) -> tuple[Budget, Cost | None]:
        """What is asked for, and in every unit where another than epsilon is kept."""
        if isinstance(epsilon, Cost):
            if delta:
                fail("`delta` must be left out beside a cost, which has one.")
            asked, whole = check_amount(epsilon.epsilon, epsilon.delta), short_cost(epsilon)
        else:
            asked, whole = check_amount(epsilon, delta), None
        if self.cap.accountant == "sum":
            return asked, None
        return asked, Cost.of(asked.epsilon, asked.delta) if whole is None else whole

    def price(self, asked: Budget, whole: Cost | None, given: Neighbors) -> Budget:
        """What that costs, in the unit and under the neighbours that are kept."""
        if whole is None:
            return cost(asked, given, self.neighbors)
        found = cost_in_full(whole, given, self.neighbors)
        return Budget(*self.cap.booked(found), unit=self.cap.unit)

    def check_allowed(self, seeded: bool, approximate: bool) -> None:
        """Refuse noise that the guarantee is not proved for, unless it is let in."""
        if seeded and not self.allow_seeded:
            fail(
                "`seeded` must be False for this ledger. Got True: noise from a seed can be "
                "repeated and is not private. Leave out the seed (rng=None, random_state=None), or "
                "use a test ledger made with allow_seeded=True."
            )
        if approximate and not self.allow_approximate:
            fail(
                "`approximate` must be False for this ledger. Got True: a Markov chain only "
                "approaches the law that the epsilon is proved for, so it may cost more than is "
                "booked. Use a mechanism with an exact sampler, or a ledger made with "
                "allow_approximate=True, whose sums are then not proved."
            )

    def check_same(self, asked: Terms, where: str) -> None:
        """Refuse other terms than the ones a file was made with."""
        if self._stated() != asked._stated():
            fail(
                f"The ledger {where} was made with {self}; asked for were {asked}. What a ledger "
                "was made with cannot change: ask for the same, or name a new file.",
                LedgerError,
            )

    def _stated(self) -> tuple[object, ...]:
        """What a caller states: of a cap in epsilon not the amount that it was found to buy."""
        cap = self.cap
        amount = cap.amount if cap.epsilon is None else (cap.epsilon, cap.delta)
        flags = self.allow_seeded, self.allow_approximate
        return cap.accountant, amount, cap.slack, self.neighbors, *flags

    def __str__(self) -> str:
        return (
            f"{self._cap_words()}, {self.neighbors} neighbours, allow_seeded = "
            f"{self.allow_seeded}, allow_approximate = {self.allow_approximate}"
        )

    def _cap_words(self, most: int = 60) -> str:
        """The cap as it was stated."""
        if self.cap.accountant == "sum":
            return self.caps.text(most)
        if self.cap.epsilon is None or self.cap.delta is None:
            return self.caps.text(most)
        stated = Budget(self.cap.epsilon, self.cap.delta)
        slack = f", slack = {shown(self.cap.slack, most)}" if self.cap.slack else ""
        return f"{stated.text(most)}{slack} kept as {SYMBOLS[self.cap.unit]}"

    def brief(self) -> str:
        """The same for a table."""
        seeded = ", seeded releases are let in: NOT PRIVATE" if self.allow_seeded else ""
        rough = ", approximate samplers are let in: NOT PROVED" if self.allow_approximate else ""
        return f"{self._cap_words(20)}, {self.neighbors} neighbours{seeded}{rough}"


@dataclass(frozen=True, slots=True)
class Asked:
    """Everything that makes two requests the same."""

    asked: Budget
    neighbors: Neighbors
    seeded: bool
    label: str
    fingerprint: str
    partition: str | None
    cell: str | None
    protects: str | None = None
    approximate: bool = False
    cost: Cost | None = None
    """In every unit, for a ledger that keeps another one than epsilon."""

    def body(self, owner: str) -> dict[str, Any]:
        """The body of a spend."""
        asked = self.asked.to_dict()
        if self.cost is not None:
            asked = {part.name: to_text(getattr(self.cost, part.name)) for part in fields(Cost)}
        return {
            "asked": asked,
            "neighbors": str(self.neighbors),
            "seeded": self.seeded,
            "approximate": self.approximate,
            "label": self.label,
            "fingerprint": self.fingerprint,
            "owner": owner,
        }

    def check_same(self, entry: Entry, key: str) -> None:
        """Refuse a key that was used for another request."""
        facts = entry.facts()
        mine = self.body("") | {"partition": self.partition, "cell": self.cell}
        kept = {"approximate": False} | facts
        kept |= {"owner": "", "partition": entry.partition, "cell": entry.cell}
        other = sorted(name for name in mine if mine[name] != kept.get(name))
        if _is_earlier(self.fingerprint, str(kept.get("fingerprint"))):
            fail(
                f"`key`: entry {entry.number} of key {key!r} was made by an earlier version of "
                "tightdp, whose requests cannot be compared with those of this one. Its stored "
                f"release is kept: `ledger.find({key!r})` or `tightdp ledger show FILE --key NAME` "
                "gives it without a payment. Another key would be a new release and a new payment."
            )
        if other:
            said = " It covers all parameters, and the confidence of an interval that is drawn."
            hint = said if other == ["fingerprint"] else ""
            fail(
                f"`key` must name one request. Got {key!r}, which entry {entry.number} used with "
                f"another {', '.join(other)}: choose a new key for a new request.{hint}"
            )


def _check_worth(cap: Cap) -> None:
    """Refuse a file whose cap is above what it says that it is worth."""
    if cap.epsilon is None or cap.delta is None:
        return
    left = cap.delta - cap.slack
    if left > 0 and cap.accountant == "zcdp":
        # two searches for an order, either of which proves it: they end a hair apart
        holds = zcdp_delta(cap.epsilon, cap.amount) <= left or (
            cap.amount <= zcdp_rho(cap.epsilon, left)
        )
    else:
        holds = left > 0 and (gaussian_dp_delta(cap.epsilon, cap.amount, bits_for(left)) <= left)
    if not holds:
        fail("The ledger has a cap above the epsilon and delta that it states.", LedgerError)


def asked_cost(facts: Mapping[str, Any]) -> Cost:
    """The cost in every unit that a spend asked for, in a ledger that keeps one of the others."""
    return Cost(**{part.name: from_text(facts["asked"][part.name]) for part in fields(Cost)})


def _is_earlier(mine: str, kept: str) -> bool:
    """Whether both are fingerprints of mechanisms, of different versions."""
    now, then = _FINGERPRINT.fullmatch(mine), _FINGERPRINT.fullmatch(kept)
    return now is not None and then is not None and now[1] is not None and now[1] != then[1]


def check_text(name: str, value: object) -> str:
    """A text of at most 1000 characters."""
    text = check_instance(name, value, str, words="a text")
    if len(text) > LONGEST_TEXT or "\0" in text or not encodes(text):
        fail(f"`{name}` must be a plain text of at most {LONGEST_TEXT} characters: shorten it.")
    if NOT_PRIVATE in text:
        fail(f"`{name}` must not be what a check of the table said: that is not private.")
    return text


def check_key(value: object) -> str | None:
    """A non-empty text, or None."""
    if value is None:
        return None
    if value == "":
        fail("`key` must be a non-empty text, or None for a new release on every call.")
    return check_text("key", value)


def check_record(record: object) -> dict[str, Any]:
    """A release as plain values, exactly as it will be read back."""
    if not isinstance(record, Mapping):
        fail(f"`record` must be a dictionary. Got {type(record).__name__}.")
    try:
        text = canonical(dict(record))
        text.encode()
    except (TypeError, ValueError, RecursionError):
        fail("`record` must hold plain JSON values only: texts, finite numbers, lists, dicts.")
    if NOT_PRIVATE in text:
        fail("`record` must not hold what a check of the table said: that is not private.")
    plain: dict[str, Any] = json.loads(text)
    return plain


def now() -> str:
    """The time of an entry, to the second."""
    return datetime.now(UTC).isoformat(timespec="seconds")
