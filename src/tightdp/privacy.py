"""What a guarantee says: the neighbour relation, epsilon, delta and how far the proof reaches."""

from __future__ import annotations

import decimal
import math
from dataclasses import dataclass
from enum import StrEnum
from fractions import Fraction
from functools import lru_cache

from tightdp.accepted import Number
from tightdp.errors import (
    amount_within,
    check_choice,
    check_count,
    check_positive,
    check_real,
    exact_amount,
    fail,
)

NOT_PRIVATE = "NOT PRIVATE: for the curator's eyes only"  # marks what no report or ledger takes
EPSILON_FLOOR = exact_amount("epsilon", 2.0**-40)  # as a float is read
EPSILON_CEILING = Fraction(1 << 10)
_DIGITS = 6


class Neighbors(StrEnum):
    """Which tables count as neighbours.

    ``replace-one``: one row is replaced by another, the number of rows is public.
    ``add-remove``: one row is added or removed, the number of rows is private.
    """

    REPLACE_ONE = "replace-one"
    ADD_REMOVE = "add-remove"

    @classmethod
    def of(cls, value: str | Neighbors) -> Neighbors:
        """The relation named by ``value``, or a clear error."""
        return cls(check_choice("neighbors", value, [item.value for item in cls]))

    @property
    def rows_apart(self) -> int:
        """Rows in which neighbours differ: one goes and another one comes, or one does either.

        >>> Neighbors.REPLACE_ONE.rows_apart, Neighbors.ADD_REMOVE.rows_apart
        (2, 1)
        """
        return 2 if self is Neighbors.REPLACE_ONE else 1


class Numerics(StrEnum):
    """How far the proof reaches into the implementation.

    ``exact``: integers from the statistic to the released value. ``idealized-numerics``: the proof
    is about real numbers, the code computes with floats. ``approximate-sampler``: the law is only
    approached (Markov chains).
    """

    EXACT = "exact"
    IDEALIZED = "idealized-numerics"
    APPROXIMATE = "approximate-sampler"


@dataclass(frozen=True, slots=True, kw_only=True)
class Guarantee:
    """(epsilon, delta)-differential privacy under a neighbour relation.

    What is protected is a row or, where ``rows_per_person`` is a number, a person: however many
    rows somebody has in the table, at most so many are used. Where ``rho`` is a number, the promise
    is rho-zero-concentrated DP, and epsilon is what it implies at delta. ``given`` says between
    which tables alone it holds; nothing where that is all neighbours.

    >>> print(Guarantee(epsilon=1.0, numerics=Numerics.EXACT))
    epsilon = 1, replace-one neighbours, exact
    >>> print(Guarantee(epsilon=1.0, neighbors=Neighbors.ADD_REMOVE, rows_per_person=3))
    epsilon = 1 per person with at most 3 rows used, add-remove neighbours, idealized-numerics
    >>> print(Guarantee(epsilon=0.43, delta=1e-6, rho=0.005))
    rho = 0.005 (epsilon = 0.43 at delta = 1e-06), replace-one neighbours, idealized-numerics
    """

    epsilon: float
    delta: float = 0.0
    neighbors: Neighbors = Neighbors.REPLACE_ONE
    numerics: Numerics = Numerics.IDEALIZED
    seeded: bool = False
    rows_per_person: int | None = None
    rho: float | None = None
    given: str = ""

    def __post_init__(self) -> None:
        check_positive("epsilon", self.epsilon)
        if not 0 <= check_real("delta", self.delta) < 1:
            fail(f"`delta` must lie in [0, 1). Got {self.delta}.")
        Neighbors.of(self.neighbors)
        if self.rho is not None:
            check_positive("rho", self.rho)
        if self.rows_per_person is not None:
            check_count("rows_per_person", self.rows_per_person)

    @property
    def approximate(self) -> bool:
        """Whether the law is only approached, so that epsilon is not proved."""
        return self.numerics == Numerics.APPROXIMATE

    @property
    def unit(self) -> str:
        """What is protected: a row, or a person with at most so many rows used."""
        if self.rows_per_person is None:
            return "row"
        rows = "row" if self.rows_per_person == 1 else "rows"
        return f"person with at most {self.rows_per_person} {rows} used"

    @property
    def amount(self) -> str:
        """Epsilon and delta, or rho, and for whom if that is a person: a guarantee in short.

        >>> Guarantee(epsilon=0.5, delta=1e-6, rows_per_person=1).amount
        'epsilon = 0.5, delta = 1e-06 per person with at most 1 row used'
        >>> Guarantee(epsilon=1.0000004).amount  # never less than what is lost
        'epsilon = 1.00001'
        """
        lost = f", delta = {text_up(self.delta)}" if self.delta else ""
        amount = f"epsilon = {text_up(self.epsilon)}{lost}"
        if self.rho is not None:
            amount = f"rho = {text_up(self.rho)} ({amount.replace(', delta', ' at delta')})"
        return f"{amount}{self.per_person}"

    @property
    def per_person(self) -> str:
        """What follows an epsilon whose unit is a person, or not any row; nothing where it is."""
        if self.rows_per_person is None:
            return f", {self.given}" if self.given else ""
        return f" per {self.unit}"

    def __str__(self) -> str:
        parts = [self.amount, f"{self.neighbors} neighbours", str(self.numerics)]
        return ", ".join([*parts, *marks(self.seeded, self.approximate)])


