"""Statistics by group beside Laplace noise and OpenDP's group-by, times, and coverage, in one run.

    python benchmarks/groups.py --opendp /path/to/python --out benchmarks/results/groups.md

``--opendp`` is an interpreter that has OpenDP 0.16 and the polars that it wants, which need not be
this one; without it that part is skipped. Neighbours: one row is added or removed, epsilon 1; five
columns in [0, 1] and 100 public groups. OpenDP is asked for the same six numbers of every group in
one query, which shares epsilon evenly among them; once for the columns as they are, once for
columns that were centred by hand, which halves its noise.

Coverage: 1,000 tables each of rows with a long tail in eight groups of very different size, two of
which are empty. Intervals are stated for all that is printed at once, which with means are the
counts of all groups, empty ones included, and the means of those that have rows. Widths are those
of the middle groups, of a tenth of the rows each.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import platform
import subprocess
import tempfile
import time
from collections.abc import Callable, Iterator
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np

import tightdp as tdp
from tightdp.mechanisms.group_quantiles import GroupQuantiles
from tightdp.mechanisms.groups import GroupMeans, GroupSums

GROUPS, COLUMNS, ROWS = 100, [f"x{i}" for i in range(5)], 20_000
REGIONS = ["north", "east", "south", "nobody"]

_OPENDP = """
import json, sys, warnings
import numpy as np, polars as pl
import opendp.prelude as dp
warnings.simplefilter("ignore")
dp.enable_features("contrib")
given = np.load(sys.argv[1])
groups, x, draws = given["g"], given["x"], int(sys.argv[2])
out = {}
for name, shift in (("as they are", 0.0), ("centred", 0.5)):
    cells = {f"x{i}": x[:, i] - shift for i in range(x.shape[1])}
    frame = pl.DataFrame({"g": groups.astype(str).tolist(), **cells}).lazy()
    margin = dp.polars.Margin(by=["g"], invariant="keys", max_length=len(x), max_groups=100)
    context = dp.Context.compositor(
        data=frame, privacy_unit=dp.unit_of(contributions=1), margins=[margin],
        privacy_loss=dp.loss_of(epsilon=float(draws)), split_evenly_over=draws,
    )
    ends = (0.0 - shift, 1.0 - shift)
    sums = [pl.col(c).fill_nan(0).fill_null(0).dp.sum(ends) for c in cells]
    errors = []
    for _ in range(draws):
        query = context.query().group_by("g").agg([dp.len(signed=True), *sums])
        found = query.release().collect().with_columns(pl.col("g").cast(pl.Int64)).sort("g")
        count = found["len"].to_numpy().astype(float)
        total = found.select(list(cells)).to_numpy() + shift * count[:, None]
        exact = np.array([[np.sum(groups == k), *x[groups == k].sum(0)] for k in range(100)])
        mean = np.clip(total / np.maximum(count, 1)[:, None], 0, 1)
        errors.append([
            ((count - exact[:, 0]) ** 2).mean(), ((total - exact[:, 1:]) ** 2).mean(),
            ((mean - exact[:, 1:] / exact[:, :1]) ** 2).mean(),
        ])
    out[name] = np.mean(errors, axis=0).tolist()
