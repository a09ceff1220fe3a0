"""What a planar design is measured against: Gaussian, composed and independently coupled noise."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from itertools import product
from typing import Any

import numpy as np

from tightdp.design.programs import InfeasibleError
from tightdp.design.range_programs import RangeProgram
from tightdp.design.vector_bound import NO_BOUND
from tightdp.design.vector_grid import VectorGrid
from tightdp.design.vector_law import VectorDesign
from tightdp.errors import check_count, check_positive, exact_amount
from tightdp.noise.gaussian_laws import AnalyticGaussian
from tightdp.noise.line_laws import TruncatedLaplace
from tightdp.privacy import check_epsilon

_SPLITS = 20
_SHARES = tuple(Fraction(s, 20) for s in range(8, 20))
_HALVINGS = 7


@dataclass(frozen=True)
class PlanarRivals:
    """Expected losses abs(x1) + abs(x2) of three ways to protect a query with l2 sensitivity 1."""

    gaussian: float
    composed: float
    coupled: float
    coupling: tuple[Fraction, Fraction] | None
    """(epsilon, delta) of the coupled noise along one axis."""


def planar_rivals(*, epsilon: Any, delta: Any, resolution: int = 8) -> PlanarRivals:
    """Losses of the usual choices for l2 sensitivity 1 and loss abs(x1) + abs(x2).

    *gaussian*: two draws of the analytic Gaussian law. *composed*: truncated Laplace noise on each
    axis, the budget split between them in the best of 20 x 20 ways and added up. *coupled*: two
    independent copies of the best noise of one axis for a smaller budget, the largest for which the
    pair is proved private in the plane (exactly, as for a design).

    >>> rivals = planar_rivals(epsilon=2.0, delta=0.2, resolution=3)
    >>> round(rivals.gaussian, 3), rivals.coupled < rivals.composed
    (0.96, True)
    """
    asked, spare = check_epsilon(epsilon), exact_amount("delta", delta)
    check_positive("delta", float(spare))
    cells = check_count("resolution", resolution, most=64)
    gaussian = AnalyticGaussian(epsilon=asked, delta=spare).expected_loss(1)
    coupled, coupling = _coupled(asked, spare, cells)
    return PlanarRivals(
        gaussian=2 * gaussian,
        composed=_composed(asked, spare),
        coupled=coupled,
        coupling=coupling,
    )


def _composed(epsilon: Fraction, delta: Fraction) -> float:
    """The best split of (epsilon, delta) between the axes, each of which can move by 1."""
    shares = [Fraction(s, _SPLITS) for s in range(1, _SPLITS)]
    loss = {
        (a, b): float(TruncatedLaplace(epsilon=epsilon * a, delta=delta * b).expected_loss(1))
        for a, b in product(shares, repeat=2)
        if delta * b < Fraction(1, 2)
    }
    return min(loss[a, b] + loss[1 - a, 1 - b] for a, b in loss if (1 - a, 1 - b) in loss)


def _coupled(
    epsilon: Fraction, delta: Fraction, cells: int
) -> tuple[float, tuple[Fraction, Fraction] | None]:
    """The least loss of two independent copies that are private together."""
    best, found = math.inf, None
    for share in _SHARES:
        low, high = Fraction(0), delta
        for _ in range(_HALVINGS):
            middle = (low + high) / 2
            pair = coupled_noise(epsilon, share * epsilon, middle, cells)
            if pair is None or not pair.is_private(delta):
                high = middle
                continue
            low = middle
            if pair.upper < best:
                best, found = float(pair.upper), (share * epsilon, middle)
    return best, found


def coupled_noise(
    epsilon: Fraction, axis_epsilon: Fraction, axis_delta: Fraction, cells: int
) -> VectorDesign | None:
    """Two independent copies of the best noise of one axis, as a law in the plane."""
    reach = math.log1p(math.expm1(axis_epsilon) / (2 * float(axis_delta))) / float(axis_epsilon)
    half = math.ceil(max(1.0, 1.1 * reach) * cells)
    losses = np.abs(np.arange(-half, half) + 0.5)
    program = RangeProgram(
        losses[None, :], losses, math.exp(axis_epsilon), float(axis_delta), mirrored=True
    )
    try:
        table = program.solve([(0, 0, j) for j in range(-cells, cells + 1) if j]).tables[0]
    except InfeasibleError:
        return None
    whole = [int(p * 2**25) for p in table]
    grid = VectorGrid(half, centred=False)
    weights = np.zeros(len(grid), dtype=object)
    for (i, j), orbit in np.ndenumerate(grid.orbit):
        weights[orbit] = whole[i] * whole[j]  # symmetric tables: the same on the whole orbit
    return VectorDesign(
        epsilon=epsilon,
        delta=axis_delta,
        sensitivity=Fraction(1),
        ball="l2",
        loss="l1",
        resolution=cells,
        half=half,
        centred=False,
        weights=tuple(int(w) for w in weights),
        atom=0,
        bound=NO_BOUND,
    )
