"""Private means, variances and geometric medians of the columns of a table."""

from __future__ import annotations

from abc import abstractmethod
from typing import Any

from tightdp.errors import FloatArray, fail
from tightdp.estimators.inputs import Problem
from tightdp.estimators.untargeted import Untargeted
from tightdp.mechanisms.gradient_median import KNormGeometricMedian
from tightdp.mechanisms.one_line import mean, variance
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
        ledger: Any = None,
        random_state: Any = None,
    ) -> None:
        self.epsilon = epsilon
        self.bounds = bounds
        self.ledger = ledger
        self.random_state = random_state

    def _check_parameters(self) -> None:
        """There is nothing beside epsilon and the bounds."""

    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        options = {"ledger": self.ledger, "key": key, "rng": rng}
        release = self._release(problem.frame, problem.schema, options)
        self.location_ = release.value
        return release

    @abstractmethod
    def _release(self, frame: Any, schema: Schema, options: dict[str, Any]) -> Release:
        """Pay for and draw the release."""


class Mean(Location):
    """The means of the columns, with exact noise; see :func:`tightdp.mean`.

    **Privacy.** ``fit`` is epsilon-DP under the neighbour relation of the schema (replace-one by
    default) by the proof of :class:`~tightdp.AdditiveMechanism`. Numerics: ``exact``.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
    ledger : Ledger, optional
    random_state : None or a seed

    Attributes
    ----------
    location_ : array
    release_ : Release
        With standard errors of the noise and intervals.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 10, 2002).reshape(1001, 2)
    >>> Mean(epsilon=5.0, bounds=(0, 10)).fit(X).location_.round(0)
    array([5., 5.])
    """

    def _release(self, frame: Any, schema: Schema, options: dict[str, Any]) -> Release:
        return mean(frame, _numeric(schema), schema=schema, epsilon=self.epsilon, **options)


class Variance(Location):
    """The variances of the columns (divisor n), with exact noise; see :func:`tightdp.variance`.

    **Privacy.** ``fit`` is epsilon-DP under replace-one by the proof of
    :class:`~tightdp.AdditiveMechanism`. Numerics: ``exact``.

    Parameters
    ----------
    epsilon : float, Fraction or Decimal
    bounds : pair, list of pairs, or Schema
    ledger : Ledger, optional
    random_state : None or a seed

    Attributes
    ----------
    location_ : array
        The variances.
    release_ : Release

    Examples
    --------
    >>> import numpy as np
    >>> X = np.linspace(0, 12, 4001)[:, None]
    >>> Variance(epsilon=5.0, bounds=(0, 12)).fit(X).location_.round(0)
    array([12.])
    """

    def _release(self, frame: Any, schema: Schema, options: dict[str, Any]) -> Release:
        return variance(frame, _numeric(schema), schema=schema, epsilon=self.epsilon, **options)


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
    ledger : Ledger, optional
    random_state : None or a seed

    Attributes
    ----------
    location_ : array
    release_ : Release
        Its half-widths are those of the bounds: how far the noise reaches depends on the rows.

    Examples
    --------
    >>> import numpy as np
    >>> rng = np.random.default_rng(1)
    >>> X = rng.normal([2.0, 7.0], 0.5, (2000, 2))
    >>> GeometricMedian(epsilon=4.0, bounds=(0, 10)).fit(X).location_.round(0)
    array([2., 7.])
    """

    def _release(self, frame: Any, schema: Schema, options: dict[str, Any]) -> Release:
        mechanism = KNormGeometricMedian(schema, epsilon=self.epsilon)
        return mechanism.release(frame, **options)


def _numeric(schema: Schema) -> list[str]:
    for name in schema:
        if not isinstance(schema[name], Interval):
            fail(f"Column {name!r} must be an Interval: levels have no mean.")
    return list(schema)
