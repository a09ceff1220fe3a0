"""Candidates for coefficients lie around the coefficients."""

import numpy as np

import tightdp as tdp
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit

ROWS, COLUMNS, TABLES = 3_000, 6, 60


def moments(rng):
    """Mean products of (1, d, y), in which one slope explains nearly all of the target."""
    x = rng.uniform(-1, 1, (ROWS, COLUMNS))
    y = np.clip(0.9 * x[:, 0] + 0.1 * rng.standard_normal(ROWS), -1, 1)
    z = np.column_stack([np.ones(ROWS), x, y])
    return z.T @ z / ROWS


def test_noise_that_lengthens_a_slope_does_not_do_so_twice(seed):
    """Without the drift their centres lie 0.7 standard deviations above least squares."""
    facts = {f"x{i}": tdp.Interval(-1, 1) for i in range(COLUMNS)}
    schema = tdp.Schema({**facts, "y": tdp.Interval(-1, 1)}, rows=ROWS)
    mechanism, rng = LeastSquares(schema, list(facts), "y", epsilon=1), np.random.default_rng(seed)
    noise = mechanism.moments.simulate(TABLES, rng=seed) / ROWS
    off, held = [], 0
    for drawn in mechanism.statistic.noise_matrices(noise):
        exact = moments(rng)
        slope = np.linalg.solve(exact[:-1, :-1], exact[:-1, -1])[1]
        fit = LinearFit(mechanism, exact + drawn)
        found = fit.candidates("equal variance").values[:, 1]
        off.append((np.median(found) - slope) / found.std())
        low, high = fit.intervals(0.2, assume="equal variance")[1]
        held += low <= slope <= high
    assert abs(np.mean(off)) < 0.4  # three standard errors of a mean of 60
    assert held > 0.8 * TABLES - 4 * np.sqrt(0.8 * 0.2 * TABLES)
