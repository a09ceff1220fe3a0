"""What arguments may be: a number, a path, a table of any engine. Types alone, nothing runs here.

What a function takes beyond these it takes as ``object``, and checks.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any, Protocol, TypeAlias

import numpy as np
from numpy.typing import NDArray

Number: TypeAlias = int | float | Fraction | Decimal | np.integer[Any] | np.floating[Any]
PathLike: TypeAlias = str | os.PathLike[str]


class HasColumns(Protocol):
    """A frame of pandas, polars or Spark, a relation of DuckDB, or a table that is open."""

    @property
    def columns(self) -> Any: ...


class HasArrowStream(Protocol):
    """A table or reader of pyarrow, and whatever else hands its rows over as Arrow batches."""

    def __arrow_c_stream__(self, requested_schema: object = None) -> Any: ...


class HasBatches(Protocol):
    """A dataset of pyarrow."""

    def to_batches(self) -> Any: ...


class HasPath(Protocol):
    """A CSV file with what is known of it beside: :class:`~tightdp.CsvFile`."""

    @property
    def path(self) -> Path: ...


TableLike: TypeAlias = (
    Mapping[str, Any]  # columns by name
    | NDArray[Any]  # a matrix with the columns of the schema, or a structured array
    | Sequence[Any]  # rows: nested lists, where the columns are known by their places
    | PathLike  # a file, a folder or a pattern of files
    | HasColumns
    | HasArrowStream
    | HasBatches
    | HasPath
)
