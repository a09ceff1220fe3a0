"""Which noise the moments of a regression get: in one body or in parts, where it harms least."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from typing import TYPE_CHECKING, Any

import numpy as np

from tightdp.data.regression_moments import (
    MOMENT_KINDS,
    FeatureMoments,
    RegressionMoments,
    measured,
)
from tightdp.errors import FloatArray, InfeasibleSamplingError, check_choice, fail
from tightdp.geometry.combine import Product, Scaled
from tightdp.geometry.moment_bodies import MomentBody
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.nuclear_ball import MOST_SIZE
from tightdp.geometry.sensitivity import SensitivitySpace, certify_contains
from tightdp.noise import knorm
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import lattice_body, lattice_noise
from tightdp.noise.ranking import LP_NAMES
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema
from tightdp.shaping.reach import lattice_radius

if TYPE_CHECKING:
    from tightdp.noise.nuclear import NuclearNoise

NOISES = ("best", "split", "hull", *LP_NAMES)

# Public guesses that only steer where the noise goes, never how much privacy there is: squared
# length of the scaled coefficients, squared distance of the target's mean from the middle of its
# bounds, and how well the mean square of the target must be known. Of the noise of the features'
# products, which the coefficients multiply, the solver takes about half away again: correlations
# are shrunk towards each other.
LENGTH = 1 / 8
_FELT = LENGTH / 2
_LEVEL = 1 / 24
_SQUARE_ERROR = 0.004
_SQUARE_SHARES = (0.01, 0.03)
_FEWEST = 4  # features: with fewer the other bodies are smaller than nuclear balls
_MANY = 8  # features: one nuclear ball for all is better than parts
_MOST_COMPARED = 40  # rows of matrices
_MOST_SHAPED = 32  # features: beyond, 0.96 of the box's energy is not worth the simulations


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """Consecutive entries of a statistic, the body of their changes and a share of epsilon."""

    name: str
    ball: NormBall
    share: Fraction

    @property
    def dim(self) -> int:
        """Number of entries."""
        return self.ball.dim

    def noise(
        self, epsilon: Fraction, resolution: int, persons: int = 1
    ) -> LatticeNoise | NuclearNoise:
        """The integer noise of the part, for a release that spends epsilon in all.

        ``persons`` is how many rows one person has: together they move so many times as far.
        """
        spent = epsilon * self.share
        row = lattice_noise(self.ball, spent, resolution=resolution)
        return row if persons == 1 else LatticeNoise(row.body, spent, persons * row.sensitivity)

    def covariance(self, epsilon: Fraction) -> FloatArray:
        """Covariance of the noise on the scaled entries."""
        return knorm.covariance(self.ball, float(epsilon * self.share)).value

    def variances(self, epsilon: Fraction) -> FloatArray:
        """Its diagonal: of many entries, which are not correlated, all that is kept."""
        return knorm.variances(self.ball, float(epsilon * self.share))

    def half_widths(
        self,
        noise: LatticeNoise | NuclearNoise,
        resolution: int,
        confidence: float,
        persons: int = 1,
    ) -> FloatArray:
        """What all entries of the noise are within at once, scaled."""
        assert isinstance(noise, LatticeNoise)
        ball = self.ball if persons == 1 else self.ball.scaled(float(persons))
        return lattice_radius(ball, noise, resolution, confidence) * ball.bounding_box()

    def simulate(self, epsilon: Fraction, size: int, rng: RandomSource) -> FloatArray:
        """Noise of the same law on the scaled entries, for simulations.

        The lattice of the release is so fine beside the noise that the continuous law serves.
        """
        return knorm.KNormNoise(self.ball, float(epsilon * self.share)).sample(size, rng=rng)

    def law(self, noise: LatticeNoise | NuclearNoise) -> str:
        """The law of the integers, in words."""
        assert isinstance(noise, LatticeNoise)
        return f"{self.name}: weight exp(-{noise.rate} * level(z)), levels of {noise.body!r}"

    def facts(self, noise: LatticeNoise | NuclearNoise) -> str:
        """The noise to the last digit, for fingerprints."""
        assert isinstance(noise, LatticeNoise)
        return noise.body.facts()

    @property
    def shape(self) -> str:
        """The body, in a word or two."""
        return shape_of(self.ball)


def shape_of(ball: NormBall) -> str:
    """A ball in a word or two, for people.

    >>> shape_of(LpBall(3, np.inf))
    'cube'
    """
    if isinstance(ball, Scaled):
        return shape_of(ball.ball)
    if isinstance(ball, MomentBody):
        return f"{ball.kind} body"
    if isinstance(ball, LpBall):
        return "cube" if ball.p == np.inf or ball.dim == 1 else f"l{ball.p:g} ball"
    if isinstance(ball, Product):
        kinds = sorted({shape_of(part) for part in ball.balls})
        return kinds[0] if kinds == ["cube"] else f"product of {' and '.join(kinds)}"
    return repr(ball)


@dataclass(frozen=True, slots=True)
class MomentNoise:
    """The moments of a regression, and the bodies of their noise with their shares of epsilon."""

    moments: RegressionMoments
    parts: tuple[Part, ...]

    def predicted_error(self) -> float:
        """Of the coefficients, for the public guesses; up to a factor that epsilon decides."""
        return sum(_effects(self.moments, self.variances()))

    def typical_error(self) -> float:
        """The same by the median size of the noise instead of its root mean square.

        Noise of few entries is large now and then, and otherwise smaller than its variance says: on
        d entries it is a uniform point of the ball times a radius with a gamma law of shape d + 1,
        whose median is about d + 2/3.
        """
        typical = [(part.dim + 2 / 3) ** 2 / (part.dim + 1) / (part.dim + 2) for part in self.parts]
        each = [part.variances(Fraction(1)) for part in self.parts]
        found = np.concatenate([v * share for v, share in zip(each, typical, strict=True)])
        return sum(_effects(self.moments, found))

    def variances(self) -> FloatArray:
        """Of all entries, at epsilon = 1."""
        return np.concatenate([part.variances(Fraction(1)) for part in self.parts])

    @property
    def shapes(self) -> str:
        """Which bodies were taken."""
        return "; ".join(f"{part.name}: {part.shape}" for part in self.parts if part.dim > 1)

    @property
    def words(self) -> str:
        """Which bodies were taken, and what they cost beside the cube and the best body known."""
        bodies = self.shapes
        if not self.moments.schema.rows_known:
            return bodies  # all of them in one body, the cube, is for a public number of rows
        roles = (self.moments.schema, self.moments.features, self.moments.target)
        moments = RegressionMoments(*roles, joint=True)
        own, cube = self.predicted_error(), _cube(moments).predicted_error()
        text = f"{bodies}; {own / cube:.2f} of the error variance of the cube's noise"
        size = moments.outcome + 1
        if MOST_SIZE < size <= _MOST_COMPARED:
            best = _nuclear(moments).predicted_error()
            text += f" ({best / cube:.2f} with nuclear noise, not drawn beyond {MOST_SIZE} rows)"
        return text


def choose_noise(
    schema: Schema,
    features: Sequence[str],
    target: str,
    noise: object,
    epsilon: Fraction,
    *,
    square: bool,
) -> MomentNoise:
    """The asked noise; "best" has the least typical error of the coefficients that is predicted.

    ``square``: whether the square of the target is released, too.
    """
    if not isinstance(noise, NormBall):
        check_choice("noise", noise, NOISES)
    share = 1 - _square_share(schema.rows, epsilon) if square else Fraction(1)

    def moments(*, joint: bool, square: bool = square) -> RegressionMoments:
        return RegressionMoments(schema, features, target, joint=joint, square=square)

    if not schema.rows_known:  # they are counted, beside the moments of the features
        if isinstance(noise, NormBall) or noise not in ("best", "split"):
            fail("`noise` must be 'best' or 'split' where the number of rows is private.")
        return _splits(moments(joint=False), share, every=True)[0]
    if isinstance(noise, NormBall) or noise in LP_NAMES:
        return _joint(moments(joint=True), noise, share)
    options = []
    if noise in ("best", "split"):
        options += _splits(moments(joint=False), share, every=noise == "split")
    if noise in ("best", "hull"):
        if _nuclear_fits(moments(joint=True), 1):
            # the square of the target is one of the entries that move: it comes for nothing
            options.append(_nuclear(moments(joint=True, square=True)))
        if len(features) < _MANY or not options:
            options.append(_joint(moments(joint=True), "hull", share))
    return min(options, key=MomentNoise.typical_error)


def feature_noise(schema: Schema, features: Sequence[str], target: str) -> MomentNoise:
    """The noise of the features' moments alone: the smallest exact body there is."""
    moments, whole = FeatureMoments(schema, features, target), Fraction(1)
    options = [MomentNoise(moments, (Part("features", _feasible(moments, "features"), whole),))]
    if _nuclear_fits(moments, 0):
        part = _nuclear_part("features", moments, None)
        options.append(MomentNoise(moments, (part,)))
    return min(options, key=lambda noise: float(noise.variances().mean()))


