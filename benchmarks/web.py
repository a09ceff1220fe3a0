"""The page beside the command line: start, previews while a slider moves, and a release.

    python benchmarks/web.py --out benchmarks/results/web.md

Everything is measured in one run, over HTTP on this machine; the release is the same plan on
ledgers of its own, by the page and by the command line in turn.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
import urllib.request
from pathlib import Path
from typing import Any

from tightdp.plans.toml_text import to_toml
from tightdp.web.demo import DEMO, demo_table

MOVES, RUNS = 20, 3
START = [sys.executable, "-c", "from tightdp.cli.main import run; run()"]
QUESTIONS: list[dict[str, Any]] = [
    {"name": "table", "kind": "count", "columns": ["region:smoker"], "epsilon": 0.4},
    {"name": "means", "kind": "mean", "columns": ["age", "pay"], "by": ["region"], "epsilon": 0.4},
    {"name": "ages", "kind": "histogram", "column": "age", "bins": 8, "epsilon": 0.4},
    {"name": "pay", "kind": "linear_regression", "features": ["age", "hours"], "target": "pay",
     "epsilon": 0.4},
    {"name": "median", "kind": "median", "column": "pay", "epsilon": 0.4},
]  # fmt: skip


class Page:
    """A server of its own, and questions to it."""

    def __init__(self, plan: Path) -> None:
        begun = time.perf_counter()
        self.process = subprocess.Popen(
            [*START, "web", str(plan), "--no-browser", "--quiet"], stdout=subprocess.PIPE, text=True
        )
        assert self.process.stdout is not None
        address = self.process.stdout.readline().strip()
        self.address, _, self.token = address.partition("#token=")
        while True:
            try:
                self.ask("start")
                break
            except OSError:
                time.sleep(0.01)
        self.ready = time.perf_counter() - begun

    def ask(self, act: str, **body: Any) -> Any:
        data = json.dumps({"file": "plan.toml", **body}).encode()
        headers = {"x-tightdp": self.token, "content-type": "application/json"}
        with urllib.request.urlopen(
            urllib.request.Request(f"{self.address}api/{act}", data, headers)
        ) as found:
            return json.load(found)

    def close(self) -> None:
        self.process.terminate()
        self.process.wait()


def folder_with_plan(root: Path, name: str) -> Path:
    folder = root / name
    folder.mkdir()
    (folder / "demo.csv").write_text(demo_table())
    (folder / "plan.toml").write_text(to_toml({**DEMO, "releases": QUESTIONS}))
    return folder / "plan.toml"


def previews(page: Page) -> list[str]:
    """A line for every kind: the first move, and the median and the largest of those after it."""
    plan, lines = {**DEMO, "releases": QUESTIONS}, []
    for question in QUESTIONS:
        took = []
        for move in range(MOVES):
            begun = time.perf_counter()
            page.ask("preview", plan=plan, name=question["name"], epsilon=0.1 + move / 10)
            took.append(1000 * (time.perf_counter() - begun))
        first, *later = took
        middle = statistics.median(took)
        lines.append(f"| {question['kind']} | {middle:.0f} | {first:.0f} | {max(later):.0f} |")
    return lines


def released_by_page(plan: Path) -> float:
    page = Page(plan)
    try:
        record = {**DEMO, "releases": QUESTIONS}
        begun = time.perf_counter()
        job = page.ask("release", plan=record, agreed=[q["name"] for q in QUESTIONS])
        while job["state"] in ("checking", "running"):
            time.sleep(0.02)
            job = page.ask("job", id=job["id"])
        assert job["state"] == "done", job["message"]
        return time.perf_counter() - begun
    finally:
        page.close()


def released_by_command(plan: Path) -> float:
    begun = time.perf_counter()
    report = str(plan.with_suffix(".html"))
    subprocess.run(
        [*START, "release", str(plan), "--report", report, "--quiet"],
        check=True, stdout=subprocess.DEVNULL,
    )  # fmt: skip
    return time.perf_counter() - begun


def measured() -> str:
    load = f"{os.getloadavg()[0]:.1f}"
    lines: list[str] = []
    with tempfile.TemporaryDirectory() as name:
        root = Path(name)
        ready, numpy = [], []
        for i in range(RUNS):
            begun = time.perf_counter()
            subprocess.run([sys.executable, "-c", "import numpy"], check=True)
            numpy.append(time.perf_counter() - begun)
            page = Page(folder_with_plan(root, f"start {i}"))
            ready.append(page.ready)
            lines = previews(page) if i == 0 else lines
            page.close()
        both = [
            (
                released_by_page(folder_with_plan(root, f"page {i}")),
                released_by_command(folder_with_plan(root, f"command {i}")),
            )
            for i in range(RUNS)
        ]
    mine, theirs = (statistics.median(column) for column in zip(*both, strict=True))
    times = sorted(page / command for page, command in both)
    return "\n".join(
        [
            "# The page beside the command line",
            "",
            f"Python {platform.python_version()}, {os.cpu_count()} cores that others used too "
            f"(load average {load} before the run), 2,000 rows.",
            "",
            f"From the command to a page that answers: {statistics.median(ready):.2f} s, where a "
            f"program that only imports NumPy takes {statistics.median(numpy):.2f} s (medians of "
            f"{RUNS}).",
            "",
            f"Previews while a slider moves, {MOVES} moves of each question, in milliseconds:",
            "",
            "| kind | median | first move | largest after it |",
            "|---|---:|---:|---:|",
            *lines,
            "",
            f"A release of {len(QUESTIONS)} questions with its report, medians of {RUNS} runs in "
            f"turn: page {mine:.2f} s, command line {theirs:.2f} s. Page by command line, run by "
            f"run: {statistics.median(times):.2f} times (from {times[0]:.2f} to {times[-1]:.2f}; "
            "at most 1.2 is wanted). The command line starts anew every time.",
            "",
        ]
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="a file for the results")
    given = parser.parse_args()
    text = measured()
    print(text)
    if given.out is not None:
        given.out.write_text(text)


if __name__ == "__main__":
    main()
