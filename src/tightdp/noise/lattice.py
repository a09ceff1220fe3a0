r"""Exact K-norm noise on the integer lattice: integers from the random bits to the released value.

For a body B with integer levels (:mod:`~tightdp.noise.lattice_bodies`) and a rational rate eta, the
noise has the law :math:`P(z) \propto e^{-\eta\,\mathrm{level}(z)}`. The sampler draws a level j as
a sum of r + 1 exact geometrics, asks the body for a point of j B, and **starts again from a new
level** whenever it gets none. Then

.. math:: P(j, z) \propto \binom{j+r}{r} q^j \cdot \frac{1}{(j+1)\cdots(j+r)}\,1[z \in jB]
    \propto q^j\,1[z \in jB], \qquad q = e^{-\eta},

and summing over :math:`j \ge \mathrm{level}(z)` gives :math:`q^{\mathrm{level}(z)}`. Drawing only
the point again and keeping the level would not have this law and would not be private.
"""

from __future__ import annotations

from collections.abc import Callable
from fractions import Fraction
from typing import Any

import numpy as np

from tightdp.errors import check_count, fail
from tightdp.noise.lattice_bodies import (
    LEAST_SHARE,
    CountBody,
    DiamondBody,
    LatticeBody,
    RoundBody,
    SumBody,
    ceil_sqrt,
)
from tightdp.noise.lattice_points import Integers
from tightdp.noise.rates import check_epsilon, exact_fraction, rate
from tightdp.noise.words import discrete_laplaces, geometric_sums, geometrics
from tightdp.privacy import Numerics
from tightdp.randomness import RandomSource, source

_MOST_CELLS = 1 << 21
# 577/408 exceeds the square root of 2 by less than two millionths: |x| + |y| <= c |(x, y)|.
_ROOT_TOP, _ROOT_BOTTOM = 577, 408
_COARSE = Fraction(1, 8)  # halving loses a factor exp(-2 eta / c) a time, nothing at fine rates


