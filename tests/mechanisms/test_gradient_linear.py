"""Linear regression by the K-norm gradient mechanism: reference laws, audits, draws, bad input."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest
from lattice_fit import chi_square

from tightdp.errors import InfeasibleSamplingError, ParameterError
from tightdp.exact.integer_matrices import CubeRounder, adjugate
from tightdp.ledger import Ledger
from tightdp.mechanisms.gradient_regression import KNormLinearRegression
from tightdp.noise.linear_norms import LinearNormSampler
from tightdp.randomness import source
from tightdp.schema import Interval, Schema

UNIT = Interval(-1, 1)


def mechanism(rows, features=1, *, bits=6, neighbors="replace-one", **options):
    columns = {f"x{j}": UNIT for j in range(features)} | {"y": UNIT}
    schema = Schema(columns, rows=rows, bits=bits, neighbors=neighbors)
    return KNormLinearRegression(schema, **{"epsilon": 1, "grid": 3, **options})


def table(rows):
    rows = np.atleast_2d(np.asarray(rows, dtype=float))
    return {**{f"x{j}": rows[:, j] for j in range(rows.shape[1] - 1)}, "y": rows[:, -1]}


def law(mech, rows, rate=None):
    """Points and log probabilities from the rows themselves, not from the normal equations."""
    x, y = mech.rows.read(table(rows))
    sides = [range(-mech.edge, mech.edge + 1)] * mech.rows.dim
    points = np.array(list(itertools.product(*sides)))
    if mech.shape == "l1":
        points = points[np.abs(points).sum(axis=1) <= mech.edge]
    residual = (y << mech.grid) - points @ x.T
    levels = np.abs(residual @ x).max(axis=1)
    logs = -float(mech.rate if rate is None else rate) * (levels - levels.min())
    return points, logs - math.log(np.exp(logs).sum())


def loss(mech, first, second, rate=None):
    return float(np.abs(law(mech, first, rate)[1] - law(mech, second, rate)[1]).max())


# --- reference values ----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("constant", "mean", "variance", "negative"),
    [
        (4, 0.0354380584, 0.3242752895, 0.4704817472),
        (8, 0.0178910561, 0.3290192872, 0.4851757247),
    ],
)
def test_the_reference_law_in_one_dimension(constant, mean, variance, negative):
    mech = mechanism(3, bits=16, grid=13, fit_intercept=False, radius=1)
    rows = [[1, 0.5], [-0.5, -0.2], [0.25, 0.1]]
    points, logs = law(mech, rows, mech.rate * Fraction(4, constant))
    theta, mass = points[:, 0] / 2**13, np.exp(logs)
    assert theta @ mass == pytest.approx(mean, abs=2e-4)
    assert theta**2 @ mass - (theta @ mass) ** 2 == pytest.approx(variance, abs=2e-4)
    assert mass[theta < 0].sum() == pytest.approx(negative, abs=2e-4)
    assert mech.rate * (1 << 45) == Fraction(1, 8)  # epsilon / (4 (1 + B)) at B = 1


@pytest.mark.parametrize(("factor", "expected"), [(1, 0.5107), (0.5, 0.2523), (2, 0.9970)])
def test_the_reference_audit_in_two_dimensions(factor, expected):
    # A20, on a lattice of 161 points across; factors stand for the constants 4, 8 and 2
    rest = [[1, 1, -1]] * 16
    pair = [*rest, [-1, -1, -1]], [*rest, [-1, 1, 1]]
    assert _loss_on_unit_ball(*pair, 80, factor / 8) == pytest.approx(expected, abs=1.5e-3)
    mech = mechanism(17, 2, fit_intercept=False, bits=8, grid=6)
    assert loss(mech, *pair, rate=mech.rate * Fraction(factor)) == pytest.approx(expected, abs=5e-3)


def _loss_on_unit_ball(first, second, steps, constant):
    sides = np.arange(-steps, steps + 1) / steps
    points = np.array(list(itertools.product(sides, sides)))
    points = points[np.abs(points).sum(axis=1) <= 1 + 1e-12]
    logs = []
    for rows in (np.array(first, dtype=float), np.array(second, dtype=float)):
        x, y = rows[:, :-1], rows[:, -1]
        levels = constant * np.abs((y - points @ x.T) @ x).max(axis=1)
        logs.append(-levels - math.log(np.exp(-levels).sum()))
    return float(np.abs(logs[0] - logs[1]).max())


CORNERS = list(itertools.product([-1, 1], [-1, 1], [-1, -0.25, 1]))


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
@pytest.mark.parametrize("options", [{}, {"shape": "box"}, {"fit_intercept": False}])
def test_no_pair_of_neighbours_loses_more_than_epsilon(options, neighbors, seed):
    rng = np.random.default_rng(seed)
    mech = mechanism(5, 2, neighbors=neighbors, grid=2, **options)
    worst = 0.0
    for _ in range(40):
        rest = [CORNERS[rng.integers(len(CORNERS))]] * int(rng.integers(1, 20))
        old, new = (CORNERS[i] for i in rng.integers(len(CORNERS), size=2))
        second = [*rest, new] if neighbors == "replace-one" else rest
        worst = max(worst, loss(mech, [*rest, old], second))
    assert 0.25 < worst <= 1 + 1e-9


def test_the_audit_has_power():
    # the worst pair known loses half of epsilon, so a rate 2.5 times too high must show
    mech = mechanism(17, 2, fit_intercept=False, grid=4)
    pair = [(-1, -1, -1)] * 16 + [(-1, -1, 1)], [(-1, -1, -1)] * 16 + [(-1, 1, -1)]
    assert 0.49 < loss(mech, *pair) <= 1
    assert loss(mech, *pair, rate=mech.rate * Fraction(5, 2)) > 1


# --- the draw ------------------------------------------------------------------------------------


def fit(sampler, points, logs, draws, seed):
    bits = source(seed)
    return chi_square(points.tolist(), logs, lambda i: sampler.draw(bits), draws)


CASES = {
    "steep and singular": (1, [[0, 1], [0, 0.5]], {"epsilon": 800, "bits": 1, "grid": 2}),
    "few rows": (1, [[0.5, 0.3], [-1, 0.2]], {"epsilon": 2}),
    "many rows": (1, [[0.5, 0.3], [-1, 0.2], [0.8, -2]] * 10, {"epsilon": 3, "grid": 4}),
    "box": (1, [[0.5, 0.3], [-1, 0.2], [0.8, 1]] * 5, {"epsilon": 4, "shape": "box"}),
    "singular": (2, [[0.5, 0.5, 1], [-1, -1, 0.2]] * 8, {"epsilon": 2, "grid": 3}),
    "outside": (2, [[1, 1, 1], [-1, 1, 1], [1, -1, -1], [0, 0, np.nan]] * 9, {"grid": 4}),
}


@pytest.mark.slow_for(
    "mapped-steep and singular",
    "mapped-few rows",
    "mapped-outside",
    "all-*singular",
    "all-outside",
    "mapped-singular",
)
@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("only", ["all", "mapped", "shells", "points", "boxes"])
def test_draws_follow_the_enumerated_law(case, only, seed, monkeypatch):
    features, rows, options = CASES[case]
    mech = mechanism(len(rows), features, **options)
    home = "tightdp.noise.linear_norms."
    if only == "mapped":
        monkeypatch.setattr(f"{home}_TURNS", (True,))
    elif only != "all":
        monkeypatch.setattr(f"{home}_PATIENCE", 0)
        monkeypatch.setattr(f"{home}MOST_PROPOSALS", math.inf if only == "shells" else 0)
        monkeypatch.setattr(f"{home}MOST_POINTS", math.inf if only == "points" else 0)
    sampler = mech.sampler(*mech.normal_equations(table(rows)))
    assert fit(sampler, *law(mech, rows), 1000, seed) > 1e-5


@pytest.mark.slow_for("turns1-1")
@pytest.mark.parametrize(("turns", "copies"), [((True,), 10), ((False,), 1)])
def test_a_rate_wrong_by_a_fifth_is_caught(turns, copies, seed, monkeypatch):
    monkeypatch.setattr("tightdp.noise.linear_norms._TURNS", turns)
    rows = [[0.5, 0.3], [-1, 0.2], [0.8, -2]] * copies
    # few rows need more budget for a law that is far from uniform, and show it on a coarser grid
    epsilon, grid, draws = (6, 4, 4000) if copies > 1 else (24, 3, 2500)
    mech = mechanism(len(rows), epsilon=epsilon, grid=grid)
    points, logs = law(mech, rows)
    matrix, target = mech.normal_equations(table(rows))
    broken = LinearNormSampler(
        matrix, target, edge=mech.edge, l1=True, rate=mech.rate * Fraction(5, 4)
    )
    assert fit(broken, points, logs, draws, seed) < 1e-5


def test_the_adjugate_is_exact(seed):
    rng = np.random.default_rng(seed)
    for dim in (1, 2, 5):
        matrix = rng.integers(-9, 10, (dim, dim))
        inverse, det = adjugate(matrix.tolist())
        assert det == abs(round(np.linalg.det(matrix)))
        if det:
            assert (np.array(inverse) @ matrix == det * np.eye(dim, dtype=int)).all()
    assert adjugate([[1, 2], [2, 4]])[1] == 0
    assert adjugate([[0, 1], [1, 0]]) == ([[0, 1], [1, 0]], 1)


@pytest.mark.parametrize("size", [5, 10**6, 10**16])
def test_rounding_is_exact_by_floats_and_by_integers(size, seed):
    rng = np.random.default_rng(seed)
    for dim in (1, 2, 6):
        matrix = [[int(v) for v in row] for row in rng.integers(-size, size + 1, (dim, dim))]
        rounder, exact = CubeRounder(matrix), CubeRounder(matrix)
        exact._margin = 1.0
        assert rounder.regular == exact.regular
        if exact.regular:
            for _ in range(40):
                w = [int(v) for v in rng.integers(-100 * size, 100 * size + 1, dim)]
                assert rounder.nearest(w) == exact.nearest(w)
    # halves go up, as a half-open cube wants, and singular matrices are told
    assert CubeRounder([[2]]).nearest([1]) == [1]
    assert CubeRounder([[2]]).nearest([-1]) == [0]
    assert not CubeRounder([[1, 2], [2, 4]]).regular


def test_the_floor_of_the_levels_is_below_all_of_them(seed):
    rng = np.random.default_rng(seed)
    raised = 0
    for _ in range(20):
        matrix = rng.integers(-5, 6, (2, 2)).tolist()
        target = rng.integers(-80, 81, 2).tolist()
        for l1 in (True, False):
            sampler = LinearNormSampler(matrix, target, edge=4, l1=l1, rate=Fraction(1))
            levels = [
                sampler.lattice.level(list(z))
                for z in itertools.product(range(-4, 5), repeat=2)
                if sampler.lattice.inside(list(z))
            ]
            assert 0 <= sampler.lattice.floor() <= min(levels)
            raised += sampler.lattice.floor() > 0
    assert raised


# --- the reference simulation (2f): twelve coefficients, epsilon 1 --------------------------------

# mean distance to the truth and its standard error, responses divided by their largest size
REFERENCE = {
    100: (2.369, 0.019),
    1000: (1.881, 0.021),
    10_000: (0.3456, 0.0049),
    100_000: (0.04317, 0.00063),
}


def mean_distance(n, replicates, seed, factor=1):
    """The papers' Algorithm 1, whose scaling by the largest response is not private."""
    rng, distances = np.random.default_rng(seed), []
    truth = np.array([0, *(-1 + 2 * np.arange(11) / 11)])
    mech = mechanism(n, 11, bits=16, epsilon=Fraction(factor), grid=None)
    for i in range(replicates):
        x = rng.uniform(-1, 1, (n, 11))
        y = truth[0] + x @ truth[1:] + rng.normal(size=n)
        largest = np.abs(y).max()
        # drawn, not released: so many coefficients are refused, for a draw need not end
        drawn = mech._draw(table(np.column_stack([x, y / largest])), source(seed + i), False)
        distances.append(np.linalg.norm(largest * mech.coefficients(drawn) - truth))
    return np.mean(distances), np.std(distances) / np.sqrt(replicates)


