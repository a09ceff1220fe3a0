r"""Sums of weights :math:`e^{-rk}` times numbers, kept as a whole level and a logarithm.

A logarithm of such a sum is as large as the levels, and its rounding grows with the number of rows
and with the rate. Here the least level of a sum is kept as an integer, exactly, and only the
logarithm of what is left is rounded: that is small, whatever the rows and the rate.
"""

from __future__ import annotations

import math
from typing import Any

import numpy as np

from tightdp.errors import FloatArray, WideIntegers

_NOTHING = -60.0  # the log of what is nothing beside 1, even many times


class LevelSums:
    r"""Positive numbers :math:`e^{-rk + v}`, or 0 where v is minus infinity, in an array.

    Parameters
    ----------
    levels : integers k
        Of 64 bits, or Python integers.
    logs : floats v, the same shape
    rate : float

    Examples
    --------
    >>> one = LevelSums(np.array([10**12, 3]), np.array([0.0, -np.inf]), 2.0)
    >>> both = one.plus(LevelSums(np.array([10**12 + 1, 5]), np.zeros(2), 2.0))
    >>> both.levels.tolist(), both.logs.round(6).tolist()
    ([1000000000000, 5], [0.126928, 0.0])
    """

    def __init__(self, levels: WideIntegers, logs: FloatArray, rate: float) -> None:
        self.levels, self.logs, self.rate = levels, logs, rate

    @classmethod
    def nothing(cls, like: LevelSums, shape: tuple[int, ...]) -> LevelSums:
        """Zeros with levels of the same kind."""
        return cls(np.zeros(shape, dtype=like.levels.dtype), np.full(shape, -np.inf), like.rate)

    def __getitem__(self, part: Any) -> LevelSums:
        return LevelSums(self.levels[part], self.logs[part], self.rate)

    def __setitem__(self, part: Any, other: LevelSums) -> None:
        self.levels[part], self.logs[part] = other.levels, other.logs

    def reshape(self, *shape: int) -> LevelSums:
        """The same numbers in another shape."""
        return LevelSums(self.levels.reshape(shape), self.logs.reshape(shape), self.rate)

    def raised(self, levels: WideIntegers) -> LevelSums:
        """The numbers times :math:`e^{-r k}` for these levels."""
        return LevelSums(self.levels + levels, self.logs, self.rate)

    def above(self, base: Any) -> FloatArray:
        """Logarithms of the numbers times :math:`e^{rk}` for a level k."""
        gaps = np.asarray(self.levels - base).astype(np.float64)
        with np.errstate(over="ignore"):  # so far up is nothing
            return np.asarray(self.logs - self.rate * gaps)

    def plus(self, other: LevelSums) -> LevelSums:
        """Sums, entry by entry."""
        base = np.minimum(self.levels, other.levels)
        base = np.where(self.logs > -np.inf, base, other.levels)  # 0 has no level
        base = np.where(other.logs > -np.inf, base, self.levels)
        return LevelSums(base, np.logaddexp(self.above(base), other.above(base)), self.rate)

    def least(self) -> Any:
        """The least level of a number that is not 0, along the first axis."""
        live = self.logs > -np.inf
        most = self.levels.max(axis=0)
        return np.where(live, self.levels, most).min(axis=0)

    def total(self) -> LevelSums:
        """Sums along the first axis."""
        base = self.least()
        return LevelSums(base, log_sums(self.above(base)), self.rate)

    def running(self) -> LevelSums:
        """Sums of the first 1, 2, .. entries along the last of two axes.

        By blocks, so that few numbers are added one after another: roundings stay few.
        """
        lines, count = self.logs.shape
        width = math.isqrt(count) + 1
        blocks = -(-count // width)
        cells = LevelSums.nothing(self, (lines, blocks * width))
        cells[:, :count] = self
        cells = cells.reshape(lines, blocks, width)
        for i in range(1, width):
            cells[..., i] = cells[..., i - 1].plus(cells[..., i])
        ends = LevelSums(cells.levels[..., -1].copy(), cells.logs[..., -1].copy(), self.rate)
        for i in range(1, blocks):
            ends[:, i] = ends[:, i - 1].plus(ends[:, i])
        cells[:, 1:] = cells[:, 1:].plus(ends[:, :-1, None])
        return cells.reshape(lines, blocks * width)[:, :count]

    def windows(self, width: int) -> LevelSums:
        """Sums of entries ``a, .., a + width - 1`` for every a, without a difference.

        A window is the end of a block and the beginning of the next one.

        >>> four = LevelSums(np.zeros(4, dtype=np.int64), np.log([1.0, 2.0, 3.0, 4.0]), 1.0)
        >>> np.exp(four.windows(3).logs).round(9).tolist()
        [6.0, 9.0, 7.0, 4.0]
        """
        count = len(self.logs)
        lines = -(-(count + width) // width)
        cells = LevelSums.nothing(self, (lines * width,))
        cells[:count] = self
        blocks = cells.reshape(lines, width)
        begun = blocks.running().reshape(-1)
        ended = blocks[:, ::-1].running()[:, ::-1].reshape(-1)
        sums = ended[:count].plus(begun[width - 1 :][:count])
        sums[::width] = ended[:count:width]  # a whole block
        return sums

    def tails(self) -> LevelSums:
        """Sums of the entries from a on, for every a.

        >>> three = LevelSums(np.zeros(3, dtype=np.int64), np.log([1.0, 2.0, 3.0]), 1.0)
        >>> np.exp(three.tails().logs).round(9).tolist()
        [6.0, 5.0, 3.0]
        """
        return self[::-1].reshape(1, -1).running().reshape(-1)[::-1]


def log_sums(terms: FloatArray) -> FloatArray:
    """Log of the sums of ``exp(terms)`` over the first axis."""
    top = np.max(terms, axis=0)
    shift = np.where(np.isfinite(top), top, 0.0)
    terms = terms - shift
    # what is left out is less than a rounding, and exponentials are what takes time
    sums = np.exp(terms, where=terms > _NOTHING, out=np.zeros_like(terms)).sum(axis=0)
    with np.errstate(divide="ignore"):  # nothing sums to -inf
        return np.asarray(np.log(sums) + shift)
