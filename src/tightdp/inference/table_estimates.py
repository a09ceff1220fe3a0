r"""From measured coordinates to tables that agree: weighted least squares, residual by residual.

Parts of the measured vector tell residuals (:mod:`tightdp.workloads.residuals`), each with noise
that is uncorrelated in the directions of the contrasts. A residual that several parts tell is their
mean with weights in inverse proportion to the variances: that is the least-squares estimate, for
residuals are orthogonal. Tables are sums of residuals, so that all of them agree with each other;
where the number of rows is public, it is their total.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence

import numpy as np

from tightdp.data.table_counts import TableCounts
from tightdp.errors import FloatArray
from tightdp.workloads.residuals import (
    Columns,
    Workload,
    along,
    contrasts,
    frame_square,
    spread_over,
    subsets,
)

MOST_SQUARE = 1024  # cells of a table whose covariance is a matrix
_LEAST = 1e-200  # a variance that underflows at a huge epsilon still has an inverse


class TableReader:
    """Linear estimates of tables from measured vectors, and their variances.

    Parameters
    ----------
    counts : TableCounts
        What is measured.
    work : Workload
        The tables that are asked for, over the same columns.
    variances : sequence of arrays
        For each part one number, where its noise is isotropic, or that of each contrast.
    known : mapping from sets of columns to arrays
        Residuals that are public: that of no columns is the number of rows.
    """

    def __init__(
        self,
        counts: TableCounts,
        work: Workload,
        variances: Sequence[FloatArray],
        known: Mapping[Columns, FloatArray],
    ) -> None:
        self.counts, self.work, self.known = counts, work, known
        self._variances = [np.maximum(np.asarray(v, dtype=np.float64), _LEAST) for v in variances]
        wanted = [some for some in work.residuals if some not in known]
        self._sources: dict[Columns, list[int]] = {
            some: [k for k, part in enumerate(counts.parts) if _tells(part[0], part[1], some)]
            for some in wanted
        }
        self._spread = {some: self._combined(some) for some in wanted}

    # --- variances ----------------------------------------------------------------------------

    def _told(self, place: int, some: Columns) -> FloatArray:
        """The variance of a residual in its directions, as one part tells it."""
        kind, columns = self.counts.parts[place]
        variance = self._variances[place]
        if kind == "cells":
            return variance * (self.work.cells(columns) / self.work.cells(some))
        if kind == "centred":
            return variance / math.prod(frame_square(n) for n in self.work.shape(some))
        return variance / _squares(self.work.shape(some))

    def _combined(self, some: Columns) -> FloatArray:
        return np.asarray(1 / sum(1 / self._told(k, some) for k in self._sources[some]))

    def variances(self, table: Columns) -> FloatArray:
        """Of the cells of a table, in its shape."""
        out = np.zeros(self.work.shape(table))
        for some in subsets(table):
            if some in self._spread:
                out += self._lifted(self._own_variances(some), some, table, power=2)
        return out

    def _own_variances(self, some: Columns) -> FloatArray:
        """Of the residual itself, cell by cell."""
        shape, spread = self.work.shape(some), self._spread[some]
        if spread.ndim == 0:
            return np.full(shape, float(spread) * math.prod(1 - 1 / n for n in shape))
        maps = [(contrasts(n) ** 2 / (contrasts(n) ** 2).sum(axis=1)[:, None]).T for n in shape]
        return np.asarray(along(spread, maps))

    def moved(self, table: Columns, sizes: FloatArray) -> FloatArray:
        """How far cells move at most if measured contrasts, each told once, move by these sizes."""
        out = np.zeros(self.work.shape(table))
        for some in subsets(table):
            if some in self._spread:
                (place,), shape = self._sources[some], self.work.shape(some)
                own = self._part(place, some, sizes[None, :])
                out += self._lifted(_from_contrasts(own, shape, sizes=True)[0], some, table)
        return out

    def covariance(self, table: Columns) -> FloatArray:
        """Of all cells of a table, which must be few."""
        out = np.zeros((self.work.cells(table),) * 2)
        for some in subsets(table):
            if some in self._spread:
                out += self._own_covariance(some, table)
        return out

    def _own_covariance(self, some: Columns, table: Columns) -> FloatArray:
        root = np.ones((1, 1))
        for j in table:
            n = self.work.sizes[j]
            rows = contrasts(n) / np.sqrt((contrasts(n) ** 2).sum(axis=1))[:, None]
            root = np.kron(root, rows.T if j in some else np.full((n, 1), 1 / n))
        spread = np.broadcast_to(self._spread[some], [n - 1 for n in self.work.shape(some)])
        return np.asarray((root * spread.ravel()) @ root.T)

    # --- estimates ----------------------------------------------------------------------------

    def tables(self, vectors: FloatArray, *, errors: bool = False) -> list[FloatArray]:
        """All tables that are asked for, each of shape (vectors, cells).

        ``errors`` are tables of noise alone, which is zero in what is public.
        """
        residuals = {some: self._residual(some, vectors) for some in self._spread}
        for some, found in self.known.items():
            once = np.zeros_like(found) if errors else found
            residuals[some] = np.broadcast_to(once, (len(vectors), *found.shape))
        out = []
        for table in self.work.tables:
            whole = np.zeros((len(vectors), *self.work.shape(table)))
            for some in subsets(table):
                whole += self._lifted(residuals[some], some, table, first=1)
            out.append(whole.reshape(len(vectors), -1))
        return out

    def _lifted(
        self, array: FloatArray, some: Columns, table: Columns, *, first: int = 0, power: int = 1
    ) -> FloatArray:
        """Spread evenly over the other columns of a table."""
        rest = math.prod(self.work.sizes[j] for j in table if j not in some)
        sides = [self.work.sizes[j] if j in some else 1 for j in table]
        return array.reshape(*array.shape[:first], *sides) / float(rest) ** power

    def _residual(self, some: Columns, vectors: FloatArray) -> FloatArray:
        places = self._sources[some]
        if all(self._told(k, some).ndim == 0 for k in places):
            weights = [self._spread[some] / self._told(k, some) for k in places]
            found = [self._cells(k, some, vectors) for k in places]
            return np.asarray(sum(w * part for w, part in zip(weights, found, strict=True)))
        shape = self.work.shape(some)
        mean = np.zeros((len(vectors), *(n - 1 for n in shape)))
        for k in places:
            mean += self._contrasts(k, some, vectors) * (self._spread[some] / self._told(k, some))
        return _from_contrasts(mean, shape)

    def _part(self, place: int, some: Columns, vectors: FloatArray) -> FloatArray:
        """The entries of a part in their shape; cells are summed over other columns."""
        part = self.counts.parts[place]
        shape = self.counts.shape(part)
        array = vectors[:, self.counts.where[place]].reshape(len(vectors), *shape)
        over = tuple(1 + i for i, j in enumerate(part[1]) if j not in some)
        return np.asarray(array.sum(axis=over)) if over else array

    def _contrasts(self, place: int, some: Columns, vectors: FloatArray) -> FloatArray:
        array = self._part(place, some, vectors)
        if self.counts.parts[place][0] == "contrasts":
            return array
        return np.asarray(along(array, [contrasts(n) for n in self.work.shape(some)], 1))

    def _cells(self, place: int, some: Columns, vectors: FloatArray) -> FloatArray:
        """The residual itself, for isotropic noise."""
        array, shape = self._part(place, some, vectors), self.work.shape(some)
        if self.counts.parts[place][0] == "centred":
            for axis, n in enumerate(shape, 1):
                if n == 2:
                    array = np.concatenate([array, -array], axis=axis) / frame_square(n)
                else:  # n z - (sum of z), over the square of the frame
                    array = (n * array - array.sum(axis=axis, keepdims=True)) / frame_square(n)
            return array
        for axis in range(1, 1 + len(shape)):
            array = array - array.mean(axis=axis, keepdims=True)
        return array


def _tells(kind: str, columns: Columns, some: Columns) -> bool:
    return set(some) <= set(columns) if kind == "cells" else some == columns


def _squares(shape: Sequence[int]) -> FloatArray:
    out = np.ones(())
    for n in shape:
        out = spread_over(out, (contrasts(n) ** 2).sum(axis=1))
    return out


def _from_contrasts(array: FloatArray, shape: Sequence[int], *, sizes: bool = False) -> FloatArray:
    """The residual with these contrasts; ``sizes`` adds up the sizes of what they bring."""
    maps = [(contrasts(n) / (contrasts(n) ** 2).sum(axis=1)[:, None]).T for n in shape]
    return np.asarray(along(array, [np.abs(each) for each in maps] if sizes else maps, 1))
