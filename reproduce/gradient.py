"""Figures 1 and 2 of [3]: the K-norm gradient mechanism for linear and median regression.

All draws are exact where the papers run a Markov chain (E29), except for the exponential mechanism
of Figure 2, which is drawn from its density on a grid of a fifth of a standard deviation. Responses
are clipped at a public bound for the pictures; the papers divide them by the largest one, which is
not private (E26), and the numbers for that scaling are kept for comparison.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any, ClassVar, NamedTuple

import numpy as np

from reproduce.curves import draw_curves
from reproduce.experiment import (
    Cell,
    Experiment,
    Finding,
    Outcome,
    Settings,
    batches,
    pooled,
)
from reproduce.results import Quote, Row, mean_and_error, simulated_quote
from tightdp.errors import FloatArray
from tightdp.geometry.norm_balls import LpBall
from tightdp.mechanisms.gradient_regression import KNormLinearRegression
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.mechanisms.quantile_regression import KNormQuantileRegression
from tightdp.plots.canvas import axes_for
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema

TREATMENTS = ("clip", "largest")
_EPSILON, _B = 1.0, 1.0
_ERRATA = {"printed": "E22", "exponential printed": "E28a"}


def unit_schema(rows: int, features: int) -> Schema:
    """Columns x0, x1, ..., y, all in [-1, 1]."""
    names = [*(f"x{j}" for j in range(features)), "y"]
    return Schema({name: Interval(-1, 1) for name in names}, rows=rows, bits=16)


class _DistanceFigure(Experiment):
    """Mean distance of estimates to the truth against the number of rows."""

    reference: ClassVar[dict[tuple[str, str], dict[int, tuple[float, float]]]]
    series: ClassVar[dict[str, str]]
    about: str

    def cells(self, settings: Settings) -> list[Cell]:
        return [
            {"rows": int(rows), "batch": b, "replicates": size}
            for rows, replicates in settings["replicates"].items()
            for b, size in enumerate(batches(replicates, settings["batch"]))
        ]

    def rows(self, findings: Sequence[Finding]) -> list[Row]:
        out: list[Row] = []
        for (rows, name), values in pooled(findings, ["rows"]).items():
            treatment, series = name.split("/")
            mean, error = mean_and_error(values)
            row = {"treatment": treatment, "series": series, "rows": rows, "value": mean}
            out.append({**row, "error": error, "replicates": len(values)})
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        out = []
        for row in rows:
            treatment, series = row["treatment"], row["series"]
            expected = self.reference.get((treatment, series), {}).get(row["rows"])
            if expected is not None:
                erratum = _ERRATA.get(series, "E26" if treatment == "largest" else "")
                what = f"mean distance, {series}, {treatment}, {row['rows']:,} rows"
                ours = row["value"], row["error"]
                quote = simulated_quote(what, ours, expected, erratum=erratum)
                out.append(replace(quote, error=quote.error + self.rounding(series, row["rows"])))
        return out

    def rounding(self, series: str, rows: int) -> float:
        """How far the lattice of a mechanism may move a distance; nothing by default."""
        return 0.0

    def draw(self, rows: list[Row]) -> Any:
        ax = axes_for(None, (8.0, 6.4))
        clipped = [row for row in rows if row["treatment"] == "clip"]
        draw_curves(ax, clipped, x="rows", series=self.series)
        ax.set_xlabel("rows")
        ax.set_ylabel("mean distance to the true coefficients")
        ax.set_title(self.about, pad=10)
        return ax.figure


# --- Figure 1: linear regression ------------------------------------------------------------------

_D = 12
LINEAR_TRUTH = np.array([0.0, *(-1 + 2 * np.arange(_D - 1) / (_D - 1))])  # intercept, slopes
LINEAR_CLIP = 8.0
_BLOCK = 1_000_000


class NormalEquations(NamedTuple):
    """What every mechanism of Figure 1 reads of a table."""

    gram: FloatArray
    cross: dict[str, FloatArray]
    scale: dict[str, float]


def normal_equations(rows: int, rng: RandomSource) -> NormalEquations:
    """Sums of a table by Algorithm 1 of [3], block by block."""
    gram, clipped, raw, largest = np.zeros((_D, _D)), np.zeros(_D), np.zeros(_D), 0.0
    for start in range(0, rows, _BLOCK):
        size = min(_BLOCK, rows - start)
        x = np.column_stack([np.ones(size), 2 * rng.uniform((size, _D - 1)) - 1])
        y = x @ LINEAR_TRUTH + rng.normal(size)
        gram += x.T @ x
        raw += x.T @ y
        clipped += x.T @ np.clip(y, -LINEAR_CLIP, LINEAR_CLIP)
        largest = max(largest, float(np.abs(y).max()))
    cross = {"clip": clipped / LINEAR_CLIP, "largest": raw / largest}
    return NormalEquations(gram, cross, {"clip": LINEAR_CLIP, "largest": largest})


def gradient_draw(
    mechanism: KNormLinearRegression, gram: FloatArray, cross: FloatArray, rng: RandomSource
) -> FloatArray:
    """A draw from sums instead of rows."""
    unit = float(1 << (2 * mechanism.rows.schema.bits))
    matrix = [[round(float(v) * unit) for v in row] for row in gram]
    target = [round(float(v) * unit) << mechanism.grid for v in cross]
    return mechanism.coefficients(mechanism.sampler(matrix, target).draw(rng))


def objective_draw(
    mechanism: ObjectivePerturbation, gram: FloatArray, cross: FloatArray, rng: RandomSource
) -> FloatArray:
    """A draw from twelve rows that have the same sum of squares, up to a constant."""
    factor: FloatArray = np.asarray(np.linalg.cholesky(gram), dtype=np.float64)
    target: FloatArray = np.asarray(np.linalg.solve(factor, cross), dtype=np.float64)
    return mechanism.scaled(mechanism.perturbed(factor.T, target, mechanism.draw_noise(rng)))


def truncated_normal(
    mean: FloatArray, precision: FloatArray, ball: LpBall, rng: RandomSource
) -> FloatArray:
    """An exact draw of a normal law kept in a ball: from the law itself, or from the ball."""
    root = np.linalg.cholesky(precision)
    size = 64
    while True:
        normal = mean + np.linalg.solve(root.T, rng.normal((len(mean), size))).T
        kept = normal[np.asarray(ball.gauge(normal)) <= 1]
        if len(kept):
            return np.asarray(kept[0])
        # many misses: the law is wide beside the ball, whose points are then kept often
        even = ball.sample(size, rng=rng)
        away = ((even - mean) @ root) ** 2
        kept = even[np.log(rng.uniform(size)) < -away.sum(axis=1) / 2]
        if len(kept):
            return np.asarray(kept[0])
        size = min(2 * size, 4096)


class LinearFigure(_DistanceFigure):
    """Figure 1: linear regression with twelve coefficients."""

    name = "kng-figure-1"
    title = "Linear regression by the K-norm gradient mechanism and its rivals"
    source = "[3], Figure 1"
    about = "linear regression, 12 coefficients, epsilon 1, responses clipped at 8"
    quick: ClassVar[Settings] = {
        "replicates": {
            "100": 100,
            "1000": 100,
            "10000": 100,
            "100000": 60,
            "1000000": 20,
        },
        "batch": 10,
    }
    full: ClassVar[Settings] = {
        "replicates": {
            "100": 400,
            "1000": 400,
            "10000": 400,
            "100000": 400,
            "1000000": 100,
            "10000000": 100,
        },
        "batch": 10,
    }
    series: ClassVar[dict[str, str]] = {
        "exponential": "exponential mechanism",
        "printed": "K-norm gradient as printed",
        "objective": "objective perturbation",
        "gradient": "K-norm gradient, corrected constant",
        "least squares": "least squares, not private",
    }
    reference: ClassVar[dict[tuple[str, str], dict[int, tuple[float, float]]]] = {
        ("largest", "least squares"): {
            100: (0.6043, 0.0067), 1000: (0.1821, 0.0020), 10_000: (0.05782, 0.00058),
            100_000: (0.01784, 0.00019), 1_000_000: (0.00556, 0.00012)},
        ("largest", "gradient"): {
            100: (2.369, 0.019), 1000: (1.881, 0.021), 10_000: (0.3456, 0.0049),
            100_000: (0.04317, 0.00063), 1_000_000: (0.00702, 0.00015)},
        ("largest", "printed"): {
            100: (2.382, 0.020), 1000: (2.207, 0.022), 10_000: (0.6785, 0.0105),
            100_000: (0.07693, 0.00116), 1_000_000: (0.01009, 0.00026)},
        ("largest", "objective"): {
            100: (2.966, 0.031), 1000: (1.912, 0.022), 10_000: (0.3426, 0.0057),
            100_000: (0.04329, 0.00059), 1_000_000: (0.00699, 0.00016)},
        ("largest", "exponential"): {
            100: (2.220, 0.019), 1000: (1.627, 0.018), 10_000: (0.6524, 0.0068),
            100_000: (0.2377, 0.0026), 1_000_000: (0.08025, 0.00157)},
        ("clip", "gradient"): {
            100: (3.364, 0.028), 1000: (2.566, 0.027), 10_000: (0.4830, 0.0077),
            100_000: (0.05120, 0.00076)},
        ("clip", "printed"): {
            100: (3.387, 0.029), 1000: (2.918, 0.027), 10_000: (0.9333, 0.0140),
            100_000: (0.09323, 0.00139)},
        ("clip", "objective"): {
            100: (5.091, 0.041), 1000: (2.976, 0.027), 10_000: (0.4765, 0.0078),
            100_000: (0.05138, 0.00072)},
        ("clip", "exponential"): {
            100: (3.276, 0.029), 1000: (2.428, 0.024), 10_000: (0.9221, 0.0098),
            100_000: (0.2909, 0.0030)},
    }  # fmt: skip

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        schema, ball = unit_schema(cell["rows"], _D - 1), LpBall(_D, 1, _B)
        gradient = KNormLinearRegression(schema, epsilon=_EPSILON)
        printed = KNormLinearRegression(schema, epsilon=_EPSILON / 2)  # spends no more (E22)
        objective = ObjectivePerturbation(
            schema,
            loss="squared",
            epsilon=_EPSILON,
            noise_share=0.5,
            accounting="split",
            theta_set=ball,
        )
        out: dict[str, list[float]] = {}
        for _ in range(cell["replicates"]):
            gram, crosses, scales = normal_equations(cell["rows"], rng)
            for treatment in TREATMENTS:
                cross, scale = crosses[treatment], scales[treatment]
                plain = np.asarray(np.linalg.solve(gram, cross), dtype=np.float64)
                found = {
                    "least squares": plain,
                    "gradient": gradient_draw(gradient, gram, cross, rng),
                    "printed": gradient_draw(printed, gram, cross, rng),
                    "objective": objective_draw(objective, gram, cross, rng),
                    "exponential": truncated_normal(
                        plain, _EPSILON / (1 + _B) ** 2 * gram, ball, rng
                    ),
                }
                for series, theta in found.items():
                    away = float(np.linalg.norm(scale * theta - LINEAR_TRUTH))
                    out.setdefault(f"{treatment}/{series}", []).append(away)
        return out


# --- Figure 2: median regression ------------------------------------------------------------------

MEDIAN_TRUTH = np.array([0.0, -1.0])  # intercept, slope
MEDIAN_CLIP = 5.0
_GRID = 61
_WIDE = 6.5


def absolute_losses(x: FloatArray, y: FloatArray, a: FloatArray, b: FloatArray) -> FloatArray:
    """Half the sum of abs(y - a_i - b_j x) for all i, j, by sorting once for each j.

    >>> absolute_losses(np.ones(2), np.array([0.0, 3.0]), np.array([1.0]), np.array([0.0, 1.0]))
    array([[1.5, 1.5]])
    """
    out = np.empty((len(a), len(b)))
    for j, slope in enumerate(b):
        rest = np.sort(y - slope * x)
        below = np.searchsorted(rest, a)
        upto = np.concatenate([[0.0], np.cumsum(rest)])
        out[:, j] = a * (2 * below - len(rest)) + upto[-1] - 2 * upto[below]
    return out / 2


def median_line(x: FloatArray, y: FloatArray) -> FloatArray:
    """(intercept, slope) with the least sum of absolute residuals, by grids that shrink."""
    design = np.column_stack([np.ones(len(x)), x])
    middle = np.asarray(np.linalg.lstsq(design, y, rcond=None)[0], dtype=np.float64)
    half = 12 / np.sqrt(len(x))  # many standard errors
    while half > 1e-6:
        a, b = (centre + half * np.linspace(-1, 1, 9) for centre in middle)
        losses = absolute_losses(x, y, a, b)
        i, j = np.unravel_index(int(losses.argmin()), losses.shape)
        middle, half = np.array([a[i], b[j]]), half / 2.5
    return middle


def exponential_rate(epsilon: float, bound: float) -> float:
    """The rate at which the exponential mechanism spends epsilon on a median regression (E28a).

    Half of abs(y - a - b x) lies between 0 and (1 + B)/2 if y lies in [-1, 1] and abs(a) + abs(b)
    is at most B, and a replaced row moves the sum by as much: epsilon over twice that.

    >>> exponential_rate(1.0, 1.0)
    0.5
    """
    return epsilon / (2 * 0.5 * (1 + bound))


def line_rates(epsilon: float, bound: float) -> dict[str, float]:
    """The rates of the two exponential mechanisms of the figure: corrected, and as printed.

    The print spends half of epsilon (E28a).

    >>> line_rates(1.0, 1.0)
    {'exponential': 0.5, 'exponential printed': 0.25}
    """
    rate = exponential_rate(epsilon, bound)
    return {"exponential": rate, "exponential printed": rate / 2}


def exponential_line(
    x: FloatArray, y: FloatArray, rate: float, plain: FloatArray, rng: RandomSource
) -> FloatArray:
    """A draw with weight exp(-rate * loss) on the l1 ball, from a grid as fine as the law."""
    density = 0.4 / max(float(np.std(y - plain[0] - plain[1] * x)), 1e-9)  # near the median
    spread = 1 / np.sqrt(rate * len(y) * density * np.array([1.0, 1 / 3]))
    low = np.clip(plain - _WIDE * spread, -1, 1)
    high = np.clip(plain + _WIDE * spread, -1, 1)
    a, b = (np.linspace(*ends, _GRID) for ends in zip(low, high, strict=True))
    losses = absolute_losses(x, y, a, b)
    weights = np.exp(-rate * (losses - losses.min()))
    weights[np.abs(a)[:, None] + np.abs(b)[None, :] > 1] = 0.0
    steps = np.array([a[1] - a[0], b[1] - b[0]])
    while True:
        i, j = np.unravel_index(int(rng.categorical(weights.ravel(), 1)[0]), weights.shape)
        found = np.array([a[i], b[j]]) + steps * (rng.uniform(2) - 0.5)
        if np.abs(found).sum() <= 1:
            return found


class MedianFigure(_DistanceFigure):
    """Figure 2: median regression with two coefficients."""

    name = "kng-figure-2"
    title = "Median regression by the K-norm gradient and exponential mechanisms"
    source = "[3], Figure 2"
    about = "median regression, 2 coefficients, epsilon 1, responses clipped at 5"
    quick: ClassVar[Settings] = {
        "replicates": {"10": 300, "100": 200, "1000": 100, "10000": 60, "100000": 20},
        "batch": 20,
    }
    full: ClassVar[Settings] = {
        "replicates": {"10": 1000, "100": 1000, "1000": 400, "10000": 400, "100000": 200},
        "batch": 20,
    }
    series: ClassVar[dict[str, str]] = {
        "exponential printed": "exponential mechanism as printed",
        "exponential": "exponential mechanism, corrected constant",
        "noise": "K-norm gradient, distance to the estimate",
        "gradient": "K-norm gradient",
        "median": "median regression, not private",
    }
    reference: ClassVar[dict[tuple[str, str], dict[int, tuple[float, float]]]] = {
        ("largest", "median"): {
            10: (0.7413, 0.0149), 100: (0.2240, 0.0042), 1000: (0.06967, 0.00183),
            10_000: (0.02271, 0.00064), 100_000: (0.00630, 0.00024)},
        ("largest", "gradient"): {
            10: (1.319, 0.023), 100: (0.3803, 0.0096), 1000: (0.07227, 0.00197),
            10_000: (0.02282, 0.00066), 100_000: (0.00632, 0.00024)},
        ("largest", "noise"): {
            10: (1.440, 0.029), 100: (0.3289, 0.0098), 1000: (0.02700, 0.00105),
            10_000: (0.00272, 0.00011), 100_000: (0.00027, 0.000015)},
        ("largest", "exponential printed"): {
            10: (1.322, 0.022), 100: (1.035, 0.020), 1000: (0.3442, 0.0099),
            10_000: (0.1212, 0.0034), 100_000: (0.0426, 0.0016)},
        ("largest", "exponential"): {
            10: (1.275, 0.021), 100: (0.7509, 0.0133), 1000: (0.2714, 0.0075),
            10_000: (0.0832, 0.0023), 100_000: (0.0290, 0.0011)},
    }  # fmt: skip

    def rounding(self, series: str, rows: int) -> float:
        """Half the diagonal of a cell of the lattice, which work that is sure to end makes coarser
        for more rows: from 100,000 on coarser than the noise."""
        if series != "noise":
            return 0.0
        grid = KNormQuantileRegression(unit_schema(rows, 1), epsilon=_EPSILON).grid
        return float(MEDIAN_CLIP * np.sqrt(2) * 0.5 ** (grid + 1))

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        rows = cell["rows"]
        mechanism = KNormQuantileRegression(unit_schema(rows, 1), epsilon=_EPSILON)
        rates = line_rates(_EPSILON, _B)
        out: dict[str, list[float]] = {}
        for _ in range(cell["replicates"]):
            x = 2 * rng.uniform(rows) - 1
            y = MEDIAN_TRUTH[0] + MEDIAN_TRUTH[1] * x + rng.normal(rows)
            plain = median_line(x, y)
            for treatment, scale in (("clip", MEDIAN_CLIP), ("largest", float(np.abs(y).max()))):
                scaled = np.clip(y / scale, -1, 1)
                release = mechanism.release({"x0": x, "y": scaled}, rng=rng)
                inside = plain / scale
                found = {
                    "median": plain,
                    "gradient": scale * release.value,
                }
                for series, rate in rates.items():
                    found[series] = scale * exponential_line(x, scaled, rate, inside, rng)
                away = {k: float(np.linalg.norm(v - MEDIAN_TRUTH)) for k, v in found.items()}
                away["noise"] = float(np.linalg.norm(found["gradient"] - plain))
                for series, distance in away.items():
                    out.setdefault(f"{treatment}/{series}", []).append(distance)
        return out
