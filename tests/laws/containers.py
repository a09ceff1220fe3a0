"""Every container of rows that the package reads, in one registry, and odd cells for all of them.

A table is a list of rows, a row a mapping from names to plain Python cells. ``CONTAINERS[name]``
builds the same table in a container; its ``holds`` says which kinds of column it can hold. A column
has a kind because most engines give a column one type: ``KINDS[kind]`` says which, and lists odd
cells of that kind. Columns of kind ``object`` hold anything, in the containers that can.

>>> rows = [{"x": 1, "k": "a"}, {"x": None, "k": "b"}]
>>> frame = CONTAINERS["polars"].build(rows)  # kinds are inferred where none are given
>>> CONTAINERS["csv"].build(rows, folder=folder)  # doctest: +SKIP

Text that is not UTF-8 is a Python text with the bytes escaped (``b"\\xff".decode(...,
"surrogateescape")``): containers of bytes hold the bytes, containers of texts the escapes.
"""

from __future__ import annotations

import atexit
import csv
import gzip
import io
import itertools
import sqlite3
import zipfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import UTC, date, datetime, time, timedelta, tzinfo
from decimal import Decimal
from fractions import Fraction
from functools import cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any
from xml.sax.saxutils import escape
from zoneinfo import ZoneInfo

import duckdb
import narwhals
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pyarrow.dataset
import pyarrow.parquet

import tightdp as tdp
from tightdp.data import columns, engines, excel_sheets, row_tables
from tightdp.data.spark import SparkTable

Row = dict[str, Any]
Rows = Sequence[Row]
Kinds = Mapping[str, str]

BIG = 2**53 + 1
LONG = "7" * 140_000  # longer than what readers of CSV files take for a cell


# --- cells ---------------------------------------------------------------------------------------


class Loud(float):
    """A float whose own methods stop whoever asks them."""

    def __float__(self) -> float:
        raise RuntimeError("a cell was asked")

    __eq__ = __hash__ = __repr__ = __str__ = __int__ = __lt__ = __float__  # type: ignore[assignment]


class Liar(int):
    """An integer that says that it is another."""

    def __int__(self) -> int:
        return 0

    def __index__(self) -> int:
        return 0

    def __eq__(self, other: object) -> bool:
        return True

    def __hash__(self) -> int:
        return 0


class Shouting(str):
    """A text that raises when it is read as one."""

    def __str__(self) -> str:
        raise RuntimeError("a cell was asked")

    strip = casefold = encode = lower = __str__  # type: ignore[assignment]


class Calendar(date):
    """A date whose own methods stop whoever asks them."""

    def toordinal(self) -> int:
        raise RuntimeError("a cell was asked")

    isoformat = __str__ = __repr__ = __hash__ = toordinal  # type: ignore[assignment]


class Deaf(tzinfo):
    """A clock of somebody's own that must not be asked."""

    def utcoffset(self, _: Any) -> Any:
        raise RuntimeError("a cell was asked")

    tzname = dst = utcoffset


class NoArray:
    """An object that claims to be an array and is none."""

    def __array__(self, *_: Any, **__: Any) -> Any:
        raise RuntimeError("a cell was asked")

    def __len__(self) -> int:
        raise RuntimeError("a cell was asked")


def escaped(text: bytes) -> str:
    """Bytes that need not be UTF-8, as a text with escapes."""
    return text.decode("utf-8", "surrogateescape")


@dataclass(frozen=True)
class Kind:
    """A kind of column: odd cells, and its types where engines have one for it."""

    cells: tuple[Any, ...]
    arrow: Any = None
    numpy: str = "O"
    pandas: str | None = None


_INTEGERS = (
    *(20140203, 20140230, 0, 1, -1, 2, 7, 2**53, BIG, BIG + 1, -BIG),
    *(2**63 - 1, -(2**63), 2**62 + 1),
)
_REALS = (
    *(20140203.0, 20140203.5, 0.0, -0.0, 0.5, 1.0, 2.0, 2.0**53, 1e308, 5e-324),
    *(float("inf"), -float("inf"), 0.1),
)
_DATES = (date(2014, 2, 3), date(2014, 1, 1), date(2015, 12, 31), date.min, date.max)
_TIMES = (
    datetime(2014, 2, 3, 23, 59, 59, 999_999),
    datetime(1969, 12, 31, 23, 59, 59, 1),
    datetime(2014, 3, 30, 1, 30),
    datetime(2014, 10, 26, 2, 30),
    datetime(2015, 1, 1),
    datetime(1910, 5, 5, 5, 5, 5),
)
_CLOCK = "Europe/Berlin"
_TEXTS = (
    *("2014-02-03", "2014-02-30", "20140203", " 2014-12-31T23:30:00Z", "2014-13-01", "03.02.2014"),
    *("2014-01-01 00:30+02:00", "31.4.2014", "2014-2-3", "0000-01-01", "20140203.0"),
    "a", "b", "A", " a ", "1", "01", "1.0", " 2 ", "2", "true", "many", "1e400", "nan", "-inf",
    "1_0", "٣", "0x1", "+.5e1", "é", "x" * 300, LONG, str(BIG), str(BIG + 1), "1,5", "a\rb",
)  # fmt: skip

