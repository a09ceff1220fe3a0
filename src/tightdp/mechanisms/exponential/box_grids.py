"""Public grids on boxes: what they are, and what a release says about a point of one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

import numpy as np

from tightdp.errors import check_count, fail
from tightdp.release import DEPENDS, Draft, Error
from tightdp.schema import Interval


def check_bits(bits: object) -> int:
    """Bits of a public grid on an interval."""
    return check_count("bits", bits, most=26)


def check_interval(interval: object) -> Interval:
    """A public bounded interval: without one the law has no normaliser (E24)."""
    if not isinstance(interval, Interval):
        fail(
            "`interval` must be an Interval with public bounds: gradients and counts are bounded, "
            f"so on an unbounded domain the law does not exist. Got {type(interval).__name__}."
        )
    return interval


def check_box(intervals: object) -> tuple[Interval, ...]:
    """Public bounded intervals, one for every axis."""
    if isinstance(intervals, Interval):
        return (intervals,)
    if not isinstance(intervals, (list, tuple)) or not intervals:
        fail(
            "`intervals` must be a non-empty list of Intervals with public bounds: on an unbounded "
            "set the law does not exist."
        )
    return tuple(check_interval(interval) for interval in intervals)


def grid_words(intervals: Sequence[Interval], bits: int) -> str:
    """A grid in words.

    >>> grid_words([Interval(0, 1), Interval(-2, 2)], bits=10)
    'grid points of [0, 1] x [-2, 2] in steps of 2^-10 of the halves'
    """
    box = " x ".join(f"[{axis.low:g}, {axis.high:g}]" for axis in intervals)
    return f"grid points of {box} in steps of 2^-{bits} of the halves"


def grid_point(
    point: Sequence[int], intervals: Sequence[Interval], bits: int
) -> tuple[Fraction, ...]:
    """``middle + half * t / 2**bits`` on every axis, exactly.

    >>> grid_point([0, -4], [Interval(0, 1), Interval(-2, 2)], bits=2)
    (Fraction(1, 2), Fraction(-2, 1))
    """
    return tuple(
        Fraction(axis.middle) + Fraction(axis.half) * Fraction(int(t), 1 << bits)
        for axis, t in zip(intervals, point, strict=True)
    )


def on_grid(
    names: tuple[str, ...],
    point: Sequence[int],
    intervals: Sequence[Interval],
    bits: int,
    error: Error = DEPENDS,
) -> Draft:
    """A drawn grid point in user units."""
    low, high = (np.array([getattr(axis, name) for axis in intervals]) for name in ("low", "high"))
    value = np.array([float(x) for x in grid_point(point, intervals, bits)])
    value = np.clip(value, low, high)  # halves are rounded
    return Draft.of(names, value, point, 1 << bits, error)
