"""How long designed noise takes: the tables of [5], its anchors, and its formulation beside ours.

    python benchmarks/designs.py --out benchmarks/results/designs.md

Every design is certified to a relative gap of 1 % and verified. Times are seconds of
processor time of one process, so that other jobs on the machine do not count.
"""

from __future__ import annotations

import argparse
import platform
import statistics
import sys
import time
import warnings
from collections.abc import Callable
from fractions import Fraction
from pathlib import Path

import numpy as np

sys.path.insert(0, str(Path(__file__).parents[1]))  # `reproduce` is not installed

import tightdp as tdp
from reproduce.noise_tables import (
    DELTAS,
    EPSILONS,
    PRINTED_LOWER,
    PRINTED_UPPER,
    REFERENCE,
    geng_bound,
    truncated_laplace_loss,
)
from reproduce.published_bounds import paper_bounds
from reproduce.published_recipes import UPPER_RECIPES, Recipe, recipes
from tightdp.design import losses, programs

# Optima found by an independent program, middles of intervals of relative width below 1 %.
KNOWN = {
    "l1": {
        0.005: (37.89, 21.53, 11.57, 4.839, 2.465, 1.237, 0.9909, 0.8246, 0.4992, 0.2496),
        0.1: (7.672, 6.508, 5.093, 3.163, 1.960, 1.114, 0.9174, 0.7721, 0.4837, 0.2419),
        0.5: (1.847, 1.761, 1.623, 1.356, 1.083, 0.7828, 0.6835, 0.6078, 0.4151, 0.2075),
        1.0: (0.9282, 0.9061, 0.8693, 0.7866, 0.6900, 0.5579, 0.5107, 0.4692, 0.3319, 0.1660),
        2.0: (0.4187, 0.4143, 0.4070, 0.3882, 0.3630, 0.3198, 0.2998, 0.2799, 0.1999, 0.09998),
        5.0: (
            *(0.08206, 0.08165, 0.08083, 0.07835, 0.07422),
            *(0.06597, 0.06184, 0.05772, 0.04123, 0.02062),
        ),
    },
    "l2": REFERENCE,
}
SLACK = 0.0055  # half of their 1 %, and four printed digits

Cells = dict[tuple[float, float], tdp.Design]


def timed(make: Callable[[], tdp.Design]) -> tuple[tdp.Design, float]:
    before = time.process_time()
    design = make()
    took = time.process_time() - before
    if not design.certificate.verify():
        raise SystemExit("a design was not proved")
    return design, took


def meets(design: tdp.Design, low: float, high: float) -> bool:
    """Whether the certified interval meets the one where the optimum is known to lie."""
    return design.lower <= high and design.upper >= low


def table(loss: str, epsilons: list[float], cells: Cells) -> list[str]:
    """One line for each epsilon: the middle of each certified interval, then times."""
    rows = [f"| epsilon | {' | '.join(f'{delta:g}' for delta in DELTAS)} | seconds |"]
    rows.append("|" + " --- |" * (len(DELTAS) + 2))
    times: list[float] = []
    known = held = 0
    worst = 0.0
    for epsilon in epsilons:
        spent = 0.0
        for j, delta in enumerate(DELTAS):
            design, took = timed(
                lambda e=epsilon, d=delta: tdp.design_noise(epsilon=e, delta=d, loss=loss)
            )
            cells[epsilon, delta] = design
            times.append(took)
            spent, worst = spent + took, max(worst, design.gap)
            if epsilon in KNOWN[loss]:
                value = KNOWN[loss][epsilon][j]
                known += 1
                held += meets(design, value * (1 - SLACK), value * (1 + SLACK))
        found = (cells[epsilon, delta] for delta in DELTAS)
        middles = " | ".join(f"{(d.lower + d.upper) / 2:.4g}" for d in found)
        rows.append(f"| {epsilon:g} | {middles} | {spent:.1f} |")
        print(rows[-1], flush=True)
    summary = (
        f"{len(times)} cells, all proved in exact arithmetic: {sum(times):.0f} s in all, median "
        f"{statistics.median(times):.2f} s, longest {max(times):.1f} s, largest gap {worst:.3%}. "
        f"Of {known} optima known from an independent program the certified interval holds {held}."
    )
    print(summary, flush=True)
    return [*rows, "", summary, ""]


