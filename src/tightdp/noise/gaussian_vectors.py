"""Gaussian noise for integer vectors: the analytic calibration, kept exactly on the lattice."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.accepted import Number
from tightdp.accounting import Cost
from tightdp.errors import FloatArray, check_count, exact_amount
from tightdp.exact.discrete_draws import discrete_gaussians
from tightdp.noise.gaussian_laws import AnalyticGaussian
from tightdp.noise.law import DELTA_FLOOR
from tightdp.randomness import RandomLike, source

# Lattice points in a sigma, or more for tiny deltas: an entry is within 2**-99 of a rounded one.
_FINE = 1 << 48
_MOST = 32.0  # a larger epsilon is not used up: its power would outweigh that
_MARGIN = Fraction(1, 10**9)


class GaussianVector:
    r"""Independent discrete Gaussians for integer vectors with a bound on their l2 change.

    **Privacy.**
    Statement: adding z to an integer vector that moves by at most D in l2 norm is
    (epsilon, delta)-DP; so is a sequence of such releases, each chosen after seeing those before
    it, if the changes of all entries together stay within D.
    Needs: [P1] the bound D; [P2] sigma is that of :class:`~tightdp.AnalyticGaussian` for D at
    :math:`\delta - (1+e^\epsilon) d \tau`, d the number of entries; [P3] exact draws.
    Proof: 1. Real Gaussians of this sigma are :math:`(\epsilon, \delta')`-DP for vectors, and for
    sequences (Balle and Wang, 2018, Theorem 8; Dong and others, 2022, Theorem 3.2), and so is the
    sum rounded to integers, which is the integer vector plus rounded Gaussians. 2. A rounded
    Gaussian differs from a discrete one in total variation by at most :math:`\tau = 1/(8\sigma^2)`:
    on cells of width 1 the midpoint rule errs by :math:`\frac18\int|f''|` at most, together
    :math:`\frac18 \cdot 4\max|f'| = e^{-1/2}/(2\sigma)` for :math:`f(x) = e^{-x^2/2\sigma^2}`, and
    twice that much over the least normaliser :math:`\sigma\sqrt{2\pi}`, halved, is below
    :math:`\tau`. 3. Replacing d entries on both sides costs :math:`(1 + e^\epsilon) d\tau`.
    Numerics: ``exact`` sampler; sigma comes from floats with a margin on the private side.

    Parameters
    ----------
    epsilon, delta : float or Fraction
    square : Fraction
        :math:`D^2` in user units.
    entries : int
        d, over all releases.

    Attributes
    ----------
    sensitivity : Fraction
        D in user units, never too small.
    sigma : Fraction
        In user units.
    resolution : int
        Lattice points per user unit that make the price of the lattice negligible.

    Examples
    --------
    >>> noise = GaussianVector(epsilon=1.0, delta=1e-5, square=Fraction(4), entries=3)
    >>> round(float(noise.sigma), 4), len(noise.sample(3, noise.resolution, rng=1))
    (7.4613, 3)
    """

    def __init__(self, *, epsilon: Number, delta: Number, square: Fraction, entries: int) -> None:
        self.entries = check_count("entries", entries)
        self._promised = exact_amount("epsilon", epsilon), exact_amount("delta", delta)
        used = min(float(epsilon) * (1 - 1e-12), _MOST)
        fine, whole = _FINE, float(delta) * (1 - 1e-12)
        lost = (1 + math.exp(used)) * self.entries / 8  # (1 + e^epsilon) d tau, times sigma^2
        while whole > DELTA_FLOOR and lost / fine**2 > whole / 1024:
            fine <<= 8
        law = AnalyticGaussian(epsilon=used, delta=whole - min(lost / fine**2, whole / 2))  # [P2]
        self.sensitivity = Fraction(math.sqrt(square)) * (1 + _MARGIN)
        self.sigma = Fraction(law.sigma) * self.sensitivity
        self.resolution = 1 << max(0, math.ceil(math.log2(fine / self.sigma)))

    @property
    def cost(self) -> Cost:
        r"""Its rho is :math:`D^2/(2\sigma^2)` over all releases; epsilon and delta are as given."""
        epsilon, delta = self._promised
        rho = self.sensitivity**2 / (2 * self.sigma**2)
        return Cost.concentrated(rho, delta=delta, epsilon=epsilon)

    def sample(self, count: int, resolution: int, *, rng: RandomLike = None) -> list[int]:
        """Integers in units of 1/resolution, which must not be coarser than ``self.resolution``."""
        draws = discrete_gaussians((self.sigma * resolution) ** 2, count, source(rng))
        return [int(z) for z in draws]

    def reach(self, confidence: float, entries: int) -> FloatArray:
        """A half-width that holds for so many entries at once."""
        tail = (1 - confidence ** (1 / entries)) / 2
        half = -float(self.sigma) * float(scipy.special.ndtri(tail)) + 1 / self.resolution
        return np.full(entries, half)
