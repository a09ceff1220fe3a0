"""Pictures of rankings, and of the example where they mislead."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tightdp.errors import check_choice, check_filled
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.noise.knorm import KNormNoise
from tightdp.noise.ranking import CRITERIA, NormRanking, RankedNorm
from tightdp.plots.canvas import (
    ACCENT,
    COOL,
    INK,
    SYMBOLS,
    axes_for,
    finish,
    legend_below,
    name_rows,
    panels_for,
    styles_for,
    write_value,
)
from tightdp.plots.shape_pictures import outline

if TYPE_CHECKING:
    from matplotlib.axes import Axes


# --- rankings -----------------------------------------------------------------------------------


class _Bar(NamedTuple):
    """A value relative to the best, its standard error, and whether it can be compared at all."""

    ratio: float
    error: float
    comparable: bool = True

    def __str__(self) -> str:
        if not self.comparable:
            return "more dimensions"
        return f"{self.ratio:.2f}" if self.ratio < 10 else f"{self.ratio:.3g}"

    @property
    def best(self) -> bool:
        """Equal to the best, or too close to it to tell."""
        return self.comparable and self.ratio - 2 * self.error <= 1 + 1e-9


def plot_ranking(
    ranking: NormRanking,
    criteria: Sequence[str] = ("volume", "variance", "l1", "l2", "linf"),
    ax: Axes | None = None,
) -> Axes:
    """A ranking as bars: every criterion relative to its best candidate.

    Volume and entropy are drawn as the m-th root of the volume, which is a length like the losses;
    a candidate that needs noise in more dimensions than another has no bar there. Estimated values
    carry bars of two standard errors. The title says whether the criteria agree.

    Examples
    --------
    >>> from tightdp import SensitivitySpace, rank_norms
    >>> table = rank_norms(SensitivitySpace.sum_and_squares(), epsilon=1.0)
    >>> plot_ranking(table).get_title()
    'Every criterion prefers hull'
    """
    chosen = [check_choice("criteria", name, CRITERIA) for name in criteria]
    check_filled("criteria", chosen)
    names = [row.name for row in ranking.rows]
    table = {name: _relative(ranking.rows, name) for name in chosen}
    ax = axes_for(ax, (8.0, 1.6 + 0.26 * len(chosen) * (len(names) + 1)))
    styles, height = styles_for(names), 0.84 / len(names)
    for j, name in enumerate(names):
        for i, bars in enumerate(table.values()):
            at, bar = i + (j - (len(names) - 1) / 2) * height, bars[j]
            label = SYMBOLS.get(name, name) if i == 0 else "_"
            end = bar.ratio + 2 * bar.error if bar.comparable else 0.0
            ax.barh(at, min(bar.ratio, end), 0.9 * height, color=styles[name][0], label=label)
            if bar.error > 0:
                ax.errorbar(bar.ratio, at, xerr=2 * bar.error, color=INK, capsize=3)
            write_value(ax, end, at, str(bar), bold=bar.best)
    top = max(bar.ratio + 2 * bar.error for bars in table.values() for bar in bars)
    if top > 12:
        ax.set_xscale("log")
    ax.set_xlim(0.7 if top > 12 else 0.0, top**1.12 if top > 12 else 1.15 * top)
    ax.axvline(1.0, color=INK, linewidth=1.0, linestyle=":", zorder=0)
    name_rows(ax, [_criterion_label(name) for name in chosen])
    estimated = any(bar.error > 0 for bars in table.values() for bar in bars)
    note = " (error bars: 2 standard errors)" if estimated else ""
    x, title = f"relative to the best candidate{note}", _agreement(names, table)
    return finish(ax, x, "criterion", title, min(len(names), 4))


def _relative(rows: Sequence[RankedNorm], criterion: str) -> list[_Bar]:
    """Every candidate by one criterion, relative to the best."""
    if criterion in ("volume", "entropy"):
        m = min(row.ball.rank for row in rows)
        least = min(row.log_volume.value for row in rows if row.ball.rank == m)
        roots = [math.exp((row.log_volume.value - least) / m) for row in rows]
        return [
            _Bar(root, root * row.log_volume.standard_error / m)
            if row.ball.rank == m
            else _Bar(1.0, 0.0, comparable=False)
            for row, root in zip(rows, roots, strict=True)
        ]
    values = [getattr(row, criterion) for row in rows]
    least = min(value.value for value in values)
    return [_Bar(value.value / least, value.standard_error / least) for value in values]


def _criterion_label(name: str) -> str:
    if name in ("volume", "entropy"):
        return f"{name}\n(as a length)"
    loss = {"l1": r"E $\ell_1$ loss", "l2": r"E $\ell_2$ loss", "linf": r"E $\ell_\infty$ loss"}
    return loss.get(name, CRITERIA[name])


def _agreement(names: list[str], table: Mapping[str, list[_Bar]]) -> str:
    """Who wins, criterion by criterion, in one line."""
    winners = {
        criterion: [n for n, bar in zip(names, bars, strict=True) if bar.best]
        for criterion, bars in table.items()
    }
    common = [n for n in names if all(n in best for best in winners.values())]
    if common:
        return f"Every criterion prefers {common[0]}"
    parts: dict[str, list[str]] = {}
    for criterion, best in winners.items():
        word = f"{SYMBOLS[criterion]} loss" if criterion in SYMBOLS else criterion
        parts.setdefault(SYMBOLS.get(best[0], best[0]), []).append(word)
    said = [
        f"{', '.join(w)} {'prefers' if len(w) == 1 else 'prefer'} {n}" for n, w in parts.items()
    ]
    return "; ".join(said)


# --- the cautionary example ---------------------------------------------------------------------


def plot_cautionary_example(axes: Sequence[Axes] | None = None) -> Any:
    """Figure 6 and Table 1 of Awan and Slavković (2021): a ball inside another, with the larger
    expected loss.

    At epsilon = 1, ``K = [-100, 100] x [-1, 1]`` lies inside ``H = {|x|/110 + |y|/11 <= 1}``: it
    has the smaller volume and the smaller conditional variance in every direction, and yet its
    noise has the larger variance in x and the larger expected losses. All numbers are exact or by
    quadrature. Returns the two axes.

    Examples
    --------
    >>> left, right = plot_cautionary_example()
    >>> left.get_title()
    'K lies inside H ...'
    """
    panels = panels_for(axes, 2, (11.5, 5.2))
    drawn = draw_cautionary_balls(panels[0])
    panels[0].set_title("K lies inside H ...", pad=12)
    _draw_costs(panels[1], {name: _costs(ball) for name, (ball, _) in drawn.items()}, drawn)
    return panels


def draw_cautionary_balls(ax: Axes) -> dict[str, tuple[NormBall, str]]:
    """Figure 6 of Awan and Slavković (2021) on given axes; the two balls and their colours."""
    K, H = LpBall(2, np.inf, [100.0, 1.0]), LpBall(2, 1, [110.0, 11.0])
    drawn: dict[str, tuple[NormBall, str]] = {
        "K": (K, ACCENT),
        "H": (H, COOL),
    }
    for name in ("H", "K"):
        ball, colour = drawn[name]
        shape = {"K": "rectangle", "H": "diamond"}[name]
        ax.fill(
            *outline(ball).T,
            facecolor=(colour, 0.25),
            edgecolor=colour,
            linewidth=2.2,
            label=f"{name}, {shape}",
        )
    ax.set_xlabel("x")
    ax.set_ylabel("y (not to the scale of x)")
    ax.margins(0.08)
    legend_below(ax, 2)
    return drawn


def _costs(ball: NormBall) -> dict[str, float]:
    """Table 1 of Awan and Slavković (2021) for one ball at epsilon = 1, and its area."""
    noise = KNormNoise(ball, epsilon=1.0)
    in_x, in_y = np.diag(noise.covariance())
    return {
        "variance of x": float(in_x),
        "variance of y": float(in_y),
        r"E $\ell_\infty$ loss": noise.expected_loss(np.inf).value,
        r"E $\ell_2$ loss": noise.expected_loss(2).value,
        r"E $\ell_1$ loss": noise.expected_loss(1).value,
        "area": ball.volume(),
    }


def _draw_costs(
    ax: Axes, costs: Mapping[str, dict[str, float]], drawn: Mapping[str, tuple[NormBall, str]]
) -> None:
    """Pairs of bars, each pair relative to its larger value, with the values written out."""
    measures = list(costs["K"])
    for j, name in enumerate(costs):
        for i, measure in enumerate(measures):
            value = costs[name][measure]
            pair = [cost[measure] for cost in costs.values()]
            share, at = value / max(pair), i + 0.38 * (j - 0.5)
            ax.barh(at, share, 0.34, color=drawn[name][1], label=name if i == 0 else "_")
            write_value(ax, share, at, f"{value:.6g}", bold=value == min(pair))
    name_rows(ax, measures)
    ax.set_xlim(0.0, 1.2)
    ax.set_xticks(np.linspace(0.0, 1.0, 6))
    x = "relative to the larger of the two (smaller in bold)"
    finish(ax, x, "noise at epsilon = 1", "... and its noise has the larger losses")
