"""Counts of several columns at once."""

from __future__ import annotations

import numpy as np
import pandas as pd
import polars as pl
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError

SCHEMA = tdp.Schema(
    {
        "x": tdp.Interval(0, 10),
        "y": tdp.Interval(-1, 1),
        "k": tdp.Category(["a", "b", "c"], other="a"),
    },
    rows=500,
)


def rows(seed: int) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(seed)
    return {
        "x": rng.uniform(-1, 11, 500),
        "y": rng.uniform(-1, 1, 500),
        "k": rng.choice(["a", "b", "c"], 500),
    }


@pytest.mark.parametrize("kind", [dict, pd.DataFrame, pl.DataFrame])
def test_every_engine_counts_what_numpy_counts(kind, seed):
    table = rows(seed)
    cells = tdp.JointHistogram(SCHEMA, ["k", "x", "y"], [None, 4, [-1, 0.5, 1]])
    assert cells.shape == (3, 4, 2)
    x, y = np.clip(table["x"], 0, 10), table["y"]
    expected = [
        np.histogram2d(x[table["k"] == level], y[table["k"] == level], [4, [-1, 0.5, 1]],
                       [[0, 10], [-1, 1]])[0]
        for level in "abc"
    ]  # fmt: skip
    assert cells.measure(kind(table)) == np.ravel(expected).astype(int).tolist()


def test_one_column_is_the_histogram(seed):
    table = rows(seed)
    for bins in (5, [0, 1, 7, 10]):
        joint, plain = tdp.JointHistogram(SCHEMA, ["x"], bins), tdp.Histogram(SCHEMA, "x", bins)
        assert joint.names == plain.names
        assert joint.measure(table) == plain.measure(table)
        np.testing.assert_array_equal(joint.edges[0], plain.edges)


def test_one_row_moves_one_cell_or_two(seed):
    """Every change of one row is in the sensitivity space, and reaches its boundary."""
    table = rows(seed)
    cells = tdp.JointHistogram(SCHEMA, ["x", "k"], 3)
    before, hull = np.array(cells.measure(table)), cells.sensitivity_space().hull()
    gauges = []
    for i in range(20):
        other = {name: column.copy() for name, column in table.items()}
        other["x"][i], other["k"][i] = table["x"][i + 20], table["k"][i + 20]
        gauges.append(float(hull.gauge(np.array(cells.measure(other)) - before)))
    assert max(gauges) == pytest.approx(1)
    assert cells.touched() == 2
    private = tdp.Schema(SCHEMA.columns, rows=500, neighbors="add-remove")
    assert tdp.JointHistogram(private, ["x", "k"], 3).touched() == 1


def test_outer_edges_are_moved_to_the_bounds():
    edges = tdp.Histogram(SCHEMA, "x", [2.0, 5.0, 8.0]).edges
    assert edges.tolist() == [0.0, 5.0, 10.0]
    with pytest.raises(ParameterError, match="within the bounds"):
        tdp.Histogram(SCHEMA, "x", [-5.0, -2.0, 8.0])


def test_facts_tell_edges_apart_that_names_round_alike():
    one, other = (
        tdp.JointHistogram(SCHEMA, ["x"], [0, 5 + shift, 10]) for shift in (1e-3, 1.001e-3)
    )
    assert one.parameters != other.parameters


@pytest.mark.parametrize(
    ("columns", "bins", "text"),
    [
        ("x", 3, "list"),
        ([], 3, "list"),
        (["x", "x"], 3, "distinct"),
        (["x", "z"], 3, "'z'"),
        (["x", "y"], [3], "one entry for each"),
        (["x", "y"], [3, 1], "bins"),
        (["x", "y"], 2000, "at most"),
        (["x"], 0.5, "bins"),
    ],
)
def test_bad_input(columns, bins, text):
    with pytest.raises(ParameterError, match=text):
        tdp.JointHistogram(SCHEMA, columns, bins)


def test_a_matrix_is_read_by_the_order_of_the_whole_schema(seed):
    """A histogram of one column took the matrix for a table of that column, after the payment."""
    rng = np.random.default_rng(seed)
    schema = tdp.Schema({name: tdp.Interval(0, 1) for name in "abc"}, rows=20)
    matrix = rng.uniform(size=(20, 3))
    mapping = dict(zip("abc", matrix.T, strict=True))
    for statistic in (
        tdp.Histogram(schema, "b", 4),
        tdp.JointHistogram(schema, ["c", "a"], 2),
    ):
        assert statistic.measure(matrix) == statistic.measure(mapping)
