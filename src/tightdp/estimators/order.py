"""Private medians and quantiles of the columns of a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import Number, TableLike
from tightdp.errors import FloatArray, check_choice, fail
from tightdp.estimators.location import Location, numeric_columns
from tightdp.exact.rates import check_epsilon
from tightdp.ledger import Ledger
from tightdp.mechanisms.mechanism import Mechanism, Together
from tightdp.mechanisms.quantiles import (
    COVERS,
    KNormQuantile,
    KNormQuantiles,
    check_tau,
    check_taus,
)
from tightdp.randomness import RandomLike
from tightdp.release import Release
from tightdp.schema import Schema

_ENDS = (" low", " high")


class OrderStatistics(Location):
    """Base: quantiles at given levels, and intervals that are paid for."""

    interval: str

    @abstractmethod
    def _levels(self) -> list[Fraction]:
        """The checked levels."""

    def _check_parameters(self) -> None:
        super()._check_parameters()
        self._levels()
        check_choice("interval", self.interval, COVERS)

    def _release(self, frame: TableLike, schema: Schema, options: dict[str, Any]) -> Release:
        return Together(self._parts(schema)).release(frame, **options)

    def _parts(self, schema: Schema) -> list[Mechanism]:
        """One mechanism for every column and level."""
        columns, levels = numeric_columns(schema), self._levels()
        share = check_epsilon(self.epsilon) / (len(columns) * len(levels))
        return [
            KNormQuantile(schema, column, tau, epsilon=share, interval=self.interval)
            for column in columns
            for tau in levels
        ]

    def _locations(self, release: Release) -> FloatArray:
        plain = [not name.endswith(_ENDS) for name in release.names]
        return self._shaped(release.value[plain])

    def _shaped(self, values: FloatArray) -> FloatArray:
        return values

    def conf_int(self) -> FloatArray:
        """Rows (low, high), one for every column, at the level ``confidence`` for all together.

        They were released and paid for with ``interval``: they cover the quantile of these rows
        ("sample"), or of the population that they are an independent sample of ("population"),
        whatever the rows.
        """
        check_is_fitted(self, "release_")
        ends = [
            self._shaped(self.release_.value[[name.endswith(end) for name in self.release_.names]])
            for end in _ENDS
        ]
        if not ends[0].size:
            fail(
                "There is no interval: its width is private, so it must be paid for. Fit with "
                "interval='sample' or 'population'."
            )
        return np.stack(ends, axis=-1)


class Quantile(OrderStatistics):
    """The quantiles of the columns at one level, drawn exactly.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default): the columns share epsilon evenly, each by the proof of
    :class:`~tightdp.KNormQuantile`. Numerics: ``exact``.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
    tau : number strictly between 0 and 1
    interval : {"none", "sample", "population"}
        What :meth:`conf_int` covers; four fifths of epsilon pay for it.
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
    >>> X = np.linspace(0, 10, 4002).reshape(2001, 2)
    >>> model = Quantile(epsilon=8.0, bounds=(0, 10), tau=0.9, interval="sample").fit(X)
    >>> model.location_.round(0)
    array([9., 9.])
    >>> bool((np.diff(model.conf_int()) < 2).all())
    True
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        bounds: object = None,
        tau: Number = 0.5,
        interval: str = "none",
        confidence: float = 0.95,
        ledger: Ledger | None = None,
        random_state: RandomLike = None,
    ) -> None:
        super().__init__(epsilon, bounds, confidence, ledger, random_state)
        self.tau = tau
        self.interval = interval

    def _levels(self) -> list[Fraction]:
        return [check_tau(self.tau)]


class Median(OrderStatistics):
    """The medians of the columns, drawn exactly: :class:`Quantile` at one half.

    **Privacy.** As for :class:`Quantile`.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
    interval : {"none", "sample", "population"}
    confidence : float
    ledger : Ledger, optional
    random_state : None or a seed

    Attributes
    ----------
    location_ : array
    release_ : Release

    Examples
    --------
    >>> X = np.linspace(0, 10, 2001)[:, None]
    >>> Median(epsilon=5.0, bounds=(0, 10)).fit(X).location_.round(0)
    array([5.])
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

    def _levels(self) -> list[Fraction]:
        return [Fraction(1, 2)]


class Quantiles(OrderStatistics):
    """The quantiles of the columns at several levels, in order.

    Without intervals the quantiles of a column share one draw and one payment
    (:class:`~tightdp.KNormQuantiles`); with intervals they are drawn one by one and sorted, which
    costs accuracy.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default): the columns share epsilon evenly, each by the proof of
    :class:`~tightdp.KNormQuantiles`, or with intervals every level by that of
    :class:`~tightdp.KNormQuantile`. Sorting is post-processing. Numerics: ``exact``.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
    taus : increasing numbers strictly between 0 and 1
    interval : {"none", "sample", "population"}
    confidence : float
    ledger : Ledger, optional
    random_state : None or a seed

    Attributes
    ----------
    location_ : array, shape (columns, levels)
    release_ : Release

    Examples
    --------
    >>> X = np.linspace(0, 10, 4001)[:, None]
    >>> Quantiles(epsilon=5.0, bounds=(0, 10), taus=[0.1, 0.5, 0.9]).fit(X).location_.round(0)
    array([[1., 5., 9.]])
    """

    def __init__(
        self,
        epsilon: Number = 1.0,
        bounds: object = None,
        taus: Sequence[Any] = (0.25, 0.5, 0.75),
        interval: str = "none",
        confidence: float = 0.95,
        ledger: Ledger | None = None,
        random_state: RandomLike = None,
    ) -> None:
        super().__init__(epsilon, bounds, confidence, ledger, random_state)
        self.taus = taus
        self.interval = interval

    def _levels(self) -> list[Fraction]:
        return check_taus(self.taus)

    def _parts(self, schema: Schema) -> list[Mechanism]:
        if self.interval != "none":
            return super()._parts(schema)
        columns, levels = numeric_columns(schema), self._levels()
        share = check_epsilon(self.epsilon) / len(columns)
        return [KNormQuantiles(schema, column, levels, epsilon=share) for column in columns]

    def _shaped(self, values: FloatArray) -> FloatArray:
        # what holds for all values holds for them in order
        return np.sort(values.reshape(-1, len(self._levels())), axis=1)
