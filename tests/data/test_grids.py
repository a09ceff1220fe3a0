"""The grid of sums and counts: as fine as the schema says, exact on steps, stated in intervals."""

from __future__ import annotations

import pickle
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.class_moments import ClassMoments
from tightdp.data.column_moments import SumsAndRows, SumsAndSquares
from tightdp.data.histograms import Histogram
from tightdp.data.regression_moments import Moments, RegressionMoments
from tightdp.data.statistics import Products, Statistic, Sums
from tightdp.errors import ParameterError
from tightdp.schema import Interval, Schema

AGES = Interval(0, 100, step=1)
RATINGS = Interval(1, 5, step=1)
CENTS = Interval(-1, 2, step=0.01)


def table(rows: int, seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "age": rng.integers(0, 101, rows),
        "rating": rng.integers(1, 6, rows),
        "cents": rng.integers(-100, 201, rows) / 100,
        "k": rng.choice(["a", "b"], rows),
    }


def schema(rows: int, **columns: Interval) -> Schema:
    return Schema(columns | {"k": tdp.Category(["a", "b"])}, rows=rows)  # type: ignore[arg-type]


# --- steps --------------------------------------------------------------------------------------


def test_steps_are_read_exactly_and_row_by_row() -> None:
    rule = Interval(0, 1, step=0.1)
    cells = np.array([0.3, 0.30000000000000004, 0.349999, 0.35, -9, 9, np.nan, np.inf])
    np.testing.assert_array_equal(rule.clamp(cells), [0.3, 0.3, 0.3, 0.4, 0, 1, 0.5, 1])
    together = rule.quantize(cells, 16)
    np.testing.assert_array_equal(together, [rule.quantize(cells[[i]], 16)[0] for i in range(8)])
    assert rule.quantize(np.array([0.0, 0.5, 1.0]), 16).tolist() == [-65536, 0, 65536]
    assert Interval(0, 3, step=1).missing == 2  # 1.5, rounded half up as cells are
    assert Interval(0, 1, step=Fraction(1, 4)).steps == 4


def test_thirds_are_steps_as_others_are(tmp_path) -> None:  # type: ignore[no-untyped-def]
    """No decimal is a third, so the step stays the fraction that was stated."""
    rule = Interval(0, 4, step=Fraction(1, 3))
    assert (rule.steps, rule.step) == (12, Fraction(1, 3))
    thirds = np.arange(13) / 3
    np.testing.assert_array_equal(rule.clamp(thirds + 0.1), thirds)
    np.testing.assert_array_equal(rule.at_least(thirds[1:]), thirds[1:])
    np.testing.assert_array_equal(rule.at_least(thirds[1:] - 0.1), thirds[1:])
    facts = Schema({"x": rule}, rows=13)
    assert facts["x"].describe() == "[0 to 4] in steps of 1/3, missing -> 2"
    assert Schema.from_dict(facts.to_dict()) == facts == pickle.loads(pickle.dumps(facts))
    path = tmp_path / "schema.toml"
    path.write_text('rows = 13\n[columns.x]\nlow = 0\nhigh = 4\nstep = "1/3"\n')
    assert Schema.from_toml(path)["x"] == rule
    found = tdp.Histogram(facts, "x", 12).measure({"x": thirds})
    assert found == [1] * 11 + [2]  # no bin loses a value that doubles round
    sums = tdp.Sums(facts, ["x"])
    np.testing.assert_array_equal(sums.recover(sums.measure({"x": thirds})), [26.0])


@pytest.mark.parametrize(
    ("facts", "text"),
    [
        ((0, 10, None, ".", "", Fraction(3, 7)), "steps of 3/7: write high=12"),
        ((0, 1, None, ".", "", Fraction(1, 2**28 + 1)), "at most 2"),
        ((0, 10, None, ".", "", 3), "multiple of `step`.*high=12"),
        ((0, 10, None, ".", "", 0), "positive"),
        ((0, 10, None, ".", "", -1), "positive"),
        ((0, 10, 0.5, ".", "", 1), "`missing` must be 0 plus a multiple of `step`"),
        ((0, 1e9, None, ".", "", 1), "at most 2"),
        ((0, 10, None, ".", "", "1"), "real number"),
    ],
)
def test_steps_that_do_not_fit_are_refused(facts, text) -> None:  # type: ignore[no-untyped-def]
    with pytest.raises(ParameterError, match=text):
        Interval(*facts)


def test_a_schema_with_steps_is_the_same_after_a_journey(tmp_path) -> None:  # type: ignore[no-untyped-def]
    facts = Schema({"age": AGES, "pay": Interval(0, 10**6, step=1), "x": Interval(0, 1)}, rows=9)
    assert facts.bits == 20  # a million steps need them
    assert Schema.from_dict(facts.to_dict()) == facts == pickle.loads(pickle.dumps(facts))
    assert "step" not in facts.to_dict()["columns"]["x"]
    assert facts["age"].describe() == "[0 to 100] in steps of 1, missing -> 50"
    path = tmp_path / "schema.toml"
    path.write_text("rows = 9\n[columns.age]\nlow = 0\nhigh = 100\nstep = 1\n")
    assert Schema.from_toml(path)["age"] == AGES
    with pytest.raises(ParameterError, match="at least 20"):
        Schema({"pay": Interval(0, 10**6, step=1)}, rows=9, bits=16)


