"""A budget that is spent before data are read, and remembers every release.

A ledger has caps on epsilon and delta, adds up what is spent, and stores each release under its
key, so that the same request gets the same answer. What was spent stays spent, also when a
computation fails. A ledger never looks at data.
"""

from __future__ import annotations

import os
import threading
from collections.abc import Iterable
from functools import partial
from typing import Any, Self

from tightdp.accepted import Number
from tightdp.accounting.costs import Cost
from tightdp.errors import (
    LedgerError,
    check_flag,
    check_instance,
    check_positive,
    fail,
)
from tightdp.ledger import charges, files, store
from tightdp.ledger.amounts import (
    Budget,
    check_amount,
    check_any_cap,
    nothing,
    unrounded,
)
from tightdp.ledger.charges import Charge, LedgerReleases, Receipt
from tightdp.ledger.composition import (
    Partition,
    advance,
    agreed_unit,
    check_place,
    protected,
    refuse,
    refuse_slack,
)
from tightdp.ledger.entries import Asked, Entry, Head, Terms, check_key, check_text, now
from tightdp.ledger.store import Store, Transaction
from tightdp.ledger.views import LedgerView
from tightdp.parameters import tells_arguments
from tightdp.privacy import Guarantee, Neighbors
from tightdp.randomness import SecureSource


