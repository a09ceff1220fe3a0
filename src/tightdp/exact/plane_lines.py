r"""Exact draws of planes by going through all lines of their lattice: work known beforehand.

Cutting boxes (:mod:`tightdp.exact.box_sampling`) is quick where the law is smooth. Where the
least levels lie on thin sets, as with few distinct rows, it may have to cut down to single points,
of which there are more than anybody can wait for. Here the slopes run through all their lattice
points, and along the line of the first coefficient the levels are constant between at most as many
places as there are distinct rows: a number of steps that public facts bound.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from fractions import Fraction
from typing import TYPE_CHECKING

import numpy as np

from tightdp.errors import FloatArray, Integers
from tightdp.exact.box_sampling import Point
from tightdp.exact.enclosures import exp_up
from tightdp.exact.rejection import choose, keeps, until_accepted
from tightdp.randomness import RandomSource

if TYPE_CHECKING:
    from tightdp.exact.quantile_levels import QuantileLevels

MOST_STEPS = 1 << 30  # lines times rows: minutes, at worst
MOST_LINES = 600_000  # seconds for few distinct rows
_CHUNK = 1 << 18  # cells of a table of lines by rows


def line_count(edge: int, slopes: int, within: bool) -> int:
    """Lattice points of the slopes: of a cube, or ``within`` the sum of sizes ``edge``.

    >>> line_count(2, 2, within=False), line_count(2, 2, within=True), line_count(9, 0, within=True)
    (25, 13, 1)
    """
    if not within:
        return int((2 * edge + 1) ** slopes)
    return sum(2**i * math.comb(slopes, i) * math.comb(edge, i) for i in range(slopes + 1))


class LineLaw:
    r"""The law :math:`P(z) \propto e^{-r k(z)}` on planes, by sums over all lines.

    Floats propose: a line, a piece of it and a uniform point of the piece, each with integer
    weights, so that the probability of the proposal is known exactly. It is kept with probability
    (weight) / (probability) / (a bound of this ratio), a coin settled by enclosures. Were the
    floats exact, the ratio would be the sum of all weights; the bound is that sum, raised by more
    than roundings can amount to. What is kept has the law, whatever the floats, and nearly all is.

    Parameters
    ----------
    levels : QuantileLevels
    rate : Fraction
    """

    def __init__(self, levels: QuantileLevels, rate: Fraction) -> None:
        self.levels, self.rate, self._slope = levels, rate, float(rate)
        self.edge, self._slopes = levels.high[0], len(levels.high) - 1
        found = [self._weigh(part) for part in self._chunks()]
        least = min(low for _, low in found)
        # an integer that no level is below: levels are integers, and floats nearly exact
        self._reference = max(0, math.floor(least * (1 - 2.0**-40)) - 1)
        self._lines = np.concatenate([logs for logs, _ in found]) + self._slope * self._reference
        top = float(self._lines.max())
        total = top + math.log(float(np.exp(np.maximum(self._lines - top, -700.0)).sum()))
        spread = self._slope * (float(np.max(levels.norm_range())) + 1.0) + 64.0
        self._bound = exp_up(total + 2.0**-10 + spread * 2.0**-40)

    # --- lines --------------------------------------------------------------------------------

    def _chunks(self) -> Iterator[Integers]:
        """Numbers of lines, a few at a time."""
        count = (2 * self.edge + 1) ** self._slopes
        step = max(1, _CHUNK // (self.levels.distinct + 1))
        return (np.arange(at, min(at + step, count)) for at in range(0, count, step))

    def _at(self, numbers: Integers) -> Integers:
        """The slopes of lines, shape (lines, d - 1)."""
        side, out = 2 * self.edge + 1, np.empty((len(numbers), self._slopes), dtype=np.int64)
        for j in range(self._slopes):
            out[:, j] = numbers % side - self.edge
            numbers = numbers // side
        return out

    def _weigh(self, numbers: Integers) -> tuple[FloatArray, float]:
        """Log weights of lines, -inf for those outside, and their least level."""
        slopes, out = self._at(numbers), np.full(len(numbers), -np.inf)
        inside = np.abs(slopes).sum(axis=1) <= (self.levels.radius or np.inf)
        if not inside.any():
            return out, math.inf
        out[inside], least = self._weigh_inside(slopes[inside])
        return out, least

    def _weigh_inside(self, slopes: Integers) -> tuple[FloatArray, float]:
        lengths, norms, _ = self._pieces(slopes)
        with np.errstate(divide="ignore"):
            logs = np.log(lengths) - self._slope * norms
        least = np.where(lengths > 0, norms, np.inf).min()
        top = logs.max(axis=1)
        shift = np.where(np.isfinite(top), top, 0.0)
        with np.errstate(divide="ignore"):
            return np.log(np.exp(logs - shift[:, None]).sum(axis=1)) + shift, float(least)

    def _pieces(self, slopes: Integers) -> tuple[FloatArray, FloatArray, Integers]:
        """Lengths, norms and first points of the pieces of lines, shapes (lines, rows + 1)."""
        room = np.full(len(slopes), self.edge)
        if self.levels.radius is not None:
            room = self.levels.radius - np.abs(slopes).sum(axis=1)
        low, high = -room, room + 1
        switches, change, start = self.levels.switches(slopes)
        places = np.clip(switches, low[:, None], high[:, None])
        order = np.argsort(places, axis=1)
        places = np.take_along_axis(places, order, axis=1)
        starts = np.concatenate([low[:, None], places], axis=1)
        lengths = np.diff(starts, axis=1, append=high[:, None])
        sums = np.cumsum(
            np.concatenate([start[:, :, None], change[:, order]], axis=2), axis=2
        )  # (d, lines, rows + 1)
        return lengths.astype(np.float64), self.levels.norms(sums), starts

    # --- draws --------------------------------------------------------------------------------

    def draw(self, rng: RandomSource) -> Point:
        """One lattice point."""
        return until_accepted(lambda: self._trial(rng))

    def _trial(self, rng: RandomSource) -> Point | None:
        line, lines, weight = choose(self._lines, rng)
        slopes = self._at(np.array([line]))
        lengths, norms, starts = (part[0] for part in self._pieces(slopes))
        with np.errstate(divide="ignore"):
            logs = np.log(lengths) - self._slope * (norms - self._reference)
        piece, pieces, own = choose(logs, rng)
        length = int(lengths[piece])
        point = (int(starts[piece]) + rng.below(length), *slopes[0].tolist())
        x = self.rate * (self.levels.level(point) - self._reference)
        kept = keeps(x, lines * pieces * length, weight * own, self._bound, rng)
        return point if kept else None
