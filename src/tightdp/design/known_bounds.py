r"""Lower bounds without a program: something is proved before a search begins.

**The core bound.** Take the event {0} of the lattice of k steps a sensitivity, and every shift m:
:math:`p_0 \le e^\epsilon p_m + \delta`, m = 1..k and its mirror image. With the price
:math:`\lambda_m = e^{-\epsilon}(a_m - \theta)` the bracket at m is :math:`\theta` and the one at 0
is :math:`a_0 + \sum \lambda_m`: it proves :math:`\theta - \delta(\theta - a_0)` for the
:math:`\theta` at which the two agree, if no node but 0 has a smaller :math:`a_m`. For the mean
absolute error and :math:`k = e^{\epsilon/2} + 1/2` that is within a share of
:math:`e^{-\epsilon/2}/2` of :math:`1 - \delta` times the staircase.
"""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tightdp.design.bounds import Lower, no_prices, node_values, proved_bound
from tightdp.design.losses import CallableLoss
from tightdp.design.problem import NoiseProblem, degree_near_zero
from tightdp.design.rounding import PRICE_BITS

_MOST_NODES = 500  # of a bound that must come at once


def bound_at_once(problem: NoiseProblem) -> Lower:
    """The better of the least value of the loss and a core bound of a few hundred nodes.

    >>> float(bound_at_once(NoiseProblem.of(epsilon=10, delta=1e-6)).value) > 0.0067
    True
    """
    found = [_least_value(problem)]
    cells = min(core_cells(problem), _MOST_NODES)
    near = problem.loss.near() <= _MOST_NODES * problem.sensitivity
    if problem.plain and near and (not problem.integer or cells == problem.sensitivity):
        found.append(core_bound(problem, cells))
    return max(found, key=lambda bound: bound.value)


def core_cells(problem: NoiseProblem) -> int:
    """Steps a sensitivity for which the core bound is best, or nearly."""
    if problem.integer:
        return int(problem.sensitivity)
    degree = degree_near_zero(problem)
    return max(round(0.5 + math.exp(float(problem.epsilon) / (degree + 1))), 1)


def core_bound(problem: NoiseProblem, cells: int) -> Lower:
    """What the event {0} and all shifts prove, for a problem without support or second loss."""
    step = Fraction(1) if problem.integer else problem.sensitivity / cells
    reach = max(cells, math.ceil(problem.loss.near() / step)) + 1
    values = node_values(problem, problem.loss, reach, cells, edges=False)
    proof = {**no_prices(problem, cells, reach), "edges": False, "mirrored": False}
    each = np.array([float(a) for a in values])
    centre, others = each[reach], np.delete(each, reach)
    moved = np.delete(each[reach - cells : reach + cells + 1], cells)
    share = math.exp(-float(problem.epsilon))
    theta = centre
    for _ in range(2):  # where the sum of the prices is theta - a_0, and once more from there
        used = moved[moved > theta]
        theta = (centre + share * used.sum()) / (1 + share * len(used))
    theta = min(theta, float(others.min()))
    prices = share * np.maximum(moved - theta, 0.0)
    if theta > centre and prices.sum() > 0:
        prices *= min((theta - centre) / prices.sum(), 1.0)
        unit = 2.0 ** math.ceil(math.log2(prices.max()))
        whole = [int(math.ldexp(y / unit, PRICE_BITS)) for y in prices.tolist()]
        steps = [m for m in range(-cells, cells + 1) if m]
        proof["unit"] = str(Fraction(unit))
        proof["shifts"] = [  # the node m lies at 0 - shift
            {"shift": -m, "price": y, "start": 0, "multipliers": [y]}
            for m, y in zip(steps, whole, strict=True)
            if y
        ]
    return proved_bound(problem, proof, values, [], 1.0)


def _least_value(problem: NoiseProblem) -> Lower:
    """The least value of the loss: what no noise can beat."""
    cells = int(problem.sensitivity) if problem.integer else 1
    losses = [problem.loss, *([problem.second[0]] if problem.second else [])]
    near, step = max(loss.near() for loss in losses), problem.sensitivity / cells
    group = 1
    if problem.support is not None:
        near = max(near, problem.support)
    elif near > _MOST_NODES * step:  # in wider steps
        cells, group = 1, math.ceil(near / (_MOST_NODES * problem.sensitivity))
        step = group * problem.sensitivity
    reach = math.floor(near / step) + 2
    plain = not (problem.integer or problem.monotone)
    edges = plain and not any(isinstance(loss, CallableLoss) for loss in losses)
    values, *seconds = (
        node_values(problem, loss, reach, cells, edges=edges, group=group) for loss in losses
    )
    proof = {**no_prices(problem, cells, reach, group), "edges": edges, "mirrored": False}
    return proved_bound(problem, proof, values, seconds[0] if seconds else [], 1.0)
