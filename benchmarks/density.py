"""Private histograms, densities and synthetic samples, measured.

    python benchmarks/density.py [--out FILE] [--plot FILE] [--peer PYTHON] [--quick]

``PYTHON`` is an interpreter that has OpenDP and diffprivlib, whose histograms are then measured in
the same run. Neighbours differ by one row replaced unless said. Nothing is written without
``--out`` and ``--plot``.

The rows of the rates come from Beta(2, 5) on [0, 1]; distances are sup |F - G| on a fine grid, F
the distribution function of Beta(2, 5). "notes" is the histogram of the notes on Wasserman and
Zhou: ceil(n^(1/3)) bins, Laplace noise of scale m/epsilon on counts (E33), negative counts cut.
"""

from __future__ import annotations

import argparse
import json
import math
import platform
import subprocess
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
from scipy.stats import beta

import tightdp as tdp
from tightdp.errors import FloatArray
from tightdp.estimators.bins import public_bins
from tightdp.randomness import source

CELLS = (2, 3, 4, 6)
EPSILON = 1.0
TRUTH = beta(2, 5)
GRID = np.linspace(0, 1, 4001)
PEER = """
import json, sys, warnings
import numpy as np
warnings.simplefilter("ignore")
import opendp.prelude as dp
from diffprivlib.tools import histogram
dp.enable_features("contrib")
draws, epsilon = int(sys.argv[1]), float(sys.argv[2])
out = {}
for m in json.loads(sys.argv[3]):
    rows = (np.arange(600) % m).tolist()
    space = dp.vector_domain(dp.atom_domain(T=int), size=600), dp.symmetric_distance()
    counts = space >> dp.t.then_count_by_categories(list(range(m)), null_category=False)
    build = lambda scale: counts >> dp.m.then_laplace(scale)
    mechanism = dp.binary_search_chain(build, d_in=2, d_out=epsilon)
    truth = 600 / m
    ours = np.array([mechanism(rows) for _ in range(draws)]) - truth
    x = np.array(rows) + 0.5
    row = {"OpenDP": ours}
    for name, spent in (("diffprivlib", epsilon), ("diffprivlib, half", epsilon / 2)):
        call = lambda: histogram(x, epsilon=spent, bins=m, range=(0, m))[0]
        row[name] = np.array([call() for _ in range(draws)]) - truth
    out[m] = {k: [float((v**2).mean()), float((v**2).mean(axis=1).std() / draws**0.5)]
              for k, v in row.items()}
print(json.dumps(out))
"""


def reference(m: int) -> float:
    """Variance of a cell under the continuous law of the hull, at epsilon = 1."""
    return 4 * (m - 1) * (2 * m - 1) / (m * (m + 1))


def lattice_variance(m: int, epsilon: float) -> float:
    """Variance of a cell under the law that is drawn: integers with weight exp(-epsilon level).

    A point of level s with k gaining cells has k positive parts of sum s above and m - k parts of
    sum s below, uniformly: their second moments are known.
    """
    total = weighted = 0.0
    for s in range(1, max(60, round(60 / epsilon))):
        for k in range(1, m):
            many = math.comb(m, k) * math.comb(s - 1, k - 1) * math.comb(s + m - k - 1, m - k - 1)
            # uniform parts p >= 0 of sum t in c cells: E sum p^2 = t (2t + c - 1) / (c + 1)
            t, c, b = s - k, k, m - k
            up = t * (2 * t + c - 1) / (c + 1) + 2 * t + k
            down = s * (2 * s + b - 1) / (b + 1)
            weight = many * math.exp(-epsilon * s)
            total, weighted = total + weight, weighted + weight * (up + down)
    return weighted / (1 + total) / m


