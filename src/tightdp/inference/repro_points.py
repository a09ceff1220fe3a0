r"""Whether a release is likely at a value of all parameters of a model: tests at single points.

Let s be the released entries, and :math:`S_1, ..., S_R` entries that were simulated at
:math:`\theta`, noise included. At the true :math:`\theta` they are as one sample of R + 1, so that
the rank of any number :math:`T_\theta(s)` among the :math:`T_\theta(S_r)` is even, or larger on
average where there are ties, whatever the function :math:`T_\theta` is and whatever n and R are:

.. math:: p_\theta = \frac{1 + \#\{r : T_\theta(S_r) \ge T_\theta(s)\}}{1 + R},
   \qquad P_\theta(p_\theta \le a) \le a

(Xie and Wang, 2022; Awan and Wang, 2025). Two functions are looked at, both made of *other*
simulations at :math:`\theta`, the pilot, which see neither s nor the :math:`S_r`. With the mean m,
the covariance :math:`\Sigma` and the derivative J of m at :math:`\theta`:

- :math:`D = (s - m)'\Sigma^{-1}(s - m)`, whether :math:`\theta` is likely at all, at level
  :math:`\gamma`, a tenth of alpha;
- the entry of interest of :math:`(J'\Sigma^{-1}J)^{-1}J'\Sigma^{-1}(s - m)`, on both sides, at
  level :math:`\alpha - \gamma`: what the release says about one parameter beside the others. It is
  divided by a standard deviation for which the others are taken as s says, to first order, so that
  its law hardly depends on them.

:math:`\theta` is kept if both keep it. The true one is lost with a chance of at most alpha; the
authors keep points by D alone, which pays for all parameters where one is asked for.
"""

from __future__ import annotations

from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from tightdp.errors import FloatArray
from tightdp.inference.simulated_models import Entries

JOINT = 0.1  # of alpha, for D
_FURTHEST = 1.5  # of the logarithm by which a standard deviation is corrected
_STEP = 1e-3  # of a parameter, in derivatives
_LEAST_STEP = 1e-5  # of the bounds
_FLOOR = 1e-12
_REMEMBERED = 64  # points whose pilots are kept
_STARTS, _ROUNDS, _WEIGHINGS = 8, 30, 2
_FITS = 1.0  # beyond the degrees of freedom: a mean that is so near to s fits


@dataclass(frozen=True, slots=True, eq=False)
class Simulated:
    """Entries of simulated releases as a function of theta, with fixed random numbers."""

    entries: Entries
    noise: FloatArray

    def at(self, theta: FloatArray) -> FloatArray:
        return self.entries(theta) + self.noise


@dataclass(frozen=True, slots=True, eq=False)
class Pilot:
    """Mean, covariance and derivatives of entries at a point."""

    mean: FloatArray
    covariance: FloatArray
    slopes: FloatArray  # of the means, (entries, free parameters)
    covariances: FloatArray  # at the steps, (free parameters, entries, entries)
    steps: FloatArray

    def inverse(self) -> FloatArray:
        return _inverse(self.covariance)

    def information(self) -> FloatArray:
        return np.asarray(self.slopes.T @ self.inverse() @ self.slopes)

    def gain(self) -> FloatArray:
        """What makes parameters of entries, to first order: (free parameters, entries)."""
        return _inverse(self.information()) @ self.slopes.T @ self.inverse()


def _inverse(matrix: FloatArray) -> FloatArray:
    """Of a symmetric matrix that may be singular: what is not known is taken to be uncertain."""
    scale = np.sqrt(np.maximum(np.diag(matrix), np.finfo(float).tiny))
    outer = np.outer(scale, scale)
    return np.asarray(np.linalg.pinv(matrix / outer, rcond=1e-10, hermitian=True) / outer)


