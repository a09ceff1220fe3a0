"""Objective perturbation under add-remove: the guarantee knows no number of rows.

The minimiser is compared with one that is found here, in rational or decimal arithmetic, by other
means: it must lie where the output noise covers it, with ten or ten thousand times the stated rows.
"""

from __future__ import annotations

from decimal import Decimal, localcontext
from fractions import Fraction

import numpy as np
import pytest
from objective_tables import binary_schema, largest_ratio

from tightdp import Category, Interval, LpBall, ObjectivePerturbation, Schema
from tightdp.convex import objectives
from tightdp.convex.decimals import context, decimals, has_decimals, prox, slopes
from tightdp.convex.margin_losses import HuberLoss, LogisticLoss, SquaredLoss
from tightdp.convex.minimiser import minimise
from tightdp.convex.objectives import Objective, Precision
from tightdp.convex.penalties import ConvexSet, Lasso, NoPenalty, Smooth, Within
from tightdp.randomness import source

GRID = 2**16


def add_remove(width, rows, *, binary):
    target = Category([0, 1], other=0) if binary else Interval(-1, 1)
    columns = {f"x{j}": Interval(-1, 1) for j in range(width)}
    return Schema({**columns, "y": target}, rows=rows, neighbors="add-remove")


def table(rows, width, rng, *, hostile):
    """Cells on a grid; hostile: all but flat in every direction but one."""
    x = np.round((2.0 * rng.uniform((rows, width)) - 1.0) * GRID) / GRID
    if hostile:
        x = np.repeat(x[:, :1], width, axis=1)
        x[0, 1:] += 1.0 / GRID if x[0, 0] < 0 else -1.0 / GRID
    y = (rng.uniform(rows) < 0.5) * 1.0
    return x, y


# --- two minimisers of other making --------------------------------------------------------------


def solve(matrix, right):
    """Gauss-Jordan elimination in the arithmetic of the entries."""
    lines, m = [[*line, b] for line, b in zip(matrix, right, strict=True)], len(right)
    for j in range(m):
        k = max(range(j, m), key=lambda i: abs(lines[i][j]))
        lines[j], lines[k] = lines[k], lines[j]
        lines[j] = [cell / lines[j][j] for cell in lines[j]]
        for i in set(range(m)) - {j}:
            lines[i] = [a - lines[i][j] * b for a, b in zip(lines[i], lines[j], strict=True)]
    return [line[-1] for line in lines]


def least_squares(x, y, ridge, tilt):
    """The exact minimiser for the squared loss, a fraction."""
    m = x.shape[1]
    cells = (x * GRID).astype(np.int64)  # products of n rows stay below 2**53
    labels = (y * GRID).astype(np.int64)
    cross, right = cells.T @ cells, cells.T @ labels
    square = GRID * GRID
    matrix = [
        [Fraction(int(cross[j, k]), square) + (Fraction(ridge) if j == k else 0) for k in range(m)]
        for j in range(m)
    ]
    return solve(matrix, [Fraction(int(right[j]), square) - Fraction(tilt[j]) for j in range(m)])


def logistic(x, y, ridge, tilt):
    """Newton's method in 70 digits, row by row, until nothing moves; and a proof of it.

    The gradient at the end, over the ridge, bounds the distance from the minimiser.
    """
    m = x.shape[1]
    with localcontext() as digits:
        digits.prec = 70
        rows = [[Decimal(float(c)) for c in row] for row in x]
        theta, gamma = [Decimal(0)] * m, Decimal(ridge)
        for _ in range(60):
            gradient = [gamma * t + Decimal(v) for t, v in zip(theta, tilt.tolist(), strict=True)]
            hessian = [[gamma if j == k else Decimal(0) for k in range(m)] for j in range(m)]
            for row, label in zip(rows, y.tolist(), strict=True):
                odds = sum((a * b for a, b in zip(row, theta, strict=True)), Decimal(0))
                p = 1 / (1 + (-odds).exp())
                for j in range(m):
                    gradient[j] += (p - Decimal(label)) * row[j]
                    for k in range(m):
                        hessian[j][k] += p * (1 - p) * row[j] * row[k]
            if max(map(abs, gradient)) < Decimal("1e-50"):
                return [Fraction(t) for t in theta]
            step = solve(hessian, gradient)
            theta = [a - b for a, b in zip(theta, step, strict=True)]
    raise AssertionError("the oracle did not converge")


