"""Which noise the moments of a regression get: in one body or in parts, where it harms least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.data.regression_moments import MOMENT_KINDS, RegressionMoments, measured
from tightdp.errors import FloatArray, InfeasibleSamplingError, check_choice, fail
from tightdp.geometry import orders
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.ranking import LP_NAMES
from tightdp.geometry.sensitivity import SensitivitySpace, certify_contains
from tightdp.noise.on_lattice import lattice_body
from tightdp.schema import Interval, Schema

NOISES = ("best", "split", "hull", *LP_NAMES)

# Public guesses that only steer where the noise goes, never how much privacy there is: squared
# length of the scaled coefficients, squared distance of the target's mean from the middle of its
# bounds, and how well the mean square of the target must be known.
LENGTH = 1 / 8
_LEVEL = 1 / 24
_SQUARE_ERROR = 0.004
_SQUARE_SHARES = (0.01, 0.03)


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Consecutive entries of a statistic, the body of their changes and a share of epsilon."""

    name: str
    ball: NormBall
    share: Fraction


@dataclass(frozen=True, slots=True)
class MomentNoise:
    """The moments of a regression, and the bodies of their noise with their shares of epsilon."""

    moments: RegressionMoments
    parts: tuple[Part, ...]

    def predicted_error(self) -> float:
        """Of the coefficients, for the public guesses; up to a factor that epsilon decides."""
        variance = [np.full(part.ball.dim, 0.0) for part in self.parts]
        for place, part in enumerate(self.parts):
            covariance = orders.covariance(part.ball, float(part.share)).value
            variance[place] = np.diag(covariance)
        return sum(_effects(self.moments, np.concatenate(variance)))


def choose_noise(
    schema: Schema,
    features: Sequence[str],
    target: str,
    noise: object,
    epsilon: Fraction,
    *,
    square: bool,
) -> MomentNoise:
    """The asked noise; "best" has the least predicted error of the coefficients.

    ``square``: whether the square of the target is released, too.
    """
    if not isinstance(noise, NormBall):
        check_choice("noise", noise, NOISES)
    share = 1 - _square_share(schema.rows, epsilon) if square else Fraction(1)

    def moments(*, joint: bool) -> RegressionMoments:
        return RegressionMoments(schema, features, target, joint=joint, square=square)

    if not schema.rows_known:  # they are counted, beside the moments of the features
        if isinstance(noise, NormBall) or noise not in ("best", "split"):
            fail("`noise` must be 'best' or 'split' where the number of rows is private.")
        return _split(moments(joint=False), share)
    if isinstance(noise, NormBall) or noise in LP_NAMES:
        return _joint(moments(joint=True), noise, share)
    options = []
    if noise in ("best", "split"):
        options.append(_split(moments(joint=False), share))
    if noise in ("best", "hull"):
        options.append(_joint(moments(joint=True), "hull", share))
    return min(options, key=MomentNoise.predicted_error)


def _split(moments: RegressionMoments, rest: Fraction) -> MomentNoise:
    """Shares that minimise v_T / s^2 + v_F / (1 - s)^2, the predicted error."""
    balls = {part: _feasible(moments, part) for part in moments.parts}
    each = [np.diag(orders.covariance(ball, 1.0).value) for ball in balls.values()]
    target, features = _effects(moments, np.concatenate(each))
    odds = (target / features) ** (1 / 3)
    share = Fraction(round(1000 * odds / (1 + odds)), 1000)
    shares = {"target": rest * share, "features": rest * (1 - share), "square": 1 - rest}
    return MomentNoise(moments, tuple(Part(p, ball, shares[p]) for p, ball in balls.items()))


def _feasible(moments: RegressionMoments, part: str) -> NormBall:
    """The smallest body of a part that exact noise can be drawn from, measured."""
    for kind in MOMENT_KINDS:
        ball = moments.ball(part, kind)
        try:
            lattice_body(ball)[0].check_feasible()
        except InfeasibleSamplingError:
            continue
        return measured(ball)
    fail("There are too many columns for exact noise: use fewer.", InfeasibleSamplingError)


def _joint(moments: RegressionMoments, noise: object, share: Fraction) -> MomentNoise:
    """One body for all moments but the square of the target."""
    ball = _feasible(moments, "moments") if noise == "hull" else _named_ball(moments, noise)
    parts = [Part("moments", ball, share)]
    if share < 1:
        parts.append(Part("square", moments.ball("square"), 1 - share))
    return MomentNoise(moments, tuple(parts))


def _named_ball(moments: RegressionMoments, noise: Any) -> NormBall:
    """An l_p ball with the exact sensitivity, or a ball of the user's that is proved to do."""
    if not all(isinstance(moments.schema[name], Interval) for name in moments.features):
        fail("With categories `noise` must be 'best', 'split' or 'hull'.")
    space = SensitivitySpace.moments(len(moments.features))
    if isinstance(noise, NormBall):
        certificate = certify_contains(noise, space)
        if not certificate:
            fail(
                "`noise` must be a ball that is proved to contain the sensitivity space. The best "
                f"bound on the gauge of a difference is {certificate.bound:.12g}: scale the ball."
            )
        return noise
    p = LP_NAMES[noise]
    return LpBall(space.dim, p, float(space.sensitivity(p=p)))


def _square_share(rows: int, epsilon: Fraction) -> Fraction:
    """So much that the mean square of the scaled target has a noise of about ``_SQUARE_ERROR``."""
    wanted = float(np.sqrt(2) / (_SQUARE_ERROR * rows * float(epsilon)))
    return Fraction(round(1000 * float(np.clip(wanted, *_SQUARE_SHARES))), 1000)


def _effects(moments: RegressionMoments, variance: FloatArray) -> tuple[float, float]:
    """What noise on the moments with the target, and on the others, does to the covariances g.

    They are those of x y, less those of x times the mean of the target, less those of the features'
    covariances times the coefficients.
    """
    i, j, factor = moments.entries.T
    each, y = variance / factor**2, moments.outcome
    with_target, features, sums = (j == y) & (i < y), j < y, (j < y) & (i == 0)
    on_features = LENGTH * float(each[features].mean()) + _LEVEL * float(each[sums].mean())
    return float(each[with_target].mean()), on_features
