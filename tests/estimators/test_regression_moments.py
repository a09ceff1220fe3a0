"""Regression moments: exact sums, bodies that hold every change, an exact audit of the split."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.regression_moments import RegressionMoments, measured
from tightdp.errors import ParameterError, TightdpError, UncoveredMoveError
from tightdp.estimators.linear import LinearRegression
from tightdp.mechanisms.split_mechanism import SplitMechanism
from tightdp.randomness import SeededSource
from tightdp.shaping.moment_noise import MomentNoise, Part, choose_noise
from tightdp.shaping.nuclear_part import NuclearPart, regression_part

NUMERIC = {f"x{j}": tdp.Interval(-1, 1) for j in range(3)}
MIXED = {
    "a": tdp.Interval(0, 4),
    "k": tdp.Category(["u", "v", "w"], other="u"),
    "b": tdp.Interval(-3, 1),
    "l": tdp.Category([1, 2], other=1),
}
TARGET = {"y": tdp.Interval(-6, 6)}
CASES = list(itertools.product([NUMERIC, MIXED, {"k": MIXED["k"]}], [False, True], [False, True]))


def moments_of(facts, joint=False, square=True, rows=500):
    schema = tdp.Schema({**facts, **TARGET}, rows=rows)
    return RegressionMoments(schema, list(facts), "y", joint=joint, square=square)


def table(facts, rng, rows=500):
    columns = {
        name: rng.uniform(column.low, column.high, rows)
        if isinstance(column, tdp.Interval)
        else rng.choice(np.array(column.levels, dtype=object), rows)
        for name, column in facts.items()
    }
    return {**columns, "y": rng.uniform(-6, 6, rows)}


def design(facts, columns):
    parts = [np.ones(len(columns["y"]))]
    for name, column in facts.items():
        if isinstance(column, tdp.Interval):
            parts.append((columns[name] - column.middle) / column.half)
        else:
            parts += [(columns[name] == level) * 1.0 for level in column.levels[1:]]
    return np.column_stack([*parts, columns["y"] / 6])


@pytest.mark.parametrize(("facts", "joint", "square"), CASES)
def test_sums_and_the_way_back(facts, joint, square, seed):
    rng = np.random.default_rng(seed)
    moments, columns = moments_of(facts, joint, square), table(facts, rng)
    exact = np.array(moments.measure(columns)) / moments.resolution(moments.schema.bits)
    Z = design(facts, columns)
    expected = Z.T @ Z / 500
    if not square:
        expected[-1, -1] = np.nan
    # a cell is rounded by at most 2**-17, a mean of products by at most twice that
    np.testing.assert_allclose(moments.matrices(exact / 500), expected, atol=2**-15)


@pytest.mark.parametrize(("facts", "joint", "square"), CASES)
@pytest.mark.parametrize("kind", ["triangle", "cylinder", "box"])
def test_bodies_hold_every_change_and_a_smaller_body_does_not(facts, joint, square, kind, seed):
    # A10: random and extreme neighbours never leave the body; one 20 % smaller is left (A32)
    moments = moments_of(facts, joint, square)
    image, rng = moments.sensitivity_space()._image, SeededSource(seed)
    rows = np.vstack([image.rows(20_000, rng, extreme=extreme) for extreme in (True, False)])
    images = image.images(rows)
    change = images - images[rng.integers(len(images), len(images))]
    for part in moments.parts:
        gauge = moments.ball(part, kind).gauge(change[:, moments.where(part)])
        assert gauge.max() <= 1 + 1e-12
        assert moments.ball(part, kind).scaled(0.8).gauge(change[:, moments.where(part)]).max() > 1


@pytest.mark.parametrize(("facts", "joint"), [(NUMERIC, False), (MIXED, False), (MIXED, True)])
def test_audit_of_the_split(facts, joint, seed):
    """The largest log ratio between neighbours is sum rate_i level_i(change), attained at t'."""
    epsilon = Fraction(3, 4)
    moments = moments_of(facts, joint)
    shares = [Fraction(1, len(moments.parts))] * len(moments.parts)
    mechanism = SplitMechanism(
        moments,
        [Part(p, moments.ball(p), s) for p, s in zip(moments.parts, shares, strict=True)],
        epsilon=epsilon,
    )
    image, rng = moments.sensitivity_space()._image, SeededSource(seed)
    images = image.images(image.rows(4_000, rng, extreme=True)) * mechanism.resolution
    change = (images - images[rng.integers(len(images), len(images))]).astype(np.int64)
    loss = np.zeros(len(change))
    for name, noise in zip(moments.parts, mechanism.noises, strict=True):
        levels = noise.body.level(change[:, moments.where(name)])
        loss += float(noise.rate) * levels.astype(np.float64)
    assert loss.max() <= float(epsilon) * (1 + 1e-12)
    assert loss.max() >= 0.7 * float(epsilon)
    assert loss.max() / 0.7 >= float(epsilon)  # the audit sees noise cut by 30 %


