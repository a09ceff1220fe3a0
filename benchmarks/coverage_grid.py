"""What stated 95 % intervals hold, and how long they are: models x epsilon x rows.

    python benchmarks/coverage_grid.py [--only NAME] [--rows N] [--epsilon E] [--tables 1000]

Cells can be run one by one: their random numbers do not depend on what else is run.

Every model runs at epsilon 0.1, 0.5, 1 and 4 with 500, 5,000 and 50,000 rows. All settings below
were written down, and committed, before the first run; none was changed after it. Rows are drawn
anew for every table (the four epsilons share them), noise comes from the exact law of the
mechanism (continuous laws for regressions), and intervals from the code that users run; noise that
is simulated after a release is drawn once for a cell (for regressions 20,000 times, of which every
table has some).

Beside each width stands that of the usual interval without privacy on the same tables, and that of
the interval this package printed before: for means the bounds that hold for every law of the rows
(`Mean(interval_share=0.1)`), for regressions the default that assumes nothing of the errors, for
the median the proved interval. Shares of proportions are computed, not simulated.
"""

from __future__ import annotations

import argparse
import math
import platform
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from fractions import Fraction
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray
from scipy import stats

import tightdp as tdp
from tightdp.inference.mean_intervals import NOISES, mean_intervals
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit
from tightdp.mechanisms.population_means import INTERVAL_SHARE, _scaled, paid_means
from tightdp.randomness import SeededSource

Array = NDArray[np.float64]
Rng = np.random.Generator

SEED = 20_261_118
EPSILONS = (Fraction(1, 10), Fraction(1, 2), Fraction(1), Fraction(4))
ROWS = (500, 5_000, 50_000)
CHOSEN: dict[str, tuple[Any, ...]] = {"rows": ROWS, "epsilon": EPSILONS}  # by the command line
ALPHA = 0.05
FEW = 50  # tables for widths that only stand beside

HEAD = (
    "| model | rows | epsilon | held | width | without privacy | before | notes |",
    "|---|---|---|---|---|---|---|---|",
)


def chosen_epsilons() -> list[tuple[int, Fraction]]:
    """Those that are asked for, with their places: seeds depend on them."""
    return [pair for pair in enumerate(EPSILONS) if pair[1] in CHOSEN["epsilon"]]


@dataclass
class Cell:
    """One line: shares that hold (one for each coefficient), and widths."""

    model: str
    rows: int
    epsilon: Fraction
    held: list[float]
    width: float
    plain: float
    before: float
    notes: str = ""

    def inside(self) -> bool:
        return all(0.94 <= share <= 0.97 for share in self.held)

    def line(self) -> str:
        shares = ", ".join(f"{share:.3f}" for share in self.held)
        cells = [self.model, f"{self.rows:,}", f"{float(self.epsilon):g}", shares]
        cells += [f"{self.width:.3g}", f"{self.width / self.plain:.2f}"]
        cells += ["" if math.isnan(self.before) else f"{self.width / self.before:.2f}", self.notes]
        return "| " + " | ".join(cells) + " |"


# --- means ----------------------------------------------------------------------------------------

MEANS: dict[str, tuple[Callable[[Rng, Any], Array], float]] = {
    # in [0, 100]; the mean is that of rows moved to their bounds
    "mean, symmetric": (lambda rng, size: 100 * rng.beta(4, 4, size), 50.0),
    "mean, skewed": (
        lambda rng, size: np.minimum(10 * rng.gamma(2, size=size), 100),
        # E min(X, 100) of a gamma law with shape 2 and scale 10
        20 * stats.gamma.cdf(10, 3) + 100 * stats.gamma.sf(10, 2),
    ),
}


def _cut_lognormal(sigma: float) -> float:
    """E min(X, 100) of a lognormal law with median 1."""
    far = math.log(100) / sigma
    inside = math.exp(sigma**2 / 2) * stats.norm.cdf(far - sigma)
    return float(inside + 100 * stats.norm.sf(far))


