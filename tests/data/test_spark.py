"""Spark: the same integers from its workers, and not a word about cells."""

from __future__ import annotations

import os
import pickle
import signal
import sys
from typing import Any

import numpy as np
import pytest
from canaries import CANARY_SCHEMA, canary_table, loud, quiet
from engine_tables import (
    ENGINES,
    NAMES,
    SCHEMA,
    expected,
    gram,
    million,
    nasty,
    person_schema,
    visits,
)

import tightdp as tdp
from tightdp.data.blocks import exact_gram
from tightdp.data.one_pass import integer_sums, quantized_matrix
from tightdp.errors import DataError, ParameterError
from tightdp.schema import Interval, Schema

pa = pytest.importorskip("pyarrow")


def on_spark(session: Any, table: Any, parts: int = 3) -> Any:
    """An Arrow table as a Spark frame in several partitions; Spark has no dictionaries."""
    plain = table.cast(
        pa.schema(
            [
                (f.name, f.type.value_type if pa.types.is_dictionary(f.type) else f.type)
                for f in table.schema
            ]
        )
    )
    return session.createDataFrame(plain).repartition(parts)


def by_rows(matrix: np.ndarray) -> list[list[int]]:
    return sorted(matrix.tolist())


def steps(rows: np.ndarray) -> np.ndarray:
    return np.maximum(rows, 0)


def step_sums(block):
    return steps(block.matrix()).sum(axis=0)


def die_of_777(x):
    if x == 777:
        os.kill(os.getpid(), signal.SIGKILL)
    return x


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """The nasty table, a million rows, persons and errors on a real local session."""

    def test_integers(self, spark):
        names = [name for name in NAMES if name != "nothing"]
        frame = on_spark(spark, nasty().select(names))
        want = expected(names)
        assert by_rows(quantized_matrix(frame, SCHEMA, names)) == by_rows(want)
        gram_of = exact_gram(np.concatenate([np.ones((12, 1), dtype=int), want], axis=1), 16)
        width = (len(names) + 1) ** 2
        assert integer_sums(frame, SCHEMA, names, gram, width=width) == gram_of.ravel().tolist()
        positive = steps(want).sum(axis=0).tolist()
        assert integer_sums(frame, SCHEMA, names, step_sums, width=len(names)) == positive
        empty = frame.limit(0)
        assert integer_sums(empty, SCHEMA, names, gram, width=width) == [0] * width
        assert quantized_matrix(empty, SCHEMA, names).shape == (0, len(names))
        odd = on_spark(spark, pa.table({"a.`b": [1.0]}))
        schema = Schema({"a.`b": Interval(0, 1)}, rows=1, bits=1)
        assert quantized_matrix(odd, schema, ["a.`b"]).tolist() == [[2]]

    @pytest.mark.slow
    def test_a_million_rows(self, spark, tmp_path):
        table, schema = million()
        path = ENGINES["parquet-folder"](table, tmp_path)
        frame = spark.read.option("recursiveFileLookup", "true").parquet(path)
        names = list(schema)
        want = integer_sums(table, schema, names, gram, width=36)
        assert integer_sums(frame, schema, names, gram, width=36) == want

    @pytest.mark.slow_for("int64", "float64")
    @pytest.mark.parametrize("kind", ["int64", "string", "float64"])
    def test_persons(self, spark, kind):
        table = visits()
        if kind != "int64":
            table = table.set_column(0, "person", table.column("person").cast(kind))
        schema = person_schema(2)
        frame = on_spark(spark, table)
        want = quantized_matrix(table, schema, ["x", "k"])
        assert by_rows(quantized_matrix(frame, schema, ["x", "k"])) == by_rows(want)
        sums = integer_sums(frame, schema, ["x", "k"], step_sums, width=2)
        assert sums == steps(want).sum(axis=0).tolist()

    def test_workers_without_the_package_are_found_before_the_payment(
        self, spark, tmp_path, monkeypatch
    ):
        """They were found after it, and the budget was lost."""
        (tmp_path / "tightdp.py").write_text("raise ImportError")
        python = tmp_path / "python"
        python.write_text(
            f'#!/bin/sh\nPYTHONPATH="{tmp_path}:$PYTHONPATH" exec {sys.executable} "$@"\n'
        )
        python.chmod(0o755)
        other = spark.newSession()
        frame = on_spark(other, pa.table({"x": [1.0, 2.0]}))
        monkeypatch.setattr(other.sparkContext, "pythonExec", str(python))
        schema = Schema({"x": Interval(0, 3)}, rows=2)
        ledger = tdp.Ledger(epsilon=1)
        with pytest.raises(ParameterError, match="workers of Spark cannot import"):
            tdp.sum(frame, ["x"], schema=schema, epsilon=1, ledger=ledger)
        assert ledger.remaining.epsilon == 1
        monkeypatch.undo()
        tdp.sum(frame, ["x"], schema=schema, epsilon=1, ledger=ledger)
        assert ledger.remaining.epsilon == 0

    def test_a_worker_that_dies_keeps_the_charge_and_publishes_nothing(self, spark, capfd):
        functions = pytest.importorskip("pyspark.sql.functions")
        whole = on_spark(spark, pa.table({"x": [1.0, 2.0, 777.0], "g": [0, 1, 1]}))
        dying = whole.withColumn("x", functions.udf(die_of_777, "double")(functions.col("x")))
        schema = Schema({"x": Interval(0, 999), "g": tdp.Category([0, 1], other=0)}, rows=3)
        for number, by in enumerate((None, "g"), start=1):
            with tdp.Ledger(epsilon=3) as ledger:
                options = {} if by is None else {"by": by}
                with pytest.raises(DataError) as caught:
                    tdp.sum(dying, ["x"], schema=schema, epsilon=1, ledger=ledger, **options)
                assert "777" not in str(caught.value), number
                assert [row.state for row in ledger.history()] == ["burned"]
                assert ledger.spent.epsilon == 1
                tdp.sum(whole, ["x"], schema=schema, epsilon=1, ledger=ledger, **options)
                assert ledger.spent.epsilon == 2
        capfd.readouterr()

    def test_errors_say_nothing_about_cells(self, spark, capfd):
        frame = on_spark(spark, pa.table(canary_table()))
        tries = [
            lambda: integer_sums(frame, CANARY_SCHEMA, ["x"], loud, width=1),
            lambda: quantized_matrix(frame, CANARY_SCHEMA, ["absent"]),
            lambda: quantized_matrix(frame, CANARY_SCHEMA, ["day"]),
            lambda: integer_sums(
                frame,
                Schema({"x": Interval(0, 1)}, rows=3, person="k", neighbors="add-remove"),
                ["x"],
                loud,
                width=1,
            ),
        ]
        for attempt in tries:
            with pytest.raises((DataError, ParameterError)) as caught:
                attempt()
            printed = capfd.readouterr()
            quiet(caught.value, printed.out, printed.err)
        pickle.loads(pickle.dumps(CANARY_SCHEMA))
