r"""Cubic grids folded by the symmetries of the cube, and shortfalls counted on them.

A noise for several entries is kept as one weight for each orbit of cells. For a shift m (in cells)
the shortfall is :math:`V_m = \sum_i (p_i - e^\epsilon p_{i-m})_+`; cells whose pair of orbits
(orbit of i, orbit of i - m) is the same give equal terms and become one row with a multiplicity.
This is the grid of the linear programs; what they propose is proved by
:mod:`tightdp.design.vector_verifier`, which counts for itself.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import NamedTuple

import numpy as np
from numpy.typing import NDArray

from tightdp.design.vector_balls import Shift
from tightdp.design.vector_verifier import mean_loss, node_loss
from tightdp.errors import FloatArray

Indices = NDArray[np.int64]


class Rows(NamedTuple):
    """Pairs of orbits (own, met) that occur under one shift, and how often; met = -1: no cell."""

    own: Indices
    met: Indices
    times: Indices


class VectorGrid:
    """Cells in a square or a cube, of which those of an inner window are tested.

    ``centred`` cells have their middle at whole points in -half..half; the others lie between
    whole numbers, from -half to half. The unit is the cell width.

    >>> grid = VectorGrid(1)
    >>> grid.orbit.tolist(), grid.sizes.tolist()
    ([[2, 1, 2], [1, 0, 1], [2, 1, 2]], [1, 4, 4])
    >>> VectorGrid(1, dim=3).sizes.tolist()
    [1, 6, 12, 8]
    """

    def __init__(
        self, half: int, *, dim: int = 2, centred: bool = True, window: int | None = None
    ) -> None:
        self.half, self.dim, self.centred = half, dim, centred
        self.window = half if window is None else window
        doubled = 2 * np.arange(-half, half + 1) if centred else 2 * np.arange(-half, half) + 1
        far = np.meshgrid(*[np.abs(doubled)] * dim, indexing="ij")
        falling = np.sort(np.stack(far), axis=0)[::-1]  # |doubled middle|, the largest first
        base = 2 * half + 2
        powers = np.array([base**a for a in reversed(range(dim))], dtype=np.int64)
        keys, orbit, sizes = np.unique(
            np.tensordot(powers, falling, 1), return_inverse=True, return_counts=True
        )
        self.orbit: Indices = orbit.reshape(far[0].shape).astype(np.int64)
        self.sizes: Indices = sizes.astype(np.int64)
        self._middles = (keys[:, None] // powers % base).tolist()

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def side(self) -> int:
        """Cells along one side."""
        return len(self.orbit)

    def rows(self, shift: Shift) -> Rows:
        """The rows of one shift; a cell that meets its own orbit never falls short."""
        n, margin, reach = self.side, self.half - self.window, max(map(abs, shift))
        around = np.pad(self.orbit, reach, constant_values=-1)
        size = n - 2 * margin
        met = around[
            tuple(slice(first, first + size) for first in (reach + margin - m for m in shift))
        ]
        own = self.orbit[(slice(margin, n - margin),) * self.dim]
        count = len(self._middles) + 1
        keys, times = np.unique(own.ravel() * count + met.ravel() + 1, return_counts=True)
        pairs = keys // count, keys % count - 1
        apart = pairs[0] != pairs[1]
        return Rows(pairs[0][apart], pairs[1][apart], times[apart].astype(np.int64))

    def distances(self) -> FloatArray:
        """Distance of the middle of a cell of each orbit from zero, in cells."""
        return np.linalg.norm(np.array(self._middles) / 2, axis=1)

    def spread(self, weights: FloatArray) -> FloatArray:
        """The weight of each orbit."""
        return weights

    @property
    def middles(self) -> list[list[int]]:
        """Twice the middle of a cell of each orbit, its entries falling."""
        return list(self._middles)

    def mean_losses(self, loss: str) -> list[Fraction]:
        """Mean loss over a cell of each orbit, in cell widths (l1) or their squares (l2)."""
        return self._sum_of_axes(mean_loss, loss)

    def node_losses(self, loss: str) -> list[Fraction]:
        """Node values whose interpolation by tents stays below the loss."""
        return self._sum_of_axes(node_loss, loss)

    def _sum_of_axes(self, axis: Callable[[int, str], Fraction], loss: str) -> list[Fraction]:
        return [sum((axis(d, loss) for d in far), Fraction(0)) for far in self._middles]


class MergedGrid(VectorGrid):
    """A grid between whole numbers on which orbits of a group share one weight.

    ``group`` has the number of the group of each orbit of the grid. A noise on it is one on
    the grid (:meth:`spread`), so that what is proved there holds.

    >>> merged = MergedGrid(2, np.array([0, 0, 1]))
    >>> len(merged), merged.sizes.tolist(), merged.spread(np.array([3.0, 5.0])).tolist()
    (2, [12, 4], [3.0, 3.0, 5.0])
    """

    def __init__(self, half: int, group: Indices, *, dim: int = 2) -> None:
        super().__init__(half, dim=dim, centred=False)
        self.group = np.asarray(group, dtype=np.int64)
        self._cells = self.sizes
        self.sizes = np.bincount(self.group, weights=self._cells).astype(np.int64)

    def rows(self, shift: Shift) -> Rows:
        """The rows of one shift; a cell that meets its own group never falls short."""
        fine, count = super().rows(shift), len(self) + 1
        met = np.where(fine.met >= 0, self.group[fine.met], -1)
        keys, place = np.unique(self.group[fine.own] * count + met + 1, return_inverse=True)
        times = np.bincount(place, weights=fine.times).astype(np.int64)
        pairs = keys // count, keys % count - 1
        apart = pairs[0] != pairs[1]
        return Rows(pairs[0][apart], pairs[1][apart], times[apart])

    def distances(self) -> FloatArray:
        """Mean distance of the middles of a group."""
        return self._means(super().distances())

    def mean_losses(self, loss: str) -> list[Fraction]:
        """Mean loss over the cells of each group."""
        means = self._means(np.array([float(c) for c in super().mean_losses(loss)]))
        return [Fraction(float(c)) for c in means]

    def spread(self, weights: FloatArray) -> FloatArray:
        """The weight of each orbit."""
        return np.asarray(weights[self.group], dtype=np.float64)

    def gather(self, weights: FloatArray) -> FloatArray:
        """The mean weight of the cells of each group."""
        return self._means(weights)

    def _means(self, values: FloatArray) -> FloatArray:
        sums = np.bincount(self.group, weights=values * self._cells)
        return np.asarray(sums / self.sizes, dtype=np.float64)
