"""Statistics by group: what they say, how sure they are, and that groups cost nothing more."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.class_moments import GroupMoments
from tightdp.data.histograms import group_cells
from tightdp.errors import InfeasibleSamplingError, ParameterError, UncoveredMoveError
from tightdp.mechanisms.counts import ClassMechanism
from tightdp.mechanisms.group_quantiles import GroupQuantiles
from tightdp.mechanisms.groups import GroupMeans, GroupSums, GroupVariances
from tightdp.mechanisms.quantiles import KNormQuantile
from tightdp.mechanisms.ranks import Ranks
from tightdp.shaping.class_noise import BodyNoise
from tightdp.shaping.reach import box_sizes, gamma_reach

BOTH = ("replace-one", "add-remove")
REGIONS = ["north", "east", "south", "nobody"]


def schema(neighbors: str = "replace-one", rows: int = 2000, **facts) -> tdp.Schema:
    columns = {
        "pay": tdp.Interval(0, 200),
        "age": tdp.Interval(18, 90),
        "sex": tdp.Category(["f", "m"], other="f"),
        "region": tdp.Category(REGIONS, other="north"),
    }
    return tdp.Schema(columns, rows, neighbors=neighbors, **facts)


def skewed(rng: np.random.Generator, rows: int = 2000) -> dict[str, np.ndarray]:
    """Incomes with a long tail, three regions of very different size, and one without anybody."""
    region = rng.choice(REGIONS[:3], rows, p=[0.8, 0.19, 0.01])
    return {
        "pay": np.minimum(rng.gamma(1.5, 15, rows) * (1 + (region == "east")), 200),
        "age": rng.integers(18, 91, rows).astype(float),
        "sex": rng.choice(["f", "m"], rows),
        "region": region,
    }


def of_groups(table, function) -> dict[str, float]:
    """The exact number of every group that has rows."""
    found = {}
    for sex, region in itertools.product("fm", REGIONS):
        inside = (table["sex"] == sex) & (table["region"] == region)
        if inside.any():
            found[f"sex={sex}, region={region}"] = function(table["pay"][inside])
    return found


# --- what comes out -------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize(
    ("kind", "exact", "near"),
    [(GroupSums, np.sum, 10.0), (GroupMeans, np.mean, 1.0), (GroupVariances, np.var, 40.0)],
)
def test_without_noise_they_are_the_numbers_of_the_groups(kind, exact, near, neighbors, seed):
    table = skewed(np.random.default_rng(seed))
    release = kind(schema(neighbors), ["pay"], ["sex", "region"], epsilon=1000).release(table)
    for group, wanted in of_groups(table, exact).items():
        assert release[f"pay | {group}"] == pytest.approx(wanted, abs=near)
    for group, rows in of_groups(table, len).items():
        assert release[f"rows | {group}"] == pytest.approx(rows, abs=0.1)
    assert abs(release["rows | sex=f, region=nobody"]) < 0.1


@pytest.mark.parametrize("neighbors", BOTH)
def test_quantiles_of_groups_are_those_of_their_rows(neighbors, seed):
    table = skewed(np.random.default_rng(seed))
    facts = schema(neighbors)
    one = GroupQuantiles(facts, "pay", [0.5], ["sex", "region"], epsilon=1000).release(table)
    several = GroupQuantiles(facts, "pay", [0.25, 0.5], ["sex", "region"], epsilon=1000)
    for group, wanted in of_groups(table, lambda x: np.quantile(x, 0.5)).items():
        inside = of_groups(table, np.sort)[group]
        gap = np.diff(inside).max(initial=0) + 0.01
        assert one[f"pay[0.5] | {group}"] == pytest.approx(wanted, abs=gap)
        assert several.release(table)[f"pay[0.5] | {group}"] == pytest.approx(wanted, abs=gap)


def test_bins_of_numbers_are_groups(seed):
    table = skewed(np.random.default_rng(seed))
    by = [("age", [18, 30, 65, 90]), "sex"]
    release = tdp.mean(table, ["pay"], by=by, schema=schema(), epsilon=1000)
    young = (table["age"] < 30) & (table["sex"] == "m")
    assert release["pay | age=[18, 30), sex=m"] == pytest.approx(
        table["pay"][young].mean(), abs=0.1
    )
    assert release.axes[0] == ("age", ("[18, 30)", "[30, 65)", "[65, 90]"))


def test_one_line_functions_take_groups(seed):
    table, given = skewed(np.random.default_rng(seed)), {"schema": schema(), "epsilon": 1000}
    counts = tdp.count(table, by=["sex", "region"], **given)
    assert counts.value.tolist() == [
        np.sum((table["sex"] == s) & (table["region"] == r))
        for s, r in itertools.product("fm", REGIONS)
    ]
    assert tdp.count(table, ["region"], by="sex", **given).value.tolist() == counts.value.tolist()
    cells = tdp.histogram(table, "age", bins=[18, 40, 90], by="sex", **given)
    assert cells.names[0] == "sex[f]:age[18, 40)"
    assert len(tdp.sum(table, by="sex", **given).names) == 2 * 3  # rows, pay, age
    assert len(tdp.variance(table, ["pay"], by="sex", **given).names) == 4
    assert tdp.median(table, "pay", by="sex", **given).names[0] == "pay[0.5] | sex=f"
    assert tdp.quantile(table, "pay", 0.9, by="sex", **given).axes == (("sex", ("f", "m")),)
    assert len(tdp.quantiles(table, "pay", [0.1, 0.9], by="sex", **given).names) == 4


def test_the_printed_table_is_a_cross_table():
    release = tdp.count(
        {"sex": ["f", "m"] * 20, "region": ["north", "east"] * 20},
        by=["sex", "region"],
        schema=schema(rows=40).only(["sex", "region"]),
        epsilon=1,
    )
    head, _, first, *_ = str(release).splitlines()
    assert head.split() == ["sex", *(f"region={r}" for r in REGIONS)]
    assert first.startswith("f ")
    frame = release.to_pandas()
    assert frame.index.names == ["sex", "region"]
    assert frame.loc[("f", "north"), "value"] == release["sex[f]:region[north]"]
    assert release.to_polars().columns == ["sex", "region", "value", "noise_std", "low", "high"]
    again = tdp.Release.from_json(release.to_json())
    assert str(again) == str(release)


def test_sums_and_means_of_one_payment_share_it():
    table, ledger = skewed(np.random.default_rng(1)), tdp.Ledger(1)
    given = {"ledger": ledger, "key": "pay by sex"}
    means = GroupMeans(schema(), ["pay"], "sex", epsilon=1).release(table, **given)
    sums = GroupSums(schema(), ["pay"], "sex", epsilon=1).release(table, **given)
    assert means.integers == sums.integers
    assert ledger.spent.epsilon == 1


# --- privacy --------------------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("squares", [False, True])
def test_every_move_of_a_row_is_within_its_level(neighbors, squares):
    """All rows at the ends and in the middle of their bounds, in all groups."""
    facts = tdp.Schema(
        {
            "x": tdp.Interval(-1, 1),
            "y": tdp.Interval(0, 4),
            "k": tdp.Category(["a", "b"], other="a"),
            "z": tdp.Interval(0, 1),
        },
        9,
        neighbors=neighbors,
        bits=4,
    )
    moments = GroupMoments(facts, ["x", "y"], ["k", ("z", 2)], squares=squares)
    noise = BodyNoise(moments, tdp.AdditiveMechanism(moments, noise="l1", epsilon=1).epsilon)
    corners = itertools.product([-1, 0, 1], [0, 1, 4], "ab", [0.1, 0.9])
    rows = [
        np.array(moments.measure({n: [c] for n, c in zip("xykz", row, strict=True)}))
        for row in corners
    ]
    moves = rows if neighbors == "add-remove" else [a - b for a in rows for b in rows]
    levels = noise._levels(np.array(moves))
    assert max(levels) == noise.noise.sensitivity  # none beyond, and the bound is met


def test_noise_for_another_order_of_groups_does_not_pass():
    """Entries by column instead of by group: a body of one group no longer covers a row."""

    class Turned(GroupMoments):
        def contributions(self, block, bits):
            by_group = super().contributions(block, bits)
            return by_group.reshape(len(self.groups), -1).T.ravel()

    turned = Turned(schema().only(["pay", "region"]), ["pay"], "region")
    with pytest.raises(UncoveredMoveError):
        ClassMechanism(turned, noise="hull", epsilon=1)


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("tau", [0.5, 0.8])
def test_quantiles_of_groups_are_private_for_every_neighbour(neighbors, tau):
    """The exact laws of all groups together, for all rows that one can become."""
    facts = tdp.Schema(
        {"x": tdp.Interval(-1, 1), "k": tdp.Category(["a", "b"], other="a")},
        6,
        neighbors=neighbors,
        bits=2,
    )
    mechanism = GroupQuantiles(facts, "x", [tau], "k", epsilon=1)
    one, grid = mechanism.one, np.arange(-4, 5)
    assert isinstance(one, KNormQuantile)

    def logs(rows):
        found = []
        for group in "ab":
            cells = np.array([cell for cell, k in rows if k == group], dtype=np.int64)
            law = one.law_on(Ranks(*np.unique(cells, return_counts=True), 4))
            there = law.lengths > 0
            points = (law.probabilities()[there] / law.lengths[there]).repeat(law.lengths[there])
            assert len(points) == len(grid)
            found.append(np.log(points))
        return np.add.outer(*found)

    table = [(-4, "a"), (0, "a"), (1, "a"), (3, "b"), (3, "b"), (-2, "b")]
    base, worst = logs(table), 0.0
    for cell, group in itertools.product(grid, "ab"):
        if neighbors == "replace-one":
            others = [[*table[:i], (cell, group), *table[i + 1 :]] for i in range(len(table))]
        else:
            others = [[*table, (cell, group)], *([*table[:i], *table[i + 1 :]] for i in range(6))]
        worst = max(worst, *(np.abs(logs(other) - base).max() for other in others))
    assert worst <= 1 + 1e-12
    assert worst > 0.5  # and the budget is used


# --- intervals ------------------------------------------------------------------------------------


@pytest.mark.parametrize("rank", [1, 2, 4])
def test_the_reach_of_forms_of_box_noise(rank, seed):
    forms = np.zeros((3 if rank > 1 else 1, rank))
    forms[0, 0] = 2.0
    if rank > 1:
        forms[1, :2], forms[2, :2] = (1.0, -1.0), (0.3, 5.0)
    found = gamma_reach(box_sizes(forms, rank), rank, 0.5, 0.01)
    rng = np.random.default_rng(seed)
    radius = rng.gamma(rank + 1, 2.0, 400_000)
    draws = np.abs((rng.uniform(-1, 1, (400_000, rank)) * radius[:, None]) @ forms.T)
    missed = (draws > found).mean(axis=0)
    assert (missed < 0.0107).all()
    assert (missed > 0.0085).all()


def test_ends_of_means_span_all_that_noise_leaves(seed):
    """Every mean on a fine grid, with the larger reach of the two places around it."""
    means = GroupMeans(schema(), ["pay"], "region", epsilon=1)
    reach = means._ratio_reach(1, 0.95, 2)
    np.testing.assert_allclose(reach, reach[::-1])
    assert (np.diff(reach[16:]) >= 0).all()
    around = np.maximum(reach[:-1], reach[1:])
    rng, every = np.random.default_rng(seed), np.linspace(-1, 1, 16 * 125 * 2 + 1)
    at = (every + 1) * 16
    beside = [np.clip(np.floor(at + off).astype(int), 0, 31) for off in (-1e-9, 1e-9)]
    within = np.minimum(*(around[place] for place in beside))
    rows, sums = rng.uniform(-10, 100, 300), rng.uniform(-60, 60, 300)
    sums[:9], rows[:9] = 200.0, 50.0  # more than any mean and its noise could make
    ends = means._ratio_ends(sums, rows, reach)
    assert (ends[:9] == 1).all()
    for total, count, (low, high) in list(zip(sums, rows, ends, strict=True))[9:]:
        left = every[np.abs(total - every * count) <= within]
        if count <= 0:
            assert (low, high) == (-1, 1)
        elif left.size:
            assert low - 1e-9 <= left.min() <= left.max() <= high + 1e-9
            for end in (low, high):  # which noise leaves, too
                far = reach[16 + min(16, math.floor(abs(end) * 16 + 1e-9) + 1)]
                assert abs(total - end * count) <= far + 1e-9
    assert np.ptp(ends, axis=1).max() == 2  # groups that may be empty


@pytest.mark.parametrize("neighbors", BOTH)
def test_ends_of_mean_squares_know_that_noises_are_correlated(neighbors):
    """Noise of a count and of a sum of squares reaches further together than one less the other."""
    spread = GroupVariances(schema(neighbors), ["pay"], "region", epsilon=1)
    levels = np.array([-0.9, -0.5, -0.25, 0.25, 0.5, 0.9])
    forms = np.column_stack([-levels, 0 * levels, 0 * levels + 1])
    own = spread._reach(forms, 0.95, 3)
    assert (own[:3] > 1.02 * own[:2:-1]).all()
    reach, rows = spread._ratio_reach(2, 0.95, 3), np.full(len(levels), 1000.0)
    for sign in (-1, 1):  # as far from the true one as noise may be
        ends = spread._ratio_ends(levels * rows + sign * 0.999 * own, rows, reach)
        assert (ends[:, 0] <= levels).all()
        assert (levels <= ends[:, 1]).all()


def coverage(mechanism, tables, exact) -> float:
    """The share of releases all of whose intervals hold, of groups that have rows."""
    held = 0
    for table in tables:
        release = mechanism.release(table)
        ends = dict(zip(release.names, release.interval, strict=True))
        wanted = {f"pay | {group}": value for group, value in of_groups(table, exact).items()}
        wanted |= {f"rows | {group}": n for group, n in of_groups(table, len).items()}
        held += all(
            ends[name][0] - 1e-9 <= value <= ends[name][1] + 1e-9
            for name, value in wanted.items()
            if name in ends
        )
    return held / len(tables)


CASES = {
    "sums": (
        lambda facts, e: GroupSums(facts, ["pay", "age"], ["sex", "region"], epsilon=e),
        np.sum,
    ),
    "means": (
        lambda facts, e: GroupMeans(facts, ["pay", "age"], ["sex", "region"], epsilon=e),
        np.mean,
    ),
    "variances": (
        lambda facts, e: GroupVariances(facts, ["pay"], ["sex", "region"], epsilon=e),
        np.var,
    ),
    "medians": (
        lambda facts, e: GroupQuantiles(
            facts, "pay", [0.5], ["sex", "region"], epsilon=e, interval="sample"
        ),
        lambda x: np.sort(x)[math.ceil(len(x) / 2) - 1],
    ),
    "laplace": (
        lambda facts, e: GroupMeans(facts, ["pay"], ["sex", "region"], epsilon=e, noise="laplace"),
        np.mean,
    ),
}


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("epsilon", [0.1, 2])
@pytest.mark.parametrize("name", CASES)
def test_intervals_hold_in_all_groups_at_once(name, epsilon, neighbors, seed):
    make, exact = CASES[name]
    rng = np.random.default_rng(seed)
    tables = [skewed(rng) for _ in range(100)]
    # of 100 at least 89 hold, with a chance of 99 % if 95 % do
    assert coverage(make(schema(neighbors), epsilon), tables, exact) >= 0.89


LONG = CASES | {
    "ninth deciles": (
        lambda facts, e: GroupQuantiles(
            facts, "pay", [0.9], ["sex", "region"], epsilon=e, interval="sample"
        ),
        lambda x: np.sort(x)[math.ceil(len(x) * Fraction(9, 10)) - 1],
    )
}


@pytest.mark.slow
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("epsilon", [0.05, 0.5, 5])
@pytest.mark.parametrize("name", LONG)
def test_intervals_hold_at_length(name, epsilon, neighbors, seed):
    make, exact = LONG[name]
    rng = np.random.default_rng(seed)
    tables = [skewed(rng, 500) for _ in range(1000)]
    assert coverage(make(schema(neighbors, 500), epsilon), tables, exact) >= 0.93


def test_a_group_that_may_be_empty_has_no_mean(seed):
    table = skewed(np.random.default_rng(seed))
    release = GroupMeans(schema(), ["pay"], "region", epsilon=1).release(table)
    ends = dict(zip(release.names, release.interval, strict=True))
    low, high = ends["pay | region=nobody"]
    assert high - low > 100  # most of the range, or all of it
    low, high = ends["pay | region=north"]
    assert high - low < 10


@pytest.mark.parametrize("kind", [GroupSums, GroupMeans, GroupVariances])
def test_previews_are_the_errors_of_groups_of_equal_size(kind, seed):
    rows = 4000
    rng = np.random.default_rng(seed)
    table = {
        "pay": np.full(rows, 200.0) if kind is GroupMeans else rng.choice([0.0, 200.0], rows),
        "sex": np.array(["f", "m"] * (rows // 2)),
    }
    mechanism = kind(schema(rows=rows).only(["pay", "sex"]), ["pay"], "sex", epsilon=1)
    said = mechanism.preview()
    draws = np.array([mechanism.release(table).value for _ in range(300)])
    if kind is GroupSums:
        assert draws.std(axis=0) == pytest.approx(said.std, rel=0.2)
    assert (draws.std(axis=0) <= 1.2 * said.std).all()
    assert (np.abs(draws - draws.mean(axis=0)) <= said.half_width).all(axis=1).mean() > 0.9


# --- noise and cost -------------------------------------------------------------------------------


def test_many_groups_and_columns_have_a_third_of_the_variance_of_laplace():
    columns = {f"x{i}": tdp.Interval(-1, 1) for i in range(5)}
    groups = tdp.Category(list(range(100)), other=0)
    facts = tdp.Schema({**columns, "g": groups}, 10_000, neighbors="add-remove")
    hull, laplace = (
        GroupSums(facts, list(columns), "g", epsilon=1, noise=noise).preview().std
        for noise in ("best", "laplace")
    )
    assert (hull**2).sum() <= (laplace**2).sum() / 3


@pytest.mark.parametrize(("neighbors", "moved"), [("replace-one", 2), ("add-remove", 1)])
def test_thousands_of_cells_have_the_noise_of_a_few(neighbors, moved):
    """A row moves two cells, or one, however many there are: all are known in closed form."""
    space = tdp.SensitivitySpace.histogram(4000, neighbors=neighbors)
    for p in (1, 2, np.inf):
        assert space.sensitivity(p=p) == pytest.approx(moved ** (1 / p))


@pytest.mark.slow
def test_four_thousand_cells_are_released():
    levels = tdp.Category(list(range(64)), other=0)
    facts = tdp.Schema({"g": levels, "h": levels}, 9000)
    cells = group_cells(facts, ["g", "h"])
    assert tdp.AdditiveMechanism(cells, noise="best", epsilon=1).preview().std.max() < 3
    with pytest.raises(InfeasibleSamplingError, match="best"):
        tdp.AdditiveMechanism(cells, noise="linf", epsilon=1)


def test_many_levels_in_many_groups_are_refused_before_payment():
    """A cap bounds the work of one group; that of all of them is bounded, too."""
    levels = [i / 100 for i in range(1, 100)]
    columns = {"x": tdp.Interval(0, 1), "g": tdp.Category(list(range(1000)), other=0)}
    facts = tdp.Schema(columns, 10**7)
    with pytest.raises(ParameterError, match="Got 99000: take fewer groups, or fewer levels"):
        GroupQuantiles(facts, "x", levels, "g", epsilon=1)
    few = facts.ruled({**columns, "g": tdp.Category(list(range(80)), other=0)})
    with pytest.raises(InfeasibleSamplingError, match="taus"):
        GroupQuantiles(few, "x", levels, "g", epsilon=1)
    assert len(GroupQuantiles(few, "x", levels[9::10], "g", epsilon=1).names) == 720
    many = facts.ruled({**columns, "g": tdp.Category(list(range(3000)), other=0)})
    with pytest.raises(ParameterError, match="Got 9000"):  # a median and the ends of its interval
        GroupQuantiles(many, "x", [0.5], "g", epsilon=1, interval="sample")


def test_no_quantiles_are_not_the_median():
    with pytest.raises(ParameterError, match="taus"):
        tdp.quantiles({}, "pay", [], by="sex", schema=schema(), epsilon=1)


def test_persons_with_several_rows_cost_as_many_times(seed):
    facts = schema(person="who", rows_per_person=3, neighbors="add-remove")
    one = GroupSums(schema("add-remove"), ["pay"], "sex", epsilon=1).preview().std
    several = GroupSums(facts, ["pay"], "sex", epsilon=1).preview().std
    assert several == pytest.approx(3 * one, rel=1e-3)
    table = skewed(np.random.default_rng(seed)) | {"who": np.repeat(np.arange(400), 5)}
    release = GroupMeans(facts, ["pay"], "sex", epsilon=1000).release(table)
    assert release["rows | sex=f"] + release["rows | sex=m"] == pytest.approx(1200, abs=0.1)
    medians = GroupQuantiles(facts, "pay", [0.5], "sex", epsilon=10).release(table)
    assert len(medians.names) == 2


# --- a hundred thousand groups --------------------------------------------------------------------


@pytest.mark.parametrize("kind", [GroupSums, GroupMeans])
def test_many_groups_are_released_with_the_errors_of_few(kind):
    """Of many entries the variances alone are known, and they are those of the matrix of few."""
    released = {}
    for groups in (3, 20_000):
        facts = {"pay": tdp.Interval(0, 100), "g": tdp.Category(range(groups), other=0)}
        sums = kind(tdp.Schema(facts, rows=10**6), "pay", "g", epsilon=1)
        table = {"pay": np.full(10**6, 40.0), "g": np.repeat([0, 1, 2], [10**6 - 20, 10, 10])}
        released[groups] = sums.release(table, rng=7), sums.preview().std[:2]
    few, many = released[3][0], released[20_000][0]
    assert few.covariance.shape == (6, 6)
    assert many.covariance.shape == (40_000,)
    if kind is GroupSums:  # of means it depends on the noisy counts
        assert many.noise_std[:2] == pytest.approx(few.noise_std[:2])
        assert released[3][1] == pytest.approx(released[20_000][1])
    assert many.half_width[0] > few.half_width[0]
    assert np.isfinite(many.half_width).all()
    assert tdp.Release.from_dict(many.to_dict()).integers == many.integers


def test_levels_of_moves_count_every_class():
    """As class by class, one after the other."""
    facts = {"pay": tdp.Interval(0, 100), "g": tdp.Category(range(5), other=0)}
    noise = GroupSums(tdp.Schema(facts, rows=10), "pay", "g", epsilon=1).moments._of_group
    moves = np.array([[0] * 10, [1, 2] * 5, [-(1 << 16), 1 << 16, 1 << 16, 0, 0, 0, 0, 0, 0, 7]])
    blocks = moves.reshape(3, 5, 2)
    truth = sum(noise.body.level(blocks[:, c]).astype(object) for c in range(5))
    assert noise._levels(moves).tolist() == list(truth)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.slow_for("by8-*")  # labels of a million bins
@pytest.mark.parametrize(
    ("by", "text"),
    [
        ("nope", "'nope'"),
        (["age"], "is a number"),
        ([], "at least one"),
        (3, "list of names"),
        ([("sex", 3)], "is a category"),
        (["sex", "sex"], "distinct"),
        ([("age",)], "pairs of a name"),
        ([("age", [1, 2])], "at least 3"),
        ([("age", 1 << 20)], "at most 1048576"),
        ([("pay", 3)], "distinct"),
        ({"sex": 1}, "list of names"),
    ],
)
def test_bad_groups_are_refused(by, text):
    with pytest.raises(ParameterError, match=text):
        GroupMeans(schema(), ["pay"], by, epsilon=1)


def test_what_has_no_answer_by_group_is_refused():
    with pytest.raises(ParameterError, match="private"):
        GroupQuantiles(schema(), "pay", [0.5], "sex", epsilon=1, interval="population")
    with pytest.raises(ParameterError, match="one quantile"):
        GroupQuantiles(schema(), "pay", [0.2, 0.5], "sex", epsilon=1, interval="sample")
    with pytest.raises(ParameterError, match="distinct"):
        GroupQuantiles(schema(), "pay", [0.5], [("pay", 2)], epsilon=1)
    with pytest.raises(ParameterError, match="one category"):
        tdp.count({}, ["sex", "region"], by=[("age", 2)], schema=schema(), epsilon=1)
    with pytest.raises((ParameterError, InfeasibleSamplingError)):
        GroupMeans(schema(), ["pay"], "sex", epsilon=1, delta=1e-6)


def test_labels_of_groups_say_which():
    cells = group_cells(schema(), ["region", ("age", 2)])
    assert cells.labels == (tuple(REGIONS), ("[18, 54)", "[54, 90]"))
    assert GroupMoments(schema(), ["pay"], ["region", ("age", 2)]).groups[1] == (
        "region=north, age=[54, 90]"
    )
