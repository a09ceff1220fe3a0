"""Means of a CSV file by its path, beside polars' own scan of the same file, in one run.

    python benchmarks/csv_files.py                       # 10 million rows of 6 columns
    python benchmarks/csv_files.py --rows 1000000 --out benchmarks/results/csv_files.md

Polars reads the file and takes the means; tightdp reads it, clamps every cell, adds integers and
releases the means, once with Arrow and once by its own rules alone (on a tenth of the rows). They
take turns, four each (its own rules alone: once); wall time is the least; the peak is the most
memory of the whole process.
"""

from __future__ import annotations

import argparse
import resource
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
import polars as pl

import tightdp as tdp
from tightdp.data import csv_pieces

NUMBERS = ["age", "income", "x", "y", "k"]
SCHEMA = tdp.Schema(
    {
        "age": tdp.Interval(0, 100),
        "income": tdp.Interval(0, 200_000),
        "x": tdp.Interval(-5, 5),
        "y": tdp.Interval(-5, 5),
        "k": tdp.Interval(0, 5),
        "region": tdp.Category(["north", "south", "east", "west"]),
    },
    rows=1,
)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    with tempfile.TemporaryDirectory() as folder:
        text = report(given.rows, Path(folder))
    print(text)
    if given.out is not None:
        given.out.write_text(text + "\n")


def report(rows: int, folder: Path) -> str:
    path, small = folder / "t.csv", folder / "small.csv"
    write(path, rows)
    write(small, rows // 10)
    facts, few = SCHEMA.with_rows(rows), SCHEMA.with_rows(rows // 10)
    works = {
        "polars, means": lambda: scanned(path),
        "tightdp, means": lambda: released(path, facts),
        "tightdp, means by region": lambda: released(path, facts, by="region"),
    }
    ways = {name: (seconds, "") for name, seconds in best(works, times=4).items()}
    scan = ways["polars, means"][0]
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    csv_pieces._arrow = lambda path: None  # type: ignore[assignment]
    alone = best({"alone": lambda: released(small, few)}, times=1)["alone"]
    ways["tightdp without Arrow"] = (10 * alone, " (ten times that of a tenth of the rows)")
    lines = [
        f"# A CSV file of {rows:,} rows and 6 columns, {path.stat().st_size / 2**20:,.0f} MiB",
        "",
        "| way | seconds | times polars |",
        "|---|---|---|",
        *(f"| {name}{note} | {s:.2f} | {s / scan:.2f} |" for name, (s, note) in ways.items()),
        "",
        f"Peak memory of the process, polars' scan included: {peak:,.0f} MiB.",
    ]
    return "\n".join(lines)


def write(path: Path, rows: int, part: int = 1_000_000) -> None:
    rng = np.random.default_rng(0)
    with path.open("wb") as file:
        for start in range(0, rows, part):
            n = min(part, rows - start)
            frame = pl.DataFrame(
                {
                    "age": rng.integers(18, 90, n),
                    "income": np.round(rng.gamma(2, 20_000, n), 2),
                    "x": rng.normal(size=n),
                    "y": np.round(rng.normal(size=n), 3),
                    "region": rng.choice(["north", "south", "east", "west"], n),
                    "k": rng.integers(0, 5, n),
                }
            )
            frame.write_csv(file, include_header=start == 0)


def best(works: dict[str, Callable[[], object]], times: int) -> dict[str, float]:
    """The least wall time of each of some works, which take turns."""
    least = dict.fromkeys(works, float("inf"))
    for _ in range(times):
        for name, work in works.items():
            begun = time.perf_counter()
            work()
            least[name] = min(least[name], time.perf_counter() - begun)
    return least


def scanned(path: Path) -> object:
    means = [pl.col(name).mean() for name in NUMBERS]
    return pl.scan_csv(path).select(*means, pl.col("region").n_unique()).collect(engine="streaming")


def released(path: Path, schema: tdp.Schema, **options: object) -> object:
    return tdp.mean(path, NUMBERS, schema=schema, epsilon=1, **options)


if __name__ == "__main__":
    main()
