"""All columns of a table as cells: levels of categories, bins of numbers, and tables of them."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.blocks import Block
from tightdp.data.one_pass import IntegerSum
from tightdp.data.table_counts import TableColumns
from tightdp.errors import Integers, check_choice, check_instance, check_list, fail
from tightdp.randomness import RandomSource
from tightdp.schema import Category, Interval, Schema, check_schema

_MOST_BINS = 32  # of a number for which nobody states them


class CellSides(TableColumns):
    """Columns of a schema, each with its public cells.

    Parameters
    ----------
    schema : Schema
    bins : mapping, optional
        From names of numeric columns to how many bins they have, or where these begin and end; the
        others have :func:`usual_bins`.
    columns : sequence of str, optional
        By default all.

    Examples
    --------
    >>> facts = {"age": Interval(0, 90), "sex": Category(["f", "m"], other="f")}
    >>> sides = CellSides(Schema(facts, rows=9), {"age": [0, 18, 90]})
    >>> sides.sizes, sides.axes[0]
    ((2, 2), ('age', ('[0, 18)', '[18, 90]')))
    """

    def __init__(
        self,
        schema: Schema,
        bins: Mapping[str, Any] | None = None,
        columns: Sequence[str] | None = None,
    ) -> None:
        check_schema(schema)
        given: Mapping[str, Any] = {}
        if bins is not None:
            given = check_instance("bins", bins, Mapping, words="a mapping")
        names = tuple(schema) if columns is None else tuple(check_list("columns", columns))
        self.rules = schema.select(names)
        if len(self.rules) < max(1, len(names)):
            fail("`columns` must be distinct, and at least one.")
        for name in given:
            check_choice("bins", name, names)
        numbers = {n: r for n, r in self.rules.items() if isinstance(r, Interval)}
        usual = {n: usual_bins(schema, r) for n, r in numbers.items() if r.clock is None}
        super().__init__(schema, {**usual, **given}, names)

    def cells_of(self, table: Iterable[int]) -> int:
        """How many cells a table of these columns has."""
        return math.prod(self.sizes[j] for j in table)

    def cell_names(self, table: Sequence[int]) -> list[str]:
        """What the cells of a table are called, in the order of ``numpy.ravel``."""
        names = [""]
        for j in table:
            column, labels = self.axes[j]
            bins = self.bins_of.get(column)
            own = [f"{column}[{label}]" for label in labels] if bins is None else bins.names(column)
            names = [f"{before}:{after}" if before else after for before in names for after in own]
        return names

    def counts(self, tables: Sequence[Sequence[int]]) -> IntegerSum:
        """The counts of all cells of all tables, one after the other, to be read in one pass."""
        reducer = _Counted(self.names, self.sizes, tuple(map(tuple, tables)))
        return IntegerSum(self.reading, self.names, reducer, reducer.width, degree=0)

    def values(self, codes: Integers, rng: RandomSource) -> dict[str, NDArray[Any]]:
        """Columns of rows that lie in these cells: levels, and numbers spread over their bins.

        Evenly over the bin, or over the steps in it where values come in steps.
        """
        found: dict[str, NDArray[Any]] = {}
        for j, (name, rule) in enumerate(self.rules.items()):
            if isinstance(rule, Category):
                levels = np.empty(len(rule.levels), dtype=object)
                levels[:] = list(rule.levels)
                found[name] = levels[codes[:, j]]
            else:
                found[name] = self.bins_of[name].draw_cells(codes[:, j], rng)
        return found


def usual_bins(schema: Schema, rule: Interval) -> int:
    r"""How many equal bins a number has where nobody says: :math:`2 n^{1/5}`, from 4 to 32.

    No more than there are values, where they come in steps.

    >>> usual_bins(Schema({"x": Interval(0, 1)}, rows=32_000), Interval(0, 1))
    16
    """
    wanted = min(max(4, round(2 * schema.rows ** (1 / 5))), _MOST_BINS)
    return wanted if rule.steps is None else min(wanted, rule.steps + 1)


@dataclass(frozen=True)
class _Counted:
    """Counts of tables over a block of rows; equal to another of the same tables."""

    names: tuple[str, ...]
    sizes: tuple[int, ...]
    tables: tuple[tuple[int, ...], ...]

    @property
    def width(self) -> int:
        return sum(math.prod(self.sizes[j] for j in table) for table in self.tables)

    def __call__(self, block: Block) -> Integers:
        columns = [block[name] for name in self.names]
        return np.concatenate([self._table(columns, table) for table in self.tables])

    def _table(self, columns: Sequence[Integers], table: tuple[int, ...]) -> Integers:
        shape = [self.sizes[j] for j in table]
        places = np.ravel_multi_index(tuple(columns[j] for j in table), shape)
        return np.bincount(places, minlength=math.prod(shape)).astype(np.int64)
