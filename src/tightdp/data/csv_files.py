"""A CSV file whose first line is a record, with what a header would say stated by the caller."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from tightdp.accepted import PathLike
from tightdp.errors import check_choice, fail
from tightdp.paths import check_path

DELIMITERS = (",", ";", "\t", "|")


@dataclass(frozen=True, slots=True, init=False)
class CsvFile:
    """A CSV file without a header, as a table.

    Names of columns, their number and what divides cells are public facts. Where no header states
    them, they are given here and never read off a record, which is private.

    Parameters
    ----------
    path : path
        A file that ends in .csv or .csv.gz.
    names : sequence of str
        The names of its columns, from the left; further cells of a line are left out, and cells
        that it lacks are missing.
    delimiter : {",", ";", tab, "|"}
        What divides the cells of a line.

    Examples
    --------
    >>> import tempfile
    >>> from tightdp import CsvFile, Interval, Schema
    >>> schema = Schema({"age": Interval(0, 100)}, rows=2)
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_text("41;north\\n37;south\\n")
    ...     found = schema.check(CsvFile(f"{folder}/a.csv", ["age", "region"], delimiter=";"))
    >>> found.rows, found["age"].unreadable
    (2, 0)
    """

    path: Path
    names: tuple[str, ...]
    delimiter: str

    def __init__(self, path: PathLike, names: Any, delimiter: str = ",") -> None:
        place = check_path("path", path)
        if not place.name.lower().endswith((".csv", ".csv.gz")):
            fail(f"`path` must end in .csv or .csv.gz. Got {place.name!r}.")
        plain = isinstance(names, Iterable) and not isinstance(names, (str, bytes))
        listed = list(names) if plain else []
        if not listed or not all(isinstance(name, str) and name for name in listed):
            fail("`names` must be a list of texts: the names of the columns, from the left.")
        if len(set(listed)) != len(listed):
            fail("`names` must differ: rename one.")
        check_choice("delimiter", delimiter, DELIMITERS)
        object.__setattr__(self, "path", place)
        object.__setattr__(self, "names", tuple(listed))
        object.__setattr__(self, "delimiter", delimiter)
