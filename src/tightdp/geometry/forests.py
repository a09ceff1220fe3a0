"""Forests as posets: uniform splits into two linearly extended parts, and points made of them.

The poset is a forest when each element has at most one upper cover, its parent. Splitting it into a
part that raises u and a part that raises w (see :class:`~tightdp.geometry.poset_ball.PosetBall`)
then factorises over subtrees, so counts are exact integers and draws need no rejection.
"""

from __future__ import annotations

import math
from functools import cached_property

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, Integers
from tightdp.randomness import RandomSource


class Forest:
    """The forest in which ``parents[p]`` is just above p, or is -1 if nothing is.

    Examples
    --------
    >>> Forest([2, 2, -1]).splits  # of 3! * 2: the top has both sides to choose
    12
    """

    def __init__(self, parents: list[int]) -> None:
        self.dim = len(parents)
        # One more node, ``dim``, holds the roots together; it takes no part itself.
        self._children: list[list[int]] = [[] for _ in range(self.dim + 1)]
        for p, parent in enumerate(parents):
            self._children[parent if parent >= 0 else self.dim].append(p)
        self._downward = [self.dim]
        for p in self._downward:
            self._downward.extend(self._children[p])
        self._size = [1] * (self.dim + 1)
        for p in reversed(self._downward):
            # Largest tree first: it takes what the others leave, and so needs no table.
            self._children[p].sort(key=self._size.__getitem__, reverse=True)
            self._size[p] += sum(self._size[child] for child in self._children[p])

    @cached_property
    def _counts(self) -> tuple[dict[int, list[int]], dict[int, list[list[int]]]]:
        """Splits of each subtree by the number i of its elements that raise u.

        ``tree[p][i]`` counts splits of p with all below it; ``heaps[p][m][i]`` those of the first m
        child trees of p together. Two heaps side by side are shuffled; an element on top goes
        last on either side, so it multiplies the generating polynomial by 1 + z.
        """
        tree: dict[int, list[int]] = {}
        heaps: dict[int, list[list[int]]] = {}
        for p in reversed(self._downward):
            heaps[p] = [[1]]
            for child in self._children[p]:
                heaps[p].append(_shuffle(heaps[p][-1], tree[child]))
            under = heaps[p][-1]
            tree[p] = [a + b for a, b in zip([*under, 0], [0, *under], strict=True)]
        return tree, heaps

    @property
    def splits_by_size(self) -> list[int]:
        """Ways to split the forest into two linearly extended parts, by the size of the first."""
        return self._counts[1][self.dim][-1]

    @property
    def splits(self) -> int:
        """Number of ways to split the forest into two linearly extended parts."""
        return sum(self.splits_by_size)

    @cached_property
    def _tables(self) -> tuple[dict[int, FloatArray], dict[int, list[FloatArray]]]:
        """Chances: that p raises u given i; of a child's i given the heap's."""
        tree, heaps = self._counts
        raises: dict[int, FloatArray] = {}
        shares: dict[int, list[FloatArray]] = {}
        for p in self._downward:
            under = heaps[p][-1]
            raises[p] = np.array([a / c for a, c in zip([0, *under], tree[p], strict=True)])
            shares[p] = [
                _child_steps(heaps[p][m], tree[self._children[p][m]], heaps[p][m + 1])
                for m in range(1, len(self._children[p]))
            ]
        return raises, shares

    def points(self, size: int, rng: RandomSource) -> FloatArray:
        """Uniform points of the hull of +- the filters of the forest."""
        d, columns = self.dim, np.arange(size)
        total = np.array([count / self.splits for count in self.splits_by_size])
        first = rng.categorical(total, size)
        # K-norm noise: e^-(u+w) is the mixture over independent limits Gamma(i+1), Gamma(d-i+1)
        # of the uniform laws below the limits.
        sums = np.cumsum(rng.exponential((size, d + 2)), axis=1)
        limit = sums[columns, first]
        x, ends = self._below(first, limit, sums[:, -1] - limit, rng)
        x *= rng.uniform(size) ** (1.0 / d) / ends
        return np.ascontiguousarray(x.T)

    def differences(self, size: int, rng: RandomSource) -> FloatArray:
        """Uniform points of the hull of the differences of filters of the forest."""
        d = self.dim
        logs = np.array(
            [
                math.log(count) - math.lgamma(i + 1.0) - math.lgamma(d - i + 1.0)
                for i, count in enumerate(self.splits_by_size)
            ]
        )
        first = rng.categorical(np.exp(logs - logs.max()), size)
        # u and w are uniform below 1, each on its own, and so is their difference
        return np.ascontiguousarray(self._below(first, np.ones(size), np.ones(size), rng)[0].T)

    def _below(
        self, first: Integers, up: FloatArray, down: FloatArray, rng: RandomSource
    ) -> tuple[FloatArray, FloatArray]:
        """Uniform x = u - w, max u <= up, max w <= down, of so many raisers of u; and the maxima.

        Columns are points.
        """
        raises, shares = self._tables
        d, size = self.dim, len(first)
        inside = np.zeros((d + 1, size), dtype=np.int64)  # how many at or below p raise u
        inside[d] = first
        u, w = np.empty((d + 1, size)), np.empty((d + 1, size))
        u[d], w[d] = up, down
        side = np.zeros((d + 1, size), dtype=bool)
        for p in self._downward:
            left = inside[p]
            if p < d:
                # The top of n elements of which i raise u: largest of i (or n-i) uniforms.
                side[p] = rng.uniform(size) <= raises[p][left]
                count = np.where(side[p], left, self._size[p] - left)
                drop = rng.uniform(size) ** (1.0 / count)
                u[p] *= np.where(side[p], drop, 1.0)
                w[p] *= np.where(side[p], 1.0, drop)
                left = left - side[p]
            for m in range(len(self._children[p]) - 1, -1, -1):
                child = self._children[p][m]
                inside[child] = left if m == 0 else _steps_passed(shares[p][m - 1], left, rng)
                left = left - inside[child]
                u[child], w[child] = u[p], w[p]
        return self._joined(u, w, side)

    def _joined(
        self, u: FloatArray, w: FloatArray, side: NDArray[np.bool_]
    ) -> tuple[FloatArray, FloatArray]:
        """From the raised values to x = u - w, and max u + max w."""
        x = np.empty((self.dim, u.shape[1]))
        for p in reversed(self._downward):
            # Whoever does not raise a value takes over the largest one below.
            a, b = (v[self._children[p]].max(axis=0, initial=0.0) for v in (u, w))
            if p < self.dim:
                u[p] = np.where(side[p], u[p], a)
                w[p] = np.where(side[p], b, w[p])
                x[p] = u[p] - w[p]
        return x, a + b

    def best_filters(self, c: FloatArray) -> FloatArray:
        """Row by row the indicator of a filter of largest weight."""
        gain = np.vstack([c.T, np.zeros(len(c))])
        for p in reversed(self._downward):
            gain[p] += np.maximum(gain[self._children[p]], 0.0).sum(axis=0)
        taken = np.ones_like(gain, dtype=bool)
        for p in self._downward:
            for child in self._children[p]:
                taken[child] = taken[p] & (gain[child] > 0)
        return taken[: self.dim].T.astype(np.float64)


def _shuffle(first: list[int], second: list[int]) -> list[int]:
    """Splits of two posets side by side: shuffle the u parts and the w parts."""
    m, n = len(first) - 1, len(second) - 1
    out = [0] * (m + n + 1)
    for i, a in enumerate(first):
        for j, b in enumerate(second):
            out[i + j] += math.comb(i + j, i) * math.comb(m + n - i - j, m - i) * a * b
    return out


def _child_steps(heap: list[int], child: list[int], both: list[int]) -> FloatArray:
    """``[i, j]``: chance that at most j of the i elements that raise u lie in the child."""
    m, n = len(heap) - 1, len(child) - 1
    steps = np.ones((m + n + 1, n))
    for i in range(m + n + 1):
        below = 0
        for j in range(n):
            if 0 <= i - j <= m:
                ways = math.comb(i, j) * math.comb(m + n - i, n - j)
                below += ways * heap[i - j] * child[j]
            steps[i, j] = below / both[i]
    return steps


def _steps_passed(steps: FloatArray, row: Integers, rng: RandomSource) -> Integers:
    """Draws from the distribution functions in the given rows."""
    return np.sum(rng.uniform(len(row))[:, None] > steps[row], axis=1)
