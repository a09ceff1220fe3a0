"""The poset balls: sensitivity hulls of counts in which some columns imply others.

A record counted in a column is counted in every column above it, so it adds the indicator of an
order filter (an up-closed set). The hull of these and their negatives, and that of their
differences, are sampled exactly: without rejection when the columns form a forest, by rejection
from a forest otherwise.
"""

from __future__ import annotations

import math
from collections.abc import Iterable
from functools import cached_property
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import (
    MOST_DIM,
    FloatArray,
    InfeasibleSamplingError,
    check_count,
    check_list,
    fail,
)
from tightdp.geometry.forests import Forest
from tightdp.geometry.linear_programs import maximize
from tightdp.geometry.norm_balls import MEASURING_SEED, NormBall, Volume
from tightdp.randomness import RandomSource, SeededSource

_EXACT_COUNT_DIM = 18  # 2^18 subsets; the counts stay below 20! < 2^63
_MEASURING_DRAWS = 100_000


class PosetBall(NormBall):
    r"""The hull of the indicators of all order filters and their negatives.

    Sensitivity hull of column counts of a 0/1 table when one row is added or removed and a 1 in a
    lower column implies a 1 in every upper one (answers to nested questions, codes and their
    parents, ...; :class:`~tightdp.Flags`). Without relations it is ``CountBall(dim, dim)``; a chain
    is an l1 ball in disguise.

    Parameters
    ----------
    dim : int
        Number of columns.
    relations : iterable of pairs
        Pairs (lower, upper): whoever is counted in ``lower`` is counted in ``upper``; implied pairs
        may be left out.

    Notes
    -----
    Write x = u - w with u, w >= 0 increasing along the order and as small as can be. Going up,
    with A and B the largest u and w just below p,

        u_p = max(A, x_p + B),   w_p = max(B, A - x_p),   gauge(x) = max u + max w.

    Every p either raises u above A or w above B; the two sets, each ordered by size, are linear
    extensions. So the ball is cut into simplices of volume 1/dim!, one for each way to split the
    poset into two linearly extended parts, and a uniform point needs a *uniform* such way.
    Inserting maximal elements at uniform admissible places, as published, is not uniform: with
    x < m, y and m inserted last, (y x m) gets 3/2 the chance of (x y m).

    References
    ----------
    [Joseph, Ribero & Yu, 2024] "Privately counting partially ordered data".

    Examples
    --------
    >>> ball = PosetBall(dim=3, relations=[(0, 2), (1, 2)])  # two answers that both imply a third
    >>> ball.gauge([1.0, 0.0, 1.0]), ball.gauge([1.0, 0.0, 0.0])
    (1.0, 2.0)
    >>> ball.support([1.0, 1.0, -1.0]), round(ball.volume(), 12)
    (1.0, 2.0)
    """

    def __init__(self, dim: int, relations: Iterable[tuple[int, int]] = ()) -> None:
        self.dim = check_count("dim", dim, most=MOST_DIM)
        self._below = strictly_below(self.dim, relations)
        self._order = np.argsort(self._below.sum(axis=0), kind="stable")
        steps = self._below.astype(np.float64)
        covers = self._below & (steps @ steps == 0)  # nothing in between
        self._lower = [np.flatnonzero(covers[:, p]) for p in range(self.dim)]
        # A relation less is a filter more: keeping one upper cover of each element gives a forest
        # whose ball contains this one. The highest cover loses least.
        height = self._below.sum(axis=1)
        uppers = [np.flatnonzero(row) for row in covers]
        self._is_forest = all(len(upper) <= 1 for upper in uppers)
        self._forest = Forest(
            [int(upper[height[upper].argmax()]) if len(upper) else -1 for upper in uppers]
        )

    @property
    def below(self) -> NDArray[np.bool_]:
        """``[p, q]``: whether a 1 in column p implies a 1 in column q, another one."""
        return self._below

    def lies_inside(self, other: NormBall) -> bool:
        if not isinstance(other, PosetBall) or type(other) is not type(self):
            return False
        return np.array_equal(other.below, self.below)

    def bounding_box(self) -> FloatArray:
        return np.ones(self.dim)

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        filters = np.zeros((1, self.dim), dtype=bool)
        for p in self._order[::-1]:  # from the top: p may join once all above it are in
            joins = filters[(filters | ~self._below[p]).all(axis=1)]
            joins[:, p] = True
            filters = np.vstack([filters, joins])
            if len(filters) - 1 > most:
                return None
        return filters[1:].astype(np.float64)

    def rise(self, x: NDArray[Any]) -> tuple[NDArray[Any], NDArray[Any]]:
        """The least increasing u, w >= 0 with u - w = x, as columns of samples; integers stay."""
        columns = np.ascontiguousarray(x.T)
        u, w = np.zeros_like(columns), np.zeros_like(columns)
        for p in self._order:
            a = u[self._lower[p]].max(axis=0, initial=0)
            b = w[self._lower[p]].max(axis=0, initial=0)
            u[p] = np.maximum(a, columns[p] + b)
            w[p] = np.maximum(b, a - columns[p])
        return u, w

    def _gauge(self, x: FloatArray) -> FloatArray:
        u, w = self.rise(x)
        return u.max(axis=0) + w.max(axis=0)

    def _normals(self, x: FloatArray) -> FloatArray:
        # Chain rule, from the top down, through the maxima of :meth:`rise`: u and w are convex and
        # increasing in a and b, so any choice among ties gives a subgradient.
        u, w = self.rise(x)
        rows, out = np.arange(len(x)), np.zeros_like(x)
        by_u, by_w = np.zeros(u.shape), np.zeros(w.shape)
        counts_u, counts_w = self._active(u.max(axis=0), w.max(axis=0))
        by_u[u.argmax(axis=0), rows], by_w[w.argmax(axis=0), rows] = counts_u, counts_w
        for p in self._order[::-1]:
            lower = self._lower[p]
            a, b = (v[lower].max(axis=0, initial=0.0) for v in (u, w))
            raises_u = x[:, p] + b >= a
            out[:, p] = np.where(raises_u, by_u[p], -by_w[p])
            if len(lower):
                passed = by_u[p] + by_w[p]
                by_u[lower[u[lower].argmax(axis=0)], rows] += passed * (~raises_u & (a > 0))
                by_w[lower[w[lower].argmax(axis=0)], rows] += passed * (raises_u & (b > 0))
        return out

    def _active(
        self, up: FloatArray, down: FloatArray
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Whether the gauge grows with the largest u, and with the largest w."""
        return up > 0, down > 0

    def _support_points(self, c: FloatArray) -> FloatArray:
        up, down = self.best_filters(c), self.best_filters(-c)
        better = np.sum(c * up, axis=1) >= -np.sum(c * down, axis=1)
        return np.where(better[:, None], up, -down)

    def best_filters(self, c: FloatArray) -> FloatArray:
        """Indicators of filters of largest weight."""
        if self._is_forest:
            return self._forest.best_filters(c)
        # The order polytope {x_p <= x_q for p < q, 0 <= x <= 1} has the filters for vertices.
        pairs = [(p, q) for q in range(self.dim) for p in self._lower[q]]
        unit = np.eye(self.dim)
        A = np.vstack([unit, [unit[p] - unit[q] for p, q in pairs]])
        b = np.concatenate([np.ones(self.dim), np.zeros(len(pairs))])
        return np.array([np.round(maximize(row, A, b, nonnegative=True)[1]) for row in c])

    def _volume(self) -> Volume:
        whole = self._log_volume_of(self._forest.splits_by_size)
        if self._is_forest:
            return Volume(whole)
        if self.dim <= _EXACT_COUNT_DIM:
            return Volume(self._log_volume_of(_count_splits(self._below)))
        error = math.sqrt((1 - self._acceptance) / (self._acceptance * _MEASURING_DRAWS))
        return Volume(whole + math.log(self._acceptance), error)

    def _log_volume_of(self, splits: list[int]) -> float:
        """From the numbers of splits of which 0, 1, ... elements raise u."""
        return math.log(sum(splits)) - math.lgamma(self.dim + 1.0)

    def _forest_points(self, size: int, rng: RandomSource) -> FloatArray:
        """Uniform points of the ball of the forest, which contains this one."""
        return self._forest.points(size, rng)

    @cached_property
    def _acceptance(self) -> float:
        """Estimated share of the forest's ball that is inside."""
        points = self._forest_points(_MEASURING_DRAWS, SeededSource(MEASURING_SEED))
        inside = float(np.mean(self._gauge(points) <= 1.0))
        if inside == 0.0:
            fail(
                f"None of {_MEASURING_DRAWS} points of the enclosing forest's ball lies in this "
                "poset's ball. Drop relations until each column has one column just above it.",
                InfeasibleSamplingError,
            )
        return inside

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        if self._is_forest:
            return self._forest_points(size, rng)
        out, filled = np.empty((size, self.dim)), 0
        while filled < size:
            wanted = min(int((size - filled) / self._acceptance * 1.1) + 16, 1_000_000 // self.dim)
            points = self._forest_points(max(wanted, 16), rng)
            points = points[self._gauge(points) <= 1.0][: size - filled]
            out[filled : filled + len(points)] = points
            filled += len(points)
        return out


class ReplacedPosetBall(PosetBall):
    r"""The hull of the differences of the indicators of order filters.

    As :class:`PosetBall`, when one row is replaced. Without relations it is the cube.

    Parameters
    ----------
    dim : int
        Number of columns.
    relations : iterable of pairs
        Pairs (lower, upper): whoever is counted in ``lower`` is counted in ``upper``.

    Notes
    -----
    With the same u and w as for :class:`PosetBall`, gauge(x) = max(max u, max w): x lies in the
    hull exactly if it is a difference of two points u, w of the order polytope, and the least
    such u and w are as good as any. A split with i elements that raise u has volume
    1 / (i! (dim-i)!).

    Examples
    --------
    >>> ball = ReplacedPosetBall(dim=3, relations=[(0, 2), (1, 2)])
    >>> ball.gauge([1.0, -1.0, 0.0]), ball.gauge([1.0, 0.0, -1.0])
    (1.0, 2.0)
    >>> ball.support([1.0, 1.0, -1.0]), round(ball.volume(), 12)
    (2.0, 4.666666666667)
    """

    def vertices(self, most: int = 1 << 17) -> FloatArray | None:
        filters = super().vertices(math.isqrt(2 * most))
        if filters is None or len(filters) * (len(filters) + 1) // 2 > most:
            return None
        ends = np.vstack([np.zeros(self.dim), filters])
        first, second = np.triu_indices(len(ends), 1)
        points = np.unique(ends[first] - ends[second], axis=0)
        return points[self._gauge(points) == 1.0]  # a few of them may lie within faces

    def _gauge(self, x: FloatArray) -> FloatArray:
        u, w = self.rise(x)
        return np.asarray(np.maximum(u.max(axis=0), w.max(axis=0)))

    def _active(
        self, up: FloatArray, down: FloatArray
    ) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        return up >= down, up < down

    def _support_points(self, c: FloatArray) -> FloatArray:
        return self.best_filters(c) - self.best_filters(-c)

    def _log_volume_of(self, splits: list[int]) -> float:
        logs = [
            math.log(count) - math.lgamma(i + 1.0) - math.lgamma(self.dim - i + 1.0)
            for i, count in enumerate(splits)
        ]
        return float(np.logaddexp.reduce(logs))

    def _forest_points(self, size: int, rng: RandomSource) -> FloatArray:
        return self._forest.differences(size, rng)


def strictly_below(
    dim: int, relations: Iterable[tuple[int, int]], name: str = "relations"
) -> NDArray[np.bool_]:
    """``[p, q]``: whether p < q, the transitive closure of the given pairs."""
    below = np.zeros((dim, dim), dtype=bool)
    for pair in check_list(name, relations, "pairs"):
        if not isinstance(pair, (tuple, list)) or len(pair) != 2:
            fail(f"`{name}` must hold pairs (lower, upper) of column numbers.")
        lower, upper = (check_count(name, p, least=0, most=dim - 1) for p in pair)
        below[lower, upper] = True
    for middle in range(dim):
        below |= np.outer(below[:, middle], below[middle])
    if below.diagonal().any():
        fail(f"`{name}` must be free of cycles: merge columns that imply each other.")
    return below


def _count_splits(below: NDArray[np.bool_]) -> list[int]:
    """Sums of e(S) e(not S) over subsets S of each size, e the number of linear extensions."""
    dim = len(below)
    masks = np.arange(1 << dim)
    above = [int(np.sum((1 << np.flatnonzero(row)), dtype=np.int64)) for row in below]
    extensions = np.zeros(1 << dim, dtype=np.int64)
    extensions[0] = 1
    size = np.bitwise_count(masks)
    for n in range(1, dim + 1):
        layer = masks[size == n]
        for p in range(dim):
            # p may come last in S if it is in S and nothing above it is
            last = layer[(layer >> p & 1 == 1) & (layer & above[p] == 0)]
            extensions[last] += extensions[last ^ (1 << p)]
    ways = extensions * extensions[::-1]
    return [int(np.sum(ways[size == n])) for n in range(dim + 1)]
