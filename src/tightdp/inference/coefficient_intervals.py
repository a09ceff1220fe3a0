r"""Intervals for coefficients that count the privacy noise and the sampling error together.

The released moments are M + N, N with a known law. Every draw of N gives a candidate M for what
the data said; the candidates that can be moments at all (a positive definite covariance, no more
explained than there is to explain) give candidates for the coefficients, and each of them gets a
sampling error of its own. This is a parametric bootstrap with the exact law of the noise (Ferrando
and others, 2022), turned around: where the noise is small it gives the usual interval with the two
variances added, where the noise of C is not small its tails become long, as they must. Data are not
touched again, so nothing is spent.

If errors e have equal variance, the sampling errors are normal with variance
:math:`\sigma^2 C^{-1}/n`. Second moments do not tell whether they have. A coefficient
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

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightdp.data.blocks import one_blas_thread
from tightdp.errors import FloatArray, check_probability
from tightdp.randomness import RandomSource

ENOUGH = 400
"""So many candidates make an interval; below it impossible candidates are repaired, not dropped."""

_BATCH, _BATCHES = 1000, 3
_ERRORS = 4  # pairs +- of sampling errors for every candidate
_LEAST_FREEDOM = 4.0
_ROOM = 1.2  # where the released moments are mostly noise; the coverage page has what was measured


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidates for (intercept, slopes), scaled; ``feasible`` is their share among the draws."""

    values: FloatArray
    noise_only: FloatArray
    feasible: float


@dataclass(frozen=True, slots=True, eq=False)
class Wanted:
    """Which coefficients are asked for, and what is assumed of errors.

    Attributes
    ----------
    shift : array, shape (q + 1,), or None
        Without an intercept, minus the point that the line passes; None for an intercept.
    ridge : array, shape (q,)
        Penalty on every scaled coefficient, divided by n.
    origin : array, shape (q,)
        The point at which the intercept is wanted, in scaled units.
    equal_variance : bool
        Whether all errors are taken to have one variance.
    """

    shift: FloatArray | None
    ridge: FloatArray
    origin: FloatArray
    equal_variance: bool


