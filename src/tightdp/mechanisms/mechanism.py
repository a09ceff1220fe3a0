"""The contract of every mechanism, and the one place where releases are paid for and published."""

from __future__ import annotations

import hashlib
import threading
import warnings
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from typing import Any, NamedTuple, Self

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.answer import Answer
from tightdp.data.one_pass import IntegerSum
from tightdp.data.table import Table
from tightdp.draft import Draft
from tightdp.errors import (
    FloatArray,
    LedgerError,
    PendingError,
    PublicFactWarning,
    check_confidence,
    check_flag,
    check_instance,
    fail,
    held_warnings,
)
from tightdp.ledger import Ledger
from tightdp.ledger.amounts import Budget
from tightdp.ledger.composition import protected
from tightdp.ledger.entries import FINGERPRINTS
from tightdp.mechanisms.simulated_previews import simulated_preview
from tightdp.parameters import Recorded
from tightdp.preview import Preview
from tightdp.printed import in_short
from tightdp.privacy import Guarantee, Neighbors, Numerics, float_up, text_up
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.release import Release
from tightdp.schema import Date, Interval, Schema

Finish = Callable[[Any, bool], Draft]  # of a table, and whether to show a bar

_LONGEST_LABEL = 500


class Purchase(NamedTuple):
    """Who pays for a release, under which key, at which level and with whose random bits.

    ``asked`` is a text that says what was asked for: stored with the release, so that a report can
    be made again from the ledger alone.
    """

    ledger: Ledger | None = None
    key: str | None = None
    confidence: float = 0.95
    rng: RandomLike = None
    asked: str | None = None


