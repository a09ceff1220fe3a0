"""Law of persons: each is read off its own cell, in every container and whatever is beside it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from containers import CONTAINERS, KINDS, in_spark

import tightdp as tdp
from tightdp.data.person_rows import persons_by_rows

SCHEMA = tdp.Schema({"y": tdp.Interval(0, 1)}, rows=90, neighbors="add-remove", person="who")
DATED = {"date", "time", "instant"}  # refused by their type
MOST = 1 << 10


def repeated(kind: str) -> list[dict[str, object]]:
    """Every odd cell, one to three times."""
    cells = enumerate(KINDS[kind].cells)
    return [{"who": cell} for i, cell in cells for _ in range(1 + i % 3)]


def used(persons: Any) -> int:
    """The rows of all persons."""
    return int(persons @ np.arange(1, MOST + 1))


@pytest.mark.parametrize("kind", sorted(set(KINDS) - DATED))
def test_rows_of_persons_are_sums_over_rows(kind, tmp_path):
    rows, found = repeated(kind), {}
    for name, container in CONTAINERS.items():
        if kind not in container.holds:
            continue
        table = container.build(rows, {"who": kind}, tmp_path)
        if isinstance(table, np.ndarray):  # whose columns are those of the schema
            continue
        persons = persons_by_rows(table, SCHEMA, MOST)
        halves = [
            persons_by_rows(container.build(half, {"who": kind}, tmp_path), SCHEMA, MOST)
            for half in (rows[::2], rows[1::2])
        ]
        assert used(persons) == used(halves[0]) + used(halves[1]), name
        found[name] = persons.tolist()
    assert found
    if kind in ("integer", "huge"):
        assert len({str(persons) for persons in found.values()}) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """Persons in the workers of a real local session."""

    @pytest.mark.parametrize("kind", ["text", "integer"])
    def test_spark_counts_the_same_persons(self, kind, spark, tmp_path):
        rows = repeated(kind)
        frame = in_spark(spark).build(rows, {"who": kind}, tmp_path).repartition(4)
        plain = {"who": [row["who"] for row in rows]}
        for most in (2, 50):
            found = persons_by_rows(frame, SCHEMA, most)
            np.testing.assert_array_equal(found, persons_by_rows(plain, SCHEMA, most))
