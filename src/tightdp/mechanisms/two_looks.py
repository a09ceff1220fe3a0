"""Moments of a regression, and then the residuals of the line that they leave, for one price."""

from __future__ import annotations

import math
from collections.abc import Sequence
from fractions import Fraction
from functools import cached_property

import numpy as np

from tightdp.accepted import Number, TableLike
from tightdp.accounting import Cost
from tightdp.data.one_pass import IntegerSum, KeptRows
from tightdp.data.regression_moments import variances_of
from tightdp.data.residual_sums import STEEPEST, MovedSum, ResidualSums
from tightdp.data.statistics import Statistic, distinct
from tightdp.errors import FloatArray, Integers, fail
from tightdp.inference.moment_solver import NoisyMoments, SecondLook
from tightdp.mechanisms.least_squares import SplitMechanism
from tightdp.mechanisms.mechanism import Finish, Mechanism
from tightdp.preview import Preview
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomLike, RandomSource
from tightdp.release import DEPENDS, Draft, Release
from tightdp.schema import Schema, check_schema
from tightdp.shaping.moment_noise import LENGTH, Part, choose_noise

WIDE = 4
"""How many standard deviations of the residuals the reach has, at least."""

_FIRST = Fraction(1, 2)  # of epsilon, for the first look
_SQUARE, _SURE = 0.03, 0.04  # the mean square of scaled residuals, and how far off that guess is
_LEAST = 1 / 32  # a standard deviation of scaled residuals, at least
_LARGEST = 10**30  # a mean product, whose size is at most 1 without noise
MOST_KEPT = 1 << 27
"""Cells of rows that are kept in memory between the looks: a gigabyte."""

_WATCHED = 0.6  # as the noise of a box grows with its sides: the look between is a third of it
_QUIET = 16  # times less noise of the second look than sampling error, about, is quiet


class TwoLooks(Mechanism):
    r"""Releases noisy moments of a regression, a line, and noisy sums about its residuals.

    What is released: :math:`t(X) + z` as by
    :class:`~tightdp.mechanisms.least_squares.SplitMechanism`; :math:`m(X) + z''`, how far a reach
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
    Order of events: parameters are checked, the ledger is charged once, all noises are drawn, and
    only then are rows read, once; they are kept for the later looks, which always take place.

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
        self.schema, self.neighbors = check_schema(schema), schema.neighbors
        self.epsilon = check_epsilon(epsilon)
        roles = (schema, features, target)
        _check_rows(schema, 1 + len(features))
        residuals = ResidualSums(*roles)
        residuals = residuals.along(residuals.line, residuals.points // 2)
        self.share = _FIRST
        chosen = choose_noise(*roles, noise, self.share * self.epsilon, square=True)
        self.bodies = chosen.words
        self.first = SplitMechanism(  # [P1]
            chosen.moments, chosen.parts, epsilon=self.share * self.epsilon
        )
        self.statistic = chosen.moments
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
        coefficients = ("intercept", *self.statistic.design)
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
    def cost(self) -> Cost:
        """Those of all looks, each of which is pure, add [P5]."""
        return Cost.total([look.cost for look in self._looks])

    @property
    def _looks(self) -> tuple[SplitMechanism, SplitMechanism, SplitMechanism]:
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

    def shape_facts(self) -> list[str]:
        return [fact for look in self._looks for fact in look.shape_facts()]

    def label(self) -> str:
        return f"{self.statistic!r} and residuals"

    def numbers_released(self) -> int:
        return len(self.names)

    def check(self, frame: TableLike) -> None:
        self.first.check(frame)

    def preview(self, confidence: float = 0.95) -> Preview:
        """None of the sums; :class:`~tightdp.mechanisms.least_squares.LeastSquares` has one."""
        return self._silent(confidence, DEPENDS.reason)

    # --- from the first look to the second ----------------------------------------------------

    def noisy_moments(self, values: FloatArray) -> NoisyMoments:
        """The first look, as mean products."""
        moments, covariance = self.statistic, self.first.covariance
        rows = float(self.schema.rows)
        products = moments.matrices(values / rows)
        return NoisyMoments(moments, products, covariance, rows)

    def aim(self, integers: Sequence[int]) -> tuple[list[int], int]:
        """Line and reach of the second look, on the grid, from the integers of the first [P2]."""
        size, points = self.first.resolution, self.residuals.points
        top = _LARGEST * size * self.schema.rows  # what exceeds it would overflow doubles below
        values = np.array([max(-top, min(z, top)) / size for z in integers])
        with np.errstate(all="ignore"):  # warnings after the payment would depend on the noise
            found = self.noisy_moments(values)
            scaled = np.clip(found.line(length=LENGTH), -STEEPEST, STEEPEST)
            line = [round(float(b) * points) for b in np.nan_to_num(scaled)]
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
        farthest, top = points + sum(map(abs, line)), _LARGEST * size
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

    def prepare(self, rng: RandomSource, confidence: float) -> Finish:
        # before the data are read: its timing tells nothing
        first, (watch,), second = (  # [P4]
            [int(z) for part in look.noises for z in part.sample(rng=rng)] for look in self._looks
        )

        def sums(statistic: Statistic) -> IntegerSum:
            return statistic.integer_sum(self.first.bits)

        def finish(table: TableLike, progress: bool) -> Draft:
            # one reading: no source can fail, or be another, between the two looks
            kept = KeptRows(table, [sums(self.statistic), sums(self.residuals)], progress=progress)
            exact = kept.sum(sums(self.statistic))
            noisy = [int(t) + z for t, z in zip(exact, first, strict=True)]
            line, reach = self.aim(noisy)
            (moved,) = kept.sum(sums(self.watch.statistic.rebuilt(line=line, reach=reach)))
            moved += watch
            line, reach = self.settle(noisy, moved)
            again = kept.sum(sums(self.residuals.along(line, reach)))
            about = [int(t) + z for t, z in zip(again, second, strict=True)]
            size, points = self.second.resolution, self.residuals.points
            lifted = [z * (size // self.first.resolution) for z in noisy]  # steps: a coarser grid
            public = [z * (size // points) for z in (*line, reach)]
            integers = [*lifted, moved, *public, *about]
            value = [z / size for z in integers]
            return Draft.of(self.names, value, integers, size, DEPENDS)

        return finish

    def draw(self, frame: TableLike, rng: RandomSource, confidence: float, progress: bool) -> Draft:
        return self.prepare(rng, confidence)(frame, progress)


def _check_rows(schema: Schema, columns: int) -> None:
    """A second look is made for rows of a public number, one of each person."""
    if not schema.rows_known or schema.rows_per_person > 1 or schema.persons_alike:
        fail(
            "Two stages need a public number of rows, and one row of every person: use stages=1, "
            "or state replace-one neighbours and rows_per_person=1, without missing='drop'."
        )
    if schema.rows * columns > MOST_KEPT:
        fail(
            f"Two stages keep the rows in memory, {MOST_KEPT:,} cells at most: use stages=1, whose "
            "noise is small beside the sampling error of so many rows."
        )
