"""Two noises found together: shortfalls by enumeration, rivals, proofs that can be refuted."""

from __future__ import annotations

import ast
import dataclasses
import itertools
import json
import math
import sys
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest

import tightdp as tdp
from tightdp import ComposedDesign, ParameterError, UndecidedError, design_composed_noise
from tightdp.design import composed_verifier, proofs
from tightdp.design.composed import cell_groups
from tightdp.design.composed_programs import ComposedProgram, Line, Masses, Side
from tightdp.design.composed_verifier import ReleaseLaw, Shortfalls
from tightdp.design.exact_numbers import Refuted, exp_bounds
from tightdp.errors import DimensionError

pytestmark = pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")


@pytest.fixture(scope="module")
def pair() -> ComposedDesign:
    return design_composed_noise(
        epsilon=2.0, delta=0.2, resolution=(2, 1), importance=(1, 3), lower_resolution=2
    )


# --- shortfalls -----------------------------------------------------------------------------------


def table(law: ReleaseLaw, points: int) -> dict[int, Fraction]:
    """The exact law of the sampler of one release, by enumeration."""
    found: dict[int, Fraction] = {}
    off = points // 2 if law.centred else 0
    for i, orbit in enumerate(law.orbits.orbit):
        for u in range(points):
            at = (i - law.half) * points - off + u
            found[at] = found.get(at, 0) + Fraction(law.weights[orbit], law.total * points)
    found[0] = found.get(0, Fraction(0)) + Fraction(law.atom, law.total)
    return found


def brute(tables, moves, e: Fraction) -> Fraction:
    first, second = tables
    return sum(
        (
            max(p * q - e * first.get(x - moves[0], 0) * second.get(y - moves[1], 0), Fraction(0))
            for (x, p), (y, q) in itertools.product(first.items(), second.items())
        ),
        Fraction(0),
    )


def test_every_pair_of_moves_is_private_by_enumeration(pair):
    tables = [table(law, 2) for law in pair.laws]
    assert all(sum(t.values()) == 1 for t in tables)
    e = exp_bounds(pair.epsilon)[0]
    ends = [2 * law.cells for law in pair.laws]
    worst = max(
        brute(tables, moves, e)
        for moves in itertools.product(range(-2, ends[0] + 1), range(ends[1] + 1))
    )
    assert worst <= pair.delta
    assert brute(tables, (ends[0] + 2, ends[1]), e) > pair.delta  # one cell too far
    assert brute(tables, ends[::-1], e) != worst  # the laws differ


def test_large_whole_numbers_are_rounded_as_they_are(pair):
    """Doubles would move 2**53 + 1 by one, and its neighbour the other way."""
    steps = [1 / step for step in pair.grid_steps]
    for z in range(2**53, 2**53 + 4):
        assert pair.to_grid([[z, -z]]) == [(z * steps[0], -z * steps[1])]


@pytest.mark.parametrize("atoms", [(0, 0), (7, 0), (3, 11)])
def test_shortfalls_are_those_of_all_pairs_of_cells(atoms, seed):
    rng = np.random.default_rng(seed)
    laws = [
        ReleaseLaw(2, 3, bool(k), [int(w) for w in rng.integers(0, 50, 4 if k else 3)], atom)
        for k, atom in enumerate(atoms)
    ]
    short, e = Shortfalls(laws, Fraction(1)), exp_bounds(Fraction(1))[0]
    tables = [table(law, 2) for law in laws]
    for m, n in [(1, 1), (2, 1), (2, 2)]:
        stated = Fraction(short.cells((m, n)) + short.atoms, short.scale)
        exact = brute(tables, (2 * m, 2 * n), e)
        assert exact <= stated  # an atom that meets a cell is counted as lost
        if not any(atoms):
            assert exact == stated
    halfway = (short.cells((1, 1)) + short.cells((2, 1))) / (2 * short.scale)
    moved = float(brute(tables, (3, 2), e))
    assert moved <= halfway + short.atoms / short.scale + 1e-12


def test_programs_see_the_same_shortfalls(pair):
    lines, laws = [], []
    for law in pair.laws:
        groups = range(len(law.weights))
        line = Line(law.cells, law.half, centred=law.centred, groups=list(groups), loss="l1")
        lines.append(line)
        laws.append(Masses(np.array(law.weights) / law.total, law.atom / law.total))
    exact = Shortfalls(pair.laws, pair.epsilon)
    for place in (0, 1):
        side = Side.against(lines, laws, math.exp(pair.epsilon), place)
        for move in [(1, 1), (2, 0), (0, 1), (2, 1)]:
            stated = (exact.cells(move) + exact.atoms) / exact.scale
            assert side.shortfall(laws[place], move) == pytest.approx(stated, abs=1e-9)
        moves = [{(m, n): 1.0} for m in range(3) for n in range(2) if m or n]
        program = ComposedProgram([side], moves)
        best, _ = program.solve(float(pair.delta), [1.0])
        assert best[0].loss(lines[place]) <= laws[place].loss(lines[place]) * (1 + 1e-4)


