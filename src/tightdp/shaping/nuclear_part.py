"""Entries of a matrix of products that get nuclear noise together."""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import FloatArray, fail
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.geometry.nuclear_ball import NuclearBall, entry_moments
from tightdp.geometry.nuclear_spectrum import replaced_spectrum, spectrum
from tightdp.noise import knorm
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.nuclear import Entry, NuclearNoise, matrices_like
from tightdp.randomness import RandomSource, SeededSource
from tightdp.shaping.moment_noise import Part
from tightdp.shaping.reach import simultaneous

_DRAWS = 4_000  # of matrices, for simultaneous half-widths


@dataclass(frozen=True, slots=True, eq=False)
class NuclearPart(Part):
    """Entries (i, j, factor) of a symmetric matrix whose changes D have |SDS| <= ``reach``.

    ``ball`` has size, weights and, in floats, the reach as its radius. With ``replaced`` the size
    of the trace is added to the norm (:class:`~tightdp.NuclearNoise`).
    """

    ball: NuclearBall
    reach: Fraction
    entries: tuple[Entry, ...]
    binary: tuple[int, ...] = ()
    replaced: bool = False

    @property
    def dim(self) -> int:
        return len(self.entries)

    def noise(self, epsilon: Fraction, resolution: int, persons: int = 1) -> NuclearNoise:
        scaled = (epsilon * self.share, self.reach * resolution * persons)
        return NuclearNoise(self.ball, *scaled, self.entries, self.binary, replaced=self.replaced)

    def _unit(self, epsilon: Fraction) -> NuclearNoise:
        """The noise on the scaled entries, without a lattice."""
        return self.noise(epsilon, 1)

    def covariance(self, epsilon: Fraction) -> FloatArray:
        return self._unit(epsilon).covariance() - np.eye(self.dim) / 12

    def variances(self, epsilon: Fraction) -> FloatArray:
        return np.diag(self.covariance(epsilon))

    def half_widths(
        self,
        noise: LatticeNoise | NuclearNoise,
        resolution: int,
        confidence: float,
        persons: int = 1,
    ) -> FloatArray:
        assert isinstance(noise, NuclearNoise)
        std = np.sqrt(np.diag(noise.covariance()))
        return (matrix_reach(self.ball.size, confidence, self.replaced) * std + 0.5) / resolution

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
        kind = "nuclear ball"
        if self.replaced:
            kind = "ball of the traces of positive and negative parts"
        return f"{kind} of {self.ball.size} x {self.ball.size} matrices"


@lru_cache(maxsize=64)
def matrix_reach(size: int, confidence: float, replaced: bool = False) -> float:
    """How many standard deviations all entries of nuclear noise are within at once.

    Simulated; at levels beyond what draws can tell, by the norm, a Gamma variable, which no entry
    exceeds.
    """
    draws = matrices_like(size, _DRAWS, SeededSource(MEASURING_SEED), replaced=replaced)
    ball, known = NuclearBall(size), replaced_spectrum if replaced else spectrum
    std = np.sqrt(np.diag(entry_moments(size, known(size))))
    norm = knorm.concentration_radius(ball, 1.0, confidence)
    by_norm = norm * float((ball.bounding_box() / std).max())
    return min(by_norm, float((simultaneous(draws, std, confidence) / std).max()))


def regression_part(
    name: str, moments: RegressionMoments, weight: float | None, share: Fraction = Fraction(1)
) -> NuclearPart:
    r"""Nuclear noise for all moments of a regression, or for those of the features alone.

    ``weight`` is that of the target, beside 1 for the other columns; None leaves the target out.
    With S the weights, a row z has :math:`|Sz|^2 \le R`: 1 for the constant and for every numeric
    feature, at most 1 for all indicators of a category, the square of the weight for the target.
    Replaced, it moves the sums by z z' - w w', of norm at most 2 R
    (:class:`~tightdp.NuclearBall`). Entries that are not released do not move (the constant,
    products of indicators that exclude each other), or are told by others (their squares).
    """
    if not moments.schema.rows_known or (weight is not None and not moments.square):
        fail("Nuclear noise needs replaced rows of a public number, and the target's square.")
    size = moments.outcome if weight is None else moments.outcome + 1
    weights, squares = np.ones(size), Fraction(1 + len(moments.features))
    if weight is not None:
        weights[-1] = weight
        squares += Fraction(float(weight)) ** 2
    where = slice(None) if weight is not None else moments.where("features")
    entries = tuple((int(i), int(j), int(f)) for i, j, f in moments.entries[where])
    squared = {i for i, j, _ in entries if i == j}
    binary = tuple(place for place in range(1, moments.outcome) if place not in squared)
    ball = NuclearBall(size, float(2 * squares), weights)
    return NuclearPart(name, ball, share, 2 * squares, entries, binary)
