"""Objective perturbation: the ridge and rate that privacy needs, and exact density ratios."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace

import numpy as np
import pytest
from objective_tables import binary_schema, largest_ratio

from tightdp import Interval, LpBall, ObjectivePerturbation, ParameterError, Schema
from tightdp.convex.margin_losses import HuberLoss, LogisticLoss, read_loss
from tightdp.convex.objective_calibration import SINGLE_COLUMN, PublicFacts, calibrate
from tightdp.randomness import source

# --- calibration ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("share", "printed", "right"), [(0.5, -2.541494, 1.541494), (0.85, -7.179, 6.179)]
)
def test_the_ridge_is_the_corrected_one(share, printed, right):
    found = 1.0 / math.expm1(1.0 - share)
    assert found == pytest.approx(right, rel=1e-4)
    assert 1.0 / math.expm1(share - 1.0) == pytest.approx(printed, rel=1e-4)  # what [1] prints
    facts = PublicFacts(LogisticLoss(), 7, accounting="split")
    assert calibrate(facts, 1.0, share).ridge == pytest.approx(1.75 * found, rel=1e-9)


def test_losses_of_more_than_one_margin_are_refused():
    with pytest.raises(ParameterError, match="rank above one"):
        read_loss(lambda theta, row: theta @ theta)


@pytest.mark.parametrize("epsilon", [1e-6, 0.1, 1.0, 8.0, 200.0])
@pytest.mark.parametrize("share", [0.2, 0.5, 0.9, 1.0])
def test_joint_accounting_is_the_supremum(epsilon, share):
    facts = PublicFacts(LogisticLoss(), 5)
    found = calibrate(facts, epsilon, share)
    s = np.linspace(0.0, 1.0, 200_001)
    loss = found.rate * (1.0 + s) + np.log1p(s * (1.0 - s) * 5 / found.ridge)
    assert loss.max() <= epsilon * (1 + 1e-9)
    if share < 1.0:
        assert loss.max() >= epsilon * (1 - 1e-6)  # nothing is wasted
        split = calibrate(replace(facts, accounting="split"), epsilon, share)
        assert found.ridge < split.ridge
    weaker = found.rate * (1.0 + s) + np.log1p(s * (1.0 - s) * 5 / (found.ridge / 2))
    assert weaker.max() > epsilon * (1 + 1e-9) or share == 1.0  # planted: half the ridge


@pytest.mark.parametrize("rate", [0.1, 1.0, 5.0, 250.0])
def test_the_supremum_does_not_overflow(rate):
    # at huge ratios the curve is worth log(ratio) nearly everywhere
    for power in (100, 160, 220, 280):
        at_half = rate / 2 + math.log(0.25) + power * math.log(10)
        assert LogisticLoss().steepest(rate, 10.0**power, math.inf) >= at_half * (1 - 1e-12)


def test_a_huge_budget_still_asks_for_its_ridge():
    facts = PublicFacts(LogisticLoss(), 7, accounting="joint")
    found = calibrate(facts, 1000.0, 0.5)
    share = np.linspace(0.001, 0.999, 999)
    gain = np.log(7.0 * share * (1.0 - share)) - math.log(found.ridge)  # log(1 + x) >= log(x)
    assert (found.rate * (1.0 + share) + gain).max() <= 1000.0


@pytest.mark.parametrize("epsilon", [1e-9, 1e-3, 1.0, 1024.0])
@pytest.mark.parametrize("threshold", [1e-3, 0.25, 1.9])
def test_every_budget_serves_every_threshold(epsilon, threshold, seed):
    facts = {"x": Interval(-1, 1), "y": Interval(-1, 1)}
    mechanism = ObjectivePerturbation(
        Schema(facts, rows=40), loss=HuberLoss(threshold), epsilon=epsilon, noise_share=0.6
    )
    assert mechanism.calibration.rate <= 1024
    x = 2.0 * source(seed).uniform(40) - 1.0
    assert np.isfinite(mechanism.release({"x": x, "y": x / 2}, rng=seed).value).all()


def test_one_logistic_column_moves_the_gradient_less():
    theta = np.linspace(0.0, 60.0, 600_001)
    a = np.linspace(0.0, 1.0, 2001)
    least = np.array([(a / (1.0 + np.exp(t * a))).max() for t in theta[::200]])
    reach = 1.0 / (1.0 + np.exp(-theta[::200])) + least
    # the function is Lipschitz with constant 1/4 + 1/4 on a grid of width 0.02: see the middle
    assert reach.max() <= SINGLE_COLUMN
    assert reach.max() == pytest.approx(1.05163, abs=2e-5)
    assert theta[::200][reach.argmax()] == pytest.approx(4.03, abs=0.05)


def loss_of_one_column(loss, rate, ridge, *, replace_one=True):
    """The largest log ratio of one column: over the parameter, two rows and their targets."""
    theta = np.concatenate([-np.geomspace(1e-3, 400, 400), [0.0], np.geomspace(1e-3, 400, 400)])
    x = np.linspace(-1.0, 1.0, 41)
    ends = (0.0, 1.0) if isinstance(loss, LogisticLoss) else (-1.0, 1.0)
    pulls, bends = [], []
    for y in ends:
        margin = theta[:, None] * x
        pulls.append(loss.first(margin, np.full_like(margin, y)) * x)
        bends.append(loss.second(margin, np.full_like(margin, y)) * x**2)
    pull, bend = np.hstack(pulls), np.hstack(bends)
    growth = np.log1p(bend / ridge)  # the row that comes; the one that goes only shrinks it
    if not replace_one:
        return float((rate * np.abs(pull) + growth).max())
    far = np.maximum(pull - pull.min(axis=1)[:, None], pull.max(axis=1)[:, None] - pull)
    return float((rate * far + growth).max())


@pytest.mark.parametrize("replace_one", [True, False])
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.7)], ids=repr)
@pytest.mark.parametrize("accounting", ["joint", "split"])
def test_the_ridge_of_a_single_column_is_the_least(accounting, loss, replace_one):
    """Erratum on the sensitivity of one logistic column: 1.0517 in place of 2, no more, no less."""
    for epsilon, share in [(0.1, 0.5), (1.0, 0.3), (1.0, 0.85), (2.0, 0.985)]:
        facts = PublicFacts(loss, 1, replace_one=replace_one, accounting=accounting)
        found = calibrate(facts, epsilon, share)
        worst = loss_of_one_column(loss, found.rate, found.ridge, replace_one=replace_one)
        assert worst <= epsilon
        if accounting == "joint":
            assert worst >= 0.95 * epsilon  # nothing is wasted
        if facts.single:  # planted: a sensitivity of 1, and half of the ridge
            rate = share * epsilon
            left = 0.25 / math.expm1(epsilon - rate)
            assert loss_of_one_column(loss, rate, left) > epsilon or share < 0.9
            assert loss_of_one_column(loss, found.rate, found.ridge / 2) > epsilon or share > 0.9
    one = PublicFacts(LogisticLoss(), 1)
    assert one.difference == SINGLE_COLUMN
    assert PublicFacts(HuberLoss(0.7), 1).difference == pytest.approx(1.4)
    assert replace(one, replace_one=False).difference == 1.0
    assert replace(one, width=2).difference == 2.0


@pytest.mark.parametrize("width", [2, 3, 7])
def test_no_search_finds_a_larger_gradient_difference(width, seed):
    rng, worst = source(seed), np.zeros(3)
    for _ in range(300):
        theta = rng.normal(width) * 10.0 ** rng.uniform(1)[0]
        x = np.sign(rng.normal((64, width)))
        y = rng.integers(2, 64)
        z = LogisticLoss().first(x @ theta, y)[:, None] * x
        gap = z[:, None, :] - z[None, :, :]
        sizes = [np.abs(gap).sum(2).max(), np.sqrt((gap**2).sum(2)).max(), np.abs(gap).max()]
        worst = np.maximum(worst, sizes)
    assert (worst <= np.array([2 * width, 2 * math.sqrt(width), 2]) * (1 + 1e-12)).all()
    # the corner of the cube is approached along the direction of the errata (m >= 2)
    k = 4000.0
    theta = np.zeros(width)
    theta[:2] = -(k * k - k), k * k
    ends = np.ones(width), np.append([-1.0, -1.0 + 2.0 / k], -np.ones(width - 2))
    gap = ends[0] - ends[1] * (1.0 / (1.0 + np.exp(-np.clip(theta @ ends[1], -700, 700))))
    assert np.abs(gap).max() > 1.99


def test_bounded_parameters_and_added_rows_need_less_noise():
    free = ObjectivePerturbation(binary_schema(3, 100), epsilon=1.0, noise_share=0.8)
    held = ObjectivePerturbation(
        binary_schema(3, 100), epsilon=1.0, noise_share=0.8, theta_set=LpBall(4, 1, 0.5)
    )
    added = ObjectivePerturbation(
        binary_schema(3, 100, neighbors="add-remove"), epsilon=1.0, noise_share=0.8
    )
    slope = 1 / (1 + math.exp(-0.5))
    assert held.calibration.rate / free.calibration.rate == pytest.approx(1 / slope, rel=1e-9)
    assert added.calibration.rate / free.calibration.rate == pytest.approx(2.0, rel=1e-9)


# --- exact privacy audits ------------------------------------------------------------------------

PAIRS = [  # rows, labels, the row that replaces the first one
    ([[1.0]], [0], [0.0], 0),
    ([[1.0]], [1], [1.0], 0),
    ([[1.0], [-1.0]], [0, 0], [0.0], 0),
    ([[-1.0, -1.0], [-1.0, 0.0]], [0, 0], [-1.0, 1.0], 1),
    ([[1.0, 1.0]], [0], [-1.0, 1.0], 1),
    ([[1.0, 1.0]], [0], [-1.0, -0.9], 0),
    ([[1.0, -1.0], [0.2, 0.4]], [1, 0], [-1.0, 1.0], 1),
]


@pytest.mark.slow_for("0.85-joint", "0.5-split")
@pytest.mark.parametrize("accounting", ["joint", "split"])
@pytest.mark.parametrize("share", [0.5, 0.85])
def test_the_exact_density_ratio_stays_below_epsilon(accounting, share):
    worst = {1: 0.0, 2: 0.0}
    broken = dict(worst)
    for x, y, other, label in PAIRS:
        rows, labels = np.array(x), np.array(y, dtype=float)
        mechanism = ObjectivePerturbation(
            binary_schema(rows.shape[1], len(rows)),
            epsilon=1.0,
            noise_share=share,
            accounting=accounting,
            fit_intercept=False,
        )
        width = rows.shape[1]
        args = (rows, labels, np.array(other), label, mechanism)
        worst[width] = max(worst[width], largest_ratio(*args))
        broken[width] = max(broken[width], largest_ratio(*args, ridge=0.25))
    assert max(worst.values()) <= 1.0
    if share == 0.5:
        # power: a quarter of the ridge (the erratum on gamma) is caught in both dimensions
        assert min(broken.values()) > 1.0


@pytest.mark.parametrize(
    ("pair", "expected"), [(0, 0.518479), (1, 0.25), (2, 0.456797), (3, 0.875)]
)
def test_known_density_ratios_of_the_papers_setting(pair, expected):
    x, y, other, label = PAIRS[pair]
    rows, labels = np.array(x), np.array(y, dtype=float)
    width = rows.shape[1]
    mechanism = ObjectivePerturbation(
        binary_schema(width, len(rows)), epsilon=1.0, noise_share=0.5, fit_intercept=False
    )
    ridge = width / 4 / math.expm1(0.5)  # the papers', corrected; Delta = 2: rate 1/4
    ratios = {
        "rate": 0.25 / mechanism.calibration.rate,
        "ridge": ridge / mechanism.calibration.ridge,
    }
    args = (rows, labels, np.array(other), label, mechanism)
    found = largest_ratio(*args, **ratios, span=12.0 if width == 1 else 50.0)
    assert found == pytest.approx(expected, abs=2e-4)


def test_joint_accounting_is_nearly_attained_and_noise_cut_by_a_fifth_is_caught():
    # one row of the corner against a saturated one, one column: joint bound for two columns
    rows, labels = np.array([[1.0, 1.0]]), np.array([0.0])
    mechanism = ObjectivePerturbation(
        binary_schema(2, 1), epsilon=1.0, noise_share=1.0, fit_intercept=False
    )
    pairs = [(np.array(o), label) for o in ([-1.0, -0.9], [-1.0, 1.0]) for label in (0, 1)]
    args = [(rows, labels, *pair, mechanism) for pair in pairs]
    assert max(largest_ratio(*a, span=400.0) for a in args) <= 1.0
    cut = max(largest_ratio(*a, span=400.0, rate=1.25, ridge=0.8) for a in args)
    assert cut > 1.0


@pytest.mark.parametrize("held", [LpBall(2, 2, 0.7), LpBall(2, 1, 1.0), LpBall(2, np.inf, 0.4)])
def test_the_density_ratio_with_a_parameter_set(held):
    # the density of p = theta + normal, of which the released theta is the projection (step 1)
    axis = np.linspace(-2.0, 2.0, 21)
    points = np.array(list(itertools.product(axis, repeat=2)))
    worst, broken = 0.0, 0.0
    for x, y, other, label in [*PAIRS[3:5], ([[1.0, 1.0]], [0], [0.0, 0.0], 0)]:
        rows, labels = np.array(x), np.array(y, dtype=float)
        mechanism = ObjectivePerturbation(
            binary_schema(2, len(rows)),
            epsilon=1.0,
            noise_share=0.5,
            theta_set=held,
            fit_intercept=False,
        )
        moved, marks = rows.copy(), labels.copy()
        moved[0], marks[0] = other, label
        for factor in (1.0, 0.1):
            gaps = [
                _log_density_of(p, rows, labels, mechanism, factor)
                - _log_density_of(p, moved, marks, mechanism, factor)
                for p in points
            ]
            if factor == 1.0:
                worst = max(worst, np.abs(gaps).max())
            else:
                broken = max(broken, np.abs(gaps).max())
    assert worst <= 1.0
    assert broken > 1.0


def _log_density_of(p, x, y, mechanism, factor):
    theta, slope = mechanism.penalty.prox(p, 1.0)
    ridge = mechanism.calibration.ridge * factor
    first, second = mechanism.loss.both(x @ theta, y)
    tilt = -(first @ x + ridge * theta + p - theta)
    hessian = (x.T * second) @ x + ridge * np.eye(2)
    jacobian = hessian @ slope + np.eye(2) - slope
    rate = mechanism.calibration.rate
    return -rate * float(mechanism.ball.gauge(tilt)) + np.linalg.slogdet(jacobian)[1]


def test_the_printed_ridge_leaves_the_objective_unbounded():
    printed = 1.75 / math.expm1(1.0 * (0.5 - 1.0))
    assert printed < 0
    theta, row = np.full(7, 1e4), np.ones((1, 7))
    value = LogisticLoss().value(row @ theta, np.ones(1)).sum() + printed / 2 * theta @ theta
    assert value < -1e8
