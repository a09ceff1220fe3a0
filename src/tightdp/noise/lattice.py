r"""Exact K-norm noise on the integer lattice: integers from the random bits to the released value.

For a body B with integer levels (:mod:`~tightdp.exact.lattice_body`) and a rational rate eta, the
noise has the law :math:`P(z) \propto e^{-\eta\,\mathrm{level}(z)}`. :func:`restart` draws a level j
as a sum of r + 1 exact geometrics, asks the body for a point of j B, and **starts again from a new
level** whenever it gets none. Then

.. math:: P(j, z) \propto \binom{j+r}{r} q^j \cdot \frac{1}{(j+1)\cdots(j+r)}\,1[z \in jB]
    \propto q^j\,1[z \in jB], \qquad q = e^{-\eta},

and summing over :math:`j \ge \mathrm{level}(z)` gives :math:`q^{\mathrm{level}(z)}`. Drawing only
the point again and keeping the level would not have this law and would not be private.

At coarse rates, where levels are low, the level comes from a table instead: j with weight
:math:`q^j N(j)`, then one of the N(j) candidates around j B, and all over again unless it lies in
j B. That gives every pair the weight :math:`q^j\,1[z \in jB]`, too (:func:`by_table`).
"""

from __future__ import annotations

import math
from collections.abc import Callable
from fractions import Fraction
from functools import lru_cache
from typing import NoReturn

import numpy as np
from numpy.typing import NDArray

from tightdp.accepted import Number
from tightdp.errors import (
    FloatArray,
    InfeasibleSamplingError,
    ParameterError,
    WideIntegers,
    check_count,
    exact_fraction,
    fail,
    shown,
)
from tightdp.exact.discrete_draws import (
    collect,
    discrete_laplaces,
    geometric_sums,
    geometrics,
    rate,
)
from tightdp.exact.lattice_bodies import DiamondBody, DiamondBound, RoundBody
from tightdp.exact.lattice_body import BoxBody, LatticeBody, Rows, ceil_sqrt, roomy
from tightdp.exact.lattice_histograms import HistogramBody
from tightdp.exact.level_tables import LevelTable
from tightdp.exact.long_vectors import box_draws, histogram_draws
from tightdp.exact.rejection import LEAST_SHARE
from tightdp.exact.round_draws import MOST_ENTRIES, RoundLaw
from tightdp.geometry.norm_balls import MEASURING_SEED
from tightdp.parameters import tells_arguments
from tightdp.privacy import Numerics, check_epsilon, text_up
from tightdp.randomness import RandomLike, RandomSource, SeededSource, source

Sampler = Callable[[int, RandomSource], WideIntegers]
"""From a number of rows to so many independent points, one a row."""

_MOST_BOXED = 8  # dimension up to which l2 noise of a coarse rate comes from the box
_MOST_LISTED, _MOST_BITS = 1 << 17, 1 << 28  # levels of a table, and bits of all its counts
_FINE = Fraction(2)  # rate times (rank + 1): below it few levels are lost to their candidates
_QUICKER = 50.0  # times as quick is a candidate of a table, which is mostly dropped at once
_FEW = 2  # entries of boxes and round balls that are drawn as quickly in other ways
_PILOTS = (2_000, 100_000)
# 577/408 exceeds the square root of 2 by less than two millionths: |x| + |y| <= c |(x, y)|.
_ROOT_TOP, _ROOT_BOTTOM = 577, 408
_COARSE = Fraction(1, 8)  # halving loses a factor exp(-2 eta / c) a time: refine beyond this rate
_MOST_SENSITIVITY = 1 << 200
_TILTED = Fraction(1, 4)  # a staircase of smaller epsilon keeps three in four draws of its K-norm
SILENT = 60  # rates at which nothing but zero is drawn


