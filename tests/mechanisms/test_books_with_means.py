"""Books with means and sums: private, as sure as they say, one payment and one pass."""

from __future__ import annotations

import itertools
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.class_moments import GroupMoments
from tightdp.errors import ParameterError, UncoveredMoveError
from tightdp.mechanisms.book_parts import BookParts, GroupPart
from tightdp.mechanisms.book_reading import ratio_ends
from tightdp.shaping.class_noise import BodyNoise

BOTH = ("replace-one", "add-remove")
REGIONS = ["north", "east", "south", "nobody"]
TABLES = [["region"], ["sex", "region"]]
MEANS = [(["pay", "hours"], ["region"])]
SUMS = [("pay", ["region", "sex"])]
BUDGETS = {"pure": {"epsilon": 1}, "delta": {"epsilon": 1, "delta": 1e-6}, "rho": {"rho": 0.1}}


def schema(neighbors: str = "replace-one", rows: int = 2000) -> tdp.Schema:
    columns = {
        "pay": tdp.Interval(0, 100),
        "region": tdp.Category(REGIONS, other="north"),
        "hours": tdp.Interval(10, 60),
        "sex": tdp.Category(["f", "m"], other="f"),
    }
    return tdp.Schema(columns, rows, neighbors=neighbors)


def people(rng: np.random.Generator, rows: int = 2000) -> dict[str, np.ndarray]:
    return {
        "pay": np.minimum(rng.gamma(1.2, 20, rows), 100),
        "region": rng.choice(REGIONS[:3], rows, p=[0.8, 0.195, 0.005]),
        "hours": rng.uniform(10, 60, rows),
        "sex": rng.choice(["f", "m"], rows),
    }


def truth(table: dict[str, np.ndarray]) -> dict[str, float]:
    """All entries, by hand; of an empty group the middle of the column."""
    region, sex = table["region"], table["sex"]
    out = {}
    for r in REGIONS:
        here = region == r
        out[f"region[{r}]"] = here.sum()
        for name, middle in (("pay", 50), ("hours", 35)):
            mean = table[name][here].mean() if here.any() else middle
            out[f"mean {name} | region[{r}]"] = mean
        for s in "fm":
            both = here & (sex == s)
            out[f"sex[{s}]:region[{r}]"] = out[f"region[{r}]:sex[{s}]"] = both.sum()
            out[f"sum pay | region[{r}]:sex[{s}]"] = table["pay"][both].sum()
    return out


def book(neighbors: str = "replace-one", *, tables=TABLES, **options) -> tdp.Tables:
    asked = {"means": MEANS, "sums": SUMS} | options
    return tdp.Tables(schema(neighbors), tables, **asked)


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("tables", [[], TABLES])
def test_without_noise_the_numbers_come_back(neighbors, tables, seed):
    table = people(np.random.default_rng(seed))
    release = book(neighbors, tables=tables, epsilon=1000).release(table, rng=seed)
    expected = truth(table)
    assert len(release.names) == 4 + 8 + 8 + 8
    for name, value in zip(release.names, release.value, strict=True):
        if "nobody" not in name:
            assert value == pytest.approx(expected[name], rel=0.01, abs=3), name
    means = release.table("region", "mean")
    assert means.axes[-1] == ("mean", ("pay", "hours"))
    sums = release.table("sum", "sex", "region")
    assert sums.axes[0][0] == "region"


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("budget", BUDGETS)
def test_one_entry_in_the_ledger_and_the_stated_price(neighbors, budget, seed):
    made = book(neighbors, **BUDGETS[budget])
    ledger = tdp.Ledger(9, 0.1, neighbors=neighbors)
    table = people(np.random.default_rng(seed))
    first = made.release(table, ledger=ledger, key="book")
    again = made.release(table, ledger=ledger, key="book", confidence=0.8)
    assert len(list(ledger.history())) == 1
    assert ledger.spent.epsilon == made.epsilon
    np.testing.assert_array_equal(first.value, again.value)
    widths = [np.ptp(of.interval, axis=1) for of in (again, first)]
    assert (widths[0] <= widths[1]).all()
    assert (widths[0] < widths[1]).any()
    np.testing.assert_allclose(made.answer(first, 0.8).interval, again.interval)
    if budget == "rho":
        assert made.cost.rho <= Fraction(1, 10)
        assert made.guarantee().rho == 0.1
    else:
        assert made.epsilon == 1


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("tables", [[], TABLES])
def test_intervals_cover(neighbors, budget, tables, seed):
    covered(neighbors, BUDGETS[budget], tables, seed, 50)


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("budget", BUDGETS)
@pytest.mark.parametrize("tables", [[], TABLES])
def test_intervals_cover_1000_tables(neighbors, budget, tables, seed):
    covered(neighbors, BUDGETS[budget], tables, seed, 1000)


