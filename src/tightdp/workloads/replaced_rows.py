r"""What replacing one row costs in residual coordinates, and the worst row, with a certificate.

Two rows that differ in the columns D move the residual of A by the squared length

.. math:: c_A(D) = 2 \Bigl[\prod_{j \in A} a_j - \prod_{j \in A} (a_j - 1[j \in D])\Bigr],
          \qquad a_j = 1 - 1/n_j,

because :math:`P_j e_x` has the squared length :math:`a_j`, and :math:`-1/n_j = a_j - 1` is its
product with :math:`P_j e_{x'}`, :math:`x \ne x'`; residuals are tensor products of these. Gaussian
noise of variance :math:`s_A` in the directions of A is thus
:math:`\rho`-zero-concentrated DP with :math:`\rho = \frac12 \max_D \sum_A c_A(D)/s_A`, and no less.

The maximum over D is taken

1. over numbers of differing columns, where columns are exchangeable: all sets of columns are then
   listed by how many of each kind they hold;
2. for tables of at most two columns by a concave relaxation. With :math:`d_j = 1[j \in D]` the sum
   is :math:`2(l^\top d - \frac12 d^\top U d)`; since :math:`d_j^2 = d_j`, any t with
   :math:`M = U + \mathrm{diag}(t) \succeq 0` gives for every y the upper bound
   :math:`\frac12 y^\top M y + \sum_j (l_j + \frac12 t_j - (My)_j)_+`, which is small where M has
   low rank;
3. otherwise by branch and bound: columns are fixed one by one, and every product is bounded for
   itself over those that are free.

Every number that is given back is an upper bound, whatever the searches find.
"""

from __future__ import annotations

import heapq
import itertools
import math
from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray
from tightdp.workloads.residuals import Columns

Sets = NDArray[np.bool_]
"""Sets D of columns, one a row."""

MOST_LISTED = 1 << 14
_MARGIN = 1e-9  # relative: far more than what sums of doubles lose
_CHUNK = 1 << 22  # products that are formed at a time
_NODES = 4_000
_CLOSE = 1e-4  # how near to a set that is known a bound should come
_STEPS = 400


