"""Amounts of privacy as exact rationals, and what a guarantee costs a ledger.

No float takes part in a sum. Where an amount must be rounded (an exponential is not rational, a
denominator has grown beyond reason) it is rounded **up**: the ledger may charge a hair too much,
never too little.
"""

from __future__ import annotations

import decimal
from dataclasses import dataclass, fields
from fractions import Fraction
from functools import lru_cache
from typing import Any

from tightdp.accepted import Number
from tightdp.accounting.caps import Cap
from tightdp.accounting.conversions import zcdp_epsilon
from tightdp.accounting.costs import Cost
from tightdp.errors import amount_within, check_instance, fail
from tightdp.privacy import Neighbors, text_down, text_up

DENOMINATOR_BITS = 2048  # every float has a denominator of at most 1074 bits
_ROUNDING, _SMALLEST = Fraction(1, 1 << 51), Fraction(1, 1 << 1073)  # two steps of doubles
_SHOWN = 60
_PLACES = 12
_PRECISION = 40


SYMBOLS = {"epsilon": "epsilon", "rho": "rho", "mu_squared": "mu^2"}


@dataclass(frozen=True, slots=True, eq=False)
class Budget:
    """An amount of exact rationals: epsilon, or rho or mu**2, and the delta beside it.

    Examples
    --------
    >>> from fractions import Fraction
    >>> half = Budget(Fraction(1, 2))
    >>> print(half + Budget(Fraction(1, 3), Fraction(1, 10**6)))
    epsilon = 5/6 (0.833333333334), delta = 1e-06
    >>> half.fits(Budget(Fraction(1)))
    True
    >>> print(Budget(Fraction(1, 200), unit="rho"))
    rho = 0.005, delta = 0
    """

    amount: Fraction
    delta: Fraction = Fraction(0)
    unit: str = "epsilon"

    @property
    def epsilon(self) -> Fraction:
        """The amount, of a budget in epsilon."""
        return self._of("epsilon")

    @property
    def rho(self) -> Fraction:
        """The amount, of a budget in rho."""
        return self._of("rho")

    @property
    def mu_squared(self) -> Fraction:
        """The amount, of a budget in mu**2."""
        return self._of("mu_squared")

    def _of(self, unit: str) -> Fraction:
        if unit != self.unit:
            fail(
                f"`{unit}`: this amount is kept as `{self.unit}`. What is left of a ledger, "
                "`ledger.remaining`, is known in every unit, and `ledger.odometer` says what was "
                "spent as an epsilon."
            )
        return self.amount

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Budget) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash(self._parts())

    def _parts(self) -> tuple[str, Fraction, Fraction]:
        return self.unit, self.amount, self.delta

    def __add__(self, other: Budget) -> Budget:
        return Budget(_up(self.amount + other.amount), _up(self.delta + other.delta), self.unit)

    def __sub__(self, other: Budget) -> Budget:
        return Budget(self.amount - other.amount, self.delta - other.delta, self.unit)

    def fits(self, cap: Budget) -> bool:
        """Whether neither part is above the cap's."""
        return self.amount <= cap.amount and self.delta <= cap.delta

    def join(self, other: Budget) -> Budget:
        """The larger of both, part by part."""
        return Budget(max(self.amount, other.amount), max(self.delta, other.delta), self.unit)

    def to_dict(self) -> dict[str, str]:
        """Both parts as texts ``"num/den"``."""
        return {self.unit: to_text(self.amount), "delta": to_text(self.delta)}

    def text(self, most: int = _SHOWN, *, left: bool = False) -> str:
        """Both parts for people; exact ones of more than ``most`` characters as decimals only.

        Decimals are rounded up, and down where the amount is what is ``left``.
        """
        parts = (shown(part, most, left=left) for part in (self.amount, self.delta))
        return "{} = {}, delta = {}".format(SYMBOLS[self.unit], *parts)

    def __str__(self) -> str:
        return self.text()


@dataclass(frozen=True, slots=True, eq=False)
class Remaining(Budget):
    """What is left of a ledger, in the unit in which it is kept, and what that is in the others.

    ``epsilon`` is the largest of one more release of pure noise, ``rho`` and ``mu_squared`` those
    of one more release of exactly Gaussian noise: all rounded down.

    Examples
    --------
    >>> from tightdp.ledger import Ledger
    >>> left = Ledger(epsilon=3, delta=1e-6, accountant="zcdp").remaining
    >>> round(float(left.rho), 4), round(float(left.epsilon), 3), round(float(left.mu_squared), 4)
    (0.1851, 0.608, 0.3701)
    """

    cap: Cap | None = None

    def _of(self, unit: str) -> Fraction:
        if unit == self.unit or self.cap is None:
            return self.amount
        return self.cap.room(self.cap.amount - self.amount, self.cap.slack - self.delta)[unit]


def nothing(unit: str = "epsilon") -> Budget:
    """An empty budget."""
    return Budget(Fraction(0), Fraction(0), unit)


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


