r"""How far a row moves coefficients, and how much larger sampling errors may be than even ones.

With covariances C of the features and errors e of equal variance, sampling errors are normal with
variance :math:`\sigma^2 C^{-1}/n`. Nothing says that errors have one variance. A coefficient
:math:`w \cdot b` has the sampling error :math:`n^{-1} \sum_i (w \cdot C^{-1} \tilde x_i) e_i`,
whose variance is at most :math:`\sigma^2 \sup_x (w \cdot C^{-1} \tilde x)^2 / n` and at most
:math:`\sup e^2\, w \cdot C^{-1} w / n`, whatever the errors are; bounds on the columns bound both.
So without an assumption the sampling error is scaled up to the smaller of the two.

An error that is scaled up by s can be that of :math:`n/s^2` rows alone, the fewest that reach the
bound, and its variance is then estimated from so few. So sampling errors have the tails of
Student's t with :math:`n/s^2 - q - 1` degrees of freedom, but four at least: what fewer than five
rows carry, no release of a sample can tell.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from tightdp.errors import FloatArray

LEAST_FREEDOM = 4.0  # of the tails of sampling errors
_TINY = 1e-300  # of what is divided by


def coefficient_weights(origin: FloatArray, *, intercept: bool) -> FloatArray:
    """Of the sums that get errors of their own: the level at the user's zero, and slopes."""
    slopes = np.eye(len(origin) + 1)[1:]
    return np.vstack([np.append(1.0, origin), slopes]) if intercept else slopes


def affine_influences(
    weights: FloatArray, mean: FloatArray, inverse: FloatArray, middle: FloatArray
) -> FloatArray:
    """Of a row on weighted sums of (intercept, slopes), shape (..., sums, q + 1).

    Features have a mean, ``middle`` is what is added to d to centre it, and ``inverse`` that of
    their second moments about the centre.
    """
    slope = (weights[:, 1:] - weights[:, :1] * mean[..., None, :]) @ inverse
    constant = weights[:, 0] + (slope @ middle[..., None])[..., 0]
    return np.concatenate([constant[..., None], slope], axis=-1)


def largest_sizes(affine: FloatArray, levels: Sequence[range] = ()) -> FloatArray:
    """Of affine functions on the cube [-1, 1]^q.

    Or on that part of it where, of the columns in each of ``levels``, at most one is 1 and the
    others are 0: the constant has place 0.

    >>> largest_sizes(np.array([[0.5, -1.0, 2.0]]))
    array([3.5])
    >>> largest_sizes(np.array([[0.5, -1.0, 2.0]]), [range(1, 3)])
    array([2.5])
    """
    free = np.ones(affine.shape[-1], dtype=bool)
    free[0] = False
    most, least = affine[..., 0], affine[..., 0]
    for places in levels:
        free[places.start : places.stop] = False
        own = affine[..., places.start : places.stop]
        most = most + np.maximum(own.max(axis=-1), 0.0)
        least = least + np.minimum(own.min(axis=-1), 0.0)
    return np.asarray(np.maximum(most, -least) + np.abs(affine[..., free]).sum(axis=-1))


@dataclass(frozen=True, slots=True, eq=False)
class ErrorScales:
    """Sampling errors over those of equal variance, and the degrees of freedom of their tails.

    Both have shape (candidates, sums).
    """

    factor: FloatArray
    freedom: FloatArray

    @classmethod
    def even(cls, shape: tuple[int, ...], freedom: float) -> ErrorScales:
        """Of errors of equal variance."""
        return cls(np.ones(shape), np.full(shape, freedom))

    def long_tails(self, chance: FloatArray) -> FloatArray:
        """Factors that scale normal errors up, and give them the tails of t.

        Few rows may carry them. ``chance`` has shape (candidates, errors, 1), normal.
        """
        freedom = np.maximum(self.freedom, LEAST_FREEDOM)[:, None, :]
        # Wilson and Hilferty (1931): the cube root of chi-square over its degrees is nearly normal
        spread = 2 / (9 * freedom)
        root = 1 - spread + np.sqrt(spread) * chance
        return np.asarray(self.factor[:, None, :] / np.maximum(root, 0.1) ** 1.5)


def bounded_scales(
    influences: FloatArray, spread: FloatArray, ceiling: FloatArray, rows: int
) -> ErrorScales:
    """The most that bounds allow.

    The largest influence over the root of its mean square, ``spread``, or the largest error over
    its root mean square, ``ceiling``, whichever is less.
    """
    scale = largest_sizes(influences) / np.maximum(spread, _TINY)
    factor = np.maximum(np.minimum(scale, ceiling[:, None]), 1.0)
    return ErrorScales(factor, rows / factor**2 - influences.shape[-1])
