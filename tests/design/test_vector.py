"""Designs for two and three entries: shortfalls by brute force, covered balls, proofs refuted."""

from __future__ import annotations

import ast
import dataclasses
import functools
import itertools
import json
import math
import sys
from decimal import Decimal
from fractions import Fraction
from pathlib import Path

import numpy as np
import pytest
from scipy.stats import chi2

from tightdp import (
    ParameterError,
    UndecidedError,
    VectorDesign,
    design_planar_noise,
    design_vector_noise,
)
from tightdp.design import (
    exact_numbers,
    loss_values,
    proofs,
    vector_balls,
    vector_verifier,
    verifier,
)
from tightdp.design.exact_numbers import Refuted, exp_bounds
from tightdp.design.vector_balls import (
    BoundaryCover,
    gauge_within,
    lattice_shifts,
    rounded_radius,
)
from tightdp.design.vector_grid import VectorGrid
from tightdp.design.vector_programs import Wish, propose_noise
from tightdp.design.vector_samples import boundary_samples, multilinear
from tightdp.design.vector_verifier import OrbitCells
from tightdp.errors import DimensionError
from tightdp.exact.enclosures import exp_above


@pytest.fixture(scope="module")
def design() -> VectorDesign:
    return design_planar_noise(epsilon=2.0, delta=0.2, resolution=4)


@pytest.fixture(scope="module")
def cube() -> VectorDesign:
    return design_vector_noise(dim=3, epsilon=2.0, delta=0.2, resolution=2)


# --- shortfalls -----------------------------------------------------------------------------------


def law_on_grid(design: VectorDesign) -> dict[tuple[int, ...], Fraction]:
    """The exact law of the sampler, by enumeration."""
    law: dict[tuple[int, ...], Fraction] = {}
    r, off = design.points, design.points // 2 if design.centred else 0
    for cell, orbit in np.ndenumerate(design.grid.orbit):
        each = Fraction(design.weights[orbit], design.total * r**design.dim)
        for inside in itertools.product(range(r), repeat=design.dim):
            place = tuple(
                (i - design.half) * r - off + u for i, u in zip(cell, inside, strict=True)
            )
            law[place] = law.get(place, Fraction(0)) + each
    zero = (0,) * design.dim
    law[zero] = law.get(zero, Fraction(0)) + Fraction(design.atom, design.total)
    return law


def brute_shortfall(law: dict[tuple[int, ...], Fraction], z: tuple[int, ...], e: Fraction):
    moved = (
        (p, law.get(tuple(x - m for x, m in zip(at, z, strict=True)), 0)) for at, p in law.items()
    )
    return sum((max(p - e * q, Fraction(0)) for p, q in moved), Fraction(0))


def short_of(pairs, weights, e: Fraction) -> Fraction:
    """The shortfall, from pairs of orbits."""
    each = [*map(Fraction, weights), Fraction(0)]
    terms = (t * max(each[own] - e * each[met], 0) for (own, met), t in pairs.items())
    return sum(terms, Fraction(0))


SHIFTS = {2: [(1, 0), (1, 1), (2, 1), (4, 3), (9, 0)], 3: [(1, 0, 0), (2, 1, 1), (3, 2, 0)]}


@pytest.mark.parametrize("dim", [2, 3])
@pytest.mark.parametrize("centred", [True, False])
def test_folded_shortfalls_are_those_of_all_cells(dim, centred, seed):
    grid = VectorGrid(3 if dim == 2 else 2, dim=dim, centred=centred)
    again = OrbitCells(dim, grid.half, centred=centred)
    assert again.sizes == grid.sizes.tolist()
    assert again.orbit == grid.orbit.ravel().tolist()
    weights = [int(w) for w in np.random.default_rng(seed).integers(0, 50, len(grid))]
    e = exp_bounds(Fraction(1, 2))[0]
    cells = {k: Fraction(weights[o]) for k, o in np.ndenumerate(grid.orbit)}
    for shift in SHIFTS[dim]:
        pairs = again.pairs(shift)
        assert short_of(pairs, weights, e) == brute_shortfall(cells, shift, e)
        rows = zip(*(part.tolist() for part in grid.rows(shift)), strict=True)
        assert {(own, met): times for own, met, times in rows} == dict(pairs)


