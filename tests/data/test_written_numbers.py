"""Texts that are numbers: blanks around them, and the marks that an interval states."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from text_engines import ENGINES

import tightdp as tdp
from tightdp.data.columns import ListedCells
from tightdp.data.one_pass import quantized_matrix
from tightdp.errors import ParameterError

pd = pytest.importorskip("pandas")
pl = pytest.importorskip("polars")

GONE = 4999.0
BLANKS = [
    " 12 ",
    "\t12",
    "12\t",
    "\u00a012",
    "\u202f12 ",
    "12\r",
    "  -3.5e0 ",
    " true ",
    "  ",
    "1 2",
]
BLANKS_READ = [12.0, 12.0, 12.0, 12.0, 12.0, 12.0, -3.5, 1.0, GONE, GONE]
PLAIN, POINTS = {}, {"thousands": ","}
COMMAS, BLANK = {"decimal": ",", "thousands": "."}, {"decimal": ",", "thousands": " "}
WRITTEN: dict[str, tuple[dict[str, str], dict[str, float]]] = {
    "as Python": (PLAIN, {"1234.5": 1234.5, "1,234.5": GONE, "$12": GONE, "34,2": GONE}),
    "thousands": (
        POINTS,
        {
            "1,234.5": 1234.5,
            "1234.5": 1234.5,
            " -1,234 ": -1234.0,
            "12,5": GONE,
            "1,2345": GONE,
            "0,001,234": 1234.0,
            "1,234,56": GONE,
            ",234": GONE,
            "1.234,5": GONE,
            "0,00,234": 234.0,
            "true": 1.0,
            "$1,234": GONE,
            ".5": 0.5,
            "1e3": 1000.0,
            "1,234.5e-1": 123.45,
        },
    ),
    "commas": (
        COMMAS,
        {
            "1.234,5": 1234.5,
            "34,2": 34.2,
            "-,5": -0.5,
            "1.5": GONE,
            "1.500": 1500.0,
            "7,": 7.0,
            "1,234.5": GONE,
            "": GONE,
            "n/a": GONE,
            "1 234": GONE,
        },
    ),
    "decimal alone": ({"decimal": ","}, {"34,2": 34.2, "1.234": GONE, "1.234,5": GONE, "8": 8.0}),
    "blanks": (BLANK, {"1 234,5": 1234.5, "1\u202f234": 1234.0, "1\u00a0234": 1234.0, "1 2": GONE}),
    "apostrophes": ({"thousands": "'"}, {"1'234.5": 1234.5, "1\u2019234": 1234.0, "1,234": GONE}),
}


def schema(rows: int, **marks: str) -> tdp.Schema:
    return tdp.Schema({"x": tdp.Interval(-5000, 5000, missing=GONE, **marks)}, rows=rows)


def check(frame: Any, read: list[float], **marks: str) -> None:
    facts = schema(len(read), **marks)
    expected = quantized_matrix({"x": np.array(read)}, schema(len(read)), ["x"])
    assert quantized_matrix(frame, facts, ["x"]).tolist() == expected.tolist()


@pytest.mark.parametrize("engine", ENGINES)
def test_blanks_around_a_number_do_not_matter(engine: str, tmp_path: Path) -> None:
    check(ENGINES[engine](BLANKS, tmp_path), BLANKS_READ)


@pytest.mark.parametrize("name", WRITTEN)
@pytest.mark.parametrize("engine", ENGINES)
def test_marks_mean_the_same_in_every_engine(engine: str, name: str, tmp_path: Path) -> None:
    marks, cells = WRITTEN[name]
    check(ENGINES[engine](list(cells), tmp_path), list(cells.values()), **marks)


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The same in the workers."""

    def test_blanks_and_marks(self, spark: Any) -> None:
        for marks, cells in [
            (PLAIN, dict(zip(BLANKS, BLANKS_READ, strict=True))),
            WRITTEN["commas"],
        ]:
            frame = spark.createDataFrame([(cell,) for cell in cells], ["x"])
            found = quantized_matrix(frame, schema(len(cells), **marks), ["x"])[:, 0]
            expected = quantized_matrix(
                {"x": np.array(list(cells.values()))}, schema(len(cells)), ["x"]
            )[:, 0]
            assert sorted(found.tolist()) == sorted(expected.tolist())


@pytest.mark.parametrize("marks", [COMMAS, POINTS])
def test_columns_of_numbers_have_no_marks(marks: dict[str, str]) -> None:
    values = np.array([1.5, -1234.25, math.nan, 1e9])
    for frame in ({"x": values}, pl.DataFrame({"x": values}), pd.DataFrame({"x": values})):
        check(frame, [1.5, -1234.25, GONE, 5000], **marks)
    large = pl.DataFrame({"x": pl.Series([12, -7], dtype=pl.Int128)})  # comes as digits
    check(large, [12, -7], **marks)


def test_no_text_raises_and_long_ones_take_no_time(seed: int) -> None:
    rng = np.random.default_rng(seed)
    letters = np.array(list("0123456789.,' eE+-\u00a0x٣"))
    cells = ["".join(rng.choice(letters, rng.integers(0, 12))) for _ in range(2000)]
    cells += ["1,234" * 20_000, "1" * 50_000, "1" + ",234" * 20_000, "12," * 20_000 + "x"]
    for marks, _ in WRITTEN.values():
        numbers = ListedCells(cells).numbers(tdp.Interval(0, 1, **marks))
        assert numbers.shape == (len(cells),)


@pytest.mark.parametrize(
    ("marks", "word"),
    [
        ({"decimal": ";"}, "decimal"),
        ({"thousands": "x"}, "thousands"),
        ({"thousands": "."}, "thousands"),
        ({"decimal": ",", "thousands": ","}, "thousands"),
        ({"thousands": None}, "thousands"),
    ],
)
def test_bad_marks_are_refused(marks: dict[str, Any], word: str) -> None:
    with pytest.raises(ParameterError, match=f"^`{word}`"):
        tdp.Interval(0, 1, **marks)


def test_marks_are_facts_of_the_schema(tmp_path: Path) -> None:
    facts = schema(4, **COMMAS)
    assert facts != schema(4)
    assert tdp.Schema.from_dict(facts.to_dict()) == facts
    assert "written 1.234,5" in str(facts)
    assert "decimal" not in str(schema(4).to_dict())
    place = tmp_path / "schema.toml"
    place.write_text(
        "rows = 4\n[columns.x]\nlow = -5000\nhigh = 5000\nmissing = 4999\n"
        'decimal = ","\nthousands = "."\n'
    )
    assert tdp.Schema.from_toml(place) == facts


def test_rules_made_from_others_keep_the_marks(seed: int) -> None:
    cells = [f"{i // 10},{i % 10}" for i in range(100)]
    facts = tdp.Schema(
        {"x": tdp.Interval(0, 10, decimal=","), "y": tdp.Interval(0, 10, decimal=",")}, rows=100
    )
    table = {"x": cells, "y": cells}
    through_zero = tdp.KNormLinearRegression(facts, features=["x"], target="y", epsilon=200)
    assert through_zero.rows.schema["x"].decimal == ","
    density = tdp.Density(epsilon=200, bounds=facts.only(["x"]), random_state=seed).fit(
        {"x": cells}
    )
    assert np.isfinite(density.score_samples({"x": ["5,5"]})).all()
    assert not np.isfinite(density.score_samples({"x": ["55,5"]})).any()
    line = tdp.LinearRegression(epsilon=1000, bounds=facts, random_state=seed).fit(table, "y")
    assert line.coef_[0] == pytest.approx(1, abs=0.05)
