"""Figure 4 of [5]: where the queries of coordinate descent lie, and noise that makes use of it.

The queries are sums of n terms in [-1, 1], one of which changes by at most 2. The histogram is of
true answers and so not private; a partition must be chosen without it (E43). The published one, 40
intervals of width 0.5 within (-10, 10) and one on each side out to 432, can be justified without
them, because the steps of a descent shrink. What noise gains on average depends on the weights of
the intervals: by their length, the published default, or one for each, which gives those near zero
more importance. One noise for all values has the same mean under both.
"""

from __future__ import annotations

import csv
import math
from collections.abc import Sequence
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from reproduce.experiment import Cell, Experiment, Finding, Outcome, Settings, batches
from reproduce.results import Quote, Row, order_quote
from reproduce.tables import BANDS
from tightdp.design.designs import design_noise
from tightdp.design.range_search import design_data_dependent_noise
from tightdp.errors import FloatArray
from tightdp.noise.line_laws import TruncatedLaplace
from tightdp.plots.canvas import INK, NAMED, SPACE, legend_below, panels_for
from tightdp.randomness import RandomSource

_TRAIN, _STEPS = 432, 100
_NUMERIC = range(20, 39)
_EDGES = [-math.inf, *range(-20, 21, 2), math.inf]
_WEIGHTS = ("by length", "by interval")
_SHOWN = 13.0  # the outermost intervals are drawn up to here
_SMALL = {1: 0.9565, 2: 0.8153, 4: 0.7331}  # by cells in one unit


