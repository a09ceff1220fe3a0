"""Private quantile regression."""

from __future__ import annotations

import numpy as np
from sklearn.base import RegressorMixin

from tightdp.accepted import Number, TableLike
from tightdp.errors import FloatArray
from tightdp.estimators.inputs import Problem
from tightdp.estimators.private_estimator import (
    NO_TESTS,
    PRINTED,
    Lacking,
    PrivateEstimator,
    parameter,
)
from tightdp.mechanisms.quantile_regression import KNormQuantileRegression
from tightdp.release import Release


class QuantileRegression(
    RegressorMixin,  # type: ignore[misc]
    PrivateEstimator[KNormQuantileRegression],
):
    r"""The plane below which a share tau of the rows lies, under differential privacy.

    ``fit`` draws the coefficients exactly from the law of
    :class:`~tightdp.KNormQuantileRegression`: planes whose check loss has a small gradient come
    more often.

    **Privacy.**
    Statement: ``fit`` is epsilon-DP under replace-one (add-remove if the schema says so).
    Needs: ``bounds`` are public facts, not read off the data.
    Proof: that of the mechanism; predictions are computed from the coefficients.
    Numerics: ``exact`` (``approximate-sampler`` for chains).

    Parameters
    ----------
    bounds : pair, list of pairs, or Schema
        Public bounds: one pair for all columns, pairs for the features and then the target, or a
        Schema of intervals.
    tau : float or Fraction
        The quantile level, in (0, 1).
    fit_intercept : bool
    radius : float
        Bound on the coefficients of the columns scaled to [-1, 1]. With shape "l1" and radius 1
        these are the planes that stay within the bounds of the target.
    shape : {"l1", "box"}
        Whether ``radius`` bounds the sum of the sizes of the coefficients, or each of them.
    sampler : {"exact", "mcmc"}
        Exact draws take up to four coefficients, five for up to 1,438 rows. A Markov chain takes
        more, but only approaches the law: the fit is then **not** epsilon-DP, and its guarantee
        says ``approximate-sampler``.
    most_steps : int, optional
        The work that you accept at worst, lines of planes times rows; 2**30 by default, which takes
        minutes. More makes the lattice of coefficients finer, which many rows are worth.

    Attributes
    ----------
    coef_ : array
        In user units.
    intercept_ : float
    gradient_radius_ : float
        With probability 95 % the gradient at the released plane exceeds the smallest one by at most
        this many sensitivities. With an intercept, and if some plane of the lattice has a gradient
        near zero, the number of rows below the plane is within it of tau * n.

    Notes
    -----
    There is no ``conf_int``: how far coefficients move for a given gradient depends on the density
    of the rows around the plane, which is private. The noise is of order 1/n, the sampling error of
    order one over the square root of n: for many rows the error is that of the estimate without
    privacy, and half a step of the lattice. From 500,000 rows on with one feature, or 50,000 with
    two, that step is the larger part, unless ``most_steps`` allows a smaller one.

    Examples
    --------
    >>> rng = np.random.default_rng(1)
    >>> x = rng.uniform(0, 10, 5000)
    >>> y = 1 + 0.5 * x + rng.normal(0, 1, 5000)
    >>> model = QuantileRegression(epsilon=2.0, bounds=[(0, 10), (-5, 15)], tau=0.9)
    >>> model.fit(x[:, None], y).coef_.round(1)
    array([0.5])
    >>> bool(abs(np.mean(y <= model.predict(x[:, None])) - 0.9) < 0.03)
    True
    """

    tau: Number = parameter(default=0.5, kw_only=False)
    fit_intercept: bool = True
    radius: Number = 1.0
    shape: str = "l1"
    sampler: str = "exact"
    most_steps: int | None = None

    conf_int = Lacking(
        "how far coefficients move for a given gradient depends on how many rows lie near the "
        "plane, which is private. LinearRegression has intervals, for the mean."
    )
    summary = Lacking(f"there are no intervals to print. {PRINTED}")
    test = Lacking(NO_TESTS)

    _leading = ("epsilon", "bounds", "tau")

    def _mechanism(self, problem: Problem) -> KNormQuantileRegression:
        return self._model(KNormQuantileRegression, problem)

    def _read(self, mechanism: KNormQuantileRegression, release: Release) -> Release:
        first = 1 if self.fit_intercept else 0
        self.intercept_ = float(release.value[0]) if self.fit_intercept else 0.0
        self.coef_ = release.value[first:]
        self.gradient_radius_ = mechanism.gradient_radius(0.95)
        return release

    def predict(self, X: TableLike) -> FloatArray:
        """The quantile at rows, which pass through the same clamp as in ``fit``."""
        return np.asarray(self._design_rows(X) @ self.coef_ + self.intercept_)
