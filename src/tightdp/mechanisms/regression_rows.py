"""Rows of a regression, scaled by public bounds: on an integer grid, or as points of a cube."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import replace

import numpy as np

from tightdp.accepted import TableLike
from tightdp.convex.margin_losses import LogisticLoss, MarginLoss
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.frames import check_frame, check_public_rows, quantized_matrix
from tightdp.errors import (
    DimensionError,
    FloatArray,
    Integers,
    check_flag,
    check_instance,
    check_list,
    fail,
)
from tightdp.geometry.combine import Product
from tightdp.geometry.norm_balls import LpBall, NormBall
from tightdp.randomness import RandomSource
from tightdp.schema import Interval, Schema, check_schema, column_of_two_levels, numeric_column


class Roles:
    """Which columns of a table a regression reads: features, then the target.

    Parameters
    ----------
    schema : Schema
    features : sequence of str, optional
        All columns but the target by default.
    target : str, optional
        The last column by default.
    intercept : bool
    """

    schema: Schema
    design: DesignMatrix

    def __init__(
        self, schema: object, features: Sequence[str] | None, target: str | None, intercept: bool
    ) -> None:
        self.schema = check_schema(schema)
        last = list(self.schema)[-1] if target is None else target
        self.target = check_instance("target", last, str, words="the name of a column")
        known = [name for name in self.schema if name != self.target]
        self.features = tuple(known if features is None else check_list("features", features))
        self.intercept = check_flag("fit_intercept", intercept)

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return self.design.names

    def check(self, frame: TableLike) -> None:
        """Raise if the table lacks a column or has one that cannot be read; reads no row."""
        check_frame(frame, self.schema, self.columns)
        check_public_rows(frame, self.schema)


class RegressionRows(Roles):
    """Features, a constant and a target, each scaled to [-1, 1] and on the grid of the schema.

    They are the columns of a :class:`~tightdp.data.design_matrix.DesignMatrix`, ``design``, which
    has the way back to user units. Without an intercept intervals are widened until zero is their
    middle, so that cells need not be rounded twice.

    Parameters
    ----------
    schema, features, target, intercept :
        As for :class:`Roles`.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 4), "y": Interval(-1, 1)}, rows=2, bits=4)
    >>> rows = RegressionRows(schema)
    >>> rows.names, rows.read({"x": [0, 3], "y": [1, 0.5]})[0].tolist()
    (('intercept', 'x'), [[16, -16], [16, 8]])
    """

    def __init__(
        self,
        schema: object,
        features: Sequence[str] | None = None,
        target: str | None = None,
        *,
        intercept: bool = True,
    ) -> None:
        super().__init__(schema, features, target, intercept)
        if not self.features and not self.intercept:
            fail("There is nothing to fit: name a feature, or keep the intercept.", DimensionError)
        columns = {name: self._interval(name) for name in self.columns}
        # in its order: it names the columns of a matrix
        self.schema = self.schema.ruled({**self.schema.columns, **columns})
        self.design = DesignMatrix(
            self.schema, self.features, self.target, intercept=self.intercept
        )

    def _interval(self, name: str) -> Interval:
        column = numeric_column(self.schema, name)
        if self.intercept:
            return column
        reach = max(abs(column.low), abs(column.high))
        return replace(column, low=-reach, high=reach)

    @property
    def dim(self) -> int:
        """Number of coefficients."""
        return len(self.names)

    @property
    def persons(self) -> int:
        """Rows that change between neighbours: those of one person."""
        return self.schema.rows_per_person

    @property
    def moves(self) -> int:
        """How many gradients of one row a neighbour changes: one goes, and another one comes."""
        return self.schema.neighbors.rows_apart

    def read(self, frame: TableLike, *, progress: bool = False) -> tuple[Integers, Integers]:
        """Integers ``2**bits * x``, shape (n, d), the constant first, and ``2**bits * y``."""
        cells = quantized_matrix(frame, self.schema, self.columns, progress=progress)
        rows = cells[:, :-1]
        if self.intercept:
            ones = np.full((len(cells), 1), self.schema.resolution, dtype=np.int64)
            rows = np.concatenate([ones, rows], axis=1)
        return rows, cells[:, -1]


class ScaledRows(Roles):
    """An intercept, features and a target of a table, scaled by public bounds.

    The columns are those of a :class:`~tightdp.data.design_matrix.DesignMatrix`. Of the indicators
    of a category at most one is 1 in a row.

    Parameters
    ----------
    schema, features, target, intercept :
        As for :class:`Roles`.
    loss : MarginLoss
        Decides whether the target has two levels or is a number.

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
        super().__init__(schema, features, target, intercept)
        self.binary = isinstance(loss, LogisticLoss)
        self._check(loss)
        self.design = DesignMatrix(
            self.schema, self.features, self.target, intercept=self.intercept
        )
        self.squared_length = len(self.features) + self.intercept

    def _check(self, loss: MarginLoss) -> None:
        if not self.features or self.target in self.features:
            fail("`features` must name at least one column, and not the target.", DimensionError)
        self.schema.select(self.features)
        if self.binary:
            why, more = ": the logistic loss is for two classes", "; for more, fit one against all"
            column_of_two_levels(self.schema, self.target, why, more)
        elif not isinstance(self.schema[self.target], Interval):
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

    def read(self, frame: TableLike, *, progress: bool = False) -> tuple[FloatArray, FloatArray]:
        """Rows in the cube, shape (n, m), and targets: 0 and 1, or in [-1, 1]. **Not private.**"""
        cells = quantized_matrix(frame, self.schema, self.columns, progress=progress)
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
