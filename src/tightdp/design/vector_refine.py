"""Noise in the plane on fine cells where they matter: at the steps of a noise on coarser cells.

The best noise is nearly a staircase: flat between curves along which it falls by a factor
``exp(epsilon)``. What a grid costs is paid along these curves. So the noise on cells of twice the
width is found first; cells at its steps are cut into four, and flat ones of the same height share
one weight. The coarse noise is among those that are searched, so the fine one is not worse.
"""

from __future__ import annotations

from itertools import product

import numpy as np
from numpy.typing import NDArray

from tightdp.design.vector_grid import Indices, MergedGrid, VectorGrid
from tightdp.design.vector_programs import Noise, Wish, propose_noise
from tightdp.errors import FloatArray

LEAST_REFINED = 12  # cells per radius from which it pays
_ROUGHLY = 0.1  # excess over delta of a noise that only shows where the steps are
_STEP = 1e-3  # of the largest weight, between neighbours: a step


def is_refined(cells: int, dim: int) -> bool:
    """Whether noise with so many cells per radius is found by refinement."""
    return dim == 2 and cells >= LEAST_REFINED and cells % 2 == 0


def propose_refined(half: int, cells: int, wish: Wish, *, tolerated: float) -> Noise:
    """The best noise on a grid between whole numbers that is fine at its steps.

    >>> wish = Wish(ball="linf", loss="l1", factor=20.0, delta=0.3, samples=8)
    >>> found = propose_refined(4, 1, wish, tolerated=1e-4)
    >>> bool(abs(found.weights @ found.grid.sizes + found.atom - 1) < 1e-9)
    True
    """
    grid: VectorGrid = VectorGrid(half, centred=False)
    start: FloatArray | None = None
    if is_refined(cells, 2) and half % 2 == 0:
        grid, start = refine(propose_refined(half // 2, cells // 2, wish, tolerated=_ROUGHLY))
    return propose_noise(grid, cells, wish, start=start, tolerated=tolerated)


def refine(noise: Noise) -> tuple[MergedGrid, FloatArray]:
    """Cells of half the width, merged where the noise is flat; and its weights there."""
    fine = VectorGrid(2 * noise.grid.half, centred=False)
    parent = _parents(fine, noise.grid)
    heights = np.round(np.log(np.maximum(noise.weights, 1e-12)), 3)
    flat = np.unique(heights, return_inverse=True)[1][parent]
    label = np.where(_at_steps(noise)[parent], len(fine) + np.arange(len(fine)), flat)
    grid = MergedGrid(fine.half, np.unique(label, return_inverse=True)[1])
    return grid, grid.gather(noise.weights[parent] / 4)


def _parents(fine: VectorGrid, coarse: VectorGrid) -> Indices:
    """The orbit of the coarse cell that holds a cell of each fine orbit."""
    number = {tuple(middle): orbit for orbit, middle in enumerate(coarse.middles)}
    wide = [tuple((d - 1) // 4 * 2 + 1 for d in middle) for middle in fine.middles]
    return np.array([number[middle] for middle in wide], dtype=np.int64)


def _at_steps(noise: Noise) -> NDArray[np.bool_]:
    """Whether a cell of each orbit differs from one of its eight neighbours."""
    weights = noise.weights[noise.grid.orbit]
    padded, n = np.pad(weights, 1, mode="edge"), len(weights)
    near = [padded[a : a + n, b : b + n] for a, b in product(range(3), repeat=2)]
    jump = np.max([np.abs(other - weights) for other in near], axis=0)
    found = np.zeros(len(noise.weights), dtype=np.bool_)
    found[noise.grid.orbit] = jump > _STEP * noise.weights.max()
    return found
