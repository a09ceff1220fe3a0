"""Images of rows of which more is known than their columns say: capped rows, and implications.

Each describes P, the hull of what one row can add, when every row obeys a public fact; both bodies
(:class:`~tightdp.geometry.row_images.RowImage`) are hulls, in closed form.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from tightdp.errors import FloatArray
from tightdp.geometry.counting_balls import CountBall, ReplacedCountBall, SumBall
from tightdp.geometry.norm_balls import LpBall
from tightdp.geometry.poset_ball import PosetBall, ReplacedPosetBall
from tightdp.geometry.row_images import Hull, RowImage
from tightdp.randomness import RandomSource

_MOST_FILTERS = 1 << 11


class CappedImage(RowImage):
    """Rows of [0, 1]^d that add up to at most k; if signed, of [-1, 1]^d, in size.

    k is an integer, so that the corners of P have entries 0 and 1 (and -1).
    """

    def __init__(self, names: Sequence[str], bound: int, *, signed: bool = False) -> None:
        self.names, self.bound, self.signed = tuple(names), bound, signed

    @property
    def symmetric(self) -> bool:
        return self.signed

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        size = np.abs(c) if self.signed else np.maximum(c, 0.0)
        chosen = np.argsort(-size, kind="stable")[: self.bound]
        row = np.zeros(self.dim)
        row[chosen] = np.sign(c[chosen]) if self.signed else c[chosen] > 0
        return row, dict(zip(self.names, row.tolist(), strict=True))

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        if self.signed:
            return SumBall(self.dim, self.bound).sample(size, rng=rng)
        return np.abs(SumBall(self.dim, self.bound).sample(size, rng=rng))

    def replace_hull(self) -> Hull:
        if self.signed:
            ball = SumBall(self.dim, self.bound).scaled(2.0)
            return Hull(ball, True, "twice the symmetric rows of a bounded sum")
        if self.bound == self.dim:
            return Hull(LpBall(self.dim, np.inf), True, "differences of a cube")
        ball = ReplacedCountBall(self.dim, self.bound)
        return Hull(ball, True, "differences of rows of a bounded sum")

    def add_hull(self) -> Hull:
        ball = SumBall if self.signed else CountBall
        return Hull(ball(self.dim, self.bound), True, "rows of a bounded sum, and their mirror")

    def lp_sensitivity(self, p: float) -> tuple[float, bool] | None:
        # a norm is largest at a vertex: 1 in up to 2k entries, or 2 in k entries of signed rows
        if self.signed:
            return 2 * self.bound ** (1 / p), True
        return min(2 * self.bound, self.dim) ** (1 / p), True

    def lp_norm_of_row(self, p: float) -> tuple[float, bool] | None:
        return self.bound ** (1 / p), True


class FilterImage(RowImage):
    """Rows of flags in which some imply others: P is the order polytope, its corners filters."""

    def __init__(self, names: Sequence[str], relations: Sequence[tuple[int, int]]) -> None:
        self.names = tuple(names)
        self._added = PosetBall(self.dim, relations)
        self._replaced = ReplacedPosetBall(self.dim, relations)

    def best(self, c: FloatArray) -> tuple[FloatArray, Any]:
        row = self._added.best_filters(c[None, :])[0]
        return row, dict(zip(self.names, row.tolist(), strict=True))

    def sample(self, size: int, rng: RandomSource) -> FloatArray:
        return self._added.best_filters(rng.normal((size, self.dim)))

    def corners(self) -> FloatArray | None:
        filters = self._added.vertices(_MOST_FILTERS)
        return None if filters is None else np.vstack([np.zeros(self.dim), filters])

    def replace_hull(self) -> Hull:
        return Hull(self._replaced, True, "differences of order filters")

    def add_hull(self) -> Hull:
        return Hull(self._added, True, "order filters, and their mirror")

    def lp_sensitivity(self, p: float) -> tuple[float, bool] | None:
        return self.lp_norm_of_row(p)  # all flags against none

    def lp_norm_of_row(self, p: float) -> tuple[float, bool] | None:
        return math.pow(self.dim, 1 / p), True
