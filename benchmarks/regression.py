"""Linear regression: error, coverage and time, beside the papers' estimates and diffprivlib.

Run ``python benchmarks/regression.py --out benchmarks/results/regression.md``. With ``--peer`` the
path of a Python that has diffprivlib 0.6.6 (scikit-learn 1.5.2), its error is measured on the same
tables. The housing part needs ``housing/seattle_sales.csv.gz`` in the folder ``TIGHTDP_DATA``.
"""

from __future__ import annotations

import argparse
import csv
import gzip
import json
import os
import platform
import subprocess
import sys
import time
from datetime import date
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

sys.path.insert(0, str(Path(__file__).parents[1]))  # `reproduce` is not installed

import tightdp as tdp
from reproduce.tables import find_table
from tightdp.estimators.linear import LinearRegression
from tightdp.mechanisms.linear_fit import LinearFit

Array = NDArray[np.float64]

SLOPES = np.linspace(-1.5, 1.5, 5)
ASSUMED = "equal variance"  # true of these tables
BOUNDS = [(-1.0, 1.0)] * 5 + [(-6.0, 6.0)]
ROWS = 10_000
HOUSING = find_table("housing/seattle_sales.csv.gz")
METHODS: dict[str, dict[str, Any]] = {
    "linf, pseudo-inverse [1]": {"noise": "linf", "post": "none"},
    "hull, pseudo-inverse": {"noise": "hull", "post": "none"},
    "split, pseudo-inverse": {"noise": "split", "post": "none"},
    "linf, penalty 16 d / epsilon [1]": {"noise": "linf", "post": "published"},
    "default": {},
}
# objective perturbation: residuals beyond so much of half the target's bounds pull no more
TILTED = {
    "Huber's loss, threshold 1/8": 1 / 8,
    "Huber's loss, threshold 1/2": 1 / 2,
    'method="objective", with intervals': None,
}
PEER = """
import json, sys, warnings
import numpy as np
from diffprivlib.models import LinearRegression
warnings.simplefilter("ignore")
seed, count, epsilon = int(sys.argv[1]), int(sys.argv[2]), float(sys.argv[3])
rng, slopes, out = np.random.default_rng(seed), np.linspace(-1.5, 1.5, 5), []
for i in range(count):
    X = rng.uniform(-1, 1, (10_000, 5))
    y = np.clip(X @ slopes + rng.standard_normal(10_000), -6, 6)
    model = LinearRegression(epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-6, 6), random_state=i)
    out.append(model.fit(X, y).coef_.ravel().tolist())
print(json.dumps(out))
"""


def table(rng: np.random.Generator) -> tuple[Array, Array]:
    """Algorithm 4 of [1] with the target clipped at 6."""
    X = rng.uniform(-1, 1, (ROWS, 5))
    return X, np.clip(X @ SLOPES + rng.standard_normal(ROWS), -6, 6)


def least_squares(X: Array, y: Array) -> Array:
    Z = np.column_stack([np.ones(len(X)), X])
    return np.asarray(np.linalg.solve(Z.T @ Z, Z.T @ y))


def distances(found: Array, mle: Array) -> str:
    to_truth = np.median(np.linalg.norm(found - SLOPES, axis=1))
    to_mle = np.median(np.linalg.norm(found - mle, axis=1))
    return f"{to_truth:.4f} / {to_mle:.4f}"


def simulation(peer: str | None, replicates: int) -> list[str]:
    """Median distances of the slopes to the truth and to least squares."""
    levels = [1 / 16, 1 / 4, 1.0, 4.0]
    rng = np.random.default_rng(1)
    tables = [table(rng) for _ in range(replicates)]
    mle = np.array([least_squares(X, y)[1:] for X, y in tables])
    rows: dict[str, list[str]] = {"zero": [distances(0 * mle, mle)] * len(levels)}
    if peer:
        rows["diffprivlib 0.6.6"] = [distances(ask(peer, replicates, e), mle) for e in levels]
    for name, options in METHODS.items():
        rows[name] = []
        for epsilon in levels:
            fits = [
                LinearRegression(epsilon=epsilon, bounds=BOUNDS, random_state=i, **options)
                .fit(X, y)
                .coef_
                for i, (X, y) in enumerate(tables)
            ]
            rows[name].append(distances(np.array(fits), mle))
    for name, threshold in TILTED.items():
        rows[name] = []
        for epsilon in levels:
            fits = [tilted(epsilon, threshold, 6.0, i, X, y)[1:] for i, (X, y) in enumerate(tables)]
            rows[name].append(distances(np.array(fits), mle))
    rows["least squares"] = [distances(mle, mle)] * len(levels)
    head = ["| method | " + " | ".join(f"epsilon {e:g}" for e in levels) + " |"]
    head.append("|---|" + "---|" * len(levels))
    return head + [f"| {name} | " + " | ".join(cells) + " |" for name, cells in rows.items()]


