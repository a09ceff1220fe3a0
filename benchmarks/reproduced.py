r"""The papers reproduced in quick mode: every quoted number, and how long it takes.

    python benchmarks/reproduced.py --out benchmarks/results/reproduced.md \
        --pictures docs/reproduced

The housing and cylinder tables are used where ``TIGHTDP_DATA`` (or ``../shared/data``) has them.
"""

from __future__ import annotations

import argparse
import os
import platform
import sys
import tempfile
import time
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path

import numpy as np
from PIL import Image

sys.path.insert(0, str(Path(__file__).parents[1]))  # `reproduce` is not installed

from reproduce import Result, experiment_names, quote_table, reproduce
from reproduce.results import KINDS

Timed = tuple[Result, float, float]


def one(name: str, folder: Path, quick: bool) -> Timed:
    """A result with its wall clock and processor seconds."""
    wall, processor = time.monotonic(), time.process_time()
    (result,) = reproduce([name], quick, folder)
    took = time.monotonic() - wall, time.process_time() - processor
    print(f"{result} {took[0]:.0f} s", flush=True)
    return result, *took


def run(names: list[str], folder: Path, *, quick: bool, processes: int) -> list[Timed]:
    """Experiments side by side: their cells are independent."""
    with ProcessPoolExecutor(processes) as pool:
        waiting = [pool.submit(one, name, folder, quick) for name in names]
        return [done.result() for done in waiting]


def shrink(picture: Path, target: Path) -> None:
    """A copy with 64 colours, a third of the size."""
    with Image.open(picture) as image:
        image.convert("RGB").quantize(colors=64, dither=Image.Dither.NONE).save(
            target, optimize=True
        )


def compared(results: list[Result]) -> list[str]:
    """What the numbers of every figure were compared with, as a table in Markdown."""
    lines = [
        "| figure | numbers | formula | bounds | print | independent | yes or no | printed (met) "
        "| widest error, % | order only |",
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for result in results:
        quotes = result.quotes
        kinds = [sum(quote.kind == kind for quote in quotes) for kind in KINDS]
        printed = [quote for quote in quotes if quote.meets_print is not None]
        met = sum(bool(quote.meets_print) for quote in printed)
        narrow = [quote.width for quote in quotes if not quote.order_only]
        counts = " | ".join(map(str, kinds))
        lines.append(
            f"| `{result.name}` | {len(quotes)} | {counts} | {len(printed)} ({met}) "
            f"| {100 * max(narrow, default=0.0):.2g} | {sum(q.order_only for q in quotes)} |"
        )
    return lines


def report(found: list[Timed], wall: float, processes: int) -> list[str]:
    quotes = [quote for result, *_ in found for quote in result.quotes]
    good = sum(quote.within for quote in quotes)
    processor = sum(used for *_, used in found)
    load = os.getloadavg()[2]
    lines = [
        "# The papers, reproduced",
        "",
        f"Quick mode, {processes} processes on {os.cpu_count()} cores, Python "
        f"{platform.python_version()}, numpy {np.__version__}; load average {load:.1f}. "
        f"{good} of {len(quotes)} quoted numbers are within their stated error. "
        f"Seconds: {processor:.0f} of processor time in all, {wall:.0f} by the clock.",
        "",
        "| experiment | source | numbers | within | processor, s | clock, s |",
        "|---|---|---:|---:|---:|---:|",
    ]
    for result, clock, used in found:
        within = sum(quote.within for quote in result.quotes)
        lines.append(
            f"| {result.name} | {result.source} | {len(result.quotes)} | {within} "
            f"| {used:.1f} | {clock:.1f} |"
        )
    lines += ["", *compared([result for result, *_ in found])]
    lines += [
        "",
        "*paper*: what is printed, where it is a number of its own. *expected*: the printed, exact "
        "or independently simulated value, with the error that is allowed: rounding, certified "
        "gaps, or four combined standard errors. *erratum*: the entry of the errata page that "
        "explains a difference to the paper.",
    ]
    for result, *_ in found:
        lines += ["", f"## {result.name}", "", f"{result.title}: {result.source}.", ""]
        lines.append(quote_table(result.quotes))
    return [*lines, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--pictures", type=Path)
    parser.add_argument("--folder", type=Path, help="keep cells here, and use what is there")
    parser.add_argument("--full", action="store_true")
    parser.add_argument("--processes", type=int, default=2)
    parser.add_argument("names", nargs="*", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        names = options.names or list(experiment_names())
        started = time.monotonic()
        found = run(names, folder, quick=not options.full, processes=options.processes)
        wall = time.monotonic() - started
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
            for result, *_ in found:
                shrink(result.plot, options.pictures / result.plot.name)
    if options.out:
        options.out.write_text("\n".join(report(found, wall, options.processes)), encoding="utf-8")


if __name__ == "__main__":
    main()
