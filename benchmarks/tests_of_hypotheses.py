"""Type I errors of the tests of hypotheses, and power beside published private chi-square tests.

    python benchmarks/tests_of_hypotheses.py --tables 100 --out results.md
    python benchmarks/tests_of_hypotheses.py --tables 500 --rows 0 3    # settings of tests on rows
    python benchmarks/tests_of_hypotheses.py --tables 200 --power 1     # a setting beside rivals

All settings are stated below and were fixed before anything ran. Rivals, each in numpy, all with
Laplace noise of scale 2/epsilon on every cell, as printed:

* **MC**: Monte Carlo test of independence (Gaboardi, Lim, Rogers and Vadhan, 2016): the noisy
  table is projected to counts, Pearson's statistic of the noisy counts is compared with simulated
  ones at the fitted margins; nothing is rejected where a fitted count is below 5.
* **projected**: a quadratic form in the residuals, weighed by the inverse covariance of counts and
  noise and projected (Kifer and Rogers, 2017, the general test with Laplace noise), its null law
  simulated at the fitted margins.
* **asymptotic**: Pearson's statistic against a normal law plus Laplace noise (Wang, Lee and Kifer,
  2015), at the fitted margins.
* **minimum chi-square**: the quadratic form of *projected* at the margins that make it least,
  against the chi-square law (Friedberg and Rogers, 2023), with Gaussian noise that has the
  zero-concentrated budget epsilon**2/2 which epsilon implies: a weaker promise than all others.
* **naive**: Pearson's statistic of the noisy table against the chi-square law.

A test that rejects too often has no power to speak of: its type I error stands beside its power.
"""

from __future__ import annotations

import argparse
import platform
import time
from collections.abc import Callable, Iterator, Sequence
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from scipy import stats

import tightdp as tdp
from tightdp.inference import monte_carlo_tests as simulated
from tightdp.inference.table_nulls import tilted
from tightdp.inference.whole_counts import on_simplex
from tightdp.randomness import SeededSource

SEED = 20_261_117
LEVELS = (0.05, 0.01)
SIMULATED = 299  # tables that a rival simulates
OWN = 1_999  # and our tests, at most; releases have up to 9,999


def even(k: int) -> np.ndarray:
    return np.full(k, 1 / k)


def halving(k: int) -> np.ndarray:
    return 0.5 ** np.arange(k) / (0.5 ** np.arange(k)).sum()


def rare(k: int) -> np.ndarray:
    """All but one level have two rows in a hundred."""
    return np.array([1 - 0.02 * (k - 1), *[0.02] * (k - 1)])


# rows, columns, n, epsilon, margins
TABLES: list[tuple[int, int, int, float, Any, Any]] = [
    (2, 2, 30, 0.5, even, even),
    (2, 2, 30, 4, rare, rare),
    (2, 2, 100, 1, rare, even),
    (2, 2, 1000, 0.1, even, halving),
    (2, 3, 50, 1, even, halving),
    (3, 3, 60, 4, halving, halving),
    (3, 3, 100, 1, rare, rare),
    (3, 3, 300, 0.5, even, even),
    (2, 5, 50, 4, even, rare),
    (2, 5, 200, 0.5, halving, halving),
    (4, 4, 50, 1, even, even),
    (4, 4, 100, 4, halving, halving),
    (4, 4, 1000, 1, rare, halving),
    (5, 5, 60, 4, even, even),
    (5, 5, 300, 1, halving, rare),
    (5, 5, 2000, 0.1, halving, halving),
    (3, 8, 100, 4, halving, halving),
    (6, 6, 200, 4, rare, rare),
    (2, 12, 120, 1, even, halving),
    (8, 8, 500, 4, halving, halving),
]
# rows, columns, n, epsilon, margins, Cohen's w
POWERS: list[tuple[int, int, int, float, Any, float]] = [
    (2, 2, 200, 1, even, 0.25),
    (2, 2, 1000, 0.2, even, 0.15),
    (3, 3, 500, 1, even, 0.18),
    (3, 3, 300, 4, halving, 0.2),
    (4, 5, 1000, 0.5, even, 0.17),
]


