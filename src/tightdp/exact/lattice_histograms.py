"""Histograms with a public total on the lattice: a flat body with an exact sampler."""

from __future__ import annotations

import math
from fractions import Fraction
from functools import cached_property

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow
from numpy.typing import NDArray

from tightdp.errors import FloatArray, WideIntegers, check_count, fail
from tightdp.exact.lattice_body import (
    LatticeBody,
    Rows,
    Uniform,
    geometric_variance,
    picks,
    series,
    uniform_of,
)
from tightdp.exact.rejection import by_weight
from tightdp.exact.uniform_points import simplex_points
from tightdp.randomness import RandomSource

_LISTED = 1 << 12  # up to this level every size of a difference is weighed on its own

Counts = tuple[tuple[int, ...], tuple[int, ...]]
"""How many points have the sizes 0, 1, ..., and how many have at most these sizes."""


class HistogramBody(LatticeBody):
    r"""{sum z = 0, sum |z| <= 2 l}: differences of histograms with a public total.

    A non-zero point of level l is a set A of k cells that gain, positive integers of sum l on A and
    non-negative integers of sum l off A: :math:`\binom{l-1}{k-1}\binom{l+m-k-1}{m-k-1}` of them.
    """

    def __init__(self, cells: int) -> None:
        self.dim = check_count("cells", cells, least=2)
        self.key, self.safe_level, self.safe_entry = (self.dim,), 1 << 58, (1 << 62) // self.dim
        self._counts: Counts = (1,), (1,)

    @property
    def factor(self) -> Fraction:
        return Fraction(self._all, math.factorial(self.rank))

    @cached_property
    def _all(self) -> int:
        return sum(self._weights)

    @property
    def rank(self) -> int:
        return self.dim - 1

    @property
    def share(self) -> float:
        return 1.0

    @cached_property
    def _weights(self) -> list[int]:
        """binom(m, k) binom(m-2, k-1), k = 1..m-1: how often k cells gain, at high levels."""
        m = self.dim
        return [math.comb(m, k) * math.comb(m - 2, k - 1) for k in range(1, m)]

    def _level(self, z: WideIntegers) -> WideIntegers:
        if bool((z.sum(axis=1) != 0).any()):
            fail("`z` must sum to 0 in every row: the total of a histogram is public.")
        return np.abs(z).sum(axis=1) // 2

    def covariance(self, rate: float) -> FloatArray:
        """One variance for all entries, which sum to 0."""
        m = self.dim
        return self.variance(rate) / (m - 1) * (m * np.eye(m) - 1)

    def variance(self, rate: float) -> float:
        r"""Of an entry, in closed form; :math:`x = e^{-rate}`, and the entries of z sum to 0.

        With :math:`f(w) = \sum_z x^{|z|/2} w^z` the points are counted by the constant term of
        :math:`f^m`, which is :math:`(1-x)^{1-m} \sum_k \binom{m-1}k^2 x^k`, and one entry squared
        by that of :math:`f^{m-1} (w\partial)^2 f`, :math:`2(m-1)x(1-x)^{-1-m}` times the Narayana
        polynomial :math:`\sum_k \frac1m \binom mk \binom m{k+1} x^k`. Their ratio is the
        variance; at m = 2 it is that of the geometric law.
        """
        m = self.dim
        k = np.arange(m)
        choose = -scipy.special.betaln(k + 1, m - k) - math.log(m)  # log binom(m - 1, k)
        # binom(m, k) = binom(m-1, k) m/(m-k) and binom(m, k+1) = binom(m-1, k) m/(k+1)
        weight = np.exp(2 * choose - rate * k - (2 * choose - rate * k).max())
        ratio = float(weight @ (m / ((m - k) * (k + 1.0)))) / float(weight.sum())
        return (m - 1) * geometric_variance(rate) * ratio

    def uniform(self, reach: int) -> Uniform | None:
        """The two generating functions of :meth:`covariance`, summed up to each level."""
        m = self.dim
        k = np.arange(min(m, reach + 1))
        choose = -scipy.special.betaln(k + 1, m - k) - math.log(m)  # log binom(m - 1, k)
        points, squares = np.zeros((2, reach + 1))
        with np.errstate(over="ignore"):
            points[k] = np.exp(2 * choose)
            narayana = points[k] * m / ((m - k) * (k + 1.0))
        squares[1:][k[:reach]] = 2 * (m - 1) * narayana[:reach]
        points, squares = series(points, over=m), series(squares, over=m + 2)
        return uniform_of(points, squares, m, -1 / (m - 1))

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        # The sum s of a uniform point of {v >= 0 in m-1 cells, sum <= l + o} takes each value with
        # binom(s+m-2, m-2) chances; k is drawn by its weight W_k. A point of size s and gainers k
        # is kept with probability binom(s-1,k-1) binom(s+m-k-1,m-k-1) / (binom(m-2,k-1)
        # binom(s+m-2,m-2)) <= 1, so its count cancels; zero (s = 0) with probability 1 / sum W.
        m = self.dim
        size = simplex_points(levels + offset, m - 1, rng, at_most=True).sum(axis=1)
        gainers = 1 + by_weight(self._weights, len(levels), rng)
        keep = (size <= levels) & (size >= gainers) & self._thinned(size, gainers, rng)
        zero = (size == 0) & (by_weight([1, self._all - 1], len(levels), rng) == 0)
        rows = np.flatnonzero(keep | zero)
        return self._points(size[rows], gainers[rows], rng), rows

    # --- low levels ---------------------------------------------------------------------------

    def _sizes(self, level: int) -> tuple[int, ...]:
        """How many points have the sizes 0..l."""
        return self._counted(level)[0][: level + 1]

    def _counted(self, level: int) -> Counts:
        """Counts up to a level, or beyond.

        Threads share the body. A longer pair is made aside and then takes the place of the shorter
        one in a single assignment: whoever reads sees a whole pair, and all pairs agree.
        """
        counts = self._counts
        if level >= len(counts[0]):
            counts = _longer(counts, self.rank, min(max(level, 2 * len(counts[0])), _LISTED))
            self._counts = counts
        return counts

    def _gainer_weights(self, size: int) -> list[int]:
        """Points of a size >= 1 with k = 1..m-1 gainers."""
        m, out = self.dim, []
        # binom(m,k) binom(s-1,k-1) binom(s+m-k-1,m-k-1), from one k to the next
        term = m * math.comb(size + m - 2, m - 2)
        for k in range(1, m):
            out.append(term)
            top = (m - k) * (size - k) * (m - k - 1)
            term = term * top // ((k + 1) * k * (size + m - k - 1))
        return out

    def cells(self, level: int) -> int:
        if level > _LISTED:
            return self._all * math.comb(level + self.rank, self.rank)
        return self._counted(level)[1][level]

    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        high = np.flatnonzero(levels > _LISTED)
        low = np.flatnonzero(levels <= _LISTED)
        z, rows = self.propose(levels[high], 0, rng)
        size = picks(levels[low], self._sizes, rng).astype(levels.dtype)
        gainers = np.ones(len(low), dtype=np.int64)
        inner = np.flatnonzero(size > 0)
        gainers[inner] += picks(size[inner], self._gainer_weights, rng)
        points = self._points(size, gainers, rng)
        order = np.argsort(found := np.concatenate([low, high[rows]]))
        return np.vstack([points, z])[order], found[order]

    # --- high levels --------------------------------------------------------------------------

    def _thinned(
        self, size: WideIntegers, gainers: NDArray[np.int64], rng: RandomSource
    ) -> NDArray[np.bool_]:
        # The ratio is prod_{i=1..m-2} top_i / (s + i) with tops s-k+1..s-1, s+1..s+m-k-1 ascending;
        # each factor is at most 1 and is realised by one uniform integer below s + i.
        keep = size > 0
        for i in range(1, self.dim - 1):
            top = np.where(i < gainers, size - gainers + i, size - gainers + i + 1)
            keep &= rng.integers_below(size + i) < top
        return np.asarray(keep, dtype=bool)

    def _points(
        self, size: WideIntegers, gainers: NDArray[np.int64], rng: RandomSource
    ) -> WideIntegers:
        z = np.zeros((len(size), self.dim), dtype=size.dtype)
        order = rng.permutations(len(size), self.dim)
        for k in range(1, self.dim):
            rows = np.flatnonzero((gainers == k) & (size > 0))
            if rows.size:
                up = 1 + simplex_points(size[rows] - k, k, rng)
                down = simplex_points(size[rows], self.dim - k, rng)
                z[rows[:, None], order[rows]] = np.hstack([up, -down])
        return z


def _longer(counts: Counts, n: int, last: int) -> Counts:
    r"""The same counts up to the size ``last``: the coordination sequence of the lattice A_n.

    Its generating function is the Legendre polynomial :math:`P_n((1+x)/(1-x))`, n = m - 1, and
    Legendre's equation makes it a recursion,
    :math:`(s+1)^2 c_{s+1} = (2s^2 + n(n+1))\,c_s - (s-1)^2 c_{s-1}`.
    """
    shells, balls = map(list, counts)
    for s in range(len(shells) - 1, last):
        before = (s - 1) ** 2 * shells[s - 1] if s else 0
        shells.append(((2 * s * s + n * (n + 1)) * shells[s] - before) // (s + 1) ** 2)
        balls.append(balls[-1] + shells[-1])
    return tuple(shells), tuple(balls)
