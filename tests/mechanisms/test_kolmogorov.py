"""The Kolmogorov-Smirnov sample: its law by enumeration, its privacy on every neighbouring pair."""

from __future__ import annotations

import contextlib
import itertools
import math
from collections import Counter
from fractions import Fraction

import numpy as np
import pytest
from lattice_fit import chi_square
from path_laws import compositions, law, misfit, path_weight
from scipy.stats import chi2

import tightdp as tdp
from tightdp.errors import InfeasibleSamplingError, ParameterError
from tightdp.exact import band_levels
from tightdp.exact.band_levels import BandLevels
from tightdp.exact.band_paths import BandPaths
from tightdp.exact.enclosures import exp_up
from tightdp.exact.rejection import integer_weights
from tightdp.ledger import Ledger
from tightdp.mechanisms.kolmogorov import KolmogorovSample
from tightdp.randomness import source

DRAWS = 3000


CASES = [
    ((1, 2, 1), 2, Fraction(1, 2)),
    ((0, 0, 5, 1), 3, Fraction(1, 10)),
    ((2, 0, 0, 0, 4), 4, Fraction(1, 7)),
    ((1, 1), 3, Fraction(5)),
    ((3, 3), 3, Fraction(1, 100)),
    ((6, 0, 0), 4, Fraction(1, 3)),
    ((1, 0), 40, Fraction(1, 80)),  # more points than rows
    ((0, 0, 0, 0, 0, 0, 1), 2, Fraction(1)),
    ((3, 0, 0, 3), 4, Fraction(1, 4)),  # all rows at both ends
    ((5, 1), 9, Fraction(512, 9)),
    ((1, 2, 0, 0, 1), 3, Fraction(1, 10**7)),
]


@pytest.mark.slow_for("table[0-24578]-*")
@pytest.mark.parametrize(("table", "size", "rate"), CASES)
def test_draws_follow_the_enumerated_law(table, size, rate, seed) -> None:
    levels = BandLevels(BandPaths(np.cumsum(table), size), rate)
    bits = source(seed)
    seen = Counter(tuple(map(int, levels.draw(bits))) for _ in range(DRAWS))
    assert misfit(seen, law(table, size, rate)) > 1e-5


def test_a_rate_wrong_by_a_fifth_is_caught(seed) -> None:
    """The case in which the laws differ most: noncentrality 547 of 15 cells, missed never."""
    table, size, rate = CASES[5]
    levels = BandLevels(BandPaths(np.cumsum(table), size), rate)
    bits = source(seed)
    seen = Counter(tuple(map(int, levels.draw(bits))) for _ in range(DRAWS))
    assert misfit(seen, law(table, size, rate * Fraction(5, 4))) < 1e-6


def neighbours(table: tuple[int, ...], relation: str) -> list[tuple[int, ...]]:
    out = []
    for i, j in itertools.permutations(range(len(table)), 2):
        if relation == "replace-one" and table[i]:
            moved = list(table)
            moved[i], moved[j] = moved[i] - 1, moved[j] + 1
            out.append(tuple(moved))
    if relation == "add-remove" and sum(table) > 1:
        out += [
            tuple(c - (i == j) for i, c in enumerate(table)) for j in range(len(table)) if table[j]
        ]
    return out


def worst_ratio(rows: int, cells: int, size: int, rate: Fraction, relation: str) -> float:
    worst = 0.0
    for table in compositions(rows, cells):
        here = law(table, size, rate)
        for other in neighbours(table, relation):
            there = law(other, size, rate)
            worst = max(worst, *(abs(math.log(here[c] / there[c])) for c in here))
    return worst


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize(("rows", "cells", "size"), [(6, 3, 4), (4, 5, 2), (5, 2, 4), (3, 4, 3)])
def test_every_neighbouring_pair_is_private(relation, rows, cells, size) -> None:
    epsilon = 1.0
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows, neighbors=relation)
    rate = KolmogorovSample(schema, "x", cells, epsilon=epsilon, size=size).rate
    assert worst_ratio(rows, cells, size, rate, relation) <= epsilon + 1e-9


