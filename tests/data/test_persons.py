"""At most so many rows of a person, on every engine, whatever the order."""

from __future__ import annotations

import math

import numpy as np
import pytest
from engine_tables import person_schema, visits

from tightdp.data.columns import ListedCells, NumberCells
from tightdp.data.one_pass import blocks, quantized_matrix
from tightdp.schema import Category, Interval, Schema

pa = pytest.importorskip("pyarrow")


NAN, INF = math.nan, math.inf


@pytest.mark.parametrize("limit", [1, 3, 100])
def test_few_rows_of_a_person_on_every_engine(to_engine, limit):
    schema, table = person_schema(limit), visits()
    order = np.random.default_rng(9).permutation(300)
    first = quantized_matrix(table, schema, ["x", "k"])
    counts = np.bincount(table.column("person").drop_null().to_numpy())
    assert len(first) == np.minimum(counts, limit).sum()
    moved = to_engine(table.take(pa.array(order)))
    np.testing.assert_array_equal(quantized_matrix(moved, schema, ["x", "k"]), first)


@pytest.mark.parametrize("limit", [1, 2])
def test_only_the_rows_of_the_changed_person_change(limit, seed):
    schema, table = person_schema(limit), visits()
    person = np.array(table.column("person").to_pylist(), dtype=float)
    draw = np.random.default_rng(seed)
    old = quantized_matrix(table, schema, ["x", "k"]).tolist()
    for who in range(1, 40, 5):
        x = table.column("x").to_numpy().copy()
        x[person == who] = draw.choice([9.0, -9.0, NAN, 0.5], size=int((person == who).sum()))
        changed = table.set_column(1, "x", pa.array(x))
        new = quantized_matrix(changed, schema, ["x", "k"]).tolist()
        removed = table.filter(pa.array(person != who))
        rest = quantized_matrix(removed, schema, ["x", "k"]).tolist()
        gone = list(old)
        for row in new:
            if row in gone:
                gone.remove(row)
        assert len(gone) <= limit
        assert len(new) == len(old)
        assert len(old) - len(rest) <= limit
        assert all(rest.count(row) <= old.count(row) for row in rest)


def test_no_value_is_preferred_among_the_rows_of_a_person():
    n = 20_000  # two rows each: 0 and 1; the one kept is a fair coin over persons
    table = {"person": np.repeat(np.arange(n), 2), "k": np.tile([0, 1], n)}
    schema = Schema(
        {"k": Category([0, 1], other=0)}, rows=2 * n, person="person", neighbors="add-remove"
    )
    kept = quantized_matrix(table, schema, ["k"])
    assert len(kept) == n
    assert abs(kept.sum() - n / 2) < 5 * math.sqrt(n / 4)  # 5 standard errors


def test_names_of_persons_compare_by_value():
    rows = [1, 1.0, "1", "01", 2**70, 2**70, "b", "b", None, NAN, 0.5, 0.5, INF, -1, -2, b"q", b"q"]
    table = {"person": rows, "x": np.arange(len(rows))}
    schema = Schema({"x": Interval(0, 100)}, rows=20, person="person", neighbors="add-remove")
    assert len(quantized_matrix(table, schema, ["x"])) == 9
    cells = NumberCells(np.array([1.0, NAN, 0.5, 2.0**70, -1.0]))
    words = ListedCells([1, None, 0.5, 2**70, -1]).keys()
    np.testing.assert_array_equal(cells.keys(), words)
    large = np.array([2**64 - 1, 3], dtype=np.uint64)
    np.testing.assert_array_equal(NumberCells(large).keys(), ListedCells([2**64 - 1, 3]).keys())


ONE_PERSON = [(1, 1.0), (1, "1"), (1, True), (-1, "-1"), (2**70, str(2**70)), (0.5, 0.5)]
TWO_PERSONS = [
    (1, "01"), (1, " 1"), (1, "1.0"), (1, "+1"), (1, "1e0"), ("1", "01"), ("1", "1 "),
    (0.5, "0.5"), (0, "-0"), ("a", "A"), ("é", "e\u0301"), ("1", b"1"),
]  # fmt: skip


@pytest.mark.parametrize("limit", [1, 2])
@pytest.mark.parametrize(
    ("names", "persons"), [(n, 1) for n in ONE_PERSON] + [(n, 2) for n in TWO_PERSONS], ids=repr
)
def test_which_texts_are_the_same_person(names, persons, limit):
    """The rule of the docstring. Of somebody who is written in two ways twice the rows are used."""
    schema = Schema(
        {"x": Interval(0, 100)},
        rows=20,
        person="person",
        neighbors="add-remove",
        rows_per_person=limit,
    )
    table = {"person": [*names] * 3, "x": np.arange(6)}
    assert len(quantized_matrix(table, schema, ["x"])) == persons * limit


def test_many_rows_of_persons_are_settled_on_the_way(monkeypatch):
    from tightdp.data import persons

    schema, table = person_schema(2), visits()
    first = quantized_matrix(table, schema, ["x", "k"])
    monkeypatch.setattr(persons, "_LEAST_BUFFER", 10)
    parts = blocks(table, schema, ["x", "k"], block_rows=7)
    rows = np.concatenate([part.matrix() for part in parts])
    np.testing.assert_array_equal(rows, first)
