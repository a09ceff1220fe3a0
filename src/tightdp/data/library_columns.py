"""Columns of pandas, polars and pyarrow as cells; Arrow is the common tongue of columnar engines.

A library is told by the modules of a class, and imported where it is used. Arrow's own conversions
raise on a bad cell and quote it: none is used that can, except where a failure falls back to the
plain reading.
"""

from __future__ import annotations

from collections.abc import Container, Iterable, Iterator, Sequence
from typing import Any

import numpy as np

from tightdp.cell_dates import known_zone
from tightdp.data.columns import (
    Cells,
    CodedCells,
    Column,
    DateType,
    InstantCells,
    JoinedCells,
    ListedCells,
    NumberCells,
    array_cells,
    libraries,
    open_column,
    unreadable_array,
)
from tightdp.errors import FloatArray, Integers, require
from tightdp.schema import Category, Interval
from tightdp.values import LONGEST_TEXT

_MOST_EXACT = 1 << 53
_MOST_SCALE = 22  # 10.0**22 is the largest exact power of ten
_POLARS_REST = ("Boolean", "String", "Categorical", "Enum", "Null")


def open_library(data: Any) -> Column | None:
    """A column of one of the libraries, or of any that hands over Arrow arrays; None of others."""
    known = libraries(data)
    names = {package for package, _ in known}
    if "narwhals" in names:
        return open_column(data.to_native())
    if "pandas" in names and hasattr(data, "dtype"):
        return _of_pandas(getattr(data, "array", data))
    if ("polars", "Series") in known:
        return _of_polars(data)
    if "pyarrow" in names and hasattr(data, "type"):
        return _of_arrow(data)
    listed = isinstance(data, Sequence)  # and read as such, whatever else it can be
    if not listed and (hasattr(data, "__arrow_c_stream__") or hasattr(data, "__arrow_c_array__")):
        return _of_arrow(pyarrow().chunked_array(data))
    return None


# --- pandas ---------------------------------------------------------------------------------------


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
    if kind == "DatetimeTZDtype":
        return DateType(dtype)
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
    if kind == "DatetimeTZDtype":
        return _zoned_cells(array)
    if dtype.kind == "M":
        return array_cells(np.asarray(array))
    if kind == "SparseDtype":
        return _sparse_cells(array)
    if dtype.kind in "biuf" and hasattr(dtype, "numpy_dtype"):
        values = array.to_numpy(dtype=dtype.numpy_dtype, na_value=0)
        return NumberCells(values, np.asarray(array.isna()))
    return array_cells(np.asarray(array, dtype=object))


def _zoned_cells(array: Any) -> Cells:
    """Instants on the clock of their zone; by its name, where it has one that is known here.

    pandas itself would raise on instants for which its clocks have no room.
    """
    clock = array.dtype.tz
    zone = str(clock) if known_zone(str(clock)) else clock
    return InstantCells(np.asarray(array.tz_convert(None)), zone=zone)


def _sparse_cells(array: Any) -> Cells:
    """What is stored, and the fill value elsewhere; pandas would find one type for both."""
    stored = array.sp_values
    places = np.full(len(array), len(stored))
    places[array.sp_index.to_int_index().indices] = np.arange(len(stored))
    return CodedCells(JoinedCells([array_cells(stored), ListedCells([array.fill_value])]), places)


# --- polars ---------------------------------------------------------------------------------------


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
    if name == "Date" or (name == "Datetime" and _clock_known(kind.time_zone)):
        return DateType(name)
    return None if kind.is_numeric() or name in _POLARS_REST else str(name)


def _clock_known(zone: str | None) -> bool:
    """Whether a type has no zone, or one that this machine knows."""
    return zone is None or known_zone(zone)


def wide_polars(kind: Any) -> bool:
    """Whether integers have 128 bits, which Arrow has not: their digits are read."""
    return kind.base_type().__name__ in ("Int128", "UInt128")


# --- Arrow ----------------------------------------------------------------------------------------


