"""One release that is asked for, of a kind that the registry knows."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.answer import Answer
from tightdp.data.table import check_frame
from tightdp.errors import (
    BudgetError,
    FloatArray,
    LedgerError,
    check_choice,
    check_flag,
    fail,
    held_warnings,
)
from tightdp.ledger import Ledger, Receipt
from tightdp.mechanisms.mechanism import Mechanism, Started
from tightdp.named_arguments import unknown_key
from tightdp.preview import Preview
from tightdp.privacy import Guarantee, check_epsilon, text_up
from tightdp.randomness import RandomLike
from tightdp.registry import KINDS, Kind, kinds_with
from tightdp.schema import Schema


class _Rehearsal(Ledger):
    """A ledger that covers nothing and notes what it is asked for.

    The table is not looked at where the release is ``known``: it is not read again either.
    """

    known: bool
    asked: dict[str, Any]
    adds: str = "sum"

    @property
    def accountant(self) -> str:
        """That of the ledger for which this is a rehearsal."""
        return self.adds

    def find(self, key: str) -> dict[str, Any] | None:
        return {} if self.known else None

    def spend(self, epsilon: Number | Cost, delta: Number = 0, **terms: Any) -> Receipt:
        self.asked = {"epsilon": epsilon, "delta": delta} | terms
        del self.asked["key"]
        return super().spend(epsilon, delta, **terms)


@dataclass(frozen=True, slots=True, eq=False)
class Request:
    """One release that is asked for: its kind, public facts, epsilon and options.

    Made by :func:`request` or by a plan. It can be previewed, asked again at another epsilon, and
    released on a table.
    """

    kind: Kind
    schema: Schema
    epsilon: Fraction
    options: dict[str, Any]
    _made: list[Mechanism] = field(default_factory=list)
    _asked: dict[float, dict[str, Any]] = field(default_factory=dict)
    made: Callable[[Fraction], Mechanism] | None = None
    """What makes the mechanism at an epsilon, where it is not the kind alone."""

    def __repr__(self) -> str:
        options = ", ".join(f"{name}={value!r}" for name, value in self.options.items())
        return f"<Request {self.kind.name}({options}) at epsilon = {text_up(self.epsilon)}>"

    @property
    def mechanism(self) -> Mechanism:
        """What is released, made when first needed."""
        if not self._made:
            build = self.made or partial(self.kind.build, self.schema, self.options)
            self._made.append(build(self.epsilon))
        return self._made[0]

    @property
    def columns(self) -> tuple[str, ...]:
        """The columns that are read."""
        return self.kind.columns(self.options, self.schema)

    def at(self, epsilon: Number) -> Request:
        """The same request at another epsilon, also where its budget was in rho."""
        options = {name: value for name, value in self.options.items() if name != "rho"}
        return Request(self.kind, self.schema, check_epsilon(epsilon), options)

    def settled(self) -> Request:
        """The same request, with what it chose by its epsilon stated: at another one it stays."""
        options = self.options | self.mechanism.settled_options()
        return Request(self.kind, self.schema, self.epsilon, options, made=self.made)

    def using(self, **options: object) -> Request:
        """The same request with other options."""
        if self.made is not None:
            fail("This release is read off a vector that is released together: it has no others.")
        checked = {n: self.kind.options[n].check(n, v, self.schema) for n, v in options.items()}
        return Request(self.kind, self.schema, self.epsilon, self.options | checked)

    def guarantee(self) -> Guarantee:
        """What the release will promise."""
        return self.mechanism.guarantee()

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error to expect, from public facts alone."""
        return self.mechanism.preview(confidence)

    def check(self, frame: TableLike) -> None:
        """Raise if the table lacks a column or has one that cannot be read; reads no row."""
        if self.columns:
            check_frame(frame, self.schema, self.columns)
        else:  # it reads a column that the schema does not know
            self.mechanism.check(frame)

    def rehearse(self, frame: TableLike) -> None:
        """Go as far as the payment, and be refused: what is wrong is found and no row is read.

        The ledger of a rehearsal covers half of what is asked for, so nothing can be paid with it.
        """
        self._rehearse(frame, 0.95, known=False)

    def asked(self, frame: TableLike, confidence: float, adds: str = "sum") -> dict[str, Any]:
        """What a ledger is asked for: the amounts and options of a spend, without its key.

        ``adds`` is its accountant.
        """
        if confidence not in self._asked:
            self._asked[confidence] = self._rehearse(frame, confidence, known=True, adds=adds)
        return self._asked[confidence]

    def _rehearse(
        self, frame: TableLike, confidence: float, *, known: bool, adds: str = "sum"
    ) -> dict[str, Any]:
        with _Rehearsal(self.epsilon / 2, neighbors=self.schema.neighbors) as ledger:
            ledger.known, ledger.adds = known, adds
            try:
                self.release(frame, ledger=ledger, key="rehearsal", confidence=confidence)
            except BudgetError:
                return ledger.asked
        fail(f"Kind {self.kind.name!r} released without a payment: do not use it.", LedgerError)

    def release(self, frame: TableLike, **options: Any) -> Answer:
        """Pay, read, release; ``ledger``, ``key``, ``confidence``, ``rng`` and ``progress``."""
        progress = check_flag("progress", options.pop("progress", False))
        with self.start(frame, **options) as started, held_warnings():
            return self.finish(started, progress=progress)

    def start(self, frame: TableLike, **options: Any) -> Started:
        """Check, pay, draw what needs no rows; ``ledger``, ``key``, ``confidence`` and ``rng``."""
        asked = None if options.get("ledger") is None else self.to_json()
        return self.mechanism.start(frame, asked=asked, **options)

    def to_json(self) -> str | None:
        """A text that :meth:`from_json` reads; None if an option is no plain value.

        It is a text and not a record, since a ledger puts the keys of records in order, and the
        order of columns says which is which.
        """
        record = {
            "kind": self.kind.name,
            "schema": self.schema.to_dict(),
            "epsilon": str(self.epsilon),
            "options": self.options,
        }
        try:
            return json.dumps(record, default=_plain)
        except (TypeError, ValueError):
            return None

    @classmethod
    def from_json(cls, text: str) -> Request:
        """The request of such a text, checked as a plan's is.

        >>> from tightdp import Interval
        >>> asked = request("mean", Schema({"x": Interval(0, 1)}, rows=9), epsilon=Fraction(1, 3))
        >>> Request.from_json(asked.to_json()).epsilon
        Fraction(1, 3)
        """
        record = json.loads(text)
        schema, epsilon = Schema.from_dict(record["schema"]), Fraction(record["epsilon"])
        return request(record["kind"], schema, epsilon=epsilon, **record["options"])

    def finish(
        self, started: Started, table: TableLike | None = None, *, progress: bool = False
    ) -> Answer:
        """Read the rows and release what was started here."""
        return self.mechanism.answer(started.finish(table, progress=progress))

    def values(self, frame: TableLike, *, rng: RandomLike) -> FloatArray:
        """The values of a release, for simulations on public rows."""
        return self.release(frame, rng=rng).value


