"""The vote ball: sensitivity hull of Borda counts, a prism over the permutohedron.

Uniform points come from the pyramids over the facets, whose bases are products of two smaller
permutohedra: the recursion runs on the sizes alone, level by level for the whole batch.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import MOST_DIM, FloatArray, check_count
from tightdp.geometry.norm_balls import NormBall, SecondMoment, Volume, exact_moment
from tightdp.randomness import RandomSource


class VoteBall(NormBall):
    r"""The hull of P and -P, P the permutohedron of 0, 1, ..., dim-1.

    Sensitivity hull of the Borda counts of an election when one ballot is added or removed: a
    ballot ranks all ``dim`` candidates and gives 0, 1, ..., dim-1 points.

    Parameters
    ----------
    dim : int
        Number of candidates d, at least 2.

    Notes
    -----
    P lies in the plane sum = d(d-1)/2 and -P = P - (d-1) 1, so the hull is a prism: centred
    permutohedron times the segment of mean in [-(d-1)/2, (d-1)/2]. By Rado's theorem z (of mean 0)
    is in the centred permutohedron iff its m largest entries sum to at most m(d-m)/2 for every m.

    References
    ----------
    [Joseph & Yu, 2024] "Some constructions of private, efficient, and optimal K-norm and elliptic
    Gaussian noise" (the body and its facet pyramids); [Rado, 1952]; [Stanley, 1980] (d^(d-2)
    spanning trees give the volume).

    Examples
    --------
    >>> ball = VoteBall(dim=3)
    >>> ball.gauge([2.0, 0.0, 1.0]), ball.support([1.0, 0.0, -1.0])
    (1.0, 2.0)
    >>> round(ball.volume(), 12)  # (d-1) d^(d-1)
    18.0
    """

    def __init__(self, dim: int) -> None:
        self.dim = check_count("dim", dim, least=2, most=MOST_DIM)

    def bounding_box(self) -> FloatArray:
        return np.full(self.dim, self.dim - 1.0)

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        from itertools import permutations

        if math.factorial(self.dim) > most:
            return None
        return np.array(list(permutations(range(self.dim))), dtype=np.float64)

    def facets(self, most: int = 1 << 17) -> FloatArray | None:
        d = self.dim
        if 2 ** (d - 1) > most:
            return None
        # Sets of candidates against the rest; a set and its complement give opposite normals.
        sets = (np.arange(1, 2 ** (d - 1))[:, None] >> np.arange(d)[None, :] & 1).astype(float)
        size = sets.sum(axis=1, keepdims=True)
        walls = (sets - size / d) * 2.0 / (size * (d - size))
        return np.vstack([np.full((1, d), 2.0 / (d * (d - 1))), walls])

    @cached_property
    def _reach(self) -> FloatArray:
        """Largest sum of m entries of the centred permutohedron, m = 1..d-1."""
        m = np.arange(1, self.dim)
        return m * (self.dim - m) / 2.0

    def _gauge(self, x: FloatArray) -> FloatArray:
        mean = x.mean(axis=1)
        falling = -np.sort(mean[:, None] - x, axis=1)
        walls = np.cumsum(falling, axis=1)[:, :-1] / self._reach
        return np.maximum(walls.max(axis=1), np.abs(mean) * 2.0 / (self.dim - 1))

    def _normals(self, x: FloatArray) -> FloatArray:
        d, mean = self.dim, x.mean(axis=1)
        order = np.argsort(-x, axis=1, kind="stable")
        sums = np.cumsum(np.take_along_axis(x, order, axis=1) - mean[:, None], axis=1)[:, :-1]
        walls = sums / self._reach
        best = walls.argmax(axis=1)
        # The m = best+1 largest entries against the rest, or the two ends of the prism.
        place = np.argsort(order, axis=1)
        inside = (place <= best[:, None]) - (best[:, None] + 1.0) / d
        end = np.where(mean >= 0, 2.0, -2.0)[:, None] / (d * (d - 1))
        ends = np.abs(mean) * 2.0 / (d - 1) > walls.max(axis=1)
        return np.where(ends[:, None], end, inside / self._reach[best][:, None])

    def _support_points(self, c: FloatArray) -> FloatArray:
        ranks = np.argsort(np.argsort(c, axis=1), axis=1).astype(np.float64)
        # -P is P moved by -(d-1) along the diagonal, so the sign of sum(c) picks the end.
        return ranks - np.where(c.sum(axis=1) >= 0, 0.0, self.dim - 1.0)[:, None]

    def _volume(self) -> Volume:
        # vol P = d^(d-2) sqrt(d), height of the prism (d-1) sqrt(d)
        d = self.dim
        return Volume(math.log(d - 1) + (d - 1) * math.log(d))

    def _second_moment(self) -> SecondMoment:
        # M_n = E |z|^2 over the centred permutohedron of n letters. Over a pyramid with apex 0 and
        # dimension n-1 it is (n-1)/(n+1) times that of the base, here at squared height
        # j(n-j)n/4 and a product of the permutohedra of j and n-j letters.
        square = np.zeros(self.dim + 1)
        for n in range(2, self.dim + 1):
            j = np.arange(1, n)
            base = j * (n - j) * n / 4.0 + square[1:n] + square[n - 1 : 0 : -1]
            square[n] = (n - 1) / (n + 1) * np.sum(_split_chances(n) * base)
        d = self.dim
        across = (np.eye(d) - 1.0 / d) * square[d] / (d - 1)
        return exact_moment(across + (d - 1) ** 2 / 12.0)

    @cached_property
    def _split_steps(self) -> FloatArray:
        """``[n, j]``: chance that a permutohedron of n letters splits into at most j and the rest.

        Padded with ones to a power of two columns, for the binary search in :func:`_search`.
        """
        table = np.ones((self.dim + 1, 1 << self.dim.bit_length()))
        for n in range(2, self.dim + 1):
            table[n, 0] = 0.0
            table[n, 1 : n - 1] = np.cumsum(_split_chances(n))[:-1]
        return table

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        d = self.dim
        values = np.empty(size * d)
        # A block stands for the letters at places start..start+n-1 of a shuffled row; there the
        # point is value + scale * (a uniform point of the centred permutohedron of n letters).
        start, n = np.arange(size) * d, np.full(size, d)
        scale, value = np.ones(size), np.zeros(size)
        while start.size:
            single = n == 1
            values[start[single]] = value[single]
            start, n, scale, value = (a[~single] for a in (start, n, scale, value))
            # Pyramid over the facet "j letters on top": height share ~ Beta(n-1, 1), base a
            # product, j on top raised by (n-j)/2 and the rest lowered by j/2.
            j = _search(self._split_steps, n, rng.uniform(len(n)))
            scale = scale * rng.uniform(len(n)) ** (1.0 / np.maximum(n - 1, 1))
            upper, lower = value + scale * (n - j) / 2.0, value - scale * j / 2.0
            start, n = np.concatenate([start, start + j]), np.concatenate([j, n - j])
            scale, value = np.concatenate([scale, scale]), np.concatenate([upper, lower])
        shuffled = np.take_along_axis(values.reshape(size, d), rng.permutations(size, d), axis=1)
        return shuffled + (d - 1) * (rng.uniform((size, 1)) - 0.5)


def _split_chances(n: int) -> FloatArray:
    """Shares of the pyramids over facets with j = 1..n-1 letters on top, in the permutohedron.

    There are binom(n, j) such facets, of volume j^(j-3/2) (n-j)^(n-j-3/2) and height
    sqrt(j(n-j)n)/2: the share is that of trees on n labelled nodes with a marked, directed edge
    that cuts off j nodes, binom(n, j) j^(j-1) (n-j)^(n-j-1) of 2(n-1) n^(n-2).
    """
    from scipy.special import gammaln

    j = np.arange(1.0, n)
    log = (j - 1) * np.log(j) - gammaln(j + 1) + (n - j - 1) * np.log(n - j) - gammaln(n - j + 1)
    weight = np.exp(log - log.max())
    return np.asarray(weight / weight.sum())


def _search(steps: FloatArray, row: NDArray[np.int64], u: FloatArray) -> NDArray[np.int64]:
    """The least j with ``u <= steps[row, j]``, by bisection for all entries at once."""
    flat, base = steps.ravel(), row * steps.shape[1]
    j, width = np.zeros(len(row), dtype=np.int64), steps.shape[1] // 2
    while width:
        j += np.where(flat[base + j + width - 1] < u, width, 0)
        width //= 2
    return j
