"""A ledger re-checked from its first entry: the chain, the sums, the guards and the receipts."""

from __future__ import annotations

import sqlite3
from collections.abc import Iterable
from functools import cache
from typing import Any

from tightdp.errors import LedgerError, TightdpError, fail
from tightdp.ledger.amounts import Budget, from_text, nothing
from tightdp.ledger.composition import Partition, advance
from tightdp.ledger.entries import NO_HASH, Entry, Head, Terms, asked_cost, statements
from tightdp.ledger.store import Transaction
from tightdp.privacy import Neighbors


@cache
def _expected_schema(unit: str) -> frozenset[tuple[str, str]]:
    connection = sqlite3.connect(":memory:")
    try:
        for statement in statements(unit):
            connection.execute(statement)
        return frozenset(connection.execute("SELECT name, sql FROM sqlite_master").fetchall())
    finally:
        connection.close()


def verify(look: Transaction, receipts: Iterable[Head]) -> Head:
    """The head of a ledger in which everything holds; an error names what does not."""
    if look.pragma("PRAGMA integrity_check") != [("ok",)]:
        _broken("SQLite finds the file damaged")
    if frozenset(look.pragma("SELECT name, sql FROM sqlite_master")) != _expected_schema(look.unit):
        _broken("a table, index or trigger is missing, added or changed")
    awaited = {head.counter: head.hash for head in receipts}
    auditor = _Auditor(look.unit)
    for entry in look.all():
        try:
            auditor.take(entry)
        except (ValueError, TypeError, LookupError, ArithmeticError, TightdpError) as error:
            reason = str(error) if isinstance(error, LedgerError) else "it cannot be read"
            _broken(f"entry {entry.number}: {reason}")
        if awaited.pop(entry.number, entry.hash) != entry.hash:
            _broken(f"entry {entry.number} is not the one on the receipt")
    if awaited:
        _broken(f"entry {min(awaited)} of a receipt is missing: this is an old or another copy")
    return auditor.head


class _Auditor:
    """Goes through the entries once and keeps what the next one must continue."""

    def __init__(self, unit: str) -> None:
        self.head = Head(0, NO_HASH)
        self.terms: Terms | None = None
        self.nothing = nothing(unit)
        self.total = self.nothing
        self.partitions: dict[str, Partition] = {}
        self.cells: dict[tuple[str, str], Budget] = {}
        self.largest: dict[str, Budget] = {}
        self.keys: set[str] = set()
        self.unended: set[int] = set()
        self.protects: str | None = None

    def take(self, entry: Entry) -> None:
        if entry.number != self.head.counter + 1 or entry.previous != self.head.hash:
            fail("it does not follow the one before", LedgerError)
        if entry.digest() != entry.hash:
            fail("its hash does not fit its content", LedgerError)
        if entry.number == 1:
            self.terms = Terms.of(entry)
        elif entry.kind == "spend":
            self._spend(entry)
        elif entry.kind == "partition":
            self.partitions[str(entry.partition)] = Partition.of(entry)
        elif entry.ends not in self.unended:
            fail("it ends a spend that is not there, or a second time", LedgerError)
        else:
            self.unended.remove(entry.ends)
        if entry.amount("total") != self.total:
            fail("its totals are wrong", LedgerError)
        self.head = entry.head

    def _spend(self, entry: Entry) -> None:
        assert self.terms is not None  # the first entry was read
        facts = entry.facts()
        given = Neighbors.of(facts["neighbors"])
        if entry.amount() != self._price(facts, given, self.terms):
            fail("its cost is not what was asked for", LedgerError)
        if facts["seeded"] and not self.terms.allow_seeded:
            fail("a seeded release was let in", LedgerError)
        if facts.get("approximate") and not self.terms.allow_approximate:
            fail("a release by an approximate sampler was let in", LedgerError)
        if entry.key is not None and entry.key in self.keys:
            fail("its key was used before", LedgerError)
        if facts.get("protects") != (self.protects or facts.get("protects")):
            fail("it protects something else than the spends before it", LedgerError)
        self.protects = facts.get("protects")
        self.keys.update([entry.key] if entry.key is not None else [])
        now = self._advance(entry, given)
        if any(entry.amount(of) != now.get(of, self.nothing) for of in ("cell", "partition")):
            fail("the sums of its partition are wrong", LedgerError)
        self.total = now["total"]
        if not self.total.fits(self.terms.caps):
            fail("it is above the caps", LedgerError)
        self.unended.add(entry.number)

    @staticmethod
    def _price(facts: dict[str, Any], given: Neighbors, terms: Terms) -> Budget:
        asked = Budget(from_text(facts["asked"]["epsilon"]), from_text(facts["asked"]["delta"]))
        whole = None if terms.cap.accountant == "sum" else asked_cost(facts)
        return terms.price(asked, whole, given)

    def _advance(self, entry: Entry, given: Neighbors) -> dict[str, Budget]:
        if entry.partition is None:
            return advance(self.total, entry.amount())
        name, cell = entry.partition, str(entry.cell)
        self.partitions[name].check_use(cell, given, entry.facts().get("protects"))
        before = (
            self.cells.get((name, cell), self.nothing),
            self.largest.get(name, self.nothing),
        )
        now = advance(self.total, entry.amount(), *before)
        self.cells[name, cell], self.largest[name] = now["cell"], now["partition"]
        return now


def _broken(what: str) -> None:
    fail(
        f"The ledger does not verify: {what}. Do not release from it; go back to a copy that "
        "verifies and holds the entries of all receipts.",
        LedgerError,
    )
