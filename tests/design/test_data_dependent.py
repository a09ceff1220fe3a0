"""Data-dependent designs: published values, exact audits of all pairs, broken twins, releases."""

from __future__ import annotations

import dataclasses
import json
import math
import warnings
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from tightdp import (
    BudgetError,
    DataDependentDesign,
    DataDependentMechanism,
    Interval,
    Ledger,
    ParameterError,
    PublicFactWarning,
    Schema,
    Sums,
    UndecidedError,
    audit_pmf,
    design_data_dependent_noise,
)
from tightdp.design import losses, range_search, range_verifier
from tightdp.design.exact_numbers import Refuted
from tightdp.design.proofs import prove
from tightdp.design.range_programs import RangeProgram
from tightdp.noise.range_noise import RangeNoise, needed_shifts

pytestmark = pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")  # of large deltas

ASK = {"epsilon": 1.0, "delta": 0.2, "sensitivity": 2.0, "query_range": (0.0, 4.0)}


@pytest.fixture(scope="module")
def design() -> DataDependentDesign:
    return design_data_dependent_noise(**ASK, resolution=4)


# --- values ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("resolution", "upper", "published"),
    [(2, 0.9565, 0.2179), (4, 0.8153, 0.4338), (8, 0.7331, 0.5365)],
)
def test_true_values_of_both_problems(resolution, upper, published):
    made = design_data_dependent_noise(**ASK, resolution=resolution)
    assert made.verify()
    assert float(made.upper) == pytest.approx(upper, abs=6e-5)
    least = cell_bound(resolution)  # D', with the least loss of every cell
    assert least == pytest.approx(published, abs=6e-5)
    assert least < made.lower < made.upper


def cell_bound(reach: int) -> float:
    count, half = 2 * reach, 3 * reach
    x = np.arange(-half, half)
    losses = np.minimum(np.abs(x), np.abs(x + 1)).astype(float)
    program = RangeProgram(
        np.tile(losses / count, (count, 1)), losses, math.e, 0.2, padding=reach, mirrored=True
    )
    pairs = [(k, m, m - k) for k in range(count) for m in range(count) if 0 < abs(m - k) <= reach]
    return program.solve(pairs).value * 2 / reach


def test_bounds_close_as_the_grid_is_refined():
    gaps = [design_data_dependent_noise(**ASK, resolution=r).gap for r in (2, 4, 6)]
    assert gaps == sorted(gaps, reverse=True)


def test_folding_changes_nothing(design):
    whole = design_data_dependent_noise(**ASK, resolution=4, reflect=False)
    assert float(whole.upper) == pytest.approx(float(design.upper), rel=1e-7)
    assert float(whole.lower) == pytest.approx(float(design.lower), rel=1e-7)
    assert all(a[::-1] == b for a, b in zip(design.tables, design.tables[::-1], strict=True))


def test_side_constraints_cost_and_hold(design):
    limit = float(max(design.losses)) * 0.9
    made = design_data_dependent_noise(**ASK, resolution=4, instance_optimal=limit)
    assert max(made.losses) <= Fraction(limit)
    assert made.upper > design.upper
    monotone = design_data_dependent_noise(**ASK, resolution=4, monotone=True)
    assert monotone.verify()
    assert monotone.upper > design.upper
    with pytest.raises(UndecidedError, match="monotone"):
        dataclasses.replace(design, monotone=True).verify()
    merged = design_data_dependent_noise(**ASK, resolution=4, partition=[0, 1, 3, 4])
    assert merged.edges == (0, 2, 6, 8)
    assert merged.upper >= design.upper
    squared = design_data_dependent_noise(**ASK, resolution=4, loss="l2")
    assert squared.lower < squared.upper


