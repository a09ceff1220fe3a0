"""How far the geometric median of the rows can be from a public point, privately."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np

from tightdp.data.blocks import exact_gram
from tightdp.errors import (
    Integers,
    check_count,
)
from tightdp.mechanisms.ranks import Ranks
from tightdp.noise.lattice_laws import Geometric
from tightdp.randomness import RandomSource

SHARES = Fraction(1, 8), Fraction(11, 16), Fraction(3, 16)  # of epsilon: reach, gradient, spread
_TAU = Fraction(2, 3)  # so many rows shall lie within reach
_DOUBLE = 53  # integers up to 2**53 are doubles
_PER_ROW = 16  # steps per row in which gradient and spread are counted


class MedianRadius:
    r"""Releases a radius around a public point t that holds the geometric median m of the rows.

    Three numbers are released: a reach R, near the distance within which two thirds of the rows
    lie; the length G of the least subgradient of :math:`\sum_i |t - x_i|` at t; and the spread
    :math:`L = (\mathrm{tr}\,S - |S|_8)/R^2`,
    :math:`S = \sum_{|x_i - t| \le R} (x_i - t)(x_i - t)^T`,
    :math:`|S|_8 = (\mathrm{tr}\,S^8)^{1/8}`.

    The radius: on the line from t in direction v, row i adds the curvature
    :math:`\rho_i^2/D^3`, :math:`\rho_i` its distance from the line and D from the place, at most
    R + s at length s for a row within R. As :math:`\sum \rho_i^2 \ge \mathrm{tr}\,S -
    \lambda_{\max}(S) \ge L R^2`, the slope at length uR is at least
    :math:`-G + \int_0^u L (1+t)^{-3} dt = -G + \frac L2 (1 - (1+u)^{-2})`. Beyond the first u at
    which this is positive the sum of distances, being convex, grows, so m is not there. If there is
    no such u, nothing is known.

    **Privacy.**
    Statement: the three numbers are epsilon-DP given t, whatever t.
    Needs: [P1] the rows are quantised; t is public.
    Proof: 1. R is the exponential mechanism on ranks of distances
    (:class:`~tightdp.KNormQuantile`). 2. G moves by at most 1 for a row added or removed, 2 for one
    replaced. 3. A row within R adds :math:`a = |x - t|^2 \le R^2` to the trace and between 0 and a
    to the norm (eigenvalues grow, and the triangle inequality): L moves by 0 to 1 for a row added,
    by at most 1 for one replaced. Both are rounded to sixteenths after the division, which keeps
    these bounds, and get two-sided geometric noise. 4. The three epsilons add; the second and third
    use the first (adaptive composition).
    Numerics: ``exact``.

    Parameters
    ----------
    epsilon : Fraction
    replaced : bool
        Whether neighbours replace a row, or add or remove one.
    persons : int
        Rows of one person.
    dim : int
        Number of columns.
    bits : int
        Gaps are at most 2**bits in size; so much that squared distances are doubles.
    """

    def __init__(
        self, epsilon: Fraction, *, replaced: bool, persons: int, dim: int, bits: int
    ) -> None:
        check_count("bits", bits, most=(_DOUBLE - dim.bit_length()) // 2)
        self._bits, self._edge = bits, 1 << (bits + dim.bit_length())
        reach, gradient, spread = (share * epsilon for share in SHARES)
        ranks = Fraction(1) if replaced else persons * max(_TAU, 1 - _TAU)
        self._rate = reach / (2 * ranks)
        moves = 2 if replaced else persons
        self._gradient = Geometric(epsilon=gradient, sensitivity=moves * _PER_ROW)
        self._spread = Geometric(epsilon=spread, sensitivity=persons * _PER_ROW)

    def draw(
        self, gaps: Integers, level: Fraction, slack: float, miss: float, rng: RandomSource
    ) -> float:
        """The radius, in units of the gaps, or infinity; it fails with probability ``miss``.

        Parameters
        ----------
        gaps : integers, shape (d, n)
            Rows minus the point.
        level : Fraction
            The least subgradient at the point, in rows; a multiple of 1 is what a row can change.
        slack : float
            What rounding can have taken off the level.
        """
        squares = (gaps * gaps).sum(axis=0)
        reach = self._reach(squares, rng)
        near = gaps[:, squares <= reach * reach]
        noises = [int(law.sample(1, rng=rng)[0]) for law in (self._gradient, self._spread)]
        slope = math.floor(level * _PER_ROW) + noises[0]
        bent = _spread(near, self._bits) * _PER_ROW // (reach * reach) + noises[1]
        most = (slope + 1 + _tail(self._gradient, miss / 2)) / _PER_ROW + slack
        least = (bent - _tail(self._spread, miss / 2)) / _PER_ROW
        return reach * _first_rise(max(most, 0.0), least)

    def _reach(self, squares: Integers, rng: RandomSource) -> int:
        distances = np.sqrt(squares.astype(np.float64)).astype(np.int64)
        ranks = Ranks(*np.unique(distances, return_counts=True), self._edge)
        return max(1, ranks.law(ranks.rows * _TAU, self._rate).draw(rng))


def _spread(gaps: Integers, bits: int) -> int:
    """tr S less the eighth root of tr S^8, rounded down, for any number of gaps up to 2**bits."""
    total = [[int(v) for v in row] for row in exact_gram(gaps.T, bits)]
    power = total
    for _ in range(2):  # S^4
        power = [
            [sum(a * b for a, b in zip(row, column, strict=True)) for column in power]
            for row in power  # symmetric: rows are columns
        ]
    root = sum(v * v for row in power for v in row)
    for _ in range(3):
        root = math.isqrt(root - 1) + 1 if root else 0
    return sum(total[j][j] for j in range(len(total))) - root


def _tail(law: Geometric, miss: float) -> int:
    """x with P(Z > x) <= miss for the two-sided geometric law: e^{-ex}/(1 + e^e) at most."""
    return math.ceil(-math.log(miss) / float(Fraction(*law.rate)) * (1 + 1e-12))


def _first_rise(most: float, least: float) -> float:
    """The first u with least * (1 - (1 + u)^-2) / 2 >= most, rounded up; infinity if none."""
    if least <= 2 * most * (1 + 1e-9):
        return math.inf
    return math.expm1(-math.log1p(-2 * most * (1 + 1e-9) / least) / 2) * (1 + 1e-9)