KINDS: dict[str, Kind] = {
    "integer": Kind((*_INTEGERS, None), pa.int64(), "i8", "Int64"),
    "unsigned": Kind((0, 1, BIG, BIG + 1, 2**64 - 1, 2**63, None), pa.uint64(), "u8", "UInt64"),
    "real": Kind((*_REALS, float("nan"), None), pa.float64(), "f8", "Float64"),
    "single": Kind((0.5, 1.0, -2.0, float("inf"), 2.0**30, None), pa.float32(), "f4", "Float32"),
    "boolean": Kind((True, False, None), pa.bool_(), "?", "boolean"),
    "decimal": Kind(
        (
            *(Decimal(text) for text in ("0.1", "1", "2.50", "-3", str(BIG), f"{BIG}.1")),
            Decimal("123456789012345678.0123456789"),
            None,
        ),
        pa.decimal128(38, 10),
    ),
    "date": Kind((*_DATES, None), pa.date32(), "M8[s]", "datetime64[s]"),
    "time": Kind((*_TIMES, None), pa.timestamp("us"), "M8[us]", "datetime64[us]"),
    "instant": Kind(
        (*(time.replace(tzinfo=ZoneInfo(_CLOCK)) for time in _TIMES[:-1]), None),
        pa.timestamp("us", _CLOCK),
        "O",
        f"datetime64[us, {_CLOCK}]",
    ),
    "text": Kind((*_TEXTS, None), pa.string(), "O", "string"),
    "trimmed": Kind(  # texts in files of fixed widths, which have blanks around them
        (*(text for text in _TEXTS if text == text.strip(" ")), None), pa.string(), "O", "string"
    ),
    "coded": Kind((*_TEXTS, None), pa.dictionary(pa.int32(), pa.string()), "O", "category"),
    "coded_integer": Kind(
        (*_INTEGERS, None), pa.dictionary(pa.int32(), pa.int64()), "O", "category"
    ),
    "bytes": Kind(
        (
            *map(
                escaped, (b"\xff", b"\xfe", b"1\xff", b"a\xc3", b"a\xff", b"caf\xe9", b"\xed\xa0")
            ),
            *("a", "1", "2", "b"),
            None,
        ),
        pa.string(),
    ),
    "surrogate": Kind(
        ("\ud800", "a\udfff", "\udcff1", "a", "1", "2", None), pandas="string[python]"
    ),
    "huge": Kind((2**64, 10**30, -(10**30), 2**127 - 1, BIG, BIG + 1, 1, 0, None)),
    "object": Kind(
        (
            *(1, 2, BIG, 10**400, True, 1.0, 0.5, float("nan"), "1", "a", " 2 ", None),
            *(Decimal("1.5"), Fraction(1, 3), [1], [1, 2], [[1]], (), {"a": 1}, {1}, 1j),
            *(b"1", b"\xff", "\ud800", LONG, object(), NoArray(), Loud(1.5), Liar(2)),
            *(Shouting("a"), Shouting("1"), np.int64(2), np.float32(0.5), np.array([1, 2])),
            *(date(2014, 2, 3), datetime(2014, 2, 3, 23), np.datetime64("2014-02", "M")),
            *(pd.Timestamp("2014-02-03 23:30", tz="Asia/Tokyo"), np.datetime64("NaT")),
            *(datetime(2014, 2, 3, 23, tzinfo=UTC), np.datetime64(2**62, "Y")),
            *(Calendar(2014, 2, 3), datetime(2014, 2, 3, tzinfo=Deaf()), time(12), timedelta(1)),
            *(np.array(1.0), pd.NA, pd.NaT, np.str_("a"), range(3), Decimal("sNaN")),
            *(np.datetime64(1, "ps"), pd.Timestamp(np.datetime64("20000-01-01", "s"))),
        )
    ),
}
TYPED = frozenset(kind for kind, facts in KINDS.items() if facts.arrow is not None)
VALID = TYPED - {"bytes"}
ALL = frozenset(KINDS)


