"""A tilted loss and its residuals: what is released, and what follows for least squares."""

from __future__ import annotations

import pickle
from dataclasses import replace
from fractions import Fraction
from itertools import product

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.line_errors import LineErrors
from tightdp.data.one_pass import KeptRows, blocks
from tightdp.errors import TightdpError
from tightdp.inference.coefficient_intervals import Wanted, candidates
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit
from tightdp.mechanisms.tilted_squares import TiltedSquares
from tightdp.privacy import Numerics
from tightdp.randomness import SeededSource, source
from tightdp.release import Release

NAMES = ["a", "b", "c"]
SLOPES = np.array([0.3, -0.2, 0.1])


def facts(rows: int, **options) -> tdp.Schema:
    return tdp.Schema(dict.fromkeys([*NAMES, "y"], tdp.Interval(-1, 1)), rows, **options)


def table(rows: int, seed: int, *, outliers: float = 0.0) -> dict[str, np.ndarray]:
    """Correlated columns; some targets lie at the upper bound, more of them where a is large."""
    rng = np.random.default_rng(seed)
    z = np.sqrt(0.5) * rng.standard_normal((rows, 1)) + np.sqrt(0.5) * rng.standard_normal(
        (rows, 3)
    )
    X = np.clip(z / 3, -1, 1)
    y = np.clip(0.1 + X @ SLOPES + 0.1 * rng.standard_normal(rows), -1, 1)
    y[rng.random(rows) < outliers * (1 + X[:, 0])] = 1.0
    return dict(zip(NAMES, X.T, strict=True)) | {"y": y}


def design(rows: dict[str, np.ndarray]) -> np.ndarray:
    return np.column_stack([np.ones(len(rows["y"])), *(rows[name] for name in NAMES)])


def least_squares(rows: dict[str, np.ndarray]) -> np.ndarray:
    return np.linalg.lstsq(design(rows), rows["y"], rcond=None)[0]


def regression(rows: int, epsilon: object, **options) -> LeastSquares:
    return LeastSquares(facts(rows), NAMES, "y", epsilon=epsilon, method="objective", **options)


def test_all_looks_together_cost_epsilon():
    for epsilon, share in ((Fraction(1, 7), 0.1), (Fraction(3), Fraction(1, 3))):
        squares = TiltedSquares(facts(900), NAMES, "y", epsilon=epsilon, share=share)
        spent = epsilon * Fraction(str(share))
        assert squares.tilt.epsilon == epsilon - spent
        assert squares.first.epsilon + squares.second.epsilon == spent
        assert squares.cost.epsilon == epsilon
        assert sum(part.share for part in squares.second.parts) == 1
        line = regression(900, epsilon, interval_share=share)
        assert (line.epsilon, line.cost, line.numerics) == (
            epsilon,
            squares.cost,
            Numerics.IDEALIZED,
        )


@pytest.mark.parametrize("outliers", [0.0, 0.2])
def test_the_gradient_says_what_the_products_are(outliers, seed):
    """For the tilt that was drawn: products with the target, less what the clip takes away."""
    rows, squares = (
        table(3_000, seed, outliers=outliers),
        TiltedSquares(facts(3_000), NAMES, "y", epsilon=1),
    )
    tilt, Z = squares.tilt, design(rows)
    draws = tilt.draw_noise(SeededSource(seed))
    sums = [squares.statistic.integer_sum(squares.first.bits)]
    kept = KeptRows(rows, sums)
    quantised, target = tilt.rows.scaled_cells(kept.matrix(tilt.rows.columns))
    assert quantised == pytest.approx(Z, abs=1e-5)
    theta = tilt.scaled(tilt.perturbed(quantised, target, draws))
    V = np.array([int(z) / tilt.noise_resolution for z in draws.noise])
    residual = rows["y"] - Z @ theta
    clipped = residual - np.clip(residual, -0.5, 0.5)
    assert (np.abs(clipped) > 0).any() == (outliers > 0)
    n, ridge = len(residual), tilt.calibration.ridge
    found = Z.T @ Z @ theta / n + (ridge * theta + V) / n + Z.T @ clipped / n
    assert found == pytest.approx(Z.T @ rows["y"] / n, abs=2e-6)


