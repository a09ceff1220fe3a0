"""Rows made from tables: exact ratios on tiny tables, models against brute force, bad requests."""

from __future__ import annotations

import itertools
import math
from dataclasses import replace
from fractions import Fraction
from typing import Any

import numpy as np
import pytest

import tightdp as tdp
from tightdp.accounting.conversions import zcdp_rho
from tightdp.errors import TightdpError
from tightdp.inference.junction_trees import JunctionTree, spread, summed
from tightdp.inference.synthetic_draws import drawn_codes
from tightdp.inference.table_fits import NoisyTable, fit_tables
from tightdp.mechanisms.synthetic_rows import _ROUND_STEPS, SyntheticRows, _grouped
from tightdp.mechanisms.table_offer import grouped_levels
from tightdp.mechanisms.table_schedule import CellNoise, TableShares, shared_out, table_shares
from tightdp.privacy import Neighbors
from tightdp.randomness import source
from tightdp.release import Release

CELLS = list(itertools.product("ab", "uv"))


def facts(rows: int = 3, neighbors: str = "replace-one", **more: Any) -> tdp.Schema:
    """Two flags."""
    columns = {"j": tdp.Category(["a", "b"], other="a"), "k": tdp.Category(["u", "v"], other="u")}
    return tdp.Schema(columns, rows, neighbors=neighbors, **more)


def table(rows: Any) -> dict[str, list[str]]:
    return {"j": [row[0] for row in rows], "k": [row[1] for row in rows]}


def log_pmf(noise: CellNoise, z: int) -> float:
    """The law of a cell, up to a constant."""
    if noise.gaussian:
        return float(-Fraction(z * z) / (2 * noise.scale))
    return -float(noise.scale) * abs(z)


def log_chance(mechanism: SyntheticRows, rows: Any, release: Release) -> float:
    """The logarithm of the chance of a release about a table, up to a constant."""
    counts = mechanism._read(table(rows), False)
    total, noisy, start = 0.0, [], {}
    parts = [release.integers[a:b] for a, b in itertools.pairwise([0, *mechanism._lengths()])]
    groups = mechanism.offer.groups(mechanism.offered, parts)
    for place, part in enumerate(parts):
        noise, inside = mechanism._noise_of(place), None
        if place < len(mechanism.stated):
            scope = mechanism.stated[place]
        else:
            fit = mechanism._fit(noisy, _ROUND_STEPS, start)
            start, (where, *part) = fit.weights, part
            able, law = mechanism.choices(counts, fit, [t.columns for t in noisy], groups)
            scope, inside = mechanism.offered[where].columns, groups[where]
            total += math.log(law.probabilities()[able.index(where)])
        whole = np.zeros(len(part), dtype=np.int64)
        np.add.at(whole, np.arange(counts[scope].size) if inside is None else inside, counts[scope])
        total += sum(log_pmf(noise, z - int(c)) for z, c in zip(part, whole, strict=True))
        noisy.append(mechanism._noisy(scope, part, noise, inside))
    return total


def neighbours(relation: str) -> list[tuple[Any, Any]]:
    """All neighbours of all small tables, up to the order of rows."""
    if relation == "replace-one":
        wholes = list(itertools.combinations_with_replacement(CELLS, 3))
        return [(w, (*w[:-1], row)) for w in wholes for row in CELLS if row != w[-1]]
    wholes = [w for n in (0, 1, 2) for w in itertools.combinations_with_replacement(CELLS, n)]
    return [(w, (*w, row)) for w in wholes for row in CELLS]


