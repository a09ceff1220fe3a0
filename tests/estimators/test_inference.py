"""Inference after the release: the bias of a clamped target, for those who know the law."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import BOUNDS, algorithm_4

from tightdp.errors import ParameterError, UndecidedError
from tightdp.estimators.linear import LinearRegression
from tightdp.inference import without_clipping
from tightdp.inference.clipping import clamped_moments, clamped_normal


@pytest.mark.parametrize(("centre", "scale"), [(0.0, 0.2), (0.3, 0.6), (-0.5, 1.0)])
def test_moments_of_a_clamped_normal(centre, scale, seed):
    y = np.clip(np.random.default_rng(seed).normal(centre, scale, 400_000), -1, 1)
    first, second = clamped_moments(np.array(centre), np.array(scale))
    assert abs(y.mean() - first) < 5 * y.std() / np.sqrt(len(y))
    assert abs((y**2).mean() - second) < 5 * (y**2).std() / np.sqrt(len(y))
    law = clamped_normal(first, second)
    assert law.found
    assert (float(law.centre), float(law.scale)) == pytest.approx((centre, scale), abs=1e-5)
    assert law.inside == pytest.approx((np.abs(y) < 1).mean(), abs=0.005)


@pytest.mark.parametrize("bound", [6.0, 1.5])
def test_slopes_without_the_clamp(bound, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 0.3, (100_000, 2))
    y = X @ [3.0, -2.0] + rng.normal(0, 0.8, 100_000)
    bounds = [(-1.5, 1.5), (-1.5, 1.5), (-bound, bound)]
    model = LinearRegression(epsilon=10, bounds=bounds, random_state=seed).fit(X, y)
    mended = without_clipping(model, assume="jointly normal")
    np.testing.assert_allclose(mended.coef, [3.0, -2.0], atol=0.1)
    if bound == 6.0:
        assert mended.inside > 0.995
    else:  # the fault that is mended
        assert np.abs(model.coef_ - [3.0, -2.0]).max() > 0.5


def test_no_interval_stands_on_an_assumption_that_no_release_can_check(seed):
    """Its intervals held the slopes of skewed features in 0 of 150 tables."""
    rng = np.random.default_rng(seed)
    X = np.clip(np.exp(rng.normal(0, 0.8, (50_000, 2))), 0, 8)
    y = X @ [1.0, -0.5] + rng.normal(0, 0.3, 50_000)
    model = LinearRegression(epsilon=10, bounds=[(0, 8)] * 2 + [(-1.5, 1.5)], random_state=seed)
    model.fit(X, y)
    mended = without_clipping(model, assume="jointly normal")
    assert np.abs(mended.coef - [1.0, -0.5]).max() > 0.1  # for skewed columns it does not hold
    assert not hasattr(mended, "interval")
    assert mended.assumes == "jointly normal"
    with pytest.raises(TypeError, match="assume"):
        without_clipping(model)  # never by default
    with pytest.raises(ParameterError, match="assume"):
        without_clipping(model, assume="nothing")


def test_what_cannot_be_answered(seed):
    with pytest.raises(ParameterError, match="fitted"):
        without_clipping(LinearRegression(), assume="jointly normal")
    X, y = algorithm_4(np.random.default_rng(seed), 500)
    papers = LinearRegression(bounds=BOUNDS, noise="linf", post="none", random_state=seed)
    with pytest.raises(ParameterError, match="square"):
        without_clipping(papers.fit(X, y), assume="jointly normal")
    outside = LinearRegression(
        epsilon=100, bounds=[*BOUNDS[:-1], (-1e-3, 1e-3)], random_state=seed
    ).fit(np.tile(X, (20, 1)), np.tile(y, 20))
    with pytest.raises(UndecidedError, match="widen"):
        without_clipping(outside, assume="jointly normal")