def test_every_entry_is_noised_and_variances_are_as_stated(seed):
    moments = moments_of(MIXED)
    mechanism = SplitMechanism(
        moments, [Part(p, moments.ball(p), Fraction(1, 3)) for p in moments.parts], epsilon=1
    )
    draws = mechanism.simulate(4_000, rng=seed)
    ratio = draws.var(axis=0) / np.diag(mechanism.covariance)
    assert np.abs(ratio - 1).max() < 0.25  # 5 s.e. of a variance of heavy tails
    assert np.abs((0.8 * draws).var(axis=0) / np.diag(mechanism.covariance) - 1).min() > 0.25 - 0.2


def test_a22_cylinder_noise_on_the_lattice(seed):
    # A22: mean variance 856.6 per entry at p = 5, epsilon = 1
    facts = {f"x{j}": tdp.Interval(-1, 1) for j in range(5)}
    moments = moments_of(facts, joint=True, square=False)
    part = Part("moments", moments.ball("moments", "cylinder"), Fraction(1))
    mechanism = SplitMechanism(moments, [part], epsilon=1)
    squares = (mechanism.simulate(20_000, rng=seed) ** 2).mean(axis=1)
    error = squares.std() / np.sqrt(len(squares))
    assert abs(squares.mean() - 856.6) < 5 * error
    assert abs(0.9**2 * squares.mean() - 856.6) > 5 * error  # a scale wrong by 10 %


@pytest.mark.parametrize(
    ("shares", "dims"),
    [([1, 1, 1], None), ([Fraction(1, 2), 0, Fraction(1, 2)], None), ([Fraction(1, 2)], None)],
)
def test_bad_shares_are_refused(shares, dims):
    moments = moments_of(NUMERIC)
    parts = [
        Part(p, moments.ball(p), Fraction(s)) for p, s in zip(moments.parts, shares, strict=False)
    ]
    with pytest.raises(ParameterError):
        SplitMechanism(moments, parts, epsilon=1)


def test_keys_tell_requests_apart(seed):
    def asked(ball=None, facts=NUMERIC, target=6.0):
        schema = tdp.Schema({**facts, "y": tdp.Interval(-target, target)}, rows=50)
        moments = RegressionMoments(schema, list(facts), "y", joint=True, square=False)
        ball = moments.ball("moments", "box") if ball is None else ball
        return SplitMechanism(moments, [Part("moments", ball, Fraction(1))], epsilon=1)

    size = len(asked().statistic)
    uneven = [tdp.LpBall(size, np.inf, [2.0] * (size - 1) + [last]) for last in (2.0, 4.0)]
    swapped = tdp.LpBall(size, np.inf, [4.0] + [2.0] * (size - 1))
    requests = [asked(ball) for ball in (*uneven, swapped)] + [asked(target=6.0000001)]
    described = {m.fingerprint() for m in requests}
    assert len(described) == 4
    # the stored release of another shape is refused, not returned
    ledger = tdp.Ledger(epsilon=5)
    columns = table(NUMERIC, np.random.default_rng(seed), rows=50)
    requests[1].release(columns, ledger=ledger, key="fit")
    with pytest.raises(TightdpError):
        requests[2].release(columns, ledger=ledger, key="fit")
    assert ledger.spent.epsilon == 1


def test_a_wrong_number_of_rows_is_refused_unpaid(seed):
    ledger = tdp.Ledger(epsilon=5)
    mechanism = LinearRegression(bounds=(-6, 6))._mechanism
    schema = tdp.Schema({**NUMERIC, **TARGET}, rows=50)
    problem = LinearRegression(bounds=schema)._problem(
        table(NUMERIC, np.random.default_rng(seed), rows=50), "y"
    )
    short = table(NUMERIC, np.random.default_rng(seed), rows=49)
    with pytest.raises(ParameterError, match="49 rows"):
        mechanism(problem).release(short, ledger=ledger)
    assert ledger.spent.epsilon == 0


