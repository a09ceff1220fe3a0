"""The loop of AIM (McKenna and others, 2022) on the solver of this package, for comparisons.

Written from the paper: measure one-way tables, then choose by the exponential mechanism, measure,
fit, and halve the noise whenever a table taught less than noise would. Noise is in floats, from a
generator of numpy: **not private**, and no part of the package. It shows what the choice of tables
and the spending of the budget are worth where both have the same solver and size of the model; the
authors' own code is run by ``synthetic_rows.py --peer``.
"""

from __future__ import annotations

import itertools
import math
from fractions import Fraction
from typing import Any

import numpy as np
from synthetic_sets import Codes

from tightdp.accounting.conversions import zcdp_rho
from tightdp.inference.junction_trees import Scope, model_cells
from tightdp.inference.synthetic_draws import drawn_codes
from tightdp.inference.table_fits import NoisyTable, fit_tables
from tightdp.randomness import source


def aim_loop(
    codes: Codes,
    sizes: list[int],
    epsilon: float,
    delta: float,
    *,
    most_cells: int,
    steps: int,
    seed: int,
) -> tuple[Codes, int]:
    """Synthetic rows of the loop, and how many tables were chosen."""
    rng, many = np.random.default_rng(seed), len(sizes)
    rho = float(zcdp_rho(Fraction(str(epsilon)), Fraction(str(delta))))
    singles: list[Scope] = [(j,) for j in range(many)]
    offered = [*singles, *itertools.combinations(range(many), 2)]
    true = {scope: _counted(codes, sizes, scope) for scope in offered}
    sigma = math.sqrt(16 * many / (2 * 0.9 * rho))
    rate = math.sqrt(8 * 0.1 * rho / (16 * many))
    noisy = [
        NoisyTable(s, true[s] + rng.normal(0, sigma, true[s].shape), sigma**2) for s in singles
    ]
    used = many / (2 * sigma**2)
    fit = fit_tables(sizes, noisy, len(codes), steps)
    last, chosen = False, 0
    while not last:
        if rho - used < 2 * (0.5 / sigma**2 + rate**2 / 8):
            sigma, rate = math.sqrt(1 / (1.8 * (rho - used))), math.sqrt(0.8 * (rho - used))
            last = True
        used += 0.5 / sigma**2 + rate**2 / 8
        scopes = [table.columns for table in noisy]
        able = [
            s
            for s in offered
            if model_cells(sizes, [*scopes, s]) <= max(most_cells * used / rho, sum(sizes))
        ]
        utility = [
            len(s)
            * (
                np.abs(true[s] - fit.counts(s)).sum()
                - math.sqrt(2 / math.pi) * sigma * true[s].size
            )
            for s in able
        ]
        weights = np.exp(rate / (2 * 2) * (np.array(utility) - max(utility)))
        scope = able[rng.choice(len(able), p=weights / weights.sum())]
        noise = rng.normal(0, sigma, true[scope].shape)
        noisy.append(NoisyTable(scope, true[scope] + noise, sigma**2))
        before = fit.counts(scope)
        fit = fit_tables(sizes, noisy, len(codes), steps, fit.weights)
        chosen += 1
        moved = np.abs(fit.counts(scope) - before).sum()
        if moved <= sigma * math.sqrt(2 / math.pi) * true[scope].size:
            sigma, rate = sigma / 2, rate * 2
    fit = fit_tables(sizes, noisy, len(codes), 600, fit.weights)
    return drawn_codes(fit.model, len(codes), source(seed), balanced=True), chosen


def _counted(codes: Codes, sizes: list[int], scope: Scope) -> np.ndarray[Any, Any]:
    shape = [sizes[j] for j in scope]
    places = np.ravel_multi_index(tuple(codes[:, j] for j in scope), shape)
    return np.bincount(places, minlength=math.prod(shape)).reshape(shape).astype(float)
