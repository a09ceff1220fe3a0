r"""What many releases of one kind cost together, exactly, and the most that each may then spend.

The composition theorem of Kairouz, Oh and Viswanath (2017): k releases, each
:math:`(\epsilon_0, \delta_0)`-DP and chosen after seeing the answers before it, are together
:math:`(\epsilon, \delta)`-DP with

.. math:: 1 - \delta = (1-\delta_0)^k \Bigl(1 - \frac1{(1+e^{-\epsilon_0})^k}
    \sum_j \binom kj \bigl(e^{-j\epsilon_0} - e^{\epsilon-(k-j)\epsilon_0}\bigr)_+\Bigr),

and no smaller delta holds for all such releases. All of it is evaluated in integers, rounded to
the private side.
"""

from __future__ import annotations

import math
from fractions import Fraction

from tightdp.errors import check_count, fail
from tightdp.exact.enclosures import exp_above, exp_minus_bounds
from tightdp.privacy import text_up

_BITS = 160
_STEPS = 32  # halvings of the search for the largest epsilon


def composed_delta(each: Fraction, lost: Fraction, times: int, epsilon: Fraction) -> Fraction:
    """An upper bound, exact up to 2**-140, of the delta of ``times`` (each, lost)-DP releases.

    Parameters
    ----------
    each, lost : Fraction
        Epsilon and delta of one release.
    times : int
    epsilon : Fraction
        The epsilon at which the delta of all of them is asked for.

    Examples
    --------
    >>> each = Fraction(1, 10)
    >>> float(composed_delta(each, Fraction(0), 5, Fraction(1, 2)))  # sums are enough
    0.0
    >>> round(float(composed_delta(each, Fraction(0), 100, Fraction(3))), 6)
    0.001361
    """
    check_count("times", times)
    one = 1 << _BITS
    kept, whole = math.floor((1 - lost) * one), one
    for _ in range(times):
        whole = whole * kept >> _BITS  # no failure of any release, rounded down
    if times * each <= epsilon:
        return min(times * lost, 1 - Fraction(whole, one))
    return 1 - Fraction(whole, one) * (1 - _response_delta(each, times, epsilon))


