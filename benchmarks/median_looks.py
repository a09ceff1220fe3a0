"""What it costs a geometric median to have bounded work: looks beside one fine lattice.

    python benchmarks/median_looks.py --out benchmarks/results/median_looks.md

A thousand rows, epsilon from 0.3 to 100; lattices are those of a table with epsilon = 1 and as many
rows as epsilon times rows says. Errors are root mean squares of distances to the geometric median,
columns scaled to [-1, 1]; the ratio is that of the looks to one lattice of ``most_points=2**60``.
"""

from __future__ import annotations

import argparse
import platform
import time
from pathlib import Path
from typing import Any

import numpy as np

import tightdp as tdp
from tightdp.exact.nested_lattices import default_points

ROWS = 1000
TOLD = (300, 1_000, 3_000, 10_000, 30_000, 100_000)
DRAWS = {2: 60, 3: 30, 4: 10}


def cloud(columns: int) -> Any:
    """Rows of an elliptic normal law, in a corner of nothing."""
    rng = np.random.default_rng(columns)
    turned = np.linalg.qr(rng.normal(size=(columns, columns)))[0] * [0.3, 0.15, 0.1, 0.1][:columns]
    return np.clip(0.1 + rng.normal(size=(ROWS, columns)) @ turned.T, -1, 1)


def median(rows: Any) -> Any:
    place = rows.mean(axis=0)
    for _ in range(1000):  # Weiszfeld
        weight = 1 / np.maximum(np.linalg.norm(rows - place, axis=1), 1e-12)
        place = weight @ rows / weight.sum()
    return place


def measured(rows: Any, told: int, most: int) -> tuple[str, float, float]:
    """The lattices, the error and the processor time of a release."""
    columns = rows.shape[1]
    table = {f"x{j}": rows[:, j] for j in range(columns)}
    schema = tdp.Schema(dict.fromkeys(table, tdp.Interval(-1, 1)), rows=ROWS)
    mechanism = tdp.KNormGeometricMedian(schema, epsilon=told / ROWS, most_points=most)
    truth, start = median(rows), time.process_time()
    drawn = [mechanism.release(table, rng=i).value for i in range(DRAWS[columns])]
    took = (time.process_time() - start) / len(drawn)
    away = np.linalg.norm(np.array(drawn) - truth, axis=1)
    grids = ", ".join(str(look.grid) for look in mechanism.looks)
    return grids, float(np.sqrt(np.mean(away**2))), took


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, default=None)
    out = parser.parse_args().out
    lines = [
        "# Geometric medians in looks",
        "",
        f"Python {platform.python_version()}, numpy {np.__version__}, one core.",
        "",
        "| columns | epsilon times rows | bits of the looks | error | one lattice | ratio | time |",
        "|---|---|---|---|---|---|---|",
    ]
    for columns in DRAWS:
        rows = cloud(columns)
        for told in TOLD:
            grids, error, took = measured(rows, told, default_points(max(told, ROWS)))
            _, fine, once = measured(rows, told, 1 << 60)
            lines.append(
                f"| {columns} | {told:,} | {grids} | {error:.1e} | {fine:.1e} | {error / fine:.2f} "
                f"| {took:.2f} s, {once:.2f} s |"
            )
            print(lines[-1], flush=True)
    if out is not None:
        out.write_text("\n".join(lines) + "\n", encoding="utf-8")


if __name__ == "__main__":
    main()
