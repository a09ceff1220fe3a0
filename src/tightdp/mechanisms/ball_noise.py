"""Noise for a vector statistic in the shape of one ball around its sensitivity space."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.data.statistics import Statistic
from tightdp.errors import FloatArray, InfeasibleSamplingError, check_choice, fail
from tightdp.geometry import orders
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.ranking import LP_NAMES
from tightdp.geometry.sensitivity import certify_contains
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import default_resolution, lattice_body, lattice_noise
from tightdp.noise.rates import check_epsilon

SHAPES = ("best", "hull", *LP_NAMES)


class BallNoise:
    """Lattice K-norm noise whose ball is proved to contain the sensitivity space.

    Neighbours move the statistic, in units of 1/resolution, within the ball, r times as far for r
    rows of a person; their integer difference has level at most L, for which the lattice noise is
    epsilon-DP.
    """

    delta = Fraction(0)

    def __init__(self, statistic: Statistic, noise: Any, epsilon: Any) -> None:
        self.statistic = statistic
        self.epsilon = check_epsilon(epsilon)
        self.ball = self._shape(noise)
        self.bits = statistic.bits_for(self._finest(self.ball))
        self.resolution = statistic.resolution(self.bits)
        self.factor = 1
        self.draws = self._lattice(self.ball)
        self.draws.check_feasible()

    @property
    def words(self) -> str:
        """The exact law, for people."""
        return (
            f"integers z with weight exp(-{self.draws.rate} * level(z)), levels of "
            f"{self.draws.body!r}, in units of 1/{self.resolution}"
        )

    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled statistic."""
        return orders.covariance(self._scaled(), float(self.epsilon)).value

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths of the image of the concentration set: its support along every entry."""
        ball = self._scaled()
        radius = orders.concentration_radius(ball, float(self.epsilon), confidence)
        return radius * np.asarray(ball.support(linear))

    # --- the shape ----------------------------------------------------------------------------

    def _shape(self, noise: Any) -> NormBall:
        space = self.statistic.sensitivity_space()
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
        balls = [space.hull()] if name == "best" else []
        named = LP_NAMES if name == "best" else [name]
        balls += [
            LpBall(space.dim, LP_NAMES[n], float(space.sensitivity(p=LP_NAMES[n]))) for n in named
        ]
        return min((b for b in balls if self._feasible(b)), key=_mean_variance)

    def _feasible(self, ball: NormBall) -> bool:
        try:
            self._lattice(ball).check_feasible()
        except InfeasibleSamplingError:
            return False
        return True

    # --- the lattice --------------------------------------------------------------------------

    def _finest(self, ball: NormBall) -> int:
        body, radius = lattice_body(ball)
        return default_resolution(body.rank, self.epsilon, radius)

    def _lattice(self, ball: NormBall) -> LatticeNoise:
        bits = self.statistic.bits_for(self._finest(ball))
        return lattice_noise(
            self._per_person(ball), self.epsilon, resolution=self.statistic.resolution(bits)
        )

    def _per_person(self, ball: NormBall) -> NormBall:
        rows = self.statistic.schema.rows_per_person
        return ball.scaled(float(rows)) if rows > 1 else ball

    def _scaled(self) -> NormBall:
        """The ball of the noise: persons and the rounding of L included."""
        rows = self.statistic.schema.rows_per_person
        _, radius = lattice_body(self._per_person(self.ball), self.resolution)
        return self.ball.scaled(rows * self.draws.sensitivity / (float(radius) * self.resolution))


def _mean_variance(ball: NormBall) -> float:
    return float(np.trace(orders.covariance(ball, 1.0).value))
