"""Repro samples: ranks that are even at the truth, ends on the outer side, and no look at data."""

from __future__ import annotations

import numpy as np
import pytest
from scipy.stats import poisson

import tightdp as tdp
from tightdp.data.regression_moments import RegressionMoments
from tightdp.errors import ParameterError
from tightdp.inference import Bernoulli, Normal, Poisson, StraightLine, repro
from tightdp.inference.noisy_binomial import NoisyBinomial
from tightdp.inference.repro_ends import increasing_ends, overview
from tightdp.inference.repro_points import Points, Simulated
from tightdp.inference.simulated_models import entries_at, summed_rows
from tightdp.noise.lattice_laws import Geometric
from tightdp.randomness import SeededSource

UNIT = tdp.Schema({"x": tdp.Interval(0, 3)}, rows=40)
SQUARES = tdp.SumsAndSquares(UNIT, ["x"])
NORMAL = Normal("x", mean=(-5, 5), std=(0.05, 5))
LINE = StraightLine(
    "x", "y", slope=(-5, 5), intercept=(-5, 5), feature_mean=(-5, 5), feature_std=(0.1, 5),
    error_std=(0.1, 5),
)  # fmt: skip


# --- models ---------------------------------------------------------------------------------------


@pytest.mark.parametrize("theta", [(1.0, 1.0), (4.5, 0.2), (-2.0, 5.0), (1.5, 0.05)])
@pytest.mark.parametrize("statistic", [SQUARES, tdp.Sums(UNIT, ["x"])], ids=["squares", "sums"])
def test_sums_of_normal_rows_are_those_of_the_rows(theta, statistic):
    found = entries_at(NORMAL, statistic, 30, 5)(np.array(theta))
    rows = theta[0] + theta[1] * SeededSource(5).normal((30, 40))
    np.testing.assert_allclose(found, summed_rows(statistic, {"x": rows}, (30, 40)), atol=1e-9)


@pytest.mark.parametrize("mean", [0.0, 0.3, 2.5, 40.0])
@pytest.mark.parametrize("bounds", [(0, 3), (1, 7.5), (-2, 2)])
def test_sums_of_counts_are_those_of_the_rows(mean, bounds):
    statistic = tdp.SumsAndSquares(tdp.Schema({"x": tdp.Interval(*bounds)}, rows=40), ["x"])
    found = entries_at(Poisson("x", mean=(0, 50)), statistic, 30, 5)(np.array([mean]))
    rows = poisson.ppf(SeededSource(5).uniform((30, 40)), mean).clip(0)
    np.testing.assert_allclose(found, summed_rows(statistic, {"x": rows}, (30, 40)), atol=1e-9)


def test_rows_are_summed_as_the_release_sums_them(seed):
    schema = tdp.Schema({"x": tdp.Interval(-2, 2), "y": tdp.Interval(0, 5)}, rows=25)
    rng = np.random.default_rng(seed)
    table = {"x": rng.normal(0, 2, 25), "y": rng.normal(2, 2, 25)}
    line = tdp.LinearRegression(epsilon=1, bounds=[(-2, 2), (0, 5)])
    line.fit(table["x"][:, None], table["y"])
    for statistic in (
        tdp.Sums(schema),
        tdp.SumsAndSquares(schema),
        tdp.Moments(schema, ["x"], "y"),
        line.mechanism_.statistic,
    ):
        names = dict(zip(statistic.columns, ("x", "y"), strict=True))
        columns = {name: table[own][None] for name, own in names.items()}
        exact = statistic.measure({name: table[own] for name, own in names.items()})
        wanted = np.array(exact) / statistic.resolution(statistic.schema.bits)
        found = summed_rows(statistic, columns, (1, 25))[0]
        assert np.all(np.abs(found - wanted) <= statistic.rounding(statistic.schema.bits) + 1e-9)


@pytest.mark.parametrize("model", [Bernoulli("x"), Poisson("x", mean=(0, 9))], ids=repr)
def test_models_that_say_so_grow(model):
    entries = entries_at(model, tdp.Sums(UNIT, ["x"]), 50, 3)
    (low, high) = next(iter(model.parameters.values()))
    path = [entries(np.array([value])) for value in np.linspace(low, high, 40)]
    assert (np.diff(np.stack(path), axis=0) >= 0).all()


# --- single points --------------------------------------------------------------------------------


