"""Intervals from simulated values: one at a time, or all at once."""

from __future__ import annotations

import numpy as np

from tightdp.errors import FloatArray, check_probability


def quantile_intervals(
    values: FloatArray, alpha: float, upper: FloatArray | None = None
) -> FloatArray:
    """Rows (low, high) that hold all but alpha of the values, equal tails.

    The ends are values, the next ones outwards: between infinite ones there is nothing to
    interpolate. Where draws are intervals themselves, ``values`` are their lower and ``upper``
    their upper ends.

    >>> quantile_intervals(np.array([[-np.inf], [0.0], [np.inf]]), 0.1)
    array([[-inf,  inf]])
    """
    tail = check_probability("alpha", alpha) / 2
    above = values if upper is None else upper
    low = np.quantile(values, tail, axis=0, method="lower")
    return np.column_stack([low, np.quantile(above, 1 - tail, axis=0, method="higher")])


def simultaneous_intervals(
    values: FloatArray, alpha: float, upper: FloatArray | None = None
) -> FloatArray:
    """Rows (low, high) that hold whole vectors of values but for a share alpha.

    Equal-tailed intervals with one common tail, which is halved until the share is reached. See
    :func:`quantile_intervals` for ``upper``.
    """
    check_probability("alpha", alpha)
    above = values if upper is None else upper
    low_order, high_order = np.sort(values, axis=0), np.sort(above, axis=0)
    at_most, at_least = np.empty(values.shape), np.empty(values.shape)
    for j in range(values.shape[1]):  # ties count on both sides: a constant cuts nobody off
        at_most[:, j] = np.searchsorted(low_order[:, j], values[:, j], side="right")
        at_least[:, j] = len(values) - np.searchsorted(high_order[:, j], above[:, j], side="left")
    depth = np.minimum(at_most, at_least).min(axis=1)  # how central a vector is at worst
    cut = max(int(np.quantile(depth, alpha, method="lower")), 1)
    return np.column_stack([low_order[cut - 1], high_order[len(values) - cut]])


def pulled(values: FloatArray, bounds: FloatArray) -> str | None:
    """What must be said where an estimate lies outside its own interval, or None."""
    outside = ((values < bounds[:, 0]) | (values > bounds[:, 1])).any()
    words = "where an estimate lies outside its interval, much noise has pulled it towards zero"
    return f"{words}: go by the interval" if outside else None