def test_weights_move_the_noise(design):
    weights = [8, 4, 2, 1, 1, 1, 1, 1]
    made = design_data_dependent_noise(**ASK, resolution=4, weights=weights)
    assert made.losses[0] < design.losses[0]
    assert sum(made.weights) == 1
    again = dataclasses.replace(design, weights=made.weights)
    assert made.upper <= again.upper  # the best for its own weights


# --- losses, limits, order, long ranges -----------------------------------------------------------

LOSSES = {
    "asymmetric": losses.asymmetric(right=3, left=1),
    "pinball": losses.pinball(0.2),
    "threshold": losses.threshold(1),
    "piecewise linear": losses.piecewise_linear([-1, 0, 2], [1, 0, 1], (-2, 3)),
    "root": losses.power(Fraction(3, 2)),
    "function": losses.from_callable(lambda x: abs(x) + x * x / 4, symmetric=True),
}


@pytest.mark.parametrize("name", LOSSES)
def test_every_loss_of_one_number_has_data_dependent_noise(name):
    made = design_data_dependent_noise(**ASK, resolution=2, loss=LOSSES[name])
    assert 0 <= made.lower < made.upper
    assert made.lower > 0 or name == "threshold"  # two cells a unit do not see a jump
    proved = prove(made.to_json())
    assert (proved.lower, proved.upper) == (made.lower, made.upper)
    assert bool(proved.note) == (name == "function")
    assert DataDependentDesign.from_json(made.to_json()).losses == made.losses
    cell = made.cell_width
    for table, mean in zip(made.tables, made.losses, strict=True):
        cells = [made.start * cell + i * cell for i in range(len(table))]
        exact = sum(
            w * LOSSES[name].means(cell, int(x / cell), int(x / cell) + 1)[0]
            for w, x in zip(table, cells, strict=True)
        )
        assert mean == exact / sum(table)


def test_a_function_that_is_a_named_loss_gives_its_noise(design):
    made = design_data_dependent_noise(
        **ASK, resolution=4, loss=losses.from_callable(abs, symmetric=True)
    )
    assert float(made.upper) == pytest.approx(float(design.upper), rel=1e-6)
    assert float(made.lower) == pytest.approx(float(design.lower), rel=1e-6)


def mean_noise(design: DataDependentDesign) -> float:
    cells = design.start + np.arange(len(design.tables[0])) + 0.5
    shares = np.diff(design.edges) / design.edges[-1]
    means = [np.dot(np.array(t) / sum(t), cells) for t in design.tables]
    return float(shares @ means * float(design.cell_width))


def test_noise_leans_to_the_side_that_costs_less():
    right, left = (
        mean_noise(design_data_dependent_noise(**ASK, resolution=2, loss=loss))
        for loss in (losses.asymmetric(right=1, left=4), losses.asymmetric(right=4, left=1))
    )
    assert left < -0.1 < 0.1 < right
    assert left == pytest.approx(-right, abs=1e-6)


def test_a_second_loss_is_bounded_at_every_value(design):
    squares = [float(x) for x in dataclasses.replace(design, loss="l2").losses]
    bound = max(squares) * 0.95
    made = design_data_dependent_noise(**ASK, resolution=4, instance_optimal=("l2", bound))
    assert max(made.limited_losses) <= Fraction(bound)
    assert made.upper > design.upper
    assert made.lower >= design.lower
    record = json.loads(made.to_json())
    record["instance_optimal"] = str(Fraction(bound) * Fraction(99, 100))  # planted
    with pytest.raises(Refuted, match="more than was allowed"):
        range_verifier.verify(record)
    record = json.loads(made.to_json())
    record["instance_loss"]["right"][2] = record["instance_loss"]["left"][2] = "2"  # planted
    with pytest.raises(Refuted, match="more than was allowed"):
        range_verifier.verify(record)


