"""What a ledger was opened for, and what one request asks of it."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tightdp.errors import LedgerError, encodes, fail
from tightdp.ledger.amounts import Budget
from tightdp.ledger.entries import Entry, canonical
from tightdp.privacy import NOT_PRIVATE, Neighbors

FORMAT = 1
FINGERPRINTS = "2:"  # begins a mechanism's fingerprint; raised when a request gets another one
_FINGERPRINT = re.compile(r"(\d+:)?[0-9a-f]{64}")
LONGEST_TEXT = 1000


@dataclass(frozen=True, slots=True)
class Terms:
    """Caps, neighbour relation and which releases without a proof are let in: fixed for ever."""

    caps: Budget
    neighbors: Neighbors
    allow_seeded: bool = False
    allow_approximate: bool = False

    def body(self, identity: str) -> dict[str, Any]:
        """The body of the first entry."""
        return {
            "format": FORMAT,
            "identity": identity,
            "neighbors": str(self.neighbors),
            "allow_seeded": self.allow_seeded,
            "allow_approximate": self.allow_approximate,
        }

    @classmethod
    def of(cls, first: Entry) -> Terms:
        """The terms in the first entry of a ledger."""
        facts = first.facts()
        if facts.get("format") != FORMAT:
            fail("The ledger was written by another version: use that one to read it.", LedgerError)
        neighbors = Neighbors.of(facts["neighbors"])
        seeded, approximate = facts["allow_seeded"], facts.get("allow_approximate", False)
        return cls(first.amount(), neighbors, bool(seeded), bool(approximate))

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
        if self != asked:
            fail(
                f"The ledger {where} was made with {self}; asked for were {asked}. What a ledger "
                "was made with cannot change: ask for the same, or name a new file.",
                LedgerError,
            )

    def __str__(self) -> str:
        return (
            f"{self.caps}, {self.neighbors} neighbours, allow_seeded = {self.allow_seeded}, "
            f"allow_approximate = {self.allow_approximate}"
        )

    def brief(self) -> str:
        """The same for a table."""
        seeded = ", seeded releases are let in: NOT PRIVATE" if self.allow_seeded else ""
        rough = ", approximate samplers are let in: NOT PROVED" if self.allow_approximate else ""
        return f"{self.caps.text(20)}, {self.neighbors} neighbours{seeded}{rough}"


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

    def body(self, owner: str) -> dict[str, Any]:
        """The body of a spend."""
        return {
            "asked": self.asked.to_dict(),
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
        if other == ["fingerprint"]:
            other = ["fingerprint (its parameters, or the confidence of an interval that is drawn)"]
        if _is_earlier(self.fingerprint, str(kept.get("fingerprint"))):
            fail(
                f"`key`: entry {entry.number} of key {key!r} was made by an earlier version of "
                "tightdp, whose requests cannot be compared with those of this one. Its stored "
                f"release is kept: `ledger.find({key!r})` or `tightdp ledger show FILE --key NAME` "
                "gives it without a payment. Another key would be a new release and a new payment."
            )
        if other:
            fail(
                f"`key` must name one request. Got {key!r}, which entry {entry.number} used with "
                f"another {', '.join(other)}: choose a new key for a new request."
            )


def _is_earlier(mine: str, kept: str) -> bool:
    """Whether both are fingerprints of mechanisms, of different versions."""
    now, then = _FINGERPRINT.fullmatch(mine), _FINGERPRINT.fullmatch(kept)
    return now is not None and then is not None and now[1] is not None and now[1] != then[1]


def check_text(name: str, value: object) -> str:
    """A text of at most 1000 characters."""
    if not isinstance(value, str):
        fail(f"`{name}` must be a text. Got {type(value).__name__}.")
    if len(value) > LONGEST_TEXT or "\0" in value or not encodes(value):
        fail(f"`{name}` must be a plain text of at most {LONGEST_TEXT} characters: shorten it.")
    if NOT_PRIVATE in value:
        fail(f"`{name}` must not be what a check of the table said: that is not private.")
    return value


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
