r"""The l2 mechanism on integers: noise in the shape of a round ball, read at delta > 0."""

from __future__ import annotations

import hashlib
import math
from collections.abc import Sequence
from fractions import Fraction
from functools import lru_cache
from typing import Any

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.accounting.conversions import root_up
from tightdp.data.statistics import Statistic
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    UndecidedError,
    WideIntegers,
    fail,
)
from tightdp.exact.lattice_bodies import RoundBody
from tightdp.exact.lattice_body import roomy
from tightdp.noise.l2_curve import l2_delta, l2_scale
from tightdp.noise.lattice import level_sampler
from tightdp.privacy import check_epsilon
from tightdp.randomness import RandomLike, source
from tightdp.shaping.coordinate_noise import check_share, float_down
from tightdp.shaping.l2_moves import L2Moves, RoundNoise
from tightdp.shaping.reach import is_whole, upwards
from tightdp.shaping.stated_errors import Wishes

_FINE = 1 << 15  # how often the price of the lattice, 2 kappa, goes into epsilon
_ROOT = 129  # the smallest root of a weight, where they differ: odd, and hardly moved to be
_MOST_DIM = 1024  # draws of longer vectors take seconds
_SHARES = 4096  # of the law of one entry of a direction
_COARSE, _MOST_STEPS = 9.0, 400  # variance in steps below which tails are summed; how many
_LEAST_VARIANCE = 1e-40  # what little noise leaves is noise, but no double
_FARTHEST = 40.0  # the last of them has the chance 2**-40


