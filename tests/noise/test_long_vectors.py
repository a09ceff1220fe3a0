"""Samplers whose work grows with the entries alone have the laws that enumeration gives."""

from __future__ import annotations

import itertools
import math
from fractions import Fraction

import mpmath
import numpy as np
import pytest
from scipy.stats import chisquare

from tightdp.errors import ParameterError
from tightdp.exact.lattice_bodies import RoundBody
from tightdp.exact.lattice_body import BoxBody
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.log_concave import Counted, LogConcaveLaw
from tightdp.exact.long_vectors import box_draws, histogram_draws, level_law, total_law
from tightdp.exact.round_draws import RoundLaw
from tightdp.exact.undecided_bits import below_exp
from tightdp.exact.uniform_points import subsets
from tightdp.randomness import SeededSource

LEVEL = 1e-6


def law_p_value(body, rate, z, radius):
    """Chi-square of the points within a cube, against weights exp(-rate * level)."""
    points = np.array(list(itertools.product(range(-radius, radius + 1), repeat=body.dim)))
    if isinstance(body, HistogramBody):
        points = points[points.sum(axis=1) == 0]
    weight = np.exp(-float(rate) * body.level(points).astype(float))
    place = {tuple(point): i for i, point in enumerate(points.tolist())}
    near = z[(np.abs(z) <= radius).all(axis=1)]
    seen = np.bincount([place[tuple(row)] for row in near.tolist()], minlength=len(points))
    expected = weight / weight.sum() * len(near)
    often = expected > 10
    if not often.all():
        seen = np.append(seen[often], seen[~often].sum())
        expected = np.append(expected[often], expected[~often].sum())
    return chisquare(seen, expected).pvalue


CASES = [
    (HistogramBody(2), Fraction(1, 3), 20),
    (HistogramBody(3), Fraction(1), 8),
    (HistogramBody(5), Fraction(2), 3),
    (BoxBody([1]), Fraction(1, 2), 12),
    (BoxBody([2] * 2), Fraction(1), 12),
    (BoxBody([1] * 3), Fraction(3), 4),
    (RoundBody(2), Fraction(1, 2), 12),
    (RoundBody(3), Fraction(1), 7),
    (RoundBody(4), Fraction(2), 3),
]


def draws(body, rate, size, seed):
    if isinstance(body, HistogramBody):
        return histogram_draws(body.dim, rate)(size, SeededSource(seed))
    if isinstance(body, BoxBody):
        return box_draws(body.dim, int(body.half[0]), rate)(size, SeededSource(seed))
    return RoundLaw(body.dim, rate).draw(size, SeededSource(seed))


@pytest.mark.parametrize(("body", "rate", "radius"), CASES, ids=repr)
def test_laws_are_those_of_enumeration(body, rate, radius, seed):
    z = draws(body, rate, 20_000, seed)
    assert law_p_value(body, rate, z, radius) > LEVEL
    # the planted fault: a rate that is wrong by 10 %
    assert law_p_value(body, rate * Fraction(11, 10), z, radius) < LEVEL


def test_the_last_window_of_a_round_ball_has_the_law_too(seed):
    law = RoundLaw(2, Fraction(1), rare=-1.0)
    assert law.weights[-1] > sum(law.weights) / 10
    z = law.draw(600, SeededSource(seed))
    assert law_p_value(RoundBody(2), law.rate, z, 3) > LEVEL


@pytest.mark.parametrize("dim", [10, 300])
def test_round_noise_has_the_length_of_its_law(dim, seed):
    """On a fine lattice |z| is Gamma(dim) with the rate of the noise: mean and variance."""
    law = RoundLaw(dim, Fraction(1, 1 << 12))
    z = law.draw(4_000, SeededSource(seed)).astype(float)
    size = np.sqrt((z * z).sum(axis=1)) / (1 << 12)
    assert abs(size.mean() - dim) < 5 * math.sqrt(dim / 4_000)
    assert abs(size.var() / dim - 1) < 5 * math.sqrt((2 + 6 / dim) / 4_000)
    # entries are alike, and have no sign
    assert abs((z**2).mean(axis=0) / (z**2).mean() - 1).max() < 6 * math.sqrt(3 / 4_000)
    assert abs(z.mean(axis=0)).max() < 6 * z.std() / math.sqrt(4_000)


