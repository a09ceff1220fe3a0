"""Many tables for one payment: variances beside the peers', plans and their bounds, coverage.

    python benchmarks/tables.py [--adult FILE] [--out FILE] [--quick] [--parts NAME ...]
        [--keep FOLDER]

``FILE`` of ``--adult`` is UCI's adult.data. Rows of a run are kept in ``FOLDER``, if there is one,
and those that are there are not made again: a run that was stopped goes on. Neighbours differ by
one row replaced unless said.
Variances are totals over all cells of all tables. Those of tightdp are measured on releases beside
what their previews say. "Laplace": each table gets its part of epsilon, each cell a discrete
Laplace law. "Gaussian": one variance for all cells. "planner": the residual planner (Xiao, He,
Zhang and Kifer, 2023) in a re-implementation from its closed form, with a replaced row counted as
two rows, as its code does. Coverage is that of 1,000 books of 1,000 different tables each, with
skewed columns and cells that nobody is in; under public margins the tables are drawn among those
that have them: one column is permuted. "l2": noise with density like exp(-epsilon |z|) in residual
coordinates that the plan of the Gaussian noise scales, so that no row moves them by more than 1; in
m dimensions its variance is m + 1 times that of the plan, over epsilon squared.
"""

from __future__ import annotations

import argparse
import itertools
import json
import platform
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

import tightdp as tdp
from tightdp.privacy import Neighbors
from tightdp.workloads.planner import plan
from tightdp.workloads.residuals import Workload
from tightdp.workloads.strategies import strategies

LAPLACE, ALIKE, PLANNER = "Laplace on every cell", "one Gaussian for all tables", "residual planner"
# adult.data: the columns and, of numbers, bounds and bins; sizes as in the planner's paper
COLUMNS = [
    "age", "workclass", "fnlwgt", "education", "education-num", "marital", "occupation",
    "relationship", "race", "sex", "gain", "loss", "hours", "country", "income",
]  # fmt: skip
NUMBERS = {
    "age": (0, 85, 85),
    "fnlwgt": (0, 1_500_000, 100),
    "gain": (0, 100_000, 100),
    "loss": (0, 5_000, 100),
    "hours": (0, 99, 99),
}
Row = Callable[[], list[Any]]
SIZES = [100, 100, 100, 99, 85, 42, 16, 15, 9, 7, 6, 5, 2, 2]


def to_order(sizes: list[int], order: int) -> Workload:
    columns = range(len(sizes))
    every = (itertools.combinations(columns, k) for k in range(1, order + 1))
    return Workload(sizes, itertools.chain.from_iterable(every))


def timed(call: Any) -> tuple[Any, float]:
    start = time.process_time()
    found = call()
    return found, time.process_time() - start


def table(head: list[str], rows: list[list[object]]) -> str:
    lines = [head, ["---"] * len(head), *rows]
    return "\n".join("| " + " | ".join(map(str, line)) + " |" for line in lines)


# --- flags at delta = 0 ---------------------------------------------------------------------------


def flags(columns: int, rows: int = 1000) -> tdp.Schema:
    yes = tdp.Category(["no", "yes"], other="no")
    return tdp.Schema({f"q{i}": yes for i in range(columns)}, rows=rows)


