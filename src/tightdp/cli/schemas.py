"""``tightdp schema`` and ``tightdp plan init``: files to fill in, from names of columns alone."""

from __future__ import annotations

import argparse
import json
from collections.abc import Sequence
from pathlib import Path

from tightdp.cli.arguments import (
    FORCE,
    TABLE,
    Commands,
    argument,
    command,
    group,
    write_file,
)
from tightdp.cli.output import Exit, Speaker
from tightdp.data.csv_files import DELIMITERS, CsvFile, find_delimiter, is_text_file
from tightdp.data.excel_sheets import ExcelFile, excel_table
from tightdp.data.row_tables import (
    absolute_address,
    database_table,
    is_address,
)
from tightdp.data.sources import HeaderColumn, check_names, read_header
from tightdp.errors import check_choice, fail, suggestion
from tightdp.paths import check_file, check_path
from tightdp.plans.toml_text import quoted, toml_key
from tightdp.privacy import Neighbors
from tightdp.schema import Schema, has_groups

_SCHEMA_HEAD = """\
# Public facts about {name}. Only its header was read. Write what you would know
# without the table (a questionnaire, a law, common sense): a bound that was looked up in the table
# reveals somebody.
#
# Take away the # of what applies, and delete columns that no release reads.
#   a number      low, high    cells outside are moved to the nearer bound
#                 missing      what empty and unreadable cells become; by default the middle
#                 unit         what it is in, such as "years": reports print it
#   a date        low, high    two dates, such as 2020-12-30; others are moved to the nearer one
#                 unit         by which dates are grouped: "day", "week", "month" (by default),
#                              "quarter", "year", "weekday" or "hour"
#                 missing      what counts where there is no date; by default a group of its own
#                 format       how texts are written, such as "%d.%m.%Y"; by default ISO 8601
#                 zone         whose clock counts, such as "Asia/Tokyo"; by default as written
#   a category    levels       all values that are told apart
#                 other        the level of empty and unseen cells; by default one more, "other"
#                 loose        true, if case and blanks around a text do not matter
# Numbers are written 1234.5. For texts such as 1,234.5 add thousands = ","; for 1.234,5 add
# decimal = "," and thousands = ".". Others ($12, 12 %) are unreadable here: clean them first, for
# instance with `sql` in the plan.

# The number of rows, if everybody may know it. If it is private: a number that it cannot exceed,
# and neighbors = "add-remove".
# rows = 1000
neighbors = "replace-one"

# If a person can have several rows (needs neighbors = "add-remove"):
# person = "the column that tells persons apart"
# rows_per_person = 3
"""

_NUMBER = "# low = 0\n# high = 100\n"
_CATEGORY = '# levels = ["a", "b", "c"]\n'
_DATE = '# low = 2020-01-01\n# high = 2029-12-31\n# unit = "month"\n'

_PLAN = """\
# What is released, and what it may cost. See what the schema makes of the table, for your eyes
# only: tightdp check {name}. The errors to expect: tightdp preview {name}
title = {title}

[data]
{data}

[schema]
file = {schema}

[budget]
epsilon = 1            # the most that may be spent, by this plan and all others on this ledger
ledger = {ledger}
confidence = 0.95      # of the intervals

# Releases share the budget by `weight`, or name their own `epsilon`. `tightdp kinds` lists what
# there is. A release is stored under its name: run the plan again, and the same numbers come back.
"""


_HEADER = (  # whether the first line of a CSV file has the names of the columns
    argument(
        "--no-header",
        action="store_true",
        help="the CSV file has no header: its first line is a record; columns are c1, c2, ...",
    ),
    argument(
        "--names",
        metavar="A,B,...",
        help="the CSV file has no header, and these are the names of its columns, from the left",
    ),
    argument(
        "--header",
        action="store_true",
        help="the first line is a header, although it looks like a record",
    ),
    argument(
        "--widths",
        metavar="N,N,...",
        help="nothing divides the cells: each column has so many characters of a line, from the "
        "left; the file has no header",
    ),
    argument("--sheet", metavar="NAME", help="the sheet of an Excel file"),
    argument(
        "--delimiter",
        metavar="MARK",
        help='what divides cells: one of ",", ";", "|", "tab" and "blank" (one or more of them); '
        "by default what the header shows; without one, commas in a .csv file, tabs in a .tsv file",
    ),
    argument(
        "--encoding",
        metavar="NAME",
        default="utf-8",
        help="how letters are stored: utf-8 (by default), or latin-1, cp1252, ...",
    ),
)