def bands(path: Path) -> tuple[FloatArray, FloatArray]:
    """Numeric columns, centred and scaled to [-1, 1] by the data as in the paper, and labels."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        records = [record for record in csv.reader(lines) if len(record) == 40]

    def number(text: str) -> float:
        try:
            return float(text)
        except ValueError:
            return math.nan

    x = np.array([[number(record[j]) for j in _NUMERIC] for record in records])
    x = np.where(np.isnan(x), np.nanmean(x, axis=0), x)
    x -= x.mean(axis=0)
    x /= np.maximum(np.abs(x).max(axis=0), 1e-12)
    y = np.array([1.0 if record[-1].strip() == "band" else -1.0 for record in records])
    return np.column_stack([np.ones(len(x)), x]), y


def generated(rng: RandomSource) -> tuple[FloatArray, FloatArray]:
    """A table of the same size with few effects."""
    x = np.column_stack([np.ones(539), np.clip(0.35 * rng.normal((539, len(_NUMERIC))), -1, 1)])
    margin = x[:, 1:4].sum(axis=1)
    return x, np.where(rng.uniform(539) < 1 / (1 + np.exp(-margin)), 1.0, -1.0)


def descent_queries(
    x: FloatArray, y: FloatArray, noise: TruncatedLaplace, rng: RandomSource
) -> list[float]:
    """True answers of all queries of one descent, whose steps see them with noise."""
    n, d = x.shape
    theta = 2 * rng.uniform(d) - 1
    each = math.ceil(d / 4)
    order = rng.permutations(_STEPS, d)[:, :each]
    added = np.asarray(noise.sample(_STEPS * each, rng=rng)).reshape(_STEPS, each)
    out = []
    for coordinates, errors in zip(order, added, strict=True):
        path = []
        for j, error in zip(coordinates, errors, strict=True):
            pull = -y / (1 + np.exp(y * (x @ theta)))
            query = float(pull @ x[:, j])
            out.append(query)
            theta = theta.copy()
            theta[j] -= (query + error) / n
            path.append(theta)
        theta = np.mean(path, axis=0)
    return out


class QueryFigure(Experiment):
    """Figure 4: a histogram of query answers, and the noise for a public partition."""

    name = "dro-figure-4"
    title = "Queries of coordinate descent, and noise that depends on their range"
    source = "[5], online appendices, Figure 4"
    table = BANDS
    quick: ClassVar[Settings] = {"simulations": 20, "batch": 10, "width": 0.5, "small": [1, 2, 4]}
    full: ClassVar[Settings] = {"simulations": 100, "batch": 10, "width": 0.5, "small": [1, 2, 4]}

    def cells(self, settings: Settings) -> list[Cell]:
        data = "generated" if BANDS.path is None else "bands"
        sizes = batches(settings["simulations"], settings["batch"])
        runs: list[Cell] = [
            {"data": data, "batch": b, "simulations": size} for b, size in enumerate(sizes)
        ]
        small: list[Cell] = [{"cells": k} for k in settings["small"]]
        width = settings["width"]
        designs: list[Cell] = [{"width": width, "weights": name} for name in _WEIGHTS]
        return [*runs, *small, *designs, {"width": width, "weights": "one noise"}]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        if "cells" in cell:  # the setting of the paper's range of length 4
            found = design_data_dependent_noise(
                epsilon=1.0,
                delta=0.2,
                sensitivity=2.0,
                query_range=(-2.0, 2.0),
                resolution=2 * cell["cells"],
            )
            return {"upper": float(found.upper), "lower": float(found.lower)}
        if "width" in cell:
            return _designed(cell["width"], cell["weights"])
        path = BANDS.path
        x, y = generated(rng) if path is None else bands(path)
        noise = TruncatedLaplace(epsilon=1.0, delta=0.1, sensitivity=2.0)
        queries: list[float] = []
        for _ in range(cell["simulations"]):
            kept = rng.permutations(1, len(x))[0][:_TRAIN]
            queries += descent_queries(x[kept], y[kept], noise, rng)
        counts = np.histogram(queries, bins=np.array(_EDGES))[0]
        return {
            "counts": counts.tolist(),
            "within 10": int(np.sum(np.abs(queries) < 10)),
            "largest": float(np.abs(queries).max()),
        }

    def rows(self, findings: Sequence[Finding]) -> list[Row]:
        runs = [(cell, found) for cell, found in findings if "counts" in found]
        counts = np.sum([found["counts"] for _, found in runs], axis=0)
        out: list[Row] = [
            {"series": "queries", "low": low, "high": high, "share": count / counts.sum()}
            for low, high, count in zip(_EDGES[:-1], _EDGES[1:], counts.tolist(), strict=True)
        ]
        inside = sum(found["within 10"] for _, found in runs) / counts.sum()
        largest = max(found["largest"] for _, found in runs)
        facts: Row = {"series": "facts", "data": runs[0][0]["data"], "within 10": float(inside)}
        out.append({**facts, "largest": largest, "queries": int(counts.sum())})
        for cell, found in findings:
            if "losses" in found:
                edges = zip(found["edges"][:-1], found["edges"][1:], strict=True)
                out += [
                    {**cell, "series": "designed", "low": low, "high": high, "loss": loss}
                    for (low, high), loss in zip(edges, found["losses"], strict=True)
                ]
            if "width" in cell:
                totals = {k: v for k, v in found.items() if k not in ("losses", "edges")}
                out.append({"series": "designs", **cell, **totals})
            elif "cells" in cell:
                out.append({"series": "small range", **cell, **found})
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        facts = next(row for row in rows if row["series"] == "facts")
        totals = {row["weights"]: row for row in rows if row["series"] == "designs"}
        share = facts["within 10"]
        out = [
            order_quote("more than 80 % of queries within (-10, 10)", share > 0.8, "so"),
        ]
        for row in rows:
            if row["series"] == "small range":
                what = f"noise for a range of 4, sensitivity 2, cells of 1/{row['cells']}"
                expected = _SMALL[row["cells"]]
                text = {1: "0.830", 2: "0.716", 4: "0.683"}[row["cells"]] + ", read off"
                out.append(Quote(what, row["upper"], expected, 1e-4, text, "E49", "reference"))
        alone = totals["one noise"]["upper"]
        for name in _WEIGHTS:
            found, count = totals[name], totals[name]["intervals"]
            what = f"{count} intervals, {name}: no worse than one noise on their cells"
            # one noise has the same mean whatever the weights; a proof may spare 1e-6 of delta
            out.append(order_quote(what, found["upper"] <= alone * (1 + 1e-5)))
        return out

    def draw(self, rows: list[Row]) -> Any:
        panels = panels_for(None, 2, (14.0, 5.6))
        queries = [row for row in rows if row["series"] == "queries"]
        middles = [max(min((r["low"] + r["high"]) / 2, 21), -21) for r in queries]
        shares = [100 * row["share"] for row in queries]
        panels[0].bar(middles, shares, width=1.8, color=SPACE, edgecolor=NAMED["l1"][0])
        panels[0].axvspan(
            -10,
            10,
            color=NAMED["hull"][0],
            alpha=0.12,
            zorder=0,
            label="fine part of the partition",
        )
        facts = next(row for row in rows if row["series"] == "facts")
        what = "cylinder bands" if facts["data"] == "bands" else "generated rows"
        title = f"{what}: {facts['within 10']:.0%} of {facts['queries']:,} queries within 10"
        panels[0].set_title(title, pad=10)
        panels[0].set_xlabel("true answer of a query (outermost bars: all beyond)")
        panels[0].set_ylabel("percent of queries")
        totals = {row["weights"]: row for row in rows if row["series"] == "designs"}
        for name, colour in zip(_WEIGHTS, (NAMED["l2"][0], NAMED["hull"][0]), strict=True):
            designed = [r for r in rows if r["series"] == "designed" and r["weights"] == name]
            edges = [designed[0]["low"], *(row["high"] for row in designed)]
            edges = [max(min(edge, _SHOWN), -_SHOWN) for edge in edges]
            losses = [row["loss"] for row in designed]
            label = f"weights {name}: {totals[name]['upper']:.4g} on average"
            panels[1].stairs(losses, edges, color=colour, linewidth=1.6, label=label)
        alone, best = totals["one noise"]["upper"], totals["one noise"]["best"]
        panels[1].axhline(
            alone, color=INK, linestyle="--", label=f"one noise, the same cells: {alone:.4g}"
        )
        panels[1].axhline(
            best, color=NAMED["l1"][0], linestyle=":", label=f"one noise, fine cells: {best:.4g}"
        )
        panels[1].set_ylim(0, 1.25 * max([alone, *losses]))
        panels[1].set_xlabel("true answer (outermost steps reach to -432 and 432)")
        panels[1].set_ylabel("expected abs(noise)")
        panels[1].set_title("epsilon 1, delta 0.1: the noise of each interval", pad=10)
        for ax in panels:
            ax.spines[["top", "right"]].set_visible(False)
            legend_below(ax, 2)
        return panels[0].figure


def _designed(width: float, weights: str) -> Outcome:
    """Noise for the published partition: one interval on each side, fine ones between them."""
    inner = [-10 + width * i for i in range(round(20 / width) + 1)]
    ends = float(_TRAIN)
    edges = [-ends, *inner, ends] if weights in _WEIGHTS else [-ends, ends]
    found = design_data_dependent_noise(
        epsilon=1.0,
        delta=0.1,
        sensitivity=2.0,
        query_range=(-ends, ends),
        resolution=round(2 / width),
        partition=edges,
        weights=[1] * (len(edges) - 1) if weights == "by interval" else None,
    )
    out: dict[str, Any] = {
        "upper": float(found.upper),
        "lower": float(found.lower),
        "intervals": len(edges) - 1,
        "cells of the range": found.edges[-1],
    }
    if weights not in _WEIGHTS:
        best = design_noise(epsilon=1.0, delta=0.1, sensitivity=2.0)
        return {**out, "best": best.upper, "best lower": best.lower}
    return {**out, "losses": [float(loss) for loss in found.losses], "edges": edges}
