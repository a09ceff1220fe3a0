"""Samples per second of the sum, count and vote balls, beside the published Python code.

The published code is the package ``k_norm`` of google-research; it is not part of this project:

    python benchmarks/counting_balls.py --published FOLDER_THAT_HOLDS_k_norm

Both sides are timed in the same run and the same process. Nothing is written without ``--out``.
"""

from __future__ import annotations

import argparse
import importlib
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from tightdp.geometry.counting_balls import CountBall, HistogramBall, SumBall
from tightdp.geometry.norm_balls import NormBall
from tightdp.geometry.poset_ball import PosetBall
from tightdp.geometry.vote_ball import VoteBall

SETTINGS = [(5, 2), (10, 5), (20, 4), (50, 10), (100, 20), (500, 100)]
PUBLISHED_UP_TO = 100  # its floating-point tables overflow from d = 150 (vote), 171 (sum, count)
BATCH = 1 << 18  # numbers in one call of ours


def rate(draw: Callable[[int], Any], batch: int, seconds: float) -> float:
    """Samples per second of ``draw(batch)``, called until the time is over (after one warm-up)."""
    draw(batch)
    calls, start = 0, time.perf_counter()
    while True:
        draw(batch)
        calls += 1
        passed = time.perf_counter() - start
        if passed > seconds:
            return batch * calls / passed


def ours(ball: NormBall, seconds: float) -> float:
    """Rate of a ball with the secure source, in batches."""
    return rate(ball.sample, max(BATCH // ball.dim, 256), seconds)


def load_published(folder: Path | None) -> dict[str, Callable[[int, int], Callable[[], Any]]]:
    """For each ball a function of (d, k) that gives a sampler of one point."""
    if folder is None or not (folder / "k_norm").is_dir():
        print("No folder `k_norm`: the published code is skipped.", file=sys.stderr)
        return {}
    sys.path.insert(0, str(folder))
    total, count, vote = (
        importlib.import_module(f"k_norm.{word}_mechanism") for word in ("sum", "count", "vote")
    )

    def with_table(sample: Callable[..., Any]) -> Callable[[int, int], Callable[[], Any]]:
        def prepare(d: int, k: int) -> Callable[[], Any]:
            table = total.compute_eulerian_numbers(d)
            return lambda: sample(table, k)

        return prepare

    return {
        "sum": with_table(total.sample_sum_ball),
        "count": with_table(count.sample_count_ball),
        "vote": lambda d, k: lambda: vote.sample_vote_ball(d),
    }


def measure(published: dict[str, Any], seconds: float) -> list[str]:
    """Rows of the table."""
    balls: dict[str, Callable[[int, int], NormBall]] = {
        "sum": SumBall,
        "count": CountBall,
        "vote": lambda d, k: VoteBall(d),
        "histogram": lambda d, k: HistogramBall(d),
        "binary tree poset": lambda d, k: PosetBall(d, [(i, (i - 1) // 2) for i in range(1, d)]),
    }
    lines = [
        "| ball | d, k | published /s | ours /s | ratio |",
        "| --- | --- | ---: | ---: | ---: |",
    ]
    for word, make in balls.items():
        for d, k in SETTINGS:
            mine = ours(make(d, k), seconds)
            theirs = ratio = "-"
            if word in published and d <= PUBLISHED_UP_TO:
                one = published[word](d, k)
                speed = rate(lambda n, one=one: [one() for _ in range(n)], 4, seconds)
                theirs, ratio = f"{speed:,.0f}", f"{mine / speed:,.0f}"
            setting = f"{d}, {k}" if word in ("sum", "count") else f"{d}"
            lines.append(f"| {word} | {setting} | {theirs} | {mine:,.0f} | {ratio} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--published", type=Path, help="folder that holds the package k_norm")
    parser.add_argument("--seconds", type=float, default=1.0, help="time for each cell")
    parser.add_argument("--out", type=Path, help="file for the table")
    options = parser.parse_args()
    np.random.seed(0)  # the published code draws from the global generator
    lines = [
        "# Samples per second: counting balls",
        "",
        f"Machine: 2 cores, {platform.machine()}; Python {platform.python_version()}, "
        f"numpy {np.__version__}. Both sides in one process, {options.seconds:g} s a cell. "
        "Ours with the secure source, in batches; the published code one point a call, as written; "
        "at d = 500 its tables overflow. "
        "Rates move with whatever else the machine does; compare ratios.",
        "",
        *measure(load_published(options.published), options.seconds),
    ]
    print("\n".join(lines))
    if options.out:
        options.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
