"""The side of a ledger that only looks: what is spent, by what, and whether it all holds; its
history, as text and as HTML."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from pathlib import Path
from typing import Any

from tightdp.accepted import Number
from tightdp.accounting.costs import Cost
from tightdp.errors import (
    LedgerError,
    amount_within,
    check_count,
    check_instance,
    fail,
    fraction_within,
    visible,
)
from tightdp.ledger import charges
from tightdp.ledger.amounts import SYMBOLS, Budget, Remaining, from_text, shown
from tightdp.ledger.charges import Receipt
from tightdp.ledger.entries import Head, Terms
from tightdp.ledger.store import Store, Transaction
from tightdp.ledger.tight_epsilon import tight_epsilon
from tightdp.ledger.verification import verify
from tightdp.printed import html_facts, html_table, text_facts, text_table
from tightdp.privacy import Neighbors, float_up, marks, text_up

_LEFT = {1, 2, 3, 6, 7}
_WIDEST = 40


@dataclass(frozen=True, slots=True)
class HistoryRow:
    """One spend: when, what for, what it cost, and whether its release is ``stored``, ``burned``
    or ``pending``; ``asked`` is the epsilon and delta of its guarantee, under ``neighbors``, and
    ``protects`` says for whom."""

    entry: int
    time: str
    label: str
    key: str | None
    cost: Budget
    partition: tuple[str, str] | None
    seeded: bool
    state: str
    approximate: bool = False
    fingerprint: str = ""
    asked: Budget | None = None
    neighbors: Neighbors | None = None
    protects: str | None = None

    def cells(self) -> tuple[str, ...]:
        """What the table shows."""
        return (
            str(self.entry),
            self.time,
            visible(self.label, _WIDEST),
            visible(self.key or "", _WIDEST),
            text_up(self.cost.amount),
            text_up(self.cost.delta),
            visible("/".join(self.partition), _WIDEST) if self.partition else "",
            ", ".join([self.state, *marks(self.seeded, self.approximate)]),
        )


class LedgerView:
    """What can be asked of a ledger without writing to it."""

    _store: Store
    _terms: Terms
    _identity: str

    # --- what it was made with ------------------------------------------------------------------

    @property
    def caps(self) -> Budget:
        """The most that may be spent, as it was stated: an epsilon and a delta, or a rho."""
        cap = self._terms.cap
        if cap.epsilon is None or cap.delta is None:
            return self._terms.caps
        return Budget(cap.epsilon, cap.delta)

    @property
    def accountant(self) -> str:
        """What is added up: "sum" of epsilons, "zcdp" of rho, "gaussian" of mu**2."""
        return self._terms.cap.accountant

    @property
    def neighbors(self) -> Neighbors:
        """The neighbour relation that the caps speak of."""
        return self._terms.neighbors

    @property
    def allow_seeded(self) -> bool:
        """Whether seeded releases, which are not private, are let in."""
        return self._terms.allow_seeded

    @property
    def allow_approximate(self) -> bool:
        """Whether releases are let in whose law is only approached: epsilon is not proved."""
        return self._terms.allow_approximate

    @property
    def path(self) -> Path | None:
        """The file, or None for a ledger in memory."""
        return self._store.place

    @property
    def identity(self) -> str:
        """A random name that tells this ledger from every other one."""
        return self._identity

    # --- looking --------------------------------------------------------------------------------

    @property
    def protects(self) -> str | None:
        """Whom the spends so far protect: rows, or the persons in a column; None if none says."""
        with self._store.read() as look:
            return look.protects()

    @property
    def spent(self) -> Budget:
        """The sum of everything spent so far, burned spends included, in the ledger's unit."""
        with self._store.read() as look:
            return look.last().amount("total")

    @property
    def remaining(self) -> Remaining:
        """What is left of the caps: in the ledger's unit, and what that is in the others."""
        left = self._terms.caps - self.spent
        return Remaining(left.amount, left.delta, left.unit, self._terms.cap)

    def how_many(self, cost: Cost) -> int:
        """How many more releases of this cost fit.

        >>> from fractions import Fraction
        >>> from tightdp.ledger import Ledger
        >>> noise = Cost.gaussian(Fraction(1, 900), delta=1e-6)  # a count, standard deviation 30
        >>> for accountant in ("sum", "zcdp", "gaussian"):
        ...     Ledger(epsilon=3, delta=1e-6, accountant=accountant).how_many(noise)
        1
        333
        377
        """
        check_instance("cost", cost, Cost)
        amount, delta = self._terms.cap.booked(cost)
        if amount <= 0 and delta <= 0:
            fail("`cost` must be more than nothing: of what costs nothing any number fits.")
        left = self.remaining
        parts = ((left.amount, amount), (left.delta, delta))
        return max(0, min(math.floor(have / need) for have, need in parts if need > 0))

    def how_many_counts(self, std: Number) -> int:
        """How many more counts with noise of this standard deviation fit.

        A count moves by 1 between neighbours. It gets the integer noise that this ledger books
        best: geometric where epsilons are added, discrete Gaussian for rho, rounded Gaussian for
        mu**2, whose variance has a twelfth for the rounding.

        >>> from tightdp.ledger import Ledger
        >>> [Ledger(epsilon=3, delta=1e-6, accountant=accountant).how_many_counts(30)
        ...  for accountant in ("sum", "zcdp", "gaussian")]
        [63, 333, 377]
        """
        variance = fraction_within("std", std, "[1, 2**40]", "in counts") ** 2
        if self.accountant == "sum":
            return self.how_many(Cost.of(_geometric_epsilon(variance)))
        lost = Fraction(1, 10**6)  # where epsilon would be read off: it enters nothing here
        if self.accountant == "zcdp":
            return self.how_many(Cost.concentrated(1 / (2 * variance), delta=lost))
        return self.how_many(Cost.gaussian(1 / (variance - Fraction(1, 12)), delta=lost))

    def odometer(self, delta: Number | None = None) -> Fraction:
        """An epsilon of which it holds, at all times at once, that no more was lost so far.

        It may be read at any moment, also one that the answers chose: outside of an event of chance
        ``delta``, fixed beforehand, the privacy loss was never above what this said. By default
        delta is the cap's. It is above what the same spends would cost in a plan
        (:meth:`tight_epsilon`); :mod:`tightdp.accounting.caps` has the proof.

        >>> from tightdp.ledger import Ledger
        >>> ledger = Ledger(epsilon=3, delta=1e-6, accountant="zcdp")
        >>> receipt = ledger.spend(0.1)
        >>> round(float(ledger.odometer()), 2)
        0.58
        """
        cap, spent = self._terms.cap, self.spent
        given = cap.delta if delta is None else delta
        if given is None:
            fail("`delta` must be given: the ledger has a cap on rho, which has none.")
        known = amount_within("delta", given, "[0, 1)")
        found = cap.odometer(spent.amount, spent.delta, known)
        if found is None:
            fail(
                "`delta` must be above that which the ledger keeps for releases with one of their "
                f"own, {shown(cap.slack)}. Got {delta}."
            )
        return found

    @property
    def head(self) -> Head:
        """Number and hash of the last entry: note them elsewhere, and no entry can be undone."""
        with self._store.read() as look:
            return look.last().head

    def history(self) -> list[HistoryRow]:
        """Every spend, first to last."""
        with self._store.read() as look:
            return _rows(look, "WHERE kind = 'spend' ORDER BY number")

    def stored(self, entry: int) -> dict[str, Any] | None:
        """The release that a spend was stored with, by the number of its entry; None without one.

        >>> from tightdp.ledger import Ledger
        >>> ledger = Ledger(epsilon=1)
        >>> receipt = ledger.spend(0.5)
        >>> _ = ledger.store(receipt, {"value": 3})
        >>> ledger.stored(receipt.entry.counter)
        {'value': 3}
        """
        with self._store.read() as look:
            end = look.end_of(check_count("entry", entry))
        found = end is not None and end.kind == "release"
        return dict(end.facts()["record"]) if found and end is not None else None

    def verify(self, *receipts: Receipt | Mapping[str, Any] | Head) -> Head:
        """Re-check hash chain, sums, caps and guards, and that every given receipt is in it.

        Returns the head, or raises a :class:`LedgerError` that names the first thing wrong. Only
        receipts or heads kept elsewhere can show that a whole file was put back to an earlier day.
        """
        heads = [_head(receipt, self.identity) for receipt in receipts]
        with self._store.read() as look:
            return verify(look, heads)

    def tight_epsilon(self, delta: Number) -> float:
        """An epsilon for which everything spent so far is (epsilon, delta)-private.

        For many small spends it is well below their sum. It holds if the amounts did not depend on
        earlier answers, and it is for reports only: the caps are kept by sums. Where epsilons are
        added it needs the extra ``accounting``; rounded up, never down.

        >>> from tightdp.ledger import Ledger
        >>> ledger = Ledger(epsilon=10)
        >>> for _ in range(3): receipt = ledger.spend(1)
        >>> ledger.tight_epsilon(0)
        3.0
        """
        target, cap = amount_within("delta", delta, "[0, 1)"), self._terms.cap
        if cap.accountant != "sum":
            spent = self.spent
            worth = cap.epsilon_at(spent.amount, spent.delta, target)
            return math.inf if worth is None else float_up(worth)
        with self._store.read() as look:
            entries = look.selected("WHERE kind = 'spend' ORDER BY number")
        parts = [entry.amount() for entry in entries if entry.partition is None]
        largest = {e.partition: e.amount("partition") for e in entries if e.partition is not None}
        return tight_epsilon([*parts, *largest.values()], target)

    def table(self, latest: int = 10) -> str:
        """The terms, what is spent and left, and the latest spends, as text."""
        return as_text(*self._table(check_count("latest", latest)))

    def _table(self, latest: int = 10) -> tuple[list[tuple[str, str]], list[HistoryRow], int]:
        with self._store.read() as look:
            rows = _rows(look, f"WHERE kind = 'spend' ORDER BY number DESC LIMIT {latest}")[::-1]
            ((count,),) = look.pragma("SELECT count(*) FROM entries WHERE kind = 'spend'")
            spent, whom = look.last().amount("total"), look.protects()
        terms = self._terms.brief() + ("" if whom in (None, "rows") else f", for {whom}")
        return summary(terms, spent, self._terms.caps - spent), rows, int(count)

    def __str__(self) -> str:
        return self.table()

    def __repr__(self) -> str:
        where = "in memory" if self.path is None else str(self.path)
        return f"<Ledger {where}: {self._terms.brief()}>"

    def _repr_html_(self) -> str:
        return as_html(*self._table())


