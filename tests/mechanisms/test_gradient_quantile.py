"""Quantile regression by the K-norm gradient mechanism: exact audits, the drawn law, bad input."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from lattice_fit import chi_square

from tightdp.errors import ParameterError
from tightdp.exact.box_sampling import BoxSampler
from tightdp.exact.quantile_levels import CheckNorm
from tightdp.ledger import Ledger
from tightdp.mechanisms.quantile_regression import KNormQuantileRegression
from tightdp.randomness import source
from tightdp.schema import Category, Interval, Schema

UNIT = Interval(-1, 1)


def mechanism(rows, *, features=1, bits=4, neighbors="replace-one", **options):
    columns = {f"x{j}": UNIT for j in range(features)} | {"y": UNIT}
    schema = Schema(columns, rows=rows, bits=bits, neighbors=neighbors)
    return KNormQuantileRegression(schema, **{"epsilon": 1, "grid": 3, **options})


def table(rows):
    rows = np.atleast_2d(np.asarray(rows, dtype=float))
    return {**{f"x{j}": rows[:, j] for j in range(rows.shape[1] - 1)}, "y": rows[:, -1]}


def law(mech, rows):
    """Points and log probabilities, by enumeration of the definition."""
    x, y = mech.rows.read(table(rows))
    points = mech.levels(x, y).points()
    below = np.array(points) @ x.T >= y << mech.grid  # y <= x.theta
    sizes = np.abs((mech.tau.denominator * below - mech.tau.numerator) @ x)
    levels = sizes.max(axis=1)
    if mech.rows.intercept and str(mech.neighbors) == "replace-one":
        c, m = mech.tau.denominator, max(mech.tau, 1 - mech.tau) * mech.tau.denominator
        t, v = sizes[:, 0], sizes[:, 1:].max(axis=1)
        levels = np.maximum(2 * int(m) * t, c * v + (2 * int(m) - c) * t)
    logs = -float(mech.rate) * (levels - levels.min())
    return points, logs - math.log(np.exp(logs).sum())


def largest_loss(mech, first, second):
    (points, a), (_, b) = law(mech, first), law(mech, second)
    assert points
    return float(np.abs(a - b).max())


# --- the audits ----------------------------------------------------------------------------------


def opposite_pair(t):
    rest = [[0.9, 0.9 * t], [-0.9, -0.9 * t]]
    return [*rest, [1, 1]], [*rest, [-1, 1]]


class Published(CheckNorm):
    """The published sensitivity 2 (1 - tau) C_X: the broken twin."""

    def __init__(self, tau, *, resolution, **facts):
        super().__init__(tau, resolution=resolution, **facts)
        self.sensitivity = 2 * (tau.denominator - tau.numerator) * resolution


@pytest.mark.parametrize("tau", [0.5, 0.75, 0.9])
def test_the_pair_that_breaks_the_published_sensitivity_costs_exactly_epsilon(tau):
    # A17: on a fine grid the pair has loss epsilon, for the published constant tau/(1-tau) times it
    first, second = opposite_pair(1 - 2**-10)
    mech = mechanism(3, bits=16, fit_intercept=False, tau=tau, grid=12, shape="box")
    loss = largest_loss(mech, first, second)
    assert loss <= 1 + 1e-9
    assert loss >= 1 - 5e-3
    mech.norm = Published(
        mech.tau, dim=1, intercept=False, replace=True, resolution=mech.rows.schema.resolution
    )
    broken = largest_loss(mech, first, second)
    assert broken == pytest.approx(tau / (1 - tau), rel=1e-2)
    assert (broken > 1 + 1e-9) == (tau > 0.5)


CORNERS = list(itertools.product([-1, 0, 1], [-1, -0.25, 0.25, 1]))


@pytest.mark.parametrize("intercept", [True, False])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
@pytest.mark.parametrize("tau", [0.5, 0.9, 0.1])
def test_no_pair_of_neighbours_loses_more_than_epsilon(tau, neighbors, intercept, seed):
    rng = np.random.default_rng(seed)
    worst = 0.0
    mech = mechanism(4, tau=tau, neighbors=neighbors, fit_intercept=intercept, shape="box")
    for _ in range(25):
        rest = rng.choice(CORNERS, size=3) if rng.random() < 0.7 else rng.uniform(-2, 2, (3, 2))
        old, new = rng.choice(CORNERS, size=2)
        second = [*rest, new] if neighbors == "replace-one" else rest
        worst = max(worst, largest_loss(mech, [*rest, old], second))
    assert 0.2 < worst <= 1 + 1e-9  # ties, corners and rows outside of the bounds included


def test_the_tight_norm_covers_all_changes_and_touches_its_boundary():
    for tau in (Fraction(1, 10), Fraction(1, 2), Fraction(3, 4), Fraction(99, 100)):
        norm = CheckNorm(tau, dim=3, intercept=True, replace=True, resolution=8)
        changes = []
        for b, c in itertools.product([0, 1], repeat=2):
            for x, w in itertools.product(itertools.product([-8, 0, 8], repeat=2), repeat=2):
                first = [(tau.denominator * b - tau.numerator) * v for v in (8, *x)]
                second = [(tau.denominator * c - tau.numerator) * v for v in (8, *w)]
                changes.append(norm([abs(p - q) for p, q in zip(first, second, strict=True)]))
        assert max(changes) == norm.sensitivity


def test_the_tight_norm_beats_the_cube_away_from_the_median():
    tau = Fraction(9, 10)
    tight = CheckNorm(tau, dim=2, intercept=True, replace=True, resolution=1)
    cube = CheckNorm(tau, dim=2, intercept=False, replace=True, resolution=1)
    for gradient in ([10, 0], [10, 10], [3, 18], [0, 18]):
        assert tight(gradient) / tight.sensitivity >= cube(gradient) / cube.sensitivity
    assert tight([10, 0]) / tight.sensitivity == 1
    assert cube([10, 0]) / cube.sensitivity == pytest.approx(1 / 1.8)


# --- the drawn law -------------------------------------------------------------------------------


def fit(mech, rows, draws, seed, rate=None):
    points, logs = law(mech, rows)
    levels, bits = mech.levels(*mech.rows.read(table(rows))), source(seed)
    chosen = mech.rate if rate is None else rate
    samplers = [BoxSampler(levels, chosen) for _ in range(10)]  # each cuts in its own way
    return chi_square(points, logs, lambda i: samplers[i % 10].draw(bits), draws)


ROWS = [[-1, -0.5], [-0.5, -0.5], [0, 0.1], [0, 0.1], [0.3, 0.2], [0.6, 0.9], [1, 3], [np.nan, -9]]


@pytest.mark.parametrize(
    ("options", "epsilon"),
    [
        ({"tau": 0.5}, 2),
        ({"tau": 0.9, "shape": "box"}, 4),
        ({"fit_intercept": False, "tau": 0.25}, 20),
    ],
)
def test_draws_follow_the_enumerated_law(options, epsilon, seed):
    mech = mechanism(len(ROWS), epsilon=epsilon, **options)
    assert fit(mech, ROWS, 2000, seed) > 1e-5


def test_a_rate_wrong_by_a_fifth_is_caught(seed):
    mech = mechanism(len(ROWS), epsilon=8, tau=0.5)
    assert fit(mech, ROWS, 3000, seed, rate=mech.rate * Fraction(5, 4)) < 1e-5


@pytest.mark.parametrize("tiled", [False, True])
def test_bounds_hold_and_meet_on_every_box(tiled, seed, monkeypatch):
    if tiled:
        monkeypatch.setattr("tightdp.exact.quantile_levels._FEW_ROWS", 0)
        monkeypatch.setattr("tightdp.exact.quantile_levels._TILE", 4)
    rng = np.random.default_rng(seed)
    mech = mechanism(30, features=2, tau=0.3, grid=2)
    levels = mech.levels(*mech.rows.read(table(rng.uniform(-1, 1, (30, 3)))))
    for _ in range(40):
        ends = np.sort(rng.integers(-4, 5, (2, 3)), axis=0)
        low, high = (tuple(map(int, e)) for e in ends)
        least, most, known = levels.bounds(levels.start(), low, high)
        inner = [
            levels.bounds(known, z, z)[0]
            for z in itertools.product(*(range(a, b + 1) for a, b in zip(low, high, strict=True)))
        ]
        assert least <= min(inner)
        assert max(inner) <= most
        assert levels.bounds(known, high, high)[:2] == (levels.level(high),) * 2


def test_broken_bounds_are_noticed():
    mech = mechanism(len(ROWS), epsilon=1)
    levels = mech.levels(*mech.rows.read(table(ROWS)))
    honest = levels.bounds
    levels.bounds = lambda known, low, high: (
        honest(known, low, high) if low == high else (10**9, 10**9, known)
    )
    with pytest.raises(Exception, match="bounds of the levels do not hold"):
        BoxSampler(levels, mech.rate).draw(source(1))


# --- releases ------------------------------------------------------------------------------------


def test_large_epsilon_recovers_the_regression_quantile(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, 4000)
    y = 3 + 0.5 * x + rng.normal(size=4000)
    schema = Schema({"x": Interval(0, 10), "y": Interval(-5, 20)}, rows=4000)
    ledger = Ledger(epsilon=1000, allow_seeded=True)
    mech = KNormQuantileRegression(schema, tau=0.9, epsilon=900)
    release = mech.release({"x": x, "y": y}, ledger=ledger, rng=seed, key="q")
    below = np.mean(y <= release["intercept"] + release["x"] * x)
    assert abs(below - 0.9) < 0.005
    assert abs(release["x"] - 0.5) < 0.1
    again = mech.release(None, ledger=ledger, key="q", rng=seed)
    assert again.integers == release.integers


@pytest.mark.slow_for("rows2-1000.0")
@pytest.mark.parametrize("epsilon", [1e-6, 1, 1e3])
@pytest.mark.parametrize("rows", [[[0.5, 0.5]], [[0.25, -0.5]] * 50, ROWS])
def test_odd_tables_and_budgets_give_a_release(rows, epsilon, seed):
    release = mechanism(len(rows), epsilon=epsilon, grid=None).release(table(rows), rng=seed)
    assert np.isfinite(release.value).all()
    assert str(release.guarantee.numerics) == "exact"
    assert np.isnan(release.interval).all()  # how far off it is depends on the rows


def test_the_gradient_radius_holds(seed):
    mech = mechanism(len(ROWS), epsilon=4)
    points, logs = law(mech, ROWS)
    x, y = mech.rows.read(table(ROWS))
    levels = np.array([mech.levels(x, y).level(z) for z in points]) / mech.sensitivity
    within = levels <= levels.min() + mech.gradient_radius(0.9)
    assert np.exp(logs)[within].sum() >= 0.9


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"tau": 0}, "`tau` must lie strictly between 0 and 1"),
        ({"tau": 1}, "`tau` must lie strictly between 0 and 1"),
        ({"tau": float("nan")}, "`tau`"),
        ({"radius": None}, "no normaliser"),
        ({"radius": math.inf}, "`radius`"),
        ({"radius": -1}, "`radius` must lie in"),
        ({"shape": "l2"}, "`shape` must be one of"),
        ({"epsilon": 0}, "`epsilon`"),
        ({"grid": 60}, "`grid`"),
        ({"most_steps": 0}, "`most_steps`"),
        ({"most_steps": 1 << 40, "sampler": "mcmc"}, "`most_steps` belong to"),
        ({"features": 1, "fit_intercept": False, "target": "x9"}, "x9"),
    ],
)
def test_bad_parameters_are_named(change, words):
    with pytest.raises(ParameterError, match=words):
        mechanism(10, **change)


def test_whoever_accepts_more_work_has_a_finer_lattice(seed):
    facts = Schema({"x": Interval(-1, 1), "y": Interval(-1, 1)}, rows=100_000)
    coarse = KNormQuantileRegression(facts, epsilon=1.0)
    fine = KNormQuantileRegression(facts, epsilon=1.0, most_steps=1 << 36)
    assert (coarse.grid, fine.grid) == (12, 18)
    assert "most_steps" not in repr(coarse)  # what was stored before stays known
    x = np.linspace(-1, 1, 100_000)
    rows = {"x": x, "y": 0.1 - 0.3 * x + 0.005 * np.sin(991 * x)}
    errors = [np.abs(m.release(rows, rng=seed).value - [0.1, -0.3]).max() for m in (fine, coarse)]
    assert errors[0] < 2.0**-15 < errors[1]  # 0.1 and -0.3 are no multiples of 2**-12


def test_a_bad_table_costs_nothing():
    ledger = Ledger(epsilon=1.0)
    with pytest.raises(ParameterError, match="no column 'x0'"):
        mechanism(3).release({"z": [1.0], "y": [2.0]}, ledger=ledger)
    assert ledger.remaining.epsilon == 1.0
    schema = Schema({"k": Category(["a", "b"], other="a"), "y": UNIT}, rows=3)
    with pytest.raises(ParameterError, match="must be an Interval"):
        KNormQuantileRegression(schema, epsilon=1.0)
