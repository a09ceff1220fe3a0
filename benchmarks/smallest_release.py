"""The mean of 100,000 rows in memory, beside OpenDP's, in one run.

    PYTHON benchmarks/smallest_release.py [--out FILE]

``PYTHON`` is an interpreter that has this package and OpenDP. Ours is the whole one-line function:
checks, noise, reading the rows, errors and intervals. OpenDP's is a call of a measurement that was
built before (clamp, mean, Laplace noise on floats), with a numpy array. Calls take turns, one by
one (caches are then cold) and twenty by twenty; processor time is that of all threads.
"""

from __future__ import annotations

import argparse
import os
import platform
import statistics
import time
from collections.abc import Callable
from importlib.metadata import version
from pathlib import Path

import numpy as np
import opendp.prelude as dp

import tightdp as tdp

ROWS = 100_000
CALLS = 1200


def releases() -> tuple[Callable[[], object], Callable[[], object]]:
    """Ours and theirs, on the same array."""
    x = np.random.default_rng(0).uniform(0, 100, ROWS)
    schema, frame = tdp.Schema({"x": tdp.Interval(0, 100)}, rows=ROWS), {"x": x}
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=ROWS)
    start = (space, dp.symmetric_distance()) >> dp.t.then_clamp((0.0, 100.0)) >> dp.t.then_mean()
    theirs = dp.binary_search_chain(lambda s: start >> dp.m.then_laplace(scale=s), 2, 1.0)
    return lambda: tdp.mean(frame, "x", schema=schema, epsilon=1.0), lambda: theirs(x)


def each(call: Callable[[], object], times: int) -> float:
    """Milliseconds of the processor a call."""
    before = time.process_time()
    for _ in range(times):
        call()
    return (time.process_time() - before) / times * 1e3


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    given = parser.parse_args()
    ours, theirs = releases()
    ours(), theirs()
    lines = [
        "# The mean of 100,000 rows in memory",
        "",
        f"Python {platform.python_version()}, OpenDP {version('opendp')}, {CALLS:,} calls "
        f"each, load average {os.getloadavg()[0]:.1f} on {os.cpu_count()} cores. Milliseconds of "
        "the processor: the median, and the least.",
        "",
        "| calls in turn | ours | OpenDP | ours / OpenDP |",
        "| ---: | ---: | ---: | ---: |",
    ]
    for times in (1, 20):
        both = [(each(ours, times), each(theirs, times)) for _ in range(CALLS // times)]
        (a, b), (c, d) = ((statistics.median(v), min(v)) for v in zip(*both, strict=True))
        lines.append(
            f"| {times} | {a:.2f} ({b:.2f}) | {c:.2f} ({d:.2f}) | {a / c:.2f} ({b / d:.2f}) |"
        )
    text = "\n".join(lines) + "\n"
    print(text)
    if given.out:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
