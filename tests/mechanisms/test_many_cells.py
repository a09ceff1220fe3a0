"""Counts of many cells: noise by symmetry has its law, its errors and its gate, in linear time."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.histograms import Histogram
from tightdp.errors import ParameterError, UncoveredMoveError
from tightdp.mechanisms.additive import AdditiveMechanism
from tightdp.shaping.ball_noise import BallNoise
from tightdp.shaping.cell_noise import FEW_CELLS, SymmetricNoise

CELLS = FEW_CELLS + 88


def statistic(neighbors="replace-one", cells=CELLS, **facts):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=10_000, neighbors=neighbors, **facts)
    return Histogram(schema, "x", cells)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_many_cells_have_the_law_and_the_variance_of_the_hull(neighbors):
    many = AdditiveMechanism(statistic(neighbors), noise="best", epsilon=1.0)
    hull = BallNoise(statistic(neighbors), "hull", 1.0)
    assert many.noise.body == hull.draws.body
    assert many.noise.rate == hull.draws.rate
    variance = np.diag(hull.draws.body.covariance(float(hull.draws.rate)))
    np.testing.assert_allclose(many.preview().std ** 2, variance, rtol=1e-9)
    assert many.certified == "by structure"


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_half_widths_hold_for_all_cells_at_once(neighbors, seed):
    noise = SymmetricNoise(statistic(neighbors), "hull", 1.0)
    worst = np.abs(noise.draws.sample(2_000, rng=seed)).max(axis=1)
    outside = np.mean(worst > noise.widths(0.9)[0])
    assert outside < 0.1 + 5 * np.sqrt(0.09 / 2_000)
    assert np.mean(worst > noise.widths(0.9)[0] - 3) > 0.1  # and are not wide


def test_persons_with_rows_in_many_cells_pay_for_all_of_them():
    facts = {"person": "who", "rows_per_person": 3}
    one = AdditiveMechanism(statistic("add-remove"), noise="hull", epsilon=1.0)
    several = AdditiveMechanism(statistic("add-remove", **facts), noise="hull", epsilon=1.0)
    assert several.noise.rate * 3 == one.noise.rate


def test_a_row_that_counts_twice_is_refused(monkeypatch):
    """The planted fault: what is measured is not what the noise was made for."""
    plain = Histogram.contributions

    def twice(self, block, bits):
        out = plain(self, block, bits)
        out[0] += out[1]
        return out

    monkeypatch.setattr(Histogram, "contributions", twice)
    with pytest.raises(UncoveredMoveError):
        AdditiveMechanism(statistic(), noise="hull", epsilon=1.0)


def test_a_release_of_many_cells_is_quick_and_whole(seed):
    rows = {"x": np.linspace(0, 1, 10_000)}
    mechanism = AdditiveMechanism(statistic(cells=20_000), noise="best", epsilon=1.0)
    release = mechanism.release(rows, rng=seed)
    assert sum(release.integers) == 10_000  # the total is public
    assert release.covariance.shape == (20_000,)
    again = tdp.Release.from_dict(release.to_dict())
    assert again.integers == release.integers


def test_noise_that_many_cells_cannot_have_is_refused_before_payment():
    many = statistic(cells=5_000)
    for options in ({"noise": "gaussian", "delta": 1e-6}, {"noise": "best", "delta": 1e-6}):
        with pytest.raises(ParameterError, match="cells"):
            AdditiveMechanism(many, epsilon=1.0, **options)
