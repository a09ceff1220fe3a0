"""Columns and their cells: what every engine hands over, and the one reading of it.

Every engine's columns become :class:`NumberCells`, :class:`ListedCells`, :class:`CodedCells` or the
cells of :mod:`~tightdp.data.library_columns`, and each cell is read from itself alone, by the rules
of :mod:`tightdp.values`, whatever the engine and whatever stands beside it:

- In a numeric column a number counts as the nearest double; one too large for a double is
  infinite. Where an interval states how numbers are written, texts with digits are numbers if they
  are written so, and missing if not.
- A level of a category is its value, however it is stored (:class:`~tightdp.Category`): a text is
  the level with the same letters, and whatever else is or reads as a number is the level of that
  value. 1, 1.0, True and "1" are one level, whether the schema writes it as 1 or as "1".
- In a column of dates a cell is a date by the rules of :mod:`tightdp.cell_dates`.

A mapping, a matrix and a pandas frame are columns side by side, and so are the ``X`` and ``y`` of
an estimator. Nothing here raises on account of a cell, and no ``repr`` shows one.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import tzinfo
from fractions import Fraction
from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.cell_dates import Clock
from tightdp.errors import DimensionError, FloatArray, Integers, fail
from tightdp.privacy import Neighbors
from tightdp.schema import Category, Interval, Schema
from tightdp.values import exact_value, nearest_double, person_words, plain_cell, unmarked

_SMALL_RANGE = 1024
_UNSEEN = "\0unseen"  # a level that no cell has


@dataclass(frozen=True, slots=True)
class MissingFlag(Interval):
    """A rule that makes 1 of a cell in which another rule finds nothing, and 0 of any other.

    >>> rule, out = MissingFlag(of=Interval(5, 9)), np.empty(3)
    >>> ListedCells([7, None, "many"]).quantize(rule, 4, out)
    >>> out
    array([-16.,  16.,  16.])
    """

    low: float = 0.0
    high: float = 1.0
    step: float | Fraction | None = 1.0
    of: Interval | Category = field(kw_only=True)

    @property
    def clock(self) -> Any:
        """How dates are read, where the other rule is for dates."""
        return self.of.clock if isinstance(self.of, Interval) else None

    def describe(self) -> str:
        """The rule in words."""
        return f"1 where a cell is missing, 0 where it is there: {self.of.describe()}"


class Cells(ABC):
    """Some cells of one column."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def numbers(self, rule: Interval | None = None) -> FloatArray:
        """The nearest doubles, NaN where a cell is missing or no number, as the rule writes it.

        Where the rule is about dates, the days since its first one, NaN where a cell is no date.
        """

    @abstractmethod
    def codes(self, rule: Category) -> Integers:
        """Places among the levels of a category."""

    @abstractmethod
    def keys(self) -> Integers:
        """Two words for every cell, shape (len, 2), equal where cells are; -1, -1 where missing."""

    @abstractmethod
    def values(self) -> list[Any]:
        """The cells as plain numbers and texts, None where missing."""

    def missing(self, rule: Interval | Category) -> NDArray[np.bool_]:
        """Which cells the rule finds nothing in: no number, or of a category an empty cell.

        Unseen levels are something, and count as ``other``.

        >>> ListedCells(["a", "", None, "z"]).missing(Category(["a", "b"]))
        array([False,  True,  True, False])
        """
        if isinstance(rule, Interval):
            return np.isnan(self.numbers(rule))
        return self.empty(self.no_level(rule, loose=rule.loose))

    def no_level(self, rule: Category, *, loose: bool) -> NDArray[np.bool_]:
        """Which cells are none of the levels of a category."""
        further = Category([*rule.levels, _UNSEEN], other=_UNSEEN, loose=loose)
        return np.asarray(self.codes(further) == len(rule.levels))

    def empty(self, among: NDArray[np.bool_]) -> NDArray[np.bool_]:
        """Which of some cells are empty, as a table of persons would see them; "" is empty."""
        if not among.any():
            return among
        keys = self.keys()
        blank = ListedCells([""]).keys()[0]
        return among & ((keys[:, 0] == -1) | (keys == blank).all(axis=1))

    def quantize(self, rule: Interval | Category, bits: int, out: FloatArray) -> None:
        """Write what the schema makes of the cells: grid integers or level codes, as doubles."""
        if isinstance(rule, MissingFlag):
            out[:] = np.where(self.missing(rule.of), 2.0**bits, -(2.0**bits))
        elif isinstance(rule, Category):
            out[:] = self.codes(rule)
        else:
            rule.to_grid(self.numbers(rule), bits, out)

    def __repr__(self) -> str:
        return f"{type(self).__name__}(...)"


