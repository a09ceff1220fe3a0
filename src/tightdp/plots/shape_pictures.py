"""Pictures of sensitivity spaces, norm balls and noise.

What is drawn as a space or a ball is exact; sampled movements are drawn as points, are labelled as
samples, and are never turned into an outline.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from tightdp.errors import (
    DegenerateBodyError,
    FloatArray,
    check_count,
    check_filled,
    check_probability,
    fail,
    require,
)
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.geometry.row_images import FiniteImage, OneHotImage, SquareImage
from tightdp.geometry.sensitivity import SensitivitySpace, certify_contains
from tightdp.noise.knorm import KNormNoise
from tightdp.noise.ranking import LP_NAMES
from tightdp.plots.canvas import (
    INK,
    SPACE,
    SYMBOLS,
    axes_for,
    check_planar,
    closed_at_flat,
    finish_plane,
    legend_below,
    panels_for,
    styles_for,
)
from tightdp.privacy import Neighbors, text_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

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
    check_planar("ball", ball.dim)
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
    check_planar("space", space.dim)
    around = _default_balls(space) if balls is None else _labelled(balls, space)
    ax = axes_for(ax, (6.4, 6.2))
    _draw_space(ax, space)
    _draw_balls(ax, around)
    ax.set_xlabel(f"change of {space.names[0]}")
    ax.set_ylabel(f"change of {space.names[1]}")
    ax.set_title(f"One record moves the statistic within S ({space.neighbors})", pad=12)
    finish_plane(ax)
    return ax


def plot_example_sensitivity(axes: Sequence[Axes] | None = None) -> Any:
    """Figure 1 of Awan and Slavković (2021): the balls of Example 2.10 at exact and at approximate
    sensitivities.

    The exact ones are 25/8, sqrt(71 + 8 sqrt 2)/4 and 2; bounding each entry by itself gives 4,
    sqrt 8 and 2. Returns the two axes.

    Examples
    --------
    >>> [ax.get_title() for ax in plot_example_sensitivity()]
    ['exact sensitivities', 'entry by entry bounds']
    """
    space = SensitivitySpace.sum_and_squares()
    panels = panels_for(axes, 2, (11.0, 6.4))
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
        finish_plane(ax)
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
        check_planar(f"balls[{name!r}]", ball.dim)
        violated = certify_contains(ball, space).violated
        label = SYMBOLS.get(name, name) + (" (does not contain S)" if violated else "")
        out.append((name, label, ball))
    return out


def _draw_balls(ax: Axes, balls: Sequence[tuple[str, str, NormBall]]) -> None:
    styles = styles_for([name for name, _, _ in balls])
    for name, label, ball in balls:
        colour, line = styles[name]
        width, height = (2.8, 3) if name == "hull" else (2.0, 4)
        x, y = closed_at_flat(outline(ball)).T
        ax.plot(x, y, color=colour, linestyle=line, linewidth=width, label=label, zorder=height)


# --- noise --------------------------------------------------------------------------------------


def plot_noise_density(
    noise: KNormNoise, ax: Axes | None = None, levels: Sequence[float] = (0.5, 0.9, 0.95, 0.99)
) -> Axes:
    """The density of planar noise, with the smallest sets of the given probabilities.

    Those sets are multiples ``t K`` of the ball (Lemma 3.5 of Awan and Slavković, 2021); the legend
    gives t.

    Examples
    --------
    >>> ax = plot_noise_density(KNormNoise(LpBall(2, 2), epsilon=1.0), levels=[0.5, 0.95])
    >>> ax.get_legend_handles_labels()[1]
    ['50 %: t = 1.68', '95 %: t = 4.74']
    """
    check_planar("noise", noise.dim)
    if noise.ball.rank < 2:
        fail("`noise` must have a density in the plane: its ball is flat.", DegenerateBodyError)
    chosen = sorted(check_probability("levels", level) for level in levels)
    check_filled("levels", chosen)
    ax = axes_for(ax, (7.2, 6.0))
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
        edge = closed_at_flat(outline(noise.ball) * t)
        label = f"{100 * level:g} %: t = {t:.2f}"
        ax.plot(*edge.T, color=INK, linestyle=dashes[i % 4], linewidth=1.6, label=label)
    ax.set_xlim(-reach[0], reach[0])
    ax.set_ylim(-reach[1], reach[1])
    ax.set_xlabel("noise in entry 1")
    ax.set_ylabel("noise in entry 2")
    ax.set_title(f"K-norm noise, epsilon = {text_up(noise.epsilon)}", pad=12)
    if 0.25 <= reach[1] / reach[0] <= 4:
        ax.set_aspect("equal")
    columns = 2 if len(chosen) > 2 else len(chosen)
    legend_below(ax, columns, title="smallest set t K of the given probability")
    return ax
