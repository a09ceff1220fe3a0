"""Answers have the level that was asked for, and a quantile has one interval."""

from __future__ import annotations

import numpy as np

import tightdp as tdp
from tightdp.plans import request

TABLE = {"x": np.arange(300) % 10}
SCHEMA = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=300)


def test_counts_of_a_density_have_the_level_asked_for():
    asked = request("density", SCHEMA, epsilon=1, columns=["x"])
    widths = []
    for level in (0.5, 0.95, 0.99):
        answer = asked.release(TABLE, confidence=level, rng=1)
        assert answer.confidence == level
        assert f"{level:.0%} interval" in answer.text()
        widths.append(np.ptp(answer.interval[np.argmax(answer.value)]))
    assert widths[0] < widths[1] < widths[2]


def test_a_quantile_with_a_paid_interval_has_one():
    asked = request("median", SCHEMA, epsilon=1, column="x", interval="sample")
    answer = asked.release(TABLE, rng=1)
    release = answer.release
    again = tdp.Release.from_json(release.to_json())
    for found in (release, again):
        np.testing.assert_array_equal(found.interval[0], found.value[1:])
        np.testing.assert_array_equal(found.interval[:1], answer.interval)
    assert "exp(-1/10 * s)" in release.noise  # the middle's rate
    assert "exp(-1/5 * s)" in release.noise  # and that of the ends
