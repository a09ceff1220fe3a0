"""One pass over a table of any engine, to exact integers.

Rows pass through the schema's clamp and grid where they are first seen, and only integers go on:
the same ones on numpy, pandas, polars, pyarrow, DuckDB, Spark, Parquet and CSV, in any order of the
rows and any size of the blocks. What can go wrong depends on the schema, on names and on types,
never on cells; if an engine fails in the middle of a scan, its words are withheld, because they
quote cells. Nothing here adds noise: sums are **not private**.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from tightdp.accepted import TableLike
from tightdp.data.blocks import (
    Block,
    Reducer,
    exact_gram,
    one_blas_thread,
)
from tightdp.data.engines import Engine
from tightdp.data.scan import Scan, SharedReducer, SharedScan, sum_blocks
from tightdp.data.shared_pass import Counted, IntegerSum, SharedTable
from tightdp.data.spark import SparkTable
from tightdp.data.table import Table, guard
from tightdp.errors import Integers, check_count, fail, warn_of_fact
from tightdp.privacy import Neighbors
from tightdp.progress import progress_bar, standing_line
from tightdp.schema import Schema

__all__ = [
    "BLOCK_ROWS",
    "Block",
    "blocks",
    "check_frame",
    "check_public_rows",
    "check_read_again",
    "exact_gram",
    "integer_sums",
    "quantized_matrix",
    "scan_sums",
    "share_pass",
]

BLOCK_ROWS = 65_536

T = TypeVar("T")


def check_frame(frame: TableLike, schema: Schema, columns: Sequence[str]) -> None:
    """Raise if the table lacks a column or has one of a type that cannot be read; reads no row.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"income": Interval(0, 1e5)}, rows=3)
    >>> check_frame({"incom": np.zeros(3)}, schema, ["income"])
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The table has no column 'income'. Did you mean 'incom'?
    """
    Table.open(frame, schema).columns(schema, columns)


def check_public_rows(frame: TableLike, schema: Schema) -> None:
    """Raise if the number of rows is public, known without reading one, and not what was said.

    Under replace-one neighbours sums and means rely on it. Where the engine would have to read the
    table to count (CSV, lazy frames, relations, Spark), the rows are counted in the one pass, and a
    :class:`~tightdp.PublicFactWarning` says afterwards that the number is another.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> check_public_rows({"x": np.zeros(3)}, Schema({"x": Interval(0, 1)}, rows=4))
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The table has 3 rows and the schema says 4. ...
    """
    if schema.neighbors is not Neighbors.REPLACE_ONE:
        return
    rows = guard(Table.open(frame, schema).engine(schema).known_rows)
    if rows is not None and rows != schema.rows:
        fail(_other_rows(rows, schema))


def check_read_again(frame: TableLike, schema: Schema, times: int) -> None:
    """Raise if the rows can be read once only and are wanted more often; reads no row.

    Examples
    --------
    >>> import pyarrow as pa
    >>> from tightdp.schema import Interval
    >>> reader = pa.table({"x": [1.0]}).to_reader()
    >>> check_read_again(reader, Schema({"x": Interval(0, 1)}, rows=1), times=2)
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The table is a stream, which can be read once, and ...
    """
    if times > 1 and Table.open(frame, schema).engine(schema).once:
        fail(
            f"The table is a stream, which can be read once, and this release reads it {times} "
            "times: pass a table, such as `reader.read_all()`."
        )


def _other_rows(rows: int, schema: Schema) -> str:
    return (
        f"The table has {rows} rows and the schema says {schema.rows}. Under replace-one "
        "neighbours the number of rows is a public fact that sums and means rely on: correct "
        "`rows`, or use neighbors='add-remove' if it is private."
    )


def _warn_of_rows(rows: int, engine: Engine, schema: Schema) -> None:
    """Say after the pass what could not be known before; under replace-one it is public."""
    public = schema.neighbors is Neighbors.REPLACE_ONE
    if public and rows != schema.rows and guard(engine.known_rows) is None:
        warn_of_fact(_other_rows(rows, schema))


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
    scan = Scan(schema, names, block_rows)
    return _watched(_counted(_guarded(_blocks(engine, scan)), engine, schema), scan, progress)


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
    table = Table.open(frame, schema)
    wanted = IntegerSum(schema, tuple(columns), reducer, width, degree, cell_bits)
    stored = table.take(reducer, progress) if isinstance(table, SharedTable) else None
    sums, rows = _read_together(table, [wanted], progress)[0] if stored is None else stored
    _warn_of_rows(rows, table.engine(schema), schema)
    return sums


def share_pass(frame: TableLike, schema: Schema, sums: Sequence[IntegerSum]) -> SharedTable:
    """The table, to be read once for all these sums; use it in a ``with`` block.

    Sums share a reading of the rows if they agree on the persons and on the grid of the schema.
    See :class:`~tightdp.data.shared_pass.SharedTable`.
    """
    return SharedTable(Table.open(frame, schema), sums, _read_together)


def _read_together(table: Table, sums: Sequence[IntegerSum], progress: bool) -> list[Counted]:
    """All sums, each with the number of rows; integers are the same whatever shares a pass."""
    engines = [table.engine(one.schema) for one in sums]  # one, except of a matrix
    alike: dict[tuple[Any, ...], list[int]] = {}
    for j, (one, engine) in enumerate(zip(sums, engines, strict=True)):
        facts = one.schema
        about = facts.person, facts.rows_per_person, facts.bits, facts.neighbors, facts.rows
        alike.setdefault((id(engine), *about), []).append(j)
    found: dict[int, Counted] = {}
    for places in alike.values():
        found |= zip(places, _one_pass(table, [sums[j] for j in places], progress), strict=True)
    return [found[j] for j in range(len(sums))]


def _one_pass(table: Table, sums: Sequence[IntegerSum], progress: bool) -> list[Counted]:
    opened = [table.columns(one.schema, one.columns) for one in sums]
    engine = opened[0][0]
    scans = [one.scan(names, BLOCK_ROWS) for one, (_, names) in zip(sums, opened, strict=True)]
    reducers, widths = [one.reducer for one in sums], [one.width for one in sums]
    if len(sums) == 1:
        *found, rows = _sums(engine, scans[0], reducers[0], widths[0], progress)
        return [(found, rows)]
    reducer = SharedReducer(tuple(reducers), tuple(widths))
    *found, rows = _sums(engine, SharedScan.of(scans), reducer, sum(widths), progress)
    ends = list(itertools.accumulate(widths))
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
    watched = _watched(_blocks(engine, scan), scan, progress)
    with one_blas_thread():
        return guard(lambda: sum_blocks(watched, reducer, width))


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
    return np.concatenate([np.empty((0, len(columns)), dtype=np.int64), *parts])


def _blocks(engine: Engine, scan: Scan) -> Iterator[Block]:
    """All blocks; a generator, because some engines start to read when asked for chunks."""
    if isinstance(engine, SparkTable):
        yield from engine.blocks(scan)
    else:
        yield from scan.blocks(engine.chunks(scan.wanted, scan.rows))


# --- what may be said of a failure, and of progress ----------------------------------------------


def _guarded(parts: Iterator[T]) -> Iterator[T]:
    end = object()
    while True:
        part = guard(lambda: next(parts, end))
        if part is end:
            return
        yield part  # type: ignore[misc]


def _counted(parts: Iterator[Block], engine: Engine, schema: Schema) -> Iterator[Block]:
    rows = 0
    for part in parts:
        rows += len(part)
        yield part
    _warn_of_rows(rows, engine, schema)


def _watched(parts: Iterator[Block], scan: Scan, progress: bool) -> Iterator[Block]:
    """The same blocks, with a bar of the rows where their number is public.

    Where it is private, a line stands still: whatever moves with the rows tells how many there are.
    """
    schema = scan.schema
    if schema.neighbors is not Neighbors.REPLACE_ONE:
        with standing_line("reading the table", show=progress):
            yield from parts
        return
    left = schema.rows
    with progress_bar(left, "rows", show=progress) as advance:
        for part in parts:
            yield part
            step = min(left, len(part))
            advance(step)
            left -= step
        advance(left)  # it always ends full
