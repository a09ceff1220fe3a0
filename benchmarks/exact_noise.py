"""Exact K-norm noise beside naive numpy and OpenDP, in one run.

    python benchmarks/exact_noise.py --out benchmarks/results/exact_noise.md

Ours draws integers with the default secure source. Naive numpy is the same shape in floats from
``numpy.random`` (fast, and open to floating-point attacks); beside a histogram it is Laplace noise.
OpenDP is its vector Laplace on floats; it is skipped when not installed (``pip install opendp``).
Speeds are whole vectors per second of processor time, so that other jobs on the machine do not
count.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

import tightdp as tdp

Draw = Callable[[int], Any]


def speed(draw: Draw, seconds: float) -> float:
    """Draws per second: the best of the calls that fit in the time, batch sized to 200 ms."""
    batch = 8
    while True:
        before = time.process_time()
        draw(batch)
        took = time.process_time() - before
        if took > 0.2 or batch >= 1 << 22:
            break
        batch *= 4
    best, start = took, time.process_time()
    while time.process_time() - start < seconds:
        before = time.process_time()
        draw(batch)
        best = min(best, time.process_time() - before)
    return batch / best


def naive_l1(rng: np.random.Generator, m: int) -> Draw:
    return lambda n: rng.laplace(size=(n, m))


def naive_linf(rng: np.random.Generator, m: int) -> Draw:
    return lambda n: rng.gamma(m + 1, size=(n, 1)) * rng.uniform(-1, 1, size=(n, m))


def naive_l2(rng: np.random.Generator, m: int) -> Draw:
    def draw(n: int) -> Any:
        g = rng.normal(size=(n, m))
        return rng.gamma(m, size=(n, 1)) * g / np.linalg.norm(g, axis=1, keepdims=True)

    return draw


def naive_rejection(rng: np.random.Generator, ball: tdp.NormBall) -> Draw:
    """Uniform points of the cube [-2, 2]^m until enough lie in the ball, times a Gamma radius."""

    def draw(n: int) -> Any:
        kept = np.empty((0, ball.dim))
        while len(kept) < n:
            u = rng.uniform(-2, 2, size=(2 * (n - len(kept)), ball.dim))
            kept = np.vstack([kept, u[ball.gauge(u) <= 1]])
        return rng.gamma(ball.dim + 1, size=(n, 1)) * kept[:n]

    return draw


def cases(rng: np.random.Generator) -> list[tuple[str, tdp.NormBall, Draw | None]]:
    sizes = (1, 2, 5, 10, 100, 1000)
    return [
        *((f"l1, m = {m}", tdp.LpBall(m, 1), naive_l1(rng, m)) for m in sizes),
        *((f"linf, m = {m}", tdp.LpBall(m, np.inf), naive_linf(rng, m)) for m in sizes),
        *((f"l2, m = {m}", tdp.LpBall(m, 2), naive_l2(rng, m)) for m in (2, 5, 10, 100, 1000)),
        ("K2", tdp.K2(), naive_rejection(rng, tdp.K2())),
        ("K3", tdp.K3(), naive_rejection(rng, tdp.K3())),
        *(
            (f"histogram, {m} cells", tdp.HistogramBall(m), naive_l1(rng, m))
            for m in (10, 100, 1000)
        ),
        ("sum, d = 20, k = 4", tdp.SumBall(20, 4), None),
        ("count, d = 20, k = 4", tdp.CountBall(20, 4), None),
        ("vote, d = 4", tdp.VoteBall(4), None),
        ("moments p = 5, cylinder", tdp.MomentBody(5, "cylinder"), None),
        ("moments p = 8, cylinder", tdp.MomentBody(8, "cylinder"), None),
        ("moments p = 12, cylinder", tdp.MomentBody(12, "cylinder"), None),
        ("moments p = 3, triangle", tdp.MomentBody(3, "triangle"), None),
        ("moments p = 5, triangle", tdp.MomentBody(5, "triangle"), None),
    ]


def opendp_laplace(seconds: float) -> float | None:
    """OpenDP's float-vector Laplace: coordinates per second."""
    try:
        import opendp.prelude as dp
    except ImportError:
        return None
    dp.enable_features("contrib")
    space = dp.vector_domain(dp.atom_domain(T=float, nan=False)), dp.l1_distance(T=float)
    laplace = dp.m.make_laplace(*space, scale=1.0)
    return speed(lambda n: laplace([0.0] * n), seconds)


def one_release(noise: tdp.LatticeNoise) -> float:
    """Milliseconds for one vector after warm-up (median of 200)."""
    times = []
    for _ in range(220):
        before = time.perf_counter()
        noise.sample()
        times.append(time.perf_counter() - before)
    return 1e3 * float(np.median(times[20:]))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=1.0, help="time per measurement")
    parser.add_argument("--out", type=Path, help="write the table to this Markdown file")
    args = parser.parse_args()
    lines = [
        "# Exact K-norm noise",
        "",
        f"epsilon = 1, secure source, numpy {np.__version__}, Python "
        f"{platform.python_version()}, one thread. Vectors per second of processor time; "
        "one release "
        "in milliseconds of wall time.",
        "",
        "| noise | exact, vectors/s | naive numpy, vectors/s | numpy / exact | one release, ms |",
        "|---|---:|---:|---:|---:|",
    ]
    peer = opendp_laplace(args.seconds)
    ours = 0.0
    for name, ball, naive in cases(np.random.default_rng(1)):
        noise = tdp.lattice_noise(ball, 1.0)
        exact = speed(noise.sample, args.seconds)
        if name == "l1, m = 10":
            ours = 10 * exact
        rival = speed(naive, args.seconds) if naive else None
        right = f"{rival:,.0f} | {rival / exact:.2f}" if rival else "- | -"
        lines.append(f"| {name} | {exact:,.0f} | {right} | {one_release(noise):.3f} |")
        print(lines[-1], flush=True)
    if peer is not None:
        lines += [
            "",
            f"OpenDP float-vector Laplace: {peer:,.0f} coordinates/s; ours (l1, m = 10): "
            f"{ours:,.0f} coordinates/s, {ours / peer:,.0f} times as many.",
        ]
        print(lines[-1])
    if args.out:
        args.out.write_text("\n".join(lines) + "\n")


if __name__ == "__main__":
    main()