def test_windows_count_the_same_pairs():
    grid, cells = VectorGrid(4, dim=3, window=2), OrbitCells(3, 4, centred=True, window=2)
    for shift in SHIFTS[3]:
        rows = zip(*(part.tolist() for part in grid.rows(shift)), strict=True)
        assert {(own, met): times for own, met, times in rows} == dict(cells.pairs(shift))


@pytest.mark.parametrize("ball", ["l2", "l1", "linf"])
def test_every_change_of_three_entries_is_private_by_enumeration(ball):
    made = design_vector_noise(dim=3, epsilon=3.0, delta=0.3, resolution=1, ball=ball)
    law, e = law_on_grid(dataclasses.replace(made, points=2)), exp_above(made.epsilon)
    assert sum(law.values()) == 1
    moves = [m for m in itertools.product(range(4), repeat=3) if list(m) == sorted(m)[::-1]]
    short = {m: brute_shortfall(law, m, e) for m in moves}
    inside = [v for m, v in short.items() if gauge_within(ball, m, 2)]
    assert max(inside) <= made.delta
    assert max(short.values()) > made.delta  # three steps are too far


@pytest.mark.parametrize("ball", ["l2", "l1", "linf"])
def test_every_change_of_a_rounded_query_is_private_by_enumeration(ball):
    fine = design_planar_noise(epsilon=2.0, delta=0.3, resolution=1, ball=ball, lower_resolution=2)
    coarse = dataclasses.replace(fine, points=4)
    law, e = law_on_grid(coarse), exp_above(fine.epsilon)
    assert sum(law.values()) == 1
    shorts = {
        (a, b): brute_shortfall(law, (a, b), e)
        for a in range(7)
        for b in range(a + 1)
        if _changes(ball, a, b, 4)
    }
    if coarse.is_private(coarse.delta):  # four points a cell cost more than a million
        assert max(shorts.values()) <= fine.delta
    steps = 4 * fine.resolution
    exact = [v for (a, b), v in shorts.items() if _norm(ball, a, b) <= steps]
    assert max(exact) <= fine.delta  # a query on the grid needs no rounding
    worse = max(brute_shortfall(law, (a, 0), e) for a in range(6, 8))
    assert worse > fine.delta


def _norm(ball: str, a: int, b: int) -> float:
    return {"l1": a + b, "l2": math.hypot(a, b), "linf": max(a, b)}[ball]


def _changes(ball: str, a: int, b: int, steps: int) -> bool:
    """Whether rounding a query to whole steps can turn a change in the ball into (a, b)."""
    if ball == "linf":
        return max(a, b) <= steps
    return _norm(ball, max(a - 1, 0), max(b - 1, 0)) < steps


@pytest.mark.parametrize("ball", ["l1", "l2", "linf"])
def test_rounding_moves_a_change_no_further_than_stated(ball, design, seed):
    law = dataclasses.replace(design, ball=ball, points=8)
    rng = np.random.default_rng(seed)
    start = rng.uniform(-3, 3, (2000, 2))
    step = rng.normal(size=(2000, 2))
    size = np.linalg.norm(step, ord={"l1": 1, "l2": 2, "linf": np.inf}[ball], axis=1)
    end = start + step / size[:, None] * (1 - 1e-12)
    moved = np.abs(np.array(law.to_grid(end)) - np.array(law.to_grid(start)))
    reach = float(rounded_radius(ball, law.resolution, law.points)) * law.points
    far = np.array([_norm(ball, a, b) for a, b in moved])
    assert far.max() <= reach + 1e-9
    if ball != "linf":
        assert far.max() > law.resolution * law.points  # the allowance is needed


# --- the boundary ---------------------------------------------------------------------------------


@pytest.mark.parametrize("ball", ["l1", "l2"])
def test_the_cover_brackets_the_largest_value_on_the_boundary(ball, seed):
    rng = np.random.default_rng(seed)
    table = {(i, j): int(rng.integers(0, 10**9)) for i in range(8) for j in range(i + 1)}
    seen = max(
        sum(w * table[s] for s, w in multilinear(p).items()) for p in boundary_samples(ball, 5, 400)
    )
    cover = BoundaryCover(ball, Fraction(5))
    assert cover.holds(table.__getitem__, math.ceil(seen * 1.001))
    assert not cover.holds(table.__getitem__, math.floor(seen * 0.9999))


