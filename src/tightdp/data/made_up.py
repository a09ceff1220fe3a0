"""Tables that are made up from public facts alone, for previews and audits."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightdp.randomness import RandomSource
from tightdp.schema import Category, Schema


def made_up_table(schema: Schema, rng: RandomSource) -> dict[str, Any]:
    """Independent columns that fill their bounds evenly; everybody has one row.

    >>> from tightdp import Interval
    >>> from tightdp.randomness import source
    >>> table = made_up_table(Schema({"x": Interval(0, 10)}, rows=3), source(1))
    >>> len(table["x"]), bool(0 <= min(table["x"]))
    (3, True)
    """
    rows: dict[str, Any] = {}
    for name, rule in schema.columns.items():
        if isinstance(rule, Category):
            codes = rng.integers(len(rule.levels), schema.rows)
            rows[name] = np.array(rule.levels, dtype=object)[codes]
        else:
            rows[name] = rule.low + rule.width * rng.uniform(schema.rows)
    if schema.person is not None:
        rows[schema.person] = np.arange(schema.rows)
    return rows