def points_at(truth, seed, *, noise=1.0, simulated=1.0, seeds=59, model=NORMAL, statistic=SQUARES):
    """A release at the truth; ``simulated`` is the noise in simulations, in units of the true."""
    rng = np.random.default_rng(seed)
    ends = np.array(list(model.parameters.values()))
    made = []
    for size in (1, seeds, 60):
        entries = entries_at(model, statistic, size, int(rng.integers(2**60)))
        scale = noise * (1.0 if size == 1 else simulated)
        made.append(Simulated(entries, scale * rng.laplace(size=(size, len(statistic)))))
    return Points(made[0].at(np.array(truth))[0], *made[1:], ends[:, 0], ends[:, 1])


def lost(truth, tables, **options):
    """The share of tables whose true point is not kept, by parameter."""
    found = [points_at(truth, k, **options) for k in range(tables)]
    where = np.array(truth)
    return [np.mean([not p.keeps(where, j, 0.2) for p in found]) for j in range(len(truth))]


@pytest.mark.parametrize("truth", [(1.0, 1.0), (4.0, 0.5), (1.5, 0.05)])
def test_the_truth_is_lost_no_more_often_than_stated(truth):
    most = 0.2 + 4 * np.sqrt(0.2 * 0.8 / 80)  # four standard errors
    assert max(lost(truth, 80)) <= most


def test_simulations_with_too_little_noise_are_noticed():
    assert max(lost((1.0, 1.0), 80, noise=8.0, simulated=0.5)) > 0.4


def test_an_estimate_fits_the_release():
    # as many entries as parameters: the mean of the pilot is brought to the release
    points = points_at((1.0, 1.0), 3, noise=0.1)
    best = points.estimate(list(overview(points, 32)))
    mean, covariance = points.mean_and_covariance(best)
    away = points.released - mean
    assert away @ np.linalg.solve(covariance, away) < 0.01


def test_an_estimate_of_five_parameters_is_found_from_afar():
    # one of three searches from a single start ends at a standard deviation of nearly 0
    schema = tdp.Schema({"x": tdp.Interval(-2, 2), "y": tdp.Interval(-2, 2)}, rows=60)
    statistic = RegressionMoments(schema, ["x"], "y", joint=True)
    for k in range(6):
        truth = (0.0, -0.5, 0.5, 1.0, 0.5)
        points = points_at(truth, k, noise=1.0, seeds=39, model=LINE, statistic=statistic)
        best = points.estimate(list(overview(points, 64)))
        assert points.distance(best) < points.distance(np.array(truth)) + 0.1


# --- intervals ------------------------------------------------------------------------------------


def share_of(epsilon, rows):
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows)
    return tdp.AdditiveMechanism(tdp.Sums(schema, ["x"]), noise="laplace", epsilon=epsilon)


def test_intervals_of_a_share_agree_with_exact_ones():
    # the exact tails at the ends that were found by R = 4,999 simulations are within 4 errors
    mechanism, rows, tail = share_of(1, 60), 60, 0.025
    release = mechanism.release({"x": [1, 0, 0] * 20}, rng=3)
    found = repro(release, Bernoulli("x"), mechanism, seeds=4_999)
    law = Geometric(epsilon=1, sensitivity=2 * mechanism.resolution)
    exact = NoisyBinomial(rows, law, 2 * mechanism.resolution)
    place = int(release.integers[0]) + rows * mechanism.resolution
    low, high = found.interval[0]
    error = 4 * np.sqrt(tail * (1 - tail) / 4_999)
    assert found.method == "proved"
    assert abs(exact.at_least(place, low) - tail) < error
    assert abs(exact.at_most(place, high) - tail) < error


@pytest.mark.parametrize(("truth", "epsilon"), [(0.0, 2), (0.03, 0.1), (1.0, 0.1)])
def test_a_proved_interval_covers_at_the_ends_of_the_parameter(truth, epsilon):
    tables, statistic = 30, tdp.Sums(tdp.Schema({"x": tdp.Interval(0, 1)}, rows=15), ["x"])
    held = 0
    for k in range(tables):
        model = Bernoulli("x")
        p = points_at((truth,), k, noise=2 / epsilon, seeds=199, model=model, statistic=statistic)
        low, high = increasing_ends(p, 0.2)
        held += low <= truth <= high
    assert held / tables >= 0.8 - 4 * np.sqrt(0.2 * 0.8 / tables)


