"""What an adversary can learn: power against level."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

import numpy as np

from tightdp.errors import DimensionError, fail
from tightdp.meaning import power_bound
from tightdp.plots.canvas import INK, NAMED, OTHERS, axes_for, legend_below
from tightdp.privacy import text_up

if TYPE_CHECKING:
    from matplotlib.axes import Axes

_STYLES = [*NAMED.values(), *OTHERS]


def plot_power(
    epsilons: float | Sequence[float] = (0.1, 0.5, 1.0, 3.0),
    delta: float = 0.0,
    ax: Axes | None = None,
) -> Axes:
    """The largest power of any test of a person's record against its level, for each epsilon.

    The diagonal is a blind guess; the corner above is no privacy.

    Examples
    --------
    >>> plot_power(1.0).get_ylabel()
    'power of the best test'
    """
    shown = [float(epsilon) for epsilon in np.atleast_1d(epsilons)]
    if not 1 <= len(shown) <= len(_STYLES):
        fail(f"`epsilons` must be one to {len(_STYLES)} numbers.", DimensionError)
    curves = []
    for epsilon in shown:
        # the two pieces meet here; lines need no other points
        knee = (1.0 - delta) / (1.0 + np.exp(epsilon))
        levels = np.array([0.0, knee, 1.0 - delta, 1.0])
        curves.append((epsilon, levels, power_bound(levels, epsilon, delta)))
    ax = axes_for(ax, (5.6, 5.6))
    for (epsilon, levels, power), (colour, style) in zip(curves, _STYLES, strict=False):
        label = f"epsilon = {text_up(epsilon)}"
        ax.plot(levels, power, color=colour, linestyle=style, linewidth=2, label=label)
    ax.plot([0, 1], [0, 1], color=INK, linewidth=0.8, label="a blind guess")
    ax.set_xlim(0.0, 1.0)
    ax.set_ylim(0.0, 1.0)
    ax.set_aspect("equal")
    ax.set_xlabel("level: chance of a false alarm")
    ax.set_ylabel("power of the best test")
    ax.set_title("What anybody can learn about one person", pad=12)
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(ax, 2, f"delta = {text_up(delta)}" if delta else None)
    return ax
