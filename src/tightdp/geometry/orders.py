"""Orders that compare noise shapes, and the quantities behind them.

All functions speak of K-norm noise with density proportional to ``exp(-epsilon gauge_K(v))``, where
K already contains the sensitivity space (its radius is the sensitivity). Awan and Slavković
(2021) compare such laws by containment of K (equivalently stochastic tightness, depth
regions, conditional variance in every direction) and by volume (equivalently entropy). Containment
implies volume. Neither implies anything about marginal variance or expected loss, which depend on
the units: see the cautionary example in the documentation.

Every formula of the law has its home here; :class:`~tightdp.KNormNoise` is its face.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import (
    DimensionError,
    FloatArray,
    check_array,
    check_choice,
    check_positive,
    check_probability,
    check_real,
    fail,
)
from tightdp.geometry.containment import containment
from tightdp.geometry.norm_balls import (
    NormBall,
    SecondMoment,
    check_balls,
    check_exponent,
    lp_norm,
)
from tightdp.parameters import tells_arguments


@dataclass(frozen=True, slots=True)
class Estimate:
    """A number with its standard error, which is 0 when it comes from a formula or quadrature."""

    value: float
    standard_error: float = 0.0

    @property
    def exact(self) -> bool:
        """Whether the number is free of simulation error."""
        return self.standard_error == 0.0

    def __str__(self) -> str:
        if self.exact:
            return f"{self.value:.6g}"
        return f"{self.value:.4g} ({self.standard_error:.1g})"


# --- the law -----------------------------------------------------------------------------------


def entropy(ball: NormBall, epsilon: float) -> Estimate:
    r""":math:`\log\{(e/\epsilon)^m\, m!\, \mathrm{vol}(K)\}` (Proposition 3.14 of Awan and
    Slavković, 2021).

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> round(entropy(LpBall(2, np.inf, 2.0), 1.0).value, 10)
    5.4657359028
    """
    m, rate = ball.rank, check_positive("epsilon", epsilon)
    volume = ball.volume_info
    value = m * (1.0 - math.log(rate)) + math.lgamma(m + 1) + volume.log_value
    return Estimate(value, volume.standard_error)


@tells_arguments
def information_difference(statistic_entropy: float, ball: NormBall, epsilon: float) -> Estimate:
    """``I(T; Z) - I(Z; V) = H(T) - H(V)`` for noise V independent of the statistic, Z = T + V.

    How much more a release tells about the statistic than about its own noise (Section 3.2 of Awan
    and Slavković, 2021): whatever the law of T, it is largest for the noise of least entropy.
    ``statistic_entropy`` is H(T), in nats, on the span of the ball.

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> round(information_difference(0.0, LpBall(1, 1), 1.0).value, 6)  # Laplace(1): 1 + log 2
    -1.693147
    """
    check_balls("ball", ball)
    known, noise = check_real("statistic_entropy", statistic_entropy), entropy(ball, epsilon)
    return Estimate(known - noise.value, noise.standard_error)


def concentration_radius(ball: NormBall, epsilon: float, alpha: float) -> float:
    """The t for which ``t K`` holds probability ``alpha``: a Gamma(m, epsilon) quantile.

    ``t K`` is the smallest set of that probability (Lemma 3.5 of Awan and Slavković, 2021).

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> round(concentration_radius(LpBall(2, 1), 1.0, 0.95), 10)
    4.7438645184
    """
    from scipy.special import gammaincinv

    level, rate = check_probability("alpha", alpha), check_positive("epsilon", epsilon)
    return float(gammaincinv(ball.rank, level)) / rate


def depth(ball: NormBall, epsilon: float, x: ArrayLike) -> float | FloatArray:
    """Depth of points: 1 - the probability of the concentration set through them (Theorem 3.11).

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> depth(LpBall(2, 2), 1.0, [0.0, 0.0])
    1.0
    """
    from scipy.special import gammaincc

    values = gammaincc(ball.rank, check_positive("epsilon", epsilon) * np.asarray(ball.gauge(x)))
    return float(values) if np.ndim(values) == 0 else np.asarray(values)


def covariance(ball: NormBall, epsilon: float) -> SecondMoment:
    """Marginal covariance: V = r U with r ~ Gamma(m+1, epsilon), so E r^2 = (m+1)(m+2)/epsilon^2.

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> float(covariance(LpBall(2, 1), 1.0).value[0, 0])  # Laplace(1): variance 2
    2.0
    """
    moment, factor = ball.second_moment, _square_radius(ball, epsilon)
    return SecondMoment(factor * moment.value, factor * moment.standard_error)


def variances(ball: NormBall, epsilon: float) -> FloatArray:
    """The diagonal of :func:`covariance`, without the matrix where a formula tells it.

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> variances(LpBall(2, 1), 1.0)
    array([2., 2.])
    """
    return _square_radius(ball, epsilon) * ball.entry_moments()


def _square_radius(ball: NormBall, epsilon: float) -> float:
    return (ball.rank + 1) * (ball.rank + 2) / check_positive("epsilon", epsilon) ** 2


def conditional_variance(
    ball: NormBall, epsilon: float, direction: ArrayLike, *, reading: str = "slab"
) -> float:
    """Variance of V . e given that V lies on the line of the unit vector e.

    "On a line" is an event of probability 0, and two ways of shrinking to it give two laws
    (erratum to Lemma 4.4 / 3.16 of Awan and Slavković, 2021): ``reading="slab"`` (a thin slab
    around the line) gives a Laplace law with variance 2 / (epsilon gauge(e))^2; ``reading="cone"``
    (a thin cone) gives a signed Gamma(m) law with variance m(m+1) / (epsilon gauge(e))^2. Both are
    ordered by containment.

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> round(conditional_variance(LpBall(2, 1), 1.0, [0.6, 0.8]), 4)
    1.0204
    """
    e = check_array("direction", direction, 1, ball.dim)
    length = float(np.linalg.norm(e))
    if length == 0:
        fail("`direction` must not be the zero vector.")
    m = ball.rank
    factor = {"slab": 2.0, "cone": m * (m + 1.0)}[
        check_choice("reading", reading, ("slab", "cone"))
    ]
    return factor / (check_positive("epsilon", epsilon) * float(ball.gauge(e / length))) ** 2


def expected_loss(ball: NormBall, epsilon: float, p: float) -> Estimate:
    """Expected l_p norm of the noise: by quadrature in two dimensions, otherwise simulated.

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> round(expected_loss(LpBall(2, np.inf, [100, 1]), 1.0, np.inf).value, 6)
    150.005
    """
    mean = _mean_norm(ball, check_exponent(p))
    # V = r U with r ~ Gamma(m+1, epsilon)
    factor = (ball.rank + 1) / check_positive("epsilon", epsilon)
    return Estimate(factor * mean.value, factor * mean.standard_error)


def _mean_norm(ball: NormBall, p: float) -> Estimate:
    """E ||U||_p of a uniform point of the ball."""
    if ball.dim == 1:
        return Estimate(float(ball.bounding_box()[0]) / 2)
    if ball.dim == 2 and ball.rank == 2:
        return Estimate(_planar_mean_norm(ball, p))
    norms = lp_norm(ball.measuring_points, p)
    return Estimate(float(norms.mean()), float(norms.std(ddof=1) / math.sqrt(len(norms))))


def _planar_mean_norm(ball: NormBall, p: float) -> float:
    # In polar form with rho(t) = 1/gauge(e_t): E ||U||_p = (2/3) int rho^3 ||e_t||_p / int rho^2
    corners = ball.vertices()
    knots = [np.linspace(0.0, np.pi, 721)]
    if corners is not None:
        knots.append(np.arctan2(corners[:, 1], corners[:, 0]) % np.pi)
    edges = np.unique(np.concatenate(knots))
    nodes, weights = np.polynomial.legendre.leggauss(12)
    half = np.diff(edges)[:, None] / 2
    angle = (edges[:-1, None] + half + half * nodes).ravel()
    weight = (half * weights).ravel()
    e = np.column_stack([np.cos(angle), np.sin(angle)])
    rho = 1.0 / ball._gauge(e)
    return float(2 / 3 * (weight @ (rho**3 * lp_norm(e, p))) / (weight @ rho**2))


# --- the orders ---------------------------------------------------------------------------------


@tells_arguments
def containment_order(ball: NormBall, other: NormBall) -> int | None:
    """-1, 0 or 1 as the first ball lies inside the second, equals it or holds it; None if neither.

    Of their noises, equivalently: the one of the smaller ball is *stochastically tighter* (Theorem
    3.6 of Awan and Slavković, 2021), less *dispersed* (Corollary 3.12), and has the smaller
    conditional variance in every direction (Theorem 3.17). It implies :func:`volume_order`.

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> containment_order(LpBall(2, np.inf, 2.0), LpBall(2, 2, 3.0))
    -1
    >>> containment_order(LpBall(2, 1, 3.125), LpBall(2, np.inf, 2.0)) is None
    True
    """
    _check_pair(ball, other)
    inside, outside = bool(containment(ball, other)), bool(containment(other, ball))
    if inside and outside:
        return 0
    return -1 if inside else 1 if outside else None


@tells_arguments
def volume_order(ball: NormBall, other: NormBall) -> int:
    """-1, 0 or 1 as the first ball is smaller, equal or larger in volume.

    Of their noises, equivalently: in entropy (Theorem 3.15 of Awan and Slavković, 2021), and in how
    *scattered* they are (Corollary 3.12). A flat ball is smaller than any that is less flat.
    Estimated volumes closer than 4 standard errors compare as equal.

    >>> from tightdp.geometry.norm_balls import LpBall
    >>> volume_order(LpBall(2, 1, 3.125), LpBall(2, np.inf, 2.0))
    1
    """
    _check_pair(ball, other)
    if ball.rank != other.rank:
        return -1 if ball.rank < other.rank else 1
    first, second = ball.volume_info, other.volume_info
    gap = first.log_value - second.log_value
    slack = 4.0 * math.hypot(first.standard_error, second.standard_error) + 1e-12
    return 0 if abs(gap) <= slack else (-1 if gap < 0 else 1)


def _check_pair(ball: NormBall, other: NormBall) -> None:
    """Two balls of one dimension."""
    check_balls("ball", ball)
    check_balls("other", other)
    if ball.dim != other.dim:
        fail(f"Both balls must have one dimension. Got {ball.dim}, {other.dim}.", DimensionError)
