"""Private means, variances and geometric medians of the columns of a table."""

from __future__ import annotations

from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.errors import FloatArray, check_choice, check_probability, exact_amount, fail
from tightdp.estimators.inputs import Problem
from tightdp.estimators.untargeted import Untargeted
from tightdp.exact.rates import check_epsilon
from tightdp.inference.sampling_error import bernstein_reach, chernoff_ends, deviation_reach
from tightdp.ledger import Ledger
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.gradients.gradient_median import RADIUS, KNormGeometricMedian
from tightdp.mechanisms.means import (
    mean_statistic,
    means_of,
    variance_statistic,
    variances_of,
)
from tightdp.mechanisms.mechanism import Mechanism, Together
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomLike, RandomSource
from tightdp.release import Release
from tightdp.schema import Interval, Schema


class Location(Untargeted):
    """Base: one number for every column, in ``location_``; there is no target."""

    location_: FloatArray

    def __init__(
        self,
        epsilon: Number = 1.0,
        bounds: object = None,
        confidence: float = 0.95,
        ledger: Ledger | None = None,
        random_state: RandomLike = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.confidence = confidence
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> None:
        check_probability("confidence", self.confidence)

    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        options = {
            "ledger": self.ledger,
            "key": key,
            "rng": rng,
            "confidence": float(self.confidence),
        }
        release = self._release(problem.frame, problem.schema, options)
        self.location_ = self._locations(release)
        return release

    def _locations(self, release: Release) -> FloatArray:
        """One number for every column."""
        return release.value

    @abstractmethod
    def _release(self, frame: TableLike, schema: Schema, options: dict[str, Any]) -> Release:
        """Pay for and draw the release."""


class SumBased(Location):
    """Base: means or variances, made of noisy sums."""

    _raw: Release
    _epsilon: Fraction

    def _release(self, frame: TableLike, schema: Schema, options: dict[str, Any]) -> Release:
        self._epsilon = check_epsilon(self.epsilon)
        self._raw = self._paid(schema).release(frame, **options)
        return self._made(schema, self._raw)

    def _paid(self, schema: Schema) -> Mechanism:
        """All that is paid for."""
        return self._mechanism(schema)

    @abstractmethod
    def _mechanism(self, schema: Schema) -> AdditiveMechanism:
        """What the numbers are made of."""

    @abstractmethod
    def _made(self, schema: Schema, release: Release) -> Release:
        """What is made of it, with half-widths."""

    def conf_int(self, covers: str = "population") -> FloatArray:
        r"""Rows (low, high), one for every column, at the level ``confidence`` for all together.

        Parameters
        ----------
        covers : {"sample", "population"}
            The number of these rows without noise, or that of the population that they are an
            independent sample of. The former is the exact law of the noise. For the latter half of
            the error is the noise's, half is for sampling, by inequalities that hold for every
            population within the bounds and every number of rows (rows outside count at their
            bounds): see the class.
        """
        check_is_fitted(self, "release_")
        low, high = self._range()
        if check_choice("covers", covers, ("sample", "population")) == "sample":
            return np.clip(self.release_.interval, low[:, None], high[:, None])
        if self.schema_.neighbors is not Neighbors.REPLACE_ONE:
            fail(
                "`covers` = 'population' needs neighbors='replace-one': the sampling error depends "
                "on the number of rows, which is private under add-remove. Use 'sample'."
            )
        miss = (1 - self.release_.confidence) / 2
        return np.clip(self._population(miss), low[:, None], high[:, None])

    @abstractmethod
    def _population(self, miss: float) -> FloatArray:
        """Rows (low, high) for the population, where noise and sampling may miss by so much."""

    @abstractmethod
    def _range(self) -> tuple[FloatArray, FloatArray]:
        """What the bounds allow."""


class Mean(SumBased):
    r"""The means of the columns, with exact noise; see :func:`tightdp.mean`.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default) by the proof of :class:`~tightdp.AdditiveMechanism`, and with ``interval_share`` that
    of :class:`~tightdp.Together`. Numerics: ``exact``.

    **Populations.** Without a share, ``conf_int("population")`` bounds the sampling error by
    Hoeffding (1963, Theorem 1), from the released mean alone: short near a bound, wide for columns
    that crowd in the middle of theirs. With ``interval_share=0.1`` a tenth of epsilon buys the sums
    of squares, and the interval is as wide as the spread of the column asks (Maurer and Pontil,
    2009, Theorem 4); means get a ninth more noise.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
    confidence : float
        The level of the intervals, for all columns together.
    interval_share : float
        The part of epsilon that buys intervals for the population; needs replace-one neighbours.
    ledger : Ledger, optional
    random_state : None or a seed

    Attributes
    ----------
    location_ : array
    release_ : Release
        With standard errors of the noise and intervals.

    Examples
    --------
    >>> X = np.linspace(0, 10, 2002).reshape(1001, 2)
    >>> model = Mean(epsilon=5.0, bounds=(0, 10)).fit(X)
    >>> model.location_.round(0)
    array([5., 5.])
    >>> model.conf_int("sample").shape
    (2, 2)
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        bounds: object = None,
        confidence: float = 0.95,
        interval_share: Number = 0.0,
        ledger: Ledger | None = None,
        random_state: RandomLike = None,
    ) -> None:
        super().__init__(epsilon, bounds, confidence, ledger, random_state)
        self.interval_share = interval_share

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._share()

    def _share(self) -> Fraction:
        share = exact_amount("interval_share", self.interval_share)
        if not 0 <= share < 1:
            fail(f"`interval_share` must lie in [0, 1). Got {float(share):g}.")
        return share

    def _mechanism(self, schema: Schema) -> AdditiveMechanism:
        statistic = mean_statistic(schema, numeric_columns(schema))
        epsilon = self._epsilon * (1 - self._share())
        return AdditiveMechanism(statistic, noise="best", epsilon=epsilon)

    def _squares(self, schema: Schema) -> AdditiveMechanism:
        statistic = variance_statistic(schema, numeric_columns(schema))
        epsilon = self._epsilon * self._share()
        return AdditiveMechanism(statistic, noise="best", epsilon=epsilon)

    def _paid(self, schema: Schema) -> Mechanism:
        means = self._mechanism(schema)
        return Together([means, self._squares(schema)]) if self._share() else means

    def _made(self, schema: Schema, release: Release) -> Release:
        mechanism = self._mechanism(schema)
        if not self._share():
            return means_of(mechanism, release)
        half = mechanism.preview(release.confidence).half_width
        return means_of(mechanism, _entries(release, slice(len(half)), half))

    def _population(self, miss: float) -> FloatArray:
        n, columns, bought = self.schema_.rows, len(self.location_), bool(self._share())
        noise = miss / 2 if bought else miss
        half = self._mechanism(self.schema_).preview(1 - noise).half_width / n
        low, high = self._range()
        width = high - low
        # shares of the interval, where the mean of these rows may be
        at = (np.column_stack([self.location_ - half, self.location_ + half]).T - low) / width
        at = np.clip(at, 0.0, 1.0)
        each = miss / columns
        by_mean = each / 4 if bought else each
        ends = np.array(
            [[chernoff_ends(a, n, by_mean)[0], chernoff_ends(b, n, by_mean)[1]] for a, b in at.T]
        )
        if bought:
            tops = self._largest_variances(miss / 2)
            reach = np.array([bernstein_reach(v, n, 3 * each / 4) for v in tops])
            ends[:, 0] = np.maximum(ends[:, 0], at[0] - reach)
            ends[:, 1] = np.minimum(ends[:, 1], at[1] + reach)
        return np.asarray(low[:, None] + width[:, None] * ends)

    def _largest_variances(self, miss: float) -> FloatArray:
        """What the sample variances (divisor n - 1) of columns in [0, 1] may be."""
        n, squares = self.schema_.rows, self._squares(self.schema_)
        start = len(self.location_)
        bought = _entries(self._raw, slice(start, None), self._raw.half_width[start:])
        found = variances_of(squares, replace(bought, confidence=1 - miss))
        low, high = self._range()
        return np.asarray(found.interval[:, 1] / (high - low) ** 2 * n / max(n - 1, 1))

    def _range(self) -> tuple[FloatArray, FloatArray]:
        return _ends(self.schema_)


class Variance(SumBased):
    """The variances of the columns (divisor n), with exact noise; see :func:`tightdp.variance`.

    **Privacy.** ``fit`` is epsilon-DP under replace-one by the proof of
    :class:`~tightdp.AdditiveMechanism`. Numerics: ``exact``.

    **Populations.** ``conf_int("population")`` adds to the standard deviation what sampling can
    change of it (Maurer and Pontil, 2009, Theorem 10).

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
    confidence : float
        The level of the intervals, for all columns together.
    ledger : Ledger, optional
    random_state : None or a seed

    Attributes
    ----------
    location_ : array
        The variances.
    release_ : Release

    Examples
    --------
    >>> X = np.linspace(0, 12, 4001)[:, None]
    >>> model = Variance(epsilon=5.0, bounds=(0, 12)).fit(X)
    >>> model.location_.round(0)
    array([12.])
    >>> low, high = model.conf_int("sample")[0]
    >>> bool(low < model.location_[0] < high)
    True
    """

    def _mechanism(self, schema: Schema) -> AdditiveMechanism:
        statistic = variance_statistic(schema, numeric_columns(schema))
        return AdditiveMechanism(statistic, noise="best", epsilon=self._epsilon)

    def _made(self, schema: Schema, release: Release) -> Release:
        return variances_of(self._mechanism(schema), release)

    def _population(self, miss: float) -> FloatArray:
        n = self.schema_.rows
        noise = replace(self._raw, confidence=1 - miss)
        found = self._made(self.schema_, noise).interval * (n / max(n - 1, 1))
        reach = 2 * _halves(self.schema_) * deviation_reach(n, miss / len(found))
        deviations = np.sqrt(np.maximum(found, 0.0)) + np.column_stack([-reach, reach])
        return np.asarray(np.maximum(deviations, 0.0) ** 2)

    def _range(self) -> tuple[FloatArray, FloatArray]:
        most = _halves(self.schema_) ** 2
        return np.zeros(len(most)), most


class GeometricMedian(Location):
    """The point with the least sum of distances to the rows, drawn exactly.

    Up to half of the rows can be anywhere without moving it far. Distances are those of columns
    scaled to [-1, 1]; see :class:`~tightdp.KNormGeometricMedian` for the law.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default) by the proof of the mechanism. Numerics: ``exact``.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
        For up to four columns.
    interval : {"none", "sample"}
        Whether half of epsilon pays for :meth:`conf_int`.
    confidence : float
        The level of the intervals, which is fixed when they are paid for.
    ledger : Ledger, optional
    random_state : None or a seed

    Attributes
    ----------
    location_ : array
    release_ : Release

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal([2.0, 7.0], 0.5, (2000, 2))
    >>> GeometricMedian(epsilon=4.0, bounds=(0, 10)).fit(X).location_.round(0)
    array([2., 7.])
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        bounds: object = None,
        interval: str = "none",
        confidence: float = 0.95,
        ledger: Ledger | None = None,
        random_state: RandomLike = None,
    ) -> None:
        super().__init__(epsilon, bounds, confidence, ledger, random_state)
        self.interval = interval

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("interval", self.interval, ("none", "sample"))

    def _release(self, frame: TableLike, schema: Schema, options: dict[str, Any]) -> Release:
        mechanism = KNormGeometricMedian(schema, epsilon=self.epsilon, interval=self.interval)
        return mechanism.release(frame, **options)

    def _locations(self, release: Release) -> FloatArray:
        return np.asarray(release.value[: len(list(self.schema_))])

    def conf_int(self) -> FloatArray:
        """Rows (low, high) for every column, which together hold the geometric median of the rows.

        They bound a ball around ``location_`` whose radius was released and paid for; they are NaN
        where it turned out to say nothing (few rows, or rows nearly on a line).
        """
        check_is_fitted(self, "release_")
        if self.release_.names[-1] != RADIUS:
            fail(
                "There is no interval: its width is private, so it must be paid for. Fit with "
                "interval='sample'."
            )
        low, high = _ends(self.schema_)
        return np.clip(KNormGeometricMedian.conf_int(self.release_), low[:, None], high[:, None])


def numeric_columns(schema: Schema) -> list[str]:
    """All columns, which must be numbers."""
    for name in schema:
        if not isinstance(schema[name], Interval):
            fail(f"Column {name!r} must be an Interval: levels have no mean and no order.")
    return list(schema)


def _entries(release: Release, some: slice, half_width: FloatArray) -> Release:
    """Some entries of a release, with half-widths of their own."""
    return replace(
        release,
        names=release.names[some],
        value=release.value[some],
        covariance=release.covariance[some, some],
        half_width=half_width,
    )


def _ends(schema: Schema) -> tuple[FloatArray, FloatArray]:
    """The bounds of the columns."""
    columns = [schema[name] for name in schema]
    low, high = np.array([(c.low, c.high) for c in columns if isinstance(c, Interval)]).T
    return low, high


def _halves(schema: Schema) -> FloatArray:
    """Half the ranges of the columns."""
    columns = [schema[name] for name in schema]
    return np.array([c.half for c in columns if isinstance(c, Interval)])
