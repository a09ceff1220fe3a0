"""Markov chains on request: their limit, their label, their start, their diagnostics."""

from __future__ import annotations

import math

import numpy as np
import pytest
from lattice_fit import chi_square

import tightdp as tdp
from tightdp.errors import InfeasibleSamplingError, ParameterError
from tightdp.mechanisms.chains import LevelChains, effective_draws, split_rhat
from tightdp.mechanisms.quantile_regression import KNormQuantileRegression
from tightdp.randomness import source

UNIT = tdp.Interval(-1, 1)
ROWS = np.array([[-1, -0.5], [-0.5, -0.5], [0, 0.1], [0.3, 0.2], [0.6, 0.9], [1, 1]])


def mechanism(rows=6, features=1, bits=4, **options):
    names = [*(f"x{j}" for j in range(features)), "y"]
    schema = tdp.Schema(dict.fromkeys(names, UNIT), rows=rows, bits=bits)
    return KNormQuantileRegression(schema, **{"epsilon": 4, "sampler": "mcmc", **options})


def levels(mech):
    return mech.levels(*mech.rows.read({"x0": ROWS[:, 0], "y": ROWS[:, 1]}))


def law(found, rate):
    points = found.points()
    logs = -float(rate) * np.array([found.level(z) for z in points], dtype=float)
    return points, logs - logs.max() - math.log(np.exp(logs - logs.max()).sum())


@pytest.mark.slow_for("l1")
@pytest.mark.parametrize("shape", ["l1", "box"])
def test_long_chains_have_the_law(shape, seed):
    """The kept half of one long chain, thinned until steps are nearly independent."""
    mech = mechanism(grid=2, shape=shape)
    found = levels(mech)
    points, logs = law(found, mech.rate)
    trace = np.empty((30_000, 3))
    LevelChains(found, mech.rate, 30_000)._run(trace, source(seed))
    thinned = [tuple(int(v) for v in row) for row in trace[15_000::15, :2]]
    assert chi_square(points, logs, lambda i: thinned[i], len(thinned)) > 1e-5
    wrong = law(found, mech.rate / 2)[1]
    assert chi_square(points, wrong, lambda i: thinned[i], len(thinned)) < 1e-5


def test_exact_is_the_default_and_chains_are_labelled(seed):
    """A21."""
    table = {"x0": ROWS[:, 0], "y": ROWS[:, 1]}
    exact = mechanism(sampler="exact").release(table, rng=seed)
    assert str(exact.guarantee.numerics) == "exact"
    mech = mechanism(steps=400)
    release = mech.release(table, rng=seed)
    assert str(release.guarantee.numerics) == "approximate-sampler"
    assert "Markov chain of 400 steps" in release.noise
    assert "approximate-sampler" in str(release.guarantee)
    assert mech.draws.diagnostics.rhat.shape == (3,)
    assert "rhat" not in release.to_json()  # diagnostics see the rows: never published
    schema = tdp.Schema({"a": UNIT, "y": UNIT}, rows=6)
    assert KNormQuantileRegression(schema, epsilon=1).draws.exact


def test_chains_start_where_the_data_do_not_matter(seed):
    mech = mechanism()
    other = mech.levels(np.full((6, 2), 16), np.full(6, -16))
    starts = [
        LevelChains(found, mech.rate, 100)._first(source(seed)) for found in (levels(mech), other)
    ]
    assert starts[0] == starts[1]
    spread = [LevelChains(other, mech.rate, 100)._first(source(seed + i)) for i in range(50)]
    assert len(set(spread)) == 50
    assert all(other.inside(z) for z in spread)


def test_diagnostics_tell_chains_that_do_not_agree(seed):
    rng = np.random.default_rng(seed)
    good = rng.normal(size=(4, 1000, 1))
    assert split_rhat(good)[0] < 1.01
    assert 3000 < effective_draws(good)[0] < 5000
    assert split_rhat(good + np.arange(4)[:, None, None])[0] > 1.5
    assert split_rhat(np.cumsum(good, axis=1))[0] > 1.1
    assert effective_draws(np.cumsum(good, axis=1))[0] < 200
    still = np.zeros((4, 100, 1))
    assert split_rhat(still)[0] == 1
    assert split_rhat(still + np.arange(4)[:, None, None])[0] == math.inf
    assert effective_draws(still)[0] == 0


SLOPES = [0.3, -0.2, 0.1, 0.0]


def four_features(rng):
    x = rng.uniform(-1, 1, (400, 4))
    return {f"x{j}": x[:, j] for j in range(4)} | {"y": x @ SLOPES + rng.normal(0, 0.1, 400)}


@pytest.mark.slow
def test_chains_of_five_coefficients_agree_in_the_end(seed):
    """Starts are far apart: after 6000 steps R-hat is between 1 and 4, after 20,000 up to 1.03."""
    mech = mechanism(400, 4, bits=12, epsilon=1, steps=30_000, grid=12)
    mech.release(four_features(np.random.default_rng(seed)), rng=seed)
    assert (mech.draws.diagnostics.rhat < 1.1).all()


def test_more_coefficients_than_exact_draws_reach(seed):
    rng = np.random.default_rng(seed)
    table = four_features(rng)
    with pytest.raises(InfeasibleSamplingError, match="not epsilon-DP"):
        mechanism(400, 5, sampler="exact")
    mech = mechanism(400, 4, bits=12, epsilon=1, steps=6000, grid=12)
    release = mech.release(table, rng=seed)
    assert release.value[1:] == pytest.approx(SLOPES, abs=0.1)
    assert mech.draws.diagnostics.rhat.shape == (6,)
    schema = tdp.Schema({f"x{j}": UNIT for j in range(8)}, rows=300)
    rows = rng.normal(0.2, 0.1, (300, 8))
    wide = tdp.KNormGeometricMedian(schema, epsilon=50, sampler="mcmc", steps=2000)
    found = wide.release({f"x{j}": rows[:, j] for j in range(8)}, rng=seed)
    assert found.value == pytest.approx(np.full(8, 0.2), abs=0.1)
    assert str(found.guarantee.numerics) == "approximate-sampler"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"sampler": "gibbs"}, "`sampler`"),
        ({"sampler": "exact", "steps": 500}, "`steps`"),
        ({"steps": 10}, "at least 100"),
        ({"steps": 0}, "`steps`"),
    ],
)
def test_bad_parameters_are_named(change, words):
    with pytest.raises(ParameterError, match=words):
        mechanism(**change)