def stated_guarantee(what: object) -> Guarantee | None:
    """The guarantee that somebody holds: itself, or that of a release, a mechanism, a model.

    >>> stated_guarantee(Guarantee(epsilon=1.0)).epsilon, stated_guarantee(0.5)
    (1.0, None)
    """
    if isinstance(what, Guarantee):
        return what
    for name in ("guarantee", "guarantee_", "release", "release_"):
        part = getattr(what, name, None)
        if part is None:
            continue
        if callable(part):
            part = part() if name == "guarantee" else None
        return stated_guarantee(part)
    return None


def marks(seeded: bool, approximate: bool) -> list[str]:
    """What must not be overlooked in a guarantee, a release or an entry of a ledger.

    >>> marks(False, True)
    ['APPROXIMATE: epsilon is not proved']
    """
    seed = ["SEEDED: not private"] if seeded else []
    return seed + (["APPROXIMATE: epsilon is not proved"] if approximate else [])


def check_epsilon(value: object, name: str = "epsilon") -> Fraction:
    """A privacy parameter for exact noise, as an exact rational.

    Allowed are the numbers from ``2**-40`` (below, the noise drowns everything and its integers
    are needlessly long) to ``2**10``; a float means its shortest decimal. In between the law is
    exact everywhere, whether the noise is almost surely zero or billions wide. Refused are NaN,
    infinity, zero, negative numbers, bools and texts.

    >>> check_epsilon(0.1)
    Fraction(1, 10)
    >>> check_epsilon(1e6)
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: `epsilon` must lie in [2**-40, 2**10]. Got 1000000.0. ...
    """
    number = amount_within(name, value, "(0, inf)")
    if number < EPSILON_FLOOR:
        fail(
            f"`{name}` must lie in [2**-40, 2**10]. Got {_short(number)}. "
            "So small a budget buys no information: give more of it, or ask for less."
        )
    if number > EPSILON_CEILING:
        fail(
            f"`{name}` must lie in [2**-40, 2**10]. Got {_short(number)}. "
            "So large a budget protects nobody: give less of it."
        )
    return number


def _short(number: Fraction) -> str:
    try:
        return str(float(number))
    except OverflowError:
        return "a larger number"


@lru_cache(maxsize=256)  # asked with every release, of the same few amounts
def float_up(x: Fraction) -> float:
    """What a guarantee may print for an exact epsilon or delta: a double that means at least x.

    It is the least double whose shortest decimal, which is how privacy parameters are read, is not
    below x.

    >>> float_up(Fraction(3, 10)), float_up(Fraction(1, 3))
    (0.3, 0.33333333333333337)
    """
    near = float(x)
    while exact_amount("x", near) < x:
        near = math.nextafter(near, math.inf)
    return near


def text_up(amount: Number, digits: int = _DIGITS) -> str:
    """An epsilon or a delta for people, in few digits: never less than it is.

    Floats stand for their shortest decimal, which is how privacy parameters are read.

    >>> from fractions import Fraction
    >>> text_up(1.0000004), text_up(0.3), text_up(Fraction(1, 3)), text_up(1e-6)
    ('1.00001', '0.3', '0.333334', '1e-06')
    """
    return _rounded(amount, digits, decimal.ROUND_CEILING)


def text_down(amount: Number, digits: int = _DIGITS) -> str:
    """What is left of a budget, or is shown to be lost, for people: never more than it is.

    >>> from fractions import Fraction
    >>> text_down(0.9999996), text_down(Fraction(2, 3), 3), text_down(0)
    ('0.999999', '0.666', '0')
    """
    return _rounded(amount, digits, decimal.ROUND_FLOOR)


def _rounded(amount: Number, digits: int, rounding: str) -> str:
    """A decimal of so many digits, in the form of ``format(..., "g")``."""
    if isinstance(amount, float) and not math.isfinite(amount):
        return f"{amount:g}"
    exact = exact_amount("amount", amount)
    context = decimal.Context(prec=digits, rounding=rounding)
    number = context.divide(decimal.Decimal(exact.numerator), decimal.Decimal(exact.denominator))
    power = number.adjusted()
    if not number or -5 < power < digits:
        return f"{number.normalize(context):f}"
    return f"{number.scaleb(-power, context).normalize(context):f}e{power:+03d}"
