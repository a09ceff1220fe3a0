r"""Slopes for a target as it was before it was moved to its bounds; costs nothing.

By Stein's lemma :math:`cov(x, h(y)) = cov(x, y)\,E h'(y)` for jointly normal x and y, and for the
clamp h the last factor is the probability that y lies inside the bounds: clamping multiplies all
slopes by it. The mean and the mean square of the clamped target give the normal law of y, hence the
factor. This is indirect inference ([38]) in closed form.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy.special import ndtr

from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import FloatArray, UndecidedError, check_probability, fail
from tightdp.inference.bootstrap import fitted_matrix, moments_of
from tightdp.inference.regions import quantile_intervals
from tightdp.randomness import RandomSource, SeededSource

_ROUNDS, _STEP = 2_000, 1e-9
_SEED = 20_250_708
_DRAWS, _ROWS, _ENOUGH = 1_000, 20_000, 100
_WIDEST = 1e3


@dataclass(frozen=True, slots=True, eq=False)
class Unclipped:
    """What would have been found without the clamp.

    Attributes
    ----------
    coef : array
        Slopes in user units.
    interval : array, shape (slopes, 2)
        Rows (low, high), privacy noise, sampling error and that of the clamp together.
    inside : float
        The share of targets inside their bounds.
    """

    coef: FloatArray
    interval: FloatArray
    inside: float


def without_clipping(model: Any, alpha: float = 0.05) -> Unclipped:
    r"""Slopes and intervals for the target before the clamp, for jointly normal data.

    Intervals are a parametric bootstrap turned around: noise of the exact law and sampling errors
    of the fitted normal model, whose covariance between all moments comes from simulated rows, are
    taken off the released moments, and every candidate is corrected by a factor of its own.

    Parameters
    ----------
    model : LinearRegression or Ridge, fitted with ``post="shrink"``
    alpha : float
        1 minus the level of the intervals.

    Examples
    --------
    >>> from tightdp import LinearRegression
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(0, 0.3, 200_000)
    >>> y = 4 * x + rng.normal(0, 0.5, 200_000)  # a third of it outside [-1.25, 1.25]
    >>> model = LinearRegression(epsilon=5, bounds=[(-1.5, 1.5), (-1.25, 1.25)], random_state=1)
    >>> found = without_clipping(model.fit(x[:, None], y))
    >>> model.coef_.round(1), found.coef.round(1)
    (array([2.7]), array([4.]))
    >>> low, high = found.interval[0]
    >>> bool(low < 4 < high)
    True
    """
    check_probability("alpha", alpha)
    moments = moments_of(model)
    M = model._moments
    if not np.isfinite(M[-1, -1]):
        fail("The square of the target was not released: fit with post='shrink'.")
    normal = clamped_normal(M[0, -1], M[-1, -1])
    if not normal.found.all():
        fail("Nearly every target lies outside its bounds: widen them.", UndecidedError)
    inside, scale = float(normal.inside), model._half[-1] / model._half[:-1]
    bounds = quantile_intervals(_candidates(model, moments, normal) * scale, alpha)
    return Unclipped(model.coef_ / inside, bounds, inside)


def _candidates(model: Any, moments: RegressionMoments, normal: ClampedNormal) -> FloatArray:
    """Slopes before the clamp that the released moments are compatible with, scaled."""
    rng, rows = SeededSource(_SEED), moments.schema.rows
    i, j, factor = moments.entries.T
    z = _simulated(model, normal, rng)
    spread = np.cov((z[:, i] * z[:, j]).T) / rows
    value, vector = np.linalg.eigh(np.atleast_2d(spread))
    error = (rng.normal((_DRAWS, len(i))) * np.sqrt(np.maximum(value, 0.0))) @ vector.T
    error += model._law.draw(_DRAWS, rng=rng) / (factor * rows)
    both = np.concatenate([error, -error])  # its law is symmetric: every draw serves twice
    M = moments.matrices((model._moments[i, j] - both) * factor)
    m, y = M[:, 0, 1:-1], M[:, 0, -1]
    C = M[:, 1:-1, 1:-1] - m[:, :, None] * m[:, None, :]
    g = M[:, 1:-1, -1] - m * y[:, None]
    laws = clamped_normal(y, M[:, -1, -1])
    good = (np.linalg.eigvalsh(C)[:, 0] > 0) & laws.found
    if good.sum() < _ENOUGH:  # the noise hides everything
        return np.outer([-np.inf, np.inf], np.ones(g.shape[1]))
    slopes = np.linalg.solve(C[good], g[good][:, :, None])[:, :, 0]
    return np.asarray(slopes / laws.inside[good][:, None])


def _simulated(model: Any, normal: ClampedNormal, rng: RandomSource) -> FloatArray:
    """Rows (1, d, clamped y) of the normal model that the release suggests, scaled."""
    M = fitted_matrix(model)
    mean, b = M[0, 1:-1], model.coef_ * model._half[:-1] / model._half[-1]
    b = b / float(normal.inside)
    value, vector = np.linalg.eigh(M[1:-1, 1:-1] - np.outer(mean, mean))
    root = vector * np.sqrt(np.maximum(value, 1e-9))
    d = rng.normal((_ROWS, len(b))) @ root.T
    rest = max(float(normal.scale) ** 2 - float(((b @ root) ** 2).sum()), 1e-9)
    y = float(normal.centre) + d @ b + math.sqrt(rest) * rng.normal(_ROWS)
    return np.column_stack([np.ones(_ROWS), d + mean, np.clip(y, -1.0, 1.0)])


@dataclass(frozen=True, slots=True, eq=False)
class ClampedNormal:
    """Normal variables whose clamps to [-1, 1] have given moments: arrays of one shape."""

    centre: FloatArray
    scale: FloatArray
    found: NDArray[np.bool_]

    @property
    def inside(self) -> FloatArray:
        """The probability of (-1, 1)."""
        low, high = (-1 - self.centre) / self.scale, (1 - self.centre) / self.scale
        return np.asarray(ndtr(high) - ndtr(low))


def clamped_normal(mean: ArrayLike, square: ArrayLike) -> ClampedNormal:
    """The normal laws whose clamps have these first two moments, by fixed-point iteration.

    >>> law = clamped_normal(0.0, 0.01)  # hardly ever clamped
    >>> round(float(law.scale), 3), round(float(law.inside), 3)
    (0.1, 1.0)
    """
    wanted = np.clip(np.asarray(mean, dtype=np.float64), -0.999, 0.999)
    spread = np.maximum(np.clip(square, 0.0, 0.999) - wanted**2, 1e-12)
    centre, scale = wanted.copy(), np.sqrt(spread)
    found = np.zeros(wanted.shape, dtype=bool)
    for _ in range(_ROUNDS):
        first, second = clamped_moments(centre, scale)
        got = np.maximum(second - first**2, 1e-12)
        move = wanted - first
        found = (np.abs(move) < _STEP) & (np.abs(spread - got) < _STEP)
        if found.all():
            break
        centre, scale = centre + move, np.minimum(scale * np.sqrt(spread / got), _WIDEST)
    return ClampedNormal(centre, scale, found)


def clamped_moments(centre: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and mean square of normal variables clamped to [-1, 1]."""
    low, high = (-1 - centre) / scale, (1 - centre) / scale
    below, above = ndtr(low), ndtr(-high)
    mass = 1 - below - above
    edge = _density(low) - _density(high)
    first = centre * mass + scale * edge + above - below
    bend = low * _density(low) - high * _density(high)
    second = centre**2 * mass + 2 * centre * scale * edge + scale**2 * (mass + bend)
    return np.asarray(first), np.asarray(second + below + above)


def _density(t: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-t * t / 2) / math.sqrt(2 * math.pi))
