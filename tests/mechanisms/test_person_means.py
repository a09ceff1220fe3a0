"""Persons who count alike: the mean of each is one row, and no more, whoever has how many."""

from __future__ import annotations

from collections import defaultdict
from fractions import Fraction

import duckdb
import numpy as np
import pandas as pd
import polars as pl
import pyarrow as pa
import pytest

import tightdp as tdp
from tightdp.data import persons as persons_module
from tightdp.data.one_pass import share_pass
from tightdp.data.persons import FewRows
from tightdp.errors import TightdpError
from tightdp.mechanisms.groups import GroupMeans
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.means import MeanMechanism
from tightdp.plans.request import request

COLUMNS = {"x": tdp.Interval(0, 8), "n": tdp.Interval(0, 10, step=1)}
KIND = {"k": tdp.Category(["a", "b"], other="a")}


def facts(most=50, rows=400, columns=COLUMNS):
    return tdp.Schema(columns, rows, neighbors="add-remove", person="who", rows_per_person=most)


def visits(rng, persons=40, most=9):
    """Rows of persons in no order, some without a person."""
    who = np.repeat(np.arange(persons), rng.integers(1, most, persons)).tolist() + [None] * 3
    who = [who[i] for i in rng.permutation(len(who))]
    cells = {"x": rng.uniform(-1, 9, len(who)).tolist(), "n": rng.integers(0, 11, len(who))}
    return {"who": who} | {name: list(column) for name, column in cells.items()}


def by_hand(table, schema, names):
    """(sums of the means of persons, number of persons), in grid points; Python integers."""
    rows = defaultdict(list)
    for i, who in enumerate(table["who"]):
        if who is not None:
            cells = [schema[n].quantize(np.array([table[n][i]]), schema.bits)[0] for n in names]
            rows[who].append([int(cell) for cell in cells])
    means = [
        [(2 * sum(cells) + len(mine)) // (2 * len(mine)) for cells in zip(*mine, strict=True)]
        for mine in rows.values()
    ]
    return [*map(sum, zip(*means, strict=True)), len(means) << schema.bits]


def test_sums_are_those_of_the_means_of_persons(seed, monkeypatch):
    rng, schema = np.random.default_rng(seed), facts()
    mean = MeanMechanism(schema, ["x", "n"], epsilon=1, per="person")
    table = visits(rng)
    expected = by_hand(table, schema, ["x", "n"])
    assert mean.statistic.measure(table) == expected
    order = rng.permutation(len(table["who"]))
    monkeypatch.setattr(persons_module, "_LEAST_BUFFER", 7)  # in many pieces
    assert mean.statistic.measure({k: [v[i] for i in order] for k, v in table.items()}) == expected


def test_rows_and_persons_share_a_pass_and_keep_their_integers(seed):
    table, schema = visits(np.random.default_rng(seed)), facts(most=3)
    asked = [
        MeanMechanism(schema, ["x"], epsilon=1),
        MeanMechanism(schema, ["x", "n"], epsilon=1, per="person"),
        MeanMechanism(schema, ["n"], epsilon=1, per="person"),
    ]
    sums = [each.statistic.integer_sum(each.sums.bits) for each in asked]
    with share_pass(table, schema, sums) as shared:
        together = [one.read(shared) for one in sums]
    assert together == [one.read(table) for one in sums]


def test_engines_and_files_give_the_same_means(seed, tmp_path):
    schema = facts()
    mean = MeanMechanism(schema, ["x", "n"], epsilon=1, per="person")
    table = visits(np.random.default_rng(seed))
    expected = mean.statistic.measure(table)
    frame = pd.DataFrame(table)
    frame.to_csv(tmp_path / "t.csv", index=False)
    frame.to_parquet(tmp_path / "t.parquet")
    arrow = pa.Table.from_pandas(frame)
    others = [frame, pl.from_arrow(arrow), arrow, duckdb.from_arrow(arrow)]
    for other in (*others, tmp_path / "t.csv", tmp_path / "t.parquet"):
        assert mean.statistic.measure(other) == expected, type(other)


def test_releases_of_rows_and_of_persons_are_paid_together(seed):
    schema = facts(most=3)
    both = Together(
        [MeanMechanism(schema, ["x"], epsilon=1, per=per).source for per in (None, "person")]
    )
    assert both.guarantee().rows_per_person == 3
    release = both.release(visits(np.random.default_rng(seed)), rng=seed)
    assert len(release.value) == 4  # a sum and a number of each


def test_no_mean_is_rounded_to_the_steps_of_its_column():
    table = {"who": [1, 1], "n": [3, 4], "x": [0, 0]}
    release = tdp.mean(table, ["n"], schema=facts(), epsilon=1000, per="person")
    assert release["n"] == pytest.approx(3.5, abs=0.05)


def moves(mechanism, rng, tables=60):
    """Changes of the exact integers by one person more, with one to a hundred rows."""
    found = []
    for _ in range(tables):
        table = visits(rng, persons=int(rng.integers(1, 6)))
        more = {"who": [99] * int(rng.integers(1, 100))}
        end = rng.choice([0.0, 8.0])  # all at a bound moves furthest
        more |= {"x": [end] * len(more["who"]), "n": [10] * len(more["who"])}
        both = {name: [*table[name], *more[name]] for name in table}
        first, second = (mechanism.statistic.measure(each) for each in (table, both))
        found.append(np.subtract(second, first))
    return np.array(found)


def test_a_person_moves_what_the_noise_is_made_for_and_no_more(seed):
    rng = np.random.default_rng(seed)
    mean = MeanMechanism(facts(most=20), ["x", "n"], epsilon=1, per="person")
    found = moves(mean, rng)
    assert (np.abs(found) <= mean.statistic.resolution(mean.sums.bits)).all()
    assert np.abs(found[:, 0]).max() == mean.statistic.resolution(mean.sums.bits)


def test_persons_who_count_all_their_rows_are_noticed(seed, monkeypatch):
    """The fault: rows instead of their means, with the noise for one."""
    monkeypatch.setattr(FewRows, "means", lambda self, *_: self.rows())
    mean = MeanMechanism(facts(most=20), ["x", "n"], epsilon=1, per="person")
    found = moves(mean, np.random.default_rng(seed))
    assert np.abs(found).max() > 2 * mean.statistic.resolution(mean.sums.bits)


def test_noise_does_not_grow_with_rows():
    few, many = (
        MeanMechanism(facts(most), ["x"], epsilon=1, per="person").preview() for most in (1, 1000)
    )
    assert few.std == many.std
    assert many.guarantee.unit == "person with at most 1000 rows used"
    assert "400 persons" in many.assumes


@pytest.mark.slow_for("*sum-rule*", "*variance-rule*")
@pytest.mark.parametrize("missing", ["rule", "drop"])
@pytest.mark.parametrize("kind", ["mean", "sum", "variance"])
def test_intervals_hold(kind, missing, seed):
    """Of what the persons of the table are; with 150 draws a share below 88 % is 4 errors away."""
    rng, schema = np.random.default_rng(seed), facts()
    table = visits(rng, persons=200, most=4)
    gone = rng.random(len(table["who"])) < 0.2
    table["x"] = [None if out and missing == "drop" else x
                  for out, x in zip(gone, table["x"], strict=True)]  # fmt: skip
    own = defaultdict(list)
    for who, x in zip(table["who"], table["x"], strict=True):
        if who is not None and x is not None:
            own[who].append(min(max(x, 0), 8))
    means = np.array([np.mean(each) for each in own.values()])
    true = {"mean": means.mean(), "sum": means.sum(), "variance": means.var()}[kind]
    held = 0
    options = {"columns": ["x"], "per": "person", "missing": missing}
    asked = request(kind, schema, epsilon=2, **options)
    for i in range(150):
        release = asked.release(table, rng=seed + i)
        low, high = release.interval[release.names.index("x")]
        held += low <= true <= high
    assert held / 150 >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 150)


