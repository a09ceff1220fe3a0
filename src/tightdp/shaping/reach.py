r"""How far the noise of a release reaches: half-widths that hold for integers, never an ulp short.

Noise lives on a lattice, and so do its quantiles. Three ways lead to half-widths of a linear image
:math:`Az/R` of integer noise z, R the resolution; all of them hold with the stated confidence for
all entries at once, and the smallest is taken:

1. one entry of geometric noise: the quantile of the integers (:func:`laplace_reach`);
2. the concentration set of the continuous law, enlarged for what the lattice changes, or where it
   changes much the levels that hold enough of the weight (:func:`lattice_radius`);
3. draws from the law itself, public and with a fixed seed: an order statistic that is at least the
   quantile but for one case in a million (:func:`simultaneous`).
"""

from __future__ import annotations

import hashlib
import math
from bisect import bisect_left
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache

import numpy as np

from tightdp.errors import FloatArray
from tightdp.exact.lattice_body import LatticeBody
from tightdp.geometry.norm_balls import NormBall
from tightdp.noise import knorm
from tightdp.noise.lattice import LatticeNoise

DRAWS = 10_000
PUBLIC_SEED = 20_000  # for error bars only; it never touches a release
_ENTRIES = 300_000  # of all draws together: long vectors would take minutes
_RISK = 1e-6
_UP = 1 + 2.0**-40  # more than the rounding of all that is computed here, and of who uses it
_FOUND: dict[tuple[object, ...], FloatArray] = {}  # half-widths, which equal public facts share
_REMEMBERED = 64
SHARES, _FINE_SHARES = 1 << 8, 1 << 13  # of the law of a form, and of a form whose law is known
_HALVINGS = 34


def upwards(half: FloatArray, *, whole: bool = False) -> FloatArray:
    """Half-widths that rounding does not cut: a little larger, or the integers that they hold.

    >>> upwards(np.array([2.9999999999999996, 3.2]), whole=True)
    array([3., 3.])
    """
    larger = np.asarray(half) * _UP
    return np.floor(larger) if whole else larger


def is_whole(linear: FloatArray, resolution: int) -> bool:
    """Whether the image of the lattice consists of integers."""
    return resolution == 1 and bool((linear == np.rint(linear)).all())


def laplace_reach(rate: Fraction, confidence: float) -> int:
    """The least h with P(abs(z) <= h) >= confidence for integers with weight exp(-rate abs(z)).

    >>> laplace_reach(Fraction(1), 0.95)  # 2 q^(h+1) / (1 + q) <= 0.05
    3
    """
    eta, miss = float(rate), (1 - confidence) * (1 - 1e-12)
    # 2 q^(h+1) / (1 + q) <= miss
    return max(0, math.ceil((math.log(2 / miss) - math.log1p(math.exp(-eta))) / eta - 1))


def lattice_spread(ball: NormBall, resolution: int) -> float:
    """The largest gauge of a vector with entries of at most one lattice step; infinite if flat."""
    if ball.rank < ball.dim:
        return math.inf
    return ball.cube_gauge() / resolution


def lattice_excess(ball: NormBall, epsilon: float, resolution: int, levels: int) -> float:
    r"""A bound on the log of how much likelier a tail is on the lattice than in the continuum.

    Spread every lattice point evenly over its cell, of gauge at most C. The gauge g is counted in
    L levels a unit, rounded up, so the density at y is between
    :math:`e^{-\epsilon(g(y)+C+1/L)}` and :math:`e^{-\epsilon(g(y)-C)}` times a constant: at most
    :math:`e^{\epsilon(2C+1/L)}` times that of the continuous law.
    """
    return epsilon * (2 * lattice_spread(ball, resolution) + 1 / levels)


def level_reach(body: LatticeBody, rate: Fraction, confidence: float) -> int:
    r"""An l with P(level(z) <= l) >= confidence, whatever the body and however coarse the rate.

    With q = exp(-rate) the weights :math:`q^{level(z)}` add up to at least 1. Since at most
    :math:`A(j+1)\cdots(j+r)` points have a level of at most j, those beyond l have at most the
    weight :math:`A\,r!\,(1-q)^{-r} P(N > l)`, N negative binomial with r + 1 terms; and
    :math:`P(N > l) \le e^{-t(l+1)}\{(1-q)/(1-u)\}^{r+1}` for every :math:`u = qe^t` below 1.
    """
    eta, r, factor = float(rate), body.rank, body.factor
    size = math.log(factor.numerator) - math.log(factor.denominator) + math.lgamma(r + 1)
    t = eta * (1 - np.geomspace(1e-6, 0.999, 400))
    log_u = t - eta
    weight = size + math.log(-math.expm1(-eta)) - (r + 1) * np.log(-np.expm1(log_u))
    return math.ceil(float(((weight - math.log((1 - confidence) * (1 - 1e-9))) / t).min()))