def add(commands: Commands) -> None:
    """Add the two commands."""
    schema = group(commands, "schema", "write down what is public about a table")
    command(
        schema,
        "init",
        _init_schema,
        "write a schema to fill in, from the header of a table",
        TABLE,
        argument("--out", metavar="TOML", default="schema.toml", help="by default schema.toml"),
        FORCE,
        *_HEADER,
        more="Reads names of columns, and types where the file states them. Never a cell.",
        examples="  tightdp schema init survey.csv\n"
        "  tightdp schema init folder-of-parquet --out facts.toml\n"
        "  tightdp schema init sales.xlsx --sheet 2014\n",
    )
    command(
        schema,
        "check",
        _check_schema,
        "print a schema as it is understood, or what is wrong with it",
        argument("schema", metavar="TOML", nargs="?", default="schema.toml", help="the file"),
        examples="  tightdp schema check schema.toml\n",
    )
    plan = group(commands, "plan", "write down what to release")
    command(
        plan,
        "init",
        _init_plan,
        "write a plan to change, for a table and its schema",
        TABLE,
        argument("--schema", metavar="TOML", default="schema.toml", help="what is public"),
        argument("--out", metavar="TOML", default="plan.toml", help="by default plan.toml"),
        FORCE,
        *_HEADER,
        examples="  tightdp plan init survey.csv --schema schema.toml --out plan.toml\n",
    )


def _header(given: argparse.Namespace) -> list[HeaderColumn]:
    """The columns of a file; of the first line of one without a header, only their number."""
    stated = None if given.names is None else [name.strip() for name in given.names.split(",")]
    given.no_header = given.no_header or stated is not None or given.widths is not None
    if given.header and given.no_header:
        fail("`--header` is not allowed with `--no-header` or `--names`: say which of them is so.")
    if given.widths is not None:
        names = stated or [f"c{i}" for i in range(1, len(_widths(given)) + 1)]
        _ = CsvFile(given.data, names, widths=_widths(given))
        check_file("data", given.data)
        return [HeaderColumn(name, "") for name in names]
    if is_address(given.data) or given.sheet is not None:
        return _other_columns(given, stated)
    columns = read_header(given.data, _delimiter(given), given.encoding)
    if not is_text_file(Path(given.data)):
        if given.no_header:
            fail("`--no-header`: only text files, such as CSV, can lack one.")
        return columns
    if stated is not None:
        _ = CsvFile(given.data, stated, _delimiter(given))  # names of columns, each once
        return [HeaderColumn(name, "") for name in stated]
    if given.no_header:
        return [HeaderColumn(f"c{i}", "") for i in range(1, len(columns) + 1)]
    if not given.header:
        check_names(columns, divided=given.delimiter is not None)
    return columns


def _other_columns(given: argparse.Namespace, stated: list[str] | None) -> list[HeaderColumn]:
    """Of a sheet of Excel, or a table of a database."""
    if given.sheet is None:
        engine = database_table(given.data)
    else:
        engine = excel_table(ExcelFile(given.data, given.sheet, stated))
    columns = [HeaderColumn(name, "") for name in engine.names()]
    if given.sheet is not None and stated is None and not given.header:
        check_names(columns)
    return columns


def _widths(given: argparse.Namespace) -> list[int]:
    parts = [part.strip() for part in given.widths.split(",")]
    if not all(part.isascii() and part.isdigit() for part in parts):
        fail("`--widths` must be positive integers with commas between them, such as 8,3,12.")
    if given.delimiter is not None or given.sheet is not None:
        fail("`--widths` is not allowed with `--delimiter` or `--sheet`.")
    return [int(part) for part in parts]


def _delimiter(given: argparse.Namespace) -> str | None:
    """What divides cells, where it is said, and where no header shows it."""
    if given.delimiter is None:
        text = given.no_header and is_text_file(Path(given.data))
        return find_delimiter("--delimiter", Path(given.data)) if text else None
    words = {"tab": "\t", "blank": " "}  # a shell takes blanks for nothing
    told = [mark for mark in DELIMITERS if mark.strip()]
    meant = {**words, "\\t": "\t", "\t": "\t", " ": " "}.get(given.delimiter)
    return meant or check_choice("--delimiter", given.delimiter, [*told, *words])


def _text_facts(given: argparse.Namespace, known: list[str]) -> str:
    """What a plan must state to read a text file, beside its name."""
    facts = "" if given.sheet is None else f"\nsheet = {quoted(given.sheet)}"
    if given.no_header:
        facts += f"\nnames = {json.dumps(known)}   # its first line is a record"
    if given.widths is not None:
        facts += f"\nwidths = {json.dumps(_widths(given))}"
    elif (given.no_header and given.sheet is None) or given.delimiter is not None:
        facts += f"\ndelimiter = {json.dumps(_delimiter(given))}"
    if given.encoding != "utf-8":
        facts += f"\nencoding = {quoted(given.encoding)}"
    return facts


# --- schemas -------------------------------------------------------------------------------------


def _init_schema(given: argparse.Namespace, speaker: Speaker) -> Exit:
    columns = _header(given)
    text = schema_text(Path(given.data).name, columns)
    place = write_file(given.out, text, force=given.force)
    said = " and ".join(_said(given))
    more = f"; and say {said} to `tightdp plan init`, too" if said else ""
    speaker.remark(f"Fill it in, then: tightdp schema check {place}{more}")
    speaker.say(
        f"{place}: {len(columns)} columns to fill in",
        {"file": str(place), "columns": [column._asdict() for column in columns]},
    )
    return Exit.DONE


