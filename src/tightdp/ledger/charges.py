"""How a spend ends: with a stored release or burned; the block of code that sees to it, what a key
gets that is asked for again, and who computes its release now."""

from __future__ import annotations

import os
import platform
import threading
import time
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, Protocol

from tightdp.errors import (
    BurnedError,
    LedgerError,
    PendingError,
    check_count,
    check_instance,
    fail,
)
from tightdp.ledger import files, store
from tightdp.ledger.amounts import Budget
from tightdp.ledger.entries import Entry, Head, check_key, check_record, now
from tightdp.ledger.store import Store, Transaction

_FIRST_NAP, _LONGEST_NAP = 0.002, 0.05


@dataclass(frozen=True, slots=True)
class Receipt:
    """Proof of a spend, to be published with the release.

    Attributes
    ----------
    ledger : str
        Identity of the ledger.
    entry : Head
        Number and hash of the spend: a ledger that no longer holds them was tampered with or
        restored from an old copy (:meth:`Ledger.verify`).
    cost : Budget
        What was charged, in the ledger's neighbour relation.
    remaining : Budget
        What was left after it.
    key, label : str
    stored : dict, optional
        The release that the ledger already holds for this key. It is the only answer there is.

    Examples
    --------
    >>> from tightdp.ledger import Ledger
    >>> receipt = Ledger(epsilon=1).spend(0.25, label="mean age")
    >>> receipt.cost.epsilon, receipt.remaining.epsilon, receipt.stored
    (Fraction(1, 4), Fraction(3, 4), None)
    """

    ledger: str
    entry: Head
    cost: Budget
    remaining: Budget
    key: str | None
    label: str
    stored: dict[str, Any] | None = field(default=None, compare=False)

    def to_dict(self) -> dict[str, Any]:
        """Plain values for the release: never the release itself."""
        return {
            "ledger": self.ledger,
            "entry": self.entry.counter,
            "hash": self.entry.hash,
            "cost": self.cost.to_dict(),
            "remaining": self.remaining.to_dict(),
            "key": self.key,
            "label": self.label,
        }


class _Keeper(Protocol):
    def store(self, receipt: Receipt, record: Mapping[str, Any]) -> dict[str, Any]: ...

    def burn(self, receipt: Receipt) -> None: ...


class Charge:
    """A block that has paid: it ends with a stored release, or the budget is burned.

    Entering spends. ``stored`` is the release of an earlier call with the same key, or None; then
    the block must compute a release and :meth:`store` it before anyone sees it. If it raises, the
    charge stays.

    Examples
    --------
    >>> import tightdp as tdp
    >>> from tightdp.ledger import Ledger
    >>> ledger = Ledger(epsilon=1)
    >>> def release():
    ...     with ledger.charge(tdp.Guarantee(epsilon=0.5), key="mean") as charge:
    ...         if charge.stored is not None:
    ...             return charge.stored
    ...         return charge.store({"value": 42})
    >>> release(), release(), ledger.spent.epsilon
    ({'value': 42}, {'value': 42}, Fraction(1, 2))
    """

    __slots__ = ("_answered", "_ledger", "_pay", "_receipt")

    def __init__(self, ledger: _Keeper, pay: Callable[[], Receipt]) -> None:
        self._ledger, self._pay = ledger, pay
        self._receipt: Receipt | None = None
        self._answered = False

    def __enter__(self) -> Charge:
        if self._receipt is not None:
            fail("A charge can be entered once: charge the ledger again.", LedgerError)
        self._receipt = self._pay()
        return self

    def _paid(self) -> Receipt:
        if self._receipt is None:
            fail("Nothing was spent yet: write `with ledger.charge(...) as charge`.", LedgerError)
        return self._receipt

    @property
    def stored(self) -> dict[str, Any] | None:
        """The release that the ledger holds for this key, or None if it is to be computed."""
        return self._paid().stored

    def receipt(self) -> dict[str, Any]:
        """What to print with the release, as plain values."""
        return self._paid().to_dict()

    def store(self, record: Mapping[str, Any]) -> dict[str, Any]:
        """Store the release, and only then give it back for publication."""
        stored = self._ledger.store(self._paid(), record)
        self._answered = True
        return stored

    def __exit__(self, kind: type[BaseException] | None, *raised: object) -> None:
        receipt = self._paid()
        if self._answered or receipt.stored is not None:
            return
        with suppress(LedgerError):  # the spend stands without this note
            self._ledger.burn(receipt)
        if kind is None:
            fail(
                f"The charge of entry {receipt.entry.counter} ended without `charge.store(...)`. "
                "Its budget is burned: store the release before you leave the block.",
                LedgerError,
            )


class LedgerReleases:
    """The side of a ledger that stores releases, gives them up, and finds them again."""

    _store: Store
    _identity: str
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
            if receipt.ledger != self._identity or spent is None or spent.head != receipt.entry:
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
        if end is None and is_alive(str(spent.facts()["owner"])):
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


# --- who computes a release -----------------------------------------------------------------------
# Enough to tell a dead process from a busy one, no more. A wrong answer costs a wait or a clearer
# message, never a release: nothing here guards the budget.


def this_process() -> str:
    """Machine, process id and start of the process.

    >>> is_alive(this_process())
    True
    """
    return _name(os.getpid())


@lru_cache(maxsize=1)
def _name(pid: int) -> str:
    return f"{platform.node()}/{pid}/{_facts(pid)[1]}"


def is_alive(owner: str) -> bool:
    """Whether the process may still be at work; on other machines the answer is yes."""
    try:
        node, number, start = owner.rsplit("/", 2)
        pid = int(number)
    except ValueError:
        return False
    if node != platform.node() or os.name != "posix" or pid <= 0:
        return True
    try:
        os.kill(pid, 0)  # asks, sends nothing
    except ProcessLookupError:
        return False
    except OSError:
        pass
    state, started = _facts(pid)
    return state not in ("Z", "X") and (not start or not started or start == started)


def _facts(pid: int) -> tuple[str, str]:
    """State and start time (ticks since boot) of a process where the system tells them."""
    try:
        words = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()
        return words[0], words[19]
    except (OSError, IndexError):
        return "", ""