# beside the grid: few rows decide, and a sample may have none of them
RARE_MEANS: dict[str, tuple[Callable[[Rng, Any], Array], float]] = {
    "mean, lognormal 1.5": (
        lambda rng, size: np.minimum(rng.lognormal(0, 1.5, size), 100),
        _cut_lognormal(1.5),
    ),
    "mean, one row in 50": (lambda rng, size: 100.0 * (rng.random(size) < 0.02), 2.0),
    "mean, one row in 200": (lambda rng, size: 100.0 * (rng.random(size) < 0.005), 0.5),
}


def mean_cells(name: str, tables: int) -> Iterator[Cell]:
    law, truth = (MEANS | RARE_MEANS)[name]
    for rows in CHOSEN["rows"]:
        rng = np.random.default_rng([SEED, len(name), rows])
        sums = np.array([_sums(law(rng, rows)) for _ in range(tables)])
        spread = np.sqrt((sums[:, 1] - sums[:, 0] ** 2) * rows / (rows - 1))
        usual = stats.t.ppf(1 - ALPHA / 2, rows - 1) * spread / math.sqrt(rows)
        plain_held = float(np.mean(np.abs(50 + 50 * sums[:, 0] - truth) <= 50 * usual))
        schema = tdp.Schema({"x": tdp.Interval(0, 100)}, rows=rows)
        for place, epsilon in chosen_epsilons():
            paid = paid_means(schema, ["x"], epsilon, INTERVAL_SHARE)
            pool = _mean_noise(paid, NOISES, rows, SEED)
            noise = _mean_noise(paid, len(sums), rows, SEED + 1 + place + rows)
            released = sums + np.column_stack([part[:, 0] for part in noise])
            held, width = 0, 0.0
            for mean, square in released:
                given = np.array([mean]), np.array([square])
                ends = mean_intervals(*given, partial(_same, pool), rows, ALPHA)
                low, high = 50 + 50 * ends[0]
                held += low <= truth <= high
                width += (high - low) / len(sums)
            notes = f"usual interval {plain_held:.3f}"
            share, usually = held / len(sums), float(100 * usual.mean())
            before = _proved_width(law, rows, epsilon, rng)
            yield Cell(name, rows, epsilon, [share], width, usually, before, notes)


def _same(pool: tuple[Array, Array], _: int) -> tuple[Array, Array]:
    return pool


def _sums(x: Array) -> tuple[float, float]:
    scaled = x / 50 - 1
    return float(scaled.mean()), float(scaled @ scaled) / len(x)


def _mean_noise(paid: Any, count: int, rows: int, seed: int) -> tuple[Array, Array]:
    rng = SeededSource(seed)
    drawn, squares = (_scaled(part, count, rng) / rows for part in paid.parts)
    return drawn, squares[:, 1::2] / 2


def _proved_width(law: Any, rows: int, epsilon: Fraction, rng: Rng) -> float:
    found = []
    for seed in range(FEW // 5):
        model = tdp.Mean(
            epsilon=epsilon, bounds=(0, 100), interval_share=INTERVAL_SHARE, random_state=seed
        )
        low, high = model.fit(law(rng, rows)[:, None]).conf_int(covers="population")[0]
        found.append(high - low)
    return float(np.mean(found))


# --- proportions ----------------------------------------------------------------------------------

SHARES = {"proportion 0.3": 0.3, "proportion 0.03": 0.03}


def proportion_cells(name: str, tables: int) -> Iterator[Cell]:
    share = SHARES[name]
    for rows in CHOSEN["rows"]:
        rng = np.random.default_rng([SEED, len(name), rows])
        counts = rng.binomial(rows, share, tables)
        lower = stats.beta.ppf(ALPHA / 2, counts, rows - counts + 1)
        upper = stats.beta.ppf(1 - ALPHA / 2, counts + 1, rows - counts)
        plain = float(np.mean(np.nan_to_num(upper, nan=1.0) - np.nan_to_num(lower)))
        schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows)
        for _, epsilon in chosen_epsilons():
            count = tdp.ProportionTest(schema, "x", low=0.5, epsilon=epsilon).count
            exact = 1 - count.at_least(count._critical(share, ALPHA / 2), share)
            exact -= count.at_least(count._critical(1 - share, ALPHA / 2), 1 - share)
            noise = np.asarray(count.law.sample(FEW * 4, rng=SEED)).astype(np.int64)
            widths = []
            for x, z in zip(counts[: FEW * 4].tolist(), noise.tolist(), strict=False):
                low_end, high_end = count.interval(count.resolution * x + z, 1 - ALPHA)
                widths.append(high_end - low_end)
            given = [float(exact)], float(np.mean(widths)), plain, math.nan, "computed"
            yield Cell(name, rows, epsilon, *given)


