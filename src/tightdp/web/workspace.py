"""The folders that the page may see, and the plan that it shows.

Every path that a browser names is resolved, links included, and must lie in an allowed folder. Of
tables only names and types of columns are read here.
"""

from __future__ import annotations

import hashlib
import json
import os
import threading
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from datetime import date
from pathlib import Path
from typing import Any

from tightdp.data.csv_files import CsvFile, is_text_file
from tightdp.data.engines import parquet_files
from tightdp.data.sources import HeaderColumn, check_names, from_sql, read_header
from tightdp.errors import ParameterError, TightdpError, fail, visible
from tightdp.paths import check_path, check_target, read_file, write_whole
from tightdp.plans.lines import Text, key_lines, read_text
from tightdp.plans.plan_text import PlanText, check
from tightdp.plans.toml_text import to_toml

_MOST_FILES, _DEEPEST = 500, 4
_PATHS = (
    ("data", ("file", "folder", "database", "files")),
    ("schema", ("file",)),
    ("budget", ("ledger",)),
)
_NO_NAMES = (
    "The first line does not look like names of columns, and is not shown: numbers, dates, several "
    "lines or nothing stand there. If it is a record, say so and state the names. If other marks "
    "divide its cells, choose them. If these are names indeed, give the columns others in the file."
)
_EXACT = 2**53  # integers above are not numbers of a browser