class Mechanism(Recorded, ABC):
    """What can be released: it says its law and its price, previews itself, draws and is read.

    Subclasses set ``epsilon`` (``delta``, ``numerics``), ``neighbors`` and ``names``, and say what
    they release (:attr:`law`), what it is called (:meth:`label`), which tables can be read
    (:meth:`check`) and how a release is drawn (:meth:`draw`). What tells requests apart is the law
    and all parameters of the constructor, whatever they are
    (:class:`~tightdp.parameters.Recorded`).

    Order of events: parameters are checked at construction, names and types of columns before
    anything is spent; the ledger is charged, rows are read, the release is drawn and stored. What
    fails after the charge stays paid for.
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)
    neighbors: Neighbors
    numerics: Numerics = Numerics.EXACT
    why: str = ""
    """Why this noise, for the reader of a report; nothing where its shape says it."""
    located: str = ""
    """How the name of an entry begins whose value is one of the column "{}": it may be a date."""
    summed: str = ""
    """The same of a sum of values of the column: it has their unit, and is no date."""
    in_rho: bool = False
    """Whether the promise is made in rho, so that epsilon is what it implies at delta."""

    def __repr__(self) -> str:
        owner = getattr(self, "statistic", self)
        names = getattr(self, "names", None) or getattr(owner, "names", None)
        if not isinstance(names, (tuple, list)):
            return f"<{type(self).__name__}: {self.guarantee()}>"
        return in_short(self, list(map(str, names)), self.guarantee())

    @property
    def picture(self) -> str:
        """How a report draws the answer: "bars" of counts, "rows", or rows on a public "range"."""
        return "rows"

    @property
    @abstractmethod
    def law(self) -> str:
        """The exact law of a release, in words."""

    @abstractmethod
    def label(self) -> str:
        """What a ledger calls the request."""

    @abstractmethod
    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        """Read the table and draw, without paying: for :meth:`release` and for simulations."""

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        """Draw what needs no rows, and give back the step that reads the table and does the rest.

        :meth:`release` draws in these two steps, :meth:`draw` is both of them at once.
        """
        return lambda table, progress: self.draw(table, rng, confidence, progress)

    def integer_sums(self) -> Sequence[IntegerSum]:
        """All that is read of the rows, where it is sums: they can share one reading of them."""
        return ()

    def __init_subclass__(cls, **options: object) -> None:
        super().__init_subclass__(**options)
        if "draw" in cls.__dict__ and "prepare" not in cls.__dict__:  # of another way of drawing
            cls.prepare = Mechanism.prepare  # type: ignore[method-assign]
            cls.integer_sums = Mechanism.integer_sums  # type: ignore[method-assign]

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error to expect, from public facts alone; costs nothing.

        Where it has no closed form, releases on made-up rows are simulated: the preview says so.
        """
        level, schema = check_confidence(confidence), self.public_facts()
        if schema is None:
            return self._silent(level, "a function of yours reads the table")
        return simulated_preview(self, schema, level)

    def _silent(self, confidence: float, reason: str) -> Preview:
        """Of what no public fact tells the error, or what has none."""
        names = tuple(getattr(getattr(self, "statistic", self), "names", ("value",)))
        level = check_confidence(confidence)
        return Preview.silent(names, level, self.guarantee(), self.law, reason)

    @property
    def source(self) -> Mechanism:
        """What draws: this mechanism, or another whose releases it only reads."""
        return self

    def read(self, release: Release) -> Release:
        """What is published of a release that was paid for and stored: all of it, by default."""
        return release

    def with_dates(self, release: Release) -> Release:
        """What is published of a stored release, with the dates that its numbers stand for.

        Of columns with a unit it is said in words what their numbers are in, and of persons who
        count alike that they do.
        """
        found, schema = self._in_units(release), self.public_facts()
        said = "" if schema is None else schema.counted_as
        if not said or said in found.units:
            return found
        return replace(found, units=f"{found.units}; {said}" if found.units else said)

    def _in_units(self, release: Release) -> Release:
        found, schema = self.read(release), self.public_facts()
        if schema is None or not (self.located or self.summed):
            return found
        dates: dict[str, str] = {}
        units = []
        for column, rule in schema.columns.items():
            dated = rule.first if isinstance(rule, Date) and self.located else None
            unit = rule.unit if isinstance(rule, Interval) else ""
            if dated is None and not unit:
                continue  # nothing to say, of most columns
            begin = (self.located or self.summed).format(column)
            own = [name for name in found.names if f"{name} |".startswith(begin)]
            if dated is not None:
                dates |= dict.fromkeys(own, str(dated))
            elif own:  # of dates: days since the first
                units.append(f"{column} in {unit}")
        said = found.units or ", ".join(units)
        return replace(found, dates=dates, units=said) if dates or units else found

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """What a person asked for, read off a release of this mechanism; costs nothing.

        Its intervals are those of the release: another level would need another release.
        """
        self._level(release, confidence)
        return Answer.of(release)

    def _level(self, release: Release, confidence: float | None) -> float:
        """The level of the release, which is the only one that it knows."""
        if confidence is not None and check_confidence(confidence) != release.confidence:
            fail(
                f"`confidence` must be that of the release, {release.confidence}: its intervals "
                "are known at that level."
            )
        return release.confidence

    def made_rows(self, release: Release) -> Mapping[str, NDArray[Any]] | None:
        """Columns of rows that are made from a release, for a file; None, by default, if none."""
        return None

    def check(self, frame: TableLike) -> None:
        """Raise if the table cannot be read, from names and types alone; nothing by default."""

    def shape_facts(self) -> list[str]:
        """What neither the law nor the parameters say to the last digit: the shape of the noise."""
        return []

    def draws_level(self) -> bool:
        """Whether what is drawn depends on the level of confidence: ends of a paid interval do."""
        return False

    def half_widths(self, confidence: float) -> FloatArray:
        """Simultaneous half-widths of all entries at a level; NaN, the default, where unknown."""
        return np.full(1, np.nan)

    def at_level(self, release: Release, confidence: float) -> Release:
        """A stored release at another level of confidence: its half-widths follow from the law."""
        if release.confidence == confidence:
            return release
        half = np.broadcast_to(self.half_widths(confidence), release.value.shape)
        return replace(release, half_width=half.copy(), confidence=confidence)

    def fingerprint(self, confidence: float = 0.95) -> str:
        """A digest of all that defines a request: the same key must mean the same digest.

        The level of confidence is part of it only where something is drawn for that level.
        """
        facts = [self.parameters, *self.shape_facts(), self.law]
        facts += [str(confidence)] * self.draws_level()
        text = "\n".join(facts).encode("utf-8", "surrogatepass")
        return FINGERPRINTS + hashlib.sha256(text).hexdigest()

    @property
    def given(self) -> str:
        """Between which neighbours alone the promise holds; nothing where it holds for all."""
        return ""

    def settled_options(self) -> dict[str, Any]:
        """Options that were left to the mechanism and depend on epsilon, as they were chosen."""
        return {}

    def at(self, epsilon: Number) -> Self:
        """The same mechanism at another epsilon."""
        return self.rebuilt(epsilon=epsilon)

    @property
    def cost(self) -> Cost:
        """What a release costs in every unit of privacy: epsilon and delta, rho and mu."""
        shares = [share * self.epsilon for share in self.exponential_shares()]
        return Cost.of(self.epsilon, self.delta, ranges=shares)

    def _price(self, ledger: Ledger) -> Cost | Budget:
        """What a ledger is told: it needs no other unit than epsilon if it adds epsilons."""
        adds = ledger.accountant == "sum"
        return Budget(self.epsilon, self.delta) if adds else self.cost

    def exponential_shares(self) -> Sequence[Fraction]:
        r"""Shares of epsilon of the draws of exponential mechanisms that a release consists of.

        Nothing where it does not, or is not known to. A draw with the share s has weights
        :math:`e^{r u}` and utilities that change by amounts in [a, b] between neighbours, with
        :math:`r(b - a) \le s\epsilon`: its log ratios lie in an interval of that length, which is
        worth a smaller rho (:meth:`Cost.of <tightdp.Cost.of>`).
        """
        return ()

    def guarantee(self, *, seeded: bool = False) -> Guarantee:
        """What a release promises."""
        return Guarantee(
            epsilon=float_up(self.epsilon),  # never less than what is spent
            delta=float_up(self.delta),
            neighbors=self.neighbors,
            numerics=self.numerics,
            seeded=seeded,
            rows_per_person=self.unit()[1],
            rho=float_up(self.cost.rho) if self.in_rho else None,
            given=self.given,
        )

    def public_facts(self) -> Schema | None:
        """The public facts of the rows; None where a function of the caller's reads the table."""
        return getattr(getattr(self, "statistic", self), "schema", None)

    def unit(self) -> tuple[str | None, int | None]:
        """The column that names a person and the rows used of one; None, None: a row."""
        schema = self.public_facts()
        return (None, None) if schema is None else (schema.person, schema.protected_rows)

    def _whom(self) -> str | None:
        """Whom a ledger notes as protected; None where only the caller knows.

        A promise to some neighbours only is noted as one, so that it is booked with its like alone.
        """
        if self.public_facts() is None:
            return None
        return short_label(f"{protected(self.unit()[0])} {self.given}".strip())

    def release(
        self,
        frame: TableLike,
        *,
        ledger: Ledger | None = None,
        key: str | None = None,
        confidence: float = 0.95,
        rng: RandomLike = None,
        progress: bool = False,
    ) -> Release:
        """Pay, read the data once, draw, and publish.

        With a ``key`` that the ledger already holds, the stored release comes back, at any level of
        ``confidence``, and nothing is spent; without a key every call is a new release and a new
        spend. Where an interval is drawn for its level, another level is another request.
        """
        check_flag("progress", progress)
        asked = Purchase(ledger, key, confidence, rng)
        with self.start(frame, **asked._asdict()) as started, held_warnings():
            return started.finish(progress=progress)

    def start(self, frame: TableLike, **options: Any) -> Started:
        """Check, pay, and draw what needs no rows: the first half of :meth:`release`.

        ``ledger``, ``key``, ``confidence`` and ``rng`` are those of a release.

        Releases that are all started before the first is finished can share one reading of the
        rows. Use it in a ``with`` block, which burns what is paid for and not finished.
        """
        ledger, key, confidence, rng, asked = Purchase(**options)  # and nothing misspelt
        level, bits = check_confidence(confidence), source(rng)
        guarantee = self.guarantee(seeded=bits.seeded)
        table = frame
        if not _known(ledger, key):
            table = self._opened(frame)
            self.check(table)
            if ledger is not None:
                ledger.check_room(self.numbers_released())
        with ExitStack() as stack:
            receipt: Mapping[str, Any] = {}
            store: Callable[[dict[str, Any]], Any] | None = None
            if ledger is not None:
                named: dict[str, Any] = {
                    "key": key,
                    "label": self.label(),
                    "protects": self._whom(),
                }
                named["fingerprint"] = self.fingerprint(level)
                exactly = self._price(ledger)
                charge = stack.enter_context(ledger.charge(guarantee, exactly=exactly, **named))
                if charge.stored is not None:
                    found = Release.from_dict(charge.stored)
                    return Started(self, stored=self.at_level(found, level))
                receipt, store = charge.receipt(), charge.store
            drawn = self.prepare(bits, level)

            def publish(rows: object, progress: bool) -> Release:
                release = Release.published(
                    drawn(rows, progress),
                    guarantee=guarantee,
                    noise=self.law,
                    confidence=level,
                    receipt=receipt,
                )
                if store is not None:
                    store(release.to_dict() | ({} if asked is None else {"asked": asked}))
                return release

            return Started(self, table, publish, stack.pop_all())

    def numbers_released(self) -> int:
        """How many numbers a release has, where that is public: of keys that nobody listed none."""
        names = getattr(getattr(self, "statistic", self), "names", ())
        return len(names) if isinstance(names, (tuple, list)) else 0

    def _opened(self, frame: TableLike) -> Any:
        """The table, opened once for all that follows; a function of the caller's gets its own."""
        schema = self.public_facts()
        if schema is None:
            return frame.frame if isinstance(frame, Table) else frame
        return Table.open(frame, schema)


