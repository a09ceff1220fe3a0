"""Pictures of regressions: private coefficients and their intervals, beside others."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import check_array, fail
from tightdp.plots.canvas import INK, NAMED, axes_for, legend_below
from tightdp.printed import percent

if TYPE_CHECKING:
    from matplotlib.axes import Axes


def plot_coefficients(
    model: Any,
    other: ArrayLike | None = None,
    *,
    label: str = "not private",
    confidence: float | None = None,
    simultaneous: bool = False,
    names: Sequence[str] | None = None,
    ax: Axes | None = None,
) -> Axes:
    """The coefficients of a fitted regression with their intervals.

    Parameters
    ----------
    model : LinearRegression, Ridge or LogisticRegression, fitted
        A logistic regression with ``interval_share``: intervals need the information matrix.
    other : array, optional
        Coefficients to draw beside them, in the same order; drawing those of private rows
        publishes them.
    label : str
        What the others are.
    confidence, simultaneous :
        See :meth:`~tightdp.LinearRegression.conf_int`.
    names : sequence of str, optional
        Which coefficients, by default all.

    Examples
    --------
    >>> import tightdp as tdp
    >>> x = np.linspace(-1, 1, 2_001)
    >>> model = tdp.LinearRegression(bounds=[(-1, 1), (-3, 3)], random_state=1)
    >>> plot_coefficients(model.fit(x[:, None], 2 * x), [2.0]).get_title()
    'epsilon = 1, replace-one neighbours, exact, SEEDED: not private'
    """
    known = list(model.coef_names_)
    chosen = known if names is None else list(names)
    strangers = [name for name in chosen if name not in known]
    if strangers:
        fail(f"`names` must be among {', '.join(known)}. Got {strangers[0]!r}.")
    places = [known.index(name) for name in chosen]
    bounds = model.conf_int(confidence=confidence, simultaneous=simultaneous)[places]
    level = model.release_.confidence if confidence is None else confidence
    ax = axes_for(ax, (7.2, 1.6 + 0.42 * len(places)))
    rows = np.arange(len(places), dtype=float)
    colour = NAMED["hull"][0]
    lift = 0.12 if other is not None else 0.0
    kind = "intervals, all at once" if simultaneous else "intervals"
    ax.hlines(
        rows - lift, bounds[:, 0], bounds[:, 1], color=colour, lw=2.4, alpha=0.75,
        label=f"{percent(level)} {kind}",
    )  # fmt: skip
    values = np.ravel(model.coef_)[places]
    ax.plot(values, rows - lift, "o", color=colour, mec="white", ms=8, label="private")
    if other is not None:
        others = check_array("other", other, 1, len(known))[places]
        ax.plot(others, rows + lift, "D", color=NAMED["l1"][0], mec="white", ms=7, label=label)
    ax.axvline(0.0, color=INK, linewidth=0.8, alpha=0.6, zorder=0)
    ax.set_yticks(rows, chosen)
    ax.set_ylim(len(places) - 0.4, -0.6)
    ax.tick_params(axis="y", length=0)
    ax.set_xlabel("coefficient")
    ax.set_title(str(model.guarantee_), pad=10, fontsize=11)
    ax.spines[["top", "right"]].set_visible(False)
    legend_below(ax, 3)
    return ax
