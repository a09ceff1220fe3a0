r"""Counting paths in a band, and drawing them with exactly known probabilities.

A sample of k grid points is a path :math:`0 = S_0 \le S_1 \le \dots \le S_G = k` of cumulative
counts, and stands for :math:`k!/\prod c_j!` ordered samples, :math:`c_j = S_j - S_{j-1}`. Here
paths that stay within a distance q of a centre are weighed by :math:`\prod 1/c_j!` and proposed
step by step, backwards. Floats decide which proposals are made; the probability of every proposal
is a ratio of integers, known exactly, and its bound is proved:

**Lemma.** Let :math:`\hat V_0 = 1`, :math:`U_j(s) = \sum_{s'} \hat V_{j-1}(s') / (s - s')!` over
the band, and :math:`\hat V_j \ge U_j` anything. The chain that goes from :math:`S_j = s` to s' with
probability :math:`\hat V_{j-1}(s')/((s-s')!\,U_j(s))` proposes a path with probability
:math:`\prod_j \frac{1}{c_j!} \cdot \frac{1}{U_G(k)} \prod_{0<j<G} \hat V_j(S_j)/U_j(S_j) \ge
\prod_j \frac{1}{c_j!} / U_G(k)`.
So :math:`U_G(k)` bounds the ratio of weight to proposal for every path at once; rounding errors of
the floats enter with a relative ``2**-10``, thousands of times what they can add up to.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray
from tightdp.randomness import RandomSource

Integers = NDArray[np.int64]

_PLACES = 52  # bits of the integer weights of a step, less where there are many
_SLACK = Fraction(1, 1 << 10)


@dataclass(frozen=True, slots=True, eq=False)
class Band:
    """The states low[j]..high[j] for j = 0..G, and log weights of the paths that lead to them."""

    low: Integers
    high: Integers
    logs: tuple[FloatArray, ...]
    log_scale: FloatArray  # log U_j - logs[j]: rows are kept near 0

    @property
    def log_total(self) -> float:
        """Log of the weight of all paths in the band, to within rounding."""
        return float(self.log_scale[-1] + self.logs[-1][0])


def ratio_bound(log_total: float) -> Fraction:
    """A rational that no ratio of weight to proposal exceeds, from the log weight of a band."""
    return exp_up(log_total) * (1 + _SLACK)


class BandPaths:
    """Paths around the scaled distribution function of a table.

    Parameters
    ----------
    cumulative : integers, shape (G,)
        Numbers of rows up to each grid point; the last is n.
    size : int
        k, the number of points in a sample.

    Examples
    --------
    >>> paths = BandPaths(np.array([1, 3]), size=2)
    >>> paths.distance(np.array([1, 1])), paths.least  # |3 * 1 - 2 * 1|
    (1, 1)
    >>> round(math.exp(paths.band(6).log_total), 6)  # 1/2! + 1/(1! 1!) + 1/2! = 2**2 / 2!
    2.0
    """

    def __init__(self, cumulative: Integers, size: int) -> None:
        self.rows, self.size = int(cumulative[-1]), size
        self.centre = size * np.concatenate([[0], cumulative.astype(np.int64)])
        self.cells = len(cumulative)
        rest = self.centre % self.rows
        self.least = int(np.minimum(rest, self.rows - rest).max())
        self.log_factorials = np.array([math.lgamma(c + 1.0) for c in range(size + 1)])

    def distance(self, counts: Integers) -> int:
        """The largest distance n k sup |F_n - F_k| of the counts of a sample: an integer."""
        path = np.concatenate([[0], np.cumsum(counts)])
        return int(np.abs(self.rows * path - self.centre).max())

    def band(self, distance: int) -> Band:
        """All paths within a distance that is not below ``least``."""
        low = np.maximum(-((distance - self.centre) // self.rows), 0)
        high = np.minimum((self.centre + distance) // self.rows, self.size)
        low[0] = high[0] = 0
        low[-1] = high[-1] = self.size
        logs, scale = [np.zeros(1)], np.zeros(self.cells + 1)
        for j in range(1, self.cells + 1):
            terms = self._terms(logs[-1], int(low[j - 1]), np.arange(low[j], high[j] + 1))
            top = terms.max(axis=1)
            row = top + np.log(np.exp(terms - top[:, None]).sum(axis=1))
            shift = float(row.max())
            logs.append(row - shift)
            scale[j] = scale[j - 1] + shift
        return Band(low, high, tuple(logs), scale)

    def _terms(self, row: FloatArray, low: int, states: Integers) -> FloatArray:
        """Log weights of the steps from low, low + 1, ... (columns) to the states (rows)."""
        steps = states[:, None] - (low + np.arange(len(row)))
        return np.where(steps < 0, -np.inf, row - self.log_factorials[np.maximum(steps, 0)])

    def propose(self, band: Band, rng: RandomSource) -> tuple[Integers, Fraction]:
        """The counts of a path in the band, and the exact probability of the proposal."""
        counts = np.zeros(self.cells, dtype=np.int64)
        state, above, below = self.size, 1, 1
        for j in range(self.cells, 0, -1):
            before = int(band.low[j - 1])
            logs = self._terms(band.logs[j - 1], before, np.array([state]))[0]
            reach = int(np.count_nonzero(logs > -np.inf))  # steps >= 0: a prefix
            weights = step_weights(logs[:reach])
            edges = np.cumsum(weights)
            i = int(np.searchsorted(edges, rng.below(int(edges[-1])), side="right"))
            above, below = above * int(weights[i]), below * int(edges[-1])
            counts[j - 1] = state - (before + i)
            state = before + i
        return counts, Fraction(above, below)

    def weight(self, counts: Integers) -> Fraction:
        """The exact weight of a path."""
        return Fraction(1, math.prod(math.factorial(int(c)) for c in counts))

    def total(self) -> Fraction:
        """The exact weight of all paths, by the multinomial theorem."""
        return Fraction(self.cells**self.size, math.factorial(self.size))


def step_weights(logs: FloatArray) -> Integers:
    """Integers >= 1 in proportion to exp(logs), rounded up.

    >>> step_weights(np.array([0.0, -1e9])).tolist() == [2**52, 1]
    True
    """
    places = min(_PLACES, 62 - len(logs).bit_length())  # the sum of all fits 63 bits
    scaled = np.exp(logs - logs.max()) * float(1 << places)
    return np.maximum(np.ceil(scaled), 1.0).astype(np.int64)


def exp_up(x: float) -> Fraction:
    """A rational a little above exp(x), for any finite double.

    >>> float(exp_up(1.0)) >= math.e, float(exp_up(-800.0) * 10**340) > 0
    (True, True)
    """
    power = math.floor(x / math.log(2))
    mantissa = Fraction(math.exp(x - power * math.log(2)) * (1 + 1e-9))
    return mantissa * (Fraction(1 << power) if power >= 0 else Fraction(1, 1 << -power))


def whole_up(x: Fraction) -> int:
    """The least integer >= x."""
    return -(-x.numerator // x.denominator)


def any_sample(cells: int, size: int, rng: RandomSource) -> Any:
    """The counts of ``size`` independent uniform grid points."""
    return np.bincount(rng.integers(cells, size), minlength=cells)
