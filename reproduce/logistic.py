"""Figure 3 of [1]: objective perturbation for logistic regression with three norms.

Algorithm 3 there, with the ridge corrected (E1), an exactly paid-for minimiser (E9) and n = 10,000
rows, which is what the quoted errors belong to (E7). Costs are counted as in the paper, the noise
and the determinant each at its worst; ``joint`` shows what counting them together gains (E11a).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from reproduce.curves import draw_curves, level_line
from reproduce.experiment import (
    Cell,
    Experiment,
    Finding,
    Outcome,
    Settings,
    batches,
    pooled,
)
from reproduce.results import Quote, Row, median_and_error, simulated_quote
from tightdp.convex.margin_losses import LogisticLoss
from tightdp.convex.minimiser import minimise
from tightdp.convex.objectives import Objective
from tightdp.convex.penalties import read_penalty
from tightdp.errors import FloatArray
from tightdp.mechanisms.objective import ObjectivePerturbation
from tightdp.plots.canvas import SYMBOLS, panels_for
from tightdp.randomness import RandomSource
from tightdp.schema import Category, Interval, Schema

BETA = np.array([0.0, -1.0, -0.5, -0.25, 0.0, 0.75, 1.5])
EPSILONS = [1 / 64, 1 / 32, 1 / 16, 1 / 8, 1 / 4, 1 / 2, 1.0, 2.0]
SERIES = {
    "l1": f"{SYMBOLS['l1']}, half of the budget for the noise",
    "l2": f"{SYMBOLS['l2']}, half",
    "linf": f"{SYMBOLS['linf']}, half",
    "linf*": f"{SYMBOLS['linf']}, 0.85",
    "joint": f"{SYMBOLS['linf']}, costs counted together",
}
_OPTIONS: dict[str, dict[str, Any]] = {
    "l1": {"noise": "l1", "noise_share": 0.5},
    "l2": {"noise": "l2", "noise_share": 0.5},
    "linf": {"noise": "linf", "noise_share": 0.5},
    "linf*": {"noise": "linf", "noise_share": 0.85},
    "joint": {"noise": "linf", "noise_share": "auto", "accounting": "joint"},
}

# Independent simulation: medians of 400 (1e4 rows) and 100 (1e5 rows) replicates, standard errors.
REFERENCE: dict[int, dict[str, list[tuple[float, float]]]] = {
    10_000: {
        "l1": [(16.70, 0.63), (8.151, 0.443), (2.664, 0.120), (1.177, 0.031), (0.560, 0.022),
               (0.306, 0.006), (0.183, 0.003), (0.127, 0.002)],
        "l2": [(10.80, 0.48), (4.246, 0.263), (1.819, 0.062), (0.876, 0.027), (0.459, 0.011),
               (0.243, 0.005), (0.155, 0.004), (0.117, 0.002)],
        "linf": [(4.636, 0.261), (2.408, 0.081), (1.118, 0.025), (0.583, 0.017), (0.314, 0.008),
                 (0.182, 0.004), (0.126, 0.002), (0.110, 0.002)],
        "linf*": [(1.590, 0.027), (1.129, 0.019), (0.733, 0.014), (0.427, 0.009), (0.258, 0.005),
                  (0.162, 0.003), (0.119, 0.002), (0.105, 0.002)],
        "estimate": [(0.1011, 0.0023)] * 8,
    },
    100_000: {
        "l1": [(0.866, 0.045), (0.448, 0.024), (0.232, 0.014), (0.137, 0.005), (0.068, 0.003),
               (0.043, 0.002), (0.035, 0.001), (0.033, 0.001)],
        "l2": [(0.731, 0.058), (0.345, 0.015), (0.188, 0.007), (0.112, 0.005), (0.056, 0.002),
               (0.041, 0.002), (0.034, 0.001), (0.032, 0.001)],
        "linf": [(0.463, 0.025), (0.219, 0.010), (0.137, 0.007), (0.073, 0.004), (0.047, 0.002),
                 (0.034, 0.001), (0.032, 0.001), (0.032, 0.001)],
        "linf*": [(0.361, 0.016), (0.191, 0.006), (0.108, 0.005), (0.061, 0.002), (0.041, 0.002),
                  (0.035, 0.001), (0.032, 0.001), (0.031, 0.001)],
        "estimate": [(0.0311, 0.0009)] * 8,
    },
}  # fmt: skip


def algorithm_3(rows: int, rng: RandomSource) -> tuple[FloatArray, FloatArray]:
    """Uniform rows and Bernoulli responses."""
    x = 2 * rng.uniform((rows, len(BETA))) - 1
    return x, (rng.uniform(rows) < 1 / (1 + np.exp(-(x @ BETA)))).astype(np.float64)


def estimate(x: FloatArray, y: FloatArray) -> FloatArray:
    """The maximum likelihood estimate, without privacy, up to a ridge of no consequence."""
    nothing = read_penalty(0.0, None, None, len(BETA))
    objective = Objective(x, y, LogisticLoss(), 1e-6, np.zeros(len(BETA)), nothing)
    return np.asarray(minimise(objective, 1e-7).theta)


class LogisticFigure(Experiment):
    """Median distance of private coefficients to the true ones."""

    name = "knorm-figure-3"
    title = "Logistic regression by objective perturbation"
    source = "[1], Figure 3"
    quick: ClassVar[Settings] = {
        "rows": [10_000],
        "epsilons": EPSILONS,
        "replicates": 100,
        "batch": 20,
    }
    full: ClassVar[Settings] = {
        "rows": [10_000, 100_000],
        "epsilons": EPSILONS,
        "replicates": 400,
        "batch": 20,
    }

    def cells(self, settings: Settings) -> list[Cell]:
        sizes = batches(settings["replicates"], settings["batch"])
        return [
            {"rows": n, "batch": b, "replicates": size, "epsilons": list(settings["epsilons"])}
            for n in settings["rows"]
            for b, size in enumerate(sizes)
        ]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        columns = {f"x{j}": Interval(-1, 1) for j in range(len(BETA))}
        schema = Schema({**columns, "y": Category(["0", "1"], other="0")}, rows=cell["rows"])
        mechanisms = {
            f"{series} {epsilon!r}": ObjectivePerturbation(
                schema,
                epsilon=epsilon,
                fit_intercept=False,
                **{"accounting": "split", **_OPTIONS[series]},
            )
            for epsilon in cell["epsilons"]
            for series in _OPTIONS
        }
        out: dict[str, list[float]] = {name: [] for name in ("estimate", *mechanisms)}
        for _ in range(cell["replicates"]):
            x, y = algorithm_3(cell["rows"], rng)
            out["estimate"].append(float(np.linalg.norm(estimate(x, y) - BETA)))
            for name, mechanism in mechanisms.items():
                found = mechanism.scaled(mechanism.perturbed(x, y, mechanism.draw_noise(rng)))
                out[name].append(float(np.linalg.norm(found - BETA)))
        return out

    def rows(self, findings: Sequence[Finding]) -> list[Row]:
        out: list[Row] = []
        for (rows, name), values in pooled(findings, ["rows"]).items():
            series, _, epsilon = name.partition(" ")
            median, error = median_and_error(values)
            row = {"rows": rows, "series": series, "epsilon": float(epsilon) if epsilon else None}
            out.append({**row, "value": median, "error": error, "replicates": len(values)})
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        out = []
        paper = {("linf", 1 / 16): "about 1", ("l1", 1 / 8): "about 1"}
        for row in rows:
            series, epsilon = row["series"], row["epsilon"]
            known = REFERENCE.get(row["rows"], {}).get(series)
            if known is None:
                continue
            at = 0 if epsilon is None else EPSILONS.index(epsilon)
            text = paper.get((series, epsilon), "") if row["rows"] == 10_000 else ""
            where = "" if epsilon is None else f", epsilon {epsilon:g}"
            out.append(
                simulated_quote(
                    f"median error, {series}, {row['rows']:,} rows{where}",
                    (row["value"], row["error"]),
                    known[at],
                    paper=text,
                    erratum="E7" if text else "E1",
                )
            )
        zero = float(np.linalg.norm(BETA))
        return [*out, Quote("distance of the zero vector", zero, 2.0310, 5e-5)]

    def draw(self, rows: list[Row]) -> Any:
        sizes = sorted({row["rows"] for row in rows})
        panels = np.atleast_1d(panels_for(None, len(sizes), (7.6 * len(sizes), 6.0)))
        for ax, size in zip(panels, sizes, strict=True):
            here = [row for row in rows if row["rows"] == size]
            private = [row for row in here if row["epsilon"] is not None]
            draw_curves(ax, private, x="epsilon", series=SERIES)
            plain = next(row["value"] for row in here if row["series"] == "estimate")
            level_line(ax, plain, "without privacy", above=False)
            level_line(ax, float(np.linalg.norm(BETA)), "zero vector")
            ax.set_ylabel("median distance to the true coefficients")
            ax.set_title(f"{size:,} rows, 7 coefficients", pad=10)
        return panels[0].figure