def exact_row(statistic: Statistic, row: dict[str, object]) -> list[Fraction]:
    """What a row adds to every entry, from the names alone, in rationals."""
    out = []
    for name in statistic.names:
        entry, _, label = name.partition("|")
        value = Fraction(int(not label or row["k"] == label))
        minus = entry.endswith("-1")
        entry = entry.removesuffix("-1")
        factor, _, rest = entry.partition("*") if entry[:1].isdigit() else ("1", "", entry)
        body = Fraction(int(factor))
        for part in rest.replace("*", ":").split(":"):
            column, _, level = part.removesuffix("^2").partition("[")
            if level:
                body *= int(row[column] == level[:-1])
            elif column not in ("rows", "count"):
                rule = statistic.schema[column]
                assert isinstance(rule, Interval)
                cell = Fraction(str(row[column]))
                low, high = Fraction(str(rule.low)), Fraction(str(rule.high))
                body *= ((2 * cell - low - high) / (high - low)) ** (2 if "^2" in part else 1)
        out.append(value * (body - minus))
    return out


STEPPED = {
    "sums": lambda n: Sums(schema(n, age=AGES, rating=RATINGS), ["age", "rating"]),
    "rows": lambda n: SumsAndRows(
        Schema({"cents": CENTS}, rows=n, neighbors="add-remove"), ["cents"]
    ),
    "squares": lambda n: SumsAndSquares(schema(n, age=AGES, cents=CENTS)),
    "products": lambda n: Products(
        schema(n, age=AGES, rating=RATINGS), ["age", "age:rating", "age:k", "k"]
    ),
    "moments": lambda n: Moments(schema(n, age=AGES, rating=RATINGS), ["rating"], "age"),
    "regression": lambda n: RegressionMoments(
        schema(n, age=AGES, cents=CENTS), ["age", "k"], "cents"
    ),
    "classes": lambda n: ClassMoments(schema(n, age=AGES, cents=CENTS), ["age", "cents"], "k"),
}


@pytest.mark.parametrize("name", STEPPED)
def test_columns_with_steps_are_summed_without_rounding(name: str, seed: int) -> None:
    statistic, frame = STEPPED[name](60), table(60, seed)
    bits = statistic.schema.bits
    rows = [{c: frame[c][i] for c in frame} for i in range(60)]
    exact = [sum(parts) for parts in zip(*(exact_row(statistic, r) for r in rows), strict=True)]
    unit = statistic.resolution(bits)
    assert [Fraction(z, unit) for z in statistic.measure(frame)] == exact
    assert not statistic.rounding(bits).any()


def test_a_column_without_a_step_beside_one_with_is_on_the_schemas_grid(seed: int) -> None:
    facts = Schema({"age": AGES, "x": Interval(0, 1)}, rows=40)
    statistic = SumsAndSquares(facts)
    frame = table(40, seed) | {"x": np.random.default_rng(seed).random(40)}
    unit = statistic.resolution(16)
    assert unit == (25 << 16) ** 2
    age, x = 2 * frame["age"] / 100 - 1, 2 * frame["x"] - 1
    true = np.array([age.sum(), 2 * (age**2).sum(), x.sum(), 2 * (x**2).sum()])
    off = np.abs(np.array(statistic.measure(frame)) / unit - true)
    assert (off <= statistic.rounding(16) + 1e-12).all()
    assert (statistic.rounding(16)[:2] == 0).all()
    assert off[2] > 0


def test_steps_with_no_common_grid_are_rounded_and_say_so() -> None:
    primes = [8191, 131071]
    facts = Schema({f"p{p}": Interval(0, p, step=1) for p in primes}, rows=100)
    statistic = SumsAndSquares(facts)
    assert statistic.resolution(facts.bits) == 1 << (2 * facts.bits)
    assert (statistic.rounding(facts.bits) > 0).all()
    one = SumsAndSquares(facts, ["p8191"])
    assert one.resolution(facts.bits) == 8191**2


# --- the grid of the schema ---------------------------------------------------------------------


@pytest.mark.parametrize("noise", ["best", "hull", "l1", "linf", "laplace", "staircase"])
def test_products_of_two_live_on_the_grid_of_the_schema(noise: str) -> None:
    """They lived on ten bits, whatever the schema said."""
    facts = Schema({"x": Interval(0, 100)}, rows=10**6)
    mechanism = tdp.AdditiveMechanism(SumsAndSquares(facts), noise=noise, epsilon=1)
    assert mechanism.bits == facts.bits == 16
    assert mechanism.resolution % (1 << 32) == 0


