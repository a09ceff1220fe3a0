"""Entries of a matrix of products that get nuclear noise together."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tightdp.errors import FloatArray
from tightdp.geometry import orders
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.geometry.nuclear_ball import NuclearBall
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.nuclear import Entry, NuclearNoise, matrices_like
from tightdp.randomness import RandomSource, SeededSource
from tightdp.shaping.moment_noise import Part
from tightdp.shaping.reach import simultaneous

_DRAWS = 4_000  # of matrices, for simultaneous half-widths


@dataclass(frozen=True, slots=True, eq=False)
class NuclearPart(Part):
    """Entries (i, j, factor) of a symmetric matrix whose changes D have |SDS| <= ``reach``.

    ``ball`` has size, weights and, in floats, the reach as its radius.
    """

    ball: NuclearBall
    reach: Fraction
    entries: tuple[Entry, ...]
    binary: tuple[int, ...] = ()

    @property
    def dim(self) -> int:
        return len(self.entries)

    def noise(self, epsilon: Fraction, resolution: int) -> NuclearNoise:
        scaled = (epsilon * self.share, self.reach * resolution)
        return NuclearNoise(self.ball, *scaled, self.entries, self.binary)

    def _unit(self, epsilon: Fraction) -> NuclearNoise:
        """The noise on the scaled entries, without a lattice."""
        return self.noise(epsilon, 1)

    def covariance(self, epsilon: Fraction) -> FloatArray:
        return self._unit(epsilon).covariance() - np.eye(self.dim) / 12

    def half_widths(
        self, noise: LatticeNoise | NuclearNoise, resolution: int, confidence: float
    ) -> FloatArray:
        assert isinstance(noise, NuclearNoise)
        std = np.sqrt(np.diag(noise.covariance()))
        return (matrix_reach(self.ball.size, confidence) * std + 0.5) / resolution

    def simulate(self, epsilon: Fraction, size: int, rng: RandomSource) -> FloatArray:
        return self._unit(epsilon).simulate(size, rng)

    def law(self, noise: LatticeNoise | NuclearNoise) -> str:
        assert isinstance(noise, NuclearNoise)
        return f"{self.name}: {noise.words}"

    def facts(self, noise: LatticeNoise | NuclearNoise) -> str:
        assert isinstance(noise, NuclearNoise)
        return noise.facts()

    @property
    def shape(self) -> str:
        return f"nuclear ball of {self.ball.size} x {self.ball.size} matrices"


@lru_cache(maxsize=64)
def matrix_reach(size: int, confidence: float) -> float:
    """How many standard deviations all entries of nuclear noise are within at once.

    Simulated; at levels beyond what draws can tell, by the norm, a Gamma variable, which no entry
    exceeds.
    """
    draws = matrices_like(size, _DRAWS, SeededSource(MEASURING_SEED))
    ball = NuclearBall(size)
    std = np.sqrt((ball.dim + 1) * (ball.dim + 2) * np.diag(ball.second_moment.value))
    norm = orders.concentration_radius(ball, 1.0, confidence)
    by_norm = norm * float((ball.bounding_box() / std).max())
    return min(by_norm, float((simultaneous(draws, std, confidence) / std).max()))