print(json.dumps(out))
"""


def facts(groups: int = GROUPS, rows: int = ROWS) -> tdp.Schema:
    columns = {name: tdp.Interval(0, 1) for name in COLUMNS}
    levels = tdp.Category(list(range(groups)), other=0)
    return tdp.Schema({**columns, "g": levels}, rows, neighbors="add-remove")


def made(rng: np.random.Generator, groups: int = GROUPS, rows: int = ROWS) -> dict[str, Any]:
    found: dict[str, Any] = {name: rng.beta(2, 3, rows) for name in COLUMNS}
    return found | {"g": rng.integers(0, groups, rows)}


def squares(mechanism: Any, table: Any, exact: Any, draws: int) -> Any:
    """Mean squared errors of the counts and of the columns, over groups and draws."""
    found = []
    for _ in range(draws):
        values = mechanism.release(table).value.reshape(GROUPS, -1)
        found.append([((values[:, 0] - exact[:, 0]) ** 2).mean(),
                      ((values[:, 1:] - exact[:, 1:]) ** 2).mean()])  # fmt: skip
    return np.mean(found, axis=0)


def table_of_errors(opendp: str | None, draws: int) -> list[str]:
    rng = np.random.default_rng(1)
    table = made(rng)
    x = np.column_stack([table[name] for name in COLUMNS])
    inside = [table["g"] == k for k in range(GROUPS)]
    sums = np.array([[i.sum(), *x[i].sum(axis=0)] for i in inside])
    means = np.column_stack([sums[:, 0], sums[:, 1:] / sums[:, :1]])
    lines = ["| noise | count | sums | means |", "|---|---|---|---|"]
    kinds = {"tightdp": "best", "Laplace on every entry, tightdp": "laplace"}
    found = {}
    for name, noise in kinds.items():
        given = {"epsilon": 1, "noise": noise}
        total = squares(GroupSums(facts(), COLUMNS, "g", **given), table, sums, draws)
        mean = squares(GroupMeans(facts(), COLUMNS, "g", **given), table, means, draws)
        found[name] = [*total, mean[1]]
    if opendp is not None:
        with tempfile.TemporaryDirectory() as folder:
            path = Path(folder, "groups.npz")
            np.savez(path, g=table["g"], x=x)
            command = [opendp, "-c", _OPENDP, str(path), str(draws)]
            done = subprocess.run(command, capture_output=True, check=True)
        for name, errors in json.loads(done.stdout.splitlines()[-1]).items():
            found[f"OpenDP, columns {name}"] = errors
    for name, errors in found.items():
        lines.append(f"| {name} | {errors[0]:.2f} | {errors[1]:.2f} | {errors[2]:.2e} |")
    ratios = [
        f"{name}: " + ", ".join(f"{b / a:.2f}" for a, b in zip(found["tightdp"], e, strict=True))
        for name, e in list(found.items())[1:]
    ]
    noises = ("best", "laplace")
    stds = [GroupSums(facts(), COLUMNS, "g", epsilon=1, noise=n).moments for n in noises]
    variances = [float(np.trace(m.scaled_covariance())) for m in stds]
    return [
        *lines,
        "",
        f"Ratios to tightdp (count, sums, means): {'; '.join(ratios)}.",
        f"Variance of all scaled entries by public facts, tightdp / Laplace: "
        f"{variances[0] / variances[1]:.4f}.",
    ]


def table_of_times() -> list[str]:
    lines = [
        "| groups x columns | rows | construction | preview | release |",
        "|---|---|---|---|---|",
    ]
    for groups, rows in ((100, 20_000), (500, 20_000), (500, 1_000_000)):
        table = made(np.random.default_rng(1), groups, rows)
        marks = [time.process_time()]
        mechanism = GroupMeans(facts(groups, rows), COLUMNS, "g", epsilon=1)
        marks.append(time.process_time())
        mechanism.preview()
        marks.append(time.process_time())
        mechanism.release(table)
        marks.append(time.process_time())
        cells = [f"{b - a:.2f} s" for a, b in itertools.pairwise(marks)]
        lines.append(f"| {groups} x 5 | {rows} | {' | '.join(cells)} |")
    return lines


# --- coverage -------------------------------------------------------------------------------------


def skewed(rng: np.random.Generator, rows: int) -> dict[str, Any]:
    region = rng.choice(REGIONS[:3], rows, p=[0.8, 0.19, 0.01])
    pay = np.minimum(rng.gamma(1.5, 15, rows) * (1 + (region == "east")), 200)
    return {"pay": pay, "sex": rng.choice(["f", "m"], rows), "region": region}


def covered(mechanism: Any, exact: Callable[[Any], float], rows: int, tables: int) -> str:
    """How often all that is printed holds, the statistic in all groups, and in each; and widths."""
    rng, whole, held, each, seen, wide = np.random.default_rng(7), 0, 0, 0, 0, []
    for _ in range(tables):
        table = skewed(rng, rows)
        release = mechanism.release(table)
        found, counts = [], []
        for name, (low, high) in zip(release.names, release.interval, strict=True):
            what, _, group = name.partition(" | ")
            sex, region = (part.partition("=")[2] for part in group.split(", "))
            inside = table["pay"][(table["sex"] == sex) & (table["region"] == region)]
            if what == "rows":
                counts.append(bool(low - 1e-9 <= len(inside) <= high + 1e-9))
            elif len(inside):
                found.append(bool(low - 1e-9 <= exact(inside) <= high + 1e-9))
                if region == "east":
                    wide.append(high - low)
        whole, held = whole + (all(found) and all(counts)), held + all(found)
        each, seen = each + sum(found), seen + len(found)
    every = f"{whole / tables:.3f}" if "rows" in mechanism.names[0] else "-"
    return f"{every} | {held / tables:.3f} | {each / seen:.4f} | {np.mean(wide):.3g}"


def table_of_coverage(tables: int) -> Iterator[str]:
    columns = {
        "pay": tdp.Interval(0, 200),
        "sex": tdp.Category(["f", "m"], other="f"),
        "region": tdp.Category(REGIONS, other="north"),
    }
    by = ["sex", "region"]
    yield (
        "| statistic | neighbours | rows | epsilon | counts and statistics of all groups at once "
        "| statistics of all groups | each | mean width, east |"
    )
    yield "|---" * 8 + "|"
    order = [(Fraction(1, 2), "median"), (Fraction(9, 10), "quantile 0.9")]
    for neighbors, rows, epsilon in (
        ("replace-one", 500, 1),
        ("add-remove", 500, 1),
        ("replace-one", 2000, Fraction(1, 10)),
        ("add-remove", 2000, 5),
    ):
        schema = tdp.Schema(columns, rows, neighbors=neighbors)
        said = f"{neighbors} | {rows} | {float(epsilon):g}"
        means = GroupMeans(schema, ["pay"], by, epsilon=epsilon)
        yield f"| mean | {said} | {covered(means, np.mean, rows, tables)} |"
        for tau, name in order:
            mechanism = GroupQuantiles(schema, "pay", [tau], by, epsilon=epsilon, interval="sample")

            def quantile(x: Any, tau: Fraction = tau) -> float:
                return float(np.sort(x)[math.ceil(len(x) * tau) - 1])

            yield f"| {name} | {said} | {covered(mechanism, quantile, rows, tables)} |"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--opendp")
    parser.add_argument("--draws", type=int, default=20)
    parser.add_argument("--tables", type=int, default=1000)
    parser.add_argument("--coverage", action="store_true", help="this part alone")
    options = parser.parse_args()
    if options.coverage:
        for line in table_of_coverage(options.tables):
            print(line, flush=True)
        return
    text = "\n".join(
        [
            "# Statistics by group",
            "",
            "Written by `benchmarks/groups.py`; its head says how.",
            f"Machine: {platform.machine()}, Python {platform.python_version()}, "
            f"numpy {np.__version__}.",
            "",
            "## Five columns and a count in 100 groups, epsilon 1: mean squared errors",
            "",
            *table_of_errors(options.opendp, options.draws),
            "",
            "## Processor time",
            "",
            *table_of_times(),
            "",
            f"## Intervals at 95 %, {options.tables} tables each",
            "",
            *table_of_coverage(options.tables),
            "",
        ]
    )
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
