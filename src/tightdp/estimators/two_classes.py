"""Predictions from log odds that are linear in the columns, for two public classes."""

from __future__ import annotations

from typing import Any

import numpy as np
from sklearn.base import ClassifierMixin
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import TableLike
from tightdp.convex.margin_losses import margins
from tightdp.data.design_matrix import DesignMatrix
from tightdp.errors import FloatArray, fail
from tightdp.estimators.labels import class_labels
from tightdp.estimators.private_estimator import PrivateEstimator
from tightdp.schema import Category


class TwoClassLogit(ClassifierMixin, PrivateEstimator):  # type: ignore[misc]
    """Base of classifiers with ``coef_``, ``intercept_`` and two ``classes_``."""

    coef_: FloatArray
    intercept_: FloatArray
    coef_names_: tuple[str, ...]
    classes_: Any

    def _take_plane(self, value: FloatArray, design: DesignMatrix) -> None:
        """Set coefficients and intercept from released entries."""
        first, last = int(design.intercept), len(design.names)
        self.coef_names_ = design.design
        self.coef_ = value[None, first:last].copy()
        self.intercept_ = value[:1].copy() if first else np.zeros(1)

    def decision_function(self, X: TableLike) -> FloatArray:
        """Log odds of the second class; cells are clamped to the bounds, as in the fit."""
        return margins(self._design_rows(X), self.coef_[0]) + self.intercept_[0]

    def predict_proba(self, X: TableLike) -> FloatArray:
        """Probabilities of the two classes, shape (n, 2)."""
        odds = self.decision_function(X)
        return np.column_stack([_expit(-odds), _expit(odds)])

    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Logarithms of the probabilities, without underflow."""
        odds = self.decision_function(X)
        return -np.column_stack([np.logaddexp(0.0, odds), np.logaddexp(0.0, -odds)])

    def predict(self, X: TableLike) -> Any:
        """The likelier class of every row."""
        check_is_fitted(self, "release_")
        return self.classes_[(self.decision_function(X) > 0).astype(int)]

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def two_labels(labels: object) -> Category:
    """The public labels as a category, or the reason why there cannot be more than two."""
    found = class_labels(labels)
    if len(found.levels) > 2:
        fail(
            f"Only binary classification is supported. Got {len(found.levels)} classes: a softmax "
            "loss has Hessians of higher rank, and needs a proof and a sensitivity of its own. Fit "
            "one class against the rest, and share epsilon among the fits."
        )
    return found


def _expit(t: FloatArray) -> FloatArray:
    return np.exp(-np.logaddexp(0.0, -t))
