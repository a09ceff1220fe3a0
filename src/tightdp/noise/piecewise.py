"""Noise with integer weights on the cells of a grid: what an optimiser designs, kept exactly."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import FloatArray, exact_fraction, fail, shown
from tightdp.noise.law import ContinuousLaw, check_sensitivity, grid_steps
from tightdp.noise.table_noise import CellWeights, TableNoise
from tightdp.parameters import tells_arguments
from tightdp.privacy import check_epsilon, float_up


@tells_arguments
class PiecewiseNoise(ContinuousLaw, CellWeights):
    r"""A mixture of uniform laws on the cells of a grid, and an atom at zero.

    .. math:: X \sim p_0\,\delta_0 + \sum_i p_i\,\mathrm{Uniform}[\beta i, \beta (i+1)), \qquad
              p_i = w_i / \sum w .

    **Privacy.**
    Statement: adding X to a real statistic that moves by at most :math:`\Delta` is
    (epsilon, delta)-DP with :math:`\delta = p_0 + \max_{1 \le m \le k} V_m`,
    :math:`k = \lceil \Delta/\beta \rceil` and
    :math:`V_m = \max_\pm \sum_i (p_i - e^\epsilon p_{i \mp m})_+`; :meth:`exact_delta` is a
    rational upper bound of it.
    Needs: [P1] :math:`|T(X) - T(X')| \le \Delta`; [P2] real arithmetic.
    Proof: (1) Move by :math:`(m + t)\beta`, 0 <= t <= 1: cell i meets the moved cells i - m and
    i - m - 1 on parts 1 - t and t of it, so the shortfall of the cells is
    :math:`(1-t)V_m + tV_{m+1}`, with :math:`V_0 = 0`. (2) The atom meets no atom: it adds all of
    :math:`p_0`. (3) :math:`V_m` falls as :math:`e^\epsilon` grows, so a rational lower bound of
    :math:`e^\epsilon` and integer sums bound it from above.
    Numerics: ``idealized-numerics``; :meth:`lattice` gives the exact law
    :class:`~tightdp.noise.table_noise.TableNoise`.
    References: Selvi and others (2025), problem P(L, beta) and Algorithm 2; the atom is an
    addition.

    Parameters
    ----------
    weights : sequence of int
        One weight >= 0 for each cell.
    start : int
        Index i of the first cell.
    cell_width : float
        :math:`\beta` > 0.
    atom : int
        Weight of the atom at zero.
    epsilon : float
        Where :meth:`guarantee` reads off delta.
    sensitivity : float
        :math:`\Delta` > 0.

    Examples
    --------
    >>> noise = PiecewiseNoise([1, 3, 3, 1], start=-2, cell_width=0.5, epsilon=1.0)
    >>> noise.expected_loss(1), round(noise.guarantee().delta, 6)
    (0.375, 0.535215)
    """

    def __init__(
        self,
        weights: Sequence[int],
        *,
        start: int,
        cell_width: Number,
        epsilon: Number,
        sensitivity: Number = 1.0,
        atom: int = 0,
    ) -> None:
        self._take(weights, start, atom, epsilon)
        self.epsilon = float_up(self._ask)
        self.sensitivity, self._exact_sensitivity = check_sensitivity(sensitivity)
        self.cell_width, self._exact_width = check_sensitivity(cell_width, "cell_width")

    def exact_delta(
        self, sensitivity: Number | None = None, *, epsilon: Number | None = None
    ) -> Fraction:
        """The delta of the statement, as a rational that is never too small."""
        moved = (
            self._exact_sensitivity if sensitivity is None else check_sensitivity(sensitivity)[1]
        )
        asked = self._ask if epsilon is None else check_epsilon(epsilon)
        return self._bound(math.ceil(moved / self._exact_width), asked)

    def cells_per_sensitivity(self) -> int:
        """How many cells a move by the sensitivity spans; it must be a whole number."""
        cells = self._exact_sensitivity / self._exact_width
        if cells.denominator != 1:
            fail("`cell_width` must divide `sensitivity` for a law that is scaled to a statistic.")
        return int(cells)

    def lattice(self, grid: Number) -> TableNoise:
        """The exact law with ``cell_width / grid`` points a cell, which must be a whole number."""
        points = self._exact_width / exact_fraction("grid", grid)
        if points < 1 or points.denominator != 1:
            fail(f"`grid` must divide `cell_width`. Got {shown(grid)} for {self.cell_width}.")
        return TableNoise(
            self.weights,
            start=self.start,
            points=int(points),
            dithered=True,
            atom=self.atom,
            epsilon=self._ask,
            sensitivity=grid_steps(self._exact_sensitivity, grid),
        )

    def mean(self) -> float:
        """E X."""
        edges = self._edges
        return float(np.sum(self._float_weights() * (edges[1:] + edges[:-1]) / 2))

    @property
    def atom_share(self) -> float:
        """P(X = 0), not part of the density."""
        return self.atom / self.total

    @property
    def _edges(self) -> FloatArray:
        return self.cell_width * (self.start + np.arange(len(self.weights) + 1.0))

    def _log_density(self, x: FloatArray) -> FloatArray:
        mass = self._mass_of(np.floor(x / self.cell_width))
        with np.errstate(divide="ignore"):
            return np.log(mass / self.cell_width)

    def _path(self) -> tuple[FloatArray, FloatArray]:
        """Corners (x, P(X <= x)) of the distribution function, a vertical piece at the atom."""
        x, mass = self._edges, self._cumulated()
        if self.atom == 0:
            return x, mass / mass[-1]
        below = float(np.interp(0.0, x, mass))
        i, j = np.searchsorted(x, 0.0), np.searchsorted(x, 0.0, side="right")
        x = np.concatenate([x[:i], [0.0, 0.0], x[j:]])
        jump = [below, below + self.atom_share]
        return x, np.concatenate([mass[:i], jump, mass[j:] + self.atom_share])

    def _cdf(self, x: FloatArray) -> FloatArray:
        cells = np.interp(x, self._edges, self._cumulated())
        return np.minimum(cells + self.atom_share * (x >= 0), 1.0)

    def _quantile(self, p: FloatArray) -> FloatArray:
        x, mass = self._path()
        i = np.clip(np.searchsorted(mass, p, side="left"), 1, len(mass) - 1)
        rise = np.maximum(mass[i] - mass[i - 1], np.finfo(np.float64).tiny)
        return x[i - 1] + np.clip((p - mass[i - 1]) / rise, 0, 1) * (x[i] - x[i - 1])

    def _moment(self, p: int) -> float:
        low, high = self._edges[:-1], self._edges[1:]
        each = np.abs(low + high) / 2 if p == 1 else (low**2 + low * high + high**2) / 3
        return float(np.sum(self._float_weights() * each))

    def _shortfall(self, epsilon: float, shift: float) -> float:
        return self._between(epsilon, shift / self.cell_width) if shift else 0.0

    def _worst_shortfall(self, epsilon: float, sensitivity: float) -> float:
        return float_up(self.exact_delta(sensitivity, epsilon=epsilon))

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        exact = None if sensitivity == self.sensitivity else sensitivity
        return float_up(self._ask), float_up(self.exact_delta(exact))

    def _shown(self) -> dict[str, Any]:
        shape = {"cells": len(self.weights), "cell_width": self.cell_width}
        return {**shape, "table": self._mark, **super()._shown()}
