"""Persons who count alike in groups, quantiles and regressions: what each may move, exactly."""

from __future__ import annotations

from collections import defaultdict

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tightdp as tdp
from tightdp.data.one_pass import share_pass
from tightdp.data.persons import FewRows
from tightdp.errors import TightdpError
from tightdp.mechanisms.group_quantiles import GroupQuantiles
from tightdp.mechanisms.groups import GroupMeans, GroupSums
from tightdp.mechanisms.least_squares import LeastSquares
from tightdp.mechanisms.means import MeanMechanism
from tightdp.mechanisms.quantiles import KNormMedian, KNormQuantile
from tightdp.mechanisms.ranks import Ranks
from tightdp.person_means import PersonWeights
from tightdp.plans.request import request

LEVELS = ("a", "b", "c")
COLUMNS = {
    "x": tdp.Interval(0, 8),
    "y": tdp.Interval(-1, 1),
    "k": tdp.Category(list(LEVELS), other="a"),
}


def facts(most=5, rows=400, bits=None, columns=COLUMNS):
    stated = {"neighbors": "add-remove", "person": "who", "rows_per_person": most}
    return tdp.Schema(columns, rows, bits=bits, **stated)


def visits(rng, persons=40, most=9):
    """Rows of persons in no order, some without a person."""
    who = np.repeat(np.arange(persons), rng.integers(1, most, persons)).tolist() + [None] * 3
    who = [who[i] for i in rng.permutation(len(who))]
    rows = len(who)
    return {
        "who": who,
        "x": rng.uniform(-1, 9, rows).tolist(),
        "y": rng.uniform(-1, 1, rows).tolist(),
        "k": rng.choice(LEVELS, rows).tolist(),
    }


def grid(schema, name, cells):
    return [int(v) for v in schema[name].quantize(np.array(cells), schema.bits)]


# --- groups ---------------------------------------------------------------------------------------


def by_hand(table, schema):
    """(persons, sums of their means) in every group, in grid points; Python integers."""
    cells, own = grid(schema, "x", table["x"]), defaultdict(list)
    for who, level, cell in zip(table["who"], table["k"], cells, strict=True):
        if who is not None:
            own[who, level].append(cell)
    means = {at: (2 * sum(v) + len(v)) // (2 * len(v)) for at, v in own.items()}
    out = []
    for level in LEVELS:
        found = [mean for (_, at), mean in means.items() if at == level]
        out += [len(found) << schema.bits, sum(found)]
    return out


def test_sums_are_those_of_the_means_of_persons_in_each_group(seed, tmp_path):
    table, schema = visits(np.random.default_rng(seed)), facts(most=50)
    means = GroupMeans(schema, "x", "k", epsilon=1, per="person")
    expected = by_hand(table, schema)
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "t.csv", index=False)
    arrow = pa.Table.from_pandas(frame)
    others = [frame, pl.from_arrow(arrow), duckdb.from_arrow(arrow), tmp_path / "t.csv"]
    for other in (table, *others):
        assert means.statistic.measure(other) == expected, type(other)


def test_other_groups_and_no_groups_share_a_pass(seed):
    """Their rows of means are not equally many: nobody may count for another's."""
    table, schema = visits(np.random.default_rng(seed)), facts(most=4)
    asked = [
        MeanMechanism(schema, ["x"], epsilon=1, per="person").statistic,
        GroupMeans(schema, "x", "k", epsilon=1, per="person").statistic,
        GroupMeans(schema, "y", [("x", 2)], epsilon=1, per="person").statistic,
        GroupMeans(schema, "x", "k", epsilon=1, per="person", groups_per_person=1).statistic,
        LeastSquares(schema, ["x"], "y", epsilon=1, per="person").statistic,
        LeastSquares(schema, ["x", "k"], "y", epsilon=1, per="person").statistic,
        GroupMeans(schema, "x", "k", epsilon=1).statistic,
    ]
    sums = [each.integer_sum(schema.bits) for each in asked]
    with share_pass(table, schema, sums) as shared:
        together = [one.read(shared) for one in sums]
    assert together == [one.read(table) for one in sums]


def moved_in_groups(mechanism, rng, tables=40):
    """Of a person more, with one to thirty rows: the largest sum over groups of moves, in rows."""
    unit, worst = mechanism.statistic.resolution(mechanism.schema.bits), 0.0
    for _ in range(tables):
        table = visits(rng, persons=int(rng.integers(1, 6)))
        rows = int(rng.integers(1, 31))
        more = {"who": [99] * rows, "x": rng.choice([0.0, 8.0], rows), "y": [1.0] * rows}
        more["k"] = rng.choice(LEVELS, rows)
        both = {name: [*table[name], *more[name]] for name in table}
        first, second = (mechanism.statistic.measure(each) for each in (table, both))
        move = np.abs(np.subtract(second, first)).reshape(len(LEVELS), -1)
        worst = max(worst, move.max(axis=1).sum() / unit)
    return worst