def kinds_of(rows: Rows) -> dict[str, str]:
    """The kind of every column of a plain table; ``object`` where cells are of several kinds."""
    return {name: _kind([row[name] for row in rows]) for name in (rows[0] if rows else ())}


def _kind(cells: list[Any]) -> str:
    found = {type(cell) for cell in cells if cell is not None}
    plain = {bool: "boolean", int: "integer", float: "real", str: "text", Decimal: "decimal"}
    plain |= {date: "date", datetime: "time"}
    if found == {int, float}:
        return "real"
    return plain.get(next(iter(found)), "object") if len(found) == 1 else "object"


# --- columns of the libraries --------------------------------------------------------------------


def objects(cells: Iterable[Any]) -> Any:
    """A numpy array of objects; a nested cell is one object."""
    listed = list(cells)
    out = np.empty(len(listed), dtype=object)
    for place, cell in enumerate(listed):
        out[place] = cell
    return out


def masked(cells: Sequence[Any], kind: str) -> Any:
    """A masked array of numpy's own type where it has one."""
    code = KINDS[kind].numpy
    gone = np.array([cell is None for cell in cells], dtype=bool)
    blank = None if code[0] == "M" else 0
    filled = objects(cells) if code == "O" else np.array([c or blank for c in cells], dtype=code)
    return np.ma.array(filled, mask=gone)


def arrow(cells: Sequence[Any], kind: str) -> Any:
    """An Arrow array of the kind's type; bytes that are no UTF-8 go in unchecked."""
    if kind == "bytes":
        raw = [None if cell is None else cell.encode("utf-8", "surrogateescape") for cell in cells]
        whole = pa.array(raw, type=pa.binary())
        return pa.Array.from_buffers(pa.string(), len(whole), whole.buffers(), whole.null_count)
    return pa.array(list(cells), type=KINDS[kind].arrow)


def view_coded(cells: Sequence[Any], kind: str) -> Any:
    """A dictionary of string views, as some writers make them."""
    if kind not in ("text", "coded"):
        return arrow(cells, kind)
    coded = pa.array(list(cells), type=pa.string()).dictionary_encode()
    return pa.DictionaryArray.from_arrays(coded.indices, coded.dictionary.cast(pa.string_view()))


def chunked(cells: Sequence[Any], kind: str) -> Any:
    """An Arrow array in chunks of one to three cells, each with a dictionary of its own."""
    cuts = [0, 1, *range(3, len(cells), 3), len(cells)]
    parts = [arrow(cells[a:b], kind) for a, b in itertools.pairwise(cuts) if a < b]
    return pa.chunked_array(parts or [arrow(cells, kind)])


def series(cells: Sequence[Any], kind: str) -> Any:
    """A pandas Series of a type that knows missing cells, or of objects."""
    name = KINDS[kind].pandas
    if name == "category":  # levels are not in the order of the cells
        known = sorted({cell for cell in cells if cell is not None}, reverse=True)
        return pd.Series(pd.Categorical(objects(cells), categories=objects(known)))
    return pd.Series(objects(cells), dtype=object) if name is None else pd.Series(cells, dtype=name)


def arrow_series(cells: Sequence[Any], kind: str) -> Any:
    """A pandas Series on an Arrow array."""
    return pd.Series(pd.arrays.ArrowExtensionArray(pa.chunked_array([arrow(cells, kind)])))


def numpy_series(cells: Sequence[Any], kind: str) -> Any:
    """A pandas Series of a numpy type; objects where pandas needs them for missing cells."""
    code = KINDS[kind].numpy if kind in ("real", "single", "date", "time") else "O"
    return pd.Series(np.array(cells, dtype=code) if code != "O" else objects(cells), dtype=code)


def sparse_series(cells: Sequence[Any], kind: str) -> Any:
    """A sparse pandas Series, most of whose cells are the fill value; integers know no null."""
    code, fill = KINDS[kind].numpy, float("nan") if KINDS[kind].numpy[0] == "f" else 0
    filled = np.array([fill if cell is None else cell for cell in cells], dtype=code)
    return pd.Series(pd.arrays.SparseArray(filled, fill_value=fill))