def test_without_noise_it_is_least_squares():
    rows = table(4_000, 2)
    fit = (line := regression(4_000, 1000)).fit(line.release(rows, rng=1))
    assert fit.coefficients == pytest.approx(least_squares(rows), abs=2e-4)
    Z = np.column_stack([design(rows), rows["y"]])
    assert fit.products == pytest.approx(Z.T @ Z / 4_000, abs=1e-3)


def test_the_pull_of_the_ridge_is_undone(seed):
    """The minimiser is nearer to 0 than least squares; the coefficients are not."""
    rows, line = table(4_000, seed), regression(4_000, 1)
    truth, drawn = least_squares(rows), []
    for k in range(120):
        fit = line.fit(line.release(rows, rng=1000 * seed + k))
        drawn.append([(vector @ truth)[()] for vector in (fit.tilt.theta, fit.coefficients)])
    pulled, kept = np.median(drawn, axis=0) / (truth @ truth)
    assert pulled < 0.85
    assert abs(kept - 1) < 0.15


def test_coefficients_err_clearly_less(seed):
    """Than those of moments, where residuals are small beside the bounds."""
    rows = table(20_000, seed)
    truth, errors = least_squares(rows), []
    for options in ({"method": "objective"}, {}):
        line = LeastSquares(facts(20_000), NAMES, "y", epsilon=1, **options)
        fits = (line.fit(line.release(rows, rng=1000 * seed + k)) for k in range(60))
        errors.append(np.median([np.linalg.norm((f.coefficients - truth)[1:]) for f in fits]))
    assert errors[0] < 0.75 * errors[1]


@pytest.mark.parametrize("outliers", [0.0, 0.1])
def test_intervals_hold_the_population(outliers, seed):
    """Of least squares, whatever the clip has done; and they are known to be good for something."""
    truth = least_squares(table(2_000_000, 77, outliers=outliers))
    line, held, lengths = regression(2_000, 2), [], []
    for k in range(50):
        rows = table(2_000, 5000 + 100 * seed + k, outliers=outliers)
        fit = line.fit(line.release(rows, rng=seed + k))
        low, high = fit.intervals(0.05).T
        assert (low <= fit.coefficients).all()
        assert (fit.coefficients <= high).all()
        held.append((low <= truth) & (truth <= high))
        lengths.append(high - low)
    assert np.mean(held) > 0.93
    assert outliers or np.median(lengths) < 0.7  # else many residuals are clipped


def test_an_interval_that_forgets_the_clip_fails():
    """Its room is what lets intervals hold where many residuals are clipped."""
    rows, line = table(100_000, 3, outliers=0.2), regression(100_000, 8)
    truth, fit = least_squares(rows), line.fit(line.release(table(100_000, 3, outliers=0.2), rng=1))
    forgetful = LinearFit(fit.mechanism, fit.products, fit.rows, tilt=replace(fit.tilt, moved=0.0))

    def holds(found: LinearFit) -> np.ndarray:
        low, high = found.intervals(0.05, assume="equal variance").T
        return (low <= truth) & (truth <= high)

    assert holds(fit).all()
    assert not holds(forgetful).all()


def test_the_room_is_a_bound_that_can_be_reached(seed):
    """On what targets that were moved do to slopes: few that were moved far, or many a little."""
    rng, reached = np.random.default_rng(seed), []
    for turn in range(40):
        X = rng.choice([-1.0, 1.0], (400, 3))
        if turn % 2:  # narrow, and so correlated that some influences are large
            X = rng.normal(0, 0.3, (400, 1)) + rng.normal(0, rng.choice([0.02, 0.2]), (400, 3))
        Z = np.column_stack([np.ones(400), np.clip(X, -1, 1)])
        influence = np.linalg.inv(Z.T @ Z / 400) @ Z.T
        far, order = 0.8, np.argsort(-influence[1])
        moved = np.zeros(400)
        moved[order[: 5 if turn % 2 else 200]] = far if turn % 2 else 0.01
        y = rng.uniform(-0.2, 0.2, 400)
        M = np.column_stack([Z, y]).T @ np.column_stack([Z, y]) / 400
        M[0, 0] += moved.mean()
        wanted = Wanted(None, np.zeros(3), np.zeros(3), equal_variance=True, farthest=far)
        found = candidates(M, lambda count: np.zeros((count, 5, 5)), 400, source(turn), wanted)
        change = np.abs(influence @ moved / 400)[1:]
        assert (change <= found.room[0, 1:] * (1 + 1e-9)).all()
        reached.append(change[0] / found.room[0, 1])
    assert max(reached[::2]) > 0.2
    assert max(reached[1::2]) > 0.2