def candidates(
    M: FloatArray,
    draw: Callable[[int], FloatArray],
    rows: int,
    rng: RandomSource,
    wanted: Wanted,
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
    """
    kept, bare, tried, good = [], [], 0, 0
    for _ in range(_BATCHES):
        noise = draw(_BATCH)  # its law is symmetric: every draw serves twice
        both = np.concatenate([M - noise, M + noise])
        found, noise_only, fits = _batch(both, rows, rng, wanted)
        kept.append(found[fits])
        bare.append(noise_only[fits])
        tried, good = tried + len(fits), good + int(fits.sum())
        if good >= ENOUGH:
            break
    if good < ENOUGH:
        # mostly noise: estimates are pulled to zero by more than the candidates differ
        centre = np.median(found, axis=tuple(range(found.ndim - 1)))
        kept, bare = [centre + _ROOM * (found - centre)], [noise_only]
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
    M: FloatArray, rows: int, rng: RandomSource, wanted: Wanted
) -> tuple[FloatArray, FloatArray, NDArray[np.bool_]]:
    """Coefficients of every matrix with and without sampling error, and which matrices can be."""
    size, most, shift, origin = M.shape[0], 1.0, wanted.shift, wanted.origin
    m, y = M[:, 0, 1:-1], M[:, 0, -1]
    middle, off = -m, np.abs(y)  # of the box of the centred features, and of the target
    if shift is not None:
        M, most = moved(M, shift), (1 + abs(float(shift[-1]))) ** 2
        m, y = np.zeros_like(m), np.zeros_like(y)
        middle, off = np.broadcast_to(shift[:-1], m.shape), np.full(size, abs(float(shift[-1])))
    C = M[:, 1:-1, 1:-1] - m[:, :, None] * m[:, None, :]
    g = M[:, 1:-1, -1] - m * y[:, None]
    total = M[:, -1, -1] - y**2
    total = np.where(np.isnan(total), most - y**2, np.clip(total, 0.0, most))
    value, vector = np.linalg.eigh(C)
    floor = max(float(np.median(np.abs(value - np.median(value, axis=0)))), 1e-9)
    positive = value[:, 0] > 0
    root = np.where(positive[:, None], value, np.maximum(value, floor))
    C = (vector * root[:, None, :]) @ vector.transpose(0, 2, 1)
    inverse = np.linalg.inv(C + np.diag(wanted.ridge))
    slopes = (inverse @ g[:, :, None])[:, :, 0]
    explained = np.einsum("ki,kij,kj->k", slopes, C, slopes)
    fits = positive & (explained <= np.maximum(total, 1e-12))
    sigma = np.sqrt(np.maximum(total - explained, 0.0))
    # scores have covariance sigma^2 C / n; the ridge inverse carries them to the slopes
    half = rng.normal((size, value.shape[1] + 1, _ERRORS)) * (sigma / np.sqrt(rows))[:, None, None]
    error = np.concatenate([half, -half], axis=2)
    score = vector @ (error[:, 1:] * np.sqrt(root)[:, :, None])
    on_slopes = (inverse @ score).transpose(0, 2, 1)
    to_origin = origin - m if shift is None else np.zeros_like(m)
    on_level = error[:, 0] + np.einsum("ki,kei->ke", to_origin, on_slopes)
    on_slopes_scale, on_level_scale = np.ones_like(m), np.ones((size, 1))
    if not wanted.equal_variance:
        largest = 1 + off + np.abs(slopes).sum(axis=1) + np.abs((slopes * middle).sum(axis=1))
        ceiling = largest / np.maximum(sigma, 1e-12)
        on_slopes_scale = _largest_scale(inverse, C, middle, ceiling, 0.0)
        along = to_origin[:, None, :] @ inverse
        on_level_scale = _largest_scale(along, C, middle, ceiling, 1.0)
    chance = np.tile(rng.normal((size, _ERRORS)), 2)[:, :, None]
    fitted = value.shape[1] + 1
    on_slopes *= _long_tails(on_slopes_scale, rows, fitted, chance)
    on_level *= _long_tails(on_level_scale, rows, fitted, chance)[:, :, 0]
    with_error = slopes[:, None, :] + on_slopes
    if shift is not None:
        return _through(with_error, shift), _through(slopes, shift), fits
    at_origin = (y + (to_origin * slopes).sum(axis=1))[:, None] + on_level
    level = at_origin - with_error @ origin
    bare = np.column_stack([y - (m * slopes).sum(axis=1), slopes])
    return np.dstack([level, with_error]), bare, fits


def _largest_scale(
    directions: FloatArray, C: FloatArray, middle: FloatArray, ceiling: FloatArray, constant: float
) -> FloatArray:
    """By how much errors of unequal variance can exceed those of equal variance, at most.

    For influences ``constant + w . x`` on a coefficient, w a row of ``directions`` and x in the
    cube around ``middle``: the largest one over their root mean square, or the largest error over
    its root mean square (``ceiling``), whichever is less. Shape (matrices, directions).
    """
    at_middle = constant + np.einsum("kwi,ki->kw", directions, middle)
    largest = np.abs(at_middle) + np.abs(directions).sum(axis=2)
    spread = np.einsum("kwi,kij,kwj->kw", directions, C, directions) + constant**2
    scale = largest / np.sqrt(np.maximum(spread, 1e-300))
    return np.maximum(np.minimum(scale, ceiling[:, None]), 1.0)


def _long_tails(scale: FloatArray, rows: int, fitted: int, chance: FloatArray) -> FloatArray:
    """Factors that scale normal errors up, and give them the tails of t: few rows may carry them.

    ``scale`` has shape (matrices, directions), ``chance`` (matrices, errors, 1), normal.
    """
    freedom = np.maximum(rows / scale**2 - fitted, _LEAST_FREEDOM)[:, None, :]
    # Wilson and Hilferty (1931): the cube root of chi-square over its degrees is nearly normal
    spread = 2 / (9 * freedom)
    root = 1 - spread + np.sqrt(spread) * chance
    return np.asarray(scale[:, None, :] / np.maximum(root, 0.1) ** 1.5)


def _through(slopes: FloatArray, shift: FloatArray) -> FloatArray:
    """(intercept, slopes) of lines that pass the public point."""
    level = slopes @ shift[:-1] - shift[-1]
    return np.concatenate([level[..., None], slopes], axis=-1)


# --- from candidates to intervals -----------------------------------------------------------------


def quantile_intervals(
    values: FloatArray, alpha: float, upper: FloatArray | None = None
) -> FloatArray:
    """Rows (low, high) that hold all but alpha of the values, equal tails.

    The ends are values, the next ones outwards: between infinite ones there is nothing to
    interpolate. Where draws are intervals themselves, ``values`` are their lower and ``upper``
    their upper ends.

    >>> quantile_intervals(np.array([[-np.inf], [0.0], [np.inf]]), 0.1)
    array([[-inf,  inf]])
    """
    tail = check_probability("alpha", alpha) / 2
    above = values if upper is None else upper
    low = np.quantile(values, tail, axis=0, method="lower")
    return np.column_stack([low, np.quantile(above, 1 - tail, axis=0, method="higher")])


def simultaneous_intervals(
    values: FloatArray, alpha: float, upper: FloatArray | None = None
) -> FloatArray:
    """Rows (low, high) that hold whole vectors of values but for a share alpha.

    Equal-tailed intervals with one common tail, which is halved until the share is reached. See
    :func:`quantile_intervals` for ``upper``.
    """
    check_probability("alpha", alpha)
    above = values if upper is None else upper
    low_order, high_order = np.sort(values, axis=0), np.sort(above, axis=0)
    at_most, at_least = np.empty(values.shape), np.empty(values.shape)
    for j in range(values.shape[1]):  # ties count on both sides: a constant cuts nobody off
        at_most[:, j] = np.searchsorted(low_order[:, j], values[:, j], side="right")
        at_least[:, j] = len(values) - np.searchsorted(high_order[:, j], above[:, j], side="left")
    depth = np.minimum(at_most, at_least).min(axis=1)  # how central a vector is at worst
    cut = max(int(np.quantile(depth, alpha, method="lower")), 1)
    return np.column_stack([low_order[cut - 1], high_order[len(values) - cut]])


def pulled(values: FloatArray, bounds: FloatArray) -> str | None:
    """What must be said where an estimate lies outside its own interval, or None."""
    outside = ((values < bounds[:, 0]) | (values > bounds[:, 1])).any()
    words = "where an estimate lies outside its interval, much noise has pulled it towards zero"
    return f"{words}: go by the interval" if outside else None
