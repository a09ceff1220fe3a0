r"""Intervals for coefficients that count the privacy noise and the sampling error together.

The released moments are M + N, N with a known law. Every draw of N gives a candidate M for what
the data said; the candidates that can be moments at all (a positive definite covariance, no more
explained than there is to explain) give candidates for the coefficients, and each of them gets a
sampling error of its own, normal with variance :math:`\sigma^2 C^{-1}/n`. This is a parametric
bootstrap with the exact law of the noise ([37]), turned around: where the noise is small it gives
the usual interval with the two variances added, where the noise of C is not small its tails become
long, as they must. Data are not touched again, so nothing is spent.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightdp.data.blocks import one_blas_thread
from tightdp.errors import FloatArray
from tightdp.randomness import RandomSource

ENOUGH = 400
"""So many candidates make an interval; below it impossible candidates are repaired, not dropped."""

_BATCH, _BATCHES = 1000, 3
_ERRORS = 4  # pairs +- of sampling errors for every candidate


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidates for (intercept, slopes), scaled; ``feasible`` is their share among the draws."""

    values: FloatArray
    noise_only: FloatArray
    feasible: float


def candidates(
    M: FloatArray,
    draw: Callable[[int], FloatArray],
    rows: int,
    rng: RandomSource,
    *,
    shift: FloatArray | None,
    ridge: FloatArray,
) -> Candidates:
    """Coefficients that the released moments are compatible with.

    Parameters
    ----------
    M : array, shape (q + 2, q + 2)
        Released second moments of z = (1, d, y), divided by n; NaN for an unknown square of y.
    draw : callable
        Count to that many matrices of noise of the same law.
    rows : int
        The public n, which sets the sampling error.
    shift : array, shape (q + 1,), or None
        Without an intercept, minus the point that the line passes; None for an intercept.
    ridge : array, shape (q,)
        Penalty on every scaled coefficient, divided by n.
    """
    kept, bare, tried, good = [], [], 0, 0
    for _ in range(_BATCHES):
        noise = draw(_BATCH)  # its law is symmetric: every draw serves twice
        both = np.concatenate([M - noise, M + noise])
        found, noise_only, fits = _batch(both, rows, rng, shift, ridge)
        kept.append(found[fits])
        bare.append(noise_only[fits])
        tried, good = tried + len(fits), good + int(fits.sum())
        if good >= ENOUGH:
            break
    if good < ENOUGH:
        kept, bare = [found], [noise_only]
    values = np.concatenate(kept)
    return Candidates(values.reshape(-1, values.shape[-1]), np.vstack(bare), good / tried)


def moved(M: FloatArray, shift: FloatArray) -> FloatArray:
    """Second moments of (1, d + shift, y + shift), one matrix or many.

    An unknown square of y (NaN) enters no other entry, and stays unknown.
    """
    T = np.eye(len(shift) + 1)
    T[1:, 0] = shift
    own = np.isnan(M[..., -1, -1])
    known = np.array(M)
    known[own, -1, -1] = 0.0
    out = T @ known @ T.T
    out[own, -1, -1] = np.nan
    return np.asarray(out)


@one_blas_thread()  # thousands of small matrices: threads would wait for each other
def _batch(
    M: FloatArray, rows: int, rng: RandomSource, shift: FloatArray | None, ridge: FloatArray
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Coefficients of every matrix with and without sampling error, and which matrices can be."""
    size, most = M.shape[0], 1.0
    m, y = M[:, 0, 1:-1], M[:, 0, -1]
    if shift is not None:
        M, most = moved(M, shift), (1 + abs(float(shift[-1]))) ** 2
        m, y = np.zeros_like(m), np.zeros_like(y)
    C = M[:, 1:-1, 1:-1] - m[:, :, None] * m[:, None, :]
    g = M[:, 1:-1, -1] - m * y[:, None]
    total = M[:, -1, -1] - y**2
    total = np.where(np.isnan(total), most - y**2, np.clip(total, 0.0, most))
    value, vector = np.linalg.eigh(C)
    floor = max(float(np.median(np.abs(value - np.median(value, axis=0)))), 1e-9)
    positive = value[:, 0] > 0
    root = np.where(positive[:, None], value, np.maximum(value, floor))
    C = (vector * root[:, None, :]) @ vector.transpose(0, 2, 1)
    penal = C + np.diag(ridge)
    slopes = np.linalg.solve(penal, g[:, :, None])[:, :, 0]
    explained = np.einsum("ki,kij,kj->k", slopes, C, slopes)
    fits = positive & (explained <= np.maximum(total, 1e-12))
    sigma = np.sqrt(np.maximum(total - explained, 0.0) / rows)
    # scores have covariance sigma^2 C / n; the ridge inverse carries them to the slopes
    half = rng.normal((size, value.shape[1] + 1, _ERRORS)) * sigma[:, None, None]
    error = np.concatenate([half, -half], axis=2)
    score = vector @ (error[:, 1:] * np.sqrt(root)[:, :, None])
    moved_by = (slopes[:, :, None] + np.linalg.solve(penal, score)).transpose(0, 2, 1)
    if shift is not None:
        return _through(moved_by, shift), _through(slopes, shift), fits
    level = y[:, None] + error[:, 0]
    with_error = np.dstack([level - np.einsum("ki,kei->ke", m, moved_by), moved_by])
    return with_error, np.column_stack([y - (m * slopes).sum(axis=1), slopes]), fits


def _through(slopes: FloatArray, shift: FloatArray) -> FloatArray:
    """(intercept, slopes) of lines that pass the public point."""
    level = slopes @ shift[:-1] - shift[-1]
    return np.concatenate([level[..., None], slopes], axis=-1)
