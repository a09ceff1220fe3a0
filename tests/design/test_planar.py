"""Planar designs: shortfalls by brute force, the covered circle, proofs that can be refuted."""

from __future__ import annotations

import dataclasses
import itertools
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from tightdp import ParameterError, PlanarDesign, UndecidedError, design_planar_noise
from tightdp.design.planar_balls import (
    BoundaryCover,
    bilinear,
    boundary_samples,
    lattice_shifts,
    rounded_radius,
)
from tightdp.design.planar_grid import PlanarGrid, shortfall
from tightdp.design.planar_programs import propose_noise
from tightdp.errors import DimensionError
from tightdp.exact.enclosures import exp_above, exp_below


@pytest.fixture(scope="module")
def design() -> PlanarDesign:
    return design_planar_noise(epsilon=2.0, delta=0.2, resolution=4)


# --- shortfalls -----------------------------------------------------------------------------------


def law_on_grid(design: PlanarDesign) -> dict[tuple[int, int], Fraction]:
    """The exact law of the sampler, by enumeration."""
    law: dict[tuple[int, int], Fraction] = {}
    r, off = design.points, design.points // 2 if design.centred else 0
    for (i, j), orbit in np.ndenumerate(design.grid.orbit):
        each = Fraction(design.weights[orbit], design.total * r * r)
        for u, v in itertools.product(range(r), repeat=2):
            place = (i - design.half) * r - off + u, (j - design.half) * r - off + v
            law[place] = law.get(place, Fraction(0)) + each
    law[0, 0] = law.get((0, 0), Fraction(0)) + Fraction(design.atom, design.total)
    return law


def brute_shortfall(law: dict[tuple[int, int], Fraction], z: tuple[int, int], e: Fraction):
    moved = ((p, law.get((x - z[0], y - z[1]), 0)) for (x, y), p in law.items())
    return sum((max(p - e * q, Fraction(0)) for p, q in moved), Fraction(0))


@pytest.mark.parametrize("centred", [True, False])
def test_folded_shortfalls_are_those_of_all_cells(centred, seed):
    grid = PlanarGrid(3, centred=centred)
    rng = np.random.default_rng(seed)
    weights = np.array([int(w) for w in rng.integers(0, 50, len(grid))], dtype=object)
    top, high = exp_below(Fraction(1, 2))
    cells = {k: Fraction(int(weights[o])) for k, o in np.ndenumerate(grid.orbit)}
    for shift in [(1, 0), (1, 1), (2, 1), (4, 3), (9, 0)]:
        brute = brute_shortfall(cells, shift, Fraction(top, high)) * high
        assert shortfall(grid.rows(shift), weights, top, high) == brute


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
        sum(w * table[s] for s, w in bilinear(x, y)) for x, y in boundary_samples(ball, 5, 400)
    )
    cover = BoundaryCover(ball, Fraction(5))
    assert cover.holds(table.__getitem__, math.ceil(seen * 1.001))
    assert not cover.holds(table.__getitem__, math.floor(seen * 0.9999))


def test_a_leak_between_samples_is_seen():
    grid = PlanarGrid(10)
    noise = propose_noise(
        grid, cells=5, ball="l2", loss="l1", factor=math.exp(2), delta=0.2, samples=2
    )
    weights = np.array([int(w * 2**52) for w in noise.weights], dtype=object)
    total = int((weights * grid.sizes).sum()) + int(noise.atom * 2**52)
    top, high = exp_below(Fraction(2))
    most = math.floor(Fraction(1, 5) * total * high) - int(noise.atom * 2**52) * high
    slack = high * total // 10**8

    def value(shift: tuple[int, int]) -> int:
        return shortfall(grid.rows(shift), weights, top, high)

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


def test_json_round_trip(design):
    again = PlanarDesign.from_json(design.to_json())
    assert again.to_json() == design.to_json()
    assert again.verify()


def _double_centre(record):
    record["weights"][0] += record["weights"][1]


def _smaller_delta(record):
    record["delta"] = "19/100"


def _higher_multiplier(record):
    record["bound"]["row_multipliers"][0][0] += 1 << 60


def _fewer_costs(record):
    record["bound"]["multipliers"] = [x // 2 for x in record["bound"]["multipliers"]]


def _higher_lower(record):
    record["lower"] = "83/100"


def _foreign_shift(record):
    record["bound"]["shifts"][0] = [9, 9]


def _negative_price(record):
    record["bound"]["multipliers"][0] = -1
    record["bound"]["row_multipliers"][0] = [0] * len(record["bound"]["row_multipliers"][0])


def _too_fine_a_grid(record):
    record["points"] = 1 << 62


def _negative_weight(record):
    record["weights"][-1] = -1


@pytest.mark.parametrize(
    "tamper",
    [
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
def test_tampering_is_caught(design, tamper):
    record = json.loads(design.to_json())
    tamper(record)
    with pytest.raises(UndecidedError):
        PlanarDesign.from_dict(record)


# --- draws ----------------------------------------------------------------------------------------


def _misfit(design: PlanarDesign, draws: np.ndarray) -> float:
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
    ],
)
def test_bad_parameters(change):
    with pytest.raises(ParameterError):
        design_planar_noise(**{"epsilon": 1.0, "delta": 0.2, **change})


def test_bad_queries(design):
    with pytest.raises(DimensionError):
        design.to_grid([[1.0, 2.0, 3.0]])


def test_incomplete_records():
    with pytest.raises(ParameterError):
        PlanarDesign.from_dict({"format": "tightdp planar design 1"})
    with pytest.raises(ParameterError):
        PlanarDesign.from_json("{}")


# --- the published examples -----------------------------------------------------------------------


@pytest.mark.slow
@pytest.mark.parametrize(("epsilon", "most", "gap"), [(2.0, 0.845, 0.04), (5.0, 0.285, 0.12)])
def test_published_settings(epsilon, most, gap):
    made = design_planar_noise(epsilon=epsilon, delta=0.2, resolution=8)
    assert made.verify()
    assert made.upper <= most
    assert made.gap <= gap
