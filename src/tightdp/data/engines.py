"""One thin adaptor for each engine and kind of file: names, types and chunks of cells of a table.

A table is recognised by the modules of its class, so that no library is imported that is not
already in use. Types are checked before anything is read; nothing here looks at a cell.
"""

from __future__ import annotations

import glob
import itertools
import operator
import os
import threading
import weakref
from collections import Counter
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from functools import reduce
from pathlib import Path
from typing import Any

from tightdp.accepted import TableLike
from tightdp.data.columns import Chunk, DateType, Engine, PandasTable, Part, libraries
from tightdp.data.csv_files import (
    TEXT_FILES,
    CsvFile,
    check_names,
    check_whole,
    is_text_file,
    read_names,
)
from tightdp.data.csv_pieces import read_parts
from tightdp.data.library_columns import (
    batch_cells,
    pyarrow,
    unreadable_polars,
    unreadable_type,
    wide_polars,
)
from tightdp.errors import DataError, fail, require
from tightdp.paths import check_file, check_path

_LOCK = threading.RLock()  # a reader that is set free while it is held may be asked about again
_READ: set[int] = set()  # identities of readers that were read here, as long as they live
_SEEN_WHOLE: dict[str, list[tuple[int, ...] | None]] = {}  # text files that were read to the end
_OPEN: dict[int, Any] = {}  # the reader of an object that gives a stream, not read yet


def recognise_engine(frame: Any) -> Engine:
    """The table that an engine or a file holds, or a clear error."""
    roots = libraries(frame)
    known = {package for package, _ in roots}
    if "narwhals" in known:
        return recognise_engine(frame.to_native())
    if isinstance(frame, (str, Path, CsvFile)):
        return _file(frame)
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

    reads_ahead = True
    _OWN = frozenset({"__filename", "__fragment_index", "__batch_index", "__last_in_fragment"})

    def __init__(
        self,
        schema: Any,
        dataset: Callable[[], Any],
        count: Callable[[], int] | None = None,
        ready: Callable[[], None] = lambda: None,
    ) -> None:
        super().__init__(
            schema, lambda names, rows: _scan(self._readable(dataset()), names, rows), count
        )
        self._ready = ready

    def check_ready(self, names: Sequence[str]) -> None:
        self._ready()

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

    adds_up = True

    def __init__(self, frame: Any) -> None:
        self.frame = frame
        self.reads_ahead = not hasattr(frame, "height")  # lazy frames have none
        self._types = dict(frame.collect_schema())

    def kinds(self) -> dict[str, str]:
        """The names of the types of all columns."""
        return {name: kind.base_type().__name__ for name, kind in self._types.items()}

    def names(self) -> list[Any]:
        return list(self._types)

    def unreadable(self, name: str) -> str | None:
        return unreadable_polars(self._types[name])

    def known_rows(self) -> int | None:
        return getattr(self.frame, "height", None)

    def check_ready(self, names: Sequence[str]) -> None:
        pyarrow()

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        pl = require("polars", "polars")
        wide = {name for name in names if wide_polars(self._types[name])}
        column = pl.selectors.by_name  # `pl.col` takes some names for patterns
        frame = self.frame.select(
            column(name).cast(pl.String) if name in wide else column(name) for name in names
        )
        if isinstance(frame, pl.LazyFrame):
            parts = _to_the_end(pl, frame, rows)
        else:
            parts = frame.iter_slices(rows)
        for part in parts:
            yield from batch_cells(part.to_arrow().to_batches(), names, rows, wide)


def _to_the_end(pl: Any, frame: Any, rows: int) -> Iterator[Any]:
    """The batches of a lazy frame, all of them, or an error.

    If a scan panics, for instance on a file that is shorter than it was, polars ends its batches as
    if there were no more rows. So a last row is put below all others: without it, something is
    missing.
    """
    mark = max(["", *frame.collect_schema().names()], key=len) + "!"  # no column has this name
    last = pl.LazyFrame({mark: [True]})
    marked = pl.concat([frame.with_columns(pl.lit(False).alias(mark)), last], how="diagonal")
    ended = False
    for part in marked.collect_batches(chunk_size=rows, engine="streaming", maintain_order=True):
        ended = part.height > 0 and bool(part[mark][-1])
        yield part[:-1] if ended else part
    if not ended:
        fail("polars ended before the last row.", DataError)


