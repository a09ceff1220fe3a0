"""Law: a cell is read from itself alone.

Reading a table and then keeping some rows equals keeping the rows and then reading them, in every
container, for every kind of column and every odd cell; and all containers read a cell as the same.
Where one cell decides how another is read, one person changes what is summed of all others, and no
noise was made for that.
"""

from __future__ import annotations

import csv
import math
import random
from collections.abc import Callable, Iterator, Sequence
from decimal import Decimal
from fractions import Fraction
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from containers import CONTAINERS, KINDS, Container, Kinds, Row, in_spark
from enrolled import ESTIMATORS

import tightdp as tdp
from tightdp import column_rules
from tightdp.data import columns, csv_pieces, engines, library_columns, one_pass
from tightdp.data.spark import SparkTable
from tightdp.data.table import recognise
from tightdp.estimators import inputs

BIG = 2**53 + 1
ROWS = 16
INTERVALS = (tdp.Interval(-1e30, 1e30), tdp.Interval(0, 9, decimal=",", thousands="."))
INTERVALS += (
    tdp.Date("2014-01-01", "2015-12-31"),
    tdp.Date("1980-06-01", "2030-01-01", format="%d.%m.%Y", zone="Europe/Berlin"),
)
CATEGORIES = (
    tdp.Category(["a", "b", "1", "2", str(BIG), "é"]),
    tdp.Category([0, 1, 2, BIG, 0.5, "a"]),
    tdp.Category(["A", "01", "1", "many"], loose=True),
)
Reading = list[tuple[Any, ...]]


def drawn_rows(kinds: Sequence[str], seed: int, rows: int = ROWS) -> list[Row]:
    """Rows of random odd cells, one column for each kind; a table has at least one missing cell."""
    draw = random.Random(seed)
    table = [{kind: draw.choice(KINDS[kind].cells) for kind in kinds} for _ in range(rows)]
    for kind in kinds:
        if None in KINDS[kind].cells:
            draw.choice(table)[kind] = None
    return table


