"""Private means, variances and geometric medians of the columns of a table."""

from __future__ import annotations

import math
from abc import abstractmethod
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tightdp.data.statistics import Statistic
from tightdp.errors import FloatArray, check_choice, check_probability, fail
from tightdp.estimators.inputs import Problem
from tightdp.estimators.untargeted import Untargeted
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.gradient_median import RADIUS, KNormGeometricMedian
from tightdp.mechanisms.one_line import (
    mean_statistic,
    means_of,
    variance_statistic,
    variances_of,
)
from tightdp.noise.rates import check_epsilon
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Interval, Schema


class Location(Untargeted):
    """Base: one number for every column, in ``location_``; there is no target."""

    location_: FloatArray

    def __init__(
        self,
        epsilon: Any = 1.0,
        bounds: Any = None,
        confidence: float = 0.95,
        ledger: Any = None,
        random_state: Any = None,
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
    def _release(self, frame: Any, schema: Schema, options: dict[str, Any]) -> Release:
        """Pay for and draw the release."""


class SumBased(Location):
    """Base: means or variances, made of noisy sums."""

    _raw: Release
    _epsilon: Fraction

    def _release(self, frame: Any, schema: Schema, options: dict[str, Any]) -> Release:
        self._epsilon = check_epsilon(self.epsilon)
        self._raw = self._mechanism(schema).release(frame, **options)
        return self._made(schema, self._raw)

    def _mechanism(self, schema: Schema) -> AdditiveMechanism:
        return AdditiveMechanism(self._statistic(schema), noise="best", epsilon=self._epsilon)

    @abstractmethod
    def _statistic(self, schema: Schema) -> Statistic:
        """What is released."""

    @abstractmethod
    def _made(self, schema: Schema, release: Release) -> Release:
        """What is made of it, with half-widths."""

    @abstractmethod
    def _deviations(self, schema: Schema) -> FloatArray:
        """How far the entries of a row's contribution can be from the middle of their range."""

    def conf_int(self, covers: str = "population") -> FloatArray:
        r"""Rows (low, high), one for every column, at the level ``confidence`` for all together.

        Parameters
        ----------
        covers : {"sample", "population"}
            The number of these rows without noise, or that of the population that they are an
            independent sample of. The former is the exact law of the noise. For the latter half of
            the error is the noise's, half is for sampling: by Hoeffding's inequality each of the k
            sums is within :math:`c\sqrt{n \log(2k/\alpha')/2}` of its expectation, c the range
            of a row's part in it. This holds for every population within the bounds (rows outside
            count at their bounds), and is wide for narrow ones.
        """
        check_is_fitted(self, "release_")
        if check_choice("covers", covers, ("sample", "population")) == "sample":
            return self._within(self.release_)
        if self.schema_.neighbors is not Neighbors.REPLACE_ONE:
            fail(
                "`covers` = 'population' needs neighbors='replace-one': the sampling error depends "
                "on the number of rows, which is private under add-remove. Use 'sample'."
            )
        miss = (1 - self.release_.confidence) / 2
        noise = self._mechanism(self.schema_).preview(1 - miss).half_width
        spread = math.sqrt(self.schema_.rows * math.log(2 * len(noise) / miss) / 2)
        sampling = 2 * self._deviations(self.schema_) * spread
        return self._within(
            self._made(self.schema_, replace(self._raw, half_width=noise + sampling))
        )

    def _within(self, release: Release) -> FloatArray:
        low, high = self._range()
        return np.clip(release.interval, low[:, None], high[:, None])

    @abstractmethod
    def _range(self) -> tuple[FloatArray, FloatArray]:
        """What the bounds allow."""


class Mean(SumBased):
    """The means of the columns, with exact noise; see :func:`tightdp.mean`.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default) by the proof of :class:`~tightdp.AdditiveMechanism`. Numerics: ``exact``.

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

    def _statistic(self, schema: Schema) -> Statistic:
        return mean_statistic(schema, numeric_columns(schema))

    def _made(self, schema: Schema, release: Release) -> Release:
        return means_of(mean_statistic(schema, numeric_columns(schema)), release)

    def _deviations(self, schema: Schema) -> FloatArray:
        return _halves(schema)

    def _range(self) -> tuple[FloatArray, FloatArray]:
        return _ends(self.schema_)


class Variance(SumBased):
    """The variances of the columns (divisor n), with exact noise; see :func:`tightdp.variance`.

    **Privacy.** ``fit`` is epsilon-DP under replace-one by the proof of
    :class:`~tightdp.AdditiveMechanism`. Numerics: ``exact``.

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

    def _statistic(self, schema: Schema) -> Statistic:
        return variance_statistic(schema, numeric_columns(schema))

    def _made(self, schema: Schema, release: Release) -> Release:
        return variances_of(variance_statistic(schema, numeric_columns(schema)), release)

    def _deviations(self, schema: Schema) -> FloatArray:
        return np.ones(2 * len(list(schema)))  # x in [-1, 1] and 2 x^2 in [0, 2]

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
        For up to six columns.
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
        epsilon: Any = 1.0,
        bounds: Any = None,
        interval: str = "none",
        confidence: float = 0.95,
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        super().__init__(epsilon, bounds, confidence, ledger, random_state)
        self.interval = interval

    def _check_parameters(self) -> None:
        super()._check_parameters()
        check_choice("interval", self.interval, ("none", "sample"))

    def _release(self, frame: Any, schema: Schema, options: dict[str, Any]) -> Release:
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


def _ends(schema: Schema) -> tuple[FloatArray, FloatArray]:
    """The bounds of the columns."""
    columns = [schema[name] for name in schema]
    low, high = np.array([(c.low, c.high) for c in columns if isinstance(c, Interval)]).T
    return low, high


def _halves(schema: Schema) -> FloatArray:
    """Half the ranges of the columns."""
    columns = [schema[name] for name in schema]
    return np.array([c.half for c in columns if isinstance(c, Interval)])
