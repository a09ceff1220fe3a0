"""The numbers of a document, exactly: rationals, the exponential between two of them, no float.

What a verifier stands on, with the standard library alone.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from fractions import Fraction
from functools import lru_cache
from typing import Any

RATIONAL = re.compile(r"-?[0-9]+(/[0-9]+)?", re.ASCII)
MOST_POWER = 1 << 10  # larger ones would only waste time
Document = Mapping[str, Any]


class Refuted(Exception):  # noqa: N818 - the outcome of a proof, not a fault of the program
    """The document does not prove what it states."""


def demand(holds: bool, what: str) -> None:
    """Refute unless ``holds``."""
    if not holds:
        raise Refuted(what)


def demand_stated(
    document: Document, lower: Fraction, upper: Fraction, *, may_be_more: bool = False
) -> None:
    """Refute unless the bounds that were found are those that the document states.

    Where the lower one ``may_be_more``, what is stated is proved all the same.
    """
    demand(upper == rational(document["upper"]), "the expected loss is not `upper`")
    more = lower - rational(document["lower"])
    demand(more == 0 or (may_be_more and more > 0), "the proof does not give `lower`")
    demand(lower <= upper, "the bounds are the wrong way round")


@contextmanager
def damage_refutes() -> Iterator[None]:
    """A document refutes itself where something is missing in it, or of another kind."""
    try:
        yield
    except (LookupError, TypeError, ValueError, ArithmeticError, AttributeError) as e:
        raise Refuted(f"the document is damaged ({type(e).__name__}: {e})") from None


def rational(number: Any) -> Fraction:
    """An exact number of a document: an integer, or a text n or n/d. No float, no exponent."""
    if type(number) is int:
        return Fraction(number)
    demand(type(number) is str, "a number is not exact")
    return _written(number)


@lru_cache(maxsize=1024)
def _written(number: str) -> Fraction:
    """The same few coefficients are read for every cell."""
    demand(bool(RATIONAL.fullmatch(number)), "a number is not exact")
    return Fraction(number)


def read(text: str) -> Any:
    """The document in a JSON text that says everything once and holds no float."""
    try:
        return json.loads(
            text, object_pairs_hook=_once, parse_float=_no_float, parse_constant=_no_float
        )
    except RecursionError:
        raise Refuted("the document is nested too deeply") from None


def _once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    names = dict(pairs)
    demand(len(names) == len(pairs), "a name is given twice")
    return names


def _no_float(text: str) -> Any:
    raise Refuted(f"a float, {text[:20]}: numbers must be exact")


def exp_bounds(x: Fraction, bits: int = 160) -> tuple[Fraction, Fraction]:
    r"""Rationals around :math:`e^x`, x >= 0, at a relative distance near 2**-bits.

    :math:`e^x = (e^y)^{2^h}`, y <= 1/2: the Taylor sum is below, twice the next term above it.
    """
    halvings = max(0, (2 * x).__ceil__().bit_length())
    places = bits + 2 * halvings + 32
    num, den = x.numerator, x.denominator << halvings
    low_term = high_term = low = high = 1 << places
    j = 0
    while high_term > 1:
        j += 1
        low_term = low_term * num // (den * j)
        high_term = -(-high_term * num // (den * j))
        low, high = low + low_term, high + high_term
    high += 2 * high_term
    for _ in range(halvings):
        low, high = low * low >> places, -(-high * high >> places)
    return Fraction(low, 1 << places), Fraction(high, 1 << places)