class DuckTable(Engine):
    """A DuckDB relation, read as a stream."""

    adds_up = True
    reads_ahead = True

    caseless = True
    _WHOLE = frozenset({"tinyint", "smallint", "integer", "bigint", "hugeint"})
    _UNSIGNED = frozenset("u" + name for name in _WHOLE)
    _REST = frozenset({"boolean", "float", "double", "decimal", "varchar", "enum", "null"})

    _DATES = frozenset(
        {"date", "timestamp", "timestamp_s", "timestamp_ms", "timestamp_ns"}
        | {"timestamp with time zone"}
    )
    _READERS = ("to_arrow_reader", "fetch_record_batch", "fetch_arrow_reader", "record_batch")

    def __init__(self, relation: Any) -> None:
        self.relation = relation
        self._types = dict(zip(relation.columns, (t.id for t in relation.types), strict=True))

    def kinds(self) -> dict[str, str]:
        """The names of the types of all columns."""
        return {name: str(kind) for name, kind in self._types.items()}

    def names(self) -> list[Any]:
        return list(self.relation.columns)

    def unreadable(self, name: str) -> str | None:
        kind = str(self._types[name])
        if kind in self._DATES:
            return DateType(kind)
        return None if kind in self._WHOLE | self._UNSIGNED | self._REST else kind

    def check_ready(self, names: Sequence[str]) -> None:
        pyarrow()

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        wanted = self.relation.project(", ".join(self._expression(name) for name in names))
        known = (getattr(wanted, name, None) for name in self._READERS)
        read = next(reader for reader in known if reader is not None)
        return batch_cells(read(rows), names, rows, {name for name in names if self._wide(name)})

    def _wide(self, name: str) -> bool:
        return self._types[name] in ("hugeint", "uhugeint")  # Arrow would get decimals, which round

    def _expression(self, name: str) -> str:
        quoted = '"' + name.replace('"', '""') + '"'
        return f"CAST({quoted} AS VARCHAR) AS {quoted}" if self._wide(name) else quoted


class CsvTable(Engine):
    """A text file with a header, or with stated names: every cell is text, "" missing.

    Short lines end in missing cells, and what a line has beyond the header is left out.
    """

    def __init__(self, file: CsvFile) -> None:
        self._file, self._stamp = file, _stamps([file.path])
        self._check_whole()
        self._header = read_names(file)

    def names(self) -> list[Any]:
        return list(self._header)

    def check_ready(self, names: Sequence[str]) -> None:
        if _stamps([self._file.path]) != self._stamp:  # another file is there now
            check_file("frame", self._file.path)
            self._check_whole()
            check_names(self._file, names)

    def _check_whole(self) -> None:
        """Look through a packed file once, until it is another."""
        path, stamp = str(self._file.path), _stamps([self._file.path])
        if _SEEN_WHOLE.get(path) != stamp:
            check_whole(self._file)
            _SEEN_WHOLE[path] = stamp

    def unreadable(self, name: str) -> str | None:
        return None

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        return itertools.chain.from_iterable(part() for part in self.parts(names, rows))

    def parts(self, names: Sequence[str], rows: int) -> Iterator[Part]:
        return read_parts(self._file, rows, names)


class Stack(Engine):
    """Tables with the same columns, one below the other; a column may have several types."""

    def __init__(self, tables: Sequence[Engine]) -> None:
        self._tables = tables
        self.reads_ahead = any(table.reads_ahead for table in tables)

    def names(self) -> list[Any]:
        each = (Counter(table.names()) for table in self._tables)
        return list(reduce(operator.or_, each).elements())  # twice if twice in one of them

    def unreadable(self, name: str) -> str | None:
        kinds = (table.unreadable(name) for table in self._tables)
        return next((kind for kind in kinds if kind is not None), None)

    def check_ready(self, names: Sequence[str]) -> None:
        for table in self._tables:
            table.check_ready(names)

    def known_rows(self) -> int | None:
        counts = [table.known_rows() for table in self._tables]
        known = [count for count in counts if count is not None]
        return sum(known) if len(known) == len(counts) else None

    def chunks(self, names: Sequence[str], rows: int) -> Iterator[Chunk]:
        for table in self._tables:
            yield from table.chunks(names, rows)


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
    return ReaderTable(_unread(reader).schema, lambda names, rows: _reading(reader))


def _stream(frame: TableLike) -> Engine:
    return _reader(_opened(frame, pyarrow().RecordBatchReader.from_stream))


def _scan(dataset: Any, names: Sequence[str], rows: int) -> Iterable[Any]:
    """Record batches of a dataset; left to itself, Arrow reads a gigabyte of Parquet ahead."""
    ahead: dict[str, Any] = {"batch_readahead": 0, "fragment_readahead": 0, "use_threads": False}
    if getattr(getattr(dataset, "format", None), "default_extname", "") == "parquet":
        options = require("pyarrow.dataset", "pyarrow").ParquetFragmentScanOptions
        ahead["fragment_scan_options"] = options(use_buffered_stream=True, pre_buffer=False)
    return iter(dataset.scanner(columns=list(names), batch_size=rows, **ahead).to_batches())


def _file(frame: str | Path | CsvFile) -> Engine:
    """A Parquet file or folder through pyarrow, or a text file."""
    files = parquet_files("frame", Path(frame))
    if files is not None:
        return _parquet(files)
    return CsvTable(frame if isinstance(frame, CsvFile) else CsvFile(frame))


