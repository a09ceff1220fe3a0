"""Counts and sums by group as a query that an engine can answer itself, with the same integers.

A statistic that is no more than numbers of rows and sums of products of cells within public groups
says so (:class:`GroupQuery`). For the cells of a column the query has the rule of the one reader,
operation by operation (:class:`CellRule`, :class:`KeyRule`), for an engine to repeat on the same
doubles. Whether a column can be read so is decided by its rule and by its type, never by a cell;
otherwise its rows are read in blocks. Nothing here knows an engine, and sums are **not private**.

Sums are exact: integers are split into limbs of at most 16 bits, so that the sums of less than
2**37 of them, in any order, are integers that doubles hold. How many rows there were is counted,
and the answer for more of them is not used: then, too, rows are read in blocks.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.column_rules import Step, take_steps
from tightdp.data.blocks import Block, Grid
from tightdp.errors import FloatArray, Integers
from tightdp.schema import Category, Interval, Schema

LIMB = 16  # bits
MOST_ROWS = 1 << 53 - LIMB  # of which sums of limbs are doubles without rounding
MOST_TREE = 64  # bins that a query tells apart by comparisons
_MOST_CODES = 1 << 21  # groups of a query: as many as tables have cells, and unseen ones
_MOST_LIMBS = 256

Finish = Callable[[Integers, list[NDArray[Any]]], NDArray[Any]]


@dataclass(frozen=True, eq=False)
class GroupQuery:
    """Numbers of rows, and sums of products of cells, within groups.

    Attributes
    ----------
    keys : tuple of str
        Columns whose codes divide the rows; none if all rows are one group.
    shape : tuple of int
        How many codes each of them has.
    products : tuple of tuples of str
        The numeric columns that are multiplied for each sum.
    grid : Grid
        Where their cells are integers.
    finish : callable
        From the rows of all groups, shape (groups,), and the sums of every product, each of that
        shape, to the entries of the statistic; integers, which are Python's where 64 bits are few.
    """

    keys: tuple[str, ...]
    shape: tuple[int, ...]
    products: tuple[tuple[str, ...], ...]
    grid: Grid
    finish: Finish

    @property
    def cells(self) -> tuple[str, ...]:
        """The numeric columns that are summed."""
        return tuple(dict.fromkeys(itertools.chain.from_iterable(self.products)))

    def limbs(self) -> list[int]:
        """Into how many limbs each product is split."""
        bits = self.grid.cell_bits
        return [max(1, math.ceil(len(names) * bits / LIMB)) for names in self.products]

    def rules(self, schema: Schema) -> tuple[list[KeyRule], dict[str, CellRule]] | None:
        """How every column is read; None if the query is not for engines."""
        longest = max(map(len, self.products), default=0)
        if sum(self.limbs()) > _MOST_LIMBS or self.grid.cell_bits * longest > 52:
            return None
        cells = {name: cell_rule(schema, self.grid, name) for name in self.cells}
        keys = [key_rule(schema[name]) for name in self.keys]
        known = [key for key in keys if key is not None]
        numbers = {name: cell for name, cell in cells.items() if cell is not None}
        if len(known) < len(keys) or len(numbers) < len(cells):
            return None
        codes = math.prod(key.codes for key in known)
        return (known, numbers) if codes <= _MOST_CODES else None

    def entries(
        self, keys: Sequence[KeyRule], codes: Integers, rows: Integers, sums: Sequence[Integers]
    ) -> tuple[list[int], int] | None:
        """The statistic, and the number of rows, from what an engine found of its groups.

        ``codes`` tell the groups that it found, ``sums`` has the limbs of all products. None if
        there are too many rows.
        """
        if int(rows.sum()) >= MOST_ROWS:
            return None
        count = math.prod(self.shape)
        places = np.zeros(1, dtype=np.int64)
        for key, width in zip(keys, self.shape, strict=True):
            places = (places[:, None] * width + key.places).ravel()
        where = places[codes]

        def gathered(values: Integers) -> Integers:
            out = np.zeros(count, dtype=np.int64)
            np.add.at(out, where, values)
            return out

        total, left = gathered(rows), iter(sums)
        found = [[gathered(next(left)) for _ in range(limbs)] for limbs in self.limbs()]
        kind = np.int64 if int(rows.sum()) << self._top_bits() < 1 << 61 else object
        joined = [
            sum((limb.astype(kind) * (1 << LIMB * j) for j, limb in enumerate(limbs)), start=0)
            for limbs in found
        ]
        entries: list[int] = self.finish(total.astype(kind), joined).tolist()  # type: ignore[arg-type]
        return entries, int(rows.sum())

    def _top_bits(self) -> int:
        """What a row adds to an entry has at most so many bits; entries may be twice a sum."""
        return self.grid.cell_bits * max([2, *map(len, self.products)])


# --- the rule of a numeric column -----------------------------------------------------------------


@dataclass(frozen=True)
class CellRule:
    """How a number becomes an integer: between the bounds by steps, elsewhere a constant.

    Every step is monotone in the cell, and the ends of the bounds become what infinite cells become
    by the one reader. So its clamp does nothing between the bounds, and a cell beyond them is what
    an end is. A missing cell is what the number ``fill`` is.

    >>> schema = Schema({"x": Interval(0, 8, missing=2)}, rows=9, bits=2)
    >>> rule = cell_rule(schema, Grid.of(schema, ["x"], 2, 1), "x")
    >>> rule.below, rule.above, rule.missing
    (-4.0, 4.0, -2.0)
    """

    low: float
    high: float
    below: float
    above: float
    missing: float
    fill: float
    steps: tuple[Step, ...]


def cell_rule(schema: Schema, grid: Grid, name: str) -> CellRule | None:
    """The rule of a column; None if it has none that steps tell, and the one reader must do it."""
    rule = schema[name]
    if type(rule) is not Interval:
        return None
    assert isinstance(rule, Interval)

    def read(*cells: float) -> FloatArray:
        raw = rule.to_grid(np.array(cells), schema.bits, np.empty(len(cells)))
        return grid.cells(Block.of_columns([name], raw[None]), [name])[0]

    assert rule.missing is not None
    steps = (*rule.grid_steps(schema.bits), *grid.steps_to(name))
    ends = np.array([rule.low, rule.high, rule.missing])
    below, above, missing = found = take_steps(steps, ends, np.empty(3)).tolist()
    if found != read(-math.inf, math.inf, math.nan).tolist():
        return None  # the clamp would be needed between the bounds, too
    return CellRule(rule.low, rule.high, below, above, missing, rule.missing, steps)


# --- the rule of a column that divides rows -------------------------------------------------------


@dataclass(frozen=True)
class KeyRule:
    """How a cell that divides rows becomes one of few codes, and the place that each code is.

    Either integers from ``low`` to ``high``, whose code is their distance from ``low``, all others
    having the last code; or, with ``edges``, numbers, whose code is the number of edges up to them,
    and ``missing`` for missing ones.

    >>> key_rule(Category([3, 5, "b"])).places, key_rule(Category(["b", "c"]))
    (array([0, 3, 1, 3]), None)
    """

    places: Integers
    low: int = 0
    high: int = 0
    edges: tuple[float, ...] | None = None
    missing: int = 0

    @property
    def codes(self) -> int:
        """How many codes there are."""
        return len(self.places)


def key_rule(rule: Interval | Category) -> KeyRule | None:
    """The rule of a column; None if the one reader must do it."""
    if type(rule) is Category:
        found = rule.integers()
        return None if found is None else KeyRule(found[1], *_ends(found))
    bins = getattr(rule, "inner_edges", None)  # of bins of an interval
    if bins is None or len(bins) >= MOST_TREE or type(rule.interval) is not Interval:  # type: ignore[union-attr]
        return None
    if rule.interval.step is not None:  # type: ignore[union-attr]
        return None
    missing = rule.to_grid(np.array([math.nan]), 1, np.empty(1))[0]  # type: ignore[union-attr]
    edges = tuple(map(float, bins))
    return KeyRule(np.arange(len(edges) + 1), edges=edges, missing=int(missing))


def _ends(found: tuple[int, Integers]) -> tuple[int, int]:
    low, places = found
    return low, low + len(places) - 2
