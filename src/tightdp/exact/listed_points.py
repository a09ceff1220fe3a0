r"""Exact draws from :math:`P(z) \propto e^{-x(z)}` by going through all points of a box.

Cutting boxes is quick where bounds tighten; where they do not, it ends at single points. Here every
point is looked at once, whatever the law, and again where exponents are so large that they say
little as doubles: at most three calls for each point of a public grid, known before anything is
paid. Nothing here knows about data or budgets.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from fractions import Fraction
from itertools import product
from math import prod

import numpy as np

from tightdp.errors import FloatArray, InfeasibleSamplingError, fail
from tightdp.exact.rejection import until_accepted
from tightdp.exact.undecided_bits import coin_exp
from tightdp.randomness import RandomSource

Point = tuple[int, ...]

MOST_POINTS = 1 << 23
_PLACES = 52
_FAR = 100.0  # exponents beyond the least one that still count: 2**52 e**-99 is below 1
_LARGE = 2.0**44  # least exponents up to here cost less than one proposal in ten


class ListedLaw:
    r"""The law :math:`P(z) \propto e^{-x(z)}` on the lattice points of a box, by a list of all.

    Doubles near :math:`x(z)` make integer weights :math:`h \ge 2^P e^{-(x(z) - \hat x + s)}`, where
    :math:`\hat x` is their least value and s more than all roundings can amount to; a point is
    proposed with weight h and kept with probability :math:`2^P e^{-(x(z) - \hat x + s)}/h`, a coin
    settled by enclosures of the exact number.

    Proof. What is kept has the law, for the chance is at most 1. With doubles rounded by less than
    :math:`2^{-52}` of their size and an exponential by less than :math:`2^{-50}`, that holds for x
    within 100 of the least one if :math:`s = (\hat x + 200)\,2^{-48}`; beyond,
    :math:`2^P e^{-99} < 1 \le h`. At least one proposal in four is kept, for s is at most 1/10:
    weights are rounded up by less than 1 each, and there are fewer than :math:`2^{P}` of them.
    Exponents whose least one is large, as bounds that say next to nothing make them, are counted
    from it, exactly: then :math:`\hat x = 0`.

    Parameters
    ----------
    low, high : tuples of int
        Corners of the box, both included.
    exponent : callable
        From a point to :math:`x \ge 0`, exactly; None for a point that cannot be drawn.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> law = ListedLaw((-50,), (50,), lambda z: Fraction(z[0] ** 2))
    >>> abs(law.draw(source(1))[0]) < 7
    True
    """

    def __init__(
        self, low: Point, high: Point, exponent: Callable[[Point], Fraction | None]
    ) -> None:
        self._low, self._high, self._exponent, self._base = low, high, exponent, Fraction(0)
        self._sides = [b - a + 1 for a, b in zip(low, high, strict=True)]
        found = self._rounded()
        if found.min() > _LARGE:
            self._base = min(x for x in self._exponents() if x is not None)
            found = self._rounded()
        self._least = float(found.min())
        self._slack = Fraction((self._least + 2 * _FAR) * 2.0**-48)
        self._places = min(_PLACES, 61 - len(found).bit_length())  # the sum of all fits 62 bits
        scaled = np.ceil(np.exp(self._least - found) * float(1 << self._places))
        self._weights = np.where(found < np.inf, np.maximum(scaled, 1.0), 0.0).astype(np.int64)
        self._edges = np.cumsum(self._weights)

    def _exponents(self) -> Iterator[Fraction | None]:
        """Of all points, in the order of the list."""
        ranges = (range(a, b + 1) for a, b in zip(self._low, self._high, strict=True))
        return map(self._exponent, product(*ranges))

    def _rounded(self) -> FloatArray:
        """All exponents above the base, as doubles."""
        above = (None if x is None else x - self._base for x in self._exponents())
        return np.fromiter(map(_rounded, above), np.float64, prod(self._sides))

    def draw(self, rng: RandomSource) -> Point:
        """One lattice point."""
        return until_accepted(lambda: self._trial(rng))

    def _trial(self, rng: RandomSource) -> Point | None:
        at = int(np.searchsorted(self._edges, rng.below(int(self._edges[-1])), side="right"))
        point = self._point(at)
        exact = self._exponent(point)
        assert exact is not None  # it has no weight
        above = exact - self._base - Fraction(self._least) + self._slack
        kept = coin_exp(above, rng, num=1 << self._places, den=int(self._weights[at]))
        return point if kept else None

    def _point(self, at: int) -> Point:
        out: list[int] = []
        for side, low in zip(reversed(self._sides), reversed(self._low), strict=True):
            at, place = divmod(at, side)
            out.append(low + place)
        return tuple(reversed(out))


def _rounded(x: Fraction | None) -> float:
    if x is None:
        return float("inf")
    try:
        return float(x)
    except OverflowError:
        return 1e300


def check_points(name: str, bits: int, axes: int, most: int) -> None:
    """Refuse a grid with more points than a draw may have to look at.

    >>> check_points("bits", 10, 2, 1 << 23)
    """
    points = ((1 << (bits + 1)) + 1) ** axes
    if points > most:
        fine = finest_bits(axes, most)
        remedy = f"take `{name}` = {fine} or less, or " if fine else ""
        fail(
            f"`{name}` = {bits} makes {points} grid points on {axes} axes, and a draw may have to "
            f"look at each of them: at most {most} are accepted. To be sure that it ends, {remedy}"
            "fewer axes, or state with `most_points` how many you accept.",
            InfeasibleSamplingError,
        )


def finest_bits(axes: int, most: int, upto: int = 40) -> int:
    """The finest grid, up to a number of bits, with at most so many points; 0 if there is none.

    >>> finest_bits(1, 1 << 23, upto=16), finest_bits(2, 1 << 23), finest_bits(3, 1 << 23)
    (16, 10, 6)
    """
    fitting = [b for b in range(1, upto + 1) if ((1 << (b + 1)) + 1) ** axes <= most]
    return max(fitting, default=0)
