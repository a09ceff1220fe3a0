"""Figure 5 of [1]: linear regression on house sales, from noisy moments.

The paper truncates at empirical quantiles, which is not private (E12): the picture uses public
bounds, and the numbers for quantiles are kept for comparison.
"""

from __future__ import annotations

import csv
import gzip
import math
from collections.abc import Sequence
from datetime import date
from pathlib import Path
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
from reproduce.regression import SERIES, least_squares, moment_balls, pseudo_solutions
from reproduce.results import Quote, Row, median_and_error, simulated_quote
from reproduce.tables import find_table
from tightdp.errors import FloatArray
from tightdp.geometry.moment_bodies import regression_moments
from tightdp.noise.knorm import KNormNoise
from tightdp.plots.canvas import axes_for
from tightdp.randomness import RandomSource

_FEATURES = 12
_TABLE = "housing/seattle_sales.csv.gz"
# Public facts of the table: what such a sale can be, chosen without looking at it.
_BOUNDS = {
    "lot_sf": (math.log(500.0), math.log(100_000.0)),
    "tot_sf": (math.log(300.0), math.log(3000.0)),
    "latitude": (47.45, 47.78),
    "longitude": (-122.45, -122.22),
    "days": (date(2010, 1, 1).toordinal(), date(2017, 1, 1).toordinal()),
    "age": (0.0, 120.0),
    "beds": (0.0, 8.0),
    "sale_price": (math.log(105e3), math.log(905e3)),
}
HOUSING_EPSILONS = [0.5, 1.0, 2.0, 4.0, 8.0, 16.0]
# Independent medians of 300 draws, bounds from quantiles as in the paper.
HOUSING_REFERENCE = {
    1.0: {"l1": 1.41, "linf": 0.88, "cylinder": 0.92, "triangle": 0.75},
    2.0: {"l1": 1.25, "linf": 0.49, "cylinder": 0.38, "triangle": 0.32},
    4.0: {"l1": 0.66, "linf": 0.22, "cylinder": 0.18, "triangle": 0.15},
    16.0: {"l1": 0.139, "linf": 0.054, "cylinder": 0.046, "triangle": 0.038},
}


def read_sales(path: Path) -> dict[str, FloatArray]:
    """Columns of sales with a price of 105 to 905 thousand and at most 3000 square feet."""
    with gzip.open(path, "rt", encoding="utf-8") as lines:
        kept = [
            sale
            for sale in csv.DictReader(lines)
            if 105e3 <= float(sale["sale_price"]) <= 905e3 and float(sale["tot_sf"]) <= 3000
        ]
    columns = {
        name: np.array([float(sale[name]) for sale in kept])
        for name in ("latitude", "longitude", "age", "beds", "district")
    }
    for name in ("lot_sf", "tot_sf", "sale_price"):
        columns[name] = np.log([float(sale[name]) for sale in kept])
    columns["days"] = np.array(
        [float(date.fromisoformat(sale["sale_date"]).toordinal()) for sale in kept]
    )
    return columns


def generated_sales(rows: int, rng: RandomSource) -> dict[str, FloatArray]:
    """Columns of the same kind, without the table: effects of size, place and age on the price."""

    def between(name: str, middle: float, spread: float) -> FloatArray:
        low, high = _BOUNDS[name]
        return np.clip(low + (high - low) * (middle + spread * rng.normal(rows)), low, high)

    out = {
        "lot_sf": between("lot_sf", 0.4, 0.1),
        "tot_sf": between("tot_sf", 0.75, 0.12),
        "latitude": between("latitude", 0.6, 0.25),
        "longitude": between("longitude", 0.45, 0.2),
        "days": between("days", 0.5, 0.3),
        "age": between("age", 0.5, 0.25),
        "beds": np.round(between("beds", 0.4, 0.1)),
        "district": np.floor(6 * rng.uniform(rows)),
    }
    low, high = _BOUNDS["sale_price"]
    score = 0.5 * (out["tot_sf"] - _BOUNDS["tot_sf"][0]) + 1.2 * (out["latitude"] - 47.6)
    price = low + 0.55 * (high - low) + score - 0.5 + 0.05 * out["district"]
    out["sale_price"] = np.clip(price + 0.3 * rng.normal(rows), low, high)
    return out


