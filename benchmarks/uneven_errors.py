"""Intervals of regression where errors are uneven: what they hold, how long they are.

    python benchmarks/uneven_errors.py [--out FILE] [--tables 300] [--only NAME] [--jobs 2]
        [--house]

Errors of every setting are normal with equal variance, or their variance or skewness changes with
a column, or few rows carry them, or they have heavy tails. Intervals of the library's own releases
(exact noise) are those with no assumption, with ``interval_share=0.1``, with ``stages=2``, and with
equal variance assumed, which is false for most. All are for least squares in the population of
rows, computed from a million of them. ``--house`` draws rows from the house sales of
``benchmarks/regression.py`` instead, whose own fit is then the population's.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ProcessPoolExecutor
from functools import cache
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
from numpy.typing import NDArray

import tightdp as tdp
from tightdp.mechanisms.least_squares import LeastSquares

Array = NDArray[np.float64]
POPULATION, SEED = 1_000_000, 20_261_118
HOUSE = "house sales"


class Setting(NamedTuple):
    """Columns in [-1, 1], and how errors depend on them."""

    columns: int
    rows: int
    epsilon: float
    shape: str = "even"
    errors: str = "normal"

    def __str__(self) -> str:
        if self.shape == HOUSE:
            return f"{HOUSE}, n {self.rows:,}, eps {self.epsilon:g}"
        return f"{self.columns} {self.shape}, {self.errors}, n {self.rows:,}, eps {self.epsilon:g}"


def normal(rng: np.random.Generator, X: Array) -> Array:
    return 0.1 * rng.standard_normal(len(X))


def growing(rng: np.random.Generator, X: Array) -> Array:
    """Twelve times as large at one end of the first column as at the other."""
    return 0.02 * np.exp(1.25 * (X[:, 0] + 1)) * rng.standard_normal(len(X))


def skewed(rng: np.random.Generator, X: Array) -> Array:
    return 0.06 * (rng.lognormal(0, 1, len(X)) - np.exp(0.5)) * (1 + X[:, 0])


def rare(rng: np.random.Generator, X: Array) -> Array:
    """Large at one in a hundred of the rows where the first column is high."""
    hit = (X[:, 0] > 0.5) & (rng.random(len(X)) < 0.01)
    return 0.02 * rng.standard_normal(len(X)) + 0.6 * hit * rng.choice([-1, 1], len(X))


def corner(rng: np.random.Generator, X: Array) -> Array:
    """Large where two columns differ most, as they seldom do if they are correlated."""
    far = np.abs(X[:, 0] - X[:, 1])
    return 0.3 * far * rng.standard_normal(len(X))


def heavy(rng: np.random.Generator, X: Array) -> Array:
    return 0.08 * rng.standard_t(3, len(X))


ERRORS: dict[str, Callable[[np.random.Generator, Array], Array]] = {
    each.__name__: each for each in (normal, growing, skewed, rare, corner, heavy)
}
SETTINGS = [
    *(Setting(2, 500, e, "even", error) for e in (1.0, 20.0) for error in ("normal", "rare")),
    *(Setting(3, 2_000, e, "flags", error) for e in (1.0, 20.0) for error in ("normal", "growing")),
    *(Setting(3, 5_000, 4.0, "even", error) for error in ERRORS),
    *(Setting(4, 20_000, e, "correlated", "corner") for e in (0.25, 1.0, 4.0, 20.0)),
    *(Setting(4, 20_000, 4.0, "correlated", error) for error in ("normal", "skewed", "rare")),
    *(Setting(5, 50_000, e, "narrow", "growing") for e in (0.25, 1.0, 4.0, 20.0)),
    *(Setting(5, 50_000, 4.0, "narrow", error) for error in ("normal", "rare", "heavy")),
    *(Setting(8, 50_000, e, "skewed", "growing") for e in (1.0, 8.0)),
]
HOUSES = [Setting(12, 37_296, epsilon, HOUSE) for epsilon in (1.0, 2.0, 4.0, 16.0)]
WAYS: dict[str, tuple[dict[str, Any], str | None]] = {
    "no assumption": ({}, None),
    "interval share": ({"interval_share": 0.1}, None),
    "two stages": ({"stages": 2}, None),
    "equal variance": ({}, "equal variance"),
}


def features(setting: Setting, rows: int, rng: np.random.Generator) -> Array:
    z = rng.standard_normal((rows, setting.columns))
    if setting.shape == "correlated":
        z = np.sqrt(0.8) * rng.standard_normal((rows, 1)) + np.sqrt(0.2) * z
        return np.asarray(np.clip(z / 3, -1, 1))
    if setting.shape == "narrow":
        return np.asarray(np.clip(0.2 + z / 8, -1, 1))
    if setting.shape == "skewed":
        return np.asarray(np.clip(0.15 * np.exp(0.9 * z) - 1, -1, 1))
    if setting.shape == "flags":  # the second is rare
        return np.asarray(np.where(z < np.array([0.0, -2.0, 1.0]), 1.0, -1.0))
    return rng.uniform(-1, 1, (rows, setting.columns))


@cache
def houses() -> tuple[Array, Array]:
    from regression import housing_table  # the script beside this one

    return housing_table()


def table(setting: Setting, rows: int, rng: np.random.Generator) -> tuple[Array, Array]:
    if setting.shape == HOUSE:
        X, y = houses()
        some = np.arange(len(X)) if rows == POPULATION else rng.integers(0, len(X), rows)
        return X[some], y[some]
    X = features(setting, rows, rng)
    slopes = 0.25 * np.linspace(-1, 1, setting.columns) / np.sqrt(setting.columns)
    error = ERRORS[setting.errors](rng, X)
    return X, np.clip(0.1 + X @ slopes + error, -1, 1)


def measured(setting: Setting, way: str, tables: int) -> tuple[Array, Array, int]:
    """Which coefficients were held, how long their intervals were, how many lay outside."""
    rng = np.random.default_rng([SEED, (SETTINGS + HOUSES).index(setting)])
    X, y = table(setting, POPULATION, rng)
    truth = np.linalg.lstsq(np.column_stack([np.ones(len(X)), X]), y, rcond=None)[0]
    options, assume = WAYS[way]
    names = [f"x{i}" for i in range(setting.columns)]
    facts = tdp.Schema(dict.fromkeys([*names, "y"], tdp.Interval(-1, 1)), rows=setting.rows)
    line = LeastSquares(facts, names, "y", epsilon=setting.epsilon, **options)
    held, length, outside = [], [], 0
    for place in range(tables):
        X, y = table(setting, setting.rows, rng)
        cells = dict(zip(names, X.T, strict=True)) | {"y": y}
        fit = line.fit(line.release(cells, rng=10 * place + len(way)))
        low, high = fit.intervals(0.05, assume=assume).T
        held.append((low <= truth) & (truth <= high))
        length.append(np.median((high - low)[1:]))
        outside += int(((fit.coefficients < low) | (fit.coefficients > high)).sum())
    return np.mean(held, axis=0), np.array(length), outside


def rows_of(chosen: list[Setting], tables: int, jobs: int) -> Iterator[str]:
    yield "| setting | " + " | ".join(f"{way}: held, lowest, length" for way in WAYS) + " |"
    yield "|---|" + "---|" * len(WAYS)
    with ProcessPoolExecutor(jobs) as pool:
        found = {(s, way): pool.submit(measured, s, way, tables) for s in chosen for way in WAYS}
        for setting in chosen:
            cells = []
            for way in WAYS:
                held, length, outside = found[setting, way].result()
                assert outside == 0
                size = float(np.median(length))
                cells.append(f"{held.mean():.3f}, {held.min():.3f}, {size:.3g}")
            yield f"| {setting} | " + " | ".join(cells) + " |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--only")
    parser.add_argument("--jobs", type=int, default=2)
    parser.add_argument("--house", action="store_true")
    options = parser.parse_args()
    os.environ.setdefault("OMP_NUM_THREADS", "1")
    start = time.perf_counter()
    lines = [
        "# Intervals of regression where errors are uneven",
        "",
        f"tightdp {tdp.__version__}, numpy {np.__version__}, Python {platform.python_version()}. "
        f"Written by `benchmarks/uneven_errors.py`, {options.tables} tables a setting.",
        "",
    ]
    settings = HOUSES if options.house else SETTINGS
    chosen = [s for s in settings if options.only is None or options.only in str(s)]
    for line in rows_of(chosen, options.tables, options.jobs):
        print(line, flush=True)
        lines.append(line)
    print(f"{time.perf_counter() - start:.0f} s")
    if options.out:
        options.out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