def covered(mechanism, integers, exact):
    """Whether the rounded minimiser is where the output noise pays for it [step 6]."""
    gaps = [abs(z - round(t * mechanism.resolution)) for z, t in zip(integers, exact, strict=True)]
    return 2 * max(gaps) <= mechanism.output.sensitivity


def bare(draws):
    return draws._replace(output=np.zeros_like(draws.output))


def tilt_of(mechanism, draws):
    return np.array([int(z) / mechanism.noise_resolution for z in draws.noise])


# --- the distance --------------------------------------------------------------------------------


@pytest.mark.parametrize("times", [1, 4, 10, 100])
@pytest.mark.parametrize("hostile", [False, True])
def test_a_logistic_minimiser_is_covered_for_any_number_of_rows(times, hostile, seed):
    stated, rng = 3, source(seed)
    mechanism = ObjectivePerturbation(
        add_remove(2, stated, binary=True), epsilon=1.0, noise_share=0.6, fit_intercept=False
    )
    x, y = table(times * stated, 2, rng, hostile=hostile)
    draws = bare(mechanism.draw_noise(rng))
    exact = logistic(x, y, mechanism.calibration.ridge, tilt_of(mechanism, draws))
    assert covered(mechanism, mechanism.perturbed(x, y, draws), exact)
    if times > 4:  # planted: the first rows alone
        few = mechanism.perturbed(x[: 4 * stated], y[: 4 * stated], draws)
        assert not covered(mechanism, few, exact)


def quadratic(loss, times, rng):
    """A mechanism for one row and a table of many, drawn noise, and the exact minimiser."""
    mechanism = ObjectivePerturbation(
        add_remove(2, 1, binary=False),
        loss=loss,
        epsilon=900.0,
        noise_share=0.6,
        fit_intercept=False,
        theta_set=LpBall(2, np.inf, 40.0) if loss == "squared" else None,
    )
    x, y = table(times, 2, rng, hostile=False)
    y = np.round((0.5 * x[:, 0] + y / 4.0) * GRID) / GRID
    draws = bare(mechanism.draw_noise(rng))
    pull = mechanism.calibration.ridge * mechanism.noise_resolution * (2.0 * rng.uniform(2) - 1.0)
    draws = draws._replace(noise=np.rint(4.0 * pull).astype(np.int64))
    exact = least_squares(x, y, mechanism.calibration.ridge, tilt_of(mechanism, draws))
    assert max(map(abs, exact)) < 20  # neither the ball nor the threshold plays a part
    return mechanism, x, y, draws, exact


@pytest.mark.parametrize("loss", ["squared", HuberLoss(50.0)], ids=str)
@pytest.mark.parametrize("times", [1, 10, 100, 10_000, 60_000])
def test_a_quadratic_minimiser_is_covered_for_any_number_of_rows(loss, times, seed):
    mechanism, x, y, draws, exact = quadratic(loss, times, source(seed))
    assert covered(mechanism, mechanism.perturbed(x, y, draws), exact)


@pytest.mark.parametrize("loss", ["squared", HuberLoss(50.0)], ids=str)
def test_where_extended_doubles_are_none_decimals_do(loss, seed, monkeypatch):
    # there are machines whose extended doubles are doubles; the search may not stop on them
    monkeypatch.setattr(objectives, "_EXTENDED_UNIT", 2.0**-53)
    mechanism, x, y, draws, exact = quadratic(loss, 3_000, source(seed))
    assert covered(mechanism, mechanism.perturbed(x, y, draws), exact)
    tilt, ridge = tilt_of(mechanism, draws), mechanism.calibration.ridge
    objective = Objective(x, y, mechanism.loss, ridge, tilt, mechanism.penalty)
    found = minimise(objective, mechanism.tolerance)
    assert isinstance(found.theta[0], Decimal)
    assert found.distance <= mechanism.distance


