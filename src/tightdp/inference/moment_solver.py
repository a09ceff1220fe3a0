r"""From noisy second moments to coefficients, with the known law of the noise and nothing else.

Scaled to [-1, 1] and divided by n, the moments of features and target are C (covariances of the
features) and g (with the target), both seen through noise of known variance. The coefficients
solve C b = g. Three things go wrong when one simply solves: noise makes C indefinite or nearly
singular, the noise of C is multiplied by b, and a noisy g is longer than the true one. So:

1. covariances between features are shrunk towards 0 by the positive-part James-Stein factor, which
   is 1 where they stand out of the noise and 0 where they cannot be told from it;
2. negative eigenvalues of the shrunk C become 0;
3. b is the posterior mean for :math:`g \mid b \sim N(Cb, R)` and :math:`b \sim N(0, \tau^2 I)`,
   where R is the variance of the noise of g plus that of C times b, averaged over
   :math:`\tau^2` with the likelihood of g. Directions in which C is small compared with the noise
   stay near 0.

As epsilon grows R tends to 0 and b to the least-squares estimate.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray

_ROUNDS = 4
_SCALES = np.geomspace(1e-6, 1e2, 65)  # values of tau^2, equally likely beforehand
_LEAST = 1e-12  # a variance of the noise below which nothing is shrunk


@dataclass(frozen=True, slots=True, eq=False)
class Centred:
    """Covariances of features C and with the target g, and the variances of their noise."""

    C: FloatArray
    g: FloatArray
    C_noise: FloatArray
    g_noise: FloatArray
    mean: FloatArray
    target_mean: float


def centred(M: FloatArray, noise: FloatArray) -> Centred:
    """From second moments of z = (1, d, y) and the variances of their noise, both (q+2, q+2)."""
    m, v = np.clip(M[0, 1:-1], -1, 1), noise[0, 1:-1]
    y, y_noise = float(np.clip(M[0, -1], -1, 1)), float(noise[0, -1])
    C = M[1:-1, 1:-1] - np.outer(m, m) + np.diag(v)  # E m^2 exceeds the square of the mean by v
    C_noise = noise[1:-1, 1:-1] + np.outer(m**2, v) + np.outer(v, m**2)
    g_noise = noise[1:-1, -1] + m**2 * y_noise + v * y**2
    return Centred(C, M[1:-1, -1] - m * y, C_noise, g_noise, m, y)


def through(
    parts: Centred, C: FloatArray, left: FloatArray, noise: FloatArray, shift: FloatArray
) -> tuple[FloatArray, FloatArray, FloatArray, FloatArray]:
    """C, what noise is left in it, g and its noise about a public point instead of the means.

    ``shift`` is minus that point, for the features and then the target: a line without intercept
    passes it.
    """
    m, y = parts.mean + shift[:-1], parts.target_mean + shift[-1]
    v, y_noise = noise[0, 1:-1], noise[0, -1]
    return (
        C + np.outer(m, m),
        left + np.outer(m**2, v) + np.outer(v, m**2),
        parts.g + m * y,
        parts.g_noise + m**2 * y_noise + y**2 * v,
    )


def shrunk(parts: Centred, free: NDArray[np.bool_]) -> tuple[FloatArray, FloatArray]:
    """Steps 1 and 2: a positive semidefinite C and the variance that is left in its entries.

    ``free`` marks the pairs of features that are shrunk; exclusive indicators are not.
    """
    C = parts.C.copy()
    own = np.diag_indices_from(C)
    C[own] = np.clip(C[own], 0.0, 1.0)
    pairs = free & ~np.eye(len(C), dtype=bool)
    left = parts.C_noise.copy()
    if pairs.any():
        weight = 1 - parts.C_noise[pairs].sum() / max(float((C[pairs] ** 2).sum()), 1e-300)
        C[pairs] *= max(weight, 0.0)
        left[pairs] *= max(weight, 0.0)
    value, vector = np.linalg.eigh(C)
    return (vector * np.maximum(value, 0.0)) @ vector.T, left


def solve(C: FloatArray, left: FloatArray, g: FloatArray, g_noise: FloatArray) -> FloatArray:
    """Step 3: the posterior mean of b."""
    if float(g_noise.max(initial=0.0)) < _LEAST**2:
        return np.asarray(np.linalg.lstsq(C, g, rcond=None)[0])
    b = np.zeros(len(g))
    for _ in range(_ROUNDS):
        R = g_noise + left @ b**2
        b = _posterior_mean(C / np.sqrt(R)[:, None], g / np.sqrt(R))
    return b


def _posterior_mean(A: FloatArray, h: FloatArray) -> FloatArray:
    """For h ~ N(A b, I), b ~ N(0, t I): the mean over b and t."""
    U, size, W = np.linalg.svd(A)
    along = U.T @ h
    spread = 1 + _SCALES[:, None] * size**2
    likelihood = -(np.log(spread) + along**2 / spread).sum(axis=1) / 2
    weight = np.exp(likelihood - likelihood.max())
    kept = weight @ (_SCALES[:, None] * size / spread) / weight.sum()
    return np.asarray(W.T @ (kept * along))
