"""Books of tables: private for all neighbours, consistent, as sure as they say, refused in time."""

from __future__ import annotations

import itertools
import json
import re
from fractions import Fraction

import numpy as np
import pytest

import tightdp as tdp
from tightdp.data.table_counts import TableCounts
from tightdp.errors import ParameterError, UncoveredMoveError, UndecidedError
from tightdp.exact.lattice_body import BoxBody
from tightdp.mechanisms.joint_release import Together
from tightdp.mechanisms.table_book import Tables
from tightdp.mechanisms.table_mechanism import TableMechanism
from tightdp.noise.lattice import LatticeNoise
from tightdp.plots import plot_table
from tightdp.release import Release
from tightdp.shaping.book_l2_noise import L2BookNoise
from tightdp.shaping.book_noise import GaussianBookNoise, ShapedNoise

BOTH = ("replace-one", "add-remove")
REGIONS = ["north", "east", "south", "nobody"]
ASKED = [["region"], ["sex", "region"], ["region", ("age", [0, 18, 65, 100])]]
NOISES = {"best": 0, "cube": 0, "tables": 0, "mixed": 0, "split": 0, "l2": 0, "gaussian": 1e-6}


def schema(neighbors: str = "replace-one", rows: int = 2000, **facts) -> tdp.Schema:
    columns = {
        "age": tdp.Interval(0, 100),
        "sex": tdp.Category(["f", "m"], other="f"),
        "region": tdp.Category(REGIONS, other="north"),
    }
    return tdp.Schema(columns, rows, neighbors=neighbors, **facts)


def people(rng: np.random.Generator, rows: int = 2000) -> dict[str, np.ndarray]:
    """Three regions of very different size, and one without anybody."""
    return {
        "age": rng.uniform(0, 100, rows),
        "sex": rng.choice(["f", "m"], rows),
        "region": rng.choice(REGIONS[:3], rows, p=[0.8, 0.195, 0.005]),
    }


def counted(table: dict[str, np.ndarray]) -> np.ndarray:
    """The cells of the tables that are asked for, by hand."""
    band = np.searchsorted([18, 65], table["age"], side="right")
    region, sex = table["region"], table["sex"]
    cells = [(region == r).sum() for r in REGIONS]
    cells += [((sex == s) & (region == r)).sum() for s in "fm" for r in REGIONS]
    cells += [((region == r) & (band == b)).sum() for r in REGIONS for b in range(3)]
    return np.array(cells, dtype=float)


def book(noise: str = "best", neighbors: str = "replace-one", epsilon=1, **options) -> Tables:
    delta = NOISES[noise]
    return Tables(schema(neighbors), ASKED, noise=noise, epsilon=epsilon, delta=delta, **options)


# --- what is released -------------------------------------------------------------------------


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("noise", NOISES)
def test_without_noise_the_counts_come_back(noise, neighbors, seed):
    table = people(np.random.default_rng(seed))
    release = book(noise, neighbors, epsilon=1000).release(table, rng=seed)
    near = 4 if noise == "gaussian" else 0.6  # its sigma stops at an epsilon of 32
    np.testing.assert_allclose(release.value, counted(table), atol=near)
    assert release.names[4] == "sex[f]:region[north]"


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("noise", NOISES)
def test_tables_agree_and_have_the_public_total(noise, neighbors, seed):
    table = people(np.random.default_rng(seed))
    release = book(noise, neighbors).release(table, rng=seed)
    region = release.table("region").value
    by_sex = release.table("sex", "region").value.reshape(2, 4)
    by_age = release.table("age", "region").value.reshape(4, 3)
    np.testing.assert_allclose(by_sex.sum(axis=0), region, atol=1e-8)
    np.testing.assert_allclose(by_age.sum(axis=1), region, atol=1e-8)
    if neighbors == "replace-one":
        assert region.sum() == pytest.approx(2000, abs=1e-8)


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("noise", NOISES)
def test_errors_are_as_foreseen(noise, neighbors, seed):
    """12,000 draws: a standard deviation is told to 1 %, and a cut by 10 % is caught."""
    made = book(noise, neighbors)
    draws = np.asarray(made.book.noise.sample(12000, rng=seed), dtype=float) / made.book.resolution
    errors = made.counts.reader.tables(draws, errors=True)
    each = zip(errors, made.counts.order, strict=True)
    drawn = np.concatenate([part[:, order] for part, order in each], axis=1)
    ratio = drawn.std(axis=0) / made.preview().std
    assert (np.abs(ratio - 1) < 0.06).all()
    assert np.abs(ratio.mean() - 1) < 0.025
    assert not np.abs(0.9 * ratio.mean() - 1) < 0.025  # planted


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("noise", ["best", "cube", "l2", "gaussian"])
def test_intervals_cover(noise, neighbors, seed):
    """Of cells with anybody in them and of empty ones; of 2,000 tables of noise.

    What is missed is noise alone, which does not know the table: all cells at once in at most 5 %
    of the books, up to three standard errors, and each cell for itself.
    """
    made = book(noise, neighbors)
    draws = np.asarray(made.book.noise.sample(2000, rng=seed + 1), dtype=float)
    errors = made.counts.reader.tables(draws / made.book.resolution, errors=True)
    each = zip(errors, made.counts.order, strict=True)
    drawn = np.abs(np.concatenate([part[:, order] for part, order in each], axis=1))
    found = made.preview()
    slack = 3 * np.sqrt(0.05 * 0.95 / 2000)
    assert (drawn <= found.half_width).all(axis=1).mean() >= 0.95 - slack
    assert ((drawn <= found.alone).mean(axis=0) >= 0.95 - 1.4 * slack).all()
    short = (drawn <= 0.8 * found.alone).mean()  # planted: a fifth too short
    assert short < 0.95 - slack