class L2Noise(RoundNoise):
    r"""Integers near :math:`V \in R^m` with density :math:`\propto e^{-|V|/s}`, for the entries.

    Entry j of the statistic t is multiplied by an odd integer :math:`n_j`, integers z with
    :math:`P(z) \propto e^{-\eta\lceil|z|\rceil}` are added, and what comes out is divided by
    :math:`n_j` and rounded.

    **Privacy.**
    Statement: the release is (epsilon, delta)-DP.
    Needs: [P1] :math:`\sum_j n_j^2 d_j^2 \le D^2` for the moves d of a person, an integer
    (:class:`~tightdp.shaping.l2_moves.L2Moves`); [P2] with :math:`\kappa = \eta(1 + \sqrt m)`,
    :math:`e^{\kappa}\,\delta_c(\epsilon - 2\kappa) \le \delta`, :math:`\delta_c` the curve of the
    continuous law for moves of length 1 and the scale :math:`1/(\eta D)`
    (:func:`~tightdp.noise.l2_curve.l2_delta`, an upper bound); [P3] exact draws
    (:func:`~tightdp.noise.lattice.level_sampler`).
    Proof: 1. Let Q be the law of V, with density :math:`\propto e^{-\eta|v|}`, rounded to integers.
    :math:`n \circ t + \mathrm{round}(V)` is :math:`n \circ t + V`, rounded: a function of the
    continuous mechanism, so that its losses are at most :math:`\delta_c`; moves shorter than D lose
    less. 2. In the cell of z, :math:`|v|` is within :math:`\sqrt m/2` of :math:`|z|`, and
    :math:`\lceil|z|\rceil` exceeds :math:`|z|` by less than 1: weights of z under P and Q are
    within factors :math:`e^{-\eta(1 + \sqrt m/2)}` and :math:`e^{\eta\sqrt m/2}`, normalisers too,
    and so :math:`e^{-\kappa} \le P(z)/Q(z) \le e^{\kappa}`. 3. For neighbours and any event,
    :math:`P - e^\epsilon P' \le e^\kappa(Q - e^{\epsilon - 2\kappa} Q') \le
    e^\kappa\,\delta_c(\epsilon - 2\kappa)`. 4. Dividing by :math:`n_j` and rounding is a function
    of what was released; t being an integer, it adds round(z / n) to t. Numerics: ``exact``
    sampler; the rational :math:`\eta` is found with floats and checked [P2].
    """

    def __init__(
        self,
        statistic: Statistic,
        epsilon: Number | None,
        delta: Number,
        wishes: Wishes | None = None,
    ) -> None:
        self._wishes = Wishes() if wishes is None else wishes
        self.statistic, self.bits = statistic, statistic.schema.bits
        self.epsilon, self.delta = check_epsilon(epsilon), check_share(delta)
        dim = len(statistic)
        if dim > _MOST_DIM:
            fail(
                f"`noise` = 'l2' with a delta is for at most {_MOST_DIM} entries. Got {dim}: use "
                "noise='gaussian'.",
                InfeasibleSamplingError,
            )
        at, spare = float_down(self.epsilon), float_down(self.delta)
        scale = l2_scale(dim, at, spare)
        self.moves, self.roots = self._lattice(scale, at)
        price = (1 + math.sqrt(dim)) / (scale * math.sqrt(self.moves.square))
        scale = l2_scale(dim, at - 2.1 * price, spare * math.exp(-1.1 * price))
        self.rate = _rate(self.moves.square, scale)
        price = float(self.rate) * (1 + math.sqrt(dim)) * (1 + 2.0**-40)  # kappa
        lost = l2_delta(dim, (at - 2 * price) * (1 - 2.0**-50), scale)
        if not lost * math.exp(price) * (1 + 2.0**-50) <= spare:  # [P2]
            fail(
                "`delta` is too small for the l2 mechanism to gain from it: use noise='l2' with "
                "delta = 0.",
                UndecidedError,
            )
        self._price = price
        self.resolution = statistic.resolution(self.bits)
        self._draw = level_sampler(RoundBody(dim), self.rate)  # [P3]

    def _lattice(self, scale: float, epsilon: float) -> tuple[L2Moves, tuple[int, ...]]:
        """Multiples of the entries, so that the price of the lattice is small."""
        weights = self._wishes.lattice_weights(self.statistic, self.bits)
        least = math.isqrt(min(weights))
        roots = [max(1, round(_ROOT * math.isqrt(w) / least)) for w in weights]
        if len(set(weights)) == 1:
            roots = [1] * len(weights)
        square = L2Moves.of(self.statistic, self.bits, [root**2 for root in roots]).square
        needed = (1 + math.sqrt(len(weights))) * _FINE / (scale * epsilon)
        finer = max(1, math.ceil(needed / math.sqrt(square)))
        odd = tuple(finer * root | 1 for root in roots)
        return L2Moves.of(self.statistic, self.bits, [root**2 for root in odd]), odd  # [P1]

    @property
    def cost(self) -> Cost:
        """What the noise costs in every unit of privacy."""
        return Cost.of(self.epsilon, self.delta)

    # --- the law --------------------------------------------------------------------------------

    @property
    def words(self) -> str:
        """The exact law, for people."""
        kinds = set(self.roots)
        whole = f"z / {self.roots[0]} rounded" if len(kinds) == 1 else "z / n rounded, n by entry"
        shown = "z" if kinds == {1} else whole
        mark = hashlib.sha256(repr(self.roots).encode()).hexdigest()[:8]
        tail = "" if len(kinds) == 1 else f" ({mark})"
        return (
            f"integers {shown}{tail}, z with weight exp(-{self.rate} * ceil(|z|)) in the l2 norm, "
            f"in units of 1/{self.resolution}"
        )

    @property
    def draws(self) -> L2Noise:
        return self

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> Any:
        """Draws: a vector of integers, or ``size`` rows of them."""
        z = rounded(self._draw(1 if size is None else size, source(rng)), self.roots)
        return z[0] if size is None else z

    def covariance(self) -> FloatArray:
        """Covariance of the noise on the scaled statistic."""
        dim, rate = len(self.roots), float(self.rate)
        known = {root: rounded_variance(dim, rate, root) for root in set(self.roots)}
        return np.diag([known[root] for root in self.roots]) / float(self.resolution) ** 2

    def reach(self, linear: FloatArray, confidence: float) -> FloatArray:
        """Half-widths that hold at once for all entries of the linear image of the noise.

        The chance to miss is shared out evenly among the rows, and smaller by what the lattice may
        add to it.
        """
        miss = (1 - confidence) / max(1, len(linear)) * math.exp(-self._price)
        half = round_reach(linear, self.roots, float(self.rate), miss)
        return upwards(half / self.resolution, whole=is_whole(linear, self.resolution))