@pytest.mark.parametrize("slope", [3.5, 6.0, 12.0])
def test_columns_that_fill_a_part_of_their_bounds_have_steep_lines(slope, seed):
    """What was cut off the public line counted as if it moved all residuals: intervals from -700 to
    800 for a slope of 6, which was known to 0.02."""
    rng, wide = np.random.default_rng(seed), 0.5 / slope
    rows = {name: rng.uniform(-wide, wide, 200_000) for name in NAMES}
    rows["y"] = slope * rows["a"] + 0.05 * rng.standard_normal(200_000)
    line, truth = regression(200_000, 16), least_squares(rows)
    low, high = (fit := line.fit(line.release(rows, rng=seed))).intervals(0.01).T
    assert ((low <= truth) & (truth <= high)).all()
    assert np.abs(fit.tilt.theta - fit.tilt.line).max() < 1e-4
    assert (high - low).max() < slope


@pytest.mark.parametrize("bits", [2, 6, 16])
@pytest.mark.parametrize("rows", [300, 20_000])
def test_what_is_said_of_the_clip_holds_for_the_minimiser(bits, rows, seed):
    """Residuals of the line on the grid count sooner, by all that it and the minimiser differ."""
    schema = facts(rows, bits=bits)
    squares, cells = TiltedSquares(schema, NAMES, "y", epsilon=64), table(rows, seed, outliers=0.2)
    kept = KeptRows(cells, [squares.statistic.integer_sum(bits)])
    Z, target = squares.tilt.rows.scaled_cells(kept.matrix(squares.tilt.rows.columns))
    own_source = SeededSource(seed)
    for _ in range(5):
        draws = squares.tilt.draw_noise(own_source)
        theta = squares.tilt.scaled(squares.tilt.perturbed(Z, target, draws))
        own = theta - squares.tilt.scaled([int(z) for z in draws.output])
        moved = np.maximum(np.abs(target - Z @ own) - 0.5, 0).mean()
        line = squares.line(theta)
        public = np.array(line) / squares.points
        along = squares.errors.along(line, squares.errors.reach)
        share = along.measure(cells)[1] / along.resolution(bits)
        found = (share + rows) * squares.scale(public)[1]
        found += squares._not_counted(np.abs(theta - public))
        rounding = squares.scale(public)[1] * rows / along.grid(bits).points  # of sums to the grid
        assert moved <= found + rounding


def test_the_noise_that_hides_the_solver_moves_no_row_that_is_not_clipped(seed):
    """It counted as if it moved all: of a million rows intervals were 2.5 times as long."""
    rng, rows = np.random.default_rng(seed), 1_000_000
    cells = {name: rng.uniform(-1, 1, rows) for name in NAMES}
    cells["y"] = 0.1 * cells["a"] + 0.02 * rng.standard_normal(rows)
    fit = (line := regression(rows, 64)).fit(line.release(cells, rng=seed))
    low, high = fit.intervals(0.05, assume="equal variance").T
    textbook = 2 * 1.96 * 0.02 * np.sqrt(3 / rows)
    assert (high - low)[1:].max() < 1.3 * textbook


def test_no_p_value_is_small_where_nothing_is():
    """Of a column without effect, about as many as the level says at most."""
    line, small = regression(1_500, 2), 0
    for k in range(60):
        rows = table(1_500, 900 + k)
        rows["c"] = np.random.default_rng(k).uniform(-1, 1, 1_500)
        rows["y"] = np.clip(rows["y"] - 0.1 * table(1_500, 900 + k)["c"], -1, 1)
        fit = line.fit(line.release(rows, rng=k))
        one = np.eye(4)[[3]]
        small += fit.tested(one, one @ fit.coefficients, np.zeros(1), None) < 0.1
    assert small <= 12


def test_a_preview_is_the_error(seed):
    rng = np.random.default_rng(seed)
    rows = {name: rng.uniform(-1, 1, 20_000) for name in NAMES}
    rows["y"] = 0.1 * rows["a"] + 0.1 * rng.uniform(-1, 1, 20_000)
    line, truth = regression(20_000, 1), least_squares(rows)
    seen = np.array(
        [line.fit(line.release(rows, rng=1000 * seed + k)).coefficients - truth for k in range(150)]
    )
    foreseen = line.preview()
    assert seen.std(axis=0) == pytest.approx(foreseen.std, rel=0.25)
    assert (np.abs(seen) <= foreseen.half_width).all(axis=1).mean() > 0.9
    assert "intervals 50%" in foreseen.noise