def within(ends: np.ndarray, true: np.ndarray) -> np.ndarray:
    room = 1e-9 * (1 + np.abs(true))  # of the sums by hand
    return (ends[:, 0] - room <= true) & (true <= ends[:, 1] + room)


def covered(neighbors, budget, tables, seed, books):
    """Tables that differ, with skewed and empty groups; a group without rows has any mean."""
    made = book(neighbors, tables=tables, **budget)
    alone, together, short = [], [], []
    for i in range(books):
        table = people(np.random.default_rng([seed, i]))
        release, by_hand = made.release(table, rng=seed + i), truth(table)
        true = np.array([by_hand[name] for name in made.names])
        alone.append(within(release.alone, true))
        together.append(within(release.interval, true).all())
        middle, half = release.alone.mean(axis=1), np.ptp(release.alone, axis=1) / 2
        short.append(np.abs(true - middle) <= 0.5 * half)
    slack = 3.5 * np.sqrt(0.05 * 0.95 / books)
    assert np.mean(together) >= 0.95 - slack
    assert (np.mean(alone, axis=0) >= 0.95 - 1.3 * slack).all()
    assert np.mean(short, axis=0).min() < 0.95 - slack  # planted: half of an interval


@pytest.mark.slow_for("add-remove")
@pytest.mark.parametrize("neighbors", BOTH)
def test_errors_are_as_foreseen(neighbors, seed):
    """Of counts and sums; of means in groups of equal size they are at most that."""
    rows = 4000
    even = {
        "pay": np.full(rows, 100.0),  # a mean at its bound errs most
        "region": np.tile(REGIONS, rows // 4),
        "hours": np.full(rows, 60.0),
        "sex": np.repeat(["f", "m"], rows // 2),
    }
    made = tdp.Tables(schema(neighbors, rows), TABLES, means=MEANS, sums=SUMS, epsilon=1)
    drawn = np.array([made.release(even, rng=seed + i).value for i in range(600)])
    ratio = drawn.std(axis=0) / made.preview().std
    kinds = np.array([name.split(" ")[0] for name in made.names])
    assert np.abs(ratio[kinds != "mean"].mean() - 1) < 0.05
    assert ratio[kinds == "mean"].max() < 1.1


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize(
    "budget", [{"epsilon": 1}, {"rho": Fraction(1, 8), "delta": Fraction(1, 99)}]
)
@pytest.mark.parametrize("counted", [False, True])
def test_noise_of_sums_covers_all_neighbours(neighbors, budget, counted):
    """Every row of corners of a small schema against every other."""
    facts = tdp.Schema(
        {
            "x": tdp.Interval(0, 4),
            "y": tdp.Interval(-1, 1),
            "k": tdp.Category(["a", "b", "c"], other="a"),
        },
        rows=5,
        bits=2,
        neighbors=neighbors,
    )
    moments = GroupMoments(facts, ["x", "y"], "k", counted=counted)
    part = GroupPart(moments, **budget)
    assert part.certified == "exact"
    rows = list(itertools.product([0, 1, 2, 4], [-1, 0, 1], "abc"))
    points = np.array(
        [part.exact({n: [v] for n, v in zip("xyk", row, strict=True)}) for row in rows]
    )
    first, second = np.triu_indices(len(points), 1)
    moves = points[first] - points[second] if neighbors == "replace-one" else points
    blocks = moves.reshape(len(moves), 3, -1)
    if isinstance(part.drawn, BodyNoise):
        cost = np.abs(blocks).max(axis=2).sum(axis=1) * float(part.drawn.noise.rate)
        assert 0.999 < cost.max() <= 1 + 1e-12
    else:
        square = (moves.astype(float) ** 2).sum(axis=1)
        cost = square / (2 * part.drawn.coarsest)
        assert 0.999 / 8 < cost.max() <= 1 / 8
    assert part.drawn.covers(moves).all()
    assert not part.drawn.covers(2 * moves).all()


def test_a_wrong_order_of_cells_is_caught():
    """Planted: sums that are read into other cells than their names say."""
    facts = schema(rows=50)

    class Turned(GroupMoments):
        def contributions(self, block, bits):
            out = super().contributions(block, bits).reshape(len(self.groups), -1)
            return np.roll(out * np.arange(1, out.shape[1] + 1), 1, axis=1).ravel()

    with pytest.raises((UncoveredMoveError, ParameterError)):
        GroupPart(Turned(facts, ["pay", "hours"], "region", counted=True), epsilon=1)


def test_a_wrong_order_of_groups_is_caught(seed):
    """Planted: means that are read in the order of other sides."""
    table = people(np.random.default_rng(seed))
    made = tdp.Tables(schema(), [["sex", "region"]], sums=[("pay", ["region", "sex"])], epsilon=500)
    release = made.release(table, rng=seed)
    true = [
        table["pay"][(table["region"] == r) & (table["sex"] == s)].sum()
        for r in REGIONS
        for s in "fm"
    ]
    found = release.table("region", "sex", "sum").value
    np.testing.assert_allclose(found, true, atol=30)
    (numbers,) = made.numbers
    numbers.order = numbers.order[::-1]
    assert not np.allclose(made.read(made.source.release(table, rng=1)).value[-8:], true, atol=30)


def test_public_tables_and_means(seed):
    table = people(np.random.default_rng(seed))
    counts = [int((table["region"] == r).sum()) for r in REGIONS]
    sexes = [int((table["sex"] == s).sum()) for s in "fm"]
    alone = tdp.Tables(schema(), means=MEANS, public={"region": counts}, epsilon=1)
    assert alone.given == ""  # nothing is measured that needs them
    assert (alone.preview().std[:4] == 0).all()
    without = tdp.Tables(schema(), means=MEANS, epsilon=1)
    assert (alone.preview().std[4:] < without.preview().std[4:]).all()
    one = book(public={"region": counts}, epsilon=1)
    assert one.epsilon == 1
    assert "agree in the public table of region" in one.given
    two = book(public={"region": counts, "sex": sexes}, epsilon=1)
    assert two.epsilon == 1
    source = two.source
    assert isinstance(source, BookParts)
    assert source.times == 2
    assert sum(p.epsilon for p in source.parts[1:]) * 2 + source.parts[0].epsilon == 1
    release = two.release(table, rng=seed)
    np.testing.assert_allclose(release.table("region").value, counts)
    four = book(public={"region": counts, "sex": sexes}, rho=0.1)
    rhos = [part.cost.rho for part in four.source.parts]
    assert rhos[0] + 4 * sum(rhos[1:]) <= Fraction(1, 10)


def test_the_split_is_the_best_of_its_kind():
    """The predicted total is what the noise has, and other shares have more."""
    made = book(epsilon=1, sums=None)
    own = made.compare()
    assert own.ratio("Laplace on every cell and sum") > 3
    alone = tdp.Tables(schema(), means=[("pay", ["region"])], epsilon=1)
    assert alone.counts.counted  # one table: counts are measured with the sums
    many = tdp.Tables(schema(), [["sex", ("hours", 10)]], means=[("pay", ["region"])], epsilon=1)
    assert many.book is not None
    before = [float(part.epsilon) for part in many.source.parts]
    heavy = tdp.Tables(
        schema(), [["sex", ("hours", 10)]], means=[("pay", ["region"])], epsilon=1, weights=[1, 100]
    )
    after = [float(part.epsilon) for part in heavy.source.parts]
    assert after[-1] > before[-1]


def test_targets_shift_the_noise():
    even = book(targets=[4, 4, 1, 200], epsilon=1).preview().std
    mean = book(targets=[4, 4, 0.05, 200], epsilon=1).preview().std
    assert mean[12:20].max() < even[12:20].max()


def test_rows_are_read_once(seed):
    """A stream can be read no second time."""
    pyarrow = pytest.importorskip("pyarrow")
    stream = pyarrow.table(people(np.random.default_rng(seed))).to_reader()
    assert len(book(epsilon=1).release(stream, rng=1).names) == 28


@pytest.mark.slow_for("options16-*")  # labels of a million bins
@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"means": "pay"}, "a list of pairs"),
        ({"means": [("pay",)]}, "a list of pairs"),
        ({"means": ["pay"]}, "a list of pairs"),
        ({"means": [(3, ["region"])]}, "a list of pairs"),
        ({"means": [("pay", [])]}, "divide the rows"),
        ({"means": [("pay", 3)]}, "divide the rows"),
        ({"means": [("planet", ["region"])]}, "planet"),
        ({"means": [("sex", ["region"])]}, "sex"),
        ({"means": [("pay", ["planet"])]}, "planet"),
        ({"means": [("pay", ["hours"])]}, "'hours' is a number"),
        ({"means": [("pay", [("pay", 3)])]}, "must not divide|distinct"),
        ({"means": [("pay", ["region"]), ("hours", ["region"])]}, "once"),
        ({"means": [([], ["region"])]}, "at least one column"),
        ({"weights": [1, 2]}, "one for each table"),
        ({"targets": [1, 2]}, "one for each table"),
        ({"noise": "gaussian"}, "`delta` > 0"),
        ({"means": [("pay", [("hours", 10**6)])]}, "`means` .* at most 1048576 entries"),
    ],
)
def test_bad_input_is_one_error(options, words):
    with pytest.raises(ParameterError, match=words):
        book(epsilon=1, **options)


