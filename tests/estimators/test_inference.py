"""Inference after the release: the parametric bootstrap and the bias of a clamped target."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import BOUNDS, algorithm_4

from tightdp.errors import ParameterError, UndecidedError
from tightdp.estimators.linear import LinearRegression
from tightdp.inference import _clamped_moments, _inside, bootstrap_coverage, without_clipping


def test_the_bootstrap_confirms_intervals_and_rejects_narrow_ones(seed):
    X, y = algorithm_4(np.random.default_rng(seed), 10_000)
    model = LinearRegression(epsilon=1, bounds=BOUNDS, random_state=seed).fit(X, y)
    # 6 coefficients x 25 simulations: 4 s.e. are 0.075 and 0.17
    assert bootstrap_coverage(model, replicates=25, rng=seed).mean() > 0.95 - 0.075
    assert bootstrap_coverage(model, 0.5, replicates=25, rng=seed).mean() < 0.5 + 0.17


@pytest.mark.parametrize(("centre", "scale"), [(0.0, 0.2), (0.3, 0.6), (-0.5, 1.0)])
def test_moments_of_a_clamped_normal(centre, scale, seed):
    y = np.clip(np.random.default_rng(seed).normal(centre, scale, 400_000), -1, 1)
    first, second = _clamped_moments(centre, scale)
    assert abs(y.mean() - first) < 5 * y.std() / np.sqrt(len(y))
    assert abs((y**2).mean() - second) < 5 * (y**2).std() / np.sqrt(len(y))
    inside = _inside(first, second)
    assert inside == pytest.approx((np.abs(y) < 1).mean(), abs=0.005)


@pytest.mark.parametrize("bound", [6.0, 1.5])
def test_slopes_without_the_clamp(bound, seed):
    rng = np.random.default_rng(seed)
    X = rng.normal(0, 0.3, (100_000, 2))
    y = X @ [3.0, -2.0] + rng.normal(0, 0.8, 100_000)
    bounds = [(-1.5, 1.5), (-1.5, 1.5), (-bound, bound)]
    model = LinearRegression(epsilon=10, bounds=bounds, random_state=seed).fit(X, y)
    mended = without_clipping(model)
    np.testing.assert_allclose(mended.coef, [3.0, -2.0], atol=0.1)
    if bound == 6.0:
        assert mended.inside > 0.995
    else:  # the fault that is mended
        assert np.abs(model.coef_ - [3.0, -2.0]).max() > 0.5


def test_what_cannot_be_answered(seed):
    with pytest.raises(ParameterError, match="fitted"):
        bootstrap_coverage(LinearRegression())
    X, y = algorithm_4(np.random.default_rng(seed), 500)
    papers = LinearRegression(bounds=BOUNDS, noise="linf", post="none", random_state=seed)
    with pytest.raises(ParameterError, match="square"):
        without_clipping(papers.fit(X, y))
    with pytest.raises(UndecidedError, match="widen"):
        _inside(0.0, 0.9999)