def scaled_sales(columns: dict[str, FloatArray], bounds: str) -> tuple[FloatArray, FloatArray]:
    """Twelve features and the log price in [-1, 1], by public bounds or by quantiles."""

    def scaled(name: str) -> FloatArray:
        low, high = _BOUNDS[name]
        if bounds == "quantiles":  # as in the paper: not private
            low, high = np.quantile(columns[name], [1e-4, 1 - 1e-4])
        return np.asarray(2 * (np.clip(columns[name], low, high) - low) / (high - low) - 1)

    numeric = [scaled(name) for name in _BOUNDS if name != "sale_price"]
    levels = [2.0 * (columns["district"] == k) - 1 for k in range(5)]
    return np.column_stack([*numeric, *levels]), scaled("sale_price")


class HousingFigure(Experiment):
    """Distance of private coefficients to least squares, house sales."""

    name = "knorm-figure-5"
    title = "Linear regression on house sales"
    source = "[1], Figure 5"
    quick: ClassVar[Settings] = {"epsilons": HOUSING_EPSILONS, "draws": 300, "batch": 100}
    full: ClassVar[Settings] = {"epsilons": HOUSING_EPSILONS, "draws": 1000, "batch": 100}

    def cells(self, settings: Settings) -> list[Cell]:
        path = find_table(_TABLE)
        return [
            {
                "data": "generated" if path is None else "sales",
                "bounds": bounds,
                "batch": b,
                "draws": size,
                "epsilons": list(settings["epsilons"]),
            }
            for bounds in ("public", "quantiles")
            for b, size in enumerate(batches(settings["draws"], settings["batch"]))
        ]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        path = find_table(_TABLE)
        columns = generated_sales(37_296, rng) if path is None else read_sales(path)
        x, y = scaled_sales(columns, cell["bounds"])
        exact, plain = regression_moments(x, y).sum(axis=0), least_squares(x, y)[0]
        out: dict[str, Any] = {"length": [float(np.linalg.norm(plain))], "rows": [len(x)]}
        for series, ball in moment_balls(_FEATURES).items():
            # K-norm noise at epsilon is noise at 1, divided by epsilon
            draws = KNormNoise(ball, epsilon=1.0).sample(cell["draws"], rng=rng)
            for epsilon in cell["epsilons"]:
                found = pseudo_solutions(exact + draws / epsilon, len(x), _FEATURES)
                away = np.linalg.norm(found - plain, axis=1)
                out[f"{series}/{epsilon!r}"] = [float(d) for d in away]
        return out

    def rows(self, findings: Sequence[Finding]) -> list[Row]:
        out: list[Row] = []
        for (data, bounds, name), values in pooled(findings, ["data", "bounds"]).items():
            row: Row = {"data": data, "bounds": bounds}
            if "/" not in name:
                out.append({**row, "series": name, "epsilon": None, "value": values[0]})
                continue
            series, epsilon = name.split("/")
            median, error = median_and_error(values)
            level = {"epsilon": float(epsilon), "value": median, "error": error}
            out.append({**row, "series": series, **level, "draws": len(values)})
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        here = [r for r in rows if r["data"] == "sales" and r["bounds"] == "quantiles"]
        out = []
        for row in here:
            expected = HOUSING_REFERENCE.get(row["epsilon"] or 0.0, {}).get(row["series"])
            if expected is not None:
                ours = row["value"], row["error"]
                theirs = row["error"] * math.sqrt(row["draws"] / 300) + 5e-3 * expected
                what = f"median distance, {row['series']}, epsilon {row['epsilon']:g}"
                out.append(simulated_quote(what, ours, (expected, theirs), erratum="E12"))
            if row["series"] == "rows":
                out.append(Quote("rows after cleaning", float(row["value"]), 37_296, 0.0))
            if row["series"] == "length":
                out.append(Quote("length of least squares", row["value"], 0.89, 0.005, "about .82"))
        return out

    def draw(self, rows: list[Row]) -> Any:
        ax = axes_for(None, (8.0, 6.2))
        public = [r for r in rows if r["bounds"] == "public"]
        draw_curves(ax, [r for r in public if r["epsilon"]], x="epsilon", series=SERIES)
        length = next(r["value"] for r in public if r["series"] == "length")
        count = next(r["value"] for r in public if r["series"] == "rows")
        level_line(ax, length, "zero vector")
        ax.set_ylabel("median distance to least squares")
        what = "house sales" if public[0]["data"] == "sales" else "generated sales"
        ax.set_title(f"{count:,} {what}, 12 features, public bounds", pad=10)
        return ax.figure
