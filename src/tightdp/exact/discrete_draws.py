r"""Exact noise in arrays: one 64-bit word a draw, floats as a filter only.

The upper 63 bits of a word are the leading bits of a uniform real U
(:mod:`~tightdp.exact.undecided_bits`), the lowest bit is a fair sign. A level is
:math:`k = \lfloor -\ln U / \eta \rfloor`, geometric with ratio :math:`e^{-\eta}`.

**Exactness.** Statement: what is returned is this k (or this comparison) for the very U whose bits
were drawn, so the law is the stated one, with no float in it.
Needs: [N1] ``np.log`` errs by at most 8 units in the last place, in double precision and in the
platform's long double (the errors seen in millions of draws stay below one unit; a test measures
them); [N2] ``+ - *`` and conversions of integers round to nearest (IEEE 754).
Proof: a filter computes a float within a stated distance of :math:`-\ln U/\eta`, for every U with
these leading bits. It decides k only when the float keeps that distance from both neighbouring
integers, so that :math:`e^{-(k+1)\eta} < U \le e^{-k\eta}` is certain. Whatever it leaves open is
handed, with the same bits, to a sharper filter and at last to integer arithmetic, which draws
further bits of the same U until it knows. Nothing is redrawn for being undecided, nothing is
truncated: levels beyond 64-bit integers are Python integers in an object array.

The Gaussian is that of [CKS20]: C. Canonne, G. Kamath, T. Steinke, *The Discrete Gaussian for
Differential Privacy*, NeurIPS 2020.

Without trust in [N1], ``filtered=False`` finishes every draw in integers (some 300 times slower),
with the same words and hence the same results.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.errors import FloatArray, WideIntegers, check_count, fraction_within
from tightdp.exact.rejection import LEAST_SHARE
from tightdp.exact.undecided_bits import log_exceeds, log_exceeds_at, log_level
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomSource, Shape, Words

Mask = NDArray[np.bool_]

SAFE = 1 << 62
"""Levels from here on are Python integers, so that int64 levels can be negated and doubled."""

RATE_BITS = 128
_MOST_CELLS = 1 << 21
_BLOCK = 1 << 14  # words treated at a time: the float buffers stay in the cache
_TINY_WORD = np.uint64(1 << 52)
_LOG_ERROR, _LOG_SLOPE = 2.0**-50, 2.0**-48  # error of -ln U = y: below the first + the second * y
_WIDE: Any = np.longdouble if np.finfo(np.longdouble).nmant in (63, 112) else np.float64
_WIDE_UNIT = _WIDE(2) ** -int(np.finfo(_WIDE).nmant)


# --- rates ---------------------------------------------------------------------------------------


def rate(epsilon: Number, level: int = 1) -> tuple[int, int]:
    """Numerator and denominator of ``epsilon / level``, in lowest terms, never rounded up.

    Decimals (and all rationals of moderate size) are kept exactly. A rational whose denominator is
    longer than 128 bits is rounded **down** to a multiple of ``2**-128 / level``: less budget than
    asked, by less than one part in ``2**88``.

    Parameters
    ----------
    epsilon : int, float, Fraction or Decimal
        See :func:`check_epsilon`.
    level : int
        The largest level of a difference of neighbours, >= 1 (the sensitivity in lattice units).

    Examples
    --------
    >>> rate(0.5, 3), rate(Fraction(2, 3), 4)
    ((1, 6), (1, 6))
    """
    number = check_epsilon(epsilon)
    if number.denominator.bit_length() > RATE_BITS:
        number = Fraction(int(number * (1 << RATE_BITS)), 1 << RATE_BITS)
    number /= check_count("level", level)
    return number.numerator, number.denominator


def check_rate(num: object, den: object) -> tuple[int, int]:
    """The rate ``num/den`` > 0 in lowest terms."""
    number = Fraction(check_count("num", num), check_count("den", den))
    return number.numerator, number.denominator


# --- laws ---------------------------------------------------------------------------------------


def geometrics(
    num: int, den: int, shape: Shape, rng: RandomSource, *, filtered: bool = True
) -> WideIntegers:
    r"""Independent integers k >= 0 with probability :math:`(1-q)\,q^k`, :math:`q = e^{-num/den}`.

    Parameters
    ----------
    num, den : int
        The rate num/den > 0, integers of any size.
    shape : int or tuple of int
    rng : RandomSource
    filtered : bool
        False decides every draw in integer arithmetic; the results are the same.

    Returns
    -------
    array
        int64 while every level is below ``2**62``, else Python integers.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> geometrics(1, 2**20, 4, source(1)).dtype, geometrics(1, 2**70, 4, source(1)).dtype
    (dtype('int64'), dtype('O'))
    """
    num, den = check_rate(num, den)
    words = rng.words(_count(shape))
    return levels(words, num, den, rng, filtered=filtered).reshape(shape)


def geometric_sums(
    terms: int, num: int, den: int, shape: Shape, rng: RandomSource, *, filtered: bool = True
) -> WideIntegers:
    """Sums of ``terms`` independent geometrics: the levels of a K-norm noise.

    >>> from tightdp.randomness import source
    >>> geometric_sums(3, 1, 2, (2, 5), source(1)).shape
    (2, 5)
    """
    count = _count(shape)
    parts = geometrics(num, den, (check_count("terms", terms), count), rng, filtered=filtered)
    if parts.size and int(parts.max()) >= SAFE // terms:
        parts = parts.astype(object)
    return np.asarray(parts.sum(axis=0)).reshape(shape)


def discrete_laplaces(
    num: int, den: int, shape: Shape, rng: RandomSource, *, filtered: bool = True
) -> WideIntegers:
    r"""Independent integers z with probability proportional to :math:`e^{-|z| num/den}`.

    A sign and a geometric size, both from one word; minus zero is drawn again, sign and size, or
    zero would count twice.

    Parameters and result are those of :func:`geometrics`.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> bool(discrete_laplaces(1, 2, 1000, source(1)).min() < 0)
    True
    """
    num, den = check_rate(num, den)
    words = rng.words(_count(shape))
    out = levels(words, num, den, rng, filtered=filtered)
    again = _sign(out, words)
    while again.size:
        words = rng.words(again.size)
        fresh = levels(words, num, den, rng, filtered=filtered)
        minus_zeros = _sign(fresh, words)
        out = out.astype(fresh.dtype) if fresh.dtype == object else out
        out[again] = fresh
        again = again[minus_zeros]
    return out.reshape(shape)


def discrete_gaussians(
    sigma2: Number, shape: Shape, rng: RandomSource, *, filtered: bool = True
) -> WideIntegers:
    r"""Independent integers z with probability proportional to :math:`e^{-z^2/(2\sigma^2)}`.

    Proof ([CKS20], Algorithm 3): with t = floor(sigma) + 1 and Y discrete Laplace of rate 1/t,
    accepting Y with probability :math:`e^{-(|Y| - \sigma^2/t)^2/(2\sigma^2)}` leaves
    :math:`P(Y) \propto e^{-|Y|/t - Y^2/(2\sigma^2) + |Y|/t}`; the constant cancels.

    Parameters
    ----------
    sigma2 : int, Fraction, Decimal or float
        The variance parameter, > 0, taken exactly.
    shape, rng, filtered
        As in :func:`geometrics`.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> bool(abs(discrete_gaussians(Fraction(10), 1000, source(1))).max() < 40)
    True
    """
    variance = fraction_within("sigma2", sigma2, "(0, inf)")
    a, b = variance.numerator, variance.denominator
    t = math.isqrt(a // b) + 1
    filtered = filtered and not (t >> 400 or b >> 900 > a)  # beyond the range of floats
    centre, half = (float(Fraction(a, b * t)), float(Fraction(b, 2 * a))) if filtered else (0, 0)

    def propose(count: int) -> WideIntegers:
        y = discrete_laplaces(1, t, count, rng, filtered=filtered)

        words = rng.words(y.size)

        def decide(i: int) -> bool:  # the exponent is (|y| - variance/t)**2 / (2 variance)
            num, den = (abs(int(y[i])) * b * t - a) ** 2, 2 * a * b * t * t
            return num == 0 or log_exceeds(int(words[i]) >> 1, 63, num, den, rng)

        # x = (|y| - centre)**2 * half errs by less than 2**-49 (1 + x): the difference d errs by
        # 2**-52 (|y| + centre) at most, and 2 half |d| (|y| + centre) <= 2x + 2|d|/t <= 4x + 1
        # since centre = sigma**2/t, half = 1/(2 sigma**2), sigma < t and |d|/t <= sqrt(2x).
        near = (np.abs(y).astype(np.float64) - centre) ** 2 * half if filtered else None
        return y[_exceed(words, near, decide)]

    # Three in four proposals stay, a few less for small sigma; blocks fit the cache.
    return collect(propose, _count(shape), 0.79, cells=_BLOCK).reshape(shape)


def rounded_gaussians(
    sigma2: Number, shape: Shape, rng: RandomSource, *, filtered: bool = True
) -> WideIntegers:
    r"""Independent normal variables of variance sigma2, each rounded to the nearest integer.

    Nothing real is computed: of V only the cell [k, k + 1) / c of abs(V) is found that decides the
    rounding, c an even number of cells per unit, and of the place u of V in its cell only as many
    bits are drawn as decide whether it is kept.
    Proof: let :math:`s = c^2\sigma^2` and t = floor(sqrt(s)) + 1. The cell k is geometric with
    ratio :math:`e^{-1/t}`, u is uniform, and both are kept with probability :math:`e^{-x}`,

    .. math:: x = \frac{(k+u)^2}{2s} - \frac kt + \frac{s}{2t^2}
              = \frac{(k + u - s/t)^2}{2s} + \frac ut \ge 0 ,

    which leaves the density :math:`\propto e^{-(k+u)^2/(2s)}` of :math:`k + u = c|V|`. The sign is
    a fair coin. Half-integers are edges of cells, c being even, so k alone decides the rounding.

    Parameters
    ----------
    sigma2 : int, Fraction, Decimal or float
        The variance before rounding, > 0, taken exactly.
    shape, rng, filtered
        As in :func:`geometrics`.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> bool(abs(rounded_gaussians(Fraction(10), 1000, source(1))).max() < 40)
    True
    """
    variance = fraction_within("sigma2", sigma2, "(0, inf)")
    cells = 2 * (math.isqrt(math.ceil(1 / variance) - 1) + 1)  # 2 if sigma >= 1, else >= 2 / sigma
    scaled = variance * cells * cells
    t = math.isqrt(math.floor(scaled)) + 1
    filtered = filtered and not t >> 400
    centre, half = (float(scaled / t), float(1 / (2 * scaled))) if filtered else (0, 0)

    def propose(count: int) -> WideIntegers:
        sizes, places, words = rng.words(count), rng.words(count), rng.words(count)
        k = levels(sizes, 1, t, rng, filtered=filtered)

        def decide(i: int) -> bool:
            first = int(k[i])
            least = scaled / (2 * t * t) - Fraction(first, t)
            return log_exceeds_at(
                int(words[i]) >> 1,
                int(places[i]),
                lambda u: (first + u) ** 2 / (2 * scaled) + least,
                rng,
            )

        near = None
        if filtered:
            # The error of x is that of discrete_gaussians, where y = k + u, and 2**-52 for u / t.
            u = places.astype(np.float64) * 2.0**-64
            near = (k.astype(np.float64) + u - centre) ** 2 * half + u / float(t)
        kept = _exceed(words, near, decide)
        wide = k[kept] if cells < 1 << 61 else k[kept].astype(object)
        size = (wide + cells // 2) // cells
        _sign(size, sizes[kept])
        return size

    return collect(propose, _count(shape), 0.7, cells=_BLOCK).reshape(shape)


# --- rejection ------------------------------------------------------------------------------------


def collect(
    propose: Callable[[int], WideIntegers],
    size: int,
    share: float | None = None,
    *,
    width: int = 1,
    cells: int = _MOST_CELLS,
) -> WideIntegers:
    """The first ``size`` rows that are kept of batches of proposals.

    ``propose(n)`` makes n proposals and gives those that are kept, in their order. Batches are cut
    by a fixed number of rows, never by what came out of them, so the law of a row is that of a kept
    proposal; ``share``, about the share that is kept (None for nearly all), only sets the size of
    batches, which are of at most ``cells / width`` rows.

    >>> collect(lambda n: np.arange(n)[::2], 3, 0.5)
    array([0, 2, 4])
    """
    found: list[WideIntegers] = []
    missing = size
    while missing > 0 or not found:
        batch = missing if share is None else int(missing / max(share, LEAST_SHARE) * 1.05) + 8
        found.append(propose(min(batch, max(1024, cells // width)))[:missing])
        missing -= len(found[-1])
    return found[0] if len(found) == 1 else np.concatenate(found)


# --- filters ------------------------------------------------------------------------------------


def levels(
    words: Words, num: int, den: int, rng: RandomSource, *, filtered: bool = True
) -> WideIntegers:
    """floor(-ln U / (num/den)) for the U that begin with the upper 63 bits of the words."""
    out = np.zeros(words.size, dtype=np.int64)
    inverse = Fraction(den, num)
    if filtered and 2**-1000 < inverse < 2**46:
        pending = np.flatnonzero(_double_filter(words, float(inverse), out))
    else:
        pending = np.arange(words.size)
    if filtered and pending.size and 2**-1000 < inverse < 2**56:
        pending = _wide_filter(words, inverse, pending, out)
    finished = [log_level(int(words[i]) >> 1, 63, num, den, rng) for i in pending]
    if finished and max(finished) >= SAFE:
        out = out.astype(object)
    if finished:
        out[pending] = finished
    return out


def _double_filter(words: Words, inverse: float, out: NDArray[np.int64]) -> Mask:
    """Write the levels that doubles can decide; True where they cannot.

    For a word w >= 2**52 the float y = -ln(w/2**64) is within 2**-53 + 2**-51 + 9 y 2**-52 of -ln U
    for every U that begins so: 2**-53 for the conversion of w, 2/w <= 2**-51 for the bits of U that
    w does not hold, 8 units for the logarithm [N1] and one for the two roundings that scale it by
    the inverse rate. The bound used, 2**-50 + 16 y 2**-52, leaves 7 units free: the last
    comparisons round by less than one, next to any integer >= 1.
    """
    undecided = np.empty(words.size, dtype=np.bool_)
    margin = 0.5 - _LOG_ERROR * inverse - _LOG_SLOPE
    for start in range(0, words.size, _BLOCK):
        part = slice(start, start + _BLOCK)
        x, tiny = words[part].astype(np.float64), words[part] < _TINY_WORD
        np.maximum(x, float(_TINY_WORD), out=x)
        x *= 2.0**-64
        np.log(x, out=x)
        x *= -inverse
        whole = np.floor(x)
        out[part] = whole
        x -= whole
        x -= 0.5
        np.abs(x, out=x)  # the distance from the middle of the cell [k, k + 1)
        whole *= _LOG_SLOPE
        x += whole
        np.greater_equal(x, margin, out=undecided[part])
        undecided[part] |= tiny
    return undecided


def _wide_filter(
    words: Words, inverse: Fraction, pending: NDArray[np.intp], out: NDArray[np.int64]
) -> NDArray[np.intp]:
    """The same in long doubles, with a bound that follows the size of the logarithm.

    In units of 2**-63 (or what the platform has) and per -ln U = y, the conversion of w costs less
    than 1, the logarithm 8y [N1], scaling 2y, and the bits of U that w does not hold 2/w. The bound
    used is 16 (1 + y) units plus 4/w.
    """
    high = float(inverse)
    scale = _WIDE(high) + _WIDE(float(inverse - Fraction(high)))
    still = []
    for start in range(0, pending.size, _BLOCK):
        index = pending[start : start + _BLOCK]
        w = np.maximum(words[index], np.uint64(1 << 16)).astype(_WIDE)
        y = -np.log(w * _WIDE(2) ** -64)
        error = ((1 + y) * (16 * _WIDE_UNIT) + 4 / w) * scale
        x = y * scale
        whole = np.floor(x)
        x -= whole
        out[index] = whole.astype(np.int64)
        sure = (x > error) & (x < 1 - error) & (words[index] >= np.uint64(1 << 16))
        still.append(index[~sure])
    return np.concatenate(still)


def _exceed(words: Words, exponents: FloatArray | None, decide: Callable[[int], bool]) -> Mask:
    """Whether -ln U >= exponent, where the floats err by at most 2**-48 (1 + exponent).

    The error of the logarithm is that of :func:`_double_filter`, below 2**-45 as y < 8.4; twice the
    sum of both is less than 2**-43 + 2**-46 exponent. ``decide`` answers for an index in integers
    when the filter leaves it open, or when there are no floats.
    """
    if exponents is None:
        answers = undecided = np.ones(words.size, dtype=np.bool_)
    else:
        y = np.maximum(words.astype(np.float64), float(_TINY_WORD)) * 2.0**-64
        gap = -np.log(y) - exponents
        answers = gap > 0
        undecided = ~(np.abs(gap) > 2.0**-43 + exponents * 2.0**-46) | (words < _TINY_WORD)
    for i in np.flatnonzero(undecided).tolist():
        answers[i] = decide(i)
    return answers


def _sign(sizes: WideIntegers, words: Words) -> NDArray[np.intp]:
    """Negate, in place, the sizes whose word is odd; give the indices of minus zero."""
    minus_zeros = [np.empty(0, dtype=np.intp)]
    for start in range(0, words.size, _BLOCK):
        part = sizes[start : start + _BLOCK]
        odd = (words[start : start + _BLOCK] & np.uint64(1)).view(np.int64)
        minus_zeros.append(np.flatnonzero(odd > np.abs(part)) + start)  # 1 beside 0
        odd *= -2
        odd += 1
        part *= odd
    return np.concatenate(minus_zeros)


def _count(shape: Shape) -> int:
    sides = shape if isinstance(shape, tuple) else (shape,)
    return math.prod(check_count("shape", side, least=0) for side in sides)