def _rows(look: Transaction, where: str) -> list[HistoryRow]:
    rows = []
    for entry in look.selected(where):
        end, facts = look.end_of(entry.number), entry.facts()
        alive = end is None and charges.is_alive(str(facts["owner"]))
        state = "pending" if alive else "burned"
        place = (entry.partition, entry.cell or "") if entry.partition is not None else None
        rows.append(
            HistoryRow(
                entry=entry.number,
                time=entry.time,
                label=str(facts["label"]),
                key=entry.key,
                cost=entry.amount(),
                partition=place,
                seeded=bool(facts["seeded"]),
                approximate=bool(facts.get("approximate", False)),
                state="stored" if end is not None and end.kind == "release" else state,
                fingerprint=str(facts.get("fingerprint", "")),
                asked=Budget(
                    from_text(facts["asked"]["epsilon"]), from_text(facts["asked"]["delta"])
                ),
                neighbors=Neighbors.of(facts["neighbors"]),
                protects=facts.get("protects"),
            )
        )
    return rows


def _head(receipt: object, identity: str) -> Head:
    if isinstance(receipt, Head):
        return receipt
    if isinstance(receipt, Receipt):
        receipt = receipt.to_dict()
    if not isinstance(receipt, Mapping) or not {"ledger", "entry", "hash"} <= set(receipt):
        fail("A receipt must be a Receipt, its dictionary, or a Head.")
    if receipt["ledger"] != identity:
        fail("The receipt is of another ledger: verify it there.", LedgerError)
    return Head(int(receipt["entry"]), str(receipt["hash"]))


