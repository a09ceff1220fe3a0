"""Figures 1 and 6 and Table 1 of [1]: norm balls around a sensitivity space, and a caution."""

from __future__ import annotations

import math
from typing import Any, ClassVar

import numpy as np

from reproduce.experiment import Cell, Experiment, Outcome, Settings
from reproduce.results import Quote, Row, mean_and_error, order_quote, simulated_quote
from tightdp.geometry.containment import containment, largest_gauge
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.noise.knorm import KNormNoise
from tightdp.noise.ranking import LP_NAMES, rank_norms
from tightdp.plots.canvas import axes_for
from tightdp.plots.ranking_pictures import draw_cautionary_balls, plot_cautionary_example
from tightdp.plots.shape_pictures import plot_example_sensitivity
from tightdp.randomness import RandomSource

_EXACT = 1e-9


class ExampleFigure(Experiment):
    """Figure 1: the balls of Example 2.10 at exact and at approximate sensitivities."""

    name = "knorm-figure-1"
    title = "Norm balls around the sensitivity space of a sum and a sum of squares"
    source = "[1], Figure 1, Examples 2.10, 3.20 and 3.22"
    quick: ClassVar[Settings] = {"epsilon": 1.0}
    full: ClassVar[Settings] = {"epsilon": 1.0}

    def cells(self, settings: Settings) -> list[Cell]:
        return [{"epsilon": settings["epsilon"]}]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        space = SensitivitySpace.sum_and_squares()
        ranking = rank_norms(space, epsilon=cell["epsilon"])
        out: Outcome = {}
        for row in ranking:
            out[f"{row.name} radius"] = float(row.sensitivity)
            out[f"{row.name} area"] = math.exp(row.log_volume.value)
            out[f"{row.name} entropy"] = row.entropy.value
            out[f"{row.name} lies inside"] = " ".join(row.inside)
        rough = {name: LpBall(2, p, float(LpBall(2, p).gauge([2, 2]))) for name, p in _lp()}
        for name, ball in rough.items():
            out[f"{name} area, approximate"] = ball.volume()
        out["approximate balls are nested"] = bool(
            containment(rough["linf"], rough["l2"]) and containment(rough["l2"], rough["l1"])
        )
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        (row,) = rows
        area = "19.53", "16.16", "16", "13.33"
        entropy = 5.6651629275, 5.4758260054, 5.4657359028, 5.2834143460
        radius = 3.125, math.sqrt(71 + 8 * math.sqrt(2)) / 4, 2.0
        out = [
            Quote(f"sensitivity, {name}", row[f"{name} radius"], exact, _EXACT, text, "E17")
            for name, exact, text in zip(
                LP_NAMES, radius, ("3.125", "sqrt(71 + 8 sqrt 2)/4", "2"), strict=True
            )
        ]
        exact_area = 19.53125, 16.162258869384, 16.0, 40 / 3
        for name, exact, text in zip((*LP_NAMES, "hull"), exact_area, area, strict=True):
            erratum = "E4" if name == "hull" else ""
            out.append(Quote(f"area, {name}", row[f"{name} area"], exact, 1e-8, text, erratum))
        for name, exact in zip(LP_NAMES, (32.0, 8 * math.pi, 16.0), strict=True):
            found = row[f"{name} area, approximate"]
            out.append(Quote(f"area at the approximate sensitivity, {name}", found, exact, 1e-8))
        if row["epsilon"] == 1:
            for name, exact in zip((*LP_NAMES, "hull"), entropy, strict=True):
                out.append(Quote(f"entropy, {name}", row[f"{name} entropy"], exact, 1e-8))
        nested = row["approximate balls are nested"]
        out.append(order_quote("approximate balls nested", nested, "nested"))
        between = sum(len(set(row[f"{name} lies inside"].split())) for name in LP_NAMES)
        out.append(order_quote("no exact l_p ball inside another", between == 0, "none"))
        return out

    def draw(self, rows: list[Row]) -> Any:
        return plot_example_sensitivity()[0].figure


def _lp() -> list[tuple[str, float]]:
    return list(LP_NAMES.items())


# --- the cautionary example -----------------------------------------------------------------------

_NORMS = {"linf": np.inf, "l2": 2.0, "l1": 1.0}
# mean and standard error of 100,000 draws, as printed
PRINTED = {
    ("K", "linf"): ("150.17(0.418)", 150.17, 0.418),
    ("K", "l2"): ("150.19(0.418)", 150.19, 0.418),
    ("K", "l1"): ("151.66(0.420)", 151.66, 0.420),
    ("H", "linf"): ("110.89(0.345)", 110.89, 0.345),
    ("H", "l2"): ("112.27(0.343)", 112.27, 0.343),
    ("H", "l1"): ("120.89(0.349)", 120.89, 0.349),
}
EXACT = {
    ("K", "linf"): 150.005,
    ("K", "l2"): 150.030658,
    ("K", "l1"): 151.5,
    ("H", "linf"): 111.0,
    ("H", "l2"): 112.377178,
    ("H", "l1"): 121.0,
}
_VARIANCES = {
    ("K", 0): (40000.0, "40068.37"),
    ("K", 1): (4.0, "3.99"),
    ("H", 0): (24200.0, "24139.87"),
    ("H", 1): (242.0, "242.09"),
}