def test_a_release_uses_all_rows_through_the_whole_path(seed):
    stated = 10
    mechanism = ObjectivePerturbation(
        add_remove(2, stated, binary=True), epsilon=1.0, noise_share=0.6, fit_intercept=False
    )
    x, y = table(3000, 2, source(seed), hostile=False)
    found = []
    for n in (3 * stated, 4 * stated, 4 * stated + 1, 3000):
        rows = {"x0": x[:n, 0], "x1": x[:n, 1], "y": y[:n].astype(int)}
        release = mechanism.release(rows, rng=seed)
        assert release.integers == mechanism.perturbed(
            x[:n], y[:n], mechanism.draw_noise(source(seed))
        )
        found.append(release.integers)
    assert len(set(found)) == len(found)


# --- decimals ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "penalty",
    [
        NoPenalty(),
        Lasso(20.0),
        *(Within(LpBall(3, p, r)) for p in (1, 2, np.inf) for r in (0.2, 9)),
    ],
    ids=repr,
)
@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.3), SquaredLoss()], ids=repr)
def test_decimals_certify_what_no_double_can(penalty, loss, seed):
    x, y = table(200, 3, source(seed), hostile=False)
    objective = Objective(x, y, loss, 0.5, np.zeros(3), penalty)
    found = minimise(objective, 1e-24)
    assert found.distance <= 1e-24 / 0.5
    near = minimise(objective, 1e-9)
    assert np.linalg.norm(found.theta.astype(float) - near.theta.astype(float)) <= 2.1e-9
    assert isinstance(found.theta[0], Decimal)
    if isinstance(penalty, NoPenalty) and isinstance(loss, LogisticLoss):
        exact = logistic(x, y, 0.5, np.zeros(3))
        gap = max(abs(Fraction(a) - b) for a, b in zip(found.theta, exact, strict=True))
        assert gap <= Fraction(found.distance)


@pytest.mark.parametrize("loss", [LogisticLoss(), HuberLoss(0.3), SquaredLoss()], ids=repr)
def test_decimals_are_the_same_losses(loss, seed):
    rng = source(seed)
    margin = np.concatenate([40.0 * rng.normal(200), [0.0, 0.29, -0.31, 1.31, 700.0, -800.0, 1e6]])
    y = (rng.uniform(len(margin)) < 0.5) * 1.0
    found = slopes(loss, decimals(margin), decimals(y))
    assert np.allclose(found.first.astype(float), loss.first(margin, y), rtol=0, atol=2e-14)
    assert np.allclose(found.second, loss.second(margin, y), rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "penalty",
    [NoPenalty(), Lasso(0.7), *(Within(LpBall(3, p, 1.5)) for p in (1, 2, np.inf))],
    ids=repr,
)
def test_decimals_are_the_same_penalties(penalty, seed):
    rng = source(seed)
    for size in (0.3, 1.0, 5.0):
        p = size * rng.normal(3)
        point, slope = prox(penalty, decimals(p), Decimal("0.25"))
        there, bend = penalty.prox(p, 0.25)
        assert np.allclose(point.astype(float), there, rtol=1e-14, atol=1e-15)
        assert np.allclose(slope, bend, rtol=1e-12, atol=1e-13)