def parquet_files(name: str, path: Path) -> list[str] | None:
    """The Parquet files behind a path, a folder or a pattern; None if it is a text file."""
    ends = "".join(check_path(name, path).suffixes[-2:]).lower()
    if not path.exists() and ends.endswith(".parquet") and glob.has_magic(str(path)):
        found = glob.glob(str(path), recursive=True)
    elif not path.exists():
        fail(f"There is no file or folder {str(path)!r}.")
    elif path.is_dir():
        found = [*map(str, path.rglob("*.parquet"))]
    else:
        found = [str(check_file(name, path))]
        if is_text_file(path):
            return None
        if not ends.endswith(".parquet"):
            fail(
                f"A path must end in .parquet, in {TEXT_FILES}, or be a folder. Got {path.name!r}. "
                "Of an Excel file the sheet must be named: tdp.ExcelFile(path, sheet), and `sheet` "
                "in a plan."
            )
    files = sorted(file for file in found if Path(file).is_file())
    if not files:
        fail(f"There is no Parquet file in {str(path)!r}.")
    return files


def _parquet(files: list[str]) -> Engine:
    """Files by their types, for each month may have others: Arrow would cast, and fail on a cell.

    A column that a file lacks is missing there. Memory is that of the largest row group, whatever
    reads it; Arrow is the quickest.
    """
    alike: dict[Any, list[str]] = {}
    for file in files:
        alike.setdefault(_kind(file), []).append(file)
    absent = {
        name: pyarrow().field(name, pyarrow().null()) for kind in alike for name in kind.names
    }
    return Stack([_parquet_alike(group, kind, absent) for kind, group in alike.items()])


def _stamps(files: Iterable[str | Path]) -> list[tuple[int, ...] | None]:
    """What shows, without a look into them, that files are others than before; None: it is gone."""
    found: list[tuple[int, ...] | None] = []
    for file in files:
        try:
            facts = os.stat(file)
        except OSError:
            found.append(None)
        else:
            times = facts.st_mtime_ns, facts.st_ctime_ns  # a copy may bring the first along
            found.append((facts.st_dev, facts.st_ino, facts.st_size, *times))
    return found


def _kind(file: str) -> Any:
    """Names and types of the columns of a Parquet file."""
    try:
        with open(file, "rb") as opened:
            return _format().inspect(opened).remove_metadata()
    except NotImplementedError:
        fail(
            f"{file!r} has a column of a type that Arrow does not know, such as integers of 128 "
            "bits: pass `polars.scan_parquet(path)`, or write the file without the column."
        )
    except (OSError, ValueError):  # what Arrow says may quote the file
        fail(f"The header of {file!r} cannot be read: open the file and check it.")


def _format() -> Any:
    """Old timestamps, of 96 bits, in milliseconds: nanoseconds of 9999-12-31 would wrap round."""
    make = require("pyarrow.dataset", "pyarrow").ParquetFileFormat
    return make(coerce_int96_timestamp_unit="ms")


def _parquet_alike(files: list[str], kind: Any, absent: Mapping[str, Any]) -> Engine:
    full, seen = kind, _stamps(files)
    for name, field in absent.items():
        full = full if name in full.names else full.append(field)

    def fresh() -> Any:  # a dataset that was asked before would trust the footers that it saw
        make = require("pyarrow.dataset", "pyarrow").dataset
        return make(files, schema=full, format=_format())

    def check() -> None:
        if not all(Path(file).is_file() and _kind(file) == kind for file in files):
            fail("A Parquet file has changed since its columns were checked.", DataError)

    def unchanged() -> Any:
        check()
        return fresh()

    def ready() -> None:
        if _stamps(files) != seen:
            check()

    # the footers know how many rows there are
    return DatasetTable(full, unchanged, lambda: int(fresh().count_rows()), ready)


# --- tables that can be read once -----------------------------------------------------------------
#
# Nobody can ask an Arrow reader whether it has rows left, except by reading; and whether a table is
# empty is private under add-remove neighbours, so no answer may decide about a payment. What can be
# known without a look at the data is which readers this process has read itself. A reader that
# somebody else has read is an empty table here.


def _unread(reader: object) -> Any:
    """The reader, if it was not read here; else an error, before anything is paid for."""
    if id(reader) in _READ:
        fail(
            "This reader was read before, and can be read only once: nothing is left in it. Make a "
            "new one, or pass a table (`reader.read_all()` before the first use)."
        )
    return reader


def _reading(reader: object) -> Any:
    """The same reader, marked as read from now on."""
    with _LOCK:  # of two threads with one reader the second is told so
        _unread(reader)
        _READ.add(id(reader))
    weakref.finalize(reader, _READ.discard, id(reader))
    return reader


def _opened(frame: TableLike, opener: Callable[[Any], Any]) -> Any:
    """The reader of an object that gives a stream: one and the same until it is read.

    Some objects give a stream once. The check before the payment and the reading after it must not
    both ask for one.
    """
    with _LOCK:
        reader = _OPEN.get(id(frame))
        if reader is None or id(reader) in _READ:
            reader = opener(frame)
            if _remembered(frame):
                _OPEN[id(frame)] = reader
        return reader


def _remembered(frame: TableLike) -> bool:
    """Whether the object can be told from one that is later made at the same place."""
    if id(frame) in _OPEN:
        return True
    try:
        weakref.finalize(frame, _OPEN.pop, id(frame), None)
    except TypeError:  # it has no room for it: a stream is asked for whenever one is needed
        return False
    return True