def test_who_is_never_there_is_left_out():
    table = {"who": [1, 1, 2, 2, 3], "x": [None, None, 2, None, 4], "n": [0] * 5}
    means = GroupMeans(facts(), "x", None, epsilon=1000, missing="drop", per="person")
    release = means.release(table)
    assert release.names == ("persons", "x")
    np.testing.assert_allclose(release.value, [2, 3], atol=0.1)


def test_a_plan_may_ask_for_it(tmp_path):
    table = visits(np.random.default_rng(0))
    lines = [f"{'' if w is None else w},{x},{n}" for w, x, n in zip(*table.values(), strict=True)]
    (tmp_path / "t.csv").write_text("who,x,n\n" + "\n".join(lines) + "\n")
    (tmp_path / "plan.toml").write_text(
        '[data]\nfile = "t.csv"\n[budget]\nledger = "l.db"\nepsilon = 1\n'
        '[schema]\nrows = 400\nneighbors = "add-remove"\nperson = "who"\nrows_per_person = 9\n'
        "[schema.columns.x]\nlow = 0\nhigh = 8\n"
        '[[releases]]\nname = "m"\nkind = "mean"\ncolumns = ["x"]\nper = "person"\nepsilon = 1\n'
    )
    plan = tdp.Plan.read(tmp_path / "plan.toml")
    assert "400 persons" in plan.preview().previews["m"].assumes
    assert plan.release().answers["m"].names == ("x",)


@pytest.mark.parametrize(
    ("options", "words"),
    [
        ({"per": "person", "by": "k", "groups_per_person": 0}, "`groups_per_person`"),
        ({"by": "k", "groups_per_person": 1}, "`groups_per_person` is for per='person'"),
        ({"per": "person", "groups_per_person": 1}, "`groups_per_person` is for groups"),
        ({"per": "person", "by": "x"}, "`by`: 'x' is a number"),
        ({"per": "person", "by": "z", "keys": "private", "delta": 0.1}, "`per` must be 'row'"),
        ({"per": "persons"}, "`per` must be one of 'row', 'person'"),
        ({"per": 7}, "`per`"),
    ],
)
def test_what_cannot_be_costs_nothing(options, words):
    ledger = tdp.Ledger(epsilon=1, delta=Fraction(1, 2), neighbors="add-remove")
    table = {"who": [1], "x": [1], "n": [1], "k": ["a"], "z": ["a"]}
    with pytest.raises(TightdpError, match=words):
        tdp.mean(table, ["x"], schema=facts(columns=COLUMNS | KIND), epsilon=1, ledger=ledger,
                 **options)  # fmt: skip
    with pytest.raises(TightdpError, match="`per`"):
        tdp.mean(table, ["x"], schema=tdp.Schema(COLUMNS, 9), epsilon=1, ledger=ledger,
                 per="person")  # fmt: skip
    assert ledger.spent.epsilon == 0


def test_another_question_has_another_fingerprint():
    asked = [MeanMechanism(facts(most), ["x"], epsilon=1, per=per)
             for most, per in [(3, None), (3, "person"), (4, "person")]]  # fmt: skip
    assert len({each.fingerprint() for each in asked}) == 3
    assert asked[1].schema != asked[2].schema
    assert asked[1].schema == MeanMechanism(facts(3), ["x"], epsilon=1, per="person").schema
