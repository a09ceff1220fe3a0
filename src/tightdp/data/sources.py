"""Where tables come from when a text names them: files, SQL, Spark; headers, never cells.

Nothing here reads a row. A query is bound to its tables, which tells names and types of columns;
its rows are read when a release has been paid for.
"""

from __future__ import annotations

import json
import os
import re
import sys
import threading
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any, NamedTuple
from weakref import WeakKeyDictionary

from tightdp.data.csv_files import CsvFile, read_first
from tightdp.data.engines import parquet_files
from tightdp.data.spark import check_workers
from tightdp.errors import TightdpError, fail, require
from tightdp.paths import check_file, check_path

_CLOSED = (  # settings of DuckDB by which a query could reach beyond what is stated
    "autoinstall_known_extensions",
    "autoload_known_extensions",
    "allow_community_extensions",
    "python_enable_replacements",
)

_CLOSING = threading.Lock()
_SEEN: dict[str, str | None] = {}  # of a database that was closed off: the files beside it

# before DuckDB 1.5 a relation could not be read any more when its connection was gone
_KEPT: WeakKeyDictionary[Any, Any] = WeakKeyDictionary()

_ASIDE = re.compile(r"'(?:[^']|'')*'|\"(?:[^\"]|\"\")*\"|--[^\n]*|/\*.*?\*/", re.DOTALL)
_READ_CSV = re.compile(r"\bread_csv\s*\(((?:[^()]|\([^()]*\))*)\)", re.IGNORECASE)
_STATED = (
    re.compile(r"\bauto_detect\s*(=|:=|=>)\s*false\b", re.IGNORECASE),
    re.compile(r"\bignore_errors\s*(=|:=|=>)\s*true\b", re.IGNORECASE),
)
_GUESSES = re.compile("READ_CSV_AUTO|SNIFF_CSV|READ_(ND)?JSON")  # steps of a plan of DuckDB

_LONGEST = 500  # characters of a name
_NO_NAMES = frozenset({"na", "n/a", "nan", "null", "none", "true", "false", "yes", "no", "-"})
_NUMBER_OR_DATE = re.compile(
    r"[-+(<>=~$€£]*\s*[0-9][0-9.,'_ :/\u00a0\u2009\u202f-]*(e[-+]?[0-9]+)?\s*[%$€£)]?"
    r"|[-+]?[.,][0-9]+"
    r"|[0-9]{4}-[0-9]{2}-[0-9]{2}t[0-9:.]+(z|[-+][0-9:]+)?"  # a date with its time
    r"|[+-]?inf(inity)?"
)
_PIECES = re.compile(r"[\s:|;,\"]+")  # what may divide cells


class HeaderColumn(NamedTuple):
    """The name of a column, and what the file says of its type: number, text, date or nothing."""

    name: str
    kind: str


def read_header(
    path: str | Path, delimiter: str | None = None, encoding: str = "utf-8"
) -> list[HeaderColumn]:
    """The columns of a text or Parquet file, or of a folder of Parquet files; no cell is read.

    What divides the cells of a text file is read off the header, unless it is stated.

    Examples
    --------
    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_text("age,region")
    ...     [column.name for column in read_header(f"{folder}/a.csv")]
    ['age', 'region']
    """
    place = check_path("path", path)
    files = parquet_files("path", place)
    try:
        if files is None:
            text = CsvFile(place, None, delimiter, encoding)
            return [HeaderColumn(name, "") for name in read_first(text)]
        schema = require("pyarrow.parquet", "pyarrow").read_schema(files[0])
    except TightdpError:
        raise
    except (OSError, ValueError):
        fail(f"The header of {str(place)!r} cannot be read: open the file and check it.")
    return [HeaderColumn(field.name, _kind(str(field.type))) for field in schema]


def check_names(columns: Sequence[HeaderColumn], *, divided: bool = False) -> None:
    """Refuse names that look like the cells of a record; they are not quoted, for they may be.

    A record whose cells other marks divide than the stated ones has parts that look so: they are
    asked for in one column, and wherever somebody ``divided`` the line.

    >>> check_names([HeaderColumn("41", ""), HeaderColumn("Berlin", "")])
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The first line does not look like a header: 1 of its 2 cells ...
    """
    found = sum(looks_like_data(column.name) for column in columns)
    if divided or len(columns) == 1:
        parts = ([c.name, *_PIECES.split(c.name.strip())] for c in columns)
        found = sum(any(map(looks_like_data, each)) for each in parts)
    if found:
        fail(
            f"The first line does not look like a header: {found} of its {len(columns)} cells are "
            "numbers, dates, addresses, several lines or empty. If it is a record, somebody's data "
            "would be copied: say --no-header, which names the columns c1, c2, ... If these are "
            "names, say --header."
        )


def looks_like_data(name: str) -> bool:
    """Whether a name is more likely a cell: a number, a date, an address, or nothing at all.

    A quote that is not closed makes one name of many lines, which are records.

    >>> [looks_like_data(name) for name in ("age", "1.5", "2020-01-02", "a@b.org", "", "q1")]
    [False, True, True, True, True, False]
    >>> looks_like_data("age;region\\nforty;north")
    True
    """
    word = name.strip().lower()
    return (
        not word
        or "\n" in word
        or len(word) > _LONGEST
        or word in _NO_NAMES
        or "@" in word
        or _NUMBER_OR_DATE.fullmatch(word) is not None
    )