def test_a25_an_extreme_record_moves_the_sums_no_further_than_declared(seed):
    # A25 / E12: bounds are public, so one record of 1e6 is clamped; with bounds from the data
    # the same record moves the sums by thousands
    rng = np.random.default_rng(seed)
    moments = moments_of({"x": tdp.Interval(-3, 3)}, rows=10_000)
    rows = {"x": rng.standard_normal(10_000), "y": rng.standard_normal(10_000)}
    other = {name: column.copy() for name, column in rows.items()}
    other["x"][0], other["y"][0] = 1e6, -1e6
    unit = moments.resolution(moments.schema.bits)
    change = (np.array(moments.measure(rows)) - np.array(moments.measure(other))) / unit
    for part in moments.parts:
        assert moments.ball(part).gauge(change[moments.where(part)]) <= 1 + 1e-12

    def scaled_by_data(x):
        low, high = x.min(), x.max()
        z = 2 * (x - low) / (high - low) - 1
        return np.array([z.sum(), 2 * (z**2).sum()])

    assert np.abs(scaled_by_data(rows["x"]) - scaled_by_data(other["x"])).max() > 1000


def test_one_body_of_private_rows_and_categorical_targets_are_refused():
    schema = tdp.Schema({**NUMERIC, **TARGET}, rows=9, neighbors="add-remove")
    with pytest.raises(ParameterError, match="joint=False"):
        RegressionMoments(schema, list(NUMERIC), "y", joint=True).sensitivity_space()
    with pytest.raises(ParameterError, match="target"):
        RegressionMoments(tdp.Schema(MIXED, rows=9), ["a"], "k")


def test_no_share_depends_on_who_measured_a_body_first():
    """Bodies are shared: what one caller measures of them is nothing that another one relies on."""
    schema = tdp.Schema({c: tdp.Interval(-1, 1) for c in "abcd"}, rows=100)
    moments = RegressionMoments(schema, list("abc"), "d", joint=True)
    quick = measured(moments.ball("moments")).second_moment.value
    precise = moments.ball("moments").second_moment.value  # of the same shared body
    again = measured(moments.ball("moments")).second_moment.value
    np.testing.assert_array_equal(quick, again)
    assert not np.array_equal(quick, precise)


# --- nuclear noise --------------------------------------------------------------------------------


def _wide(features: int, noise: str = "best") -> MomentNoise:
    names = [f"x{j}" for j in range(features)]
    schema = tdp.Schema(dict.fromkeys([*names, "y"], tdp.Interval(-1, 1)), rows=5000)
    return choose_noise(schema, names, "y", noise, Fraction(1), square=True)


def _with_categories() -> tuple[RegressionMoments, NuclearPart]:
    levels = tdp.Category(["a", "b", "c"], other="a")
    facts = {
        "x": tdp.Interval(0, 1),
        "k": levels,
        "u": tdp.Interval(-3, 2),
        "y": tdp.Interval(0, 9),
    }
    moments = RegressionMoments(tdp.Schema(facts, rows=50), ["x", "k", "u"], "y", joint=True)
    return moments, regression_part("moments", moments, 1.5)


def test_wide_regressions_take_nuclear_noise_and_say_so() -> None:
    for features in (8, 12, 30):
        chosen = _wide(features)
        assert isinstance(chosen.parts[0], NuclearPart)
        assert f"nuclear ball of {features + 2} x {features + 2} matrices" in chosen.words
    assert "with nuclear noise, not drawn beyond 32 rows" in _wide(32).words


def test_nuclear_noise_covers_rows_with_categories() -> None:
    moments, part = _with_categories()
    made = SplitMechanism(moments, [part], epsilon=1)
    assert part.reach == 2 * (1 + 3 + Fraction(9, 4))  # a category counts once
    assert made.certified == "by structure"
    scale = Fraction(made.resolution) * part.reach
    assert made.noises[0].sensitivity == scale


def test_a_reach_that_is_too_short_is_refused() -> None:
    moments, part = _with_categories()
    short = replace(part, reach=part.reach * Fraction(7, 10))
    with pytest.raises(UncoveredMoveError):
        SplitMechanism(moments, [short], epsilon=1)


def test_entries_in_another_order_are_refused() -> None:
    moments, part = _with_categories()
    with pytest.raises(UncoveredMoveError):
        SplitMechanism(moments, [replace(part, entries=part.entries[::-1])], epsilon=1)


def test_nuclear_half_widths_hold_at_once(seed: int) -> None:
    moments, part = _with_categories()
    made = SplitMechanism(moments, [part], epsilon=1)
    drawn = made.noises[0].sample(300, rng=seed).astype(np.float64) / made.resolution
    half = made.half_widths(0.9) - moments.rounding(made.bits)
    share = (np.abs(drawn) <= half).all(axis=1).mean()
    assert share > 0.9 - 4.5 * math.sqrt(0.09 / 300)
    assert share < 1
