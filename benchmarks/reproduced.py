r"""The papers reproduced in quick mode: every quoted number, and how long it takes.

    python benchmarks/reproduced.py --out benchmarks/results/reproduced.md \
        --pictures docs/reproduced

The housing and cylinder tables are used where ``TIGHTDP_DATA`` (or ``../shared/data``) has them.
"""

from __future__ import annotations

import argparse
import platform
import tempfile
import time
from pathlib import Path

import numpy as np

from tightdp.experiments import Result, experiment_names, quote_table, reproduce


def run(names: list[str], folder: Path, *, quick: bool) -> list[tuple[Result, float, float]]:
    """Results with their wall clock and processor seconds."""
    out = []
    for name in names:
        wall, processor = time.monotonic(), time.process_time()
        (result,) = reproduce([name], quick, folder)
        out.append((result, time.monotonic() - wall, time.process_time() - processor))
        print(f"{result} {out[-1][1]:.0f} s", flush=True)
    return out


def report(found: list[tuple[Result, float, float]]) -> list[str]:
    quotes = [quote for result, *_ in found for quote in result.quotes]
    good = sum(quote.within for quote in quotes)
    wall, processor = (sum(times) for times in zip(*((w, p) for _, w, p in found), strict=True))
    lines = [
        "# The papers, reproduced",
        "",
        f"Quick mode, one process, Python {platform.python_version()}, numpy {np.__version__}, on "
        "two cores that were shared with other work. "
        f"{good} of {len(quotes)} quoted numbers are within their stated error. "
        f"Seconds: {processor:.0f} of processor time, {wall:.0f} by the clock.",
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
    parser.add_argument("names", nargs="*", default=[])
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as scratch:
        folder = options.folder or Path(scratch)
        names = options.names or list(experiment_names())
        found = run(names, folder, quick=not options.full)
        if options.pictures:
            options.pictures.mkdir(parents=True, exist_ok=True)
            for result, *_ in found:
                (options.pictures / result.plot.name).write_bytes(result.plot.read_bytes())
    if options.out:
        options.out.write_text("\n".join(report(found)), encoding="utf-8")


if __name__ == "__main__":
    main()
