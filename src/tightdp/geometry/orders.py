"""Orders of norm balls that compare the noise shaped like them.

Awan and Slavković (2021) compare K-norm noise, with density proportional to
``exp(-epsilon gauge_K(v))``, by containment of K (equivalently stochastic tightness, depth regions,
conditional variance in every direction) and by volume (equivalently entropy). Containment implies
volume. Neither implies anything about marginal variance or expected loss, which depend on the
units: see the cautionary example in the documentation.

Here are the orders of the balls alone; the law of the noise is in :mod:`~tightdp.noise.knorm`.
"""

from __future__ import annotations

import math

from tightdp.errors import DimensionError, fail
from tightdp.geometry.containment import containment
from tightdp.geometry.norm_balls import NormBall, check_balls
from tightdp.parameters import tells_arguments


@tells_arguments
def containment_order(ball: NormBall, other: NormBall) -> int | None:
    """-1, 0 or 1 as the first ball lies inside the second, equals it or holds it; None if neither.

    Of their noises, equivalently: the one of the smaller ball is *stochastically tighter* (Theorem
    3.6 of Awan and Slavković, 2021), less *dispersed* (Corollary 3.12), and has the smaller
    conditional variance in every direction (Theorem 3.17). It implies :func:`volume_order`.

    >>> import numpy as np
    >>> from tightdp.geometry.norm_balls import LpBall
    >>> containment_order(LpBall(2, np.inf, 2.0), LpBall(2, 2, 3.0))
    -1
    >>> containment_order(LpBall(2, 1, 3.125), LpBall(2, np.inf, 2.0)) is None
    True
    """
    _check_pair(ball, other)
    inside, outside = bool(containment(ball, other)), bool(containment(other, ball))
    if inside and outside:
        return 0
    return -1 if inside else 1 if outside else None


@tells_arguments
def volume_order(ball: NormBall, other: NormBall) -> int:
    """-1, 0 or 1 as the first ball is smaller, equal or larger in volume.

    Of their noises, equivalently: in entropy (Theorem 3.15 of Awan and Slavković, 2021), and in how
    *scattered* they are (Corollary 3.12). A flat ball is smaller than any that is less flat.
    Estimated volumes closer than 4 standard errors compare as equal.

    >>> import numpy as np
    >>> from tightdp.geometry.norm_balls import LpBall
    >>> volume_order(LpBall(2, 1, 3.125), LpBall(2, np.inf, 2.0))
    1
    """
    _check_pair(ball, other)
    if ball.rank != other.rank:
        return -1 if ball.rank < other.rank else 1
    first, second = ball.volume_info, other.volume_info
    gap = first.log_value - second.log_value
    slack = 4.0 * math.hypot(first.standard_error, second.standard_error) + 1e-12
    return 0 if abs(gap) <= slack else (-1 if gap < 0 else 1)


def _check_pair(ball: NormBall, other: NormBall) -> None:
    """Two balls of one dimension."""
    check_balls("ball", ball)
    check_balls("other", other)
    if ball.dim != other.dim:
        fail(f"Both balls must have one dimension. Got {ball.dim}, {other.dim}.", DimensionError)