def polars_series(cells: Sequence[Any], kind: str) -> Any:
    """A polars Series; categories are its own."""
    if kind == "huge":
        return pl.Series(list(cells), dtype=pl.Int128)
    found = pl.from_arrow(arrow(cells, "text" if kind == "coded" else kind))
    return found.cast(pl.Categorical) if kind == "coded" else found


# --- tables --------------------------------------------------------------------------------------

Build = Callable[[Rows, Kinds, Path | None], Any]


@dataclass(frozen=True)
class Container:
    """A way to hold rows, and what it can hold.

    Attributes
    ----------
    engine : type
        The adaptor that must recognise it.
    holds : frozenset of str
        The kinds of column that it can hold.
    """

    name: str
    make: Build
    engine: type[columns.Engine]
    holds: frozenset[str]

    def build(self, rows: Rows, kinds: Kinds | None = None, folder: Path | None = None) -> Any:
        """The same rows in this container; files need a folder."""
        return self.make(rows, kinds_of(rows) if kinds is None else kinds, folder)


def _columns(make: Callable[[Sequence[Any], str], Any]) -> Build:
    """A mapping of columns that one function makes."""
    return lambda rows, kinds, _: {
        name: make([row[name] for row in rows], kind) for name, kind in kinds.items()
    }


def _frame(make: Callable[[Sequence[Any], str], Any]) -> Build:
    return lambda rows, kinds, _: pd.DataFrame(_columns(make)(rows, kinds, None))


def _arrow_table(rows: Rows, kinds: Kinds, _: Path | None) -> Any:
    return pa.table(_columns(arrow)(rows, kinds, None))


def _chunked_table(rows: Rows, kinds: Kinds, _: Path | None) -> Any:
    return pa.table(_columns(chunked)(rows, kinds, None))


def _polars(rows: Rows, kinds: Kinds, _: Path | None) -> Any:
    return pl.DataFrame(_columns(polars_series)(rows, kinds, None))


def _matrix(rows: Rows, kinds: Kinds, _: Path | None) -> Any:
    out = np.empty((len(rows), len(kinds)), dtype=object)
    for i, row in enumerate(rows):
        for j, name in enumerate(kinds):
            out[i, j] = row[name]
    return out


def _structured(rows: Rows, kinds: Kinds, _: Path | None) -> Any:
    out = np.empty(len(rows), dtype=[(name, object) for name in kinds])
    for name in kinds:
        out[name] = objects(row[name] for row in rows)
    return out


def _duckdb(rows: Rows, kinds: Kinds, _: Path | None) -> Any:
    connection, name = _connection(), f"table_{next(_NUMBERED)}"
    connection.register(name, _arrow_table(rows, kinds, None))
    return connection.sql(f"SELECT * FROM {name}")


_NUMBERED = itertools.count()


@cache
def _connection() -> Any:
    atexit.register(_connection.cache_clear)  # DuckDB complains of what is left at the end
    return duckdb.connect()  # takes a while


def _csv_text(rows: Rows, kinds: Kinds) -> bytes:
    text = io.StringIO(newline="")
    lines = csv.writer(text, lineterminator="\n")
    lines.writerow(kinds)
    lines.writerows(["" if row[name] is None else row[name] for name in kinds] for row in rows)
    return text.getvalue().encode("utf-8", "surrogateescape")


def _csv(rows: Rows, kinds: Kinds, folder: Path | None) -> Path:
    assert folder is not None
    path = folder / "rows.csv"
    path.write_bytes(_csv_text(rows, kinds))
    return path


def _fixed(rows: Rows, kinds: Kinds, folder: Path | None) -> tdp.CsvFile:
    """Cells that nothing divides; an odd one may have other bytes than letters."""
    assert folder is not None
    path, cells = folder / "rows.txt", [[_written(row[name]) for name in kinds] for row in rows]
    widths = [max([9, *map(len, column)]) for column in zip(*cells, strict=True)] or [9] * len(
        kinds
    )
    lines = [
        "".join(cell.ljust(width) for cell, width in zip(line, widths, strict=True))
        for line in cells
    ]
    path.write_bytes("".join(f"{line}\n" for line in lines).encode("utf-8", "surrogateescape"))
    return tdp.CsvFile(path, list(kinds), widths=widths)


def _written(cell: Any) -> str:
    return "" if cell is None else str(cell)


