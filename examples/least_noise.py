"""The least noise for three statistics: the same guarantee, different shapes.

Each table ranks the norm balls that contain every movement of the statistic. The convex hull of the
movements lies inside all of them.
"""

from __future__ import annotations

import tightdp as tdp

EPSILON = 1.0

STATISTICS = {
    "(sum x, 2 sum x^2), x in [-1, 1]": tdp.SensitivitySpace.sum_and_squares(),
    "(sum x, sum y, sum xy), x and y in [-1, 1]": tdp.SensitivitySpace.of(
        {"x": tdp.Interval(-1, 1), "y": tdp.Interval(-1, 1)}, ["x", "y", "x:y"]
    ),
    "a histogram with 4 cells": tdp.SensitivitySpace.histogram(4),
}


def main() -> None:
    for title, space in STATISTICS.items():
        print(f"\n{title}; epsilon = {EPSILON:g}, {space.neighbors} neighbours\n")
        print(tdp.rank_norms(space, EPSILON))


if __name__ == "__main__":
    main()
