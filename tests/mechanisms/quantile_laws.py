"""Schemas, ranks and exact laws for the tests of quantiles."""

from __future__ import annotations

from fractions import Fraction
from typing import Any

import numpy as np

import tightdp as tdp
from tightdp.mechanisms.exponential_grids import PieceLaw
from tightdp.mechanisms.ranks import Ranks

TENTH = Fraction(1, 10)
TAUS = [TENTH, Fraction(1, 2), 9 * TENTH, Fraction(99, 100)]
HALF = Fraction(1, 2)


def schema(low: float = 0.0, high: float = 1.0, rows: int = 10, **options: Any) -> tdp.Schema:
    return tdp.Schema({"x": tdp.Interval(low, high)}, rows=rows, **options)


def ranks(rows: Any, facts: tdp.Schema) -> Ranks:
    return Ranks.of({"x": np.asarray(rows, dtype=float)}, facts, "x")


def law_of(rows: Any, tau: Any, epsilon: Any = 1, facts: tdp.Schema | None = None) -> PieceLaw:
    given = schema(rows=max(1, len(rows))) if facts is None else facts
    return tdp.KNormQuantile(given, "x", tau, epsilon=epsilon).law_on(ranks(rows, given))


def some_rows(rng: Any, count: int) -> Any:
    """Rows with ties, points at the ends and points outside the range."""
    pool = np.array([-3.0, 0.0, 0.25, 0.5, 0.5, 1.0, 7.0, np.nan])
    return np.where(rng.random(count) < 0.5, rng.choice(pool, count), rng.random(count))