def test_a24_the_reference_simulation_at_1e4_rows(seed):
    found, error = mean_distance(10_000, 60, seed)
    expected, their_error = REFERENCE[10_000]
    assert abs(found - expected) <= 4 * np.hypot(error, their_error)


def test_a24_sees_the_printed_constant(seed):
    found, error = mean_distance(10_000, 30, seed, factor=0.5)
    expected, their_error = REFERENCE[10_000]
    assert abs(found - expected) > 4 * np.hypot(error, their_error)
    assert abs(found - 0.6785) <= 4 * np.hypot(error, 0.0105)  # the constant 8 as printed


@pytest.mark.slow
@pytest.mark.parametrize("n", REFERENCE)
def test_a24_the_reference_simulation(n, seed):
    found, error = mean_distance(n, 300 if n < 100_000 else 60, seed)
    expected, their_error = REFERENCE[n]
    assert abs(found - expected) <= 4 * np.hypot(error, their_error)


# --- releases ------------------------------------------------------------------------------------


@pytest.mark.parametrize("bits", [1, 2, 16])
@pytest.mark.parametrize("features", [1, 3])
@pytest.mark.parametrize("cell", [0.0, 1.0])
def test_a_singular_gram_matrix_and_a_steep_law_give_a_release(cell, features, bits):
    """The ridge of a singular matrix was rounded to zero, and the fit lost after payment."""
    rows = [[cell] * (features + 1)] * 12
    mech = mechanism(len(rows), features, epsilon=1000, bits=bits)
    assert np.isfinite(mech.release(table(rows), rng=1).value).all()