# --- the sums of the last look --------------------------------------------------------------------


def test_squares_are_never_less_than_exact_ones(seed):
    rng, rows = np.random.default_rng(seed), table(500, seed)
    sums = LineErrors(facts(500, bits=6), NAMES, "y")
    line = [int(z) for z in rng.integers(-sums.points, sums.points + 1, 4)]
    along = sums.rebuilt(line=line, reach=sums.points // 2)
    matrix = KeptRows(rows, [along.integer_sum(6)]).matrix([*NAMES, "y"]) / sums.points
    residual = matrix[:, -1] - line[0] / sums.points - matrix[:, :-1] @ line[1:] / sums.points
    largest = 1 + np.abs(line).sum() / sums.points
    squares, moved = np.array(along.measure(rows)) / along.resolution(6)
    exact = float((2 * (residual / largest) ** 2 - 1).sum())
    assert exact <= squares <= exact + 500 * along.row_rounding(along.grid(6))[0]
    beyond = np.maximum(np.abs(residual) - 0.5, 0) / (largest - 0.5)
    assert moved == pytest.approx(float((2 * beyond - 1).sum()), abs=500 / sums.points)


def test_sums_do_not_depend_on_blocks_and_do_not_wrap():
    schema, rows = facts(1_000), table(1_000, 4, outliers=0.3)
    sums = LineErrors(schema, NAMES, "y")
    whole = sum(sums.contributions(b, schema.bits) for b in blocks(rows, schema, sums.columns))
    few = blocks(rows, schema, sums.columns, block_rows=7)
    assert (whole == sum(sums.contributions(b, schema.bits) for b in few)).all()
    fine = LineErrors(facts(5_000, bits=26), NAMES, "y")
    steep = fine.rebuilt(line=[-fine.points, *[-4 * fine.points] * 3], reach=1)
    ends = dict.fromkeys([*NAMES, "y"], np.ones(5_000))
    assert steep.measure(ends) == [5_000 * steep.resolution(26)] * 2
    assert steep.measure(ends | {"y": -np.ones(5_000)})[0] < 5_000 * steep.resolution(26)


@pytest.mark.parametrize("bits", [1, 8, 20, 26])
@pytest.mark.parametrize("columns", [1, 3, 60])
def test_the_steepest_lines_do_not_wrap(bits, columns):
    names = [f"x{j}" for j in range(columns)]
    schema = tdp.Schema(dict.fromkeys([*names, "y"], tdp.Interval(-1, 1)), 3_000, bits=bits)
    plain = LineErrors(schema, names, "y")
    assert 4 <= plain.steepest <= 64
    line = [-plain.steepest * plain.points] * (columns + 1)
    steep, ends = plain.along(line, plain.points // 2), dict.fromkeys([*names, "y"], np.ones(3_000))
    assert steep.measure(ends) == [3_000 * steep.resolution(bits)] * 2
    with pytest.raises(TightdpError, match="line"):
        plain.along([line[0] - 1, *line[1:]], 1)


def kinds(rows: int, levels: int) -> tdp.Schema:
    """A number between two categories, of two levels and of more."""
    return tdp.Schema(
        {
            "two": tdp.Category([*"pq"], other="p"),
            "x": tdp.Interval(-1, 1),
            "k": tdp.Category([f"l{j}" for j in range(levels)], other="l0"),
            "y": tdp.Interval(-1, 1),
        },
        rows,
    )


def test_the_largest_residual_is_that_of_some_row(seed):
    """Indicators of a category exclude each other: their slopes do not add up."""
    rng, schema = np.random.default_rng(seed), kinds(1, 4)
    plain = LineErrors(schema, ["two", "x", "k"], "y")
    corners = [
        {"two": [two], "x": [x], "k": [k], "y": [y]}
        for two, x, k, y in product("pq", (-1.0, 1.0), ("l0", "l1", "l2", "l3"), (-1.0, 1.0))
    ]
    for _ in range(20):
        line = [int(z) for z in rng.integers(-2 * plain.points, 2 * plain.points, 6)]
        sums = plain.along(line, plain.points // 2)
        found = [sums.measure(row) for row in corners]
        assert np.max(found, axis=0).tolist() == [sums.resolution(schema.bits)] * 2


def test_levels_that_exclude_each_other_do_not_add_up(seed):
    """The room for what the clip takes away was that of a row of all levels at once: thirty times
    as much. And where the rows that are clipped move a level the most, it is not too small."""
    rows, levels = 60_000, 30
    line = LeastSquares(kinds(rows, levels), ["two", "x", "k"], "y", epsilon=8, method="objective")
    rng = np.random.default_rng(seed)
    codes, two, x = (rng.integers(0, many, rows) for many in (levels, 2, 201))
    clipped = (codes == 7) & (rng.random(rows) < 0.2)
    y = np.where(clipped, 1.0, 0.1 * x / 100 - 0.1 + 0.02 * rng.standard_normal(rows))
    names = np.array([f"l{j}" for j in range(levels)])
    cells = {"two": np.array([*"pq"])[two], "x": x / 100 - 1, "k": names[codes], "y": y}
    Z = np.column_stack([np.ones(rows), two, x / 100 - 1, np.eye(levels)[codes][:, 1:]])
    truth = np.linalg.lstsq(Z, y, rcond=None)[0]
    fit = line.fit(line.release(cells, rng=seed))
    low, high = fit.intervals(0.001, assume="equal variance").T
    assert ((low <= truth) & (truth <= high)).all()
    assert np.abs(truth - fit.coefficients)[9] > 0.05  # what was clipped does move it
    assert np.median((high - low)[3:]) < 1.2


# --- as a mechanism of the house ------------------------------------------------------------------


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (facts(50, neighbors="add-remove"), {}),
        (facts(50), {"missing": "drop"}),
        (facts(50), {"post": "none"}),
        (facts(50), {"stages": 2}),
        (facts(50), {"alpha": 1.0}),
        (facts(50), {"noise": "split"}),
        (facts(50), {"fit_intercept": False}),
        (facts(50), {"spread": 0.5}),
        (facts(50), {"correlation": 0.5}),
        (facts(50), {"interval_share": 0}),
        (facts(50), {"interval_share": 1}),
        (facts(50), {"interval_share": "much"}),
        (facts(50), {"method": "objectives"}),
        (facts(10**8), {}),
    ],
)
def test_what_does_not_go_together_is_refused(schema, options):
    with pytest.raises(TightdpError):
        LeastSquares(schema, NAMES, "y", **({"epsilon": 1, "method": "objective"} | options))


@pytest.mark.parametrize("share", [1e-13, 1 - 1e-13, Fraction(1, 10**30)])
def test_too_small_a_part_is_said_of_the_share(share):
    with pytest.raises(TightdpError, match="interval_share"):
        regression(50, 1, interval_share=share)


def test_the_moments_are_what_one_gets_unasked():
    plain, named = (
        LeastSquares(facts(80), NAMES, "y", epsilon=1, method=method)
        for method in (None, "moments")
    )
    assert plain.fingerprint() == named.fingerprint()
    assert plain.fingerprint() != regression(80, 1).fingerprint()


def test_a_ledger_gives_the_same_release_back(tmp_path):
    rows, ledger = table(2_000, 6), tdp.Ledger(2, path=tmp_path / "tilted.ledger")
    line = regression(2_000, 1)
    first = line.release(rows, ledger=ledger, key="line")
    again = line.release(rows, ledger=ledger, key="line")
    assert ledger.spent.epsilon == 1
    for other in (again, Release.from_dict(first.to_dict())):
        assert (other.value == first.value).all()
        assert (line.answer(other).interval == line.answer(first).interval).all()


def test_levels_and_names_of_columns():
    """Indicators tilt as a body of their own; a column may have any name."""
    levels = tdp.Category([*"uvw"], other="u")
    schema = tdp.Schema(
        {"1": tdp.Interval(0, 4), "k": levels, "intercept": tdp.Interval(-3, 1)}, rows=6_000
    )
    rng = np.random.default_rng(5)
    rows = {"1": rng.uniform(0, 4, 6_000), "k": rng.choice([*"uvw"], 6_000)}
    rows["intercept"] = -2 + 0.3 * rows["1"] + 0.2 * (rows["k"] == "w")
    line = LeastSquares(schema, ["1", "k"], "intercept", epsilon=20, method="objective")
    answer = line.answer(line.release(rows, rng=1))
    assert answer.value == pytest.approx([-2, 0.3, 0, 0.2], abs=0.05)
    only = LeastSquares(schema, ["k"], "intercept", epsilon=20, method="objective")
    assert np.isfinite(only.answer(only.release(rows, rng=1)).interval).all()


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 1000), Fraction(1)])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_and_much_noise_say_nothing(rows, epsilon, seed):
    """Warnings after the payment would depend on the noise."""
    columns = dict.fromkeys(["a", "b", "y"], tdp.Interval(-1, 1))
    schema = tdp.Schema({**columns, "k": tdp.Category([*"uvw"], other="u")}, rows)
    cells = {"a": [0.5] * rows, "b": [1.0] * rows, "k": ["v"] * rows, "y": [0.2] * rows}
    line = LeastSquares(schema, ["a", "b", "k"], "y", epsilon=epsilon, method="objective")
    for k in range(5):
        answer = line.answer(line.release(cells, rng=10 * seed + k))
        assert np.isfinite(answer.value).all()
        assert (answer.interval[:, 0] <= answer.value).all()  # with no end where noise is all
        assert (answer.value <= answer.interval[:, 1]).all()


