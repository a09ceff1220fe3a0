"""A hundred million rows in a hundred thousand groups, inside the engines and beside them.

    python benchmarks/scale.py [--rows 100000000] [--spark-rows 10000000] [--out FILE --plot FILE]

Every case runs in a process of its own and prints wall and processor seconds, the peak of memory
and a digest of its integers. The engine's own GROUP BY (count and sum of raw floats, no clamp)
takes turns with ours in the same process, and ratios are within that process; ``--only`` runs one
of them alone, for its peak of memory. Lines are printed as they come, because a long run may be
stopped. A billion rows are ten links to one file.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

GROUPS = 100_000
CASES = ("duckdb", "polars", "path")


def timed(work: Callable[[], Any], times: int) -> tuple[float, float, Any]:
    """The least wall and processor seconds, and the last result."""
    return in_turn([work], times)[0]


def in_turn(works: list[Callable[[], Any]], times: int) -> list[tuple[float, float, Any]]:
    """The same of several, which take turns."""
    least: list[tuple[float, float, Any]] = [(float("inf"), float("inf"), None) for _ in works]
    for _ in range(times):
        for j, work in enumerate(works):
            start, spent = time.perf_counter(), time.process_time()
            out = work()
            wall, cpu = time.perf_counter() - start, time.process_time() - spent
            least[j] = (min(least[j][0], wall), min(least[j][1], cpu), out)
    return least


def peak() -> float:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024


def statistic(rows: int) -> Any:
    import tightdp as tdp
    from tightdp.data.class_moments import GroupMoments

    facts = {"g": tdp.Category(range(GROUPS), other=0), "x": tdp.Interval(-4, 4.7)}
    return GroupMoments(tdp.Schema(facts, rows=rows), ["x"], "g")


def digest(integers: list[int]) -> str:
    return hashlib.sha256(" ".join(map(str, integers)).encode()).hexdigest()[:12]


def case(name: str, files: list[str], rows: int, times: int, only: str) -> dict[str, Any]:
    """One engine: its own GROUP BY, and the same with clamp and grid; or one of them alone."""
    wanted = statistic(rows)
    own: Callable[[], Any] | None = None
    if name == "duckdb":
        import duckdb

        connection = duckdb.connect()
        relation = f"SELECT * FROM read_parquet({files!r})"
        query = f"SELECT g, count(*), sum(x) FROM ({relation}) GROUP BY g"
        own = lambda: connection.sql(query).fetchnumpy()  # noqa: E731
        table: Callable[[], Any] = lambda: connection.sql(relation)  # noqa: E731
    elif name == "polars":
        import polars as pl

        scan = pl.scan_parquet(files)
        asked = scan.group_by("g").agg(pl.len(), pl.col("x").sum())
        own = lambda: asked.collect(engine="streaming")  # noqa: E731
        table = lambda: scan  # noqa: E731
    elif name == "spark":
        session = spark()
        frame = session.read.parquet(*files)
        # asked anew every time: of a frame that was collected Spark keeps what it shuffled
        own = lambda: frame.groupBy("g").agg({"*": "count", "x": "sum"}).collect()  # noqa: E731
        table = lambda: frame  # noqa: E731
        times += 1  # the first run compiles
    else:
        table = lambda: Path(files[0]).parent if len(files) > 1 else files[0]  # noqa: E731
    if only == "own" and own is not None:
        return {"cpu": timed(own, times)[1], "peak": peak()}
    both = [*([] if own is None or only else [own]), lambda: wanted.measure(table())]
    *first, (wall, cpu, found) = in_turn(both, times)
    return {
        "own": first[0][:2] if first else None,
        "wall": wall,
        "cpu": cpu,
        "peak": peak(),
        "digest": digest(found),
        "rows": sum(found[::2]) // wanted.resolution(wanted.schema.bits),
    }


def spark() -> Any:
    from pyspark.sql import SparkSession

    os.environ["PYSPARK_PYTHON"] = sys.executable
    made = SparkSession.builder.master("local[2]").config("spark.ui.enabled", "false")
    for name in ("spark.driver.host", "spark.driver.bindAddress"):
        made = made.config(name, "127.0.0.1")
    found = made.config("spark.driver.memory", "2g").getOrCreate()
    found.sparkContext.setLogLevel("ERROR")
    return found


def release() -> dict[str, Any]:
    """From the schema to published numbers of all groups, on a million rows in memory."""
    import tightdp as tdp
    from tightdp.mechanisms.groups import GroupMeans, GroupSums

    draw, rows = np.random.default_rng(0), 10**6
    table = {"g": draw.integers(0, GROUPS, rows), "x": draw.standard_normal(rows)}
    found: dict[str, Any] = {}
    for kind in (GroupSums, GroupMeans):
        facts = {"g": tdp.Category(range(GROUPS), other=0), "x": tdp.Interval(-4, 4.7)}
        schema = tdp.Schema(facts, rows=rows)
        made = timed(lambda kind=kind, schema=schema: kind(schema, "x", "g", epsilon=1), 1)
        seen = timed(made[2].preview, 1)
        out = timed(lambda made=made: made[2].release(table), 1)
        found[kind.__name__] = {"construction": made[1], "preview": seen[1], "release": out[1]}
    return found | {"peak": peak()}


def wide(columns: int = 200, rows: int = 200_000) -> dict[str, Any]:
    """Moments of many columns: all sums of products, from a matrix."""
    import tightdp as tdp
    from tightdp.data.regression_moments import Moments

    X = np.random.default_rng(0).standard_normal((rows, columns))
    schema = tdp.Schema({f"x{j}": tdp.Interval(-4, 4) for j in range(columns)}, rows=rows)
    *features, target = schema
    made = timed(lambda: Moments(schema, features, target), 1)
    bare = timed(lambda: X.T @ X, 3)
    out = timed(lambda: made[2].measure(X), 3)
    return {
        "entries": len(made[2]),
        "made": made[1],
        "bare": bare[1],
        "cpu": out[1],
        "peak": peak(),
    }


# --- the report ----------------------------------------------------------------------------------


def write(path: Path, rows: int) -> None:
    """A Parquet file of groups and normal draws: 12 bytes a row."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    draw, many = np.random.default_rng(0), 122_880 * 8
    schema = pa.schema([("g", pa.int32()), ("x", pa.float64())])
    options: dict[str, Any] = {"use_dictionary": False, "compression": "NONE"}
    with pq.ParquetWriter(path, schema, **options) as writer:
        for start in range(0, rows, many):
            size = min(many, rows - start)
            cells = {
                "g": draw.integers(0, GROUPS, size, dtype=np.int32),
                "x": draw.standard_normal(size),
            }
            writer.write_table(pa.table(cells, schema=schema), row_group_size=122_880)


