"""The ball of the nuclear norm: how far covariance matrices and other second moments move."""

from __future__ import annotations

import math

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    check_count,
    check_positive,
    fail,
)
from tightdp.geometry.norm_balls import (
    NormBall,
    SecondMoment,
    Volume,
    check_radius,
    exact_moment,
)
from tightdp.geometry.nuclear_spectrum import Spectrum, draw_spectra, spectrum
from tightdp.randomness import RandomSource

MOST_SIZE = 32
"""Rows of the largest matrices whose noise is drawn: in some seconds, by way of their spectrum."""

MOST_PROPOSED = 14
"""Rows of the largest matrices of which points are proposed: one in 7,500 is kept there."""

_MOST_LISTED = 40  # rows of matrices whose sizes are computed in rationals


class NuclearBall(NormBall):
    r"""Symmetric N x N matrices X with :math:`\|S X S\|_* \le r`, S = Diag(``weights``).

    The nuclear norm :math:`\|\cdot\|_*` is the sum of the sizes of the eigenvalues. Coordinates are
    the entries on and above the diagonal, row by row: N (N + 1) / 2 of them.

    Rows x with :math:`|Sx|^2 \le r`, added or removed, move :math:`\sum x x^T` by
    :math:`\pm x x^T`, of norm :math:`|Sx|^2`. **Their hull is this ball, exactly**: with
    eigenvectors u of SXS a matrix of norm r is a mixture of the moves
    :math:`\pm r\,S^{-1} u (S^{-1} u)^T`. Replaced rows move it by :math:`x x^T - y y^T`, of norm at
    most 2 r by the triangle inequality; that is reached where Sx and Sy are orthogonal, of full
    length.

    Parameters
    ----------
    size : int
        Number N of rows of the matrices.
    radius : float
    weights : float or sequence of N floats
        The diagonal of S; 1 by default.

    Examples
    --------
    >>> ball = NuclearBall(2)
    >>> ball.gauge([1.0, 0.0, -1.0]), ball.gauge([1.0, 1.0, 1.0])
    (2.0, 2.0)
    >>> round(ball.support([0.0, 1.0, 0.0]), 9)
    0.5
    """

    def __init__(self, size: int, radius: float = 1.0, weights: ArrayLike = 1.0) -> None:
        self.size = check_count("size", size, most=200)
        self.radius = check_positive("radius", radius)
        self.weights = check_radius(weights, self.size, "weights")
        self.upper = np.triu_indices(self.size)
        self.dim = len(self.upper[0])

    def __repr__(self) -> str:
        even = np.ptp(self.weights) == 0 and self.weights[0] == 1
        tail = "" if even else f", weights=[{', '.join(f'{w:g}' for w in self.weights)}]"
        return f"NuclearBall(size={self.size}, radius={self.radius:g}{tail})"

    def matrices(self, x: FloatArray) -> FloatArray:
        """Symmetric matrices of rows of entries."""
        out = np.zeros((*x.shape[:-1], self.size, self.size))
        i, j = self.upper
        out[..., i, j] = x
        out[..., j, i] = x
        return out

    def _weighted(self, x: FloatArray) -> FloatArray:
        """S X S."""
        return self.matrices(x) * np.outer(self.weights, self.weights)

    def _gauge(self, x: FloatArray) -> FloatArray:
        return np.abs(np.linalg.eigvalsh(self._weighted(x))).sum(axis=1) / self.radius

    def _normals(self, x: FloatArray) -> FloatArray:
        value, vector = np.linalg.eigh(self._weighted(x))
        polar = (vector * np.where(value >= 0, 1.0, -1.0)[:, None, :]) @ vector.transpose(0, 2, 1)
        return self._as_form(polar * np.outer(self.weights, self.weights)) / self.radius

    def _support_points(self, c: FloatArray) -> FloatArray:
        # c.x is the inner product of X with the matrix C that has c_ij / 2 off the diagonal
        i, j = self.upper
        C = self.matrices(np.where(i == j, c, c / 2)) / np.outer(self.weights, self.weights)
        value, vector = np.linalg.eigh(C)
        rows, top = np.arange(len(c)), np.abs(value).argmax(axis=1)
        best, sign = vector[rows, :, top], np.where(value[rows, top] >= 0, 1.0, -1.0)
        best = best / self.weights
        return np.asarray(self.radius * sign[:, None] * best[:, i] * best[:, j])

    def _as_form(self, matrix: FloatArray) -> FloatArray:
        i, j = self.upper
        return np.asarray(np.where(i == j, 1.0, 2.0) * matrix[:, i, j])

    def bounding_box(self) -> FloatArray:
        i, j = self.upper
        return self.radius * np.where(i == j, 1.0, 0.5) / (self.weights[i] * self.weights[j])

    def scaled(self, factor: ArrayLike) -> NormBall:
        if np.ndim(factor) == 0:
            radius = self.radius * check_positive("factor", np.asarray(factor)[()])
            return NuclearBall(self.size, radius, self.weights)
        return super().scaled(factor)

    def _volume(self) -> Volume:
        # the integral of exp(-norm) is the volume times dim!
        self._check_listed()
        unit = spectrum(self.size).log_integral - math.lgamma(self.dim + 1)
        stretch = self.dim * math.log(self.radius)
        return Volume(unit + stretch - (self.size + 1) * float(np.log(self.weights).sum()))

    def _second_moment(self) -> SecondMoment:
        r"""Rotations leave :math:`E\,X_{ij}^2` and :math:`E\,X_{ii} X_{jj}` as the only unknowns.

        The sum of the squares of all entries is that of the eigenvalues, the trace is their sum.
        """
        self._check_listed()
        i, j = self.upper
        scale = self.radius / (self.weights[i] * self.weights[j])
        out = entry_moments(self.size, spectrum(self.size)) * np.outer(scale, scale)
        return exact_moment(out / ((self.dim + 1) * (self.dim + 2)))

    def _check_listed(self) -> None:
        if self.size > _MOST_LISTED:
            fail(f"Sizes of a nuclear ball are computed up to {_MOST_LISTED} rows of a matrix.")

    def _sample(self, size: int, rng: RandomSource) -> FloatArray:
        if self.size > MOST_PROPOSED:
            fail(
                "Points of a nuclear ball are drawn for matrices of up to "
                f"{MOST_PROPOSED} rows. Got {self.size}: beyond, practically no proposal is kept.",
                InfeasibleSamplingError,
            )
        spectra = draw_spectra(self.size, size, rng)
        spectra /= np.abs(spectra).sum(axis=1, keepdims=True)
        spectra *= rng.uniform(size)[:, None] ** (1 / self.dim)
        i, j = self.upper
        X = rotated(spectra, rng)[:, i, j]
        return np.asarray(self.radius * X / (self.weights[i] * self.weights[j]))


def entry_moments(size: int, known: Spectrum) -> FloatArray:
    """E of products of entries of a matrix with these sizes whose eigenvectors are Haar."""
    alike = known.squares
    if size > 1:
        alike = (size * known.squares - known.trace) / (size * (size - 1) * (size + 2))
    across = (known.trace - 2 * size * alike) / (size * size) if size > 1 else 0.0
    i, j = np.triu_indices(size)
    out = np.diag(np.full(len(i), alike))
    own = np.flatnonzero(i == j)
    out[np.ix_(own, own)] += across
    if size > 1:
        out[own, own] += alike  # E X_ii^2 = 2 E X_ij^2 + E X_ii X_jj
    return out


def rotated(spectra: FloatArray, rng: RandomSource) -> FloatArray:
    """Matrices of these spectra whose eigenvectors are Haar."""
    count, n = spectra.shape
    H, R = np.linalg.qr(rng.normal((count, n, n)))
    H = H * np.sign(np.diagonal(R, axis1=1, axis2=2))[:, None, :]
    return np.asarray((H * spectra[:, None, :]) @ H.transpose(0, 2, 1))
