"""Tables of integer weights: exact shortfalls, exact draws on the integers."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import DimensionError, FloatArray, WideIntegers, check_count, fail
from tightdp.exact.discrete_draws import SAFE
from tightdp.exact.enclosures import exp_below
from tightdp.exact.rejection import by_weight
from tightdp.noise.law import LatticeLaw, check_shift
from tightdp.parameters import tells_arguments
from tightdp.privacy import check_epsilon, float_up
from tightdp.randomness import RandomSource

_WRITTEN_OUT = 1 << 20


def cell_shortfalls(table: Sequence[int], most: int, epsilon: Fraction) -> list[Fraction]:
    r"""For m = 1..most an upper bound of the shortfall of a shift by m cells, in both directions.

    :math:`V_m = \max_\pm \sum_i (p_i - e^{\epsilon} p_{i \mp m})_+` falls as :math:`e^\epsilon`
    grows, so a rational :math:`2^b/h \le e^{\epsilon}` bounds it from above; the rest is integers.

    >>> cell_shortfalls([1, 2, 1], 3, Fraction(1))
    [Fraction(1, 4), Fraction(3, 4), Fraction(1, 1)]
    """
    top, high = exp_below(epsilon)
    p = np.array([int(w) for w in table], dtype=object)
    weights, covering, total = p * high, p * top, high * int(p.sum())
    both = ([shifted_shortfall(weights, covering, s) for s in (m, -m)] for m in range(1, most + 1))
    return [Fraction(max(found), total) for found in both]


def shifted_shortfall(weights: WideIntegers, covering: WideIntegers, shift: int) -> int:
    """The sum of what weights exceed others by that are moved ``shift`` cells up.

    >>> shifted_shortfall(np.array([1, 2, 1]), np.array([1, 2, 1]), 1)
    2
    """
    left, first, last = weights.copy(), max(shift, 0), max(len(weights) + min(shift, 0), 0)
    left[first:last] -= covering[max(-shift, 0) :][: max(last - first, 0)]
    return int(np.maximum(left, 0).sum())


class CellWeights:
    """Integer weights of cells and of an atom at zero, with the shortfalls they imply."""

    weights: tuple[int, ...]
    start: int
    atom: int
    total: int
    _ask: Fraction

    def _take(self, weights: Sequence[int], start: int, atom: int, epsilon: Number) -> None:
        if len(weights) == 0:
            fail("`weights` must not be empty.", DimensionError)
        self.weights = tuple(check_count("weights", w, least=0) for w in weights)
        self.start = check_count("start", start, least=-(1 << 60), most=1 << 60)
        self.atom = check_count("atom", atom, least=0)
        self.total = sum(self.weights) + self.atom
        if sum(self.weights) == 0:
            fail("`weights` must not all be zero.")
        self._ask = check_epsilon(epsilon)

    def _bound(self, cells: int, epsilon: Fraction) -> Fraction:
        """The atom and the worst of the shifts by 1..cells cells."""
        share = Fraction(sum(self.weights), self.total)
        most = min(cells, len(self.weights))
        worst = max(cell_shortfalls(self.weights, most, epsilon))
        return Fraction(self.atom, self.total) + share * worst

    @property
    def _mark(self) -> str:
        """Tells tables apart where laws are named: in words, and in fingerprints of requests."""
        known = repr((self.weights, self.start, self.atom))
        return hashlib.sha256(known.encode()).hexdigest()[:12]

    def _float_weights(self) -> FloatArray:
        return np.array([w / self.total for w in self.weights])

    def _cumulated(self) -> FloatArray:
        """Probabilities of the first 0, 1, ... cells."""
        return np.append(0.0, np.cumsum(self._float_weights()))

    def _mass_of(self, cells: FloatArray) -> FloatArray:
        """Probabilities of cells by their indices, 0 where there is none."""
        place = cells - self.start
        inside = (place >= 0) & (place < len(self.weights))
        index = np.clip(place, 0, len(self.weights) - 1).astype(np.int64)
        return np.where(inside, self._float_weights()[index], 0.0)

    def _between(self, epsilon: float, cells: float) -> float:
        """The atom and the shortfall of a shift by a real number of cells: affine in between."""
        p, factor = self._float_weights(), math.exp(min(epsilon, 700.0))
        m, part = math.floor(cells), cells - math.floor(cells)

        def one_way(w: FloatArray) -> float:
            out = 0.0
            for step, share in ((m, 1 - part), (m + 1, part)):
                moved = np.zeros_like(w)
                if step < len(w):
                    moved[step:] = w[: len(w) - step]
                out += share * float(np.maximum(w - factor * moved, 0.0).sum())
            return out

        return self.atom / self.total + max(one_way(p), one_way(p[::-1]))


@tells_arguments
class TableNoise(LatticeLaw, CellWeights):
    r"""Integers drawn from a table of integer weights, each spread evenly over ``points`` points.

    Cell i has probability :math:`p_i` and holds the integers ir, ..., ir + r - 1 (r = ``points``);
    ``dithered`` adds an independent fair bit to a draw from a cell, which makes symmetric weights
    symmetric on the integers; the atom is 0 itself.

    **Privacy.**
    Statement: adding Z to an integer statistic that moves by at most L is (epsilon, delta)-DP with
    :math:`\delta = p_0 + \max_{1 \le m \le k} V_m`, :math:`k = \lceil L/r \rceil`, :math:`V_m` as
    in :class:`~tightdp.noise.piecewise.PiecewiseNoise`; :meth:`exact_delta` is a rational upper
    bound. With r = 1 and no dither the atom counts as weight at 0 and delta is that of the table.
    Needs: [P1] integers; [P2] the weights sum to the number below which the sampler draws.
    Proof: (1) With r integers a cell the argument of
    :class:`~tightdp.noise.piecewise.PiecewiseNoise` holds for t a multiple of 1/r. (2)
    Adding an independent bit is post-processing that commutes with shifts, so the shortfall of the
    cells does not grow. (3) :math:`(x + y)_+ \le x_+ + y_+` joins atom and cells.
    Numerics: ``exact``.
    References: as :class:`~tightdp.noise.piecewise.PiecewiseNoise`.

    Parameters
    ----------
    weights, start, atom, epsilon
        As in :class:`~tightdp.noise.piecewise.PiecewiseNoise`.
    points : int
        r >= 1.
    dithered : bool
    sensitivity : int
        L >= 1.

    Examples
    --------
    >>> law = TableNoise([1, 2, 4, 2, 1], start=-2, epsilon=0.75)
    >>> law.exact_delta(), law.pmf(0)
    (Fraction(1, 10), 0.4)
    """

    def __init__(
        self,
        weights: Sequence[int],
        *,
        start: int,
        epsilon: Number,
        sensitivity: int = 1,
        points: int = 1,
        dithered: bool = False,
        atom: int = 0,
    ) -> None:
        self._take(weights, start, atom, epsilon)
        self.epsilon = float(self._ask)
        self.points = check_count("points", points, most=1 << 40)
        self.dithered = bool(dithered)
        self.sensitivity = check_count("sensitivity", sensitivity, most=1 << 60)
        if self.atom and self.points == 1 and not self.dithered:
            self._fold_atom()

    def _fold_atom(self) -> None:
        if max(self.start, -self.start - len(self.weights)) > _WRITTEN_OUT:
            fail("`start` must put the weights within 2**20 of the atom at zero.")
        low, high = min(self.start, 0), max(self.start + len(self.weights), 1)
        table = [0] * (self.start - low) + list(self.weights)
        table += [0] * (high - low - len(table))
        table[-low] += self.atom
        self.weights, self.start, self.atom = tuple(table), low, 0

    def exact_delta(
        self, sensitivity: int | None = None, *, epsilon: Number | None = None
    ) -> Fraction:
        """The delta of the statement, as a rational that is never too small."""
        moved = self.sensitivity if sensitivity is None else check_count("sensitivity", sensitivity)
        asked = self._ask if epsilon is None else check_epsilon(epsilon)
        return self._bound(-(-int(moved) // self.points), asked)

    def _sample(self, count: int, bits: RandomSource) -> WideIntegers:
        cell = by_weight([*self.weights, self.atom], count, bits)  # past the last is the atom
        reach = (abs(self.start) + len(self.weights) + 1) * self.points
        first = (cell.astype(object) if reach >= SAFE else cell) + self.start
        z = first * self.points + bits.integers(self.points, count)
        if self.dithered:
            z = z + bits.integers(2, count)
        return np.where(cell == len(self.weights), 0, z)

    def _log_pmf(self, z: FloatArray) -> FloatArray:
        cells = self._mass_of(np.floor(z / self.points))
        if self.dithered:
            cells = (cells + self._mass_of(np.floor((z - 1) / self.points))) / 2
        with np.errstate(divide="ignore"):
            return np.log(cells / self.points + (self.atom / self.total) * (z == 0))

    def _cdf(self, x: FloatArray) -> FloatArray:
        z = np.floor(x)
        edges = self.points * (self.start + np.arange(len(self.weights) + 1.0))
        mass = self._cumulated()
        cells = np.interp(z + 1, edges, mass)
        if self.dithered:
            cells = (cells + np.interp(z, edges, mass)) / 2
        return np.minimum(cells + (self.atom / self.total) * (z >= 0), 1.0)

    def _at_least(self, k: FloatArray) -> FloatArray:
        return 1 - self._cdf(k - 1)

    def _quantile(self, p: FloatArray) -> FloatArray:
        low = np.full(p.shape, float(self.points * self.start - 1))
        high = np.full(p.shape, float(self.points * (self.start + len(self.weights)) + 1))
        low, high = np.minimum(low, -1.0), np.maximum(high, 0.0)
        while bool((high - low > 1).any()):
            middle = np.floor((low + high) / 2)
            enough = self._cdf(middle) >= p
            low, high = np.where(enough, low, middle), np.where(enough, middle, high)
        return high

    def _centres(self) -> FloatArray:
        """Means of the cells."""
        r = self.points
        first = r * (self.start + np.arange(float(len(self.weights))))
        return first + (r - 1) / 2 + (0.5 if self.dithered else 0.0)

    def mean(self) -> float:
        """E Z."""
        return float(np.sum(self._float_weights() * self._centres()))

    def _moment(self, p: int) -> float:
        centre = self._centres()
        if p == 2:
            spread = (self.points**2 - 1) / 12 + (0.25 if self.dithered else 0.0)
            return float(np.sum(self._float_weights() * (centre**2 + spread)))
        # A cell lies on one side of zero; a bit added to -1 gives 0, to the left of it cells end.
        return float(np.sum(self._float_weights() * np.abs(centre)))

    def _shortfall(self, epsilon: float, shift: float) -> float:
        moved = check_shift(shift)
        if moved == 0:
            return 0.0
        size = len(self.weights) * self.points + 2
        if size > _WRITTEN_OUT:
            return self._between(epsilon, moved / self.points)  # an upper bound, by the proof
        low = min(self.start * self.points, 0)
        high = max((self.start + len(self.weights)) * self.points + 1, 1)
        mass = np.asarray(self.pmf(np.arange(low, high)))
        if moved >= len(mass):
            return 1.0
        factor = math.exp(min(epsilon, 700.0))

        def one_way(w: FloatArray) -> float:
            return float(np.maximum(w[moved:] - factor * w[:-moved], 0).sum() + w[:moved].sum())

        return max(one_way(mass), one_way(mass[::-1]))

    def _worst_shortfall(self, epsilon: float, sensitivity: float) -> float:
        return float_up(self.exact_delta(int(sensitivity), epsilon=epsilon))

    def _natural(self, sensitivity: float) -> tuple[float, float]:
        return float_up(self._ask), float_up(self.exact_delta(int(sensitivity)))

    def _shown(self) -> dict[str, Any]:
        shape = {"cells": len(self.weights), "points": self.points, "dithered": self.dithered}
        return {**shape, "table": self._mark, **super()._shown()}