# --- regressions ----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Line:
    """Columns, the line and its errors, which are normal and of equal variance."""

    draw: Callable[[Rng, int], Array]
    bounds: tuple[tuple[float, float], ...]
    slopes: tuple[float, ...]
    level: float
    sigma: float
    target: tuple[float, float]


def _normal_columns(rng: Rng, rows: int) -> Array:
    """Three columns, correlated 0.6."""
    common = rng.standard_normal((rows, 1))
    own = rng.standard_normal((rows, 3))
    return np.clip(math.sqrt(0.6) * common + math.sqrt(0.4) * own, -3, 3)


def _skewed_columns(rng: Rng, rows: int) -> Array:
    """Two exponential columns, correlated about 0.6."""
    first, second = rng.exponential(size=(2, rows))
    return np.clip(np.column_stack([first, 0.6 * first + 0.8 * second]), 0, 6)


LINES = {
    "slope, one even column": Line(
        lambda rng, rows: rng.uniform(-1, 1, (rows, 1)), ((-1, 1),), (0.5,), 0.3, 0.3, (-2, 2)
    ),
    "3 coefficients, correlated": Line(
        _normal_columns, ((-3, 3),) * 3, (0.3, -0.2, 0.1), 0.2, 0.5, (-4, 4)
    ),
    "2 coefficients, skewed": Line(_skewed_columns, ((0, 6),) * 2, (0.3, 0.2), 1.0, 0.5, (-2, 7)),
}


def regression_cells(name: str, tables: int) -> Iterator[Cell]:
    line = LINES[name]
    truth = np.array(line.slopes)
    names = [f"x{i}" for i in range(len(truth))]
    columns = {
        name: tdp.Interval(*pair)
        for name, pair in zip([*names, "y"], [*line.bounds, line.target], strict=True)
    }
    for rows in CHOSEN["rows"]:
        rng = np.random.default_rng([SEED, len(name), rows])
        exact, plain = zip(*(_products(line, rows, rng) for _ in range(tables)), strict=True)
        schema = tdp.Schema(columns, rows=rows)
        for place, epsilon in chosen_epsilons():
            found = LeastSquares(schema, names, "y", epsilon=epsilon)
            drawn = found.moments.simulate(tables, rng=SEED + place + rows) / rows
            M = np.array(exact) + found.statistic.noise_matrices(drawn)
            if not found.statistic.square:
                M[:, -1, -1] = np.nan
            pool = Pool(found.moments.simulate(20_000, rng=SEED))
            found.moments.simulate = pool.draw  # type: ignore[method-assign]
            held, widths, before = [], [], []
            for place_of, products in enumerate(M):
                pool.start = STRIDE * place_of
                fit = LinearFit(found, products)
                low, high = fit.intervals(ALPHA, assume="equal variance")[1:].T
                held.append((low <= truth) & (truth <= high))
                widths.append(high - low)
                if place_of < FEW:
                    pool.start = STRIDE * place_of
                    before.append(np.ptp(LinearFit(found, products).intervals(ALPHA)[1:], axis=1))
            ratio = np.median(np.array(widths) / np.array(plain), axis=0)
            middle = float(np.mean(np.median(widths, axis=0)))
            yield Cell(
                name,
                rows,
                epsilon,
                np.mean(held, axis=0).tolist(),
                middle,
                middle / float(ratio.mean()),
                float(np.mean(np.median(before, axis=0))),
                "",
            )


STRIDE = 7_919  # between the places of two tables in a pool


