"""Rows of a table as points of the cube [-1, 1]^m with a target, and the way back to user units."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import numpy as np

from tightdp.convex.margin_losses import LogisticLoss, MarginLoss
from tightdp.data.frames import check_frame, check_public_rows, quantized_matrix
from tightdp.errors import DimensionError, FloatArray, check_flag, check_list, fail
from tightdp.geometry.combine import Product
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.randomness import RandomSource
from tightdp.schema import OTHER_HELP, Category, Interval, Schema

MOST_TIMES = 4  # rows that are used, in units of those that the schema states


class ScaledRows:
    """Features, an intercept and a target of a table, scaled by public bounds.

    With an intercept columns are centred; without one they keep their zero and are divided by the
    larger of their two bounds. A category becomes indicators of all its stated levels but the
    first, at most one of which is 1 in a row.

    Parameters
    ----------
    schema : Schema
    features : sequence of str, optional
        All columns but the target by default.
    target : str, optional
        The last column by default.
    loss : MarginLoss
        Decides whether the target has two levels or is a number.
    intercept : bool

    Attributes
    ----------
    design : tuple of str
        Names of the columns of the cube, without the intercept.
    groups : list of int
        How many of them, in order, come from each feature; 0 for a number, which has one.
    squared_length : int
        The largest squared Euclidean length of a row.

    Examples
    --------
    >>> from tightdp.convex.margin_losses import HuberLoss
    >>> schema = Schema({"x": Interval(0, 4), "y": Interval(-1, 1)}, rows=2, bits=4)
    >>> rows = ScaledRows(schema, loss=HuberLoss(), intercept=True)
    >>> rows.read({"x": [0, 3], "y": [1, 0.5]})
    (array([[-1. ,  1. ],
           [ 0.5,  1. ]]), array([1. , 0.5]))
    >>> rows.recover(np.array([1.0, 0.0]))
    array([ 0.5, -1. ])
    """

    def __init__(
        self,
        schema: Any,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        loss: MarginLoss,
        intercept: bool,
    ) -> None:
        if not isinstance(schema, Schema):
            fail(f"`schema` must be a Schema. Got {type(schema).__name__}.")
        self.schema, self.binary = schema, isinstance(loss, LogisticLoss)
        self.target = list(schema)[-1] if target is None else target
        if not isinstance(self.target, str):
            fail(f"`target` must be the name of a column. Got {type(target).__name__}.")
        known = [name for name in schema if name != self.target]
        self.features = tuple(known if features is None else check_list("features", features))
        self.intercept = check_flag("fit_intercept", intercept)
        self._check(loss)
        self._lay_out()
        self._scales()

    def _check(self, loss: MarginLoss) -> None:
        if not self.features or self.target in self.features:
            fail("`features` must name at least one column, and not the target.", DimensionError)
        self.schema.select(self.features)
        label = self.schema[self.target]
        if self.binary and not (isinstance(label, Category) and len(label.levels) == 2):
            fail(
                f"The target {self.target!r} must be a Category with exactly two levels: the "
                f"logistic loss is for two classes. {OTHER_HELP}; for more classes, fit one "
                "against the rest."
            )
        if not self.binary and not isinstance(label, Interval):
            fail(f"The target {self.target!r} must be an Interval for the {loss!r}.")

    def _lay_out(self) -> None:
        design: list[str] = []
        self.groups: list[int] = []
        for name in self.features:
            column = self.schema[name]
            levels = column.indicators if isinstance(column, Category) else ()
            design += [f"{name}[{level}]" for level in levels] or [name]
            self.groups.append(len(levels))
        self.design = tuple(design)
        self.names = (*design, "intercept") if self.intercept else self.design
        self.squared_length = len(self.features) + self.intercept

    def _scales(self) -> None:
        # scaled cell = (grid cell / 2**bits + shift) * stretch
        columns = [self.schema[name] for name in (*self.features, self.target)]
        pairs = [(c.middle, c.half) if isinstance(c, Interval) else (0.0, 1.0) for c in columns]
        middle, half = (np.array(part) for part in zip(*pairs, strict=True))
        self._shift, self._stretch = np.zeros_like(middle), np.ones_like(middle)
        if not self.intercept:
            largest = np.abs(middle) + half
            self._shift, self._stretch = middle / half, half / largest
            middle, half = np.zeros_like(middle), largest
        repeats = [max(1, size) for size in (*self.groups, 0)]
        middle, half = np.repeat(middle, repeats), np.repeat(half, repeats)
        linear = np.diag(half[-1] / half[:-1])
        if self.intercept:
            last = np.append(-half[-1] * middle[:-1] / half[:-1], half[-1])
            linear = np.vstack([np.column_stack([linear, np.zeros(len(linear))]), last])
        self.linear: FloatArray = linear
        self.offset: FloatArray = np.zeros(len(self.names))
        if self.intercept and not self.binary:
            self.offset[-1] = middle[-1]

    def ball(self) -> NormBall:
        """The hull of all rows and their negatives: a cube, times an l1 ball for each category."""
        sizes = [*(max(1, size) for size in self.groups), *[1] * self.intercept]
        balls: list[NormBall] = []
        for alone, run in itertools.groupby(sizes, lambda size: size == 1):
            found = list(run)
            balls += [LpBall(len(found), np.inf)] if alone else [LpBall(size, 1) for size in found]
        return balls[0] if len(balls) == 1 else Product(balls)

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)

    def check(self, frame: Any) -> None:
        """Raise if the table lacks a column or has one that cannot be read; reads no row."""
        check_frame(frame, self.schema, self.columns)
        check_public_rows(frame, self.schema)

    def read(self, frame: Any, *, progress: bool = False) -> tuple[FloatArray, FloatArray]:
        """Rows in the cube, shape (n, m), and targets: 0 and 1, or in [-1, 1]. **Not private.**

        Never more than four times the rows that the schema states, the first ones.
        """
        cells = quantized_matrix(frame, self.schema, self.columns, progress=progress)
        cells = cells[: MOST_TIMES * self.schema.rows]
        unit = 2.0**-self.schema.bits
        scale = np.array([1.0 if size else unit for size in self.groups])
        rows = self.scaled(np.asarray(cells[:, :-1] * scale, dtype=np.float64))
        target = cells[:, -1].astype(np.float64)
        if not self.binary:
            target = np.clip((target * unit + self._shift[-1]) * self._stretch[-1], -1.0, 1.0)
        return rows, target

    def scaled(self, cells: FloatArray) -> FloatArray:
        """Points of the cube from cells that run over [-1, 1] between their bounds, or codes."""
        rows = np.empty((len(cells), len(self.names)))
        place = 0
        for j, size in enumerate(self.groups):
            if size:
                rows[:, place : place + size] = cells[:, [j]] == np.arange(1, size + 1)
            else:
                rows[:, place] = (cells[:, j] + self._shift[j]) * self._stretch[j]
            place += max(1, size)
        rows[:, place:] = 1.0
        return np.clip(rows, -1.0, 1.0, out=rows)

    def uniform(self, count: int, rng: RandomSource) -> FloatArray:
        """Points of the cube for independent uniform cells."""
        cells = 2.0 * rng.uniform((count, len(self.features))) - 1.0
        for j, size in enumerate(self.groups):
            if size:
                cells[:, j] = rng.integers(size + 1, count)
        return self.scaled(cells)

    def recover(self, theta: FloatArray) -> FloatArray:
        """Parameters in user units."""
        return np.asarray(self.linear @ theta + self.offset)


def margins(rows: FloatArray, theta: FloatArray) -> FloatArray:
    """``rows @ theta``, the same for a row wherever it stands in the table.

    A product of matrices may round a row by its place; then a row that is added would change what
    others contribute. Sums by column cannot.

    >>> margins(np.array([[1.0, 2.0], [3.0, 4.0]]), np.array([1.0, 0.5]))
    array([2., 5.])
    """
    total = np.zeros(len(rows))
    for column, weight in zip(rows.T, theta, strict=True):
        total += column * weight
    return total
