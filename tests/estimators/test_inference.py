"""Inference after the release: the parametric bootstrap and the bias of a clamped target."""

from __future__ import annotations

import numpy as np
import pytest
from simulation import BOUNDS, algorithm_4

from tightdp.errors import ParameterError, UndecidedError
from tightdp.estimators.linear import LinearRegression
from tightdp.inference import bootstrap_coverage, without_clipping
from tightdp.inference.clipping import clamped_moments, clamped_normal


def test_the_bootstrap_confirms_intervals_and_rejects_narrow_ones(seed):
    X, y = algorithm_4(np.random.default_rng(seed), 10_000)
    model = LinearRegression(epsilon=1, bounds=BOUNDS, random_state=seed).fit(X, y)
    # 6 coefficients x 25 simulations: 4 s.e. are 0.075 and 0.17
    assert bootstrap_coverage(model, replicates=25, rng=seed).mean() > 0.95 - 0.075
    assert bootstrap_coverage(model, 0.5, replicates=25, rng=seed).mean() < 0.5 + 0.17


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
    mended = without_clipping(model)
    np.testing.assert_allclose(mended.coef, [3.0, -2.0], atol=0.1)
    if bound == 6.0:
        assert mended.inside > 0.995
    else:  # the fault that is mended
        assert np.abs(model.coef_ - [3.0, -2.0]).max() > 0.5


def unclipped(rows, epsilon, replicates, seed):
    """Which slopes lie in the intervals with and without the clamp mended."""
    rng, slopes, mended, plain = np.random.default_rng(seed), np.array([2.0, -1.0, 0.5]), [], []
    for i in range(replicates):
        X = rng.normal(0, 0.3, (rows, 3))
        y = 0.25 + X @ slopes + rng.normal(0, 0.5, rows)  # a quarter of it outside [-1, 1]
        model = LinearRegression(
            epsilon=epsilon, bounds=[(-1.5, 1.5)] * 3 + [(-1, 1)], random_state=1000 * seed + i
        ).fit(X, y)
        for bounds, out in (
            (without_clipping(model).interval, mended),
            (model.conf_int(), plain),
        ):
            out.append((bounds[:, 0] <= slopes) & (slopes <= bounds[:, 1]))
    return np.mean(mended, axis=0), np.mean(plain, axis=0)


def test_intervals_without_the_clamp_hold_and_plain_ones_do_not(seed):
    mended, plain = unclipped(10_000, 2.0, 24, seed)
    assert mended.mean() > 0.93 - 0.12  # 4 s.e. of 72 intervals
    assert plain[0] < 0.5


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.5, 2.0])
def test_the_coverage_without_the_clamp(epsilon, seed):
    mended, _ = unclipped(10_000, epsilon, 400, seed)
    assert (mended >= 0.92).all()  # 0.95 within 3 s.e. of 0.011
    assert (mended <= 0.99).all()


def test_nothing_is_claimed_where_noise_hides_everything(seed):
    X, y = algorithm_4(np.random.default_rng(seed), 50)
    model = LinearRegression(epsilon=0.01, bounds=BOUNDS, random_state=seed).fit(X, y)
    try:
        bounds = without_clipping(model).interval
    except UndecidedError:
        return  # the released square of the target is impossible
    assert (bounds[:, 1] - bounds[:, 0] > 1.0).all()


def test_what_cannot_be_answered(seed):
    with pytest.raises(ParameterError, match="fitted"):
        bootstrap_coverage(LinearRegression())
    X, y = algorithm_4(np.random.default_rng(seed), 500)
    papers = LinearRegression(bounds=BOUNDS, noise="linf", post="none", random_state=seed)
    with pytest.raises(ParameterError, match="square"):
        without_clipping(papers.fit(X, y))
    outside = LinearRegression(
        epsilon=100, bounds=[*BOUNDS[:-1], (-1e-3, 1e-3)], random_state=seed
    ).fit(np.tile(X, (20, 1)), np.tile(y, 20))
    with pytest.raises(UndecidedError, match="widen"):
        without_clipping(outside)