def test_the_book_of_a_table_covers_the_table(seed):
    table = people(np.random.default_rng(seed))
    made, truth = book("gaussian"), counted(table)
    inside = [
        np.abs(made.release(table, rng=seed + i).value - truth) <= made.preview().alone
        for i in range(60)
    ]
    assert np.mean(inside) > 0.93
    assert np.mean(np.array(inside)[:, truth == 0]) > 0.9


# --- privacy ----------------------------------------------------------------------------------


def all_images(counts: TableCounts) -> np.ndarray:
    """What every row that there is adds."""
    names, sizes = counts.columns, counts.sides.sizes
    rows = list(itertools.product(*map(range, sizes)))
    image = counts.sensitivity_space()._image
    points = np.array([image._image(row) for row in rows]).astype(np.int64)
    table = {n: np.array([row[j] for row in rows]) for j, n in enumerate(names)}
    cells = {
        n: np.array(counts.sides.bins_of[n].edges)[table[n]]
        if n in counts.sides.bins_of
        else np.array(counts.schema[n].levels)[table[n]]
        for n in names
    }
    one = [counts.measure({n: cells[n][i : i + 1] for n in names}) for i in range(len(rows))]
    assert (points == np.array(one)).all()  # the image is what is measured
    return points


@pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")
@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("noise", NOISES)
def test_all_neighbours_of_a_small_table(noise, neighbors):
    """Brute force over all rows that can be replaced, added or removed; the bound is reached."""
    facts = schema(neighbors, rows=9)
    made = TableMechanism(facts, ASKED, noise=noise, epsilon=1, delta=NOISES[noise])
    points = all_images(made.statistic)
    moves = points
    if neighbors == "replace-one":
        first, second = np.triu_indices(len(points), 1)
        moves = points[first] - points[second]
    choice = made.book_noise
    assert choice.covers(moves * choice.factor).all()
    if isinstance(choice, GaussianBookNoise):
        lengths = [
            (moves[:, where] ** 2).sum(axis=1) / float(length)
            for where, length in zip(choice.counts.where, choice.lengths, strict=True)
        ]
        assert 0.999 < np.sum(lengths, axis=0).max() <= 1
    elif isinstance(choice, L2BookNoise):
        squares = round_squares(choice, moves)
        assert 0.995 < float(squares.max()) / choice.radius**2 <= 1
        assert choice.lattice.sensitivity == choice.radius
        assert choice.lattice.epsilon == made.epsilon == 1
    else:
        assert isinstance(choice, ShapedNoise)
        for entries, noise_of in zip(choice.entries, choice.noises, strict=True):
            levels = noise_of.body.level(moves[:, entries])
            assert levels.max() == noise_of.sensitivity
        assert sum(n.epsilon for n in choice.noises) == made.epsilon == 1


def round_squares(choice: L2BookNoise, moves: np.ndarray) -> np.ndarray:
    """Squared lengths of moves as they are measured, in Python integers."""
    wide = moves.astype(object) * np.array(choice.roots, dtype=object)
    return (wide * wide).sum(axis=1)


