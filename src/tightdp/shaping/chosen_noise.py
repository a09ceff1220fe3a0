"""The noise of a release: what a name, a shape or a law stands for, and which is the best."""

from __future__ import annotations

from contextlib import suppress
from fractions import Fraction
from typing import Any, Protocol

import numpy as np

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.data.statistics import Statistic
from tightdp.design.designs import Design
from tightdp.design.vector_law import VectorDesign
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    ParameterError,
    UndecidedError,
    check_choice,
    fail,
    quoted,
)
from tightdp.geometry.norm_balls import NormBall
from tightdp.noise.law import NoiseLaw
from tightdp.noise.rounded_gaussian import RoundedGaussian
from tightdp.shaping.ball_noise import SHAPES, BallNoise
from tightdp.shaping.coordinate_noise import (
    FAMILIES,
    LOSSY,
    PURE,
    CoordinateNoise,
    check_share,
)
from tightdp.shaping.coverage import Covering
from tightdp.shaping.gaussian_noise import GAUSSIANS, gaussian_noise, given_gaussian
from tightdp.shaping.l2_noise import L2Noise
from tightdp.shaping.vector_noise import VectorNoise

NAMES = tuple(dict.fromkeys([*SHAPES, *FAMILIES, *GAUSSIANS]))
SPENDING = ("best", "l2", *LOSSY, "designed", *GAUSSIANS)
"""Names that can make use of a delta."""
SPARING = (*SHAPES, *PURE)
"""Names that need none."""

_WORTH = 0.99
_FEW = 2  # entries that a row moves, up to which laws for single entries may be the best
_EQUAL = 1 - 1e-6  # a delta must buy more than that


class PreparedNoise(Covering, Protocol):
    """Noise made for one statistic: its law, its price and its lattice."""

    epsilon: Fraction
    delta: Fraction
    bits: int
    factor: int
    """How much finer the lattice of the noise is than that of the statistic."""

    @property
    def cost(self) -> Cost: ...
    @property
    def resolution(self) -> int: ...
    @property
    def draws(self) -> Any: ...
    @property
    def words(self) -> str: ...

    def covariance(self) -> FloatArray: ...
    def reach(self, linear: FloatArray, confidence: float) -> FloatArray: ...


def choose_noise(
    statistic: Statistic,
    noise: object,
    epsilon: Number | None,
    delta: Number,
    rho: Number | None = None,
) -> PreparedNoise:
    """A ball or a Gaussian for the whole vector, or laws for every entry or all at once."""
    if isinstance(noise, str) and noise in GAUSSIANS:
        return gaussian_noise(statistic, noise, epsilon, delta, rho)
    if rho is not None:
        fail(f"`rho` is a budget for noise of the names {quoted(GAUSSIANS)}: leave it out.")
    if isinstance(noise, RoundedGaussian):
        return given_gaussian(statistic, noise, epsilon, delta)
    if isinstance(noise, VectorDesign):
        return VectorNoise(statistic, noise, epsilon, delta)
    if isinstance(noise, (NoiseLaw, Design)) or (isinstance(noise, str) and noise in FAMILIES):
        return CoordinateNoise(statistic, noise, epsilon, delta)
    if not isinstance(noise, NormBall):
        check_choice("noise", noise, NAMES)
    if epsilon is None:
        fail("`epsilon` must be given: it is how much privacy the release spends.")
    lost = check_share(delta)
    if isinstance(noise, str) and noise == "l2" and lost:
        return L2Noise(statistic, epsilon, delta)
    if isinstance(noise, str) and noise == "best":
        return _best(statistic, epsilon, lost)
    if lost:
        fail(
            "`delta` must be 0 for noise shaped like this ball, which spends none. Leave it out, "
            f"or choose one of {', '.join(map(repr, SPENDING))}."
        )
    return BallNoise(statistic, noise, epsilon)


def _best(statistic: Statistic, epsilon: Number, delta: Fraction) -> PreparedNoise:
    """The noise with the least predicted variance; shapes of delta = 0 always take part."""
    ball = BallNoise(statistic, "best", epsilon)
    best = _least(ball, _laws(statistic, ball.epsilon))
    if not delta:
        return best
    least = float(np.trace(best.covariance()))
    for noise in _spending(statistic, ball.epsilon, delta):
        found = float(np.trace(noise.covariance()))
        if found < _EQUAL * least:
            best, least = noise, found
    return best


def _spending(statistic: Statistic, epsilon: Fraction, delta: Fraction) -> list[PreparedNoise]:
    """What a delta may buy."""
    found: list[PreparedNoise] = [
        gaussian_noise(statistic, name, epsilon, delta) for name in GAUSSIANS
    ]
    with suppress(InfeasibleSamplingError, UndecidedError):  # too long, or delta gains nothing
        found.append(L2Noise(statistic, epsilon, delta))
    for name in LOSSY if _shares(statistic) <= _FEW else ():
        with suppress(ParameterError):  # a share beyond what the law takes
            found.append(CoordinateNoise(statistic, name, epsilon, delta))
    return found


def _shares(statistic: Statistic) -> int:
    """How many entries one person moves, at most."""
    return min(len(statistic), statistic.touched() * statistic.schema.rows_per_person)


def _laws(statistic: Statistic, epsilon: Fraction) -> list[CoordinateNoise]:
    """Laws for every entry that may have less noise than a ball, and cost no delta.

    Independent geometric noise is that of the l1 ball. What can be less is a staircase, and it is
    from an epsilon of about 1 for each entry that a row moves; one entry is always worth a try.
    """
    shares = _shares(statistic)
    if shares > 1 and epsilon < shares:
        return []
    return [CoordinateNoise(statistic, "staircase", epsilon, 0)]


def _least(ball: BallNoise, laws: list[CoordinateNoise]) -> PreparedNoise:
    """The noise with the least predicted variance; laws must gain a percent to be taken.

    Of several entries some may be far out where each alone seldom is: their law must not have the
    wider intervals, either.
    """
    for law in laws:
        if np.trace(law.covariance()) < _WORTH * np.trace(ball.covariance()):
            whole = np.eye(len(law.laws))
            widths = [np.mean(noise.reach(whole, 0.95)) for noise in (law, ball)]
            if len(law.laws) == 1 or widths[0] <= widths[1]:
                return law
    return ball