def _csv_gz(rows: Rows, kinds: Kinds, folder: Path | None) -> Path:
    assert folder is not None
    path = folder / "rows.csv.gz"
    path.write_bytes(gzip.compress(_csv_text(rows, kinds)))
    return path


def _parquet(rows: Rows, kinds: Kinds, folder: Path | None) -> Path:
    assert folder is not None
    path = folder / "rows.parquet"
    pyarrow.parquet.write_table(_arrow_table(rows, kinds, None), path, row_group_size=4)
    return path


def _parquet_folder(rows: Rows, kinds: Kinds, folder: Path | None) -> Path:
    assert folder is not None
    path = folder / "parts"
    path.mkdir(exist_ok=True)
    table = _arrow_table(rows, kinds, None)
    for part, start in enumerate((0, len(rows) // 2)):
        piece = table.slice(start, len(rows) // 2 if part == 0 else None)
        pyarrow.parquet.write_table(piece, path / f"{part}.parquet")
    return path


def _sqlite(rows: Rows, kinds: Kinds, folder: Path | None) -> str:
    assert folder is not None
    path = folder / f"rows {next(_NUMBERED)}.db"
    base = sqlite3.connect(path)
    base.execute(f"CREATE TABLE t ({', '.join(kinds)})")
    for row in rows:
        cells = [row[name] for name in kinds]
        marks = ["CAST(? AS TEXT)" if isinstance(cell, str) else "?" for cell in cells]
        raw = [c.encode("utf-8", "surrogateescape") if isinstance(c, str) else c for c in cells]
        base.execute(f"INSERT INTO t VALUES ({', '.join(marks)})", raw)
    base.commit()
    base.close()
    return f"sqlite:///{path}?table=t"


_PARTS = {  # what an Excel file has beside its sheet
    "[Content_Types].xml": '<Types xmlns="{0}/package/2006/content-types"><Override PartName="/xl/'
    'workbook.xml" ContentType="application/vnd.openxmlformats-officedocument.spreadsheetml.sheet'
    '.main+xml"/></Types>',
    "xl/workbook.xml": '<workbook xmlns="{0}/spreadsheetml/2006/main" xmlns:r="{0}/officeDocument/'
    '2006/relationships"><sheets><sheet name="t" sheetId="1" r:id="a"/></sheets></workbook>',
    "xl/_rels/workbook.xml.rels": '<Relationships xmlns="{0}/package/2006/relationships">'
    '<Relationship Id="a" Type="{0}/officeDocument/2006/relationships/worksheet" '
    'Target="worksheets/s.xml"/></Relationships>',
}
_OFFICE = "http://schemas.openxmlformats.org"


def excel_file(path: Path, rows: Iterable[Iterable[str]]) -> Path:
    """An Excel file with these cells, each as its XML, on a sheet "t"."""
    lines = "".join(f"<row>{''.join(row)}</row>" for row in rows)
    sheet = f'<worksheet xmlns="{_OFFICE}/spreadsheetml/2006/main"><sheetData>{lines}</sheetData>'
    with zipfile.ZipFile(path, "w", zipfile.ZIP_DEFLATED) as archive:
        for name, text in _PARTS.items():
            archive.writestr(name, text.replace("{0}", _OFFICE))
        archive.writestr("xl/worksheets/s.xml", f"{sheet}</worksheet>")
    return path


def excel_cell(cell: Any) -> str:
    """The XML of a cell; a number that is none has no value."""
    if isinstance(cell, str):
        text = escape(cell, {"\r": "&#13;"})
        return f'<c t="inlineStr"><is><t xml:space="preserve">{text}</t></is></c>'
    if isinstance(cell, bool):
        return f'<c t="b"><v>{int(cell)}</v></c>'
    if cell is None or cell != cell:
        return "<c/>"
    return f"<c><v>{str(cell).replace('inf', '1E400')}</v></c>"


def _excel(rows: Rows, kinds: Kinds, folder: Path | None) -> tdp.ExcelFile:
    """With a column of ones, because a row without a cell is none."""
    assert folder is not None
    cells = [["ones", *kinds], *([1, *(row[name] for name in kinds)] for row in rows)]
    path = folder / f"rows {next(_NUMBERED)}.xlsx"
    return tdp.ExcelFile(excel_file(path, (map(excel_cell, line) for line in cells)), "t")


class Stream:
    """An object of no known library that gives an Arrow stream."""

    def __init__(self, table: Any) -> None:
        self._table = table

    def __arrow_c_stream__(self, requested_schema: Any = None) -> Any:
        return self._table.__arrow_c_stream__(requested_schema)


_NUMBERS = frozenset({"integer", "unsigned", "real", "single", "boolean", "decimal"})
_SPARSE = frozenset({"real", "single"})  # types that know a missing cell
_PLAIN = frozenset({"integer", "real", "text", "trimmed"})
_IN_CSV = VALID | {"bytes", "huge"}

_ALL_CONTAINERS = (
    # name, builder, engine, kinds
    ("matrix", _matrix, columns.ColumnTable, ALL),
    ("structured", _structured, columns.ColumnTable, ALL),
    ("lists", _columns(lambda cells, _: list(cells)), columns.ColumnTable, ALL),
    ("tuples", _columns(lambda cells, _: tuple(cells)), columns.ColumnTable, ALL),
    ("arrays", _columns(lambda cells, _: objects(cells)), columns.ColumnTable, ALL),
    ("masked arrays", _columns(masked), columns.ColumnTable, ALL),
    ("Series", _columns(series), columns.ColumnTable, ALL),
    ("Arrow Series", _columns(arrow_series), columns.ColumnTable, TYPED),
    ("sparse Series", _columns(sparse_series), columns.ColumnTable, _SPARSE),
    ("pandas arrays", _columns(lambda c, k: series(c, k).array), columns.ColumnTable, ALL),
    ("polars Series", _columns(polars_series), columns.ColumnTable, VALID | {"huge"}),
    ("Arrow arrays", _columns(arrow), columns.ColumnTable, TYPED),
    ("chunked arrays", _columns(chunked), columns.ColumnTable, TYPED),
    ("view dictionaries", _columns(view_coded), columns.ColumnTable, TYPED),
    ("pandas", _frame(numpy_series), columns.PandasTable, ALL),
    ("pandas nullable", _frame(series), columns.PandasTable, ALL),
    ("pandas Arrow", _frame(arrow_series), columns.PandasTable, TYPED),
    ("polars", _polars, engines.PolarsTable, VALID | {"huge"}),
    ("polars lazy", lambda *a: _polars(*a).lazy(), engines.PolarsTable, VALID | {"huge"}),
    ("narwhals", lambda *a: narwhals.from_native(_polars(*a)), engines.PolarsTable, VALID),
    ("Arrow table", _arrow_table, engines.ArrowTable, TYPED),
    ("Arrow chunked table", _chunked_table, engines.ArrowTable, TYPED),
    ("Arrow batch", lambda *a: _batch(_arrow_table(*a)), engines.ArrowTable, TYPED),
    ("Arrow views", lambda *a: pa.table(_columns(view_coded)(*a)), engines.ArrowTable, TYPED),
    ("Arrow reader", lambda *a: _arrow_table(*a).to_reader(3), engines.ReaderTable, TYPED),
    (
        "Arrow dataset",
        lambda *a: pyarrow.dataset.dataset(_arrow_table(*a)),
        engines.DatasetTable,
        TYPED,
    ),
    ("Arrow stream", lambda *a: Stream(_arrow_table(*a)), engines.ReaderTable, TYPED),
    # which puts instants on the clock of its session
    ("DuckDB", _duckdb, engines.DuckTable, VALID - {"instant"}),
    ("csv", _csv, engines.CsvTable, _IN_CSV),
    ("csv.gz", _csv_gz, engines.CsvTable, _IN_CSV),
    ("fixed widths", _fixed, engines.CsvTable, (_IN_CSV | {"trimmed"}) - {"text", "coded"}),
    ("SQLite", _sqlite, row_tables.RowTable, _PLAIN | {"bytes"}),
    *([("Excel", _excel, excel_sheets.SheetTable, _PLAIN)] if find_spec("openpyxl") else []),
    ("Parquet", _parquet, engines.Stack, TYPED),
    ("Parquet folder", _parquet_folder, engines.Stack, TYPED),
)
CONTAINERS = {entry[0]: Container(*entry) for entry in _ALL_CONTAINERS}


def _batch(table: Any) -> Any:
    return table.combine_chunks().to_batches()[0] if len(table) else table


def in_spark(session: Any) -> Container:
    """The container of a running session of Spark; it needs one, so it is not in the registry."""

    def make(rows: Rows, kinds: Kinds, folder: Path | None) -> Any:
        return session.read.parquet(str(_parquet(rows, kinds, folder)))

    return Container("Spark", make, SparkTable, TYPED - {"unsigned", "instant"})
