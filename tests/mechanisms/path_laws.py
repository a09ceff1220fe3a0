"""Kolmogorov-Smirnov samples of few points by enumeration, and the fit of draws to them."""

from __future__ import annotations

import itertools
import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction

import numpy as np
from scipy.stats import chi2


def path_weight(counts: Iterable[int]) -> Fraction:
    """1 / prod c!: the number of ordered samples with these counts, over k!."""
    return Fraction(1, math.prod(math.factorial(int(c)) for c in counts))


def compositions(total: int, cells: int) -> list[tuple[int, ...]]:
    bars = itertools.combinations(range(total + cells - 1), cells - 1)
    out = []
    for places in bars:
        edges = (-1, *places, total + cells - 1)
        out.append(tuple(b - a - 1 for a, b in itertools.pairwise(edges)))
    return out


def law(table: tuple[int, ...], size: int, rate: Fraction) -> dict[tuple[int, ...], float]:
    """P(counts) by summing over all samples; written without the paths."""
    rows, below = sum(table), np.cumsum(table)
    weights = {}
    for counts in compositions(size, len(table)):
        apart = int(np.abs(rows * np.cumsum(counts) - size * below).max())
        many = math.factorial(size) // math.prod(map(math.factorial, counts))
        weights[counts] = many * math.exp(-float(rate) * apart)
    total = sum(weights.values())
    return {counts: weight / total for counts, weight in weights.items()}


def misfit(seen: Counter[tuple[int, ...]], expected: dict[tuple[int, ...], float]) -> float:
    """p-value of a chi-square test, rare cells joined."""
    draws = sum(seen.values())
    common = [c for c, p in expected.items() if draws * p >= 5]
    rest = 1 - sum(expected[c] for c in common)
    stat = sum((seen[c] - draws * expected[c]) ** 2 / (draws * expected[c]) for c in common)
    if draws * rest >= 5:
        left = draws - sum(seen[c] for c in common)
        stat += (left - draws * rest) ** 2 / (draws * rest)
    return float(chi2.sf(stat, len(common) - 1 + (draws * rest >= 5)))
