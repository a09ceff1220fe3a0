"""Clamp, totals and products: bounded changes, and integers that never overflow or round."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tightdp.data.blocks import Totals, exact_gram
from tightdp.data.one_pass import integer_sums, quantized_matrix
from tightdp.errors import ParameterError
from tightdp.schema import Interval, Schema

NAN, INF = math.nan, math.inf


# --- clamp and sensitivity -----------------------------------------------------------------------

EXTREMES = st.sampled_from([NAN, INF, -INF, -0.0, 0.0, 1e308, -1e308, 5e-324, 2.0**63])


@given(
    low=st.floats(-1e6, 1e6),
    width=st.floats(1e-6, 1e9),
    bits=st.integers(1, 26),
    cells=st.lists(st.floats() | EXTREMES, min_size=1, max_size=20),
    extreme=st.floats() | EXTREMES,
)
def test_one_record_moves_a_sum_by_at_most_the_interval(low, width, bits, cells, extreme):
    schema = Schema({"x": Interval(low, low + width)}, rows=20, bits=bits)
    table, neighbor = np.array(cells)[:, None], np.array([*cells[:-1], extreme])[:, None]

    def total(array):
        return integer_sums(array, schema, ["x"], lambda b: np.array([b["x"].sum()]), width=1)[0]

    matrix = quantized_matrix(table, schema, ["x"])
    assert np.abs(matrix).max() <= schema.resolution
    assert abs(total(table) - total(neighbor)) <= 2 * schema.resolution
    rows = quantized_matrix(neighbor, schema, ["x"])
    assert total(table) - total(neighbor) == matrix[-1, 0] - rows[-1, 0]


@pytest.mark.parametrize("largest", [3, 2**33, 2**61, 2**62])
def test_totals_are_exact_at_every_size(largest: int, seed: int) -> None:
    rng, totals, expected = np.random.default_rng(seed), Totals(5), [0] * 5
    for _ in range(9):
        vector = rng.integers(-largest, largest, 5)
        totals.add(vector)
        expected = [a + int(b) for a, b in zip(expected, vector, strict=True)]
        assert totals.values() == expected
    totals.add(np.array([2**70] * 5, dtype=object))
    assert totals.values() == [a + 2**70 for a in expected]


def test_totals_do_not_overflow():
    schema = Schema({"x": Interval(0, 1)}, rows=5, bits=26)
    table = {"x": np.ones(5000)}
    most = integer_sums(table, schema, ["x"], lambda b: 2 * (b.matrix().T @ b.matrix())[0], width=1)
    assert most == [2 * 5000 * 2**52]  # 2**65.3
    totals = Totals(2)
    totals.add(np.array([2**64 - 1, 1], dtype=np.uint64))
    totals.add(np.array([-(10**30), 5], dtype=object))
    assert totals.values() == [2**64 - 1 - 10**30, 6]


@pytest.mark.parametrize(
    ("degree", "n"),
    [
        *((degree, 100_000) for degree in (0, 1, 2)),
        (3, 1_000),
        pytest.param(3, 100_000, marks=pytest.mark.slow),  # two rows at a time
    ],
)
def test_blocks_are_small_enough_for_the_degree(degree, n):
    schema = Schema({"x": Interval(0, 1)}, rows=5, bits=20)
    seen = []

    def reducer(block):
        seen.append(len(block))
        return np.array([2 * (block["x"] ** degree).sum()])

    sums = integer_sums({"x": np.ones(n)}, schema, ["x"], reducer, width=1, degree=degree)
    assert sums == [2 * n * 2 ** (20 * degree)]
    assert max(seen) * 2 * 2 ** (20 * degree) <= 2**62
    with pytest.raises(ParameterError, match="do not fit 64 bits"):
        integer_sums({"x": np.ones(1)}, schema, ["x"], reducer, width=1, degree=4)


@pytest.mark.parametrize(
    ("bits", "rows"), [(1, 1), (16, 70_000), (20, 8192), (20, 8193), (24, 300), (26, 2), (26, 5000)]
)
@pytest.mark.parametrize("sign", [1, -1])
def test_gram_is_exact(bits, rows, sign, seed):
    draw = np.random.default_rng(seed)
    matrix = draw.integers(-(2**bits), 2**bits, size=(rows, 3), endpoint=True)
    matrix[:, 0] = sign * 2**bits - sign * (np.arange(rows) % 2)  # the largest odd and even squares
    found = exact_gram(matrix, bits)
    want = matrix.astype(object).T @ matrix.astype(object)
    assert found.tolist() == want.tolist()


def test_a_gram_that_rounds_is_caught():
    matrix = np.full((65_536, 1), 2**24 - 1)
    rounded = matrix.astype(np.float64).T @ matrix.astype(np.float64)
    assert int(rounded[0, 0]) != 65_536 * (2**24 - 1) ** 2
    assert exact_gram(matrix, 24)[0, 0] == 65_536 * (2**24 - 1) ** 2
    large = exact_gram(np.full((3, 1), 2**26), 26)
    assert large.dtype == np.int64
    assert large[0, 0] == 3 * 2**52
    assert exact_gram(np.empty((0, 2), dtype=np.int64), 16).tolist() == [[0, 0], [0, 0]]
