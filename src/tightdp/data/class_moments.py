"""Counts, sums and squares within groups or classes, in one pass."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.blocks import Block, Grid, grouped_sums, product_rounding
from tightdp.data.group_queries import GroupQuery
from tightdp.data.histograms import row_groups
from tightdp.data.statistics import SCALED, Statistic, check_fits
from tightdp.errors import FloatArray, Integers, fail
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.row_images import Hull, RowImage
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.schema import Category, Interval, Schema, check_schema


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The entries of one group: its count, powers of numbers, contrasts, tables of levels.

    A category of two levels enters as the difference of its counts: the count of the group and
    this contrast tell both. Other categories enter with all of their levels.
    """

    numbers: tuple[str, ...]
    pairs: tuple[str, ...]
    tables: tuple[tuple[str, int], ...]
    power: int
    """1 for the sums of numbers, 2 if their squares are summed, too."""
    counted: int = 1
    """1 if the rows of the group are counted as its first entry, else 0."""

    @classmethod
    def of(
        cls, schema: Schema, features: Sequence[str], power: int, counted: bool = True
    ) -> RecordLayout:
        """Numbers first, then categories of two levels, then the other ones."""
        sizes = {n: len(c.levels) for n in features if isinstance(c := schema[n], Category)}
        return cls(
            tuple(n for n in features if n not in sizes),
            tuple(n for n, size in sizes.items() if size == 2),
            tuple((n, size) for n, size in sizes.items() if size > 2),
            power,
            int(counted),
        )

    @property
    def width(self) -> int:
        """Entries of one group."""
        return self.tables_from + sum(size for _, size in self.tables)

    @property
    def touched(self) -> int:
        """Entries that one record can move when it is added."""
        return self.tables_from + len(self.tables)

    @property
    def tables_from(self) -> int:
        """Where the tables of levels begin."""
        return self._pairs_from + len(self.pairs)

    @property
    def _pairs_from(self) -> int:
        return self.counted + self.power * len(self.numbers)

    def place(self, name: str) -> slice:
        """The entries of a feature."""
        if name in self.numbers:
            start = self.counted + self.power * self.numbers.index(name)
            return slice(start, start + self.power)
        if name in self.pairs:
            start = self._pairs_from + self.pairs.index(name)
            return slice(start, start + 1)
        start = self.tables_from
        for table, size in self.tables:
            if table == name:
                return slice(start, start + size)
            start += size
        fail(f"There is no feature {name!r}.")


def in_group(entry: str, group: str) -> str:
    """The name of an entry within a group; of the only group of all rows nothing is said."""
    return f"{entry} | {group}" if group else entry


