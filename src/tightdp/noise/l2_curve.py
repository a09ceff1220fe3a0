r"""The (epsilon, delta) curve of the l2 mechanism: K-norm noise of the round ball at delta > 0.

The density is :math:`f(v) \propto e^{-|v|/s}` on :math:`R^m`, and the query moves by a vector e of
length 1. With :math:`b = \epsilon s` and :math:`\kappa = (1 - b^2)/(2s)`,

.. math:: \delta(\epsilon) = E\,P\Bigl(m, \frac{\kappa}{(C + b)_+}\Bigr)
          - e^{\epsilon}\, E\,Q\Bigl(m, \frac{\kappa}{(C - b)_+}\Bigr),

C the first coordinate of a uniform direction, P(m, x) and Q(m, x) the lower and the upper tail of
the Gamma law with m terms; and :math:`\delta = 0` for :math:`b \ge 1`.

**Proof.** 1. The best event is :math:`A = \{|v - e| - |v| > b\}`, where the log ratio
:math:`(|v - e| - |v|)/s` exceeds epsilon. 2. Around 0, at the distance r and the cosine C to e:
:math:`|v - e|^2 > (r + b)^2` says :math:`2r(C + b) < 1 - b^2`, and r/s is Gamma(m), independent of
C. 3. Around e, at the distance r and the cosine C to -e: :math:`r - b > |v|` says
:math:`2r(C - b) > 1 - b^2`. 4. Shorter moves lose less: given the line through v in the direction
of the move, which is the same for both laws, the density is log-concave, and the Lemma of
half-lines (:class:`~tightdp.noise.law.NoiseLaw`) holds on every line.

**Numbers.** Both means are integrals of analytic functions of the angle, :math:`\sin^{m-2}\theta`
times a tail, by Gauss's rule with n points on panels. On the ellipse with the foci at the ends of
a panel and half-axes :math:`(\rho \pm 1/\rho)/2` of half its width, where the integrand is at most
M, the rule errs by :math:`\frac{64}{15} M \rho^{-2n+2}/(1 - \rho^{-2})` half-widths at most
(Trefethen, 2013, Theorem 19.3). For complex x with a positive real part
:math:`|P(m, x)| \le (|x|/\Re x)^m P(m, \Re x)`, integrating along the ray through x, and so for Q.
Panels are halved until all such errors together are negligible; they are added all the same. Next
to the poles of 1/x, P is replaced by 1 and Q by 0. Special functions are granted :math:`2^{-40}`.

References: the noise is that of Hardt and Talwar (2010); its reading at delta > 0 is the l2
mechanism of *arXiv:2502.15929*; the formula above is derived here.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
import scipy  # scipy.special is loaded at its first use: importing it is slow

from tightdp.errors import FloatArray
from tightdp.noise.law import ROUNDING

_POINTS, _RHO = 20, 3.0
_AXES = (_RHO + 1 / _RHO) / 2, (_RHO - 1 / _RHO) / 2
_RULE = 64 / 15 * _RHO ** (2 - 2 * _POINTS) / (1 - _RHO**-2)
_CLOSE = 1e-11  # of the integral: what all panels together may err by
_MOST_HALVINGS, _MOST_PANELS = 60, 1 << 12
_NOTHING = 1e-280  # tails from which on P is 1, or Q is 0
_NARROW = 2.0**-28  # width of a bracket, in parts of it, at which a search for a scale ends


def l2_delta(dim: int, epsilon: float, scale: float) -> float:
    """The delta of the l2 mechanism at epsilon for moves of length 1, rounded up.

    >>> round(l2_delta(10, 1.0, 0.7), 9), l2_delta(10, 1.0, 1.1)
    (0.001108843, 0.0)
    """
    near = epsilon * scale * (1 - 2.0**-50)  # a smaller epsilon loses more
    if near >= 1:
        return 0.0
    if dim == 1:  # Laplace noise
        return -math.expm1((epsilon - 1 / scale) / 2) * (1 + ROUNDING)
    size = (1 - near) * (1 + near) / (2 * scale)
    far = float(scipy.special.gammainccinv(dim, _NOTHING))
    first, last = (_angle(size / far + sign * near) for sign in (-1, 1))
    lost = _integral(dim, 0.0, first, size, near, upper=False)
    rest = _integral(dim, first, math.pi, None, 0.0, upper=False)
    kept = _integral(dim, 0.0, last, size, -near, upper=True) if last > 0 else (0.0, 0.0)
    all_lost = (lost[0] + rest[0]) * (1 + ROUNDING) + lost[1] + rest[1]
    all_kept = max(0.0, kept[0] * (1 - ROUNDING) - kept[1])
    log_whole = math.lgamma((dim - 1) / 2) - math.lgamma(dim / 2) + 0.5 * math.log(math.pi)
    if all_kept > 0:  # in logarithms: exp(epsilon) may be beyond doubles
        all_lost -= math.exp(min(700.0, epsilon + math.log(all_kept))) * (1 - 2 * ROUNDING)
    found = max(0.0, all_lost) * math.exp(-log_whole) * (1 + ROUNDING)
    return min(1.0, found) if math.isfinite(all_lost) else 1.0  # what is not known is all


@lru_cache(maxsize=256)
def l2_scale(dim: int, epsilon: float, delta: float) -> float:
    """A scale s at which the l2 mechanism is (epsilon, delta)-DP for moves of length 1.

    It is the least but for a part in 2**28, and checked; or a little more than 1 / epsilon, that of
    delta = 0, which every delta allows.

    >>> scale = l2_scale(10, 1.0, 1e-6)
    >>> l2_delta(10, 1.0, scale) <= 1e-6, round(11 * scale**2, 2)
    (True, 9.24)
    """
    high = (1 + ROUNDING) / epsilon
    low, step = high, 2.0**-6
    while l2_delta(dim, epsilon, low) <= delta:
        low, high, step = low / (1 + step), low, 2 * step
    while high - low > _NARROW * high:
        middle = (low + high) / 2
        if l2_delta(dim, epsilon, middle) <= delta:
            high = middle
        else:
            low = middle
    return high


def _angle(cosine: float) -> float:
    """The angle of a cosine, 0 for those beyond 1."""
    return math.acos(max(-1.0, min(1.0, cosine)))


def _integral(
    dim: int, start: float, stop: float, size: float | None, shift: float, *, upper: bool
) -> tuple[float, float]:
    """The integral of sin^(m-2) times a tail at size / (cos + shift), and a bound on its error."""
    if not stop > start:
        return 0.0, 0.0
    edges = np.linspace(start, stop, 17)
    low, high = edges[:-1], edges[1:]
    x, w = np.polynomial.legendre.leggauss(_POINTS)
    value = error = 0.0
    for halving in range(_MOST_HALVINGS):
        middle, half = (low + high) / 2, (high - low) / 2
        angles = middle[:, None] + half[:, None] * x
        with np.errstate(all="ignore"):  # what is not finite is no bound
            values = half * (_integrand(dim, angles, size, shift, upper) @ w)
            errors = half * _RULE * _largest(dim, middle, half, size, shift, upper)
        errors = np.where(np.isnan(errors), np.inf, errors)
        even = (value + float(values.sum())) * half / (stop - start)
        done = errors <= _CLOSE * np.maximum(values, even)
        done |= halving == _MOST_HALVINGS - 1 or len(low) > _MOST_PANELS  # what is lost is added
        value, error = value + float(values[done].sum()), error + float(errors[done].sum())
        if done.all():
            break
        low, high, middle = low[~done], high[~done], middle[~done]
        low, high = np.concatenate([low, middle]), np.concatenate([middle, high])
    return value, error


def _integrand(
    dim: int, angles: FloatArray, size: float | None, shift: float, upper: bool
) -> FloatArray:
    sines = np.sin(angles) ** (dim - 2)
    if size is None:
        return np.asarray(sines)
    return np.asarray(sines * _tail(dim, size / (np.cos(angles) + shift), upper))


def _tail(dim: int, x: FloatArray, upper: bool) -> FloatArray:
    special = scipy.special
    return np.asarray(special.gammaincc(dim, x) if upper else special.gammainc(dim, x))


def _largest(
    dim: int,
    middle: FloatArray,
    half: FloatArray,
    size: float | None,
    shift: float,
    upper: bool,
) -> FloatArray:
    """A bound on the integrand on the ellipses of panels; infinite where there is a pole."""
    left, right, tall = middle - _AXES[0] * half, middle + _AXES[0] * half, _AXES[1] * half
    sinh, cosh = np.sinh(tall), np.cosh(tall)
    inside = (left <= math.pi / 2) & (right >= math.pi / 2)
    most = np.where(inside, 1.0, np.maximum(np.abs(np.sin(left)), np.abs(np.sin(right))))
    log_sines = (dim - 2) / 2 * np.log(most**2 + sinh**2)
    if size is None:
        return np.asarray(np.exp(np.minimum(log_sines, 700.0)))
    top = np.where(left <= 0, 1.0, np.cos(left))
    bottom = np.where(right >= math.pi, -1.0, np.cos(right))
    least = np.where(bottom >= 0, bottom, bottom * cosh) + shift
    largest = np.where(top >= 0, top * cosh, top) + shift
    aside = most * sinh
    safe = np.where(least > 0, least, 1.0)
    if upper:
        x = size * np.minimum(*(r / (r * r + aside * aside) for r in (safe, largest)))
    else:
        x = size / safe
    grown = dim / 2 * np.log1p((aside / safe) ** 2)
    bound = np.exp(np.minimum(log_sines + grown, 700.0)) * _tail(dim, x, upper)
    return np.asarray(np.where(least > 0, bound, np.inf))
