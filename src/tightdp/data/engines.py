"""One thin adaptor per engine: names, types and chunks of cells of a table.

A table is recognised by the modules of its class, so that no library is imported that is not
already in use. Types are checked before anything is read; nothing here looks at a cell.
"""

from __future__ import annotations

import glob
import operator
from abc import ABC, abstractmethod
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import TableLike
from tightdp.data.arrow import batch_cells, pyarrow, unreadable_type
from tightdp.data.cells import Cells, ListedCells
from tightdp.data.columns import (
    Column,
    libraries,
    open_column,
    unreadable_polars,
    wide_polars,
)
from tightdp.data.csv_files import CsvFile
from tightdp.data.csv_lines import check_opens, read_names, read_rows
from tightdp.data.streams import opened, reading, unread
from tightdp.errors import DataError, DimensionError, fail, require
from tightdp.paths import check_file, check_path
from tightdp.schema import Schema

Chunk = dict[str, Cells]


class Engine(ABC):
    """A table of some engine.

    ``once`` says that its rows can be read one time only, ``caseless`` that it takes names which
    differ in their case for one.
    """

    once = False
    caseless = False

    @abstractmethod
    def names(self) -> list[Any]:
        """The names of the columns, as the engine has them."""

    @abstractmethod
    def unreadable(self, name: str) -> str | None:
        """The name of the column's type if its cells are neither numbers nor text."""

    @abstractmethod
    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        """The named columns, at most ``rows`` rows at a time, each row once."""

    def known_rows(self) -> int | None:
        """The number of rows, where no row need be read to know it."""
        return None

    def check_ready(self) -> None:
        """Raise if the engine is known not to be able to read, whatever the rows."""
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


class ArrowTable(Engine):
    """Anything that says its Arrow schema and then gives record batches."""

    def __init__(
        self,
        schema: Any,
        scan: Callable[[Sequence[str], int], Iterable[Any]],
        count: Callable[[], int] | None = None,
    ) -> None:
        self._schema, self._scan, self._count = schema, scan, count

    def names(self) -> list[Any]:
        return list(self._schema.names)

    def unreadable(self, name: str) -> str | None:
        return unreadable_type(self._schema.field(name).type)

    def known_rows(self) -> int | None:
        return None if self._count is None else self._count()

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        return batch_cells(self._scan(names, rows), names, rows)


class DatasetTable(ArrowTable):
    """A dataset, whose scanner has columns of its own and stumbles over others of their names."""

    _OWN = frozenset({"__filename", "__fragment_index", "__batch_index", "__last_in_fragment"})

    def __init__(
        self, schema: Any, dataset: Callable[[], Any], count: Callable[[], int] | None = None
    ) -> None:
        super().__init__(
            schema, lambda names, rows: _scan(self._readable(dataset()), names, rows), count
        )

    def _readable(self, dataset: Any) -> Any:
        """Without what would stop the scan, even if nobody asks for it."""
        if not self._OWN & set(dataset.schema.names):
            return dataset
        kept = [field for field in dataset.schema if field.name not in self._OWN]
        return dataset.replace_schema(pyarrow().schema(kept))

    def unreadable(self, name: str) -> str | None:
        if name in self._OWN:
            fail(
                f"Column {name!r} has a name that Arrow keeps for itself in datasets and Parquet "
                "files: rename the column, or pass the rows as a table in memory."
            )
        return super().unreadable(name)


class ReaderTable(ArrowTable):
    """A stream of record batches."""

    once = True


class PolarsTable(Engine):
    """A polars frame, eager or lazy; a lazy one streams."""

    def __init__(self, frame: Any) -> None:
        self._frame = frame
        self._types = dict(frame.collect_schema())

    def names(self) -> list[Any]:
        return list(self._types)

    def unreadable(self, name: str) -> str | None:
        return unreadable_polars(self._types[name])

    def known_rows(self) -> int | None:
        return getattr(self._frame, "height", None)  # lazy frames have none

    def check_ready(self) -> None:
        pyarrow()

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        pl = require("polars", "polars")
        wide = {name for name in names if wide_polars(self._types[name])}
        column = pl.selectors.by_name  # `pl.col` takes some names for patterns
        frame = self._frame.select(
            column(name).cast(pl.String) if name in wide else column(name) for name in names
        )
        if isinstance(frame, pl.LazyFrame):
            parts = frame.collect_batches(chunk_size=rows, engine="streaming")
        else:
            parts = frame.iter_slices(rows)
        for part in parts:
            yield from batch_cells(part.to_arrow().to_batches(), names, rows, wide)


