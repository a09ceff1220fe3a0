r"""Slopes for a target as it was before it was moved to its bounds; costs nothing.

By Stein's lemma :math:`cov(x, h(y)) = cov(x, y)\,E h'(y)` for jointly normal x and y, and for the
clamp h the last factor is the probability that y lies inside the bounds: clamping multiplies all
slopes by it. The mean and the mean square of the clamped target give the normal law of y, hence the
factor. This is indirect inference (Wang and others, 2025) in closed form. Nothing in the release
says whether the rows are jointly normal, and for others the factor can be far off: there are no
intervals.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow
from numpy.typing import ArrayLike, NDArray

from tightdp.errors import FloatArray, UndecidedError, check_choice, fail

ASSUMPTIONS = ("jointly normal",)

_ROUNDS, _STEP = 2_000, 1e-9
_WIDEST = 1e3


@dataclass(frozen=True, slots=True, eq=False)
class Unclipped:
    """What would have been found without the clamp, if what was assumed is true.

    Attributes
    ----------
    coef : array
        Slopes in user units.
    inside : float
        The share of targets inside their bounds.
    assumes : str
    """

    coef: FloatArray
    inside: float
    assumes: str


def without_clipping(model: Any, *, assume: str) -> Unclipped:
    r"""Slopes for the target before the clamp, for rows of which you know the law.

    Parameters
    ----------
    model : LinearRegression or Ridge, fitted with ``post="shrink"``
    assume : {"jointly normal"}
        What you say about features and target before the clamp. No release can check it, and for
        skewed columns the slopes are wrong: so there is no default, and there are no intervals.

    Examples
    --------
    >>> from tightdp import LinearRegression
    >>> rng = np.random.default_rng(1)
    >>> x = rng.normal(0, 0.3, 200_000)
    >>> y = 4 * x + rng.normal(0, 0.5, 200_000)  # a third of it outside [-1.25, 1.25]
    >>> model = LinearRegression(epsilon=5, bounds=[(-1.5, 1.5), (-1.25, 1.25)], random_state=1)
    >>> found = without_clipping(model.fit(x[:, None], y), assume="jointly normal")
    >>> model.coef_.round(1), found.coef.round(1)
    (array([2.7]), array([4.]))
    """
    check_choice("assume", assume, ASSUMPTIONS)
    products = getattr(model, "moments_", None)
    if products is None:
        fail("`model` must be a fitted LinearRegression or Ridge.")
    M = products
    if not np.isfinite(M[-1, -1]):
        fail("The square of the target was not released: fit with post='shrink'.")
    normal = clamped_normal(M[0, -1], M[-1, -1])
    if not normal.found.all():
        fail("Nearly every target lies outside its bounds: widen them.", UndecidedError)
    inside = float(normal.inside)
    return Unclipped(model.coef_ / inside, inside, assume)


@dataclass(frozen=True, slots=True, eq=False)
class ClampedNormal:
    """Normal variables whose clamps to [-1, 1] have given moments: arrays of one shape."""

    centre: FloatArray
    scale: FloatArray
    found: NDArray[np.bool_]

    @property
    def inside(self) -> FloatArray:
        """The probability of (-1, 1)."""
        low, high = (-1 - self.centre) / self.scale, (1 - self.centre) / self.scale
        return np.asarray(scipy.special.ndtr(high) - scipy.special.ndtr(low))


def clamped_normal(mean: ArrayLike, square: ArrayLike) -> ClampedNormal:
    """The normal laws whose clamps have these first two moments, by fixed-point iteration.

    >>> law = clamped_normal(0.0, 0.01)  # hardly ever clamped
    >>> round(float(law.scale), 3), round(float(law.inside), 3)
    (0.1, 1.0)
    """
    wanted = np.clip(np.asarray(mean, dtype=np.float64), -0.999, 0.999)
    spread = np.maximum(np.clip(square, 0.0, 0.999) - wanted**2, 1e-12)
    centre, scale = wanted.copy(), np.sqrt(spread)
    found = np.zeros(wanted.shape, dtype=bool)
    for _ in range(_ROUNDS):
        first, second = clamped_moments(centre, scale)
        got = np.maximum(second - first**2, 1e-12)
        move = wanted - first
        found = (np.abs(move) < _STEP) & (np.abs(spread - got) < _STEP)
        if found.all():
            break
        centre, scale = centre + move, np.minimum(scale * np.sqrt(spread / got), _WIDEST)
    return ClampedNormal(centre, scale, found)


def clamped_moments(centre: FloatArray, scale: FloatArray) -> tuple[FloatArray, FloatArray]:
    """Mean and mean square of normal variables clamped to [-1, 1]."""
    low, high = (-1 - centre) / scale, (1 - centre) / scale
    below, above = scipy.special.ndtr(low), scipy.special.ndtr(-high)
    mass = 1 - below - above
    edge = _density(low) - _density(high)
    first = centre * mass + scale * edge + above - below
    bend = low * _density(low) - high * _density(high)
    second = centre**2 * mass + 2 * centre * scale * edge + scale**2 * (mass + bend)
    return np.asarray(first), np.asarray(second + below + above)


def _density(t: FloatArray) -> FloatArray:
    return np.asarray(np.exp(-t * t / 2) / math.sqrt(2 * math.pi))
