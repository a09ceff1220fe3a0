"""The coverage law of regressions: what is printed as an interval holds what it says it holds.

Every face that prints an interval for a coefficient is asked on tables of the model, on correlated
and skewed columns, and on errors of unequal variance; where nothing is known nothing may be
printed. Shares are compared with those of a normal law at fractions of the interval, 2 % below and
four standard errors, so that narrow intervals are seen in their middle, too.
"""

from __future__ import annotations

import csv
import gzip
from collections.abc import Callable
from pathlib import Path
from statistics import NormalDist
from typing import Any

import numpy as np
import pytest
from scipy.stats import t

import tightdp as tdp
from tightdp.errors import TightdpError
from tightdp.inference import coefficient_intervals, error_scales
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.linear_fit import LinearFit
from tightdp.randomness import source

REAL = Path(__file__).resolve().parents[3] / "shared" / "data"
FRACTIONS = (1.0, 0.75, 0.5)
LEVEL = 0.95

Draw = Callable[[int], tuple[np.ndarray, np.ndarray]]


def short(errors: np.ndarray, halves: np.ndarray, slack: float = 0.02) -> list[float]:
    """Fractions of the intervals that hold the truth too seldom: none if the law holds."""
    reach = NormalDist().inv_cdf((1 + LEVEL) / 2)
    found = []
    for fraction in FRACTIONS:
        wanted = 2 * NormalDist().cdf(fraction * reach) - 1 - slack
        share = (np.abs(errors) <= fraction * halves).mean()
        if share < wanted - 4 * np.sqrt(wanted * (1 - wanted) / errors.size):
            found.append(fraction)
    return found


# --- tables --------------------------------------------------------------------------------------


def rows_of(kind: str, rng: np.random.Generator, width: int) -> Callable[[int], np.ndarray]:
    """Features in [-1, 1]."""

    def normal(rows: int, share: float) -> np.ndarray:
        common = np.sqrt(share) * rng.normal(size=(rows, 1))
        return np.clip(0.3 * (common + np.sqrt(1 - share) * rng.normal(size=(rows, width))), -1, 1)

    return {
        "even": lambda rows: rng.uniform(-1, 1, (rows, width)),
        "normal": lambda rows: normal(rows, 0.0),
        "correlated .8": lambda rows: normal(rows, 0.8),
        "correlated .95": lambda rows: normal(rows, 0.95),
        "skewed": lambda rows: np.minimum(
            0.15 * np.exp(0.9 * rng.normal(size=(rows, width))) - 1, 1
        ),
    }[kind]


SLOPES = np.array([0.3, -0.2, 0.1, 0.0])


def line(kind: str, rng: np.random.Generator, *, unequal: bool = False) -> Draw:
    """A line with errors of equal variance, or one that grows with the first column."""
    features = rows_of(kind, rng, len(SLOPES))

    def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
        X = features(rows)
        scale = 0.4 * X[:, 0] ** 2 if unequal else 0.15
        return X, np.clip(X @ SLOPES + scale * rng.normal(size=rows), -1, 1)

    return draw


def logit(kind: str, rng: np.random.Generator, slopes: np.ndarray, level: float = 0.0) -> Draw:
    features = rows_of(kind, rng, len(slopes))

    def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
        X = features(rows)
        chance = 1 / (1 + np.exp(-(X @ slopes + level)))
        return X, (rng.random(rows) < chance).astype(int)

    return draw


def from_file(X: np.ndarray, y: np.ndarray, rng: np.random.Generator) -> Draw:
    def draw(rows: int) -> tuple[np.ndarray, np.ndarray]:
        place = rng.integers(len(y), size=rows)
        return X[place], y[place]

    return draw