class GroupMoments(Statistic):
    r"""Within each group: the count, sums of x (and of 2 x^2 - 1), and counts of levels.

    Numeric columns enter scaled to [-1, 1]. A row of group g adds
    :math:`\psi(row) = (1, x_1, 2x_1^2-1, ..., \text{contrasts}, \text{indicators})` to the entries
    of g and nothing to those of the other groups: **groups exclude each other**.

    **Lemma (groups).** Let K be the hull of :math:`\pm\psi` and :math:`\|\cdot\|_K` its norm.
    If a row is added or removed, the changes z have
    :math:`\sum_g \|z_g\|_K \le 1`; if a row is replaced, :math:`\sum_g \|z_g\|_K \le 2`. Under
    replace-one the hull of all changes is exactly
    :math:`\{\sum_g \|z_g\|_K \le 2,\ \sum_g s_g = 0\}`, s the changes of the counts.
    Proof: (1) a row is in one group g, and :math:`\|\pm\psi\|_K \le 1` there. (2) Replacing is
    removing and adding; norms add at most. (3) Let P be the hull of all contributions: the sums
    :math:`a_g q_g` over groups with :math:`q_g` in conv(psi), a >= 0 of sum 1. The hull of the
    changes is P - P: blocks :math:`a_g q_g - b_g q'_g`, a and b of sum 1; so
    :math:`s_g = a_g - b_g` sum to 0. Conversely, the least :math:`a_g + b_g` for a block is its
    norm; given :math:`\sum s_g = 0` the sums of a and of b agree, so both are half of
    :math:`\sum_g \|z_g\|_K \le 2`, at most 1, and may be raised to 1 because
    :math:`q - q = 0` costs nothing. (4) The set without the condition on s is an outer body of
    one dimension more; noise of its shape is independent from group to group. (5) A row that is
    left out (:class:`~tightdp.schema.CompleteRows`) is in no group. Replacing still removes at most
    one record and adds at most one: step (2) holds, while the condition on s does not.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
        Columns of numbers or levels; none, if only rows are counted.
    by : str, or list of names and of pairs (name, bins), or None
        The groups: see :func:`~tightdp.data.histograms.group_cells`; None for all rows.
    squares : bool
        Whether squares are summed, too.
    counted : bool
        Whether the rows of each group are counted; if not, psi is without its 1, and only sums of
        numbers can be asked for.

    Examples
    --------
    >>> facts = {"pay": Interval(0, 90), "sex": Category(["f", "m"], other="f")}
    >>> GroupMoments(Schema(facts, rows=9), ["pay"], "sex").names
    ('rows | sex=f', 'pay | sex=f', 'rows | sex=m', 'pay | sex=m')
    """

    noun, nouns = "group", "groups"

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        by: object,
        *,
        squares: bool = False,
        counted: bool = True,
    ) -> None:
        self.schema, self.features = check_schema(schema), tuple(features)
        self.cells = row_groups(schema, by)
        self.columns = (*self.features, *self.cells.columns)
        if len(set(self.columns)) < len(self.columns):
            fail("`by` and the columns that are summed must be distinct.")
        self.layout = RecordLayout.of(schema, self.features, 2 if squares else 1, counted)
        if not counted and (squares or len(self.layout.numbers) != max(1, len(self.features))):
            fail("`counted` must be True where squares or categories are summed, or nothing is.")
        self.groups = tuple(
            ", ".join(
                f"{name}={label}" for name, label in zip(self.cells.columns, cell, strict=True)
            )
            for cell in itertools.product(*self.cells.labels)
        )
        entries = (*["rows"][: self.layout.counted], *self._entry_names())
        self.names = tuple(in_group(entry, group) for group in self.groups for entry in entries)
        check_fits(self)

    def _entry_names(self) -> list[str]:
        layout, out = self.layout, []
        for name in layout.numbers:
            out += [name, f"2*{name}^2-1"][: layout.power]
        for name in layout.pairs:
            first, second = self.schema[name].levels  # type: ignore[union-attr]
            out.append(f"{name}[{first}]-{name}[{second}]")
        for name, _ in layout.tables:
            out += [f"{name}[{level}]" for level in self.schema[name].levels]  # type: ignore[union-attr]
        return out

    @property
    def units(self) -> str:
        return SCALED if self.layout.numbers else ""

    @property
    def degree(self) -> int:
        return self.layout.power if self.layout.numbers else 0

    @property
    def multi_affine(self) -> bool:  # type: ignore[override]
        return self.degree < 2  # no squares are summed

    @property
    def reading(self) -> Schema:
        return self.cells.reading

    def extreme_cells(self, column: str) -> Integers:
        """All groups of a column that divides the rows, and the ends of any other."""
        if column in self.cells.columns:
            return self.cells.extreme_cells(column)
        return super().extreme_cells(column)

    # --- sums ---------------------------------------------------------------------------------

    def contributions(self, block: Block, bits: int) -> Integers:
        layout, count, grid = self.layout, len(self.groups), self.grid(bits)
        one, label = grid.points**self.degree, self.cells.places(block)
        rows = np.bincount(label, minlength=count)
        powers = [
            grouped_sums(np.stack([cells] * power), label, count, grid.cell_bits)
            for cells in grid.cells(block, layout.numbers)
            for power in range(1, layout.power + 1)
        ]
        out = self._of_numbers(rows, powers, grid)
        for name in layout.pairs:
            second = np.bincount(label, weights=block[name], minlength=count).astype(np.int64)
            out[:, layout.place(name).start] = (rows - 2 * second) * one
        for name, size in layout.tables:
            levels = np.bincount(label * size + block[name], minlength=count * size)
            out[:, layout.place(name)] = levels.reshape(count, size) * one
        return out.ravel()

    def _of_numbers(self, rows: Integers, powers: list[NDArray[Any]], grid: Grid) -> NDArray[Any]:
        """Counts, sums and squares in their places, shape (groups, entries of a group)."""
        layout, left = self.layout, iter(powers)
        out = np.zeros((len(self.groups), layout.width), dtype=rows.dtype)
        counts = rows * grid.points**self.degree
        out[:, : layout.counted] = counts[:, None]
        for name in layout.numbers:
            at = layout.place(name).start
            out[:, at] = next(left) * grid.points ** (self.degree - 1)
            if layout.power == 2:
                out[:, at + 1] = 2 * next(left) - counts
        return out

    def group_query(self, bits: int) -> GroupQuery | None:
        """Where numbers are summed; levels of categories are counted in blocks."""
        layout, grid = self.layout, self.grid(bits)
        if layout.pairs or layout.tables:
            return None
        products = [(n,) * power for n in layout.numbers for power in range(1, layout.power + 1)]

        def finish(rows: Integers, sums: list[NDArray[Any]]) -> NDArray[Any]:
            return self._of_numbers(rows, sums, grid).ravel()

        keys, shape = self.cells.columns, self.cells.shape
        return GroupQuery(keys, shape, tuple(products), grid, finish)

    def row_rounding(self, grid: Grid) -> FloatArray:
        one = np.zeros(self.layout.width)
        for name in self.layout.numbers:
            error = grid.rounding(name)
            powers = [error, 2 * product_rounding([error, error])]
            one[self.layout.place(name)] = powers[: self.layout.power]
        return np.tile(one, len(self.groups))

    # --- changes ------------------------------------------------------------------------------

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace(_GroupImage(self), self.schema.neighbors)

    def touched(self) -> int:
        """A row is in one group; a replaced row leaves one and enters another."""
        ends = 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1
        return min(len(self), ends * self.layout.touched)