class Workspace:
    """The allowed folders; the first is the home, from where names are read.

    Examples
    --------
    >>> import tempfile
    >>> folder = tempfile.mkdtemp()
    >>> space = Workspace([folder])
    >>> space.place("../secret.csv", "file")
    Traceback (most recent call last):
    tightdp.errors.ParameterError: `file`: '../secret.csv' is outside of the folders that ...
    """

    def __init__(self, folders: Sequence[str | Path], plan: str = "plan.toml") -> None:
        self.folders = [Path(os.path.realpath(check_path("--folder", f))) for f in folders]
        for folder in self.folders:
            if not folder.is_dir():
                fail(f"`--folder`: there is no folder {str(folder)!r}.")
        self.home, self.plan = self.folders[0], plan
        self._saving = threading.Lock()

    # --- paths --------------------------------------------------------------------------------

    def place(self, name: object, what: str, base: Path | None = None) -> Path:
        """A path in an allowed folder, without links; ``what`` is the key that names it.

        It is read from ``base``, where the plan lies, or from the home.
        """
        if not isinstance(name, str):
            fail(f"`{what}` must be a text.")
        place = check_path(what, (self.home if base is None else base) / name)
        found = Path(os.path.realpath(place))
        parts = _parquet(found) if self._allowed(found) and what in ("folder", "file") else []
        if not all(self._allowed(Path(os.path.realpath(part))) for part in (str(found), *parts)):
            fail(
                f"`{what}`: {visible(name, 120)!r} is outside of the folders that this page may "
                "see. Start it with --folder to allow another one."
            )
        return found

    def _allowed(self, place: Path) -> bool:
        return any(place == folder or folder in place.parents for folder in self.folders)

    def folder_of(self, file: str) -> Path:
        """Where a plan lies."""
        return self.place(file, "plan").parent

    def files(self, file: str) -> dict[str, list[str]]:
        """Tables, folders of Parquet files and databases as a plan names them, and all plans.

        Nothing is opened.
        """
        base = self.folder_of(file)
        found: dict[str, list[str]] = {"tables": [], "folders": [], "databases": [], "plans": []}
        for place in self._walk():
            name = place.name.lower()
            if name.endswith(".parquet") or is_text_file(Path(name)):
                found["tables"].append(_name_of(place, base))
                parent = _name_of(place.parent, base)
                if name.endswith(".parquet") and place.parent not in self.folders:
                    found["folders"] += [parent] * (parent not in found["folders"])
            elif name.endswith((".duckdb", ".ddb")):
                found["databases"].append(_name_of(place, base))
            elif name.endswith(".toml"):
                found["plans"].append(_name_of(place, self.home))
        return found

    def _walk(self) -> Iterator[Path]:
        left = _MOST_FILES
        for top in self.folders:
            for folder, below, names in os.walk(top):
                depth = len(Path(folder).relative_to(top).parts)
                below[:] = sorted(n for n in below if not n.startswith(".")) * (depth < _DEEPEST)
                for name in sorted(names):
                    place = Path(folder, name)
                    if name.startswith(".") or place.is_symlink() or not name.isprintable():
                        continue
                    if left == 0:
                        return
                    left -= 1
                    yield place

    # --- plans --------------------------------------------------------------------------------

    def text_of(self, record: object, file: str) -> Text:
        """What the page holds as the text of a plan, with paths that are allowed."""
        if not isinstance(record, Mapping):
            fail("`plan` must be a table of keys.")
        place = self.place(file, "plan")
        if isinstance(data := record.get("data"), Mapping) and "spark" in data:
            fail("`spark`: a page starts no session of Spark: use the command line.")
        if isinstance(data, Mapping) and "address" in data:
            fail("`address`: a page opens no databases by their address: use the command line.")
        for section, keys in _PATHS:
            inner = record.get(section)
            named = inner if isinstance(inner, Mapping) else {}
            for key in keys:
                if isinstance(named.get(key), str) and named[key]:
                    self.place(named[key], key, place.parent)
        text = to_toml(self._faithful(record, file))
        return Text(str(place), tomllib.loads(text), key_lines(text))

    def read(self, record: object, file: str) -> PlanText:
        """The plan of the page, checked as a file is; every problem has its key."""
        return check(self.text_of(record, file))

    def _faithful(self, record: Mapping[str, Any], file: str) -> Any:
        """The record with the numbers of the file where they are equal: 1.0 is 1 to a browser."""
        try:
            return _merged(record, self.opened(file)["plan"])
        except TightdpError:  # there is no such file yet, or none that can be read
            return record

    def opened(self, file: str) -> dict[str, Any]:
        """A plan on disk as the page shows it: its schema is part of it, wherever it was."""
        place = self.place(file, "plan")
        record, text = read_text(place).record, read_file("plan", place)
        schema = record.get("schema")
        if isinstance(schema, dict) and isinstance(schema.get("file"), str):
            inner = self.place(schema["file"], "file", place.parent)
            record = {**record, "schema": read_text(inner, "schema").record}
        record = _dates_as_texts(record)
        _check_plain(record)
        return {"file": file, "plan": record, "base": _digest(text)}

    def save(self, record: object, file: str, base: str | None) -> str:
        """Write the plan whole, unless the file says the same or was changed by somebody else.

        The digest of what is on disk comes back.
        """
        place, text = self.place(file, "plan"), self.text_of(record, file)
        if place.suffix != ".toml" or not file.isprintable():
            fail("`plan` must be a file that ends in .toml, with a name of printable characters.")
        with self._saving:  # of two tabs that save at once the second is told of the first
            known = self.opened(file) if place.exists() else None
            if known is not None:
                if known["plan"] == text.record:
                    return str(known["base"])  # with the comments that somebody wrote
                if known["base"] != base:
                    fail(
                        f"`plan`: {file!r} was changed since it was opened here: open it again, or "
                        "save under another name."
                    )
            written = to_toml(text.record)
            write_whole("plan", check_target("plan", place), written)
            return _digest(written)

    # --- tables -------------------------------------------------------------------------------

    def header(self, data: object, file: str, stated: object = None) -> list[HeaderColumn]:
        """Names and types of the columns of a table of a plan; no cell is read.

        ``stated`` are columns of a plan that nobody was asked about: the first line of a text file
        is then told only if all of them stand there. Else it may be a record, and is not.
        """
        base = self.folder_of(file)
        if not isinstance(data, Mapping):
            fail("`data` must be a table of keys.")
        kinds = [key for key in ("file", "folder", "sql") if data.get(key)]
        if len(kinds) != 1:
            fail("`data` needs one of `file`, `folder` and `sql`.")
        if kinds == ["sql"]:
            return self._query_columns(data, base)
        place = self.place(data[kinds[0]], kinds[0], base)
        if not place.exists():
            fail(f"`{kinds[0]}`: there is no {kinds[0]} {visible(str(data[kinds[0]]), 120)!r}.")
        mark, encoding = data.get("delimiter"), data.get("encoding") or "utf-8"
        if data.get("names"):  # then the first line is a record, and is not looked at
            stated = CsvFile(
                place, data["names"], mark or None, encoding, widths=data.get("widths")
            )
            return [HeaderColumn(name, "") for name in stated.names or ()]
        columns = read_header(place, mark or None, encoding)
        if kinds == ["file"] and is_text_file(place):
            try:
                check_names(columns, divided=bool(mark))
            except TightdpError:  # its words are those of the command line
                fail(_NO_NAMES)
            if stated is not None and not _all_there(stated, columns):
                return []
        return columns

    def _query_columns(self, data: Mapping[str, Any], base: Path) -> list[HeaderColumn]:
        query, database, files = data["sql"], data.get("database"), data.get("files")
        if not isinstance(query, str):
            fail("`sql` must be a text.")
        seen = files or (None if database else ".")
        relation = from_sql(
            query,
            self.place(database, "database", base) if database else None,
            self.place(seen, "files", base) if seen else None,
        )
        pairs = zip(relation.columns, map(str, relation.types), strict=True)
        return [HeaderColumn(name, _kind(type_name)) for name, type_name in pairs]