def least_squares(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    return np.linalg.lstsq(np.column_stack([np.ones(len(y)), X]), y, rcond=None)[0]


def likeliest(X: np.ndarray, y: np.ndarray) -> np.ndarray:
    """(intercept, slopes) of a logistic regression without privacy."""
    Z, theta = np.column_stack([np.ones(len(y)), X]), np.zeros(X.shape[1] + 1)
    for _ in range(50):
        p = 1 / (1 + np.exp(-Z @ theta))
        step = np.linalg.solve((Z.T * (p * (1 - p))) @ Z, Z.T @ (y - p))
        theta = theta + step
        if np.abs(step).max() < 1e-10:
            break
    return theta


# --- linear regression ---------------------------------------------------------------------------


def linear_errors(
    draw: Draw, truth: np.ndarray, rows: int, epsilon: float, tables: int, seed: int,
    *, without_noise: bool = False, **options: Any,
) -> tuple[np.ndarray, np.ndarray]:  # fmt: skip
    """Errors of the middles of the intervals and their halves, for many tables of one release.

    One fit gives the law; every other table is its exact moments plus a fresh draw.
    """
    X, y = draw(rows)
    bounds = [(-1, 1)] * (X.shape[1] + 1)
    model = tdp.LinearRegression(epsilon=epsilon, bounds=bounds, random_state=1).fit(X, y)
    mechanism, moments = model.mechanism_, model.mechanism_.statistic
    i, j, factor = moments.entries.T
    law = mechanism.moments
    guess = law.simulate(1000, rng=seed + 1) * (0.0 if without_noise else 1.0)
    drawn = law.simulate(tables, rng=seed)
    law.simulate = lambda count, rng: guess[:count]
    errors, halves = [], []
    for noise in drawn:
        X, y = draw(rows)
        Z = np.column_stack([np.ones(rows), X, y])
        products = moments.matrices((Z.T @ Z)[i, j] * factor / rows + noise / rows)
        low, high = LinearFit(mechanism, products).intervals(1 - LEVEL, **options).T
        endless = np.isinf(high - low)  # of what noise hides
        with np.errstate(invalid="ignore"):
            errors.append(np.where(endless, 0.0, (low + high) / 2 - truth))
        halves.append((high - low) / 2)
    return np.array(errors), np.array(halves)


LINE = np.append(0.0, SLOPES)


@pytest.mark.slow
def test_linear_intervals_hold_on_tables_of_the_model_and_faults_are_seen(seed):
    draw = line("normal", np.random.default_rng(seed))
    options = {"assume": "equal variance"}
    errors, halves = linear_errors(draw, LINE, 2000, 2.0, 200, seed, **options)
    assert not short(errors, halves)
    assert short(errors, 0.8 * halves)  # an interval cut to 80 %
    errors, halves = linear_errors(draw, LINE, 2000, 2.0, 30, seed, without_noise=True, **options)
    assert short(errors, halves)


@pytest.mark.slow_for("correlated .95")
@pytest.mark.parametrize("kind", ["correlated .95", "skewed"])
def test_linear_intervals_hold_without_any_assumption(kind, seed):
    draw = line(kind, np.random.default_rng(seed))
    assert not short(*linear_errors(draw, LINE, 2000, 2.0, 40, seed))


def held_by_a_narrow_column(
    options: dict[str, Any], seed: int, together: float = 0.0
) -> tuple[np.ndarray, np.ndarray]:
    """Shares of intervals that hold slopes of a narrow column and of wide ones, or have no end.

    The narrow column is a small copy of the first wide one, as far as they vary ``together``.
    """
    facts = tdp.Schema(dict.fromkeys("abcy", tdp.Interval(-1, 1)), rows=2_000)
    line = LeastSquares(facts, [*"abc"], "y", epsilon=2, **options)
    truth, held, endless = np.array([20.0, 0.3, 0.0]), [], []
    for k in range(40):
        rng = np.random.default_rng([seed, k])
        rows = dict(zip("abc", rng.uniform(-1, 1, (3, 2_000)) * [[0.02], [1], [1]], strict=True))
        rows["a"] = together * 0.02 * rows["b"] + (1 - together) * rows["a"]
        rows["y"] = 20 * rows["a"] + 0.3 * rows["b"] + 0.1 * rng.standard_normal(2_000)
        low, high = line.fit(line.release(rows, rng=1000 * seed + k)).intervals(0.05)[1:].T
        held.append((low <= truth) & (truth <= high))
        endless.append(np.isinf(high - low))
    return np.mean(held, axis=0), np.mean(endless, axis=0)


@pytest.mark.parametrize(
    "options",
    [{}, {"method": "objective"}, {"stages": 2}, {"interval_share": 0.1}],
    ids=["moments", "objective", "two stages", "interval share"],
)
@pytest.mark.parametrize("together", [0.0, 0.7], ids=["alone", "a copy of a wide one"])
def test_a_slope_that_noise_hides_has_no_ends(together, options, seed, monkeypatch):
    """Intervals of a steep slope of a column in a fiftieth of its bounds held a half of them; and,
    where it varied with a wide column, those of that one next to none: nothing that is released
    tells the slope of the one from that of the other."""
    held, endless = held_by_a_narrow_column(options, seed, together)
    assert held.min() >= 0.93 - 2 * np.sqrt(0.93 * 0.07 / 40)
    assert endless[0] > 0.25
    monkeypatch.setattr(coefficient_intervals, "_along", no_direction)
    assert held_by_a_narrow_column(options, seed, together)[0].min() < held.min() - 0.1


def no_direction(u: np.ndarray, noise: np.ndarray, h: np.ndarray) -> np.ndarray:
    """The fault: noise hides no direction."""
    return np.zeros((len(noise), u.shape[1]))


def test_slopes_of_sixteen_columns_that_sum_nearly_to_nothing(seed):
    """Their sum has a steep slope; each has a quarter of its direction, and intervals of a second
    look held two thirds of the slopes."""
    line = tdp.LinearRegression(epsilon=2, bounds=[(-1, 1)] * 16 + [(-3, 3)], stages=2)
    held = []
    for k in range(10):
        rng = np.random.default_rng([seed, k])
        X = rng.uniform(-1, 1, (20_000, 16))
        X += 0.01 * rng.standard_normal((20_000, 1)) - X.mean(axis=1, keepdims=True)
        X = np.clip(X, -1, 1)
        y = 4 * X.sum(axis=1) + 0.1 * rng.standard_normal(20_000)
        low, high = line.set_params(random_state=1000 * seed + k).fit(X, y).conf_int().T
        held.append((low <= 4) & (high >= 4))
    assert np.mean(held) > 0.85


def two_columns(first: np.ndarray, second: np.ndarray, y: np.ndarray, seed: int) -> Any:
    bounds = [(-1, 1)] * 2 + [(-2.5, 2.5)]
    model = tdp.LinearRegression(epsilon=1, bounds=bounds, random_state=seed)
    return model.fit(np.column_stack([first, second]), y)


@pytest.mark.parametrize("assume", [None, "equal variance"])
def test_the_sum_of_columns_that_vary_together_is_known_once_they_are_told_apart(assume, seed):
    rng = np.random.default_rng(seed)
    first, own = rng.uniform(-1, 1, (2, 20_000))
    second = np.clip(first + 0.2 * own, -1, 1)
    model = two_columns(first, second, first + second + 0.2 * rng.standard_normal(20_000), seed)
    assert model.test("x0 + x1", assume=assume).p_value < 0.05
    assert model.test("x0 - x1", assume=assume).p_value > 0.05


@pytest.mark.parametrize("assume", [None, "equal variance"])
def test_nothing_is_said_of_columns_that_noise_does_not_tell_apart(assume, seed):
    """The second is the first on a scale that differs by less than the noise, and the little that
    it has of its own is steep. The sum of slopes is 2.7; it was said to be 2.0, and sure."""
    rng = np.random.default_rng(seed)
    first, own = rng.uniform(-1, 1, (2, 20_000))
    second = 0.9993 * first + 1e-4 * own
    slopes = np.array([2 - 999.3, 1000.0])
    y = slopes[0] * first + slopes[1] * second + 0.1 * rng.standard_normal(20_000)
    held = []
    for k in range(10):
        model = two_columns(first, second, y, 100 * seed + k)
        low, high = model.conf_int(assume=assume).T
        held.append((low <= slopes).all() and (slopes <= high).all())
        held.append(model.test("x0 + x1", null=slopes.sum(), assume=assume).p_value > 0.05)
    assert np.mean(held) > 0.8


def test_intervals_that_hold_at_once_are_no_shorter_than_each_by_itself(seed):
    """Of few rows: slopes have no ends, and the intercept in more of the draws than alpha, but not
    in twice as many."""
    line = tdp.LinearRegression(epsilon=1, bounds=[(-1, 1)] * 3 + [(-2, 2)], method="objective")
    endless = []
    for k in range(20):
        rng = np.random.default_rng([seed, k])
        X = rng.uniform(-1, 1, (300, 3)) * [0.05, 1, 1]
        y = 15 * X[:, 0] + 0.5 * X[:, 1] + 0.2 * rng.standard_normal(300)
        line.set_params(random_state=1000 * seed + k).fit(X, y)
        each = line.conf_int(intercept=True)
        together = line.conf_int(intercept=True, simultaneous=True)
        assert (together[:, 0] <= each[:, 0]).all()
        assert (together[:, 1] >= each[:, 1]).all()
        endless.append(np.isinf(each[0]).all())
    assert np.mean(endless) > 0.3


def test_errors_of_unequal_variance_are_covered_and_the_textbook_is_not_enough(seed):
    draw = line("normal", np.random.default_rng(seed), unequal=True)
    assert not short(*linear_errors(draw, LINE, 20_000, 20.0, 30, seed))
    errors, halves = linear_errors(draw, LINE, 20_000, 20.0, 60, seed, assume="equal variance")
    assert short(errors[:, 1], halves[:, 1])  # its column moves the variance


# --- logistic regression -------------------------------------------------------------------------


def logistic_errors(
    draw: Draw, truth: np.ndarray, rows: int, epsilon: float, tables: int, seed: int
) -> tuple[np.ndarray, np.ndarray, float]:
    """Errors and halves of the intervals that are known, and the share of tables with any."""
    errors, halves = [], []
    for i in range(tables):
        X, y = draw(rows)
        model = tdp.LogisticRegression(
            epsilon=epsilon, bounds=(-1, 1), classes=[0, 1], interval_share=0.25,
            random_state=1000 * seed + i,
        ).fit(X, y)  # fmt: skip
        bounds, _ = model.known_intervals(confidence=LEVEL)
        if bounds is not None:
            low, high = bounds.T
            errors.append((low + high) / 2 - truth)
            halves.append((high - low) / 2)
    return np.array(errors), np.array(halves), len(errors) / tables


MODERATE = np.array([1.0, -1.0, 0.5])


def test_logistic_intervals_hold_and_faults_are_seen(seed, monkeypatch):
    truth = np.append(0.0, MODERATE)
    draw = logit("even", np.random.default_rng(seed), MODERATE)
    errors, halves, known = logistic_errors(draw, truth, 10_000, 1.0, 20, seed)
    assert known == 1
    assert not short(errors, halves)
    # on tables of the model they hold without the room for others, and then faults are seen
    monkeypatch.setattr("tightdp.mechanisms.logistic_intervals._ROOM", 1.0)
    errors, halves, _ = logistic_errors(draw, truth, 10_000, 1.0, 40, seed)
    assert not short(errors, halves)
    assert short(errors, 0.5 * halves)
    noise = "tightdp.noise.knorm.KNormNoise.sample"
    monkeypatch.setattr(noise, lambda self, size, rng: np.zeros((size, self.dim)))
    errors, halves, _ = logistic_errors(draw, truth, 20_000, 0.1, 20, seed)
    assert short(errors, halves)


HARD = {
    "large coefficients": ("even", 8 * MODERATE, 0.0, 10_000, 1.0),
    "a small epsilon": ("even", MODERATE, 0.0, 2000, 0.25),
    "correlated": ("correlated .95", MODERATE, 0.0, 5000, 1.0),
    "skewed": ("skewed", 2 * MODERATE, 1.5, 2000, 1.0),
}


@pytest.mark.parametrize("case", HARD)
def test_logistic_intervals_hold_or_are_not_printed(case, seed):
    """They covered .00 to .86 here."""
    kind, slopes, level, rows, epsilon = HARD[case]
    draw = logit(kind, np.random.default_rng(seed), slopes, level)
    errors, halves, known = logistic_errors(draw, np.append(level, slopes), rows, epsilon, 12, seed)
    assert known == 0 or not short(errors, halves)


def even_rows_are_no_basis(model: Any) -> None:
    answer = model.mechanism_.answer(model.release_)
    assert set(answer.unknown) == set(answer.names)
    assert answer.to_dict()["low"] == [None] * len(answer.names)
    assert all(row[2] == "-" for row in answer.rows()[1:])
    assert set(model.release_.unknown) >= set(answer.names)
    assert "[" not in str(model.summary()).partition("No intervals")[0]


def test_no_face_prints_an_interval_that_was_not_paid_for(seed):
    """Plans printed intervals for rows that fill their bounds evenly: 0 of 30 held."""
    X, y = logit("skewed", np.random.default_rng(seed), 2 * MODERATE)(2000)
    model = tdp.LogisticRegression(bounds=(-1, 1), classes=[0, 1], random_state=1).fit(X, y)
    even_rows_are_no_basis(model)
    tuned = tdp.LogisticRegression(
        bounds=(-1, 1), classes=[0, 1], tune=[{"ridge": 1.0}], random_state=1
    ).fit(X, y)
    assert set(tuned.release_.unknown) == set(tuned.release_.names)


@pytest.mark.parametrize("options", [{"l1": 1.0}, {}], ids=["penalised", "drowned"])
def test_a_model_that_paid_for_intervals_in_vain_still_answers(options, seed):
    """With an l1 penalty a plan paid, and lost the answer to an error."""
    X, y = logit("skewed", np.random.default_rng(seed), 2 * MODERATE)(500)
    model = tdp.LogisticRegression(
        epsilon=0.5, bounds=(-1, 1), classes=[0, 1], interval_share=0.25, random_state=1, **options
    ).fit(X, y)
    even_rows_are_no_basis(model)
    with pytest.raises(TightdpError, match=r"plain model|not known to hold"):
        model.conf_int()


def test_plans_and_summaries_say_what_intervals_cover(seed):
    rng = np.random.default_rng(seed)
    X, y = line("normal", rng)(2000)
    model = tdp.LinearRegression(bounds=[(-1, 1)] * 5, random_state=1).fit(X, y)
    answer = model.mechanism_.answer(model.release_)
    low, high = np.asarray(answer.interval).T
    joint = model.conf_int(simultaneous=True, intercept=True)
    np.testing.assert_array_equal(np.column_stack([low, high]), joint)
    assert "population" in answer.about
    assert "population" in str(model.summary())
    X, y = logit("even", rng, MODERATE)(20_000)
    paid = tdp.LogisticRegression(
        bounds=(-1, 1), classes=[0, 1], interval_share=0.25, random_state=1
    ).fit(X, y)
    assert "population" in paid.mechanism_.answer(paid.release_).about
    assert "if the log odds are linear" in str(paid.summary())


# --- the long version, with real files where they lie ---------------------------------------------


def bank(rng: np.random.Generator, target: str) -> tuple[Draw, np.ndarray]:
    path = REAL / "uci" / "bank-full.csv"
    if not path.exists():
        pytest.skip("the bank file is not here")
    with path.open() as file:
        rows = list(csv.DictReader(file))
    ends = {"age": (18, 95), "balance": (-2000, 20_000), "duration": (0, 2000), "campaign": (0, 20)}
    cells = {}
    for name, (low, high) in ends.items():
        column = np.array([float(row[name]) for row in rows])
        cells[name] = np.clip((2 * column - low - high) / (high - low), -1, 1)
    if target == "y":
        y = np.array([r["y"] == "yes" for r in rows]).astype(int)
    else:
        y = cells.pop(target)
    X = np.column_stack([cells[k] for k in list(cells)[:3]])
    return from_file(X, y, rng), likeliest(X, y) if target == "y" else least_squares(X, y)


def housing(rng: np.random.Generator) -> tuple[Draw, np.ndarray]:
    path = REAL / "housing" / "seattle_sales.csv.gz"
    if not path.exists():
        pytest.skip("the sales are not here")
    with gzip.open(path, "rt") as file:
        rows = list(csv.DictReader(file))
    tops = {"tot_sf": 6000, "lot_sf": 20_000, "beds": 8, "sale_price": 2e6}
    cells = {
        k: np.clip(np.array([float(r[k] or 0) for r in rows]) / (top / 2) - 1, -1, 1)
        for k, top in tops.items()
    }
    y = cells.pop("sale_price")
    X = np.column_stack(list(cells.values()))
    return from_file(X, y, rng), least_squares(X, y)


def setting(name: str, seed: int) -> tuple[Draw, np.ndarray]:
    rng = np.random.default_rng(seed)
    if name == "housing":
        return housing(rng)
    if name.startswith("bank "):
        return bank(rng, name.removeprefix("bank "))
    if name == "unequal variance":
        return line("normal", rng, unequal=True), LINE
    return line(name, rng), LINE


LINEAR_SETTINGS = [
    "normal", "correlated .8", "correlated .95", "skewed", "unequal variance", "bank balance",
    "bank campaign", "housing",
]  # fmt: skip


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 8.0])
@pytest.mark.parametrize("rows", [1000, 20_000])
@pytest.mark.parametrize("name", LINEAR_SETTINGS)
def test_the_coverage_of_linear_intervals(name, rows, epsilon, seed):
    draw, truth = setting(name, seed)
    errors, halves = linear_errors(draw, truth, rows, epsilon, 400, seed)
    # 0.93 for every coefficient, three standard errors of 400 tables
    assert (np.abs(errors) <= halves).mean(axis=0).min() >= 0.93 - 3 * 0.0128
    errors, halves = linear_errors(draw, truth, rows, epsilon, 400, seed, simultaneous=True)
    assert (np.abs(errors) <= halves).all(axis=1).mean() >= 0.93 - 3 * 0.0128


