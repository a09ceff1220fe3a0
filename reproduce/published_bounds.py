"""The two linear programs of [5] on one grid, in floats, as the paper poses them."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightdp.design.programs import InfeasibleError, Lattice, ShiftProgram


def paper_bounds(
    *, epsilon: float, delta: float, cells: int, units: int, power: int = 1, padded: bool = True
) -> tuple[float, float]:
    r"""P(L, beta) and D(L, beta) of [5] in floats, for :math:`|x|^p`: padded, as they must be.

    They differ by beta/2 and more; :func:`tightdp.design_noise` uses sharper ones. This is for
    reproducing published numbers. Infimum costs in the lower bound, no atom in the upper one. An
    upper bound without a feasible noise is infinite. Without ``padded`` the second number is what
    the published code computes, which bounds noise on the same support only.

    >>> upper, lower = paper_bounds(epsilon=1.0, delta=0.2, cells=5, units=3)
    >>> round(upper, 5), round(lower, 5)
    (0.55996, 0.45996)
    """
    factor, n = float(np.exp(epsilon)), cells * units

    def value(lattice: Lattice, cost: Any) -> float:
        program = ShiftProgram(lattice, factor=factor, delta=delta, cost=cost, folded=True)
        try:
            return program.solve(tolerance=1e-8).value
        except InfeasibleError:
            return float("inf")

    upper = Lattice(-n, n, (-n, n), -1, cells)
    low = np.abs(np.arange(-n, n)) / cells
    high = np.abs(np.arange(-n, n) + 1) / cells
    p = power + 1
    means = np.abs(high**p - low**p) / p * cells
    reach = n + cells if padded else n
    around = Lattice(-reach, reach, (-n, n), -1, cells)
    ends = np.abs(np.arange(-reach, reach)), np.abs(np.arange(-reach, reach) + 1)
    least = (np.minimum(*ends) / cells) ** power
    return value(upper, means), value(around, least)