def _plain(value: object) -> Any:
    """Fractions and arrays as plans state them."""
    if isinstance(value, Fraction):
        decimal = float(value)
        return decimal if Fraction(repr(decimal)) == value else str(value)
    if isinstance(value, (np.ndarray, np.generic)):
        return value.tolist()
    raise TypeError


@dataclass(frozen=True, slots=True)
class Planned:
    """A release of a plan: its name, the key under which the ledger keeps it, and the request.

    ``where`` is its file and line. Releases that are read off one vector have one key, and
    ``alone`` is what each would be by itself.
    """

    name: str
    key: str
    request: Request
    where: str
    alone: Request | None = None


def request(kind: str, schema: Schema, *, epsilon: Number, **options: object) -> Request:
    """A request of a kind that plans know, checked.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
    >>> ages = request("histogram", schema, epsilon=1, column="age", bins=4)
    >>> ages.preview().std.round(2)
    array([2.01, 2.01, 2.01, 2.01])
    >>> ages.release({"age": [k % 100 for k in range(1000)]}, rng=1).names[0]
    'age[0, 25)'
    """
    found = KINDS[check_choice("kind", kind, KINDS)]
    for name in options:
        if name not in found.options:
            names = list(found.options)
            fail(unknown_key(name, names, f"kind {kind!r}", elsewhere=kinds_with))
    for name, option in found.options.items():
        if option.required and name not in options:
            fail(f"kind {kind!r} needs `{name}`: {option.about}.")
    checked = {n: found.options[n].check(n, v, schema) for n, v in options.items()}
    made = Request(found, schema, check_epsilon(epsilon), checked)
    _ = made.mechanism  # a mechanism checks its parameters when it is made
    return made
