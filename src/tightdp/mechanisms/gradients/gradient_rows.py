"""Rows of a regression as integers on a public grid."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import replace
from fractions import Fraction

import numpy as np

from tightdp.accepted import TableLike
from tightdp.data.design_matrix import DesignMatrix
from tightdp.data.frames import check_frame, check_public_rows, quantized_matrix
from tightdp.errors import DimensionError, Integers, check_count, check_flag, check_list, fail
from tightdp.privacy import Neighbors
from tightdp.schema import Interval, Schema

_SPARE_BITS = 6  # lattice steps per unit of n * epsilon: the grid is finer than the noise
_WORD = 62


class RegressionRows:
    """Features, a constant and a target, each scaled to [-1, 1] and on the grid of the schema.

    They are the columns of a :class:`~tightdp.data.design_matrix.DesignMatrix`, ``design``, which
    has the way back to user units. Without an intercept intervals are widened until zero is their
    middle, so that cells need not be rounded twice.

    Parameters
    ----------
    schema : Schema
    features : sequence of str, optional
        All columns but the target by default.
    target : str, optional
        The last column by default.
    intercept : bool

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
        if not isinstance(schema, Schema):
            fail(f"`schema` must be a Schema. Got {type(schema).__name__}.")
        self.target = list(schema)[-1] if target is None else target
        if not isinstance(self.target, str):
            fail(f"`target` must be the name of a column. Got {type(target).__name__}.")
        known = [name for name in schema if name != self.target]
        self.features = tuple(known if features is None else check_list("features", features))
        self.intercept = check_flag("fit_intercept", intercept)
        if not self.features and not self.intercept:
            fail("There is nothing to fit: name a feature, or keep the intercept.", DimensionError)
        columns = {name: self._interval(schema, name) for name in self.columns}
        self.schema = Schema(
            {**schema.columns, **columns},  # in its order: it names the columns of a matrix
            rows=schema.rows,
            neighbors=schema.neighbors,
            bits=schema.bits,
            person=schema.person,
            rows_per_person=schema.rows_per_person,
        )
        self.design = DesignMatrix(
            self.schema, self.features, self.target, intercept=self.intercept
        )

    def _interval(self, schema: Schema, name: str) -> Interval:
        column = schema[name]
        if not isinstance(column, Interval):
            fail(f"Column {name!r} must be an Interval: code its levels as numbers first.")
        if self.intercept:
            return column
        reach = max(abs(column.low), abs(column.high))
        return replace(column, low=-reach, high=reach)

    @property
    def columns(self) -> tuple[str, ...]:
        """Features, then the target."""
        return (*self.features, self.target)

    @property
    def names(self) -> tuple[str, ...]:
        """Names of the coefficients."""
        return self.design.names

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
        return 2 if self.schema.neighbors is Neighbors.REPLACE_ONE else 1

    def check(self, frame: TableLike) -> None:
        """Raise if the table lacks a column; reads no row."""
        check_frame(frame, self.schema, self.columns)
        check_public_rows(frame, self.schema)

    def read(self, frame: TableLike, *, progress: bool = False) -> tuple[Integers, Integers]:
        """Integers ``2**bits * x``, shape (n, d), the constant first, and ``2**bits * y``."""
        cells = quantized_matrix(frame, self.schema, self.columns, progress=progress)
        rows = cells[:, :-1]
        if self.intercept:
            ones = np.full((len(cells), 1), self.schema.resolution, dtype=np.int64)
            rows = np.concatenate([ones, rows], axis=1)
        return rows, cells[:, -1]


def theta_grid(
    grid: int | None,
    *,
    rows: int,
    epsilon: Fraction,
    radius: Fraction,
    dim: int,
    bits: int,
    most: int = _WORD,
) -> int:
    """The number k such that coefficients live on multiples of ``2**-k``.

    The default makes one step change the gradient by less than the noise: about
    ``log2(64 * rows * epsilon)``, from public facts. Products of cells and coefficients must fit
    64 bits; a draw may ask for ``most``.

    >>> theta_grid(
    ...     None, rows=10_000, epsilon=Fraction(1), radius=Fraction(1), dim=2, bits=16)
    20
    """
    room = math.ceil(4 * dim * max(radius, Fraction(1))).bit_length() + bits
    if _WORD - room < 1:
        fail("`radius` is too large: no grid of coefficients fits 64-bit integers.")
    finest = min(_WORD - room, most)
    if grid is not None:
        return check_count("grid", grid, most=finest)
    wanted = math.ceil(rows * max(epsilon, Fraction(1))).bit_length() + _SPARE_BITS
    return min(max(wanted, 10), 40, finest)