class LatticeNoise:
    r"""Exact noise :math:`P(z) \propto \exp(-\epsilon f(\mathrm{level}(z)/L))` on integer vectors.

    where:

    - :math:`\epsilon` is ``epsilon``, an exact rational,
    - level is the level of ``body``,
    - :math:`L` is ``sensitivity``: neighbours differ by an integer vector of level at most L,
    - :math:`f(r) = r`, or with ``staircase=g`` the staircase :math:`f(r) = \lceil r - g \rceil`.

    **Privacy.**
    Statement: adding z to an integer statistic t(X) is epsilon-DP for the relation under which
    level(t(X) - t(X')) <= L.
    Needs: [P1] that bound on levels; [P2] t(X) is an integer vector (in the span of a flat body);
    [P3] the sampler has the stated law; [P4] the random bits are uniform.
    Proof: the normaliser is a sum over the lattice and does not depend on t(X) [P2]. Levels are
    subadditive, being gauges rounded up, so level(z - t') <= level(z - t) + L [P1]; f is
    nondecreasing and f(r + 1) <= f(r) + 1, so log P changes by at most epsilon at every z [P3].
    Numerics: ``exact``; floats serve as filters with a proven margin only (see
    :mod:`~tightdp.noise.words`).

    Parameters
    ----------
    body : LatticeBody
        The shape.
    epsilon : float, Fraction or Decimal
        In [2**-40, 2**10].
    sensitivity : int
        The largest level of a difference of neighbours, >= 1.
    staircase : float or Fraction, optional
        The share g in [0, 1) of each step that belongs to the lower level.

    Examples
    --------
    >>> from tightdp.noise.lattice_bodies import DiamondBody
    >>> noise = LatticeNoise(DiamondBody(3), epsilon=1.0, sensitivity=2)
    >>> noise.sample(5, rng=1).dtype, noise.sample(5, rng=1).shape
    (dtype('int64'), (5, 3))
    """

    numerics = Numerics.EXACT

    def __init__(
        self, body: LatticeBody, epsilon: Any, sensitivity: int, *, staircase: Any = None
    ) -> None:
        if not isinstance(body, LatticeBody):
            fail(f"`body` must be a LatticeBody. Got {type(body).__name__}.")
        self.body = body
        self.epsilon = check_epsilon(epsilon)
        self.sensitivity = check_count("sensitivity", sensitivity)
        self.staircase = _check_staircase(staircase, self.sensitivity)
        self._num, self._den = rate(self.epsilon, self.sensitivity)

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.body.dim

    @property
    def rate(self) -> Fraction:
        """The rate eta = epsilon / L, never above it."""
        return Fraction(self._num, self._den)

    def exponent(self, z: Integers) -> Integers:
        """Integers e(z) such that P(z) is proportional to ``exp(-unit * e(z))``.

        ``unit`` is the rate, or epsilon for a staircase.
        """
        level = self.body.level(np.atleast_2d(z))
        if self.staircase is None:
            return level
        return np.maximum(-(-(level - self.staircase) // self.sensitivity), 0)

    @property
    def unit(self) -> Fraction:
        """Size of one unit of :meth:`exponent`."""
        return self.rate if self.staircase is None else self.rate * self.sensitivity

    def sample(self, size: int | None = None, *, rng: Any = None) -> Integers:
        """Integer noise vectors: one, or ``size`` rows; int64, or Python integers if need be."""
        count, bits = 1 if size is None else check_count("size", size, least=0), source(rng)
        draw = _sampler(self.body, self.rate)
        if self.staircase is None:
            out = draw(self.body, self._num, self._den, count, bits)
        else:
            out = self._staircase_sample(draw, count, bits)
        return out[0] if size is None else out

    def _staircase_sample(self, draw: Sampler, count: int, rng: RandomSource) -> Integers:
        # Keep a K-norm draw of level l with probability exp(-eta (L f - l + C)), C = floor(g L):
        # the exponent is >= 0 since L f >= l - C, and what is kept has weight exp(-epsilon f).
        def propose(n: int) -> Integers:
            z = draw(self.body, self._num, self._den, n, rng)
            level = self.body.level(z)
            step = np.maximum(-(-(level - self.staircase) // self.sensitivity), 0)
            excess = self.sensitivity * step - level + self.staircase
            return z[geometrics(self._num, self._den, len(z), rng) >= excess]

        return _collect(propose, count, self.dim, 0.3)

    def __repr__(self) -> str:
        shape = "" if self.staircase is None else ", staircase"
        return (
            f"LatticeNoise({self.body!r}, epsilon={float(self.epsilon):g}, "
            f"sensitivity={self.sensitivity}{shape})"
        )


Sampler = Callable[[LatticeBody, int, int, int, RandomSource], Integers]


# --- samplers: each has the law q^level(z), q = exp(-num/den) ------------------------------------


def _restart(body: LatticeBody, num: int, den: int, size: int, rng: RandomSource) -> Integers:
    """The sampler of the module: a level, a point, or all over again."""
    body.check_feasible()

    def propose(n: int) -> Integers:
        levels = geometric_sums(body.rank + 1, num, den, n, rng)
        if levels.size == 0 or int(levels.max()) < body.safe_level:
            return body.propose(levels, 0, rng)[0]
        # Rows beyond the safe range go on in Python integers, with the level they have drawn.
        high = np.array([int(level) >= body.safe_level for level in levels])
        low, high = np.flatnonzero(~high), np.flatnonzero(high)
        low_points, low_rows = body.propose(levels[low].astype(np.int64), 0, rng)
        high_points, high_rows = body.propose(levels[high].astype(object), 0, rng)
        # In the order they were drawn: the caller keeps the first ones, whatever their level.
        order = np.argsort(np.concatenate([low[low_rows], high[high_rows]]))
        return np.vstack([low_points.astype(object), high_points])[order]

    return _collect(propose, size, body.dim, body.share)


def _independent(body: LatticeBody, num: int, den: int, size: int, rng: RandomSource) -> Integers:
    """l1: the law factorises into independent discrete Laplace variables."""
    return discrete_laplaces(num, den, (size, body.dim), rng)


def _under_diamond(bound: int) -> Sampler:
    """Bodies with level >= sum |z| / k: thin independent discrete Laplace noise of rate eta / k."""

    def draw(body: LatticeBody, num: int, den: int, size: int, rng: RandomSource) -> Integers:
        def propose(n: int) -> Integers:
            z = discrete_laplaces(num, den * bound, (n, body.dim), rng)
            excess = bound * body.level(z) - np.abs(z).sum(axis=1)
            return z[geometrics(num, den * bound, n, rng) >= excess]

        return _collect(propose, size, body.dim, 0.5)

    return draw


def _round(body: LatticeBody, num: int, den: int, size: int, rng: RandomSource) -> Integers:
    r"""l2 by halves: :math:`\lceil|x|\rceil + \lceil|y|\rceil \le c\,\lceil|(x,y)|\rceil + 2`.

    Two exact draws of half the dimension at rate eta/c, c >= sqrt(2), are kept with probability
    :math:`\exp\{-\eta(\lceil|(x,y)|\rceil - (\lceil|x|\rceil + \lceil|y|\rceil - 2)/c)\}`. About
    0.72 of the pairs survive at every halving, so the cost grows like dim^1.5, not exponentially.
    """
    return _round_block(body.dim, num, den, size, rng)


def _round_block(dim: int, num: int, den: int, size: int, rng: RandomSource) -> Integers:
    if dim == 1:
        return discrete_laplaces(num, den, (size, 1), rng)
    half = dim // 2

    def propose(n: int) -> Integers:
        x = _round_block(half, num * _ROOT_BOTTOM, den * _ROOT_TOP, n, rng)
        y = _round_block(dim - half, num * _ROOT_BOTTOM, den * _ROOT_TOP, n, rng)
        if max(int(np.abs(x).max(initial=0)), int(np.abs(y).max(initial=0))) >= 1 << 27:
            x, y = x.astype(object), y.astype(object)
        squares = [(part * part).sum(axis=1) for part in (x, y)]
        parts = ceil_sqrt(squares[0]) + ceil_sqrt(squares[1])
        whole = ceil_sqrt(squares[0] + squares[1])
        excess = _ROOT_TOP * whole - _ROOT_BOTTOM * (parts - 2)
        keep = geometrics(num, den * _ROOT_TOP, n, rng) >= excess
        return np.hstack([x[keep], y[keep]])

    return _collect(propose, size, dim, 0.6)


def _sampler(body: LatticeBody, rate: Fraction) -> Sampler:
    """The fastest sampler of the law: special to the body, or restarting."""
    if isinstance(body, DiamondBody):
        return _independent
    if isinstance(body, RoundBody) and (rate < _COARSE or body.share < LEAST_SHARE):
        return _round
    if isinstance(body, (SumBody, CountBody)) and body.share < 0.2:
        return _under_diamond(body.bound)
    return _restart


def _collect(propose: Callable[[int], Integers], size: int, dim: int, share: float) -> Integers:
    """Accepted proposals until there are ``size``; ``share`` only sets the batch size.

    Batches are cut by a fixed number of rows, never by what came out of them, and the first
    ``size`` accepted rows are returned, so the law of a row is that of an accepted proposal.
    """
    found: list[Integers] = []
    missing = size
    while missing > 0:
        batch = int(missing / max(share, LEAST_SHARE) * 1.05) + 8
        kept = propose(min(batch, max(1024, _MOST_CELLS // dim)))[:missing]
        found.append(kept)
        missing -= len(kept)
    if not found:
        return np.empty((0, dim), dtype=np.int64)
    wide = any(block.dtype == object for block in found)
    return np.vstack([block.astype(object) if wide else block for block in found])


def _check_staircase(staircase: Any, sensitivity: int) -> int | None:
    if staircase is None:
        return None
    share = exact_fraction("staircase", staircase)
    if not 0 <= share < 1:
        fail(f"`staircase` must lie in [0, 1). Got {staircase}.")
    return int(share * sensitivity)
