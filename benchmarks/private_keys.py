"""Keys that nobody listed: how many appear, beside Laplace and Gaussian thresholds, in one run.

    python benchmarks/private_keys.py --out benchmarks/results/private_keys.md

Zipf's law: rank r of a vocabulary has a share in proportion to r^-s. Rivals add noise to the count
of every key that is there and show those above a threshold, the least for which one person's key
appears with probability delta at most. Their chances are computed, not simulated, with the best
constants known: Laplace noise 1/epsilon with the threshold 1 + ln(1/(2 delta))/epsilon (Korolova
and others, 2009; Wilson and others, 2020); Gaussian noise calibrated exactly for half of delta,
with the other half for the threshold. The optimum is the recursion of Desfontaines and others
(2022), evaluated here by itself. Neighbours: a person is added or removed, who has m keys.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from fractions import Fraction
from pathlib import Path

import numpy as np
from scipy.optimize import brentq
from scipy.stats import norm

import tightdp as tdp
from tightdp.accounting.conversions import zcdp_rho
from tightdp.mechanisms.private_keys import PrivateKeys
from tightdp.randomness import source


def laplace(epsilon: float, delta: float, keys: int, counts: np.ndarray) -> np.ndarray:
    """Chances under Laplace noise for all counts; basic composition of the m keys."""
    each, lost = epsilon / keys, 1 - (1 - delta) ** (1 / keys)
    far = (1 + math.log(1 / (2 * lost)) / each - counts) * each
    return np.where(far > 0, np.exp(-np.abs(far)) / 2, 1 - np.exp(-np.abs(far)) / 2)


def gaussian(epsilon: float, delta: float, keys: int, counts: np.ndarray) -> np.ndarray:
    """Chances under Gaussian noise, for which m keys move a vector by the root of m."""
    half, move = delta / 2, math.sqrt(keys)

    def over(sigma: float) -> float:
        a, b = move / (2 * sigma), epsilon * sigma / move
        return norm.cdf(a - b) - math.exp(epsilon) * norm.cdf(-a - b) - half

    sigma = brentq(over, 0.01 * move, 1000 * move / epsilon)
    threshold = 1 + sigma * norm.isf(1 - (1 - half) ** (1 / keys))
    return norm.sf((threshold - counts) / sigma)


def optimum(epsilon: float, delta: float, counts: np.ndarray) -> np.ndarray:
    """The recursion of the theorem, for one key a person."""
    table = [0.0]
    factor = math.exp(epsilon)
    while table[-1] < 1:
        here = table[-1]
        table.append(min(factor * here + delta, 1 - (1 - here - delta) / factor, 1.0))
    return np.array(table)[np.minimum(counts, len(table) - 1)]


def ours(epsilon: float, delta: float, keys: int, rows: int) -> PrivateKeys:
    facts = {"neighbors": "add-remove"}
    if keys > 1:
        facts |= {"person": "who", "rows_per_person": keys}
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows, **facts)
    return PrivateKeys(schema, "key", epsilon=Fraction(str(epsilon)), delta=Fraction(str(delta)))


def zipf(rows: int, exponent: float, seed: int = 1, vocabulary: int = 1_000_000) -> np.ndarray:
    """Counts of the keys that occur in so many rows."""
    shares = np.arange(1, vocabulary + 1, dtype=float) ** -exponent
    counts = np.random.default_rng(seed).multinomial(rows, shares / shares.sum())
    return counts[counts > 0]


def expected(mechanism: PrivateKeys, counts: np.ndarray) -> float:
    distinct, many = np.unique(counts, return_counts=True)
    return float(sum(mechanism.chance(int(c)) * k for c, k in zip(distinct, many, strict=True)))


def table_of_keys() -> list[str]:
    lines = [
        "| rows | exponent | epsilon | delta | keys a person | keys there | tightdp | optimum | "
        "Laplace | Gaussian | tightdp / Laplace |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    cases = [
        (1_000_000, 1.0, 1.0, 1e-6, 1),
        (1_000_000, 1.2, 1.0, 1e-6, 1),
        (100_000, 1.0, 1.0, 1e-6, 1),
        (1_000_000, 1.0, 0.1, 1e-6, 1),
        (1_000_000, 1.0, 3.0, 1e-9, 1),
        (1_000_000, 1.0, 1.0, 1e-6, 4),
        (1_000_000, 1.0, 1.0, 1e-6, 32),
    ]
    for rows, exponent, epsilon, delta, keys in cases:
        counts = zipf(rows, exponent)
        found = expected(ours(epsilon, delta, keys, rows), counts)
        best = f"{optimum(epsilon, delta, counts).sum():.1f}" if keys == 1 else "-"
        rivals = [f(epsilon, delta, keys, counts).sum() for f in (laplace, gaussian)]
        lines.append(
            f"| {rows} | {exponent} | {epsilon:g} | {delta:g} | {keys} | {len(counts)} | "
            f"{found:.1f} | {best} | {rivals[0]:.1f} | {rivals[1]:.1f} | {found / rivals[0]:.3f} |"
        )
    return lines


def table_of_noise() -> list[str]:
    lines = [
        "| epsilon | delta | std, tightdp | never off by more than | std, Laplace | "
        "count at which a key appears in half of the cases, tightdp | Laplace |",
        "|---|---|---|---|---|---|---|",
    ]
    for epsilon, delta in ((1.0, 1e-6), (0.1, 1e-6), (3.0, 1e-9)):
        noise = ours(epsilon, delta, 1, 10).noise
        middle = next(c for c in range(noise.steps) if noise.chance(c) >= Fraction(1, 2))
        rival = 1 + math.log(1 / (2 * delta)) / epsilon
        lines.append(
            f"| {epsilon:g} | {delta:g} | {math.sqrt(noise.mean_square()):.3f} | "
            f"{max(noise.threshold, -noise.least)} | {math.sqrt(2) / epsilon:.3f} | {middle} | "
            f"{rival:.1f} |"
        )
    return lines


def drawn(draws: int) -> list[str]:
    """Releases of one table: what appears, and how long it takes."""
    counts = zipf(1_000_000, 1.0)
    keys = np.repeat(np.arange(len(counts)), counts)
    mechanism = ours(1.0, 1e-6, 1, len(keys))
    before = time.process_time()
    release = mechanism.release({"key": keys})
    took = time.process_time() - before
    named = {f"{i:07}": int(c) for i, c in enumerate(counts)}
    many = [len(mechanism.drawn(named, source(None)).names) for _ in range(draws)]
    return [
        f"One release of a million rows took {took:.1f} s of processor time and had "
        f"{len(release.names)} keys; {draws} draws had {np.mean(many):.1f} on average (standard "
        f"error {np.std(many) / math.sqrt(draws):.1f}), {expected(mechanism, counts):.1f} were "
        f"foreseen."
    ]


def table_of_top(draws: int) -> list[str]:
    """How many of the true top k are released, on average; rivals in floats, counts not included.

    Peeling knows the domain: k exponential mechanisms, drawn at once with Gumbel noise, each of an
    epsilon that composes to the whole in the better way of sums and of rho (a round has
    epsilon^2 / 8); a person's keys cost one round each round, however many they are.
    """
    lines = [
        "| keys a person | k | tightdp, `most=k` | Laplace, threshold | peeling, domain known |",
        "|---|---|---|---|---|",
    ]
    counts, rng = np.sort(zipf(1_000_000, 1.0))[::-1], np.random.default_rng(3)
    named = {f"{i:07}": int(c) for i, c in enumerate(counts)}
    rho = float(zcdp_rho(Fraction(1), Fraction(1, 10**6)))
    for keys in (1, 4, 32, 256):
        mechanism = ours(1.0, 1e-6, keys, 1_000_000)
        each, lost = 1 / keys, 1 - (1 - 1e-6) ** (1 / keys)
        edge = 1 + math.log(1 / (2 * lost)) / each
        for k in (10, 100, 1000):
            round_cost = max(1 / k, math.sqrt(8 * rho / k))
            found = np.zeros((draws, 3))
            for row in found:
                release = PrivateKeys.drawn(mechanism, named, source(None))
                largest = np.argsort(-release.value, kind="stable")[:k]
                row[0] = sum(int(release.names[i].removeprefix("key=")) < k for i in largest)
                noisy = counts + rng.laplace(0, keys, len(counts))
                top = np.argsort(-noisy)[:k]
                row[1] = np.sum((top < k) & (noisy[top] > edge))
                noisy = counts + rng.gumbel(0, 1 / round_cost, len(counts))
                row[2] = np.sum(np.argsort(-noisy)[:k] < k)
            cells = " | ".join(f"{mean / k:.3f}" for mean in found.mean(axis=0))
            lines.append(f"| {keys} | {k} | {cells} |")
    return lines


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--draws", type=int, default=40)
    options = parser.parse_args()
    text = "\n".join(
        [
            "# Keys that nobody listed",
            "",
            "Written by `benchmarks/private_keys.py`; its head says how. Expected numbers of keys "
            "that appear, from the exact chances.",
            f"Machine: {platform.machine()}, Python {platform.python_version()}, "
            f"numpy {np.__version__}.",
            "",
            *table_of_keys(),
            "",
            "For several keys a person tightdp takes the better of bounded noise, by the exact "
            "composition theorem, and of exact Gaussian noise.",
            "",
            "## The noise of the counts",
            "",
            *table_of_noise(),
            "",
            "## The top k",
            "",
            "Shares of the true top k that are released, Zipf's law, a million rows, (1, 1e-6). "
            "tightdp and Laplace tell the counts, too; peeling tells the keys alone, and knows "
            "the domain.",
            "",
            *table_of_top(10),
            "",
            "## Draws",
            "",
            *drawn(options.draws),
            "",
        ]
    )
    print(text)
    if options.out:
        options.out.write_text(text)


if __name__ == "__main__":
    main()