def test_what_can_be_read_once_is_read_once():
    pyarrow = pytest.importorskip("pyarrow")
    line, rows = regression(400, 1), table(400, 7)
    expected = line.release(rows, rng=1).value
    assert (line.release(pyarrow.table(rows).to_reader(), rng=1).value == expected).all()


def test_a_fitted_regression_says_it():
    rows = table(20_000, 8, outliers=0.1)
    options = {"epsilon": 4, "bounds": facts(20_000), "random_state": 1}
    model = tdp.LinearRegression(**options, method="objective").fit(rows, "y")
    assert "idealized-numerics" in str(model.guarantee_)
    assert "esiduals beyond 0.5 count as so large" in str(model.summary())
    assert model.moments_[1:, -1] == pytest.approx(
        np.column_stack([design(rows), rows["y"]]).T[1:] @ rows["y"] / 20_000, abs=0.05
    )
    again = pickle.loads(pickle.dumps(model))
    assert (again.conf_int() == model.conf_int()).all()
    assert again.test({"a": 1, "b": -1}).p_value == model.test({"a": 1, "b": -1}).p_value
    with pytest.raises(TightdpError, match="alpha=0 with"):
        tdp.Ridge(**options, method="objective").fit(rows, "y")


def test_a_summary_says_what_the_clip_costs():
    options = {"epsilon": 4, "bounds": facts(20_000), "random_state": 1, "method": "objective"}
    said = "times as long as if no residual were so large"
    for outliers, costs in ((0.1, True), (0.0, False)):
        model = tdp.LinearRegression(**options).fit(table(20_000, 8, outliers=outliers), "y")
        assert (said in str(model.summary())) == costs


