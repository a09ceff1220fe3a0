"""The share of rows that satisfy a public condition."""

from __future__ import annotations

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms.shares import RowsWhere, ShareMechanism

FACTS = tdp.Schema(
    {"age": tdp.Interval(0, 100), "k": tdp.Category(["a", "b", "c"], other="c")}, rows=1000
)
TABLE = {"age": np.arange(1000) % 100, "k": ["a", "b", "c", None] * 250}


@pytest.mark.parametrize(
    ("condition", "count"),
    [
        ({"low": 18}, 820),
        ({"high": 18}, 180),
        ({"low": 18, "high": 65}, 470),
        ({"low": 0, "high": 65}, 650),
    ],
)
def test_numbers_are_compared_with_the_bounds_themselves(condition, count):
    assert list(RowsWhere(FACTS, "age", **condition).measure(TABLE)) == [count]


def test_unseen_levels_count_where_the_schema_puts_them():
    assert list(RowsWhere(FACTS, "k", levels=["a"]).measure(TABLE)) == [250]
    assert list(RowsWhere(FACTS, "k", levels=["a", "c"]).measure(TABLE)) == [750]


@pytest.mark.parametrize("level", [1, 1.0, "1", True])
def test_a_level_is_its_value(level):
    facts = tdp.Schema({"k": tdp.Category([1, 2, 3], other=3)}, rows=4)
    assert list(RowsWhere(facts, "k", levels=[level]).measure({"k": [1, 1, 2, None]})) == [2]


def test_one_row_moves_one_count_by_one():
    """A margin of two levels would need the noise of two entries; this is the noise of one."""
    share = ShareMechanism(FACTS, "k", levels=["a"], epsilon=1)
    both = tdp.AdditiveMechanism(tdp.Counts(FACTS, ["k"]), noise="best", epsilon=1)
    assert share.preview().std[0] * 1000 < both.preview().std[0]
    assert share.source.certified == "exact"


def test_intervals_cover_and_stay_between_0_and_1(seed):
    share = ShareMechanism(FACTS, "k", levels=["a"], epsilon=0.02)
    held = 0
    for i in range(300):
        release = share.release(TABLE, rng=seed + i)
        low, high = release.interval[0]
        assert 0 <= low <= release.value[0] <= high <= 1
        held += low <= 0.25 <= high
    assert held / 300 >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 300)


@pytest.mark.parametrize(
    ("column", "condition", "word"),
    [
        ("age", {"levels": ["a"]}, "`levels` are for categories"),
        ("k", {"low": 1}, "`low` and `high` are for numbers"),
        ("k", {}, "`levels` must be a list of some of a, b, c"),
        ("k", {"levels": ["a", "z"]}, "`levels` must be a list of some of a, b, c"),
        ("k", {"levels": ["a", 7]}, "`levels` must be a list of some of a, b, c"),
        ("k", {"levels": "a"}, "`levels` must be a list of some of a, b, c"),
        ("age", {}, "must cut 'age' within its bounds"),
        ("age", {"low": -5}, "must cut 'age' within its bounds"),
        ("age", {"low": 60, "high": 20}, "must cut 'age' within its bounds"),
        ("age", {"low": float("nan")}, "`low`"),
    ],
)
def test_bad_conditions_cost_nothing(column, condition, word):
    ledger = tdp.Ledger(epsilon=1)
    with pytest.raises(ParameterError, match=word):
        tdp.share(TABLE, column, schema=FACTS, epsilon=1, ledger=ledger, **condition)
    assert ledger.spent.epsilon == 0


ADDED = tdp.Schema(FACTS.columns, rows=1000, neighbors="add-remove")


def test_a_test_with_a_private_number_of_rows_says_what_to_ask_for():
    with pytest.raises(ParameterError, match=r"replace-one.*`share`"):
        tdp.proportion_test(TABLE, "age", schema=ADDED, epsilon=1, low=18)


@pytest.mark.parametrize(("rows", "true"), [(slice(0, 1000), 0.25), (slice(0, 1), 1.0)])
def test_shares_of_a_private_number_of_rows_hold(rows, true, seed):
    """Of all rows, and of a single one, where nothing is known and the interval says so."""
    share = ShareMechanism(ADDED, "k", levels=["a"], epsilon=0.1)
    table = {"age": TABLE["age"][rows], "k": TABLE["k"][rows]}
    true = float(np.mean([level == "a" for level in table["k"]]))
    held = 0
    for i in range(300):
        release = share.release(table, rng=seed + i)
        low, high = release.interval[0]
        assert 0 <= low <= release.value[0] <= high <= 1
        held += low <= true <= high
    assert held / 300 >= 0.95 - 4 * np.sqrt(0.95 * 0.05 / 300)


def test_the_preview_of_a_private_number_of_rows_is_the_error_found(seed):
    share = ShareMechanism(ADDED, "k", levels=["a", "c"], epsilon=1)
    full = {"age": [1] * 1000, "k": ["a"] * 1000}
    counts = share.source.noise.sample(20_000, rng=seed) + np.array([1000, 0])
    errors = counts[:, 0] / counts.sum(axis=1) - 1
    assert errors.std() == pytest.approx(share.preview().std[0], rel=0.1)
    assert share.release(full, rng=seed).names == share.preview().names


def test_a_number_is_no_text_among_several_of_its_value():
    """As in a cell: "1" and "01" are told apart by their letters, and 1 is neither of them."""
    facts = tdp.Schema({"k": tdp.Category(["1", "01", "x"], other="x")}, rows=4)
    for level in (1, 1.0, True, "1.0"):
        with pytest.raises(ParameterError, match="`levels` must be a list of some of"):
            RowsWhere(facts, "k", levels=[level])
    cells = {"k": ["1", "01", "x", "1"]}
    assert RowsWhere(facts, "k", levels=["1"]).measure(cells) == [2]
    assert RowsWhere(facts, "k", levels=["01"]).measure(cells) == [1]