# --- anchors --------------------------------------------------------------------------------------

ANCHORS = [
    ("(3, 0.3), l1", {"epsilon": 3, "delta": 0.3}, (0.162579, 0.163061)),
    (
        "(3, 0.3), l1, monotone (published: never below 0.1830)",
        {"epsilon": 3, "delta": 0.3, "monotone": True},
        (0.164234, 0.164260),
    ),
    (
        "(1, 0.2), abs(x) + abs(x) for x > 0",
        {"epsilon": 1, "delta": 0.2, "loss": losses.asymmetric()},
        (0.77765, 0.77842),
    ),
    (
        "(1, 0.4), sensitivity 10, l1",
        {"epsilon": 1, "delta": 0.4, "sensitivity": 10},
        (3.980, 3.989),
    ),
    (
        "(1, 0.4), sensitivity 10, l2",
        {"epsilon": 1, "delta": 0.4, "sensitivity": 10, "loss": "l2"},
        (28.08, 28.18),
    ),
    ("(1, 1e-6), l1", {"epsilon": 1, "delta": 1e-6}, (0.959349, 0.959505)),
    ("(0.1, 1e-6), l1", {"epsilon": 0.1, "delta": 1e-6}, (9.993455, 9.993775)),
    ("(3, 1e-6), l1", {"epsilon": 3, "delta": 1e-6}, (0.2336, 0.2354)),
    ("(1, 1e-9), l1", {"epsilon": 1, "delta": 1e-9}, (0.959349, 0.959520)),
    ("(1, 0), l1: staircase", {"epsilon": 1, "delta": 0}, (0.959517, 0.959518)),
    (
        "(1, 0), l1, integers: two-sided geometric",
        {"epsilon": 1, "delta": 0, "integer": True},
        (0.8509181, 0.8509182),
    ),
]

# P(L, beta) and D(L, beta) at (1, 0.2), l1: sensitivities on each side, cells a sensitivity.
FIGURE_5 = [(1, 4, None, 0.366), (1, 16, None, 0.453), (2, 4, 0.56606, 0.44106)]
FIGURE_5 += [(2, 16, 0.55906, 0.52753)]


def anchors() -> list[str]:
    rows = ["| problem | known | certified | gap | seconds | |", "|" + " --- |" * 6]
    for name, given, (low, high) in ANCHORS:
        design, took = timed(lambda given=given: tdp.design_noise(**given, gap=0.005))
        met = "holds" if meets(design, low, high) else "MISSES"
        rows.append(
            f"| {name} | [{low:g}, {high:g}] | [{design.lower:.6g}, {design.upper:.6g}] | "
            f"{design.gap:.2%} | {took:.1f} | {met} |"
        )
        print(rows[-1], flush=True)
    rows += ["", "The published programs at (1, 0.2), l1, beside independent values:", ""]
    rows += ["| support | cells a sensitivity | P | known | D | known |", "|" + " --- |" * 6]
    for units, cells, upper, lower in FIGURE_5:
        found = paper_bounds(epsilon=1.0, delta=0.2, cells=cells, units=units)
        known = "infeasible" if upper is None else f"{upper:.5f}"
        shown = "infeasible" if np.isinf(found[0]) else f"{found[0]:.5f}"
        rows.append(f"| {units} | {cells} | {shown} | {known} | {found[1]:.5f} | {lower:.5f} |")
        print(rows[-1], flush=True)
    return [*rows, ""]


# --- corners --------------------------------------------------------------------------------------

CORNERS = [(10, 1e-6), (0.001, 1e-6), (10, 0.1), (14, 0.1), (20, 1e-6), (1e-6, 1e-12), (0.001, 0)]


def corners() -> list[str]:
    """Huge and tiny epsilons: the certified interval, beside the loss of known noise."""
    rows = ["| epsilon, delta | certified | gap | noise | seconds | with a limit of 1 s: gap | s |"]
    rows.append("|" + " --- |" * 7)
    for epsilon, delta in CORNERS:
        short, quick = timed(
            lambda e=epsilon, d=delta: tdp.design_noise(epsilon=e, delta=d, time_limit=1, gap=1e-6)
        )
        design, took = timed(lambda e=epsilon, d=delta: tdp.design_noise(epsilon=e, delta=d))
        rows.append(
            f"| {epsilon:g}, {delta:g} | [{design.lower:.6g}, {design.upper:.6g}] | "
            f"{design.gap:.3%} | {type(design.noise).__name__} | {took:.1f} | {short.gap:.3%} | "
            f"{quick:.1f} |"
        )
        print(rows[-1], flush=True)
    return [*rows, ""]


