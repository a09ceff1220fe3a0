"""Continuous K-norm noise and the formulas of its law: for choices, stated errors, simulations.

The density is proportional to ``exp(-epsilon gauge_K(v))``, where K already contains the
sensitivity space (its radius is the sensitivity). Every formula of the law has its home here, as a
function of the ball; :class:`KNormNoise` is its face.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import (
    FloatArray,
    check_array,
    check_choice,
    check_count,
    check_positive,
    check_probability,
    check_real,
    fail,
)
from tightdp.geometry.norm_balls import (
    NormBall,
    SecondMoment,
    check_balls,
    check_exponent,
    lp_norm,
)
from tightdp.noise.lattice import LatticeNoise
from tightdp.noise.on_lattice import lattice_noise
from tightdp.parameters import tells_arguments
from tightdp.privacy import Numerics, check_epsilon, float_up, text_up
from tightdp.randomness import RandomLike, source


@tells_arguments
class KNormNoise:
    r"""Noise shaped like a norm ball: density :math:`\propto \exp(-\epsilon \|v\|_K)` on the span.

    .. math:: f(v) = \frac{\epsilon^m}{m!\,\mathrm{vol}(K)} \exp(-\epsilon \|v\|_K)

    where:

    - :math:`K` is ``ball``, scaled so that it contains the sensitivity space of the statistic,
    - :math:`\epsilon` is ``epsilon``,
    - :math:`m` is ``ball.rank``.

    **Privacy.**
    Statement: releasing :math:`T(X) + V` is epsilon-DP for the neighbour relation whose sensitivity
    space K contains.
    Needs: [P1] every :math:`T(X) - T(X')` of neighbours lies in K (``certify_contains``);
    [P2] V has the density above; [P3] real arithmetic.
    Proof: the normaliser does not depend on X, and by the triangle inequality
    :math:`\|t - T(X')\|_K - \|t - T(X)\|_K \le \|T(X) - T(X')\|_K \le 1` (P1), so the log ratio of
    densities at any t is at most epsilon (P2). Hardt and Talwar (2010), Proposition 2.8 of Awan and
    Slavković (2021). Numerics: ``idealized-numerics``: [P3] does not hold for floating-point draws.
    Use this class to analyse and simulate; :meth:`on_lattice` gives the exact integer noise for
    releases. Erratum: Algorithm 8 of Awan and Slavković (2021) draws the radius and forgets it, and
    its box need not cover K; here the radius multiplies a uniform point of K. The direction of V
    follows the cone measure of K, not its surface measure (erratum to Proposition 4.3 of Awan and
    Slavković, 2021).

    References: Awan and Slavković (2021), Hardt and Talwar (2010).

    Parameters
    ----------
    ball : NormBall
        The shape; its radius is the sensitivity.
    epsilon : float
        Privacy parameter, in [2**-40, 2**10].

    Examples
    --------
    >>> from tightdp import LpBall
    >>> noise = KNormNoise(LpBall(dim=2, p=np.inf, radius=2.0), epsilon=1.0)
    >>> noise.sample(3, rng=1).shape, round(noise.entropy(), 6)
    ((3, 2), 5.465736)
    >>> noise.covariance()
    array([[16.,  0.],
           [ 0., 16.]])
    """

    numerics = Numerics.IDEALIZED

    def __init__(self, ball: NormBall, epsilon: float) -> None:
        if not isinstance(ball, NormBall):
            fail(f"`ball` must be a NormBall. Got {type(ball).__name__}.")
        self.ball = ball
        self.epsilon = float_up(check_epsilon(epsilon))

    @property
    def dim(self) -> int:
        """Number of coordinates."""
        return self.ball.dim

    def sample(self, size: int | None = None, *, rng: RandomLike = None) -> FloatArray:
        """Draw noise vectors: a Gamma(m + 1, epsilon) radius times a uniform point of the ball."""
        count, bits = 1 if size is None else check_count("size", size, least=0), source(rng)
        radius = bits.gamma(self.ball.rank + 1, count) / self.epsilon
        draws = radius[:, None] * self.ball.sample(count, rng=bits)
        return draws[0] if size is None else draws

    def log_density(self, v: ArrayLike) -> Any:
        """Log density (with respect to volume in the span; -inf off it)."""
        # entropy = m - log(normaliser), by Proposition 3.14 of Awan and Slavković (2021)
        at_zero = self.ball.rank - entropy(self.ball, self.epsilon).value
        values = at_zero - self.epsilon * np.asarray(self.ball.gauge(v))
        return float(values) if values.ndim == 0 else values

    def entropy(self) -> float:
        """Differential entropy."""
        return entropy(self.ball, self.epsilon).value

    def covariance(self) -> FloatArray:
        """Marginal covariance matrix; see :meth:`covariance_info` for its standard error."""
        return self.covariance_info().value

    def covariance_info(self) -> SecondMoment:
        """Marginal covariance with entrywise standard errors (0 where exact)."""
        return covariance(self.ball, self.epsilon)

    def expected_loss(self, p: float) -> Estimate:
        """Expected l_p norm of the noise, with its standard error."""
        return expected_loss(self.ball, self.epsilon, p)

    def conditional_variance(self, direction: ArrayLike, *, reading: str = "slab") -> float:
        """Variance along a direction given that the noise lies on that line."""
        return conditional_variance(self.ball, self.epsilon, direction, reading=reading)

    def depth(self, x: ArrayLike) -> Any:
        """Depth of points within the noise: 1 at the centre, 0 far away."""
        return depth(self.ball, self.epsilon, x)

    def concentration_radius(self, alpha: float) -> float:
        """The t for which ``t K`` has probability exactly ``alpha``."""
        return concentration_radius(self.ball, self.epsilon, alpha)

    def concentration_set(self, alpha: float) -> NormBall:
        """The smallest set of probability ``alpha``: a multiple of the ball."""
        return self.ball.scaled(self.concentration_radius(alpha))

    def simultaneous_interval(self, alpha: float = 0.05) -> FloatArray:
        """Half-widths that cover all coordinates of the noise at once.

        The concentration set of probability ``1 - alpha`` lies in this box, so the coverage is at
        least ``1 - alpha``; for cubes the box is the set and the coverage is exact.
        """
        level = 1.0 - check_probability("alpha", alpha)
        return self.concentration_radius(level) * self.ball.bounding_box()

    def on_lattice(self, *, resolution: int | None = None) -> LatticeNoise:
        """The exact integer noise of the same shape and epsilon, for releases.

        Values are multiples of ``1 / resolution``; see :func:`~tightdp.lattice_noise`.
        """
        return lattice_noise(self.ball, self.epsilon, resolution=resolution)

    def __repr__(self) -> str:
        return f"KNormNoise({self.ball!r}, epsilon={text_up(self.epsilon)})"


# --- the law --------------------------------------------------------------------------------------


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
