"""Figure 2 of [1]: the diagram of orders, each arrow tried on pairs of norm balls.

Every perspective is computed from its own definition (nested sets of given probability, depths at
points, entropies, variances along directions), every decision rule from the shapes alone; an arrow
is a claim about all pairs, and one pair against it would refute it.
"""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np

from reproduce.experiment import Cell, Experiment, Outcome, Settings
from reproduce.results import Quote, Row, order_quote
from tightdp.errors import FloatArray
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.orders import containment_order, volume_order
from tightdp.noise.knorm import KNormNoise
from tightdp.plots.canvas import INK, axes_for
from tightdp.randomness import RandomSource

_EXPONENTS = (1.0, 1.5, 2.0, 3.0, np.inf)
_LEVELS = (0.1, 0.5, 0.9)
_EVEN = 1e-9
# arrow: what is claimed, and where the papers say so
ARROWS = {
    "tightness = containment": "Theorem 3.6",
    "dispersion = containment": "Corollary 3.12",
    "conditional variance = containment": "Theorem 3.17",
    "entropy = volume": "Theorem 3.15",
    "scatter = volume": "Corollary 3.12",
    "containment implies volume": "Figure 2",
}


def verdicts(first: LpBall, second: LpBall, rng: RandomSource) -> dict[str, bool]:
    """Whether the first ball is the better of two, by every rule and every perspective."""
    one, other = (KNormNoise(ball, epsilon=1.0) for ball in (first, second))
    angles = np.pi * (np.arange(720) + 0.5) / 720
    ways = np.column_stack([np.cos(angles), np.sin(angles)])
    edge = {
        alpha: ways / np.asarray(one.concentration_set(alpha).gauge(ways))[:, None]
        for alpha in _LEVELS
    }
    points = 3 * rng.normal((400, 2)) * np.asarray(first.radius)

    def inside(points: FloatArray, alpha: float) -> bool:
        return bool(np.asarray(other.concentration_set(alpha).gauge(points)).max() <= 1 + _EVEN)

    def spread(noise: KNormNoise) -> FloatArray:
        return np.array([noise.conditional_variance(way) for way in ways])

    def areas(noise: KNormNoise) -> FloatArray:
        return np.array([noise.concentration_set(alpha).volume() for alpha in _LEVELS])

    deeper = np.asarray(one.depth(points)) <= np.asarray(other.depth(points)) + _EVEN
    return {
        "containment": containment_order(first, second) in (-1, 0),
        "volume": volume_order(first, second) <= 0,
        "tightness": all(inside(edge[alpha], alpha) for alpha in _LEVELS),
        "dispersion": bool(deeper.all()),
        "conditional variance": bool((spread(one) <= spread(other) * (1 + _EVEN)).all()),
        "entropy": one.entropy() <= other.entropy() + _EVEN,
        "scatter": bool((areas(one) <= areas(other) * (1 + _EVEN)).all()),
    }


class OrderDiagram(Experiment):
    """Figure 2: three perspectives and two decision rules."""

    name = "knorm-figure-2"
    title = "The diagram of orders, tried on pairs of norm balls"
    source = "[1], Figure 2"
    quick: ClassVar[Settings] = {"pairs": 60, "batch": 60}
    full: ClassVar[Settings] = {"pairs": 600, "batch": 60}

    def cells(self, settings: Settings) -> list[Cell]:
        count = -(-settings["pairs"] // settings["batch"])
        return [{"batch": b, "pairs": settings["batch"]} for b in range(count)]

    def compute(self, cell: Cell, rng: RandomSource) -> Outcome:
        found = {"pairs": 0, "nested": 0, "by volume": 0, **dict.fromkeys(ARROWS, 0)}
        for _ in range(cell["pairs"]):
            p, q = (_EXPONENTS[i] for i in rng.integers(len(_EXPONENTS), 2))
            sizes = np.exp(0.4 * rng.normal((2, 2)))
            says = verdicts(LpBall(2, p, sizes[0]), LpBall(2, q, 1.5 * sizes[1]), rng)
            found["pairs"] += 1
            found["nested"] += says["containment"]
            found["by volume"] += says["volume"]
            for arrow in ARROWS:
                if " = " in arrow:
                    left, right = arrow.split(" = ")
                    found[arrow] += says[left] != says[right]
                else:
                    found[arrow] += says["containment"] and not says["volume"]
        return found

    def quotes(self, rows: list[Row]) -> list[Quote]:
        total = {key: sum(row[key] for row in rows) for key in rows[0] if key != "batch"}
        out = [
            order_quote(f"{arrow}, {total['pairs']} pairs", total[arrow] == 0, where)
            for arrow, where in ARROWS.items()
        ]
        strict = total["nested"] < total["by volume"]
        out.append(order_quote("volume does not imply containment", strict, "one arrow only"))
        return out

    def draw(self, rows: list[Row]) -> Any:
        total = {key: sum(row[key] for row in rows) for key in rows[0] if key != "batch"}
        ax = axes_for(None, (9.6, 5.2))
        place = {
            "stochastic tightness,\nstatistical depth": (0.18, 0.78),
            "entropy": (0.78, 0.78),
            "conditional variance": (0.48, 0.78),
            f"containment\n{total['nested']} of {total['pairs']} pairs": (0.3, 0.22),
            f"volume\n{total['by volume']} of {total['pairs']} pairs": (0.72, 0.22),
        }
        depth, entropy, variance, inner, smaller = place.values()
        for start, end, style in (
            (depth, inner, "-|>"),
            (depth, smaller, "-|>"),
            (entropy, smaller, "-|>"),
            (variance, inner, "-|>"),
            (inner, smaller, "simple,head_width=0.9,head_length=0.9,tail_width=0.25"),
        ):
            ax.annotate(
                "",
                xy=end,
                xytext=start,
                arrowprops={
                    "arrowstyle": style,
                    "color": INK,
                    "shrinkA": 24,
                    "shrinkB": 30,
                    "mutation_scale": 14,
                },
            )
        for text, (x, y) in place.items():
            box = {"boxstyle": "round,pad=0.5", "facecolor": "white", "edgecolor": INK}
            ax.text(x, y, text, ha="center", va="center", bbox=box)
        ax.set_xlim(0, 1)
        ax.set_ylim(0, 1)
        ax.set_xticks([])
        ax.set_yticks([])
        ax.set_xlabel("decision rules: what is looked at")
        ax.set_ylabel("perspectives above, rules below")
        ax.set_title("the first noise of a pair is better: no pair against any arrow", pad=10)
        ax.spines[:].set_visible(False)
        return ax.figure
