"""What will print no intervals says so in its preview, and in its answer, with the same reason."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as tdp
from tightdp.plans import request

ROWS = 400
SCHEMA = tdp.Schema(
    {
        "x": tdp.Interval(-1, 1),
        "count": tdp.Interval(0, 8),
        "y": tdp.Interval(-3, 3),
        "two": tdp.Category(["a", "b"], other="a"),
        "three": tdp.Category(["a", "b", "c"], other="a"),
    },
    rows=ROWS,
)
SAID = "the release will print no intervals"
SILENT = {
    "quantile_regression": "y",
    "huber_regression": "y",
    "sparse_regression": "y",
    "logistic_regression": "three",
    "poisson_regression": "count",
    "negative_binomial_regression": "count",
}


def table(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    x = rng.uniform(-1, 1, ROWS)
    named = np.array(["a", "b", "c"])
    return {
        "x": x,
        "count": rng.poisson(1 + x**2, ROWS),
        "y": np.clip(x + rng.normal(0, 0.5, ROWS), -3, 3),
        "two": named[rng.integers(0, 2, ROWS)],
        "three": named[rng.integers(0, 3, ROWS)],
    }


@pytest.mark.parametrize(("kind", "target"), SILENT.items())
def test_silence_is_foreseen_and_kept(kind, target, seed):
    asked = request(kind, SCHEMA, epsilon=4, features=["x"], target=target)
    preview, answer = asked.preview(), asked.release(table(seed), rng=seed)
    assert SAID in preview.note
    assert set(answer.unknown) == set(answer.names)
    assert np.isnan(answer.interval).all()
    assert preview.silence in answer.about


def test_whoever_pays_is_not_told_so():
    share = {"features": ["x"], "epsilon": 4, "interval_share": 0.25}
    for kind, target in (("logistic_regression", "two"), ("poisson_regression", "count")):
        assert SAID not in request(kind, SCHEMA, target=target, **share).preview().note
    line = request("linear_regression", SCHEMA, features=["x"], target="y", epsilon=4)
    assert SAID not in line.preview().note
