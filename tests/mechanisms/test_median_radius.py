"""Radii around released geometric medians: what they rest on, their losses, their coverage."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.errors import ParameterError
from tightdp.mechanisms.median_radius import MedianRadius, _first_rise, _spread, _tail
from tightdp.randomness import source


def median_of(rows):
    found = rows.mean(axis=0)
    for _ in range(400):  # Weiszfeld
        weight = 1 / np.maximum(np.linalg.norm(rows - found, axis=1), 1e-12)
        found = weight @ rows / weight.sum()
    return found


def test_the_spread_is_below_the_curvature_of_every_line(seed):
    rng = np.random.default_rng(seed)
    for dim in (1, 2, 3, 6):
        gaps = rng.integers(-1000, 1001, (dim, 200))
        second = (gaps @ gaps.T).astype(float)
        eigenvalues = np.linalg.eigvalsh(second)
        exact = eigenvalues.sum() - (eigenvalues**8).sum() ** 0.125
        assert _spread(gaps, 10) == pytest.approx(exact, rel=1e-9, abs=1.5)
        assert _spread(gaps, 10) <= eigenvalues[:-1].sum() + 1e-6
    assert _spread(np.zeros((2, 0), dtype=np.int64), 3) == 0
    assert _spread(np.full((3, 9), 7), 3) <= 0  # rows on one line hold nothing


def test_one_row_moves_the_spread_by_its_square_at_most(seed):
    """And both numbers, in sixteenths of a row, by no more than the noise is made for."""
    rng = np.random.default_rng(seed)
    for _ in range(100):
        dim = int(rng.integers(1, 4))
        gaps = rng.integers(-50, 51, (dim, int(rng.integers(1, 6))))
        more = np.append(gaps, rng.integers(-50, 51, (dim, 1)), axis=1)
        change = _spread(more, 10) - _spread(gaps, 10)
        assert 0 <= change <= int((more[:, -1] ** 2).sum())
        reach = math.isqrt(int((more[:, -1] ** 2).sum())) + 1
        steps = [_spread(g, 10) * 16 // reach**2 for g in (gaps, more)]
        assert 0 <= steps[1] - steps[0] <= 16


@pytest.mark.parametrize("dim", [1, 2, 4, 6, 64])
def test_the_longest_gaps_do_not_wrap(dim):
    """As many rows as one likes, as far away as the finest grid allows: one still adds its own."""
    bits = (53 - dim.bit_length()) // 2
    square = 1 << 2 * bits
    for count in (1023, 4095, 4096, 20_000):
        gaps = np.full((dim, count), 1 << bits)
        gaps[: dim // 2] *= -1
        assert _spread(gaps, bits) in (0, -1)  # all on one line
        aside = gaps.copy()
        aside[0, -1] *= -1  # one row leaves the line, if there is a second column
        assert 0 <= _spread(aside, bits) - _spread(gaps[:, :-1], bits) <= dim * square + 1


def test_a_radius_that_cannot_be_paid_for_is_refused_before_payment():
    schema = tdp.Schema({"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1)}, rows=50)
    with pytest.raises(ParameterError, match="`epsilon` must lie in"):
        tdp.KNormGeometricMedian(schema, epsilon=2.0**-39, interval="sample")
    with pytest.raises(ParameterError, match="`bits`"):
        MedianRadius(Fraction(1), replaced=True, persons=1, dim=1, bits=27)


def test_noise_tails_and_the_rise_are_on_the_safe_side():
    law = tdp.Geometric(epsilon=0.5, sensitivity=16)
    rate = 0.5 / 16
    for miss in (0.1, 1e-3, 1e-9):
        x = _tail(law, miss)
        assert math.exp(-rate * (x + 1)) / (1 + math.exp(-rate)) <= miss
    for most, least in ((3.0, 100.0), (1e-9, 5.0), (49.9, 100.0), (0.0, 1.0)):
        u = _first_rise(most, least)
        assert most <= least * (1 - (1 + u) ** -2) / 2 <= most * 1.0001 + 1e-12
    assert _first_rise(50.0, 100.0) == math.inf
    assert _first_rise(1.0, -5.0) == math.inf


def test_the_slope_rises_as_fast_as_the_radius_says(seed):
    """Along every line the sum of distances has the slope that the spread promises."""
    rng = np.random.default_rng(seed)
    for dim in (2, 3, 5):
        rows = rng.normal(0.2, 1.0, (50, dim))
        gradient = np.linalg.norm((rows / np.linalg.norm(rows, axis=1)[:, None]).sum(axis=0))
        reach = np.quantile(np.linalg.norm(rows, axis=1), 0.7)
        near = rows[np.linalg.norm(rows, axis=1) <= reach]
        values = np.linalg.eigvalsh(near.T @ near)
        spread = (values.sum() - (values**8).sum() ** 0.125) / reach**2
        for u in (0.01, 0.3, 1.0, 4.0):
            v = rng.normal(size=dim)
            place = u * reach * v / np.linalg.norm(v)
            gaps = place - rows
            slope = (gaps / np.linalg.norm(gaps, axis=1)[:, None]).sum(axis=0) @ place
            least = -gradient + spread * (1 - (1 + u) ** -2) / 2
            assert slope / (u * reach) >= least - 1e-9


def test_shares_of_epsilon_add_up():
    law = MedianRadius(Fraction(1), replaced=True, persons=1, dim=2, bits=3)
    spent = 2 * law._rate
    for noise, moved in ((law._gradient, 32), (law._spread, 16)):
        assert noise.sensitivity == moved
        spent += Fraction(*noise.rate) * moved
    assert spent == 1
    schema = tdp.Schema({"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1)}, rows=50)
    plain, both = (
        tdp.KNormGeometricMedian(schema, epsilon=1, interval=i) for i in ("none", "sample")
    )
    assert both.rate * 2 == plain.rate


@pytest.mark.slow_for("add-remove")
@pytest.mark.parametrize("neighbors", ["replace-one", "add-remove"])
def test_radii_cover_the_sample_median(neighbors, seed):
    rng = np.random.default_rng(seed)
    rows = np.round(rng.normal([2.0, 7.0], 0.7, (600, 2)), 3)
    schema = tdp.Schema(
        {"a": tdp.Interval(0, 10), "b": tdp.Interval(0, 10)}, rows=600, neighbors=neighbors
    )
    mechanism = tdp.KNormGeometricMedian(schema, epsilon=20, interval="sample")
    truth, table, hits = median_of(rows), {"a": rows[:, 0], "b": rows[:, 1]}, []
    for i in range(25):
        release = mechanism.release(table, confidence=0.8, rng=seed + i)
        away = np.linalg.norm((release.value[:2] - truth) / 5)
        hits.append(away <= release["radius"] + 1e-4)  # and a step of the grid of rows
        assert release["radius"] < 0.1  # not vacuous
    assert np.mean(hits) >= 0.8 - 5 * 0.4 / 5


def test_a_radius_without_its_gradient_misses(seed):
    """Power: if the gradient at the point is ignored, points far from the median are trusted."""
    rng = np.random.default_rng(seed)
    gaps = (rng.normal(0.3, 0.2, (2, 500)) * 2**16).astype(np.int64)  # the median is 0.3 away
    law = MedianRadius(Fraction(20), replaced=True, persons=1, dim=2, bits=17)
    units = gaps / np.sqrt((gaps**2).sum(axis=0))
    level = Fraction(float(np.linalg.norm(units.sum(axis=1))))
    away = np.linalg.norm(median_of(gaps.T.astype(float)))
    assert law.draw(gaps, level, 0.0, 0.01, source(seed)) >= away
    assert law.draw(gaps, Fraction(0), 0.0, 0.01, source(seed)) < away


def test_one_column_is_refused_an_interval_before_payment():
    """It was always the whole range, for half of epsilon."""
    schema, ledger = tdp.Schema({"a": tdp.Interval(0, 1)}, rows=50), tdp.Ledger(epsilon=1)
    with pytest.raises(ParameterError, match="KNormMedian"):
        tdp.KNormGeometricMedian(schema, epsilon=1, interval="sample")
    model = tdp.GeometricMedian(1, (0, 10), interval="sample", ledger=ledger)
    with pytest.raises(ParameterError, match="KNormMedian"):
        model.fit(np.linspace(1, 9, 41)[:, None])
    assert ledger.spent.epsilon == 0


def test_rows_that_hold_nothing_have_no_interval(seed):
    line = np.linspace(1, 9, 41)
    model = tdp.GeometricMedian(5, (0, 10), interval="sample", random_state=seed)
    ends = model.fit(np.column_stack([line, line])).conf_int()
    assert np.isnan(ends).all()
    assert model.release_.unknown == model.release_.names
    assert np.isnan(model.release_.half_width).all()
    assert "[" not in str(model.release_).partition("epsilon")[0]  # no interval is printed
    assert model.location_.shape == (2,)


def test_intervals_must_be_asked_for(seed):
    X = np.random.default_rng(seed).uniform(0, 1, (50, 2))
    with pytest.raises(ParameterError, match="paid for"):
        tdp.GeometricMedian(1, (0, 1)).fit(X).conf_int()
    with pytest.raises(ParameterError, match="`interval`"):
        tdp.GeometricMedian(1, (0, 1), interval="population").fit(X)
    schema = tdp.Schema({"a": tdp.Interval(0, 1), "b": tdp.Interval(0, 1)}, rows=50)
    release = tdp.KNormGeometricMedian(schema, epsilon=1).release({"a": X[:, 0], "b": X[:, 1]})
    with pytest.raises(ParameterError, match="ask for it"):
        tdp.KNormGeometricMedian.conf_int(release)
