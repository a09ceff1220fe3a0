"""Figures 1, 2, 3 and 5 of [5]: privacy losses, shapes of optimal noise, and bounds by grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any, ClassVar

import numpy as np

from reproduce.curves import draw_curves, level_line
from reproduce.experiment import Cell, Experiment, Finding, Outcome, Settings
from reproduce.published_bounds import paper_bounds
from reproduce.results import Quote, Row, order_quote
from tightdp.design import losses
from tightdp.design.designs import Design, design_noise
from tightdp.noise.gaussian_laws import AnalyticGaussian
from tightdp.noise.law import ContinuousLaw
from tightdp.noise.line_laws import Laplace
from tightdp.plots.canvas import INK, NAMED, OTHERS, SPACE, axes_for, legend_below, panels_for
from tightdp.randomness import RandomSource

# --- Figure 1: the privacy loss of an average salary ----------------------------------------------

_EMPLOYEES = 194
_LOW, _TRUE, _HIGH = 120_000.0, 170_000.0, 190_000.0  # INR
SENSITIVITY = (_HIGH - _LOW) / _EMPLOYEES
MOVE = (_TRUE - _LOW) / _EMPLOYEES
PRINTED_DEVIATION = 257.68
_PRINTED_SENSITIVITY = 360.0


def privacy_loss(law: ContinuousLaw, at: Any, move: float) -> Any:
    """log of the density at ``at`` over that of the law moved by ``-move``."""
    return np.asarray(law.log_density(at)) - np.asarray(law.log_density(np.asarray(at) + move))


class PrivacyLossFigure(Experiment):
    """Figure 1: privacy losses of Laplace and Gaussian noise for one pair of neighbours."""

    name = "dro-figure-1"
    title = "Privacy loss of an average salary under Laplace and Gaussian noise"
    source = "[5], online appendices, Figure 1"
    quick: ClassVar[Settings] = {"epsilon": 1.0, "deltas": [0.05, 0.1, 0.2], "gap": 0.002}
    full: ClassVar[Settings] = {"epsilon": 1.0, "deltas": [0.05, 0.1, 0.2], "gap": 0.0005}

    def cells(self, settings: Settings) -> list[Cell]:
        epsilon = settings["epsilon"]
        scales = {"low": MOVE / 2, "medium": MOVE, "high": SENSITIVITY}
        laplace: list[Cell] = [
            {"law": "Laplace", "name": name, "scale": scale / epsilon, "epsilon": epsilon}
            for name, scale in scales.items()
        ]
        gaussian: list[Cell] = [
            {"law": "Gaussian", "delta": delta, "epsilon": epsilon} for delta in settings["deltas"]
        ]
        best: Cell = {"law": "designed", "delta": 0.2, "epsilon": 1.0, "gap": settings["gap"]}
        return [*laplace, *gaussian, best]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        if cell["law"] == "designed":
            found = design_noise(epsilon=1.0, delta=0.2, loss="l2", gap=cell["gap"])
            ends = [_PRINTED_SENSITIVITY * math.sqrt(end) for end in (found.lower, found.upper)]
            return {"deviation, lower": ends[0], "deviation, upper": ends[1]}
        law = _law(cell)
        at = np.linspace(-4, 4, 801) * SENSITIVITY
        here, worst = (np.abs(privacy_loss(law, at, s)).max() for s in (MOVE, SENSITIVITY))
        out = {"largest loss": float(here), "largest loss, worst pair": float(worst)}
        return {**out, "exceeded with": law.delta(cell["epsilon"], SENSITIVITY)}

    def quotes(self, rows: list[Row]) -> list[Quote]:
        out = [Quote("sensitivity of the average, INR", SENSITIVITY, 70_000 / 194, 1e-9, "360")]
        for row in rows:
            epsilon = row["epsilon"]
            if row["law"] == "Laplace":
                expected = MOVE / row["scale"]
                texts = {"low": "above epsilon", "medium": "epsilon", "high": "below epsilon"}
                what = f"largest loss of this pair, {row['name']} scale"
                shown = texts[row["name"]]
                out.append(Quote(what, row["largest loss"], expected, 1e-9, shown))
                expected = SENSITIVITY / row["scale"]
                what = f"largest loss of the worst pair, {row['name']} scale"
                shown = "epsilon" if row["name"] == "high" else "above epsilon"
                out.append(Quote(what, row["largest loss, worst pair"], expected, 1e-9, shown))
            elif row["law"] == "Gaussian":
                what = (
                    f"delta spent by the Gaussian for delta {row['delta']:g}, epsilon {epsilon:g}"
                )
                out.append(Quote(what, row["exceeded with"], row["delta"], 1e-6))
            else:
                low, high = row["deviation, lower"], row["deviation, upper"]
                what = "least standard deviation at (1, 0.2), sensitivity 360 INR"
                half = (high - low) / 2
                text = f"{PRINTED_DEVIATION}"
                out.append(
                    Quote(
                        what, (low + high) / 2, PRINTED_DEVIATION, half + 0.005, text, "", "print"
                    )
                )
        return out

    def draw(self, rows: list[Row]) -> Any:
        panels = panels_for(None, 2, (13.5, 5.8))
        at = np.linspace(-1200, 1200, 801)
        groups = ("Laplace", "Gaussian")
        for ax, kind in zip(panels, groups, strict=True):
            shown = [row for row in rows if row["law"] == kind]
            for row, (colour, style) in zip(shown, (*NAMED.values(), *OTHERS), strict=False):
                label = (
                    f"{row['name']} scale, {row['scale']:.0f} INR"
                    if kind == "Laplace"
                    else f"delta = {row['delta']:g}"
                )
                loss = privacy_loss(_law(row), at, MOVE)
                ax.plot(at, loss, color=colour, linestyle=style, linewidth=2, label=label)
            epsilon = rows[0]["epsilon"]
            ax.axhspan(-epsilon, epsilon, color=SPACE, alpha=0.2, zorder=0, label="within epsilon")
            ax.set_xlabel("answer minus the true average, INR")
            ax.set_ylabel("privacy loss")
            ax.set_title(f"{kind} noise, epsilon = {epsilon:g}", pad=10)
            ax.spines[["top", "right"]].set_visible(False)
            legend_below(ax, 2)
        return panels[0].figure


def _law(row: Row) -> ContinuousLaw:
    if row["law"] == "Laplace":
        return Laplace(epsilon=row["epsilon"], sensitivity=row["scale"] * row["epsilon"])
    return AnalyticGaussian(epsilon=row["epsilon"], delta=row["delta"], sensitivity=SENSITIVITY)


# --- Figures 2 and 3: two losses, two shapes ------------------------------------------------------

_POINTS = 601


class _ShapesFigure(Experiment):
    """Densities of the optimal noise for two losses."""

    problem: ClassVar[dict[str, Any]]
    known: ClassVar[dict[str, tuple[float, float, str]]]
    labels: ClassVar[dict[str, str]]
    quick: ClassVar[Settings] = {"gap": 0.002}
    full: ClassVar[Settings] = {"gap": 0.0005}

    def cells(self, settings: Settings) -> list[Cell]:
        return [{"loss": loss, **self.problem, **settings} for loss in self.labels]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        design = design_of(cell)
        law = design.noise
        assert isinstance(law, ContinuousLaw)
        reach = 1.05 * max(-float(law.quantile(1e-6)), float(law.quantile(1 - 1e-6)))
        x = np.linspace(-reach, reach, _POINTS)
        return {
            "lower": design.lower,
            "upper": design.upper,
            "mean": law.mean(),
            "atom": float(getattr(law, "atom_share", 0.0)),
            "x": x.tolist(),
            "density": np.asarray(law.density(x)).tolist(),
        }

    def rows(self, findings: Sequence[Finding]) -> list[Row]:
        out: list[Row] = []
        for cell, found in findings:
            curve = {"x", "density"}
            out.append({**cell, **{k: v for k, v in found.items() if k not in curve}})
            pairs = zip(found["x"], found["density"], strict=True)
            out += [{"loss": cell["loss"], "x": x, "density": y} for x, y in pairs]
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        out = []
        for row in rows:
            if "upper" in row:
                low, high, text = self.known[row["loss"]]
                middle, half = (row["lower"] + row["upper"]) / 2, (row["upper"] - row["lower"]) / 2
                what = f"least expected loss, {row['loss']}"
                error = half + (high - low) / 2
                out.append(Quote(what, middle, (low + high) / 2, error, text, "", "bound"))
        return out

    def draw(self, rows: list[Row]) -> Any:
        ax = axes_for(None, (8.0, 5.6))
        for name, colour in zip(self.labels, (NAMED["hull"][0], NAMED["l1"][0]), strict=True):
            curve = [row for row in rows if row["loss"] == name and "density" in row]
            facts = next(row for row in rows if row["loss"] == name and "upper" in row)
            x, density = ([row[key] for row in curve] for key in ("x", "density"))
            if name == next(iter(self.labels)):
                ax.fill_between(x, density, step="mid", color=colour, alpha=0.3)
            label = f"{self.labels[name]}: least loss {facts['upper']:.4g}"
            ax.step(x, density, where="mid", color=colour, linewidth=1.6, label=label)
            if facts["atom"] > 1e-3:
                top = max(density)
                ax.plot([0, 0], [0, top], color=colour, linewidth=2.2)
                label = f"P(0) = {facts['atom']:.3f}"
                ax.annotate(label, (0, top), xytext=(6, 0), textcoords="offset points")
        ax.set_ylim(bottom=0.0)
        ax.set_xlabel("noise")
        ax.set_ylabel("density")
        spent = ", ".join(f"{key} {value:g}" for key, value in self.problem.items())
        ax.set_title(f"optimal noise at {spent}", pad=10)
        ax.spines[["top", "right"]].set_visible(False)
        legend_below(ax, 1)
        return ax.figure


def design_of(cell: Cell) -> Design:
    """The design that a cell asks for."""
    loss = losses.asymmetric() if cell["loss"] == "asymmetric" else cell["loss"]
    return design_noise(
        epsilon=cell["epsilon"],
        delta=cell["delta"],
        sensitivity=cell["sensitivity"],
        loss=loss,
        gap=cell["gap"],
    )


class AsymmetryFigure(_ShapesFigure):
    """Figure 2: a loss that is not symmetric has noise that is not."""

    name = "dro-figure-2"
    title = "Optimal noise for a symmetric and an asymmetric loss"
    source = "[5], online appendices, Figure 2"
    problem: ClassVar[dict[str, Any]] = {"epsilon": 1.0, "delta": 0.2, "sensitivity": 1.0}
    known: ClassVar[dict[str, tuple[float, float, str]]] = {
        "l1": (0.55849, 0.55882, ""),
        "asymmetric": (0.77765, 0.77842, ""),
    }
    labels: ClassVar[dict[str, str]] = {
        "l1": "abs(x)",
        "asymmetric": "abs(x), doubled above zero",
    }

    def quotes(self, rows: list[Row]) -> list[Quote]:
        means = {row["loss"]: row["mean"] for row in rows if "mean" in row}
        # near-optimal laws agree in their loss, not in their mean: only its sign is settled
        leans = means["asymmetric"] < -0.1
        return [
            *super().quotes(rows),
            Quote("mean noise, l1", means["l1"], 0.0, 1e-9, "symmetric"),
            order_quote("noise leans below zero, asymmetric", leans, "not symmetric"),
        ]


class FamilyFigure(_ShapesFigure):
    """Figure 3: two symmetric losses whose optimal noises have little in common."""

    name = "dro-figure-3"
    title = "Optimal noise for absolute and for squared loss"
    source = "[5], online appendices, Figure 3"
    problem: ClassVar[dict[str, Any]] = {"epsilon": 1.0, "delta": 0.4, "sensitivity": 10.0}
    known: ClassVar[dict[str, tuple[float, float, str]]] = {
        "l1": (3.980, 3.989, ""),
        "l2": (28.08, 28.18, ""),
    }
    labels: ClassVar[dict[str, str]] = {"l1": "abs(x)", "l2": "x squared"}


# --- Figure 5: bounds against support and granularity ---------------------------------------------


class GridFigure(Experiment):
    """Figure 5: the published bounds, padded as they must be, and ours."""

    name = "dro-figure-5"
    title = "Bounds on the least expected loss by support and granularity"
    source = "[5], online appendices, Figure 5"
    quick: ClassVar[Settings] = {"units": [1, 2, 3, 4, 5], "cells": [1, 2, 4, 8, 16]}
    full: ClassVar[Settings] = {"units": [1, 2, 3, 4, 5, 6, 8], "cells": [1, 2, 4, 8, 16, 32]}
    _problem: ClassVar[dict[str, float]] = {"epsilon": 1.0, "delta": 0.2}
    _left, _right = 4, 1  # cells a unit on the left, units on the right

    def cells(self, settings: Settings) -> list[Cell]:
        pairs = [(self._left, units) for units in settings["units"]]
        pairs += [(cells, units) for units in (self._right, 2) for cells in settings["cells"]]
        published: list[Cell] = [
            {**self._problem, "cells": k, "units": u} for k, u in dict.fromkeys(pairs)
        ]
        ours: list[Cell] = [
            {**self._problem, "cells": k, "units": None} for k in settings["cells"] if k > 1
        ]
        return [*published, *ours]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        epsilon, delta, k = cell["epsilon"], cell["delta"], cell["cells"]
        if cell["units"] is None:
            found = design_noise(epsilon=epsilon, delta=delta, cells=6 * k)
            return {"upper": found.upper, "lower": found.lower}
        upper, lower = paper_bounds(epsilon=epsilon, delta=delta, cells=k, units=cell["units"])
        return {"upper": upper if math.isfinite(upper) else None, "lower": lower}

    def quotes(self, rows: list[Row]) -> list[Quote]:
        found = {(row["cells"], row["units"]): row for row in rows}
        out = []
        for (k, units), (upper, lower) in {
            (4, 1): (None, 0.366),
            (16, 1): (None, 0.453),
            (4, 2): (0.56606, 0.44106),
            (16, 2): (0.55906, 0.52753),
        }.items():
            row = found.get((k, units))
            if row is None:
                continue
            where = f"{k} cells a unit, support {units}"
            digits = 5e-4 if upper is None else 1e-5
            out.append(
                Quote(f"lower bound, {where}", row["lower"], lower, digits, kind="reference")
            )
            if upper is None:
                out.append(order_quote(f"no noise, {where}", row["upper"] is None, "infeasible"))
            else:
                out.append(
                    Quote(f"upper bound, {where}", row["upper"], upper, 1e-5, kind="reference")
                )
        return out

    def draw(self, rows: list[Row]) -> Any:
        panels = panels_for(None, 2, (13.5, 5.8))
        published = [row for row in rows if row["units"] is not None]
        left = [row for row in published if row["cells"] == self._left]
        right = [row for row in published if row["units"] == self._right]
        ours = [row for row in rows if row["units"] is None]
        middle = [(row["upper"] + row["lower"]) / 2 for row in ours]
        titles = (
            f"{self._left} cells a unit, growing support",
            f"support {self._right}, finer cells: no upper bound",
        )
        labels = {
            "lower": "lower bound [5]",
            "upper": "upper bound [5]",
            "our lower": "lower bound, lattice",
            "our upper": "upper bound with an atom, any support",
        }
        for ax, here, key in ((panels[0], left, "units"), (panels[1], right, "cells")):
            shown = [
                {"series": side, key: row[key], "value": row[side]}
                for row in here
                for side in ("lower", "upper")
                if row[side] is not None
            ]
            if key == "cells":
                shown += [
                    {"series": f"our {side}", key: row[key], "value": row[side]}
                    for row in ours
                    for side in ("lower", "upper")
                ]
            draw_curves(ax, shown, x=key, series=labels, logs="x" if key == "cells" else "")
            ticks = sorted({row[key] for row in here})
            ax.set_xticks(ticks, [f"{t}" for t in ticks])
            ax.set_xticks([], minor=True)
            ax.set_ylabel("expected abs(noise)")
        panels[0].set_xlabel("support, in sensitivities")
        panels[1].set_xlabel("cells in a sensitivity")
        for ax, title in zip(panels, titles, strict=True):
            if middle:
                level_line(ax, middle[-1], "optimum", above=False)
            ax.axhline(0.0, color=INK, linewidth=0.6, alpha=0.4)
            ax.set_title(f"epsilon 1, delta 0.2: {title}", pad=10)
        return panels[0].figure
