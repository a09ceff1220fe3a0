r"""A binomial count with noise of known law: exact tails, p-values, intervals and power.

The released integer is :math:`Z = rX + N`, where X counts the successes of n independent trials
with chance :math:`\theta`, r is the resolution of the lattice and N is symmetric noise. Its law is
known to the last digit, so nothing here is an approximation for large n. Tails of Z rise with
:math:`\theta`, for those of X do: tests are one number, and intervals are inverted tests.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import numpy as np

from tightdp.errors import FloatArray, check_choice, check_count, check_within, fail
from tightdp.noise.law import LatticeLaw

Alternative = Literal["two-sided", "greater", "less"]
ALTERNATIVES: tuple[Alternative, ...] = ("two-sided", "greater", "less")

_LEFT_OUT = 1e-12  # the mass of counts that are not looked at
_ROUNDED = 1 + 1e-9  # sums of up to a million logarithms, each rounded to 1e-16 of at most 40
_MOST_ROWS = 1 << 34  # of which a few hundred thousand counts are looked at


@dataclass(frozen=True, slots=True)
class NoisyBinomial:
    """The law of a noisy count of successes.

    Attributes
    ----------
    rows : int
        n, the number of trials.
    law : LatticeLaw
        Of the noise on the lattice, symmetric.
    resolution : int
        r, lattice points per success.

    Examples
    --------
    >>> from tightdp.noise.lattice_laws import Geometric
    >>> count = NoisyBinomial(100, Geometric(epsilon=1, sensitivity=1))
    >>> round(count.p_value(61, 0.5, "greater"), 4), round(count.p_value(50, 0.5), 4)
    (0.0212, 1.0)
    >>> [round(end, 3) for end in count.interval(61, 0.95)]
    [0.504, 0.71]
    """

    rows: int
    law: LatticeLaw
    resolution: int = 1

    def at_least(self, z: int, chance: float) -> float:
        """P(Z >= z), rounded up by what is left out."""
        counts, weights = self._counts(chance)
        tails = np.asarray(self.law.cdf(self.resolution * counts - float(z)))  # N is symmetric
        return min(1.0, float(weights @ tails) * _ROUNDED + _LEFT_OUT)

    def at_most(self, z: int, chance: float) -> float:
        """P(Z <= z): failures are counted as successes are."""
        return self.at_least(self.resolution * self.rows - z, 1.0 - chance)

    def p_value(self, z: int, null: float, alternative: str = "two-sided") -> float:
        """The chance, at most, of so extreme a release if the share is ``null``.

        It is at most alpha with a chance of at most alpha, whatever alpha. Two sides count twice
        the smaller one.
        """
        kind = check_choice("alternative", alternative, ALTERNATIVES)
        if kind == "greater":
            return self.at_least(z, null)
        if kind == "less":
            return self.at_most(z, null)
        return min(1.0, 2 * min(self.at_least(z, null), self.at_most(z, null)))

    def interval(self, z: int, confidence: float) -> tuple[float, float]:
        """All shares that a two-sided test at this level keeps (as Clopper and Pearson, 1934)."""
        miss = (1 - confidence) / 2
        low = _last(lambda chance: self.at_least(z, chance), miss)
        return low, 1 - _last(lambda chance: self.at_most(z, 1 - chance), miss)

    def power(self, share: float, null: float, alternative: str, alpha: float) -> float:
        """The chance that a test at level alpha rejects ``null`` if the truth is ``share``."""
        kind = check_choice("alternative", alternative, ALTERNATIVES)
        each = alpha / 2 if kind == "two-sided" else alpha
        found = 0.0
        if kind != "less":
            found += self.at_least(self._critical(null, each), share)
        if kind != "greater":
            mirrored = self._critical(1 - null, each)
            found += self.at_least(mirrored, 1 - share)
        return min(1.0, found)

    def _critical(self, null: float, alpha: float) -> int:
        """The least z with P(Z >= z) <= alpha."""
        reach = math.ceil(-float(self.law.quantile(1e-16))) + 2 * self.resolution
        low, high = -reach, self.resolution * self.rows + reach
        while high - low > 1:
            middle = (low + high) // 2
            low, high = (low, middle) if self.at_least(middle, null) <= alpha else (middle, high)
        return high

    def _counts(self, chance: float) -> tuple[FloatArray, FloatArray]:
        """Counts that hold all but a mass of 1e-13, and their chances.

        Bernstein's inequality: further than t from the mean lie at most 2 exp(-a) of all counts if
        t**2 >= 2 a (v + t/3), v the variance, and so if t >= 2 a / 3 + sqrt(2 a v). Here a = 33.
        """
        n, mean = self.rows, self.rows * chance
        if chance <= 0.0 or chance >= 1.0:
            return np.array([n * float(chance >= 1.0)]), np.ones(1)
        far = 22 + math.sqrt(66 * mean * (1 - chance))
        counts = np.arange(max(0, math.floor(mean - far)), min(n, math.ceil(mean + far)) + 1.0)
        # ratios of neighbours, outward from a likely count: factorials of so many rows would round
        steps = np.log((n - counts[:-1]) / (counts[:-1] + 1) * (chance / (1 - chance)))
        start = min(max(math.floor(mean) - int(counts[0]), 0), len(steps))
        below = -np.cumsum(steps[:start][::-1])[::-1]
        weights = np.exp(np.concatenate([below, [0.0], np.cumsum(steps[start:])]))
        return counts, weights / weights.sum()


def _last(tail: Callable[[float], float], miss: float) -> float:
    """A share up to which a rising tail is at most ``miss``: the last one, but for 1e-12."""
    if tail(0.0) > miss:
        return 0.0
    if tail(1.0) <= miss:
        return 1.0
    from scipy.optimize import brentq

    share, back = float(brentq(lambda chance: tail(chance) - miss, 0.0, 1.0, xtol=1e-13)), 1e-13
    while share > 0.0 and tail(share) > miss:
        share, back = max(0.0, share - back), 2 * back
    return share


def least_rows(
    law_at: LatticeLaw,
    resolution: int,
    *,
    null: float,
    share: float,
    alternative: str,
    alpha: float,
    power: float,
) -> int:
    """The least number of rows, up to its steps, at which a test has the power that is asked for.

    Power rises with the rows but for small steps of the lattice of counts.
    """
    if share == null:
        fail("`share` must differ from `null`: no number of rows tells them apart.")

    def enough(rows: int) -> bool:
        count = NoisyBinomial(rows, law_at, resolution)
        return count.power(share, null, alternative, alpha) >= power

    high = 1
    while not enough(high):
        high *= 2
        if high > _MOST_ROWS:
            fail("`power` is out of reach: state a larger effect, epsilon or alpha.")
    low = high // 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle, high)
    return high


def check_share(name: str, value: object) -> float:
    """A share strictly between 0 and 1."""
    return check_within(name, value, "(0, 1)")


def check_rows(value: object) -> int:
    """A number of trials whose law can be listed."""
    return check_count("rows", value, most=_MOST_ROWS)
