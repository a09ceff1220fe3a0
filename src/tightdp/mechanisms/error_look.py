"""Moments of a regression, and then how far errors move its coefficients, for one price."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tightdp.accepted import Number
from tightdp.data.error_squares import ErrorSquares
from tightdp.data.one_pass import KeptRows
from tightdp.data.statistics import distinct
from tightdp.errors import FloatArray, amount_within, check_flag, check_most, check_within
from tightdp.inference.error_scales import coefficient_weights
from tightdp.inference.uneven_errors import ErrorSizes
from tightdp.mechanisms.repeated_looks import RepeatedLooks, check_shared
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Schema
from tightdp.shaping.moment_noise import Part

if TYPE_CHECKING:
    from tightdp.data.design_matrix import DesignMatrix

MOST_INFLUENCED = 64
"""Coefficients: the influences of all columns on all of them are released."""


class ErrorLook(RepeatedLooks):
    r"""Releases noisy moments of a regression, a line with influences, and noisy sums of squares.

    What is released: :math:`t(X) + z` as by
    :class:`~tightdp.mechanisms.split_mechanism.SplitMechanism`; a line, and the influence of a row
    on every coefficient, which are functions of these; and :math:`t'(X) + z'`, :math:`t'` the sums
    of :class:`~tightdp.data.error_squares.ErrorSquares` for them, with
    :math:`P(z') \propto \exp(-\epsilon'\,\mathrm{level}(z')/L)` on the lattice, the level being
    that of a box.

    **Privacy.**
    Statement: a release is epsilon-DP under replace-one.
    Needs: [P1] the first look is :math:`(1 - s)\epsilon`-DP; [P2] line and influences are functions
    of what it released and of public facts; [P3] whatever they are, a row adds a number in [-1, 1]
    to every sum, so that the box [-2, 2] contains its changes; [P4] z and z' are independent, with
    their stated laws; [P5] :math:`(1 - s)\epsilon + \epsilon' = \epsilon`, in rational arithmetic.
    Proof: 1. [P1] is the proof of ``SplitMechanism``. 2. Given what was released before, line and
    influences are fixed [P2], so that the second look is :math:`\epsilon'`-DP [P3, P4]. 3. Adaptive
    composition adds the two [P5].
    Numerics: ``exact``: moments, lines, influences, squares and noise are integers.
    Order of events: that of :class:`~tightdp.mechanisms.repeated_looks.RepeatedLooks`.

    The sum over the rows of :math:`u^2 r^2`, u the influence and r the residual, is
    :math:`n^2` times the sandwich estimate of the variance of a coefficient (White, 1980). So
    intervals need not count the largest sampling error that the bounds allow
    (:mod:`~tightdp.inference.uneven_errors`).

    Parameters
    ----------
    schema : Schema
        With a public number of rows, one of every person.
    features : sequence of str
    target : str
    epsilon : float, Fraction or Decimal
    share : float, Fraction or Decimal
        Of epsilon, for the sums of squares.
    noise : str or NormBall
        Of the first look, see :class:`~tightdp.LinearRegression`.
    fit_intercept : bool
    alpha : float
        Ridge penalty, in the units of the features.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-1, 1)}, rows=5001)
    >>> x = np.linspace(-1, 1, 5001)
    >>> look = ErrorLook(schema, ["x"], "y", epsilon=8, share=0.1)
    >>> release = look.release({"x": x, "y": x / 2 + 0.1 * np.sign(np.sin(99 * x))}, rng=1)
    >>> sizes = look.sizes(release)
    >>> abs(sizes.influences).round(1)  # on intercept and slope, of the constant and of x
    array([[1., 0.],
           [0., 1.]])
    >>> bool(0.002 < sizes.squares[1] < 0.005)  # 0.1^2 / 3
    True
    """

    why = (
        "A part of the budget buys how far errors move every coefficient: intervals then need not "
        "count the most that the bounds allow."
    )

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        epsilon: Number,
        share: Number,
        noise: object = "best",
        fit_intercept: bool = True,
        alpha: float = 0.0,
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        self.share = amount_within("interval_share", share, "(0, 1)")
        spent = self.epsilon * self.share
        check_shared(spent, self.epsilon - spent)
        roles = (schema, features, target)
        self._look_first(roles, noise, self.epsilon - spent, "interval_share")
        self.fit_intercept = check_flag("fit_intercept", fit_intercept)
        self.alpha = check_within("alpha", alpha, "[0, inf)")
        coefficients = self.design.names if self.fit_intercept else self.design.design
        remedy = "leave `interval_share` out, or choose fewer features, or levels"
        check_most("features", len(coefficients), MOST_INFLUENCED, "coefficients", remedy)
        squares = ErrorSquares(*roles)
        if not self.fit_intercept:
            squares = squares.with_influences(squares.line, squares.influences[1:].tolist())
        part = Part("squares", squares.ball("squares"), Fraction(1))
        self.second = SplitMechanism(squares, [part], epsilon=spent)  # [P3]
        columns = self.design.names  # a column may be called "1": the constant is the intercept's
        self.names = distinct(
            (
                *self.statistic.names,
                *(f"line: {name}" for name in self.design.names),
                *(f"influence on {name}: {column}" for name in coefficients for column in columns),
                *(f"squared errors of {name}" for name in coefficients),
            )
        )

    @property
    def design(self) -> DesignMatrix:
        """Columns and coefficients of the regression."""
        return self.statistic.layout

    @property
    def squares(self) -> ErrorSquares:
        """The sums of the second look, for the line that is 0 and one influence for a column."""
        assert isinstance(self.second.statistic, ErrorSquares)
        return self.second.statistic

    @property
    def law(self) -> str:
        return (
            f"{self.first.law}; of the squares of influence times residual of a line that these "
            f"leave, {self.second.law}"
        )

    def label(self) -> str:
        return f"{self.statistic!r} and squared errors"

    def aim(self, integers: Sequence[int]) -> tuple[list[int], list[list[int]]]:
        """Line and influences, on the grid, from the integers of the first look [P2]."""
        origin = self.design.origin
        weights = coefficient_weights(origin[:-1], intercept=self.fit_intercept)
        ridge = self.design.ridge(self.alpha, self.schema.rows)
        shift = None if self.fit_intercept else -origin
        with np.errstate(all="ignore"):  # warnings after the payment would depend on the noise
            found = self._from_integers(integers)
            influences = found.influences(weights, ridge=ridge, shift=shift)
            return self._line(found, ridge, shift), self._on_grid(influences)

    def _on_grid(self, influences: FloatArray) -> list[list[int]]:
        """Scaled so that none exceeds 1, and rounded towards 0, in units of 1 / points."""
        known = np.nan_to_num(influences, posinf=0.0, neginf=0.0)
        largest = np.maximum(np.abs(known).max(axis=1, keepdims=True), 1e-300)
        sizes = np.abs(known) / largest  # first, so that their sum does not overflow
        sizes = sizes / np.maximum(sizes.sum(axis=1, keepdims=True), 1.0)
        whole = np.trunc(sizes * self.points).astype(np.int64) * np.sign(known).astype(np.int64)
        return [[int(z) for z in row] for row in whole]

    def sizes(self, release: Release) -> ErrorSizes:
        """What a release says of the errors, for scaled columns."""
        many, columns = len(self.squares), self.statistic.outcome
        known = len(self.statistic)
        line, influences, sums = np.split(release.value[known:], [columns, columns * (1 + many)])
        largest = (1 + np.abs(line).sum()) ** 2  # of a squared residual
        squares = (sums / self.schema.rows + 1) / 2 * largest
        noise = partial(self._simulated, scale=largest / self.schema.rows / 2)  # can be pickled
        return ErrorSizes(influences.reshape(many, columns), line, squares, noise)

    def _simulated(self, count: int, rng: RandomSource, *, scale: float) -> FloatArray:
        return self.second.simulate(count, rng=rng) * scale

    def _looked(
        self, kept: KeptRows, noisy: list[int], others: list[list[int]]
    ) -> tuple[list[int], int]:
        line, influences = self.aim(noisy)
        squares = self.squares.with_influences(line, influences)
        found = self._with_noise(kept, squares, others[0])
        size, points = self.second.resolution, self.points
        lifted = [z * (size // self.first.resolution) for z in noisy]  # steps: a coarser grid
        public = [z * (size // points) for z in (*line, *(z for row in influences for z in row))]
        return [*lifted, *public, *found], size