def lattice_radius(
    ball: NormBall, noise: LatticeNoise, resolution: int, confidence: float
) -> float:
    """A t with P(z/R in t K) >= confidence for lattice noise in the shape of K."""
    epsilon, levels = float(noise.rate) * noise.sensitivity, noise.sensitivity
    by_levels = level_reach(noise.body, noise.rate, confidence) / levels
    spread = lattice_spread(ball, resolution)
    excess = lattice_excess(ball, epsilon, resolution, levels)
    if excess > 20:  # flat, or so coarse that the continuum tells nothing
        return by_levels
    miss = (1 - confidence) * math.exp(-excess)
    if miss < 2.0**-50:
        return by_levels
    return min(by_levels, knorm.concentration_radius(ball, epsilon, 1 - miss) + spread)


# --- linear forms of noise in the shape of a body ------------------------------------------------


def gamma_reach(sizes: FloatArray, rank: int, rate: float, miss: float) -> FloatArray:
    r"""The t with :math:`P(\rho\,|a| > t) =` ``miss``, where a is one of a row of equal chances.

    :math:`\rho` is the norm of K-norm noise, Gamma(rank) with the stated rate, and a the value of a
    linear form on the surface of the body, independent of it.

    >>> gamma_reach(np.ones((1, 4)), 1, 1.0, 0.05).round(3)  # an exponential law
    array([2.996])
    """
    from scipy.special import gammaincc

    steps = np.maximum(sizes, 1e-300)
    most = steps.max(axis=1) * (
        2 * rank - 2 * math.log(miss) + 2
    )  # Gamma(rank) > x: e^(rank - x/2)
    low, high = np.zeros(len(sizes)), most / rate
    for _ in range(_HALVINGS):
        middle = (low + high) / 2
        beyond = gammaincc(rank, rate * middle[:, None] / steps).mean(axis=1) > miss
        low, high = np.where(beyond, middle, low), np.where(beyond, high, middle)
    return high


def box_sizes(forms: FloatArray, rank: int) -> FloatArray:
    r"""Values of forms with up to two terms on the surface of a cube, at even shares, rounded up.

    A point of the surface has an entry that is +-1, each with the chance 1/rank; the others are
    uniform in [-1, 1].

    >>> box_sizes(np.array([[2.0]]), 1).tolist() == [[2.0] * SHARES]
    True
    """
    grid = np.arange(1, _FINE_SHARES + 1) / _FINE_SHARES
    out = []
    for form in np.abs(forms):
        a, b = (*np.sort(form)[::-1], 0.0)[:2]
        size = np.linspace(0.0, a + b, _FINE_SHARES + 1)
        chance = (rank - 2) / rank * _two_uniform(size, a, b) if rank > 1 else 0.0
        chance += _one_uniform(size, a, b) / rank if rank > 1 else _one_uniform(size, a, 0.0)
        chance += _one_uniform(size, b, a) / rank if rank > 1 else 0.0
        place = np.searchsorted(chance, grid - 1e-12)
        out.append(size[np.minimum(place + 1, _FINE_SHARES)].reshape(SHARES, -1).max(axis=1))
    return np.array(out)


def _one_uniform(size: FloatArray, fixed: float, free: float) -> FloatArray:
    """P(|fixed + free U| <= size), U uniform in [-1, 1]."""
    if free == 0:
        return (size >= fixed * (1 - 1e-12)).astype(np.float64)
    low, high = np.maximum((-size - fixed) / free, -1.0), np.minimum((size - fixed) / free, 1.0)
    return np.maximum(high - low, 0.0) / 2


def _two_uniform(size: FloatArray, a: float, b: float) -> FloatArray:
    """P(|a U + b V| <= size), U and V uniform in [-1, 1], a >= b >= 0."""
    if b <= 1e-12 * a:
        return np.minimum(size / a, 1.0) if a else np.ones_like(size)
    beyond = np.maximum(a + b - size, 0.0) ** 2 - np.maximum(a - b - size, 0.0) ** 2
    return 1 - beyond / (4 * a * b)


def upper_shares(values: FloatArray, most: FloatArray) -> FloatArray:
    """Even shares of samples, shape (draws, forms), that are above the law's but for 1e-6.

    By the inequality of Dvoretzky, Kiefer, Wolfowitz and Massart the two distribution functions
    differ by less than h; so that much of the law is put where the form is largest.
    """
    draws = len(values)
    shift = math.sqrt(math.log(2 / _RISK) / (2 * draws))
    ranks = np.ceil((np.arange(1, SHARES + 1) / SHARES + shift) * draws).astype(np.int64)
    ordered = np.vstack([np.sort(values, axis=0), most])
    return np.maximum(ordered[np.minimum(ranks, draws)], 0.0).T * (1 + 2.0**-8)


