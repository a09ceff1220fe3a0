"""The geometric median by the K-norm gradient mechanism: exact levels, audits, draws, bad input."""

from __future__ import annotations

import itertools
import math
import time
from fractions import Fraction

import numpy as np
import pytest
from lattice_fit import chi_square

from tightdp.errors import InfeasibleSamplingError, ParameterError
from tightdp.exact.box_sampling import BoxSampler
from tightdp.mechanisms.gradient_median import (
    PLACES,
    DirectionLevels,
    KNormGeometricMedian,
)
from tightdp.randomness import source
from tightdp.schema import Category, Interval, Schema

UNIT = Interval(-1, 1)


def mechanism(rows, columns=2, *, bits=4, neighbors="replace-one", **options):
    facts = {f"x{j}": UNIT for j in range(columns)}
    schema = Schema(facts, rows=rows, bits=bits, neighbors=neighbors)
    return KNormGeometricMedian(schema, **{"epsilon": 1, "grid": 3, **options})


def integers(rows, bits=4):
    return np.rint(np.clip(np.atleast_2d(rows), -1, 1) * 2**bits).astype(np.int64)


def plain_level(mech, rows, z):
    """The level by its definition, in Python integers."""
    total, here = [0] * len(z), 0
    for row in integers(rows, mech.schema.bits):
        if (steps := mech.grid - mech.schema.bits) >= 0:
            places = [int(x) << steps for x in row]
        else:  # rounded to the lattice, halves up
            places = [math.floor(Fraction(int(x), 1 << -steps) + Fraction(1, 2)) for x in row]
        gaps = [v - x for v, x in zip(z, places, strict=True)]
        square = sum(g * g for g in gaps)
        here += square == 0
        for j, gap in enumerate(gaps):
            if square:
                size = math.isqrt((gap * gap << 2 * PLACES) // square)
                total[j] += size if gap > 0 else -size
    return max(0, math.isqrt(sum(t * t for t in total)) - (here << PLACES))


def law(mech, rows, rate=None):
    levels = mech.levels(integers(rows, mech.schema.bits))
    points = levels.points()
    found = np.array([levels.level(z) for z in points], dtype=float)
    logs = -float(mech.rate if rate is None else rate) * (found - found.min())
    return points, logs - math.log(np.exp(logs).sum())


def loss(mech, first, second, rate=None):
    return float(np.abs(law(mech, first, rate)[1] - law(mech, second, rate)[1]).max())


ROWS = [[-1, -0.5], [-0.5, 0.25], [0.125, 0.125], [0.125, 0.125], [0.6, 0.9], [1, 1]]


def test_levels_are_those_of_the_definition(seed):
    rng = np.random.default_rng(seed)
    for bits, grid, dim in ((4, 3, 2), (3, 5, 2), (4, 4, 1), (2, 2, 3)):
        mech = mechanism(9, dim, bits=bits, grid=grid)
        rows = rng.uniform(-1.2, 1.2, (9, dim))
        levels = mech.levels(integers(rows, bits))
        for z in rng.integers(-(2**grid), 2**grid + 1, (40, dim)).tolist():
            assert levels.level(tuple(z)) == plain_level(mech, rows, z)


def test_bounds_hold_on_every_box(seed):
    rng = np.random.default_rng(seed)
    for dim, edge in ((2, 16), (3, 4)):
        levels = DirectionLevels(integers(rng.normal(size=(25, dim)) / 3), bits=4, grid=4)
        for _ in range(60):
            ends = np.sort(rng.integers(-edge, edge + 1, (2, dim)), axis=0)
            low, high = (tuple(map(int, e)) for e in ends)
            least, most, _ = levels.bounds(None, low, high)
            sides = (range(a, b + 1) for a, b in zip(low, high, strict=True))
            inner = [levels.level(z) for z in itertools.product(*sides)]
            assert least <= min(inner)
            assert max(inner) <= most


@pytest.mark.slow_for("2-replace-one")
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
@pytest.mark.parametrize("dim", [1, 2])
def test_no_pair_of_neighbours_loses_more_than_epsilon(dim, neighbors, seed):
    rng = np.random.default_rng(seed)
    mech = mechanism(5, dim, neighbors=neighbors)
    worst = broken = 0.0
    for _ in range(15):
        ends = [[-1] * dim, [1] * dim, [0] * dim, rng.uniform(-2, 2, dim)]
        rest = [ends[i] for i in rng.integers(4, size=4)]
        pair = [*rest, ends[0]], [*rest, ends[1]] if neighbors == "replace-one" else rest
        worst = max(worst, loss(mech, *pair))
        broken = max(broken, loss(mech, *pair, rate=mech.rate * Fraction(5, 2)))
    assert worst <= 1 + 1e-9
    assert broken > 1  # the audit has power


@pytest.mark.slow_for("20-4-False", "4-3-False")
@pytest.mark.parametrize(
    ("epsilon", "grid", "wrong"), [(4, 3, False), (20, 4, False), (12, 3, True)]
)
def test_draws_follow_the_enumerated_law(epsilon, grid, wrong, seed):
    mech = mechanism(len(ROWS), epsilon=epsilon, grid=grid)
    points, logs = law(mech, ROWS)
    rate = mech.rate * Fraction(5, 4) if wrong else mech.rate
    bits, levels = source(seed), mech.levels(integers(ROWS))
    samplers = [BoxSampler(levels, rate) for _ in range(10)]  # each cuts in its own way
    p = chi_square(points, logs, lambda i: samplers[i % 10].draw(bits), 3000)
    assert p < 1e-5 if wrong else p > 1e-5


def in_looks(**options):
    """One column, three looks of nine points each."""
    return mechanism(len(ROWS), 1, epsilon=4, grid=4, most_points=9, **options)


def law_of_looks(mech, rows, shares=None):
    """Log probabilities of all last answers, summed over the answers before."""
    rows = integers(rows, mech.schema.bits)
    chances = {None: 1.0}
    for i, look in enumerate(mech.looks):
        found = {}
        share = look.epsilon if shares is None else shares[i]
        for before, chance in chances.items():
            levels = mech.levels(rows, i, before)
            points = levels.points()
            size = np.array([levels.level(z) for z in points], dtype=float)
            mass = np.exp(-float(share / (2 * mech.sensitivity)) * (size - size.min()))
            for point, p in zip(points, chance * mass / mass.sum(), strict=True):
                found[point] = found.get(point, 0.0) + p
        chances = found
    points = sorted(chances)
    return points, np.log([chances[point] for point in points])


COLUMN = [[row[0]] for row in ROWS]


def test_looks_are_public_small_and_share_epsilon():
    for columns, rows, epsilon in itertools.product((1, 2, 3, 4), (5, 10**4, 10**6), (0.1, 1, 50)):
        for options in ({}, {"grid": 20}, {"grid": 9, "interval": "sample"}):
            if columns == 1 and "interval" in options:
                continue
            mech = mechanism(rows, columns, epsilon=epsilon, bits=16, **{"grid": None, **options})
            assert sum(look.epsilon for look in mech.looks) * mech.parts == mech.epsilon
            assert all(look.epsilon > 0 for look in mech.looks)
            assert mech.looks[-1].epsilon * mech.parts >= mech.epsilon / 2
            assert mech.grid == options.get("grid", mech.grid)
            points = [
                (2 * (1 << look.grid if look.half is None else look.half) + 1) ** columns
                for look in mech.looks
            ]
            assert max(points) <= max(1 << 17, min(1 << 23, (1 << 37) // rows))
            assert [look.half is None for look in mech.looks] == [True] + [False] * (
                len(mech.looks) - 1
            )
            for before, look in itertools.pairwise(mech.looks):  # four steps of the look before
                assert look.half >= 2 << (look.grid - before.grid)


@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_looks_together_lose_no_more_than_epsilon(neighbors, seed):
    rng, mech = np.random.default_rng(seed), in_looks(neighbors=neighbors)
    assert len(mech.looks) == 3
    worst = broken = 0.0
    whole = [mech.epsilon] * 3  # a planted fault: every look spends all of it
    for _ in range(12):
        rest = [[x] for x in rng.choice([-1.0, -0.25, 0.0, 0.5, 1.0], 5)]
        for pair in ([[-1.0], [1.0]], [[-0.2], [1.0]]):
            tables = [[*rest, pair[0]], [*rest, pair[1]]]
            if neighbors == "add-remove":
                tables[1] = rest
            for shares in (None, whole):
                logs = [law_of_looks(mech, table, shares)[1] for table in tables]
                found = float(np.abs(logs[0] - logs[1]).max())
                worst, broken = (
                    (max(worst, found), broken) if shares is None else (worst, max(broken, found))
                )
    assert worst <= 4 + 1e-9
    assert broken > 4


@pytest.mark.parametrize("wrong", [False, True])
def test_draws_in_looks_follow_the_enumerated_law(wrong, seed):
    mech = in_looks()
    shares = [look.epsilon * 2 for look in mech.looks] if wrong else None
    points, logs = law_of_looks(mech, COLUMN, shares)
    table, bits = {"x0": np.array(COLUMN)[:, 0]}, source(seed)
    p = chi_square(points, logs, lambda i: tuple(mech.release(table, rng=bits).integers), 600)
    assert p < 1e-5 if wrong else p > 1e-5


def test_a_value_that_most_rows_share_is_the_median(seed):
    rows = [[0.25, -0.5]] * 60 + [[-0.75, 0.5]] * 40
    mech = mechanism(100, epsilon=4, grid=4)
    points, logs = law(mech, rows)
    assert points[int(np.argmax(logs))] == (4, -8)
    assert mech.levels(integers(rows)).level((4, -8)) == 0  # 60 rows hold against 40


def test_rows_along_an_axis_need_no_slow_path(seed):
    values = np.random.default_rng(seed).integers(-16, 17, 30_000)
    levels = DirectionLevels(values[:, None], bits=4, grid=4)
    start = time.process_time()
    found = levels.level((3,))
    assert time.process_time() - start < 0.2
    below, at = int((values < 3).sum()), int((values == 3).sum())
    assert found == max(0, abs(2 * below + at - 30_000) - at) << PLACES


def test_large_epsilon_finds_the_geometric_median(seed):
    rng = np.random.default_rng(seed)
    rows = rng.normal([0.2, -0.1], 0.2, (500, 2))
    guess = rows.mean(axis=0)
    for _ in range(200):  # Weiszfeld
        weight = 1 / np.linalg.norm(rows - guess, axis=1)
        guess = weight @ rows / weight.sum()
    mech = mechanism(500, epsilon=500, bits=12, grid=None)
    release = mech.release({"x0": rows[:, 0], "x1": rows[:, 1]}, rng=seed)
    assert release.value == pytest.approx(guess, abs=5e-3)


@pytest.mark.parametrize("epsilon", [1e-6, 1, 1e3])
@pytest.mark.parametrize("rows", [[[0.5, 0.5]], [[0.25, -0.5]] * 50, [[np.nan, 9]] * 3])
def test_odd_tables_and_budgets_give_a_release(rows, epsilon, seed):
    rows = np.array(rows)
    release = mechanism(len(rows), epsilon=epsilon, grid=None).release(
        {"x0": rows[:, 0], "x1": rows[:, 1]}, rng=seed
    )
    assert (np.abs(release.value) <= 1).all()
    assert str(release.guarantee.numerics) == "exact"


def test_bad_parameters_are_named():
    with pytest.raises(ParameterError, match="1 to 4 columns"):
        mechanism(5, 7)
    with pytest.raises(ParameterError, match="`grid`"):
        mechanism(5, grid=30)
    with pytest.raises(InfeasibleSamplingError, match=r"`most_points` = 80 .* has 81"):
        mechanism(5, most_points=80)
    with pytest.raises(ParameterError, match="`most_points` belong to"):
        mechanism(5, most_points=81, sampler="mcmc")
    with pytest.raises(ParameterError, match="`epsilon`"):
        mechanism(5, epsilon=math.nan)
    with pytest.raises(ParameterError, match="must be an Interval"):
        KNormGeometricMedian(Schema({"k": Category(["a", "b"], other="a")}, rows=3), epsilon=1)
