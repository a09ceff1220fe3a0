"""The picture of the README: one statistic's shapes, and what the least shape saves for six.

python examples/front_picture.py docs/_static/less_noise.png
"""

from __future__ import annotations

import sys
from pathlib import Path

import matplotlib.pyplot as plt
import numpy as np

import tightdp as tdp
from tightdp import plots

STATISTICS = {
    "10 sums": tdp.SensitivitySpace.of({f"x{i}": tdp.Interval(-1, 1) for i in range(10)}),
    "regression,\n5 predictors": tdp.SensitivitySpace.moments(5),
    "regression,\n2 predictors": tdp.SensitivitySpace.moments(2),
    "histogram,\n3 cells": tdp.SensitivitySpace.histogram(3),
    "histogram,\n6 cells": tdp.SensitivitySpace.histogram(6),
    "sum and\nsum of squares": tdp.SensitivitySpace.sum_and_squares(),
}


def variance_left(space: tdp.SensitivitySpace) -> float:
    """The mean variance of hull noise as a share of Laplace noise at its exact sensitivity."""
    hull = tdp.KNormNoise(space.hull(), epsilon=1.0).covariance()
    return float(np.trace(hull)) / (space.dim * 2 * float(space.sensitivity(p=1)) ** 2)


def draw() -> plt.Figure:
    figure, (left, right) = plt.subplots(1, 2, figsize=(11, 4.4), layout="constrained")
    plots.plot_sensitivity_space(tdp.SensitivitySpace.sum_and_squares(), ax=left)
    left.set_title("What one record can move, and shapes around it")
    shares = [variance_left(space) for space in STATISTICS.values()]
    bars = right.barh(list(STATISTICS), shares, color="#d55e00", height=0.6)
    right.bar_label(bars, [f"{share:.0%}" for share in shares], padding=4)
    right.axvline(1, color="0.3", linewidth=1)
    right.text(0.99, 2.5, "Laplace noise", rotation=90, ha="right", va="center", color="0.3")
    right.set(xlim=(0, 1.02), xlabel="variance of hull noise, Laplace = 100 %")
    right.xaxis.set_major_formatter(lambda share, _: f"{share:.0%}")
    right.invert_yaxis()
    right.spines[["top", "right"]].set_visible(False)
    right.set_title("The same guarantee, less noise")
    return figure


def main() -> None:
    path = Path(sys.argv[1] if len(sys.argv) > 1 else "output/less_noise.png")
    path.parent.mkdir(parents=True, exist_ok=True)
    draw().savefig(path, dpi=120)
    print(path)


if __name__ == "__main__":
    main()