def _said(given: argparse.Namespace) -> list[str]:
    """What was said of the table, and must be said of it again where a plan is written."""
    first = "--no-header" if given.names is None else "--names"
    stated = {
        first: given.no_header and (given.names is not None or given.widths is None),
        "--header": given.header,
        "--delimiter": given.delimiter is not None,
        "--widths": given.widths is not None,
        "--sheet": given.sheet is not None,
        "--encoding": given.encoding != "utf-8",
    }
    return [option for option, there in stated.items() if there]


def schema_text(name: str, columns: Sequence[HeaderColumn]) -> str:
    """A schema whose facts are still to be filled in.

    >>> print(schema_text("a.csv", [HeaderColumn("age", "number")]).partition("[")[2])
    columns.age]
    # low = 0
    # high = 100
    <BLANKLINE>
    """
    if not columns:
        fail(f"The header of {name} names no column.")
    names = [column.name for column in columns]
    twice = [str(i) for i, name in enumerate(names, start=1) if names.count(name) > 1]
    if twice:
        fail(f"The header has the same name for columns {' and '.join(twice[:2])}: rename one.")
    return "\n".join([_SCHEMA_HEAD.format(name=name), *map(_column, columns)])


def _column(column: HeaderColumn) -> str:
    facts = {"number": _NUMBER, "text": _CATEGORY, "date": _DATE}.get(
        column.kind, _NUMBER + _CATEGORY
    )
    return f"[columns.{toml_key(column.name)}]\n{facts}"


def _check_schema(given: argparse.Namespace, speaker: Speaker) -> Exit:
    schema = _read_schema(given.schema)
    speaker.say(schema, schema.to_dict())
    speaker.remark("It can be used. Next, with the name of the table: tightdp plan init FILE")
    return Exit.DONE


def _read_schema(path: str) -> Schema:
    from tightdp.plans.plan_text import read_schema, refuse

    schema, problems = read_schema(path)
    refuse(problems)
    assert schema is not None
    return schema


# --- plans ---------------------------------------------------------------------------------------


def _init_plan(given: argparse.Namespace, speaker: Speaker) -> Exit:
    data = Path(given.data)
    known = [column.name for column in _header(given)]
    if not check_path("schema", given.schema).exists():
        fail(f"`schema`: there is no file {given.schema!r}. First: tightdp schema init {data}")
    schema = _read_schema(given.schema)
    strangers = [name for name in schema if name not in known]
    if strangers:
        hint = suggestion(strangers[0], known)
        fail(f"{given.schema}: {data} has no column {strangers[0]!r}.{hint}")
    folder = Path(given.out).parent
    if is_address(given.data):
        source = f"address = {quoted(absolute_address(given.data, Path()))}"
        data = Path(data.name.partition("?")[0])
    else:
        source = f"{'folder' if data.is_dir() else 'file'} = {quoted(_from(folder, data))}"
        source += _text_facts(given, known)
    text = plan_text(
        Path(given.out).name,
        source,
        quoted(_from(folder, Path(given.schema))),
        data.name.split(".")[0],
        schema,
    )
    place = write_file(given.out, text, force=given.force)
    speaker.remark(f"Change it as you like, then: tightdp check {place}; tightdp preview {place}")
    speaker.say(f"{place}: a plan for {data}", {"file": str(place)})
    return Exit.DONE


def _from(folder: Path, path: Path) -> str:
    """A path as the plan reads it: from where the plan lies."""
    try:
        return path.resolve().relative_to(folder.resolve()).as_posix()
    except ValueError:
        return path.resolve().as_posix()


def plan_text(name: str, data: str, schema_file: str, stem: str, schema: Schema) -> str:
    """A plan that releases means and counts, with a model to uncomment that its facts allow."""
    head = _PLAN.format(
        name=name,
        title=quoted(stem),
        data=data,
        schema=schema_file,
        ledger=quoted(f"{stem}.ledger"),
    )
    numeric = [c for c in schema if not has_groups(schema[c])]
    categories = [c for c in schema if has_groups(schema[c])]
    parts = []
    if numeric:
        parts.append(_release("means", "mean", f"columns = {json.dumps(numeric)}"))
    parts += [
        _release(f"counts of {c}", "count", f"columns = {json.dumps([c])}") for c in categories
    ]
    more = ""
    if numeric and schema.neighbors is Neighbors.ADD_REMOVE:  # regressions need the number of rows
        more = _release(f"median of {numeric[0]}", "median", f"column = {quoted(numeric[0])}")
    elif len(numeric) > 1:
        facts = f"target = {quoted(numeric[-1])}\nfeatures = {json.dumps(numeric[:-1])}"
        more = _release("regression", "linear_regression", facts)
    if more:
        parts.append("".join(f"# {line}\n" for line in more.splitlines()))
    return "\n".join([head, *parts])


def _release(name: str, kind: str, more: str) -> str:
    return f"[[releases]]\nname = {quoted(name)}\nkind = {quoted(kind)}\n{more}\nweight = 1\n"
