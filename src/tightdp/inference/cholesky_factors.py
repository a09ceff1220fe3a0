"""Cholesky factors of many matrices, of which some are not positive."""

from __future__ import annotations

import numpy as np
import scipy  # scipy.linalg is loaded at its first use
from numpy.typing import NDArray

from tightdp.errors import FloatArray

_SMALL = 8  # rows of matrices that are factored side by side


def cholesky_factors(C: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Cholesky factors of the positive definite matrices, their inverses, and which those are.

    >>> root, inverse, positive = cholesky_factors(np.array([[[4.0]], [[-1.0]]]))
    >>> root.ravel(), inverse.ravel(), positive
    (array([2.]), array([0.5]), array([ True, False]))
    """
    return _side_by_side(C) if C.shape[-1] <= _SMALL else _one_by_one(C)


def _side_by_side(C: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Of small matrices all at once, column by column: calls for each would take most time."""
    root, positive = np.zeros_like(C), np.ones(len(C), dtype=bool)
    for j in range(C.shape[-1]):
        left = C[:, j:, j] - (root[:, j:, :j] @ root[:, j, :j, None])[:, :, 0]
        positive &= left[:, 0] > 0  # not where it is not a number
        left[~positive] = 1.0
        root[:, j:, j] = left / np.sqrt(left[:, :1])
    root = root[positive]
    inverse = np.zeros_like(root)
    for i in range(C.shape[-1]):
        inverse[:, i, i] = 1.0
        inverse[:, i] -= (root[:, i, None, :i] @ inverse[:, :i])[:, 0]
        inverse[:, i] /= root[:, i, i, None]
    return root, inverse, positive


def _one_by_one(C: FloatArray) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    lapack = scipy.linalg.lapack
    roots, inverses, positive = [], [], np.zeros(len(C), dtype=bool)
    for place, matrix in enumerate(C):
        root, failed = lapack.dpotrf(matrix, lower=True)
        if not failed:
            inverse, failed = lapack.dtrtri(root, lower=True)
        if not failed:
            positive[place] = True
            roots.append(root)
            inverses.append(inverse)
    shape = (-1, *C.shape[1:])
    return np.array(roots).reshape(shape), np.array(inverses).reshape(shape), positive
