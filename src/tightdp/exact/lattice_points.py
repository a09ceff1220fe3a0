"""Uniform integer points of boxes and simplices, exactly.

One point a row, with a size of its own for every row, in int64 or Python integers of any size. No
float is used.
"""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import WideIntegers, check_count, fail
from tightdp.randomness import RandomSource

_ROOM = 1 << 62


def box_points(low: ArrayLike, high: ArrayLike, rng: RandomSource) -> WideIntegers:
    """Independent uniform integers with low <= z <= high, entry by entry (arrays broadcast).

    >>> from tightdp.randomness import source
    >>> levels = np.array([1, 10, 100])
    >>> box_points(-levels[:, None] * [1, 2], levels[:, None] * [1, 2], source(1)).shape
    (3, 2)
    """
    a, b = np.broadcast_arrays(*_roomy(low, high))
    return a + rng.integers_below(b - a + 1)


def simplex_points(
    totals: ArrayLike, dim: int, rng: RandomSource, *, at_most: bool = False
) -> WideIntegers:
    """Rows of uniform points of {z >= 0 integer, sum z = total}, one row for each total.

    Proof (stars and bars): the points with ``dim`` parts are in bijection with the sets of
    ``dim - 1`` bars among ``total + dim - 1`` places, the parts being the gaps; Floyd's algorithm
    draws such a set uniformly. With ``at_most`` one more part takes the rest and is dropped.

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
    (n,) = _roomy(np.ravel(totals))
    if n.size and bool((n < 0).any()):
        fail("`totals` must be integers >= 0.")
    bars = np.sort(subsets(n + (parts - 1), parts - 1, rng), axis=1)
    edges = np.concatenate([np.full_like(n, -1)[:, None], bars, (n + (parts - 1))[:, None]], axis=1)
    return (np.diff(edges, axis=1) - 1)[:, :dim]


def subsets(places: WideIntegers, size: int, rng: RandomSource) -> WideIntegers:
    """Rows of ``size`` distinct uniform integers below ``places`` (R. Floyd; Bentley 1987).

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


def _roomy(*arrays: ArrayLike) -> list[WideIntegers]:
    """Integer arrays as int64 where sums cannot overflow, else all as Python integers."""
    given = [np.asarray(array) for array in arrays]
    if any(a.size and a.dtype.kind not in "iuO" for a in given):
        fail("Sizes of lattice boxes and simplices must be integers.")
    wide = any(a.size and (a.max() >= _ROOM // 2 or a.min() <= -_ROOM // 2) for a in given)
    return [a.astype(object if wide else np.int64) for a in given]


def roomy(z: WideIntegers, limit: int) -> WideIntegers:
    """Integers as int64, or all as Python integers when one of them reaches ``limit``."""
    if z.dtype == object or z.size == 0:
        return z
    far = max(-int(z.min()), int(z.max()))
    return z.astype(object if far >= limit else np.int64)
