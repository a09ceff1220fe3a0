"""Counts, sums and squares within classes: what a naive Bayes classifier needs, in one pass."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tightdp.data.blocks import Block, Grid, product_rounding
from tightdp.data.statistics import Statistic, check_fits
from tightdp.errors import FloatArray, Integers, fail
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.row_images import Hull, RowImage
from tightdp.geometry.sensitivity import SensitivitySpace
from tightdp.privacy import Neighbors
from tightdp.randomness import RandomSource
from tightdp.schema import Category, Interval, Schema, check_schema

_EXACT = 53  # integers up to 2**53 are doubles


@dataclass(frozen=True, slots=True)
class RecordLayout:
    """The entries of one class: its count, pairs for numbers, contrasts, tables of levels.

    A category of two levels enters as the difference of its counts: the count of the class and
    this contrast tell both. Other categories enter with all of their levels.
    """

    numbers: tuple[str, ...]
    pairs: tuple[str, ...]
    tables: tuple[tuple[str, int], ...]

    @classmethod
    def of(cls, schema: Schema, features: Sequence[str]) -> RecordLayout:
        """Numbers first, then categories of two levels, then the other ones."""
        sizes = {n: len(c.levels) for n in features if isinstance(c := schema[n], Category)}
        return cls(
            tuple(n for n in features if n not in sizes),
            tuple(n for n, size in sizes.items() if size == 2),
            tuple((n, size) for n, size in sizes.items() if size > 2),
        )

    @property
    def width(self) -> int:
        """Entries of one class."""
        return self.tables_from + sum(size for _, size in self.tables)

    @property
    def touched(self) -> int:
        """Entries that one record can move when it is added."""
        return self.tables_from + len(self.tables)

    @property
    def tables_from(self) -> int:
        """Where the tables of levels begin."""
        return 1 + 2 * len(self.numbers) + len(self.pairs)

    def place(self, name: str) -> slice:
        """The entries of a feature."""
        if name in self.numbers:
            start = 1 + 2 * self.numbers.index(name)
            return slice(start, start + 2)
        if name in self.pairs:
            start = 1 + 2 * len(self.numbers) + self.pairs.index(name)
            return slice(start, start + 1)
        start = self.tables_from
        for table, size in self.tables:
            if table == name:
                return slice(start, start + size)
            start += size
        fail(f"There is no feature {name!r}.")


class ClassMoments(Statistic):
    r"""Within each class: the count, sums of x and 2 x^2 - 1, and counts of levels.

    Numeric columns enter scaled to [-1, 1]. A row of class c adds
    :math:`\psi(row) = (1, x_1, 2x_1^2-1, ..., \text{contrasts}, \text{indicators})` to the entries
    of c and nothing to those of the other classes: **classes exclude each other**.

    **Lemma (classes).** Let K be the hull of :math:`\pm\psi` and :math:`\|\cdot\|_K` its norm.
    If a row is added or removed, the changes z have
    :math:`\sum_c \|z_c\|_K \le 1`; if a row is replaced, :math:`\sum_c \|z_c\|_K \le 2`. Under
    replace-one the hull of all changes is exactly
    :math:`\{\sum_c \|z_c\|_K \le 2,\ \sum_c s_c = 0\}`, s the changes of the counts.
    Proof: (1) a row is in one class c, and :math:`\|\pm\psi\|_K \le 1` there. (2) Replacing is
    removing and adding; norms add at most. (3) Let P be the hull of all contributions: the sums
    :math:`a_c q_c` over classes with :math:`q_c` in conv(psi), a >= 0 of sum 1. The hull of the
    changes is P - P: blocks :math:`a_c q_c - b_c q'_c`, a and b of sum 1; so
    :math:`s_c = a_c - b_c` sum to 0. Conversely, the least :math:`a_c + b_c` for a block is its
    norm; given :math:`\sum s_c = 0` the sums of a and of b agree, so both are half of
    :math:`\sum_c \|z_c\|_K \le 2`, at most 1, and may be raised to 1 because
    :math:`q - q = 0` costs nothing. (4) The set without the condition on s is an outer body of
    one dimension more; noise of its shape is independent from class to class.

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

    def __init__(self, schema: Schema, features: Sequence[str], target: str) -> None:
        self.schema = check_schema(schema)
        self.features, self.target = tuple(features), target
        self.columns = (*self.features, target)
        if not self.features or len(set(self.columns)) < len(self.columns):
            fail("`features` and `target` must be distinct columns, at least one feature.")
        label = schema[target]
        if not isinstance(label, Category):
            fail(f"The target {target!r} must be a column with a Category: the public classes.")
        self.classes = label.levels
        self.layout = RecordLayout.of(schema, self.features)
        entries = ["count", *self._entry_names()]
        self.names = tuple(f"{entry}|{level}" for level in self.classes for entry in entries)
        check_fits(self)

    def _entry_names(self) -> list[str]:
        layout, out = self.layout, []
        for name in layout.numbers:
            out += [name, f"2*{name}^2-1"]
        for name in layout.pairs:
            first, second = self.schema[name].levels  # type: ignore[union-attr]
            out.append(f"{name}[{first}]-{name}[{second}]")
        for name, _ in layout.tables:
            out += [f"{name}[{level}]" for level in self.schema[name].levels]  # type: ignore[union-attr]
        return out

    @property
    def degree(self) -> int:
        return 2 if self.layout.numbers else 0

    @property
    def multi_affine(self) -> bool:  # type: ignore[override]
        return not self.layout.numbers  # of which squares are summed

    # --- sums ---------------------------------------------------------------------------------

    def contributions(self, block: Block, bits: int) -> Integers:
        layout, width = self.layout, self.layout.width
        grid = self.grid(bits)
        one = grid.points**self.degree
        label, classes = block[self.target], len(self.classes)
        counts = np.bincount(label, minlength=classes)
        out = np.zeros((classes, width), dtype=np.int64)
        out[:, 0] = counts * one
        if layout.numbers:
            sums, squares = self._class_sums(block, label, grid)
            out[:, 1 : 1 + 2 * len(layout.numbers) : 2] = sums * grid.points
            out[:, 2 : 2 + 2 * len(layout.numbers) : 2] = 2 * squares - out[:, :1]
        for name in layout.pairs:
            second = np.bincount(label, weights=block[name], minlength=classes).astype(np.int64)
            out[:, layout.place(name).start] = (counts - 2 * second) * one
        for name, size in layout.tables:
            cells = np.bincount(label * size + block[name], minlength=classes * size)
            out[:, layout.place(name)] = cells.reshape(classes, size) * one
        return out.ravel()

    def row_rounding(self, grid: Grid) -> FloatArray:
        one = np.zeros(self.layout.width)
        for name in self.layout.numbers:
            error = grid.rounding(name)
            one[self.layout.place(name)] = error, 2 * product_rounding([error, error])
        return np.tile(one, len(self.classes))

    def _class_sums(self, block: Block, label: Integers, grid: Grid) -> tuple[Integers, Integers]:
        """Sums of cells and of their squares by class, shape (classes, numbers), exactly."""
        cells = grid.cells(block, self.layout.numbers)
        rows = 1 << max(0, min(14, _EXACT - 2 * grid.cell_bits))  # sums are doubles, in the cache
        shape = (len(self.classes), len(cells))
        sums, squares = np.zeros(shape, dtype=np.int64), np.zeros(shape, dtype=np.int64)
        levels = np.arange(shape[0])[:, None]
        for start in range(0, len(label), rows):
            part = cells[:, start : start + rows]
            member = (label[start : start + rows] == levels).astype(np.float64)
            sums += (member @ part.T).astype(np.int64)
            squares += (member @ (part * part).T).astype(np.int64)
        return sums, squares

    # --- changes ------------------------------------------------------------------------------

    def sensitivity_space(self) -> SensitivitySpace:
        return SensitivitySpace(_ClassImage(self), self.schema.neighbors)

    def touched(self) -> int:
        """A row is in one class; a replaced row leaves one and enters another."""
        ends = 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1
        return min(len(self), ends * self.layout.touched)


