r"""Intervals for coefficients that count the privacy noise and the sampling error together.

The released moments are those of the table plus noise of a known law: :math:`\tilde G = G + N_G` of
:math:`z = (1, d)` and :math:`\tilde c = c + N_c` of z with the target. At the line of the
population, :math:`\beta`, errors are orthogonal to z but for a sampling error s, so

.. math:: \tilde c - \tilde G \beta = N_c - N_G \beta + s,

and the right side has a known law once :math:`\beta` is stated. With :math:`u = \tilde G^{-1} w`
and :math:`\tilde\beta = \tilde G^{-1} \tilde c`, a sum :math:`t = w \cdot \beta` of coefficients
follows

.. math:: w \cdot \tilde\beta - t = u \cdot (N_c - N_G \beta(t) + s):

an interval holds every t for which the right side can be as large as the left one (Fieller, 1954;
Anderson and Rubin, 1949). The line :math:`\beta(t) = \tilde\beta - (w \cdot \tilde\beta - t) h`,
with :math:`h = \tilde G^{-1} S u / (u \cdot S u)` and S the covariance of the right side, is the
one nearest to the release of all that have this sum. It is linear in t, so every draw of noise has
one t at which both sides are equal,

.. math:: w \cdot \tilde\beta
    - u \cdot (N_c - N_G \tilde\beta + s) / (1 - u \cdot N_G h),

and the ends of intervals are quantiles of these. For a line of one coefficient they are exact in
the noise, however large it is. With more (an intercept is one), the others are taken from the
release, and noise in their columns makes slopes longer, by about its square; so much is taken off
(:func:`_drift`). What intervals then hold is measured, not proved. Data are not touched again, so
nothing is spent.

**No ends.** A draw in which :math:`1 - u \cdot N_G h` is not positive says that features need not
vary in that direction, for all that the noise tells; a line may be as steep as it likes there. So
it allows everything: where more draws than the level allows do, the interval has no ends, as it
must for a ratio whose denominator may be 0 (Gleser and Hwang, 1987). Where that is the slope of a
numeric column, other coefficients lose theirs, too: a column that noise hides may be a copy of
another on a smaller scale, with a slope that makes up for it. So what the column that noise hides
most allows, all allow. Not so a *level* that noise hides. Its rows are few, whatever else they
share: its own mean is unknown, and other coefficients are moved by no more than these rows can
move them, which is counted.

If errors have equal variance, s is normal with variance :math:`\sigma^2 G/n`. Second moments do
not tell whether they have: without an assumption sampling errors are scaled up, and get longer
tails (:mod:`~tightdp.inference.error_scales`).

A second look at the rows clamps residuals, which moves the sum by
:math:`n^{-1} \sum_i (u \cdot z_i) m_i`, where :math:`m_i` is how far the clamp has moved one. That
is at most :math:`\sup_z |u \cdot z|`, over the rows that there may be, times the mean of
:math:`|m_i|`, which is released with noise; and, by the inequality of Cauchy and Schwarz, at most
the root of :math:`u \cdot G u` times that of the mean of :math:`m_i^2`, which is at most that of
:math:`|m_i|` times the farthest that bounds allow. So a candidate is not a point but an interval of
that half-width, its room, and ends of intervals are quantiles of the ends of candidates.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
from numpy.typing import NDArray

from tightdp.data.blocks import one_blas_thread
from tightdp.errors import FloatArray, check_probability
from tightdp.inference.error_scales import (
    ErrorScales,
    bounded_scales,
    coefficient_weights,
    largest_sizes,
)
from tightdp.randomness import RandomSource

if TYPE_CHECKING:
    from tightdp.inference.uneven_errors import CandidateLines, ErrorSizes

_MOST, _FEWEST = 2000, 400  # draws of noise: wide matrices take longer
_WORK = 4_000_000  # entries of all their matrices, about
_TOGETHER = 1_000_000  # entries of matrices that are in memory together
_ERRORS = 4  # pairs +- of sampling errors for every draw
_HIDDEN = 3.0  # standard deviations of the noise of its number of rows: fewer hide a level
_LEAST = 1e-2  # of the noise of an entry: a direction with less variance has none
_LEAST_SIGMA = 1e-12  # of errors: what they are scaled up by stays finite
_ROUNDING, _TINY = 1e-9, 1e-300  # of weights, and of what is divided by


@dataclass(frozen=True, slots=True, eq=False)
class Candidates:
    """Candidates for (intercept, slopes), scaled, or for sums of them.

    ``noise_only`` are what noise alone makes of them, to first order. ``room`` is how far a clamp
    can have moved each: slopes, and before them the intercept as the level at the user's zero. It
    is infinite in a draw that allows everything.
    """

    values: FloatArray
    noise_only: FloatArray
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
    line : array, shape (q + 1,), optional
        The estimate, about which residuals are as large as errors; else the plain solution.
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
    line: FloatArray | None = None
    combined: FloatArray | None = None
    sizes: ErrorSizes | None = None
    farthest: float = np.inf
    levels: Sequence[range] = ()

    @property
    def numeric(self) -> NDArray[np.int64]:
        """Places of the features that are no levels, from 0 on."""
        of_levels = [place - 1 for places in self.levels for place in places]
        return np.setdiff1d(np.arange(len(self.ridge)), of_levels)

    @property
    def largest_square(self) -> float:
        """The most that the square of a target can be, about the point that the line passes."""
        return 1.0 if self.shift is None else (1 + abs(float(self.shift[-1]))) ** 2

    @property
    def weights(self) -> FloatArray:
        """Of the sums that are asked for, on (intercept, slopes)."""
        if self.combined is not None:
            return self.combined
        return coefficient_weights(self.origin, intercept=self.shift is None)


@one_blas_thread()  # many small matrices: threads would wait for each other
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
    few = max(_TOGETHER // len(M) ** 2, 1)
    counts = [min(few, many // 2 - start) for start in range(0, many // 2, few)]
    first = draw(counts[0])
    equations = _Equations.of(M, first, wanted)
    sums = _Sums.of(equations, first, rows, wanted)
    parts = []
    for place, count in enumerate(counts):
        noise = first if place == 0 else draw(count)  # its law is symmetric: each serves twice
        parts.append(sums.solved(np.concatenate([noise, -noise]), rows, rng))
    values, bare, room = (np.concatenate(each) for each in zip(*parts, strict=True))
    return Candidates(_as_line(values, wanted), _as_line(bare, wanted), _with_level(room, wanted))


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


# --- the equations that were released -------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Equations:
    """Second moments of what the line is linear in, of that with the target, and what is hidden.

    Of z = (1, d) with an intercept, and of d about the public point without one.

    Attributes
    ----------
    M : array, shape (p + 1, p + 1)
        Of z and the target. A square of the target that is not known is the most that it can be.
    inverse : array, shape (p, p)
        Of those of z, with the ridge, made positive.
    least : float
        What a direction's variance is, where noise leaves less.
    moved : float
        By how much a clamp has moved targets on average, with noise.
    hidden : array, shape (levels, p)
        What has the value 1 in the rows of a level that noise hides, and 0 in others.
    products : array, shape (p, levels)
        Those of z with these, as they were released, with the ridge.
    share : float
        The most that these rows are of all.
    """

    M: FloatArray
    inverse: FloatArray
    least: float
    moved: float
    hidden: FloatArray
    products: FloatArray
    share: float
    wanted: Wanted

    @classmethod
    def of(cls, M: FloatArray, noise: FloatArray, wanted: Wanted) -> _Equations:
        own, drawn = _about(M, wanted), _about(noise, wanted)
        if np.isnan(own[-1, -1]):
            own[-1, -1] = wanted.largest_square
        hidden, most = _hidden_levels(M[0, :-1], noise[:, 0, :-1], wanted)
        if wanted.shift is not None:
            hidden = hidden[:, 1:]
        ridge = np.append(np.zeros(len(own) - 1 - len(wanted.ridge)), wanted.ridge)
        G = own[:-1, :-1] + np.diag(ridge)
        value, vector = np.linalg.eigh(G + hidden.T @ (most[:, None] * hidden))
        least = _LEAST * float(np.sqrt(np.mean(drawn[:, :-1, :-1] ** 2))) + _LEAST_SIGMA
        inverse = (vector / np.maximum(value, least)) @ vector.T
        clamped, share = float(M[0, 0]) - 1, float(most.sum())
        return cls(own, inverse, least, clamped, hidden, G @ hidden.T, share, wanted)

    @property
    def line(self) -> FloatArray:
        """The solution, nothing shrunk."""
        return np.asarray(self.inverse @ self.M[:-1, -1])

    @property
    def estimate(self) -> FloatArray:
        """The line that is published: shrunk by what is known of the noise."""
        line = self.wanted.line
        return self.line if line is None else line[len(line) - len(self.inverse) :]

    @property
    def slopes(self) -> FloatArray:
        return self.line[len(self.line) - len(self.wanted.ridge) :]

    def positive(self) -> FloatArray:
        """The moments of z, made positive semidefinite."""
        return _positive(self.M[:-1, :-1])

    def apart(self, noise: FloatArray, line: FloatArray) -> FloatArray:
        """What noise alone makes of products with the target, less those of z with a line."""
        return np.asarray(noise[:, :-1, -1] - noise[:, :-1, :-1] @ line)

    def variances(self, noise: FloatArray, rows: int) -> FloatArray:
        """Of errors, from the residuals of the estimate, which are shorter than they.

        At least as large as released: a draw of noise that leaves none would leave no sampling
        error, and where noise is larger than the variance that would be one in two.
        """
        sides = np.append(-self.estimate, 1.0)
        freedom = max(rows - len(self.inverse), 1)
        found = np.hypot(max(float(sides @ self.M @ sides), 0.0), (noise @ sides) @ sides)
        return np.clip(rows / freedom * found, _LEAST_SIGMA**2, self.wanted.largest_square)

    def influences(self, u: FloatArray) -> FloatArray:
        """Of a row on sums, as affine functions of d, shape (sums, q + 1)."""
        shift = self.wanted.shift
        return u.T if shift is None else np.column_stack([shift[:-1] @ u, u.T])

    def largest_error(self) -> float:
        """That the bounds of the columns allow."""
        shift, line = self.wanted.shift, self.line
        if shift is not None:
            line = np.append(line @ shift[:-1] - shift[-1], line)
        return 1 + float(largest_sizes(line, self.wanted.levels))


def _about(M: FloatArray, wanted: Wanted) -> FloatArray:
    """Moments, or noise in them, of z and the target: without what stands in their corner."""
    own = np.array(M)
    own[..., 0, 0] = 1.0 if M.ndim == 2 else 0.0
    return own if wanted.shift is None else moved(own, wanted.shift)[..., 1:, 1:]


def _positive(C: FloatArray) -> FloatArray:
    value, vector = np.linalg.eigh(C)
    return np.asarray((vector * np.maximum(value, 0.0)) @ vector.T)


def _hidden_levels(
    shares: FloatArray, noise: FloatArray, wanted: Wanted
) -> tuple[FloatArray, FloatArray]:
    """Levels whose number of rows noise hides, as functions of (1, d), and the most that each is.

    The first level of a category is where none of its indicators is 1.
    """
    functions = []
    for places in wanted.levels:
        own = np.eye(len(shares))[places.start : places.stop]
        first = np.eye(len(shares))[0] - own.sum(axis=0)
        functions += [*own, first] if wanted.shift is None else [*own]
    found = np.array(functions).reshape(-1, len(shares))
    size = _HIDDEN * np.sqrt(np.mean((noise @ found.T) ** 2, axis=0))
    share = found @ np.append(1.0, shares[1:])
    hidden = share < size
    return found[hidden], np.maximum(share[hidden], 0.0) + size[hidden]


# --- candidates for sums --------------------------------------------------------------------------


@dataclass(frozen=True, slots=True, eq=False)
class _Sums:
    """Sums of coefficients, and how noise reaches them.

    Attributes
    ----------
    u : array, shape (p, sums)
        By what the equations are multiplied.
    h : array, shape (sums, p)
        By how much the line moves where a sum does.
    value : array, shape (sums,)
        Without noise.
    root : array, shape (sums, p)
        A square root of the variance of sums where errors have equal variance 1.
    influences : array, shape (sums, q + 1)
    unknown : array, shape (sums,)
        Whether a sum counts a level that noise hides.
    veiled : arrays, shape (p, 1) and (1, p)
        u and h of the numeric column that noise hides most; none where all are levels.
    """

    equations: _Equations
    u: FloatArray
    h: FloatArray
    value: FloatArray
    root: FloatArray
    influences: FloatArray
    unknown: NDArray[np.bool_]
    veiled: tuple[FloatArray, FloatArray]

    @classmethod
    def of(cls, equations: _Equations, noise: FloatArray, rows: int, wanted: Wanted) -> _Sums:
        weights = wanted.weights if wanted.shift is None else wanted.weights[:, 1:]
        own, positive = _about(noise, wanted), equations.positive()
        apart = equations.apart(own, equations.line)
        sigma = float(np.mean(equations.variances(own, rows)))
        S = apart.T @ apart / len(apart) + sigma / rows * positive
        u, h = _paths(equations, S, weights)
        most = np.sqrt(np.mean((apart @ u) ** 2, axis=0))
        drift = np.clip(_drift(equations, own, u, h), -most, most)
        value, vector = np.linalg.eigh(positive)
        counted = np.abs(weights @ equations.hidden.T).max(axis=1, initial=0.0)
        return cls(
            equations,
            u,
            h,
            weights @ equations.line - drift,
            u.T @ (vector * np.sqrt(np.maximum(value, 0.0))),
            equations.influences(u),
            np.asarray(counted > _ROUNDING * np.abs(weights).max(axis=1)),  # in any units
            _most_hidden(equations, S, own),
        )

    def solved(
        self, noise: FloatArray, rows: int, rng: RandomSource
    ) -> tuple[FloatArray, FloatArray, FloatArray]:
        """Values, what noise alone makes of them, and room, for every draw of noise."""
        equations, wanted = self.equations, self.equations.wanted
        own = _about(noise, wanted)
        moves = equations.apart(own, equations.line) @ self.u
        left = 1 - _along(self.u, own, self.h)
        seen = (_along(self.veiled[0], own, self.veiled[1]) < 1).all(axis=1, keepdims=True)
        told = (left > 0) & seen & ~self.unknown
        left = np.where(told, left, 1.0)
        sigma = np.sqrt(equations.variances(own, rows))
        half = rng.normal((len(own), self.root.shape[1], _ERRORS)) / np.sqrt(rows)
        error = (self.root @ half * sigma[:, None, None]).transpose(0, 2, 1)
        error = np.concatenate([error, -error], axis=1)
        chance = np.tile(rng.normal((len(own), _ERRORS)), 2)[:, :, None]
        error *= self._scales(moves, sigma, rows, rng).long_tails(chance)
        values = self.value - (moves[:, None, :] + error) / left[:, None, :]
        room = np.where(told, self._room(noise[:, 0, 0], own) / left, np.inf)
        return (
            values.reshape(-1, values.shape[2]),
            self.value - moves,
            np.repeat(room, 2 * _ERRORS, axis=0),
        )

    @property
    def spread(self) -> FloatArray:
        """Root mean squares of the influences."""
        return np.asarray(np.sqrt((self.root**2).sum(axis=1)))

    def _room(self, noise: FloatArray, own: FloatArray) -> FloatArray:
        """How far a clamp can have moved sums, and the rows of levels that noise hides."""
        wanted, equations = self.equations.wanted, self.equations
        most = largest_sizes(self.influences, wanted.levels)
        clamped = np.maximum(equations.moved - noise, 0.0)[:, None]
        room = most * clamped
        if np.isfinite(wanted.farthest):
            room = np.minimum(room, self.spread * np.sqrt(clamped * wanted.farthest))
        if not equations.share:
            return np.asarray(room)
        # of a unit that is added to the errors of every level
        first = self.u.T @ equations.products
        reached = np.abs(first - (self.u.T @ own[:, :-1, :-1]) @ equations.hidden.T).sum(axis=2)
        return room + np.minimum(reached, most * equations.share) * equations.largest_error()

    def _scales(
        self, moves: FloatArray, sigma: FloatArray, rows: int, rng: RandomSource
    ) -> ErrorScales:
        """Sampling errors of sums over those of equal variance: the least that is known to hold."""
        equations, wanted = self.equations, self.equations.wanted
        shape, freedom = moves.shape, rows - self.influences.shape[1]
        if wanted.equal_variance and not wanted.ridge.any():
            return ErrorScales.even(shape, freedom)
        if wanted.equal_variance:
            factor = np.sqrt(1 + self._pulled(sigma))
            return ErrorScales(factor, rows / factor**2 - self.influences.shape[1])
        ceiling = equations.largest_error() / sigma
        scales = bounded_scales(self.influences[None], self.spread[None], ceiling, rows)
        if wanted.sizes is None:
            return scales
        from tightdp.inference.uneven_errors import known_scales, least_scales, root_bounds

        lines = _lines(equations, sigma)
        plain = coefficient_weights(wanted.origin, intercept=wanted.shift is None)
        u = equations.inverse @ (plain if wanted.shift is None else plain[:, 1:]).T
        single = equations.influences(u)
        single = np.broadcast_to(single, (len(sigma), *single.shape))
        roots, told = root_bounds(wanted.sizes, lines, single, rng)
        # a sum moves no more than its terms together
        terms = np.abs(wanted.weights @ np.linalg.pinv(plain))
        terms[terms < _ROUNDING * terms.max(axis=1, keepdims=True)] = 0.0
        roots, told = roots @ terms.T, np.logical_or(terms == 0, told).all(axis=1)
        even = np.maximum(self.spread * sigma[:, None], _TINY)
        known = known_scales(self.influences[None], even, lines, rows, roots)
        return least_scales(scales, known, even, told)

    def _pulled(self, sigma: FloatArray) -> FloatArray:
        """The most that what a ridge takes from the line adds to squares of sampling errors.

        Errors about the line that is left are larger where rows lie far along what was taken.
        """
        equations = self.equations
        value, vector = np.linalg.eigh(equations.positive())
        ridge = np.append(
            np.zeros(len(value) - len(equations.wanted.ridge)), equations.wanted.ridge
        )
        taken = vector @ (
            (ridge * equations.estimate) @ vector / np.maximum(value, equations.least)
        )
        square = np.minimum(value @ (taken @ vector) ** 2 / sigma**2, 1.0)[:, None]
        levels = equations.wanted.levels
        influence = largest_sizes(self.influences, levels) / np.maximum(self.spread, _TINY)
        farthest = float(largest_sizes(equations.influences(taken[:, None]), levels)[0])
        return np.minimum(influence**2 * square, (farthest / sigma[:, None]) ** 2)


def _paths(equations: _Equations, S: FloatArray, weights: FloatArray) -> tuple[FloatArray, ...]:
    """u and h of sums with these weights: see the top of this page."""
    u = equations.inverse @ weights.T
    return u, (equations.inverse @ S @ u / np.maximum((u * (S @ u)).sum(axis=0), _TINY)).T


def _most_hidden(
    equations: _Equations, S: FloatArray, noise: FloatArray
) -> tuple[FloatArray, FloatArray]:
    """u and h of the numeric column whose slope noise may most easily have made up."""
    places = len(equations.inverse) - len(equations.wanted.ridge) + equations.wanted.numeric
    u, h = _paths(equations, S, np.eye(len(equations.inverse))[places])
    most = np.argsort(-np.square(_along(u, noise, h)).mean(axis=0))[:1]
    return u[:, most], h[most]


def _drift(equations: _Equations, noise: FloatArray, u: FloatArray, h: FloatArray) -> FloatArray:
    """By how much noise has moved sums one way: it makes slopes longer, by about its square.

    To second order, at the estimate; but for what it makes of a sum's own moves, which is counted
    where these are.
    """
    apart = equations.apart(noise, equations.estimate)
    again = noise[:, :-1, :-1] @ (apart @ equations.inverse)[:, :, None]
    return np.asarray(np.mean((apart @ u) * _along(u, noise, h) - again[:, :, 0] @ u, axis=0))


def _along(u: FloatArray, noise: FloatArray, h: FloatArray) -> FloatArray:
    """What noise makes of every unit that sums move, shape (draws, sums)."""
    return np.asarray(((u.T @ noise[:, :-1, :-1]) * h).sum(axis=2))


def _lines(equations: _Equations, sigma: FloatArray) -> CandidateLines:
    """The line that was released, for every root mean square of its errors."""
    from tightdp.inference.uneven_errors import CandidateLines

    M, shift = equations.M, equations.wanted.shift
    if shift is None:
        C, centre, level = M[1:-1, 1:-1] - np.outer(M[0, 1:-1], M[0, 1:-1]), -M[0, 1:-1], M[0, -1]
    else:
        C, centre, level = M[:-1, :-1], shift[:-1], -shift[-1]
    each, slopes = _positive(C), equations.slopes
    many = len(sigma)
    return CandidateLines(
        np.broadcast_to(each, (many, *each.shape)),
        np.broadcast_to(centre, (many, len(centre))),
        np.full(many, float(level)),
        np.broadcast_to(slopes, (many, len(slopes))),
        sigma,
        np.full(many, equations.largest_error()),
    )


def _as_line(values: FloatArray, wanted: Wanted) -> FloatArray:
    """(intercept, slopes), where no other sums are asked for, from levels and slopes."""
    if wanted.combined is not None:
        return values
    if wanted.shift is not None:
        level = values @ wanted.shift[:-1] - wanted.shift[-1]
        return np.column_stack([level, values])
    return np.column_stack([values[:, 0] - values[:, 1:] @ wanted.origin, values[:, 1:]])


def _with_level(room: FloatArray, wanted: Wanted) -> FloatArray:
    """Without an intercept the level has none of its own."""
    if wanted.combined is not None or wanted.shift is None:
        return room
    return np.column_stack([np.zeros(len(room)), room])


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
