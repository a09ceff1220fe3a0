r"""How many passes of coordinate descent and how long steps: the least error in a public model.

Along a column the mean loss has curvature c; a step of size s leaves the part :math:`1 - sc` of the
way. After p passes an effect h is missed by :math:`(1-sc)^{2p} h^2`, and noise of variance v in
every slope has added :math:`(s/n)^2 v\,(1-(1-sc)^{2p})/(1-(1-sc)^2)`. More passes share the budget
among more steps: v grows with p. Long steps follow the slopes, short ones average their noise: with
one pass the best step is a posterior mean, and where there is only noise it is 0, so that odds are
even. Curvatures are those of columns that fill their bounds well and less well, with effects that
are small and large; squared coefficients sum to 4, however many there are, as the log odds of
things that can be learnt are a few units. Public facts alone enter.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

_PASSES = (1, 2, 3, 4, 6, 8, 12, 16, 24, 32, 48, 64)
_SIZES = np.exp2(2 - np.arange(80) / 2)  # at most 4, the inverse of the largest curvature
_CURVATURES = np.array([[0.01], [0.03], [0.08]])
_EFFECTS = 4.0  # the sum of squared coefficients
_NEAR = 1.05  # fewer passes are worth so much of the error


def best_step(passes: int, width: int, noise: float) -> tuple[float, float]:
    """The best size of a step, and the error of a coefficient with it.

    ``noise`` is the variance of a mean slope, that is v / n^2.

    >>> [round(best_step(1, 5, noise)[0], 3) for noise in (0.0, 0.01, 1.0, 1e9)]
    [4.0, 2.828, 0.031, 0.0]
    """
    left = 1 - _SIZES * _CURVATURES
    missed = left ** (2 * passes)
    errors = _EFFECTS / width * missed + _SIZES**2 * noise * (1 - missed) / (1 - left**2)
    mean = errors.mean(axis=0)
    best = int(mean.argmin())
    return float(_SIZES[best]), float(mean[best])


def best_passes(width: int, noise: Callable[[int], float]) -> int:
    """The fewest passes with nearly the least error; ``noise`` tells the variance for a number.

    >>> [best_passes(10, lambda passes: passes**2 / rows**2) for rows in (10, 1000, 10**6)]
    [1, 16, 64]
    """
    errors: dict[int, float] = {}
    for passes in _PASSES:
        errors[passes] = best_step(passes, width, noise(passes))[1]
        if errors[passes] > 2 * min(errors.values()):  # further passes are worse still
            break
    least = min(errors.values())
    return next(passes for passes, error in errors.items() if error <= _NEAR * least)
