"""Noise for a vector statistic in the shape of one ball around its sensitivity space."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.data.public_rows import Images
from tightdp.data.statistics import Statistic
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    check_choice,
    fail,
)
from tightdp.exact.farthest import farthest_level
from tightdp.exact.lattice_bodies import DiamondBound
from tightdp.exact.lattice_body import roomy
from tightdp.geometry.moment_bodies import MomentBody
from tightdp.geometry.moment_true_hull import MomentHull
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.sensitivity import certify_contains
from tightdp.noise import knorm
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import default_resolution, lattice_body, lattice_noise
from tightdp.noise.ranking import LP_NAMES
from tightdp.privacy import check_epsilon
from tightdp.shaping.reach import (
    PUBLIC_SEED,
    how_many,
    is_whole,
    laplace_reach,
    lattice_excess,
    lattice_radius,
    remembered,
    simultaneous,
    smaller,
    upwards,
)

_COSTLY = (MomentBody, MomentHull)  # thousands of draws would take seconds
_RARE = 1e-3  # share of proposals below which they would, too

_FINE = 8.0  # steps in a standard deviation, from which on sums over a lattice are integrals
_SILENT = 60  # rates at which nothing but zero is drawn: who divides by the variance needs one

SHAPES = ("best", "hull", *LP_NAMES)


class BallNoise:
    """Lattice K-norm noise whose ball is proved to contain the sensitivity space.

    Neighbours move the statistic, in units of 1/resolution, within the ball, r times as far for r
    rows of a person; their integer difference has level at most L, for which the lattice noise is
    epsilon-DP.
    """

    delta = Fraction(0)

    def __init__(self, statistic: Statistic, noise: object, epsilon: Number) -> None:
        self.statistic = statistic
        self.epsilon = check_epsilon(epsilon)
        self._space = statistic.sensitivity_space()
        self.ball = self._shape(noise)
        if isinstance(noise, str) and noise == "hull" and not self._feasible(self.ball):
            fail(
                "`noise` = 'hull' has no exact sampler for this statistic "
                f"({type(self.ball).__name__} in dimension {self.ball.dim}). Use noise='best': the "
                "least noise among the shapes that have one.",
                InfeasibleSamplingError,
            )
        self.bits = statistic.schema.bits
        self.resolution = statistic.resolution(self.bits)
        self.factor = 1
        self.draws = self._lattice(self.ball)
        # found when they are asked for; what is found is the same whoever asks first
        self._pilots: dict[int, FloatArray] = {}
        self._radii: dict[float, float] = {}
        self.draws.check_feasible()
        self.words = (  # the exact law, for people
            f"integers z with weight exp(-{self.draws.rate} * level(z)), levels of "
            f"{self.draws.body!r}, in units of 1/{self.resolution}"
        )

    @property
    def cost(self) -> Cost:
        """What the noise costs in every unit of privacy."""
        return Cost.of(self.epsilon)

    # --- which moves it covers ----------------------------------------------------------------

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the level of r moves at once, r rows of a person, is at most L."""
        return self.draws.covers(moves, self.statistic.schema.rows_per_person)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        return farthest_at_most(self.draws, self.statistic.schema.rows_per_person, images, paired)

    def covers_by_structure(self) -> bool:
        return bool(certify_contains(self.ball, self._space))

    def facts(self) -> list[str]:
        """The body to the last digit, which words leave out."""
        return [self.draws.body.facts()]

    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled statistic.

        That of the integers where it is known, as for counts; else that of the continuous law,
        which on a fine lattice is the same, and on a coarse one that of public draws: 10,000 of
        them tell a variance to two parts in a hundred, less well where next to all of them are 0.
        """
        drawn = self.draws.covariance()
        if drawn is not None:
            return drawn / float(self.resolution) ** 2
        law = knorm.covariance(self._scaled(), float(self.epsilon)).value
        steps = np.sqrt(np.diag(law)) * self.resolution
        if steps[steps > 0].min() > _FINE or self.draws.rate > _SILENT:
            return law
        draws = self._pilot(self.draws, how_many(self.ball.dim, 0.95), self.resolution)
        # an entry that no draw moved moves less often than once in as many draws
        rare = np.diag(np.where((draws != 0).any(axis=0), 0.0, 1 / self.resolution**2))
        return np.asarray(draws.T @ draws + rare) / len(draws)

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths that hold at once for all entries of the linear image of the noise.

        One entry has a closed form. For several, the box around the concentration set, or where
        draws are cheap a box in proportion to the standard deviations, whichever is smaller.
        """
        if self._is_laplace():
            half = np.abs(linear[:, 0]) * laplace_reach(self.draws.rate, confidence)
            return upwards(half / self.resolution, whole=is_whole(linear, self.resolution))
        if self._is_costly():
            return self._boxed(linear, confidence)
        key = (self.words, *self.facts(), self.epsilon, confidence)
        return remembered(key, linear, lambda: self._found(linear, confidence))

    def _is_costly(self) -> bool:
        """Whether thousands of draws would take long."""
        body = self.draws.body
        rare = isinstance(body, DiamondBound) and body.best_share < _RARE
        return rare or isinstance(self.ball, _COSTLY)

    def _is_laplace(self) -> bool:
        """Whether levels are the sizes of one integer."""
        body = self.draws.body
        return body.dim == 1 and body.level(np.array([[1], [2], [5]])).tolist() == [1, 2, 5]

    def _boxed(self, linear: FloatArray, confidence: float) -> FloatArray:
        ball = self._scaled()
        if confidence not in self._radii:
            radius = lattice_radius(ball, self.draws, self.resolution, confidence)
            self._radii[confidence] = radius
        radius = self._radii[confidence]
        return upwards(radius * np.asarray(ball.support(linear)))

    def _found(self, linear: FloatArray, confidence: float) -> FloatArray:
        """The smaller of the box and of one in proportion to the standard deviations."""
        draws, level, cell = self._public_draws(confidence)
        covariance = self.covariance()
        if not np.array_equal(linear, np.eye(len(linear))):  # thousands of cells are as they are
            draws, covariance = draws @ linear.T, linear @ covariance @ linear.T
        spread = np.sqrt(np.diag(covariance))
        simulated = simultaneous(draws, spread, level)
        simulated += cell * np.abs(linear).sum(axis=1)
        half = smaller(simulated, self._boxed(linear, confidence), spread)
        return upwards(half, whole=is_whole(linear, self.resolution))

    def _public_draws(self, confidence: float) -> tuple[FloatArray, float, float]:
        """Scaled draws, the confidence to ask of them, and by how much they may be off.

        On a fine lattice, where integers are long, they come from a coarser one, and the two laws
        are compared through the continuous one (see :func:`lattice_excess`).
        """
        ball, quick = self._scaled(), self._quick()
        size = how_many(ball.dim, confidence)
        if quick is None:
            return self._pilot(self.draws, size, self.resolution), confidence, 0.0
        noise = lattice_noise(ball, self.epsilon, resolution=quick)
        draws = self._pilot(noise, size, quick)
        lattices = [(quick, noise.sensitivity), (self.resolution, self.draws.sensitivity)]
        excess = sum(lattice_excess(ball, float(self.epsilon), *each) for each in lattices)
        return draws, 1 - (1 - confidence) * math.exp(-excess), 1 / quick + 1 / self.resolution

    def _pilot(self, noise: LatticeNoise, size: int, resolution: int) -> FloatArray:
        """The same draws for all who ask for so many."""
        if size not in self._pilots:
            draws = np.asarray(noise.sample(size, rng=PUBLIC_SEED), dtype=np.float64)
            self._pilots[size] = draws / resolution
        return self._pilots[size]

    def _quick(self) -> int | None:
        """A coarser lattice with short integers; None if this one is as quick, or flat."""
        body, radius = lattice_body(self.ball)
        quick = default_resolution(body.rank, self.epsilon, radius)
        return quick if self.resolution > quick and self.ball.rank == self.ball.dim else None

    # --- the shape ----------------------------------------------------------------------------

    def _shape(self, noise: object) -> NormBall:
        space = self._space
        if isinstance(noise, NormBall):
            certificate = certify_contains(noise, space)  # [P1]
            if not certificate:
                fail(
                    "`noise` must be a ball that is proved to contain the sensitivity space. The "
                    f"best bound on the gauge of a difference is {certificate.bound:.6g}: scale "
                    "the ball by it."
                )
            return noise
        name = check_choice("noise", noise, SHAPES)
        if name == "hull":
            return space.hull()
        balls = [space.hull(), *self.statistic.outer_balls()] if name == "best" else []
        named = LP_NAMES if name == "best" else [name]
        balls += [
            LpBall(space.dim, LP_NAMES[n], float(space.sensitivity(p=LP_NAMES[n]))) for n in named
        ]
        found = [ball for ball in balls if self._feasible(ball)]
        if not found:
            fail(
                f"`noise` = {name!r} has no exact sampler for {space.dim} entries. Use "
                "noise='best': the least noise among the shapes that have one.",
                InfeasibleSamplingError,
            )
        return min(found, key=_mean_variance)

    def _feasible(self, ball: NormBall) -> bool:
        try:
            self._lattice(ball).check_feasible()
        except InfeasibleSamplingError:
            return False
        return True

    # --- the lattice --------------------------------------------------------------------------

    def _lattice(self, ball: NormBall) -> LatticeNoise:
        resolution = self.statistic.resolution(self.statistic.schema.bits)
        return lattice_noise(self._per_person(ball), self.epsilon, resolution=resolution)

    def _per_person(self, ball: NormBall) -> NormBall:
        rows = self.statistic.schema.rows_per_person
        return ball.scaled(float(rows)) if rows > 1 else ball

    def _scaled(self) -> NormBall:
        """The ball of the noise: persons and the rounding of L included."""
        rows = self.statistic.schema.rows_per_person
        _, radius = lattice_body(self._per_person(self.ball), self.resolution)
        return self.ball.scaled(rows * self.draws.sensitivity / (float(radius) * self.resolution))


def farthest_at_most(
    noise: LatticeNoise, rows: int, images: Sequence[Images], paired: bool
) -> bool:
    """Whether lattice noise is proved to cover so many of all moves between images."""
    blocks = [(b.entries, roomy(b.values, (1 << 60) // rows) * rows) for b in images]
    level = farthest_level(noise.body, blocks, paired=paired)
    return level is not None and level <= noise.sensitivity


def _mean_variance(ball: NormBall) -> float:
    return float(np.trace(knorm.covariance(ball, 1.0).value))
