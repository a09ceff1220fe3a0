"""One pass over a table of any engine, to exact integers.

Rows pass through the schema's clamp and grid where they are first seen, and only integers go on:
the same ones on numpy, pandas, polars, pyarrow, DuckDB, Spark, Parquet and CSV, in any order of the
rows and any size of the blocks. Several sums that are announced can share a pass. If an engine
fails in the middle of a scan, its words are withheld, because they quote cells. Nothing here adds
noise: sums are **not private**.
"""

from __future__ import annotations

import itertools
import os
import threading
from collections import deque
from collections.abc import Callable, Iterator, Sequence, Sized
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass
from typing import Any, Self, TypeVar

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import TableLike
from tightdp.data.blocks import (
    Block,
    Reduced,
    Reducer,
    Scan,
    SharedReducer,
    one_blas_thread,
    rows_that_fit,
    sum_reduced,
)
from tightdp.data.columns import Engine, Part
from tightdp.data.engine_groups import answer_inside
from tightdp.data.group_queries import GroupQuery
from tightdp.data.persons import GONE
from tightdp.data.spark import SparkTable
from tightdp.data.table import UNREAD, Table, guard, other_rows
from tightdp.errors import DataError, Integers, check_count, fail, warn_of_fact
from tightdp.privacy import Neighbors
from tightdp.progress import progress_bar, standing_line
from tightdp.schema import Schema

BLOCK_ROWS = 65_536
BLOCK_CELLS = 1 << 20  # blocks of wide tables are shorter

_FEW_PARTS = 3

P = TypeVar("P")
S = TypeVar("S", bound=Sized)
T = TypeVar("T")
Counted = tuple[list[int], int]  # the sums, and the number of rows


