"""Releases: what is not known is not stated, in any of their faces."""

from __future__ import annotations

import json
import pickle
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.mechanisms.joint_release import Together
from tightdp.release import Release

SCHEMA = tdp.Schema({"x": tdp.Interval(0, 100), "y": tdp.Interval(0, 100)}, rows=200)
TABLE = {"x": np.linspace(0, 100, 200), "y": np.linspace(100, 0, 200)}


def nearest(rows: Any) -> list[int]:
    return [-abs(100 - i) for i in range(0, 200, 20)]


SILENT = {
    "median": tdp.KNormMedian(SCHEMA, "x", epsilon=1),
    "quantiles": tdp.KNormQuantiles(SCHEMA, "x", [0.2, 0.8], epsilon=1),
    "geometric median": tdp.KNormGeometricMedian(SCHEMA, epsilon=4),
    "regression quantile": tdp.KNormQuantileRegression(SCHEMA, epsilon=1),
    "sample": tdp.KolmogorovSample(SCHEMA, "x", 5, size=9, epsilon=1),
    "candidate": tdp.ExponentialMechanism(list(range(10)), nearest, sensitivity=1, epsilon=1),
}


@pytest.mark.parametrize("name", SILENT)
def test_no_number_stands_in_for_one_that_is_not_known(name: str, seed: int) -> None:
    """The noise of a median was stated as half of its range: 50, where it is a tenth."""
    release = SILENT[name].release(TABLE, rng=seed)
    assert release.unknown == release.names
    assert np.isnan(release.noise_std).all()
    assert np.isnan(release.half_width).all()
    assert np.isnan(release.interval).all()
    text = release.to_json()
    record = json.loads(text, parse_constant=lambda word: pytest.fail(f"{word} is not JSON"))
    assert record["half_width"] == [None] * len(release.names)
    assert record["covariance"] == [None] * len(release.names)
    again = Release.from_json(text)
    np.testing.assert_array_equal(again.covariance, release.covariance)
    assert all(row[2:] == ("-", "-") for row in again._rows()[1:])


def test_known_errors_beside_unknown_ones_are_kept(seed: int) -> None:
    both = Together(
        [
            tdp.AdditiveMechanism(tdp.Sums(SCHEMA, ["x", "y"]), noise="l2", epsilon=1),
            tdp.KNormMedian(SCHEMA, "x", epsilon=5, interval="sample"),
        ]
    )
    release = both.release(TABLE, rng=seed)
    assert np.isfinite(release.noise_std[:2]).all()
    assert np.isnan(release.noise_std[2:]).all()
    assert np.isfinite(release.half_width).tolist() == [True, True, True, False, False]
    again = Release.from_json(release.to_json())
    np.testing.assert_array_equal(again.covariance, release.covariance)
    np.testing.assert_array_equal(again.half_width, release.half_width)


@pytest.mark.parametrize("options", [{"stages": 2}, {"interval_share": 0.1}])
def test_many_unknown_errors_take_no_matrix(options: dict[str, float]) -> None:
    """Two stages of 250 features were paid for, and then memory did not hold 32,382^2 NaN."""
    names = [f"x{i}" for i in range(63)]
    schema = tdp.Schema(dict.fromkeys([*names, "y"], tdp.Interval(-1, 1)), rows=20)
    table = dict.fromkeys([*names, "y"], np.linspace(-1, 1, 20))
    model = tdp.LinearRegression(epsilon=1, bounds=schema, random_state=1, **options)
    release = model.fit(table, "y").release_
    assert release.covariance.shape == (len(release.names),)
    assert np.isnan(release.covariance).all()
    assert np.isnan(release.noise_std).all()
    assert len(pickle.dumps(model)) < 5e6
    text = release.to_json()
    assert json.loads(text)["covariance"] == [None] * len(release.names)
    np.testing.assert_array_equal(Release.from_json(text).covariance, release.covariance)


def test_stand_ins_of_stored_releases_are_not_read_back(seed: int) -> None:
    """Ledgers hold releases that were written with the range as their error."""
    release = SILENT["median"].release(TABLE, rng=seed)
    old = release.to_dict() | {"covariance": [2500.0], "half_width": [60.0]}
    assert np.isnan(Release.from_dict(old).noise_std).all()


def test_many_groups_are_not_stored_with_all_their_zeros(seed: int) -> None:
    """The record of sums in 400 groups had 3 MB, in 3,600 groups 260: all pairs of entries."""
    levels = [f"level {i}" for i in range(400)]
    facts = {"k": tdp.Category(levels, other=levels[0]), "x": tdp.Interval(0, 1)}
    table = {"k": levels, "x": [0.5] * 400}
    schema = tdp.Schema(facts, rows=400)
    release = tdp.sum(table, "x", by="k", schema=schema, epsilon=1, rng=seed)
    text = release.to_json()
    assert len(text) < 300_000
    again = Release.from_json(text)
    assert release.covariance.shape == (800, 800)
    assert np.count_nonzero(release.covariance) > 800
    np.testing.assert_array_equal(again.covariance, release.covariance)
    for beside in ([[0, 800, 1.0]], [[0.5, 1, 1.0]], [[-1, 1, 1.0]], [[None, 1, 1.0]], [[1, 2]], 3):
        with pytest.raises(tdp.ParameterError, match="damaged"):
            Release.from_dict(json.loads(text) | {"beside": beside})


DAMAGE = {
    "names of no text": {"names": [1, 2]},
    "a name too many": {"names": ["x", "y", "z"]},
    "an entry that is no text": {"unknown": [None]},
    "no half-widths": {"half_width": []},
    "half-widths of another release": {"half_width": [1.0]},
    "a covariance of another release": {"covariance": [[1.0]]},
    "a covariance that is no matrix": {"covariance": [[1.0, 2.0]]},
    "a covariance of a number": {"covariance": 1.0},
    "negative variances": {"covariance": [-1.0, 1.0]},
    "an integer beyond doubles": {"value": [10**400, 1]},
    "an infinite resolution": {"resolution": float("inf")},
    "an infinite integer": {"integers": [float("inf"), 1]},
    "ends of another release": {"ends": [[0.0, 1.0]]},
    "sides of another table": {"axes": [["k", ["a", "b", "c"]]]},
}


@pytest.mark.parametrize("name", DAMAGE)
def test_a_damaged_record_is_said_to_be_one(name: str) -> None:
    """Some were taken, and failed where they were printed; others raised what Python raises."""
    record = tdp.mean(TABLE, ["x", "y"], schema=SCHEMA, epsilon=1, rng=1).to_dict()
    text = json.dumps(record | DAMAGE[name])
    with pytest.raises(tdp.ParameterError, match="damaged"):
        Release.from_json(text)