class ReplacedRow:
    """Squared moves of the residuals of some sets of columns, for all rows that can be replaced.

    Parameters
    ----------
    sizes : sequence of int
        Levels of the columns.
    parts : sequence of non-empty sets of columns
    kinds : sequence of int
        The kind of each column: columns of one kind are exchangeable, by all permutations.
    fixed : set of columns
        Those in which no row that is replaced differs, for what they say is public.

    Examples
    --------
    >>> cost = ReplacedRow([2, 2], [(0,), (1,), (0, 1)], [0, 0])
    >>> cost.moves(np.array([[True, False], [True, True]]))
    array([[2., 0., 1.],
           [2., 2., 0.]])
    >>> round(cost.most(np.ones(3)), 6)  # twice the count of a column, or half of each
    4.0
    """

    def __init__(
        self,
        sizes: Sequence[int],
        parts: Sequence[Columns],
        kinds: Sequence[int],
        fixed: Columns = (),
    ) -> None:
        self.free = ~np.isin(np.arange(len(sizes)), fixed)
        self.keep = 1 - 1 / np.asarray(sizes, dtype=np.float64)
        self.parts = tuple(parts)
        self.kinds = np.asarray(kinds, dtype=np.int64)
        self.order = max(map(len, self.parts))
        # parts of fewer columns than the largest are filled up with a column that never differs
        width, none = self.order, len(self.keep)
        self._places = np.array([[*part, *[none] * (width - len(part))] for part in self.parts])
        self._same = np.prod(np.append(self.keep, 1.0)[self._places], axis=1)

    @property
    def listed(self) -> bool:
        """Whether all sets, up to exchange of columns, are few enough to be listed."""
        return math.prod(int(c) + 1 for c in np.bincount(self.kinds)) <= MOST_LISTED

    def moves(self, sets: Sets) -> FloatArray:
        """c_A(D) for each set D and each part A."""
        factors = np.where(sets & self.free, self.keep - 1, self.keep)
        factors = np.column_stack([factors, np.ones(len(sets))])
        products = factors[:, self._places[:, 0]]
        for k in range(1, self.order):
            products = products * factors[:, self._places[:, k]]
        return np.asarray(2 * (self._same - products))

    def totals(self, sets: Sets, rates: FloatArray) -> FloatArray:
        """The sum over A of c_A(D) times the rate of A, for each set."""
        step = max(1, _CHUNK // len(self.parts))
        parts = range(0, len(sets), step)
        return np.concatenate([self.moves(sets[i : i + step]) @ rates for i in parts])

    def all_sets(self) -> Sets:
        """One set of columns for each number of differing columns of every kind."""
        groups = [np.flatnonzero(self.kinds == kind) for kind in np.unique(self.kinds)]
        counts = np.array(list(itertools.product(*(range(len(g) + 1) for g in groups))))
        out = np.zeros((len(counts), len(self.kinds)), dtype=bool)
        for group, count in zip(groups, counts.T, strict=True):
            out[:, group] = np.arange(len(group)) < count[:, None]
        return out

    # --- the worst row ------------------------------------------------------------------------

    def most(self, rates: FloatArray) -> float:
        """An upper bound, certified, on the total of every set D."""
        if self.listed:
            found = float(self.totals(self.all_sets(), rates).max())
        elif self.order <= 2:
            found = self._relaxed(rates)
        else:
            found = self._branched(rates)
        return found + _MARGIN * float(np.abs(rates) @ self._same) * 4

    def worst(self, rates: FloatArray, count: int = 8) -> Sets:
        """Sets with large totals: the largest where all are listed, else found by local search."""
        if self.listed:
            sets = self.all_sets()
            return sets[np.argsort(-self.totals(sets, rates))[:count]]
        starts = self._starts()
        return self._climbed(starts, rates)[:count]

    def _starts(self) -> Sets:
        """Sets to start from: the first columns in order of their sizes, and every second."""
        order, d = np.argsort(self.keep), len(self.keep)
        heads = np.array([np.isin(np.arange(d), order[:k]) for k in range(1, d + 1)])
        tails = ~heads[:-1]
        every = np.array([np.arange(d) % k == i for k in (2, 3) for i in range(k)])
        return np.concatenate([heads, tails, every])

    def _climbed(self, sets: Sets, rates: FloatArray) -> Sets:
        """The sets after flips of single columns, as long as these add to their totals."""
        found = self._flipped_pairs(sets, rates) if self.order <= 2 else self._flipped(sets, rates)
        found = np.unique(found, axis=0)
        return found[np.argsort(-self.totals(found, rates))]

    def _flipped(self, sets: Sets, rates: FloatArray) -> Sets:
        out, d = sets.copy(), len(self.keep)
        for i, here in enumerate(out):
            best = float(self.totals(here[None], rates)[0])
            while True:
                near = here[None] ^ np.eye(d, dtype=bool)
                totals = self.totals(near, rates)
                at = int(totals.argmax())
                if totals[at] <= best * (1 + 1e-12) + 1e-300:
                    break
                here, best = near[at], float(totals[at])
            out[i] = here
        return out

    def _flipped_pairs(self, sets: Sets, rates: FloatArray) -> Sets:
        """All sets at once: a flip of j adds (1 - 2 d_j)(l_j - (U d)_j)."""
        line, pairs = self._quadratic(rates)
        here = sets.astype(np.float64)
        for _ in range(20 * len(line)):
            gain = (1 - 2 * here) * (line - here @ pairs)
            at = gain.argmax(axis=1)
            rows = np.flatnonzero(gain.max(axis=1) > 1e-12 * line.sum())
            if not rows.size:
                break
            here[rows, at[rows]] = 1 - here[rows, at[rows]]
        return here > 0.5

    # --- tables of at most two columns ----------------------------------------------------------

    def _quadratic(self, rates: FloatArray) -> tuple[FloatArray, FloatArray]:
        """The l and U of half the total."""
        d = len(self.keep)
        line, pairs = np.zeros(d), np.zeros((d, d))
        for part, rate in zip(self.parts, rates, strict=True):
            if len(part) == 1:
                line[part[0]] += rate
            else:
                j, k = part
                pairs[j, k] += rate
                pairs[k, j] += rate
                line[j] += rate * self.keep[k]
                line[k] += rate * self.keep[j]
        line[~self.free] = 0.0
        pairs[~self.free, :] = pairs[:, ~self.free] = 0.0
        return line, pairs

    def _relaxed(self, rates: FloatArray) -> float:
        return 2 * concave_bound(*self._quadratic(rates))

    # --- tables of any size ---------------------------------------------------------------------

    def _branched(self, rates: FloatArray) -> float:
        """Best first, until the bound is close to a known set or the nodes are spent."""
        d = len(self.keep)
        order = np.argsort(-self._influence(rates))
        known = float(self.totals(self._climbed(self._starts(), rates)[:1], rates)[0])
        low = np.append(np.where(self.free, self.keep - 1, self.keep), 1.0)[None]
        high = np.append(self.keep, 1.0)[None]
        count = itertools.count()
        heap = [(-float(self._bounds(low, high, rates)[0]), next(count), 0, low[0], high[0])]
        for _ in range(_NODES):
            bound, _, depth, low_, high_ = heap[0]
            if -bound <= known * (1 + _CLOSE) or depth == d:
                break
            heapq.heappop(heap)
            column = order[depth]
            lows, highs = np.repeat(low_[None], 2, 0), np.repeat(high_[None], 2, 0)
            highs[0, column], lows[1, column] = low_[column], high_[column]
            for child, value in enumerate(self._bounds(lows, highs, rates)):
                item = (-float(value), next(count), depth + 1, lows[child], highs[child])
                heapq.heappush(heap, item)
        return -heap[0][0]

    def _influence(self, rates: FloatArray) -> FloatArray:
        out = np.zeros(len(self.keep) + 1)
        for k in range(self.order):
            np.add.at(out, self._places[:, k], rates)
        return out[:-1]

    def _bounds(self, low: FloatArray, high: FloatArray, rates: FloatArray) -> FloatArray:
        """Of nodes whose factors lie between ``low`` and ``high``: every product by itself."""
        least = most = np.ones((len(low), len(self.parts)))
        for k in range(self.order):
            ends = low[:, self._places[:, k]], high[:, self._places[:, k]]
            products = [side * end for side in (least, most) for end in ends]
            least, most = np.minimum.reduce(products), np.maximum.reduce(products)
        return np.asarray(2 * (self._same - least) @ rates)


def concave_bound(line: FloatArray, pairs: FloatArray) -> float:
    r"""An upper bound on :math:`l^\top d - \frac12 d^\top U d` over d in {0, 1}^m; see the module.

    >>> round(concave_bound(np.array([3.0, 3.0]), np.array([[0.0, 2.0], [2.0, 0.0]])), 6)
    4.0
    """
    whole, diagonal = _completed(pairs)
    gain = line + diagonal / 2
    y = np.full(len(line), 0.5)
    best = math.inf
    step = 1 / max(float(np.linalg.norm(whole, 2)), 1e-300)
    momentum, previous = y.copy(), y.copy()
    for k in range(_STEPS):
        best = min(best, _dual_value(whole, gain, y))
        # projected ascent of the concave function, with momentum; its points are the y of the bound
        y = np.clip(momentum + step * (gain - whole @ momentum), 0.0, 1.0)
        momentum, previous = y + k / (k + 3) * (y - previous), y
    return min(best, _dual_value(whole, gain, y))


def _dual_value(whole: FloatArray, gain: FloatArray, y: FloatArray) -> float:
    slope = whole @ y
    return float(y @ slope / 2 + np.maximum(gain - slope, 0.0).sum())


def _completed(pairs: FloatArray) -> tuple[FloatArray, FloatArray]:
    """U with a diagonal that makes it positive semidefinite, and of nearly one dimension."""
    factor = np.sqrt(np.maximum(pairs.sum(axis=1), 1e-300))
    for _ in range(200):  # p_j p_k near U_jk, off the diagonal: least squares, entry by entry
        rest = factor @ factor - factor**2
        factor = (factor + pairs @ factor / np.maximum(rest, 1e-300)) / 2
    diagonal = factor**2
    least = float(np.linalg.eigvalsh(pairs + np.diag(diagonal))[0])
    room = 1e-10 * float(np.abs(pairs).sum())  # more than what eigenvalues lose
    diagonal = diagonal + max(0.0, -least) + room
    return pairs + np.diag(diagonal), diagonal