# --- for people -----------------------------------------------------------------------------------


def summary(terms: str, spent: Budget, left: Budget) -> list[tuple[str, str]]:
    """The lines above the table."""
    return [("ledger", terms), ("spent", spent.text(20)), ("remaining", left.text(20, left=True))]


def as_text(lines: Sequence[tuple[str, str]], rows: Sequence[HistoryRow], count: int) -> str:
    """The summary and the latest of ``count`` spends."""
    text = text_facts(lines)
    if not rows:
        return "\n".join(text)
    head, rule, *body = text_table(history_cells(rows), left=_LEFT)
    return "\n".join([*text, "", head, rule, *_earlier(rows, count), *body])


def as_html(lines: Sequence[tuple[str, str]], rows: Sequence[HistoryRow], count: int) -> str:
    """The same for a notebook."""
    facts = html_facts(lines)
    if not rows:
        return facts
    return facts + html_table(history_cells(rows), *_earlier(rows, count))


def history_cells(rows: Sequence[HistoryRow]) -> list[tuple[str, ...]]:
    """A heading, and the cells of every spend; of at least one."""
    unit = SYMBOLS[rows[0].cost.unit]
    head = ("entry", "time", "label", "key", unit, "delta", "part", "release")
    return [head, *(row.cells() for row in rows)]


def _geometric_epsilon(variance: Fraction) -> Fraction:
    """An epsilon whose geometric noise has at most this variance, 2 q / (1 - q)^2, q = e^-epsilon.

    That is 1/(cosh(epsilon) - 1), and cosh(x) - 1 = 2 sinh(x/2)^2.
    """
    near = Fraction(2 * math.asinh(1 / math.sqrt(2 * float(variance))))
    return near * (1 + Fraction(1, 1 << 40))


def _earlier(rows: Sequence[HistoryRow], count: int) -> list[str]:
    return [f"... and {count - len(rows)} earlier"] if count > len(rows) else []
