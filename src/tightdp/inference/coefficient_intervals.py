r"""Intervals for coefficients that count the privacy noise and the sampling error together.

The released moments are M + N, N with a known law. Every draw of N gives a candidate M for what
the data said; the candidates that can be moments at all (a positive definite covariance, no more
explained than there is likely to explain) give candidates for the coefficients, and each of them
gets a sampling error of its own. This is a parametric bootstrap with the exact law of the noise
(Ferrando and others, 2022), turned around: where the noise is small it gives the usual interval
with the two variances added, where the noise of C is not small its tails become long, as they must.
Data are not touched again, so nothing is spent.

If errors e have equal variance, the sampling errors are normal with variance
:math:`\sigma^2 C^{-1}/n`. Second moments do not tell whether they have: without an assumption they
are scaled up, and get longer tails (:mod:`~tightdp.inference.error_scales`).

A second look at the rows clamps residuals, which biases a coefficient by
:math:`n^{-1} \sum_i (w \cdot C^{-1} \tilde x_i) m_i`, where :math:`m_i` is how far the clamp has
moved a residual. That is at most :math:`\sup_x |w \cdot C^{-1} \tilde x|`, over the rows that
there may be, times the mean of :math:`|m_i|`, which is released with noise; and, by the inequality
of Cauchy and Schwarz, at most the root of :math:`w \cdot C^{-1} w` times that of the mean of
:math:`m_i^2`, which is at most that of :math:`|m_i|` times the farthest that bounds allow. So a
candidate is not a point but an interval of that half-width, its room, and ends of intervals are
quantiles of the ends of candidates.

Noise that makes slopes longer has done so once in the release and does so again in candidates,
which are moved back by twice the drift (:func:`_drift`), as by the bias-corrected bootstrap.

A candidate whose C is not positive cannot be, but it says that features need not vary in some
directions, for all that the noise tells; a line may be as steep as it likes there. So it counts,
for sums that lie in such directions, as one that allows everything: where more of them than the
level allows do, the interval has no ends, as it must for a ratio whose denominator may be 0 (Gleser
and Hwang, 1987). Other coefficients keep theirs.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import scipy  # scipy.linalg is loaded at its first use
from numpy.typing import NDArray

from tightdp.data.blocks import one_blas_thread
from tightdp.errors import FloatArray, check_probability
from tightdp.inference.error_scales import (
    ErrorScales,
    affine_influences,
    bounded_scales,
    coefficient_weights,
    largest_sizes,
)
from tightdp.randomness import RandomSource

if TYPE_CHECKING:
    from tightdp.inference.uneven_errors import ErrorSizes

_MOST, _FEWEST = 2000, 400  # candidates that are tried at once: wide matrices take longer
_WORK = 4_000_000  # entries of all their matrices, about
_TOGETHER = 1_000_000  # entries of matrices that are in memory together
_BATCHES = 3
_DRIFTING, _TELLING = 400, 0.9  # draws of noise for a drift, and the share of them that can be
_ENOUGH = 0.2  # of a batch; below it impossible candidates are repaired, not dropped
_SMALL = 8  # rows of matrices that are factored side by side
_ERRORS = 4  # pairs +- of sampling errors for every candidate
_LIKELY = 0.9  # of the candidates' variances of the target; what explains more cannot be
_LEAST_SIGMA = 1e-12  # of errors: what they are scaled up by stays finite
_ROUNDING, _TINY = 1e-9, 1e-300  # of weights, and of what is divided by
_FEW, _LOOKED = 64, 100_000  # candidates that cannot be, and their entries, looked at of a batch
_LOADED = 0.3  # of the length of a sum, in directions without variance: it may be anything
_MANY = 7  # columns; of more each has a smaller part of a direction, as 1/4 in that of sixteen
_ROOM = 1.2  # where the released moments are mostly noise; the coverage page has what was measured


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidates for (intercept, slopes), scaled; ``feasible`` is their share among the draws.

    ``room`` is how far a clamp can have moved each of them: slopes, and before them the intercept
    as the level at the user's zero. It is infinite in a draw that allows everything.
    """

    values: FloatArray
    noise_only: FloatArray
    feasible: float
    room: FloatArray


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
    combined : array, shape (equations, q + 1), or None
        Weights of (intercept, slopes), scaled, of sums that are asked for in their place. Errors
        of unequal variance can move a sum by more than the moves of its terms tell.
    sizes : ErrorSizes, optional
        What was released of how much errors move coefficients.
    farthest : float
        The most that a clamp can have moved a residual.
    levels : sequence of range
        Places, from 1 on, of the indicators of each category, which exclude each other.
    """

    shift: FloatArray | None
    ridge: FloatArray
    origin: FloatArray
    equal_variance: bool
    combined: FloatArray | None = None
    sizes: ErrorSizes | None = None
    farthest: float = np.inf
    levels: Sequence[range] = ()


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
        Released second moments of z = (1, d, y), divided by n; NaN for an unknown square of y. The
        corner is 1, plus the mean distance by which a clamp has moved targets.
    draw : callable
        Count to that many matrices of noise of the same law.
    rows : int
        The public n, which sets the sampling error.
    """
    many = int(np.clip(_WORK / len(M) ** 2, _FEWEST, _MOST))
    drift = _drift(M, draw, wanted)
    found: list[_Lines] = []
    tried = 0
    for _ in range(_BATCHES):
        found += _tried(M, draw, many, rows, rng, wanted, drift)
        tried += many
        good = sum(len(each.bare) for each in found)
        if good >= _ENOUGH * many:
            break
    untold = np.asarray(sum(each.untold for each in found)) / tried
    if good < _ENOUGH * many:
        found = _tried(M, draw, many, rows, rng, wanted)
    width = len(M) - 1 if wanted.combined is None else len(wanted.combined)
    values = np.concatenate([each.values.reshape(-1, width) for each in found])
    room = np.repeat(np.concatenate([each.room for each in found]), 2 * _ERRORS, axis=0)
    # half of them: a candidate without ends counts in both tails
    place = np.arange(len(room))[:, None]
    endless = np.floor((place + 1) * untold / 2) > np.floor(place * untold / 2)
    room[:, room.shape[1] - len(untold) :][endless] = np.inf
    if good < _ENOUGH * many:
        # mostly noise: estimates are pulled to zero by more than the candidates differ
        centre = np.median(values, axis=0)
        values = centre + _ROOM * (values - centre)
    bare = np.concatenate([each.bare for each in found])
    return Candidates(values, bare, good / tried, room)