def test_a_column_by_the_name_of_what_is_asked():
    two = tdp.Category(["x", "y"], other="x")
    facts = tdp.Schema({"mean": two, "pay": tdp.Interval(0, 1)}, rows=10)
    with pytest.raises(ParameterError, match="rename the column"):
        tdp.Tables(facts, means=[("pay", ["mean"])], epsilon=1)
    tdp.Tables(facts, sums=[("pay", ["mean"])], epsilon=1)


def test_ratios_reach_over_the_box(seed):
    rng = np.random.default_rng(seed)
    for _ in range(200):
        rows = np.sort(rng.integers(0, 30, 2)).astype(float)
        total, half = rng.uniform(-20, 20), rng.uniform(0, 10)
        low, high = ratio_ends(np.array([[total]]), np.array([half]), rows[None])
        for n in np.arange(max(1, rows[0]), rows[1] + 1):
            s = np.clip(np.linspace(total - half, total + half, 9), -n, n)
            true = s[(s >= total - half) & (s <= total + half)] / n
            assert (low - 1e-12 <= true).all()
            assert (true <= high + 1e-12).all()


def test_intervals_of_counts_are_possible(seed):
    """However a count is asked for; where noise takes it beyond what can be, they end there."""
    table, facts = people(np.random.default_rng(seed), 30), schema(rows=30)
    few = {"schema": facts, "epsilon": 0.2, "rng": seed}
    for release in (
        tdp.count(table, ["sex"], **few),
        tdp.count(table, by=["region"], **few),
        tdp.histogram(table, "pay", bins=3, **few),
        tdp.sum(table, ["pay"], by="sex", **few).to_pandas().iloc[::2],
        tdp.Tables(facts, TABLES, epsilon=0.2).release(table, rng=seed),
    ):
        framed = not hasattr(release, "interval")
        ends = release[["low", "high"]].values if framed else release.interval
        value = release["value"].values if framed else release.value
        assert (ends[:, 0] >= np.minimum(value, 0)).all()
        assert (ends[:, 1] <= np.maximum(value, 30)).all()
        assert (ends[:, 0] <= value).all()
        assert (value <= ends[:, 1]).all()