class Started:
    """A release that is paid for and whose noise is drawn, if that needs no rows.

    Made by :meth:`Mechanism.start`. What the ledger held already is neither paid for nor read.

    Examples
    --------
    >>> from tightdp import AdditiveMechanism, Interval, Schema, Sums
    >>> schema = Schema({"x": Interval(0, 1)}, rows=2)
    >>> with AdditiveMechanism(Sums(schema), epsilon=1).start({"x": [0, 1]}) as started:
    ...     started.finish().names
    ('x',)
    """

    __slots__ = ("_lock", "_mechanism", "_publish", "_stack", "_stored", "_table")

    def __init__(
        self,
        mechanism: Mechanism,
        table: TableLike | None = None,
        publish: Callable[[Any, bool], Release] | None = None,
        stack: ExitStack | None = None,
        *,
        stored: Release | None = None,
    ) -> None:
        self._mechanism, self._table, self._publish = mechanism, table, publish
        self._stack = ExitStack() if stack is None else stack
        self._stored = stored
        self._lock = threading.Lock()

    @property
    def integer_sums(self) -> Sequence[IntegerSum]:
        """The sums that are still to be read: nothing if the ledger held the release."""
        return () if self._publish is None else self._mechanism.integer_sums()

    def finish(self, table: TableLike | None = None, *, progress: bool = False) -> Release:
        """Read the rows, draw the rest, store the release, and only then publish it.

        ``table`` stands for the one of the start, which may share its reading with others.
        """
        with held_warnings(), self._lock:  # of two threads one reads, both get its release
            if self._stored is None:
                if self._publish is None:
                    fail("A release is finished once.", LedgerError)
                publish, self._publish = self._publish, None
                with self._stack:
                    self._stored = publish(self._table if table is None else table, progress)
        return self._mechanism.with_dates(self._stored)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: Any) -> None:
        self._stack.__exit__(*raised)


