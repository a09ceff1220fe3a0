"""Figure 6 of [5]: noise in the plane, by granularity, beside Gaussian and composed noise."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from reproduce.curves import draw_curves
from reproduce.experiment import Cell, Experiment, Outcome, Settings
from reproduce.planar_rivals import planar_rivals
from reproduce.results import Quote, Row
from tightdp.design.vector import design_planar_noise
from tightdp.plots.canvas import panels_for
from tightdp.randomness import RandomSource

_DELTA = 0.2
# Independent values: of the noise, and of the lower bound by its resolution.
UPPERS = {
    2.0: {4: 0.8559, 5: 0.8492, 8: 0.8423, 10: 0.8398},
    5.0: {8: 0.2793},
}
LOWERS = {
    2.0: {4: 0.7534, 5: 0.8063, 8: 0.8065, 10: 0.8228},
    5.0: {8: 0.2448, 10: 0.2536},
}
GAUSSIAN = {2.0: 0.960, 5.0: 0.595}
PRINTED = {2.0: ("0.847", "0.878"), 5.0: ("0.258", "0.289")}  # read off the figure at 1/32


class PlaneFigure(Experiment):
    """Figure 6: expected l1 norm of noise for changes in the unit disc."""

    name = "dro-figure-6"
    title = "Noise in the plane: designed, Gaussian and composed"
    source = "[5], online appendices, Figure 6"
    quick: ClassVar[Settings] = {
        "resolutions": {"2.0": [2, 3, 4, 5, 8], "5.0": [2, 3, 4, 5]},
        "rivals": 4,
    }
    full: ClassVar[Settings] = {
        "resolutions": {"2.0": [2, 3, 4, 5, 8, 10], "5.0": [2, 3, 4, 5, 8]},
        "rivals": 8,
    }

    def cells(self, settings: Settings) -> list[Cell]:
        designs: list[Cell] = [
            {"epsilon": float(epsilon), "resolution": k}
            for epsilon, resolutions in settings["resolutions"].items()
            for k in resolutions
        ]
        rivals: list[Cell] = [
            {"epsilon": float(epsilon), "rivals": settings["rivals"]}
            for epsilon in settings["resolutions"]
        ]
        return [*designs, *rivals]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        if "rivals" in cell:
            found = planar_rivals(epsilon=cell["epsilon"], delta=_DELTA, resolution=cell["rivals"])
            return {
                "gaussian": found.gaussian,
                "composed": found.composed,
                "coupled": found.coupled,
            }
        design = design_planar_noise(
            epsilon=cell["epsilon"], delta=_DELTA, resolution=cell["resolution"]
        )
        return {
            "upper": float(design.upper),
            "lower": float(design.lower),
            "lower resolution": design.bound.resolution,
        }

    def quotes(self, rows: list[Row]) -> list[Quote]:
        out = []
        for row in rows:
            epsilon = row["epsilon"]
            if "rivals" in row:
                expected = GAUSSIAN[epsilon]
                text = f"{expected:g}, read off"
                what = f"analytic Gaussian, epsilon {epsilon:g}"
                out.append(Quote(what, row["gaussian"], expected, 5e-4, text, "", "print"))
                continue
            k, fine = row["resolution"], row["lower resolution"]
            low, high = PRINTED[epsilon]
            if k in UPPERS[epsilon]:
                what = f"noise of {k} cells a unit, epsilon {epsilon:g}"
                expected = UPPERS[epsilon][k]
                text = f"ends at {high}, read off"
                out.append(Quote(what, row["upper"], expected, 3e-4, text, "", "reference"))
            if fine in LOWERS[epsilon]:
                what = f"lower bound of {fine} cells a unit, epsilon {epsilon:g} (noise of {k})"
                expected = LOWERS[epsilon][fine]
                text = f"ends at {low}, read off"
                out.append(Quote(what, row["lower"], expected, 1e-4, text, "E50", "reference"))
        return out

    def draw(self, rows: list[Row]) -> Any:
        epsilons = sorted({row["epsilon"] for row in rows})
        panels = np.atleast_1d(panels_for(None, len(epsilons), (6.8 * len(epsilons), 6.0)))
        names = {
            "composed": "truncated Laplace on each axis, composed",
            "coupled": "optimal noise on each axis, coupled",
            "gaussian": "analytic Gaussian",
            "upper": "designed noise in the plane",
            "lower": "no noise is better",
        }
        for ax, epsilon in zip(panels, epsilons, strict=True):
            here = [row for row in rows if row["epsilon"] == epsilon]
            designs = [row for row in here if "resolution" in row]
            ticks = sorted(row["resolution"] for row in designs)
            shown = [
                {"series": side, "resolution": row["resolution"], "value": row[side]}
                for row in designs
                for side in ("upper", "lower")
            ]
            rivals = next(row for row in here if "rivals" in row)
            shown += [
                {"series": name, "resolution": k, "value": rivals[name]}
                for name in ("composed", "coupled", "gaussian")
                for k in ticks
            ]
            draw_curves(ax, shown, x="resolution", series=names, logs="", columns=1)
            ax.set_xticks(ticks, [str(k) for k in ticks])
            ax.set_ylim(bottom=0.0)
            ax.set_xlabel("cells in a sensitivity")
            ax.set_ylabel("expected l1 norm of the noise")
            ax.set_title(f"epsilon {epsilon:g}, delta {_DELTA:g}", pad=10)
        return panels[0].figure
