r"""The error of regression coefficients to expect, from public facts alone.

Least squares solves :math:`A\theta = b` for the mean products A of (1, x), and b of (1, x) with y.
Noise dA and db moves the solution by :math:`A^{-1}(db - dA\,\theta)` to first order, so the
covariance of the coefficients is a linear image of that of the noise, which is known. What is not
public is replaced by a public guess: features that fill their bounds evenly, levels that are
equally likely, columns that are independent, and scaled coefficients of a stated length.
"""

from __future__ import annotations

from collections.abc import Mapping

import numpy as np

from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import FloatArray
from tightdp.inference.coefficient_intervals import moved
from tightdp.randomness import SeededSource

_SEED, _DIRECTIONS = 20_190_606, 16  # directions of the coefficients, averaged


Spread = float | Mapping[str, float]


def even_moments(
    moments: RegressionMoments,
    slopes: FloatArray,
    spread: Spread = 1.0,
    correlation: float = 0.0,
) -> FloatArray:
    """Mean products of (1, x, y) for even features and y = slopes @ (x - mean).

    Numeric features fill the middle of their bounds, a share ``spread`` of them (or one for each,
    all of them where none is stated), and have one correlation.
    """
    mean = np.zeros(len(moments.design))
    within = np.zeros((len(mean), len(mean)))
    width = np.zeros(len(mean))
    places_of = zip(moments.layout.groups, moments.places.items(), strict=True)
    for levels, (name, where) in places_of:
        places = slice(where.start - 1, where.stop - 1)
        if levels:
            mean[places] = 1 / (levels + 1)
            within[places, places] = np.eye(levels) / (levels + 1) - 1 / (levels + 1) ** 2
        else:
            width[places] = spread.get(name, 1.0) if isinstance(spread, Mapping) else spread
    common = correlation + (1 - correlation) * np.eye(len(mean))
    within += np.outer(width, width) * common / 3
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
    covariance: FloatArray,
    *,
    length: float,
    shift: FloatArray | None = None,
    spread: Spread = 1.0,
    correlation: float = 0.0,
) -> FloatArray:
    """The covariance of (intercept, slopes) for scaled columns.

    Parameters
    ----------
    moments : RegressionMoments
    covariance : array
        Of the noise on the entries, divided by the number of rows; or their variances.
    length : float
        Squared length of the scaled slopes.
    shift : array, optional
        Where zero lies, for a plane through it; None for one with an intercept.
    spread, correlation :
        The share of their bounds that numeric features fill, and how they hang together.
    """
    from scipy.sparse import coo_array, diags_array

    first, width = (0 if shift is None else 1), len(moments.design)
    signs = 2.0 * SeededSource(_SEED).integers(2, (_DIRECTIONS, width)) - 1.0
    T = np.eye(width + 2)
    if shift is not None:
        T[1:, 0] = shift
    entry, row, column, value = moments.unit_noise()
    spreads = diags_array(covariance) if covariance.ndim == 1 else covariance
    total = np.zeros((width + 1, width + 1))
    for direction in signs:
        M = even_moments(moments, direction * np.sqrt(length / width), spread, correlation)
        M = M if shift is None else moved(M, shift)
        A, b = M[first:-1, first:-1], M[first:-1, -1]
        weights = np.append([*[0.0] * first, *-np.linalg.solve(A, b)], 1.0)
        # what noise does to the equations: T N T' w, of which every entry moves a few rows only
        pushed = value * (T.T @ weights)[column]
        push = coo_array((pushed, (entry, row)), shape=(len(moments), width + 2)).tocsr()
        products = push.T @ (spreads @ push)
        products = products if isinstance(products, np.ndarray) else products.toarray()
        carried = np.zeros((width + 1, width + 2))
        carried[first:] = np.linalg.solve(A, T[first:-1])
        total += carried @ products @ carried.T
    return total / _DIRECTIONS