@lru_cache(maxsize=4096)  # entries say the same few amounts again and again
def from_text(text: str) -> Fraction:
    """The number in a text of the form that :func:`to_text` writes; anything else is refused."""
    if not isinstance(text, str):  # of a record that somebody else wrote
        raise TypeError("not a text")
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
    """The caps of a ledger that adds epsilons: epsilon > 0 and 0 <= delta < 1."""
    most = amount_within("epsilon", epsilon, "(0, 2**20]", "it is the most that may be spent")
    cap = Budget(most, amount_within("delta", delta, "[0, 1)"))
    if _up(cap.amount) != cap.amount or _up(cap.delta) != cap.delta:
        fail("`epsilon` and `delta` must be rationals of moderate size: use floats or decimals.")
    return cap


def check_any_cap(accountant: str | None, **stated: Any) -> Cap:
    """The cap of a ledger that adds what it is asked to add: see :meth:`Cap.stated`."""
    if accountant is not None:
        check_instance("accountant", accountant, str, words="a text")
    slack = amount_within("slack", stated["slack"], "[0, 1)")
    if accountant in (None, "sum") and stated["rho"] is None and not slack:
        caps = check_cap(stated["epsilon"], stated["delta"])
        return Cap("sum", caps.amount, caps.delta, caps.amount, caps.delta)
    kept = ("sum" if stated["rho"] is None else "zcdp") if accountant is None else accountant
    cap = Cap.stated(kept, **stated)
    if _up(cap.amount) != cap.amount or _up(cap.slack) != cap.slack:
        fail("`rho` and `slack` must be rationals of moderate size: use floats or decimals.")
    return cap


def check_amount(epsilon: Number, delta: Number) -> Budget:
    """What a request asks for: epsilon >= 0, 0 <= delta < 1, not both 0."""
    spent = amount_within("epsilon", epsilon, "[0, 2**20]")
    asked = Budget(spent, amount_within("delta", delta, "[0, 1)"))
    if asked == nothing():
        fail("`epsilon` and `delta` must not both be 0: what costs nothing needs no ledger.")
    return Budget(_up(asked.epsilon), _up(asked.delta))


def short_cost(cost: Cost) -> Cost:
    """The cost with numbers of moderate size, each rounded up."""
    return Cost(**{part.name: _up(getattr(cost, part.name)) for part in fields(cost)})


def unrounded(amount: Budget, exactly: Budget | None) -> Budget:
    """The amount before it was rounded up to doubles, each by the next one or two at most.

    >>> up = Budget(Fraction("0.33333333333333337"))
    >>> print(unrounded(up, Budget(Fraction(1, 3))))
    epsilon = 1/3 (0.333333333334), delta = 0
    """
    if exactly is None:
        return amount
    parts = ((amount.amount, exactly.amount), (amount.delta, exactly.delta))
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
    _check_follows(kept)
    if not asked.delta:
        return Budget(2 * asked.epsilon)
    grown = asked.delta * (1 + _exp_up(asked.epsilon)) if asked.epsilon <= 64 else Fraction(1)
    return Budget(2 * asked.epsilon, min(_up(grown), Fraction(1)))


def cost_in_full(asked: Cost, given: Neighbors, kept: Neighbors) -> Cost:
    r"""The same for a cost in every unit.

    Two steps cost four times the rho (Bun and Steinke, 2016, Proposition 1.9) and twice the mu
    (Dong and others, 2022, Theorem 2.14), where these hold without an event outside of which they
    do; with one, what the (epsilon, delta) of two steps implies. Where two steps of (epsilon,
    delta) leave nothing, four times the rho still implies an epsilon at the stated delta.

    >>> two = cost_in_full(Cost.of(1), Neighbors.ADD_REMOVE, Neighbors.REPLACE_ONE)
    >>> two.epsilon, two.rho
    (Fraction(2, 1), Fraction(2, 1))
    """
    if given == kept:
        return asked
    _check_follows(kept)
    two = cost(Budget(asked.epsilon, asked.delta), given, kept)
    if two.delta >= 1 and not asked.rho_delta:
        two = Budget(zcdp_epsilon(4 * asked.rho, asked.delta), asked.delta)
    if two.delta >= 1:
        fail(
            "`delta` of an add-remove guarantee is multiplied by 1 + e^epsilon in a replace-one "
            "ledger, which leaves nothing of it here: ask for less epsilon or delta, or use a "
            "ledger with neighbors='add-remove'."
        )
    whole = Cost.of(two.epsilon, two.delta)
    rho = (whole.rho, whole.rho_delta) if asked.rho_delta else (4 * asked.rho, Fraction(0))
    square = whole.mu_squared, whole.mu_delta
    if not asked.mu_delta:
        square = 4 * asked.mu_squared, Fraction(0)
    return Cost(
        epsilon=two.epsilon,
        delta=two.delta,
        rho=rho[0],
        rho_delta=rho[1],
        mu_squared=square[0],
        mu_delta=square[1],
    )


def _check_follows(kept: Neighbors) -> None:
    if kept == Neighbors.ADD_REMOVE:
        fail(
            "`neighbors` must be 'add-remove' for this ledger. Got 'replace-one', which says "
            "nothing about tables of another length: use a ledger with neighbors='replace-one', "
            "or a mechanism for add-remove neighbours."
        )


def _exp_up(x: Fraction) -> Fraction:
    """A rational a little above e**x, for 0 <= x <= 64."""
    up = decimal.Context(prec=_PRECISION, rounding=decimal.ROUND_CEILING)
    power = up.divide(decimal.Decimal(x.numerator), decimal.Decimal(x.denominator))
    return Fraction(up.next_plus(power.exp(up)))  # `exp` rounds to the nearest: one digit up
