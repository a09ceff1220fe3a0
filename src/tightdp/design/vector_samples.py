"""Points of the boundary of a ball, where a program asks for privacy before it is proved."""

from __future__ import annotations

import math
from collections.abc import Iterator
from itertools import product

from tightdp.design.vector_balls import Shift, ordered

Point = tuple[float, ...]


def boundary_samples(ball: str, radius: float, count: int, dim: int = 2) -> list[Point]:
    """Points of the boundary with falling entries, ``count`` for each unit of every entry.

    Points where an entry is whole are among them: there the shortfall has its kinks.

    >>> boundary_samples("l1", 2, 1), len(boundary_samples("l2", 3, 6, 3))
    ([(2.0, 0.0), (1.0, 1.0)], 97)
    """
    if ball == "linf":
        return []
    if dim == 1:
        return [(float(radius),)]
    last = radius / dim if ball == "l1" else radius / math.sqrt(dim)  # all entries are equal
    heights = {t / count for t in range(math.floor(last * count) + 1)} | {last}
    if dim == 2:
        heights |= {_rest(ball, radius, i) for i in range(1, math.floor(radius) + 1)}
    return [
        (*point, height)
        for height in sorted(h for h in heights if h <= last)
        for point in boundary_samples(ball, _rest(ball, radius, height), count, dim - 1)
        if point[-1] >= height - 1e-12
    ]


def _rest(ball: str, radius: float, entry: float) -> float:
    """The radius that one entry leaves to the others."""
    if ball == "l1":
        return max(radius - entry, 0.0)
    return math.sqrt(max(radius * radius - entry * entry, 0.0))


def multilinear(point: Point, *, symmetric: bool = True) -> dict[Shift, float]:
    """Corners of the cell around a point and their weights; ``symmetric``: entries put in order.

    >>> multilinear((1.5, 0.0)), multilinear((0.5, 0.5))
    ({(1, 0): 0.5, (2, 0): 0.5}, {(0, 0): 0.25, (1, 0): 0.5, (1, 1): 0.25})
    """
    low = [math.floor(x + 1e-9) for x in point]
    parts = [max(x - i, 0.0) for x, i in zip(point, low, strict=True)]
    found: dict[Shift, float] = {}
    for step, weight in _corners(parts):
        corner = tuple(i + d for i, d in zip(low, step, strict=True))
        corner = ordered(corner) if symmetric else corner
        found[corner] = found.get(corner, 0.0) + weight
    return found


def _corners(parts: list[float]) -> Iterator[tuple[tuple[int, ...], float]]:
    for step in product((0, 1), repeat=len(parts)):
        weight = math.prod(u if d else 1 - u for d, u in zip(step, parts, strict=True))
        if weight > 1e-12:
            yield step, weight
