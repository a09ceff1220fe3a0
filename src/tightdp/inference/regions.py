"""Intervals from simulated values: one at a time, or all at once."""

from __future__ import annotations

import numpy as np

from tightdp.errors import FloatArray, check_probability


def quantile_intervals(values: FloatArray, alpha: float) -> FloatArray:
    """Rows (low, high) that hold all but alpha of the values, equal tails.

    The ends are values, the next ones outwards: between infinite ones there is nothing to
    interpolate.

    >>> quantile_intervals(np.array([[-np.inf], [0.0], [np.inf]]), 0.1)
    array([[-inf,  inf]])
    """
    tail = check_probability("alpha", alpha) / 2
    low = np.quantile(values, tail, axis=0, method="lower")
    return np.column_stack([low, np.quantile(values, 1 - tail, axis=0, method="higher")])


def simultaneous_intervals(values: FloatArray, alpha: float) -> FloatArray:
    """Rows (low, high) that hold whole vectors of values but for a share alpha.

    Equal-tailed intervals with one common tail, which is halved until the share is reached.
    """
    check_probability("alpha", alpha)
    order = np.sort(values, axis=0)
    rank = np.empty(values.shape)
    for j in range(values.shape[1]):
        rank[:, j] = np.searchsorted(order[:, j], values[:, j], side="right")
    depth = np.minimum(rank, len(values) + 1 - rank).min(axis=1)  # how central a vector is at worst
    cut = int(np.quantile(depth, alpha, method="lower"))
    cut = max(cut, 1)
    return np.column_stack([order[cut - 1], order[len(values) - cut]])