@pytest.mark.parametrize("filtered", [True, False])
def test_totals_are_exact_with_and_without_floats(filtered, seed, monkeypatch):
    law = total_law(3, Fraction(1))
    if not filtered:  # every coin in integers
        monkeypatch.setattr(law, "_error", lambda t: np.full(len(t), np.inf))
    drawn = law.draw(20_000 if filtered else 400, SeededSource(seed))
    weight = np.array([math.exp(-t) * math.comb(t + 2, 2) ** 2 for t in range(60)])
    expected = weight / weight.sum() * len(drawn)
    last = int(np.flatnonzero(expected > 10)[-1])
    seen = np.bincount(np.minimum(drawn, last + 1), minlength=last + 2)
    expected = np.append(expected[: last + 1], expected[last + 1 :].sum())
    assert chisquare(seen, expected).pvalue > LEVEL


def test_floats_follow_the_exact_ratios_within_their_bound():
    for cells, rate in [(2, 5), (10, 1), (1000, 1), (1000, Fraction(1, 1 << 12)), (30, 20)]:
        law = total_law(cells, Fraction(rate))
        around = law.mode + np.array([-6, -2, -1, 0, 1, 3, 9]) * math.ceil(law.spread)
        for t in np.unique(np.maximum(around, 0)).tolist():
            exact = law.counted.exact(t)
            near = float(law.counted.logs(np.array([t]))[0])
            log = math.log(exact.numerator) - math.log(exact.denominator)
            far = abs(t - law.mode) / law.spread
            # logarithms of long integers err themselves by a few parts in 2**52
            room = 4 * 2.0**-52 * (1 + math.log(max(exact.numerator, exact.denominator)))
            assert abs(near - log) <= law.counted.error * (1 + far) + room


def test_tails_of_a_law_are_drawn(seed):
    """Cells that end too early: blocks that halve their weights take over."""
    counted = Counted(
        lambda t: 2 * np.log1p((t - 2) / 3.0), 2.0**-40, lambda t: Fraction(t + 1, 3) ** 2
    )
    law = LogConcaveLaw(Fraction(1, 2), 2, 0.5, counted)  # its spread is 3.5
    drawn = law.draw(2_000, SeededSource(seed)).astype(np.int64)
    weight = np.array([math.exp(-t / 2) * (t + 1) ** 2 for t in range(300)])
    edges = np.array([0, 2, 4, 6, 8, 10, 13])
    share = np.add.reduceat(weight, edges) / weight.sum()
    seen = np.histogram(drawn, [*edges, 10**9])[0]
    assert chisquare(seen, share * len(drawn)).pvalue > LEVEL


@pytest.mark.parametrize(("places", "size"), [(8, 6), (60, 5), (7, 7)])
def test_subsets_are_uniform(places, size, seed):
    rows = subsets(np.full(20_000, places), size, SeededSource(seed))
    assert (np.diff(rows, axis=1) > 0).all()
    if places > size:
        seen = np.bincount(rows.ravel(), minlength=places)
        # every place is in a set with the chance size / places; counts are less than independent
        assert chisquare(seen).pvalue > LEVEL
    pairs = rows[:, 0] * places + rows[:, -1]
    first = [math.comb(b - a - 1, size - 2) for a in range(places) for b in range(a + 1, places)]
    keys = [a * places + b for a in range(places) for b in range(a + 1, places)]
    chance = np.array(first, dtype=float) / math.comb(places, size)
    often = chance * len(rows) > 10
    seen = np.array([np.count_nonzero(pairs == key) for key in keys])
    seen, share = seen[often], chance[often]
    if len(seen) > 1:
        rest = len(rows) - seen.sum()
        table = np.append(seen, rest), np.append(share, 1 - share.sum()) * len(rows)
        ok = table[1] > 0
        assert chisquare(table[0][ok], table[1][ok]).pvalue > LEVEL


def test_integers_within_are_uniform_and_refuse_long_bounds(seed):
    rng = SeededSource(seed)
    drawn = rng.integers_within(np.array([7, 1, 3]), 20_000)
    assert drawn[1].max() == 0
    assert chisquare(np.bincount(drawn[0], minlength=7)).pvalue > LEVEL
    assert chisquare(np.bincount(drawn[2], minlength=3)).pvalue > LEVEL
    for bad in (0, -1, (1 << 32) + 1):
        with pytest.raises(ParameterError):
            rng.integers_within(np.array([bad]), 2)


