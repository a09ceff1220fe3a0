"""Oracles for laws on finite sets: goodness of fit, and exact privacy losses."""

from __future__ import annotations

import math
from fractions import Fraction
from typing import Any

import numpy as np
from scipy.stats import chi2

from tightdp.exact.enclosures import exp_minus_bounds
from tightdp.mechanisms.exponential_grids import PieceLaw

BITS = 400


def fit(observed: Any, probabilities: Any) -> float:
    """p-value of the chi-square test, cells with few expected draws put together."""
    counts, p = np.asarray(observed, dtype=float), np.asarray(probabilities, dtype=float)
    expected = p * counts.sum()
    large = expected >= 5
    o = np.append(counts[large], counts[~large].sum())
    e = np.append(expected[large], expected[~large].sum())
    if e[-1] < 1e-3:
        assert o[-1] <= 2  # next to impossible cells stay empty
        o, e = o[:-1], e[:-1]
    return float(chi2.sf(((o - e) ** 2 / e).sum(), max(1, len(o) - 1)))


def normaliser(law: PieceLaw) -> tuple[Fraction, Fraction]:
    """Rationals around the sum of weights of a law, relative to its best piece."""
    low = high = 0
    for length, level in zip(law.lengths, law.tilted.levels, strict=True):
        if length > 0:
            a, b = exp_minus_bounds(law.tilted.rate * int(level), BITS)
            low, high = low + int(length) * a, high + int(length) * b
    return Fraction(low, 1 << BITS), Fraction(high, 1 << BITS)


def losses(first: PieceLaw, second: PieceLaw) -> list[tuple[Fraction, Fraction, Fraction]]:
    """For every common piece ``(x, low, high)``: the log ratio is x + ln(z), low <= z <= high."""
    (a, b), (c, d) = normaliser(first), normaliser(second)
    starts = np.unique(np.concatenate([first.starts, second.starts]))
    exponents = [
        [law.tilted.rate * int(law.tilted.levels[i]) for i in np.searchsorted(law.starts, at) - 1]
        for law in (first, second)
        for at in [starts[starts < first.end] + 1]  # the last piece that starts there: not empty
    ]
    found = {y - x for x, y in zip(*exponents, strict=True)}
    return [(change, c / b, d / a) for change in sorted(found)]


def largest_loss(first: PieceLaw, second: PieceLaw) -> float:
    """The privacy loss of a pair in either direction, to a double's precision."""
    both = losses(first, second) + losses(second, first)
    return max(float(x) + math.log(high) for x, _, high in both)


def violates(first: PieceLaw, second: PieceLaw, epsilon: Any) -> bool:
    """Whether some log ratio is above epsilon, decided by rational bounds."""
    for x, low, high in losses(first, second) + losses(second, first):
        room = Fraction(epsilon) - x  # a violation means z > exp(room)
        a, b = (Fraction(v, 1 << BITS) for v in exp_minus_bounds(abs(room), BITS))
        least, most = (a, b) if room < 0 else (1 / b, 1 / max(a, Fraction(1, 1 << BITS)))
        if low > most:
            return True
        assert high <= least, "the bounds are not sharp enough to decide"
    return False
