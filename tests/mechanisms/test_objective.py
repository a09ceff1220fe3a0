"""Objective perturbation: the law of a release, categories, choices from public facts, use."""

from __future__ import annotations

import itertools
import math

import numpy as np
import pytest
from objective_tables import BETA, algorithm_three, binary_schema, largest_ratio
from scipy import integrate, stats

from tightdp import (
    Category,
    Interval,
    Ledger,
    LpBall,
    ObjectivePerturbation,
    ParameterError,
    Polytope,
    Schema,
)
from tightdp.convex.margin_losses import LogisticLoss
from tightdp.convex.minimiser import minimise
from tightdp.convex.objective_calibration import PublicFacts, best_share
from tightdp.convex.objectives import Objective
from tightdp.convex.penalties import NoPenalty, Smooth
from tightdp.plans import request
from tightdp.randomness import source

# --- the law of a release ------------------------------------------------------------------------

TINY = (np.array([[1.0], [-0.5], [0.25]]), np.array([1.0, 0.0, 1.0]))


@pytest.mark.slow_for("0.5-*")
@pytest.mark.parametrize(
    ("share", "ridge", "mean", "sd", "negative"),
    [(0.5, 0.3853735206, 1.90694472, 13.23210061, 0.40176129),
     (0.85, 1.5447904954, 0.49085064, 1.91720033, 0.34472021)],
)  # fmt: skip
def test_the_law_of_one_parameter(share, ridge, mean, sd, negative, seed):
    rate = share / 2.0
    assert 0.25 / math.expm1(1.0 - share) == pytest.approx(ridge, rel=1e-9)
    x, y = TINY

    def tilt(theta):
        p = 1.0 / (1.0 + np.exp(-np.clip(theta * x[:, 0], -700, 700)))
        return -((p - y) @ x[:, 0] + ridge * theta)

    def distribution(values):  # theta is decreasing in V
        v = np.array([tilt(t) for t in values])
        return np.where(v > 0, 0.5 * np.exp(-rate * np.abs(v)), 1 - 0.5 * np.exp(-rate * np.abs(v)))

    draws = (
        source(seed).exponential(4000)
        / rate
        * np.where(source(seed + 1).uniform(4000) < 0.5, -1, 1)
    )
    found = [
        minimise(Objective(x, y, LogisticLoss(), ridge, np.array([v]), NoPenalty()), 1e-10).theta[0]
        for v in draws
    ]
    assert stats.kstest(found, distribution).pvalue > 1e-4
    assert np.mean(found) == pytest.approx(mean, abs=5 * sd / math.sqrt(4000))
    assert distribution(np.array([0.0]))[0] == pytest.approx(negative, abs=1e-6)
    width = integrate.quad(
        lambda t: (t - mean) ** 2 * rate / 2 * math.exp(-rate * abs(tilt(t))) * _slope(t, x, ridge),
        -400,
        400,
        limit=2000,
        points=[0.0],
    )[0]
    assert math.sqrt(width) == pytest.approx(sd, rel=1e-4)


def _slope(theta, x, ridge):
    p = 1.0 / (1.0 + np.exp(-np.clip(theta * x[:, 0], -700, 700)))
    return float((p * (1 - p)) @ x[:, 0] ** 2 + ridge)


@pytest.mark.slow_for("linf", "l2")
@pytest.mark.parametrize("norm", ["linf", "l1", "l2"])
def test_the_released_parameters_follow_the_density(norm, seed):
    # the whole path, lattice noise and output noise included: E of a probability transform
    x, y = np.array([[1.0, 0.5], [-0.5, 1.0], [0.25, -1.0]]), np.array([1.0, 0.0, 1.0])
    mechanism = ObjectivePerturbation(
        binary_schema(2, 3), epsilon=2.0, noise=norm, noise_share=0.8, fit_intercept=False
    )
    bits = source(seed)
    theta = np.array(
        [
            mechanism.scaled(mechanism.perturbed(x, y, mechanism.draw_noise(bits)))
            for _ in range(1000)
        ]
    )
    pull = LogisticLoss().first(theta @ x.T, y) @ x + mechanism.calibration.ridge * theta
    radius = np.asarray(mechanism.ball.gauge(-pull))
    assert (
        stats.kstest(radius, stats.gamma(2, scale=1 / mechanism.calibration.rate).cdf).pvalue > 1e-4
    )
    # planted: noise cut by a fifth is seen
    assert (
        stats.kstest(radius * 0.8, stats.gamma(2, scale=1 / mechanism.calibration.rate).cdf).pvalue
        < 1e-4
    )
    cone = -pull / radius[:, None]
    for j in range(2):
        p = stats.ks_2samp(cone[:, j], -cone[:, j]).pvalue
        assert p > 1e-5


# --- categories ----------------------------------------------------------------------------------

