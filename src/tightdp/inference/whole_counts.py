"""Counts as people print them: integers that are not negative and have the right total."""

from __future__ import annotations

import numpy as np

from tightdp.errors import FloatArray


def on_simplex(values: FloatArray, total: float) -> FloatArray:
    r"""The nearest point of :math:`\{x \ge 0, \sum x = t\}`: a common amount off, cut at zero.

    The amount solves :math:`\sum \max(v_i - a, 0) = t`; by the conditions of Kuhn and Tucker that
    is the projection.

    >>> on_simplex(np.array([5.0, -1.0, 2.0]), 6.0)
    array([4.5, 0. , 1.5])
    """
    ordered = np.sort(values)[::-1]
    above = (np.cumsum(ordered) - total) / np.arange(1, len(values) + 1)
    amount = above[np.flatnonzero(ordered > above)[-1]]
    out = np.maximum(values - amount, 0.0)
    return np.asarray(out * (total / out.sum()))


def whole_counts(values: FloatArray, total: int) -> FloatArray:
    """Non-negative integers of a total near noisy counts: projected, then rounded.

    Fractions are rounded down, and the largest of them up, as many as the total asks for; of equal
    ones the first.

    >>> whole_counts(np.array([2.6, -1.0, 2.6, 0.1]), 5)
    array([3., 0., 2., 0.])
    """
    if total == 0:
        return np.zeros_like(values)
    real = on_simplex(values, float(total))
    low = np.floor(real)
    missing = total - int(low.sum())
    order = np.argsort(-(real - low), kind="stable")
    low[order[:missing]] += 1
    return low