class DuckTable(Engine):
    """A DuckDB relation, read as a stream."""

    caseless = True
    _WHOLE = frozenset({"tinyint", "smallint", "integer", "bigint", "hugeint"})
    _UNSIGNED = frozenset("u" + name for name in _WHOLE)
    _REST = frozenset({"boolean", "float", "double", "decimal", "varchar", "enum", "null"})

    _READERS = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader", "record_batch")

    def __init__(self, relation: Any) -> None:
        self._relation = relation
        self._types = dict(zip(relation.columns, (t.id for t in relation.types), strict=True))

    def names(self) -> list[Any]:
        return list(self._relation.columns)

    def unreadable(self, name: str) -> str | None:
        kind = str(self._types[name])
        return None if kind in self._WHOLE | self._UNSIGNED | self._REST else kind

    def check_ready(self) -> None:
        pyarrow()

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        wanted = self._relation.project(", ".join(self._expression(name) for name in names))
        known = (getattr(wanted, name, None) for name in self._READERS)
        read = next(reader for reader in known if reader is not None)
        return batch_cells(read(rows), names, rows, {name for name in names if self._wide(name)})

    def _wide(self, name: str) -> bool:
        return self._types[name] in ("hugeint", "uhugeint")  # Arrow would get decimals, which round

    def _expression(self, name: str) -> str:
        quoted = '"' + name.replace('"', '""') + '"'
        return f"CAST({quoted} AS VARCHAR) AS {quoted}" if self._wide(name) else quoted


class CsvTable(Engine):
    """A CSV file with a header, or with stated names: every cell is text, "" missing.

    Short lines end in missing cells, and what a line has beyond the header is left out.
    """

    def __init__(self, path: Path, stated: CsvFile | None = None) -> None:
        if stated is not None:
            check_opens(path)
        self._path, self._header = path, read_names(path) if stated is None else [*stated.names]
        self._stated = None if stated is None else (stated.names, stated.delimiter)

    def names(self) -> list[Any]:
        return list(self._header)

    def unreadable(self, name: str) -> str | None:
        return None

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        for part in read_rows(self._path, rows, names, self._stated):
            yield {name: ListedCells([line[j] for line in part]) for j, name in enumerate(names)}


class Stack(Engine):
    """Tables with the same columns, one below the other; a column may have several types."""

    def __init__(self, tables: Sequence[Engine]) -> None:
        self._tables = tables

    def names(self) -> list[Any]:
        each = (Counter(table.names()) for table in self._tables)
        return list(reduce(operator.or_, each).elements())  # twice if twice in one of them

    def unreadable(self, name: str) -> str | None:
        kinds = (table.unreadable(name) for table in self._tables)
        return next((kind for kind in kinds if kind is not None), None)

    def known_rows(self) -> int | None:
        counts = [table.known_rows() for table in self._tables]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        for table in self._tables:
            yield from table.chunks(names, rows)


def recognise(frame: Any, schema: Schema) -> Engine:
    """The table behind whatever the user passed, or a clear error."""
    roots = libraries(frame)
    known = {package for package, _ in roots}
    if "narwhals" in known:
        return recognise(frame.to_native(), schema)
    if isinstance(frame, (str, Path)):
        return _file(Path(frame))
    if isinstance(frame, CsvFile):
        return _file(frame.path, frame)
    if isinstance(frame, np.ndarray):
        return ColumnTable.of_array(frame, schema)
    if isinstance(frame, Mapping) and frame:
        return ColumnTable(frame)
    if ("pandas", "DataFrame") in roots:
        return PandasTable(frame)
    if ("polars", "DataFrame") in roots or ("polars", "LazyFrame") in roots:
        return PolarsTable(frame)
    if ("duckdb", "DuckDBPyRelation") in roots:
        return DuckTable(frame)
    if "pyarrow" in known and not {("pyarrow", "Table"), ("pyarrow", "RecordBatch")} & roots:
        return _arrow_source(frame, roots)
    if hasattr(frame, "__arrow_c_stream__"):
        return _in_memory(_whole(frame)) if "pyarrow" in known else _stream(frame)
    fail(
        "The table must be a numpy array, a mapping of arrays, a pandas, polars, pyarrow or Spark "
        f"frame, a DuckDB relation, or a path. Got {type(frame).__name__}."
    )


