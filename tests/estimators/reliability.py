"""Whether probabilities can be taken at their word: stated and true hits over many tables."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

TOLERANCE = 0.05  # the calibration error that the documentation allows

Array = NDArray[np.float64]


def excess(proba: Array, truth: NDArray[Any]) -> Array:
    """Stated less true hits per row, in ten classes of confidence."""
    sure, hit = proba.max(axis=1), proba.argmax(axis=1) == truth
    at = np.minimum((10 * sure).astype(int), 9)
    return np.bincount(at, weights=sure - hit, minlength=10) / len(truth)


def limit(found: Array) -> float:
    """What the calibration error over independent tables, shape (tables, 10), may be by chance.

    The mean of a class of confidence has a standard error s that is estimated from the tables, its
    absolute value a mean of sqrt(2/pi) s and a deviation below 0.61 s. Five of these beyond the
    mean are a chance of one in a million.
    """
    chance = found.std(axis=0) / np.sqrt(len(found))
    return float(TOLERANCE + 0.8 * chance.sum() + 5 * 0.61 * np.sqrt((chance**2).sum()))
