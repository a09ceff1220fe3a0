"""Private linear regression on a few columns of many."""

from __future__ import annotations

from typing import Any

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
)
from tightdp.mechanisms.sparse_least_squares import SparseLeastSquares
from tightdp.release import Release


class SparseLinearRegression(RegressorMixin, PrivateEstimator[SparseLeastSquares]):  # type: ignore[misc]
    r"""Least squares on ``keep`` columns of many, chosen under differential privacy.

    Columns are chosen by their covariances with the target, the rest of the budget pays for the fit
    on them (:class:`~tightdp.mechanisms.sparse_least_squares.SparseLeastSquares`). For few
    columns :class:`~tightdp.LinearRegression`, which needs no choice, is more accurate, and has
    intervals; here there are none, because a choice by the same rows biases what is chosen.

    **Privacy.**
    Statement: ``fit`` is epsilon-DP under replace-one, choice and fit together.
    Needs: ``bounds``, the number of rows and ``keep`` are public facts.
    Proof: 1. :attr:`release_` is epsilon-DP by the proof of the mechanism. 2. Predictions are
    functions of it and of public facts.
    Numerics: ``exact``.

    Parameters
    ----------
    bounds : pair, list of pairs, or Schema
        Public bounds of numeric columns. Cells outside are moved to the nearer bound.
    keep : int
        How many columns are chosen; at most five, where there are no more, by default.
    share : float, Fraction or Decimal
        The part of epsilon that pays for the choice.

    Attributes
    ----------
    coef_ : array, shape (features,)
        In user units; 0 for columns that were not chosen.
    intercept_ : float
    chosen_ : tuple of str
        Names of the chosen columns.

    Examples
    --------
    >>> import numpy as np
    >>> X = np.random.default_rng(1).uniform(-1, 1, (50_000, 40))
    >>> y = 2 * X[:, 3] - 1.5 * X[:, 7]
    >>> model = SparseLinearRegression(
    ...     epsilon=4.0, bounds=[(-1, 1)] * 40 + [(-4, 4)], keep=2, random_state=1)
    >>> model.fit(X, y).chosen_
    ('x3', 'x7')
    >>> bool(np.abs(model.coef_[[3, 7]] - [2, -1.5]).max() < 0.1)
    True
    """

    keep: int | None = None
    share: Number = 0.5

    conf_int = Lacking(
        "columns were chosen by the rows that the fit uses, so that intervals around it would miss "
        "too often. Give LinearRegression columns that are known without these rows, or the chosen "
        "ones and other rows: it has intervals."
    )
    summary = Lacking(f"there are no intervals to print. {PRINTED}")
    test = Lacking(NO_TESTS)

    def _mechanism(self, problem: Problem) -> SparseLeastSquares:
        return self._model(SparseLeastSquares, problem)

    def _read(self, mechanism: SparseLeastSquares, release: Release) -> Release:
        self.intercept_, self.coef_ = float(release.value[0]), release.value[1:].copy()
        chosen = np.flatnonzero(np.array(release.integers[1:], dtype=object))
        self.chosen_ = tuple(mechanism.features[place] for place in chosen)
        return release

    def predict(self, X: TableLike) -> FloatArray:
        """Predictions for rows, which pass through the same clamp as in ``fit``."""
        return np.asarray(self._design_rows(X) @ self.coef_ + self.intercept_)

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.regressor_tags.poor_score = True  # noise may drown a small table
        return tags
