r"""Square grids folded by the eight symmetries of the square, and shortfalls counted on them.

A noise in the plane is kept as one weight for each orbit of cells. For a shift m (in cells) the
shortfall is :math:`V_m = \sum_i (p_i - e^\epsilon p_{i-m})_+`; cells whose pair of orbits
(orbit of i, orbit of i - m) is the same give equal terms and become one row with a multiplicity.
"""

from __future__ import annotations

from fractions import Fraction
from functools import cached_property
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

Indices = NDArray[np.int64]
Shift = tuple[int, int]

LOSSES = ("l1", "l2")
_BITS = 128


class Rows(NamedTuple):
    """Pairs of orbits (own, met) that occur under one shift, and how often; met = -1: no cell."""

    own: Indices
    met: Indices
    times: Indices


class PlanarGrid:
    """Cells (i, j) in a square, of which those of an inner window are tested.

    ``centred`` cells have their middle at (i, j), with i and j in -half..half; the others lie
    between whole numbers, with i and j in -half..half-1. The unit is the cell width.

    >>> grid = PlanarGrid(1)
    >>> grid.orbit.tolist(), grid.sizes.tolist()
    ([[2, 1, 2], [1, 0, 1], [2, 1, 2]], [1, 4, 4])
    """

    def __init__(self, half: int, *, centred: bool = True, window: int | None = None) -> None:
        self.half, self.centred = half, centred
        self.window = half if window is None else window
        doubled = 2 * np.arange(-half, half + 1) if centred else 2 * np.arange(-half, half) + 1
        far = np.abs(doubled)
        large, small = np.maximum.outer(far, far), np.minimum.outer(far, far)
        base = 2 * half + 2
        keys, orbit, sizes = np.unique(
            large * base + small, return_inverse=True, return_counts=True
        )
        self.orbit: Indices = orbit.reshape(len(far), len(far)).astype(np.int64)
        self.sizes: Indices = sizes.astype(np.int64)
        self._corners = keys // base, keys % base  # |doubled centre| along both axes

    def __len__(self) -> int:
        return len(self.sizes)

    @property
    def side(self) -> int:
        """Cells along one side."""
        return len(self.orbit)

    def rows(self, shift: Shift) -> Rows:
        """The rows of one shift; a cell that meets its own orbit never falls short."""
        n, margin, reach = self.side, self.half - self.window, max(map(abs, shift))
        around = np.full((n + 2 * reach, n + 2 * reach), -1, dtype=np.int64)
        around[reach : reach + n, reach : reach + n] = self.orbit
        size = n - 2 * margin
        first = [reach + margin - m for m in shift]
        met = around[first[0] : first[0] + size, first[1] : first[1] + size]
        own = self.orbit[margin : n - margin, margin : n - margin]
        count = len(self) + 1
        keys, times = np.unique(own.ravel() * count + met.ravel() + 1, return_counts=True)
        pairs = keys // count, keys % count - 1
        apart = pairs[0] != pairs[1]
        return Rows(pairs[0][apart], pairs[1][apart], times[apart].astype(np.int64))

    def mean_losses(self, loss: str) -> list[Fraction]:
        """Mean loss over a cell of each orbit, in cell widths (l1) or their squares (l2)."""
        return self._sum_of_axes(mean_loss, loss)

    def node_losses(self, loss: str) -> list[Fraction]:
        """Node values whose interpolation by tents stays below the loss."""
        return self._sum_of_axes(node_loss, loss)

    def _sum_of_axes(self, axis: Any, loss: str) -> list[Fraction]:
        far = [[int(d) for d in along] for along in self._corners]
        return [axis(a, loss) + axis(b, loss) for a, b in zip(*far, strict=True)]

    @cached_property
    def outside(self) -> int:
        """Twice the distance of the nearest cell middle outside the square."""
        return 2 * (self.half + 1) if self.centred else 2 * self.half + 1


def mean_loss(doubled: int, loss: str) -> Fraction:
    """Mean of abs(x) or x**2 over a cell of width 1 whose middle is ``doubled / 2`` from zero.

    >>> mean_loss(0, "l1"), mean_loss(3, "l1"), mean_loss(2, "l2")
    (Fraction(1, 4), Fraction(3, 2), Fraction(13, 12))
    """
    if loss == "l1":
        return Fraction(doubled, 2) if doubled else Fraction(1, 4)
    return Fraction(doubled * doubled, 4) + Fraction(1, 12)


def node_loss(doubled: int, loss: str) -> Fraction:
    """Node value at ``doubled / 2``: abs(x) itself; for x**2 tangents at the middles, x**2 - 1/4.

    >>> node_loss(4, "l1"), node_loss(4, "l2")
    (Fraction(2, 1), Fraction(15, 4))
    """
    if loss == "l1":
        return Fraction(doubled, 2)
    return Fraction(doubled * doubled - 1, 4)


def shortfall(rows: Rows, weights: NDArray[Any], top: int, high: int) -> int:
    """``high`` times the shortfall of integer weights (an object array), never too small."""
    met = np.where(rows.met >= 0, weights[rows.met], 0)
    short = np.maximum(weights[rows.own] * high - met * top, 0)
    return int((short * rows.times.astype(object)).sum())