def test_a_plan_can_ask_for_it(tmp_path):
    rng = np.random.default_rng(9)  # even rows, of which the preview is
    rows = {name: rng.uniform(-1, 1, 3_000) for name in NAMES}
    rows["y"] = 0.3 * rows["a"] + 0.1 * rng.uniform(-1, 1, 3_000)
    np.savetxt(
        tmp_path / "rows.csv",
        np.column_stack(list(rows.values())),
        delimiter=",",
        header=",".join(rows),
        comments="",
    )
    (tmp_path / "plan.toml").write_text(
        '[data]\nfile = "rows.csv"\n[schema]\nrows = 3000\n'
        + "".join(f"columns.{name} = {{low = -1, high = 1}}\n" for name in rows)
        + '[budget]\nepsilon = 3\nledger = "line.ledger"\n[[releases]]\nname = "line"\n'
        + 'kind = "linear_regression"\ntarget = "y"\nfeatures = ["a", "b", "c"]\n'
        + 'method = "objective"\nweight = 1\n'
    )
    plan = tdp.Plan.read(tmp_path / "plan.toml")
    foreseen, result = plan.preview().previews["line"], plan.release()
    value = result.answers["line"].value
    # drawn without a seed: it fails once in a million runs, at most
    assert (np.abs(value - least_squares(rows)) < 3 * foreseen.half_width).all()