def run(*arguments: str) -> Any:
    command = [sys.executable, "-W", "ignore", __file__, *arguments]
    env = os.environ | {"OMP_NUM_THREADS": "2", "OPENBLAS_NUM_THREADS": "2"}
    out = subprocess.run(
        command, check=True, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, env=env
    )
    return json.loads(out.stdout.splitlines()[-1])


def measured(name: str, files: list[Path], rows: int, times: int = 2) -> dict[str, Any]:
    found = run("--case", name, "--size", str(rows), "--times", str(times), *map(str, files))
    print(line(name, rows, found), file=sys.stderr, flush=True)  # a long run may be stopped
    return dict(found)


def line(name: str, rows: int, found: dict[str, Any]) -> str:
    own = found["own"]
    before = ["", "", ""] if own is None else [f"{own[0]:.2f}", f"{own[1]:.2f}", ""]
    if own is not None:
        before[2] = f"{found['wall'] / own[0]:.2f} ({found['cpu'] / own[1]:.2f})"
    cells = [name, f"{rows:,}", *before[:2], f"{found['wall']:.2f}", f"{found['cpu']:.2f}"]
    return "| " + " | ".join([*cells, before[2], f"{found['peak']:,.0f}", found["digest"]]) + " |"


HEAD = [
    "| engine | rows | own wall s | own CPU s | ours wall s | ours CPU s | ours / own, wall (CPU) "
    "| peak MB | integers |",
    "| --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |",
]