def _response_delta(each: Fraction, times: int, epsilon: Fraction) -> Fraction:
    """The same for randomised responses: no delta of their own."""
    bits = _BITS + 2 * math.ceil(epsilon)
    one = 1 << bits
    low, high = exp_minus_bounds(each, bits)
    factor = one * one // exp_minus_bounds(epsilon, bits)[1]  # at most exp(epsilon)
    above, below = [one], [one]  # powers of exp(-each), rounded up and down
    for _ in range(times):
        above.append(-(-above[-1] * high >> bits))
        below.append(below[-1] * low >> bits)
    total, spare = 0, 32
    mantissa, exponent = _power_down(one + low, bits, times)
    # an upper bound m 2**e of binom(k, j) / (1 + exp(-each))**k; it grows as long as terms are > 0
    m, e = -(-(1 << 2 * bits) // mantissa), -2 * bits - exponent
    for j in range(times + 1):
        term = above[j] - (factor * below[times - j] >> bits)
        if term <= 0:
            break
        total -= _shifted(-m * term, e + spare)  # rounded up
        m = -(-m * (times - j) // (j + 1))
        longer = max(0, m.bit_length() - bits)
        m, e = -(-m >> longer), e + longer
    return Fraction(min(-(-total >> spare), one), one)


def _power_down(base: int, bits: int, times: int) -> tuple[int, int]:
    """m and e with m * 2**e at most (base / 2**bits)**times, and m of about ``bits`` bits."""
    m, e = 1, 0
    for digit in bin(times)[2:]:
        m, e = m * m, 2 * e
        if digit == "1":
            m, e = m * base, e - bits
        longer = max(0, m.bit_length() - bits)
        m, e = m >> longer, e + longer
    return m, e


def _shifted(x: int, places: int) -> int:
    """x * 2**places, rounded down."""
    return x << places if places >= 0 else x >> -places


def most_each(
    epsilon: Fraction, delta: Fraction, times: int, *, lossy: bool
) -> tuple[Fraction, Fraction]:
    """The epsilon and delta that each of ``times`` releases may spend.

    Sums give (epsilon / k, delta / k). The theorem gives a larger epsilon at half of that delta, or
    at none for laws that spend none, where the other half is worth it; the larger epsilon is taken.

    Parameters
    ----------
    epsilon, delta : Fraction
        What all may spend together.
    times : int
    lossy : bool
        Whether a single release spends a delta of its own.

    Examples
    --------
    >>> most_each(Fraction(1), Fraction(0), 4, lossy=False)
    (Fraction(1, 4), Fraction(0, 1))
    >>> each, lost = most_each(Fraction(1), Fraction(1, 10**6), 100, lossy=True)
    >>> round(float(each), 4), lost == Fraction(1, 10**6) / 200
    (0.0232, True)
    """
    check_count("times", times)
    plain = epsilon / times
    lost = delta / times if lossy else Fraction(0)
    if not delta or times == 1:
        return plain, lost
    low, high, half = plain, epsilon, lost / 2
    for _ in range(_STEPS):
        middle = _short((low + high) / 2)
        if composed_delta(middle, half, times, epsilon) <= delta:
            low = middle
        else:
            high = middle
    return (low, half) if low > plain else (plain, lost)


def check_composed(
    one: tuple[Fraction, Fraction],
    times: int,
    budget: tuple[Fraction, Fraction],
    what: str,
    rows: int = 1,
) -> None:
    """Refuse a law of the user's that the budget does not cover so many times; ``what`` names it.

    >>> one = Fraction(1, 2), Fraction(0)
    >>> check_composed(one, 3, (Fraction(1), Fraction(0)), "the noise in {} steps")
    Traceback (most recent call last):
    ...
    tightdp.errors.ParameterError: `epsilon` and `delta` must cover the noise in 3 steps: epsilon...
    """
    if composed_delta(*one, times, budget[0]) > budget[1]:
        fail(
            f"`epsilon` and `delta` must cover {what.format(times)}: epsilon = "
            f"{text_up(rows * times * one[0])} does, with a delta of {times} times "
            f"{text_up(one[1])}. State these, ask for less at once, or design the law for less."
        )


def group_cost(epsilon: Fraction, delta: Fraction, steps: int) -> tuple[Fraction, Fraction]:
    r"""What so many steps cost if one costs (epsilon, delta).

    .. math:: (r\epsilon,\ (1 + e^{\epsilon} + ... + e^{(r-1)\epsilon})\,\delta)

    for r steps, whether they move one release r times as far or r releases once (Dwork and Roth,
    2014, Theorem 2.2, and sums).

    >>> group_cost(Fraction(1), Fraction(0), 4)
    (Fraction(4, 1), Fraction(0, 1))
    """
    powers = sum((exp_above(i * epsilon) for i in range(steps)), Fraction(0))
    return steps * epsilon, min(delta * powers, Fraction(1))


def group_budget(epsilon: Fraction, delta: Fraction, steps: int) -> tuple[Fraction, Fraction]:
    """What one step may cost so that so many cost (epsilon, delta): see :func:`group_cost`.

    >>> group_budget(Fraction(1), Fraction(0), 4)
    (Fraction(1, 4), Fraction(0, 1))
    """
    each = epsilon / steps
    return each, delta / sum((exp_above(i * each) for i in range(steps)), Fraction(0))


def _short(x: Fraction) -> Fraction:
    """The same number to 48 bits, downwards: short rationals keep exact samplers fast."""
    shift = 48 - x.numerator.bit_length() + x.denominator.bit_length()
    return Fraction(math.floor(x * (1 << shift)), 1 << shift) if shift > 0 else x
