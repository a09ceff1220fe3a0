"""The one map from the columns of a schema to those of a regression, and back to user units."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tightdp.errors import FloatArray
from tightdp.schema import Category, Schema


class DesignMatrix:
    r"""An intercept, features and a target, scaled by public bounds; the intercept comes first.

    With an intercept columns are centred at the middle of their bounds, which changes no fitted
    plane. Without one zero must stay zero: columns are divided by the larger of their two bounds. A
    category becomes indicators of all its stated levels but the first.

    A plane :math:`y = \theta_0 + d \cdot \theta` of scaled columns is, in user units, the plane
    with coefficients :math:`A\theta + b`, A ``linear`` and b ``offset``.

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
        Names of the coefficients: the intercept, if there is one, and the design.
    groups : tuple of int
        How many columns come from each feature; 0 for a number, which has one.
    half, middle : arrays
        Half-widths and middles of the columns of the design, then of the target.

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
    """

    def __init__(
        self, schema: Schema, features: Sequence[str], target: str, *, intercept: bool = True
    ) -> None:
        self.schema, self.features, self.target = schema, tuple(features), target
        self.intercept = intercept
        design: list[str] = []
        groups: list[int] = []
        for name in self.features:
            column = schema[name]
            levels = column.indicators if isinstance(column, Category) else ()
            design += [f"{name}[{level}]" for level in levels] or [name]
            groups.append(len(levels))
        self.design, self.groups = tuple(design), tuple(groups)
        self.names = ("intercept", *design) if intercept else self.design
        self.half, self.middle = self._scales()
        self.linear, self.offset = self._to_user()

    def _scales(self) -> tuple[FloatArray, FloatArray]:
        half, middle = [], []
        for name, size in zip((*self.features, self.target), (*self.groups, 0), strict=True):
            column = self.schema[name]
            if isinstance(column, Category):
                pair = 1.0, 0.0
            elif self.intercept:
                pair = column.half, column.middle
            else:
                pair = max(abs(column.low), abs(column.high)), 0.0
            half += [pair[0]] * max(1, size)
            middle += [pair[1]] * max(1, size)
        return np.array(half), np.array(middle)

    def _to_user(self) -> tuple[FloatArray, FloatArray]:
        slopes = self.half[-1] / self.half[:-1]
        if not self.intercept:
            return np.diag(slopes), np.zeros(len(slopes))
        linear = np.diag(np.append(self.half[-1], slopes))
        linear[0, 1:] = -slopes * self.middle[:-1]
        offset = np.zeros(len(linear))
        offset[0] = self.middle[-1]
        return linear, offset

    def to_user(self, theta: FloatArray) -> FloatArray:
        """Coefficients in user units from those of the scaled columns, one vector or rows."""
        return np.asarray(theta @ self.linear.T + self.offset)

    def from_user(self, beta: FloatArray) -> FloatArray:
        """Coefficients of the scaled columns from those in user units, one vector or rows."""
        return np.asarray(np.linalg.solve(self.linear, (beta - self.offset).T).T)

    @property
    def origin(self) -> FloatArray:
        """Where the user's zero lies on the scaled columns: features, then the target."""
        return np.asarray(-self.middle / self.half)
