r"""P-values of releases by simulation: the law of a noisy statistic where nothing is to be found.

What was released is :math:`z = t(X) + w`, t a sum over the rows and w noise of known law. A null
hypothesis says how the rows are drawn, up to nuisance parameters :math:`\theta` such as the margins
of a table. At every :math:`\theta` a statistic :math:`T(z)` is compared with simulated ones, whose
noise comes from the sampler of the release itself:

.. math:: p_\theta(z) = \frac{1 + \#\{b : T(z_b) \ge T(z)\}}{1 + B},

which is at most alpha with a chance of at most alpha, whatever B (Besag and Clifford, 1989). Over
nuisance parameters the largest :math:`p_\theta` is taken, among points of a set that holds the true
:math:`\theta` with a chance of :math:`1 - \beta`, and :math:`\beta` is added (Berger and Boos,
1994). Where there are none the test is exact; else up to the points of the set that are not tried.
Statistics are studentised by the release alone, so that their laws, and p-values, hardly depend on
:math:`\theta`.

**Random numbers.** They are seeded by a digest of the released integers. So whoever has the release
finds the same p-value, no second look at the data is taken, and nobody can try seeds: other random
numbers would need another release. Their own error is stated by :func:`monte_carlo_error`.
"""

from __future__ import annotations

import hashlib
from collections.abc import Callable, Sequence

import numpy as np

from tightdp.errors import FloatArray
from tightdp.randomness import SeededSource

Draws = Callable[[SeededSource, int], FloatArray]  # so many vectors of entries, one in a row
Statistic = Callable[[FloatArray], FloatArray]  # of entries along the last axis

NUISANCE_RISK = 0.001
"""beta: the chance that is spent on nuisance parameters outside of the set."""

FIRST = 999
_CLEAR = 0.1  # from such a p-value on nobody needs more digits
_MOST = 9_999
_WORK = 2_000_000  # numbers that are drawn for a p-value of many entries
_TIE = 1e-9  # integers that agree give statistics that agree but for rounding
_POWER_SEED = 20_261_117  # simulations of public models


def p_value(
    integers: Sequence[int],
    entries: FloatArray,
    points: Callable[[SeededSource], Sequence[Draws]],
    noise: Draws,
    statistic: Statistic,
) -> float:
    """The p-value of released entries: the largest over the points of a hypothesis.

    A point says how entries are drawn, without noise. Where the first 999 simulations leave no
    doubt that the p-value is above 0.1, there are no more. That takes nothing from its validity:
    p <= alpha then needs that of the first ones if alpha >= 0.1, and that of all of them else.
    """
    bits = release_source(integers)
    tried, own = points(bits), float(statistic(entries))
    bar = own - _TIE * abs(own)
    spent = 0.0 if len(tried) == 1 else NUISANCE_RISK
    found, done = np.zeros(len(tried)), 0
    for size in (FIRST, draws_for(len(entries)) - FIRST):
        wobble = noise(bits, size)
        for k, draw in enumerate(tried):
            # what overflows (NaN) counts as extreme: it proves nothing
            found[k] += np.count_nonzero(~(statistic(draw(bits, size) + wobble) < bar))
        done += size
        largest = float(1 + found.max()) / (1 + done)
        if largest >= _CLEAR:
            break
    return min(1.0, largest + spent)


def draws_for(entries: int) -> int:
    """How many simulations a small p-value gets: 9,999, or fewer of large tables."""
    return int(np.clip(_WORK // max(entries, 1), 1_999, _MOST))


def monte_carlo_error(p: float, entries: int) -> float:
    """The standard deviation of a p-value over other random numbers.

    >>> round(monte_carlo_error(0.05, 12), 4)
    0.0022
    """
    size = FIRST if p >= _CLEAR else draws_for(entries)
    return float(np.sqrt(p * (1 - p) / size))


def release_source(integers: Sequence[int]) -> SeededSource:
    """Random numbers that belong to a release: the same for everybody who reads it.

    >>> a, b = release_source([3, -1]), release_source([3, -1])
    >>> bool((a.words(2) == b.words(2)).all())
    True
    """
    text = "tightdp p-value 1: " + ",".join(str(int(z)) for z in integers)
    return SeededSource(int.from_bytes(hashlib.sha256(text.encode()).digest()[:16], "big"))


def power_at(
    null: Draws, other: Draws, noise: FloatArray, statistic: Statistic, alpha: float
) -> float:
    """The share of simulated releases that a test against one point rejects at level alpha."""
    bits = SeededSource(_POWER_SEED)
    under = np.sort(statistic(null(bits, len(noise)) + noise))
    place = int(np.ceil((1 - alpha) * (len(under) + 1))) - 1
    if place >= len(under):
        return 0.0
    found = statistic(other(bits, len(noise)) + noise[::-1])
    return float(np.mean(found > under[place]))


# --- sets of nuisance parameters ------------------------------------------------------------------


def ellipsoid_points(
    centre: FloatArray, covariance: FloatArray, bits: SeededSource, count: int, freedom: int
) -> FloatArray:
    """The centre, and points of the ellipsoid around it that is to hold the true parameters.

    Half of them are on its surface, half on the way there. Its radius is that of normal
    estimates at :data:`NUISANCE_RISK`, and half as much again, for the tails of noise are longer.
    """
    from scipy.special import chdtri

    values, vectors = np.linalg.eigh(covariance)
    root = vectors * np.sqrt(np.clip(values, 0.0, None))
    directions = bits.normal((count, len(centre)))
    directions /= np.linalg.norm(directions, axis=1, keepdims=True)
    radius = 1.5 * np.sqrt(chdtri(freedom, NUISANCE_RISK))
    away = radius * np.where(np.arange(count) % 2 == 0, 1.0, 0.4)[:, None]
    return np.vstack([centre, centre + (directions * away) @ root.T])


def one_sided(signed: FloatArray, alternative: str) -> FloatArray:
    """What is large where a number that should be 0 is on the side that is asked for."""
    if alternative == "two-sided":
        return np.abs(signed)
    return signed if alternative == "greater" else -signed