MIXED = {
    "a": Interval(0, 4),
    "k": Category(["u", "v", "w", "x"], other="u"),
    "l": Category(["yes", "no"], other="yes"),
    "b": Interval(-3, 1),
    "m": Category([1, 2, 3], other=1),
}


@pytest.mark.parametrize("intercept", [True, False])
def test_rows_with_categories_fill_their_ball(intercept, seed):
    rng, rows = np.random.default_rng(seed), 4000
    table = {
        name: rng.choice([column.low - 1, column.high + 1, column.low], rows)
        if isinstance(column, Interval)
        else rng.choice(np.array(column.levels, dtype=object), rows)
        for name, column in MIXED.items()
    }
    schema = Schema({**MIXED, "y": Category([0, 1], other=0)}, rows=rows)
    mechanism = ObjectivePerturbation(schema, epsilon=1.0, noise_share=0.9, fit_intercept=intercept)
    x, _ = mechanism.rows.read({**table, "y": np.zeros(rows)})
    design = ("a", "k[v]", "k[w]", "k[x]", "l[no]", "b", "m[2]", "m[3]")
    assert mechanism.names == (("intercept", *design) if intercept else design)
    assert x.shape == (rows, 8 + intercept)
    gauge, square = np.asarray(mechanism.ball.gauge(x)), (x**2).sum(axis=1)
    assert gauge.max() == 1.0
    assert square.max() == mechanism.facts.squared_length == 5 + intercept
    # any two rows, pulled with full force: the sensitivity is 2 and not less
    gaps = np.asarray(mechanism.ball.gauge(x[: rows // 2] + x[rows // 2 :]))
    assert gaps.max() <= 2.0
    assert gaps.max() > 1.9  # noise cut by a fifth would not do
    other = ObjectivePerturbation(
        schema, epsilon=1.0, noise_share=0.9, noise="l2", fit_intercept=intercept
    )
    assert np.asarray(other.ball.gauge(x)).max() <= 1.0


@pytest.mark.parametrize("intercept", [True, False])
def test_every_extreme_row_lies_in_the_ball_name_by_name(intercept):
    """All rows at the ends of their bounds, and the ball's axes, compared by the names alone."""
    ends = [
        (column.low, 0.0, column.high) if isinstance(column, Interval) else column.levels
        for column in MIXED.values()
    ]
    cells = list(itertools.product(*ends))
    table = {name: list(own) for name, own in zip(MIXED, zip(*cells, strict=True), strict=True)}
    schema = Schema({**MIXED, "y": Category([0, 1], other=0)}, rows=len(cells))
    mechanism = ObjectivePerturbation(schema, epsilon=1.0, noise_share=0.9, fit_intercept=intercept)
    x, _ = mechanism.rows.read({**table, "y": [0] * len(cells)})
    for place, name in enumerate(mechanism.names):
        feature, _, level = name.partition("[")
        if name == "intercept":
            expected = np.ones(len(cells))
        elif level:
            expected = np.array([f"{cell}]" == level for cell in table[feature]], dtype=float)
        else:
            column = MIXED[feature]
            middle = column.middle if intercept else 0.0
            reach = column.half if intercept else max(abs(column.low), abs(column.high))
            expected = (np.array(table[feature]) - middle) / reach
        np.testing.assert_allclose(x[:, place], expected, atol=2.0**-15, err_msg=name)
    assert np.asarray(mechanism.ball.gauge(x)).max() == 1.0
    # two axes share an l1 ball if and only if their names are levels of one category
    for (i, one), (j, two) in itertools.combinations(enumerate(mechanism.names), 2):
        corner = np.zeros(len(mechanism.names))
        corner[[i, j]] = 1.0
        exclusive = "[" in one and one.partition("[")[0] == two.partition("[")[0]
        assert mechanism.ball.gauge(corner) == (2.0 if exclusive else 1.0), (one, two)
    if intercept:  # the planted fault: rows in one order, the ball in another
        assert np.asarray(mechanism.ball.gauge(np.roll(x, -1, axis=1))).max() == 2.0


@pytest.mark.slow
def test_the_density_ratio_with_a_category():
    schema = Schema(
        {"k": Category(["a", "b", "c"], other="a"), "y": Category([0, 1], other=0)}, rows=1
    )
    mechanism = ObjectivePerturbation(schema, epsilon=1.0, noise_share=0.5, fit_intercept=False)
    assert mechanism.ball.p == 1
    corners = [np.zeros(2), np.array([1.0, 0.0]), np.array([0.0, 1.0])]
    pairs = [
        (np.array([first]), np.array([float(label)]), second, other, mechanism)
        for first, second in itertools.product(corners, repeat=2)
        for label, other in itertools.product([0, 1], repeat=2)
    ]
    assert max(largest_ratio(*pair) for pair in pairs) <= 1.0
    assert max(largest_ratio(*pair, rate=1.6, ridge=0.25) for pair in pairs) > 1.0
    # the cube would need noise of the same rate and a ridge for two columns
    cube = Schema(
        {"a": Interval(0, 1), "b": Interval(0, 1), "y": Category([0, 1], other=0)}, rows=1
    )
    plain = ObjectivePerturbation(cube, epsilon=1.0, noise_share=0.5, fit_intercept=False)
    assert mechanism.calibration.ridge < 0.6 * plain.calibration.ridge


# --- choices from public facts -------------------------------------------------------------------


def test_the_automatic_share_is_public_and_repeatable():
    facts, ball = PublicFacts(LogisticLoss(), 7), LpBall(7, np.inf)
    assert best_share(facts, ball, 0.1, 10_000) == best_share(facts, ball, 0.1, 10_000)
    assert best_share(facts, ball, 1 / 64, 1000) > best_share(facts, ball, 1.0, 100_000)
    first, second = (
        ObjectivePerturbation(binary_schema(7, 10_000), epsilon=0.1).calibration for _ in range(2)
    )
    assert first == second


@pytest.mark.slow_for("l2-*", "linf-0.5-*")
@pytest.mark.parametrize(
    ("norm", "share", "reference", "error"),
    [("l1", 0.5, 2.664, 0.120), ("l2", 0.5, 1.819, 0.062),
     ("linf", 0.5, 1.118, 0.025), ("linf", 0.85, 0.733, 0.014)],
)  # fmt: skip
def test_the_papers_simulation_small(norm, share, reference, error, seed):
    # Algorithm 3, n = 1e4, epsilon = 1/16; reference medians of 400 replicates
    median, spread = simulated(10_000, 1 / 16, seed, 60, noise=norm, noise_share=share)
    assert abs(median - reference) <= 4 * math.hypot(spread, error)


def simulated(rows, epsilon, seed, replicates, *, accounting="split", **options):
    mechanism = ObjectivePerturbation(
        binary_schema(7, rows),
        epsilon=epsilon,
        fit_intercept=False,
        accounting=accounting,
        **options,
    )
    rng, errors = source(seed), []
    for _ in range(replicates):
        x, y = algorithm_three(rows, rng)
        found = mechanism.scaled(mechanism.perturbed(x, y, mechanism.draw_noise(rng)))
        errors.append(float(np.linalg.norm(found - BETA)))
    # standard error of a median from order statistics
    low, high = np.quantile(errors, 0.5 + np.array([-1, 1]) / math.sqrt(replicates) / 2)
    return float(np.median(errors)), (high - low) / 2


@pytest.mark.slow
@pytest.mark.parametrize(
    ("epsilon", "row"),
    [(1 / 16, [(2.664, 0.120), (1.819, 0.062), (1.118, 0.025), (0.733, 0.014)]),
     (1 / 4, [(0.560, 0.022), (0.459, 0.011), (0.314, 0.008), (0.258, 0.005)]),
     (1.0, [(0.183, 0.003), (0.155, 0.004), (0.126, 0.002), (0.119, 0.002)])],
)  # fmt: skip
def test_the_papers_simulation(epsilon, row, seed):
    settings = [("l1", 0.5), ("l2", 0.5), ("linf", 0.5), ("linf", 0.85)]
    medians = []
    for (norm, share), (reference, error) in zip(settings, row, strict=True):
        median, spread = simulated(10_000, epsilon, seed, 400, noise=norm, noise_share=share)
        assert abs(median - reference) <= 4 * math.hypot(spread, error)
        medians.append(median)
    assert medians[0] > medians[1] > medians[2]
    ours, _ = simulated(10_000, epsilon, seed, 400, accounting="joint", noise_share="auto")
    assert ours < medians[3]


# --- use -----------------------------------------------------------------------------------------


def test_units_of_the_user(seed):
    # large epsilon: the estimate in user units is that of the model, for every scaling
    rng = source(seed)
    x = np.column_stack([rng.uniform(20_000) * 10, rng.uniform(20_000) * 4 - 1])
    odds = 0.8 * x[:, 0] - 1.5 * x[:, 1] - 2.0
    y = (rng.uniform(20_000) < 1 / (1 + np.exp(-odds))).astype(int)
    columns = {"a": Interval(0, 10), "b": Interval(-1, 3)}
    schema = Schema({**columns, "y": Category([0, 1], other=0)}, rows=20_000)
    table = {"a": x[:, 0], "b": x[:, 1], "y": y}
    value = ObjectivePerturbation(schema, epsilon=500.0).release(table, rng=1).value
    assert np.allclose(value, [-2.0, 0.8, -1.5], atol=0.15)
    target = 0.3 * x[:, 0] - 0.5 * x[:, 1] + 1.0
    plain = Schema({**columns, "y": Interval(-2, 6)}, rows=20_000)
    for loss, kept in [("huber", None), ("squared", LpBall(3, 2, 2.0))]:
        mechanism = ObjectivePerturbation(plain, loss=loss, epsilon=500.0, theta_set=kept)
        value = mechanism.release({**table, "y": target}, rng=1).value
        assert np.allclose(value, [1.0, 0.3, -0.5], atol=0.05)
    through = ObjectivePerturbation(plain, loss="huber", epsilon=500.0, fit_intercept=False)
    value = through.release({**table, "y": 0.3 * x[:, 0] - 0.5 * x[:, 1]}, rng=1).value
    assert np.allclose(value, [0.3, -0.5], atol=0.05)


def test_a_release_is_paid_for_once(tmp_path):
    schema = binary_schema(2, 100)
    table = {"x0": np.zeros(100), "x1": np.ones(100), "y": np.zeros(100, dtype=int)}
    ledger = Ledger(epsilon=1.0, path=str(tmp_path / "ledger.db"))
    mechanism = ObjectivePerturbation(schema, epsilon=0.5, interval_share=0.25)
    first = mechanism.release(table, ledger=ledger, key="fit")
    again = mechanism.release(table, ledger=ledger, key="fit")
    assert first.integers == again.integers
    assert ledger.spent.epsilon == 0.5
    assert first.guarantee.numerics == "idealized-numerics"
    assert len(first.names) == 3 + 6
    assert "information[0,2]" in first.names
    with pytest.raises(ParameterError, match="no column"):
        mechanism.release({"x0": np.zeros(3)}, ledger=ledger)
    assert ledger.spent.epsilon == 0.5


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"epsilon": 1e6}, "epsilon"),
        ({"epsilon": -1}, "epsilon"),
        ({"epsilon": 2.0**-39}, "epsilon"),
        ({"noise": "l3"}, "noise"),
        ({"noise": LpBall(5, 2)}, "dimension"),
        ({"noise_share": 0.0}, "noise_share"),
        ({"noise_share": 1.5}, "noise_share"),
        ({"noise_share": "best"}, "noise_share"),
        ({"noise_share": 1.0, "accounting": "split"}, "nothing is left"),
        ({"accounting": "guess"}, "accounting"),
        ({"ridge": -1.0}, "ridge"),
        ({"l1": -1.0}, "l1"),
        ({"l1": 1.0, "theta_set": LpBall(3, 2)}, "at most one"),
        ({"theta_set": LpBall(7, 2)}, "theta_set"),
        ({"theta_set": LpBall(3, 3)}, "theta_set"),
        ({"penalty": "ridge"}, "penalty"),
        ({"loss": "hinge"}, "loss"),
        ({"loss": "huber"}, "Interval"),
        ({"interval_share": 1.0}, "interval_share"),
        ({"features": ["y"]}, "features"),
        ({"features": []}, "features"),
    ],
)
def test_bad_parameters(options, message):
    schema = binary_schema(2, 100)
    given = {"epsilon": 1.0, **options}
    with pytest.raises(ParameterError, match=message):
        ObjectivePerturbation(schema, **given)