LOGISTIC_SETTINGS = {
    "even": ("even", MODERATE, 0.0),
    "large": ("even", 8 * MODERATE, 0.0),
    "correlated .8": ("correlated .8", MODERATE, 0.0),
    "correlated .95": ("correlated .95", MODERATE, 0.0),
    "skewed": ("skewed", 2 * MODERATE, 1.5),
    "bank": None,
}


@pytest.mark.slow
@pytest.mark.parametrize("epsilon", [0.25, 1.0, 8.0])
@pytest.mark.parametrize("rows", [1000, 20_000])
@pytest.mark.parametrize("name", LOGISTIC_SETTINGS)
def test_the_coverage_of_logistic_intervals(name, rows, epsilon, seed):
    made, rng = LOGISTIC_SETTINGS[name], np.random.default_rng(seed)
    if made is None:
        draw, truth = bank(rng, "y")
    else:
        kind, slopes, level = made
        draw, truth = logit(kind, rng, slopes, level), np.append(level, slopes)
    errors, halves, known = logistic_errors(draw, truth, rows, epsilon, 200, seed)
    if known < 0.05:  # nothing is said, and nothing can be wrong
        return
    slack = 3 * np.sqrt(0.93 * 0.07 / len(errors))
    assert (np.abs(errors) <= halves).mean(axis=0).min() >= 0.93 - slack


