"""Proposals for matrices with density exp(-norm): what they are made of, and thinning by trace."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray
from tightdp.exact.fixed_point import Fixed, UnsettledError
from tightdp.exact.undecided_normals import SPARE, Uniforms, normals
from tightdp.randomness import RandomSource

_UNIT = 2.0**-52


@dataclass(frozen=True, slots=True)
class Layout:
    """Where the exponentials and normals of a proposal go: k eigenvalues of one sign, l others."""

    k: int
    other: int

    @property
    def fixed_slots(self) -> list[int]:
        """Diagonals of P (0..k-1) and Q (k+1..) that the exponentials of any partition go to."""
        halves = [(j, self.k + 1 - j) for j in range(self.k)]
        halves += [(self.k + 1 + j, self.other + 1 - j) for j in range(self.other)]
        return [slot for slot, half in halves for _ in range(half // 2)]

    @property
    def squared(self) -> list[int]:
        """Diagonals that get half the square of a normal, too."""
        own = [j for j in range(self.k) if (self.k + 1 - j) % 2]
        return own + [self.k + 1 + j for j in range(self.other) if (self.other + 1 - j) % 2]

    @property
    def below(self) -> tuple[int, int]:
        """Number of entries below the diagonals of the two factors."""
        return self.k * (self.k - 1) // 2, self.other * (self.other - 1) // 2

    def slots(self, kappa: NDArray[np.int64]) -> NDArray[np.int64]:
        """Where the exponentials of each row go; k stands for the trace of Q."""
        free = self.k * self.other
        ends = np.cumsum(kappa, axis=1)
        flexible = (np.arange(free)[None, :, None] >= ends[:, None, :]).sum(axis=2)
        fixed = np.tile(np.array(self.fixed_slots, dtype=np.int64), (len(kappa), 1))
        return np.hstack([flexible, fixed])


@dataclass(frozen=True, slots=True, eq=False)
class Proposals:
    """Proposals of one layout: their uniforms, row by row."""

    layout: Layout
    kappa: NDArray[np.int64]
    exponentials: Uniforms
    normals: Uniforms
    coin: Uniforms

    @classmethod
    def draw(cls, layout: Layout, kappa: NDArray[np.int64], rng: RandomSource) -> Proposals:
        count = len(kappa)
        many = layout.k * layout.other + len(layout.fixed_slots)
        width = sum(layout.below) + len(layout.squared)
        drawn = normals(count * width, rng)
        shape = (len(drawn.words), count, width)
        return cls(
            layout,
            kappa,
            Uniforms.draw((count, many), rng),
            Uniforms(drawn.words.reshape(shape)),
            Uniforms.draw((count,), rng),
        )

    def row(self, i: int) -> Proposals:
        """One of them."""
        return self.rows(slice(i, i + 1))

    def rows(self, at: slice | NDArray[np.intp]) -> Proposals:
        """Some of them."""
        parts = (self.exponentials[at], self.normals[at], self.coin[at])
        return Proposals(self.layout, self.kappa[at], *parts)

    def longer(self, rng: RandomSource, depth: int) -> Proposals:
        """The same proposals, with so many words of every uniform known."""
        parts = (self.exponentials, self.normals, self.coin)
        return Proposals(self.layout, self.kappa, *(part.longer(rng, depth) for part in parts))

    @property
    def depth(self) -> int:
        return max(len(u.words) for u in (self.exponentials, self.normals, self.coin))


# --- thinning by trace, for replaced rows ---------------------------------------------------------


def thinned(proposals: Proposals, rng: RandomSource) -> tuple[NDArray[np.intp], Proposals]:
    r"""Places of proposals that are kept with probability :math:`e^{-|tr M|}`, and these.

    Each has an exponential of its own, which must be at least :math:`|tr P - tr Q|`: asked of
    doubles with bounds on their errors, and of more bits of all numbers where these leave it open.
    """
    coin = Uniforms.draw((len(proposals.kappa),), rng)
    trace, off = _traces(proposals)
    level, level_off = coin.minus_log()
    gap = level - np.abs(trace)
    doubt = off + level_off + 4 * _UNIT * (level + np.abs(trace))
    keep = gap > doubt
    for i in np.flatnonzero(~(np.abs(gap) > doubt)):
        keep[i], proposals, coin = _settled_trace(proposals, coin, int(i), rng)
    places = np.flatnonzero(keep)
    return places, proposals.rows(places)


def _signs(proposals: Proposals) -> tuple[NDArray[np.int64], NDArray[np.int64]]:
    """Whether exponentials, row by row, and half squares of normals count for P (1) or Q (-1)."""
    layout = proposals.layout
    first, second = layout.below
    own = np.array([1 if slot < layout.k else -1 for slot in layout.squared], dtype=np.int64)
    sides = np.concatenate([np.ones(first), -np.ones(second), own]).astype(np.int64)
    return np.where(layout.slots(proposals.kappa) < layout.k, 1, -1), sides


def _traces(proposals: Proposals) -> tuple[FloatArray, FloatArray]:
    """tr P - tr Q in doubles, and bounds on the errors: sums of exponentials and half squares."""
    with_sign, sides = _signs(proposals)
    y, y_off = proposals.exponentials.minus_log()
    x, x_off = proposals.normals.minus_log()
    trace = (with_sign * y).sum(axis=1) + (sides * x**2 / 2).sum(axis=1)
    size = y.sum(axis=1) + (x**2).sum(axis=1)
    off = y_off.sum(axis=1) + (x_off * (x + x_off)).sum(axis=1)
    return trace, off + (y.shape[1] + x.shape[1] + 8) * _UNIT * size


def _settled_trace(
    proposals: Proposals, coin: Uniforms, i: int, rng: RandomSource
) -> tuple[bool, Proposals, Uniforms]:
    """The answer for one proposal, and all of them with the bits that it took."""
    depth = max(proposals.depth, len(coin.words))
    while True:
        proposals, coin = proposals.longer(rng, depth), coin.longer(rng, depth)
        try:
            answer = _above_trace(proposals.row(i), coin[i : i + 1], 64 * depth + SPARE)
        except UnsettledError:
            depth += 1
        else:
            return answer, proposals, coin


def _above_trace(row: Proposals, coin: Uniforms, places: int) -> bool:
    """Whether -ln U is at least |tr P - tr Q|, in fixed point."""
    with_sign, sides = _signs(row)
    y = row.exponentials[0].exponentials(places)
    x = row.normals[0].exponentials(places)
    half = Fixed(np.array(1 << places - 1, dtype=object), 0, places)
    squares = x * x * half
    total = Fixed(y.middle * with_sign[0], y.error, places).sum()
    total = total + Fixed(squares.middle * sides, squares.error, places).sum()
    size = Fixed(abs(int(total.middle)), total.error, places)
    gap = coin.exponentials(places)[0] - size
    if abs(int(gap.middle)) <= gap.error:
        raise UnsettledError
    return int(gap.middle) > 0
