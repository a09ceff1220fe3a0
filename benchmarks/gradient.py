"""Exact draws of the K-norm gradient mechanism beside the Markov chains of the papers.

    python benchmarks/gradient.py --out benchmarks/results/gradient.md

A chain updates one coordinate a step from the sums that one pass over the data gives (linear
regression), or from all rows (median regression); it is not private after finitely many steps.
Times are seconds of processor time for one release, reading the table included for ours.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tightdp as tdp
from tightdp.randomness import source

UNIT = tdp.Interval(-1, 1)


def seconds(call: Callable[[], Any], repeats: int) -> float:
    """The median processor time of a call."""
    times = []
    for _ in range(repeats):
        before = time.process_time()
        call()
        times.append(time.process_time() - before)
    return float(np.median(times))


def sample(n: int, features: int, seed: int = 0) -> tuple[Any, Any]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, (n, features))
    y = x @ (-1 + 2 * np.arange(features) / 11) + rng.normal(size=n)
    return x, np.clip(y / 8, -1, 1)


def table(x: Any, y: Any) -> tuple[dict[str, Any], tdp.Schema]:
    columns = {f"x{j}": x[:, j] for j in range(x.shape[1])} | {"y": y}
    return columns, tdp.Schema(dict.fromkeys(columns, UNIT), rows=len(y))


def chain(gram: Any, cross: Any, rate: float, steps: int, scale: float) -> Any:
    """One-at-a-time Metropolis on the l1 ball, the gradient kept up to date."""
    rng = np.random.default_rng(1)
    d = len(cross)
    theta, gradient = np.zeros(d), cross.copy()
    level, size = np.abs(gradient).max(), 0.0
    moves, coins = scale * rng.normal(size=steps), np.log(rng.uniform(size=steps))
    for step in range(steps):
        j, move = step % d, moves[step]
        grown = size + abs(theta[j] + move) - abs(theta[j])
        if grown > 1:
            continue
        proposed = gradient - move * gram[:, j]
        height = np.abs(proposed).max()
        if coins[step] < rate * (level - height):
            theta[j] += move
            gradient, level, size = proposed, height, grown
    return theta


def row_chain(x: Any, y: Any, rate: float, steps: int, scale: float) -> Any:
    """The same for median regression, where every step looks at all rows."""
    rng = np.random.default_rng(1)
    d = x.shape[1]

    def height(theta: Any) -> float:
        return float(np.abs(((y <= x @ theta) - 0.5) @ x).max())

    theta, level = np.zeros(d), height(np.zeros(d))
    for step in range(steps):
        proposed = theta.copy()
        proposed[step % d] += scale * rng.normal()
        if np.abs(proposed).sum() <= 1:
            new = height(proposed)
            if np.log(rng.uniform()) < rate * (level - new):
                theta, level = proposed, new
    return theta


def linear(rows: list[int]) -> list[str]:
    lines = [
        "| rows | one release | of which the draw | further draws | chain, 10,000 steps | ratio |",
        "|---|---|---|---|---|---|",
    ]
    for n in rows:
        frame, schema = table(*sample(n, 11))
        mechanism = tdp.KNormLinearRegression(schema, epsilon=1)
        # read and drawn, not released: so many coefficients are refused, for a draw need not end
        whole = seconds(lambda m=mechanism, f=frame: m._draw(f, source(), False), 15)
        matrix, target = mechanism.normal_equations(frame)
        one = seconds(lambda m=mechanism, a=matrix, t=target: m.sampler(a, t).draw(source()), 25)
        sampler, bits = mechanism.sampler(matrix, target), source()
        many = seconds(lambda s=sampler, b=bits: [s.draw(b) for _ in range(30)], 5) / 30
        unit = float(1 << (2 * schema.bits))
        gram = np.array([[float(v) for v in row] for row in matrix]) / unit
        cross = np.array([float(v) for v in target]) / unit / (1 << mechanism.grid)
        slow = seconds(lambda g=gram, c=cross, n=n: chain(g, c, 1 / 8, 10_000, 20 / n), 3)
        lines.append(
            f"| {n:,} | {1e3 * whole:.1f} ms | {1e3 * one:.2f} ms | {1e3 * many:.2f} ms | "
            f"{1e3 * slow:.0f} ms | {slow / one:.0f} |"
        )
    return lines


def quantile(cases: list[tuple[int, int]]) -> list[str]:
    lines = [
        "| rows | coefficients | one release | chain, 1,000 steps over all rows |",
        "|---|---|---|---|",
    ]
    for n, features in cases:
        x, y = sample(n, features)
        frame, schema = table(x, y)
        mechanism = tdp.KNormQuantileRegression(schema, epsilon=1)
        ours = seconds(lambda m=mechanism, f=frame: m.release(f), 3 if n < 10**6 else 1)
        design = np.column_stack([np.ones(n), x])
        theirs = seconds(lambda d=design, y=y, n=n: row_chain(d, y, 0.5, 100, 5 / n), 1) * 10
        lines.append(f"| {n:,} | {features + 1} | {ours:.2f} s | {theirs:.2f} s |")
    return lines


def median(cases: list[tuple[int, int]]) -> list[str]:
    lines = ["| rows | columns | one release |", "|---|---|---|"]
    for n, columns in cases:
        x = np.random.default_rng(0).normal(0, 0.2, (n, columns))
        frame = {f"x{j}": x[:, j] for j in range(columns)}
        schema = tdp.Schema(dict.fromkeys(frame, UNIT), rows=n)
        mechanism = tdp.KNormGeometricMedian(schema, epsilon=1)
        ours = seconds(lambda m=mechanism, f=frame: m.release(f), 1)
        lines.append(f"| {n:,} | {columns} | {ours:.2f} s |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    few = options.quick
    parts = [
        "# Exact draws of the K-norm gradient mechanism",
        "",
        f"Python {platform.python_version()}, numpy {np.__version__}, one core, epsilon = 1. "
        "Processor time; secure random bits.",
        "",
        "## Linear regression, 12 coefficients",
        "",
        *linear([1000, 10_000] if few else [300, 1000, 10_000, 100_000, 1_000_000]),
        "",
        "The chain is one-at-a-time Metropolis in numpy on sums of the rows; the ratio is that of "
        "the chain to the first exact draw. A compiled chain is faster, and equally not private. "
        "A release takes up to four coefficients: beyond, a draw need not end.",
        "",
        "## Median regression",
        "",
        *quantile(
            [(10_000, 1)]
            if few
            else [
                (1000, 1),
                (10_000, 1),
                (100_000, 1),
                (1_000_000, 1),
                (1000, 2),
                (10_000, 2),
                (100_000, 2),
                (1000, 3),
                (10_000, 3),
            ]
        ),
        "",
        "## Geometric median",
        "",
        *median(
            [(1000, 2)]
            if few
            else [(1000, 2), (10_000, 2), (100_000, 2), (1000, 3), (10_000, 3), (1000, 4)]
        ),
        "",
    ]
    text = "\n".join(parts)
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
