"""Privacy parameters as exact rationals: nothing is rounded to the spender's side."""

from __future__ import annotations

from fractions import Fraction

from tightdp.accepted import Number
from tightdp.errors import check_count, fail, shown
from tightdp.errors import exact_amount as exact_amount
from tightdp.errors import exact_fraction as exact_fraction

EPSILON_FLOOR = exact_amount("epsilon", 2.0**-40)
EPSILON_CEILING = Fraction(1 << 10)
RATE_BITS = 128


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
    number = exact_amount(name, value)
    if not number > 0:
        fail(f"`{name}` must be a finite number > 0. Got {shown(value)}.")
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


def rate(epsilon: Number, level: int = 1) -> tuple[int, int]:
    """Numerator and denominator of ``epsilon / level``, in lowest terms, never rounded up.

    Decimals (and all rationals of moderate size) are kept exactly. A rational whose denominator is
    longer than 128 bits is rounded **down** to a multiple of ``2**-128 / level``: less budget than
    asked, by less than one part in ``2**88``.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        See :func:`check_epsilon`.
    level : int
        The largest level of a difference of neighbours, >= 1 (the sensitivity in lattice units).

    Examples
    --------
    >>> rate(0.5, 3), rate(Fraction(2, 3), 4)
    ((1, 6), (1, 6))
    """
    number = check_epsilon(epsilon)
    if number.denominator.bit_length() > RATE_BITS:
        number = Fraction(int(number * (1 << RATE_BITS)), 1 << RATE_BITS)
    number /= check_count("level", level)
    return number.numerator, number.denominator


def check_rate(num: object, den: object) -> tuple[int, int]:
    """The rate ``num/den`` > 0 in lowest terms."""
    number = Fraction(check_count("num", num), check_count("den", den))
    return number.numerator, number.denominator


def _short(number: Fraction) -> str:
    try:
        return str(float(number))
    except OverflowError:
        return "a larger number"
