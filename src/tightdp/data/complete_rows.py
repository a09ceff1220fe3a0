"""Rows without missing cells: what is left of a block where rows with one are left out.

A scan marks the missing cells of a :class:`~tightdp.schema.CompleteRows` (:data:`GONE`), and the
rows that have one are left out here, after the blocks and before a statistic sees them. Whether a
row is left out depends on its own cells alone. The blocks keep their number of rows, so that what
is public of a table, and said of it, does not change.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

from numpy.typing import NDArray

from tightdp.data.blocks import Block, Reducer
from tightdp.data.persons import GONE
from tightdp.schema import Schema


def complete(block: Block) -> Block:
    """The rows of a block in which every cell is there.

    >>> import numpy as np
    >>> complete(Block({"x": np.array([3, GONE, 5]), "k": np.array([0, 1, 1])})).matrix().tolist()
    [[3, 0], [5, 1]]
    """
    cells = block.doubles(block.names)
    there = (cells != GONE).all(axis=0)
    return block if there.all() else Block.of_columns(block.names, cells[:, there])


@dataclass(frozen=True)
class OfCompleteRows:
    """What a reducer makes of the complete rows of a block; it can be sent to workers."""

    reducer: Reducer

    def __call__(self, block: Block) -> NDArray[Any]:
        return self.reducer(complete(block))


def on_rows_of(schema: Schema, reducer: Reducer) -> Reducer:
    """The reducer, on those rows that the facts say count."""
    return OfCompleteRows(reducer) if schema.drops else reducer
