"""Tests on noisy moments: means of groups (two samples, ANOVA, trend), and correlation."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import partial
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.data.regression_moments import RegressionMoments
from tightdp.data.statistics import columns_of_kind
from tightdp.errors import FloatArray, check_array, check_choice, check_most, check_real, fail
from tightdp.inference.moment_nulls import (
    ANY,
    RARE,
    TREND,
    Groups,
    Pair,
    correlation_statistic,
    group_points,
    group_sums,
    means_statistic,
    pair_points,
    pair_sums,
)
from tightdp.inference.monte_carlo_tests import Draws
from tightdp.inference.noisy_binomial import ALTERNATIVES
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.groups import GroupMeans
from tightdp.mechanisms.hypothesis_tests import (
    MOST_TESTED,
    HypothesisTest,
    check_sample,
    check_side,
)
from tightdp.preview import EVEN_ROWS, Preview
from tightdp.randomness import SeededSource
from tightdp.release import Release
from tightdp.schema import Interval, Schema

PATTERNS = (ANY, TREND)
CORRELATION = "correlation"
_EVEN = 1 / 3  # the variance of rows that fill [-1, 1] evenly


class MeansAndSquares(GroupMeans):
    """Means within groups, from sums that come with squares; the squares are for tests.

    **Privacy.** As for :class:`~tightdp.mechanisms.groups.GroupReading`.

    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> MeansAndSquares(Schema(facts, rows=100), "pay", "sex", epsilon=1).names[:2]
    ('rows | sex=f', 'pay | sex=f')
    """

    _squares = True

    @property
    def _block(self) -> FloatArray:
        """Covariance of count and sum: squares are not published."""
        return super()._block[:2, :2]

    def _scaled(self, release: Release) -> FloatArray:
        return super()._scaled(release)[:, :2]


class MeansTest(HypothesisTest):
    r"""Tests whether a column has one mean in all groups: two samples, ANOVA, or a trend.

    Released are counts, sums and sums of squares within groups. At a common mean m the sums
    :math:`S_g - mN_g` have expectation 0, whatever the laws within groups; they are weighed by the
    variances of rows and noise together, which may differ from group to group. The null law is
    simulated with the noise of the release, at means, variances and sizes of a confidence set, of
    which the worst counts (Berger and Boos, 1994). Rows are drawn with the mean, the variance and
    the skewness of a beta law, or as skewed as the bounds allow; and a few rows at the far bound
    count in every variance, since rare ones may not have been drawn. The type I error is at most
    alpha up to that, and up to the points that are not tried. It is not proved, and not yet
    measured on a grid of laws.

    **Privacy.** As for :class:`~tightdp.mechanisms.counts.ClassMechanism`, whose noisy moments are
    all that is released.

    Parameters
    ----------
    schema : Schema
    column : str
        A number.
    by : str, or list of names and of pairs (name, bins)
        The groups.
    pattern : {"any", "trend"}
        Any difference of means, or one that grows with the order of the groups.
    alternative : {"two-sided", "greater", "less"}
        "greater": larger in later groups; for two groups, or a trend.
    noise, epsilon, delta :
        As for :func:`tightdp.variance` by groups.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {"pay": Interval(0, 100), "sex": Category(["f", "m"], other="f")}
    >>> test = MeansTest(Schema(facts, rows=400), "pay", "sex", epsilon=1)
    >>> release = test.release({"pay": [30, 45, 50, 65] * 100, "sex": [*"ffmm"] * 100}, rng=1)
    >>> release.names[-1], bool(release["p-value"] < 0.01)
    ('p-value', True)
    """

    effect = "difference of the first and last mean"

    def __init__(
        self,
        schema: Schema,
        column: str,
        by: Any,
        *,
        pattern: str = ANY,
        alternative: str = ALTERNATIVES[0],
        noise: object = "best",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        trend = check_choice("pattern", pattern, PATTERNS) == TREND
        self.alternative = check_choice("alternative", alternative, ALTERNATIVES)
        self.schema = check_sample(schema, "means_test")
        (name,) = columns_of_kind(schema, [column], Interval)
        self.means = MeansAndSquares(schema, [name], by, noise=noise, epsilon=epsilon, delta=delta)
        fewer = "take fewer groups"
        check_most("by", 3 * self.means.groups, MOST_TESTED, "entries", fewer)
        if self.means.groups < 2:
            fail("`by` must make at least two groups.")
        line = trend or self.means.groups == 2  # two groups in their order are a trend
        check_side(self.alternative, line)
        self.look = TREND if line else ANY
        self.statistic, self.names = self.means.statistic, self.means.names
        rule = schema[name]
        assert isinstance(rule, Interval)
        self._half, self._middle = rule.half, rule.middle
        self._take_price()

    @property
    def source(self) -> Any:
        return self.means.source

    @property
    def largest(self) -> float:  # type: ignore[override]
        return self._half  # means of 1/4 and 3/4 of the range

    def test_statistic(self, entries: FloatArray, rows: int) -> FloatArray:
        block = self.noise_covariance[:3, :3]
        how = self.look, self.alternative
        return means_statistic(entries, rows, block, *how, rare=RARE)

    def null_points(self, entries: FloatArray, bits: SeededSource) -> Sequence[Draws]:
        rows = self.schema.rows
        found = group_points(entries, rows, self.noise_covariance, bits)
        return [self._drawn(rows, groups) for groups in found]

    def _drawn(self, rows: int, groups: Groups) -> Draws:
        return partial(group_sums, rows, groups, np.full(self.means.groups, groups.mean))

    def facing(self, effect: Any, rows: int) -> tuple[Draws, Draws]:
        """An effect is a list of means, or the difference of the last and the first of even ones.

        Groups are alike in size, and rows spread as those that fill their bounds evenly.
        """
        count = self.means.groups
        if np.ndim(effect) == 0:
            means = np.linspace(-0.5, 0.5, count) * check_real("effect", effect) / self._half
        else:
            means = (check_array("effect", effect, 1) - self._middle) / self._half
            if len(means) != count:
                fail(f"`effect` must be a difference, or the means of {count} groups.")
        if (np.abs(means) > 1).any():
            fail("`effect` must leave the means within the bounds of the column.")
        shares, middle = np.full(count, 1 / count), float(means.mean())
        spread = shares * min(_EVEN, 1 - float(np.max(means**2)))
        groups = Groups(middle, shares, spread).fitted()
        return self._drawn(rows, groups), partial(group_sums, rows, groups, means)

    def _published(self, release: Release) -> Release:
        return self.means.read(release)

    def _preview(self, confidence: float) -> Preview:
        return self.means.preview(confidence)


class CorrelationTest(HypothesisTest):
    r"""Tests whether two numeric columns are independent, by their correlation.

    Released are sums of x, y, their squares and products. The statistic is the noisy sum of
    :math:`(x - m_x)(y - m_y)`, whose variance for independent columns is :math:`n v_x v_y` and that
    of the noise; means and variances come from the release, the worst of a confidence set counts
    (Berger and Boos, 1994). Type I error: as for :class:`MeansTest`.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`, whose noisy moments are all that is
    released.

    Parameters
    ----------
    schema : Schema
    columns : list of two names
    alternative : {"two-sided", "greater", "less"}
        "greater": a positive correlation.
    noise, epsilon, delta :
        As for :class:`~tightdp.AdditiveMechanism`.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 10), "y": Interval(0, 10)}, rows=500)
    >>> test = CorrelationTest(schema, ["x", "y"], epsilon=1)
    >>> release = test.release({"x": [2, 4, 6, 8] * 125, "y": [1, 4, 5, 9] * 125}, rng=1)
    >>> release.names, bool(release["p-value"] < 0.01)
    (('correlation', 'p-value'), True)
    """

    effect = "correlation"
    largest = 0.99

    def __init__(
        self,
        schema: Schema,
        columns: Sequence[str],
        *,
        alternative: str = ALTERNATIVES[0],
        noise: object = "hull",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        self.alternative = check_choice("alternative", alternative, ALTERNATIVES)
        self.schema = check_sample(schema, "correlation_test")
        names = columns_of_kind(schema, columns, Interval)
        if len(names) != 2:
            fail("`columns` must name two numeric columns.")
        self.statistic = RegressionMoments(schema, [names[0]], names[1], joint=True, square=True)
        self.moments = AdditiveMechanism(self.statistic, noise=noise, epsilon=epsilon, delta=delta)
        self.names = (CORRELATION,)
        self._take_price()

    @property
    def source(self) -> AdditiveMechanism:
        return self.moments

    def test_statistic(self, entries: FloatArray, rows: int) -> FloatArray:
        how = self.noise_covariance, self.alternative
        return correlation_statistic(entries, rows, *how, rare=RARE)

    def null_points(self, entries: FloatArray, bits: SeededSource) -> Sequence[Draws]:
        rows = self.schema.rows
        found = pair_points(entries, rows, self.noise_covariance, bits)
        return [partial(pair_sums, rows, pair, 0.0) for pair in found]

    def facing(self, effect: Any, rows: int) -> tuple[Draws, Draws]:
        """An effect is a correlation, of columns that fill their bounds evenly."""
        value = check_real("effect", effect)
        if not -1 < value < 1:
            fail("`effect` must be a correlation between -1 and 1.")
        pair = Pair(np.zeros(2), np.full(2, _EVEN))
        return partial(pair_sums, rows, pair, 0.0), partial(pair_sums, rows, pair, value)

    def _published(self, release: Release) -> Release:
        """The correlation of the noisy moments; its interval is not known."""
        scaled = np.array([z / self.moments.resolution for z in release.integers])
        scaled = scaled / self.schema.rows
        means = np.clip(scaled[[0, 2]], -1.0, 1.0)
        variances = scaled[[1, 4]] / 2 - means**2
        product = float(np.prod(np.clip(variances, 0.0, None)))
        covariance = float(scaled[3] - means.prod())
        value = covariance / product**0.5 if product > 0 else 0.0
        return replace(
            release,
            names=(CORRELATION,),
            value=np.array([np.clip(value, -1.0, 1.0)]),
            units="",
            covariance=np.full((1, 1), np.nan),
            half_width=np.array([np.nan]),
            ends=None,
            unknown=(CORRELATION,),
        )

    def _preview(self, confidence: float) -> Preview:
        """To first order, at columns that fill their bounds evenly and have no correlation."""
        found, rows = self.moments.preview(confidence), self.schema.rows
        form = np.array([[0.0, 0.0, 0.0, 1 / (_EVEN * rows), 0.0]])
        std = np.sqrt((form @ self.noise_covariance @ form.T)[0])
        half = np.minimum(self.moments.reach(form, found.confidence), 2.0)
        return replace(
            found, names=(CORRELATION,), std=std, half_width=half, units="", assumes=EVEN_ROWS
        )
