"""Rows with missing cells are left out, each on account of its own cells, by every reader."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
from tests.laws.containers import CONTAINERS

import tightdp as tdp
from tightdp.data.class_moments import GroupMoments
from tightdp.data.one_pass import blocks, quantized_matrix, share_pass
from tightdp.data.persons import GONE
from tightdp.mechanisms.groups import GroupMeans, GroupVariances
from tightdp.mechanisms.ranks import Ranks
from tightdp.schema import complete_rows

FACTS: dict[str, Any] = {
    "x": tdp.Interval(0, 4),
    "y": tdp.Interval(-1, 1),
    "k": tdp.Category(["a", "b"], other="b"),
}
SCHEMA = tdp.Schema(FACTS, rows=7, bits=2)
DROPS = complete_rows(SCHEMA, "drop")
ROWS = [
    {"x": 1.0, "y": 0.5, "k": "a"},
    {"x": None, "y": 0.5, "k": "a"},
    {"x": 3.0, "y": None, "k": "b"},
    {"x": 4.0, "y": -1.0, "k": None},
    {"x": 2.0, "y": 1.0, "k": "z"},
    {"x": math.nan, "y": math.nan, "k": ""},
    {"x": 99.0, "y": 0.0, "k": "b"},
]
TABLE = {name: [row[name] for row in ROWS] for name in FACTS}


def kept(*names: str) -> list[int]:
    """The rows where these cells are there, by hand: unseen levels are something."""
    there = [
        [i for i, row in enumerate(ROWS) if row[name] not in (None, "") and row[name] == row[name]]
        for name in names
    ]
    return sorted(set(there[0]).intersection(*there[1:]))


@pytest.mark.parametrize("columns", [("x",), ("x", "y"), ("x", "k"), ("x", "y", "k"), ("k",)])
def test_only_rows_with_all_cells_are_read(columns):
    rows = quantized_matrix(TABLE, DROPS, columns)
    whole = quantized_matrix(TABLE, SCHEMA, columns)
    np.testing.assert_array_equal(rows, whole[kept(*columns)])


@pytest.mark.parametrize("name", CONTAINERS)
def test_every_container_leaves_out_the_same_rows(name, tmp_path):
    container = CONTAINERS[name]
    kinds = {"x": "real", "y": "real", "k": "text"}
    names = [column for column, kind in kinds.items() if kind in container.holds]
    if not {"x", "y"} <= set(names):
        pytest.skip("it holds no numbers with gaps")
    rows = [{column: row[column] for column in names} for row in ROWS]
    frame = container.build(rows, {column: kinds[column] for column in names}, tmp_path)
    facts = DROPS.only(names)
    by = "k" if "k" in names else None
    moments = GroupMoments(facts, ["x", "y"], by, squares=True)
    plain = {column: TABLE[column] for column in names}
    assert moments.measure(frame) == moments.measure(plain)
    assert moments.measure(plain) != GroupMoments(
        SCHEMA.only(names), ["x", "y"], by, squares=True
    ).measure(plain)


def test_sums_that_share_a_pass_keep_their_own_rows():
    asked = [
        GroupMoments(facts, columns, None)
        for facts in (DROPS, SCHEMA)
        for columns in (["x"], ["y"], ["x", "y"])
    ]
    alone = [one.measure(TABLE) for one in asked]
    sums = [one.integer_sum(2) for one in asked]
    with share_pass(TABLE, SCHEMA, sums) as table:
        assert [one.read(table) for one in sums] == alone


def test_no_row_at_all_is_left():
    empty = {"x": [None] * 7, "y": [0.0] * 7, "k": ["a"] * 7}
    for mechanism in (
        GroupMeans(SCHEMA, ["x", "y"], None, epsilon=1, missing="drop"),
        GroupVariances(SCHEMA, ["x"], "k", epsilon=1, missing="drop"),
    ):
        assert set(mechanism.statistic.measure(empty)) == {0}
        release = mechanism.release(empty, rng=1)
        assert np.isfinite(release.interval).all()
    assert Ranks.of(empty, DROPS, "x").rows == 0
    tdp.median(empty, "x", schema=SCHEMA, epsilon=1, missing="drop")


def test_a_row_left_out_takes_no_place_of_a_person():
    """Of three rows of a person two count; the one with a missing cell is none of them."""
    schema = tdp.Schema(FACTS, rows=9, neighbors="add-remove", person="who", rows_per_person=2)
    table = {"who": [1, 1, 1], "x": [None, 1.0, 3.0], "y": [0, 0, 0], "k": ["a"] * 3}
    rows = quantized_matrix(table, complete_rows(schema, "drop"), ["x"])
    assert len(rows) == 2
    assert GONE not in rows


def test_every_neighbour_moves_within_the_noise():
    """All tables of two rows on a coarse grid, and all tables beside them: as the noise says."""
    cells = [None, 0.0, 1.0, 2.0, 4.0]
    schema = tdp.Schema({"x": tdp.Interval(0, 4)}, rows=2, bits=2)
    for mechanism in (
        GroupMeans(schema, "x", None, epsilon=1, missing="drop"),
        GroupVariances(schema, "x", None, epsilon=1, missing="drop"),
    ):
        measured = {
            pair: np.array(mechanism.statistic.measure({"x": list(pair)}), dtype=np.int64)
            for pair in itertools.product(cells, repeat=2)
        }
        moves = np.array(
            [
                measured[first] - measured[second]
                for first in measured
                for second in measured
                if sum(a != b for a, b in zip(first, second, strict=True)) == 1
            ]
        )
        noise = mechanism.moments.noise.noise
        level = noise.body.level(moves)
        assert int(level.max()) == noise.sensitivity  # no more, and no less


@pytest.mark.parametrize("rows_per_person", [1, 2, 3])
def test_a_person_moves_within_the_noise(rows_per_person):
    """Tables that differ by all rows of one person, of which no more than some count."""
    schema = tdp.Schema(
        {"x": tdp.Interval(0, 4)},
        rows=9,
        bits=2,
        neighbors="add-remove",
        person="who",
        rows_per_person=rows_per_person,
    )
    others = {"who": ["b", "b", "c"], "x": [1.0, None, 4.0]}
    for kind, missing in itertools.product((GroupMeans, GroupVariances), ("rule", "drop")):
        mechanism = kind(schema, "x", None, epsilon=1, missing=missing)
        without = np.array(mechanism.statistic.measure(others))
        noise, found = mechanism.moments.noise.noise, []
        for many in range(1, 5):
            for own in itertools.combinations_with_replacement([None, 0.0, 1.0, 4.0], many):
                table = {"who": [*others["who"], *["a"] * many], "x": [*others["x"], *own]}
                move = np.array(mechanism.statistic.measure(table)) - without
                found.append(int(noise.body.level(move[None])[0]))
        assert max(found) == noise.sensitivity


def test_the_rows_of_a_plan_are_read_once(tmp_path):
    """What is left out of one release is not left out of another."""
    found = [list(blocks(TABLE, facts, ["x"])) for facts in (DROPS, SCHEMA)]
    assert [sum(map(len, parts)) for parts in found] == [len(kept("x")), len(ROWS)]


@pytest.mark.parametrize("kind", ["mean", "sum", "variance", "median", "quantile", "quantiles"])
@pytest.mark.parametrize("by", [None, "k"])
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_every_kind_takes_it(kind, by, neighbors, seed):
    rng = np.random.default_rng(seed)
    schema = tdp.Schema(FACTS, rows=4000, neighbors=neighbors)
    x = rng.uniform(0, 2, 4000)
    table = {"x": x.copy(), "y": x, "k": rng.choice(["a", "b"], 4000)}
    table["x"][::4] = np.nan
    more = {"quantile": {"tau": 0.5}, "quantiles": {"taus": [0.5, 0.75]}}.get(kind, {})
    asked: dict[str, Any] = {"schema": schema, "by": by, **more}
    dropped = getattr(tdp, kind)(table, "x", epsilon=100, missing="drop", rng=seed, **asked)
    whole = getattr(tdp, kind)(table, "x", epsilon=100, rng=seed, **asked)
    name = next(n for n in dropped.names if n.startswith("x"))
    there = table["x"][~np.isnan(table["x"]) & ((table["k"] == "a") | (by is None))]
    truth = {"mean": there.mean(), "sum": there.sum(), "variance": there.var()}
    truth = truth.get(kind, np.median(there))
    assert dropped[name] == pytest.approx(truth, rel=0.05)
    assert kind == "sum" or abs(whole[name] - truth) > abs(dropped[name] - truth)


def test_the_rate_of_missing_cells(seed):
    schema = tdp.Schema(FACTS, rows=700)
    table = {name: cells * 100 for name, cells in TABLE.items()}
    rate = tdp.missing_rate(table, schema=schema, epsilon=50, rng=seed)
    for name in FACTS:
        assert rate[name] == pytest.approx(1 - len(kept(name)) / 7, abs=0.01)
    by = tdp.missing_rate(table, ["x"], by="k", schema=schema, epsilon=50, rng=seed)
    assert by["x | k=a"] == pytest.approx(1 / 2, abs=0.02)


def test_what_does_not_take_it_says_so():
    schema = tdp.Schema(FACTS, rows=7)
    with pytest.raises(tdp.ParameterError, match="population"):
        tdp.median(TABLE, "x", schema=schema, epsilon=1, missing="drop", interval="population")
    with pytest.raises(tdp.ParameterError, match="missing"):
        tdp.mean(TABLE, "x", schema=schema, epsilon=1, missing="omit")
    with pytest.raises(tdp.ParameterError, match="keys"):
        tdp.mean(
            TABLE, "x", by="k", keys="private", schema=schema, epsilon=1, delta=1e-6, missing="drop"
        )


def test_a_rate_of_the_column_that_divides_the_rows_is_refused() -> None:
    """It was left out without a word."""
    facts = {"x": tdp.Interval(0, 9), "sex": tdp.Category(["f", "m"], other="f")}
    table = {"x": [1, None] * 5, "sex": ["f", "m"] * 5}
    schema = tdp.Schema(facts, rows=10)
    with pytest.raises(tdp.ParameterError, match=r"must be distinct\. Both have 'sex'"):
        tdp.missing_rate(table, ["x", "sex"], by="sex", schema=schema, epsilon=1)
    found = tdp.missing_rate(table, by="sex", schema=schema, epsilon=1)  # by default all others
    assert found.names == ("rows | sex=f", "x | sex=f", "rows | sex=m", "x | sex=m")