def worst(mechanism: SyntheticRows, relation: str, seed: int, draws: int = 12) -> float:
    """The largest log ratio of releases that were drawn, over all neighbours."""
    rng, found = source(seed), 0.0
    pairs = neighbours(relation)
    for first, second in pairs[:: max(1, len(pairs) // draws)]:
        release = mechanism.release(table(first), rng=rng)
        ratio = log_chance(mechanism, first, release) - log_chance(mechanism, second, release)
        found = max(found, abs(ratio))
    return found


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("tables", ["auto", [["j", "k"]]], ids=["chosen", "stated"])
def test_no_ratio_exceeds_epsilon(relation, tables, seed):
    mechanism = SyntheticRows(facts(3, relation), tables, epsilon=2)
    assert worst(mechanism, relation, seed) <= 2 * (1 + 1e-9)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_ratio_reaches_epsilon(relation):
    """Of stated tables, where all noise points the same way: no less noise would do."""
    mechanism = SyntheticRows(facts(3, relation), [["j", "k"]], epsilon=2)
    first = [("a", "u")] * 3
    second = [("a", "u")] * 2 + ([("b", "v")] if relation == "replace-one" else [])
    drawn = mechanism.release(table(first), rng=1)
    far = [50 if name in ("j[a]", "k[u]", "j[a]:k[u]") else -50 for name in drawn.names]
    record = drawn.to_dict() | {"integers": [str(z) for z in far]}
    extreme = Release.from_dict(record)
    ratio = log_chance(mechanism, first, extreme) - log_chance(mechanism, second, extreme)
    assert 2 * (1 - 1e-4) < ratio <= 2 * (1 + 1e-9)
    weak = SyntheticRows(facts(3, relation), [["j", "k"]], epsilon=2)  # a fault: a fifth less noise
    weak.spending = faint(weak.spending, Fraction(5, 4))
    assert log_chance(weak, first, extreme) - log_chance(weak, second, extreme) > 2.4


def faint(spending: TableShares, factor: Fraction) -> TableShares:
    """The same with less noise than is paid for."""
    noises = tuple(CellNoise(n.amount * factor, n.moved, n.gaussian) for n in spending.stated)
    return replace(spending, stated=noises)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_the_choice_of_a_round_is_private_at_its_share(relation, seed):
    """For all neighbours, and the model of a release; a rate four times as high is seen."""
    mechanism = SyntheticRows(facts(3, relation), epsilon=2)
    share = float(mechanism.spending.choice_epsilon)
    largest, faulty = 0.0, 0.0
    for first, second in neighbours(relation):
        release = mechanism.release(table(first), rng=seed)
        noisy = mechanism.noisy_tables(release)[:2]
        chances = chances_of(mechanism, (first, second), noisy, release)
        largest = max(largest, float(np.abs(chances[0] - chances[1]).max()))
        tilted = [4 * c - np.logaddexp.reduce(4 * c) for c in chances]
        faulty = max(faulty, float(np.abs(tilted[0] - tilted[1]).max()))
    assert largest <= share * (1 + 1e-9)
    assert faulty > share


def chances_of(mechanism: SyntheticRows, tables: Any, noisy: Any, release: Release) -> Any:
    """Log chances of what a round may choose after a release, for each of some tables."""
    fit = mechanism._fit(noisy, 5)
    scopes = [t.columns for t in noisy]
    groups = mechanism.offer.groups(mechanism.offered, one_way(mechanism, release))
    laws = [
        mechanism.choices(mechanism._read(table(rows), False), fit, scopes, groups)[1]
        for rows in tables
    ]
    return [np.log(law.probabilities()) for law in laws]


def one_way(mechanism: SyntheticRows, release: Release) -> list[Any]:
    return [release.integers[a:b] for a, b in itertools.pairwise([0, *mechanism._lengths()])]


# --- groups of levels -----------------------------------------------------------------------------

MANY = list(itertools.product("abc", "uvw"))


def threes(relation: str, **more: Any) -> SyntheticRows:
    """Two columns of three levels each, so that pairs are offered in groups, too."""
    columns = {
        "j": tdp.Category(list("abc"), other="a"),
        "k": tdp.Category(list("uvw"), other="u"),
    }
    schema = tdp.Schema(columns, 3, neighbors=relation)
    return SyntheticRows(schema, epsilon=Fraction(3, 2), **more)


def wide_neighbours(relation: str) -> list[tuple[Any, Any]]:
    """All neighbours of all tables of few rows over nine cells."""
    if relation == "replace-one":
        return [(w, (*w[:2], row)) for w in triples(3) for row in MANY if row != w[2]]
    return [(w, (*w, row)) for w in triples(2) for row in MANY]


def triples(rows: int) -> list[Any]:
    return list(itertools.combinations_with_replacement(MANY, rows))


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_grouped_choices_and_noise_are_private_at_their_shares(relation, seed):
    """Over all neighbours; groups read off the data, or half the noise, are seen."""
    mechanism = threes(relation, rounds=1)
    assert {table.shape for table in mechanism.offered} == {(3,), (3, 3), (2, 2)}
    release = mechanism.release(table(MANY[:3]), rng=seed)
    noisy = mechanism.noisy_tables(release)[:2]
    share = float(mechanism.spending.choice_epsilon)
    inside = mechanism.offer.groups(mechanism.offered, one_way(mechanism, release))
    rate = float(mechanism.spending.noise.scale)
    place = next(i for i, each in enumerate(mechanism.offered) if each.shape == (2, 2))
    choice = moved = peeped = 0.0
    for first, second in wide_neighbours(relation):
        chances = chances_of(mechanism, (first, second), noisy, release)
        choice = max(choice, float(np.ptp(chances[0] - chances[1])))
        counts = [mechanism._read(table(rows), False) for rows in (first, second)]
        cells = [_grouped(each[0, 1], inside[place]) for each in counts]
        moved = max(moved, float(np.abs(cells[0] - cells[1]).sum()))
        # a fault: groups of the exact one-way counts, which a neighbour may form otherwise
        singles = [[each[0,].tolist(), each[1,].tolist()] for each in counts]
        odd = [mechanism.offer.groups(mechanism.offered, each)[place] for each in singles]
        cells = [_grouped(each[0, 1], own) for each, own in zip(counts, odd, strict=True)]
        peeped = max(peeped, float(np.abs(cells[0] - cells[1]).sum()))
    assert 0.7 * share < choice <= share * (1 + 1e-9)  # the length of the interval of log ratios
    paid = float(mechanism.spending.noise.amount)
    assert rate * moved == pytest.approx(paid)  # the least noise that serves: half of it does not
    assert rate * peeped > 1.4 * paid


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_no_ratio_of_grouped_releases_exceeds_epsilon(relation, seed):
    """Whole releases, of which some choose groups."""
    mechanism, rng, found, coarse = threes(relation), source(seed), 0.0, 0
    pairs = wide_neighbours(relation)
    for first, second in pairs[:: len(pairs) // 40]:
        release = mechanism.release(table(first), rng=rng)
        coarse += any(t.groups is not None for t in mechanism.noisy_tables(release))
        ratio = log_chance(mechanism, first, release) - log_chance(mechanism, second, release)
        found = max(found, abs(ratio))
    assert coarse > 0
    assert 0 < found <= 1.5 * (1 + 1e-9)


def test_groups_hold_all_levels_and_merge_the_smallest(seed):
    """Random counts: so many groups as asked for, neighbours where there is an order."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        counts = rng.integers(-5, 50, int(rng.integers(1, 12))).tolist()
        groups = int(rng.integers(1, 9))
        for ordered in (True, False):
            labels = grouped_levels(counts, groups, ordered=ordered)
            assert len(labels) == len(counts)
            assert sorted(set(labels.tolist())) == list(range(min(groups, len(counts))))
            assert not ordered or (np.diff(labels) >= 0).all()
    assert grouped_levels([10**30, -(10**30), 5, 5], 2, ordered=False).tolist() == [0, 1, 1, 1]


def test_a_fit_meets_groups_that_agree(seed):
    """Groups of a pair and both one-way tables without noise; within groups it is even."""
    rng = np.random.default_rng(seed)
    whole = rng.dirichlet(np.ones(16)).reshape(4, 4) * 1000
    labels = np.array([0, 0, 1, 1])
    groups = (2 * labels[:, None] + labels).ravel()
    sums = np.bincount(groups, whole.ravel())
    tables = [
        NoisyTable((0,), whole.sum(axis=1), 1.0),
        NoisyTable((1,), whole.sum(axis=0), 1.0),
        NoisyTable((0, 1), sums, 1.0, groups),
    ]
    found = fit_tables([4, 4], tables, 1000.0, 800).counts((0, 1))
    assert np.abs(np.bincount(groups, found.ravel()) - sums).max() < 1
    assert np.abs(found.sum(axis=1) - whole.sum(axis=1)).max() < 1
    odds = found[0, 0] * found[1, 1] / (found[0, 1] * found[1, 0])  # of cells in one group
    assert odds == pytest.approx(1, rel=1e-6)


def test_pairs_counted_by_groups_are_not_told_by_cells(seed):
    """Intervals of a pair need its cells; the same release with its cells stated has them."""
    rng = np.random.default_rng(seed)
    a = rng.integers(0, 10, 300)
    columns = {name: tdp.Interval(0, 10) for name in "xy"}
    schema, rows = tdp.Schema(columns, 300), {"x": a + 0.5, "y": a + rng.uniform(0, 1, 300)}
    given = [0.5, 0.6], [0.001, 0.001]
    for place in range(40):
        model = tdp.SyntheticTable(schema, 1, bins={"x": 10, "y": 10}, rounds=1, random_state=place)
        chosen = model.fit(rows).mechanism_.noisy_tables(model.release_)[-1]
        if chosen.groups is not None:
            break
    assert chosen.groups is not None
    assert model.interval(*given, "x").std > 0
    with pytest.raises(TightdpError, match="groups of levels"):
        model.interval(*given, ["x", "y"])
    assert len(model.sample(50, copies=2, random_state=1)) == 2


def test_stored_releases_tell_their_groups(seed):
    """The groups follow from released one-way counts: a copy from a file has the same model."""
    mechanism = threes("add-remove", rounds=3)
    for place in range(20):
        release = mechanism.release(table(MANY[:2]), rng=seed + place)
        if any(t.groups is not None for t in mechanism.noisy_tables(release)):
            break
    again = threes("add-remove", rounds=3).noisy_tables(Release.from_dict(release.to_dict()))
    for one, two in zip(mechanism.noisy_tables(release), again, strict=True):
        assert one.columns == two.columns
        assert (one.counts == two.counts).all()
        assert (one.groups is None) == (two.groups is None)
        assert one.groups is None or (one.groups == two.groups).all()
    assert any(t.groups is not None for t in again)


# --- shares ---------------------------------------------------------------------------------------

WIDTH = {"gaussian": True, "laplace": False}


@pytest.mark.parametrize("gaussian", WIDTH.values(), ids=WIDTH)
def test_shares_never_exceed_what_there_is(gaussian, seed):
    """Of random tables and rounds; and a table takes what a round takes."""
    rng = np.random.default_rng(seed)
    for _ in range(200):
        cells = rng.integers(2, 60, int(rng.integers(2, 9))).tolist()
        rounds, larger = int(rng.integers(0, 30)), int(rng.integers(0, 4))
        spent = table_shares(
            Fraction(1),
            Neighbors.ADD_REMOVE,
            gaussian=gaussian,
            stated=cells + [90] * larger,
            larger=larger,
            rounds=rounds,
        )
        assert Fraction(999, 1000) < spent.total <= 1
        if rounds:
            choice = spent.choice_epsilon**2 / 8 if gaussian else spent.choice_epsilon
            assert spent.noise.amount + choice <= spent.amount
            assert all(noise.amount == spent.amount for noise in spent.stated[len(cells) :])


def test_rounds_are_as_many_as_noise_leaves():
    """More rows, more rounds, from one to three for each column; a delta buys more of them."""
    found = []
    for rows in (100, 1200, 10_000):
        columns = {f"c{j}": tdp.Interval(0, 1) for j in range(10)}
        schema = tdp.Schema(columns, rows, neighbors="add-remove")
        made = [SyntheticRows(schema, epsilon=1, delta=delta) for delta in (0, 1e-9)]
        found.append([each.spending.rounds for each in made])
        for each in made:
            size = 9 * each.spending.noise.mean_size
            assert each.spending.rounds == 1 or size <= 0.1 * 2 * rows
    assert found[0] == [1, 1]
    assert found[2] == [30, 30]
    assert 1 < found[1][0] < found[1][1] < 30


@pytest.mark.parametrize("gaussian", WIDTH.values(), ids=WIDTH)
def test_equal_tables_have_equal_parts_on_every_machine(gaussian):
    """The last bit of a power must not decide: shares are in the law, and in fingerprints."""
    for cells, many in itertools.product(range(2, 40), range(1, 30)):
        parts = shared_out(Fraction(1), [cells] * many, gaussian=gaussian)
        assert set(parts) == {Fraction(10**6 // many, 10**6 + many)}


def flags(many: int, relation: str) -> tdp.Schema:
    columns = {f"c{j}": tdp.Category(["a", "b"], other="a") for j in range(many)}
    return tdp.Schema(columns, 5000, neighbors=relation)


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
def test_shares_add_up_to_what_is_paid(relation):
    for delta, tables in itertools.product([0, 1e-6], ["auto", [["c0", "c1"]]]):
        made = SyntheticRows(flags(30, relation), tables, epsilon=1, delta=delta)
        assert made.delta == Fraction(str(delta))
        whole = zcdp_rho(Fraction(1), Fraction(1, 10**6)) if delta else Fraction(1)
        assert whole * Fraction(999, 1000) < made.spending.total <= whole
        assert made.cost.rho == (made.spending.total if delta else Fraction(1, 2))
        if delta and tables == "auto":
            chosen = made.spending.choice_epsilon
            paid = made.spending.amount - made.spending.noise.amount
            assert paid * Fraction(999, 1000) < chosen**2 / 8 <= paid


def test_a_delta_that_buys_nothing_is_not_spent():
    """Of two tables Laplace noise is less; of thirty Gaussian noise, at the same epsilon."""
    few, many = (SyntheticRows(flags(n, "add-remove"), [], epsilon=1, delta=1e-9) for n in (2, 60))
    assert (few.delta, many.delta) == (0, Fraction(1, 10**9))
    pure = SyntheticRows(flags(60, "add-remove"), [], epsilon=1)
    assert many.variation().one_way < pure.variation().one_way
    assert few.guarantee().delta == 0


@pytest.mark.parametrize("gaussian", [False, True])
def test_noise_of_cells_has_its_stated_size_and_reach(gaussian, seed):
    """Standard errors of 40,000 draws: variance 1.2 %, size 0.5 %; a fifth less noise is seen."""
    noise = CellNoise(Fraction(1, 10), 2, gaussian)
    drawn = noise.sample(40_000, source(seed)).astype(float)
    assert drawn.var() == pytest.approx(noise.variance, rel=0.06)
    assert np.abs(drawn).mean() == pytest.approx(noise.mean_size, rel=0.03)
    assert np.mean(np.abs(drawn) > noise.reach(0.1)) <= 0.1 + 4 * math.sqrt(0.09 / 40_000)
    less = CellNoise(Fraction(1, 8), 2, gaussian).sample(40_000, source(seed)).astype(float)
    assert less.var() != pytest.approx(noise.variance, rel=0.06)


# --- models ---------------------------------------------------------------------------------------


def test_cliques_agree_with_brute_force(seed):
    """Random models of up to five columns: all tables of the tree are those of the whole."""
    rng = np.random.default_rng(seed)
    for _ in range(40):
        many = int(rng.integers(2, 6))
        sizes = [int(k) for k in rng.integers(2, 4, many)]
        scopes = [
            tuple(sorted(rng.choice(many, int(rng.integers(1, 3)), replace=False).tolist()))
            for _ in range(int(rng.integers(1, 6)))
        ]
        tree, every = JunctionTree(sizes, scopes), tuple(range(many))
        weights = [rng.normal(0, 3, tree.shape(clique.columns)) for clique in tree.cliques]
        whole = sum(
            spread(w, c.columns, every) for w, c in zip(weights, tree.cliques, strict=True)
        ) + np.zeros(sizes)
        chances = np.exp(whole - whole.max())
        chances /= chances.sum()
        model = tree.calibrated(weights)
        for asked in itertools.permutations(every, 2):
            assert np.allclose(model.joint(asked), summed(chances, every, asked))


def test_weights_of_any_size_give_chances():
    tree = JunctionTree([2, 3], [(0, 1)])
    model = tree.calibrated([np.array([[1e9, -1e9, 0.0], [-1e300, 1e9, 5.0]])])
    assert np.isfinite(model.marginals[0]).all()
    assert model.marginals[0].sum() == pytest.approx(1)


def test_a_fit_meets_tables_that_agree(seed):
    """A chain of pairs without noise: the fitted tables are the given ones."""
    rng = np.random.default_rng(seed)
    whole = rng.dirichlet(np.ones(24)).reshape(2, 3, 4) * 1000
    tables = [
        NoisyTable((0, 1), whole.sum(axis=2), 1.0),
        NoisyTable((1, 2), whole.sum(axis=0), 1.0),
    ]
    fit = fit_tables([2, 3, 4], tables, 1000.0, 800)
    for known in tables:
        assert np.abs(fit.counts(known.columns) - known.counts).max() < 1
    middle = whole.sum(axis=(0, 2))
    chain = np.einsum("ab,bc->ac", tables[0].counts / middle, tables[1].counts)
    assert np.abs(fit.counts((0, 2)) - chain).max() < 3  # independent given the middle one


@pytest.mark.parametrize("balanced", [True, False])
def test_rows_have_the_law_of_the_model(balanced, seed):
    """20,000 rows: cells within 5 standard errors, balanced ones within 3 rows of a chain of 2."""
    rng = np.random.default_rng(seed)
    tree = JunctionTree([2, 3, 2], [(0, 1), (1, 2)])
    model = tree.calibrated([rng.normal(0, 1, tree.shape(c.columns)) for c in tree.cliques])
    codes = drawn_codes(model, 20_000, source(seed), balanced=balanced)
    for scope in ((0, 1), (1, 2)):
        sides = tree.shape(scope)
        places = np.ravel_multi_index(tuple(codes[:, j] for j in scope), sides)
        found = np.bincount(places, minlength=math.prod(sides)).reshape(sides)
        wanted = 20_000 * model.joint(scope)
        slack = 3 if balanced else 5 * np.sqrt(wanted)
        assert (np.abs(found - wanted) <= slack).all()


# --- from tables to rows --------------------------------------------------------------------------


def dependent(rows: int, seed: int) -> dict[str, Any]:
    """A chain of three columns, and a number that follows the last."""
    rng = np.random.default_rng(seed)
    j = rng.choice(["a", "b"], rows, p=[0.7, 0.3])
    k = np.where(rng.random(rows) < 0.9, np.where(j == "a", "u", "v"), "w")
    return {"j": j, "k": k, "x": np.where(k == "w", 1.0, 8.0) + rng.uniform(-1, 1, rows)}


WIDE = {
    "j": tdp.Category(["a", "b"], other="a"),
    "k": tdp.Category(["u", "v", "w"], other="w"),
    "x": tdp.Interval(0, 10),
}


@pytest.mark.parametrize("relation", ["replace-one", "add-remove"])
@pytest.mark.parametrize("delta", [0, 1e-6])
def test_rows_follow_the_table(relation, delta, seed):
    schema, rows = tdp.Schema(WIDE, 5000, neighbors=relation), dependent(5000, seed)
    model = tdp.SyntheticTable(schema, epsilon=2, delta=delta, bins={"x": 5}).fit(rows)
    made = model.sample(4000)
    assert list(made) == ["j", "k", "x"]
    assert abs(np.mean(made["j"] == "a") - np.mean(rows["j"] == "a")) < 0.03
    assert np.mean((made["k"] == "w") == (made["x"] < 4)) > 0.93
    assert made["x"].min() >= 0
    assert made["x"].max() <= 10


def test_tables_are_chosen_beside_those_that_are_stated(seed):
    schema, rows = tdp.Schema(WIDE, 2000), dependent(2000, seed)
    made = SyntheticRows(schema, [["j", "k"]], epsilon=9, bins={"x": 4}, rounds=1)
    found = made.noisy_tables(made.release(rows, rng=seed))
    assert [table.columns for table in found] == [(0,), (1,), (2,), (0, 1), (1, 2)]


def test_cells_stand_where_their_names_say(seed):
    """At an epsilon without noise; with the sides of a table exchanged it fails."""
    schema, rows = tdp.Schema(WIDE, 500), dependent(500, seed)
    made = SyntheticRows(schema, [["k", "j"]], epsilon=1000, bins={"x": 5})
    release = made.release(rows)
    found = {name: release[name] for name in release.names if name.count(":") == 1}
    assert len(found) == 6
    for j, k in itertools.product("ab", "uvw"):
        many = int(np.sum((rows["j"] == j) & (rows["k"] == k)))
        assert found[f"j[{j}]:k[{k}]"] == many
    pair = made.noisy_tables(release)[-1]
    assert pair.counts[1, 2] == found["j[b]:k[w]"] != pair.counts.T.ravel()[5 - 1]


def test_a_stored_release_gives_rows_without_data(seed):
    schema, rows = tdp.Schema(WIDE, 800), dependent(800, seed)
    ledger = tdp.Ledger(epsilon=2, neighbors="replace-one")
    made = SyntheticRows(schema, epsilon=1, bins={"x": 3})
    first = made.release(rows, ledger=ledger, key="rows")
    again = SyntheticRows(schema, epsilon=1, bins={"x": 3}).release(rows, ledger=ledger, key="rows")
    assert first.integers == again.integers
    assert ledger.spent.epsilon == 1
    stored = Release.from_dict(ledger.find("rows"))
    one, two = made.made_rows(first), made.made_rows(stored)
    assert all((one[name] == two[name]).all() for name in WIDE)
    with pytest.raises(TightdpError, match="same tables"):
        SyntheticRows(schema, [["j", "k"]], epsilon=1).noisy_tables(stored)


def test_numbers_are_spread_over_their_bins():
    steps = tdp.Schema({"n": tdp.Interval(0, 9, step=1), "x": tdp.Interval(0, 1)}, rows=50)
    made = SyntheticRows(steps, epsilon=1000, bins={"n": [0, 3, 9], "x": 2})
    release = made.release({"n": [1, 8] * 25, "x": [0.1, 0.9] * 25})
    rows = made.rows(made.fitted(release), 4000, rng=1)
    assert sorted(set(rows["n"])) == list(range(10))
    low = rows["n"] < 3
    assert 1900 < low.sum() < 2100
    assert np.mean(rows["n"][low] == 0) == pytest.approx(1 / 3, abs=0.06)
    assert rows["x"].min() < 0.01 < 0.99 < rows["x"].max()


def test_persons_with_one_row_are_served_and_others_refused(seed):
    rows = dependent(60, seed) | {"who": [i // 2 for i in range(60)]}
    one = tdp.Schema(WIDE, 60, neighbors="add-remove", person="who", rows_per_person=1)
    release = SyntheticRows(one, epsilon=1000, bins={"x": 2}).release(rows)
    assert release.value[:2].sum() == 30
    two = tdp.Schema(WIDE, 60, neighbors="add-remove", person="who", rows_per_person=2)
    with pytest.raises(TightdpError, match="rows_per_person=1"):
        SyntheticRows(two, epsilon=1)


@pytest.mark.parametrize(
    ("options", "said"),
    [
        ({"tables": "trees"}, "auto"),
        ({"tables": [["j", "nobody"]]}, "nobody"),
        ({"tables": [["j", "j"]]}, "distinct"),
        ({"tables": [["j", "k"], ["k", "j"]]}, "Twice"),
        ({"tables": 7}, "tables"),
        ({"bins": {"j": 3}}, "category"),
        ({"bins": {"nobody": 3}}, "nobody"),
        ({"bins": 5}, "mapping"),
        ({"rounds": -1}, "rounds"),
        ({"rounds": 10**9}, "rounds"),
        ({"most_cells": 5}, "most_cells"),
        ({"delta": 2}, "delta"),
        ({"tables": [["j", "k", "x"]], "most_cells": 20}, "most_cells"),
        ({"bins": {"x": 70_000}}, "bins"),
    ],
    ids=str,
)
def test_bad_requests_are_refused_before_payment(options, said):
    ledger = tdp.Ledger(epsilon=2, neighbors="replace-one")
    schema, rows = tdp.Schema(WIDE, 9), dependent(9, 1)
    with pytest.raises(TightdpError, match=said):
        tdp.SyntheticTable(schema, epsilon=1, ledger=ledger, **options).fit(rows)
    assert ledger.spent.epsilon == 0


def test_tables_without_a_row_have_a_model():
    schema = tdp.Schema(WIDE, 50, neighbors="add-remove")
    empty = {name: [] for name in WIDE}
    model = tdp.SyntheticTable(schema, epsilon=1, bins={"x": 3}).fit(empty)
    assert len(model.sample(5)["j"]) == 5
    assert 1 <= model.model_.total <= 50


@pytest.mark.parametrize("names", ["a", "ab"])
def test_noise_that_underflows_leaves_a_model(names):
    """At the largest epsilon the variance of a cell is below every double."""
    levels = {name: tdp.Category(["x", "y"], other="x") for name in names}
    schema = tdp.Schema(levels, 50, neighbors="add-remove")
    model = tdp.SyntheticTable(schema, epsilon=1024).fit({name: ["x", "y"] * 25 for name in names})
    assert model.model_.counts((0,)) == pytest.approx([25, 25], abs=0.1)
    assert len(model.sample(20, copies=2)) == 2


def test_previews_say_what_noise_costs(seed):
    """The total variation of released one-way tables, over 60 releases: on average as foreseen."""
    schema, rows = tdp.Schema(WIDE, 400), dependent(400, seed)
    made, rng = SyntheticRows(schema, epsilon=1, bins={"x": 4}), source(seed)
    true = made._read(rows, False)
    away = []
    for _ in range(60):
        tables = made.noisy_tables(made.release(rows, rng=rng))[:3]
        away += [np.abs(t.counts.ravel() - true[t.columns]).sum() / 800 for t in tables]
    assert np.mean(away) == pytest.approx(made.variation().one_way, rel=0.15)
    assert "two-way at most" in str(made.preview())


# --- copies ---------------------------------------------------------------------------------------


def covered(copies: int, tables: int, seed: int) -> tuple[float, float]:
    """How often intervals for a share hold it: of several copies, and of one taken as data."""
    rng, share, held, naive = np.random.default_rng(seed), 0.3, [], []
    schema = tdp.Schema({"j": WIDE["j"], "k": WIDE["k"]}, 300)
    for _ in range(tables):
        j = np.where(rng.random(300) < share, "b", "a")
        rows = {"j": j, "k": rng.choice(["u", "v", "w"], 300)}
        bits = int(rng.integers(2**31))
        model = tdp.SyntheticTable(schema, 0.5, tables=[["j", "k"]], random_state=bits).fit(rows)
        found = [np.mean(c["j"] == "b") for c in model.sample(300, copies=copies, random_state=rng)]
        low, high = tdp.combined_interval(found, [q * (1 - q) / 300 for q in found])[2:]
        held.append(low <= share <= high)
        q = np.mean(model.sample(300, random_state=rng)["j"] == "b")
        naive.append(abs(q - share) <= 1.96 * math.sqrt(q * (1 - q) / 300))
    return float(np.mean(held)), float(np.mean(naive))


def test_copies_cover_where_one_table_does_not(seed):
    """Of 30 tables; 95 % intervals hold at least 83 % of the time (3 errors), naive ones fail."""
    held, naive = covered(8, 30, seed)
    assert held >= 0.83
    assert naive < held


@pytest.mark.slow
def test_copies_cover_at_length(seed):
    held, naive = covered(20, 400, seed)
    assert held >= 0.92
    assert naive < 0.85


def test_copies_cover_a_column_whose_pair_was_counted_by_groups(seed):
    """Of 40 tables whose rows are drawn anew; 95 % less three errors, and some chose groups."""
    rng, held, coarse = np.random.default_rng(seed), [], 0
    schema = tdp.Schema({name: tdp.Interval(0, 6) for name in "xy"}, 300)
    for _ in range(40):
        x = rng.choice(6, 300, p=[0.3, 0.3, 0.1, 0.1, 0.1, 0.1])
        rows = {"x": x + 0.5, "y": (x + rng.integers(0, 2, 300)) % 6 + 0.5}
        bits = int(rng.integers(2**31))
        options = {"bins": {"x": 6, "y": 6}, "rounds": 1, "random_state": bits}
        model = tdp.SyntheticTable(schema, 0.5, **options).fit(rows)
        coarse += model.mechanism_.noisy_tables(model.release_)[-1].groups is not None
        copies = model.sample(300, copies=8, random_state=rng)
        found = [np.mean(copy["x"] < 1) for copy in copies]
        interval = model.interval(found, [q * (1 - q) / 300 for q in found], "x")
        held.append(interval.low <= 0.3 <= interval.high)
    assert coarse >= 10
    assert np.mean(held) >= 0.84


def rare_covered(tables: int, seed: int, of: tuple[str, ...] = ("j",)) -> tuple[float, float]:
    """How often intervals of a share of 2 % of 400 rows hold it: widened ones, and plain ones."""
    rng, share, held, plain = np.random.default_rng(seed), 0.02, [], []
    schema = tdp.Schema({"j": WIDE["j"], "k": WIDE["k"]}, 400)
    for _ in range(tables):
        rows = {"j": np.where(rng.random(400) < share, "b", "a"), "k": ["u"] * 400}
        bits = int(rng.integers(2**31))
        model = tdp.SyntheticTable(schema, 1, tables=[["j", "k"]], random_state=bits).fit(rows)
        copies = model.sample(400, copies=10, random_state=rng)
        found = [np.mean((c["j"] == "b") & ((c["k"] == "u") | (len(of) == 1))) for c in copies]
        stated = [q * (1 - q) / 400 for q in found]
        for interval, out in (
            (model.interval(found, stated, list(of)), held),
            (tdp.combined_interval(found, stated), plain),
        ):
            out.append(interval.low <= share <= interval.high)
    return float(np.mean(held)), float(np.mean(plain))


def test_intervals_of_small_counts_hold(seed):
    """Of 40 tables; 95 % less three errors."""
    assert rare_covered(40, seed)[0] >= 0.84


@pytest.mark.slow
@pytest.mark.parametrize("of", [("j",), ("j", "k")])
def test_intervals_of_small_counts_hold_at_length(of, seed):
    held, plain = rare_covered(400, seed, of)
    assert held >= 0.917  # three errors
    assert plain < held


def test_shares_that_no_table_tells_are_refused(seed):
    schema = tdp.Schema(WIDE, 400)
    model = tdp.SyntheticTable(schema, 1, tables=[["j", "k"]], bins={"x": 4}, random_state=seed)
    model.fit(dependent(400, seed))
    given = [0.5, 0.6], [0.001, 0.001]
    assert model.interval(*given, "x").std > 0
    assert model.interval(*given, ["k", "j"]).std > 0
    with pytest.raises(TightdpError, match="together in no released table"):
        model.interval(*given, ["j", "x"])
    for columns in ([], ["nobody"], 7):
        with pytest.raises(TightdpError, match="columns"):
            model.interval(*given, columns)


def test_the_least_error_of_a_level_counts_all_cells_of_a_pair(seed):
    """A pair tells a level by the sum of its cells, whose noise adds up."""
    schema = tdp.Schema({"j": WIDE["j"], "k": WIDE["k"]}, 400)
    model = tdp.SyntheticTable(schema, 1, tables=[["j", "k"]], random_state=seed)
    one, _, pair = (
        t.variance for t in model.fit(dependent(400, seed)).mechanism_.noisy_tables(model.release_)
    )
    least = 1 / (1 / one + 1 / (3 * pair))
    same = [0.5, 0.5], [0.0, 0.0]
    assert model.interval(*same, "j").std == pytest.approx(math.sqrt(least + 1) / 400)
    assert model.interval(*same, ["j", "k"]).std == pytest.approx(math.sqrt(pair + 1) / 400)


def test_combined_intervals_refuse_rubbish():
    for given in (([1.0], [1.0]), ([1.0, 2.0], [1.0]), ([1.0, 2.0], [1.0, -1.0])):
        with pytest.raises(TightdpError):
            tdp.combined_interval(*given)
    assert tdp.combined_interval([1.0, 1.0], [0.0, 0.0]).std == 0


def test_neighbours_are_told_by_the_schema():
    assert SyntheticRows(facts(5), epsilon=1).neighbors is Neighbors.REPLACE_ONE


# --- plans ----------------------------------------------------------------------------------------

PLAN = """
[data]
file = "table.csv"
[schema]
rows = 200
columns.j = {levels = ["a", "b"], other = "a"}
columns.k = {levels = ["u", "v", "w"], other = "w"}
columns.x = {low = 0, high = 10}
[budget]
epsilon = 2
ledger = "a.ledger"
[[releases]]
name = "all rows"
kind = "synthetic_rows"
bins = {x = [0, 5, 10]}
rounds = 1
epsilon = 1
"""


def test_a_plan_writes_rows_beside_its_report(tmp_path, seed):
    rows = dependent(200, seed)
    lines = ["j,k,x", *(f"{a},{b},{c}" for a, b, c in zip(*rows.values(), strict=True))]
    (tmp_path / "table.csv").write_text("\n".join(lines))
    (tmp_path / "plan.toml").write_text(PLAN)
    plan = tdp.Plan.read(tmp_path / "plan.toml")
    report = tdp.Report.of_plan(plan, plan.release())
    report.save(tmp_path / "survey.md")
    made = tmp_path / "survey-all-rows.csv"
    text = made.read_text()
    assert text.splitlines()[0] == "j,k,x"
    assert len(text.splitlines()) == 201
    again = tdp.Report.of_plan(plan, plan.release())  # from the ledger, without a payment
    again.save(tmp_path / "survey.json")
    assert made.read_text() == text
    assert "CSV" in (tmp_path / "survey.md").read_text()
    assert not list(tmp_path.glob("*.part"))
