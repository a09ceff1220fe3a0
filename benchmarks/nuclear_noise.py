"""Nuclear noise: what it costs in regressions of 1 to 30 features, and for covariance matrices.

Run ``python benchmarks/nuclear_noise.py --out benchmarks/results/nuclear_noise.md``.
"""

from __future__ import annotations

import argparse
import os
import platform
from fractions import Fraction
from pathlib import Path

import numpy as np
from covariance import rate

import tightdp as tdp
from tightdp.geometry.nuclear_ball import MOST_SIZE
from tightdp.geometry.nuclear_spectrum import spectrum
from tightdp.shaping.moment_noise import choose_noise

RESOLUTION = 1 << 32
DELTA = 1e-6


def regressions(most: int) -> list[str]:
    """The body that a regression takes by default, its error and its speed."""
    rows = [
        "| p | body | error variance / cube's | energy of the nuclear ball / cube's "
        "| draws/s of the processor |",
        "|---|---|---|---|---|",
    ]
    for p in range(1, most + 1):
        names = [f"x{j}" for j in range(p)]
        columns = dict.fromkeys([*names, "y"], tdp.Interval(-1, 1))
        schema = tdp.Schema(columns, rows=20_000)
        chosen = choose_noise(schema, names, "y", "best", Fraction(1), square=True)
        bodies, _, error = chosen.words.rpartition("; ")
        noises = [part.noise(Fraction(1), RESOLUTION) for part in chosen.parts]
        speed = rate(lambda noises=noises: [noise.sample() for noise in noises])
        rows.append(f"| {p} | {bodies} | {error.split()[0]} | {energy(p + 2):.2f} | {speed:,.1f} |")
        print(rows[-1], flush=True)
    return rows


def energy(size: int) -> float:
    """Mean variance of all products z_i z_j, i <= j, without weights; the cube's is [-2, 2] each,
    and [-1, 1] for squares. The constant, which is not released, is left out."""
    ball = tdp.NuclearBall(size, 2.0 * size)
    own = (ball.dim + 1) * (ball.dim + 2) * np.diag(ball.second_moment.value)
    i, j = ball.upper
    side = np.where(i == j, 1.0, 2.0)
    m = ball.dim - 1
    cube = (m + 1) * (m + 2) * side**2 / 3
    return float(own[1:].sum() / cube[1:].sum())


def covariances() -> list[str]:
    """Frobenius energy for rows in the unit ball, one row added or removed, epsilon = 1."""
    rows = [
        f"| p | nuclear | / Laplace | / Gaussian, delta = {DELTA:g} | / l2 mechanism "
        "| draws/s of the processor |",
        "|---|---|---|---|---|---|",
    ]
    sigma = float(tdp.AnalyticGaussian(epsilon=1.0, delta=DELTA).sigma)
    for p in (2, 3, 5, 8, 10, 12, 13, 14, 16, 20, 24, 28, 32):
        m, own = p * (p + 1) // 2, spectrum(p).squares
        # entries on and above the diagonal, of l1 norm (|x|_1^2 + |x|_2^2) / 2 <= (p + 1) / 2
        laplace = 2 * ((p + 1) / 2) ** 2 * p**2
        entries = [(i, j, 1) for i in range(p) for j in range(i, p)]
        noise = tdp.NuclearNoise(tdp.NuclearBall(p), 1, RESOLUTION, entries)
        rows.append(
            f"| {p} | {own:.1f} | {own / laplace:.3f} | {own / (m * sigma**2):.3f} "
            f"| {own / (m * (m + 1)):.3f} | {rate(noise.sample):,.1f} |"
        )
        print(rows[-1], flush=True)
    return rows


def report(most: int) -> str:
    """All tables as Markdown."""
    lines = [
        "# Nuclear noise",
        "",
        f"Python {platform.python_version()}, NumPy {np.__version__}, {platform.machine()}, "
        f"{os.cpu_count()} cores, shared with others. Written by `benchmarks/nuclear_noise.py`.",
        "",
        "## Regressions: the default body, epsilon = 1",
        "",
        "Error variance: what the predicted error of the coefficients is beside that of the cube's "
        "noise (in parentheses on the page of a regression: that of nuclear noise, which is drawn "
        f"for matrices of up to {MOST_SIZE} rows, p + 2 of them). Energy: the sum of the variances "
        "of all products, the nuclear ball without weights beside the cube, in closed form. Draws "
        f"are exact, on a grid of 1/{RESOLUTION}; their speed is by time of the processor. **At "
        f"p = 12 the noise energy is {energy(14):.2f} of the cube's** (at most 0.45 was the aim).",
        "",
        *regressions(most),
        "",
        "## Covariance matrices of rows in the unit ball",
        "",
        "E of the squared Frobenius norm of the noise on the sum of x x', a row added or removed, "
        "epsilon = 1, delta = 0 unless said otherwise; nuclear noise in closed form.",
        "",
        *covariances(),
        "",
    ]
    return "\n".join(lines)


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path, help="also write the Markdown to this file")
    parser.add_argument("--most", type=int, default=30, help="features of the widest regression")
    arguments = parser.parse_args()
    text = report(arguments.most)
    if arguments.out:
        arguments.out.write_text(text)