def _all_there(stated: object, columns: list[HeaderColumn]) -> bool:
    """Whether a plan states columns, and a line holds all of them."""
    there = [column.name for column in columns]  # what is stated may be no text at all
    return isinstance(stated, list) and bool(stated) and all(name in there for name in stated)


def _kind(type_name: str) -> str:
    """What a type of DuckDB is to a form: a number, a text, or its own name."""
    if type_name.startswith(("TINYINT", "SMALLINT", "INT", "BIGINT", "HUGEINT", "U", "FLOAT",
                             "DOUBLE", "DECIMAL")) and type_name != "UUID":  # fmt: skip
        return "number"
    if type_name.startswith(("VARCHAR", "ENUM", "BOOL")):
        return "text"
    return type_name.partition("(")[0].lower()  # a structure may list the levels of its parts


def _name_of(place: Path, base: Path) -> str:
    """A path as a plan in a folder says it."""
    return str(place.relative_to(base)) if base in place.parents else str(place)


def _parquet(place: Path) -> list[str]:
    """All that would be read of a folder: any of it may be a link to another place."""
    try:
        return (parquet_files("folder", place) or []) if place.is_dir() else []
    except ParameterError:  # there is none: who reads it says so
        return []


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode()).hexdigest()


def _merged(new: Any, old: Any) -> Any:
    """``new``, with the parts of ``old`` that are equal to it."""
    if isinstance(new, Mapping) and isinstance(old, Mapping):
        return {key: _merged(value, old.get(key)) for key, value in new.items()}
    if isinstance(new, list) and isinstance(old, list) and len(new) == len(old):
        return [_merged(a, b) for a, b in zip(new, old, strict=True)]
    same = isinstance(new, (int, float)) and isinstance(old, (int, float)) and new == old
    return old if same and isinstance(new, bool) == isinstance(old, bool) else new


def _dates_as_texts(value: Any) -> Any:
    """A plan as JSON can say it: a day is its text, which a plan reads as the same day."""
    if isinstance(value, Mapping):
        return {key: _dates_as_texts(item) for key, item in value.items()}
    if isinstance(value, list):
        return [_dates_as_texts(item) for item in value]
    return str(value) if type(value) is date else value


def _check_plain(record: Mapping[str, Any]) -> None:
    """Refuse what a browser would change: times, and integers that are no doubles."""
    try:
        json.dumps(record, allow_nan=False)
    except (TypeError, ValueError):
        fail("This plan holds times, or numbers that are not finite: write them as texts.")
    for number in _integers(record):
        if abs(number) > _EXACT:
            fail(f"This plan holds the integer {number}, too long for a browser: use the command.")


def _integers(value: object) -> Iterator[int]:
    if isinstance(value, int):
        yield value
    elif isinstance(value, Mapping):
        for item in value.values():
            yield from _integers(item)
    elif isinstance(value, list):
        for item in value:
            yield from _integers(item)