@pytest.mark.parametrize(("cells", "size"), [(2, 5), (4, 3)])
def test_the_first_row_is_as_private_as_any_other(cells, size) -> None:
    """Under add-remove a table without rows is a neighbour; all samples are equally far from it."""
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=9, neighbors="add-remove")
    mechanism = KolmogorovSample(schema, "x", cells, epsilon=1.0, size=size)
    assert mechanism.law_on(np.zeros(cells)) is None
    for place in range(cells):
        table = tuple(int(j == place) for j in range(cells))
        here = law(table, size, mechanism.rate)
        for counts, chance in here.items():
            many = math.factorial(size) // math.prod(map(math.factorial, counts))
            assert abs(math.log(chance * cells**size / many)) <= 1.0


def test_weights_of_millions_of_steps_do_not_overflow() -> None:
    weights = integer_weights(np.zeros(1 << 21))
    assert int(np.cumsum(weights)[-1]) == sum(map(int, weights[:1])) << 21


def test_public_facts_decide_the_largest_and_the_smallest_sample() -> None:
    huge = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=10**15)
    with pytest.raises(InfeasibleSamplingError, match="size"):
        KolmogorovSample(huge, "x", 2, epsilon=1.0, size=10**4)  # n k is not a 64-bit integer
    many = tdp.Schema(
        {"x": tdp.Interval(0, 1)}, rows=1, neighbors="add-remove", person="p", rows_per_person=1000
    )
    assert KolmogorovSample(many, "x", 2, epsilon=2.0**-40).size == 1


def log_laws(tables: np.ndarray, size: int, rate: Fraction) -> np.ndarray:
    """Log probabilities of all samples (columns) for all tables (rows)."""
    samples = np.array(compositions(size, tables.shape[1]))
    rows = tables.sum(axis=1)[:, None, None]
    apart = np.abs(rows * samples.cumsum(axis=1) - size * tables.cumsum(axis=1)[:, None]).max(
        axis=2
    )
    many = [math.lgamma(size + 1) - sum(math.lgamma(c + 1) for c in row) for row in samples]
    logs = np.array(many) - float(rate) * apart
    return logs - np.log(np.exp(logs).sum(axis=1, keepdims=True))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("cells", [2, 3, 4, 5])
def test_all_small_tables_samples_and_neighbours(relation, cells) -> None:
    """n <= 6, k <= 4, up to 5 cells: no pair is left out; twice the rate is caught."""
    epsilon, caught = 1.0, 0
    for rows, size in itertools.product(range(2, 7), range(1, 5)):
        schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows, neighbors=relation)
        rate = KolmogorovSample(schema, "x", cells, epsilon=epsilon, size=size).rate
        given = compositions(rows, cells)
        pairs = [(table, other) for table in given for other in neighbours(table, relation)]
        here, there = (np.array(side) for side in zip(*pairs, strict=True))
        for factor in (1, 2):
            loss = np.abs(
                log_laws(here, size, factor * rate) - log_laws(there, size, factor * rate)
            ).max()
            caught += factor == 2 and loss > epsilon
            assert factor == 2 or loss <= epsilon + 1e-9
    assert caught > 0


def test_draws_of_all_small_sizes_follow_their_laws(seed) -> None:
    """One random table for each n <= 6, k <= 4 and 2 to 5 cells; one chi-square for all."""
    rng, bits, statistic, freedom = np.random.default_rng(seed), source(seed), 0.0, 0
    for rows, size, cells in itertools.product(range(1, 7), range(1, 5), range(2, 6)):
        table = tuple(map(int, rng.multinomial(rows, rng.dirichlet(np.ones(cells)))))
        rate = Fraction(1, 2 * size)
        levels = BandLevels(BandPaths(np.cumsum(table), size), rate)
        seen = Counter(tuple(map(int, levels.draw(bits))) for _ in range(60))
        expected = law(table, size, rate)
        # samples are joined in the order of their chances until they hold a tenth
        groups = [[0.0, 0]]
        for counts in sorted(expected, key=lambda c: expected[c]):
            if groups[-1][0] >= 0.1:
                groups.append([0.0, 0])
            groups[-1][0] += expected[counts]
            groups[-1][1] += seen[counts]
        statistic += sum((count - 60 * mass) ** 2 / (60 * mass) for mass, count in groups)
        freedom += len(groups) - 1
    assert 1e-4 < chi2.sf(statistic, freedom) < 1 - 1e-6


def test_without_the_factor_two_privacy_is_lost() -> None:
    assert worst_ratio(6, 3, 4, Fraction(1, 4), "replace-one") > 1.0