def tilted(
    epsilon: float, threshold: float | None, half: float, seed: int, X: Array, y: Array
) -> Array:
    """(intercept, slopes) by objective perturbation: with Huber's loss, or of least squares."""
    options: dict[str, Any] = {
        "epsilon": epsilon,
        "bounds": [(-1.0, 1.0)] * X.shape[1] + [(-half, half)],
        "random_state": seed,
    }
    model = (
        LinearRegression(method="objective", **options)
        if threshold is None
        else tdp.HuberRegression(threshold=threshold * half, **options)
    ).fit(X, y)
    return np.append(model.intercept_, model.coef_)


def ask(peer: str, replicates: int, epsilon: float) -> Array:
    command = [peer, "-c", PEER, "1", str(replicates), str(epsilon)]
    done = subprocess.run(command, capture_output=True, text=True, check=True)
    return np.array(json.loads(done.stdout))


def coverage(replicates: int) -> list[str]:
    """How often 95 % intervals hold the truth, for every coefficient.

    On ten times as many tables as the rest of the page, and on a quarter of those below 1/2.
    """
    out = [
        "| epsilon | tables | intercept, slopes | all at once | median width of a slope |",
        "|---|---|---|---|---|",
    ]
    truth = np.append(0.0, SLOPES)
    for epsilon in (1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0, 4.0):
        seed, count = (11, 10 * replicates) if epsilon >= 0.5 else (12, 10 * replicates // 4)
        rng, hits, joint, widths = np.random.default_rng(seed), [], [], []
        for i in range(count):
            X, y = table(rng)
            state = i + 7919 * seed
            model = LinearRegression(epsilon=epsilon, bounds=BOUNDS, random_state=state).fit(X, y)
            low, high = model.conf_int(intercept=True, assume=ASSUMED).T
            hits.append((low <= truth) & (truth <= high))
            widths.append((high - low)[1:])
            low, high = model.conf_int(intercept=True, simultaneous=True, assume=ASSUMED).T
            joint.append(bool(((low <= truth) & (truth <= high)).all()))
        shares = ", ".join(f"{share:.3f}" for share in np.mean(hits, axis=0))
        width = float(np.median(widths))
        cells = [f"{epsilon:g}", f"{count}", shares, f"{np.mean(joint):.3f}", f"{width:.3f}"]
        out.append("| " + " | ".join(cells) + " |")
    few, many = (np.sqrt(0.95 * 0.05 / count) for count in (2.5 * replicates, 10 * replicates))
    size = f"{many:.3f} on {10 * replicates} tables and {few:.3f} on {10 * replicates // 4}"
    return [*out, "", f"The standard error of a share is {size}."]


def housing_table() -> tuple[Array, Array]:
    """Seattle sales cleaned as in section 5.3 of [1]: 12 columns and the log price in [-1, 1].

    The bounds come from quantiles of the data, as in the paper: for a benchmark only.
    """
    with gzip.open(HOUSING, "rt", encoding="utf-8") as lines:
        sales = list(csv.DictReader(lines))
    kept = [
        s for s in sales if 105e3 <= float(s["sale_price"]) <= 905e3 and float(s["tot_sf"]) <= 3000
    ]

    def read(name: str) -> Array:
        return np.array([float(s[name]) for s in kept])

    days = np.array([date.fromisoformat(s["sale_date"]).toordinal() for s in kept], dtype=float)
    columns = [np.log(read("lot_sf")), np.log(read("tot_sf")), read("latitude"), read("longitude")]
    columns += [days, read("age"), read("beds")]
    columns += [(read("district") == k) * 1.0 for k in range(1, 6)]
    scaled = []
    for column in [*columns, np.log(read("sale_price"))]:
        low, high = np.quantile(column, [1e-4, 1 - 1e-4])
        scaled.append(2 * (np.clip(column, low, high) - low) / (high - low) - 1)
    return np.column_stack(scaled[:-1]), scaled[-1]


def housing(releases: int) -> list[str]:
    """Median distance of (intercept, slopes) to least squares."""
    X, y = housing_table()
    mle, levels = least_squares(X, y), [0.5, 1.0, 2.0, 4.0, 16.0]
    out = [
        f"{len(X)} rows, 12 columns, length of the least-squares vector {np.linalg.norm(mle):.2f}, "
        f"{releases} releases.",
        "",
        "| method | " + " | ".join(f"epsilon {e:g}" for e in levels) + " |",
        "|---|" + "---|" * len(levels),
    ]
    for name, options in METHODS.items():
        cells = []
        for epsilon in levels:
            model = LinearRegression(epsilon=epsilon, bounds=(-1, 1), **options)
            found = repeated(model, X, y, releases)
            cells.append(f"{np.median(np.linalg.norm(found - mle, axis=1)):.3f}")
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    for name, threshold in TILTED.items():
        cells = []
        for epsilon in levels:
            fits = [tilted(epsilon, threshold, 1.0, seed, X, y) for seed in range(releases)]
            cells.append(f"{np.median(np.linalg.norm(np.array(fits) - mle, axis=1)):.3f}")
        out.append(f"| {name} | " + " | ".join(cells) + " |")
    return out


def repeated(model: LinearRegression, X: Array, y: Array, releases: int) -> Array:
    """(intercept, slopes) of many releases of one table, whose sums are made once."""
    problem = model._problem(X, y)
    mechanism = model._mechanism(problem)
    paid, moments = mechanism.moments, mechanism.statistic
    exact = np.array(moments.measure(problem.frame, bits=paid.bits)) / paid.resolution
    drawn = (exact + paid.simulate(releases, rng=3)) / len(X)
    return np.array([LinearFit(mechanism, moments.matrices(v)).coefficients for v in drawn])


def speed() -> list[str]:
    """A fit of a million rows beside clip and X.T @ X in numpy."""
    rng = np.random.default_rng(0)
    X, y = rng.uniform(-1, 1, (1_000_000, 12)), rng.uniform(-1, 1, 1_000_000)
    model = LinearRegression(epsilon=1.0, bounds=(-1, 1))

    def plain() -> None:
        Z = np.clip(np.column_stack([np.ones(len(X)), X, y]), -1, 1)
        Z.T @ Z

    model.fit(X[:1000], y[:1000])  # the size of the body is measured once in a process
    noises = model.mechanism_.moments.noises
    best: dict[str, float] = {}
    for name, step in {
        "numpy: clip and X.T @ X": plain,
        "one draw of the noise": lambda: [noise.sample() for noise in noises],
        "fit": lambda: model.fit(X, y),
        "intervals": lambda: refreshed(model),
    }.items():
        times = []
        for _ in range(5):
            start = time.perf_counter()
            step()
            times.append(time.perf_counter() - start)
        best[name] = min(times)
    base = best["numpy: clip and X.T @ X"] + best["one draw of the noise"]
    lines = ["| step, 1e6 rows, 12 features | seconds, best of 5 |", "|---|---|"]
    lines += [f"| {name} | {seconds:.3f} |" for name, seconds in best.items()]
    return [*lines, "", f"A fit takes {best['fit'] / base:.1f} times numpy and a draw."]


def refreshed(model: LinearRegression) -> None:
    model._linear = LinearFit(model.mechanism_, model._linear.products)
    model.conf_int()


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--peer")
    parser.add_argument("--replicates", type=int, default=200)
    options = parser.parse_args()
    parts = {
        "Algorithm 4, median distance of the slopes to the truth / to least squares": simulation(
            options.peer, options.replicates
        ),
        "Coverage of 95 % intervals on such tables, their equal variance assumed": coverage(
            options.replicates
        ),
        "Time": speed(),
    }
    if HOUSING is not None:
        parts["Housing, median distance to least squares"] = housing(options.replicates)
    cores = len(os.sched_getaffinity(0))
    lines = [
        "# Linear regression",
        "",
        f"tightdp {tdp.__version__}, numpy {np.__version__}, Python {platform.python_version()}, "
        f"{cores} cores, shared; {options.replicates} replicates. "
        "Written by `benchmarks/regression.py`.",
        "",
    ]
    for title, body in parts.items():
        lines += [f"## {title}", "", *body, ""]
    text = "\n".join(lines)
    print(text)
    if options.out:
        options.out.write_text(text, encoding="utf-8")


if __name__ == "__main__":
    main()
