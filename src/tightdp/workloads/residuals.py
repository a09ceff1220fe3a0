r"""Residual coordinates of tables: what a table adds to the smaller tables inside it.

Columns j have :math:`n_j` levels, and :math:`P_j = I - \frac1{n_j}11^\top` takes the mean out. The
residual of a set A of columns is :math:`r_A = (\bigotimes_{j \in A} P_j)\, t_A`, where :math:`t_A`
is the table of A. Residuals of different sets are orthogonal, and every table is their sum:

.. math:: t_B = \sum_{A \subseteq B} r_A \otimes \bigotimes_{j \in B \setminus A} \tfrac1{n_j} 1.

So whatever tables are asked for, what has to be measured is the residuals of their subsets, each
once; and tables that are put together from them agree with each other. Noise that is isotropic in
the residual of A, with variance :math:`s_A` in every direction of it, gives a cell of B the
variance

.. math:: \sum_{A \subseteq B} s_A \prod_{j \in A} (1 - \tfrac1{n_j})
          \prod_{j \in B \setminus A} n_j^{-2}

(Xiao, He, Zhang and Kifer, 2023). Two integer coordinate systems serve for a residual: *contrasts*
compare a level with all those before it, :math:`\prod_j (n_j - 1)` orthogonal rows of different
lengths; *centred* counts are :math:`n_j 1[x_j = i] - 1`, rows of one length, one more of them in
each direction than are needed (a column of two levels has the one row :math:`(1, -1)` in both).
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Iterable, Mapping, Sequence
from functools import cached_property, lru_cache

import numpy as np

from tightdp.errors import FloatArray, Integers

Columns = tuple[int, ...]
"""A set of columns, by their places, in increasing order."""


@lru_cache(maxsize=256)
def contrasts(levels: int) -> Integers:
    """Rows that compare level k with the k levels before it; orthogonal, and to (1, ..., 1), too.

    >>> contrasts(3)
    array([[ 1, -1,  0],
           [ 1,  1, -2]])
    """
    rows = np.tril(np.ones((levels - 1, levels), dtype=np.int64))
    rows[np.arange(levels - 1), np.arange(1, levels)] = -np.arange(1, levels)
    rows.setflags(write=False)
    return rows


@lru_cache(maxsize=256)
def centred(levels: int) -> Integers:
    """Rows n e_i - 1, or (1, -1) for two levels: squares of rows and columns add up alike.

    >>> centred(3)[0], centred(2)
    (array([ 2, -1, -1]), array([[ 1, -1]]))
    """
    rows = contrasts(2) if levels == 2 else levels * np.eye(levels, dtype=np.int64) - 1
    rows.setflags(write=False)
    return rows


def frame_square(levels: int) -> int:
    """The g with :math:`F^T F = g P` for the centred rows F."""
    return 2 if levels == 2 else levels * levels


def spread_over(first: np.ndarray, second: np.ndarray) -> np.ndarray:
    """All products of the entries of an array and of a vector.

    >>> spread_over(np.array([2, 3]), np.array([1, -1]))
    array([[ 2, -2],
           [ 3, -3]])
    """
    return np.asarray(first[..., None] * second)


def along(array: np.ndarray, maps: Sequence[np.ndarray], first: int = 0) -> np.ndarray:
    """The array with a matrix applied along each of its axes from ``first`` on.

    >>> along(np.array([[5, 3], [1, 1]]), [contrasts(2), contrasts(2)])
    array([[2]])
    """
    for j, matrix in enumerate(maps):
        array = np.moveaxis(np.tensordot(matrix, array, axes=(1, first + j)), 0, first + j)
    return array


class Workload:
    """Tables over columns with public numbers of levels, and the residuals that they are made of.

    Parameters
    ----------
    sizes : sequence of int
        Levels of the columns.
    tables : sequence of sets of columns
    weights : sequence of numbers, optional
        What the variance of a cell of each table counts in the total; 1 by default.

    Examples
    --------
    >>> work = Workload([2, 3], [(0,), (0, 1)])
    >>> work.residuals, work.directions((0, 1)), work.maximal
    (((), (0,), (1,), (0, 1)), 2, ((0, 1),))
    """

    def __init__(
        self,
        sizes: Sequence[int],
        tables: Iterable[Sequence[int]],
        weights: Sequence[float] | None = None,
    ) -> None:
        self.sizes = tuple(int(n) for n in sizes)
        self.tables: tuple[Columns, ...] = tuple(tuple(sorted(table)) for table in tables)
        given = np.ones(len(self.tables)) if weights is None else np.asarray(weights, np.float64)
        self.weights: FloatArray = given
        found = {part for table in self.tables for part in subsets(table)}
        self.residuals: tuple[Columns, ...] = tuple(sorted(found, key=lambda a: (len(a), a)))

    @cached_property
    def maximal(self) -> tuple[Columns, ...]:
        """The tables of which all others are sums."""
        by_size = sorted(dict.fromkeys(self.tables), key=len, reverse=True)
        found: list[set[int]] = []
        for table in map(set, by_size):
            if not any(table <= other for other in found):
                found.append(table)
        kept = {tuple(sorted(table)) for table in found}
        return tuple(table for table in self.residuals if table in kept)

    def shape(self, columns: Columns) -> tuple[int, ...]:
        """Levels of some columns."""
        return tuple(self.sizes[j] for j in columns)

    def cells(self, columns: Columns) -> int:
        """How many cells their table has."""
        return math.prod(self.shape(columns))

    def directions(self, columns: Columns) -> int:
        """The dimension of their residual."""
        return math.prod(n - 1 for n in self.shape(columns))

    def share(self, table: Columns, residual: Columns) -> float:
        """The variance of a cell of a table for variance 1 in the directions of a residual."""
        inside = math.prod(1 - 1 / n for n in self.shape(residual))
        rest = math.prod(self.sizes[j] for j in table if j not in residual)
        return inside / float(rest) ** 2

    @cached_property
    def importance(self) -> dict[Columns, float]:
        """For each residual the derivative of the weighted total variance by its variance."""
        out = dict.fromkeys(self.residuals, 0.0)
        for table, weight in zip(self.tables, self.weights, strict=True):
            for part in subsets(table):
                out[part] += float(weight) * self.cells(table) * self.share(table, part)
        return out

    def cell_variance(self, table: Columns, variances: Mapping[Columns, float]) -> float:
        """Of a cell, from isotropic variances of the residuals."""
        parts = ((self.share(table, part), variances.get(part, 0.0)) for part in subsets(table))
        return float(sum(share * variance for share, variance in parts))

    def total_variance(self, variances: Mapping[Columns, float]) -> float:
        """Over all cells of all tables, by their weights."""
        each = zip(self.tables, self.weights, strict=True)
        return float(sum(w * self.cells(t) * self.cell_variance(t, variances) for t, w in each))

    @property
    def key(self) -> tuple[object, ...]:
        """What tells workloads apart."""
        return self.sizes, self.tables, tuple(self.weights.tolist())

    def reweighted(self, weights: Sequence[float] | FloatArray) -> Workload:
        """The same tables, which count differently."""
        return Workload(self.sizes, self.tables, list(weights))


def subsets(columns: Columns) -> Iterable[Columns]:
    """All subsets, small ones first.

    >>> list(subsets((1, 4)))
    [(), (1,), (4,), (1, 4)]
    """
    sizes = range(len(columns) + 1)
    return itertools.chain.from_iterable(itertools.combinations(columns, k) for k in sizes)
