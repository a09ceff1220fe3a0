r"""How much errors of unequal variance move coefficients, from released sums of their squares.

A row with features d moves a coefficient by :math:`u(d)\,e/n`, where e is its error and
:math:`u(d) = \alpha + \beta \cdot d` its influence. So the variance of the sampling error is
:math:`E[u^2 e^2]/n`, whatever the errors are: the sandwich of Huber (1967) and White (1980). Bounds
on d and e bound it, mostly by far too much. Here its mean over the rows is released, for influences
:math:`u_0` and residuals r of a line that were public by then. A candidate for the covariances of
the features has other influences, u, and another line, with errors e. By the triangle inequality

.. math:: (E u^2 e^2)^{1/2} \le (E u_0^2 r^2)^{1/2}
    + (E (u - u_0)^2 e^2)^{1/2} + (E u_0^2 (e - r)^2)^{1/2},

where the last two, which are small once the noise is, are at most the largest size of one factor
times the root mean square of the other. An influence may be multiplied by any number, so
:math:`u_0` is taken at its best multiple for every candidate.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray
from tightdp.inference.error_scales import LEAST_FREEDOM, ErrorScales, largest_sizes
from tightdp.randomness import RandomSource

_TINY = 1e-300
_TOLD = 2.0  # standard deviations of its noise, in a released square that says something
_LONGER = 1.6  # over the degrees of freedom: by how much tails of t are longer, about


def _length(scales: ErrorScales) -> FloatArray:
    """About that of an interval, beside one with normal errors of equal variance."""
    return scales.factor * (1 + _LONGER / np.maximum(scales.freedom, LEAST_FREEDOM))


def least_scales(
    bounded: ErrorScales, known: ErrorScales, even: FloatArray, told: NDArray[np.bool_]
) -> ErrorScales:
    """What is known where the release has ``told`` it, else what makes shorter intervals.

    For all candidates of a sum together, shape (sums,): if each took the less of two numbers that
    have noise, most would take one that is too small. ``even`` is what both scale up.
    """
    sizes = [np.square(_length(each) * even).sum(axis=0) for each in (bounded, known)]
    taken = told | (sizes[1] <= sizes[0])
    return ErrorScales(
        np.where(taken, known.factor, bounded.factor),
        np.where(taken, known.freedom, bounded.freedom),
    )


@dataclass(frozen=True, slots=True, eq=False)
class ErrorSizes:
    """Released mean squares of influence times residual, for scaled columns.

    Attributes
    ----------
    influences : array, shape (sums, q + 1)
        :math:`(\\alpha, \\beta)` of the public influences, each of size at most 1 in the bounds.
    line : array, shape (q + 1,)
        Intercept and slopes of the public line.
    squares : array, shape (sums,)
        Mean squares, with noise.
    draw : callable
        Count and source to so many draws of the noise in them.
    """

    influences: FloatArray
    line: FloatArray
    squares: FloatArray
    draw: Callable[[int, RandomSource], FloatArray]

    def roots(self, count: int, rng: RandomSource) -> tuple[FloatArray, NDArray[np.bool_]]:
        """Root mean squares that the released ones can be, as large as the noise allows.

        And which are told, rather than the noise. A square below 0 says no more than 0: else
        candidates with little noise would have no errors, just where the noise has hidden them.
        """
        noise = np.abs(self.draw(count, rng))
        size = np.sqrt(np.square(noise).sum(axis=0) / max(count, 1))  # no candidate may be left
        told = self.squares > _TOLD * size
        return np.sqrt(np.maximum(self.squares, 0.0) + noise), told


@dataclass(frozen=True, slots=True, eq=False)
class CandidateLines:
    """Candidates: lines through centred features, their second moments and their errors.

    Affine functions of d are arrays of shape (candidates, functions, q + 1), the constant first.

    Attributes
    ----------
    C : array, shape (candidates, q, q)
        Second moments of the features about a centre: their means, or a public point.
    centre : array, shape (candidates, q)
        What is added to d to centre it.
    level, slopes : array
        The height of the line at the centre, and its slopes.
    sigma, largest : array, shape (candidates,)
        Root mean square of the errors, and the largest that bounds allow.
    """

    C: FloatArray
    centre: FloatArray
    level: FloatArray
    slopes: FloatArray
    sigma: FloatArray
    largest: FloatArray

    def root_mean_square(self, affine: FloatArray) -> FloatArray:
        """At most; exactly so where the centre is the mean and the function is 0 there."""
        spread = ((affine[..., 1:] @ self.C) * affine[..., 1:]).sum(axis=-1)
        return np.asarray(np.abs(self._at_centre(affine)) + np.sqrt(np.maximum(spread, 0.0)))

    def product(self, one: FloatArray, other: FloatArray) -> FloatArray:
        """Mean products of affine functions, as if the centre were the mean."""
        levels = self._at_centre(one) * self._at_centre(other)
        return np.asarray(levels + ((one[..., 1:] @ self.C) * other[..., 1:]).sum(axis=-1))

    def intercept(self) -> FloatArray:
        """The height of the lines at d = 0."""
        return np.asarray(self.level + (self.slopes * self.centre).sum(axis=1))

    def _at_centre(self, affine: FloatArray) -> FloatArray:
        return np.asarray(affine[..., 0] - (affine[..., 1:] @ self.centre[:, :, None])[..., 0])


def root_bounds(
    known: ErrorSizes, lines: CandidateLines, influences: FloatArray, rng: RandomSource
) -> tuple[FloatArray, NDArray[np.bool_]]:
    """At most so large are the roots of :math:`E u^2 e^2`, shape (candidates, sums).

    And of which sums the release has told them. ``influences`` are those of the candidates, as
    affine functions of d.
    """
    fixed = np.broadcast_to(known.influences, influences.shape)
    size = np.maximum(lines.product(fixed, fixed), _TINY)
    multiple = lines.product(influences, fixed) / size
    fixed = multiple[..., None] * fixed
    away = known.line - np.column_stack([lines.intercept(), lines.slopes])
    residuals = (lines.root_mean_square(away[:, None, :]), largest_sizes(away)[:, None])
    roots, told = known.roots(len(influences), rng)
    released = np.abs(multiple) * roots
    errors = (lines.sigma[:, None], lines.largest[:, None])
    rest = _product(lines, influences - fixed, errors) + _product(lines, fixed, residuals)
    return np.asarray(released + rest), told


def _product(
    lines: CandidateLines, affine: FloatArray, factor: tuple[FloatArray, FloatArray]
) -> FloatArray:
    """At most so large is the root mean square of an affine function times another factor.

    Of that the root mean square and the largest size are given.
    """
    mean, largest = factor
    return np.minimum(largest_sizes(affine) * mean, lines.root_mean_square(affine) * largest)


def known_scales(
    influences: FloatArray, even: FloatArray, lines: CandidateLines, rows: int, roots: FloatArray
) -> ErrorScales:
    """What is known of the errors, ``roots`` of their mean squares, allows.

    ``even`` are those roots if errors have equal variance. No row can have more than the largest
    influence times the largest error: so many at least carry the sum of squares.
    """
    most = largest_sizes(influences) * lines.largest[:, None]
    carrying = rows * (roots / np.maximum(most, _TINY)) ** 2
    return ErrorScales(np.maximum(roots / even, 1.0), carrying - influences.shape[-1])
