"""Private means, variances and geometric medians of the columns of a table."""

from __future__ import annotations

from abc import abstractmethod
from pathlib import Path
from typing import Any

import numpy as np
from sklearn.utils.validation import validate_data

from tightdp.errors import FloatArray, fail
from tightdp.estimators.base import PrivateEstimator
from tightdp.estimators.inputs import Problem, named_columns, public_rows, stated
from tightdp.mechanisms.gradient_median import KNormGeometricMedian
from tightdp.mechanisms.one_line import mean, variance
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Interval, Schema


class Location(PrivateEstimator):
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

    def _problem(self, X: Any, y: Any) -> Problem:
        named = None if isinstance(X, (np.ndarray, list, tuple)) else named_columns(X)
        if isinstance(X, (str, Path)):
            named = None
        elif named is None and not isinstance(self.bounds, Schema):
            X = validate_data(self, X, dtype=None, ensure_all_finite=False)
            X = {f"x{j}": X[:, j] for j in range(X.shape[1])}
            named = list(X)
        schema = self._facts(X, named)
        names = list(schema)
        self._remember(tuple(names))
        # the last column stands where other problems have their target
        return Problem(X, schema, tuple(names[:-1]), names[-1])

    def _facts(self, X: Any, names: list[str] | None) -> Schema:
        rows = public_rows(X)
        if isinstance(self.bounds, Schema):
            given = self.bounds
            if rows is None or str(given.neighbors) == "add-remove":
                return given
            return Schema(given.columns, rows=rows, neighbors=given.neighbors, bits=given.bits)
        if names is None or rows is None:
            fail("A path, a relation or a Spark frame needs a Schema as `bounds`.")
        return stated(self.bounds, names[:-1], names[-1], rows, None)

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
