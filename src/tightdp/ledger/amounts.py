"""Amounts of privacy as exact rationals, and what a guarantee costs a ledger.

No float takes part in a sum. Where an amount must be rounded (an exponential is not rational, a
denominator has grown beyond reason) it is rounded **up**: the ledger may charge a hair too much,
never too little.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass, fields
from fractions import Fraction

from tightdp.accepted import Number
from tightdp.errors import amount_within, fail
from tightdp.privacy import Neighbors, text_down, text_up

DENOMINATOR_BITS = 2048  # every float has a denominator of at most 1074 bits
_ROUNDING, _SMALLEST = Fraction(1, 1 << 51), Fraction(1, 1 << 1073)  # two steps of doubles
_SHOWN = 60
_PLACES = 12
_PRECISION = 40


@dataclass(frozen=True, slots=True)
class Budget:
    """An amount (epsilon, delta) of exact rationals.

    Examples
    --------
    >>> from fractions import Fraction
    >>> half = Budget(Fraction(1, 2))
    >>> print(half + Budget(Fraction(1, 3), Fraction(1, 10**6)))
    epsilon = 5/6 (0.833333333334), delta = 1e-06
    >>> half.fits(Budget(Fraction(1)))
    True
    """

    epsilon: Fraction
    delta: Fraction = Fraction(0)

    def __add__(self, other: Budget) -> Budget:
        return Budget(_up(self.epsilon + other.epsilon), _up(self.delta + other.delta))

    def __sub__(self, other: Budget) -> Budget:
        return Budget(self.epsilon - other.epsilon, self.delta - other.delta)

    def fits(self, cap: Budget) -> bool:
        """Whether neither part is above the cap's."""
        return self.epsilon <= cap.epsilon and self.delta <= cap.delta

    def join(self, other: Budget) -> Budget:
        """The larger of both, part by part."""
        return Budget(max(self.epsilon, other.epsilon), max(self.delta, other.delta))

    def to_dict(self) -> dict[str, str]:
        """Both parts as texts ``"num/den"``."""
        return {part.name: to_text(getattr(self, part.name)) for part in fields(self)}

    def text(self, most: int = _SHOWN, *, left: bool = False) -> str:
        """Both parts for people; exact ones of more than ``most`` characters as decimals only.

        Decimals are rounded up, and down where the amount is what is ``left``.
        """
        parts = (shown(part, most, left=left) for part in (self.epsilon, self.delta))
        return "epsilon = {}, delta = {}".format(*parts)

    def __str__(self) -> str:
        return self.text()


NOTHING = Budget(Fraction(0))


def _up(number: Fraction) -> Fraction:
    """The number itself, or the next multiple of 2**-2048 above it if it is longer than that."""
    if number.denominator.bit_length() <= DENOMINATOR_BITS + 1:
        return number
    grid = 1 << DENOMINATOR_BITS
    return Fraction(-(-number.numerator * grid // number.denominator), grid)


def to_text(number: Fraction) -> str:
    """``"num/den"``: how amounts are stored.

    >>> to_text(Fraction(1, 3)), to_text(Fraction(2))
    ('1/3', '2/1')
    """
    return f"{number.numerator}/{number.denominator}"


def from_text(text: str) -> Fraction:
    """The number in a text of the form that :func:`to_text` writes; anything else is refused."""
    above, _, below = text.partition("/")
    number = Fraction(int(above), int(below))
    if to_text(number) != text:
        raise ValueError("not in lowest terms")
    return number


def shown(number: Fraction, most: int = _SHOWN, *, left: bool = False) -> str:
    """For people: a decimal, and the exact number beside it where the decimal is rounded.

    Rounded up, since it is spent; down, where it is what is ``left``.

    >>> shown(Fraction(1, 3)), shown(Fraction(1, 10)), shown(Fraction(1, 3**200), left=True)
    ('1/3 (0.333333333334)', '0.1', '3.76486194959e-96')
    """
    exact = str(number)
    if number.denominator == 1 and len(exact) <= most:
        return exact
    rough = text_down(number, _PLACES) if left else text_up(number, _PLACES)
    if Fraction(rough) == number:
        return rough
    return f"{exact} ({rough})" if len(exact) <= most else rough


def check_cap(epsilon: Number, delta: Number) -> Budget:
    """The caps of a ledger: epsilon > 0 and 0 <= delta < 1."""
    most = amount_within("epsilon", epsilon, "(0, 2**20]", "it is the most that may be spent")
    cap = Budget(most, amount_within("delta", delta, "[0, 1)"))
    if _up(cap.epsilon) != cap.epsilon or _up(cap.delta) != cap.delta:
        fail("`epsilon` and `delta` must be rationals of moderate size: use floats or decimals.")
    return cap


def check_amount(epsilon: Number, delta: Number) -> Budget:
    """What a request asks for: epsilon >= 0, 0 <= delta < 1, not both 0."""
    spent = amount_within("epsilon", epsilon, "[0, 2**20]")
    asked = Budget(spent, amount_within("delta", delta, "[0, 1)"))
    if asked == NOTHING:
        fail("`epsilon` and `delta` must not both be 0: what costs nothing needs no ledger.")
    return Budget(_up(asked.epsilon), _up(asked.delta))


def unrounded(amount: Budget, exactly: Budget | None) -> Budget:
    """The amount before it was rounded up to doubles, each by the next one or two at most.

    >>> up = Budget(Fraction("0.33333333333333337"))
    >>> print(unrounded(up, Budget(Fraction(1, 3))))
    epsilon = 1/3 (0.333333333334), delta = 0
    """
    if exactly is None:
        return amount
    parts = ((amount.epsilon, exactly.epsilon), (amount.delta, exactly.delta))
    if not all(0 <= up - part <= part * _ROUNDING + _SMALLEST for up, part in parts):
        fail(f"`exactly` must be what was rounded up to {amount}. Got {exactly}.")
    return exactly


def cost(asked: Budget, given: Neighbors, kept: Neighbors) -> Budget:
    r"""What a guarantee under ``given`` neighbours costs a ledger kept under ``kept``.

    A replaced row is one row removed and one added, so (epsilon, delta) under add-remove is
    (2 epsilon, (1 + e^epsilon) delta) under replace-one (group privacy for two steps). Nothing
    follows in the other direction: under replace-one the number of rows may be published as it is.

    >>> print(cost(Budget(Fraction(1)), Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE))
    epsilon = 2, delta = 0
    """
    if given == kept:
        return asked
    if kept == Neighbors.ADD_REMOVE:
        fail(
            "`neighbors` must be 'add-remove' for this ledger. Got 'replace-one', which says "
            "nothing about tables of another length: use a ledger with neighbors='replace-one', "
            "or a mechanism for add-remove neighbours."
        )
    if not asked.delta:
        return Budget(2 * asked.epsilon)
    grown = asked.delta * (1 + _exp_up(asked.epsilon)) if asked.epsilon <= 64 else Fraction(1)
    return Budget(2 * asked.epsilon, min(_up(grown), Fraction(1)))


def _exp_up(x: Fraction) -> Fraction:
    """A rational a little above e**x, for 0 <= x <= 64."""
    up = decimal.Context(prec=_PRECISION, rounding=decimal.ROUND_CEILING)
    power = up.divide(decimal.Decimal(x.numerator), decimal.Decimal(x.denominator))
    return Fraction(up.next_plus(power.exp(up)))  # `exp` rounds to the nearest: one digit up
