"""The contract of every mechanism: it previews itself, and says what it does not know."""

from __future__ import annotations

import numpy as np
import pytest
from tests.laws.enrolled import CASES

import tightdp as tdp
from tightdp.accuracy import epsilon_for
from tightdp.errors import ParameterError, UndecidedError
from tightdp.inference.coefficient_intervals import simultaneous_intervals
from tightdp.mechanisms.counts import CellCounts
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.plans import request

SLOW = {"geometric median", "gradient, linear", "gradient, quantile"}
QUICK = [case for case in CASES if case.quick and case.relations and case.name not in SLOW]


@pytest.mark.parametrize("case", QUICK, ids=str)
def test_every_mechanism_previews_itself(case):
    preview = case.build(case.relations[0]).preview(0.9)
    assert preview.names
    assert len(preview.names) == len(preview.std) == len(preview.half_width)
    known = ~np.isnan(preview.std)
    errs = np.array([name != "p-value" for name in preview.names])  # which has none of its own
    assert preview.unknown or known[errs].all()
    assert (preview.half_width[known] >= 0).all()
    assert str(preview)


def test_moments_of_many_rows_are_previewed():
    """Sums have the same noise whatever the number of rows."""
    columns = {"x": tdp.Interval(0, 1), "y": tdp.Interval(0, 1)}
    few, many = (
        LeastSquares(
            tdp.Schema(columns, rows=rows), ["x"], "y", epsilon=1, noise="hull", post="none"
        )
        for rows in (1000, 200_000)
    )
    np.testing.assert_allclose(few.moments.preview().std, many.moments.preview().std)


def test_an_error_that_is_not_known_is_not_promised():
    """Nothing is within the error, where there is nothing."""
    pick = tdp.ExponentialMechanism(["a", "b"], lambda frame: [1, 2], sensitivity=1, epsilon=1)
    with pytest.raises(UndecidedError, match="cannot be promised"):
        epsilon_for(pick, error=0.01)


def test_another_level_is_refused_or_known(seed):
    schema = tdp.Schema({"x": tdp.Interval(0, 1), "k": tdp.Category(["a", "b"], other="a")}, rows=9)
    table = {"x": np.linspace(0, 1, 9), "k": ["a", "b", "a"] * 3}
    median = tdp.KNormMedian(schema, "x", epsilon=1)
    release = median.release(table, rng=seed)
    assert median.answer(release, 0.95).confidence == 0.95
    for level in (0.9, 7, "x"):
        with pytest.raises(ParameterError, match="confidence"):
            median.answer(release, level)
    counts = tdp.AdditiveMechanism(tdp.Counts(schema, ["k"]), epsilon=1)
    found = [np.ptp(counts.answer(counts.release(table, rng=seed), level).interval, axis=1)[0]
             for level in (0.5, 0.99)]  # fmt: skip
    assert found[0] < found[1]


def test_a_constant_column_cuts_nobody_off(seed):
    """Without an intercept all levels gave the extremes of the simulation."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(0, 1, (3000, 2))
    y = X @ [1, 2] + rng.normal(0, 0.1, 3000)
    bounds = [(0, 1), (0, 1), (-1, 5)]
    model = tdp.LinearRegression(epsilon=2, bounds=bounds, fit_intercept=False, random_state=1)
    model.fit(X, y)
    widths = [
        np.ptp(model.conf_int(confidence=c, simultaneous=True), axis=1) for c in (0.1, 0.5, 0.95)
    ]
    assert (widths[0] < widths[1]).all()
    assert (widths[1] < widths[2]).all()
    values = np.column_stack([np.zeros(999), np.arange(999.0)])
    low, high = simultaneous_intervals(values, 0.1)[1]
    assert high - low == pytest.approx(0.9 * 999, abs=5)


def test_consistent_counts_lie_in_their_intervals(seed):
    schema = tdp.Schema({"x": tdp.Interval(0, 100)}, rows=60)
    cells = CellCounts(schema, 4, epsilon=0.05)
    table = {"x": np.r_[np.zeros(55), np.full(5, 100.0)]}
    for i in range(100):
        found = cells.answer(cells.release(table, rng=seed + i, confidence=0.9))
        low, high = found.interval.T
        assert (low <= found.value).all()
        assert (found.value <= high).all()
        assert (low >= 0).all()
        assert (high <= 60 + 1e-9).all()


def test_a_preview_on_a_sample_compares_samples_of_one_size(seed):
    """The size of a sample follows its epsilon: the truth was a sample of another size."""
    schema = tdp.Schema({"age": tdp.Interval(18, 98)}, rows=400)
    public = {"age": np.random.default_rng(seed).uniform(18, 98, 400)}
    asked = request("sample", schema, epsilon=0.5, column="age", bins=5)
    found = tdp.accuracy.preview(asked, sample=public, replicates=40)
    assert found.half_width.max() < asked.mechanism.size / 2