@pytest.mark.parametrize("symmetric", [True, False])
@pytest.mark.parametrize("ball", ["l1", "l2"])
def test_the_cover_brackets_the_largest_value_on_a_sphere(ball, symmetric, seed):
    rng = np.random.default_rng(seed)
    steep = rng.integers(1, 9, 3)
    if symmetric:
        steep[:] = steep[0]

    def value(shift: tuple[int, ...]) -> int:  # like a shortfall, it grows outwards
        bumps = hash(shift) % 1000 if symmetric else 0
        return int(10**6 * sum(a * x for a, x in zip(steep, shift, strict=True)) + 10**3 * bumps)

    points = boundary_samples(ball, 3, 40, 3)
    if not symmetric:
        points = [tuple(p[i] for i in turn) for p in points for turn in TURNS]
    seen = max(_interpolated(value, p, symmetric) for p in points)
    cover = BoundaryCover(ball, Fraction(3), 3, symmetric=symmetric)
    assert cover.holds(value, math.ceil(seen * 1.001))
    assert cover.boxes < 20_000
    assert not cover.holds(value, math.floor(seen * 0.9999))


TURNS = list(itertools.permutations(range(3)))


def _interpolated(value, point, symmetric):
    low = [math.floor(x) for x in point]
    total = 0.0
    for step in itertools.product((0, 1), repeat=3):
        corner = tuple(i + d for i, d in zip(low, step, strict=True))
        parts = zip(point, low, step, strict=True)
        weight = math.prod(x - i if d else 1 - (x - i) for x, i, d in parts)
        total += weight * value(tuple(sorted(corner, reverse=True)) if symmetric else corner)
    return total


def test_a_leak_between_samples_is_seen():
    grid = VectorGrid(10)
    noise = propose_noise(grid, 5, Wish("l2", "l1", factor=math.exp(2), delta=0.2, samples=2))
    weights, atom = [int(w * 2**52) for w in noise.weights], int(noise.atom * 2**52)
    total = sum(w * n for w, n in zip(weights, grid.sizes.tolist(), strict=True)) + atom
    e = exp_bounds(Fraction(2))[0]
    high, cells = e.denominator, OrbitCells(2, 10, centred=True)
    most = math.floor(Fraction(1, 5) * total * high) - atom * high
    slack = high * total // 10**8

    @functools.cache
    def value(shift: tuple[int, ...]) -> int:
        return int(short_of(cells.pairs(shift), weights, e) * high)

    assert max(map(value, lattice_shifts("l2", Fraction(5)))) <= most + slack
    assert not BoundaryCover("l2", Fraction(5)).holds(value, most + slack)


def test_less_noise_is_refused(design):
    assert design.verify()
    cut = dataclasses.replace(design, resolution=5)  # the same law for a ball 5/4 as large
    assert not cut.is_private(design.delta)
    assert not design.is_private(design.delta * Fraction(99, 100))
    assert not dataclasses.replace(design, epsilon=Fraction(19, 10)).is_private(design.delta)


# --- bounds and certificates ----------------------------------------------------------------------


def test_bounds_enclose_and_scale(design):
    assert 0.75 < design.lower < design.upper < 0.86
    assert design.gap < 0.07
    again = dataclasses.replace(design, sensitivity=Fraction(3))
    assert again.upper == 3 * design.upper
    assert again.lower == 3 * design.lower


def test_larger_balls_cost_more():
    made = [
        design_planar_noise(epsilon=1.0, delta=0.3, resolution=3, ball=ball, lower_resolution=4)
        for ball in ("l1", "l2", "linf")
    ]
    uppers = [d.upper for d in made]
    assert uppers == sorted(uppers)
    for one in made:
        assert one.verify()
        assert one.lower <= one.upper


def test_squared_loss():
    made = design_planar_noise(epsilon=2.0, delta=0.2, resolution=4, loss="l2")
    assert made.gap < 0.12
    cells = made.probabilities()
    x = np.arange(-made.half, made.half + (1 if made.centred else 0)) + (0 if made.centred else 0.5)
    second = (cells * (x[:, None] ** 2 + x[None, :] ** 2 + 1 / 6)).sum() / made.resolution**2
    assert float(made.upper) == pytest.approx(second, rel=1e-12)