def test_coins_with_growing_exponentials():
    for word, x, den in [(1 << 63, -1, 5), (1 << 62, -3, 90), ((1 << 64) - 1, -2, 8)]:
        truth = word / 2**64 < math.exp(-x) / den
        assert below_exp(word, Fraction(x), SeededSource(1), den=den) == truth


# --- bounds that proofs rest on -------------------------------------------------------------------


@pytest.mark.parametrize("dim", [3, 128, 1024])
@pytest.mark.parametrize("fineness", [100, 10**5])
def test_no_row_of_a_round_ball_is_kept_more_often_than_always(dim, fineness):
    """Rows whose entries are the least of their cells, at both ends of every window."""
    rate = Fraction(1, fineness)
    law = RoundLaw(dim, rate)
    assert law.feasible
    for k, (sigma, m) in enumerate(law.tables):
        low, high = law.squares[k : k + 2]
        table = law.table(sigma, m, math.sqrt(high))
        assert table.total <= 1 << 32
        assert -table.first * m > math.isqrt(high)
        for square in (low, high - 1):
            c = int(math.sqrt(square / dim) / m)
            a = np.arange(0, dim + 1, max(1, dim // 128))  # so many entries are one cell further
            sizes = (a * (c + 1) ** 2 + (dim - a) * c * c) * m * m
            a, sizes = a[inside := (sizes >= low) & (sizes < high)], sizes[inside]
            level = np.ceil(np.sqrt(sizes.astype(float)))
            heights = a * table.logs[c + 1 - table.first] + (dim - a) * table.logs[c - table.first]
            free = dim * math.log(table.total * m) + law.places * math.log(2)
            logs = free - math.log(law.weights[k]) - heights - float(rate) * level
            assert logs.max(initial=-1.0) < 0


FINE = [
    *(("histogram", cells, 1, 10**k) for cells in (2, 5, 20, 600) for k in (0, 4, 6)),
    *(("box", dim, half, 10**k) for dim in (3, 50) for half in (1, 1 << 20) for k in (0, 4)),
    *(("box", dim, 1 << 40, Fraction(1, 50)) for dim in (3, 31, 64)),
]


@pytest.mark.parametrize(("kind", "dim", "half", "fineness"), FINE)
def test_totals_and_levels_are_bounded_from_one_end_to_the_other(kind, dim, half, fineness):
    """Errors of floats in cells, and chances to be kept in cells and beyond, to 200 bits."""
    rate = 1 / Fraction(fineness)
    box = kind == "box"
    law = level_law(dim, half, rate) if box else total_law(dim, rate)
    assert law.feasible
    first, last = int(law._edges[0]), int(law._edges[-1])
    with mpmath.workprec(200):

        def number(t):
            """ln N(t)."""
            if box:
                return dim * mpmath.log(2 * half * t + 1)
            return 2 * (mpmath.loggamma(t + dim) - mpmath.loggamma(t + 1))

        start = number(law.mode)
        near = {first, first + 1, first + 3, first + 17, first + 1000, law.mode, law.mode + 1, last}
        near |= set(law._edges[:: max(1, len(law._edges) // 40)].tolist())
        for t in sorted(t for t in near if t <= last):
            off = abs(float(law.counted.logs(np.array([t]))[0]) - (number(t) - start))
            assert off <= law.counted.error * (1 + abs(t - law.mode) / law.spread)

        def log_keep(t, cell, block):
            weight = (
                number(t) - start - mpmath.mpf(rate.numerator) / rate.denominator * (t - law.mode)
            )
            share = mpmath.mpf(law._sizes[cell]) / law._weights[cell]
            return weight + mpmath.log(share) + (law._places + block) * mpmath.log(2)

        for cell in range(0, len(law._edges) - 1, 1 if box else 3):
            a, b = (int(edge) for edge in law._edges[cell : cell + 2])
            for t in {a, b - 1, min(max(law.mode, a), b - 1)}:
                assert log_keep(t, cell, 0) <= 0
        for cell in (len(law._edges) - 1, len(law._edges)):
            if law._weights[cell]:
                for block, place in itertools.product((0, 1, 7, 60), (0, law._lengths[cell] - 1)):
                    t = law._far(cell, block, int(place))
                    assert t < 0 or log_keep(t, cell, block) <= 0


def test_what_floats_cannot_follow_is_not_drawn_by_them():
    for law in (total_law(20, Fraction(1, 10**9)), total_law(2, Fraction(1, 10**12))):
        assert not law.feasible