# --- tables 1 and 2 of [5] ------------------------------------------------------------------------


def excess(epsilon: float, delta: float, middle: float) -> float:
    """Table 1: (truncated Laplace - optimum) / max(optimum, 1), in percent."""
    return 100 * (truncated_laplace_loss(epsilon, delta) - middle) / max(middle, 1.0)


def shortfall(epsilon: float, delta: float, middle: float, more: int) -> float:
    """Table 2: (optimum - known lower bound) / max(optimum, 1), in percent."""
    bound = geng_bound(epsilon, delta, more)
    if bound > middle:
        bound = geng_bound(epsilon, delta)
    return 100 * (middle - bound) / max(middle, 1.0)


def published(cells: Cells) -> list[str]:
    middles = {key: (d.lower + d.upper) / 2 for key, d in cells.items()}
    ours_1 = {key: excess(*key, middle) for key, middle in middles.items()}
    ours_2 = {key: shortfall(*key, middle, 0) for key, middle in middles.items()}
    more_2 = {key: shortfall(*key, middle, 1) for key, middle in middles.items()}
    out = ["### Table 1: certified / printed, percent", "", *_beside(ours_1, PRINTED_UPPER)]
    out += ["### Table 2: certified, with the proved bound / printed, percent", ""]
    out += _beside(ours_2, PRINTED_LOWER)
    tenth_1, tenth_2 = _within(ours_1, PRINTED_UPPER), _within(ours_2, PRINTED_LOWER)
    tenth_3 = _within(more_2, PRINTED_LOWER)
    small = {key: text for key, text in recipes(UPPER_RECIPES).items() if text in ("4", "5", "10")}
    recipe = sum(_recipe(*key, text) for key, text in small.items())
    above = truncated_laplace_loss(5.0, 0.1) / middles[5.0, 0.1] - 1
    loose = [(cells[key].upper, PRINTED_LOWER[_at(*key)] / 100) for key in cells if key[1] >= 0.5]
    high = [printed / upper - 1 for upper, printed in loose if printed > upper]
    out += [
        "Why they differ, kind by kind:",
        "",
        f"- **A different optimum.** {tenth_1} cells of Table 1 agree to 0.1 points. The printed "
        "optimum is the middle of the loss of one noise and of the same noise with the least loss "
        f"in each cell, which bounds nothing; that recipe gives {recipe} of {len(small)} cells "
        "tested here, at 4 to 10 cells a unit, to all printed digits (all recipes: "
        "`docs/reproduced.md`). Its gap there is 2 to 8 %, not the 1 % stated.",
        "- **Division by max(optimum, 1).** Where the optimum is below 1 (large epsilon or delta) "
        f"the numbers are absolute errors: at (5, 0.1) truncated Laplace noise is {above:.0%} "
        f"above the optimum, and the table says {PRINTED_UPPER[_at(5.0, 0.1)]:.2f} %.",
        f"- **One term too many.** With the proved lower bound {tenth_2} cells of Table 2 agree to "
        f"0.1 points; with one term more than is proved (dropped where that exceeds the optimum) "
        f"{tenth_3} do.",
        "- **Two optima.** At delta of 1/2 and more the proved bound is 0 and Table 2 prints the "
        f"optimum itself: {len(high)} of 20 entries exceed the certified upper bound, by "
        f"{min(high):.0%} to {max(high):.0%}, while Table 1 implies optima below it. The two "
        "tables do not come from one program: Table 2 is of noise with the least *absolute* loss.",
        "- **Truncated Laplace beyond delta = 1/2.** The formula is used outside its range; the "
        "noise is still private, with room to spare.",
        "",
    ]
    return out