def short_label(text: str) -> str:
    """A label that a ledger takes: a long one is cut, and told by a digest of the whole.

    >>> short_label("sums"), len(short_label("x" * 5000)) <= 1000
    ('sums', True)
    """
    if len(text) <= _LONGEST_LABEL:
        return text
    digest = hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]
    return f"{text[: _LONGEST_LABEL - 40]}... ({digest})"


def warn_of_delta(delta: Fraction, schema: Schema) -> None:
    """A delta of 1/n allows to publish one of n rows as it is; n is spoken of if public.

    To be called by ``check``: the warning points to who called ``release``.
    """
    if schema.neighbors is Neighbors.REPLACE_ONE and delta * schema.rows > 1:
        warnings.warn(
            f"`delta` = {text_up(delta)} is more than 1 / {schema.rows}: so much would allow to "
            "publish somebody's row as it is. State a delta far below 1 / rows.",
            PublicFactWarning,
            stacklevel=5,
        )


def _known(ledger: object, key: str | None) -> bool:
    """Whether the ledger holds the release of the key, or will in a moment."""
    if key is not None:
        check_instance("key", key, str, words="a text")
    if ledger is None:
        if key is not None:
            fail("`key` needs a `ledger` that remembers it.")
        return False
    book = check_instance("ledger", ledger, Ledger, "open it with tdp.Ledger")
    try:
        return key is not None and book.find(key) is not None
    except PendingError:
        return True


class Reading(Mechanism):
    """Base: the release is that of ``source``; previews and answers are the subclass's own.

    **Privacy.** As for the source: what is read off a release, and public facts, costs nothing.

    The request that a ledger remembers is the source's: readings that differ only in what they make
    of a release share it, and the second one is free.
    """

    @property
    @abstractmethod
    def source(self) -> Mechanism:
        """What is paid for and draws."""

    def _take_price(self) -> None:
        """Promise what the source promises; to be called when it is made."""
        source = self.source
        self.epsilon, self.delta = source.epsilon, source.delta
        self.neighbors, self.numerics = source.neighbors, source.numerics
        self.in_rho = source.in_rho

    @property
    def cost(self) -> Cost:
        return self.source.cost

    @property
    def law(self) -> str:
        return self.source.law

    @property
    def given(self) -> str:
        return self.source.given

    def label(self) -> str:
        return self.source.label()

    def fingerprint(self, confidence: float = 0.95) -> str:
        return self.source.fingerprint(confidence)

    def at_level(self, release: Release, confidence: float) -> Release:
        return self.source.at_level(release, confidence)

    def check(self, frame: TableLike) -> None:
        self.source.check(frame)

    def integer_sums(self) -> Sequence[IntegerSum]:
        return self.source.integer_sums()

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        return self.source.prepare(rng, confidence)

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.source.draw(frame, rng, confidence, progress)
