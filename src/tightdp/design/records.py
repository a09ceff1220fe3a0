"""Designs with their proofs, as records: written, and read from what others wrote."""

from __future__ import annotations

import json
import math
from abc import ABC, abstractmethod
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from fractions import Fraction
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike

from tightdp.accepted import Number
from tightdp.design.exact_numbers import Refuted, read
from tightdp.errors import UndecidedError, amount_within, check_array, fail
from tightdp.privacy import Guarantee, Neighbors, Numerics, check_epsilon, float_up


class ProvedDesign(ABC):
    """Base: noise in cells with a guarantee, a loss and a lower bound, all of them proved."""

    epsilon: Fraction
    delta: Fraction

    @property
    @abstractmethod
    def upper(self) -> Fraction:
        """The expected loss of this noise."""

    @property
    @abstractmethod
    def lower(self) -> Fraction:
        """What every noise with this guarantee loses at least."""

    @property
    def gap(self) -> float:
        """(upper - lower) / lower."""
        return float((self.upper - self.lower) / self.lower) if self.lower else math.inf

    def guarantee(self, *, seeded: bool = False) -> Guarantee:
        """What adding the noise promises."""
        return Guarantee(
            epsilon=float_up(self.epsilon),
            delta=float_up(self.delta),
            neighbors=Neighbors.REPLACE_ONE,
            numerics=Numerics.EXACT,
            seeded=seeded,
        )

    @abstractmethod
    def verify(self) -> bool:
        """Check all statements in integers, without a solver; an error if one fails."""

    @abstractmethod
    def to_dict(self) -> dict[str, Any]:
        """Plain values; :meth:`from_dict` gives the design back, and proves it again."""

    @classmethod
    @abstractmethod
    def from_dict(cls, record: Mapping[str, Any]) -> Self:
        """The design in a dictionary; refused when its proofs do not hold."""

    def to_json(self) -> str:
        """The design with its proofs as JSON text."""
        return json.dumps(self.to_dict())

    @classmethod
    def from_json(cls, text: str) -> Self:
        """The design in a JSON text; refused when its proofs do not hold."""
        return cls.from_dict(read_record(text))


class GridDesign(ProvedDesign):
    """Base: a design whose cells are all of one width."""

    sensitivity: Fraction
    resolution: int

    @property
    def cell_width(self) -> Fraction:
        """Width of a cell in the units of the query."""
        return self.sensitivity / self.resolution


def check_promise(epsilon: Number, delta: Number) -> tuple[Fraction, Fraction]:
    """The epsilon and delta that a noise in cells can be designed for."""
    most = amount_within("epsilon", epsilon, "(0, 30]", "a designed noise has no use for more")
    return check_epsilon(most), amount_within("delta", delta, "[1e-6, 1)")


def whole_steps(name: str, queries: ArrayLike, steps: Sequence[Fraction]) -> list[tuple[int, ...]]:
    """Queries, one in each row, rounded half up to grids of these steps: whole numbers of them.

    Whole numbers, Fractions and Decimals are taken as they are: as doubles, large ones would move
    further than they do.

    >>> whole_steps("query", [[2**53 + 1, 0.25]], [Fraction(1), Fraction(1, 8)])
    [(9007199254740993, 2)]
    """
    given = np.atleast_2d(np.array(queries, dtype=object))
    check_array(name, given.tolist(), 2, len(steps))
    half = Fraction(1, 2)
    return [
        tuple(math.floor(_exactly(x) / step + half) for x, step in zip(row, steps, strict=True))
        for row in given
    ]


def _exactly(x: Any) -> Fraction:
    """The number itself, where it is an exact one; that of its double otherwise."""
    if isinstance(x, (int, Fraction, Decimal)):
        return Fraction(x)
    return Fraction(int(x)) if isinstance(x, np.integer) else Fraction(float(x))


def read_record(text: str) -> Any:
    """The value in a JSON text that says everything once and holds no float.

    >>> read_record('{"delta": "1/4"}')
    {'delta': '1/4'}
    """
    try:
        return read(text)
    except Refuted as reason:
        fail(f"This record of a design is damaged: {reason}.")
    except ValueError:
        fail("This record of a design is no complete JSON text. Get a fresh copy.")


def check_format(record: object, *names: str) -> None:
    """Refuse what is no dictionary of one of the named formats."""
    if not isinstance(record, Mapping) or record.get("format") not in names:
        fail(f"This is not a record of the format {' or '.join(map(repr, names))}.")


@contextmanager
def undecided() -> Iterator[None]:
    """What a verifier refutes, as an error of this package."""
    try:
        yield
    except Refuted as reason:
        fail(f"This design is not proved: {reason}.", UndecidedError)


@contextmanager
def complete() -> Iterator[None]:
    """Turn whatever is missing or malformed in a record into one error."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError, Refuted):
        fail("This record of a design is not complete.")
