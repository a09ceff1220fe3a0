"""The corner of a cube cut off by a plane: C_n = {x in [0,1]^n : x_1 + ... + x_n <= k}, k integer.

It is the building block of the sum and count balls and knows volumes, moments and uniform points
for every n up to a largest dimension. It never rejects: the cost of a point is O(n), whatever k.

The map behind everything is Stanley's: for uniform y, x_j = y_j - y_(j-1) mod 1 (y_0 = 0) is
uniform in the cube, and floor(x_1 + ... + x_n) is the number of descents of (0, y_1, ..., y_n).
Written on a circle, the step back to 0 makes it ``1 + floor(sum)`` descents, so a uniform point of
C_n is a uniform circular arrangement of the ranks 0..n with at most k descents, filled with uniform
order statistics. [Stanley, 1977]
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np

from tightdp.errors import FloatArray, Integers
from tightdp.randomness import RandomSource


class CubeCorner:
    """C_0, ..., C_dim for one bound k.

    Examples
    --------
    >>> corner = CubeCorner(dim=3, bound=1)
    >>> np.exp(corner.log_volumes).round(4)
    array([1.    , 1.    , 0.5   , 0.1667])
    """

    def __init__(self, dim: int, bound: int) -> None:
        self.dim, self.bound = dim, bound

    @cached_property
    def log_arrangements(self) -> FloatArray:
        """``[n, b]``: log of the number of circles of 0..n with b descents (Eulerian numbers)."""
        table = np.full((self.dim + 1, self.bound + 1), -np.inf)
        table[0, 0] = 0.0
        b = np.arange(1, self.bound + 1)
        for n in range(1, self.dim + 1):
            # N(n, b) = (n-b+1) N(n-1, b-1) + b N(n-1, b): rank n goes into one of the n-b+1
            # ascents (one more descent) or into one of the b descents (one more ascent).
            rises = np.log(np.maximum(n - b + 1, 1)) + table[n - 1, :-1]
            table[n, 1:] = np.logaddexp(rises, np.log(b) + table[n - 1, 1:])
        return table

    @cached_property
    def log_volumes(self) -> FloatArray:
        """Log volumes of C_0, ..., C_dim: (Eulerian numbers with fewer than k descents) / n!."""
        from scipy.special import gammaln

        counts = np.logaddexp.reduce(self.log_arrangements, axis=1)
        return np.asarray(counts - gammaln(np.arange(self.dim + 1) + 1.0))

    @cached_property
    def _rise_chance(self) -> FloatArray:
        """``[n, b]``: chance that rank n went into an ascent, given b descents afterwards."""
        table, b = self.log_arrangements, np.arange(1, self.bound + 1)
        chance = np.zeros_like(table)
        for n in range(2, self.dim + 1):
            with np.errstate(invalid="ignore"):
                log = np.log(np.maximum(n - b + 1, 1)) + table[n - 1, :-1] - table[n, 1:]
            chance[n, 1:] = np.where(b <= n, np.exp(log), 0.0)
        return chance

    def moments(self, n: int) -> tuple[float, float, float]:
        """E x_1, E x_1^2 and E x_1 x_2 of a uniform point of C_n, from exact integers."""
        k = self.bound
        # H(p, m, t) = sum_i (-1)^i binom(m, i) (t-i)_+^p / p! has Laplace transform
        # (1-e^-s)^m / s^(p+1) in t; multiply the transforms of 1, x, x^2 on [0,1] and read off:
        #   vol  = H(n, n, k)
        #   x1   = H(n+1, n, k) - H(n, n-1, k-1)
        #   x1^2 = 2 H(n+2, n, k) - 2 H(n+1, n-1, k-1) - H(n, n-1, k-1)
        #   x1x2 = H(n+2, n, k) - 2 H(n+1, n-1, k-1) + H(n, n-2, k-2)
        # All are multiplied by (n+2)! below, so that every number is an integer.
        low, high = (n + 1) * (n + 2), n + 2
        volume = low * _spline(n, n, k)
        edge, edge_next = low * _spline(n, n - 1, k - 1), high * _spline(n + 1, n - 1, k - 1)
        second = _spline(n + 2, n, k)
        first = high * _spline(n + 1, n, k) - edge
        square = 2 * second - 2 * edge_next - edge
        cross = second - 2 * edge_next + low * _spline(n, n - 2, k - 2) if n > 1 else 0
        return first / volume, square / volume, cross / volume

    def points(self, dims: Integers, rng: RandomSource) -> FloatArray:
        """Row i holds a uniform point of ``C_dims[i]``, then zeros up to ``dim`` columns."""
        # Longest rows first: the rows still growing at rank n are then always a prefix.
        order = np.argsort(-dims, kind="stable")
        sizes = dims[order]
        active = np.searchsorted(-sizes, -np.arange(self.dim + 2), side="right")
        following = self._circles(self._descents(active, rng), active, rng)
        out = np.zeros((len(dims), self.dim))
        out[order] = self._steps(following, sizes, active, rng)
        return out

    def _descents(self, active: Integers, rng: RandomSource) -> Integers:
        """``[n, row]``: number of descents once ranks 0..n are placed, drawn from n = dim down."""
        path = np.ones((self.dim + 1, active[0]), dtype=np.int64)
        state = np.ones(active[0], dtype=np.int64)
        for n in range(self.dim, 1, -1):
            old, now = active[n + 1], active[n]
            table = self.log_arrangements[n]
            state[old:now] = rng.categorical(np.exp(table - table.max()), now - old)
            path[n, :now] = state[:now]
            state[:now] -= rng.uniform(int(now)) <= self._rise_chance[n, state[:now]]
        return path

    def _circles(self, path: Integers, active: Integers, rng: RandomSource) -> Integers:
        """``[row, r]``: the rank that follows rank r on the circle.

        A gap is named by the rank on its left. Rank n, the largest so far, turns the gap (e, f) it
        enters into an ascent (e, n) and a descent (n, f). ``gaps`` lists the ascents from the left
        and the descents from the right, so an insertion is two writes.
        """
        rows, width = path.shape[1], self.dim + 1
        base = np.arange(rows) * width
        gaps = np.zeros(rows * width, dtype=np.int64)
        following = np.zeros(rows * width, dtype=np.int64)
        gaps[base + self.dim] = 1  # the circle 0, 1: ascent after 0 (slot 0), descent after 1
        following[base] = 1
        for n in range(2, self.dim + 1):
            start = base[: active[n]]
            falls = path[n - 1, : active[n]]
            rises = n - falls
            into_rise = path[n, : active[n]] > falls
            count = np.where(into_rise, rises, falls)
            pick = np.minimum((rng.uniform(len(start)) * count).astype(np.int64), count - 1)
            slot = start + np.where(into_rise, pick, self.dim - pick)
            left = gaps[slot]
            gaps[np.where(into_rise, start + self.dim - falls, slot)] = n
            gaps[np.where(into_rise, slot, start + rises)] = left
            following[start + n] = following[start + left]
            following[start + left] = n
        return following.reshape(rows, width)

    def _steps(
        self, following: Integers, sizes: Integers, active: Integers, rng: RandomSource
    ) -> FloatArray:
        """Walk round the circle from 0; the steps mod 1 between order statistics are the point."""
        rows, width = following.shape
        base, after = np.arange(rows) * width, following.ravel()
        heights = np.zeros((rows, width + 1))
        np.cumsum(rng.exponential((rows, width)), axis=1, out=heights[:, 1:])
        heights /= heights[np.arange(rows), sizes + 1][:, None]
        y = np.ascontiguousarray(heights[:, :-1]).ravel()
        out = np.zeros((self.dim, rows))
        here = np.zeros(rows, dtype=np.int64)
        for j in range(self.dim):
            now = active[j + 1]
            start, old = base[:now], here[:now]
            new = after[start + old]
            out[j, :now] = y[start + new] - y[start + old] + (new < old)
            here[:now] = new
        return out.T


def _spline(power: int, order: int, at: int) -> int:
    """sum_i (-1)^i binom(order, i) (at - i)_+^power, exactly."""
    terms = range(min(order, at - 1) + 1)
    return sum((-1) ** i * math.comb(order, i) * (at - i) ** power for i in terms)
