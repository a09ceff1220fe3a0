"""What a pipeline learns from the rows before a private estimator sees them is not private.

The steps are looked at, never the rows: the warning is the same for every table.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Iterator
from typing import Any

from sklearn.compose import ColumnTransformer, TransformedTargetRegressor
from sklearn.pipeline import FeatureUnion, Pipeline
from sklearn.utils import get_tags

from tightdp.errors import PrivacyWarning


def warn_of_learned_steps(estimator: object) -> None:
    """Warn if ``estimator`` is being fitted behind steps that were fitted on the same rows.

    Scikit-learn does not tell an estimator what it is part of, so the calls that led here are
    asked: a pipeline that ends in the estimator, or a regressor whose target is transformed.
    """
    names = sorted({type(step).__name__ for step in _before(estimator) if _learns(step)})
    if names:
        warnings.warn(
            f"{', '.join(names)} learned from the rows before {type(estimator).__name__} did, "
            "without noise: the guarantee does not cover what this reveals. Scale by public bounds "
            "instead: `bounds` does it.",
            PrivacyWarning,
            stacklevel=3,
        )


def _before(estimator: object) -> Iterator[Any]:
    """All steps that rows pass before they reach the estimator, innermost first."""
    inner, frame = estimator, sys._getframe(1)
    while frame is not None:
        owner = frame.f_locals.get("self")
        if isinstance(owner, Pipeline) and owner.steps and owner.steps[-1][1] is inner:
            yield from (step for _, step in owner.steps[:-1])
            inner = owner
        elif isinstance(owner, TransformedTargetRegressor):
            yield owner.transformer
        frame = frame.f_back  # type: ignore[assignment]


def _learns(step: object) -> bool:
    """Whether a step is fitted on rows; steps that hold others are asked for theirs."""
    if step is None or isinstance(step, str):  # nothing, "drop" or "passthrough"
        return False
    if isinstance(step, Pipeline):
        return any(_learns(inner) for _, inner in step.steps)
    if isinstance(step, FeatureUnion):
        return any(_learns(inner) for _, inner in step.transformer_list)
    if isinstance(step, ColumnTransformer):
        return any(_learns(inner) for _, inner, _ in step.transformers)
    return bool(get_tags(step).requires_fit)