def test_the_mean_distance_of_the_errata(seed) -> None:
    """Two cells, n = 100, 80 in one, epsilon = 1: too large a sample is pulled to uniform (E35)."""
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=100)
    bits = source(seed)
    for size, mean in ((22, 0.037), (100, 0.178), (1000, 0.288)):
        levels = KolmogorovSample(schema, "x", 2, epsilon=1.0, size=size).law_on([20, 80])
        assert levels is not None
        apart = [levels.paths.distance(levels.draw(bits)) / (100 * size) for _ in range(300)]
        assert abs(np.mean(apart) - mean) <= 4 * np.std(apart) / np.sqrt(300) + 5e-4


def test_a_release_is_paid_and_close(seed) -> None:
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=20_000)
    mechanism = KolmogorovSample(schema, "x", 50, epsilon=1.0)
    rows = np.random.default_rng(seed).beta(2, 5, 20_000)
    ledger = Ledger(epsilon=1)
    release = mechanism.release({"x": rows}, ledger=ledger, key="sample")
    assert ledger.remaining.epsilon == 0
    assert mechanism.release({"x": rows}, ledger=ledger, key="sample").integers == release.integers
    points = mechanism.points(release)
    assert len(points) == mechanism.size == 142
    grid = np.linspace(0, 1, 51)
    apart = np.abs(
        np.searchsorted(np.sort(points), grid) / 142 - np.searchsorted(np.sort(rows), grid) / 20_000
    )
    assert apart.max() < 0.05


def test_a_line_stands_still_where_rows_decide_how_long_it_takes(capsys, seed) -> None:
    pytest.importorskip("tqdm")
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=200)
    mechanism = KolmogorovSample(schema, "x", 20, epsilon=1.0)
    mechanism.release({"x": np.linspace(0, 1, 200)}, rng=seed)
    assert capsys.readouterr().err == ""
    mechanism.release({"x": np.linspace(0, 1, 200)}, rng=seed, progress=True)
    assert "counting samples" in capsys.readouterr().err


@pytest.mark.parametrize("rows", [[], [0.5], [np.nan, np.inf, -np.inf]])
def test_odd_tables_give_a_sample(rows, seed) -> None:
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=3)
    mechanism = KolmogorovSample(schema, "x", 4, epsilon=1.0, size=5)
    assert sum(mechanism.release({"x": np.array(rows)}, rng=seed).integers) == 5


@pytest.mark.parametrize("epsilon", [1e-6, 1e3])
def test_extreme_budgets_draw(epsilon, seed) -> None:
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=50)
    mechanism = KolmogorovSample(schema, "x", 5, epsilon=epsilon, size=20)
    release = mechanism.release({"x": np.linspace(0, 1, 50) ** 3}, rng=seed)
    assert sum(release.integers) == 20
    if epsilon > 1:
        levels = mechanism.law_on(mechanism.statistic.measure({"x": np.linspace(0, 1, 50) ** 3}))
        assert levels is not None
        assert levels.paths.distance(np.array(release.integers)) == levels.paths.least


def test_bands_count_paths_exactly() -> None:
    paths = BandPaths(np.array([1, 4, 5, 7]), size=5)
    for distance in (paths.least, 8, 14, 35):
        inside = [
            path_weight(c) for c in compositions(5, 4) if paths.distance(np.array(c)) <= distance
        ]
        assert math.exp(paths.band(distance).log_total) == pytest.approx(float(sum(inside)))
    assert sum(path_weight(c) for c in compositions(5, 4)) == Fraction(*paths.total())


def test_proposals_are_bounded_by_their_band(seed) -> None:
    paths = BandPaths(np.array([1, 4, 5, 7]), size=5)
    band, bits = paths.band(10), source(seed)
    for _ in range(200):
        counts, above, below = paths.propose(band, bits)
        assert paths.distance(counts) <= 10
        ratio = Fraction(above, below) / exp_up(band.log_total)
        assert 1 - Fraction(1, 10**6) < ratio <= 1 + Fraction(1, 1 << 20)


@pytest.mark.parametrize(
    ("change", "error", "text"),
    [
        ({"epsilon": 0}, ParameterError, "epsilon"),
        ({"size": 0}, ParameterError, "size"),
        ({"bins": 1}, ParameterError, "bins"),
        ({"column": "k"}, ParameterError, "category"),
        ({"column": "y"}, ParameterError, "'y'"),
        ({"size": 10**5, "bins": 5000}, InfeasibleSamplingError, "smaller sample or fewer bins"),
    ],
)
def test_bad_input(change, error, text) -> None:
    facts = {"x": tdp.Interval(0, 1), "k": tdp.Category(["a", "b"], other="a")}
    given = {"column": "x", "bins": 10, "epsilon": 1.0, **change}
    with pytest.raises(error, match=text):
        KolmogorovSample(tdp.Schema(facts, rows=100), **given)


