"""Noise in the plane on cells that are fine at its steps: no worse than a coarse one, proved."""

from __future__ import annotations

import dataclasses
import json
import math
from fractions import Fraction

import numpy as np
import pytest
from scipy.stats import chi2

from tightdp import UndecidedError, VectorDesign, design_planar_noise
from tightdp.design import proofs, vector_refine
from tightdp.design.exact_numbers import Refuted
from tightdp.design.vector_balls import lattice_shifts
from tightdp.design.vector_grid import MergedGrid, VectorGrid
from tightdp.design.vector_programs import Wish, propose_bound, propose_noise
from tightdp.design.vector_refine import propose_refined, refine
from tightdp.design.vector_rows import HeldRows

WISH = Wish("l2", "l1", factor=math.exp(5), delta=0.2, samples=8)


def loss_of(noise, cells: int) -> float:
    grid = VectorGrid(noise.grid.half, centred=False)
    costs = [float(c) for c in grid.mean_losses("l1")]
    return float(np.array(costs) * grid.sizes @ noise.weights) / cells


@pytest.fixture(scope="module")
def made() -> VectorDesign:
    """A design by refinement, from 4 cells to 8."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(vector_refine, "LEAST_REFINED", 8)
        return design_planar_noise(epsilon=5, delta=0.2, resolution=8, lower_resolution=8)


# --- merged cells and held rows -------------------------------------------------------------------


def test_merged_rows_are_the_sums_of_the_rows_of_their_cells(seed):
    rng = np.random.default_rng(seed)
    fine = VectorGrid(4, centred=False)
    group = np.unique(rng.integers(0, 5, len(fine)), return_inverse=True)[1]
    merged, weights = MergedGrid(4, group), rng.random(group.max() + 1)
    assert merged.sizes.sum() == fine.sizes.sum() == 64
    for shift in [(1, 0), (2, 1), (3, 3), (5, 0)]:
        apart = HeldRows(fine, 1.7).lacks(shift, merged.spread(weights)).sum()
        together = HeldRows(merged, 1.7).lacks(shift, weights).sum()
        assert together == pytest.approx(apart, rel=1e-12)
    spread = merged.spread(weights)
    whole = merged.gather(spread) @ merged.sizes
    assert whole == pytest.approx(spread @ fine.sizes)


def test_a_refined_grid_holds_the_coarse_noise():
    coarse = propose_noise(VectorGrid(8, centred=False), 4, WISH)
    grid, start = refine(coarse)
    assert len(grid) < len(VectorGrid(16, centred=False))
    fine, wide = VectorGrid(16, centred=False), VectorGrid(8, centred=False)
    law, before = grid.spread(start)[fine.orbit], coarse.weights[wide.orbit]
    pooled = law.reshape(16, 2, 16, 2).sum(axis=(1, 3))
    assert pooled == pytest.approx(before, rel=2e-3, abs=1e-9)


def test_refinement_pays(monkeypatch):
    monkeypatch.setattr(vector_refine, "LEAST_REFINED", 6)
    coarse = propose_noise(VectorGrid(6, centred=False), 3, WISH)
    fine = propose_refined(12, 6, WISH, tolerated=1e-3)
    whole = propose_noise(VectorGrid(12, centred=False), 6, WISH)
    assert isinstance(fine.grid, MergedGrid)
    assert loss_of(fine, 6) < 0.97 * loss_of(coarse, 3)
    assert loss_of(whole, 6) * (1 - 2e-3) < loss_of(fine, 6) < 1.02 * loss_of(whole, 6)


def test_a_bound_with_few_rows_is_that_of_all():
    """Rows enter as they are broken: what they prove is what the program with every row does."""
    grid = VectorGrid(15, window=10)
    found = propose_bound(grid, cells=5, ball="l2", loss="l1", factor=math.exp(5), delta=0.2)
    held = sum(int((z > 0).sum()) for z in found.row_multipliers)
    every = sum(len(grid.rows(s).own) for s in lattice_shifts("l2", Fraction(5)))
    assert held < every / 3
    small = design_planar_noise(epsilon=5, delta=0.2, resolution=3, lower_resolution=5)
    assert float(small.lower) == pytest.approx(0.2194, abs=1e-4)


# --- the design -----------------------------------------------------------------------------------


def test_the_design_is_proved_and_close(made):
    assert made.verify()
    assert not made.centred
    assert 0.24 < made.lower < made.upper < 0.2825
    again = VectorDesign.from_json(made.to_json())
    assert (again.lower, again.upper) == (made.lower, made.upper)
    assert again.to_json() == made.to_json()


def test_noise_cut_by_a_fifth_is_refused(made):
    cut = dataclasses.replace(made, resolution=10)
    assert not cut.is_private(made.delta)
    with pytest.raises(UndecidedError):
        VectorDesign.from_dict({**json.loads(made.to_json()), "resolution": 10})


def test_no_number_can_be_changed(made, seed):
    """Each weight in use, the atom and the prices, moved by a part in a thousand or more."""
    whole, rng = json.loads(made.to_json()), np.random.default_rng(seed)
    heavy = [i for i, w in enumerate(whole["weights"]) if w]
    for change in range(12):
        record = json.loads(made.to_json())
        bound = record["bound"]
        if change < 4:
            at = int(rng.choice(heavy))
            record["weights"][at] = int(record["weights"][at] * (1.5 if change % 2 else 0.5))
        elif change < 6:
            record["atom"] = int(record["atom"] * (1.001 if change % 2 else 0.999))
        elif change < 9:
            at = int(np.argsort(bound["multipliers"])[-1 - int(rng.integers(3))])
            bound["multipliers"][at] = int(
                bound["multipliers"][at] * (1.01 if change % 2 else 0.99)
            )
        else:
            rows = bound["row_multipliers"][int(np.argmax(bound["multipliers"]))]
            at = int(np.argmax(rows))
            rows[at] = rows[at] // 2 if change % 2 else 2 * rows[at]
        with pytest.raises(Refuted):
            proofs.prove(json.dumps(record))
        with pytest.raises(UndecidedError):
            VectorDesign.from_dict(record)


def misfit(design: VectorDesign, draws: np.ndarray) -> float:
    """p-value of the cells of the draws; a cell with few expected goes to the rest."""
    zero = (draws == 0).all(axis=1)
    cell = draws[~zero] // design.points + design.half
    counts = np.zeros(design.grid.orbit.shape)
    np.add.at(counts, (cell[:, 0], cell[:, 1]), 1)
    seen = np.append(counts.ravel(), zero.sum())
    expected = np.append(design.probabilities().ravel(), design.atom_share) * len(draws)
    often = expected >= 5
    seen = np.append(seen[often], seen[~often].sum())
    expected = np.append(expected[often], expected[~often].sum())
    return float(chi2.sf(((seen - expected) ** 2 / expected).sum(), len(seen) - 1))


def test_draws_follow_the_table(made, seed):
    draws = made.sample(60_000, rng=seed)
    assert misfit(made, draws) > 1e-6
    cut = (draws * 0.8).astype(np.int64)  # noise cut by a fifth
    assert misfit(made, cut) < 1e-9


@pytest.mark.slow
def test_five_and_a_fifth_within_four_percent():
    design = design_planar_noise(epsilon=5, delta=0.2, resolution=20)
    assert design.verify()
    assert design.gap <= 0.04
