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
from numpy.typing import ArrayLike, NDArray
from scipy.stats import beta

import tightdp as tdp
from tightdp.data.public_bins import public_bins
from tightdp.errors import FloatArray
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
        exact = mechanism.noise.covariance()
        cells = [str(m), f"{reference(m):.4f}", f"{exact[0, 0]:.4f}"]
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
    more = tdp.SyntheticSample(method="kolmogorov", size=math.ceil(n ** (2 / 3)), **options)
    larger = empirical(more.fit(rows[:, None]).sample_[:, 0])
    return {
        "table": float(np.abs(table - truth).max()),
        "KS sample": apart(balanced, truth),
        "KS sample, n^(2/3) points": apart(larger, truth),
        "histogram sample, same size": apart(empirical(drawn.sample_[:, 0]), truth),
        "histogram of the notes, same size": apart(
            empirical(histogram_of_the_notes(rows, k, seed)), truth
        ),
        "histogram sample, n rows": apart(empirical(many), truth),
        "density": apart(smooth, truth),
        "KS sample from table": apart(balanced, table),
        "KS sample, n^(2/3) points, from table": apart(larger, table),
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


def shapes(n: int, cells: int) -> dict[str, NDArray[np.int64]]:
    """Counts of tables: smooth ones, and atoms of several kinds."""
    rng = np.random.default_rng(1)
    spread = np.histogram(rng.beta(2, 5, n), cells, (0, 1))[0]
    rounded = np.histogram(np.round(20 * rng.beta(2, 5, n)) / 20, cells, (0, 1))[0]
    half = spread // 2
    half[cells // 2] += n - half.sum()
    ten = np.arange(cells // 20, cells, cells // 10)[:10]
    five = rng.choice(cells, 5, replace=False)
    noise = rng.multinomial(n // 2, np.full(cells, 1 / cells)) + atoms(n - n // 2, cells, five)
    return {
        "Beta(2, 5)": spread,
        "one atom": atoms(n, cells, [cells // 2]),
        "all in the first cell": atoms(n, cells, [0]),
        "atoms at both ends": atoms(n, cells, [0, cells - 1]),
        "two inner atoms": atoms(n, cells, [cells // 3, 2 * cells // 3]),
        "ten atoms": atoms(n, cells, ten),
        "half Beta, half an atom": half,
        "half noise, half five atoms": noise,
        "Beta rounded to 1/20": rounded,
        "weights 2^-j": rng.multinomial(n, 0.5 ** np.minimum(np.arange(1, cells + 1), 1000)),
    }


def atoms(n: int, cells: int, places: ArrayLike) -> NDArray[np.int64]:
    counts = np.zeros(cells, dtype=np.int64)
    counts[places] = n // len(np.atleast_1d(places))
    counts[np.atleast_1d(places)[0]] += n - counts.sum()
    return counts


def sample_of(n: int, cells: int, epsilon: float, size: int | None) -> tdp.KolmogorovSample:
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=n)
    return tdp.KolmogorovSample(schema, "x", cells, epsilon=epsilon, size=size)


def size_table(quick: bool) -> list[str]:
    """Mean distance from the table at the default size, and at two that are larger."""
    setups = ((1000, 100), (10_000, 400), (1_000_000, 1000))
    sizes = {
        (n, cells): [
            sample_of(n, cells, EPSILON, None).size,
            min(10_000, math.ceil(n / (8 * math.log(cells)))),
            min(10_000, math.ceil(n ** (2 / 3))),
        ]
        for n, cells in setups
    }
    heads = [f"{n:,} / {m} / {k:,}" for (n, m), ks in sizes.items() for k in ks]
    lines = ["| n / m / k | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    bits = source(1)
    tables = {setup: shapes(*setup) for setup in setups}
    for name in tables[setups[0]]:
        cells_ = []
        for setup, ks in sizes.items():
            for k in ks:
                law = sample_of(*setup, EPSILON, k).law_on(tables[setup][name])
                assert law is not None
                draws = 2 if quick else 40 if setup[0] < 10**6 else 6
                found = [law.paths.distance(law.draw(bits)) for _ in range(draws)]
                cells_.append(f"{np.mean(found) / setup[0] / k:.5f}")
        lines.append(f"| {name} | " + " | ".join(cells_) + " |")
    return lines


def times() -> list[str]:
    """One law and one draw each; the counts of a million rows add about a tenth of a second."""
    setups, budgets = ((10_000, 464, 464), (10**6, 1000, 1000), (10**6, 10_000, 1000)), (0.1, 1, 10)
    heads = [f"{n:,} / {k:,} / {e:g}" for n, k, _ in setups for e in budgets]
    lines = ["| n / k / epsilon | " + " | ".join(heads) + " |", "|---" * (len(heads) + 1) + "|"]
    for name in shapes(1000, 100):
        found = []
        for n, k, cells in setups:
            table = shapes(n, cells)[name]
            for epsilon in budgets:
                before = time.process_time()
                law = sample_of(n, cells, epsilon, k).law_on(table)
                assert law is not None
                law.draw(source(1))
                found.append(f"{time.process_time() - before:.2f}")
        lines.append(f"| {name} | " + " | ".join(found) + " |")
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
        "close: the rates n^(-1/3) of the notes are upper bounds. The default size of the "
        "Kolmogorov-Smirnov sample is one that atoms bear (below); n^(2/3) points are closer on a "
        "smooth column such as this. Bins of the density are chosen "
        "for its squared error; with many rows their bias shows in its distribution function.",
        "",
        "## The size of a Kolmogorov-Smirnov sample: mean distance from the table, epsilon 1",
        "",
        *size_table(quick),
        "",
        "Of each three sizes the first is the default, min((epsilon n)^(1/2), epsilon n / (8 ln "
        "m)), the second epsilon n / (8 ln m) and the third (epsilon n)^(2/3), both at most "
        "10,000. The larger ones are better for smooth tables, and for weights that fall so fast "
        "that a few cells hold them; on several atoms they are pulled to the uniform law.",
        "",
        "## Time of one Kolmogorov-Smirnov sample: seconds of processor time, law and draw",
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
