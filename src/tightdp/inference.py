r"""What a fitted regression says about the population, beyond its intervals; costs nothing.

Both functions here use the release and public facts alone. :func:`bootstrap_coverage` is the
parametric bootstrap of [37]: tables are simulated from the fitted model, released with the exact
law of the noise and fitted again, and the intervals are checked against the model they came from.
:func:`without_clipping` undoes the bias of a target that was moved to its bounds.
"""

from __future__ import annotations

import copy
import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import FloatArray, UndecidedError, check_count, check_probability, fail
from tightdp.randomness import RandomSource, source

_ROUNDS, _STEP = 2_000, 1e-9


@dataclass(frozen=True, slots=True, eq=False)
class Unclipped:
    """Coefficients for the target as it was before the clamp, and the share of rows inside it."""

    coef: FloatArray
    inside: float


def bootstrap_coverage(
    model: Any, alpha: float = 0.05, *, replicates: int = 200, rng: Any = None
) -> FloatArray:
    """How often intervals like those of ``model`` hold, for every coefficient, the intercept first.

    Features keep their released moments; targets are drawn around the fitted line with normal
    errors of the fitted variance. A share well below ``1 - alpha`` says that the intervals of the
    model should not be trusted; its standard error is ``sqrt(share (1 - share) / replicates)``.

    Examples
    --------
    >>> from tightdp import LinearRegression
    >>> x = np.linspace(-1, 1, 4_001)
    >>> model = LinearRegression(bounds=[(-1, 1), (-5, 5)], random_state=1)
    >>> share = bootstrap_coverage(model.fit(x[:, None], 2 * x), replicates=20, rng=1)
    >>> share.shape, bool((share > 0.7).all())
    ((2,), True)
    """
    check_probability("alpha", alpha)
    count, bits = check_count("replicates", replicates), source(rng)
    moments = _moments_of(model)
    truth = np.append(model.intercept_, model.coef_)
    exact = _fitted_matrix(model)
    hits = np.zeros(len(truth))
    i, j, factor = moments.entries.T
    for noise in model._law.draw(count, rng=bits):
        M = _resampled(exact, moments.schema.rows, bits)
        twin = copy.copy(model)
        twin._candidates = None
        twin._moments = moments.matrices(M[i, j] * factor + noise / moments.schema.rows)
        low, high = twin.conf_int(alpha, intercept=True).T
        hits += (low <= truth) & (truth <= high)
    return hits / count


def without_clipping(model: Any) -> Unclipped:
    r"""Slopes for the target before the clamp, if features and target are roughly jointly normal.

    By Stein's lemma :math:`cov(x, h(y)) = cov(x, y)\,E h'(y)`, and for the clamp h the last factor
    is the probability that y lies inside the bounds: clamping multiplies all slopes by it. The
    released mean and mean square of the clamped target give the normal law of y, hence the factor.
    This is indirect inference ([38]) with one parameter, solved without simulation.

    Examples
    --------
    >>> from tightdp import LinearRegression
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(0, 0.3, 200_000)
    >>> y = 4 * x + rng.normal(0, 0.5, 200_000)  # a third of it outside [-1.25, 1.25]
    >>> model = LinearRegression(epsilon=5, bounds=[(-1.5, 1.5), (-1.25, 1.25)], random_state=1)
    >>> model.fit(x[:, None], y).coef_.round(1), without_clipping(model).coef.round(1)
    (array([2.7]), array([4.]))
    """
    _moments_of(model)
    mean, square = model._moments[0, -1], model._moments[-1, -1]
    if not np.isfinite(square):
        fail("The square of the target was not released: fit with post='shrink'.")
    inside = _inside(float(np.clip(mean, -0.999, 0.999)), float(np.clip(square, 0.0, 0.999)))
    return Unclipped(model.coef_ / inside, inside)


def _moments_of(model: Any) -> RegressionMoments:
    law = getattr(model, "_law", None)
    if law is None or not isinstance(law.statistic, RegressionMoments):
        fail("`model` must be a fitted LinearRegression or Ridge.")
    return law.statistic


def _fitted_matrix(model: Any) -> FloatArray:
    """Second moments of (1, d, y) as the model sees them: features as released, y on the line."""
    M = model._moments.copy()
    value, vector = np.linalg.eigh(M[:-1, :-1])
    inner = (vector * np.maximum(value, 1e-9)) @ vector.T
    scaled = model.coef_ * model._half[:-1] / model._half[-1]
    level = model.intercept_ + model.coef_ @ model._middle[:-1] - model._middle[-1]
    b = np.append(level / model._half[-1], scaled)
    M[:-1, :-1] = inner
    M[:-1, -1] = M[-1, :-1] = inner @ b
    explained = float(b @ inner @ b)
    total = M[-1, -1] if np.isfinite(M[-1, -1]) else 1.0
    M[-1, -1] = max(float(total), explained * (1 + 1e-6) + 1e-9)
    return np.asarray(M)


def _resampled(M: FloatArray, rows: int, rng: RandomSource) -> FloatArray:
    """The same moments with the sampling error of the products with y and of its square."""
    b = np.linalg.solve(M[:-1, :-1], M[:-1, -1])
    spread = max(float(M[-1, -1] - b @ M[:-1, -1]), 0.0)
    root = np.linalg.cholesky(M[:-1, :-1])
    error = math.sqrt(spread / rows) * (root @ rng.normal(len(b)))
    out = M.copy()
    out[:-1, -1] += error
    out[-1, :-1] += error
    out[-1, -1] += 2 * b @ error + spread * math.sqrt(2 / rows) * float(rng.normal(1)[0])
    return out


def _inside(mean: float, square: float) -> float:
    """P(|y| < 1) for the normal y whose clamp to [-1, 1] has these first two moments."""
    centre, scale = mean, math.sqrt(max(square - mean**2, 1e-12))
    for _ in range(_ROUNDS):
        got_mean, got_square = _clamped_moments(centre, scale)
        spread = max(square - mean**2, 1e-12)
        got = max(got_square - got_mean**2, 1e-12)
        move = mean - got_mean
        centre, scale = centre + move, scale * math.sqrt(spread / got)
        if abs(move) < _STEP and abs(spread - got) < _STEP:
            return _cdf((1 - centre) / scale) - _cdf((-1 - centre) / scale)
    fail("Nearly every target lies outside its bounds: widen them.", UndecidedError)


def _clamped_moments(centre: float, scale: float) -> tuple[float, float]:
    """Mean and mean square of a normal variable clamped to [-1, 1]."""
    low, high = (-1 - centre) / scale, (1 - centre) / scale
    below, above = _cdf(low), 1 - _cdf(high)
    mass = 1 - below - above
    edge = _density(low) - _density(high)
    first = centre * mass + scale * edge + above - below
    bend = low * _density(low) - high * _density(high)
    second = centre**2 * mass + 2 * centre * scale * edge + scale**2 * (mass + bend)
    return first, second + below + above


def _cdf(t: float) -> float:
    return 0.5 * math.erfc(-t / math.sqrt(2))


def _density(t: float) -> float:
    return math.exp(-t * t / 2) / math.sqrt(2 * math.pi)
