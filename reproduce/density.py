"""The comparison of the class notes: a histogram with noise, or a sample by the KS distance.

After [4]: rows on [0, 1] are released as a distribution function, from noisy counts or from a
synthetic sample that is drawn with weight exp(-epsilon n KS / 2). Noisy counts need scale
2/epsilon, not m/epsilon for m cells (E33); the sample must stay small against n (E35).
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

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
from reproduce.results import Quote, Row, mean_and_error, order_quote, simulated_quote
from tightdp.data.histograms import Histogram
from tightdp.errors import FloatArray
from tightdp.geometry.norm_balls import LpBall
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.mechanisms.kolmogorov import KolmogorovSample
from tightdp.noise.line_laws import Laplace
from tightdp.plots.canvas import panels_for
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema

SERIES = {
    "printed": "counts, Laplace of scale m/epsilon as printed",
    "laplace": "counts, Laplace of scale 2/epsilon",
    "hull": "counts, noise of the hull",
    "sample": "sample by KS distance, k = n^(2/3)",
    "rows": "all rows, not private",
}
_SIZES = {22: 0.037, 100: 0.178, 1000: 0.288, 100_000: 0.300}


def true_function(t: FloatArray) -> FloatArray:
    """The distribution function of the mean of two uniforms."""
    return np.where(t < 0.5, 2 * t**2, 1 - 2 * (1 - t) ** 2)


def mean_distance(rows: int, share: float, epsilon: float, size: int) -> float:
    """E KS of a sample on two cells, exactly: a share of the rows lies in the first.

    >>> round(mean_distance(100, 0.8, 1.0, 22), 3)
    0.037
    """
    from scipy.special import gammaln

    first = np.arange(size + 1)
    away = np.abs(first / size - share)
    logs = -gammaln(first + 1) - gammaln(size - first + 1) - epsilon * rows * away / 2
    weights = np.exp(logs - logs.max())
    return float(weights @ away / weights.sum())


def squared_error(rows: int, epsilon: float, mean: float, factor: float = 1.0) -> float:
    """Mean squared error of a normal law of variance factor/(n epsilon) around the mean on [0, 1].

    >>> round(squared_error(100, 0.5, 0.3), 6)
    0.018185
    """
    t = (np.arange(200_000) + 0.5) / 200_000
    weights = np.exp(-rows * epsilon * (t - mean) ** 2 / (2 * factor))
    return float(weights @ (t - mean) ** 2 / weights.sum())


class DensityComparison(Experiment):
    """Distance of released distribution functions to the true one."""

    name = "notes-density"
    title = "A distribution function: noisy counts or a synthetic sample"
    source = "class notes after [4], comparison of density estimates"
    quick: ClassVar[Settings] = {
        "replicates": {"100": 100, "1000": 100, "10000": 40},
        "cells": 32,
        "epsilon": 0.5,
        "batch": 20,
        "draws": 400,
    }
    full: ClassVar[Settings] = {
        "replicates": {"100": 400, "1000": 400, "10000": 400, "100000": 100},
        "cells": 32,
        "epsilon": 0.5,
        "batch": 20,
        "draws": 4000,
    }

    def cells(self, settings: Settings) -> list[Cell]:
        common = {"cells": settings["cells"], "epsilon": settings["epsilon"]}
        functions: list[Cell] = [
            {"rows": int(rows), "batch": b, "replicates": size, **common}
            for rows, replicates in settings["replicates"].items()
            for b, size in enumerate(batches(replicates, settings["batch"]))
        ]
        sizes: list[Cell] = [{"size": k, "draws": settings["draws"]} for k in _SIZES if k <= 100]
        return [*functions, *sizes]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        return _two_cells(cell, rng) if "size" in cell else _functions(cell, rng)

    def rows(self, findings: Sequence[Finding]) -> list[Row]:
        functions = [finding for finding in findings if "rows" in finding[0]]
        out: list[Row] = []
        for (rows, series), values in pooled(functions, ["rows"]).items():
            mean, error = mean_and_error(values)
            row = {"series": series, "rows": rows, "value": mean, "error": error}
            out.append({**row, "replicates": len(values)})
        for cell, outcome in findings:
            if "size" in cell:
                mean, error = mean_and_error(outcome["distance"])
                drawn = {"series": "drawn", "size": cell["size"], "value": mean, "error": error}
                out.append(drawn)
        # 80 of 100 rows are a whole number of points where 5 divides k, and never between
        grid = sorted({*_SIZES, *(5 * 2**k for k in range(15))})
        for k in grid:
            exact = {"series": "two cells" if k % 5 == 0 else "other size", "size": k}
            out.append({**exact, "value": mean_distance(100, 0.8, 1.0, k), "error": 0.0})
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        out = []
        for row in rows:
            expected = _SIZES.get(row.get("size", 0))
            if expected is not None and row["series"] != "drawn":
                what = f"E KS of {row['size']:,} points, two cells, 100 rows"
                out.append(Quote(what, row["value"], expected, 5e-4, "falls with k", "E35"))
            elif expected is not None:
                what = f"the same for {row['size']} points, drawn"
                exact = mean_distance(100, 0.8, 1.0, row["size"])
                ours = row["value"], row["error"]
                out.append(simulated_quote(what, ours, (exact, 0.0), erratum="E35"))
        laplace = Laplace(epsilon=0.5, sensitivity=0.01).expected_loss(2)
        wide = Laplace(epsilon=0.25, sensitivity=0.01).expected_loss(2)
        normal, normal_2 = (squared_error(100, 0.5, 0.3, f) for f in (1.0, 2.0))
        slight = "slightly worse"
        return [
            *out,
            *_slopes(rows),
            Quote("squared error of a mean, Laplace", laplace, 0.0008, 1e-9),
            Quote("squared error of a mean, absolute loss", wide, 0.0032, 1e-9, slight, "E32"),
            Quote("squared error of a mean, squared loss", normal, 0.01818510, 1e-7, "", "E31"),
            Quote("the same at twice the variance", normal_2, 0.03153958, 1e-7, "", "E31"),
        ]

    def draw(self, rows: list[Row]) -> Any:
        panels = panels_for(None, 2, (14.0, 6.2))
        functions = [row for row in rows if "rows" in row]
        draw_curves(panels[0], functions, x="rows", series=SERIES, columns=1)
        panels[0].set_xlabel("rows")
        panels[0].set_ylabel("mean KS distance to the true distribution")
        panels[0].set_title("released distribution functions", pad=10)
        sizes = [row for row in rows if "size" in row]
        names = {
            "two cells": "exact, k a multiple of 5",
            "drawn": "drawn by the mechanism, k = 22 and 100",
        }
        draw_curves(panels[1], sizes, x="size", series=names, columns=1)
        panels[1].set_xlabel("points k of the sample")
        panels[1].set_ylabel("mean KS distance to the rows")
        panels[1].set_title("two cells, 100 rows, 80 in the first, epsilon 1", pad=10)
        return panels[0].figure


def _functions(cell: Cell, rng: RandomSource) -> Outcome:
    """KS distances of all ways of release for several tables."""
    rows, cells, epsilon = cell["rows"], cell["cells"], cell["epsilon"]
    schema = Schema({"x": Interval(0, 1)}, rows=rows)
    histogram = Histogram(schema, "x", cells)
    additive = {
        "printed": AdditiveMechanism(histogram, noise=LpBall(cells, 1, cells), epsilon=epsilon),
        "laplace": AdditiveMechanism(histogram, noise="l1", epsilon=epsilon),
        "hull": AdditiveMechanism(histogram, noise="hull", epsilon=epsilon),
    }
    size = math.ceil((epsilon * rows) ** (2 / 3))
    sample = KolmogorovSample(schema, "x", cells, epsilon=epsilon, size=size)
    truth = true_function(np.arange(1, cells) / cells)
    out: dict[str, list[float]] = {name: [] for name in SERIES}
    for _ in range(cell["replicates"]):
        frame = {"x": rng.uniform((rows, 2)).mean(axis=1)}
        counts = {name: mech.release(frame, rng=rng).value for name, mech in additive.items()}
        counts["sample"] = sample.release(frame, rng=rng).value
        counts["rows"] = np.array(histogram.measure(frame), dtype=np.float64)
        for name, found in counts.items():
            total = sample.size if name == "sample" else rows  # public, both
            upto = np.clip(np.cumsum(found)[:-1] / total, 0, 1)
            out[name].append(float(np.abs(upto - truth).max()))
    return dict(out)


def _two_cells(cell: Cell, rng: RandomSource) -> Outcome:
    """Distances of samples of one size on two cells to 100 rows, 80 of them in the first."""
    schema = Schema({"x": Interval(0, 1)}, rows=100)
    mechanism = KolmogorovSample(schema, "x", 2, epsilon=1.0, size=cell["size"])
    law = mechanism.law_on([80, 20])
    assert law is not None
    first = [int(law.draw(rng)[0]) for _ in range(cell["draws"])]
    return {"distance": [abs(z / cell["size"] - 0.8) for z in first]}


def _slopes(rows: list[Row]) -> list[Quote]:
    """The rates that the notes state: n^(-1/2) for all rows, at least n^(-1/3) for the sample."""
    slopes = {}
    for series in ("rows", "sample"):
        here = sorted((r for r in rows if r["series"] == series), key=lambda r: float(r["rows"]))
        if len(here) < 2:
            return []
        first, last = here[0], here[-1]
        width = math.log(last["rows"] / first["rows"])
        noise = math.hypot(first["error"] / first["value"], last["error"] / last["value"])
        slopes[series] = math.log(last["value"] / first["value"]) / width, 4 * noise / width
    slope, error = slopes["rows"]
    fast = slopes["sample"][0] <= -1 / 3 + slopes["sample"][1]
    what = "distance of the sample falls at least like n^(-1/3)"
    return [
        Quote("exponent of the distance of all rows", slope, -0.5, error, "-1/2", "", "reference"),
        order_quote(what, fast, "n^(-1/3)"),
    ]
