"""Objectives that are summed over rows, with derivatives in any precision and their errors."""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass
from decimal import Decimal
from enum import IntEnum
from typing import Any, NamedTuple

import numpy as np

from tightdp.convex import decimals as wide
from tightdp.convex.margin_losses import MarginLoss, RowLoss
from tightdp.convex.penalties import Penalty
from tightdp.errors import FloatArray

UNIT, _EXTENDED_UNIT = 2.0**-53, 2.0**-64
FAST_ROWS = 512  # rows summed by one product: its rounding error is proportional to them
WIDE_ROWS = 64  # the same for extended doubles
SPLIT_ROWS = 1 << 12
_SPLIT = 2.0**30  # terms are cut into multiples of 2**-30, whose sums are exact, and a small rest
_STEEPEST = 64.0  # up to this slope


class Precision(IntEnum):
    """How sums over rows are made: by products of doubles, without rounding, wider, or at will."""

    FAST = 0
    SPLIT = 1
    EXTENDED = 2
    DECIMAL = 3


class Derivatives(NamedTuple):
    """Gradient and Hessian of the smooth part, and the sum of the losses' curvatures."""

    gradient: FloatArray
    hessian: FloatArray
    bend: float


@dataclass(frozen=True, slots=True, eq=False)
class RowObjective(ABC):
    """The perturbed sum over rows.

    Attributes
    ----------
    rows : array, shape (n, m)
        Rows in [-1, 1]^m.
    target : array, shape (n,)
    loss : RowLoss
    ridge : float
        Strong convexity added by the mechanism.
    noise : array, one entry for each parameter
    penalty : Penalty
    """

    rows: FloatArray
    target: FloatArray
    loss: RowLoss
    ridge: float
    noise: FloatArray
    penalty: Penalty

    @property
    @abstractmethod
    def width(self) -> int:
        """The number of parameters."""

    @abstractmethod
    def derivatives(self, theta: FloatArray) -> Derivatives:
        """Gradient and Hessian of the smooth part, in one pass."""

    @abstractmethod
    def majorant(self, theta: FloatArray) -> FloatArray:
        """Hessian of a parabola that touches the smooth part and is nowhere below it.

        Of the losses and the ridge, that is: a smooth penalty enters with its Hessian.
        """

    @abstractmethod
    def in_decimals(self, theta: wide.Decimals) -> Derivatives:
        """The same, with the gradient in decimals, row after row; curvatures are those there."""

    @abstractmethod
    def gradient(self, theta: FloatArray, precision: Precision) -> FloatArray:
        """Gradient of the smooth part: summed without rounding, or in extended precision."""

    @abstractmethod
    def rounding(self, theta: FloatArray, bend: float, precision: Precision) -> float:
        """A bound on the Euclidean floating-point error of the gradient.

        ``bend`` is the sum of the curvatures at ``theta``.
        """

    @property
    def convexity(self) -> float:
        """A lower bound on the curvature in every direction."""
        return self.ridge + self.penalty.strength

    def _blocks(self, size: int) -> Iterator[tuple[FloatArray, FloatArray]]:
        for start in range(0, len(self.rows), size):
            part = slice(start, start + size)
            yield self.rows[part], self.target[part]

    def _total(self, sums: list[Any], theta: FloatArray) -> FloatArray:
        # fsum adds without rounding, so the rows of one block are all that rounding sees
        smooth = self.penalty.gradient(theta)
        columns = [[float(part[j]) for part in sums] for j in range(len(theta))]
        return np.array(
            [
                math.fsum([*column, self.ridge * theta[j], self.noise[j], smooth[j]])
                for j, column in enumerate(columns)
            ]
        )

    def _extended_total(self, products: list[Any], theta: FloatArray) -> FloatArray:
        """The sum as an extended double, from extended doubles cut into two doubles each."""
        high = [part.astype(np.float64) for part in products]
        low = [np.float64(part - cut) for part, cut in zip(products, high, strict=True)]
        smooth = self.penalty.gradient(theta)
        out: Any = np.zeros(len(theta), dtype=np.longdouble)
        for j in range(len(theta)):
            column = [float(part[j]) for part in (*high, *low, self.noise, smooth)]
            first = math.fsum(column)
            out[j] = np.longdouble(first) + np.longdouble(math.fsum([*column, -first]))
        return out

    def _unit(self, precision: Precision) -> float:
        """The relative error of one operation."""
        if precision is Precision.DECIMAL:
            return wide.unit(len(self.rows))
        if precision is Precision.EXTENDED:  # two doubles hold that much of it, wider or not
            return max(float(np.finfo(np.longdouble).eps) / 2.0, _EXTENDED_UNIT)
        return UNIT

    def _roundings(self, precision: Precision) -> float:
        """How many roundings of its slope a row meets in a sum over all rows."""
        n = len(self.rows)
        return {
            Precision.FAST: min(n, FAST_ROWS) + 2.0,
            Precision.SPLIT: 3.0,
            Precision.EXTENDED: min(n, WIDE_ROWS) + 3.0,
            Precision.DECIMAL: n + 2.0,
        }[precision]


