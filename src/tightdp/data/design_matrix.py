"""The one map from the columns of a schema to those of a regression, and back to user units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tightdp.data.statistics import distinct
from tightdp.errors import FloatArray, fail
from tightdp.schema import Category, Interval, Schema


class DesignMatrix:
    r"""An intercept, features and a target, scaled by public bounds; the intercept comes first.

    With an intercept columns are centred at the middle of their bounds, which changes no fitted
    plane. Without one zero must stay zero: columns are divided by the larger of their two bounds. A
    category becomes indicators of all its stated levels but the first.

    A plane :math:`y = \theta_0 + d \cdot \theta` of scaled columns is, in user units, the plane
    with coefficients :math:`A\theta + b`, A ``linear`` and b ``offset``. A target that is a
    category keeps its units: these are log odds.

    Parameters
    ----------
    schema : Schema
    features : sequence of str
    target : str
    intercept : bool

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
        self, schema: Schema, features: Sequence[str], target: str, *, intercept: bool = True
    ) -> None:
        self.schema, self.features, self.target = schema, tuple(features), target
        self.intercept = intercept
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
            elif self.intercept:
                pair = column.half, column.middle
            else:
                pair = abs(column.middle) + column.half, 0.0
            half += [pair[0]] * size
            middle += [pair[1]] * size
        return np.array(half), np.array(middle)

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