@pytest.mark.parametrize(("most", "groups", "reach"), [(5, None, 3), (2, None, 2), (5, 1, 1)])
def test_a_person_moves_as_many_groups_as_the_noise_is_made_for(most, groups, reach, seed):
    stated = {"per": "person", "groups_per_person": groups}
    sums = GroupSums(facts(most), "x", "k", epsilon=1, **stated)
    assert sums.schema.rows_per_person == reach
    assert moved_in_groups(sums, np.random.default_rng(seed)) == reach


def test_persons_in_groups_that_nobody_bounds_are_noticed(seed, monkeypatch):
    """The fault: a person counts in all its groups, with the noise for one."""
    own = FewRows.means
    monkeypatch.setattr(FewRows, "means", lambda self, groups, most: own(self, groups, 1 << 20))
    sums = GroupSums(facts(), "x", "k", epsilon=1, per="person", groups_per_person=1)
    assert moved_in_groups(sums, np.random.default_rng(seed)) > 1


def test_noise_is_that_of_the_groups_of_a_person():
    def std(most, **stated):
        return float(GroupSums(facts(most), "x", "k", epsilon=1, **stated).preview().std[1])

    alike = {"per": "person"}
    one = std(20, **alike, groups_per_person=1)
    assert std(20, **alike) == std(3, **alike) == pytest.approx(3 * one, rel=1e-3)
    assert std(20) == pytest.approx(20 / 3 * std(20, **alike), rel=1e-3)


def test_which_groups_count_does_not_hang_on_what_is_summed(seed):
    """One group of each person, and the same one whatever the cells of the summed column are."""
    rng = np.random.default_rng(seed)
    table, schema = visits(rng), facts(most=50)
    counts = GroupSums(schema, "x", "k", epsilon=1, per="person", groups_per_person=1).statistic
    other = table | {"x": rng.uniform(0, 8, len(table["who"])).tolist()}
    first, second = (np.array(counts.measure(each))[::2] for each in (table, other))
    assert (first == second).all()
    assert first.sum() == len(set(table["who"]) - {None}) * schema.resolution


# --- quantiles ------------------------------------------------------------------------------------


def log_law(law, starts):
    """The log chances of single points, at the first points of pieces."""
    place = np.searchsorted(law.starts, starts + 1) - 1  # the last that starts there: not empty
    with np.errstate(divide="ignore", invalid="ignore"):
        return np.log(law.probabilities() / law.lengths)[place]


def largest_ratio(mechanism, tables):
    """The largest log ratio of the laws of a released point, over tables and one more person."""
    worst = 0.0
    for table, more in tables:
        both = {name: [*table[name], *more[name]] for name in table}
        one, two = (mechanism.law_on(Ranks.of(t, mechanism.schema, "x")) for t in (table, both))
        starts = np.unique([*one.starts, *two.starts])
        starts = starts[starts < one.end]
        worst = max(worst, float(abs(log_law(one, starts) - log_law(two, starts)).max()))
    return worst


def few_tables():
    """Tables of no person, one, or ten of a kind, and one of all kinds of persons beside them."""
    rows = [(0.0,), (0.1,), (7.9,), (8.0,), (0.0, 8.0)]
    for own in [(), *((r,) * n for r in rows for n in (1, 10))]:
        for more in [*rows, (8.0,) * 9, (0.0,) * 9]:
            table = {"who": [i for i, r in enumerate(own) for _ in r], "x": sum(own, ())}
            yield table, {"who": [99] * len(more), "x": list(more)}


@pytest.mark.parametrize("tau", [0.5, 0.9])
def test_the_ratio_of_a_quantile_of_persons_is_what_is_paid_and_no_more(tau):
    """Exact laws over all small tables: within epsilon, and nearly all of it is used."""
    mechanism = KNormQuantile(facts(most=9, rows=40, bits=8), "x", tau, epsilon=1, per="person")
    assert 0.95 < largest_ratio(mechanism, few_tables()) <= 1 + 1e-9


def test_quantiles_of_rows_with_the_noise_of_persons_are_noticed(monkeypatch):
    """The fault: nine rows of a person count, each as the noise allows for one."""
    monkeypatch.setattr(FewRows, "means", lambda self, groups, most: self.rows())
    mechanism = KNormMedian(facts(most=9, rows=40, bits=8), "x", epsilon=1, per="person")
    assert largest_ratio(mechanism, few_tables()) > 1.5


