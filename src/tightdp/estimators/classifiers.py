"""Classifiers: their labels are public facts, stated by the user, never found out in silence."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any, ClassVar

import numpy as np
from numpy.typing import NDArray
from sklearn.base import ClassifierMixin
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets
from sklearn.utils.validation import check_is_fitted

from tightdp.accepted import TableLike
from tightdp.convex.margin_losses import margins
from tightdp.data.columns import open_column
from tightdp.data.design_matrix import DesignMatrix
from tightdp.errors import FloatArray, fail
from tightdp.estimators.inputs import Bounds, Column, Problem, target_cells
from tightdp.estimators.private_estimator import M, PrivateEstimator
from tightdp.randomness import RandomSource
from tightdp.release import Release
from tightdp.schema import Category, Schema
from tightdp.values import nearest_double

OBSERVED = "observed"
"""Said of classes by a user for whom the labels that occur in ``y`` are public themselves."""

_HELP = (
    "`classes` must state the public labels, or a schema must hold the target as a Category: a "
    "table is not searched for its labels, because one that a single person has would show that "
    "the person is there."
)


class Classifier(ClassifierMixin, PrivateEstimator[M]):  # type: ignore[misc]
    """Base of classifiers: ``classes_`` are public.

    Parameters
    ----------
    classes : sequence of labels, or "observed"
        All public labels, those that are not in the table included; they may be left out where a
        schema has them. "observed" takes those that occur in ``y`` to be public, which lets errors
        depend on them. Missing and unseen labels count as the first one.

    Attributes
    ----------
    classes_ : array, shape (classes,)
    """

    classes: Sequence[Any] | str | None = None

    _most_classes: ClassVar[int | None] = None

    def _target_column(self, y: object) -> Column | None:
        """The public classes; None where the schema states them, or where ``y`` is missing."""
        if self.classes is not None and not self._observed():
            return self._labels(self.classes)
        if y is None or _schema_knows(self.bounds, y):
            return None  # the base says that y is needed, or reads the schema
        if self.classes is None:
            fail(_HELP + " Say classes='observed' if the labels in `y` are public themselves.")
        if isinstance(y, str):
            fail(_HELP)
        return self._labels(_observed_labels(y))

    def _observed(self) -> bool:
        return isinstance(self.classes, str) and self.classes == OBSERVED

    def _labels(self, labels: Iterable[Any]) -> Category:
        """The public labels as a category, or the reason why there cannot be so many."""
        found = class_labels(labels)
        if self._most_classes is not None and len(found.levels) > self._most_classes:
            fail(
                f"Only binary classification is supported. Got {len(found.levels)} classes: "
                "LogisticRegression takes more; or fit one class against the rest, and share "
                "epsilon among the fits."
            )
        return found

    def _fit(self, problem: Problem, key: str | None, rng: RandomSource) -> Release:
        release = super()._fit(problem, key, rng)
        label = problem.schema[problem.target]
        assert isinstance(label, Category)  # the mechanism took it
        self.classes_ = label_array(label.levels)
        return release

    @abstractmethod
    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Logarithms of the probabilities of the classes, shape (n, classes)."""

    def predict_proba(self, X: TableLike) -> FloatArray:
        """Probabilities of the classes, shape (n, classes)."""
        return np.exp(self.predict_log_proba(X))