@tells_arguments
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
    :mod:`~tightdp.exact.discrete_draws`).

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
    >>> from tightdp.exact.lattice_bodies import DiamondBody
    >>> noise = LatticeNoise(DiamondBody(3), epsilon=1.0, sensitivity=2)
    >>> noise.sample(5, rng=1).dtype, noise.sample(5, rng=1).shape
    (dtype('int64'), (5, 3))
    """

    numerics = Numerics.EXACT

    def __init__(
        self,
        body: LatticeBody,
        epsilon: Number,
        sensitivity: int,
        *,
        staircase: Number | None = None,
    ) -> None:
        if not isinstance(body, LatticeBody):
            fail(f"`body` must be a LatticeBody. Got {type(body).__name__}.")
        self.body = body
        self.epsilon = check_epsilon(epsilon)
        self.sensitivity = check_count("sensitivity", sensitivity, most=_MOST_SENSITIVITY)
        self.staircase = _check_staircase(staircase, self.sensitivity)
        self.rate = Fraction(*rate(self.epsilon, self.sensitivity))
        """The rate eta = epsilon / L, never above it."""

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.body.dim

    def exponent(self, z: WideIntegers) -> WideIntegers:
        """Integers e(z) such that P(z) is proportional to ``exp(-unit * e(z))``.

        ``unit`` is the rate, or epsilon for a staircase.
        """
        level = self.body.level(np.atleast_2d(z))
        return level if self.staircase is None else self._steps(level, self.staircase)[0]

    def _steps(self, level: WideIntegers, core: int) -> tuple[WideIntegers, WideIntegers]:
        """The step f of each level l, and the excess L f - l + C >= 0, C = floor(g L)."""
        level = roomy(level, (1 << 61) - 2 * self.sensitivity)
        step = np.maximum(-(-(level - core) // self.sensitivity), 0)
        return step, self.sensitivity * step - level + core

    @property
    def unit(self) -> Fraction:
        """Size of one unit of :meth:`exponent`."""
        return self.rate if self.staircase is None else self.rate * self.sensitivity

    def covers(self, moves: WideIntegers, rows: int = 1) -> NDArray[np.bool_]:
        """Whether the level of so many of each move at once is at most L."""
        wide = roomy(moves, (1 << 61) // rows) * rows
        try:
            return np.asarray(self.body.level(wide) <= self.sensitivity, dtype=bool)
        except ParameterError:  # some move leaves the span of a flat body
            if len(moves) == 1:
                return np.zeros(1, dtype=bool)
            return np.concatenate([self.covers(move[None, :], rows) for move in moves])

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> WideIntegers:
        """Integer noise vectors: one, or ``size`` rows; int64, or Python integers if need be."""
        count, bits = 1 if size is None else check_count("size", size, least=0), source(rng)
        out = self._sampler()(count, bits)
        return out[0] if size is None else out

    def covariance(self) -> FloatArray | None:
        """Covariance of these integers, in closed form or by summing levels; None if not known.

        Nor is it stated where all but one draw in :math:`10^{26}` are zero: who weighs by it must
        not divide by zero.
        """
        if self.staircase is not None or self.rate > SILENT:
            return None
        return self.body.covariance(float(self.rate))

    def check_feasible(self) -> None:
        """Refuse, with InfeasibleSamplingError, what would practically never end."""
        self._sampler()

    def _sampler(self) -> Sampler:
        body, core = self.body, self.staircase
        if core is None:
            return level_sampler(body, self.rate)
        if self.unit > _TILTED and not (isinstance(body, RoundBody) and body.dim > _MOST_BOXED):
            tabled = by_table(body, self.unit, core, self.sensitivity)
            if tabled is not None:
                return tabled
        if self.unit > 8:
            refuse(body)
        # Keep a K-norm draw of level l with probability exp(-eta (L f - l + C)): what is kept has
        # weight exp(-epsilon f).
        return thinned(
            level_sampler(body, self.rate),
            lambda z: self._steps(body.level(z), core)[1],
            self.rate,
            dim=self.dim,
            share=0.3,
        )

    def __repr__(self) -> str:
        shape = "" if self.staircase is None else ", staircase"
        return (
            f"LatticeNoise({self.body!r}, epsilon={text_up(self.epsilon)}, "
            f"sensitivity={self.sensitivity}{shape})"
        )


def _check_staircase(staircase: Number | None, sensitivity: int) -> int | None:
    if staircase is None:
        return None
    share = exact_fraction("staircase", staircase)
    if not 0 <= share < 1:
        fail(f"`staircase` must lie in [0, 1). Got {shown(staircase)}.")
    return int(share * sensitivity)


# --- samplers: each has the law q^level(z) --------------------------------------------------------


def level_sampler(body: LatticeBody, rate: Fraction) -> Sampler:
    """The fastest sampler of the law: special to the body, by a table, or restarting."""
    if isinstance(body, DiamondBody):
        return _laplaces(body.dim, rate)
    if isinstance(body, (HistogramBody, BoxBody)):
        quick = _long_vector(body, rate)
        if quick is not None:
            return quick
    if isinstance(body, RoundBody) and (rate < _COARSE or body.dim > _MOST_BOXED):
        return _round(body.dim, rate) or halves(body.dim, rate)
    if isinstance(body, DiamondBound):
        share = body.diamond_share
        if share > body.share and share >= LEAST_SHARE:
            return under_diamond(body, rate, share)
    coarse = rate * (body.rank + 1)
    if coarse > _FINE:
        known = _table(body, rate, 0, 1)
        if known is not None and _QUICKER * known[1] > _restarting_share(body, rate):
            return _kept(_candidates(body, known[0], 0, 1), body.dim, known[1])
        if coarse > 6 * _FINE:
            refuse(body)
    return restart(body, rate)


@lru_cache(maxsize=64)
def _round(dim: int, rate: Fraction) -> Sampler | None:
    """Round balls by tables; None for few entries, which halves serve as well, or too many."""
    near = _FEW < dim <= MOST_ENTRIES and dim / rate < 1 << 29
    law = RoundLaw(dim, rate) if near else None
    return law.draw if law is not None and law.feasible else None


@lru_cache(maxsize=64)
def _long_vector(body: HistogramBody | BoxBody, rate: Fraction) -> Sampler | None:
    """Boxes with equal sides, and histograms, in time that grows with the entries alone."""
    if isinstance(body, HistogramBody):
        return histogram_draws(body.dim, rate)
    half = int(body.half[0])
    alike = body.dim > _FEW and body.key == (*[half] * body.dim, 1)
    return box_draws(body.dim, half, rate) if alike else None


def refuse(body: LatticeBody) -> NoReturn:
    """Say that a body is hopeless at a coarse rate, or what else there is to say of it."""
    body.check_feasible()
    fail(
        f"Exact lattice noise for {body!r} would practically never accept a proposal at so coarse "
        "a rate. Use a finer resolution, a larger body with its own sampler (the 'l1' ball), or "
        "less epsilon.",
        InfeasibleSamplingError,
    )


def restart(body: LatticeBody, rate: Fraction) -> Sampler:
    """The sampler of the module: a level, a point, or all over again."""
    if _restarting_share(body, rate) < LEAST_SHARE:
        refuse(body)

    def propose(count: int, rng: RandomSource) -> WideIntegers:
        levels = geometric_sums(body.rank + 1, *rate.as_integer_ratio(), count, rng)
        return _at(levels, body, lambda part: body.propose(part, 0, rng))

    return _kept(propose, body.dim, _restarting_share(body, rate))


def _restarting_share(body: LatticeBody, rate: Fraction) -> float:
    """The share of proposals that are kept: at the low levels of coarse rates a part of the share
    at high ones, since j + i grows much with i there."""
    return body.share * math.exp(-float(rate * (body.rank + 1)) / 2)


def thinned(
    draw: Sampler,
    excess: Callable[[WideIntegers], WideIntegers],
    rate: Fraction,
    *,
    dim: int,
    share: float,
) -> Sampler:
    """Points z of a sampler, kept with probability exp(-rate * excess(z)), integers >= 0."""

    def propose(count: int, rng: RandomSource) -> WideIntegers:
        z = draw(count, rng)
        return z[geometrics(*rate.as_integer_ratio(), len(z), rng) >= excess(z)]

    return _kept(propose, dim, share)


def _kept(propose: Sampler, dim: int, share: float) -> Sampler:
    """So many points of those that are left of each batch of proposals."""
    return lambda size, rng: collect(lambda n: propose(n, rng), size, share, width=dim)


def _at(
    levels: WideIntegers,
    body: LatticeBody,
    draw: Callable[[WideIntegers], tuple[WideIntegers, Rows]],
) -> WideIntegers:
    """Points at levels; those beyond the safe range go on in Python integers."""
    if levels.size == 0 or int(levels.max()) < body.safe_level:
        return draw(levels)[0]
    beyond = np.array([int(level) >= body.safe_level for level in levels])
    low, high = np.flatnonzero(~beyond), np.flatnonzero(beyond)
    low_points, low_rows = draw(levels[low].astype(np.int64))
    high_points, high_rows = draw(levels[high].astype(object))
    # In the order they were drawn: the caller keeps the first ones, whatever their level.
    order = np.argsort(np.concatenate([low[low_rows], high[high_rows]]))
    return np.vstack([low_points.astype(object), high_points])[order]


# --- tables -------------------------------------------------------------------------------------


def by_table(body: LatticeBody, unit: Fraction, first: int = 0, step: int = 1) -> Sampler | None:
    """Levels first + step k with weights exp(-unit k) cells(first + step k), and a point of each.

    None stands for a table that would be too long, or candidates of which too few are kept.
    """
    known = _table(body, unit, first, step)
    if known is None:
        return None
    return _kept(_candidates(body, known[0], first, step), body.dim, known[1])


def _candidates(body: LatticeBody, table: LevelTable, first: int, step: int) -> Sampler:
    """Levels by the table, a candidate each, and of those the points of the body."""

    def propose(count: int, rng: RandomSource) -> WideIntegers:
        index = roomy(table.draw(count, rng), (1 << 61) // (first + step) + 1)
        return _at(first + step * index, body, lambda part: body.scatter(part, rng))

    return propose


@lru_cache(maxsize=64)
def _table(
    body: LatticeBody, unit: Fraction, first: int, step: int
) -> tuple[LevelTable, float] | None:
    """A table for all equal bodies, and the share of candidates that are kept."""
    reach = (100 + 2 * body.rank) / float(unit)
    size = body.rank * math.log2(first + step * (reach + 2))  # bits of a count
    if reach > _MOST_LISTED or reach * size > _MOST_BITS or body.share < LEAST_SHARE**2:
        return None
    # cells(c + s k) <= A prod (c + s k + i) <= A (c + s)^r prod (k + i), as c + i <= (c + s) i
    factor = body.factor * (first + step) ** body.rank
    table = LevelTable(unit, lambda k: body.cells(first + step * k), body.rank, factor)
    share, propose = float(body.share == 1.0), _candidates(body, table, first, step)
    for pilot in _PILOTS if share < 1 else ():
        share = len(propose(pilot, SeededSource(MEASURING_SEED))) / pilot
        if share > 100 / pilot:
            break
    return None if share < LEAST_SHARE else (table, share)


# --- bodies with samplers of their own ------------------------------------------------------------


def _laplaces(dim: int, rate: Fraction) -> Sampler:
    """l1: the law factorises into independent discrete Laplace variables."""
    return lambda size, rng: discrete_laplaces(*rate.as_integer_ratio(), (size, dim), rng)


def under_diamond(body: DiamondBound, rate: Fraction, share: float = 0.5) -> Sampler:
    """Bodies with level >= sum |y| / D: thin independent discrete Laplace noise of rate eta / D."""
    finer = rate / body.diamond
    steps = _laplaces(body.dim, finer)

    def draw(count: int, rng: RandomSource) -> WideIntegers:
        return body.from_diamond(steps(count, rng))

    def excess(z: WideIntegers) -> WideIntegers:
        z = roomy(z, (1 << 60) // (body.dim * max(body.diamond, body.dim)))
        return np.asarray(body.diamond * body.level(z) - np.abs(body.to_diamond(z)).sum(axis=1))

    return thinned(draw, excess, finer, dim=body.dim, share=share)


def halves(dim: int, rate: Fraction, part: int = 1) -> Sampler:
    r"""l2 by halves: :math:`\lceil n|x|\rceil + \lceil n|y|\rceil \le c\,n|(x,y)| + 2`.

    Let :math:`\lceil k|z| \rceil` be the level to the k-th part (``part``), k = 1 at the end. Two
    exact draws of half the dimension and weights :math:`\exp(-\eta' \lceil n|x| \rceil)`,
    :math:`\eta' = \eta k/(cn)`, c >= sqrt(2), are kept with probability
    :math:`\exp\{-\eta\lceil k|(x,y)|\rceil + \eta'(\lceil n|x|\rceil + \lceil n|y|\rceil - 2)\}`.
    That loses :math:`e^{-2\eta'}`, little once n makes :math:`\eta'` small. About 0.72 of the pairs
    survive at every halving, so the cost grows like dim^1.5, not exponentially.
    """
    if dim == 1:
        return _laplaces(1, rate * part)
    half, finer = dim // 2, part
    while rate * part / finer >= _COARSE:
        finer *= 2
    less = rate * part * Fraction(_ROOT_BOTTOM, _ROOT_TOP * finer)  # eta'
    room = math.isqrt((1 << 61) // dim) // finer
    first, second = halves(half, less, finer), halves(dim - half, less, finer)

    def both(count: int, rng: RandomSource) -> WideIntegers:
        return roomy(np.hstack([first(count, rng), second(count, rng)]), room)

    def excess(z: WideIntegers) -> WideIntegers:  # in units of eta / (finer * 577)
        squares = [(side * side).sum(axis=1) for side in (z[:, :half], z[:, half:])]
        sides = sum(ceil_sqrt(finer * finer * square) for square in squares)
        whole = ceil_sqrt(part * part * (squares[0] + squares[1]))
        return np.asarray(finer * _ROOT_TOP * whole - part * _ROOT_BOTTOM * (sides - 2))

    return thinned(both, excess, rate / (finer * _ROOT_TOP), dim=dim, share=0.6)