@dataclass(frozen=True, slots=True, eq=False)
class Objective(RowObjective):
    """Losses of one margin, with a :class:`~tightdp.convex.margin_losses.MarginLoss`."""

    loss: MarginLoss

    @property
    def width(self) -> int:
        return int(self.rows.shape[1])

    def derivatives(self, theta: FloatArray) -> Derivatives:
        sums, width, bend = [], len(theta), 0.0
        hessian = np.zeros((width, width))
        for x, y in self._blocks(FAST_ROWS):
            first, second = self.loss.both(x @ theta, y)
            sums.append(first @ x)
            hessian += (x.T * second) @ x
            bend += float(second.sum())
        hessian += self.ridge * np.eye(width) + self.penalty.hessian(theta)
        return Derivatives(self._total(sums, theta), hessian, bend)

    def majorant(self, theta: FloatArray) -> FloatArray:
        width = len(theta)
        hessian = self.ridge * np.eye(width) + self.penalty.hessian(theta)
        for x, y in self._blocks(SPLIT_ROWS):
            hessian += (x.T * self.loss.majorant(x @ theta, y)) @ x
        return np.asarray(hessian)

    def in_decimals(self, theta: wide.Decimals) -> Derivatives:
        width, bend = len(theta), 0.0
        total = Decimal(self.ridge) * theta + wide.decimals(self.noise)
        hessian = self.ridge * np.eye(width)
        for x, y in self._blocks(FAST_ROWS):
            cells = wide.decimals(x)
            here = wide.slopes(self.loss, cells @ theta, wide.decimals(y))
            total = total + here.first @ cells
            hessian += (x.T * here.second) @ x
            bend += float(here.second.sum())
        return Derivatives(total, hessian, bend)

    def gradient(self, theta: FloatArray, precision: Precision) -> FloatArray:
        if precision is Precision.EXTENDED:
            point: Any = theta.astype(np.longdouble)  # no change if it is so already
            products: list[Any] = [self.ridge * point]
            for x, y in self._blocks(WIDE_ROWS):
                cells: Any = x.astype(np.longdouble)
                products.append(self.loss.first(cells @ point, y) @ cells)
            return self._extended_total(products, theta)
        sums: list[FloatArray] = []
        for x, y in self._blocks(SPLIT_ROWS):
            sums += split_sums(self.loss.first(x @ theta, y)[:, None] * x)
        return self._total(sums, theta)

    def rounding(self, theta: FloatArray, bend: float, precision: Precision) -> float:
        """A bound on the Euclidean floating-point error of the gradient.

        Row by row: the margin is off by at most e = (m + 2) u |theta|_1, its slope by e times the
        curvature, by the error of the slope itself and by its rounding, and a term by one rounding
        more; a product over a block of b rows adds (b - 1) u times the slope, and the sum of all
        blocks is rounded once (decimals are summed one after the other: a block of all rows).
        ``bend`` is the sum of the curvatures at ``theta``.
        """
        n, m = self.rows.shape
        unit = self._unit(precision)
        length = float(np.abs(theta).sum())
        steep = min(self.loss.slope(math.inf), length + 1.0)
        if precision is Precision.SPLIT and steep > _STEEPEST:
            return math.inf
        margin = (m + 2) * length * unit
        moved = margin * min(n * self.loss.curvature, self.loss.nearby(bend, n, margin))
        per_row = (self.loss.rounding + self._roundings(precision) * steep) * unit
        # ridge, noise and penalty: each is rounded once, and so is the sum
        rest = unit * float(np.linalg.norm(self.ridge * theta))
        rest += UNIT * sum(
            float(np.linalg.norm(part)) for part in (self.noise, self.penalty.gradient(theta))
        )
        return float(math.sqrt(m) * (moved + n * per_row) + 2.0 * rest)


def split_sums(terms: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Sums of columns in two parts: of multiples of 2**-30, without rounding, and of the rest."""
    whole = np.rint(terms * _SPLIT)
    rest = terms - whole / _SPLIT  # exact: the rest of a division
    return whole.sum(axis=0) / _SPLIT, rest.sum(axis=0)