def _arrow_source(frame: Any, roots: set[tuple[str, str]]) -> Engine:
    if ("pyarrow", "RecordBatchReader") in roots:
        return _reader(frame)
    if ("pyarrow", "Dataset") in roots:
        return DatasetTable(frame.schema, lambda: frame)
    fail(f"A pyarrow Table, Dataset or RecordBatchReader is needed. Got {type(frame).__name__}.")


def _whole(frame: TableLike) -> Any:
    """A table of pyarrow's own, without a detour on which old versions lose views of texts."""
    table: Any = pyarrow().Table
    return frame if isinstance(frame, table) else table.from_batches([frame])


def _in_memory(table: Any) -> Engine:
    return ArrowTable(
        table.schema,
        lambda names, rows: table.select(list(names)).to_batches(max_chunksize=rows),
        lambda: int(table.num_rows),
    )


def _reader(reader: object) -> Engine:
    """A record batch reader, which can be read once; it is asked nothing but its schema."""
    return ReaderTable(unread(reader).schema, lambda names, rows: reading(reader))


def _stream(frame: TableLike) -> Engine:
    return _reader(opened(frame, pyarrow().RecordBatchReader.from_stream))


def _scan(dataset: Any, names: Sequence[str], rows: int) -> Iterable[Any]:
    """Record batches of a dataset; left to itself, Arrow reads a gigabyte of Parquet ahead."""
    ahead: dict[str, Any] = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
    if getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet":
        options = require("pyarrow.dataset", "pyarrow").ParquetFragmentScanOptions
        ahead["fragment_scan_options"] = options(use_buffered_stream=True, pre_buffer=False)
    return iter(dataset.scanner(columns=list(names), batch_size=rows, **ahead).to_batches())


def _file(path: Path, stated: CsvFile | None = None) -> Engine:
    """A Parquet file or folder through pyarrow, or a CSV file through the standard library."""
    ends = "".join(check_path("frame", path).suffixes[-2:]).lower()
    if not path.exists() and ends.endswith(".parquet") and glob.has_magic(str(path)):
        return _parquet(path, glob.glob(str(path), recursive=True))
    if not path.exists():
        fail(f"There is no file or folder {str(path)!r}.")
    if path.is_dir():
        return _parquet(path, map(str, path.rglob("*.parquet")))
    check_file("frame", path)
    if ends.endswith(".parquet"):
        return _parquet(path, [str(path)])
    if ends.endswith((".csv", ".csv.gz")):
        return CsvTable(path, stated)
    fail(f"A path must end in .parquet, .csv or .csv.gz, or be a folder. Got {path.name!r}.")


def _parquet(path: Path, found: Iterable[str]) -> Engine:
    """Files by their types, for each month may have others: Arrow would cast, and fail on a cell.

    A column that a file lacks is missing there. Memory is that of the largest row group, whatever
    reads it; Arrow is the quickest.
    """
    files = sorted(file for file in found if Path(file).is_file())
    if not files:
        fail(f"There is no Parquet file in {str(path)!r}.")
    alike: dict[Any, list[str]] = {}
    for file in files:
        alike.setdefault(_kind(file), []).append(file)
    absent = {
        name: pyarrow().field(name, pyarrow().null()) for kind in alike for name in kind.names
    }
    return Stack([_parquet_alike(group, kind, absent) for kind, group in alike.items()])


def _kind(file: str) -> Any:
    """Names and types of the columns of a Parquet file."""
    return require("pyarrow.parquet", "pyarrow").read_schema(file).remove_metadata()


def _parquet_alike(files: list[str], kind: Any, absent: Mapping[str, Any]) -> Engine:
    full = kind
    for name, field in absent.items():
        full = full if name in full.names else full.append(field)

    def fresh() -> Any:  # a dataset that was asked before would trust the footers that it saw
        make = require("pyarrow.dataset", "pyarrow").dataset
        return make(files, schema=full, format="parquet")

    def unchanged() -> Any:
        if any(_kind(file) != kind for file in files):
            fail("A Parquet file has changed since its columns were checked.", DataError)
        return fresh()

    return DatasetTable(full, unchanged, lambda: int(fresh().count_rows()))  # the footers know
