"""Tables that are made up from public facts alone, for previews and audits."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tightdp.data.blocks import Block
from tightdp.randomness import RandomSource
from tightdp.schema import Category, Schema


def made_up_table(schema: Schema, rng: RandomSource) -> dict[str, Any]:
    """Cells that are drawn evenly from their bounds or levels; everybody has one row.

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
            rows[name] = rule.cells(rule.low + rule.width * rng.uniform(schema.rows))
    if schema.person is not None:
        rows[schema.person] = np.arange(schema.rows)
    return rows


def made_up_block(schema: Schema, columns: Sequence[str], rows: int, rng: RandomSource) -> Block:
    """The same, as a reading of some columns would quantise it.

    >>> from tightdp import Interval
    >>> from tightdp.randomness import source
    >>> schema = Schema({"x": Interval(0, 10), "k": Category(["a", "b"], other="a")}, rows=9)
    >>> block = made_up_block(schema, ["k", "x"], 3, source(1))
    >>> bool(block["k"].max() <= 1), bool(abs(block["x"]).max() <= schema.resolution)
    (True, True)
    """
    cells = np.empty((len(columns), rows))
    for row, name in zip(cells, columns, strict=True):
        rule = schema[name]
        if isinstance(rule, Category):
            row[:] = rng.integers(len(rule.levels), rows)
        else:
            row[:] = np.rint(schema.resolution * (2.0 * rng.uniform(rows) - 1.0))
    return Block.of_columns(columns, cells)
