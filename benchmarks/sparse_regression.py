"""Linear regression on a few of 200 columns: what a private choice of columns buys.

    python benchmarks/sparse_regression.py [--out FILE] [--tables 10]

200 even columns in [-1, 1], of which five matter, errors of standard deviation 0.15, 20,000 and
100,000 rows, fixed before the runs. `SparseLinearRegression` keeps five columns. Beside it stand
these five where they are public; all 200 by AdaSSP, by Gaussian sufficient statistics (delta =
1e-6) and by DPpack's algorithm; and zero. Errors are median distances of the slopes to least
squares on the five columns and to those of the population.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

import tightdp as tdp

try:
    from benchmarks.regression_grid import Design, peers
except ImportError:  # started as a file
    from regression_grid import Design, peers  # type: ignore[no-redef]

Array = NDArray[np.float64]

COLUMNS, SIGMA = 200, 0.15
PLACES = np.array([3, 50, 77, 120, 199])
SLOPES = np.array([0.25, -0.2, 0.15, -0.1, 0.05])
SETTINGS = [(20_000, 1.0), (20_000, 4.0), (100_000, 0.25), (100_000, 1.0)]


def table(rows: int, seed: int) -> tuple[Array, Array]:
    """Features and target."""
    rng = np.random.default_rng([200, seed])
    x = rng.uniform(-1, 1, (rows, COLUMNS))
    y = x[:, PLACES] @ SLOPES + SIGMA * rng.standard_normal(rows)
    return x, np.clip(y, -1, 1)


def line(rows: int, epsilon: float, tables: int) -> str:
    """One setting, measured."""
    truth = np.zeros(COLUMNS)
    truth[PLACES] = SLOPES
    errors: dict[str, list[tuple[float, float]]] = {}
    right, seconds = [], 0.0
    for key in range(tables):
        x, y = table(rows, key)
        whole = np.column_stack([np.ones(rows), x, y])
        M = whole.T @ whole / rows
        few = [0, *(PLACES + 1)]
        plain = np.zeros(COLUMNS)
        plain[PLACES] = np.linalg.solve(M[np.ix_(few, few)], M[few, -1])[1:]

        def add(name: str, slopes: Array, plain: Array = plain) -> None:
            far = [float(np.linalg.norm(slopes - at)) for at in (plain, truth)]
            errors.setdefault(name, []).append((far[0], far[1]))

        before = time.process_time()
        model = tdp.SparseLinearRegression(
            epsilon=epsilon, bounds=[(-1, 1)] * (COLUMNS + 1), random_state=key
        ).fit(x, y)
        seconds += time.process_time() - before
        add("sparse", model.coef_)
        right.append(int((model.coef_[PLACES] != 0).sum()))
        known = tdp.LinearRegression(
            epsilon=epsilon, bounds=[(-1, 1)] * (len(PLACES) + 1), random_state=key
        ).fit(x[:, PLACES], y)
        public = np.zeros(COLUMNS)
        public[PLACES] = known.coef_
        add("columns public", public)
        design = Design(columns=COLUMNS, rows=rows)
        for name, slopes in peers(M[None], design, epsilon, key).items():
            add(name, slopes[0])
        add("zero", np.zeros(COLUMNS))
    cells = [f"{rows:,}", f"{epsilon:g}", f"{np.mean(right):.1f} of 5"]
    for name in ("sparse", "columns public", "AdaSSP", "Gaussian moments", "DPpack", "zero"):
        far = np.median(np.array(errors[name]), axis=0)
        cells.append(f"{far[0]:.3g} / {far[1]:.3g}")
    return "| " + " | ".join([*cells, f"{seconds / tables:.2f}"]) + " |"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", type=int, default=10)
    given = parser.parse_args()
    head = [
        "# Linear regression on five of 200 columns",
        "",
        f"Written by `benchmarks/sparse_regression.py`, {given.tables} tables each: median "
        "distances of the slopes to least squares on the five columns that matter / to the "
        "population. `SparseLinearRegression` has no intervals: the same rows choose and fit.",
        "",
        "| rows | epsilon | right columns | sparse | the five are public | AdaSSP, all "
        "| Gaussian moments, all | DPpack, all | zero | s |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(head), flush=True)
    for rows, epsilon in SETTINGS:
        head.append(line(rows, epsilon, given.tables))
        print(head[-1], flush=True)
        if given.out:
            given.out.write_text("\n".join(head) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
