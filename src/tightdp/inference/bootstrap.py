"""Would the intervals of a fitted regression hold, were its model true? Costs nothing.

The parametric bootstrap of [37]: tables are simulated from the fitted model, released with the
exact law of the noise and fitted again, and the intervals are checked against the model that they
came from. The release and public facts are all that is used.
"""

from __future__ import annotations

import copy
import math
from typing import Any

import numpy as np

from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import FloatArray, check_count, check_probability, fail
from tightdp.randomness import RandomSource, source


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
    moments = moments_of(model)
    truth = np.append(model.intercept_, model.coef_)
    exact = fitted_matrix(model)
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


def moments_of(model: Any) -> RegressionMoments:
    law = getattr(model, "_law", None)
    if law is None or not isinstance(law.statistic, RegressionMoments):
        fail("`model` must be a fitted LinearRegression or Ridge.")
    return law.statistic


def fitted_matrix(model: Any) -> FloatArray:
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
