"""One pass over a table of any engine, to exact integers.

Rows pass through the schema's clamp and grid where they are first seen, and only integers go on:
the same ones on numpy, pandas, polars, pyarrow, DuckDB, Spark, Parquet and CSV, in any order of the
rows and any size of the blocks. What can go wrong depends on the schema, on names and on types,
never on cells; if an engine fails in the middle of a scan, its words are withheld, because they
quote cells. Nothing here adds noise: sums are **not private**.
"""

from __future__ import annotations

import difflib
from collections.abc import Callable, Iterator, Sequence
from typing import Any, TypeVar

import numpy as np

from tightdp.data.blocks import (
    Block,
    Reducer,
    exact_gram,
    one_blas_thread,
    rows_that_fit,
)
from tightdp.data.engines import CsvTable, Table, recognise
from tightdp.data.scan import Scan, sum_blocks
from tightdp.data.sources import looks_like_data
from tightdp.data.spark import SparkTable
from tightdp.errors import DataError, Integers, TightdpError, check_count, fail, warn_of_fact
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
]

BLOCK_ROWS = 65_536
_BLOCK_CELLS = 1 << 20  # blocks of wide tables are shorter

T = TypeVar("T")


def check_frame(frame: Any, schema: Schema, columns: Sequence[str]) -> None:
    """Raise if the table lacks a column or has one of a type that cannot be read; reads no row.

    Examples
    --------
    >>> from tightdp.schema import Interval
    >>> schema = Schema({"income": Interval(0, 1e5)}, rows=3)
    >>> check_frame({"incom": np.zeros(3)}, schema, ["income"])
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The table has no column 'income'. Did you mean 'incom'?
    """
    _open(frame, schema, columns)


def check_public_rows(frame: Any, schema: Schema) -> None:
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
    rows = _guard(lambda: _recognise(frame, schema).known_rows())
    if rows is not None and rows != schema.rows:
        fail(_other_rows(rows, schema))


def check_read_again(frame: Any, schema: Schema, times: int) -> None:
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
    if times > 1 and _guard(lambda: _recognise(frame, schema)).once:
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


def _warn_of_rows(rows: int, table: Table, schema: Schema) -> None:
    """Say after the pass what could not be known before; under replace-one it is public."""
    public = schema.neighbors is Neighbors.REPLACE_ONE
    if public and rows != schema.rows and _guard(table.known_rows) is None:
        warn_of_fact(_other_rows(rows, schema))