# --- few rows that carry the errors --------------------------------------------------------------


def held_by_few_rows(seed: int, tables: int) -> float:
    """Slopes held where 3 % of 500 rows have all the leverage and all the error; no noise."""
    rng, rows, held = np.random.default_rng(seed), 500, 0
    for _ in range(tables):
        far = rng.random(rows) < 0.03
        x = np.where(far, 1.0, -0.03)
        y = np.where(far, rng.choice([-1.0, 1.0], rows), 0.0)
        z = np.column_stack([np.ones(rows), x, y])
        found = coefficient_intervals.candidates(
            z.T @ z / rows,
            lambda count: np.zeros((count, 3, 3)),
            rows,
            source(1),
            coefficient_intervals.Wanted(
                shift=None, ridge=np.zeros(1), origin=np.zeros(1), equal_variance=False
            ),
        )
        low, high = np.quantile(found.values[:, 1], [0.025, 0.975])
        held += low <= 0 <= high
    return held / tables


def test_few_rows_may_carry_the_errors(seed, monkeypatch):
    """Fifteen rows tell little of a variance: normal tails held 0.895 of the slopes."""
    tables = 300
    held = held_by_few_rows(seed, tables)
    assert held >= 0.93 - 2 * np.sqrt(0.93 * 0.07 / tables)
    monkeypatch.setattr(error_scales, "LEAST_FREEDOM", 1e6)  # the fault: normal tails
    assert held_by_few_rows(seed, tables) < held - 0.02


def test_long_tails_are_those_of_student():
    z = source(3).normal((400_000, 1, 1))
    other = source(4).normal((400_000, 1, 1))
    for freedom in (4, 10, 100):
        scales = error_scales.ErrorScales.even((1, 1), freedom)
        tails = scales.long_tails(other)
        assert np.quantile(z * tails, 0.975) == pytest.approx(t.ppf(0.975, freedom), rel=0.02)