def mechanism_of(statistic, epsilon=1):
    return tdp.AdditiveMechanism(statistic, epsilon=epsilon)


def test_ends_are_where_nothing_is_kept(seed):
    mechanism = mechanism_of(SQUARES, 4)
    rows = np.random.default_rng(seed).normal(1.4, 0.6, 40)
    release = mechanism.release({"x": rows}, rng=seed)
    asked = {"of": "mean", "seeds": 99, "confidence": 0.9}
    exact = repro(release, NORMAL, mechanism, **asked)
    fast = repro(release, NORMAL, mechanism, **asked, method="bootstrap")
    assert (exact.method, fast.method) == ("tried", "approximate")
    assert exact.looks > fast.looks
    # other parameters that are tried can only keep more, up to how well ends are found
    room = 0.02 * np.ptp(exact.interval[0])
    assert exact.interval[0, 0] <= fast.interval[0, 0] + room
    assert exact.interval[0, 1] >= fast.interval[0, 1] - room
    assert exact.interval[0, 0] < exact.value[0] < exact.interval[0, 1]
    assert "each interval on its own" in str(exact)


def test_only_the_release_is_looked_at(monkeypatch):
    mechanism = mechanism_of(SQUARES)
    release = mechanism.release({"x": [1.0] * 40}, rng=1)

    def canary(*arguments, **options):
        raise AssertionError("rows were read")

    monkeypatch.setattr(tdp.AdditiveMechanism, "exact", canary)
    monkeypatch.setattr(tdp.Statistic, "measure", canary)
    monkeypatch.setattr(tdp.Statistic, "integer_sum", canary)
    first, second = (
        repro(release, NORMAL, mechanism, of="mean", seeds=49, confidence=0.8) for _ in "ab"
    )
    assert first.interval.tolist() == second.interval.tolist()  # the same for everybody
    assert release.integers == first.release.integers


class Exponential:
    """A model of a user's."""

    increasing = True

    def __init__(self) -> None:
        self.parameters = {"mean": (0.1, 50.0)}

    def simulate(self, theta, rows, size, rng):
        return {"x": theta["mean"] * rng.exponential(size=(size, rows))}


def test_any_model_that_can_be_simulated_will_do():
    mechanism = mechanism_of(tdp.Sums(UNIT.with_rows(400), ["x"]), 5)
    release = mechanism.release({"x": np.random.default_rng(2).exponential(2, 400)}, rng=2)
    low, high = repro(release, Exponential(), mechanism, seeds=199).interval[0]
    assert 1.4 < low < high < 2.8


class Smokers:
    """Counts of two levels, which sum to n: their covariance is singular."""

    parameters = {"share": (0.0, 1.0)}  # noqa: RUF012

    def simulate(self, theta, rows, size, rng):
        ones = rng.binomial(rows, theta["share"], size)
        return np.column_stack([rows - ones, ones])


def test_a_model_may_return_entries():
    schema = tdp.Schema({"k": tdp.Category(["no", "yes"], other="no")}, rows=200)
    mechanism = mechanism_of(tdp.Counts(schema), 2)
    release = mechanism.release({"k": ["no", "no", "yes", "no"] * 50}, rng=1)
    found = repro(release, Smokers(), mechanism, seeds=199)
    assert found.method == "tried"
    assert 0.1 < found.interval[0, 0] < 0.25 < found.interval[0, 1] < 0.4
    with pytest.raises(ParameterError, match="entries, not rows"):
        repro(release, Bernoulli("k"), mechanism)


def test_a_known_deviation_leaves_nothing_to_search_for():
    mechanism = mechanism_of(tdp.Sums(UNIT, ["x"]))
    release = mechanism.release({"x": [1.0, 2.0] * 20}, rng=1)
    found = repro(release, Normal("x", mean=(-5, 5), std=0.5), mechanism)
    assert found.method == "proved"
    assert 0.5 < found.interval[0, 0] < found.interval[0, 1] < 2.5


def test_rows_beyond_memory_are_refused():
    for model in (Poisson("x", mean=(0, 9)), NORMAL):
        with pytest.raises(ParameterError, match="too many"):
            entries_at(model, tdp.Sums(UNIT.with_rows(10**7), ["x"]), 199, 1)