def test_an_adaptive_second_query_costs_what_is_stated():
    made = design_composed_noise(epsilon=2.0, delta=0.2, resolution=1, lower_resolution=1)
    tables = [table(law, 1) for law in dataclasses.replace(made, points=2).laws]
    e, (first, second) = exp_bounds(made.epsilon)[0], tables
    worst = Fraction(0)
    for m in range(made.laws[0].cells + 1):
        spent = Fraction(0)
        for x, p in first.items():
            other = first.get(x - m, Fraction(0))
            spent += max(
                sum((max(p * q - e * other * second.get(y - n, 0), 0) for y, q in second.items()))
                for n in range(made.laws[1].cells + 1)
            )
        worst = max(worst, spent)
    assert not any(law.atom for law in made.laws)
    assert (
        worst
        == made.adaptive_delta
        >= max(brute(tables, (m, n), e) for m in range(2) for n in range(2))
    )


# --- what it is worth -----------------------------------------------------------------------------


def test_the_pair_beats_halves_of_the_budget(pair):
    halves = [
        tdp.design_noise(epsilon=1.0, delta=0.1, cells=cells).upper * weight
        for cells, weight in zip((40, 40), (1, 3), strict=True)
    ]
    assert 0 < pair.lower < pair.upper < 0.95 * sum(halves)
    assert pair.losses[1] < pair.losses[0]
    truncated = 4 * tdp.TruncatedLaplace(epsilon=1, delta=0.1).expected_loss(1)
    assert float(pair.upper) < 0.9 * truncated


def test_scales_and_importance_enter_as_they_should(pair):
    scaled = dataclasses.replace(pair, sensitivities=(Fraction(2), Fraction(2)))
    assert scaled.upper == 2 * pair.upper
    assert scaled.lower == 2 * pair.lower
    without = dataclasses.replace(pair, single=None)
    assert without.lower < pair.lower  # the bound of one release tells something


def test_cells_that_grow():
    made = design_composed_noise(epsilon=2.0, delta=0.2, resolution=3, growth=1, lower_resolution=1)
    uniform = cell_groups(len(made.laws[0].weights), 3, Fraction(0))
    groups = cell_groups(len(made.laws[0].weights), 3, Fraction(1))
    assert max(groups) < max(uniform)
    for law in made.laws:
        by_group = {}
        for group, weight in zip(
            cell_groups(len(law.weights), 3, Fraction(1)), law.weights, strict=True
        ):
            assert by_group.setdefault(group, weight) == weight
    assert made.verify()


@pytest.mark.slow
def test_moves_in_a_disc():
    made = design_composed_noise(epsilon=2.0, delta=0.2, resolution=4, ball="l2")
    gaussian = 2 * tdp.AnalyticGaussian(epsilon=2, delta=0.2).expected_loss(1)
    assert 0.8 < made.lower < made.upper < gaussian
    assert not dataclasses.replace(made, ball="linf").is_private(made.delta)


# --- certificates ---------------------------------------------------------------------------------


def test_json_round_trip(pair):
    again = ComposedDesign.from_json(pair.to_json())
    assert again.to_json() == pair.to_json()
    assert proofs.prove(pair.to_json()).upper == pair.upper


def _moved_weight(record):
    weights = record["laws"][0]["weights"]
    weights[0] += weights[-1]
    weights[-1] = 0


def _perturbed_weight(record):
    record["laws"][1]["weights"][0] += 1 << 30


def _swapped_laws(record):
    record["laws"].reverse()


def _swapped_weights(record):
    first, second = record["laws"]
    first["cells"], second["cells"] = second["cells"], first["cells"]
    record["laws"].reverse()


def _one_law_twice(record):
    record["laws"][0] = record["laws"][1]


def _finer_cells(record):
    record["laws"][0]["cells"] += 1


def _narrower_cells(record):
    record["laws"][1]["cells"] -= 1


def _smaller_delta(record):
    record["delta"] = "19/100"


def _dropped_shift(record):
    for part in ("shifts", "multipliers", "row_multipliers"):
        record["bound"][part].pop()


