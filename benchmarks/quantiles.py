"""Private quantiles beside np.sort, OpenDP and diffprivlib, in one run.

    python benchmarks/quantiles.py --out benchmarks/results/quantiles.md

OpenDP and diffprivlib are skipped when not installed. Times are the best of a few calls, in
processor time; errors are mean distances from the sample quantile over fresh releases of one table.
The clamp range is [-10, 10], epsilon 1, neighbours differ by one row replaced.

OpenDP's private quantile scores given candidates, here 1001 even ones; it is told the number of
rows and asked for epsilon 1 at symmetric distance 2, which is one row replaced.
"""

from __future__ import annotations

import argparse
import platform
import time
import warnings
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tightdp as tdp

LOW, HIGH, EPSILON = -10.0, 10.0, 1.0
Release = Callable[[], float]


def best(call: Callable[[], Any], repeats: int = 5) -> float:
    """The least processor time of a few calls, in seconds."""
    times = []
    for _ in range(repeats):
        before = time.process_time()
        call()
        times.append(time.process_time() - before)
    return min(times)


def ours(rows: Any, tau: float, bits: int | None = None) -> Release:
    schema = tdp.Schema({"x": tdp.Interval(LOW, HIGH)}, rows=len(rows), bits=bits)
    mechanism = tdp.KNormQuantile(schema, "x", tau, epsilon=EPSILON)
    return lambda: float(mechanism.release({"x": rows}).value[0])


def opendp(rows: Any, tau: float) -> Release | None:
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    candidates = np.linspace(LOW, HIGH, 1001).tolist()
    domain = dp.vector_domain(dp.atom_domain(T=float, nan=False), size=len(rows))
    space = domain, dp.symmetric_distance()
    scores = space >> dp.t.then_quantile_score_candidates(candidates, alpha=tau)

    def bounded(scale: float) -> Any:
        return scores >> dp.m.then_noisy_max(dp.max_divergence(), scale, negate=True)

    mechanism = dp.binary_search_chain(bounded, d_in=2, d_out=EPSILON, bounds=(1e-3, 1e25))
    return lambda: candidates[mechanism(rows)]


def diffprivlib(rows: Any, tau: float) -> Release | None:
    try:
        from diffprivlib.tools import quantile
    except Exception:  # it does not import beside every scikit-learn
        return None

    def release() -> float:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            return float(quantile(rows, tau, epsilon=EPSILON, bounds=(LOW, HIGH)))

    return release


def errors(release: Release, truth: float, draws: int) -> tuple[float, float]:
    found = np.abs(np.array([release() for _ in range(draws)]) - truth)
    return float(found.mean()), float(found.std() / np.sqrt(draws))


def table_of_errors(rng: np.random.Generator, draws: int) -> list[str]:
    lines = [
        "| n | tau | tightdp | OpenDP, 1001 candidates | diffprivlib |",
        "|---|---|---|---|---|",
    ]
    for n in (100, 1000, 10_000, 100_000):
        rows = rng.normal(size=n)
        for tau in (0.5, 0.9):
            truth = float(np.quantile(rows, tau))
            cells = []
            for release in (ours(rows, tau, 20), opendp(rows, tau), diffprivlib(rows, tau)):
                if release is None:
                    cells.append("-")
                    continue
                mean, spread = errors(release, truth, draws)
                cells.append(f"{mean:.3g} ({spread:.1g})")
            lines.append(f"| {n} | {tau} | {' | '.join(cells)} |")
    return lines


def table_of_times(rng: np.random.Generator) -> list[str]:
    lines = [
        "| n | np.sort | tightdp, grid 2^-16 | tightdp, grid 2^-24 | OpenDP | diffprivlib |",
        "|---|---|---|---|---|---|",
    ]
    for n in (10_000, 100_000, 1_000_000, 10_000_000):
        rows = rng.normal(size=n)
        others = [opendp(rows, 0.5), diffprivlib(rows, 0.5)] if n <= 1_000_000 else [None, None]
        calls = [lambda rows=rows: np.sort(rows), ours(rows, 0.5), ours(rows, 0.5, 24), *others]
        cells = ["-" if call is None else f"{1e3 * best(call, 3):.1f} ms" for call in calls]
        lines.append(f"| {n} | {' | '.join(cells)} |")
    return lines


def table_of_joint(rng: np.random.Generator, draws: int) -> list[str]:
    lines = [
        "| n | quantiles | one release | mean error, jointly | mean error, budget split |",
        "|---|---|---|---|---|",
    ]
    for n, m in ((1000, 3), (1000, 9), (100_000, 3), (100_000, 9), (1_000_000, 9)):
        rows, taus = rng.normal(size=n), [(i + 1) / (m + 1) for i in range(m)]
        schema = tdp.Schema({"x": tdp.Interval(LOW, HIGH)}, rows=n)
        joint = tdp.KNormQuantiles(schema, "x", taus, epsilon=EPSILON)
        truth = np.quantile(rows, taus)
        split = [tdp.KNormQuantile(schema, "x", tau, epsilon=EPSILON / m) for tau in taus]
        frame, few = {"x": rows}, max(5, draws // 10)
        took = best(lambda joint=joint, frame=frame: joint.release(frame), 3)
        together = [np.abs(joint.release(frame).value - truth).mean() for _ in range(few)]
        apart = [
            np.mean([abs(q.release(frame).value[0] - t) for q, t in zip(split, truth, strict=True)])
            for _ in range(few)
        ]
        cells = [f"{1e3 * took:.0f} ms", f"{np.mean(together):.5f}", f"{np.mean(apart):.5f}"]
        lines.append(f"| {n} | {m} | {' | '.join(cells)} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draws", type=int, default=200)
    options = parser.parse_args()
    rng = np.random.default_rng(1)
    text = "\n".join(
        [
            "# Private quantiles",
            "",
            "Written by `benchmarks/quantiles.py`; its head says how. Normal rows, clamped to "
            f"[{LOW:g}, {HIGH:g}], epsilon {EPSILON:g}.",
            f"Machine: {platform.machine()}, Python {platform.python_version()}, "
            f"numpy {np.__version__}.",
            "",
            "## Time of a median",
            "",
            *table_of_times(rng),
            "",
            f"## Mean error of one quantile, {options.draws} releases (standard error)",
            "",
            *table_of_errors(rng, options.draws),
            "",
            "OpenDP's error cannot fall below the distance of its candidates; diffprivlib has "
            "nearly the same law as tightdp, in floats.",
            "",
            "## Several quantiles for one payment",
            "",
            *table_of_joint(rng, options.draws),
            "",
        ]
    )
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