def report(folder: Path, options: argparse.Namespace) -> str:
    rows, tenth = options.rows, options.rows // 10
    load = os.getloadavg()[0]
    large, small = folder / "large.parquet", folder / "small.parquet"
    write(small, tenth)
    write(large, rows)
    lines = [
        f"# Counts and sums of {rows:,} rows in {GROUPS:,} groups",
        "",
        f"Machine: {os.cpu_count()} cores, {platform.machine()}, Python "
        f"{platform.python_version()}; load average {load:.1f} at the start and LOAD at the end: "
        "where it is above 1, processor seconds are the safer figures. A row has an integer for "
        "its group and a float; `own` is the engine's GROUP BY with the count and the sum of the "
        "raw floats, `ours` the same with clamp, grid and exact integers, in the same process. "
        "Least of two runs in turn (Spark: of three; by path and of links: one). A peak is of the "
        "process, in which both ran (Spark: of Python alone).",
        "",
        *HEAD,
    ]
    grown: dict[str, dict[int, float]] = {}
    for name in CASES:
        for size, file in ((tenth, small), (rows, large)):
            found = measured(name, [file], size, times=1 if name == "path" else 2)
            grown.setdefault(name, {})[size] = found["cpu"]
            lines.append(line(name, size, found))
    if options.spark_rows:
        spark_file = small if options.spark_rows == tenth else folder / "spark.parquet"
        if spark_file != small:
            write(spark_file, options.spark_rows)
        lines.append(
            line("spark", options.spark_rows, measured("spark", [spark_file], options.spark_rows))
        )
    small.unlink()
    for times in options.copies:
        parts = [folder / f"part-{i:02}.parquet" for i in range(times)]
        for part in parts:
            os.link(large, part)
        found = measured("polars", parts, rows * times, times=1)
        grown["polars"][rows * times] = found["cpu"]
        lines.append(line(f"polars, {times} links to one file", rows * times, found))
        for part in parts:
            part.unlink()
    lines += ["", *growth(grown, options.plot), "", *of_releases(run("--release")), ""]
    lines += of_columns(run("--wide"))
    return "\n".join(lines).replace("LOAD", f"{os.getloadavg()[0]:.1f}")


def growth(grown: dict[str, dict[int, float]], plot: Path | None) -> list[str]:
    """Processor seconds a million rows, and the line to a billion."""
    lines = ["## Growth", "", "| engine | rows | CPU s | CPU s a million rows |"]
    lines.append("| --- | ---: | ---: | ---: |")
    for name, points in grown.items():
        for rows, cpu in points.items():
            lines.append(f"| {name} | {rows:,} | {cpu:.2f} | {cpu / rows * 1e6:.3f} |")
        most = max(points)
        if most < 10**9:
            line_end = points[most] / most * 10**9
            lines.append(f"| {name}, by the line | 1,000,000,000 | {line_end:.0f} | |")
    if plot is not None:
        import matplotlib.pyplot as plt

        figure, ax = plt.subplots(figsize=(5, 3.4), constrained_layout=True)
        for name, points in grown.items():
            (drawn,) = ax.loglog(list(points), list(points.values()), "o-", label=name)
            ends = [max(points), 10**9]
            by_line = [points[ends[0]] * end / ends[0] for end in ends]
            ax.loglog(ends, by_line, ":", color=drawn.get_color())
        ax.set_xlabel("rows (dotted: by the line)")
        ax.set_ylabel("CPU seconds")
        ax.legend()
        figure.savefig(plot, dpi=150)
        lines += ["", f"![Processor time against rows]({plot.name})"]
    return lines


def of_releases(found: dict[str, Any]) -> list[str]:
    lines = [
        f"## A release of {GROUPS:,} groups, counts and sums, from a million rows in memory",
        "",
        f"Processor seconds, one run; the peak of the process was {found.pop('peak'):,.0f} MB.",
        "",
        "| release | construction | preview | release |",
        "| --- | ---: | ---: | ---: |",
    ]
    for name, each in found.items():
        cells = (f"{each[step]:.2f}" for step in ("construction", "preview", "release"))
        lines.append(f"| `{name}` | {' | '.join(cells)} |")
    return lines


def of_columns(found: dict[str, Any]) -> list[str]:
    return [
        "## Moments of 200 columns of 200,000 rows in memory",
        "",
        f"{found['entries']:,} entries: {found['cpu']:.2f} s of the processor, "
        f"{found['cpu'] / found['bare']:.1f} times the bare product of floats "
        f"({found['bare']:.2f} s); the statistic itself is made in {found['made']:.2f} s. "
        f"Peak {found['peak']:,.0f} MB, of which the table is 320.",
    ]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rows", type=int, default=10**8)
    parser.add_argument("--spark-rows", type=int, default=10**7)
    parser.add_argument("--copies", type=int, nargs="*", default=[3, 10])
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--case")
    parser.add_argument("--size", type=int)
    parser.add_argument("--times", type=int, default=2)
    parser.add_argument("--only", choices=["own", "ours"], default="")
    parser.add_argument("--release", action="store_true")
    parser.add_argument("--wide", action="store_true")
    parser.add_argument("files", nargs="*")
    options = parser.parse_args()
    warnings.simplefilter("ignore")
    if options.case:
        print(
            json.dumps(case(options.case, options.files, options.size, options.times, options.only))
        )
    elif options.release or options.wide:
        print(json.dumps(release() if options.release else wide()))
    else:
        with tempfile.TemporaryDirectory() as folder:
            text = report(Path(folder), options)
        print(text)
        if options.out:
            options.out.write_text(text + "\n")


if __name__ == "__main__":
    main()