class Pool:
    """Noise that is drawn once for a cell and handed out to every table from its own place on."""

    def __init__(self, drawn: Array) -> None:
        self.drawn, self.start = drawn, 0

    def draw(self, size: int, *, rng: object = None) -> Array:
        places = (self.start + np.arange(size)) % len(self.drawn)
        self.start += size
        return np.asarray(self.drawn[places])


def _products(line: Line, rows: int, rng: Rng) -> tuple[Array, Array]:
    """Mean products of (1, x, y), scaled, and the widths of usual intervals."""
    x = line.draw(rng, rows)
    y = line.level + x @ np.array(line.slopes) + line.sigma * rng.standard_normal(rows)
    y = np.clip(y, *line.target)
    ends = np.array([*line.bounds, line.target])
    middle, half = ends.mean(axis=1), np.ptp(ends, axis=1) / 2
    whole = np.column_stack([np.ones(rows), (np.column_stack([x, y]) - middle) / half])
    plain = np.column_stack([np.ones(rows), x])
    G = plain.T @ plain
    fitted = np.linalg.solve(G, plain.T @ y)
    freedom = rows - plain.shape[1]
    spread = np.sqrt(np.sum((y - plain @ fitted) ** 2) / freedom * np.diag(np.linalg.inv(G)))
    return whole.T @ whole / rows, 2 * stats.t.ppf(1 - ALPHA / 2, freedom) * spread[1:]


# --- where hardly anything is known ---------------------------------------------------------------

SMALL = (Fraction(1, 20), 500)  # epsilon and rows
RIDGES = (0.0, 50.0)


def _heavy(rng: Rng, rows: int) -> Array:
    """Student's t with 2 degrees of freedom, correlated, moved to [-3, 3]: one row in ten."""
    common, *own = rng.standard_t(2, size=(3, rows))
    return np.clip(np.column_stack([0.8 * common + 0.6 * each for each in own]), -3, 3)


SMALL_LINES = {
    **LINES,
    "2 coefficients, heavy tails": Line(_heavy, ((-3, 3),) * 2, (0.3, 0.2), 0.0, 1.0, (-2, 2)),
    "2 narrow columns": Line(
        lambda rng, rows: rng.normal(0.4, 0.1, (rows, 2)),
        ((-1, 1),) * 2,
        (0.5, 0.2),
        0.0,
        0.2,
        (-2, 2),
    ),
}


def small_cells(tables: int) -> Iterator[str]:
    """Linear and ridge regression with no assumption: the share of tables held, and widths."""
    epsilon, rows = SMALL
    for name, line in SMALL_LINES.items():
        rng = np.random.default_rng([SEED, 5, len(name)])
        names = [f"x{i}" for i in range(len(line.slopes))]
        pairs = zip([*names, "y"], [*line.bounds, line.target], strict=True)
        schema = tdp.Schema({key: tdp.Interval(*pair) for key, pair in pairs}, rows=rows)
        exact = np.array([_products(line, rows, rng)[0] for _ in range(tables)])
        whole = np.mean([_products(line, 200_000, rng)[0] for _ in range(5)], axis=0)
        for alpha in RIDGES:
            found = LeastSquares(schema, names, "y", epsilon=epsilon, alpha=alpha)
            parts = whole[1:-1, 1:] - np.outer(whole[0, 1:-1], whole[0, 1:])
            slopes = np.linalg.solve(parts[:, :-1] + np.diag(found.ridge()), parts[:, -1])
            truth = found.design.to_user(np.append(0.0, slopes))[1:]
            drawn = found.moments.simulate(tables, rng=SEED) / rows
            pool = Pool(found.moments.simulate(4_000, rng=SEED))
            found.moments.simulate = pool.draw  # type: ignore[method-assign]
            held, widths = [], []
            for products in exact + found.statistic.noise_matrices(drawn):
                pool.start = 0
                low, high = LinearFit(found, products).intervals(ALPHA)[1:].T
                held.append((low <= truth) & (truth <= high))
                widths.append(high - low)
            shares = ", ".join(f"{share:.3f}" for share in np.mean(held, axis=0))
            kind = f"ridge, alpha = {alpha:g}" if alpha else "linear"
            yield f"| {name} | {kind} | {shares} | {np.median(widths):.3g} |"


