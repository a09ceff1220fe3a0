"""Algorithm 4 of [1] with a public clip: the reference simulation of linear regression."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from tightdp.estimators.linear import LinearRegression
from tightdp.mechanisms.linear_fit import LinearFit

FEATURES, CLIP = 5, 6.0
SLOPES = np.linspace(-1.5, 1.5, FEATURES)
BOUNDS = [(-1.0, 1.0)] * FEATURES + [(-CLIP, CLIP)]

Array = NDArray[np.float64]


def algorithm_4(rng: np.random.Generator, rows: int) -> tuple[Array, Array]:
    X = rng.uniform(-1, 1, (rows, FEATURES))
    return X, np.clip(X @ SLOPES + rng.standard_normal(rows), -CLIP, CLIP)


def least_squares(X: Array, y: Array) -> tuple[Array, Array]:
    """(intercept, slopes) without privacy, and their standard errors."""
    Z = np.column_stack([np.ones(len(X)), X])
    G = Z.T @ Z
    b = np.linalg.solve(G, Z.T @ y)
    spread = ((y - Z @ b) ** 2).sum() / (len(X) - Z.shape[1])
    return b, np.sqrt(spread * np.diag(np.linalg.inv(G)))


def refits(
    model: LinearRegression, X: Array, y: Array, count: int, seed: int, *, cut: float = 1.0
) -> Array:
    """Slopes of many releases of one table; ``cut`` scales the noise, for planted faults."""
    problem = model._problem(X, y)
    mechanism = model._mechanism(problem)
    moments, law = mechanism.statistic, mechanism.moments
    exact = np.array(moments.measure(problem.frame, bits=law.bits)) / law.resolution
    noisy = exact + cut * law.simulate(count, rng=seed)
    fits = [LinearFit(mechanism, moments.matrices(sums / len(X))) for sums in noisy]
    return np.array([fit.coefficients[1:] for fit in fits])
