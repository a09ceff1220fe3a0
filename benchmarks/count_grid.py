"""What intervals of Poisson and negative binomial regression cover, on a grid.

    python benchmarks/count_grid.py [--tables 300] [--only 0 3 ...]

Settings were fixed before the runs: even, correlated and skewed columns, rare counts, counts that
vary more than is stated, 2,000 to 20,000 rows, epsilon 1 and 4, ``interval_share=0.25``. For each:
the share of tables for which intervals are printed, what those cover, every coefficient by itself,
and their width beside that of the likelihood's interval on the same tables.
"""

from __future__ import annotations

import argparse
import time
from typing import Any, NamedTuple

import numpy as np
from logistic_grid import cells

import tightdp as tdp
from tightdp.errors import FloatArray
from tightdp.mechanisms.count_regression import CountPerturbation

WIDTH = 2
THETA = (0.5, 0.6, -0.4)
RARE = (-1.6, 0.6, -0.4)  # a fifth on average


class Setting(NamedTuple):
    """One cell: ``excess`` is the variance over the stated one."""

    columns: str
    theta: tuple[float, ...]
    rows: int
    epsilon: float
    largest: int
    dispersion: float = 0.0
    excess: float = 1.0


SETTINGS = [
    Setting("even", THETA, 2_000, 4, 14),
    Setting("even", THETA, 20_000, 1, 14),
    Setting("correlated .8", THETA, 20_000, 4, 14),
    Setting("skewed", THETA, 20_000, 1, 14),
    Setting("even", RARE, 20_000, 1, 5),
    Setting("even", THETA, 20_000, 4, 40, dispersion=0.5),
    Setting("even", THETA, 20_000, 4, 20, excess=1.5),
]


def table(setting: Setting, place: int, key: int) -> tuple[dict[str, Any], FloatArray]:
    """A table, and the widths of 95 % intervals without privacy."""
    rng = np.random.default_rng([78, place, key])
    x = cells(setting.columns, setting.rows, WIDTH, rng)
    wide = np.column_stack([np.ones(setting.rows), x])
    mean = np.exp(wide @ np.array(setting.theta))
    if setting.dispersion:
        y = rng.poisson(mean * rng.gamma(1 / setting.dispersion, setting.dispersion, len(mean)))
    elif setting.excess > 1:  # a mixture with variance excess * mean
        shape = mean / (setting.excess - 1)
        y = rng.poisson(rng.gamma(shape) * (setting.excess - 1))
    else:
        y = rng.poisson(mean)
    weight = mean / (1 + setting.dispersion * mean) / setting.excess
    width = 2 * 1.96 * np.sqrt(np.diag(np.linalg.inv((wide.T * weight) @ wide)))
    frame = {**{f"x{j}": x[:, j] for j in range(WIDTH)}, "y": np.minimum(y, setting.largest)}
    return frame, width


def line(place: int, tables: int) -> str:
    """One setting, measured."""
    before, setting = time.process_time(), SETTINGS[place]
    facts = {f"x{j}": tdp.Interval(-1, 1) for j in range(WIDTH)}
    schema = tdp.Schema({**facts, "y": tdp.Interval(0, setting.largest)}, rows=setting.rows)
    asked = {"dispersion": setting.dispersion, "interval_share": 0.25}
    fit = CountPerturbation(schema, epsilon=setting.epsilon, **asked)
    theta, held, printed, widths = np.array(setting.theta), np.zeros(WIDTH + 1), 0, []
    for key in range(tables):
        frame, exact = table(setting, place, key)
        release = fit.release(frame, rng=1000 * place + key)
        found, _ = fit.known_intervals(release, 0.05)
        if found is not None:
            printed += 1
            held += (found[:, 0] <= theta) & (theta <= found[:, 1])
            widths.append(np.median((found[:, 1] - found[:, 0]) / exact))
    shares = ", ".join(f"{share:.3f}" for share in held / max(printed, 1))
    law = f"negative binomial, {setting.dispersion:g}" if setting.dispersion else "Poisson"
    law += f", variance {setting.excess:g} times" if setting.excess > 1 else ""
    return (
        f"| {law} | {setting.columns} | {np.exp(setting.theta[0]):.2g} | {setting.rows:,} "
        f"| {setting.epsilon:g} | {printed / tables:.2f} | {shares} "
        f"| {np.median(widths) if widths else np.nan:.1f} | {time.process_time() - before:.0f} |"
    )


HEAD = """| counts | columns | middle mean | rows | epsilon | printed | covered, each | width | s |
|---|---|---|---|---|---|---|---|---|"""


def main() -> None:
    """Read the command line."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--only", type=int, nargs="*")
    given = parser.parse_args()
    print(HEAD, flush=True)
    for place in range(len(SETTINGS)) if given.only is None else given.only:
        print(line(place, given.tables), flush=True)


if __name__ == "__main__":
    main()