class _ClassImage(RowImage):
    """What one row contributes, for searches; its bodies here are boxes around it."""

    def __init__(self, moments: ClassMoments) -> None:
        self.moments = moments
        self.names = moments.names

    def _record(self, c: FloatArray) -> tuple[FloatArray, dict[str, Any]]:
        """The record of one class that goes furthest in direction c."""
        layout, schema = self.moments.layout, self.moments.schema
        out, row = np.zeros(layout.width), {}
        out[0] = 1.0
        for name in self.moments.features:
            at = layout.place(name)
            column = schema[name]
            if isinstance(column, Interval):
                bend, x = 4 * c[at][1], np.array([-1.0, 1.0, 0.0])
                x[2] = np.clip(-c[at][0] / bend, -1.0, 1.0) if bend else 0.0
                images = np.column_stack([x, 2 * x * x - 1])
                k = int((images @ c[at]).argmax())
                row[name] = column.middle + column.half * float(x[k])
            else:
                two = name in layout.pairs
                images = np.array([[1.0], [-1.0]]) if two else np.eye(len(column.levels))
                k = int((images @ c[at]).argmax())
                row[name] = column.levels[k]
            out[at] = images[k]
        return out, row

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        blocks = c.reshape(len(self.moments.classes), -1)
        found = [self._record(block) for block in blocks]
        k = int(np.argmax([b @ image for b, (image, _) in zip(blocks, found, strict=True)]))
        out = np.zeros_like(blocks)
        out[k] = found[k][0]
        return out.ravel(), {**found[k][1], self.moments.target: self.moments.classes[k]}

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return np.array([self.best(c)[0] for c in rng.normal((size, self.dim))])

    def _box(self, ends: int) -> Hull:
        layout = self.moments.layout
        one = np.full(layout.width, float(ends))
        one[[0, *range(layout.tables_from, layout.width)]] = 1.0  # counts move by one at most
        sides = np.tile(one, len(self.moments.classes))
        return Hull(LpBall(self.dim, np.inf, sides), False, "outer: the box of all entries")

    def replace_hull(self) -> Hull:
        return self._box(2)

    def add_hull(self) -> Hull:
        return self._box(1)