def _cheaper_prices(record):
    record["bound"]["multipliers"] = [x // 2 for x in record["bound"]["multipliers"]]


def _other_importance(record):
    record["importance"] = ["1", "2"]


def _other_single(record):
    record["single"]["delta"] = "1/10"


def _no_single(record):
    record["single"] = None


def _heavier_atom(record):
    record["laws"][0]["atom"] += sum(record["laws"][0]["weights"])


def _negative_weight(record):
    record["laws"][0]["weights"][-1] = -1


def _disc_of_two_widths(record):
    record["ball"] = "l2"


FAULTS = [
    _moved_weight, _perturbed_weight, _swapped_laws, _swapped_weights, _one_law_twice, _finer_cells,
    _narrower_cells,
    _smaller_delta, _dropped_shift, _cheaper_prices, _other_importance, _other_single, _no_single,
    _heavier_atom, _negative_weight, _disc_of_two_widths,
]  # fmt: skip


@pytest.mark.parametrize("tamper", FAULTS)
def test_tampering_is_caught(pair, tamper):
    record = json.loads(pair.to_json())
    tamper(record)
    with pytest.raises((UndecidedError, ParameterError)):
        ComposedDesign.from_dict(record)
    with pytest.raises(Refuted):
        proofs.prove(json.dumps(record))


@pytest.mark.parametrize("tamper", [_moved_weight, _swapped_weights, _one_law_twice, _finer_cells])
def test_a_law_that_is_not_private_is_caught_whatever_loss_is_stated(pair, tamper):
    """The stated loss is mended, so that only the shortfall can tell."""
    record = json.loads(pair.to_json())
    tamper(record)
    facts = composed_verifier.facts_of(record)
    record["upper"] = str(composed_verifier.upper_bound(facts))
    with pytest.raises(Refuted, match="<= delta"):
        composed_verifier.verify({**record, "lower": str(composed_verifier.lower_bound(facts))})


def test_the_proof_needs_no_solver():
    tree = ast.parse(Path(str(composed_verifier.__file__)).read_text())
    froms = {str(node.module) for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
    ours = {name for name in froms if name.startswith("tightdp")}
    names = ("exact_numbers", "vector_balls", "vector_verifier", "verifier")
    assert ours <= {"tightdp.design", *(f"tightdp.design.{name}" for name in names)}
    assert {name.split(".")[0] for name in froms - ours} <= set(sys.stdlib_module_names)


# --- draws and releases ---------------------------------------------------------------------------


def test_draws_follow_the_laws(pair, seed):
    draws = pair.sample(100_000, rng=seed)
    assert pair.sample(rng=seed).shape == (2,)
    for k, law in enumerate(pair.noises):
        size = np.abs(draws[:, k]) * float(pair.grid_steps[k])
        allowed = 5 * size.std() / math.sqrt(len(size))
        assert law.expected_loss(1) == pytest.approx(float(pair.losses[k]), rel=1e-9)
        assert abs(size.mean() - float(pair.losses[k])) < allowed
        assert abs(0.95 * size.mean() - float(pair.losses[k])) > allowed  # noise cut by 5 %
    assert abs(np.corrcoef(np.abs(draws).T)[0, 1]) < 5 / math.sqrt(len(draws))
    assert len(pair.to_grid([[0.1, 0.2]])[0]) == 2


def test_both_are_released_and_paid_for_together(pair, seed):
    schema = tdp.Schema({"x": tdp.Interval(0, 10), "y": tdp.Interval(0, 1)}, rows=50)
    mechanism = tdp.AdditiveMechanism(tdp.Sums(schema), noise=pair)
    assert (mechanism.epsilon, mechanism.delta) == (pair.epsilon, pair.delta)
    choice = mechanism._choice
    far = np.array([[law.sensitivity for law in choice.laws]])
    assert choice.covers(far).all()
    assert not choice.covers(far + 1).any()
    draws = choice.sample(40_000, rng=seed) / float(mechanism.resolution)
    covariance = choice.covariance()
    assert np.cov(draws.T) == pytest.approx(covariance, rel=0.05, abs=0.02 * covariance.max())
    ledger = tdp.Ledger(epsilon=2, delta=0.2, allow_seeded=True)
    frame = {"x": [4.0] * 50, "y": [0.5] * 50}
    release = mechanism.release(frame, ledger=ledger, key="both", rng=1)
    assert release.guarantee.epsilon == 2.0
    assert ledger.remaining.epsilon == 0
    forged = dataclasses.replace(pair, epsilon=Fraction(1))
    with pytest.raises(UndecidedError):
        tdp.AdditiveMechanism(tdp.Sums(schema), noise=forged)
    one = tdp.Sums(tdp.Schema({"x": tdp.Interval(0, 1)}, rows=50))
    with pytest.raises(DimensionError, match="two entries"):
        tdp.AdditiveMechanism(one, noise=pair)


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0},
        {"delta": 0.0},
        {"delta": 1.0},
        {"sensitivities": (1, -1)},
        {"sensitivities": (1,)},
        {"importance": 3},
        {"importance": (0, 1)},
        {"ball": "l3"},
        {"loss": "l7"},
        {"resolution": 0},
        {"resolution": (1, 2, 3)},
        {"resolution": (2, 3), "ball": "l2"},
        {"growth": -1},
        {"support": 0.5},
        {"support": 1e6},
        {"lower_resolution": 0},
    ],
)
def test_bad_parameters(change):
    given = {"epsilon": 1.0, "delta": 0.2, "resolution": 1, **change}
    with pytest.raises(ParameterError):
        design_composed_noise(**given)
