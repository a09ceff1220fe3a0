"""Which tables are released, or offered to rounds that choose: places, sizes and limits."""

from __future__ import annotations

import itertools
import math
from collections.abc import Mapping, Sequence
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np

from tightdp.data.cell_sides import CellSides
from tightdp.errors import (
    InfeasibleSamplingError,
    Integers,
    check_choice,
    check_count,
    check_list,
    fail,
    shown,
)
from tightdp.inference.junction_trees import Scope, model_cells
from tightdp.mechanisms.table_schedule import TableShares, table_shares, usual_rounds
from tightdp.schema import Interval, Schema

LARGEST_MODEL = 1 << 24
_MOST_READ = 1 << 20  # cells of all tables that may be chosen, which are counted in one pass
_LARGEST_TABLE = 1 << 13  # cells of a table that may be chosen
_MOST_RELEASED = 1 << 17  # entries of a release, each with a name
_MOST_COUNT = 1 << 40  # of a released count that forms groups: sums of 2^13 of them fit 64 bits
_COARSE = (8, 5, 3, 2)  # groups of a column, beside all of its levels
_WELL = 0.1  # the total variation that noise may cost such a table
_ROUNDS = 3  # for each column, at most: what a release may take of time
BEFORE = 1
"""Entries of a round before its cells: which table."""


class Offered(NamedTuple):
    """A table that may be chosen: its columns, and how many groups of levels are counted of each.

    Where there are as many groups as levels each level is one.
    """

    columns: Scope
    shape: tuple[int, ...]

    @property
    def cells(self) -> int:
        return math.prod(self.shape)


class TableOffer:
    """Tables of a schema's columns: those that are stated, and those that rounds may choose.

    Parameters
    ----------
    schema : Schema
    tables : "auto", or list of lists of columns
        What is stated beside one-way tables; nothing with "auto".
    columns, bins :
        As for :class:`~tightdp.data.cell_sides.CellSides`.
    choosing : bool
        Whether there are rounds.
    most_cells : int
        Of the model that tables make together.

    Examples
    --------
    >>> from tightdp import Category
    >>> facts = {name: Category(["x", "y"], other="x") for name in "abc"}
    >>> offer = TableOffer(Schema(facts, rows=9), [["a", "c"]], choosing=True, most_cells=100)
    >>> offer.stated, len(offer.offered), offer.width
    ([(0,), (1,), (2,), (0, 2)], 6, 4)
    """

    def __init__(
        self,
        schema: Schema,
        tables: object,
        columns: Sequence[str] | None = None,
        bins: Mapping[str, Any] | None = None,
        *,
        choosing: bool,
        most_cells: int,
    ) -> None:
        _check_persons(schema)
        self.schema, self._well = schema, _WELL * 2 * schema.rows
        self.most_cells = check_count("most_cells", most_cells, most=LARGEST_MODEL)
        self.sides = CellSides(schema, bins, columns)
        self.names = self.sides.names
        singles: list[Scope] = [(j,) for j in range(len(self.names))]
        self.stated = singles
        if isinstance(tables, str):
            check_choice("tables", tables, ["auto"])
        else:
            self.stated = [*singles, *self._asked(tables)]
        self.offered = self._offered(singles) if choosing else []
        self._check_cells()

    def _asked(self, tables: object) -> list[Scope]:
        """The stated tables, by the places of their columns."""
        found: list[Scope] = []
        for table in check_list("tables", tables, "lists of columns"):
            columns = [table] if isinstance(table, str) else check_list("tables", table, "names")
            for name in columns:
                check_choice("tables", name, self.names)
            scope = tuple(sorted(self.names.index(name) for name in columns))
            if not scope or len(set(scope)) < len(scope):
                fail("`tables` must hold lists of distinct columns.")
            if scope in found:
                fail(f"`tables` must be distinct. Twice: {shown(', '.join(columns))}.")
            if len(scope) > 1:  # those of one column are released anyway
                found.append(scope)
        return found

    def _offered(self, singles: list[Scope]) -> list[Scope]:
        """What a round chooses from: tables of one and two columns that are not too large."""
        sides, least = self.sides, model_cells(self.sides.sizes, singles)
        if least > self.most_cells:
            fail(
                f"`most_cells` must be at least {least}, the cells of the one-way tables. Got "
                f"{self.most_cells}: take fewer bins, or allow more.",
                InfeasibleSamplingError,
            )
        pairs = [
            pair
            for pair in itertools.combinations(range(len(self.names)), 2)
            if sides.cells_of(pair) <= min(_LARGEST_TABLE, self.most_cells)
        ]
        return [*singles, *pairs] if pairs else []

    def coarsened(self, shares: TableShares) -> list[Offered]:
        """What a round may choose: every pair in cells, and in groups where noise is large.

        The groups are ever fewer, until noise costs such a table a tenth of total variation.
        """
        found: list[Offered] = []
        for table in self.offered:
            sizes = [self.sides.sizes[j] for j in table]
            for most in (max(sizes), *_COARSE):
                each = Offered(table, tuple(min(m, most) for m in sizes))
                if each not in found[-1:]:
                    found.append(each)
                if len(table) == 1 or each.cells * shares.noise.mean_size <= self._well:
                    break
        return found

    def groups(
        self, tables: Sequence[Offered], counts: Sequence[Sequence[int]]
    ) -> list[Integers | None]:
        """The group of every cell of every table; None where each cell is one.

        ``counts`` are the released one-way tables, or begin with them: groups are formed of what
        is released, and of nothing else.
        """
        rules = [self.sides.rules[name] for name in self.names]
        sides = dict.fromkeys(side for table in tables for side in zip(*table, strict=True))
        labels = {
            (j, many): grouped_levels(counts[j], many, ordered=isinstance(rules[j], Interval))
            for j, many in sides
        }
        found: list[Integers | None] = []
        for table in tables:
            axes = np.ix_(*(labels[side] for side in zip(*table, strict=True)))
            whole = table.cells == self.sides.cells_of(table.columns)
            found.append(None if whole else np.ravel_multi_index(axes, table.shape).ravel())
        return found

    def _check_cells(self) -> None:
        """Refuse, from public facts, what cannot be counted, released or fitted."""
        wanted = model_cells(self.sides.sizes, self.stated)
        read = sum(map(self.sides.cells_of, self.counted))
        remedy = "take fewer bins, fewer columns or smaller tables"
        if wanted > self.most_cells:
            fail(
                f"`tables` need a model of {wanted} cells, and `most_cells` allows "
                f"{self.most_cells}: {remedy}, or allow more.",
                InfeasibleSamplingError,
            )
        if read > _MOST_READ:
            fail(
                f"`bins` make tables of {read} cells, and {_MOST_READ} can be counted: {remedy}.",
                InfeasibleSamplingError,
            )

    @property
    def counted(self) -> list[Scope]:
        """The tables that are read: each once."""
        return list(dict.fromkeys([*self.stated, *self.offered]))

    @property
    def width(self) -> int:
        """Cells that a round releases: those of the largest table that it may choose."""
        return max(map(self.sides.cells_of, self.offered), default=0)

    def shares(self, amount: Fraction, gaussian: bool, rounds: int | None) -> TableShares:
        """What every table gets of an amount of epsilon, or of rho."""
        cells = self.sides.cells_of
        room = _MOST_RELEASED - sum(map(cells, self.stated))
        fitting = room // (BEFORE + self.width)
        if self.offered and max(rounds or 0, 1) > fitting:
            fail(
                f"`rounds` must be at most {max(fitting, 0)}: each releases up to {self.width} "
                f"numbers, and {_MOST_RELEASED} are kept. Take fewer rounds, or fewer bins.",
                InfeasibleSamplingError,
            )
        if not self.offered:
            rounds = 0
        elif rounds is None:
            rounds = usual_rounds(
                amount,
                self.schema.neighbors,
                gaussian=gaussian,
                stated=len(self.stated),
                well=self._well,
                most=min(fitting, _ROUNDS * len(self.names)),
            )
        return table_shares(
            amount,
            self.schema.neighbors,
            gaussian=gaussian,
            stated=[cells(table) for table in self.stated],
            larger=len(self.stated) - len(self.names),
            rounds=rounds,
        )

    def noise(self, shares: TableShares) -> float:
        """The expected size of the noise of all stated tables and rounds."""
        cells = self.sides.cells_of
        pairs = zip(self.stated, shares.stated, strict=True)
        size = sum(cells(table) * noise.mean_size for table, noise in pairs)
        return size + (shares.rounds * self.width * shares.noise.mean_size if shares.rounds else 0)

    def variation(self, shares: TableShares) -> Variation:
        """The total variation that noise costs tables of the rows, from public facts.

        Half the expected size of the noise of all cells, by rows: what a table as it is released
        has. That of the model is smaller where tables support each other, or cells are empty.
        """
        cells, rows = self.sides.cells_of, 2 * self.schema.rows
        singles = zip(self.sides.sizes, shares.stated, strict=False)
        one = float(np.mean([size * noise.mean_size for size, noise in singles])) / rows
        pairs = zip(self.stated, shares.stated, strict=True)
        larger = [cells(t) * noise.mean_size / rows for t, noise in pairs if len(t) > 1]
        if shares.rounds:
            size = shares.noise.mean_size
            larger = [cells(t) * size / rows for t in self.counted if len(t) > 1]
        return Variation(one, 2 * one, float(np.mean(larger)) if larger else None)


