r"""Exact noise in arrays: one 64-bit word a draw, floats as a filter only.

The upper 63 bits of a word are the leading bits of a uniform real U
(:class:`~tightdp.exact.lazy_uniform.LazyUniform`), the lowest bit is a fair sign. A level is
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

Without trust in [N1], ``filtered=False`` finishes every draw in integers (some 300 times slower),
with the same words and hence the same results.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from functools import partial
from math import prod
from typing import Any

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.errors import FloatArray, WideIntegers, check_count
from tightdp.exact.integer_draws import discrete_gaussian, gaussian_exponent, gaussian_parameters
from tightdp.exact.lazy_uniform import LazyUniform
from tightdp.exact.rates import check_rate
from tightdp.randomness import RandomSource, Shape, Words

Mask = NDArray[np.bool_]

SAFE = 1 << 62
"""Levels from here on are Python integers, so that int64 levels can be negated and doubled."""

_BLOCK = 1 << 14  # words treated at a time: the float buffers stay in the cache
_TINY_WORD = np.uint64(1 << 52)
_LOG_ERROR, _LOG_SLOPE = 2.0**-50, 2.0**-48  # error of -ln U = y: below the first + the second * y
_WIDE: Any = np.longdouble if np.finfo(np.longdouble).nmant in (63, 112) else np.float64
_WIDE_UNIT = _WIDE(2) ** -int(np.finfo(_WIDE).nmant)


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
        negative_zeros = _sign(fresh, words)
        if fresh.dtype == object:
            out = out.astype(object)
        out[again] = fresh
        again = again[negative_zeros]
    return out.reshape(shape)


def discrete_gaussians(
    sigma2: Number, shape: Shape, rng: RandomSource, *, filtered: bool = True
) -> WideIntegers:
    r"""Independent integers z with probability proportional to :math:`e^{-z^2/(2\sigma^2)}`.

    The rejection of :func:`tightdp.exact.integer_draws.discrete_gaussian`, on arrays: the accepted
    draws of an independent sequence, in order, are independent with the stated law.

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
    a, b, t = gaussian_parameters(sigma2)
    count = _count(shape)
    if t >> 400 or b >> 900 > a:  # beyond the range of floats
        draws = [discrete_gaussian(sigma2, rng) for _ in range(count)]
        return np.array(draws, dtype=object).reshape(shape)
    centre, half = float(Fraction(a, b * t)), float(Fraction(b, 2 * a))
    parts: list[WideIntegers] = [np.empty(0, dtype=np.int64)]
    missing = count
    while missing > 0:
        # Three in four proposals stay, a few less for small sigma; blocks fit the cache.
        y = discrete_laplaces(1, t, min(missing + missing // 3 + 8, _BLOCK), rng, filtered=filtered)
        # x = (|y| - centre)**2 * half errs by less than 2**-49 (1 + x): the difference d errs by
        # 2**-52 (|y| + centre) at most, and 2 half |d| (|y| + centre) <= 2x + 2|d|/t <= 4x + 1
        # since centre = sigma**2/t, half = 1/(2 sigma**2), sigma < t and |d|/t <= sqrt(2x).
        exponents = (np.abs(y).astype(np.float64) - centre) ** 2 * half
        exact = partial(_gaussian_exponent_at, y, a, b, t)
        kept = _exceed(rng.words(y.size), exponents, exact, rng, filtered=filtered)
        parts.append(y[kept])
        missing -= parts[-1].size
    return np.concatenate(parts)[:count].reshape(shape)


# --- filters ------------------------------------------------------------------------------------


def levels(
    words: Words, num: int, den: int, rng: RandomSource, *, filtered: bool = True
) -> WideIntegers:
    """floor(-ln U / (num/den)) for the U that begin with the upper 63 bits of the words."""
    out = np.zeros(words.size, dtype=np.int64)
    pending = np.arange(words.size)
    if filtered:
        inverse = Fraction(den, num)
        if 2**-1000 < inverse < 2**46:
            pending = np.flatnonzero(_double_filter(words, float(inverse), out))
        if pending.size and 2**-1000 < inverse < 2**56:
            pending = _wide_filter(words, inverse, pending, out)
    finished = [LazyUniform(int(words[i]) >> 1, 63, rng).level(num, den) for i in pending]
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


def _exceed(
    words: Words,
    exponents: FloatArray,
    exact: Callable[[int], tuple[int, int]],
    rng: RandomSource,
    *,
    filtered: bool,
) -> Mask:
    """Whether -ln U >= exponent, where the floats err by at most 2**-48 (1 + exponent).

    The error of the logarithm is that of :func:`_double_filter`, below 2**-45 as y < 8.4; twice the
    sum of both is less than 2**-43 + 2**-46 exponent. ``exact`` gives the exponent of an index as a
    fraction when the filter leaves it open.
    """
    tiny = words < _TINY_WORD
    y = np.maximum(words.astype(np.float64), float(_TINY_WORD)) * 2.0**-64
    gap = -np.log(y) - exponents
    answers = gap > 0
    undecided = ~(np.abs(gap) > 2.0**-43 + exponents * 2.0**-46) | tiny
    for i in np.flatnonzero(undecided) if filtered else range(words.size):
        num, den = exact(int(i))
        answers[i] = num == 0 or LazyUniform(int(words[i]) >> 1, 63, rng).exceeds(num, den)
    return answers


def _gaussian_exponent_at(y: WideIntegers, a: int, b: int, t: int, i: int) -> tuple[int, int]:
    return gaussian_exponent(int(y[i]), a, b, t)


def _sign(sizes: WideIntegers, words: Words) -> NDArray[np.intp]:
    """Negate, in place, the sizes whose word is odd; give the indices of minus zero."""
    odd = (words & np.uint64(1)).view(np.int64)
    minus_zeros = np.flatnonzero((sizes == 0) & (odd == 1))
    sizes *= 1 - 2 * odd
    return minus_zeros


def _count(shape: Shape) -> int:
    sides = shape if isinstance(shape, tuple) else (shape,)
    return prod(check_count("shape", side, least=0) for side in sides)