def test_a_line_is_approximate_by_default_and_says_so():
    model = tdp.LinearRegression(epsilon=20, bounds=[(-2, 2), (-4, 4)], random_state=1)
    rng = np.random.default_rng(4)
    x = rng.normal(0, 0.8, 80)
    model.fit(x[:, None], 1 + 1.5 * x + rng.normal(0, 0.5, 80))
    names = model.mechanism_.statistic.columns
    line = StraightLine(*names, **LINE.parameters)
    found = repro(model.release_, line, model.mechanism_, of="slope", seeds=49, confidence=0.8)
    assert found.method == "approximate"
    assert "approximate" in found.about
    low, high = found.interval[0]
    assert low < found.value[0] < high
    assert 0.5 < low < high < 2.5  # 49 simulations: ends are rough


def test_a_release_that_no_parameter_explains_has_no_interval():
    mechanism = mechanism_of(SQUARES, 50)
    release = mechanism.release({"x": [0.0] * 20 + [3.0] * 20}, rng=1)
    narrow = Normal("x", mean=(1, 2), std=(0.05, 0.2))
    found = repro(release, narrow, mechanism, of="mean", seeds=199)
    assert np.isnan(found.interval).all()
    assert found.unknown == ("mean",)
    assert "doubt model and bounds" in found.about


def held(model, statistic, epsilon, truth, rows, tables, method):
    """How often intervals hold the truth, by parameter."""
    mechanism, count = mechanism_of(statistic, epsilon), np.zeros(len(truth))
    for k in range(tables):
        drawn = model.simulate(truth, rows, 1, np.random.default_rng(k))
        release = mechanism.release({name: cells[0] for name, cells in drawn.items()}, rng=k)
        found = repro(release, model, mechanism, seeds=199, method=method)
        values = np.array([truth[name] for name in found.names])
        count += (found.interval[:, 0] <= values) & (values <= found.interval[:, 1])
    return count / tables


@pytest.mark.slow
@pytest.mark.parametrize("method", ["repro", "bootstrap"])
@pytest.mark.parametrize("epsilon", [0.1, 1])
def test_intervals_hold_at_length(method, epsilon):
    statistic = tdp.SumsAndSquares(UNIT.with_rows(100), ["x"])
    found = held(NORMAL, statistic, epsilon, {"mean": 1.0, "std": 1.0}, 100, 150, method)
    assert (found >= 0.95 - 3 * np.sqrt(0.95 * 0.05 / 150)).all()


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"of": "median"}, "of"),
        ({"of": ["std"], "model": Normal("x", mean=(0, 3), std=1)}, "known"),
        ({"model": Normal("z", mean=(0, 3), std=1)}, "alone"),
        ({"model": object()}, "parameters"),
        ({"model": Normal("x", mean=1, std=1)}, "not known"),
        ({"mechanism": object()}, "mechanism"),
        ({"mechanism": mechanism_of(tdp.Sums(UNIT, ["x"]))}, "come from"),
        ({"confidence": 1.5}, "confidence"),
        ({"method": "magic"}, "method"),
        ({"seeds": 3}, "seeds"),
        ({"seeds": 198}, "seeds"),  # no p-value could be small enough to reject
        ({"confidence": 1 - 1e-7}, "too large"),
        ({"release": 7}, "release"),
    ],
)
def test_what_does_not_fit_is_refused(options, words):
    mechanism = mechanism_of(SQUARES)
    given = {
        "release": mechanism.release({"x": [1.0] * 40}, rng=1),
        "model": NORMAL,
        "mechanism": mechanism,
        **options,
    }
    with pytest.raises(ParameterError, match=words):
        repro(**given)


@pytest.mark.parametrize("facts", [{"mean": (2, 1)}, {"std": (0, 1)}, {"mean": "large"}])
def test_bounds_of_parameters_are_checked(facts):
    with pytest.raises(ParameterError):
        Normal("x", **{"mean": (0, 1), "std": (1, 2), **facts})


def test_rows_whose_number_is_private_are_refused():
    schema = tdp.Schema({"x": tdp.Interval(0, 3)}, rows=40, neighbors="add-remove")
    mechanism = tdp.AdditiveMechanism(tdp.SumsAndRows(schema, ["x"]), epsilon=1)
    release = mechanism.release({"x": [1.0] * 40}, rng=1)
    with pytest.raises(ParameterError, match="replace-one"):
        repro(release, Poisson("x", mean=(0, 9)), mechanism)