@dataclass(frozen=True, slots=True, eq=False)
class Points:
    """A release, a model at fixed random numbers, and the tests at single points.

    Attributes
    ----------
    released : array, shape (entries,)
    tested, pilot : Simulated
        Those that s is compared with, and those that the statistics are made of.
    low, high : arrays
        Public bounds of all parameters; equal ones are known.
    """

    released: FloatArray
    tested: Simulated
    pilot: Simulated
    low: FloatArray
    high: FloatArray
    _seen: dict[bytes, Pilot] = field(default_factory=dict)

    @property
    def free(self) -> NDArray[np.intp]:
        """Places of the parameters that are not known."""
        return np.flatnonzero(self.high > self.low)

    def into_bounds(self, theta: FloatArray) -> FloatArray:
        return np.clip(theta, self.low, self.high)

    def mean_and_covariance(self, theta: FloatArray) -> tuple[FloatArray, FloatArray]:
        drawn = self.pilot.at(theta)
        covariance = np.atleast_2d(np.cov(drawn, rowvar=False))
        return drawn.mean(axis=0), covariance + _FLOOR * np.eye(len(covariance))

    def pilot_at(self, theta: FloatArray) -> Pilot:
        key = theta.tobytes()
        if key not in self._seen:
            if len(self._seen) > _REMEMBERED:
                self._seen.clear()
            self._seen[key] = self._pilot_at(theta)
        return self._seen[key]

    def _pilot_at(self, theta: FloatArray) -> Pilot:
        mean, covariance = self.mean_and_covariance(theta)
        free = self.free
        slopes, others, steps = [], [], []
        for j in free:
            width = self.high[j] - self.low[j]
            step = max(_STEP * abs(float(theta[j])), _LEAST_STEP * width)
            step = min(step, width / 4)
            step = -step if theta[j] + step > self.high[j] else step
            moved = theta.copy()
            moved[j] += step
            near, spread = self.mean_and_covariance(moved)
            slopes.append((near - mean) / step)
            others.append(spread)
            steps.append(step)
        return Pilot(mean, covariance, np.stack(slopes, 1), np.stack(others), np.array(steps))

    # --- p-values -----------------------------------------------------------------------------

    def joint(self, theta: FloatArray) -> tuple[float, FloatArray]:
        """The p-value of D at a point, and what was simulated there."""
        mean, covariance = self.mean_and_covariance(theta)
        simulated, inverse = self.tested.at(theta), _inverse(covariance)
        found = _quadratic(simulated - mean, inverse)
        own = _quadratic((self.released - mean)[None], inverse)[0]
        return rank(found, own), simulated

    def single(self, theta: FloatArray, place: int, simulated: FloatArray) -> float:
        """The two-sided p-value of one parameter; ``place`` counts free ones."""
        pilot = self.pilot_at(theta)
        gain = pilot.gain()
        own, steps = gain[place], pilot.steps
        variance = max(float(own @ pilot.covariance @ own), np.finfo(float).tiny)
        near = np.maximum(np.einsum("i,kij,j->k", own, pilot.covariances, own), variance * 1e-6)
        growth = np.log(near / variance) / steps
        growth[place] = 0.0  # of the parameter of interest the value is known
        away = (np.vstack([simulated, self.released]) - pilot.mean) @ gain.T
        correction = np.clip(away @ growth / 2, -_FURTHEST, _FURTHEST)
        score = away[:, place] * np.exp(-correction)
        found, mine = score[:-1], float(score[-1])
        return min(1.0, 2 * min(rank(found, mine), rank(-found, -mine)))

    def keeps(self, theta: FloatArray, place: int, alpha: float) -> bool:
        """Whether a point is kept by both tests."""
        both, simulated = self.joint(theta)
        if both <= JOINT * alpha:
            return False
        return self.single(theta, place, simulated) > (1 - JOINT) * alpha

    # --- the most likely point ----------------------------------------------------------------

    def misfit(self, theta: FloatArray) -> float:
        """Minus twice a normal log likelihood: where to start from."""
        mean, covariance = self.mean_and_covariance(theta)
        sign, logarithm = np.linalg.slogdet(covariance)
        own = _quadratic((self.released - mean)[None], _inverse(covariance))[0]
        return float(own + (logarithm if sign > 0 else 0.0))

    def estimate(self, starts: list[FloatArray], held: int | None = None) -> FloatArray:
        r"""The indirect estimate: the mean nearest to s, by the covariance at the estimate.

        That is the adaptive indirect estimator of Wang and others (2025). Least squares in a
        trust region, from the best starts until one of them fits; positive parameters on a log
        scale. ``held`` is the place of a free parameter that stays as it is.
        """
        where = self.free if held is None else np.delete(self.free, held)
        freedom = len(self.released) - len(where)
        found, least = starts[0], np.inf
        for start in sorted(starts, key=self.misfit)[:_STARTS]:
            theta = start
            for _ in range(_WEIGHINGS):
                theta = self._nearest(theta, where)
            away = self.distance(theta)
            if away < least:
                found, least = theta, away
            if least <= freedom + _FITS:
                break
        return found

    def _nearest(self, theta: FloatArray, where: NDArray[np.intp]) -> FloatArray:
        """The parameters whose mean is nearest to s, by the covariance at ``theta``."""
        from scipy.optimize import least_squares

        logarithmic = self.logarithmic[where]
        values, vectors = np.linalg.eigh(_inverse(self.pilot_at(theta).covariance))
        root = np.sqrt(np.maximum(values, 0.0))[:, None] * vectors.T  # counts may sum to n
        low, high = (_on_line(ends[where], logarithmic) for ends in (self.low, self.high))

        def point(line: FloatArray) -> FloatArray:
            out = theta.copy()
            out[where] = np.where(logarithmic, np.exp(np.where(logarithmic, line, 0.0)), line)
            return self.into_bounds(out)

        def residual(line: FloatArray) -> FloatArray:
            return np.asarray(root @ (self.pilot_at(point(line)).mean - self.released))

        def slopes(line: FloatArray) -> FloatArray:
            at = point(line)
            own = self.pilot_at(at).slopes[:, np.searchsorted(self.free, where)]
            return np.asarray(root @ (own * np.where(logarithmic, at[where], 1.0)))

        room = 1e-9 * (high - low)
        start = np.clip(_on_line(theta[where], logarithmic), low + room, high - room)
        done = least_squares(
            residual, start, slopes, bounds=(low, high), x_scale="jac", max_nfev=_ROUNDS, ftol=1e-5
        )
        return point(done.x)

    def distance(self, theta: FloatArray) -> float:
        """D of the release."""
        mean, covariance = self.mean_and_covariance(theta)
        return float(_quadratic((self.released - mean)[None], _inverse(covariance))[0])

    @property
    def logarithmic(self) -> NDArray[np.bool_]:
        """Which parameters are positive and known within a factor of ten at best."""
        return np.asarray((self.low > 0) & (self.high > 10 * self.low))


def _on_line(values: FloatArray, logarithmic: NDArray[np.bool_]) -> FloatArray:
    return np.where(logarithmic, np.log(np.where(logarithmic, values, 1.0)), values)


def _quadratic(away: FloatArray, inverse: FloatArray) -> FloatArray:
    return np.einsum("ri,ij,rj->r", away, inverse, away)


def rank(simulated: FloatArray, own: float) -> float:
    """The share, s counted, that is as large or larger; what cannot be compared counts, too."""
    bar = own - 1e-9 * abs(own)
    return float(1 + np.count_nonzero(~(simulated < bar))) / (1 + len(simulated))
