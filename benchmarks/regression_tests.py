"""Type I errors and power of tests about coefficients of a linear regression.

    python benchmarks/regression_tests.py --tables 200 --processes 16 [--only 3 4] --out results.md

Noise comes from its continuous law; what is simulated after a release is drawn 8,000 times for a
setting, and every table has some of it. The target is 1 + a and an error; b, c and d have no
effect. Three hypotheses are true: b = 0, b = c, and b = c = d = 0 (a nested model); a = 0 is not,
and its column is power. Columns are even, correlated (0.8) or skewed (squares of even ones); errors
are normal, or grow with a. The grid was fixed before anything ran; level 0.05.
"""

from __future__ import annotations

import argparse
import platform
from functools import partial
from multiprocessing import Pool as Processes
from pathlib import Path

import numpy as np
from coverage_grid import STRIDE, Pool

import tightdp as tdp
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit

SEED = 20_261_118
NAMES = "abcd"
HYPOTHESES = {
    "b = 0": [[0, 0, 1, 0, 0]],
    "b = c": [[0, 0, 1, -1, 0]],
    "b = c = d = 0": [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
    "a = 0 (power)": [[0, 1, 0, 0, 0]],
}
WEIGHTS = [np.array(equations, dtype=float) for equations in HYPOTHESES.values()]
GRID = [
    (rows, epsilon, shape, errors)
    for rows in (500, 5_000)
    for epsilon in (0.1, 1.0, 8.0)
    for shape, errors in (("even", "equal"), ("correlated", "equal"), ("skewed", "growing"))
]


def squares(rows: int, epsilon: float) -> LeastSquares:
    columns = {name: tdp.Interval(-1, 1) for name in NAMES} | {"y": tdp.Interval(-4, 4)}
    return LeastSquares(tdp.Schema(columns, rows=rows), [*NAMES], "y", epsilon=epsilon)


def features(rng: np.random.Generator, rows: int, shape: str) -> np.ndarray:
    X = rng.uniform(-1, 1, (rows, 4))
    if shape == "correlated":
        common = rng.uniform(-1, 1, (rows, 1))
        return np.clip(0.45 * X + 0.9 * common, -1, 1)
    return 2 * X**2 * np.abs(X) - 1 if shape == "skewed" else X


def products(rows: int, shape: str, errors: str, seed: int) -> np.ndarray:
    """Mean products of (1, features, target), scaled."""
    rng = np.random.default_rng([3, seed])
    X = features(rng, rows, shape)
    size = 0.5 if errors == "equal" else 0.2 + 0.6 * (X[:, 0] + 1) / 2
    y = 1 + X[:, 0] + size * rng.standard_normal(rows)
    whole = np.column_stack([np.ones(rows), X, np.clip(y, -4, 4) / 4])
    return np.asarray(whole.T @ whole / rows)


def shares(
    tables: int, setting: tuple[int, float, str, str]
) -> tuple[tuple[int, float, str, str], np.ndarray]:
    """How often hypotheses are rejected, without an assumption and with equal variances."""
    rows, epsilon, shape, errors = setting
    mechanism = squares(rows, epsilon)
    noise = mechanism.statistic.noise_matrices(mechanism.moments.simulate(tables, rng=SEED) / rows)
    pool = Pool(mechanism.moments.simulate(8_000, rng=SEED + 1))
    mechanism.moments.simulate = pool.draw  # type: ignore[method-assign]
    found = []
    for place in range(tables):
        M = products(rows, shape, errors, place) + noise[place]
        if not mechanism.statistic.square:
            M[-1, -1] = np.nan
        fit, pool.start = LinearFit(mechanism, M), STRIDE * place
        each = [
            [fit.tested(W, W @ fit.coefficients, np.zeros(len(W)), assume) <= 0.05 for W in WEIGHTS]
            for assume in (None, "equal variance")
        ]
        found.append(each)
    return setting, np.mean(found, axis=0)


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--tables", type=int, default=200)
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("--only", type=int, nargs="*", default=range(len(GRID)))
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    tables, most = asked.tables, 0.0
    lines = [
        f"| rows | epsilon | columns | errors | {' | '.join(HYPOTHESES)} |",
        "|---|---|---|---|---|---|---|---|",
    ]
    settings = [GRID[place] for place in asked.only]
    with Processes(asked.processes) as processes:
        for setting, (plain, equal) in processes.imap(partial(shares, tables), settings):
            most = max(most, float(plain[:3].max()))
            cells = [f"{p:.3f} ({q:.3f})" for p, q in zip(plain, equal, strict=True)]
            rows, epsilon, shape, errors = setting
            lines.append(f"| {rows:,} | {epsilon:g} | {shape} | {errors} | {' | '.join(cells)} |")
            print(lines[-1], flush=True)
    error = 3 * (0.05 * 0.95 / tables) ** 0.5
    text = "\n".join(
        [
            "# Tests about coefficients",
            "",
            f"Shares of {tables} tables that are rejected at level 0.05, in brackets with",
            '`assume="equal variance"`, which is wrong where errors grow. What lines mean is in',
            f"`benchmarks/regression_tests.py`; Python {platform.python_version()}, numpy "
            f"{np.__version__}.",
            "",
            *lines,
            "",
            f"Largest type I error without the assumption: {most:.3f}; three standard errors of",
            f"{tables} tables at 0.05 are {error:.3f}.",
            "",
        ]
    )
    if asked.out is None:
        print(text)
    else:
        asked.out.write_text(text)


if __name__ == "__main__":
    main()