def variances(peer: str | None, draws: int) -> list[str]:
    others: dict[str, Any] = {}
    if peer:
        command = [peer, "-c", PEER, str(draws), str(EPSILON), json.dumps(CELLS)]
        done = subprocess.run(command, capture_output=True, text=True, check=True)
        others = json.loads(done.stdout)
    names = list(others[str(CELLS[0])]) if others else []
    titles = {"diffprivlib": "diffprivlib as called", "diffprivlib, half": "diffprivlib, epsilon/2"}
    head = ["cells", "continuous hull", "on integers, exact", "tightdp, measured"]
    head += [*(titles.get(n, n) for n in names), "ratio to OpenDP"]
    lines = [f"| {' | '.join(head)} |", "|---" * len(head) + "|"]
    for m in CELLS:
        schema = tdp.Schema({"x": tdp.Interval(0, m)}, rows=600)
        mechanism = tdp.AdditiveMechanism(tdp.Histogram(schema, "x", m), epsilon=EPSILON)
        noise = np.asarray(mechanism.noise.sample(draws, rng=m), dtype=np.float64)
        assert (noise.sum(axis=1) == 0).all()
        mine, spread = (noise**2).mean(), (noise**2).mean(axis=1).std() / math.sqrt(draws)
        cells = [str(m), f"{reference(m):.4f}", f"{lattice_variance(m, EPSILON):.4f}"]
        cells.append(f"{mine:.3f} ({spread:.3f})")
        cells += [f"{others[str(m)][n][0]:.3f} ({others[str(m)][n][1]:.3f})" for n in names]
        cells.append(f"{mine / others[str(m)]['OpenDP'][0]:.3f}" if others else "-")
        lines.append("| " + " | ".join(cells) + " |")
    return lines


def squared_error(model: tdp.Density) -> float:
    density = np.exp(model.score_samples(GRID[:, None]))
    return float(np.trapezoid((density - TRUTH.pdf(GRID)) ** 2, GRID))


def bins_table(quick: bool) -> list[str]:
    lines = ["| n | epsilon | bins of the rule | error | best bins tried | their error | ratio |"]
    lines.append("|---" * 7 + "|")
    for n in (100, 1000, 10_000, 100_000, 1_000_000):
        for epsilon in (0.1, 1.0):
            rule, errors = public_bins(n, epsilon), {}
            for v in sorted({max(2, round(rule * f)) for f in (0.35, 0.5, 0.7, 1, 1.4, 2)}):
                found = []
                for i in range(3 if quick else 16 if n < 10**6 else 6):
                    rng = np.random.default_rng([n, i])
                    model = tdp.Density(epsilon, (0, 1), v, random_state=i)
                    found.append(squared_error(model.fit(rng.beta(2, 5, (n, 1)))))
                errors[v] = float(np.mean(found))
            best = min(errors, key=lambda v: errors[v])
            cells = [f"{n:,}", f"{epsilon:g}", f"{rule}", f"{errors[rule]:.4g}", f"{best}"]
            cells += [f"{errors[best]:.4g}", f"{errors[rule] / errors[best]:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
    return lines


def apart(cdf: Callable[[FloatArray], FloatArray], other: FloatArray) -> float:
    return float(np.abs(cdf(GRID) - other).max())


def empirical(points: FloatArray) -> Callable[[FloatArray], FloatArray]:
    ordered = np.sort(points)
    return lambda x: np.searchsorted(ordered, x, side="right") / len(ordered)


class Smooth:
    """The distribution function of a density."""

    def __init__(self, density: tdp.Density) -> None:
        self.density = density

    def __call__(self, x: FloatArray) -> FloatArray:
        return self.density.cdf(x[:, None])


def histogram_of_the_notes(rows: FloatArray, size: int, seed: int) -> FloatArray:
    m, bits = math.ceil(len(rows) ** (1 / 3)), source(seed)
    noise = bits.signs(m) * bits.exponential(m) * m / EPSILON
    counts = np.maximum(np.histogram(rows, m, (0, 1))[0] + noise, 0)
    counts = counts if counts.sum() else np.ones(m)
    return (bits.categorical(counts, size) + bits.uniform(size)) / m


def distances(n: int, seed: int) -> dict[str, float]:
    """KS distances of one table's releases from the truth, and from the table itself."""
    rows = np.random.default_rng([n, seed]).beta(2, 5, n)
    truth, table = TRUTH.cdf(GRID), empirical(rows)(GRID)
    options = {"epsilon": EPSILON, "bounds": (0, 1), "random_state": seed}
    near = tdp.SyntheticSample(method="kolmogorov", **options).fit(rows[:, None])
    k = len(near.sample_)
    drawn = tdp.SyntheticSample(size=k, **options).fit(rows[:, None])
    density = drawn.density_
    many = density.sample(n, random_state=seed)[:, 0]
    smooth = Smooth(density)
    balanced = empirical(near.sample_[:, 0])
    return {
        "table": float(np.abs(table - truth).max()),
        "KS sample": apart(balanced, truth),
        "histogram sample, same size": apart(empirical(drawn.sample_[:, 0]), truth),
        "histogram of the notes, same size": apart(
            empirical(histogram_of_the_notes(rows, k, seed)), truth
        ),
        "histogram sample, n rows": apart(empirical(many), truth),
        "density": apart(smooth, truth),
        "KS sample from table": apart(balanced, table),
        "density from table": apart(smooth, table),
    }


def rates(quick: bool) -> tuple[list[str], dict[str, dict[int, float]]]:
    found: dict[str, dict[int, float]] = {}
    sizes = (100, 1000, 10_000, 100_000, 1_000_000)
    for n in sizes:
        repeats = 2 if quick else 32 if n <= 10_000 else 8
        runs = [distances(n, i) for i in range(repeats)]
        for name in runs[0]:
            found.setdefault(name, {})[n] = float(np.mean([run[name] for run in runs]))
    lines = ["| distance of | " + " | ".join(f"n = {n:,}" for n in sizes) + " | rate, n >= 1000 |"]
    lines.append("|---" * (len(sizes) + 2) + "|")
    for name, row in found.items():
        late = [n for n in sizes if n >= 1000]
        slope = np.polyfit(np.log(late), np.log([row[n] for n in late]), 1)[0]
        values = " | ".join(f"{row[n]:.5f}" for n in sizes)
        lines.append(f"| {name} | {values} | n^{slope:.2f} |")
    return lines, found


def times() -> list[str]:
    lines = ["| n | k | cells | seconds of processor time |", "|---|---|---|---|"]
    for n, k, cells in (
        (10_000, 464, 464),
        (1_000_000, 1000, 1000),
        (1_000_000, 10_000, 1000),
    ):
        rows = np.random.default_rng(1).beta(2, 5, n)
        schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=n)
        mechanism = tdp.KolmogorovSample(schema, "x", cells, epsilon=EPSILON, size=k)
        before = time.process_time()
        mechanism.release({"x": rows}, progress=True)
        lines.append(f"| {n:,} | {k:,} | {cells:,} | {time.process_time() - before:.1f} |")
    return lines