def remembered(
    key: tuple[object, ...], linear: FloatArray, find: Callable[[], FloatArray]
) -> FloatArray:
    """What was found for equal public facts, or what is found now."""
    whole = (*key, linear.shape, hashlib.sha256(linear.tobytes()).digest())
    found = _FOUND.get(whole)
    if found is None:
        found = find()
        for oldest in list(_FOUND)[: max(0, len(_FOUND) - _REMEMBERED + 1)]:
            _FOUND.pop(oldest, None)  # another thread may have been quicker
        _FOUND[whole] = found
    return found.copy()


def how_many(dim: int, confidence: float) -> int:
    """Draws of vectors for :func:`simultaneous`: enough, and not more than memory likes."""
    needed = math.ceil(1.2 * math.log(_RISK) / math.log(confidence))
    return min(DRAWS, max(_ENTRIES // dim, needed))


def smaller(first: FloatArray, second: FloatArray, spread: FloatArray) -> FloatArray:
    """One of two simultaneous half-widths, compared in standard deviations, as units differ."""
    noised = spread > 0
    if not noised.any():
        return first
    better = np.mean(first[noised] / spread[noised]) < np.mean(second[noised] / spread[noised])
    return first if better else second


def simultaneous(errors: FloatArray, spread: FloatArray, confidence: float) -> FloatArray:
    r"""The smallest multiple of ``spread`` that all entries stay within at once.

    The k-th smallest of N draws of :math:`\max_j |e_j|/s_j` is at least its quantile except with
    probability P(Binomial(N, confidence) >= k), and k is taken so large that this is below 1e-6.
    """
    rank = _rank(len(errors), confidence)
    if rank is None:
        return np.full_like(spread, np.inf)
    worst = (np.abs(errors) / np.where(spread > 0, spread, 1.0)).max(axis=1)
    return upwards(float(np.partition(worst, rank - 1)[rank - 1]) * spread)


def one_by_one(errors: FloatArray, confidence: float) -> FloatArray:
    """For every entry a size that it stays within, each for itself; see :func:`simultaneous`.

    >>> one_by_one(np.arange(20_000.0)[:, None], 0.95) >= 19_000
    array([ True])
    """
    rank = _rank(len(errors), confidence)
    if rank is None:
        return np.full(errors.shape[1], np.inf)
    return upwards(np.partition(np.abs(errors), rank - 1, axis=0)[rank - 1])


@lru_cache(maxsize=256)
def _rank(draws: int, confidence: float) -> int | None:
    """The least k with P(Binomial(draws, confidence) >= k) within the risk; None if there is none.

    >>> _rank(10_000, 0.95), _rank(10, 0.95)
    (9601, None)
    """
    from scipy.special import bdtrc

    ranks = range(1, draws + 1)
    place = bisect_left(ranks, True, key=lambda k: bool(bdtrc(k - 1, draws, confidence) <= _RISK))
    return place + 1 if place < draws else None


# --- intervals that end where nothing can be ------------------------------------------------------


def possible_counts(
    value: FloatArray, half: FloatArray | float, most: int, shown: FloatArray | None = None
) -> FloatArray:
    """Intervals of counts, which are no less than 0 and no more than all rows.

    Noise may take a count beyond what can be. It is shown as it is, because sums and means of such
    counts are right on average and those of cut ones are not; so its interval ends there.

    >>> possible_counts(np.array([2.5, 9.0, -1.0]), np.array([4.0, 4.0, 4.0]), 10)
    array([[ 0. ,  6.5],
           [ 5. , 10. ],
           [-1. ,  3. ]])
    """
    return possible_values(value, half, 0.0, float(most), shown)


def possible_values(
    value: FloatArray,
    half: FloatArray | float,
    low: FloatArray | float,
    high: FloatArray | float,
    shown: FloatArray | None = None,
) -> FloatArray:
    """Intervals, cut to what can be, but never so far that the value shown is outside.

    What is cut off holds no value that can be, so that no interval covers less than before.
    ``shown`` is what is printed, where that is not the noisy value.

    >>> possible_values(np.array([0.1, 1.3]), 0.2, 0.0, 1.0, np.array([0.1, 1.0]))
    array([[0. , 0.3],
           [1. , 1. ]])
    """
    ends = np.column_stack([np.clip(value - half, low, high), np.clip(value + half, low, high)])
    held = value if shown is None else shown
    return np.column_stack([np.minimum(ends[:, 0], held), np.maximum(ends[:, 1], held)])
