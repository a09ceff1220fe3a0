"""A share of the population: its exact test and interval, from one noisy count."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.data.blocks import Block
from tightdp.errors import Integers, check_choice, check_instance, check_within, fail
from tightdp.inference.noisy_binomial import (
    ALTERNATIVES,
    NoisyBinomial,
    check_rows,
    check_share,
    least_rows,
)
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.hypothesis_tests import P_VALUE
from tightdp.mechanisms.mechanism import Reading
from tightdp.mechanisms.shares import RowsWhere
from tightdp.preview import Preview, in_words, of_rows
from tightdp.release import Release
from tightdp.schema import Schema, check_schema, require_public_rows
from tightdp.shaping.coordinate_noise import CoordinateNoise

_FINE = 1 << 16  # lattice points of a row: what the lattice costs in power is below 1/_FINE


class FineRows(RowsWhere):
    """The same count on a finer lattice: its noise has a law that whole numbers cannot have.

    >>> from tightdp import Interval
    >>> FineRows(Schema({"age": Interval(0, 100)}, rows=3), "age", high=30).resolution(10)
    65536
    """

    def resolution(self, bits: int) -> int:
        return _FINE

    def contributions(self, block: Block, bits: int) -> Integers:
        # at most 2**16 rows of a block: 2**32 is far from the end of 64 bits
        return super().contributions(block, bits) * _FINE


class ProportionTest(Reading):
    r"""Tests what share of a population satisfies a public condition, and gives its interval.

    The rows are n independent draws from the population. What is released is the number X of those
    that satisfy the condition plus Tulap noise N, :math:`Z = X + N`. The test that rejects a share
    :math:`\theta_0` where :math:`P_{\theta_0}(Z' \ge Z) \le \alpha` is the most powerful among all
    private tests at its level, for every alpha and every alternative on that side
    (Awan and Slavković, 2018, Theorem 4.5 and Corollary 5.3), up to what a lattice of 65,536
    points a row leaves out. Two-sided p-values are twice the smaller one-sided one, and the
    interval holds the shares that the two-sided test keeps: both hold for every n and epsilon.

    **Privacy.** As for :class:`~tightdp.AdditiveMechanism`, whose noisy count is all that is
    released: test, p-value and interval are computed from it and public facts. Replace-one
    neighbours are needed, for n is one of them.

    Parameters
    ----------
    schema : Schema
    column : str
    levels : list, for a category
    low, high : numbers, for a numeric column
        ``low`` is inside, ``high`` is not.
    null : float
        The share that is doubted.
    alternative : {"two-sided", "greater", "less"}
    epsilon, delta :
        As for :class:`~tightdp.AdditiveMechanism`.

    References
    ----------
    Awan and Slavković (2018), Differentially private uniformly most powerful tests for binomial
    data; Awan and Slavković (2020), Differentially private inference for binomial data.

    Examples
    --------
    >>> from tightdp import Interval
    >>> schema = Schema({"age": Interval(0, 100)}, rows=1000)
    >>> adults = ProportionTest(schema, "age", low=18, null=0.5, alternative="greater", epsilon=1)
    >>> release = adults.release({"age": [10, 50, 60] * 333 + [70]}, rng=1)
    >>> release.names, bool(release["p-value"] < 1e-6)
    (('age in [18, 100]', 'p-value'), True)
    >>> round(adults.power(0.55), 3)
    0.935
    """

    effect = "difference of the share from the null"

    def __init__(
        self,
        schema: Schema,
        column: str,
        *,
        levels: Sequence[Any] | None = None,
        low: object = None,
        high: object = None,
        null: Number = 0.5,
        alternative: str = "two-sided",
        epsilon: Number,
        delta: Number = 0,
    ) -> None:
        instead = "`share` estimates it from a private number of rows, with an interval."
        require_public_rows(check_schema(schema), "`proportion_test`", instead)
        if schema.protected_rows not in (None, 1):
            fail("`proportion_test` needs one row of every person: rows must be independent.")
        self.schema, self.null = schema, check_share("null", null)
        self.alternative = check_choice("alternative", alternative, ALTERNATIVES)
        check_rows(schema.rows)
        statistic = FineRows(schema, column, levels=levels, low=low, high=high)
        self.statistic = statistic
        self.rows = AdditiveMechanism(statistic, noise="tulap", epsilon=epsilon, delta=delta)
        noise = check_instance("noise", self.rows.noise, CoordinateNoise)
        self.count = NoisyBinomial(schema.rows, noise.laws[0], noise.resolution)
        self.names = (*statistic.names, P_VALUE)
        self._take_price()

    @property
    def source(self) -> AdditiveMechanism:
        return self.rows

    @property
    def picture(self) -> str:
        return "rows"

    def read(self, release: Release) -> Release:
        """The share with the interval of the population's, and the p-value."""
        (z,), n = release.integers, self.schema.rows
        p_value = self.count.p_value(z, self.null, self.alternative)
        share = float(np.clip(z / (_FINE * n), 0.0, 1.0))
        low, high = self.count.interval(z, release.confidence)
        covariance = np.full((2, 2), np.nan)
        covariance[0, 0] = release.covariance[0, 0] / n**2
        ends = [[min(low, share), max(high, share)], [np.nan, np.nan]]
        return replace(
            release,
            names=self.names,
            value=np.array([share, p_value]),
            units="",
            covariance=covariance,
            half_width=np.array([max(share - ends[0][0], ends[0][1] - share), np.nan]),
            ends=np.array(ends),
            unknown=(P_VALUE,),
            covers="population",
        )

    def power(self, share: Number, alpha: float = 0.05, rows: int | None = None) -> float:
        """The chance that a test at level alpha notices that the population's share is another."""
        level = check_within("alpha", alpha, "(0, 1)")
        count = self.count if rows is None else replace(self.count, rows=check_rows(rows))
        return count.power(check_share("share", share), self.null, self.alternative, level)

    def detects(self, power: float = 0.8, alpha: float = 0.05) -> float:
        """The least difference from the null that is noticed with such a power; NaN if none."""
        wanted = check_within("power", power, "(0, 1)")
        sign = -1.0 if self.alternative == "less" else 1.0
        low, high = 0.0, (1 - self.null if sign > 0 else self.null) * (1 - 1e-6)
        if self.power(self.null + sign * high, alpha) < wanted:
            return float("nan")
        while high - low > 0.01 * high:
            middle = (low + high) / 2
            enough = self.power(self.null + sign * middle, alpha) >= wanted
            low, high = (low, middle) if enough else (middle, high)
        return high

    def rows_for(self, share: Number, power: float = 0.8, alpha: float = 0.05) -> int:
        """The number of rows with which a test has such a power."""
        return least_rows(
            self.count.law,
            _FINE,
            null=self.null,
            share=check_share("share", share),
            alternative=self.alternative,
            alpha=check_within("alpha", alpha, "(0, 1)"),
            power=check_within("power", power, "(0, 1)"),
        )

    def preview(self, confidence: float = 0.95) -> Preview:
        """The error of the share by its noise; nothing is known of that of a p-value."""
        found, n = self.rows.preview(confidence), self.schema.rows
        return replace(
            found,
            names=self.names,
            std=np.array([found.std[0] / n, np.nan]),
            half_width=np.array([min(found.half_width[0] / n, 1.0), 1.0]),
            assumes=of_rows(self.schema),
            detects=in_words(self.effect, self.detects()),
        )
