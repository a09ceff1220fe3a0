"""Levels whatever their case and the blanks around them, where a category is loose."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from text_engines import ENGINES

import tightdp as tdp
from tightdp.data.one_pass import quantized_matrix
from tightdp.errors import ParameterError

CELLS = ["ICU", " icu", "Icu\t", "stra\u00dfe", "STRASSE", "I C U", "", "x", "\u00a0Rest "]
LOOSE = [0, 0, 0, 1, 1, 2, 2, 2, 2]
STRICT = [0, 2, 2, 1, 2, 2, 2, 2, 2]


def schema(**options: Any) -> tdp.Schema:
    rule = tdp.Category(["ICU", "stra\u00dfe", "rest"], other="rest", **options)
    return tdp.Schema({"x": rule}, rows=len(CELLS))


@pytest.mark.parametrize("engine", ENGINES)
def test_loose_levels_are_the_same_on_every_engine(engine: str, tmp_path: Path) -> None:
    for options, codes in (({"loose": True}, LOOSE), ({}, STRICT)):
        frame = ENGINES[engine](CELLS, tmp_path)
        assert quantized_matrix(frame, schema(**options), ["x"])[:, 0].tolist() == codes


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The same in the workers."""

    def test_loose_levels(self, spark: Any) -> None:
        frame = spark.createDataFrame([(cell,) for cell in CELLS], ["x"])
        found = quantized_matrix(frame, schema(loose=True), ["x"])[:, 0]
        assert sorted(found.tolist()) == sorted(LOOSE)


def test_numbers_and_texts_are_one_level() -> None:
    rule = tdp.Category(["zero", "1 ", "One"], loose=True, other="zero")
    facts = tdp.Schema({"x": rule}, rows=4)
    cells = [1.0, "1", " 1", "ONE"]
    assert quantized_matrix({"x": cells}, facts, ["x"])[:, 0].tolist() == [1, 1, 1, 2]


def test_levels_that_differ_in_case_only_are_refused() -> None:
    with pytest.raises(ParameterError, match="more than case and blanks"):
        tdp.Category(["no", "No "], loose=True)
    with pytest.raises(ParameterError, match=r"^`loose` must be True or False"):
        tdp.Category(["no", "yes"], loose="yes")  # type: ignore[arg-type]
    assert tdp.Category(["no", "No "], other="no").levels == ("no", "No ")


def test_loose_is_a_fact_of_the_schema(tmp_path: Path) -> None:
    facts = schema(loose=True)
    assert facts != schema()
    assert tdp.Schema.from_dict(facts.to_dict()) == facts
    assert "loose" not in str(schema().to_dict())
    assert "whatever case and blanks" in str(facts)
    place = tmp_path / "schema.toml"
    place.write_text(
        f"rows = {len(CELLS)}\n[columns.x]\n"
        'levels = ["ICU", "stra\u00dfe", "rest"]\nother = "rest"\nloose = true\n',
        encoding="utf-8",
    )
    assert tdp.Schema.from_toml(place) == facts


def test_targets_of_models_may_be_loose(seed: int) -> None:
    words = ["no", "YES", " Yes", "No "] * 250
    table = {"x": [0.0, 1.0, 1.0, 0.0] * 250, "y": words}
    facts = tdp.Schema(
        {"x": tdp.Interval(0, 1), "y": tdp.Category(["no", "yes"], loose=True, other="no")},
        rows=1000,
    )
    model = tdp.LogisticRegression(epsilon=100, bounds=facts, random_state=seed).fit(table, "y")
    assert model.predict({"x": [0.0, 1.0]}).tolist() == ["no", "yes"]
