"""Moments of a table from Parquet, engine by engine, beside numpy on a matrix that is in memory.

    python benchmarks/frames.py                 # 10 million rows of 6 columns: about 3 minutes
    python benchmarks/frames.py --rows 1000000 --no-spark
    python benchmarks/frames.py --out benchmarks/results/frames.md --plot output/frames.png

Every case runs in a process of its own: wall and processor time are the best of five after one
warm-up (Spark: the second of two), the peak is the most memory of that process, imports included.
Growth is shown with the number of rows and of columns. Nothing is written without ``--out``.
"""

from __future__ import annotations

import argparse
import json
import math
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tightdp.data.frames import Block, exact_gram, integer_sums
from tightdp.schema import Interval, Schema

BLOCK = 65_536
CASES = {
    "numpy, X.T @ X": "matrix in memory, floats, no clamp, no column of ones",
    "numpy, moments": "matrix in memory, floats, no clamp, with a column of ones",
    "array": "matrix in memory, tightdp",
    "pandas": "frame in memory, tightdp",
    "polars": "Parquet through a lazy polars scan, tightdp",
    "duckdb": "Parquet through a DuckDB relation, tightdp",
    "path": "Parquet by its path (through pyarrow), tightdp",
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        print(json.dumps(one_case(options.case, options.file, options.rows, options.columns)))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = report(Path(folder), options)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


# --- one case, in its own process ----------------------------------------------------------------


class Job:
    """Sums and products of all columns, d + d**2 integers."""

    def __init__(self, rows: int, columns: int) -> None:
        self.names = [f"x{j}" for j in range(columns)]
        self.schema = Schema({name: Interval(-3, 3) for name in self.names}, rows=rows)

    def __call__(self, block: Block) -> np.ndarray:
        cells = block.matrix(self.names)
        products = exact_gram(cells, self.schema.bits)
        return np.concatenate([cells.sum(axis=0), products.ravel()])

    def measure(self, frame: Any) -> list[int]:
        width = len(self.names) * (1 + len(self.names))
        return integer_sums(frame, self.schema, self.names, self, width=width)


def one_case(case: str, file: str, rows: int, columns: int) -> dict[str, Any]:
    """Seconds, processor seconds, peak in MB and a checksum of the integers."""
    task = (spark_task if case == "spark" else local_task)(case, file, Job(rows, columns))
    first = clock(task)
    runs = [clock(task) for _ in range(1 if case == "spark" else 5)]
    best = min(runs, key=lambda run: run["wall"])
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    return best | {"cpu": min(run["cpu"] for run in runs), "first": first["wall"], "peak": peak}


def clock(task: Callable[[], Any]) -> dict[str, Any]:
    wall, processor = time.perf_counter(), time.process_time()
    value = task()
    return {
        "wall": time.perf_counter() - wall,
        "cpu": time.process_time() - processor,
        "sum": str(sum(value)) if isinstance(value, list) else "",
    }


def local_task(case: str, file: str, job: Job) -> Callable[[], Any]:
    if case.startswith("numpy") or case == "array":
        X = matrix(file)
        if case == "array":
            return lambda: job.measure(X)
        return lambda: float_gram(X, ones=case.endswith("moments"))
    if case == "pandas":
        import pandas as pd

        frame = pd.read_parquet(file)
        return lambda: job.measure(frame)
    if case == "polars":
        import polars as pl

        return lambda: job.measure(pl.scan_parquet(file))
    if case == "duckdb":
        import duckdb

        return lambda: job.measure(duckdb.read_parquet(file))
    return lambda: job.measure(file)


def spark_task(case: str, file: str, job: Job) -> Callable[[], Any]:
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ["SPARK_LOCAL_IP"] = "127.0.0.1"
    from pyspark.sql import SparkSession

    session = (
        SparkSession.builder.master("local[2]")
        .config("spark.driver.host", "127.0.0.1")
        .config("spark.driver.bindAddress", "127.0.0.1")
        .config("spark.ui.enabled", "false")
        .config("spark.ui.showConsoleProgress", "false")
        .getOrCreate()
    )
    frame = session.read.parquet(file)
    return lambda: job.measure(frame)


def matrix(file: str) -> np.ndarray:
    """The file as one matrix, filled column by column so that the peak is that of the matrix."""
    import pyarrow.parquet as pq

    source = pq.ParquetFile(file)
    X = np.empty((source.metadata.num_rows, source.metadata.num_columns))
    start = 0
    for batch in source.iter_batches(BLOCK):
        for j, column in enumerate(batch.columns):
            X[start : start + batch.num_rows, j] = column.to_numpy()
        start += batch.num_rows
    return X


def float_gram(X: np.ndarray, *, ones: bool) -> np.ndarray:
    total = np.zeros((X.shape[1] + ones,) * 2)
    for start in range(0, len(X), BLOCK):
        part = X[start : start + BLOCK]
        if ones:
            part = np.column_stack([np.ones(len(part)), part])
        total += part.T @ part
    return total


# --- the report ----------------------------------------------------------------------------------


def write(folder: Path, rows: int, columns: int) -> Path:
    """A Parquet file of normal draws."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    path = folder / f"{rows}x{columns}.parquet"
    names = [f"x{j}" for j in range(columns)]
    draw = np.random.default_rng(0)
    with pq.ParquetWriter(path, pa.schema([(name, pa.float64()) for name in names])) as writer:
        for start in range(0, rows, 122_880):
            part = draw.normal(size=(columns, min(122_880, rows - start)))
            writer.write_table(pa.table(dict(zip(names, part, strict=True))))
    return path


def run(case: str, file: Path, rows: int, columns: int) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", __file__, "--case", case, "--file", str(file)]
    command += ["--rows", str(rows), "--columns", str(columns)]
    quiet = None if case != "spark" else subprocess.DEVNULL
    out = subprocess.run(command, check=True, stdout=subprocess.PIPE, stderr=quiet, text=True)
    return dict(json.loads(out.stdout.splitlines()[-1]))


def report(folder: Path, options: argparse.Namespace) -> str:
    rows, columns = options.rows, options.columns
    file = write(folder, rows, columns)
    cases = [*CASES, *([] if options.no_spark else ["spark"])]
    found = {case: run(case, file, rows, columns) for case in cases}
    file.unlink()
    sums = {line["sum"] for line in found.values() if line["sum"]}
    plain, ones, same = found["numpy, X.T @ X"], found["numpy, moments"], found["array"]
    lines = [
        f"# Moments of {rows:,} rows of {columns} columns, from every engine",
        "",
        f"Machine: {os.cpu_count()} cores, {platform.machine()}, load average "
        f"{os.getloadavg()[0]:.1f}; Python {platform.python_version()}, numpy {np.__version__}. "
        "Wall and processor seconds are the best of five after a warm-up (Spark: the second of "
        "two, without the processor time of its workers), the peak is that of the process. The "
        "last three columns divide wall (and processor) seconds by those of the same clamped "
        "integers of a matrix in memory, of float moments with a column of ones in memory, and of "
        "the bare product of floats in memory.",
        "",
        "| case | wall s | CPU s | peak MB | / array | / moments | / X.T @ X |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case, line in found.items():
        what = CASES.get(case, "Parquet through Spark, `mapInArrow`, two local cores, tightdp")
        cells = [f"{case}: {what}", f"{line['wall']:.2f}"]
        if case == "spark":
            cells[1] += f" (first {line['first']:.1f})"
            cells += ["-"] * 5
        else:
            cells += [f"{line['cpu']:.2f}", f"{line['peak']:,.0f}"]
            cells += [times(line, other) for other in (same, ones, plain)]
        lines.append("| " + " | ".join(cells) + " |")
    agree = "the same" if len(sums) == 1 else "DIFFERENT"
    lines += ["", f"All tightdp cases gave {agree} integers.", ""]
    return "\n".join([*lines, *growth(folder, rows, options.plot)])


def times(line: dict[str, Any], other: dict[str, Any]) -> str:
    return f"{line['wall'] / other['wall']:.1f} ({line['cpu'] / other['cpu']:.1f})"


def growth(folder: Path, rows: int, plot: Path | None) -> list[str]:
    """Processor time against rows and against columns, with the slopes on logarithmic axes."""
    by_rows = {n: timed(folder, n, 6) for n in (rows // 8, rows // 4, rows // 2, rows)}
    wide = rows // 20
    by_columns = {d: timed(folder, wide, d) for d in (4, 8, 16, 32, 64, 128)}
    lines = [
        "## Growth (Parquet by its path)",
        "",
        "| rows | columns | CPU s | peak MB |",
        "| ---: | ---: | ---: | ---: |",
    ]
    lines += [f"| {n:,} | 6 | {v['cpu']:.2f} | {v['peak']:,.0f} |" for n, v in by_rows.items()]
    lines += [
        f"| {wide:,} | {d} | {v['cpu']:.2f} | {v['peak']:,.0f} |" for d, v in by_columns.items()
    ]
    ends = list(by_columns)[-2:]
    lines += [
        "",
        f"Slope of log CPU on log rows: {slope(by_rows):.2f} (1 is linear). On log columns: "
        f"{slope(by_columns):.2f} over all, "
        f"{slope({d: by_columns[d] for d in ends}):.2f} from {ends[0]} to {ends[1]} columns "
        "(reading and clamping grow linearly, the products quadratically).",
    ]
    if plot:
        draw(by_rows, by_columns, plot)
    return lines


def timed(folder: Path, rows: int, columns: int) -> dict[str, Any]:
    file = write(folder, rows, columns)
    try:
        return run("path", file, rows, columns)
    finally:
        file.unlink()


def slope(points: dict[int, dict[str, Any]]) -> float:
    sizes = [math.log(size) for size in points]
    times = [math.log(line["cpu"]) for line in points.values()]
    return float(np.polyfit(sizes, times, 1)[0])


def draw(by_rows: dict[int, Any], by_columns: dict[int, Any], path: Path) -> None:
    import matplotlib.pyplot as plt

    figure, axes = plt.subplots(1, 2, figsize=(8, 3), constrained_layout=True)
    for ax, points, label in zip(axes, (by_rows, by_columns), ("rows", "columns"), strict=True):
        ax.loglog(list(points), [line["cpu"] for line in points.values()], "o-")
        ax.set_xlabel(label)
        ax.set_ylabel("CPU seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
