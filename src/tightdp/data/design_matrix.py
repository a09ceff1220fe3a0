"""The one map from the columns of a schema to those of a regression, its rows, and the way back."""

from __future__ import annotations

import itertools
from collections.abc import Sequence

import numpy as np

from tightdp.accepted import TableLike
from tightdp.data.one_pass import quantized_matrix
from tightdp.data.statistics import distinct
from tightdp.data.table import check_frame, check_public_rows
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
from tightdp.schema import (
    Category,
    Interval,
    Schema,
    check_schema,
    column_of_two_levels,
    numeric_column,
)


class DesignMatrix:
    r"""An intercept, features and a target, scaled by public bounds; the intercept comes first.

    With an intercept columns are centred at the middle of their bounds, which changes no fitted
    plane. Without one zero must stay zero: columns are divided by the larger of their two bounds. A
    category becomes indicators of all its stated levels but the first.

    A plane :math:`y = \theta_0 + d \cdot \theta` of scaled columns is, in user units, the plane
    with coefficients :math:`A\theta + b`, A ``linear`` and b ``offset``. A target that is a
    category keeps its units: these are log odds. So does one whose logarithm the plane is for.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
    target : str
    intercept : bool
    origin : float, optional
        What a plane of zeros says in user units, where it is not for the target itself but for a
        function of it, such as the logarithm of its mean.

    Attributes
    ----------
    design : tuple of str
        Names of the columns, without the intercept.
    names : tuple of str
        Names of the coefficients: the intercept, if there is one, and the design. Where a feature
        is called "intercept", the other is "(intercept)".
    groups : tuple of int
        How many columns come from each feature; 0 for a number, which has one.
    places : dict
        Where the columns of each feature stand among the names.
    half, middle : arrays
        Half-widths and middles of the columns of the design, then of the target.
    units : array
        What one unit of each scaled coefficient is in user units.

    Examples
    --------
    >>> from tightdp import Interval
    >>> facts = {"x": Interval(0, 4), "k": Category(["a", "b"], other="a"), "y": Interval(-1, 1)}
    >>> design = DesignMatrix(Schema(facts, rows=9), ["x", "k"], "y")
    >>> design.names
    ('intercept', 'x', 'k[b]')
    >>> design.to_user(np.array([0.0, 1.0, 0.5]))  # y = x / 2 - 1 where k is a
    array([-1. ,  0.5,  0.5])
    >>> design.from_user(np.array([-1.0, 0.5, 0.5]))
    array([0. , 1. , 0.5])
    >>> design.rows(np.array([[-1.0, 0], [0.5, 1]]))  # x = 0 and 3, k = a and b
    array([[ 1. , -1. ,  0. ],
           [ 1. ,  0.5,  1. ]])
    """

    def __init__(
        self,
        schema: Schema,
        features: Sequence[str],
        target: str,
        *,
        intercept: bool = True,
        origin: float | None = None,
    ) -> None:
        self.schema, self.features, self.target = schema, tuple(features), target
        self.intercept, self._origin = intercept, origin
        if len({*self.features, target}) <= len(self.features):
            fail("`features` and `target` must be distinct columns.")
        own = "(intercept)" if "intercept" in self.features else "intercept"
        names = [own] if intercept else []
        self.places: dict[str, range] = {}
        for name in self.features:
            column, start = schema[name], len(names)
            levels = column.indicators if isinstance(column, Category) else ()
            names += [f"{name}[{level}]" for level in levels] or [name]
            self.places[name] = range(start, len(names))
        self.names, self.design = distinct(tuple(names)), tuple(names[intercept:])
        self.groups = tuple(
            len(places) if isinstance(schema[name], Category) else 0
            for name, places in self.places.items()
        )
        self.half, self.middle = self._scales()
        slopes = self.half[-1] / self.half[:-1]
        self.units: FloatArray = np.append(self.half[-1:], slopes) if intercept else slopes

    def _scales(self) -> tuple[FloatArray, FloatArray]:
        half, middle = [], []
        for name in (*self.features, self.target):
            column, size = self.schema[name], len(self.places.get(name, "y"))
            if isinstance(column, Category):
                pair = 1.0, 0.0
            elif name == self.target and self._origin is not None:
                pair = 1.0, self._origin
            elif self.intercept:
                pair = column.half, column.middle
            else:
                pair = abs(column.middle) + column.half, 0.0
            half += [pair[0]] * size
            middle += [pair[1]] * size
        return np.array(half), np.array(middle)

    @property
    def levels(self) -> list[range]:
        """Places of the indicators of each category: at most one of them is 1."""
        named = zip(self.places.values(), self.groups, strict=True)
        return [places for places, size in named if size]

    # --- rows ---------------------------------------------------------------------------------

    def rows(self, cells: FloatArray) -> FloatArray:
        """Points of the cube, shape (n, names), from one column of cells for each feature.

        Cells run over [-1, 1] between their bounds; codes stand for the levels of categories. A
        row is computed from its own cells alone.
        """
        out = np.ones((len(cells), len(self.names)))
        for own, (name, places) in zip(cells.T, self.places.items(), strict=True):
            if isinstance(self.schema[name], Category):
                levels = np.arange(1, len(places) + 1)
                out[:, places.start : places.stop] = own[:, None] == levels
            else:
                out[:, places.start] = self.scaled(name, own)
        return out

    def scaled(self, name: str, cells: FloatArray) -> FloatArray:
        """A numeric column on the scale of the map, in [-1, 1]."""
        if not self.intercept:
            column = self.schema[name]
            assert isinstance(column, Interval)
            stretch = column.half / (abs(column.middle) + column.half)
            cells = (cells + column.middle / column.half) * stretch
        return np.clip(cells, -1.0, 1.0)

    def user_rows(self, cells: FloatArray) -> FloatArray:
        """Rows in user units, shape (n, design), from the same cells; there is an intercept."""
        return self.rows(cells)[:, 1:] * self.half[:-1] + self.middle[:-1]

    # --- coefficients -------------------------------------------------------------------------

    @property
    def linear(self) -> FloatArray:
        """The matrix A, of as many rows and columns as there are names."""
        linear = np.diag(self.units)
        if self.intercept:
            linear[0, 1:] = -self.units[1:] * self.middle[:-1]
        return linear

    @property
    def offset(self) -> FloatArray:
        """The vector b."""
        offset = np.zeros(len(self.names))
        if self.intercept:
            offset[0] = self.middle[-1]
        return offset

    def ridge(self, alpha: float, rows: float) -> FloatArray:
        """On every scaled slope, the penalty alpha on its square in user units, over the rows."""
        return np.asarray(alpha / rows / self.half[:-1] ** 2)

    def to_user(self, theta: FloatArray) -> FloatArray:
        """Coefficients in user units from those of the scaled columns, one vector or rows."""
        beta = np.asarray(theta * self.units)
        if self.intercept:
            beta[..., 0] += self.middle[-1] - beta[..., 1:] @ self.middle[:-1]
        return beta

    def from_user(self, beta: FloatArray) -> FloatArray:
        """Coefficients of the scaled columns from those in user units, one vector or rows."""
        theta = np.array(beta, dtype=np.float64)
        if self.intercept:
            theta[..., 0] += theta[..., 1:] @ self.middle[:-1] - self.middle[-1]
        return np.asarray(theta / self.units)

    @property
    def origin(self) -> FloatArray:
        """Where the user's zero lies on the scaled columns: features, then the target."""
        return np.asarray(-self.middle / self.half)


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
        self.target = target_name(self.schema, target)
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


