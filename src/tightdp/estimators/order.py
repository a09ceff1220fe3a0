"""Private medians and quantiles of the columns of a table."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import FloatArray, check_choice
from tightdp.estimators.inputs import Problem
from tightdp.estimators.location import PaidIntervals, numeric_columns
from tightdp.estimators.private_estimator import parameter
from tightdp.mechanisms.joint_quantiles import KNormQuantiles, check_taus
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.mechanism import Mechanism
from tightdp.mechanisms.quantiles import COVERS, KNormQuantile, check_tau
from tightdp.privacy import check_epsilon
from tightdp.release import Release
from tightdp.schema import Schema

_ENDS = (" low", " high")


class OrderStatistics(PaidIntervals[Together]):
    """Base: quantiles at given levels.

    Parameters
    ----------
    interval : {"none", "sample", "population"}
        What :meth:`conf_int` covers, whatever the rows: the quantile of these rows, or of the
        population that they are an independent sample of. Four fifths of epsilon pay for it.
    """

    @abstractmethod
    def _levels(self) -> list[Fraction]:
        """The checked levels."""

    def _mechanism(self, problem: Problem) -> Together:
        return Together(self._parts(problem.schema))

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
        return self._shaped(release.value[[not name.endswith(_ENDS) for name in release.names]])

    def _shaped(self, values: FloatArray) -> FloatArray:
        return values

    def _intervals(self, level: float, covers: str) -> FloatArray:
        release = self.release_
        ends = [release.value[[name.endswith(end) for name in release.names]] for end in _ENDS]
        return np.stack([self._shaped(end) for end in ends], axis=-1)


class Quantile(OrderStatistics):
    """The quantiles of the columns at one level, drawn exactly.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default): the columns share epsilon evenly, each by the proof of
    :class:`~tightdp.KNormQuantile`. Numerics: ``exact``.

    Parameters
    ----------
    tau : number strictly between 0 and 1

    Examples
    --------
    >>> X = np.linspace(0, 10, 4002).reshape(2001, 2)
    >>> model = Quantile(epsilon=8.0, bounds=(0, 10), tau=0.9, interval="sample").fit(X)
    >>> model.location_.round(0)
    array([9., 9.])
    >>> bool((np.diff(model.conf_int()) < 2).all())
    True
    """

    tau: Number = parameter(default=0.5, kw_only=False)

    _leading = ("epsilon", "bounds", "tau")

    def _levels(self) -> list[Fraction]:
        return [check_tau(self.tau)]


class Median(OrderStatistics):
    """The medians of the columns, drawn exactly: :class:`Quantile` at one half.

    **Privacy.** As for :class:`Quantile`.

    Examples
    --------
    >>> X = np.linspace(0, 10, 2001)[:, None]
    >>> Median(epsilon=5.0, bounds=(0, 10)).fit(X).location_.round(0)
    array([5.])
    """

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
    taus : increasing numbers strictly between 0 and 1

    Attributes
    ----------
    location_ : array, shape (columns, levels)

    Examples
    --------
    >>> X = np.linspace(0, 10, 4001)[:, None]
    >>> Quantiles(epsilon=5.0, bounds=(0, 10), taus=[0.1, 0.5, 0.9]).fit(X).location_.round(0)
    array([[1., 5., 9.]])
    """

    taus: Sequence[Number] = parameter(default=(0.25, 0.5, 0.75), kw_only=False)

    _leading = ("epsilon", "bounds", "taus")

    def _levels(self) -> list[Fraction]:
        return check_taus(self.taus)

    def _parts(self, schema: Schema) -> list[Mechanism]:
        if check_choice("interval", self.interval, COVERS) != "none":
            return super()._parts(schema)
        columns, levels = numeric_columns(schema), self._levels()
        share = check_epsilon(self.epsilon) / len(columns)
        return [KNormQuantiles(schema, column, levels, epsilon=share) for column in columns]

    def _shaped(self, values: FloatArray) -> FloatArray:
        # what holds for all values holds for them in order
        return np.sort(values.reshape(-1, len(self._levels())), axis=1)