def _beside(ours: dict[tuple[float, float], float], printed: np.ndarray) -> list[str]:
    rows = [f"| epsilon | {' | '.join(f'{delta:g}' for delta in DELTAS)} |"]
    rows.append("|" + " --- |" * (len(DELTAS) + 1))
    for e in EPSILONS:
        each = (f"{ours[e, d]:.2f} / {printed[_at(e, d)]:.2f}" for d in DELTAS)
        rows.append(f"| {e:g} | {' | '.join(each)} |")
    return [*rows, ""]


def _at(epsilon: float, delta: float) -> tuple[int, int]:
    return EPSILONS.index(epsilon), DELTAS.index(delta)


def _within(ours: dict[tuple[float, float], float], printed: np.ndarray) -> int:
    return sum(abs(value - printed[_at(*key)]) <= 0.1 for key, value in ours.items())


def _recipe(epsilon: float, delta: float, text: str) -> bool:
    recipe = Recipe.read(text)
    assert recipe is not None
    middle = sum(recipe.optima(epsilon, delta)) / 2
    return abs(excess(epsilon, delta, middle) - PRINTED_UPPER[_at(epsilon, delta)]) <= 0.0051


# --- growth ---------------------------------------------------------------------------------------


def growth(limit: float) -> list[str]:
    """Seconds by number of cells at (1, 0.1), l1, for the two formulations."""
    rows = ["| cells | extended | cutting planes | ratio |", "| --- | --- | --- | --- |"]
    for cells in (20, 40, 80, 120, 200, 400):
        seconds: dict[str, float] = {}
        for method in ("extended", "cutting-planes"):
            if method == "cutting-planes" and cells > 200:
                continue
            before = time.process_time()
            tdp.design_noise(epsilon=1.0, delta=0.1, cells=cells, method=method, time_limit=limit)
            seconds[method] = time.process_time() - before
        ours = seconds["extended"]
        theirs = seconds.get("cutting-planes")
        ended = theirs is not None and theirs < 0.95 * limit
        shown = "-" if theirs is None else f"{theirs:.2f}" if ended else f"> {limit:g}"
        ratio = "-" if theirs is None else f"{'' if ended else '> '}{theirs / ours:.0f}"
        rows.append(f"| {cells} | {ours:.2f} | {shown} | {ratio} |")
        print(rows[-1], flush=True)
    return [*rows, ""]


# --- two releases, three entries, dropped shifts --------------------------------------------------

TOGETHER = [
    {"epsilon": 2.0, "delta": 0.2, "resolution": 4},
    {"epsilon": 2.0, "delta": 0.2, "resolution": (4, 2)},
    {"epsilon": 2.0, "delta": 0.2, "resolution": 4, "growth": 0.5},
    {"epsilon": 2.0, "delta": 0.2, "resolution": 4, "importance": (1, 4)},
    {"epsilon": 1.0, "delta": 0.01, "resolution": 2},
    {"epsilon": 5.0, "delta": 0.2, "resolution": 4},
]


def together() -> list[str]:
    """Two noises found together, beside halves of the budget and Gaussian noise (loss l1)."""
    rows = ["| problem | at least | together | each | adaptive delta | seconds |"]
    rows[0] += " halves, optimal | truncated Laplace, halves | Gaussian |"
    rows.append("|" + " --- |" * 9)
    for given in TOGETHER:
        before = time.process_time()
        found = tdp.design_composed_noise(**given)
        took = time.process_time() - before
        weight = sum(given.get("importance", (1, 1)))
        half = {"epsilon": given["epsilon"] / 2, "delta": given["delta"] / 2}
        rivals = [
            tdp.design_noise(**half, gap=0.003).upper,
            tdp.TruncatedLaplace(**half).expected_loss(1),
            tdp.AnalyticGaussian(
                epsilon=given["epsilon"], delta=given["delta"], sensitivity=2**0.5
            ).expected_loss(1),
        ]
        ratios = (f"{weight * r:.4f} ({weight * r / float(found.upper):.3f})" for r in rivals)
        rows.append(
            f"| {given} | {float(found.lower):.4f} | {float(found.upper):.4f} | "
            f"{' and '.join(f'{float(x):.3f}' for x in found.losses)} | "
            f"{float(found.adaptive_delta):.4f} | {took:.1f} | {' | '.join(ratios)} |"
        )
        print(rows[-1], flush=True)
    note = (
        "In brackets: times the loss of the pair. Halves are not the best split where one release "
        "counts more: part of what is gained there is the split."
    )
    return [*rows, "", note, ""]


