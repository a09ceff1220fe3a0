"""Moments, and then the squares of what errors do: what is released, and what intervals hold."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.error_squares import ErrorSquares
from tightdp.data.one_pass import blocks
from tightdp.errors import TightdpError
from tightdp.inference.error_scales import affine_influences, coefficient_weights
from tightdp.inference.uneven_errors import (
    CandidateLines,
    ErrorScales,
    ErrorSizes,
    least_scales,
    root_bounds,
)
from tightdp.mechanisms.error_look import ErrorLook
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.randomness import SeededSource
from tightdp.release import Release

NAMES = ["a", "b", "c"]
SLOPES = np.array([0.3, -0.2, 0.1])


def facts(rows: int, **options) -> tdp.Schema:
    return tdp.Schema(dict.fromkeys([*NAMES, "y"], tdp.Interval(-1, 1)), rows, **options)


def table(rows: int, seed: int) -> dict[str, np.ndarray]:
    """Correlated columns, and errors that are large where two of them differ."""
    rng = np.random.default_rng(seed)
    z = np.sqrt(0.7) * rng.standard_normal((rows, 1)) + np.sqrt(0.3) * rng.standard_normal(
        (rows, 3)
    )
    X = np.clip(z / 3, -1, 1)
    y = np.clip(0.1 + X @ SLOPES + 0.3 * (X[:, 0] - X[:, 1]) * rng.standard_normal(rows), -1, 1)
    return dict(zip(NAMES, X.T, strict=True)) | {"y": y}


def design(rows: dict[str, np.ndarray]) -> np.ndarray:
    return np.column_stack([np.ones(len(rows["y"])), *(rows[name] for name in NAMES)])


def test_both_looks_together_cost_epsilon():
    for epsilon, share in ((Fraction(1, 7), 0.1), (Fraction(3), Fraction(1, 3))):
        look = ErrorLook(facts(900), NAMES, "y", epsilon=epsilon, share=share)
        assert look.second.epsilon == epsilon * Fraction(str(share))
        assert look.first.epsilon + look.second.epsilon == epsilon == look.cost.epsilon
        line = LeastSquares(facts(900), NAMES, "y", epsilon=epsilon, interval_share=share)
        assert (line.epsilon, line.cost) == (epsilon, look.cost)


@pytest.mark.parametrize("intercept", [True, False])
def test_without_noise_it_is_the_sandwich(intercept):
    rows, n = table(40_000, 1), 40_000
    line = LeastSquares(
        facts(n), NAMES, "y", epsilon=1_000, interval_share=0.5, fit_intercept=intercept
    )
    found = line.errors.sizes(line.release(rows, rng=1))
    D = design(rows)
    own = D if intercept else D[:, 1:]
    residual = rows["y"] - own @ np.linalg.lstsq(own, rows["y"], rcond=None)[0]
    influence = D @ found.influences.T
    exact = (influence**2 * residual[:, None] ** 2).mean(axis=0)
    assert found.squares == pytest.approx(exact, rel=0.05)
    # the influences are those of the coefficients, up to their size
    wanted = own @ np.linalg.inv(own.T @ own / n)
    for k, each in enumerate(influence.T):
        assert abs(np.corrcoef(each, wanted[:, k])[0, 1]) == pytest.approx(1, abs=1e-3)


def test_squares_are_never_less_than_exact_ones():
    schema, rng = facts(300, bits=4), np.random.default_rng(3)
    plain = ErrorSquares(schema, NAMES, "y")
    rows = {name: rng.integers(-16, 17, 300) / 16 for name in [*NAMES, "y"]}
    influences = [[4, -6, 3, 3], [0, 0, 0, 16], [0, 0, 0, 0]]
    sums = plain.with_influences([3, 20, -40, 7], influences)
    D = design(rows)
    residual = (rows["y"] - D @ np.array([3, 20, -40, 7]) / 16) / (sums.farthest / 16)
    exact = ((D @ np.array(influences).T / 16) ** 2 * residual[:, None] ** 2).sum(axis=0)
    found = (np.array(sums.measure(rows)) / sums.resolution(4) + 300) / 2
    assert (found >= exact - 1e-9).all()
    assert (found <= exact + sums.rounding(4)).all()
    assert (found[:2] > exact[:2]).all()
    assert found[2] == 0


def test_the_sums_do_not_depend_on_blocks():
    schema, rows = facts(1_000), table(1_000, 4)
    sums = ErrorSquares(schema, NAMES, "y")
    whole = sum(sums.contributions(b, schema.bits) for b in blocks(rows, schema, sums.columns))
    few = blocks(rows, schema, sums.columns, block_rows=7)
    assert (whole == sum(sums.contributions(b, schema.bits) for b in few)).all()


def test_no_sum_wraps_at_the_ends_of_bits():
    """One block of rows that all add the most, against Python's integers."""
    schema = facts(5_000, bits=26)
    sums = ErrorSquares(schema, NAMES, "y")
    points = sums.points
    steep = sums.with_influences([-points, *[-4 * points] * 3], [[points, 0, 0, 0]])
    ends = dict.fromkeys([*NAMES, "y"], np.ones(5_000))
    assert steep.measure(ends) == [5_000 * steep.resolution(26)]
    assert steep.measure(ends | {"y": -np.ones(5_000)})[0] < 5_000 * steep.resolution(26)


