"""Noise for vectors of sums at (epsilon, delta) beside the limits of each kind, in one run.

    python benchmarks/vector_noise.py --out benchmarks/results/vector_noise.md

Variances are per entry, of k sums of columns scaled to [-1, 1] under replace-one: a row moves every
sum by 2. The limits are computed from formulas of their own: the pure hull, a cube, has the
variance (k + 1)(k + 2)/3 * 4/epsilon^2; the analytic Gaussian that of the l2 length; the l2
mechanism that of the continuous law. Times are seconds of wall clock.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from pathlib import Path

import numpy as np

import tightdp as tdp
from tightdp.accounting.conversions import gaussian_dp_delta
from tightdp.noise.l2_curve import l2_delta, l2_scale
from tightdp.shaping.coordinate_noise import CoordinateNoise
from tightdp.shaping.l2_noise import L2Noise

DELTA = 1e-6
SIZES = (2, 5, 10, 20, 50, 100)


def sums(count: int) -> tdp.Sums:
    columns = {f"x{i}": tdp.Interval(-1, 1) for i in range(count)}
    return tdp.Sums(tdp.Schema(columns, rows=1000))


def limits(count: int, epsilon: float) -> dict[str, float]:
    sigma = tdp.AnalyticGaussian(epsilon=epsilon, delta=DELTA).sigma
    scale = l2_scale(count, epsilon, DELTA)
    return {
        "pure hull": 4 * (count + 1) * (count + 2) / 3 / epsilon**2,
        "analytic Gaussian": 4 * count * sigma**2,
        "l2 mechanism": 4 * count * (count + 1) * scale**2,
    }


def variance(mechanism: tdp.AdditiveMechanism) -> float:
    return float(np.mean(mechanism.preview().std ** 2))


def best_table(epsilon: float) -> list[str]:
    lines = [
        "| k | pure hull | analytic Gaussian | l2 mechanism | best | of the least limit | drawn "
        "| noise | made, s | a draw, ms |",
        "|---:|---:|---:|---:|---:|---:|---:|---|---:|---:|",
    ]
    for count in SIZES:
        statistic, known = sums(count), limits(count, epsilon)
        start = time.perf_counter()
        best = tdp.AdditiveMechanism(statistic, noise="best", epsilon=epsilon, delta=DELTA)
        made = time.perf_counter() - start
        found = variance(best)
        start = time.perf_counter()
        draws = np.asarray(best.noise.sample(400), dtype=float) / best.resolution
        each = (time.perf_counter() - start) / 400 * 1000
        cells = " | ".join(f"{known[name]:.5g}" for name in known)
        lines.append(
            f"| {count} | {cells} | {found:.5g} | {found / min(known.values()):.4f} "
            f"| {draws.var() / found:.3f} | {type(best._choice).__name__} | {made:.2f} "
            f"| {each:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def shaped_table() -> list[str]:
    """The l2 mechanism and Gaussians on one l2 length; the delta that is proved for each."""
    lines = [
        "| m | rounded Gaussian | discrete Gaussian | l2 mechanism on integers | of the analytic "
        "Gaussian | proved delta | entry by entry, before |",
        "|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for count in SIZES:
        statistic = sums(count)
        made = {
            name: tdp.AdditiveMechanism(statistic, noise=name, epsilon=1, delta=DELTA)
            for name in ("gaussian", "discrete-gaussian", "l2")
        }
        noise = made["l2"]._choice
        assert isinstance(noise, L2Noise)
        price = float(noise.rate) * (1 + math.sqrt(count))
        scale = 1 / (float(noise.rate) * math.sqrt(noise.moves.square))
        proved = math.exp(price) * l2_delta(count, 1 - 2 * price, scale)
        square = made["gaussian"].cost.mu_squared
        assert gaussian_dp_delta(made["gaussian"].epsilon, square) <= made["gaussian"].delta
        analytic = limits(count, 1.0)["analytic Gaussian"]
        found = {name: variance(mechanism) for name, mechanism in made.items()}
        shared = CoordinateNoise(statistic, "truncated-laplace", 1, DELTA)
        share = shared._shares()[-1]
        old = tdp.AnalyticGaussian(epsilon=share[0], delta=share[1], sensitivity=2).sigma ** 2
        lines.append(
            f"| {count} | {found['gaussian'] / analytic:.6f} "
            f"| {found['discrete-gaussian'] / analytic:.6f} | {found['l2']:.5g} "
            f"| {found['l2'] / analytic:.4f} | {proved:.9g} | {old / analytic:.1f} |"
        )
        print(lines[-1], flush=True)
    return lines


def radial_table() -> list[str]:
    """How far the l2 mechanism is from the best radial noise, by a certificate that is verified."""
    lines = [
        "| m | epsilon, delta | lower | l2 mechanism | gap | found, s | verified, s |",
        "|---:|---|---:|---:|---:|---:|---:|",
    ]
    for count, delta in (
        (5, DELTA),
        (10, DELTA),
        (20, DELTA),
        (50, DELTA),
        (100, DELTA),
        (10, 1e-3),
    ):
        start = time.perf_counter()
        found = tdp.bound_radial_noise(count, epsilon=1, delta=delta)
        searched = time.perf_counter() - start
        start = time.perf_counter()
        assert tdp.RadialBound.from_json(found.to_json()).lower == found.lower
        lines.append(
            f"| {count} | 1, {delta:g} | {float(found.lower):.5g} | {float(found.upper):.5g} "
            f"| {found.gap:.2%} | {searched:.0f} | {time.perf_counter() - start:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--out", type=Path)
    asked = parser.parse_args()
    parts = [
        "# Noise for vectors at (epsilon, delta)",
        f"numpy {np.__version__}, Python {platform.python_version()}, delta = {DELTA:g}. Variances "
        "per entry of k sums, a row moves each by 2; 'drawn' is the variance of 400 drawn vectors "
        "over the computed one.",
        '## `noise="best"` beside the limits, epsilon = 1',
        "\n".join(best_table(1.0)),
        '## `noise="best"` beside the limits, epsilon = 4',
        "\n".join(best_table(4.0)),
        "## One l2 length: variances over that of the analytic Gaussian, epsilon = 1",
        "The proved delta of the l2 mechanism is that of the integers that are drawn, lattice "
        "included; 'entry by entry' is what sharing epsilon and delta among the entries costs.",
        "\n".join(shaped_table()),
        "## The l2 mechanism beside the best radial noise: mean squared lengths, moves of length 1",
        "\n".join(radial_table()),
    ]
    text = "\n\n".join(parts) + "\n"
    if asked.out:
        asked.out.write_text(text, encoding="utf-8")
    else:
        print(text)


if __name__ == "__main__":
    main()
