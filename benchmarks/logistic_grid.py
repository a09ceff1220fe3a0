"""Intervals, their price, and defaults against variants of private logistic regression, on a grid.

    python benchmarks/logistic_grid.py [--out FILE] [--tables 300] [--variants 40] [--only 0 3 ...]

Settings were fixed before the runs: even, correlated and skewed columns, rare classes and strong
effects, 500 to 50,000 rows, epsilon 1/4 to 4. For each: the share of tables for which intervals
are printed (``interval_share=0.25``), what these cover and their width beside that of the
likelihood, with room for log odds that are not linear and with ``assume="stated model"``, which is
true here; the price of the share in the error of the coefficients; and the error of the default
beside that of the best of its own variants, all with the same random bits. Lines are written as
they come.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

import tightdp as tdp
from tightdp.errors import FloatArray, UndecidedError
from tightdp.mechanisms.logistic_intervals import Cloud

WIDTH = 3
MODERATE, RARE, STRONG = [0, 1, -1, 0.5], [-3.2, 1, -1, 0.5], [0, 4, -4, 2]
VARIANTS: dict[str, dict[str, Any]] = {
    "l1": {"noise": "l1"},
    "l2": {"noise": "l2"},
    "q = .5": {"noise_share": 0.5},
    "q = .7": {"noise_share": 0.7},
    "q = .85": {"noise_share": 0.85},
    "q = 1": {"noise_share": 1.0},
    "q = .7, as released": {"noise_share": 0.7, "post": "none"},
    "q = .85, as released": {"noise_share": 0.85, "post": "none"},
}


class Setting(NamedTuple):
    """One cell of the grid."""

    columns: str
    theta: list[float]
    rows: int
    epsilon: float


SETTINGS = [
    Setting("even", MODERATE, 500, 4),
    Setting("even", MODERATE, 2000, 1),
    Setting("even", MODERATE, 5000, 0.25),
    Setting("even", MODERATE, 5000, 1),
    Setting("correlated .8", MODERATE, 5000, 1),
    Setting("correlated .8", MODERATE, 5000, 4),
    Setting("skewed", MODERATE, 5000, 1),
    Setting("skewed", MODERATE, 5000, 4),
    Setting("even", RARE, 5000, 1),
    Setting("even", RARE, 5000, 4),
    Setting("even", STRONG, 5000, 1),
    Setting("correlated .95", MODERATE, 5000, 4),
    Setting("even", MODERATE, 50_000, 0.25),
    Setting("skewed", MODERATE, 50_000, 0.25),
    Setting("correlated .8", RARE, 20_000, 1),
]


def cells(kind: str, rows: int, width: int, rng: np.random.Generator) -> FloatArray:
    """Columns within [-1, 1]."""
    if kind == "even":
        return rng.uniform(-1, 1, (rows, width))
    if kind == "skewed":
        return np.clip(rng.exponential(0.35, (rows, width)) - 1, -1, 1)
    shared, own = rng.normal(size=(rows, 1)), rng.normal(size=(rows, width))
    r = float(kind.split()[1])
    return np.clip((np.sqrt(r) * shared + np.sqrt(1 - r) * own) / 3, -1, 1)


def table(setting: Setting, place: int, key: int) -> tuple[dict[str, Any], FloatArray]:
    """A table, and the widths of 95 % intervals without privacy."""
    rng = np.random.default_rng([77, place, key])
    x = cells(setting.columns, setting.rows, WIDTH, rng)
    wide = np.column_stack([np.ones(setting.rows), x])
    p = 1 / (1 + np.exp(-wide @ setting.theta))
    y = (rng.random(setting.rows) < p).astype(int)
    information = (wide.T * (p * (1 - p))) @ wide
    width = 2 * 1.96 * np.sqrt(np.diag(np.linalg.inv(information)))
    return {**{f"x{j}": x[:, j] for j in range(WIDTH)}, "y": y}, width


def line(place: int, tables: int, variants: int) -> str:
    """One setting, measured."""
    before, setting = time.process_time(), SETTINGS[place]
    facts = {f"x{j}": tdp.Interval(-1, 1) for j in range(WIDTH)}
    schema = tdp.Schema({**facts, "y": tdp.Category([0, 1], other=0)}, rows=setting.rows)
    make = {"default": {}, "paid": {"interval_share": 0.25}, **VARIANTS}
    fits = {
        name: tdp.ObjectivePerturbation(
            schema, epsilon=setting.epsilon, **{"post": "restore", **options}
        )
        for name, options in make.items()
    }
    theta = np.array(setting.theta)
    errors: dict[str, list[float]] = {name: [] for name in fits}
    held: dict[str | None, list[FloatArray]] = {None: [], "stated model": []}
    widths: dict[str | None, list[float]] = {None: [], "stated model": []}
    for key in range(tables):
        frame, exact = table(setting, place, key)
        for name, fit in fits.items():
            if name != "paid" and key >= variants:
                continue
            release = fit.release(frame, rng=1000 * key)
            errors[name].append(float(np.linalg.norm(fit.coefficients(release) - theta)))
            if name != "paid":
                continue
            for assume in held:
                try:
                    found = Cloud.paid(fit, release, assume).intervals(0.05)
                except UndecidedError:
                    continue
                held[assume].append((found[:, 0] <= theta) & (theta <= found[:, 1]))
                widths[assume].append(float(np.median(np.diff(found, axis=1)[:, 0] / exact)))
    middle = {name: float(np.median(some[:variants])) for name, some in errors.items()}
    best = min((value, name) for name, value in middle.items() if name != "paid")
    effects = {0: "moderate", 1: "5 % positive", 2: "strong"}
    which = effects[[MODERATE, RARE, STRONG].index(setting.theta)]
    shown = [setting.columns, which, f"{setting.rows:,}", f"{setting.epsilon:g}"]
    shown.append(f"{len(held[None]) / tables:.2f}")
    for assume, some in held.items():
        share = np.mean(some, axis=0) if some else np.full(WIDTH + 1, np.nan)
        width = float(np.median(widths[assume] or [np.nan]))
        shown += [f"{share.min():.3f} to {share.max():.3f}", f"{width:.2f}"]
    shown += [
        f"{middle['paid'] / middle['default']:.2f}",
        f"{middle['default'] / best[0]:.2f} ({best[1]})",
        f"{time.process_time() - before:.0f}",
    ]
    return f"| {' | '.join(shown)} |"


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--variants", type=int, default=40)
    parser.add_argument("--only", type=int, nargs="*")
    given = parser.parse_args()
    head = [
        "# Logistic regression on a grid",
        "",
        f"Three columns, an intercept, `interval_share` 0.25, stated 95 %, {given.tables} tables; "
        f"errors are medians of {given.variants} of them. Width: beside the likelihood's interval. "
        "Price: error with the share over error without. Last: error of the default over that of "
        "its best variant; seconds of processor.",
        "",
        "| columns | effects | rows | epsilon | printed | covered | width | covered, stated model "
        "| width | price | default | s |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    print("\n".join(head), flush=True)
    for place in given.only or range(len(SETTINGS)):
        head.append(line(place, given.tables, given.variants))
        print(head[-1], flush=True)
        if given.out:
            given.out.write_text("\n".join(head) + "\n")


if __name__ == "__main__":
    main()
