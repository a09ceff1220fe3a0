"""The clamp, and what one record can do: nothing beyond the declared body, whatever its cells."""

from __future__ import annotations

import inspect
import math
from fractions import Fraction
from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given, settings
from hypothesis import strategies as st

import tightdp as tdp
from tightdp.data import column_moments, histograms, statistics
from tightdp.data.column_moments import SumsAndRows, SumsAndSquares
from tightdp.data.histograms import Histogram, JointHistogram
from tightdp.data.regression_moments import Moments
from tightdp.data.statistics import Counts, Products, Statistic, Sums
from tightdp.errors import ParameterError

NAN, INF = math.nan, math.inf
EXTREME = [NAN, INF, -INF, 1e308, -1e308, 5e-324, -5e-324, -0.0, 0.0, 2.0**63, 1e16]
CELLS = st.sampled_from(EXTREME) | st.floats()

# --- the clamp -----------------------------------------------------------------------------------


@st.composite
def intervals(draw: st.DrawFn) -> tdp.Interval:
    """Any interval that is accepted: far from zero, huge, or as narrow as floats allow."""
    finite = st.floats(allow_nan=False, allow_infinity=False)
    low = draw(finite)
    near = st.integers(1, 50).map(lambda steps: low + steps * math.ulp(low))
    high = draw(finite | near)
    assume(low < high)
    missing = draw(st.none() | st.floats(low, high))
    try:
        return tdp.Interval(low, high, missing)
    except ParameterError:
        assume(False)
        raise


def plainly(rule: tdp.Interval, cell: float, bits: int) -> int:
    """The rule, a cell at a time: clamp, scale to [-1, 1], round to the grid half up."""
    value = rule.missing if math.isnan(cell) else min(max(cell, rule.low), rule.high)
    scaled = min(max((value - rule.middle) / rule.half, -1.0), 1.0)
    return math.floor(scaled * 2.0**bits + 0.5)


@settings(max_examples=400)
@given(rule=intervals(), bits=st.integers(1, 26), cells=st.lists(CELLS, max_size=12))
def test_the_clamp_in_few_passes_is_the_clamp_a_cell_at_a_time(rule, bits, cells):
    cells = [*cells, *EXTREME, rule.low, rule.high, rule.middle, rule.missing]
    cells += [math.nextafter(rule.low, -INF), math.nextafter(rule.high, INF)]
    found = rule.quantize(np.array(cells), bits)
    assert found.tolist() == [plainly(rule, cell, bits) for cell in cells]
    assert np.abs(found).max() <= 2**bits


@given(rule=intervals(), bits=st.integers(1, 26), cells=st.lists(CELLS, min_size=1, max_size=12))
def test_laws_of_the_clamp(rule, bits, cells):
    array = np.array(cells)
    found = rule.quantize(array, bits)
    assert (rule.quantize(rule.clamp(array), bits) == found).all()  # clamping twice is once
    assert (rule.quantize(array[::-1], bits)[::-1] == found).all()  # a cell knows no other cell
    known = np.sort(array[~np.isnan(array)])
    assert (np.diff(rule.quantize(known, bits)) >= 0).all()  # it keeps the order
    inside = rule.clamp(array)
    assert ((inside >= rule.low) & (inside <= rule.high)).all()
    np.testing.assert_array_equal(array, np.array(cells))  # the data are left alone


@given(cells=st.lists(st.floats(-4, 4), min_size=1), bits=st.integers(1, 26))
def test_the_grid_is_within_half_a_step(cells, bits):
    found = tdp.Interval(-1, 3).quantize(np.array(cells), bits)
    for cell, point in zip(cells, found.tolist(), strict=True):
        exact = (Fraction(min(max(cell, -1.0), 3.0)) - 1) / 2 * 2**bits
        assert abs(point - exact) <= Fraction(1, 2) + Fraction(1, 2**20)


# --- one record ----------------------------------------------------------------------------------

