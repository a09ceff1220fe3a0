"""The information matrix of a logistic regression at a released parameter, with exact noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.convex.margin_losses import MarginLoss
from tightdp.errors import FloatArray
from tightdp.exact.lattice_bodies import BoxBody
from tightdp.geometry import orders
from tightdp.geometry.norm_balls import LpBall
from tightdp.mechanisms.scaled_rows import margins
from tightdp.noise.lattice import LatticeNoise
from tightdp.randomness import RandomSource

_BLOCK_ROWS = 8192
_MOST_BITS = 24


class NoisyInformation:
    r"""Releases :math:`\sum_i \phi''(\theta \cdot x_i) x_i x_i^T` plus integer noise.

    **Privacy.**
    Statement: epsilon-DP for fixed :math:`\theta`; together with the release of :math:`\theta`, the
    two budgets add up.
    Proof: with a curvature of at most c and rows in the cube, entries of one row lie in [-c, c], on
    the diagonal in [0, c], which is doubled; each entry is clipped there and rounded to a grid that
    has these ends. So a row that is replaced moves every integer by at most L = 2 c times the
    resolution (half of it, undoubled, if rows are added or removed), and
    :class:`~tightdp.LatticeNoise` for the cube of that level is epsilon-DP. The float error of an
    entry is part of the function of the row, which no other row enters and its place does not
    either: the integers are exact, and so is the guarantee.

    Parameters
    ----------
    width : int
        Number of parameters m.
    epsilon : Fraction
    loss : MarginLoss
    rows : int
        A public bound on the number of rows.
    replace_one : bool
    rows_per_person : int
    """

    def __init__(
        self,
        width: int,
        epsilon: Fraction,
        loss: MarginLoss,
        *,
        rows: int,
        replace_one: bool = True,
        rows_per_person: int = 1,
    ) -> None:
        self.width, self.loss = width, loss
        self.upper = np.triu_indices(width)
        self.doubled = replace_one
        # sums of n entries of at most 2**(bits + 1) fit 62 bits
        self.bits = max(2, min(_MOST_BITS, 60 - rows.bit_length()))
        self.factor = np.where(self.upper[0] == self.upper[1], 1.0 + self.doubled, 1.0)
        largest = math.ceil(loss.curvature * (1 << self.bits))
        self._ends = np.where(self.factor > 1, 2 * largest, largest)
        self._low = np.where(self.upper[0] == self.upper[1], 0, -largest)
        reach = largest * (2 if replace_one else 1) * rows_per_person
        self.noise = LatticeNoise(BoxBody([1] * len(self.factor)), epsilon, reach)

    @property
    def resolution(self) -> int:
        """Grid points per unit."""
        return 1 << self.bits

    def draw(self, rng: RandomSource) -> NDArray[Any]:
        """The noise of one release."""
        return self.noise.sample(rng=rng)

    def measure(self, rows: FloatArray, theta: FloatArray) -> list[int]:
        """The exact integers, upper triangle row by row. **Not private.**"""
        total = [0] * len(self.factor)
        left, right = self.upper
        for start in range(0, len(rows), _BLOCK_ROWS):
            x = rows[start : start + _BLOCK_ROWS]
            weight = self.loss.second(margins(x, theta), np.zeros(len(x)))
            for i, (j, k) in enumerate(zip(left, right, strict=True)):
                entry = weight * x[:, j] * x[:, k] * (self.factor[i] * self.resolution)
                cells = np.clip(np.rint(entry), self._low[i], self._ends[i])
                total[i] += int(cells.astype(np.int64).sum())
        return total

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the entries, by place."""
        return tuple(f"information[{j},{k}]" for j, k in zip(*self.upper, strict=True))

    def recover(self, integers: Sequence[int]) -> FloatArray:
        """The entries of the upper triangle, for the scaled parameters."""
        return np.array([z / self.resolution for z in integers]) / self.factor

    def matrices(self, entries: FloatArray) -> FloatArray:
        """Symmetric matrices with these entries in their upper triangles, one or many."""
        out = np.zeros((*entries.shape[:-1], self.width, self.width))
        left, right = self.upper
        out[..., left, right] = out[..., right, left] = entries
        return out

    def errors(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Covariance and simultaneous half-widths of the noise on the entries."""
        cube, unit = LpBall(len(self.factor), np.inf), 1.0 / (self.factor * self.resolution)
        rate = float(self.noise.rate)
        covariance = orders.covariance(cube, rate).value * np.outer(unit, unit)
        return covariance, orders.concentration_radius(cube, rate, confidence) * unit
