"""Learners on Spark: the release that other engines give, and no row read before it is paid for."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tightdp as tdp

pd = pytest.importorskip("pandas")
pytest.importorskip("sklearn")

ROWS = 300
NUMBERS = {"a": tdp.Interval(-1, 1), "b": tdp.Interval(0, 10)}
COLUMNS = {
    **NUMBERS,
    "k": tdp.Category(["u", "v", "w"], other="u"),
    "y": tdp.Category(["no", "yes"], other="no"),
}


def schema(*names: str, **facts: Any) -> tdp.Schema:
    given = {"rows": ROWS} | facts
    return tdp.Schema({name: COLUMNS[name] for name in names}, **given)


def table(seed: int) -> Any:
    """Numbers, a category, missing cells, cells outside of their bounds, and persons."""
    rng = np.random.default_rng(seed)
    y = rng.integers(0, 2, ROWS)
    a = rng.normal(y - 0.5, 0.7)
    a[::17] = np.nan
    return pd.DataFrame(
        {
            "a": a,
            "b": rng.uniform(-2, 12, ROWS),
            "k": np.array(["u", "v", "other"])[rng.integers(0, 3, ROWS)],
            "y": np.array(["no", "yes"])[y],
            "who": [f"p{i}" for i in rng.integers(0, 150, ROWS)],
        }
    )


PERSONS = {"neighbors": "add-remove", "person": "who", "rows_per_person": 2}
LEARNERS = [
    lambda **o: tdp.GaussianNB(bounds=schema("a", "b", "k", "y"), **o),
    lambda **o: tdp.GaussianNB(bounds=schema("a", "b", "k", "y", **PERSONS), **o),
    lambda **o: tdp.CategoricalNB(bounds=schema("k", "y"), **o),
    lambda **o: tdp.SparseLogisticRegression(bounds=schema("a", "b", "y"), l1=0.01, **o),
    lambda **o: tdp.SparseLogisticRegression(bounds=schema("a", "b", "y", **PERSONS), **o),
]


@pytest.mark.filterwarnings("ignore")  # Spark's own
class TestSpark:
    """On a real local session, in several partitions."""

    @pytest.mark.parametrize("make", LEARNERS)
    def test_the_release_is_that_of_other_engines(self, spark, make, seed):
        frame = table(seed)
        there = make(random_state=3).fit(spark.createDataFrame(frame).repartition(3), "y")
        here = make(random_state=3).fit(frame, "y")
        assert there.release_.integers == here.release_.integers
        features = frame[list(there.schema_)[:-1]]
        np.testing.assert_array_equal(there.predict(features), here.predict(features))
        np.testing.assert_array_equal(there.predict_proba(features), here.predict_proba(features))

    def test_what_cannot_be_read_is_refused_before_the_payment(self, spark, seed):
        ledger = tdp.Ledger(epsilon=1.0)
        frame = spark.createDataFrame(table(seed)[["b", "y", "who"]])
        for make in LEARNERS:
            with pytest.raises(tdp.ParameterError, match="no column"):
                make(ledger=ledger).fit(frame, "y")
        assert ledger.spent.epsilon == 0

    def test_no_job_runs_before_the_payment(self, spark, seed):
        ledger, context = tdp.Ledger(epsilon=0.5), spark.sparkContext
        frame = spark.createDataFrame(table(seed))
        context.setJobGroup("unpaid", "nothing is paid for")
        for make in LEARNERS:
            with pytest.raises(tdp.BudgetError):
                make(ledger=ledger).fit(frame, "y")
        assert context.statusTracker().getJobIdsForGroup("unpaid") == []
        assert ledger.spent.epsilon == 0
        context.setJobGroup("paid", "the measure of jobs sees one")
        frame.count()
        assert context.statusTracker().getJobIdsForGroup("paid") != []
