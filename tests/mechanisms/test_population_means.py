"""Means of a population: their intervals hold, and are as long as noise and sampling make them."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.inference.mean_intervals import mean_intervals

ROWS, TABLES = 400, 300


def shares(seed: int, scale: float, fault: float = 1.0) -> float:
    """How often intervals of skewed rows hold their mean; a fault scales their squares' spread."""
    rng = np.random.default_rng(seed)
    x = rng.beta(1, 4, (TABLES, ROWS)) * 2 - 1
    noise = rng.laplace(0, scale, (2, TABLES))
    pool = rng.laplace(0, scale, (2, 500, 1))
    means = x.mean(axis=1)
    squares = means**2 + fault * x.var(axis=1)
    held = 0
    for mean, square in zip(means + noise[0], squares + noise[1], strict=True):
        given = np.array([mean]), np.array([square])
        ((low, high),) = mean_intervals(*given, lambda _: pool, ROWS, 0.05)
        held += low <= -0.6 <= high
    return held / TABLES


@pytest.mark.parametrize("scale", [1e-4, 0.02])
def test_intervals_hold_as_often_as_they_say(scale, seed):
    slack = 4 * np.sqrt(0.95 * 0.05 / TABLES)  # four standard errors
    assert abs(shares(seed, scale) - 0.95) < slack


def test_a_sampling_error_that_is_too_small_is_noticed(seed):
    assert shares(seed, 1e-4, fault=0.5) < 0.95 - 4 * np.sqrt(0.95 * 0.05 / TABLES)


FEW_ROWS = {"flags": (0.02, 2.0), "one in a hundred": (0.01, 1.0)}


@pytest.mark.parametrize("kind", FEW_ROWS)
def test_intervals_hold_where_a_few_rows_decide(kind, seed):
    """The usual interval is the planted fault: by enumeration it holds 0.928 and 0.871."""
    share, value = FEW_ROWS[kind]
    rng, tables, rows = np.random.default_rng(seed), 2_000, 500
    counts, times = np.unique(rng.binomial(rows, share, tables), return_counts=True)
    truth, silent = value * share - 1, np.zeros((1, 1))
    held, usual = 0, 0
    for seen, many in zip(counts / rows, times, strict=True):  # all others are at -1
        mean, square = value * seen - 1, 1 - seen + seen * (value - 1) ** 2
        given = np.array([mean]), np.array([square])
        ((low, high),) = mean_intervals(*given, lambda _: (silent, silent), rows, 0.05)
        held += many * (low <= truth <= high)
        usual += many * (abs(mean - truth) <= 1.96 * np.sqrt((square - mean**2) / rows))
    slack = 4 * np.sqrt(0.95 * 0.05 / tables)
    assert held / tables > 0.95 - slack
    assert usual / tables < 0.95 - slack / 2


def test_one_line_and_the_estimator_agree():
    rows = {"x": np.linspace(0, 10, 900), "z": np.linspace(0, 1, 900) ** 2}
    schema = tdp.Schema({"x": tdp.Interval(0, 10), "z": tdp.Interval(0, 1)}, rows=900)
    release = tdp.population_mean(rows, ["x", "z"], schema=schema, epsilon=2, rng=5)
    model = tdp.Mean(epsilon=2, bounds=schema, interval_share=0.1, random_state=5)
    model.fit(np.column_stack([rows["x"], rows["z"]]))
    assert release.value == pytest.approx(model.location_)
    assert release.interval == pytest.approx(model.conf_int(assume="normal mean"))
    proved = np.ptp(model.conf_int(covers="population"), axis=1)
    assert (np.ptp(release.interval, axis=1) < proved / 1.5).all()
    assert release.guarantee.epsilon == 2


def test_what_is_assumed_is_asked_for_and_paid_for():
    schema = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=50)
    model = tdp.Mean(epsilon=2, bounds=schema).fit(np.linspace(0, 10, 50)[:, None])
    with pytest.raises(ParameterError, match="interval_share"):
        model.conf_int(assume="normal mean")
    with pytest.raises(ParameterError, match="assume"):
        model.conf_int(assume="normal")
    for share in (0, 1, -1):
        with pytest.raises(ParameterError, match="interval_share"):
            tdp.PopulationMeans(schema, ["x"], epsilon=1, interval_share=share)
    private = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=50, neighbors="add-remove")
    with pytest.raises(ParameterError, match="population_mean"):
        tdp.PopulationMeans(private, ["x"], epsilon=1)


def test_what_is_assumed_is_printed():
    schema = tdp.Schema({"x": tdp.Interval(0, 10)}, rows=50)
    means = tdp.PopulationMeans(schema, ["x"], epsilon=2)
    answer = means.answer(means.release({"x": np.linspace(0, 10, 50)}, rng=1))
    assert "nearly normal" in str(answer)
    assert answer.covers == "population"
