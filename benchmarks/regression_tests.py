"""Type I errors and power of tests about coefficients of a linear regression.

    python benchmarks/regression_tests.py --tables 200 --processes 16 [--only 3 4] --out results.md

The target is 1 + a and an error; b, c and d have no effect. Three hypotheses are true: b = 0,
b = c, and b = c = d = 0 (a nested model); a = 0 is not, and its column is power. Columns are
even, correlated (0.8) or skewed (squares of even ones); errors are normal, or grow with a. The
grid was fixed before anything ran; level 0.05.
"""

from __future__ import annotations

import argparse
import platform
from functools import cache, partial
from multiprocessing import Pool
from pathlib import Path

import numpy as np

import tightdp as tdp
from tightdp.mechanisms.least_squares import LeastSquares

NAMES = "abcd"
HYPOTHESES = {
    "b = 0": [[0, 0, 1, 0, 0]],
    "b = c": [[0, 0, 1, -1, 0]],
    "b = c = d = 0": [[0, 0, 1, 0, 0], [0, 0, 0, 1, 0], [0, 0, 0, 0, 1]],
    "a = 0 (power)": [[0, 1, 0, 0, 0]],
}
GRID = [
    (rows, epsilon, shape, errors)
    for rows in (500, 5_000)
    for epsilon in (0.1, 1.0, 8.0)
    for shape, errors in (("even", "equal"), ("correlated", "equal"), ("skewed", "growing"))
]


@cache
def squares(rows: int, epsilon: float) -> LeastSquares:
    columns = {name: tdp.Interval(-1, 1) for name in NAMES} | {"y": tdp.Interval(-4, 4)}
    return LeastSquares(tdp.Schema(columns, rows=rows), [*NAMES], "y", epsilon=epsilon)


def features(rng: np.random.Generator, rows: int, shape: str) -> np.ndarray:
    X = rng.uniform(-1, 1, (rows, 4))
    if shape == "correlated":
        common = rng.uniform(-1, 1, (rows, 1))
        return np.clip(0.45 * X + 0.9 * common, -1, 1)
    return 2 * X**2 * np.abs(X) - 1 if shape == "skewed" else X


def table(rows: int, epsilon: float, shape: str, errors: str, seed: int) -> list[list[bool]]:
    """Which hypotheses are rejected, without an assumption and with equal variances."""
    rng, mechanism = np.random.default_rng([3, seed]), squares(rows, epsilon)
    X = features(rng, rows, shape)
    size = 0.5 if errors == "equal" else 0.2 + 0.6 * (X[:, 0] + 1) / 2
    y = 1 + X[:, 0] + size * rng.standard_normal(rows)
    columns = {**dict(zip(NAMES, X.T, strict=True)), "y": y}
    fit = mechanism.fit(mechanism.release(columns, rng=seed))
    found = []
    for assume in (None, "equal variance"):
        each = []
        for equations in HYPOTHESES.values():
            weights = np.array(equations, dtype=float)
            null, estimate = np.zeros(len(weights)), weights @ fit.coefficients
            each.append(bool(fit.tested(weights, estimate, null, assume) <= 0.05))
        found.append(each)
    return found


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
    with Pool(asked.processes) as pool:
        for setting in (GRID[place] for place in asked.only):
            drawn = pool.map(partial(table, *setting), range(tables), chunksize=2)
            plain, equal = np.mean(np.array(drawn, dtype=float), axis=0)
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
