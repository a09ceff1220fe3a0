"""Means of a population, with intervals as long as noise and sampling make them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number
from tightdp.answer import Answer
from tightdp.data.statistics import columns_of_kind
from tightdp.errors import FloatArray, amount_within
from tightdp.inference.coefficient_intervals import missed_share
from tightdp.inference.mean_intervals import mean_intervals
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.hypothesis_tests import check_sample
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.means import foresee_means, mean_statistic, variance_statistic
from tightdp.mechanisms.mechanism import Reading
from tightdp.noise.knorm import KNormNoise
from tightdp.noise.lattice import LatticeNoise
from tightdp.preview import Preview
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomSource, SeededSource
from tightdp.release import Release
from tightdp.schema import Interval, Schema

INTERVAL_SHARE = Fraction(1, 10)
_ASSUMED = (
    "intervals cover the means of the population, and count noise and sampling error; that means "
    "of so many rows are nearly normal, but for as much skewness as bounds allow, is assumed"
)
_SEED = 20_261_118  # of simulations after the release: repeatable, and no privacy is at stake


class PopulationMeans(Reading):
    """Releases means of numeric columns, with intervals for the means of the population.

    A part of epsilon buys sums of squares, which tell how far a sample of rows can be off. Noise
    and sampling error are then counted together (:mod:`tightdp.inference.mean_intervals`), with
    nothing to spare: where :class:`~tightdp.Mean` has a bound that holds for every law of the rows,
    this takes means of n rows to be nearly normal but for their skewness, which is counted as large
    as the bounds allow; narrow bounds are worth stating. All intervals hold at once.

    **Privacy.**
    Statement: a release is epsilon-DP under replace-one, for one row of every person.
    Needs: the bounds of the schema are public facts.
    Proof: 1. The sums, and the sums with squares, are drawn by
    :class:`~tightdp.AdditiveMechanism` with parts of epsilon that add up to it
    (:class:`~tightdp.Together`). 2. Means and intervals are functions of them and of public facts.
    Numerics: ``exact``.

    Parameters
    ----------
    schema : Schema
    columns : list of str
    epsilon : float, Fraction or Decimal
    interval_share : float, Fraction or Decimal
        The part of epsilon that buys the squares.

    Examples
    --------
    >>> schema = Schema({"pay": Interval(0, 100)}, rows=2001)
    >>> pay = PopulationMeans(schema, ["pay"], epsilon=1)
    >>> release = pay.release({"pay": np.linspace(0, 100, 2001)}, rng=1)
    >>> release.covers, (release.interval[0, 1] - release.interval[0, 0]).round(1)
    ('population', np.float64(2.6))
    """

    located = "{} |"
    picture = "range"

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str],
        *,
        epsilon: Number,
        interval_share: Number = INTERVAL_SHARE,
    ) -> None:
        self.schema = check_sample(schema, "population_mean")
        share = amount_within("interval_share", interval_share, "(0, 1)")
        self.names = tuple(columns_of_kind(schema, columns, Interval))
        self.release_of = paid_means(schema, self.names, check_epsilon(epsilon), share)
        self._take_price()

    @property
    def source(self) -> Together:
        return self.release_of

    def read(self, release: Release) -> Release:
        """Means, with the intervals of the population's."""
        if release.names == self.names:
            return release  # read already
        count, rows = len(self.names), self.schema.rows
        low, high = _ends(self.schema, self.names)
        ends = population_ends(self.release_of, release, release.confidence)
        value = np.clip(release.value[:count] / rows, low, high)
        covariance = release.covariance[:count, :count] / rows**2
        return replace(
            release,
            names=self.names,
            value=value,
            units="",
            covariance=covariance,
            half_width=np.abs(ends - value[:, None]).max(axis=1),
            ends=ends,
            covers="population",
        )

    def answer(self, release: Release, confidence: float | None = None) -> Answer:
        """The means, with what their intervals take for granted."""
        return replace(super().answer(release, confidence), about=_ASSUMED)

    def preview(self, confidence: float = 0.95) -> Preview:
        """The noise of the means; what sampling adds is not public."""
        sums = self.release_of.parts[0]
        assert isinstance(sums, AdditiveMechanism)
        found = foresee_means(sums, sums.preview(confidence))
        return replace(found, guarantee=self.guarantee(), noise=self.law)


def paid_means(
    schema: Schema, columns: Sequence[str], epsilon: Fraction, share: Fraction
) -> Together:
    """Sums, and with a share of epsilon sums and squares."""
    sums, squares = mean_statistic(schema, columns), variance_statistic(schema, columns)
    return Together(
        [
            AdditiveMechanism(sums, noise="best", epsilon=epsilon * (1 - share)),
            AdditiveMechanism(squares, noise="best", epsilon=epsilon * share),
        ]
    )


def population_ends(paid: Together, release: Release, confidence: float) -> FloatArray:
    """Intervals of the population's means, in user units, from a release of :func:`paid_means`."""
    sums, squares = paid.parts
    assert isinstance(sums, AdditiveMechanism)
    assert isinstance(squares, AdditiveMechanism)
    statistic, rng = sums.statistic, SeededSource(_SEED)
    columns, rows = statistic.columns, statistic.schema.rows
    low, high = _ends(statistic.schema, columns)
    middle, half = (low + high) / 2, (high - low) / 2
    means = (release.value[: len(columns)] / rows - middle) / half
    second = release.value[len(columns) :][1::2] / (2 * rows)

    def noise(count: int) -> tuple[FloatArray, FloatArray]:
        drawn, with_squares = (_scaled(part, count, rng) / rows for part in (sums, squares))
        return drawn, with_squares[:, 1::2] / 2

    found = mean_intervals(means, second, noise, rows, missed_share(confidence))
    return np.asarray(middle[:, None] + half[:, None] * found)


def _scaled(part: AdditiveMechanism, count: int, rng: RandomSource) -> FloatArray:
    """Noise of the law that is released, on scaled entries.

    The lattice is so fine beside a body of noise that the continuous law serves, and is quicker.
    """
    if isinstance(part.noise, LatticeNoise):
        return KNormNoise(part.ball, float(part.epsilon)).sample(count, rng=rng)
    drawn = np.asarray(part.noise.sample(count, rng=rng))
    return drawn.astype(np.float64).reshape(count, -1) / float(part.resolution)


def _ends(schema: Schema, columns: Sequence[str]) -> tuple[FloatArray, FloatArray]:
    rules = [schema[name] for name in columns]
    low, high = np.array([(rule.low, rule.high) for rule in rules if isinstance(rule, Interval)]).T
    return low, high