def test_influences_beyond_their_bounds_are_refused():
    plain = ErrorSquares(facts(9), NAMES, "y")
    with pytest.raises(TightdpError, match="influences"):
        plain.with_influences(plain.line, [[plain.points, 1, 0, 0]])
    with pytest.raises(TightdpError, match="influences"):
        plain.with_influences(plain.line, [[1, 0, 0]])


def test_the_bound_on_what_errors_do_is_one(seed):
    """Whatever the public line and influences are; it is reached where they are the true ones."""
    rng = np.random.default_rng(seed)
    for _ in range(60):
        X = np.clip(rng.standard_normal((400, 2)) @ rng.normal(0, 0.4, (2, 2)), -1, 1)
        e = rng.normal(0, 0.2, 400) * (0.2 + np.abs(X[:, 0]) ** rng.integers(1, 4))
        D = np.column_stack([np.ones(400), X])
        y = D @ rng.normal(0, 0.3, 3) + e
        b = np.linalg.lstsq(D, y, rcond=None)[0]
        C, mean = np.cov(X.T, bias=True), X.mean(axis=0)
        slope = np.linalg.inv(C)
        true = np.column_stack([-slope @ mean, slope])
        residual = y - D @ b
        exact = np.sqrt(((D @ true.T) ** 2 * residual[:, None] ** 2).mean(axis=0))
        away = rng.choice([0.0, 0.05, 0.5])
        public = true * (1 + away * rng.normal(size=true.shape)) * rng.uniform(0.01, 2)
        line = b + away * rng.normal(0, 0.3, 3)
        squares = ((D @ public.T) ** 2 * (y - D @ line)[:, None] ** 2).mean(axis=0)
        known = ErrorSizes(public, line, squares, lambda count, rng: np.zeros((count, 2)))
        lines = CandidateLines(
            C[None],
            -mean[None],
            np.array([b[0] + b[1:] @ mean]),
            b[None, 1:],
            np.array([np.sqrt((residual**2).mean())]),
            np.array([np.abs(residual).max()]),
        )
        (bound,), told = root_bounds(known, lines, true[None], SeededSource(1))
        assert told.all()
        assert (bound >= exact * (1 - 1e-9)).all()
        if away == 0:
            assert bound == pytest.approx(exact, rel=1e-6)