def test_json_round_trip(design, cube):
    for made in (design, cube):
        again = VectorDesign.from_json(made.to_json())
        assert again.to_json() == made.to_json()
        assert again.verify()


def test_three_entries_have_bounds_on_both_sides(cube):
    assert cube.dim == 3
    assert 1.04 < cube.lower < cube.upper < 1.49
    assert cube.upper > design_planar_noise(epsilon=2.0, delta=0.2, resolution=2).upper
    boxed = design_vector_noise(dim=3, epsilon=2.0, delta=0.2, resolution=2, ball="linf")
    assert boxed.gap < 0.07
    assert not dataclasses.replace(boxed, resolution=3).is_private(boxed.delta)
    assert not dataclasses.replace(cube, ball="linf").is_private(cube.delta)


def test_files_of_the_first_version_are_proved():
    """Its lower bounds came from a few digits less of e**epsilon."""
    made = design_planar_noise(epsilon=1.0, delta=0.3, ball="linf", resolution=2)
    record = {**made.to_dict(), "lower": str(made.lower - Fraction(1, 10**30))}
    assert VectorDesign.from_dict(record).lower == made.lower


def _double_centre(record):
    record["weights"][0] += record["weights"][1]


def _smaller_delta(record):
    record["delta"] = "19/100"


def _higher_multiplier(record):
    record["bound"]["row_multipliers"][0][0] += 1 << 60