def _cube(moments: RegressionMoments) -> MomentNoise:
    """The cube of the papers, for comparison: all entries in one box."""
    i, j, factor = moments.entries.T
    sides = np.where(i == j, 1.0, 2.0) * factor
    return MomentNoise(moments, (Part("moments", LpBall(len(sides), np.inf, sides), Fraction(1)),))


def _nuclear(moments: RegressionMoments) -> MomentNoise:
    """One nuclear ball for everything, the square of the target included.

    A weight w on the target makes the norm of a row R + w^2 and the noise of its moments 1 / w
    times as large: :math:`(R + w^2)^2 (1/w^2 + c)`, the predicted error, c from the public guesses,
    is least at the solution of :math:`2 c w^4 + w^2 = R`.
    """
    rest = 1 + len(moments.features)
    c = _FELT + _LEVEL
    weight = round(64 * np.sqrt((np.sqrt(1 + 8 * c * rest) - 1) / (4 * c))) / 64
    part = _nuclear_part("moments", moments, weight)
    return MomentNoise(moments, (part,))


def _nuclear_fits(moments: RegressionMoments, target: int) -> bool:
    """Whether nuclear noise can be drawn, and is worth a try; with the target or without it.

    It is made for rows that are replaced, of a public number: counts of rows, and squares that are
    less by one for every row, are none of its entries.
    """
    enough = len(moments.features) >= _FEWEST and moments.outcome + target <= MOST_SIZE
    return enough and moments.schema.rows_known


