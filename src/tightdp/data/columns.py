"""One column of any library, opened once: its length, whether its type can be read, and its cells.

A mapping, a pandas frame, and the ``X`` and ``y`` of an estimator are columns side by side, and
each comes through :func:`open_column`. What is read of a column follows from its type, and within
it from the cell alone: nothing here converts a column as a whole, for one missing cell would then
decide how all others are read (numpy makes doubles of integers with a null, and all integers above
2**53 that are close become one).
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.data.arrow import arrow_cells, digit_cells, pyarrow, unreadable_type
from tightdp.data.cells import (
    Cells,
    CodedCells,
    JoinedCells,
    ListedCells,
    NumberCells,
    array_cells,
    unreadable_array,
)
from tightdp.errors import DimensionError, fail, require

_POLARS_REST = ("Boolean", "String", "Categorical", "Enum", "Null")


@dataclass(frozen=True)
class Column:
    """A column that is open: ``cells(start, stop)`` reads a part of it."""

    length: int
    unreadable: str | None
    cells: Callable[[int, int], Cells]

    def __len__(self) -> int:
        return self.length


def libraries(thing: object) -> set[tuple[str, str]]:
    """The library and the name of every class of an object, without importing anything."""
    return {
        (base.__module__.split(".")[0].lstrip("_"), base.__name__) for base in type(thing).mro()
    }


def open_column(data: Any) -> Column:
    """A one-dimensional array, a sequence, or a column of pandas, polars, pyarrow.

    >>> column = open_column([2**53 + 1, None, 2.5])
    >>> len(column), column.cells(0, 3).numbers()[1:]
    (3, array([nan, 2.5]))
    """
    known = libraries(data)
    names = {package for package, _ in known}
    if "narwhals" in names:
        return open_column(data.to_native())
    if isinstance(data, np.ndarray):
        return _of_array(data)
    if "pandas" in names and hasattr(data, "dtype"):
        return _of_pandas(getattr(data, "array", data))
    if ("polars", "Series") in known:
        return _of_polars(data)
    if "pyarrow" in names and hasattr(data, "type"):
        return _of_arrow(data)
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes, bytearray)):
        return _of_array(np.fromiter(data, dtype=object, count=len(data)))
    if hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__"):
        return _of_arrow(pyarrow().chunked_array(data))
    return _of_array(as_objects(data))


def as_objects(data: object) -> NDArray[Any]:
    """What an unknown class gives as an array, cell by cell: its own conversion might look at all.

    >>> as_objects(memoryview(b"ab")).tolist()
    [97, 98]
    """
    dtype = getattr(data, "dtype", None)
    if isinstance(dtype, np.dtype) and unreadable_array(dtype) is not None:
        return np.asarray(data)  # refused by its type
    return np.asarray(data, dtype=object)


def _of_array(array: NDArray[Any]) -> Column:
    if array.ndim != 1:
        fail("Every column must be a one-dimensional array.", DimensionError)
    return Column(
        len(array),
        unreadable_array(array.dtype),
        lambda start, stop: array_cells(array[start:stop]),
    )


def _of_arrow(array: Any) -> Column:
    return Column(
        len(array),
        unreadable_type(array.type),
        lambda start, stop: arrow_cells(array[start:stop]),
    )


# --- pandas --------------------------------------------------------------------------------------


def _of_pandas(array: Any) -> Column:
    return Column(
        len(array),
        _unreadable_pandas(array.dtype),
        lambda start, stop: _pandas_cells(array[start:stop]),
    )


def _unreadable_pandas(dtype: Any) -> str | None:
    if isinstance(dtype, np.dtype):
        return unreadable_array(dtype)
    kind = type(dtype).__name__
    if kind == "NumpyEADtype":
        return unreadable_array(dtype.numpy_dtype)
    if kind == "CategoricalDtype":
        return _unreadable_pandas(dtype.categories.dtype)
    if kind == "ArrowDtype":
        return unreadable_type(dtype.pyarrow_dtype)
    if kind == "StringDtype" or (kind != "IntervalDtype" and dtype.kind in "biuf"):
        return None
    return str(dtype)


def _pandas_cells(array: Any) -> Cells:
    """The cells of a pandas array, by its type."""
    dtype, kind = array.dtype, type(array.dtype).__name__
    if kind == "NumpyEADtype":
        return array_cells(array.to_numpy())
    if kind == "CategoricalDtype":
        levels = open_column(array.categories)
        return CodedCells(levels.cells(0, len(levels)), np.asarray(array.codes))
    if kind == "ArrowDtype" or getattr(dtype, "storage", "python") != "python":
        return arrow_cells(array.__arrow_array__())
    if kind == "SparseDtype":
        return _sparse_cells(array)
    if dtype.kind in "biuf" and hasattr(dtype, "numpy_dtype"):
        values = array.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
        return NumberCells(values, np.asarray(array.isna()))
    return array_cells(np.asarray(array, dtype=object))


def _sparse_cells(array: Any) -> Cells:
    """What is stored, and the fill value elsewhere; pandas would find one type for both."""
    stored = array.sp_values
    places = np.full(len(array), len(stored))
    places[array.sp_index.to_int_index().indices] = np.arange(len(stored))
    return CodedCells(JoinedCells([array_cells(stored), ListedCells([array.fill_value])]), places)


# --- polars --------------------------------------------------------------------------------------


def _of_polars(series: Any) -> Column:
    wide = wide_polars(series.dtype)
    pyarrow()  # before anything is paid for

    def cells(start: int, stop: int) -> Cells:
        part = series[start:stop]
        if wide:
            return digit_cells(part.cast(require("polars", "polars").String).to_arrow())
        return arrow_cells(part.to_arrow())

    return Column(len(series), unreadable_polars(series.dtype), cells)


def unreadable_polars(kind: Any) -> str | None:
    """The name of a polars type whose cells are neither numbers nor text."""
    name = kind.base_type().__name__
    return None if kind.is_numeric() or name in _POLARS_REST else str(name)


def wide_polars(kind: Any) -> bool:
    """Whether integers have 128 bits, which Arrow has not: their digits are read."""
    return kind.base_type().__name__ in ("Int128", "UInt128")