def test_an_empty_parameter_set_and_unbounded_gradients_are_refused():
    with pytest.raises(ParameterError, match="radius"):
        LpBall(3, 2, 0.0)
    plain = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=10)
    with pytest.raises(ParameterError, match="theta_set"):
        ObjectivePerturbation(plain, loss="squared", epsilon=1.0)
    with pytest.raises(ParameterError, match="strength"):
        Smooth(lambda t: -t, strength=-1.0)


def test_a_ball_of_ones_own_is_scaled_to_hold_all_rows():
    hexagon = Polytope.from_vertices(
        [[math.cos(a), math.sin(a)] for a in np.arange(6) * math.pi / 3]
    )
    mechanism = ObjectivePerturbation(
        binary_schema(2, 100), epsilon=1.0, noise=hexagon, fit_intercept=False
    )
    corners = np.array(list(itertools.product([-1.0, 1.0], repeat=2)))
    assert np.asarray(mechanism.ball.gauge(corners)).max() == pytest.approx(1.0, abs=1e-6)
    assert np.asarray(mechanism.ball.gauge(corners)).max() <= 1.0


def test_previews_count_the_output_noise_of_billions_of_rows():
    """Its half-width was that of the noise in the objective alone, 50,000 times too small."""
    columns = {"x": Interval(0, 1), "y": Category(["a", "b"], other="a")}
    for rows in (1_000, 10**9):
        schema = Schema(columns, rows=rows)
        found = request("logistic_regression", schema, epsilon=1, target="y").preview()
        assert (found.half_width > found.std).all()
