"""Lines with error bars, the one way in which the simulations are drawn."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from reproduce.results import Row
from tightdp.plots.canvas import INK, legend_below

# Colours told apart by every common kind of sight, with their own markers and dashes.
_LOOKS: tuple[tuple[str, str, Any], ...] = (
    ("#0072B2", "o", "--"),
    ("#009E73", "s", "-."),
    ("#CC79A7", "^", ":"),
    ("#D55E00", "D", "-"),
    ("#E69F00", "v", (0, (5, 1))),
    ("#56B4E9", "P", (0, (3, 1, 1, 1))),
    ("#882255", "X", (0, (1, 1))),
)


def draw_curves(
    ax: Any,
    rows: Sequence[Row],
    *,
    x: str,
    series: Mapping[str, str],
    value: str = "value",
    error: str = "error",
    logs: str = "xy",
    columns: int = 2,
) -> None:
    """One line for each series: ``row["series"]`` is the key, the mapping gives the label."""
    for (key, label), (colour, marker, style) in zip(series.items(), _LOOKS, strict=False):
        found = sorted((r for r in rows if r["series"] == key), key=lambda r: float(r[x]))
        if not found:
            continue
        ax.errorbar(
            [r[x] for r in found],
            [r[value] for r in found],
            yerr=[2 * (r.get(error) or 0.0) for r in found],
            color=colour,
            marker=marker,
            linestyle=style,
            markersize=5,
            linewidth=1.6,
            capsize=2,
            label=label,
        )
    if "x" in logs:
        ax.set_xscale("log", base=2 if x == "epsilon" else 10)
    if "y" in logs:
        ax.set_yscale("log")
    if x == "epsilon":
        levels = sorted({float(r[x]) for r in rows})
        ax.set_xticks(levels, [fraction_label(level) for level in levels])
        ax.set_xticks([], minor=True)
        ax.set_xlabel("epsilon")
    ax.spines[["top", "right"]].set_visible(False)
    ax.grid(alpha=0.25)
    legend_below(ax, columns)


def level_line(ax: Any, height: float, label: str, *, above: bool = True) -> None:
    """A named horizontal line: the name is at its left end if it is below, else at its right."""
    ax.axhline(height, color=INK, linewidth=1.0)
    ax.annotate(
        label,
        (1.0 if above else 0.0, height),
        xycoords=("axes fraction", "data"),
        xytext=(-2 if above else 4, 3 if above else -3),
        textcoords="offset points",
        ha="right" if above else "left",
        va="bottom" if above else "top",
        fontsize=9,
    )


def fraction_label(level: float) -> str:
    """1/16 rather than 0.0625.

    >>> fraction_label(0.0625), fraction_label(2.0)
    ('1/16', '2')
    """
    return f"1/{round(1 / level)}" if level < 1 else f"{level:g}"