def test_medians_are_those_of_the_means_of_persons(seed):
    table, schema = visits(np.random.default_rng(seed), persons=60), facts(most=50)
    own = defaultdict(list)
    for who, x in zip(table["who"], table["x"], strict=True):
        if who is not None:
            own[who].append(min(max(x, 0), 8))
    means = np.sort([np.mean(each) for each in own.values()])
    release = tdp.median(table, "x", schema=schema, epsilon=500, per="person", interval="sample")
    assert means[27] - 0.01 <= release["x[0.5]"] <= means[32] + 0.01
    by_group = GroupQuantiles(schema, "x", [0.5], "k", epsilon=1, per="person")
    assert by_group.schema.rows_per_person == 3
    assert by_group.guarantee().unit == "person with at most 50 rows used"


def test_medians_between_the_steps_of_a_column():
    columns = {"n": tdp.Interval(0, 10, step=1)}
    table = {"who": [1, 1, 2, 2, 3, 3], "n": [3, 4] * 3}
    release = tdp.median(table, "n", schema=facts(columns=columns), epsilon=1000, per="person")
    assert release.value[0] == pytest.approx(3.5, abs=0.01)


# --- regressions ----------------------------------------------------------------------------------


@pytest.mark.parametrize("most", [1, 5, 12, 50])
def test_moments_are_those_of_rows_that_share_the_weight_of_their_person(most, seed):
    table, schema = visits(np.random.default_rng(seed), most=7), facts(most)
    moments = LeastSquares(schema, ["x"], "y", epsilon=1, per="person").statistic
    parts, one = moments.schema.row_units, schema.resolution
    own = defaultdict(list)
    cells = [grid(schema, name, table[name]) for name in ("x", "y")]
    for who, x, y in zip(table["who"], *cells, strict=True):
        if who is not None:
            own[who].append((x, y))
    if most < 6:  # which rows count is for others to test: one row each
        table = {
            name: [column[table["who"].index(w)] for w in own] for name, column in table.items()
        }
        own = {who: rows[:1] for who, rows in own.items()}
    rows = [(parts // len(mine), x, y) for mine in own.values() for x, y in mine]
    expected = {
        "persons": sum(w * one * one for w, _, _ in rows),
        "x": sum(w * x * one for w, x, _ in rows),
        "2*x^2-1": sum(w * (2 * x * x - one * one) for w, x, _ in rows),
        "y": sum(w * y * one for w, _, y in rows),
        "x*y": sum(w * x * y for w, x, y in rows),
        "2*y^2-1": sum(w * (2 * y * y - one * one) for w, _, y in rows),
    }
    assert dict(zip(moments.names, moments.measure(table), strict=True)) == expected


def moved_moments(mechanism, rng, tables=40):
    """Of a person more: the largest move of a moment, in rows of the whole weight."""
    worst, unit = 0.0, mechanism.statistic.resolution(mechanism.schema.bits)
    for _ in range(tables):
        table, rows = visits(rng, persons=3), int(rng.integers(1, 31))
        more = {"who": [99] * rows, "x": [8.0] * rows, "y": [1.0] * rows, "k": ["b"] * rows}
        both = {name: [*table[name], *more[name]] for name in table}
        first, second = (mechanism.statistic.measure(each) for each in (table, both))
        move = np.abs(np.subtract(second, first, dtype=object))
        worst = max(worst, float(max(move) / unit))
    return worst


@pytest.mark.parametrize("most", [5, 12, 50, 1000])
def test_a_person_moves_moments_as_a_row_does(most, seed):
    line = LeastSquares(facts(most), ["x", "k"], "y", epsilon=1, per="person")
    reach = moved_moments(line, np.random.default_rng(seed))
    assert reach <= 1
    assert reach == pytest.approx(1, abs=1e-3)
    assert line.moments.persons == 1


def test_rows_with_the_whole_weight_of_their_person_are_noticed(seed, monkeypatch):
    """The fault: the rows of a person do not share its weight."""
    rows = FewRows.rows
    monkeypatch.setattr(FewRows, "rows_by_number", lambda self: iter([(1, rows(self))]))
    line = LeastSquares(facts(), ["x"], "y", epsilon=1, per="person")
    assert moved_moments(line, np.random.default_rng(seed)) > 2


def test_the_gate_measures_a_person_with_the_whole_weight(monkeypatch):
    """The fault: noise for a row of which each part of the weight counts as a whole one."""
    monkeypatch.setattr(tdp.data.statistics.Statistic, "resolution",
                        lambda self, bits: int(self.grid(bits).points ** self.degree))  # fmt: skip
    with pytest.raises(TightdpError, match="move"):
        LeastSquares(facts(), ["x"], "y", epsilon=1, per="person")


def test_weights_are_alike():
    for most in (1, 2, 5, 12, 13, 100, 1024):
        whole = PersonWeights(COLUMNS, 9, used=most, neighbors="add-remove", person="w").row_units
        least = min(n * (whole // n) / whole for n in range(1, most + 1))
        assert least == 1 if most <= 12 else least >= 1 - 2**-10


def test_noise_of_a_line_does_not_grow_with_rows():
    few, many = (
        LeastSquares(facts(most), ["x"], "y", epsilon=1, per="person").preview() for most in (1, 12)
    )
    np.testing.assert_allclose(few.std, many.std)
    assert many.guarantee.unit == "person with at most 12 rows used"
    assert "400 persons" in many.assumes


# --- plans, estimators, refusals ------------------------------------------------------------------


def test_a_plan_takes_all_of_them(tmp_path, seed):
    pd.DataFrame(visits(np.random.default_rng(seed))).to_csv(tmp_path / "t.csv", index=False)
    asked = [
        'kind = "mean"\ncolumns = ["x"]\nby = "k"\ngroups_per_person = 1',
        'kind = "variance"\ncolumns = ["x"]\nby = "k"',
        'kind = "median"\ncolumn = "x"',
        'kind = "quantiles"\ncolumn = "x"\ntaus = [0.25, 0.75]\nby = "k"',
        'kind = "linear_regression"\nfeatures = ["x", "k"]\ntarget = "y"\nmissing = "drop"',
        'kind = "ridge"\nfeatures = ["x"]\ntarget = "y"',
    ]
    lines = "".join(
        f'[[releases]]\nname = "r{i}"\n{each}\nper = "person"\nepsilon = 1\n'
        for i, each in enumerate(asked)
    )
    (tmp_path / "plan.toml").write_text(
        '[data]\nfile = "t.csv"\n[budget]\nledger = "l.db"\nepsilon = 6\n'
        '[schema]\nrows = 400\nneighbors = "add-remove"\nperson = "who"\nrows_per_person = 5\n'
        "[schema.columns.x]\nlow = 0\nhigh = 8\n[schema.columns.y]\nlow = -1\nhigh = 1\n"
        '[schema.columns.k]\nlevels = ["a", "b", "c"]\nother = "a"\n' + lines
    )
    plan = tdp.Plan.read(tmp_path / "plan.toml")
    assert all("persons" in each.assumes for each in plan.preview().previews.values())
    done = plan.release()
    assert all(
        each.release.guarantee.unit == "person with at most 5 rows used"
        for each in done.answers.values()
    )


def test_what_is_printed_says_that_persons_count_alike(seed):
    """And in how many groups: a median of persons looks like one of rows."""
    table, schema = visits(np.random.default_rng(seed)), facts()
    stated, once = {"schema": schema, "epsilon": 1}, "every person counts once"
    mean = {"per": "person", "by": "k", **stated}
    for groups, said in ((None, "at most 3 groups"), (1, "at most 1 group,")):
        found = tdp.mean(table, "x", **mean, groups_per_person=groups)
        assert f"{once} in a group, and in {said}" in str(found)
    median = tdp.median(table, "x", per="person", **stated)
    assert f"{once}, with the mean of its rows" in str(median)
    assert once not in str(tdp.median(table, "x", **stated))
    line = LeastSquares(schema, ["x"], "y", epsilon=1, per="person")
    answer = line.answer(line.release(table))
    assert str(answer).count("every person weighs alike") == 1


def test_an_estimator_takes_persons(seed):
    frame = pd.DataFrame(visits(np.random.default_rng(seed), persons=200)).dropna()
    model = tdp.LinearRegression(epsilon=5, bounds=facts(rows=3000), per="person", random_state=1)
    model.fit(frame, "y")
    assert model.guarantee_.unit == "person with at most 5 rows used"
    assert np.isfinite(model.conf_int()).all()
    with pytest.raises(TightdpError, match="`per` = 'person' needs `person`"):
        tdp.Ridge(epsilon=5, bounds=[(0, 8), (-1, 1)], per="person").fit(frame[["x"]], frame["y"])


@pytest.mark.parametrize(
    ("kind", "options", "words"),
    [
        ("count", {"columns": ["k"]}, "`per` is no key.*rows_per_person=1"),
        ("quantile_regression", {"features": ["x"], "target": "y"}, "`per` is no key"),
        ("median", {"column": "x", "groups_per_person": 1}, "`groups_per_person` is for groups"),
    ],
)
def test_what_has_no_such_weights_says_so(kind, options, words):
    with pytest.raises(TightdpError, match=words):
        request(kind, facts(), epsilon=1, per="person", **options)
