"""Pictures of sensitivity spaces, norm balls, noise and rankings.

Every function draws on the axes it is given, or on a new figure, and returns the axes; nothing else
is changed. What is drawn as a space or a ball is exact; sampled movements are drawn as points, are
labelled as samples, and are never turned into an outline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from tightdp.errors import (
    DegenerateBodyError,
    DimensionError,
    FloatArray,
    check_choice,
    check_count,
    check_probability,
    fail,
    require,
)
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.ranking import CRITERIA, LP_NAMES, NormRanking, RankedNorm
from tightdp.geometry.row_images import FiniteImage, OneHotImage, SquareImage
from tightdp.geometry.sensitivity import SensitivitySpace, certify_contains
from tightdp.noise.knorm import KNormNoise
from tightdp.privacy import Neighbors

if TYPE_CHECKING:
    from matplotlib.axes import Axes

__all__ = [
    "outline",
    "plot_cautionary_example",
    "plot_example_sensitivity",
    "plot_noise_density",
    "plot_ranking",
    "plot_sensitivity_space",
]

# Okabe and Ito's colours, told apart by every common kind of sight; lines also differ in style.
SPACE, INK = "#56B4E9", "#333333"
NAMED = {
    "l1": ("#0072B2", "--"),
    "l2": ("#009E73", "-."),
    "linf": ("#CC79A7", ":"),
    "hull": ("#D55E00", "-"),
}
OTHERS = [("#E69F00", (0, (5, 1))), ("#882255", "--"), ("#999933", "-."), ("#000000", ":")]
SYMBOLS = {"l1": r"$\ell_1$", "l2": r"$\ell_2$", "linf": r"$\ell_\infty$"}
_SEED = 0  # the cloud of sampled movements looks the same every time


# --- outlines -----------------------------------------------------------------------------------


def outline(ball: NormBall, points: int = 720) -> FloatArray:
    """The boundary of a planar ball as a closed polygon: points of gauge 1, corners included.

    A ball of rank 1 gives its segment.

    >>> outline(LpBall(2, 1), points=4).round(9) + 0.0
    array([[ 0., -1.],
           [ 1.,  0.],
           [ 0.,  1.],
           [-1.,  0.],
           [ 0., -1.]])
    """
    _check_planar("ball", ball.dim)
    angle = np.linspace(0.0, 2 * np.pi, check_count("points", points, least=4), endpoint=False)
    circle = np.column_stack([np.cos(angle), np.sin(angle)])
    if ball.rank == 1:
        ends = ball.support_point(np.eye(2))
        end = ends[int(np.linalg.norm(ends, axis=1).argmax())]
        return np.array([end, -end, end])
    # Directions are spread over the bounding box, so that thin balls are drawn as well as round.
    box, corners = ball.bounding_box(), ball.vertices()
    if corners is None:
        corners = ball.support_point(circle[:: max(1, points // 180)] / box)
    rays = np.vstack([circle * box, corners, -corners])
    edge = rays / np.asarray(ball.gauge(rays))[:, None]
    edge[np.abs(edge) < 1e-12 * box] = 0.0
    turn = np.arctan2(edge[:, 1] / box[1], edge[:, 0] / box[0]).round(12)
    turn[turn == np.round(np.pi, 12)] = -np.round(np.pi, 12)  # one name for the negative axis
    order = np.unique(turn, return_index=True)[1]
    start = int(np.searchsorted(turn[order], -np.pi / 2 - 1e-9))
    ring = np.roll(edge[order], -start, axis=0)
    return np.vstack([ring, ring[:1]])


# --- sensitivity spaces -------------------------------------------------------------------------


def plot_sensitivity_space(
    space: SensitivitySpace,
    balls: Mapping[str, NormBall] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """A planar sensitivity space, with the outlines of balls around it.

    Parameters
    ----------
    space : SensitivitySpace
        Drawn exactly where a formula is known; otherwise as movements of sampled or extreme rows,
        labelled as such.
    balls : mapping of names to NormBall, optional
        By default the l1, l2 and linf balls at their sensitivity, and the hull. A ball that does
        not contain the space is drawn and labelled so.
    ax : matplotlib Axes, optional

    Examples
    --------
    >>> ax = plot_sensitivity_space(SensitivitySpace.sum_and_squares())
    >>> ax.get_xlabel()
    'change of x'
    """
    _check_planar("space", space.dim)
    around = _default_balls(space) if balls is None else _labelled(balls, space)
    ax = _axes(ax, (6.4, 6.2))
    _draw_space(ax, space)
    _draw_balls(ax, around)
    ax.set_xlabel(f"change of {space.names[0]}")
    ax.set_ylabel(f"change of {space.names[1]}")
    ax.set_title(f"One record moves the statistic within S ({space.neighbors})", pad=12)
    _finish_plane(ax)
    return ax


def plot_example_sensitivity(axes: Sequence[Axes] | None = None) -> Any:
    """Figure 1 of [1]: the balls of Example 2.10 at exact and at approximate sensitivities.

    The exact ones are 25/8, sqrt(71 + 8 sqrt 2)/4 and 2; bounding each entry by itself gives 4,
    sqrt 8 and 2. Returns the two axes.

    Examples
    --------
    >>> [ax.get_title() for ax in plot_example_sensitivity()]
    ['exact sensitivities', 'entry by entry bounds']
    """
    space = SensitivitySpace.sum_and_squares()
    panels = _panels(axes, 2, (11.0, 6.4))
    # Entry by entry |u_1| <= 2 and |u_2| <= 2, so Delta_p is at most the l_p norm of (2, 2).
    rough = {"l1": 4.0, "l2": math.sqrt(8.0), "linf": 2.0}
    exact = {name: float(space.sensitivity(p=p)) for name, p in LP_NAMES.items()}
    shown = {
        "l1": ("25/8", "4"),
        "l2": (r"$\sqrt{71 + 8\sqrt{2}}/4$", r"$\sqrt{8}$"),
        "linf": ("2", "2"),
    }
    titles = ("exact sensitivities", "entry by entry bounds")
    for panel, (ax, radius) in enumerate(zip(panels, (exact, rough), strict=True)):
        entries = [
            (name, f"{SYMBOLS[name]}, sensitivity {shown[name][panel]}", LpBall(2, p, radius[name]))
            for name, p in LP_NAMES.items()
        ]
        _draw_space(ax, space)
        _draw_balls(ax, [*entries, ("hull", "hull of S", space.hull())])
        ax.set_title(titles[panel], pad=12)
        ax.set_xlabel(r"change of $\sum x$")
        ax.set_ylabel(r"change of $2\sum x^2$")
        ax.update_datalim([(-4.0, -4.0), (4.0, 4.0)])  # one scale for both panels
        _finish_plane(ax)
    return panels


def _draw_space(ax: Axes, space: SensitivitySpace) -> None:
    """The space itself: exact for (x, 2x^2), otherwise points that one pair of rows attains."""
    image, replace = space._image, space.neighbors is Neighbors.REPLACE_ONE
    faint: dict[str, Any] = {"color": SPACE, "zorder": 1}
    if isinstance(image, SquareImage) and replace:
        u = np.linspace(-2.0, 2.0, 801)
        top = 2.0 - 2.0 * (1.0 - np.abs(u)) ** 2  # |u_2| <= 2 - 2 (1 - |u_1|)^2
        ax.fill_between(u, -top, top, alpha=0.45, linewidth=0, label="S, exact", **faint)
    elif isinstance(image, SquareImage):
        x = np.linspace(-1.0, 1.0, 401)
        curves = np.column_stack([2 * x**2, -2 * x**2])
        ax.plot(x, curves, linewidth=3.5, alpha=0.8, label=["S, exact", "_"], **faint)
    elif isinstance(image, (FiniteImage, OneHotImage)):
        p = np.asarray(image.corners())
        moves = (p[:, None] - p[None]).reshape(-1, 2) if replace else np.vstack([p, -p])
        label = "movements by extreme rows"
        ax.plot(*moves.T, "o", color=SPACE, mec=INK, markersize=8, label=label, zorder=5)
    else:
        cloud = space.sample(4_000, rng=_SEED)
        label = "samples of S (random movements)"
        ax.plot(*cloud.T, "o", markersize=3, alpha=0.25, mew=0, label=label, **faint)


def _default_balls(space: SensitivitySpace) -> list[tuple[str, str, NormBall]]:
    """The l_p balls at their sensitivity and the hull, each with its label."""
    out: list[tuple[str, str, NormBall]] = []
    for name, p in LP_NAMES.items():
        delta = space.sensitivity(p=p)
        label = (
            f"{SYMBOLS[name]}, sensitivity {float(delta):.4g}{'' if delta.exact else ' (bound)'}"
        )
        out.append((name, label, LpBall(2, p, float(delta))))
    return [*out, ("hull", "hull of S" if space.exact else "outer body of S", space.hull())]


def _labelled(
    balls: Mapping[str, NormBall], space: SensitivitySpace
) -> list[tuple[str, str, NormBall]]:
    """Balls given by the user; one that is shown not to contain the space is labelled so."""
    out = []
    for name, ball in balls.items():
        _check_planar(f"balls[{name!r}]", ball.dim)
        violated = certify_contains(ball, space).violated
        label = SYMBOLS.get(name, name) + (" (does not contain S)" if violated else "")
        out.append((name, label, ball))
    return out


def _draw_balls(ax: Axes, balls: Sequence[tuple[str, str, NormBall]]) -> None:
    styles = _styles([name for name, _, _ in balls])
    for name, label, ball in balls:
        colour, line = styles[name]
        width, height = (2.8, 3) if name == "hull" else (2.0, 4)
        x, y = _closed(outline(ball)).T
        ax.plot(x, y, color=colour, linestyle=line, linewidth=width, label=label, zorder=height)


# --- noise --------------------------------------------------------------------------------------


def plot_noise_density(
    noise: KNormNoise, ax: Axes | None = None, levels: Sequence[float] = (0.5, 0.9, 0.95, 0.99)
) -> Axes:
    """The density of planar noise, with the smallest sets of the given probabilities.

    Those sets are multiples ``t K`` of the ball (Lemma 3.5 of [1]); the legend gives t.

    Examples
    --------
    >>> ax = plot_noise_density(KNormNoise(LpBall(2, 2), epsilon=1.0), levels=[0.5, 0.95])
    >>> ax.get_legend_handles_labels()[1]
    ['50 %: t = 1.68', '95 %: t = 4.74']
    """
    _check_planar("noise", noise.dim)
    if noise.ball.rank < 2:
        fail("`noise` must have a density in the plane: its ball is flat.", DegenerateBodyError)
    chosen = sorted(check_probability("levels", level) for level in levels)
    if not chosen:
        fail("`levels` must not be empty.", DimensionError)
    ax = _axes(ax, (7.2, 6.0))
    reach = 1.12 * noise.concentration_radius(chosen[-1]) * noise.ball.bounding_box()
    x, y = (np.linspace(-r, r, 401) for r in reach)
    density = np.exp(noise.log_density(np.stack(np.meshgrid(x, y), axis=-1)))
    # The square root shows the tails as well as the peak; the colour bar says which is which.
    root = require("matplotlib.colors", "plots").PowerNorm(0.5, vmin=0.0)
    colours = ax.pcolormesh(
        x, y, density, norm=root, cmap="Blues", shading="gouraud", rasterized=True
    )
    ax.figure.colorbar(colours, ax=ax, label="density", shrink=0.9)
    dashes = ["-", "--", "-.", ":"]
    for i, level in enumerate(chosen):
        t = noise.concentration_radius(level)
        edge = _closed(outline(noise.ball) * t)
        label = f"{100 * level:g} %: t = {t:.2f}"
        ax.plot(*edge.T, color=INK, linestyle=dashes[i % 4], linewidth=1.6, label=label)
    ax.set_xlim(-reach[0], reach[0])
    ax.set_ylim(-reach[1], reach[1])
    ax.set_xlabel("noise in entry 1")
    ax.set_ylabel("noise in entry 2")
    ax.set_title(f"K-norm noise, epsilon = {noise.epsilon:g}", pad=12)
    if 0.25 <= reach[1] / reach[0] <= 4:
        ax.set_aspect("equal")
    columns = 2 if len(chosen) > 2 else len(chosen)
    _legend_below(ax, columns, title="smallest set t K of the given probability")
    return ax


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
    >>> from tightdp import rank_norms
    >>> table = rank_norms(SensitivitySpace.sum_and_squares(), epsilon=1.0)
    >>> plot_ranking(table).get_title()
    'Every criterion prefers hull'
    """
    chosen = [check_choice("criteria", name, CRITERIA) for name in criteria]
    if not chosen:
        fail("`criteria` must not be empty.", DimensionError)
    names = [row.name for row in ranking.rows]
    table = {name: _relative(ranking.rows, name) for name in chosen}
    ax = _axes(ax, (8.0, 1.6 + 0.26 * len(chosen) * (len(names) + 1)))
    styles, height = _styles(names), 0.84 / len(names)
    for j, name in enumerate(names):
        for i, bars in enumerate(table.values()):
            at, bar = i + (j - (len(names) - 1) / 2) * height, bars[j]
            label = SYMBOLS.get(name, name) if i == 0 else "_"
            end = bar.ratio + 2 * bar.error if bar.comparable else 0.0
            ax.barh(at, min(bar.ratio, end), 0.9 * height, color=styles[name][0], label=label)
            if bar.error > 0:
                ax.errorbar(bar.ratio, at, xerr=2 * bar.error, color=INK, capsize=3)
            _write(ax, end, at, str(bar), bold=bar.best)
    top = max(bar.ratio + 2 * bar.error for bars in table.values() for bar in bars)
    if top > 12:
        ax.set_xscale("log")
    ax.set_xlim(0.7 if top > 12 else 0.0, top**1.12 if top > 12 else 1.15 * top)
    ax.axvline(1.0, color=INK, linewidth=1.0, linestyle=":", zorder=0)
    ax.set_yticks(range(len(chosen)), [_criterion_label(name) for name in chosen])
    ax.set_ylim(len(chosen) - 0.45, -0.55)
    ax.tick_params(axis="y", length=0)
    estimated = any(bar.error > 0 for bars in table.values() for bar in bars)
    note = " (error bars: 2 standard errors)" if estimated else ""
    ax.set_xlabel(f"relative to the best candidate{note}")
    ax.set_ylabel("criterion")
    ax.set_title(_agreement(names, table), pad=12)
    ax.spines[["top", "right"]].set_visible(False)
    _legend_below(ax, min(len(names), 4))
    return ax


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
    """Figure 6 and Table 1 of [1]: a ball inside another, with the larger expected loss.

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
    K, H = LpBall(2, np.inf, [100.0, 1.0]), LpBall(2, 1, [110.0, 11.0])
    panels = _panels(axes, 2, (11.5, 5.2))
    drawn = {"K": (K, NAMED["hull"][0]), "H": (H, NAMED["l1"][0])}
    for name in ("H", "K"):
        ball, colour = drawn[name]
        shape = {"K": "rectangle", "H": "diamond"}[name]
        panels[0].fill(
            *outline(ball).T,
            facecolor=(colour, 0.25),
            edgecolor=colour,
            linewidth=2.2,
            label=f"{name}, {shape}",
        )
    panels[0].set_xlabel("x")
    panels[0].set_ylabel("y (not to the scale of x)")
    panels[0].set_title("K lies inside H ...", pad=12)
    panels[0].margins(0.08)
    _legend_below(panels[0], 2)
    _draw_costs(panels[1], {name: _costs(ball) for name, (ball, _) in drawn.items()}, drawn)
    return panels


def _costs(ball: NormBall) -> dict[str, float]:
    """Table 1 of [1] for one ball at epsilon = 1, and its area."""
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
            _write(ax, share, at, f"{value:.6g}", bold=value == min(pair))
    ax.set_yticks(range(len(measures)), measures)
    ax.set_ylim(len(measures) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlim(0.0, 1.2)
    ax.set_xticks(np.linspace(0.0, 1.0, 6))
    ax.set_xlabel("relative to the larger of the two (smaller in bold)")
    ax.set_ylabel("noise at epsilon = 1")
    ax.set_title("... and its noise has the larger losses", pad=12)
    ax.spines[["top", "right"]].set_visible(False)
    _legend_below(ax, 2)


# --- shared pieces ------------------------------------------------------------------------------


def _check_planar(name: str, dim: int) -> None:
    if dim != 2:
        fail(f"`{name}` must have dimension 2 to be drawn. Got {dim}.", DimensionError)


def _axes(ax: Axes | None, size: tuple[float, float]) -> Axes:
    if ax is not None:
        return ax
    return require("matplotlib.pyplot", "plots").subplots(figsize=size, layout="constrained")[1]


def _panels(axes: Sequence[Axes] | None, count: int, size: tuple[float, float]) -> Any:
    """The given axes, which must be ``count``, or a new row of them."""
    if axes is None:
        pyplot = require("matplotlib.pyplot", "plots")
        figure, panels = pyplot.subplots(1, count, figsize=size, layout="constrained")
        figure.get_layout_engine().set(wspace=0.08)
        return panels
    if len(axes) != count:
        fail(f"`axes` must be {count} axes. Got {len(axes)}.", DimensionError)
    return np.asarray(axes, dtype=object)


def _styles(names: Sequence[str]) -> dict[str, tuple[str, Any]]:
    """A colour and a line style for every name: fixed for the known ones."""
    strangers = [name for name in names if name not in NAMED]
    return {**NAMED, **{name: OTHERS[i % len(OTHERS)] for i, name in enumerate(strangers)}}


def _finish_plane(ax: Axes) -> None:
    """Equal units on both axes where that is readable, the origin marked, the legend below."""
    ax.margins(0.06)
    width, height = (np.ptp(limits) for limits in (ax.get_xlim(), ax.get_ylim()))
    if 0.25 <= height / width <= 4:
        shared = len(ax.get_shared_x_axes().get_siblings(ax)) > 1
        ax.set_aspect("equal", adjustable="box" if shared else "datalim")
    for line in (ax.axhline, ax.axvline):
        line(0.0, color=INK, linewidth=0.6, alpha=0.5, zorder=0)
    _legend_below(ax, 2)


def _legend_below(ax: Axes, columns: int, title: str | None = None) -> None:
    """A legend under the label of the x axis, where it hides nothing."""
    shift = require("matplotlib.transforms", "plots").ScaledTranslation
    legend = ax.legend(
        loc="upper center",
        bbox_to_anchor=(0.5, 0.0),
        bbox_transform=ax.transAxes + shift(0.0, -0.55, ax.figure.dpi_scale_trans),
        ncols=columns,
        frameon=False,
        title=title,
    )
    for handle in legend.legend_handles:
        if handle is not None and hasattr(handle, "set_markersize"):  # plain even if it is faint
            handle.set_markersize(6)
            handle.set_alpha(0.9)


def _closed(edge: FloatArray) -> FloatArray:
    """The same closed polygon, begun where it is flattest, so that no corner is left open."""
    if len(edge) < 4:
        return edge
    ring = edge[:-1] / np.abs(edge).max(axis=0)
    side = np.roll(ring, -1, axis=0) - ring
    side /= np.linalg.norm(side, axis=1, keepdims=True)
    straight = np.sum(side * np.roll(side, 1, axis=0), axis=1)
    ring = np.roll(edge[:-1], -int(straight.round(6).argmax()), axis=0)
    return np.vstack([ring, ring[:1]])


def _write(ax: Axes, x: float, y: float, text: str, *, bold: bool) -> None:
    """A value to the right of the end of its bar."""
    ax.annotate(
        text,
        (x, y),
        xytext=(5, 0),
        textcoords="offset points",
        va="center",
        fontsize=9.5,
        fontweight="bold" if bold else "normal",
    )
