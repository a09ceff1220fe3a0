"""A grid that is coarse beside the noise is said to be, before payment; what is said is true."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as tdp
from tightdp.plans.request import request

WIDE = {"x": tdp.Interval(0, 1e9), "k": tdp.Category(["a", "b"], other="a")}


@pytest.mark.parametrize("kind", ["sum", "mean", "variance"])
@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_many_rows_on_wide_bounds(kind, by, neighbors):
    def note(rows, bits=None):
        schema = tdp.Schema(WIDE, rows, neighbors=neighbors, bits=bits)
        options = {} if by is None else {"by": by}
        return request(kind, schema, epsilon=1, columns=["x"], **options).preview().note

    assert "grid 2^-16" in note(10**7)
    assert "`bits` up to 19" in note(10**7)
    assert "grid" not in note(10**3)
    assert "grid" not in note(10**5, bits=20)


def test_steps_and_counts_are_not_rounded():
    schema = tdp.Schema({"n": tdp.Interval(0, 64, step=1)}, 10**8)
    assert "grid" not in request("sum", schema, epsilon=1, columns=["n"]).preview().note
    counts = request("count", tdp.Schema(WIDE, 10**8), epsilon=1, columns=["k"])
    assert "grid" not in counts.preview().note


def test_cells_far_below_a_step_are_within_the_interval(seed):
    """A hundred on [0, 1e9] is rounded to 0: the interval knows, and the preview says why."""
    schema = tdp.Schema({"x": tdp.Interval(0, 1e9)}, 400_000)
    mean = request("mean", schema, epsilon=8, columns=["x"])
    assert "may add" in mean.preview().note
    release = mean.release({"x": np.full(400_000, 100.0)}, rng=seed)
    low, high = release.interval[0]
    assert low <= 100 <= high
