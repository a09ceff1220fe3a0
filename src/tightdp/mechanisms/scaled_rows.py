"""Rows of a table as points of the cube [-1, 1]^m with a target, and the ball that holds them."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tightdp.accepted import TableLike
from tightdp.convex.margin_losses import LogisticLoss, MarginLoss
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.frames import check_frame, check_public_rows, quantized_matrix
from tightdp.errors import DimensionError, FloatArray, check_flag, check_list, fail
from tightdp.geometry.combine import Product
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.randomness import RandomSource
from tightdp.schema import OTHER_HELP, Category, Interval, Schema

MOST_TIMES = 4  # rows that are used, in units of those that the schema states


class ScaledRows:
    """An intercept, features and a target of a table, scaled by public bounds.

    The columns are those of a :class:`~tightdp.data.design_matrix.DesignMatrix`. Of the indicators
    of a category at most one is 1 in a row.

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
    design : DesignMatrix
        Names, order and scales of the columns, and the way back to user units.
    squared_length : int
        The largest squared Euclidean length of a row.

    Examples
    --------
    >>> from tightdp.convex.margin_losses import HuberLoss
    >>> schema = Schema({"x": Interval(0, 4), "y": Interval(-1, 1)}, rows=2, bits=4)
    >>> rows = ScaledRows(schema, loss=HuberLoss(), intercept=True)
    >>> rows.read({"x": [0, 3], "y": [1, 0.5]})
    (array([[ 1. , -1. ],
           [ 1. ,  0.5]]), array([1. , 0.5]))
    >>> rows.names, rows.design.to_user(np.array([0.0, 1.0]))
    (('intercept', 'x'), array([-1. ,  0.5]))
    """

    def __init__(
        self,
        schema: object,
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
        self.design = DesignMatrix(schema, self.features, self.target, intercept=self.intercept)
        self.names = self.design.names
        self.squared_length = len(self.features) + self.intercept

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

    def ball(self) -> NormBall:
        """The hull of all rows and their negatives: a cube, times an l1 ball for each category.

        Its axes stand in the order of the names, the intercept first.
        """
        sizes = [*[1] * self.intercept, *map(len, self.design.places.values())]
        balls: list[NormBall] = []
        for alone, run in itertools.groupby(sizes, lambda size: size == 1):
            found = list(run)
            balls += [LpBall(len(found), np.inf)] if alone else [LpBall(size, 1) for size in found]
        return balls[0] if len(balls) == 1 else Product(balls)

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)

    def check(self, frame: TableLike) -> None:
        """Raise if the table lacks a column or has one that cannot be read; reads no row."""
        check_frame(frame, self.schema, self.columns)
        check_public_rows(frame, self.schema)

    def read(self, frame: TableLike, *, progress: bool = False) -> tuple[FloatArray, FloatArray]:
        """Rows in the cube, shape (n, m), and targets: 0 and 1, or in [-1, 1]. **Not private.**

        Never more than four times the rows that the schema states, the first ones.
        """
        cells = quantized_matrix(frame, self.schema, self.columns, progress=progress)
        cells = cells[: MOST_TIMES * self.schema.rows]
        unit = 2.0**-self.schema.bits
        scale = np.array([1.0 if size else unit for size in self.design.groups])
        rows = self.design.rows(np.asarray(cells[:, :-1] * scale, dtype=np.float64))
        target = cells[:, -1].astype(np.float64)
        return rows, target if self.binary else self.design.scaled(self.target, target * unit)

    def uniform(self, count: int, rng: RandomSource) -> FloatArray:
        """Points of the cube for independent uniform cells."""
        cells = 2.0 * rng.uniform((count, len(self.features))) - 1.0
        for j, size in enumerate(self.design.groups):
            if size:
                cells[:, j] = rng.integers(size + 1, count)
        return self.design.rows(cells)


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