def _of_arrow(array: Any) -> Column:
    return Column(
        len(array),
        unreadable_type(array.type),
        lambda start, stop: arrow_cells(array[start:stop]),
    )


def pyarrow() -> Any:
    """The package with its functions, which it loads only when asked; or the advice to install."""
    require("pyarrow.compute", "pyarrow")
    return require("pyarrow", "pyarrow")


def unreadable_type(kind: Any) -> str | None:
    """The name of an Arrow type whose cells are neither numbers nor text; None for the others."""
    types = pyarrow().types
    if types.is_dictionary(kind) or types.is_run_end_encoded(kind):
        return unreadable_type(kind.value_type)
    if types.is_date(kind) or (types.is_timestamp(kind) and _clock_known(kind.tz)):
        return DateType(kind)
    readable = (
        types.is_integer(kind)
        or types.is_floating(kind)
        or types.is_boolean(kind)
        or types.is_decimal(kind)
        or types.is_null(kind)
        or _is_text(kind)
    )
    return None if readable else str(kind)


def batch_cells(
    batches: Iterable[Any], names: Sequence[str], rows: int, digits: Container[str] = ()
) -> Iterator[dict[str, Cells]]:
    """The named columns of record batches, at most ``rows`` rows at a time.

    Some columns may be given by the digits of integers that are too wide for Arrow.
    """
    for batch in batches:
        for start in range(0, batch.num_rows, rows):
            part = batch.slice(start, rows)
            yield {
                name: (digit_cells if name in digits else arrow_cells)(part.column(name))
                for name in names
            }


def digit_cells(array: object) -> Cells:
    """The integers whose digits stand in an array of texts."""
    values = arrow_cells(array).values()
    return ListedCells([None if value is None else int(value) for value in values])


def arrow_cells(array: Any) -> Cells:
    """The cells of an Arrow array of a readable type, chunked or not."""
    types, kind = pyarrow().types, array.type
    if hasattr(array, "chunks"):
        return JoinedCells([arrow_cells(chunk) for chunk in array.chunks])
    if types.is_run_end_encoded(kind):
        ends = np.asarray(array.run_ends)
        places = np.arange(array.offset, array.offset + len(array))
        return CodedCells(arrow_cells(array.values), np.searchsorted(ends, places, side="right"))
    if types.is_null(kind):
        return CodedCells(ListedCells([]), np.full(len(array), -1))
    if types.is_dictionary(kind):
        return _coded_cells(array)
    if types.is_floating(kind):
        return NumberCells(array.to_numpy(zero_copy_only=False))  # null becomes NaN
    if types.is_decimal(kind):
        return DecimalCells(array)
    if _is_text(kind):
        return TextCells(array)
    if types.is_date(kind) or types.is_timestamp(kind):
        return _instant_cells(array)
    missing = None
    if array.null_count:
        missing = array.is_null().to_numpy(zero_copy_only=False)
        array = array.fill_null(False if types.is_boolean(kind) else 0)
    return NumberCells(array.to_numpy(zero_copy_only=False), missing)


def _instant_cells(array: Any) -> Cells:
    """Dates and timestamps by the integers that stand for them: no call that looks at a date."""
    pa, kind = pyarrow(), array.type
    unit = {pa.date32(): "D", pa.date64(): "ms"}.get(kind) or kind.unit
    ticks = array.view(pa.int32() if kind == pa.date32() else pa.int64())
    missing = array.is_null().to_numpy(zero_copy_only=False) if array.null_count else None
    whole = ticks.fill_null(0).to_numpy(zero_copy_only=False).astype(np.int64)
    return InstantCells(whole.view(f"M8[{unit}]"), missing, getattr(kind, "tz", None))


class LazyCells(Cells):
    """An Arrow array whose values are looked at one by one only if nothing faster is exact."""

    def __init__(self, array: Any) -> None:
        self._array = array

    def __len__(self) -> int:
        return len(self._array)

    def numbers(self, rule: Interval | None = None) -> FloatArray:
        return self._distinct().numbers(rule)

    def codes(self, rule: Category) -> Integers:
        return self._distinct().codes(rule)

    def keys(self) -> Integers:
        return self._distinct().keys()

    def values(self) -> list[Any]:
        return self._distinct().values()

    def _distinct(self) -> Cells:
        coded = self._array.dictionary_encode()
        return CodedCells(ListedCells(_objects(coded.dictionary)), _places(coded))