@pytest.mark.parametrize("noise", ["best", "cube"])
def test_counts_and_sums_are_of_the_same_rows_of_a_person(noise, seed):
    """Everybody has a row in both groups, of which one is used: a mean of equal pays is that pay.

    Parts that chose among the rows by their own columns would count other rows than they sum.
    """
    columns = {
        "pay": tdp.Interval(0, 8),
        "sex": tdp.Category(["f", "m"], other="f"),
        "k": tdp.Category(["a", "b"], other="a"),
    }
    persons = 20_000
    facts = tdp.Schema(columns, 2 * persons, neighbors="add-remove", person="id")
    table = {
        "id": np.repeat(np.arange(persons), 2),
        "pay": np.full(2 * persons, 7.0),
        "sex": ["f", "m"] * persons,
        "k": ["a", "b", "b", "a"] * (persons // 2),
    }
    book = tdp.Tables(facts, ["k"], means=[("pay", "sex")], noise=noise, epsilon=1)
    assert len(book.source.parts) == 2
    exact = book.at(1000)
    for made, error in ((exact, 1e-4), (book, 0.02)):
        means = made.release(table, rng=seed).value[-2:]
        np.testing.assert_allclose(means, 7, atol=error)


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"rho": 0.5}], ids=["pure", "rho"])
def test_where_all_counts_are_public_sums_have_the_whole_budget(budget):
    """They are private for all neighbours, so that nothing is spent on tables that agree."""
    public = {"region": [500] * 4, "sex": [1000, 1000]}
    book = tdp.Tables(schema(), ["sex"], means=MEANS, public=public, **budget)
    assert book.book is None
    assert not book.given
    spent = book.cost.epsilon if "epsilon" in budget else book.cost.rho
    assert [float(spent)] == [*budget.values()]


def test_promises_are_alike_in_any_order_and_no_others_are():
    def given(facts, public):
        return tdp.Tables(facts, [[*facts]], public=public, epsilon=1).given

    two = tdp.Category(["x", "y"], other="x")
    names = ["a", "b", "a, b", "c"]
    facts, turned = (tdp.Schema(dict.fromkeys(some, two), 4) for some in (names, names[::-1]))
    public = {"a": [2, 2], "b": [2, 2]}
    assert given(facts, public) == given(turned, dict(reversed(public.items())))
    assert given(facts, {("a", "b"): [[1, 1], [1, 1]]}) != given(facts, {"a, b": [2, 2]})