def _kind(type_name: str) -> str:
    if type_name.startswith(("int", "uint", "float", "double", "half", "decimal")):
        return "number"
    if type_name.startswith(("date", "timestamp")):
        return "date"
    return "text" if type_name.startswith(("string", "large_string", "dict", "bool")) else type_name


def from_sql(
    query: str, database: str | Path | None = None, files: str | Path | None = None
) -> Any:
    """The DuckDB relation of one SELECT, on a database file (opened to read only) or in memory.

    The query sees the database and ``files``, a file or a folder with all below it, and nothing
    else: no other file, no address of the network, no extension, no variable of this program.

    >>> from_sql("SELECT 1 AS x").columns
    ['x']
    >>> from_sql("SELECT * FROM read_text('/etc/hostname')")
    Traceback (most recent call last):
    tightdp.errors.ParameterError: The query is refused: Permission Error: Cannot access file ...
    """
    duckdb = require("duckdb", "duckdb")
    if database is not None:
        check_file("database", database)
    seen = None if files is None else os.path.realpath(check_path("files", files))
    try:
        found = duckdb.extract_statements(query)
        if len(found) == 1 and str(found[0].type).rsplit(".", 1)[-1].startswith("SELECT"):
            connection = _closed_off(duckdb, database, seen)
            _check_stated(query, connection)
            relation = connection.sql(query)
            _KEPT[relation] = connection
            return relation
    except duckdb.Error as error:
        if re.search(
            "CSV Error|sniff|Malformed JSON", str(error)
        ):  # a view would guess, and could not
            fail(_NOT_STATED)
        # binding a query quotes names of tables and columns, not cells
        fail(
            f"The query is refused: {str(error).splitlines()[0].rstrip('.!')}. A query sees its "
            "`database`, or the files in the folder of the plan, or those in `files`."
        )
    except (RecursionError, UnicodeEncodeError):
        fail("`sql` must be one SELECT of moderate size.")
    fail("`sql` must be one SELECT: a release only reads.")


_NOT_STATED = (
    "The query is refused: of a CSV or JSON file DuckDB would guess types, marks and columns from "
    "some of its cells, and fail on others. Read a CSV file as `read_csv('a.csv', auto_detect = "
    "false, header = true, columns = {'x': 'VARCHAR'}, null_padding = true, strict_mode = false, "
    "ignore_errors = true)`, with all its columns; write a JSON file as Parquet first."
)


def _check_stated(query: str, connection: Any) -> None:
    """Refuse files whose types would be read off their cells: one person could decide them all.

    What the query says is looked at before DuckDB opens a file, its plan shows what views say.
    """
    calls = _READ_CSV.findall(_ASIDE.sub(" ", query))
    if not all(option.search(call) for call in calls for option in _STATED):
        fail(_NOT_STATED)
    # the plan as it was bound: an optimised one leaves out files whose rows are not asked for, and
    # whose names and types were guessed all the same
    plan = connection.execute(f"EXPLAIN (FORMAT json) {query}").fetchall()[0][1]
    steps = [step.strip().upper() for step in _names_in(json.loads(plan))]
    if any(map(_GUESSES.match, steps)) or steps.count("READ_CSV") > len(calls):
        fail(_NOT_STATED)
    if "CHUNK_GET" in steps:  # rows that DuckDB made while it read the query
        fail("`sql` must be one SELECT of rows: DESCRIBE tells of columns.")


def _names_in(plan: Any) -> Iterator[str]:
    """What is done in a plan of DuckDB, step by step."""
    for step in plan if isinstance(plan, list) else [plan]:
        yield str(step["name"])
        yield from _names_in(step.get("children", []))


def _closed_off(duckdb: Any, database: str | Path | None, files: str | None) -> Any:
    """A connection that reads what was stated and cannot be talked into anything else."""
    base = ":memory:" if database is None else os.path.realpath(database)
    config = dict.fromkeys(_CLOSED, "false")
    with _CLOSING:  # connections to one database share their settings while one of them lives
        connection = duckdb.connect(base, read_only=database is not None, config=config)
        if connection.execute("SELECT current_setting('lock_configuration')").fetchone()[0]:
            if _SEEN.get(base, "") != files:
                fail("`files`: an earlier query on this database, still in use, has other `files`.")
            return connection
        if files is not None:
            setting = "allowed_directories" if os.path.isdir(files) else "allowed_paths"
            connection.execute(f"SET {setting} = ['{files.replace(chr(39), 2 * chr(39))}']")
        _show_bound_plans(duckdb, connection)
        connection.execute("SET enable_external_access = false")
        connection.execute("SET lock_configuration = true")
        _SEEN[base] = files
    return connection


def _show_bound_plans(duckdb: Any, connection: Any) -> None:
    """Let EXPLAIN begin with the plan as it was bound, before anything is left out of it."""
    try:
        connection.execute("SET GLOBAL explain_output = 'all'")
    except duckdb.Error:  # of older ones every connection has its own, until the first is locked
        connection.execute("SET explain_output = 'all'")


def from_spark(table: str) -> Any:
    """A table of the Spark session that is running, or of a new one.

    Before anything is paid for, a job without rows shows that the workers have this package.
    """
    sql = require("pyspark.sql", "spark")
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)  # for workers on this machine
    session = sql.SparkSession.builder.getOrCreate()
    if not session.catalog.tableExists(table):
        fail(f"Spark has no table {table!r}.")
    check_workers(session)
    return session.table(table)
