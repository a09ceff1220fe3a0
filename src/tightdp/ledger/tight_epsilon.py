"""A smaller epsilon for many releases, through the optional package ``dp-accounting``."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable
from fractions import Fraction
from typing import Any

from tightdp.errors import require
from tightdp.ledger.amounts import Budget

_FLOAT_ERROR = 1e-12  # far above what the convolutions lose, far below a useful delta
_GRID_POINTS = 1 << 20


def tight_epsilon(parts: Iterable[Budget], delta: Fraction) -> float:
    r"""An epsilon for which the composition of all parts is (epsilon, delta)-private.

    A mechanism with (e, d) leaks no more than randomised response that fails with probability d
    [dominating pair]. The privacy losses of these are rounded up to a grid and convolved.

    Parameters
    ----------
    parts : iterable of Budget
        What is composed by sums: spends, and the largest cell of each partition.
    delta : Fraction
        The delta at which epsilon is asked for.
    """
    found = Counter(part for part in parts if part.epsilon or part.delta)
    basic = _sum_epsilon(found, delta)
    if not found or float(delta) <= 2 * _FLOAT_ERROR:
        return basic
    pld = require("dp_accounting.pld.privacy_loss_distribution", "accounting")
    common = require("dp_accounting.pld.common", "accounting")
    grid = _grid(found)
    whole: Any = None
    for part, count in found.items():
        given = common.DifferentialPrivacyParameters(_up(part.epsilon), _up(part.delta))
        one = pld.from_privacy_parameters(given, value_discretization_interval=grid)
        many = one.self_compose(count) if count > 1 else one
        whole = many if whole is None else whole.compose(many)
    sharp = float(whole.get_epsilon_for_delta(float(delta) * (1 - 1e-9) - _FLOAT_ERROR))
    return min(basic, math.nextafter(sharp, math.inf))


def _sum_epsilon(found: Counter[Budget], delta: Fraction) -> float:
    """What sums say: the sum of the epsilons, if delta covers the sum of the deltas."""
    epsilon = sum((part.epsilon * count for part, count in found.items()), Fraction(0))
    spent = sum((part.delta * count for part, count in found.items()), Fraction(0))
    return _up(epsilon) if spent <= delta else math.inf


def _grid(found: Counter[Budget]) -> float:
    """Fine enough for the smallest epsilon, coarse enough for memory."""
    total = float(sum((part.epsilon * count for part, count in found.items()), Fraction(0)))
    least = min((float(part.epsilon) for part in found if part.epsilon), default=1.0)
    return max(min(1e-4, least / 256), 2 * total / _GRID_POINTS, 1e-12)


def _up(number: Fraction) -> float:
    """The smallest float that is not below the number."""
    near = float(number)
    return near if Fraction(near) >= number else math.nextafter(near, math.inf)
