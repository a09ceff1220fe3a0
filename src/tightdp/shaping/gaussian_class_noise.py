"""Gaussian noise for statistics within groups, for (epsilon, delta) or for a budget in rho."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accounting import Cost
from tightdp.data.class_moments import GroupMoments
from tightdp.data.public_rows import Images
from tightdp.errors import FloatArray, fail
from tightdp.exact.discrete_draws import discrete_gaussians
from tightdp.exact.farthest import farthest_level
from tightdp.exact.lattice_bodies import RoundBody
from tightdp.geometry.row_images import SquareImage
from tightdp.noise.gaussian_tails import sure_multiple
from tightdp.noise.gaussian_vectors import GaussianVector
from tightdp.randomness import RandomLike, source
from tightdp.shaping.class_noise import ClassNoise

_MARGIN = 1 + Fraction(1, 10**9)
_FINE = 1 << 34  # steps per unit, so that lengths rounded up to steps stay within the margin


class GaussianClassNoise(ClassNoise):
    r"""Independent discrete Gaussians of one variance on all entries.

    **Privacy.** Let D be the l2 change of all entries. A row that changes its group moves two
    blocks by :math:`\psi`, whose square is at most c + p (2 p with squares) + (number of
    categories), c = 1 if rows are counted; a row that stays moves numbers by 2, or the pairs
    (x, 2x^2-1) by vectors of K2, contrasts by 2 and tables by (1, -1); one that is left out of its
    group, or of the only one, moves one block by :math:`\psi` [P1]. r rows move by r D at most.
    For (epsilon, delta): :class:`~tightdp.noise.gaussian_vectors.GaussianVector`. For rho,
    integers of the variance parameter :math:`D^2/(2\rho)` in squared steps are
    rho-zero-concentrated DP (Canonne, Kamath and Steinke, 2020, Theorem 14) [P2].
    """

    def __init__(
        self,
        moments: GroupMoments,
        epsilon: Fraction | None,
        delta: Fraction,
        rho: Fraction | None = None,
    ) -> None:
        if not delta:
            fail("`noise` 'gaussian' needs `delta` > 0. Got delta = 0.")
        if rho is not None:
            self._cost = Cost.concentrated(rho, delta=delta)
        spent = self._cost.epsilon if epsilon is None else epsilon
        super().__init__(moments, spent, delta)
        self.bits = moments.schema.bits
        square, steps = Fraction(self._square()) * self.rows**2, moments.resolution(self.bits)
        if rho is not None:
            self.sensitivity = Fraction(math.sqrt(square)) * _MARGIN
            self.variance = self.sensitivity**2 / (2 * rho)  # [P2]
            self.factor = max(1, -(-_FINE // steps))
        else:
            noise = GaussianVector(epsilon=spent, delta=delta, square=square, entries=len(moments))
            self.sensitivity, self.variance, self._cost = (
                noise.sensitivity,
                noise.sigma**2,
                noise.cost,
            )
            self.factor = max(1, -(-noise.resolution // steps))

    @property
    def cost(self) -> Cost:
        return self._cost

    def _square(self) -> float:
        """D^2 of one row, in units of the scaled statistic [P1]."""
        layout = self.moments.layout
        numbers, pairs, tables = len(layout.numbers), len(layout.pairs), len(layout.tables)
        one = float(layout.counted + layout.power * numbers + pairs + tables)
        if self.ends == 1:
            return one
        number = 4.0 if layout.power == 1 else SquareImage().lp_sensitivity(2)[0] ** 2
        stays = number * numbers + 4 * pairs + 2 * tables
        leaves = one if self.classes == 1 else 2 * one  # of one group a row can only be left out
        return max(leaves, stays)

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        wide = moves.astype(object) * self.rows
        most = (self.sensitivity * self.resolution) ** 2
        return np.asarray((wide * wide).sum(axis=1) <= most, dtype=bool)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        blocks = [(block.entries, block.values.astype(object)) for block in images]
        level = farthest_level(RoundBody(len(self.moments)), blocks, paired=paired)
        assert level is not None
        return self.rows * level <= self.sensitivity * self.resolution

    @property
    def words(self) -> str:
        return (
            "independent integers, discrete Gaussian with the variance "
            f"{float(self.variance):.12g}, in units of 1/{self.resolution}"
        )

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        shape = (1 if size is None else size, len(self.moments))
        drawn = discrete_gaussians(self.variance * self.resolution**2, shape, source(rng))
        return drawn[0] if size is None else drawn

    def block(self) -> FloatArray:
        return np.eye(self.width) * float(self.variance)

    @property
    def coarsest(self) -> float:
        """The variance in squared steps of the lattice."""
        return float(self.variance * self.resolution**2)

    def _box(self, confidence: float) -> FloatArray:
        entries = len(self.moments)
        half = self.form_reach(np.eye(1, self.width), 1 - confidence ** (1 / entries))
        return np.full(entries, half[0])

    def form_reach(self, forms: FloatArray, miss: float) -> FloatArray:
        multiple = sure_multiple(self.coarsest, self.width, miss)
        return np.asarray(np.sqrt((forms**2).sum(axis=1) * float(self.variance)) * multiple)
