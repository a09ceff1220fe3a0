"""The fit of draws to an enumerated law on lattice points."""

from __future__ import annotations

import numpy as np
from scipy import stats


def chi_square(points, logs, draw, draws, group=10):
    """The p-value of Pearson's test, rare points put together to at least ``group`` a class."""
    counts = {tuple(point): 0 for point in points}
    for i in range(draws):
        counts[draw(i)] += 1
    expected = draws * np.exp(logs)
    order = np.argsort(expected)
    classes = np.floor(np.cumsum(expected[order]) / group).astype(int)
    seen = np.bincount(classes, np.array(list(counts.values()))[order])
    mean = np.bincount(classes, expected[order])
    seen, mean = seen[mean > 0], mean[mean > 0]
    return float(stats.chi2.sf(((seen - mean) ** 2 / mean).sum(), len(mean) - 1))