@pytest.mark.parametrize(("features", "epsilon"), [(1, 20), (2, 1)])
def test_a_plane_far_outside_the_radius_gives_a_release(features, epsilon, seed):
    """The law crowds at the edge of the lattice: proposals from its middle were never kept."""
    rng = np.random.default_rng(seed)
    X = rng.uniform(-0.3, 0.3, (5000, features))
    rows = np.column_stack([X, np.clip(X @ [3, -3][:features], -1, 1)])
    mech = mechanism(len(rows), features, epsilon=epsilon)
    sizes = [np.abs(mech.release(table(rows), rng=key).value).sum() for key in range(12)]
    # the best planes within the radius 1 are at its edge, where six of ten are drawn at epsilon 1
    assert max(sizes) > 0.9
    assert min(sizes) > 0.3


def test_many_rows_recover_least_squares(seed):
    rng = np.random.default_rng(seed)
    x = rng.uniform(0, 10, (20_000, 2))
    y = 3 + x @ [0.5, -0.25] + rng.normal(size=20_000)
    schema = Schema(
        {"a": Interval(0, 10), "b": Interval(0, 10), "y": Interval(-10, 15)}, rows=20_000
    )
    release = KNormLinearRegression(schema, epsilon=100.0).release(
        {"a": x[:, 0], "b": x[:, 1], "y": y}, rng=seed
    )
    design = np.column_stack([np.ones(len(x)), x])
    assert release.value == pytest.approx(np.linalg.lstsq(design, y, rcond=None)[0], abs=0.02)