def flag_rows(draws: int) -> list[Row]:
    return [partial(flag_row, d, draws if d < 32 else draws // 10) for d in (4, 8, 12, 16, 32)]


def flag_row(d: int, many: int) -> list[object]:
    book, took = timed(lambda: tdp.Tables(flags(d), 2, epsilon=1))
    compared, foreseen = book.compare(), book.preview()
    rng = np.random.default_rng(d)
    people = {name: rng.choice(["no", "yes"], 1000, p=[0.9, 0.1]) for name in book.schema}
    truth = tdp.Tables(flags(d), 2, epsilon=1000, noise="cube").release(people, rng=1).value
    seeds = range(1000 * d, 1000 * d + many)
    errors = [book.release(people, rng=seed).value - truth for seed in seeds]
    squares = np.sum(np.square(errors), axis=1)
    measured, unsure = squares.mean(), squares.std() / np.sqrt(many)
    lossy = tdp.Tables(flags(d), 2, epsilon=1, delta=1e-6, noise="gaussian").compare()
    return [
        d,
        book.book.strategy,
        f"{compared.totals[book.book.strategy]:.5g}",
        f"{measured:.5g} ({unsure:.2g})",
        f"1/{compared.ratio(LAPLACE):.1f}",
        f"{lossy.totals['gaussian'] / compared.totals[book.book.strategy]:.2f}",
        "yes" if book.book.resolution == 1 else "no",
        book.book.certified,
        f"{took:.1f} s",
        len(foreseen.names),
    ]


# --- plans under zCDP -----------------------------------------------------------------------------


def plan_rows() -> list[Row]:
    rng = np.random.default_rng(1)
    cases = {
        "Adult's 14 columns, to 2-way": (SIZES, 2),
        "8 flags, to 3-way": ([2] * 8, 3),
        "8 columns of 2 to 100 levels, to 2-way": ([2, 2, 2, 3, 5, 10, 50, 100], 2),
        "50 flags, to 2-way": ([2] * 50, 2),
        "50 columns of 2 to 100 levels, to 2-way": (rng.integers(2, 101, 50).tolist(), 2),
        "20 columns of 2 to 9 levels, to 3-way": (rng.integers(2, 10, 20).tolist(), 3),
    }
    return [partial(plan_row, name, *case) for name, case in cases.items()]


def plan_row(name: str, sizes: list[int], order: int) -> list[object]:
    work = to_order(sizes, order)
    found, took = timed(lambda: plan(work, Neighbors.REPLACE_ONE))
    twice = 4 * plan(work, Neighbors.ADD_REMOVE).total
    alike = 2 * len(work.tables) * sum(work.cells(t) for t in work.tables)
    ratios = [f"{found.total / other:.4f}" for other in (twice, alike)]
    return [name, len(work.tables), *ratios, f"{found.gap:.1e}", f"{took:.1f} s"]


# --- l2 noise at delta = 0 ------------------------------------------------------------------------


def l2_rows() -> list[Row]:
    cases = {
        "4 flags": ([2] * 4, 2),
        "8 flags": ([2] * 8, 2),
        "16 flags": ([2] * 16, 2),
        "20 flags": ([2] * 20, 2),
        "32 flags": ([2] * 32, 2),
        "50 flags": ([2] * 50, 2),
        "8 flags, to 3-way": ([2] * 8, 3),
        "12 flags, to 3-way": ([2] * 12, 3),
        "6 flags, to 4-way": ([2] * 6, 4),
        "4 columns of 3 levels": ([3] * 4, 2),
        "6 columns of 3 levels": ([3] * 6, 2),
        "3 columns of 2, 3, 4 levels": ([2, 3, 4], 2),
        "5 columns of 2 to 10 levels": ([2, 2, 3, 5, 10], 2),
        "3 columns of 10 levels": ([10] * 3, 2),
        "2 columns of 8 and 30 levels": ([8, 30], 2),
    }
    return [partial(l2_row, name, *case) for name, case in cases.items()]


def l2_row(name: str, sizes: list[int], order: int) -> list[object]:
    ratios: list[object] = []
    for relation in (Neighbors.REPLACE_ONE, Neighbors.ADD_REMOVE):
        work = to_order(sizes, order)
        best = strategies(work, relation)[0]
        told = [a for a in work.residuals if a or relation is Neighbors.ADD_REMOVE]
        m = sum(work.directions(a) for a in told)
        ratios += [best.name, f"{plan(work, relation).total * (m + 1) / best.total:.3f}"]
    return [name, *ratios]


# --- Adult, as it is ------------------------------------------------------------------------------


def adult(path: Path) -> tuple[tdp.Schema, dict[str, Any], dict[str, Any]]:
    lines = [line.split(", ") for line in path.read_text().splitlines() if line.strip()]
    cells = dict(zip(COLUMNS, map(np.array, zip(*lines, strict=True)), strict=True))
    del cells["education-num"]
    facts: dict[str, Any] = {}
    bins: dict[str, Any] = {}
    for name, column in cells.items():
        if name in NUMBERS:
            low, high, count = NUMBERS[name]
            facts[name], bins[name] = tdp.Interval(low, high), count
            cells[name] = column.astype(float)
        else:  # the levels are those of the file's description, which its rows all show
            levels = sorted(set(column.tolist()))
            facts[name] = tdp.Category(levels, other=levels[0])
    return tdp.Schema(facts, rows=len(lines)), bins, cells


def adult_rows(path: Path, rho: float) -> list[list[object]]:
    schema, bins, people = adult(path)
    book, built = timed(lambda: tdp.Tables(schema, 2, bins=bins, rho=rho))
    _, took = timed(lambda: book.release(people))
    exact = tdp.Tables(schema, 2, bins=bins, rho=1e5, noise="gaussian").release(people, rng=1)
    foreseen, compared = book.preview(), book.compare()
    truth = np.rint(exact.value)
    errors = np.array([book.release(people, rng=i).value - truth for i in range(20)])
    inside = np.abs(errors) <= foreseen.alone
    whole = (np.abs(errors) <= foreseen.half_width).all(axis=1)
    return [
        ["columns, tables, cells", f"{len(bins) + 9}, {len(book.contents)}, {len(book.names)}"],
        ["noise", book.book.strategy],
        ["total variance over the planner's", f"{1 / compared.ratio(PLANNER):.4f}"],
        ["... over one Gaussian for all tables", f"{1 / compared.ratio(ALIKE):.4f}"],
        ["certified gap to the best plan", f"{book.gap:.1e}"],
        ["lattice points per count", book.book.resolution],
        ["plan, noise and gate", f"{built:.1f} s"],
        ["release of 32,561 rows", f"{took:.1f} s"],
        ["measured over foreseen variance", f"{np.mean(errors**2 / foreseen.std**2):.4f}"],
        ["cells inside of their 95 % interval", f"{inside.mean():.4f}"],
        ["... of those that nobody is in", f"{inside[:, truth == 0].mean():.4f}"],
        ["books with all cells inside at once", f"{whole.sum()} of {len(whole)}"],
    ]


# --- coverage -------------------------------------------------------------------------------------


REGIONS = [f"r{i}" for i in range(8)]


def coverage_rows(books: int) -> list[Row]:
    budgets: dict[str, dict[str, Any]] = {
        "best, epsilon = 1": {"epsilon": 1},
        "cube, epsilon = 1": {"epsilon": 1, "noise": "cube"},
        "l2, epsilon = 1": {"epsilon": 1, "noise": "l2"},
        "gaussian, (1, 1e-6)": {"epsilon": 1, "delta": 1e-6, "noise": "gaussian"},
        "gaussian, rho = 0.1": {"rho": 0.1, "noise": "gaussian"},
        "gaussian, rho = 0.1, rounded": {"rho": 0.1, "noise": "gaussian", "whole": True},
    }
    cases = itertools.product(("replace-one", "add-remove"), budgets.items())
    return [
        partial(coverage_row, place, relation, name, options, books)
        for place, (relation, (name, options)) in enumerate(cases)
    ]


def coverage_row(
    place: int, relation: str, name: str, options: dict[str, Any], books: int
) -> list[object]:
    facts = {
        "region": tdp.Category(REGIONS, other="r0"),
        "sex": tdp.Category(["f", "m"], other="f"),
        "pay": tdp.Interval(0, 200),
    }
    tables = [["region"], ["region", "sex"], ["region", ("pay", [0, 20, 50, 100, 200])]]
    book = tdp.Tables(tdp.Schema(facts, rows=2000, neighbors=relation), tables, **options)
    covered = Covered()
    for i in range(books):
        people, truth = skewed_rows(np.random.default_rng([i, place]))
        release = book.release(people, rng=i)
        covered.add(release, truth, 1e-12 * release.alone.clip(0))
    return [f"{name}, {relation}", book.book.strategy, *covered.shown()]


def skewed_rows(rng: np.random.Generator) -> tuple[dict[str, Any], Any]:
    """Regions of very different size, two of which are empty, and the cells of their tables."""
    shares = np.append(rng.dirichlet(np.full(6, 0.3)), [0.0, 0.0])
    region, sex = rng.choice(8, 2000, p=shares), rng.integers(0, 2, 2000)
    pay = np.minimum(rng.gamma(1.2, 20, 2000), 200)
    band = np.searchsorted([20, 50, 100], pay, side="right")
    truth = [
        np.bincount(region, minlength=8),
        np.bincount(region * 2 + sex, minlength=16),
        np.bincount(region * 4 + band, minlength=32),
    ]
    people = {"region": np.array(REGIONS)[region], "sex": np.array(["f", "m"])[sex], "pay": pay}
    return people, np.concatenate(truth)


class Covered:
    """How often cells are inside of their intervals: each, those that nobody is in, and all."""

    def __init__(self) -> None:
        self.found: list[tuple[float, float, bool]] = []

    def add(self, release: Any, truth: Any, slack: Any) -> None:
        """One book; ``slack`` is for sums in floats."""
        low, high = (release.alone + slack * [-1, 1]).T
        inside = (low <= truth) & (truth <= high)
        first, last = (release.interval + slack * [-1, 1]).T
        whole = bool(((first <= truth) & (truth <= last)).all())
        self.found.append((inside.mean(), inside[truth == 0].mean(), whole))

    def shown(self) -> list[str]:
        return [f"{share:.4f}" for share in np.mean(self.found, axis=0)]


def margin_rows(books: int) -> list[Row]:
    """Cells of books whose public margins are kept: 400 rows, a column permuted for every table."""
    rng = np.random.default_rng(7)
    codes = {
        "class": rng.choice(6, 400, p=[0.6, 0.3, 0.07, 0.02, 0.01, 0.0]),
        "sex": rng.integers(0, 2, 400),
        "age": rng.choice(5, 400, p=[0.5, 0.3, 0.15, 0.05, 0.0]),
    }
    margins = {"class": np.bincount(codes["class"], minlength=6).tolist()}
    ages = np.bincount(codes["sex"] * 5 + codes["age"], minlength=10).reshape(2, 5).tolist()
    both = {**margins, ("sex", "age"): ages}
    lossy = {"epsilon": 1, "delta": 1e-6, "noise": "gaussian", "public": both}
    cases: dict[str, dict[str, Any]] = {
        "one, epsilon = 1": {"epsilon": 1, "public": margins},
        "two, epsilon = 1": {"epsilon": 1, "public": both},
        "two, (1, 1e-6), gaussian": lossy,
        "two, rho = 0.1": {"rho": 0.1, "noise": "gaussian", "public": both},
    }
    return [partial(margin_row, name, options, codes, books) for name, options in cases.items()]


def margin_row(
    name: str, options: dict[str, Any], codes: dict[str, Any], books: int
) -> list[object]:
    sides = {"class": 6, "sex": 2, "age": 5}
    facts = {
        name: tdp.Category([f"{name}{i}" for i in range(n)], other=f"{name}0")
        for name, n in sides.items()
    }
    asked = [["class", "sex"], ["class", "age"]]
    book = tdp.Tables(tdp.Schema(facts, rows=400), asked, **options)
    covered = Covered()
    for i in range(books):
        moved = codes | {"class": np.random.default_rng([i, 9]).permutation(codes["class"])}
        people = {k: [f"{k}{c}" for c in column] for k, column in moved.items()}
        truth = [
            np.bincount(
                moved[first] * sides[second] + moved[second],
                minlength=sides[first] * sides[second],
            )
            for first, second in asked
        ]
        # margins are met to 1e-12
        covered.add(book.release(people, rng=i), np.concatenate(truth), np.array(1e-9))
    return [name, book.book.strategy, *covered.shown()]


def kept(folder: Path | None, name: str, row: Row) -> list[list[object]]:
    """The lines of a row, which are taken from a folder if they are there, and put there."""
    file = None if folder is None else folder / f"{name}.json"
    if file is not None and file.exists():
        return list(json.loads(file.read_text()))
    found = row()
    lines = found if isinstance(found[0], list) else [found]
    if file is not None:
        file.write_text(json.dumps(lines))
    return lines


PARTS = ("flags", "plans", "l2", "adult", "coverage", "margins")


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").partition("\n")[0])
    parser.add_argument("--adult", type=Path, help="UCI's adult.data")
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    parser.add_argument("--parts", nargs="*", default=list(PARTS), choices=PARTS)
    parser.add_argument("--keep", type=Path)
    given = parser.parse_args()
    covered = ["noise", "each cell", "cells that nobody is in", "all at once"]
    sections: dict[str, tuple[str, list[str], Callable[[], list[Row]]]] = {
        "flags": (
            "All 1- and 2-way tables of d flags, delta = 0, epsilon = 1",
            [
                "d",
                "noise",
                "total variance",
                "measured (standard error)",
                "of Laplace on cells",
                "best Gaussian at 1e-6, over it",
                "integers",
                "certified",
                "built in",
                "cells",
            ],
            lambda: flag_rows(40 if given.quick else 400),
        ),
        "plans": (
            "Plans of Gaussian noise for the exact cost of a replaced row",
            ["tables", "how many", "over the planner's", "over one Gaussian", "gap", "time"],
            plan_rows,
        ),
        "l2": (
            "Noise in the shape of an l2 ball at delta = 0, tables to 2-way unless said",
            [
                "columns",
                "best other, replace-one",
                "l2 over it",
                "best other, add-remove",
                "l2 over it",
            ],
            l2_rows,
        ),
        "adult": (
            "Adult, all tables of up to two columns, rho = 0.1",
            ["", ""],
            lambda: [partial(adult_rows, given.adult, 0.1)],
        ),
        "coverage": (
            "Coverage of 95 % intervals: 1,000 tables each, skewed and empty groups",
            ["book", *covered],
            lambda: coverage_rows(100 if given.quick else 1000),
        ),
        "margins": (
            "Coverage under public margins: 1,000 tables each that have them",
            ["public margins, budget", *covered],
            lambda: margin_rows(100 if given.quick else 1000),
        ),
    }
    parts = [
        "# Many tables for one payment",
        "",
        "Written by `benchmarks/tables.py`; its head says how.",
        f"Machine: {platform.machine()}, Python {platform.python_version()}, numpy "
        f"{np.__version__}.",
    ]
    for name in given.parts:
        if name != "adult" or given.adult:
            title, head, rows = sections[name]
            made = [kept(given.keep, f"{name}_{k}", row) for k, row in enumerate(rows())]
            parts += ["", f"## {title}", "", table(head, list(itertools.chain(*made)))]
            print("\n".join(parts[-3:]), flush=True)
    if given.out:
        given.out.write_text("\n".join([*parts, ""]))


if __name__ == "__main__":
    main()