def report(peer: str | None, quick: bool) -> tuple[str, dict[str, dict[int, float]]]:
    lines, found = rates(quick)
    parts = [
        "# Histograms, densities and synthetic samples",
        "",
        "Written by `benchmarks/density.py`; its head says how.",
        f"Machine: {platform.machine()}, Python {platform.python_version()}, "
        f"numpy {np.__version__}.",
        "",
        "## Variance of the noise on one cell, epsilon 1, replace-one (standard error)",
        "",
        *variances(peer, 2000 if quick else 10_000),
        "",
        "The continuous hull is 4(m-1)(2m-1)/(m(m+1)); on integers the same weights have a little "
        "less variance. Laplace noise has 8, at any number of cells, and the hull comes near it "
        "as cells are added. diffprivlib's histogram takes a sensitivity of 1, which under "
        "replace-one spends 2 epsilon: the fair column is epsilon/2.",
        "",
        "## The number of bins: integrated squared error of the density, Beta(2, 5)",
        "",
        *bins_table(quick),
        "",
        f"## Distribution functions: mean KS distance, epsilon {EPSILON:g}",
        "",
        *lines,
        "",
        "Of samples of one size, the Kolmogorov-Smirnov sample is the closest: the order of the "
        "notes. The distribution function of the density, and a histogram sample of n rows, are as "
        "close: the rates n^(-1/3) of the notes are upper bounds. Bins of the density are chosen "
        "for its squared error; with many rows their bias shows in its distribution function.",
        "",
        "## Time of one Kolmogorov-Smirnov sample",
        "",
        *times(),
        "",
    ]
    return "\n".join(parts), found


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--plot", type=Path)
    parser.add_argument("--peer")
    parser.add_argument("--quick", action="store_true")
    options = parser.parse_args()
    text, found = report(options.peer, options.quick)
    print(text)
    if options.out:
        options.out.write_text(text)
    if options.plot:
        from tightdp import plots

        shown = {name: row for name, row in found.items() if not name.endswith("from table")}
        plots.plot_rates(shown, label="mean KS distance").figure.savefig(options.plot, dpi=120)


if __name__ == "__main__":
    main()