def rounded(z: WideIntegers, roots: Sequence[int]) -> WideIntegers:
    """Integers next to z / n, for an odd n in every column.

    >>> rounded(np.array([[4, -5]]), (3, 9))
    array([[ 1, -1]])
    """
    if set(roots) == {1}:
        return z
    widest = max(roots)
    wide = roomy(z, (1 << 61) // 2 - widest) if widest < 1 << 60 else z.astype(object)
    odd = np.array(roots, dtype=wide.dtype)
    return np.asarray((2 * wide + odd) // (2 * odd))  # n is odd: there are no ties


@lru_cache(maxsize=1024)
def rounded_variance(dim: int, rate: float, root: int) -> float:
    """Of an entry of z / n, rounded: (m + 1) / (n rate)^2, and 1/12 for rounding.

    Where a step is not small beside the noise, E Z^2 is the sum of (2k - 1) P(|Z| >= k), a little
    too large; never 0.
    """
    each = (dim + 1) / rate**2
    if root == 1 or each >= _COARSE * root**2:
        return each / root**2 + (root > 1) / 12
    chance, sizes = _shares(dim)
    # |V| is Gamma(m), which is beyond this length less often than one in 10^20
    last = (2 * dim + 12 * math.sqrt(dim) + 60) / (root * rate)
    steps = np.arange(1, min(_MOST_STEPS, math.ceil(last) + 8) + 1)
    reach = (steps - 0.5) * root * rate
    tails = scipy.special.gammaincc(dim, reach[:, None] / sizes) @ chance
    return max(float(tails @ (2 * steps - 1)), _LEAST_VARIANCE)


def round_reach(linear: FloatArray, roots: Sequence[int], rate: float, miss: float) -> FloatArray:
    """Half-widths of sums of entries of z / n, rounded, each missed with at most this chance.

    A linear form of V is its length times |V| times one entry of a uniform direction.
    """
    odd = np.array(roots, dtype=np.float64)
    forms = np.abs(linear) / odd
    length = np.sqrt((forms**2).sum(axis=1))
    half = length * one_entry_reach(len(odd), miss) / rate
    return np.asarray(half + forms.sum(axis=1) / 2 + (np.abs(linear) @ (odd > 1)) / 2)


def _rate(square: int, scale: float) -> Fraction:
    """A rational eta with 1 / (eta D) >= scale, some 60 bits long."""
    most = 1 / (Fraction(scale) * root_up(Fraction(square), 64))
    places = 60 + most.denominator.bit_length() - most.numerator.bit_length()
    return Fraction(math.floor(most * (1 << places)), 1 << places)


def _shares(dim: int) -> tuple[FloatArray, FloatArray]:
    """Chances of shares of the size of one entry of a direction, and their upper ends."""
    beyond = 2.0 ** -np.linspace(0, _FARTHEST, _SHARES)
    chance = np.append(beyond[:-1] - beyond[1:], beyond[-1])
    if dim == 1:
        return chance, np.ones(len(chance))
    # 1 - U_1^2 is Beta((m - 1)/2, 1/2)
    ends = scipy.special.betaincinv((dim - 1) / 2, 0.5, beyond[1:])
    sizes = np.append(np.sqrt(np.maximum(1 - ends, 0.0)) * (1 + 1e-12), 1.0)
    return chance, np.maximum(sizes, 1e-300)


def one_entry_reach(dim: int, miss: float) -> float:
    r"""A t with :math:`P(|V_1| > t) \le` ``miss`` for the density :math:`\propto e^{-|v|}`.

    The size of an entry of a uniform direction is cut into shares, more of them where it is large,
    each of which is counted at its upper end.

    >>> 3.0 <= one_entry_reach(1, math.exp(-3)) < 3.01
    True
    """
    chance, sizes = _shares(dim)
    low, high = 0.0, 4.0 * dim - 4 * math.log(miss) + 4
    for _ in range(50):
        middle = (low + high) / 2
        if chance @ scipy.special.gammaincc(dim, middle / sizes) > miss:
            low = middle
        else:
            high = middle
    return high
