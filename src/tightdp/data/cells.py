"""Cells of a column as an engine hands them over, and the one reading of them.

Every engine's columns become :class:`NumberCells`, :class:`ListedCells`, :class:`CodedCells` or the
cells of :mod:`~tightdp.data.arrow`, and each cell is read from itself alone, by the rules of
:mod:`tightdp.values`, whatever the engine and whatever stands beside it:

- In a numeric column a number counts as the nearest double; one too large for a double is
  infinite. Where an interval states how numbers are written, texts with digits are numbers if they
  are written so, and missing if not.
- A level of a category is its value, however it is stored (:class:`~tightdp.Category`): a text is
  the level with the same letters, and whatever else is or reads as a number is the level of that
  value. 1, 1.0, True and "1" are one level, whether the schema writes it as 1 or as "1".
- A person is a number or a text; the digits of an integer, as Python writes them, are that integer.

Nothing here raises on account of a cell, and no ``repr`` shows one.
"""

from __future__ import annotations

import hashlib
import re
import uuid
from abc import ABC, abstractmethod
from collections.abc import Mapping, Sequence
from functools import cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray, Integers
from tightdp.schema import Category, Interval
from tightdp.values import exact_value, nearest_double, plain_cell

_SMALL_RANGE = 1024
_DIGITS = re.compile("0|-?[1-9][0-9]{0,399}")
_MARKS = {" ": " \u00a0\u2009\u202f", "'": "'\u2019"}  # blanks of all widths; typed and printed


class Cells(ABC):
    """Some cells of one column."""

    @abstractmethod
    def __len__(self) -> int: ...

    @abstractmethod
    def numbers(self, rule: Interval | None = None) -> FloatArray:
        """The nearest doubles, NaN where a cell is missing or no number, as the rule writes it."""

    @abstractmethod
    def codes(self, rule: Category) -> Integers:
        """Places among the levels of a category."""

    @abstractmethod
    def keys(self) -> Integers:
        """Two words for every cell, shape (len, 2), equal where cells are; -1, -1 where missing."""

    @abstractmethod
    def values(self) -> list[Any]:
        """The cells as plain numbers and texts, None where missing."""

    def quantize(self, rule: Interval | Category, bits: int, out: FloatArray) -> None:
        """Write what the schema makes of the cells: grid integers or level codes, as doubles."""
        if isinstance(rule, Category):
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
        with np.errstate(all="ignore"):
            out: FloatArray = self._values.astype(np.float64, copy=self._missing is not None)
        if self._missing is not None:
            out[self._missing] = np.nan
        return out

    def codes(self, rule: Category) -> Integers:
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
            out[place] = _words(values[place].item())
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
        if rule is not None and not rule.plain:
            form, marks = _form(rule.decimal, rule.thousands)
            cells = [_unmarked(plain_cell(cell), form, marks) for cell in cells]
        return np.array([*map(nearest_double, cells)], dtype=np.float64)

    def codes(self, rule: Category) -> Integers:
        return rule.codes(self._values)

    def keys(self) -> Integers:
        return np.array([*map(_words, self._values)], dtype=np.int64).reshape(-1, 2)

    def values(self) -> list[Any]:
        return [*map(plain_cell, self._values)]


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
    cells = ListedCells(plain.tolist())
    return (
        cells
        if missing is None
        else CodedCells(cells, np.where(missing, -1, np.arange(len(plain))))
    )


def unreadable_array(dtype: np.dtype[Any]) -> str | None:
    """The name of a numpy type whose cells are neither numbers, text nor objects."""
    return None if dtype.kind in "biufOUT" else str(dtype)


@cache
def _form(decimal: str, thousands: str) -> tuple[re.Pattern[str], dict[int, str]]:
    """How a number with these marks is written, and what makes Python's form of it.

    Groups have three digits, inner ones two or three (1,00,000); a fraction is not grouped.
    """
    marks = _MARKS.get(thousands, thousands)
    grouped = f"[0-9]{{1,3}}(?:[{re.escape(marks)}][0-9]{{2,3}})*[{re.escape(marks)}][0-9]{{3}}|"
    point = re.escape(decimal)
    form = (
        rf"[+-]?(?:(?:{grouped if marks else ''}[0-9]+)(?:{point}[0-9]*)?|{point}[0-9]+)"
        r"(?:[eE][+-]?[0-9]+)?"
    )
    return re.compile(form), {ord(mark): "" for mark in marks} | {ord(decimal): "."}


def _unmarked(cell: object, form: re.Pattern[str], marks: Mapping[int, str]) -> Any:
    """A text as Python writes it, None if it has digits and is written otherwise."""
    if not isinstance(cell, str):
        return cell
    word = cell.strip()
    if form.fullmatch(word):
        return word.translate(marks)
    return None if any(letter.isdigit() for letter in word) else word


def _distinct(values: NDArray[Any]) -> tuple[list[Any], NDArray[np.intp]]:
    """Values that cover all cells, as Python numbers, and the place of each cell among them."""
    if values.dtype.kind in "biu" and len(values):
        low, high = int(values.min()), int(values.max())
        if high - low < _SMALL_RANGE:
            shifted = values.astype(np.int64) - low if high < 2**63 else values - values.min()
            return list(range(low, high + 1)), shifted.astype(np.intp)
    distinct, places = np.unique(values, return_inverse=True)
    return [exact_value(value) for value in distinct.tolist()], places.reshape(-1)


def _words(cell: object) -> tuple[int, int]:
    """Two 64-bit words that stand for a person: (0, i) for an integer i, else a digest."""
    cell = plain_cell(cell)
    if isinstance(cell, str) and _DIGITS.fullmatch(cell):
        cell = int(cell)
    if isinstance(cell, str):
        text = "s" + cell
    elif isinstance(cell, (uuid.UUID, bytes)):
        text = "o" + str(cell)
    else:
        number = exact_value(cell)
        if number is None:
            return -1, -1
        if isinstance(number, int) and -(2**63) <= number < 2**63:
            return 0, number
        text = "n" + (hex(number) if isinstance(number, int) else number.hex())
    digest = hashlib.blake2b(text.encode("utf-8", "surrogatepass"), digest_size=16).digest()
    first = int.from_bytes(digest[:8], "little") >> 2 | 1  # neither 0 nor -1
    return first, int.from_bytes(digest[8:], "little", signed=True)
