"""Losses from their description in a document: values, means and what lies below them, exactly.

Roots alone are rounded, to the side that a proof needs. The standard library is enough.
"""

from __future__ import annotations

from fractions import Fraction
from itertools import pairwise
from math import isqrt

from tightdp.design.exact_numbers import MOST_POWER, Document, Refuted, demand, rational

ROOT_BITS = 128


def value(loss: Document, x: Fraction, *, up: bool = False) -> Fraction:
    """c(x): exact, or rounded down (``up``: up) for roots."""
    kind, size = loss["kind"], abs(x)
    if kind == "sides":
        side = loss["right"] if x >= 0 else loss["left"]
        return sum((rational(c) * size**j for j, c in enumerate(side)), Fraction(0))
    if kind == "root":
        return rational(loss["factor"]) * _power(size, loss["top"], loss["bottom"], up)
    if kind == "threshold":
        return Fraction(1 if size >= rational(loss["at"]) else 0)
    if kind == "broken":
        return _broken(loss, x)
    raise Refuted(f"an unknown kind of loss: {kind}")


def mean(loss: Document, low: Fraction, high: Fraction) -> Fraction:
    """The mean of c over [low, high], low < high; rounded up for roots."""
    if low < 0 < high:
        parts = mean(loss, low, Fraction(0)) * -low + mean(loss, Fraction(0), high) * high
        return parts / (high - low)
    near, far = min(abs(low), abs(high)), max(abs(low), abs(high))
    length, kind = high - low, loss["kind"]
    if kind == "sides":
        side = loss["right"] if low >= 0 else loss["left"]
        whole = (
            rational(c) * (far ** (j + 1) - near ** (j + 1)) / (j + 1) for j, c in enumerate(side)
        )
        return sum(whole, Fraction(0)) / length
    if kind == "root":
        top, bottom = loss["top"] + loss["bottom"], loss["bottom"]
        rise = _power(far, top, bottom, True) - _power(near, top, bottom, False)
        return rational(loss["factor"]) * rise * Fraction(bottom, top) / length
    if kind == "threshold":
        return (far - min(max(rational(loss["at"]), near), far)) / length
    corners = [low, *(x for x in map(rational, loss["knots"]) if low < x < high), high]
    pieces = ((_broken(loss, x) + _broken(loss, y)) / 2 * (y - x) for x, y in pairwise(corners))
    return sum(pieces, Fraction(0)) / length


def dip(loss: Document, low: Fraction, high: Fraction) -> Fraction:
    """At least the depth of c below its chord over [low, high], which lies on one side of 0."""
    near, far = min(abs(low), abs(high)), max(abs(low), abs(high))
    length, kind = high - low, loss["kind"]
    if kind == "sides":  # f'' rises outward: the depth is at most length**2/8 times its largest
        side = loss["right"] if low >= 0 else loss["left"]
        bend = (rational(c) * j * (j - 1) * far ** (j - 2) for j, c in enumerate(side) if j >= 2)
        return length**2 / 8 * sum(bend, Fraction(0))
    if kind == "root":
        return _root_dip(loss, near, far)
    if kind == "threshold":
        at = rational(loss["at"])
        return (at - near) / length if near < at <= far else Fraction(0)
    left, right = _broken(loss, low), _broken(loss, high)
    depths = (
        left + (right - left) * (x - low) / length - _broken(loss, x)
        for x in map(rational, loss["knots"])
        if low < x < high
    )
    return max([Fraction(0), *depths])


def floor(loss: Document, low: Fraction, high: Fraction) -> Fraction:
    """At most the infimum of c over [low, high), which lies on one side of 0."""
    kind = loss["kind"]
    if kind == "threshold":
        at = rational(loss["at"])
        return Fraction(1 if low >= at or high <= -at else 0)
    ends = [value(loss, low), value(loss, high)]
    if kind == "broken":
        inside = (x for x in map(rational, loss["knots"]) if low < x < high)
        ends.extend(value(loss, x) for x in inside)
    return min(ends)