def test_noise_of_larger_values_leans_left_when_asked():
    ask = {**ASK, "query_range": (0.0, 8.0), "resolution": 2}
    made = design_data_dependent_noise(**ask, ordered=True)
    free = design_data_dependent_noise(**ask)
    sums = np.cumsum(np.array(made.tables, dtype=object), axis=1)
    assert (np.diff(sums, axis=0) >= 0).all()
    assert made.upper > free.upper
    record = json.loads(free.to_json())
    record["ordered"] = True  # planted: tables that cross
    with pytest.raises(Refuted, match="lean left"):
        range_verifier.verify(record)


LONG = {
    "epsilon": 1.0,
    "delta": 0.2,
    "sensitivity": 2.0,
    "query_range": (-432.0, 432.0),
    "resolution": 2,
    "partition": [-432, -2, -1, 0, 1, 2, 432],
}


@pytest.fixture(scope="module")
def long() -> DataDependentDesign:
    return design_data_dependent_noise(**LONG, weights=[1] * 6)


def test_a_long_range_shares_its_far_tables(long):
    assert long.edges == (0, 430, 431, 432, 433, 434, 864)
    assert long.verify()
    one = design_data_dependent_noise(**{**LONG, "partition": [-432, 432]})
    assert one.lower <= one.upper
    assert long.upper < one.upper  # by these weights it pays
    by_length = design_data_dependent_noise(**LONG)
    assert float(by_length.upper) <= float(one.upper) * (1 + 1e-6)
    assert one.lower * Fraction(99, 100) <= by_length.lower <= by_length.upper
    assert len(long.to_json()) < 100_000  # equal pairs are written once


def test_shared_multipliers_prove_nearly_what_single_ones_do(monkeypatch):
    ask = {**LONG, "query_range": (-40, 40), "partition": [-40, -2, -1, 0, 1, 2, 40]}
    single = design_data_dependent_noise(**ask, weights=[1] * 6)
    monkeypatch.setattr(range_search, "_MOST_SINGLE", 60)
    shared = design_data_dependent_noise(**ask, weights=[1] * 6)
    assert len(shared.bound.pairs) < len(single.bound.pairs) / 1.5
    assert (
        single.lower * Fraction(995, 1000) <= shared.lower <= single.lower * Fraction(10001, 10000)
    )


def _longer_run(record):
    run = next(p for p in record["bound"]["pairs"] if len(p) == 3)
    run[2] += 400


def _pair_twice(record):
    bound = record["bound"]
    for name in ("pairs", "multipliers", "row_multipliers"):
        bound[name].append(bound[name][0])


def _dearer_run(record):
    bound = record["bound"]
    at = next(i for i, p in enumerate(bound["pairs"]) if len(p) == 3)
    bound["row_multipliers"][at][0] = bound["multipliers"][at] + 1


def _other_unit(record):
    record["bound"]["unit"] = "2"


@pytest.mark.parametrize("tamper", [_longer_run, _pair_twice, _dearer_run, _other_unit])
def test_tampering_with_a_long_range_is_caught(long, tamper):
    record = json.loads(long.to_json())
    tamper(record)
    with pytest.raises(Refuted):
        range_verifier.verify(record)


def test_ranges_that_are_too_fine_are_refused_before_work():
    fine = [-432, *np.arange(-200, 200.5, 1).tolist(), 432]
    for change in ({"partition": None}, {"partition": fine}, {"query_range": (-1e6, 1e6)}):
        with pytest.raises(ParameterError, match="at most"):
            design_data_dependent_noise(**{**LONG, **change})


# --- exact audits ---------------------------------------------------------------------------------


def law(noise: RangeNoise, query: int) -> dict[int, int]:
    """The law of the release of a query, by enumeration."""
    table = noise.tables[noise.group(query)]
    cells = ((noise.start + i) * noise.points for i in range(len(table)))
    return {
        query + first + u: weight
        for first, weight in zip(cells, table, strict=True)
        for u in range(noise.points)
        if weight
    }