def test_regressions_live_on_the_grid_of_the_schema(seed: int) -> None:
    facts = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=200)
    rng = np.random.default_rng(seed)
    model = tdp.LinearRegression(epsilon=1, bounds=facts, random_state=seed)
    model.fit(rng.random((200, 1)), rng.random(200))
    assert model.release_.resolution == 1 << 32


def test_rounding_is_never_more_than_stated() -> None:
    """Rows that all round the same way: what is stated is reached to one part in a hundred."""
    facts = Schema({"x": Interval(0, 1), "y": Interval(0, 1)}, rows=500, bits=6)
    statistic = Products(facts, ["x", "y", "x:y"])
    step = 1 / 64
    scaled = np.full(500, 1 - 0.4999 * step)  # just above the middle of two points: rounded up
    frame = {"x": (scaled + 1) / 2, "y": (scaled + 1) / 2}
    off = np.array(statistic.measure(frame)) / statistic.resolution(6)
    off -= [scaled.sum(), scaled.sum(), (scaled**2).sum()]
    assert (np.abs(off) <= statistic.rounding(6)).all()
    assert (np.abs(off) >= 0.95 * statistic.rounding(6)).all()


def test_sixty_four_bits_hold_the_largest_sums() -> None:
    """A factor of four on sums of squares of 26 bits wrapped, as soon as they were used."""
    facts = Schema(
        {"x": Interval(0, 1), "k": tdp.Category(["a", "b", "c"]), "y": Interval(0, 1)},
        rows=2048,
        bits=26,
    )
    statistic = RegressionMoments(facts, ["x", "k"], "y")
    frame = {"x": np.ones(2048), "k": np.full(2048, "b"), "y": np.ones(2048)}
    found = dict(zip(statistic.names, statistic.measure(frame), strict=True))
    unit = statistic.resolution(26)
    assert found["4*x^2"] == 4 * 2048 * unit
    assert all(0 <= value <= 4 * 2048 * unit for value in found.values())


# --- histograms ---------------------------------------------------------------------------------


def test_narrow_bins_hold_what_they_say(seed: int) -> None:
    """Bins of one and a half grid points published 5,492 where there were 9,889."""
    rng = np.random.default_rng(seed)
    x = rng.exponential(10.0, 20_000)
    facts = Schema({"x": Interval(0, 1e6)}, rows=20_000)
    edges = [0, 10, 20, 30, 1e6]
    assert Histogram(facts, "x", edges).measure({"x": x}) == np.histogram(x, edges)[0].tolist()


def test_a_cell_on_an_edge_is_in_the_bin_that_begins_there() -> None:
    facts = Schema({"x": Interval(0, 1)}, rows=10)
    cells = np.arange(10) / 10
    assert Histogram(facts, "x", 10).measure({"x": cells}) == [1] * 10
    assert Histogram(facts, "x", 10).names[3] == "x[0.3, 0.4)"
    below = np.nextafter(cells[1:], 0)
    assert (
        Histogram(facts.ruled({"x": Interval(0, 1)}), "x", 10).measure({"x": np.append(below, 1.0)})
        == [1] * 10
    )


def test_steps_and_bins_agree() -> None:
    facts = Schema({"x": Interval(1, 5, step=1)}, rows=5)
    cells = {"x": np.array([1, 2, 3, 4, 5])}
    assert Histogram(facts, "x", [1, 2.4, 3, 5]).measure(cells) == [2, 0, 3]
    assert Histogram(facts, "x", [1, 2, 3, 4, 5]).measure(cells) == [1, 1, 1, 2]
    assert Histogram(facts, "x", 3).measure({"x": np.array([1.4, 2.4, 3, 4, 5])}) == [2, 1, 2]


def test_bins_travel_to_workers() -> None:
    statistic = Histogram(Schema({"x": Interval(0, 1, step=0.25)}, rows=5), "x", 3)
    again = pickle.loads(pickle.dumps(statistic.reading))
    cells = np.array([0, 0.3, 0.6, 1, np.nan])
    np.testing.assert_array_equal(
        again["x"].quantize(cells, 16), statistic.bins.quantize(cells, 16)
    )


@pytest.mark.parametrize(
    ("low", "high", "step"),
    [(1e9, 1e9 + 1e-6, 1e-7), (0, 1, Fraction(10**400)), (0, 1, Fraction(2**1020))],
)
def test_steps_that_doubles_cannot_hold_are_refused(low, high, step):
    """Eleven values fell on nine places; a step beyond all doubles was an error of Python's."""
    with pytest.raises(ParameterError, match=r"`(step|high)`"):
        tdp.Interval(low, high, step=step)


def test_steps_as_fine_as_doubles_are_kept_where_they_are_exact():
    assert tdp.Interval(2**52, 2**52 + 8, step=1).steps == 8