def _fewer_costs(record):
    record["bound"]["multipliers"] = [x // 2 for x in record["bound"]["multipliers"]]


def _higher_lower(record):
    record["lower"] = "2"


def _foreign_shift(record):
    record["bound"]["shifts"][0] = [9, 9]


def _negative_price(record):
    record["bound"]["multipliers"][0] = -1
    record["bound"]["row_multipliers"][0] = [0] * len(record["bound"]["row_multipliers"][0])


def _too_fine_a_grid(record):
    record["points"] = 1 << 62


def _negative_weight(record):
    record["weights"][-1] = -1


def _dropped_shift(record):
    for part in ("shifts", "multipliers", "row_multipliers"):
        record["bound"][part].pop()


def _repeated_shift(record):
    for part in ("shifts", "multipliers", "row_multipliers"):
        record["bound"][part].append(record["bound"][part][0])


def _heavier_atom(record):
    record["atom"] += sum(record["weights"])


def _other_format(record):
    formats = list(vector_verifier.FORMATS.values())
    record["format"] = formats[1 - formats.index(record["format"])]


@pytest.mark.parametrize("kind", ["design", "cube"])
@pytest.mark.parametrize(
    "tamper",
    [
        _dropped_shift,
        _repeated_shift,
        _heavier_atom,
        _other_format,
        _double_centre,
        _smaller_delta,
        _higher_multiplier,
        _fewer_costs,
        _higher_lower,
        _foreign_shift,
        _negative_price,
        _too_fine_a_grid,
        _negative_weight,
    ],
)
def test_tampering_is_caught(kind, tamper, request):
    record = json.loads(request.getfixturevalue(kind).to_json())
    assert proofs.prove(json.dumps(record)).delta == Fraction(1, 5)
    tamper(record)
    with pytest.raises(UndecidedError):
        VectorDesign.from_dict(record)
    with pytest.raises(Refuted):
        proofs.prove(json.dumps(record))


def test_the_proof_needs_no_solver():
    """The verifier and what it imports are the standard library and each other."""
    own = (vector_verifier, vector_balls, verifier, exact_numbers, loss_values)
    for module in own:
        tree = ast.parse(Path(str(module.__file__)).read_text())
        froms = {node.module for node in ast.walk(tree) if isinstance(node, ast.ImportFrom)}
        tops = {str(name) for name in froms if str(name).split(".")[0] == "tightdp"}
        assert tops <= {each.__name__ for each in own}
        others = froms - tops
        assert {str(name).split(".")[0] for name in others} <= set(sys.stdlib_module_names)


# --- draws ----------------------------------------------------------------------------------------


def _misfit(design: VectorDesign, draws: np.ndarray) -> float:
    """p-value of the cells of the draws."""
    off = design.points // 2 if design.centred else 0
    cell = (draws + off) // design.points + design.half
    side = design.grid.side
    counts = np.bincount(cell[:, 0] * side + cell[:, 1], minlength=side * side)
    expected = design.probabilities().ravel() * len(draws)
    if design.atom:
        expected[design.half * side + design.half] += design.atom_share * len(draws)
    large = expected >= 5
    rest = expected[~large].sum(), counts[~large].sum()
    terms = (counts[large] - expected[large]) ** 2 / expected[large]
    extra = (rest[1] - rest[0]) ** 2 / max(rest[0], 5.0)
    return float(chi2.sf(terms.sum() + extra, large.sum()))


def test_draws_follow_the_cells(design, seed):
    draws = design.sample(200_000, rng=seed)
    assert _misfit(design, draws) > 1e-5
    assert _misfit(design, (draws * 0.9).astype(np.int64)) < 1e-9
    inside = (draws + (design.points // 2 if design.centred else 0)) % design.points
    mean = inside.mean(axis=0) / design.points
    assert np.abs(mean - 0.5).max() < 5 / math.sqrt(12 * len(draws))
    loss = np.abs(draws).sum(axis=1) * float(design.grid_step)
    assert abs(loss.mean() - float(design.upper)) < 5 * loss.std() / math.sqrt(len(draws))


def test_triples_follow_the_cells(cube, seed):
    draws = cube.sample(100_000, rng=seed)
    assert draws.shape == (100_000, 3)
    loss = np.abs(draws).sum(axis=1) * float(cube.grid_step)
    allowed = 5 * loss.std() / math.sqrt(len(loss))
    assert abs(loss.mean() - float(cube.upper)) < allowed
    assert abs(0.98 * loss.mean() - float(cube.upper)) > allowed  # noise that is 2 % too short
    assert np.abs(np.corrcoef(np.abs(draws).T) - np.corrcoef(np.abs(draws[:, ::-1]).T)).max() < 0.02
    assert len(cube.to_grid([[0.1, -0.2, 3.0]])[0]) == 3


def test_one_draw_and_the_guarantee(design):
    assert design.sample(rng=3).shape == (2,)
    promise = design.guarantee()
    assert (promise.epsilon, promise.delta, str(promise.numerics)) == (2.0, 0.2, "exact")


# --- bad input ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "change",
    [
        {"epsilon": 0.0},
        {"epsilon": 50.0},
        {"epsilon": "1"},
        {"delta": 0.0},
        {"delta": 1.0},
        {"delta": math.nan},
        {"sensitivity": -1.0},
        {"ball": "l3"},
        {"loss": "l7"},
        {"resolution": 0},
        {"resolution": 2.5},
        {"support": 0.5},
        {"support": 40.0},
        {"lower_resolution": 0},
        {"dim": 1},
        {"dim": 4},
        {"dim": 2.5},
    ],
)
def test_bad_parameters(change):
    with pytest.raises(ParameterError):
        design_vector_noise(**{"dim": 2, "epsilon": 1.0, "delta": 0.2, **change})
    if "dim" not in change:
        with pytest.raises(ParameterError):
            design_planar_noise(**{"epsilon": 1.0, "delta": 0.2, **change})


def test_bad_queries(design):
    with pytest.raises(DimensionError):
        design.to_grid([[1.0, 2.0, 3.0]])
    with pytest.raises(ParameterError):
        design.to_grid([[1.0, 2.0], [3.0]])


@pytest.mark.parametrize("kind", [int, np.int64, Fraction, Decimal])
def test_large_whole_numbers_move_no_further_than_they_do(design, kind):
    """As doubles 2**53 + 1 and 2**53 + 3 would be four apart: twice the stated change."""
    unit = round(design.sensitivity / design.grid_step)
    for z in range(2**53, 2**53 + 5):
        near, far = (design.to_grid([[kind(x), kind(-x)]])[0] for x in (z, z + 1))
        assert [b - a for a, b in zip(near, far, strict=True)] == [unit, -unit]


def test_incomplete_records():
    with pytest.raises(ParameterError):
        VectorDesign.from_dict({"format": "tightdp planar design 1"})
    with pytest.raises(ParameterError):
        VectorDesign.from_json("{}")


# --- the published examples -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "most", "gap"), [(2.0, 0.845, 0.04), (5.0, 0.285, 0.12)])
def test_published_settings(epsilon, most, gap):
    made = design_planar_noise(epsilon=epsilon, delta=0.2, resolution=8)
    assert made.verify()
    assert made.upper <= most
    assert made.gap <= gap