class NumberCells(Cells):
    """Cells in a numeric or boolean array, with a mask where some are missing.

    >>> NumberCells(np.array([1, 0, 7])).codes(Category([0, "1"]))
    array([1, 0, 2])
    """

    def __init__(self, values: NDArray[Any], missing: NDArray[np.bool_] | None = None) -> None:
        self._values, self._missing = values, missing

    def __len__(self) -> int:
        return len(self._values)

    def numbers(self, rule: Interval | None = None) -> FloatArray:
        if rule is not None and rule.clock is not None:
            return self._days(rule.clock)
        with np.errstate(all="ignore"):
            out: FloatArray = self._values.astype(np.float64, copy=self._missing is not None)
        if self._missing is not None:
            out[self._missing] = np.nan
        return out

    def _days(self, clock: Clock) -> FloatArray:
        distinct, places = _distinct(self._values)
        out = clock.numbers(distinct)[places]
        if self._missing is not None:
            out[self._missing] = np.nan
        return out

    def codes(self, rule: Category) -> Integers:
        out = _integer_codes(self._values, rule)
        if out is None:
            distinct, places = _distinct(self._values)
            out = rule.codes(distinct)[places]
        if self._missing is not None:
            out[self._missing] = rule.codes([None])[0]
        return out

    def keys(self) -> Integers:
        values = self._values
        out = np.zeros((len(values), 2), dtype=np.int64)
        if values.dtype.kind == "f":
            values = self.numbers()
            with np.errstate(all="ignore"):  # some NaN make numpy raise its voice
                whole = (np.abs(values) < 2.0**63) & (np.floor(values) == values)
        else:
            whole = values <= np.iinfo(np.int64).max
        out[whole, 1] = values[whole].astype(np.int64)
        for place in np.flatnonzero(~whole):
            out[place] = person_words(values[place].item())
        if self._missing is not None:
            out[self._missing] = -1
        return out

    def values(self) -> list[Any]:
        gone = np.zeros(len(self), dtype=bool) if self._missing is None else self._missing
        return [
            None if out else plain_cell(v)
            for v, out in zip(self._values.tolist(), gone, strict=True)
        ]


class ListedCells(Cells):
    """Cells of any kind, as Python objects.

    >>> ListedCells(["1", "2.5", "many", None]).numbers()
    array([1. , 2.5, nan, nan])
    """

    def __init__(self, values: Sequence[Any]) -> None:
        self._values = values

    def __len__(self) -> int:
        return len(self._values)

    def numbers(self, rule: Interval | None = None) -> FloatArray:
        cells = self._values
        if rule is not None and rule.clock is not None:
            return rule.clock.numbers(cells)
        if rule is not None and not rule.plain:
            cells = [unmarked(cell, rule.decimal, rule.thousands) for cell in cells]
        return np.array([*map(nearest_double, cells)], dtype=np.float64)

    def codes(self, rule: Category) -> Integers:
        return rule.codes(self._values)

    def keys(self) -> Integers:
        return np.array([*map(person_words, self._values)], dtype=np.int64).reshape(-1, 2)

    def values(self) -> list[Any]:
        return [*map(plain_cell, self._values)]


class InstantCells(Cells):
    """Cells in an array of numpy's datetimes: instants if their column has a zone, else dates as
    they are written. They are neither numbers, levels nor persons.

    >>> from tightdp.date_rule import Date
    >>> days = np.array(["2014-01-03", "NaT"], dtype="M8[D]")
    >>> InstantCells(days).numbers(Date("2014-01-01", "2014-12-31"))
    array([ 2., nan])
    """

    def __init__(
        self,
        values: NDArray[Any],
        missing: NDArray[np.bool_] | None = None,
        zone: str | tzinfo | None = None,
    ) -> None:
        self._values, self._missing, self._zone = values, missing, zone

    def __len__(self) -> int:
        return len(self._values)

    def numbers(self, rule: Interval | None = None) -> FloatArray:
        if rule is None or rule.clock is None:
            return np.full(len(self), np.nan)
        return rule.clock.of_instants(self._values, self._missing, self._zone)

    def codes(self, rule: Category) -> Integers:
        return np.full(len(self), rule.codes([None])[0])

    def keys(self) -> Integers:
        return np.full((len(self), 2), -1)

    def values(self) -> list[Any]:
        return [None] * len(self)


