"""Linear regression on a grid of settings: the default beside its own variants and beside peers.

    python benchmarks/regression_grid.py [--out FILE] [--tables 300] [--draws 2] [--only NAME]
        [--fresh | --latest | --drawn | --steep | --single]
        [--part errors | coverage | "one column" | huber | stages | objective | random]

The settings below were written down before anything was run on them, but the default was revised
after it was seen on them (its prior, its guesses of the target's level and of the length of the
coefficients, and so the shares of its noise), so that they are no independent test of it; the fresh
settings, and then the latest ones, were written down after such a revision, and those of the part
``random`` are drawn by fixed seeds, by a rule that was written down after those. Steep slopes of
narrow columns came last, and the solver was revised after they were seen. They have 1 to 15
columns, 500 to 100,000 rows, correlations up to .95, columns off their centre, narrow, skewed or
with two values, targets off their centre, heavy tails, small and single signals, and epsilon from
1/16 to 4. Errors are median distances of the slopes, for columns and a target scaled to [-1, 1], to
least squares without noise and to the population's slopes. Noise is drawn from the continuous law
of each body. Peers get delta = 1e-6, which the default and DPpack's algorithm do without.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

import tightdp as tdp
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.inference.moment_solver import SecondLook
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit
from tightdp.randomness import RandomSource

Array = NDArray[np.float64]

EPSILONS = (1 / 16, 1 / 4, 1.0, 4.0)
DELTA = 1e-6
DRAWS = 2  # of noise for every table, for errors
LOOKS = 20  # the same where rows are looked at again
CANDIDATES = 1_000  # for the medians of OpenDP, ten times its default, which is coarser than noise
POOL = 6_000  # draws of noise that the candidates of all tables are taken from
MANY = 150  # designs drawn at random, each at two epsilons
SHAPES = ("even", "normal", "normal", "lognormal", "flags")
CENTRES = (0.0, 0.0, 0.3, 0.5)
LEVELS = (0.0, 0.0, 0.3, 0.5, 0.7)
WAYS = ("any", "sparse", "along", "single")
VARIANTS: dict[str, dict[str, Any]] = {
    f"{noise}, {post}": {"noise": noise, "post": post}
    for noise in ("split", "hull", "linf")
    for post in ("shrink", "none", "published")
}


@dataclass(frozen=True)
class Design:
    """Columns in [-1, 1] and a line; ``length`` is that of the slopes.

    They sum to 0, unless ``along``, where they are equal, or ``single``, where one is not 0.
    """

    columns: int = 5
    rows: int = 10_000
    correlation: float = 0.0
    shape: str = "even"
    centre: float = 0.0
    width: float = 1.0
    length: float = 0.25
    single: bool = False
    along: bool = False
    level: float = 0.0
    sigma: float = 0.15
    tails: str = "normal"

    @property
    def epsilons(self) -> tuple[float, ...]:
        return EPSILONS

    @property
    def slopes(self) -> Array:
        p = self.columns
        direction = np.linspace(-1, 1, p) if p > 1 else np.ones(1)
        direction = np.eye(p)[0] if self.single else np.ones(p) if self.along else direction
        return np.asarray(self.length * direction / np.linalg.norm(direction))

    def draw(self, rows: int, rng: np.random.Generator) -> Array:
        """Mean products of (1, x, y) of a table."""
        whole = self.cells(rows, rng)
        return np.asarray(whole.T @ whole / rows)

    def cells(self, rows: int, rng: np.random.Generator) -> Array:
        """Rows (1, x, y) of a table."""
        common = rng.standard_normal((rows, 1))
        own = rng.standard_normal((rows, self.columns))
        z = math.sqrt(self.correlation) * common + math.sqrt(1 - self.correlation) * own
        if self.shape == "even":
            x = self.centre + self.width * rng.uniform(-1, 1, (rows, self.columns))
        elif self.shape == "normal":
            x = self.centre + self.width * z / 3
        elif self.shape == "lognormal":
            x = 0.15 * np.exp(0.9 * z) - 1
        else:  # two values, one of them rare
            x = np.where(z < -1.3, 1.0, -1.0)
        x = np.clip(x, -1, 1)
        error = rng.standard_t(3, rows) if self.tails == "t" else rng.standard_normal(rows)
        y = self.level + (x - self.middle(x)) @ self.slopes + self.sigma * error
        return np.column_stack([np.ones(rows), x, np.clip(y, -1, 1)])

    def middle(self, x: Array) -> Array | float:
        """Where the columns are when the target is at its level."""
        return self.centre


@dataclass(frozen=True)
class Drawn(Design):
    """Slopes in any direction, and a target that has its level at the means of the columns.

    So nothing is won or lost because columns off their centre happen to move the target's mean.
    """

    direction: tuple[float, ...] = ()
    asked: tuple[float, ...] = ()  # epsilons

    @property
    def epsilons(self) -> tuple[float, ...]:
        return self.asked

    @property
    def slopes(self) -> Array:
        direction = np.array(self.direction)
        return np.asarray(self.length * direction / np.linalg.norm(direction))

    def middle(self, x: Array) -> Array | float:
        return np.asarray(x.mean(axis=0))


def drawn(seed: int) -> tuple[str, Drawn]:
    """A setting and what to call it, drawn at random."""
    rng = np.random.default_rng([10, seed])
    columns, shape = int(rng.integers(1, 13)), str(rng.choice(SHAPES))
    correlation = float(rng.choice([0, 0.3, 0.6, 0.8, 0.9, 0.95]))
    signs = rng.choice([-1.0, 1.0], 2)
    centre, level = signs * [rng.choice(CENTRES), rng.choice(LEVELS)] + 0.0  # no -0
    way, normal = str(rng.choice(WAYS)), rng.standard_normal(columns)
    kept = rng.random(columns) < 0.4
    kept[rng.integers(columns)] = True
    ways = {"any": normal, "sparse": normal * kept, "along": np.ones(columns)}
    design = Drawn(
        columns=columns,
        rows=int(10 ** rng.uniform(np.log10(500), 5)),
        correlation=0.0 if shape == "even" or columns == 1 else correlation,
        shape=shape,
        centre=float(centre) if shape in ("even", "normal") else 0.0,
        width=float(rng.choice([1, 1, 0.5, 0.25])) if shape in ("even", "normal") else 1.0,
        length=float(10 ** rng.uniform(np.log10(0.02), np.log10(0.63))),
        level=float(level),
        sigma=float(rng.choice([0.05, 0.15, 0.15])),
        tails=str(rng.choice(["normal", "t"])),
        direction=tuple(ways.get(way, np.eye(columns)[0])),
        asked=tuple(sorted(rng.permutation(EPSILONS)[:2].tolist())),
    )
    words = (
        f"{seed}: {columns} {shape}, {design.rows} rows, correlated {design.correlation:g}, "
        f"centre {design.centre:g}, width {design.width:g}, level {level:g}, slopes "
        f"{design.length:.2g} {way}, errors {design.sigma:g} {design.tails}"
    )
    return words, design


DESIGNS = {
    "1 column": Design(columns=1, rows=2_000),
    "2 columns, correlated .9": Design(columns=2, rows=5_000, correlation=0.9, shape="normal"),
    "3 columns, 500 rows": Design(columns=3, rows=500),
    "3 skewed, target off centre": Design(columns=3, rows=20_000, shape="lognormal", level=-0.6),
    "4 columns, correlated .8": Design(columns=4, rows=20_000, correlation=0.8, shape="normal"),
    "4 columns, correlated .95": Design(columns=4, rows=100_000, correlation=0.95, shape="normal"),
    "5 columns": Design(),
    "5 columns, 500 rows": Design(rows=500),
    "5 columns, heavy tails": Design(tails="t"),
    "5 columns, strong": Design(length=0.6, sigma=0.05, shape="normal"),
    "6 columns off centre": Design(columns=6, rows=20_000, centre=0.5, width=0.4),
    "6 narrow columns": Design(columns=6, rows=100_000, width=0.25),
    "7 columns, target off centre": Design(columns=7, level=-0.7, sigma=0.08),
    "8 columns, small signal": Design(columns=8, rows=50_000, length=0.03),
    "8 columns of two values": Design(columns=8, rows=20_000, shape="flags"),
    "10 columns, correlated .5": Design(columns=10, rows=30_000, correlation=0.5, shape="normal"),
    "12 columns, one matters": Design(columns=12, rows=50_000, single=True),
    "15 columns": Design(columns=15, rows=100_000),
}

FRESH = {
    "1 column, strong": Design(columns=1, rows=5_000, length=0.5),
    "1 column off centre": Design(columns=1, rows=20_000, centre=0.4, width=0.5, level=0.3),
    "2 columns, 1000 rows": Design(columns=2, rows=1_000),
    "2 columns, correlated .7, target off centre": Design(
        columns=2, rows=10_000, correlation=0.7, shape="normal", level=0.5, length=0.2
    ),
    "3 columns of two values": Design(columns=3, shape="flags"),
    "4 columns, heavy tails, off centre": Design(
        columns=4, rows=20_000, centre=-0.3, width=0.6, tails="t"
    ),
    "5 columns, correlated .6": Design(rows=50_000, correlation=0.6, shape="normal"),
    "6 columns, strong": Design(columns=6, rows=20_000, length=0.5, sigma=0.1),
    "7 columns, small signal": Design(columns=7, rows=20_000, length=0.05),
    "9 columns": Design(columns=9, rows=20_000),
    "11 skewed columns": Design(columns=11, rows=50_000, correlation=0.3, shape="lognormal"),
    "13 columns, one matters": Design(columns=13, rows=100_000, single=True),
}

# written down after the prior of the solver was revised, before anything was run on them
LATEST = {
    "1 column, small signal": Design(columns=1, rows=5_000, length=0.1),
    "1 column, target off centre": Design(columns=1, length=0.3, level=0.5),
    "2 columns, one matters": Design(columns=2, rows=20_000, length=0.3, single=True),
    "2 columns, correlated .5, along": Design(
        columns=2, rows=5_000, correlation=0.5, shape="normal", length=0.2, along=True
    ),
    "3 columns, small signal": Design(columns=3, length=0.05),
    "3 columns, correlated .9, along": Design(
        columns=3, rows=20_000, correlation=0.9, shape="normal", length=0.3, along=True
    ),
    "4 columns, target off centre": Design(columns=4, level=0.4, length=0.15),
    "5 columns, small signal": Design(rows=50_000, length=0.05),
    "6 columns of two values, one matters": Design(
        columns=6, rows=20_000, shape="flags", length=0.15, single=True
    ),
    "7 columns, along": Design(columns=7, rows=50_000, length=0.4, along=True),
    "9 columns, small signal": Design(columns=9, rows=100_000, length=0.04),
    "12 columns, correlated .3, along": Design(
        columns=12, rows=50_000, correlation=0.3, shape="normal", length=0.2, along=True
    ),
}

# narrow columns with steep slopes, on which nothing but one test of coverage had been run before
STEEP = {
    f"{columns} {shape}, width {width}, slopes of length {length}": Design(
        columns=columns,
        rows=20_000,
        width=width,
        length=length,
        sigma=0.05,
        shape=shape,
        correlation=0.8 if shape == "normal" and columns > 1 else 0.0,
    )
    for columns in (1, 2, 4, 7, 10)
    for width, length in ((0.1, 3.0), (0.25, 1.5), (0.05, 8.0), (1.0, 0.9), (0.5, 1.2))
    for shape in ("even", "normal")
}

# one slope of several: with it a first version of the last revision erred more than the one before
SINGLE = {
    f"one of {columns}, {rows} rows, slope {length}": Design(
        columns=columns, rows=rows, length=length, sigma=0.1, single=True
    )
    for columns in (3, 4, 5, 6, 7, 8, 10, 12)
    for length in (0.9, 0.5, 0.3)
    for rows in (1_000, 3_000, 20_000)
}


def slopes_of(M: Array) -> Array:
    """Least squares from mean products, one matrix or many."""
    return np.asarray(np.linalg.solve(M[..., :-1, :-1], M[..., :-1, -1:])[..., 1:, 0])


def mechanism(design: Design, epsilon: float, **options: Any) -> LeastSquares:
    facts = {f"x{i}": tdp.Interval(-1, 1) for i in range(design.columns)}
    schema = tdp.Schema({**facts, "y": tdp.Interval(-1, 1)}, rows=design.rows)
    return LeastSquares(schema, list(facts), "y", epsilon=epsilon, **options)


def noisy(found: LeastSquares, exact: Array, seed: int) -> Array:
    """Mean products as they would be released, one draw of noise for every matrix."""
    drawn = found.moments.simulate(len(exact), rng=seed) / found.schema.rows
    M = exact + found.statistic.noise_matrices(drawn)
    if not found.statistic.square:
        M[:, -1, -1] = np.nan
    return np.asarray(M)


def peers(exact: Array, design: Design, epsilon: float, seed: int) -> dict[str, Array]:
    """Slopes by AdaSSP, Gaussian sufficient statistics and one noisy gradient step."""
    rng, n, p = np.random.default_rng(seed), design.rows, design.columns
    size, d = len(exact), design.columns + 1
    G, c = n * exact[:, :-1, :-1], n * exact[:, :-1, -1]

    def symmetric(scale: float) -> Array:
        half = np.triu(rng.standard_normal((size, d, d)) * scale)
        return np.asarray(half + np.swapaxes(np.triu(half, 1), 1, 2))

    # Wang (2018), Algorithm 2: |(1, x)|^2 <= d, |y| <= 1, failure 0.05
    log, third = math.log(6 / DELTA), epsilon / 3
    least = np.linalg.eigvalsh(G)[:, 0] + math.sqrt(log) * d / third * rng.standard_normal(size)
    least = np.maximum(least - log * d / third, 0)
    ridge = np.maximum(math.sqrt(d * log * math.log(2 * d**2 / 0.05)) * d / third - least, 0)
    noisy_G = G + symmetric(math.sqrt(log) * d / third) + ridge[:, None, None] * np.eye(d)
    noisy_c = c + rng.standard_normal((size, d)) * math.sqrt(log * d) / third
    found = {"AdaSSP": (np.linalg.pinv(noisy_G) @ noisy_c[:, :, None])[:, 1:, 0]}
    # one Gaussian vector of all moments, with its exact l2 sensitivity
    sigma = float(SensitivitySpace.moments(p).sensitivity(p=2))
    sigma *= tdp.AnalyticGaussian(epsilon=epsilon, delta=DELTA).sigma
    noise = symmetric(sigma)
    own = np.arange(1, d)
    noise[:, own, own] /= 2  # squares are released doubled
    noise[:, 0, 0] = 0
    noisy_c = c + sigma * rng.standard_normal((size, d))
    found["Gaussian moments"] = (np.linalg.pinv(G + noise) @ noisy_c[:, :, None])[:, 1:, 0]
    # one step of gradient descent from 0: cube noise of all of epsilon on the products with y
    cube = tdp.KNormNoise(tdp.LpBall(d, np.inf, 2.0), epsilon).sample(size, rng=seed)
    gradient = (c + cube)[:, 1:] / n
    found["one gradient step"] = gradient / d  # the step that is safe for columns in [-1, 1]
    found["DPpack"] = objective_perturbation(G, c, epsilon, rng)
    return found


def objective_perturbation(G: Array, c: Array, epsilon: float, rng: np.random.Generator) -> Array:
    """Slopes as in DPpack 0.2 (Kifer, Smith and Thakurta, 2012), delta = 0, its penalty gamma 0.

    Written from its published algorithm: the target is scaled to [-d, d], rows have the length
    root d and coefficients at most root d, so that gradients are at most 2 d^1.5 and curvatures d.
    """
    size, d = c.shape
    length = rng.gamma(d, 2 * (2 * d**1.5) / epsilon, size)
    direction = rng.standard_normal((size, d))
    b = length[:, None] * direction / np.linalg.norm(direction, axis=1, keepdims=True)
    value, vector = np.linalg.eigh(G)
    along = (np.swapaxes(vector, 1, 2) @ (d * c - b)[:, :, None])[:, :, 0]
    low, high = np.full(size, 2 * d / epsilon), np.full(size, 1e12)
    inside = (along**2 / (value + low[:, None]) ** 2).sum(axis=1) <= d
    for _ in range(100):  # the least ridge that keeps coefficients in their ball
        middle = np.sqrt(low * high)
        fits = (along**2 / (value + middle[:, None]) ** 2).sum(axis=1) <= d
        low, high = np.where(fits, low, middle), np.where(fits, middle, high)
    ridge = np.where(inside, 2 * d / epsilon, high)[:, None]
    found = (vector @ (along / (value + ridge))[:, :, None])[:, :, 0]
    return np.asarray(found[:, 1:] / d)


def one_column(only: str | None) -> tuple[list[str], list[str]]:
    """OpenDP's and diffprivlib's lines, which read rows, beside the default and the median line.

    OpenDP has Theil and Sen's line for one column, by medians of predictions of pairs of rows. The
    median line is that of :class:`~tightdp.QuantileRegression`.
    """
    import diffprivlib.models
    import opendp.prelude as dp

    dp.enable_features("contrib", "floating-point", "honest-but-curious")

    def opendp(scale: float, candidates: int = 100) -> Any:
        return dp.sklearn.linear_model.LinearRegression(
            dp.max_divergence(), [(-1, 1)], (-1, 1), scale, candidates_count=candidates
        )

    two = opendp(1.0).measurement.map(2)  # a replaced row is one removed and one added
    lines = [
        "| setting | epsilon | default | median line | OpenDP, Theil-Sen | diffprivlib "
        "| to the truth: default | median line | OpenDP | diffprivlib | least squares |",
        "|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    for name, design in (DESIGNS | FRESH).items():
        if design.columns > 1 or (only is not None and only not in name):
            continue
        for epsilon in EPSILONS:
            rng = np.random.default_rng([SEED, 99])
            facts = tdp.Schema(dict.fromkeys("xy", tdp.Interval(-1, 1)), rows=design.rows)
            median = tdp.KNormQuantileRegression(facts, target="y", epsilon=epsilon)
            fits: dict[str, list[float]] = {}
            exact = []
            for place in range(TABLES):
                cells = design.cells(design.rows, rng)
                exact.append(cells.T @ cells / design.rows)
                x, y = cells[:, 1], cells[:, 2]
                line = opendp(two / epsilon, CANDIDATES).fit(x[:, None], y)
                fits.setdefault("OpenDP", []).append(float(line.coef_[0]))
                drawn = median.release({"x": x, "y": y}, rng=place)
                fits.setdefault("median line", []).append(float(drawn["x"]))
                rival = diffprivlib.models.LinearRegression(
                    epsilon=epsilon, bounds_X=(-1, 1), bounds_y=(-1, 1), random_state=place
                )
                fits.setdefault("diffprivlib", []).append(float(rival.fit(x[:, None], y).coef_[0]))
            tables = np.array(exact)
            found = mechanism(design, epsilon)
            own = LinearFit(found, noisy(found, tables, seed=11)).solve()[:, 1]
            fits = {"default": list(own), **fits}
            plain, truth = slopes_of(tables)[:, 0], float(design.slopes[0])
            cells_of = [
                f"{np.median(abs(np.array(b) - at)):.3g}"
                for at in (plain, truth)
                for b in (fits[k] for k in ("default", "median line", "OpenDP", "diffprivlib"))
            ]
            cells_of.append(f"{np.median(abs(plain - truth)):.3g}")
            lines.append("| " + " | ".join([name, f"{epsilon:g}", *cells_of]) + " |")
            print(lines[-1], flush=True)
    return lines, [f"{TABLES} tables each; median distances of the slope to that of least squares."]


def huber(only: str | None) -> tuple[list[str], list[str]]:
    """Objective perturbation with Huber's loss, which reads rows, beside default and best peer.

    Beyond its threshold a residual pulls no more. A threshold of half of [0, 1] is beyond nearly
    all residuals here, so that the line is that of least squares; an eighth is the default.
    """
    lines = [
        "| setting | epsilon | default | Huber, 1/8 | Huber, 1/2 | 1/8 over default "
        "| best peer | 1/8 over peer | to the truth: default | 1/8 | 1/2 | least squares |",
        "|---|---|---|---|---|---|---|---|---|---|---|---|",
    ]
    to_default, to_peer = [], []
    for place, (name, design) in enumerate(CHOSEN.items()):
        if only is not None and only not in name:
            continue
        truth = population_slopes(design, np.random.default_rng([SEED, place, 1]))
        for epsilon in EPSILONS:
            rng = np.random.default_rng([SEED, place, 2])
            exact = []
            fits: dict[str, Any] = {"1/8": [], "1/2": []}
            for table in range(TABLES):
                cells = design.cells(design.rows, rng)
                exact.append(cells.T @ cells / design.rows)
                for threshold, found in zip((1 / 8, 1 / 2), fits.values(), strict=True):
                    model = tdp.HuberRegression(
                        epsilon=epsilon, bounds=(-1, 1), threshold=threshold, random_state=table
                    )
                    found.append(model.fit(cells[:, 1:-1], cells[:, -1]).coef_)
            tables = np.array(exact)
            draws = max(DRAWS, 200 // TABLES)  # of noise on moments, which take no time
            drawn, plain = np.tile(tables, (draws, 1, 1)), slopes_of(tables)
            moments = mechanism(design, epsilon)
            own = LinearFit(moments, noisy(moments, drawn, seed=11)).solve()[:, 1:]
            again = np.tile(plain, (draws, 1))
            rival = {k: distance(b, again) for k, b in peers(drawn, design, epsilon, 13).items()}
            other = min(rival, key=rival.__getitem__)
            error, robust = distance(own, again), distance(np.array(fits["1/8"]), plain)
            to_default.append((robust / error, name, epsilon))
            to_peer.append((robust / rival[other], name, epsilon))
            cells_of = [
                f"{error:.3g}",
                *(f"{distance(np.array(b), plain):.3g}" for b in fits.values()),
            ]
            cells_of += [f"{robust / error:.2f}", f"{rival[other]:.3g} ({other})"]
            cells_of += [f"{robust / rival[other]:.2f}", f"{distance(own, truth):.3g}"]
            cells_of += [f"{distance(np.array(b), truth):.3g}" for b in fits.values()]
            cells_of.append(f"{distance(plain, truth):.3g}")
            lines.append("| " + " | ".join([name, f"{epsilon:g}", *cells_of]) + " |")
            print(lines[-1], flush=True)
    summary = [f"{len(to_peer)} settings, {TABLES} tables each."]
    for words, ratios in (("the default", to_default), ("best peer", to_peer)):
        summary.append(f"Threshold 1/8 over {words}: {_said(ratios)}.")
    return lines, summary


def stages(only: str | None) -> tuple[list[str], list[str]]:
    """Two stages, which look at the rows again, beside the default and peers.

    Aim and law are those of the library; noise is drawn from the continuous law, for speed.
    """
    lines = [
        "| setting | epsilon | default | two stages | over default | nothing clamped "
        "| best peer | over it |",
        "|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[tuple[float, str, float]]] = {}
    for place, (name, design) in enumerate(CHOSEN.items()):
        if only is not None and only not in name:
            continue
        rng = np.random.default_rng([SEED, place, 3])
        tables = [design.cells(design.rows, rng) for _ in range(TABLES)]
        exact = np.repeat([Z.T @ Z / design.rows for Z in tables], LOOKS, axis=0)
        plain = slopes_of(exact)
        for epsilon in EPSILONS:
            one = mechanism(design, epsilon, stages=1)
            own = LinearFit(one, noisy(one, exact, seed=11)).solve()[:, 1:]
            fits = list(_second_looks(mechanism(design, epsilon, stages=2), tables))
            b, whole = np.array([b for b, _ in fits]), np.mean([all_of for _, all_of in fits])
            rivals = peers(exact, design, epsilon, 13).values()
            error, two, rival = (
                min(distance(each, plain) for each in of) for of in ([own], [b], rivals)
            )
            columns = "5 or more columns" if design.columns >= 5 else "fewer columns"
            for words, size in (("the default", error), ("best peer", rival)):
                ratios.setdefault(words, []).append((two / size, name, epsilon))
                ratios.setdefault(f"{words}, {columns}", []).append((two / size, name, epsilon))
            cells = [name, f"{epsilon:g}", f"{error:.3g}", f"{two:.3g}", f"{two / error:.2f}"]
            cells += [f"{whole:.2f}", f"{rival:.3g}", f"{two / rival:.2f}"]
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    summary = [f"{len(ratios['best peer'])} settings, {TABLES} tables and {LOOKS} draws each."]
    summary += [f"Two stages over {words}: {_said(found)}." for words, found in ratios.items()]
    return lines, summary


def _second_looks(found: LeastSquares, tables: list[Array]) -> Iterator[tuple[Array, bool]]:
    """Slopes after all looks at the rows of every table, and whether nothing was clamped."""
    looks, rows = found.looks, found.schema.rows
    assert looks is not None
    points, size, order = looks.residuals.points, looks.first.resolution, looks.order
    i, j, factor = found.statistic.entries.T
    for place, Z in enumerate(tables):
        sums = factor * (Z.T @ Z)[i, j]
        drawn = [
            look.simulate(LOOKS, rng=3 * place + k)
            for k, look in enumerate((looks.first, looks.watch, looks.second))
        ]
        for own, between, other in zip(*drawn, strict=True):
            integers = [round(z * size) for z in sums + own]
            line, reach = (np.array(part) / points for part in looks.aim(integers))
            room = max(1 + np.abs(line).sum() - reach, 1 / points)
            moved = np.maximum(np.abs(Z[:, -1] - Z[:, :-1] @ line) - reach, 0).sum() / room
            seen = round((2 * moved - rows + between[0]) * size)
            line, reach = (np.array(part) / points for part in looks.settle(integers, seen))
            residual = np.clip(Z[:, -1] - Z[:, :-1] @ line, -reach, reach)
            scale = looks.scale(line, float(reach))[:-1]
            products = Z[:, :-1].T @ residual / rows + scale * other[order][:-1]
            variances = np.diag(looks.second.covariance)[order][:-1] * scale**2
            look = SecondLook(line, float(reach), products, variances)
            M = found.statistic.matrices(np.array(integers) / size / rows)
            whole = bool(reach >= 1 + np.abs(line).sum() - 1 / points)
            yield LinearFit(found, M, float(rows), look).solve()[1:], whole


def objective(only: str | None) -> tuple[list[str], list[str]]:
    """A tilted loss, which reads rows, beside the default and peers; and what its intervals hold.

    Intervals of the default are those of a sixth of the tables.
    """
    lines = [
        "| setting | epsilon | default | tilted | over default | best peer | over it | held "
        "| lowest | length over the default's |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[tuple[float, str, float]]] = {}
    shares, outside = [], 0
    for name, design, tables, truth in settings(only, rows=True):
        exact = np.array([Z.T @ Z / design.rows for Z in tables])
        plain, names = slopes_of(exact), [f"x{i}" for i in range(design.columns)]
        again = np.tile(exact, (max(DRAWS, 200 // TABLES), 1, 1))  # noise on moments takes no time
        for epsilon in design.epsilons:
            moments, tilted = (
                mechanism(design, epsilon, method=m) for m in ("moments", "objective")
            )
            fits, held = [], []
            for seed, Z in enumerate(tables):
                cells = dict(zip([*names, "y"], Z.T[1:], strict=True))
                fits.append(tilted.fit(tilted.release(cells, rng=seed)))
                low, high = fits[-1].intervals(0.05)[1:].T
                value = fits[-1].coefficients[1:]
                held.append((low <= truth) & (truth <= high))
                outside += int(((value < low) | (value > high)).sum())
            plainly = [LinearFit(moments, M) for M in noisy(moments, again, seed=11)]
            few = range(0, TABLES, 6)
            lengths = [
                np.median([np.ptp(of[k].intervals(0.05)[1:], axis=1) for k in few])
                for of in (fits, plainly)
            ]
            own = distance(np.array([fit.solve()[1:] for fit in plainly]), slopes_of(again))
            error = distance(np.array([fit.solve()[1:] for fit in fits]), plain)
            rivals = peers(again, design, epsilon, 13).values()
            rival = min(distance(each, slopes_of(again)) for each in rivals)
            for words, size in (("the default", own), ("best peer", rival)):
                ratios.setdefault(f"Error over {words}", []).append((error / size, name, epsilon))
            longer = float(lengths[0] / lengths[1]) if np.isfinite(lengths).all() else np.nan
            if np.isfinite(longer):  # where both have ends
                ratios.setdefault("Length over the default's", []).append((longer, name, epsilon))
            share = np.mean(held, axis=0)
            shares.append((float(share.mean()), name, epsilon))
            said = [name, f"{epsilon:g}", f"{own:.3g}", f"{error:.3g}", f"{error / own:.2f}"]
            said += [f"{rival:.3g}", f"{error / rival:.2f}", f"{share.mean():.3f}"]
            said += [f"{share.min():.3f}", f"{longer:.2f}"]
            lines.append("| " + " | ".join(said) + " |")
            print(lines[-1], flush=True)
    summary = [f"{len(shares)} settings, {TABLES} tables each."]
    summary += [f"{words}: {_said(found)}." for words, found in ratios.items()]
    low = "; ".join(f"{s:.3f} ({name}, epsilon {e:g})" for s, name, e in sorted(shares)[:5])
    within = sum(0.93 <= s <= 0.98 for s, _, _ in shares)
    summary.append(
        f"Share of the population's slopes held: within [.93, .98] in {within}, above in "
        f"{sum(s > 0.98 for s, _, _ in shares)}; lowest {low}. Outside their intervals: {outside}."
    )
    return lines, summary


def population_slopes(design: Design, rng: np.random.Generator) -> Array:
    """Those of the line, or of least squares on many rows where the clamp bends it."""
    if design.tails == "t" or design.level or design.length > 0.5:
        return slopes_of(np.mean([design.draw(200_000, rng) for _ in range(10)], axis=0))
    return design.slopes


def _said(ratios: list[tuple[float, str, float]]) -> str:
    """Middle, mean and worst of ratios, in words."""
    ordered = sorted(ratios, reverse=True)
    sizes = np.array([r for r, _, _ in ordered])
    middle, mean = float(np.median(sizes)), float(np.exp(np.log(sizes).mean()))
    over = f"above 1.05 in {(sizes > 1.05).sum()}, above 1.15 in {(sizes > 1.15).sum()}"
    worst = "; ".join(f"{r:.2f} ({name}, epsilon {e:g})" for r, name, e in ordered[:5])
    return f"median {middle:.2f}, geometric mean {mean:.3f}, {over}, worst {worst}"


def settings(only: str | None, *, rows: bool = False) -> Iterator[tuple[str, Design, Array, Array]]:
    """Name, design, mean products of the tables, or their rows, and slopes of the population."""
    for place, (name, design) in enumerate(CHOSEN.items()):
        if only is None or only in name:
            rng = np.random.default_rng([SEED, place])
            draw = design.cells if rows else design.draw
            tables = np.array([draw(design.rows, rng) for _ in range(TABLES)])
            yield name, design, tables, population_slopes(design, rng)


def distance(found: Array, truth: Array) -> float:
    return float(np.median(np.linalg.norm(found - truth, axis=-1)))


def errors(only: str | None) -> tuple[list[str], list[str]]:
    """Errors of default, best variant and best peer; and what is worst among their ratios."""
    lines = [
        "| setting | epsilon | zero | default | best variant | ratio | best peer | ratio "
        "| to the truth: default | least squares |",
        "|---|---|---|---|---|---|---|---|---|---|",
    ]
    ratios: dict[str, list[tuple[float, str, float]]] = {}
    for name, design, tables, truth in settings(only):
        exact = np.tile(tables, (DRAWS, 1, 1))
        plain = slopes_of(exact)
        zero = distance(0 * plain, plain)
        for epsilon in design.epsilons:
            fits = {}
            for variant, options in {"default": {}, **VARIANTS}.items():
                found = mechanism(design, epsilon, **options)
                M = noisy(found, exact, seed=11)
                fits[variant] = LinearFit(found, M).solve()[:, 1:]
            error = {variant: distance(b, plain) for variant, b in fits.items()}
            rival = {k: distance(b, plain) for k, b in peers(exact, design, epsilon, 13).items()}
            best = min(VARIANTS, key=error.__getitem__)
            other = min(rival, key=rival.__getitem__)
            own = error["default"]
            beside = {"best variant": error[best], "best peer": rival[other], "zero": zero}
            for words, size in beside.items():
                ratios.setdefault(words, []).append((own / size, name, epsilon))
            cells = [name, f"{epsilon:g}", f"{zero:.3g}", f"{own:.3g}"]
            cells += [f"{error[best]:.3g} ({best})", f"{own / error[best]:.2f}"]
            cells += [f"{rival[other]:.3g} ({other})", f"{own / rival[other]:.2f}"]
            cells += [f"{distance(fits['default'], truth):.3g}", f"{distance(plain, truth):.3g}"]
            lines.append("| " + " | ".join(cells) + " |")
            print(lines[-1], flush=True)
    summary = [f"{len(ratios['zero'])} settings, {TABLES} tables and {DRAWS} draws each."]
    summary += [f"Default over {words}: {_said(found)}." for words, found in ratios.items()]
    return lines, summary


def coverage(only: str | None) -> tuple[list[str], list[str]]:
    """How often intervals hold the population's slopes, and how long they are.

    Every table has candidates of its own, as many as the library takes, out of ``POOL`` draws of
    noise for each setting.
    """
    lines = [
        "| setting | epsilon | held, equal variance | lowest to highest | held, no assumption "
        "| lowest to highest | width over least squares' | and with no assumption | outside |",
        "|---|---|---|---|---|---|---|---|---|",
    ]
    shares, outside = [], 0
    for name, design, tables, truth in settings(only):
        C = np.linalg.inv(tables[:, :-1, :-1])
        own = np.sqrt(design.sigma**2 * C.diagonal(axis1=1, axis2=2)[:, 1:] / design.rows)
        for epsilon in EPSILONS:
            found = mechanism(design, epsilon)
            released = noisy(found, tables, seed=17)
            pool = found.moments.simulate(POOL, rng=3)
            found.moments.simulate = partial(_picked, pool)  # type: ignore[method-assign]
            cells = [name, f"{epsilon:g}"]
            widths = []
            for assume, many in (("equal variance", TABLES), (None, TABLES // 3)):
                held, width = [], []
                for M, spread in zip(released[:many], own[:many], strict=True):
                    fit = LinearFit(found, M)
                    low, high = fit.intervals(0.05, assume=assume)[1:].T
                    value = fit.coefficients[1:]
                    held.append((low <= truth) & (truth <= high))
                    width.append(np.median((high - low) / (2 * 1.96 * spread)))
                    outside += int(((value < low) | (value > high)).sum())
                share = np.mean(held, axis=0)
                cells += [f"{share.mean():.3f}", f"{share.min():.3f} to {share.max():.3f}"]
                widths.append(f"{np.median(width):.2f}")
                if assume:
                    shares.append((float(share.mean()), name, epsilon))
            lines.append("| " + " | ".join([*cells, *widths, str(outside)]) + " |")
            print(lines[-1], flush=True)
    low = [f"{s:.3f} ({name}, epsilon {e:g})" for s, name, e in sorted(shares)[:5]]
    over = sum(s > 0.98 for s, _, _ in shares)
    summary = [
        f"{len(shares)} settings, {TABLES} tables each; mean share of the slopes held with equal "
        f"variance: lowest {'; '.join(low)}; above .98 in {over}. Coefficients outside their own "
        f"intervals: {outside}."
    ]
    return lines, summary


def _picked(pool: Array, count: int, rng: RandomSource) -> Array:
    """Some of many draws of noise, others for every table."""
    return np.asarray(pool[rng.words(count) % len(pool)])


def main() -> None:
    global TABLES, DRAWS, CHOSEN, SEED
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--tables", type=int, default=300)
    parser.add_argument("--draws", type=int, default=DRAWS)
    parser.add_argument("--only")
    parser.add_argument("--part", choices=PARTS)
    parser.add_argument("--fresh", action="store_true")
    parser.add_argument("--latest", action="store_true")
    parser.add_argument("--drawn", action="store_true", help="settings drawn at random")
    parser.add_argument("--first", type=int, default=0, help="seed of the first random design")
    parser.add_argument("--single", action="store_true", help="one slope of several")
    parser.add_argument("--steep", action="store_true", help="narrow columns with steep slopes")
    options = parser.parse_args()
    CHOSEN, SEED = (FRESH, 8) if options.fresh else (DESIGNS, 7)
    CHOSEN, SEED = (LATEST, 9) if options.latest else (CHOSEN, SEED)
    CHOSEN, SEED = (STEEP, 11) if options.steep else (CHOSEN, SEED)
    CHOSEN, SEED = (SINGLE, 31) if options.single else (CHOSEN, SEED)
    if options.drawn or options.part == "random":
        seeds = range(options.first, options.first + MANY)
        CHOSEN, SEED = dict(map(drawn, seeds)), 10
    TABLES, DRAWS, start = options.tables, options.draws, time.perf_counter()
    wanted = [options.part] if options.part else ["errors", "coverage"]
    text = [
        "# Linear regression on a grid",
        "",
        f"tightdp {tdp.__version__}, numpy {np.__version__}, Python {platform.python_version()}. "
        "Written by `benchmarks/regression_grid.py`.",
    ]
    for part in wanted:
        lines, summary = PARTS[part](options.only)
        text += ["", f"## {part.capitalize()}", "", *summary, "", *lines]
    print("\n".join(text), f"\n{time.perf_counter() - start:.0f} s")
    if options.out:
        options.out.write_text("\n".join(text) + "\n", encoding="utf-8")


PARTS = {
    "errors": errors,
    "coverage": coverage,
    "one column": one_column,
    "huber": huber,
    "stages": stages,
    "objective": objective,
    "random": errors,  # on settings of its own
}
TABLES, CHOSEN, SEED = 300, DESIGNS, 7

if __name__ == "__main__":
    main()