def blocks(
    frame: Any,
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
    table, names = _open(frame, schema, columns)
    scan = Scan(schema, names, block_rows)
    return _watched(_counted(_guarded(_blocks(table, scan)), table, schema), scan, progress)


def integer_sums(
    frame: Any,
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
    check_count("width", width)
    check_count("degree", degree, least=0)
    table, names = _open(frame, schema, columns)
    most = max(1, min(BLOCK_ROWS, _BLOCK_CELLS // len(names)))
    bits = schema.bits if cell_bits is None else cell_bits
    scan = Scan(schema, names, rows_that_fit(bits, degree, most))
    *sums, rows = _sums(table, scan, reducer, width, progress)
    _warn_of_rows(rows, table, schema)
    return sums


def scan_sums(
    frame: Any, scan: Scan, reducer: Reducer, width: int, *, progress: bool = False
) -> list[int]:
    """The same for a scan of one's own, which may make other blocks of the cells than quantised
    rows; the number of rows in its blocks comes last."""
    table, _ = _open(frame, scan.schema, scan.names)
    return _sums(table, scan, reducer, width, progress)


def _sums(table: Table, scan: Scan, reducer: Reducer, width: int, progress: bool) -> list[int]:
    if isinstance(table, SparkTable):
        return _guard(lambda: table.sums(scan, reducer, width))
    watched = _watched(_blocks(table, scan), scan, progress)
    with one_blas_thread():
        return _guard(lambda: sum_blocks(watched, reducer, width))


def quantized_matrix(
    frame: Any, schema: Schema, columns: Sequence[str], *, progress: bool = False
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


# --- opening -------------------------------------------------------------------------------------


def _open(frame: Any, schema: Schema, columns: Sequence[str]) -> tuple[Table, tuple[str, ...]]:
    """The table and the columns to read, after all checks that need no row."""
    if not isinstance(schema, Schema):
        fail(f"`schema` must be a Schema. Got {type(schema).__name__}.")
    if isinstance(columns, str) or not list(columns):
        fail("`columns` must be a non-empty list of names.")
    names = tuple(dict.fromkeys(columns))
    schema.select(names)
    table = _guard(lambda: _recognise(frame, schema))
    present = _guard(table.names)
    for name in Scan(schema, names, 1).wanted:
        _check_present(name, present, in_words=not isinstance(table, CsvTable))
        if table.caseless:
            _check_case(name, present)
        kind = _guard(lambda name=name: table.unreadable(name))  # type: ignore[misc]
        if kind is not None:
            fail(
                f"Column {name!r} has the type {kind}, which is neither numeric nor text: "
                "convert it to a number or to text first."
            )
    _guard(table.check_ready)
    return table, names


def _recognise(frame: Any, schema: Schema) -> Table:
    homes = [base.__module__ for base in type(frame).mro() if base.__name__ == "DataFrame"]
    if any(home.startswith("pyspark.pandas") for home in homes):
        frame = frame.to_spark()
    elif not any(home.startswith("pyspark.sql") for home in homes):
        return recognise(frame, schema)
    return SparkTable(frame)


def _check_present(name: str, present: Sequence[Any], *, in_words: bool) -> None:
    """Raise unless the column is there once; names that may be a record are not put in words."""
    found = sum(1 for other in present if isinstance(other, str) and other == name)
    if found == 1:
        return
    if found:
        fail(f"The table has {found} columns named {name!r}: rename them.")
    # a file without a header has a record there, which no error may quote
    texts = [other for other in present if isinstance(other, str) and not looks_like_data(other)]
    if not in_words:
        texts = [other for other in texts if other.casefold() == name.casefold()]
    near = difflib.get_close_matches(name, texts, n=1, cutoff=0.6 if in_words else 0)
    hint = f" Did you mean {near[0]!r}?" if near else ""
    fail(f"The table has no column {name!r}.{hint}")


def _check_case(name: str, present: Sequence[str]) -> None:
    if sum(other.casefold() == name.casefold() for other in present) > 1:
        fail(
            f"The table has another column whose name differs from {name!r} in its case only, "
            "and its engine takes the two for one: rename one."
        )


def _blocks(table: Table, scan: Scan) -> Iterator[Block]:
    """All blocks; a generator, because some engines start to read when asked for chunks."""
    if isinstance(table, SparkTable):
        yield from table.blocks(scan)
    else:
        yield from scan.blocks(table.chunks(scan.wanted, scan.rows))


# --- what may be said of a failure, and of progress ----------------------------------------------


def _guard(step: Callable[[], T]) -> T:
    """Do a step of an engine; if it fails, say that it failed and nothing else.

    The error is raised outside the handler, so that the engine's exception, with the cells that it
    may quote, is not even its context.
    """
    known: TightdpError | None = None
    try:
        with np.errstate(all="ignore"):  # whatever is set, no cell is worth a warning
            return step()
    except (KeyboardInterrupt, SystemExit):
        raise
    except TightdpError as error:
        known = type(error)(*error.args)
    except BaseException:  # polars panics outside Exception
        pass
    if known is not None:
        raise known
    raise DataError(
        "The table could not be read to its end. What the engine said is withheld, because it may "
        "quote cells: read the table with the engine itself. On Spark, check that PYSPARK_PYTHON "
        "names an interpreter that has this package, and that the statistic can be pickled."
    )


def _guarded(parts: Iterator[T]) -> Iterator[T]:
    end = object()
    while True:
        part = _guard(lambda: next(parts, end))
        if part is end:
            return
        yield part  # type: ignore[misc]


def _counted(parts: Iterator[Block], table: Table, schema: Schema) -> Iterator[Block]:
    rows = 0
    for part in parts:
        rows += len(part)
        yield part
    _warn_of_rows(rows, table, schema)


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
