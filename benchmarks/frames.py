"""Moments of a table from Parquet, engine by engine, beside numpy on a matrix that is in memory.

    python benchmarks/frames.py                 # 10 million rows of 6 columns: about 5 minutes
    python benchmarks/frames.py --rows 1000000 --no-spark
    python benchmarks/frames.py --files 10      # also a folder of 100 million rows
    python benchmarks/frames.py --out benchmarks/results/frames.md --plot output/frames.png

Every case runs in a process of its own, once held to one core and once on all of them: wall and
processor time are the best of five after one warm-up (Spark: the second of two), the peak is the
most memory of that process, imports included. The folder holds hard links to one file, so that it
takes no more disk. Growth is shown with the number of rows and of columns. Nothing is written
without ``--out`` and ``--plot``.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import math
import os
import platform
import resource
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tightdp as tdp

BLOCK = 65_536
CASES = {
    "numpy, X.T @ X": "matrix in memory, floats, no clamp, no column of ones",
    "numpy, moments": "matrix in memory, floats, no clamp, with a column of ones",
    "numpy, read": "Parquet through pyarrow, floats, no clamp, no column of ones",
    "array": "matrix in memory, tightdp",
    "pandas": "frame in memory, tightdp",
    "polars": "Parquet through a lazy polars scan, tightdp",
    "duckdb": "Parquet through a DuckDB relation, tightdp",
    "path": "Parquet by its path (through pyarrow), tightdp",
}
STREAMS = ("path", "polars", "duckdb")


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--rows", type=int, default=10_000_000)
    parser.add_argument("--columns", type=int, default=6)
    parser.add_argument("--no-spark", action="store_true")
    parser.add_argument(
        "--files", type=int, default=0, help="a folder of so many links to the file"
    )
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--case", help=argparse.SUPPRESS)
    parser.add_argument("--file", help=argparse.SUPPRESS)
    parser.add_argument("--folder", help=argparse.SUPPRESS)
    parser.add_argument("--one-core", action="store_true", help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.case:
        if options.one_core:
            os.sched_setaffinity(0, {min(os.sched_getaffinity(0))})
        print(json.dumps(one_case(options)))
        return
    with tempfile.TemporaryDirectory() as folder:
        text = report(Path(folder), options)
    print(text)
    if options.out:
        options.out.write_text(text + "\n", encoding="utf-8")


# --- one case, in its own process ----------------------------------------------------------------


class Job:
    """First and second moments of all columns, clamped to [-3, 3]."""

    def __init__(self, rows: int, columns: int) -> None:
        names = [f"x{j}" for j in range(columns)]
        self.schema = tdp.Schema({name: tdp.Interval(-3, 3) for name in names}, rows=rows)
        self.statistic = tdp.Moments(self.schema, names[:-1], names[-1])

    def measure(self, frame: Any) -> list[int]:
        return self.statistic.measure(frame)


def one_case(options: argparse.Namespace) -> dict[str, Any]:
    """Seconds, processor seconds, peak in MB and a checksum of the integers."""
    case, job = options.case, Job(options.rows, options.columns)
    if options.folder:
        return in_a_folder(case, options.file, options.folder, job)
    task = (spark_task if case == "spark" else local_task)(case, options.file, job)
    first = clock(task)
    runs = [clock(task) for _ in range(1 if case == "spark" else 5)]
    best = min(runs, key=lambda run: run["wall"])
    return best | {
        "cpu": min(run["cpu"] for run in runs),
        "first": first["wall"],
        "peak": peaks() if case == "spark" else peak(),
    }


def in_a_folder(case: str, file: str, folder: str, job: Job) -> dict[str, Any]:
    """Time and memory of a folder of links to a file, after two passes over the file."""
    one = [clock(local_task(case, file, job)) for _ in range(2)][-1]
    before = peak()
    pattern = folder if case == "path" else f"{folder}/*.parquet"
    whole = clock(local_task(case, pattern, job))
    times = len(list(Path(folder).iterdir()))
    same = int(whole["sum"]) == times * int(one["sum"])
    return whole | {"one": one["wall"], "before": before, "peak": peak(), "same": same}


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def clock(task: Callable[[], Any]) -> dict[str, Any]:
    wall, processor = time.perf_counter(), processor_time()
    value = task()
    return {
        "wall": time.perf_counter() - wall,
        "cpu": processor_time() - processor,
        "sum": str(sum(value)) if isinstance(value, list) else "",
    }


def processor_time() -> float:
    """Seconds of this process and of all that it started: those of Spark are not its own."""
    others = [fields for pid, fields in family().items() if pid != os.getpid()]
    ticks = sum(int(word) for fields in others for word in fields[11:15])
    return time.process_time() + ticks / os.sysconf("SC_CLK_TCK")


def peaks() -> float:
    """The sum of the most memory, in MB, of this process and of those that it started."""
    total = 0
    for pid in family():
        with contextlib.suppress(OSError, ValueError):  # it has ended
            words = Path(f"/proc/{pid}/status").read_text().split()
            total += int(words[words.index("VmHWM:") + 1])
    return total / 1024


def family() -> dict[int, list[str]]:
    """Fields of ``/proc/PID/stat`` after the name, of this process and its descendants."""
    fields = {}
    for path in Path("/proc").glob("[0-9]*/stat"):
        with contextlib.suppress(OSError):  # it has ended
            fields[int(path.parent.name)] = path.read_text().rpartition(")")[2].split()
    found = {os.getpid()} & set(fields)
    while more := {pid for pid, line in fields.items() if int(line[1]) in found} - found:
        found |= more
    return {pid: fields[pid] for pid in found}


def local_task(case: str, file: str, job: Job) -> Callable[[], Any]:
    if case in ("numpy, X.T @ X", "numpy, moments", "array"):
        X = matrix(file)
        if case == "array":
            return lambda: job.measure(X)
        return lambda: float_gram(X, ones=case.endswith("moments"))
    if case == "numpy, read":
        return lambda: read_gram(file)
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


def read_gram(file: str) -> np.ndarray:
    import pyarrow.parquet as pq

    total: Any = 0.0
    for batch in pq.ParquetFile(file).iter_batches(BLOCK):
        part = np.stack([column.to_numpy() for column in batch.columns])
        total += part @ part.T
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


def run(case: str, file: Path, rows: int, columns: int, *more: str) -> dict[str, Any]:
    command = [sys.executable, "-W", "ignore", __file__, "--case", case, "--file", str(file)]
    command += ["--rows", str(rows), "--columns", str(columns), *more]
    quiet = None if case != "spark" else subprocess.DEVNULL
    threads = "1" if "--one-core" in more else str(os.cpu_count())
    names = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "POLARS_MAX_THREADS")
    env = os.environ | dict.fromkeys(names, threads)
    out = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=quiet, text=True, env=env
    )
    return dict(json.loads(out.stdout.splitlines()[-1]))


def report(folder: Path, options: argparse.Namespace) -> str:
    rows, columns = options.rows, options.columns
    file = write(folder, rows, columns)
    lines = [
        f"# Moments of {rows:,} rows of {columns} columns, from every engine",
        "",
        f"Machine: {os.cpu_count()} cores, {platform.machine()}, load average "
        f"{os.getloadavg()[0]:.1f} at the start; Python {platform.python_version()}, numpy "
        f"{np.__version__}. Wall and processor seconds are the best of five after a warm-up "
        "(Spark: the second of two), the peak is that of the process (Spark: of all of them). The "
        "last three columns divide wall (and processor) seconds by those of the bare product of "
        "floats in memory, by those of the same product of floats read from the same file, and by "
        "those of the same clamped integers of a matrix in memory.",
        "",
    ]
    sums: set[str] = set()
    for title, more in (("One core", ["--one-core"]), (f"All {os.cpu_count()} cores", [])):
        found = {case: run(case, file, rows, columns, *more) for case in CASES}
        if not (more or options.no_spark):
            found["spark"] = run("spark", file, rows, columns)
        sums |= {line["sum"] for line in found.values() if line["sum"]}
        lines += [f"## {title}", "", *table(found), ""]
    agree = "the same" if len(sums) == 1 else "DIFFERENT"
    lines += [f"All tightdp cases gave {agree} integers.", ""]
    if options.files:
        lines += [*many_files(folder, file, options), ""]
    file.unlink()
    return "\n".join([*lines, *growth(folder, rows, options.plot)])


def table(found: dict[str, dict[str, Any]]) -> list[str]:
    lines = [
        "| case | wall s | CPU s | peak MB | / X.T @ X | / numpy, read | / array |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    others = [found[case] for case in ("numpy, X.T @ X", "numpy, read", "array")]
    for case, line in found.items():
        what = CASES.get(case, "Parquet through Spark, `mapInArrow`, two local cores, tightdp")
        first = f" (first {line['first']:.1f})" if case == "spark" else ""
        cells = [f"{case}: {what}", f"{line['wall']:.2f}{first}", f"{line['cpu']:.2f}"]
        cells += [f"{line['peak']:,.0f}", *(times(line, other) for other in others)]
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def many_files(folder: Path, file: Path, options: argparse.Namespace) -> list[str]:
    """Constant memory: a folder of links to the file, beside the file."""
    parts = folder / "parts"
    parts.mkdir()
    for i in range(options.files):
        os.link(file, parts / f"{i:03}.parquet")
    rows = options.rows * options.files
    lines = [
        f"## {rows:,} rows in {options.files} files",
        "",
        "In one process, two passes over one file and then one over the folder: how much the peak "
        "of memory grows.",
        "",
        "| case | wall s, one file | folder | CPU s, folder | peak MB, one file | folder | more |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    for case in STREAMS:
        line = run(case, file, rows, options.columns, "--folder", str(parts))
        if not line["same"]:
            raise SystemExit(f"{case}: the folder did not give {options.files} times the integers.")
        cells = [case, f"{line['one']:.2f}", f"{line['wall']:.2f}", f"{line['cpu']:.2f}"]
        sizes = (line["before"], line["peak"], line["peak"] - line["before"])
        lines.append("| " + " | ".join([*cells, *(f"{size:,.0f}" for size in sizes)]) + " |")
    shutil.rmtree(parts)
    return [*lines, "", f"The integers are {options.files} times those of the file."]


def times(line: dict[str, Any], other: dict[str, Any]) -> str:
    return f"{line['wall'] / other['wall']:.1f} ({line['cpu'] / other['cpu']:.1f})"


def growth(folder: Path, rows: int, plot: Path | None) -> list[str]:
    """Processor time against rows and against columns, with the slopes on logarithmic axes."""
    by_rows = {n: timed(folder, n, 6) for n in (rows // 8, rows // 4, rows // 2, rows)}
    wide = rows // 20
    by_columns = {d: timed(folder, wide, d) for d in (4, 8, 16, 32, 64, 128, 256)}
    lines = [
        "## Growth (Parquet by its path, one core)",
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
        return run("path", file, rows, columns, "--one-core")
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
        ax.set_title(f"last slope {slope(dict(list(points.items())[-2:])):.2f}")
        ax.set_xticks(list(points), [f"{size:,}" for size in points], rotation=30, ha="right")
        ax.minorticks_off()
        ax.set_xlabel(label)
        ax.set_ylabel("CPU seconds")
    path.parent.mkdir(parents=True, exist_ok=True)
    figure.savefig(path, dpi=150)


if __name__ == "__main__":
    main()