def verdicts(noise: RangeNoise, delta: Fraction) -> set[str]:
    """Verdicts of the exact audit on all pairs of query values within the sensitivity."""
    laws = [law(noise, q) for q in range(noise.last + 1)]
    reach = noise.reach * noise.points
    return {
        audit_pmf(laws[a], laws[b], epsilon=noise.epsilon, delta=delta).verdict
        for a in range(len(laws))
        for b in range(a + 1, min(a + reach, len(laws) - 1) + 1)
    }


@pytest.mark.parametrize("change", [{}, {"partition": [0, 1, 3, 4]}, {"monotone": True}])
def test_all_pairs_of_values_pass_the_exact_audit(change):
    made = design_data_dependent_noise(**ASK, resolution=2, **change)
    for points in (1, 3):
        assert verdicts(made.noise(points), made.delta) == {"holds"}
    # the same tables for changes 1.5 times as large must fail
    cut = RangeNoise(made.tables, start=made.start, edges=made.edges, reach=3, epsilon=1.0)
    assert cut.exact_delta() > made.delta
    assert "violated" in verdicts(cut, made.delta)


def test_noise_cut_by_a_fifth_is_refused(design):
    cut = dataclasses.replace(design, resolution=5)
    with pytest.raises(UndecidedError):
        cut.verify()


def solved_with(reach: int, triples: list[tuple[int, int, int]], edges: list[int]) -> RangeNoise:
    """The tables of the optimum under some triples only."""
    groups, half = len(edges) - 1, 3 * reach
    losses = np.abs(np.arange(-half, half) + 0.5)
    sizes = np.diff(edges) / edges[-1]
    program = RangeProgram(np.outer(sizes, losses), losses, math.e, 0.2)
    found = program.solve(triples)
    assert len(found.tables) == groups
    whole = [[int(p * 2**40) for p in table] for table in found.tables]
    for table in whole:
        table[half] += 2**40 - sum(table)
    return RangeNoise(whole, start=-half, edges=edges, reach=reach, epsilon=1.0)


def test_one_shift_a_pair_is_not_private():
    edges = list(range(5))
    single = [t for t in needed_shifts(edges, 2) if t[2] == t[1] - t[0]]
    broken = solved_with(2, single, edges)
    assert broken.exact_delta() > Fraction(1, 4)
    assert "violated" in verdicts(with_points(broken, 2), Fraction(1, 5))


def with_points(noise: RangeNoise, points: int) -> RangeNoise:
    return RangeNoise(
        noise.tables,
        start=noise.start,
        edges=noise.edges,
        reach=noise.reach,
        points=points,
        epsilon=noise.epsilon,
    )


def printed_separation(noise: RangeNoise) -> Fraction:
    """Algorithm G.1 as printed: the comparison stands after the loop over the shifts."""
    last = {(g, h): j for g, h, j in noise.triples()}
    return max(noise.shortfall(g, h, j) for (g, h), j in last.items())


def test_the_printed_separation_accepts_a_comb():
    table = [1 if i % 2 == 0 else 0 for i in range(235)]
    noise = RangeNoise([table], start=-117, edges=[0, 2], reach=2, epsilon=1.0)
    by_shift = [float(noise.shortfall(0, 0, j)) for j in range(-2, 3)]
    assert by_shift == pytest.approx([0.0085, 1, 0, 1, 0.0085], abs=5e-5)
    assert printed_separation(noise) < Fraction(3, 10)
    assert noise.exact_delta() == 1
    assert "violated" in verdicts(noise, Fraction(3, 10))


def test_noise_made_with_the_printed_separation_is_not_private():
    edges = [0, 2, 4]
    last = {(g, h): j for g, h, j in needed_shifts(edges, 2)}
    broken = solved_with(2, [(g, h, j) for (g, h), j in last.items()], edges)
    assert printed_separation(broken) <= Fraction(1, 5) + Fraction(1, 10**6)
    assert broken.exact_delta() > Fraction(1, 4)
    assert "violated" in verdicts(broken, Fraction(1, 5))