class CodedCells(Cells):
    """Cells that are given by their places among other cells; -1 is missing.

    >>> CodedCells(ListedCells(["1", "2.5"]), np.array([1, -1, 0, 1])).numbers()
    array([2.5, nan, 1. , 2.5])
    """

    def __init__(self, levels: Cells, places: NDArray[Any]) -> None:
        self._levels, self._places = levels, places

    def __len__(self) -> int:
        return len(self._places)

    def numbers(self, rule: Interval | None = None) -> FloatArray:
        return np.append(self._levels.numbers(rule), np.nan)[self._places]

    def codes(self, rule: Category) -> Integers:
        return np.append(self._levels.codes(rule), rule.codes([None]))[self._places]

    def keys(self) -> Integers:
        return np.append(self._levels.keys(), [[-1, -1]], axis=0)[self._places]

    def values(self) -> list[Any]:
        levels = [*self._levels.values(), None]
        return [levels[place] for place in self._places]


class JoinedCells(Cells):
    """Parts of a column, each read by itself.

    >>> JoinedCells([ListedCells(["1"]), NumberCells(np.array([2]))]).numbers()
    array([1., 2.])
    """

    def __init__(self, parts: Sequence[Cells]) -> None:
        self._parts = parts or [ListedCells([])]

    def __len__(self) -> int:
        return sum(map(len, self._parts))

    def numbers(self, rule: Interval | None = None) -> FloatArray:
        return np.concatenate([part.numbers(rule) for part in self._parts])

    def codes(self, rule: Category) -> Integers:
        return np.concatenate([part.codes(rule) for part in self._parts])

    def keys(self) -> Integers:
        return np.concatenate([part.keys() for part in self._parts])

    def values(self) -> list[Any]:
        return [value for part in self._parts for value in part.values()]


def array_cells(array: NDArray[Any]) -> Cells:
    """The cells of a one-dimensional numpy array of a readable type, masked or not."""
    missing = np.ma.getmaskarray(array) if isinstance(array, np.ma.MaskedArray) else None
    plain = np.asarray(array)
    if plain.dtype.kind in "biuf":
        return NumberCells(plain, missing)
    if plain.dtype.kind == "M":
        return InstantCells(plain, missing)
    cells = ListedCells(plain.tolist())
    if missing is None:
        return cells
    return CodedCells(cells, np.where(missing, -1, np.arange(len(plain))))


class DateType(str):
    """The name of a type whose cells are dates: no numbers and no texts, but a Date reads them."""

    __slots__ = ()


def unreadable_array(dtype: np.dtype[Any]) -> str | None:
    """The name of a numpy type whose cells are neither numbers, text nor objects."""
    if dtype.kind == "M":
        return DateType(dtype)
    return None if dtype.kind in "biufOUT" else str(dtype)


def _integer_codes(values: NDArray[Any], rule: Category) -> Integers | None:
    """The places of integers among levels that stand close together; None of others."""
    kind = values.dtype
    if kind.kind not in "biu" or kind == np.uint64 or (found := rule.integers()) is None:
        return None
    low, places = found
    cells = values.astype(np.int64)
    inside = (cells >= low) & (cells <= low + len(places) - 2)
    out: Integers = places[np.where(inside, cells - low, len(places) - 1)]
    return out


