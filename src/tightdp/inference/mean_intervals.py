r"""Intervals for means of a population that count noise and sampling together, and no more.

Released are the means S of n rows and their mean squares Q, columns scaled to [-1, 1], each with
noise of known law. Every draw of the noise gives a candidate :math:`m = S - N` for the means of the
rows and :math:`v = Q - N' - m^2` for their variances, moved to what can be, [0, 1 - m^2]; around
each candidate the mean of the population is normal with variance :math:`v/(n-1)`. The interval
leaves out half of alpha at either end of that mixture. Where noise is small it is the usual
interval of a mean, where sampling is small the quantiles of the noise; bounds on both that hold for
every law of the rows (:mod:`tightdp.inference.sampling_error`) are two to five times as long.

What is taken for granted is that a mean of n rows is nearly normal, as for the usual interval. It
is not where a few rows decide: if one row in fifty is far away, a thousand rows are needed.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import scipy  # scipy.special and scipy.optimize are loaded at their first use

from tightdp.errors import FloatArray, check_probability
from tightdp.inference.coefficient_intervals import holding

NoisePairs = Callable[[int], tuple[FloatArray, FloatArray]]
"""A count to so many draws of the noise of means and of mean squares, a column for each."""

NOISES = 3_000
"""Draws of the noise; its law is symmetric, so that each serves twice."""

_LEAST, _FAR = 1e-12, 9.0  # a standard deviation, and how many of them hold everything
_FINE = 1e-4  # of one, up to which ends are found


def mean_intervals(
    means: FloatArray, squares: FloatArray, noise: NoisePairs, rows: int, alpha: float
) -> FloatArray:
    """Rows (low, high) that hold the means of the population, all at once.

    ``means`` and ``squares`` are as released, of columns scaled to [-1, 1]; of several columns each
    may miss by its part of alpha.

    >>> silent = lambda count: (np.zeros((count, 1)), np.zeros((count, 1)))
    >>> mean_intervals(np.zeros(1), np.full(1, 0.25), silent, 101, 0.05).round(3)
    array([[-0.098,  0.098]])
    """
    miss = check_probability("alpha", alpha) / len(means)
    drawn, drawn_squares = noise(NOISES)
    candidates = means - np.concatenate([drawn, -drawn])
    variance = squares - np.concatenate([drawn_squares, -drawn_squares]) - candidates**2
    variance = np.clip(variance, 0.0, np.maximum(1 - candidates**2, 0.0))
    spread = np.maximum(np.sqrt(variance / max(rows - 1, 1)), _LEAST)
    found = [_left(c, s, miss / 2) for c, s in zip(candidates.T, spread.T, strict=True)]
    return np.clip(holding(np.clip(means, -1, 1), np.array(found)), -1.0, 1.0)


def _left(centres: FloatArray, spread: FloatArray, tail: float) -> tuple[float, float]:
    """What a mixture of normal laws leaves between its tails."""
    ends = float(np.min(centres - _FAR * spread)), float(np.max(centres + _FAR * spread))

    def quantile(share: float) -> float:
        def over(x: float) -> float:
            return float(np.mean(scipy.special.ndtr((x - centres) / spread))) - share

        if over(ends[0]) >= 0 or over(ends[1]) <= 0:  # a tail that no draw reaches
            return ends[0] if share < 0.5 else ends[1]
        near = max(_FINE * float(spread.mean()), _LEAST)
        return float(scipy.optimize.brentq(over, *ends, xtol=near))

    return quantile(tail), quantile(1 - tail)
