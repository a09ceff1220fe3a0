r"""Errors of private regression quantiles on made-up rows, by weighing planes; for previews.

An exact draw cuts the planes into thousands of boxes, for every table anew. A preview needs many
tables and no exact draw: planes are proposed in doubles around the best one of a table, each is
weighed by what the law gives it over what the proposal did, and some are taken in proportion.

The proposal is that of evenly spread rows, somewhat wider: with the curvature
:math:`H = f X^\top X`, f the density of the target, the gradient at :math:`\theta` is about
:math:`H(\theta - \hat\theta)`, and :math:`\theta - \hat\theta` about :math:`H^{-1}` times noise of
the shape of a cube, and never narrower than the steps of the lattice. Where noise may be as wide as
the set, some planes are uniform on all of it.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction

import numpy as np

from tightdp.data.design_matrix import RegressionRows
from tightdp.errors import FloatArray
from tightdp.exact.quantile_levels import CheckNorm
from tightdp.randomness import RandomSource
from tightdp.schema import Interval

_FAINT = 500.0  # a rate at which noise is invisible beside any other
_WIDER = 0.6  # the rate of the proposal, in units of the law's
_WIDEST = 0.5  # the law of few rows has gaps: the proposal reaches across them
_PLANES, _MOST_PLANES = 1_280, 4_096  # proposed at rate 1 for every coefficient, and in all
_STEPS = 12  # towards the best plane
_STRONG = 250  # rows times epsilon for every coefficient, from which on errors are like 1/rows
_ROWS, _MOST_ROWS = 512, 8_192  # of a made-up table, for every coefficient and in all
_TABLES, _FEW_TABLES, _TAKEN = 64, 12, 48  # tables that are made up, and planes taken of each
_CELLS, _TOGETHER = 1 << 16, 32  # rows times planes that are looked at together; planes at least
_WORK = 1.5e8  # tables times rows times planes, from which on there are fewer tables


@dataclass(frozen=True, slots=True)
class PlaneLaw:
    """What is public of a private regression quantile.

    Attributes
    ----------
    rows : RegressionRows
    tau : Fraction
    norm : CheckNorm
    epsilon : float
    radius : float
        Bound on the coefficients, on their sum if ``within``.
    within : bool
    step : float
        Coefficients are its multiples.
    """

    rows: RegressionRows
    tau: Fraction
    norm: CheckNorm
    epsilon: float
    radius: float
    within: bool
    step: float

    def errors(self, rng: RandomSource) -> FloatArray:
        """Errors of scaled coefficients, some for each of several made-up tables, one in a row.

        Of a large table fewer rows are made up, and at small epsilon, where the law is smooth, a
        larger one is taken for them, so that noise is small beside the set if it is so on the
        table: errors are then in proportion to 1 / (rows * epsilon).
        """
        rows, dim = self.rows.schema.rows, self.rows.dim
        strong = _STRONG * dim / min(1.0, 4 * float(min(self.tau, 1 - self.tau)))
        few = min(rows, _MOST_ROWS, math.ceil(max(strong / self.epsilon, _ROWS * dim)))
        strength = max(few * self.epsilon, min(rows * self.epsilon, strong))
        scale = strength / (rows * self.epsilon)
        rate, step = strength / few / (2 * self.rows.persons), self.step / scale
        near = min(_MOST_PLANES, round(dim * _PLANES * min(max(rate, 1 / 8), 1.0)))
        planes = near, near // 4 * (strength < strong)
        tables = min(max(round(_WORK / few / near), _FEW_TABLES), _TABLES)
        drawn = [self._draw(few, rate, step, planes, rng) for _ in range(tables)]
        return scale * np.concatenate(drawn)

    def _draw(
        self, count: int, rate: float, step: float, many: tuple[int, int], rng: RandomSource
    ) -> FloatArray:
        """Planes of one table, drawn with a rate, less one that is drawn with next to no noise."""
        x, y, density = self._table(count, rng)
        bend = density * (x.T @ x + np.eye(x.shape[1]))  # one row more: never singular
        about = self._best(x, y, bend)
        wide = min(_WIDER * rate, _WIDEST, 1 / (step * bend.diagonal().max()))
        planes, chance = self._proposed(about, bend, wide, many, rng)
        whole = np.rint(planes / step) * step  # the law of a lattice point is even on its cell
        sizes = np.abs(whole)
        inside = (sizes.sum(axis=1) if self.within else sizes.max(axis=1)) <= self.radius
        levels = np.where(inside, self._levels(self._gradients(x, y, about, whole)), np.inf)
        levels -= levels.min()
        taken, best = (
            _in_proportion(-each * levels - chance, some, rng)
            for each, some in ((rate, _TAKEN), (_FAINT, 1))
        )
        return np.asarray(whole[taken] - planes[best])  # and what the lattice rounds

    def _table(self, count: int, rng: RandomSource) -> tuple[FloatArray, FloatArray, float]:
        """Scaled rows that are drawn evenly from their bounds, and the density of the target."""
        cells = []
        for name in self.rows.columns:
            own, scaled = self.rows.stated[name], self.rows.schema[name]
            assert isinstance(own, Interval)
            assert isinstance(scaled, Interval)
            shift, density = (own.low - scaled.middle) / scaled.half, scaled.half / own.width
            cells.append(shift + rng.uniform(count) / density)
        ones = [np.ones(count)] * self.rows.intercept
        return np.column_stack([*ones, *cells[:-1]]), cells[-1], density

    def _gradients(
        self, x: FloatArray, y: FloatArray, near: FloatArray, planes: FloatArray
    ) -> FloatArray:
        """Of planes, shape (d, planes); rows on one side of all of them are looked at once."""
        above, moves = y - x @ near, planes - near
        open_ = np.abs(above) <= np.abs(x) @ np.abs(moves).max(axis=0)
        settled = x[~open_].T @ (above[~open_] <= 0) - float(self.tau) * x.sum(axis=0)
        above, x = above[open_, None], x[open_]
        parts = np.array_split(moves, 1 + len(moves) // max(_CELLS // (1 + len(x)), _TOGETHER))
        below = [x.T @ (above <= x @ part.T).astype(np.float64) for part in parts]
        return np.asarray(settled[:, None] + np.concatenate(below, axis=1))

    def _levels(self, gradients: FloatArray) -> FloatArray:
        """Norms, in units of what one row can change."""
        unit = self.tau.denominator * self.rows.schema.resolution / self.norm.sensitivity
        return self.norm.rounded(np.abs(gradients)) * unit

    def _best(self, x: FloatArray, y: FloatArray, bend: FloatArray) -> FloatArray:
        """About the plane with the least gradient."""
        plane, inverse = np.zeros(x.shape[1]), np.linalg.inv(bend)
        for _ in range(_STEPS):
            plane = plane - inverse @ self._gradients(x, y, plane, plane[None])[:, 0]
        return plane

    def _proposed(
        self,
        best: FloatArray,
        bend: FloatArray,
        rate: float,
        many: tuple[int, int],
        rng: RandomSource,
    ) -> tuple[FloatArray, FloatArray]:
        """Planes near the best one and anywhere, and the logarithms of their densities."""
        dim, (near, far) = len(best), many
        rate *= float(self._levels(np.eye(dim)[-1]))
        cube = 2.0 * rng.uniform((near, dim)) - 1.0
        moves = rng.exponential((near, dim + 1)).sum(axis=1, keepdims=True) / rate * cube
        planes = np.concatenate([best + moves @ np.linalg.inv(bend), self._anywhere(far, rng)])
        around = np.linalg.slogdet(bend)[1] + dim * math.log(rate / 2) - math.lgamma(dim + 1)
        around = around - rate * np.abs((planes - best) @ bend).max(axis=1) + math.log(near)
        if not far:
            return planes, around
        even = math.lgamma(dim + 1) * self.within - dim * math.log(2 * self.radius)
        return planes, np.logaddexp(around, even + math.log(far))

    def _anywhere(self, count: int, rng: RandomSource) -> FloatArray:
        """Planes that are uniform on the set."""
        signed = 2.0 * rng.uniform((count, self.rows.dim)) - 1.0
        if not self.within:
            return self.radius * signed
        parts = rng.exponential((count, self.rows.dim + 1))
        shares = parts[:, :-1] / parts.sum(axis=1, keepdims=True)
        return self.radius * np.sign(signed) * shares


def _in_proportion(logs: FloatArray, count: int, rng: RandomSource) -> FloatArray:
    """Places, drawn in proportion to weights with these logarithms."""
    sums = np.exp(logs - logs.max()).cumsum()
    return np.searchsorted(sums, sums[-1] * rng.uniform(count), side="right")
