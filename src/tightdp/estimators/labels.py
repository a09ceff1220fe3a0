"""The labels of a classifier are public facts: stated by the user, never found out in silence."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
from numpy.typing import NDArray
from sklearn.utils import assert_all_finite
from sklearn.utils.multiclass import check_classification_targets

from tightdp.data.columns import open_column
from tightdp.errors import fail
from tightdp.estimators.inputs import target_cells
from tightdp.schema import Category, Schema
from tightdp.values import nearest_double

OBSERVED = "observed"
"""Said of classes by a user for whom the labels that occur in ``y`` are public themselves."""

_HELP = (
    "`classes` must state the public labels, or a schema must hold the target as a Category: a "
    "table is not searched for its labels, because one that a single person has would show that "
    "the person is there."
)


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


def check_classes(classes: object, read: Callable[[Any], Category] = class_labels) -> None:
    """Raise on classes that cannot be; None and "observed" are settled when ``y`` is known."""
    if classes is not None and not _observed(classes):
        read(classes)


def target_classes(
    classes: object, bounds: object, y: object, read: Callable[[Any], Category] = class_labels
) -> Category | None:
    """The public classes; None where the schema states them, or where ``y`` is missing."""
    if classes is not None and not _observed(classes):
        return read(classes)
    if y is None or _schema_knows(bounds, y):
        return None  # the base says that y is needed, or reads the schema
    if classes is None:
        fail(_HELP + " Say classes='observed' if the labels in `y` are public themselves.")
    if isinstance(y, str):
        fail(_HELP)
    return read(_observed_labels(y))


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


def _observed(classes: object) -> bool:
    return isinstance(classes, str) and classes == OBSERVED


def _schema_knows(bounds: object, y: object) -> bool:
    """Whether a schema states the classes, as far as names tell."""
    if not isinstance(bounds, Schema):
        return False
    if isinstance(y, str):
        return y in bounds.columns and isinstance(bounds[y], Category)
    return any(isinstance(column, Category) for column in bounds.columns.values())
