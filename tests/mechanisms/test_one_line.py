"""Sums in one line: in the units of the columns, also where the number of rows is private."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.plans import request
from tightdp.randomness import source

FACTS = {"x": tdp.Interval(0, 10), "y": tdp.Interval(-8, -6)}


@pytest.mark.parametrize("noise", ["best", "laplace", "l2"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_sums_are_in_the_units_of_their_columns(neighbors: str, noise: str, seed: int) -> None:
    facts = tdp.Schema(FACTS, rows=500, neighbors=neighbors)
    rng = np.random.default_rng(seed)
    table = {name: rng.uniform(c.low, c.high, 500) for name, c in facts.columns.items()}
    exact = np.array([table[name].sum() for name in facts])
    options: dict[str, Any] = {"schema": facts, "epsilon": 1, "noise": noise, "confidence": 0.9}
    bits, draws = source(seed), 400
    found = [tdp.sum(table, ["x", "y"], **options, rng=bits) for _ in range(draws)]
    errors = np.array([release.value for release in found]) - exact
    assert found[0].names == ("x", "y")
    stated = found[0].noise_std
    # a mean of draws is normal; squares of K-norm noise have kurtosis below 12
    np.testing.assert_array_less(np.abs(errors.mean(axis=0)), 5 * stated / np.sqrt(draws))
    ratio = (errors**2).mean(axis=0) / stated**2
    np.testing.assert_array_less(np.abs(ratio - 1), 5 * np.sqrt(11 / draws))
    covered = (np.abs(errors) <= found[0].half_width).all(axis=1).mean()
    assert covered >= 0.9 - 5 * np.sqrt(0.09 / draws)
    asked = request("sum", facts, epsilon=1, noise=noise).preview(0.9)
    assert asked.names == ("x", "y")
    np.testing.assert_allclose(asked.std, stated, rtol=1e-9)
    np.testing.assert_allclose(asked.half_width, found[0].half_width, rtol=1e-9)


def test_a_sum_that_stays_scaled_is_caught(seed: int) -> None:
    """What was released before: far outside its own interval."""
    facts = tdp.Schema(FACTS, rows=500, neighbors="add-remove")
    table = {"x": np.full(500, 9.0), "y": np.full(500, -7.0)}
    scaled = tdp.AdditiveMechanism(tdp.Sums(facts), epsilon=1).release(table, rng=seed)
    sums = tdp.sum(table, ["x", "y"], schema=facts, epsilon=1, rng=seed)
    assert not (np.abs(scaled.value - [4500, -3500]) <= scaled.half_width).all()
    assert (np.abs(sums.value - [4500, -3500]) <= 5 * sums.half_width).all()
