"""Continuous K-norm noise, for analysis, plots and simulations."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import ArrayLike

from tightdp.errors import FloatArray, check_count, check_probability, fail
from tightdp.geometry import orders
from tightdp.geometry.norm_balls import NormBall, SecondMoment
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
        at_zero = self.ball.rank - orders.entropy(self.ball, self.epsilon).value
        values = at_zero - self.epsilon * np.asarray(self.ball.gauge(v))
        return float(values) if values.ndim == 0 else values

    def entropy(self) -> float:
        """Differential entropy."""
        return orders.entropy(self.ball, self.epsilon).value

    def covariance(self) -> FloatArray:
        """Marginal covariance matrix; see :meth:`covariance_info` for its standard error."""
        return self.covariance_info().value

    def covariance_info(self) -> SecondMoment:
        """Marginal covariance with entrywise standard errors (0 where exact)."""
        return orders.covariance(self.ball, self.epsilon)

    def expected_loss(self, p: float) -> orders.Estimate:
        """Expected l_p norm of the noise, with its standard error."""
        return orders.expected_loss(self.ball, self.epsilon, p)

    def conditional_variance(self, direction: ArrayLike, *, reading: str = "slab") -> float:
        """Variance along a direction given that the noise lies on that line."""
        return orders.conditional_variance(self.ball, self.epsilon, direction, reading=reading)

    def depth(self, x: ArrayLike) -> Any:
        """Depth of points within the noise: 1 at the centre, 0 far away."""
        return orders.depth(self.ball, self.epsilon, x)

    def concentration_radius(self, alpha: float) -> float:
        """The t for which ``t K`` has probability exactly ``alpha``."""
        return orders.concentration_radius(self.ball, self.epsilon, alpha)

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