@dataclass(frozen=True, slots=True, eq=False)
class IntegerSum:
    """A sum over all rows of what a reducer makes of blocks of them; see :func:`integer_sums`.

    Attributes
    ----------
    schema : Schema
        The rules by which rows are read.
    columns : tuple of str
    reducer : callable
        Block to ``width`` integers, additive over rows.
    width : int
    degree : int
        How many cells the reducer multiplies at most.
    cell_bits : int, optional
        The size of the integers that it multiplies, if not that of the schema's grid.
    mark : int, optional
        Sums that are announced one after the other with one mark keep the same rows of a person.
    query : GroupQuery, optional
        The same sum as counts and sums by group, for engines that can do that themselves.
    """

    schema: Schema
    columns: tuple[str, ...]
    reducer: Reducer
    width: int
    degree: int = 2
    cell_bits: int | None = None
    mark: int | None = None
    query: GroupQuery | None = None

    def read(self, frame: TableLike, *, progress: bool = False) -> list[int]:
        """The sum over a table; one that shares a pass reads its rows once for all its sums."""
        table = Table.open(frame, self.schema)
        shared = table.take(self.reducer, progress) if isinstance(table, SharedTable) else None
        sums, rows = _one_pass(table, [self], progress)[0] if shared is None else shared
        warn_of_rows(rows, table.engine(self.schema), self.schema)
        return sums

    def block_rows(self) -> int:
        """Rows of a block in which no sum wraps."""
        check_count("width", self.width)
        check_count("degree", self.degree, least=0)
        rows = max(1, min(BLOCK_ROWS, BLOCK_CELLS // len(set(self.columns))))
        bits = self.schema.bits if self.cell_bits is None else self.cell_bits
        return rows_that_fit(bits, self.degree, rows)


class SharedTable(Table):
    """A table whose rows are read once for all sums that were announced. **Not private.**

    The first sum that is asked for reads the rows for all; what the reading of rows could not give
    is not tried again. What is not announced is read on its own. The sums are forgotten at the end
    of the ``with`` block. Several threads may ask.

    Examples
    --------
    >>> import numpy as np
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(-1, 1)}, rows=2, bits=4)
    >>> count, add = (lambda block: np.array([len(block)])), (lambda block: block.matrix().sum(0))
    >>> sums = [IntegerSum(schema, ("x",), reducer, width=1) for reducer in (count, add)]
    >>> with share_pass({"x": [0.5, 1]}, schema, sums) as table:
    ...     [integer_sums(table, schema, ["x"], reducer, width=1) for reducer in (add, count)]
    [[24], [2]]
    """

    __slots__ = ("_asked", "_found", "_lock", "_sums")

    def __init__(self, table: Table, sums: Sequence[IntegerSum]) -> None:
        self.frame, self._engine, self._places = table.frame, table._engine, table._places
        self._checked, self._sums = table._checked, tuple(sums)
        self._found: list[Counted] | None = None
        self._asked = False
        self._lock = threading.Lock()

    def take(self, reducer: Reducer, progress: bool) -> Counted | None:
        """The sums of an announced reducer; None of another."""
        place = next((j for j, one in enumerate(self._sums) if one.reducer == reducer), None)
        if place is None:
            return None
        with self._lock:
            if not self._asked:
                self._asked = True
                self._found = _read_together(self, self._sums, progress)
            if self._found is None:
                fail(UNREAD, DataError)
            sums, rows = self._found[place]
            return list(sums), rows

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *raised: object) -> None:
        with self._lock:
            self._asked, self._found = True, None


def blocks(
    frame: TableLike,
    schema: Schema,
    columns: Sequence[str],
    *,
    block_rows: int = BLOCK_ROWS,
    progress: bool = False,
) -> Iterator[Block]:
    """The quantised rows of a table, a block at a time.

    Parameters
    ----------
    frame : table
        A numpy matrix with the columns of the schema, a structured array or mapping of arrays, a
        pandas, polars (eager or lazy) or Spark frame, a pyarrow table, dataset or reader, a DuckDB
        relation, or the path of a Parquet file, of a folder of them, a pattern such as
        ``"folder/*.parquet"``, or the path of a CSV file.
    schema : Schema
    columns : sequence of str
        The columns to read.
    block_rows : int
        At most so many rows in a block.
    progress : bool
        Show a bar of the rows, where ``tqdm`` is installed; where their number is private, a line
        that stands still.

    Yields
    ------
    Block
        Grid integers in ``[-2**bits, 2**bits]`` of intervals, level codes of categories.

    Examples
    --------
    >>> from tightdp.schema import Category, Interval
    >>> schema = Schema({"x": Interval(0, 8), "k": Category(["a", "b"], other="a")}, rows=3, bits=2)
    >>> table = {"x": np.array([1.0, np.nan, 1e9]), "k": ["b", None, "a"]}
    >>> [(block["x"].tolist(), block["k"].tolist()) for block in blocks(table, schema, ["x", "k"])]
    [([-3, 0, 4], [1, 0, 0])]
    """
    check_count("block_rows", block_rows)
    engine, names = Table.open(frame, schema).columns(schema, columns)
    scan = Scan.of([(schema, names)], block_rows)
    found = _watched(_counted(_guarded(_blocks(engine, scan)), engine, schema), scan, progress)
    return map(complete, found) if schema.drops else found


def integer_sums(
    frame: TableLike,
    schema: Schema,
    columns: Sequence[str],
    reducer: Reducer,
    *,
    width: int,
    degree: int = 2,
    cell_bits: int | None = None,
    progress: bool = False,
) -> list[int]:
    """The sum over all blocks of ``reducer(block)``, in one pass; on Spark, inside the workers.

    Blocks are so small that sums of products of ``degree`` cells, even times 4, cannot overflow
    int64 (``4 * rows * 2**(degree * bits) <= 2**62``); totals are Python integers.

    Parameters
    ----------
    frame, schema, columns, progress :
        As for :func:`blocks`. Spark shows no bar.
    reducer : callable
        Block to ``width`` integers, additive over rows; for Spark it must be picklable.
    width : int
    degree : int
        How many cells the reducer multiplies at most.
    cell_bits : int, optional
        The size of the integers that it multiplies, if not that of the schema's grid.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(-1, 1)}, rows=4, bits=4)
    >>> integer_sums(
    ...     np.array([[0.5], [0.25], [7.0], [np.nan]]), schema, ["x"],
    ...     lambda block: np.array([block["x"].sum(), len(block)]), width=2,
    ... )
    [28, 4]
    """
    wanted = IntegerSum(schema, tuple(columns), reducer, width, degree, cell_bits)
    return wanted.read(frame, progress=progress)


def share_pass(frame: TableLike, schema: Schema, sums: Sequence[IntegerSum]) -> SharedTable:
    """The table, to be read once for all these sums; use it in a ``with`` block.

    Sums share a reading of the rows if they agree on the persons and on the grid of the schema.
    """
    return SharedTable(Table.open(frame, schema), sums)


def _read_together(table: Table, sums: Sequence[IntegerSum], progress: bool) -> list[Counted]:
    """All sums, each with the number of rows; integers are the same whatever shares a pass."""
    engines = [table.engine(one.schema) for one in sums]  # one, except of a matrix
    alike: dict[tuple[Any, ...], list[int]] = {}
    for j, (one, engine) in enumerate(zip(sums, engines, strict=True)):
        facts = one.schema
        about = (
            facts.person,
            facts.rows_used,
            facts.averages,
            facts.bits,
            facts.neighbors,
            facts.rows,
            j if facts.row_units > 1 else None,  # how often a row counts is one sum's own
        )
        alike.setdefault((id(engine), *about), []).append(j)
    found: dict[int, Counted] = {}
    for places in alike.values():
        found |= zip(places, _one_pass(table, [sums[j] for j in places], progress), strict=True)
    return [found[j] for j in range(len(sums))]


def _one_pass(table: Table, sums: Sequence[IntegerSum], progress: bool) -> list[Counted]:
    opened = [table.columns(one.schema, one.columns) for one in sums]
    engine, alone = opened[0][0], len(sums) == 1
    asked = alone and engine.adds_up
    inside = answer_inside(engine, sums[0].schema, sums[0].query) if asked else None
    if inside is not None:
        with standing_line("reading the table", show=progress):  # the engine says nothing
            answer = guard(inside)
        if answer is not None:
            return [answer]
    parts = [(one.schema, names) for one, (_, names) in zip(sums, opened, strict=True)]
    marks = [one.mark for one in sums]
    scan = Scan.of(parts, min(one.block_rows() for one in sums), marks)
    widths = tuple(one.width for one in sums)
    reducers = tuple(on_rows_of(one.schema, one.reducer) for one in sums)
    reducer = reducers[0] if alone else SharedReducer(scan.parts, reducers, widths)
    *found, rows = _sums(engine, scan, reducer, sum(widths), progress)
    ends = itertools.accumulate(widths)
    return [(found[end - width : end], rows) for end, width in zip(ends, widths, strict=True)]


def scan_sums(
    frame: TableLike, scan: Scan, reducer: Reducer, width: int, *, progress: bool = False
) -> list[int]:
    """The same for a scan of one's own, which may make other blocks of the cells than quantised
    rows; the number of rows in its blocks comes last."""
    engine, _ = Table.open(frame, scan.schema).columns(scan.schema, scan.names)
    return _sums(engine, scan, reducer, width, progress)


def _sums(engine: Engine, scan: Scan, reducer: Reducer, width: int, progress: bool) -> list[int]:
    if isinstance(engine, SparkTable):
        return guard(lambda: engine.sums(scan, reducer, width))
    watched = _watched(_reduced(engine, scan, reducer), scan, progress)
    with one_blas_thread():
        return guard(lambda: sum_reduced(watched, width))


def _reduced(engine: Engine, scan: Scan, reducer: Reducer) -> Iterator[Reduced]:
    """What becomes of all rows. Which rows of a person count is known at the end; others need not
    wait for each other, and sums do not depend on who was first."""
    if scan.schema.person is not None:
        yield from (Reduced(block, reducer) for block in _blocks(engine, scan))
        return

    def read(part: Part) -> list[Reduced]:
        with np.errstate(all="ignore"):  # every thread has its own
            return [Reduced(block, reducer) for block in scan.blocks(part())]

    threads = _cores() - engine.reads_ahead
    for found in _in_threads(read, engine.parts(scan.wanted, scan.rows), threads):
        yield from found


def _cores() -> int:
    """The cores that this process may use."""
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 1


def _in_threads(work: Callable[[P], T], parts: Iterator[P], threads: int) -> Iterator[T]:
    """The results of some work in order, by so many threads; few parts are not worth one."""
    yield from map(work, parts if threads < 2 else itertools.islice(parts, _FEW_PARTS))
    further = next(parts, None)
    if further is None:
        return
    waiting: deque[Future[T]] = deque()
    with ThreadPoolExecutor(threads) as pool:
        try:
            for part in itertools.chain([further], parts):
                waiting.append(pool.submit(work, part))
                if len(waiting) > 2 * threads:  # memory stays that of a few parts
                    yield waiting.popleft().result()
            while waiting:
                yield waiting.popleft().result()
        finally:
            for future in waiting:
                future.cancel()


def quantized_matrix(
    frame: TableLike, schema: Schema, columns: Sequence[str], *, progress: bool = False
) -> Integers:
    """All quantised rows at once, shape (n, d), for methods that visit rows many times.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(0, 1), "y": Interval(0, 2)}, rows=2, bits=3)
    >>> quantized_matrix(np.array([[0.0, 1.0], [1.0, 2.0]]), schema, ["y", "x"])
    array([[ 0, -8],
           [ 8,  8]])
    """
    parts = [block.matrix(columns) for block in blocks(frame, schema, columns, progress=progress)]
    return _stacked(parts, len(columns))


def _stacked(parts: Sequence[Integers], width: int) -> Integers:
    """There may be none, of an empty table."""
    return np.concatenate([np.empty((0, width), dtype=np.int64), *parts])


class KeptRows:
    """Quantised rows that were read once and are held in memory. **Not private.**

    For sums of which the next depends on what became public of the one before: all are sums of the
    same rows, whatever the table was read from and whatever becomes of it meanwhile.

    Parameters
    ----------
    frame : table
    wanted : sequence of IntegerSum
        Of the same columns by the same rules; what their reducers are does not matter yet.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"x": Interval(0, 1)}, rows=2, bits=3)
    >>> count = IntegerSum(schema, ("x",), lambda block: np.array([len(block)]), width=1)
    >>> KeptRows({"x": [0.0, 1.0]}, [count]).sum(count)
    [2]
    """

    def __init__(
        self, frame: TableLike, wanted: Sequence[IntegerSum], *, progress: bool = False
    ) -> None:
        first = wanted[0]
        rows = min(one.block_rows() for one in wanted)  # no sum wraps
        found = blocks(frame, first.schema, first.columns, block_rows=rows, progress=progress)
        self._blocks = list(found)

    def matrix(self, columns: Sequence[str]) -> Integers:
        """All rows, shape (n, d)."""
        return _stacked([block.matrix(columns) for block in self._blocks], len(columns))

    def sum(self, wanted: IntegerSum) -> list[int]:
        """The sum over all rows."""
        with one_blas_thread(), np.errstate(all="ignore"):
            parts = (Reduced(block, wanted.reducer) for block in self._blocks)
            return sum_reduced(parts, wanted.width)[:-1]


def _blocks(engine: Engine, scan: Scan) -> Iterator[Block]:
    """All blocks; a generator, because some engines start to read when asked for chunks."""
    if isinstance(engine, SparkTable):
        yield from engine.blocks(scan)
    else:
        yield from scan.blocks(engine.chunks(scan.wanted, scan.rows))


# --- rows that count ----------------------------------------------------------------------------
# A scan marks the missing cells of `CompleteRows`; the rows that have one are left out here, after
# the blocks and before a statistic sees them. Blocks keep their number of rows, so that what is
# public of a table, and said of it, does not change.


def complete(block: Block) -> Block:
    """The rows of a block in which every cell is there.

    >>> complete(Block({"x": np.array([3, GONE, 5]), "k": np.array([0, 1, 1])})).matrix().tolist()
    [[3, 0], [5, 1]]
    """
    cells = block.doubles(block.names)
    there = (cells != GONE).all(axis=0)
    return block if there.all() else Block.of_columns(block.names, cells[:, there], block.times)


@dataclass(frozen=True)
class OfCompleteRows:
    """What a reducer makes of the complete rows of a block; it can be sent to workers."""

    reducer: Reducer

    def __call__(self, block: Block) -> NDArray[Any]:
        return self.reducer(complete(block))


def on_rows_of(schema: Schema, reducer: Reducer) -> Reducer:
    """The reducer, on those rows that the facts say count.

    Means of persons may stand beside more means, of persons in groups: the rest are missing.
    """
    return OfCompleteRows(reducer) if schema.drops or schema.averages else reducer


# --- what may be said of a failure, of rows and of progress ---------------------------------------


def _guarded(parts: Iterator[T]) -> Iterator[T]:
    end = object()
    while True:
        part = guard(lambda: next(parts, end))
        if part is end:
            return
        yield part  # type: ignore[misc]


def warn_of_rows(rows: int, engine: Engine, schema: Schema) -> None:
    """Say after the pass what could not be known before; under replace-one it is public."""
    public = schema.neighbors is Neighbors.REPLACE_ONE
    if public and rows != schema.rows and guard(engine.known_rows) is None:
        warn_of_fact(other_rows(rows, schema))


def _counted(parts: Iterator[Block], engine: Engine, schema: Schema) -> Iterator[Block]:
    rows = 0
    for part in parts:
        rows += len(part)
        yield part
    warn_of_rows(rows, engine, schema)


def _watched(parts: Iterator[S], scan: Scan, progress: bool) -> Iterator[S]:
    """The same parts, with a bar of the rows where their number is public.

    Where it is private, a line stands still: whatever moves with the rows tells how many there are.
    """
    if not progress:
        yield from parts
        return
    schema = scan.schema
    if schema.neighbors is not Neighbors.REPLACE_ONE:
        with standing_line("reading the table", show=True):
            yield from parts
        return
    left = schema.rows
    with progress_bar(left, "rows", show=True) as advance:
        for part in parts:
            yield part
            step = min(left, len(part))
            advance(step)
            left -= step
        advance(left)  # it always ends full