@tells_arguments
class Ledger(LedgerReleases, LedgerView):
    """A privacy budget with a memory, in a file shared by many processes or in memory.

    Amounts are exact rationals. A float means its shortest decimal: ten spends of ``0.1`` are 1.

    Parameters
    ----------
    epsilon, delta : int, float, Fraction or Decimal
        What all releases together may cost.
    rho : int, float, Fraction or Decimal, optional
        A cap on rho instead, of zero-concentrated DP.
    accountant : {"sum", "zcdp", "gaussian"}
        What is added up: epsilons and deltas; rho, for many releases of any kind; or mu**2, for
        many with exactly Gaussian noise. All three hold when the next question depends on the last
        answer (:mod:`tightdp.accounting.caps`), and which is best depends on the releases: see
        :meth:`how_many`. By default "sum", and "zcdp" for a cap on rho.
    slack : int, float, Fraction or Decimal
        With "zcdp" and "gaussian": the part of delta that is kept for releases with a delta of
        their own, such as truncated Laplace noise; Gaussian noise needs none. Of a cap on rho, the
        delta beside it.
    path : path, optional
        A SQLite file on a local disk, made if it is not there. An existing one must have been made
        with the same caps, neighbours and permissions. None keeps the ledger in memory.
    neighbors : {"replace-one", "add-remove"}
        The relation that the caps speak of. A replace-one ledger takes add-remove guarantees at
        twice their epsilon and four times their rho; an add-remove ledger refuses replace-one
        guarantees.
    allow_seeded : bool
        Whether releases with seeded noise, which are not private, are let in (for tests).
    allow_approximate : bool
        Whether releases drawn by a Markov chain are let in, which only approach the law that their
        epsilon is proved for. Each is marked; what the ledger adds up is then not proved.
    timeout : float
        Seconds to wait for other processes, to write or for the release of a key.

    Examples
    --------
    >>> import tightdp as tdp
    >>> ledger = Ledger(epsilon=1, delta=1e-6)
    >>> with ledger.charge(tdp.Guarantee(epsilon=0.25), key="mean age", label="mean") as charge:
    ...     if charge.stored is None:                     # nobody has asked this before
    ...         answer = charge.store({"value": 41.5})    # compute, store, and only then publish
    >>> ledger.find("mean age"), ledger.remaining.epsilon
    ({'value': 41.5}, Fraction(3, 4))
    >>> ledger.spend(1)
    Traceback (most recent call last):
    ...
    tightdp.errors.BudgetError: The budget does not cover the request. Nothing was spent.
      Requested:  epsilon = 1, delta = 0
      Remaining:  epsilon = 0.75, ...
      Difference: epsilon = 0.25, delta = 0
    Ask for less, or reuse a stored release by its key.
    """

    def __init__(
        self,
        epsilon: Number | None = None,
        delta: Number = 0,
        *,
        rho: Number | None = None,
        accountant: str | None = None,
        slack: Number = 0,
        path: str | os.PathLike[str] | None = None,
        neighbors: str | Neighbors = "replace-one",
        allow_seeded: bool = False,
        allow_approximate: bool = False,
        timeout: float = 30.0,
    ) -> None:
        terms = Terms(
            check_any_cap(accountant, epsilon=epsilon, delta=delta, rho=rho, slack=slack),
            Neighbors.of(neighbors),
            check_flag("allow_seeded", allow_seeded),
            check_flag("allow_approximate", allow_approximate),
        )
        patience = check_positive("timeout", timeout)
        first = now(), terms.caps, terms.body(SecureSource().words(2).tobytes().hex())
        if path is None:
            self._begin(store.open_memory(*first), patience)
            return
        place = files.check_place(path)
        if not place.exists():
            store.make_file(place, *first)
        self._begin(store.open_file(place, patience), patience)
        try:
            self._terms.check_same(terms, str(place))
        except LedgerError:
            self.close()
            raise

    @classmethod
    def open(
        cls, path: str | os.PathLike[str], *, timeout: float = 30.0, read_only: bool = False
    ) -> Self:
        """Open an existing file with the terms it was made with.

        With ``read_only`` nothing is written and nothing can be spent: for looking at a ledger, and
        verifying it, where its file or folder cannot be written.
        """
        patience, place = check_positive("timeout", timeout), files.check_place(path)
        if not place.exists():
            fail(f"`path` must name an existing ledger. Got {place}, which is not there.")
        ledger = cls.__new__(cls)
        entries = store.open_to_read if check_flag("read_only", read_only) else store.open_file
        ledger._begin(entries(place, patience), patience)
        return ledger

    def _begin(self, opened: Store, timeout: float) -> None:
        self._store, self._timeout = opened, timeout
        self._partitions: dict[str, Partition] = {}
        self._mine = {}
        try:
            with self._store.read() as look:
                first = look.entry(1)
                if first is None:
                    fail("The ledger is empty: the file is damaged.", LedgerError)
                self._terms = Terms.of(first)
                self._identity = str(first.facts()["identity"])
        except LedgerError:
            opened.close()
            raise

    # --- spending -------------------------------------------------------------------------------

    def declare_partition(
        self,
        name: str,
        cells: Iterable[str | int],
        *,
        fixed: bool,
        person: str | None = None,
    ) -> None:
        """Declare the cells of a public partition, once and for ever.

        Spends with ``partition=(name, cell)`` count by the largest sum of a cell. That is right if
        nobody who is protected is in two cells; :mod:`tightdp.ledger.composition` has the proof.

        Parameters
        ----------
        name : str
        cells : iterable of str or int
            All cells. They are public facts: never read them off the data.
        fixed : bool
            True if the cell of every row is public and a replacement keeps it (a split by row
            number): for replace-one ledgers only. False if it is read off the row (a region): then
            only add-remove guarantees compose, at twice their epsilon in a replace-one ledger,
            since a replaced row may leave one cell and enter another.
        person : str, optional
            The column that names persons, if **all rows of a person lie in one cell**: for releases
            that protect persons. None: the cells tell rows apart, and such releases, which may have
            rows of one person in several cells, are refused.

        Examples
        --------
        >>> ledger = Ledger(epsilon=1, neighbors="add-remove")
        >>> ledger.declare_partition("region", ["north", "south"], fixed=False)
        >>> _ = ledger.spend(0.5, partition=("region", "north"))
        >>> _ = ledger.spend(0.75, partition=("region", "south"))
        >>> ledger.spent.epsilon
        Fraction(3, 4)
        """
        asked = Partition.declared(name, cells, fixed, person, self.neighbors)
        with self._store.write() as change:
            known = change.partition(name)
            if known is not None:
                Partition.of(known).check_same(asked)
                return
            total = {"total": change.last().amount("total")}
            change.append("partition", now(), asked.body(), partition=name, amounts=total)

    def charge(
        self,
        guarantee: Guarantee,
        *,
        exactly: Cost | Budget | None = None,
        key: str | None = None,
        label: str = "",
        fingerprint: str = "",
        partition: tuple[str, str | int] | None = None,
        protects: str | None = None,
    ) -> Charge:
        """A block that pays for a guarantee and must end with ``charge.store(record)``.

        See :class:`Charge`; the other options are those of :meth:`spend`.

        Parameters
        ----------
        guarantee : Guarantee
        exactly : Cost or Budget, optional
            The cost in every unit, or the epsilon and delta, that those of the guarantee, which
            are floats, were rounded up from: three releases at 1/3 cost 1. Without a cost the
            release is booked at what its epsilon and delta imply.
        """
        check_instance("guarantee", guarantee, Guarantee)
        stated = check_amount(guarantee.epsilon, guarantee.delta)
        if exactly is not None:
            if not isinstance(exactly, (Cost, Budget)):
                fail(f"`exactly` must be a Cost or a Budget. Got {type(exactly).__name__}.")
            stated = unrounded(stated, Budget(exactly.epsilon, exactly.delta))
        price: tuple[Number | Cost, Number] = stated.epsilon, stated.delta
        if isinstance(exactly, Cost):
            price = exactly, 0
        if protects is None and guarantee.rows_per_person is not None:
            fail(
                '`protects` must say which persons the guarantee is about, such as "persons in '
                "column 'id'\". Got None: a ledger adds up guarantees for the same persons only."
            )
        if protects is None and partition is not None:
            protects = protected(None)  # the guarantee says that it is about rows
        pay = partial(
            self.spend,
            *price,
            key=key,
            label=label,
            fingerprint=fingerprint,
            partition=partition,
            seeded=guarantee.seeded,
            approximate=guarantee.approximate,
            neighbors=guarantee.neighbors,
            protects=protects,
        )
        return Charge(self, pay)

    def spend(
        self,
        epsilon: Number | Cost,
        delta: Number = 0,
        *,
        key: str | None = None,
        label: str = "",
        fingerprint: str = "",
        partition: tuple[str, str | int] | None = None,
        seeded: bool = False,
        approximate: bool = False,
        neighbors: str | Neighbors | None = None,
        protects: str | None = None,
    ) -> Receipt:
        """Pay before data are read; the receipt is needed to :meth:`store` the release.

        Parameters
        ----------
        epsilon, delta : int, float, Fraction or Decimal
            What the release guarantees; or, in the place of epsilon, its :class:`~tightdp.Cost`.
        key : str, optional
            The name of the request. If it is known, nothing is spent and ``receipt.stored`` is the
            release it got; one that is being computed elsewhere is waited for.
        label, fingerprint : str
            What the release is, for people, and a digest of its public parameters. A known key with
            another label or fingerprint is refused. Neither may depend on the data.
        partition : (name, cell), optional
            A cell of a partition declared by :meth:`declare_partition`.
        seeded : bool
            Whether the noise comes from a seed.
        approximate : bool
            Whether the law of the noise is only approached, by a Markov chain.
        neighbors : optional
            The relation of the guarantee; the ledger's own by default.
        protects : str, optional
            Whom the guarantee is about: ``"rows"``, or such as ``"persons in column 'id'"``. All
            spends of a ledger protect the same; by default whom those before it do, and in a
            partition whom its cells tell apart.
        """
        name = check_key(key)
        request = self._request(
            epsilon,
            delta,
            label=label,
            fingerprint=fingerprint,
            partition=partition,
            seeded=seeded,
            approximate=approximate,
            neighbors=neighbors,
            protects=protects,
        )
        price = self._terms.price(request.asked, request.cost, request.neighbors)
        with self._store.write() as change:
            store._checkpoint("begun")
            known = None if name is None else change.with_key(name)
            if known is None:
                if self.path is not None:
                    files.check_room(self.path)
                paid = self._pay(change, request, price, name)
                store._checkpoint("inserted")
        if known is not None and name is not None:
            request.check_same(known, name)
            return self._receipt(known, self._await(known, name))
        store._checkpoint("committed")
        if name is not None:
            self._mine[paid.number] = threading.get_ident()
        return self._receipt(paid, None)

    def _request(
        self,
        epsilon: Number | Cost,
        delta: Number = 0,
        *,
        label: str = "",
        fingerprint: str = "",
        partition: tuple[str, str | int] | None = None,
        seeded: bool = False,
        approximate: bool = False,
        neighbors: str | Neighbors | None = None,
        protects: str | None = None,
    ) -> Asked:
        given = self.neighbors if neighbors is None else Neighbors.of(neighbors)
        self._terms.check_allowed(
            check_flag("seeded", seeded), check_flag("approximate", approximate)
        )
        asked, whole = self._terms.asked(epsilon, delta)
        texts = check_text("label", label), check_text("fingerprint", fingerprint)
        unit = None if protects is None else check_text("protects", protects)
        part, cell = check_place(partition)
        return Asked(asked, given, seeded, *texts, part, cell, unit, approximate, whole)

    def check_same(self, key: str, epsilon: Number | Cost, delta: Number = 0, **terms: Any) -> None:
        """Refuse if the key was used for another request than :meth:`spend` is about to get.

        Nothing is spent, and nothing is waited for; ``terms`` are the options of :meth:`spend`.

        Examples
        --------
        >>> ledger = Ledger(epsilon=1)
        >>> receipt = ledger.spend(0.25, key="mean age", label="mean")
        >>> ledger.check_same("mean age", 0.25, label="mean")
        >>> ledger.check_same("mean age", 0.5, label="mean")
        Traceback (most recent call last):
        ...
        tightdp.errors.ParameterError: `key` must name one request. Got 'mean age', which ...
        """
        request, name = self._request(epsilon, delta, **terms), check_key(key)
        with self._store.read() as look:
            known = None if name is None else look.with_key(name)
        if known is not None:
            request.check_same(known, key)

    def _pay(self, change: Transaction, request: Asked, price: Budget, key: str | None) -> Entry:
        last = change.last().amount("total")
        before: list[Budget] = []
        unit = agreed_unit(change.protects(), request.protects)
        if request.partition is not None and request.cell is not None:
            part = self._partition(change, request.partition)
            part.check_use(request.cell, request.neighbors, unit.get("protects"))
            unit = {"protects": part.unit}  # from now on all spends must
            cell = change.last_in(request.partition, request.cell)
            whole = change.last_in(request.partition)
            before = [
                nothing(price.unit) if cell is None else cell.amount("cell"),
                nothing(price.unit) if whole is None else whole.amount("partition"),
            ]
        amounts = advance(last, price, *before)
        caps = self._terms.caps
        if not amounts["total"].fits(caps):
            if amounts["total"].delta > caps.delta and self._terms.cap.accountant != "sum":
                refuse_slack(price, caps - last)
            refuse(amounts["total"] - last, caps - last)
        return change.append(
            "spend",
            now(),
            request.body(charges.this_process()) | unit,
            key=key,
            partition=request.partition,
            cell=request.cell,
            amounts=amounts,
        )

    def _partition(self, look: Transaction, name: str) -> Partition:
        if name not in self._partitions:
            entry = look.partition(name)
            if entry is None:
                fail(
                    f"`partition` must be declared before it is used. Got {name!r}: call "
                    "`ledger.declare_partition` with all its cells."
                )
            self._partitions[name] = Partition.of(entry)
        return self._partitions[name]

    def _receipt(self, entry: Entry, stored: dict[str, Any] | None) -> Receipt:
        return Receipt(
            ledger=self.identity,
            entry=entry.head,
            cost=entry.amount(),
            remaining=self._terms.caps - entry.amount("total"),
            key=entry.key,
            label=str(entry.facts()["label"]),
            stored=stored,
        )

    # --- life -----------------------------------------------------------------------------------

    def close(self) -> None:
        """Close the file. A ledger in memory is gone."""
        self._store.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        self.close()

    def __reduce__(self) -> tuple[Any, ...]:
        """A ledger in a file travels as the name of the file: whoever opens it pays there too."""
        if self.path is None:
            fail(
                "A ledger in memory cannot be pickled, copied or sent to another process (n_jobs "
                "above 1): its copy would spend the same budget again. Keep it in a file (`path=`),"
                " which processes share, or stay in one process: n_jobs=1, or "
                "`joblib.parallel_config(backend='threading')`.",
                LedgerError,
            )
        opened = {"timeout": self._timeout, "read_only": self._store.read_only}
        return _reopened, (type(self), str(self.path), self.identity, opened, self._store.seen)


def _reopened(
    kind: type[Ledger], path: str, identity: str, opened: dict[str, Any], seen: Head
) -> Ledger:
    """The ledger of that file, if it is still the same one and no older than it was."""
    ledger = kind.open(path, **opened)
    if ledger.identity != identity:
        ledger.close()
        fail(
            f"The file {path} holds another ledger than the one that was pickled or copied: open "
            "the right one with Ledger.open(path).",
            LedgerError,
        )
    try:
        with ledger._store.read() as look:
            look.check_holds(seen)
    except LedgerError:
        ledger.close()
        raise
    return ledger
