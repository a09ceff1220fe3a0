"""Public facts cannot be changed once they are checked, and travel whole."""

from __future__ import annotations

import copy
import pickle
from dataclasses import FrozenInstanceError
from pathlib import Path
from typing import Any

import pytest

import tightdp as tdp
from tightdp.mechanisms.ranks import BoundsFinder

FACTS = {"x": tdp.Interval(0, 10, missing=1), "k": tdp.Category(["a", "b"], other="b")}


def schema(**other: Any) -> tdp.Schema:
    given = {"rows": 9, "neighbors": "add-remove", "person": "id", "rows_per_person": 3, "bits": 7}
    return tdp.Schema(FACTS, **(given | other))


def test_columns_cannot_be_changed_after_the_checks() -> None:
    facts = schema()
    columns: Any = facts.columns
    mechanism = tdp.AdditiveMechanism(tdp.Sums(facts, ["x"]), epsilon=1)
    with pytest.raises(TypeError):
        columns["x"] = tdp.Interval(0, 1e9)
    with pytest.raises(TypeError):
        del columns["x"]
    assert not hasattr(columns, "update")
    assert not hasattr(columns, "pop")
    with pytest.raises(FrozenInstanceError):
        facts.columns = {"x": tdp.Interval(0, 1e9)}  # type: ignore[misc]
    assert mechanism.statistic.schema["x"] == tdp.Interval(0, 10, missing=1)


def test_the_mapping_of_the_caller_is_not_kept() -> None:
    given = dict(FACTS)
    facts = tdp.Schema(given, rows=9)
    given["x"] = tdp.Interval(0, 1e9)
    assert facts["x"] == FACTS["x"]
    assert facts.select(["x"]) is not facts.columns


@pytest.mark.parametrize(
    "copied", [copy.copy, copy.deepcopy, lambda s: pickle.loads(pickle.dumps(s))]
)
def test_copies_are_equal_hash_alike_and_are_read_only(copied: Any) -> None:
    facts = schema()
    other = copied(facts)
    assert other == facts
    assert hash(other) == hash(facts)
    assert other.to_json() == facts.to_json()
    assert list(other) == list(facts)
    with pytest.raises(TypeError):
        other.columns["x"] = tdp.Interval(0, 1e9)


def test_its_repr_makes_it_again() -> None:
    names = {"Schema": tdp.Schema, "Interval": tdp.Interval, "Category": tdp.Category}
    assert eval(repr(schema()), names) == schema()
    assert "mappingproxy" not in repr(schema())


def test_magnitudes_travel_too() -> None:
    finder = BoundsFinder("x", rows=9, neighbors="replace-one", epsilon=1, smallest=1, largest=100)
    assert pickle.loads(pickle.dumps(finder.schema)) == finder.schema


@pytest.mark.parametrize(
    "other",
    [{"rows": 8}, {"bits": 8}, {"person": "house"}, {"rows_per_person": 2}],
)
def test_any_other_fact_makes_another_schema(other: dict[str, Any]) -> None:
    assert schema(**other) != schema()
    assert hash(schema(**other)) != hash(schema())  # not promised, but so for these


def test_a_schema_is_a_key_whatever_the_order_of_its_columns() -> None:
    turned = tdp.Schema(dict(reversed(FACTS.items())), 9, **schema()._options())
    assert turned == schema()
    assert {schema(): 1}[turned] == 1


def test_toml_and_dictionaries_give_the_same_facts(tmp_path: Path) -> None:
    place = tmp_path / "schema.toml"
    place.write_text(
        'rows = 9\nneighbors = "add-remove"\nbits = 7\nperson = "id"\nrows_per_person = 3\n'
        "[columns]\nx = {low = 0, high = 10, missing = 1}\n"
        'k = {levels = ["a", "b"], other = "b"}\n'
    )
    assert tdp.Schema.from_toml(place) == schema()
    assert tdp.Schema.from_dict(schema().to_dict()) == schema()
