"""The straightest path through a tube, and which of the tube's points such a path can feel.

Of all paths within a tube the taut string has the least sum of any convex function of its steps, so
it is the heaviest path of every band. It is used for speed alone: nothing proved rests on it.
"""

from __future__ import annotations

import numpy as np

from tightdp.errors import FloatArray, Integers

_AHEAD = 64  # points looked at first
_ROOM = 3.5  # standard deviations of a path between two points that count as far away


def taut_string(low: Integers, high: Integers) -> tuple[Integers, FloatArray]:
    """The shortest path through low[j]..high[j], first and last point fixed: knots and heights.

    >>> taut_string(np.array([0, 0, 3, 4]), np.array([0, 1, 9, 4]))
    (array([0, 1, 2, 3]), array([0., 1., 3., 4.]))
    >>> taut_string(np.array([0, 0, 0, 9]), np.array([0, 9, 9, 9]))
    (array([0, 3]), array([0., 9.]))
    """
    knots, at, last = [0], 0, len(low) - 1
    heights = [float(low[0])]
    while at < last:
        ahead = _AHEAD
        while True:
            stop = min(at + ahead, last)
            knot, height = _next_knot(low, high, at, heights[-1], stop)
            if knot or stop == last:
                break
            ahead *= 4
        at = knot or last
        knots.append(at)
        heights.append(height if knot else float(low[-1]))
    return np.array(knots), np.array(heights)


def _next_knot(
    low: Integers, high: Integers, at: int, height: float, stop: int
) -> tuple[int, float]:
    """Where a string from a point must bend first, or 0 when it can go straight up to ``stop``."""
    steps = np.arange(1, stop - at + 1)
    rise, fall = (
        (low[at + 1 : stop + 1] - height) / steps,
        (high[at + 1 : stop + 1] - height) / steps,
    )
    floor, ceiling = np.maximum.accumulate(rise), np.minimum.accumulate(fall)
    blocked = floor > ceiling
    if not blocked.any():
        return 0, height
    first = int(blocked.argmax())
    if rise[first] > ceiling[first]:  # too steep for what came before: it bends at the upper edge
        place = int(first - fall[:first][::-1].argmin() - 1)
        return at + 1 + place, float(high[at + 1 + place])
    place = int(first - rise[:first][::-1].argmax() - 1)
    return at + 1 + place, float(low[at + 1 + place])


def skeleton(low: Integers, high: Integers, knots: Integers, heights: FloatArray) -> Integers:
    """Points of the tube that keep nearly all paths through them inside, ends included.

    Where the tube is level, a path that only rises feels its first and its last point alone. Where
    the edges are far from the string, against the spread of paths around it, it feels no point.

    >>> tube = np.array([0, 1, 1, 1, 5]), np.array([0, 4, 4, 4, 5])
    >>> skeleton(*tube, *taut_string(*tube))
    array([0, 1, 3, 4])
    """
    level = (np.diff(low) == 0) & (np.diff(high) == 0)
    points = np.arange(len(low))
    string = np.interp(points, knots, heights)
    room = np.minimum(high - string, string - low)
    slopes = np.diff(heights) / np.diff(knots)
    part = np.searchsorted(knots, points[1:-1], side="right") - 1
    # a path strays as a bridge between two knots does, and from these as far as the bend lets it
    past = points[1:-1] - knots[part]
    whole = np.diff(knots)[part]
    bend = np.abs(np.diff(np.log(np.maximum(slopes, 1e-9))))
    loose = np.concatenate([[0.0], 1 / np.maximum(bend, 1e-9) ** 2, [0.0]])
    spread = slopes[part] * past * (whole - past) / whole + np.interp(points[1:-1], knots, loose)
    free = room[1:-1] > _ROOM * np.sqrt(spread)
    # between two points that are l cells apart it strays by sqrt(l * slope / 4)
    reach = np.where(free, 4 * (room[1:-1] / _ROOM) ** 2 / np.maximum(slopes[part], 1e-9), 0.0)
    inner = np.flatnonzero(~(level[:-1] & level[1:]))
    kept, before, shortest = [0], 0, np.inf
    for point, far in zip(
        [*(inner + 1).tolist(), len(low) - 1], [*reach[inner].tolist(), 0.0], strict=True
    ):
        if point - kept[-1] > shortest:
            kept.append(before)
            shortest = np.inf
        shortest, before = min(shortest, far), point
    return np.array([*kept, before])