def space() -> list[str]:
    """Three entries, loss abs(x1) + abs(x2) + abs(x3), at (2, 0.2)."""
    rows = ["| ball | cells | at least | noise | gap | Gaussian | seconds | check, s |"]
    rows.append("|" + " --- |" * 8)
    for ball, k in (("l2", 2), ("l2", 3), ("l1", 3), ("linf", 2)):
        before = time.process_time()
        made = tdp.design_vector_noise(dim=3, epsilon=2.0, delta=0.2, ball=ball, resolution=k)
        took = time.process_time() - before
        text, before = made.to_json(), time.process_time()
        tdp.VectorDesign.from_json(text)
        checked = time.process_time() - before
        radius = 3**0.5 if ball == "linf" else 1.0
        law = tdp.AnalyticGaussian(epsilon=2.0, delta=0.2, sensitivity=radius)
        rows.append(
            f"| {ball} | {k} | {float(made.lower):.4f} | {float(made.upper):.4f} | "
            f"{made.gap:.1%} | {3 * law.expected_loss(1):.4f} | {took:.1f} | {checked:.2f} |"
        )
        print(rows[-1], flush=True)
    return [*rows, ""]


def dropping() -> list[str]:
    """Seconds with and without the shifts that turned out slack; both are verified."""
    rows = ["| problem | kept | dropped | ratio |", "| --- | --- | --- | --- |"]
    cases = [(1.0, 0.1, 200), (1.0, 0.1, 400), (5.0, 0.1, 200), (0.5, 0.05, 300)]
    for epsilon, delta, cells in cases:
        seconds = []
        for k, share in enumerate((float("inf"), programs._IDLE)):
            kept, programs._IDLE = programs._IDLE, share
            near = epsilon * (1 + 1e-7 * k)  # solved designs are remembered
            before = time.process_time()
            tdp.design_noise(epsilon=near, delta=delta, cells=cells)
            seconds.append(time.process_time() - before)
            programs._IDLE = kept
        rows.append(
            f"| ({epsilon:g}, {delta:g}), {cells} cells | {seconds[0]:.2f} | {seconds[1]:.2f} | "
            f"{seconds[1] / seconds[0]:.2f} |"
        )
        print(rows[-1], flush=True)
    return [*rows, ""]


PARTS = "l1,l2,anchors,corners,published,growth,together,space,dropping"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--out", type=Path)
    parser.add_argument("--parts", default=PARTS)
    parser.add_argument("--limit", type=float, default=240.0, help="seconds for cutting planes")
    options = parser.parse_args()
    warnings.simplefilter("ignore", RuntimeWarning)
    tdp.design_noise(epsilon=1.5, delta=Fraction(3, 20))  # imports the solver
    lines = [
        "# Designed noise",
        "",
        f"{platform.machine()}, Python {platform.python_version()}, one process, seconds of "
        "processor time.",
        "",
    ]
    parts = options.parts.split(",")
    if "l1" in parts:
        lines += ["## l1, middle of the certified interval", "", *table("l1", list(EPSILONS), {})]
    squares: Cells = {}
    if "l2" in parts or "published" in parts:
        low, high = [e for e in EPSILONS if e <= 2], [e for e in EPSILONS if e > 2]
        lines += ["## l2, epsilon up to 2", "", *table("l2", low, squares)]
        lines += ["## l2, epsilon 5", "", *table("l2", high, squares)]
    if "anchors" in parts:
        lines += ["## Anchors", "", *anchors()]
    if "corners" in parts:
        lines += ["## Corners, l1", "", *corners()]
    if "published" in parts:
        lines += ["## Tables 1 and 2 of [5] (l2, sensitivity 1)", "", *published(squares)]
    if "growth" in parts:
        lines += ["## Seconds by number of cells, (1, 0.1), l1", "", *growth(options.limit)]
    if "together" in parts:
        lines += ["## Two releases together, loss l1", "", *together()]
    if "space" in parts:
        lines += ["## Three entries, (2, 0.2), loss l1", "", *space()]
    if "dropping" in parts:
        lines += ["## Shifts that are slack leave the program", "", *dropping()]
    if options.out:
        options.out.write_text("\n".join(lines), encoding="utf-8")


if __name__ == "__main__":
    main()
