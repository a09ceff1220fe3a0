"""Blocks of quantised rows: how rows become blocks, on which grid, and sums that are exact.

Rows pass through the schema's clamp and grid where they are first seen (:class:`Scan`), in this
process or inside the workers of Spark. A :class:`Block` never holds raw cells, and nothing here
rounds: products run at the speed of floating-point linear algebra only where every partial sum is
an integer that a double holds.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass, field
from functools import cache
from typing import Any, Self

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.column_rules import HALF_UP, MOST_BITS, Step, take_steps
from tightdp.data.columns import Chunk
from tightdp.data.persons import GONE, FewRows, side_by_side
from tightdp.errors import DimensionError, FloatArray, Integers, check_count, fail
from tightdp.schema import Interval, Schema

Reducer = Callable[["Block"], NDArray[Any]]
Keyed = tuple[Integers, Integers]
Rows = tuple[Schema, tuple[str, ...]]  # the rules by which rows are read, and the columns

_EXACT = 53  # integers up to 2**53 are doubles
_WORD = 62
MOST_SUM_BITS = _WORD - 2  # of a product: sums of blocks are multiplied by up to 4
_HALF = 13  # cells of at most 26 bits are split into a high and a low half
_HIGH = 31  # products of at most 62 bits are split into a high and a low half
_GRAM_ROWS = 16_384  # rows multiplied at a time, in the cache
_FLOATS = 1 + 2.0**-20  # scaling is done in doubles: a cell beside the middle of two grid points


class Block:
    """Some rows of a table, quantised: grid integers of intervals, level codes of categories.

    Parameters
    ----------
    cells : mapping from names to integers
        The columns, all of one length.

    Attributes
    ----------
    times : int
        How often each row counts: once, but for rows that share the weight of their person.

    Examples
    --------
    >>> block = Block({"x": np.array([-16, 16]), "k": np.array([0, 1])})
    >>> len(block), block["x"].tolist(), block.matrix(["k", "x"]).tolist()
    (2, [-16, 16], [[0, -16], [1, 16]])
    """

    __slots__ = ("_doubles", "_integers", "_place", "names", "times")

    def __init__(self, cells: Mapping[str, Integers]) -> None:
        whole = np.array(list(cells.values()), dtype=np.int64)
        self._hold(tuple(cells), whole.astype(np.float64))

    @classmethod
    def of_columns(cls, names: Sequence[str], columns: FloatArray, times: int = 1) -> Block:
        """The block of an array of shape (d, rows) that holds integers as doubles, uncopied."""
        block = cls.__new__(cls)
        block._hold(tuple(names), columns, times)
        return block

    def _hold(self, names: tuple[str, ...], columns: FloatArray, times: int = 1) -> None:
        self.names, self._doubles, self.times = names, columns, times
        self._integers: Integers | None = None
        self._place = {name: j for j, name in enumerate(names)}

    def __getitem__(self, name: str) -> Integers:
        return self._whole()[self._place[name]]

    def __len__(self) -> int:
        return self._doubles.shape[1]

    def matrix(self, names: Sequence[str] | None = None) -> Integers:
        """The named columns side by side, shape (rows, d), stored column by column."""
        if names is None or tuple(names) == self.names:
            return self._whole().T
        return self._whole()[[self._place[name] for name in names]].T

    def doubles(self, names: Sequence[str], shift: int = 0) -> FloatArray:
        """The named columns as doubles, shape (d, rows), on a grid ``2**shift`` times as coarse.

        Not to be changed: it may be the block itself.
        """
        same = tuple(names) == self.names
        cells = self._doubles if same else self._doubles[[self._place[name] for name in names]]
        return cells if shift == 0 else take_steps(coarser(shift), cells, np.empty(cells.shape))

    def part(self, names: tuple[str, ...], start: int) -> Block:
        """Some columns that stand side by side, as a block of their own."""
        return Block.of_columns(names, self._doubles[start : start + len(names)])

    def _whole(self) -> Integers:
        if self._integers is None:
            self._integers = self._doubles.astype(np.int64)
        return self._integers

    def __repr__(self) -> str:  # neither cells nor their number
        return f"Block({', '.join(self.names)})"


# --- from rows to blocks --------------------------------------------------------------------------


@dataclass(frozen=True)
class Scan:
    """What is done to every chunk of rows; public facts only. Made by :meth:`of`.

    Several readings of the rows, each by rules of its own, can share a scan if they agree on the
    grid and on persons: a column that is read by one rule is read once, and the columns of all
    stand in a block one after the other.

    Examples
    --------
    >>> from tightdp.data.columns import NumberCells
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=2, bits=3)
    >>> scan = Scan.of([(schema, ("x",)), (schema, ("y", "x"))], rows=10)
    >>> scan.wanted
    ('x', 'y')
    >>> chunk = {"x": NumberCells(np.array([0.0])), "y": NumberCells(np.array([1.0]))}
    >>> [block.matrix().tolist() for block in scan.blocks([chunk])]
    [[[-8, 8, -8]]]
    """

    parts: tuple[Rows, ...]
    rows: int
    columns: tuple[tuple[str, int], ...]
    """What is read: the names of columns, each with the part by whose rule it is read."""
    places: tuple[tuple[int, ...], ...]
    """Where the columns of every part stand among these."""
    marks: tuple[int | None, ...]
    """Parts that follow each other with one mark keep the same rows of a person."""

    @classmethod
    def of(cls, parts: Sequence[Rows], rows: int, marks: Sequence[int | None] = ()) -> Self:
        """A scan for all these readings, in blocks of at most ``rows`` rows."""
        seen: dict[tuple[str, int, bool], int] = {}  # rules live as long as the schemas
        columns, places = [], []
        for i, (schema, names) in enumerate(parts):
            here = [(name, id(schema[name]), schema.drops) for name in names]
            columns += [(key[0], i) for key in here if key not in seen]
            for key in here:
                seen.setdefault(key, len(seen))
            places.append(tuple(seen[key] for key in here))
        each = tuple(marks) or (None,) * len(parts)
        return cls(tuple(parts), rows, tuple(columns), tuple(places), each)

    @property
    def schema(self) -> Schema:
        """The facts about rows, persons and the grid, on which all parts agree."""
        return self.parts[0][0]

    @property
    def names(self) -> tuple[str, ...]:
        """The columns of the blocks: those of all parts."""
        return tuple(name for _, names in self.parts for name in names)

    @property
    def wanted(self) -> tuple[str, ...]:
        """The columns to read: the person's too, if rows are counted by person."""
        person = () if self.schema.person is None else (self.schema.person,)
        return tuple(dict.fromkeys([*self.names, *person]))

    def blocks(self, chunks: Iterable[Chunk]) -> Iterator[Block]:
        """Quantised blocks of at most ``rows`` rows."""
        if self.schema.person is not None:
            yield from self.few(self.keyed(chunks))
            return
        every = [place for places in self.places for place in places]
        for chunk in chunks:
            cells = self._quantized(chunk)
            yield Block.of_columns(self.names, cells if len(self.parts) == 1 else cells[every])

    def keyed(self, chunks: Iterable[Chunk]) -> Iterator[Keyed]:
        """Person keys, shape (m, 2), and quantised rows, shape (m, d); all rows, none dropped."""
        assert self.schema.person is not None
        for chunk in chunks:
            rows = self._quantized(chunk).astype(np.int64).T
            yield chunk[self.schema.person].keys(), rows

    def few(self, keyed: Iterable[Keyed]) -> Iterator[Block]:
        """Blocks of the rows that are kept of each person, or of their means: as many for every
        part, each choosing by its own columns, as it does alone, and parts of one mark by those of
        all.
        """
        choices: list[list[int]] = []
        facts: list[Schema] = []
        for j, places in enumerate(self.places):
            if j and self.marks[j] is not None and self.marks[j] == self.marks[j - 1]:
                choices[-1].extend(places)
            else:
                choices.append([*places])
                facts.append(self.parts[j][0])
        kept = [FewRows(self.schema.rows_used, len(choice)) for choice in choices]
        for keys, rows in keyed:
            for few, choice in zip(kept, choices, strict=True):
                there = (rows[:, choice] != GONE).all(axis=1)  # a row left out takes no place
                few.add(keys[there], rows[there][:, choice])
        read = (self._read(*each) for each in zip(kept, choices, facts, strict=True))
        if self.schema.row_units > 1:
            assert len(kept) == 1  # rows that share a weight are read alone
            yield from self._weighed(kept[0])
            return
        yield from self._in_blocks(side_by_side([*read]), 1)

    def _weighed(self, few: FewRows) -> Iterator[Block]:
        """The rows of persons of whom one row counts, then two rows, and so on: the rows of each
        share the weight of the person, and what does not divide evenly counts nothing."""
        for used, rows in few.rows_by_number():
            yield from self._in_blocks(rows, self.schema.row_units // used)

    def _in_blocks(self, table: Integers, times: int) -> Iterator[Block]:
        for start in range(0, len(table), self.rows):
            part = table[start : start + self.rows].T.astype(np.float64, order="C")
            yield Block.of_columns(self.names, part, times)

    def _read(self, few: FewRows, choice: Sequence[int], facts: Schema) -> Integers:
        """The rows that count of what was kept: themselves, or the means of persons."""
        if not facts.averages:
            return few.rows()
        named = [self.columns[place][0] for place in choice]
        return few.means([named.index(name) for name in facts.group_columns], facts.rows_per_person)

    def _quantized(self, chunk: Chunk) -> FloatArray:
        """Integers as doubles, shape (d, rows): products of them run as linear algebra."""
        out = np.empty((len(self.columns), len(chunk[self.columns[0][0]])))
        for row, (name, i) in zip(out, self.columns, strict=True):
            facts, cells = self.parts[i][0], chunk[name]
            cells.quantize(facts[name], self.schema.bits, out=row)
            if facts.drops:
                row[cells.missing(facts[name])] = GONE
        return out


@dataclass(frozen=True)
class SharedReducer:
    """What several reducers make of their parts of the blocks of a scan, one after the other."""

    parts: tuple[Rows, ...]
    reducers: tuple[Reducer, ...]
    widths: tuple[int, ...]

    def __call__(self, block: Block) -> Integers:
        found, start = [], 0
        for (_, names), reducer, width in zip(self.parts, self.reducers, self.widths, strict=True):
            found.append(checked_entries(reducer(block.part(names, start)), width))
            start += len(names)
        if any(entries.dtype == np.uint64 for entries in found):  # they would be doubles
            found = [entries.astype(object) for entries in found]
        return np.concatenate(found)


class Reduced:
    """What a reducer made of some rows, and how many they were."""

    __slots__ = ("entries", "rows")

    def __init__(self, block: Block, reducer: Reducer) -> None:
        self.entries, self.rows = reducer(block), len(block)

    def __len__(self) -> int:
        return self.rows


def sum_reduced(parts: Iterable[Reduced], width: int) -> list[int]:
    """The sum of what was made of all rows, and last their number."""
    totals, rows = Totals(width), 0
    for part in parts:
        totals.add(part.entries)
        rows += part.rows
    return [*totals.values(), rows]


def checked_entries(vector: ArrayLike, width: int) -> NDArray[Any]:
    """What a reducer returned; the shape and the type are checked, never the entries."""
    entries = np.asarray(vector)
    if entries.shape != (width,) or entries.dtype.kind not in "iuO":
        fail(
            f"A reducer must return {width} integers. "
            f"Got shape {entries.shape} of {entries.dtype}.",
            DimensionError,
        )
    return entries


# --- the grid of a statistic ----------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Grid:
    r"""The grid on which the cells of a statistic are integers, and what is lost by rounding to it.

    Columns are scaled to [-1, 1]. Without a public step a cell is rounded to a multiple of
    :math:`2^{-b}`, so that it moves by at most :math:`\delta = 2^{-b-1}`. With M public steps it
    is one of -1, -1 + 2/M, ..., 1, all of them multiples of 1/M. The grid is a common multiple of
    what the columns need, and what has a step is not moved at all. Means of the rows of a person
    lie between steps, and are rounded once more.

    Examples
    --------
    >>> schema = Schema({"age": Interval(0, 100, step=1), "x": Interval(0, 1)}, rows=9, bits=7)
    >>> Grid.of(schema, ["age"], bits=7, degree=2)
    Grid(points=100, bits=7, fine=7, steps={'age': 100})
    """

    points: int
    bits: int
    fine: int
    steps: Mapping[str, int]
    averages: bool = field(default=False, repr=False)

    @classmethod
    def of(cls, schema: Schema, columns: Sequence[str], bits: int, degree: int) -> Grid:
        """The grid of some columns for products of ``degree`` cells."""
        rules = {name: schema[name] for name in columns}
        numeric = {name: rule for name, rule in rules.items() if isinstance(rule, Interval)}
        steps = {name: rule.steps for name, rule in numeric.items() if rule.steps is not None}
        if schema.averages:
            steps = {}
        plain = [1 << bits] if len(steps) < len(numeric) or not steps else []
        points = math.lcm(*steps.values(), *plain)
        # beyond it products would not be exact: steps are then rounded as other values are
        room = min(MOST_BITS, MOST_SUM_BITS // max(1, degree))
        if (points - 1).bit_length() > room:
            points, steps = 1 << bits, {}
        return cls(points, bits, schema.bits, steps, schema.averages)

    @property
    def cell_bits(self) -> int:
        """A b with all cells of at most ``2**b`` in size."""
        return (self.points - 1).bit_length()

    def cells(self, block: Block, names: Sequence[str]) -> FloatArray:
        """Columns as integers on the grid, shape (d, rows), stored as doubles."""
        if not self.steps:
            return block.doubles(names, self.fine - self.bits)
        return np.vstack([np.zeros((0, len(block))), *(self._cells(block, name) for name in names)])

    def _cells(self, block: Block, name: str) -> FloatArray:
        raw = block.doubles([name])
        return take_steps(self.steps_to(name), raw, np.empty(raw.shape))

    def steps_to(self, name: str) -> tuple[Step, ...]:
        """From the schema's grid to this one, operation by operation, for a column."""
        steps = self.steps.get(name)
        if steps is None:
            coarse = coarser(self.fine - self.bits) if self.bits < self.fine else ()
            return (*coarse, ("*", float(self.points >> self.bits))) if self.steps else coarse
        # the nearest place of a step: the schema's grid has at least as many points as steps
        scale = steps * 0.5 ** (self.fine + 1)
        places = (("+", 2.0**self.fine), ("*", scale), *HALF_UP)
        return (*places, ("*", 2.0), ("-", float(steps)), ("*", float(self.points // steps)))

    def rounding(self, name: str) -> float:
        """How far a scaled cell of a column can be from the integer that stands for it."""
        if name in self.steps:
            return 0.0
        again = 0.5 ** (self.bits + 1) if self.bits < self.fine else 0.0
        times = 2 if self.averages else 1  # a cell, and the mean of cells
        return (times * 0.5 ** (self.fine + 1) + again) * _FLOATS


def coarser(shift: int) -> tuple[Step, ...]:
    """To a grid ``2**shift`` times as coarse: exact, and so is the half, rounded half up."""
    return (("*", 0.5**shift), *HALF_UP)


def product_rounding(errors: Sequence[float]) -> float:
    r"""How far a product of numbers in [-1, 1] moves if they do: :math:`\prod(1+\delta_i)-1`."""
    return math.prod(1 + error for error in errors) - 1


# --- sums that are exact --------------------------------------------------------------------------


def exact_gram(matrix: ArrayLike, bits: int) -> NDArray[Any]:
    """``matrix.T @ matrix`` without rounding, for integers of at most ``2**bits`` in size.

    With r rows every partial sum is at most ``r * 2**(2 * bits)``, so floating-point products are
    exact while ``2 * bits + log2(r) <= 53``. Beyond that ``matrix = 2**13 * high + low``, and the
    three products of the halves are exact.

    Parameters
    ----------
    matrix : integers, shape (rows, d)
    bits : int
        At most 26.

    Returns
    -------
    array, shape (d, d)
        int64, or Python integers where ``rows * 2**(2 * bits)`` needs more.

    Examples
    --------
    >>> exact_gram([[3, 1], [-2, 4]], bits=2)
    array([[13, -5],
           [-5, 17]])
    """
    check_count("bits", bits, most=26)
    cells = np.asarray(matrix)
    if cells.ndim != 2 or cells.dtype.kind not in "iu":
        fail("`matrix` must be a two-dimensional array of integers.", DimensionError)
    return gram_of_doubles(cells.T, bits)


def gram_of_doubles(columns: NDArray[Any], bits: int) -> NDArray[Any]:
    """``columns @ columns.T`` for integers, shape (d, rows), that may be stored as doubles.

    >>> gram_of_doubles(np.array([[3.0, -2.0], [1.0, 4.0]]), bits=2)
    array([[13, -5],
           [-5, 17]])
    """
    width, rows = columns.shape
    fits = 2 * bits + rows.bit_length() <= _WORD
    total = np.zeros((width, width), dtype=np.int64 if fits else object)
    for start in range(0, rows, _GRAM_ROWS):
        part = columns[:, start : start + _GRAM_ROWS].astype(np.float64, copy=False)
        total += _gram(part, bits, np.int64 if fits else object)
    return total


def _gram(cells: FloatArray, bits: int, kind: type) -> NDArray[Any]:
    def product(left: FloatArray, right: FloatArray) -> NDArray[Any]:
        return (left @ right.T).astype(np.int64).astype(kind)

    if 2 * bits + (cells.shape[1] - 1).bit_length() <= _EXACT:
        return product(cells, cells)
    high = np.floor(cells * 0.5**_HALF)
    low = cells - high * 2.0**_HALF
    mixed = product(high, low)
    squares = product(high, high) * (1 << 2 * _HALF) + product(low, low)
    return squares + (mixed + mixed.T) * (1 << _HALF)


def grouped_sums(
    cells: FloatArray, codes: Integers | None, count: int, bits: int
) -> NDArray[np.int64]:
    """Sums of products of cells, shape (factors, rows), within each of ``count`` groups of rows.

    Without codes all rows are one group. Sums must fit 62 bits, see :func:`rows_that_fit`.

    >>> grouped_sums(np.array([[3.0, -2, 4], [1, 2, 2]]), np.array([0, 1, 1]), 2, bits=2)
    array([3, 4])
    """
    factors, rows = cells.shape
    if factors == 0:
        return np.array([rows]) if codes is None else np.bincount(codes, minlength=count)
    if factors * bits + rows.bit_length() <= _EXACT:
        return _add_up(cells[0] if factors == 1 else np.prod(cells, axis=0), codes, count)
    whole = np.prod(cells.astype(np.int64), axis=0)  # too many bits for a double: two halves
    high, low = whole >> _HIGH, whole & ((1 << _HIGH) - 1)
    return (_add_up(high, codes, count) << _HIGH) + _add_up(low, codes, count)


def column_sums(cells: FloatArray, bits: int) -> Integers:
    """Sums of columns of integers of at most ``2**bits`` in size, shape (columns, rows).

    >>> column_sums(np.array([[3.0, -2, 4], [1, 2, 2]]), bits=2)
    array([5, 5])
    """
    fits = bits + cells.shape[1].bit_length() <= _EXACT
    return (cells if fits else cells.astype(np.int64)).sum(axis=1).astype(np.int64)


def _add_up(values: NDArray[Any], codes: Integers | None, count: int) -> Integers:
    if codes is None:
        return values.sum(keepdims=True).astype(np.int64)
    return np.bincount(codes, weights=values, minlength=count).astype(np.int64)


class Totals:
    """Running sums of integer vectors that cannot overflow.

    int64 entries are added as ``2**32 * high + low``, which holds for 2**31 vectors; Python
    integers are added as they are.

    Examples
    --------
    >>> totals = Totals(2)
    >>> for _ in range(3):
    ...     totals.add(np.array([2**62, -1]))
    >>> totals.values() == [3 * 2**62, -3]
    True
    """

    def __init__(self, width: int) -> None:
        self._width = width
        self._high = np.zeros(width, dtype=np.int64)
        self._low = np.zeros(width, dtype=np.int64)
        self._large: list[int] | None = None

    def add(self, vector: ArrayLike) -> None:
        """Add one vector; the shape and the type are checked, never the entries."""
        entries = checked_entries(vector, self._width)
        if entries.dtype.kind == "O" or entries.dtype == np.uint64:
            before = self._large or [0] * self._width
            self._large = [a + int(b) for a, b in zip(before, entries, strict=True)]
            return
        wide = entries.astype(np.int64)
        self._high += wide >> 32
        self._low += wide & 0xFFFFFFFF

    def values(self) -> list[int]:
        """The sums."""
        if self._fits():  # long vectors of counts, at once
            sums: list[int] = ((self._high << 32) + self._low).tolist()
            return sums
        return [
            (high << 32) + low + large
            for high, low, large in zip(
                self._high.tolist(),
                self._low.tolist(),
                self._large or [0] * self._width,
                strict=True,
            )
        ]

    def _fits(self) -> bool:
        """Whether all sums are int64 entries that int64 holds."""
        high = int(max(self._high.max(initial=0), -self._high.min(initial=0)))
        return self._large is None and high < 1 << 30 and int(self._low.max(initial=0)) < 1 << 62


def rows_that_fit(bits: int, degree: int, most: int) -> int:
    """Rows of a block whose sums of products of ``degree`` cells, times 4, are at most 2**62.

    >>> rows_that_fit(16, 2, 65536), rows_that_fit(26, 2, 65536)
    (65536, 256)
    """
    room = MOST_SUM_BITS - degree * bits
    if room < 0:
        fail(
            f"Products of {degree} cells of {bits} bits do not fit 64 bits: "
            f"state a schema with `bits` at most {MOST_SUM_BITS // degree}."
        )
    return min(most, 1 << room)


@contextmanager
def one_blas_thread() -> Iterator[None]:
    """Keep linear algebra on one thread, if ``threadpoolctl`` is installed: blocks are small."""
    pools = _thread_pools()
    with nullcontext() if pools is None else pools.limit(limits=1, user_api="blas"):
        yield


@cache
def _thread_pools() -> Any:
    """The thread pools of the process, found once: the search takes longer than a small sum."""
    try:
        from threadpoolctl import ThreadpoolController
    except ImportError:
        return None
    return ThreadpoolController()