COLUMNS = {
    "x": tdp.Interval(-2, 6),
    "y": tdp.Interval(0, 1, missing=1),
    "j": tdp.Category([1, 2, 3], other=1),
    "k": tdp.Category(["a", "b"], other="b"),
}
BUILD: dict[str, tuple[type[Statistic], Any]] = {
    "sums": (Sums, lambda s: Sums(s, ["x", "y"])),
    "marginals": (Counts, lambda s: Counts(s, ["j", "k"])),
    "table": (Counts, lambda s: Counts(s, ["j:k"])),
    "products": (Products, lambda s: Products(s, ["x", "y", "x:y"])),
    "within": (Products, lambda s: Products(s, ["k", "x:k"])),
    "squares": (SumsAndSquares, lambda s: SumsAndSquares(s, ["x", "y"])),
    "moments": (Moments, lambda s: Moments(s, ["x"], "y")),
    "histogram": (Histogram, lambda s: Histogram(s, "x", [-2, 0, 1, 6])),
    "joint": (JointHistogram, lambda s: JointHistogram(s, ["x", "k"], [[-2, 0, 1, 6], None])),
    "rows": (SumsAndRows, lambda s: SumsAndRows(s, ["x"])),
}
CASES = [
    (name, neighbors)
    for name in BUILD
    for neighbors in ("replace-one", "add-remove")
    if (name, neighbors) != ("rows", "replace-one")  # refused: the number of rows is public
]
ROW = st.tuples(
    CELLS,
    CELLS,
    st.sampled_from([1, 2, 3, 4, None, NAN, -INF, "1", "many"]),
    st.sampled_from(["a", "b", "c", "", None, 7]),
)


def test_every_statistic_is_in_the_table():
    def below(kind: type) -> set[type]:
        return {kind}.union(*map(below, kind.__subclasses__()))

    homes = [module.__name__ for module in (statistics, column_moments, histograms)]
    here = {kind for kind in below(Statistic) if kind.__module__ in homes} | {Moments}
    built = {kind for kind in here if not inspect.isabstract(kind)}
    assert built == {kind for kind, _ in BUILD.values()}


def build(name: str, neighbors: str) -> Statistic:
    return BUILD[name][1](tdp.Schema(COLUMNS, rows=20, neighbors=neighbors, bits=12))


def measure(statistic: Statistic, rows: list[tuple[Any, ...]], bits: int) -> np.ndarray:
    table = {name: [row[i] for row in rows] for i, name in enumerate(COLUMNS)}
    scaled = statistic.measure(table, bits=bits)
    return np.array(scaled, dtype=np.float64) / statistic.resolution(bits)


@pytest.mark.parametrize(("name", "neighbors"), CASES)
def test_one_record_moves_nothing_outside_the_declared_body(name, neighbors):
    """Raw cells in, end to end: a record changed to any extreme, or one more, or one fewer."""
    statistic = build(name, neighbors)
    hull = statistic.sensitivity_space().hull()
    largest = 0.0

    @settings(max_examples=60)
    @given(rows=st.lists(ROW, max_size=6), old=ROW, new=ROW, bits=st.sampled_from([1, 5, 12]))
    def law(rows, old, new, bits):
        nonlocal largest
        before = [*rows, old]
        after = [*rows, new] if neighbors == "replace-one" else rows
        move = measure(statistic, before, bits) - measure(statistic, after, bits)
        gauges = hull.gauge(np.stack([move, -move]))
        assert (gauges <= 1 + 1e-9).all()
        largest = max(largest, *gauges)

    law()
    # planted fault: a body four fifths as large is left
    assert largest > 0.8 or not statistic.sensitivity_space().exact


def test_bounds_read_off_the_data_would_be_left():
    """What the rule protects from: scaling by the largest cell lets one record move all others."""
    x = np.full(1000, 1.0)
    neighbor = np.append(x[1:], 1e9)
    moved = abs((x / x.max()).sum() - (neighbor / neighbor.max()).sum())
    assert moved > 2  # while the declared body says 2
    statistic = Sums(tdp.Schema({"x": tdp.Interval(-1, 1)}, rows=1000), ["x"])
    change = np.subtract(statistic.measure({"x": x}), statistic.measure({"x": neighbor}))
    assert abs(change[0]) <= 2 * statistic.schema.resolution
