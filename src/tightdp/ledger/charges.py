"""What a spend gives back: a receipt, and a block of code that must end with a stored release; and
who computes that release now."""

from __future__ import annotations

import os
import platform
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any, NamedTuple, Protocol

from tightdp.errors import LedgerError, fail
from tightdp.ledger.amounts import Budget


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
