"""Uniform integer points of simplices, and uniform subsets, one a row, at any size."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import WideIntegers, check_count, fail
from tightdp.exact.lattice_body import roomy_all
from tightdp.randomness import RandomSource

_DENSE = 4  # places for each bar, up to which all places are ranked
_MOST_KEYS = 1 << 18  # ranked at a time
_LAST = np.uint32((1 << 32) - 1)
_FEW = 4  # bars up to which one is drawn after the other
_FAST = 1 << 32  # bounds of integers_within


def simplex_points(
    totals: ArrayLike, dim: int, rng: RandomSource, *, at_most: bool = False
) -> WideIntegers:
    """Rows of uniform points of {z >= 0 integer, sum z = total}, one row for each total.

    Proof (stars and bars): the points with ``dim`` parts are in bijection with the sets of
    ``dim - 1`` bars among ``total + dim - 1`` places, the parts being the gaps; and
    :func:`subsets` are uniform. With ``at_most`` one more part takes the rest and is dropped.

    Parameters
    ----------
    totals : array of integers >= 0
        int64 or Python integers of any size.
    dim : int
        Number of coordinates, >= 1.
    rng : RandomSource
    at_most : bool
        Take {sum z <= total} instead.

    Examples
    --------
    >>> from tightdp.randomness import source
    >>> simplex_points([0, 3, 7], 2, source(1)).sum(axis=1)
    array([0, 3, 7])
    """
    parts = check_count("dim", dim) + int(at_most)
    (n,) = roomy_all(np.ravel(totals))
    if n.size and bool((n < 0).any()):
        fail("`totals` must be integers >= 0.")
    if parts == 1:
        return n[:, None].copy()
    bars = subsets(n + (parts - 1), parts - 1, rng)
    out = np.empty((len(n), dim), dtype=bars.dtype)
    out[:, 0] = bars[:, 0]
    gaps = out[:, 1 : parts - 1]
    np.subtract(bars[:, 1:], bars[:, :-1], out=gaps)
    gaps -= 1
    if not at_most:
        out[:, -1] = n + (parts - 2) - bars[:, -1]
    return out


def subsets(places: WideIntegers, size: int, rng: RandomSource) -> WideIntegers:
    """Rows of ``size`` distinct uniform integers below ``places``, in increasing order.

    >>> from tightdp.randomness import source
    >>> subsets(np.array([3, 3]), 3, source(1)).tolist()
    [[0, 1, 2], [0, 1, 2]]
    """
    if size <= _FEW or places.dtype == object or places.size == 0:
        return np.sort(_one_by_one(places, size, rng), axis=1)
    dense = places <= _DENSE * size
    out = np.empty((places.size, size), dtype=np.int64)
    for rows, draw in ((np.flatnonzero(dense), _ranked), (np.flatnonzero(~dense), _redrawn)):
        if rows.size:
            out[rows] = draw(places[rows], size, rng)
    return out


def _one_by_one(places: WideIntegers, size: int, rng: RandomSource) -> WideIntegers:
    """The same in any order (R. Floyd; Bentley 1987).

    Invariant: after the step with bound j the row is a uniform subset of 0..j-1. A candidate that
    is taken already is replaced by j - 1, which no earlier step could take.
    """
    out = np.empty((places.size, size), dtype=places.dtype)
    for taken in range(size):
        bound = places - (size - 1 - taken)
        pick = rng.integers_below(bound)
        clash = (out[:, :taken] == pick[:, None]).any(axis=1)
        out[:, taken] = np.where(clash, bound - 1, pick)
    return out


def _ranked(places: NDArray[np.int64], size: int, rng: RandomSource) -> NDArray[np.int64]:
    """The places of the smallest of independent numbers of 32 bits, one for every place.

    All orders of the numbers are equally likely, so that the set is uniform. Rows in which the last
    one taken has an equal are drawn again: which rows these are does not depend on the places.
    """
    out = np.empty((places.size, size), dtype=np.int64)
    width = int(places.max())
    step = max(1, _MOST_KEYS // width)
    for start in range(0, places.size, step):
        part = places[start : start + step]
        words = rng.words(-(-part.size * width // 2)).view(np.uint32)
        keys = words[: part.size * width].reshape(part.size, width)
        outside = np.arange(width) >= part[:, None]
        keys[outside] = _LAST
        last = np.partition(keys, size - 1, axis=1)[:, size - 1]
        taken = keys <= last[:, None]
        taken &= ~outside
        tied = np.flatnonzero(np.count_nonzero(taken, axis=1) != size)
        taken[tied] = np.arange(width) < size  # so many, for the moment
        found = np.flatnonzero(taken.ravel()).reshape(part.size, size)
        np.subtract(found, width * np.arange(part.size)[:, None], out=out[start : start + step])
        if tied.size:
            out[start + tied] = _ranked(part[tied], size, rng)
    return out


def _redrawn(places: NDArray[np.int64], size: int, rng: RandomSource) -> NDArray[np.int64]:
    """Independent uniform integers; of equal ones all but one are drawn again, until none is.

    What is different among independent draws is a set of which only the size tells anything; when
    it has grown to ``size`` by further draws, all sets of that size are equally likely.
    """
    if int(places.max()) <= _FAST:
        out = rng.integers_within(places, size)
    else:
        out = rng.integers_below(np.repeat(places[:, None], size, axis=1))
    out.sort(axis=1)
    rows = np.flatnonzero((out[:, 1:] == out[:, :-1]).any(axis=1))
    while rows.size:
        part = out[rows]
        i, j = np.nonzero(part[:, 1:] == part[:, :-1])
        part[i, j + 1] = rng.integers_below(places[rows[i]])
        part.sort(axis=1)
        out[rows] = part
        rows = rows[(part[:, 1:] == part[:, :-1]).any(axis=1)]
    return out
