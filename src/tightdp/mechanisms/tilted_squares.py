"""Least squares by objective perturbation, and what its intervals need, for one price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.line_errors import LineErrors
from tightdp.data.one_pass import KeptRows
from tightdp.data.statistics import distinct
from tightdp.errors import FloatArray, amount_within
from tightdp.geometry.norm_balls import LpBall
from tightdp.inference.tilted_moments import TiltedLook
from tightdp.mechanisms.objective import Draws
from tightdp.mechanisms.objective_model import PublicModel
from tightdp.mechanisms.repeated_looks import RepeatedLooks, check_rows, check_shared
from tightdp.mechanisms.robust_regression import HuberPerturbation
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.noise import knorm
from tightdp.privacy import Numerics, check_epsilon
from tightdp.randomness import RandomLike, RandomSource, source
from tightdp.release import Release
from tightdp.schema import Schema
from tightdp.shaping.moment_noise import Part, feature_noise

SHARE = Fraction(1, 2)
"""Of epsilon, for all that intervals need."""

_FEATURES, _SQUARE = Fraction(11, 20), Fraction(1, 20)  # of that; the rest is for what was clipped
_NOISE = 0.9  # of the minimiser's part, for its tilt: what the ridge pulls is pulled back
_CLIPPED = Fraction(1, 2)  # of half the width of the target's bounds: where residuals are clipped
_SLACK = Fraction(1, 4)  # of where residuals are clipped: by at most so much sooner they count
_SURE = 1 - 1e-9  # how surely the noise of the solver is within the bound that counts it


class TiltedSquares(RepeatedLooks):
    r"""Releases the minimiser of a tilted loss, moments of the features, and sizes of residuals.

    What is released: :math:`\theta`, the minimiser of Huber's loss with a public threshold
    (:class:`~tightdp.mechanisms.robust_regression.HuberPerturbation`); :math:`t(X) + z` as by
    :class:`~tightdp.mechanisms.split_mechanism.SplitMechanism`, t the moments of the features; and
    :math:`t'(X) + z'`, :math:`t'` the sums of :class:`~tightdp.data.line_errors.LineErrors` for the
    line that is :math:`\theta` on a coarser grid, as by another ``SplitMechanism``.

    **Privacy.**
    Statement: a release is epsilon-DP under replace-one.
    Needs: [P1] the minimiser is :math:`\epsilon_1`-DP; [P2] t(X) + z is :math:`\epsilon_2`-DP; [P3]
    the line is a function of :math:`\theta`; [P4] whatever it is, a row adds a number in [-1, 1] to
    each of the sums, and the noise of each is made for changes of 2; [P5] all noises are
    independent; [P6] :math:`\epsilon_1 + \epsilon_2 + \epsilon_3 = \epsilon`, in rational
    arithmetic.
    Proof: 1. [P1] is the proof of ``HuberPerturbation``, [P2] that of ``SplitMechanism``. 2. Given
    what was released before, the line is fixed [P3], so that the last look is
    :math:`\epsilon_3`-DP [P4, P5]. 3. Adaptive composition adds the three [P6].
    Numerics: ``idealized-numerics``, for the minimiser: all that is left on trust is said at
    :class:`~tightdp.ObjectivePerturbation`. Moments, sums and their noise are integers.
    Order of events: that of :class:`~tightdp.mechanisms.repeated_looks.RepeatedLooks`.

    The tilt needs the noise of q + 1 numbers that move by the threshold, not of all second moments:
    coefficients err by 0.65 of what they do with these, in the median of a grid. What least squares
    are is told by :mod:`~tightdp.inference.tilted_moments`.

    Parameters
    ----------
    schema : Schema
        With a public number of rows, one of every person.
    features : sequence of str
    target : str
    epsilon : float, Fraction or Decimal
    share : float, Fraction or Decimal
        Of epsilon, for what intervals need.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-1, 1)}, rows=5001)
    >>> x = np.linspace(-1, 1, 5001)
    >>> squares = TiltedSquares(schema, ["x"], "y", epsilon=2)
    >>> look = squares.look(squares.release({"x": x, "y": x / 2}, rng=1))
    >>> look.theta[1:].round(1), look.features[1, 1:].round(1)
    (array([0.5]), array([0.3]))
    """

    numerics = Numerics.IDEALIZED

    why = (
        "A loss is tilted at random, by noise for one row's gradient instead of its second "
        "moments; another part of the budget buys what intervals need."
    )

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        epsilon: Number,
        share: Number = SHARE,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.share = amount_within("interval_share", share, "(0, 1)", "it also undoes the ridge")
        self.schema, self.neighbors = schema, schema.neighbors
        layout = DesignMatrix(schema, features, target)
        check_rows(schema, len(layout.names) + 1 + len(features), "method")  # design, and cells
        spent = self.epsilon * self.share
        check_shared(spent * _SQUARE, self.epsilon - spent)
        chosen = feature_noise(schema, features, target)
        self.statistic = chosen.moments
        self.bodies = f"tilt: hull of the rows; {chosen.shapes}"
        self.first = SplitMechanism(chosen.moments, chosen.parts, epsilon=spent * _FEATURES)  # [P2]
        self.tilt = HuberPerturbation(  # [P1]
            schema,
            features,
            target,
            epsilon=self.epsilon - spent,
            threshold=_CLIPPED * Fraction(float(layout.half[-1])),
            noise_share=_NOISE,
        )
        errors = LineErrors(schema, features, target)
        errors = errors.rebuilt(reach=self._reach(errors.points))
        square = _SQUARE / (1 - _FEATURES)
        shares = {"squares": square, "moved": 1 - square}
        parts = [Part(name, errors.ball(name), part) for name, part in shares.items()]
        self.second = SplitMechanism(errors, parts, epsilon=spent * (1 - _FEATURES))  # [P4]
        self.names = distinct(
            (
                *self.statistic.names,
                *(f"line: {name}" for name in layout.names),
                *(f"residuals: {name}" for name in errors.names),
            )
        )

    @property
    def errors(self) -> LineErrors:
        """The sums of the last look, for the line that is 0."""
        assert isinstance(self.second.statistic, LineErrors)
        return self.second.statistic

    @property
    def cost(self) -> Cost:
        return Cost.total([self.tilt.cost, super().cost])

    @property
    def law(self) -> str:
        return (
            f"{self.tilt.law}; of the features, {self.first.law}; of the residuals of that line, "
            f"{self.second.law}"
        )

    def shape_facts(self) -> list[str]:
        return [*self.tilt.shape_facts(), *super().shape_facts()]

    def label(self) -> str:
        return f"{self.tilt.label()} and its residuals"

    # --- what a release says ------------------------------------------------------------------

    def look(self, release: Release) -> TiltedLook:
        """What a release says of the minimiser, the features and the residuals."""
        sizes = np.cumsum([len(self.statistic), self.statistic.outcome])
        first, theta, (square, moved) = np.split(release.value, sizes)
        rows, line = self.schema.rows, np.array(self.line(theta)) / self.points
        scale, reach = self.scale(line), float(_CLIPPED)
        off = np.abs(theta - line)
        return TiltedLook(
            theta=theta,
            features=self.statistic.matrices(first / rows)[:-1, :-1],
            ridge=self.tilt.calibration.ridge / rows,
            variance=self._tilts() / rows**2,
            line=line,
            square=(square + rows) * scale[0],
            reach=reach,
            moved=(moved + rows) * scale[1] + self._not_counted(off),
            farthest=self._largest(line) + float(off.sum()) + self._solved() - reach,
        )

    def _tilts(self) -> float:
        """The mean variance of the entries of the tilt."""
        return float(knorm.variances(self.tilt.ball, self.tilt.calibration.rate).mean())

    def line(self, theta: FloatArray) -> list[int]:
        """A line on the grid [P3]."""
        most = self.errors.steepest
        return [round(float(b) * self.points) for b in np.clip(theta, -most, most)]

    def scale(self, line: FloatArray) -> FloatArray:
        """What sums of squares, and of how far residuals were moved, are multiplied by."""
        largest, reach = self._largest(line), self.errors.reach / self.points
        return np.array([largest**2, largest - reach]) / (2 * self.schema.rows)

    def _largest(self, line: FloatArray) -> float:
        """The largest residual that bounds allow."""
        about = self.errors.along(self.line(line), self.errors.reach)
        return about.farthest / self.points

    def _reach(self, points: int) -> int:
        """From where on residuals of the line count as moved: they are those of the minimiser but
        for its noise and for the grid. Were these added to how far residuals were moved, they would
        count for all rows, and not for those alone that are clipped."""
        near = self._solved() + (self.statistic.outcome / 2 + 1) / points
        slack = min(Fraction(near), _CLIPPED * _SLACK)
        return max(int(points * (_CLIPPED - slack)), 1)

    def _not_counted(self, off: FloatArray) -> float:
        """By how much more residuals may have been moved than those of the line tell."""
        sooner = float(_CLIPPED) - self.errors.reach / self.points
        return max(float(off.sum()) + self._solved() - sooner, 0.0)

    def _solved(self) -> float:
        """How far the noise that hides the solver's error moves any residual, all but surely."""
        width, rate = self.statistic.outcome, float(self.tilt.output.rate)
        radius = knorm.concentration_radius(LpBall(width, np.inf), rate, _SURE)
        return width * radius / self.tilt.resolution

    def simulate(self, look: TiltedLook, size: int, rng: RandomLike) -> FloatArray:
        """Noise of the law of all but the features' moments, as :meth:`TiltedLook.noise` has it."""
        tilt, rows, bits = self.tilt, self.schema.rows, source(rng)
        width = self.statistic.outcome
        pushed = knorm.KNormNoise(tilt.ball, tilt.calibration.rate).sample(size, rng=bits)
        # of rate 1, and scaled here: steps of a fine grid are too small for a budget of its own
        last = knorm.KNormNoise(LpBall(width, np.inf), 1.0).sample(size, rng=bits)
        last = last / (float(tilt.output.rate) * tilt.resolution)
        products = last @ look.features + look.ridge * last - pushed / rows
        return np.hstack([products, self.second.simulate(size, rng=bits) * self.scale(look.line)])

    def expected(self, confidence: float) -> tuple[FloatArray, FloatArray]:
        """Variances and simultaneous half-widths of coefficients of evenly spread rows."""
        return PublicModel(self.tilt).errors(confidence, pulled_back=True)

    # --- the release --------------------------------------------------------------------------

    def _noises(self, rng: RandomSource) -> list[Any]:
        return [*super()._noises(rng), self.tilt.draw_noise(rng)]  # [P5]

    def _looked(self, kept: KeptRows, noisy: list[int], others: list[Any]) -> tuple[list[int], int]:
        noise, draws = others
        assert isinstance(draws, Draws)
        own = self.tilt.resolution
        rows, target = self.tilt.rows.scaled_cells(kept.matrix(self.tilt.rows.columns))
        theta = self.tilt.perturbed(rows, target, draws)
        line = self.line(np.array([z / own for z in theta]))
        found = self._with_noise(kept, self.errors.along(line, self.errors.reach), noise)
        sizes = (self.first.resolution, own, self.second.resolution)
        size = math.lcm(*sizes)
        lifted = [
            [z * (size // each) for z in integers]
            for integers, each in zip((noisy, theta, found), sizes, strict=True)
        ]
        return [z for integers in lifted for z in integers], size