class TextCells(LazyCells):
    """Text. What Arrow reads as numbers, Python reads as the same ones, so Arrow may try first."""

    def __init__(self, array: Any) -> None:
        pa = pyarrow()
        view = pa.types.is_string_view(array.type)  # for which Arrow has few functions
        super().__init__(array.cast(pa.large_string()) if view else array)

    def numbers(self, rule: Interval | None = None) -> FloatArray:
        pa = pyarrow()
        if rule is not None and rule.clock is not None:
            return super().numbers(rule)
        longest = pa.compute.max(pa.compute.binary_length(self._array)).as_py() or 0
        if longest > LONGEST_TEXT or (rule is not None and not rule.plain):
            return super().numbers(rule)  # Arrow knows 1234.5 only, and numbers of any length
        try:
            numbers = self._array.cast(pa.float64())
        except Exception:  # Arrow's own, and those about words of it that are no UTF-8
            return super().numbers()
        return np.asarray(numbers.to_numpy(zero_copy_only=False), dtype=np.float64)


class DecimalCells(LazyCells):
    """Decimals ``unscaled / 10**scale``, read as the nearest doubles.

    A quotient of doubles is rounded once, so it is the nearest double to the decimal where both
    its parts are exact: ``abs(unscaled) <= 2**53`` and ``scale <= 22``.
    """

    def __init__(self, array: Any) -> None:
        kind = array.type
        if kind.bit_width < 128:
            array = array.cast(pyarrow().decimal128(kind.precision, kind.scale))
        super().__init__(array)

    def numbers(self, rule: Interval | None = None) -> FloatArray:
        kind = self._array.type
        if rule is not None and rule.clock is not None:
            return super().numbers(rule)
        if kind.bit_width != 128 or not 0 <= kind.scale <= _MOST_SCALE or not len(self._array):
            return super().numbers()
        words = np.frombuffer(self._array.buffers()[1], dtype="<i8").reshape(-1, 2)
        words = words[self._array.offset : self._array.offset + len(self._array)]
        low, high = words[:, 0], words[:, 1]
        missing = self._array.is_null().to_numpy(zero_copy_only=False)
        small = (high == low >> 63) & (low <= _MOST_EXACT) & (low >= -_MOST_EXACT)
        if not (small | missing).all():
            return super().numbers()
        out = low.astype(np.float64) / 10.0**kind.scale
        out[missing] = np.nan
        return out


def _is_text(kind: object) -> bool:
    types = pyarrow().types
    return bool(types.is_string(kind) or types.is_large_string(kind) or types.is_string_view(kind))


def _coded_cells(array: Any) -> Cells:
    """The cells of a dictionary array; of a long dictionary only what occurs is looked at."""
    places, levels = _places(array), array.dictionary
    if len(levels) > len(array):
        used = np.unique(places[places >= 0])
        places = np.where(places < 0, -1, np.searchsorted(used, places))
        if pyarrow().types.is_string_view(levels.type):
            levels = levels.cast(pyarrow().large_string())
        levels = levels.take(pyarrow().array(used))
    return CodedCells(arrow_cells(levels), places)


def _places(array: Any) -> Integers:
    indices = array.indices.cast(pyarrow().int64()).fill_null(-1)
    return np.asarray(indices.to_numpy(zero_copy_only=False))


def _objects(array: Any) -> list[Any]:
    """The cells as Python objects; bytes of a text that are no UTF-8 are escaped, as in files."""
    pa = pyarrow()
    if not _is_text(array.type):
        return list(array.to_pylist())
    raw = array.cast(pa.large_binary()).to_pylist()
    return [None if cell is None else cell.decode("utf-8", "surrogateescape") for cell in raw]