# --- the median -----------------------------------------------------------------------------------


def median_cells(name: str, tables: int) -> Iterator[Cell]:
    """Of the skewed rows of the mean, in [0, 100]: releases as they are drawn."""
    law, truth = MEANS["mean, skewed"][0], 10 * float(stats.gamma.ppf(0.5, 2))
    for rows in CHOSEN["rows"]:
        rng = np.random.default_rng([SEED, len(name), rows])
        schema = tdp.Schema({"x": tdp.Interval(0, 100)}, rows=rows)
        ask = {"interval": "population"}
        asked = [tdp.KNormMedian(schema, "x", epsilon=epsilon, **ask) for epsilon in EPSILONS]
        held, widths, usual = np.zeros(len(asked)), np.zeros(len(asked)), 0.0
        low, high = stats.binom.ppf([ALPHA / 2, 1 - ALPHA / 2], rows, 0.5).astype(int)
        for _ in range(tables):
            x = np.sort(law(rng, rows))
            usual += (x[min(high, rows - 1)] - x[max(low - 1, 0)]) / tables
            for place, median in enumerate(asked):
                release = median.release({"x": x}, confidence=1 - ALPHA, rng=rng)
                first, last = median.conf_int(release)
                held[place] += first <= truth <= last
                widths[place] += (last - first) / tables
        for place, epsilon in enumerate(EPSILONS):
            share = [float(held[place]) / tables]
            notes = "proved for every law of the rows"
            yield Cell(name, rows, epsilon, share, widths[place], usual, math.nan, notes)


# --- the page -------------------------------------------------------------------------------------

MODELS: dict[str, Callable[[str, int], Iterator[Cell]]] = {
    **dict.fromkeys(MEANS, mean_cells),
    **dict.fromkeys(SHARES, proportion_cells),
    "slope, one even column": regression_cells,
    "median, skewed": median_cells,
    **dict.fromkeys([*LINES][::-1], regression_cells),
}


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--only", default="")
    parser.add_argument("--tables", type=int, default=1_000)
    parser.add_argument("--rows", type=int, nargs="*", default=ROWS)
    parser.add_argument("--epsilon", type=Fraction, nargs="*", default=EPSILONS)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--rare", action="store_true", help="means that few rows decide, alone")
    parser.add_argument("--small", action="store_true", help="epsilon 0.05 and 500 rows alone")
    asked = parser.parse_args()
    if asked.small:
        for text in small_cells(asked.tables):
            print(text, flush=True)
        return
    CHOSEN.update(rows=tuple(asked.rows), epsilon=tuple(asked.epsilon))
    cells: list[Cell] = []
    print("\n".join(HEAD))
    asked_for = dict.fromkeys(RARE_MEANS, mean_cells) if asked.rare else MODELS
    for name, run in asked_for.items():
        if asked.only in name:
            start = time.process_time()
            for cell in run(name, asked.tables):
                cells.append(cell)
                print(cell.line(), flush=True)
                if asked.out:
                    asked.out.write_text(page(cells, asked.tables), encoding="utf-8")
            print(f"{name}: {time.process_time() - start:.0f} s of processor time", flush=True)


def page(cells: list[Cell], tables: int) -> str:
    """The results so far."""
    inside = sum(cell.inside() for cell in cells)
    return "\n".join(
        [
            "# Coverage on a grid",
            "",
            f"`benchmarks/coverage_grid.py`, tightdp {tdp.__version__}, numpy {np.__version__}, "
            f"Python {platform.python_version()}; {tables:,} tables a cell. Stated 95 %. The "
            f"standard error of a share is {_error(tables)}. Widths: in units of the column, over "
            "that of the usual interval without privacy on the same tables, and over that of the "
            "interval before.",
            "",
            f"Cells with all shares in [0.94, 0.97]: {inside} of {len(cells)}.",
            "",
            *HEAD,
            *(cell.line() for cell in cells),
            "",
        ]
    )


def _error(tables: int) -> str:
    return f"{math.sqrt(0.95 * 0.05 / tables):.4f}"


if __name__ == "__main__":
    main()