def subsets(rows: int, seed: int) -> Iterator[list[int]]:
    """Some single rows, and some of every size."""
    draw = random.Random(seed)
    sizes = (1, 1, 1, 2, rows // 2, rows - 1)
    yield from (sorted(draw.sample(range(rows), size)) for size in sizes)


# --- reading --------------------------------------------------------------------------------------


def read(frame: Any, names: Sequence[str], block: int = 5) -> Reading:
    """All that is ever read of every cell, row by row: numbers, levels and persons."""
    schema = tdp.Schema({name: tdp.Interval(0, 1) for name in names}, rows=1)
    found: Reading = []
    for chunk in recognise(frame, schema).chunks(names, block):
        found += zip(*(_cell_readings(chunk[name]) for name in names), strict=True)
    return found


def _cell_readings(cells: Any) -> list[Any]:
    numbers = [[_shown(x) for x in cells.numbers(rule)] for rule in (None, *INTERVALS)]
    codes = [cells.codes(rule).tolist() for rule in CATEGORIES]
    gone = [cells.missing(rule).tolist() for rule in (*INTERVALS, *CATEGORIES)]
    return list(zip(*numbers, *codes, *gone, map(tuple, cells.keys().tolist()), strict=True))


def _shown(number: float) -> str:
    return "missing" if math.isnan(number) else (float(number) + 0.0).hex()


def exceptions_to(
    law: Callable[[list[Row]], list[Any]], rows: list[Row], seed: int, *, singles: bool = False
) -> list[Any]:
    """Sets of rows that are read otherwise when they are alone; a failure is one too."""
    try:
        whole = law(rows)
    except Exception as error:
        return [type(error).__name__]
    found: list[Any] = [] if len(whole) == len(rows) else ["rows"]
    alone = [[i] for i in range(len(rows))] if singles else []
    for kept in [*alone, *subsets(len(rows), seed)]:
        try:
            same = law([rows[i] for i in kept]) == [whole[i] for i in kept]
        except Exception:
            same = False
        if not same:
            found.append(kept)
    return found


def reading_in(name: str, kinds: Kinds, folder: Path) -> Callable[[list[Row]], Reading]:
    """Rows to what is read of them in a container."""
    return lambda rows: read(CONTAINERS[name].build(rows, kinds, folder), list(kinds))


@pytest.mark.parametrize("name", CONTAINERS)
def test_a_cell_is_read_from_itself_alone(name, seed, tmp_path):
    kinds = {kind: kind for kind in sorted(CONTAINERS[name].holds)}
    rows = drawn_rows(list(kinds), seed)
    assert exceptions_to(reading_in(name, kinds, tmp_path), rows, seed) == []


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_every_odd_cell_is_read_the_same_among_others_and_alone(kind, tmp_path):
    """Every cell of the kind, one after the other, among all others."""
    rows = [{"x": cell} for cell in KINDS[kind].cells]
    for container in CONTAINERS.values():
        if kind in container.holds:
            whole = read(container.build(rows, {"x": kind}, tmp_path), ["x"], block=len(rows))
            alone = [read(container.build([r], {"x": kind}, tmp_path), ["x"])[0] for r in rows]
            assert whole == alone, container.name


# --- one reading for all containers ---------------------------------------------------------------

# In a CSV file a number is a text: it is read by the marks that the schema states, and compared by
# letters first. 1.0 and "1.0" are two persons.
# A date in a file is a text: of the formats only ISO 8601 reads it.
_AS_TEXT = slice(0, 2), slice(3, 4), slice(5, 7)
_TEXTS = frozenset({"text", "trimmed", "coded", "bytes"})
_SAME_PERSON = _TEXTS | {"integer", "unsigned", "huge", "coded_integer"}


def disagreements(rows: list[Row], kind: str, folder: Path) -> list[str]:
    """Containers that read these rows otherwise than lists do."""
    truth = reading_in("lists", {"x": kind}, folder)(rows)
    found = []
    for name, container in CONTAINERS.items():
        if kind not in container.holds:
            continue
        reading = reading_in(name, {"x": kind}, folder)(rows)
        text = container.engine is engines.CsvTable and kind not in _TEXTS
        pairs = zip(reading, truth, strict=True)
        if not all(_comparable(a, kind, text) == _comparable(b, kind, text) for a, b in pairs):
            found.append(name)
    return found


def _comparable(row: tuple[Any, ...], kind: str, text: bool) -> tuple[Any, ...]:
    cell = row[0]
    if not text:
        return tuple(cell)
    person = cell[-1:] if kind in _SAME_PERSON else ()
    return (*(value for part in _AS_TEXT for value in cell[part]), *person)


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_all_containers_read_a_cell_as_the_same(kind, tmp_path):
    rows = [{"x": cell} for cell in KINDS[kind].cells]
    assert disagreements(rows, kind, tmp_path) == []


def is_level(cell: Any, level: Any, others: Sequence[Any]) -> bool:
    """Whether a cell is a level, in the words of the documents and without the code."""
    texts = [other for other in others if isinstance(other, str)]
    if type(cell) is str and cell in texts:
        return bool(cell == level)
    alike = [
        other for other in others if _value(other) is not None and _value(other) == _value(cell)
    ]
    return len(alike) == 1 and alike[0] == level


def _value(cell: Any) -> Fraction | float | None:
    if type(cell) is str:
        words = {"true": 1, "false": 0}
        cell = words.get(cell.strip().lower(), cell.strip())
        try:
            cell = Fraction(int(cell))
        except ValueError:
            try:
                cell = float(cell)
            except ValueError:
                return None
    if type(cell) not in (bool, int, float, Decimal, Fraction) or cell != cell:
        return None
    if type(cell) is Decimal and cell != cell.to_integral_value():
        cell = float(cell)
    return cell if type(cell) is float and math.isinf(cell) else Fraction(cell)


@pytest.mark.parametrize("kind", sorted(set(KINDS) - {"object"}))
def test_a_cell_counts_as_a_level_only_if_it_is_its_value(kind):
    """Unseen and missing cells have a level of their own, unless the schema says otherwise."""
    assert wrong_levels(kind) == []


def wrong_levels(kind: str) -> list[Any]:
    found = []
    for rule in CATEGORIES[:2]:
        stated = rule.levels[:-1]
        cells = [
            cell for cell in KINDS[kind].cells if not isinstance(cell, str) or len(cell) < 2**16
        ]
        for cell, code in zip(cells, rule.codes(cells), strict=True):
            level = rule.levels[code]
            should = [other for other in stated if is_level(cell, other, stated)] or ["other"]
            if level != should[0]:
                found.append((rule, level))
    return found


# --- estimators -----------------------------------------------------------------------------------


class _ReadError(Exception):
    """What a fit would read, in the place of the fit."""


def fitted_cells(model: Any, X: Any, y: Any) -> list[list[int]]:
    """The quantised rows that a fit reads, after all its checks."""

    def stop(self: Any, problem: Any, key: Any, rng: Any) -> Any:
        raise _ReadError(problem)

    kind = type("Stopped", (type(model),), {"_fit": stop})
    model.__class__ = kind
    with pytest.raises(_ReadError) as caught:
        model.fit(X, y)
    problem = caught.value.args[0]
    return one_pass.quantized_matrix(problem.frame, problem.schema, problem.columns).tolist()


SCHEMA = tdp.Schema(
    {
        "x": tdp.Interval(-1e19, 1e19, missing=0),
        "k": tdp.Category([0, 1, BIG, BIG + 1]),
        "t": tdp.Category(["a", "1", BIG, BIG - 1], other="a"),
    },
    rows=ROWS,
    neighbors="add-remove",
)
IN_MEMORY = [
    name
    for name, container in CONTAINERS.items()
    if container.engine in (columns.ColumnTable, columns.PandasTable)
    and "matrix" != name != "structured"
] + ["polars", "narwhals", "Arrow table", "Arrow chunked table", "Arrow batch"]


def _lists(rows: list[Row]) -> Any:
    return [list(row.values()) for row in rows]


def _masked(rows: list[Row]) -> Any:
    cells = CONTAINERS["matrix"].build(rows, dict.fromkeys(rows[0], "object"))
    return np.ma.array(cells, mask=[[cell is None for cell in row] for row in cells])


def _nameless(rows: list[Row]) -> Any:
    frame = CONTAINERS["pandas nullable"].build(rows, dict.fromkeys(rows[0], "integer"))
    return frame.set_axis(range(frame.shape[1]), axis=1)


BARE: dict[str, Callable[[list[Row]], Any]] = {
    "rows of lists": _lists,
    "rows of tuples": lambda rows: tuple(map(tuple, _lists(rows))),
    "matrix": lambda rows: CONTAINERS["matrix"].build(rows, dict.fromkeys(rows[0], "object")),
    "masked matrix": _masked,
    "frame without names": _nameless,
}


def model() -> Any:
    return tdp.GaussianNB(epsilon=1, bounds=SCHEMA)


def fit_exceptions(split: Callable[[list[Row]], tuple[Any, Any]], rows: list[Row]) -> list[Any]:
    """Sets of rows that a fit reads otherwise when they are alone."""

    def law(part: list[Row]) -> list[Any]:
        return fitted_cells(model(), *split(part))

    return exceptions_to(law, rows, 3, singles=True)


def in_container(name: str, kind: str = "integer") -> Callable[[list[Row]], tuple[Any, Any]]:
    def split(rows: list[Row]) -> tuple[Any, Any]:
        build = CONTAINERS[name].build
        target = build([{"t": row["t"]} for row in rows], {"t": kind})["t"]
        return build([{"x": r["x"], "k": r["k"]} for r in rows], {"x": kind, "k": kind}), target

    return split


def in_bare(name: str) -> Callable[[list[Row]], tuple[Any, Any]]:
    def split(rows: list[Row]) -> tuple[Any, Any]:
        X = BARE[name]([{"x": row["x"], "k": row["k"]} for row in rows])
        return X, [row["t"] for row in rows]

    return split


TABLES = ("pandas nullable", "polars", "narwhals", "Arrow table", "Arrow batch")


@pytest.mark.filterwarnings("ignore:A column-vector y")  # as scikit-learn says it
@pytest.mark.parametrize("name", TABLES)
@pytest.mark.parametrize("kind", ["integer", "text"])
def test_a_target_in_a_table_of_one_column_is_read_from_itself_alone(name, kind):
    """One null made doubles of all labels, and those above 2**53 became one."""

    def split(rows: list[Row]) -> tuple[Any, Any]:
        build = CONTAINERS[name].build
        parts = ({"x": kind, "k": kind}, {"t": kind})
        X, y = (build([{c: r[c] for c in part} for r in rows], part) for part in parts)
        return X, y

    rows = target_rows(kind)
    assert fit_exceptions(split, rows) == []
    assert fitted_cells(model(), *split(rows)) == fitted_cells(model(), *in_bare("matrix")(rows))


def target_rows(kind: str) -> list[Row]:
    """Every cell of the kind in both features and in the target."""
    cells = KINDS[kind].cells
    turned = [(*cells[i:], *cells[:i]) for i in (0, 1, 3)]
    return [dict(zip("xkt", row, strict=True)) for row in zip(*turned, strict=True)]


@pytest.mark.parametrize("name", IN_MEMORY)
def test_a_fit_reads_a_cell_from_itself_alone(name):
    kinds = {"integer", "coded_integer", "real", "text", "object"} & CONTAINERS[name].holds
    for kind in sorted(kinds):
        assert fit_exceptions(in_container(name, kind), target_rows(kind)) == []


@pytest.mark.parametrize("name", BARE)
def test_a_fit_of_rows_without_names_reads_a_cell_from_itself_alone(name):
    kind = "integer" if name == "frame without names" else "object"
    assert fit_exceptions(in_bare(name), target_rows(kind)) == []
    assert fit_exceptions(in_bare(name), target_rows("integer")) == []


FACTS = tdp.Schema(
    {
        **dict.fromkeys("xy", tdp.Interval(-1e19, 1e19, missing=0)),
        "k": tdp.Category([0, 1, BIG, BIG + 1], other=0),
        "t": tdp.Category([BIG, BIG + 1], other=BIG),
    },
    rows=ROWS,
)


@pytest.mark.parametrize("name", ["Series", "Arrow chunked table", "lists"])
@pytest.mark.parametrize("fit", ESTIMATORS)
def test_every_estimator_reads_by_the_same_reader(fit, name, seed):
    """A row among nulls and integers above 2**53, and the same row alone."""
    entry, build = ESTIMATORS[fit], CONTAINERS[name].build
    names = [*entry.features, *([entry.target] if entry.target else [])]
    drawn = [drawn_rows(["integer"], seed + j) for j in range(len(names))]
    table = [
        {name: cell["integer"] for name, cell in zip(names, row, strict=True)}
        for row in zip(*drawn, strict=True)
    ]

    def cells(part: list[Row]) -> list[list[int]]:
        facts = tdp.Schema(FACTS.select(names), len(part), bits=FACTS.bits)
        found = entry.make(epsilon=1, bounds=facts)
        features = [{name: row[name] for name in entry.features} for row in part]
        X = build(features, dict.fromkeys(entry.features, "integer"))
        if entry.target is None:
            return fitted_cells(found, X, None)
        y = [{"y": row[entry.target]} for row in part]
        return fitted_cells(found, X, build(y, {"y": "integer"})["y"])

    whole = cells(table)
    assert all(cells([table[i]]) == [whole[i]] for i in range(0, ROWS, 3))


# --- planted faults -------------------------------------------------------------------------------


OPEN_COLUMN = columns.open_column


def old_column(data: Any) -> Any:
    """Columns as a whole: integers with a null become doubles, nulls the last dictionary entry."""
    plain = isinstance(data, Sequence) and not hasattr(data, "dtype")
    return OPEN_COLUMN(list(data) if plain else np.asarray(data))


@pytest.mark.parametrize(
    ("name", "kind"),
    [("Series", "integer"), ("polars Series", "integer"), ("chunked arrays", "coded_integer")],
)
def test_a_column_converted_as_a_whole_is_noticed(name, kind, seed, tmp_path, monkeypatch):
    rows = [{kind: cell} for cell in KINDS[kind].cells]
    law = reading_in(name, {kind: kind}, tmp_path)
    assert exceptions_to(law, rows, seed) == []
    monkeypatch.setattr(columns, "open_column", old_column)
    assert exceptions_to(law, rows, seed) != []


def test_a_target_converted_as_a_whole_is_noticed(monkeypatch):
    right = inputs.of_arrays

    def old(features: Any, y: Any, *rest: Any, **named: Any) -> Any:
        return right(features, np.asarray(y), *rest, **named)

    monkeypatch.setattr(inputs, "of_arrays", old)
    assert fit_exceptions(in_container("Series"), target_rows("integer")) != []


def test_a_list_converted_as_a_whole_is_noticed(monkeypatch):
    def old(X: Any) -> Any:
        found = np.asarray([[np.nan if cell is None else cell for cell in row] for row in X])
        return [found[:, j] for j in range(found.shape[1])], len(found)

    rows = target_rows("integer")
    monkeypatch.setattr(inputs, "bare_columns", old)
    assert fit_exceptions(in_bare("rows of lists"), rows) != []


def test_text_that_stops_the_reading_is_noticed(seed, tmp_path, monkeypatch):
    rows = drawn_rows(["bytes"], seed)
    monkeypatch.setattr(library_columns, "_objects", lambda array: array.to_pylist())
    for name in ("Arrow table", "Parquet"):
        assert exceptions_to(reading_in(name, {"bytes": "bytes"}, tmp_path), rows, seed) != []


def test_a_limit_of_the_process_is_noticed(tmp_path, monkeypatch):
    """The reader of the standard library, at the limit that another read has put back."""

    def old(file: Any, mark: str, width: int) -> Iterator[tuple[list[str], int]]:
        for cells in csv.reader(iter(lambda: file.readline(1 << 30), ""), delimiter=mark):
            yield cells[:width], 0

    monkeypatch.setattr(csv_pieces, "records", old)
    rows = [{"x": cell} for cell in KINDS["text"].cells]
    with pytest.raises(csv.Error, match="field limit"):
        disagreements(rows, "text", tmp_path)


def test_a_level_that_depends_on_the_engine_is_noticed(tmp_path, monkeypatch):
    """Numbers that are no text levels, as in the first edition."""

    def old(rule: Any) -> dict[Any, int]:
        return {v: i for i, v in enumerate(rule.levels) if not isinstance(v, str)}

    monkeypatch.setattr(column_rules, "level_tables", lambda rule: (rule._letters(), old(rule)))
    monkeypatch.setattr(columns, "_integer_codes", lambda values, rule: None)  # made of them
    rows = [{"x": cell} for cell in KINDS["integer"].cells]
    assert {"csv", "csv.gz"} <= set(disagreements(rows, "integer", tmp_path))
    assert wrong_levels("integer") != []


def test_unseen_cells_in_the_first_level_are_noticed(monkeypatch):
    codes = tdp.Category.codes

    def old(rule: Any, cells: Any) -> Any:
        found = codes(rule, cells)
        return np.where(found == rule.levels.index(rule.other), 0, found)

    monkeypatch.setattr(tdp.Category, "codes", old)
    assert wrong_levels("text") != []


# --- nobody is left out ---------------------------------------------------------------------------


def descendants(kind: type) -> Iterator[type]:
    for child in kind.__subclasses__():
        yield child
        yield from descendants(child)


def test_every_engine_has_a_container(tmp_path):
    known = {container.engine for container in CONTAINERS.values()} | {SparkTable}
    named = {kind for kind in descendants(columns.Engine) if kind.__module__.startswith("tightdp")}
    assert named == known
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=1)
    for container in CONTAINERS.values():
        frame = container.build([{"x": 1}], {"x": "integer"}, tmp_path)
        assert type(recognise(frame, schema)) is container.engine


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The same on a real session, where quantised rows are all that is seen."""

    def test_a_cell_is_read_from_itself_alone(self, spark, seed, tmp_path):
        container = in_spark(spark)
        kinds = sorted(container.holds)
        rows = drawn_rows(kinds, seed)
        facts: dict[str, Any] = {kind: tdp.Interval(-1e19, 1e19) for kind in kinds}
        facts["text"] = facts["bytes"] = CATEGORIES[0]
        facts["integer"] = facts["coded_integer"] = CATEGORIES[1]
        facts["date"] = facts["time"] = INTERVALS[2]
        schema = tdp.Schema(facts, rows=ROWS, neighbors="add-remove")

        def cells(part: list[Row], make: Container, folder: str) -> list[list[int]]:
            (tmp_path / folder).mkdir()
            frame = make.build(
                part, dict.fromkeys(kinds) | {k: k for k in kinds}, tmp_path / folder
            )
            return sorted(one_pass.quantized_matrix(frame, schema, kinds).tolist())

        whole = cells(rows, container, "whole")
        assert whole == cells(rows, CONTAINERS["lists"], "lists")
        alone = [cells([rows[i]], container, f"row {i}")[0] for i in range(4)]
        rest = cells(rows[4:], container, "rest")
        assert sorted([*alone, *rest]) == whole
