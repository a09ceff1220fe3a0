"""Shares of epsilon for the noise of private logistic regression, beside the best of them.

    python benchmarks/logistic_shares.py [--tables 160] [--fresh] [--only 0 3 ...] [--out FILE]

``SETTINGS`` are those of ``logistic_grid.py`` and ten more, with long and with short parameters.
``FRESH`` are other widths, columns, lengths and numbers of rows, written down before anything was
tuned on the first, and not used for tuning. The noise is continuous and minimisers are Newton's
to 1e-9: what is exact in a release is too small to be seen here. All variants of one table have
the same noise of unit rate.
"""

from __future__ import annotations

from typing import NamedTuple

import logistic_grid as grid
import numpy as np

from tightdp.errors import FloatArray


class Setting(NamedTuple):
    """Columns, parameters (the intercept first where there is one), rows and epsilon."""

    columns: str
    effects: str
    theta: tuple[float, ...]
    rows: int
    epsilon: float
    intercept: bool = True


STRONG, LENGTH_3, SMALL = (0, 4, -4, 2), (0, 2, -2, 1), (0, 0.3, -0.3, 0.15)
NAMES = {0.0: "moderate", -3.2: "5 % positive"}
SETTINGS = [
    *(
        Setting(
            s.columns,
            "strong" if s.theta == grid.STRONG else NAMES[s.theta[0]],
            tuple(s.theta),
            s.rows,
            s.epsilon,
        )
        for s in grid.SETTINGS
    ),
    Setting("even", "strong", STRONG, 20_000, 1),
    Setting("even", "strong", STRONG, 5000, 4),
    Setting("even", "strong", STRONG, 50_000, 0.25),
    Setting("even", "strong", STRONG, 2000, 4),
    Setting("even", "length 3", LENGTH_3, 5000, 1),
    Setting("even", "length 3", LENGTH_3, 20_000, 0.25),
    Setting("even", "small", SMALL, 5000, 1),
    Setting("even", "small", SMALL, 50_000, 0.25),
    Setting("skewed", "length 3", LENGTH_3, 20_000, 1),
    Setting("correlated .8", "length 3", LENGTH_3, 20_000, 1),
]
FRESH = [
    Setting("even", "1 column, length 2", (0, 2), 1000, 1),
    Setting("even", "1 column, length 5", (5,), 500, 1, intercept=False),
    Setting("two-valued", "2 columns, length 1.5", (0.5, 1, -1), 5000, 0.5),
    Setting("two-valued", "3 columns, length 3", (0, 2, -2, 1), 2000, 1),
    Setting("narrow .3", "3 columns, length 4.5", (0, 3, -3, 1.5), 10_000, 1),
    Setting("narrow .3", "2 columns, length 1.4", (0, 1, 1), 20_000, 0.5),
    Setting("correlated .8", "6 columns, length 1.9", (0, 1, -1, 0.5, -0.5, 1, 0), 20_000, 1),
    Setting("even", "6 columns, length 3.3", (0, 2, -2, 1, 1, -1, 0), 5000, 2),
    Setting(
        "even",
        "10 columns, length 2.2",
        (0, 1, -1, 0.5, 0.5, -0.5, 0.5, 0, 0, 1, -1),
        20_000,
        1,
    ),
    Setting("even", "10 columns, length 5.7", (0, 3, -3, 2, 2, -2, 1, 0, 0, 1, -1), 50_000, 0.5),
    Setting("skewed", "6 columns, length 1.9", (-0.5, 1, -1, 0.5, 0, 0, 1), 100_000, 0.125),
    Setting("even", "2 columns, length .3", (0, 0.2, -0.2), 5000, 1),
    Setting("even", "2 columns, length .3", (0, 0.2, -0.2), 100_000, 0.25),
    Setting("even", "1 column, length 4.5", (-2, 4), 10_000, 0.25),
    Setting("mixed", "3 columns, length 3.7", (0, 1, -2, 3), 5000, 1),
    Setting("two-valued .1", "3 columns, length 2", (-1, 1, 1, -1), 20_000, 0.5),
    Setting("even", "3 columns, length 3", (2, -2, 1), 2000, 4, intercept=False),
    Setting("correlated .95", "2 columns, length 2.2", (0, 2, -1), 50_000, 1),
    Setting("even", "6 columns, length 5.6", (0, 3, -3, 2, -2, 2, 1), 100_000, 0.125),
    Setting("two-valued", "10 columns, length 1.6", (0.5,) * 10, 10_000, 1, intercept=False),
    Setting("even", "3 columns, length 5", (1, 3, -3, 2.5), 500, 4),
    Setting("skewed", "1 column, length 3.2", (1, -3), 2000, 0.5),
]


def cells(kind: str, rows: int, width: int, rng: np.random.Generator) -> FloatArray:
    """Columns within [-1, 1]."""
    if kind.startswith("two-valued"):
        share = float(kind.split()[1]) if " " in kind else 0.5
        return 2.0 * (rng.random((rows, width)) < share) - 1.0
    if kind.startswith("narrow"):
        return float(kind.split()[1]) * rng.uniform(-1, 1, (rows, width))
    if kind == "mixed":
        kinds = ("even", "two-valued", "narrow .3")
        return np.hstack([cells(kinds[j % 3], rows, 1, rng) for j in range(width)])
    return grid.cells(kind, rows, width, rng)