class Variation(NamedTuple):
    """What noise costs tables of the rows in total variation, on average, at most.

    Of one-way tables; of two-way tables where columns are independent; and of tables of several
    columns that are released themselves, None where there are none.
    """

    one_way: float
    independent: float
    released: float | None

    def __str__(self) -> str:
        said = (
            f"Total variation of tables of the rows, on average: one-way at most {self.one_way:.2g}"
            f", two-way at most {self.independent:.2g} where columns are independent"
        )
        if self.released is not None:
            said += f", and at most {self.released:.2g} where their own table is released in cells"
        return f"{said}; elsewhere what the model misses comes on top, which no public fact tells"


def grouped_levels(counts: Sequence[int], groups: int, *, ordered: bool) -> Integers:
    """The group of every level, so many groups: the two of fewest rows are merged, again and again.

    Two neighbours, where levels have an order. Of equals the first.

    >>> grouped_levels([9, 1, 1, 8], 3, ordered=True)
    array([0, 1, 1, 2])
    >>> grouped_levels([1, 9, 9, 0], 3, ordered=False)
    array([0, 1, 2, 0])
    """
    sums = np.array([min(max(count, 0), _MOST_COUNT) for count in counts], dtype=np.int64)
    labels = np.arange(len(sums))
    while len(sums) > groups:
        if ordered:
            first = int(np.argmin(sums[:-1] + sums[1:]))
            second = first + 1
        else:
            first, second = sorted(np.argsort(sums, kind="stable")[:2].tolist())
        sums[first] += sums[second]
        sums = np.delete(sums, second)
        labels[labels == second] = first
        labels[labels > second] -= 1
    return labels


def _check_persons(schema: Schema) -> None:
    """One row a person, so that somebody is in one cell of a table."""
    if schema.rows_per_person > 1:
        fail(
            "Synthetic rows need one row a person: several rows of one person are not alike, and "
            "rows that are drawn stand alone. State rows_per_person=1, which uses one row of each, "
            "or make one row of each person before."
        )
