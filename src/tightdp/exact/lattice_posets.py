"""Poset balls on the integer lattice, in coordinates that go up along chains."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import WideIntegers
from tightdp.exact.lattice_bodies import CountBody, DiamondBody, DiamondBound
from tightdp.exact.lattice_body import BoxBody, LatticeBody, ProductBody, Rows, roomy
from tightdp.geometry.poset_ball import PosetBall, ReplacedPosetBall
from tightdp.randomness import RandomSource


class PosetBody(DiamondBound):
    """The hull of +- the order filters of a poset, or of their differences (replaced rows).

    Candidates come from a larger body, and those that lie in this one are kept: of differences from
    the cube, of +- filters from the count ball without relations or, where there are long chains,
    from a product of l1 balls. For that the poset is cut into chains, and a point is written by its
    steps y up every chain: the map is integer and so is its inverse, and a filter has at most one
    step of 1 on each chain.

    Examples
    --------
    >>> body = PosetBody(PosetBall(3, [(0, 1), (1, 2)]))  # a chain: the l1 ball of its steps
    >>> body.level(np.array([[0, 0, 1], [1, 1, 1], [1, 0, 0]])).tolist(), body.share
    ([1, 1, 2], 1.0)
    """

    def __init__(self, ball: PosetBall) -> None:
        self.ball, self.dim = ball, ball.dim
        self.replaced = isinstance(ball, ReplacedPosetBall)
        self.key = (self.dim, self.replaced, ball.below.tobytes())
        self._chains = chains(ball.below)
        lengths = [len(chain) for chain in self._chains]
        self._around: LatticeBody = BoxBody([1] * self.dim)
        # volumes of a product of l1 balls, 2^d / prod n!, and of the count ball, d + 1
        product = Fraction(2**self.dim, math.prod(map(math.factorial, lengths)))
        self._by_steps = not self.replaced and product < self.dim + 1
        if self._by_steps:
            self._around = ProductBody([DiamondBody(length) for length in lengths])
        elif not self.replaced:
            self._around = CountBody(self.dim, self.dim)
        self.diamond = sum(min(2, n) for n in lengths) if self.replaced else len(lengths)
        # steps add up to at most dim * l, and what rises from them to dim times as much
        self.safe_level = min(self._around.safe_level, (1 << 60) // self.dim**2)
        self.safe_entry = (1 << 60) // self.dim

    @property
    def factor(self) -> Fraction:
        return self._around.factor

    @property
    def diamond_share(self) -> float:
        log = self.ball.log_volume() + math.lgamma(self.dim + 1)
        log -= self.dim * math.log(2 * self.diamond)
        return math.exp(log) if log > -700 else 0.0

    def from_diamond(self, y: WideIntegers) -> WideIntegers:
        steps = roomy(y, (1 << 60) // self.dim)
        out, start = np.empty_like(steps), 0
        for chain in self._chains:
            out[:, chain] = np.cumsum(steps[:, start : start + len(chain)], axis=1)
            start += len(chain)
        return out

    def to_diamond(self, z: WideIntegers) -> WideIntegers:
        first = np.zeros((len(z), 1), dtype=z.dtype)
        return np.hstack([np.diff(z[:, chain], axis=1, prepend=first) for chain in self._chains])

    def _level(self, z: WideIntegers) -> WideIntegers:
        up, down = (values.max(axis=0) for values in self.ball.rise(z))
        return np.asarray(np.maximum(up, down) if self.replaced else up + down)

    def _kept(
        self, found: tuple[WideIntegers, Rows], levels: WideIntegers
    ) -> tuple[WideIntegers, Rows]:
        z, rows = self.from_diamond(found[0]) if self._by_steps else found[0], found[1]
        keep = np.asarray(self.level(z) <= levels[rows], dtype=bool)
        return z[keep], rows[keep]

    def propose(
        self, levels: WideIntegers, offset: int, rng: RandomSource
    ) -> tuple[WideIntegers, Rows]:
        return self._kept(self._around.propose(levels, offset, rng), levels)

    def cells(self, level: int) -> int:
        return self._around.cells(level)

    def scatter(self, levels: WideIntegers, rng: RandomSource) -> tuple[WideIntegers, Rows]:
        return self._kept(self._around.scatter(levels, rng), levels)


def chains(below: NDArray[np.bool_]) -> list[list[int]]:
    """The poset cut into chains, each from its bottom to its top, a longest one first.

    >>> chains(np.array([[0, 0, 1], [0, 0, 1], [0, 0, 0]], dtype=bool))
    [[0, 2], [1]]
    """
    order = np.argsort(below.sum(axis=0), kind="stable").tolist()
    found: list[list[int]] = []
    while order:
        longest: dict[int, list[int]] = {}  # that ends with p
        for p in order:
            before = (longest[q] for q in longest if below[q, p])
            longest[p] = [*max(before, key=len, default=[]), p]
        found.append(max(longest.values(), key=len))
        order = [p for p in order if p not in found[-1]]
    return found
