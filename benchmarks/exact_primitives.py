"""Draws per second of exact integer noise with the secure source, beside naive numpy.

    python benchmarks/exact_primitives.py --out benchmarks/results/exact_primitives.md

Naive numpy is what one writes without thinking of attacks: a float law from ``numpy.random``,
rounded. It is faster code for a broken mechanism; it is here as the measure of what exactness
costs. Both sides are timed in the same run and process. Nothing is written without ``--out``.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

from tightdp.exact import discrete_draws as words
from tightdp.exact.lattice_body import box_points
from tightdp.exact.uniform_points import simplex_points
from tightdp.randomness import SecureSource

BATCH = 1 << 20
Draw = Callable[[int], Any]


def speed(draw: Draw, batch: int, seconds: float) -> float:
    """Draws per second of ``draw(batch)``: the best call within the time (after one warm-up)."""
    draw(batch)
    best, start = float("inf"), time.perf_counter()
    while time.perf_counter() - start < seconds:
        before = time.perf_counter()
        draw(batch)
        best = min(best, time.perf_counter() - before)
    return batch / best


def rounded(values: Any) -> Any:
    return np.rint(values).astype(np.int64)


def arrays(rng: SecureSource, naive: np.random.Generator) -> list[tuple[str, Draw, Draw | None]]:
    """Name, ours and the naive rival (None where numpy has none)."""
    rows: list[tuple[str, Draw, Draw | None]] = [
        ("64-bit words", rng.words, lambda n: naive.bit_generator.random_raw(n)),
        (
            "integers below 1,000,003",
            lambda n: rng.integers_below(np.full(n, 1_000_003)),
            lambda n: naive.integers(0, 1_000_003, n),
        ),
    ]
    rows += [
        (
            f"geometric, rate 2^-{k}",
            lambda n, k=k: words.geometrics(1, 1 << k, n, rng),
            lambda n, k=k: np.floor(naive.exponential(2.0**k, n)).astype(np.int64),
        )
        for k in (0, 16, 20, 30, 40, 45, 50)
    ]
    rows += [
        (
            f"discrete Laplace, rate {Fraction(num, den)}",
            lambda n, num=num, den=den: words.discrete_laplaces(num, den, n, rng),
            lambda n, num=num, den=den: rounded(naive.laplace(0, den / num, n)),
        )
        for num, den in ((2, 3), (1, 1 << 16), (1, 1 << 30))
    ]
    rows += [
        (
            f"discrete Gaussian, sigma {sigma:,}",
            lambda n, sigma=sigma: words.discrete_gaussians(sigma**2, n, rng),
            lambda n, sigma=sigma: rounded(naive.normal(0, sigma, n)),
        )
        for sigma in (1, 10, 10**6)
    ]
    side, total = np.full((BATCH // 4, 4), 1 << 20), np.full(BATCH // 4, 1 << 20)
    return [
        *rows,
        ("box points, coordinates", lambda n: box_points(-side, side, rng), None),
        ("simplex points, coordinates", lambda n: simplex_points(total, 4, rng), None),
    ]


def measure(seconds: float) -> list[str]:
    """Rows of the two tables."""
    rng, naive = SecureSource(), np.random.default_rng()
    lines = [
        "| array of | ours, M/s | naive numpy, M/s | naive / ours |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, mine, rival in arrays(rng, naive):
        fast = speed(mine, BATCH, seconds)
        if rival is None:
            lines.append(f"| {name} | {fast / 1e6:.1f} | - | - |")
            continue
        theirs = speed(rival, BATCH, seconds)
        lines.append(f"| {name} | {fast / 1e6:.1f} | {theirs / 1e6:.1f} | {theirs / fast:.2f} |")
    lines += ["", "| in integers only | thousands/s |", "| --- | ---: |"]
    singles: list[tuple[str, Draw]] = [
        ("geometric 2/3, word by word", lambda n: words.geometrics(2, 3, n, rng, filtered=False)),
        ("geometric 2^-60, word by word", lambda n: words.geometrics(1, 1 << 60, n, rng)),
        (
            "discrete Gaussian, sigma 10, word by word",
            lambda n: words.discrete_gaussians(100, n, rng, filtered=False),
        ),
        (
            "one vector of 5 discrete Laplace, a call",
            lambda n: [words.discrete_laplaces(1, 1 << 16, 5, rng) for _ in range(n)],
        ),
    ]
    lines += [f"| {name} | {speed(draw, 2000, seconds) / 1e3:.0f} |" for name, draw in singles]
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each cell")
    parser.add_argument("--out", type=Path, help="file for the tables")
    options = parser.parse_args()
    lines = [
        "# Draws per second: exact integer noise",
        "",
        f"Machine: {platform.machine()}; Python {platform.python_version()}, numpy "
        f"{np.__version__}. One process, one thread, best call in {options.seconds:g} s, batches "
        f"of {BATCH:,}. Ours: exact law, AES-256-CTR. Naive numpy: rounded floats, PCG64.",
        "",
        *measure(options.seconds),
    ]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
