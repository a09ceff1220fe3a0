"""Moments of a regression, and then the residuals of the line that they leave, for one price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from tightdp.accepted import Number
from tightdp.data.one_pass import KeptRows
from tightdp.data.regression_moments import variances_of
from tightdp.data.residual_sums import MovedSum, ResidualSums
from tightdp.data.statistics import distinct
from tightdp.errors import FloatArray, Integers
from tightdp.inference.moment_solver import NoisyMoments, SecondLook
from tightdp.mechanisms.repeated_looks import LARGEST, RepeatedLooks
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomLike
from tightdp.release import Release
from tightdp.schema import Schema
from tightdp.shaping.moment_noise import Part

WIDE = 4
"""How many standard deviations of the residuals the reach has, at least."""

_FIRST = Fraction(1, 2)  # of epsilon, for the first look
_SQUARE, _SURE = 0.03, 0.04  # the mean square of scaled residuals, and how far off that guess is
_LEAST = 1 / 32  # a standard deviation of scaled residuals, at least
_WATCHED = 0.6  # as the noise of a box grows with its sides: the look between is a third of it
_QUIET = 16  # times less noise of the second look than sampling error, about, is quiet


class TwoLooks(RepeatedLooks):
    r"""Releases noisy moments of a regression, a line, and noisy sums about its residuals.

    What is released: :math:`t(X) + z` as by
    :class:`~tightdp.mechanisms.split_mechanism.SplitMechanism`; :math:`m(X) + z''`, how far a reach
    would move the residuals of a line (:class:`~tightdp.data.residual_sums.MovedSum`), both of
    which are functions of the first; a line and a reach, which are functions of these two; and
    :math:`t'(X) + z'`, :math:`t'` the sums of :class:`~tightdp.data.residual_sums.ResidualSums` for
    them, with :math:`P(z') \propto \exp(-\epsilon'\,\mathrm{level}(z')/L)` on the lattice, as z''.

    **Privacy.**
    Statement: a release is epsilon-DP under replace-one.
    Needs: [P1] the first look is :math:`s\epsilon`-DP; [P2] every line and reach is a function of
    what was released before and of public facts; [P3] for every line and reach, the balls of z' and
    z'' contain the changes of t' and m by one row; [P4] z, z' and z'' are independent, with their
    stated laws; [P5] :math:`s\epsilon + \epsilon'' + \epsilon' \le \epsilon`, in rational
    arithmetic.
    Proof: 1. [P1] is the proof of ``SplitMechanism``. 2. Given what was released before, line and
    reach are fixed [P2], and so is the function of a row whose values t' or m sums: a residual in
    [-1, 1] times (1, d), and a number in [-1, 1]. That is how the sums with a target move, whatever
    the target is, and one more side of a box, so that these looks are :math:`\epsilon''`-DP and
    :math:`\epsilon'`-DP [P3, P4]. 3. Adaptive composition adds the three [P5].
    Numerics: ``exact``: moments, lines, reaches, residuals and noise are integers.
    Order of events: that of :class:`~tightdp.mechanisms.repeated_looks.RepeatedLooks`.

    A residual farther from the line than the reach counts as one at the reach. How far all of them
    were moved together is released with the sums: it bounds what that has done to any coefficient,
    and intervals count it. So they hold the line of least squares whatever the errors are. The
    reach is at least four standard deviations of the residuals, as the first look tells them; where
    rows are so many that the noise is small beside the sampling error it is larger. Where the look
    between the two tells that this would move residuals by more than the noise does that is saved,
    as with skewed errors of many rows, nothing is clamped: the reach is the farthest that bounds
    allow.

    Parameters
    ----------
    schema : Schema
        With a public number of rows, one of every person.
    features : sequence of str
    target : str
    epsilon : float, Fraction or Decimal
    noise : str or NormBall
        Of the first look, see :class:`~tightdp.LinearRegression`.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"x": Interval(-1, 1), "y": Interval(-1, 1)}, rows=5001)
    >>> x = np.linspace(-1, 1, 5001)
    >>> looks = TwoLooks(schema, ["x"], "y", epsilon=2)
    >>> release = looks.release({"x": x, "y": x / 2}, rng=1)
    >>> looks.second_look(release).line.round(1)
    array([0. , 0.5])
    """

    why = (
        "A part of the budget buys the sums that a first line needs; the rest buys sums about its "
        "residuals, which are smaller than the target and so need less noise."
    )

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        epsilon: Number,
        noise: object = "best",
    ) -> None:
        self.epsilon = check_epsilon(epsilon)
        roles = (schema, features, target)
        self.share = _FIRST
        self._look_first(roles, noise, self.share * self.epsilon, "stages")
        residuals = ResidualSums(*roles)
        residuals = residuals.along(residuals.line, residuals.points // 2)
        part = self.second_part(residuals)
        rest = (1 - self.share) * self.epsilon
        watch = rest / (3 + math.ceil(_WATCHED * len(self.statistic.design)))
        self.second = SplitMechanism(  # [P3]: its gate sees rows on both sides of a clamp
            residuals, [part], epsilon=rest - watch
        )
        moved = MovedSum(*roles, reach=residuals.reach)
        self.watch = SplitMechanism(  # [P3]
            moved, [Part("moved", moved.ball("target"), Fraction(1))], epsilon=watch
        )
        coefficients = self.statistic.layout.names  # of which none has the name of another
        self.names = (
            *self.statistic.names,
            "first reach: moved",
            *(f"line: {name}" for name in coefficients),
            "reach",
            *(f"second look: {name}" for name in self.residuals.names),
        )
        distinct(self.names)

    @staticmethod
    def second_part(residuals: ResidualSums) -> Part:
        """The body of the changes of all sums of the second look."""
        return Part("residuals", residuals.ball("target"), Fraction(1))

    @property
    def looks(self) -> tuple[SplitMechanism, SplitMechanism, SplitMechanism]:
        return self.first, self.watch, self.second

    @property
    def residuals(self) -> ResidualSums:
        """The sums of the second look, for the line that is 0 and half of the bounds."""
        assert isinstance(self.second.statistic, ResidualSums)
        return self.second.statistic

    @property
    def law(self) -> str:
        return (
            f"{self.first.law}; of how far a first reach moves the residuals of a line that these "
            f"leave, {self.watch.law}; of the residuals in units of the reach that this leaves, "
            f"{self.second.law}"
        )

    def label(self) -> str:
        return f"{self.statistic!r} and residuals"

    # --- from the first look to the second ----------------------------------------------------

    def aim(self, integers: Sequence[int]) -> tuple[list[int], int]:
        """Line and reach of the second look, on the grid, from the integers of the first [P2]."""
        points = self.points
        with np.errstate(all="ignore"):  # warnings after the payment would depend on the noise
            found = self._from_integers(integers)
            line = self._line(found)
            reach = self._reach(found, np.array(line) / points)
        most = points + sum(map(abs, line))
        return line, min(max(math.ceil(reach * points), 1), most)

    def _reach(self, found: NoisyMoments, line: FloatArray) -> float:
        """As far as residuals go, or as far as noise is small beside the sampling error."""
        seen, variance = found.residual_square(line)
        # a guess, and what was released, each as sure as it is
        square = (seen * _SURE**2 + _SQUARE * variance) / (_SURE**2 + variance)
        deviation = math.sqrt(max(square, _LEAST**2))
        spent = float(self.second.epsilon)
        loud = _QUIET * self.residuals.outcome / (math.sqrt(self.schema.rows) * spent)
        return deviation * max(WIDE, 1 / loud)

    def settle(self, integers: Sequence[int], moved: int) -> tuple[list[int], int]:
        """The line and reach that are taken, after the look at how far residuals move [P2].

        If they move by more than the noise of sums that clamp nothing, nothing is clamped.
        """
        line, reach = self.aim(integers)
        points, size = self.residuals.points, self.watch.resolution
        farthest, top = points + sum(map(abs, line)), LARGEST * size
        away = (self.schema.rows + max(-top, min(moved, top)) / size) / 2 * (farthest - reach)
        noise = farthest * math.sqrt(float(variances_of(self.second.covariance).mean()))
        return line, (reach if away <= noise else farthest)

    def second_look(self, release: Release) -> SecondLook:
        """What a release says of the residuals, as mean products in the units of the target."""
        size, known = self.statistic.outcome, len(self.statistic) + 1
        line, (reach,), sums = np.split(release.value[known:], [size, size + 1])
        scale, sums = self.scale(line, reach), sums[self.order]
        variances = variances_of(self.second.covariance)[self.order] * scale**2
        products, moved = scale[:-1] * sums[:-1], scale[-1] * (sums[-1] + self.schema.rows)
        return SecondLook(line, float(reach), products, variances[:-1], float(moved))

    def simulate(self, look: SecondLook, size: int, rng: RandomLike) -> FloatArray:
        """Noise of the law of the second look, on its mean products and on how far targets moved.

        Shape (size, q + 2), the last for the latter.
        """
        drawn = self.second.simulate(size, rng=rng)[:, self.order]
        return np.asarray(drawn * self.scale(look.line, look.reach))

    def scale(self, line: FloatArray, reach: float) -> FloatArray:
        """What the sums of the second look are multiplied by; the last is that of 2 m - 1."""
        room = max(1 + float(np.abs(line).sum()) - reach, 0.0)
        return np.append(np.full(self.statistic.outcome, reach), room / 2) / self.schema.rows

    @cached_property
    def order(self) -> Integers:
        """Places of the sums of the second look: the columns of the design, then what moved."""
        return np.argsort(self.residuals.entries[:, 0])

    # --- the release --------------------------------------------------------------------------

    def _looked(
        self, kept: KeptRows, noisy: list[int], others: list[list[int]]
    ) -> tuple[list[int], int]:
        line, reach = self.aim(noisy)
        watched = self.watch.statistic.rebuilt(line=line, reach=reach)
        (moved,) = self._with_noise(kept, watched, others[0])
        line, reach = self.settle(noisy, moved)
        about = self._with_noise(kept, self.residuals.along(line, reach), others[1])
        size, points = self.second.resolution, self.points
        lifted = [z * (size // self.first.resolution) for z in noisy]  # steps: a coarser grid
        public = [z * (size // points) for z in (*line, reach)]
        return [*lifted, moved, *public, *about], size
