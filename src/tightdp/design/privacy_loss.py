"""Designed noise for accountants: one privacy-loss distribution that covers every shift."""

from __future__ import annotations

from typing import Any

import numpy as np

from tightdp.errors import FloatArray, check_positive, fail, require
from tightdp.noise.piecewise import PiecewiseNoise
from tightdp.noise.table_noise import TableNoise

_UNIT = 2.0**-50  # relative error granted to each float that enters a sum
_NEAR = 1e-9  # losses that lie so near to an epsilon may have been put on its wrong side
_BEYOND = 10.0  # losses beyond 3 epsilon + 10 count as infinite


def privacy_loss(noise: object, *, discretization: float = 1e-3) -> Any:
    r"""The privacy-loss distribution of a designed noise, as a ``dp_accounting`` object.

    For each of the finitely many whole shifts, in both directions, the hockey-stick divergence at
    every epsilon of a grid is a finite sum; their maximum belongs to a pair of laws that dominates
    all shifts (shifts in between mix whole ones). Connecting the dots rounds to the private side.

    Parameters
    ----------
    noise : Design, PiecewiseNoise or TableNoise
    discretization : float
        Step of the grid of epsilons.

    Returns
    -------
    dp_accounting.pld.privacy_loss_distribution.PrivacyLossDistribution
        Compose it with itself or others; needs the extra ``accounting``.

    References: V. Doroshenko, B. Ghazi, P. Kamath, R. Kumar and P. Manurangsi (2022), Connect the
    dots: tighter discrete approximations of privacy loss distributions, *PoPETs*; Y. Zhu, J. Dong
    and Y.-X. Wang (2022), Optimal accounting of differential privacy via characteristic function,
    *AISTATS*, Proposition 10 (dominating pairs).

    Examples
    --------
    >>> from tightdp import design_noise
    >>> loss = privacy_loss(design_noise(epsilon=1.0, delta=0.1))
    >>> round(float(loss.get_delta_for_epsilon(1.0)), 4)
    0.1
    """
    law = getattr(noise, "noise", noise)
    if not isinstance(law, (PiecewiseNoise, TableNoise)):
        fail("`noise` must be a design that is made of cells, a PiecewiseNoise or a TableNoise.")
    step = check_positive("discretization", discretization)
    pmf = require("dp_accounting.pld.pld_pmf", "accounting")
    pld = require("dp_accounting.pld.privacy_loss_distribution", "accounting")
    most = 3 * law.epsilon + _BEYOND
    grid = np.arange(-int(np.ceil(most / step)), int(np.ceil(most / step)) + 1)
    curve = np.maximum.reduce(
        [_curve(*pair, np.asarray(grid * step, dtype=np.float64)) for pair in _pairs(law)]
    )
    curve = np.minimum(curve, 1.0)
    made = pmf.create_pmf_pessimistic_connect_dots(step, grid, np.minimum.accumulate(curve))
    return pld.PrivacyLossDistribution(made)


def _pairs(law: PiecewiseNoise | TableNoise) -> list[tuple[FloatArray, FloatArray]]:
    """The law and the moved law on common pieces, for every whole shift in both directions."""
    if isinstance(law, TableNoise):
        shifts = -(-law.sensitivity // law.points)
    else:
        shifts = law.cells_per_sensitivity()
    masses = np.array([w / law.total for w in law.weights])
    atom = law.atom / law.total
    out = []
    for shift in range(1, shifts + 1):
        still, moved = np.append(masses, np.zeros(shift)), np.append(np.zeros(shift), masses)
        here, there = np.append(still, [atom, 0.0]), np.append(moved, [0.0, atom])
        out += [(here, there), (there, here)]
    return out


def _curve(p: FloatArray, q: FloatArray, epsilons: FloatArray) -> FloatArray:
    """The sum of (p - e**epsilon q)_+ for increasing epsilons, by sorting the losses once.

    Rounded up: where p > e**epsilon q every term has an error below a small share of p.
    """
    keep = p > 0
    p, q = p[keep], q[keep]
    with np.errstate(divide="ignore"):
        losses = np.log(p) - np.log(q)
    order = np.argsort(losses)
    above_p = np.append(np.cumsum(p[order][::-1])[::-1], 0.0)
    above_q = np.append(np.cumsum(q[order][::-1])[::-1], 0.0)
    first = np.searchsorted(losses[order], epsilons, side="right")
    about = np.searchsorted(losses[order], epsilons - _NEAR, side="right")
    error = (len(p) + 8) * _UNIT * above_p[about]
    return np.maximum(above_p[first] - np.exp(epsilons) * above_q[first], 0.0) + error