def test_the_stated_delta_is_the_worst_over_all_pairs(seed):
    """Brute force over all values and whole shifts agrees, for random tables."""
    rng = np.random.default_rng(seed)
    factor = Fraction(math.e)
    for _ in range(200):
        cells, groups = int(rng.integers(2, 7)), int(rng.integers(1, 4))
        tables = rng.integers(0, 20, (groups, cells)).tolist()
        for table in tables:
            table[0] += 200 - sum(table)
        edges = np.cumsum([0, *rng.integers(1, 3, groups)]).tolist()
        noise = RangeNoise(
            tables, start=0, edges=edges, reach=int(rng.integers(1, 4)), points=2, epsilon=1.0
        )
        laws = [law(noise, q) for q in range(noise.last + 1)]
        worst = max(
            sum(max(w - factor * laws[b].get(x, 0), 0) for x, w in laws[a].items())
            for a in range(len(laws))
            for b in range(len(laws))
            if abs(a - b) <= noise.reach * 2
        )
        exact = noise.exact_delta()
        assert float(worst) / 400 <= exact + Fraction(1, 10**12)
        if groups == 1 and edges[-1] >= noise.reach:  # every whole shift is met
            assert float(worst) / 400 == pytest.approx(float(exact), abs=1e-12)
        assert all(noise.group(q) < groups for q in (0, noise.last))


# --- certificates ---------------------------------------------------------------------------------


def test_json_round_trip(design):
    again = DataDependentDesign.from_json(design.to_json())
    assert again.to_json() == design.to_json()