@pytest.mark.parametrize("intercept", [True, False])
def test_the_bound_on_what_errors_do_is_one_wherever_columns_lie(seed, intercept):
    """Off centre, flags of few rows, with a penalty, and about a public point."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        X = np.clip(rng.uniform(-0.9, 0.9, 2) + rng.normal(0, 0.1, (60, 2)), -1, 1)
        if rng.integers(2):
            X[:, 0] = np.where(np.arange(60) < rng.integers(1, 4), 1.0, -1.0)
        e = rng.normal(0, 0.3, 60) * np.abs(X[:, 0] - X[:, 1]) ** rng.integers(0, 4)
        y = np.clip(rng.uniform(-0.5, 0.5) + X @ rng.normal(0, 0.5, 2) + e, -1, 1)
        D, origin = np.column_stack([np.ones(60), X]), rng.uniform(-1.5, 1.5, 3)
        centre, level = (-X.mean(axis=0), y.mean()) if intercept else (-origin[:2], origin[2])
        mean = X.mean(axis=0) if intercept else np.zeros(2)
        C = (X + centre).T @ (X + centre) / 60
        inverse = np.linalg.inv(C + np.diag(rng.choice([0.0, 0.01, 1.0], 2)))
        slopes = inverse @ (X + centre).T @ (y - level) / 60
        left = y - level - (X + centre) @ slopes
        weights = coefficient_weights(origin[:2], intercept=intercept)
        own = affine_influences(weights, mean, inverse, centre)
        away = rng.choice([0.0, 0.1, 1.0])
        public = own * (1 + away * rng.normal(size=own.shape)) * rng.uniform(0.001, 2)
        line = np.append(level + centre @ slopes, slopes) + away * rng.normal(0, 0.3, 3)
        squares = ((D @ public.T) ** 2 * (y - D @ line)[:, None] ** 2).mean(axis=0)
        known = ErrorSizes(
            public, line, squares, lambda count, rng: np.zeros((count, 2 + intercept))
        )
        lines = CandidateLines(
            C[None],
            centre[None],
            np.array([level]),
            slopes[None],
            np.array([np.sqrt((left**2).mean())]),
            np.array([np.abs(left).max()]),
        )
        exact = np.sqrt(((D @ own.T) ** 2 * left[:, None] ** 2).mean(axis=0))
        (bound,), _ = root_bounds(known, lines, own[None], SeededSource(1))
        assert (bound >= exact * (1 - 1e-9)).all()


def test_intervals_are_shorter_and_hold(seed):
    """Of errors that are large where the influence is; equal variance, which is false, holds less.

    4 columns of 60 tables; the benchmark has 200 tables of 30 settings.
    """
    truth = np.array([0.1, *SLOPES])
    lines = {
        share: LeastSquares(facts(10_000), NAMES, "y", epsilon=20, interval_share=share)
        for share in (None, 0.1)
    }
    length, held = {None: [], 0.1: [], "equal": []}, {0.1: [], "equal": []}
    for k in range(60):
        rows = table(10_000, 1000 * seed + k)
        for share, line in lines.items():
            fit = line.fit(line.release(rows, rng=1000 * seed + k))
            low, high = fit.intervals(0.05).T
            length[share].append(high - low)
            if share is None:
                low, high = fit.intervals(0.05, assume="equal variance").T
            held["equal" if share is None else share].append((low <= truth) & (truth <= high))
    assert np.mean(length[0.1]) < 0.6 * np.mean(length[None])
    assert np.mean(held[0.1]) > 0.93
    assert np.mean(held["equal"]) < 0.9


def test_errors_that_noise_hides_are_not_taken_for_none(seed):
    """One row in a hundred has all influence on a slope, and all errors: what errors do is ten
    times as much as if they had equal variance, and is half hidden by the noise of its square.

    The mean square of errors is hidden, too: what bounds made of it left out one slope in eight.
    """
    rng = np.random.default_rng(seed)
    schema = tdp.Schema(dict.fromkeys(["x", "y"], tdp.Interval(-1, 1)), rows=5_000)
    line = LeastSquares(schema, ["x"], "y", epsilon=20, interval_share=0.1)
    held = 0
    for k in range(80):
        far = rng.random(5_000) < 0.01
        x = np.where(far, rng.choice([-1, 1], 5_000), rng.normal(0, 0.03, 5_000))
        y = 0.1 + 0.3 * x + 0.4 * far * rng.choice([-1, 1], 5_000)
        fit = line.fit(line.release({"x": x, "y": y}, rng=1000 * seed + k))
        low, high = fit.intervals(0.05)[1]
        held += low <= 0.3 <= high
    assert held >= 73  # 78 on average: three standard errors


def test_a_square_below_zero_says_no_more_than_zero():
    known = ErrorSizes(
        np.eye(2), np.zeros(2), np.array([-5.0, 9.0]), lambda count, rng: np.ones((count, 2))
    )
    roots, told = known.roots(3, SeededSource(1))
    assert roots == pytest.approx(np.sqrt([[1.0, 10.0]] * 3))
    assert told.tolist() == [False, True]
    assert known.roots(0, SeededSource(1))[0].shape == (0, 2)  # no candidate was left


def test_what_is_told_counts_where_a_candidate_leaves_no_errors():
    """All candidates of a sum take one of the two: not each the less of its noise."""
    even = np.array([[1e-12], [2.0]])  # as the first candidate has it, there are no errors
    bounded = ErrorScales(np.full((2, 1), 3.0), np.full((2, 1), 50.0))
    known = ErrorScales(5 / even, np.full((2, 1), 50.0))
    for told, size in ((True, [5, 5]), (False, [3e-12, 6])):
        found = least_scales(bounded, known, even, np.array([told]))
        assert (found.factor * even)[:, 0] == pytest.approx(size, abs=1e-15)


def test_few_rows_that_carry_the_errors_lengthen_the_interval_of_the_intercept():
    """Eight rows do, all upwards. All influences on it are of one size, which does not tell that.

    With the tails of as many rows as there are, 0.89 of 200 intervals held, as the probabilities of
    Poisson say; with those of t for so few, 0.95.
    """
    n, size = 40_000, 1.2
    x = np.linspace(-1, 1, n)
    rows = {"a": x, "y": -0.3 + 0.2 * x + size * (np.arange(n) % 5_000 == 77)}
    schema = tdp.Schema(dict.fromkeys(rows, tdp.Interval(-1, 1)), rows=n)
    line = LeastSquares(schema, ["a"], "y", epsilon=200, interval_share=0.1)
    half = np.ptp(line.fit(line.release(rows, rng=1)).intervals(0.05)[0]) / 2
    assert 2.5 < half / (size * np.sqrt(8) / n) < 3.2  # normal: 1.96, t of four degrees: 2.78


def test_sums_of_coefficients_have_errors_of_their_own():
    """A contrast has an interval between that of its own worst case and that of equal variance."""
    rows, weights = table(30_000, 5), np.array([[0, 1.0, -1.0, 0]])
    plain, line = (
        LeastSquares(facts(30_000), NAMES, "y", epsilon=20, interval_share=share)
        for share in (None, 0.1)
    )
    spread = []
    for each, assume in ((plain, None), (line, None), (line, "equal variance")):
        fit = each.fit(each.release(rows, rng=1))
        spread.append(np.ptp(np.quantile(fit.sums(weights, assume)[0], [0.025, 0.975])))
    assert spread[0] > 1.3 * spread[1]
    assert spread[1] > 1.1 * spread[2]


def test_a_ledger_gives_the_same_release_back(tmp_path):
    rows, ledger = table(2_000, 6), tdp.Ledger(2, path=tmp_path / "errors.ledger")
    line = LeastSquares(facts(2_000), NAMES, "y", epsilon=1, interval_share=0.1)
    first = line.release(rows, ledger=ledger, key="line")
    again = line.release(rows, ledger=ledger, key="line")
    assert ledger.spent.epsilon == 1
    back = Release.from_dict(first.to_dict())
    for other in (again, back):
        assert (other.value == first.value).all()
        assert (line.answer(other).interval == line.answer(first).interval).all()


@pytest.mark.parametrize(
    ("schema", "options"),
    [
        (facts(50, neighbors="add-remove"), {}),
        (facts(50), {"missing": "drop"}),
        (facts(50), {"post": "none"}),
        (facts(50), {"stages": 2}),
        (facts(50), {"interval_share": 1}),
        (facts(50), {"interval_share": -0.1}),
        (facts(50), {"interval_share": "much"}),
        (facts(10**9), {}),
    ],
)
def test_what_has_no_look_at_errors_is_refused(schema, options):
    with pytest.raises(TightdpError):
        LeastSquares(schema, NAMES, "y", **({"epsilon": 1, "interval_share": 0.1} | options))


@pytest.mark.parametrize("share", [1e-13, 1 - 1e-13, Fraction(1, 10**30)])
def test_too_small_a_part_is_said_of_the_share(share):
    with pytest.raises(TightdpError, match="interval_share"):
        LeastSquares(facts(50), NAMES, "y", epsilon=1, interval_share=share)


@pytest.mark.parametrize("options", [{"interval_share": 0.1}, {"stages": 2}])
def test_columns_may_be_called_as_they_like(options):
    """As without another look: the names of its numbers are told apart."""
    for names in (["1", "z"], ["intercept", "z"]):
        schema = tdp.Schema(dict.fromkeys([*names, "y"], tdp.Interval(-1, 1)), rows=5)
        assert LeastSquares(schema, names, "y", epsilon=1, **options).source.names


def test_many_coefficients_are_refused():
    wide = tdp.Schema({f"x{i}": tdp.Interval(-1, 1) for i in range(70)}, rows=99)
    with pytest.raises(TightdpError, match="64"):
        LeastSquares(wide, list(wide)[1:], "x0", epsilon=1, interval_share=0.1)


def test_no_share_is_the_regression_without_it():
    plain, none = (
        LeastSquares(facts(80), NAMES, "y", epsilon=1, interval_share=share) for share in (None, 0)
    )
    assert plain.fingerprint() == none.fingerprint()
    assert none.errors is None


def test_a_preview_says_what_intervals_get():
    line = LeastSquares(facts(5_000), NAMES, "y", epsilon=1, interval_share=0.25)
    plain = LeastSquares(facts(5_000), NAMES, "y", epsilon=0.75)
    assert line.preview().std == pytest.approx(plain.preview().std)
    assert "intervals 25%" in line.preview().noise


@pytest.mark.filterwarnings("error")
@pytest.mark.parametrize("epsilon", [Fraction(1, 10**6), Fraction(1, 1000), Fraction(1)])
@pytest.mark.parametrize("rows", [1, 2, 3])
def test_few_rows_and_much_noise_say_nothing(rows, epsilon, seed):
    """Warnings after the payment would depend on the noise; far larger noise is drawn, too."""
    columns = dict.fromkeys(["a", "b", "y"], tdp.Interval(-1, 1))
    schema = tdp.Schema({**columns, "k": tdp.Category([*"uvw"], other="u")}, rows)
    look = ErrorLook(schema, ["a", "b", "k"], "y", epsilon=epsilon, share=0.5)
    rng = np.random.default_rng(seed)
    for noise in look.first.simulate(100, rng=seed):
        size = 10.0 ** rng.integers(-3, 250, len(noise)) if rng.integers(2) else 1.0
        integers = [int(z) * look.first.resolution for z in noise * size]
        look.squares.with_influences(*look.aim(integers))
    cells = {"a": [0.5] * rows, "b": [1.0] * rows, "k": ["v"] * rows, "y": [0.2] * rows}
    line = LeastSquares(schema, ["a", "b", "k"], "y", epsilon=epsilon, interval_share=0.5)
    answer = line.answer(line.release(cells, rng=seed))
    assert np.isfinite(answer.value).all()
    assert (answer.interval[:, 0] <= answer.value).all()  # with no end where noise is all there is
    assert (answer.value <= answer.interval[:, 1]).all()


def test_what_can_be_read_once_is_read_once():
    pyarrow = pytest.importorskip("pyarrow")
    line, rows = LeastSquares(facts(400), NAMES, "y", epsilon=1, interval_share=0.1), table(400, 7)
    expected = line.release(rows, rng=1).value
    assert (line.release(pyarrow.table(rows).to_reader(), rng=1).value == expected).all()


def test_a_fitted_regression_says_it():
    rows = table(20_000, 8)
    model = tdp.LinearRegression(
        epsilon=8, bounds=facts(20_000), interval_share=0.1, random_state=1
    ).fit(rows, "y")
    plain = tdp.LinearRegression(epsilon=8, bounds=facts(20_000), random_state=1).fit(rows, "y")
    short, long = (np.ptp(m.conf_int(), axis=1) for m in (model, plain))
    assert (short < long).all()
    assert model.test({"a": 1, "b": -1}).p_value < 0.01
    again = pickle.loads(pickle.dumps(model))
    assert (again.conf_int() == model.conf_int()).all()
    assert again.test("a").p_value == model.test("a").p_value
    ridge = tdp.Ridge(
        alpha=10.0, epsilon=8, bounds=facts(20_000), interval_share=0.1, random_state=1
    )
    assert np.isfinite(ridge.fit(rows, "y").conf_int()).all()


def test_a_summary_says_when_a_share_would_help():
    """Where the bound on the sampling error makes the most of the intervals, and it can be had."""
    rows = table(20_000, 9)

    def summary(epsilon: float, schema: tdp.Schema, **options) -> str:
        model = tdp.LinearRegression(epsilon=epsilon, bounds=schema, random_state=1, **options)
        return str(model.fit(rows, "y").summary())

    said = "`interval_share=0.1` buys it"
    assert said in summary(16, facts(20_000))
    assert said not in summary(1 / 16, facts(20_000))  # noise is all that counts
    assert said not in summary(16, facts(20_000), interval_share=0.1)
    assert said not in summary(16, facts(20_000), stages=2)
    assert said not in summary(16, facts(20_000, neighbors="add-remove"))