def test_points_of_a_cell_share_it_evenly(seed) -> None:
    schema = tdp.Schema({"x": tdp.Interval(0, 3)}, rows=900)
    mechanism = KolmogorovSample(schema, "x", [0, 1, 3], epsilon=1.0, size=60)
    release = mechanism.release({"x": np.linspace(0, 3, 900)}, rng=seed)
    points = mechanism.points(release, rng=seed)
    for low, high, count in zip((0, 1), (1, 3), release.integers, strict=True):
        inside = points[(points >= low) & (points < high)]
        shares = np.floor((inside - low) / (high - low) * count)
        assert shares.tolist() == list(range(count))


def test_a_release_of_another_mechanism_has_no_points(seed) -> None:
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=10)
    one = KolmogorovSample(schema, "x", 4, epsilon=1.0, size=5)
    other = KolmogorovSample(schema, "x", 4, epsilon=1.0, size=6)
    release = one.release({"x": np.zeros(10)}, rng=seed)
    with pytest.raises(ParameterError, match="same cells and size"):
        other.points(release)


@pytest.mark.parametrize("places", [[50], [0, 99], [30, 70], [0], list(range(5, 100, 10))])
@pytest.mark.parametrize("epsilon", [1.0, 20.0])
def test_the_default_size_bears_atoms(places, epsilon, seed) -> None:
    """The bound of the page, with a probability of one in a million for each of ten draws."""
    rows, cells = 1000, 100
    table = np.zeros(cells, dtype=np.int64)
    table[places] = rows // len(places)
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows)
    mechanism = KolmogorovSample(schema, "x", cells, epsilon=epsilon)
    levels, bits = mechanism.law_on(table), source(seed)
    bound = 1 / (2 * mechanism.size)
    bound += 2 / (epsilon * rows) * (mechanism.size * math.log(cells) + math.log(1e6))
    for _ in range(10):
        assert levels.paths.distance(levels.draw(bits)) / (rows * mechanism.size) <= bound


def test_atoms_need_a_smaller_sample_than_smooth_columns(seed) -> None:
    """What the page says: half of the rows at each end."""
    rows, cells = 1000, 100
    table = np.zeros(cells, dtype=np.int64)
    table[[0, -1]] = rows // 2
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows)
    found = {}
    for size in (100, None):
        mechanism = KolmogorovSample(schema, "x", cells, epsilon=1.0, size=size, most_work=1 << 50)
        levels, bits = mechanism.law_on(table), source(seed)
        apart = [levels.paths.distance(levels.draw(bits)) for _ in range(10)]
        found[mechanism.size] = np.mean(apart) / (rows * mechanism.size)
    assert found[100] == pytest.approx(0.40, abs=0.04)  # six standard errors of ten draws
    assert found[28] < 0.04


def test_ten_atoms_need_the_root(seed) -> None:
    """A share of epsilon n holds one atom or two; ten of them spread over their gaps."""
    rows, cells = 1_000_000, 1000
    table = np.zeros(cells, dtype=np.int64)
    table[50::100] = rows // 10
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=rows)
    found = {}
    for size in (10_000, None):
        mechanism = KolmogorovSample(schema, "x", cells, epsilon=1.0, size=size, most_work=1 << 50)
        levels = mechanism.law_on(table)
        found[mechanism.size] = levels.paths.distance(levels.draw(source(seed)))
        found[mechanism.size] /= rows * mechanism.size
    assert rows / (8 * math.log(cells)) > 10_000
    assert found[10_000] > 0.04
    assert found[1000] < 0.001


def test_what_is_refused_would_take_hours_and_what_is_not_takes_seconds() -> None:
    """Public facts alone: the largest sample of a million rows passes at any epsilon."""
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=1_000_000)
    for epsilon in (0.01, 0.1, 1.0, 10.0):
        options = {"epsilon": epsilon, "size": 10_000, "most_work": 1 << 62}
        assert KolmogorovSample(schema, "x", 1000, **options).size == 10_000
        with pytest.raises(InfeasibleSamplingError):
            KolmogorovSample(schema, "x", 1000, epsilon=epsilon / 100, size=1_000_000)


