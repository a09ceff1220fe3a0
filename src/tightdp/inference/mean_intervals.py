r"""Intervals for means of a population that count noise and sampling together, and no more.

Released are the means S of n rows and their mean squares Q, columns scaled to [-1, 1], each with
noise of known law. Every draw of the noise gives a candidate :math:`m = S - N` for the means of the
rows and :math:`v = Q - N' - m^2` for their variances, moved to what can be, [0, 1 - m^2]; around
each candidate the mean of the population has a law of its own. The interval leaves out half of
alpha at either end of that mixture. Where noise is small it is an interval of a mean, where
sampling is small the quantiles of the noise; bounds on both that hold for every law of the rows
(:mod:`tightdp.inference.sampling_error`) are two to five times as long.

**Skewness.** The usual interval, :math:`m \pm z\sqrt{v/n}`, misses too often where a few rows
decide: a sample without them has a mean that is too low and a variance that is too small. To second
order the upper end that holds is :math:`m + z\sqrt{v/n} + (2z^2+1)\,\mu_3/(6vn)` (Johnson, 1978;
Hall, 1992, section 3.10), :math:`\mu_3` the third central moment. It is not released, but numbers
below 1 with mean m and variance v have :math:`\mu_3/v \le B = (1-m) - v/(1-m)`, attained by flags.
So :math:`\mu - m = d` is z away where

.. math:: d^2 = z^2\Bigl(\frac vn + \frac{2Bd}{3n}\Bigr) + \frac{Bd}{3n},

which agrees with the upper end above to second order, stays finite at v = 0 (2.9 B/n at 97.5 %,
where an exact bound for flags is 3.7 B/n) and is the score interval of a share in its leading part.
Lower ends are the same with the distance from the lower bound. What it costs is of order 1/n, as
the noise is, and no more than that of epsilon = 1 adds.

What is taken for granted is that no more than skewness matters, which is measured, not proved.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import numpy as np
import scipy  # scipy.special and scipy.optimize are loaded at their first use

from tightdp.errors import FloatArray, check_probability
from tightdp.inference.coefficient_intervals import holding

NoisePairs = Callable[[int], tuple[FloatArray, FloatArray]]
"""A count to so many draws of the noise of means and of mean squares, a column for each."""

NOISES = 3_000
"""Draws of the noise; its law is symmetric, so that each serves twice."""

_LEAST, _FAR = 1e-12, 9.0  # a length, and how many standard deviations hold everything
_FINE = 1e-4  # of one, up to which ends are found


def mean_intervals(
    means: FloatArray, squares: FloatArray, noise: NoisePairs, rows: int, alpha: float
) -> FloatArray:
    """Rows (low, high) that hold the means of the population, all at once.

    ``means`` and ``squares`` are as released, of columns scaled to [-1, 1]; of several columns each
    may miss by its part of alpha.

    >>> silent = lambda count: (np.zeros((count, 1)), np.zeros((count, 1)))
    >>> mean_intervals(np.zeros(1), np.full(1, 0.25), silent, 101, 0.05).round(3)
    array([[-0.109,  0.109]])
    """
    miss = check_probability("alpha", alpha) / len(means)
    drawn, drawn_squares = noise(NOISES)
    candidates = means - np.concatenate([drawn, -drawn])
    variance = squares - np.concatenate([drawn_squares, -drawn_squares]) - candidates**2
    variance = np.clip(variance, 0.0, np.maximum(1 - candidates**2, 0.0))
    found = []
    for m, v in zip(candidates.T, variance.T, strict=True):
        around = _Around(
            m, v / max(rows - 1, 1), _skewness(1 + m, v, rows), _skewness(1 - m, v, rows)
        )
        found.append((around.end(miss / 2), around.end(1 - miss / 2)))
    return np.clip(holding(np.clip(means, -1, 1), np.array(found)), -1.0, 1.0)


def _skewness(room: FloatArray, variance: FloatArray, rows: int) -> FloatArray:
    """The largest third central moment over variance and 3n, of numbers so far from their bound."""
    away = np.maximum(room, _LEAST)
    return np.asarray(np.maximum(away - variance / away, 0.0) / (3 * rows))


class _Around(NamedTuple):
    """A mixture of laws of the population's mean, one about each candidate."""

    centres: FloatArray
    variance: FloatArray  # of a mean of n rows
    below: FloatArray  # B/(3n) towards either bound
    above: FloatArray

    def chance(self, x: float) -> float:
        """How much of the mixture is below x."""
        away = x - self.centres
        size, skew = np.abs(away), np.where(away < 0, self.below, self.above)
        squared = (
            size * np.maximum(size - skew, 0.0) / (self.variance + 2 * skew * size + _LEAST**2)
        )
        return float(np.mean(scipy.special.ndtr(np.copysign(np.sqrt(squared), away))))

    def end(self, share: float) -> float:
        """The point below which this share of the mixture is."""
        low, high = (self._reach(skew) for skew in (self.below, self.above))
        ends = float(np.min(self.centres - low)), float(np.max(self.centres + high))
        if self.chance(ends[0]) >= share or self.chance(ends[1]) <= share:  # no draw reaches it
            return ends[0] if share < 0.5 else ends[1]
        near = max(_FINE * float(np.sqrt(self.variance).mean()), _LEAST)
        return float(scipy.optimize.brentq(lambda x: self.chance(x) - share, *ends, xtol=near))

    def _reach(self, skew: FloatArray) -> FloatArray:
        """How far from its centre everything is."""
        half = skew * (1 + 2 * _FAR**2) / 2
        return np.asarray(half + np.sqrt(half**2 + _FAR**2 * self.variance) + _LEAST)