def grows_from(loss: Document) -> Fraction:
    """A distance from 0 beyond which c does not fall outward; refutes when there is none."""
    kind = loss["kind"]
    if kind == "sides":
        sides = (loss["right"], loss["left"])
        demand(max(map(len, sides)) <= MOST_POWER, "too high a power")
        demand(rational(sides[0][0]) == rational(sides[1][0]), "the loss jumps at zero")
        demand(all(rational(c) >= 0 for side in sides for c in side), "the loss falls outward")
        return Fraction(0)
    if kind == "root":
        whole = all(type(loss[name]) is int and loss[name] > 0 for name in ("top", "bottom"))
        demand(whole and rational(loss["factor"]) > 0, "no root loss")
        demand(max(loss["top"], loss["bottom"]) <= MOST_POWER, "too high a power")
        return Fraction(0)
    if kind == "threshold":
        demand(rational(loss["at"]) >= 0, "a negative threshold")
        return rational(loss["at"])
    knots = [rational(x) for x in loss["knots"]]
    demand(all(x < y for x, y in pairwise(knots)), "knots out of order")
    demand(len(knots) == len(loss["values"]) > 0, "knots and values do not match")
    demand(rational(loss["first"]) <= 0 <= rational(loss["last"]), "the loss falls outward")
    return max(abs(knots[0]), abs(knots[-1]))


def symmetric(loss: Document) -> bool:
    """Whether c(x) = c(-x) follows from the description."""
    kind = loss["kind"]
    if kind == "sides":
        return [rational(c) for c in loss["right"]] == [rational(c) for c in loss["left"]]
    if kind == "broken":
        knots, values = ([rational(v) for v in loss[name]] for name in ("knots", "values"))
        mirrored = [-x for x in reversed(knots)] == knots and values == values[::-1]
        return mirrored and rational(loss["first"]) == -rational(loss["last"])
    if kind == "table":
        return bool(loss["symmetric"])
    return True


def _broken(loss: Document, x: Fraction) -> Fraction:
    knots, values = loss["knots"], loss["values"]
    first, last = rational(knots[0]), rational(knots[-1])
    if x <= first:
        return rational(values[0]) + rational(loss["first"]) * (x - first)
    if x >= last:
        return rational(values[-1]) + rational(loss["last"]) * (x - last)
    right = next(i for i, knot in enumerate(knots) if rational(knot) >= x)
    low, high = rational(knots[right - 1]), rational(knots[right])
    left = rational(values[right - 1])
    return left + (rational(values[right]) - left) * (x - low) / (high - low)


def _root_dip(loss: Document, near: Fraction, far: Fraction) -> Fraction:
    top, bottom = loss["top"], loss["bottom"]
    if top <= bottom:  # concave on each side: the chord lies below
        return Fraction(0)
    power, factor, length = Fraction(top, bottom), rational(loss["factor"]), far - near
    slope = _power(far, top - bottom, bottom, True) - _power(near, top - bottom, bottom, False)
    depth = length / 4 * power * slope  # convex: length/4 times the change of the slope
    steep = far if top >= 2 * bottom else near
    if steep > 0 or top >= 2 * bottom:
        bend = power * (power - 1) * _signed_power(steep, top - 2 * bottom, bottom)
        depth = min(depth, length**2 / 8 * bend)
    return factor * depth


def _signed_power(x: Fraction, top: int, bottom: int) -> Fraction:
    return _power(x, top, bottom, True) if top >= 0 else _power(1 / x, -top, bottom, True)


def _power(x: Fraction, top: int, bottom: int, up: bool) -> Fraction:
    """x**(top/bottom) for x >= 0, to 2**-128, rounded as asked."""
    if x == 0:
        return Fraction(1 if top == 0 else 0)
    scaled = x**top * (1 << ROOT_BITS * bottom)
    root = _whole_root(scaled.numerator // scaled.denominator, bottom)
    exact = Fraction(root**bottom) == scaled
    return Fraction(root + (1 if up and not exact else 0), 1 << ROOT_BITS)


def _whole_root(n: int, degree: int) -> int:
    """The largest r with r**degree <= n."""
    if degree == 1:
        return n
    if degree == 2:
        return isqrt(n)
    low, high = 0, 1 << (n.bit_length() // degree + 1)
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (middle, high) if middle**degree <= n else (low, middle)
    return low