def _distinct(values: NDArray[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """Values that cover all cells, as Python numbers, and the place of each cell among them."""
    if values.dtype.kind in "biu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < _SMALL_RANGE:
            shifted = values.astype(np.int64) - low if high < 2**63 else values - values.min()
            return list(range(low, high + 1)), shifted.astype(np.intp)
    distinct, places = np.unique(values, return_inverse=True)
    return [exact_value(value) for value in distinct.tolist()], places.reshape(-1)


# --- one column -----------------------------------------------------------------------------------


@dataclass(frozen=True)
class Column:
    """A column that is open: ``cells(start, stop)`` reads a part of it."""

    length: int
    unreadable: str | None
    cells: Callable[[int, int], Cells]

    def __len__(self) -> int:
        return self.length


def open_column(data: Any) -> Column:
    """A one-dimensional array, a sequence, or a column of pandas, polars, pyarrow.

    What is read of a column follows from its type, and within it from the cell alone: nothing
    converts a column as a whole, for one missing cell would then decide how all others are read
    (numpy makes doubles of integers with a null, and all integers above 2**53 that are close become
    one).

    >>> column = open_column([2**53 + 1, None, 2.5])
    >>> len(column), column.cells(0, 3).numbers()[1:]
    (3, array([nan, 2.5]))
    """
    if isinstance(data, np.ndarray):
        return _of_array(data)
    if isinstance(data, (list, tuple)):
        return _of_array(np.fromiter(data, dtype=object, count=len(data)))
    from tightdp.data.library_columns import open_library  # which is built on what is here

    found = open_library(data)
    if found is not None:
        return found
    if isinstance(data, Sequence) and not isinstance(data, (str, bytes, bytearray)):
        return _of_array(np.fromiter(data, dtype=object, count=len(data)))
    return _of_array(as_objects(data))


def libraries(thing: object) -> set[tuple[str, str]]:
    """The library and the name of every class of an object, without importing anything."""
    return {
        (base.__module__.split(".")[0].lstrip("_"), base.__name__) for base in type(thing).mro()
    }


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


# --- columns side by side -------------------------------------------------------------------------

Chunk = dict[str, Cells]
Part = Callable[[], Iterable[Chunk]]
"""Some rows that a thread may read by itself."""


class Engine(ABC):
    """A table of some engine.

    ``once`` says that its rows can be read one time only, ``caseless`` that it takes names which
    differ in their case for one, ``adds_up`` that it can be asked for sums by group,
    ``reads_ahead`` that it reads the next rows in a thread of its own while some are worked on.
    """

    once = False
    caseless = False
    adds_up = False
    reads_ahead = False

    @abstractmethod
    def names(self) -> list[Any]:
        """The names of the columns, as the engine has them."""

    @abstractmethod
    def unreadable(self, name: str) -> str | None:
        """The name of the column's type if its cells are neither numbers nor text; of dates a
        :class:`DateType`."""

    @abstractmethod
    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The named columns, at most ``rows`` rows at a time, each row once."""

    def parts(self, names: Sequence[str], rows: int) -> Iterator[Part]:
        """The same, with the work that threads can share left to whoever asks for a part."""
        for chunk in self.chunks(names, rows):
            yield partial(iter, (chunk,))

    def under(self, neighbors: Neighbors) -> Engine:
        """The same, with the rows that are rows where tables differ so: for most engines all."""
        return self

    def known_rows(self) -> int | None:
        """The number of rows, where no row need be read to know it."""
        return None

    def check_ready(self, names: Sequence[str]) -> None:
        """Raise if it is known that these columns cannot be read, whatever the rows."""
        return


class ColumnTable(Engine):
    """Columns by name, each of any library."""

    def __init__(self, columns: Mapping[str, Any]) -> None:
        self._columns = {name: open_column(column) for name, column in columns.items()}
        if len({len(column) for column in self._columns.values()}) > 1:
            fail("All columns must have the same length.", DimensionError)

    @classmethod
    def of_array(cls, array: NDArray[Any], schema: Schema) -> ColumnTable:
        """A structured array, or a matrix whose columns are those of the schema, in its order."""
        if array.dtype.names is not None and array.ndim == 1:
            return cls({name: array[name] for name in array.dtype.names})
        names = list(schema)
        if array.ndim == 1 and len(names) == 1:
            array = array.reshape(-1, 1)
        if array.ndim != 2 or array.shape[1] != len(names):
            got = f"{array.shape[1]} columns" if array.ndim == 2 else f"{array.ndim} axes"
            fail(
                f"An array must have one column for each of the {len(names)} of the schema, in "
                f"that order. Got {got}: select columns, or pass a mapping of names to arrays.",
                DimensionError,
            )
        return cls({name: array[:, j] for j, name in enumerate(names)})

    def names(self) -> list[Any]:
        return list(self._columns)

    def unreadable(self, name: str) -> str | None:
        return self._columns[name].unreadable

    def known_rows(self) -> int | None:
        return next((len(column) for column in self._columns.values()), None)

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        return _side_by_side({name: self._columns[name] for name in names}, rows)


class PandasTable(Engine):
    """A pandas frame."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame

    def names(self) -> list[Any]:
        return list(self._frame.columns)

    def unreadable(self, name: str) -> str | None:
        return open_column(self._frame[name]).unreadable

    def known_rows(self) -> int | None:
        return len(self._frame)

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        return _side_by_side({name: open_column(self._frame[name]) for name in names}, rows)


def _side_by_side(columns: Mapping[str, Column], rows: int) -> Iterator[Chunk]:
    for start in range(0, len(next(iter(columns.values()))), rows):
        yield {name: column.cells(start, start + rows) for name, column in columns.items()}
