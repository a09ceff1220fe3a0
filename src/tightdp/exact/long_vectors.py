r"""Boxes and histograms of many entries: one number first, then all entries at once.

The law of a lattice noise, weight :math:`q^{level(z)}`, :math:`q = e^{-\eta}`, is drawn here in
time and memory that grow with the number of entries alone. One integer is drawn from a log-concave
law (:mod:`~tightdp.exact.log_concave`), and given it the entries are uniform points of a box or of
simplices.

**Boxes** :math:`|z_i| \le hl`. A power is a sum, :math:`q^{level(z)} = (1-q)\sum_{l \ge level(z)}
q^l`. So l has the weight :math:`q^l (2hl+1)^m`, the last being the number of points of the box, and
given l the point z is uniform in the box.

**Histograms**, z with sum 0 and level :math:`\sum|z_i|/2`. With :math:`r = \sqrt q` and
:math:`z = g - g'`, :math:`g, g' \ge 0`,

.. math:: \sum_{g - g' = z} r^{\sum g_i + \sum g'_i} = \prod_i \sum_{c \ge 0} r^{|z_i| + 2c}
          = \frac{r^{\sum|z_i|}}{(1-q)^m} ,

so that z is the difference of two points g, g' with one total t; the total has the weight
:math:`q^t \binom{t+m-1}{m-1}^2`, and given it both are independent and uniform in the simplex.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, WideIntegers
from tightdp.exact.discrete_draws import collect
from tightdp.exact.lattice_body import roomy
from tightdp.exact.log_concave import Counted, LogConcaveLaw
from tightdp.exact.uniform_points import simplex_points
from tightdp.randomness import RandomSource

Sampler = Callable[[int, RandomSource], WideIntegers]

_SHIFT = 16  # factorials from here on follow Stirling's series to a part in 2**52
_UNIT = 2.0**-52
_CELLS = 1 << 17  # entries drawn at a time: they stay in the cache
_WORD = 1 << 61
_LONGEST = 1 << 50  # about where totals and levels lie, at most
_FAST = 1 << 32  # bounds of integers_within


# --- histograms -----------------------------------------------------------------------------------


def histogram_draws(cells: int, rate: Fraction) -> Sampler | None:
    """Points z of sum 0 with weight exp(-rate * sum |z_i| / 2); None beyond 64-bit integers."""
    if cells / rate > _LONGEST:
        return None
    totals = total_law(cells, rate)
    if not totals.feasible:
        return None

    def draw(size: int, rng: RandomSource) -> WideIntegers:
        total = totals.draw(size, rng)
        first = simplex_points(total, cells, rng)
        first -= simplex_points(total, cells, rng)
        return first

    return lambda size, rng: collect(lambda n: draw(n, rng), size, width=cells, cells=_CELLS)


def total_law(cells: int, rate: Fraction) -> LogConcaveLaw:
    r"""The law of the total: :math:`q^t \binom{t+m-1}{m-1}^2`, log-concave.

    From t to t + 1 the weight grows by the factor :math:`q\,((t+m)/(t+1))^2`, which falls.
    """
    eta, m = float(rate), cells
    least = -math.expm1(-eta / 2)  # 1 - r
    mode = math.floor((m - 1) * (1 - least) / least)
    spread = math.sqrt((mode + 1) * (mode + m) / (2 * m))
    near = _StirlingRatio(mode, m - 1)
    counted = Counted(
        lambda t: 2 * near.logs(t), 2 * near.error(spread), lambda t: near.exact(t) ** 2
    )
    return LogConcaveLaw(rate, mode, spread, counted)


class _StirlingRatio:
    r"""The ratio of :math:`\binom{t+n}{n}` to its value at s, in logarithms and exactly.

    It is :math:`\prod_{j=1}^{n} (t+j)/(s+j)`, or as well a product of :math:`|t - s|` factors.
    With a = s + 16 and d = t - s, Stirling's series says

    .. math:: \ln\frac{(a+d)!}{a!} = (a + \tfrac12)\ln(1 + d/a) + d\ln(a + d) - d
              + c(a + d) - c(a),\quad c(x) = \frac1{12x} - \frac1{360x^3} + \frac1{1260x^5} ,

    with an error below :math:`1/(1680 \cdot 16^7) < 2^{-38}`; the first 16 factors are taken off
    one by one (a = s where s and t are at least 16). The same at a + n, and the difference of both
    is what is asked for: in it :math:`d\ln(1 + n/(a+d))` stands for two longer terms.
    """

    def __init__(self, at: int, n: int) -> None:
        self.at, self.n = at, n

    def logs(self, t: NDArray[np.int64]) -> FloatArray:
        d = (t - self.at).astype(np.float64)
        low = self.at + d.min(initial=0.0) < _SHIFT
        a = float(self.at + (_SHIFT if low else 0))
        out = self._curved(a + self.n, d) - self._curved(a, d) + d * np.log1p(self.n / (a + d))
        for i in range(1, _SHIFT + 1) if low else ():
            out += _log_ratio(self.at + i, d) - _log_ratio(self.at + self.n + i, d)
        return np.asarray(out)

    def error(self, spread: float) -> float:
        """Of :meth:`logs`, times 1 + |d| / spread, up to 8 spreads below s and anywhere above it.

        Terms are at most 2 |d| in size where t exceeds s/2, and 2 |d| ln(s + n) below; each is
        rounded a few times, logarithms to 8 units. The factors that are taken off are at most 64
        in logarithms.
        """
        longest = 4 if self.at > 16 * spread else 4 + 2 * math.log(self.at + self.n + _SHIFT)
        longest += math.log1p(self.n / max(self.at, 1))
        return 32 * _UNIT * (spread * longest + 64 * _SHIFT * (self.at < 1 << 20)) + 2.0**-36

    @staticmethod
    def _curved(a: float, d: FloatArray) -> FloatArray:
        return (a + 0.5) * _log_ratio(a, d) + (_correction(a + d) - _correction(a))

    def exact(self, t: int) -> Fraction:
        low, high = min(t, self.at), max(t, self.at)
        if high - low <= self.n:
            ratio = Fraction(_product(low + self.n + 1, high + self.n), _product(low + 1, high))
        else:
            ratio = Fraction(_product(high + 1, high + self.n), _product(low + 1, low + self.n))
        return ratio if t >= self.at else 1 / ratio


def _log_ratio(a: float, d: FloatArray) -> FloatArray:
    """ln((a + d) / a), of integers below 2**53, a + d >= 1."""
    x = d / a
    far = np.log(np.maximum(a + d, 1.0)) - math.log(a)  # where 1 + x would lose its digits
    return np.asarray(np.where(x > -0.5, np.log1p(np.maximum(x, -0.5)), far))


def _correction(x: FloatArray | float) -> FloatArray:
    y = 1 / np.asarray(x)
    square = y * y
    return y * (1 / 12 - square * (1 / 360 - square / 1260))


def _product(low: int, high: int) -> int:
    """low (low + 1) ... high, halves first: long factors are multiplied with long ones."""
    if high - low < 64:
        return math.prod(range(low, high + 1))
    middle = (low + high) // 2
    return _product(low, middle) * _product(middle + 1, high)


# --- boxes ----------------------------------------------------------------------------------------


def box_draws(dim: int, half: int, rate: Fraction) -> Sampler | None:
    """Points z with weight exp(-rate * l), l the least integer with all |z_i| <= half * l.

    None stands for levels beyond 64-bit integers.
    """
    if dim / rate * half > _LONGEST:
        return None
    levels = level_law(dim, half, rate)
    if not levels.feasible:
        return None

    def draw(size: int, rng: RandomSource) -> WideIntegers:
        level = roomy(levels.draw(size, rng), _WORD // (2 * half + 2))
        sides = 2 * half * level + 1
        if level.dtype == object or int(sides.max(initial=1)) > _FAST:
            u = rng.integers_below(np.repeat(sides[:, None], dim, axis=1))
        else:
            u = rng.integers_within(sides, dim)
        u -= half * level[:, None]
        return u

    return lambda size, rng: collect(lambda n: draw(n, rng), size, width=dim, cells=_CELLS)


def level_law(dim: int, half: int, rate: Fraction) -> LogConcaveLaw:
    r"""The law of the level: :math:`q^l (2hl + 1)^m`, log-concave."""
    eta, h = float(rate), half
    mode = max(0, math.floor(dim / eta - 1 / (2 * h)))
    if dim * math.log1p(2 * h / (2 * h * mode + 1)) > eta:  # the level after it has more points
        mode += 1
    at = 2 * h * mode + 1
    own = (mode + 1 / (2 * h)) / math.sqrt(dim)
    spread = max(own, 1 / eta, 0.5)
    counted = Counted(
        lambda t: dim * _log_ratio(at, (t - mode).astype(np.float64) * (2 * h)),
        # |ln((2ht + 1)/(2hs + 1))| <= |t - s| / (s + 1/2h) upwards, and downwards at most 44 times
        # as much, as no number of 64 bits has a longer logarithm
        32 * _UNIT * 44 * (math.sqrt(dim) * spread / own if mode else 2 * dim),
        lambda t: Fraction(2 * h * t + 1, at) ** dim,
    )
    return LogConcaveLaw(rate, mode, spread, counted)
