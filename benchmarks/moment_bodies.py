"""Draws per second from the regression-moment bodies, and how much noise each body needs.

Run ``python benchmarks/moment_bodies.py --out benchmarks/results/moment_bodies.md``.
"""

from __future__ import annotations

import argparse
import os
import platform
import time
from collections.abc import Callable
from pathlib import Path

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import InfeasibleSamplingError
from tightdp.geometry.moment_bodies import KINDS, NUCLEAR_LIMIT, MomentBody, MomentLayout
from tightdp.geometry.moment_sampling import SplitSampler
from tightdp.geometry.moment_true_hull import MomentHull
from tightdp.noise.on_lattice import lattice_noise
from tightdp.randomness import RandomSource, SecureSource, SeededSource

Array = NDArray[np.float64]


def cube_rejection(body: MomentBody, size: int, rng: RandomSource) -> Array:
    """The papers' Algorithm 8 with its box mended: draw in the cube until inside."""
    points, block = np.empty((0, body.dim)), max(1_000, 4_000_000 // body.dim)
    while len(points) < size:
        cube = 4.0 * rng.uniform((block, body.dim)) - 2.0
        points = np.vstack([points, cube[body.contains(cube)]])
    return points


def rate(draw: Callable[[], Array], seconds: float = 1.5) -> float:
    """Points per second of the processor, over repeated calls that fill about ``seconds``."""
    draw()
    count, start = 0, time.process_time()
    while time.process_time() - start < seconds:
        count += len(draw())
    return count / (time.process_time() - start)


def exact_draws(body: MomentBody) -> tuple[str, str]:
    """The share of proposals of integers that are kept, and draws per second."""
    try:
        noise = lattice_noise(body, 1.0)
        noise.check_feasible()
    except InfeasibleSamplingError:
        return "-", "refused"
    share, rng, batch = noise.body.share, SecureSource(), 20 if body.kind == "triangle" else 2_000
    return f"{share:.4f}", f"{rate(lambda: noise.sample(batch, rng=rng)):,.0f}"


def split_table() -> list[str]:
    rows = [
        "| p | d | floats: kept | draws/s | exact integers: kept | draws/s "
        "| cube rejection, floats, draws/s | exact / cube rejection |",
        "|---|---|---|---|---|---|---|---|",
    ]
    for p in (2, 5, 8, 12, 20, 30):
        body, rng = MomentBody(p, "cylinder"), SeededSource(p)
        share, error = SplitSampler(MomentLayout(p)).acceptance(20_000, rng)
        split = rate(lambda: body.sample(10_000, rng=rng))  # noqa: B023
        kept, exact = exact_draws(body)
        line = f"| {p} | {body.dim} | {share:.4f} ({error:.4f}) | {split:,.0f} | {kept} | {exact} |"
        if p <= 12:
            cube = rate(lambda: cube_rejection(body, 50, rng))  # noqa: B023
            line += f" {cube:,.0f} | {float(exact.replace(',', '')) / cube:.1f} |"
        else:
            line += " - | - |"
        rows.append(line)
    return rows


def coupling_table() -> list[str]:
    rows = [
        "| p | d | block, sweeps | draws/s | one draw, ms | exact, 20 at once: kept | draws/s |",
        "|---|---|---|---|---|---|---|",
    ]
    for p in (3, 5, 7, 8, 12):
        body, rng = MomentBody(p), SeededSource(p)
        many = rate(lambda: body.sample(1_024, rng=rng), 4.0)  # noqa: B023
        single = 1e3 / rate(lambda: body.sample(1, rng=rng))  # noqa: B023
        rows.append(
            f"| {p} | {body.dim} | {body._sampler.sweeps} | {many:,.0f} | {single:.0f} "  # type: ignore[union-attr]
            f"| {' | '.join(exact_draws(body))} |"
        )
    return rows


def size_table() -> list[str]:
    rows = [
        "| p | E norm^2, cylinder | triples | triangle | nuclear | nuclear kept from triangle |",
        "|---|---|---|---|---|---|",
    ]
    for p in (1, 2, 3, 5, 8, 10):
        length, error = {}, {}
        for kind in KINDS:
            size = 50_000 if kind == "cylinder" else 20_000 if p < 8 else 3_000
            if kind == "nuclear":
                size = {8: 1_000, 10: 40}.get(p, size)
            squares = (MomentBody(p, kind).sample(size, rng=p) ** 2).sum(axis=1)
            length[kind], error[kind] = squares.mean(), squares.std() / np.sqrt(size)
        base = length["cylinder"]
        draws = MomentBody(p).sample(20_000, rng=p + 100)
        kept = MomentBody(p, "nuclear").contains(draws).mean()
        parts = [f"{length[k] / base:.3f} ({error[k] / base:.3f})" for k in KINDS[1:]]
        rows.append(f"| {p} | {base:.2f} | {' | '.join(parts)} | {kept:.4f} |")
    return rows


def volume_table() -> list[str]:
    rows = [
        "| p | volume, cylinder | triples / cylinder | triangle / cylinder | nuclear / cylinder |",
        "|---|---|---|---|---|",
    ]
    for p in (1, 2, 3, 5, 8):
        base = MomentBody(p, "cylinder").volume_info
        cells = []
        for kind in KINDS[1:]:
            volume = MomentBody(p, kind).volume_info
            ratio = np.exp(volume.log_value - base.log_value)
            cells.append(f"{ratio:.4g} ({ratio * volume.standard_error:.2g})")
        rows.append(f"| {p} | {np.exp(base.log_value):.5g} | {' | '.join(cells)} |")
    return rows


def hull_table() -> list[str]:
    rows = ["| p | E norm^2, hull / cylinder | volume, hull / cylinder |", "|---|---|---|"]
    for p in (1, 2, 3):
        hull, cylinder = MomentHull(p), MomentBody(p, "cylinder")
        base = (cylinder.sample(100_000, rng=p) ** 2).sum(axis=1).mean()
        squares = (hull.sample(300, rng=p) ** 2).sum(axis=1) / base
        ratio = np.exp(hull.log_volume() - cylinder.log_volume())
        error = ratio * hull.volume_info.standard_error
        rows.append(
            f"| {p} | {squares.mean():.3f} ({squares.std() / np.sqrt(300):.3f}) "
            f"| {ratio:.4f} ({error:.4f}) |"
        )
    return rows


def report() -> str:
    """All tables as Markdown."""
    return "\n".join(
        [
            "# Regression-moment bodies",
            "",
            f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}, "
            f"{os.cpu_count()} cores. Standard errors in parentheses; seeded source.",
            "",
            "## Cylinder body: split sampler and cube rejection, same run",
            "",
            *split_table(),
            "",
            "## Triangle body: read-once coupling from the past",
            "",
            *coupling_table(),
            "",
            "## Noise: E norm(U)^2 relative to the cylinder body",
            "",
            f"The nuclear body is sampled by rejection and offered up to p = {NUCLEAR_LIMIT}.",
            "",
            *size_table(),
            "",
            "## Volumes",
            "",
            *volume_table(),
            "",
            "## The true hull, by linear programs",
            "",
            *hull_table(),
            "",
        ]
    )


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the Markdown to this file")
    arguments = parser.parse_args()
    text = report()
    print(text)
    if arguments.out:
        arguments.out.parent.mkdir(parents=True, exist_ok=True)
        arguments.out.write_text(text)
