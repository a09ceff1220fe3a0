"""Noise for a vector statistic in the shape of one ball around its sensitivity space."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.public_rows import Images
from tightdp.data.statistics import Statistic
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    ParameterError,
    check_choice,
    fail,
)
from tightdp.geometry import orders
from tightdp.geometry.moment_bodies import MomentBody
from tightdp.geometry.moment_true_hull import MomentHull
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.ranking import LP_NAMES
from tightdp.geometry.sensitivity import certify_contains
from tightdp.noise.farthest import farthest_level
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.lattice_points import roomy
from tightdp.noise.on_lattice import default_resolution, lattice_body, lattice_noise
from tightdp.noise.rates import check_epsilon

_COSTLY = (MomentBody, MomentHull)  # thousands of draws would take seconds
_DRAWS = 10_000
_ENTRIES = 300_000  # of all draws together: long vectors would take minutes
_FOUND: dict[tuple[Any, ...], FloatArray] = {}  # half-widths, which equal public facts share
_REMEMBERED = 64
_PUBLIC_SEED = 20_000  # for error bars only; it never touches a release
_RISK = 1e-6

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
        self._space = statistic.sensitivity_space()
        self.ball = self._shape(noise)
        if isinstance(noise, str) and noise == "hull" and not self._feasible(self.ball):
            fail(
                "`noise` = 'hull' has no exact sampler for this statistic "
                f"({type(self.ball).__name__} in dimension {self.ball.dim}). Use noise='best': the "
                "least noise among the shapes that have one.",
                InfeasibleSamplingError,
            )
        self.bits = statistic.bits_for(self._finest(self.ball))
        self.resolution = statistic.resolution(self.bits)
        self.factor = 1
        self.draws = self._lattice(self.ball)
        self.draws.check_feasible()

    # --- which moves it covers ----------------------------------------------------------------

    def covers(self, moves: NDArray[Any]) -> NDArray[np.bool_]:
        """Whether the level of r moves at once, r rows of a person, is at most L."""
        return levels_at_most(self.draws, self.statistic.schema.rows_per_person, moves)

    def covers_all(self, images: Sequence[Images], paired: bool) -> bool:
        return farthest_at_most(self.draws, self.statistic.schema.rows_per_person, images, paired)

    def covers_by_structure(self) -> bool:
        return bool(certify_contains(self.ball, self._space))

    @property
    def words(self) -> str:
        """The exact law, for people."""
        return (
            f"integers z with weight exp(-{self.draws.rate} * level(z)), levels of "
            f"{self.draws.body!r}, in units of 1/{self.resolution}"
        )

    def facts(self) -> list[str]:
        """The body to the last digit, which words leave out."""
        return [self.draws.body.facts()]

    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled statistic.

        That of the integers where it is known, as for counts; else that of the continuous law,
        which on a fine lattice is the same.
        """
        drawn = self.draws.covariance()
        if drawn is not None:
            return drawn / float(self.resolution) ** 2
        return orders.covariance(self._scaled(), float(self.epsilon)).value

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths that hold at once for all entries of the linear image of the noise.

        The box around the concentration set always does. Where draws are cheap, a box in
        proportion to the standard deviations is found by simulation from public facts, and the
        smaller of the two is taken.
        """
        ball = self._scaled()
        radius = orders.concentration_radius(ball, float(self.epsilon), confidence)
        box = radius * np.asarray(ball.support(linear))
        if ball.dim == 1 or isinstance(self.ball, _COSTLY):
            return box
        image = hashlib.sha256(linear.tobytes()).digest()
        key = (self.words, *self.facts(), self.epsilon, linear.shape, image, confidence)
        if key not in _FOUND:
            while len(_FOUND) >= _REMEMBERED:
                _FOUND.pop(next(iter(_FOUND)))
            _FOUND[key] = self._simulated(linear, confidence, box)
        return _FOUND[key].copy()

    def _simulated(self, linear: FloatArray, confidence: float, box: FloatArray) -> FloatArray:
        """The smaller of the box and of one in proportion to the standard deviations."""
        ball = self._scaled()
        count = min(_DRAWS, max(_ENTRIES // ball.dim, _needed(confidence)))
        draws = np.asarray(self.draws.sample(count, rng=_PUBLIC_SEED), dtype=np.float64)
        spread = np.sqrt(np.diag(linear @ self.covariance() @ linear.T))
        simulated = simultaneous(draws / self.resolution @ linear.T, spread, confidence)
        noised = spread > 0  # entries have units of their own: compare in standard deviations
        better = np.mean(simulated[noised] / spread[noised]) < np.mean(box[noised] / spread[noised])
        return simulated if better else box

    # --- the shape ----------------------------------------------------------------------------

    def _shape(self, noise: Any) -> NormBall:
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


def levels_at_most(noise: LatticeNoise, rows: int, moves: NDArray[Any]) -> NDArray[np.bool_]:
    """Whether lattice noise was made for ``rows`` of each move at once."""
    wide = roomy(moves, (1 << 61) // rows) * rows
    try:
        return np.asarray(noise.body.level(wide) <= noise.sensitivity, dtype=bool)
    except ParameterError:  # some move leaves the span of a flat body
        if len(moves) == 1:
            return np.zeros(1, dtype=bool)
        return np.concatenate([levels_at_most(noise, rows, move[None, :]) for move in moves])


def farthest_at_most(
    noise: LatticeNoise, rows: int, images: Sequence[Images], paired: bool
) -> bool:
    """Whether that is proved for all moves between combinations of images."""
    blocks = [(b.entries, roomy(b.values, (1 << 60) // rows) * rows) for b in images]
    level = farthest_level(noise.body, blocks, paired=paired)
    return level is not None and level <= noise.sensitivity


def _needed(confidence: float) -> int:
    """Draws with which :func:`simultaneous` has something to choose from."""
    return math.ceil(1.2 * math.log(_RISK) / math.log(confidence))


def simultaneous(errors: FloatArray, spread: FloatArray, confidence: float) -> FloatArray:
    r"""The smallest multiple of ``spread`` that all entries stay within at once.

    The k-th smallest of N draws of :math:`\max_j |e_j|/s_j` is at least its quantile except with
    probability P(Binomial(N, confidence) >= k), and k is taken so large that this is below 1e-6.
    """
    from scipy.special import bdtrc

    worst = np.sort((np.abs(errors) / np.where(spread > 0, spread, 1.0)).max(axis=1))
    missed = bdtrc(np.arange(len(worst)), len(worst), confidence)  # P(Binomial > k - 1), k = 1..N
    enough = np.flatnonzero(missed <= _RISK)
    return float(worst[enough[0]]) * spread if len(enough) else np.full_like(spread, np.inf)


def _mean_variance(ball: NormBall) -> float:
    return float(np.trace(orders.covariance(ball, 1.0).value))