def cautionary_balls() -> dict[str, NormBall]:
    """K = [-100, 100] x [-1, 1] inside H = {abs(x)/110 + abs(y)/11 <= 1}."""
    return {"K": LpBall(2, np.inf, [100.0, 1.0]), "H": LpBall(2, 1, [110.0, 11.0])}


class CautionFigure(Experiment):
    """Figure 6: K inside H."""

    name = "knorm-figure-6"
    title = "A rectangle inside a diamond"
    source = "[1], Figure 6"
    quick: ClassVar[Settings] = {"epsilon": 1.0}
    full: ClassVar[Settings] = {"epsilon": 1.0}

    def cells(self, settings: Settings) -> list[Cell]:
        return [{"epsilon": settings["epsilon"]}]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        balls = cautionary_balls()
        reach = largest_gauge(balls["K"], balls["H"])
        out: Outcome = {"largest gauge of K in H": (reach.lower + reach.upper) / 2}
        for name, ball in balls.items():
            noise = KNormNoise(ball, epsilon=cell["epsilon"])
            out[f"{name} area"] = ball.volume()
            out[f"{name} entropy"] = noise.entropy()
            for axis, direction in (("x", [1.0, 0.0]), ("y", [0.0, 1.0])):
                out[f"{name} conditional variance, {axis}"] = noise.conditional_variance(direction)
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        (row,) = rows
        inside = row["largest gauge of K in H"]
        out = [
            Quote("largest gauge of K in H", inside, 1.0, 1e-9, "K inside H", "E14"),
            Quote("area of K", row["K area"], 400.0, 1e-8, erratum="E14"),
            Quote("area of H", row["H area"], 2420.0, 1e-8, erratum="E14"),
        ]
        for axis in ("x", "y"):
            ratio = row[f"K conditional variance, {axis}"] / row[f"H conditional variance, {axis}"]
            exact = (100 / 110) ** 2 if axis == "x" else (1 / 11) ** 2
            what = f"conditional variance along {axis}, K over H"
            out.append(Quote(what, ratio, exact, 1e-9, "below 1", "E16"))
        return out

    def draw(self, rows: list[Row]) -> Any:
        ax = axes_for(None, (7.2, 5.2))
        draw_cautionary_balls(ax)
        ax.set_title("K lies inside H", pad=12)
        return ax.figure


class CautionTable(Experiment):
    """Table 1: the smaller ball has the larger expected losses."""

    name = "knorm-table-1"
    title = "Expected losses and variances of the two noises"
    source = "[1], Table 1 and Section 6"
    quick: ClassVar[Settings] = {"epsilon": 1.0, "draws": 100_000}
    full: ClassVar[Settings] = {"epsilon": 1.0, "draws": 1_000_000}

    def cells(self, settings: Settings) -> list[Cell]:
        return [{"ball": name, **settings} for name in cautionary_balls()]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        noise = KNormNoise(cautionary_balls()[cell["ball"]], epsilon=cell["epsilon"])
        draws = noise.sample(cell["draws"], rng=rng)
        out: Outcome = {}
        for axis, variance in enumerate(np.diag(noise.covariance())):
            out[f"variance {axis}"] = float(variance)
            out[f"variance {axis}, drawn"], out[f"variance {axis}, error"] = mean_and_error(
                (draws[:, axis] ** 2).tolist()  # the mean is zero
            )
        for name, p in _NORMS.items():
            out[name] = noise.expected_loss(p).value
            sizes = np.linalg.norm(draws, ord=p, axis=1).tolist()
            out[f"{name}, drawn"], out[f"{name}, error"] = mean_and_error(sizes)
        return out

    def quotes(self, rows: list[Row]) -> list[Quote]:
        out = []
        for row in rows:
            ball = row["ball"]
            for norm in _NORMS:
                text, printed, error = PRINTED[ball, norm]
                what = f"expected {norm} loss of {ball}"
                out.append(Quote(f"{what}, exact", row[norm], EXACT[ball, norm], 1e-6, text, "E14"))
                drawn = row[f"{norm}, drawn"], row[f"{norm}, error"]
                out.append(
                    simulated_quote(
                        f"{what}, drawn", drawn, (printed, error), paper=text, kind="print"
                    )
                )
            for axis in (0, 1):
                exact, text = _VARIANCES[ball, axis]
                what = f"variance of {'xy'[axis]} under {ball}"
                found = row[f"variance {axis}"]
                out.append(Quote(f"{what}, exact", found, exact, 1e-6 * exact, text, "E14"))
                drawn = row[f"variance {axis}, drawn"], row[f"variance {axis}, error"]
                out.append(simulated_quote(f"{what}, drawn", drawn, (exact, 0.0), paper=text))
        return out

    def draw(self, rows: list[Row]) -> Any:
        return plot_cautionary_example()[0].figure