def side(letter: str, size: int) -> tdp.Category:
    levels = [f"{letter}{i}" for i in range(size)]
    return tdp.Category(levels, other=levels[0])


def table_schema(rows: int, columns: int, n: int) -> tdp.Schema:
    return tdp.Schema({"a": side("a", rows), "b": side("b", columns)}, rows=n)


# --- our tests ------------------------------------------------------------------------------------


def p_value_below(test: Any, integers: list[int], most: float = 0.05) -> float:
    """The p-value as of a release, or 1 as soon as it is clear that it is above ``most``."""
    entries = np.array([z / test.source.resolution for z in integers])
    bits = simulated.release_source(integers)
    points = test.null_points(entries, bits)
    statistic = partial(test.test_statistic, rows=test.schema.rows)
    own = float(statistic(entries))
    bar, found, done = own - 1e-9 * abs(own), np.zeros(len(points)), 0
    for size in (simulated.FIRST, OWN - simulated.FIRST):
        noise = test.noise_draws(bits, size)
        for k, draw in enumerate(points):
            found[k] += np.count_nonzero(statistic(draw(bits, size) + noise) >= bar)
            sure = 2 * most if done == 0 else most
            if (1 + found[k]) / (1 + done + size) > sure:
                return 1.0
        done += size
    spent = simulated.NUISANCE_RISK if len(points) > 1 else 0.0
    return float(1 + found.max()) / (1 + done) + spent


