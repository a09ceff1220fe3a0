"""Designed noise in the plane and for intervals of a range: bounds, rivals and times, in one run.

    python benchmarks/planar_designs.py --out benchmarks/results/planar_designs.md

Planar designs are for changes in the l2 ball of radius 1 and the loss abs(x1) + abs(x2), unless
said; both bounds are proved in integers, and the proof is checked again from the JSON text. Times
are seconds of processor time on one core. ``--quick`` leaves out the finest grids.
"""

from __future__ import annotations

import argparse
import platform
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # `reproduce` is not installed

import tightdp as tdp
from reproduce.planar_rivals import planar_rivals

Result = TypeVar("Result")
PUBLISHED = {2.0: "[0.847, 0.878]", 5.0: "[0.258, 0.289]"}  # read off figure 6 of [5], at 1/32


def timed(make: Callable[[], Result]) -> tuple[Result, float]:
    start = time.process_time()
    made = make()
    return made, time.process_time() - start


def planar_table(quick: bool) -> list[str]:
    lines = [
        "| epsilon, delta | ball, loss | k | lower | upper | gap | atom | design, s | check, s |",
        "|---|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    asks = [(e, ball, loss, k) for e in (2.0, 5.0) for ball, loss, k in settings(quick, e)]
    for epsilon, ball, loss, k in asks:
        made, took = timed(
            lambda e=epsilon, b=ball, c=loss, r=k: tdp.design_planar_noise(
                epsilon=e, delta=0.2, ball=b, loss=c, resolution=r
            )
        )
        text = made.to_json()
        _, checked = timed(lambda t=text: tdp.PlanarDesign.from_json(t))
        lines.append(
            f"| {epsilon:g}, 0.2 | {ball}, {loss} | {k} / {made.bound.resolution} "
            f"| {float(made.lower):.4f} | {float(made.upper):.4f} | {made.gap:.1%} "
            f"| {made.atom_share:.3f} | {took:.1f} | {checked:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def settings(quick: bool, epsilon: float) -> list[tuple[str, str, int]]:
    fine = [] if quick else [("l2", "l1", 8)]
    finest = [] if quick else [("l2", "l1", 10 if epsilon <= 2 else 20)]
    coarse = [("l2", "l1", 4), ("l2", "l1", 5)]
    return [*coarse, *fine, *finest, ("l1", "l1", 5), ("linf", "l1", 5), ("l2", "l2", 5)]


def rival_table() -> list[str]:
    lines = [
        "| epsilon, delta | analytic Gaussian | composed truncated Laplace | coupled optima "
        "| published bounds (read off) |",
        "|---|---:|---:|---:|---|",
    ]
    for epsilon in (2.0, 5.0):
        rivals = planar_rivals(epsilon=epsilon, delta=0.2, resolution=8)
        lines.append(
            f"| {epsilon:g}, 0.2 | {rivals.gaussian:.4f} | {rivals.composed:.4f} "
            f"| {rivals.coupled:.4f} | {PUBLISHED[epsilon]} |"
        )
        print(lines[-1], flush=True)
    return lines


def range_table(quick: bool) -> list[str]:
    lines = [
        "| cell width | lower | upper | upper, monotone | design, s | check, s |",
        "|---:|---:|---:|---:|---:|---:|",
    ]
    for k in (2, 4) if quick else (2, 4, 8):

        def make(monotone: bool = False, k: int = k) -> tdp.DataDependentDesign:
            return tdp.design_data_dependent_noise(
                epsilon=1.0,
                delta=0.2,
                sensitivity=2.0,
                query_range=(0.0, 4.0),
                resolution=k,
                monotone=monotone,
            )

        made, took = timed(make)
        text = made.to_json()
        _, checked = timed(lambda t=text: tdp.DataDependentDesign.from_json(t))
        lines.append(
            f"| {float(made.cell_width):.4g} | {float(made.lower):.4f} | {float(made.upper):.4f} "
            f"| {float(make(True).upper):.4f} | {took:.2f} | {checked:.2f} |"
        )
        print(lines[-1], flush=True)
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--quick", action="store_true")
    asked = parser.parse_args()
    versions = f"numpy {np.__version__}, Python {platform.python_version()}"
    text = [
        "# Designed noise in the plane and for intervals of a range",
        "",
        f"{versions}, one thread, seconds of processor time. Both bounds are proved in integers. "
        "k: cells per sensitivity of the noise / of the lower bound.",
        "",
        "## Plane",
        "",
        *planar_table(asked.quick),
        "",
        "Losses abs(x1) + abs(x2) of other noise for l2 sensitivity 1:",
        "",
        *rival_table(),
        "",
        "## Intervals of a range",
        "",
        "epsilon = 1, delta = 0.2, sensitivity 2, range of length 4, loss l1, uniform weights.",
        "",
        *range_table(asked.quick),
        "",
    ]
    if asked.out:
        asked.out.write_text("\n".join(text))


if __name__ == "__main__":
    main()