class ClassMoments(GroupMoments):
    """What naive Bayes needs: groups are classes, and squares of numbers are summed, too.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
        Columns of numbers or levels.
    target : str
        A category: the classes.

    Examples
    --------
    >>> facts = {"x": Interval(0, 1), "k": Category(["a", "b"], other="a")}
    >>> facts |= {"y": Category([0, 1], other=0)}
    >>> ClassMoments(Schema(facts, rows=9), ["x", "k"], "y").names[:4]
    ('count|0', 'x|0', '2*x^2-1|0', 'k[a]-k[b]|0')
    """

    noun, nouns = "class", "classes"

    def __init__(self, schema: Schema, features: Sequence[str], target: str) -> None:
        if not features or len({*features, target}) < len(features) + 1:
            fail("`features` and `target` must be distinct columns, at least one feature.")
        label = check_schema(schema)[target]
        if not isinstance(label, Category):
            fail(f"The target {target!r} must be a column with a Category: the public classes.")
        super().__init__(schema, features, target, squares=True)
        self.target, self.classes = target, label.levels
        entries = ["count", *self._entry_names()]
        self.names = tuple(f"{entry}|{level}" for level in self.classes for entry in entries)


class _GroupImage(RowImage):
    """What one row contributes, for searches; its bodies here are boxes around it."""

    def __init__(self, moments: GroupMoments) -> None:
        self.moments = moments
        self.names = moments.names

    def _record(self, c: FloatArray) -> tuple[FloatArray, dict[str, Any]]:
        """The record of one group that goes furthest in direction c."""
        layout, schema = self.moments.layout, self.moments.schema
        out, row = np.zeros(layout.width), {}
        out[: layout.counted] = 1.0
        for name in self.moments.features:
            at = layout.place(name)
            column = schema[name]
            if isinstance(column, Interval):
                images = _powers(c[at])
                k = int((images @ c[at]).argmax())
                row[name] = column.middle + column.half * float(images[k, 0])
            else:
                two = name in layout.pairs
                images = np.array([[1.0], [-1.0]]) if two else np.eye(len(column.levels))
                k = int((images @ c[at]).argmax())
                row[name] = column.levels[k]
            out[at] = images[k]
        return out, row

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        blocks = c.reshape(len(self.moments.groups), -1)
        found = [self._record(block) for block in blocks]
        k = int(np.argmax([b @ image for b, (image, _) in zip(blocks, found, strict=True)]))
        out = np.zeros_like(blocks)
        out[k] = found[k][0]
        return out.ravel(), {**found[k][1], **self.moments.cells.row_in(k)}

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return np.array([self.best(c)[0] for c in rng.normal((size, self.dim))])

    def _box(self, ends: int) -> Hull:
        layout = self.moments.layout
        one = np.full(layout.width, float(ends))
        one[[*range(layout.counted), *range(layout.tables_from, layout.width)]] = (
            1.0  # counts move by one at most
        )
        sides = np.tile(one, len(self.moments.groups))
        return Hull(LpBall(self.dim, np.inf, sides), False, "outer: the box of all entries")

    def replace_hull(self) -> Hull:
        return self._box(2)

    def add_hull(self) -> Hull:
        return self._box(1)


def _powers(c: FloatArray) -> FloatArray:
    """Rows (x) or (x, 2x^2-1) of one number, among which is the one furthest in direction c."""
    ends = np.array([-1.0, 1.0])
    if len(c) == 1:
        return ends[:, None]
    x = np.append(ends, np.clip(-c[0] / (4 * c[1]), -1.0, 1.0) if c[1] else 0.0)
    return np.column_stack([x, 2 * x * x - 1])