class Pool:
    """Draws of the noise of a test; every p-value has some of them, from its own place on."""

    def __init__(self, test: Any, size: int = 12_000) -> None:
        self.drawn = np.tile(test.noise_draws(SeededSource(SEED), size), (2, 1))

    def __call__(self, bits: SeededSource, size: int) -> np.ndarray:
        start = bits.below(len(self.drawn) // 2)
        return self.drawn[start : start + size]


def p_values(test: Any, exact: Any, seed: int) -> np.ndarray:
    """Of releases of exact statistics, one in a row, on the lattice of the noise."""
    noise = np.asarray(test.source.noise.sample(len(exact), rng=seed))
    test.noise_draws = Pool(test)  # noise that is simulated is drawn once for a setting
    pairs = zip(exact, noise, strict=True)
    drawn = [[int(t) + int(z) for t, z in zip(*pair, strict=True)] for pair in pairs]
    return np.array([p_value_below(test, z) for z in drawn])


def type_one_tables(tables: int) -> Iterator[tuple[str, np.ndarray]]:
    for place, (rows, columns, n, epsilon, r, c) in enumerate(TABLES):
        rng = np.random.default_rng([SEED, place])
        counts = rng.multinomial(n, np.outer(r(rows), c(columns)).ravel(), size=tables)
        test = tdp.IndependenceTest(table_schema(rows, columns, n), ["a", "b"], epsilon=epsilon)
        words = f"{rows} x {columns} | {n:,} | {epsilon:g} | {r.__name__}, {c.__name__}"
        yield words, p_values(test, counts, SEED + place)


LAWS: dict[str, Callable[[np.random.Generator, int], np.ndarray]] = {
    "even": lambda rng, n: rng.uniform(0, 1, n),
    "skewed": lambda rng, n: rng.beta(0.5, 5, n),
    "0 or 1, one in 20": lambda rng, n: (rng.random(n) < 0.05).astype(float),
    "narrow": lambda rng, n: 0.5 + 0.05 * rng.uniform(-1, 1, n),
}
SIDES = ("greater", "two-sided", "two-sided", "less")
GROUPED = {"two": [0.5, 0.5], "four, uneven": [0.6, 0.2, 0.15, 0.05]}


def type_one_rows(
    tables: int, places: Sequence[int] | None = None
) -> Iterator[tuple[str, np.ndarray]]:
    """Tests of means, correlation, ranks and distributions, on rows of several laws."""
    settings = [(law, groups) for law in LAWS for groups in GROUPED]
    for place in places or range(len(settings)):
        law, groups = settings[place]
        n, epsilon = ((60, 4), (200, 1), (1000, 0.3))[place % 3]
        shares = GROUPED[groups]
        facts = {"x": tdp.Interval(0, 1), "y": tdp.Interval(0, 1), "g": side("g", len(shares))}
        schema, one = tdp.Schema(facts, rows=n), SIDES[place % 4]
        pattern = "any" if one == "two-sided" else "trend"
        tests: dict[str, Any] = {
            "means_test": tdp.MeansTest(
                schema, "x", "g", pattern=pattern, alternative=one, epsilon=epsilon
            ),
            "correlation_test": tdp.CorrelationTest(
                schema, ["x", "y"], alternative=one, epsilon=epsilon
            ),
            "rank_test": tdp.RankTest(
                schema, "x", "g", bins=8, pattern=pattern, alternative=one, epsilon=epsilon
            ),
            "kolmogorov_test": tdp.KolmogorovTest(schema, "x", "g", bins=8, epsilon=epsilon),
        }
        for name, test in tests.items():
            rng = np.random.default_rng([SEED, place, len(name)])
            exact = []
            for _ in range(tables):
                names = rng.choice(facts["g"].levels, n, p=shares)
                rows = {"x": LAWS[law](rng, n), "y": LAWS[law](rng, n), "g": names}
                exact.append(test.source.exact(rows))
            words = f"`{name}` | {law} | {groups} | {n:,} | {epsilon:g} | {one}"
            yield words, p_values(test, exact, SEED + place)


# --- rivals ---------------------------------------------------------------------------------------


def margins_of(tables: np.ndarray, n: int) -> tuple[np.ndarray, np.ndarray]:
    """Margins of noisy tables, shape (m, rows, columns), projected to counts."""
    flat = np.array([on_simplex(row, float(n)) for row in tables.reshape(len(tables), -1)])
    fitted = flat.reshape(tables.shape) / n
    return fitted.sum(axis=2), fitted.sum(axis=1)


def pearson(tables: np.ndarray, r: np.ndarray, c: np.ndarray, n: int) -> np.ndarray:
    expected = n * r[:, :, None] * c[:, None, :]
    return np.asarray(((tables - expected) ** 2 / np.maximum(expected, 1e-9)).sum(axis=(1, 2)))


def projected(
    tables: np.ndarray, r: np.ndarray, c: np.ndarray, n: int, s2: float, steps: int = 0
) -> np.ndarray:
    """Residuals weighed by the inverse of n diag(p) + s^2 off the directions of the margins.

    With ``steps`` the margins are moved to the least of the quadratic form first.
    """
    (m, rows), columns = r.shape, c.shape[1]
    start = (r[:, :, None] * c[:, None, :]).reshape(m, -1)
    spread = n * (start[:, :, None] * np.eye(rows * columns) - start[:, :, None] * start[:, None])
    inverse = np.linalg.inv(spread + s2 * np.eye(rows * columns))
    for step in range(steps + 1):
        fitted = (r[:, :, None] * c[:, None, :]).reshape(m, -1)
        away = tables.reshape(m, -1) - n * fitted
        left = np.einsum("ik,mj->mijk", np.eye(rows), c).reshape(m, rows * columns, rows)
        right = np.einsum("mi,jk->mijk", r, np.eye(columns)).reshape(m, rows * columns, columns)
        tangent = n * np.concatenate([left, right], axis=2)
        weighed = inverse @ tangent
        score = np.einsum("mdk,md->mk", weighed, away)
        inner = np.linalg.pinv(np.swapaxes(tangent, 1, 2) @ weighed, hermitian=True)
        move = np.einsum("mkl,ml->mk", inner, score)
        if step < steps:
            r, c = (np.maximum(x, 1e-4) for x in (r + move[:, :rows], c + move[:, rows:]))
            r, c = r / r.sum(axis=1, keepdims=True), c / c.sum(axis=1, keepdims=True)
    away = away - np.einsum("mdk,mk->md", tangent, move)
    return np.asarray(np.einsum("md,mde,me->m", away, inverse, away))


def minimum_chi_square(counts: np.ndarray, shape: Any, n: int, epsilon: float, rng: Any) -> Any:
    """P-values by the chi-square law, Gaussian noise of the rho that epsilon implies."""
    s2 = 2 / epsilon**2  # a replaced row moves counts by a vector of length sqrt(2)
    noisy = (counts + rng.normal(0, s2**0.5, counts.shape)).reshape(-1, *shape)
    found = projected(noisy, *margins_of(noisy, n), n, s2, steps=2)
    return stats.chi2.sf(found, (shape[0] - 1) * (shape[1] - 1))


def rival_p_values(
    table: np.ndarray, n: int, epsilon: float, rng: np.random.Generator
) -> dict[str, float]:
    shape, scale = table.shape, 2 / epsilon
    r, c = margins_of(table[None], n)
    p = np.outer(r[0], c[0]).ravel()
    counts = rng.multinomial(n, p / p.sum(), size=SIMULATED)
    wobble = rng.laplace(0, scale, counts.shape)
    made = (counts + wobble).reshape(-1, *shape)
    shocks = rng.standard_normal(counts.shape)
    shocks = shocks - (shocks @ np.sqrt(p))[:, None] * np.sqrt(p)
    normal = (n * p + np.sqrt(n * p) * shocks + wobble).reshape(-1, *shape)
    r2, c2 = margins_of(made, n)
    r3, c3 = margins_of(normal, n)
    s2 = 2 * scale**2

    def share(own: float, others: np.ndarray) -> float:
        return float(1 + np.count_nonzero(others >= own)) / (1 + len(others))

    own = float(pearson(table[None], r, c, n)[0])
    few = bool((n * p < 5).any())
    return {
        "MC": 1.0 if few else share(own, pearson(made, r2, c2, n)),
        "projected": share(
            float(projected(table[None], r, c, n, s2)[0]), projected(made, r2, c2, n, s2)
        ),
        "asymptotic": share(own, pearson(normal, r3, c3, n)),
        "naive": float(stats.chi2.sf(own, (shape[0] - 1) * (shape[1] - 1))),
    }


def compare(
    tables: int, places: Sequence[int] | None = None
) -> Iterator[tuple[str, dict[str, tuple[float, float]]]]:
    """Of every test the share that is rejected at 0.05: under independence, and with an effect."""
    for place in places or range(len(POWERS)):
        rows, columns, n, epsilon, side_law, w = POWERS[place]
        r, c = side_law(rows), side_law(columns)
        schema = table_schema(rows, columns, n)
        found: dict[str, list[float]] = {}
        for shares in (np.outer(r, c), tilted(r, c, w)):
            rng = np.random.default_rng([SEED, 7, place])
            counts = rng.multinomial(n, shares.ravel(), size=tables)
            gaussian = tdp.RoundedGaussian(sigma2=2 / Fraction(str(epsilon)) ** 2)
            for name, noise, spent in (
                ("ours", "best", epsilon),
                ("ours, Laplace noise", "laplace", epsilon),
                ("ours, Gaussian noise", gaussian, None),
            ):
                test = tdp.IndependenceTest(schema, ["a", "b"], noise=noise, epsilon=spent)
                below = p_values(test, counts, SEED + place) <= 0.05
                found.setdefault(name, []).append(float(below.mean()))
            others = minimum_chi_square(counts, (rows, columns), n, epsilon, rng)
            found.setdefault("minimum chi-square", []).append(float(np.mean(others <= 0.05)))
            noisy = counts + rng.laplace(0, 2 / epsilon, counts.shape)
            each = [rival_p_values(z.reshape(rows, columns), n, epsilon, rng) for z in noisy]
            for name in each[0]:
                share = float(np.mean([one[name] <= 0.05 for one in each]))
                found.setdefault(name, []).append(share)
        words = f"{rows} x {columns} | {n:,} | {epsilon:g} | {side_law.__name__} | {w:g}"
        yield words, {name: (both[0], both[1]) for name, both in found.items()}


# --- the page -------------------------------------------------------------------------------------


ROWS_HEAD = "| test | rows | groups | n | epsilon | side | at 0.05 | at 0.01 |"


def error_lines(head: str, found: Iterator[tuple[str, np.ndarray]], tables: int) -> list[str]:
    lines = [head, "|" + "---|" * (head.count("|") - 1)]
    beyond, worst = 0, dict.fromkeys(LEVELS, 0.0)
    for words, p in found:
        shares = [float(np.mean(p <= alpha)) for alpha in LEVELS]
        for alpha, share in zip(LEVELS, shares, strict=True):
            worst[alpha] = max(worst[alpha], share)
            beyond += share > alpha + 3 * np.sqrt(alpha * (1 - alpha) / tables)
        lines.append(f"| {words} | " + " | ".join(f"{share:.3f}" for share in shares) + " |")
        print(lines[-1], flush=True)
    most = ", ".join(f"{worst[alpha]:.3f} at {alpha:g}" for alpha in LEVELS)
    errors = ", ".join(
        f"{3 * np.sqrt(alpha * (1 - alpha) / tables):.3f} at {alpha:g}" for alpha in LEVELS
    )
    return [
        *lines,
        "",
        f"Largest: {most}. Three standard errors of {tables} tables: {errors}. "
        f"Cells above alpha by more: {beyond}.",
        "",
    ]


def power_lines(found: Iterator[tuple[str, dict[str, tuple[float, float]]]]) -> list[str]:
    lines: list[str] = []
    for words, shares in found:
        if not lines:
            names = " | ".join(shares)
            lines.append(f"| table | n | epsilon | margins | w | {names} |")
            lines.append("|" + "---|" * (5 + len(shares)))
        cells = " | ".join(f"{power:.2f} ({error:.2f})" for error, power in shares.values())
        lines.append(f"| {words} | {cells} |")
        print(lines[-1], flush=True)
    return [*lines, ""]


def seconds() -> float:
    """A p-value that is small, so that all simulations are made: a table of 5 x 5."""
    test = tdp.IndependenceTest(table_schema(5, 5, 500), ["a", "b"], epsilon=1)
    table = {"a": [f"a{i % 5}" for i in range(500)], "b": [f"b{i % 5}" for i in range(500)]}
    release = test.source.release(table, rng=1)
    start = time.perf_counter()
    test.p_value(release)
    return time.perf_counter() - start


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--tables", type=int, default=100)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--power", type=int, nargs="*", help="settings beside published tests")
    parser.add_argument("--rows", type=int, nargs="*", help="settings of tests on rows")
    given = parser.parse_args()
    count = given.tables
    if given.power is not None or given.rows is not None:
        text = power_lines(compare(count, given.power)) if given.power is not None else []
        if given.rows is not None:
            text += error_lines(ROWS_HEAD, type_one_rows(count, given.rows), count)
        if given.out:
            given.out.write_text("\n".join(text))
        return
    lines = [
        "# Tests of hypotheses",
        "",
        f"`benchmarks/tests_of_hypotheses.py --tables {count}`, "
        f"Python {platform.python_version()}, numpy {np.__version__}. "
        "Settings were fixed before the run.",
        "",
        "## Power beside published tests of independence, at level 0.05",
        "",
        "Power, and in brackets the share that is rejected where columns are independent.",
        "",
        *power_lines(compare(count)),
        "## Type I error of `independence_test`",
        "",
        *error_lines(
            "| table | n | epsilon | margins | at 0.05 | at 0.01 |", type_one_tables(count), count
        ),
        "## Type I error of tests on rows",
        "",
        *error_lines(ROWS_HEAD, type_one_rows(count), count),
        f"A p-value of a 5 x 5 table by all simulations took {seconds():.1f} s in this run.",
        "",
    ]
    text = "\n".join(lines)
    if given.out:
        given.out.write_text(text)
    print(text)


if __name__ == "__main__":
    main()
