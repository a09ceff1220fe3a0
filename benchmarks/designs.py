"""How long designed noise takes: the tables of [5], and its formulation beside ours.

    python benchmarks/designs.py --out benchmarks/results/designs.md

Every design is certified to a relative gap of 1 % and verified. Times are seconds of
processor time of one process, so that other jobs on the machine do not count.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import time
import warnings
from pathlib import Path

import tightdp as tdp

EPSILONS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0)
DELTAS = (0.005, 0.01, 0.02, 0.05, 0.1, 0.2, 0.25, 0.3, 0.5, 0.75)


def timed(epsilon: float, delta: float, loss: str) -> tuple[tdp.Design, float]:
    before = time.process_time()
    design = tdp.design_noise(epsilon=epsilon, delta=delta, loss=loss)
    took = time.process_time() - before
    if not design.certificate.verify():
        raise SystemExit(f"({epsilon}, {delta}, {loss}) was not proved")
    return design, took


def table(loss: str, most_epsilon: float) -> list[str]:
    """One line for each epsilon: the certified interval of each cell, then times."""
    rows = [f"| epsilon | {' | '.join(f'{delta:g}' for delta in DELTAS)} | seconds |"]
    rows.append("|" + " --- |" * (len(DELTAS) + 2))
    times: list[float] = []
    worst = 0.0
    for epsilon in (e for e in EPSILONS if e <= most_epsilon):
        found = [timed(epsilon, delta, loss) for delta in DELTAS]
        times += [took for _, took in found]
        worst = max([worst, *(design.gap for design, _ in found)])
        middles = " | ".join(f"{(d.lower + d.upper) / 2:.4g}" for d, _ in found)
        rows.append(f"| {epsilon:g} | {middles} | {sum(took for _, took in found):.1f} |")
        print(rows[-1], flush=True)
    summary = (
        f"{len(times)} cells: {sum(times):.0f} s in all, median {statistics.median(times):.2f} s, "
        f"longest {max(times):.1f} s, largest gap {worst:.2%}."
    )
    print(summary, flush=True)
    return [*rows, "", summary, ""]


def growth(limit: float) -> list[str]:
    """Seconds by number of cells at (1, 0.1), l1, for the two formulations."""
    rows = ["| cells | extended | cutting planes | ratio |", "| --- | --- | --- | --- |"]
    for cells in (20, 40, 80, 120, 200, 400):
        seconds: dict[str, tuple[float, bool]] = {}
        for method in ("extended", "cutting-planes"):
            if method == "cutting-planes" and cells > 200:
                continue
            before = time.process_time()
            design = tdp.design_noise(
                epsilon=1.0, delta=0.1, cells=cells, method=method, time_limit=limit
            )
            seconds[method] = time.process_time() - before, design.reached
        ours = seconds["extended"][0]
        theirs = seconds.get("cutting-planes")
        ended = theirs is not None and theirs[0] < 0.95 * limit
        shown = "-" if theirs is None else f"{theirs[0]:.2f}" if ended else f"> {limit:g}"
        ratio = "-" if theirs is None else f"{'' if ended else '> '}{theirs[0] / ours:.0f}"
        rows.append(f"| {cells} | {ours:.2f} | {shown} | {ratio} |")
        print(rows[-1], flush=True)
    return [*rows, ""]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--parts", default="l1,l2,growth")
    parser.add_argument("--limit", type=float, default=60.0, help="seconds for cutting planes")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    tdp.design_noise(epsilon=1.5, delta=0.15)  # imports the solver
    lines = [
        "# Designed noise",
        "",
        f"{platform.machine()}, Python {platform.python_version()}.",
        "",
    ]
    parts = options.parts.split(",")
    if "l1" in parts:
        lines += ["## l1, middle of the certified interval", "", *table("l1", 5.0)]
    if "l2" in parts:
        lines += ["## l2, epsilon up to 2", "", *table("l2", 2.0)]
    if "growth" in parts:
        lines += ["## Seconds by number of cells, (1, 0.1), l1", "", *growth(options.limit)]
    if options.out:
        options.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
