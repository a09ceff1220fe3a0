r"""Integers with log-concave weights :math:`e^{-\eta t} N(t)`, drawn one at a time from cells.

Levels of boxes and totals of histograms have such laws, with numbers N(t) of points that are far
too long to list. The integers around the mode are cut into cells; a cell is chosen by an
**integer** weight that exceeds all that is in it, a place in it uniformly, and what was chosen is
kept with the probability that is left. Beyond the cells, blocks halve their weights one after the
other. Floats choose the cells and filter coins with a stated margin; what they leave open is
settled by integers (:func:`~tightdp.exact.undecided_bits.below_exp`). No float decides.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, WideIntegers
from tightdp.exact.discrete_draws import collect
from tightdp.exact.rejection import halvings
from tightdp.exact.undecided_bits import below_exp
from tightdp.randomness import RandomSource

_CELLS, _REACH = 128, 8.0  # cells between so many standard deviations around the mode
_PLACES = 40  # bits of a weight
_MARGIN = 2.0**-10  # of caps above the floats they come from
_SLOW, _HIGH = 1e-9, 700.0  # least fall over the last cell, and largest logarithm of a weight
_MOST = 1 << 58  # integers that are drawn, at most: sums of a few stay 64-bit integers
_TINY = np.uint64(1 << 52)
_LOG = 2.0**-45  # twice the error of the logarithm of a word that is not tiny


@dataclass(frozen=True, slots=True)
class Counted:
    r"""The numbers N(t), or numbers above them, beside those at the mode.

    Attributes
    ----------
    logs : callable
        From an array of integers t to doubles near :math:`\ln N(t)/N(s)`, s the mode.
    error : float
        In cells they err by at most this times 1 + :math:`|t - s|/` spread.
    exact : callable
        From an integer t to the fraction :math:`N(t)/N(s)`.
    """

    logs: Callable[[NDArray[np.int64]], FloatArray]
    error: float
    exact: Callable[[int], Fraction]


class LogConcaveLaw:
    r"""Integers t >= 0 with :math:`P(t) \propto w(t) = e^{-\eta t} N(t)`, w log-concave.

    **Exactness.**
    Statement: draws have this law.
    Needs: [N1] the error of ``logs`` is as stated, and :func:`numpy.log` is as in
    :mod:`~tightdp.exact.discrete_draws`; [N2] w is log-concave.
    Proof: 1. Let :math:`f = \ln w(t)/w(s)`. In a cell of n integers concavity bounds f by its
    values at the edges around [N2]; a **cap** is 2**-10 more, which exceeds errors of floats [N1].
    2. The weight of the cell is an integer :math:`W \ge n\,2^{40} e^{cap}`; t comes out with
    probability in proportion to W/n and is kept with probability
    :math:`2^{40} n e^f / W \le 1`: together in proportion to :math:`e^f`. 3. Let a be the first
    integer beyond the cells and f fall by at least :math:`\ln 2` in M steps from there, because it
    does so at the pace of the last cell [N2]. Its values in the block j = 0, 1, ... of M integers
    are at most :math:`f(a) - j \ln 2`; a block has half the weight of the one before, and all
    together they have the weight W with
    :math:`W \ge 2 M 2^{40} e^{cap}`, of which :math:`2^{-j-1}/M` is that of t. Below the cells it
    is the same, and what is negative is refused. 4. The last coin is decided by floats only in
    cells, where they keep twice the stated error away from it, and else by integers, with the same
    word.

    Parameters
    ----------
    eta : Fraction
        > 0.
    mode : int
        About where w is largest.
    spread : float
        About the standard deviation, > 0.
    counted : Counted

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> squares = Counted(
    ...     lambda t: 2 * np.log1p((t - 2) / 3), 2.0**-40, lambda t: Fraction(t + 1, 3) ** 2
    ... )
    >>> LogConcaveLaw(Fraction(3, 4), 2, 2.0, squares).draw(5, source(1)).dtype
    dtype('int64')
    """

    def __init__(self, eta: Fraction, mode: int, spread: float, counted: Counted) -> None:
        self.eta, self.mode, self.spread, self.counted = eta, mode, max(spread, 0.5), counted
        self._rate = float(eta)
        reach = math.ceil(_REACH * self.spread)
        width = max(1, math.ceil(2 * reach / _CELLS))
        edges = np.arange(max(0, mode - reach), mode + reach + 2 + width, width)
        self._edges, self._width = edges, width
        f = self.floats(edges)
        # [3] f falls faster beyond an end than within the cell before it
        lost = 2 * float(self._error(edges).max())
        falls = f[1] - f[0] - lost, f[-2] - f[-1] - lost
        self._least_fall = falls[1] if edges[0] == 0 else min(falls)
        self._blocks = [math.ceil(1.01 * width * math.log(2) / max(fall, _SLOW)) for fall in falls]
        tops = np.append(self._caps(f), [f[0], f[-1]]) + _MARGIN
        self._top = float(tops.max())
        sizes = [*[width] * (len(edges) - 1), 2 * self._blocks[0], 2 * self._blocks[1]]
        if edges[0] == 0:
            sizes[-2] = 0  # nothing is below the cells
        weights = [  # at least 1, where doubles underflow
            max(math.ceil(size * math.ldexp(math.exp(min(top, _HIGH)), _PLACES)), min(size, 1))
            for size, top in zip(sizes, tops, strict=True)
        ]
        spare = max(0, sum(weights).bit_length() - 62)
        self._places, self._sizes = _PLACES - spare, sizes
        self._weights = [-(-weight >> spare) for weight in weights]
        self._ends = np.cumsum(self._weights)
        self._starts = np.append(edges[:-1], [0, 0])
        self._lengths = np.array([*sizes[:-2], *self._blocks])
        with np.errstate(divide="ignore", invalid="ignore"):  # 0/0: never drawn
            logs = np.log(np.array([sizes, self._weights], dtype=np.float64))
            self._free = logs[0] - logs[1] + self._places * math.log(2)

    def _caps(self, f: FloatArray) -> FloatArray:
        """Bounds on f in every cell, from its values at the edges.

        f is concave: on [a, b) it is at most what a line through the edges before it says, f(a) or
        the line at b, and as much by the edges after it. Cells of one integer are as they are.
        """
        if self._width == 1:
            return f[:-1]
        after = 2 * f[1:] - np.append(f[2:], np.inf)  # the line through b and the edge after it
        before = 2 * f[:-1] - np.insert(f[:-2], 0, np.inf)
        # lines: infinite values stand for edges that are not there, and are no bounds
        left = np.where(np.isfinite(before), np.maximum(f[:-1], before), np.inf)
        right = np.where(np.isfinite(after), np.maximum(f[1:], after), np.inf)
        return np.minimum(left, right)

    @property
    def feasible(self) -> bool:
        """Whether all that is likely fits 64-bit integers, and errors of floats fit the margin."""
        far = int(self._edges[-1]) + 100 * max(self._blocks)
        certain = self._least_fall > _SLOW and self._top < _HIGH
        return certain and far < _MOST and 4 * float(self._error(self._edges).max()) < _MARGIN

    def floats(self, t: NDArray[np.int64]) -> FloatArray:
        """f, roughly."""
        return self.counted.logs(t) - self._rate * (t - self.mode).astype(np.float64)

    def _error(self, t: NDArray[np.int64]) -> FloatArray:
        far = np.abs((t - self.mode).astype(np.float64))
        # the product with the rate, the rate itself and the sums err by a few units of the last bit
        return self.counted.error * (1 + far / self.spread) + (self._rate * far + 64) * 2.0**-49

    def draw(self, size: int, rng: RandomSource) -> WideIntegers:
        """So many independent integers: int64, or Python integers where one is long."""
        return collect(lambda n: self._propose(n, rng), size, 0.9)

    def _propose(self, count: int, rng: RandomSource) -> WideIntegers:
        cell = np.searchsorted(self._ends, rng.integers(int(self._ends[-1]), count), side="right")
        place = rng.integers_below(self._lengths[cell])
        words = rng.words(count)
        t: WideIntegers = self._starts[cell] + place
        beyond = np.flatnonzero(cell >= len(self._edges) - 1).tolist()
        block = [halvings(rng) for _ in beyond]
        for i, j in zip(beyond, block, strict=True):
            far = self._far(int(cell[i]), j, int(place[i]))
            t = t.astype(object) if far >= _MOST else t
            t[i] = far
        near = np.clip(t, 0, _MOST).astype(np.int64)
        x = self._free[cell] + self.floats(near)
        gap = np.log(np.maximum(words, _TINY).astype(np.float64) * 2.0**-64) - x  # ln U - ln p
        keep = gap < 0
        close = (np.abs(gap) <= 2 * self._error(near) + _LOG) | (words < _TINY)
        close[beyond] = True
        steps = dict(zip(beyond, block, strict=True))
        for i in np.flatnonzero(close & (t >= 0)).tolist():
            keep[i] = self._decide(int(words[i]), int(t[i]), int(cell[i]), steps.get(i, 0), rng)
        return t[keep & (t >= 0)]

    def _far(self, cell: int, block: int, place: int) -> int:
        """The integer at a place of a block beyond the cells; -1 for none."""
        if cell == len(self._edges):
            return int(self._edges[-1]) + block * self._blocks[1] + place
        return max(int(self._edges[0]) - 1 - block * self._blocks[0] - place, -1)

    def _decide(self, word: int, t: int, cell: int, block: int, rng: RandomSource) -> bool:
        """The same coin in integers: U < 2**places (n / W) 2**block w(t) / w(s)."""
        share = self.counted.exact(t) * Fraction(self._sizes[cell], self._weights[cell])
        share *= Fraction(2) ** (self._places + block)
        x = self.eta * (t - self.mode)
        return below_exp(word, x, rng, num=share.numerator, den=share.denominator)
