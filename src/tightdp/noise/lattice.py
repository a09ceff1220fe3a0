r"""Exact K-norm noise on the integer lattice: integers from the random bits to the released value.

For a body B with integer levels (:mod:`~tightdp.exact.lattice_body`) and a rational rate eta, the
noise has the law :math:`P(z) \propto e^{-\eta\,\mathrm{level}(z)}`, drawn exactly
(:mod:`~tightdp.exact.lattice_sampling`).
"""

from __future__ import annotations

from fractions import Fraction

import numpy as np

from tightdp.accepted import Number
from tightdp.errors import FloatArray, WideIntegers, check_count, fail, shown
from tightdp.exact.lattice_bodies import RoundBody
from tightdp.exact.lattice_body import LatticeBody
from tightdp.exact.lattice_points import roomy
from tightdp.exact.lattice_sampling import (
    MOST_BOXED,
    Sampler,
    by_table,
    level_sampler,
    refuse,
    thinned,
)
from tightdp.exact.rates import check_epsilon, exact_fraction, rate
from tightdp.privacy import Numerics, text_up
from tightdp.randomness import RandomLike, source

_MOST_SENSITIVITY = 1 << 200
_TILTED = Fraction(1, 4)  # a staircase of smaller epsilon keeps three in four draws of its K-norm
_SILENT = 60  # rates at which nothing but zero is drawn


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
    :mod:`~tightdp.exact.word_draws`).

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
        if self.staircase is not None or self.rate > _SILENT:
            return None
        return self.body.covariance(float(self.rate))

    def check_feasible(self) -> None:
        """Refuse, with InfeasibleSamplingError, what would practically never end."""
        self._sampler()

    def _sampler(self) -> Sampler:
        body, core = self.body, self.staircase
        if core is None:
            return level_sampler(body, self.rate)
        if self.unit > _TILTED and not (isinstance(body, RoundBody) and body.dim > MOST_BOXED):
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