def _move_mass(record):
    table = [w // 2 for w in record["tables"][0]]
    table[len(table) // 2] += 2**52 - sum(table)
    record["tables"][0] = table


def _smaller_delta(record):
    record["delta"] = "19/100"


def _higher_multiplier(record):
    record["bound"]["row_multipliers"][0][0] += 1 << 60


def _cheaper_bound(record):
    record["bound"]["multipliers"] = [x // 2 for x in record["bound"]["multipliers"]]


def _foreign_pair(record):
    record["bound"]["pairs"][0] = [0, 7]


def _free_limit(record):
    record["bound"]["limits"][0] = 1 << 50


def _higher_lower(record):
    record["lower"] = "4/5"


def _no_nodes(record):
    record["bound"].update(half=-9, pairs=[], multipliers=[], row_multipliers=[])


def _negative_price(record):
    record["bound"]["multipliers"][0] *= -1


def _no_padding(record):
    record["bound"]["padding"] = 0


def _other_weights(record):
    record["weights"][0] = "1/4"


@pytest.mark.parametrize(
    "tamper",
    [
        _move_mass,
        _smaller_delta,
        _higher_multiplier,
        _cheaper_bound,
        _foreign_pair,
        _free_limit,
        _higher_lower,
        _no_nodes,
        _negative_price,
        _no_padding,
        _other_weights,
    ],
)
def test_tampering_is_caught(design, tamper):
    record = json.loads(design.to_json())
    tamper(record)
    with pytest.raises(UndecidedError):
        DataDependentDesign.from_dict(record)


# --- releases -------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def mechanism() -> DataDependentMechanism:
    sums = Sums(Schema({"x": Interval(0, 10)}, rows=4))
    made = design_data_dependent_noise(
        epsilon=1.0, delta=0.2, sensitivity=10, query_range=(0, 40), resolution=3
    )
    return DataDependentMechanism(sums, design=made)


def misfit(mechanism: DataDependentMechanism, releases: list[int], query: int, group: int) -> float:
    """p-value of the cells of releases against a table."""
    noise = mechanism.noise
    offsets = np.array([z - mechanism.first - query for z in releases])
    cells = offsets // noise.points - noise.start
    counts = np.bincount(cells, minlength=len(noise.tables[0]))
    expected = np.array(noise.tables[group]) / noise.total * len(releases)
    large = expected >= 5
    rest = counts[~large].sum() - expected[~large].sum()
    terms = (counts - expected)[large] ** 2 / expected[large]
    extra = rest**2 / max(float(expected[~large].sum()), 5.0)
    return float(chi2.sf(terms.sum() + extra, int(large.sum())))


def test_releases_follow_the_table_of_their_interval(mechanism, seed):
    noise, frame = mechanism.noise, {"x": [1.0, 2.0, 0.0, 3.0]}
    exact = mechanism.statistic.measure(frame, bits=mechanism.bits)[0]
    query = noise.clamp(exact - mechanism.first)
    group = noise.group(query)
    rng = np.random.default_rng(seed)
    drawn = [
        noise.noise(query, pair) + mechanism.first + query
        for pair in noise.prepare(_source(rng), 20_000)
    ]
    assert misfit(mechanism, drawn, query, group) > 1e-5
    other = len(noise.tables) - 1 - group
    assert misfit(mechanism, drawn, query, other) < 1e-9  # the table of another interval
    single = mechanism.release(frame, rng=5)
    assert single.guarantee.seeded
    assert str(single.guarantee.numerics) == "exact"
    assert abs(single["x"] - 6.0) < 40


def _source(rng):
    from tightdp.randomness import source

    return source(rng)


def test_the_integer_sensitivity_is_covered(mechanism):
    low, high = (
        mechanism.statistic.measure({"x": [v, 5.0, 5.0, 5.0]}, bits=mechanism.bits)[0]
        for v in (0.0, 10.0)
    )
    assert high - low <= mechanism.noise.reach * mechanism.noise.points
    ends = [
        mechanism.statistic.measure({"x": [v] * 4}, bits=mechanism.bits)[0] - mechanism.first
        for v in (0.0, 10.0)
    ]
    assert ends[0] >= 0
    assert ends[1] <= mechanism.noise.last


def test_what_is_published_does_not_tell_the_interval(mechanism):
    first, second = (mechanism.release({"x": [v] * 4}, rng=1) for v in (0.0, 5.0))
    for name in ("noise", "guarantee", "confidence", "resolution"):
        assert getattr(first, name) == getattr(second, name)
    assert first.half_width == second.half_width
    assert first.covariance == second.covariance


def test_the_stated_half_width_covers_in_every_interval(mechanism, seed):
    noise = mechanism.noise
    width = noise.half_width(0.9)
    for g in range(len(noise.tables)):
        query = noise.edges[g] * noise.points
        draws = noise.prepare(_source(np.random.default_rng(seed)), 4000)
        inside = np.mean([abs(noise.noise(query, pair)) <= width for pair in draws])
        assert inside > 0.9 - 5 * math.sqrt(0.09 / 4000)


def test_the_stated_half_width_counts_what_the_grid_rounds(seed):
    """A bound of the noise alone: rows that the grid rounds all one way lie outside of it."""
    rows, bits = 400, 2
    sums = Sums(Schema({"x": Interval(-1, 1)}, rows=rows, bits=bits))
    ask = {"epsilon": 4.0, "delta": 0.2, "sensitivity": 2.0, "query_range": (-400.0, 400.0)}
    mechanism = DataDependentMechanism(
        sums, design=design_data_dependent_noise(**ask, resolution=1)
    )
    cells = np.full(rows, 0.4999 * 2.0**-bits)  # rounded down, each by nearly half a step
    release = mechanism.release({"x": cells}, rng=seed, confidence=0.999)
    assert abs(release["x"] - cells.sum()) <= release.half_width[0]
    lost = rows * 0.5 * 2.0**-bits
    noise = mechanism.noise.half_width(0.999) / mechanism.resolution
    assert release.half_width[0] == pytest.approx(noise + lost, rel=1e-5)


def test_budget_comes_first_and_keys_are_remembered(mechanism):
    ledger = Ledger(epsilon=2.0, delta=0.4, allow_seeded=True)
    frame = {"x": [1.0, 2.0, 3.0, 4.0]}
    first = mechanism.release(frame, ledger=ledger, key="a", rng=1)
    assert mechanism.release(frame, ledger=ledger, key="a", rng=9).integers == first.integers
    with pytest.raises(ParameterError, match="key"):
        mechanism.release(frame, key="a")
    mechanism.release(frame, ledger=ledger, rng=2)
    with pytest.raises(BudgetError):
        mechanism.release(frame, ledger=ledger, rng=3)


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0},
        {"epsilon": 60.0},
        {"delta": 0.0},
        {"delta": 1.0},
        {"sensitivity": 0.0},
        {"query_range": (1.0, 1.0)},
        {"query_range": (0.0, math.inf)},
        {"query_range": 3.0},
        {"query_range": (0.0, 1e6)},
        {"resolution": 0},
        {"loss": "l3"},
        {"weights": [1.0]},
        {"weights": [-1.0] * 8},
        {"weights": [0.0] * 8},
        {"partition": [0.0, 0.3, 4.0]},
        {"partition": [0.0, 2.0]},
        {"partition": [0.0, 3.0, 2.0, 4.0]},
        {"instance_optimal": -1.0},
        {"instance_optimal": ("l2", -1.0)},
        {"instance_optimal": ("l2",)},
        {"instance_optimal": ("l3", 1.0)},
        {"ordered": "yes"},
        {"loss": 3},
        {"support": 0.0},
    ],
)
def test_bad_parameters(change):
    with pytest.raises(ParameterError):
        design_data_dependent_noise(**{**ASK, "resolution": 4, **change})