@pytest.mark.parametrize("epsilon", [1e-6, 1, 1e3])
@pytest.mark.parametrize("rows", [[[0.5, 0.5]], [[0.25, -0.5]] * 50, [[0, 0]] * 9])
def test_odd_tables_and_budgets_give_a_release(rows, epsilon, seed):
    release = mechanism(len(rows), epsilon=epsilon, grid=None).release(table(rows), rng=seed)
    assert np.isfinite(release.value).all()
    assert str(release.guarantee.numerics) == "exact"


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"radius": None}, "no normaliser"),
        ({"radius": math.inf}, "`radius`"),
        ({"radius": 1e-9, "grid": 3}, "at least one step"),
        ({"epsilon": -1}, "`epsilon`"),
        ({"shape": "ball"}, "`shape`"),
    ],
)
def test_bad_parameters_are_named(change, words):
    with pytest.raises(ParameterError, match=words):
        mechanism(10, **change)


def test_more_coefficients_than_shells_serve_are_refused_before_payment():
    """Whether such a draw ends depends on where the best plane lies, which is private."""
    names = [f"x{j}" for j in range(5)]
    schema = Schema(dict.fromkeys(names, Interval(-1, 1)), rows=3)
    ledger = Ledger(epsilon=1)
    with pytest.raises(InfeasibleSamplingError, match="LinearRegression"):
        KNormLinearRegression(schema, epsilon=1).release(
            {name: [0.1, 0.2, 0.3] for name in names}, ledger=ledger
        )
    assert ledger.spent.epsilon == 0
    with pytest.raises(InfeasibleSamplingError, match="up to 4 coefficients"):
        KNormLinearRegression(schema, epsilon=1).preview()
