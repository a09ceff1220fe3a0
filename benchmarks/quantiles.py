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
        "| n | np.sort | tightdp, default grid | tightdp, grid 2^-24 | OpenDP | diffprivlib |",
        "|---|---|---|---|---|---|",
    ]
    for n in (10_000, 100_000, 1_000_000, 10_000_000):
        rows = rng.normal(size=n)
        others = [opendp(rows, 0.5), diffprivlib(rows, 0.5)] if n <= 1_000_000 else [None, None]
        calls = [lambda rows=rows: np.sort(rows), ours(rows, 0.5), ours(rows, 0.5, 24), *others]
        cells = ["-" if call is None else f"{1e3 * best(call, 3):.1f} ms" for call in calls]
        lines.append(f"| {n} | {' | '.join(cells)} |")
    return lines


def tree(rows: Any, taus: Any, rng: np.random.Generator, branching: int = 16) -> Any:
    """Quantiles from a tree of noisy counts, made consistent (Hay and others, 2010), in floats.

    Four levels of 16 children above 65,536 leaves; a replaced row moves two nodes of each, so every
    node has Laplace noise of scale 8 / epsilon. The cumulated counts are made monotone.
    """
    levels, leaves = 4, branching**4
    place = np.clip((rows - LOW) / (HIGH - LOW) * leaves, 0, leaves - 1).astype(np.int64)
    exact = np.bincount(place, minlength=leaves).astype(float)
    noisy = []
    for level in range(1, levels + 1):
        counts = exact.reshape(branching**level, -1).sum(axis=1)
        noisy.append(counts + rng.laplace(0, 2 * levels / EPSILON, counts.shape))
    below = [noisy[-1]]  # from the leaves up: the best of a count and of the sum of its children
    for level in range(levels - 2, -1, -1):
        k = branching ** (levels - 1 - level + 1)
        own = (k - k // branching) / (k - 1)
        sums = below[0].reshape(-1, branching).sum(axis=1)
        below.insert(0, own * noisy[level] + (1 - own) * sums)
    found = below[0] + (len(rows) - below[0].sum()) / branching  # the total is public
    for level in range(1, levels):
        children = below[level].reshape(-1, branching)
        off = (found - children.sum(axis=1)) / branching
        found = (children + off[:, None]).ravel()
    reached = np.maximum.accumulate(np.cumsum(found))
    cells = np.searchsorted(reached, len(rows) * np.array(taus))
    return LOW + (np.minimum(cells, leaves - 1) + 0.5) * (HIGH - LOW) / leaves


def halving(rows: Any, taus: Any, rng: np.random.Generator) -> Any:
    """Recursive halving (Kaplan and others, 2022): the middle level first, then both sides.

    Each of the log2(m + 1) layers has an equal part of epsilon. A replaced row moves the ranks of
    two subtables of a layer by one each.
    """
    layers = int(np.ceil(np.log2(len(taus) + 1)))
    rate = EPSILON / layers / 4  # two subtables, and twice the sensitivity 1
    found = np.empty(len(taus))

    def solve(part: Any, first: int, last: int, low: float, high: float) -> None:
        if first >= last:
            return
        middle = (first + last) // 2
        before = 0.0 if first == 0 else taus[first - 1]
        behind = 1.0 if last == len(taus) else taus[last]
        target = len(part) * (taus[middle] - before) / (behind - before)
        edges = np.concatenate([[low], part, [high]])
        with np.errstate(divide="ignore"):
            logs = np.log(np.diff(edges)) - rate * np.abs(np.arange(len(part) + 1) - target)
        k = int(np.argmax(logs + rng.gumbel(size=len(logs))))
        point = rng.uniform(edges[k], edges[k + 1])
        found[middle] = point
        solve(part[:k], first, middle, low, point)
        solve(part[k:], middle + 1, last, point, high)

    solve(np.sort(rows), 0, len(taus), LOW, HIGH)
    return found


def rank_errors(
    release: Callable[[], Any], rows: Any, taus: Any, draws: int
) -> tuple[float, float]:
    """The mean distance in ranks from the wanted ones, and its standard error over draws."""
    ordered = np.sort(rows)
    found = []
    for _ in range(draws):
        values = release()
        ends = [np.searchsorted(ordered, values, side=side) for side in ("left", "right")]
        wanted = len(rows) * np.array(taus)
        found.append(np.maximum(np.maximum(ends[0] - wanted, wanted - ends[1]), 0).mean())
    return float(np.mean(found)), float(np.std(found) / np.sqrt(draws))


def table_of_joint(rng: np.random.Generator, draws: int) -> list[str]:
    lines = [
        "| n | quantiles | one release | mean rank error, jointly | tree | recursive halving | "
        "budget split | tree / jointly |",
        "|---|---|---|---|---|---|---|---|",
    ]
    cases = ((1000, 3), (1000, 9), (100_000, 9), (1_000_000, 3), (1_000_000, 9))
    for n, m in (*cases, (10_000, 99), (100_000, 99), (1_000_000, 99)):
        rows, taus = rng.normal(size=n), [(i + 1) / (m + 1) for i in range(m)]
        schema = tdp.Schema({"x": tdp.Interval(LOW, HIGH)}, rows=n, bits=20)
        joint = tdp.KNormQuantiles(schema, "x", taus, epsilon=EPSILON)
        split = [tdp.KNormQuantile(schema, "x", tau, epsilon=EPSILON / m) for tau in taus]
        frame, few = {"x": rows}, max(8, draws // (10 if m < 99 else 20))
        took = best(lambda joint=joint, frame=frame: joint.release(frame), 3)
        rivals = [
            lambda joint=joint, frame=frame: joint.release(frame).value,
            lambda rows=rows, taus=taus: tree(rows, taus, rng),
            lambda rows=rows, taus=taus: halving(rows, taus, rng),
        ]
        found = [rank_errors(rival, rows, taus, few) for rival in rivals]
        if m < 99:
            apart = [q.release for q in split]
            each = lambda apart=apart, frame=frame: [float(r(frame).value[0]) for r in apart]  # noqa: E731
            found.append(rank_errors(each, rows, taus, few))
        cells = [f"{mean:.2f} ({spread:.1g})" for mean, spread in found]
        cells += ["-"] * (4 - len(cells))
        ratio = found[1][0] / found[0][0]
        lines.append(f"| {n} | {m} | {took:.2f} s | {' | '.join(cells)} | {ratio:.1f} |")
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
            "Mean rank errors (standard error); a grid of 2^20 steps a side. The tree has noisy "
            "counts at four levels of 16 children, made consistent; recursive halving gives each "
            "layer an equal part. Both rivals run in floats.",
            "",
        ]
    )
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