def test_what_cannot_be_had_is_said():
    with pytest.raises(UndecidedError, match="instance_optimal"):
        design_data_dependent_noise(**ASK, resolution=4, instance_optimal=0.3)


def test_bad_mechanisms(design):
    one = Sums(Schema({"x": Interval(0, 10)}, rows=4))
    two = Sums(Schema({"x": Interval(0, 10), "y": Interval(0, 1)}, rows=4))
    for bad in (
        lambda: DataDependentMechanism(one, design=design),  # another sensitivity
        lambda: DataDependentMechanism(two, design=design),
        lambda: DataDependentMechanism("x", design=design),
        lambda: DataDependentMechanism(one, design=3),
    ):
        with pytest.raises(ParameterError):
            bad()


@pytest.mark.parametrize(
    "change",
    [
        {"tables": []},
        {"tables": [[1, 2], [1, 1]]},
        {"tables": [[0, 0], [0, 0]]},
        {"tables": [[1, -1], [0, 0]]},
        {"edges": [0, 2]},
        {"edges": [1, 2, 3]},
        {"edges": [0, 2, 2]},
        {"reach": 0},
        {"points": 0},
    ],
)
def test_bad_tables(change):
    with pytest.raises(ParameterError):
        RangeNoise(
            **{
                "tables": [[1, 1], [1, 1]],
                "start": -1,
                "edges": [0, 1, 2],
                "reach": 1,
                "epsilon": 1.0,
                **change,
            }
        )


@pytest.mark.filterwarnings("default::tightdp.PublicFactWarning")
def test_a_delta_above_one_in_n_is_spoken_of():
    made = design_data_dependent_noise(**ASK, resolution=2)
    for rows, said in ((4, False), (40, True)):
        wide = Sums(Schema({"x": Interval(0, float(ASK["sensitivity"]))}, rows=rows))
        with warnings.catch_warnings(record=True) as caught:
            warnings.simplefilter("always")
            DataDependentMechanism(wide, design=made).release({"x": [0.5] * rows}, rng=1)
        assert [w.category for w in caught] == [PublicFactWarning] * said
