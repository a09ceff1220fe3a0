"""Noise designed in the plane, released through the additive mechanism."""

from __future__ import annotations

import dataclasses
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

import tightdp as tdp
from tightdp.errors import BudgetError, DimensionError, ParameterError, UndecidedError
from tightdp.shaping import vector_noise
from tightdp.shaping.vector_noise import VectorNoise

# a large delta makes short laws
pytestmark = pytest.mark.filterwarnings("ignore::tightdp.PublicFactWarning")

NORMS = {"l1": 1, "l2": 2, "linf": np.inf}


@pytest.fixture(scope="module", params=["l1", "l2", "linf"])
def design(request):
    return tdp.design_planar_noise(epsilon=1.0, delta=0.3, resolution=2, ball=request.param)


@pytest.fixture
def counts():
    return tdp.Counts(tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, rows=100))


def table(law):
    """The probability of every integer pair, written out."""
    cells = np.repeat(np.repeat(law.probabilities(), law.points, 0), law.points, 1)
    cells = cells / law.points**2
    zero = law.half * law.points + (law.points // 2 if law.centred else 0)
    cells[zero, zero] += law.atom_share
    return cells


def loses(pmf, epsilon, shift):
    """The hockey-stick divergence of a table from itself, moved by a pair of whole steps."""
    reach = max(map(abs, shift))
    wide = np.pad(pmf, reach)
    moved = np.roll(wide, shift, axis=(0, 1))
    return float(np.maximum(wide - math.exp(epsilon) * moved, 0).sum())


def steps(law, ball, cells):
    """Whole shifts, up to symmetry, of at most so many cells."""
    most = math.floor(cells * law.points)
    pairs = [(i, j) for i in range(most + 1) for j in range(i + 1)]
    return [s for s in pairs if np.linalg.norm(s, NORMS[ball]) <= cells * law.points]


def test_every_move_of_the_statistic_is_private_by_enumeration(design, counts, monkeypatch):
    monkeypatch.setattr(vector_noise, "_POINTS", 2)
    mechanism = tdp.AdditiveMechanism(counts, noise=design)
    choice, law = mechanism._choice, mechanism.noise
    apart = choice.factor * np.array([1, -1])  # neighbours move one person between categories
    assert np.linalg.norm(apart, NORMS[design.ball]) <= design.resolution * law.points
    pmf = table(law)
    assert pmf.sum() == pytest.approx(1, abs=1e-12)
    worst = max(loses(pmf, 1.0, shift) for shift in steps(law, design.ball, design.resolution))
    assert worst <= 0.3 + 1e-12
    broken = dataclasses.replace(law, points=law.points - 2)  # less noise for the same moves
    further = design.resolution * law.points / broken.points
    moves = steps(broken, design.ball, further)
    assert max(loses(table(broken), 1.0, shift) for shift in moves) > 0.3


def test_draws_follow_the_table(design, counts, monkeypatch, seed):
    monkeypatch.setattr(vector_noise, "_POINTS", 2)
    law = tdp.AdditiveMechanism(counts, noise=design).noise
    pmf = table(law)
    zero = law.half * law.points + (law.points // 2 if law.centred else 0)

    def misfit(draws):
        at = np.clip(draws + zero, 0, len(pmf) - 1)
        got = np.zeros_like(pmf)
        np.add.at(got, (at[:, 0], at[:, 1]), 1)
        want = pmf * len(draws)
        keep = want >= 5
        terms = ((got - want) ** 2)[keep] / want[keep]
        rest = (got[~keep].sum() - want[~keep].sum()) ** 2 / max(want[~keep].sum(), 5)
        return chi2.sf(terms.sum() + rest, keep.sum())

    draws = law.sample(20_000, rng=seed)
    assert misfit(draws) > 1e-6
    assert misfit(np.rint(0.8 * draws).astype(int)) < 1e-6


def test_stated_errors_are_those_of_the_draws(design, seed):
    sums = tdp.Sums(tdp.Schema({"x": tdp.Interval(0, 10), "y": tdp.Interval(0, 1)}, rows=50))
    mechanism = tdp.AdditiveMechanism(sums, noise=design)
    preview = mechanism.preview(0.9)
    draws = mechanism.noise.sample(40_000, rng=seed) / mechanism.resolution
    assert preview.std[0] == pytest.approx(10 * preview.std[1], rel=1e-12)
    covariance = mechanism._choice.covariance()
    assert np.cov(draws.T) == pytest.approx(covariance, abs=0.03 * covariance[0, 0])
    half = mechanism._choice.reach(np.eye(2), 0.9)
    assert (np.abs(draws) <= half).all(axis=1).mean() >= 0.9 - 0.01


def test_a_release_is_paid_for_once(design, counts):
    mechanism = tdp.AdditiveMechanism(counts, noise=design)
    ledger = tdp.Ledger(epsilon=1.0, delta=0.3, allow_seeded=True)
    frame = {"k": ["a"] * 60 + ["b"] * 40}
    release = mechanism.release(frame, ledger=ledger, key="counts", rng=3)
    assert release.guarantee.epsilon == 1.0
    assert release.guarantee.delta == pytest.approx(0.3)
    again = mechanism.release(frame, ledger=ledger, key="counts", rng=4)
    assert again.integers == release.integers
    with pytest.raises(BudgetError):
        mechanism.release(frame, ledger=ledger, key="more", rng=5)


def test_three_entries_are_released_with_noise_for_three(seed):
    cube = tdp.design_vector_noise(dim=3, epsilon=2.0, delta=0.3, resolution=1)
    counts = tdp.Counts(tdp.Schema({"k": tdp.Category(["a", "b", "c"], other="a")}, rows=90))
    mechanism = tdp.AdditiveMechanism(counts, noise=cube)
    assert mechanism.certified == "exact"
    choice = mechanism._choice
    far = np.array([[cube.resolution * choice.draws.points, 0, 0]])
    assert choice.covers(far).all()
    assert not choice.covers(far + 1).any()
    draws = mechanism.noise.sample(40_000, rng=seed) / mechanism.resolution
    covariance = choice.covariance()
    assert np.cov(draws.T) == pytest.approx(covariance, abs=0.05 * covariance[0, 0])
    assert np.cov(0.8 * draws.T) != pytest.approx(covariance, abs=0.05 * covariance[0, 0])
    inside = (np.abs(draws) <= choice.reach(np.eye(3), 0.9)).all(axis=1)
    assert inside.mean() >= 0.89
    release = mechanism.release({"k": ["a", "b", "c"] * 30}, rng=1)
    assert len(release.value) == 3


def test_rows_of_a_person_widen_the_cells(design):
    def noise(rows):
        facts = {"rows": 99, "neighbors": "add-remove", "person": "id", "rows_per_person": rows}
        return VectorNoise(
            tdp.Counts(tdp.Schema({"k": tdp.Category(["a", "b"], other="a")}, **facts)),
            design,
            None,
            0,
        )

    one, three = noise(1), noise(3)
    grown = Fraction(three.draws.points, three.resolution) / Fraction(
        one.draws.points, one.resolution
    )
    assert float(grown) == pytest.approx(3, rel=2e-3)


def test_bad_input_is_named(design, counts):
    three = tdp.Counts(tdp.Schema({"k": tdp.Category(["a", "b", "c"], other="a")}, rows=9))
    with pytest.raises(DimensionError, match="two entries"):
        tdp.AdditiveMechanism(three, noise=design)
    for given in ({"epsilon": 0.5, "delta": 0.3}, {"epsilon": 1}, {"delta": 0.1}):
        with pytest.raises(ParameterError, match="must cover the design"):
            tdp.AdditiveMechanism(counts, noise=design, **given)
    more = tdp.AdditiveMechanism(counts, noise=design, epsilon=2, delta=0.4)
    assert (more.epsilon, more.delta) == (design.epsilon, design.delta)  # what it costs
    forged = dataclasses.replace(design, epsilon=Fraction(1, 2))
    with pytest.raises(UndecidedError):
        tdp.AdditiveMechanism(counts, noise=forged)
