r"""How far moves reach in the levels of a lattice body: exact integers, nothing sampled.

A move is a sum of parts, one of each *block* of entries. Each block lists points
:math:`c_1, c_2, ...`; its parts are the differences :math:`c_i - c_j` (a row is replaced), or all
blocks together move by one :math:`\pm(c, c', ...)` (a row is added or removed). A level is a gauge
rounded up, so its largest value over the convex hulls of the points is found at the points.
:func:`farthest_level` bounds it from above, mostly without forming pairs; where the bound is not
tight, it is too large, never too small.
"""

from __future__ import annotations

import itertools
import math
from collections.abc import Callable, Sequence
from functools import partial, singledispatch

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import WideIntegers
from tightdp.exact.lattice_bodies import DiamondBody, PolytopeBody, RoundBody
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody, ceil_sqrt, roomy
from tightdp.exact.lattice_histograms import HistogramBody

Blocks = Sequence[tuple[NDArray[np.intp], WideIntegers]]
"""Places of entries, and points, shape (points, entries)."""

_MOST_POINTS = 1 << 11  # combinations of points of all blocks
_MOST_CELLS = 1 << 20  # integers of a list of differences


@singledispatch
def farthest_level(body: LatticeBody, blocks: Blocks, *, paired: bool) -> int | None:
    """A bound on the level of every move; None where none is known.

    Parameters
    ----------
    body : LatticeBody
    blocks : sequence of (places, points)
        Together the places are those of the body, each once.
    paired : bool
        Whether moves are differences.

    Examples
    --------
    >>> counts = [(np.arange(3), np.eye(3, dtype=int))]
    >>> farthest_level(HistogramBody(3), counts, paired=True)
    1
    >>> farthest_level(DiamondBody(3), counts, paired=True)
    2
    """
    if math.prod(len(points) for _, points in blocks) > _MOST_POINTS:
        return None
    rows = np.array(list(itertools.product(*(range(len(points)) for _, points in blocks))))
    whole = np.zeros((len(rows), body.dim), dtype=np.result_type(*(p for _, p in blocks)))
    for chosen, (places, points) in zip(rows.T, blocks, strict=True):
        whole[:, places] = points[chosen]
    return _largest(whole, paired, body.level)


@farthest_level.register
def _(body: BoxBody, blocks: Blocks, *, paired: bool) -> int | None:
    # the level is the largest of those of the entries
    sides = np.zeros((1, body.dim), dtype=object)
    for places, points in blocks:
        low, high = points.min(axis=0), points.max(axis=0)
        sides[0, places] = high - low if paired else np.maximum(high, -low)
    return int(body.level(sides)[0])


@farthest_level.register
def _(body: DiamondBody, blocks: Blocks, *, paired: bool) -> int | None:
    return sum(_longest(points, paired, _length) for _, points in blocks)


@farthest_level.register
def _(body: RoundBody, blocks: Blocks, *, paired: bool) -> int | None:
    square = sum(_longest(points, paired, _square, power=2) for _, points in blocks)
    return int(ceil_sqrt(np.array([square], dtype=object))[0])


@farthest_level.register
def _(body: HistogramBody, blocks: Blocks, *, paired: bool) -> int | None:
    sums = [points.sum(axis=1) for _, points in blocks]
    if not paired or any((total != total[0]).any() for total in sums):
        return None  # moves leave the span
    return -(-sum(_longest(points, paired, _length) for _, points in blocks) // 2)


@farthest_level.register
def _(body: ProductBody, blocks: Blocks, *, paired: bool) -> int | None:
    # the level is the largest of those of the factors, which see what moves their entries
    levels, start = [], 0
    for factor in body.bodies:
        stop, seen = start + factor.dim, []
        for places, points in blocks:
            mine = (places >= start) & (places < stop)
            if mine.any():
                seen.append((places[mine] - start, points[:, mine]))
        levels.append(farthest_level(factor, seen, paired=paired))
        start = stop
    known = [level for level in levels if level is not None]
    return max(known) if len(known) == len(levels) else None


@farthest_level.register
def _(body: PolytopeBody, blocks: Blocks, *, paired: bool) -> int | None:
    # |a . z| is largest where every block adds its largest a . c, and its least is taken away
    high = low = np.zeros(len(body.rows), dtype=np.int64)
    for places, points in blocks:
        # sums of all blocks stay below 2^61: safe_entry times the l1 norm of a row is 2^62
        heights = roomy(points, body.safe_entry // (2 * len(blocks))) @ body.rows[:, places].T
        high, low = high + heights.max(axis=0), low + heights.min(axis=0)
    reach = high - low if paired else np.maximum(high, -low)
    facets = max((-(-int(r) // int(b)) for r, b in zip(reach, body.right, strict=True)), default=0)
    box = farthest_level(BoxBody(body.half.tolist(), body.den), blocks, paired=paired)
    return None if box is None else max(facets, box)


def largest_square(weights: Sequence[int], blocks: Blocks, *, paired: bool) -> int:
    """A bound on the sum of ``weights[j] * d[j]**2`` over all moves d: weighted round bodies.

    >>> counts = [(np.arange(3), np.eye(3, dtype=int))]
    >>> largest_square([1, 1, 4], counts, paired=True), largest_square([1] * 3, counts, paired=True)
    (5, 2)
    """
    total = 0
    for places, points in blocks:
        squares = partial(weighted_squares, weights=[weights[j] for j in places])
        total += _longest(points, paired, squares, power=2)
    return total


def weighted_squares(z: WideIntegers, weights: Sequence[int]) -> WideIntegers:
    """The sum of ``weights[j] * z[j]**2`` for every row, as Python integers where they are long.

    >>> weighted_squares(np.array([[3, -1], [0, 2]]), [1, 10]).tolist()
    [19, 40]
    """
    most = max(map(int, weights)) * z.shape[1]
    wide = roomy(z, math.isqrt((1 << 61) // most))
    return np.asarray((wide * wide) @ np.array(weights, dtype=wide.dtype), dtype=object)


def _longest(
    points: WideIntegers, paired: bool, size: Callable[[WideIntegers], WideIntegers], power: int = 1
) -> int:
    """The largest size of a move of one block, or a bound on it where there are many pairs."""
    if not paired or len(points) ** 2 * points.shape[1] <= 2 * _MOST_CELLS:
        return _largest(points, paired, size)
    alone = int(size(points).max())
    # |c - c'|^p <= |c|^p + |c'|^p where no entry is negative, else 2^p times the largest of both
    return alone * (2 if not (points < 0).any() else 2**power)


def _largest(
    points: WideIntegers, paired: bool, size: Callable[[WideIntegers], WideIntegers]
) -> int:
    if not paired:
        return int(size(points).max())
    first, second = np.triu_indices(len(points), 1)
    step = max(1, _MOST_CELLS // points.shape[1])
    parts = (slice(start, start + step) for start in range(0, len(first), step))
    return max((int(size(points[first[p]] - points[second[p]]).max()) for p in parts), default=0)


def _length(z: WideIntegers) -> WideIntegers:
    return np.abs(roomy(z, (1 << 62) // z.shape[1])).sum(axis=1)


def _square(z: WideIntegers) -> WideIntegers:
    wide = roomy(z, math.isqrt((1 << 62) // z.shape[1]))
    return np.asarray((wide * wide).sum(axis=1))
