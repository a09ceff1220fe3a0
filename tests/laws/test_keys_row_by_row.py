"""Law of keys: each is read off its own cell, in every container and whatever is beside it."""

from __future__ import annotations

import math
from collections import Counter
from typing import Any

import numpy as np
import pytest
from containers import CONTAINERS, KINDS, in_spark

import tightdp as tdp
from tightdp.data.key_counts import KeyColumn
from tightdp.data.table import Table
from tightdp.mechanisms.key_totals import KeyTotals

# 1.0 and the text "1.0" are two keys: a CSV file, which holds texts, has the second
DATES = ("date", "time", "instant")  # as types, they are refused before anything is read
ALIKE = ("integer", "unsigned", "huge", "text", "trimmed", "coded", "coded_integer", "bytes")
FACTS = tdp.Schema({"y": tdp.Interval(0, 1)}, rows=9, neighbors="add-remove")


def of_matrix() -> tdp.Schema:
    """The columns of a matrix are told by their order."""
    return tdp.Schema({"x": tdp.Category(["a", "b"])}, rows=9, neighbors="add-remove")


def refuses(frame: Any) -> bool:
    """Whether the type of the column is refused, before anything is read or paid."""
    try:
        Table.open(frame, of_matrix()).columns(of_matrix(), ["x"])
    except tdp.ParameterError as error:
        return "state it as a Date" in str(error)
    return False


@pytest.mark.parametrize("kind", sorted(KINDS))
def test_counts_of_keys_are_sums_over_rows(kind, tmp_path):
    rows = [{"x": cell} for cell in KINDS[kind].cells] * 2
    keys, found = KeyColumn(of_matrix(), "x"), {}
    for name, container in CONTAINERS.items():
        if kind in container.holds:
            frame = container.build(rows, {"x": kind}, tmp_path)
            if kind in DATES and refuses(frame):
                for row in rows[: len(rows) // 2]:  # by its type, whatever its cells
                    assert refuses(container.build([row], {"x": kind}, tmp_path)), (name, row)
                continue
            counted = keys.counts(frame)
            alone: Counter[str] = Counter()
            for row in rows[: len(rows) // 2]:
                alone.update(keys.counts(container.build([row], {"x": kind}, tmp_path)))
            assert counted == {key: 2 * alone[key] for key in sorted(alone)}, name
            found[name] = counted
    assert found
    if kind in ALIKE:
        assert len({str(counts) for counts in found.values()}) == 1


@pytest.mark.slow
@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """Keys and persons in the workers of a real local session."""

    @pytest.mark.parametrize("kind", ["text", "integer", "bytes"])
    def test_spark_counts_the_same_keys(self, kind, spark, tmp_path):
        rows = [{"x": cell, "who": i % 5} for i, cell in enumerate(KINDS[kind].cells * 3)]
        frame = in_spark(spark).build(rows, {"x": kind, "who": "integer"}, tmp_path)
        plain = {name: [row[name] for row in rows] for name in ("x", "who")}
        columns = {"y": tdp.Interval(0, 1)}
        facts = {"neighbors": "add-remove", "person": "who", "rows_per_person": 2}
        for schema in (FACTS, tdp.Schema(columns, 9, **facts)):
            keys = KeyColumn(schema, "x")
            assert keys.counts(frame) == keys.counts(plain)

    def test_spark_sums_the_same_numbers_for_keys_of_two_columns(self, spark):
        """Odd cells, nulls, five partitions, and persons with several keys and rows of one key."""
        rng, odd = np.random.default_rng(3), ["a", None, " ", "a\n", "x" * 300, "\x1f", "7.0", '"a']
        numbers = [0.0, 3.3, 99.0, math.nan, math.inf, None]
        rows = [
            (odd[i % 8], [1, 2, None][i % 3], numbers[int(j)], None if j == 5 else int(who))
            for i, (j, who) in enumerate(rng.integers(0, (6, 12), (300, 2)))
        ]
        plain = {name: [row[i] for row in rows] for i, name in enumerate(("a", "b", "x", "who"))}
        spark.conf.set("spark.sql.shuffle.partitions", "3")
        frame = spark.createDataFrame(rows, "a string, b int, x double, who long").repartition(5)
        for facts in ({}, {"person": "who", "rows_per_person": 3}):
            columns = {"x": tdp.Interval(0, 10)}
            schema = tdp.Schema(columns, 300, neighbors="add-remove", **facts)
            keys = KeyTotals(schema, ["x"], ["a", "b"], epsilon=1, delta=1e-3).keys
            assert keys.totals(frame) == keys.totals(plain)
