"""Public facts about columns: intervals and categories, stated by the caller, not the data."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Any

from tightdp.errors import check_real, fail


@dataclass(frozen=True, slots=True)
class Interval:
    """A numeric column with public bounds.

    >>> Interval(-2, 5).width
    7.0
    """

    low: float
    high: float

    def __post_init__(self) -> None:
        low, high = check_real("low", self.low), check_real("high", self.high)
        if not low < high:
            fail(f"`low` must be smaller than `high`. Got [{low}, {high}]: swap or widen them.")
        object.__setattr__(self, "low", low)
        object.__setattr__(self, "high", high)

    @property
    def width(self) -> float:
        """Length of the interval: the largest change of one cell."""
        return self.high - self.low


@dataclass(frozen=True, slots=True, init=False)
class Category:
    """A categorical column with public levels.

    >>> Category(["a", "b"]).levels
    ('a', 'b')
    """

    levels: tuple[Any, ...]

    def __init__(self, levels: Iterable[Any]) -> None:
        if isinstance(levels, str):
            fail("`levels` must be a list of levels, not one string.")
        values = tuple(levels)
        if len(values) < 2:
            fail(f"`levels` must hold at least 2 levels. Got {len(values)}.")
        if len(set(values)) != len(values):
            fail("`levels` must be distinct.")
        object.__setattr__(self, "levels", values)
