"""The perturbed sum over rows for several classes: one vector of parameters for each of them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from decimal import Decimal
from typing import Any

import numpy as np

from tightdp.convex import decimals as wide
from tightdp.convex.class_losses import SoftmaxLoss
from tightdp.convex.objectives import (
    FAST_ROWS,
    SPLIT_ROWS,
    UNIT,
    WIDE_ROWS,
    Derivatives,
    Precision,
    RowObjective,
    split_sums,
)
from tightdp.errors import FloatArray


@dataclass(frozen=True, slots=True, eq=False)
class ClassObjective(RowObjective):
    """A sum over rows whose parameters are K vectors, one after the other in ``theta``.

    Attributes
    ----------
    loss : SoftmaxLoss
    target : array, shape (n,)
        The class of every row, 0 to K - 1.
    """

    loss: SoftmaxLoss

    @property
    def width(self) -> int:
        return int(self.loss.classes * self.rows.shape[1])

    def _margins(self, x: Any, theta: Any) -> Any:
        return x @ theta.reshape(self.loss.classes, -1).T

    def derivatives(self, theta: FloatArray) -> Derivatives:
        sums, hessian, bend = [], self.ridge * np.eye(self.width), 0.0
        for x, y in self._blocks(FAST_ROWS):
            p = self.loss.probabilities(self._margins(x, theta))
            slopes = p.copy()
            slopes[np.arange(len(y)), y.astype(np.int64)] -= 1.0
            sums.append((slopes.T @ x).ravel())
            hessian += _curved(p, x)
            bend += float((p * (1.0 - p)).sum())
        return Derivatives(self._total(sums, theta), hessian, bend)

    def majorant(self, theta: FloatArray) -> FloatArray:
        # (I - 11^T / K) / 2 is nowhere below diag(p) - p p^T (Boehning, 1992)
        k, m = self.loss.classes, self.rows.shape[1]
        above = (np.eye(k) - 1.0 / k) / 2.0
        total = np.zeros((m, m))
        for x, _ in self._blocks(SPLIT_ROWS):
            total += x.T @ x
        return np.asarray(np.kron(above, total) + self.ridge * np.eye(self.width))

    def in_decimals(self, theta: wide.Decimals) -> Derivatives:
        total = Decimal(self.ridge) * theta + wide.decimals(self.noise)
        hessian, bend = self.ridge * np.eye(self.width), 0.0
        for x, y in self._blocks(FAST_ROWS):
            cells = wide.decimals(x)
            slopes = wide.class_slopes(self._margins(cells, theta), y)
            total = total + (slopes.T @ cells).ravel()
            p = slopes.astype(np.float64)
            p[np.arange(len(y)), y.astype(np.int64)] += 1.0
            hessian += _curved(p, x)
            bend += float((p * (1.0 - p)).sum())
        return Derivatives(total, hessian, bend)

    def gradient(self, theta: FloatArray, precision: Precision) -> FloatArray:
        if precision is Precision.EXTENDED:
            point: Any = theta.astype(np.longdouble)
            products: list[Any] = [self.ridge * point]
            for x, y in self._blocks(WIDE_ROWS):
                cells: Any = x.astype(np.longdouble)
                slopes = self.loss.first(self._margins(cells, point), y)
                products.append((slopes.T @ cells).ravel())
            return self._extended_total(products, theta)
        sums: list[FloatArray] = []
        for x, y in self._blocks(SPLIT_ROWS):
            slopes = self.loss.first(self._margins(x, theta), y)
            # one class at a time: as large as the rows
            parts = [split_sums(slope[:, None] * x) for slope in slopes.T]
            sums += [np.concatenate(part) for part in zip(*parts, strict=True)]
        return self._total(sums, theta)

    def rounding(self, theta: FloatArray, bend: float, precision: Precision) -> float:
        """As for one margin, for the slopes of all classes.

        The margins of a row are off by at most e = (m + 4) u max |theta_k|_1, two of these for the
        difference to the largest one. The slope of a class moves by at most
        e sum_l |W_kl| = 2 p_k (1 - p_k) e <= e / 2.
        """
        n, m = self.rows.shape
        unit = self._unit(precision)
        length = float(np.abs(theta.reshape(self.loss.classes, m)).sum(axis=1).max())
        moved = n * (m + 4) * length * unit / 2.0
        per_row = (self.loss.rounding + self._roundings(precision)) * unit
        rest = unit * float(np.linalg.norm(self.ridge * theta))
        rest += UNIT * float(np.linalg.norm(self.noise))
        return float(math.sqrt(self.width) * (moved + n * per_row) + 2.0 * rest)


def _curved(p: FloatArray, x: FloatArray) -> FloatArray:
    """The sum over rows of ``(diag(p) - p p^T) (x) x x^T``, shape (K m, K m)."""
    k, m = p.shape[1], x.shape[1]
    spread = (p[:, :, None] * x[:, None, :]).reshape(len(x), k * m)
    out = -(spread.T @ spread)
    for c in range(k):
        block = slice(c * m, (c + 1) * m)
        out[block, block] += (x.T * p[:, c]) @ x
    return out