def target_name(schema: Schema, target: str | None) -> str:
    """The stated target, by default the last column of the schema."""
    last = list(schema)[-1] if target is None else target
    return check_instance("target", last, str, words="the name of a column")


class RegressionRows(Roles):
    """Features, a constant and a target, each scaled to [-1, 1] and on the grid of the schema.

    They are the columns of a :class:`DesignMatrix`, ``design``, which
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
        self.stated = self.schema
        # in its order: it names the columns of a matrix
        self.schema = self.schema.ruled({**self.schema.columns, **columns})
        self.design = DesignMatrix(
            self.schema, self.features, self.target, intercept=self.intercept
        )

    def _interval(self, name: str) -> Interval:
        column = numeric_column(self.schema, name)
        return column if self.intercept else column.around_zero()

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

    The columns are those of a :class:`DesignMatrix`. Of the indicators
    of a category at most one is 1 in a row.

    Parameters
    ----------
    schema, features, target, intercept :
        As for :class:`Roles`.
    loss : str
        What the rows are for, in words.
    scale : {"interval", "levels", "counts", "classes"}
        What the target is: a number; one of two levels; a number of at least 0, of which the plane
        says the logarithm; one of several levels.
    origin : float
        Of counts: the logarithm that a plane of zeros stands for.

    Attributes
    ----------
    design : DesignMatrix
        Names, order and scales of the columns, and the way back to user units.
    squared_length : int
        The largest squared Euclidean length of a row.

    Examples
    --------
    >>> schema = Schema({"x": Interval(0, 4), "y": Interval(-1, 1)}, rows=2, bits=4)
    >>> rows = ScaledRows(schema, loss="Huber loss", intercept=True)
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
        loss: str,
        intercept: bool,
        scale: str = "interval",
        origin: float = 0.0,
    ) -> None:
        super().__init__(schema, features, target, intercept)
        self.scale = scale
        self._check(loss)
        self.design = DesignMatrix(
            self.schema,
            self.features,
            self.target,
            intercept=self.intercept,
            origin=origin if scale == "counts" else None,
        )
        self.squared_length = len(self.features) + self.intercept

    def _check(self, loss: str) -> None:
        if not self.features or self.target in self.features:
            fail("`features` must name at least one column, and not the target.", DimensionError)
        self.schema.select(self.features)
        if self.scale == "classes":
            if not isinstance(self.schema[self.target], Category):
                fail(f"The target {self.target!r} must be a Category for the {loss}.")
        elif self.scale == "levels":
            why, more = f": the {loss} is for two classes", ""
            column_of_two_levels(self.schema, self.target, why, more)
        elif not isinstance(self.schema[self.target], Interval):
            fail(f"The target {self.target!r} must be an Interval for the {loss}.")

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
        """Rows in the cube, shape (n, m), and targets. **Not private.**

        Targets are codes of levels; numbers in [-1, 1]; of counts, shares of their largest value.
        """
        cells = quantized_matrix(frame, self.schema, self.columns, progress=progress)
        return self.scaled_cells(cells)

    def scaled_cells(self, cells: Integers) -> tuple[FloatArray, FloatArray]:
        """The same from quantised rows, features and then the target."""
        unit = 2.0**-self.schema.bits
        scale = np.array([1.0 if size else unit for size in self.design.groups])
        rows = self.design.rows(np.asarray(cells[:, :-1] * scale, dtype=np.float64))
        target = cells[:, -1].astype(np.float64)
        column = self.schema[self.target]
        if isinstance(column, Category):
            return rows, target
        if self.scale == "counts":
            share = (column.middle + column.half * (target * unit)) / column.high
            return rows, np.clip(share, 0.0, 1.0)
        return rows, self.design.scaled(self.target, target * unit)

    def uniform(self, count: int, rng: RandomSource) -> FloatArray:
        """Points of the cube for independent uniform cells."""
        cells = 2.0 * rng.uniform((count, len(self.features))) - 1.0
        for j, size in enumerate(self.design.groups):
            if size:
                cells[:, j] = rng.integers(size + 1, count)
        return self.design.rows(cells)