class _Lines(NamedTuple):
    """Coefficients with and without sampling error of some candidates, and their room.

    ``untold`` is the number of draws that allow everything, for every sum.
    """

    values: FloatArray
    bare: FloatArray
    room: FloatArray
    untold: FloatArray


def _tried(
    M: FloatArray,
    draw: Callable[[int], FloatArray],
    many: int,
    rows: int,
    rng: RandomSource,
    wanted: Wanted,
    drift: FloatArray | None = None,
) -> list[_Lines]:
    """Those of ``many`` candidates, a few at a time; without a drift, repaired."""
    few = max(_TOGETHER // len(M) ** 2, 1)
    found = []
    for start in range(0, many, 2 * few):
        noise = draw(min(few, (many - start + 1) // 2))  # its law is symmetric: each serves twice
        both = np.concatenate([M - noise, M + noise])
        found.append(_solve(both, rows, rng, wanted, drift))
    return found


@one_blas_thread()
def _drift(M: FloatArray, draw: Callable[[int], FloatArray], wanted: Wanted) -> FloatArray:
    """By how much noise moves slopes one way.

    Noise in what features have in common makes slopes longer, by about its square. It has done so
    to those of the released moments, and does so again to candidates, which are made from them:
    twice the distance between the two is too much. Nothing is known where these differ by more than
    candidates do.
    """
    noise = draw(int(np.clip(_TOGETHER / len(M) ** 2, _FEW, _DRIFTING)))
    parts = _centred(np.concatenate([M[None], M - noise, M + noise]), wanted.shift)
    _, inverse_root, positive = cholesky_factors(parts.C)
    if not positive[0] or positive.mean() < _TELLING:
        return np.zeros(parts.C.shape[-1])
    inverse: FloatArray = inverse_root.transpose(0, 2, 1) @ inverse_root
    if wanted.ridge.any():
        inverse = np.asarray(np.linalg.inv(parts.C[positive] + np.diag(wanted.ridge)))
    slopes = (inverse @ parts.g[positive][:, :, None])[:, :, 0]
    low, middle, high = np.quantile(slopes[1:], [0.16, 0.5, 0.84], axis=0)
    most = (high - low) / 2
    return np.asarray(2 * np.clip(middle - slopes[0], -most, most))


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


@dataclass(frozen=True, slots=True, eq=False)
class _Covariances:
    """Covariances of many candidates, and where the boxes of their columns lie."""

    C: FloatArray
    g: FloatArray
    total: FloatArray  # the variance of the target, or the most it can be
    mean: FloatArray
    level: FloatArray
    middle: FloatArray  # of the box of the centred features
    off: FloatArray  # how far the middle of the target's bounds is from its mean
    moved: FloatArray  # by how much a clamp has moved targets on average

    def only(self, which: NDArray[np.bool_]) -> _Covariances:
        if which.all():
            return self
        return _Covariances(*(getattr(self, name)[which] for name in self.__slots__))


def _centred(M: FloatArray, shift: FloatArray | None) -> _Covariances:
    """About the means, or about the public point that a line without intercept passes."""
    clamped = np.maximum(M[:, 0, 0] - 1, 0.0)
    if shift is not None:
        M = M.copy()
        M[:, 0, 0] = 1.0
    m, y = M[:, 0, 1:-1], M[:, 0, -1]
    most, middle, off = 1.0, -m, np.abs(y)
    if shift is not None:
        M, most = moved(M, shift), (1 + abs(float(shift[-1]))) ** 2
        m, y = np.zeros_like(m), np.zeros_like(y)
        middle, off = np.broadcast_to(shift[:-1], m.shape), np.full(len(m), abs(float(shift[-1])))
    C = M[:, 1:-1, 1:-1] - m[:, :, None] * m[:, None, :]
    total = M[:, -1, -1] - y**2
    total = np.where(np.isnan(total), most - y**2, np.clip(total, 0.0, most))
    g = M[:, 1:-1, -1] - m * y[:, None]
    return _Covariances(C, g, total, m, y, np.asarray(middle), off, clamped)


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


def _repaired(C: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Positive definite matrices near symmetric ones, and roots of them."""
    value, vector = np.linalg.eigh(C)
    floor = max(float(np.median(np.abs(value - np.median(value, axis=0)))), 1e-9)
    raised = np.where(value[:, :1] > 0, value, np.maximum(value, floor))
    root = vector * np.sqrt(raised)[:, None, :]
    return root @ root.transpose(0, 2, 1), root


def _untold(parts: _Covariances, wanted: Wanted) -> FloatArray:
    """Of how many matrices, which are not positive, sums lie in directions that have no variance.

    Features need not vary there, and a line may be as steep as it likes.
    """
    count, weights = len(parts.C), _weights(wanted)
    if count == 0:
        return np.zeros(len(weights))
    looked = int(np.clip(_LOOKED / parts.C.shape[-1] ** 2, 2, _FEW))  # wide ones take long
    few = slice(0, count, 1 + count // looked)
    value, vector = np.linalg.eigh(parts.C[few] + np.diag(wanted.ridge))
    along = _Sums(weights, parts.mean[few]).along
    lost = np.linalg.norm((along @ vector) * (value <= 0)[:, None, :], axis=2)
    size = np.maximum(np.linalg.norm(along, axis=2), np.abs(weights[:, 0]))
    loaded = _LOADED * min(1.0, np.sqrt(_MANY / value.shape[1]))
    return np.asarray(count * (lost > loaded * size).mean(axis=0))


@one_blas_thread()  # thousands of small matrices: threads would wait for each other
def _solve(
    M: FloatArray, rows: int, rng: RandomSource, wanted: Wanted, drift: FloatArray | None
) -> _Lines:
    """Lines of every matrix that can be, less a drift; without one, of the others, too, made
    positive."""
    parts, shift, repair = _centred(M, wanted.shift), wanted.shift, drift is None
    # not each candidate's own: those left would be the ones that noise gives a large residual
    most = max(float(np.quantile(parts.total, _LIKELY)), 1e-12)
    if repair:
        C, root = _repaired(parts.C)
        untold = np.zeros(len(_weights(wanted)))
        parts, carried = replace(parts, C=C), np.linalg.inv(root).transpose(0, 2, 1)
    else:
        root, inverse_root, positive = cholesky_factors(parts.C)
        untold = _untold(parts.only(~positive), wanted)
        parts, carried = parts.only(positive), inverse_root.transpose(0, 2, 1)
    # scores have covariance sigma^2 C / n; the ridge inverse carries them to the slopes
    inverse = carried @ carried.transpose(0, 2, 1)
    if wanted.ridge.any():
        inverse = np.linalg.inv(parts.C + np.diag(wanted.ridge))
        carried = inverse @ root
    slopes = (inverse @ parts.g[:, :, None])[:, :, 0] - (0.0 if drift is None else drift)
    explained = ((slopes[:, None, :] @ root) ** 2).sum(axis=(1, 2))
    if not repair:
        fits = explained <= most
        if not fits.all():
            parts, explained, slopes = parts.only(fits), explained[fits], slopes[fits]
            inverse, carried = inverse[fits], carried[fits]
    # more than 0: what is known of errors scales it up
    sigma = np.sqrt(np.maximum(parts.total - explained, _LEAST_SIGMA**2))
    size, width = slopes.shape
    half = rng.normal((size, width + 1, _ERRORS)) * (sigma / np.sqrt(rows))[:, None, None]
    error = np.concatenate([half, -half], axis=2)
    chance = np.tile(rng.normal((size, _ERRORS)), 2)[:, :, None]
    weights = _weights(wanted)
    sums = _Sums(weights, parts.mean)
    influences = affine_influences(weights, parts.mean, inverse, parts.middle)
    spread = np.sqrt(((sums.along @ carried) ** 2).sum(axis=2) + sums.constant**2)
    room = largest_sizes(influences, wanted.levels) * parts.moved[:, None]
    if np.isfinite(wanted.farthest):
        room = np.minimum(room, spread * np.sqrt(parts.moved * wanted.farthest)[:, None])
    scales = ErrorScales.even(influences.shape[:2], rows - width - 1)
    if not wanted.equal_variance:
        found = _Solved(parts, slopes, sigma, inverse, spread)
        scales = _uneven(found, weights, influences, rows, rng, wanted)
    off = sums.errors(np.asarray(carried), error) * scales.long_tails(chance)
    values, bare = sums.values(parts, slopes)[:, None, :] + off, _bare(parts, slopes, shift)
    if wanted.combined is not None:
        return _Lines(values, bare, room, untold)
    if shift is not None:  # no level of its own
        room = np.column_stack([0 * parts.moved, room])
        return _Lines(_through(values, shift), bare, room, untold)
    level, with_error = values[:, :, 0], values[:, :, 1:]
    values = np.dstack([level - with_error @ wanted.origin, with_error])
    return _Lines(values, bare, room, untold)


def _weights(wanted: Wanted) -> FloatArray:
    """Of the sums that are asked for."""
    if wanted.combined is not None:
        return wanted.combined
    return coefficient_weights(wanted.origin, intercept=wanted.shift is None)


class _Sums:
    """Weighted sums of (intercept, slopes): the level at a point, times a constant, and slopes."""

    def __init__(self, weights: FloatArray, mean: FloatArray) -> None:
        self.constant = weights[:, 0]
        self.along = weights[:, 1:] - self.constant[:, None] * mean[:, None, :]

    def values(self, parts: _Covariances, slopes: FloatArray) -> FloatArray:
        moved_level = (self.along @ slopes[:, :, None])[:, :, 0]
        return np.asarray(self.constant * parts.level[:, None] + moved_level)

    def errors(self, carried: FloatArray, error: FloatArray) -> FloatArray:
        """Shape (matrices, errors, sums), of equal variance."""
        on_slopes = (self.along @ carried @ error[:, 1:]).transpose(0, 2, 1)
        return np.asarray(on_slopes + self.constant * error[:, 0][:, :, None])


@dataclass(frozen=True, slots=True, eq=False)
class _Solved:
    """Lines of many candidates, and the root mean squares of the influences on their sums."""

    parts: _Covariances
    slopes: FloatArray
    sigma: FloatArray
    inverse: FloatArray
    spread: FloatArray


def _uneven(
    found: _Solved,
    weights: FloatArray,
    influences: FloatArray,
    rows: int,
    rng: RandomSource,
    wanted: Wanted,
) -> ErrorScales:
    """The sampling errors of sums over those of equal variance: the least that is known to hold."""
    parts, slopes, shift = found.parts, found.slopes, wanted.shift
    largest = _largest_error(parts, slopes)
    scales = bounded_scales(influences, found.spread, largest / found.sigma, rows)
    if wanted.sizes is None:
        return scales
    from tightdp.inference.uneven_errors import (
        CandidateLines,
        known_scales,
        least_scales,
        root_bounds,
    )

    level = parts.level if shift is None else np.full(len(slopes), -float(shift[-1]))
    lines = CandidateLines(parts.C, parts.middle, level, slopes, found.sigma, largest)
    plain = coefficient_weights(wanted.origin, intercept=shift is None)
    own = affine_influences(plain, parts.mean, found.inverse, parts.middle)
    roots, told = root_bounds(wanted.sizes, lines, own, rng)
    # a sum moves no more than its terms together
    terms = np.abs(weights @ np.linalg.pinv(plain))
    terms[terms < _ROUNDING * terms.max(axis=1, keepdims=True)] = 0.0
    roots, told = roots @ terms.T, np.logical_or(terms == 0, told).all(axis=1)
    even = np.maximum(found.spread * found.sigma[:, None], _TINY)
    known = known_scales(influences, even, lines, rows, roots)
    return least_scales(scales, known, even, told)


def _largest_error(parts: _Covariances, slopes: FloatArray) -> FloatArray:
    """That the bounds of the columns allow."""
    away = np.abs((slopes * parts.middle).sum(axis=1))
    return np.asarray(1 + parts.off + np.abs(slopes).sum(axis=1) + away)


def _bare(parts: _Covariances, slopes: FloatArray, shift: FloatArray | None) -> FloatArray:
    """(intercept, slopes) without sampling error."""
    if shift is not None:
        return _through(slopes, shift)
    return np.column_stack([parts.level - (parts.mean * slopes).sum(axis=1), slopes])


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

    >>> ends = np.append(np.arange(96.0), [np.inf] * 4)[:, None]
    >>> simultaneous_intervals(-ends, 0.06, ends)
    array([[-inf,  inf]])
    """
    tail = check_probability("alpha", alpha) / 2
    above = values if upper is None else upper
    low_order, high_order = np.sort(values, axis=0), np.sort(above, axis=0)
    at_most, at_least = np.empty(values.shape), np.empty(values.shape)
    for j in range(values.shape[1]):  # ties count on both sides: a constant cuts nobody off
        at_most[:, j] = np.searchsorted(low_order[:, j], values[:, j], side="right")
        at_least[:, j] = len(values) - np.searchsorted(high_order[:, j], above[:, j], side="left")
    depth = np.minimum(at_most, at_least).min(axis=1)  # how central a vector is at worst
    # no further in than the ends of each by itself: what has no ends counts in both tails at once
    own = int(tail * (len(values) - 1)) + 1
    cut = min(max(int(np.quantile(depth, alpha, method="lower")), 1), own)
    return np.column_stack([low_order[cut - 1], high_order[len(values) - cut]])


def missed_share(confidence: float) -> float:
    """1 - confidence, strictly between 0 and 1 and without the rounding of floats: 0.05 for 0.95.

    >>> missed_share(0.95), missed_share(5e-324) < 1, missed_share(1 - 1e-16) > 0
    (0.05, True, True)
    """
    return min(max(round(1 - confidence, 15), 1e-15), 1 - 1e-12)


def holding(values: FloatArray, bounds: FloatArray) -> FloatArray:
    """Intervals that reach to the estimates beside which they are printed.

    Estimates are shrunk by what is known of the noise. An interval that leaves its estimate out is
    made longer, until it holds it: it then holds the truth no less often.

    >>> holding(np.array([0.0, 2.0]), np.array([[1.0, 3.0], [1.0, 3.0]]))
    array([[0., 3.],
           [1., 3.]])
    """
    low, high = bounds.T
    return np.column_stack([np.minimum(low, values), np.maximum(high, values)])