def _nuclear_part(name: str, moments: RegressionMoments, weight: float | None) -> Part:
    from tightdp.shaping.nuclear_part import regression_part  # which knows parts

    return regression_part(name, moments, weight)


def _splits(moments: RegressionMoments, rest: Fraction, *, every: bool) -> list[MomentNoise]:
    """Parts of their own for the target and the features, these in two shapes.

    Many features, where one nuclear ball for everything is better, are only split if asked.
    """
    if not every and len(moments.features) >= _MANY and _nuclear_fits(moments, 1):
        return []
    whole = Fraction(1)
    parts = {name: Part(name, _feasible(moments, name), whole) for name in moments.parts}
    out = [_shared(moments, parts, rest)]
    if _nuclear_fits(moments, 0):
        own = _nuclear_part("features", moments, None)
        out.append(_shared(moments, {**parts, "features": own}, rest))
    return out


def _shared(moments: RegressionMoments, parts: dict[str, Part], rest: Fraction) -> MomentNoise:
    """Shares that minimise v_T / s^2 + v_F / (1 - s)^2, the predicted error."""
    target, features = _effects(moments, MomentNoise(moments, tuple(parts.values())).variances())
    odds = (target / features) ** (1 / 3)
    share = Fraction(round(1000 * odds / (1 + odds)), 1000)
    shares = {"target": rest * share, "features": rest * (1 - share), "square": 1 - rest}
    return MomentNoise(moments, tuple(replace(p, share=shares[p.name]) for p in parts.values()))


def _feasible(moments: RegressionMoments, part: str) -> NormBall:
    """The smallest body of a part that exact noise can be drawn from, measured."""
    shaped = len(moments.features) <= _MOST_SHAPED
    for kind in MOMENT_KINDS if shaped else ["box"]:
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
    on_features = _FELT * float(each[features].mean()) + _LEVEL * float(each[sums].mean())
    return float(each[with_target].mean()), on_features
