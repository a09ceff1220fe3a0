"""How spends end: with a stored release or burned; and what a key gets that is asked for again."""

from __future__ import annotations

import threading
import time
from collections.abc import Mapping
from typing import Any

from tightdp.errors import (
    BurnedError,
    LedgerError,
    PendingError,
    check_count,
    check_instance,
    fail,
)
from tightdp.ledger import charges, files, store
from tightdp.ledger.charges import Receipt
from tightdp.ledger.entries import Entry, check_key, check_record, now
from tightdp.ledger.store import Transaction
from tightdp.ledger.views import LedgerView

_FIRST_NAP, _LONGEST_NAP = 0.002, 0.05


class LedgerReleases(LedgerView):
    """The side of a ledger that stores releases, gives them up, and finds them again."""

    _timeout: float
    _mine: dict[int, int]  # spends of this object that have no end, and their threads

    def store(self, receipt: Receipt, record: Mapping[str, Any]) -> dict[str, Any]:
        """Store the release of a spend and give it back, as it will be found from now on.

        Only what this returns may be published. A spend has one release: a second is refused.
        """
        plain = check_record(record)
        store._checkpoint("storing")
        self._end(receipt, "release", {"record": plain})
        store._checkpoint("stored")
        return plain

    def check_room(self, entries: int) -> None:
        """Refuse a release of so many entries, before it is paid for, if the disk lacks the room.

        >>> import tightdp as tdp
        >>> tdp.Ledger(epsilon=1).check_room(1000)
        """
        number, place = check_count("entries", entries, least=0), self._store.place
        if place is not None:
            with store.explained(place):
                files.check_room(place, number)

    def burn(self, receipt: Receipt) -> None:
        """Give up the release of a spend. The charge stays; the key can never be answered."""
        self._end(receipt, "burn", {})

    def give_up(self, key: str | None = None, *, entry: int | None = None) -> int:
        """End a spend whose computation is lost, by its key or the number of its entry.

        A release that was being computed on another machine, or in a container that is gone, is in
        progress for as long as nobody says otherwise. This says it, to the private side: the charge
        stays, and the key can never be answered. Should the computation still be at work, its
        release is refused when it comes. The number of the entry comes back.

        Examples
        --------
        >>> from tightdp.ledger import Ledger
        >>> ledger = Ledger(epsilon=1)
        >>> receipt = ledger.spend(0.25, key="mean age")
        >>> ledger.give_up("mean age"), ledger.spent.epsilon
        (2, Fraction(1, 4))
        >>> ledger.find("mean age")
        Traceback (most recent call last):
        ...
        tightdp.errors.BurnedError: The release of key 'mean age' is burned: entry 2 has paid ...
        """
        if (key is None) == (entry is None):
            fail("`key` or `entry` must say which spend is given up, one of them.")
        name = check_key(key)
        number = 0 if entry is None else check_count("entry", entry, most=1 << 62)
        with self._store.write() as change:
            spent = change.entry(number) if name is None else change.with_key(name)
            what = f"entry {number}" if name is None else f"key {name!r}"
            if spent is None or spent.kind != "spend":
                fail(f"The ledger has no spend of {what}: `tightdp ledger show` lists them.")
            self._write_end(change, spent.number, "burn", {})
        self._mine.pop(spent.number, None)
        return spent.number

    def _end(self, receipt: Receipt, kind: str, body: dict[str, Any]) -> None:
        check_instance("receipt", receipt, Receipt)
        number = receipt.entry.counter
        with self._store.write() as change:
            spent = change.entry(number)
            if receipt.ledger != self.identity or spent is None or spent.head != receipt.entry:
                fail("`receipt` must come from this ledger. Got one of another.", LedgerError)
            self._write_end(change, number, kind, body)
        self._mine.pop(number, None)

    def _write_end(self, change: Transaction, number: int, kind: str, body: dict[str, Any]) -> None:
        if change.end_of(number) is not None:
            fail(
                f"Only a spend without a release can be ended. Entry {number} has ended: its "
                "release is stored, or was given up. Spend again for a new release.",
                LedgerError,
            )
        total = {"total": change.last().amount("total")}
        change.append(kind, now(), body, ends=number, amounts=total)

    def find(self, key: str) -> dict[str, Any] | None:
        """The stored release of a key, or None if nothing was ever spent for it.

        Raises :class:`PendingError` while the release is being computed, and :class:`BurnedError`
        if it was lost.
        """
        name = check_key(key)
        if name is None:
            fail("`key` must be a non-empty text. Got None.")
        with self._store.read() as look:
            spent = look.with_key(name)
            end = None if spent is None else look.end_of(spent.number)
        return None if spent is None else self._outcome(spent, end, name)

    def _await(self, spent: Entry, key: str) -> dict[str, Any]:
        """The release of a known key, once it is there."""
        until, nap = time.monotonic() + self._timeout, _FIRST_NAP
        while True:
            with self._store.read() as look:
                end = look.end_of(spent.number)
            try:
                return self._outcome(spent, end, key)
            except PendingError:
                # A thread that waits for itself would wait for ever.
                own = self._mine.get(spent.number) == threading.get_ident()
                if own or time.monotonic() > until:
                    raise
            time.sleep(nap)
            nap = min(2 * nap, _LONGEST_NAP)

    def _outcome(self, spent: Entry, end: Entry | None, key: str) -> dict[str, Any]:
        if end is not None and end.kind == "release":
            record: dict[str, Any] = end.facts()["record"]
            return record
        if end is None and charges.is_alive(str(spent.facts()["owner"])):
            fail(
                f"The release of key {key!r} is in progress: entry {spent.number} has paid for it "
                "and not stored it yet. Ask again later with the same key; it costs nothing more. "
                "If the machine or container that computed it is gone, give it up (`tightdp ledger "
                "burn`, `ledger.give_up`): the charge stays, and the release needs a new key.",
                PendingError,
            )
        fail(
            f"The release of key {key!r} is burned: entry {spent.number} has paid for it, and its "
            "computation ended before the release was stored. Fresh noise under the same charge "
            "could be a second look at the data. Choose a new key, which is a new spend.",
            BurnedError,
        )