def test_what_passes_rounds_little_whatever_the_table() -> None:
    """The conditions of the slack of bands, and no use of the number of rows: it may be a bound."""
    mechanism = KolmogorovSample(
        tdp.Schema({"x": tdp.Interval(0, 1)}, rows=9), "x", 2, epsilon=1, size=1
    )
    few = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=1, neighbors="add-remove")
    many = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=10**12, neighbors="add-remove")
    passed = [set(), set()]
    for cells, size in itertools.product(2 ** np.arange(1, 16), 2 ** np.arange(0, 31)):
        mechanism.statistic, mechanism.size = range(cells), int(size)
        for schema, found in zip((few, many), passed, strict=True):
            mechanism.schema = schema
            with contextlib.suppress(InfeasibleSamplingError):
                mechanism._check_work()
                found.add((int(cells), int(size)))
    assert passed[0] == passed[1]
    assert {(2, 1), (2, 2**18), (1024, 2**15), (8192, 2**13)} <= passed[0]
    for cells, size in passed[0]:
        assert cells * size <= 2**29
        assert cells * size**2 <= 2**44
        assert size <= 2**18
        assert cells <= 10_000


def test_the_largest_samples_have_no_slow_fractions(seed) -> None:
    """Factorials of a million digits are never brought to lowest terms."""
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=1000, neighbors="add-remove")
    mechanism = KolmogorovSample(schema, "x", 2, epsilon=1.0, size=1 << 18, most_work=1 << 62)
    levels = mechanism.law_on([1, 0])
    assert levels is not None
    assert levels.draw(source(seed)).sum() == 1 << 18


def test_many_cells_are_stored_without_their_zeros():
    """A stored release has one variance for each cell, and comes back as it was."""
    cells = 1500
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=200)
    release = tdp.KolmogorovSample(schema, "x", cells, size=9, epsilon=1).release(
        {"x": np.linspace(0, 1, 200)}, rng=1
    )
    text = release.to_json()
    assert len(text) < 200 * cells
    again = tdp.Release.from_json(text)
    np.testing.assert_array_equal(again.covariance, release.covariance)
    assert again.integers == release.integers


@pytest.mark.parametrize("wrong", [False, True])
def test_even_blocks_have_the_law_and_few_proposals(wrong, seed):
    """The way out after many refusals, by enumeration; another rate is noticed."""
    rate, size = Fraction(1, 3), 4
    paths = BandPaths(np.array([2, 2, 5, 7]), size)
    points = [c for c in itertools.product(range(size + 1), repeat=4) if sum(c) == size]
    true = float(rate) * (1.5 if wrong else 1.0)
    logs = np.array(
        [-true * paths.distance(np.array(c)) - sum(map(math.lgamma, np.array(c) + 1.0))
         for c in points]
    )  # fmt: skip
    even, bits = BandLevels(paths, rate, even=True), source(seed)
    drawn = [tuple(even.draw(bits).tolist()) for _ in range(2000)]
    p = chi_square(points, logs - np.log(np.exp(logs).sum()), lambda i: drawn[i], len(drawn))
    assert p < 1e-5 if wrong else p > 1e-5
    for rows in ([0, 9, 9], [9, 9, 9], [1, 2, 9]):  # few proposals, whatever the rows
        even = BandLevels(BandPaths(np.array(rows), 3), rate, even=True)
        assert sum(even._trial(bits) is not None for _ in range(400)) > 400 / 30


def test_after_many_refusals_even_blocks_draw(monkeypatch, seed):
    monkeypatch.setattr(band_levels, "_PATIENCE", 0)
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=1000)
    mechanism = KolmogorovSample(schema, "x", 20, epsilon=1)
    release = mechanism.release({"x": np.repeat([0.1, 0.7], 500)}, rng=seed)
    assert release.value.sum() == mechanism.size


def test_work_beyond_what_is_accepted_is_refused():
    schema = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=10**6)
    with pytest.raises(InfeasibleSamplingError, match="most_work"):
        KolmogorovSample(schema, "x", 1000, epsilon=1, size=10_000)
    many = tdp.Schema({"x": tdp.Interval(0, 1)}, rows=10**9, neighbors="add-remove")
    assert 500 < KolmogorovSample(many, "x", 1000, epsilon=1).size < 2000  # what can be promised
