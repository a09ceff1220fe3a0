r"""Discrete Gaussian vectors at (epsilon, delta): three proved curves, of which the least is taken.

Independent integers :math:`P(z_j) \propto e^{-z_j^2/(2\sigma_j^2)}` are added to a vector that
moves by d, with :math:`\mu^2 = \sum_j d_j^2/\sigma_j^2`.

1. *Concentrated.* The noise is :math:`\mu^2/2`-zCDP (Canonne and others, 2020, Theorem 4), which
   converts into a delta (:func:`~tightdp.accounting.conversions.zcdp_delta`).
2. *Near the rounded Gaussian.* Each entry is within :math:`1/(8\sigma_j^2)` of a rounded normal
   variable in total variation (:class:`~tightdp.noise.gaussian_vectors.GaussianVector`, step 2), so
   delta is at most that of the Gaussian plus :math:`(1 + e^\epsilon) \sum_j 1/(8\sigma_j^2)`.
3. *Summed.* With one sigma the privacy loss of a move is
   :math:`(\mu^2 + 2 \sum_j |d_j| z_j/\sigma^2)/2`, a sum of independent integers whose law is found
   by convolution (:func:`summed_delta`).
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Sequence

import numpy as np

from tightdp.errors import FloatArray
from tightdp.noise.gaussian_laws import gaussian_delta

_UP = 1 + 2.0**-36  # more than all that is rounded in sums of positive numbers here
_WINDOW = 13.0  # in sigmas: beyond it lies less than 2 exp(-84.5)
_BEYOND = 1e-36
_MOST_CELLS = 1 << 24  # multiplications of a convolution


def near_delta(epsilon: float, ratio: float, variances: Sequence[float]) -> float:
    """Delta by way of rounded Gaussians of these variances; ``ratio`` is mu, rounded up."""
    if epsilon > 500:
        return 1.0
    apart = sum(1 / variance for variance in variances) / 8
    return gaussian_delta(epsilon, ratio) + (1 + math.exp(epsilon)) * apart * _UP


def summed_delta(epsilon: float, moved: Sequence[int], variance: float) -> float | None:
    r"""The delta of one move, by the law of :math:`S = \sum_j d_j z_j`; None if it is too long.

    ``moved`` holds the sizes :math:`d_j > 0` of the entries that move. All terms are positive, so
    that what floats lose is a part in :math:`2^{36}`; the chance of draws beyond 13 sigmas is
    added whole.

    >>> from tightdp.noise.gaussian_laws import DiscreteGaussian
    >>> law = DiscreteGaussian(epsilon=1, delta=1e-3, sensitivity=3)
    >>> abs(summed_delta(1.0, [3], float(law.sigma2)) / law.delta(1.0, 3) - 1) < 1e-9
    True
    """
    sigma = math.sqrt(variance)
    reach = math.ceil(_WINDOW * sigma) + 1
    if (2 * reach * sum(moved)) ** 2 > 2 * _MOST_CELLS:
        return None
    z = np.arange(-reach, reach + 1, dtype=np.float64)
    weights = np.exp(-z * z / (2 * variance))
    one = weights / weights.sum()
    law = np.ones(1)
    for size, count in Counter(moved).items():
        stretched = np.zeros(2 * reach * size + 1)
        stretched[::size] = one
        law = np.convolve(law, _power(stretched, count))
    s = np.arange(len(law), dtype=np.float64) - len(law) // 2
    square = float(sum(size * size for size in moved))
    loss = (square + 2 * s) / (2 * variance)
    gain = -np.expm1(np.minimum(epsilon - loss - 2.0**-46 * (np.abs(loss) + epsilon), 0.0))
    return float(law @ gain) * _UP + len(moved) * _BEYOND


def _power(law: FloatArray, count: int) -> FloatArray:
    """The law of a sum of ``count`` independent integers."""
    out: FloatArray | None = None
    while count:
        if count & 1:
            out = law if out is None else np.convolve(out, law)
        count >>= 1
        law = np.convolve(law, law) if count else law
    assert out is not None
    return out
