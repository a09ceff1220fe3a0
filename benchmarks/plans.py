"""A plan of many releases, from its text to the report: how long every step takes.

    python benchmarks/plans.py [--releases 1000]

Means, sums and histograms of 20 columns of 20,000 rows, by CSV. Seconds are those of the processor
and of the clock, of one run; with ``--profile STEP`` the functions that take longest are printed.
"""

from __future__ import annotations

import argparse
import cProfile
import os
import pstats
import resource
import tempfile
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS, ROWS = 20, 20_000


def write_plan(folder: Path, releases: int) -> Path:
    """A table, and a plan that asks for a mean, a sum or a histogram with every release."""
    draw = np.random.default_rng(0)
    table = draw.normal(50, 20, (ROWS, COLUMNS)).round(2)
    names = [f"x{j}" for j in range(COLUMNS)]
    lines = [",".join(map(str, row)) for row in table.tolist()]
    (folder / "t.csv").write_text("\n".join([",".join(names), *lines]) + "\n")
    text = [
        f'[data]\nfile = "t.csv"\n[schema]\nrows = {ROWS}',
        *(f"columns.{name} = {{low = 0, high = 100}}" for name in names),
        f'[budget]\nepsilon = {releases}\nledger = "l.db"',
    ]
    for i in range(releases):
        kind, name = ("mean", "sum", "histogram")[i % 3], names[i % COLUMNS]
        asked = f'column = "{name}"\nbins = 10' if kind == "histogram" else f'columns = ["{name}"]'
        text.append(f'[[releases]]\nname = "r{i}"\nkind = "{kind}"\nepsilon = 0.5\n{asked}')
    path = folder / "plan.toml"
    path.write_text("\n".join(text) + "\n")
    return path


def steps(folder: Path, releases: int) -> dict[str, Callable[[], Any]]:
    """What is done with a plan, in order."""
    from tightdp.plans import Plan
    from tightdp.report import Report

    path, known = write_plan(folder, releases), {}

    def read() -> None:
        known["plan"] = Plan.read(path)

    return {
        "reading and rehearsing it": read,
        "preview": lambda: str(known["plan"].preview()),
        "release": lambda: known.update(found=known["plan"].release()),
        "another in one pass, read and released": lambda: one_pass(folder, path),
        "the same again from the ledger": lambda: known["plan"].release(),
        "report": lambda: Report.of_plan(known["plan"], known["found"]).save(folder / "r.html"),
    }


def one_pass(folder: Path, path: Path) -> None:
    """Another plan, whose rows are read once for all releases."""
    from tightdp.plans import Plan

    other = folder / "one_pass.toml"
    other.write_text(path.read_text().replace('ledger = "l.db"', 'ledger = "m.db"'))
    Plan.read(other).release(one_pass=True)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--releases", type=int, default=1000)
    parser.add_argument("--profile")
    given = parser.parse_args()
    warnings.simplefilter("ignore")
    print(f"{given.releases} releases, load {os.getloadavg()[0]:.1f}")
    with tempfile.TemporaryDirectory() as folder:
        for name, work in steps(Path(folder), given.releases).items():
            profile = cProfile.Profile() if name == given.profile else None
            wall, spent = time.perf_counter(), time.process_time()
            _ = work() if profile is None else profile.runcall(work)
            wall, spent = time.perf_counter() - wall, time.process_time() - spent
            print(f"{name}: {spent:.2f} s of the processor, {wall:.2f} by the clock", flush=True)
            if profile is not None:
                pstats.Stats(profile).sort_stats("cumulative").print_stats(45)
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024
    print(f"peak {peak:.0f} MB")


if __name__ == "__main__":
    main()