@pytest.mark.parametrize("neighbors", BOTH)
@pytest.mark.parametrize("sizes", [[2, 2, 2], [3, 2], [2, 4, 3]])
def test_a_round_ball_that_is_too_small_is_caught(sizes, neighbors, monkeypatch):
    """Planted: the radius is cut by a fifth, as it is used or as it is found."""
    facts = tdp.Schema(
        {f"c{j}": tdp.Category(list("abcd")[:n], other="a") for j, n in enumerate(sizes)},
        rows=50,
        neighbors=neighbors,
    )
    made = TableMechanism(facts, 2, noise="l2", epsilon=1)
    choice, points = made.book_noise, all_images(made.statistic)
    moves = points
    if neighbors == "replace-one":
        moves = (points[:, None] - points[None]).reshape(-1, points.shape[1])
    assert made.certified == "exact"
    assert choice.covers_by_structure()
    assert 0.995 < float(round_squares(choice, moves).max()) / choice.radius**2 <= 1
    drawn = LatticeNoise.__init__

    def smaller(self, body, epsilon, sensitivity, **options):
        drawn(self, body, epsilon, sensitivity * 4 // 5, **options)

    monkeypatch.setattr(LatticeNoise, "__init__", smaller)
    with pytest.raises(UncoveredMoveError):
        TableMechanism(facts, 2, noise="l2", epsilon=1)


def test_a_round_ball_of_a_wrong_plan_is_caught():
    """Planted: what structure proves depends on every multiple."""
    facts = tdp.Schema({f"c{j}": tdp.Category(["a", "b"], other="a") for j in range(3)}, rows=50)
    choice = TableMechanism(facts, 2, noise="l2", epsilon=1).book_noise
    choice.roots = (*choice.roots[:-1], choice.roots[-1] * 5 // 4)
    assert not choice.covers_by_structure()


def test_flags_of_many_columns_take_the_round_ball():
    """All tables of three of 10 flags, rows replaced: the l2 ball has less variance than others."""
    flags = {f"q{j}": tdp.Category(["no", "yes"], other="no") for j in range(10)}
    made = Tables(tdp.Schema(flags, rows=1000), 3, epsilon=1)
    found = made.compare()
    assert made.strategy == "l2"
    assert 0.86 < found.totals["l2"] / found.totals["cube"] < 0.93
    drawn = made.book.reader().tables(made.book.noise.sample(100, rng=1).astype(float), errors=True)
    each = np.concatenate(drawn, axis=1)
    total, foreseen = (each**2).sum(axis=1), made.preview()
    error = total.std() / 10
    assert abs(total.mean() - (foreseen.std**2).sum()) < 4 * error
    assert not abs(total.mean() * 0.8 - (foreseen.std**2).sum()) < 4 * error  # planted
    inside = np.abs(each) <= foreseen.alone
    assert inside.mean() >= 0.95
    assert (np.abs(each) <= foreseen.half_width).all(axis=1).mean() > 0.9


@pytest.mark.parametrize("epsilon", [30, 1000])
def test_round_noise_below_a_count_is_as_foreseen(epsilon):
    """Integers next to a law that is narrower than one count; at last nothing is left of it."""
    made = book("l2", epsilon=epsilon)
    draws = made.book.noise.sample(4000, rng=epsilon).astype(float)
    square, foreseen = draws**2, made.book.noise.covariance()
    slack = 5 * square.std(axis=0) / 4000**0.5 + 1e-3
    assert (square.mean(axis=0) <= foreseen * 1.01 + slack).all()
    assert (square.mean(axis=0) >= foreseen * 0.95 - slack).all()
    errors = made.counts.reader.tables(draws, errors=True)
    each = zip(errors, made.counts.order, strict=True)
    drawn = np.abs(np.concatenate([part[:, order] for part, order in each], axis=1))
    found = made.preview()
    assert (drawn <= found.half_width + 1e-9).all(axis=1).mean() >= 0.95
    assert ((drawn <= found.alone + 1e-9).mean(axis=0) >= 0.95).all()
    if epsilon == 1000:
        assert found.half_width.max() == 0 == np.abs(draws).max()


def test_the_level_of_drawn_noise_has_its_law():
    """Of all tables of two of 8 flags: levels are counted, point by point, and so is the total."""
    flags = {f"q{j}": tdp.Category(["no", "yes"], other="no") for j in range(8)}
    made = Tables(tdp.Schema(flags, rows=1000), 2, epsilon=1)
    (law,) = made.book.book_noise.noises
    levels = np.arange(141)
    points = np.zeros(141)  # logarithms of how many have at most a level
    for body in law.body.blocks:
        if isinstance(body, BoxBody):
            points += np.log(2 * (body.half[:, None] * levels // body.den) + 1).sum(axis=0)
        else:
            points += np.log([float(body.cells(int(level))) for level in levels])
    weight = np.exp(points - points.max())
    chance = np.diff(weight, prepend=0.0) * np.exp(-float(law.rate) * levels)
    chance /= chance.sum()
    drawn = made.book.noise.sample(10_000, rng=1)
    counts = np.bincount(law.body.level(drawn).astype(int), minlength=141)[:141]
    often = chance * len(drawn) > 20
    square = ((counts - chance * len(drawn)) ** 2 / (chance * len(drawn)))[often].sum()
    freedom = int(often.sum()) - 1
    assert square < freedom + 5 * (2 * freedom) ** 0.5
    total = sum((t**2).sum(axis=1) for t in made.book.reader().tables(drawn * 1.0, errors=True))
    error = total.std() / len(drawn) ** 0.5  # draws are independent, whatever cells share
    foreseen = (made.preview().std ** 2).sum()
    assert abs(total.mean() - foreseen) < 4 * error < 0.02 * foreseen


@pytest.mark.parametrize("noise", NOISES)
def test_a_wrong_order_of_cells_is_caught(noise, monkeypatch):
    """Planted: two entries of different parts change places after they were measured."""
    measure = TableCounts.contributions
    made = TableMechanism(schema(), ASKED, noise=noise, epsilon=1, delta=NOISES[noise])
    where = made.statistic.where
    first, last = where[0].start, where[-1].start
    if noise in ("cube", "mixed"):  # of boxes, one of the shortest and one of the longest sides
        first, last = where[1].start, where[-1].stop - 1

    def swapped(self, block, bits):
        out = measure(self, block, bits)
        out[[first, last]] = out[[last, first]]
        return out

    monkeypatch.setattr(TableCounts, "contributions", swapped)
    with pytest.raises(UncoveredMoveError):
        TableMechanism(schema(), ASKED, noise=noise, epsilon=1, delta=NOISES[noise])


@pytest.mark.parametrize("noise", ["best", "l2", "gaussian"])
def test_persons_with_several_rows_pay_for_all(noise):
    one = book(noise, "add-remove")
    many = Tables(
        schema("add-remove", person="who", rows_per_person=3),
        ASKED,
        noise=noise,
        epsilon=1,
        delta=NOISES[noise],
    )
    ratio = many.preview().std / one.preview().std
    np.testing.assert_allclose(ratio, 3, rtol=0.03)


# --- a public table -----------------------------------------------------------------------------


def publicly(noise: str, counts: list[int], **options) -> Tables:
    return Tables(
        schema(),
        ASKED,
        noise=noise,
        epsilon=1,
        delta=NOISES[noise],
        public={"region": counts},
        **options,
    )


@pytest.mark.parametrize("noise", NOISES)
def test_a_public_table_is_kept_and_rows_of_one_cell_are_covered(noise, seed):
    """Brute force over all rows that keep their region; rows that change it are not promised."""
    table = people(np.random.default_rng(seed))
    counts = [int((table["region"] == r).sum()) for r in REGIONS]
    made = publicly(noise, counts)
    release = made.release(table, rng=seed)
    np.testing.assert_allclose(release.table("region").value, counts, atol=1e-8)
    np.testing.assert_allclose(
        release.table("sex", "region").value.reshape(2, 4).sum(axis=0), counts, atol=1e-8
    )
    assert "agree in the public table of region" in str(release)
    assert "agree in the public table of region" in str(made.preview())
    mechanism = made.book
    points = all_images(mechanism.statistic)
    rows = np.array(list(itertools.product(*map(range, mechanism.sides.sizes))))
    region = rows[:, mechanism.sides.names.index("region")]
    first, second = np.triu_indices(len(points), 1)
    moves = points[first] - points[second]
    same = region[first] == region[second]
    choice = mechanism.book_noise
    assert choice.covers(moves[same] * choice.factor).all()
    if noise == "gaussian":
        lengths = [
            (moves[same][:, where] ** 2).sum(axis=1) / float(length)
            for where, length in zip(choice.counts.where, choice.lengths, strict=True)
        ]
        assert 0.99 < np.sum(lengths, axis=0).max() <= 1
    if noise == "l2":
        assert 0.99 < float(round_squares(choice, moves[same]).max()) / choice.radius**2 <= 1
    private = book(noise).preview().std
    assert (made.preview().std[:4] == 0).all()
    assert (made.preview().std[4:] < private[4:] * (1 + 1e-9)).all()


def test_what_a_public_table_may_be():
    counts = [1600, 390, 10, 0]
    with pytest.raises(ParameterError, match="counts of all 2000 rows"):
        publicly("best", [1, 2, 3, 4])
    with pytest.raises(ParameterError, match="counts of a table of the shape"):
        publicly("best", [2000])
    with pytest.raises(ParameterError, match="a mapping with public tables"):
        Tables(schema(), ASKED, epsilon=1, public=["region"])
    with pytest.raises(ParameterError, match="replace-one"):
        Tables(schema("add-remove"), ASKED, epsilon=1, public={"region": counts})
    with pytest.raises(ParameterError, match="public"):
        Tables(schema(), ASKED, epsilon=1, public={"planet": counts})


@pytest.mark.parametrize("key", [3, (), ("sex", "sex"), frozenset(["sex"])])
def test_a_public_table_names_distinct_columns(key):
    with pytest.raises(ParameterError, match="must name distinct columns"):
        Tables(schema(), ASKED, epsilon=1, public={key: [[1000, 0], [0, 1000]]})


@pytest.mark.parametrize("budget", [{"epsilon": 1}, {"epsilon": 1, "delta": 1e-6}, {"rho": 1}])
def test_tables_that_are_public_are_not_released(budget):
    both = {("region", "sex"): [[1000, 600], [300, 90], [10, 0], [0, 0]]}
    with pytest.raises(ParameterError, match="nothing to release"):
        Tables(schema(), [["sex"], ["sex", "region"]], public=both, **budget)


def test_a_promise_about_some_neighbours_is_not_booked_beside_others():
    part = publicly("best", [1600, 390, 10, 0])
    assert part.given == part.source.given != ""
    with pytest.raises(ParameterError, match="must promise to all neighbours"):
        Together([part.source])
    assert Together([book().source]).given == ""


def test_a_promise_about_some_neighbours_has_a_ledger_of_its_own(seed):
    table = people(np.random.default_rng(seed))
    counts = [int((table["region"] == r).sum()) for r in REGIONS]
    part, whole = publicly("best", counts), book()
    ledger = tdp.Ledger(5)
    part.release(table, ledger=ledger, key="first")
    assert "agree in the public table of region" in str(ledger)
    part.release(table, ledger=ledger)  # its like
    with pytest.raises(ParameterError, match="Epsilons for the two do not add"):
        whole.release(table, ledger=ledger)
    assert ledger.spent.epsilon == 2
    other = tdp.Ledger(5)
    whole.release(table, ledger=other)
    with pytest.raises(ParameterError, match="Epsilons for the two do not add"):
        part.release(table, ledger=other)
    sexes = Tables(schema(), ASKED, epsilon=1, public={"sex": [999, 1001]})
    with pytest.raises(ParameterError, match="Epsilons for the two do not add"):
        sexes.release(table, ledger=ledger)


def margins(table: dict[str, np.ndarray]) -> dict[str, list[int]]:
    found = {"region": REGIONS, "sex": ["f", "m"]}
    return {name: [int((table[name] == v).sum()) for v in levels] for name, levels in found.items()}


@pytest.mark.parametrize("noise", NOISES)
def test_several_public_tables_are_kept_and_two_rows_are_hidden(noise, seed):
    """All pairs of pairs of rows that agree in both margins, by brute force."""
    table = people(np.random.default_rng(seed))
    known = margins(table)
    made = book(noise, public=known)
    release = made.release(table, rng=seed)
    both = release.table("sex", "region").value.reshape(2, 4)
    np.testing.assert_allclose(both.sum(axis=0), known["region"], atol=1e-8)
    np.testing.assert_allclose(both.sum(axis=1), known["sex"], atol=1e-8)
    assert "public tables of region; sex and differ in at most two rows" in str(made.preview())
    std = made.preview().std
    assert (std[:4] == 0).all()  # the table of regions is known
    assert (std[4:] > 0).all()  # how regions and sexes go together is not
    counts, choice = made.book.statistic, made.book.book_noise
    points, sizes = all_images(counts), made.book.sides.sizes
    rows = np.array(list(itertools.product(*map(range, sizes))))
    region, sex = (rows[:, made.book.sides.names.index(name)] for name in ("region", "sex"))
    first, second = np.triu_indices(len(rows))
    sums = points[first] + points[second]
    kept = np.column_stack(
        [np.sort(of[np.column_stack([first, second])], axis=1) for of in (region, sex)]
    )
    largest = 0.0
    for group in np.unique(kept, axis=0):
        same = np.flatnonzero((kept == group).all(axis=1))
        moves = np.concatenate([sums[same] - sums[i] for i in same])
        if noise == "gaussian":
            lengths = [
                (moves[:, where] ** 2).sum(axis=1) / float(length)
                for where, length in zip(counts.where, choice.lengths, strict=True)
            ]
            largest = max(largest, np.sum(lengths, axis=0).max())
            continue
        if noise == "l2":
            square = float(round_squares(choice, moves).max())
            largest = max(largest, square**0.5 / choice.lattice.sensitivity)
            continue
        for entries, law in zip(choice.entries, choice.noises, strict=True):
            levels = law.body.level(np.unique(moves, axis=0)[:, entries])
            largest = max(largest, float(max(levels)) / float(law.sensitivity))
    assert 0.4 < largest <= 1 + 1e-9  # planted: noise for one row would let some pass
    assert choice.rows == 2


@pytest.mark.parametrize(
    ("public", "words"),
    [
        ({"region": [1600, 390, 10, 0], ("region", "sex"): [[800, 800], [0, 390], [9, 0], [1, 0]]},
         "do not agree"),
        ([["region", [1600, 390, 10, 0]], ["region", [1600, 390, 10, 0]]], "once"),
        ([["region", [1600, 390, 10, 0], 3]], "a mapping with public tables"),
        ([[["region", ["sex"]], [1600, 390, 10, 0]]], "must name distinct columns"),
        ({"region": [1600, 390, 10, 0], "sex": [1000, 999]}, "counts of all 2000 rows"),
        ({}, "a mapping with public tables"),
    ],
)  # fmt: skip
def test_public_tables_that_cannot_be(public, words):
    with pytest.raises(ParameterError, match=words):
        Tables(schema(), ASKED, epsilon=1, public=public)


# --- how much noise ---------------------------------------------------------------------------


@pytest.mark.parametrize(("columns", "least"), [(4, 20), (8, 25)])
def test_two_way_tables_of_flags_have_a_small_part_of_laplace_noise(columns, least):
    flags = {f"q{i}": tdp.Category(["no", "yes"], other="no") for i in range(columns)}
    made = Tables(tdp.Schema(flags, rows=1000), 2, epsilon=1)
    count = columns + columns * (columns - 1) // 2
    laplace = len(made.names) * 8 * count**2
    assert made.book.certified == "exact"
    assert laplace / (made.preview().std ** 2).sum() > least
    assert made.book.resolution == 1


def test_gaussian_noise_is_taken_where_it_is_less():
    flags = {f"q{i}": tdp.Category(list("abcdefgh"), other="a") for i in range(6)}
    facts = tdp.Schema(flags, rows=1000)
    pure, lossy = (Tables(facts, 2, epsilon=1, delta=d) for d in (0, 1e-6))
    assert lossy.book.strategy == "gaussian"
    assert lossy.gap < 0.01
    assert (lossy.preview().std ** 2).sum() < (pure.preview().std ** 2).sum()
    few = tdp.Schema(dict(list(flags.items())[:1]), rows=1000)
    assert Tables(few, 1, epsilon=1, delta=1e-6).guarantee().delta == 0  # the hull is less


@pytest.mark.parametrize("neighbors", BOTH)
def test_a_budget_in_rho_buys_whole_numbers(neighbors, seed):
    made = Tables(schema(neighbors), ASKED, noise="gaussian", rho=0.05)
    assert made.book.resolution == 1
    assert made.cost.rho == Fraction(1, 20)
    assert made.guarantee().rho == 0.05
    release = made.release(people(np.random.default_rng(seed)), rng=seed)
    assert "rho = 0.05" in str(release)
    counts, noise = made.book.statistic, made.book.book_noise
    points = all_images(counts)
    first, second = np.triu_indices(len(points), 1)
    moves = points[first] - points[second] if neighbors == "replace-one" else points
    spent = [
        (moves[:, where] ** 2).sum(axis=1) / float(2 * variance)
        for where, variance in zip(counts.where, noise.variances, strict=True)
    ]
    assert 0.999 * 0.05 < np.sum(spent, axis=0).max() <= 0.05
    with pytest.raises(ParameterError, match="not both"):
        Tables(schema(), ASKED, epsilon=1, rho=1)
    with pytest.raises(ParameterError, match="must be given"):
        Tables(schema(), ASKED)


@pytest.mark.parametrize("rho", [0.01, 3, 300])
def test_whole_gaussian_noise_is_as_foreseen(rho, seed):
    """At 300 all but a few of the integers are zero."""
    made = Tables(schema(), ASKED, noise="gaussian", rho=rho)
    draws = np.asarray(made.book.noise.sample(4000, rng=seed), dtype=float)
    drawn = np.concatenate(made.counts.reader.tables(draws, errors=True), axis=1)
    found = made.preview()
    assert np.abs(drawn.std(axis=0).mean() / found.std.mean() - 1) < 0.05
    assert (np.abs(drawn) <= found.alone.max()).mean() > 0.945


def test_rivals_are_compared_at_the_same_promise():
    flags = {f"q{i}": tdp.Category(["no", "yes"], other="no") for i in range(8)}
    found = Tables(tdp.Schema(flags, rows=1000), 2, epsilon=1, delta=1e-6).compare()
    assert found.chosen == next(iter(found.totals))
    assert found.ratio("Laplace on every cell") > 25
    assert found.ratio("residual planner") > found.ratio("gaussian") * 1.96
    assert found.ratio("one Gaussian for all tables") > found.ratio("residual planner")
    exact = Tables(tdp.Schema(flags, rows=1000), 2, rho=0.1, noise="gaussian")
    own = exact.compare().totals["gaussian"]
    assert own == pytest.approx((exact.preview().std ** 2).sum(), rel=1e-9)
    assert str(exact.compare()).count("*") == 2


def test_weights_and_targets_shift_the_noise():
    even = book("gaussian").preview().std
    first = book("gaussian", weights=[100, 1, 1]).preview().std
    assert first[0] < even[0]
    assert first[-1] > even[-1]
    wished = book("gaussian", targets=[4, 8, 8]).preview().std
    missed = np.array([wished[0] / 4, wished[4] / 8, wished[-1] / 8])
    assert missed.max() / missed.min() < 1.6
    assert missed.max() < np.max([even[0] / 4, even[4] / 8, even[-1] / 8])


def test_the_epsilon_for_an_error_is_found():
    made = book()
    epsilon = tdp.epsilon_for(made, error=30)
    assert made.at(epsilon).preview().half_width.max() <= 30
    assert made.at(0.9 * epsilon).preview().half_width.max() > 30


def test_the_epsilon_for_targets_is_found():
    made = book("cube", targets=[8, 12, 12])
    assert "targets are missed by a factor of up to" in str(made.preview())
    epsilon = tdp.epsilon_for(made)
    found, less = (made.at(e).preview() for e in (epsilon, 0.9 * epsilon))
    assert (found.std <= found.targets).all()
    assert not (less.std <= less.targets).all()
    assert "targets are met" in str(found)
    np.testing.assert_array_equal(found.targets, [8] * 4 + [12] * 8 + [12] * 12)
    with pytest.raises(ParameterError, match="neither for a book of tables that has `targets`"):
        tdp.epsilon_for(book("cube"))
    with pytest.raises(ParameterError, match="Give `error`"):
        tdp.epsilon_for(made, error=1, ranks=1)


def test_what_no_budget_can_meet_says_what_is_possible():
    """On integers Gaussian noise keeps a least width, from some epsilon on."""
    made = book("gaussian")
    with pytest.raises(UndecidedError, match="cannot be met by any epsilon: at 1024") as told:
        tdp.epsilon_for(made, error=0.01)
    least, start = re.search(
        r" is ([0-9.]+), where 0.01 .* epsilon = ([0-9.]+) on", str(told.value)
    ).groups()
    possible = tdp.epsilon_for(made, error=1.02 * float(least))
    assert possible <= 1.1 * float(start) < 200
    with pytest.raises(UndecidedError, match=r"`targets` cannot be met .* the standard error of"):
        tdp.epsilon_for(book("gaussian", targets=[1e-3, 1, 1]))
    with pytest.raises(ParameterError, match="no budget makes a standard error 0"):
        book("cube", targets=[0, 1, 1])


def test_gaussian_noise_has_no_epsilon_without_a_delta() -> None:
    wished = Tables(schema(), [["sex"]], rho=1, noise="gaussian", targets=[2])
    with pytest.raises(ParameterError, match="make the book with `delta` beside `rho`"):
        tdp.epsilon_for(wished)
    assert tdp.epsilon_for(wished.rebuilt(delta=1e-6)) > 0


@pytest.mark.parametrize("noise", ["cube", "hull", "l2"])
def test_errors_below_a_count_are_met_by_noise_that_is_zero(noise):
    """Integers have no smaller error than none, and more budget never has more error."""
    asked = [["region"]] if noise == "hull" else [["sex"], ["region"]]
    spread = np.array(
        [
            Tables(schema(), asked, noise=noise, epsilon=e).preview().std.max()
            for e in (4, 16, 64, 256, 1024)
        ]
    )
    assert (np.diff(spread) <= 0).all()
    assert 0 < spread[-1] < 1e-5
    made = Tables(schema(), asked, noise=noise, epsilon=1)
    epsilon = tdp.epsilon_for(made, error=0.01)
    assert made.at(epsilon).preview().half_width.max() == 0


# --- how it is read -----------------------------------------------------------------------------


def test_whole_counts_are_not_negative_and_lie_in_their_intervals(seed):
    table = people(np.random.default_rng(seed))
    real, whole = (book(whole=flag).release(table, rng=seed) for flag in (False, True))
    assert (whole.value >= 0).all()
    assert (whole.value == np.rint(whole.value)).all()
    for columns in (["region"], ["sex", "region"], ["region", "age"]):
        assert whole.table(*columns).value.sum() == 2000
    for ours, theirs in ((whole, real), (whole.table("region"), real.table("region"))):
        cut = np.clip(theirs.interval, 0, 2000)  # of what can be; and no further than is shown
        low, high = np.minimum(cut[:, 0], ours.value), np.maximum(cut[:, 1], ours.value)
        np.testing.assert_allclose(ours.interval, np.column_stack([low, high]))


def test_an_answer_has_the_intervals_of_its_release(seed):
    """Also where the cells of the one table are what was measured."""
    table = people(np.random.default_rng(seed))
    made = Tables(schema(), [["sex", "region"]], epsilon=0.1, whole=True)
    assert made.names == made.book.statistic.names
    release = made.release(table, rng=seed)
    np.testing.assert_array_equal(made.answer(release).interval, release.interval)
    assert made.read(release) is release


def test_cells_of_all_tables_have_names_of_their_own():
    two = tdp.Category(["x", "y"], other="x")
    facts = tdp.Schema({"a": two, "a[x]:b": two, "b": two}, rows=10)
    with pytest.raises(ParameterError, match="Two entries would have the name 'a\\[x\\]:b\\[x\\]'"):
        Tables(facts, 2, epsilon=1)


@pytest.mark.parametrize("whole", [False, True])
def test_another_level_has_the_intervals_of_a_release_at_that_level(whole, seed):
    table = people(np.random.default_rng(seed))
    made = book(whole=whole, epsilon=0.1)
    low, high = (made.release(table, rng=seed, confidence=level) for level in (0.5, 0.9))
    found = made.answer(low, 0.9)
    np.testing.assert_allclose(found.interval, high.interval)
    np.testing.assert_array_equal(found.release.alone, high.alone)
    raw = made.source.release(table, rng=seed, confidence=0.5)
    np.testing.assert_allclose(made.answer(raw, 0.9).interval, high.interval)


def test_cells_that_are_too_uncertain_are_printed_as_a_dash(seed):
    table = people(np.random.default_rng(seed))
    release = book(suppress=0.5).release(table, rng=seed)
    assert release.hidden[3]  # nobody
    assert not release.hidden[0]
    shown = str(release).splitlines()
    assert next(line for line in shown if line.startswith("nobody")).split()[-1] == "-"
    assert "-: the noise is more than 0.5 of the value" in shown[-1]
    assert "<td>-</td>" in release._repr_html_()
    answer = book(suppress=0.5).answer(release)
    assert (np.isnan(answer.value) == release.hidden).all()
    assert "-: the noise is more than 0.5 of the value" in answer.text()
    one = release.table("region")  # a table that is printed for itself keeps the rule
    assert (one.hidden == release.hidden[:4]).all()
    line = next(line for line in str(one).splitlines() if line.startswith("nobody"))
    assert line.split() == ["nobody", "-", "-", "-"]
    assert "-: the noise is more than 0.5 of the value" in str(one)
    assert "all cells of all tables at once" in str(one)
    assert "each cell for itself" in str(release.table("region", simultaneous=False))
    assert [text.get_text() for text in plot_table(release.table("sex", "region")).texts].count(
        "-"
    ) == release.table("sex", "region").hidden.sum()


def test_a_table_is_named_as_it_was_asked_for(seed):
    """A list, as the tables are stated, was a bare TypeError."""
    release = book().release(people(np.random.default_rng(seed)), rng=seed)
    for named in (["sex", "region"], ("region", "sex")):
        assert release.table(named).names == release.table(*named).names
    for wrong in ([], [["sex"]], ["sex", "planet"], ["sex", "sex"], {"sex": 1}, None):
        with pytest.raises(ParameterError, match="There is no table"):
            release.table(wrong)


def test_frames_have_all_cells(seed):
    release = book().release(people(np.random.default_rng(seed)), rng=seed)
    frame, polar = release.to_pandas(), release.to_polars()
    assert list(frame.columns) == ["table", "value", "noise_std", "low", "high"]
    assert frame.loc["sex[f]:region[east]", "table"] == "sex, region"
    assert polar["cell"].to_list() == list(frame.index) == list(release.names)
    one = release.table("region", "sex", simultaneous=False)
    assert one.to_pandas().loc[("f", "east"), "value"] == release["sex[f]:region[east]"]
    assert (one.half_width < release.table("sex", "region").half_width).all()
    with pytest.raises(ParameterError, match="There is no table of 'age'"):
        release.table("age")


def test_a_ledger_gives_the_book_again_at_any_level(seed, tmp_path):
    table = people(np.random.default_rng(seed))
    ledger = tdp.Ledger(3, path=tmp_path / "book.ledger")
    made = book()
    first = made.release(table, ledger=ledger, key="book")
    again = made.release(table, ledger=ledger, key="book", confidence=0.8)
    assert ledger.spent.epsilon == 1
    np.testing.assert_array_equal(first.value, again.value)
    # an interval cut to what a count can be reaches from a noisy count below 0 to 0, at any level
    free = first.value - first.half_width >= 0
    assert free.any()
    assert (again.half_width < first.half_width)[free].all()
    assert (again.half_width <= first.half_width).all()
    assert (made.answer(first, 0.8).interval == again.interval).all()
    back = Release.from_dict(json.loads(first.to_json()))
    np.testing.assert_array_equal(back.noise_std, first.noise_std)


def test_the_preview_says_the_error_of_every_table():
    lines = str(book("gaussian").preview()).splitlines()
    assert lines[0].split()[:3] == ["table", "cells", "noise"]
    assert [line.split("  ")[0] for line in lines[2:5]] == ["region", "sex, region", "region, age"]
    assert "no Gaussian noise in residuals has" in lines[-1]


# --- bad input ----------------------------------------------------------------------------------


def wide(columns: int, levels: int) -> tdp.Schema:
    kinds = [str(i) for i in range(levels)]
    return tdp.Schema({f"c{i}": tdp.Category(kinds, other="0") for i in range(columns)}, rows=1000)


@pytest.mark.parametrize(
    ("tables", "options", "words"),
    [
        (["age"], {}, "'age' is a number"),
        (["planet"], {}, "planet"),
        ([["sex", "planet"]], {}, "planet"),
        ([], {}, "at least one table"),
        ("sex", {}, "must be a list of tables"),
        ([["sex", "sex"]], {}, "distinct columns"),
        ([["sex", "region"], ["region", "sex"]], {}, "asked for twice"),
        ([[]], {}, "names of columns"),
        (9, {}, "a number of columns from 1 to 2"),
        (["sex"], {"weights": ["much"]}, "weights"),
        (["sex"], {"weights": [1, 2]}, "one for each table"),
        (["sex"], {"weights": [float("nan")]}, "weights"),
        (["sex"], {"targets": [1], "weights": [1]}, "not both"),
        (["sex"], {"bins": {"sex": 3}}, "is a category"),
        ([("age", 3), "sex"], {}, "pairs of a name and bins"),
        ([[("age", 3)], ["sex", ("age", 4)]], {}, "the same bins"),
        ([[("age", 3)], ["sex", ("age", [[0], [1, 2]])]], {}, "the same bins"),
        (["sex"], {"noise": "gaussian"}, "`delta` > 0"),
        (["sex"], {"noise": "tables"}, "is not for these tables"),
    ],
)
def test_bad_input_is_one_error(tables, options, words):
    with pytest.raises(ParameterError, match=words):
        Tables(schema(), tables, epsilon=1, **options)


def test_too_many_cells_are_refused_with_their_number():
    with pytest.raises(ParameterError, match="These have 10000000, the largest table 10000000"):
        Tables(wide(7, 10), [[f"c{i}" for i in range(7)]], epsilon=1)
