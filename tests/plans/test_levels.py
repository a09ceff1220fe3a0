"""Answers have the level that was asked for, and a quantile has one interval."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.plans import Plan, request

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
    assert "exp(-1/10 * s)" in release.noise  # the rate of the points
    assert "exp(-3/10 * |z|)" in release.noise  # and that of the counts


def _with_level(plan, releases: str, level: float) -> Plan:
    path = plan(releases)
    path.write_text(path.read_text().replace("[budget]", f"[budget]\nconfidence = {level}"))
    return Plan.read(path)


MODELS = """\
[[releases]]
name = "mean"
kind = "mean"
columns = ["age"]
epsilon = 1
[[releases]]
name = "model"
kind = "linear_regression"
target = "pay"
features = ["age"]
epsilon = 1
"""


def test_a_plan_at_another_confidence_gives_the_stored_numbers(plan):
    first = _with_level(plan, MODELS, 0.9).release()
    wider = _with_level(plan, MODELS, 0.99)
    assert set(wider.states().values()) == {"stored"}
    again = wider.release()
    assert not again.fresh
    assert again.spent == first.spent
    for name, answer in again.answers.items():
        before = first.answers[name]
        assert (answer.confidence, before.confidence) == (0.99, 0.9)
        np.testing.assert_array_equal(answer.value, before.value)
        assert (np.ptp(answer.interval, axis=1) > np.ptp(before.interval, axis=1)).all()


def test_an_interval_that_was_drawn_for_a_level_has_no_other(plan):
    drawn = '[[releases]]\nname = "m"\nkind = "median"\ncolumn = "age"\ninterval = "sample"\n'
    _with_level(plan, drawn + "epsilon = 1\n", 0.9).release()
    other = _with_level(plan, drawn + "epsilon = 1\n", 0.99)
    assert other.states() == {"m": "changed"}
    with pytest.raises(ParameterError, match="confidence of an interval that is drawn"):
        other.release()