class LinearLogit(Classifier[M]):
    """Base of classifiers whose log odds are linear in the columns.

    Parameters
    ----------
    fit_intercept : bool
        Without an intercept the plane passes through the zero of the user's units.

    Attributes
    ----------
    coef_ : array, shape (1, coefficients) for two classes, (classes, coefficients) for more
        One column for every name in ``coef_names_``, in user units.
    coef_names_ : tuple of str
    intercept_ : array, shape (1,) or (classes,)
    classes_ : array, shape (classes,)
        Of two, the second is the positive one.
    """

    fit_intercept: bool = True

    def _take_planes(self, value: FloatArray, design: DesignMatrix) -> None:
        """Set coefficients and intercepts from released entries."""
        first, width = int(design.intercept), len(design.names)
        label = design.schema[design.target]
        assert isinstance(label, Category)
        planes = 1 if len(label.levels) == 2 else len(label.levels)
        found = value[: planes * width].reshape(planes, width)
        self.coef_names_ = design.design
        self.coef_ = found[:, first:].copy()
        self.intercept_ = found[:, 0].copy() if first else np.zeros(planes)

    def decision_function(self, X: TableLike) -> FloatArray:
        """Log odds of the second class, or of all; cells are clamped to the bounds, as in the fit.

        Of more than two classes: one column each, logarithms of probabilities up to a constant.
        """
        rows = self._design_rows(X)
        planes = [margins(rows, c) + b for c, b in zip(self.coef_, self.intercept_, strict=True)]
        return planes[0] if len(planes) == 1 else np.column_stack(planes)

    def predict_log_proba(self, X: TableLike) -> FloatArray:
        """Logarithms of the probabilities, without underflow."""
        odds = self.decision_function(X)
        if odds.ndim == 1:
            return -np.column_stack([np.logaddexp(0.0, odds), np.logaddexp(0.0, -odds)])
        return np.asarray(odds - np.logaddexp.reduce(odds, axis=1)[:, None])

    def predict(self, X: TableLike) -> NDArray[Any]:
        """The likeliest class of every row."""
        check_is_fitted(self, "release_")
        odds = self.decision_function(X)
        best = (odds > 0).astype(int) if odds.ndim == 1 else odds.argmax(axis=1)
        return np.asarray(self.classes_[best])


class TwoClassLogit(LinearLogit[M]):
    """Base of those that are for two classes only."""

    _most_classes = 2

    def __sklearn_tags__(self) -> Any:
        tags = super().__sklearn_tags__()
        tags.classifier_tags.multi_class = False
        return tags


def class_labels(labels: Any) -> Category:
    """Two or more public labels as a category; missing and unseen labels count as the first."""
    if isinstance(labels, str):
        fail(f"`classes` must be a sequence of labels, or {OBSERVED!r}. Got {labels!r}.")
    try:
        levels = [label.item() if isinstance(label, np.generic) else label for label in labels]
    except TypeError:
        fail("`classes` must be a sequence of labels.")
    if len(levels) < 2:
        fail(
            f"Two classes are needed, got {len(levels)} class: if others exist but are not in "
            "this table, state all of them with `classes`."
        )
    return Category(levels, other=levels[0])


def label_array(levels: Sequence[Any]) -> NDArray[Any]:
    """The labels as they were stated: texts and numbers side by side stay what they are.

    >>> label_array([0, "a"]).tolist(), label_array([0, 1]).dtype.kind
    ([0, 'a'], 'i')
    """
    mixed = len({isinstance(level, str) for level in levels}) > 1
    return np.array(levels, dtype=object if mixed else None)


def _observed_labels(y: object) -> list[Any]:
    """The distinct labels in order, numbers first; they are public here, and missing is none."""
    column = open_column(target_cells(y))
    labels = list(dict.fromkeys(column.cells(0, len(column)).values()))
    texts = sorted(label for label in labels if isinstance(label, str))
    numbers = [label for label in labels if not isinstance(label, str)]
    doubles = np.array([nearest_double(label) for label in numbers])
    assert_all_finite(doubles, input_name="y")
    if numbers:
        check_classification_targets(doubles)
    return [*sorted(numbers), *texts]


def _schema_knows(bounds: Bounds, y: object) -> bool:
    """Whether a schema states the classes, as far as names tell."""
    if not isinstance(bounds, Schema):
        return False
    if isinstance(y, str):
        return y in bounds.columns and isinstance(bounds[y], Category)
    return any(isinstance(column, Category) for column in bounds.columns.values())
