r"""The error of regression coefficients to expect, from public facts alone.

Least squares solves :math:`A\theta = b` for the mean products A of (1, x), and b of (1, x) with y.
Noise dA and db moves the solution by :math:`A^{-1}(db - dA\,\theta)` to first order, so the
covariance of the coefficients is a linear image of that of the noise, which is known. What is not
public is replaced by a public guess: features that fill their bounds evenly, levels that are
equally likely, columns that are independent, and scaled coefficients of a stated length.
"""

from __future__ import annotations

import numpy as np

from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import FloatArray
from tightdp.inference.coefficient_intervals import moved
from tightdp.randomness import SeededSource

_SEED, _DIRECTIONS = 20_190_606, 16  # directions of the coefficients, averaged


def even_moments(moments: RegressionMoments, slopes: FloatArray, spread: float = 1.0) -> FloatArray:
    """Mean products of (1, x, y) for even, independent features and y = slopes @ (x - mean).

    Numeric features fill the middle of their bounds, a share ``spread`` of them.
    """
    mean = np.zeros(len(moments.design))
    within = np.zeros((len(mean), len(mean)))
    for levels, where in zip(moments.layout.groups, moments.places.values(), strict=True):
        places = slice(where.start - 1, where.stop - 1)
        if levels:
            mean[places] = 1 / (levels + 1)
            within[places, places] = np.eye(levels) / (levels + 1) - 1 / (levels + 1) ** 2
        else:
            within[places, places] = spread**2 / 3
    covariance = within @ slopes
    size = len(mean) + 2
    out = np.zeros((size, size))
    out[0, 0], out[0, 1:-1], out[1:-1, 0] = 1.0, mean, mean
    out[1:-1, 1:-1] = within + np.outer(mean, mean)
    out[1:-1, -1] = out[-1, 1:-1] = covariance
    out[-1, -1] = 1 / 3
    return out


def coefficient_covariance(
    moments: RegressionMoments,
    noise: FloatArray,
    covariance: FloatArray,
    *,
    length: float,
    shift: FloatArray | None = None,
    spread: float = 1.0,
) -> FloatArray:
    """The covariance of (intercept, slopes) for scaled columns.

    Parameters
    ----------
    moments : RegressionMoments
    noise : array, shape (entries, q + 2, q + 2)
        What one unit of noise on each entry does to the mean products.
    covariance : array
        Of the noise on the entries.
    length : float
        Squared length of the scaled slopes.
    shift : array, optional
        Where zero lies, for a plane through it; None for one with an intercept.
    spread : float
        The share of their bounds that numeric features fill.
    """
    first, width = (0 if shift is None else 1), len(moments.design)
    signs = 2.0 * SeededSource(_SEED).integers(2, (_DIRECTIONS, width)) - 1.0
    if shift is not None:
        noise = np.array([moved(one, shift) for one in noise])
    total = np.zeros((width + 1, width + 1))
    for direction in signs:
        M = even_moments(moments, direction * np.sqrt(length / width), spread)
        M = M if shift is None else moved(M, shift)
        A, b = M[first:-1, first:-1], M[first:-1, -1]
        theta = np.linalg.solve(A, b)
        push = noise[:, first:-1, -1] - noise[:, first:-1, first:-1] @ theta
        effect = np.zeros((width + 1, len(noise)))
        effect[first:] = np.linalg.solve(A, push.T)
        total += effect @ covariance @ effect.T
    return total / _DIRECTIONS
