"""A level is its value, however it is stored; unseen cells have a level of their own."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError

pa = pytest.importorskip("pyarrow")
pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")
duckdb = pytest.importorskip("duckdb")
pq = pytest.importorskip("pyarrow.parquet")

STARS = [1, 2, 2, 3, 3, 3, None, 9]
STORED = {
    "integers": pa.int64(),
    "bytes": pa.int8(),
    "floats": pa.float64(),
    "decimals": pa.decimal128(5, 2),
    "texts": pa.string(),
    "codes": pa.dictionary(pa.int8(), pa.string()),
}


def _parquet(table: Any, folder: Path) -> Path:
    pq.write_table(table, folder / "t.parquet")
    return folder / "t.parquet"


def _csv(table: Any, folder: Path) -> Path:
    pl.from_arrow(table).write_csv(folder / "t.csv")
    return folder / "t.csv"


ENGINES: dict[str, Any] = {
    "arrow": lambda table, _: table,
    "pandas": lambda table, _: table.to_pandas(),
    "pandas on arrow": lambda table, _: table.to_pandas(types_mapper=pd.ArrowDtype),
    "polars": lambda table, _: pl.from_arrow(table),
    "duckdb": lambda table, _: duckdb.from_arrow(table),
    "lists": lambda table, _: table.to_pydict(),
    "parquet": _parquet,
    "csv": _csv,
}


@pytest.mark.parametrize("levels", [["1", "2", "3"], [1, 2, 3], [1.0, "2", 3]], ids=str)
@pytest.mark.parametrize("stored", STORED)
@pytest.mark.parametrize("engine", ENGINES)
def test_a_level_is_its_value(levels, stored, engine, tmp_path):
    """Texts as levels once put all numbers of a frame into the first of them."""
    cells = pa.array(STARS, type=pa.int64()).cast(pa.float64())
    kind = STORED[stored]
    if stored in ("texts", "codes"):
        cells = cells.cast(pa.int64()).cast(pa.string())
        cells = cells.dictionary_encode() if stored == "codes" else cells
    else:
        cells = cells.cast(kind)
    frame = ENGINES[engine](pa.table({"stars": cells}), tmp_path)
    counts = tdp.Counts(tdp.Schema({"stars": tdp.Category(levels)}, rows=len(STARS)))
    assert counts.measure(frame) == [1, 2, 3, 2]


def test_truth_is_a_level_too(tmp_path):
    table = pa.table({"k": [True, True, False, None]})
    for levels in (["True", "False"], ["1", "0"], [1, 0], [True, False], ["TRUE", "false"]):
        counts = tdp.Counts(tdp.Schema({"k": tdp.Category(levels)}, rows=4))
        for engine in ENGINES.values():
            assert counts.measure(engine(table, tmp_path)) == [2, 1, 1]


def test_letters_come_first():
    rule = tdp.Category(["01", "1", "2", "a"])
    cells = ["01", "1", 1, 2, "2.0", "1.0", "a", "A", "nan", float("nan")]
    assert rule.codes(cells).tolist() == [0, 1, 4, 2, 2, 4, 3, 4, 4, 4]


def test_unseen_cells_have_a_level_of_their_own():
    assert tdp.Category(["a", "b"]).levels == ("a", "b", "other")
    assert tdp.Category(["a", "other", "b"]).levels == ("a", "other", "b")
    assert tdp.Category(["a", "other", "b"]).other == "other"
    assert tdp.Category(["a", "Other "], loose=True).other == "Other "
    assert tdp.Category(["a", "b"], other="a").levels == ("a", "b")
    schema = tdp.Schema({"k": tdp.Category(["a", "b"])}, rows=3)
    assert tdp.Schema.from_dict(schema.to_dict()) == schema
    assert tdp.Counts(schema).measure({"k": ["zz", None, "b"]}) == [0, 1, 2]


@pytest.mark.parametrize(
    ("levels", "words"),
    [
        ([1, "1"], "1 and '1' are one value"),
        (["1.0", 1], "1 and '1.0' are one value"),
        ([True, "true"], "True and 'true' are one value"),
        (["a", "Other"], "say other='Other'"),
    ],
)
def test_levels_that_could_be_mistaken_are_refused(levels, words):
    with pytest.raises(ParameterError, match=words):
        tdp.Category(levels)


def test_two_classes_need_a_word_about_unseen_labels():
    """Three levels are no two classes, and the error says how to state two."""
    table = {"x": np.zeros(4), "y": ["no", "yes", "no", "yes"]}
    facts = {"x": tdp.Interval(0, 1), "y": tdp.Category(["no", "yes"])}
    with pytest.raises(ParameterError, match="other='no'"):
        tdp.LogisticRegression(epsilon=1, bounds=tdp.Schema(facts, rows=4)).fit(table, "y")
    facts["y"] = tdp.Category(["no", "yes"], other="no")
    model = tdp.LogisticRegression(epsilon=1, bounds=tdp.Schema(facts, rows=4)).fit(table, "y")
    assert model.classes_.tolist() == ["no", "yes"]