def test_the_bound_on_rounding_of_every_precision_holds(seed):
    # against 70 digits, with a table so flat that the error of the margins is seen
    x, y = table(700, 2, source(seed), hostile=True)
    theta = np.array([12345.678, -12345.5])
    objective = Objective(x, y, LogisticLoss(), 0.7, np.array([3.0, -1.0]), NoPenalty())
    fast = objective.derivatives(theta)
    with localcontext() as digits:
        digits.prec = 70
        exact = objective.in_decimals(decimals(theta)).gradient
    with localcontext(context(len(x))):
        decimal = objective.in_decimals(decimals(theta)).gradient
    split, wide = (objective.gradient(theta, p) for p in (Precision.SPLIT, Precision.EXTENDED))
    bounds = [objective.rounding(theta, fast.bend, p) for p in Precision]
    for found, bound in zip((fast.gradient, split, wide, decimal), bounds, strict=True):
        with localcontext() as digits:
            digits.prec = 70
            gap = [float(a - b) for a, b in zip(decimals(found), exact, strict=True)]
        assert np.linalg.norm(gap) <= bound
    assert bounds[0] > bounds[1] > 8.0 * bounds[2] or np.finfo(np.longdouble).eps > 1e-18


def test_digits_grow_with_rows():
    # the error of all rows together stays below a fixed one
    for rows in (1, 10**3, 10**9, 10**15):
        assert rows**2 * Decimal(10) ** (1 - context(rows).prec) <= Decimal("1e-39")


# --- functions of one's own ----------------------------------------------------------------------


class Own(LogisticLoss):
    """A loss that is known to the digits of a double only, as far as anybody can tell."""


def clipped(p):
    return np.clip(p, -30.0, 30.0)


OWN = {
    "loss": {"loss": Own()},
    "set": {"theta_set": ConvexSet(clipped, reach=60.0, name="square")},
    "penalty": {"penalty": Smooth(lambda t: 0.1 * t, strength=0.1, name="own ridge")},
}


@pytest.mark.parametrize("name", OWN)
def test_functions_of_ones_own_use_the_first_rows_and_pay_for_a_replaced_one(name, seed):
    # a budget so large that parameters stay within the square, and every row shows
    given = {"epsilon": 20.0, "noise_share": 0.6, "fit_intercept": False, **OWN[name]}
    mechanism = ObjectivePerturbation(add_remove(2, 10, binary=True), **given)
    assert not has_decimals(mechanism.loss, mechanism.penalty)
    replaced = ObjectivePerturbation(binary_schema(2, 10), **given)
    assert mechanism.calibration == replaced.calibration
    x, y = table(900, 2, source(seed), hostile=False)
    draws = mechanism.draw_noise(source(seed))
    found = [mechanism.perturbed(x[:n], y[:n], draws) for n in (39, 40, 41, 900)]
    assert found[0] != found[1]
    assert found[1] == found[2] == found[3]


def test_a_row_that_moves_up_stays_within_epsilon():
    # five rows where one is stated: four are used; without the first one, the fifth moves up
    schema = add_remove(2, 1, binary=True)
    given = {"epsilon": 1.0, "noise_share": 0.6, "fit_intercept": False}
    x = np.array([[1.0, 1.0], [0.5, 0.0], [-0.5, 0.25], [0.25, 1.0], [1.0, -1.0]])
    y = np.array([1.0, 0.0, 1.0, 0.0, 0.0])
    own = ObjectivePerturbation(schema, loss=Own(), **given)
    assert largest_ratio(x[:4], y[:4], x[4], y[4], own) <= 1.0
    # planted: a calibration for a row that comes or goes, with the first rows alone
    one_row = ObjectivePerturbation(schema, **given)
    assert largest_ratio(x[:4], y[:4], x[4], y[4], one_row) > 1.1


@pytest.mark.parametrize("loss", ["logistic", "huber"])
def test_no_number_of_rows_stops_the_search(loss, seed):
    # an error for some numbers of rows would tell that number, which is private
    mechanism = ObjectivePerturbation(
        add_remove(2, 1, binary=loss == "logistic"), loss=loss, epsilon=1000.0, noise_share=0.9
    )
    x, y = table(20_000, 2, source(seed), hostile=True)
    rows = np.column_stack([np.ones(len(x)), x])
    for n in (0, 1, 5, 300, 20_000):
        draws = mechanism.draw_noise(source(seed + n))
        assert np.isfinite(mechanism.scaled(mechanism.perturbed(rows[:n], y[:n], draws))).all()
